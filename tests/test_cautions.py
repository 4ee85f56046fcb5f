"""Cautions where they are due, and nowhere else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed.result.cautions import cautions
from fbed.show.report import render


def titles(result):
    return {caution.title for caution in cautions(result.settled())}


def noise(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, p)), columns=[f"x{j}" for j in range(p)])
    return X, rng


def test_nothing_is_said_where_all_is_well():
    X, rng = noise(1000, 5)
    assert titles(fbed.select(X, X["x0"] + rng.normal(size=1000))) == set()


@pytest.mark.parametrize(
    "n, said", [(60, "Few rows for so many candidates"), (200, "Effects are likely to be overstated")]
)
def test_few_rows_for_each_candidate(n, said):
    X, rng = noise(n, 10)
    result = fbed.select(X, X["x0"] + rng.normal(size=n))
    assert said in titles(result)
    assert any(said in sentence for sentence in result.cautions)
    assert said in render(result)


def test_the_rarer_class_and_events_are_what_counts():
    X, rng = noise(2000, 5)
    rare = (X["x0"] + rng.logistic(size=2000) > 4.5).astype(int)
    assert rare.sum() < 100
    result = fbed.select(X, rare)
    assert titles(result) & {"Few rows for so many candidates", "Effects are likely to be overstated"}
    assert "rows of the rarer class" in " ".join(result.cautions)
    survival = fbed.select(X, (rng.exponential(size=2000), rng.random(2000) < 0.02))
    assert "events for each coefficient" in " ".join(survival.cautions)


def test_many_candidates_at_a_lenient_level():
    X, rng = noise(4000, 150)
    y = X["x0"] + rng.normal(size=4000)
    assert "Many candidates at a lenient level" in titles(fbed.select(X, y))
    for strict in ({"alpha": 0.001}, {"criterion": "ebic"}):
        assert "Many candidates at a lenient level" not in titles(fbed.select(X, y, **strict))


def test_the_outcome_in_disguise():
    X, rng = noise(500, 4)
    y = X["x0"] + rng.normal(size=500)
    assert "A variable may be the outcome in disguise" in titles(fbed.select(X.assign(copy=3 * y + 1e-3 * X["x1"]), y))
    ill = (y > 0).astype(int)
    result = fbed.select(X.assign(score=ill + 0.2 * rng.normal(size=500)), ill)
    assert "score alone explains" in " ".join(result.cautions)
    assert "A variable may be the outcome in disguise" not in titles(fbed.select(X, y))


def test_numbers_that_may_be_codes():
    X, rng = noise(800, 3)
    code = rng.choice([20, 30, 60, 120], 800)
    y = X["x0"] + code / 20 + rng.normal(size=800)
    result = fbed.select(X.assign(building=code), y)
    assert "building (20, 30, 60, 120)" in " ".join(result.cautions)
    assert "Numbers that may be codes" not in titles(fbed.select(X.assign(building=code), y, categorical=["building"]))
    children = rng.poisson(1.5, 800)
    assert "Numbers that may be codes" not in titles(fbed.select(X.assign(children=children), y + children))
    assert "Numbers that may be codes" in titles(fbed.select(X.assign(house_type=children), y + children))


def test_more_levels_than_rows_can_bear():
    rng = np.random.default_rng(3)
    town = rng.integers(0, 60, 400)
    X = pd.DataFrame({"town": [f"t{j}" for j in town], "x": rng.normal(size=400)})
    result = fbed.select(X, rng.normal(size=60)[town] * 3 + X["x"] + rng.normal(size=400), include=["town"])
    assert "More levels than the rows can bear" in titles(result)


def test_the_terminal_and_the_command_line_tell(tmp_path, capsys):
    from fbed.cli.command import main

    X, rng = noise(60, 10)
    X.assign(y=X["x0"] + rng.normal(size=60)).to_csv(tmp_path / "data.csv", index=False)
    assert main(["select", str(tmp_path / "data.csv"), "--target", "y"]) == 0
    out, err = capsys.readouterr()
    assert "There are 6 rows for each coefficient" in err
    assert "There are 6 rows" not in out
    assert "There are 6 rows" in fbed.select(X, X["x0"] + rng.normal(size=60)).summary()
