"""Steps beside models in codes: projections that grow, bounds by weights of steps before, their kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import fbed
from fbed._kernels import (
    add_by_level,
    coded_looks,
    logistic_columns,
    logistic_divergence,
    logistic_divergences,
    logistic_rows,
)
from fbed.families import builders
from fbed.models.engines import coded_regression
from fbed.models.engines.categories.coded_columns import Category, CodedColumns, OtherCategory
from fbed.models.engines.categories.coded_fit import CodedFit
from fbed.models.engines.categories.coded_projection import Projection
from fbed.models.engines.categories.residual_pairs import _inverse_by_pivots, _pseudo_inverse
from fbed.models.engines.categories.walks import Walks, Without
from fbed.models.engines.single_answers import gain_of, loss_of
from fbed.models.engines.tall.factor import Factor, solved_by_pivots
from fbed.models.engines.tall.fit import TallFit
from problem_cases import read_problem


@pytest.fixture(autouse=True)
def ordinary_models(monkeypatch):
    """Also with rows enough for sums over rows to be quicker."""
    monkeypatch.setattr(builders, "_SOONER", 1.0)


RNG = np.random.default_rng(41)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_steps_of_levels_are_added_to_columns(kind, count):
    codes, steps = RNG.integers(0, 6, 30).astype(kind), RNG.normal(size=(6, count))
    out = np.asfortranarray(RNG.normal(size=(30, count)))
    expected = out + steps[codes]
    add_by_level(codes, steps, out)
    assert_allclose(out, expected, rtol=1e-15)
    with pytest.raises(ValueError):
        add_by_level(codes, steps[: codes.max()], out)


def test_rows_at_several_predictors_are_rows_at_each():
    eta, y, a = np.asfortranarray(4 * RNG.normal(size=(25, 3))), RNG.integers(0, 2, 25) * 1.0, RNG.uniform(0, 2, 25)
    found = logistic_columns(eta, y, a)
    for j in range(3):
        deviance, _, _, mean, residual, curvature = logistic_rows(np.ascontiguousarray(eta[:, j]), y, a)
        assert found[0][j] == deviance
        for part, expected in zip(found[1:], (mean, residual, curvature), strict=True):
            assert_array_equal(part[:, j], expected)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.2, 0.9])
def test_divergences_are_relative_entropies(size):
    mean, weight = RNG.uniform(0.001, 0.999, (40, 3)), RNG.uniform(0.5, 2, 40)
    weight[:4] = 0.0
    mean = np.asfortranarray(mean)
    part = size * RNG.uniform(-1, 1, (40, 3)) * np.minimum(mean, 1 - mean)
    change = np.asfortranarray(weight[:, None] * part)
    found = logistic_divergences(mean, change, weight)
    up, down = part / mean, -part / (1 - mean)
    h = np.vectorize(lambda z: (1 + z) * np.log1p(z) - z if abs(z) > 1e-3 else z * z / 2 - z**3 / 6 + z**4 / 12)
    assert_allclose(found, 2 * weight @ (mean * h(up) + (1 - mean) * h(down)), rtol=1e-8)
    shared = logistic_divergences(np.asfortranarray(mean[:, :1]), change, weight)
    expected = logistic_divergence(np.ascontiguousarray(mean[:, 0]), np.ascontiguousarray(change[:, 1]), weight)
    assert shared[1] == expected


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 0.6, -0.6])
def test_what_is_no_probability_is_infinitely_far(wrong):
    mean, weight, change = np.full(9, 0.5), np.ones(9), np.zeros(9)
    assert logistic_divergence(mean, change, weight) == 0.0
    change[4] = wrong
    assert logistic_divergence(mean, change, weight) == np.inf
    weight[4] = 0.0
    assert logistic_divergence(mean, change, weight) == 0.0


def test_looks_at_columns_are_sums_over_rows():
    n = 50
    X, r = np.asfortranarray(RNG.normal(size=(n, 3))), RNG.normal(size=n)
    w0, w, mean = RNG.uniform(0.1, 1, n), RNG.uniform(0.1, 1, n), RNG.uniform(0.1, 0.9, n)
    w0[:5], w[:5], r[:5] = 0.0, 0.0, 0.0
    ratio = np.where(w > 0, w0 / np.where(w > 0, w, 1), 0)
    found = coded_looks(X, r, w0, w, ratio, mean).T
    expected = [r @ X, w0 @ X**2, (w0 * ratio) @ X**2, w @ X**2]
    assert_allclose(found[:4], expected, rtol=1e-12)
    u, v = ratio[:, None] * X * (expected[0] / expected[1]), (w > 0)[:, None] * X * (expected[0] / expected[3])
    z = [np.stack([(1 - mean)[:, None] * s, -mean[:, None] * s]) for s in (u, v)]
    assert_allclose(found[4:], [z[0].min(axis=(0, 1)), z[1].max(axis=(0, 1))], rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_a_projection_that_grows_is_the_projection(seed):
    rng = np.random.default_rng(seed)
    n, weight = 150, rng.uniform(0.2, 2.0, 150)
    levels = Category(rng.integers(0, 8, n).astype(np.int8), 8)
    others = [Category(rng.integers(0, size, n).astype(np.int16), size) for size in ((), (5,), (5, 3))[seed % 3]]
    columns = CodedColumns(levels, rng.normal(size=(n, seed // 3 * 2)), np.ones(n), others)
    grown = Projection.of(columns, weight)
    for _ in range(2):
        grown = grown.joined(rng.normal(size=(n, 1)))
    added = OtherCategory.of(Category(rng.integers(0, 6, n).astype(np.int8), 6), np.ones(n))
    grown = grown.joined_by(added).joined(rng.normal(size=(n, 1)))
    whole = Projection.of(grown.columns, weight)
    assert_allclose(grown.inner, whole.inner, atol=1e-12)
    assert_allclose(grown.cross, whole.cross, atol=1e-12)
    X = np.asfortranarray(rng.normal(size=(n, 2)))
    assert_allclose(grown.without_model(X), whole.without_model(X), atol=1e-11)
    assert_allclose(grown.steps(X), whole.steps(X), atol=1e-11)
    again = CodedColumns(levels, grown.columns.columns, np.ones(n), [*others, added])
    assert_allclose(grown.columns.norms, again.norms)
    assert grown.columns.size == again.size
    assert grown.joined_by(added) is None
    inside = whole.columns.predict(rng.normal(size=(8, 1)), rng.normal(size=(whole.columns.size, 1)))
    assert grown.joined(inside) is None


def beside_categories(seed):
    """Numbers of all kinds that enter one after another beside categories of many levels; and how to search."""
    rng = np.random.default_rng([31, seed])
    n = int(rng.integers(250, 700))
    codes = [rng.integers(0, size, n) for size in rng.choice([3, 9, 25, 60], 3)]
    numbers = {f"x{j}": rng.normal(size=n) for j in range(5)}
    numbers |= {f"s{j}": (rng.random(n) < 0.1) * rng.poisson(2, n) for j in range(5)}
    numbers["heavy"], numbers["copy"] = rng.standard_t(1, n), 3.0 - 2.0 * numbers["x0"]
    numbers["sum"] = numbers["x1"] + numbers["s1"] + 1e-5 * rng.normal(size=n) * (seed % 2)
    X = pd.DataFrame({**numbers, **{f"c{i}": [f"l{c}" for c in code] for i, code in enumerate(codes)}})
    signal = sum(rng.normal() * rng.choice([0.3, 1, 3]) * X[name] for name in ("x0", "x1", "x2", "s0", "s1"))
    signal += sum(rng.choice([0.5, 2]) * rng.normal(size=60)[code] for code in codes[:2])
    y = (signal - signal.median() + rng.logistic(size=n) > 0).astype(int)
    how = ({"alpha": 0.2, "k": 1}, {"criterion": "bic", "k": np.inf}, {"alpha": 0.05, "early_dropping": False})[
        seed % 3
    ]
    weights = (None, rng.integers(1, 4, n).astype(float), 10.0 ** rng.uniform(-1, 1, n))[seed // 3 % 3]
    return X, y, {**how, "sample_weight": weights, "test": "lr"}


@pytest.mark.parametrize("seed", range(9))
def test_numbers_that_enter_beside_categories_are_those_of_fits(seed):
    X, y, how = beside_categories(seed)
    told, statistics, tests = [], [], []
    for engine in ("certified", "exhaustive"):
        found = fbed.select(X, y, engine=engine, **how)
        told.append([(row.action, row.variable, row.df, row.tested, row.n_dropped) for row in found.trace])
        statistics.append([row.statistic for row in found.trace if row.statistic is not None])
        tests.append(found.n_tests)
    assert told[0] == told[1]
    assert tests[0] == tests[1]
    assert_allclose(*statistics, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_weights_of_steps_before_bound_the_same_statistics(seed, monkeypatch):
    """However far the weights have moved, every interval holds the statistic of a fit."""
    monkeypatch.setattr("fbed.models.engines.categories.fitted_rows._LOOSE", np.inf)
    rng = np.random.default_rng([5, seed])
    n = int(rng.integers(300, 600))
    codes = rng.integers(0, 30, n)
    Z = rng.normal(size=(n, 6)) * rng.choice([0.5, 1.0], 6)
    X = pd.DataFrame({"c": [f"l{c}" for c in codes], "small": rng.integers(0, 4, n).astype(str)})
    X[[f"x{j}" for j in range(6)]] = Z
    y = (rng.normal(size=30)[codes] + Z[:, :4] @ rng.choice([0.5, 1.5], 4) + rng.logistic(size=n) > 0).astype(int)
    model = read_problem(X, y, [fbed.BIC()], family="binomial", offset=rng.normal(size=n) * (seed % 2)).model
    critical = lambda df: np.full(df.shape, 3.84)  # noqa: E731
    fit, grown = model.fit([0]), 0
    for variable in (2, 1, 3, 4):
        fit.gain_bounds(np.arange(1, 8), critical)
        larger = fit.extended((*fit.selected, variable), fit.predictor)
        grown += larger is not None
        fit = model.fit((*fit.selected, variable)) if larger is None else larger
        assert isinstance(fit, CodedFit)
        assert fit.deviance == pytest.approx(model.dense_fit(fit.selected).deviance, rel=1e-10)
        rest = np.array([v for v in range(1, 8) if v not in fit.selected])
        for line in (3.84, 60.0):
            bounds = fit.gain_bounds(rest, lambda df, line=line: np.full(df.shape, line))
            for v, low, high, df in zip(rest.tolist(), bounds.lower, bounds.upper, bounds.df, strict=True):
                worth = fit.deviance - model.dense_fit((*fit.selected, v)).deviance
                assert low <= worth + 1e-7 * (1 + worth)
                assert high >= worth - 1e-7 * (1 + worth)
                assert df == (3 if v == 1 else 1)
                exact = fit.resolve(v, -np.inf)
                assert exact[0] == pytest.approx(worth, rel=1e-7, abs=1e-7)
    assert grown > 0


def test_inverses_by_pivots_leave_out_what_depends_on_others():
    Z = RNG.normal(size=(60, 5))
    Z = np.column_stack([Z, Z[:, 0] - Z[:, 3], np.zeros(60)])
    information = Z.T @ Z
    found = _inverse_by_pivots(information)
    assert_allclose(Z @ found @ Z.T, Z @ _pseudo_inverse(information) @ Z.T, atol=1e-12)
    nearly = Z[:, 5] + 1e-4 * RNG.normal(size=60)
    Z[:, 5] = nearly
    assert _inverse_by_pivots(Z.T @ Z) is None


def test_steps_of_groups_by_pivots_are_those_by_eigenvectors(monkeypatch):
    Z = RNG.normal(size=(40, 4))
    left = np.corrcoef(Z.T)
    score = RNG.normal(size=4)
    by_pivots = solved_by_pivots(left, score, 1e-5)
    monkeypatch.setattr("fbed.models.engines.tall.factor._CLEAR", np.inf)
    assert_allclose(by_pivots, solved_by_pivots(left, score, 1e-5), rtol=1e-12)
    left[:, 3] = left[:, 2]
    left[3] = left[2]
    assert solved_by_pivots(left, score, 1e-5) is None
    information = Z.T @ Z
    assert_allclose(Factor(information).inverse(), np.linalg.inv(information), rtol=1e-11)


def test_tall_models_go_on_with_care_once_a_maximum_is_at_infinity(monkeypatch):
    rng = np.random.default_rng(3)
    n = 20_500
    codes = rng.integers(0, 12, n)
    X = pd.DataFrame({"c": [f"l{c:02d}" for c in codes], "x": rng.normal(size=n), "z": rng.normal(size=n)})
    y = (rng.random(n) < special.expit(rng.normal(size=12)[codes] + 0.3 * X["x"])).astype(int)
    y[codes == 5] = 1
    model = read_problem(X, y, [fbed.BIC()], family="binomial").model
    first = model.fit([0])
    assert isinstance(first, CodedFit)
    monkeypatch.setattr(TallFit, "__init__", lambda *args: pytest.fail("in vain"))
    second = model.fit([0, 1], first)
    assert second.deviance < first.deviance


@pytest.mark.parametrize("pure", [False, True])
def test_one_variable_of_a_fit_that_has_bounds_is_known_exactly(pure):
    rng = np.random.default_rng(8)
    n = 400
    codes, other = rng.integers(0, 20, n), rng.integers(0, 30, n)
    X = pd.DataFrame({"c": [f"l{c}" for c in codes], "d": [f"m{c}" for c in other], "x": rng.normal(size=n)})
    y = (rng.random(n) < special.expit(rng.normal(size=20)[codes] + X["x"])).astype(int)
    y[other == 3] = 1 if pure else y[other == 3]
    model = read_problem(X, y, [fbed.BIC()], family="binomial").model
    for selected in ((), (0,), (2,), (0, 2)):
        fit = model.fit(selected)
        for variable in {0, 1, 2} - set(selected):
            exact = model.dense_fit((*selected, variable)).deviance
            statistic, df = gain_of(fit, variable)
            assert statistic == pytest.approx(fit.deviance - exact, rel=1e-7)
            assert df == (19, 29, 1)[variable]
            assert loss_of(model.fit((*selected, variable)), variable) == pytest.approx(statistic, rel=1e-7)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("seed", range(12))
def test_what_removing_variables_costs_is_enclosed_for_all_at_once(seed, family, monkeypatch):
    """Categories, groups of columns, weights, offsets, levels that explain their rows: against fits of every model."""
    monkeypatch.setattr(coded_regression, "_WORTH", 0.0)  # also for so few rows
    rng = np.random.default_rng([43, seed])
    n = 260
    codes = [rng.integers(0, levels, n) for levels in (11, 4, 3, 6)]
    X = pd.DataFrame({f"c{j}": pd.Categorical(one) for j, one in enumerate(codes)})
    X[["a", "b", "d"]] = rng.normal(size=(n, 3))
    eta = rng.normal(size=11)[codes[0]] + 0.8 * rng.normal(size=4)[codes[1]] + 0.7 * X["a"].to_numpy()
    y = rng.poisson(np.exp(0.5 * eta)) if family == "poisson" else (eta + rng.logistic(size=n) > 0).astype(int)
    if seed % 3 == 1:
        y[codes[3] == 2] = 0  # a level that is on its way to infinity
    weights = rng.integers(1, 4, n).astype(float) if seed % 2 else None
    about = {"family": family, "sample_weight": weights, "offset": 0.3 * rng.normal(size=n) if seed % 4 == 3 else None}
    about["groups"] = {"both": ["b", "d"]} if seed % 5 == 4 else None
    fits = [read_problem(X, y, [fbed.AIC()], engine=engine, **about).model for engine in ("certified", "exhaustive")]
    selected = [j for j in range(7) if fits[0].design.width[j] > 0]
    coded, whole = (model.fit(selected) for model in fits)
    assert isinstance(coded, CodedFit)
    variables = np.array(selected, dtype=np.intp)
    exact = whole.losses(variables)
    for bar in (1.0, 8.0):
        bounds = coded.loss_bounds(variables, lambda df, bar=bar: bar + 0.0 * df)
        assert_array_equal(bounds.df, exact.df)
        slack = 1e-7 * (1.0 + exact.statistic)
        assert (bounds.lower <= exact.statistic + slack).all()
        assert (exact.statistic <= bounds.upper + slack).all()
    if seed % 3 != 1:
        clear = (bounds.lower > 8.0) | (bounds.upper <= 8.0)
        assert clear.sum() >= len(selected) - 1  # all but the category whose levels are eliminated
    for i, variable in enumerate(selected):
        assert coded.resolve_loss(variable, np.inf)[0] == pytest.approx(exact.statistic[i], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("seed", range(4))
def test_walks_without_a_variable_stay_without_it(seed, family, monkeypatch):
    """However long they go on: at the maximum, rounding in directions that the model lacks would grow."""
    monkeypatch.setattr(coded_regression, "_WORTH", 0.0)  # also for so few rows
    rng = np.random.default_rng(seed)
    n = 400
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    table["group"] = pd.Categorical(rng.integers(0, 40, n).astype(str))
    eta = 2.0 * table["a"] - table["b"] + 0.5 * table["c"]
    y = rng.poisson(np.exp(0.5 * eta)) if family == "poisson" else (eta + rng.logistic(size=n) > 0).astype(int)
    fit, plain = (
        read_problem(table, y, [fbed.BIC()], family=family, engine=engine).model.fit((0, 1, 2, 3, 4))
        for engine in ("certified", "exhaustive")
    )
    assert isinstance(fit, CodedFit)
    variables = [0, 1, 2, 3]
    found = fit._enclosed_without(variables, lambda least, most: np.zeros(len(least), dtype=bool))
    assert found is not None
    least, most, settled = found
    exact = fit.deviance + plain.losses(np.array(variables)).statistic
    assert not settled.any()
    assert (least <= exact * (1.0 + 1e-9)).all()
    assert_allclose(most, exact, rtol=1e-9)


def test_means_beyond_all_numbers_leave_intervals_open(monkeypatch):
    """A walk that begins with infinite means knows nothing of its maximum, and says so."""
    monkeypatch.setattr(coded_regression, "_WORTH", 0.0)
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(200, 2)), columns=list("ab"))
    table["group"] = pd.Categorical(rng.integers(0, 30, 200).astype(str))
    y = rng.poisson(np.exp(0.3 * table["a"]))
    fit = read_problem(table, y, [fbed.BIC()], family="poisson").model.fit((0, 1, 2))
    assert isinstance(fit, CodedFit)
    rows = fit._null
    wild = np.asfortranarray(np.column_stack([rows.predictor, rows.predictor + 600.0 * table["a"].to_numpy()]))
    beside = Without(np.zeros((200, 2)), np.arange(2), 2)
    walks = Walks(rows.projection, rows.outcome, rows.weight, beside, wild, np.zeros(2), np.full(2, np.inf))
    with np.errstate(all="ignore"):
        walks.go(lambda least, most: most - least <= 1e-9 * most)
    assert walks.settled[0]
    assert not np.isnan(walks.least).any()
    assert not np.isnan(walks.most).any()
