"""Blocks of rows of a design part of whose columns are stored in their own way: their kernel reads them where they are.

A pass goes along the columns, for all of whose rows at once a few vectors are there; threads share the columns.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import Indices, RowBlocks
from fbed.rules.tails import Floats
from fbed.threads import spread

_VECTOR_VALUES = 2**22  # of vectors that are held at a time: 32 MB
_TILE = 512  # rows that the kernel unpacks at a time
_TOGETHER = 1024  # columns that a thread takes at a time


class StoredBlocks(RowBlocks):
    """Products by the kernel of packed columns, everything else as in memory."""

    def products(self, variables: Indices, vectors: Callable[[slice], Floats], width: int) -> tuple[Floats, Floats]:
        """XᵀV of variables that are single columns, and Σ v·x² of the second of the vectors that are read."""
        where, edge = self.design.positions(variables), self.design.matrix.n_stored
        inside = where < edge
        along, own = np.zeros((len(where), width)), np.zeros(len(where))
        if not inside.all():
            along[~inside], own[~inside] = super().products(variables[~inside], vectors, width)
        places = where[inside]
        if len(places) == 0:
            return along, own
        kernel, moments = self.design.matrix.stored, (self.design.center[:edge], self.design.scale[:edge])
        size = max(_TILE, _VECTOR_VALUES // width // _TILE * _TILE)
        ranges = [slice(i, i + _TOGETHER) for i in range(0, len(places), _TOGETHER)]
        found = np.zeros((len(places), width + 1))
        for first in range(0, self.design.n_rows, size):
            V = np.asfortranarray(vectors(slice(first, min(first + size, self.design.n_rows))))

            def work(some: slice, first: int = first, V: Floats = V) -> None:
                check_time()
                found[some] += kernel.products(places[some], *moments, first, V)

            for _ in spread(work, ranges, self.design.n_threads):
                pass
        along[inside], own[inside] = found[:, :width], found[:, width]
        return along, own


def blocks_of(design: Design) -> RowBlocks:
    """How the rows of a design are read."""
    return StoredBlocks(design) if design.is_stored else RowBlocks(design)
