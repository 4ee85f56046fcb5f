"""The columns of a matrix of two parts, one of them stored in its own way, as kernels read either."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import DenseColumns
from fbed.rules.p_values import Floats

Places = NDArray[np.int64]


class StoredColumns(Protocol):
    """What a storage can tell of its columns; see `PackedColumns`."""

    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, how many are not finite and not 0, a row a column."""

    def gather_rows(
        self, which: Places, center: Floats, scale: Floats, first: int, last: int, constant: bool
    ) -> Floats:
        """Standardised columns of some rows."""


class BesideColumns:
    """Stored columns first, then those of an array."""

    def __init__(self, stored: StoredColumns, n_stored: int, plain: DenseColumns, n_rows: int) -> None:
        self.stored, self.n_stored, self.plain, self.n_rows = stored, n_stored, plain, n_rows

    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, how many are not finite and not 0, a row a column."""
        edge = int(np.clip(self.n_stored, first, last))
        parts = []
        if first < edge:
            parts.append(self.stored.stats(weights, total, first, edge))
        if edge < last:
            parts.append(self.plain.stats(weights, total, edge - self.n_stored, last - self.n_stored))
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, 6)), *parts])

    def gather(self, which: Places, center: Floats, scale: Floats) -> Floats:
        """Columns (x − centre)/scale, column-major."""
        return self.gather_rows(which, center, scale, 0, self.n_rows, False)

    def gather_rows(
        self, which: Places, center: Floats, scale: Floats, first: int, last: int, constant: bool
    ) -> Floats:
        """The same for the rows first..last only, after a column of ones if there is to be a constant."""
        inside = which < self.n_stored
        edge = self.n_stored
        if inside.all():
            return self.stored.gather_rows(which, center[:edge], scale[:edge], first, last, constant)
        lead = 1 if constant else 0
        out = np.empty((last - first, lead + len(which)), order="F")
        out[:, :lead] = 1.0
        places = lead + np.arange(len(which))
        if inside.any():
            out[:, places[inside]] = self.stored.gather_rows(
                which[inside], center[:edge], scale[:edge], first, last, False
            )
        out[:, places[~inside]] = self.plain.gather_rows(
            which[~inside] - edge, center[edge:], scale[edge:], first, last, False
        )
        return out
