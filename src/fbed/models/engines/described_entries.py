"""Models of mostly empty columns as people read them, from the entries of their columns.

The basis Z of all rows is never made: Z = C·R⁻¹, C the columns as they are, so that products with it are products with
C, whose rows have a few entries each, and a triangular system.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy import linalg, sparse, special

from fbed._kernels import SparseModel
from fbed.clock import check_time
from fbed.models.engines.sparse_logistic import SparseLogistic, SparseSpan
from fbed.models.likelihoods.likelihood import RegressionFit
from fbed.models.likelihoods.newton import Columns
from fbed.models.presentation import ONE_PREDICTOR, Estimates, on_users_scale
from fbed.models.recession import (
    UNDECIDED,
    Constraints,
    Coordinates,
    Recession,
    every,
    inverse_of_finite,
    none,
    recession,
    rows_times,
)
from fbed.rules.p_values import Floats


class EntryBasis:
    """What a likelihood asks of the columns of one model, here Z, answered from the entries of C."""

    x = None

    def __init__(self, span: SparseSpan) -> None:
        self.columns, self.triangle = span.columns, span.triangle_of_columns()
        self.size = span.rank

    def predict(self, beta: Floats) -> Floats:
        """Predictors, n × models."""
        own = linalg.solve_triangular(self.triangle, beta, check_finite=False)
        return self.columns.moved(np.asfortranarray(own))

    def inner(self, rows: Floats) -> Floats:
        """Sums over the rows, size × models."""
        return self._over_triangle(np.column_stack([self.columns.products(row) for row in np.array(rows.T)]))

    def gram(self, weight: Floats) -> Floats:
        """Weighted sums of products, models × size × size."""
        return np.stack([self._gram(one) for one in np.array(weight.T)])

    def _gram(self, weight: Floats) -> Floats:
        check_time()
        lower = np.tril(self.columns.gram(weight))
        return self._over_triangle(self._over_triangle(lower + np.tril(lower, -1).T).T)

    def _over_triangle(self, products: Floats) -> Floats:
        return np.asarray(linalg.solve_triangular(self.triangle, products, trans="T", check_finite=False))


def entry_rows(columns: SparseModel) -> Any:
    """The rows of C as a sparse array."""
    parts = []
    for k in range(columns.size):
        check_time()
        parts.append(sparse.csc_array(columns.column(k)[:, None]))
    return sparse.hstack(parts, format="csr")


class EntryFit(RegressionFit):
    """A fit of classes that has been found, on the basis Z; its rows are those of C."""

    def __init__(self, fit: RegressionFit, span: SparseSpan, by_column: Floats) -> None:
        """`by_column` are the coefficients of C, column after column, and what else there is."""
        self.model, self.span, self.deviance = fit.model, span, fit.deviance
        self.basis = EntryBasis(span)
        self.columns = cast(Columns, self.basis)
        m = self.model.likelihood.n_predictors
        self.coordinates = Coordinates(self.basis.triangle, m)
        of_columns, further = np.split(by_column, [m * span.rank])
        one_below_another = np.concatenate([of_columns.reshape(-1, m).T.ravel(), further])
        self.parameters = self.coordinates.of_basis(one_below_another)

    @cached_property
    def Z(self) -> Any:  # type: ignore[override]  # noqa: N802
        """What constraints are about, in the coordinates that go with it."""
        return entry_rows(self.basis.columns)

    def predictors(self) -> Floats:
        """Linear predictors, n × predictors."""
        m, k = self.model.likelihood.n_predictors, self.columns.size
        return self.columns.predict(self.parameters[: m * k].reshape(m, k).T)


def logistic_estimates(engine: SparseLogistic, with_errors: bool, all_infinite: bool) -> Estimates:
    """Estimates of a logistic model; all of them infinite where nobody wants to know which are."""
    basis = EntryBasis(engine.span)
    parameters = basis.triangle @ engine.coefficients
    found = every(parameters) if all_infinite else _recession(engine, basis, parameters)
    covariance = None
    if with_errors:
        predictor = engine.predictor
        curvature = engine.model.design.weights * special.expit(predictor) * special.expit(-predictor)
        covariance = inverse_of_finite(basis.gram(curvature[:, None])[0], found)
    return on_users_scale(engine.span, ONE_PREDICTOR, parameters, covariance, found)


def _recession(engine: SparseLogistic, basis: EntryBasis, parameters: Floats) -> Recession:
    """Directions in which fitted probabilities of some rows run to 0 or 1."""
    if engine.deviance == 0.0:
        return every(parameters)
    sign = 2.0 * engine.model.y - 1.0
    margin = sign * engine.predictor
    if float(margin.max()) < UNDECIDED:
        return none(len(parameters))
    constraints = Constraints(rows_times(sign, entry_rows(basis.columns)), margin)
    return recession(constraints, parameters, Coordinates(basis.triangle))
