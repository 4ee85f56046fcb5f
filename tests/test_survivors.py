"""Columns that only survivors have: their rows leave the risk sets, and nobody goes the long way to infinity."""

from __future__ import annotations

import numpy as np
import pytest

import fbed
from engine_cases import Case
from fbed.families import builders
from fbed.models.engines.tall.fit import TallFit
from fbed.models.engines.tall.model import TallModel
from problem_cases import read_problem
from survivor_cases import compared


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)


@pytest.mark.parametrize("seed", [*range(24), 59])
@pytest.mark.filterwarnings("ignore")
def test_searches_are_those_of_fitting_every_model(seed):
    """The last one took a variable more, when such models were fitted on their way to infinity."""
    assert compared(seed) is None


def survivors(n=200, seed=2):
    """Two columns of survivors, of either sign, that share a row; dummies of others; and a number."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, 5))
    X[:8, 0], X[6:13, 1] = 1.0, -2.0
    X[20:60, 2], X[:, 4] = 1.0, rng.normal(size=n)
    X[10:30, 3] = rng.integers(1, 3, 20)
    died = rng.random(n) < 0.7
    died[:13] = False
    return Case(X, (rng.exponential(np.exp(-0.5 * X[:, 4])), died))


def tall_model(case):
    model = read_problem(case.X, case.y, [fbed.BIC()], family="cox").model
    assert isinstance(model, TallModel)
    return model


@pytest.mark.parametrize("selected", [(0,), (1, 4), (0, 1), (2, 0, 4, 1)])
def test_a_model_reads_as_the_ordinary_one(selected):
    model = tall_model(survivors())
    fit, careful = model.fit(selected), model.careful.fit(selected)
    assert isinstance(fit, TallFit)
    assert fit.deviance == pytest.approx(careful.deviance, rel=1e-9)
    one, other = fit.describe(), careful.describe()
    assert one.terms == other.terms
    assert one.directions == other.directions
    assert [way for way in one.directions if way] == [-1 if v == 0 else 1 for v in selected if v in (0, 1)]
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-5)
    if other.standard_errors is None:
        assert one.standard_errors is None
    else:
        np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=1e-4)


def test_statistics_are_those_of_the_ordinary_model():
    model = tall_model(survivors())
    for selected in ((), (4,), (0,), (4, 1)):
        others = np.array([v for v in range(5) if v not in selected])
        found, wanted = (fit.gains(others) for fit in (model.fit(selected), model.careful.fit(selected)))
        np.testing.assert_allclose(found.statistic, wanted.statistic, rtol=1e-7, atol=1e-7)
        assert found.df.tolist() == wanted.df.tolist()


def test_a_fit_takes_a_few_sweeps(monkeypatch):
    model, sweeps = tall_model(survivors()), []
    sweep = type(model.sums).sweep
    monkeypatch.setattr(type(model.sums), "sweep", lambda *given: sweeps.append(1) or sweep(*given))
    model.fit(()).gains(np.array([0, 1]))
    assert 0 < len(sweeps) < 12
