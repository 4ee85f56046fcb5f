"""Categories of 3 to 500 levels with skewed frequencies: alone, and beside many sparse counts."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.options import Options
from benchmarks.race import export, race
from benchmarks.text import seconds, table

SEARCHES: dict[str, dict[str, Any]] = {
    "α = .05, K = 0": {"k": 0},
    "α = .05, K = 1": {"k": 1},
    "EBIC, K = 0": {"criterion": "ebic", "k": 0},
    "EBIC, K = 1": {"criterion": "ebic", "k": 1},
    "BIC, K = ∞": {"criterion": "bic", "k": math.inf},
}


PEERS = ("glmnet (R)", "glmnet (PyPI)", "adelie")


def run(options: Options) -> dict[str, Any]:
    sizes = (
        {"factors": (600, 4, 30), "counts": (500, 40, (3, 8, 20))}
        if options.quick
        else {"factors": (20_000, 4, 200), "counts": (8_708, 1_494, (3, 8, 20, 60, 150, 300, 400, 500))}
    )
    turns = 1 if options.quick else 2
    return {
        "rows": in_fresh_process(measured, threads=1, sizes=sizes, turns=turns),
        "peers": {kind: _peers(MAKERS[kind](*size), turns, options.limit) for kind, size in sizes.items()},
    }


def _peers(data: tuple[Any, np.ndarray], turns: int, limit: float) -> dict[str, float | None]:
    """Processor seconds of penalised paths on the same table, every level a column of a sparse matrix."""
    frame, y = data
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "levels.npz")
        X = expanded(frame)
        np.savez(file, indptr=X.indptr, indices=X.indices, data=X.data, shape=X.shape, format=b"csc", y=y)
        export(file, Path(folder))
        records = race(PEERS, file, Path(folder), threads=1, turns=turns, limit=limit)
    return {record["contender"]: record["cpu"] for record in records}


def expanded(frame: Any) -> sparse.csc_array:
    """Numbers as they are, and a column of ones and zeros for every level."""
    parts = []
    for name in frame:
        values = frame[name].to_numpy()
        if values.dtype.kind in "iuf":
            parts.append(sparse.csc_array(values[:, None].astype(float)))
        else:
            levels, codes = np.unique(values.astype(str), return_inverse=True)
            shape = len(values), len(levels)
            parts.append(sparse.csc_array((np.ones(len(values)), (np.arange(len(values)), codes)), shape=shape))
    return sparse.csc_array(sparse.hstack(parts))


def factors(n: int, count: int, n_levels: int, seed: int = 1) -> tuple[Any, np.ndarray]:
    """Categories with the same number of levels, of which two matter."""
    rng = np.random.default_rng(seed)
    codes = [_codes(rng, n, n_levels, 0.7) for _ in range(count)]
    signal = sum(0.5 * rng.normal(size=n_levels)[code] for code in codes[:2])
    return _table({f"c{j}": code for j, code in enumerate(codes)}, {}), _outcome(rng, signal)


def counts(n: int, p: int, levels: tuple[int, ...], seed: int = 1) -> tuple[Any, np.ndarray]:
    """Sparse counts, of which fifteen matter, and categories, of which every other one does."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, p)) < rng.uniform(0.01, 0.15, p)) * rng.poisson(1.5, (n, p))
    codes = {f"c{size}": _codes(rng, n, size, 1.0) for size in levels}
    real = min(15, p)
    signal = 0.4 * X[:, :real] @ rng.choice([-1, 1], real) - 1.0
    for size in levels[1::2]:
        signal = signal + 0.7 * rng.normal(size=size)[codes[f"c{size}"]]
    return _table(codes, {f"n{j}": X[:, j].astype(np.int16) for j in range(p)}), _outcome(rng, signal)


def _codes(rng: np.random.Generator, n: int, n_levels: int, skewness: float) -> np.ndarray:
    """Frequencies as those of words: the second level is half as frequent as the first, or nearly."""
    part = 1.0 / np.arange(1, n_levels + 1) ** skewness
    return rng.permutation(n_levels)[rng.choice(n_levels, n, p=part / part.sum())]


def _table(codes: dict[str, np.ndarray], numbers: dict[str, np.ndarray]) -> Any:
    import pandas as pd

    return pd.DataFrame({**numbers, **{name: np.array([f"v{i:03d}" for i in code]) for name, code in codes.items()}})


def _outcome(rng: np.random.Generator, signal: Any) -> np.ndarray:
    return (rng.random(len(signal)) < 1.0 / (1.0 + np.exp(-signal))).astype(np.int8)


MAKERS = {"factors": factors, "counts": counts}


def measured(sizes: dict[str, tuple[Any, ...]], turns: int, threads: int) -> list[dict[str, Any]]:
    """Processor seconds of every search; and, on data of the same kind that can be fitted, whether it is right."""
    import fbed

    out = []
    for kind, make in MAKERS.items():
        X, y = make(*sizes[kind])
        small = factors(500, 3, 24, seed=2) if kind == "factors" else counts(400, 12, (3, 8, 20), seed=2)
        for name, how in SEARCHES.items():
            best = best_of_turns({"search": lambda X=X, y=y, how=how: fbed.select(X, y, n_jobs=1, **how)}, turns)
            fast, slow = (fbed.select(*small, engine=engine, **how) for engine in ("certified", "exhaustive"))
            found = fbed.select(X, y, n_jobs=1, **how)
            right = fast.selected == slow.selected and fast.n_tests == slow.n_tests
            numbers = {"n": len(y), "p": X.shape[1], "selected": len(found.selected), "right": right}
            out.append({"kind": kind, "search": name, "cpu": best["search"]["cpu"], **numbers})
    return out


def words(found: dict[str, Any]) -> str:
    rows = [
        [f"{one['kind']}, {one['n']:,} × {one['p']:,}, {one['search']}", seconds(one["cpu"]), str(one["selected"])]
        for one in found["rows"]
    ]
    wrong = [f"{one['kind']}, {one['search']}" for one in found["rows"] if not one["right"]]
    return "\n\n".join(
        [
            "Processor seconds of whole searches, logistic, one thread: categories with levels as frequent as words, "
            "some of one class only; and a few such categories beside sparse counts.",
            table(["", "seconds", "selected"], rows),
            *_told(found.get("peers", {})),
            f"WRONG: {'; '.join(wrong)}"
            if wrong
            else "On smaller data of the same kind, the same as by fitting every model.",
        ]
    )


def _told(peers: dict[str, dict[str, float | None]]) -> list[str]:
    told = [
        f"{kind}: " + ", ".join(f"{name} {seconds(cpu)}" for name, cpu in found.items() if cpu is not None)
        for kind, found in peers.items()
        if any(cpu is not None for cpu in found.values())
    ]
    return [f"Paths of 100 penalties on the same data, every level a column: {'; '.join(told)}."] if told else []
