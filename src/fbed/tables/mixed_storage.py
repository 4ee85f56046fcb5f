"""Columns in a storage of their own, packed genotypes say, beside columns of numbers in memory."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import PackedColumns


class Stored(Protocol):
    """Columns that are never held as an array of numbers in memory."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def nbytes(self) -> int:
        """What they take."""

    def kernel(self) -> Any:
        """What reads them."""

    def rows(self, keep: NDArray[np.intp]) -> Stored:
        """The same columns on some rows."""

    def column(self, j: int) -> NDArray[Any]:
        """One of them as numbers in memory."""


class Packed:
    """Genotypes as PLINK packs them: four a byte, a row of bytes a variant."""

    def __init__(self, bytes_: NDArray[np.uint8], n_rows: int) -> None:
        self.bytes, self.n_rows = bytes_, n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, len(self.bytes)

    @property
    def nbytes(self) -> int:
        """What they take."""
        return int(self.bytes.nbytes)

    def kernel(self) -> PackedColumns:
        """What reads them."""
        return PackedColumns(self.bytes, self.n_rows)

    def column(self, j: int) -> NDArray[np.float64]:
        """Copies of the first allele of one variant, the missing at the mean."""
        alone = PackedColumns(self.bytes[j : j + 1], self.n_rows)
        mean = alone.stats(np.ones(self.n_rows), float(self.n_rows), 0, 1)[0, :1]
        values = alone.gather(np.zeros(1, dtype=np.int64), mean, np.ones(1))[:, 0] + mean
        whole = np.rint(values)
        return np.where(np.abs(values - whole) < 1e-9, whole, values)

    def values(self, which: NDArray[np.intp]) -> NDArray[np.float64]:
        """Copies of the first allele of some variants, NaN where they are missing."""
        away = np.full(len(self.bytes), -1.0)  # from which 0, a missing value's distance, is never 0 copies away
        distance = self.kernel().gather(which.astype(np.int64), away, np.ones(len(self.bytes)))
        return np.where(distance == 0.0, np.nan, distance - 1.0)

    def rows(self, keep: NDArray[np.intp]) -> Packed:
        """The same variants on some samples, packed anew."""
        return Packed(self.kernel().rows(keep.astype(np.int64)), len(keep))


class Beside:
    """A matrix whose first columns are stored in their own way and whose others are an array.

    Read like an array: `[:, j]` is a column, `[:, [j, …]]` an array of some, `[rows]` all columns on some rows.
    """

    ndim = 2

    def __init__(self, stored: Stored, plain: Any) -> None:
        self.stored, self.plain = stored, plain

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.stored.shape[0], self.n_stored + self.plain.shape[1]

    @property
    def n_stored(self) -> int:
        """Columns that are stored in their own way."""
        return self.stored.shape[1]

    @property
    def nbytes(self) -> int:
        """What all columns take."""
        return int(self.stored.nbytes + self.plain.nbytes)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return Beside(self.stored.rows(np.asarray(key)), self.plain[key])
        rows, which = key
        places = np.atleast_1d(which)
        found = [self.stored.column(j) if j < self.n_stored else self.plain[:, j - self.n_stored] for j in places]
        return np.column_stack(found)[rows] if np.ndim(which) else found[0][rows]
