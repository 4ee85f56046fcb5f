"""``python -m tests.corner_cases``: small hostile tables of every storage, certified against fits of every model.

Dummies, counts, columns of one entry, copies, complements, sums and near copies, outliers of 10⁶; weights from 10⁻³ to
10³ and of 0, offsets, trials, forced columns, groups, threads; rows of one kind, a class that is nearly empty. A third
of the tables go to the engine for many rows with models by their entries, a third to it without, a third where they
belong; every second one to sparse models whatever they cost.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse

import fbed
from fbed.families import builders
from fbed.matrix import scattered_columns
from fbed.models.engines import binomial, sparse_span

FAMILIES = ("poisson", "binomial", "trials", "cox")


def dummies(rng: np.random.Generator, n: int, levels: int) -> list[np.ndarray]:
    frequency = 1 / np.arange(1, levels + 1) ** rng.uniform(0.5, 1.8)
    level = rng.choice(levels, n, p=frequency / frequency.sum())
    return [(level == i) * 1.0 for i in range(levels)]


def columns(rng: np.random.Generator, n: int) -> np.ndarray:
    out = []
    for _ in range(rng.integers(1, 4)):
        out += dummies(rng, n, int(rng.integers(2, 15)))
    out += [rng.poisson(rng.uniform(0.01, 0.3), n) * 1.0 for _ in range(rng.integers(0, 4))]
    out += [rng.normal(size=n) for _ in range(rng.integers(0, 3))]
    for _ in range(rng.integers(0, 3)):
        entry = np.zeros(n)
        entry[rng.integers(n)] = rng.choice([1.0, -3.0, 1e-3, 1e6])
        out.append(entry)
    for _ in range(rng.integers(0, 3)):
        out.append(np.where(rng.random(n) < 0.05, rng.normal(size=n) * 10.0 ** rng.integers(-3, 4), 0))
    base = len(out)
    out += [relative(rng, out, base) for _ in range(rng.integers(0, 5))]
    X = np.column_stack(out)
    return X[:, rng.permutation(X.shape[1])]


def relative(rng: np.random.Generator, out: list[np.ndarray], base: int) -> np.ndarray:
    """A column that is next to others: a copy, a complement, a sum, a near copy, a copy with an outlier."""
    kind, one, other = rng.integers(6), out[rng.integers(base)], out[rng.integers(base)]
    new, n = one.copy(), len(one)
    if kind == 1:
        new = 1.0 - one
    elif kind == 2:
        new[rng.integers(n)] += rng.choice([1.0, 1e-2, 1e-4])
    elif kind in (3, 4):
        new = one + other if kind == 3 else np.minimum(one + other, 1)
    elif kind == 5:
        new[rng.integers(n)] = rng.choice([1e6, -1e6, 1e3])
    return new


def outcome(rng: np.random.Generator, family: str, eta: np.ndarray, options: dict[str, Any]) -> Any:
    n = len(eta)
    if family == "poisson":
        return rng.poisson(np.exp(np.clip(eta, -8, 5)))
    if family == "trials":
        options["family"], options["trials"] = "binomial", rng.integers(1, 6, n)
        return rng.binomial(options["trials"], 1 / (1 + np.exp(-eta)))
    if family == "cox":
        times = rng.exponential(np.exp(-np.clip(eta, -4, 4))).round(rng.integers(0, 4)) + 0.1
        options.pop("offset", None)
        return times, rng.random(n) < 0.6
    y = (eta + rng.logistic(size=n) > 0).astype(int)
    if rng.random() < 0.15:  # a class that is nearly empty
        y[:] = 0
        y[rng.choice(n, 2, replace=False)] = 1
    if rng.random() < 0.7:
        options.pop("offset", None)
    return y


def how(rng: np.random.Generator, n: int, p: int, options: dict[str, Any]) -> None:
    """Weights, algorithm, criterion, forced columns, groups, threads."""
    if rng.random() < 0.4:
        kinds = [rng.integers(0, 3, n) * 1.0, 10.0 ** rng.uniform(-3, 3, n), rng.integers(1, 5, n) * 1.0]
        options["sample_weight"] = kinds[rng.integers(3)]
    options["k"] = [0, 1, math.inf][rng.integers(3)]
    if rng.random() < 0.2:
        options["early_dropping"] = False
    chosen = rng.integers(4)
    options |= {"criterion": ("aic", "bic")[chosen]} if chosen < 2 else {"alpha": float(rng.choice([0.01, 0.05, 0.3]))}
    if rng.random() < 0.2:
        options["include"] = [int(v) for v in rng.choice(p, rng.integers(1, 4), replace=False)]
    if rng.random() < 0.15:
        free = [v for v in range(p) if v not in options.get("include", [])]
        options["groups"] = {"g": [int(v) for v in rng.choice(free, 2, replace=False)]}
    if rng.random() < 0.3:
        options["n_jobs"] = int(rng.choice([2, 4]))


def table(seed: int, family: str) -> tuple[Any, Any, dict[str, Any]]:
    rng = np.random.default_rng([4242, seed, len(family)])
    n = int(rng.choice([12, 25, 60, 150, 400]))
    X = columns(rng, n)
    p, size = X.shape[1], X.std(axis=0) + 1e-12
    some = rng.choice(p, min(p, 6), replace=False)
    eta = (X[:, some] / size[some]) @ (rng.normal(size=len(some)) * rng.choice([0.3, 1.0, 3.0]))
    eta = np.clip(eta, -8, 4) - rng.choice([0.0, 0.0, 2.0, 4.0])
    options: dict[str, Any] = {"family": family}
    if rng.random() < 0.3:
        options["offset"] = rng.normal(size=n) * rng.choice([0.5, 2.0])
        eta = eta + options["offset"]
    y = outcome(rng, family, eta, options)
    for j in rng.choice(p, 2):  # rows of one kind
        if family in ("poisson", "binomial") and rng.random() < 0.5:
            y[X[:, j] != 0] = 0 if family == "poisson" or rng.random() < 0.5 else 1
    how(rng, n, p, options)
    kinds = (np.asfortranarray, np.ascontiguousarray, sparse.csc_array, sparse.csc_array, sparse.csr_array)
    storage = rng.integers(6)
    return np.asfortranarray(X.astype(np.float32)) if storage == 5 else kinds[storage](X), y, options


def by_which_engine(seed: int, put: Any = setattr) -> None:
    """Thresholds, so that every engine gets its part."""
    put(builders, "TALL", 0 if seed % 3 < 2 else 20_000)
    smallest, pays = (1, np.inf) if seed % 3 == 0 else (8, 0.1)
    put(scattered_columns, "_SMALLEST", smallest)
    put(scattered_columns, "_PAYS", pays)
    smallest, pays, many = (1, np.inf, 1) if seed % 2 else (8, 0.25, 100)
    put(sparse_span, "_SMALLEST", smallest)
    put(sparse_span, "_PAYS", pays)
    put(binomial, "MANY_COLUMNS", many)


def differs(one: fbed.Result, other: fbed.Result) -> str | None:
    """What two searches disagree in."""
    if one.selected != other.selected or one.n_tests != other.n_tests:
        return f"{one.selected} by {one.n_tests}, {other.selected} by {other.n_tests}"
    for mine, its in zip(one.trace, other.trace, strict=True):
        if mine.statistic is not None and not math.isclose(mine.statistic, its.statistic, rel_tol=1e-6, abs_tol=1e-6):
            return f"{mine.variable}: {mine.statistic} and {its.statistic}"
    if not math.isclose(one.model.deviance, other.model.deviance, rel_tol=1e-6, abs_tol=1e-5):
        return f"deviance {one.model.deviance} and {other.model.deviance}"
    return None


def compared(seed: int, family: str) -> str | None:
    X, y, options = table(seed, family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return differs(*(fbed.select(X, y, engine=engine, **options) for engine in ("certified", "exhaustive")))
        except fbed.InvalidInput:
            return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corner_cases", description=__doc__)
    parser.add_argument("families", nargs="*", default=FAMILIES)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each family")
    asked = parser.parse_args()
    failed = 0
    for family in asked.families:
        seed, end = asked.first, time.monotonic() + asked.seconds
        while time.monotonic() < end:
            by_which_engine(seed)
            found = compared(seed, family)
            failed += found is not None
            if found is not None:
                print(seed, family, found[:200], flush=True)
            seed += 1
        print(f"{family}: {seed - asked.first} tables")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
