"""The columns of a table, its rows in another order, in a file of their own that goes when nobody looks at it any more.

Rows cannot be written where they belong one by one: that would be a visit to the disk for each. So the new order is cut
into ranges, a few dozen; what a part of the table has for a range is written in one piece, in the order in which it
comes; and when all parts are there, every range is read, put in order and written back. Each value is written twice and
read twice, in pieces of some thousand, and no more than a part or a column of a range is in memory.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.errors import InvalidInput
from fbed.larger_than_memory.digest import Digest, batches
from fbed.larger_than_memory.outline import Outline
from fbed.larger_than_memory.part_columns import columns_of
from fbed.larger_than_memory.part_readers import Part
from fbed.tables.table import Name

_RANGES = 64  # of the new order at most: a part writes a piece for each

Order = NDArray[np.intp]
Kinds = Mapping[int, tuple[np.dtype[Any], ...]]
"""By column of the table: the type of its numbers, and of where they are missing if it has that; or of its codes."""


class Scratch:
    """A file of columns: range of rows after range of rows, and within a range column after column."""

    def __init__(self, kinds: Kinds, n_rows: int, rows: int) -> None:
        self.kinds, self.n_rows = kinds, n_rows
        count = int(np.clip(-(-n_rows // rows), 1, min(_RANGES, n_rows)))
        self.bounds = np.linspace(0, n_rows, count + 1).astype(np.int64)
        sizes = [kind.itemsize for column in kinds.values() for kind in column]
        first = iter(np.cumsum([0, *sizes]).tolist())
        self._places = {j: tuple(next(first) for _ in column) for j, column in kinds.items()}
        self.row_bytes = sum(sizes)
        self._lock = Lock()
        self._file: Any = _made(self.row_bytes * n_rows)
        weakref.finalize(self, self._file.close)

    def range_of(self, rows: Order) -> Order:
        """The range that each of some rows of the new order is in."""
        return np.searchsorted(self.bounds, rows, side="right") - 1

    def write(self, number: int, j: int, values: Sequence[NDArray[Any]], first: int) -> None:
        """Write rows of a column into a range, from the row with that number there."""
        for at, kind, array in zip(self._places[j], self.kinds[j], values, strict=True):
            data = np.ascontiguousarray(array, dtype=kind)
            with self._lock, _explained():
                self._file.seek(self._place(number, at, kind, first))
                self._file.write(data.data.cast("B"))

    def read(self, number: int, j: int, first: int, count: int) -> tuple[NDArray[Any], ...]:
        """Rows of a column in a range."""
        out = []
        for at, kind in zip(self._places[j], self.kinds[j], strict=True):
            data = np.empty(count, dtype=kind)
            with self._lock, _explained():
                self._file.seek(self._place(number, at, kind, first))
                found = self._file.readinto(data.data.cast("B"))
            if found < data.nbytes:
                raise InvalidInput("the scratch file ends before its last row: is the disk full?")
            out.append(data)
        return tuple(out)

    def _place(self, number: int, at: int, kind: np.dtype[Any], first: int) -> int:
        start, stop = self.bounds[number : number + 2].tolist()
        return int(start * self.row_bytes + (stop - start) * at + first * kind.itemsize)

    def parts(self, rows: int) -> list[ScratchRows]:
        """The rows in their new order, some at a time."""
        found = []
        for number, (start, stop) in enumerate(pairwise(self.bounds.tolist())):
            cuts = np.linspace(0, stop - start, -(-(stop - start) // rows) + 1).astype(int).tolist()
            found += [ScratchRows(self, number, a, b - a) for a, b in pairwise(cuts)]
        return found


@dataclass(frozen=True)
class ScratchRows:
    """Some rows of a scratch file."""

    scratch: Scratch
    number: int  # of the range
    first: int
    n_rows: int

    def columns(self, names: Sequence[Name]) -> list[Any]:
        """Columns of the table, by index, without where they are missing."""
        return [self.scratch.read(self.number, int(j), self.first, self.n_rows)[0] for j in names]

    def ready(self, columns: Sequence[int]) -> dict[int, tuple[NDArray[Any], ...]]:
        """Columns of the table as the models have them."""
        return {j: self.scratch.read(self.number, j, self.first, self.n_rows) for j in columns}


class Asked(Protocol):
    """Who asks the parts; see `crew`."""

    def each(self, work: Any, shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> list[Any]:
        """What a function finds in every part."""


def in_order(
    crew: Asked,
    outline: Outline,
    scratch: Scratch,
    order: Order,
    keeps: Sequence[NDArray[np.bool_] | None],
    lengths: Sequence[int],
    together: int,
) -> int:
    """Write the rows that are kept in this order; how many bytes were read for it."""
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    ranges = np.split(scratch.range_of(rank).astype(np.int16), np.cumsum(lengths)[:-1])
    del rank
    n_ranges = len(scratch.bounds) - 1
    counts = np.array([np.bincount(part, minlength=n_ranges) for part in ranges])
    firsts = np.cumsum(counts, axis=0) - counts
    own = list(zip(keeps, ranges, firsts, strict=True))
    n_bytes = sum(crew.each(spill, (outline, scratch, together), own))
    arrange(scratch, order)
    return int(n_bytes)


def spill(
    part: Part,
    outline: Outline,
    scratch: Scratch,
    together: int,
    keep: NDArray[np.bool_] | None,
    ranges: NDArray[np.int16],
    firsts: Order,
) -> int:
    """Write the rows of a part into their ranges, some columns at a time; how many bytes were read."""
    by_range = np.argsort(ranges, kind="stable")
    ends = np.cumsum(np.bincount(ranges, minlength=len(firsts))).tolist()
    n_bytes = 0
    for some in batches(list(scratch.kinds), together):
        check_time()
        for j, values in columns_of(part, outline, some, keep).items():
            n_bytes += sum(array.nbytes for array in values)
            arrays = [array[by_range] for array in values]
            for number, (start, end) in enumerate(pairwise([0, *ends])):
                if end > start:
                    scratch.write(number, j, [array[start:end] for array in arrays], int(firsts[number]))
    return n_bytes


def arrange(scratch: Scratch, order: Order) -> None:
    """Put the rows of every range in order: they lie there as they came, in the order of the table."""
    for number, (start, stop) in enumerate(pairwise(scratch.bounds.tolist())):
        came = np.argsort(order[start:stop])
        if (came == np.arange(len(came))).all():
            continue
        place = np.empty_like(came)
        place[came] = np.arange(len(came))
        for j in scratch.kinds:
            check_time()
            values = scratch.read(number, j, 0, stop - start)
            scratch.write(number, j, [array[place] for array in values], 0)


def _made(n_bytes: int) -> Any:
    """A file without a name, on a disk that has room for it."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise InvalidInput(
            f"putting the rows in order of time takes {n_bytes:,} bytes in a file of its own, and {folder} has "
            f"{free:,}: let the environment variable TMPDIR name a folder with more room"
        )
    return tempfile.TemporaryFile(prefix="fbed-")


@contextmanager
def _explained() -> Iterator[None]:
    """A disk that is full, in our words."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"the rows could not be written in order of time to {tempfile.gettempdir()} ({error.strerror or error}): "
            "let the environment variable TMPDIR name a folder with more room"
        ) from error


def kinds_of(outline: Outline, found: Digest) -> Kinds:
    """Types in which no value of a column loses anything, as small as its parts have them."""
    types = dict(zip(found.numeric, found.types, strict=True))
    out: dict[int, tuple[np.dtype[Any], ...]] = {}
    for j, reading in outline.readings.items():
        kind = reading.code if reading.n_levels else types.get(j, np.dtype(np.float64))
        if reading.fill is not None and kind.kind != "f":
            kind = np.dtype(np.float64)
        out[j] = (kind, np.dtype(np.int8)) if j in outline.table.indicators else (kind,)
    return out
