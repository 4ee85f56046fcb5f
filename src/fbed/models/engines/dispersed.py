"""Overdispersed counts: likelihood ratios enclosed without fitting, whatever the dispersion of the larger model is.

At a dispersion α the mean of a row has the residual s = (y − μ)/(1 + αμ), and the likelihood's dual variable is m = y − s.
Every m > 0 with 1 + αs > 0 whose s is orthogonal to the columns of a model bounds what that model leaves unexplained:

    deviance at α  ≥  2Σ a[m·h(s/m) − h(αs)/α + s(log m − η)] + 2Σ_j N_j φ(r_j)        h(z) = (1 + z)log(1 + z) − z

for any predictor η of the model (it matters with an offset only). With m fixed the right side is a function of α alone, and
one that hardly bends downwards: minus half its second derivative is at most

    L = Σ aΨ(s, α₀) + (Σ_j N_j φ)″(α₁)   on [α₀, α₁],      Ψ(s, α) = ∫₀ˢ u²/(1 + αu)² du,

so that on [α₀, α₁] it is nowhere more than (α₁ − α₀)²L/4 below its values at the two ends. A few such intervals, each with the m
of the fit on S in its middle, hold all α ≥ 0; the last one reaches to infinity. They are found once for all candidates. A candidate
x changes m by c = tWx̃, with x̃ what the model leaves of x under the weights W of the fit and t such that s − c is orthogonal to x:
that is one product with each interval's residuals, and one for each sum in the bound, however many models there are.
See `docs/engine.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from scipy import linalg

from fbed.clock import check_time
from fbed.models.base import Bounds, Indices, Span, single_columns
from fbed.models.engines.bound_functions import P
from fbed.models.engines.bounded import BoundedFit
from fbed.models.engines.functionals import Functionals
from fbed.models.engines.neighbours import standardised_zeros
from fbed.models.likelihoods.likelihood import RegressionFit
from fbed.models.likelihoods.negative_binomial import NegativeBinomial
from fbed.models.likelihoods.newton import Columns
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

_ROUNDING = 1e-8  # what bounds are widened by, relative
_DIGITS = 1e-12  # and part of the sums that they are differences of
_SLACK = 0.3  # deviance that the intervals of dispersions may give away: little beside any critical value in use
_TYPICAL = 6.0  # √Σc²/w of a candidate that is well above critical values
_NARROW = 0.5  # part of 1 + αs that must be left at the higher end of an interval
_SOLVED = 1e-18  # what residuals may have left along the model, in the metric of its information
_STEADY = 1e-8  # least curvature of the model beside the largest, from which its equations are solved well enough
_SHORT = 0.3  # step of the predictors after which a dual point is as good as that of the fit
_LEAST = 1e-6  # part of a dispersion below which an interval is too narrow to go on
_TOGETHER = 8  # contenders who are fitted at a time
_GONE = 25.0  # how far predictors are moved whose means go to 0
_WIDE = 20.0  # range of a column's values for which all of them can be moved so far
_MOST_STEPS = 30
_MOST_INTERVALS = 80
_POWERS = np.arange(12)
_SERIES = (-1.0) ** _POWERS * (_POWERS + 1.0) / (_POWERS + 3.0)  # of Ψ/s³ in αs
_DEPENDENT = 1e-8  # part of a column's norm² that the model leaves of it, below which rounding hides the rest


@dataclass(frozen=True)
class Dual:
    """Residuals that are orthogonal to the model, and a predictor of the model close to where they come from."""

    alpha: float
    coefficients: Floats
    eta: Floats
    s: Floats
    m: Floats
    view: View


@dataclass(frozen=True)
class View:
    """Weights of the rows, under which candidates are made orthogonal to the model."""

    Z: Floats
    weight: Floats  # a·W
    inverse: Floats

    def left(self, new: Floats) -> Floats:
        """What the model leaves of columns."""
        for _ in range(2):  # the second time removes what the first left by rounding
            new = new - self.Z @ (self.inverse @ (self.Z.T @ (self.weight[:, None] * new)))
        return new


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


@dataclass(frozen=True)
class _Costs:
    """Numbers of intervals side by side."""

    above_low: Floats
    above_high: Floats
    bend: Floats
    curved: Floats
    steep: Floats

    @classmethod
    def of(cls, some: list[Interval]) -> _Costs:
        rows = [(*i.above, i.bend, i.curved, i.steep) for i in some]
        return cls(*np.array(rows).T)


class DispersedFit(BoundedFit):
    """A negative binomial model that answers scans by intervals."""

    def prepare(self, n_candidates: int = 0, critical: float = np.inf) -> None:
        """What all candidates share."""
        _ = self._frame

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for adding each candidate; nothing is known of anybody where the model has no curvature left."""
        self.prepare()
        return super().gain_bounds(candidates, critical)

    def _enclosed(self, columns: Columns) -> tuple[Floats, Floats]:
        """Bounds of every model with a column of its own, or of a single one with several."""
        single = columns.x is not None
        new = columns.x if columns.x is not None else columns.Z[:, self.columns.size :]
        if self._frame is None:
            count = new.shape[1] if single else 1
            return np.zeros(count), np.full(count, np.inf)
        return self._frame.single(new) if single else self._frame.several(new)

    def _narrowed(self, candidates: Indices, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """A closer look at who is open."""
        if self._frame is None:
            return lower, upper
        unit, _ = self.span.residuals(single_columns(self.model.design, candidates))
        return lower, np.maximum(np.minimum(upper, self._frame.closer(unit * self._unit_mean_square())), lower)

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """In a race those who seem best are fitted, a few at a time, as long as others may be better."""
        if not race:
            return super().contest(candidates, lower, upper, race)
        lower, upper = lower.copy(), upper.copy()
        looked = False
        while True:
            todo = np.flatnonzero((lower < upper) & (upper >= lower.max(initial=0.0) * (1.0 - TIE)))
            if len(todo) == 0:
                return lower, upper
            known = bool((lower == upper).any())
            if known and not looked:
                lower[todo], upper[todo] = self._looked_at(candidates[todo], lower[todo], upper[todo])
                looked = True
                continue
            best = todo[np.argsort(-lower[todo], kind="stable")]
            self._resolve(candidates, best[: _TOGETHER if known else 1], lower, upper)

    def _looked_at(self, candidates: Indices, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """A closer look at candidates of one column each."""
        single = np.flatnonzero(self.model.design.width[candidates] == 1)
        for some in self._batches(single):
            lower[some], upper[some] = self._narrowed(candidates[some], lower[some], upper[some])
        return lower, upper

    def _bounds_pay(self, count: int, columns: Columns) -> bool:
        """What all candidates share is known: the rest costs next to nothing."""
        return True

    @cached_property
    def _frame(self) -> Frame | None:
        return Frame.of(self)

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """What removing each variable costs at least; nothing is known from above until somebody asks."""
        self.prepare()
        if self._frame is None or not self.span.full_rank:  # ask the fits
            evidence = self.losses(variables)
            return Bounds(evidence.statistic, evidence.statistic, evidence.df, self.reference)
        df = np.array([float(self.span.rank_of[int(v)]) for v in variables])
        functionals = Functionals(self.span)
        lower = self._frame.lost_at_least([functionals.of(int(v)) for v in variables])
        return Bounds(lower, np.full(len(df), np.inf), df, self.reference)

    def _begin(self, candidates: Indices, columns: Columns) -> Floats | None:
        """Where a column goes to infinity because no row that has it has a count: next to there."""
        moves = self._moves(candidates)
        if not moves.any():
            return None
        begin = np.zeros((columns.size + 1, len(candidates)))
        begin[:-1] = columns.inner(self.model.design.weights[:, None] * moves / self.model.design.n)
        begin[:-2] += self.parameters[:-1, None]
        begin[-1] = self.parameters[-1]
        worse = ~(self.model.likelihood.at(columns, begin).value <= self.deviance)
        begin[:-2, worse], begin[-2, worse] = self.parameters[:-1, None], 0.0
        return begin

    def _moves(self, candidates: Indices) -> Floats:
        """Changes of the predictors that take the means of such columns to 0; none for the others."""
        raw = single_columns(self.model.design, candidates)
        own = raw - standardised_zeros(self, candidates, raw)
        y = cast(NegativeBinomial, self.model.likelihood).y
        least = np.where(own == 0.0, np.inf, np.abs(own)).min(axis=0)
        pure = (y @ np.abs(own) == 0.0) & np.isfinite(least) & (np.abs(own).max(axis=0) < _WIDE * least)
        alike = (own >= 0.0).all(axis=0) | (own <= 0.0).all(axis=0)
        return np.where(pure & alike, -_GONE * np.abs(own) / np.where(pure, least, 1.0), 0.0)

    def _projected(self, near: RegressionFit) -> Floats:
        """Parameters of predictors close to those of another fit, with a variable more or less."""
        predictors = near.predictors()
        new = [v for v in self.span.selected if v not in near.span.selected]
        gone = [v for v in near.span.selected if v not in self.span.selected]
        if (len(new), len(gone)) == (1, 0) and self.model.design.width[new[0]] == 1 and isinstance(near, DispersedFit):
            predictors = predictors + near._moves(np.array(new, dtype=np.intp))
        elif (len(new), len(gone)) == (0, 1) and near.span.full_rank:
            triangle, own = near.span.triangle(), near.span.place(gone[0])
            coefficients = linalg.solve_triangular(triangle, near.parameters[:-1])
            predictors = predictors - near.Z @ (triangle[:, own] @ coefficients[own, None])
        return np.append(self._along(predictors)[:, 0], near.parameters[-1])

    def _without(self, others: Span) -> RegressionFit:
        """The model with a variable less; the other coefficients stay where they are, on the way to infinity or not."""
        return type(self)(self.model, others, self)


class Frame:
    """The fit on S as candidates see it: its weights, and intervals that hold all dispersions."""

    def __init__(self, fit: DispersedFit, weight: Floats, score: Floats, inverse: Floats) -> None:
        family = cast(NegativeBinomial, fit.model.likelihood)
        self.y, self.a = family.y, family.weights
        self.family, self.deviance = family, fit.deviance
        self.weight, self.score = weight, score
        self.view = View(fit.Z, self.a * weight, inverse)
        self.intervals: list[Interval] = []
        self._chords = False  # which way was the better one last

    @classmethod
    def of(cls, fit: DispersedFit) -> Frame | None:
        """None where equations are not solved well, or where too many intervals would be needed."""
        family = cast(NegativeBinomial, fit.model.likelihood)
        offset = 0.0 if family.offset is None else family.offset[:, 0]
        duals = Duals(family, fit.Z, offset)
        with np.errstate(all="ignore"):
            centre = duals.at(float(fit.parameters[-1]), fit.parameters[:-1])
            point = family.at(fit.columns, fit.parameters[:, None])
            weight = point.curvature()[:, 0] / family.weights
            inverse = duals.inverse(weight)
            if centre is None or inverse is None:
                return None
            frame = cls(fit, weight, point.residual()[:, 0], inverse)
            if not frame._covers(duals, centre):
                return None
        frame._collect()
        return frame

    def _covers(self, duals: Duals, centre: Dual) -> bool:
        """Find intervals of all dispersions, from that of the fit downwards to 0 and upwards for ever."""
        first = self._interval(centre, centre.alpha, centre.alpha)
        if first is None:
            return False
        self.intervals = [first]
        mean = np.exp(centre.eta)
        size = float(np.sqrt(2.0 / (self.a @ (mean / (1.0 + centre.alpha * mean)) ** 2)))
        return self._downwards(duals, centre, size) and self._upwards(duals, centre, size)

    def _downwards(self, duals: Duals, near: Dual, size: float) -> bool:
        end = near.alpha
        while end > 0.0:
            low = end - size if end > 1.25 * size else 0.0
            found = self._between(duals, near, low, end)
            if found is not None:
                near, end, size = found[1], low, self._next_size(found[0], size)
            else:
                size = min(size, end) / 2.0
            if len(self.intervals) > _MOST_INTERVALS or not size > _LEAST * near.alpha:
                return False
        return True

    def _upwards(self, duals: Duals, near: Dual, size: float) -> bool:
        end = near.alpha
        while True:
            last = duals.at(end, near.coefficients) if end > 0.0 else None
            if last is not None and self._falls_for_ever(last):
                point = self._interval(last, end, end)
                self.intervals += [] if point is None else [point]
                return point is not None
            found = self._between(duals, near, end, end + size)
            if found is not None:
                near, end, size = found[1], end + size, self._next_size(found[0], size)
            else:
                size /= 2.0
            if len(self.intervals) > _MOST_INTERVALS or not size > _LEAST * end:
                return False

    def _between(self, duals: Duals, near: Dual, low: float, high: float) -> tuple[list[Interval], Dual] | None:
        """Hold all dispersions between two by one dual point or by those at both ends, if not too much is given away."""
        ways = (self._by_one_point, self._by_a_chord)
        for way in ways[::-1] if self._chords else ways:
            found = way(duals, near, low, high)
            if found is not None and self._given_away(found[0]) <= _SLACK:
                self.intervals += found[0]
                self._chords = way == self._by_a_chord
                return found
        return None

    def _by_one_point(
        self, duals: Duals, near: Dual, low: float, high: float
    ) -> tuple[list[Interval], Dual] | None:
        dual = duals.at((low + high) / 2.0, near.coefficients)
        found = None if dual is None else self._interval(dual, low, high)
        return None if dual is None or found is None else ([found], dual)

    def _by_a_chord(self, duals: Duals, near: Dual, low: float, high: float) -> tuple[list[Interval], Dual] | None:
        """Rows without a count, but with a large mean, allow hardly any other dispersion with the same residuals.

        Residuals that go from those of one dispersion to those of another in proportion to r = 1/α are in order for all
        between. The bound is a convex function of residuals and r less one of r alone, which is convex too: on
        [r₀, r₁] it is above its chord by (r₁ − r₀)²/8 times the largest second derivative of the latter, at r₀.
        """
        if low <= 0.0:
            return None
        ends = [duals.at(alpha, near.coefficients) for alpha in (low, high)]
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
        return 2.0 * size if self._given_away(found) <= 0.25 * _SLACK else size

    def _bound(self, dual: Dual, alpha: float) -> tuple[float, float]:
        """What the model leaves unexplained at least at a dispersion, and the rounding of that."""
        rows = dual.m * _h(dual.s / dual.m) - _per_alpha(dual.s, alpha) + dual.s * (np.log(dual.m) - dual.eta)
        excess = float(self.family.count_terms(np.array([alpha]))[0][0])
        return 2.0 * (float(self.a @ rows) + excess), _DIGITS * 2.0 * (float(self.a @ np.abs(rows)) + excess)

    def _interval(self, dual: Dual, low: float, high: float) -> Interval | None:
        if not (1.0 + high * dual.s > _NARROW * (1.0 + dual.alpha * dual.s)).all():
            return None
        above, apart = [], []
        for alpha in (low, high):
            least, rounding = self._bound(dual, alpha)
            above.append(self.deviance - least + rounding)
            apart.append(dual.eta - np.log(dual.m / (1.0 + alpha * dual.s)))
        second = float(self.family.count_terms(np.array([high]))[2][0])
        steepest = np.maximum(np.abs(dual.s / (1.0 + low * dual.s)), self.y / (1.0 + low * self.y)) ** 2
        per_weight = (1.0 + high * self.y) / (dual.m * (1.0 + high * dual.s))
        found = Interval(
            low,
            high,
            dual.s,
            1.0 / dual.m,
            dual.coefficients,
            dual.view,
            per_weight,
            high / (1.0 + high * dual.s),
            (apart[0], apart[1]),
            (above[0], above[1]),
            (high - low) ** 2 / 4.0,
            float(self.a @ _bend_of_residuals(dual.s, low)) + second,
            float(np.sqrt(self.a @ (steepest**2 / per_weight))),
        )
        return found if np.isfinite([*above, found.curved, found.steep]).all() else None

    def _falls_for_ever(self, dual: Dual) -> bool:
        """Whether no larger dispersion is likelier, for any residuals that are in proportion to 1/α from there on.

        With r = 1/α and s = tσ, r = tρ, the bound is a convex function of t, below its chord, and Σ N_jφ, which is
        convex in r: the likelihood falls towards t = 0 where it does so at t = 1.
        """
        value, first, _ = self.family.count_terms(np.array([dual.alpha]))
        unexplained = self._bound(dual, dual.alpha)[0] / 2.0 - float(value[0])
        return bool(dual.alpha * float(first[0]) >= unexplained)

    def _collect(self) -> None:
        """Side by side what every candidate is multiplied with."""
        some, a, W = self.intervals, self.a, self.weight
        self.costs = _Costs.of(some)
        self.products = np.column_stack(
            [a * i.s for i in some] + [a * W * i.apart[0] for i in some] + [a * W * i.apart[1] for i in some]
        )
        self.squares = np.column_stack([a * W**2 * i.per_weight for i in some] + [a * W])
        centre = some[0]
        self.down, self.up = W * centre.down, W * centre.ahead
        self.further_down = np.array([float((i.down / centre.down).max()) for i in some])
        self.further_up = np.array([float((i.ahead / centre.ahead).max(initial=0.0)) for i in some])

    def single(self, new: Floats) -> tuple[Floats, Floats]:
        """Bounds of many models with a column each."""
        lower, upper = self._first_look(new)
        return lower, np.maximum(upper.max(axis=1), 0.0)

    def closer(self, new: Floats) -> Floats:
        """Upper bounds of many models, under the weights of each interval where those of the fit do not do."""
        upper = self._first_look(new)[1]
        for i, found in enumerate(self.intervals[1:], 1):
            some = np.flatnonzero(upper[:, i] > upper[:, 0])
            if len(some):
                check_time()
                left = found.view.left(new[:, some])
                norm2 = found.view.weight @ left**2
                t = (self.a * found.s) @ left / np.where(norm2 > 0.0, norm2, 1.0)
                change = t * left * (found.view.weight / self.a)[:, None]
                known = norm2 > _DEPENDENT * (found.view.weight @ new[:, some] ** 2)
                upper[some, i] = np.minimum(upper[some, i], np.where(known, self._after(found, change), np.inf))
        return np.maximum(upper.max(axis=1), 0.0)

    def several(self, new: Floats) -> tuple[Floats, Floats]:
        """Bounds of one model with several columns more."""
        check_time()
        upper = 0.0
        for found in self.intervals:
            solved = _along(found.view, new, self.a * found.s)
            if solved is None:
                return np.zeros(1), np.full(1, np.inf)
            change = solved[0] * found.view.weight / self.a
            upper = max(upper, float(self._after(found, change[:, None])[0]))
        solved = _along(self.view, new, self.score)
        if solved is None:
            return np.zeros(1), np.full(1, upper)
        move, gained = solved
        ahead, behind = max(float((move * self.down).max()), 0.0), max(float(-(move * self.up).min()), 0.0)
        return self._lower(np.array([gained]), np.array([ahead]), np.array([behind])), np.full(1, upper)

    def lost_at_least(self, functionals: list[Floats]) -> Floats:
        """What models lose that have no coefficients along functionals, from each interval's nearest such model.

        A dual point of the model without a variable is m + c with c = −tWu, u what the nearest one, in the metric of W,
        lacks of the predictors: their means have not moved as far as those of the fit.
        """
        most = np.full(len(functionals), -np.inf)
        for found in self.intervals:
            check_time()
            change, linear = self._lacking(found, functionals)
            most = np.maximum(most, self._after(found, change) - linear)
        return np.maximum(-most * (1.0 - _ROUNDING) - _ROUNDING, 0.0)

    def _lacking(self, found: Interval, functionals: list[Floats]) -> tuple[Floats, Floats]:
        """c of every model, and by how much its predictors being another's lower the bound; 0 for the last interval,
        which reaches to infinity with the residuals of the whole model only.
        """
        view, count = found.view, len(functionals)
        change, linear = np.zeros((len(self.y), count)), np.zeros(count)
        if found is self.intervals[-1]:
            return change, linear
        coefficients = found.coefficients
        for j, functional in enumerate(functionals):
            solved = view.inverse @ functional
            dual = np.linalg.solve(functional.T @ solved, functional.T @ coefficients)
            change[:, j] = view.Z @ (solved @ dual)
            linear[j] = coefficients @ functional @ dual
        change *= -(view.weight / self.a)[:, None]
        z = np.maximum(np.maximum((-change * found.down[:, None]).max(axis=0), (change * found.ahead[:, None]).max(axis=0)), 1e-9)
        part = -np.expm1(-z) / z
        return change * part, 2.0 * part * linear

    def _first_look(self, new: Floats) -> tuple[Floats, Floats]:
        """Lower bounds of many models, and upper bounds for every interval, under the weights of the fit."""
        check_time()
        left, count = self.view.left(new), len(self.intervals)
        sums = left.T @ self.products
        squared = (left**2).T @ self.squares
        known = squared[:, -1] > _DEPENDENT * (self.view.weight @ new**2)
        norm2 = np.where(known, squared[:, -1], 1.0)[:, None]
        t = sums[:, :count] / norm2
        down, up = left * self.down[:, None], left * self.up[:, None]
        z = np.maximum(_furthest(t, down, self.further_down, -1.0), _furthest(t, up, self.further_up, 1.0))
        off = [2.0 * t * sums[:, (1 + e) * count : (2 + e) * count] for e in (0, 1)]
        upper = self._upper(t**2 * squared[:, :-1], z, off[0], off[1])
        own = left.T @ self.score / norm2[:, 0]
        ahead, behind = (_furthest(own[:, None], by, np.ones(1), way)[:, 0] for by, way in ((down, 1.0), (up, -1.0)))
        lower = self._lower(own**2 * norm2[:, 0], ahead, behind)
        return np.where(known, lower, 0.0), np.where(known[:, None], upper, np.inf)

    def _after(self, found: Interval, change: Floats) -> Floats:
        """What one interval leaves possible for models (columns) that change m so."""
        z = np.maximum((-change * found.down[:, None]).max(axis=0), (change * found.ahead[:, None]).max(axis=0))
        length2 = (self.a * found.per_weight) @ change**2
        off = [2.0 * (self.a * apart) @ change for apart in found.apart]
        only = _Costs.of([found])
        return self._upper(length2[:, None], np.maximum(z, 0.0)[:, None], off[0][:, None], off[1][:, None], only)[:, 0]

    def _upper(self, length2: Floats, z: Floats, low: Floats, high: Floats, costs: _Costs | None = None) -> Floats:
        """Models × intervals: what each interval leaves possible."""
        cost = costs or self.costs
        inside = z < 1.0
        bend = cost.bend * np.maximum(cost.curved + cost.steep * np.sqrt(length2), 0.0)
        gained = length2 * P(np.where(inside, -z, 0.0)) + bend
        ends = np.maximum(cost.above_low - low, cost.above_high - high)
        return np.where(inside, ends + gained + _ROUNDING * (np.abs(ends) + gained), np.inf)

    def _lower(self, score: Floats, ahead: Floats, behind: Floats) -> Floats:
        """At the dispersion of the fit on S, along the Newton step of that model; a part of it is certain."""
        return np.maximum(score * P(np.maximum(ahead, behind)) * (1.0 - _ROUNDING) - _ROUNDING, 0.0)


class Duals:
    """Dual points of a model at any dispersion, by Newton steps from one that is near."""

    def __init__(self, family: NegativeBinomial, Z: Floats, offset: Floats | float) -> None:
        self.y, self.a, self.Z, self.offset = family.y, family.weights, Z, offset

    def at(self, alpha: float, coefficients: Floats) -> Dual | None:
        """The point that one Newton step leads to, from where steps are short; None where equations are hard to solve.

        What a step leads to is as good as orthogonal to the model, and close to the best such point.
        """
        Z, a, y = self.Z, self.a, self.y
        for _ in range(_MOST_STEPS):
            check_time()
            eta = self.offset + Z @ coefficients
            mean = np.exp(eta)
            above = 1.0 + alpha * mean
            residual, weight = (y - mean) / above, (mean / above) * ((1.0 + alpha * y) / above)
            inverse = self.inverse(weight)
            if inverse is None:
                return None
            step = inverse @ (Z.T @ (a * residual))
            move = Z @ step
            longest = float(np.abs(move).max())
            if longest <= _SHORT:
                break
            coefficients = coefficients + step * min(1.0, 2.0 / longest)
        else:
            return None
        left = residual - weight * move
        again = inverse @ (Z.T @ (a * left))  # what rounding has left of the equations
        move = move + Z @ again
        s, m = residual - weight * move, mean * (1.0 + alpha * y) / above * (1.0 + move / above)
        left = Z.T @ (a * s)
        sound = float(left @ inverse @ left) <= _SOLVED and bool((m > 1e-300).all())
        return Dual(alpha, coefficients, eta, s, m, View(Z, a * weight, inverse)) if sound else None

    def inverse(self, weight: Floats) -> Floats | None:
        """(ZᵀawZ)⁻¹, unless the model moves next to nothing in some direction."""
        curvature, directions = np.linalg.eigh(self.Z.T @ ((self.a * weight)[:, None] * self.Z))
        if not curvature[0] > _STEADY * curvature[-1]:
            return None
        return np.asarray((directions / curvature) @ directions.T)


def _along(view: View, new: Floats, score: Floats) -> tuple[Floats, float] | None:
    """The move of the predictors by a Newton step along several columns, and the squared decrement of that step."""
    left = view.left(new)
    inner = left.T @ (view.weight[:, None] * left)
    curvature = np.linalg.eigvalsh(inner)
    if not curvature[0] > _STEADY * curvature[-1]:
        return None
    slope = left.T @ score
    step = np.linalg.solve(inner, slope)
    return left @ step, float(slope @ step)


def _furthest(t: Floats, values: Floats, times: Floats, sign: float) -> Floats:
    """max of sign·t·value over the rows and 0, for models (columns of values) × intervals (columns of t)."""
    high = np.maximum(values.max(axis=0), 0.0)[:, None]
    low = np.maximum(-values.min(axis=0), 0.0)[:, None]
    return np.abs(t) * np.where(sign * t > 0.0, high, low) * times


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
    near = np.abs(z) < 0.02
    safe = np.where(near, 1.0, z)
    direct = (safe + safe / (1.0 + safe) - 2.0 * np.log1p(safe)) / safe**3
    series = np.polynomial.polynomial.polyval(np.where(near, z, 0.0), _SERIES)
    return s**3 * np.where(near, series, direct)
