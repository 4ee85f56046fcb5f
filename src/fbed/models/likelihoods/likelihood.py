"""Any family with a smooth likelihood: fit on S, then compare with the models that have one variable more or less.

A family states its log-likelihood and the derivatives (`Regression`); nested tests are the same for all of them (see
`nested_tests`). The likelihood is its *supremum*: where coefficients run to infinity the deviance still has a limit,
and so has the likelihood ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices, Span, single_columns
from fbed.models.likelihoods.nested_tests import TESTS as TESTS  # for families of one's own, beside `RegressionModel`
from fbed.models.likelihoods.nested_tests import Comparison, Test, likelihood_ratio
from fbed.models.likelihoods.newton import Columns, Likelihood, Maximum, maximise, newton_step, polished
from fbed.models.presentation import Estimates, on_users_scale
from fbed.models.recession import Constraints, Coordinates, Recession, every, inverse_of_finite, none, recession
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import ChiSquare, Floats

SATURATED = 1e-6
"""A deviance below this part of the null deviance leaves nothing to explain."""

CERTAIN = 18.0  # a linear predictor beyond this may be on its way to infinity
_MODERATE = 6.0  # iterations towards infinity do not end before predictors are further apart than twice this
_UNCERTAIN = 1e-6  # probabilities above this are not on their way to 0, where fits end at 1e-10 or so
_BATCH_VALUES = 2**17  # float64 values of a batch's predictors: about a megabyte, so that they stay in the cache
_HESSIAN_VALUES = 2**21
_RULED_OUT = 20.0  # how far below 0 the predictors of a level start that is at minus infinity
_SAME = 1e-10  # part of a deviance by which two fits of the same model may differ


class Regression(Likelihood):
    """A likelihood of m linear predictors a row, and of further parameters.

    Parameters of a model with k columns: k coefficients for each predictor, one predictor after another, then the
    further ones. The methods below are for the usual case and are overridden where a family differs.
    """

    name: str
    n: float  # sample size of information criteria
    n_predictors: int = 1
    n_further: int = 0
    intercept: bool = True  # whether the first column, the constant, belongs to the model
    own_dispersion: bool = False  # whether clusters of rows have a dispersion of their own in robust tests
    weights: Floats  # how often every row counts
    least: float = 0.0  # below which no deviance can fall
    brackets: bool = False  # whether its points are `BracketedPoint`s, which enclose likelihood ratios
    weighs_rows: bool = False  # whether its points are `WeighedRows`
    raced: bool = False  # whether there are kernels that race its candidates

    def start(self, size: int) -> Floats:
        """Parameters from which the null model's iterations start."""
        return np.zeros(self.n_predictors * size + self.n_further)

    def maximise(self, columns: Columns, start: Floats) -> Maximum:
        """The likeliest parameters of every model; a family with several maxima looks for the highest."""
        return maximise(self, columns, start)

    def project(self, parameters: Floats) -> Floats:
        """No parameter has a boundary that it may reach."""
        return parameters

    def largest_move(self, columns: Columns, step: Floats) -> Floats:
        """max |Δη|; further parameters make the likelihood bend in ways that Δη does not show."""
        if self.n_further:
            return np.full(step.shape[1], np.inf)
        parts = np.split(step, self.n_predictors)
        return np.asarray(np.max([np.abs(columns.predict(part)).max(axis=0) for part in parts], axis=0))

    def reach(self, point: Any) -> float:
        """Largest linear predictor of a point, in size."""
        return float(np.abs(point.eta).max(initial=0.0))

    def batch_rows(self, n_rows: int) -> int:
        """How many values a predictor of one model of a batch holds at once."""
        return n_rows

    def twice_negative(self, deviance: Floats) -> Floats:
        """−2·log-likelihood, up to a constant, from the deviance."""
        return deviance

    def precision(self, deviance: Floats) -> Floats:
        """Factor on score and Wald statistics: 1/dispersion."""
        return np.ones_like(deviance)

    @property
    def events(self) -> float:
        """What every level of a category needs some of for χ² to hold: rows, as a rule."""
        return self.n

    @property
    def lowest_outcome(self) -> NDArray[np.bool_] | None:
        """Rows that are likelier the smaller their predictor, for ever; None where it does not matter."""
        return None

    def saturated(self, fit: RegressionFit) -> bool:
        """Whether nothing is left to explain."""
        return fit.deviance <= SATURATED * fit.model.null_deviance

    def constraints(self, fit: RegressionFit) -> Constraints | None:
        """What a direction of the parameters must do to every row for the likelihood to rise along it for ever.

        None where there is always a maximum.
        """
        raise NotImplementedError

    def present(self, estimates: Estimates) -> Estimates:
        """The estimates as people want to read them."""
        return estimates


