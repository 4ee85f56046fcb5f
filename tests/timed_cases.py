"""Random tables beside Weibull survival times; run as a program, as many of them as one likes.

``python tests/timed_cases.py 0 1000`` searches with both engines, the one by sums over rows forced upon short tables,
and tells which numbers do not agree.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from scipy import sparse

from dispersed_cases import COLUMNS
from engine_cases import ALGORITHMS, CRITERIA, Case, attack, trail_of
from fbed.errors import InvalidInput
from fbed.families import builders

ERRORS = {
    "weibull": lambda rng, n: rng.weibull(1.5, n),
    "steep": lambda rng, n: rng.weibull(50.0, n),
    "flat": lambda rng, n: rng.weibull(0.2, n),
    "log-normal": lambda rng, n: np.exp(2.0 * rng.normal(size=n)),
    "heavy tails": lambda rng, n: np.exp(np.clip(rng.standard_t(1.2, size=n), -300.0, 300.0)),
    "ties": lambda rng, n: np.ceil(3.0 * rng.weibull(1.0, n)),
    "outlier": lambda rng, n: rng.weibull(1.0, n) * np.where(np.arange(n) == rng.integers(n), 1e9, 1.0),
    "late outlier": lambda rng, n: rng.weibull(1.0, n) * np.where(np.arange(n) == rng.integers(n), 1e-9, 1.0),
    "perfect": lambda rng, n: np.exp(1e-6 * rng.normal(size=n)),
}
CENSORING = [0.0, 0.0, 0.3, 0.9, 0.99]
ILL = {10}  # a column next to others under weights a million-fold apart: fits of its models differ by their start
WEIGHTS = [
    lambda rng, n: None,
    lambda rng, n: None,
    lambda rng, n: rng.integers(0, 4, n).astype(float),
    lambda rng, n: 10.0 ** rng.uniform(-3.0, 3.0, n),
]


def table(number):
    """Columns and times of all kinds, copies and sums of columns, categories, columns that are the time itself."""
    rng = np.random.default_rng([12, number])
    n, p = int(rng.choice([25, 60, 150, 400, 1500])), int(rng.integers(3, 16))
    kinds = rng.choice(list(COLUMNS), size=p) if rng.random() < 0.6 else np.full(p, rng.choice(list(COLUMNS)))
    X = np.column_stack([COLUMNS[kind](rng, n) for kind in kinds])
    if rng.random() < 0.3:
        X[:, -1] = X[:, 0] * rng.choice([1.0, -3.0])
    if rng.random() < 0.3:
        X[:, -2] = X[:, 0] + X[:, 1] + (np.arange(n) == 0) * 10.0 ** rng.uniform(-5, 0)
    if rng.random() < 0.1:
        X[:, 2] = 7.0
    ranks = np.argsort(np.argsort(X, axis=0), axis=0) / n - 0.5
    strength = rng.choice([0.0, 0.3, 1.0, 3.0])
    eta = ranks[:, : min(3, p)] @ rng.normal(size=min(3, p)) * strength
    t = np.exp(eta) * ERRORS[rng.choice(list(ERRORS))](rng, n) * 10.0 ** rng.choice([-6.0, 0.0, 6.0])
    end = np.quantile(t, 1.0 - rng.choice(CENSORING)) * (rng.exponential(1.0, n) if rng.random() < 0.5 else 1.0)
    event, t = t <= end, np.maximum(np.minimum(t, end), 1e-300)
    if rng.random() < 0.1:
        X[:, 1] = np.log(t) + rng.choice([0.0, 0.0, 1e-3]) * rng.normal(size=n)
    stored = X
    if rng.random() < 0.3:
        stored = sparse.csc_array(X)
    elif rng.random() < 0.4:
        levels = int(rng.integers(2, 7))
        stored = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
        stored["c"] = pd.Categorical(rng.integers(0, levels, n))
        stored["x0"] = pd.Categorical(np.digitize(ranks[:, 0], np.linspace(-0.5, 0.5, levels)))
    how = CRITERIA[rng.integers(len(CRITERIA))], ALGORITHMS[rng.integers(len(ALGORITHMS))]
    return stored, (t, event), WEIGHTS[rng.integers(len(WEIGHTS))](rng, n), *how


def searches(number):
    """Trails of both engines, None where the outcome is refused."""
    X, y, weights, criterion, algorithm = table(number)
    options = {**algorithm, "max_features": 5}
    case = Case(X, y, weights)
    try:
        return [trail_of(case, "weibull", criterion, engine, **options) for engine in ("exhaustive", "certified")]
    except InvalidInput:  # no events at all, or nothing that varies
        return None


def main(first, last, seconds=1e9):
    builders.TALL = 0
    return attack(searches, first, last, seconds)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
