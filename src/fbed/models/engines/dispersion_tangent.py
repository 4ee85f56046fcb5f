"""One interval of dispersions around a fit of overdispersed counts, on which a tangent bounds the likelihood.

With r = 1/α, R = r + s and m = y − s a row's part of the bound (see `dispersion_intervals`) is

    y log y − m log m − R log R + R log r − sη.

Let the residuals go along s + ρe, ρ the change of r and e the derivative of residuals at fixed predictors, made
orthogonal to the model. Then m and R are linear in ρ, and the second derivative of a row's part is

    −e²/m − (er − s)²/(R(r + ρ)²)        (er − s at the fit),

that of φ falls: the least second derivative of the bound is known between any two ρ, and is positive around most fits.
So the bound is nowhere below its tangent and ℓρ², for some ℓ that is known on a wide interval.

A candidate changes residuals by c₀ + ρc₁, each of a length √Σac²w⁻¹ under the weights of the fit, L and q. While m and
R change by κ|ρ| of themselves at most, 1/w does so by ϱ|ρ|, ϱ = κ/(1 − κ·max|ρ|). By how much the predictor of the dual
point is off grows as A₀ + A₁|ρ| + A₂ρ² in its length, beside what is a predictor of the model. So the most that any ρ
adds to what a candidate gains at the fit is that of b|ρ| − aρ², and what P grows by from the fit to anywhere, times L²,

    b = |slope| + P(2Lq + ϱL²) + 2LA₁ + 2qA₀,    a = ℓ − P(q² + 2ϱLq + ϱq²·max|ρ|) − 2(LA₂ + qA₁ + qA₂·max|ρ|).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fbed.clock import check_time
from fbed.models.engines.bound_functions import P
from fbed.models.engines.dual_points import Dual
from fbed.models.likelihoods.negative_binomial import NegativeBinomial
from fbed.rules.p_values import Floats

_WIDEST = [0.4, 0.25, 0.12, 0.06, 0.03]  # how far the interval may reach, in units of r
_STEADY = 0.25  # part of its curvature at the fit that the bound keeps to the ends
_SLACK = 0.3  # deviance that it may give away to a candidate of some importance,
_TYPICAL, _FAR = 3.5, 4.0  # the root of its likelihood ratio and its largest value, in spreads
_INSIDE = 0.6  # part of themselves by which m and R may change
_PARTS = 8  # of each half of the interval, each with second derivatives of its own
_DIGITS = 1e-11  # part of sums that are subtracted from each other which may be rounding


@dataclass(frozen=True)
class Change:
    """Changes c₀ + ρc₁ of the residuals by candidates."""

    length: Floats  # of c₀, and the largest part of m or R that it takes at the fit
    z: Floats
    turn: Floats  # of c₁, and the same
    turn_z: Floats


@dataclass(frozen=True)
class Tangent:
    """What holds the bound between two dispersions."""

    low: float
    high: float
    along: Floats  # e
    slope: float
    curved: float  # ℓ
    changing: float  # ϱ
    shrinks: float  # 1/(1 − κ·max|ρ|): by how much m and R may be smaller than at the fit
    widest: float  # max|ρ|
    off: tuple[float, float, float]  # A₀, A₁ and A₂
    off_model: float  # A₁ of changes that are not orthogonal to the model
    inner: Tangent | None = None  # what knows more of dispersions that are nearer to the fit

    def gained(self, change: Change, within: bool = True) -> Floats:
        """What other dispersions add at most; `within` says that changes are orthogonal to the model."""
        length, other, z = change.length, change.turn, (change.z + self.widest * change.turn_z) * self.shrinks
        nearer, nearest = np.zeros_like(length), 0.0
        if self.inner is not None:
            nearer, nearest = self.inner.gained(change, within), self.inner.widest
        first = self.off[1] if within else self.off_model
        steeper = P(-np.minimum(z, 1.0))
        b = abs(self.slope) + steeper * length * (2.0 * other + self.changing * length)
        b = b + 2.0 * (length * first + other * self.off[0])
        a = self.curved - steeper * other * (other + self.changing * (2.0 * length + other * self.widest))
        a = a - 2.0 * (length * self.off[2] + other * (first + self.off[2] * self.widest))
        inside = 2.0 * a * self.widest > b
        at = np.maximum(np.where(inside, b / np.where(inside, 2.0 * a, 1.0), self.widest), nearest)
        more = (steeper - P(-np.minimum(change.z, 1.0))) * length**2 + at * (b - a * at)
        return np.where(z < 1.0, np.maximum(nearer, more), np.inf)

    @property
    def longest(self) -> float:
        """A length of changes that leaves half the curvature, and that other dispersions add little to."""
        return float(min(self.curved / (4.0 * self.off[2] + 1e-300), np.sqrt(self.curved) / self.changing))


def tangent_at(family: NegativeBinomial, dual: Dual, a: Floats, least: float) -> Tangent | None:
    """The widest interval whose bound bends upwards, if it is wider than some least width in α."""
    if not dual.alpha > 0.0:
        return None
    path = _Path(family, dual, a)
    at = path.curved(0.0)
    for part in _WIDEST:
        low, high = dual.alpha / (1.0 + part), dual.alpha / (1.0 - part)
        if not high - low > 2.0 * least:
            break
        width = part * path.r
        curved = path.curved(width) if path.relative * width < _INSIDE else 0.0
        if curved > _STEADY * at > 0.0:
            found = path.tangent(low, high, width, curved)
            half = width / 2.0
            found = replace(found, inner=path.tangent(low, high, half, path.curved(half)))
            if float(found.gained(path.typical)[0]) <= _SLACK:
                return found
    return None


class _Path:
    """Residuals that go along e."""

    def __init__(self, family: NegativeBinomial, dual: Dual, a: Floats) -> None:
        self.family, self.a, self.s, self.m = family, a, dual.s, dual.m
        self.r = r = 1.0 / dual.alpha
        self.R = r + dual.s
        self.per_weight = 1.0 / dual.m + 1.0 / self.R
        free, weight = dual.s / (self.R * r * self.per_weight), dual.view.weight / a
        self.e = weight * dual.view.left((free / weight)[:, None])[:, 0]
        self.turn = self.per_weight * (self.e - free)  # of the predictor of the dual point, for every unit of ρ
        self.within = (self.e - free) / weight  # what of it is a predictor of the model
        self.apart = dual.eta - np.log(dual.m) - np.log(r) + np.log(self.R)
        self.up = 1.0 + self.e  # of R
        self.square, self.beside = self.e**2, (self.e * r - self.s) ** 2
        self.relative = float(max((np.abs(self.e) / self.m).max(), (np.abs(self.up) / self.R).max()))

    @property
    def typical(self) -> Change:
        """Changes by a candidate of some importance, whose largest value is some spreads away."""
        z = min(_FAR * _TYPICAL / float(np.sqrt(self.a @ (1.0 / self.per_weight))), 1.0)
        return Change(np.full(1, _TYPICAL), np.full(1, z), np.full(1, 1.0 / self.r), np.zeros(1))

    def curved(self, width: float) -> float:
        """The largest ℓ with which the bound is nowhere below its tangent and ℓρ², up to some |ρ|.

        Second derivatives of one part of the way after the other tell what it has risen to at least.
        """
        if width == 0.0:
            return self._curved_between(0.0, 0.0)
        return min(self._curved_towards(width), self._curved_towards(-width))

    def _curved_towards(self, end: float) -> float:
        most, slope, value, step = np.inf, 0.0, 0.0, abs(end) / _PARTS
        for k, (here, there) in enumerate(pairwise(np.linspace(0.0, end, _PARTS + 1).tolist())):
            bend = self._curved_between(min(here, there), max(here, there))
            before, at = value, step * k
            value += slope * step + bend * step**2
            known = value / abs(there) ** 2 if k == 0 else min(before / at**2, value / abs(there) ** 2)
            if known < bend and k > 0:  # then the bound is convex beside such a parabola, which it must not approach
                known = min(known, slope / (2.0 * at))
            most, slope = min(most, known), slope + 2.0 * bend * step
            if not most > 0.0:
                break
        return most

    def _curved_between(self, low: float, high: float) -> float:
        """The same where rows are nearest to their ends, and φ's part, which falls, is as small as it gets."""
        check_time()
        alpha = 1.0 / (self.r + high)
        _, first, second = (float(value[0]) for value in self.family.count_terms(np.array([alpha])))
        m, R = self.m - np.maximum(low * self.e, high * self.e), self.R + np.minimum(low * self.up, high * self.up)
        fall = float(self.a @ (self.square / m + self.beside / (R * (self.r + low) ** 2)))
        rise = alpha**4 * second, 2.0 * alpha**3 * first
        return sum(rise) - fall - _DIGITS * (abs(rise[0]) + abs(rise[1]) + fall)

    def tangent(self, low: float, high: float, width: float, curved: float) -> Tangent:
        """The interval up to some |ρ|."""
        shrinks = 1.0 / (1.0 - self.relative * width)
        off = self._length(self.apart), self._length(self.turn - self.within), self._length(self._bent(width)) / 2.0
        changing = self.relative * shrinks
        known = low, high, self.e, self._slope(), curved, changing, shrinks, width, off
        return Tangent(*known, self._length(self.turn))

    def _bent(self, width: float) -> Floats:
        """The largest second derivative of the predictor of each row's dual point: e²/m² + (r + ρ)⁻² − (1 + e)²/R²."""
        most = np.zeros(len(self.m))
        turns = (self._turns(float(rho)) for rho in np.linspace(-width, width, 2 * _PARTS + 1))
        for (m, R, r), (m_next, R_next, r_next) in pairwise(turns):
            most = np.maximum(most, np.maximum(m, m_next) + max(r, r_next) - np.minimum(R, R_next))
            most = np.maximum(most, np.maximum(R, R_next) - np.minimum(m, m_next) - min(r, r_next))
        return most

    def _turns(self, rho: float) -> tuple[Floats, Floats, float]:
        """Its parts, of which none turns between one ρ and another."""
        check_time()
        m, R = self.e / (self.m - rho * self.e), self.up / (self.R + rho * self.up)
        return m**2, R**2, 1.0 / (self.r + rho) ** 2

    def _length(self, predictor: Floats) -> float:
        return float(np.sqrt(self.a @ (predictor**2 / self.per_weight)))

    def _slope(self) -> float:
        """Of the bound at the fit, in r."""
        alpha, scaled = 1.0 / self.r, self.s / self.r
        first = float(self.family.count_terms(np.array([alpha]))[1][0])
        rows = scaled - np.log1p(scaled) - self.e * self.apart
        slope = 2.0 * (float(self.a @ rows) - alpha**2 * first)
        return abs(slope) + _DIGITS * (float(self.a @ np.abs(rows)) + abs(alpha**2 * first))
