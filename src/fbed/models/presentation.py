"""Estimates of a fitted model on the scale of the user's data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.models.base import FittedModel, Span, correlation_of
from fbed.models.recession import Recession, infinite_terms
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Estimates:
    """Values with a name each, and their covariance (None when it does not exist).

    `change` is the derivative of the values in the parameters of the fit, of which some are infinite in a `recession`.
    """

    terms: tuple[str, ...]
    values: Floats
    covariance: Floats | None
    change: Floats | None = None
    recession: Recession | None = None

    def standard_errors(self) -> tuple[float, ...] | None:
        """√diag(covariance)."""
        if self.covariance is None:
            return None
        return tuple(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)).tolist())

    def mapped(self, terms: tuple[str, ...], values: Floats, jacobian: Floats) -> Estimates:
        """New values that depend on the old ones, with covariance JVJᵀ (the delta method)."""
        covariance = None if self.covariance is None else jacobian @ self.covariance @ jacobian.T
        change = None if self.change is None else jacobian @ self.change
        return Estimates(terms, values, covariance, change, self.recession)

    def named(self, terms: tuple[str, ...]) -> Estimates:
        """The same with other names."""
        return replace(self, terms=terms)

    def fitted(self, family: str, deviance: float, null_deviance: float) -> FittedModel:
        """The model that people see: infinite values are told as such, and have no standard errors."""
        check_time()
        values, errors = self.values.tolist(), self.standard_errors()
        ways: tuple[int, ...] = ()
        if self.change is not None and self.recession:
            ways = infinite_terms(self.change, self.recession)
            values = [way * math.inf if way else value for way, value in zip(ways, values, strict=True)]
        if errors is not None and any(ways):
            errors = None if all(ways) else tuple(math.nan if w else e for w, e in zip(ways, errors, strict=True))
        check_time()
        correlation = None if errors is None else correlation_of(self.covariance)
        reached = tuple(self.values.tolist()) if any(ways) else ()
        told = (deviance, null_deviance, any(ways), ways, correlation, reached)
        return FittedModel(family, self.terms, tuple(values), errors, *told)


class Shape(Protocol):
    """How parameters are laid out."""

    n_predictors: int
    n_further: int
    intercept: bool


@dataclass
class OnePredictor:
    """A constant and coefficients, nothing else."""

    n_predictors: int = 1
    n_further: int = 0
    intercept: bool = True


ONE_PREDICTOR = OnePredictor()


def on_users_scale(
    span: Span, shape: Shape, parameters: Floats, covariance: Floats | None, recession: Recession | None = None
) -> Estimates:
    """Coefficients of the user's columns from those of the orthonormal basis Z: β = Tθ, covariance TVTᵀ.

    A column in the span of earlier ones gets coefficient 0. The further parameters stay as they are, at the end.
    """
    change = _change_of_basis(span)
    terms = ("(intercept)", *(label for variable in span.selected for label in span.design.labels(variable)))
    if not shape.intercept:
        change, terms = change[1:, 1:], terms[1:]
    rows, columns = change.shape
    m, further = shape.n_predictors, shape.n_further
    T = np.zeros((m * rows + further, m * columns + further))
    for j in range(m):
        T[j * rows : (j + 1) * rows, j * columns : (j + 1) * columns] = change
    T[m * rows :, m * columns :] = np.eye(further)
    names = terms * m + tuple(f"parameter {j + 1}" for j in range(further))
    return Estimates(names, T @ parameters, None if covariance is None else T @ covariance @ T.T, T, recession)


def _change_of_basis(span: Span) -> Floats:
    """The matrix that turns coefficients of Z into coefficients of a constant and the user's columns."""
    design = span.design
    kept = np.concatenate([[0], *(1 + span.offset(v) + span.independent(v) for v in span.selected)]).astype(np.intp)
    center, scale = design.moments_of(span.selected)
    change = np.zeros((1 + len(scale), span.rank))
    change[kept] = np.linalg.inv(span.triangle())
    change[1:] /= scale[:, None]
    change[0] -= center @ change[1:]
    return change


def standardised_to_users_scale(
    design: Design, selected: Sequence[int], coefficients: Floats, covariance: Floats | None, constant: bool = True
) -> Estimates:
    """Coefficients of a constant and the user's columns from those of a constant and the standardised ones."""
    center, scale = design.moments_of(selected)
    unit, shift = np.concatenate([[1.0], 1.0 / scale]), np.concatenate([[1.0], -center / scale])
    terms = ("(intercept)", *(label for variable in selected for label in design.labels(variable)))
    if not constant:
        of_slopes = None if covariance is None else unit[1:, None] * covariance * unit[1:]
        return Estimates(terms[1:], unit[1:] * coefficients, of_slopes)
    values = unit * coefficients
    values[0] = shift @ coefficients
    if covariance is None:
        return Estimates(terms, values, None)
    half = unit[:, None] * covariance
    half[0] = shift @ covariance
    whole = half * unit
    whole[:, 0] = half @ shift
    return Estimates(terms, values, whole)
