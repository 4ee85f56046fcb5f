"""Random tables of many classes, from hardly to completely separable; run as a program, as many of them as one likes.

``python tests/many_class_cases.py 0 200`` searches with both engines and tells which numbers do not agree.
"""

from __future__ import annotations

import sys

import numpy as np

from engine_cases import ALGORITHMS, CRITERIA, Case, attack, trail_of
from fbed.errors import InvalidInput


def table(number):
    """4 to 30 classes around centres of few dimensions, and columns of one of seven kinds."""
    rng = np.random.default_rng([17, number])
    n_classes, dimensions = int(rng.integers(4, 31)), int(rng.integers(2, 7))
    n, p = int(rng.integers(5, 12)) * n_classes, int(rng.integers(5, 11))
    y = np.concatenate([np.repeat(np.arange(n_classes), 3), rng.integers(n_classes, size=n - 3 * n_classes)])
    apart = rng.choice([0.2, 0.6, 1.2, 2.5, 6.0])
    hidden = apart * rng.normal(size=(n_classes, dimensions))[y] + rng.normal(size=(n, dimensions))
    X = hidden @ rng.normal(size=(dimensions, p)) + rng.choice([0.1, 0.7, 2.0]) * rng.normal(size=(n, p))
    kind, weights = number % 7, None
    if kind == 1:
        X = np.maximum(X - np.quantile(X, 0.7, axis=0), 0.0)
    elif kind == 2:
        X = np.sign(X) * np.abs(X) ** 3
    elif kind == 3:
        X[:, -2:] = X[:, :2] + np.array([0.0, 1e-7]) * rng.normal(size=(n, 2))
    elif kind == 4:
        weights = rng.integers(0, 4, n).astype(float)
        weights[: 3 * n_classes] += 1.0
    elif kind == 5:
        X = np.round(X)
    elif kind == 6:
        X = (np.quantile(X, rng.uniform(0.3, 0.95, p), axis=0).diagonal() < X).astype(float)
    return Case(X, np.array([f"c{code:02d}" for code in y]), weights)


def searches(number):
    """Trails of both engines for a random table, None where the outcome is refused."""
    case, rng = table(number), np.random.default_rng([18, number])
    criterion, algorithm = CRITERIA[rng.integers(len(CRITERIA))], ALGORITHMS[rng.integers(len(ALGORITHMS))]
    options = {**algorithm, "max_features": 4}
    try:
        return [trail_of(case, "multinomial", criterion, engine, **options) for engine in ("exhaustive", "certified")]
    except InvalidInput:
        return None


def main(first, last, seconds=1e9):
    return attack(searches, first, last, seconds)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
