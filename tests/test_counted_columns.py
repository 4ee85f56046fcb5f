"""Products of columns by counting, beside those of columns that are written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed.families import builders
from fbed.matrix import counted_columns
from fbed.matrix.candidate_steps import predictors, remainder, steps
from fbed.matrix.counted_columns import CountedColumns, counted
from fbed.matrix.row_blocks import RowBlocks
from fbed.models.engines.tall.factor import Factor
from fbed.models.engines.tall.fit import TallFit
from fbed.result import overview
from problem_cases import read_problem


def table(rng, n):
    """Categories of few and many levels, one of them nearly constant, numbers, and numbers that are missing."""
    codes = {"two": 2, "many": 40, "some": 7}
    data = {name: pd.Categorical(rng.integers(0, size, n).astype(str)) for name, size in codes.items()}
    data["rare"] = pd.Categorical(np.where(rng.random(n) < 0.02, "a", "b"))
    data |= {f"x{j}": 10.0 ** rng.integers(-3, 4) * rng.normal(size=n) + rng.integers(0, 9) for j in range(3)}
    data["gap"] = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    frame = pd.DataFrame(data)
    return frame[rng.permutation(frame.columns)]


def blocks_of(rng, n=500, weighted=True):
    weights = rng.integers(1, 5, n) if weighted else None
    problem = read_problem(table(rng, n), rng.normal(size=n), [fbed.BIC()], sample_weight=weights, missing="indicator")
    return RowBlocks(problem.design)


@pytest.mark.parametrize("seed", range(8))
def test_equal_to_expanded_columns(seed):
    rng = np.random.default_rng(seed)
    blocks = blocks_of(rng, weighted=seed % 2 == 0)
    design, whole = blocks.design, slice(0, blocks.design.n_rows)
    variables = rng.permutation(np.flatnonzero(design.width > 0)).tolist()
    left, right = variables[:5], variables[3:]
    weight, vector = rng.random(design.n_rows), rng.normal(size=design.n_rows)
    for constant in (True, False):
        Z, X = blocks.model(left, constant)(whole), blocks.model(right, constant)(whole)
        mine, others = CountedColumns(blocks, left, constant), CountedColumns(blocks, right, constant)
        np.testing.assert_allclose(mine.gram(weight), Z.T @ (weight[:, None] * Z), rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(mine.between(others, weight), Z.T @ (weight[:, None] * X), rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(mine.along(vector), Z.T @ vector, rtol=1e-11, atol=1e-9)
        B = rng.normal(size=(Z.shape[1], 3))
        part = slice(100, 350)
        np.testing.assert_allclose(mine.predict(part, B), Z[part] @ B, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(mine.predict(part, B[:, 0]), Z[part] @ B[:, 0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_steps_and_remainders(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    blocks = blocks_of(rng)
    design, whole = blocks.design, slice(0, blocks.design.n_rows)
    single = np.flatnonzero(design.varying)
    selected = [int(v) for v in rng.permutation(np.flatnonzero(~design.varying & (design.width > 0)))]
    gamma = rng.normal(size=1 + blocks.width(selected))
    own = [rng.normal(size=1) for _ in single]
    along = rng.normal(size=(len(gamma), len(single)))
    found = []
    for cost in (0, 1e9):
        monkeypatch.setattr(counted_columns, "_AN_ADDITION", cost)
        assert (counted(blocks, selected) is None) == (cost > 0)
        found.append(
            [
                predictors(blocks, selected, gamma)(whole),
                steps(blocks, selected, single, own, along)(whole),
                *remainder(blocks, selected, int(single[0]), gamma),
            ]
        )
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "cox"])
@pytest.mark.parametrize("seed", range(3))
def test_searches_that_count_equal_exhaustive_ones(family, seed, monkeypatch):
    monkeypatch.setattr(counted_columns, "_AN_ADDITION", 0)
    monkeypatch.setattr(builders, "TALL", 0)
    rng = np.random.default_rng([9, seed])
    n = 700
    X = table(rng, n)
    effect = 0.6 * rng.normal(size=41)[X["many"].cat.codes] + 0.5 * (X["rare"] == "a") + 0.3 * X["gap"].fillna(0.0)
    if family == "gaussian":
        y = effect + rng.normal(size=n)
    elif family == "binomial":
        y = rng.random(n) < 1 / (1 + np.exp(-effect))
    elif family == "poisson":
        y = rng.poisson(np.exp(effect))
    else:
        y = np.rec.fromarrays([rng.random(n) < 0.7, rng.exponential(size=n) * np.exp(-effect)], names="event,time")
    how = {"family": family, "missing": "indicator", "sample_weight": rng.integers(1, 3, n), "test": "lr"}
    for search in ({"k": 1}, {"early_dropping": False, "criterion": "bic"}):
        fast, slow = (fbed.select(X, y, engine=engine, **how, **search) for engine in ("certified", "exhaustive"))
        assert fast.selected == slow.selected
        assert fast.n_tests == slow.n_tests
        for one, other in zip(fast.trace, slow.trace, strict=True):
            assert one.variable == other.variable
            assert one.statistic is None or one.statistic == pytest.approx(other.statistic, rel=1e-6, abs=1e-6)
        np.testing.assert_allclose(fast.model.coefficients, slow.model.coefficients, rtol=1e-5, atol=1e-5)


def test_large_categories_are_not_expanded(monkeypatch):
    """With fewer rows than tall data have: the ordinary models would write out every level."""
    monkeypatch.setattr(builders, "_SOONER", 1.0)
    rng = np.random.default_rng(4)
    X, y = (
        pd.DataFrame({"c": rng.integers(0, 60, 1200).astype(str), "x": rng.normal(size=1200)}),
        rng.poisson(1.0, 1200),
    )
    assert type(read_problem(X, y, [fbed.BIC()], family="poisson").model).__name__ == "TallModel"
    assert type(read_problem(X[:900], y[:900], [fbed.BIC()], family="poisson").model).__name__ != "TallModel"
    assert type(read_problem(X[["x"]], y, [fbed.BIC()], family="poisson").model).__name__ != "TallModel"


@pytest.mark.parametrize("family", ["binomial", "poisson", "multinomial", "cox", "weibull"])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_rows_are_the_same_by_counting(family, seed, monkeypatch):
    """P-values of a category that is sparse, given others; one of the selected is nested in it."""
    rng = np.random.default_rng([5, seed])
    n = 400
    wide = rng.integers(0, 90, n)
    X = pd.DataFrame({"wide": wide.astype(str), "nested": (wide % 20).astype(str)})
    X["other"], X["x"] = rng.integers(0, 25, n).astype(str), rng.normal(size=n)
    eta = 0.5 * X["x"].to_numpy() + 0.4 * rng.normal(size=90)[wide]
    survival = [rng.random(n) < 0.7, rng.weibull(1.3, n) * np.exp(-eta)]
    y = {
        "binomial": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": rng.poisson(np.exp(eta)),
        "multinomial": np.digitize(eta + rng.logistic(size=n), [-1, 1]).astype(str),
    }.get(family, np.rec.fromarrays(survival, names="event,time"))
    weights = rng.integers(1, 3, n)
    for tall in (0, 10**9):
        monkeypatch.setattr(builders, "TALL", tall)
        found = []
        for cost in (0, 1e9):
            monkeypatch.setattr(counted_columns, "_AN_ADDITION", cost)
            problem = read_problem(X, y, [fbed.LikelihoodRatio()], family=family, sample_weight=weights)
            assert 0 in problem.sparse
            for selected in ([], [3], [1, 2, 3], [2, 3]):
                evidence = problem.paired_model.fit(selected).gains(np.array([0]))
                found.append([float(evidence.statistic[0]), float(evidence.df[0]), float(evidence.log_p[0])])
        by_counting, written_out = np.array(found[:4]), np.array(found[4:])
        np.testing.assert_allclose(by_counting, written_out, rtol=1e-7, atol=1e-7)
    assert written_out[2, 1] < written_out[0, 1]


def test_half_of_a_solution_and_its_other_half():
    rng = np.random.default_rng(8)
    A, right = rng.normal(size=(60, 9)) * 10.0 ** rng.integers(-3, 4, 9), rng.normal(size=(9, 4))
    H, delta = A.T @ A, rng.normal(size=4)
    factor = Factor(H)
    half = factor.halved(right)
    np.testing.assert_allclose(half.T @ half, right.T @ np.linalg.solve(H, right), rtol=1e-9)
    np.testing.assert_allclose(factor.completed(half @ delta), np.linalg.solve(H, right @ delta), rtol=1e-9)
    np.testing.assert_allclose(factor.inverse(), np.linalg.inv(H), rtol=1e-9)


@pytest.mark.parametrize("dependent", [False, True])
def test_associations_by_determinants_are_those_by_an_inverse(dependent, monkeypatch):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(300, 9)) @ rng.normal(size=(9, 9))
    if dependent:
        X[:, 8] = X[:, 0] + X[:, 4]
    inner, places = X.T @ X / 300, [slice(0, 3), slice(3, 4), slice(4, 4), slice(4, 9)]
    by_determinants = overview._inflation(inner, places)
    monkeypatch.setattr(overview, "_FEW_VARIABLES", 0)
    if dependent:
        assert [value > 1e6 for value in by_determinants] == [
            value > 1e6 for value in overview._inflation(inner, places)
        ]
    else:
        np.testing.assert_allclose(by_determinants, overview._inflation(inner, places), rtol=1e-5)
        for unit in (1e-80, 1e80):  # determinants beyond all numbers
            np.testing.assert_allclose(by_determinants, overview._inflation(inner * unit, places), rtol=1e-5)
    for shape in ((5, 3), (3, 5), (2, 2)):
        block = rng.normal(size=shape)
        assert overview._largest(block) == pytest.approx(np.linalg.norm(block, 2), rel=1e-12)


def test_what_an_addition_gained_is_what_its_removal_costs(monkeypatch):
    without = TallFit._without
    rng = np.random.default_rng(10)
    X = pd.DataFrame({"c": rng.integers(0, 30, 3000).astype(str), "d": rng.integers(0, 4, 3000).astype(str)})
    y = rng.poisson(np.exp(0.5 * (X["c"].astype(int) % 3)))
    model = read_problem(X, y, [fbed.BIC()], family="poisson").model
    smaller = model.fit([0])
    (gained,), _ = smaller.contest(np.array([1]), np.zeros(1), np.ones(1), race=True)
    larger, anew = model.fit([0, 1], smaller), model.fit([0, 1])
    assert isinstance(larger, TallFit)
    monkeypatch.setattr(TallFit, "_without", lambda self, v, e: without(self, v, e) if self is anew or v == 0 else None)
    assert larger.resolve_loss(1, np.inf) == (gained, gained)
    assert anew.resolve_loss(1, np.inf)[0] == pytest.approx(gained, rel=1e-8, abs=1e-8)
    assert larger.resolve_loss(0, np.inf)[0] == pytest.approx(anew.resolve_loss(0, np.inf)[0], rel=1e-8)
