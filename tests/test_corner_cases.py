"""Tables of `python -m tests.corner_cases` on which an engine was wrong, or ended with an exception."""

from __future__ import annotations

import pytest

from corner_cases import by_which_engine, compared


@pytest.mark.parametrize(
    "seed, family",
    [
        (1057, "binomial"),  # removing a column that explains its rows was said to cost what its coefficient tells
        (1323, "binomial"),  # forced columns that explain the same rows
        (5641, "binomial"),  # a near copy that explains a row of little weight: fits gained 181 by rounding
        (5294, "trials"),  # a fit that has ended, but seems to be far from its maximum in a basis of rounding
        (176, "poisson"),  # curvatures of an outlier in which damping is lost
    ],
)
def test_engines_agree(seed, family, monkeypatch):
    by_which_engine(seed, monkeypatch.setattr)
    assert compared(seed, family) is None


@pytest.mark.parametrize("family", ["poisson", "binomial", "trials", "cox"])
@pytest.mark.parametrize("seed", range(20))
def test_a_few_of_every_kind(seed, family, monkeypatch):
    by_which_engine(seed, monkeypatch.setattr)
    assert compared(seed, family) is None
