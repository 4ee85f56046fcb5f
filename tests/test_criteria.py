"""Critical values by hand, equivalent levels, and what a criterion refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbed
from fbed.errors import InvalidInput
from fbed.rules.criteria import Evidence, as_criterion, equivalent_level, exceeds, tied_with_best
from fbed.rules.p_values import ChiSquare, ExactF

ONE = np.ones(1)


def critical(criterion, n=100, p=10, k=0, df=1.0, reference=None, staying=False):
    rule = criterion.bind(n, p)
    return float(rule.critical(np.array([df]), k, reference or ChiSquare(), staying)[0])


def test_likelihood_ratio_asks_the_chi_square_quantile():
    assert critical(fbed.LikelihoodRatio(0.05)) == pytest.approx(3.841458820694124, rel=1e-12)
    assert critical(fbed.LikelihoodRatio(0.01), df=3) == pytest.approx(11.344866730144373, rel=1e-12)


def test_likelihood_ratio_has_a_level_of_its_own_for_staying():
    rule = fbed.LikelihoodRatio(0.05, alpha_backward=0.01)
    assert critical(rule) == pytest.approx(3.8414588, rel=1e-7)
    assert critical(rule, staying=True) == pytest.approx(6.6348966, rel=1e-7)
    assert critical(fbed.LikelihoodRatio(0.05), staying=True) == pytest.approx(3.8414588, rel=1e-7)


def test_likelihood_ratio_uses_the_exact_f_for_the_linear_model():
    n, residual_df = 30, 28  # one parameter beside the candidate's
    f = stats.f.isf(0.05, 1, residual_df - 1)
    by_hand = n * math.log(1 + f / (residual_df - 1))
    assert critical(fbed.LikelihoodRatio(0.05), reference=ExactF(n, residual_df)) == pytest.approx(by_hand, rel=1e-12)


def test_aic_asks_two_per_degree_of_freedom():
    assert critical(fbed.AIC()) == 2.0
    assert critical(fbed.AIC(), df=4, n=10**6) == 8.0


def test_bic_asks_log_n_per_degree_of_freedom():
    assert critical(fbed.BIC(), n=100) == pytest.approx(math.log(100))
    assert critical(fbed.BIC(), n=100, df=3, k=5) == pytest.approx(3 * math.log(100))


@pytest.mark.parametrize("k", [0, 1, 4, 9])
def test_ebic_adds_the_change_of_the_number_of_models(k):
    gain = math.log(math.comb(10, k + 1)) - math.log(math.comb(10, k))
    by_hand = math.log(1000) + 2 * 0.7 * gain
    assert critical(fbed.EBIC(0.7), n=1000, p=10, k=k) == pytest.approx(by_hand, rel=1e-12)


def test_ebic_counts_a_group_once():
    by_hand = 3 * math.log(1000) + 2 * 0.5 * math.log(10)
    assert critical(fbed.EBIC(0.5), n=1000, p=10, df=3) == pytest.approx(by_hand, rel=1e-12)


def test_ebic_never_rewards_a_variable():
    assert critical(fbed.EBIC(1.0), n=20, p=100, k=99) == 0.0
    assert critical(fbed.EBIC(1.0, min_gain=2.5), n=20, p=100, k=99) == 2.5


def test_ebic_without_gamma_is_bic():
    assert critical(fbed.EBIC(0.0), k=3) == critical(fbed.BIC(), k=3)


@pytest.mark.parametrize(
    "n, p, gamma",
    [(100, 1000, 1 - math.log(100) / (2 * math.log(1000))), (100, 5, 0.0), (100, 1, 0.0), (100, 0, 0.0), (0.5, 9, 1.0)],
)
def test_default_gamma(n, p, gamma):
    assert fbed.EBIC().gamma_for(n, p) == pytest.approx(gamma)


def test_ebic_describes_itself_without_candidates():
    assert "gamma = 0.5" in fbed.EBIC(0.5).describe(100, 0)


@pytest.mark.parametrize(
    "criterion", [fbed.LikelihoodRatio(0.05, 0.01, 3.0), fbed.AIC(3.0), fbed.BIC(3.0), fbed.EBIC(0.5, 3.0)]
)
@pytest.mark.parametrize("staying", [False, True])
def test_minimum_gain_adds_to_the_critical_value_in_both_phases(criterion, staying):
    from dataclasses import replace

    plain = replace(criterion, min_gain=0.0)
    assert critical(criterion, k=2, staying=staying) == pytest.approx(3.0 + critical(plain, k=2, staying=staying))


@pytest.mark.parametrize(
    "criterion, n, level",
    [
        (fbed.AIC(), 100, 0.15729920705028502),  # P(χ²₁ > 2)
        (fbed.BIC(), 100, math.erfc(math.sqrt(math.log(100) / 2))),  # P(χ²₁ > log 100)
        (fbed.BIC(), 10_000, math.erfc(math.sqrt(math.log(10_000) / 2))),
        (fbed.LikelihoodRatio(0.03), 100, 0.03),
    ],
)
def test_equivalent_level(criterion, n, level):
    assert equivalent_level(criterion, n, 10) == pytest.approx(level, rel=1e-10)


def test_equivalent_level_of_ebic_follows_the_step():
    asked = math.log(100) + 2 * 0.5 * math.log((10 - 3) / 4)
    assert equivalent_level(fbed.EBIC(0.5), 100, 10, k=3) == pytest.approx(stats.chi2.sf(asked, 1), rel=1e-10)


@pytest.mark.parametrize("criterion", [fbed.AIC(), fbed.BIC(), fbed.EBIC()])
def test_information_criteria_describe_their_level(criterion):
    assert "alpha = " in criterion.describe(100, 10)


def test_descriptions_name_what_was_chosen():
    assert "0.1 to enter, 0.2 to stay" in fbed.LikelihoodRatio(0.1, 0.2).describe(10, 2)
    assert "gain above 2.5" in fbed.BIC(2.5).describe(10, 2)
    assert "the default" in fbed.EBIC().describe(10, 20)
    assert "the default" not in fbed.EBIC(0.2).describe(10, 20)


def test_passing_is_strict():
    statistic = np.array([2.0, 2.0 * (1 + 1e-12), 2.0 * (1 + 1e-6)])
    assert exceeds(statistic, np.full(3, 2.0)).tolist() == [False, False, True]


def test_a_statistic_of_zero_never_passes():
    assert not exceeds(np.zeros(1), np.zeros(1)).any()


def test_ties_are_relative_to_the_statistic():
    merit = np.array([1000.0, 1000.0 - 1e-7, 999.0])
    assert tied_with_best(merit, merit).tolist() == [True, True, False]
    assert tied_with_best(merit / 1000, merit / 1000).tolist() == [True, True, False]


def test_log_p_decides_when_nothing_else_is_known():
    evidence = Evidence(np.zeros(2), np.ones(2), np.log([0.04, 0.06]), reference=None)
    assert fbed.LikelihoodRatio(0.05).bind(10, 2).passes(evidence, 0).tolist() == [True, False]


def test_tests_rank_by_p_value_and_information_criteria_by_score():
    statistic, df = np.array([12.0, 14.0]), np.array([1.0, 4.0])
    evidence = Evidence(statistic, df, ChiSquare().log_sf(statistic, df), ChiSquare())
    assert np.argmax(fbed.LikelihoodRatio().bind(50, 9).merit(evidence, 0)) == 0
    assert fbed.AIC().bind(50, 9).merit(evidence, 0) == pytest.approx([10.0, 6.0])


def test_needs_likelihood():
    assert not fbed.LikelihoodRatio().needs_likelihood
    assert fbed.LikelihoodRatio(min_gain=1.0).needs_likelihood
    assert fbed.AIC().needs_likelihood


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2, math.nan, "0.05", None, True])
def test_level_must_be_inside_the_unit_interval(alpha):
    with pytest.raises(fbed.InvalidInput, match="alpha is a significance level strictly between 0 and 1"):
        fbed.LikelihoodRatio(alpha)


def test_level_for_staying_is_checked_too():
    with pytest.raises(fbed.InvalidInput, match="alpha_backward is a significance level"):
        fbed.LikelihoodRatio(0.05, alpha_backward=1.0)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan, "a"])
def test_gamma_must_be_in_the_unit_interval(gamma):
    with pytest.raises(fbed.InvalidInput, match=r"gamma must lie between 0 and 1.*gamma=None"):
        fbed.EBIC(gamma)


@pytest.mark.parametrize("criterion", [fbed.LikelihoodRatio, fbed.AIC, fbed.BIC, fbed.EBIC])
@pytest.mark.parametrize("gain", [-1.0, math.inf, math.nan, "a"])
def test_minimum_gain_must_be_finite_and_not_negative(criterion, gain):
    with pytest.raises(fbed.InvalidInput, match="min_gain must be a finite number"):
        criterion(min_gain=gain)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("lr", fbed.LikelihoodRatio(0.02, 0.1)),
        ("LR", fbed.LikelihoodRatio(0.02, 0.1)),
    ],
)
def test_names_stand_for_objects(name, expected):
    assert as_criterion(name, 0.02, None, 0.1) == expected


def test_names_of_information_criteria():
    assert as_criterion("aic") == fbed.AIC()
    assert as_criterion("bic") == fbed.BIC()
    assert as_criterion("ebic", None, 0.3) == fbed.EBIC(0.3)
    assert as_criterion("lr") == fbed.LikelihoodRatio(0.05)


def test_unknown_names_are_refused():
    with pytest.raises(fbed.InvalidInput, match=r"unknown criterion 'mdl': expected 'lr', 'aic', 'bic', 'ebic'"):
        as_criterion("mdl")


def test_other_objects_are_refused():
    with pytest.raises(fbed.InvalidInput, match="criterion must be a name or a criterion object, got int"):
        as_criterion(3)


def test_a_class_is_no_criterion():
    with pytest.raises(fbed.InvalidInput, match=r"criterion is the class BIC: pass an object, BIC\(\)"):
        as_criterion(fbed.BIC)


def test_level_for_staying_belongs_to_the_test():
    with pytest.raises(fbed.InvalidInput, match="alpha_backward belongs to criterion='lr', not to 'bic'"):
        as_criterion("bic", None, None, 0.1)


def test_level_for_staying_goes_into_the_object():
    with pytest.raises(fbed.InvalidInput, match="alpha_backward goes into the criterion object"):
        as_criterion(fbed.LikelihoodRatio(), None, None, 0.1)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"gamma": 0.5}, "gamma belongs to criterion='ebic', not to 'lr'"),
        ({"gamma": 0.5, "criterion": "bic"}, "gamma belongs to criterion='ebic', not to 'bic'"),
        ({"alpha": 0.01, "criterion": "bic"}, "alpha belongs to criterion='lr', not to 'bic'"),
        ({"alpha": 0.01, "criterion": "EBIC"}, "alpha belongs to criterion='lr', not to 'EBIC'"),
        ({"alpha": 0.01, "criterion": fbed.BIC()}, "alpha goes into the criterion object"),
        ({"gamma": 0.1, "criterion": fbed.EBIC()}, r"gamma goes into the criterion object .* fbed.EBIC\(gamma=0.1\)"),
    ],
)
def test_what_a_criterion_does_not_use_is_refused(options, said):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    with pytest.raises(InvalidInput, match=said):
        fbed.select(X, y, **options)


def test_an_estimator_ignores_what_its_criterion_does_not_use():
    """So that a grid over criteria × levels works."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 1] + rng.normal(size=60)
    for criterion in ("aic", "bic", "ebic", fbed.BIC()):
        same = fbed.FBEDSelector(criterion=criterion).fit(X, y)
        for alpha in (0.001, 0.2):
            selector = fbed.FBEDSelector(criterion=criterion, alpha=alpha, alpha_backward=0.1).fit(X, y)
            assert selector.result_.selected == same.result_.selected
            assert selector.result_.criterion == same.result_.criterion
    strict, lax = (fbed.FBEDSelector(alpha=alpha, gamma=0.3).fit(X, y) for alpha in (1e-30, 0.5))
    assert strict.result_.selected == ()
    assert 1 in lax.result_.selected
