"""Near copies of selected columns: no engine takes rounding of coefficients far out for a gain."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests import word_cases

import fbed
from fbed.models.engines import binomial, sparse_span
from fbed.models.engines.logistic_newton import maximise
from fbed.models.engines.rows_apart import fitted_apart
from problem_cases import read_problem
from test_certified import assert_same


def copied(seed, apart):
    """Overlapping classes; the last column is the first but for one row, so that it explains that row and no other."""
    rng = np.random.default_rng([9, seed])
    n = int(rng.integers(60, 160))
    X = (rng.random((n, 4)) < 0.3).astype(float)
    y = (X @ rng.normal(size=4) + rng.logistic(size=n) > 0).astype(float)
    y[:4] = [0.0, 1.0, 0.0, 1.0]
    row, copy = int(rng.integers(n)), X[:, 0].copy()
    copy[row] += apart
    weights = 10.0 ** rng.uniform(-1, 1, n) if seed % 2 else np.ones(n)
    return np.column_stack([np.ones(n), X, copy]), y, weights, row


def best(columns, y, weights):
    """Deviance of a model that has a maximum."""
    basis = np.linalg.qr(columns)[0] * np.sqrt(len(y))
    return float(maximise(basis, None, np.zeros((basis.shape[1], 1)), y, weights).deviance[0])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-4, -1e-6])
def test_a_row_that_a_near_copy_explains_leaves(apart, seed):
    columns, y, weights, row = copied(seed, apart)
    found = fitted_apart(columns, y, weights)
    others = np.arange(len(y)) != row
    assert found.deviance == pytest.approx(best(columns[others, :-1], y[others], weights[others]), abs=1e-7)
    reached = 2.0 * weights @ np.logaddexp(0.0, (1.0 - 2.0 * y) * found.predictor)
    assert reached == pytest.approx(found.deviance, abs=1e-6)


@pytest.mark.parametrize("seed", [3, 6])
def test_what_a_linear_program_leaves_of_other_rows_moves_none(seed):
    """It took hundreds of rows a little to either side, and those to the right one left with the row of the copy."""
    rng = np.random.default_rng([3, seed])
    n = 400
    few, row = rng.poisson(0.3, n).astype(float), np.arange(n) == 49
    wide, tiny = 100.0 * rng.normal(size=n) * np.exp(rng.normal(size=n)), 1e-2 * rng.normal(size=n)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2)), wide, tiny, 1e-3 * (np.arange(n) == 7), few])
    y = (X[:, 1] + rng.logistic(size=n) > 0).astype(float)
    weights = 10.0 ** rng.uniform(-3, 3, n)
    y, weights = np.append(y, 1.0 - y[100:]), np.append(weights, 0.7 * weights[100:])  # most rows of both classes
    near, alone = (np.column_stack([X, column]) for column in (few + 1e-3 * row, row))  # the same model
    found, expected = (fitted_apart(np.vstack([Z, Z[100:]]), y, weights) for Z in (near, alone))
    assert found.deviance == pytest.approx(expected.deviance, abs=1e-6)


@pytest.mark.parametrize("engine", ["certified", "exhaustive"])
@pytest.mark.parametrize("seed", [4, 16, 28, 30, 51])
def test_columns_far_from_0_hide_no_rounding(seed, engine):
    """Beside 10⁷ + x a constant is next to dependent: statistics of thousands were told for near copies."""
    rng = np.random.default_rng(seed)
    n = 60
    far, few, row = 1e7 + rng.normal(size=n), rng.poisson(0.2, n).astype(float), np.arange(n) == 49
    X = np.column_stack([rng.normal(size=(n, 2)), far, few, few + 1e-3 * row, row])
    y = (X[:, 0] + rng.logistic(size=n) > 0).astype(int)
    weights = 10.0 ** rng.uniform(-3, 3, n)
    fit = read_problem(X, y, [fbed.AIC()], family="binomial", engine=engine, sample_weight=weights).model.fit(
        [0, 1, 2, 3]
    )
    near, alone = fit.gains(np.array([4, 5], dtype=np.intp)).statistic  # the same model
    assert near == pytest.approx(alone, rel=1e-6, abs=1e-6)


def test_rows_that_are_equal_but_for_their_class_are_not_told_apart():
    columns, y, weights, row = copied(0, 1e-4)
    twin = np.vstack([columns, columns[row]])
    found = fitted_apart(twin, np.append(y, 1.0 - y[row]), np.append(weights, 1.0))
    assert found is not None
    pair = best(np.vstack([columns[:, :-1], columns[row, :-1]]), np.append(y, 1.0 - y[row]), np.append(weights, 1.0))
    assert found.deviance <= pair + 1e-9  # the column lets the two rows have a probability of their own
    others = np.arange(len(y)) != row
    alone = best(columns[others, :-1], y[others], weights[others]) + 4.0 * np.log(2.0)
    assert found.deviance == pytest.approx(alone, abs=1e-7)


def test_what_cannot_be_written_down_is_not_taken():
    """An outlier that only a slope against all others explains: rows are separated up to the digits of a program."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=80)
    y = (x + rng.logistic(size=80) > 0).astype(float)
    y[:2], x[0] = [0.0, 1.0], 1e9  # on the wrong side
    found = fitted_apart(np.column_stack([np.ones(80), x]), y, np.ones(80))
    honest = best(
        np.ones((79, 1)), y[1:], np.ones(79)
    )  # as good as without x: a slope of next to nothing explains the row
    assert found is None or found.deviance == pytest.approx(honest, abs=1e-3)


@pytest.mark.parametrize("seed", [4803, 40329, 40401, 41239, 41353, 41361, 41415])
@pytest.mark.parametrize("kept_sparse", [False, True])
def test_searches_beside_near_copies_agree(seed, kept_sparse, monkeypatch):
    """Where engines have been wrong, each in its way: rows were told apart that are equal, beside an offset too."""
    if kept_sparse:
        monkeypatch.setattr(sparse_span, "_SMALLEST", 1)
        monkeypatch.setattr(sparse_span, "_PAYS", np.inf)
        monkeypatch.setattr(binomial, "MANY_COLUMNS", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(*word_cases.trails(seed))


def test_a_basis_knows_how_much_rounding_it_has():
    columns, y, _, _ = copied(1, 1e-4)
    model = read_problem(columns[:, 1:], y, [fbed.BIC()], family="binomial").model
    assert model.fit([1, 2]).span.least_part > 0.5
    part = model.fit([0, 1, 4]).span.least_part
    assert part == pytest.approx(1e-4 / np.linalg.norm(columns[:, 1] - columns[:, 1].mean()), rel=0.5)


def test_a_fit_that_gets_lost_begins_again():
    """Where rows are certain of the wrong class and none has curvature, no step leads anywhere."""
    rng = np.random.default_rng(6)
    Z = np.column_stack([np.ones(80), rng.normal(size=(80, 2))])
    y = (Z[:, 1] + rng.logistic(size=80) > 0).astype(float)
    weights = 10.0 ** rng.uniform(-2, 5, 80)
    far = np.array([[0.0], [-2e3], [1e3]])
    found, expected = (maximise(Z, None, start, y, weights).deviance for start in (far, np.zeros((3, 1))))
    assert found == pytest.approx(expected, rel=1e-9)
    assert maximise(Z[:, :2], Z[:, 2:], far, y, weights).deviance == pytest.approx(expected, rel=1e-9)
