"""Levels that hold familywise, and the p-value of a selection as a whole."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed.api.options import make_plan
from fbed.inference import familywise
from fbed.inference.familywise import familywise_level, first_scan, smallest_p_values
from fbed.inference.nulls import null_of
from fbed.rules.criteria import LikelihoodRatio
from problem_cases import read_problem


def data(n: int = 80, p: int = 15, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, rng.normal(size=n)


def problem_of(X, y, include=(), **options):
    problem = read_problem(X, y, [LikelihoodRatio()], **options)
    return problem, make_plan(problem.table, include, ())


def draws(count: int) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(3).spawn(count)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "cox", "spearman"])
def test_smallest_p_values_are_those_of_permuted_outcomes(family):
    X, y = data()
    rng = np.random.default_rng(2)
    outcome = {
        "binomial": (y > 0).astype(int),
        "poisson": rng.poisson(2.0, len(y)),
        "cox": (np.exp(y), rng.random(len(y)) < 0.7),
    }.get(family, y)
    problem, plan = problem_of(X, outcome, family=family)
    whole, null = null_of(problem, ())
    found = smallest_p_values(whole, plan, null, draws(5))
    for log_p, seed in zip(found, draws(5), strict=True):
        order = np.random.default_rng(seed).permutation(len(y))
        moved = tuple(v[order] for v in outcome) if isinstance(outcome, tuple) else outcome[order]
        alone = fbed.select(X, moved, family=family, alpha=1 - 1e-9, max_features=1, backward=False)
        assert log_p == pytest.approx(alone.trace[0].log_p, rel=1e-8)


def test_one_pass_for_all_is_a_scan_for_each(monkeypatch):
    X, y = data(60, 30)
    problem, plan = problem_of(X, y)
    whole, null = null_of(problem, ())
    together = smallest_p_values(whole, plan, null, draws(20))
    monkeypatch.setattr(familywise, "_is_plain_linear", lambda problem, plan: False)
    np.testing.assert_allclose(together, smallest_p_values(whole, plan, null, draws(20)), rtol=1e-9)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("n", [40, 300, 3000])
def test_scores_of_all_draws_leave_out_nobody_who_is_best(family, n, monkeypatch):
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.normal(size=(n, 8)), rng.standard_t(1, (n, 3)), rng.random((n, 3)) < 0.03])
    X = np.column_stack([X, np.ones(n), X[:, 0], 1e6 + X[:, 1], rng.poisson(0.2, (n, 4))])
    y = (rng.random(n) < 0.2).astype(int) if family == "binomial" else rng.poisson(0.7, n)
    problem, plan = problem_of(X, y, family=family)
    whole, null = null_of(problem, ())
    monkeypatch.setattr(familywise, "_INTERVALS", 7 * X.shape[1])
    drawn = [null.draw(np.random.default_rng(seed)) for seed in draws(15)]
    left = [len(each.candidates) for each in familywise._may_be_best(whole, plan, drawn)]
    assert min(left) >= 1
    assert n < 3000 or np.mean(left) < 10
    together = smallest_p_values(whole, plan, null, draws(15))
    monkeypatch.setattr(familywise, "_is_plain_glm", lambda problem, plan: False)
    np.testing.assert_allclose(together, smallest_p_values(whole, plan, null, draws(15)), rtol=1e-8)


def test_level_is_the_order_statistic():
    X, y = data()
    problem, plan = problem_of(X, y)
    found = familywise_level(problem, plan, 0.05)
    whole, null = null_of(problem, ())
    best = np.sort(smallest_p_values(whole, plan, null, np.random.SeedSequence(20190109).spawn(399)))
    assert found.alpha == pytest.approx(math.exp(best[19]))
    assert 0.05 / 60 < found.alpha < 0.05 / 4  # about 15 independent tests
    result = fbed.select(X, y, familywise=0.05)
    assert any("weak control" in note and f"{found.alpha:.3g}" in note for note in result.notes)
    assert result.criterion.startswith("likelihood-ratio test, alpha")
    assert fbed.select(X, y, familywise=0.05, n_jobs=2).criterion == result.criterion
    assert fbed.Result.from_json(result.to_json()).notes == result.notes
    assert "step" in str(result.explain(0, X, y))


def test_level_holds_when_nothing_matters():
    """200 outcomes of noise, correlated columns: the number of searches that find anything is binomial."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 1)) + rng.normal(size=(40, 10))
    problem, plan = problem_of(X, rng.normal(size=40))
    alpha = familywise_level(problem, plan, 0.1).alpha
    hits = sum(first_scan(problem_of(X, rng.normal(size=40))[0], plan) < math.log(alpha) for _ in range(200))
    assert hits <= 33  # P(more) < .001 for a binomial of .1


def test_exposure_is_simulated_not_permuted():
    rng = np.random.default_rng(6)
    exposure = np.exp(rng.normal(size=150) * 2)
    X = np.column_stack([np.log(exposure) + 0.3 * rng.normal(size=150), rng.normal(size=(150, 5))])
    y = rng.poisson(0.5 * exposure)
    result = fbed.select(X, y, family="poisson", exposure=exposure, familywise=0.05)
    alpha = LikelihoodRatio(float(result.settings["criterion"].split("alpha=")[1].split(",")[0])).alpha
    assert 0.001 < alpha < 0.03
    assert any("parametric bootstrap" in note for note in result.notes)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "negative_binomial", "gamma"])
