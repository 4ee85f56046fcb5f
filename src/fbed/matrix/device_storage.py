"""From where columns are to what reads them there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from fbed.errors import InvalidInput
from fbed.matrix.array_library import place_of
from fbed.matrix.device_columns import DeviceColumns, FloatColumns
from fbed.matrix.device_packed import PackedOnDevice
from fbed.tables.mixed_storage import Beside, Packed
from fbed.tables.on_device import OnDevice
from fbed.tables.separate_columns import ColumnsApart
from fbed.tables.table import Table

_WHOLE_BYTES = 4  # bytes of a variant are filled up to a multiple of this: products of whole numbers want even sizes


def device_columns(stored: OnDevice) -> DeviceColumns:
    """What reads columns on a device."""
    place = place_of(stored.device)
    if stored.packed:
        return PackedOnDevice(place, stored.array, stored.n_rows)
    return FloatColumns(place, stored.array)


def moved(table: Table, device: str) -> Table:
    """The table with its numbers on a device; its categories stay in memory."""
    place, matrix = place_of(device), table.matrix
    if sparse.issparse(matrix):
        raise InvalidInput(f"device={device!r} holds dense columns; this matrix is sparse: leave device out")
    if isinstance(matrix, Beside) and isinstance(matrix.stored, OnDevice):
        return table
    if isinstance(matrix, Beside):
        assert isinstance(matrix.stored, Packed)
        bytes_ = np.asarray(matrix.stored.bytes)
        bytes_ = np.pad(bytes_, ((0, 0), (0, -bytes_.shape[1] % _WHOLE_BYTES)))
        stored = OnDevice(place.put(bytes_), device, table.n_rows, packed=True)
        return replace(table, matrix=Beside(stored, matrix.plain))
    stored = OnDevice(place.put(_plain(matrix)), device, table.n_rows)
    return replace(table, matrix=Beside(stored, np.empty((table.n_rows, 0))))


def _plain(matrix: Any) -> Any:
    """Numbers of a type that every library has, a column after the other."""
    values = np.asarray(matrix) if isinstance(matrix, ColumnsApart) else matrix
    kind = values.dtype
    if kind.kind == "b":
        values = values.view(np.uint8)
    elif (kind.kind == "u" and kind.itemsize > 1) or (kind.kind == "f" and kind.itemsize > 8):
        values = values.astype(np.float64)
    return np.ascontiguousarray(values.T).T
