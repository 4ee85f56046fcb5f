"""Classes by sums over blocks of rows: the answers of fitting every model, and kernels against plain NumPy."""

from __future__ import annotations

import time

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import special

import fbed
from fbed._kernels import (
    log_of_positive,
    ordered_look,
    ordered_move,
    ordered_vectors,
    softmax_look,
    softmax_move,
    softmax_sums,
    softmax_vectors,
)
from fbed.models.engines.tall.class_fit import TallClassFit
from fbed.models.engines.tall.model import TallModel
from fbed.models.engines.tall.movement import Moved
from fbed.models.engines.tall.ordered_sums import OrderedRows, OrderedSums
from fbed.models.engines.tall.softmax_sums import SoftmaxSums
from fbed.models.likelihoods.multinomial import Multinomial
from fbed.models.likelihoods.newton import Columns
from fbed.models.likelihoods.ordinal import Ordinal
from problem_cases import read_problem
from tall_class_cases import however_short, searches
from test_certified import assert_same
from test_tall import mixed_table

FAMILIES = [("multinomial", None), ("ordinal", "logit"), ("ordinal", "probit")]


# beside the first: normal cells whose balls have to hold the candidate's own column, and a Hessian without a pivot
@pytest.mark.parametrize("number", [*range(48), 221, 311, 503, 713, 929, 700410])
@pytest.mark.filterwarnings("ignore:.*could not be fitted to the end")
def test_equals_exhaustive(number):
    trails = searches(number)
    if trails is not None:
        assert_same(*trails)


def outcome_of(signal, family, rng):
    codes = np.digitize(signal + rng.logistic(size=len(signal)), [-1.0, 0.5, 2.0])
    return pd.Categorical(codes, ordered=True) if family == "ordinal" else np.array(list("abcd"))[codes]


@pytest.mark.parametrize("options", [{}, {"early_dropping": False}, {"criterion": "ebic", "k": 2}])
@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_categories_and_groups(family, link, options):
    rng = np.random.default_rng(len(family))
    table, signal = mixed_table(rng)
    weights = np.where(rng.uniform(size=len(signal)) < 0.1, 0.0, rng.integers(1, 4, len(signal))).astype(float)
    common = {"family": family, "groups": {"pair": ["c", "d"]}, "sample_weight": weights, **options}
    common |= {"link": link} if link else {}
    y = outcome_of(signal, family, rng)
    slow = fbed.select(table, y, engine="exhaustive", **common)
    with however_short():
        fast = fbed.select(table, y, **common)
    assert fast.selected == slow.selected
    assert fast.n_tests == slow.n_tests
    for one, other in zip(fast.trace, slow.trace, strict=True):
        assert one.variable == other.variable
        assert one.statistic is None or one.statistic == pytest.approx(other.statistic, rel=1e-7, abs=1e-7)
    assert fast.model.terms == slow.model.terms
    np.testing.assert_allclose(fast.model.coefficients, slow.model.coefficients, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fast.model.standard_errors, slow.model.standard_errors, rtol=1e-4)


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_threads_change_nothing(family, link):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 12))
    y = outcome_of(X[:, :4].sum(axis=1) / 4, family, rng)
    common = {"family": family} | ({"link": link} if link else {})
    one, two = (fbed.select(X, y, n_jobs=n, **common) for n in (1, 2))
    assert one.selected == two.selected
    assert [step.statistic for step in one.trace] == [step.statistic for step in two.trace]
    assert one.model.coefficients == two.model.coefficients


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_most_candidates_are_not_fitted(family, link, monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4000, 30))
    y = outcome_of(X[:, :3].sum(axis=1) / 4, family, rng)
    made, fit = [], TallClassFit.__init__
    monkeypatch.setattr(TallClassFit, "__init__", lambda this, *given: made.append(given[1]) or fit(this, *given))
    found = fbed.select(X, y, family=family, k=0, **({"link": link} if link else {}))
    assert len(made) <= 2 * len(found.selected) + 6


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_time_limits_hold(family, link):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100_000, 60))
    y = outcome_of(X[:, :8].sum(axis=1) / 4, family, rng)
    began = time.perf_counter()
    found = fbed.select(X, y, family=family, time_limit=0.05, **({"link": link} if link else {}))
    assert found.status == "time_limit"
    assert time.perf_counter() - began < 1.1


