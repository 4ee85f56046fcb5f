"""A path is its single runs, from less work."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from fbed.api.paths import Setting
from fbed.cli.command import main
from fbed.models.engines.binomial import Binomial
from fbed.search.memo import Memo
from search_cases import assert_same, single


def outcome_of(family, X, rng):
    signal = X[:, 0] - 0.7 * X[:, 1] + 0.5 * X[:, 2] * (X[:, 3] if X.shape[1] > 3 else 1)
    if family == "binomial":
        return (signal + rng.logistic(size=len(X)) > 0).astype(int)
    if family == "poisson":
        return rng.poisson(np.exp(np.clip(0.5 * signal, -3, 3)))
    return signal + rng.normal(size=len(X))


def data(family, seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(40, 150)), int(rng.integers(5, 40))
    X = rng.normal(size=(n, p)) + 0.7 * rng.normal(size=(n, 1))
    X[:, p // 2 :] = (X[:, p // 2 :] > 0.8).astype(float)
    return X, outcome_of(family, X, rng)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
@pytest.mark.parametrize("seed", range(8))
def test_every_result_is_that_of_the_single_run(family, seed):
    X, y = data(family, seed)
    grid = fbed.path(X, y, family=family)
    assert len(grid) == 32
    assert grid.status == "converged"
    for setting, result in zip(grid.settings, grid, strict=True):
        assert_same(result, single(X, y, setting, family=family))


def test_sparse_weighted_and_threaded():
    X, y = data("binomial", 5)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    X = sparse.csc_array(X * (X > 0.8))
    grid = fbed.path(X, y, sample_weight=weights, alphas=(0.01, 0.2), gammas=(None,), n_jobs=2)
    for setting, result in zip(grid.settings, grid, strict=True):
        assert_same(result, single(X, y, setting, sample_weight=weights))


def test_categories_and_forced_columns():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(120, 6)), columns=list("abcdef"))
    X["g"] = rng.choice(["x", "y", "z"], 120)
    y = (X["a"] + (X["g"] == "x") + rng.logistic(size=120) > 0).astype(int)
    options = {"include": ["d"], "exclude": ["e"]}
    grid = fbed.path(X, y, alphas=(0.05, 0.3), gammas=(0.0,), **options)
    for setting, result in zip(grid.settings, grid, strict=True):
        assert_same(result, single(X, y, setting, **options))


def test_no_set_is_fitted_twice(monkeypatch):
    """But for the final model of each result, which is fitted to be described."""
    X, y = data("binomial", 1)
    fitted, described = [], []
    fit, describe = Binomial.fit, Binomial.describe
    monkeypatch.setattr(Binomial, "fit", lambda self, s, near=None: fitted.append(frozenset(s)) or fit(self, s, near))
    monkeypatch.setattr(
        Binomial, "describe", lambda self, s, near=None: described.append(frozenset(s)) or describe(self, s, near)
    )
    fbed.path(X, y)
    for one in described:
        fitted.remove(one)
    assert len(described) == 32
    assert len(fitted) == len(set(fitted)) > 3


def test_memory_is_bounded_and_forgetting_changes_nothing(monkeypatch):
    X, y = data("binomial", 2)
    before = fbed.path(X, y, alphas=(0.05, 0.1), gammas=())
    monkeypatch.setattr("fbed.api.problem.Memo", lambda p, n: Memo(p, n, budget=1))
    for one, other in zip(fbed.path(X, y, alphas=(0.05, 0.1), gammas=()), before, strict=True):
        assert_same(one, other)


EVERYBODY = np.arange(1000)


def test_a_memo_keeps_within_its_budget():
    memo = Memo(n_variables=1000, n_rows=10, budget=5 * 32 * 1000)
    for i in range(50):
        memo.gains([i], EVERYBODY)
    kept = memo._gains._kept
    assert len(kept) == 5
    assert frozenset([49]) in kept
    assert memo.gains([49], EVERYBODY) is memo.gains([49], EVERYBODY)


def test_one_result_by_its_setting():
    X, y = data("gaussian", 0)
    grid = fbed.path(X, y, alphas=(0.05,), gammas=(None, 0.5), ks=(0, math.inf))
    assert grid.settings[0] == Setting("lr", 0.05, 0)
    assert grid.get(k=math.inf, alpha=0.05) is grid[1]
    assert grid.get(k=None, alpha=0.05) is grid[2]
    assert grid.get(k=0) is grid[3]
    assert grid.get(k=0, gamma=0.5) is grid[6]
    with pytest.raises(KeyError, match="no Setting"):
        grid.get(k=1, alpha=0.05)


def test_json_and_back(tmp_path):
    X, y = data("binomial", 4)
    grid = fbed.path(X, y, alphas=(0.05,), gammas=(None,), ks=(0, math.inf))
    back = fbed.PathResult.from_json(grid.to_json(tmp_path / "path.json"))
    assert back.settings == grid.settings
    assert back.seconds == grid.seconds
    for one, other in zip(back, fbed.PathResult.from_json(tmp_path / "path.json"), strict=True):
        assert_same(one, other)
    with pytest.raises(fbed.InvalidInput, match="not a path"):
        fbed.PathResult.from_json(grid[0].to_json())


def test_table_and_summary():
    X, y = data("gaussian", 0)
    grid = fbed.path(X, y, alphas=(0.05,), gammas=(None,), ks=(1,))
    frame = grid.to_frame()
    assert frame["algorithm"].tolist() == ["FBED^1", "FBS", "FBED^1", "FBS"]
    assert frame["n_selected"].tolist() == [len(result.selected) for result in grid]
    lines = str(grid).splitlines()
    assert lines[0].startswith("4 settings in ")
    assert len(lines) == 2 + 1 + 4
    assert "default" in lines[-1]
    assert max(map(len, lines)) <= 80


def test_time_limit_keeps_what_was_reached():
    X, y = data("binomial", 0)
    grid = fbed.path(X, y, time_limit=0)
    assert grid.status == "time_limit"
    assert len(grid) == len(grid.settings) == 1
    assert grid[0].selected == ()


def test_interrupt_keeps_what_was_found():
    X, y = data("binomial", 0)
    scans = 0

    def listen(progress):
        nonlocal scans
        scans += 1
        if scans == 7:
            raise KeyboardInterrupt

    grid = fbed.path(X, y, progress=listen)
    assert grid.status == "interrupted"
    assert [result.status for result in grid[:-1]] == ["converged"] * (len(grid) - 1)
    assert sum(len(result.trace) for result in grid) == 7


@pytest.mark.parametrize(
    "options, message",
    [
        ({"alphas": (), "gammas": ()}, "grid is empty"),
        ({"alphas": 0.05}, "alphas must be several numbers"),
        ({"alphas": (1.5,)}, "strictly between 0 and 1"),
        ({"gammas": (2,)}, "gamma"),
        ({"ks": (-1,)}, "number of extra runs"),
        ({"family": "spearman"}, "compares likelihoods"),
        ({"include": [99]}, "99"),
    ],
)
def test_refused(options, message):
    X, y = data("gaussian", 0)
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.path(X, y, **options)


def test_refuses_a_graph_and_unknown_arguments():
    from fbed.graphs import DAG

    with pytest.raises(fbed.InvalidInput, match="a graph needs none"):
        fbed.path(DAG([("a", "b")]), "b")
    with pytest.raises(TypeError, match="alpha"):
        fbed.path(np.eye(5), np.arange(5.0), alpha=0.05)


def test_command(tmp_path, capsys):
    X, y = data("binomial", 0)
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    arguments = ["path", str(tmp_path / "data.csv"), "--target", "y", "--alphas", "0.05", "--gammas", "default", "0"]
    assert main([*arguments, "-k", "0", "inf", "--no-fbs"]) == 0
    table = capsys.readouterr().out
    assert table.startswith("6 settings in ")
    assert main([*arguments, "-k", "1", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert [setting["value"] for setting in plain["settings"]] == [0.05, 0.05, None, None, 0, 0]
    assert plain["results"][0]["selected"] == list(
        single(pd.DataFrame(X).add_prefix("x"), y, Setting("lr", 0.05, 1)).selected
    )
    assert main([*arguments, "--alphas", "2"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["path", str(tmp_path / "data.csv"), "--target", "y", "--gammas", "big"]) == 2
    assert "'default'" in capsys.readouterr().err


def test_names_in_the_table_are_whole_or_counted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 6)), columns=[f"measure number {j}" for j in range(5)] + ["long" * 20])
    grid = fbed.path(X, X.sum(axis=1) + 0.1 * rng.normal(size=200), alphas=(0.01,), gammas=(), ks=(0,), fbs=False)
    (line,) = grid.summary().splitlines()[3:]
    first = str(grid[0].selected[0])
    assert len(line) <= 80
    assert line.endswith(", and 5 more")
    assert first in line or "…" in line
    few = fbed.path(X.iloc[:, :1], X.iloc[:, 0] + rng.normal(size=200), alphas=(0.01,), gammas=(), ks=(0,), fbs=False)
    assert few.summary().endswith("  measure number 0")
