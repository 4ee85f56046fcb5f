"""Which configuration is chosen: the best, or the one with the fewest variables within a standard error of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.rules.p_values import Floats

RULES = ("min", "1se")
"""'min' has the best score (the least deviance), '1se' the fewest variables within one standard error of that."""

_TIED = 1e-9  # relative difference up to which scores are the same but for rounding


def check_rule(rule: str) -> None:
    """Refuse what is no rule."""
    if rule not in RULES:
        raise InvalidInput(
            "choose must be 'min' (the best score) or '1se' (the fewest variables within a standard error of it), "
            f"got {rule!r}"
        )


def choose(value: Floats, error: Floats, sizes: Floats, rule: str) -> NDArray[np.intp]:
    """The configuration chosen for every weighting; `value` and `error` are weightings × configurations.

    Among those that are good enough, the fewest variables win, then the better score, then the earlier one.
    """
    known = np.where(np.isnan(value), -np.inf, value)
    best = known.argmax(axis=1)[:, None]
    top = np.take_along_axis(known, best, axis=1)
    slack = _TIED * np.maximum(1.0, np.abs(top))
    if rule == "1se":
        slack = slack + np.nan_to_num(np.take_along_axis(error, best, axis=1))
    enough = known >= top - slack
    few = np.where(enough, sizes, np.inf)
    fewest = few <= few.min(axis=1, keepdims=True) + 1e-12
    return np.where(fewest & enough, known, -np.inf).argmax(axis=1)
