"""The verbs of survival times on some rows in the midst of others, all in order of time: sums over the rows before are
carried on, by the kernels that do so from block to block in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import MomentsAtRisk, ProductsAtRisk
from fbed.larger_than_memory.part_columns import Piece
from fbed.larger_than_memory.scratch import ScratchRows
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.tall.course import Course, RiskState
from fbed.models.engines.tall.risk_sums import RiskSums
from fbed.rules.p_values import Floats


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

    def add_model(self, rows: RiskState, sums: ProductsAtRisk, selected: tuple[int, ...]) -> None:
        """The columns of the model with each other."""
        self._put(selected)
        self.sums.add_model(sums, rows, selected)

    def add_candidates(
        self, rows: RiskState, sums: Sequence[ProductsAtRisk], selected: tuple[int, ...], several: Sequence[Indices]
    ) -> None:
        """The columns of the model with those of candidates, some at a time, each with sums of their own."""
        for some, own in zip(several, sums, strict=True):
            self._put(selected, some)
            self.sums.add_candidates(own, rows, selected, some)

    def add_groups(
        self, rows: RiskState, sums: Sequence[ProductsAtRisk], selected: tuple[int, ...], variables: Indices
    ) -> None:
        """The same for variables of several columns."""
        for variable, own in zip(variables.tolist(), sums, strict=True):
            self._put(selected, [variable])
            self.sums.add_group(own, rows, selected, variable)

    def add_steps(
        self,
        rows: RiskState,
        sums: Sequence[MomentsAtRisk],
        selected: tuple[int, ...],
        several: Sequence[Indices],
        own: Sequence[Floats],
        along: Floats,
    ) -> None:
        """Moments of the steps of variables, some at a time."""
        first = 0
        for some, moments in zip(several, sums, strict=True):
            these = slice(first, first + len(some))
            self._put(selected, some)
            self.sums.add_steps(moments, rows, selected, some, own[these], along[:, these])
            first = these.stop
