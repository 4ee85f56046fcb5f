"""Values of any storage → codes and what they stand for, at the speed of whoever stores them.

What is asked about a column of categories (is it text, are these dates, how many levels?) is asked about its different
values, which are few; every row is looked at once, and not by Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from fbed._kernels import number_objects

Codes = NDArray[np.signedinteger[Any]]

TOGETHER = 16
"""Columns of objects that are best encoded at once: in a table that is stored by rows, they are neighbours."""

_FEW = 64  # values of a polars column that are taken out one by one faster than together
_PLAIN = frozenset({str, int, bool})  # types whose values are never missing


@dataclass(frozen=True)
class Encoded:
    """A column: `codes[i]` is the position of row i's value in `values`, −1 where it is missing.

    `values` are in the order of the categories where the column is `declared` to hold such, else in that of the rows.
    Values that are equal but not the same, such as 1 and True, have codes of their own.
    """

    codes: Codes
    values: list[Any]
    declared: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """How many rows have each value."""
        return totals(self.codes, len(self.values)).astype(np.intp)

    def rows(self, keep: NDArray[Any]) -> Encoded:
        """The column on some of the rows."""
        return Encoded(self.codes[keep], self.values, self.declared).occurring()

    def occurring(self) -> Encoded:
        """The column without the values that no row has."""
        if self.counts.all():
            return self
        kept = np.flatnonzero(self.counts)
        return Encoded(renumbered(self.codes, kept, len(self.values)), [self.values[i] for i in kept], self.declared)


def totals(codes: Codes, n_levels: int, weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
    """How many rows have each level, or the sum of their weights; missing values count nowhere."""
    present = codes >= 0
    if present.all():
        return np.bincount(codes, weights, n_levels)
    return np.bincount(codes[present], None if weights is None else weights[present], n_levels)


def renumbered(codes: Codes, kept: NDArray[np.intp], n_values: int) -> Codes:
    """Codes of the values that are kept, in the order in which they are; −1 for all others."""
    new = np.full(n_values + 1, -1, dtype=code_type(len(kept)))  # the last one is for code −1
    new[kept] = np.arange(len(kept))
    return new[codes]


def code_type(n_levels: int) -> type[np.signedinteger[Any]]:
    """The smallest type that holds the codes of so many levels, −1, and one level more."""
    return next(kind for kind in (np.int8, np.int16, np.int32, np.int64) if n_levels <= np.iinfo(kind).max)


def is_missing(value: Any) -> bool:
    """None, NaN, pandas' NA or a missing time."""
    if type(value) in _PLAIN:
        return False
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return np.ndim(value) == 0 and bool(value != value)


def encode_objects(columns: Sequence[NDArray[Any]]) -> list[Encoded]:
    """Columns of Python objects or of NumPy's text."""
    objects = [values if values.dtype.kind == "O" else values.astype(object) for values in columns]
    return [encode_coded(codes, values) for codes, values in number_objects(objects)]


def encode_series(series: nw.Series[Any]) -> Encoded:
    """A column of text, categories or objects of a data frame."""
    native, kind, keeper = series.to_native(), series.dtype, series.implementation
    if keeper.is_pyarrow():
        return _from_arrow(native, declared=kind == nw.Categorical)
    if keeper.is_polars() and kind != nw.Object:
        return _from_polars(native, kind, keeper.to_native_namespace())
    if keeper.is_pandas():
        return _from_pandas(native, kind)
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return encode_objects([values])[0]


def encode_coded(codes: Codes, values: list[Any], declared: bool = False) -> Encoded:
    """Codes that are known already; some of the values that they stand for may be missing ones."""
    missing = [is_missing(value) for value in values]
    if not any(missing):
        return Encoded(codes, values, declared)
    kept = np.flatnonzero(~np.array(missing))
    return Encoded(renumbered(codes, kept, len(values)), [values[i] for i in kept], declared)


def _from_pandas(native: Any, kind: Any) -> Encoded:
    if hasattr(native.array, "codes"):
        return encode_coded(native.array.codes, native.array.categories.tolist(), declared=True)
    if hasattr(native.dtype, "pyarrow_dtype") or getattr(native.dtype, "storage", "") == "pyarrow":
        import pyarrow as pa  # pandas has it, since the column is stored by it

        return _from_arrow(pa.array(native), declared=kind == nw.Categorical)
    return encode_objects([np.asarray(native.array, dtype=object)])[0]


def _from_arrow(native: Any, declared: bool) -> Encoded:
    """An array or a chunked array of Arrow, whose chunks may have dictionaries of their own."""
    coded = native if hasattr(native.type, "index_type") else native.dictionary_encode()
    if hasattr(coded, "unify_dictionaries"):
        coded = coded.unify_dictionaries()
        coded = coded.chunk(0) if coded.num_chunks == 1 else coded.combine_chunks()
    indices = coded.indices
    if indices.null_count:
        indices = indices.cast("int64").fill_null(-1)
    codes = indices.to_numpy(zero_copy_only=False)
    signed = codes if codes.dtype.kind == "i" else codes.astype(np.int64)
    return encode_coded(signed, coded.dictionary.to_pylist(), declared)


def _from_polars(native: Any, kind: Any, polars: Any) -> Encoded:
    if isinstance(kind, nw.Enum):
        return Encoded(_physical(native), native.dtype.categories.to_list(), declared=True)
    text = kind != nw.Categorical
    coded = native.cast(polars.Categorical) if text else native
    codes, first = _first_rows(_physical(coded))
    values = [native[row] for row in first.tolist()] if len(first) <= _FEW else native[first].to_list()
    if text:
        return Encoded(codes, values)
    order = sorted(range(len(values)), key=values.__getitem__)  # of categories without an order of their own
    return Encoded(renumbered(codes, np.array(order, dtype=np.intp), len(values)), sorted(values), declared=True)


def _physical(native: Any) -> Codes:
    """The codes by which polars keeps categories, −1 where they are missing."""
    physical = native.to_physical()
    if physical.null_count():
        physical = nw.from_native(physical, series_only=True).cast(nw.Int64).fill_null(-1)
    codes: Codes = physical.to_numpy().astype(np.int64)
    return codes


def _first_rows(codes: Codes) -> tuple[Codes, NDArray[np.intp]]:
    """Any codes numbered from 0 without gaps, and the first row of each; −1 stays."""
    n, most = len(codes), int(codes.max(initial=-1))
    if most > 8 * n + 1024:  # polars may share its codes among tables
        different, codes = np.unique(codes, return_inverse=True)
        codes = codes - int(different[0] < 0)
        most = int(codes.max(initial=-1))
    first = np.full(most + 2, -1, dtype=np.intp)  # the last one is for code −1
    first[codes[::-1]] = np.arange(n - 1, -1, -1)  # of several rows the last one written stays
    kept = np.flatnonzero(first[:-1] >= 0)
    return renumbered(codes, kept, most + 1), first[kept]
