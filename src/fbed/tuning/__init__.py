"""From a selection to predictions: settings chosen by cross-validation, final models, honest performance.

`folds` says which rows are held out, `grid` searches every configuration in every fold (`store` keeps what is done),
`heldout` predicts, `scores` and `concordance` judge, `choice` chooses, `bbc` says what the whole procedure is worth,
`calibration` whether predictions mean what they say, and `performance` holds it all. `final_models` estimates
on what was selected, with `likelihood`, `penalised`, `firth` and `shrinkage`. `tune` puts it together, `validate` looks
at new rows, and `predictors` are the scikit-learn estimators.
"""

from fbed.tuning.tune import Tuned, tune

__all__ = ["Tuned", "tune"]
