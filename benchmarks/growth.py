"""Growth: seconds against rows and against columns over two decades, with EBIC and the same real predictors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.options import Options
from benchmarks.problems import logistic
from benchmarks.text import seconds, table

N_REAL = 5
STEADY = 1000  # rows while columns grow, columns while rows grow
WANTED = 1.1
SEARCHES = {"FBED^0": 0, "FBED^1": 1}


def run(options: Options) -> dict[str, Any]:
    steady, largest, n_sizes = (600, 2000, 2) if options.quick else (STEADY, 100_000, 7)
    sizes = [round(size) for size in np.geomspace(1000, largest, n_sizes)]
    shapes = {"rows": [(size, steady) for size in sizes], "columns": [(steady, size) for size in sizes]}
    points = {
        what: [in_fresh_process(measured, threads=1, n=n, p=p, turns=options.turns) for n, p in shapes[what]]
        for what in shapes
    }
    return {"steady": steady, "points": points}


def measured(n: int, p: int, threads: int, turns: int) -> dict[str, Any]:
    """Times of the searches on one problem, and whether all of them found the truth."""
    import fbed

    problem = logistic(n, p, N_REAL, effect=1.0)
    found = []

    def search(k: int) -> None:
        result = fbed.select(problem.X, problem.y, family="binomial", criterion="ebic", gamma=1.0, k=k, n_jobs=threads)
        found.append(sorted(result.indices.tolist()))

    tasks = {name: (lambda k=k: search(k)) for name, k in SEARCHES.items()}
    best = best_of_turns(tasks, turns)
    return {"n": n, "p": p, "best": best, "right": all(answer == list(range(N_REAL)) for answer in found)}


def exponent(sizes: list[int], times: list[float]) -> float:
    """Slope of log time on log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def curves(found: dict[str, Any], what: str) -> tuple[list[int], dict[str, list[float]]]:
    """Sizes, and processor seconds of each search."""
    points = found["points"][what]
    sizes = [point["n" if what == "rows" else "p"] for point in points]
    return sizes, {search: [point["best"][search]["cpu"] for point in points] for search in SEARCHES}


def words(found: dict[str, Any]) -> str:
    parts = [
        f"Dense float64, logistic, EBIC with γ = 1, {N_REAL} real predictors, one thread, processor seconds. "
        "The exponent is the slope of log time on log size over all sizes, and over the last decade alone; at most "
        f"{WANTED} is wanted.",
    ]
    for what in found["points"]:
        sizes, times = curves(found, what)
        last = [i for i, size in enumerate(sizes) if size >= sizes[-1] / 10]
        rows = [
            [search, *map(seconds, t), f"{exponent(sizes, t):.2f}",
             f"{exponent([sizes[i] for i in last], [t[i] for i in last]):.2f}"]
            for search, t in times.items()
        ]  # fmt: skip
        parts.append(table([what, *(f"{size:,}" for size in sizes), "exponent", "last decade"], rows))
    missed = [f"{p['n']} × {p['p']}" for points in found["points"].values() for p in points if not p["right"]]
    parts.append(f"WRONG: another selection at {', '.join(missed)}" if missed else "Every run selected the real ones.")
    return "\n\n".join(parts)


def draw(found: dict[str, Any], folder: Path) -> None:
    """Time against rows and against columns, with a line of slope 1 to compare."""
    from benchmarks.picture import COLOURS, save, subplots

    figure, panels = subplots(1, 2, (9.0, 3.8))
    for panel, what in zip(panels, found["points"], strict=True):
        sizes, times = curves(found, what)
        for colour, (search, t) in zip(COLOURS, times.items(), strict=False):
            panel.loglog(sizes, t, "o-", color=colour, label=f"{search}: exponent {exponent(sizes, t):.2f}")
        top = times["FBED^0"][-1] * 0.6
        panel.loglog(sizes, top * np.array(sizes) / sizes[-1], "--", color="0.6", label="linear growth")
        other = "columns" if what == "rows" else "rows"
        panel.set(xlabel=what, ylabel="seconds, one thread", title=f"{found['steady']:,} {other}")
        panel.legend(frameon=False)
    save(figure, folder / "growth")
