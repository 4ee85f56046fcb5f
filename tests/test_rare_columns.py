"""Columns that are mostly 0 beside models with many rows: their brackets hold, and decide what fits would."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fbed
from engine_cases import KINDS, trail_of, wide
from fbed._kernels import DenseColumns, RareColumns, SparseColumns
from fbed.families import builders
from fbed.models.engines.tall.fit import TallFit
from fbed.models.engines.tall.row_sums import RowSums
from problem_cases import read_problem
from rare_cases import FAMILIES, compared, outcome, rare_columns
from test_certified import assert_same


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(12))
def test_equals_exhaustive(family, seed):
    assert compared(seed, family) is None


def rare_problem(seed, family, n=500):
    rng = np.random.default_rng([5, seed, len(family)])
    X = rare_columns(rng, n)
    y = outcome(rng, X, family, np.zeros(n))
    weights = rng.integers(1, 4, n)
    return X, y, weights


def both_models(seed, family):
    """By bounds, and by fits of every model."""
    X, y, weights = rare_problem(seed, family)
    options = {"family": family, "sample_weight": weights}
    return [read_problem(X, y, [fbed.BIC()], engine=engine, **options).model for engine in ("certified", "exhaustive")]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("family", FAMILIES)
def test_brackets_hold_and_are_narrow(family, seed):
    """Each statistic is in its bracket, which is far narrower than the statistic is large for nearly all."""
    models = both_models(seed, family)
    selected = ([], [0, 1], [0, 2, 15])[seed % 3]
    fit = models[0].fit(selected)
    if not isinstance(fit, TallFit):
        pytest.skip("a selected column has rows of one kind only")
    candidates = np.array([j for j in np.flatnonzero(models[0].rare) if j not in selected])
    exact = models[1].fit(selected).gains(candidates).statistic
    lower, upper, _ = fit.sums.enclose_rare(fit.sweep, fit.selected, candidates, fit.reach, fit.short)
    assert (lower <= exact + 1e-7 * (1 + exact)).all()
    assert (exact <= upper + 1e-7 * (1 + exact)).all()
    assert len(candidates) > 10
    assert np.median((upper - lower) / (1.0 + exact)) < 0.02


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_short_of_its_maximum_is_charged_for(family):
    """From coefficients that are off, brackets still hold what is gained beyond the maximum."""
    models = both_models(1, family)
    fit, candidates = models[0].fit([0, 1]), np.flatnonzero(models[0].rare)
    exact = models[1].fit([0, 1]).gains(candidates).statistic
    for size in (1e-3, 1e-2, 3e-2):
        sweep = fit.sums.sweep(fit.selected, fit.maximum + size)
        short = float(sweep.gradient @ np.linalg.solve(sweep.information, sweep.gradient))
        assert short > 1e-6
        lower, upper, _ = fit.sums.enclose_rare(sweep, fit.selected, candidates, fit.reach, short)
        assert (lower <= exact + 1e-7).all()
        assert (exact <= upper + 1e-7).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_models_end_where_it_is_said(family):
    """Of columns that have a finite maximum, the step leads near it."""
    X, y, _ = rare_problem(2, family)
    model = read_problem(X, y, [fbed.BIC()], family=family).model
    fit = model.fit([0])
    candidates = np.flatnonzero(model.rare)
    ends = fit.sums.enclose_rare(fit.sweep, fit.selected, candidates, fit.reach, fit.short)[2]
    near = 0
    for variable, end in zip(candidates.tolist(), ends.T, strict=True):
        larger = model.fit([0, variable])
        if isinstance(larger, TallFit) and np.abs(larger.maximum).max() < 5:
            there = np.append(fit.coefficients + end[:-1], end[-1])
            near += np.abs(there - larger.maximum).max() < 0.1 * np.abs(larger.maximum).max()
    assert near > 5


def test_storages_tell_the_same():
    X, y, weights = rare_problem(3, "binomial")
    y, weights = y.astype(float), weights.astype(float)
    which, mean = np.arange(3, 14), np.full(len(y), y.mean())
    found = []
    matrices = [DenseColumns(np.asfortranarray(X)), DenseColumns(np.ascontiguousarray(X).astype(np.float64))]
    table = sparse.csc_array(X)
    matrices.append(SparseColumns(table.indptr, table.indices, table.data, len(y)))
    for matrix in matrices:
        columns = RareColumns(False, matrix, which, mean, y, weights, 1)
        for first in range(0, len(y), 100):
            columns.add(first, np.ones((min(100, len(y) - first), 1), order="F"))
        information = np.array([[(weights * mean * (1 - mean)).sum()]])
        found.append(columns.enclosed(information, np.array([weights @ (y - mean)]), np.ones(1), 0.0))
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, another)


def test_rows_come_in_order():
    ones = np.ones(10)
    columns = RareColumns(True, DenseColumns(np.asfortranarray(np.eye(10))), np.arange(2), ones, ones, ones, 1)
    with pytest.raises(ValueError, match="order"):
        columns.add(5, np.ones((5, 1), order="F"))
    columns.add(0, np.ones((5, 1), order="F"))
    with pytest.raises(ValueError, match="all rows"):
        columns.enclosed(np.eye(1), ones[:1], ones[:1], 0.0)


def test_probabilities_without_digits_are_not_trusted():
    """A row that is as good as certain has lost what it would take to say how far it can be moved."""
    n = 20
    X, y, mean = np.eye(n)[:, :2], np.zeros(n), np.full(n, 0.3)
    mean[0] = 1.0
    y[[0, 5]] = 1.0
    columns = RareColumns(False, DenseColumns(np.asfortranarray(X)), np.arange(2), mean, y, np.ones(n), 1)
    columns.add(0, np.ones((n, 1), order="F"))
    lower, upper, _ = columns.enclosed(np.array([[4.0]]), np.zeros(1), np.ones(1), 0.0)
    assert lower[0] == 0.0
    assert np.isinf(upper[0])
    assert np.isfinite(upper[1])


@pytest.mark.parametrize("family", FAMILIES)
def test_rare_columns_need_hardly_any_fit(family, monkeypatch):
    """Dummies of a category with many levels, most of which do not matter and some of which have one kind of row."""
    rng = np.random.default_rng(9)
    n = 4000
    level = rng.choice(60, n, p=(weights := 1.0 / np.arange(1, 61)) / weights.sum())
    X = np.column_stack([rng.normal(size=(n, 3)), level[:, None] == np.arange(1, 60)]).astype(float)
    eta = 0.5 * X[:, 0] + 1.5 * X[:, 4] - 2.0
    y = rng.poisson(np.exp(eta)) if family == "poisson" else (eta + rng.logistic(size=n) > 0).astype(int)
    sweeps = []
    sweep = RowSums.sweep

    def counted(self, selected, coefficients):
        sweeps.append(selected)
        return sweep(self, selected, coefficients)

    monkeypatch.setattr(RowSums, "sweep", counted)
    result = fbed.select(X, y, family=family, criterion="bic")
    assert {0, 4} <= set(result.selected)
    assert len(sweeps) <= 8 * (1 + len(result.trace))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("family", FAMILIES)
def test_what_removals_cost(family, seed):
    """Of columns that are mostly 0, those that alone explained their rows among them."""
    models = both_models(seed, family)
    rare, rng = np.flatnonzero(models[0].rare), np.random.default_rng(seed)
    selected = (0, *sorted(rng.choice(rare, 4, replace=False).tolist()), 1)
    fit = models[0].fit(selected)
    if not isinstance(fit, TallFit):
        pytest.skip("columns that depend on each other")
    exact = models[1].fit(selected).losses(np.array(selected[1:5])).statistic
    places = np.arange(1, 5)
    found = fit.sums.enclose_losses(fit.sweep, fit.selected, places, fit.coefficients, fit.reach, fit.short)
    if found is None:
        pytest.skip("rows that some explain only beside others")
    lower, upper = found
    assert (lower <= exact + 1e-6 * (1 + exact)).all()
    assert (exact <= upper + 1e-6 * (1 + exact)).all()
    assert np.isfinite(upper).all()


def test_rows_come_back_with_the_column_that_explained_them():
    """Whatever the coefficient of such a column was set to."""
    rng = np.random.default_rng(3)
    n = 400
    X = np.column_stack([rng.normal(size=n), rng.random(n) < 0.05, rng.random(n) < 0.08]).astype(float)
    y = (0.5 * X[:, 0] + rng.logistic(size=n) > 0).astype(float)
    y[X[:, 1] > 0] = 1.0
    models = [read_problem(X, y, [fbed.BIC()], engine=engine).model for engine in ("certified", "exhaustive")]
    fit = models[0].fit((0, 1, 2))
    explained = fit.sums.explained
    assert explained.left_by((0, 2)) is None
    assert explained.left_by((0, 1)).weights[X[:, 1] > 0].max() == 0.0
    assert explained.hides((0, 1), 1)
    assert not explained.hides((0, 1), 2)
    exact = models[1].fit((0, 1, 2)).losses(np.array([1])).statistic[0]
    for value in (0.0, 0.7, -2.0):
        coefficients = fit.coefficients + value * np.array([X[:, 1].mean() / X[:, 1].std(), 0.0, 1.0, 0.0])
        sweep = fit.sums.sweep(fit.selected, coefficients)
        assert sweep.loss == pytest.approx(fit.sweep.loss, rel=1e-12)
        lower, upper = fit.sums.enclose_losses(sweep, fit.selected, np.array([1]), coefficients, fit.reach, 0.0)
        assert lower[0] - 1e-6 <= exact <= upper[0] + 1e-6
        assert upper[0] - lower[0] < 0.2 * exact


def test_a_column_may_explain_what_others_leave_of_its_rows():
    """The first has ones only, the second zeros but for rows of the first, the third no other rows than those two."""
    n = 200
    rng = np.random.default_rng(2)
    X = np.column_stack([np.zeros((n, 3)), rng.normal(size=n)])
    X[:10, 0] = X[5:20, 1] = X[8:12, 2] = 1.0
    y = (X[:, 3] + rng.logistic(size=n) > 0).astype(float)
    y[:10], y[10:20] = 1.0, 0.0
    models = [read_problem(X, y, [fbed.BIC()], engine=engine).model for engine in ("certified", "exhaustive")]
    explained = models[0].sums.explained
    assert explained.left_by((1, 2, 3)) is None
    alone, both = explained.left_by((0, 3)), explained.left_by((3, 1, 0, 2))
    np.testing.assert_array_equal(np.flatnonzero(alone.weights == 0.0), np.arange(10))
    np.testing.assert_array_equal(np.flatnonzero(both.weights == 0.0), np.arange(20))
    np.testing.assert_array_equal(both.idle, [2, 3, 4])
    assert explained.alone_by((3, 1, 0, 2)) is None
    for selected in ((0, 3), (3, 1, 0), (3, 1, 0, 2)):
        fit = models[0].fit(selected)
        assert isinstance(fit, TallFit)
        assert fit.deviance == pytest.approx(models[1].fit(selected).deviance, rel=1e-8)
    hidden = models[0].fit((0, 1)).gain_bounds(np.array([2]), lambda df: np.full(len(df), 4.0))
    assert hidden.lower[0] == hidden.upper[0] == 0.0


@pytest.mark.parametrize("kind", [np.float64, np.int8, np.float32])
def test_products_of_entries_are_those_of_columns(kind):
    """Of sparse columns with vectors, over blocks of rows."""
    rng = np.random.default_rng(4)
    n = 3000
    dense = np.where(rng.random((n, 12)) < 0.02, rng.integers(1, 9, (n, 12)), 0).astype(kind)
    y = (dense[:, 0] + rng.logistic(size=n) > 0).astype(int)
    tables = [np.asfortranarray(dense), sparse.csc_array(dense)]
    found = []
    for table in tables:
        model = read_problem(table, y, [fbed.BIC()]).model
        fit = model.fit((0, 1, 2))
        candidates = np.arange(3, 12)
        assert model.sums.blocks._are_scattered(model.design.positions(candidates)) == sparse.issparse(table)
        found.append(model.sums.look(fit.sweep.rows, fit.selected, candidates))
    for name in ("score", "cross", "own"):
        np.testing.assert_allclose(getattr(found[1], name), getattr(found[0], name), rtol=1e-9, atol=1e-9)


def test_products_that_are_kept_for_later_models_know_nothing_of_explained_rows():
    """They are found for variables that may enter next; rows that some of these explain still count beside S."""
    number = KINDS.index(wide)
    case = wide(np.random.default_rng([21, number, 367, 8]), "binomial")
    rule, algorithm = fbed.LikelihoodRatio(alpha=0.05), {"early_dropping": False, "max_features": 6}
    assert_same(*(trail_of(case, "binomial", rule, engine, **algorithm) for engine in ("exhaustive", "certified")))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_description_begins_where_the_search_ended(family, seed):
    """Columns that explain their rows alone, and one that does beside others: the coefficients of a cold start."""
    rng = np.random.default_rng([6, seed])
    X = np.zeros((600, 8))
    for j in range(7):
        X[rng.choice(600, 40, replace=False), j] = rng.choice([0.5, 1.0, 2.0], 40)
    y = rng.poisson(1.2, 600) if family == "poisson" else (rng.random(600) < 0.5)
    y = np.minimum(y, 6).astype(float)
    y[X[:, 0] > 0] = y[(X[:, 1] > 0) & (X[:, 0] == 0)] = 0.0
    X[:, 7] = np.where(X[:, 1] > 0, -1.0, 0.0)
    X[np.flatnonzero(X[:, 1])[:9], 7] = 0.0  # which only the second column explains: its sign is not free
    X[np.flatnonzero(y > 0)[:30], 7] = 1.0  # beside the second column, it rises on rows with a count
    one, other = (
        fbed.select(X, y, family=family, include=[0, 1, 2, 7], alpha=0.01, engine=engine)
        for engine in ("certified", "exhaustive")
    )
    assert one.selected == other.selected
    mine, its = (dict(zip(r.model.terms, r.model.coefficients, strict=True)) for r in (one, other))
    assert one.model.infinite == other.model.infinite
    assert one.model.infinite
    for term in mine:
        if term not in one.model.infinite:
            assert mine[term] == pytest.approx(its[term], rel=1e-4, abs=1e-4)
