"""Survival times beside columns that are mostly 0: intervals hold what fits find, and searches select what they do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fbed
from fbed._kernels import settle_cox
from fbed.families import builders
from fbed.models.engines import survival
from fbed.models.engines.survival import SurvivalFit
from problem_cases import read_problem


@pytest.fixture(autouse=True)
def ordinary_models(monkeypatch):
    """Also with rows enough for sums over rows to be quicker."""
    monkeypatch.setattr(builders, "_SOONER", 1.0)


KINDS = ("indicators", "counts", "numbers", "heavy tails", "both signs")


def hostile(kind: str, seed: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], dict]:
    """Sparse columns, two of which only survivors have, some copies and sums of others; ties and weights."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.choice([40, 90, 160])), 16
    X = (rng.random((n, p)) < rng.choice([0.05, 0.1, 0.3])).astype(float)
    X *= {
        "indicators": lambda: 1.0,
        "counts": lambda: 1.0 + rng.poisson(2.0, X.shape),
        "numbers": lambda: rng.normal(size=X.shape),
        "heavy tails": lambda: np.exp(1.5 * rng.normal(size=X.shape)),
        "both signs": lambda: rng.choice([-1.0, 1.0, 5.0], X.shape),
    }[kind]()
    X[:3, :], X[3:6, :] = np.eye(3, p), 2.0 * np.eye(3, p, 3)
    X[:, 5], X[:, 6] = X[:, 0], X[:, 1] + X[:, 2]
    scaled = X / (np.abs(X).max(axis=0) + 1e-9)
    eta = scaled[:, :4] @ rng.normal(size=4) * rng.choice([0.0, 2.0])
    time = rng.exponential(np.exp(-eta))
    event = (rng.random(n) < 0.7) & (X[:, 8] == 0.0) & (X[:, 9] <= 0.0)
    event[6:9] = True
    if seed % 3 == 1:
        time = np.ceil(4.0 * time)
    about = {"sample_weight": rng.uniform(0.3, 3.0, n)} if seed % 3 == 2 else {}
    return X, (time, event), about


def fits(X, y, selected, **about):
    """The fit on some variables by intervals, and as it is."""
    for engine in ("certified", "exhaustive"):
        problem = read_problem(X, y, [fbed.BIC()], family="cox", engine=engine, **about)
        yield problem.model.fit(selected)


SETS = ((), (7,), (0, 3, 8, 10), (8, 9))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_intervals_hold_the_likelihood_ratio(kind, seed):
    X, y, about = hostile(kind, seed)
    for selected in SETS:
        fit, plain = fits(X, y, selected, **about)
        assert isinstance(fit, SurvivalFit)
        candidates = np.setdiff1d(np.flatnonzero(fit.model.design.width == 1), [*selected, 5, 6])
        zero, infinite = np.zeros(len(candidates)), np.full(len(candidates), np.inf)
        lower, upper = fit._narrowed(candidates, zero, infinite, zero)
        exact = plain.gains(candidates).statistic
        slack = 1e-7 * np.maximum(1.0, exact)
        assert (lower <= exact + slack).all()
        assert (upper >= exact - slack).all()


@pytest.mark.parametrize("kind", ("indicators", "counts"))
def test_words_need_no_fits(kind):
    """Nearly all intervals are as good as numbers, beside coefficients that are infinite, too."""
    width = []
    for seed in range(6):
        X, y, about = hostile(kind, seed)
        for selected in SETS:
            fit, _ = fits(X, y, selected, **about)
            candidates = np.setdiff1d(np.flatnonzero(fit.model.design.width == 1), [*selected, 5, 6])
            zero, infinite = np.zeros(len(candidates)), np.full(len(candidates), np.inf)
            lower, upper = fit._narrowed(candidates, zero, infinite, zero)
            width += (upper - lower).tolist()
    assert np.mean(np.array(width) < 1e-6) > 0.8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_removals_are_those_of_fits(kind, seed):
    X, y, about = hostile(kind, seed)
    selected = (0, 3, 8, 10, 12)
    fit, plain = fits(X, y, selected, **about)
    exact = plain.losses(np.array(selected)).statistic
    for variable, value in zip(selected, exact, strict=True):
        for enough in (0.5, np.inf):
            low, high = fit.resolve_loss(variable, enough)
            assert low - 1e-6 * max(1.0, value) <= value <= high + 1e-6 * max(1.0, value)
            assert low == high or low > enough


def test_a_model_that_is_not_settled_is_fitted(monkeypatch):
    X, y, _ = hostile("counts", 0)
    fit, plain = fits(X, y, (0, 3, 8))
    monkeypatch.setattr(survival, "settle_cox", lambda *_: (0.0, np.inf))
    for enough in (0.5, np.inf):
        low, high = fit.resolve_loss(3, enough)
        assert low == high == pytest.approx(plain.losses(np.array([3])).statistic[0], abs=1e-7)


def test_the_least_deviance_is_enclosed_from_anywhere_in_the_model():
    rng = np.random.default_rng(3)
    X, y, _ = hostile("counts", 0)
    fit, _ = fits(X, y, (0, 3, 10))
    columns, _ = fit._own_columns
    for _ in range(20):
        predictor = columns @ rng.normal(size=3)
        low, high = settle_cox(fit._fits, columns, predictor)
        assert low - 1e-7 <= fit.deviance <= high + 1e-7


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stored", (np.asarray, sparse.csc_array))
def test_searches_select_what_fitting_every_model_selects(kind, seed, stored):
    X, y, about = hostile(kind, 10 + seed)
    for options in (
        {"alpha": 0.3, "k": 1},
        {"criterion": "aic", "k": 0},
        {"alpha": 0.2, "early_dropping": False, "k": 0},
    ):
        quick, slow = (
            fbed.select(stored(X), y, family="cox", engine=engine, **about, **options)
            for engine in ("certified", "exhaustive")
        )
        assert quick.selected == slow.selected
        assert quick.n_tests == slow.n_tests
        for one, other in zip(quick.trace, slow.trace, strict=True):
            assert (one.statistic is None) == (other.statistic is None)
            if one.statistic is not None:
                assert one.statistic == pytest.approx(other.statistic, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", (19, 85, 120, 138, 144, 276))
def test_rows_that_are_equal_up_to_rounding_are_not_told_apart(seed):
    """All is explained but which of two equal rows dies first: predictors that differ in their last bit do not tell."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 20))
    X = (rng.random((n, 8)) < 0.3).astype(float)
    X = X[:, X.std(axis=0) > 0.0]
    p = X.shape[1]
    late = -(X @ 2.0 ** np.arange(p)[::-1]) + 1e-9 * rng.permutation(n)
    time, event = np.argsort(np.argsort(late)) + 1.0, rng.random(n) < 0.5
    alike = (X[:, None] == X).all(axis=2) & (time[:, None] < time) & event[:, None]
    assert alike.any()
    for fit in fits(X, (time, event), range(p)):
        assert fit.deviance > 2.0 * np.log(2.0) - 1e-6
    for fit in fits(X, (time, event), range(p - 1)):
        gain = fit.gains(np.array([p - 1])).statistic[0]
        assert fit.deviance - gain > 2.0 * np.log(2.0) - 1e-6
