"""Wald tests by bounds: the answers of the engine that fits every model."""

from __future__ import annotations

import mpmath
import numpy as np
import pandas as pd
import pytest

import fbed
from fbed._kernels import columns_pull_apart, wald_intervals
from fbed.models.engines.wald import WaldFit, enclosed, way
from fbed.models.likelihoods.likelihood import RegressionFit
from problem_cases import read_problem
from test_scored import drawn


def same_answers(X, y, **asked):
    quick, slow = (fbed.select(X, y, test="wald", engine=engine, **asked) for engine in ("certified", "exhaustive"))
    assert quick.indices.tolist() == slow.indices.tolist()
    assert quick.n_tests == slow.n_tests
    for row, wanted in zip(quick.trace, slow.trace, strict=True):
        assert row.dropped.tolist() == wanted.dropped.tolist()
        assert row.statistic == (wanted.statistic and pytest.approx(wanted.statistic, rel=1e-7, abs=1e-9))
    return quick


@pytest.mark.parametrize("kind", ["normal", "sparse", "indicators", "near copies", "heavy tails"])
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_a_fit_for_every_candidate(seed, family, kind):
    X, y, options = drawn(seed, family, kind)
    same_answers(X, y, family=family, alpha=[0.05, 0.3][seed % 2], k=seed % 3, early_dropping=seed != 2, **options)


@pytest.mark.parametrize("seed", range(6))
def test_trials_categories_groups_and_few_rows(seed):
    rng = np.random.default_rng([5, seed])
    n = [12, 30, 150][seed % 3]
    X = pd.DataFrame(rng.normal(size=(n, 9)), columns=list("abcdefghi"))
    X["c"] = pd.Categorical(rng.integers(0, 3, n).astype(str))
    trials = rng.integers(1, 5, n)
    y = rng.binomial(trials, 1.0 / (1.0 + np.exp(-X["a"] - (X["c"] == "1"))))
    groups = {"both": ["h", "i"]} if seed % 2 else None
    same_answers(X, y, family="binomial", trials=trials, alpha=0.2, groups=groups)


@pytest.mark.parametrize("counts", [False, True])
def test_separation(counts):
    """Infinite coefficients, of a column alone and of several together, have statistic 0."""
    rng = np.random.default_rng(11)
    X = np.column_stack([rng.normal(size=(60, 4)), (rng.random((60, 6)) < 0.06)])
    y = (X[:, 0] + X[:, 1] + 0.5 * rng.logistic(size=60) > 0).astype(int)
    X[:, 2] = np.where(y == 1, np.abs(X[:, 2]), -np.abs(X[:, 2])) if not counts else np.where(y == 0, X[:, 2], 0.0)
    X[:, 4] = (np.arange(60) < 9) & (y == 0)
    found = same_answers(X, y * (1 + counts), family="poisson" if counts else "binomial", alpha=0.2)
    assert not set(found.indices) & {2, 4}


def models(rng):
    """A model at its maximum, a column beside it, and the larger model at its own; None without a maximum."""
    counts, n = bool(rng.random() < 0.5), int(rng.integers(5, 80))
    Z = np.column_stack([np.ones(n), rng.normal(size=(n, int(rng.integers(0, 3))))])
    x = rng.standard_t(rng.choice([1.5, 3.0, 30.0]), size=n)
    eta = Z[:, 1:].sum(axis=1) + rng.normal() * np.clip(x, -3.0, 3.0)
    y = rng.poisson(np.exp(np.clip(eta, -4.0, 3.0))) if counts else eta + rng.logistic(size=n) > 0
    y, weight = y.astype(float), rng.choice([1.0, 2.0, 0.5], n)
    small, large = maximum(Z, y, weight, counts), maximum(np.column_stack([Z, x]), y, weight, counts)
    return None if small is None else (Z, x, y, weight, counts, small, large)


def maximum(Z, y, weight, counts):
    theta = np.zeros(Z.shape[1])
    for _ in range(100):
        mean = np.exp(np.clip(Z @ theta, -60, 60))
        mean = mean if counts else mean / (1.0 + mean)
        hessian = Z.T @ ((weight * (mean if counts else mean * (1.0 - mean)))[:, None] * Z)
        if not np.isfinite(hessian).all() or np.linalg.cond(hessian) > 1e12:
            return None
        step = np.linalg.solve(hessian, Z.T @ (weight * (y - mean)))
        far = np.abs(Z @ step).max()
        if far < 1e-9:
            return theta + step, hessian
        theta += step if far < 1.0 else step * np.log1p(far) / far
    return None


