"""Progress of a search, for people and programs: on a terminal, in a notebook, or told to a function."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from fbed.larger_than_memory.workers import Tally
from fbed.search.search import Trail
from fbed.show.text import shortened
from fbed.tables.table import Name


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
    passes: int = 0  # over the rows of a table that is not in memory, and bytes of columns read for them
    bytes_read: int = 0

    def __str__(self) -> str:
        phase = self.phase if self.run is None else f"run {self.run}"
        sign = "+" if self.phase == "forward" else "−"
        last = "" if self.variable is None else f", {sign}{shortened(str(self.variable), 16)}"
        return (
            f"{phase}, step {self.step}: {self.n_selected} selected, {self.remaining:,} remaining, "
            f"{self.tests:,} tests{last}{self._read()}"
        )

    def _read(self) -> str:
        if not self.passes:
            return ""
        unit, name = (1e9, "GB") if self.bytes_read >= 1e9 else (1e6, "MB")
        return f", pass {self.passes}, {self.bytes_read / unit:.1f} {name}"


_LINE = 78  # columns of the progress line: one that reached the edge of the terminal would wrap, and stay
_PAUSE = 0.1  # seconds between two updates of a notebook: each is a message to a browser

Tell = Callable[[Progress], None]


@contextmanager
def reporting(
    progress: bool | Tell | None, name: Callable[[int], Name], tally: Tally | None = None
) -> Iterator[Callable[[Trail], None]]:
    """What the search calls after every scan; however the search ends, nothing is left on the screen.

    `tally` counts what is read of a table that is not in memory.
    """
    if progress is None or progress is False:
        yield lambda trail: None
    elif progress is True:
        with display() as tell:
            yield _listener(tell, name, tally or Tally())
    else:
        yield _listener(progress, name, tally or Tally())


def _listener(tell: Tell, name: Callable[[int], Name], tally: Tally) -> Callable[[Trail], None]:
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
                tally.passes,
                tally.bytes_read,
            )
        )

    return listen


def display() -> AbstractContextManager[Tell]:
    """Where a person sees progress: in the notebook, or on the terminal, or nowhere when output goes to a file."""
    if _in_notebook():
        return _notebook()
    if sys.stderr is None or not sys.stderr.isatty():  # None in programs without a console
        return _nowhere()
    fancy = importlib.util.find_spec("rich") is not None and os.environ.get("TERM") != "dumb"
    return _rich() if fancy else _line()


@contextmanager
def _nowhere() -> Iterator[Tell]:
    yield lambda progress: None


@contextmanager
def _line() -> Iterator[Tell]:
    """One line that is rewritten in place."""

    def write(text: str) -> None:
        sys.stderr.write(f"\r{text[:_LINE]:<{_LINE}}")
        sys.stderr.flush()

    try:
        yield lambda progress: write(f"{progress}, {progress.seconds:.1f} s")
    finally:
        write("")
        sys.stderr.write("\r")


@contextmanager
def _rich() -> Iterator[Tell]:
    """A line with a clock that runs while a scan takes long."""
    from rich.console import Console
    from rich.progress import Progress as Line
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    with Line(SpinnerColumn(), text, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as line:
        task = line.add_task("first scan", total=None)
        yield lambda progress: line.update(task, description=str(progress))


@contextmanager
def _notebook() -> Iterator[Tell]:
    """A line of output that is updated in place."""
    from IPython.display import display as show

    handle = show({"text/plain": "first scan"}, raw=True, display_id=True)
    shown = -_PAUSE

    def tell(progress: Progress) -> None:
        nonlocal shown
        if progress.seconds - shown >= _PAUSE:
            shown = progress.seconds
            handle.update({"text/plain": f"{progress}, {progress.seconds:.1f} s"}, raw=True)

    try:
        yield tell
    finally:
        handle.update({"text/plain": ""}, raw=True)


def _in_notebook() -> bool:
    """Whether Python runs behind a notebook; a shell of IPython in a terminal is a terminal."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
