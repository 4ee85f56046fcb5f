"""Many searches on parts of the rows, and the same loop over `fbed.select` written by hand with all threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.problems import read
from benchmarks.text import seconds, table

WANTED = 0.6
SEED = 1


def run(options: Options) -> dict[str, Any]:
    folder = os.environ.get("FBED_DATA_DIR")
    found = []
    if folder and not options.quick:
        found.append(bank(Path(folder) / "extra" / "bank_marketing.parquet", 1000))
        for name in ("hiva", "dexter"):
            problem = read(Path(folder) / "paper" / f"{name}.npz")
            found.append(pairs(name, problem.X, problem.y, 100))
    rng = np.random.default_rng(SEED)
    n, p, count = (60, 50, 4) if options.quick else (500, 20_000, 100)
    X = np.asfortranarray(rng.normal(size=(n, p)))
    found.append(pairs(f"linear, {n} × {p:,}", X, X[:, :5].sum(axis=1) + rng.normal(size=n), count))
    return {"resampling": found}


def bank(file: Path, count: int) -> dict[str, Any]:
    """Inclusion frequencies of a mixed table: so many halves."""
    import pandas as pd

    import fbed
    from fbed.inference.resamples import seeds, subsample, units_of

    frame = pd.read_parquet(file)

    def by_hand() -> dict[str, float]:
        counts = dict.fromkeys(frame.columns.drop("y"), 0)
        for seed in seeds(SEED, count)[1]:
            half = frame.iloc[subsample(units_of(len(frame)), 0.5, seed).rows].reset_index(drop=True)
            for name in fbed.select(half, "y", n_jobs=-1).selected:
                counts[name] += 1
        return {name: value / count for name, value in counts.items()}

    def together() -> dict[str, float]:
        found = fbed.inclusion(frame, "y", n_resamples=count, n_bootstrap=0, random_state=SEED, n_jobs=-1)
        return dict(zip(found.candidates, found.frequencies.tolist(), strict=True))

    return _raced(f"bank_marketing, {count:,} halves", by_hand, together)


def pairs(name: str, X: Any, y: np.ndarray, count: int) -> dict[str, Any]:
    """Complementary pairs: so many of them."""
    import fbed
    from fbed.inference.complementary import largest_q
    from fbed.inference.resamples import halves, seeds, units_of

    q = largest_q(1.0, X.shape[1], 0.75, count, "unimodal")

    def by_hand() -> dict[int, float]:
        counts = np.zeros(X.shape[1])
        for seed in seeds(SEED, count)[1]:
            for half in halves(units_of(X.shape[0]), seed):
                options = {"max_features": q, "backward": False, "n_jobs": -1}
                counts[list(fbed.select(X[half.rows], y[half.rows], **options).selected)] += 1
        return dict(enumerate((counts / (2 * count)).tolist()))

    def together() -> dict[int, float]:
        found = fbed.stability(X, y, q=q, threshold=0.75, n_resamples=2 * count, random_state=SEED, n_jobs=-1)
        return dict(zip(found.candidates, found.frequencies.tolist(), strict=True))

    return _raced(f"{name}, {count} complementary pairs", by_hand, together)


def _raced(name: str, by_hand: Callable[[], Any], together: Callable[[], Any]) -> dict[str, Any]:
    taken, used, answers = [], [], []
    for task in (by_hand, together):
        clock, processor = time.perf_counter(), _processor_time()
        answers.append(task())
        taken.append(time.perf_counter() - clock)
        used.append(_processor_time() - processor)
    return {
        "name": name,
        "by_hand": taken[0],
        "together": taken[1],
        "processor_by_hand": used[0],
        "processor_together": used[1],
        "same": answers[0] == answers[1],
    }


def _processor_time() -> float:
    """Of this process and of its children that have ended."""
    return sum(os.times()[:4])


def words(found: dict[str, Any]) -> str:
    rows = [
        [
            one["name"],
            seconds(one["by_hand"]),
            seconds(one["together"]),
            f"{one['together'] / one['by_hand']:.2f}" + ("" if one["same"] else " WRONG"),
            f"{one['processor_together'] / one['processor_by_hand']:.2f}",
        ]
        for one in found["resampling"]
    ]
    head = ["searches", "a loop by hand", "together", "ratio", "ratio of processor time"]
    return f"Wanted is a ratio of {WANTED:g} or less.\n\n" + table(head, rows)
