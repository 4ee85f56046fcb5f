"""Many searches, one after another or side by side: in order, with progress, and what is done is kept.

A search holds its own part of the rows while it runs and leaves a few numbers behind, so that memory grows with the
number of workers and not with the number of searches. Workers are processes where those can be forked, since searches
on few rows spend most of their time in Python, of which one thread runs at a time; else they are threads.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fbed.api.progress import display
from fbed.clock import shared
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


_LOOK = 0.5  # seconds after which a waiting parent looks whether Ctrl-C was pressed, whichever thread was told

Listener = bool | Callable[[Resampling], None] | None


@dataclass(frozen=True)
class Done(Generic[Answer]):
    """Answers in the order of the items, as many as were done before the end."""

    answers: list[Answer]
    status: str


def run_all(
    work: Callable[[Item], Answer],
    items: Sequence[Item],
    n_workers: int = 1,
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

    try:
        # processes are forked before anything else has a thread
        with one_blas_thread(), _workers(work, items, n_workers) as submit, _telling(progress) as tell:
            for i, answer in _side_by_side(submit, len(items), n_workers, out_of_time):
                answers[i] = answer
                tell(Resampling(len(answers), len(items), time.monotonic() - started))
    except KeyboardInterrupt:
        status = "interrupted"
    if status == "converged" and len(answers) < len(items):
        status = "time_limit"
    unbroken = next((i for i in range(len(items)) if i not in answers), len(items))
    return Done([answers[i] for i in range(unbroken)], status)


Submit = Callable[[int], "Future[Any]"]


def _side_by_side(
    submit: Submit, count: int, n_workers: int, out_of_time: Callable[[], bool]
) -> Iterator[tuple[int, Any]]:
    """A worker gets its next item when it has done the last one, so that nothing waits when the end comes early."""
    waiting = iter(range(count))
    running: dict[Future[Any], int] = {}

    def start(more: int) -> None:
        for _, i in zip(range(more), waiting, strict=False):
            running[submit(i)] = i

    start(n_workers)
    while running:
        finished, _ = wait(running, _LOOK, FIRST_COMPLETED)
        done = [(running.pop(future), future) for future in finished]
        if not out_of_time():
            start(len(done))
        for i, future in sorted(done, key=lambda pair: pair[0]):
            yield i, future.result()


@contextmanager
def _workers(work: Callable[[Item], Any], items: Sequence[Item], n_workers: int) -> Iterator[Submit]:
    """What takes the number of an item and promises its answer."""

    def task(i: int) -> Any:
        return work(items[i])

    if n_workers == 1 or len(items) < 2:
        yield lambda i: _at_once(task, i)
    elif not _can_fork():
        context, clock = shared()
        with ThreadPoolExecutor(n_workers) as pool:
            try:
                yield lambda i: pool.submit(context.copy().run, task, i)
            except BaseException:
                clock.stop()  # nobody waits for what has begun: it ends at its next look at the clock
                raise
    else:
        with _forked(task, min(n_workers, len(items))) as submit:
            yield submit


def _at_once(task: Callable[[int], Any], i: int) -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(task(i))
    return done


# -- processes ---------------------------------------------------------------------------------------------------------

_task: Callable[[int], Any] | None = None  # what a child has to do; it finds it here after the fork


def _can_fork() -> bool:
    """Whether children of this process start with all it has read, and safely: no other thread may hold a lock."""
    return sys.platform == "linux" and threading.active_count() == 1


@contextmanager
def _forked(task: Callable[[int], Any], n_workers: int) -> Iterator[Submit]:
    """Children that share the memory of this process as it is now: nothing is copied until somebody writes to it."""
    global _task
    before, _task = _task, task
    context = multiprocessing.get_context("fork")
    try:
        with ProcessPoolExecutor(n_workers, mp_context=context, initializer=_ignore_interrupts) as pool:
            pool.submit(int).result()  # all children are there now
            children = multiprocessing.active_children()
            try:
                yield lambda i: pool.submit(_in_child, i)
            except BaseException:  # nobody waits for what has begun
                for child in children:
                    child.terminate()
                raise
    finally:
        _task = before


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the parent is the one to decide."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_child(i: int) -> Any:
    assert _task is not None
    return _task(i)


@contextmanager
def _telling(progress: Listener) -> Iterator[Callable[[Resampling], None]]:
    if progress is None or progress is False:
        yield lambda where: None
    elif progress is True:
        with display() as tell:
            yield lambda where: tell(where)  # type: ignore[arg-type]  # shown by its text and its seconds
    else:
        yield progress
