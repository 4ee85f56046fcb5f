"""Time limits on tables of every shape, beside every family and door: ``python -m tests.limit_shapes``.

Every search takes longer than its limit. What is told is by how much each went on beyond the limit, or beyond what a
limit of 0 takes where that is more (reading, one pass over the rows, the null model); and, for those who are late,
where they were then.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, get_ident
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.words import Corpus, documents
from scipy import sparse

import fbed

Table = tuple[Any, np.ndarray]
"""A table, and a linear predictor."""


def dense_tall(rng: np.random.Generator) -> Table:
    X = rng.normal(size=(200_000, 100))
    return X, 0.2 * X[:, ::2].sum(axis=1)


def dense_wide(rng: np.random.Generator) -> Table:
    X = rng.normal(size=(5_000, 3_000))
    return X, 0.1 * X[:, ::20].sum(axis=1)


def text(rng: np.random.Generator) -> Table:
    """Counts of words."""
    X, _ = documents(Corpus(8_000, 20_000, 80.0, first_class=0.5, topics=3, clear=12, counts=True), 1)
    return X, np.asarray(X[:, ::5] @ rng.normal(scale=0.3, size=len(range(0, X.shape[1], 5))))


def one_hot(rng: np.random.Generator) -> Table:
    """Dummies of levels that are as frequent as words."""
    n, columns, eta = 60_000, [], np.zeros(60_000)
    for levels in (5, 20, 60, 200, 500, 700, 1000, 1000):
        frequency = 1.0 / np.arange(1, levels + 1) ** 1.1
        level = rng.choice(levels, n, p=frequency / frequency.sum())
        columns.append(sparse.csc_matrix((np.ones(n), (np.arange(n), level)), shape=(n, levels)))
        eta += (rng.normal(scale=0.5, size=levels) * (rng.random(levels) < 0.3))[level]
    return sparse.hstack(columns, format="csc"), eta - 1.5


def categories(rng: np.random.Generator) -> Table:
    """Text columns of up to a thousand levels, and numbers."""
    n, columns, eta = 40_000, {}, np.zeros(40_000)
    for j, levels in enumerate((1000, 500, 300, 200, 100, 80, 60, 40, 30, 30, 20, 20, 10, 10)):
        frequency = 1.0 / np.arange(1, levels + 1)
        level = rng.choice(levels, n, p=frequency / frequency.sum())
        columns[f"c{j}"] = pd.Categorical.from_codes(level, [f"level {i}" for i in range(levels)])
        eta += rng.normal(scale=0.4, size=levels)[level]
    for j in range(100):
        columns[f"x{j}"] = rng.normal(size=n)
        eta += 0.1 * columns[f"x{j}"]
    return pd.DataFrame(columns), eta


def many_columns(rng: np.random.Generator) -> Table:
    """Far more columns than rows."""
    X = rng.normal(size=(300, 60_000))
    return X, 0.5 * X[:, :40].sum(axis=1)


def in_clusters(rng: np.random.Generator) -> Table:
    X = rng.normal(size=(40_000, 300))
    return X, 0.2 * X[:, ::3].sum(axis=1) + np.repeat(rng.normal(size=4_000), 10)


def file_by_rows(rng: np.random.Generator) -> Table:
    """A file that is mapped, larger than it is allowed to be in memory."""
    folder = Path(tempfile.mkdtemp())
    X = np.memmap(folder / "matrix", dtype=np.float64, mode="w+", shape=(400_000, 60))
    X[:] = rng.normal(size=X.shape)
    return X, 0.2 * np.asarray(X[:, ::2]).sum(axis=1)


def parquet(rng: np.random.Generator) -> Table:
    X, eta = file_by_rows(rng)
    path = Path(X.filename).parent / "table.parquet"
    pd.DataFrame(np.asarray(X), columns=[f"x{j}" for j in range(60)]).to_parquet(path, row_group_size=20_000)
    return path, eta


SHAPES = {
    shape.__name__: shape
    for shape in (
        dense_tall, dense_wide, text, one_hot, categories, many_columns, in_clusters, file_by_rows, parquet,
    )
}  # fmt: skip


def _two(rng: np.random.Generator, eta: np.ndarray) -> Any:
    return (eta + rng.logistic(size=len(eta)) > np.median(eta)).astype(int)


def _classes(rng: np.random.Generator, eta: np.ndarray) -> Any:
    edges = np.quantile(eta, [0.2, 0.4, 0.6, 0.8])
    return np.array(list("abcde"))[np.digitize(eta + 2.0 * rng.normal(size=len(eta)), edges)]


def _counts(rng: np.random.Generator, eta: np.ndarray) -> Any:
    return rng.poisson(np.exp(np.clip(eta - eta.mean(), -5, 4)) * rng.gamma(2, 0.5, size=len(eta)))


def _positive(rng: np.random.Generator, eta: np.ndarray) -> Any:
    return np.exp(np.clip(eta - eta.mean(), -5, 5)) * rng.exponential(size=len(eta)) + 1e-9


def _survival(rng: np.random.Generator, eta: np.ndarray) -> Any:
    return np.round(_positive(rng, eta), 2) + 0.01, rng.random(len(eta)) < 0.7


Outcome = Callable[[np.random.Generator, np.ndarray], Any]

FAMILIES: dict[str, tuple[Outcome, dict[str, Any]]] = {
    "gaussian": (lambda rng, eta: eta + rng.normal(size=len(eta)), {"family": "gaussian"}),
    "binomial": (_two, {"family": "binomial"}),
    "multinomial": (_classes, {"family": "multinomial"}),
    "ordinal": (lambda rng, eta: pd.Categorical(_classes(rng, eta), ordered=True), {"family": "ordinal"}),
    "poisson": (_counts, {"family": "poisson"}),
    "negative_binomial": (_counts, {"family": "negative_binomial"}),
    "gamma": (_positive, {"family": "gamma"}),
    "cox": (_survival, {"family": "cox"}),
    "weibull": (_survival, {"family": "weibull"}),
    "quantile": (_positive, {"family": "quantile"}),
    "robust": (_positive, {"family": "robust"}),
    "spearman": (_positive, {"family": "spearman"}),
    "binomial, score": (_two, {"family": "binomial", "test": "score"}),
    "poisson, wald": (_counts, {"family": "poisson", "test": "wald"}),
    "binomial, exhaustive": (_two, {"family": "binomial", "engine": "exhaustive"}),
    "binomial, FBS": (_two, {"family": "binomial", "early_dropping": False}),
    "gaussian, HC3": (_positive, {"family": "gaussian", "cov": "HC3"}),
    "gaussian, cluster": (_positive, {"family": "gaussian", "cov": "cluster", "cluster": 10}),
    "binomial, cluster": (_two, {"family": "binomial", "cov": "cluster", "cluster": 10}),
    "gee": (_two, {"family": "gee", "cluster": 10}),
    "mixed": (_positive, {"family": "mixed", "cluster": 10}),
}

DOORS: dict[str, Callable[..., Any]] = {
    "select": fbed.select,
    "path": fbed.path,
    "stability": fbed.stability,
    "inclusion": fbed.inclusion,
    "tune": fbed.tune,
}
ELSEWHERE = ("gaussian", "binomial", "poisson", "cox")


class Watch:
    """Tells where the main thread is at a moment."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @contextmanager
    def after(self, seconds: float) -> Iterator[None]:
        done, here = Event(), get_ident()

        def look() -> None:
            if not done.wait(seconds):
                stack = traceback.extract_stack(sys._current_frames()[here])
                self.seen = [f"{Path(s.filename).name}:{s.lineno} {s.name}" for s in stack[-8:]]

        thread = Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def seconds_of(door: str, table: Any, y: Any, asked: dict[str, Any], limit: float, watch: Watch | None = None) -> Any:
    """Wall and processor seconds of a call, and how it ended."""
    started, used = time.perf_counter(), time.process_time()
    with (watch or Watch()).after(limit + 0.9):
        try:
            found = DOORS[door](table, y, time_limit=limit, **asked)
            ended = f"{getattr(found, 'status', 'no status')}, {len(getattr(found, 'selected', ()))}"
        except fbed.InvalidInput as error:
            ended = f"refused: {str(error)[:60]}"
    return time.perf_counter() - started, time.process_time() - used, ended


