"""What it costs at least to take out a column that is mostly 0: never more than it does, and mostly enough."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.words import Corpus, documents
from scipy import sparse

import fbed
from fbed.models.base import Span
from fbed.models.engines import sparse_logistic, sparse_span
from fbed.models.engines.binomial import Binomial, BinomialFit
from problem_cases import read_problem
from word_cases import doubled, nearly_pure, outliers, words

KINDS = (words, doubled, nearly_pure, outliers)


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(sparse_span, "_SMALLEST", 1)
    monkeypatch.setattr(sparse_span, "_PAYS", np.inf)


def fitted(X, y, weights, selected):
    """The fit of a model that is kept sparse; None where it is not."""
    model = read_problem(X, y, [fbed.BIC()], sample_weight=weights, family="binomial").model
    assert isinstance(model, Binomial)
    fit = model.fit(selected)
    return model, fit.engine if isinstance(getattr(fit, "engine", None), sparse_logistic.SparseLogistic) else None


def losses(model, engine, selected):
    """By fits of the models without each variable, on a basis and from the start."""
    rest = [[s for s in selected if s != variable] for variable in selected]
    return np.array([BinomialFit(model, Span(model.design, others)).deviance for others in rest]) - engine.deviance


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("enough", [0.0, 4.0])
def test_no_removal_costs_less(kind, seed, enough):
    rng = np.random.default_rng([17, KINDS.index(kind), seed])
    case = kind(rng)
    usable = np.flatnonzero(np.diff(case.X.indptr) > 0)
    selected = [int(j) for j in rng.permutation(usable)[: rng.integers(2, 14)]]
    model, engine = fitted(case.X, case.y, case.weights, selected)
    if engine is None or not engine.deviance > 0.0:
        pytest.skip("separated, or next to collinear")
    true = losses(model, engine, selected)
    told = engine.least_losses(np.array(selected), enough)
    assert (told <= true * (1.0 + 1e-6) + 1e-6).all()


def test_words_are_told_without_fits():
    """Of a model of many words, finite coefficients and infinite ones."""
    X, y = documents(Corpus(1500, 2000, 30.0, clear=3.0, topics=4), seed=2)
    order = np.argsort(-np.diff(X.indptr))
    selected = [int(j) for j in order[5:400:8]]
    model, engine = fitted(X, y, None, selected)
    told = engine.least_losses(np.array(selected), 0.5)
    true = losses(model, engine, selected)
    assert (told <= true + 1e-6).all()
    matters = true > 2.0
    assert matters.sum() > 5
    assert (told[matters] > 0.5).mean() > 0.8
    assert (told[matters] > 0.5 * true[matters]).mean() > 0.6


def test_a_column_that_explains_its_rows_for_good():
    """Its rows are secured, and its coefficient infinite: what others make of them says what it is worth."""
    rng = np.random.default_rng(5)
    n = 400
    X = (rng.random((n, 9)) < 0.1).astype(float)
    y = (rng.random(n) < 0.5).astype(float)
    X[:, 0] = 0.0
    X[np.flatnonzero(y == 1.0)[:7], 0] = 1.0
    model, engine = fitted(sparse.csc_matrix(X), y, None, list(range(9)))
    true, told = losses(model, engine, list(range(9))), engine.least_losses(np.arange(9), 1.0)
    assert len(engine.null.rows) < n
    assert 5.0 < told[0] <= true[0] + 1e-9
