"""Columns that explain all rows where they are not 0, in the limit: those without a count, or of one class.

The likelihood rises for ever as the coefficient of such a column goes to infinity, whatever the others are. So a model
with it is the model of the other columns on the other rows. Beside it a column may come to explain what is left of its
rows, which is looked for until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.row_blocks import RowBlocks
from fbed.models.engines.tall.rows_left import RowsLeft
from fbed.rules.p_values import Floats

_FEW = 64  # rows that speak against a column, beyond which nobody waits for others to explain them
_KEPT = 8  # models of which it is known who is left: as many vectors of all rows


@dataclass(frozen=True)
class _Support:
    """Rows where a column is not 0; and those of them that are not explained as its coefficient falls, or rises."""

    rows: NDArray[np.int64]
    against_falling: NDArray[np.int64]
    against_rising: NDArray[np.int64]

    def is_explained_beside(self, gone: NDArray[np.bool_]) -> bool:
        """Whether the column explains its rows, apart from those that are gone."""
        return bool(gone[self.against_falling].all() or gone[self.against_rising].all())


class ExplainedColumns:
    """Which rows are left beside the columns of a model.

    `falls` and `rises` tell which rows are explained as their linear predictor goes to −∞ and to ∞; nobody looks where
    they are not `told`.
    """

    def __init__(
        self, blocks: RowBlocks, weights: Floats, falls: NDArray[np.bool_], rises: NDArray[np.bool_], told: bool
    ) -> None:
        self.design, self.weights, self.falls, self.rises, self.told = blocks.design, weights, falls, rises, told
        self._supports: dict[int, _Support | None] = {}
        self._left: dict[tuple[int, ...], tuple[RowsLeft | None]] = {}

    def left_by(self, selected: Sequence[int]) -> RowsLeft | None:
        """Rows that are left to explain beside S, None where those are all."""
        key = tuple(selected)
        known = self._left.get(key)
        if known is None:
            known = (self._found(key),)
            if len(self._left) >= _KEPT:
                self._left.clear()  # threads that share it have what they asked for
            self._left[key] = known
        return known[0]

    def hides(self, selected: Sequence[int], variable: int) -> bool:
        """Whether a column is 0 on all rows that are left beside S."""
        left, support = self.left_by(selected), self._support(variable)
        return left is not None and support is not None and not (left.weights[support.rows] > 0.0).any()

    def alone_by(self, selected: Sequence[int]) -> tuple[NDArray[np.bool_], Floats] | None:
        """Which variables of S explain rows, and weights of the rows that one of them explains alone.

        None where some do so only beside others, or have no rows left: then more changes without one of them.
        """
        left, gone = self.left_by(selected), self.weights <= 0.0
        explains, times = np.zeros(len(selected), dtype=bool), np.zeros(len(gone), dtype=np.int32)
        for i, variable in enumerate(selected):
            support = self._support(variable)
            if support is not None and support.is_explained_beside(gone):
                explains[i] = True
                times[support.rows] += 1
            elif left is not None and self.hides(selected, variable):
                return None
        return explains, np.where(times == 1, self.weights, 0.0)

    def _found(self, selected: tuple[int, ...]) -> RowsLeft | None:
        supports = {variable: support for variable in selected if (support := self._support(variable)) is not None}
        gone = self.weights <= 0.0
        waiting = dict(supports)
        while some := [v for v, support in waiting.items() if support.is_explained_beside(gone)]:
            for variable in some:
                gone[waiting.pop(variable).rows] = True
        if len(waiting) == len(supports):
            return None
        idle, first = [], 1  # after the constant
        for variable in selected:
            if variable in supports and gone[supports[variable].rows].all():
                idle.append(first)
            first += int(self.design.width[variable])
        return RowsLeft(np.where(gone, 0.0, self.weights), np.array(idle, dtype=np.intp))

    def _support(self, variable: int) -> _Support | None:
        """Where a column is not 0; None for variables that explain nothing for good."""
        if variable not in self._supports:
            self._supports[variable] = self._read(variable)
        return self._supports[variable]

    def _read(self, variable: int) -> _Support | None:
        design = self.design
        if not design.varying[variable] or not self.told:
            return None
        place = int(design.positions([variable])[0])
        if not design.mostly_zero[place]:
            return None
        rows, values = design.matrix.support(place)
        up = np.where(values > 0.0, self.rises[rows], self.falls[rows])
        down = np.where(values > 0.0, self.falls[rows], self.rises[rows])
        counts = self.weights[rows] > 0.0
        support = _Support(rows, rows[counts & ~down], rows[counts & ~up])
        against = min(len(support.against_falling), len(support.against_rising))
        return support if against <= _FEW else None
