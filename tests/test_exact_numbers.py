"""What people are shown is exact: the same as where every model was fitted."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from fbed.families import builders
from fbed.result import exact_numbers, views


def wide(n=300, p=400, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[:, 7] = X[:, 3] + 0.3 * rng.normal(size=n)
    X[:, 9] = X[:, 3] * 2.0  # collinear with another
    X[:, 11] = 5.0
    X[:, 20] = np.exp(3 * X[:, 20])  # outliers make bounds wide
    eta = X[:, 3] - X[:, 5] + 0.5 * X[:, 8]
    return X, eta, rng


def outcome(family, eta, rng):
    n = len(eta)
    if family == "binomial":
        return (eta + rng.logistic(size=n) > 0).astype(int)
    if family == "poisson":
        return rng.poisson(np.exp(eta / 2))
    if family == "multinomial":
        return np.digitize(eta + rng.logistic(size=n), [-1, 1])
    return rng.exponential(np.exp(-eta)), rng.random(n) < 0.8


def mixed_table():
    X, eta, rng = wide(p=60)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["town"] = rng.choice(list("abcdef"), len(frame))
    frame["weak"] = np.where(rng.random(len(frame)) < 0.5, "u", np.where(eta > 0, "v", "w"))
    return frame, eta, rng


CASES = {
    "binomial": ("binomial", {}),
    "all of K": ("binomial", {"k": np.inf, "alpha": 0.1}),
    "ebic": ("binomial", {"criterion": "ebic"}),
    "fbs": ("binomial", {"early_dropping": False, "criterion": "bic"}),
    "forced": ("binomial", {"include": [100, 5], "k": 0}),
    "poisson": ("poisson", {"criterion": "bic"}),
    "multinomial": ("multinomial", {"criterion": "bic"}),
    "cox": ("cox", {"alpha": 0.01}),
}


def shown(result):
    """What a report shows of a result, as numbers."""
    known = result.candidates
    return {
        "closest": _told_apart([(j, known.upper[j]) for j in views.closest(result, 50).tolist()]),
        "ties": sorted(map(_tie, views.ties(result)), key=lambda row: (row[0], -round(row[2], 5), row[1])),
        "given the others": [known.upper[j] for j in result.variables if known.row[j] >= 0],
    }


def _told_apart(ranked):
    """Without the names of those who tie (as all do who explain everything): rounding has them in any order."""
    values = np.array([value for _, value in ranked])
    alone = [np.count_nonzero(np.abs(values - value) < 1e-6 * max(1.0, value)) == 1 for value in values]
    return [(j if known else -1, value) for (j, value), known in zip(ranked, alone, strict=True)]


def _tie(tie):
    return tie.step.number, tie.finding.variable, tie.finding.statistic, tie.behind


def same(one, other):
    for what in one:
        assert len(one[what]) == len(other[what]), what
        left, right = np.array(one[what], dtype=float), np.array(other[what], dtype=float)
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("name", CASES)
def test_what_is_shown_is_what_fitting_every_model_shows(name):
    family, options = CASES[name]
    X, eta, rng = wide(p=400 if family == "binomial" else 60)
    if family != "binomial" and "include" not in options:
        X = X[:, :60]
    y = outcome(family, eta, rng)
    result = fbed.select(X, y, family=family, **options).settled()
    slow = fbed.select(X, y, family=family, engine="exhaustive", **options)
    assert len(result.selected) >= 2
    assert len(views.closest(result, 50)) >= 50
    same(shown(result), shown(slow))


def test_groups_and_categories_are_ranked_with_the_others():
    X, eta, rng = mixed_table()
    y = outcome("binomial", eta, rng)
    options = {"groups": {"pair": ["x30", "x31"]}, "criterion": "aic"}
    result, slow = fbed.select(X, y, **options), fbed.select(X, y, engine="exhaustive", **options)
    same(shown(result.settled()), shown(slow))


@pytest.mark.parametrize("tall", [0, 20_000])
def test_a_group_of_one_dimension_is_no_column(tall, monkeypatch):
    """Its second column adds nothing to the first, or it is the first that does not."""
    monkeypatch.setattr(builders, "TALL", tall)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 8))
    X[:, 2] = 3.0 * X[:, 1]
    X[:, 3] = X[:, 0]
    y = (1.5 * X[:, 0] + 0.2 * X[:, 4] + rng.logistic(size=300) > 0).astype(int)
    options = {"groups": {"copies": [1, 2], "known": [3, 4]}, "alpha": 0.001}
    result, slow = (fbed.select(X, y, engine=engine, **options) for engine in ("certified", "exhaustive"))
    assert result.selected == slow.selected
    same(shown(result.settled()), shown(slow))


def many_levels(strength):
    """A table with categories of 25 levels, which are tested by pairs of rows; one of them may matter."""
    X, eta, rng = wide(p=50)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    codes = rng.integers(0, 25, len(frame))
    frame["shop"] = [f"s{code}" for code in codes]
    frame["noise"] = [f"t{code}" for code in rng.integers(0, 25, len(frame))]
    return frame, eta + strength * rng.normal(size=25)[codes], rng


@pytest.mark.parametrize("family", ["binomial", "multinomial", "cox"])
@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_categories_of_many_levels_are_ranked_with_the_others(family, strength, monkeypatch):
    monkeypatch.setattr(exact_numbers, "_SECONDS", 60.0)
    X, eta, rng = many_levels(strength)
    y = outcome(family, eta, rng)
    result = fbed.select(X, y, family=family, alpha=0.005)
    assert any("pairs of rows" in note for note in result.notes)
    assert ("shop" in result.selected) == (strength > 0)
    slow = fbed.select(X, y, family=family, alpha=0.005, engine="exhaustive")
    assert result.selected == slow.selected
    same(shown(result.settled()), shown(slow))


def test_sparse_tables():
    X, _, rng = wide()
    X = sparse.csc_array(np.where(np.abs(X) > 1, np.round(X), 0.0))
    y = (X[:, [3]].toarray()[:, 0] - X[:, [5]].toarray()[:, 0] + rng.logistic(size=300) > 0).astype(int)
    result, slow = fbed.select(X, y), fbed.select(X, y, engine="exhaustive")
    same(shown(result.settled()), shown(slow))


def test_the_first_of_many_columns_is_the_closest():
    """Ranked by upper bounds, most of those who came closest were others."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, size=(400, 1500))
    y = (X[:, 0] + X[:, 1] + rng.logistic(size=400) > 0).astype(int)
    result = fbed.select(X, y, criterion="ebic")
    few = views.closest(result.settled(), 50)
    slow = fbed.select(X, y, criterion="ebic", engine="exhaustive")
    share = slow.candidates.upper / views.critical_values(slow)
    left = np.flatnonzero((slow.candidates.row >= 0) & ~result.support)
    truth = left[np.argsort(-share[left])][:50]
    assert few.tolist() == truth.tolist()


