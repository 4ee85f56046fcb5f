"""The partial likelihood against sums written out term by term: late entry, ties by weight, enormous hazards."""

from __future__ import annotations

import time as clock

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, special

import fbed
from fbed.models.likelihoods import few_terms
from fbed.models.likelihoods.cox import Cox
from fbed.models.likelihoods.newton import Columns, climb
from fbed.models.likelihoods.time_at_risk import Spells


def log_likelihood(eta, time, event, weights, strata, entry):
    """One risk set after another, on the scale of logarithms; m of a tied set's d deaths are left in each term."""
    total = 0.0
    for s in np.unique(strata):
        for t in np.unique(time[event & (strata == s)]):
            dying = event & (strata == s) & (time == t)
            surviving = (strata == s) & (time >= t) & (entry < t) & ~dying
            d = weights[dying].sum()
            log_dying = special.logsumexp(eta[dying], b=weights[dying])
            log_surviving = special.logsumexp(eta[surviving], b=weights[surviving]) if surviving.any() else -np.inf
            m = d - np.arange(np.ceil(d - 1e-9))
            terms = np.logaddexp(log_surviving, np.log(m / d) + log_dying)
            total += weights[dying] @ eta[dying] - np.minimum(m, 1.0) @ terms
    return total


def least_loss(Z, rest):
    return optimize.minimize(lambda b: -log_likelihood(Z @ b, *rest), np.zeros(Z.shape[1]), method="BFGS").fun


def drawn(rng, n, tied, late, weighted):
    time = rng.exponential(size=n) + 0.01
    time = np.ceil(4.0 * time) if tied else time
    event = rng.random(n) < 0.7
    event[0] = True
    weights = {"no": np.ones(n), "whole": rng.integers(1, 4, n) * 1.0, "parts": rng.uniform(0.2, 3.0, n)}[weighted]
    entry = np.where(rng.random(n) < 0.3, 0.0, time * rng.random(n)) if late else np.full(n, -1.0)
    return time, event, weights, rng.integers(0, 2, n), entry


@pytest.mark.parametrize("spread", [1.0, 40.0, 3000.0])
@pytest.mark.parametrize("late", [False, True])
def test_values_and_slopes(spread, late):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        time, event, weights, strata, entry = drawn(rng, 30, seed % 2, late, ("no", "whole", "parts")[seed % 3])
        Z, beta = rng.normal(size=(30, 2)), spread * rng.normal(size=2)
        cox = Cox(time, event, weights, strata, entry if late else None)
        point = cox.at(Columns(Z), beta[:, None])

        def exact(beta, Z=Z, rest=(time, event, weights, strata, entry)):
            return log_likelihood(Z @ beta, *rest)

        saturated = cox.risk.saturated
        assert saturated - point.value[0] / 2.0 == pytest.approx(exact(beta), rel=1e-12, abs=1e-10)
        gradient, hessian = point.derivatives()
        size = max(1.0, np.abs(Z).max() * weights.sum())
        assert gradient[:, 0] == pytest.approx(optimize.approx_fprime(beta, exact, 1e-6), abs=1e-4 * size)
        step = 1e-4
        moved = [cox.at(Columns(Z), (beta + step * e)[:, None]).derivatives()[0][:, 0] for e in np.eye(2)]
        back = [cox.at(Columns(Z), (beta - step * e)[:, None]).derivatives()[0][:, 0] for e in np.eye(2)]
        assert hessian[0] == pytest.approx((np.array(back) - np.array(moved)) / (2 * step), abs=1e-5 * size)


def test_a_small_risk_set_beside_large_ones_that_come_later():
    """Differences of running sums gave 12.57 for 5.13 in the first of these."""
    for seed in (634, 1):
        rng = np.random.default_rng(seed)
        n = 40
        X = (rng.random((n, 2)) < 0.1).astype(float)
        time = rng.exponential(size=n)
        event = rng.random(n) < 0.7
        entry = np.maximum(time - rng.exponential(size=n), 0.0) * 0.99
        found = fbed.select(X, (time, event), family="cox", entry=entry, include=[0], alpha=0.999, k=0, backward=False)
        rest = (time, event, np.ones(n), np.zeros(n), entry)
        least = [least_loss(X[:, :k], rest) for k in (1, 2)]
        assert found.trace[0].statistic == pytest.approx(2.0 * (least[0] - least[1]), rel=1e-4)


