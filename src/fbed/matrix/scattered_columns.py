"""The columns of a model that are mostly 0, multiplied by their entries: no row costs more than it has.

With R a constant and the columns as they are, each divided by its scale, a standardised column is r − shift·1. So
products of standardised columns are differences of products of R, of which a row has a few entries only. Columns that
are mostly 0 have small shifts, so that little cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import RareColumns, SparseColumns, SparseModel
from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import Indices, RowBlocks
from fbed.rules.p_values import Floats

_SMALLEST = 8  # columns of a model; fewer are as quick side by side
_FAR = 4.0  # scales that a centre may be away from 0, whose square is what may cancel
_PAYS = 0.1  # pairs of entries beside those of a matrix without zeros, up to which they are quicker one by one


def scattered(blocks: RowBlocks, variables: Sequence[int]) -> ScatteredColumns | None:
    """The columns of some variables after a constant, where their entries take less time than all rows."""
    design, where = blocks.design, _places(blocks.design, variables)
    if where is None or len(where) < _SMALLEST:
        return None
    most = _PAYS * design.n_rows * (1 + len(where)) ** 2
    if (design.n_rows + design.stored[where].sum()) ** 2 > most * design.n_rows:
        return None
    found = ScatteredColumns(design, where)
    return found if found.columns.pairs <= most else None


def scattered_products(blocks: RowBlocks, some: Sequence[int], others: Sequence[int], weight: Floats) -> Floats | None:
    """Products of the columns of some variables with those of others, where their entries are few; None elsewhere."""
    design = blocks.design
    left, right = _places(design, some), _places(design, others)
    if left is None or right is None:
        return None
    n = design.n_rows
    if design.stored[right].sum() * (1.0 + design.stored[left].sum() / n) > _PAYS * n * len(right) * len(left):
        return None
    return ScatteredColumns(design, left).between(np.asarray(others, dtype=np.intp), weight)[1:]


def _places(design: Design, variables: Sequence[int]) -> NDArray[np.int64] | None:
    """Where columns are in a sparse matrix; None where it is none, or a centre is far from 0."""
    chosen = np.asarray(variables, dtype=np.intp)
    if not isinstance(design.matrix, SparseColumns) or not design.varying[chosen].all():
        return None
    where = design.positions(chosen)
    return None if (np.abs(design.center[where]) > _FAR * design.scale[where]).any() else where


class ScatteredColumns:
    """Standardised columns of a sparse matrix, after a constant."""

    def __init__(self, design: Design, where: NDArray[np.int64]) -> None:
        self.design = design
        self.columns = SparseModel(design.matrix, where, design.scale)
        self.shift = np.concatenate([[0.0], design.center[where] / design.scale[where]])

    def predict(self, coefficients: Floats) -> Floats:
        """Columns times coefficients."""
        raw = np.array(coefficients, dtype=np.float64)
        raw[0] -= float(self.shift @ coefficients)
        return self.columns.moved(raw[:, None])[:, 0]

    def squares(self, metric: Floats, centre: Floats) -> Floats:
        """How far every row is from a centre, squared, by a metric of the columns without the constant; never less."""
        beside = metric @ (self.shift[1:] + centre)
        whole = np.empty((len(beside) + 1, len(beside) + 1))
        whole[1:, 1:], whole[0, 1:], whole[1:, 0] = metric, -beside, -beside
        whole[0, 0] = (self.shift[1:] + centre) @ beside
        return self.columns.squares(whole)

    def along(self, rows: Floats) -> Floats:
        """Products of the columns with one value a row."""
        found = self.columns.products(rows)
        return found - self.shift * found[0]

    def gram(self, weight: Floats) -> Floats:
        """Products of the columns with each other."""
        lower = np.tril(self.columns.gram(weight))
        return self._centred(lower + np.tril(lower, -1).T)

    def _centred(self, raw: Floats) -> Floats:
        left = raw - self.shift[:, None] * raw[0]
        return np.asarray(left - left[:, :1] * self.shift)

    def between(self, candidates: Indices, weight: Floats) -> Floats:
        """Products of the columns with those of variables that are single ones, a column each."""
        design, where = self.design, self.design.positions(candidates)
        raw = self.columns.crossed(design.matrix, where, weight) / design.scale[where]
        raw -= self.columns.products(weight)[:, None] * (design.center[where] / design.scale[where])
        return np.asarray(raw - self.shift[:, None] * raw[0])

    def steps(self, candidates: Indices, own: Floats, along: Floats) -> Floats:
        """How far steps of own on candidates and −along on the columns move the rows, a column each."""
        check_time()
        raw = np.asfortranarray(-along)
        raw[0] += self.shift @ along
        design = self.design
        columns = design.matrix.gather(design.positions(candidates), design.center, design.scale)
        return np.asfortranarray(self.columns.moved(raw) + columns * own)

    def tell(self, columns: RareColumns, idle: Indices | None) -> None:
        """Give rare columns the rows of the model that they move, without columns that are idle."""
        columns.add_sparse(
            self.columns, self.shift, np.empty(0, dtype=np.int64) if idle is None else idle.astype(np.int64)
        )
