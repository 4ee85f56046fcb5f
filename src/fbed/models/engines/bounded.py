"""Likelihood ratios enclosed without fitting: two matrix products for most candidates, a fit for the few that matter.

For exponential families and products of them (Poisson, binomial, softmax, every event of a partial likelihood) let d be
a Newton step of a model with Hessian H at any point with gradient g, λ² = gᵀd, u = [Z x]d the change of the predictors
and z the change of the log mean to first order (z = u for Poisson, u less its mean within a softmax). Then

    λ²·P(z_max)  ≤  2[ℓ* − ℓ]  ≤  λ²·P(z_min),       P(z) = 2[(1 + z)log(1 + z) − z]/z²,

the right side where z_min ≥ −1. *Right:* μ(1 + z) is a mean vector with the moments that the maximum has, so that
twice its Kullback–Leibler divergence 2Σμh(z), h(z) = (1 + z)log(1 + z) − z, bounds the gain (duality), and
h(z) ≤ ½z²P(z_min). *Left:* along the step t·d the log-likelihood falls short of its tangent by at most the terms of the
exponential series, and t = log(1 + z_max)/z_max is the best step for the largest z. At the fit on S, seen as a model
with one more column whose coefficient is 0, this encloses the likelihood ratio of that column.

Removal: with the Wald step from the fit on S to its best approximation without a variable, and z of that step,

    Wald·E(z_min)  ≤  LR  ≤  Wald·E(z_max),       E(z) = 2(eᶻ − 1 − z)/z².
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fbed.models.base import Bounds, Indices, single_columns
from fbed.models.engines.bound_functions import E, P
from fbed.models.likelihoods.likelihood import RegressionFit
from fbed.models.likelihoods.nested_tests import Comparison, likelihood_ratio
from fbed.models.likelihoods.newton import Columns, Point, newton_step
from fbed.rules.criteria import TIE
from fbed.rules.p_values import ChiSquare, Floats

_ROUNDING = 1e-8
"""What bounds are widened by: sums of a million terms and the solution of the normal equations lose less."""

_KNOWN = 1e-6  # width of an interval, beside its end, that says who is best unless there are ties
_FEW = 24  # candidates whose statistics cost no more than their bounds,
_QUICK = 2**20  # as long as the products behind them, of rows and pairs of columns, are no more than this


class BracketedPoint(Point, Protocol):
    """A point that can tell how far a step goes."""

    def extremes(self, step: Floats) -> tuple[Floats, Floats]:
        """Least and largest z of steps of the predictors (predictors × rows × models)."""


class BoundedFit(RegressionFit):
    """A fit that answers scans by intervals."""

    reference = ChiSquare()
    bounds_are_cheap = looks_are_dear = False

    def prepare(self, n_candidates: int = 0, critical: float = np.inf) -> None:
        """The point of the fit on S, which all candidates share."""
        self.point = cast(BracketedPoint, self.model.likelihood.at(self.columns, self.parameters[:, None]))

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for adding each candidate; statistics where an interval would hold the critical value."""
        lower, upper, df = (np.zeros(len(candidates)) for _ in range(3))
        width = self.model.design.width[candidates]
        for some in self._batches(np.flatnonzero(width == 1)):
            lower[some], upper[some], df[some] = self._single_bounds(candidates[some], critical)
        for i in np.flatnonzero(width > 1):
            lower[i], upper[i], df[i] = self._group_bounds(int(candidates[i]), critical)
        return Bounds(lower, upper, df, self.reference)

    def _group_bounds(self, variable: int, critical: Callable[[Floats], Floats]) -> tuple[float, float, float]:
        """An interval for a variable of several columns, from one Newton step; its statistic where that does not do."""
        new = self.span.group(variable) * self._unit_mean_square()
        if new.shape[1] == 0:
            return 0.0, 0.0, 0.0
        columns = Columns(np.hstack([self.Z, new]))
        df = np.array([float(self.model.likelihood.n_predictors * new.shape[1])])
        low, high = self._enclosed(columns)
        line = critical(df) * (1.0 + TIE)
        if ((low <= line) & (high > line)).any():
            low = high = np.maximum(likelihood_ratio(Comparison(self, columns, new.shape[1])), 0.0)
        return float(low[0]), float(high[0]), float(df[0])

    def _single_bounds(
        self, candidates: Indices, critical: Callable[[Floats], Floats]
    ) -> tuple[Floats, Floats, Floats]:
        unit, degenerate = self.span.residuals(single_columns(self.model.design, candidates))
        df = self.model.likelihood.n_predictors * (~degenerate).astype(float)
        lower, upper = np.zeros(len(candidates)), np.zeros(len(candidates))
        tested = np.flatnonzero(~degenerate)
        if len(tested):
            columns = self.columns.with_own(unit[:, tested] * self._unit_mean_square())
            low, high = np.zeros(len(tested)), np.full(len(tested), np.inf)
            if self._bounds_pay(len(tested), columns):
                low, high = self._enclosed(columns)
            line = critical(df[tested]) * (1.0 + TIE)
            wanted = self._wanted(low, high, line)
            if wanted.any():
                some = candidates[tested[wanted]]
                low[wanted], high[wanted] = self._narrowed(some, low[wanted], high[wanted], line[wanted])
                wanted = self._wanted(low, high, line)
            if wanted.any():
                exact = self._statistics(candidates[tested[wanted]], columns.only(wanted))
                low[wanted] = high[wanted] = np.maximum(exact, 0.0)
            lower[tested], upper[tested] = low, high
        return lower, upper, df

    def _bounds_pay(self, count: int, columns: Columns) -> bool:
        """Whether bounds of so many models cost less than their statistics."""
        return count > _FEW or (count > 1 and count * len(self.Z) * columns.size**2 > _QUICK)

    def _wanted(self, lower: Floats, upper: Floats, line: Floats) -> NDArray[np.bool_]:
        """Whose statistics are computed while their columns are at hand."""
        return _open(lower, upper, line)

    def _narrowed(self, candidates: Indices, lower: Floats, upper: Floats, line: Floats) -> tuple[Floats, Floats]:
        """Narrower intervals, where a family has some; who is below the line fails."""
        return lower, upper

    def _enclosed(self, columns: Columns) -> tuple[Floats, Floats]:
        """λ²P(z_max) and λ²P(z_min) of every model, and never more than the deviance that is left."""
        gradient, hessian = self.point.derivatives(columns)
        step, decrement = newton_step(gradient, hessian)
        low, high = self.point.extremes(self._steps(columns, step))
        lower = decrement * P(np.maximum(high, 0.0)) * (1.0 - _ROUNDING)
        inside = low > -1.0
        upper = np.where(inside, decrement * P(np.where(inside, low, 0.0)) * (1.0 + _ROUNDING), np.inf)
        sound = _solved(gradient, hessian, step, decrement)
        lower = np.where(sound, np.maximum(lower, 0.0), 0.0)
        return lower, np.minimum(np.where(sound, upper, np.inf), self.deviance)

    def _steps(self, columns: Columns, step: Floats) -> Floats:
        size = columns.size
        m = self.model.likelihood.n_predictors
        return np.stack([columns.predict(step[c * size : (c + 1) * size]) for c in range(m)])

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """Statistics of the first contender, then of those whose interval still reaches the best."""
        lower, upper = lower.copy(), upper.copy()
        todo = np.flatnonzero(lower < upper)
        if race and len(todo):
            self._resolve(candidates, todo[:1], lower, upper)
            best = lower.max()
            todo = np.flatnonzero((lower < upper) & (upper >= best * (1.0 - TIE)))
        self._resolve(candidates, todo, lower, upper)
        return lower, upper

    def _resolve(self, candidates: Indices, rows: Indices, lower: Floats, upper: Floats) -> None:
        if len(rows):
            lower[rows] = upper[rows] = self.gains(candidates[rows]).statistic

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for removing each variable, by the Wald step from the fit on S."""
        likelihood = self.model.likelihood
        m = likelihood.n_predictors
        df = np.array([float(m * self.span.rank_of[int(v)]) for v in variables])
        if not self.span.full_rank or self.deviance == 0.0:  # ask the fits
            evidence = self.losses(variables)
            return Bounds(evidence.statistic, evidence.statistic, evidence.df, self.reference)
        self.prepare()
        gradient, hessian = self.point.derivatives()
        rest, short = newton_step(gradient, hessian.copy())  # what the fit has left: far models make much of it
        drift = float(np.abs(self.point.extremes(self._steps(self.columns, rest))).max())
        triangle = self.span.triangle()
        found = [self._removal(hessian[0], triangle, int(v)) for v in variables]
        steps, left = np.column_stack([step for step, _ in found]), np.array([missing for _, missing in found])
        wald = np.einsum("pv,pq,qv->v", steps, hessian[0], steps)
        low, high = self.point.extremes(-self._steps(self.columns, steps))
        with np.errstate(invalid="ignore"):  # no curvature at all, and predictors that go anywhere
            low, high = (np.maximum(end, 0.0) * (1.0 + drift) + drift for end in (-low, high))
            charge = 4.0 * np.sqrt(short * np.maximum(wald, 0.0)) + 2.0 * short + _ROUNDING
            lower = np.maximum(wald * E(-low) * (1.0 - _ROUNDING) - charge, 0.0)
            upper = wald * E(high) * (1.0 + _ROUNDING) + charge
        whole = float(self.parameters @ hessian[0] @ self.parameters)  # of the way to 0, and no other model is further
        sound = (wald >= 0.0) & (wald <= whole * (1.0 + _ROUNDING)) & (left <= _ROUNDING**2 * wald) & (lower <= upper)
        return Bounds(np.where(sound, lower, 0.0), np.where(sound, upper, np.inf), df, self.reference)

    def _removal(self, hessian: Floats, triangle: Floats, variable: int) -> tuple[Floats, float]:
        """θ̂ − Nφ with φ the best approximation of θ̂ (under H) by parameters N of the model without the variable; and
        what is left of φ's normal equations, in their own metric: little, unless separation leaves H no curvature.
        """
        place = self.span.place(variable)
        others = np.delete(triangle, np.r_[place], axis=1)
        if not self.model.likelihood.intercept:
            others = others[1:, 1:]
        N = np.kron(np.eye(self.model.likelihood.n_predictors), np.linalg.qr(others)[0])
        inner = N.T @ hessian @ N
        try:
            step = self.parameters - N @ np.linalg.solve(inner, N.T @ (hessian @ self.parameters))
            left = N.T @ (hessian @ step)
            return step, abs(float(left @ np.linalg.solve(inner, left)))
        except np.linalg.LinAlgError:
            return np.zeros_like(self.parameters), np.inf

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The likelihood ratio of a variable against the model without it."""
        loss = max(self._loss(variable)[0], 0.0)
        return loss, loss


def _open(lower: Floats, upper: Floats, line: Floats) -> NDArray[np.bool_]:
    """Who may pass or fail, and who may be best: their statistics are computed together, which costs little more."""
    passing = np.where(upper > line, lower, -np.inf)
    best = (upper - lower > _KNOWN * upper) & (upper > line) & (upper >= passing.max())
    return ((lower <= line) & (upper > line)) | best


def _solved(gradient: Floats, hessian: Floats, step: Floats, decrement: Floats) -> NDArray[np.bool_]:
    """Whether the normal equations were solved so well that what is left, gᵀH⁻¹g of the residual, is rounding."""
    residual = gradient - np.einsum("bij,jb->ib", hessian, step)
    _, left = newton_step(residual, hessian)
    return np.asarray(np.isfinite(decrement) & (left <= 1e-20 * np.maximum(decrement, 1e-300)))
