"""A part of the rows that answers: it reads the columns that a question needs, keeps those that it has room for, and
sums over its rows as if there were no others. What every family asks is here; see `part_sums` and `part_risks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fbed.larger_than_memory.designs import Columns, PartDesign, Spread
from fbed.larger_than_memory.digest import batches, read
from fbed.larger_than_memory.outline import Outline
from fbed.larger_than_memory.part_readers import Part
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.tall.linear import LinearSums
from fbed.rules.p_values import Floats

FEW_VALUES = 20
"""Different whole numbers up to which they may be codes, and are told."""

_WIDEST = 10_000  # range of such numbers
LOADED = 2**26
"""Bytes of columns that a question loads at a time."""


class Observed(Protocol):
    """What belongs to the rows of a part: how many they are, which rows of the part, and frequencies if they differ."""

    @property
    def n_rows(self) -> int:
        """How many."""

    @property
    def keep(self) -> NDArray[np.bool_] | None:
        """Rows of the part that these are, None for all."""

    @property
    def weights(self) -> Floats | None:
        """Frequencies, None where all are 1."""


class Piece:
    """Some rows, with the columns of the model and, where there is room, of candidates kept from question to question.

    `room` is the number of bytes that it may keep.
    """

    def __init__(self, part: Part, outline: Outline, outcome: Any, room: int, loaded: int = LOADED) -> None:
        self.part, self.outline, self.outcome, self.room, self.loaded = part, outline, outcome, room, loaded
        self._forget()

    def _forget(self) -> None:
        self._kept: dict[int, tuple[NDArray[Any], ...]] = {}  # by column, the ones used last at the end
        self._sums: Any = None
        self._bytes = 0

    def __getstate__(self) -> tuple[Any, ...]:
        return self.part, self.outline, self.outcome, self.room, self.loaded

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.part, self.outline, self.outcome, self.room, self.loaded = state
        self._forget()

    def answer(self, verb: str, arguments: Sequence[Any]) -> tuple[Any, int]:
        """What a verb finds in these rows, and how many bytes were read for it."""
        self._bytes = 0
        found = getattr(self, verb)(*arguments)
        self.design.put({})  # a piece that waits for its next question keeps what it has room for, and nothing else
        return found, self._bytes

    # --- columns ----------------------------------------------------------------------------------------------------

    @property
    def sums(self) -> Any:
        """The verbs of an engine in memory, on these rows."""
        if self._sums is None:
            outcome: Observed = self.outcome
            self.weights = np.ones(outcome.n_rows) if outcome.weights is None else outcome.weights
            self.design = PartDesign(self.outline, self.weights)
            self._sums = self._engine(RowBlocks(self.design, kept_bytes=0))  # what is kept is kept here
        return self._sums

    def _engine(self, blocks: RowBlocks) -> Any:
        """The verbs of the family."""
        raise NotImplementedError

    def _put(self, model: Iterable[int], others: Iterable[int] = ()) -> None:
        """Have the columns of the model and of other variables; what there is room for is kept, the model's first."""
        _ = self.sums
        first, rest = self.outline.columns_of(model), self.outline.columns_of(others)
        wanted = list(dict.fromkeys([*first, *rest]))
        self.design.put({})  # the columns before make room
        found = self._read(wanted)
        self.design.put(found)
        self._keep({j: found[j] for j in wanted}, first)

    def _read(self, wanted: Sequence[int]) -> Columns:
        unknown = [j for j in wanted if j not in self._kept]
        new: Columns = {}
        if unknown:
            new = self._new(unknown)
            self._bytes += _size(new.values())
        return {j: self._kept.get(j) or new[j] for j in wanted}

    def _new(self, columns: Sequence[int]) -> dict[int, tuple[NDArray[Any], ...]]:
        return columns_of(self.part, self.outline, columns, self.outcome.keep)

    def _keep(self, found: dict[int, tuple[NDArray[Any], ...]], first: Sequence[int]) -> None:
        """Keep what fits: all of it, or the columns of the model; what was used longest ago makes room."""
        if _size(found.values()) > self.room:
            found = {j: found[j] for j in first}
        if _size(found.values()) > self.room:
            return
        for j in found:
            self._kept.pop(j, None)
        older, room = list(self._kept.items()), self.room - _size(found.values())
        self._kept = {}
        for j, column in reversed(older):
            room -= _size([column])
            if room < 0:
                break
            self._kept[j] = column
        self._kept = {**dict(reversed(self._kept.items())), **found}

    def _together(self) -> int:
        """Columns that are loaded at a time."""
        return max(1, self.loaded // (8 * max(1, self.part.n_rows)))

    # --- verbs that every family has ----------------------------------------------------------------------------------

    def remainder(self, selected: tuple[int, ...], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        found: Sums = self._asked(selected, [variable], lambda: self.sums.remainder(selected, variable, gamma))
        return found

    def between(self, some: Sequence[int], others: Sequence[int]) -> Sums:
        """Products of the columns of some variables with those of others."""
        rows = []
        for left in self._some(np.array(some, dtype=np.intp), 2):
            row = [
                self._asked(left, right, lambda left=left, right=right: self._products(left, right))  # type: ignore[misc]
                for right in self._some(np.array(others, dtype=np.intp), 2)
            ]
            rows.append(np.concatenate(row, axis=1))
        return (np.concatenate(rows),)

    def _products(self, left: Indices, right: Indices) -> Floats:
        """Over the frequencies of the rows."""
        _ = self.sums
        one = left.tolist()
        linear = LinearSums(RowBlocks(self.design, kept_bytes=0), self.weights)
        return linear.between(one, one if np.array_equal(left, right) else right.tolist())

    # --- values -------------------------------------------------------------------------------------------------------

    def fetch(self, variables: Sequence[int]) -> list[tuple[NDArray[Any], ...]]:
        """Columns as they are read."""
        _ = self.sums
        wanted = list(dict.fromkeys(self.outline.columns_of(variables)))
        found = self._read(wanted)
        return [found[j] for j in wanted]

    def spread(self, variables: Sequence[int], low: Floats, high: Floats) -> list[Spread]:
        """How the values of columns of numbers are spread between their extremes."""
        found = []
        for variable, least, most in zip(variables, low.tolist(), high.tolist(), strict=True):
            self._put([], [variable])
            x = self.design.table.matrix[:, 0].astype(np.float64)
            found.append((self._weights_near(x, least, most), few_whole(x, least, most)))
        return found

    def _weights_near(self, x: Floats, low: float, high: float) -> Floats:
        near = 1e-9 * max(abs(low), abs(high))
        there = [(x >= at - near) & (x <= at + near) if low <= at <= high else x != x for at in (low, high, 0.0)]
        return np.array([float(self.weights[rows].sum()) for rows in there])

    def _some(self, variables: Indices, share: int = 1) -> list[Indices]:
        """Variables some at a time, as many as may be loaded together."""
        size = max(1, self._together() // share)
        return [np.array(some, dtype=np.intp) for some in batches(variables.tolist(), size)]

    def _asked(self, model: Iterable[int], others: Iterable[int], ask: Callable[[], Any]) -> Any:
        self._put(model, others)
        return ask()


def columns_of(
    part: Part, outline: Outline, columns: Sequence[int], keep: NDArray[np.bool_] | None
) -> dict[int, tuple[NDArray[Any], ...]]:
    """Columns of the table as numbers, with where they are missing if that is told, or as codes."""
    readings = [outline.readings[j] for j in columns]
    out: dict[int, tuple[NDArray[Any], ...]] = {}
    raw = read(part, [reading.wanted for reading in readings], keep)
    for j, reading, column in zip(columns, readings, raw, strict=True):
        shown = (reading.is_missing(column).astype(np.int8),) if j in outline.table.indicators else ()
        out[j] = (reading(column), *shown)
    return out


def few_whole(x: Floats, low: float, high: float) -> tuple[float, ...] | None:
    """The different values of whole numbers, when there are few; None when there are many, or others."""
    if high - low > _WIDEST or (np.abs(x - np.round(x)) > 1e-6).any():
        return None
    present = np.unique(np.round(x))
    return tuple(present.tolist()) if len(present) <= FEW_VALUES else None


def joined_spread(one: list[Spread], other: list[Spread]) -> list[Spread]:
    """Of two parts of the rows together."""
    return [(a[0] + b[0], _joined_values(a[1], b[1])) for a, b in zip(one, other, strict=True)]


def _joined_values(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> tuple[float, ...] | None:
    if one is None or other is None:
        return None
    both = tuple(sorted({*one, *other}))
    return both if len(both) <= FEW_VALUES else None


def _size(columns: Iterable[tuple[NDArray[Any], ...]]) -> int:
    return sum(array.nbytes for column in columns for array in column)
