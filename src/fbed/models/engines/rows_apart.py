"""Logistic models whose maximum is far out: first the rows that can be separated, then the others without them.

Newton's method may end at coefficients so large that rounding tells equal rows apart, and takes that for a gain: beside
a near copy of a selected column, what makes the two differ is a row or two, and on all others an orthogonal basis has
nothing but rounding of it. Here nothing has to go far. A linear program finds a direction that moves some rows, each to
its own side, and no others; they leave, and the columns are looked at again as they are on the rows that stay, where
near copies are equal and a column with an outlier has values of a usual size. What is left is fitted in an orthonormal
basis of those rows. That is the answer if it can be shown to be: no model does better, since rows that left only add to
a deviance; and coefficients far out along the directions, last ones first, must come as close to it, computed with more
digits than usual from the columns themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.models.engines.logistic_newton import maximise
from fbed.models.likelihoods import newton
from fbed.models.likelihoods.glm import BINOMIAL, Glm
from fbed.models.recession import unit_rows_moved
from fbed.rules.p_values import Floats

FAR = 1e4  # terms of a predictor that are so large may show rounding of near copies
_ROUNDING, _SEEN = 2.0**-52, 1e-8  # of a basis of columns far from dependent; and in a predictor, that may matter
_DEPENDENT = 1e-11  # singular value of unit columns below which it is rounding
_ARRIVED = 1e-8  # squared decrement of a fit that has ended
_CERTAIN = 40.0  # predictor that leaves nothing of a row
_SAME = 1e-7  # of a deviance: how close coefficients that can be written down must come


@dataclass(frozen=True)
class _Basis:
    """Orthonormal columns that span given ones on some rows, and `change` with columns·change = basis.

    `part` is the least that a direction of the given ones, each of length 1, has on the rows.
    """

    columns: Floats
    change: Floats
    part: float

    @classmethod
    def of(cls, columns: Floats) -> _Basis:
        size = np.linalg.norm(columns, axis=0)
        unit = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0.0)
        U, values, V = np.linalg.svd(columns * unit, full_matrices=False)
        rank = int((values > _DEPENDENT * values.max(initial=0.0)).sum())
        return cls(U[:, :rank], unit[:, None] * (V[:rank].T / values[:rank]), float(values[:rank].min(initial=1.0)))


@dataclass(frozen=True)
class _Stage:
    """Rows that a direction of the coefficients moves to their side, and those that it leaves alone."""

    way: Floats
    moved: NDArray[np.intp]
    left: NDArray[np.intp]


@dataclass(frozen=True)
class Apart:
    """The least deviance of a model, and predictors that come as close to it as matters."""

    deviance: float
    predictor: Floats


def fitted_apart(columns: Floats, y: Floats, weights: Floats, offset: Floats | None = None) -> Apart | None:
    """The model of columns as they are, a constant among them; None where it cannot be shown that this is its best."""
    fixed = np.zeros(len(y)) if offset is None else offset
    stages = _stages(columns, 2.0 * y - 1.0)
    left = stages[-1].left if stages else np.arange(len(y))
    coefficients, value = np.zeros(columns.shape[1]), 0.0
    if len(left):
        basis = _Basis.of(columns[left])
        found = _fitted(basis, y[left], weights[left], fixed[left])
        if found is None:
            return None
        coefficients, value = basis.change @ found[0] * np.sqrt(len(left)), found[1]
    predictor = _far_out(columns, 2.0 * y - 1.0, coefficients, stages, fixed)
    reached = 2.0 * float(weights @ np.logaddexp(0.0, (1.0 - 2.0 * y) * predictor))
    return Apart(value, predictor) if reached <= value + _SAME * max(1.0, value) else None


def _stages(columns: Floats, sign: Floats) -> list[_Stage]:
    """Directions that separate rows, one after another, until none does."""
    stages: list[_Stage] = []
    left = np.arange(len(sign))
    while len(left):
        check_time()
        basis = _Basis.of(columns[left])
        way, moves = unit_rows_moved(sign[left][:, None] * basis.columns)
        if not moves.any():
            break
        left, moved = left[~moves], left[moves]
        stages.append(_Stage(_kept_off(columns[left], basis.change @ way), moved, left))
    return stages


def _kept_off(columns: Floats, way: Floats) -> Floats:
    """A direction without what rounding has left of it on rows that it does not move."""
    if len(columns) == 0:
        return way
    basis = _Basis.of(columns)
    return np.asarray(way - basis.change @ (basis.columns.T @ _predicted(columns, way)))


def _predicted(columns: Floats, coefficients: Floats) -> Floats:
    """Columns times coefficients, with more digits, and the same for rows that are equal."""
    out = np.zeros(len(columns), dtype=np.longdouble)
    for column, coefficient in zip(columns.T, coefficients, strict=True):
        out += column.astype(np.longdouble) * np.longdouble(coefficient)
    return out.astype(np.float64)


def _fitted(basis: _Basis, y: Floats, weights: Floats, offset: Floats) -> tuple[Floats, float] | None:
    """Coefficients and deviance of a model that has a maximum nearby; None where it seems to have none."""
    Z = basis.columns * np.sqrt(len(y))
    parameters, deviance = _maximum(Z, y, weights, offset)
    coefficients = parameters[:, 0]
    if largest_terms(Z, None, parameters)[0] * _ROUNDING > _SEEN * basis.part:
        return None
    mean = special.expit(Z @ coefficients + offset)
    gradient = Z.T @ (weights * (y - mean))
    information = (Z * (weights * mean * (1.0 - mean))[:, None]).T @ Z
    step = np.linalg.lstsq(information, gradient, rcond=None)[0]
    return (coefficients, deviance) if gradient @ step <= _ARRIVED else None


def _maximum(Z: Floats, y: Floats, weights: Floats, offset: Floats) -> tuple[Floats, float]:
    """Where the steps of every model end, beside an offset those of the engine of all families."""
    start = np.zeros((Z.shape[1], 1))
    if not offset.any():
        plain = maximise(Z, None, start, y, weights)
        return plain.coefficients, float(plain.deviance[0])
    found = newton.maximise(Glm(BINOMIAL, y, weights, offset), newton.Columns(Z), start)
    return found.parameters, float(found.deviance[0])


def _far_out(columns: Floats, sign: Floats, coefficients: Floats, stages: list[_Stage], offset: Floats) -> Floats:
    """Predictors with rows that were separated far out: those of the first stage last, since later ones move them."""
    out = _predicted(columns, coefficients) + offset
    for stage in reversed(stages):
        moves = _predicted(columns, stage.way)
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = (_CERTAIN - (sign * out)[stage.moved]) / (sign * moves)[stage.moved]
        coefficients = coefficients + max(0.0, float(needed.max())) * stage.way
        out = _predicted(columns, coefficients) + offset
    return out


def as_they_are(design: Design, variables: Sequence[int]) -> Floats:
    """A constant and the columns of some variables, those of numbers not scaled, and centred by what costs no digit."""
    one = np.ones_like(design.scale)
    columns = [np.ones((design.n_rows, 1))]
    for v in variables:
        plain = design.varying[v]
        columns.append(design.matrix.gather(design.positions([v]), _exact(design), one) if plain else design.columns(v))
    return np.hstack(columns)


def _exact(design: Design) -> Floats:
    """What may be taken off columns far from 0, beside which a constant is next to them.

    Numbers that differ by no more than a factor of 2 have an exact difference.
    """
    low, high = design.low, design.high
    return np.where(high <= 2.0 * low, low, np.where(low >= 2.0 * high, high, 0.0))


def largest_terms(Z: Floats, x: Floats | None, coefficients: Floats) -> Floats:
    """Of the sums that predictors of models are; Z are columns of all, x one of each."""
    size, k = np.abs(coefficients), Z.shape[1]
    terms = np.abs(Z) @ size[:k]
    if x is not None:
        terms += np.abs(x) * size[k]
    return np.asarray(terms.max(axis=0, initial=0.0))


def without_rounding(
    design: Design, variables: Sequence[int], y: Floats, Z: Floats, terms: float, offset: Floats | None = None
) -> Apart | None:
    """The model of variables whose basis is Z, where rounding of the basis may be seen in predictors of such terms.

    None where it may not, or where nothing better is to be had. A basis of columns of which one keeps a part of its
    length beside the others has rounding of the inverse of that part.
    """
    if not terms > FAR:
        return None
    columns = as_they_are(design, variables)
    along = Z.T @ (design.weights[:, None] * columns) / design.n
    size = np.linalg.norm(along, axis=0)
    part = np.linalg.svd(along / np.where(size > 0.0, size, 1.0), compute_uv=False)[-1]
    return fitted_apart(columns, y, design.weights, offset) if terms * _ROUNDING > _SEEN * part else None
