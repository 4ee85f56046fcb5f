"""Progress of a search, for people and programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fbed.search import Trail
from fbed.tables import Name


@dataclass(frozen=True)
class Progress:
    """Where a search stands after a scan."""

    phase: str
    run: int | None
    step: int
    n_selected: int
    remaining: int
    tests: int
    variable: Name | None
    seconds: float


_LINE = 78  # columns of the progress line: one that reached the edge of the terminal would wrap, and stay


@contextmanager
def reporting(
    progress: bool | Callable[[Progress], None] | None, name: Callable[[int], Name]
) -> Iterator[Callable[[Trail], None]]:
    """What the search calls after every scan; however the search ends, no line is left on the terminal."""
    if progress is None or progress is False:
        yield lambda trail: None
    elif progress is True:
        try:
            yield _listener(draw_line, name)
        finally:
            clear_line()
    else:
        yield _listener(progress, name)


def _listener(tell: Callable[[Progress], None], name: Callable[[int], Name]) -> Callable[[Trail], None]:
    started = time.perf_counter()
    tests = 0

    def listen(trail: Trail) -> None:
        nonlocal tests
        step = trail.steps[-1]
        tests += len(step.scan.candidates)
        chosen = step.scan.chosen
        tell(
            Progress(
                step.phase,
                step.run,
                len(trail.steps),
                len(trail.selected),
                len(step.scan.candidates) - len(step.dropped) - (chosen is not None),
                tests,
                None if chosen is None else name(chosen.variable),
                time.perf_counter() - started,
            )
        )

    return listen


def draw_line(progress: Progress) -> None:
    """One line on standard error that is rewritten in place; nothing when standard error is not a terminal."""
    if not _on_terminal():
        return
    run = "" if progress.run is None else f" run {progress.run}"
    text = (
        f"{progress.phase}{run}: {progress.n_selected} selected, {progress.remaining:,} remaining, "
        f"{progress.tests:,} tests, {progress.seconds:.1f} s"
    )
    sys.stderr.write(f"\r{text[:_LINE]:<{_LINE}}")
    sys.stderr.flush()


def clear_line() -> None:
    """Remove the progress line from the terminal."""
    if _on_terminal():
        sys.stderr.write("\r" + " " * _LINE + "\r")
        sys.stderr.flush()


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # None in programs without a console
