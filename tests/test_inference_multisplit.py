"""p-values over many splits: combined as in the reference implementations, equal to a loop by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fbed
from fbed.inference import aggregation
from fbed.inference.aggregation import combined, combined_sparse, discoveries, interval
from fbed.inference.resamples import halves, seeds, units_of


def data(n: int = 160, p: int = 12, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, 3] - X[:, 7 % p] + rng.normal(size=n)


def made_up_p_values() -> np.ndarray:
    j, b = np.arange(1, 9)[None, :], np.arange(1, 101)[:, None]
    return np.abs(np.sin(b * j * 0.7)) ** (6 / j) * 0.3


def test_p_values_are_combined_as_the_definition_says():
    p_values = made_up_p_values()
    n, out = len(p_values), []
    for column in p_values.T:
        quantiles = [np.quantile(column, g, method="inverted_cdf") / g for g in np.arange(5, 101) / 100]
        out.append(min(1.0, (1 - math.log(0.05)) * min(quantiles)))
    np.testing.assert_allclose(combined(p_values), out, rtol=1e-12)
    some = p_values[:, 0][p_values[:, 0] < 0.01]
    whole = np.concatenate([some, np.ones(n - len(some))])
    assert combined_sparse(some, n) == combined(whole[:, None])[0]
    assert combined(p_values[:1]) == pytest.approx(p_values[0])  # a single split pays nothing


# hidimstat 0.4.0, quantile_aggregation(gamma=0.05, adaptive=True), with a row of zeros put before the others. It
# divides the (j + 1)-th smallest p-value by j/n, where the paper has the j-th; the additional zero makes up for that.
HIDIMSTAT = [8.490869979971767e-06, 0.009225157133362994, 0.17075105693825265, 0.43769409298167333, 1.0, 1.0, 1.0, 1.0]


def test_p_values_are_those_of_hidimstat():
    np.testing.assert_allclose(combined(made_up_p_values())[:4], np.array(HIDIMSTAT)[:4] * 100 / 101, rtol=1e-10)
    module = pytest.importorskip("hidimstat.statistical_tools.aggregation")
    theirs = module.quantile_aggregation(np.vstack([np.zeros(8), made_up_p_values()]), gamma=0.05, adaptive=True)
    np.testing.assert_allclose(theirs, HIDIMSTAT, rtol=1e-10)


def test_interval_is_what_the_combined_p_value_does_not_reject():
    i = np.arange(1, 31)
    estimates, errors, degrees = 1 + 0.3 * np.sin(i * 1.7), 0.2 + 0.05 * np.cos(i), np.full(30, 47.0)
    low, high = interval(estimates, errors, degrees, np.ones(30), 40)

    def p_value(value: float) -> float:
        return combined_sparse(2 * stats.t.sf(np.abs(estimates - value) / errors, degrees), 40)

    assert p_value(low - 1e-6) < 0.05 < p_value(low + 1e-6)
    assert p_value(high + 1e-6) < 0.05 < p_value(high - 1e-6)
    wider = interval(estimates, errors, degrees, np.full(30, 3.0), 40)
    assert wider[0] < low < high < wider[1]
    assert interval(estimates[:1], errors[:1], degrees[:1], np.ones(1), 40) == (-math.inf, math.inf)
    alone = interval(np.array([2.0]), np.array([0.5]), np.array([10.0]), np.ones(1), 1)
    np.testing.assert_allclose(alone, 2 + 0.5 * stats.t.ppf([0.025, 0.975], 10))


def test_interval_is_that_of_hdi(monkeypatch):
    """R's hdi leaves out the smallest quantile, and finds the ends by bisection."""
    monkeypatch.setattr(aggregation, "_first", lambda n, smallest: 3)
    i = np.arange(1, 31)
    found = interval(1 + 0.3 * np.sin(i * 1.7), 0.2 + 0.05 * np.cos(i), np.full(30, 47.0), np.ones(30), 40)
    np.testing.assert_allclose(found, (0.6274655413, 1.319873696), atol=1e-7)


def test_discoveries_by_hand():
    p_values = np.array([0.001, 0.2, 0.004, 1.0, 0.03])
    weight = sum(1 / i for i in range(1, 6))
    for rate in (0.01, 0.05, 0.2):
        ranked = np.sort(p_values)
        passing = [i for i in range(1, 6) if ranked[i - 1] <= i * rate / weight]
        cut = ranked[passing[-1] - 1] if passing else -1.0
        np.testing.assert_array_equal(discoveries(p_values) <= rate, p_values <= cut)


