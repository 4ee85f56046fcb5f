"""Sets that do as well: exact tables whose equivalences are known, counting by enumeration, and data."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed.inference.equivalents import count_signatures, listed_sets


def exact_table(n: int = 4000) -> pd.DataFrame:
    """Every cell with the count of its probability: y depends on x and w; copies, a recoding and a noisy copy."""
    rows = []
    for x, w, flip in itertools.product(range(3), range(2), range(10)):
        rate = [0.2, 0.5, 0.8][x] * [0.6, 1.2][w]
        noisy = x if flip < 8 else (x + 1) % 3
        weight = n / 60
        ones = round(rate * weight)
        rows += [(x, w, noisy, 1)] * ones + [(x, w, noisy, 0)] * (round(weight) - ones)
    table = pd.DataFrame(rows, columns=["x", "w", "noisy", "y"]).astype({"x": str, "w": str, "noisy": str})
    table["copy"] = table["x"]
    table["recoded"] = table["x"].map({"0": "c", "1": "a", "2": "b"})
    table["other"] = np.arange(len(table)) % 2
    return table.astype({"other": str})


@pytest.mark.parametrize("family", ["binomial", "gsquare"])
def test_copies_and_recodings_are_equivalent_and_noisy_copies_are_not(family):
    found = fbed.equivalents(exact_table(), "y", family=family)
    assert set(found.selected) == {"x", "w"}
    assert set(found.classes["x"]) == {"copy", "recoded"}
    assert found.classes["w"] == ()
    assert found.n_signatures == 3
    assert {frozenset(names) for names, _ in found.signatures} == {
        frozenset({"x", "w"}),
        frozenset({"copy", "w"}),
        frozenset({"recoded", "w"}),
    }
    deviances = [deviance for _, deviance in found.signatures]
    np.testing.assert_allclose(deviances, deviances[0], rtol=1e-9)


def test_rescaled_column_is_equivalent_and_a_noisy_one_is_not():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(2000, 3)), columns=list("abc"))
    X["scaled"] = -5 * X["a"] + 3
    X["noisy"] = X["a"] + 0.3 * rng.normal(size=2000)
    outcomes = {
        "gaussian": X["a"] + X["b"] + rng.normal(size=2000),
        "poisson": rng.poisson(np.exp(0.5 * X["a"] + 0.5 * X["b"])),
        "cox": (rng.exponential(np.exp(-X["a"] - X["b"])), rng.random(2000) < 0.7),
    }
    for family, y in outcomes.items():
        found = fbed.equivalents(X, y, family=family, n_jobs=2, alpha=0.01)
        assert found.classes["a"] == ("scaled",)
        assert found.classes["b"] == ()
        p = next(each for each in found.replacements if each.by == "scaled")
        assert p.p_variable == p.p_by == 1.0


def test_replacements_by_hand():
    """Each of the three tests, asked of `select` one by one."""
    rng = np.random.default_rng(3)
    base = rng.normal(size=(150, 3))
    X = np.column_stack([base, base[:, 0] + 0.05 * rng.normal(size=150), base[:, 1] + 0.5 * rng.normal(size=150)])
    y = base[:, 0] + base[:, 1] + rng.normal(size=150)
    found = fbed.equivalents(X, y)

    def p_value(candidate: int, given: list[int]) -> float:
        others = [j for j in range(5) if j != candidate and j not in given]
        result = fbed.select(X, y, include=given, exclude=others, alpha=1 - 1e-12, backward=False)
        return result.trace[0].p_value

    expected = {}
    for x in found.selected:
        rest = [j for j in found.selected if j != x]
        expected[x] = tuple(
            z
            for z in range(5)
            if z not in found.selected
            and p_value(z, rest) < 0.05
            and p_value(x, [*rest, z]) >= 0.05
            and p_value(z, [*rest, x]) >= 0.05
        )
    assert found.classes == expected
    assert any(expected.values())


@pytest.mark.parametrize("seed", range(30))
def test_sets_are_counted_as_enumeration_counts_them(seed):
    rng = np.random.default_rng(seed)
    classes = {
        v: tuple(sorted({int(j) for j in rng.integers(10, 16, rng.integers(0, 4))})) for v in range(rng.integers(1, 5))
    }
    choices = [(v, *others) for v, others in classes.items()]
    every = {frozenset(c) for c in itertools.product(*choices) if len(set(c)) == len(c)}
    assert count_signatures(classes) == (len(every), True)
    assert {frozenset(s) for s in listed_sets(classes, 10**6)} == every
    assert len(listed_sets(classes, 2)) == min(2, len(every))


def test_many_sets_are_counted_without_listing_them():
    classes = {v: tuple(range(100 * v + 100, 100 * v + 199)) for v in range(12)}
    assert count_signatures(classes) == (100**12, True)
    assert len(listed_sets(classes, 5)) == 5


def test_nothing_selected_and_nothing_else():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    empty = fbed.equivalents(X, rng.normal(size=60), alpha=1e-9)
    assert empty.selected == ()
    assert empty.n_signatures == 1
    assert "nothing to show" in empty.summary()
    alone = fbed.equivalents(X[:, :1], X[:, 0] + rng.normal(size=60))
    assert alone.classes == {0: ()}
    with pytest.raises(fbed.InvalidInput, match="level is a significance level"):
        fbed.equivalents(X, X[:, 0], level=0)
    with pytest.raises(fbed.InvalidInput, match="limit"):
        fbed.equivalents(X, X[:, 0], limit=0)


def test_shown_saved_and_on_the_command_line(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    from fbed.cli.command import main

    table = exact_table(600)
    found = fbed.equivalents(table, "y", include=["w"])
    assert json.loads(found.to_json())["n_signatures"] == found.n_signatures
    assert "Borboudakis" in found.report(tmp_path / "r.html").read_text()
    assert found.plot.classes() is not None
    table.to_csv(tmp_path / "d.csv", index=False)
    line = ["equivalents", str(tmp_path / "d.csv"), "--target", "y", "--categorical", "x", "copy", "noisy", "-q"]
    assert main(line) == 0
    assert "replaced by" in capsys.readouterr().out
