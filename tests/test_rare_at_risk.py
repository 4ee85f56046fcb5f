"""Columns that are mostly 0 beside many survival times: intervals from the maximum along each, against fits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fbed
from engine_cases import Case, trail_of
from fbed._kernels import RareAtRisk
from fbed.families import builders
from fbed.models.engines.tall.fit import TallFit
from fbed.models.engines.tall.risk_sums import RiskSums
from problem_cases import read_problem
from test_certified import assert_same


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)


def rare(seed):
    """Dummies, counts or numbers of any sign on few rows, and numbers on all; ties, weights and strata."""
    rng = np.random.default_rng([41, seed])
    n, p = int(rng.integers(300, 1500)), 12
    X = (rng.random((n, p)) < 10.0 ** rng.uniform(-2.5, -0.8, p)).astype(float)
    X *= (np.ones((n, p)), rng.integers(1, 4, (n, p)), rng.normal(size=(n, p)))[seed % 3]
    X = np.column_stack([X, rng.normal(size=(n, 2))])
    effect = rng.normal(size=p + 2) * rng.choice([0.2, 1.0, 3.0])
    hours, until = rng.exponential(np.exp(-X @ effect)), rng.exponential(rng.choice([0.3, 3.0]), n)
    died, hours = hours <= until, np.minimum(hours, until)
    died &= X[:, 0] == 0.0  # nobody dies whose first column is not 0
    if rng.random() < 0.5:
        hours = np.ceil(6.0 * hours)
    weights = (None, rng.integers(0, 4, n).astype(float), rng.exponential(size=n))[seed // 3 % 3]
    return Case(X, (hours, died), weights), rng.integers(0, 5, n) if seed % 4 == 3 else None


def model_of(case, strata=None, X=None):
    X = case.X if X is None else X
    model = read_problem(X, case.y, [fbed.BIC()], family="cox", sample_weight=case.weights, strata=strata).model
    assert isinstance(model.sums, RiskSums)
    return model


def intervals(fit, candidates):
    sums = fit.sums
    return sums.enclose_rare(fit.sweep, fit.selected, candidates, fit.reach, fit.short)


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.filterwarnings("ignore")
def test_every_interval_holds_the_statistic_and_most_are_narrow(seed):
    case, strata = rare(seed)
    model, narrow, told = model_of(case, strata), 0, 0
    for selected in ((), (3,), (12, 13), (12, 2, 5, 7)):
        fit = model.fit(selected)
        candidates = np.array([v for v in range(12) if v not in selected and model.design.varying[v]])
        lower, upper, _ = intervals(fit, candidates)
        wanted = model.careful.fit(selected).gains(candidates).statistic
        assert (lower <= wanted * (1.0 + 1e-7) + 1e-7).all()
        assert (wanted <= upper * (1.0 + 1e-7) + 1e-7).all()
        narrow += int((upper - lower <= 0.05 * wanted + 1e-3).sum())
        told += len(candidates)
    assert narrow > 0.3 * told


@pytest.mark.parametrize("seed", [0, 4, 8])
def test_a_fit_that_stops_short_is_charged(seed):
    """Intervals are about the maximum, wherever the coefficients of the model are."""
    case, _ = rare(seed)
    model = model_of(case)
    selected, candidates = (12, 2), np.array([1, 3, 4, 5, 6])
    best = model.fit(selected)
    moved = best.maximum + np.array([0.05, -0.02])
    sweep = best.sums.sweep(selected, moved)
    short = 2.0 * sweep.loss - best.deviance
    lower, upper, _ = best.sums.enclose_rare(sweep, selected, candidates, best.reach, short)
    wanted = model.careful.fit(selected).gains(candidates).statistic
    assert (lower <= wanted + 1e-7).all()
    assert (wanted <= upper + 1e-7).all()


def test_where_models_end_is_near_their_maximum():
    """Of those that have one: where nobody dies it is at infinity, and rows leave."""
    case, _ = rare(3)
    fit = model_of(case).fit((12, 13))
    candidates = np.arange(1, 12)
    _, upper, ends = intervals(fit, candidates)
    spares = fit.sums.eventless.spares
    finite = [j for j in np.flatnonzero(np.isfinite(upper)) if not spares([int(candidates[j])])]
    assert len(finite) > 2
    for j in finite:
        larger = TallFit(fit.model, (12, 13, int(candidates[j])), None)
        found = np.append(fit.coefficients + ends[:-1, j], ends[-1, j])
        np.testing.assert_allclose(found, larger.maximum, atol=0.02)


def test_storage_does_not_matter():
    case, strata = rare(7)
    candidates, found = np.arange(1, 8), []
    for X in (case.X, np.asfortranarray(case.X), sparse.csc_matrix(case.X)):
        fit = model_of(case, strata, X).fit((12, 2))
        found.append(np.concatenate(intervals(fit, candidates)[:2]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    np.testing.assert_allclose(found[0], found[2], rtol=1e-10)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore")
def test_searches_equal_exhaustive(seed):
    case, _ = rare(seed)
    case = Case(sparse.csc_matrix(case.X) if seed % 2 else case.X, case.y, case.weights)
    test = fbed.LikelihoodRatio(0.1)
    one, other = (trail_of(case, "cox", test, engine, k=1) for engine in ("exhaustive", "certified"))
    assert_same(one, other)


def test_most_candidates_are_not_fitted(monkeypatch):
    """Dummies of 400 levels, a third of which matter: steps from the model alone tell little of them."""
    rng = np.random.default_rng(3)
    level = rng.integers(0, 400, 20_000)
    X = sparse.csc_matrix((np.ones(20_000), (np.arange(20_000), level)), shape=(20_000, 400))
    effect = 1.5 * rng.normal(size=400) * (rng.random(400) < 0.3)
    hours = rng.exponential(np.exp(-effect[level]))
    fitted, begin = [], TallFit._start_with

    def noted(fit, variable):
        fitted.append(variable)
        return begin(fit, variable)

    monkeypatch.setattr(TallFit, "_start_with", noted)
    result = fbed.select(X, (hours, np.ones(20_000, dtype=bool)), family="cox", k=0, max_features=8)
    assert len(result.indices) == 8
    assert len(fitted) < 20  # 160 without


def test_rows_that_are_not_there_are_refused():
    one, rows = np.ones(3), np.zeros(3, dtype=np.int64)
    with pytest.raises(ValueError, match="sizes"):
        RareAtRisk(one, rows, one > 0, one, one, one, one, np.ones(2))
