"""The verbs of generalised linear models on packed genotypes: a look in whole numbers before one in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fbed.matrix.array_library import NumpyPlace
from fbed.matrix.stored_blocks import PackedBlocks
from fbed.models.base import Indices
from fbed.models.engines.projection import Factor, Projected, first_look, left_by, left_with_room, told
from fbed.models.engines.tall.row_sums import Rows, RowSums
from fbed.rules.p_values import Floats

_MANY = 256  # candidates from which a quick look pays
_MEMORY = NumpyPlace()


class PackedSums(RowSums):
    """As `RowSums`; candidates who may pass after a look in whole numbers are looked at in float64."""

    def __init__(self, blocks: PackedBlocks, y: Floats, weights: Floats, offset: Floats | None, counts: bool) -> None:
        super().__init__(blocks, y, weights, offset, counts)
        self.here = blocks
        self.n_looked = self.n_closer = 0  # candidates looked at quickly, and those for whom that was not enough
        self._flat = offset is None and bool((weights == blocks.design.weights).all())

    @property
    def notes(self) -> tuple[str, ...]:
        """How much the first bounds decided."""
        looks = told(self.n_looked, self.n_closer)
        return (f"genotypes were multiplied in whole numbers: {looks}",) if self.n_looked else ()

    def project(
        self,
        rows: Rows,
        selected: Sequence[int],
        candidates: Indices,
        factor: Factor,
        gradient: Floats,
        reach: Floats,
        look: int,
    ) -> Projected:
        """What S leaves of candidates that are single columns; the first look at them is a quick one."""
        packed = self.design.positions(candidates) < self.design.matrix.n_stored
        self.n_closer += len(candidates) if look else 0
        if look or len(candidates) < _MANY or not packed.all():
            looked = self.look(rows, selected, candidates)
            along = np.column_stack([looked.score, looked.cross.T])
            return left_by(_MEMORY, along, looked.own, factor, gradient, reach)[0]
        self.n_looked += len(candidates)
        if len(selected) == 0 and self._flat:
            found = self.here.quick(candidates, rows.residual[:, None], own=False)
            return first_look(_MEMORY, found, float(rows.weight.sum()))
        Z = self.blocks.model(selected)(slice(0, self.design.n_rows))
        V = np.column_stack([rows.residual, rows.weight[:, None] * Z])
        return left_with_room(_MEMORY, self.here.quick(candidates, V), factor, gradient, reach)
