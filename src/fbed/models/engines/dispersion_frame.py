"""What the fit of overdispersed counts on S tells of models with a column more or less, whatever their dispersion.

A candidate x changes the dual point m of every interval of dispersions by c = tWx̃, with x̃ what the model leaves of x
under weights W and t such that s − c is orthogonal to x. That is one product with each interval's residuals, and one
for each sum in the bound, however many models there are; c has to keep m and 1 + αs positive, and costs Σ ac²/w·P(z)
with z the least of c/m and −αc/(1 + αs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from fbed.clock import check_time
from fbed.models.engines.bound_functions import P
from fbed.models.engines.dispersion_intervals import Cover, Interval
from fbed.models.engines.dispersion_tangent import Change
from fbed.models.engines.dual_points import HIGHEST, Duals, View
from fbed.models.likelihoods.likelihood import RegressionFit
from fbed.models.likelihoods.negative_binomial import Floors, NegativeBinomial
from fbed.models.long_products import times, weighted_inner
from fbed.rules.p_values import Floats

_ROUNDING = 1e-8  # what bounds are widened by, relative
_STEADY = 1e-8  # least curvature of the model beside the largest, from which its equations are solved well enough
_LEAST = 1e-6  # part of a dispersion below which an interval is too narrow to go on
_CLOSE_TO_FIT = 1.01  # more than m differs between a fit and its dual point
_MET = 1e-9  # of a functional, what the equations behind it may miss
_INSIDE = 0.8  # part of m or 1 + αs that a change takes at most where residuals go along a tangent
_DEPENDENT = 1e-8  # part of a column's norm² that the model leaves of it, below which rounding hides the rest


@dataclass(frozen=True)
class _Idle:
    """Rows that leave the dual points, but not the likelihood."""

    Z: Floats
    height: Floats  # log of weight × mean, which may be no number but 0 itself

    def charge(self, new: Floats, coefficients: Floats, step: Floats) -> Floats:
        """What steps along new columns, less the model's part of each, make of their means, twice."""
        if not len(self.height):
            return np.zeros(len(step))
        moved = step * (new - self.Z @ coefficients)
        there = self.height[:, None] + np.maximum(moved, 0.0)
        return np.asarray(2.0 * np.exp(np.minimum(there, HIGHEST)).sum(axis=0))


@dataclass(frozen=True)
class _Costs:
    """Numbers of intervals side by side."""

    above_low: Floats
    above_high: Floats
    bend: Floats
    curved: Floats
    steep: Floats
    least: Floats  # what larger dispersions than an interval's leave possible whatever a candidate changes

    @classmethod
    def of(cls, some: list[Interval]) -> _Costs:
        rows = [(*i.above, i.bend, i.curved, i.steep, max(i.above) if i.endless else -np.inf) for i in some]
        return cls(*np.array(rows).T)


