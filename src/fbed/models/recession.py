"""Which coefficients are infinite: directions along which a likelihood never falls.

A concave log-likelihood has a maximum unless some direction d of the parameters leaves it rising for ever. For every
family here such directions are a cone of linear inequalities, A·d ≥ 0: a success must not become less likely, nobody
who survives may come to have more hazard than whoever dies, and so on. A row of A that some direction of the cone makes
positive is decided in the limit and says nothing about the rest; the directions that leave all other rows alone are
the span N of the cone. A parameter, or a combination t of them, is finite exactly where tᵀN = 0, and its estimate and
standard error are those of the model in which the decided rows are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

from fbed.clock import OutOfTime, check_time, seconds_left
from fbed.rules.p_values import Floats

UNDECIDED = 7.0
"""A row whose margin (log odds, or log of a mean below 1) is less than this cannot be on its way to infinity: the
iterations end when a margin that grows for ever has come to 25, or close to it."""

_DEPENDENT = 1e-8  # a direction that moves unit rows by less moves none
_CLEAR = 1e-6  # of the largest move: what is less is rounding
_APART = 10.0  # times as far as rows go to the wrong side, that those must go which are clearly moved to theirs
_SURE = 1e-8  # smallest eigenvalue of unit rows, on average, from which their rank is not in question
_OUT_OF_TIME = 1  # status of a linear program that was ended
_LONGEST = 1e4  # bound on a direction of the linear program, which is solved to 1e-7
_LEFT = 10.0  # times the rounding of a product that may be left of nothing
_ENOUGH = 100.0  # times that, whose inverse is large, but not seen elsewhere
_SHORT = 100.0  # and one with which rounding of the rows is not seen, where it takes a few rows at a time


Rows = Any
"""A matrix, or a sparse array where most of it is 0."""


@dataclass(frozen=True)
class Constraints:
    """Rows A of A·d ≥ 0, and how far each is from being undecided where the iterations ended (`margin`).

    Rows that may not move at all have margin −inf.
    """

    rows: Rows
    margin: Floats


def rows_times(factors: Floats, rows: Rows) -> Rows:
    """Every row times a factor, of a matrix or a sparse array."""
    return sparse.diags_array(factors) @ rows if sparse.issparse(rows) else factors[:, None] * rows


def side_by_side(blocks: Sequence[Rows]) -> Rows:
    """Matrices, or sparse arrays if any of them is one."""
    return sparse.hstack(blocks, format="csr") if any(map(sparse.issparse, blocks)) else np.hstack(blocks)


def one_below_another(blocks: Sequence[Rows]) -> Rows:
    """The same, with all their rows."""
    return sparse.vstack(blocks, format="csr") if any(map(sparse.issparse, blocks)) else np.vstack(blocks)


def held_further(constraints: Constraints, n_further: int) -> Constraints:
    """The same for parameters of which further ones, at the end, may not move."""
    count, size = constraints.rows.shape
    beside, held = np.zeros((count, n_further)), np.hstack([np.zeros((n_further, size)), np.eye(n_further)])
    margin = np.append(constraints.margin, np.full(n_further, -np.inf))
    return Constraints(one_below_another([side_by_side([constraints.rows, beside]), held]), margin)


@dataclass(frozen=True)
class Recession:
    """The span of the directions (orthonormal columns), and one of them that decides as many rows as any."""

    span: Floats
    heading: Floats

    def __bool__(self) -> bool:
        return self.span.shape[1] > 0


def none(size: int) -> Recession:
    """No direction: the likelihood has a maximum."""
    return Recession(np.zeros((size, 0)), np.zeros(size))


def every(parameters: Floats) -> Recession:
    """All parameters are on their way to infinity, in the direction they have."""
    return Recession(np.eye(len(parameters)), parameters)


@dataclass(frozen=True)
class Coordinates:
    """From coefficients of C = Z·triangle, which constraints are written for, to those of Z, which a fit has; and back.

    For every predictor alike; further parameters stay as they are.
    """

    triangle: Floats
    n_predictors: int = 1

    def of_basis(self, directions: Floats) -> Floats:
        """What directions of C are for Z."""
        return self._each(directions, lambda part: self.triangle @ part)

    def of_own(self, directions: Floats) -> Floats:
        """What directions of Z are for C."""
        return self._each(directions, lambda part: linalg.solve_triangular(self.triangle, part, check_finite=False))

    def _each(self, directions: Floats, change: Callable[[Floats], Floats]) -> Floats:
        size = len(self.triangle)
        *parts, further = np.split(directions, [size * (j + 1) for j in range(self.n_predictors)])
        return np.concatenate([*map(change, parts), further])


def recession(constraints: Constraints, parameters: Floats, coordinates: Coordinates | None = None) -> Recession:
    """Directions along which the likelihood never falls, given where the iterations ended.

    Constraints may be written in other coordinates than the parameters, of columns that are independent: nothing but
    the choice of one direction among many depends on which they are.
    """
    A, margin = _unit_rows(constraints.rows, constraints.margin)
    undecided = margin < UNDECIDED
    of_rows = _null_space(A[undecided])  # what moves no row that is undecided
    if of_rows.shape[1]:
        of_rows = _without(of_rows, _null_space(A))  # what moves no row at all is not identified, not infinite
    if of_rows.shape[1] == 0:
        return none(len(parameters))
    free = of_rows
    if coordinates is not None:
        free = np.linalg.qr(coordinates.of_basis(of_rows))[0]
        of_rows = coordinates.of_own(free)
    rows, _ = _unit_rows(A[~undecided] @ of_rows, margin[~undecided])
    found = _interior(rows, free.T @ parameters)
    if found is None:
        return none(len(parameters))
    way, rest = found
    span = free @ _null_space(rest)
    along = span @ (span.T @ parameters)
    went = rows @ (free.T @ along)
    is_one = went.min() >= -_CLEAR * np.abs(went).max()
    return Recession(span, along if is_one else free @ way)


def logistic_recession(
    rows: Callable[[], Rows],
    y: Floats,
    predictor: Floats,
    parameters: Floats,
    coordinates: Coordinates | None = None,
) -> Recession:
    """Directions in which fitted probabilities of some rows run to 0 or 1; rows are asked for where that may be."""
    sign = 2.0 * y - 1.0
    margin = sign * predictor
    if float(margin.max()) < UNDECIDED:
        return none(len(parameters))
    return recession(Constraints(rows_times(sign, rows()), margin), parameters, coordinates)


def _unit_rows(rows: Rows, margin: Floats) -> tuple[Rows, Floats]:
    """Rows of length 1, without those that say nothing."""
    size = np.sqrt(rows.power(2).sum(axis=1)) if sparse.issparse(rows) else np.linalg.norm(rows, axis=1)
    kept = size > _DEPENDENT * size.max(initial=0.0)
    return rows_times(1.0 / size[kept], rows[kept]), margin[kept]


def _null_space(rows: Rows) -> Floats:
    """Orthonormal directions that no row moves."""
    count, size = rows.shape
    if count == 0:
        return np.eye(size)
    if count > size:
        check_time()
        values, vectors = np.linalg.eigh(_matrix(rows.T @ rows))
        sure = values > _SURE * count
        if sure.all():  # nearly always, and cheap
            return np.zeros((size, 0))
        return _moving_none(rows, values[sure], vectors[:, sure], vectors[:, ~sure])
    _, values, directions = np.linalg.svd(_matrix(rows))
    rank = int((values > _DEPENDENT * max(1.0, float(values[0]))).sum())
    return np.asarray(directions[rank:].T)


def _matrix(few: Rows) -> Floats:
    """No more rows than columns, zeros and all."""
    return np.asarray(few @ np.eye(few.shape[1])) if sparse.issparse(few) else few


def _moving_none(rows: Rows, values: Floats, sure: Floats, doubtful: Floats) -> Floats:
    """Of directions that move rows by little, those that move none; of the others, `sure`, squared moves are known.

    Products of rows with each other have lost what a direction has to be known to: what doubtful ones still move is
    computed row by row, and its part along the others is taken back. That leaves a part of 10⁻⁸ each time.
    """
    for _ in range(2):
        check_time()
        along = sure.T @ (rows.T @ (rows @ doubtful))
        doubtful = np.linalg.qr(doubtful - sure @ (along / values[:, None]))[0]
    check_time()
    _, moves, directions = np.linalg.svd(np.linalg.qr(rows @ doubtful, mode="r"))
    largest = float(np.sqrt(values[-1])) if len(values) else float(moves[0])
    rank = int((moves > _DEPENDENT * max(1.0, largest)).sum())
    return np.asarray(doubtful @ directions[rank:].T)


def _without(basis: Floats, flat: Floats) -> Floats:
    """The part of a space that is orthogonal to a part of it."""
    left = basis - flat @ (flat.T @ basis)
    U, values, _ = np.linalg.svd(left, full_matrices=False)
    return np.asarray(U[:, values > 0.5])


def _interior(rows: Floats, went: Floats) -> tuple[Floats, Floats] | None:
    """A direction d, rows·d ≥ 0, that makes as many rows positive as any, and the other rows; None when there is none.

    Where the iterations went is most often one. Otherwise a linear program finds it.
    """
    size = rows.shape[1]
    if size == 1:
        low, high = float(rows.min()), float(rows.max())
        return None if low < 0.0 < high else (np.full(1, 1.0 if high > 0 else -1.0), np.zeros((0, 1)))
    moved = rows @ went
    if moved.min() > _CLEAR * moved.max():
        return went, rows[:0]
    rows = np.unique(np.round(rows, 12), axis=0)
    way = _by_linear_program(rows, _LONGEST)
    if way is None:  # rounding was in its way
        way = _by_linear_program(rows, _SHORT)
    if way is None:
        return None
    moved = rows @ way
    positive = moved > _CLEAR * max(1.0, float(np.abs(way).max()))
    return (way, rows[~positive]) if positive.any() else None


def _by_linear_program(rows: Floats, longest: float | None) -> Floats | None:
    """Maximise Σs with rows·d ≥ s, 0 ≤ s ≤ 1: every row that can be positive reaches 1 if d may be long enough."""
    n, size = rows.shape
    matrix = sparse.hstack([sparse.csr_array(-rows), sparse.eye_array(n)])
    cost = np.append(np.zeros(size), -np.ones(n))
    bounds = [(None if longest is None else -longest, longest)] * size + [(0.0, 1.0)] * n
    left = seconds_left()
    options = {} if np.isinf(left) else {"time_limit": left}
    found = optimize.linprog(cost, A_ub=matrix, b_ub=np.zeros(n), bounds=bounds, method="highs", options=options)
    if found.status == _OUT_OF_TIME:
        raise OutOfTime
    return None if found.x is None else np.asarray(found.x[:size], dtype=np.float64)


def way_to_infinity(rows: Floats) -> tuple[Floats, Floats]:
    """A direction d, rows·d ≥ 0, that makes as many rows positive as any, and how far it moves each: 0 or about 1 at
    least. However long it has to be for that; nothing at all where no direction does.
    """
    way = _by_linear_program(np.unique(rows, axis=0), None)
    if way is None:
        return np.zeros(rows.shape[1]), np.zeros(len(rows))
    moved = rows @ way
    return way, np.where(moved > 0.5, moved, 0.0)


def unit_rows_moved(rows: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The same for rows of any length, each taken as one of length 1, and a direction that is not too long; and which
    rows it moves.
    """
    size = np.linalg.norm(rows, axis=1)
    unit = np.divide(rows, size[:, None], out=np.zeros_like(rows), where=size[:, None] > 0.0)
    different = np.unique(np.round(unit, 12), axis=0)
    for longest in (_SHORT, _LONGEST):
        way = _by_linear_program(different, longest)
        if way is None:
            continue
        moves = unit @ way
        astray = max(0.0, -float(moves.min()))  # how far rows go that it must not move
        if (clear := moves > max(_CLEAR * max(1.0, float(np.abs(way).max())), _APART * astray)).any():
            return way, clear
    return np.zeros(rows.shape[1]), np.zeros(len(rows), dtype=bool)


