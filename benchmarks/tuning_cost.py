"""What tuning costs beside the searches that it cannot do without, and a grid beside its dearest configuration."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fresh import in_fresh_process
from benchmarks.options import Options
from benchmarks.problems import logistic, read
from benchmarks.text import seconds, table

WANTED, WANTED_GRID = 1.5, 3.0
BIC_LIKE = {"alphas": (), "gammas": (0.0, 0.5, 1.0, None)}
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "madelon": ("paper/madelon.npz", {}),
    "hiva": ("paper/hiva.npz", BIC_LIKE),
    "dexter": ("paper/dexter.npz", {}),
    "bank_marketing": ("extra/bank_marketing.parquet", {}),
}


def run(options: Options) -> dict[str, Any]:
    if options.quick:
        return {"sets": [in_fresh_process(measured, threads=1, name="toy", folder="", turns=1)]}
    folder = os.environ.get("FBED_DATA_DIR", "")
    there = [name for name, (file, _) in SETS.items() if (Path(folder) / file).exists()]
    turns = max(1, min(options.turns, 3))
    return {"sets": [in_fresh_process(measured, threads=1, name=name, folder=folder, turns=turns) for name in there]}


def load(name: str, folder: str) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """Predictors, classes and the grid."""
    if name == "toy":
        problem = logistic(120, 8, 2)
        return problem.X, problem.y, {"alphas": (0.05,), "gammas": (None,)}
    file, grid = SETS[name]
    if file.endswith(".npz"):
        problem = read(Path(folder) / file)
        return problem.X, problem.y, grid
    frame = pd.read_parquet(Path(folder) / file)
    return frame, frame.pop("y").to_numpy(), grid


def measured(name: str, folder: str, threads: int, turns: int) -> dict[str, Any]:
    """Processor seconds, the best of some turns: a fit, `fbed.path` on every fold, and a fit by each of the dearest."""
    import fbed

    fbed.FBEDClassifier(alphas=(0.05,), gammas=()).fit(*load("toy", "")[:2])  # what is imported at first is imported
    X, y, grid = load(name, folder)
    found = [_one_turn(X, y, grid, threads) for _ in range(turns)]
    return {
        "set": name,
        "settings": found[0]["settings"],
        "fit": min(one["fit"] for one in found),
        "folds": min(one["folds"] for one in found),
        "alone": {setting: min(one["alone"][setting] for one in found) for setting in found[0]["alone"]},
    }


def _one_turn(X: Any, y: np.ndarray, grid: dict[str, Any], threads: int) -> dict[str, Any]:
    import fbed

    fit, model = _timed(lambda: fbed.FBEDClassifier(n_jobs=threads, **grid).fit(X, y))
    levels = [s.value for s in model.path_.searches.settings if s.criterion == "lr"]
    grid = {**grid, "alphas": tuple(dict.fromkeys(levels))}  # those that the fit came to
    folds, alone = 0.0, {}
    for train, _ in model.path_.folds:
        part = X.iloc[train].reset_index(drop=True) if hasattr(X, "iloc") else X[train]
        folds += _timed(lambda part=part, train=train: fbed.path(part, y[train], n_jobs=threads, **grid))[0]
    for setting in dearest(model.path_.searches.settings):
        one = fbed.FBEDClassifier(n_jobs=threads, **alone_in_a_grid(setting))
        alone[f"{setting}"] = _timed(lambda one=one: one.fit(X, y))[0]
    return {"settings": model.path_.n_settings, "fit": fit, "folds": folds, "alone": alone}


def dearest(settings: Any) -> list[Any]:
    """Candidates for the dearest: the largest models, with all the runs there are, or without early dropping."""
    levels = [s.value for s in settings if s.criterion == "lr"]
    loosest = [s for s in settings if (s.value == max(levels) if s.criterion == "lr" else s.value == 0.0)]
    return [s for s in loosest or settings if s.k is None or s.k == max(t.k or 0 for t in settings)]


def alone_in_a_grid(setting: Any) -> dict[str, Any]:
    """Options of a grid with one configuration."""
    values = {"alphas" if setting.criterion == "lr" else "gammas": (setting.value,)}
    ks = {"ks": () if setting.k is None else (setting.k,), "fbs": setting.k is None}
    return {"alphas": (), "gammas": (), **values, **ks}


def _timed(task: Any) -> tuple[float, Any]:
    started = time.process_time()
    answer = task()
    return time.process_time() - started, answer


def words(found: dict[str, Any]) -> str:
    rows = []
    for one in found["sets"]:
        dearest = max(one["alone"].values())
        first = f"{one['set']} ({one['settings']} configurations)"
        ratios = [f"{one['fit'] / one['folds']:.2f}", seconds(dearest), f"{one['fit'] / dearest:.2f}"]
        rows.append([first, seconds(one["fit"]), seconds(one["folds"]), *ratios])
    return "\n\n".join(
        [
            "`FBEDClassifier().fit` on one thread, processor seconds, the best of up to three turns: five folds, the "
            "choice, BBC-CV and the fit on all rows, against `fbed.path` on the rows of each fold (at most "
            f"{WANTED:g} times is wanted), and against a fit with the dearest configuration alone (at most "
            f"{WANTED_GRID:g} times).",
            table(["", "fit", "paths of the folds", "times", "dearest alone", "times"], rows),
        ]
    )
