"""All dispersions of overdispersed counts in a few intervals, each with a bound on the likelihood of a model.

Every m > 0 with 1 + αs > 0, s = y − m, whose s is orthogonal to the columns of a model bounds what that model leaves
unexplained at the dispersion α:

    deviance  ≥  2Σ a[m·h(s/m) − h(αs)/α + s(log m − η)] + 2Σ_j N_j φ(r_j),        h(z) = (1 + z)log(1 + z) − z

for any predictor η of the model (it matters with an offset only). With m fixed the right side is a function of α alone,
and one that hardly bends upwards: its second derivative is at most 2L on [α₀, α₁],

    L = Σ aΨ(s, α₀) + (Σ_j N_j φ)″(α₁),      Ψ(s, α) = ∫₀ˢ u²/(1 + αu)² du,

so that it is nowhere more than (α₁ − α₀)²L/4 below the lower of its values at the two ends. Around the fit, where that
is too much for intervals to be wide, residuals change with α instead (`dispersion_tangent`). See `docs/engine.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fbed.models.engines.dispersion_tangent import Tangent, tangent_at
from fbed.models.engines.dual_points import Dual, Duals, View
from fbed.models.likelihoods.negative_binomial import NegativeBinomial
from fbed.rules.p_values import Floats

_DIGITS = 1e-12  # and part of the sums that they are differences of
_SLACK = 0.3  # deviance that the intervals of dispersions may give away: little beside any critical value in use
_FAR_BETTER = -10.0  # deviance from which on intervals grow faster
_TYPICAL = 6.0  # √Σc²/w of a candidate that is well above critical values
_NARROW = 0.5  # part of 1 + αs that must be left at the higher end of an interval
_LEAST = 1e-6  # part of a dispersion below which an interval is too narrow to go on
_SMALL = 0.05  # part of a dispersion from which on intervals are so small that every dual point shall be the best
_MOST_INTERVALS = 80
_POWERS = np.arange(12)
_SERIES = (-1.0) ** _POWERS * (_POWERS + 1.0) / (_POWERS + 3.0)  # of Ψ/s³ in αs


@dataclass(frozen=True)
class Interval:
    """What candidates need of all dispersions between two, from one dual point."""

    low: float
    high: float
    s: Floats  # residuals
    down: Floats  # 1/m
    coefficients: Floats
    view: View
    per_weight: Floats  # 1/curvature at the higher end, where it is largest
    ahead: Floats  # α/(1 + αs) there: how near 1 + αs is to its end
    apart: tuple[Floats, Floats]  # by how much the predictor is off at both ends
    above: tuple[float, float]  # by how much the deviance of S may be less there than that of the fit
    bend: float  # (α₁ − α₀)²/4,
    curved: float  # L of the model without a candidate,
    steep: float  # and by how much it may grow with √Σc²/w
    endless: bool = False  # whether all larger dispersions are held as well: none is likelier without a candidate
    tangent: Tangent | None = None  # what holds dispersions around the fit; all else is about that of the fit then


class Cover:
    """Intervals that hold all dispersions; the first is that of the fit alone."""

    def __init__(self, family: NegativeBinomial, deviance: float, duals: Duals) -> None:
        self.family, self.deviance, self.duals = family, deviance, duals
        self.y, self.a = duals.y, duals.a
        self.intervals: list[Interval] = []
        self._centre: Dual | None = None  # whose predictors and equations serve other dispersions, as far as they do
        self._carefully = False
        self._chords = False  # which way was the better one last

    def found(self, centre: Dual) -> bool:
        """Whether intervals hold all dispersions, from that of the fit downwards to 0 and upwards for ever."""
        first = self._interval(centre, centre.alpha, centre.alpha)
        if first is None:
            return False
        mean = np.exp(centre.eta)
        size = float(np.sqrt(2.0 / (self.a @ (mean / (1.0 + centre.alpha * mean)) ** 2)))
        tangent = tangent_at(self.family, centre, self.a, size)
        if tangent is not None:
            first, size = (
                replace(first, low=tangent.low, high=tangent.high, tangent=tangent),
                tangent.high - centre.alpha,
            )
        self.intervals, self._centre = [first], centre
        if not (self._downwards(centre, first.low, size) and self._upwards(centre, first.high, size)):
            return False
        self._merge()
        return True

    def _downwards(self, near: Dual, end: float, size: float) -> bool:
        while end > 0.0:
            low = end - size if end > 1.25 * size else 0.0
            found = self._between(near, low, end)
            if found is not None:
                near, end, size = found[1], low, self._next_size(found[0], size)
            else:
                size = min(size, end) / 2.0
            if len(self.intervals) > _MOST_INTERVALS or not size > _LEAST * near.alpha:
                return False
        return True

    def _upwards(self, near: Dual, end: float, size: float) -> bool:
        while True:
            last = self._dual(end, near) if end > 0.0 else None
            if last is not None and self._falls_for_ever(last):
                point = self._interval(last, end, end)
                self.intervals += [] if point is None else [replace(point, endless=True)]
                return point is not None
            found = self._between(near, end, end + size)
            if found is not None:
                near, end, size = found[1], end + size, self._next_size(found[0], size)
            else:
                size /= 2.0
            if len(self.intervals) > _MOST_INTERVALS or not size > _LEAST * end:
                return False

    def _between(self, near: Dual, low: float, high: float) -> tuple[list[Interval], Dual] | None:
        """Hold all dispersions between two by one dual point or by those at both ends, if they give little away."""
        ways = (self._by_one_point, self._by_a_chord)
        for self._carefully in (False, True):
            known = False
            for way in ways[::-1] if self._chords else ways:
                found = way(near, low, high)
                known = known or found is not None
                if found is not None and self._given_away(found[0]) <= _SLACK:
                    self.intervals += found[0]
                    self._chords = way == self._by_a_chord
                    return found
            if known and high - low > _SMALL * high:  # no other dual points are so much better
                break
        return None

    def _dual(self, alpha: float, near: Dual) -> Dual | None:
        """A dual point at a dispersion, from the fit itself or, if that will not do, from coefficients of its own."""
        quick = None if self._carefully or self._centre is None else self.duals.beside(self._centre, alpha)
        return self.duals.at(alpha, near.coefficients) if quick is None else quick

    def _by_one_point(self, near: Dual, low: float, high: float) -> tuple[list[Interval], Dual] | None:
        dual = self._dual((low + high) / 2.0, near)
        found = None if dual is None else self._interval(dual, low, high)
        return None if dual is None or found is None else ([found], dual)

    def _by_a_chord(self, near: Dual, low: float, high: float) -> tuple[list[Interval], Dual] | None:
        """Rows without a count, but with a large mean, allow hardly any other dispersion with the same residuals.

        Residuals that go from those of one dispersion to those of another in proportion to r = 1/α are in order for all
        between. The bound is a convex function of residuals and r less one of r alone, which is convex too: on
        [r₀, r₁] it is above its chord by (r₁ − r₀)²/8 times the largest second derivative of the latter, at r₀.
        """
        if low <= 0.0:
            return None
        ends = [self._dual(alpha, near) for alpha in (low, high)]
        points = [None if end is None else self._interval(end, end.alpha, end.alpha) for end in ends]
        _, first, second = (float(value[0]) for value in self.family.count_terms(np.array([high])))
        bend = (1.0 / low - 1.0 / high) ** 2 / 4.0 * (high**4 * second + 2.0 * high**3 * first)
        found = [replace(p, above=(p.above[0] + bend, p.above[1] + bend)) for p in points if p is not None]
        far = ends[0] if high <= near.alpha else ends[1]
        return (found, far) if len(found) == 2 and far is not None and np.isfinite(bend) else None

    @staticmethod
    def _given_away(some: list[Interval]) -> float:
        """What intervals cost a candidate of some importance."""
        return max(max(i.above) + i.bend * max(i.curved + _TYPICAL * i.steep, 0.0) for i in some)

    def _next_size(self, found: list[Interval], size: float) -> float:
        """Intervals grow where the fit is certain to be far better."""
        given = self._given_away(found)
        return size * (1.0 if given > 0.25 * _SLACK else 2.0 if given > _FAR_BETTER else 4.0)

    def _bound(self, dual: Dual, alpha: float) -> tuple[float, float]:
        """What the model leaves unexplained at least at a dispersion, and the rounding of that."""
        rows = dual.m * _h(dual.s / dual.m) - _per_alpha(dual.s, alpha) + dual.s * (np.log(dual.m) - dual.eta)
        excess = float(self.family.count_terms(np.array([alpha]))[0][0])
        return 2.0 * (float(self.a @ rows) + excess), _DIGITS * 2.0 * (float(self.a @ np.abs(rows)) + excess)

    def _interval(self, dual: Dual, low: float, high: float) -> Interval | None:
        if not (1.0 + high * dual.s > _NARROW * (1.0 + dual.alpha * dual.s)).all():
            return None
        above, apart = [], []
        for alpha in (low, high) if low < high else (high,):
            least, rounding = self._bound(dual, alpha)
            above.append(self.deviance - least + rounding)
            apart.append(dual.eta - np.log(dual.m / (1.0 + alpha * dual.s)))
        per_weight = (1.0 + high * self.y) / (dual.m * (1.0 + high * dual.s))
        curved, steep = self._bends(dual, per_weight, low, high) if low < high else (0.0, 0.0)
        found = Interval(
            low,
            high,
            dual.s,
            1.0 / dual.m,
            dual.coefficients,
            dual.view,
            per_weight,
            high / (1.0 + high * dual.s),
            (apart[0], apart[-1]),
            (above[0], above[-1]),
            (high - low) ** 2 / 4.0,
            curved,
            steep,
        )
        return found if np.isfinite([*above, curved, steep]).all() else None

    def _bends(self, dual: Dual, per_weight: Floats, low: float, high: float) -> tuple[float, float]:
        """L of the model without a candidate, and by how much it grows with √Σc²/w at most."""
        second = float(self.family.count_terms(np.array([high]))[2][0])
        steepest = np.maximum(np.abs(dual.s / (1.0 + low * dual.s)), self.y / (1.0 + low * self.y)) ** 2
        steep = float(np.sqrt(self.a @ (steepest**2 / per_weight)))
        return float(self.a @ _bend_of_residuals(dual.s, low)) + second, steep

    def _falls_for_ever(self, dual: Dual) -> bool:
        """Whether no larger dispersion is likelier, for any residuals that are in proportion to 1/α from there on.

        With r = 1/α and s = tσ, r = tρ, the bound is a convex function of t, below its chord, and Σ N_jφ, which is
        convex in r: the likelihood falls towards t = 0 where it does so at t = 1.
        """
        value, first, _ = self.family.count_terms(np.array([dual.alpha]))
        unexplained = self._bound(dual, dual.alpha)[0] / 2.0 - float(value[0])
        return bool(dual.alpha * float(first[0]) >= unexplained)

    def _merge(self) -> None:
        """A point at which two chords meet is one point, and costs what the dearer of them does."""
        merged: list[Interval] = []
        for found in self.intervals:
            same = [j for j, other in enumerate(merged) if other.low == other.high == found.low == found.high]
            if same:
                known = merged[same[0]]
                above = max(known.above[0], found.above[0])
                merged[same[0]] = replace(known, above=(above, above), endless=known.endless or found.endless)
            else:
                merged.append(found)
        self.intervals = merged


def _h(z: Floats) -> Floats:
    return (1.0 + z) * np.log1p(np.maximum(z, -1.0 + 1e-16)) - z


def _per_alpha(s: Floats, alpha: float) -> Floats:
    """h(αs)/α, which is 0 at α = 0."""
    z = alpha * s
    near = np.abs(z) < 1e-5
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(near, z * s * (0.5 - z / 6.0 + z * z / 12.0), _h(z) / alpha)


def _bend_of_residuals(s: Floats, alpha: float) -> Floats:
    """Ψ(s, α) = ∫₀ˢ u²/(1 + αu)² du, by its series near 0."""
    z = alpha * s
    near = np.flatnonzero(np.abs(z) < 0.02)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = (z + z / (1.0 + z) - 2.0 * np.log1p(z)) / alpha**3 if alpha > 0.0 else np.empty(len(z))
    out[near] = s[near] ** 3 * np.polynomial.polynomial.polyval(z[near], _SERIES)
    return out
