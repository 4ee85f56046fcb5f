"""``python -m tests.fuzz --mutants 20000``: hostile input for every reader and every door.

What is wrong with input is told by InvalidInput, and by the command line in one line with status 2. Any other
exception, any traceback, and whatever takes more than ten seconds is a failure. Every mutant has a number, from which
``--only KIND NUMBER`` makes it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fuzz import doors, files

PATIENCE = 10.0  # seconds that a mutant may take
MEMORY = 6 * 2**30  # bytes that the process may ask for: what is beyond fails at once instead of filling the machine

KINDS: dict[str, tuple[Callable[[random.Random], Any], Callable[[Any, Path], None]]] = {
    **{name: (make, files.run) for name, make in files.KINDS.items()},
    "doors": (doors.call, doors.run),
}


class Hang(BaseException):
    """It took too long; no handler of ordinary errors keeps it."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """End what takes too long, where the system can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def give_up(*_: Any) -> None:
        raise Hang(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def little_memory() -> Iterator[None]:
    """A limit on the memory of this process, where the system has one."""
    try:
        import resource
    except ImportError:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def attempt(kind: str, number: int, folder: Path) -> str | None:
    """The complaint about one mutant, or None. One that hangs is tried again: the machine may have been busy."""
    make, run = KINDS[kind]
    for last in (False, True):
        mutant = make(random.Random(f"{kind} {number}"))
        try:
            with patience(PATIENCE), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(mutant, folder)
            return None
        except MemoryError:
            return None if kind == "doors" else traceback.format_exc()  # Python's own word for what does not fit
        except (Exception, SystemExit, KeyboardInterrupt):
            return f"{_shown(mutant)}\n{traceback.format_exc()}"
        except Hang:
            if last:
                return f"{_shown(mutant)}\n{traceback.format_exc()}"
    return None


def _shown(mutant: Any) -> str:
    text = repr(mutant)
    return text if len(text) < 4000 else f"{text[:4000]}…"


def fuzz(mutants: int, first: int = 0, kinds: list[str] | None = None) -> dict[tuple[str, int], str]:
    """Complaints by kind and number; kinds take turns, so that each has its share."""
    names = kinds or list(KINDS)
    complaints = {}
    with tempfile.TemporaryDirectory() as folder, little_memory():
        for i in range(mutants):
            kind, number = names[i % len(names)], first + i // len(names)
            if sys.stderr.isatty():
                print(f"\r{i:,} of {mutants:,}: {kind} {number}  ", end="", file=sys.stderr)
            found = attempt(kind, number, Path(folder))
            if found is not None:
                complaints[kind, number] = found
    return complaints


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=2000, help="how many in all")
    parser.add_argument("--first", type=int, default=0, help="number of the first of each kind")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="readers and doors")
    parser.add_argument("--only", nargs=2, metavar=("KIND", "NUMBER"), help="one mutant")
    arguments = parser.parse_args()
    faulthandler.enable()
    started = time.perf_counter()
    if arguments.only:
        kind, number = arguments.only[0], int(arguments.only[1])
        complaints = fuzz(1, number, [kind])
    else:
        complaints = fuzz(arguments.mutants, arguments.first, arguments.kinds)
    for (kind, number), told in complaints.items():
        print(f"\n=== {kind} {number} ===\n{told}")
    print(f"\n{len(complaints)} failures in {time.perf_counter() - started:.0f} s")
    return int(bool(complaints))


if __name__ == "__main__":
    raise SystemExit(main())
