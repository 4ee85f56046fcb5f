"""One problem serves many searches, one after another and in threads: a model holds nothing of a search."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from fbed.api.options import make_plan
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks
from fbed.tables.table import read_table
from problem_cases import read_problem
from search_cases import EVERY_FAMILY, many_columns

SEARCHES = [(alpha, k, dropping) for alpha in (0.4, 0.02) for k, dropping in ((0, True), (math.inf, True), (0, False))]


def run(problem, search):
    alpha, k, dropping = search
    return problem.run(make_plan(problem.table, (), (), k, dropping), fbed.LikelihoodRatio(alpha))


def steps(result):
    """What a search did, with every number that it went by."""
    return [(row.phase, row.run, row.action, row.variable, row.tested, row.dropped.tolist()) for row in result.trace]


def parts_of(model):
    """Everything that a model holds, its likelihood's parts included."""
    likelihood = getattr(model, "likelihood", None)
    return {**vars(model), **(vars(likelihood) if hasattr(likelihood, "__dict__") and not callable(likelihood) else {})}


def assert_same_search(found, expected):
    assert found.selected == expected.selected
    assert found.n_tests == expected.n_tests
    assert steps(found) == steps(expected)
    for name in ("statistic", "log_p"):
        values = [[getattr(row, name) for row in r.trace if row.statistic is not None] for r in (found, expected)]
        assert values[0] == pytest.approx(values[1], rel=1e-9, abs=1e-9)
    assert found.model.coefficients == pytest.approx(expected.model.coefficients, rel=1e-7, abs=1e-9)


def assert_shared(read, repeats):
    """The same searches on problems of their own, then all on one, in an order that mixes them."""
    alone = [run(read(), search) for search in SEARCHES]
    assert len({result.selected for result in alone}) > 1
    for n_threads in (1, 2, 4):
        shared, order = read(), np.random.default_rng(n_threads).permutation(repeats * len(SEARCHES)) % len(SEARCHES)
        with ThreadPoolExecutor(n_threads) as pool:
            results = list(pool.map(lambda i, problem=shared: run(problem, SEARCHES[i]), order))
        for i, result in zip(order, results, strict=True):
            assert_same_search(result, alone[i])


@pytest.mark.parametrize("name", EVERY_FAMILY)
def test_threads_share_a_problem_of_every_family(name):
    case = EVERY_FAMILY[name]
    frame, y, extras = many_columns(case, 4, n=60, noise=0 if case.slow else 3)
    criteria = [fbed.LikelihoodRatio()]
    assert_shared(lambda: read_problem(frame, y, criteria, family=case.family, **case.options, **extras), 1)


@pytest.mark.parametrize("name", EVERY_FAMILY)
def test_a_search_leaves_its_model_as_it_was(name):
    case = EVERY_FAMILY[name]
    frame, y, extras = many_columns(case, 5, n=60, noise=0)
    problem = read_problem(frame, y, [], family=case.family, **case.options, **extras)
    parts = parts_of(problem.model)
    arrays = {key: value.copy() for key, value in parts.items() if isinstance(value, np.ndarray)}
    run(problem, (0.3, 1, True))
    after = parts_of(problem.model)
    assert after.keys() == parts.keys()
    assert all(after[key] is value for key, value in parts.items())
    assert all((after[key] == value).all() for key, value in arrays.items())


@pytest.mark.parametrize("engine", ["certified", "exhaustive"])
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_threads_share_a_problem_of_many_columns(family, engine, kind):
    rng = np.random.default_rng(0)
    p = 60 if engine == "certified" else 15
    X = rng.normal(size=(150, p)) + rng.normal(size=(150, 1))
    X = X * (X > 0.6) if kind == "sparse" else X
    y = X[:, :6].sum(axis=1) + 2.0 * rng.normal(size=150)
    y = y if family == "gaussian" else (y > np.median(y)).astype(int)
    X = sparse.csc_array(X) if kind == "sparse" else X
    assert_shared(lambda: read_problem(X, y, [], family=family, engine=engine), 4)


def test_threads_share_numpys_generator():
    """The random features of kernel tests come from a generator that all threads have in common."""
    pytest.importorskip("causallearn")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = X[:, 0] ** 2 + 0.3 * rng.normal(size=120)
    problem = read_problem(X, y, [], family="kernel", test="rcit")
    expected = run(problem, (0.05, 1, True))
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: run(problem, (0.05, 1, True)), range(16)):
            assert_same_search(result, expected)


def test_threads_that_share_blocks_of_models_with_categories():
    """The few models whose blocks are kept change all the time here."""
    frame = pd.DataFrame({f"c{j}": np.random.default_rng(j).choice(list("abc"), 20) for j in range(8)})
    blocks = RowBlocks(Design(read_table(frame), np.ones(20)))
    everything = slice(0, 20)
    expected = [blocks.model([j])(everything) for j in range(8)]

    def read(seed):
        for j in np.random.default_rng(seed).integers(0, 8, 4000).tolist():
            np.testing.assert_array_equal(blocks.model([j])(everything), expected[j])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(read, range(8)))
    finally:
        sys.setswitchinterval(interval)
