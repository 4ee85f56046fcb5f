"""Who asks the parts: this process, one part after another in a few threads, or the workers of a Dask cluster.

What the parts find is joined in a tree that their order alone decides, so that neither threads nor workers change a
bit of the answer.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Protocol, TypeVar

import numpy as np

from fbed.clock import check_time
from fbed.larger_than_memory.outline import Outline
from fbed.larger_than_memory.part_columns import Piece, joined_spread
from fbed.larger_than_memory.part_readers import Part
from fbed.larger_than_memory.part_sums import Outcome, SumsPiece
from fbed.models.engines.tall.row_sums import joined_moments
from fbed.threads import spread

BRANCHES = 8
"""Neighbours that are joined at once."""

Answer = TypeVar("Answer")
Join = Callable[[Answer, Answer], Answer]


@dataclass
class Tally:
    """Passes over the rows, and bytes of columns that were read for them."""

    passes: int = 0
    bytes_read: int = 0


class Crew(Protocol):
    """Keeps the parts and asks them."""

    tally: Tally

    def each(self, work: Callable[..., Answer], shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> list[Answer]:
        """What a function finds in every part, given arguments that all share and some of its own."""

    def joined(
        self, work: Callable[..., Answer], shared: Sequence[Any], own: Sequence[Sequence[Any]], join: Join[Answer]
    ) -> Answer:
        """The same, joined in the order of the parts."""

    def settle(self, outline: Outline, outcomes: Sequence[Outcome]) -> None:
        """From now on the parts know what their columns mean and what the outcome of their rows is."""

    def ask(self, verb: str, *arguments: Any) -> Any:
        """What a verb of `Piece` finds, joined over all rows."""

    def gather(self, verb: str, *arguments: Any) -> list[Any]:
        """What it finds in every part."""


def added(one: Any, other: Any) -> Any:
    """Sums of two parts."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def added_each(one: list[Any], other: list[Any]) -> list[Any]:
    """Sums of two parts, of several variables."""
    return [added(a, b) for a, b in zip(one, other, strict=True)]


JOINS: dict[str, Join[Any]] = {"moments": joined_moments, "spread": joined_spread, "look_at_groups": added_each}
"""How the answers to a verb are joined, where they are not sums."""


def tree(answers: Iterable[Answer], join: Join[Answer]) -> Answer:
    """Neighbours joined, then what they have become, until one is left."""
    level = _neighbours(answers, join)
    while len(level) > 1:
        level = _neighbours(level, join)
    return level[0]


def _neighbours(answers: Iterable[Answer], join: Join[Answer]) -> list[Answer]:
    out: list[Answer] = []
    some: list[Answer] = []
    for answer in answers:
        some.append(answer)
        if len(some) == BRANCHES:
            out.append(reduce(join, some))
            some = []
    return [*out, reduce(join, some)] if some else out


def _give_back() -> None:
    """Have Arrow return to the system what it keeps for later."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


def _give_all_back() -> None:
    """The C library as well, which keeps as much as the first passes took: nobody else could have it."""
    _give_back()
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def _c_library() -> ctypes.CDLL | None:
    """Where there is one under this name, as on Linux; other systems do without."""
    try:
        return ctypes.CDLL("libc.so.6")
    except OSError:
        return None


class Here:
    """This process. `room` is the number of bytes for columns that are kept, `loaded` that for a thread's question."""

    def __init__(self, parts: Sequence[Part], n_threads: int, room: int, loaded: int) -> None:
        self.parts, self.n_threads, self.room = list(parts), n_threads, room
        self.loaded = max(1, loaded)
        self.tally = Tally()
        self.pieces: list[Piece] = []

    def each(self, work: Callable[..., Answer], shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> list[Answer]:
        """Part by part."""
        return list(self._each(work, shared, own))

    def joined(
        self, work: Callable[..., Answer], shared: Sequence[Any], own: Sequence[Sequence[Any]], join: Join[Answer]
    ) -> Answer:
        """Joined as they come."""
        return tree(self._each(work, shared, own), join)

    def _each(
        self, work: Callable[..., Answer], shared: Sequence[Any], own: Sequence[Sequence[Any]]
    ) -> Iterable[Answer]:
        self.tally.passes += 1
        todo = list(zip(self.parts, own, strict=True))
        yield from spread(lambda item: work(item[0], *shared, *item[1]), todo, self.n_threads)
        _give_all_back()

    def settle(self, outline: Outline, outcomes: Sequence[Outcome]) -> None:
        """Parts without rows have nothing to say."""
        total = max(1, sum(outcome.n_rows for outcome in outcomes))
        self.pieces = [
            SumsPiece(part, outline, outcome, self.room * outcome.n_rows // total, self.loaded)
            for part, outcome in zip(self.parts, outcomes, strict=True)
            if outcome.n_rows
        ]

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Joined as they come."""
        return tree(self._answers(verb, arguments), JOINS.get(verb, added))

    def gather(self, verb: str, *arguments: Any) -> list[Any]:
        """Part by part."""
        return list(self._answers(verb, arguments))

    def _answers(self, verb: str, arguments: Sequence[Any]) -> Iterable[Any]:
        self.tally.passes += 1

        def one(piece: Piece) -> tuple[Any, int]:
            check_time()
            return piece.answer(verb, arguments)

        for found, n_bytes in spread(one, self.pieces, self.n_threads):
            self.tally.bytes_read += n_bytes
            yield found
        _give_back()


def together(rows: int, loaded: int) -> int:
    """Columns of a part that are looked at at a time."""
    return int(np.clip(loaded // (8 * max(1, rows)), 1, 4096))
