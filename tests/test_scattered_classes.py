"""Classes beside columns that are mostly 0: looks at the rows that a column moves, models of entries, removals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
import fbed.models.engines.sparse_span as spans
from fbed.models.engines.scattered_classes import ScatteredFit
from fbed.models.recession import _null_space
from problem_cases import read_problem
from scattered_class_cases import searches
from test_certified import assert_same

FAMILIES = ("multinomial", "ordinal")


@pytest.fixture
def entries(monkeypatch):
    """All models are taken as their entries, however few columns they have."""
    monkeypatch.setattr(spans, "_SMALLEST", 1)
    monkeypatch.setattr(spans, "_PAYS", 1e9)
    monkeypatch.setattr(spans, "_BESIDE_WORDS", False)


@pytest.mark.parametrize("number", range(40))
@pytest.mark.filterwarnings("ignore")
def test_searches_are_those_of_fitting_every_model(entries, number):
    trails = searches(number)
    if trails is not None:
        assert_same(*trails)


def levels(family, seed=1, n=500):
    """Dummies of two categories, frequent and of one row, and words of both signs; classes that some levels lack."""
    rng = np.random.default_rng([13, seed])
    columns, eta = [], rng.normal(size=(1, 4)) * 0.3 + np.zeros((n, 4))
    for count in (6, 25):
        frequency = 1.0 / np.arange(1, count + 1) ** 1.5
        level = rng.choice(count, n, p=frequency / frequency.sum())
        columns.append((level[:, None] == np.arange(1, count)).astype(float))
        eta += (rng.normal(size=(count, 4)) * (rng.uniform(size=count) < 0.5)[:, None])[level]
    words = rng.poisson(0.06, size=(n, 4)) * rng.choice([-1.0, 0.5, 2.0], size=(n, 4))
    words[:, 3] = np.arange(n) == 7
    X = np.hstack([*columns, words])
    if family == "ordinal":
        y = np.digitize(eta[:, 0] + rng.logistic(size=n), [-1.0, 0.5, 2.0])
    else:
        y = (eta + rng.gumbel(size=(n, 4))).argmax(axis=1)
    X[:, 2] *= y > 0  # a class that is ruled out
    X[:, 3] = (y == y.max()) & (rng.uniform(size=n) < 0.1)  # and a column of one class
    return X, y, rng.integers(1, 4, n).astype(float)


def fits(family, selected, storage=np.asarray):
    X, y, weights = levels(family)
    options = {"family": family, "sample_weight": weights}
    return [
        read_problem(storage(X), y, [fbed.AIC()], engine=engine, **options).model.fit(selected)
        for engine in ("certified", "exhaustive")
    ]


@pytest.mark.parametrize("selected", [(), (0,), (0, 2, 5), (1, 3, 6, 8, 30, 31)])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_looks_hold_the_statistic(entries, family, selected):
    fit, exact = fits(family, selected)
    rest = np.setdiff1d(np.arange(len(fit.model.design.width)), selected)
    found = exact.gains(rest)
    rest, statistic = rest[found.df > 0], found.statistic[found.df > 0]
    fit.prepare(len(rest))
    rare = fit._rare(rest)
    told = 0
    for share in (0.3, 0.97, 1.03, 3.0):
        line = share * statistic[rare]
        low, high, _ = fit._looked(rest[rare], line, np.inf, np.zeros(len(rare)), np.full(len(rare), np.inf))
        assert (low <= statistic[rare] * (1 + 1e-7) + 1e-7).all()
        assert (high >= statistic[rare] * (1 - 1e-7) - 1e-7).all()
        told += int(((low > line) | (high <= line)).sum())
    assert told > 2 * len(rare)
    best = float(np.median(statistic))
    known = np.zeros(len(rare)), np.full(len(rare), np.inf)
    low, high, _ = fit._looked(rest[rare], np.full(len(rare), -np.inf), best, *known)
    assert (low <= statistic[rare] * (1 + 1e-7) + 1e-7).all()
    assert (high >= statistic[rare] * (1 - 1e-7) - 1e-7).all()


@pytest.mark.parametrize("strength", [0.5, 2.5])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_looks_at_columns_of_many_rows_hold_the_statistic(entries, family, strength):
    """Which have more of the information than others leave; and rows that have many of the model's columns."""
    rng = np.random.default_rng(5)
    X = rng.binomial(2, rng.uniform(0.1, 0.4, size=24), size=(300, 24)).astype(float)
    eta = strength * X[:, :6] @ rng.normal(size=(6, 4))
    y = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
    if family == "ordinal":
        y = np.digitize(eta[:, 0] - eta[:, 0].mean() + rng.logistic(size=300), [-1.0, 0.5, 2.0])
    options, selected = {"family": family, "sample_weight": rng.integers(1, 4, 300)}, (0, 1, 2, 3, 4, 8, 9, 10)
    fit, exact = (
        read_problem(X, y, [fbed.AIC()], engine=engine, **options).model.fit(selected)
        for engine in ("certified", "exhaustive")
    )
    rest = np.setdiff1d(np.arange(24), selected)
    statistic, told = exact.gains(rest).statistic, 0
    fit.prepare(len(rest))
    for share in (0.3, 0.97, 1.03, 3.0):
        known = np.zeros(len(rest)), np.full(len(rest), np.inf)
        low, high, _ = fit._looked(rest, share * statistic, np.inf, *known)
        assert (low <= statistic * (1 + 1e-7) + 1e-7).all()
        assert (high >= statistic * (1 - 1e-7) - 1e-7).all()
        told += int(((low > share * statistic) | (high <= share * statistic)).sum())
    assert told > 2 * len(rest)


