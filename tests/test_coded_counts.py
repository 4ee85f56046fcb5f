"""Counts beside categories that stay codes: rows by kernels, levels without a count, whole searches against fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import fbed
from category_cases import answers
from fbed._kernels import poisson_columns, poisson_divergences
from fbed.families import builders
from fbed.models.engines import coded_regression
from fbed.models.engines.categories.ascent import Ascent, unexplained
from fbed.models.engines.categories.coded_columns import Category, CodedColumns, inverted
from fbed.models.engines.categories.coded_fit import CodedFit
from fbed.models.engines.categories.residual_pairs import _inverse_by_pivots
from fbed.models.engines.categories.row_likelihoods import BinaryRows, CountRows
from fbed.models.engines.coded_regression import Counts
from fbed.models.engines.tall.factor import Factor
from fbed.result import overview
from problem_cases import read_problem


@pytest.fixture(autouse=True)
def ordinary_models(monkeypatch):
    """Also with rows enough for sums over rows to be quicker."""
    monkeypatch.setattr(builders, "_SOONER", 1.0)


RNG = np.random.default_rng(43)


@pytest.fixture(autouse=True)
def _small_tables_are_coded_too(monkeypatch):
    monkeypatch.setattr(coded_regression, "_WORTH", 0.0)


def test_rows_of_a_poisson_model():
    y, a = RNG.poisson(2.0, 40).astype(float), RNG.uniform(0.1, 2, 40)
    eta = np.asfortranarray(3 * RNG.normal(size=(40, 2)))
    a[:3], eta[:3] = 0.0, 1e5  # rows that do not count may be anywhere
    deviance, mean, residual, curvature = poisson_columns(eta, y, np.log(np.maximum(y, 1)), a)
    there, mu = a > 0, np.exp(eta[3:])
    loss = special.xlogy(y[3:, None], y[3:, None] / mu) - y[3:, None] + mu
    assert_allclose(deviance, 2 * a[3:] @ loss, rtol=1e-13)
    assert_allclose(mean[there], mu, rtol=1e-14)
    assert_allclose(residual, np.where(there[:, None], a[:, None] * (y[:, None] - mean), 0.0), rtol=1e-12)
    assert_allclose(curvature, a[:, None] * mean, rtol=1e-14)
    assert poisson_columns(np.full((40, 1), 800.0), y, y, a)[0][0] == np.inf


@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.2, 0.9, 30.0])
def test_divergences_of_poisson_means(size):
    mean, weight = np.asfortranarray(10 ** RNG.uniform(-6, 3, (40, 3))), RNG.uniform(0.5, 2, 40)
    weight[:4] = 0.0
    z = size * RNG.uniform(-min(1.0, 0.99 / size), 1, (40, 3))
    change = np.asfortranarray(weight[:, None] * mean * z)
    h = np.vectorize(lambda z: (1 + z) * np.log1p(z) - z if abs(z) > 1e-3 else z * z / 2 - z**3 / 6 + z**4 / 12)
    expected = 2 * weight @ (mean * h(z))
    assert_allclose(poisson_divergences(mean, change, weight), expected, rtol=1e-8)
    change[7, 1] = -1.001 * weight[7] * mean[7, 1]
    assert_array_equal(np.isinf(poisson_divergences(mean, change, weight)), [False, True, False])


def test_levels_alone_have_their_mean():
    category, offset = Category(RNG.integers(0, 5, 60).astype(np.int8), 6), RNG.normal(size=60)
    y, weight = RNG.poisson(1.0, 60).astype(float), RNG.uniform(0, 2, 60)
    y[category.codes == 2] = 0.0
    rows = CountRows(y)
    weight = unexplained([category], rows, weight)
    assert_array_equal(weight == 0, category.codes == 2)
    shift = rows.profiled(category, 500 + offset, weight)
    assert_array_equal(shift[[2, 5]], 0.0)
    residual = rows.at(500 + offset + shift[category.codes], weight).residual
    assert_allclose(np.bincount(category.codes, residual, 6), 0.0, atol=1e-10)


def test_rows_leave_once_others_have_left():
    one = Category(np.array([0, 0, 1, 1, 2, 2], dtype=np.int8), 3)
    two = Category(np.array([0, 1, 0, 1, 1, 1], dtype=np.int8), 2)
    y = np.array([0.0, 0, 0, 3, 1, 0])
    assert_array_equal(unexplained([one], CountRows(y), np.ones(6)), [0, 0, 1, 1, 1, 1])
    assert_array_equal(unexplained([one, two], CountRows(y), np.ones(6)), [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("kind", [CountRows, BinaryRows])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_a_step_hold_on_the_way_up(kind, seed):
    """At every point the interval holds the deviance of the maximum, which rows at infinity are part of."""
    rng = np.random.default_rng([3, seed])
    n, n_levels = int(rng.integers(40, 250)), int(rng.integers(2, 25))
    levels, other = (Category(rng.integers(0, size, n).astype(np.int8), size) for size in (n_levels, 4))
    weight, offset = rng.uniform(0.2, 3.0, n), rng.normal(size=n)
    rare = (rng.random((n, 2)) < 0.1) * rng.poisson(2.0, (n, 2))
    columns = CodedColumns(levels, np.column_stack([rng.normal(size=n), rare]), weight, [other])
    mean = np.exp(rng.normal(size=n_levels)[levels.codes] + columns.columns[:, 0] - 1)
    y = rng.poisson(mean).astype(float)
    y = np.minimum(y, 1.0) if kind is BinaryRows else y
    y[levels.codes == 1] = 0.0
    y[rare[:, 1] > 0] = 0.0  # a coefficient at minus infinity that no level explains
    seen = []
    found = Ascent(columns, kind(y), weight, offset, offset).enclose(lambda *ends: seen.append(ends))
    assert found.settled
    for least, most in seen:
        assert least <= found.least * (1 + 1e-10) + 1e-10
        assert found.most <= most * (1 + 1e-10) + 1e-10


def counted(seed, n=None):
    """Categories with levels that have no count or one row, and nested ones, beside numbers; and how to search."""
    rng = np.random.default_rng([71, seed])
    n = n or int(rng.integers(60, 400))
    big = rng.choice(30, n, p=(part := 1 / np.arange(1, 31)) / part.sum())
    other = rng.integers(0, 7, n)
    if seed % 4 == 1:  # two categories that are not connected: some differences of levels cannot be told
        other = np.where(big % 2 == 0, other // 2 * 2, other // 2 * 2 + 1)
    big[: n // 15] = 100 + np.arange(n // 15)
    X = pd.DataFrame({"big": [f"b{c:03d}" for c in big], "other": [f"o{c}" for c in other]})
    X["coarse"] = [f"g{c // 4}" for c in big]
    for j in range(4):
        X[f"x{j}"] = rng.normal(size=n) if j % 2 else (rng.random(n) < 0.15) * rng.poisson(2.0, n).astype(float)
    X["twice"] = 2.0 * X["x1"] + 1.0
    signal = 0.8 * rng.normal(size=200)[big] + 0.5 * X["x1"] - 0.5 * X["x0"] + 0.4 * rng.normal(size=8)[other]
    y = rng.poisson(np.exp(signal - rng.choice([0, 1, 2])) * rng.choice([1, 20]))
    y[np.isin(big, rng.choice(30, 8))] = 0
    y[0] += 1
    criteria = ({"alpha": 0.05, "k": 1}, {"criterion": "ebic", "k": np.inf}, {"criterion": "bic", "k": 0})
    how = {"family": "poisson", **criteria[seed % 3]}
    if seed % 5 == 0:
        how = {"family": "poisson", "alpha": 0.1, "early_dropping": False}
    if seed % 2:
        how["sample_weight"] = (rng.integers(0, 4, n).astype(float), 10 ** rng.uniform(-1, 1, n))[seed // 2 % 2]
    if seed % 3 == 2:
        how["offset"] = rng.normal(size=n)
    if seed % 4 == 2:
        how["groups"] = {"several": ["x0", "x2", "x3"]}
    return X, y, how


@pytest.mark.parametrize("seed", range(16))
def test_counts_choose_as_fits_do(seed):
    one, other = (answers(*counted(seed), engine) for engine in ("certified", "exhaustive"))
    assert one[0] == other[0]
    assert_allclose(one[1], other[1], rtol=1e-7, atol=1e-7)


def test_models_of_counts_are_hardly_ever_written_out(monkeypatch):
    X, y, how = counted(3, n=900)
    monkeypatch.setattr(Counts, "dense_fit", lambda *_: pytest.fail("a model was written out"))
    found = fbed.select(X, y, **how)
    assert "big" in found.selected
    assert "big[b" in str(found.model.infinite)


@pytest.mark.parametrize("empty", [False, True])
def test_counts_in_codes_are_described_as_those_in_columns(empty):
    rng = np.random.default_rng(6)
    codes, x = rng.integers(0, 25, 700), rng.normal(size=700)
    y = rng.poisson(np.exp(0.5 * rng.normal(size=25)[codes] + 0.3 * x))
    y[(codes == 4) & empty] = 0
    X = pd.DataFrame({"x": x, "c": [f"l{c:02d}" for c in codes], "d": [f"d{v}" for v in rng.integers(0, 3, 700)]})
    model = read_problem(X, y, [fbed.BIC()], family="poisson", offset=rng.normal(size=700)).model
    fit, dense = model.fit([0, 1, 2]), model.dense_fit([0, 1, 2])
    assert isinstance(fit, CodedFit)
    assert fit.deviance == pytest.approx(dense.deviance, rel=1e-10)
    coded, expected = fit.describe(), dense.describe()
    assert (coded.family, coded.terms, coded.infinite) == (expected.family, expected.terms, expected.infinite)
    assert coded.infinite == ({"c[l04]": -1} if empty else {})
    finite = np.isfinite(expected.coefficients)
    assert_allclose(np.array(coded.coefficients)[finite], np.array(expected.coefficients)[finite], rtol=1e-6, atol=1e-7)
    assert_allclose(coded.standard_errors, expected.standard_errors, rtol=1e-6)


def test_nothing_is_inverted_without_complaint(capfd):
    """LAPACK writes to the terminal of whoever gives it a matrix without rows."""
    none = np.zeros((0, 0))
    assert_array_equal(_inverse_by_pivots(np.zeros((3, 3))), np.zeros((3, 3)))
    for found in (overview._inverse(none), overview._inverse_root(none), Factor(none).inverse(), inverted(none)[0]):
        assert found.shape == (0, 0)
    told = capfd.readouterr()
    assert told.out == told.err == ""


def test_levels_in_which_nobody_dies_start_next_to_infinity():
    """Of their hazards nothing is left in the limit: Newton's method begins there, and ends where it would."""
    rng = np.random.default_rng(12)
    codes, x = rng.integers(0, 12, 300), rng.normal(size=300)
    time, event = rng.exponential(np.exp(-x)), (rng.random(300) < 0.7) & (codes > 2)
    X = pd.DataFrame({"c": [f"l{c:02d}" for c in codes], "x": x})
    model = read_problem(X, (time, event), [fbed.BIC()], family="cox").model
    fit = model.fit([0, 1])
    start = fit._in_the_limit(0.1 * np.ones(fit.columns.size))
    eta, before = fit.Z @ start, fit.Z @ (0.1 * np.ones(fit.columns.size))
    assert (eta[codes <= 2] - eta[codes > 2].mean()).max() < -15.0
    moved = (eta - before)[codes > 2]
    assert_allclose(moved, moved[0], atol=1e-9)  # a constant is nothing to a partial likelihood
    cold = model.likelihood.maximise(fit.columns, np.zeros((fit.columns.size, 1)))
    assert fit.deviance == pytest.approx(cold.deviance[0], rel=1e-9)
    assert fit.describe().infinite["c[l05]"] == 1  # against the first level, where nobody dies


