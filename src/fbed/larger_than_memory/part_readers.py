"""Parts of a table that lie elsewhere: each reads chosen columns of its rows, wherever it is asked to.

A part is small and travels: to another thread, or to the machine of a cluster that will read it. Files are looked at
before every reading, so that one that has changed or gone since the search began is an error and no wrong answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Any, Protocol

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.tables.table import Name


class Part(Protocol):
    """Some rows of a table."""

    @property
    def n_rows(self) -> int:
        """How many."""

    def columns(self, names: Sequence[Name]) -> list[Any]:
        """Chosen columns, by name, or by index where there are no names: arrays of NumPy or series."""


@dataclass(frozen=True)
class Stamp:
    """A file as it was when it was first seen."""

    path: str
    size: int
    changed: int  # nanoseconds

    @classmethod
    def of(cls, path: str) -> Stamp:
        """The stamp of a file now."""
        try:
            found = os.stat(path)
        except OSError as error:
            raise InvalidInput(f"{path}: {error.strerror or error}; expected a file that can be read") from error
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that is not what it was."""
        try:
            now = Stamp.of(self.path)
        except InvalidInput as error:
            raise InvalidInput(
                f"{self.path} was there when the search began and is gone now, or cannot be seen from here ({error}): "
                "bring it back and search again; the workers of a cluster need files that all of them can read"
            ) from error
        if now != self:
            raise InvalidInput(
                f"{self.path} has changed since the search began (it had {self.size:,} bytes, now {now.size:,}): what "
                "was found no longer holds, search again when nobody writes to it"
            )


_OF_ARROW = (OSError, ValueError, LookupError, TypeError, NotImplementedError)  # kinds of its errors


@contextmanager
def explained(stamp: Stamp | None) -> Iterator[None]:
    """Errors of readers in our words; what is wrong with a file that changed is that it changed."""
    if stamp is not None:
        stamp.check()
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        if not (isinstance(error, _OF_ARROW) or type(error).__module__.startswith("polars.")):
            raise
        if stamp is not None:
            stamp.check()
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise InvalidInput(f"{stamp.path if stamp else 'the table'} cannot be read: {reason}") from error


@dataclass(frozen=True)
class FragmentRows:
    """A row group of a Parquet file, or a whole file of another kind that Arrow reads."""

    fragment: Any  # of pyarrow.dataset
    schema: Any
    n_rows: int
    stamp: Stamp | None

    def columns(self, names: Sequence[Name]) -> list[Any]:
        """Only these are read, some at a time: what Arrow keeps while it reads is several times what it gives."""
        size = max(1, _TOGETHER // (8 * self.n_rows))
        found = []
        for start in range(0, len(names), size):
            some = [str(name) for name in names[start : start + size]]
            with explained(self.stamp):
                table = self._read(some)
            if table.num_rows != self.n_rows:
                where = self.stamp.path if self.stamp else "a file"
                raise InvalidInput(f"{where} has {table.num_rows:,} rows where {self.n_rows:,} were found before")
            found += [nw.from_native(table.column(name), series_only=True) for name in some]
        return found

    def _read(self, names: list[str]) -> Any:
        """From the file itself where it has these columns as they are, which costs a third of a dataset's ways."""
        if self.stamp is not None and hasattr(self.fragment, "row_groups"):
            file = _opened(self.stamp)
            if all(_is_same(file.schema_arrow, self.schema, name) for name in names):
                return file.read_row_groups([group.id for group in self.fragment.row_groups], names, use_threads=False)
        return self.fragment.to_table(columns=names, schema=self.schema)


_TOGETHER = 2**24  # bytes of columns that Arrow reads at a time
_MOST_OPEN = 64  # files that a thread keeps open
_files = local()  # what each thread has opened: readers of files are not to be shared


def _opened(stamp: Stamp) -> Any:
    """A Parquet file, whose description is read once."""
    import pyarrow.parquet

    known = _files.__dict__.setdefault("by_stamp", {})
    if stamp not in known:
        if len(known) >= _MOST_OPEN:
            known.clear()
        known[stamp] = pyarrow.parquet.ParquetFile(stamp.path)
    return known[stamp]


def _is_same(physical: Any, logical: Any, name: str) -> bool:
    """Whether a file has a column exactly as the dataset has it."""
    place = physical.get_field_index(name)
    return place >= 0 and physical.field(place).type == logical.field(name).type


@dataclass(frozen=True)
class LazyRows:
    """A slice of a lazy polars frame."""

    frame: Any
    start: int
    n_rows: int

    def columns(self, names: Sequence[Name]) -> list[Any]:
        """Collected, of these rows alone."""
        with explained(None):
            found = self.frame.select(list(names)).slice(self.start, self.n_rows).collect()
        return [nw.from_native(found[str(name)], series_only=True) for name in names]


@dataclass(frozen=True)
class MappedRows:
    """Rows of a matrix in a file, in either order; read from the file, so that no page of it stays in memory."""

    stamp: Stamp
    dtype: np.dtype[Any]
    shape: tuple[int, int]
    by_columns: bool
    offset: int
    start: int
    n_rows: int

    def columns(self, names: Sequence[Name]) -> list[Any]:
        """Of a matrix by rows all columns are read, since they lie among each other."""
        which = [int(name) for name in names]
        with explained(self.stamp), open(self.stamp.path, "rb", buffering=0) as file:
            if not self.by_columns:
                p = self.shape[1]
                block = self._read(file, self.start * p, self.n_rows * p).reshape(self.n_rows, p)
                return list(np.ascontiguousarray(block[:, which].T))
            return [self._read(file, j * self.shape[0] + self.start, self.n_rows) for j in which]

    def _read(self, file: Any, first: int, count: int) -> NDArray[Any]:
        file.seek(self.offset + first * self.dtype.itemsize)
        found = np.fromfile(file, self.dtype, count)
        if len(found) < count:
            raise InvalidInput(f"{self.stamp.path} ends before its last row: was it cut off?")
        return found


@dataclass(frozen=True)
class ArrayRows:
    """Rows of an array that is at hand."""

    array: NDArray[Any]
    start: int = 0
    count: int | None = None

    @property
    def n_rows(self) -> int:
        """How many."""
        return len(self.array) - self.start if self.count is None else self.count

    def columns(self, names: Sequence[Name]) -> list[Any]:
        """Views of the array."""
        rows = slice(self.start, self.start + self.n_rows)
        return [np.asarray(self.array[rows, int(name)]) for name in names]


@dataclass(frozen=True)
class FrameRows:
    """A pandas frame that is at hand."""

    frame: Any

    @property
    def n_rows(self) -> int:
        """How many."""
        return len(self.frame)

    def columns(self, names: Sequence[Name]) -> list[Any]:
        """As NumPy holds them, or series where it does not."""
        by_name = {str(name): position for position, name in enumerate(self.frame.columns)}
        found = [self.frame.iloc[:, by_name[str(name)]] for name in names]
        return [
            series.to_numpy()
            if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biufO"
            else nw.from_native(series, series_only=True)
            for series in found
        ]


@dataclass(frozen=True)
class DelayedRows:
    """A partition of a Dask collection, computed when it is read."""

    delayed: Any
    n_rows: int

    def columns(self, names: Sequence[Name]) -> list[Any]:
        """Computed here, and forgotten."""
        return held_rows(self.delayed.compute(scheduler="synchronous")).columns(names)


def held_rows(values: Any) -> Part:
    """A part that is at hand: an array or a pandas frame."""
    return FrameRows(values) if hasattr(values, "iloc") else ArrayRows(np.asarray(values))
