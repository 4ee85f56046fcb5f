"""Five real predictors among 200 (n = 1000): FBED^1 finds them for every family."""

from __future__ import annotations

import numpy as np
import pytest

import fbed

N, P, REAL = 1000, 200, 5


def drawn(seed=1, n=N, p=P, strength=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return rng, X, strength * X[:, :REAL] @ np.array([1.0, -1.0, 1.0, -1.0, 1.0])


def survival(rng, eta, shape=1.0):
    life, end = np.exp(-eta) * rng.weibull(shape, len(eta)), rng.exponential(3.0, len(eta))
    return np.minimum(life, end), life <= end


def trials(rng, eta):
    number = rng.integers(1, 6, len(eta))
    return rng.binomial(number, 1.0 / (1.0 + np.exp(-eta))), {"trials": number}


def clustered(rng, eta):
    cluster = rng.integers(0, 100, len(eta))
    return eta + rng.normal(size=len(eta)) + 0.7 * rng.normal(size=100)[cluster], {"cluster": cluster}


OUTCOMES = {
    "binomial": lambda rng, eta: ((2 * eta + rng.logistic(size=len(eta)) > 0), {}),
    "binomial trials": trials,
    "multinomial": lambda rng, eta: (
        (rng.gumbel(size=(len(eta), 3)) + np.outer(eta, [0.0, 2.0, -2.0])).argmax(axis=1).astype(str),
        {},
    ),
    "ordinal": lambda rng, eta: (np.digitize(2 * eta + rng.logistic(size=len(eta)), [-2, 0, 1, 3]), {}),
    "ordinal probit": lambda rng, eta: (np.digitize(eta + rng.normal(size=len(eta)), [-1, 0, 1]), {"link": "probit"}),
    "poisson": lambda rng, eta: (rng.poisson(np.exp(eta)), {}),
    "negative_binomial": lambda rng, eta: (rng.negative_binomial(1.5, 1.5 / (1.5 + np.exp(1.0 + eta))), {}),
    "gamma": lambda rng, eta: (rng.gamma(2.0, np.exp(eta)), {}),
    "cox": lambda rng, eta: (survival(rng, eta), {}),
    "weibull": lambda rng, eta: (survival(rng, eta, 1.5), {}),
    "gaussian": lambda rng, eta: (eta + rng.normal(size=len(eta)), {}),
    "mixed": clustered,
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_with_a_likelihood_ebic_finds_the_five(name):
    rng, X, eta = drawn()
    y, options = OUTCOMES[name](rng, eta)
    # γ = 1 counts all models of a size: the default γ is made for few noise variables to slip in, not for none
    result = fbed.select(X, y, family=name.split()[0], criterion="ebic", gamma=1.0, **options)
    assert sorted(result.indices) == list(range(REAL))
    assert result.status == "converged"


WITHOUT = {
    "quantile": lambda rng, eta: (eta + 0.5 * rng.standard_t(2, len(eta)), {}),
    "robust": lambda rng, eta: (eta + 0.5 * rng.standard_t(2, len(eta)), {}),
    "spearman": lambda rng, eta: (np.exp(eta + rng.normal(size=len(eta))), {}),
    "gaussian HC3": lambda rng, eta: (eta + np.exp(0.5 * eta) * rng.normal(size=len(eta)), {"cov": "HC3"}),
    "gaussian cluster": lambda rng, eta: (clustered(rng, eta)[0], {**clustered(rng, eta)[1], "cov": "cluster"}),
    "gee": clustered,
    "gee counts": lambda rng, eta: (
        rng.poisson(np.exp(eta)),
        {"cluster": rng.integers(0, 100, len(eta)), "link": "log"},
    ),
    "poisson score": lambda rng, eta: (rng.poisson(np.exp(eta)), {"test": "score"}),
    "cox wald": lambda rng, eta: (survival(rng, eta), {"test": "wald"}),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_without_a_likelihood_a_level_finds_the_five(name):
    rng, X, eta = drawn()
    y, options = WITHOUT[name](rng, eta)
    result = fbed.select(X, y, family=name.split()[0], alpha=0.001, **options)
    assert set(range(REAL)) <= set(result.indices)
    # at level .001 two scans of 195 noise variables let in .4 on average: more than two in a fixed draw is a defect
    assert len(result.indices) <= REAL + 2


def test_tables_of_counts_find_the_five():
    """A sum of five bits, known but for one row in twenty: the df of G² double with every bit that is known."""
    rng = np.random.default_rng(4)
    X = rng.integers(0, 2, size=(N, P))
    y = np.where(rng.random(N) < 0.95, X[:, :REAL].sum(axis=1), rng.integers(0, 6, N))
    result = fbed.select(X, y, family="gsquare", criterion="ebic", gamma=1.0)
    assert sorted(result.indices) == list(range(REAL))


@pytest.mark.slow
def test_random_features_find_the_five():
    pytest.importorskip("causallearn")
    rng, X, eta = drawn(strength=1.0)
    result = fbed.select(X, eta + rng.normal(size=N), family="kernel", test="rcit", alpha=0.001)
    assert set(range(REAL)) <= set(result.indices)
    assert len(result.indices) <= REAL + 2


@pytest.mark.parametrize("test", ["kci", "rcit"])
def test_kernels_see_what_no_line_can(test):
    """y depends on a square: a rank correlation sees nothing. 200 rows and 6 columns, since KCI is cubic in n."""
    pytest.importorskip("causallearn")
    rng, X, _ = drawn(n=200, p=6)
    y = X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=200)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    result = fbed.select(X, y, family="kernel", test=test, alpha=0.001)
    assert sorted(result.indices) == [0, 1]
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert 0 not in fbed.select(X, y, family="spearman", alpha=0.001).indices
