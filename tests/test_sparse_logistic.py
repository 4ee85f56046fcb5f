"""Models of mostly empty columns, fitted on the columns themselves: the same answers as by fitting every model.

The engine takes models of many variables only, so that it is told here to take all of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.words import Corpus, documents
from scipy import sparse

import fbed
from engine_cases import ALGORITHMS, CRITERIA, KINDS, Case, trail_of
from fbed._kernels import SparseColumns, SparseModel, fit_logistic
from fbed.models.engines import sparse_logistic
from test_certified import assert_same, combination

N_SEEDS = 6


@pytest.fixture
def always(monkeypatch):
    """Every model of a sparse matrix by the sparse engine, unless its columns nearly depend on each other."""
    monkeypatch.setattr(sparse_logistic, "_SMALLEST", 1)
    monkeypatch.setattr(sparse_logistic, "_PAYS", np.inf)
    made = []
    begin = sparse_logistic.SparseLogistic._begin

    def counted(self, start):
        made.append(self.span.rank)
        begin(self, start)

    monkeypatch.setattr(sparse_logistic.SparseLogistic, "_begin", counted)
    return made


def as_sparse(case):
    """The same case in a CSC matrix; None where it has columns that are no numbers."""
    X = case.X
    if not sparse.issparse(X):
        if not isinstance(X, np.ndarray):
            return None
        X = sparse.csc_matrix(X)
    return Case(X.tocsc(), case.y, case.weights, case.forced)


@pytest.mark.parametrize("seed", range(N_SEEDS))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hostile_data_equal_exhaustive(kind, seed, always):
    number = KINDS.index(kind) + len(KINDS) * seed
    case = as_sparse(kind(np.random.default_rng([23, number]), "binomial"))
    if case is None:
        pytest.skip("has categories")
    criterion, algorithm = combination(number)
    assert_same(*(trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")))


def test_the_engine_is_asked(always):
    X, y = documents(Corpus(120, 60, 12.0), seed=1)
    fbed.select(X, y, k=1)
    assert len(always) > 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("counts", [True, False], ids=["counts", "presence"])
@pytest.mark.parametrize("length", [4.0, 12.0, 40.0])
def test_words_equal_exhaustive(length, counts, seed, always):
    X, y = documents(Corpus(150, 80, length, first_class=0.4, topics=2, counts=counts), seed)
    names = list(CRITERIA)
    criterion = names[seed % len(names)]
    case = Case(X, y, None, ())
    for algorithm in ALGORITHMS:
        trails = [trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")]
        assert_same(*trails)


def test_a_fit_equals_that_of_a_matrix():
    X, y = documents(Corpus(300, 40, 10.0), seed=3)
    scale = np.sqrt(np.asarray(X.multiply(X).mean(axis=0))).ravel()
    columns = SparseColumns(X.indptr, X.indices, X.data, X.shape[0])
    model = SparseModel(columns, np.arange(5), scale)
    Z = np.asfortranarray(np.column_stack([np.ones(len(y)), X[:, :5].toarray() / scale[:5]]))
    weights, start = np.random.default_rng(0).uniform(0.5, 2.0, len(y)), np.zeros((1, 6))
    one = model.fit(weights, y, start, 1e-12, np.inf)
    other = fit_logistic(Z, weights, y, start, 1e-12, np.inf)
    assert one[2] == pytest.approx(other[2], rel=1e-12)
    np.testing.assert_allclose(one[0], other[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(np.tril(model.gram(weights)), np.tril(Z.T @ (weights[:, None] * Z)), rtol=1e-12)
    np.testing.assert_allclose(model.products(weights), Z.T @ weights, rtol=1e-12)
    np.testing.assert_allclose(model.moved(np.asfortranarray(np.eye(6))), Z, rtol=1e-15)
    rows, kept = np.array([3, 7, 100]), np.array([0, 2, 4])
    np.testing.assert_allclose(model.part(rows, kept).moved(np.asfortranarray(np.eye(3))), Z[rows][:, kept])
