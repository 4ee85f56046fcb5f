"""Columns that are mostly 0, multiplied by their entries: what is found side by side with all their zeros."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fbed
from fbed._kernels import ProductsAtRisk, RareColumns
from fbed.families import builders
from fbed.matrix import scattered_columns
from fbed.matrix.row_blocks import RowBlocks
from fbed.matrix.scattered_columns import scattered, scattered_products
from fbed.models.engines.tall.course import Course
from fbed.models.engines.tall.information_at_risk import information_by_entries
from fbed.models.engines.tall.row_sums import RowSums
from problem_cases import read_problem
from rare_cases import compared

FEW, MANY = np.arange(0, 20, 2), np.arange(1, 40, 2)


def table(seed, n=700, p=40):
    """Counts, some of them rare, one as good as everywhere, of any sign and size."""
    rng = np.random.default_rng([41, seed])
    X = (
        rng.poisson(1.5, (n, p))
        * (rng.random((n, p)) < rng.choice([0.02, 0.1, 0.3], p))
        * 10.0 ** rng.uniform(-3, 3, p)
    )
    X[:, ::7] *= np.sign(rng.normal(size=(n, X[:, ::7].shape[1])))
    X[:, 4] = (rng.random(n) < 0.8) * 1.0
    return sparse.csc_matrix(X), rng


def blocks_of(X):
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 4, X.shape[0])
    return RowBlocks(
        read_problem(X, rng.poisson(1.0, X.shape[0]), [fbed.BIC()], family="poisson", sample_weight=weights).design
    )


@pytest.mark.parametrize("seed", range(6))
def test_products_are_those_of_all_rows(seed):
    X, rng = table(seed)
    blocks = blocks_of(X)
    few = scattered(blocks, FEW)
    n = X.shape[0]
    Z, Y = blocks.model(FEW)(slice(0, n)), blocks.gather(blocks.design.positions(MANY), slice(0, n))
    weight, rows, coefficients = rng.random(n), rng.normal(size=n), rng.normal(size=1 + len(FEW))
    close = {"rtol": 1e-11, "atol": 1e-11 * n}
    np.testing.assert_allclose(few.predict(coefficients), Z @ coefficients, **close)
    np.testing.assert_allclose(few.along(rows), Z.T @ rows, **close)
    np.testing.assert_allclose(few.gram(weight), Z.T @ (weight[:, None] * Z), **close)
    np.testing.assert_allclose(few.between(MANY, weight), Z.T @ (weight[:, None] * Y), **close)
    own, along = rng.normal(size=len(MANY)), rng.normal(size=(1 + len(FEW), len(MANY)))
    np.testing.assert_allclose(few.steps(MANY, own, along), Y * own - Z @ along, **close)
    products = scattered_products(blocks, FEW, MANY, weight)
    np.testing.assert_allclose(products, Z[:, 1:].T @ (weight[:, None] * Y), **close)


def test_who_is_not_worth_it():
    X, _ = table(0)
    dense = blocks_of(X.toarray())
    blocks = blocks_of(X)
    assert scattered(dense, FEW) is None
    assert scattered(blocks, FEW[:3]) is None
    X = X.tolil()
    X[:, 2] = 1e6 + np.arange(X.shape[0])[:, None]
    assert scattered(blocks_of(X.tocsc()), FEW) is None  # its centre is many scales from 0


@pytest.mark.parametrize("counts", [True, False], ids=["counts", "classes"])
@pytest.mark.parametrize("seed", range(4))
def test_the_tall_engine_finds_the_same(seed, counts, monkeypatch):
    """Sweeps, looks and brackets of rare columns, by entries and by blocks of rows."""
    X, rng = table(seed)
    n = X.shape[0]
    y = (rng.poisson(1.0, n) if counts else rng.integers(2, size=n)).astype(float)
    sums = [RowSums(blocks_of(X), y, np.ones(n), rng.normal(size=n) * 0.1, counts) for _ in range(2)]
    sums[1].offset = sums[0].offset
    monkeypatch.setattr(sums[1], "_scattered", lambda selected: None)
    selected, coefficients = tuple(FEW.tolist()), np.append(0.1, rng.normal(size=len(FEW)) * 0.05)
    assert sums[0]._scattered(selected) is not None
    one, other = (s.sweep(selected, coefficients) for s in sums)
    close = {"rtol": 1e-9, "atol": 1e-8}
    assert one.loss == pytest.approx(other.loss, rel=1e-12)
    np.testing.assert_allclose(one.gradient, other.gradient, **close)
    np.testing.assert_allclose(one.information, other.information, **close)
    looks = [s.look(other.rows, selected, MANY) for s in sums]
    for name in ("score", "cross", "own"):
        np.testing.assert_allclose(getattr(looks[0], name), getattr(looks[1], name), **close)
    own, along = rng.normal(size=(len(MANY), 1)) * 0.1, rng.normal(size=(1 + len(FEW), len(MANY))) * 0.02
    one, again = (s.moments(other.rows, selected, MANY, list(own), along) for s in sums)
    np.testing.assert_allclose(one, again, rtol=1e-9, atol=1e-9)
    rare = np.array([v for v in MANY if sums[0].design.mostly_zero[sums[0].design.positions([v])[0]]])
    reach = np.append(1.0, sums[0].blocks.reach(selected))
    found = [s.enclose_rare(other, selected, rare, reach, 0.0) for s in sums]
    for mine, its in zip(*found, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-6)


def test_rows_are_told_once():
    X, _ = table(0)
    blocks = blocks_of(X)
    few, n = scattered(blocks, FEW), X.shape[0]
    columns = RareColumns(True, blocks.design.matrix, np.array([1]), np.ones(n), np.ones(n), np.ones(n), 1 + len(FEW))
    few.tell(columns, None)
    with pytest.raises(ValueError, match="all rows"):
        few.tell(columns, None)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("seed", range(20, 36))
def test_searches_equal_exhaustive(seed, family, monkeypatch):
    """However few columns a model has."""
    monkeypatch.setattr(builders, "TALL", 0)
    monkeypatch.setattr(scattered_columns, "_SMALLEST", 1)
    monkeypatch.setattr(scattered_columns, "_PAYS", np.inf)
    assert compared(seed, family) is None


@pytest.mark.parametrize("seed", range(8))
def test_information_of_survival_times_is_that_of_all_rows(seed):
    """Ties, strata, weights, rows that are never at risk, and hazards that are far apart."""
    X, rng = table(seed)
    n = X.shape[0]
    time, strata = rng.exponential(size=n) + 0.1, np.sort(rng.integers(1 + 2 * (seed % 3 == 0), size=n))
    time = np.ceil(3.0 * time) if seed % 2 else time
    order = np.lexsort((-time, strata))
    event, weights = rng.random(n) < 0.6, rng.integers(1, 4, n).astype(float)
    course = Course.of(time[order], event[order], strata[order], weights)
    left = np.where(event[order] | (rng.random(n) < 0.9), weights, 0.0)
    rows, _ = course.state(rng.normal(size=n) * (1.0 + 6.0 * (seed > 5)), left)
    blocks = blocks_of(X)
    few, Z = scattered(blocks, FEW), blocks.model(FEW, constant=False)(slice(0, n))
    sums = ProductsAtRisk(len(FEW), 0)
    state = rows.hazard, rows.expected, rows.residual, rows.triangle
    sums.add(course.event, course.closes, course.starts, *state, Z, np.empty((n, 0), order="F"))
    expected = sums.found()[1]
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    found = information_by_entries(few, course, rows)
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0.0, atol=1e-9)
    assert (found == found.T).all()
    metric, centre = np.linalg.inv(expected + np.diag(np.diag(expected))), rows.expected @ Z / rows.expected.sum()
    by_rows = np.einsum("ij,jk,ik->i", Z - centre, metric, Z - centre)
    np.testing.assert_allclose(few.squares(metric, centre), by_rows, rtol=1e-8, atol=1e-10 * by_rows.max())


def test_information_of_survival_times_is_not_told_where_its_numbers_are_too_large():
    X, _ = table(0)
    n, few = X.shape[0], scattered(blocks_of(X), FEW)
    course = Course.of(np.arange(n, 0.0, -1.0), np.ones(n, dtype=bool), None, np.ones(n))
    rows, _ = course.state(np.where(np.arange(n) < n // 2, -400.0, 0.0))
    assert information_by_entries(few, course, rows) is None


@pytest.mark.parametrize("seed", range(3))
def test_squares_are_never_less_than_they_are(seed):
    """Beside near copies, where what they have in common cancels: bounds rest on them."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (400, 12)) * (rng.random((400, 12)) < 0.2).astype(float)
    X[:, 1] = X[:, 0] + (np.arange(400) == 7) * 1e-4
    few = scattered(blocks_of(sparse.csc_matrix(X)), np.arange(12))
    Z = few.columns.moved(np.asfortranarray(np.eye(13)))[:, 1:]
    metric, centre = np.linalg.inv(Z.T @ Z), rng.random(12)
    metric = (metric + metric.T) / 2.0
    away = Z.astype(np.longdouble) - (few.shift[1:] + centre)
    exact = np.einsum("ij,jk,ik->i", away, metric.astype(np.longdouble), away)
    found = few.squares(metric, centre)
    assert (found >= exact).all()
    assert (found - exact <= 1e-9 * np.diag(metric).max()).all()
