"""Random tables of columns that are mostly 0 beside classes, ordered or not; run as a program, as many as one likes.

``python tests/scattered_class_cases.py 0 1000`` searches with both engines and tells which numbers do not agree. All
models are taken as their entries, however few columns they have.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import sparse

import fbed.models.engines.sparse_span as spans
from engine_cases import ALGORITHMS, CRITERIA, Case, attack, trail_of
from fbed.errors import InvalidInput

FAMILIES = ("multinomial", "ordinal")


def by_entries():
    """Let every model be one of entries; what was said before."""
    before = spans._SMALLEST, spans._PAYS
    spans._SMALLEST, spans._PAYS = 1, 1e9
    return before


def table(number):
    """Levels of categories, some of one row or class, and words; near copies, both signs, outliers, rare classes."""
    rng = np.random.default_rng([77, number])
    n, n_classes = int(rng.integers(60, 400)), int(rng.integers(3, 7))
    share = rng.dirichlet(np.full(n_classes, rng.choice([0.5, 5.0])))
    columns, eta = [], np.zeros((n, n_classes))
    strength = rng.choice([0.0, 0.7, 2.0, 6.0])
    for _ in range(int(rng.integers(1, 4))):
        levels = int(rng.integers(3, 14))
        frequency = 1.0 / np.arange(1, levels + 1) ** rng.choice([0.5, 1.5])
        level = rng.choice(levels, n, p=frequency / frequency.sum())
        columns.append((level[:, None] == np.arange(1, levels)).astype(float))
        eta += (strength * rng.normal(size=(levels, n_classes)) * (rng.uniform(size=levels) < 0.3)[:, None])[level]
    words = rng.poisson(rng.choice([0.02, 0.08, 0.15], size=(1, 6)), size=(n, 6)) * rng.choice(
        [1.0, 0.3, 7.0], size=(n, 6)
    )
    eta += strength * words[:, :2] @ rng.normal(size=(2, n_classes))
    X = np.hstack([*columns, words])
    if number % 2:
        y = np.digitize(eta[:, 0] + rng.logistic(size=n), np.quantile(eta[:, 0], np.cumsum(share)[:-1]) + 0.1)
    else:
        y = (eta + np.log(share + 1e-3) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    p = X.shape[1]
    if rng.uniform() < 0.3:
        X[rng.integers(n), rng.integers(p)] = 10.0 ** rng.uniform(1, 6)
    if rng.uniform() < 0.3:
        X[:, -1] = X[:, 0] + (np.arange(n) == rng.integers(n)) * 10.0 ** rng.uniform(-6, 0)
    if rng.uniform() < 0.3:
        X[:, -2] *= rng.choice([-1.0, 1.0], size=n)
    if rng.uniform() < 0.3:
        X[:, -3] = (y == y[0]) & (rng.uniform(size=n) < rng.choice([0.05, 0.4]))
    if rng.uniform() < 0.2:
        X[:, -4] = X[:, 1] + X[:, 2]
    if rng.uniform() < 0.2:
        X[:, -5] = rng.normal(size=n)
    if rng.uniform() < 0.2:
        X[:, 3] = ((y == y[0]) | (y == y[1])) & (rng.uniform(size=n) < 0.2)
    weights = None if rng.uniform() < 0.6 else rng.integers(0, 4, n).astype(float) * rng.choice([1.0, 0.5])
    how = CRITERIA[rng.integers(len(CRITERIA))], ALGORITHMS[rng.integers(len(ALGORITHMS))]
    return X, y, weights, *how


def searches(number):
    """Trails of both engines, None where the outcome is refused."""
    X, y, weights, criterion, algorithm = table(number)
    family = FAMILIES[number % 2]
    case = Case(
        sparse.csc_matrix(X) if number % 3 else X, y if family == "ordinal" else np.array([f"c{c}" for c in y]), weights
    )
    options = {**algorithm, "max_features": 9}
    try:
        return [trail_of(case, family, criterion, engine, **options) for engine in ("exhaustive", "certified")]
    except InvalidInput:  # a class of one row
        return None


def main(first, last, seconds=1e9):
    before = by_entries()
    different = attack(searches, first, last, seconds)
    spans._SMALLEST, spans._PAYS = before
    return different


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
