"""The paper's timing table: every selection once on the complete data, and glmnet on the same machine."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fbed
from experiments import data, lasso
from experiments.protocol import ALGORITHMS, ALPHAS, CONFIGURATIONS, GAMMAS, LASSO_FS, Configuration

COLUMNS = ["dataset", "algorithm", "criterion", "value", "wall", "cpu", "n_selected"]
WHOLE_GRID = "fbed.path"
N_LAMBDAS = (100, 1000)


def measure(names: list[str], folder: Path, file: Path) -> None:
    """Time what is not in the file yet, one thread and one thing at a time, and append it line by line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with file.open(encoding="utf-8") as lines:
        known = {tuple(row[key] for key in COLUMNS[:4]) for row in csv.DictReader(lines)}
    for name in names:
        dataset = None
        for (algorithm, criterion, value), work in jobs():
            if (name, algorithm, criterion, value) in known:
                continue
            dataset = dataset or data.load(name, folder)
            wall, cpu, size = clock(work, dataset)
            print(f"{name} {algorithm} {criterion} {value}: {wall:.2f} s")
            with file.open("a", encoding="utf-8", newline="") as lines:
                row = [name, algorithm, criterion, value, f"{wall:.4f}", f"{cpu:.4f}", size]
                csv.writer(lines, lineterminator="\n").writerow(row)


def jobs() -> Iterator[tuple[tuple[str, str, str], Callable[[Any, Any], int]]]:
    """What is timed: a name, and a function of X and y that says how many variables it found."""
    for configuration in CONFIGURATIONS:
        yield (configuration.algorithm, configuration.criterion, configuration.text), _selection(configuration)
    yield (WHOLE_GRID, "", ""), _whole_grid
    for n_lambda in N_LAMBDAS:
        yield (LASSO_FS, "", str(n_lambda)), lambda X, y, n=n_lambda: int(lasso.fit_path(X, y, n).sizes[-1])


def _selection(configuration: Configuration) -> Callable[[Any, Any], int]:
    k = ALGORITHMS[configuration.algorithm]
    by_test = {"criterion": "lr", "alpha": configuration.value}
    by_score = {"criterion": "ebic", "gamma": configuration.value}
    options = {
        "family": "binomial",
        **({"early_dropping": False} if k is None else {"k": k}),
        **(by_test if configuration.criterion == "IT" else by_score),
    }
    return lambda X, y: len(fbed.select(X, y, n_jobs=1, **options).selected)


def _whole_grid(X: Any, y: Any) -> int:
    grid = fbed.path(X, y, family="binomial", alphas=ALPHAS, gammas=GAMMAS, n_jobs=1)
    return max(len(result.selected) for result in grid)


def clock(work: Callable[[Any, Any], int], dataset: data.Dataset) -> tuple[float, float, int]:
    """Elapsed and processor seconds; the latter do not grow when other programs use the machine."""
    wall, cpu = time.perf_counter(), time.process_time()
    size = work(dataset.X, dataset.y)
    return time.perf_counter() - wall, time.process_time() - cpu, size
