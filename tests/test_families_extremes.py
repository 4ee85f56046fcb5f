"""Where a likelihood is nearly, or really, unbounded, or its terms are enormous: answers that do not depend on luck."""

from __future__ import annotations

import time as clock

import numpy as np
import pytest
from scipy import optimize, sparse, special, stats

import fbed
from fbed.models.likelihoods.newton import JITTER, newton_step
from hostile_references import mixed_least


@pytest.mark.parametrize("spread", [0.0, 1.0, 1e2, 1e4, 1e6])
def test_any_ratio_of_variances(spread):
    """Cluster effects of sd 10⁴ beside residuals of sd 1 gave .58 for 8.89, since the ratio ended at 10⁶."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        cluster = np.repeat(np.arange(20), 5)
        X = np.column_stack([rng.normal(size=(100, 2)), rng.normal(size=20)[cluster]])
        y = 0.3 * X[:, 0] + rng.normal(size=100) + spread * rng.normal(size=20)[cluster]
        found = fbed.select(X, y, family="mixed", cluster=cluster, alpha=0.999, k=0, backward=False)
        Z = np.ones((100, 1))
        for row in [row for row in found.trace if row.variable is not None]:
            larger = np.column_stack([Z, X[:, row.variable]])
            expected = mixed_least(Z, y, cluster) - mixed_least(larger, y, cluster)
            assert row.statistic == pytest.approx(expected, rel=1e-6, abs=1e-6)
            Z = larger


def test_a_fit_that_is_perfect_within_clusters_is_saturated():
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(12), 5)
    X = rng.normal(size=(60, 3))
    y = X[:, 1] + rng.normal(size=12)[cluster]
    result = fbed.select(X, y, family="mixed", cluster=cluster)
    assert (result.selected, result.status) == ((1,), "saturated")


def test_an_outcome_that_is_constant_within_clusters_is_refused():
    cluster = np.repeat(np.arange(12), 5)
    with pytest.raises(fbed.InvalidInput, match="constant within every cluster"):
        fbed.select(np.random.default_rng(0).normal(size=(60, 3)), 0.1 + cluster % 7, family="mixed", cluster=cluster)


@pytest.mark.parametrize("noise", [0.0, 1e-8, 1e-6])
@pytest.mark.parametrize("censored", [False, True])
def test_perfect_survival_times_in_any_order_and_storage(noise, censored):
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(50, 4)), 2)
    time = np.exp(X[:, 0] - 0.5 * X[:, 1] + noise * rng.normal(size=50))
    event = rng.random(50) < 0.7 if censored else np.ones(50, bool)
    time = np.where(event, time, 0.9 * time)
    results = []
    for make in (np.asarray, np.asfortranarray, sparse.csc_array, sparse.csr_array):
        order = rng.permutation(50)
        results.append(fbed.select(make(X[order]), (time[order], event[order]), family="weibull"))
    assert {(result.selected, result.status) for result in results} == {((0, 1), "saturated")}
    for result in results:
        assert result.trace[1].statistic == pytest.approx(results[0].trace[1].statistic, rel=1e-9)
        assert result.model.coefficients[1:3] == pytest.approx((1.0, -0.5), abs=1e-5)


def negative_binomial_least(Z, y):
    """−2·log-likelihood by a search from several starts; the dispersion by its logarithm."""

    def loss(parameters):
        mean, size = np.exp(Z @ parameters[:-1]), np.exp(-parameters[-1])
        return -stats.nbinom.logpmf(y, size, size / (size + mean)).sum()

    start = np.append(np.linalg.lstsq(Z, np.log(y + 1.0), rcond=None)[0], 0.0)
    found = optimize.minimize(
        loss, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9, "maxiter": 5000}
    )
    return 2.0 * found.fun


@pytest.mark.parametrize("size", [1e2, 1e6, 1e9])
def test_large_counts(size):
    """Time and memory used to grow with the largest count: two minutes at a million."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 4))
    y = np.floor(rng.gamma(2.0, np.exp(0.5 * X[:, 0]) * size / 2.0))
    started = clock.perf_counter()
    found = fbed.select(X, y, family="negative_binomial", k=0)
    assert clock.perf_counter() - started < 10.0
    Z = np.column_stack([np.ones(120), X[:, 0]])
    expected = negative_binomial_least(Z[:, :1], y) - negative_binomial_least(Z, y)
    assert found.trace[0].variable == 0
    assert found.trace[0].statistic == pytest.approx(expected, rel=1e-5)
    assert found.model.coefficients[-1] == pytest.approx(0.5, rel=0.4)


