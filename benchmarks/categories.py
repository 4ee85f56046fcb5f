"""Categories of 3 to 500 levels with skewed frequencies: alone, and beside many sparse counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.options import Options
from benchmarks.text import seconds, table

SEARCHES: dict[str, dict[str, Any]] = {
    "α = .05, K = 0": {"k": 0},
    "α = .05, K = 1": {"k": 1},
    "BIC, K = ∞": {"criterion": "bic", "k": math.inf},
}


def run(options: Options) -> dict[str, Any]:
    sizes = (
        {"factors": (600, 4, 30), "counts": (500, 40, (3, 8, 20))}
        if options.quick
        else {"factors": (20_000, 4, 200), "counts": (8_708, 1_494, (3, 8, 20, 60, 150, 300, 400, 500))}
    )
    return {"rows": in_fresh_process(measured, threads=1, sizes=sizes, turns=1 if options.quick else 2)}


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


def measured(sizes: dict[str, tuple[Any, ...]], turns: int, threads: int) -> list[dict[str, Any]]:
    """Processor seconds of every search; and, on data of the same kind that can be fitted, whether it is right."""
    import fbed

    out = []
    for kind, make in (("factors", factors), ("counts", counts)):
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
            f"WRONG: {'; '.join(wrong)}"
            if wrong
            else "On smaller data of the same kind, the same as by fitting every model.",
        ]
    )
