"""The parts on the workers of a Dask cluster: they keep what they have read, and only sums travel.

Everything a worker holds was made there by a task whose arguments the scheduler keeps: a worker that dies takes
nothing along that the others cannot make again. Sums are joined by tasks too, in the tree of `crew`, so that the
answer depends neither on the number of workers nor on who came first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from fbed.clock import check_time
from fbed.errors import InvalidInput
from fbed.larger_than_memory.outline import Outline
from fbed.larger_than_memory.part_readers import ArrayRows, DelayedRows, Part, held_rows
from fbed.larger_than_memory.part_sums import Outcome, SumsPiece
from fbed.larger_than_memory.workers import BRANCHES, JOINS, Answer, Join, Tally, added
from fbed.threads import one_blas_thread

_LOADED = 2**26  # bytes of columns that a task loads at a time: one number, so that it changes no rounding
_SHARE = 0.35  # part of the workers' memory that columns may take which are kept
_UNLIMITED = 2**31  # bytes that a worker without a limit counts for
_LOOK = 0.5  # seconds between two looks at the clock


def connected(client: Any) -> Any:
    """A client of a cluster: one that is given, or a new one of the scheduler at an address."""
    if not isinstance(client, str):
        if not (hasattr(client, "submit") and hasattr(client, "scheduler_info")):
            raise InvalidInput(
                f"client must be a dask.distributed.Client or the address of a scheduler ('tcp://host:8786'), got "
                f"{client!r}"
            )
        return client
    try:
        from distributed import Client
    except ImportError as error:
        raise InvalidInput("a cluster needs Dask: pip install 'fbed[dask]'") from error
    try:
        return Client(client, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise InvalidInput(f"no scheduler answers at {client} ({error}): is it running, and reachable?") from error


def current_client() -> Any:
    """The client that is in use in this process, or None."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


class OnDask:
    """Workers of a cluster, asked through its client."""

    def __init__(self, client: Any, parts: Sequence[Part]) -> None:
        self.client = client
        self.tally = Tally()
        self.parts = [self._placed(part) for part in parts]
        self.pieces: list[Any] = []

    @property
    def room(self) -> int:
        """Bytes that all workers together may keep."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return int(_SHARE * sum(worker.get("memory_limit") or _UNLIMITED for worker in workers))

    def _placed(self, part: Part) -> Any:
        """A part on some worker; the partition of a collection is computed there and kept."""
        if isinstance(part, ArrayRows):
            raise InvalidInput("a view of a mapped file cannot be sent to workers: give the whole numpy.memmap")
        if isinstance(part, DelayedRows):
            return self.client.submit(held_rows, self.client.compute(part.delayed), pure=False)
        return self._made(part)

    def _made(self, value: Any) -> Any:
        """A value on the workers that can be made again, which one that is scattered cannot."""
        return self.client.submit(_same, value, pure=False)

    def each(self, work: Callable[..., Answer], shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> list[Answer]:
        """Part by part, wherever it is."""
        return [found for found, _ in self._results(self._works(work, shared, own))]

    def joined(
        self, work: Callable[..., Answer], shared: Sequence[Any], own: Sequence[Sequence[Any]], join: Join[Answer]
    ) -> Answer:
        """Joined on the workers."""
        found: Answer = self._results([self._tree(self._works(work, shared, own), join)])[0][0]
        return found

    def _works(self, work: Callable[..., Any], shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> list[Any]:
        self.tally.passes += 1
        common = self._made(tuple(shared))
        pairs = zip(self.parts, own, strict=True)
        return [self.client.submit(_worked, work, part, common, tuple(mine), pure=False) for part, mine in pairs]

    def settle(self, outline: Outline, outcomes: Sequence[Outcome]) -> None:
        """Parts become pieces that know their outcome; those without rows have nothing to say."""
        common, room = self._made(outline), self.room
        total = max(1, sum(outcome.n_rows for outcome in outcomes))
        self.pieces = [
            self.client.submit(SumsPiece, part, common, outcome, room * outcome.n_rows // total, _LOADED, pure=False)
            for part, outcome in zip(self.parts, outcomes, strict=True)
            if outcome.n_rows
        ]

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Joined on the workers."""
        found, n_bytes = self._results([self._tree(self._answers(verb, arguments), JOINS.get(verb, added))])[0]
        self.tally.bytes_read += n_bytes
        return found

    def gather(self, verb: str, *arguments: Any) -> list[Any]:
        """What every part finds."""
        found = self._results(self._answers(verb, arguments))
        self.tally.bytes_read += sum(n_bytes for _, n_bytes in found)
        return [answer for answer, _ in found]

    def _answers(self, verb: str, arguments: Sequence[Any]) -> list[Any]:
        self.tally.passes += 1
        return [self.client.submit(_answered, piece, verb, tuple(arguments), pure=False) for piece in self.pieces]

    def _tree(self, level: list[Any], join: Join[Any]) -> Any:
        while len(level) > 1:
            groups = [level[i : i + BRANCHES] for i in range(0, len(level), BRANCHES)]
            level = [self.client.submit(_joined, join, group, pure=False) for group in groups]
        return level[0]

    def _results(self, futures: list[Any]) -> list[Any]:
        """What tasks have found; a search that ends, for whatever reason, calls them off."""
        try:
            for future in futures:
                while not self._is_done(future):
                    check_time()
            return list(self.client.gather(futures))
        except BaseException:
            self.client.cancel(futures)
            raise

    def _is_done(self, future: Any) -> bool:
        from distributed import TimeoutError as Late
        from distributed import wait

        try:
            wait([future], timeout=_LOOK)  # type: ignore[no-untyped-call]
        except Late:
            return False
        return True


def _same(value: Any) -> Any:
    return value


def _worked(work: Callable[..., Any], part: Part, shared: Sequence[Any], own: Sequence[Any]) -> tuple[Any, int]:
    return work(part, *shared, *own), 0


def _answered(piece: SumsPiece, verb: str, arguments: Sequence[Any]) -> tuple[Any, int]:
    with one_blas_thread():
        return piece.answer(verb, arguments)


def _joined(join: Join[Any], answers: list[tuple[Any, int]]) -> tuple[Any, int]:
    return reduce(join, [found for found, _ in answers]), sum(n_bytes for _, n_bytes in answers)
