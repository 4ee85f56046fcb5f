"""Sparse data of the kinds that are hard on models kept sparse: words, doubles, pure columns, outliers, small types.

    python -m tests.word_cases --cases 2000

Every model is kept sparse, whatever it costs, and the searches are compared with fitting every model. A difference is
printed with its seed.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parent))

from benchmarks.words import Corpus, documents

from engine_cases import ALGORITHMS, CRITERIA, Case, mostly_zero, trail_of
from fbed.errors import InvalidInput
from fbed.models.engines import binomial, sparse_span


def words(rng: np.random.Generator) -> Case:
    """Documents of two classes, maybe with frequency weights, some of them 0."""
    corpus = Corpus(
        int(rng.integers(60, 260)), int(rng.integers(20, 120)), float(rng.choice([3, 8, 20, 50])),
        first_class=float(rng.choice([0.5, 0.3, 0.1])), topics=int(rng.integers(1, 4)),
        clear=float(rng.choice([3, 12, 40])), counts=bool(rng.integers(2)),
    )  # fmt: skip
    X, y = documents(corpus, int(rng.integers(1e9)))
    weights = frequencies(rng, len(y)) if rng.random() < 0.4 else None
    counts = np.ones(len(y)) if weights is None else weights
    return Case(X, y, weights) if min(y @ counts, (1.0 - y) @ counts) > 0 else words(rng)


def frequencies(rng: np.random.Generator, n: int) -> np.ndarray:
    kinds = (rng.integers(1, 5, n), 10.0 ** rng.uniform(-3, 3, n), rng.integers(0, 3, n))
    return kinds[rng.integers(3)].astype(float)


def doubled(rng: np.random.Generator) -> Case:
    """With copies, multiples, sums, presences, and copies that differ in one value by any amount."""
    base = words(rng) if rng.random() < 0.5 else mostly_zero(rng, "binomial")
    X = base.X.toarray() if sparse.issparse(base.X) else base.X
    p, extra = X.shape[1], []
    for _ in range(int(rng.integers(3, 15))):
        one, other = X[:, rng.integers(p)], X[:, rng.integers(p)]
        near = one.copy()
        where = np.flatnonzero(near)
        if len(where):
            near[rng.choice(where)] *= 1.0 + 10.0 ** rng.integers(-9, 0)
        kinds = (one, 3.0 * one, one + other, one - other, one * 10.0 ** rng.integers(-8, 8), near, (one != 0) * 1.0)
        extra.append(kinds[rng.integers(len(kinds))])
    X = np.column_stack([X, *extra])[:, rng.permutation(p + len(extra))]
    return Case(sparse.csc_matrix(X), base.y, base.weights)


def small_types(rng: np.random.Generator) -> Case:
    case = words(rng)
    return replace(case, X=case.X.astype([np.float32, np.int8, np.uint8, np.int16][rng.integers(4)]))


def with_offset(rng: np.random.Generator) -> Case:
    """Tables of any kind, beside offsets that may decide more than any word."""
    case = (words, nearly_pure, doubled, with_forced)[rng.integers(4)](rng)
    return replace(case, offset=rng.choice([0.0, 1.0, 5.0]) * rng.normal(size=len(case.y)))


def with_forced(rng: np.random.Generator) -> Case:
    case = words(rng)
    usable = np.flatnonzero(np.diff(case.X.indptr) > 0)
    return replace(case, weights=None, forced=tuple(int(j) for j in rng.permutation(usable)[: rng.integers(1, 6)]))


def outliers(rng: np.random.Generator, least: float = -3.0, most: float = 3.0) -> Case:
    """Some values far from the others, by a power of 10."""
    case = words(rng)
    X = case.X.astype(float)
    X.data *= np.where(rng.random(len(X.data)) < 0.05, 10.0 ** rng.uniform(least, most), 1.0)
    return replace(case, X=X)


def nearly_pure(rng: np.random.Generator) -> Case:
    """Columns that only one class has, or that the other hardly has."""
    n, p = int(rng.integers(80, 300)), int(rng.integers(15, 60))
    y = (rng.random(n) < rng.uniform(0.15, 0.6)).astype(float)
    y[:4] = [0.0, 1.0, 0.0, 1.0]
    X = np.zeros((n, p))
    for j in range(p):
        rate = np.where(y == rng.integers(2), rng.uniform(0.02, 0.3), rng.choice([0.0, 0.0, 0.003, 0.02, 0.1]))
        X[:, j] = (rng.random(n) < rate) * (1 + rng.poisson(rng.choice([0, 1, 8]), n) * rng.integers(2))
    return Case(sparse.csc_matrix(X), y, None if rng.random() < 0.6 else 10.0 ** rng.uniform(-2, 2, n))


def in_a_dense_table(rng: np.random.Generator) -> Case:
    """The same values with all their zeros."""
    case = (words, nearly_pure, doubled)[rng.integers(3)](rng)
    return replace(case, X=np.asfortranarray(case.X.toarray()))


def fingerprints(rng: np.random.Generator) -> Case:
    """Presences that are frequent or rare, a rare class, and copies that differ in a few rows."""
    n, p = int(rng.integers(80, 260)), int(rng.integers(8, 30))
    X = rng.random((n, p)) < 10.0 ** rng.uniform(-2.0, -0.1, p)
    signal = X @ rng.normal(scale=1.5, size=p) + rng.logistic(size=n)
    y = (signal > np.quantile(signal, rng.choice([0.5, 0.8, 0.93]))).astype(float)
    copies = X[:, rng.integers(p, size=int(rng.integers(5, 25)))].copy()
    for copy in copies.T:
        where = rng.choice(n, int(rng.integers(1, 6)), replace=False)
        copy[where] = ~copy[where]
    X = np.hstack([X, copies]).astype([np.float64, np.int8][rng.integers(2)])
    X = sparse.csc_matrix(X) if rng.random() < 0.5 else np.asfortranarray(X)
    return Case(X, y, rng.integers(1, 4, n).astype(float) if rng.random() < 0.3 else None)


def beside_categories(rng: np.random.Generator) -> Case:
    """With one to three categories that the classes depend on, some of whose levels are rare, pure or never seen."""
    case = (words, nearly_pure, doubled, with_offset)[rng.integers(4)](rng)
    X = case.X.toarray() if sparse.issparse(case.X) else case.X
    table = pd.DataFrame(X.astype(float), columns=[f"w{j}" for j in range(X.shape[1])])
    for name in "abc"[: rng.integers(1, 4)]:
        n_levels, noise = int(rng.choice([3, 4, 8, 20])), rng.choice([0.2, 1.0, 3.0])
        order = np.argsort(np.argsort(case.y + noise * rng.normal(size=len(X)))) / len(X)
        codes = np.floor(n_levels * order ** rng.choice([1.0, 2.0, 4.0])).astype(int)
        levels = [f"l{code:02}" for code in range(n_levels + int(rng.random() < 0.1))]
        table.insert(int(rng.integers(table.shape[1])), name, pd.Categorical.from_codes(codes, categories=levels))
    return replace(case, X=table, forced=())


KINDS = (words, doubled, small_types, with_offset, with_forced, outliers, nearly_pure, in_a_dense_table)


def drawn(
    seed: int, kinds: Sequence[Callable[[np.random.Generator], Case]] = KINDS
) -> tuple[Case, Any, dict[str, Any]]:
    """A case, a criterion and an algorithm."""
    rng = np.random.default_rng([99, seed])
    case = kinds[seed % len(kinds)](rng)
    return case, CRITERIA[rng.integers(len(CRITERIA))], ALGORITHMS[rng.integers(len(ALGORITHMS))]


def trails(seed: int, kinds: Sequence[Callable[[np.random.Generator], Case]] = KINDS) -> list[Any]:
    """The search by fitting every model, and by bounds."""
    case, criterion, algorithm = drawn(seed, kinds)
    return [trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")]


def main() -> int:
    from test_certified import assert_same

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--categories", action="store_true", help="words beside categories instead of all other kinds")
    asked = parser.parse_args()
    sparse_span._SMALLEST, sparse_span._PAYS, binomial.MANY_COLUMNS = 1, np.inf, 1
    sparse_span._BESIDE_WORDS = False
    failed, kinds = 0, (beside_categories,) if asked.categories else KINDS
    for seed in range(asked.first, asked.first + asked.cases):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert_same(*trails(seed, kinds))
            except InvalidInput:  # a class of a single row, for example
                continue
            except AssertionError as error:
                failed += 1
                print(seed, *drawn(seed, kinds)[1:], kinds[seed % len(kinds)].__name__, str(error)[:200], flush=True)
    print(f"{asked.cases} cases, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