def beside(Z, x, y, weight, counts, small):
    """The model orthonormal under its curvatures, the column so beside it, and the slope along it."""
    theta, hessian = small
    Q = np.linalg.solve(np.linalg.cholesky(hessian), Z.T).T
    mean = np.exp(Z @ theta) if counts else 1.0 / (1.0 + np.exp(-Z @ theta))
    w = weight * (mean if counts else mean * (1.0 - mean))
    column = x - Q @ (Q.T @ (w * x))
    column /= np.sqrt(w @ column**2)
    return Q, column, np.array([abs(column @ (weight * (y - mean)))])


def test_the_maximum_is_where_the_first_step_says():
    rng, seen = np.random.default_rng(1), 0
    for _ in range(1500):
        found = models(rng)
        if found is None:
            continue
        Z, x, y, weight, counts, small, large = found
        Q, column, slope = beside(Z, x, y, weight, counts, small)
        furthest, reach = slope * np.abs(column).max(), slope * np.sqrt((Q**2).sum(axis=1) + column**2).max()
        (m,), (known,) = way(furthest, reach)
        if known:
            assert large is not None  # there is a maximum
            assert np.abs(np.column_stack([Z, x]) @ large[0] - Z @ small[0]).max() <= m * (1.0 + 1e-7)
            (low,), (high,) = enclosed(slope, slope, furthest, reach, np.zeros(1))
            assert low <= statistic_of(large) <= high
            seen += 1
    assert seen > 200


def test_no_shorter_way_would_do():
    """One row beside a model that does not move: counts of mean μ, of which y came. log(μ/y) is how far it goes."""
    for y in (0.9, 0.5, 0.1):
        step = np.array([1.0 - y])  # in units in which the curvature is 1
        assert way(step, step)[0][0] == pytest.approx(-np.log(y))
    assert not way(np.array([1.0]), np.array([1.0]))[1][0]  # y = 0


def statistic_of(large):
    return large[0][-1] ** 2 / np.linalg.inv(large[1])[-1, -1]


def test_intervals_hold_the_statistic():
    rng, seen, closed = np.random.default_rng(2), 0, 0
    for _ in range(500):
        found = models(rng)
        if found is None:
            continue
        Z, x, y, weight, counts, small, large = found
        Q = np.asfortranarray(beside(Z, x, y, weight, counts, small)[0])
        near = 3.8 if large is None else statistic_of(large)
        for line, width in ((near * 0.7, np.inf), (near * 1.4, np.inf), (0.0, 0.3), (0.0, 0.03), (0.0, 1e-9)):
            column, lines = np.asfortranarray(x[:, None]), np.array([line])
            (low,), (high,) = wald_intervals(Q, weight, y, Z @ small[0], counts, column, lines, width)
            if large is None:
                assert low == 0.0
                assert high == np.inf or high < 0.1
            else:
                assert low * (1.0 - 1e-8) - 1e-12 <= near <= high * (1.0 + 1e-8) + 1e-12
                closed += high < np.inf
                seen += 1
    assert seen > 1000
    assert closed > 0.95 * seen  # hardly anybody is left to fits


def test_columns_that_pull_rows_apart():
    y = np.array([0.0, 0.0, 0.0, 1.0, 1.0])
    columns = {
        (0.0, 1.0, 1.0, 2.0, 3.0): True,  # all rows
        (0.0, 1.0, 1.0, 1.0, 3.0): True,  # some of them
        (3.0, 2.0, 2.0, 2.0, 1.0): True,
        (0.0, 1.0, 3.0, 2.0, 3.0): False,
        (0.0, 1e-9, 1e-9, 2e-9, 3.0): False,  # so late that it does not show
    }
    x = np.asfortranarray(np.array(list(columns)).T)
    assert columns_pull_apart(x, y, False).tolist() == list(columns.values())
    x = np.asfortranarray(np.array([(0.0, 1.0, 2.0, 2.0, 2.0), (0.0, 1.0, 2.0, 1.0, 1.0), (0, 0, 0, 1.0, 2.0)]).T)
    assert columns_pull_apart(x, y, True).tolist() == [True, False, False]
    assert columns_pull_apart(x, np.array([0.0, 0.0, 0.5, 1.0, 1.0]), False).tolist() == [True, False, True]


def test_hardly_any_model_is_fitted(monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 80))
    y = (X[:, 0] + X[:, 1] + rng.logistic(size=300) > 0).astype(int)
    problem = read_problem(X, y, [fbed.LikelihoodRatio(0.05)], family="binomial", test="wald")
    assert isinstance(problem.model.fit([0]), WaldFit)
    asked = []
    careful = RegressionFit.gains
    monkeypatch.setattr(RegressionFit, "gains", lambda self, some: asked.extend(some.tolist()) or careful(self, some))
    assert len(fbed.select(X, y, family="binomial", test="wald", alpha=0.05).selected) > 1
    assert len(asked) < 5


