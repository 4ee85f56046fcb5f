"""Threads: how many, work spread over them in order, and a BLAS that keeps to one.

Parallel work is cut into whole blocks of columns, and every block is computed by one thread in the same way however
many there are, so that the number of threads changes no answer. The threads of a BLAS would split sums by themselves,
and wait for more work at full speed, so it is held to one thread while a search runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from fbed.clock import shared
from fbed.errors import InvalidInput

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def thread_count(n_jobs: int | None) -> int:
    """Threads for n_jobs, by joblib's convention: None is 1, −1 all processors, −2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InvalidInput(f"n_jobs must be None, a positive number of threads, or −1 for all, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def spread(work: Callable[[Item], Answer], items: Iterable[Item], n_threads: int) -> Iterator[Answer]:
    """The answers for all items, in their order; what is not done is given up when the caller stops asking."""
    items = list(items)
    if n_threads == 1 or len(items) < 2:
        yield from map(work, items)
        return
    context, clock = shared()
    contexts = [context.copy() for _ in items]  # one cannot be entered by two threads at a time
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            yield from pool.map(lambda context, item: context.run(work, item), contexts, items)
        finally:
            clock.stop()  # what has begun ends at its next look at the clock
            pool.shutdown(wait=False, cancel_futures=True)


_lock = Lock()
_inside = 0
_release: Callable[[], None] = lambda: None  # noqa: E731  # replaced by the first search to begin


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the BLAS to one thread; of several searches at the same time, the last one to end lets it go."""
    global _inside, _release
    with _lock:
        _inside += 1
        if _inside == 1:
            _release = _libraries().limit(limits=1, user_api="blas").restore_original_limits
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _release()


@cache
def _libraries() -> ThreadpoolController:
    """The libraries that NumPy and SciPy have brought; looking for them takes milliseconds."""
    return ThreadpoolController()
