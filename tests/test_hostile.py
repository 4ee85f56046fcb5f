"""A few cases of the hostile search for every family; any number of them by `python -m tests.hostile`."""

from __future__ import annotations

import pytest

import hostile

CASES = 3
FOUND = {
    "gamma": (52,),
    "negative_binomial": (43, 10001),
    "mixed": (10002,),
    "cox": (10061,),
    "multinomial": (1000035, 1000809),
}
"""Seeds that once showed a defect."""


@pytest.mark.parametrize("family", hostile.FAMILIES)
def test_random_cases(family):
    outcomes, differences = hostile.search(family, range(CASES), paths=True)
    assert differences == {}
    assert outcomes["compared"] >= CASES - 1


@pytest.mark.parametrize(("family", "seed"), [(family, seed) for family, seeds in FOUND.items() for seed in seeds])
def test_cases_that_once_differed(family, seed):
    assert hostile.search(family, range(seed, seed + 1))[1] == {}
