"""Levels of categories in which nobody dies, and columns of one sign on rows of which none dies, such as dummies of
rare levels: where the likelihood is largest, the hazard of these rows is 0.

So a model with such a variable is the model of the rows that are left without them: those rows are never at risk, and
the level or column has no coefficient to be found. Nothing else is lost with them, since none of them dies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import DenseColumns, SparseColumns
from fbed.matrix.counted_columns import CountedColumns
from fbed.matrix.row_blocks import RowBlocks
from fbed.matrix.scattered_columns import scattered
from fbed.models.engines.tall.course import Course
from fbed.models.engines.tall.explained_columns import FarOut
from fbed.models.engines.tall.factor import Factor, NotTall
from fbed.models.engines.tall.rows_left import RowsLeft
from fbed.rules.p_values import Floats

_INDEPENDENT = 1e-5  # least pivot of scaled products of columns that are not near to dependent
_KEPT = 8  # models of which it is known who is left: as many vectors of all rows


class Eventless:
    """Who stays at risk beside the variables of a model."""

    def __init__(self, blocks: RowBlocks, course: Course) -> None:
        self.blocks, self.course = blocks, course
        self._rows: dict[int, NDArray[np.intp] | None] = {}
        self._left: dict[tuple[int, ...], RowsLeft] = {}

    def spares(self, variables: Sequence[int]) -> bool:
        """Whether a model of some variables has rows that are never at risk."""
        return any(self._rows_of(variable) is not None for variable in variables)

    def left_by(self, selected: Sequence[int]) -> RowsLeft | None:
        """Who stays at risk beside S, None for everybody; columns that are dependent are not for this engine."""
        key = tuple(selected)
        if not self.spares(key):
            return None
        found = self._left.get(key)
        if found is None:
            found = self._found(key)
            if len(self._left) >= _KEPT:
                self._left.clear()  # threads that share it have what they asked for
            self._left[key] = found
        return found

    def independent(self, selected: Sequence[int]) -> bool:
        """Whether the columns of S are far from dependent on all rows: those who are spared do not tell."""
        few, weights = scattered(self.blocks, selected), self.blocks.design.weights
        products = CountedColumns(self.blocks, selected).gram(weights) if few is None else few.gram(weights)
        try:
            return bool(np.diag(Factor(products).lower).min() ** 2 > _INDEPENDENT)
        except NotTall:
            return False

    def hides(self, selected: Sequence[int], variable: int) -> bool:
        """Whether a column is 0 for all who stay at risk beside S."""
        left, own = self.left_by(selected), self._rows_of(variable)
        is_column = self.blocks.codes(variable) is None
        return is_column and left is not None and own is not None and not (left.weights[own] > 0.0).any()

    def has_levels(self, selected: Sequence[int]) -> bool:
        """Whether categories of S spare rows."""
        return any(self.blocks.codes(v) is not None and self._rows_of(v) is not None for v in selected)

    def far_out(self, selected: Sequence[int], predictor: Floats, far: float) -> dict[int, FarOut]:
        """How columns of S take the rows that they spare so far below 0."""
        found = {}
        for variable in selected:
            if self.blocks.codes(variable) is None and self._rows_of(variable) is not None:
                rows, values = self._support(variable)
                way = -float(np.sign(values[0]))
                short = (far + predictor[rows]) / np.abs(values)
                found[variable] = FarOut(way, way * max(0.0, float(short.max())))
        return found

    def _found(self, selected: tuple[int, ...]) -> RowsLeft:
        if not self.independent(selected):
            raise NotTall
        weights = self.course.weights.copy()
        for variable in selected:
            own = self._rows_of(variable)
            if own is not None:
                weights[own] = 0.0
        return RowsLeft(weights, self._idle(selected, weights))

    def _idle(self, selected: tuple[int, ...], weights: Floats) -> NDArray[np.intp]:
        """Columns that nobody at risk has; of levels another one where the reference is one of them."""
        idle, first = [np.empty(0, dtype=np.intp)], 0
        for variable in selected:
            width = int(self.blocks.design.width[variable])
            codes = self.blocks.codes(variable)
            if codes is not None:
                there = np.bincount(codes, weights, width + 1) > 0.0
                if not there[0]:
                    there[int(there.argmax())] = False  # the reference of those who are left
                idle.append(first + np.flatnonzero(~there[1:]))
            elif self._rows_of(variable) is not None:
                idle.append(np.array([first], dtype=np.intp))
            first += width
        return np.concatenate(idle)

    def _rows_of(self, variable: int) -> NDArray[np.intp] | None:
        """Rows that a variable spares, None where there are none."""
        if variable not in self._rows:
            codes = self.blocks.codes(variable)
            own = self._rows_of_column(variable) if codes is None else self._rows_of_levels(variable, codes)
            self._rows[variable] = own if len(own) else None
        return self._rows[variable]

    def _rows_of_levels(self, variable: int, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows of the levels of a category in which nobody dies."""
        if not self.blocks.design.width[variable] > 0:
            return np.empty(0, dtype=np.intp)
        alive = np.bincount(codes, self.course.event * self.course.weights) == 0.0
        return np.flatnonzero(alive[codes])

    def _rows_of_column(self, variable: int) -> NDArray[np.intp]:
        """Rows where a column that is mostly 0 is not, if it has one sign there and nobody dies."""
        design = self.blocks.design
        nobody = np.empty(0, dtype=np.intp)
        if not design.varying[variable] or not isinstance(design.matrix, DenseColumns | SparseColumns):
            return nobody
        if not design.mostly_zero[design.positions([variable])[0]]:
            return nobody
        rows, values = self._support(variable)
        counts = self.course.weights[rows] > 0.0
        one_sign = bool((values > 0.0).all() or (values < 0.0).all())
        return rows if one_sign and counts.any() and not self.course.event[rows[counts]].any() else nobody

    def _support(self, variable: int) -> tuple[NDArray[np.intp], Floats]:
        """Rows where a column is not 0, and its values there."""
        design = self.blocks.design
        rows, values = design.matrix.support(int(design.positions([variable])[0]))
        return rows.astype(np.intp, copy=False), values
