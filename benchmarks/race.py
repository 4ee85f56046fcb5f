"""Races: each contender waits in a process of its own, and they take turns, so that a busy machine disturbs all alike.

Wall and processor seconds are both kept, the best of all turns. A turn that uses more processor seconds than the limit
ends the contender; so does one that takes much longer on the wall.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.contenders import CONTENDERS, MARK, Contender
from benchmarks.problems import read

ROOT = Path(__file__).resolve().parents[1]
LONG = 20.0  # processor seconds after which a turn is not repeated: its noise is small beside it
READY = 600.0  # seconds that a contender may take to read the data and to compile
PATIENCE = 10.0  # times the limit that the clock on the wall may show: other programs use the processor too


def program(environment: str) -> str | None:
    """What runs a contender of this environment; None where it is not installed."""
    if environment == "own":
        return sys.executable
    if environment == "R":
        return shutil.which("Rscript")
    python = ROOT / f".venv-{environment}" / "bin" / "python"
    return str(python) if python.exists() else None


def threads_allowed(threads: int) -> dict[str, str]:
    """An environment in which every library keeps to a number of threads."""
    names = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    )
    return {**os.environ, **{name: str(threads) for name in names}}


@dataclass
class Standing:
    """What a contender has shown so far."""

    contender: str
    threads: int
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    answer: dict[str, Any] | None = None
    trouble: str | None = None

    def record(self) -> dict[str, Any]:
        return {
            "contender": self.contender,
            "threads": self.threads,
            "wall": min(self.walls, default=None),
            "cpu": min(self.cpus, default=None),
            "turns": len(self.walls),
            "answer": self.answer,
            "trouble": self.trouble,
        }


class Runner:
    """A contender in its process."""

    def __init__(self, contender: Contender, file: Path, arrays: Path, threads: int, limit: float) -> None:
        self.standing = Standing(contender.name, threads)
        self.limit = limit
        executable = program(contender.environment)
        if executable is None:
            self.standing.trouble = "not installed"
            return
        command = [executable, "-m", "benchmarks.contenders", contender.name, str(file), str(threads), str(limit)]
        if contender.environment == "R":
            command = [executable, str(ROOT / "benchmarks" / "glmnet.R"), str(arrays)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env=threads_allowed(threads), start_new_session=True,
        )  # fmt: skip
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._expect(READY, "not ready in time")

    @property
    def is_able(self) -> bool:
        return self.standing.trouble is None

    def turn(self) -> None:
        """One timed call, unless an earlier one took long."""
        if not self.is_able or max(self.standing.cpus, default=0.0) > LONG:
            return
        with contextlib.suppress(BrokenPipeError):  # it has ended: there will be no message, and that is noticed below
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        if message := self._expect(PATIENCE * self.limit, f"> {self.limit:g} s"):
            self.standing.walls.append(message["wall"])
            self.standing.cpus.append(message["cpu"])
            self.standing.answer = message["answer"]

    def close(self) -> None:
        if getattr(self, "process", None) and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _listen(self) -> None:
        for line in self.process.stdout:
            if line.startswith(MARK):
                self.messages.put(json.loads(line.removeprefix(MARK)))
        self.messages.put(None)

    def _expect(self, patience: float, when_late: str) -> dict[str, Any] | None:
        """The next message; when none comes, why is kept as the contender's trouble."""
        try:
            message = self.messages.get(timeout=patience)
        except queue.Empty:
            self.close()
            message = None
        if message is None:
            status = self.process.wait()
            last = (self.process.stderr.read() or f"exit status {status}").strip().splitlines()[-1]
            self.standing.trouble = when_late if status in (-signal.SIGPROF, -signal.SIGKILL) else f"failed: {last}"
        return message


def race(
    names: Iterable[str], file: Path, arrays: Path, *, threads: int, turns: int, limit: float
) -> list[dict[str, Any]]:
    """Records of all contenders, which take turns on one set."""
    runners: list[Runner] = []
    try:
        for name in names:
            runners.append(Runner(CONTENDERS[name], file, arrays, threads, limit))
        for _ in range(turns):
            for runner in runners:
                runner.turn()
    finally:
        for runner in runners:
            runner.close()
    return [runner.standing.record() for runner in runners]


def export(file: Path, folder: Path) -> None:
    """The arrays of a set as plain binary files, for programs that do not read .npz."""
    import numpy as np

    problem = read(file)
    parts: dict[str, Any] = {"shape": np.array(problem.shape, dtype=np.int32), "y": problem.y}
    if problem.is_sparse:
        X = problem.X
        parts |= {"indptr": X.indptr.astype(np.int32), "indices": X.indices.astype(np.int32), "data": X.data}
    else:
        parts["X"] = problem.X.ravel(order="F")
    for name, values in parts.items():
        values.tofile(folder / name)
