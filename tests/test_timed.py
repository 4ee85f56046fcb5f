"""Weibull models by sums over rows, on short tables of every kind: what fitting every model selects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fbed
import timed_cases
from fbed.families import builders
from fbed.models.engines.bound_functions import E
from fbed.models.engines.tall.fit import TallFit
from fbed.models.engines.tall.timed_sums import _BEND, TimedSums
from problem_cases import read_problem
from test_certified import assert_same


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)


def survival(rng, eta):
    life, end = np.exp(eta) * rng.weibull(1.5, len(eta)), rng.exponential(2.0, len(eta))
    return np.minimum(life, end), life <= end


def mixed(seed, n=600):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh"))
    X["level"] = pd.Categorical(rng.integers(0, 5, n))
    effect = rng.normal(size=5)[X["level"].cat.codes] * 0.4
    return X, survival(rng, 0.3 * X["a"].to_numpy() - 0.15 * X["b"].to_numpy() + effect)


@pytest.mark.filterwarnings("ignore:.*could not be fitted")
@pytest.mark.parametrize("number", range(60))
def test_equals_exhaustive(number):
    trails = timed_cases.searches(number)
    if trails is not None and number not in timed_cases.ILL:
        assert_same(*trails)


def test_steps_of_the_shape_count_as_rows_as_far_as_is_known(monkeypatch):
    """Beyond, z − log(1 + z) is more than E tells, and nothing is said of what a step gains."""
    z = np.linspace(-1.0, 1.0, 2000)[1:]
    known = np.abs(z) <= np.log1p(TimedSums.farthest_addition) / _BEND
    holds = 2.0 * (z - np.log1p(z)) <= z**2 * E(3.0 * np.abs(z)) * (1.0 + 1e-9)
    assert holds[known].all()
    assert not holds.all()
    X, y = mixed(0)
    fit = read_problem(X, y, [fbed.BIC()], family="weibull").model.fit(())
    singles, category = np.arange(8), 8

    def lower():
        found = fit._single_brackets(singles, lambda df: np.zeros(df.shape), 0)[0]
        return [*found, fit._group_bracket(category, next(iter(fit._looked_at(np.array([category])))))[0]]

    assert max(lower()[:8]) > 0.0 < lower()[8]
    monkeypatch.setattr(TimedSums, "farthest_addition", 0.0)
    assert max(lower()) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_likelihood_ratios_and_removals(seed):
    X, y = mixed(seed)
    certified, plain = (
        read_problem(X, y, [fbed.BIC()], family="weibull", engine=engine).model
        for engine in ("certified", "exhaustive")
    )
    fit, other = certified.fit((0, 8)), plain.fit((0, 8))
    assert isinstance(fit, TallFit)
    candidates, variables = np.arange(1, 8), np.array([0, 8])
    bounds, exact = fit.gain_bounds(candidates, lambda df: np.full(df.shape, 3.84)), other.gains(candidates).statistic
    assert (bounds.lower <= exact + 1e-7 * (1.0 + exact)).all()
    assert (bounds.upper >= exact - 1e-7 * (1.0 + exact)).all()
    lost, cost = fit.loss_bounds(variables, lambda df: df), other.losses(variables).statistic
    assert (lost.lower <= cost + 1e-7 * (1.0 + cost)).all()
    assert (lost.upper >= cost - 1e-7 * (1.0 + cost)).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_final_model_is_that_of_fits(seed):
    X, y = mixed(seed)
    found, other = (fbed.select(X, y, family="weibull", engine=engine).model for engine in ("certified", "exhaustive"))
    assert found.terms == other.terms
    assert found.coefficients == pytest.approx(other.coefficients, rel=1e-6, abs=1e-8)
    assert found.standard_errors == pytest.approx(other.standard_errors, rel=1e-5)
    assert (found.deviance, found.null_deviance) == pytest.approx((other.deviance, other.null_deviance), rel=1e-9)


def test_what_explains_times_perfectly_is_found_by_the_ordinary_model():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 4))
    y = np.exp(2.0 * X[:, 1]), np.ones(500, dtype=bool)
    results = [fbed.select(X, y, family="weibull", engine=engine) for engine in ("certified", "exhaustive")]
    assert results[0].selected == results[1].selected == (1,)
    assert results[0].status == results[1].status


def test_events_that_weigh_less_than_two_leave_nothing_to_explain():
    """Weights are frequencies, however many rows have an event: a rule of the family, not of the engine."""
    X, (time, event) = mixed(5)
    weights = np.full(len(X), 1.9 / event.sum())
    options = {"family": "weibull", "sample_weight": weights}
    found, expected = (fbed.select(X, (time, event), engine=e, **options) for e in ("certified", "exhaustive"))
    assert (found.status, found.selected) == (expected.status, expected.selected) == ("saturated", ())
