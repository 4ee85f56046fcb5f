"""Models of mostly empty columns, fitted on the columns themselves: the same answers as by fitting every model.

The engine takes models of many variables only, so that it is told here to take all of them.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from benchmarks.words import Corpus, documents
from scipy import sparse

import fbed
from engine_cases import ALGORITHMS, CRITERIA, KINDS, Case, trail_of
from fbed._kernels import LogisticNull, SparseColumns, SparseModel, fit_logistic
from fbed.models.engines import binomial, sparse_logistic, sparse_span
from fbed.models.engines.binomial import CertifiedBinomialFit
from fbed.models.engines.categories.coded_fit import CodedFit
from problem_cases import read_problem
from test_certified import assert_same, combination
from test_kernels import Fitted
from word_cases import beside_categories, drawn, fingerprints, outliers, trails

N_SEEDS = 6


@pytest.fixture
def always(monkeypatch):
    """Every model of a sparse matrix by the sparse engine, unless its columns nearly depend on each other."""
    monkeypatch.setattr(sparse_span, "_SMALLEST", 1)
    monkeypatch.setattr(sparse_span, "_PAYS", np.inf)
    monkeypatch.setattr(sparse_span, "_BESIDE_WORDS", False)
    monkeypatch.setattr(binomial, "MANY_COLUMNS", 1)
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


@pytest.mark.parametrize("seed", range(3, 83, 8))
def test_offsets_equal_exhaustive(seed, always):
    assert drawn(seed)[0].offset is not None
    assert_same(*trails(seed))


@pytest.mark.parametrize("seed", [*range(8), 87])
@pytest.mark.filterwarnings("ignore")
def test_words_beside_categories_equal_exhaustive(seed, always):
    """Levels that are rare, pure or never seen among them; the last one had a removal that left its model."""
    assert_same(*trails(seed, (beside_categories,)))


def test_categories_and_groups_are_columns_like_others(always):
    words, y = documents(Corpus(200, 30, 9.0), seed=3)
    table = pd.DataFrame(words.toarray(), columns=[f"w{j}" for j in range(words.shape[1])])
    table["place"] = pd.Categorical.from_codes(np.random.default_rng(1).integers(0, 5, len(y)), list("abcde"))
    options = {"family": "binomial", "groups": {"pair": ["w3", "w4"]}}
    problem = read_problem(table, y, [fbed.BIC()], **options)
    place, pair = problem.table.names.index("place"), 3  # a group is where its first column is
    span = problem.model.fit([5, place, pair, 7]).span
    assert isinstance(span, sparse_span.SparseSpan)
    assert span.rank == 1 + 1 + 4 + 2 + 1
    found = span.columns.moved(np.asfortranarray(np.eye(span.rank)))[:, span.place(place)]
    wanted = problem.design.columns(place)
    np.testing.assert_allclose(found - found.mean(axis=0), wanted, atol=1e-12)
    dense = problem.model.dense_fit([5, place, pair, 7])
    assert problem.model.fit([5, place, pair, 7]).deviance == pytest.approx(dense.deviance, rel=1e-10)


def test_categories_without_words_stay_codes():
    """Nothing is sparse beside them: a table without a column of numbers is none of words."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({name: pd.Categorical(rng.integers(0, 20, 400).astype(str)) for name in "abc"})
    model = read_problem(table, rng.integers(0, 2, 400), [fbed.LikelihoodRatio(0.05)], family="binomial").model
    assert not model.design.is_scattered
    assert isinstance(model.fit([0, 1]), CodedFit)


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_groups_of_words_equal_exhaustive(seed, k, always):
    X, y = documents(Corpus(150, 60, 10.0, topics=2), seed)
    groups = {f"g{j}": [3 * j, 3 * j + 1] for j in range(8)}
    one, other = (fbed.select(X, y, k=k, groups=groups, engine=engine) for engine in ("certified", "exhaustive"))
    assert (one.selected, one.n_tests) == (other.selected, other.n_tests)
    assert one.model.deviance == pytest.approx(other.model.deviance, rel=1e-8)
    assert any(later - rank == 2 for rank, later in itertools.pairwise(always))  # a pair entered


