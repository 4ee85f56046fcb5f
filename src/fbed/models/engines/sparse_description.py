"""Coefficients, standard errors and infinite coefficients of models of mostly empty columns, from their entries.

The basis Z of all rows is never made: Z = C·R⁻¹, C the columns divided by their scales, not centred, whose rows have a
few entries each. So products with Z are products with C and a triangular system.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy import linalg, sparse, special

from fbed._kernels import SparseModel
from fbed.clock import check_time
from fbed.models.engines.sparse_logistic import SparseLogistic
from fbed.models.engines.sparse_span import SparseSpan
from fbed.models.likelihoods.likelihood import RegressionFit
from fbed.models.likelihoods.newton import Columns
from fbed.models.presentation import ONE_PREDICTOR, Estimates, on_users_scale
from fbed.models.recession import Coordinates, every, inverse_of_finite, logistic_recession
from fbed.rules.p_values import Floats

_SMALL = 2**21  # values of a matrix that is made sooner than a sparse array of it


class EntryBasis:
    """`Columns` of the basis Z of one model, computed from the entries of C; no n × k array is made."""

    x = None  # no model has a column of its own

    def __init__(self, span: SparseSpan) -> None:
        self.own, self.triangle = span.columns, span.triangle_of_own()
        self.size = span.rank

    def predict(self, beta: Floats) -> Floats:
        """Zβ: linear predictors, n × models."""
        own = linalg.solve_triangular(self.triangle, beta, check_finite=False)
        return self.own.moved(np.asfortranarray(own))

    def inner(self, rows: Floats) -> Floats:
        """Zᵀr: sums over the rows, size × models."""
        each = np.ascontiguousarray(rows.T)  # a vector of all rows in one piece
        return self._over_triangle(np.column_stack([self.own.products(one) for one in each]))

    def gram(self, weight: Floats) -> Floats:
        """ZᵀWZ: models × size × size."""
        return np.stack([self._gram(one) for one in np.ascontiguousarray(weight.T)])

    def _gram(self, weight: Floats) -> Floats:
        check_time()
        lower = np.tril(self.own.gram(weight))
        return self._over_triangle(self._over_triangle(lower + np.tril(lower, -1).T).T)

    def _over_triangle(self, products: Floats) -> Floats:
        return np.asarray(linalg.solve_triangular(self.triangle, products, trans="T", check_finite=False))


def entry_rows(columns: SparseModel, n_rows: int) -> Any:
    """The rows of C: a sparse array, or a matrix where that is small."""
    if n_rows * columns.size <= _SMALL:
        return columns.moved(np.asfortranarray(np.eye(columns.size)))
    rows, values = [], []
    for k in range(columns.size):
        check_time()
        column = columns.column(k)
        rows.append(np.flatnonzero(column))
        values.append(column[rows[-1]])
    ends = np.cumsum([0, *map(len, rows)])
    shape = n_rows, columns.size
    return sparse.csc_array((np.concatenate(values), np.concatenate(rows), ends), shape=shape).tocsr()


class EntryFit(RegressionFit):
    """A fit of classes that has been found already. Parameters are on Z; constraints use the sparse rows of C."""

    def __init__(self, fit: RegressionFit, span: SparseSpan, by_column: Floats) -> None:
        """`by_column` are the coefficients of C, column after column, and further parameters."""
        self.model, self.span, self.deviance = fit.model, span, fit.deviance
        self.basis = EntryBasis(span)
        self.columns = cast(Columns, self.basis)
        m = self.model.likelihood.n_predictors
        self.coordinates = Coordinates(self.basis.triangle, m)
        coefficients, further = np.split(by_column, [m * span.rank])
        by_predictor = np.concatenate([coefficients.reshape(-1, m).T.ravel(), further])
        self.parameters = self.coordinates.of_basis(by_predictor)

    @cached_property
    def constrained_rows(self) -> Any:
        """Those of C."""
        return entry_rows(self.basis.own, self.model.design.n_rows)

    def predictors(self) -> Floats:
        """Linear predictors, n × predictors."""
        m, k = self.model.likelihood.n_predictors, self.columns.size
        return self.columns.predict(self.parameters[: m * k].reshape(m, k).T)


def logistic_estimates(engine: SparseLogistic, with_errors: bool, all_infinite: bool) -> Estimates:
    """Estimates of a logistic model; `all_infinite` skips the search and marks every coefficient as infinite."""
    basis = EntryBasis(engine.span)
    parameters, y, predictor = basis.triangle @ engine.coefficients, engine.model.y, engine.predictor
    if all_infinite or engine.deviance == 0.0:
        found = every(parameters)
    else:
        own = Coordinates(basis.triangle)
        found = logistic_recession(lambda: entry_rows(basis.own, len(y)), y, predictor, parameters, own)
    covariance = None
    if with_errors:
        curvature = engine.model.design.weights * special.expit(predictor) * special.expit(-predictor)
        covariance = inverse_of_finite(basis.gram(curvature[:, None])[0], found)
    return on_users_scale(engine.span, ONE_PREDICTOR, parameters, covariance, found)