def test_large_counts_without_overdispersion():
    """The likelihood of Poisson counts of a billion is a difference of numbers of 11 digits."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 2))
    y = rng.poisson(1e9 * np.exp(1e-5 * X[:, 0])).astype(float)
    found = fbed.select(X, y, family="negative_binomial", alpha=0.999, k=0)
    expected = fbed.select(X, y, family="poisson", alpha=0.999, k=0)
    if dict(zip(found.model.terms, found.model.coefficients, strict=True))["dispersion"] == 0.0:
        assert found.trace[0].statistic == pytest.approx(expected.trace[0].statistic, rel=1e-5)
    mean = y.mean()
    deviance = 2.0 * float((special.xlogy(y, y / mean) - (y - mean)).sum())
    assert expected.model.null_deviance == pytest.approx(deviance, rel=1e-6)


def overdispersed_least(Z, y, offset):
    """Smallest −2 log-likelihood of overdispersed counts, up to a constant, by a search without derivatives."""

    def twice_negative(parameters):
        eta, alpha = Z @ parameters[:-1] + offset, np.exp(parameters[-1])
        counts = special.gammaln(y + 1 / alpha) - special.gammaln(1 / alpha) + y * (eta + np.log(alpha))
        return -2 * np.sum(counts - (y + 1 / alpha) * np.logaddexp(0.0, eta + np.log(alpha)))

    starts = [np.r_[np.zeros(Z.shape[1]), log_alpha] for log_alpha in (0.0, 4.0)]
    return min(optimize.minimize(twice_negative, s, method="Nelder-Mead", tol=1e-10).fun for s in starts)


@pytest.mark.parametrize("spread", [30.0, 200.0])
def test_offsets_over_hundreds_of_orders_of_magnitude(spread):
    """Means beyond 10³⁰⁸ made steps that nothing could be computed of, and the search for a shorter one never ended."""
    rng = np.random.default_rng(0)
    X, offset, y = rng.normal(size=(25, 3)), spread * rng.normal(size=25), rng.poisson(2, 25)
    options = {"family": "negative_binomial", "offset": offset, "alpha": 0.999, "k": 0, "backward": False}
    step = fbed.select(X, y, max_features=1, **options).trace[0]
    ones = np.ones((25, 1))
    wider = np.column_stack([ones, X[:, step.variable]])
    expected = overdispersed_least(ones, y, offset) - overdispersed_least(wider, y, offset)
    assert step.statistic == pytest.approx(expected, rel=1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("family", "seed"), [("poisson", 4), ("gamma", 3)])
def test_huge_offsets_cause_no_warnings(family, seed):
    rng = np.random.default_rng(seed)
    X, offset = rng.normal(size=(25, 4)), 200 * rng.normal(size=25)
    y = rng.poisson(2, 25) if family == "poisson" else rng.gamma(2, size=25)
    assert fbed.select(X, y, family=family, offset=offset, alpha=0.5).n_tests.total > 0


def test_a_pivot_that_rounding_leaves_at_0_ends_no_search():
    """Coefficients of ten classes, most of them certain: NumPy refused the Hessian, and the search ended with that."""
    flat = np.array([[1.0, 1.0 + JITTER], [1.0 + JITTER, 1.0]])  # which the jitter makes singular
    plain = np.array([[2.0, 0.3], [0.3, 1.0]])
    gradient = np.array([[1.0, 1.0], [1.0, 0.5]])  # a column each
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.solve(flat + JITTER * np.eye(2), gradient[:, 0])
    step, decrement = newton_step(gradient, np.array([flat, plain]))
    assert step[:, 0] == pytest.approx([0.5, 0.5])
    alone = newton_step(gradient[:, 1:], plain[None])
    assert (step[:, 1].tolist(), decrement[1]) == (alone[0][:, 0].tolist(), alone[1][0])
