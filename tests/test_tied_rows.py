"""Rows that no model tells apart: where all others can be explained, the best deviance is known in closed form."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import optimize, sparse

import fbed
from engine_cases import Case, trail_of
from fbed._kernels import SparseColumns, SparseModel, fit_logistic
from fbed.models.engines import sparse_logistic, sparse_span
from fbed.models.engines.fitted_logistic import as_stored
from fbed.models.recession import way_to_infinity
from problem_cases import read_problem
from test_certified import assert_same


def tied(seed):
    """Columns of 0 and 1 (now and then other values), an outcome that they explain but for rows that are repeated."""
    rng = np.random.default_rng([61, seed])
    n, p = int(rng.integers(30, 120)), int(rng.integers(4, 25))
    X = (rng.random((n, p)) < rng.uniform(0.1, 0.5, p)).astype(float)
    if seed % 3 == 0:
        X *= rng.integers(1, 4, X.shape)
    X[0], X[1] = 0.0, 1.0  # they vary
    y = (X @ rng.normal(size=p) > rng.normal()).astype(float)
    for _ in range(int(rng.integers(0, 4))):  # rows that are repeated, with the other class
        one, more = int(rng.integers(n)), int(rng.integers(1, 4))
        rows = rng.choice(n, more, replace=False)
        X[rows] = X[one]
        y[rows] = 1.0 - y[one]
    weights = rng.uniform(0.5, 2.0, n) if seed % 2 else np.ones(n)
    return X, y, weights


def best_deviance(X, y, weights):
    """What sets of equal rows leave, if a linear program finds a direction that explains all other rows; else None."""
    sets = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    ones, zeros = (np.bincount(sets, weights * (y == label)) for label in (1.0, 0.0))
    mixed = (ones > 0) & (zeros > 0)
    Z = np.column_stack([np.ones(len(y)), X])
    free = ~mixed[sets]
    found = optimize.linprog(
        np.zeros(Z.shape[1]),
        A_ub=-(2.0 * y[free] - 1.0)[:, None] * Z[free],
        b_ub=-np.ones(free.sum()),
        A_eq=Z[~free] if (~free).any() else None,
        b_eq=np.zeros((~free).sum()) if (~free).any() else None,
        bounds=(None, None),
    )
    if found.status != 0:
        return None
    ones, zeros = ones[mixed], zeros[mixed]
    return 2.0 * float((ones * np.log1p(zeros / ones) + zeros * np.log1p(ones / zeros)).sum())


def fitted(X, y, weights):
    """Coefficients, linear predictors, deviance and iterations on the columns; and the deviance on a matrix of them."""
    stored = sparse.csc_matrix(X)
    columns = SparseColumns(stored.indptr, stored.indices, stored.data, len(y))
    model = SparseModel(columns, np.arange(X.shape[1]), np.ones(X.shape[1]))
    start = np.zeros((1, 1 + X.shape[1]))
    found = model.fit(weights, y, start, 1e-12, np.inf)
    Z = np.asfortranarray(np.column_stack([np.ones(len(y)), X]))
    return found, fit_logistic(Z, weights, y, start, 1e-12, np.inf)[2]


@pytest.mark.parametrize("seed", range(120))
def test_the_deviance_is_what_equal_rows_leave(seed):
    X, y, weights = tied(seed)
    expected = best_deviance(X, y, weights)
    found, by_steps = fitted(X, y, weights)
    assert found[2] == pytest.approx(by_steps, rel=1e-6, abs=1e-6)
    if expected is not None:
        assert found[2] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    attained = 2.0 * float(weights @ np.logaddexp(0.0, (1.0 - 2.0 * y) * found[1]))
    assert found[2] <= attained * (1.0 + 1e-9) + 1e-9
    if found[2] > 0.0:  # all rows on their side are enough for 0
        assert found[2] == pytest.approx(attained, rel=1e-6, abs=1e-6)


def test_the_way_to_infinity_is_short():
    """Fits that separate all rows but equal ones end in closed form; by steps of one unit they were long."""
    known = [(tied(seed), fitted(*tied(seed))[0]) for seed in range(120)]
    ended = [found[6] for case, found in known if (best_deviance(*case) or 0.0) > 0.0]
    assert len(ended) > 15
    assert np.median(ended) < 12


@pytest.mark.parametrize("seed", range(40))
def test_searches_that_end_there_equal_exhaustive(seed, monkeypatch):
    monkeypatch.setattr(sparse_span, "_SMALLEST", 1)
    monkeypatch.setattr(sparse_span, "_PAYS", np.inf)
    X, y, weights = tied(seed)
    case = Case(sparse.csc_matrix(X), y, weights, ())
    algorithm = ({"early_dropping": False}, {"k": np.inf}, {"k": 1})[seed % 3]
    criterion = fbed.LikelihoodRatio(0.2)
    assert_same(*(trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")))


@pytest.mark.parametrize("seed", range(12))
def test_columns_that_are_no_others_where_rows_count(seed, monkeypatch):
    """Near separation many columns differ from those of the model in rows only that are as good as explained."""
    rng = np.random.default_rng([67, seed])
    n = 260
    signal = rng.normal(size=n) * 6.0
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-signal))).astype(float)
    certain = np.abs(signal) > 7.0
    model = np.column_stack([signal, rng.random((n, 3)) < 0.3])
    copies = np.repeat(model[:, 1:], 4, axis=1)
    copies[certain] = rng.random((int(certain.sum()), copies.shape[1])) < 0.3
    X = np.column_stack([model, copies, rng.normal(size=(n, 220))])
    fits = {engine: fit_of(X, y, engine) for engine in ("certified", "exhaustive")}
    fit, others = fits["certified"], np.arange(4, X.shape[1], dtype=np.intp)
    truth = fits["exhaustive"].gains(others).statistic
    asked = []
    real = type(fit.engine)._are_known
    monkeypatch.setattr(
        type(fit.engine), "_are_known", lambda self, coarse, which: asked.append(real(self, coarse, which)) or asked[-1]
    )
    fit.prepare(len(others), 4.0)
    lower, upper, suspect = fit.engine.bounds(others, 4.0)
    assert ((lower <= truth * (1 + 1e-8) + 1e-8) | suspect).all()
    assert (truth <= upper * (1 + 1e-8) + 1e-8).all()
    assert sum(found.sum() for found in asked) > 0
    known = [
        as_stored(fit.model.design, np.arange(1, 7, dtype=np.int64), np.flatnonzero(rows))
        for rows in (~certain, certain)
    ]
    assert known[0][3] == known[0][0]
    assert known[1][3] != known[1][0]


def fit_of(X, y, engine):
    """The model on the first four columns."""
    return read_problem(X, y, [fbed.AIC()], family="binomial", engine=engine).model.fit([0, 1, 2, 3])


@pytest.mark.parametrize("seed", range(30))
def test_a_way_to_infinity_explains_what_can_be_explained(seed):
    X, y, _ = tied(seed)
    signed = (2.0 * y - 1.0)[:, None] * np.column_stack([np.ones(len(y)), X])
    way, moved = way_to_infinity(signed)
    assert (signed @ way >= -1e-6).all()
    assert (moved == np.where(moved > 0.0, signed @ way, 0.0)).all()
    for row in np.flatnonzero(moved == 0.0):  # one by one: no direction moves it and none of the others back
        found = optimize.linprog(-signed[row], A_ub=-signed, b_ub=np.zeros(len(y)), bounds=(-1.0, 1.0))
        assert -found.fun < 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_fits_that_get_stuck_go_on_from_a_linear_program(seed, monkeypatch):
    """Newton's steps are made to stop at once: what follows finds the same, and warns of nothing."""
    monkeypatch.setattr(sparse_span, "_SMALLEST", 1)
    monkeypatch.setattr(sparse_span, "_PAYS", np.inf)
    tried, stopped = sparse_logistic.SparseLogistic._tried, []

    def tired(self, columns, starts, tolerance, enough):
        if len(starts) == 1:
            return tried(self, columns, starts, tolerance, enough)
        stopped.append(len(starts))
        found = tried(self, columns, starts, 1e9, np.inf)
        return (*found[:3], 0.0, 1.0, *found[5:])

    monkeypatch.setattr(sparse_logistic.SparseLogistic, "_tried", tired)
    X, y, weights = tied(seed)
    case = Case(sparse.csc_matrix(X), y, weights, ())
    algorithm = ({"early_dropping": False}, {"k": np.inf}, {"k": 1})[seed % 3]
    criterion = fbed.LikelihoodRatio(0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert_same(
            *(trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified"))
        )
    assert stopped
