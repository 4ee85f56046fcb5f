"""Blocks of rows of a design part of whose columns are stored in their own way: their kernel reads them where they are.

A pass goes along the columns, for all of whose rows at once a few vectors are there; threads share the columns.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fbed.clock import check_time
from fbed.matrix.array_library import NumpyPlace
from fbed.matrix.design import Design
from fbed.matrix.device_blocks import DeviceBlocks
from fbed.matrix.device_columns import Quick
from fbed.matrix.digits import BASE, digits_of
from fbed.matrix.row_blocks import Indices, RowBlocks
from fbed.rules.p_values import Floats
from fbed.threads import spread

_VECTOR_VALUES = 2**22  # of vectors that are held at a time: 32 MB
_TILE = 512  # rows that the kernel unpacks at a time
_TOGETHER = 1024  # columns that a thread takes at a time
_QUICKLY = 4096  # the same where they are quick
_DIGITS = 2  # of a vector: what that leaves is a hundredth of a standard error for 100,000 rows
_MEMORY = NumpyPlace()


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


class PackedBlocks(StoredBlocks):
    """Quick products with packed genotypes, in whole numbers."""

    def quick(self, variables: Indices, V: Floats, own: bool = True) -> Quick:
        """XᵀV of variants, Σ v·x² of the second vector if `own`, and what the rounding of the vectors may have done."""
        where = self.design.positions(variables)
        digits, ulp, rounded = digits_of(_MEMORY, V, _DIGITS)
        totals, away = rounded.sum(axis=0), ((V - rounded) ** 2).sum(axis=0)
        flat, squares = np.ascontiguousarray(digits.T), (_DIGITS, 2 * _DIGITS) if own else (0, 0)
        ranges = [slice(i, i + _QUICKLY) for i in range(0, len(where), _QUICKLY)]

        def work(some: slice) -> Floats:
            check_time()
            return np.asarray(self.design.matrix.stored.digit_sums(where[some], flat, *squares))

        found = np.concatenate(list(spread(work, ranges, self.design.n_threads)))
        count = V.shape[1] * _DIGITS
        sums, gone = (_from_digits(part, ulp) for part in (found[:, :count], found[:, -count:]))
        center, scale = self.design.center[where, None], self.design.scale[where, None]
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        known = totals - gone
        along = (sums - center * known) * unit
        norm = self._norms(where)
        wrong = np.sqrt(away) * (1.0 + 1e-9) + 1e-13 * np.sqrt((V * V).sum(axis=0))  # of the arithmetic that follows
        if not own:
            return Quick(along, None, norm, wrong, np.zeros(len(where)))
        twice = _from_digits(found[:, count : count + _DIGITS], ulp[1:2])
        square = sums[:, 1:2] + 2.0 * twice  # x² = x + 2 where x is 2
        second = ((square - center * (2.0 * sums[:, 1:2] - center * known[:, 1:2])) * unit * unit)[:, 0]
        return Quick(along, second, norm, wrong, 0.5 * ulp[1] * norm**2)

    def _norms(self, where: Indices) -> Floats:
        """What bounds the lengths of standardised columns."""
        design, root = self.design, np.sqrt(self.design.n_rows) * (1.0 + 1e-9)
        if design.unit_weights:
            return np.full(len(where), root)
        reach = np.maximum(design.center[where] - design.low[where], design.high[where] - design.center[where])
        scale = design.scale[where]
        return np.asarray(root * reach / np.where(scale > 0, scale, 1.0))


def _from_digits(sums: Floats, ulp: Floats) -> Floats:
    """Sums of vectors from those of their digits."""
    by_vector = sums.reshape(len(sums), -1, _DIGITS)
    return np.asarray((by_vector @ (float(BASE) ** np.arange(_DIGITS - 1, -1, -1))) * ulp)


def blocks_of(design: Design) -> RowBlocks:
    """How the rows of a design are read."""
    if not design.is_stored:
        return RowBlocks(design)
    return DeviceBlocks(design) if design.is_on_device else PackedBlocks(design)
