"""Many classes, and classes in order, beside R's glmnet with its path of 100 penalties (it has no ordered classes)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.options import Options
from benchmarks.race import threads_allowed
from benchmarks.text import seconds, table

SEARCHES: dict[str, dict[str, Any]] = {
    "FBED^0, α = .05": {"k": 0},
    "FBED^1, α = .05": {"k": 1},
    "FBED^0, EBIC": {"k": 0, "criterion": "ebic"},
    "FBED^1, EBIC": {"k": 1, "criterion": "ebic"},
}
CHECKED = 12  # columns of which the whole search is compared with fitting every model

Data = tuple[Any, np.ndarray, str]


def correlated(quick: bool) -> Data:
    """26 classes around centres of few dimensions, seen through many columns that resemble their neighbours."""
    n, p, n_classes, dimensions = (120, 20, 5, 4) if quick else (1560, 617, 26, 20)
    rng = np.random.default_rng(1)
    y = np.arange(n) % n_classes
    hidden = 1.2 * rng.normal(size=(n_classes, dimensions))[y] + rng.normal(size=(n, dimensions))
    distance = np.linspace(0, 1, p)[:, None] - np.sort(rng.random(dimensions))
    loadings = np.exp(-((distance / 0.06) ** 2)) + 0.1 * rng.normal(size=(p, dimensions))
    return hidden @ loadings.T + 0.7 * rng.normal(size=(n, p)), y, "multinomial"


def wide(quick: bool) -> Data:
    """11 classes, many more columns than rows, one in ten of them different between the classes."""
    n, p, n_classes = (60, 40, 4) if quick else (174, 12_533, 11)
    rng = np.random.default_rng(1)
    y = np.sort(np.arange(n) % n_classes)
    X = rng.normal(size=(n, p))
    X[:, : p // 10] += rng.normal(size=(n_classes, p // 10))[y]
    return X, y, "multinomial"


def digits(quick: bool) -> Data:
    """Images of digits, 10 classes: pixels that some digits never have."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return (X[:150, 2:20], y[:150], "multinomial") if quick else (X, y, "multinomial")


def ordered(quick: bool) -> Data:
    """5 classes in order."""
    n, p = (100, 30) if quick else (500, 20_000)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p))
    eta = X[:, :8] @ np.array([1.0, -1.0, 0.8, -0.8, 0.6, 0.6, 0.5, -0.5])
    return X, np.digitize(eta + rng.logistic(size=n), [-2, 0, 1, 3]), "ordinal"


def clicks(quick: bool) -> Data:
    """3 classes beside dummies of categories whose levels are as frequent as words, most of them rare."""
    X, eta, rng = _dummies(quick)
    return X, (eta + rng.gumbel(size=eta.shape)).argmax(axis=1), "multinomial"


def ordered_clicks(quick: bool) -> Data:
    """4 classes in order beside the same dummies."""
    X, eta, rng = _dummies(quick)
    return X, np.digitize(eta[:, 0] + rng.logistic(size=len(eta)), [-1.0, 0.5, 2.0]), "ordinal"


def _dummies(quick: bool) -> tuple[Any, np.ndarray, np.random.Generator]:
    """A sparse table of dummies, and what some of them do to each of three predictors."""
    n, sizes = (300, (4, 9)) if quick else (60_000, (10, 30, 100, 300, 1000, 2100))
    rng = np.random.default_rng(1)
    columns, eta = [], np.zeros((n, 3))
    for levels in sizes:
        frequency = 1.0 / np.arange(1, levels + 1) ** 1.1
        level = rng.choice(levels, n, p=frequency / frequency.sum())
        columns.append(sparse.csc_matrix((np.ones(n), (np.arange(n), level)), shape=(n, levels)))
        eta += (rng.normal(scale=0.7, size=(levels, 3)) * (rng.random(levels) < 0.15)[:, None])[level]
    X = sparse.hstack(columns).tocsc()
    return X[:, np.diff(X.indptr) > 1], eta, rng


DATA: dict[str, Callable[[bool], Data]] = {
    "26 classes of correlated columns": correlated,
    "11 classes, p ≫ n": wide,
    "digits": digits,
    "ordered, p ≫ n": ordered,
    "3 classes beside sparse dummies": clicks,
    "ordered beside sparse dummies": ordered_clicks,
}


