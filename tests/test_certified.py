"""The certified engine selects what fitting every model selects, and its intervals hold every statistic.

The exhaustive engine fits every model; `test_twin` compares it with statsmodels. Data are of the kinds that are hard on
bounds, and every defect that such data have brought to light has a test of its own here.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from engine_cases import ALGORITHMS, CRITERIA, KINDS, Case, of_another_family, rare, trail_of, wide
from fbed.models.engines.certified import CertifiedLogistic
from fbed.search.memo import Memo

FAMILIES = ("binomial", "gaussian")
COMBINATIONS = list(product(CRITERIA, ALGORITHMS))
N_SEEDS = 16
CASES = [(kind, family, seed) for seed in range(N_SEEDS) for kind in KINDS for family in FAMILIES]

# Newton's method leaves statistics of models that separate some rows uncertain by somewhat less than this.
FITTED = 1e-6


def combination(number):
    return COMBINATIONS[number % len(COMBINATIONS)]


def test_every_criterion_meets_every_algorithm():
    assert len(CASES) >= 500
    for family in FAMILIES:
        met = {number % len(COMBINATIONS) for number, case in enumerate(CASES) if case[1] == family}
        assert len(met) == len(COMBINATIONS) / 2  # every second number is this family's
        algorithms = {number % len(ALGORITHMS) for number in met}
        criteria = {number // len(ALGORITHMS) for number in met}
        assert len(algorithms) == len(ALGORITHMS)
        assert len(criteria) == len(CRITERIA)


@pytest.mark.parametrize(
    ("number", "kind", "family", "seed"),
    [pytest.param(i, *case, id=f"{case[0].__name__}-{case[1]}-{case[2]}") for i, case in enumerate(CASES)],
)
def test_equals_exhaustive(number, kind, family, seed):
    case = kind(np.random.default_rng([11, number, seed]), family)
    criterion, algorithm = combination(number)
    assert_same(*(trail_of(case, family, criterion, engine, **algorithm) for engine in ("exhaustive", "certified")))


@pytest.mark.parametrize("family", ["poisson", "multinomial", "cox", "binomial"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_other_families_equal_exhaustive(kind, family):
    """Counts, classes, survival times and offsets have brackets of their own; four variables are enough to see."""
    number = KINDS.index(kind)
    rng = np.random.default_rng([5, number, len(family)])
    case = of_another_family(kind(rng, "gaussian"), rng, family)
    criterion, algorithm = combination(3 * number)
    options = {**algorithm, "max_features": 4}
    assert_same(*(trail_of(case, family, criterion, engine, **options) for engine in ("exhaustive", "certified")))


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_separated_classes_leave_no_curvature_for_removals(seed):
    """The Wald step of a removal must not be taken from a Hessian that separation has made singular."""
    rng = np.random.default_rng([8, seed])
    case = of_another_family(wide(rng, "gaussian"), rng, "multinomial")
    options = {"k": math.inf, "max_features": 4}
    assert_same(*(trail_of(case, "multinomial", fbed.AIC(), e, **options) for e in ("exhaustive", "certified")))


def assert_same(exhaustive, certified):
    """Same decisions scan by scan, the same number of tests, and intervals that hold the statistics."""
    assert certified.selected == exhaustive.selected
    assert certified.status == exhaustive.status
    assert len(certified.steps) == len(exhaustive.steps)
    for fitted, bounded in zip(exhaustive.steps, certified.steps, strict=True):
        assert (bounded.phase, bounded.run) == (fitted.phase, fitted.run)
        assert bounded.scan.candidates.tolist() == fitted.scan.candidates.tolist()
        assert bounded.dropped.tolist() == fitted.dropped.tolist()
        if fitted.phase == "forward":
            assert bounded.scan.passes.tolist() == fitted.scan.passes.tolist()
        assert_holds(bounded.scan, fitted.scan)
        assert (bounded.scan.chosen is None) == (fitted.scan.chosen is None)
        if fitted.scan.chosen is not None:
            assert bounded.scan.chosen.variable == fitted.scan.chosen.variable
            assert bounded.scan.chosen.statistic == pytest.approx(fitted.scan.chosen.statistic, rel=1e-6, abs=1e-7)
            # near 0, log p is as uncertain as the root of the statistic
            uncertain = 1e-7 if fitted.scan.chosen.statistic > 1e-4 else 1e-3
            assert bounded.scan.chosen.log_p == pytest.approx(fitted.scan.chosen.log_p, rel=1e-6, abs=uncertain)


def assert_holds(bounded, fitted):
    """A column in the span of S has statistic 0 by rule, whatever its likelihood: bounds need not know."""
    statistic, tested = fitted.lower, fitted.df > 0
    slack = FITTED * (1 + statistic)
    assert (bounded.lower <= bounded.upper).all()
    assert (bounded.lower - slack <= statistic)[tested].all()
    assert (statistic <= bounded.upper + slack)[tested].all()


def both(X, y, criterion=None, weights=None, forced=(), **algorithm):
    case = Case(X, np.asarray(y, dtype=float), weights, forced)
    criterion = criterion or fbed.LikelihoodRatio(0.05)
    trails = [trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")]
    assert_same(*trails)
    return trails


# What random data have brought to light.


@pytest.mark.parametrize(
    "number", [342, 404, 1233, 1284, 1663, 2785, 4281, 4553, 4706, 5857, 6772, 7663, 60443, 61004, 62211, 90839, 102778]
)
def test_random_data_that_were_hard(number):
    """Found among ten thousand: rows of little weight, idle rows that the model moves, steps that rounding made."""
    case = KINDS[number % len(KINDS)](np.random.default_rng([777, number]), "binomial")
    criterion = CRITERIA[(number // len(KINDS)) % len(CRITERIA)]
    algorithm = ALGORITHMS[(number // 3) % len(ALGORITHMS)]
    assert_same(*(trail_of(case, "binomial", criterion, engine, **algorithm) for engine in ("exhaustive", "certified")))


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_an_outlier_on_a_sparse_column_does_not_hide_the_other_rows(size):
    """The outlier saturates at once; the optimum along the column is `size` times farther away."""
    n = 200
    y = np.arange(n) % 2
    x = np.zeros(n)
    x[:24] = np.where(y[:24] == 1, 1.0, -1.0)
    x[[3, 6]] = 1.0, -0.5  # the rows do not agree, so that the optimum is finite
    x[1] = size
    x[2] = 1.0
    X = np.column_stack([x, rare(np.random.default_rng(0), n, 10)])
    for matrix in (X, sparse.csc_array(X)):
        exhaustive, _ = both(matrix, y, fbed.AIC(), k=0)
        assert exhaustive.steps[0].scan.lower[0] > 10


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_sparse_columns_in_any_unit(unit):
    rng = np.random.default_rng(1)
    X = rare(rng, 150, 12)
    y = (X[:, 0] - X[:, 1] + rng.logistic(size=150) > 0).astype(float)
    both(sparse.csc_array(X * unit), y, fbed.LikelihoodRatio(0.2), k=1)


@pytest.mark.parametrize("mean", [1e2, 1e5, 1e8])
def test_full_columns_of_a_sparse_matrix_with_a_large_mean(mean):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 6))
    y = (X[:, 0] + rng.logistic(size=120) > 0).astype(float)
    both(sparse.csc_array(X + mean), y, fbed.LikelihoodRatio(0.2), k=1)


@pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-4, 1e-5])
def test_sparse_columns_that_nearly_depend_on_the_model(distance):
    rng = np.random.default_rng(3)
    X = rare(rng, 200, 8)
    nonzero = X[:, 0] != 0
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(float)
    signal = np.where(nonzero, np.where(y == 1, 1.0, -1.0) + rng.normal(size=200), 0.0)
    near = X[:, [0]] + distance * np.column_stack([signal, nonzero * rng.normal(size=(200, 3)).T[0]])
    both(sparse.csc_array(np.hstack([X, near])), y, fbed.LikelihoodRatio(0.3), forced=(0,), k=1)


def test_a_saturated_outlier_in_the_model_leaves_its_other_rows_with_a_say():
    """One row has all of a column's variance and is fitted perfectly; the others still determine its coefficient."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 8))
    y = (X[:, 0] + X[:, 1] + rng.logistic(size=150) > 0).astype(float)
    X[int(np.argmax(y)), 0] = 1e6
    both(X, y, fbed.LikelihoodRatio(0.3), forced=(0,), early_dropping=False)


