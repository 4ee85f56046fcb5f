"""Growth in the number of rows, up to millions: a fixed number of columns, and as strong evidence at every size."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.growth import exponent
from benchmarks.options import Options
from benchmarks.text import seconds, table

COLUMNS, REAL = {"gaussian": 100, "binomial": 50}, 10  # 4 and 2 GB of 5,000,000 rows
SIGNAL = 12.0  # standard errors of every real effect
WANTED = 1.05
SEARCHES = {"FBED^1": {"k": 1}, "FBS": {"early_dropping": False}}


def run(options: Options) -> dict[str, Any]:
    sizes = (20_000, 40_000) if options.quick else (50_000, 158_000, 500_000, 1_580_000, 5_000_000)
    families = [family for family in COLUMNS if not options.only or family in options.only]
    kept = options.kept("rows").get("families", {}) if options.only else {}
    turns = max(1, min(options.turns, 3))
    found = {
        family: [in_fresh_process(measured, threads=1, family=family, n=n, turns=turns) for n in sizes]
        for family in families
    }
    return {"families": {**kept, **found}}


def measured(family: str, n: int, threads: int, turns: int) -> dict[str, Any]:
    """Times of the searches on so many rows, and whether all real columns were found."""
    import fbed

    X, y = data(family, n)
    found = []

    def search(name: str) -> None:
        result = fbed.select(X, y, family=family, criterion="ebic", n_jobs=threads, **SEARCHES[name])
        found.append(set(range(REAL)) <= set(result.indices.tolist()))

    best = best_of_turns({name: (lambda name=name: search(name)) for name in SEARCHES}, turns)
    return {"n": n, "best": best, "right": all(found)}


def data(family: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent columns, the first of which matter; the matrix is filled in place, column after column."""
    rng = np.random.default_rng(7)
    X = np.empty((n, COLUMNS[family]), order="F")
    for j in range(X.shape[1]):
        X[:, j] = rng.standard_normal(n)
    size = SIGNAL / np.sqrt(n if family == "gaussian" else n / 4.0)
    eta = X[:, :REAL] @ np.full(REAL, size)
    if family == "gaussian":
        return X, eta + rng.standard_normal(n)
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)


def words(found: dict[str, Any]) -> str:
    parts = [
        f"Dense float64, {REAL} columns that matter, each by {SIGNAL:g} standard errors, EBIC, one thread, processor "
        f"seconds. The exponent is the slope of log time on log rows; at most {WANTED} is wanted."
    ]
    for family, points in found["families"].items():
        sizes = [point["n"] for point in points]
        rows = []
        for search in SEARCHES:
            times = [point["best"][search]["cpu"] for point in points]
            rows.append([search, *map(seconds, times), f"{exponent(sizes, times):.2f}"])
        head = [f"{family}, {COLUMNS[family]} columns", *(f"{size:,}" for size in sizes), "exponent"]
        parts.append(table(head, rows))
    wrong = [f"{family}, {p['n']:,}" for family, points in found["families"].items() for p in points if not p["right"]]
    parts.append(f"WRONG: real columns are missing at {'; '.join(wrong)}" if wrong else "Every real column was found.")
    return "\n\n".join(parts)
