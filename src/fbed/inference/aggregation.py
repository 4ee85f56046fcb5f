"""Many p-values for the same hypothesis, and many intervals for the same number, made into one.

Meinshausen, Meier and Bühlmann (2009): the γ-quantile of p-values, divided by γ, is a p-value whatever their
dependence; so is the smallest of these over γ ≥ γ₀, times 1 − log γ₀.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from fbed.rules.p_values import Floats

SMALLEST_QUANTILE = 0.05  # γ₀; the authors' choice


def combined(p_values: Floats, smallest: float = SMALLEST_QUANTILE) -> Floats:
    """One p-value a column, from p-values of splits (rows), by the best quantile."""
    n = len(p_values)
    if n == 1:
        return np.asarray(p_values[0])
    first = _first(n, smallest)
    order = np.arange(first, n + 1)
    ranked = np.sort(p_values, axis=0)[first - 1 :]
    best = (ranked * (n / order)[:, None]).min(axis=0)
    return np.minimum(1.0, (1.0 - math.log(smallest)) * best)


def combined_sparse(p_values: Floats, n: int, smallest: float = SMALLEST_QUANTILE) -> float:
    """The same for one hypothesis, of whose n p-values only those below 1 are given."""
    whole = np.ones(n)
    whole[: len(p_values)] = p_values
    return float(combined(whole[:, None], smallest)[0])


def discoveries(p_values: Floats) -> Floats:
    """q-values from p-values that hold familywise: the rate of false discoveries, whatever their dependence.

    The i-th smallest p-value is compared with i·q / Σ 1/j (Meinshausen, Meier and Bühlmann 2009, section 3). A p-value
    of 1 was cut there: it may stand for any larger number, and is no discovery at any rate.
    """
    p = len(p_values)
    order = np.argsort(p_values, kind="stable")
    ratio = p_values[order] / np.arange(1, p + 1) * (1.0 / np.arange(1, p + 1)).sum()
    out = np.empty(p)
    ratio[p_values[order] >= 1.0] = 1.0
    out[order] = np.minimum(1.0, np.minimum.accumulate(ratio[::-1])[::-1])
    return out


def interval(
    estimates: Floats,
    errors: Floats,
    degrees: Floats,
    tested: Floats,
    n: int,
    level: float = 0.05,
    smallest: float = SMALLEST_QUANTILE,
) -> tuple[float, float]:
    """Numbers that the combined p-value of n splits does not reject; splits without an estimate reject none.

    `degrees` are those of t (∞: normal), `tested` the number of hypotheses that each split allows for. What is not
    rejected need not be an interval: the answer is the smallest that holds all of it at every quantile.
    """
    first = _first(n, smallest) if n > 1 else 1
    price = 1.0 - math.log(smallest) if n > 1 else 1.0
    low, high = -math.inf, math.inf
    for order in range(first, n + 1):
        needed = n - order + 1 - (n - len(estimates))  # of the splits with an estimate that must agree
        if needed <= 0:
            continue
        half = errors * stats.t.isf(level * order / (n * price * tested) / 2.0, degrees)
        ends = _covered(estimates - half, estimates + half, needed)
        low, high = max(low, ends[0]), min(high, ends[1])
    return (low, high) if low <= high else (math.nan, math.nan)


def _covered(lower: Floats, upper: Floats, needed: int) -> tuple[float, float]:
    """The first and the last point that lies in so many intervals."""
    lower, upper = np.sort(lower), np.sort(upper)
    opened = np.arange(1, len(lower) + 1) - np.searchsorted(upper, lower, side="left")
    closed = len(upper) - np.arange(len(upper)) - (len(lower) - np.searchsorted(lower, upper, side="right"))
    if not (opened >= needed).any():
        return math.inf, -math.inf
    return float(lower[np.argmax(opened >= needed)]), float(upper[len(upper) - 1 - np.argmax(closed[::-1] >= needed)])


def _first(n: int, smallest: float) -> int:
    return max(1, math.ceil(smallest * n - 1e-9))
