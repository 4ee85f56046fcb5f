"""A few cases of the hostile search for every family; any number of them by `python -m tests.hostile`."""

from __future__ import annotations

import pytest

import hostile

CASES = 3
FOUND = {"gamma": (52,), "negative_binomial": (43,), "cox": (10061,)}
"""Seeds that once showed a defect."""

SHARED_STATE = ("mixed", "quantile", "robust")
"""Families whose fits hold on to the list of selected variables of the search, so that a grid may differ."""


@pytest.mark.parametrize("family", hostile.FAMILIES)
def test_random_cases(family):
    outcomes, differences = hostile.search(family, range(CASES), paths=family not in SHARED_STATE)
    assert differences == {}
    assert outcomes["compared"] >= CASES - 1


@pytest.mark.parametrize(("family", "seed"), [(family, seed) for family, seeds in FOUND.items() for seed in seeds])
def test_cases_that_once_differed(family, seed):
    assert hostile.search(family, range(seed, seed + 1))[1] == {}
