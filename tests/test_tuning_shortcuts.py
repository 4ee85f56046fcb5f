"""What tuning leaves out, shares or does in one go, against doing all of it one by one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.tuning_cases import FAMILIES, extras, outcome, table

import fbed
from engine_cases import collinear, complements, quasi_separated, rare, separated, sparse_columns, tiny, weighted
from fbed.models.base import outline
from fbed.models.other_statistics.linear import Remainders
from fbed.result.fitted import responses
from fbed.result.fitted.columns import read_columns
from fbed.rules.criteria import EBIC, Evidence, LikelihoodRatio
from fbed.rules.p_values import ChiSquare, ExactF
from fbed.search import decide_by_bounds
from fbed.search.memo import Known
from fbed.search.scan import Scanner
from fbed.search.search import Plan
from fbed.tuning import penalised
from fbed.tuning.final_models import find_way
from fbed.tuning.grid import _Worker
from fbed.tuning.heldout import RowsOfTable
from fbed.tuning.likelihood import Common, Standardised
from problem_cases import read_problem

RNG = np.random.default_rng


# -- descriptions without standard errors ------------------------------------------------------------------------------


def assert_the_same_but_for_errors(model, selected, near=None):
    whole, lean = model.describe(selected, near), outline(model, selected, near)
    assert (lean.family, lean.terms, lean.separated) == (whole.family, whole.terms, whole.separated)
    assert (lean.deviance, lean.null_deviance) == (whole.deviance, whole.null_deviance)
    if not whole.separated:
        np.testing.assert_allclose(lean.coefficients, whole.coefficients, rtol=1e-12)
        return
    if lean.reached and whole.reached:
        np.testing.assert_allclose(lean.reached, whole.reached, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_outlines_are_descriptions_without_standard_errors(family):
    frame = table(150)
    problem = read_problem(frame, outcome(family, frame), [], family=family, **extras(family, 150))
    for selected in ([], [0], [6, 1], [3, 0, 6]):
        assert_the_same_but_for_errors(problem.model, selected)


@pytest.mark.parametrize("make", [separated, quasi_separated, complements, sparse_columns, collinear, weighted, tiny])
def test_outlines_tell_whether_a_likelihood_has_a_maximum(make):
    """Rows that the engine has explained for good are taken for a proof of that."""
    infinite = 0
    for seed in range(12):
        rng = RNG([81, seed])
        case = make(rng, "binomial")
        problem = read_problem(case.X, case.y, [], family="binomial", sample_weight=case.weights, offset=case.offset)
        varying = np.flatnonzero(problem.design.width)
        for size in (1, 3, 8):
            selected = rng.choice(varying, min(size, len(varying)), replace=False).tolist()
            near = problem.model.fit(selected)
            assert_the_same_but_for_errors(problem.model, selected, near)
            infinite += outline(problem.model, selected, near).separated
    assert infinite > 0 or make not in (separated, quasi_separated, sparse_columns)


# -- ridge by a kernel -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_logistic_ridge_by_the_kernel_is_that_of_all_families(seed):
    """Weights, offsets, trials, outliers and classes that are separated."""
    rng = RNG([82, seed])
    n, p = int(rng.integers(12, 120)), int(rng.integers(1, 9))
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-6, 7, size=p)
    X = X if seed % 4 else np.where(rng.random((n, p)) < 0.1, X, 0.0)
    if seed % 5 == 0:
        X[0, 0] *= 1e3
    more = {"offset": rng.normal(size=n)} if seed % 3 == 1 else {}
    if seed % 7 == 3:
        trials = rng.integers(1, 6, size=n)
        more, y = {**more, "trials": trials}, rng.binomial(trials, 0.4)
    else:
        y = (X[:, 0] > np.median(X[:, 0]) if seed % 2 else rng.random(n) < 0.5).astype(int)
        y[:2] = 0, 1
    weights = rng.uniform(0.1, 5.0, size=n) if seed % 3 else None
    problem = read_problem(X, y, [], family="binomial", sample_weight=weights, **more)
    on = Standardised(problem, np.flatnonzero(problem.design.width).tolist())
    null = penalised._null(on)
    curvature = np.diag(on.at(null).derivatives()[1][0])
    np.testing.assert_allclose(penalised._curvatures(on, null), curvature, rtol=1e-10)
    weight = np.where(on.is_slope[:, None], curvature.mean() * np.array([1e-4, 0.05, 0.5, 10.0]), 0.0)
    expected = penalised._with_squares(on, null, weight)
    np.testing.assert_allclose(penalised._logistic_with_squares(on, null, weight), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("family", ["binomial", "multinomial", "ordinal", "poisson", "gamma", "cox"])
def test_final_models_of_a_problem_share_what_does_not_depend_on_their_variables(family):
    frame = table(120)
    problem = read_problem(frame, outcome(family, frame), [], family=family)
    way, common = find_way("auto", family), Common(problem)
    for selected in ([0], [6, 1], [3, 0, 6]):
        estimates = problem.model.describe(selected)
        own, shared = (way.fit(problem, estimates, selected, True, None, c) for c in (None, common))
        for one, other in zip(own, shared, strict=True):
            np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-12)


# -- searches that share -----------------------------------------------------------------------------------------------


def with_categories(n: int) -> pd.DataFrame:
    """Variables of one to four degrees of freedom, two of them the same, and what varies in some rows only."""
    frame = table(n)[["a", "b", "kind"]]
    levels = {f"k{j}": RNG(60 + j).choice(list("pqrst")[: j + 2], size=n) for j in range(4)}
    noise = {f"x{j}": RNG(50 + j).normal(size=n) for j in range(6)}
    return frame.assign(again=frame["kind"], **levels, **noise, rarely=np.arange(n) == 3, none=1.0)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "multinomial", "poisson", "cox"])
def test_folds_find_what_searches_alone_find_among_variables_of_several_degrees_of_freedom(family):
    """Who is best by one level is best by all, and by one EBIC by all: they are asked in whatever order."""
    frame = with_categories(160)
    y = outcome(family, table(160))
    grid = {"alphas": (0.05, 0.001, 0.5, 0.2), "gammas": (1.0, 0.0, None), "ks": (0, 1)}
    made = fbed.tune(frame, y, family=family, cv=2, n_bootstraps=5, backward=False, final="ml", **grid)
    for run, (train, _) in zip(made.cross.runs, made.cross.folds, strict=True):
        rows = frame.iloc[train].reset_index(drop=True)
        at = tuple(part[train] for part in y) if isinstance(y, tuple) else y[train]
        for setting, found in zip(made.cross.searches.settings, run.selected, strict=True):
            how = {"alpha": setting.value} if setting.criterion == "lr" else {"criterion": EBIC(setting.value)}
            how |= {"early_dropping": False} if setting.k is None else {"k": setting.k}
            alone = fbed.select(rows, at, family=family, backward=False, engine="exhaustive", **how)
            assert alone.variables == found, setting


def test_rules_that_rank_alike_put_variables_in_the_same_order():
    rng = RNG(83)
    rules = [
        c.bind(100, p) for p in (5, 12) for c in (*map(LikelihoodRatio, (0.3, 0.001)), *map(EBIC, (0.0, 0.4, 1.0)))
    ]
    shared = 0
    for k in range(5):
        evidence = Evidence(rng.uniform(1, 60, size=40), rng.integers(1, 9, size=40).astype(float), None, ChiSquare())
        orders: dict[object, set[tuple[int, ...]]] = {}
        for rule in rules:
            orders.setdefault(rule.ranking(k), set()).add(tuple(np.argsort(rule.merit(evidence, k)).tolist()))
        assert all(len(order) == 1 for order in orders.values())
        shared += len(rules) - len(orders)
    assert shared > 20


def test_variables_that_are_constant_in_a_fold_are_left_alone(monkeypatch):
    """Plans with them, as users have them, lead to the same."""
    X = np.hstack([RNG(3).normal(size=(80, 4)), rare(RNG(4), 80, 60), np.ones((80, 2))])
    y = (X[:, 0] + X[:, 5] + RNG(5).logistic(size=80) > 0).astype(int)
    asked: list[int] = []
    plan = _Worker._plan

    def counted(worker, setting):
        made = plan(worker, setting)
        asked.append(len(made.candidates))
        return made

    monkeypatch.setattr(_Worker, "_plan", counted)
    few = fbed.tune(X, y, cv=3, n_bootstraps=5)
    monkeypatch.setattr(_Worker, "_plan", lambda worker, setting: worker.searches.plan(worker.problem, setting))
    all_of_them = fbed.tune(X, y, cv=3, n_bootstraps=5)
    assert max(asked) < X.shape[1]
    for one, other in zip(few.cross.runs, all_of_them.cross.runs, strict=True):
        assert one.selected == other.selected
    np.testing.assert_allclose(few.out_of_fold.risk, all_of_them.out_of_fold.risk, rtol=1e-9, atol=1e-9)
    assert isinstance(few.cross.searches.plan(few.cross.problem, few.cross.searches.settings[0]), Plan)


@pytest.mark.parametrize("n", [6, 3000])
def test_room_is_made_for_what_is_asked_and_nothing_is_forgotten(n):
    rng = RNG(84)
    for _ in range(20):
        known, twin = Known(n), np.full((4, n), np.nan)
        twin[:2] = [[0.0], [np.inf]]
        for size in rng.integers(1, min(n, 500), size=8).tolist():
            some = np.sort(rng.choice(n, size, replace=False)).astype(np.intp)
            known.make_room(some)
            np.testing.assert_array_equal(known.recall(some), twin[:, some])
            assert known.unknown(some).tolist() == some[np.isnan(twin[2, some])].tolist()
            told = rng.normal(size=(4, size))
            known.remember(some, *told)
            twin[:, some] = told
        everything = np.arange(n, dtype=np.intp)
        known.make_room(everything)
        np.testing.assert_array_equal(known.recall(everything), twin)


def test_who_leads_a_set_is_known_from_searches_that_came_there_before():
    """A search without early dropping asks nobody about favourites then, and finds what it finds alone."""
    rng, seen = RNG(86), []
    leader = decide_by_bounds._leader

    def counted(known, favourites):
        found = leader(known, favourites)
        seen.append(found is not None)
        return found

    for _ in range(4):
        X = rng.normal(size=(150, 60))
        y = (X[:, :6] @ rng.normal(size=6) + rng.logistic(size=150) > 0).astype(int)
        alone = [fbed.select(X, y, family="binomial", alpha=level, early_dropping=False) for level in (0.01, 0.1)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decide_by_bounds, "_leader", counted)
            tuned = fbed.path(X, y, family="binomial", alphas=(0.01, 0.1), gammas=(), ks=(0, math.inf))
        for level, one in zip((0.01, 0.1), alone, strict=True):
            both = tuned.get(k=None, alpha=level)
            assert (both.selected, both.n_tests) == (one.selected, one.n_tests)
            assert both.model.deviance == pytest.approx(one.model.deviance, rel=1e-9)
    assert any(seen)


# -- predictions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "multinomial", "cox"])
def test_models_that_predict_together_predict_bit_for_bit_what_each_does(family):
    frame = table(90)
    problem = read_problem(frame, outcome(family, frame), [], family=family)
    models = find_way("auto", family).fit(problem, problem.model.describe([0, 6, 1]), [0, 6, 1])
    terms = RNG(6).normal(size=(40, len(responses.slopes_of(models[0]).T)))
    for model, together in zip(models, responses.predictors_of_several(models, terms), strict=True):
        expected = responses.constants(model, 40)
        for beta, x in zip(responses.slopes_of(model).T, terms.T, strict=True):
            expected += x[:, None] * beta
        assert np.array_equal(together, expected)
        assert np.array_equal(responses.predictors(model, terms), expected)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int8, np.bool_])
def test_columns_of_a_sparse_table_are_those_of_a_dense_one(kind):
    dense = (rare(RNG(7), 30, 5) * 3).astype(kind)
    whole = sparse.csc_matrix(dense)
    twice = sparse.csc_matrix((np.repeat(whole.data, 2), np.repeat(whole.indices, 2), 2 * whole.indptr), shape=(30, 5))
    rows = np.array([4, 4, 0, 29])
    problem = read_problem(sparse.csc_matrix(dense), np.arange(30.0), [])
    for matrix, times in ((whole, 1.0), (twice, 2.0)):
        told = RowsOfTable(replace(problem.table, matrix=matrix), rows)
        for j in range(5):
            found = told._column(j)
            assert found.dtype == np.float64
            assert np.array_equal(found, times * dense[rows, j].astype(float))


def test_columns_that_are_known_are_those_that_would_be_read():
    frame = table(60, missing=True)
    problem = read_problem(frame, outcome("gaussian", frame), [], missing="indicator")
    for selected in ([0, 6], [6, 1], [0, 1, 6]):
        assert read_columns(problem.design, selected, problem.known_columns) == read_columns(problem.design, selected)
    assert set(problem.known_columns) == {0, 1, 6}


def test_columns_of_several_variables_are_those_of_each_side_by_side():
    """Numbers, categories, constants, groups, and numbers with an indicator of where they are missing."""
    frame = table(50, missing=True).assign(none=1.0, once=["x"] * 50)
    more = {"missing": "indicator", "groups": {"pair": ["d", "kind"]}}
    design = read_problem(frame, outcome("gaussian", frame), [], **more).design
    variables = [v for v in range(len(design.width)) if v not in design.table.absorbed]
    for seed in range(10):
        some = RNG([85, seed]).permutation(variables)[: seed % len(variables)].tolist()
        parts = [np.empty((50, 0)), *(design.columns(v) for v in some)]
        assert np.array_equal(design.stack(some), np.hstack(parts))
    assert np.array_equal(design.stack(np.array(variables)), np.hstack([design.columns(v) for v in variables]))


def test_the_best_of_several_degrees_of_freedom_is_found_without_all_p_values():
    """Equal statistics of different df, ties, and far tails: the slow twin ranks everybody."""
    rng = RNG(86)
    for trial in range(300):
        n = int(rng.integers(1, 30))
        statistic = rng.choice([3.0, 50.0, 2e4]) * rng.choice([1.0, 1.0 + 1e-10, 1.0 + 1e-5, 1.3], size=n)
        statistic = np.where(rng.random(n) < 0.3, rng.uniform(3, 60, size=n), statistic)
        evidence = Evidence(statistic, rng.integers(1, 5, size=n).astype(float), None, ChiSquare())
        rule = (LikelihoodRatio(0.3) if trial % 2 else EBIC(0.5)).bind(100, 40)
        candidates, passes = rng.permutation(n).astype(np.intp), rule.passes(evidence, 1)
        if passes.any():
            lean, whole = (Scanner(None, rule, 0, decides_only=only) for only in (True, False))
            asked = (evidence, passes, candidates, 1)
            assert lean._ordered(*asked)[0] == whole._ordered(*asked)[0]


def test_the_worst_of_several_degrees_of_freedom_is_found_without_all_p_values():
    """Statistics next to 0, where p-values hardly change, and ties: the slow twin ranks everybody."""
    rng, quick = RNG(87), 0
    for trial in range(600):
        n = int(rng.integers(1, 30))
        statistic = rng.choice([1e-9, 1e-3, 0.3, 2.0, 9.0]) * rng.choice([1.0, 1.0 + 1e-10, 1.0 + 1e-5, 1.3], size=n)
        statistic = np.where(rng.random(n) < 0.5, rng.uniform(0, 40, size=n), statistic)
        df = rng.choice([1.0, 1.0, 2.0, 5.0, 27.0], size=n) if trial % 3 else np.full(n, rng.choice([1.0, 9.0]))
        reference = ChiSquare() if trial % 2 else ExactF(200.0, 80.0, shares_larger=True)
        evidence = Evidence(statistic, df, None, reference)
        rule = (LikelihoodRatio(0.05) if trial % 5 else EBIC(0.5)).bind(100, 40)
        variables = rng.permutation(n).astype(np.intp)
        lean, whole = (
            Scanner(None, rule, 0, decides_only=lean)._worst(evidence, variables, 1) for lean in (True, False)
        )
        assert lean[0] == whole[0]
        quick += len(lean) < len(whole)
    assert quick > 80


@pytest.mark.parametrize("df", [[2.0], [1.0, 1.0], [np.nan, 3.0, 1.0, np.nan, 3.0], list(range(5)) * 100])
def test_critical_values_of_several_df_are_those_of_each(df):
    for reference in (ChiSquare(), ExactF(120.0, 60.0), ExactF(120.0, 60.0, shares_larger=True)):
        together = reference.isf(0.03, np.array(df))
        for value, found in zip(df, together, strict=True):
            alone = reference.isf(0.03, np.array([value, 77.0]))[0]
            np.testing.assert_equal(found, alone)


@pytest.mark.parametrize("seed", range(4))
def test_products_of_a_matrix_that_is_kept_are_those_of_its_blocks(seed, monkeypatch):
    """Constant columns, columns far from 0, weights, and any of the columns in order."""
    rng = RNG([87, seed])
    X = rng.normal(size=(40, 30)) * 10.0 ** rng.integers(-5, 6, size=30) + 1e3 * (seed % 2)
    X[:, 4] = 1.0
    weights = rng.uniform(0.5, 2.0, size=40) if seed > 1 else None
    vectors, found = rng.normal(size=(40, 3)), {}
    for values in (0, 2**19):
        monkeypatch.setattr("fbed.matrix.design._SMALL_VALUES", values)
        design = read_problem(X, X[:, 0] + rng.normal(size=40), [], sample_weight=weights).design
        assert (design.small_whole is None) == (values == 0)
        some = [np.arange(30), np.arange(3, 20), np.array([0, 7, 29]), np.arange(0)]
        found[values] = [Remainders(design, ())._products(which, vectors) for which in some]
    for kept, read in zip(found[2**19], found[0], strict=True):
        np.testing.assert_allclose(kept, read, rtol=1e-12, atol=1e-12)
