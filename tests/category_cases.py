"""Random tables of categories, groups and numbers that are hard on bounds, for all who check them against fits.

`python tests/category_cases.py 0 500` compares the engines on the seeds from 0 to 499.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd

import fbed
from engine_cases import ALGORITHMS, CRITERIA


def category(rng, values, n_levels):
    """Levels of a continuous variable, as frequent as each other or not."""
    inner = np.sort(rng.uniform(size=n_levels - 1)) if rng.uniform() < 0.6 else np.arange(1, n_levels) / n_levels
    return np.array([f"l{code}" for code in np.searchsorted(np.quantile(values, inner), values)])


def predictors(rng, n, latent):
    """Categories of 2 to 40 levels, some nested in others or equal to them, beside numbers and rare counts."""
    noisy = lambda size: latent[:, rng.integers(6)] + size * rng.normal(size=n)  # noqa: E731
    columns = {}
    for j in range(rng.integers(1, 5)):
        columns[f"c{j}"] = category(
            rng, noisy(rng.choice([0.1, 0.5, 2])), min(rng.choice([2, 3, 6, 10, 20, 40]), n // 2)
        )
    first = np.unique(columns["c0"], return_inverse=True)[1]
    if rng.uniform() < 0.4:
        columns["coarse"] = np.array([f"g{code % 3}" for code in first])
        columns["fine"] = np.array([f"{level}{rng.integers(2)}" for level in columns["c0"]])
    if rng.uniform() < 0.3:
        columns["copy"] = np.array([f"{level}x" for level in columns["c0"]])
    columns |= {f"x{j}": noisy(1.0) for j in range(rng.integers(0, 5))}
    columns |= {
        f"s{j}": (rng.uniform(size=n) < 0.1) * rng.poisson(2, n).astype(float) for j in range(rng.integers(0, 5))
    }
    table = pd.DataFrame(columns)
    for name in [name for name in columns if name in ("c0", "c1", "c2", "c3") and rng.uniform() < 0.15]:
        table[name] = pd.Categorical(table[name], categories=[*sorted(set(table[name])), "never"])
    return table, first


def outcome(rng, family, signal):
    standard = (signal - signal.mean()) / max(signal.std(), 1e-9)
    if family == "poisson":
        return rng.poisson(np.exp(np.clip(standard, -3, 2)))
    if family == "cox":
        return np.exp(rng.normal(size=len(signal)) - standard), rng.uniform(size=len(signal)) < 0.7
    if family == "multinomial":
        return np.array(list("abc"))[np.digitize(signal, np.quantile(signal, [0.33, 0.66]))]
    y = (signal > np.quantile(signal, rng.uniform(0.15, 0.85))).astype(int)
    y[:2] = [0, 1] if y.min() == y.max() else y[:2]
    return y


def category_case(seed, family="binomial"):
    """A table, an outcome, and how to search."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(25, 260))
    latent = rng.normal(size=(n, 6))
    table, first = predictors(rng, n, latent)
    signal = latent[:, :3] @ rng.normal(size=3) * rng.choice([0.2, 1, 3]) + rng.choice([0, 0.3, 1]) * rng.normal(size=n)
    if rng.uniform() < 0.5:
        signal = signal + rng.normal(size=first.max() + 1)[first] * rng.choice([0.5, 2, 10])
    how = {"family": family, "criterion": CRITERIA[rng.integers(len(CRITERIA))]}
    how |= ALGORITHMS[rng.integers(len(ALGORITHMS))]
    if rng.uniform() < 0.3:
        weights = [rng.integers(1, 4, n).astype(float), rng.uniform(0.1, 3, n), 10.0 ** rng.uniform(-1, 1, n)]
        how["sample_weight"] = weights[rng.integers(3)]
    if rng.uniform() < 0.25:
        how["include"] = [table.columns[rng.integers(table.shape[1])]]
    numbers = [name for name in table if name[0] in "xs" and name not in how.get("include", ())]
    if len(numbers) >= 3 and rng.uniform() < 0.4:
        how["groups"] = {"several": numbers[: rng.integers(2, 4)]}
    return table, outcome(rng, family, signal), how


def answers(table, y, how, engine):
    """What a search tells: who came and went, how many were tested, and the statistics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = fbed.select(table, y, engine=engine, test="lr", **how)  # by bounds, not by pairs of rows
        except fbed.InvalidInput as error:
            return str(error), ()
    steps = [(row.action, row.variable, row.df, row.tested, row.n_dropped) for row in found.trace]
    return (steps, found.n_tests), [row.statistic for row in found.trace if row.statistic is not None]


def differ(seed, family="binomial"):
    """Both answers of a case where the engines differ, else None."""
    case = category_case(seed, family)
    one, other = (answers(*case, engine) for engine in ("certified", "exhaustive"))
    same = one[0] == other[0] and np.allclose(one[1], other[1], rtol=1e-7, atol=1e-6)
    return None if same else (one, other)


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:3])
    bad = {seed: found for seed in range(first, last) if (found := differ(seed, *sys.argv[3:]))}
    for seed, (one, other) in bad.items():
        print(seed, one, other, sep="\n  ")
    print(f"{len(bad)} of {last - first} differ")