def test_those_of_one_df_race_each_other(monkeypatch):
    """Where df differ, contenders of the same df are not fitted to the end one by one."""
    X, y = documents(Corpus(400, 300, 20.0), seed=5)
    asked = []
    contest = CertifiedBinomialFit.contest

    def counted(self, candidates, lower, upper, race):
        asked.append((len(candidates), race))
        return contest(self, candidates, lower, upper, race)

    monkeypatch.setattr(CertifiedBinomialFit, "contest", counted)
    result = fbed.select(X, y, k=0, groups={"pair": [0, 1], "three": [2, 3, 4]})
    scans = sum(row.phase == "forward" for row in result.trace)
    assert any(race and count > 1 for count, race in asked)
    assert sum(not race for _, race in asked) <= 2 * scans


def test_the_engine_is_asked(always):
    X, y = documents(Corpus(120, 60, 12.0), seed=1)
    fbed.select(X, y, k=1)
    assert len(always) > 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("counts", [True, False], ids=["counts", "presence"])
@pytest.mark.parametrize("length", [4.0, 12.0, 40.0])
def test_words_equal_exhaustive(length, counts, seed, always):
    X, y = documents(Corpus(110, 50, length, first_class=0.4, topics=2, counts=counts), seed)
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


@pytest.mark.parametrize("seed", range(24))
def test_hard_words_equal_exhaustive(seed, always):
    """Doubles, small types, offsets, forced columns, outliers, pure columns, tables that are not stored sparsely."""
    assert_same(*trails(seed))


