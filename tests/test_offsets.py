"""Logistic models beside an offset, however wide: statistics, searches, and offsets and trials that say nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize, special

import fbed
from fbed.models.likelihoods.newton import Columns, maximise
from twin import Rule, Twin, separable_rows


def deviance_beside(A, y, weights, offset):
    """The infimum of the deviance: rows that the columns can separate are left out, the rest goes to a trust region."""
    rest = ~separable_rows(A, y)
    if not rest.any():
        return 0.0
    left, size, _ = np.linalg.svd(A[rest], full_matrices=False)
    Z, y, a, o = left[:, size > 1e-9 * size[0]] * np.sqrt(rest.sum()), y[rest], weights[rest], offset[rest]

    def loss(beta):
        return 2.0 * a @ np.logaddexp(0.0, (1.0 - 2.0 * y) * (o + Z @ beta))

    def slope(beta):
        return 2.0 * Z.T @ (a * (special.expit(o + Z @ beta) - y))

    def bend(beta):
        eta = o + Z @ beta
        return 2.0 * Z.T @ ((a * special.expit(eta) * special.expit(-eta))[:, None] * Z)

    options = {"gtol": 1e-8, "maxiter": 3000}
    found = optimize.minimize(loss, np.zeros(Z.shape[1]), jac=slope, hess=bend, method="trust-exact", options=options)
    return float(found.fun)


class OffsetTwin(Twin):
    """Brute force with an offset."""

    def __init__(self, X, y, offset, rule, times):
        self.offset = np.repeat(offset, times)
        super().__init__(np.repeat(X, times, axis=0), np.repeat(y, times), "binomial", rule)

    def deviance(self, S):
        key = frozenset(S)
        if key not in self.memory:
            self.memory[key] = deviance_beside(self.matrix(sorted(S)), self.y, self.weights, self.offset)
        return self.memory[key]


def hostile(seed):
    """Predictors, outcome, offset (sd .1 to 30, at times nearly the outcome itself, or against it) and weights."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(25, 90)), int(rng.integers(3, 6))
    X = rng.normal(size=(n, p))
    X[:, 0] = X[:, 0] > 1.0 if seed % 3 == 0 else X[:, 0]
    X[:, 1] = rng.standard_cauchy(n) if seed % 5 == 0 else X[:, 1]
    spread = 10.0 ** rng.uniform(-1.0, 1.5)
    offset = spread * rng.normal(size=n)
    eta = X @ rng.normal(size=p) * rng.choice([0.5, 2.0])
    y = (rng.random(n) < special.expit(eta + offset * rng.integers(2))).astype(float)
    if seed % 4 == 0:
        offset = 0.3 * offset + spread * (2.0 * y - 1.0) * rng.choice([-1.0, 1.0])
    y[:4] = [0.0, 0.0, 1.0, 1.0]
    times = rng.integers(1, 4, n) if seed % 7 == 0 else np.ones(n, dtype=int)
    return X, y, offset, times


@pytest.mark.parametrize("seed", range(30))
def test_whole_searches_with_an_offset(seed):
    X, y, offset, times = hostile(seed)
    rule = Rule("lr", alpha=0.2)
    twin = OffsetTwin(X, y, offset, rule, times).search(1)
    for engine in ("certified", "exhaustive"):
        weights = times.astype(float)
        found = fbed.select(
            X, y.astype(int), offset=offset, alpha=0.2, k=1, sample_weight=weights, engine=engine, family="binomial"
        )
        steps = [row for row in found.trace if row.action != "stop"]
        assert list(found.selected) == twin.selected, engine
        assert found.status == twin.status
        assert [row.variable for row in steps] == [variable for _, variable, _, _ in twin.steps]
        expected = [statistic for _, _, statistic, _ in twin.steps]
        np.testing.assert_allclose([row.statistic for row in steps], expected, rtol=1e-6, atol=1e-6)


