"""Searches that are killed at random moments (SIGKILL) and started again, until each has come to its end."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.elsewhere import make
from benchmarks.options import Options
from benchmarks.race import ROOT, threads_allowed
from benchmarks.text import table

KILLS = 50
SCRIPT = """
import sys, fbed
result = fbed.select(sys.argv[1], "y", family="binomial", alpha=0.2, memory_limit="2GB", checkpoint=sys.argv[2])
result.to_json(sys.argv[3])
"""


def run(options: Options) -> dict[str, Any]:
    kills = 1 if options.quick else KILLS
    with tempfile.TemporaryDirectory(prefix="fbed-faults-") as name:
        folder = Path(name)
        (folder / "data").mkdir()
        make(folder / "data", 5_000 if options.quick else 200_000, 40)
        begun = time.perf_counter()
        expected = _finished(folder, "calm")
        length = time.perf_counter() - begun
        chance, done, searches, wrong = random.Random(1), 0, 0, 0
        while done < kills:
            done += _killed_until_done(folder, searches, length, chance, kills - done)
            wrong += _answer(folder / f"{searches}.json") != expected
            searches += 1
    return {"kills": done, "searches": searches, "wrong": wrong, "seconds": length}


def _killed_until_done(folder: Path, number: int, length: float, chance: random.Random, most: int) -> int:
    """One search, killed up to so many times; how often it was."""
    kills = 0
    while kills < min(most, 5):
        running = _start(folder, str(number))
        time.sleep(chance.uniform(0.3, 1.2) * length)
        if running.poll() is not None:
            return kills
        running.send_signal(signal.SIGKILL)
        running.wait()
        kills += 1
    _finished(folder, str(number))
    return kills


def _start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    files = (folder / "data", folder / f"{name}.fbed", folder / f"{name}.json")
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *map(str, files)], cwd=ROOT, env=threads_allowed(1))


def _finished(folder: Path, name: str) -> Any:
    if _start(folder, name).wait() != 0:
        raise RuntimeError("a search that nobody killed has failed")
    return _answer(folder / f"{name}.json")


def _answer(file: Path) -> Any:
    """Selection, tests and statistics to nine digits."""
    found = json.loads(file.read_text())
    steps = [(row["variable"], row["action"], row["statistic"] and f"{row['statistic']:.9g}") for row in found["trace"]]
    return found["selected"], found["n_tests"], steps


def words(found: dict[str, Any]) -> str:
    right = "that of one that nobody killed" if not found["wrong"] else f"WRONG: {found['wrong']} differ"
    return table(["searches", "killed", "answer"], [[str(found["searches"]), f"{found['kills']} times", right]])
