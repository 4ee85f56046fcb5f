"""fbed: forward-backward selection with early dropping, exact stepwise and Markov-blanket feature selection."""

from __future__ import annotations

from fbed.criteria import AIC, BIC, EBIC, LikelihoodRatio
from fbed.errors import InvalidInput
from fbed.progress import Progress
from fbed.result import Result
from fbed.selection import select

__version__ = "0.1.0"
__all__ = ["AIC", "BIC", "EBIC", "InvalidInput", "LikelihoodRatio", "Progress", "Result", "select"]
