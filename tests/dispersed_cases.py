"""Random tables beside overdispersed counts; run as a program, as many of them as one likes.

``python tests/dispersed_cases.py 0 1000`` searches with both engines and tells which numbers do not agree.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from scipy import sparse

from engine_cases import ALGORITHMS, CRITERIA, Case, attack, trail_of
from fbed.errors import InvalidInput

COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(1.2, size=n),
    "skewed": lambda rng, n: np.exp(2.0 * rng.normal(size=n)),
    "rare": lambda rng, n: (rng.random(n) < 0.05) * 1.0,
    "word": lambda rng, n: rng.poisson(0.15, n).astype(float),
    "both signs": lambda rng, n: (rng.random(n) < 0.2) * rng.choice([-1.0, 1.0, 30.0], n),
    "outlier": lambda rng, n: rng.normal(size=n) + 1e4 * (np.arange(n) == rng.integers(n)),
    "shifted": lambda rng, n: 1e6 + rng.normal(size=n),
}
COUNTS = {
    "negative binomial": lambda rng, mean: rng.negative_binomial(1.5, 1.5 / (1.5 + mean)),
    "wild": lambda rng, mean: rng.negative_binomial(0.2, 0.2 / (0.2 + mean)),
    "poisson": lambda rng, mean: rng.poisson(mean),
    "underdispersed": lambda rng, mean: rng.binomial(np.ceil(2.0 * mean).astype(int), 0.5),
    "huge": lambda rng, mean: rng.negative_binomial(3.0, 3.0 / (3.0 + 1e6 * mean)),
    "nearly none": lambda rng, mean: rng.poisson(0.03 * mean),
    "zeros": lambda rng, mean: rng.poisson(mean) * (rng.random(len(mean)) < 0.4),
    "constant": lambda rng, mean: np.where(rng.random(len(mean)) < 0.05, 3, 2),
}


def table(number):
    """Columns and counts of all kinds, copies and sums of columns, categories; weights with zeros, offsets."""
    rng = np.random.default_rng([11, number])
    n, p = int(rng.choice([12, 25, 60, 150, 400])), int(rng.integers(3, 16))
    kinds = rng.choice(list(COLUMNS), size=p) if rng.random() < 0.6 else np.full(p, rng.choice(list(COLUMNS)))
    X = np.column_stack([COLUMNS[kind](rng, n) for kind in kinds])
    if rng.random() < 0.3:
        X[:, -1] = X[:, 0] * rng.choice([1.0, -3.0])
    if rng.random() < 0.3:
        X[:, -2] = X[:, 0] + X[:, 1] + (np.arange(n) == 0) * 10.0 ** rng.uniform(-5, 0)
    ranks = np.argsort(np.argsort(X, axis=0), axis=0) / n - 0.5
    strength = rng.choice([0.0, 1.0, 3.0])
    eta = ranks[:, : min(3, p)] @ rng.normal(size=min(3, p)) * strength + rng.choice([-1.0, 0.5, 3.0])
    offset = rng.normal(size=n) if rng.random() < 0.25 else None
    y = COUNTS[rng.choice(list(COUNTS))](rng, np.exp(eta + (0.0 if offset is None else offset))).astype(float)
    weights = rng.integers(0, 4, n).astype(float) if rng.random() < 0.3 else None
    stored = X
    if rng.random() < 0.3:
        stored = sparse.csc_array(X)
    elif rng.random() < 0.4:
        levels = int(rng.integers(2, 7))
        stored = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
        stored["c"] = pd.Categorical(rng.integers(0, levels, n))
        stored["x0"] = pd.Categorical(np.digitize(ranks[:, 0], np.linspace(-0.5, 0.5, levels)))
    how = CRITERIA[rng.integers(len(CRITERIA))], ALGORITHMS[rng.integers(len(ALGORITHMS))]
    return stored, y, weights, offset, *how


def searches(number):
    """Trails of both engines, None where the outcome is refused."""
    X, y, weights, offset, criterion, algorithm = table(number)
    options = {**algorithm, "max_features": 5}
    case = Case(X, y, weights, (), offset)
    try:
        engines = ("exhaustive", "certified")
        return [trail_of(case, "negative_binomial", criterion, engine, **options) for engine in engines]
    except InvalidInput:  # no counts at all, or nothing that varies
        return None


def main(first, last, seconds=1e9):
    return attack(searches, first, last, seconds)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
