"""Variables → design columns in float64, centred and scaled, a block at a time.

A numeric variable gives one column, a categorical one a column a level but the first, a group those of its columns, and
a column with missing values brings along the indicator of where they were. Every model has an intercept, so
centring and scaling change no statistic; they make the arithmetic indifferent to units. Small types and sparse
matrices are converted a block at a time, never as a whole, and one pass over the matrix finds everything that is ever
asked about single columns: whether they are finite, their centre and scale, their extremes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed._kernels import DenseColumns, SparseColumns, to_columns
from fbed.matrix.device_columns import DeviceColumns
from fbed.matrix.device_storage import device_columns
from fbed.matrix.mixed_storage_columns import BesideColumns
from fbed.memory import available_memory
from fbed.rules.p_values import Floats
from fbed.tables.encoding import Codes
from fbed.tables.mixed_storage import Beside
from fbed.tables.on_device import OnDevice
from fbed.tables.separate_columns import ColumnsApart
from fbed.tables.table import Matrix, Table, refuse_not_finite
from fbed.threads import spread

_MOSTLY_ZERO = 0.2  # part of the rows that may be other than 0 for a column to count as mostly zero
_ALWAYS_COPIED = 2**28  # bytes up to which a row-major matrix is copied whatever memory there is
_SHARE_OF_MEMORY = 4  # and beyond that up to this part of the memory that is left: every pass goes along columns
_ROWS_AT_ONCE = 2**14  # of a matrix that is copied, for threads to share
_FEW = 0.05  # part of the columns of a sparse matrix that may have many values for these to be looked at one by one
_BLOCK_VALUES = 2**18  # float64 values in a block: 2 MB stay in the cache of a core
_SMALL_VALUES = 2**19  # of a matrix that may be kept as models see it, beside the user's: 4 MB
_STORED_VALUES = 2**14  # of a sparse matrix: enough to make up for the call, few enough to share among threads


class Design:
    """Centred and scaled design columns of a table whose rows have frequency weights.

    `roughly` says that on a device moments in float32 will do; see `DeviceColumns`. `often` says that the columns will
    be read many times, for which a row-major matrix is copied if there is room; a small one always is.

    Attributes
    ----------
    weights : frequency of each row, all positive.
    n : sum of the weights.
    unit_weights : whether all of them are 1.
    width : number of design columns of each variable; 0 for a constant variable.
    numeric : which variables are a single column of the table's matrix, so that scans can read it there.
    varying : which of those are not constant.
    center, scale, low, high : of each column of the table's matrix; scale 0 marks a constant one.
    stored : number of values of each that are not 0.
    mostly_zero : which columns of the matrix have few values that are not 0.
    is_scattered : whether there are columns, and nearly all have.
    by_support : the same of a sparse matrix.
    """

    def __init__(
        self, table: Table, weights: Floats, n_threads: int = 1, roughly: bool = False, often: bool = True
    ) -> None:
        self.table = table
        self.weights = weights
        self.n_threads = n_threads
        self.unit_weights = bool((weights == 1.0).all())
        self.n = float(weights.sum())
        self.n_rows = table.n_rows
        self.is_sparse = bool(sparse.issparse(table.matrix))
        self.matrix = _kernel_columns(table.matrix, n_threads, often)
        if self.is_on_device:
            self.matrix.stored.roughly = roughly
        self.center, self.scale, self.low, self.high, self.stored = self._one_pass(n_threads)
        # heavy rows can bring the centre far from 0, where sums over the other rows would cancel
        few = self.stored < _MOSTLY_ZERO * self.n_rows
        self.mostly_zero: NDArray[np.bool_] = few & (np.abs(self.center) <= self.scale)
        dense = int((~self.mostly_zero).sum())
        self.is_scattered = bool(self.mostly_zero.any()) and dense <= _FEW * len(self.mostly_zero)
        self.by_support = self.is_sparse and self.is_scattered
        self._name_columns()

    def times(self, factor: float) -> Design:
        """The same columns, of rows that weigh so many times as much: nothing else of a column depends on that."""
        out = copy.copy(self)
        out.weights, out.n, out.unit_weights = factor * self.weights, factor * self.n, False
        return out

    def _name_columns(self) -> None:
        """Which design columns every variable has, once it is known which columns vary."""
        self.numeric = self._numeric()
        self.width = self._widths()
        self.varying = self.numeric & (self.width == 1)

    def _one_pass(self, n_threads: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Centre, scale, extremes and number of values other than 0 of every column; refuses what is not finite."""
        p = self.table.matrix.shape[1]
        step = max(1, p) if self.is_on_device else self._share(p)  # a device cuts them by itself
        ranges = [(start, min(start + step, p)) for start in range(0, p, step)]
        parts = list(spread(lambda r: self.matrix.stats(self.weights, self.n, *r), ranges, n_threads))
        stats = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, 6)), *parts])
        refuse_not_finite(self.table, self._unusable(stats[:, 4]))
        center, scale, low, high, stored = (np.ascontiguousarray(stats[:, i]) for i in (0, 1, 2, 3, 5))
        return center, scale, low, high, stored

    def _share(self, p: int) -> int:
        """Columns that a thread looks at in one go: many where rows lie in one piece, which are read as they lie."""
        is_across = isinstance(self.matrix, DenseColumns) and self.matrix.is_across
        return min(512, max(16, -(-p // self.n_threads))) if is_across else max(16, -(-p // 64))

    @property
    def one_row(self) -> str:
        """What rows are called, in a message, that together count as no more than one."""
        return "a single row" if self.unit_weights else "less than two rows, by their weights"

    @property
    def is_stored(self) -> bool:
        """Whether columns are stored in their own way, and read by their own kernels."""
        return isinstance(self.table.matrix, Beside)

    @property
    def is_on_device(self) -> bool:
        """Whether they are on a device."""
        return self.is_stored and isinstance(self.matrix.stored, DeviceColumns)

    @property
    def block_size(self) -> int:
        """How many columns make a block."""
        return max(8, _BLOCK_VALUES // max(1, self.n_rows))

    @property
    def scan_size(self) -> int:
        """The same where columns are read as they are stored, and never all values of a block are there at once."""
        if not self.is_sparse:
            return self.block_size
        stored = self.table.matrix.nnz / max(1, self.table.matrix.shape[1])
        return max(self.block_size, int(_STORED_VALUES / max(1.0, stored)))

    def block(self, variables: Sequence[int] | NDArray[np.intp]) -> Floats:
        """Columns of numeric variables, one each; all zero for a constant one."""
        return self.matrix.gather(self.positions(variables), self.center, self.scale)

    def n_varying(self, variables: NDArray[np.intp]) -> int:
        """How many variables are not constant: those that can enter a model."""
        return int((self.width[variables] > 0).sum())

    def positions(self, variables: Sequence[int] | NDArray[np.intp]) -> NDArray[np.int64]:
        """Where numeric variables are in the table's matrix."""
        return self.table.position[np.asarray(variables, dtype=np.intp)].astype(np.int64, copy=False)

    def columns(self, variable: int) -> Floats:
        """All design columns of one variable, n × width."""
        if self.numeric[variable] and self.width[variable]:
            return self.block([variable])
        return _side_by_side([self._column(j) for j in self.table.columns(variable)])

    def codes(self, variable: int) -> tuple[Codes, int] | None:
        """Level of each row and the number of levels, of a variable that is one categorical column."""
        columns = self.table.columns(variable)
        factor = self.table.factors.get(columns[0]) if len(columns) == 1 else None
        return None if factor is None else (factor.codes, len(factor.levels))

    def scattered(self, variable: int) -> list[tuple[Any, int, float]]:
        """The design columns of one variable without their zeros: a matrix, which of its columns, and its scale."""
        found: list[tuple[Any, int, float]] = []
        for j in self.table.columns(variable):
            if j in self.table.factors:
                levels, scale = self._levels(j), self._factor_moments(j)[1].tolist()
                found += [(levels, place, one) for place, one in enumerate(scale)]
            else:
                found += [(self.matrix, place, float(self.scale[place])) for place in self._places(j).tolist()]
        return found

    def _levels(self, j: int) -> SparseColumns:
        """Indicators of every level of a category but the first."""
        if j not in self._known_levels:
            codes = self.table.factors[j].codes
            rows = np.argsort(codes, kind="stable").astype(np.int32)
            count = np.bincount(codes, minlength=len(self.table.factors[j].levels))
            ends = (np.cumsum(count) - count[0]).astype(np.int32)
            rows = rows[count[0] :]
            self._known_levels[j] = SparseColumns(ends, rows, np.ones(len(rows)), self.n_rows)
        return self._known_levels[j]

    @cached_property
    def _known_levels(self) -> dict[int, SparseColumns]:
        return {}

    def _column(self, j: int) -> Floats:
        """Design columns of one column of the table."""
        factor = self.table.factors.get(j)
        if factor is None:
            return self.matrix.gather(self._places(j), self.center, self.scale)
        return _indicators(factor.codes, *self._factor_moments(j))

    def stack(self, variables: Sequence[int]) -> Floats:
        """Design columns of several variables side by side."""
        which = np.asarray(variables, dtype=np.intp)
        single = self.varying[which]
        if len(which) and single.all():
            return self.block(which)
        if len(which) == 1:
            return self.columns(int(which[0]))
        width = self.width[which]
        first = np.cumsum(width) - width
        out = np.empty((self.n_rows, int(width.sum())), order="F")
        if single.any():
            out[:, first[single]] = self.block(which[single])
        for i in np.flatnonzero(~single & (width > 0)).tolist():
            self._write(int(which[i]), out[:, first[i] : first[i] + width[i]])
        return out

    def _write(self, variable: int, out: Floats) -> None:
        """Design columns of a variable into a place for them; a category needs no other."""
        columns = self.table.columns(variable)
        if len(columns) == 1 and columns[0] in self.table.factors:
            _write_indicators(self.table.factors[columns[0]].codes, *self._factor_moments(columns[0]), out)
        else:
            out[:] = self.columns(variable)

    @cached_property
    def small_whole(self) -> Floats | None:
        """All columns of a small matrix as a block has them, a row each, for those who ask again and again."""
        n, p = self.table.matrix.shape
        if self.is_sparse or self.is_stored or n * p > _SMALL_VALUES:
            return None
        return np.ascontiguousarray(self.matrix.gather(np.arange(p), self.center, self.scale).T)

    @cached_property
    def all_products(self) -> Floats:
        """Weighted products of all columns, over n, found once for all outcomes: for tables of few columns."""
        X = self.stack(np.flatnonzero(self.width).tolist())
        X = X if self.unit_weights else np.sqrt(self.weights)[:, None] * X
        return np.ascontiguousarray(X.T @ X) / self.n

    def labels(self, variable: int) -> list[str]:
        """A name for each design column of a variable."""
        if variable not in self._known_labels:
            self._known_labels[variable] = [label for j in self.table.columns(variable) for label in self._labels(j)]
        return self._known_labels[variable]

    @cached_property
    def _known_labels(self) -> dict[int, list[str]]:
        return {}

    def _labels(self, j: int) -> list[str]:
        factor = self.table.factors.get(j)
        name = str(self.table.column_name(j))
        if factor is not None:
            return [f"{name}[{level}]" for level in factor.levels[1:]]
        position = self.table.position[j]
        return [name if place == position else f"{name}[missing]" for place in self._places(j).tolist()]

    def moments(self, variable: int) -> tuple[Floats, Floats]:
        """Centre and scale of each design column: column = (raw − centre)/scale."""
        if self.varying[variable]:
            place = self.table.position[variable]
            return self.center[place : place + 1], self.scale[place : place + 1]
        parts = [self._moments(j) for j in self.table.columns(variable)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def moments_of(self, variables: Sequence[int]) -> tuple[Floats, Floats]:
        """Those of the columns of several variables, one after another."""
        which = np.asarray(variables, dtype=np.intp)
        if self.varying[which].all():
            places = self.table.position[which]
            return self.center[places], self.scale[places]
        parts = [self.moments(variable) for variable in which.tolist()]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _moments(self, j: int) -> tuple[Floats, Floats]:
        if j in self.table.factors:
            return self._factor_moments(j)
        return self.center[self._places(j)], self.scale[self._places(j)]

    def _places(self, j: int) -> NDArray[np.int64]:
        """Columns of the matrix that belong to a numeric column, without those that are constant."""
        return np.array([place for place in self.table.places(j) if self.scale[place] > 0], dtype=np.int64)

    def _unusable(self, not_finite: Floats) -> NDArray[np.intp]:
        """How many values of each column of the table are missing or infinite, from the counts in the matrix."""
        numeric = self.table.position >= 0
        counts = np.zeros(self.table.n_variables, dtype=np.intp)
        counts[numeric] = not_finite[self.table.position[numeric]].astype(np.intp)
        for j, factor in self.table.factors.items():
            counts[j] = factor.n_missing
        return counts

    def _numeric(self) -> NDArray[np.bool_]:
        numeric = self.table.position >= 0
        numeric[[*self.table.indicators, *self.table.absorbed]] = False
        numeric[[head for head, group in self.table.groups.items() if len(group.columns) > 1]] = False
        return numeric

    def _widths(self) -> NDArray[np.intp]:
        width = np.zeros(self.table.n_variables, dtype=np.intp)
        width[self.numeric] = self.scale[self.table.position[self.numeric]] > 0
        for variable in np.flatnonzero(~self.numeric).tolist():
            if variable not in self.table.absorbed:
                width[variable] = sum(self._width(j) for j in self.table.columns(variable))
        return width

    def _width(self, j: int) -> int:
        factor = self.table.factors.get(j)
        return len(self._places(j)) if factor is None else max(0, len(factor.levels) - 1)

    def _factor_moments(self, j: int) -> tuple[Floats, Floats]:
        """Of the indicators of every level but the first, by counting once."""
        if j not in self._known_moments:
            center = self.table.factors[j].totals(self.weights)[1:] / self.n
            scale = np.sqrt(center * (1.0 - center))
            self._known_moments[j] = center, np.where(scale > 0, scale, 1.0)  # a level that no row has is a zero column
        return self._known_moments[j]

    @cached_property
    def _known_moments(self) -> dict[int, tuple[Floats, Floats]]:
        return {}


def _indicators(codes: Codes, center: Floats, scale: Floats) -> Floats:
    """A column for every level but the first, (indicator − centre)/scale, and nothing else of that size."""
    out = np.empty((len(codes), len(center)))
    _write_indicators(codes, center, scale, out)
    return out


def _write_indicators(codes: Codes, center: Floats, scale: Floats, out: Floats) -> None:
    out[:] = -center / scale
    rows = np.flatnonzero(codes > 0)
    level = codes[rows] - 1
    out[rows, level] = ((1.0 - center) / scale)[level]


def _side_by_side(parts: Sequence[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def _kernel_columns(matrix: Matrix, n_threads: int, often: bool) -> Any:
    if isinstance(matrix, Beside):
        plain = _kernel_columns(matrix.plain, n_threads, often)
        stored = device_columns(matrix.stored) if isinstance(matrix.stored, OnDevice) else matrix.stored.kernel()
        return BesideColumns(stored, matrix.n_stored, plain, matrix.shape[0])
    if isinstance(matrix, ColumnsApart):
        return DenseColumns([plain_numbers(column) for column in matrix.columns], matrix.shape[0])
    if not sparse.issparse(matrix):
        return DenseColumns(_along_columns(plain_numbers(matrix), n_threads, often))
    wide = max(int(matrix.indptr[-1]), matrix.shape[0]) > np.iinfo(np.int32).max
    index = np.int64 if wide else np.int32
    return SparseColumns(
        matrix.indptr.astype(index, copy=False),
        matrix.indices.astype(index, copy=False),
        plain_numbers(matrix.data),
        matrix.shape[0],
    )


def _along_columns(matrix: NDArray[Any], n_threads: int, often: bool) -> NDArray[Any]:
    """A matrix with each column in one piece, as a copy where there is room for it."""
    if matrix.strides[0] == matrix.dtype.itemsize or not matrix.size:
        return matrix
    if matrix.nbytes > _ALWAYS_COPIED and not (often and matrix.nbytes <= available_memory() // _SHARE_OF_MEMORY):
        return matrix
    copy = np.empty(matrix.shape[::-1], dtype=matrix.dtype)
    bare = f"u{matrix.dtype.itemsize}"  # the kernel moves elements of a size, whatever they mean
    rows, columns, n = matrix.view(bare), copy.view(bare), len(matrix)
    ranges = [(start, min(start + _ROWS_AT_ONCE, n)) for start in range(0, n, _ROWS_AT_ONCE)]
    for _ in spread(lambda some: to_columns(rows, columns, *some), ranges, n_threads):
        pass
    return copy.T


def plain_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """The same values in a type, byte order and place that the kernels read."""
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float64 if array.dtype.itemsize > 8 else np.float32)
    if not array.dtype.isnative or not array.flags.aligned:
        return array.astype(array.dtype.newbyteorder("="))
    return array