def test_an_outlier_that_leaves_first_hides_nothing():
    """Its hazard is exp(10⁶) times that of the others; whom it leaves behind are compared as if it had not been."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=80)
    time = rng.exponential(np.exp(-x)) + 1.0
    with_outlier = fbed.select(np.append(x, 1e6)[:, None], (np.append(time, 0.5), np.ones(81, bool)), family="cox")
    without = fbed.select(x[:, None], (time, np.ones(80, bool)), family="cox")
    assert with_outlier.model.deviance == pytest.approx(without.model.deviance, rel=1e-9)
    assert with_outlier.model.coefficients[-1] == pytest.approx(without.model.coefficients[-1], rel=1e-5)


@pytest.mark.parametrize("weight", [3, 40, 1000, 10**6])
def test_many_deaths_at_one_time_are_few_terms(weight):
    """Σ log(S + mD/d) over m = 1 … d is a difference of logarithms of the gamma function."""
    rng = np.random.default_rng(4)
    time, eta = rng.exponential(size=12), rng.normal(size=12)
    cox = Cox(time, np.ones(12, bool), np.full(12, float(weight)))
    point = cox.at(Columns(eta[:, None]), np.ones((1, 1)))
    order, total = np.argsort(time), 0.0
    for i, row in enumerate(order):
        D, S = weight * np.exp(eta[row]), weight * np.exp(eta[order[i + 1 :]]).sum()
        s = S * weight / D
        gammas = special.gammaln(s + weight + 1.0) - special.gammaln(s + 1.0)
        total += weight * (eta[row] - np.log(D / weight)) - gammas
    assert cox.risk.saturated - point.value[0] / 2.0 == pytest.approx(total, rel=1e-11)
    assert len(cox.risk.term_group) <= 12 * 250


def test_a_row_is_as_many_rows_as_its_weight():
    rng = np.random.default_rng(5)
    X, (time, event, weights, strata, entry) = rng.normal(size=(40, 3)), drawn(rng, 40, True, True, "whole")
    weights *= 20.0
    entry = np.maximum(entry, 0.0)
    again = np.repeat(np.arange(40), weights.astype(int))
    options = {"family": "cox", "alpha": 0.999, "k": 0}
    found = fbed.select(X, (time, event), sample_weight=weights, strata=strata, entry=entry, **options)
    same = fbed.select(X[again], (time[again], event[again]), strata=strata[again], entry=entry[again], **options)
    assert len(found.trace) > 2
    for one, other in zip(found.trace, same.trace, strict=True):
        assert (one.action, one.variable) == (other.action, other.variable)
        assert one.statistic is None or one.statistic == pytest.approx(other.statistic, rel=1e-9)


def test_time_does_not_grow_with_the_weights():
    rng = np.random.default_rng(6)
    X, time = rng.normal(size=(200, 4)), rng.exponential(size=200)
    started = clock.perf_counter()
    found = fbed.select(X, (time, rng.random(200) < 0.5), family="cox", sample_weight=np.full(200, 1e11), k=0)
    assert len(found.selected) >= 1
    assert clock.perf_counter() - started < 20.0


def test_few_terms_stand_for_many():
    for count in (1, 12, 32, 33, 45, 100, 1000, 54321):
        nodes, multiplicity = few_terms.of_run(count)
        assert len(nodes) <= 32 + 12 * max(0.0, np.ceil(np.log2(count / 32)))
        j = np.arange(count)
        for s in (1e-9, 0.3, 1.0, 1e3, 1e7):
            assert multiplicity @ np.log(s + nodes) == pytest.approx(np.log(s + j).sum(), rel=1e-13, abs=1e-12)
            assert multiplicity @ (s + nodes) ** -2.0 == pytest.approx(((s + j) ** -2.0).sum(), rel=1e-13)


def test_few_terms_stand_for_counts():
    for seed, top in enumerate((1, 3, 40, 3000, 10**6)):
        rng = np.random.default_rng(seed)
        y, weights = np.floor(rng.exponential(top / 4, 60)), rng.uniform(0.1, 3.0, 60)
        y[0] = top
        nodes, multiplicity = few_terms.of_counts(y, weights)
        for alpha in (1e-3, 1.0, 100.0):
            expected = sum(w * np.log1p(alpha * np.arange(int(k))).sum() for k, w in zip(y, weights, strict=True))
            assert multiplicity @ np.log1p(alpha * nodes) == pytest.approx(expected, rel=1e-13)


def test_spells_are_the_sums_they_say():
    rng = np.random.default_rng(7)
    for n, moments in rng.integers(1, 70, (60, 2)):
        first, end = rng.integers(0, moments, n), rng.integers(0, moments + 1, n)
        there = (np.arange(moments)[:, None] >= first) & (np.arange(moments)[:, None] < end)
        spells, rows, cells = Spells(first, end, int(moments)), rng.normal(size=(n, 2)), rng.normal(size=(moments, 2))
        assert spells.at_moments(rows) == pytest.approx(there @ rows, abs=1e-12)
        assert spells.of_rows(cells) == pytest.approx(there.T @ cells, abs=1e-12)
        largest = np.where(there[:, :, None], rows[None], -np.inf).max(axis=1)
        assert np.array_equal(spells.at_moments(rows, np.maximum, -np.inf), largest)


@pytest.mark.parametrize("seed", range(10))
def test_the_kernel_climbs_as_newton_does(seed):
    """Models with columns in common and one of their own: ties, weights, deaths that all come first."""
    rng = np.random.default_rng(seed)
    n, k = 60, 4
    Z = rng.normal(size=(n, k)) * np.array([1.0, 1.0, 3.0, 0.1])
    own = rng.normal(size=(n, 6))
    time = np.ceil(8 * rng.exponential(np.exp(-Z[:, 0]))) if seed % 2 else rng.exponential(np.exp(-Z[:, 0]))
    event = rng.random(n) < (0.6 if seed % 3 else 0.1)
    event[0] = True
    weights = rng.uniform(0.3, 3.0, n) if seed % 5 == 0 else np.ones(n)
    own[:, 0] = -time  # whoever dies has the largest hazard
    cox = Cox(time, event, weights)
    assert cox.fits is not None
    for columns, models in ((Columns(Z), 1), (Columns(Z, own), 6), (Columns(Z[:, :0], own), 6)):
        start = np.zeros((columns.size, models))
        found, twin = cox.maximise(columns, start), climb(cox, columns, start)
        assert found.finished.all()
        assert twin.finished.all()
        assert_allclose(found.deviance, twin.deviance, rtol=1e-9, atol=1e-9)
        sound = found.deviance > 1e-3
        known = [np.abs(twin.parameters[:, m]).max() < 10 for m in range(models)] & sound
        assert_allclose(found.parameters[:, known], twin.parameters[:, known], atol=1e-4)
    if not seed % 2:
        assert cox.maximise(Columns(Z, own), np.zeros((k + 1, 6))).deviance[0] == 0.0


def test_hazards_beyond_one_scale_are_left_to_newton_itself():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 1))
    x[3] = 1e6
    cox = Cox(rng.exponential(size=30), np.ones(30, dtype=bool), np.ones(30))
    far = np.full((1, 1), 1e-3)
    assert not cox.fits.climb(np.asfortranarray(x), None, far)[2].any()
    assert_allclose(cox.maximise(Columns(x), far).deviance, climb(cox, Columns(x), far).deviance, rtol=1e-10)


def test_late_entries_and_strata_are_left_to_newton_itself():
    time, event, ones = np.arange(1.0, 7.0), np.ones(6, dtype=bool), np.ones(6)
    assert Cox(time, event, ones, np.array([0, 0, 0, 1, 1, 1]), None).fits is None
    assert Cox(time, event, ones, None, time - 1).fits is None


def test_the_kernel_refuses_other_sizes():
    cox = Cox(np.arange(1.0, 7.0), np.ones(6, dtype=bool), np.ones(6))
    for Z, own, start in ((5, None, 1), (6, 2, 2), (6, 1, 1)):
        columns = None if own is None else np.zeros((6, own), order="F")
        with pytest.raises(ValueError):
            cox.fits.climb(np.zeros((Z, 1), order="F"), columns, np.zeros((start, 1), order="F"))
