"""The final model of a result: estimates as a table, how well they fit, what they assume, and predictions.

`columns` says how values become terms, `rows` makes terms of new rows, `responses` makes predictions of them;
`likelihoods` and `checks` look at the fit, `table` shows it, and `make` puts a model together.
"""

from fbed.result.fitted.checks import Baseline, Check
from fbed.result.fitted.columns import Column
from fbed.result.fitted.model import FinalModel

__all__ = ["Baseline", "Check", "Column", "FinalModel"]
