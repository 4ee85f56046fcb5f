"""Overdispersed counts: bounds for all dispersions hold what fitting finds, and searches select what it selects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

import dispersed_cases
import fbed
from fbed.errors import InvalidInput
from fbed.models.engines import dispersion_intervals, dispersion_tangent
from fbed.models.engines.dispersed import DispersedFit
from fbed.models.likelihoods.newton import Columns
from problem_cases import read_problem
from test_certified import assert_same


def fits(number, selected):
    """The fit on some variables by bounds, and as it is; None where there is nothing to fit."""
    X, y, weights, offset, *_ = dispersed_cases.table(number)
    about = {"family": "negative_binomial", "sample_weight": weights, "offset": offset}
    try:
        models = [read_problem(X, y, [fbed.BIC()], engine=e, **about).model for e in ("certified", "exhaustive")]
    except InvalidInput:
        return None
    some = np.flatnonzero(models[0].design.width > 0)
    chosen = [int(some[j]) for j in selected if j < len(some)]
    return [model.fit(chosen) for model in models], np.setdiff1d(some, chosen)


@pytest.mark.filterwarnings("ignore:.*could not be fitted")
@pytest.mark.parametrize("number", range(40))
def test_bounds_hold_likelihood_ratios(number):
    for selected in ((), (1,), (0, 2)):
        found = fits(number, selected)
        if found is None:
            return
        (fit, plain), candidates = found
        assert isinstance(fit, DispersedFit)
        bounds = fit.gain_bounds(candidates, lambda df: np.full(df.shape, np.inf))
        exact = plain.gains(candidates)
        slack = 1e-6 * (1.0 + exact.statistic)
        tested = exact.df > 0
        assert (bounds.lower <= exact.statistic + slack)[tested].all()
        assert (bounds.upper >= exact.statistic - slack)[tested].all()


@pytest.mark.filterwarnings("ignore:.*could not be fitted")
@pytest.mark.parametrize("number", range(40, 70))
def test_bounds_hold_what_removals_cost(number):
    found = fits(number, (0, 1, 2))
    if found is None:
        return
    (fit, plain), _ = found
    variables = np.array(plain.span.selected)
    bounds = fit.loss_bounds(variables, lambda df: df)
    exact = plain.losses(variables).statistic
    assert (bounds.lower <= exact + 1e-6 * (1.0 + exact)).all()
    assert (bounds.upper >= exact - 1e-6 * (1.0 + exact)).all()


@pytest.mark.filterwarnings("ignore:.*could not be fitted")
@pytest.mark.parametrize("number", range(100, 130))
def test_searches_are_those_of_fitting_every_model(number):
    trails = dispersed_cases.searches(number)
    if trails is not None:
        assert_same(*trails)


@pytest.mark.parametrize("seed", range(6))
def test_no_dispersion_is_likelier_than_its_interval_allows(seed):
    """The profile of the likelihood on S, at many dispersions, is below the bound of the interval that holds each."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 2))
    mean = np.exp(rng.choice([0.0, 2.0]) + X @ [0.5, -0.3])
    y = rng.poisson(mean) if seed % 3 == 0 else rng.negative_binomial(2, 2 / (2 + mean))
    fit = read_problem(X, y.astype(float), [fbed.BIC()], family="negative_binomial").model.fit([0, 1])
    frame = fit._frame
    assert frame is not None
    family = fit.model.likelihood
    ends = np.unique([end for i in frame.intervals for end in (i.low, i.high)])
    assert ends[0] == 0.0
    for alpha in [*np.linspace(0.0, ends[-1], 60), 3.0 * ends[-1], 100.0 * ends[-1]]:
        profile = family._held(Columns(fit.Z), fit.parameters[:, None], float(alpha)).deviance[0]
        holding = [i for i in frame.intervals if i.low <= alpha <= i.high and i.low < i.high]
        if not holding:  # a chord between two points, or beyond the last
            below, above = np.searchsorted(ends, alpha, side="right") - 1, np.searchsorted(ends, alpha)
            near = {ends[below], ends[min(above, len(ends) - 1)]}
            holding = [i for i in frame.intervals if i.low in near or i.high in near]
        gained = max(max(i.above) + i.bend * max(i.curved, 0.0) for i in holding)
        assert fit.deviance - profile <= gained + 1e-8 * max(1.0, abs(profile))


