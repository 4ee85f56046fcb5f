"""``python -m tests.rare_cases``: random tables of many rows with rare columns, certified against fits of every model.

Dummies of rare levels, sparse counts, values of both signs, copies and unions of others, levels of one class; weights,
offsets, every storage. Runs until it is stopped, or for a number of tables.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

import fbed
from fbed.families import builders
from fbed.matrix import scattered_columns

FAMILIES = ("binomial", "poisson")


def rare_columns(rng: np.random.Generator, n: int) -> np.ndarray:
    """Numbers, dummies of a category, sparse counts and signed values, a copy, a union and a near copy."""
    level = rng.choice(12, n, p=(weights := 1.0 / np.arange(1, 13) ** 1.5) / weights.sum())
    dummies = (level[:, None] == np.arange(1, 12)).astype(float)
    counts = rng.poisson(rng.uniform(0.01, 0.15, 4), (n, 4)).astype(float)
    signed = np.where(rng.random((n, 3)) < 0.06, rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-3, 4, 3), 0.0)
    union = np.minimum(dummies[:, 2] + dummies[:, 5], 1.0)
    nearly = dummies[:, 1].copy()
    nearly[rng.integers(n)] += 1.0
    plain = rng.normal(size=(n, 3))
    return np.column_stack([plain, dummies, counts, signed, union, nearly, 3.0 * counts[:, 0]])


def outcome(rng: np.random.Generator, X: np.ndarray, family: str, offset: np.ndarray) -> np.ndarray:
    """Some of the columns matter; some rare ones have rows of one kind only."""
    some = rng.choice(X.shape[1], 5, replace=False)
    eta = X[:, some] / (X[:, some].std(axis=0) + 1e-12) @ (rng.normal(size=5) * rng.choice([0.2, 0.6])) + offset
    eta = np.clip(eta - rng.choice([0.0, 2.0]), -8.0, 3.0)
    n = len(eta)
    y = rng.poisson(np.exp(eta)).astype(float) if family == "poisson" else (eta + rng.logistic(size=n) > 0) * 1.0
    pure = np.flatnonzero((X != 0).mean(axis=0) < 0.1)
    for j in rng.choice(pure, min(2, len(pure)), replace=False):
        y[X[:, j] != 0] = 0.0 if family == "poisson" or rng.random() < 0.5 else 1.0
    if y.sum() < 2 or (family == "binomial" and n - y.sum() < 2):
        y[:4] = [0.0, 0.0, 1.0, 1.0]
    return y


def stored(rng: np.random.Generator, X: np.ndarray) -> Any:
    kinds = [np.asfortranarray, np.ascontiguousarray, sparse.csc_array]
    return kinds[rng.integers(3)](X)


def table(seed: int, family: str) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """A table, an outcome, and the options of a search."""
    rng = np.random.default_rng([77, seed, len(family)])
    n = int(rng.choice([60, 200, 600]))
    X = rare_columns(rng, n)
    offset = rng.normal(size=n) * 0.5 if rng.random() < 0.3 else None
    y = outcome(rng, X, family, np.zeros(n) if offset is None else offset)
    options: dict[str, Any] = {"family": family, "offset": offset, "alpha": float(rng.choice([0.01, 0.05, 0.2]))}
    if rng.random() < 0.3:
        options["sample_weight"] = rng.integers(0, 4, n)
    options["k"] = [0, 1, math.inf][rng.integers(3)]
    options["early_dropping"] = bool(rng.random() < 0.8)
    if rng.random() < 0.3:
        options["criterion"] = str(rng.choice(["aic", "bic"]))
        del options["alpha"]
    return stored(rng, X), y, options


def differs(one: fbed.Result, other: fbed.Result) -> str | None:
    """What two searches disagree in."""
    if one.selected != other.selected or one.n_tests != other.n_tests:
        return f"{one.selected} by {one.n_tests}, {other.selected} by {other.n_tests}"
    for mine, its in zip(one.trace, other.trace, strict=True):
        if mine.statistic is not None and not math.isclose(mine.statistic, its.statistic, rel_tol=1e-6, abs_tol=1e-6):
            return f"{mine.variable}: {mine.statistic} and {its.statistic}"
    return None


def compared(seed: int, family: str) -> str | None:
    X, y, options = table(seed, family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            one, other = (fbed.select(X, y, engine=engine, **options) for engine in ("certified", "exhaustive"))
        except fbed.InvalidInput:
            return None
    return differs(one, other)


def attack(first: int, count: float, seconds: float, by_entries: bool) -> Iterator[tuple[int, str, str]]:
    builders.TALL = 0
    if by_entries:
        scattered_columns._SMALLEST, scattered_columns._PAYS = 1, np.inf
    start, seed = time.monotonic(), first
    while seed < first + count and time.monotonic() - start < seconds:
        for family in FAMILIES:
            found = compared(seed, family)
            if found is not None:
                yield seed, family, found
        seed += 1
    print(f"{seed - first} tables of each family")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=float, default=math.inf)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument(
        "--by-entries", action="store_true", help="models of sparse tables by their entries, however few"
    )
    asked = parser.parse_args()
    for found in attack(asked.first, asked.count, asked.seconds, asked.by_entries):
        print(*found, flush=True)


if __name__ == "__main__":
    main()
