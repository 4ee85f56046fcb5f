"""``python -m benchmarks.exactness``: the certified engine against fitting every model, on the paper's sets.

Every criterion of the paper's grid with FBED^0, FBED^1, FBED^∞ and FBS, scan by scan: the same candidates, the same
winner, the same survivors, the same number of tests, and intervals that hold every statistic. Fitting every model takes
hours on the larger sets; a search that is out of time is compared as far as it came. The searches of one set share the
models they have fitted, so that a limit buys more than it would for each alone.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import fbed
from fbed.api.options import DataOptions
from fbed.api.problem import Problem
from fbed.api.reading import read_problem
from fbed.rules.criteria import Criterion
from fbed.search.memo import Memo
from fbed.search.scan import Scan, Scanner
from fbed.search.search import Plan, Trail, search
from fbed.threads import one_blas_thread

SETS = ("madelon", "arcene", "dexter", "hiva", "dorothea")
CRITERIA = {
    **{f"LR {alpha:g}": fbed.LikelihoodRatio(alpha) for alpha in (0.001, 0.01, 0.05, 0.1)},
    **{f"EBIC {gamma:g}": fbed.EBIC(gamma) for gamma in (0.0, 0.5, 1.0)},
    "EBIC": fbed.EBIC(),
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "FBED^0": {"k": 0},
    "FBED^1": {"k": 1},
    "FBED^inf": {"k": math.inf},
    "FBS": {"early_dropping": False},
}
TOLERANCE = 1e-6  # relative, of statistics
BUDGET = 2**31  # bytes for statistics that searches share


@dataclass(frozen=True)
class Row:
    """One search with both engines."""

    data: str
    criterion: str
    algorithm: str
    verdict: str  # 'same', 'same as far as the twin came', or what differs
    scans: int  # compared
    scans_certified: int
    tests: int  # of the certified engine
    selected: int
    largest_difference: float  # of the chosen statistics, relative
    largest_excess: float  # of a statistic over its interval, relative
    seconds_certified: float
    seconds_exhaustive: float  # without what earlier searches of the same set had fitted


def main(arguments: list[str] | None = None) -> int:
    """Compare, print a table and keep it; whether everything was the same, as an exit status."""
    asked = _asked(arguments)
    folder = Path(os.environ.get("FBED_DATA_DIR", ".")) / "paper"
    rows: list[Row] = []
    print(*(field.name for field in fields(Row)), sep="\t")
    for name in asked.sets:
        if not (folder / f"{name}.npz").is_file():
            print(f"{name}: not in {folder}; set FBED_DATA_DIR to the folder that holds paper/", file=sys.stderr)
            continue
        for row in compare(name, folder / f"{name}.npz", asked.limit, asked.algorithms):
            rows.append(row)
            print(*_plain(row), sep="\t", flush=True)
            _keep(rows, asked.out)
    return 0 if all(row.verdict.startswith("same") for row in rows) else 1


def compare(name: str, path: Path, limit: float, algorithms: list[str]) -> Any:
    """A row for every search on one set, as it is done."""
    X, y = _read(path)
    certified, exhaustive = (
        read_problem(X, y, list(CRITERIA.values()), options=DataOptions(family="binomial", engine=engine))
        for engine in ("certified", "exhaustive")
    )
    memo = Memo(X.shape[1], X.shape[0], BUDGET)
    for algorithm in algorithms:
        for label, criterion in CRITERIA.items():
            ours, seconds = searched(certified, criterion, ALGORITHMS[algorithm])
            twin, twin_seconds = searched(exhaustive, criterion, ALGORITHMS[algorithm], limit, memo)
            yield Row(name, label, algorithm, *judged(ours, twin), seconds, twin_seconds)


def searched(
    problem: Problem, criterion: Criterion, algorithm: dict[str, Any], limit: float = math.inf, memo: Memo | None = None
) -> tuple[Trail, float]:
    """Every scan of one search, and the seconds it took."""
    candidates = np.arange(problem.table.n_variables, dtype=np.intp)
    started = time.monotonic()
    rule = criterion.bind(problem.model.n, problem.design.n_varying(candidates))
    scanner = Scanner(problem.model, rule, 0, 1, started + limit, memo)
    trail = Trail([])
    with one_blas_thread():
        search(scanner, Plan(candidates, **algorithm), trail)
    return trail, time.monotonic() - started


def judged(ours: Trail, twin: Trail) -> tuple[str, int, int, int, int, float, float]:
    """What a row says about two searches."""
    difference = excess = 0.0
    verdict = "same" if twin.status != "time_limit" else "same as far as the twin came"
    compared = 0
    for step, other in zip(ours.steps, twin.steps, strict=False):
        if wrong := _differs(step.scan, other.scan, step.phase == "forward"):
            verdict = f"{wrong} differ in scan {compared + 1}"
            break
        compared += 1
        excess = max(excess, _excess(step.scan, other.scan))
        if step.scan.chosen and other.scan.chosen:
            size = max(1.0, other.scan.chosen.statistic)
            difference = max(difference, abs(step.scan.chosen.statistic - other.scan.chosen.statistic) / size)
    else:
        if verdict == "same" and (len(ours.steps), ours.status) != (len(twin.steps), twin.status):
            verdict = "numbers of scans differ"
    if verdict.startswith("same") and max(difference, excess) > TOLERANCE:
        verdict = "statistics differ"
    tests = sum(len(step.scan.candidates) for step in ours.steps)
    return verdict, compared, len(ours.steps), tests, len(ours.selected), difference, excess


def _differs(ours: Scan, twin: Scan, forward: bool) -> str | None:
    if ours.candidates.tolist() != twin.candidates.tolist():
        return "candidates"
    if forward and (ours.passes != twin.passes).any():
        return "survivors"
    chosen = [None if scan.chosen is None else scan.chosen.variable for scan in (ours, twin)]
    return "winners" if chosen[0] != chosen[1] else None


def _excess(ours: Scan, twin: Scan) -> float:
    """By how much a statistic is outside its interval; columns in the span of S have statistic 0 by rule."""
    outside = np.maximum(ours.lower - twin.lower, twin.lower - ours.upper)
    return float(np.max(np.where(twin.df > 0, outside / np.maximum(1.0, twin.lower), 0.0), initial=0.0))


def _read(path: Path) -> tuple[Any, Any]:
    file = np.load(path)
    if "indptr" in file:
        return sparse.csc_array(sparse.load_npz(path)), file["y"]
    return np.asfortranarray(file["X"]), file["y"]


def _plain(row: Row) -> list[Any]:
    return [f"{value:.3g}" if isinstance(value, float) else value for value in astuple(row)]


def _keep(rows: list[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(_plain(row) for row in rows)


def _asked(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exactness", description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=list(ALGORITHMS))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one search of the twin")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "exactness.csv")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