def test_a_near_copy_that_later_variables_leave_little_of_stays_in_the_model():
    """Beside what entered before it, it had more than the 1e-12 of a collinear column, and less beside all others."""
    rng = np.random.default_rng(3)
    n = 600
    X = pd.DataFrame({"c": rng.integers(0, 20, n).astype(str), "x": rng.normal(size=n)})
    noise = rng.normal(size=n)
    X["near"] = X["x"] + 1.2e-6 * noise
    X["later"] = noise + 0.7 * rng.normal(size=n)
    y = rng.poisson(np.exp(0.4 * noise)) * (X["c"] != "3")
    fits = [
        read_problem(X, y, [fbed.AIC()], family="poisson", engine=engine).model.fit([0, 1, 2, 3])
        for engine in ("certified", "exhaustive")
    ]
    assert fits[0].deviance == pytest.approx(fits[1].deviance, rel=1e-9)  # 727 without the copy, 700 with it


def test_a_near_copy_of_a_column_with_an_outlier_stays_in_the_model():
    """It has 10⁻⁹ of its norm beside the others; the one with the outlier, which is of no use without it, 10⁻¹⁴."""
    rng = np.random.default_rng(4)
    n = 600
    x, noise, row = rng.normal(size=n), rng.normal(size=n), 1.0 * (np.arange(n) == 31)
    levels = rng.integers(0, 20, n).astype(str)
    X = pd.DataFrame({"c": levels, "outlier": x + 1e4 * row, "row": row, "near": x + 3e-5 * noise})
    y = rng.poisson(np.exp(0.4 * noise)) * (X["c"] != "3")
    fits = [
        read_problem(X, y, [fbed.AIC()], family="poisson", engine=engine).model.fit([0, 1, 2, 3])
        for engine in ("certified", "exhaustive")
    ]
    assert fits[0].deviance == pytest.approx(fits[1].deviance, rel=1e-9)
