"""Laws that hold for every family: the answer depends on the data, not on how they are presented."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fbed
from family_cases import CASES, bound, columns, predictors, signal


def dataset(case, seed=0, n=90):
    rng = np.random.default_rng(seed)
    frame = predictors(rng, n, case.predictors)
    y, extras = case.draw(rng, signal(frame))
    return frame, y, extras


def taken(y, rows):
    return tuple(part[rows] for part in y) if isinstance(y, tuple) else y[rows]


def assert_same(found, expected, tolerance=1e-8):
    np.testing.assert_array_equal(found.df, expected.df)
    np.testing.assert_allclose(found.statistic, expected.statistic, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.log_p, expected.log_p, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_batched_is_one_by_one_in_any_order(name):
    case = CASES[name]
    frame, y, extras = dataset(case)
    fit = bound(case, frame, y, extras).fit([0])
    candidates = np.array([1, 2, 3, 4, 5])
    together = fit.gains(candidates)
    for i, candidate in enumerate(candidates):
        assert_same(fit.gains(np.array([candidate])), together[[i]])
    order = np.array([3, 0, 4, 2, 1])
    assert_same(fit.gains(candidates[order]), together[order])


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].predictors != "codes"])
def test_units_change_nothing(name):
    case = CASES[name]
    frame, y, extras = dataset(case)
    scaled = frame.assign(x0=1e6 - 1e4 * frame["x0"], x1=1e-9 * frame["x1"], x2=-frame["x2"])
    for selected in ([], [0]):
        candidates = np.array([1, 2, 3])
        expected = bound(case, frame, y, extras).fit(selected).gains(candidates)
        assert_same(
            bound(case, scaled, y, extras).fit(selected).gains(candidates), expected, 1e-5 if case.slow else 1e-7
        )


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_the_rows_changes_nothing(name):
    case = CASES[name]
    frame, y, extras = dataset(case)
    rows = np.random.default_rng(5).permutation(len(frame))
    shuffled = {key: value[rows] for key, value in extras.items()}
    expected = bound(case, frame, y, extras).fit([0]).gains(np.arange(1, 6))
    found = bound(case, frame.iloc[rows], taken(y, rows), shuffled).fit([0]).gains(np.arange(1, 6))
    assert_same(found, expected, 1e-5 if case.slow else 1e-7)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].weighted])
def test_a_weight_is_a_number_of_rows(name):
    case = CASES[name]
    frame, y, extras = dataset(case)
    weights = np.random.default_rng(3).integers(1, 4, len(frame)).astype(float)
    rows = np.repeat(np.arange(len(frame)), weights.astype(int))
    repeated = {key: value[rows] for key, value in extras.items()}
    expected = bound(case, frame.iloc[rows], taken(y, rows), repeated)
    found = bound(case, frame, y, extras, weights)
    assert found.n == pytest.approx(expected.n)
    for selected in ([], [0, 4]):
        candidates = np.array([j for j in (1, 2, 3, 4, 5) if j not in selected])
        assert_same(found.fit(selected).gains(candidates), expected.fit(selected).gains(candidates), 1e-7)
    assert_same(found.fit([0, 4]).losses(np.array([0, 4])), expected.fit([0, 4]).losses(np.array([0, 4])), 1e-7)


@pytest.mark.parametrize("name", CASES)
def test_what_adds_nothing_has_statistic_0(name):
    case = CASES[name]
    frame, y, extras = dataset(case)
    frame = frame.assign(constant=1, copy=frame["x0"])
    found = bound(case, frame, y, extras).fit([0]).gains(np.array([6, 7]))
    assert found.statistic.tolist() == [0.0, 0.0]
    assert found.log_p.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", CASES)
def test_a_brute_force_search_selects_the_same(name):
    case = CASES[name]
    alpha = 0.1
    for seed in (0,) if case.predictors == "codes" or case.slow else (0, 1):
        frame, y, extras = dataset(case, seed)
        found = fbed.select(frame, y, family=case.family, alpha=alpha, k=1, **case.options, **extras)
        expected = brute_force(case, frame, y, extras, alpha)
        assert list(found.indices) == expected[0], seed
        assert found.n_tests.total == expected[1]


def brute_force(case, frame, y, extras, alpha):
    """FBED^1 in the words of the paper, with the reference as its test."""
    selected, tests = [], 0

    def log_p(j, given):
        nonlocal tests
        tests += 1
        return case.reference(columns(frame, given), columns(frame, [*given, j]), y, extras)[2]

    for _ in range(2):
        before = len(selected)
        remaining = [j for j in range(frame.shape[1]) if j not in selected]
        while remaining:
            values = {j: log_p(j, selected) for j in remaining}
            passing = [j for j in remaining if values[j] < np.log(alpha)]
            if not passing:
                break
            best = min(passing, key=values.get)
            selected.append(best)
            remaining = [j for j in passing if j != best]
        if len(selected) == before:
            break
    while selected:
        values = {j: log_p(j, [s for s in selected if s != j]) for j in selected}
        worst = max(selected, key=values.get)
        if values[worst] < np.log(alpha):
            break
        selected.remove(worst)
    return selected, tests


@pytest.mark.parametrize("name", CASES)
def test_the_result_can_be_read_and_saved(name):
    case = CASES[name]
    frame, y, extras = dataset(case)
    result = fbed.select(frame, y, family=case.family, alpha=0.1, **case.options, **extras)
    again = fbed.Result.from_json(result.to_json())
    assert again.selected == result.selected
    assert result.family in result.summary()
    assert np.isfinite(result.model.coefficients).all()


def test_column_names_stand_for_arrays():
    case = CASES["cox entry"]
    frame, (time, event), extras = dataset(case)
    table = frame.assign(time=time, event=event, stratum=extras["strata"], start=extras["entry"])
    named = fbed.select(table, ("time", "event"), strata="stratum", entry="start", alpha=0.1)
    structured = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
    given = fbed.select(frame, structured, alpha=0.1, **extras)
    assert named.family == given.family == "cox"
    assert named.selected == given.selected
    assert named.feature_names == tuple(frame.columns)
    assert named.n == event.sum()


def test_arrow_and_polars_columns_as_extras():
    polars = pytest.importorskip("polars")
    case = CASES["poisson"]
    frame, y, extras = dataset(case)
    table = polars.from_pandas(frame.assign(y=y, time=extras["exposure"]))
    named = fbed.select(table, "y", family="poisson", exposure="time", alpha=0.1)
    assert named.selected == fbed.select(frame, y, family="poisson", alpha=0.1, **extras).selected


def test_clusters_may_be_text():
    case = CASES["mixed"]
    frame, y, extras = dataset(case)
    text = pd.Series(extras["cluster"]).map(lambda c: f"subject {c}")
    named = fbed.select(frame.assign(who=text), y, family="mixed", cluster="who", alpha=0.1)
    assert named.selected == fbed.select(frame, y, family="mixed", alpha=0.1, **extras).selected