@pytest.mark.parametrize("selected", [(0,), (0, 2, 5), (1, 3, 6, 8, 30, 31)])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_removals_hold_what_they_cost(entries, family, selected):
    fit, exact = fits(family, selected, sparse.csc_matrix)
    assert isinstance(fit, ScatteredFit)
    assert fit.deviance == pytest.approx(exact.deviance, rel=1e-9)
    bounds = fit.loss_bounds(np.array(selected), lambda df: df)
    cost = exact.losses(np.array(selected)).statistic
    assert (bounds.lower <= cost * (1 + 1e-7) + 1e-7).all()
    assert (bounds.upper >= cost * (1 - 1e-7) - 1e-7).all()
    assert (bounds.lower > 0.5 * cost).sum() >= len(selected) // 2
    low, high = fit.resolve_loss(selected[0], np.inf)
    assert low == high == pytest.approx(cost[0], rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_neither_storage_nor_threads_change_the_answer(entries, family):
    X, y, weights = levels(family, 2)
    options = {"family": family, "sample_weight": weights, "alpha": 0.2}
    found = [
        fbed.select(table, y, n_jobs=n_jobs, **options)
        for table, n_jobs in ((X, 1), (sparse.csc_matrix(X), 1), (sparse.csc_matrix(X), 2))
    ]
    expected = fbed.select(X, y, engine="exhaustive", **options)
    for result in found:
        assert result.selected == expected.selected
        assert result.n_tests == expected.n_tests
        assert result.model.deviance == pytest.approx(expected.model.deviance, rel=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_the_winner_is_the_next_model(entries):
    fit, exact = fits("multinomial", (0, 2, 5))
    rest = np.setdiff1d(np.arange(len(fit.model.design.width)), (0, 2, 5))
    fit.prepare(len(rest))
    lower, _ = fit.contest(rest, np.zeros(len(rest)), np.full(len(rest), np.inf), True)
    best = int(rest[lower.argmax()])
    assert lower.max() == pytest.approx(exact.gains(rest).statistic.max(), rel=1e-7)
    if fit.grown is not None and fit.grown.span.selected[-1] == best:
        assert fit.model.fit((0, 2, 5, best), fit) is fit.grown


def test_null_directions_among_few_are_those_of_all():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(300, 12)) * 10.0 ** rng.uniform(-3, 0, 12)
    rows[:, 5], rows[:, 9] = rows[:, 0] - 2.0 * rows[:, 1], 0.0
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    few = _null_space(rows)
    assert few.shape == (12, 2)
    assert np.abs(rows @ few).max() < 1e-13
    whole = np.linalg.svd(rows)[2][-2:].T
    assert few @ few.T == pytest.approx(whole @ whole.T, abs=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_groups_and_categories_beside_words(entries, family):
    """Models with a variable of several columns are those of fitting every model, too."""
    X, y, *_ = levels(family, seed=3, n=300)
    table = pd.DataFrame(X if isinstance(X, np.ndarray) else X.toarray()).add_prefix("x")
    table["kind"] = np.array(list("uvw"))[np.random.default_rng(2).integers(0, 3, len(y))]
    table.loc[np.asarray(y) == 0, "kind"] = "u"
    options = {"family": family, "groups": {"pair": ["x0", "x1"]}}
    models = [read_problem(table, y, [fbed.BIC()], engine=e, **options).model for e in ("certified", "exhaustive")]
    kind = table.shape[1] - 1
    for selected in ([5, 7, kind], [5, 7, 0]):  # 0 is the pair
        one, other = (model.fit(selected, near=model.fit(selected[:-1])) for model in models)
        assert isinstance(one, ScatteredFit)
        assert one.deviance == pytest.approx(other.deviance, rel=1e-8)
        lost, cost = one.loss_bounds(np.array(selected), lambda df: 0.0 * df), other.losses(np.array(selected))
        assert lost.df.tolist() == cost.df.tolist()
        assert (lost.lower <= cost.statistic * (1 + 1e-6) + 1e-6).all()
        assert (lost.upper >= cost.statistic * (1 - 1e-6) - 1e-6).all()
        for variable, statistic in zip(selected, cost.statistic.tolist(), strict=True):
            assert one.resolve_loss(variable, np.inf)[0] == pytest.approx(statistic, rel=1e-6, abs=1e-6)
    one, other = (fbed.select(table, y, engine=e, criterion="bic", **options) for e in ("certified", "exhaustive"))
    assert one.selected == other.selected
    assert "kind" in one.selected
