"""Trials are the same as a row a trial, whatever is asked of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from fbed.families import builders
from fbed.models.engines.trials import Halves, Trials
from problem_cases import read_problem


def hostile(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, dict]:
    """Words, numbers, a copy, a category with rare levels; from one trial to many; offsets and weights."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([12, 40, 120]))
    X = (rng.random((n, 6)) < 0.3) * (1.0 + rng.poisson(1.0, (n, 6)))
    X[:, 4] = X[:, 0]
    table = pd.DataFrame(X, columns=list("abcdef"))
    table["number"] = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    table["group"] = pd.Categorical(rng.integers(0, 12, n).astype(str))
    trials = rng.integers(1, [2, 4, 30][seed % 3] + 1, n)
    eta = 0.7 * X[:, 0] - 0.5 * X[:, 1] + rng.choice([-2.0, 0.0])
    y = rng.binomial(trials, 1.0 / (1.0 + np.exp(-eta)))
    about = {}
    if seed % 4 == 1:
        about["offset"] = rng.normal(size=n)
    if seed % 4 == 2:
        about["sample_weight"] = rng.integers(1, 4, n)
    return table, y, trials, about


def one_by_one(table, y, trials, about):
    """A row a trial."""
    rows = np.repeat(np.arange(len(y)), trials)
    outcome = np.concatenate([np.repeat([1, 0], [won, of - won]) for won, of in zip(y, trials, strict=True)])
    return table.iloc[rows].reset_index(drop=True), outcome, {name: value[rows] for name, value in about.items()}


OPTIONS = ({"alpha": 0.1, "k": 1}, {"criterion": "bic", "k": 0}, {"alpha": 0.2, "early_dropping": False})


@pytest.mark.parametrize("engine", ("certified", "exhaustive"))
@pytest.mark.parametrize("seed", range(12))
def test_trials_are_the_same_as_a_row_each(seed, engine):
    table, y, trials, about = hostile(seed)
    rows, outcome, about_rows = one_by_one(table, y, trials, about)
    if outcome.min() == outcome.max():
        pytest.skip("one class only")
    for options in OPTIONS:
        found = fbed.select(table, y, family="binomial", trials=trials, engine=engine, **about, **options)
        apart = fbed.select(rows, outcome, family="binomial", **about_rows, **options)
        assert found.selected == apart.selected
        assert found.n_tests == apart.n_tests
        for one, other in zip(found.trace, apart.trace, strict=True):
            assert (one.statistic is None) == (other.statistic is None)
            if one.statistic is not None:
                assert one.statistic == pytest.approx(other.statistic, rel=1e-6, abs=1e-6)
        told, other = found.model, apart.model
        assert told.separated == other.separated
        assert told.null_deviance - told.deviance == pytest.approx(other.null_deviance - other.deviance, abs=1e-6)
        if not told.separated:
            assert told.coefficients == pytest.approx(other.coefficients, rel=1e-5, abs=1e-7)
            assert told.standard_errors == pytest.approx(other.standard_errors, rel=1e-5)


def test_deviances_are_measured_from_a_probability_for_every_row():
    table, y, trials, _ = hostile(3)
    found = fbed.select(table, y, family="binomial", trials=trials, criterion="bic", include=["a", "b"])
    eta = found.model.coefficients[0] + sum(
        c * table[t].to_numpy() for t, c in zip(found.model.terms[1:], found.model.coefficients[1:], strict=True)
    )
    mean, part = 1.0 / (1.0 + np.exp(-eta)), y / trials
    with np.errstate(all="ignore"):
        won = np.where(y > 0, y * np.log(part / mean), 0.0)
        lost = np.where(y < trials, (trials - y) * np.log((1.0 - part) / (1.0 - mean)), 0.0)
    assert found.model.deviance == pytest.approx(2.0 * float((won + lost).sum()), rel=1e-6)


def test_words_with_trials_take_the_road_of_binary_outcomes():
    table, y, trials, _ = hostile(0)
    words = sparse.csc_array(table[list("abcdef")].to_numpy())
    problem = read_problem(words, y, [fbed.BIC()], family="binomial", trials=trials + 1)
    assert isinstance(problem.model, Trials)


def test_halves_add_up_to_rows():
    table, y, trials, _ = hostile(5)
    problem = read_problem(table, y, [fbed.BIC()], family="binomial", trials=trials)
    halves = Halves.of(problem.design, y / trials, trials.astype(float), None)
    model = Trials(halves)
    assert model.by_row(halves.design.weights) == pytest.approx(trials)
    assert model.by_row(halves.design.weights * halves.y) == pytest.approx(y)
    scores, _ = model.fit(()).row_scores()
    assert model.by_row(scores[:, 0]) == pytest.approx(y - trials * y.sum() / trials.sum(), abs=1e-9)


@pytest.mark.parametrize("engine", ["certified", "exhaustive"])
@pytest.mark.parametrize("tall", [0, 20_000])
def test_pairs_of_rows_are_pairs_of_trials(tall, engine, monkeypatch):
    """Beside a category of many levels: however many rows there are, and whoever fits them."""
    monkeypatch.setattr(builders, "TALL", tall)
    rng = np.random.default_rng(6)
    shop = rng.integers(0, 40, 150)
    table = pd.DataFrame({"shop": [f"s{code}" for code in shop], "x": rng.normal(size=150)})
    trials = rng.integers(1, 6, 150)
    eta = 0.5 * table["x"].to_numpy() + 0.7 * rng.normal(size=40)[shop]
    y = rng.binomial(trials, 1.0 / (1.0 + np.exp(-eta)))
    rows, outcome, _ = one_by_one(table, y, trials, {})
    options = {"family": "binomial", "alpha": 0.3, "engine": engine}
    found, apart = fbed.select(table, y, trials=trials, **options), fbed.select(rows, outcome, **options)
    assert any("pairs of rows" in note for note in found.notes)
    for one, other in zip(found.trace, apart.trace, strict=True):
        assert (one.variable, one.tested, one.n_dropped) == (other.variable, other.tested, other.n_dropped)
        if one.statistic is not None:
            assert one.statistic == pytest.approx(other.statistic, rel=1e-6)
