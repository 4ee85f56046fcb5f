"""Models of mostly empty columns as people read them, from their entries: the same as from a basis of all rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from benchmarks.words import Corpus, documents
from scipy import sparse

import fbed
import fbed.models.engines.sparse_span as spans
from fbed.models.base import Span
from fbed.models.engines import sparse_description
from fbed.models.engines.raced import RacedFit
from fbed.models.engines.scattered_classes import ScatteredFit
from fbed.models.engines.sparse_description import EntryBasis, entry_rows
from fbed.models.engines.sparse_logistic import SparseLogistic
from fbed.models.likelihoods.newton import Columns
from problem_cases import read_problem


@pytest.fixture(autouse=True)
def entries(monkeypatch):
    """All models of sparse columns are taken as their entries, however few they are."""
    monkeypatch.setattr(spans, "_SMALLEST", 1)
    monkeypatch.setattr(spans, "_PAYS", np.inf)
    monkeypatch.setattr(spans, "_BESIDE_WORDS", False)
    monkeypatch.setattr(sparse_description, "_SMALL", 0)  # tables here are small


def table(seed, family):
    """Words, a category and a group; words of one class and of two rows, and one that explains rows beside others."""
    rng = np.random.default_rng([41, seed])
    words, classes = documents(Corpus(400, 30, 6.0, topics=2, clear=4.0), seed)
    X = words.toarray()
    place = rng.integers(0, 4, len(X))
    eta = 1.5 * classes + X[:, 0] - 0.8 * X[:, 1] + 0.3 * place
    if family == "binomial":
        y = (eta + rng.logistic(size=len(X)) > np.median(eta)) * 1
    elif family == "ordinal":
        y = np.digitize(eta + rng.logistic(size=len(X)), np.quantile(eta, [0.3, 0.7]))
    else:
        y = (np.outer(eta, [0.0, 1.0, -1.0]) + rng.gumbel(size=(len(X), 3))).argmax(axis=1)
    X[:, 5] *= y == y.max()  # pure
    X[:, 6] = 0.0
    X[rng.choice(len(X), 2), 6] = 3.0
    X[:, 7] *= (y != 1) | (X[:, 8] > 0)
    frame = pd.DataFrame(X, columns=[f"w{j}" for j in range(X.shape[1])])
    frame["place"] = pd.Categorical.from_codes(place, list("abcd"))
    return frame, y, rng.integers(1, 4, len(X)).astype(float)


def described_twice(model, selected):
    """From entries, and from a basis."""
    fit = model.fit(selected)
    if isinstance(fit, ScatteredFit):
        return fit.describe(), RacedFit.describe(fit)
    assert isinstance(fit.engine, SparseLogistic)
    return model.describe(selected, fit), model.describe(selected, model.dense_fit(selected, fit))


@pytest.mark.parametrize("family", ["binomial", "multinomial", "ordinal"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore")
def test_a_model_reads_the_same(family, seed):
    frame, y, weights = table(seed, family)
    options = {"family": family, "sample_weight": weights, "groups": {"pair": ["w2", "w3"]}}
    model = read_problem(frame, y, [fbed.BIC()], **options).model
    rng = np.random.default_rng(seed)
    varying = rng.permutation(np.flatnonzero(model.design.width))
    selected = varying[: int(rng.integers(2, 14))].tolist()
    one, other = described_twice(model, selected)
    assert one.terms == other.terms
    assert one.directions == other.directions
    assert one.deviance == pytest.approx(other.deviance, rel=1e-9)
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-5, atol=1e-6)
    assert (one.standard_errors is None) == (other.standard_errors is None)
    if one.standard_errors is not None:
        np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=1e-5)
        finite = np.isfinite(one.coefficients)
        correlations = [np.array(told.correlation)[finite][:, finite] for told in (one, other)]
        np.testing.assert_allclose(*correlations, atol=1e-5)


@pytest.mark.parametrize("family", ["binomial", "multinomial", "ordinal"])
def test_infinite_coefficients_are_among_them(family):
    """The word of one class, and what is infinite beside it."""
    frame, y, _ = table(0, family)
    model = read_problem(frame, y, [fbed.BIC()], family=family).model
    one, other = described_twice(model, [0, 1, 5, 6])
    assert any(one.directions)
    assert not all(one.directions)
    assert one.directions == other.directions


def test_the_basis_answers_as_a_dense_one(monkeypatch):
    frame, y, weights = table(1, "binomial")
    model = read_problem(frame, y, [fbed.BIC()], family="binomial", sample_weight=weights).model
    span = model.fit([0, 3, 30, 7]).span
    basis, dense = EntryBasis(span), Span(model.design, [0, 3, 30, 7])
    twin, rng, n = Columns(dense.Z), np.random.default_rng(5), model.design.n_rows
    beta, rows, weight = rng.normal(size=(span.rank, 3)), rng.normal(size=(n, 3)), rng.uniform(size=(n, 3))
    np.testing.assert_allclose(span.triangle(), dense.triangle(), atol=1e-10)
    np.testing.assert_allclose(basis.predict(beta), twin.predict(beta), atol=1e-10)
    np.testing.assert_allclose(basis.inner(rows), twin.inner(rows), atol=1e-10)
    np.testing.assert_allclose(basis.gram(weight), twin.gram(weight), atol=1e-10)
    for small in (0, 10**9):
        monkeypatch.setattr(sparse_description, "_SMALL", small)
        rows = entry_rows(span.columns, n)
        assert sparse.issparse(rows) == (small == 0)
        np.testing.assert_allclose(rows @ np.linalg.inv(basis.triangle), dense.Z, atol=1e-10)