def inverse_of_finite(information: Floats, found: Recession) -> Floats | None:
    """The inverse information of what is finite; None when there is none."""
    check_time()
    if not found:
        return _inverse(information)
    if np.count_nonzero(found.span) == found.span.shape[1]:  # some parameters, each by itself
        finite = np.flatnonzero(~found.span.any(axis=1))
        inverse, out = _inverse(information[np.ix_(finite, finite)]), np.zeros_like(information)
        if inverse is None:
            return None
        out[np.ix_(finite, finite)] = inverse
        return out
    P = np.asarray(linalg.null_space(found.span.T))  # directions of what is finite
    inverse = _inverse(P.T @ information @ P)
    return None if inverse is None else np.asarray(P @ inverse @ P.T)


def _inverse(information: Floats) -> Floats | None:
    """The inverse; a direction with less information than rounding leaves has little, but enough.

    Some have none at all, such as those of rows that are never at risk, or that are beyond all doubt though nothing
    goes to infinity. The inverse of what rounding made of it would be seen in the standard errors of everything else,
    as nobody knows exactly where such a direction points.
    """
    if len(information) == 0:
        return information
    rounding = _LEFT * len(information) * np.finfo(np.float64).eps
    with suppress(np.linalg.LinAlgError):
        inverse = np.linalg.inv(information)
        if np.linalg.norm(information, 1) * np.linalg.norm(inverse, 1) * rounding < 1.0:
            return np.asarray(inverse)
    values, vectors = np.linalg.eigh((information + information.T) / 2.0)
    if not values[-1] > 0.0:
        return None
    least = rounding * values[-1]
    return np.asarray((vectors / np.where(values > least, values, _ENOUGH * least)) @ vectors.T)


def infinite_terms(change: Floats, found: Recession) -> tuple[int, ...]:
    """For values change·parameters: 1 or −1 where they run to plus or minus infinity, 0 where they are finite."""
    size = np.linalg.norm(change, axis=1)
    moved = np.linalg.norm(change @ found.span, axis=1) > _CLEAR * size
    return tuple(np.where(moved, np.where(change @ found.heading >= 0, 1, -1), 0).tolist())
