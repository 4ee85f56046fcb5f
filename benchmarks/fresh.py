"""Measurements in a process of their own: with their own number of threads, and memory that nobody else has used."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.contenders import MARK, say
from benchmarks.race import ROOT, threads_allowed


def in_fresh_process(function: Callable[..., Any], *, threads: int, **arguments: Any) -> Any:
    """What a function of a module of this package returns, as plain data; it is told the number of threads too."""
    arguments["threads"] = threads
    call = [sys.executable, "-m", "benchmarks.fresh", function.__module__, function.__name__, json.dumps(arguments)]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=threads_allowed(threads), check=True)
    answers = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    return json.loads(answers[-1])["answer"]


def best_of_turns(tasks: dict[str, Callable[[], Any]], turns: int) -> dict[str, dict[str, float]]:
    """Fewest wall and processor seconds of each task; they take turns."""
    best = {name: {"wall": float("inf"), "cpu": float("inf")} for name in tasks}
    for _ in range(turns):
        for name, task in tasks.items():
            wall, processor = time.perf_counter(), time.process_time()
            task()
            used = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - processor}
            best[name] = {clock: min(best[name][clock], used[clock]) for clock in used}
    return best


if __name__ == "__main__":
    say({"answer": getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(**json.loads(sys.argv[3]))})
