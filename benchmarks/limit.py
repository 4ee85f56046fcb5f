"""Near the limit: a search costs little more than reading the matrix once, which is what one `X.T @ r` does."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.options import Options
from benchmarks.problems import logistic
from benchmarks.text import seconds, table

N_REAL = 20
TARGETS = {"FBED^0": 6.0, "FBED^1": 12.0}


def run(options: Options) -> dict[str, Any]:
    n, p = (2_000, 300) if options.quick else (10_000, 10_000)
    allowed = sorted({1, os.cpu_count() or 1})
    runs = [in_fresh_process(measured, threads=threads, n=n, p=p, turns=options.turns) for threads in allowed]
    return {"n": n, "p": p, "runs": runs}


def measured(n: int, p: int, threads: int, turns: int) -> dict[str, Any]:
    """Times of a product and of two searches on the same matrix, and whether the truth was found."""
    import fbed

    problem = logistic(n, p, N_REAL, effect=0.4)
    residual = problem.y - problem.y.mean()
    found: dict[str, list[int]] = {}

    def search(k: int) -> None:
        result = fbed.select(problem.X, problem.y, family="binomial", criterion="ebic", k=k, n_jobs=threads)
        found[f"FBED^{k}"] = sorted(result.indices.tolist())

    tasks = {"X.T @ r": lambda: problem.X.T @ residual, "FBED^0": lambda: search(0), "FBED^1": lambda: search(1)}
    best = best_of_turns(tasks, turns)
    right = all(np.isin(np.arange(N_REAL), answer).all() for answer in found.values())
    sizes = {search: len(answer) for search, answer in found.items()}
    return {"threads": threads, "best": best, "found_all": right, "sizes": sizes}


def words(found: dict[str, Any]) -> str:
    rows = [line for run in found["runs"] for line in _lines(run)]
    sizes = ", ".join(f"{search} selects {size}" for search, size in found["runs"][0]["sizes"].items())
    right = all(run["found_all"] for run in found["runs"])
    truth = "all real ones are found" if right else "WRONG: real predictors are missing"
    return "\n\n".join(
        [
            f"Dense {found['n']:,} × {found['p']:,} float64, Fortran order, logistic, {N_REAL} real predictors, EBIC; "
            f"{truth} ({sizes}). A product of as many threads is the measure.",
            table(["", "threads", "wall", "processor", "× product (wall)", "× product (processor)", "wanted"], rows),
        ]
    )


def _lines(run: dict[str, Any]) -> list[list[str]]:
    product, threads = run["best"]["X.T @ r"], str(run["threads"])
    return [
        [name, threads, seconds(used["wall"]), seconds(used["cpu"]), f"{used['wall'] / product['wall']:.1f}",
         f"{used['cpu'] / product['cpu']:.1f}", f"{TARGETS[name]:g}" if name in TARGETS else "–"]
        for name, used in run["best"].items()
    ]  # fmt: skip
