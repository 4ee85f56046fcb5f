"""Positive numbers by the engines of counts: the answers of fitting every model, and statistics from deviances."""

from __future__ import annotations

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from fbed.models.engines.gamma import GammaFit
from fbed.models.likelihoods.glm import GAMMA, Glm, gamma_shape
from problem_cases import read_problem


def table(rng, kind, n, p):
    if kind == "normal":
        return rng.normal(size=(n, p))
    if kind == "sparse":
        return sparse.csc_array(np.where(rng.random((n, p)) < 0.05, rng.poisson(2.0, (n, p)) + 1.0, 0.0))
    if kind == "copies":
        X = rng.normal(size=(n, p))
        X[:, 1], X[:, 2], X[:, 3] = 3.0 * X[:, 0] + 7.0, X[:, 0] + 1e-7 * rng.normal(size=n), 5.0
        return X
    if kind == "heavy tails":
        return rng.standard_t(1, size=(n, p)) * 10.0 ** rng.integers(-4, 5, p)
    frame = pd.DataFrame(rng.normal(size=(n, p - 2))).add_prefix("x")
    frame["few"] = pd.Categorical(rng.integers(0, 3, n).astype(str))
    frame["many"] = pd.Categorical(rng.integers(0, max(3, n // 8), n).astype(str))
    return frame


def drawn(seed, kind):
    rng = np.random.default_rng([seed, len(kind)])
    n, p = int(rng.choice([12, 60, 250, 450, 900])), int(rng.integers(5, 30))
    X = table(rng, kind, n, p)
    first = (X.iloc[:, :3] if isinstance(X, pd.DataFrame) else X[:, :3]) @ rng.normal(size=3)
    eta = np.asarray(first, dtype=float).ravel()
    eta = np.clip(0.4 * eta / max(eta.std(), 1e-9), -3.0, 3.0)
    shape = rng.choice([0.2, 2.0, 100.0, 1e6])  # the last by fits: next to a perfect one
    y = rng.gamma(shape, np.exp(eta) / shape) * 10.0 ** rng.integers(-6, 7) + 1e-300
    options = {"k": int(rng.integers(0, 3)), "criterion": ["lr", "bic", "ebic"][seed % 3]}
    if seed % 4 == 1:
        options["sample_weight"] = rng.integers(0, 4, n)
    if seed % 4 == 2:
        options["exposure"] = rng.uniform(0.5, 20.0, n)
    if seed % 5 == 3:
        options |= {"early_dropping": False, "max_features": 6}
    return X, y, options


@pytest.mark.parametrize("kind", ["normal", "sparse", "copies", "heavy tails", "categories"])
@pytest.mark.parametrize("seed", range(8))
def test_answers_are_those_of_fitting_every_model(seed, kind):
    X, y, options = drawn(seed, kind)
    quick, slow = (
        fbed.select(X, y, family="gamma", engine=engine, **options) for engine in ("certified", "exhaustive")
    )
    assert quick.indices.tolist() == slow.indices.tolist()
    assert (quick.n_tests, quick.status) == (slow.n_tests, slow.status)
    found, expected = ([s.statistic for s in r.trace if s.variable is not None] for r in (quick, slow))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(quick.model.coefficients, slow.model.coefficients, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(quick.model.standard_errors, slow.model.standard_errors, rtol=1e-5)
    np.testing.assert_allclose(quick.model.deviance, slow.model.deviance, rtol=1e-6)


def test_categories_of_many_levels_beside_outcomes_of_little_spread():
    """Their test is that of rows as they are, not of rows that weigh as much as the shape is large."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 200, 900)
    frame = pd.DataFrame({"x": rng.normal(size=900), "many": pd.Categorical(codes.astype(str))})
    y = rng.gamma(50.0, np.exp(0.02 * frame["x"] + 0.1 * rng.normal(size=200)[codes]))
    quick, slow = (fbed.select(frame, y, family="gamma", engine=engine) for engine in ("certified", "exhaustive"))
    found, expected = ([(s.variable, s.statistic) for s in r.trace if s.variable is not None] for r in (quick, slow))
    assert [name for name, _ in found] == [name for name, _ in expected] == ["many", "x"]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], rtol=1e-6)


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 12))
    problem = read_problem(X, rng.gamma(3.0, np.exp(0.3 * X[:, 0])), [], family="gamma")
    return problem.model.fit((0,))


def test_the_engine_of_counts_answers(fit):
    assert isinstance(fit, GammaFit)
    bounds = fit.gain_bounds(np.arange(1, 12), lambda df: np.full(df.shape, np.inf))
    exact = fit.gains(np.arange(1, 12)).statistic
    assert ((bounds.lower <= exact * (1 + 1e-9)) & (exact <= bounds.upper * (1 + 1e-9))).all()
    assert (bounds.lower > 0.5 * exact).all()


@pytest.mark.parametrize("fall", [1e-9, 1e-4, 0.3, 50.0])
def test_a_statistic_has_all_digits_of_the_difference_of_deviances(fit, fall):
    """Next to nothing is left of a small difference of two logarithms of likelihoods."""
    mpmath.mp.dps = 40
    n = mpmath.mpf(fit.model.n)

    def value(deviance):
        mean = deviance / (2 * n)
        shape = mpmath.findroot(lambda v: mpmath.log(v) - mpmath.digamma(v) - mean, 1 / (2 * mean))
        return -2 * n * (shape * mpmath.log(shape) - mpmath.loggamma(shape) - shape * (1 + mean))

    deviance = mpmath.mpf(fit.deviance)
    gained = float(value(deviance) - value(deviance - mpmath.mpf(fall)))
    lost = float(value(deviance + mpmath.mpf(fall)) - value(deviance))
    one = np.array([fall])
    np.testing.assert_allclose(fit._gained(one), gained, rtol=1e-12)
    np.testing.assert_allclose(fit._lost(one), lost, rtol=1e-12)
    np.testing.assert_allclose(fit._fallen(np.array([gained])), fall, rtol=1e-12)
    np.testing.assert_allclose(fit._risen(np.array([lost])), fall, rtol=1e-12)


def test_what_no_fit_attains(fit):
    most = fit._gained(np.array([fit.deviance]))
    np.testing.assert_allclose(
        fit._fallen(np.array([0.0, most[0], 1e12, np.inf])), [0.0, fit.deviance, fit.deviance, np.inf]
    )
    assert np.isinf(fit._risen(np.array([np.inf]))).all()


def test_next_to_a_perfect_fit_every_model_is_fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = np.exp(X[:, 0] + 1e-3 * rng.normal(size=200))
    model = read_problem(X, y, [], family="gamma").model
    assert isinstance(model.fit(()), GammaFit)
    assert not isinstance(model.fit((0,)), GammaFit)
    assert not isinstance(model.fit((0, 1), model.fit((0,))), GammaFit)


def test_deviances_are_those_of_the_family(fit):
    model = fit.model
    ordinary = model.careful.fit((0,))
    assert isinstance(model.likelihood, Glm)
    assert model.likelihood.distribution is GAMMA
    np.testing.assert_allclose(fit.deviance, ordinary.deviance, rtol=1e-10)
    scores, variance = fit.row_scores()
    expected, information = ordinary.row_scores()
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    np.testing.assert_allclose(variance, information)


ENGINES, UNITS = ("certified", "exhaustive"), (1.0, 1e-150, 1e150)


def both(X, y, **options):
    return [fbed.select(X, y, family="gamma", engine=e, **options) for e in ENGINES]


def test_the_unit_of_the_outcome_leaves_statistics_as_they_are():
    """The deviance of a close fit is not a difference of sums of logarithms."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 6))
    y = rng.gamma(1e4, np.exp(0.002 * X[:, 0]) / 1e4)
    fits = [
        read_problem(X, u * y, [fbed.BIC()], family="gamma", engine=e).model.fit(()) for u in UNITS for e in ENGINES
    ]
    expected, *others = (fit.gains(np.arange(6)).statistic for fit in fits)
    for found in others:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("seed", [99, 124, 144])
def test_removals_beside_outcomes_of_hundreds_of_decades(seed):
    """What a fit is short of its maximum matters to models that are far from it."""
    rng = np.random.default_rng([31, seed])
    X = (rng.random((300, 6)) < rng.choice([0.02, 0.1, 0.5])) * 1.0
    y = 10.0 ** rng.uniform(-100.0, 100.0, 300)
    fits = [read_problem(X, y, [fbed.BIC()], family="gamma", engine=e).model.fit(range(4)) for e in ENGINES]
    lost, cost = fits[0].loss_bounds(np.arange(4), lambda df: df), fits[1].losses(np.arange(4)).statistic
    assert (lost.lower <= cost * (1.0 + 1e-7)).all()
    assert (lost.upper >= cost * (1.0 - 1e-7)).all()


@pytest.mark.parametrize("spread", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("unit", UNITS)
def test_outcomes_that_hardly_vary_are_as_good_as_normal(spread, unit):
    """Their statistics are those of a linear model of the logarithm."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(500, 5))
    change = spread * (0.2 * X[:, 0] + rng.normal(size=500))
    left = np.log1p(change) - np.log1p(change).mean()
    centred = X - X.mean(axis=0)
    explained = (centred.T @ left) ** 2 / (centred**2).sum(axis=0)
    expected = -500.0 * np.log1p(-explained / (left @ left))
    for engine in ENGINES:
        model = read_problem(X, unit * (1.0 + change), [fbed.BIC()], family="gamma", engine=engine).model
        rounding = np.finfo(float).eps * (1.0 + abs(np.log(unit))) / spread
        found = model.fit(()).gains(np.arange(5)).statistic
        np.testing.assert_allclose(found, expected, rtol=10.0 * (spread + rounding), atol=500.0 * (spread + rounding))


def test_a_variable_that_explains_everything_is_no_better_than_another():
    """A level for every row, twice, beside outcomes of little spread: the first of them is selected."""
    rng = np.random.default_rng(8)
    names = [f"level {i}" for i in range(20)]
    frame = pd.DataFrame(
        {"x": rng.normal(size=20), "first": pd.Categorical(names), "few": pd.Categorical(["a", "b"] * 10)}
    )
    frame["second"] = pd.Categorical(names[::-1])
    for decades in (-150, 0, 150):
        quick, slow = both(frame, rng.gamma(1e4, 1e-4, 20) * 10.0**decades, criterion="aic")
        assert quick.selected == slow.selected == ("first",)


def test_nothing_is_known_of_what_a_removal_costs(fit):
    np.testing.assert_array_equal(fit._lost(np.array([0.0, np.inf])), [0.0, np.inf])


@pytest.mark.parametrize("mean", [1e-12, 1e-3, 0.5, 2.9, 3.1, 40.0, 1e9, 1e250])
def test_the_shape_is_that_of_the_equation(mean):
    mpmath.mp.dps = 30
    found = float(gamma_shape(np.array([mean]))[0])
    assert found > 0.0
    left = mpmath.log(found) - mpmath.digamma(mpmath.mpf(found)) - mean
    assert abs(left) <= 1e-9 * mean
