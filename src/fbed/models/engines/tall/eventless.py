"""Levels of categories in which nobody dies: where the likelihood is largest, their hazard is 0.

So a model with such a category is the model of the rows that are left without them: those rows are never at risk, and
the level has no coefficient to be found. Nothing else is lost with them, since none of them dies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.counted_columns import CountedColumns
from fbed.matrix.row_blocks import RowBlocks
from fbed.models.engines.tall.course import Course
from fbed.models.engines.tall.factor import Factor, NotTall
from fbed.models.engines.tall.rows_left import RowsLeft
from fbed.rules.p_values import Floats

_INDEPENDENT = 1e-5  # least pivot of scaled products of columns that are not near to dependent
_KEPT = 8  # models of which it is known who is left: as many vectors of all rows


class EventlessLevels:
    """Who stays at risk beside the categories of a model."""

    def __init__(self, blocks: RowBlocks, course: Course) -> None:
        self.blocks, self.course = blocks, course
        self._rows: dict[int, NDArray[np.bool_] | None] = {}
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
        products = CountedColumns(self.blocks, selected).gram(self.blocks.design.weights)
        try:
            return bool(np.diag(Factor(products).lower).min() ** 2 > _INDEPENDENT)
        except NotTall:
            return False

    def _found(self, selected: tuple[int, ...]) -> RowsLeft:
        if not self.independent(selected):
            raise NotTall
        gone = np.zeros(len(self.course.weights), dtype=bool)
        for variable in selected:
            own = self._rows_of(variable)
            if own is not None:
                gone |= own
        weights = np.where(gone, 0.0, self.course.weights)
        return RowsLeft(weights, self._idle(selected, weights))

    def _idle(self, selected: tuple[int, ...], weights: Floats) -> NDArray[np.intp]:
        """Columns of levels that nobody at risk has; another one where the reference is such a level."""
        idle, first = [np.empty(0, dtype=np.intp)], 0
        for variable in selected:
            width = int(self.blocks.design.width[variable])
            codes = self.blocks.codes(variable)
            if codes is not None:
                there = np.bincount(codes, weights, width + 1) > 0.0
                if not there[0]:
                    there[int(there.argmax())] = False  # the reference of those who are left
                idle.append(first + np.flatnonzero(~there[1:]))
            first += width
        return np.concatenate(idle)

    def _rows_of(self, variable: int) -> NDArray[np.bool_] | None:
        """Rows of the levels of a category in which nobody dies, None where somebody dies in all."""
        if variable not in self._rows:
            codes, own = self.blocks.codes(variable), None
            if codes is not None and self.blocks.design.width[variable] > 0:
                alive = np.bincount(codes, self.course.event * self.course.weights) == 0.0
                own = alive[codes]
            self._rows[variable] = own if own is not None and own.any() else None
        return self._rows[variable]
