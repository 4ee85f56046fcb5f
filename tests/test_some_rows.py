"""Upper bounds from some of the rows hold every statistic, and searches that use them select what fits select."""

from __future__ import annotations

import numpy as np
import pytest

import fbed
from engine_cases import KINDS, trail_of
from fbed._kernels import squares_and_reach
from fbed.models.engines import certified, some_rows
from fbed.models.engines.some_rows import Part, SomeRows
from problem_cases import read_problem
from test_certified import assert_same, combination


@pytest.fixture
def however_few(monkeypatch):
    """Few rows and few candidates are enough, and everybody is tried, however hopeless."""
    for name, value in {"_MANY_VALUES": 1, "_ROWS_A_COLUMN": 1.5, "_ROOM": np.inf}.items():
        monkeypatch.setattr(some_rows, name, value)
    monkeypatch.setattr(certified, "_FEW", 1)


def hostile_columns(rng, n):
    """Irrelevant, correlated, heavy-tailed, far from 0, ordered, constant in the first rows, nearly in the span."""
    X = rng.normal(size=(n, 40))
    X[:, 10:16] += 3.0 * X[:, :1]
    X[:, 16:20] = rng.standard_t(2, size=(n, 4))
    X[:, 20:22] += 1e5
    X[:, 22] = np.sort(X[:, 22])
    X[: n // 2, 23:26] = 1.0
    X[:, 26] = X[:, 0] + 1e-6 * X[:, 26]
    X[:, 27] = X[:, 1] - X[:, 2]
    X[:, 28] = 1e-9 * X[:, 28]
    X[:, 29] = 7.0
    return X


@pytest.mark.parametrize("seed", range(8))
def test_bounds_hold_every_statistic(seed, however_few):
    rng = np.random.default_rng([41, seed])
    n = 4000
    X = hostile_columns(rng, n)
    eta = (0.3, 2.0)[seed % 2] * (X[:, 0] - X[:, 1] + 0.3 * X[:, 3])
    y = (eta + rng.logistic(size=n) > (0.0, 2.0)[seed // 2 % 2]).astype(int)
    about = {"sample_weight": rng.uniform(0.5, 3.0, n), "offset": rng.normal(size=n)} if seed >= 4 else {}
    if seed == 7:
        X, y = X[np.argsort(y)], np.sort(y)
    model = read_problem(X, y, [fbed.BIC()], **about).model
    fit = model.fit([0, 1, 2])
    rows = SomeRows.of(model.design, fit.engine.null, 40)
    candidates = np.setdiff1d(np.arange(40), [0, 1, 2, 29])
    statistic = fit.gains(candidates).statistic
    tried = 0
    for part in rows.parts:  # every part has something to say of everybody
        alone = SomeRows(model.design, rows.null, [part], float(model.design.weights.sum()))
        upper = alone.upper(model.design.positions(candidates), 6.0)
        assert (statistic <= upper * (1.0 + 1e-9) + 1e-9).all()
        tried += int(np.isfinite(upper).sum())
    assert tried > 20


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_equals_exhaustive(kind, seed, however_few):
    number = KINDS.index(kind)
    case = kind(np.random.default_rng([42, number, seed]), "binomial")
    criterion, algorithm = combination(5 * number + seed)
    assert_same(*(trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")))


def test_few_columns_need_all_rows(monkeypatch):
    """Of many irrelevant columns, most are settled by an eighth or a quarter of the rows."""
    rng = np.random.default_rng(43)
    X = rng.normal(size=(6000, 400))
    y = (X[:, :8].sum(axis=1) * 0.4 + rng.logistic(size=6000) > 0).astype(int)
    asked, upper = [], SomeRows.upper

    def watched(self, which, critical):
        found = upper(self, which, critical)
        asked.append((found < critical).mean())
        return found

    monkeypatch.setattr(some_rows, "_MANY_VALUES", 2**20)
    monkeypatch.setattr(SomeRows, "upper", watched)
    options = {"family": "binomial", "criterion": "ebic"}
    found = fbed.select(X, y, **options)
    assert np.mean(asked) > 0.8
    monkeypatch.setattr(SomeRows, "of", lambda *about: None)
    without = fbed.select(X, y, **options)
    assert found.selected == without.selected
    assert found.n_tests == without.n_tests
    assert [step.statistic for step in found.trace] == [step.statistic for step in without.trace]


def test_parts_that_tell_nothing_of_the_model_are_left_out():
    rng = np.random.default_rng(44)
    G, curvature = rng.normal(size=(100, 3)), rng.uniform(0.1, 0.25, 100)
    part = Part.of(G, curvature)
    own = part.weighted / curvature[:, None]
    np.testing.assert_allclose(part.weighted.T @ own, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(part.length, np.linalg.norm(own, axis=1))
    G[:, 1] = G[:, 0]
    assert Part.of(G, curvature) is None
    G[:, 1] = 1e-3 * rng.normal(size=100)
    assert Part.of(G, curvature) is None


def test_squares_and_reach():
    rng = np.random.default_rng(45)
    X, projections = np.asfortranarray(rng.normal(size=(37, 5))), rng.normal(size=(5, 2))
    curvature, length = rng.random(37), rng.random(37)
    own, reach = squares_and_reach(X, projections, curvature, length)
    np.testing.assert_allclose(own, curvature @ X**2)
    sizes = np.linalg.norm(projections, axis=1)
    np.testing.assert_allclose(reach, (np.abs(X) + length[:, None] * sizes).max(axis=0))
