"""Categories and groups in the logistic engine: sums by level, bounds on the way up, whole searches against fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import fbed
from category_cases import category_case, differ
from fbed._kernels import logistic_divergence, logistic_reach, logistic_rows, profile_levels, sums_by_level
from fbed.models.engines.categories.ascent import Ascent, unexplained
from fbed.models.engines.categories.coded_columns import Category, CodedColumns, pivoted
from fbed.models.engines.categories.coded_fit import CodedFit
from fbed.models.engines.categories.row_likelihoods import BinaryRows
from problem_cases import read_problem

RNG = np.random.default_rng(20)


def indicators(category):
    return (category.codes[:, None] == np.arange(category.n_levels)).astype(float)


def some_columns(n=120, levels=7, others=(5,), k=3, seed=1):
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.2, 3.0, n)
    first = Category(rng.integers(0, levels, n).astype(np.int8), levels)
    rest = [Category(rng.integers(0, size, n).astype(np.int16), size) for size in others]
    return CodedColumns(first, rng.normal(size=(n, k)), weight, rest), weight


def as_matrix(columns):
    parts = [indicators(other.category)[:, other.kept] for other in columns.others]
    return np.hstack([indicators(columns.levels), columns.columns, *parts])


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_sums_by_level_are_sums_over_rows(kind):
    codes, weight, Z = (
        RNG.integers(0, 9, 50).astype(kind),
        RNG.uniform(size=50),
        np.asfortranarray(RNG.normal(size=(50, 4))),
    )
    expected = [[(weight * z)[codes == level].sum() for z in Z.T] for level in range(11)]
    assert_allclose(sums_by_level(codes, 11, weight, Z), expected, atol=1e-13)


def test_sums_by_level_refuse_codes_that_are_no_levels():
    for codes in (np.array([0, 3], dtype=np.int8), np.array([0, -1], dtype=np.int8)):
        with pytest.raises(ValueError):
            sums_by_level(codes, 3, np.ones(2), np.ones((2, 1), order="F"))


def test_rows_of_a_logistic_model():
    eta, y, a = 5 * RNG.normal(size=40), RNG.integers(0, 2, 40).astype(float), RNG.uniform(0.1, 2, 40)
    a[:3] = 0.0
    deviance, least, most, mean, residual, curvature = logistic_rows(eta, y, a)
    margin = ((2 * y - 1) * eta)[3:]
    assert deviance == pytest.approx(2 * a @ np.logaddexp(0, (1 - 2 * y) * eta), rel=1e-13)
    assert (least, most) == pytest.approx((margin.min(), max(margin.max(), 0)))
    assert_allclose(mean, special.expit(eta), rtol=1e-12)
    assert_allclose(residual, a * (y - special.expit(eta)), rtol=1e-12, atol=1e-300)
    assert_allclose(curvature, a * special.expit(eta) * special.expit(-eta), rtol=1e-12)
    step = RNG.normal(size=40)
    z = np.concatenate([(1 - mean) * step, -mean * step]).reshape(2, 40)[:, 3:]
    assert logistic_reach(mean, step, curvature) == pytest.approx((z.min(), z.max(), np.abs(step[3:]).max()))


def test_divergence_of_means():
    mean, weight = RNG.uniform(0.1, 0.9, 30), RNG.uniform(0.5, 2, 30)
    change = weight * RNG.uniform(-0.09, 0.09, 30)
    other = mean + change / weight
    expected = 2 * weight @ (special.rel_entr(other, mean) + special.rel_entr(1 - other, 1 - mean))
    assert logistic_divergence(mean, change, weight) == pytest.approx(expected, rel=1e-9)
    assert logistic_divergence(mean, weight * 1.1, weight) == np.inf


def test_levels_alone_are_profiled():
    codes, eta = RNG.integers(0, 6, 200).astype(np.int8), 2 * RNG.normal(size=200)
    y = (RNG.uniform(size=200) < 0.5).astype(float)
    y[codes == 2], y[codes == 3] = 1.0, 0.0
    shift = profile_levels(codes, 7, eta, y, np.ones(200))
    assert_array_equal(shift[[2, 3, 6]], [np.inf, -np.inf, 0.0])
    for level in (0, 1, 4, 5):
        rows = codes == level
        assert special.expit(eta[rows] + shift[level]).sum() == pytest.approx(y[rows].sum(), abs=1e-4)


def test_newton_steps_by_codes_are_newton_steps():
    columns, weight = some_columns(others=(5, 4))
    X, residual = as_matrix(columns), RNG.normal(size=len(weight))
    gradient, hessian = X.T @ residual, X.T @ (weight[:, None] * X)
    step = columns.newton(residual, weight)
    direct = np.linalg.solve(hessian, gradient)
    assert_allclose(np.concatenate([step.by_level, step.beside]), direct, rtol=1e-9)
    assert_allclose(step.move, X @ direct, rtol=1e-9)
    assert step.decrement == pytest.approx(gradient @ direct, rel=1e-11)


def test_what_depends_on_levels_is_left_out():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 12, 150).astype(np.int8)
    coarse = Category((codes % 3).astype(np.int8), 3)
    level_means = rng.normal(size=12)[codes]
    columns = CodedColumns(
        Category(codes, 12), np.column_stack([level_means, rng.normal(size=150)]), np.ones(150), [coarse]
    )
    assert_array_equal(columns.independent(), [1])
    assert columns.only(np.array([1])).size == 1


def test_a_category_that_adds_nothing_leaves_no_doubt():
    """All that is left of nested levels is rounding, which is no pivot, not even the first."""
    rng = np.random.default_rng(5)
    fine, weight = rng.integers(0, 40, 600).astype(np.int8), 10 ** rng.uniform(-1, 1, 600)
    columns = CodedColumns(Category(fine, 40), np.zeros((600, 0)), weight, [Category(fine // 4, 10)])
    assert_array_equal(columns.independent(), [])
    factor, kept = pivoted(np.diag([1e-16, 1e-17]), 1e-12)
    assert factor.shape == (0, 0)
    assert len(kept) == 0


def test_rows_of_levels_of_one_class_are_no_part_of_the_question():
    one = Category(np.array([0, 0, 1, 1, 2, 2], dtype=np.int8), 3)
    two = Category(np.array([0, 1, 0, 1, 1, 1], dtype=np.int8), 2)
    y = np.array([1.0, 1, 0, 1, 0, 1])  # level 0 of `one` is pure, and without its rows level 0 of `two` is
    assert_array_equal(unexplained([one], BinaryRows(y), np.ones(6)), [0, 0, 1, 1, 1, 1])
    assert_array_equal(unexplained([one, two], BinaryRows(y), np.ones(6)), [0, 0, 0, 0, 1, 1])


@pytest.mark.parametrize("seed", range(30))
def test_every_interval_on_the_way_up_holds_the_deviance(seed):
    rng = np.random.default_rng(seed)
    columns, weight = some_columns(n=int(rng.integers(40, 300)), levels=int(rng.integers(2, 12)), seed=seed)
    signal = 2 * rng.choice([0.2, 1, 3]) * columns.columns[:, 0] + rng.normal(size=12)[columns.levels.codes]
    y = (signal + rng.logistic(size=len(signal)) > 0).astype(float)
    start = np.zeros(len(y))
    seen = []
    found = Ascent(columns, BinaryRows(y), weight, start).enclose(lambda least, most: seen.append((least, most)))
    assert found.settled
    assert found.least == found.most
    for least, most in seen:
        assert least <= found.least * (1 + 1e-10)
        assert found.most <= most * (1 + 1e-10)


@pytest.mark.parametrize("seed", [*range(24), 910809])
def test_bounds_choose_as_fits_do(seed):
    """In the last one two categories are so alike that LAPACK had no answer about their correlation."""
    assert differ(seed) is None


@pytest.mark.parametrize("family", ["poisson", "cox", "multinomial"])
@pytest.mark.parametrize("seed", range(3))
def test_other_families_choose_as_fits_do(family, seed):
    assert differ(seed, family) is None


def many_levels(n=400, seed=2, pure=False):
    rng = np.random.default_rng(seed)
    codes, other, x = rng.integers(0, 20, n), rng.integers(0, 6, n), rng.normal(size=(n, 2))
    y = (rng.normal(size=20)[codes] + x[:, 0] + 0.5 * (other == 2) + rng.logistic(size=n) > 0).astype(int)
    if pure:
        y[codes == 4] = 1
    return pd.DataFrame(
        {"x0": x[:, 0], "big": [f"b{c:02d}" for c in codes], "small": [f"s{c}" for c in other], "x1": x[:, 1]}
    ), y


@pytest.mark.parametrize("pure", [False, True])
def test_a_model_in_codes_is_described_as_one_in_columns(pure):
    table, y = many_levels(pure=pure)
    model = read_problem(table, y, [fbed.BIC()]).model
    fit = model.fit([0, 1, 2])
    assert isinstance(fit, CodedFit)
    coded = fit.describe()
    dense = model.dense_fit([0, 1, 2])
    assert fit.deviance == pytest.approx(dense.deviance, abs=1e-7)
    model.fit = lambda selected, near=None: dense
    expected = model.describe([0, 1, 2])
    assert coded.terms == expected.terms
    assert coded.infinite == expected.infinite
    finite = np.isfinite(expected.coefficients)
    assert finite.sum() == len(finite) - pure
    assert_allclose(np.array(coded.coefficients)[finite], np.array(expected.coefficients)[finite], rtol=1e-5, atol=1e-6)
    assert_allclose(coded.standard_errors, expected.standard_errors, rtol=1e-4)
    assert_array_equal(np.isinf(coded.coefficients), ~finite)


def test_a_path_through_models_in_codes_is_the_same_as_single_searches():
    table, y = many_levels(n=700, seed=5)
    alphas = (0.001, 0.05, 0.3)
    path = fbed.path(table, y, alphas=alphas, gammas=(), ks=(0, 1), fbs=False)
    assert len(path) == 6
    for setting, found in zip(path.settings, path, strict=True):
        for engine in ("certified", "exhaustive"):
            single = fbed.select(table, y, engine=engine, alpha=setting.value, k=setting.k)
            assert found.selected == single.selected
            assert found.n_tests == single.n_tests


def test_an_offset_of_nothing_and_unit_weights_change_nothing():
    table, y = many_levels(n=500, seed=7)
    told = [
        [(row.action, row.variable, row.statistic) for row in fbed.select(table, y, **how).trace]
        for how in ({}, {"offset": np.zeros(len(y))}, {"sample_weight": np.ones(len(y))})
    ]
    assert told[0] == told[1] == told[2]


def test_groups_and_categories_are_hardly_ever_fitted(monkeypatch):
    table, y, how = category_case(3)
    fitted = []
    monkeypatch.setattr(
        "fbed.models.engines.binomial.CertifiedBinomialFit.deviance_with",
        lambda self, v: fitted.append(v) or pytest.fail("fit"),
    )
    fbed.select(table, y, **how)
    assert fitted == []


@pytest.mark.parametrize("seed", [6, 47, 2338, 2873])
def test_what_is_shown_has_the_deviance_that_was_found(seed):
    """Levels and a column at infinity: a fit on columns that starts far out there may tell equal rows apart."""
    rng = np.random.default_rng([15, seed])
    codes, x = rng.integers(0, 5, 43), (rng.random(43) < 0.1) * 1.0
    y = (codes == 4).astype(int)
    y[np.flatnonzero(x > 0)[:1]] = 1
    X = pd.DataFrame({"c": [f"l{code}" for code in codes], "x": x})
    found = fbed.select(X, y, sample_weight=10 ** rng.uniform(-1, 1, 43), k=0, criterion="aic")
    gained = sum(row.statistic for row in found.trace if row.action == "add")
    assert found.model.deviance == pytest.approx(found.model.null_deviance - gained, rel=1e-8, abs=1e-7)


def test_what_others_stand_in_for_costs_nothing():
    """Not even rounding, which no criterion of no df would forgive."""
    rng = np.random.default_rng(14)
    fine, x = rng.integers(0, 30, 400), (rng.random(400) < 0.1) * rng.poisson(2.0, 400)
    y = (rng.random(400) < 1 / (1 + np.exp(-2.0 * rng.normal(size=30)[fine]))).astype(int)
    y[x > 0] = 1
    X = pd.DataFrame({"coarse": (fine // 5).astype(str), "x": x, "fine": fine.astype(str)})
    for offset in (None, rng.normal(size=400)):
        fit = read_problem(X, y, [fbed.BIC()], offset=offset).model.fit([0, 1, 2])
        assert isinstance(fit, CodedFit)
        bounds = fit.loss_bounds(np.array([0, 2]), lambda df: 3.0 * df)
        assert (bounds.lower[0], bounds.upper[0], bounds.df[0]) == (0.0, 0.0, 0.0)
        assert bounds.df[1] == 24.0
        assert fit.resolve_loss(0, 1.0) == (0.0, 0.0)


@pytest.mark.parametrize("seed", range(40))
def test_removals_beside_codes_are_enclosed(seed):
    """Bounds on what a column of numbers is worth to a model with a large category, by a fit without it."""
    rng = np.random.default_rng([77, seed])
    n, n_levels = int(rng.integers(150, 500)), int(rng.integers(17, 50))
    codes = rng.integers(0, n_levels, n)
    X = pd.DataFrame({"c": codes.astype(str), "d": rng.integers(0, 20, n).astype(str), "x": rng.normal(size=n)})
    X["heavy"], X["rare"] = rng.standard_t(1, n), (rng.random(n) < 0.05) * 1.0
    eta = rng.normal(size=n_levels)[codes] + 0.8 * rng.normal() * X["x"] - rng.choice([0, 2])
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    y[:2], y[2:4] = 0, 1
    options = {"offset": rng.normal(size=n) if seed % 3 == 0 else None, "sample_weight": rng.integers(1, 4, n)}
    model = read_problem(X, y, [fbed.BIC()], family="binomial", **options).model
    selected = [0, 2, 3, 4] if seed % 2 else [0, 1, 2, 3, 4]
    fit = model.fit(selected)
    assert isinstance(fit, CodedFit)
    variables = np.array([2, 3, 4])
    bounds = fit.loss_bounds(variables, lambda df: np.full(df.shape, 3.84))
    assert bounds.df.tolist() == [1, 1, 1]
    for variable in variables.tolist():
        worth = model.fit([s for s in selected if s != variable]).deviance - fit.deviance
        for enough in (3.84, np.inf):
            lower, upper = fit.resolve_loss(variable, enough)
            assert lower <= worth + 1e-7 * (1.0 + worth)
            assert upper >= worth - 1e-7 * (1.0 + worth)
            assert lower > enough or lower == upper


@pytest.mark.parametrize("seed", range(6))
def test_columns_that_are_multiplied_are_those_that_are_counted(seed, monkeypatch):
    others, k = ((), (5,), (5, 3, 4))[seed % 3], seed // 3 * 3
    dense, weight = some_columns(others=others, k=k, seed=seed)
    assert dense.expanded is not None
    monkeypatch.setattr("fbed.models.engines.categories.coded_columns._FEW_VALUES", -1)
    counted, _ = some_columns(others=others, k=k, seed=seed)
    assert counted.expanded is None
    rng = np.random.default_rng(seed)
    rows, X, steps = (
        rng.normal(size=120),
        np.asfortranarray(rng.normal(size=(120, 2))),
        rng.normal(size=(dense.size, 2)),
    )
    levels = rng.normal(size=(dense.levels.n_levels, 2))
    for ask in (
        lambda c: c.norms,
        lambda c: c.gram(weight),
        lambda c: c.by_level(weight)[1],
        lambda c: c.inner(X),
        lambda c: c.cross(weight, X),
        lambda c: c.predict(levels, steps),
        lambda c: c.newton(rows, weight).move,
        lambda c: c.ranked()[0],
    ):
        assert_allclose(ask(dense), ask(counted), atol=1e-10)


def skewed_classes(seed=30947):
    """Classes that five categories of up to thirty levels explain nearly all of, with weights of 0 to 3."""
    rng = np.random.default_rng(seed)
    n, columns = int(rng.integers(40, 500)), {}
    for j in range(rng.integers(1, 6)):
        n_levels = min(int(rng.choice([2, 3, 5, 12, 30])), n // 2)
        part = 1 / (np.arange(n_levels) + rng.uniform(0.5, 5))
        columns[f"c{j}"] = pd.Categorical([f"l{code:03d}" for code in rng.choice(n_levels, n, p=part / part.sum())])
    for j in range(rng.integers(0, 8)):
        kind = rng.integers(4)
        if kind < 2:
            columns[f"x{j}"] = rng.poisson(0.3, n).astype(float) if kind else rng.normal(size=n)
        else:
            columns[f"x{j}"] = (
                (rng.random(n) < 0.1) * 1.0 if kind == 2 else rng.normal(size=n) * 10.0 ** rng.integers(-5, 6)
            )
    if rng.random() < 0.3 and "x0" in columns:
        columns["dup"] = columns["x0"] * 2 + 1
    if rng.random() < 0.3:
        columns["cdup"] = columns["c0"].rename_categories(lambda level: level + "b")
    X, signal = pd.DataFrame(columns), np.zeros(n)
    for name in X:
        column = X[name]
        if column.dtype.name == "category":
            effects = rng.normal(size=len(column.cat.categories)) * rng.choice([0, 0.3, 1, 3])
            signal = signal + effects[column.cat.codes]
        else:
            signal = signal + rng.choice([0, 0.5, 2]) * (column - column.mean()) / (column.std() + 1e-300)
    rng.choice(6)  # which family
    utility = np.column_stack(
        [np.asarray(signal) * rng.normal() + rng.gumbel(size=n) for _ in range(rng.integers(3, 7))]
    )
    y = np.array([f"k{best}" for best in utility.argmax(axis=1)])
    assert rng.random() < 0.3
    return X, y, rng.integers(0, 4, n).astype(float)


def test_classes_that_categories_explain_nearly_all_of():
    """Flat directions that are coupled with others: cut loose from them, a fit would end short of its maximum."""
    X, y, weight = skewed_classes()
    how = {"family": "multinomial", "criterion": "aic", "k": 1, "sample_weight": weight}
    fast, slow = (fbed.select(X, y, engine=engine, **how) for engine in ("certified", "exhaustive"))
    assert fast.selected == slow.selected == ("c4", "c2", "c3", "c0", "x0")
    assert fast.n_tests == slow.n_tests
    assert_allclose([row.statistic for row in fast.trace[:5]], [row.statistic for row in slow.trace[:5]], rtol=1e-9)
    assert fast.model.deviance == pytest.approx(416.395213145, rel=1e-9)
