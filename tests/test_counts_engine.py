"""Counts beside columns that are mostly 0: intervals hold what fitting finds, and searches select what it selects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from fbed.families import builders
from fbed.models.engines.counts import CountsFit
from problem_cases import read_problem


@pytest.fixture(autouse=True)
def ordinary_models(monkeypatch):
    """Also with rows enough for sums over rows to be quicker."""
    monkeypatch.setattr(builders, "_SOONER", 1.0)


KINDS = ("indicators", "counts", "numbers", "heavy tails", "both signs")


def hostile(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Sparse columns, some without any count, some copies and sums of others; weights and offsets."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.choice([30, 80, 150])), 16
    X = (rng.random((n, p)) < rng.choice([0.05, 0.1, 0.3])).astype(float)
    X *= {
        "indicators": lambda: 1.0,
        "counts": lambda: 1.0 + rng.poisson(2.0, X.shape),
        "numbers": lambda: rng.normal(size=X.shape),
        "heavy tails": lambda: np.exp(2.0 * rng.normal(size=X.shape)),
        "both signs": lambda: rng.choice([-1.0, 1.0, 30.0], X.shape),
    }[kind]()
    X[:, 5], X[:, 6] = X[:, 0], X[:, 1] + X[:, 2]
    scaled = X / (np.abs(X).max(axis=0) + 1e-9)
    eta = scaled[:, :4] @ rng.normal(size=4) * rng.choice([0.0, 2.0]) + rng.choice([-2.0, 0.0, 3.0])
    y = rng.poisson(np.exp(eta)) * (rng.random(n) < 0.8)
    about = {}
    if seed % 3 == 1:
        about["sample_weight"] = rng.integers(0, 4, n)
    if seed % 3 == 2:
        about["offset"] = rng.normal(size=n)
    return X, y.astype(float), about


def fits(X, y, selected, **about):
    """The fit on some variables by intervals, and as it is."""
    for engine in ("certified", "exhaustive"):
        problem = read_problem(X, y, [fbed.BIC()], family="poisson", engine=engine, **about)
        yield problem.model.fit(selected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_intervals_hold_the_likelihood_ratio(kind, seed):
    X, y, about = hostile(kind, seed)
    for selected in ((), (7,), (0, 3, 8, 9)):
        fit, plain = fits(X, y, selected, **about)
        assert isinstance(fit, CountsFit)
        candidates = np.setdiff1d(np.flatnonzero(fit.model.design.width == 1), [*selected, 5, 6])
        zero, infinite = np.zeros(len(candidates)), np.full(len(candidates), np.inf)
        lower, upper = fit._narrowed(candidates, zero, infinite, zero)
        exact = plain.gains(candidates).statistic
        slack = 1e-7 * np.maximum(1.0, exact)
        assert (lower <= exact + slack).all()
        assert (upper >= exact - slack).all()
        assert np.isfinite(upper).any()


@pytest.mark.parametrize("stored", [np.asfortranarray, np.ascontiguousarray, sparse.csc_array, pd.DataFrame])
def test_entries_of_zero_are_known_to_the_last_bit(stored):
    X, y, _ = hostile("heavy tails", 3)
    fit, _ = fits(stored(X), y, ())
    columns, zero = fit._raw(np.flatnonzero(fit.model.design.width == 1))
    np.testing.assert_array_equal(columns == zero, X[:, fit.model.design.width == 1] == 0.0)


def test_a_word_without_counts_is_known_at_once():
    """Its mean goes to 0, which a Newton step from elsewhere never reaches."""
    rng = np.random.default_rng(1)
    X = np.zeros((200, 2))
    X[:12, 0], X[5:40, 1] = 1.0, 1.0
    y = rng.poisson(2.0, 200).astype(float)
    y[:12] = 0.0
    fit, plain = fits(X, y, ())
    lower, upper = fit._narrowed(np.arange(2), np.zeros(2), np.full(2, np.inf), np.zeros(2))
    exact = plain.gains(np.arange(2)).statistic
    np.testing.assert_allclose(lower, exact, rtol=0.02)
    np.testing.assert_allclose(upper, exact, rtol=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6, 12))
def test_searches_are_those_of_fitting_every_model(kind, seed):
    X, y, about = hostile(kind, seed)
    stored = sparse.csc_array(X) if seed % 2 else X
    options = [{"alpha": 0.3, "k": 1}, {"criterion": "aic", "k": 0}, {"alpha": 0.3, "early_dropping": False}][seed % 3]
    found, expected = (
        fbed.select(stored, y, family="poisson", engine=engine, **options, **about)
        for engine in ("certified", "exhaustive")
    )
    assert found.selected == expected.selected
    assert found.n_tests == expected.n_tests
    for one, other in zip(found.trace, expected.trace, strict=True):
        assert one.statistic is None or one.statistic == pytest.approx(other.statistic, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_categories_of_two_levels(seed):
    """They are single columns that no matrix holds."""
    X, y, about = hostile("numbers", seed)
    frame = pd.DataFrame({f"x{j}": np.where(X[:, j] > 0, "yes", "no") if j % 2 else X[:, j] for j in range(10)})
    for columns in (list(frame), [f"x{j}" for j in (1, 3, 7, 9)]):
        found, expected = (
            fbed.select(frame[columns], y, family="poisson", alpha=0.3, engine=engine, **about)
            for engine in ("certified", "exhaustive")
        )
        assert found.selected == expected.selected
        assert found.n_tests == expected.n_tests


def test_removals_begin_where_the_others_are():
    """Coefficients on their way to infinity stay there when another variable leaves."""
    X, y, _ = hostile("counts", 3)
    for selected in ((0, 3, 8, 9, 10), (8, 0)):
        fit, plain = fits(X, y, selected)
        np.testing.assert_allclose(
            fit.losses(np.array(selected)).statistic, plain.losses(np.array(selected)).statistic, rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("far", [1e2, 1e4, 1e7])
def test_numbers_far_from_0(far):
    """Beside a constant next to nothing is left of them: an interval must not be made of its rounding."""
    rng = np.random.default_rng(int(far))
    X = far + rng.normal(size=(120, 40))
    y = rng.poisson(np.exp(0.5 + 0.3 * (X[:, 0] - far))).astype(float)
    for selected in ((), (0, 1)):
        fit, plain = fits(X, y, selected)
        fit.prepare(38, 3.84)
        candidates = np.arange(2, 40)
        exact = plain.gains(candidates).statistic
        for line in exact:  # whoever is in doubt is looked at more closely
            bounds = fit.gain_bounds(candidates, lambda df, line=line: np.full(df.shape, line))
            assert (bounds.lower <= exact + 1e-6 * (1.0 + exact)).all()
            assert (bounds.upper >= exact - 1e-6 * (1.0 + exact)).all()


def test_counts_where_none_at_all_are_expected():
    """A mean that is 0 in numbers has no curvature, but a count there asks for it."""
    rng = np.random.default_rng(2)
    X = (rng.random((100, 30)) < 0.1) * 1.0
    X[:, 3] = np.arange(100) == 7
    y, offset = rng.poisson(2.0, 100).astype(float), np.zeros(100)
    y[7], offset[7] = 1.0, -800.0
    fit, plain = fits(X, y, (), offset=offset)
    fit.prepare(30, 3.84)
    bounds = fit.gain_bounds(np.arange(30), lambda df: np.full(df.shape, 3.84))
    exact = plain.gains(np.arange(30)).statistic
    assert exact[3] > 1000.0
    assert (bounds.lower <= exact * (1.0 + 1e-6)).all()
    assert (bounds.upper >= exact * (1.0 - 1e-6)).all()
