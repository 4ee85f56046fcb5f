"""Random tables of words beside classes; run as a program, as many of them as one likes.

``python tests/class_word_cases.py 0 1000`` searches with both engines and tells which numbers do not agree.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import sparse

from engine_cases import ALGORITHMS, CRITERIA, Case, attack, trail_of
from fbed.errors import InvalidInput


def table(number):
    """Counts or presence, some heavy-tailed, doubled, constant or in all rows of a class; rare classes; weights."""
    rng = np.random.default_rng([7, number])
    n, p, n_classes = int(rng.integers(30, 220)), int(rng.integers(4, 26)), int(rng.integers(3, 8))
    share = rng.dirichlet(np.full(n_classes, rng.choice([0.4, 5.0])))
    y = rng.choice(n_classes, size=n, p=share)
    frequency = rng.choice([0.02, 0.1, 0.3, 0.7], size=p)
    liking = rng.normal(size=(n_classes, p)) * rng.choice([0.0, 1.0, 3.0, 8.0], size=p)
    X = rng.poisson(np.minimum(frequency * np.exp(liking[y]), 50.0)).astype(float)
    if rng.uniform() < 0.4:
        X = (X > 0).astype(float)
    if rng.uniform() < 0.3:
        X *= np.exp(rng.normal(size=p) * 4.0)
    if rng.uniform() < 0.3:
        X[rng.integers(n), rng.integers(p)] = 10.0 ** rng.uniform(1, 6)
    if rng.uniform() < 0.3:
        X[:, -1] = X[:, 0] * rng.choice([1.0, -2.0])
    if rng.uniform() < 0.3:
        X[:, 1] = (y == y[0]) & (rng.uniform(size=n) < rng.choice([0.2, 1.0]))
    if rng.uniform() < 0.3:
        X[:, 2] = rng.normal(size=n)
    if rng.uniform() < 0.3:
        X[:, 3] = X[:, 0] + (np.arange(n) == rng.integers(n)) * 10.0 ** rng.uniform(-6, 0)
    weights = None if rng.uniform() < 0.6 else rng.integers(0, 4, n).astype(float)
    how = CRITERIA[rng.integers(len(CRITERIA))], ALGORITHMS[rng.integers(len(ALGORITHMS))]
    return X, np.array([f"c{code}" for code in y]), weights, *how


def searches(number):
    """Trails of both engines, None where the outcome is refused."""
    X, y, weights, criterion, algorithm = table(number)
    options = {**algorithm, "max_features": 6}
    case = Case(sparse.csc_matrix(X) if number % 3 else X, y, weights)
    try:
        return [trail_of(case, "multinomial", criterion, engine, **options) for engine in ("exhaustive", "certified")]
    except InvalidInput:  # a class of one row
        return None


def main(first, last, seconds=1e9):
    return attack(searches, first, last, seconds)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
