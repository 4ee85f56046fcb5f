"""Models in which columns explain rows in the limit are described as the ordinary model does, without its basis."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import fbed
from fbed.families import builders
from fbed.models.base import Span
from fbed.models.engines.tall import description
from fbed.models.engines.tall.fit import TallFit
from problem_cases import read_problem
from rare_cases import FAMILIES

N = 400


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)


def chained(rng, family):
    """Dummies, of which some have rows of one kind only, some beside others only, and some with values of any size."""
    level = rng.integers(12, size=N)
    X = np.hstack([rng.normal(size=(N, 1)), level[:, None] == np.arange(1, 12), np.zeros((N, 3))])
    eta = 0.5 * X[:, 0] - 0.3
    y = rng.poisson(np.exp(eta)) if family == "poisson" else (eta + rng.logistic(size=N) > 0).astype(int)
    y[(level == 1) | (level == 2)] = 0
    first, second, others = np.flatnonzero(level == 1), np.flatnonzero(level == 2), np.flatnonzero(level > 3)
    own = others[y[others] == 0][:4]
    X[np.r_[first[:3], own], 12] = 1.0  # against the first dummy, with rows of its own
    X[second, 2] = 10.0 ** rng.uniform(-3, 3, len(second))
    X[others[-4:], 14] = 1.0
    y[others[-4:]] = 0 if family == "poisson" else 1
    alone = others[:-4][y[others[:-4]] == 0][4]
    X[own[:2], 13], X[others[-2:], 13], X[alone, 13] = 1.0, -2.0, -1.0  # beside columns 12 and 14 one row decides
    return X, y


def stored(X, family, seed):
    """Sparse or not; classes beside sparse columns are left to the ordinary model."""
    return sparse.csc_array(X) if family == "poisson" and seed % 2 else X


def both_descriptions(model, selected, monkeypatch):
    """By sums over rows, and by the ordinary model."""
    fit = model.fit(selected)
    assert isinstance(fit, TallFit)
    assert fit.rows_left is not None
    mine = fit.describe()
    monkeypatch.setattr(description, "_estimates", lambda fit: None)
    return mine, fit.describe()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_as_the_ordinary_model(family, seed, monkeypatch):
    rng = np.random.default_rng([8, seed, len(family)])
    X, y = chained(rng, family)
    options = {"sample_weight": rng.integers(0, 4, N)} if seed % 3 == 1 else {}
    options |= {"offset": rng.normal(size=N)} if seed % 3 == 2 else {}
    model = read_problem(stored(X, family, seed), y, [fbed.BIC()], family=family, **options).model
    mine, ordinary = both_descriptions(model, [0, 3, *rng.permutation([1, 2, 12, 13, 14]).tolist()], monkeypatch)
    assert mine.terms == ordinary.terms
    assert mine.directions == ordinary.directions
    assert sum(map(abs, mine.directions)) >= 4
    assert mine.deviance == pytest.approx(ordinary.deviance, abs=1e-7)
    finite = np.array(mine.directions) == 0
    for name in ("coefficients", "standard_errors"):
        one, other = (np.array(getattr(told, name))[finite] for told in (mine, ordinary))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert np.isnan(np.array(mine.standard_errors)[~finite]).all()
    one, other = (np.array(told.correlation)[np.ix_(finite, finite)] for told in (mine, ordinary))
    np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_predicted_with_takes_every_row_far_out(family):
    """Whatever the offset is, and though a column may move rows back that another explained."""
    rng = np.random.default_rng(3)
    X, y = chained(rng, family)
    offset = np.where(rng.random(N) < 0.1, 5.0 * np.where(y > 0, -1.0, 1.0), 0.0)
    offset[X[:, [1, 2, 12, 13, 14]].any(axis=1) == 0] = 0.0
    model = read_problem(X, y, [fbed.BIC()], family=family, offset=offset).model
    fit = model.fit([0, 12, 13, 1, 2, 14])
    told = fit.describe()
    eta = offset + told.reached[0] + X[:, [0, 12, 13, 1, 2, 14]] @ np.array(told.reached[1:])
    gone = fit.rows_left.weights == 0.0
    assert gone.sum() > 20
    side = np.where(y[gone] > 0, 1.0, -1.0)
    assert (side * eta[gone]).min() > 39.0


def test_no_basis_of_all_rows_is_made(monkeypatch):
    rng = np.random.default_rng(4)
    X, y = chained(rng, "poisson")
    model = read_problem(sparse.csc_array(X), y, [fbed.BIC()], family="poisson").model
    fit = model.fit([0, 1, 2, 12])

    def refused(*asked):
        raise AssertionError("a basis of all rows")

    monkeypatch.setattr(Span, "__init__", refused)
    assert len(fit.describe().infinite) == 3


def test_columns_that_depend_on_each_other_are_left_to_the_ordinary_model():
    """Two that explain the same rows have no direction each: the later one has coefficient 0."""
    rng = np.random.default_rng(5)
    X, y = chained(rng, "poisson")
    X = np.column_stack([X, 2.0 * X[:, 1], X[:, 1] + X[:, 3]])
    model = read_problem(X, y, [fbed.BIC()], family="poisson").model
    fit = model.fit([0, 1, 15])
    assert isinstance(fit, TallFit)
    told = fit.describe()
    assert told.directions == (0, 0, -1, 0)
    assert told.coefficients[3] == 0.0


def test_a_fit_that_is_lost_on_its_last_step_is_described_by_the_ordinary_model(monkeypatch):
    rng = np.random.default_rng(6)
    X, y = chained(rng, "poisson")
    model = read_problem(X, y, [fbed.BIC()], family="poisson").model
    fit = model.fit([0, 3])
    expected = fit.describe()

    def lost(fit):
        raise description.NotTall

    monkeypatch.setattr(TallFit, "again", lost)
    monkeypatch.setattr(description, "_SHOWN", -1.0)
    np.testing.assert_allclose(fit.describe().coefficients, expected.coefficients, rtol=1e-6)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_column_explains_costs_no_more_to_remove_than_it_does(family, seed):
    """Where others came to explain its rows, a column's coefficient is any number, and says nothing of that."""
    rng = np.random.default_rng([11, seed, len(family)])
    X, y = chained(rng, family)
    models = [read_problem(X, y, [fbed.BIC()], family=family, engine=e).model for e in ("certified", "exhaustive")]
    selected = [0, 3, 13, 12, 14, 1]
    fit = models[0].fit(selected)
    assert isinstance(fit, TallFit)
    start = fit.maximum.copy()
    start[fit.rows_left.idle] = rng.normal(scale=2.0, size=len(fit.rows_left.idle))
    fit = TallFit(models[0], tuple(selected), start)
    variables = np.array(selected)
    exact = models[1].fit(selected).losses(variables).statistic
    found = fit.loss_bounds(variables, lambda df: np.full(len(df), 4.0))
    assert (found.lower <= exact * (1.0 + 1e-6) + 1e-6).all()
    assert (found.upper >= exact * (1.0 - 1e-6) - 1e-6).all()


def test_columns_that_were_forced_in_may_explain_the_same_rows():
    """Whether another column is in their span is asked of products that have no inverse."""
    rng = np.random.default_rng(12)
    X, y = chained(rng, "poisson")
    X = np.column_stack([X, X[:, 1], X[:, 1] + X[:, 5]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that end short of a maximum at infinity
        one, other = (
            fbed.select(X, y, family="poisson", include=[1, 15, 5], early_dropping=False, engine=engine)
            for engine in ("certified", "exhaustive")
        )
    assert one.selected == other.selected
    assert one.n_tests == other.n_tests
