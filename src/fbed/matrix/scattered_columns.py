"""The columns of a model that are mostly 0, multiplied by their entries: no row costs more than it has.

With R a constant and the columns as they are, each divided by its scale, a standardised column is r − shift·1. So
products of standardised columns are differences of products of R, of which a row has a few entries only. Columns that
are mostly 0 have small shifts, so that little cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fbed._kernels import RareColumns, SparseColumns, SparseModel
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import Indices, RowBlocks
from fbed.rules.p_values import Floats

_SMALLEST = 8  # columns of a model; fewer are as quick side by side
_FAR = 4.0  # scales that a centre may be away from 0, whose square is what may cancel
_PAYS = 0.1  # pairs of entries beside those of a matrix without zeros, up to which they are quicker one by one


def scattered(blocks: RowBlocks, variables: Sequence[int]) -> ScatteredColumns | None:
    """The columns of some variables after a constant, where looking at their entries takes less time than at all rows."""
    design = blocks.design
    chosen = np.asarray(variables, dtype=np.intp)
    if len(chosen) < _SMALLEST or not isinstance(design.matrix, SparseColumns) or not design.varying[chosen].all():
        return None
    where = design.positions(chosen)
    most = _PAYS * design.n_rows * (1 + len(chosen)) ** 2
    far = bool((np.abs(design.center[where]) > _FAR * design.scale[where]).any())
    if far or (design.n_rows + design.stored[where].sum()) ** 2 > most * design.n_rows:
        return None
    found = ScatteredColumns(design, where)
    return found if found.columns.pairs <= most else None


class ScatteredColumns:
    """Standardised columns of a sparse matrix, after a constant."""

    def __init__(self, design: Design, where: np.ndarray) -> None:
        self.design = design
        self.columns = SparseModel(design.matrix, where, design.scale)
        self.shift = np.concatenate([[0.0], design.center[where] / design.scale[where]])

    def predict(self, coefficients: Floats) -> Floats:
        """Columns times coefficients."""
        raw = np.array(coefficients, dtype=np.float64)
        raw[0] -= float(self.shift @ coefficients)
        return self.columns.moved(raw[:, None])[:, 0]

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

    def tell(self, columns: RareColumns, idle: Indices | None) -> None:
        """Give rare columns the rows of the model that they move, without columns that are idle."""
        columns.add_sparse(self.columns, self.shift, np.empty(0, dtype=np.int64) if idle is None else idle.astype(np.int64))