class Predicted:
    """Where another engine has found a maximum, next to it: all that is known are the linear predictors."""

    def __init__(self, predictors: Floats) -> None:
        self._predictors = predictors

    def further(self) -> Floats:
        """No other parameters are known."""
        return np.empty(0)

    def predictors(self) -> Floats:
        """One row a row, one column a predictor."""
        return self._predictors


class RegressionModel:
    """A likelihood bound to a design."""

    def __init__(
        self,
        design: Design,
        likelihood: Regression,
        test: Test = likelihood_ratio,
        covariance: Callable[[RegressionFit], Floats | None] | None = None,
        kind: type[RegressionFit] | None = None,
    ) -> None:
        self.design = design
        self.likelihood = likelihood
        self.test = test
        self.covariance = covariance or inverse_information
        self.notes: tuple[str, ...] = ()  # remarks on the outcome that a person should read
        self.name = likelihood.name
        self.n = likelihood.n
        self.events, self.n_predictors = likelihood.events, likelihood.n_predictors
        self.has_likelihood = test is likelihood_ratio
        self._kind = kind or RegressionFit
        self.block_size = self._kind.at_once(design)
        self.null_deviance = np.inf
        self._null = self._kind.made(self, (), None)
        self.null_deviance = self._null.deviance

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> RegressionFit:
        """Maximise the likelihood on a set of variables, from the likelier of two starts."""
        if isinstance(near, Predicted):  # as if it were a fit on columns
            span = Span(self.design, selected, self._null.span)
            return self._kind.on_basis(self, span, cast(RegressionFit, near))
        return self._kind.made(self, selected, near if isinstance(near, RegressionFit) else self._null)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients and standard errors on the scale of the user's data."""
        return self.fit(selected, near).describe()

    def outline(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """The same without standard errors."""
        return self.fit(selected, near).describe(with_errors=False)


class RegressionFit:
    """Maximum likelihood on the span of S."""

    coordinates: Coordinates | None = None  # of constraints, where these are not about coefficients of Z
    shares_rows = False  # whether threads share the rows, or the candidates
    reads_entries = False  # whether scans read columns as they are stored, most of them

    @classmethod
    def at_once(cls, design: Design) -> int:
        """How many candidates are evaluated in one go."""
        if cls.shares_rows:
            return design.table.n_variables
        return design.scan_size if cls.reads_entries else design.block_size

    @classmethod
    def made(cls, model: RegressionModel, selected: Sequence[int], near: RegressionFit | None) -> RegressionFit:
        """The fit on some variables, whatever kind of fit is best for them."""
        return cls.on_basis(model, Span(model.design, selected, None if near is None else near.span), near)

    @classmethod
    def on_basis(cls, model: RegressionModel, span: Span, near: RegressionFit | None) -> RegressionFit:
        """The fit on an orthonormal basis."""
        return cls(model, span, near)

    def __init__(self, model: RegressionModel, span: Span, near: RegressionFit | None = None) -> None:
        self.model = model
        self.span = span
        self.Z = self.span.Z if model.likelihood.intercept else self.span.Z[:, 1:]
        self.columns = Columns(self.Z)
        start = self._start(near)
        found = self._arrived(near, start) or self._maximise(start)
        self.parameters, self.deviance = found.parameters[:, 0], max(float(found.deviance[0]), model.likelihood.least)

    def _arrived(self, near: RegressionFit | None, start: Floats) -> Maximum | None:
        """The start, where a fit on the same variables that knows no columns has found the maximum there."""
        if near is None or getattr(near, "selected", None) != self.span.selected:
            return None
        value = float(self.model.likelihood.at(self.columns, start[:, None]).value[0])
        if not value <= near.deviance + _SAME * max(1.0, near.deviance):
            return None
        return Maximum(start[:, None], np.array([near.deviance]), np.ones(1, dtype=bool))

    def _maximise(self, start: Floats) -> Maximum:
        """Where the likelihood is largest."""
        return self.model.likelihood.maximise(self.columns, start[:, None])

    def _start(self, near: RegressionFit | None) -> Floats:
        """The likelier of the family's own start and the neighbour's predictors."""
        starts = np.column_stack(
            [self.model.likelihood.start(self.columns.size)] + ([] if near is None else [self._projected(near)])
        )
        best = starts[:, self.model.likelihood.at(self.columns, starts).value.argmin()]
        return np.asarray(self._in_the_limit(best))

    def _in_the_limit(self, parameters: Floats) -> Floats:
        """Parameters with levels that are at minus infinity next to it: Newton's method takes long to get there."""
        lowest, lowered = self.model.likelihood.lowest_outcome, False
        if lowest is None:
            return parameters
        predictor = self.Z @ parameters
        for found in map(self.model.design.codes, self.span.selected):
            if found is not None:
                codes, n_levels = found
                highest = np.full(n_levels, -np.inf)
                np.maximum.at(highest, codes, np.where(lowest, predictor, np.inf))
                shift = np.where(highest < np.inf, np.maximum(highest + _RULED_OUT, 0.0), 0.0)
                predictor, lowered = predictor - shift[codes], lowered or bool(shift.any())
        return self._along(predictor[:, None]).ravel() if lowered else parameters

    def _projected(self, near: RegressionFit) -> Floats:
        """Parameters whose predictors are closest to those of another fit."""
        return np.concatenate([self._along(near.predictors()).T.ravel(), near.further()])

    def _along(self, predictors: Floats) -> Floats:
        """Coefficients of the columns that come closest to predictors."""
        return np.asarray(self.Z.T @ (self.model.design.weights[:, None] * predictors) / self.model.design.n)

    @property
    def saturated(self) -> bool:
        """Whether the outcome is explained completely."""
        return self.model.likelihood.saturated(self)

    @property
    def constrained_rows(self) -> Any:
        """The rows of the model's columns, for constraints: a matrix, or a sparse array for classes."""
        return self.Z

    def predictors(self) -> Floats:
        """Linear predictors, n × predictors."""
        m, k = self.model.likelihood.n_predictors, self.columns.size
        return self.Z @ self.parameters[: m * k].reshape(m, k).T

    def further(self) -> Floats:
        """Parameters that are no coefficients."""
        return self.parameters[self.columns.size * self.model.likelihood.n_predictors :]

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Score of every row in its predictors, and its variance up to a factor (None: the same for all)."""
        return self.model.likelihood.at(self.columns, self.parameters[:, None]).row_scores()

    def gains(self, candidates: Indices) -> Evidence:
        """Evidence for adding each candidate."""
        statistic, df = np.zeros(len(candidates)), np.zeros(len(candidates))
        width = self.model.design.width[candidates]
        for some in self._batches(np.flatnonzero(width == 1)):
            check_time()
            statistic[some], df[some] = self._single(candidates[some])
        for i in np.flatnonzero(width > 1):
            statistic[i], df[i] = self._group(int(candidates[i]))
        return evidence(statistic, df)

    def losses(self, variables: Indices) -> Evidence:
        """Evidence against removing each variable."""
        parts = [self._loss(int(variable)) for variable in variables]
        return evidence(np.array([part[0] for part in parts]), np.array([part[1] for part in parts]))

    def _loss(self, variable: int) -> tuple[float, float]:
        """The test of a variable against the model without it."""
        others = Span(self.model.design, [s for s in self.span.selected if s != variable], self.span)
        without = self._without(others)
        df = float(self.model.likelihood.n_predictors * (self.span.rank - without.span.rank))
        if not self.model.has_likelihood:
            return float(without.gains(np.array([variable], dtype=np.intp)).statistic[0]), df
        values = self.model.likelihood.twice_negative(np.array([without.deviance, self.deviance]))
        return float(values[0] - values[1]), df

    def _without(self, others: Span) -> RegressionFit:
        """The model with a variable less.

        Coefficients on their way to infinity leave rows without curvature, where Newton's method gets stuck.
        """
        return type(self)(self.model, others, None if self._diverges else self)

    @cached_property
    def _diverges(self) -> bool:
        return self.deviance == 0.0 or bool(np.abs(self.predictors()).max(initial=0.0) > CERTAIN)

    def _single(self, candidates: Indices) -> tuple[Floats, Floats]:
        unit, degenerate = self.span.residuals(single_columns(self.model.design, candidates))
        statistic = np.zeros(len(candidates))
        tested = np.flatnonzero(~degenerate)
        if len(tested):
            x = unit[:, tested] * self._unit_mean_square()
            columns = self.columns.with_own(x)
            statistic[tested] = self._statistics(candidates[tested], columns)
        return statistic, self.model.likelihood.n_predictors * (~degenerate).astype(float)

    def _statistics(self, candidates: Indices, columns: Columns) -> Floats:
        """Of models with one more column each."""
        return self.model.test(Comparison(self, columns, 1, self._begin(candidates, columns)))

    def _begin(self, candidates: Indices, columns: Columns) -> Floats | None:
        """Where models with one more column each begin, if a better place is known than this fit."""
        return None

    def _group(self, variable: int) -> tuple[float, float]:
        new = self.span.group(variable) * self._unit_mean_square()
        if new.shape[1] == 0:
            return 0.0, 0.0
        comparison = Comparison(self, Columns(np.hstack([self.Z, new])), new.shape[1])
        return float(self.model.test(comparison)[0]), float(self.model.likelihood.n_predictors * new.shape[1])

    def _unit_mean_square(self) -> Floats:
        return np.asarray((np.sqrt(self.model.design.n) / self.span.root)[:, None])

    def _batches(self, positions: Indices) -> Iterator[Indices]:
        """Positions in batches whose arrays fit into the cache."""
        m = self.model.likelihood.n_predictors
        hessian = (m * (self.columns.size + 1) + self.model.likelihood.n_further) ** 2
        rows = self.model.likelihood.batch_rows(self.model.design.n_rows)
        size = max(1, min(_BATCH_VALUES // (rows * m), _HESSIAN_VALUES // hessian))
        for first in range(0, len(positions), size):
            yield positions[first : first + size]

    def describe(self, with_errors: bool = True) -> FittedModel:
        """Coefficients and standard errors on the scale of the user's data."""
        model, likelihood = self.model, self.model.likelihood
        self._polish()
        check_time()
        covariance = model.covariance(self) if with_errors else None
        check_time()
        raw = on_users_scale(self.span, likelihood, self.parameters, covariance, self.recession)
        return likelihood.present(raw).fitted(model.name, self.deviance, model.null_deviance)

    @cached_property
    def recession(self) -> Recession:
        """Directions in which the parameters are infinite."""
        if not self.parameters.size:
            return none(0)
        likelihood = self.model.likelihood
        point = likelihood.at(self.columns, self.parameters[:, None])
        if point.separated()[0]:
            return every(self.parameters)
        if likelihood.n_further == 0 and (likelihood.reach(point) < _MODERATE or self._has_maximum(point)):
            return none(len(self.parameters))
        check_time()
        constraints = likelihood.constraints(self)
        check_time()
        if constraints is None:
            return none(len(self.parameters))
        return recession(constraints, self.parameters, self.coordinates)

    def _has_maximum(self, point: Any) -> bool:
        """Whether it is certain that all parameters are finite.

        With z of a Newton step, μ(1 + z) has the moments of the maximum. Where all of it is above 0, whatever moves a
        row for ever in its favour would change these moments: nothing does.
        """
        if not (self.model.likelihood.brackets and getattr(point, "least_probability", 0.0) > _UNCERTAIN):
            return False
        gradient, hessian = point.derivatives()
        step, _ = newton_step(gradient, hessian)
        m, k = self.model.likelihood.n_predictors, self.columns.size
        moved = np.stack([self.columns.predict(step[c * k : (c + 1) * k]) for c in range(m)])
        return bool(np.isfinite(step).all() and point.extremes(moved)[0].min() > -0.5)

    def _polish(self) -> None:
        """One more step for the coefficients that people read."""
        if self.deviance != 0.0 and self.parameters.size:
            check_time()
            found = Maximum(self.parameters[:, None], np.array([self.deviance]), np.ones(1, dtype=bool))
            self.parameters = polished(self.model.likelihood, self.columns, found)[:, 0]


def inverse_information(fit: RegressionFit) -> Floats | None:
    """H⁻¹ over the precision, of what is finite; None when another direction carries no information."""
    if not fit.parameters.size:
        return np.zeros((0, 0))
    _, hessian = fit.model.likelihood.at(fit.columns, fit.parameters[:, None]).derivatives()
    check_time()
    inverse = inverse_of_finite(hessian[0], fit.recession)
    return None if inverse is None else inverse / fit.model.likelihood.precision(np.array([fit.deviance]))[0]


def evidence(statistic: Floats, df: Floats) -> Evidence:
    """Evidence of a χ² test; a statistic of 0 without degrees of freedom."""
    statistic = np.where(df > 0, np.maximum(statistic, 0.0), 0.0)
    return Evidence(statistic, df, None, ChiSquare())
