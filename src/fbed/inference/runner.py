"""Many searches, one after another or side by side in threads: in order, with progress, and what is done is kept.

A search holds its own part of the rows while it runs and leaves a few numbers behind, so that memory grows with the
number of threads and not with the number of searches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from fbed.doors.progress import display
from fbed.threads import one_blas_thread

Item = TypeVar("Item")
Answer = TypeVar("Answer")

STATUSES = {
    "converged": "all of them were done",
    "time_limit": "the time limit was reached; what was done by then is kept",
    "interrupted": "interrupted; what was done by then is kept",
}


@dataclass(frozen=True)
class Resampling:
    """How many searches are done; what `progress` is called with."""

    done: int
    total: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.done:,} of {self.total:,} searches"


Listener = bool | Callable[[Resampling], None] | None


@dataclass(frozen=True)
class Done(Generic[Answer]):
    """Answers in the order of the items, as many as were done before the end."""

    answers: list[Answer]
    status: str


def run_all(
    work: Callable[[Item], Answer],
    items: Sequence[Item],
    n_threads: int = 1,
    time_limit: float | None = None,
    progress: Listener = None,
) -> Done[Answer]:
    """Work on all items; Ctrl-C and the time limit end it early, and the answers that are there are kept.

    Where the end comes early, the first answers are kept as far as there is no gap among them.
    """
    answers: dict[int, Answer] = {}
    status = "converged"
    started = time.monotonic()

    def out_of_time() -> bool:
        return time_limit is not None and time.monotonic() - started > time_limit

    with one_blas_thread(), _telling(progress) as tell:
        try:
            for i, answer in _answers(work, items, n_threads, out_of_time):
                answers[i] = answer
                tell(Resampling(len(answers), len(items), time.monotonic() - started))
        except KeyboardInterrupt:
            status = "interrupted"
    if status == "converged" and len(answers) < len(items):
        status = "time_limit"
    unbroken = next((i for i in range(len(items)) if i not in answers), len(items))
    return Done([answers[i] for i in range(unbroken)], status)


def _answers(
    work: Callable[[Item], Answer], items: Sequence[Item], n_threads: int, out_of_time: Callable[[], bool]
) -> Iterator[tuple[int, Answer]]:
    if n_threads == 1:
        for i, item in enumerate(items):
            yield i, work(item)
            if out_of_time():
                return
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield from _side_by_side(pool, work, items, n_threads, out_of_time)


def _side_by_side(
    pool: ThreadPoolExecutor,
    work: Callable[[Item], Answer],
    items: Sequence[Item],
    n_threads: int,
    out_of_time: Callable[[], bool],
) -> Iterator[tuple[int, Answer]]:
    """A thread gets its next item when it has done the last one, so that nothing waits when the end comes early."""
    waiting = iter(enumerate(items))
    running: dict[Future[Answer], int] = {}

    def start(count: int) -> None:
        for _, (i, item) in zip(range(count), waiting, strict=False):
            running[pool.submit(work, item)] = i

    start(n_threads)
    while running:
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        done = [(running.pop(future), future) for future in finished]
        if not out_of_time():
            start(len(done))
        for i, future in sorted(done, key=lambda pair: pair[0]):
            yield i, future.result()


@contextmanager
def _telling(progress: Listener) -> Iterator[Callable[[Resampling], None]]:
    if progress is None or progress is False:
        yield lambda where: None
    elif progress is True:
        with display() as tell:
            yield lambda where: tell(where)  # type: ignore[arg-type]  # shown by its text and its seconds
    else:
        yield progress