def test_bends_of_residuals_are_their_integrals():
    s = np.array([-0.9, -1e-3, 0.0, 1e-4, 0.5, 7.0, 300.0])
    for alpha in (0.0, 1e-4, 0.3, 1.0):
        expected = [integrate.quad(lambda u, a=alpha: u**2 / (1.0 + a * u) ** 2, 0.0, end)[0] for end in s]
        np.testing.assert_allclose(dispersion_intervals._bend_of_residuals(s, alpha), expected, rtol=1e-9, atol=1e-20)


@pytest.mark.filterwarnings("ignore:.*could not be fitted")
def test_rows_whose_mean_is_no_number_are_charged_for_far_steps():
    """A predictor of −2891 has a mean of 0, which a step of 8771 makes the largest of all."""
    X, y, weights, offset, *_ = dispersed_cases.table(793)
    about = {"family": "negative_binomial", "sample_weight": weights, "offset": offset}
    models = [
        read_problem(X[:, [8, 11]], y, [fbed.BIC()], engine=e, **about).model for e in ("certified", "exhaustive")
    ]
    one, other = (model.fit([0]) for model in models)
    true = float(other.gains(np.array([1])).statistic[0])
    found = one.gain_bounds(np.array([1]), lambda df: np.full(len(df), 0.99 * true))
    assert found.lower[0] <= true * (1.0 + 1e-6)
    assert true <= found.upper[0] * (1.0 + 1e-6)


def test_most_candidates_are_not_fitted(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 200))
    y = rng.negative_binomial(2, 2 / (2 + np.exp(0.5 + 0.5 * X[:, 0])))
    fitted = []
    plain = DispersedFit._statistics
    monkeypatch.setattr(DispersedFit, "_statistics", lambda self, c, x: (fitted.append(len(c)), plain(self, c, x))[1])
    found = fbed.select(X, y, family="negative_binomial", k=0)
    assert 0 in found.selected
    assert sum(fitted) < 0.2 * found.n_tests.forward


def test_a_maximum_without_dispersion_is_certain():
    """Where the counts scatter less than Poisson's nobody looks for a dispersion, and nothing is missed."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 40))
    y = rng.binomial(6, 1 / (1 + np.exp(-X[:, 0])))
    results = [
        fbed.select(X, y, family="negative_binomial", alpha=0.2, k=1, engine=e) for e in ("certified", "exhaustive")
    ]
    assert results[0].selected == results[1].selected
    assert results[0].n_tests == results[1].n_tests


def overdispersed(seed, n=3000):
    rng = np.random.default_rng([17, seed])
    X = rng.normal(size=(n, 8)) if seed % 2 else rng.standard_t(3.0, size=(n, 8))
    X[:, 7] = X[:, 0] + 0.1 * rng.normal(size=n)
    mean = np.exp([0.3, 0.7, 3.0][seed % 3] + 0.3 * X[:, 0] - 0.1 * X[:, 1])
    size = [0.7, 3.0][seed % 2]
    return X, rng.negative_binomial(size, size / (size + mean)).astype(float)


@pytest.mark.parametrize("seed", range(6))
def test_a_tangent_holds_dispersions_around_the_fit(seed, monkeypatch):
    monkeypatch.setattr(dispersion_tangent, "_SLACK", np.inf)
    X, y = overdispersed(seed)
    fit = read_problem(X, y, [fbed.BIC()], family="negative_binomial").model.fit([0])
    frame = fit._frame
    tangent = frame.intervals[0].tangent
    assert tangent is not None
    assert tangent.low < fit.parameters[-1] < tangent.high
    new = X[:, 2:] - X[:, 2:].mean(axis=0)
    upper = frame._first_look(new[frame.busy], new[~frame.busy])[1][:, 0]
    family = fit.model.likelihood
    for alpha in np.linspace(tangent.low, tangent.high, 9):
        for j in range(new.shape[1]):
            columns = Columns(np.column_stack([fit.Z, new[:, j]]))
            start = np.append(fit.parameters[:-1], 0.0)[:, None]
            found = family._held(columns, np.vstack([start, [[alpha]]]), float(alpha)).deviance[0]
            assert fit.deviance - found <= upper[j] + 1e-7


@pytest.mark.parametrize("seed", range(6))
def test_searches_with_tangents_select_what_fits_do(seed, monkeypatch):
    monkeypatch.setattr(dispersion_tangent, "_SLACK", np.inf)
    X, y = overdispersed(seed)
    found = [fbed.select(X, y, family="negative_binomial", engine=e, alpha=0.2) for e in ("certified", "exhaustive")]
    assert found[0].selected == found[1].selected
    assert found[0].n_tests.total == found[1].n_tests.total
