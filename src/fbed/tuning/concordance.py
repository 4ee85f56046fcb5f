"""How often the riskier of two rows that can be compared is the one that fares worse, for many weightings at once.

    C = Σ w_i w_j [1(r_i > r_j) + ½·1(r_i = r_j)] / Σ w_i w_j   over pairs in which i has its event before j's time

Risks are compared within their fold only, since those of different models are not on one scale. The area under the ROC
curve is the same with 'positive' for 'event first'; probabilities are on one scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import concordant_pairs
from fbed.rules.p_values import Floats
from fbed.tuning.folds import Rows


def area_parts(positive: NDArray[np.bool_], risk: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Concordant and all pairs of a positive and a negative row, for every row of `weights` (weightings × rows)."""
    won, pairs = area_of_rows(positive, risk, weights)
    return won.sum(axis=1), pairs.sum(axis=1)


def area_of_rows(positive: NDArray[np.bool_], risk: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The same by the positive row of a pair: weightings × rows, 0 for negative ones."""
    order = np.argsort(risk, kind="stable")
    w, up = weights.take(order, axis=1), positive[order]  # three times as quick as by an index
    below, level = _ties(risk[order])
    negative = np.where(up, 0.0, w)
    before = np.concatenate([np.zeros((len(w), 1)), np.cumsum(negative, axis=1)], axis=1)
    at_risk = before.take(below, axis=1)  # lower risk counts fully, the same risk half
    at_risk += before.take(level, axis=1)
    at_risk *= 0.5
    own = np.where(positive, weights, 0.0)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return own * at_risk.take(back, axis=1), own * before[:, -1:]


def _ties(values: Floats) -> tuple[Rows, Rows]:
    """For sorted values, how many are smaller, and how many are not larger."""
    return np.searchsorted(values, values, "left"), np.searchsorted(values, values, "right")


def concordance_parts(time: Floats, event: NDArray[np.bool_], risk: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Concordant and comparable pairs, as Harrell counts them: a row censored at the time of an event outlived it."""
    time, risk, weights = (np.ascontiguousarray(values, dtype=np.float64) for values in (time, risk, weights))
    return concordant_pairs(time, np.ascontiguousarray(event, dtype=bool), risk, weights)


def area_at(
    time: Floats, event: NDArray[np.bool_], risk: Floats, horizon: float, free: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Pairs of the area under the ROC curve at a time: events up to it against rows that are still there after it.

    Events count by the inverse probability `free` of being uncensored until then (Uno et al. 2007).
    """
    case = event & (time <= horizon) & (free > 0)
    known = case | (time > horizon)
    scaled = weights * np.where(case, 1.0 / np.where(free > 0, free, 1.0), 1.0)
    return area_parts(case[known], risk[known], scaled[:, known])


def uncensored(time: Floats, event: NDArray[np.bool_], weights: Floats) -> Floats:
    """Kaplan and Meier's probability of being uncensored just before each row's time."""
    moments, place = np.unique(time, return_inverse=True)
    censored = np.bincount(place, np.where(event, 0.0, weights), len(moments))
    there = np.bincount(place, weights, len(moments))[::-1].cumsum()[::-1]
    died = np.bincount(place, np.where(event, weights, 0.0), len(moments))
    left = np.maximum(there - died, 1e-300)  # events come before censoring at the same time
    survival = np.cumprod(1.0 - np.minimum(censored / left, 1.0))
    return np.concatenate([[1.0], survival[:-1]])[place]
