"""Tall data: many rows, some weak effects among 200 columns, beside R's glmnet with its path of 100 penalties."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.options import Options
from benchmarks.race import threads_allowed
from benchmarks.text import seconds, table

COLUMNS, REAL = 200, 20
FAMILIES = {"gaussian": 5.0, "binomial": 1.5, "poisson": 1.25, "cox": 1.25}  # how many times faster it shall be
SEARCHES = {"FBED^1": {"k": 1}, "FBS": {"early_dropping": False}, "FBED^1 by rows": {"k": 1}}


def run(options: Options) -> dict[str, Any]:
    n = 20_000 if options.quick else 1_000_000
    families = [family for family in FAMILIES if not options.only or family in options.only]
    kept = options.kept("tall").get("families", {}) if options.only else {}
    found = {family: _both(family, n, options) for family in families}
    return {"n": n, "families": {**kept, **found}}


def _both(family: str, n: int, options: Options) -> dict[str, Any]:
    turns = max(1, min(options.turns, 3))
    out = in_fresh_process(measured, threads=1, family=family, n=n, turns=turns)
    return {**out, "glmnet": glmnet(family, *data(family, n), turns)}


def data(family: str, n: int) -> tuple[Any, Any]:
    """Independent columns, the first of which matter a little."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((COLUMNS, n)).T
    eta = X[:, :REAL] @ np.full(REAL, 0.05 * max(1.0, (1e6 / n) ** 0.5 / 2))
    if family == "gaussian":
        return X, eta + rng.standard_normal(n)
    if family == "binomial":
        return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    if family == "poisson":
        return X, rng.poisson(np.exp(eta)).astype(float)
    time, censored = rng.exponential(size=n) * np.exp(-eta), 1.5 * rng.exponential(size=n)
    return X, (np.minimum(time, censored), time <= censored)


def measured(family: str, n: int, threads: int, turns: int) -> dict[str, Any]:
    """Times of the searches, and whether they agree with the ordinary engine on a part of the rows."""
    import fbed
    from fbed.families import builders

    X, y = data(family, n)
    by_rows = np.ascontiguousarray(X)
    results = {}

    def search(name: str) -> None:
        table = by_rows if "by rows" in name else X
        results[name] = fbed.select(table, y, family=family, n_jobs=threads, **SEARCHES[name])

    best = best_of_turns({name: (lambda name=name: search(name)) for name in SEARCHES}, turns)
    part = slice(0, min(n, 20_000))
    some = y[part] if not isinstance(y, tuple) else tuple(values[part] for values in y)
    tall = fbed.select(X[part], some, family=family)
    builders.TALL = np.inf
    ordinary = fbed.select(X[part], some, family=family)
    right = tall.selected == ordinary.selected and tall.n_tests == ordinary.n_tests
    found = set(range(REAL)) <= set(results["FBED^1"].indices.tolist())
    right &= results["FBED^1"].selected == results["FBED^1 by rows"].selected
    return {"best": best, "n_selected": len(results["FBED^1"].selected), "right": right and found}


def glmnet(family: str, X: Any, y: Any, turns: int) -> dict[str, Any] | None:
    """Processor seconds of R's glmnet, best of several; None where it is not installed."""
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        outcome, event = y if isinstance(y, tuple) else (y, None)
        np.asarray(X, dtype=float).T.tofile(Path(folder, "X"))
        np.asarray(outcome, dtype=float).tofile(Path(folder, "y"))
        np.array(X.shape, dtype=np.int32).tofile(Path(folder, "shape"))
        if event is not None:
            event.astype(float).tofile(Path(folder, "event"))
        call = ["Rscript", str(Path(__file__).with_name("tall.R")), folder, family]
        runs = [
            subprocess.run(call, capture_output=True, text=True, env=threads_allowed(1), check=False).stdout.split()
            for _ in range(turns)
        ]
    runs = [run for run in runs if len(run) == 3]
    return {"cpu": min(float(run[0]) for run in runs), "version": runs[0][2]} if runs else None


def words(found: dict[str, Any]) -> str:
    rows = []
    for family, one in found["families"].items():
        mine, peer = one["best"]["FBED^1"]["cpu"], (one["glmnet"] or {}).get("cpu")
        ratio = f"{peer / mine:.1f}×" if peer else "–"
        ratio += f" ({FAMILIES[family]:g}× is wanted)"
        ours = [seconds(one["best"][name]["cpu"]) for name in SEARCHES]
        rows.append([family, *ours, seconds(peer), ratio])
    wrong = [family for family, one in found["families"].items() if not one["right"]]
    return "\n\n".join(
        [
            f"{found['n']:,} rows, {COLUMNS} columns of float64 of which {REAL} matter a little, likelihood-ratio test "
            "at α = .05, one thread, processor seconds; R's glmnet with 100 penalties. Each column lies in one piece; "
            "'by rows' is NumPy's default order.",
            table(["family", *SEARCHES, "glmnet", "FBED^1 is faster"], rows),
            f"WRONG: another selection than the ordinary engine's: {', '.join(wrong)}"
            if wrong
            else "Every real column was found; on 20,000 rows the ordinary engine selects the same by as many tests.",
        ]
    )