class Frame:
    """The fit on S as candidates see it: its weights, and intervals that hold all dispersions."""

    def __init__(self, fit: RegressionFit, cover: Cover, weight: Floats, score: Floats, inverse: Floats) -> None:
        duals = cover.duals
        self.y, self.a, self.busy = duals.y, duals.a, duals.busy
        self.deviance = fit.deviance
        self.weight, self.score = weight, score
        self.view = View(duals.Z, self.a * weight, inverse)
        self.idle = _Idle(fit.Z[~self.busy], duals.idle_height)
        self.intervals = cover.intervals
        self._collect()

    @classmethod
    def of(cls, fit: RegressionFit) -> Frame | None:
        """None where equations are not solved well, or where too many intervals would be needed."""
        family = cast(NegativeBinomial, fit.model.likelihood)
        with np.errstate(all="ignore"):
            point = family.at(fit.columns, fit.parameters[:, None])
            duals = Duals(family, fit.Z, point.eta[:, 0])
            centre = duals.at(float(fit.parameters[-1]), fit.parameters[:-1])
            weight = (point.curvature()[:, 0] / family.weights)[duals.busy]
            inverse = duals.inverse(weight)
            if centre is None or inverse is None:
                return None
            cover = Cover(family, fit.deviance, duals)
            if not cover.found(centre):
                return None
        return cls(fit, cover, weight, point.residual()[duals.busy, 0], inverse)

    def _collect(self) -> None:
        """Side by side what every candidate is multiplied with."""
        some, a, W = self.intervals, self.a, self.weight
        self.costs = _Costs.of(some)
        vectors = [a * i.s for i in some] + [a * W * i.apart[0] for i in some] + [a * W * i.apart[1] for i in some]
        self.products = np.array(vectors).T  # each in one piece
        self.squares = np.array([*(a * W**2 * i.per_weight for i in some), a * W]).T
        centre = some[0]
        self.tangent = centre.tangent
        self.turning = np.zeros(len(self.y)) if self.tangent is None else a * self.tangent.along
        self.up_unit = np.maximum(centre.ahead, _LEAST)  # the fit may be Poisson's
        self.down, self.up = W * centre.down, W * self.up_unit
        self.further_down = np.array([float((i.down / centre.down).max()) for i in some])
        self.further_up = np.array([float((i.ahead / self.up_unit).max(initial=0.0)) for i in some])

    def single(self, new: Floats) -> tuple[Floats, Floats]:
        """Bounds of many models with a column each."""
        lower, upper = self._first_look(self._busy_rows(new), new[~self.busy])
        return lower, np.maximum(upper.max(axis=1), 0.0)

    def closer(self, new: Floats, line: Floats) -> Floats:
        """Upper bounds of models × intervals, under the weights of each interval where those of the fit do not do.

        Who is above a line at the dispersion of the fit is so with any weights.
        """
        idle, new = new[~self.busy], self._busy_rows(new)
        upper = self._first_look(new, idle)[1]
        for i, found in enumerate(self.intervals[1:], 1):
            some = np.flatnonzero((upper[:, i] > upper[:, 0]) & (upper[:, 0] <= line))
            if len(some):
                check_time()
                left = found.view.left(new[:, some])
                norm2 = found.view.weight @ left**2
                t = (self.a * found.s) @ left / np.where(norm2 > 0.0, norm2, 1.0)
                change = t * left * (found.view.weight / self.a)[:, None]
                known = norm2 > _DEPENDENT * (found.view.weight @ new[:, some] ** 2)
                upper[some, i] = np.minimum(upper[some, i], np.where(known, self._after(found, change), np.inf))
        return upper

    def _busy_rows(self, new: Floats) -> Floats:
        """Each column in one piece: what is largest in it is found in a tenth of the time then."""
        return np.asfortranarray(new) if self.busy.all() else np.compress(self.busy, new.T, axis=1).T

    def floors(self, upper: Floats) -> Floors:
        """What models leave unexplained at least in every interval, from upper bounds of what they gain."""
        low, high = (np.array([getattr(i, end) for i in self.intervals]) for end in ("low", "high"))
        return Floors(low, high, self.deviance - upper)

    def several(self, new: Floats) -> tuple[Floats, Floats]:
        """Bounds of one model with several columns more."""
        check_time()
        idle, new = new[~self.busy], self._busy_rows(new)
        scores = [self.score, *(self.a * i.s for i in self.intervals), self.turning]
        check_time()
        solved = _along(self.view, new, np.column_stack(scores))
        if solved is None:
            return np.zeros(1), np.full(1, np.inf)
        moves, gained, step, coefficients = solved
        changes = moves[:, 1:] * self.weight[:, None]
        turn = changes[:, [-1]]
        check_time()
        upper = [float(self._after(i, changes[:, [j]], turn)[0]) for j, i in enumerate(self.intervals)]
        charge = self.idle.charge(idle @ step[:, :1], coefficients @ step[:, :1], np.ones(1))
        ahead = np.maximum((moves[:, :1] * self.down[:, None]).max(axis=0), 0.0)
        behind = np.maximum((-moves[:, :1] * self.up[:, None]).max(axis=0), 0.0)
        return self._lower(gained[:1], ahead, behind, charge), np.maximum(np.array([max(upper)]), 0.0)

    def lost_at_least(self, functionals: list[Floats]) -> Floats:
        """What models lose that have no coefficients along functionals, from each interval's nearest such model.

        A dual point of the model without a variable is m + c with c = −tWu, u what the nearest one, in the metric of W,
        lacks of the predictors: their means have not moved as far as those of the fit.
        """
        most = np.full(len(functionals), -np.inf)
        for found in self.intervals:
            check_time()
            change, linear = self._lacking(found, functionals)
            most = np.maximum(most, self._after(found, change, within=False) - linear)
        return np.maximum(-most * (1.0 - _ROUNDING) - _ROUNDING, 0.0)

    def _lacking(self, found: Interval, functionals: list[Floats]) -> tuple[Floats, Floats]:
        """c of every model, and by how much its predictors being another's lower the bound; 0 for the largest
        dispersion, from which on all others are held by the residuals of the whole model only.
        """
        view, count = found.view, len(functionals)
        linear = np.zeros(count)
        if found.endless:
            return np.zeros((len(self.y), count)), linear
        coefficients, steps = found.coefficients, np.zeros((view.Z.shape[1], count))
        information = weighted_inner(view.Z, view.weight, view.Z)
        for j, functional in enumerate(functionals):
            solved = view.inverse @ functional
            if not np.abs(information @ solved - functional).max() <= _MET * np.abs(functional).max():
                continue  # what it picks moves idle rows, which are not idle without it
            dual = np.linalg.solve(functional.T @ solved, functional.T @ coefficients)
            steps[:, j] = solved @ dual
            linear[j] = coefficients @ functional @ dual
        change = (view.Z @ steps) * -(view.weight / self.a)[:, None]
        z = np.maximum(
            np.maximum((-change * found.down[:, None]).max(axis=0), (change * found.ahead[:, None]).max(axis=0)), 1e-9
        )
        part = -np.expm1(-z) / z
        if found.tangent is not None:  # no further than the tangent knows
            length = np.sqrt((self.a * found.per_weight) @ change**2)
            inside = _INSIDE / (z * found.tangent.shrinks)
            part = np.minimum(part, np.minimum(inside, found.tangent.longest / np.maximum(length, 1e-300)))
        return change * part, 2.0 * part * linear

    def _first_look(self, new: Floats, idle: Floats) -> tuple[Floats, Floats]:
        """Lower bounds of many models, and upper bounds for every interval, under the weights of the fit."""
        check_time()
        (left, coefficients), count = self.view.parted(new), len(self.intervals)
        sums = left.T @ self.products
        squared = (left**2).T @ self.squares
        known = squared[:, -1] > _DEPENDENT * (self.view.weight @ new**2)
        norm2 = np.where(known, squared[:, -1], 1.0)[:, None]
        t = sums[:, :count] / norm2
        down, up = _ends(left * self.down[:, None]), _ends(left * self.up[:, None])
        z = np.maximum(_furthest(t, down, self.further_down, -1.0), _furthest(t, up, self.further_up, 1.0))
        off = [2.0 * t * sums[:, (1 + e) * count : (2 + e) * count] for e in (0, 1)]
        length2, more = t**2 * squared[:, :-1], np.zeros(len(t))
        if self.tangent is not None:
            turn = np.abs(left.T @ self.turning) / norm2[:, 0]
            turned = turn * np.sqrt(squared[:, 0]), turn * np.maximum.reduce([*down, *up])
            more = self.tangent.gained(Change(np.sqrt(length2[:, 0]), z[:, 0], *turned))
        upper = self._upper(length2, z, off[0], off[1])
        upper[:, 0] += more
        own = left.T @ self.score / norm2[:, 0]
        ahead, behind = (_furthest(own[:, None], by, np.ones(1), way)[:, 0] for by, way in ((down, 1.0), (up, -1.0)))
        lower = self._lower(own**2 * norm2[:, 0], ahead, behind, self.idle.charge(idle, coefficients, own))
        return np.where(known, lower, 0.0), np.where(known[:, None], upper, np.inf)

    def _after(self, found: Interval, change: Floats, turn: Floats | None = None, within: bool = True) -> Floats:
        """What one interval leaves possible for models (columns) that change m so.

        Where residuals go along a tangent these changes do not stay as they are: they turn as the others have it.
        """
        z = np.maximum((-change * found.down[:, None]).max(axis=0), (change * found.ahead[:, None]).max(axis=0))
        length2 = (self.a * found.per_weight) @ change**2
        off = [2.0 * (self.a * apart) @ change for apart in found.apart]
        only, z, more = _Costs.of([found]), np.maximum(z, 0.0), np.zeros(len(z))
        if found.tangent is not None:
            other, furthest = more, more
            if turn is not None:
                other = np.sqrt((self.a * found.per_weight) @ turn**2)
                furthest = np.maximum.reduce([*_ends(turn * found.down[:, None]), *_ends(turn * found.ahead[:, None])])
            more = found.tangent.gained(Change(np.sqrt(length2), z, other, furthest), within)
        return self._upper(length2[:, None], z[:, None], off[0][:, None], off[1][:, None], only)[:, 0] + more

    def _upper(self, length2: Floats, z: Floats, low: Floats, high: Floats, costs: _Costs | None = None) -> Floats:
        """Models × intervals: what each interval leaves possible."""
        cost = costs or self.costs
        inside = z < 1.0
        bend = cost.bend * np.maximum(cost.curved + cost.steep * np.sqrt(length2), 0.0)
        gained = length2 * P(np.where(inside, -z, 0.0)) + bend
        ends = np.maximum(cost.above_low - low, cost.above_high - high)
        upper = np.maximum(ends + gained + _ROUNDING * (np.abs(ends) + gained), cost.least)
        return np.where(inside, upper, np.inf)

    def _lower(self, score: Floats, ahead: Floats, behind: Floats, charge: Floats) -> Floats:
        """At the dispersion of the fit on S, along the Newton step of that model; a part of it is certain."""
        reach = np.maximum(ahead, behind) * _CLOSE_TO_FIT
        lower = score * P(reach) * (1.0 - _ROUNDING) - _ROUNDING - charge
        return np.where(lower > 0.0, lower, 0.0)


