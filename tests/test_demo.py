"""The demonstration shows what it says, and would say so if it did not."""

from __future__ import annotations

import numpy as np
import pytest

import fbed
from fbed.cli.command import main
from fbed.cli.demo import ALPHA, NETWORK, TARGET, Node, markov_blanket, report, simulate


def test_markov_blanket_by_hand():
    chain = {
        "a": Node({}),
        "b": Node({"a": 1.0}),
        "s": Node({}),
        "c": Node({"b": 1.0, "s": 1.0}),
        "d": Node({"c": 1.0}),
    }
    assert markov_blanket(chain, "b") == {"a", "c", "s"}
    assert markov_blanket(chain, "d") == {"c"}
    assert markov_blanket(NETWORK, TARGET) == {"parent_1", "parent_2", "child_1", "child_2", "spouse"}


def test_simulated_moments_are_those_of_the_network():
    data = simulate(NETWORK, 200_000, seed=0)
    correlation = np.corrcoef([data["spouse"], data[TARGET], data["grandparent"], data["parent_1"]])
    assert abs(correlation[0, 1]) < 0.01, "the spouse is marginally independent of the target"
    assert np.var(data[TARGET]) == pytest.approx(0.8**2 * 2 + 0.8**2 + 1, rel=0.02)
    assert correlation[2, 3] == pytest.approx(1 / np.sqrt(2), abs=0.01)


def test_the_demonstration(capsys):
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    first, second = out.split("FBED^0 selected")[1].split("FBED^1 selected")[:2]
    assert "missed: spouse" in first
    assert "not the Markov blanket" in first
    assert "exactly the Markov blanket" in second
    assert "found it." in second
    assert max(len(line) for line in out.split("\n")) <= 80


def test_it_is_no_lucky_seed():
    """FBED^1 finds the whole blanket for every seed; FBED^0 misses the spouse in about a share 1 − alpha of them."""
    truth = markov_blanket(NETWORK, TARGET)
    missed = 0
    for seed in range(30):
        data = simulate(NETWORK, 1000, seed)
        missed += "spouse" not in fbed.select(data, TARGET, alpha=ALPHA, k=0).selected
        assert truth <= set(fbed.select(data, TARGET, alpha=ALPHA, k=1).selected)
    assert missed >= 25


def test_it_does_not_claim_what_the_data_do_not_show():
    text = report(n_rows=12, seed=0)
    assert "found it" not in text
    assert "These data do not show the textbook picture" in text
