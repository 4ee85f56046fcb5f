"""A dense matrix whose columns lie apart, each in its own type: nothing is copied to bring them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class ColumnsApart:
    """Read like an array: `[:, j]` is a column, `[:, [j, …]]` an array of some, `[rows]` all columns on some rows."""

    ndim = 2

    def __init__(self, columns: Sequence[NDArray[Any]]) -> None:
        self.columns = [np.ascontiguousarray(column) for column in columns]  # kernels go along columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.columns[0]), len(self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """A type that holds every column."""
        return np.result_type(*{column.dtype for column in self.columns})

    @property
    def nbytes(self) -> int:
        """What the columns take together."""
        return sum(column.nbytes for column in self.columns)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return ColumnsApart([column[key] for column in self.columns])
        rows, which = key
        if isinstance(which, (int, np.integer)):
            return self.columns[which][rows]
        return joined([self.columns[j][rows] for j in which])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return joined(self.columns).astype(dtype or self.dtype, copy=False)


def joined(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """A column-major copy in the smallest type that holds every column."""
    out = np.empty((len(columns[0]), len(columns)), dtype=np.result_type(*{c.dtype for c in columns}), order="F")
    for j, values in enumerate(columns):
        out[:, j] = values
    return out


def as_matrix(columns: Sequence[NDArray[Any]]) -> NDArray[Any] | ColumnsApart:
    """Columns as a matrix without a copy: the array that they are part of, or columns that lie apart."""
    first = columns[0]
    step = _address(columns[1]) - _address(first) if len(columns) > 1 else first.itemsize
    owner = _owner(first)
    for j, column in enumerate(columns):
        together = _owner(column) is owner and _address(column) == _address(first) + j * step
        if not together or column.dtype != first.dtype or column.strides != first.strides:
            return ColumnsApart(columns)
    shape, strides = (len(first), len(columns)), (first.strides[0], step)
    return np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)


def _owner(array: NDArray[Any]) -> Any:
    """Who keeps the memory of an array."""
    owner: Any = array
    while getattr(owner, "base", None) is not None:
        owner = owner.base
    return owner


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
