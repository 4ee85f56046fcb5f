"""The likelihood of a problem on a set of variables, in standardised columns: what penalties and shrinkage work on.

Parameters are those of `fbed.families.likelihood.Regression`: for every predictor an intercept (where the family has
one) and a coefficient a column, then further parameters. Columns in the span of earlier ones are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fbed.api.problem import Problem
from fbed.errors import InvalidInput
from fbed.models.base import Fit, Indices, Span
from fbed.models.engines.linear_products import GaussianByProducts
from fbed.models.likelihoods.glm import BINOMIAL, Glm
from fbed.models.likelihoods.likelihood import Regression
from fbed.models.likelihoods.newton import Columns, Point
from fbed.models.presentation import Estimates
from fbed.rules.p_values import Floats

_MOST = 200  # iterations
_ARRIVED = 1e-16
_LEAST = 1e-6  # part of a step below which none is taken
_FAR = 1e-5  # part of a column that others leave, from which products of columns have enough digits to see it


class Squares(Regression):
    """Linear regression: the deviance is the residual sum of squares."""

    name = "gaussian"

    def __init__(self, y: Floats, weights: Floats) -> None:
        self.y, self.weights, self.n = y, weights, float(weights.sum())

    def at(self, columns: Columns, parameters: Floats) -> SquaresPoint:
        """Evaluate."""
        return SquaresPoint(self, columns, parameters)


class SquaresPoint:
    """Residuals at given parameters; derivatives are those of −½·RSS."""

    def __init__(self, squares: Squares, columns: Columns, parameters: Floats) -> None:
        self.squares, self.columns = squares, columns
        self.residual = squares.y[:, None] - columns.predict(parameters)
        self.value = squares.weights @ self.residual**2

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """XᵀWr and XᵀWX."""
        columns = columns or self.columns
        weights = self.squares.weights[:, None]
        return columns.inner(weights * self.residual), columns.gram(weights)

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Weighted residuals, whose variance is that of the weights."""
        return self.squares.weights[:, None] * self.residual, self.squares.weights

    def separated(self) -> NDArray[np.bool_]:
        """Never: the coefficients are finite."""
        return np.zeros(len(self.value), dtype=bool)


def regression_of(problem: Problem) -> Regression:
    """The likelihood of a problem; an error for a family whose likelihood is not one of linear predictors."""
    name, offset = problem.model.name, problem.extras.offset
    if name == "gaussian":
        y = problem.outcome.numbers()
        return Squares(y if offset is None else y - offset, problem.weights)
    if name == "binomial":
        trials = problem.extras.trials
        if trials is None:
            return Glm(BINOMIAL, problem.outcome.zero_one(), problem.weights, offset)
        return Glm(BINOMIAL, problem.outcome.numbers() / trials, problem.weights * trials, offset)
    fitted = getattr(problem.model, "careful", problem.model)  # sums over rows know no rows
    likelihood = getattr(fitted, "likelihood", None)
    if not isinstance(likelihood, Regression):
        raise InvalidInput(f"family {name!r} has maximum likelihood only: choose final='ml'")
    return likelihood


