"""Logarithms of tail probabilities against mpmath, where double precision has long underflowed."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

from fbed.rules.p_values import ChiSquare, ExactF, chi2_log_sf, chi2_of_log_p, f_log_sf

mpmath.mp.dps = 30
STATISTICS = (1e-12, 1e-6, 1e-3, 0.1, 0.7, 1.0, 2.5, 5.0, 12.0, 33.0, 80.0, 300.0, 745.0, 1500.0, 5000.0, 1e5, 1e6)
DEGREES = (1, 2, 3, 4, 5, 7, 10, 16, 25, 38, 50)


def chi2_by_mpmath(statistic, df):
    upper = mpmath.gammainc(mpmath.mpf(df) / 2, mpmath.mpf(statistic) / 2, mpmath.inf, regularized=True)
    return float(mpmath.log(upper))


def f_by_mpmath(statistic, df, residual_df, n):
    """P(F > f) = I_x(residual/2, df/2) with x = RSS₁/RSS₀ = exp(−statistic/n)."""
    x = mpmath.exp(-mpmath.mpf(statistic) / n)
    beta = mpmath.betainc(mpmath.mpf(residual_df) / 2, mpmath.mpf(df) / 2, 0, x, regularized=True)
    return float(mpmath.log(beta))


@pytest.mark.parametrize("df", DEGREES)
def test_chi_square_equals_mpmath(df):
    # 1e-12 relative: gammaln and the logarithm of the power lose a few digits to cancellation near the bulk
    expected = [chi2_by_mpmath(statistic, df) for statistic in STATISTICS]
    np.testing.assert_allclose(ChiSquare().log_sf(STATISTICS, df), expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("df", [1, 2, 5, 20])
@pytest.mark.parametrize("residual_df", [1, 2, 7, 50, 290.5])
def test_exact_f_equals_mpmath(df, residual_df):
    n = residual_df + df + 3
    reference = ExactF(n, residual_df, shares_larger=True)
    statistics = [statistic for statistic in STATISTICS if statistic <= 100 * n]
    expected = [f_by_mpmath(statistic, df, residual_df, n) for statistic in statistics]
    np.testing.assert_allclose(reference.log_sf(statistics, df), expected, rtol=1e-10, atol=1e-13)


def test_exact_f_of_a_larger_model_takes_its_own_degrees_of_freedom():
    forward, backward = ExactF(50, 40), ExactF(50, 37, shares_larger=True)
    assert forward.log_sf(9.0, 3) == pytest.approx(backward.log_sf(9.0, 3), rel=1e-14)
    assert forward.isf(0.05, 3) == pytest.approx(backward.isf(0.05, 3), rel=1e-14)


@pytest.mark.parametrize("df", DEGREES)
def test_chi_square_is_finite_and_strictly_ordered_up_to_a_million(df):
    statistic = np.concatenate([np.linspace(0.01, 2000, 40_000), np.geomspace(2000.1, 1e6, 40_000)])
    log_p = ChiSquare().log_sf(statistic, df)
    assert np.isfinite(log_p).all()
    # a huge df leaves p = 1 to double precision for small statistics: order is asked where p can differ from 1
    assert (np.diff(log_p[log_p < -1e-12]) < 0).all()


@pytest.mark.parametrize("df", [1, 3, 10])
def test_exact_f_is_finite_and_strictly_ordered_up_to_a_million(df):
    statistic = np.concatenate([np.linspace(0.01, 2000, 20_000), np.geomspace(2000.1, 1e6, 20_000)])
    log_p = ExactF(1e6, 999_900).log_sf(statistic, df)
    assert np.isfinite(log_p).all()
    assert (np.diff(log_p[log_p < -1e-12]) < 0).all()


def test_scipy_would_underflow_where_the_log_does_not():
    assert ChiSquare().log_sf(5000.0, 1) == pytest.approx(chi2_by_mpmath(5000, 1), rel=1e-13)


def test_exact_f_approaches_chi_square_for_many_rows():
    assert ExactF(1e7, 1e7).log_sf(10.0, 2) == pytest.approx(float(ChiSquare().log_sf(10.0, 2)), rel=1e-5)


@pytest.mark.parametrize("alpha", [1e-300, 1e-100, 1e-12, 1e-4, 0.01, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("df", [1, 2, 9, 50])
def test_chi_square_isf_inverts_log_sf(alpha, df):
    critical = ChiSquare().isf(alpha, df)
    assert ChiSquare().log_sf(critical, df) == pytest.approx(np.log(alpha), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("alpha", [1e-100, 1e-12, 1e-4, 0.01, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("df", [1, 2, 9])
@pytest.mark.parametrize("residual_df", [5, 60, 5000])
def test_exact_f_isf_inverts_log_sf(alpha, df, residual_df):
    reference = ExactF(residual_df + 10, residual_df, shares_larger=True)
    critical = reference.isf(alpha, df)
    assert reference.log_sf(critical, df) == pytest.approx(np.log(alpha), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("reference", [ChiSquare(), ExactF(50, 40)])
def test_nothing_tested_has_p_value_one_and_no_critical_value(reference):
    assert reference.log_sf(0.0, 0) == 0.0
    assert reference.log_sf(7.0, 0) == 0.0
    assert reference.isf(0.05, 0) == np.inf
    assert reference.log_sf(0.0, 3) == 0.0


def test_exact_f_without_residuals_is_no_evidence():
    assert ExactF(10, 3).log_sf(100.0, 3) == 0.0
    assert ExactF(10, 3).isf(0.05, 3) == np.inf


def test_rounding_below_zero_counts_as_zero():
    assert chi2_log_sf(-1e-16, 4) == 0.0


def test_statistics_and_degrees_broadcast():
    found = chi2_log_sf([3.0, 8.0], [1.0, 4.0])
    np.testing.assert_allclose(found, [chi2_by_mpmath(3, 1), chi2_by_mpmath(8, 4)], rtol=1e-13)


@pytest.mark.parametrize("reference", [ChiSquare(), ExactF(1e6, 999_900)])
def test_a_batch_gives_what_single_values_give(reference):
    statistic = np.array([0.5, 3.0, 4.5, 30.0, 900.0, 1e5])
    single = [float(reference.log_sf(value, 3)) for value in statistic]
    np.testing.assert_allclose(reference.log_sf(statistic, 3), single, rtol=1e-14)


@pytest.mark.parametrize("df", [1, 2, 3, 7, 40, 200])
def test_a_statistic_comes_back_from_its_log_p_value(df):
    log_p = -np.array([1e-9, 1e-3, 0.5, 3.0, 50.0, 700.0, 5000.0, 1e6])
    statistic = chi2_of_log_p(log_p, df)
    np.testing.assert_allclose(chi2_log_sf(statistic, df)[1:], log_p[1:], rtol=1e-11)
    np.testing.assert_allclose(statistic[1:6], stats.chi2.isf(np.exp(log_p[1:6]), df), rtol=1e-9)
    assert (np.diff(statistic) > 0).all()
    assert chi2_of_log_p(0.0, df) == 0.0
    assert chi2_of_log_p(-3.0, 0.0) == 0.0


def test_f_tails_with_fractional_degrees_of_freedom():
    f, df, denominator = np.array([0.1, 1.0, 5.0, 100.0]), np.array([1, 2, 1, 3]), np.array([1.3, 4.4, 25.1, 7.9])
    np.testing.assert_allclose(f_log_sf(f, df, denominator), stats.f.logsf(f, df, denominator), rtol=1e-10)
    assert np.isfinite(f_log_sf(1e30, 3, 1e3))
    assert f_log_sf(5.0, 2, 0.0) == f_log_sf(0.0, 2, 3.0) == 0.0
