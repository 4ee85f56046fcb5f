"""Random tables of categories beside rare words, many of which no success or no count has.

Coefficients of such words are infinite, by themselves or once levels and other words have explained their rows.
`python tests/explained_cases.py 0 500` compares the engines.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from category_cases import answers
from engine_cases import ALGORITHMS, CRITERIA
from fbed.models.engines import coded_regression
from fbed.models.engines.categories import coded_fit


def case(seed, family):
    """Categories, rare words of several kinds, and a few numbers."""
    rng = np.random.default_rng([7, seed])
    n = int(rng.integers(40, 260))
    table, signal = {}, rng.normal(size=n) * rng.choice([0.3, 1.0])
    for j in range(rng.integers(1, 3)):
        levels = int(rng.choice([3, 8, 25]))
        codes = rng.choice(levels, n, p=rng.dirichlet(np.full(levels, rng.choice([0.5, 5.0]))))
        signal = signal + rng.choice([0.5, 2.0]) * rng.normal(size=levels)[codes]
        table[f"c{j}"] = np.array([f"l{code:02}" for code in codes])
    for j in range(rng.integers(5, 25)):
        here = rng.random(n) < rng.choice([0.02, 0.05, 0.2])
        entries = [np.ones(n), rng.poisson(2, n) + 1.0, rng.gamma(1.0, size=n), np.sign(rng.normal(size=n))]
        table[f"w{j}"] = np.where(here, entries[rng.integers(4)], 0.0) * rng.choice([1.0, 1e-5, -3.0])
        signal = signal - here * rng.choice([0.0, 0.0, 2.0, 8.0]) * rng.choice([1.0, -1.0])
    names = list(table)
    for j in range(rng.integers(0, 4)):  # words that are next to others, or part of them
        word = table[names[rng.integers(len(names) - 1) + 1]] if len(names) > 1 else signal
        if word.dtype.kind == "f":
            table[f"p{j}"] = word * (rng.random(n) < rng.choice([0.5, 0.9, 1.0]))
    table |= {f"x{j}": np.round(rng.normal(size=n), int(rng.integers(0, 4))) for j in range(rng.integers(0, 3))}
    how = {"family": family, "criterion": CRITERIA[rng.integers(len(CRITERIA))]}
    how |= ALGORITHMS[rng.integers(len(ALGORITHMS))]
    if rng.random() < 0.3:
        how["sample_weight"] = rng.integers(1, 4, n).astype(float)
    if rng.random() < 0.2:
        how["offset"] = rng.normal(size=n)
    mean = signal - np.quantile(signal, rng.uniform(0.5, 0.95))
    y = (
        (mean + 0.5 * rng.logistic(size=n) > 0).astype(int)
        if family == "binomial"
        else rng.poisson(np.exp(np.clip(mean, -9, 3)))
    )
    y[0] = 1 - y[0] if y.min() == y.max() else y[0]
    return pd.DataFrame(table), y, how


def differ(seed, family):
    """Both answers of a case where the engines differ, else None."""
    one, other = (answers(*case(seed, family), engine) for engine in ("certified", "exhaustive"))
    same = one[0] == other[0] and np.allclose(one[1], other[1], rtol=1e-7, atol=1e-6)
    return None if same else (one, other)


def by_codes():
    """Every category is worth to stay codes."""
    coded_fit.MANY_LEVELS = coded_regression.MANY_LEVELS = 1
    coded_regression._WORTH = 0.0


if __name__ == "__main__":
    by_codes()
    first, last = map(int, sys.argv[1:3])
    for family in ("binomial", "poisson"):
        bad = {seed: found for seed in range(first, last) if (found := differ(seed, family))}
        for seed, (one, other) in bad.items():
            print(seed, one, other, sep="\n  ")
        print(f"{family}: {len(bad)} of {last - first} differ")