def run(options: Options) -> dict[str, Any]:
    names = [name for name in DATA if not options.only or name in options.only]
    kept = options.kept("classes").get("data", {}) if options.only else {}
    return {"data": {**kept, **{name: _both(name, options) for name in names}}}


def _both(name: str, options: Options) -> dict[str, Any]:
    turns = max(1, min(options.turns, 3))
    out = in_fresh_process(measured, threads=1, name=name, quick=options.quick, turns=turns, limit=options.limit)
    return {**out, "glmnet": _glmnet(name, options.quick, turns)}


def measured(name: str, quick: bool, threads: int, turns: int, limit: float) -> dict[str, Any]:
    """Times of the searches, and whether some columns give the same by fitting every model."""
    import fbed

    warnings.simplefilter("ignore")
    X, y, family = DATA[name](quick)
    X, results = X if sparse.issparse(X) else np.asfortranarray(X), {}

    def search(which: str) -> None:
        results[which] = fbed.select(X, y, family=family, time_limit=limit, n_jobs=threads, **SEARCHES[which])

    best = best_of_turns({which: lambda which=which: search(which) for which in SEARCHES}, turns)
    some = np.linspace(0, X.shape[1] - 1, CHECKED).astype(int)
    both = [fbed.select(X[:, some], y, family=family, engine=engine, k=1) for engine in ("certified", "exhaustive")]
    return {
        "shape": X.shape,
        "classes": len(np.unique(y)),
        "best": best,
        "selected": {which: len(result.selected) for which, result in results.items()},
        "status": {which: result.status for which, result in results.items()},
        "right": both[0].selected == both[1].selected and both[0].n_tests == both[1].n_tests,
    }


def _glmnet(name: str, quick: bool, turns: int) -> dict[str, Any] | None:
    """Processor seconds of R's glmnet, best of several; None where it is not installed or has no such model."""
    X, y, family = DATA[name](quick)
    if shutil.which("Rscript") is None or family != "multinomial":
        return None
    with tempfile.TemporaryDirectory() as folder:
        _write(X, Path(folder))
        y.astype(float).tofile(Path(folder, "y"))
        np.array(X.shape, dtype=np.int32).tofile(Path(folder, "shape"))
        call = ["Rscript", str(Path(__file__).with_name("classes.R")), folder]
        runs = [
            subprocess.run(call, capture_output=True, text=True, env=threads_allowed(1), check=False).stdout.split()
            for _ in range(turns)
        ]
    runs = [run for run in runs if len(run) == 3]
    return {"cpu": min(float(run[0]) for run in runs), "version": runs[0][2]} if runs else None


def _write(X: Any, folder: Path) -> None:
    """The values column after column; of a sparse table the entries, their rows, and where columns begin."""
    if sparse.issparse(X):
        X.indices.astype(np.int32).tofile(folder / "rows")
        X.indptr.astype(np.int32).tofile(folder / "begins")
        X.data.astype(float).tofile(folder / "X")
    else:
        np.asarray(X, dtype=float).T.tofile(folder / "X")


def _cell(one: dict[str, Any], which: str) -> str:
    """`>` marks a search that the time limit stopped."""
    stopped = "> " if one["status"][which] == "time_limit" else ""
    return f"{stopped}{seconds(one['best'][which]['cpu'])} ({one['selected'][which]})"


def words(found: dict[str, Any]) -> str:
    rows = []
    for name, one in found["data"].items():
        peer = (one["glmnet"] or {}).get("cpu")
        rows.append(
            [f"{name}, {one['shape'][0]:,} × {one['shape'][1]:,}"]
            + [_cell(one, which) for which in SEARCHES]
            + [seconds(peer)]
        )
    wrong = [name for name, one in found["data"].items() if not one["right"]]
    return "\n\n".join(
        [
            "Processor seconds, one thread, variables selected in parentheses; R's glmnet with 100 penalties. `>` "
            "marks searches that were stopped.",
            table(["", *SEARCHES, "glmnet (R)"], rows),
            f"WRONG: another selection than by fitting every model for {', '.join(wrong)}"
            if wrong
            else f"On {CHECKED} of the columns of each, the searches are those of fitting every model.",
        ]
    )
