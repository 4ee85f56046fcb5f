"""Models whose columns are mostly 0, such as words of documents, on the columns themselves.

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

from fbed._kernels import SparseModel
from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.models.base import Span
from fbed.rules.p_values import Floats

_APART = 1e-3  # part of a column's norm² that the other columns of the model must leave of it
_PAYS = 0.25  # operations of a sparse Gram matrix beside those of a dense one, up to which it is quicker
_SMALLEST = 8  # columns of a model; with fewer, a dense matrix is as quick
_MOST_OF_GROUPS = 256  # columns of categories and groups together,
_BESIDE_WORDS = True  # and only where nearly all other columns are mostly 0
_ROWS_AT_ONCE = 2**13  # of an orthonormal basis that is made


class SparseSpan(Span):
    """The intercept and the columns of S divided by their scales, not centred: C.

    The orthonormal basis is made only where somebody asks for it.
    """

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

    def triangle_of_own(self) -> Floats:
        """R with C = Z·R."""
        return np.asarray(self.factor.T / np.sqrt(self.design.n))

    def triangle(self) -> Floats:
        """R with [1, standardised columns] = Z·R; Z is not made for it."""
        out = self.triangle_of_own().copy()
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


def _divide(columns: Floats, factor: Floats) -> None:
    """Columns over the transpose of a triangle, in place, some rows at a time."""
    for start in range(0, len(columns), _ROWS_AT_ONCE):
        check_time()
        some = columns[start : start + _ROWS_AT_ONCE]
        some[:] = linalg.solve_triangular(factor, some.T, lower=True, check_finite=False).T
