"""Survival times beside columns that are mostly 0, of which many belong to survivors only: searches and attacks.

python -m tests.survivor_cases --seconds 300
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parent))

from engine_cases import ALGORITHMS, CRITERIA, Case, trail_of
from fbed.errors import InvalidInput
from fbed.families import builders


def survivors(rng: np.random.Generator) -> Case:
    """Dummies and counts of any sign on few rows or many, copies and unions of them, and numbers beside."""
    n = int(rng.integers(30, 260))
    X = (rng.random((n, int(rng.integers(4, 16)))) < 10.0 ** rng.uniform(-2, -0.6)).astype(float)
    X *= rng.choice([1.0, -2.0, 0.5], X.shape[1])
    if rng.random() < 0.4:  # signs of both kinds in one column
        X[:, 0] *= rng.choice([-1.0, 1.0], n)
    if rng.random() < 0.5:
        X[:, 1] = X[:, 2] * rng.choice([1.0, 3.0])
        X[rng.integers(n), 1] += rng.choice([0.0, 1.0])
    X = np.column_stack([X, np.maximum(X[:, 2], X[:, 3]), rng.normal(size=(n, int(rng.integers(1, 4))))])
    effect = rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < 0.4)
    hours = rng.exponential(np.exp(-np.clip(X @ effect, -4.0, 4.0)))
    died = rng.random(n) < rng.choice([0.3, 0.7, 0.95])
    for j in rng.choice(X.shape[1] - 3, 3):
        died &= X[:, j] == 0.0
    if not died.any():
        died[rng.integers(n)] = True
    hours = np.ceil(4.0 * hours) if rng.random() < 0.5 else hours
    kinds = (None, rng.integers(1, 4, n).astype(float), rng.integers(0, 3, n).astype(float))
    return Case(X, (hours, died), kinds[rng.integers(3)])


def compared(seed: int) -> str | None:
    """What differs from fitting every model."""
    rng = np.random.default_rng([61, seed])
    case = survivors(rng)
    if rng.random() < 0.5:
        case = Case(sparse.csc_matrix(case.X), case.y, case.weights, case.forced)
    names = list(CRITERIA)
    criterion, algorithm = names[seed % len(names)], ALGORITHMS[seed % len(ALGORITHMS)]
    try:
        one, other = (trail_of(case, "cox", criterion, engine, **algorithm) for engine in ("exhaustive", "certified"))
    except InvalidInput:
        return None
    if one.selected != other.selected:
        return f"{one.selected} and {other.selected}"
    for step, twin in zip(one.steps, other.steps, strict=True):
        if step.dropped.tolist() != twin.dropped.tolist():
            return f"dropped {step.dropped.tolist()} and {twin.dropped.tolist()}"
        if step.scan.chosen is None:
            continue
        values = np.array([found.scan.chosen.statistic for found in (step, twin)])
        if not np.allclose(*values, rtol=1e-6, atol=1e-6):
            return f"statistics {values}"
    return None


def main() -> int:
    """Print every seed that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    builders.TALL = 0
    seed, differ, end = asked.first, 0, time.monotonic() + asked.seconds
    while time.monotonic() < end:
        found = compared(seed)
        if found is not None:
            differ += 1
            print(seed, found, flush=True)
        seed += 1
    print(f"{seed - asked.first} cases, {differ} differ")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