def test_large_variables_few_rows_and_sparse_tables_go_elsewhere():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 3, 3000).astype(str)
    numbers = pd.DataFrame(rng.normal(size=(3000, 3)))
    large = numbers.assign(city=rng.integers(0, 200, 3000).astype(str))
    rare = pd.DataFrame((rng.uniform(size=(3000, 9)) < 0.02).astype(float))
    wide, few = pd.DataFrame(rng.normal(size=(3000, 300))), numbers[:1500]

    def is_tall(table, **groups):
        model = read_problem(table, y[: len(table)], [fbed.BIC()], **groups).model
        return isinstance(model, TallModel) and type(model.fit(())) is TallClassFit

    assert is_tall(numbers)
    assert [is_tall(table) for table in (large, rare, few)] == [False, False, False]
    assert is_tall(wide, groups={"some": range(250)})
    assert not is_tall(wide, groups={"most": range(260)})  # each with two coefficients


# Kernels


def rows_of(rng, n_classes, n=400, k=4):
    Z = np.asfortranarray(np.column_stack([np.ones(n), rng.normal(size=(n, k - 1))]))
    return Z, rng.integers(0, n_classes, n), 10.0 ** rng.uniform(-3, 3, n)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_softmax_kernels(n_classes):
    rng = np.random.default_rng(n_classes)
    Z, codes, weights = rows_of(rng, n_classes)
    m, k = n_classes - 1, Z.shape[1]
    theta = rng.normal(size=(k, m))
    p = np.empty((len(Z), m), order="F")
    loss = softmax_look(np.asfortranarray(Z @ theta), codes, weights, p)
    likelihood = Multinomial(codes, list(range(n_classes)), weights)
    point = likelihood.at(Columns(Z), theta.T.ravel()[:, None])
    gradient, hessian = point.derivatives()
    assert 2.0 * loss == pytest.approx(point.value[0], rel=1e-12)
    np.testing.assert_allclose(p.T, point.probability[:, :, 0], rtol=1e-12)
    slopes, sums = softmax_sums(p, codes, weights, Z)
    np.testing.assert_allclose(slopes.T.ravel(), gradient[:, 0], rtol=1e-9, atol=1e-9)
    vectors = softmax_vectors(p, codes, weights, Z)
    np.testing.assert_allclose(Z.T @ vectors[:, :m], slopes, rtol=1e-9, atol=1e-9)
    pairs = [(c, d) for c in range(m) for d in range(c, m)]
    for number, (c, d) in enumerate(pairs):
        block = hessian[0][c * k : (c + 1) * k, d * k : (d + 1) * k]
        np.testing.assert_allclose(Z.T @ vectors[:, m + number * k : m + (number + 1) * k], block, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sums[number], block[np.triu_indices(k)], rtol=1e-9, atol=1e-9)
    step = 0.3 * rng.normal(size=(k, 2 * m))
    moved = np.asfortranarray(Z @ step)
    gains = softmax_move(p, codes, weights, moved)
    for t in range(2):
        there = likelihood.at(Columns(Z), (theta + step[:, t * m : (t + 1) * m]).T.ravel()[:, None])
        assert 2.0 * gains[t] == pytest.approx(point.value[0] - there.value[0], rel=1e-9)
        slope = (Z.T @ moved[:, t * m : (t + 1) * m]).T.ravel()
        np.testing.assert_allclose(slope, there.derivatives()[0][:, 0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_ordered_kernels(link, n_classes):
    rng = np.random.default_rng(n_classes)
    Z, codes, weights = rows_of(rng, n_classes)
    normal, thresholds = link == "probit", np.cumsum(rng.uniform(0.3, 1.0, n_classes - 1))
    beta = 0.5 * rng.normal(size=Z.shape[1])
    beta[0] = 0.0  # which the thresholds have instead
    likelihood = Ordinal(codes, list(range(n_classes)), weights, link)

    def parameters(at, slopes):
        return np.concatenate([[-at[0]], slopes[1:], at[1:] - at[0]])[:, None]

    def by_threshold(gradient):
        """Slopes in columns, and in thresholds that all move by themselves."""
        further = gradient[Z.shape[1] :, 0]
        return gradient[1 : Z.shape[1], 0], np.concatenate([[-gradient[0, 0] - further.sum()], further])

    point = likelihood.at(Columns(Z), parameters(thresholds, beta))
    gradient, hessian = point.derivatives()
    state = np.empty((len(Z), 6), order="F")
    loss, slope, own, beside, furthest = ordered_look(Z @ beta, thresholds, codes, weights, normal, state)
    assert 2.0 * loss == pytest.approx(point.value[0], rel=1e-12)
    vectors = ordered_vectors(state, codes, weights, Z, len(thresholds))
    for found, expected in zip((Z[:, 1:].T @ vectors[:, 0], slope), by_threshold(gradient), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * weights.sum())
    c, k = len(thresholds), Z.shape[1]
    along = Z.T @ vectors
    np.testing.assert_allclose(along[:, 2 + c :], hessian[0][:k, :k], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(along[:, 3 : 2 + c], hessian[0][:k, k:], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(along[:, 1], hessian[0][:k, 0], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(own[1:], np.diag(hessian[0])[k:], rtol=1e-8)
    np.testing.assert_allclose(beside[1:], np.diag(hessian[0][k:, k:], 1), rtol=1e-8)
    edges = np.concatenate([[-np.inf], thresholds, [np.inf]])
    sizes = np.abs(np.column_stack([edges[codes], edges[codes + 1]]) - (Z @ beta)[:, None])
    assert furthest == pytest.approx(sizes[np.isfinite(sizes)].max()) if normal else furthest >= 0.0
    step, shift = 0.2 * np.concatenate([[0.0], rng.normal(size=k - 1)]), 0.05 * rng.normal(size=c)
    moved = np.asfortranarray((Z @ step)[:, None])
    there = likelihood.at(Columns(Z), parameters(thresholds + shift, beta + step))
    gain, slopes = ordered_move(state, codes, weights, normal, thresholds, (thresholds + shift)[:, None], moved)
    assert 2.0 * gain[0] == pytest.approx(point.value[0] - there.value[0], rel=1e-9)
    for found, expected in zip(
        (Z[:, 1:].T @ moved[:, 0], slopes[:, 0]), by_threshold(there.derivatives()[0]), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * weights.sum())


def test_logarithms():
    x = np.concatenate([10.0 ** np.random.default_rng(0).uniform(-300, 300, 2000), [1.0, 2.0, 0.5, np.nextafter(1, 0)]])
    np.testing.assert_allclose([log_of_positive(v) for v in x], np.log(x), rtol=4e-16, atol=2e-16)


# Normal cells: at what rate the curvature of log[Φ(u) − Φ(l)] changes as both edges move alike, or against each other


def rates_of_normal_cells(u, l, way):  # noqa: E741
    """Largest eigenvalue, in size, of the derivative of −∇² log P along a way of (u, l) in the metric of −∇² log P."""
    flipped = u + l > 0
    u, l = np.where(flipped, -l, u), np.where(flipped, -u, l)  # noqa: E741
    log_p = special.log_ndtr(u) + np.log(-np.expm1(special.log_ndtr(l) - special.log_ndtr(u)))
    a, b = (np.exp(-(v**2) / 2 - 0.5 * np.log(2 * np.pi) - log_p) for v in (u, l))
    curvature = np.stack([a * a + u * a, -a * b, -a * b, b * b - l * b], axis=-1).reshape(*u.shape, 2, 2)
    au, al, bu, bl = -a * (u + a), a * b, -a * b, b * (b - l)
    by_u = [(2 * a + u) * au + a, -(au * b + a * bu), -(au * b + a * bu), (2 * b - l) * bu]
    by_l = [(2 * a + u) * al, -(al * b + a * bl), -(al * b + a * bl), (2 * b - l) * bl - b]
    change = np.stack([p + way * q for p, q in zip(by_u, by_l, strict=True)], axis=-1).reshape(*u.shape, 2, 2)
    return np.abs(np.linalg.eigvals(np.linalg.solve(curvature, change)).real).max(axis=-1)


def test_rate_of_normal_cells():
    gap, middle = np.meshgrid(np.geomspace(0.02, 10, 80), -np.linspace(0, 9, 91))
    u, l = middle + gap / 2, middle - gap / 2  # noqa: E741
    far = np.maximum(np.abs(u), np.abs(l))
    known = far < 12
    u, l, far, gap = u[known], l[known], far[known], gap[known]  # noqa: E741
    assert (rates_of_normal_cells(u, l, 1.0) <= far + 0.4).all()
    assert (rates_of_normal_cells(u, l, -1.0) <= 2.0 * far + 4.0 / gap).all()


def rate_far_out(u, l, way):  # noqa: E741
    """The same in many digits, where differences of float64 would be nothing but rounding; u + l < 0."""
    p = (mpmath.erfc(-u / mpmath.sqrt(2)) - mpmath.erfc(-l / mpmath.sqrt(2))) / 2
    a, b = (mpmath.npdf(v) / p for v in (u, l))
    au, al, bu, bl = -a * (u + a), a * b, -a * b, b * (b - l)
    by_u = (2 * a + u) * au + a, -(au * b + a * bu), (2 * b - l) * bu
    by_l = (2 * a + u) * al, -(al * b + a * bl), (2 * b - l) * bl - b
    uu, ul, ll = a * (a + u), -a * b, b * (b - l)
    size = uu * ll - ul**2
    p, q, r = (one + way * other for one, other in zip(by_u, by_l, strict=True))
    middle, product = (uu * r + ll * p - 2 * ul * q) / (2 * size), (p * r - q**2) / size
    return abs(middle) + mpmath.sqrt(max(mpmath.mpf(0), middle**2 - product))


def test_rate_of_normal_cells_far_out():
    with mpmath.workdps(60):
        for gap in map(mpmath.mpf, np.geomspace(1e-5, 60, 24).tolist()):
            for middle in map(mpmath.mpf, np.linspace(0, -40, 21).tolist()):
                u, l = middle + gap / 2, middle - gap / 2  # noqa: E741
                far = max(abs(u), abs(l))
                assert rate_far_out(u, l, 1) <= far + 0.4
                assert rate_far_out(u, l, -1) <= 2 * far + 4 / gap


def test_rates_are_those_of_many_digits():
    u, l = np.array([-0.3, 1.0, -2.0]), np.array([-0.8, -1.5, -5.0])  # noqa: E741
    for way in (1, -1):
        found = [float(rate_far_out(mpmath.mpf(a), mpmath.mpf(b), way)) for a, b in zip(u, l, strict=True)]
        np.testing.assert_allclose(found, rates_of_normal_cells(u, l, float(way)), rtol=1e-9)


def test_rate_of_normal_cells_with_one_edge():
    with mpmath.workdps(60):
        for t in map(mpmath.mpf, np.linspace(-70, 70, 1401).tolist()):
            ratio = mpmath.npdf(t) / (mpmath.erfc(-t / mpmath.sqrt(2)) / 2)
            left = ratio + t
            assert abs(1 / left - (ratio + left)) <= abs(t) + 0.4


def test_movement_of_gaps():
    """Nothing is said of steps that would close a gap."""
    rows = OrderedRows(np.empty((0, 6)), np.array([0.0, 0.5]), 2.0)
    for link in ("logit", "probit"):
        sums = OrderedSums.__new__(OrderedSums)
        sums.is_normal = link == "probit"
        small, large = (Moved(np.array([t]), np.array([t])) for t in (0.01, 0.26))
        assert np.isfinite(sums.bend(rows, small, small)[0])
        assert np.isinf(sums.bend(rows, large, large)[0])


@pytest.mark.parametrize("kind", [SoftmaxSums, OrderedSums])
def test_a_loss_counts_in_full_what_the_fit_is_short_of_its_maximum(kind):
    """A step back may be taken in part; what is left to the maximum may not."""
    sums = kind.__new__(kind)
    sums.is_normal = False
    part, one = np.linspace(0.0, 1.0, 2001), np.ones(1)
    for bend, drift in [(0.2, 0.5), (0.01, 0.3), (1.0, 0.3), (5.0, 0.0)]:
        best = (2.0 * part - part**2 * sums.above(part * bend + drift)).max()
        found = sums.lost_by(bend * one, drift * one, one)[0]
        assert best - 0.2 <= found <= best + 1e-4  # whose parts are on a grid


def test_no_way_up_is_looked_for_once(monkeypatch):
    """A column that separates the classes takes its climb to the last sweep."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3000, 3))
    y = np.array(list("abc"))[np.digitize(X[:, 0], [-0.5, 0.5])]
    made, began = [], TallClassFit.__init__
    monkeypatch.setattr(TallClassFit, "__init__", lambda this, *given: made.append(given[1]) or began(this, *given))
    found = fbed.select(X, y, family="multinomial")
    assert found.selected[0] == 0
    assert made.count((0,)) == 1


def test_a_column_without_a_slope_has_its_part_of_the_ball():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(3000, 3))
    y = outcome_of(X[:, 0], "ordinal", rng)
    fit = read_problem(X, y, [fbed.BIC()], family="ordinal", link="probit").model.fit((0,))
    fit.gain_bounds(np.array([1, 2]), lambda df: np.zeros(df.shape))
    step, still = fit._looks[1], Moved(np.zeros(1), np.zeros(1))
    ball = fit._unit_beside(np.zeros(1), still, [step])
    assert ball.rows[0] == fit._unit_with(step).rows[0] > 1.01 * fit._unit.rows[0]
