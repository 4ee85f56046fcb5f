"""Memory: what a run adds to a matrix of a gigabyte or more, measured in a process that has done nothing else."""

from __future__ import annotations

import resource
import sys
from typing import Any

import numpy as np

from benchmarks.fresh import in_fresh_process
from benchmarks.options import Options
from benchmarks.problems import Problem, logistic, sparse_logistic
from benchmarks.text import seconds, table

N_REAL = 5
WANTED = 0.25
CRITERIA = {"EBIC": {"criterion": "ebic"}, "LR test, α = .01": {"alpha": 0.01}}
RUNS = {  # the test lets chance in, about p/100 variables: too many for the 98,000 columns of the sparse matrix
    "float64": ("EBIC", "LR test, α = .01"),
    "float32": ("EBIC", "LR test, α = .01"),
    "CSC": ("EBIC",),
}


def run(options: Options) -> dict[str, Any]:
    million = 1 if options.quick else 140  # values of 8 bytes: 1 GB in every storage
    return {
        "runs": [
            in_fresh_process(measured, threads=1, storage=storage, criterion=criterion, million=million)
            for storage, criteria in RUNS.items()
            for criterion in criteria[: 1 if options.quick else None]
        ]
    }


def measured(storage: str, criterion: str, million: int, threads: int) -> dict[str, Any]:
    """Bytes of X and how far the peak rises above what was resident before; earlier peaks can only make that larger."""
    import fbed

    small = logistic(200, 20, N_REAL)
    fbed.select(small.X, small.y, family="binomial")  # libraries are loaded and have made their buffers
    problem = _problem(storage, million)
    size = _bytes(problem)
    before = _resident()
    result = fbed.select(problem.X, problem.y, family="binomial", k=1, n_jobs=threads, **CRITERIA[criterion])
    return {
        "storage": storage,
        "criterion": criterion,
        "shape": problem.shape,
        "bytes": size,
        "added": max(0, _peak() - before),
        "largest_set": sum(row.action == "add" for row in result.trace),
        "seconds": result.seconds,
        "found_all": bool(np.isin(np.arange(N_REAL), result.indices).all()),
    }


def _problem(storage: str, million: int) -> Problem:
    if storage == "CSC":
        return sparse_logistic(n=100_000, p=700 * million, stride=100, n_real=N_REAL)  # 12 bytes a value
    return logistic(20_000, 400 * million // np.dtype(storage).itemsize, N_REAL, dtype=storage)


def _bytes(problem: Problem) -> int:
    if not problem.is_sparse:
        return int(problem.X.nbytes)
    return int(problem.X.data.nbytes + problem.X.indices.nbytes + problem.X.indptr.nbytes)


def _resident() -> int:
    """Bytes in memory now; the peak so far where the system does not tell."""
    try:
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[1]) * resource.getpagesize()
    except OSError:
        return _peak()


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def words(found: dict[str, Any]) -> str:
    rows = [
        [f"{one['storage']}, {one['criterion']}", " × ".join(f"{size:,}" for size in one["shape"]),
         f"{one['bytes'] / 2**30:.2f} GB", f"{one['added'] / 2**20:.0f} MB", f"{one['added'] / one['bytes']:.1%}",
         str(one["largest_set"]), seconds(one["seconds"])]
        for one in found["runs"]
    ]  # fmt: skip
    missed = [f"{one['storage']}, {one['criterion']}" for one in found["runs"] if not one["found_all"]]
    return "\n\n".join(
        [
            f"FBED^1, one thread: resident memory that a run adds at its peak; at most {WANTED:.0%} of X is wanted.",
            table(["", "shape", "X", "added", "of X", "largest S", "seconds"], rows),
            f"WRONG: real predictors are missing with {', '.join(missed)}"
            if missed
            else "All real predictors were found.",
        ]
    )
