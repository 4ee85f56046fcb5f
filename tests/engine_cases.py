"""Random data sets of the kinds that are hard on bounds, and searches whose every scan can be looked at."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

import fbed
from fbed.search.scan import Scanner
from fbed.search.search import Plan, Trail, search
from problem_cases import read_problem

CRITERIA = (
    fbed.LikelihoodRatio(0.05),
    fbed.LikelihoodRatio(0.001),
    fbed.LikelihoodRatio(0.3),
    fbed.LikelihoodRatio(0.2, 0.01),
    fbed.AIC(),
    fbed.BIC(),
    fbed.EBIC(),
    fbed.EBIC(1.0),
)
ALGORITHMS = ({"k": 0}, {"k": 1}, {"k": 2}, {"k": math.inf}, {"early_dropping": False})


@dataclass(frozen=True)
class Case:
    """One data set."""

    X: Any
    y: Any
    weights: np.ndarray | None = None
    forced: tuple[int, ...] = ()
    offset: np.ndarray | None = None


def trail_of(case, family, criterion, engine, n_threads=1, memo=None, device=None, link=None, **plan):
    """The search as `fbed.select` does it, with every scan kept."""
    about_rows = {"sample_weight": case.weights, "offset": case.offset}
    problem = read_problem(
        case.X, case.y, [criterion], family=family, engine=engine, device=device, link=link, **about_rows
    )
    p = problem.table.n_variables
    candidates = np.setdiff1d(np.arange(p), case.forced).astype(np.intp)
    rule = criterion.bind(problem.model.n, problem.design.n_varying(candidates))
    scanner = Scanner(problem.model, rule, len(case.forced), n_threads, memo=memo)
    trail = Trail(list(case.forced))
    search(scanner, Plan(candidates, case.forced, **plan), trail)
    return trail


def attack(searches, first, last, seconds=1e9):
    """Random tables by their numbers, searched with both engines; prints which do not agree, and returns how many."""
    from test_certified import assert_same

    warnings.simplefilter("ignore")
    compared = different = 0
    end = time.monotonic() + seconds
    for number in range(first, last):
        if time.monotonic() > end:
            break
        try:
            if (trails := searches(number)) is None:
                continue
            compared += 1
            assert_same(*trails)
        except (AssertionError, np.linalg.LinAlgError) as error:
            different += 1
            print(f"{number}: {type(error).__name__} {str(error)[:300]}", flush=True)
    print(f"{compared} searches, {different} different")
    return different


def outcome(rng, X, family, noise=1.0, positives=None):
    """An outcome that depends on a few columns, whatever their scale and tails."""
    n, p = X.shape
    ranks = np.argsort(np.argsort(X, axis=0), axis=0) / n - 0.5
    effect = np.where(rng.uniform(size=p) < min(0.3, 6 / p), rng.normal(scale=4, size=p), 0.0)
    signal = ranks @ effect + noise * rng.normal(size=n)
    if np.ptp(signal) == 0:
        signal = rng.normal(size=n)
    if family == "gaussian":
        return signal
    y = (signal > np.quantile(signal, 1 - (positives or rng.uniform(0.2, 0.8)))).astype(float)
    y[:4] = np.where(min(y.sum(), (1 - y).sum()) < 2, [0.0, 1.0, 0.0, 1.0], y[:4])  # two rows of each class
    return y


def normal(rng, n, p):
    return rng.normal(size=(n, p)) + rng.choice([0.0, 0.7, 2.0]) * rng.normal(size=(n, 1))


def plain(rng, family):
    X = normal(rng, rng.integers(40, 200), rng.integers(5, 30))
    return Case(X, outcome(rng, X, family))


def heavy_tailed(rng, family):
    X = normal(rng, rng.integers(40, 200), rng.integers(5, 25))
    tails = [lambda x: np.sign(x) * np.expm1(2 * np.abs(x)), lambda x: 1 / (np.abs(x) + 1e-3), lambda x: np.exp(2 * x)]
    for j in range(X.shape[1]):
        X[:, j] = tails[rng.integers(3)](X[:, j])
    return Case(X, outcome(rng, X, family))


def rare(rng, n, p):
    """Few values that are not 0: indicators, counts, or values with heavy tails."""
    nonzero = rng.uniform(size=(n, p)) < rng.uniform(0.01, 0.18, size=p)
    values = [np.ones((n, p)), rng.poisson(2, (n, p)), rng.standard_t(2, (n, p)), np.exp(1.5 * rng.normal(size=(n, p)))]
    return np.where(nonzero, values[rng.integers(4)], 0.0)


def mostly_zero(rng, family):
    X = rare(rng, rng.integers(40, 250), rng.integers(8, 40))
    return Case(X, outcome(rng, X, family))


def sparse_columns(rng, family):
    case = mostly_zero(rng, family)
    return Case(sparse.csc_array(case.X), case.y)


def sparse_in_other_units(rng, family):
    """Raw values of a sparse matrix may be of any size, and need not be few."""
    X = rare(rng, rng.integers(40, 150), rng.integers(8, 20))
    full = rng.uniform(size=X.shape[1]) < 0.3
    X[:, full] = normal(rng, len(X), int(full.sum())) + 10.0 ** rng.integers(-2, 9, size=int(full.sum()))
    y = outcome(rng, X, family)
    return Case(sparse.csc_array(X * 10.0 ** rng.integers(-12, 12, size=X.shape[1])), y)


def complements(rng, family):
    """Indicators and their complements, which fit alike though one is mostly 0 and the other mostly 1."""
    X = (rng.uniform(size=(rng.integers(50, 200), 8)) < rng.uniform(0.03, 0.19, size=8)).astype(float)
    y = outcome(rng, X, family)
    X = np.hstack([X, 1 - X])[:, rng.permutation(16)]
    return Case(sparse.csc_array(X) if rng.uniform() < 0.5 else X, y)


def separated(rng, family):
    """One class beyond a hyperplane, or all rows but a few; columns of either kind."""
    n, p = rng.integers(20, 120), rng.integers(4, 20)
    X = normal(rng, n, p) if rng.uniform() < 0.6 else rare(rng, n, p)
    y = outcome(rng, X, family, noise=rng.choice([0.0, 1e-6, 0.02, 0.2]))
    return Case(sparse.csc_array(X) if rng.uniform() < 0.3 else X, y)


def quasi_separated(rng, family):
    """Columns that explain one class on the rows where they are not 0, beside columns that explain all rows a bit."""
    n = rng.integers(40, 150)
    X = normal(rng, n, 10)
    y = outcome(rng, X, family)
    high = y > np.median(y) if family == "gaussian" else y > 0
    for j in range(0, 10, 2):
        pure = (rng.uniform(size=n) < 0.3) & (high if j % 4 else ~high)
        X[:, j] = pure * rng.choice([1.0, -2.0]) * (1 + (rng.exponential(size=n) if j % 3 else 0))
    return Case(sparse.csc_array(X) if rng.uniform() < 0.4 else X, y)


def collinear(rng, family):
    """Copies, rescaled copies, sums, and columns at any distance from another one."""
    X = normal(rng, rng.integers(40, 150), 16) if rng.uniform() < 0.6 else rare(rng, rng.integers(60, 150), 16)
    y = outcome(rng, X, family)
    for j in range(4, 16):
        a, b = X[:, rng.integers(0, j)], X[:, rng.integers(0, j)]
        near = 10.0 ** rng.integers(-7, -1) * np.abs(a).max() * rng.normal(size=len(a))
        X[:, j] = [a, a * 10.0 ** rng.integers(-9, 9), a + b, a + near, a * (1 + 1e-5 * near), 3 - a, X[:, j]][
            rng.integers(7)
        ]
    return Case(sparse.csc_array(X) if rng.uniform() < 0.4 else X, y)


def weighted(rng, family):
    base = (plain, heavy_tailed, mostly_zero, sparse_columns)[rng.integers(4)](rng, family)
    n = len(base.y)
    weights = [rng.integers(1, 5, n), rng.uniform(0.1, 3, n), 10.0 ** rng.uniform(-2, 2, n)][rng.integers(3)]
    return Case(base.X, base.y, weights.astype(float))


def tiny(rng, family):
    n, p = rng.integers(5, 14), rng.integers(2, 12)
    X = normal(rng, n, p) if rng.uniform() < 0.5 else np.round(normal(rng, n, p))
    return Case(X, outcome(rng, X, family))


def wide(rng, family):
    n, p = rng.integers(20, 50), rng.integers(100, 250)
    X = normal(rng, n, p) if rng.uniform() < 0.6 else rare(rng, n, p)
    return Case(sparse.csc_array(X) if rng.uniform() < 0.4 else X, outcome(rng, X, family))


def shifted(rng, family):
    """Means and units of any size: 16 digits of a column whose mean is 1e8 times its spread hold 8 of information."""
    X = normal(rng, rng.integers(40, 150), rng.integers(5, 20))
    y = outcome(rng, X, family)
    X = X + 10.0 ** rng.uniform(-8, 8, size=X.shape[1])
    return Case(X * 10.0 ** rng.uniform(-8, 8, size=X.shape[1]), y)


def forced(rng, family):
    base = (plain, collinear, sparse_columns, separated, heavy_tailed)[rng.integers(5)](rng, family)
    usable = [
        j
        for j in range(base.X.shape[1])
        if np.ptp(np.asarray(base.X[:, [j]].todense() if sparse.issparse(base.X) else base.X[:, j])) > 0
    ]
    return Case(base.X, base.y, base.weights, tuple(int(j) for j in rng.permutation(usable)[: rng.integers(1, 4)]))


def factors(rng, family):
    X = normal(rng, rng.integers(50, 150), 8)
    y = outcome(rng, X, family)
    columns = {f"x{j}": X[:, j] for j in range(8)}
    for j in (1, 4, 6):
        columns[f"x{j}"] = np.array(list("abcdef"))[np.digitize(X[:, j], np.sort(rng.normal(size=rng.integers(1, 5))))]
    columns["x7"] = (columns["x1"] == columns["x1"][0]).astype(float)  # a level of another column, as a number
    return Case(columns, y)


def unbalanced(rng, family):
    X = normal(rng, rng.integers(150, 300), 12) if rng.uniform() < 0.5 else rare(rng, rng.integers(150, 300), 20)
    return Case(X, outcome(rng, X, family, positives=0.03))


def coarse(rng, family):
    """Few different values, so that statistics tie."""
    X = np.round(normal(rng, rng.integers(30, 120), 12))
    return Case(X.astype(np.int8), outcome(rng, X, family, noise=0.5))


def of_another_family(case, rng, family):
    """The predictors of a case with a continuous outcome, and counts, classes, survival times or an offset."""
    n = len(case.y)
    standard = (case.y - case.y.mean()) / case.y.std()
    if family == "poisson":
        return replace(case, y=rng.poisson(np.exp(np.clip(standard, -2, 2))))
    if family == "multinomial":
        return replace(case, y=np.array(list("abc"))[np.digitize(standard, np.quantile(standard, [0.33, 0.66]))])
    if family == "cox":
        return replace(case, y=(np.exp(rng.normal(size=n) - standard), np.arange(n) % 10 < 7))
    return replace(case, y=(standard > np.median(standard)).astype(float), offset=rng.normal(size=n))


KINDS = (
    plain,
    heavy_tailed,
    mostly_zero,
    sparse_columns,
    sparse_in_other_units,
    complements,
    separated,
    quasi_separated,
    collinear,
    weighted,
    tiny,
    wide,
    shifted,
    forced,
    factors,
    unbalanced,
    coarse,
)