def options(family: str, shape: str, n: int, jobs: int) -> dict[str, Any]:
    asked = {**FAMILIES[family][1], "n_jobs": jobs}
    if "cluster" in asked:
        asked["cluster"] = np.arange(n) // asked["cluster"]
    return {**asked, "memory_limit": "2GB"} if shape in ("file_by_rows", "parquet") else asked


def belongs(shape: str, family: str, door: str) -> bool:
    """Whether a family is tried on a shape."""
    if shape in ("file_by_rows", "parquet"):
        return family in ELSEWHERE and door == "select"
    clustered = "cluster" in FAMILIES[family][1]
    return clustered == (shape == "in_clusters") or (clustered and shape == "categories")


def tried(shape: str, families: list[str], doors: list[str], limits: list[float], jobs: int, most: float) -> int:
    rng = np.random.default_rng(1)
    table, eta = SHAPES[shape](rng)
    late = 0
    for family in families:
        y = FAMILIES[family][0](rng, np.asarray(eta, dtype=float).ravel())
        for door in doors:
            if not belongs(shape, family, door):
                continue
            asked = options(family, shape, len(eta), jobs)
            nothing = seconds_of(door, table, y, asked, 0.0)
            told = [f"0: {nothing[0]:.2f}"]
            for limit in limits:
                watch = Watch()
                wall, used, ended = seconds_of(door, table, y, asked, limit, watch)
                over = wall - max(limit, nothing[0])
                told.append(f"{limit:g}: {over:+.2f} ({used:.2f} of {wall:.2f}; {ended})")
                if over > most:
                    late += 1
                    told.append(f"LATE at {watch.seen}")
            print(f"{shape}, {family}, {door}: {'; '.join(told)}", flush=True)
    return late


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.limit_shapes", description=__doc__)
    parser.add_argument("shapes", nargs="*", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--doors", nargs="*", default=["select"], choices=DOORS)
    parser.add_argument("--limits", nargs="*", type=float, default=[0.3, 1.0, 3.0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=float, default=1.0, help="seconds that a search may go on")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    late = sum(
        tried(shape, asked.families, asked.doors, asked.limits, asked.jobs, asked.most)
        for shape in asked.shapes or SHAPES
    )
    print(f"{late} went on for more than {asked.most:g} s")
    return int(late > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(main())