def _along(view: View, new: Floats, scores: Floats) -> tuple[Floats, Floats, Floats, Floats] | None:
    """Moves of the predictors by Newton steps along several columns, a column for each score of the rows; the squared
    decrements of those steps, the steps, and the coefficients of what the model does not leave of the columns.
    """
    left, coefficients = view.parted(new)
    inner = weighted_inner(left, view.weight, left)
    curvature = np.linalg.eigvalsh(inner)
    if not curvature[0] > _STEADY * curvature[-1]:
        return None
    check_time()
    slopes = left.T @ scores
    steps = np.asarray(np.linalg.solve(inner, slopes))
    return times(left, steps), np.asarray(np.einsum("ij,ij->j", slopes, steps)), steps, coefficients


def _ends(values: Floats) -> tuple[Floats, Floats]:
    """How far every column goes above 0, and below."""
    return np.maximum(values.max(axis=0), 0.0), np.maximum(-values.min(axis=0), 0.0)


def _furthest(t: Floats, ends: tuple[Floats, Floats], times: Floats, sign: float) -> Floats:
    """max of sign·t·value over the rows and 0, for models (ends of columns of values) × intervals (columns of t)."""
    above, below = ends
    return np.abs(t) * np.where(sign * t > 0.0, above[:, None], below[:, None]) * times
