"""Weights at the edge of what counts as a frequency: the same words for every family, and answers up to there."""

from __future__ import annotations

import numpy as np
import pytest

import fbed

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(size=N)
TIME, EVENT = RNG.exponential(np.exp(-X[:, 0])) + 0.01, RNG.random(N) < 0.7
CLUSTER = np.arange(N) % 12
OUTCOMES = {
    "gaussian": (Y, {}),
    "binomial": ((Y > 0).astype(int), {}),
    "multinomial": (np.digitize(Y, [-0.5, 0.5]), {}),
    "ordinal": (np.digitize(Y, [-0.5, 0.5]), {}),
    "poisson": (RNG.poisson(np.exp(X[:, 0])), {}),
    "negative_binomial": (RNG.poisson(np.exp(Y)), {}),
    "gamma": (TIME, {}),
    "cox": ((TIME, EVENT), {}),
    "cox late": ((TIME, EVENT), {"family": "cox", "entry": 0.5 * TIME}),
    "weibull": ((TIME, EVENT), {}),
    "quantile": (Y, {}),
    "robust": (Y, {}),
    "mixed": (Y, {"cluster": CLUSTER}),
    "gee": (Y, {"cluster": CLUSTER}),
    "spearman": (Y, {}),
}


def run(name, weights):
    y, options = OUTCOMES[name]
    return fbed.select(X, y, sample_weight=weights, **{"family": name, "k": 0, **options})


@pytest.mark.parametrize("name", OUTCOMES)
@pytest.mark.parametrize("weight", [1e-300, 1e300])
def test_weights_that_count_nothing_are_refused(name, weight):
    with pytest.raises(fbed.InvalidInput, match="sample size"):
        run(name, np.full(N, weight))
    with pytest.raises(fbed.InvalidInput, match="-fold"):
        run(name, np.where(np.arange(N) % 2, weight, 1.0))


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in OUTCOMES if name != "robust"])
def test_heavy_and_light_rows(name):
    """Neither rows that all are heavy nor a single one break anything."""
    assert run(name, np.full(N, 1e11)).selected[0] == 0
    widest = 1e5 if name in ("quantile", "negative_binomial") else 1e11
    for some in (np.arange(N) == 5, np.arange(N) % 2 == 0):
        result = run(name, np.where(some, widest, 1.0))
        assert all(np.isfinite(row.statistic) for row in result.trace if row.statistic is not None)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "weibull", "quantile"])
def test_equal_weights_scale_the_statistic(name):
    weight = 1e9
    found, one = run(name, np.full(N, weight)).trace[0], run(name, np.ones(N)).trace[0]
    assert found.variable == one.variable
    assert found.statistic == pytest.approx(weight * one.statistic, rel=1e-7)


def test_weights_of_a_linear_program_may_differ_less():
    with pytest.raises(fbed.InvalidInput, match="7 digits"):
        run("quantile", np.where(np.arange(N) == 5, 1e9, 1.0))


def test_weights_of_a_dispersion_may_differ_less():
    with pytest.raises(fbed.InvalidInput, match="dispersion"):
        run("negative_binomial", np.where(np.arange(N) == 5, 1e9, 1.0))


@pytest.mark.parametrize("family", ["binomial", "multinomial", "ordinal", "mixed", "gee"])
def test_weights_that_make_too_few_rows_are_told_as_such(family):
    rng = np.random.default_rng(0)
    X, weights, clusters = rng.normal(size=(60, 2)), np.full(60, 0.01), np.repeat(np.arange(12), 5)
    clustered = family in ("mixed", "gee")
    y = rng.normal(size=60) if clustered else np.arange(60) % (2 if family == "binomial" else 3)
    about = {"cluster": clusters} if clustered else {}
    with pytest.raises(fbed.InvalidInput, match="less than two rows, by their weights"):
        fbed.select(X, y, family=family, sample_weight=weights, **about)
    fbed.select(X, y, family=family, sample_weight=100 * weights, **about)
