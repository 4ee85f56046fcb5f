"""Bounds on the number of false selections over complementary pairs of halves (Shah and Samworth 2013).

A search on a half selects at most q of p candidates. Over B pairs of halves, a candidate is kept when it was selected
in at least a part π of the 2B halves. The expected number of candidates that are kept although a search selects them
with probability q/p or less is bounded, more tightly the more is assumed about how often both halves of a pair agree:

    nothing      q²/((2π − 1)p)
    unimodal     the distribution of their number of agreements has one peak
    r-concave    and falls off at least like a power
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from fbed.errors import InvalidInput

ASSUMPTIONS = ("none", "unimodal", "r-concave")
_AGREEMENTS, _SELECTIONS = -0.5, -0.25  # r of the agreements of pairs, and of selections in single halves
_LARGEST = 1e5  # where a power law is as good as flat
_ROUNDING = 1e-9


def expected_false(q: int, p: int, threshold: float, pairs: int, assumption: str) -> float:
    """The bound; infinite where the assumption gives none."""
    return _BOUNDS[assumption](q, p, threshold, pairs)


def _worst_case(q: int, p: int, threshold: float, pairs: int) -> float:
    return q * q / ((2.0 * threshold - 1.0) * p) if threshold > 0.5 else math.inf


def _unimodal(q: int, p: int, threshold: float, pairs: int) -> float:
    rate, step = q / p, 1.0 / (2.0 * pairs)
    if rate > 1.0 / math.sqrt(3.0):
        return math.inf
    if threshold > 0.75:
        return 4.0 * (1.0 - threshold + step) / (1.0 + 1.0 / pairs) * q * q / p
    if threshold < 0.5 + min(rate**2, step + 0.75 * rate**2) or 2.0 * threshold - 1.0 <= step + _ROUNDING:
        return math.inf
    return q * q / p / (2.0 * (2.0 * threshold - 1.0 - step))


def _r_concave(q: int, p: int, threshold: float, pairs: int) -> float:
    """Both halves of a pair agree with probability (q/p)² at most; single halves select with probability q/p."""
    least = math.ceil(threshold * 2 * pairs - _ROUNDING)  # halves that must have selected it
    by_pairs = largest_tail((q / p) ** 2, least - pairs, pairs, _AGREEMENTS)
    by_halves = largest_tail(q / p, least, 2 * pairs, _SELECTIONS)
    return p * min(1.0, by_pairs, by_halves)


_BOUNDS: dict[str, Callable[[int, int, float, int], float]] = {
    "none": _worst_case,
    "unimodal": _unimodal,
    "r-concave": _r_concave,
}


@cache
def largest_tail(mean: float, least: int, n: int, r: float) -> float:
    """The largest probability of {X ≥ least} for X in 0 … n with mean n·mean and an r-concave distribution, r < 0.

    The worst of them follow a power law (a + i)^(1/r) on 0 … k, with what is left of the probability at k + 1; the mean
    ties that rest to a, so that k and a are all there is to search.
    """
    total = mean * n
    first = math.ceil(2.0 * total - _ROUNDING) + 1
    if least < first or first > n:
        return 1.0
    ends = [_LARGEST]  # a of the power law on 0 … k that has the mean by itself
    for k in range(first, n + 1):
        ends.append(_shift_for(total, k, 1.0 / r, ends[-1]))
    worst = 0.0
    for k in range(max(first, least - 1), n):  # shorter ones do not reach the tail
        low, high = ends[k - first + 2], ends[k - first + 1]
        worst = max(worst, _worst_between(total, least, k, 1.0 / r, low, high))
    return min(1.0, worst)


def _shift_for(total: float, k: int, power: float, most: float) -> float:
    i = np.arange(k + 1.0)

    def excess(log_a: float) -> float:
        mass = (1.0 + i * math.exp(-log_a)) ** power  # (a + i)^power up to a factor
        return float(i @ mass / mass.sum()) - total

    top = math.log(most) + 1e-6
    if excess(top) <= 0.0:
        return most
    return math.exp(brentq(excess, math.log(1e-9), top, xtol=1e-13))


def _worst_between(total: float, least: int, k: int, power: float, low: float, high: float) -> float:
    i = np.arange(k + 1.0)

    def below(a: float) -> float:
        """Minus the probability of the tail."""
        mass = (1.0 + i / a) ** power
        return float((k + 1.0 - total) * mass[:least].sum() / ((k + 1.0 - i) @ mass)) - 1.0

    if high - low <= 1e-12 * high:
        return -below(high)
    found = minimize_scalar(below, bounds=(low, high), method="bounded", options={"xatol": 1e-8 * high})
    return -min(float(found.fun), below(low), below(high))


def largest_q(pfer: float, p: int, threshold: float, pairs: int, assumption: str) -> int:
    """As many entries as a search may make for the bound to stay at `pfer`."""
    low, high = 0, p
    while low < high:  # the bound grows with q
        middle = (low + high + 1) // 2
        if expected_false(middle, p, threshold, pairs, assumption) <= pfer * (1.0 + _ROUNDING):
            low = middle
        else:
            high = middle - 1
    if low == 0:
        raise InvalidInput(
            f"no search can have so few false selections: with {p:,} candidates, threshold {threshold:g} and a single "
            f"entry the bound is {expected_false(1, p, threshold, pairs, assumption):.3g}, above pfer={pfer:g}: raise "
            "pfer or the threshold"
        )
    return low


def smallest_threshold(pfer: float, q: int, p: int, pairs: int, assumption: str) -> float:
    """The part of the halves that must agree for the bound to stay at `pfer`."""
    for halves in range(pairs + 1, 2 * pairs + 1):
        if expected_false(q, p, halves / (2 * pairs), pairs, assumption) <= pfer * (1.0 + _ROUNDING):
            return halves / (2 * pairs)
    raise InvalidInput(
        f"no threshold keeps the bound at pfer={pfer:g} when a search may select q={q} of {p:,} candidates: lower q or "
        "raise pfer"
    )
