"""Linear models from the products of all columns: kernel, dependences, statistics, searches against projections."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fbed
from fbed._kernels import group_gains
from fbed.models.engines.dependences import Dependences
from fbed.models.engines.linear_products import GaussianByProducts, GaussianProductsFit, _not_replaced
from fbed.models.other_statistics.linear import Gaussian, GaussianFit
from fbed.tuning.likelihood import Standardised
from problem_cases import read_problem

SEEDS = range(12)


def collinear_table(seed, n=240):
    """Categories that share levels ('none' of one is 'none' of the next), copies, sums, constants, rare levels."""
    rng = np.random.default_rng(seed)
    there = rng.random(n) < 0.8
    kinds = {f"part {j}": np.where(there, rng.choice([*"abcd"][: 2 + j], n), "none") for j in range(3)}
    area = np.where(there, rng.gamma(2.0, size=n), 0.0)
    rare = np.array(["usual"] * n, dtype=object)
    rare[rng.integers(0, n, 2)] = "rare"
    frame = pd.DataFrame({**kinds, "area": area, "twice": 2 * area + 1, "rare": rare, "none": 3.0})
    for j in range(5):
        frame[f"x{j}"] = rng.normal(size=n) * 10.0 ** rng.integers(-6, 7)
    frame["sum"] = frame["x0"] + frame["area"]
    frame["nearly"] = frame["x1"] * (1 + 10.0 ** -rng.integers(2, 9) * rng.normal(size=n))
    y = there + area - 0.4 * (kinds["part 1"] == "b") + frame["x0"] / frame["x0"].std() + rng.normal(size=n)
    return frame, y.to_numpy(), rng


def both(frame, y, **extras):
    """The model, and the one that projects with nothing left out."""
    model = read_problem(frame, y, [fbed.BIC()], **extras).model
    assert isinstance(model, GaussianByProducts)
    return model, Gaussian(
        model.design, model.careful.y * model.careful.scale / np.sqrt(model.design.weights), fast=False
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_gains_and_losses_are_those_of_projections(seed):
    frame, y, rng = collinear_table(seed)
    extras = {"sample_weight": rng.integers(1, 4, len(y))} if seed % 3 == 0 else {}
    model, twin = both(frame, y, **extras)
    everything, near = np.arange(frame.shape[1]), None
    for size in (0, 1, 2, 4, 7, 11):
        selected = rng.permutation(everything)[:size].tolist()
        fit, slow = model.fit(selected, near), twin.fit(selected)
        near = fit
        for mine, theirs in ((fit.gains(everything), slow.gains(everything)), (fit.losses, slow.losses)):
            if callable(mine):
                if not selected:
                    continue
                mine, theirs = mine(np.array(selected)), theirs(np.array(selected))
            assert_array_equal(mine.df, theirs.df)
            assert_allclose(mine.statistic, theirs.statistic, rtol=1e-7, atol=1e-7)
            assert_allclose(mine.log_p, theirs.log_p, rtol=1e-7, atol=1e-7)
        assert fit.saturated == slow.saturated


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fit_that_grows_is_the_fit(seed):
    """Whatever fit is near: a part of the set, a set that shares a beginning, another one."""
    frame, y, rng = collinear_table(seed)
    model, _ = both(frame, y)
    selected = rng.permutation(frame.shape[1])[:6].tolist()
    alone = model.fit(selected)
    for other in (selected[:3], [*selected[:2], *selected[4:]], selected[::-1], []):
        grown = model.fit(selected, model.fit(other))
        assert type(grown) is type(alone)
        assert_allclose(grown.rss, alone.rss, rtol=1e-10)
        if isinstance(alone, GaussianProductsFit):
            assert (grown.kept, grown.spanned) == (alone.kept, alone.spanned)


@pytest.mark.parametrize("seed", SEEDS)
def test_coefficients_are_those_of_projections(seed):
    frame, y, rng = collinear_table(seed)
    model, twin = both(frame, y, sample_weight=rng.integers(1, 4, len(y)))
    selected = rng.permutation(frame.shape[1] - 1)[:6].tolist()  # 'nearly' has no digits to compare
    mine, theirs = model.describe(selected), twin.describe(selected)
    assert mine.terms == theirs.terms
    scale = np.abs(theirs.coefficients[1:]) + np.array(theirs.standard_errors[1:]) + 1e-300
    assert_allclose(np.array(mine.coefficients[1:]) / scale, np.array(theirs.coefficients[1:]) / scale, atol=1e-8)
    assert_allclose(mine.standard_errors, theirs.standard_errors, rtol=1e-7)
    assert_allclose(mine.correlation, theirs.correlation, atol=1e-7)
    assert mine.deviance == pytest.approx(theirs.deviance, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", [{"alpha": 0.2, "k": np.inf}, {"criterion": "bic", "early_dropping": False}])
def test_searches_are_those_of_every_fit(seed, options):
    frame, y, _ = collinear_table(seed, n=180)
    mine, theirs = (fbed.select(frame, y, engine=engine, **options) for engine in ("certified", "exhaustive"))
    assert mine.selected == theirs.selected
    assert mine.n_tests == theirs.n_tests
    one, other = ([np.nan if s.statistic is None else s.statistic for s in r.trace] for r in (mine, theirs))
    assert_allclose(one, other, rtol=1e-7, atol=1e-8)


def test_what_is_next_to_collinear_or_perfect_is_left_to_projections():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    X[:, 1] = X[:, 0] + 1e-4 * X[:, 1]
    model, _ = both(pd.DataFrame(X), X[:, 2] + 1e-4 * X[:, 3])
    assert isinstance(model.fit([0]), GaussianProductsFit)
    assert isinstance(model.fit([0, 1]), GaussianFit)
    assert isinstance(model.fit([2]), GaussianFit)


def test_few_rows_or_many_columns_are_not_multiplied():
    rng = np.random.default_rng(4)
    for n, p in ((60, 40), (800, 900)):
        X = rng.normal(size=(n, p))
        assert not isinstance(read_problem(X, X[:, 0] + rng.normal(size=n), [fbed.BIC()]).model, GaussianByProducts)


@pytest.mark.parametrize("rank", [0, 2, 5])
def test_the_kernel_explains_what_a_projection_does(rank):
    rng = np.random.default_rng(rank)
    n, widths = 50, np.array([1, 4, 2, 0, 3])
    X = rng.normal(size=(n, 10))
    X[:, 3] = X[:, 1] - 2 * X[:, 2]  # within a group
    model = rng.normal(size=(n, rank))
    if rank:
        X[:, 5] = model @ rng.normal(size=rank)  # of another, in the span of the model
    y = rng.normal(size=n)
    left = X - model @ np.linalg.lstsq(model, X, rcond=None)[0] if rank else X
    L = np.linalg.cholesky(model.T @ model) if rank else np.zeros((0, 0))
    W = np.linalg.solve(L, model.T @ X) if rank else np.zeros((0, 10))
    first = np.cumsum(widths) - widths
    explained, df, delicate, spanned = group_gains(X.T @ X, W, left.T @ y, first, widths, 1e-9, 1e-5)
    for g, (start, width) in enumerate(zip(first, widths, strict=True)):
        own = left[:, start : start + width]
        assert explained[g] == pytest.approx(y @ own @ np.linalg.lstsq(own, y, rcond=None)[0] if width else 0.0)
        assert df[g] == np.linalg.matrix_rank(own, tol=1e-8) if width else df[g] == 0
    assert not delicate.any()
    assert spanned.tolist() == [j == 3 or (j == 5 and rank > 0) for j in range(10)]


def test_the_kernel_refuses_columns_that_are_not_there():
    G, one = np.eye(3), np.ones(1, dtype=np.int64)
    for first, width in ((3 * one, one), (one, 3 * one), (-one, one), (one, -one)):
        with pytest.raises(ValueError):
            group_gains(G, np.zeros((0, 3)), np.zeros(3), first, width, 1e-9, 1e-5)


def test_a_dependence_is_proved_on_the_rows_once():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 5))
    X[:, 3] = X[:, 0] + X[:, 1]
    X[:, 4] = X[:, 0] + X[:, 2] + 1e-5 * rng.normal(size=40)
    reads = []

    def read(columns):
        reads.append(list(columns))
        return X[:, columns]

    known = Dependences(X.T @ X, read)
    assert not known.holds(3, [0, 2])
    assert known.holds(3, [0, 1, 2])
    assert known.known[3] == [frozenset({0, 1})]
    asked = len(reads)
    assert known.holds(3, [2, 1, 0])
    assert known.holds(3, [0, 2], spanned=[1])
    assert len(reads) == asked
    assert not known.holds(4, [0, 1, 2])  # close is not enough


def test_a_variable_is_replaced_by_those_that_span_it():
    assert_array_equal(_not_replaced(np.empty((2, 0))), np.eye(2))
    left = _not_replaced(np.array([[1.0], [1.0]]))
    assert left.shape == (2, 1)
    assert abs(left[0, 0] + left[1, 0]) < 1e-12
    assert _not_replaced(np.array([[1.0, 0.0], [0.0, 1e-5]])) is None


def test_columns_of_the_final_model_are_those_that_projections_keep():
    frame, y, rng = collinear_table(7)
    problem = read_problem(frame, y, [fbed.BIC()], sample_weight=rng.integers(1, 4, len(y)))
    selected = [0, 3, 1, 4, 2, 12, 7]
    on = Standardised(problem, selected)
    independent = []
    for j in range(on._whole.shape[1]):
        if np.linalg.matrix_rank(on._whole[:, [*independent, j]], tol=1e-6) > len(independent):
            independent.append(j)
    assert on.kept.tolist() == independent
    gram, products = on.squares
    weighted, error = problem.weights[:, None] * on.X, 1e-9 * len(y)
    assert_allclose(gram, weighted.T @ on.X, atol=error)
    assert_allclose(products, weighted.T @ (y - y @ problem.weights / problem.weights.sum()), atol=error)
