"""The statistic of one variable as a number, by the bounds of a fit where they cost less than fits."""

from __future__ import annotations

import numpy as np

from fbed.models.base import Fit, is_certified
from fbed.rules.p_values import Floats


def gain_of(fit: Fit, variable: int) -> tuple[float, float]:
    """The statistic of adding a variable, and its df."""
    one = np.array([variable], dtype=np.intp)
    if not is_certified(fit) or not fit.bounds_are_cheap:
        found = fit.gains(one)
        return float(found.statistic[0]), float(found.df[0])
    fit.prepare(1, np.inf)
    bounds = fit.gain_bounds(one, _out_of_reach)
    lower, upper = bounds.lower, bounds.upper
    if lower[0] < upper[0]:
        lower, upper = fit.contest(one, lower, upper, False)
    return float(lower[0]), float(bounds.df[0])


def loss_of(fit: Fit, variable: int) -> float:
    """The statistic of removing a variable."""
    one = np.array([variable], dtype=np.intp)
    if not is_certified(fit) or not fit.bounds_are_cheap:
        return float(fit.losses(one).statistic[0])
    bounds = fit.loss_bounds(one, _out_of_reach)
    return float(bounds.lower[0] if bounds.lower[0] == bounds.upper[0] else fit.resolve_loss(variable, np.inf)[0])


def _out_of_reach(df: Floats) -> Floats:
    """A critical value that nobody has to be compared with."""
    return np.full(df.shape, np.inf)
