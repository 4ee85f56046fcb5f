"""Wald tests without fitting a model for every candidate.

*Additions.* At the fit on S let x be a candidate, x̃ what the model leaves of it under the curvatures w of the rows,
U = Σrx̃, I = Σwx̃² and s = U²/I its score statistic. In logistic and Poisson models a row's curvature changes by no more
than a factor eᵐ while its predictor moves by m. With M = max|x̃|·|U|/I how far a Newton step moves a row, ℓ the largest
zᵀH⁻¹z of a row of [Z x̃] and L = √(sℓ), M + L < 2 is enough for the larger model to have a maximum, to which no
predictor moves by more than m = log[(2 + M − L)/(2 − M − L)], and

    s·[m/(eᵐ − 1)]²·e⁻ᵐ  ≤  Wald  ≤  s·[m/(1 − e⁻ᵐ)]²·eᵐ,

since β̂ = U/Ī with Ī between I(1 − e⁻ᵐ)/m and I(eᵐ − 1)/m, and the information at the maximum is e^±m·I (`wald.hpp` has
the argument; M = L is that of Bach 2010, Electronic Journal of Statistics 4). All of that are sums that score tests
make too. Whom it does not tell apart from the critical value is taken some steps towards his own maximum, where the
same argument encloses his statistic more tightly, and what hangs on less than rounding is fitted as if there were no
bounds.

*Removals.* The larger model is the one that is fitted: with coefficients b and H its curvature, the statistic of
columns j is bⱼᵀ[(H⁻¹)ⱼⱼ]⁻¹bⱼ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from fbed._kernels import columns_pull_apart, wald_intervals
from fbed.clock import check_time
from fbed.matrix.row_blocks import RowBlocks
from fbed.models.base import Bounds, Indices, single_columns
from fbed.models.engines.scored import AT_ONCE, Place, ScoredFit
from fbed.models.likelihoods.glm import POISSON, Glm
from fbed.models.likelihoods.likelihood import CERTAIN, RegressionFit, evidence
from fbed.models.likelihoods.newton import Maximum, polished
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import ChiSquare, Floats
from fbed.threads import spread

_ROUNDING = 1e-8  # what bounds are widened by: what is left of sums after cancellation has more digits
_AT_ONCE_THERE = 1e-9  # a way so short that it does not show
_NOISE = 4e-15  # rounding of a sum, beside the sum of sizes
_CLOSE = 1e-6  # width of an interval, beside its end, that tells who is best unless somebody is as good
_EXACT = 1e-10  # width of one that is a number
_FIRST = 8  # contenders of whom the best is found before the others are looked at
_ARRIVED = 1e-4  # how far from its maximum the predictors of a fit may be: two more steps take it to the last digit
_INDEPENDENT = 1e-4  # part of its length that a column must have kept beside those before it
_INFINITE = 1e-2  # statistic of an infinite coefficient: 0, and what iterations that end somewhere make of it
_BATCH_VALUES = 2**17  # float64 values of columns that are looked at in one go


class WaldFit(ScoredFit):
    """A fit of a model of two classes, trials or counts whose candidates are tested by their coefficients."""

    reference = ChiSquare()
    bounds_are_cheap, looks_are_dear = True, False

    def _maximise(self, start: Floats) -> Maximum:
        """As for score tests; by the steps of every model where rows may be on their way to infinity.

        What others add to such a fit hangs on where it ended.
        """
        found = super()._maximise(start)
        is_far = self.model.likelihood.reach(self.model.likelihood.at(self.columns, found.parameters)) > CERTAIN
        return RegressionFit._maximise(self, start) if is_far else found

    def prepare(self, n_candidates: int = 0, critical: float = np.inf) -> None:
        """Nothing: what candidates share is made when the first of them asks."""

    def gains(self, candidates: Indices) -> Evidence:
        """Evidence for adding each candidate, all of them fitted."""
        return RegressionFit.gains(self, candidates)

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals from sums, from a few steps where these are not clear of the critical value, or statistics."""
        lower, upper, df = np.zeros(len(candidates)), np.full(len(candidates), np.inf), np.zeros(len(candidates))
        line = float(critical(np.ones(1))[0])
        single = np.flatnonzero(self.model.design.varying[candidates])
        for start in range(0, len(single) if self._is_maximum else 0, AT_ONCE):
            some = single[start : start + AT_ONCE]
            lower[some], upper[some], known = self._from_sums(candidates[some])
            df[some[known]] = 1.0
        unsure = np.flatnonzero((df > 0) & _unclear(lower, upper, line))
        lower[unsure], upper[unsure] = self._narrowed(candidates[unsure], lower[unsure], upper[unsure], line, np.inf)
        if self._is_maximum:
            strange = single[df[single] == 0]
            lost = strange[self._are_infinite(candidates[strange], line)]
            upper[lost], df[lost] = _INFINITE, 1.0
        rest = np.flatnonzero((df == 0) | _unclear(lower, upper, line))
        if len(rest):
            careful = self.gains(candidates[rest])
            lower[rest] = upper[rest] = careful.statistic
            df[rest] = careful.df
        return Bounds(lower, upper, df, self.reference)

    @cached_property
    def _is_maximum(self) -> bool:
        """Whether it is certain that the model has a maximum, next to where the fit is, and not at infinity."""
        perfect = self.saturated or self.span.rank + 1 >= self.model.design.n_rows  # no deviance, or one column from it
        if perfect or self._place is None:
            return False
        return float(np.linalg.norm(self._place.before)) * np.sqrt(self._leverage) < _ARRIVED

    @cached_property
    def _basis(self) -> Floats:
        """Columns of the model that are orthonormal under the curvatures of its rows."""
        return np.asfortranarray(solve_triangular(cast(Place, self._place).root, self.Z.T, lower=True).T)

    @cached_property
    def _leverage(self) -> float:
        """The largest zᵀH⁻¹z of a row."""
        return float(np.einsum("ij,ij->i", self._basis, self._basis).max())

    @cached_property
    def _pearson(self) -> float:
        """Σr²/w: a step that is as long explains everything, and the deviance it leaves is rounding."""
        residual, curvature = cast(Place, self._place).vectors[:, :2].T
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return float(np.where(residual == 0.0, 0.0, residual**2 / curvature).sum())

    def _from_sums(self, candidates: Indices) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Intervals of single columns, and who may be looked at closer."""
        place, blocks = cast(Place, self._place), RowBlocks(self.model.design)
        beside = self._beside(place, candidates, blocks.products)
        left = np.where(beside.known, beside.left, 1.0)
        most = blocks.reach(candidates) + np.sqrt(self._leverage * np.maximum(beside.own - left, 0.0))
        most, slope = most / np.sqrt(left), np.abs(beside.slope) / np.sqrt(left)
        noise = _NOISE * float(np.abs(place.vectors[:, 0]).sum()) * most
        before = float(np.linalg.norm(place.before))
        length = np.sqrt(before**2 + slope**2) + noise
        furthest = before * np.sqrt(self._leverage) + (slope + noise) * most
        reach = length * np.sqrt(self._leverage + most**2)
        lower, upper = enclosed(slope, length, furthest, reach, noise)
        sure = beside.known & (self._pearson > (length * np.exp(way(furthest, reach)[0])) ** 2)  # no perfect fit
        return np.where(sure, lower, 0.0), np.where(sure, upper, np.inf), beside.known

    def _narrowed(
        self, candidates: Indices, lower: Floats, upper: Floats, line: float, width: float
    ) -> tuple[Floats, Floats]:
        """Intervals after a few steps: below the line, or above it and of that width relative to their ends."""
        glm, design = cast(Glm, self.model.likelihood), self.model.design

        def look(some: Indices) -> tuple[Floats, Floats]:
            check_time()
            x = np.asfortranarray(single_columns(design, some))
            counts, lines = glm.distribution is POISSON, np.full(len(some), line)
            offset = None if glm.offset is None else np.ascontiguousarray(glm.offset[:, 0])
            return wald_intervals(self._basis, glm.weights, glm.y, self._predictor, counts, x, lines, width, offset)

        found = list(spread(look, self._cut(candidates), design.n_threads))
        if not found:
            return lower, upper
        low, high = (np.concatenate([part[end] for part in found]) for end in (0, 1))
        return np.maximum(lower, low), np.minimum(upper, high)

    def _are_infinite(self, candidates: Indices, line: float) -> NDArray[np.bool_]:
        """Who has an infinite coefficient by himself, if the statistic of such a one is below the line."""
        if len(candidates) == 0 or line <= _INFINITE:
            return np.zeros(len(candidates), dtype=bool)
        glm, design = cast(Glm, self.model.likelihood), self.model.design

        def look(some: Indices) -> NDArray[np.bool_]:
            check_time()
            x = np.asfortranarray(single_columns(design, some))
            degenerate = self.span.residuals(x)[1]
            return columns_pull_apart(x, glm.y, glm.distribution is POISSON) & ~degenerate

        return np.concatenate(list(spread(look, self._cut(candidates), design.n_threads)))

    def _cut(self, candidates: Indices) -> list[Indices]:
        """Candidates whose columns are looked at in one go."""
        size = max(1, _BATCH_VALUES // self.model.design.n_rows)
        return [candidates[start : start + size] for start in range(0, len(candidates), size)]

    @cached_property
    def _predictor(self) -> Floats:
        """The linear predictor, offset and all."""
        offset = cast(Glm, self.model.likelihood).offset
        return np.ascontiguousarray((self.predictors() if offset is None else self.predictors() + offset)[:, 0])

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """Statistics; in a race of those only who are not behind the best after some steps."""
        lower, upper = lower.copy(), upper.copy()
        if race:
            self._race(candidates, lower, upper)
        last = self._last(lower, upper) if race else np.flatnonzero(lower < upper)
        if race and len(last) == 1 and self._is_maximum and self.model.design.varying[candidates[last]].all():
            line = float(lower[last[0]]) * (1.0 - _CLOSE)
            lower[last], upper[last] = self._narrowed(candidates[last], lower[last], upper[last], line, _EXACT)
            last = last[lower[last] < upper[last]]
        if len(last):
            lower[last] = upper[last] = self.gains(candidates[last]).statistic
        return lower, upper

    def _last(self, lower: Floats, upper: Floats) -> Indices:
        """Who may be best, and is not known."""
        best = float(lower.max(initial=0.0)) * (1.0 - _CLOSE)
        near = np.flatnonzero(upper >= best)
        return near[lower[near] < upper[near]]

    def _race(self, candidates: Indices, lower: Floats, upper: Floats) -> None:
        """Narrow the intervals of the first few, then of those who may be better."""
        if not self._is_maximum:
            return
        for first in (True, False):
            best = float(lower.max(initial=0.0)) * (1.0 - _CLOSE)
            open_ = (upper - lower > _CLOSE * upper) & (upper >= best) & self.model.design.varying[candidates]
            some = np.flatnonzero(open_)[: _FIRST if first else None]
            if len(some) > 1 or not first:
                lower[some], upper[some] = self._narrowed(candidates[some], lower[some], upper[some], best, _CLOSE)

    def losses(self, variables: Indices) -> Evidence:
        """Evidence against removing each variable."""
        found = self._removals
        if found is None:
            return super().losses(variables)
        df = np.array([float(self.span.rank_of[int(v)]) for v in variables])
        return evidence(np.array([found[int(v)] for v in variables]), df)

    @cached_property
    def _removals(self) -> dict[int, float] | None:
        """Statistics of all variables of the model; None where some of them have to be fitted."""
        sound = self.span.full_rank and self.span.least_part > _INDEPENDENT
        if not (sound and self._is_maximum):
            return None
        likelihood = self.model.likelihood
        parameters = self.parameters[:, None]
        for _ in range(2):
            here = Maximum(parameters, np.array([self.deviance]), np.ones(1, dtype=bool))
            parameters = polished(likelihood, self.columns, here)
        _, hessian = likelihood.at(self.columns, parameters).derivatives()
        triangle = self.span.triangle()
        b = solve_triangular(triangle, parameters[:, 0])
        root = solve_triangular(triangle, np.linalg.inv(np.linalg.cholesky(hessian[0])).T)  # H⁻¹ in the units of b
        scale = float(likelihood.precision(np.array([self.deviance]))[0])
        return {v: scale * _wald(b, root, self.span.place(v)) for v in self.span.selected}

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Statistics: they cost no more than bounds."""
        found = self.losses(variables)
        return Bounds(found.statistic, found.statistic, found.df, self.reference)

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The statistic of one variable."""
        loss = float(self.losses(np.array([variable], dtype=np.intp)).statistic[0])
        return loss, loss


def way(furthest: Floats, reach: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """How far the predictors are from the maximum at most, and where that is known.

    The Newton step moves no row further than `furthest`, and no step as long moves one further than `reach`.
    """
    furthest = np.minimum(furthest, reach)
    inside = furthest + reach < 2.0
    apart, together = np.where(inside, reach - furthest, 0.0), np.where(inside, reach + furthest, 0.0)
    return np.log1p(-0.5 * apart) - np.log1p(-0.5 * together), inside


def enclosed(slope: Floats, length: Floats, furthest: Floats, reach: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Wald statistics of columns of information 1 beside models with gradients of some length and slope along them."""
    m, inside = way(furthest, reach)
    by = np.where(m > _AT_ONCE_THERE, m, 1.0)
    low = np.where(m > _AT_ONCE_THERE, by / np.expm1(by), 1.0)
    high = np.where(m > _AT_ONCE_THERE, -by / np.expm1(-by), 1.0)
    middle, half = 0.5 * (low + high) * slope, 0.5 * (high - low) * length + noise
    lower = np.maximum(middle - half, 0.0) ** 2 * np.exp(-m) * (1.0 - _ROUNDING)
    upper = (middle + half) ** 2 * np.exp(m) * (1.0 + _ROUNDING)
    return np.where(inside, lower, 0.0), np.where(inside, upper, np.inf)


def _unclear(lower: Floats, upper: Floats, line: float) -> NDArray[np.bool_]:
    """Whose interval may hold the line."""
    return np.asarray((lower < upper) & (lower <= line * (1.0 + _ROUNDING)) & (upper > line * (1.0 - _ROUNDING)))


def _wald(b: Floats, root: Floats, place: slice) -> float:
    """bⱼᵀ[(RRᵀ)ⱼⱼ]⁻¹bⱼ."""
    own = root[place]
    return float(b[place] @ np.linalg.solve(own @ own.T, b[place]))