def test_a_number_that_says_what_a_category_says_leaves_when_the_category_enters():
    """Removing the number costs nothing: the category's column that it kept out comes to life."""
    rng = np.random.default_rng(0)
    level = np.array(list("abcd"))[rng.integers(0, 4, 300)]
    number, z = (level == "b").astype(float), rng.normal(size=300)
    y = 3 * number + (level == "c") - (level == "d") + z - 1 + rng.logistic(size=300) > 0
    frame = pd.DataFrame({"number": number, "category": level, "z": z})
    for engine in ("certified", "exhaustive"):
        result = fbed.select(frame, y.astype(int), criterion="bic", early_dropping=False, engine=engine)
        assert result.trace[0].variable == "number"
        assert result.selected == ("z", "category")


@pytest.mark.parametrize("family", FAMILIES)
def test_digits_that_a_large_mean_leaves(family):
    """A column of mean 3 and spread 1e-10 has six digits of information; both engines use them all."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(100, 4))
    y = z[:, 0] + rng.normal(size=100)
    y = y if family == "gaussian" else (y > 0).astype(float)
    X = 3.0 + 1e-10 * z
    for matrix in (X, sparse.csc_array(X)):
        case = Case(matrix, y)
        exhaustive, certified = (
            trail_of(case, family, fbed.AIC(), engine, k=0) for engine in ("exhaustive", "certified")
        )
        assert_same(exhaustive, certified)
        exact = trail_of(Case(X - 3.0, y), family, fbed.AIC(), "exhaustive", k=0)
        assert certified.steps[0].scan.chosen.statistic == pytest.approx(exact.steps[0].scan.chosen.statistic, rel=1e-9)


# Searches that share what they know.


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_searches_that_share_a_memo_find_what_each_finds_alone(kind):
    case = kind(np.random.default_rng([12, KINDS.index(kind)]), "binomial")
    n_variables = len(case.X) if isinstance(case.X, dict) else case.X.shape[1]
    memo = Memo(n_variables, len(case.y))
    for criterion, algorithm in COMBINATIONS[::7]:
        alone = trail_of(case, "binomial", criterion, "certified", **algorithm)
        shared = trail_of(case, "binomial", criterion, "certified", memo=memo, **algorithm)
        assert shared.selected == alone.selected
        assert shared.status == alone.status
        assert [len(step.scan.candidates) for step in shared.steps] == [
            len(step.scan.candidates) for step in alone.steps
        ]
        for mine, other in zip(shared.steps, alone.steps, strict=True):
            assert mine.dropped.tolist() == other.dropped.tolist()
            if other.scan.chosen is not None:
                assert mine.scan.chosen.statistic == pytest.approx(other.scan.chosen.statistic, rel=1e-7)


@pytest.mark.parametrize("kind", KINDS[:6], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("family", FAMILIES)
def test_threads_change_no_bit(kind, family):
    case = kind(np.random.default_rng([13, KINDS.index(kind)]), family)
    one, two, three = (trail_of(case, family, fbed.AIC(), "certified", n_threads=n, k=1) for n in (1, 2, 3))
    for other in (two, three):
        assert other.selected == one.selected
        for mine, theirs in zip(one.steps, other.steps, strict=True):
            assert (mine.scan.lower == theirs.scan.lower).all()
            assert (mine.scan.upper == theirs.scan.upper).all()


def test_infinitely_many_runs_end():
    case = KINDS[0](np.random.default_rng(14), "binomial")
    trail = trail_of(case, "binomial", fbed.LikelihoodRatio(0.5), "certified", k=math.inf)
    assert trail.status in ("converged", "saturated")


def test_where_no_way_arrives_the_closest_is_taken():
    """Ways to a maximum that rounding hides end here and there: later ones need not be better."""
    ends = iter([(105.0, 3e-6), (100.0, 2e-6), (140.0, 50.0), (120.0, 40.0)])

    class Stuck(CertifiedLogistic):
        def __init__(self):
            pass

        def _tried(self, *_):
            deviance, decrement = next(ends)
            return np.zeros(1), np.zeros(2), deviance, 0.0, decrement, False, 200

        def _elsewhere(self, safely):
            return safely, safely, safely

    assert Stuck()._fitted(np.ones((2, 1)), [np.zeros(1)])[2] == 100.0
