"""The rows at a fit in coded columns, and what they tell about columns that could join it or leave it.

Projections on the model are under weights w₀ of the rows that may be those of a fit of some steps before. With x̃ what
the model leaves of x under w₀, f the step within the model that the fit is short of its maximum, μ and w the means and
the curvature of now, the means μ + w₀(u + f), u = x̃·x̃ᵀr/x̃ᵀw₀x̃, satisfy the equations of the maximum with x whatever w₀
is, and their divergence from μ bounds what x can gain. To second order that is the squared norm under w₀²/w,

    s²/‖x̃‖²_w·P(z_max)  ≤  LR  ≤  (|s|·‖x̃‖_{w₀²/w}/‖x̃‖²_{w₀} + ‖f‖_{w₀²/w})²·P(z_min(u) + z_min(f)),      s = x̃ᵀr,

with z the change of the log mean. Both sides lose only to second order what w₀ is away from w. So the factor of a large
model serves many steps of a search, and what is left of a candidate needs an update, no projection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed.matrix.design import Design
from fbed.models.engines.bound_functions import P
from fbed.models.engines.categories.ascent import ROUGHLY, Enclosed, Settled, idle_rows, is_reliable
from fbed.models.engines.categories.coded_columns import SOUND, CodedColumns, OtherCategory, category_of
from fbed.models.engines.categories.coded_projection import Projection
from fbed.models.engines.categories.row_likelihoods import RowLikelihood
from fbed.models.engines.categories.walks import (
    ROUNDING,
    AllSettled,
    Beside,
    Nothing,
    OneEach,
    Together,
    Walks,
    Without,
    at_least,
)
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

_IDLE = 1e-9  # what a row may have left to be only bounded
_SHORT = -0.5  # z of the step that a fit is short of, beyond which rows on their way to infinity are left out
_SUSPECT = 1e-7  # norm² left after the model, relative, below which a column may be collinear
_ARRIVED = 1e-11  # what a fit may be short of its maximum
_LOOSE = 1.2  # what the spread of w₀/w may cost upper bounds, roughly, before everything is taken anew
_KEPT_VALUES = 2**22  # of what the model leaves of candidates, kept for the next step
_WIDEST = 64  # columns of a group that are projected as columns
_NEARLY_BEST = 6  # candidates of a block that are looked at closely: the best, and who comes after it


@dataclass(frozen=True)
class Left:
    """What a model leaves of some columns (column-major), and their squares before."""

    columns: Floats
    total: Floats

    def without(self, directions: Floats, weighted: Floats) -> Left:
        """After one more variable of the model, of which unit vectors were left."""
        return Left(self.columns - (self.columns.T @ weighted @ directions.T).T, self.total)


@dataclass(frozen=True)
class FittedRows:
    """The rows at a fit; `before` is what the model leaves of candidates of the step before."""

    projection: Projection
    outcome: RowLikelihood
    weight: Floats
    predictor: Floats
    deviance: float
    mean: Floats
    residual: Floats
    curvature: Floats
    missing: Floats  # the step that the fit is short of its maximum
    short: float  # its norm
    reach: float  # its z_min; −inf where there are no upper bounds
    idle_cost: float
    before: Mapping[int, Left] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: CodedColumns, predictor: Floats, outcome: RowLikelihood, weight: Floats) -> FittedRows:
        """Rows that are on their way to infinity are idle where they would make bounds useless."""
        rows = outcome.at(predictor, weight)
        mean, residual, curvature, cost = rows.mean, rows.residual, rows.curvature, 0.0
        for attempt in range(2):
            step = columns.newton(residual, curvature)
            low = outcome.reach(mean, step.move, curvature)[0]
            sound = is_reliable(step) and low > _SHORT
            if sound or attempt:
                break
            idle, cost = idle_rows(outcome, rows, _IDLE)
            residual, curvature = np.where(idle, 0.0, residual), np.where(idle, 0.0, curvature)
        projection = Projection.of(columns, curvature)
        reach, short = (low, np.sqrt(max(step.decrement, 0.0))) if sound else (-np.inf, np.inf)
        state = (outcome, weight, predictor, rows.deviance, mean, residual, curvature)
        return cls(projection, *state, step.move, short, reach, cost)

    @classmethod
    def arrived(
        cls, projection: Projection, predictor: Floats, outcome: RowLikelihood, weight: Floats
    ) -> FittedRows | None:
        """The rows at the maximum, by steps with the weights of the projection; None where they do not get there."""
        walk = Walks(projection, outcome, weight, Nothing(), predictor[:, None].copy(), np.zeros(1), np.full(1, np.inf))
        walk.go(lambda least, most: np.asarray(most - least <= _ARRIVED + 2e-14 * most))
        if not walk.settled[0]:
            return None
        predictor = walk.predictor[:, 0]
        rows = outcome.at(predictor, weight)
        move = projection.steps(rows.residual[:, None])[:, 0]
        state = (outcome, weight, predictor, rows.deviance, rows.mean, rows.residual, rows.curvature)
        out = cls(projection, *state, move, 0.0, -np.inf, 0.0)
        if not out.looseness < _LOOSE:
            return None
        low = outcome.least_change(rows.mean, out._ratio * move)
        short = float(np.sqrt(out._dual @ move**2))
        return replace(out, short=short, reach=low) if low > _SHORT else None

    @cached_property
    def _ratio(self) -> Floats:
        """w₀/w."""
        there, here = self.projection.weight, self.curvature
        return np.divide(there, here, out=np.where(there > 0, np.inf, 0.0), where=here > 0)

    @cached_property
    def _dual(self) -> Floats:
        """w₀²/w."""
        return self.projection.weight * self._ratio

    @cached_property
    def looseness(self) -> float:
        """What upper bounds are larger than lower ones since w₀ is not w, roughly."""
        total = float(self.projection.weight.sum())
        return float(self._dual.sum()) * float(self.curvature.sum()) / total**2 if total > 0 else np.inf

    @property
    def is_sound(self) -> bool:
        """Whether there are upper bounds, and no rows that are only bounded."""
        return self.idle_cost == 0.0 and np.isfinite(self.reach)

    @cached_property
    def _kept(self) -> dict[int, Left]:
        return {}

    @cached_property
    def _room(self) -> list[int]:
        """Values that may still be kept."""
        return [_KEPT_VALUES]

    def joined(self, design: Design, variable: int) -> tuple[Projection, dict[int, Left]] | None:
        """The projection with one more variable, and what it leaves of those who may be next."""
        directions = self.own_directions(design, variable) if self.is_sound else None
        if directions is None:
            return None
        category = category_of(design, variable)
        if design.varying[variable]:
            projection = self.projection.joined(design.block([variable]))
        elif category is not None and category.n_levels <= self.projection.columns.levels.n_levels:
            projection = self.projection.joined_by(OtherCategory.of(category, self.projection.columns.weight))
        else:
            return None
        if projection is None:
            return None
        weighted = self.projection.weight[:, None] * directions
        return projection, {v: kept.without(directions, weighted) for v, kept in self._kept.items() if v != variable}

    def left(self, design: Design, variables: NDArray[np.intp]) -> Left:
        """What the model leaves of single columns of numbers."""
        out = np.empty((len(self.weight), len(variables)), order="F")
        total = np.empty(len(variables))
        known = [self._kept.get(v) or self.before.get(v) for v in variables.tolist()]
        for j, one in enumerate(known):
            if one is not None:
                out[:, j], total[j] = one.columns[:, 0], one.total[0]
        new = np.flatnonzero([one is None for one in known])
        if len(new):
            X = design.block(variables[new])
            out[:, new], total[new] = self.projection.without_model(X), self.projection.weight @ X**2
        return Left(out, total)

    def keep(self, variable: int, left: Left) -> None:
        """Remember what the model leaves of a candidate that may be asked for again."""
        if variable not in self._kept and self._room[0] >= left.columns.size:
            self._room[0] -= left.columns.size
            self._kept[variable] = left

    def brackets(
        self, design: Design, variables: NDArray[np.intp], deviance: float, bar: float
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Lower and upper bounds for columns of numbers, and who may depend on the model.

        They are looked at more closely where the bar is between them, and where they may be best.
        """
        left = self.left(design, variables)
        slope, norm, dual, own, low, high = self.outcome.looks(
            left.columns, self.residual, self.projection.weight, self.curvature, self._ratio, self.mean
        ).T
        suspect = ~(norm > _SUSPECT * left.total) | ~(left.total > 0)
        safe, primal = np.where(suspect, 1.0, norm), np.where(suspect | ~(own > 0), np.inf, own)
        slack = ROUNDING + self.projection.error
        z = low + self.reach
        inside = z > -1.0 + slack
        size = (np.abs(slope) * np.sqrt(dual) / safe + self.short) ** 2
        most = size * P(np.where(inside, z * (1.0 + slack), 0.0)) * (1.0 + slack) + self.idle_cost
        upper = np.minimum(np.where(inside & ~suspect, most, np.inf), deviance)
        lower = slope**2 / primal * P(high * (1.0 + slack)) * (1.0 - slack) if self.idle_cost == 0.0 else 0.0 * slope
        lower = np.where(suspect, 0.0, np.minimum(lower, upper))
        doubtful = (upper > bar) & ((lower <= bar * (1.0 + 2.0 * TIE)) | (upper >= _nearly_best(lower)))
        which = np.flatnonzero(doubtful & ~suspect)
        if len(which) and self.is_sound:
            beside = OneEach(np.asfortranarray(left.columns[:, which]), norm[which])
            least, most = self._all_enclosed(beside, deviance, partial(_are_clear, deviance, bar))
            lower[which] = np.maximum(lower[which], deviance - most)
            upper[which] = np.maximum(lower[which], np.minimum(upper[which], deviance - least))
        for j in np.flatnonzero((upper > bar) & ~suspect):
            self.keep(int(variables[j]), Left(left.columns[:, [j]], left.total[[j]]))
        return lower, upper, suspect

    def own_directions(self, design: Design, variable: int) -> Floats | None:
        """What a variable has beside the model, as unit vectors; None where some of it depends on the model."""
        found = self.left_of(design, variable)
        if found is None:
            return None
        weighted = self.projection.weight[:, None] * found.columns
        if not (np.diag(gram := found.columns.T @ weighted) > SOUND * found.total).all():
            return None
        unit = 1.0 / np.sqrt(found.total)
        factor, failed = linalg.lapack.dpotrf(gram * (unit[:, None] * unit), lower=1)
        if failed or not float(np.diag(factor).min()) ** 2 > SOUND:
            return None
        self.keep(variable, found)
        return np.asfortranarray(linalg.solve_triangular(factor, (found.columns * unit).T, lower=True).T)

    def left_of(self, design: Design, variable: int) -> Left | None:
        """What the model leaves of a variable; None where it has many columns, or levels that explain their rows."""
        if design.varying[variable]:
            return self.left(design, np.array([variable], dtype=np.intp))
        return self._kept.get(variable) or self.before.get(variable) or self._group(design, variable)

    def _group(self, design: Design, variable: int) -> Left | None:
        """What the model leaves of a category or a group of few columns."""
        width = int(design.width[variable])
        if width > _WIDEST or width * len(self.weight) > _KEPT_VALUES:
            return None
        category = category_of(design, variable)
        if category is not None and self.outcome.explained(category, self.weight).any():
            return None
        X = np.asfortranarray(design.columns(variable))
        return Left(np.asfortranarray(self.projection.without_model(X)), self.projection.weight @ X**2)

    def enclose(self, directions: Floats, deviance: float, settled: Settled) -> Enclosed | None:
        """The deviance with more columns, given unit vectors of what they have beside the model."""
        if not self.is_sound:
            return None
        return self._enclosed_one(Together(directions), *self._first_steps(Together(directions)), deviance, settled)

    def _first_steps(self, beside: Beside) -> tuple[Floats, Floats]:
        """Where to start, and the deviances at least: the means μ + w₀(u + f) satisfy the equations of the maximum."""
        step = beside.first(self.residual)
        change = self.projection.weight[:, None] * (step + self.missing[:, None])
        gain = self.outcome.divergences(self.mean[:, None], change, self.weight)
        least = at_least(self.projection, self.residual, np.full(beside.count, self.deviance), gain)
        curve = self.curvature @ step**2
        part = np.divide(self.residual @ step, curve, out=np.zeros(beside.count), where=curve > 0)
        return self.predictor[:, None] + part * step, least

    def enclose_without(
        self, places: Sequence[slice], coefficients: Floats, settled: AllSettled
    ) -> tuple[Floats, Floats, NDArray[np.bool_], Floats] | None:
        """Deviances without the columns of each of several variables, given the coefficients of all; which of them
        are settled, and the predictors where that was found, one a column. None where a fit is needed to tell.

        What the model has of its own in some columns X are directions G of its span, with GᵀwX = 1 and Gᵀwz = 0 for all
        other columns z. Those have the coefficients GᵀwG, so that G(GᵀwG)⁻¹ times theirs is what is to be taken away.
        """
        if not self.is_sound or len(places) * len(self.weight) > _KEPT_VALUES:
            return None
        start = np.repeat(self.predictor[:, None], len(places), axis=1)
        parts = []
        for j, own in enumerate(places):
            directions, gram = self.projection.own(own)
            unit = 1.0 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
            factor, failed = linalg.lapack.dpotrf(gram * (unit[:, None] * unit), lower=1)
            if failed or not float(np.diag(factor).min()) ** 2 > SOUND:
                return None
            parts.append(linalg.lapack.dtrtrs(factor, (directions * unit).T, lower=1)[0].T)
            start[:, j] -= parts[-1] @ linalg.lapack.dtrtrs(factor, unit * coefficients[own], lower=1)[0]
        owner = np.repeat(np.arange(len(places)), [part.shape[1] for part in parts])
        beside = Without(np.hstack(parts), owner, len(places))
        walks = self._walks(beside, np.asfortranarray(start), np.zeros(len(places)), np.inf)
        walks.go(settled)
        return walks.least, walks.most, walks.settled, walks.predictor

    def _enclosed_one(
        self, beside: Beside, start: Floats, least: Floats, most: float, settled: Settled
    ) -> Enclosed | None:
        walks = self._walks(beside, start, least, most)
        walks.go(lambda least, most: np.array([settled(float(least[0]), float(most[0]))]))
        found = float(walks.least[0]), float(walks.most[0]), walks.predictor[:, 0]
        return Enclosed(*found, settled=True) if walks.settled[0] else None

    def _all_enclosed(self, beside: Beside, deviance: float, settled: AllSettled) -> tuple[Floats, Floats]:
        """Intervals for the deviances with each column, as far as steps settle them."""
        walks = self._walks(beside, *self._first_steps(beside), deviance)
        walks.go(settled)
        return walks.least, walks.most

    def _walks(self, beside: Beside, start: Floats, least: Floats, most: float) -> Walks:
        return Walks(self.projection, self.outcome, self.weight, beside, start, least, np.full(len(least), most))


def _are_clear(null: float, bar: float, least: Floats, most: Floats) -> NDArray[np.bool_]:
    """Which statistics of so many df fail for certain, or pass and are known well enough to compare them with others.

    Those that pass and are certain to be worse than a few others are compared with nobody.
    """
    lower, upper = null - most, null - least
    passes, rough = lower > bar * (1.0 + 2.0 * TIE), upper - lower <= ROUGHLY * lower
    return np.asarray((upper <= bar * (1.0 - TIE)) | (passes & (rough | (upper < _nearly_best(lower)))))


def _nearly_best(lower: Floats) -> float:
    """What the statistics of the best few exceed."""
    few = len(lower) - _NEARLY_BEST
    return float(np.partition(lower, few)[few]) if few > 0 else 0.0
