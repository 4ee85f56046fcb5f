"""The clock of a search: a time limit that reaches into every loop that may take long.

Whoever computes looks at the clock now and then by `check_time()`: in Newton iterations, between candidates, and in
long loops of the kernels ten times a second (`look_up()` in `pause.hpp`). It raises `OutOfTime` when the search that it
works for has to end. Which search that is, the context tells, so that nothing has to be handed down, and searches in
several threads do not meet.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context


class OutOfTime(Exception):  # no error: it never leaves the search
    """The time limit was reached, or nobody waits for the answer any more."""


class Clock:
    """When to end: so many seconds after it was started, or when it is stopped."""

    def __init__(self, seconds: float | None = None, started: float | None = None) -> None:
        begin = time.monotonic() if started is None else started
        self.deadline = None if seconds is None else begin + seconds
        self._stopped = False

    def stop(self) -> None:
        """From now on every look at the clock raises."""
        self._stopped = True

    def check(self) -> None:
        """Raise when it is time to end."""
        if self._stopped or (self.deadline is not None and time.monotonic() > self.deadline):
            raise OutOfTime

    @contextmanager
    def running(self) -> Iterator[None]:
        """What is computed inside goes by this clock."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Clock | None] = ContextVar("fbed_clock", default=None)


def check_time() -> None:
    """Raise when the search that is going on here has to end; nothing happens outside a search."""
    clock = _current.get()
    if clock is not None:
        clock.check()


def seconds_left() -> float:
    """Until the search that is going on here has to end, for computations that keep time themselves."""
    clock = _current.get()
    return math.inf if clock is None or clock.deadline is None else max(clock.deadline - time.monotonic(), 0.0)


def shared() -> tuple[Context, Clock]:
    """A context for other threads, and its clock: the present one's time limit, stopped apart from it."""
    clock, present = Clock(), _current.get()
    clock.deadline = None if present is None else present.deadline
    context = copy_context()
    context.run(_current.set, clock)
    return context, clock
