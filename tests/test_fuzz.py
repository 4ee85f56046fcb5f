"""A few hundred mutants of every kind; ``python -m tests.fuzz`` makes as many as one likes."""

from __future__ import annotations

import random
import time

import pytest
from tests.fuzz import doors, mutants
from tests.fuzz.__main__ import KINDS, Hang, fuzz, patience

NUMBER = 40  # of each kind


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_input_is_refused_plainly(kind):
    complaints = fuzz(NUMBER, 0, [kind])
    assert not complaints, "\n".join(complaints.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_can_be_made_again_from_its_number(kind):
    make = KINDS[kind][0]
    assert repr(make(random.Random("3")))[:200] == repr(make(random.Random("3")))[:200]


def test_most_mutants_differ_from_what_they_came_from():
    rng = random.Random(0)
    seed = b"a,b,y\n1,2,3\n" * 5
    assert sum(mutants.of_bytes(rng, seed) != seed for _ in range(200)) > 150
    text = '{"a": [1, 2, {"b": null}], "c": "d"}'
    assert sum(mutants.of_json(rng, text) != text.encode() for _ in range(200)) > 150


def test_what_goes_wrong_is_noticed(monkeypatch):
    def broken(*arguments, **options):
        raise KeyError("a bug")

    monkeypatch.setitem(doors._DOORS, "select", broken)
    assert any("a bug" in told for told in fuzz(20, 0, ["doors"]).values())


def test_a_hang_is_noticed():
    with pytest.raises(Hang), patience(0.05):
        time.sleep(10)
