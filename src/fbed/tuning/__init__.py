"""From a selection to predictions: settings chosen by cross-validation, final models, honest performance.

`folds` says which rows are held out, `grid` searches every configuration in every fold, `heldout` predicts, `scores` and
`concordance` judge, `choice` chooses, `bbc` says what the whole procedure is worth, `calibration` whether predictions mean
what they say. `final_models` estimates on what was selected: `likelihood`, `penalised`, `firth`, `shrinkage`. `tune` puts
it together, `predictors` are the scikit-learn estimators and `commands` the command line.
"""

from fbed.tuning.tune import Tuned, tune

__all__ = ["Tuned", "tune"]