@pytest.mark.parametrize("seed", range(16))
def test_near_copies_equal_exhaustive(seed, always):
    """Columns that are no other than one of the model but for rows that a step takes too far."""
    rng = np.random.default_rng([7, seed])
    case, criterion, algorithm = fingerprints(rng), *combination(seed)
    assert_same(*(trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")))


def test_predictors_far_out_are_blurred(always):
    """Linear predictors of 1e12 had left the span of the columns by rounding; upper bounds from there were too low."""
    assert_same(*trails(531))


def test_a_step_that_leads_nowhere_gives_no_bound(always):
    """A step of 1e54 was taken, and sums of 1e52 cancelled to an upper bound below what was attained."""
    rng = np.random.default_rng([99, 5089])
    case = outliers(rng, -4.0, 6.0)
    criterion = fbed.LikelihoodRatio(0.2, 0.01)
    kept = [trail_of(case, "binomial", criterion, engine, k=0) for engine in ("exhaustive", "certified")]
    assert_same(*kept)


def test_equal_rows_of_different_classes_stay_equal():
    """Two candidates explain the same rows; far out, rounding put one of them above the other."""
    rng = np.random.default_rng([5, 593])
    n, p = int(rng.integers(40, 120)), int(rng.integers(30, 80))
    y = (rng.random(n) < 0.4).astype(float)
    y[:4] = [0.0, 1.0, 0.0, 1.0]
    X = (rng.random((n, p)) < rng.uniform(0.03, 0.3, p)).astype(float)
    X[1] = X[0]
    exhaustive, dense = (fbed.select(X, y, k=np.inf, alpha=0.1, engine=e) for e in ("exhaustive", "certified"))
    assert dense.selected == exhaustive.selected
    assert fbed.select(sparse.csc_matrix(X), y, k=np.inf, alpha=0.1).selected == dense.selected


def test_columns_that_depend_on_each_other_where_rows_count():
    """Columns that differ in saturated rows only are free in a direction; the basis stays on the columns."""
    rng = np.random.default_rng(4)
    X = (rng.random((60, 5)) < 0.3).astype(float)
    X[:, 4] = X[:, 3]
    X[50:, 4] = 1.0 - X[50:, 3]
    y = (rng.random(60) < 0.5).astype(float)
    columns = SparseModel(SparseColumns(*_csc(X), 60), np.arange(5), np.ones(5))
    active = np.where(np.arange(60) < 50, 1.0, 0.0)
    eta = np.zeros(60)
    null = LogisticNull.of_sparse_rows(columns, np.ones(60), y, eta, active, 60 * 2 * np.log(2), 20 * np.log(2))
    Z = np.column_stack([np.ones(60), X])
    basis = Z[:50] @ null.whitener
    np.testing.assert_allclose(basis.T @ (0.25 * basis), np.eye(5), atol=1e-12)
    np.testing.assert_allclose(Z[:50] @ null.free, 0.0, atol=1e-12)
    assert null.free.shape == (6, 1)
    np.testing.assert_allclose(np.abs(null.free[4:, 0]), np.sqrt(0.5))


def test_a_column_that_is_constant_where_rows_are_known_may_explain_the_others():
    """It adds nothing to the rows that are known, and was said to add nothing at all."""
    rng = np.random.default_rng(8)
    n, known = 60, 40
    y = (rng.random(n) < 0.5).astype(float)
    candidate = np.where(np.arange(n) < known, 1.0, 0.0)
    X = sparse.csc_matrix(candidate[:, None])
    y[known:] = 0.0
    mean = y.mean()
    eta = np.full(n, np.log(mean / (1.0 - mean)))
    left = -2.0 * np.log(np.where(y > 0, mean, 1.0 - mean))
    active = np.where(np.arange(n) < known, 1.0, 0.0)
    eta[:known] = np.log(y[:known].mean() / (1.0 - y[:known].mean()))
    here = -2.0 * np.log(np.where(y[:known] > 0, y[:known].mean(), 1.0 - y[:known].mean())).sum()
    null = LogisticNull.of_rows(np.ones((n, 1), order="F"), np.ones(n), y, eta, active, left.sum(), left.sum() - here)
    columns = SparseColumns(X.indptr, X.indices, X.data, n)
    asked = (np.zeros(1, dtype=np.int64), np.zeros(1), np.ones(1))
    truth = left.sum() - here  # the others are explained for good
    for mostly_zero in (True, False):
        upper = null.brackets(columns, *asked, np.array([mostly_zero]), 1.0, True, False, False)[1][0]
        assert upper >= truth * (1.0 - 1e-9)


@pytest.mark.parametrize("seed", [266, 325, 508])
def test_bounds_from_few_rows_hold(seed, always):
    """Columns that are constant on those rows, and fits of those rows that end before they have explained them all."""
    assert_same(*trails(seed))


def _csc(X):
    stored = sparse.csc_matrix(X)
    return stored.indptr, stored.indices, stored.data


@pytest.mark.parametrize("apart", [1e-2, 1e-4, 1e-5])
def test_columns_that_are_close_to_each_other_where_rows_count(apart):
    """What is left of a column beside others may be small without being rounding: it joins the basis all the same."""
    rng = np.random.default_rng(9)
    X = (rng.random((80, 6)) < 0.3).astype(float)
    X[:, 4] = X[:, 3]
    X[70:, 4] = 1.0 - X[70:, 3]  # rows that hardly count
    X[:, 5] = X[:, 1] + X[:, 2]
    X[60:70, 5] += 1.0
    y = (rng.random(80) < 0.5).astype(float)
    eta = np.zeros(80)
    eta[60:] = (2.0 * y[60:] - 1.0) * -2.0 * np.log(apart)  # a curvature of apart²
    columns = SparseModel(SparseColumns(*_csc(X), 80), np.arange(6), np.ones(6))
    null = LogisticNull.of_sparse_rows(columns, np.ones(80), y, eta, np.ones(80), 100.0, 0.0)
    assert null.free.shape[1] == 0
    basis = np.column_stack([np.ones(80), X]) @ null.whitener
    np.testing.assert_allclose(basis.T @ (null.curvature[:, None] * basis), np.eye(7), atol=1e-8)


def test_a_model_that_a_contest_had_to_fit_is_gone_on_from(monkeypatch, always):
    """Near separation certificates end short of a number; the fit that tells it is the next scan's, not made again."""
    kept = []
    of_engine = CertifiedBinomialFit.of_engine

    def counted(model, engine):
        kept.append(engine)
        return of_engine(model, engine)

    monkeypatch.setattr(CertifiedBinomialFit, "of_engine", counted)
    for seed in range(4):
        X, y = documents(Corpus(150, 80, 25.0, topics=2), seed)
        case = Case(X, y, None, ())
        assert_same(*(trail_of(case, "binomial", CRITERIA[0], engine, k=1) for engine in ("exhaustive", "certified")))
    assert kept
    for engine in kept:
        again = sparse_logistic.SparseLogistic(engine.model, engine.span, [engine.model.null_predictors()])
        _ = again.null  # the deviance is that of the limit
        assert engine.deviance == pytest.approx(again.deviance, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_a_quick_look_holds_the_statistics(seed, always):
    """Who gains enough alone is not looked at any closer, unless he may be best: his interval is wide, and holds."""
    X, y = documents(Corpus(160, 60, 15.0, topics=2), seed)
    fitted = Fitted(Case(X, y), [int(j) for j in np.argsort(-np.diff(X.indptr))[: 2 + seed]])
    design, engine = fitted.fit.model.design, fitted.fit.engine
    which = design.positions(fitted.others)
    asked = (design.matrix, which, design.center, design.scale, design.mostly_zero[which])
    for critical in (0.1, 0.5, 2.0):
        lower, upper, _ = engine.null.kernel.brackets(*asked, critical, False, False, False)
        fitted.assert_holds(lower, upper)
        assert ((lower > critical) & (upper == engine.null.kernel.deviance)).any()


@pytest.mark.parametrize("seed", range(8))
def test_outlines_without_a_basis_are_descriptions_on_one(seed, always):
    """Coefficients of the columns themselves, and which models have none that are finite."""
    X, y = documents(Corpus(120, 40, 6.0 + 4.0 * seed, topics=2), seed)
    model = read_problem(X, y, [fbed.AIC()], family="binomial").model
    varying, rng = np.flatnonzero(model.design.width), np.random.default_rng([24, seed])
    seen = 0
    for size in (1, 3, 12, 25):
        fit = model.fit(rng.choice(varying, size, replace=False).tolist())
        if not isinstance(fit.engine, sparse_logistic.SparseLogistic):
            continue
        lean, whole = model.outline(fit.selected, fit), model.describe(fit.selected, fit)
        assert (lean.terms, lean.separated, lean.deviance) == (whole.terms, whole.separated, whole.deviance)
        if not whole.separated:
            np.testing.assert_allclose(lean.coefficients, whole.coefficients, rtol=1e-9, atol=1e-9)
        seen += 1
    assert seen > 1


@pytest.mark.parametrize("seed", range(8))
def test_losses_that_are_looked_at_together_are_those_of_fits(seed, always):
    """Models without each variable are bounded in one go: never above what fitting them one by one finds."""
    X, y = documents(Corpus(120, 40, 6.0 + 4.0 * seed, topics=2), seed)
    model = read_problem(X, y, [fbed.AIC()], family="binomial").model
    varying, rng = np.flatnonzero(model.design.width), np.random.default_rng([25, seed])
    seen = settled = 0
    for size in (2, 5, 12, 25):
        fit = model.fit(rng.choice(varying, size, replace=False).tolist())
        if not isinstance(fit.engine, sparse_logistic.SparseLogistic) or not fit.span.full_rank:
            continue
        variables = np.array(fit.selected)
        lost = np.array([fit.resolve_loss(int(variable), np.inf)[0] for variable in variables])
        for enough in (0.05, 1.0, 6.0):
            least = fit.lost_at_least(variables, np.full(size, enough))
            assert (least <= lost * (1.0 + 1e-8) + 1e-8).all()
            settled += np.count_nonzero(least > enough)
            seen += np.count_nonzero(lost > enough)
    assert settled > seen / 2 > 1


def test_a_search_is_the_same_without_a_look_at_losses_together(monkeypatch, always):
    for seed in range(4):
        X, y = documents(Corpus(150, 80, 25.0, topics=2), seed)
        case = Case(X, y, None, ())
        trails_of = [trail_of(case, "binomial", fbed.LikelihoodRatio(0.2, 0.01), "certified", k=1)]
        with monkeypatch.context() as patch:
            patch.delattr(CertifiedBinomialFit, "lost_at_least")
            trails_of.append(trail_of(case, "binomial", fbed.LikelihoodRatio(0.2, 0.01), "certified", k=1))
        assert trails_of[0].selected == trails_of[1].selected
        assert any(step.action == "remove" for step in trails_of[0].steps)
        assert [s.scan.chosen and s.scan.chosen.variable for s in trails_of[0].steps] == [
            s.scan.chosen and s.scan.chosen.variable for s in trails_of[1].steps
        ]


def explained_beside_faint_rows(rng):
    """A model with a column that explains its rows for good, and another that has, beside such rows, some of either
    class which an offset explains all but for rounding; and a candidate that moves one of those and others.
    """
    n = 60
    X, y, offset = np.zeros((n, 3)), (rng.random(n) < 0.5).astype(float), np.zeros(n)
    X[:5, 0], y[:5] = 1.0, 1.0
    X[[0, 1, 5, 6, 7], 1] = 1.0
    y[5:8], offset[5:8] = (1.0, 1.0, 0.0), (31.0, 31.0, -31.0)
    X[[7, 10, 11, 12, 13], 2] = 1.0
    y[10:14] = 1.0
    return sparse.csc_matrix(X), y, offset


def test_rows_that_are_explained_leave_although_others_hardly_count():
    """Rows that are all but explained told a column next to nothing, and all that were explained had to stay."""
    X, y, offset = explained_beside_faint_rows(np.random.default_rng(3))
    n, weights = len(y), np.ones(len(y))
    columns = SparseColumns(X.indptr, X.indices, X.data, n)
    model = SparseModel(columns, np.arange(2), np.ones(3))
    coefficients, eta, deviance = model.fit(weights, y, np.zeros((1, 3)), 1e-12, np.inf, offset)[:3]
    null = LogisticNull.of_sparse_fit(model, weights, y, eta, coefficients, deviance, offset)
    np.testing.assert_array_equal(null.rows, np.arange(5, n))
    asked = columns, np.array([2]), np.zeros(3), np.ones(3), np.array([True])
    truth = (
        null.deviance
        - SparseModel(columns, np.arange(3), np.ones(3)).fit(weights, y, np.zeros((1, 4)), 1e-12, np.inf, offset)[2]
    )
    lower, upper, _ = null.brackets(*asked, 0.5, True, False, False)
    assert lower[0] <= truth * (1.0 + 1e-8)
    assert truth <= upper[0] * (1.0 + 1e-8)
    quick = null.brackets(*asked, 0.5, False, False, False)[0][0]
    assert 0.5 * truth < quick <= truth * (1.0 + 1e-8)  # nothing was told without a refinement


@pytest.mark.parametrize("seed", range(12))
def test_offsets_that_explain_rows_equal_exhaustive(seed, always):
    """Rows that are explained, by columns or by an offset, and pull either way."""
    rng = np.random.default_rng([31, seed])
    X, y = documents(Corpus(120, 60, float(rng.choice([5.0, 12.0])), topics=2, clear=12.0), seed)
    offset = np.where(rng.random(len(y)) < 0.4, (2.0 * y - 1.0) * rng.uniform(10.0, 32.0, len(y)), 0.0)
    case = Case(X, y, None, (), offset)
    criterion, algorithm = fbed.LikelihoodRatio(0.2), {"k": seed % 2}
    assert_same(*(trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")))


@pytest.mark.parametrize("seed", [138, 295, 497])
def test_words_that_explain_rows_beside_faint_ones_equal_exhaustive(seed):
    """Larger tables than others here: rows that are all but explained come with many words."""
    rng = np.random.default_rng(seed)
    size, words, length = int(rng.integers(200, 900)), int(rng.integers(100, 700)), float(rng.choice([8, 15, 30, 60]))
    first, topics = float(rng.choice([0.5, 0.4, 0.2])), int(rng.integers(1, 6))
    clear, counts = float(rng.choice([2, 5, 10, 20])), bool(rng.integers(2))
    X, y = documents(Corpus(size, words, length, first, topics, clear, counts), seed)
    one, other = (fbed.select(X, y, k=1, alpha=0.2, engine=engine) for engine in ("certified", "exhaustive"))
    assert (one.selected, one.n_tests) == (other.selected, other.n_tests)
