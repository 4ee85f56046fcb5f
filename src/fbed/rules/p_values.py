"""Logarithms of upper tail probabilities that never become −inf.

Ranking by p-value needs an order among variables whose p-values underflow: `scipy.stats.chi2.logsf(5000, 1)` is −inf,
and two such variables would tie. Far in the tail the functions here evaluate continued fractions in logarithms.

A *reference distribution* says what a statistic (a difference of deviances) means: `ChiSquare` for likelihood-ratio
tests, `ExactF` for the linear model, where the statistic n·log(RSS₀/RSS₁) is a monotone function of F.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

_SMALLEST_TAIL = 1e-290  # of a probability that is a number like others
_LOG_SMALLEST_TAIL = math.log(_SMALLEST_TAIL)
_TINY = 1e-300  # keeps Lentz's recurrences away from a division by zero
_PRECISION = 1e-15  # a fraction that has come this close is left alone: further terms would only add rounding
_MAX_TERMS = 20_000  # the fractions converge in O(√a) terms; this is far beyond any use and bounds the loop
_FEW_DF = 256  # up to which one by one is quicker than all at once
_MAX_NEWTON = 200  # from above, Newton's method needs a handful of steps


def _by_df(critical: Callable[[float, float], float], alpha: float, df: ArrayLike) -> Floats:
    """Critical values for each df; there are few different ones, and each is slow to find."""
    df = np.asarray(df, dtype=float)
    first = df.item(0) if df.size else np.nan
    if first == first and (df.size == 1 or (df == first).all()):
        out = np.empty(df.shape)
        out.fill(critical(alpha, first))
        return out
    if df.size <= _FEW_DF:
        values = df.ravel().tolist()
        found = {value: critical(alpha, value) for value in set(values) if value == value}
        return np.array([found.get(value, np.nan) for value in values], dtype=float).reshape(df.shape)
    out = np.full(df.shape, np.nan)
    todo = df == df  # not NaN
    while todo.any():
        value = float(df.flat[int(todo.argmax())])
        same = df == value
        np.copyto(out, critical(alpha, value), where=same)
        todo &= ~same
    return out


@cache
def _chi2_isf(alpha: float, df: float) -> float:
    return 2.0 * float(special.gammainccinv(df / 2.0, alpha)) if df > 0 else np.inf


@lru_cache(maxsize=2**14)
def _f_isf(alpha: float, df: float, denominator: float) -> float:
    """log(RSS₀/RSS₁) at which F has p-value alpha."""
    x = float(special.betaincinv(denominator / 2.0, df / 2.0, alpha)) if df > 0 and denominator > 0 else 0.0
    return -math.log(x) if x > 0 else math.inf


class Reference(Protocol):
    """What a statistic follows when the candidate is conditionally independent of the outcome."""

    def log_sf(self, statistic: ArrayLike, df: ArrayLike) -> Floats:
        """Log p-value of each statistic."""

    def isf(self, alpha: float, df: ArrayLike) -> Floats:
        """Statistic whose p-value is alpha."""


@dataclass(frozen=True)
class ChiSquare:
    """χ² with df degrees of freedom: the likelihood-ratio, score and Wald tests."""

    def log_sf(self, statistic: ArrayLike, df: ArrayLike) -> Floats:
        """log P(χ²_df > statistic); 0 where df = 0."""
        return chi2_log_sf(statistic, df)

    def isf(self, alpha: float, df: ArrayLike) -> Floats:
        """Critical value at level alpha; +inf where df = 0, since nothing was tested there."""
        return _by_df(_chi2_isf, alpha, df)


@dataclass(frozen=True)
class ExactF:
    """The linear model: statistic = n·log(RSS₀/RSS₁), F = (RSS₀ − RSS₁)/df ÷ RSS₁/(residual_df − df).

    `residual_df` belongs to the model that the tests of one scan share: the smaller one when candidates are added,
    the larger one when variables are removed (`shares_larger`).
    """

    n: float
    residual_df: float
    shares_larger: bool = False

    def log_sf(self, statistic: ArrayLike, df: ArrayLike) -> Floats:
        """log P(F > f) = log I_x(residual/2, df/2) at x = RSS₁/RSS₀ = exp(−statistic/n)."""
        statistic, df = np.broadcast_arrays(np.asarray(statistic, dtype=float), np.asarray(df, dtype=float))
        out = np.zeros(statistic.shape)
        denominator = self._denominator(df)
        testable = (df > 0) & (statistic > 0) & (denominator > 0)
        out[testable] = log_betainc_from_log(
            -statistic[testable] / self.n, denominator[testable] / 2.0, df[testable] / 2.0
        )
        return out

    def isf(self, alpha: float, df: ArrayLike) -> Floats:
        """Critical value of n·log(RSS₀/RSS₁) at level alpha; +inf where there is nothing left to test."""
        found = _by_df(self._critical, alpha, df)
        return np.where(np.isnan(found), np.inf, found)

    def _critical(self, alpha: float, df: float) -> float:
        return self.n * _f_isf(alpha, df, self.residual_df if self.shares_larger else self.residual_df - df)

    def _denominator(self, df: Floats) -> Floats:
        return np.full(df.shape, self.residual_df) if self.shares_larger else self.residual_df - df


def chi2_log_sf(statistic: ArrayLike, df: ArrayLike) -> Floats:
    """log Q(df/2, statistic/2), the logarithm of the upper χ² tail, finite for any finite statistic."""
    statistic, df = np.asarray(statistic, dtype=float), np.asarray(df, dtype=float)
    if statistic.shape != df.shape:
        statistic, df = np.broadcast_arrays(statistic, df)
    x, a = np.maximum(statistic, 0.0) / 2.0, df / 2.0
    one = df == 1.0
    if one.all():
        return np.asarray(np.minimum(_log_two_normal_tails(x), 0.0))
    out = np.zeros(statistic.shape)
    out[one] = _log_two_normal_tails(x[one])
    far = ~one & (df > 0) & (x > a + 1.0)
    tail = special.gammaincc(a[far], x[far])
    tiny = tail < _SMALLEST_TAIL
    out[far] = np.log(np.where(tiny, 1.0, tail))
    if tiny.any():
        beyond = np.zeros(statistic.shape, dtype=bool)
        beyond[far] = tiny
        out[beyond] = _log_upper_gamma(a[beyond], x[beyond])
    near = ~one & (df > 0) & (x <= a + 1.0)
    out[near] = np.log1p(-special.gammainc(a[near], x[near]))
    return np.minimum(out, 0.0)


def _log_two_normal_tails(x: Floats) -> Floats:
    return np.asarray(np.log(2.0) + special.log_ndtr(-np.sqrt(2.0 * x)))


def _log_upper_gamma(a: Floats, x: Floats) -> Floats:
    """log Q(a, x) for x > a + 1, by Lentz's evaluation of Legendre's continued fraction."""
    b = x + 1.0 - a
    c = np.full_like(x, 1.0 / _TINY)
    d = 1.0 / b
    h = d.copy()
    done = np.zeros(x.shape, dtype=bool)
    for i in range(1, _MAX_TERMS):
        term = -i * (i - a)
        b = b + 2.0
        d = 1.0 / _away_from_zero(term * d + b)
        c = _away_from_zero(b + term / c)
        h *= np.where(done, 1.0, d * c)
        done |= np.abs(d * c - 1.0) < _PRECISION
        if done.all():
            break
    return a * np.log(x) - x - special.gammaln(a) + np.log(h)


def chi2_of_log_p(log_p: ArrayLike, df: ArrayLike) -> Floats:
    """The χ² statistic with a given log p-value, however small that is; 0 where df = 0.

    For one df it is the square of a normal quantile. Otherwise Newton's method comes down to it from above: log Q is
    concave and falls, so that no step goes too far.
    """
    log_p, df = np.broadcast_arrays(np.asarray(log_p, dtype=float), np.asarray(df, dtype=float))
    out = np.zeros(log_p.shape)
    one, more = (df == 1.0) & (log_p < 0.0), (df > 1.0) & (log_p < 0.0)
    out[one] = special.ndtri_exp(log_p[one] - np.log(2.0)) ** 2
    if more.any():
        out[more] = _chi2_by_newton(log_p[more], df[more])
    return out


def _chi2_by_newton(log_p: Floats, df: Floats) -> Floats:
    a = df / 2.0
    x = df - 2.0 * log_p
    while (short := chi2_log_sf(x, df) > log_p).any():
        x = np.where(short, 2.0 * x, x)
    for _ in range(_MAX_NEWTON):
        tail = chi2_log_sf(x, df)
        hazard = np.exp(special.xlogy(a - 1.0, x / 2.0) - x / 2.0 - special.gammaln(a) - np.log(2.0) - tail)
        step = (tail - log_p) / np.maximum(hazard, _TINY)
        x = np.maximum(x + step, 0.0)
        if (np.abs(step) <= 1e-14 * x).all():
            break
    return x


def f_log_sf(statistic: ArrayLike, df: ArrayLike, denominator: ArrayLike) -> Floats:
    """log P(F > statistic) with df and `denominator` degrees of freedom, whole or not; 0 where one of them is 0."""
    f, df, denominator = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (statistic, df, denominator)))
    out = np.zeros(f.shape)
    testable = (f > 0) & (df > 0) & (denominator > 0)
    a, b = denominator[testable] / 2.0, df[testable] / 2.0
    out[testable] = log_betainc_from_log(-np.log1p(f[testable] * b / a), a, b)
    return out


def log_betainc_from_log(log_x: Floats, a: Floats, b: Floats) -> Floats:
    """log I_x(a, b), the regularised incomplete beta function, from log x (x itself may underflow)."""
    x, y = np.exp(log_x), -np.expm1(log_x)
    far = x < (a + 1.0) / (a + b + 2.0)
    with np.errstate(divide="ignore"):
        out = np.log(np.where(x < 0.5, special.betainc(a, b, x), special.betaincc(b, a, y)))
    tiny = far & ~(out > _LOG_SMALLEST_TAIL)
    if tiny.any():
        out[tiny] = _log_lower_beta(log_x[tiny], a[tiny], b[tiny])
    out[~far] = np.log1p(-special.betainc(b[~far], a[~far], -np.expm1(log_x[~far])))
    return np.minimum(out, 0.0)


def _log_lower_beta(log_x: Floats, a: Floats, b: Floats) -> Floats:
    """log I_x(a, b) for x below the bulk, by Lentz's evaluation of the continued fraction for the beta integral."""
    x = np.exp(log_x)
    c = np.ones_like(x)
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    h = d.copy()
    done = np.zeros(x.shape, dtype=bool)
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + term * d)
            c = _away_from_zero(1.0 + term / c)
            h *= np.where(done, 1.0, d * c)
        done |= np.abs(d * c - 1.0) < _PRECISION
        if done.all():
            break
    log_one_minus_x = np.log1p(-x)
    return a * log_x + b * log_one_minus_x - np.log(a) - special.betaln(a, b) + np.log(h)


def _away_from_zero(value: Floats) -> Floats:
    return np.where(np.abs(value) < _TINY, _TINY, value)
