"""Columns that are mostly 0 beside a proportional hazards model: enclosed from the maximum along each of them.

A dummy of a rare level moves few rows, but those far, so that Newton's step from the model says little of it. Let T be
the rows where a column x is not 0, b where the likelihood is largest along it, G what the log-likelihood gains there,
and φ(β) the maximum over its coefficient: φ at the model is what it has with G, and

    2G − N²·2  ≤  LR  ≤  2G + λ²·P(−κλ),        λ² = gᵀA⁻¹g,    g the gradient of φ,

where A is no more than the curvature of φ, κ how fast that may fall. Rows that are not of T have x = 0: what their
pairs have of the information stays whatever x takes, but for the growth 1 + δ of the sums of hazards, so that

    A = (1 − L)/(1 + δ)²·H,        L the part of the model's information H that pairs with a row of T have.

The proof of this, and of κ, is in docs/engine.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed._kernels import DenseColumns, RareAtRisk, SparseColumns
from fbed.clock import check_time
from fbed.matrix.scattered_columns import ScatteredColumns
from fbed.models.engines.bound_functions import P
from fbed.models.engines.tall.course import Course, RiskState
from fbed.rules.p_values import Floats

_HELD = 2**22  # residuals of columns, or parts of rows, that are held at once
_ROUNDING = 1e-8  # relative
_MOST_SHARED = 0.9  # of the model's information, beyond which nothing is told
_FARTHEST = 0.5  # how far rows may move on the way to the maximum
_FOLLOWED = 0.2336  # in units of curvature over spread × size, the farthest that leaves a coefficient near where it was
_FAR = 15.0  # where a coefficient begins that has its maximum at infinity


class ModelRows(Protocol):
    """The model's columns, as they are asked about here."""

    def leverage(self, expected: Floats, root: Floats) -> Floats:
        """How far every row is from the mean of expected deaths, squared, in the metric of RᵀR, R the root."""

    def along(self, residuals: Floats) -> Floats:
        """Products of the columns with some vectors of all rows."""


class RowByRow:
    """Columns that are read some rows at a time."""

    def __init__(self, read: Callable[[slice], Floats], parts: list[slice]) -> None:
        self._read, self._parts = read, parts

    def leverage(self, expected: Floats, root: Floats) -> Floats:
        """By a triangular system a row."""
        centre = sum(expected[part] @ Z for part, Z in self._all()) / expected.sum()
        out = np.empty(len(expected))
        for part, Z in self._all():
            half = linalg.solve_triangular(root, (Z - centre).T, lower=True, check_finite=False)
            out[part] = np.einsum("ij,ij->j", half, half)
        return out

    def along(self, residuals: Floats) -> Floats:
        """By matrix products."""
        return np.asarray(sum(Z.T @ residuals[part] for part, Z in self._all()))

    def _all(self) -> Iterator[tuple[slice, Floats]]:
        for part in self._parts:
            check_time()
            yield part, self._read(part)


class ByEntries:
    """Columns that are mostly 0."""

    def __init__(self, columns: ScatteredColumns) -> None:
        self._columns = columns

    def leverage(self, expected: Floats, root: Floats) -> Floats:
        """By pairs of the entries of a row."""
        centre = self._columns.along(expected)[1:] / expected.sum()
        return self._columns.squares(linalg.cho_solve((root, True), np.eye(len(root)), check_finite=False), centre)

    def along(self, residuals: Floats) -> Floats:
        """By entries."""
        return np.column_stack([self._columns.along(of)[1:] for of in residuals.T])


class NoColumns:
    """The model without variables."""

    def leverage(self, expected: Floats, root: Floats) -> Floats:
        """Nobody moves."""
        return np.zeros(len(expected))

    def along(self, residuals: Floats) -> Floats:
        """There is nothing."""
        return np.zeros((0, residuals.shape[1]))


def enclosed(
    course: Course,
    rows: RiskState,
    weights: Floats,
    matrix: DenseColumns | SparseColumns,
    which: NDArray[np.int64],
    model: ModelRows,
    information: Floats,
    short: float,
) -> tuple[Floats, Floats, Floats]:
    """Intervals of likelihood ratios; steps of the model's coefficients and, last, the column's own, not a number where
    nobody knows.
    """
    size, count = len(information), len(which)
    lower, upper, ends = np.zeros(count), np.full(count, np.inf), np.full((size + 1, count), np.nan)
    root = linalg.cholesky(information, lower=True, check_finite=False) if size else information
    alive = rows.hazard > 0.0
    leverage = np.where(alive, model.leverage(rows.expected, root), 0.0)
    furthest = 2.0 * np.sqrt(leverage.max(initial=0.0))
    state = rows.hazard, rows.expected, weights, leverage
    known = RareAtRisk(course.event, course.closes, course.starts, course.deaths, *state)
    together = max(1, _HELD // len(leverage))
    for first in range(0, count, together):
        check_time()
        some = slice(first, first + together)
        facts, residuals = known.along(matrix, which[some])
        half = model.along(residuals)
        if size:
            half = linalg.solve_triangular(root, half, lower=True, check_finite=False)
            ends[:-1, some] = linalg.solve_triangular(root, half, lower=True, trans="T", check_finite=False)
        lower[some], upper[some] = _intervals(facts, np.square(half).sum(axis=0), furthest, short)
        ends[-1, some] = np.where(np.isinf(facts[:, 0]), np.sign(facts[:, 0]) * _FAR / facts[:, 8], facts[:, 0])
    return lower, upper, ends


def _intervals(facts: Floats, squared: Floats, furthest: float, short: float) -> tuple[Floats, Floats]:
    """Of likelihood ratios, from what the likelihood does along columns and gᵀH⁻¹g."""
    gain, shared, ahead, odds, size, curvature, spread, widest = facts[:, 1:].T
    with np.errstate(all="ignore"):
        part = (1.0 - shared) / (1.0 + ahead) ** 2
        is_there = size > 0.0  # some of T are at risk where the likelihood is largest
        follows = np.where(is_there, 3.0 * size / curvature, 0.0)  # how fast the coefficient follows rows
        most = np.where(is_there, np.minimum(_FARTHEST, _FOLLOWED * curvature / (spread * size)), _FARTHEST)
        grown = np.exp(most * (1.0 + follows * widest)) * odds
        rate = 1.0 + 2.0 * (1.0 + follows * widest) * grown / (1.0 + grown)
        promised, bend = squared / part, rate * furthest * np.sqrt(squared) / part
        near = np.isfinite(gain) & (shared < _MOST_SHARED) & (bend < 1.0 - np.exp(-most))
    gain, promised = np.where(np.isfinite(gain), gain, 0.0), np.where(near, promised, 0.0)
    rounding = _ROUNDING * (1.0 + 2.0 * gain + promised)
    upper = 2.0 * gain + promised * P(np.where(near, -bend, 0.0)) + rounding
    return np.maximum(2.0 * gain - 2.0 * short - rounding, 0.0), np.where(near, upper, np.inf)
