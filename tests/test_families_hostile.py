"""Outcomes and options that have no defined answer are refused before any work, with words that help."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fbed
from fbed import families

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
COUNTS = RNG.poisson(2.0, N)
TIME = RNG.exponential(1.0, N) + 0.01
EVENT = RNG.random(N) < 0.6
Y = RNG.normal(size=N)

REFUSED = {
    "negative counts": (COUNTS - 3, {"family": "poisson"}, "counts"),
    "fractions of counts": (COUNTS + 0.5, {"family": "negative_binomial"}, "not whole"),
    "zero for gamma": (COUNTS * 1.0, {"family": "gamma"}, "above 0"),
    "negative times": ((TIME - 2.0, EVENT), {"family": "cox"}, "0 or more"),
    "negative times, weibull": ((TIME - 2.0, EVENT), {"family": "weibull"}, "above 0"),
    "time 0, weibull": ((np.where(np.arange(N) == 3, 0.0, TIME), EVENT), {"family": "weibull"}, "above 0"),
    "all censored": ((TIME, np.zeros(N, bool)), {"family": "cox"}, "censored"),
    "all censored, weibull": ((TIME, np.zeros(N, bool)), {"family": "weibull"}, "censored"),
    "codes 1 and 2 for events": ((TIME, EVENT + 1), {"family": "cox"}, "1/2 codes"),
    "text for times": ((np.array(["a", "b"] * (N // 2)), EVENT), {"family": "cox"}, "numbers"),
    "no event given": (TIME, {"family": "cox"}, "time"),
    "survival times for poisson": ((TIME, EVENT), {"family": "poisson"}, "'cox' or 'weibull'"),
    "one class": (np.array(["a"] * N), {"family": "multinomial"}, "single value"),
    "one class, ordinal": (np.ones(N), {"family": "ordinal"}, "single value"),
    "measurements as classes": (Y, {"family": "multinomial"}, "like a measurement"),
    "classes without order": (np.array(["lo", "mid", "hi"] * (N // 3)), {"family": "ordinal"}, "order"),
    "classes for numbers": (np.array(["lo", "mid", "hi"] * (N // 3)), {"family": "quantile"}, "numeric"),
    "classes for counts": (np.array(["lo", "mid", "hi"] * (N // 3)), {"family": "poisson"}, "numeric"),
    "more successes than trials": (COUNTS + 4, {"family": "binomial", "trials": COUNTS + 3}, "more successes"),
    "trials of 0": (COUNTS * 0, {"family": "binomial", "trials": COUNTS * 0}, "1 or more"),
    "only successes": (COUNTS + 1, {"family": "binomial", "trials": COUNTS + 1}, "one class"),
    "short offset": (COUNTS, {"family": "poisson", "offset": np.zeros(N - 1)}, "one value a row"),
    "missing offset": (COUNTS, {"family": "poisson", "offset": np.full(N, np.nan)}, "NaN"),
    "exposure of 0": (COUNTS, {"family": "poisson", "exposure": np.zeros(N)}, "above 0"),
    "offset and exposure": (COUNTS, {"family": "poisson", "exposure": np.ones(N), "offset": np.ones(N)}, "not both"),
    "text for an offset": (COUNTS, {"family": "poisson", "offset": np.array(["a"] * N)}, "numbers"),
    "offset for tables": (COUNTS, {"family": "gsquare", "offset": np.zeros(N)}, "no use for offset"),
    "entry after time": ((TIME, EVENT), {"family": "cox", "entry": TIME + 1.0}, "before time"),
    "missing strata": ((TIME, EVENT), {"family": "cox", "strata": [None] * N}, "missing"),
    "clusters of one row": (Y, {"family": "mixed", "cluster": np.arange(N)}, "single row"),
    "clusters of one row, gee": (Y, {"family": "gee", "cluster": np.arange(N)}, "single row"),
    "one cluster": (Y, {"cov": "cluster", "cluster": np.zeros(N), "family": "gaussian"}, "single cluster"),
    "no cluster": (Y, {"family": "mixed"}, "needs cluster="),
    "no cluster for cov": (COUNTS, {"family": "poisson", "cov": "cluster"}, "needs cluster="),
    "cluster without use": (Y, {"family": "gaussian", "cluster": np.arange(N)}, "no use for cluster"),
    "measurements as codes": (COUNTS, {"family": "gsquare"}, None),
    "half the outcome equal": (np.where(np.arange(N) < 40, 0.0, Y), {"family": "robust"}, "half of the values"),
    "unknown family": (Y, {"family": "gausian"}, "expected one of"),
    "unknown test": (COUNTS, {"family": "poisson", "test": "permutation"}, "'lr', 'score', 'wald'"),
    "unknown link": (COUNTS, {"family": "ordinal", "link": "cloglog"}, "'logit', 'probit'"),
    "link of a family without": (COUNTS, {"family": "poisson", "link": "log"}, "no option link"),
    "unknown covariance": (Y, {"family": "gaussian", "cov": "HC9"}, "'HC3', 'cluster'"),
    "likelihood ratio with cov": (Y, {"family": "gaussian", "cov": "HC3", "test": "lr"}, "test='wald'"),
    "EBIC for a score test": (COUNTS, {"family": "poisson", "test": "score", "criterion": "ebic"}, "p-values only"),
    "EBIC for ranks": (Y, {"family": "spearman", "criterion": "ebic"}, "p-values only"),
    "AIC for HC3": (Y, {"family": "gaussian", "cov": "HC3", "criterion": "aic"}, "p-values only"),
    "least gain for medians": (
        Y,
        {"family": "quantile", "criterion": fbed.LikelihoodRatio(0.05, min_gain=1.0)},
        "p-values only",
    ),
    "weights in kernel": (Y, {"family": "kernel", "sample_weight": np.ones(N)}, "does not support sample_weight"),
    "two columns": (np.column_stack([COUNTS, COUNTS]), {"family": "binomial"}, "trials="),
    "fields of other names": (np.zeros(N, dtype=[("a", float), ("b", float)]), {}, "'event' and 'time'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    y, options, words = REFUSED[name]
    table = X if name != "measurements as codes" else np.random.default_rng(0).normal(size=(500, 2))
    if name == "measurements as codes":
        y, words = np.arange(500) % 3, "needs categories"
    with pytest.raises(fbed.InvalidInput, match=words):
        fbed.select(table, y, **options)


@pytest.mark.parametrize("family", ["auto", "multinomial", "ordinal", "binomial"])
def test_a_class_with_one_member_is_refused(family):
    y = np.arange(N) % 2 if family != "binomial" else np.zeros(N)
    y = np.where(np.arange(N) == 7, 2, y)
    labels = y if family != "auto" else np.array(["u", "v", "lone"])[y.astype(int)]
    with pytest.raises(fbed.InvalidInput, match=r"classes with a single row: ('lone'|2)"):
        fbed.select(X, labels, family=family)
    twice = np.where(np.arange(N) == 7, 2.0, 1.0)
    assert fbed.select(X, labels, family=family, sample_weight=twice).n == N + 1  # two rows that are alike


def test_a_stratum_without_events_says_nothing():
    strata = np.arange(N) % 3
    event = EVENT & (strata != 1)
    with_it = fbed.select(X, (TIME, event), strata=strata, alpha=0.5)
    rows = strata != 1
    without = fbed.select(X[rows], (TIME[rows], event[rows]), strata=strata[rows], alpha=0.5)
    assert any("1 strata have no event" in note for note in with_it.notes)
    assert [row.statistic for row in with_it.trace] == pytest.approx([row.statistic for row in without.trace])


def test_rows_of_weight_0_are_no_rows():
    weights = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    kept = weights > 0
    offset = RNG.normal(size=N)
    options = {"family": "poisson", "alpha": 0.5}
    found = fbed.select(X, COUNTS, sample_weight=weights, offset=offset, **options)
    expected = fbed.select(X[kept], COUNTS[kept], offset=offset[kept], **options)
    assert [row.statistic for row in found.trace] == pytest.approx([row.statistic for row in expected.trace])


SEPARATED = {
    "multinomial": np.repeat([0, 1, 2], N // 3).astype(str),
    "ordinal": np.repeat([0, 1, 2], N // 3),
}


@pytest.mark.parametrize("family", SEPARATED)
def test_separation_has_a_finite_statistic_and_ends_the_search(family):
    """The first column tells the classes apart: the likelihood ratio is the deviance, 2n log 3."""
    table = np.column_stack([np.arange(N) * 1.0, X])
    result = fbed.select(table, SEPARATED[family], family=family)
    assert result.status == "saturated"
    assert result.indices.tolist() == [0]
    assert result.trace[0].statistic == pytest.approx(2 * N * np.log(3.0), rel=1e-9)
    assert result.model.separated


def test_a_monotone_likelihood_has_a_finite_statistic():
    """Everybody dies in the order of the first column: the partial likelihood tends to 1, its logarithm to 0."""
    order = np.arange(N) * 1.0
    result = fbed.select(np.column_stack([order, X]), (order + 1.0, np.ones(N, bool)))
    assert result.status == "saturated"
    assert result.trace[0].statistic == pytest.approx(2.0 * np.log(np.arange(1, N + 1)).sum(), rel=1e-6)
    assert result.model.separated


def test_partial_separation_stays_finite():
    """A level that has one class only sends its coefficient to infinity, and nothing else."""
    rng = np.random.default_rng(2)
    level = rng.integers(0, 3, 200)
    y = np.where(level == 2, 0, rng.integers(0, 3, 200))
    frame = pd.DataFrame({"level": pd.Categorical(level), "x": rng.normal(size=200)})
    for family in ("multinomial", "ordinal"):
        result = fbed.select(frame, y, family=family)
        assert result.selected == ("level",)
        expected = stats.chi2_contingency(pd.crosstab(level, y), correction=False, lambda_="log-likelihood").statistic
        if family == "multinomial":  # the multinomial model of one category is saturated: G² is its LR
            assert result.trace[0].statistic == pytest.approx(expected, rel=1e-8)
        assert result.model.separated


def test_underdispersed_counts_end_at_the_poisson_likelihood():
    rng = np.random.default_rng(3)
    y = rng.binomial(4, 0.5, 200)
    table = rng.normal(size=(200, 4))
    found = fbed.select(table, y, family="negative_binomial", alpha=0.9)
    expected = fbed.select(table, y, family="poisson", alpha=0.9)
    assert [row.statistic for row in found.trace] == pytest.approx([row.statistic for row in expected.trace])
    assert dict(zip(found.model.terms, found.model.coefficients, strict=True))["dispersion"] == 0.0


@pytest.mark.parametrize("family", ["gamma", "weibull", "robust", "quantile", "mixed"])
def test_a_perfect_fit_is_saturated(family):
    y = np.exp(X[:, 0] - 0.5 * X[:, 1])
    options = {"cluster": np.arange(N) % 9} if family == "mixed" else {}
    outcome = {"gamma": y, "weibull": (y, np.ones(N, bool))}.get(family, np.log(y))
    result = fbed.select(X, outcome, family=family, k=2, **options)
    assert sorted(result.indices) == [0, 1]
    assert result.status == "saturated"


def test_missing_packages_are_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "causallearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "causallearn", None)
    with pytest.raises(ImportError, match="pip install causal-learn"):
        fbed.select(X, Y, family="kernel")


AUTO = {
    "binomial": np.arange(N) % 2,
    "multinomial": np.array(["a", "b", "c"] * (N // 3)),
    "ordinal": pd.Series(pd.Categorical(np.arange(N) % 3, categories=[0, 1, 2], ordered=True)),
    "cox": (TIME, EVENT),
    "gaussian": Y,
}


@pytest.mark.parametrize("family", AUTO)
def test_auto_says_what_it_chose(family):
    result = fbed.select(X, AUTO[family])
    assert result.family == family
    assert family in result.summary()


def test_auto_notes_what_whole_numbers_may_be():
    (note,) = fbed.select(X, COUNTS).notes
    assert all(name in note for name in ("poisson", "ordinal", "multinomial", "gaussian"))


def test_the_table_of_the_documentation_has_every_family():
    table = families.markdown(families.FAMILIES).splitlines()
    assert len({line.count("|") for line in table}) == 1
    assert [line.split("`")[1] for line in table[2:]] == list(families.FAMILIES)


def test_the_table_tells_the_truth_about_criteria_and_weights():
    """What the table promises is accepted, what it does not is refused."""
    for family in families.FAMILIES.values():
        for criterion in (fbed.EBIC(), fbed.LikelihoodRatio()):
            asked = {
                "test": None,
                "cov": None,
                "link": None,
                "extras": dict.fromkeys(family.required, 1),
                "weighted": family.weights,
                "needs_likelihood": criterion.needs_likelihood and family.likelihood,
                "criterion": repr(criterion),
            }
            families.check_abilities(family, **asked)
        if not family.weights:
            with pytest.raises(fbed.InvalidInput, match="sample_weight"):
                families.check_abilities(family, **{**asked, "weighted": True})
        if not family.likelihood:
            with pytest.raises(fbed.InvalidInput, match="p-values only"):
                families.check_abilities(family, **{**asked, "needs_likelihood": True})
