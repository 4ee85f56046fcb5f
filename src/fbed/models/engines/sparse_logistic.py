"""The certified engine for models whose columns are mostly 0, such as words of documents, on the columns themselves.

A document has few of the selected words, so that the Gram matrix of a model costs a few operations a row, where an
orthonormal basis has a number for every row and word. Columns that are nearly in the span of others are left to the
basis: what is computed here rests on a Gram matrix whose pivots are all clear of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

from fbed._kernels import LogisticNull, SparseModel, least_rows
from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.models.base import Indices, Span
from fbed.models.engines.certified import _COARSE, _ENOUGH, FAR, Begin, CertifiedLogistic, Tried
from fbed.models.engines.fitted_logistic import Null
from fbed.models.engines.functionals import OwnFunctionals
from fbed.rules.p_values import Floats

_APART = 1e-3  # part of a column's norm² that the other columns of the model must leave of it
_PAYS = 0.25  # operations of a sparse Gram matrix beside those of a dense one, up to which it is quicker
_SMALLEST = 8  # columns of a model; with fewer, a dense matrix is as quick
_MOST_OF_GROUPS = 256  # columns of categories and groups together,
_BESIDE_WORDS = True  # and only where nearly all other columns are mostly 0
MANY_COLUMNS = 100  # of a model from which a look at the rows that a column moves takes less time than a fit without it
_ROWS_AT_ONCE = 2**13  # of an orthonormal basis that is made
_HALFWAY = 0.025  # part of the null deviance that Newton's step promises where a fit towards infinity is half way there


class SparseSpan(Span):
    """The intercept and the columns of S as they are; an orthonormal basis only where somebody asks for it."""

    def __init__(self, design: Design, selected: Sequence[int], columns: SparseModel, factor: Floats) -> None:
        self.design = design
        self.selected = tuple(map(int, selected))
        self.rank_of = {variable: int(design.width[variable]) for variable in self.selected}
        self.columns, self.least_part = columns, float(np.sqrt(_APART))
        self.factor = factor  # lower, of the Gram matrix under the frequency weights

    @property
    def rank(self) -> int:
        """Dimension, intercept included."""
        return self.columns.size

    @cached_property
    def root(self) -> Floats:  # type: ignore[override]
        """Of the weights."""
        return np.sqrt(self.design.weights)

    @cached_property
    def Q(self) -> Floats:  # type: ignore[override]  # noqa: N802
        """The orthonormal basis, by Gram matrices: pivots are clear of 0, so that the second leaves rounding only."""
        nearly = self.columns.moved(np.asfortranarray(np.eye(self.rank))) * self.root[:, None]
        _divide(nearly, self.factor)
        _divide(nearly, linalg.cholesky(nearly.T @ nearly, lower=True, check_finite=False))
        return nearly

    def triangle_of_columns(self) -> Floats:
        """R with the columns as they are = Z·R."""
        return np.asarray(self.factor.T / np.sqrt(self.design.n))

    def triangle(self) -> Floats:
        """The same of standardised columns, without Z."""
        out = self.triangle_of_columns().copy()
        center, scale = self.design.moments_of(self.selected)
        out[0, 1:] -= center / scale
        return out

    def coefficients_of(self, predictor: Floats) -> Floats:
        """The linear predictor of this model that is nearest to a given one."""
        along = self.columns.products(self.design.weights * predictor)
        return np.asarray(lapack.dpotrs(self.factor, along, lower=1)[0])


def sparse_span(design: Design, selected: Sequence[int], near: Span | None = None) -> SparseSpan | None:
    """S without a basis; None where one is needed, or as quick. A span of all but the last variable is gone on from."""
    if isinstance(near, SparseSpan) and near.selected == tuple(selected[:-1]):
        return _with_one_more(near, int(selected[-1]))
    chosen = np.asarray(selected, dtype=np.intp)
    plain = design.varying[chosen]
    if design.width[chosen].sum() < _SMALLEST or not (plain.all() or are_few(design, chosen)):
        return None
    which, most = design.positions(chosen[plain]), _PAYS * design.n_rows * (1 + design.width[chosen].sum()) ** 2
    if (design.n_rows + design.stored[which].sum()) ** 2 > most * design.n_rows:  # as many pairs at least
        return None
    all_plain = bool(plain.all())
    columns = SparseModel(design.matrix, which, design.scale) if all_plain else _one_by_one(design, chosen.tolist())
    if columns.pairs > most:
        return None
    gram = columns.gram(design.weights)
    size = np.sqrt(np.diag(gram))
    if not size.min() > 0.0:
        return None
    try:
        factor = linalg.cholesky(gram / size / size[:, None], lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    if not np.diag(factor).min() ** 2 > _APART:
        return None
    return SparseSpan(design, selected, columns, np.asfortranarray(factor * size[:, None]))


def _one_by_one(design: Design, variables: Sequence[int]) -> SparseModel:
    """The columns of variables of which some have several, which are not all in one matrix."""
    columns = SparseModel(design.matrix, np.empty(0, dtype=np.int64), design.scale)
    for variable in variables:
        for column in design.scattered(variable):
            columns = columns.with_column(*column)
    return columns


def are_few(design: Design, variables: NDArray[np.intp]) -> bool:
    """Whether categories and groups beside words have few columns together: of many levels, most are better eliminated,
    and beside other columns there is nothing to be gained.
    """
    width = design.width[variables[~design.varying[variables]]]
    return (design.is_scattered or not _BESIDE_WORDS) and bool((width > 0).all() and width.sum() <= _MOST_OF_GROUPS)


def _with_one_more(span: SparseSpan, variable: int) -> SparseSpan | None:
    """As many columns more as the variable has."""
    design, columns, factor = span.design, span.columns, span.factor
    selected = (*span.selected, variable)
    if not (design.varying[variable] or are_few(design, np.array(selected, dtype=np.intp))):
        return None
    for column in design.scattered(variable):
        columns = columns.with_column(*column)
        grown = _with_row(factor, columns.products(design.weights * columns.column(columns.size - 1)))
        if grown is None:
            return None
        factor = grown
    if columns.pairs > _PAYS * design.n_rows * columns.size**2:
        return None
    return SparseSpan(design, selected, columns, factor)


def _with_row(factor: Floats, along: Floats) -> Floats | None:
    """A row more of the factor of a Gram matrix, given its last column; None where that is next to the others."""
    row = lapack.dtrtrs(factor, along[:-1], lower=1)[0]
    pivot = float(along[-1] - row @ row)
    if not pivot > _APART * along[-1]:
        return None
    out = np.zeros((len(along), len(along)), order="F")
    out[:-1, :-1], out[-1, :-1], out[-1, -1] = factor, row, np.sqrt(pivot)
    return out


class SparseLogistic(CertifiedLogistic):
    """Coefficients are those of the columns, each divided by its scale, with an intercept first."""

    span: SparseSpan
    crowd = 10
    grown: SparseLogistic | None = None  # with one variable more, where that had to be fitted

    def _begin(self, start: Sequence[Floats]) -> None:
        starts = [self.span.coefficients_of(self.model.without_offset(eta)) for eta in start]
        self.coefficients, self.predictor, self.deviance, _ = self._fitted(self.span.columns, starts)

    def on_basis(self) -> Floats:
        """Coefficients on the orthonormal basis."""
        moved = self.model.without_offset(self.predictor)
        return np.asarray(self.span.Q.T @ (self.span.root * moved) / np.sqrt(self.model.n))

    def _elsewhere(self, safely: Begin) -> tuple[Begin, ...]:
        """The safe start first: programs of many documents take seconds."""
        return safely, self._by_linear_program, self._by_slower_steps

    def _tried(self, columns: SparseModel, starts: Floats, tolerance: float, enough: float) -> Tried:
        return columns.fit(self.model.design.weights, self.model.y, starts, tolerance, enough, self.model.offset)

    @staticmethod
    def _side_by_side(columns: SparseModel, size: int) -> Floats:
        return columns.moved(np.asfortranarray(np.eye(size)))

    @cached_property
    def null(self) -> Null:
        """All rows but the saturated ones; of those only the ones that the model can move on its own, if it can."""
        weights, y = self.model.design.weights, self.model.y
        kernel = LogisticNull.of_sparse_fit(
            self.span.columns, weights, y, self.predictor, self.coefficients, self.deviance, self.model.offset
        )
        self.deviance = kernel.deviance
        return Null(kernel)

    def _fitted_on(self, rows: Indices, weights: Floats, tolerance: float) -> Floats:
        part = self.span.columns.part(rows, np.arange(self.span.rank))
        return part.fit(weights, self.model.y[rows], self.coefficients[None], tolerance, np.inf, self._offset(rows))[1]

    def _in_the_limit(self, columns: SparseModel, found: tuple[Floats, Floats, float, float]) -> float:
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        null = LogisticNull.of_sparse_fit(columns, weights, y, found[1], found[0], found[2], offset)
        return self._limit(null, columns, found[0])

    def _limit(self, null: LogisticNull, columns: SparseModel, coefficients: Floats) -> float:
        """The deviance of a fit whose rows on their way to infinity are there.

        Far out, rounding hides how to fit the rows that are not on their way: without the others it does not.
        """
        weights, y, rows = self.model.design.weights, self.model.y, null.rows
        if not 0 < len(rows) < len(y):
            return null.deviance
        rest = columns.part(rows, np.arange(columns.size))
        found = rest.fit(weights[rows], y[rows], coefficients[None], _ENOUGH, np.inf, self._offset(rows))
        return min(null.deviance, found[2])

    def _null_of(self, predictor: Floats, active: Floats, cost: float) -> LogisticNull:
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        how = active, self.deviance, cost, offset
        return LogisticNull.of_sparse_rows(self.span.columns, weights, y, predictor, *how)

    def _moved(self, coefficients: Floats) -> Floats:
        return self.span.columns.moved(np.asfortranarray(coefficients))

    @cached_property
    def functionals(self) -> OwnFunctionals:
        """What vanishes on models without a variable."""
        return OwnFunctionals(self.span)

    def single_gain(self, candidate: int) -> tuple[float, float]:
        """By a fit on the columns, unless the candidate is close to their span.

        A fit that a contest has led to is kept: the search goes on from there.
        """
        larger = sparse_span(self.model.design, (*self.span.selected, candidate), self.span)
        if larger is None:
            return self._dense.single_gain(candidate)
        near = self.hints.get(frozenset(larger.selected))
        if near is not None:
            self.grown = SparseLogistic(self.model, larger, [near, self.model.null_predictors()])
            return max(0.0, self.deviance - self.grown.settled()), 1.0
        starts = [np.append(self.coefficients, 0.0), np.append(self._centre(), 0.0)]
        found = self._fitted(larger.columns, starts, _ENOUGH)
        return max(0.0, self.deviance - self._settled(larger.columns, found)), 1.0

    def settled(self) -> float:
        """The deviance, in the limit where some rows are on their way there."""
        far = self.deviance > 0.0 and float(np.abs(self.predictor).max()) > FAR
        return self._limit(self.null.kernel, self.span.columns, self.coefficients) if far else self.deviance

    def deviance_with(self, columns: Floats, variable: int) -> float:
        """Deviance of the model with a variable more, whose columns are orthogonal to it."""
        return self._dense.deviance_with(columns, variable)

    @cached_property
    def _dense(self) -> CertifiedLogistic:
        """The same model on an orthonormal basis."""
        dense = CertifiedLogistic(self.model, Span(self.model.design, self.span.selected), [self.predictor])
        dense.deviance = self.deviance
        return dense

    def deviance_without(self, variable: int, enough: float) -> tuple[float, float]:
        """Deviance of the model without one variable, from a start close by; or an interval that is above `enough`."""
        if self.span.rank_of[variable] > 1:
            return self._dense.deviance_without(variable, enough)
        place = self.span.place(variable).start
        kept = np.array([k for k in range(self.span.rank) if k != place])
        near = self._shortest_way_without(variable) if self.deviance > 0.0 else None
        start = self.coefficients if near is None else self.coefficients - self.null.whitener @ near[0]
        starts = [part * start[kept] for part in self._parts(near is not None)] + [self._centre()[kept]]
        if near is None and (halfway := self._halfway_without(place)) is not None:
            starts.insert(0, halfway[kept])
        few = self._unexplained.sum() < self.span.rank  # which are explained by almost any model of so many variables
        least = self._least_without(place, kept, starts, enough) if np.isfinite(enough) and not few else 0.0
        if least > enough:
            return least, self.model.null_deviance
        columns = self.span.columns.part(np.arange(self.model.design.n_rows), kept)
        return self._decided(variable, columns, self._fitted(columns, starts, _ENOUGH, enough), enough)

    def least_losses(self, variables: Indices, enough: float) -> Floats:
        """What removing each variable costs at least, or more than enough, from its own rows; 0 where it is not told.

        By steps that begin where a part of a variable's coefficient is taken off them, the fewest rows first. Nothing
        is told of categories and groups.
        """
        design, out = self.model.design, np.zeros(len(variables))
        single = np.flatnonzero(design.varying[variables])
        if not self.deviance > 0.0 or len(single) == 0:
            return out
        order = single[np.argsort(design.stored[design.positions(variables[single])], kind="stable")]
        places = np.array([self.span.place(int(v)).start for v in variables[order]], dtype=np.int64)
        out[order] = self.null.kernel.losses(places, self.coefficients, enough)
        return np.maximum(out, 0.0)

    def least_deviances_without(self, variables: Indices, enough: Floats) -> Floats:
        """What the models without each of some variables leave unexplained at least, or more than enough of it.

        Nothing is told of categories and groups.
        """
        single = self.model.design.varying[variables]
        if not single.all():
            left = np.zeros(len(variables))
            if single.any():
                left[single] = self.least_deviances_without(variables[single], enough[single])
            return left
        places, out = np.array([self.span.place(int(v)).start for v in variables]), np.zeros(len(variables))
        far = np.ones(len(places), dtype=bool)
        if self.deviance > 0.0:
            near, starts = self._starts_nearby(places)
            far[near] = False
            out[near] = self._surely_left(places[near], starts, enough[near])
        if far.any():
            out[far] = self._surely_left(places[far], self._starts_far_out(places[far]), enough[far])
        return out

    def _surely_left(self, places: Indices, starts: Floats, enough: Floats) -> Floats:
        """Rows that are explained by almost any model of so many variables are too few to be looked at alone."""
        if len(places) == 0:
            return np.zeros(0)
        told = self._unexplained
        if told.sum() < self.span.rank:
            told = np.ones_like(told)
        starts = np.ascontiguousarray(starts.reshape(-1, self.span.rank))
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        return self.span.columns.least_without(weights, y, told, places, starts, _ENOUGH, enough, offset)

    def _starts_nearby(self, places: Indices) -> tuple[Indices, Floats]:
        """Which models without a column are at the end of a step from here; columns × starts × coefficients."""
        near, ways, _ = self._single_ways_without(places.tolist())
        starts = np.empty((len(near), 2, self.span.rank))
        starts[:, 0], starts[:, 1] = self.coefficients - (self.null.whitener @ ways).T, self._centre()
        return near, starts

    def _starts_far_out(self, places: Indices) -> Floats:
        """The same where models are on their way to infinity: anywhere on it, or where it begins."""
        parts = np.array(self._parts(False))
        starts = np.empty((len(places), len(parts) + 2, self.span.rank))
        starts[:, 1:-1], starts[:, -1] = parts[:, None] * self.coefficients, self._centre()
        coefficients, whitener = self._halfway
        own = np.square(whitener[places]).sum(axis=1)
        step = coefficients[places] / np.where(own > 0.0, own, np.inf)
        starts[:, 0] = coefficients - step[:, None] * (whitener[places] @ whitener.T)
        return starts

    def _halfway_without(self, place: int) -> Floats | None:
        """Where the way to infinity begins, without a column: the model without it is nearer to that than to the end
        of the way, unless the column does not matter.
        """
        coefficients, whitener = self._halfway
        own = float(whitener[place] @ whitener[place])
        if not own > 0.0:
            return None
        return coefficients - whitener @ whitener[place] * (coefficients[place] / own)

    @cached_property
    def _halfway(self) -> tuple[Floats, Floats]:
        """Coefficients of a fit that was stopped on its way to infinity, and a root of the inverse curvature there."""
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        columns, tolerance = self.span.columns, _HALFWAY * self.model.null_deviance
        found = columns.fit(weights, y, self._centre()[None], tolerance, np.inf, offset)
        null = LogisticNull.of_sparse_fit(columns, weights, y, found[1], found[0], found[2], offset)
        return found[0], null.whitener

    def _least_without(self, place: int, kept: Indices, starts: Sequence[Floats], enough: float) -> float:
        """What the model without a column leaves unexplained at least of the rows that have most of the deviance, and
        of those that the column moves: no more than of all rows.
        """
        rows = np.flatnonzero(self._unexplained | (self.span.columns.column(place) != 0.0))
        weights, y = self.model.design.weights[rows], self.model.y[rows]
        part = self.span.columns.part(rows, kept)
        return part.fit(weights, y, np.array(starts), _ENOUGH, enough, self._offset(rows))[3]

    @cached_property
    def _unexplained(self) -> NDArray[np.bool_]:
        """Which rows have the deviance, but for a little."""
        out = np.ones(len(self.predictor), dtype=bool)
        out[least_rows(self.row_deviance, _COARSE)] = False
        return out


def _divide(columns: Floats, factor: Floats) -> None:
    """Columns over the transpose of a triangle, in place, some rows at a time."""
    for start in range(0, len(columns), _ROWS_AT_ONCE):
        check_time()
        some = columns[start : start + _ROWS_AT_ONCE]
        some[:] = linalg.solve_triangular(factor, some.T, lower=True, check_finite=False).T
