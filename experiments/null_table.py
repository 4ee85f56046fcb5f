"""The paper's multiple-testing table: how many variables are selected when none of them matters?

    python experiments/null_table.py                     # all 24 cells, 100 repetitions, some minutes
    python experiments/null_table.py --quick             # p = 100 only, 30 repetitions
    python experiments/null_table.py --repetitions 1000 --jobs 8

Each repetition draws n = 200 samples of p independent normal predictors and a uniformly random binary outcome, and
runs FBED^0, FBED^1, FBED^∞ and FBS with the logistic likelihood-ratio test. The paper averages over 100 such
datasets, so its own means carry a standard error of sd/√100; the last column says how many of those the two means are
apart. Ours has a sampling error too: with R repetitions the difference has a standard deviation of √(1 + 100/R) such
units.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np

import fbed

N_ROWS = 200
PAPER_REPETITIONS = 100
WIDTHS = (100, 200)
LEVELS = (0.01, 0.05, 0.1)
ALGORITHMS = {
    "FBED^0": {"k": 0},
    "FBED^1": {"k": 1},
    "FBED^∞": {"k": math.inf},
    "FBS": {"early_dropping": False},
}

# Mean number of selected variables by (p, alpha). The paper prints them with one decimal and again as a percentage of
# alpha·p, which holds one digit more; these are the percentages times alpha·p.
PAPER = {
    "FBED^0": {(100, 0.01): 0.92, (100, 0.05): 3.25, (100, 0.1): 6.27}
    | {(200, 0.01): 1.75, (200, 0.05): 5.60, (200, 0.1): 9.32},
    "FBED^1": {(100, 0.01): 1.13, (100, 0.05): 4.56, (100, 0.1): 9.25}
    | {(200, 0.01): 2.45, (200, 0.05): 8.68, (200, 0.1): 15.88},
    "FBED^∞": {(100, 0.01): 1.24, (100, 0.05): 5.88, (100, 0.1): 14.38}
    | {(200, 0.01): 2.85, (200, 0.05): 22.31, (200, 0.1): 39.26},
    "FBS": {(100, 0.01): 1.22, (100, 0.05): 5.76, (100, 0.1): 14.24}
    | {(200, 0.01): 2.82, (200, 0.05): 20.79, (200, 0.1): 38.12},
}


@dataclass(frozen=True)
class Cell:
    """One number of the table: an algorithm at a level on data of a width, and what was counted there."""

    algorithm: str
    p: int
    alpha: float
    counts: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean number of selected variables."""
        return float(np.mean(self.counts))

    @property
    def paper(self) -> float:
        """The paper's mean."""
        return PAPER[self.algorithm][self.p, self.alpha]

    @property
    def standard_error(self) -> float:
        """sd/√100: the sampling error of the paper's mean."""
        return float(np.std(self.counts, ddof=1)) / math.sqrt(PAPER_REPETITIONS)

    @property
    def distance(self) -> float:
        """Difference of the two means in standard errors of the paper's."""
        difference = self.mean - self.paper
        return difference / self.standard_error if self.standard_error > 0 else math.copysign(math.inf, difference)


def null_data(p: int, seed: int, repetition: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent normal predictors and a coin flip a row."""
    rng = np.random.default_rng([seed, p, repetition])
    return rng.normal(size=(N_ROWS, p)), rng.integers(0, 2, N_ROWS)


def count_selected(task: tuple[int, int, int, tuple[float, ...]]) -> dict[tuple[str, float], int]:
    """How many variables every algorithm selects at every level in one repetition."""
    *which, levels = task
    X, y = null_data(*which)
    return {
        (name, alpha): len(fbed.select(X, y, family="binomial", alpha=alpha, **options).selected)
        for (name, options), alpha in product(ALGORITHMS.items(), levels)
    }


def simulate(
    p: int,
    repetitions: int,
    seed: int = 0,
    jobs: int = 1,
    log: bool = False,
    levels: tuple[float, ...] = LEVELS,
) -> list[Cell]:
    """The cells of one width."""
    tasks = [(p, seed, repetition, levels) for repetition in range(repetitions)]
    found = list(_reported(_mapped(tasks, jobs), repetitions, p, log))
    return [
        Cell(name, p, alpha, tuple(counts[name, alpha] for counts in found))
        for name, alpha in product(ALGORITHMS, levels)
    ]


def _mapped(tasks: list[tuple[int, int, int, tuple[float, ...]]], jobs: int) -> Iterator[dict[tuple[str, float], int]]:
    if jobs == 1:
        yield from map(count_selected, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(count_selected, tasks)


def _reported(
    counts: Iterable[dict[tuple[str, float], int]], total: int, p: int, log: bool
) -> Iterator[dict[tuple[str, float], int]]:
    for done, one in enumerate(counts, 1):
        if log:
            print(f"\rp = {p}: {done} of {total} repetitions", end="" if done < total else "\n", file=sys.stderr)
            sys.stderr.flush()
        yield one


def report(cells: list[Cell]) -> str:
    """A line a cell."""
    head = f"{'p':>4} {'alpha':>6} {'algorithm':<9} {'paper':>7} {'here':>7} {'sd/√100':>8} {'difference':>11}"
    lines = [
        f"{c.p:>4} {c.alpha:>6g} {c.algorithm:<9} {c.paper:>7.2f} {c.mean:>7.2f} {c.standard_error:>8.3f} "
        f"{c.distance:>+8.2f} se" + ("  *" if abs(c.distance) > 3 else "")
        for c in sorted(cells, key=lambda c: (c.p, c.alpha))
    ]
    far = sum(abs(c.distance) > 3 for c in cells)
    return "\n".join(
        [head, *lines, f"{len(cells) - far} of {len(cells)} means within 3 standard errors of the paper's"]
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the simulation and print the table; exit status 1 when a mean is more than 3 standard errors away."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, help="datasets a width (default 100, with --quick 30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--quick", action="store_true", help="p = 100 only")
    options = parser.parse_args(arguments)
    repetitions = options.repetitions or (30 if options.quick else 100)
    if repetitions < 2:
        parser.error("--repetitions must be 2 or more: a standard deviation is needed")
    cells: list[Cell] = []
    for p in WIDTHS[:1] if options.quick else WIDTHS:
        cells += simulate(p, repetitions, options.seed, options.jobs, log=True)
    print(report(cells))
    return int(any(abs(cell.distance) > 3 for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