def test_saved_and_pickled_results_are_exact_and_hold_no_data():
    X, eta, rng = wide()
    result = fbed.select(X, outcome("binomial", eta, rng))
    wanted = shown(result.settled())
    assert result.closer is not None
    for again in (fbed.Result.from_json(result.to_json()), pickle.loads(pickle.dumps(result))):
        assert again.closer is None
        same(shown(again), wanted)


def test_a_search_that_was_cut_short_is_left_as_it_is():
    X, eta, rng = wide()
    result = fbed.select(X, outcome("binomial", eta, rng), time_limit=0)
    assert result.closer is None


def test_time_that_runs_out_leaves_only_what_is_certain(monkeypatch):
    X, eta, rng = wide()
    y = outcome("binomial", eta, rng)
    monkeypatch.setattr(exact_numbers, "_SECONDS", 0.0)
    monkeypatch.setattr(exact_numbers, "_PART", 0.0)
    some = shown(fbed.select(X, y).settled())
    whole = shown(fbed.select(X, y, engine="exhaustive"))
    assert len(some["closest"]) < len(whole["closest"])
    np.testing.assert_allclose(some["closest"], whole["closest"][: len(some["closest"])], rtol=1e-6)


def test_old_results_let_go_of_their_data(monkeypatch):
    X, eta, rng = wide()
    y = outcome("binomial", eta, rng)
    monkeypatch.setattr(exact_numbers, "_BYTES", 3 * X.nbytes)
    results = [fbed.select(X + 0.0, y) for _ in range(6)]
    kept = [result.closer.size > 0 for result in results]
    assert kept == [False, False, True, True, True, True]
    assert results[0].settled().selected == results[0].selected
    del results
    gc.collect()
    assert fbed.select(X, y).closer is not None
    assert len(exact_numbers._kept) == 1


def test_removed_variables_are_among_those_not_selected():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 300))
    X[:, 0] = X[:, 1] + X[:, 2] + 0.6 * rng.normal(size=500)
    y = X[:, 1] + X[:, 2] + rng.normal(size=500)
    result = fbed.select(X, y, alpha=0.01)
    removed = [row.variable for row in result.trace if row.action == "remove"]
    assert removed == [0]
    assert 0 in views.closest(result.settled(), 3).tolist()
    assert "removed in step" in views.fate(result, 0)


def test_a_near_tie_of_other_degrees_of_freedom_is_behind_by_what_was_ranked():
    """By level, the smaller p-value wins, though the score of the other may be higher."""
    rng = np.random.default_rng(2)
    n = 400
    group = rng.integers(0, 6, n)
    x = rng.normal(size=n)
    effect = rng.normal(size=6)[group]
    for strength in np.linspace(0.2, 2.0, 181):
        y = strength * x + effect + rng.normal(size=n)
        result = fbed.select(pd.DataFrame({"x": x, "group": pd.Categorical(group.astype(str))}), y, k=0)
        (tie,) = [tie for tie in views.ties(result) if tie.step.number == 1]
        entered = tie.step.row
        assert tie.behind >= 0
        assert tie.behind == pytest.approx(2 * (tie.finding.log_p - entered.log_p))
        if tie.finding.score > entered.score:
            break
    else:
        pytest.fail("no case in which the other scores higher")