def test_an_offset_does_not_separate():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = y + rng.normal(size=200)
    offset = 0.5 * (2.0 * y - 1.0)
    for engine in ("certified", "exhaustive"):
        result = fbed.select(x[:, None], y, offset=offset, engine=engine)
        expected = sm.GLM(y, sm.add_constant(x), offset=offset, family=sm.families.Binomial()).fit(tol=1e-14)
        assert result.status == "converged"
        assert result.model.null_deviance == pytest.approx(expected.null_deviance, rel=1e-9)
        assert result.trace[0].statistic == pytest.approx(expected.null_deviance - expected.deviance, rel=1e-8)
        np.testing.assert_allclose(result.model.coefficients, expected.params, rtol=1e-6)
        np.testing.assert_allclose(result.model.standard_errors, expected.bse, rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_an_offset_does_not_separate_rows_of_categories(seed):
    """Two rows of the same levels and different classes, which differ in their offsets alone."""
    rng = np.random.default_rng(seed)
    n = 240
    codes = rng.integers(0, 40, (n // 2, 3)).repeat(2, axis=0)  # every row has a twin
    y = rng.integers(0, 2, n // 2).repeat(2)
    y[:2] = 0, 1
    offset = np.where(np.arange(n) < 2, 2.0 * y - 1.0, 0.0)
    X = pd.DataFrame({f"c{j}": pd.Categorical([f"l{code:02d}" for code in codes[:, j]]) for j in range(3)})
    both = [fbed.select(X, y, offset=offset, criterion="aic", engine=engine) for engine in ("certified", "exhaustive")]
    assert both[0].selected == both[1].selected
    assert both[0].model.deviance > 1.0
    assert [row.statistic for row in both[0].trace] == pytest.approx([row.statistic for row in both[1].trace], abs=1e-7)


@pytest.mark.parametrize("family", ["poisson", "negative_binomial", "gamma"])
def test_wide_offsets_of_other_families(family):
    """A wide offset and its effect taken out again by a column: as good as no offset."""
    rng = np.random.default_rng(4)
    offset, x = 12.0 * rng.normal(size=120), rng.normal(size=120)
    y = rng.poisson(np.exp(0.5 * x) * rng.gamma(2.0, 0.5, 120)) + (family == "gamma") * (0.5 + rng.random(120))
    table = np.column_stack([offset, x])
    beside = fbed.select(table, y, family=family, offset=offset, include=[0])
    alone = fbed.select(table, y, family=family, include=[0])
    assert beside.trace[0].statistic == pytest.approx(alone.trace[0].statistic, rel=1e-7)
    shift = np.array(alone.model.coefficients) - beside.model.coefficients
    np.testing.assert_allclose(shift, np.eye(len(shift))[1], atol=1e-5)


def plain():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(150, 6))
    X[:, 4] = rng.random(150) < 0.1
    y = (X[:, 0] - X[:, 1] + rng.logistic(size=150) > 0).astype(int)
    return X, y


NOTHING = {
    "offset": {"offset": np.zeros(150)},
    "trials": {"trials": np.ones(150)},
    "both": {"offset": np.zeros(150), "trials": np.ones(150)},
    "weights": {"sample_weight": np.ones(150)},
}


@pytest.mark.parametrize("extra", NOTHING)
@pytest.mark.parametrize("test", ["lr", "score", "wald"])
def test_what_says_nothing_changes_nothing(extra, test):
    X, y = plain()
    options = {"family": "binomial", "test": test, "k": 2, "alpha": 0.3}
    expected, found = fbed.select(X, y, **options), fbed.select(X, y, **NOTHING[extra], **options)
    assert found.selected == expected.selected
    assert found.status == expected.status
    assert found.model == expected.model
    assert [(r.action, r.variable, r.statistic, r.tested) for r in found.trace] == [
        (r.action, r.variable, r.statistic, r.tested) for r in expected.trace
    ]


@pytest.mark.parametrize("family", ["poisson", "gamma", "negative_binomial"])
def test_an_offset_of_zeros_changes_no_digit(family):
    X, _ = plain()
    rng = np.random.default_rng(9)
    mean = np.exp(0.4 * X[:, 0])
    y = rng.gamma(2.0, mean) if family == "gamma" else rng.negative_binomial(2.0, 2.0 / (2.0 + mean))
    plainly, beside = (fbed.select(X, y, family=family, offset=offset, alpha=0.3) for offset in (None, np.zeros(150)))
    assert plainly.model == beside.model
    assert [row.statistic for row in plainly.trace] == [row.statistic for row in beside.trace]


@pytest.mark.parametrize("test", ["lr", "score", "wald"])
def test_a_constant_offset_moves_the_intercept_only(test):
    X, y = plain()
    offset = np.linspace(-3.0, 5.0, 150)
    for base in (np.zeros(150), offset):
        one = fbed.select(X, y, offset=base, test=test, alpha=0.3)
        other = fbed.select(X, y, offset=base + 7.5, test=test, alpha=0.3)
        assert one.selected == other.selected
        moved = np.array(one.model.coefficients) - other.model.coefficients
        np.testing.assert_allclose(moved, 7.5 * np.eye(len(moved))[0], atol=1e-6)
        np.testing.assert_allclose(one.model.standard_errors, other.model.standard_errors, rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_trials_are_rows(seed):
    """Successes out of trials beside an offset are so many rows of one trial each."""
    rng = np.random.default_rng(seed)
    X, trials = rng.normal(size=(60, 4)), rng.integers(1, 6, 60)
    offset = 10.0 ** rng.uniform(-1.0, 1.3) * rng.normal(size=60)
    y = rng.binomial(trials, special.expit(X[:, 0] + offset * (seed % 2)))
    rows = np.repeat(np.arange(60), trials)
    each = np.concatenate([np.r_[np.ones(s), np.zeros(t - s)] for s, t in zip(y, trials, strict=True)]).astype(int)
    counted = fbed.select(X, y, family="binomial", trials=trials, offset=offset, alpha=0.3)
    spread = fbed.select(X[rows], each, family="binomial", offset=offset[rows], alpha=0.3)
    assert counted.selected == spread.selected
    assert counted.model.directions == spread.model.directions
    assert counted.model.coefficients == pytest.approx(spread.model.coefficients, rel=1e-5, abs=1e-7)
    steps = [[row.statistic for row in result.trace if row.statistic] for result in (counted, spread)]
    np.testing.assert_allclose(*steps, rtol=1e-6, atol=1e-7)


class Endless:
    """A likelihood whose iterations never arrive: its value falls by a little, whatever happens."""

    def at(self, columns, parameters):
        class Point:
            value = -np.sqrt(1.0 + np.abs(parameters[0]))

            def derivatives(self, columns=None):
                return np.ones((1, 1)), np.full((1, 1, 1), 1e-3)

            def separated(self):
                return np.zeros(1, dtype=bool)

        return Point()

    def project(self, parameters):
        return parameters

    def unbounded(self, parameters):
        return np.zeros(1, dtype=bool)

    def largest_move(self, columns, step):
        return np.full(1, np.inf)


def test_a_fit_that_does_not_arrive_is_told():
    with pytest.warns(RuntimeWarning, match="could not be fitted to the end"):
        found = maximise(Endless(), Columns(np.ones((3, 1))), np.zeros((1, 1)))
    assert not found.finished.any()


@pytest.mark.parametrize("engine", ["certified", "exhaustive"])
@pytest.mark.parametrize("groups", [None, {"both": [0, 1]}])
def test_a_row_that_its_offset_rules_out(groups, engine):
    """It happened all the same, and its own column takes it out of the model: Newton's first step is 10¹³ long."""
    X = np.column_stack([np.eye(5)[:, 3], np.zeros(5)])
    y, offset = np.array([0, 1, 0, 1, 1]), np.where(np.arange(5) == 3, -30.0, 0.0)
    found = fbed.select(X, y, family="binomial", offset=offset, groups=groups, engine=engine)
    assert len(found.selected) == 1
    assert found.model.deviance == pytest.approx(8.0 * np.log(2.0), rel=1e-9)  # of four rows, two of each class