def test_p_values_of_one_are_no_discoveries():
    """Among a thousand candidates i·q exceeds 1, which a p-value that was cut at 1 would pass."""
    p_values = np.ones(1000)
    p_values[:2] = 1e-5, 0.9
    q_values = discoveries(p_values)
    assert q_values[0] == pytest.approx(1e-5 * sum(1 / i for i in range(1, 1001)))
    assert (q_values[1:] == 1.0).all()


@pytest.mark.parametrize("family", ["gaussian", "binomial", "cox"])
def test_p_values_are_those_of_a_loop_by_hand(family):
    X, y = data()
    rng = np.random.default_rng(3)
    outcome = {
        "gaussian": y,
        "binomial": (y > 0).astype(int),
        "cox": (rng.exponential(np.exp(-y)), rng.random(len(y)) < 0.8),
    }[family]

    def part(rows):
        return tuple(v[rows] for v in outcome) if isinstance(outcome, tuple) else outcome[rows]

    found = fbed.multisplit(X, outcome, n_resamples=6, random_state=2)
    p_values = np.ones((6, X.shape[1]))
    for b, seed in enumerate(seeds(2, 6)[1]):
        first, second = halves(units_of(len(X)), seed)
        chosen = fbed.select(X[first.rows], part(first.rows)).selected
        for j in chosen:
            others = [i for i in chosen if i != j]
            gone = [i for i in range(X.shape[1]) if i not in chosen]
            alone = fbed.select(X[second.rows], part(second.rows), include=others, exclude=gone, alpha=1 - 1e-12)
            p_values[b, j] = min(1.0, math.exp(alone.trace[0].log_p) * len(chosen))
    np.testing.assert_allclose(found.p_values, combined(p_values), rtol=1e-6)
    again = fbed.multisplit(X, outcome, n_resamples=6, random_state=2, n_jobs=2)
    np.testing.assert_array_equal(again.p_values, found.p_values)


def test_selected_with_intervals_that_hold_the_truth():
    X, y = data(300)
    found = fbed.multisplit(X, y, n_resamples=40, random_state=1)
    assert set(found.selected) == {3, 7}
    truth = {3: 1.0, 7: -1.0}
    for each in found.intervals:
        assert each.low < truth[each.variable] < each.high
        assert each.low < each.estimate < each.high
    wide = fbed.multisplit(X, y, n_resamples=40, random_state=1, simultaneous=True, error="fdr", level=0.1)
    assert {3, 7} <= set(wide.selected)
    assert (wide.q_values >= 0).all()


def test_forced_variables_groups_and_categories():
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
    X["g"] = rng.choice(list("xyz"), 200)
    y = X["a"] + 2.0 * (X["g"] == "y") + X["b"] + rng.normal(size=200)
    found = fbed.multisplit(X, y, include=["b"], n_resamples=20, random_state=1)
    assert "b" not in found.candidates
    assert {"a", "g"} <= set(found.selected)
    assert [each.variable for each in found.intervals] == ["a"]


def test_half_with_too_few_events_tests_the_first_entries_only():
    X, _ = data(120, 40)
    rng = np.random.default_rng(0)
    event = np.arange(120) % 6 == 0
    found = fbed.multisplit(X, (rng.exponential(size=120), event), n_resamples=10, random_state=1, alpha=0.3)
    assert any("too few rows or events" in note for note in found.notes)
    rare = np.zeros(120, dtype=int)
    rare[:3] = 1
    with pytest.raises(fbed.InvalidInput, match="cannot be searched"):
        fbed.multisplit(X, rare, n_resamples=10, random_state=1)


def test_tests_without_coefficients_have_p_values():
    X, y = data(120, 6)
    found = fbed.multisplit(X, y, family="spearman", n_resamples=10, random_state=1)
    assert 3 in found.selected
    own = fbed.multisplit(X, y, family=lambda x, y, given: (0.0, 1.0, -0.1), n_resamples=4, random_state=1)
    assert own.selected == ()
    assert own.intervals == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error": "pcer"}, "'fwer' or 'fdr'"),
        ({"level": 1}, "strictly between"),
        ({"n_resamples": 0}, "n_resamples"),
    ],
)
def test_bad_input(options, message):
    X, y = data()
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.multisplit(X, y, **options)


def test_shown_saved_and_on_the_command_line(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    from fbed.cli.command import main

    X, y = data(100, 8)
    found = fbed.multisplit(X, y, n_resamples=10, random_state=1)
    assert json.loads(found.to_json())["kind"] == "multisplit"
    assert "screening" in found.report(tmp_path / "r.html").read_text()
    assert found.plot.p_values() is not None
    assert found.plot.intervals() is not None
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_csv(tmp_path / "d.csv", index=False)
    assert main(["multisplit", str(tmp_path / "d.csv"), "--target", "y", "--n-resamples", "5", "-q"]) == 0
    assert "p value" in capsys.readouterr().out
