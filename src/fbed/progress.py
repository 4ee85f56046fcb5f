"""Progress of a search, for people and programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
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


def listener(
    progress: bool | Callable[[Progress], None] | None, name: Callable[[int], Name]
) -> Callable[[Trail], None]:
    """What the search calls after every scan; silence unless progress was asked for."""
    if progress is None or progress is False:
        return lambda trail: None
    tell = draw_line if progress is True else progress
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
    if not sys.stderr.isatty():
        return
    run = "" if progress.run is None else f" run {progress.run}"
    text = (
        f"{progress.phase}{run}: {progress.n_selected} selected, {progress.remaining:,} remaining, "
        f"{progress.tests:,} tests, {progress.seconds:.1f} s"
    )
    sys.stderr.write(f"\r\x1b[2K{text[:78]}")
    if progress.phase == "backward" and progress.variable is None:
        sys.stderr.write("\r\x1b[2K")
    sys.stderr.flush()
