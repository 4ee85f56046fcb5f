"""A path is its single runs, for every family, whichever way the grid goes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fbed
from family_cases import CASES, bound, predictors, signal
from search_cases import EVERY_FAMILY, assert_same, many_columns, single

FALLING, RISING = (0.5, 0.1, 0.001), (0.001, 0.1, 0.5)


def test_a_fit_is_no_part_of_the_search_that_asked_for_it():
    """The search with the lower level meets sets at which the one before went on to other sets."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 5))
    y = X[:, 0] + X[:, 1] + rng.normal(size=100)
    data = {"family": "mixed", "cluster": np.repeat(np.arange(20), 5)}
    grid = fbed.path(X, y, alphas=[0.5, 0.001], gammas=[], ks=[0], fbs=False, **data)
    assert grid.get(k=0, alpha=0.001).selected == fbed.select(X, y, alpha=0.001, k=0, **data).selected == (0, 1)


@pytest.mark.parametrize("name", CASES)
def test_a_list_that_changes_later_does_not_change_a_fit(name):
    case = CASES[name]
    rng = np.random.default_rng(2)
    frame = predictors(rng, 60, case.predictors)
    y, extras = case.draw(rng, signal(frame))
    selected, variables = [0, 1], np.array([0, 1])
    fit = bound(case, frame, y, extras).fit(selected)
    expected = bound(case, frame, y, extras).fit((0, 1)).losses(variables).statistic
    selected[:] = [2, 4, 5]
    assert fit.losses(variables).statistic == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(fit.gains(np.array([2, 4])).statistic).all()


@pytest.mark.parametrize("name", EVERY_FAMILY)
@pytest.mark.parametrize("alphas", [FALLING, RISING], ids=["falling", "rising"])
def test_every_result_is_that_of_the_single_run(name, alphas):
    case = EVERY_FAMILY[name]
    seed = int(alphas == FALLING)
    frame, y, extras = many_columns(case, seed, noise=1 if case.slow else 5)
    options = {"family": case.family, **case.options, **extras}
    gammas = (1.0, 0.0, None) if not callable(case.family) and case.likelihood else ()
    grid = fbed.path(frame, y, alphas=alphas, gammas=gammas, ks=(math.inf, 0, 1), **options)
    assert len({result.selected for result in grid}) > 1  # else there is nothing to mix up
    for setting, result in zip(grid.settings, grid, strict=True):
        assert_same(result, single(frame, y, setting, **options))
