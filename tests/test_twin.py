"""The selection, its order, every statistic and the number of tests equal those of brute force with statsmodels."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import fbed
from twin import Rule, Twin

FAMILIES = ("gaussian", "binomial")
ALGORITHMS = (0, 1, 2, math.inf, None)  # K, or None for FBS
RULES = (
    Rule("lr", alpha=0.01),
    Rule("lr", alpha=0.05),
    Rule("lr", alpha=0.2),
    Rule("lr", alpha=0.2, alpha_backward=0.005),
    Rule("lr", alpha=0.02, alpha_backward=0.1),
    Rule("aic"),
    Rule("bic"),
    Rule("ebic"),
    Rule("ebic", gamma=0.3),
    Rule("ebic", gamma=1.0),
)
COMBINATIONS = list(product(FAMILIES, ALGORITHMS, RULES))
N_DATASETS = 300


def random_dataset(seed, family):
    """n 30–300, p 3–40, most of them small; every kind of awkward column turns up."""
    rng = np.random.default_rng([7, seed])
    n, p = int(30 * 10 ** rng.uniform()), int(3 * (40 / 3) ** rng.uniform() + 0.5)
    shared = rng.choice([0.0, 0.5, 0.9, 2.0])
    X = rng.normal(size=(n, p)) + shared * rng.normal(size=(n, 1))
    effect = np.where(rng.uniform(size=p) < 0.3, rng.normal(size=p), 0.0)
    signal = X @ effect + rng.normal(size=n) * rng.choice([0.5, 1.0, 3.0])
    y = signal if family == "gaussian" else (signal > np.quantile(signal, rng.uniform(0.15, 0.6))).astype(float)
    for j in range(p):
        X[:, j] = awkward(rng, X, j, y)
    weights = None
    if seed % 4 == 0:
        weights = rng.integers(0, 4, n).astype(float)
    elif seed % 12 == 1:
        weights = rng.uniform(0.2, 2.5, n)
    if family == "binomial" and weights is not None:
        weights[[int(np.argmin(y)), int(np.argmax(y))]] = 1.0  # both classes have a row that counts
    return X, y, weights


def awkward(rng, X, j, y):
    """Column j as it is, or skewed, rare, duplicated, rescaled, constant, coarse or nearly the outcome."""
    x, n = X[:, j], len(y)
    earlier = X[:, rng.integers(0, j)] if j else x
    kind = rng.choice(12)
    if kind == 0:
        return np.exp(1.5 * x)
    if kind == 1:
        return (x > np.quantile(x, rng.uniform(0.5, 0.97))).astype(float)
    if kind == 2:
        return earlier.copy()
    if kind == 3:
        return earlier * 10.0 ** rng.integers(-60, 60)
    if kind == 4:
        return 5.0 * np.abs(earlier).max() - 3.0 * earlier
    if kind == 5:
        return np.full(n, rng.choice([0.0, 0.1, 1e9]))
    if kind == 6:
        return np.round(x)
    if kind == 7:
        return y + rng.normal(size=n) * rng.choice([0.1, 0.5, 0.6, 1.0, 1.0, 2.0])
    return x


def library(X, y, family, rule, k, weights=None, **options):
    criterion = {
        "lr": lambda: fbed.LikelihoodRatio(rule.alpha, rule.alpha_backward, rule.min_gain),
        "aic": lambda: fbed.AIC(rule.min_gain),
        "bic": lambda: fbed.BIC(rule.min_gain),
        "ebic": lambda: fbed.EBIC(rule.gamma, rule.min_gain),
    }[rule.name]()
    run = {"early_dropping": False} if k is None else {"k": k}
    return fbed.select(X, y, family=family, criterion=criterion, sample_weight=weights, **run, **options)


def assert_same(result, expected):
    assert result.indices.tolist() == expected.selected
    assert (result.n_tests.forward, result.n_tests.backward) == (expected.tests["forward"], expected.tests["backward"])
    assert result.status == expected.status
    changed = [row for row in result.trace if row.variable is not None]
    assert [(row.phase, row.variable) for row in changed] == [(phase, j) for phase, j, _, _ in expected.steps]
    for column, position in (("statistic", 2), ("log_p", 3)):
        found = np.array([getattr(row, column) for row in changed])
        wanted = np.array([step[position] for step in expected.steps])
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    for j, row in enumerate(result.candidates.row):
        if row >= 0:
            statistic = expected.scans[row][j]
            slack = 1e-6 + 1e-6 * statistic
            assert result.candidates.lower[j] - slack <= statistic <= result.candidates.upper[j] + slack, j


def test_every_combination_is_covered():
    assert len(COMBINATIONS) <= N_DATASETS


@pytest.mark.parametrize("seed", range(N_DATASETS))
def test_equals_brute_force(seed):
    family, k, rule = COMBINATIONS[seed % len(COMBINATIONS)]
    X, y, weights = random_dataset(seed, family)
    result = library(X, y, family, rule, k, weights)
    assert_same(result, Twin(X, y, family, rule, weights).search(k))


OPTIONS = (
    {"include": [2, 0]},
    {"exclude": [1, 3]},
    {"include": [1], "exclude": [0]},
    {"max_features": 2},
    {"include": [2], "max_features": 1},
    {"max_features": 0},
    {"backward": False},
)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("rule", [Rule("lr", alpha=0.1), Rule("ebic", gamma=0.5)], ids=lambda rule: rule.name)
def test_options_equal_brute_force(family, options, rule):
    for seed, k in ((1000, 0), (1001, 1), (1002, None)):
        X, y, _ = random_dataset(seed, family)
        X, y = X[:100, :12], y[:100]
        forced, left_out = options.get("include", []), options.get("exclude", [])
        if any(np.ptp(X[:, j]) == 0 for j in forced):
            continue
        n_candidates = X.shape[1] - len(forced) - len(left_out)
        twin = Twin(X, y, family, rule, n_candidates=n_candidates)
        assert_same(library(X, y, family, rule, k, **options), twin.search(k, **options))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["lr", "aic", "bic", "ebic"])
def test_minimum_gain_equals_brute_force(family, name):
    rule = Rule(name, alpha=0.1, min_gain=3.5)
    for seed in (2000, 2001):
        X, y, _ = random_dataset(seed, family)
        assert_same(library(X, y, family, rule, 1), Twin(X, y, family, rule).search(1))


@pytest.mark.parametrize("seed", range(12))
def test_fewer_rows_than_variables_equal_brute_force(seed):
    """The linear model ends when the next variable would leave no residual degree of freedom."""
    rng = np.random.default_rng(seed)
    n = 4 + seed % 5
    X, y = rng.normal(size=(n, 10)), rng.normal(size=n)
    k, rule = (None, math.inf)[seed % 2], (Rule("aic"), Rule("lr", alpha=0.6))[seed // 2 % 2]
    assert_same(library(X, y, "gaussian", rule, k), Twin(X, y, "gaussian", rule).search(k))
