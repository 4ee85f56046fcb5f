"""The columns of a design, read block of rows after block of rows, and what is found in the blocks joined in order.

Blocks are used while they are in the cache, and forgotten: no copy of a column is kept, but for models with categories,
which take longer to expand than to read: blocks of the last few are kept while they are small. How the rows are cut
does not depend on the number of threads, and answers are joined in the order of the rows, so that neither changes a
number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import SparseColumns
from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.rules.p_values import Floats
from fbed.threads import spread

_BLOCK_VALUES = 2**17  # float64 values of a block: a megabyte stays in the cache of a core
_LEAST_ROWS, _MOST_ROWS = 256, 8192
_SCATTERED = 0.05  # part of sparse columns that may be other than 0 for their entries to be read one by one
_CHUNKS = 32  # parts of the rows that threads share
_KEPT_MODELS, _KEPT_BYTES = 4, 2**25  # blocks that are kept: of so many models, if one of them takes no more than this
_keeping = Lock()  # searches in several threads may share a problem; of the module, since blocks are copied and sent

Sums = tuple[Floats, ...]
Indices = NDArray[np.intp]
Answer = TypeVar("Answer")


class RowBlocks:
    """Standardised columns of variables, of some rows at a time; blocks of `kept_bytes` at most are kept of a model."""

    def __init__(self, design: Design, kept_bytes: int = _KEPT_BYTES) -> None:
        self.design, self.kept_bytes = design, kept_bytes
        self._moments: dict[int, tuple[Floats, Floats]] = {}
        self._tables: dict[int, Floats] = {}
        self._kept: dict[tuple[tuple[int, ...], bool], dict[tuple[int, int], Floats]] = {}

    def width(self, variables: Sequence[int]) -> int:
        """Number of design columns."""
        return int(self.design.width[list(variables)].sum()) if len(variables) else 0

    def model(self, selected: Sequence[int], constant: bool = True) -> Callable[[slice], Floats]:
        """What reads the columns of S after a constant, of some rows."""
        design = self.design
        if all(design.varying[v] for v in selected):
            where = design.positions(selected)
            return lambda part: self.gather(where, part, constant)
        ones = 1 if constant else 0

        def expand(part: slice) -> Floats:
            out = np.ones((part.stop - part.start, ones + self.width(selected)), order="F")
            self._fill(out.T[ones:], selected, part)
            return out

        if 8 * design.n_rows * (ones + self.width(selected)) > self.kept_bytes:
            return expand
        kept = self._blocks_of(tuple(selected), constant)

        def read(part: slice) -> Floats:
            key = part.start, part.stop
            if key not in kept:
                kept[key] = expand(part)
            return kept[key]

        return read

    def _blocks_of(self, selected: tuple[int, ...], constant: bool) -> dict[tuple[int, int], Floats]:
        """Where blocks of a model are kept; the model that was not asked for the longest makes room for a new one."""
        key = selected, constant
        with _keeping:
            blocks = self._kept[key] = self._kept.pop(key, {})
            while len(self._kept) > _KEPT_MODELS:
                del self._kept[next(iter(self._kept))]
        return blocks

    def _fill(self, out: Floats, selected: Sequence[int], part: slice) -> None:
        """Write the columns of variables into the rows of an array."""
        first = 0
        for variable in selected:
            own = out[first : first + int(self.design.width[variable])]
            codes = self.codes(variable)
            if codes is None:
                own[:] = self.variable(variable, part).T
            else:
                np.take(self.values_of_levels(variable), codes[part], axis=1, out=own, mode="clip")
            first += len(own)

    def values_of_levels(self, variable: int) -> Floats:
        """What every level of a category has in the design columns, a row each."""
        if variable not in self._tables:
            center, scale = self.center_scale(variable)
            is_level = np.eye(len(center) + 1)[1:]
            self._tables[variable] = (is_level - center[:, None]) / scale[:, None]
        return self._tables[variable]

    def variable(self, variable: int, part: slice) -> Floats:
        """All design columns of one variable, of some rows."""
        design = self.design
        if design.varying[variable]:
            return self.gather(design.positions([variable]), part)
        center, scale = self.center_scale(variable)
        out, first = [], 0
        for column in design.table.columns(variable):
            factor = design.table.factors.get(column)
            if factor is None:
                out.append(self.gather(np.array(self._places(column), dtype=np.int64), part))
            else:
                levels = np.arange(1, max(1, len(factor.levels)))
                own = slice(first, first + len(levels))
                out.append(((factor.codes[part, None] == levels) - center[own]) / scale[own])
            first += out[-1].shape[1]
        return np.hstack(out)

    def gather(self, where: NDArray[np.int64], part: slice, constant: bool = False) -> Floats:
        """Columns of the table's matrix, standardised, of some rows, after a constant if there is to be one."""
        design = self.design
        return design.matrix.gather_rows(where, design.center, design.scale, part.start, part.stop, constant)

    def products(self, variables: Indices, vectors: Callable[[slice], Floats], width: int) -> tuple[Floats, Floats]:
        """XᵀV of variables that are single columns, and Σ v·x² of the second of the vectors that are read."""
        return self._products(variables, vectors, width, centred=True)

    def products_beside_a_constant(
        self, variables: Indices, vectors: Callable[[slice], Floats], width: int
    ) -> tuple[Floats, Floats]:
        """The same where it does not matter whether a column is centred; those that are mostly 0 are not."""
        return self._products(variables, vectors, width, centred=False)

    def _products(
        self, variables: Indices, vectors: Callable[[slice], Floats], width: int, centred: bool
    ) -> tuple[Floats, Floats]:
        where = self.design.positions(variables)
        if self._are_scattered(where):
            return self._sparse_products(where, vectors, width, centred)

        def work(part: slice) -> Sums:
            X, V = self.gather(where, part), vectors(part)
            along = X.T @ V
            return along, np.multiply(X, X, out=X).T @ V[:, 1] if width > 1 else np.zeros(len(where))

        along, own = self.summed(work, width + len(where))
        return along, own

    def _are_scattered(self, where: NDArray[np.int64]) -> bool:
        """Whether columns of a sparse matrix have so few entries that these are better read one by one."""
        design = self.design
        if not isinstance(design.matrix, SparseColumns) or not design.mostly_zero[where].all():
            return False
        return bool(design.stored[where].sum() <= _SCATTERED * design.n_rows * len(where))

    def _sparse_products(
        self, where: NDArray[np.int64], vectors: Callable[[slice], Floats], width: int, centred: bool
    ) -> tuple[Floats, Floats]:
        """The same from the entries that are not 0, as they are; then centred and scaled."""
        design = self.design

        def work(part: slice) -> Sums:
            V = np.ascontiguousarray(vectors(part))
            along, own = design.matrix.products(where, part.start, V)
            return along.T, own, V.sum(axis=0)

        along, own, total = self.summed(work, width)
        center, scale = design.center[where] if centred else np.zeros(len(where)), design.scale[where]
        if width > 1:
            own = (own - 2.0 * center * along[:, 1] + center**2 * total[1]) / scale**2
        return (along - center[:, None] * total) / scale[:, None], own

    def codes(self, variable: int) -> Indices | None:
        """Levels of a variable that is one category, the first of them its reference; None for anything else."""
        columns = self.design.table.columns(variable)
        factor = self.design.table.factors.get(columns[0]) if len(columns) == 1 else None
        return None if factor is None else factor.codes

    def center_scale(self, variable: int) -> tuple[Floats, Floats]:
        """Centre and scale of every design column of a variable."""
        if variable not in self._moments:
            self._moments[variable] = self.design.moments(variable)
        return self._moments[variable]

    def reach(self, variables: Sequence[int] | Indices) -> Floats:
        """The largest size of every design column of some variables, as the model sees them."""
        design = self.design
        which = np.asarray(variables, dtype=np.intp)
        if len(which) and design.varying[which].all():
            return self._reach_of_columns[design.table.position[which]]
        return np.concatenate([np.zeros(0), *(self._reach(int(variable)) for variable in variables)])

    @cached_property
    def _reach_of_columns(self) -> Floats:
        """The largest size of every column of the table's matrix that varies."""
        design = self.design
        size = np.maximum(design.center - design.low, design.high - design.center)
        return np.asarray(size / np.where(design.scale > 0, design.scale, np.inf))

    def _reach(self, variable: int) -> Floats:
        design = self.design
        low, high = [np.zeros(0)], [np.zeros(0)]
        for column in design.table.columns(variable):
            factor = design.table.factors.get(column)
            places = self._places(column)
            low.append(np.zeros(max(0, len(factor.levels) - 1)) if factor else design.low[places])
            high.append(np.ones(max(0, len(factor.levels) - 1)) if factor else design.high[places])
        center, scale = self.center_scale(variable)
        return np.asarray(np.maximum(center - np.concatenate(low), np.concatenate(high) - center) / scale)

    def _places(self, column: int) -> list[int]:
        design = self.design
        return [] if column in design.table.factors else [j for j in design.table.places(column) if design.scale[j] > 0]

    def parts(self, columns: int) -> list[slice]:
        """Blocks of rows of which so many columns stay in the cache."""
        n = self.design.n_rows
        size = int(np.clip(_BLOCK_VALUES // max(1, columns), _LEAST_ROWS, _MOST_ROWS))
        return [slice(i, min(i + size, n)) for i in range(0, n, size)]

    def summed(self, work: Callable[[slice], Sums], columns: int) -> Sums:
        """Sums of what is found in all blocks of rows."""
        return self.reduced(work, columns, lambda one, other: tuple(a + b for a, b in zip(one, other, strict=True)))

    def reduced(
        self, work: Callable[[slice], Answer], columns: int, join: Callable[[Answer, Answer], Answer]
    ) -> Answer:
        """Answers for blocks of rows that hold so many columns each, joined in the order of the rows."""
        blocks = self.parts(columns)
        share = -(-len(blocks) // _CHUNKS)
        chunks = [blocks[i : i + share] for i in range(0, len(blocks), share)]

        def one(part: slice) -> Answer:
            check_time()
            return work(part)

        return reduce(join, spread(lambda some: reduce(join, map(one, some)), chunks, self.design.n_threads))