def test_threads_change_nothing():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(150, 3000))
    y = (X[:, :3].sum(axis=1) + rng.logistic(size=150) > 0).astype(int)
    one, two = (fbed.select(X, y, family="binomial", test="wald", n_jobs=jobs) for jobs in (1, 2))
    assert [row.statistic for row in one.trace] == [row.statistic for row in two.trace]


def with_many_digits(X, y, weight, counts):
    """The Wald statistic of the last column of X, by Newton's method in 40 digits."""
    with mpmath.workdps(40):
        A = np.vectorize(mpmath.mpf, otypes=[object])(np.column_stack([np.ones(len(y)), X]))
        A[:, 1:] -= A[:, 1:].sum(axis=0) / len(y)
        theta = np.array([mpmath.mpf(0)] * A.shape[1])
        theta[0] = mpmath.log(np.average(y, weights=weight)) if counts else theta[0]
        for _ in range(60):
            mean = np.array([mpmath.exp(t) if counts else 1 / (1 + mpmath.exp(-t)) for t in A @ theta])
            H = A.T @ ((weight * (mean if counts else mean * (1 - mean)))[:, None] * A)
            gradient = A.T @ (weight * (y - mean))
            step = np.array(list(mpmath.lu_solve(mpmath.matrix(H.tolist()), mpmath.matrix(list(gradient)))))
            far = max(abs(np.delete(A, 3, axis=0) @ step))  # the row that may be an outlier goes wherever it goes
            theta = theta + step / max(far, 1)
            if gradient @ step < 1e-25:
                return float(theta[-1] ** 2 / (mpmath.matrix(H.tolist()) ** -1)[len(theta) - 1, len(theta) - 1])
    raise AssertionError("there is a maximum")


def fitted(X, y, family, **options):
    """The statistic of the last column, by the engine that fits every model."""
    asked = {"family": family, "test": "wald", "engine": "exhaustive", **options}
    problem = read_problem(X, y, [fbed.LikelihoodRatio(0.05)], **asked)
    return problem.model.fit(range(X.shape[1] - 1)).gains(np.array([X.shape[1] - 1])).statistic[0]


@pytest.mark.parametrize("seed", [0, 2, 7])
def test_outliers_leave_statistics_their_digits(seed):
    """Beside a row that is far off a column is next to constant: 10⁻¹² of its sum of squares tell its coefficient."""
    rng = np.random.default_rng([1, seed])
    x = rng.normal(size=30)
    y = (x + rng.logistic(size=30) > 0) * 1.0
    x[3], y[3] = 1e6, 1.0
    wanted = with_many_digits(x[:, None], y, np.ones(30), False)
    assert fitted(x[:, None], y, "binomial") == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("seed", [3, 5])
def test_large_counts_leave_statistics_their_digits(seed):
    rng = np.random.default_rng([3, seed])
    X = rng.normal(size=(60, 3))
    y = rng.poisson(1e7 * np.exp(0.3 * X[:, 0] + 1e-4 * X[:, 1] + 0.3 * rng.normal(size=60))) * 1.0
    weight = np.full(60, 1e3)
    wanted = with_many_digits(X, y, weight, True)
    assert fitted(X, y, "poisson", sample_weight=weight) == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("seed", [4, 18, 25])
def test_models_beside_rows_on_their_way_to_infinity(seed):
    """Levels of one class beside offsets of 30: statistics of others are those of the same fit, not of one like it."""
    rng = np.random.default_rng([4, seed])
    X = rng.normal(size=(20, 6))
    offset = rng.choice([0.0, 0.0, 30.0], 20)
    y = (X[:, 0] + offset + rng.logistic(size=20) > 0) * 1
    X[:, 0] = (rng.random(20) < 0.2) * (y == 1)
    X[:, 1] = (rng.random(20) < 0.2) * (y == 0)
    weights = 10.0 ** rng.uniform(-3, 3, 20)
    asked = {"family": "binomial", "include": [0, 1], "alpha": 0.5, "early_dropping": False}
    same_answers(X, y, offset=offset, sample_weight=weights, **asked)


def test_coefficients_are_followed_to_infinity():
    """What makes a near copy different is one row of one class: where steps end for the deviance, 1.5 is left of 0."""
    rng = np.random.default_rng([5, 5])
    a, other = 1000 * rng.normal(size=60), rng.normal(size=60)
    y = (a / 1000 + other + rng.logistic(size=60) > 0) * 1.0
    row = (np.arange(60) == np.flatnonzero(y == 1)[0]) * 1.0
    X = np.column_stack([a, a + 3 * row + 1e-6 * rng.normal(size=60), other, row])
    assert fitted(X, y, "binomial") < 0.1
