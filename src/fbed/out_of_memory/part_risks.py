"""The verbs of survival times on some rows in the midst of others, all in order of time: what the rows before have left
is carried on, by the kernels that do so from block to block in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.risk_sums import CARRIED_MOMENTS, Carried, Course, RiskState, RiskSums
from fbed.out_of_memory.part_columns import Piece
from fbed.out_of_memory.scratch import ScratchRows
from fbed.rules.tails import Floats


@dataclass(frozen=True)
class AtRisk:
    """What belongs to some rows in order of time."""

    course: Course
    first: int  # of all rows
    keep: NDArray[np.bool_] | None = None  # all of them: others were never written

    @property
    def n_rows(self) -> int:
        """How many."""
        return len(self.course.event)

    @property
    def weights(self) -> Floats:
        """Frequencies."""
        return self.course.weights


class RiskPiece(Piece):
    """Some rows of a scratch file in order of time."""

    part: ScratchRows
    outcome: AtRisk

    def _engine(self, blocks: RowBlocks) -> RiskSums:
        return RiskSums(blocks, self.outcome.course)

    def _new(self, columns: Sequence[int]) -> dict[int, tuple[NDArray[Any], ...]]:
        return self.part.ready(columns)

    def predictors(self, selected: tuple[int, ...], coefficients: Floats) -> Floats:
        """Zβ of every row."""
        self._put(selected)
        found: Floats = self.sums.predictors(selected, coefficients)
        return found

    def along(self, selected: tuple[int, ...], rows: Floats) -> Sums:
        """Zᵀv of numbers that all rows have."""
        self._put(selected)
        blocks, here = self.sums.blocks, rows[self.outcome.first : self.outcome.first + self.outcome.n_rows]
        model = blocks.model(selected, constant=False)
        found: Sums = blocks.summed(lambda part: (model(part).T @ here[part],), blocks.width(selected))
        return found

    def derivatives(self, rows: RiskState, carried: Carried, selected: tuple[int, ...]) -> Sums:
        """Gradient and information."""
        self._put(selected)
        found: Sums = self.sums.derivatives(rows, selected, carried)
        return found

    def look(self, rows: RiskState, carried: Carried, selected: tuple[int, ...], candidates: Indices) -> Sums:
        """Products of single columns with the rows' residuals, with the model's columns and with themselves."""
        parts, first = [], 0
        for some in self._some(candidates):
            self._put(selected, some)
            here = carried.of(slice(first, first + len(some)))
            parts.append(self.sums.look(rows, selected, some, here))
            first += len(some)
        carried.model = here.model
        return (
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.cross for part in parts], axis=1),
            np.concatenate([part.own for part in parts]),
        )

    def look_at_groups(
        self, rows: RiskState, carried: Sequence[Carried], selected: tuple[int, ...], variables: Indices
    ) -> list[Sums]:
        """The same for variables of several columns, each with its own to carry on."""
        out: list[Sums] = []
        for some in self._some(variables):
            self._put(selected, some)
            for variable in some.tolist():
                found = self.sums.look_at_group(rows, selected, variable, carried[len(out)])
                out.append((found.score, found.cross, found.own))
        return out

    def moments(
        self,
        rows: RiskState,
        carried: Floats,
        selected: tuple[int, ...],
        variables: Indices,
        own: Sequence[Floats],
        along: Floats,
    ) -> Floats:
        """Moments and extremes of the steps of some variables."""
        found, first = [], 0
        for some in self._some(variables):
            these = slice(first, first + len(some))
            here = carried[CARRIED_MOMENTS * these.start : CARRIED_MOMENTS * these.stop]
            self._put(selected, some)
            found.append(self.sums.moments(rows, selected, some, own[these], along[:, these], here))
            first += len(some)
        return np.concatenate(found, axis=1)