def test_forced_in_variables_are_simulated(family, monkeypatch):
    monkeypatch.setattr(familywise, "_FEWEST", 39)
    monkeypatch.setattr(familywise, "_BELOW", 8)
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(120, 5)), columns=list("abcde")).assign(g=rng.choice(list("uvw"), 120))
    eta = X["a"].to_numpy() + 0.5 * (X["g"] == "v").to_numpy()
    outcome = {
        "gaussian": eta + rng.normal(size=120),
        "binomial": np.where(eta + rng.logistic(size=120) > 0, "yes", "no"),
        "poisson": rng.poisson(np.exp(eta)),
        "negative_binomial": rng.negative_binomial(2, 2 / (2 + np.exp(eta))),
        "gamma": rng.gamma(2.0, np.exp(eta) / 2),
    }[family]
    problem, plan = problem_of(X, outcome, ["a", "g"], family=family)
    _, null = null_of(problem, plan.forced)
    drawn = null.draw(np.random.default_rng(1))
    refitted = drawn.model.describe(list(plan.forced))
    original = problem.model.describe(list(plan.forced))
    at = original.terms.index("a")
    assert abs(refitted.coefficients[at] - original.coefficients[at]) < 5 * original.standard_errors[at]
    result = fbed.select(X, outcome, family=family, include=["a", "g"], familywise=0.2)
    assert result.selected[:2] == ("a", "g")


def test_clusters_are_permuted_as_wholes_and_within_strata():
    X, y = data(60, 3)
    cluster, strata = np.repeat(np.arange(20), 3), np.repeat(np.arange(20) % 2, 3)
    problem, _ = problem_of(X, y, family="mixed", cluster=cluster)
    _, null = null_of(problem, ())
    moved = null.draw(np.random.default_rng(1)).outcome.values.reshape(20, 3)
    assert sorted(map(tuple, moved)) == sorted(map(tuple, y.reshape(20, 3)))
    assert "whole clusters" in null.method
    times = np.exp(y)
    problem, _ = problem_of(X, (times, np.ones(60, bool)), strata=strata)
    moved = null_of(problem, ())[1].draw(np.random.default_rng(1)).outcome.values
    for stratum in (0, 1):
        assert sorted(moved[strata == stratum]) == sorted(times[strata == stratum])
    sizes = np.repeat(np.arange(5), [5, 10, 12, 15, 18])
    with pytest.raises(fbed.InvalidInput, match="hardly any permutations"):
        fbed.select(X, y, family="mixed", cluster=sizes, familywise=0.05)


def test_frequencies_count_as_rows():
    X, y = data(40, 4)
    weights = np.random.default_rng(0).integers(1, 4, 40)
    rows = np.repeat(np.arange(40), weights)
    one = fbed.select(X, y, sample_weight=weights, familywise=0.2)
    two = fbed.select(X[rows], y[rows], familywise=0.2)
    assert one.settings["criterion"] == two.settings["criterion"]
    with pytest.raises(fbed.InvalidInput, match="whole numbers"):
        fbed.select(X, y, sample_weight=weights + 0.5, familywise=0.2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"familywise": 0.0}, "strictly between 0 and 1"),
        ({"familywise": 0.05, "alpha": 0.01}, "familywise sets the level"),
        ({"familywise": 0.05, "criterion": "ebic"}, "familywise sets the level"),
        ({"familywise": 0.05, "include": [0], "family": "spearman"}, "cannot do"),
    ],
)
def test_bad_input(options, message):
    X, y = data()
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.select(X, y, **options)


def test_selector_has_it_too():
    X, y = data()
    assert (
        fbed.FBEDSelector(familywise=0.05).fit(X, y).result_.criterion == fbed.select(X, y, familywise=0.05).criterion
    )


# -- the selection as a whole -----------------------------------------------------------------------------------------


def test_p_value_of_a_selection():
    X, noise = data(80, 10)
    y = X[:, 2] + noise
    found = fbed.selection_test(X, y, n_resamples=39, random_state=1)
    assert found.p_value == 1 / 40
    assert found.selected == fbed.select(X, y).selected
    again = fbed.selection_test(X, y, n_resamples=39, random_state=1, n_jobs=2)
    np.testing.assert_array_equal(again.drawn, found.drawn)
    nothing = fbed.selection_test(X, noise, n_resamples=39, random_state=1, alpha=1e-6)
    assert nothing.p_value == 1.0
    for family, outcome in (("binomial", y > 0), ("spearman", y)):
        assert fbed.selection_test(X, outcome, family=family, n_resamples=9, random_state=1).p_value <= 0.2


def test_p_value_of_a_selection_is_uniform_when_nothing_matters():
    p_values = [fbed.selection_test(*data(30, 6, seed), n_resamples=19, random_state=1).p_value for seed in range(40)]
    assert np.sum(np.array(p_values) <= 0.2) <= 17  # P(more) < .001 for a binomial of .2


def test_shown_saved_and_on_the_command_line(tmp_path, capsys):
    from fbed.cli.command import main

    X, y = data(60, 4)
    found = fbed.selection_test(X, X[:, 0] + y, n_resamples=9, random_state=1)
    assert json.loads(found.to_json())["p_value"] == found.p_value
    assert "Finos" in found.report(tmp_path / "r.html").read_text()
    pd.DataFrame(X).add_prefix("x").assign(y=X[:, 0] + y).to_csv(tmp_path / "d.csv", index=False)
    assert main(["selection-test", str(tmp_path / "d.csv"), "--target", "y", "--n-resamples", "9", "-q"]) == 0
    assert main(["select", str(tmp_path / "d.csv"), "--target", "y", "--familywise", "0.05", "-q"]) == 0
    assert "weak control" in " ".join(capsys.readouterr().err.split())
    assert main(["select", str(tmp_path / "d.csv"), "--target", "y", "--familywise", "0.05", "--alpha", "0.1"]) == 2
