"""Cells on disk: one file a repetition of a dataset, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments import data, protocol
from experiments.protocol import Cell, Effort


class Task(NamedTuple):
    """A cell to compute."""

    dataset: str
    repetition: int
    seed: int = 0
    effort: Effort = protocol.FULL


class Store:
    """A folder of cells. The files of another seed or effort have other names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, task: Task) -> Path:
        """Where a cell is kept."""
        grids = f"{task.effort.n_lambda}-{task.effort.n_lambda_limited}"
        return self.folder / f"{task.dataset}-{task.repetition:02d}-seed{task.seed}-{grids}.npz"

    def __contains__(self, task: Task) -> bool:
        return self.file(task).exists()

    def write(self, task: Task, cell: Cell) -> None:
        """Keep a cell; a file is there completely or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.file(task).with_suffix(f".{os.getpid()}.tmp")
        with unfinished.open("wb") as file:
            np.savez_compressed(file, rows=json.dumps(cell.rows), labels=cell.labels, scores=cell.scores)
        unfinished.replace(self.file(task))

    def read(self, task: Task) -> Cell:
        """A cell that was kept."""
        with np.load(self.file(task)) as kept:
            return Cell(json.loads(str(kept["rows"])), kept["labels"], kept["scores"])


def plan(names: Iterable[str], repetitions: Callable[[str], int], seed: int, effort: Effort) -> list[Task]:
    """Cells in an order that keeps unfinished runs balanced: the k-th fifth of all repetitions of every dataset."""
    tasks = [
        (repetition / repetitions(name), position, Task(name, repetition, seed, effort))
        for position, name in enumerate(names)
        for repetition in range(repetitions(name))
    ]
    return [task for _, _, task in sorted(tasks, key=lambda entry: (int(5 * entry[0]), entry[1], entry[0]))]


def run(tasks: list[Task], store: Store, folder: Path, jobs: int = 1) -> None:
    """Compute the cells that are not there yet, with a progress line."""
    missing = [task for task in tasks if task not in store]
    progress = Progress(len(tasks), missing)
    if jobs == 1:
        for task in missing:
            compute(task, store.folder, folder)
            progress.done(task)
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting: dict[Future[None], Task] = {pool.submit(compute, task, store.folder, folder): task for task in missing}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                future.result()
                progress.done(waiting.pop(future))


def compute(task: Task, store_folder: Path, data_folder: Path) -> None:
    """Compute and keep one cell, unless another run has done so meanwhile."""
    if task in Store(store_folder):
        return
    dataset = data.load(task.dataset, data_folder)
    cell = protocol.repeat_once(dataset.X, dataset.y, *task)
    Store(store_folder).write(task, cell)


class Progress:
    """A line on the terminal: how much is done, and how long the rest will take at the pace of each dataset so far."""

    def __init__(self, n_cells: int, missing: list[Task], stream: Any = None) -> None:
        self.n_cells, self.stream = n_cells, stream or sys.stderr
        self.left = [task.dataset for task in missing]
        self.n_new = 0
        self.started = time.monotonic()
        self.last = self.started
        self.seconds: dict[str, list[float]] = {}
        if len(missing) < n_cells:
            print(f"{n_cells - len(missing)} of {n_cells} cells were there already", file=self.stream)

    def done(self, task: Task) -> None:
        """Count a finished cell."""
        now = time.monotonic()
        self.seconds.setdefault(task.dataset, []).append(now - self.last)
        self.last = now
        self.left.remove(task.dataset)
        self.n_new += 1
        finished = self.n_cells - len(self.left)
        bar = "█" * (20 * finished // self.n_cells)
        text = f"{bar:<20} {finished}/{self.n_cells}  {task.dataset} {task.repetition + 1}  {self._time_left()} left"
        end = "\r" if self.stream.isatty() and self.left else "\n"
        print(f"{text:<78}", end=end, file=self.stream, flush=True)

    def _time_left(self) -> str:
        overall = (self.last - self.started) / self.n_new
        known = {name: sum(some) / len(some) for name, some in self.seconds.items()}
        return duration(sum(known.get(name, overall) for name in self.left))


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    minutes = round(seconds / 60)
    if minutes == 0:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