class Common:
    """What all final models of a problem have in common: the likelihood, and its parameters without any column."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._without: Floats | None = None

    @cached_property
    def likelihood(self) -> Regression:
        """The likelihood of the problem."""
        return regression_of(self.problem)

    def without_columns(self, find: Callable[[], Floats]) -> Floats:
        """Parameters of the model without columns, found once."""
        if self._without is None:
            self._without = find()
        return self._without


class Standardised:
    """A likelihood on the standardised columns of some variables."""

    def __init__(
        self, problem: Problem, selected: Sequence[int], near: Fit | None = None, common: Common | None = None
    ) -> None:
        design = problem.design
        self.problem, self.selected = problem, list(selected)
        self.common = Common(problem) if common is None else common
        self.likelihood = self.common.likelihood
        self.kept = self._independent(near)
        self.center, self.scale = design.moments_of(self.selected)
        self.labels = tuple(label for variable in selected for label in design.labels(variable))
        self.n = design.n

    @property
    def owner(self) -> Indices:
        """Which variable each column is of."""
        width = self.problem.design.width[self.selected]
        return np.repeat(np.asarray(self.selected, dtype=np.intp), width)[self.kept]

    @cached_property
    def _whole(self) -> Floats:
        return self.problem.design.stack(self.selected)

    @cached_property
    def X(self) -> Floats:  # noqa: N802
        """The columns that are not in the span of earlier ones."""
        return self._whole if len(self.kept) == self._whole.shape[1] else self._whole[:, self.kept]

    @cached_property
    def columns(self) -> Columns:
        """The same after a column of ones, where the family has an intercept."""
        ones = [np.ones((len(self.X), 1))] if self.likelihood.intercept else []
        return Columns(np.hstack([*ones, self.X]))

    def _independent(self, near: Fit | None) -> Indices:
        """Which columns are not in the span of earlier ones; `near` is a fit of the model on nearly the same set."""
        model = self.problem.model
        if isinstance(model, GaussianByProducts):
            known = model.independent(self.selected, near)
            if known is not None:
                return known
        elif self._are_far_from_collinear():
            return np.arange(self._whole.shape[1])
        span = Span(self.problem.design, self.selected)
        parts = (span.offset(v) + span.independent(v) for v in self.selected)
        return np.concatenate([np.zeros(0), *parts]).astype(np.intp)

    def _are_far_from_collinear(self) -> bool:
        """Whether products of columns suffice to see that all of them are independent."""
        if self._whole.shape[1] >= len(self._whole):
            return False
        design, X = self.problem.design, self._whole
        X = X if design.unit_weights else np.sqrt(design.weights)[:, None] * X
        try:
            triangle = np.linalg.cholesky(X.T @ X / design.n)
        except np.linalg.LinAlgError:
            return False
        return bool((np.diag(triangle) ** 2 > _FAR).all())

    @cached_property
    def squares(self) -> tuple[Floats, Floats]:
        """XᵀWX and XᵀWy of a linear model, whose columns are centred."""
        model, like = self.problem.model, self.likelihood
        if isinstance(model, GaussianByProducts):
            return model.sums(self.selected, self.kept)
        assert isinstance(like, Squares)
        weighted = like.weights[:, None] * self.X
        return weighted.T @ self.X, weighted.T @ (like.y - like.weights @ like.y / like.n)

    @property
    def start(self) -> Floats:
        """Parameters of the null model, or near it."""
        return self.likelihood.start(self.columns.size)

    @cached_property
    def is_slope(self) -> NDArray[np.bool_]:
        """Which parameters are coefficients of columns."""
        like = self.likelihood
        one = np.ones(self.columns.size, dtype=bool)
        one[: int(like.intercept)] = False
        return np.concatenate([np.tile(one, like.n_predictors), np.zeros(like.n_further, dtype=bool)])

    def at(self, parameters: Floats, columns: Columns | None = None) -> Point:
        """The likelihood at parameters of one model."""
        return self.likelihood.at(columns or self.columns, parameters[:, None])

    def project(self, parameters: Floats) -> Floats:
        """The nearest parameters of one model that the family has: some have further ones with a boundary."""
        return self.likelihood.project(parameters[:, None])[:, 0]

    def presented(self, parameters: Floats, covariance: Floats | None = None) -> Estimates:
        """Values on the user's scale, in the order of the model's terms."""
        like, T = self.likelihood, self._change
        terms = (("(intercept)",) if like.intercept else ()) + self.labels
        names = terms * like.n_predictors + tuple(f"parameter {j + 1}" for j in range(like.n_further))
        shown = Estimates(names, T @ parameters, None if covariance is None else T @ covariance @ T.T)
        return like.present(shown)

    @cached_property
    def _change(self) -> Floats:
        """From all parameters to those of the user's columns; further ones stay as they are, at the end."""
        change, m, further = self._change_of_one(), self.likelihood.n_predictors, self.likelihood.n_further
        if m == 1 and further == 0:
            return change
        rows, columns = change.shape
        T = np.zeros((m * rows + further, m * columns + further))
        for j in range(m):
            T[j * rows : (j + 1) * rows, j * columns : (j + 1) * columns] = change
        T[m * rows :, m * columns :] = np.eye(further)
        return T

    def _change_of_one(self) -> Floats:
        """From coefficients of standardised columns to those of the user's, of one predictor."""
        k, first = len(self.scale), int(self.likelihood.intercept)
        change = np.zeros((first + k, first + len(self.kept)))
        change[first + self.kept, first + np.arange(len(self.kept))] = 1.0 / self.scale[self.kept]
        if first:
            change[0, 0] = 1.0
            change[0, 1:] = -self.center[self.kept] / self.scale[self.kept]
        return change


Evaluate = Callable[[Floats], tuple[float, Callable[[], tuple[Floats, Floats]]]]
"""A function to make small: its value, and when asked for, minus half its gradient and half its Hessian."""

Project = Callable[[Floats], Floats]
"""Parameters that have left their domain, brought back to its boundary."""


def descend(
    evaluate: Evaluate,
    start: Floats,
    free: NDArray[np.bool_] | None = None,
    arrived: float = _ARRIVED,
    project: Project = lambda parameters: parameters,
) -> Floats:
    """Damped Newton steps until they no longer matter; parameters that are not `free` stay where they are.

    `arrived` is the squared decrement, relative to the value, at which they end.
    """
    parameters = start.copy()
    free = np.ones(len(start), dtype=bool) if free is None else free
    value, derivatives = evaluate(parameters)
    for _ in range(_MOST if free.any() else 0):
        gradient, hessian = derivatives()
        step = np.zeros_like(parameters)
        step[free] = _solved(hessian[np.ix_(free, free)], gradient[free])
        decrement = float(gradient @ step)
        size = 1.0
        while True:
            trial = project(parameters + size * step)
            new, derivatives = evaluate(trial)
            if new <= value + 1e-12 * max(1.0, abs(value)):
                break
            if size < _LEAST:
                return parameters
            size /= 2.0
        parameters, value = trial, new
        if decrement <= arrived * max(1.0, abs(value)):
            break
    return parameters


def _solved(hessian: Floats, gradient: Floats) -> Floats:
    jitter = 1e-14 * float(np.trace(hessian)) / len(hessian) + 1e-300
    return np.asarray(np.linalg.solve(hessian + jitter * np.eye(len(hessian)), gradient), dtype=np.float64)


def likelihood_of(on: Standardised, columns: Columns | None = None) -> Evaluate:
    """The deviance, for `descend`."""

    def evaluate(parameters: Floats) -> tuple[float, Callable[[], tuple[Floats, Floats]]]:
        point = on.at(parameters, columns)

        def derivatives() -> tuple[Floats, Floats]:
            gradient, hessian = point.derivatives()
            return gradient[:, 0], hessian[0]

        return float(point.value[0]), derivatives

    return evaluate
