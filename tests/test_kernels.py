"""Every kernel against an obvious twin: NumPy, mpmath, or a fit of the model that a bound is about."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, special

import fbed
from engine_cases import Case, heavy_tailed, normal, outcome, quasi_separated, rare, separated
from fbed._kernels import (
    DenseColumns,
    LogisticNull,
    SparseColumns,
    basis_without,
    bound_functions,
    concordant_pairs,
    deviances_after,
    elementary_functions,
    fit_logistic,
    least_rows,
    pattern_deviances,
    row_deviances,
    to_columns,
)
from problem_cases import read_problem

few = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32 - 1)


# Functions of one number.


def ulps(found, exact):
    """Distance in units of the last place of the exact value."""
    return abs(mpmath.mpf(found) - exact) / mpmath.mpf(math.ulp(float(exact)))


def numbers(low, high, count=400):
    rng = np.random.default_rng(0)
    near_zero = -(10.0 ** rng.uniform(-300, 0, count)) if high <= 0 else 10.0 ** rng.uniform(-300, 0, count)
    near_zero = near_zero[(near_zero >= low) & (near_zero <= high)]
    return np.concatenate([rng.uniform(low, high, count), near_zero, [low, high]])


def test_exponential():
    with mpmath.workdps(40):
        assert max(ulps(elementary_functions(x, 0.0)[0], mpmath.exp(x)) for x in numbers(-700, 0)) < 2
    assert elementary_functions(0.0, 0.0)[0] == 1.0
    assert elementary_functions(-1e9, 0.0)[0] == 0.0


def test_logarithm():
    with mpmath.workdps(40):
        assert max(ulps(elementary_functions(0.0, e)[1], mpmath.log1p(e)) for e in numbers(0, 1)) < 4
    assert elementary_functions(0.0, 0.0)[1] == 0.0


@pytest.mark.parametrize(
    ("position", "formula", "low"),
    [
        (0, lambda z: 2 * ((1 + z) * mpmath.log1p(z) - z) / z**2, -1.0),
        (1, lambda z: 2 * ((1 + z) * mpmath.log1p(z) - z - z**2 / 2 + z**3 / 6) / z**4, -1.0),
        (2, lambda z: 2 * (mpmath.exp(z) - 1 - z - z**2 / 2 - z**3 / 6) / z**4, -50.0),
    ],
    ids=["P", "P4", "E4"],
)
def test_bound_functions(position, formula, low):
    """To 1e-11, a hundredth of what bounds are widened by, at any distance from 0, where the formulas cancel."""
    rng = np.random.default_rng(1)
    sizes = np.concatenate([10.0 ** rng.uniform(-12, 0, 200), rng.uniform(0, 1, 50), 10.0 ** rng.uniform(0, 2, 50)])
    for z in np.concatenate([sizes, -sizes[sizes <= -low]]):
        with mpmath.workdps(80):
            exact = formula(mpmath.mpf(float(z)))
        assert bound_functions(float(z))[position] == pytest.approx(float(exact), rel=1e-11)
    assert bound_functions(-1.0)[0] == 2.0
    assert bound_functions(0.0)[:3] == pytest.approx((1.0, 1 / 6, 1 / 12), rel=1e-15)


# Columns.

TYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float32, np.float64)
LAYOUTS = {
    "Fortran": np.asfortranarray,
    "C": np.ascontiguousarray,
    "every other": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
}


def columns_of(X, storage):
    if storage != "sparse":
        return DenseColumns(LAYOUTS[storage](X))
    csc = sparse.csc_array(X)
    return SparseColumns(csc.indptr, csc.indices, csc.data, len(X))


def values(dtype, seed=0, n=57, p=35):
    rng = np.random.default_rng(seed)
    X = np.where(rng.uniform(size=(n, p)) < 0.5, rng.integers(0, 100, size=(n, p)), 0)
    X[:, 3], X[:, 4] = 7, 0
    return X.astype(dtype)


@pytest.mark.parametrize("storage", [*LAYOUTS, "sparse"])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.__name__)
def test_columns(dtype, storage):
    X = values(dtype)
    n, p = X.shape
    kernel, wide = columns_of(X, storage), X.astype(np.float64)
    weights, rng = np.random.default_rng(1).uniform(0.5, 2, n), np.random.default_rng(2)
    stats = np.vstack([kernel.stats(weights, weights.sum(), a, b) for a, b in ((0, 20), (20, 21), (21, p))])
    center = weights @ wide / weights.sum()
    scale = np.sqrt(weights @ (wide - center) ** 2 / weights.sum())
    expected = [center, scale, wide.min(axis=0), wide.max(axis=0), np.zeros(p), (wide != 0).sum(axis=0)]
    np.testing.assert_allclose(stats, np.column_stack(expected), rtol=1e-13, atol=1e-13)
    which = rng.integers(0, p, 50)
    gathered = kernel.gather(which, center, np.where(np.arange(p) == 3, 0.0, scale + 1.0))
    wanted = np.where(which == 3, 0.0, ((wide - center) / (scale + 1.0))[:, which])
    np.testing.assert_allclose(gathered, wanted, rtol=1e-13, atol=1e-15)
    assert gathered.flags.f_contiguous
    v = rng.normal(size=n)
    np.testing.assert_allclose(kernel.dots(which, v), wide[:, which].T @ v, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
def test_rows_that_lie_in_one_piece(dtype, n):
    """Tiles of rows and columns end anywhere; weights may be missing."""
    X = values(dtype, n=n, p=600)
    across, along = columns_of(X, "C"), columns_of(X, "Fortran")
    assert n == 1 or (across.is_across and not along.is_across)
    for weights in (np.ones(n), np.random.default_rng(1).uniform(0.5, 2, n)):
        there, here = (kernel.stats(weights, weights.sum(), 3, 600) for kernel in (across, along))
        np.testing.assert_allclose(there, here, rtol=1e-13, atol=1e-13)
    which, v = np.random.default_rng(2).permutation(600)[:550], np.random.default_rng(3).normal(size=n)
    center, scale = here[:, 0].repeat(2)[:600].copy(), here[:, 1].repeat(2)[:600].copy()
    assert (across.gather(which, center, scale) == along.gather(which, center, scale)).all()
    np.testing.assert_allclose(across.dots(which, v), along.dots(which, v), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [5, 16, 100, 1001])
def test_a_product_does_not_depend_on_its_neighbours(n):
    rng = np.random.default_rng(n)
    X, v = np.asfortranarray(rng.normal(size=(n, 11))), rng.normal(size=n)
    together = DenseColumns(X).dots(np.arange(11), v)
    assert [DenseColumns(X).dots(np.array([j]), v)[0] for j in range(11)] == together.tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.__name__)
def test_rows_are_written_as_columns(dtype, layout):
    X = LAYOUTS[layout](values(dtype, n=131, p=37))
    out = np.empty((37, 131), dtype=dtype)
    size = f"u{out.dtype.itemsize}"
    for first, last in ((0, 70), (70, 71), (71, 131)):
        to_columns(X.view(size), out.view(size), first, last)
    assert (out.T == X).all()


HOSTILE = {
    "huge": [1e200, -3e200, 2e200, 0.0],
    "largest": [1.7e308, -1.7e308, 0.0, 1e308],
    "tiny": [1e-200, 3e-200, 0.0, 2e-200],
    "large mean": [3 + 1e-10, 3 + 2e-10, 3 - 1e-10, 3.0],
    "negative mean": [-1e8 - 1, -1e8 + 1, -1e8, -1e8 + 3],
    "one value": [0.1, 0.1, 0.1, 0.1],
    "rounding": [1e16, 1e16 + 2, 1e16, 1e16],
}


@pytest.mark.parametrize("storage", ["Fortran", "C", "sparse"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_moments_of_hostile_columns(kind, storage):
    x = np.array(HOSTILE[kind])
    weights = np.array([1.0, 2.0, 0.5, 1.5])
    center, scale, low, high, bad, nonzero = columns_of(x[:, None], storage).stats(weights, weights.sum(), 0, 1)[0]
    with mpmath.workdps(60):
        exact = [mpmath.mpf(float(value)) for value in x]
        mean = sum(w * v for w, v in zip(weights, exact, strict=True)) / weights.sum()
        spread = mpmath.sqrt(sum(w * (v - mean) ** 2 for w, v in zip(weights, exact, strict=True)) / weights.sum())
    assert center == pytest.approx(float(mean), abs=1e-15 * np.abs(x).max())
    if float(spread) <= 1e-13 * np.abs(x).max():
        assert scale == 0.0
    else:
        assert scale == pytest.approx(float(spread), rel=1e-13)
    assert (low, high, bad, nonzero) == (x.min(), x.max(), 0, (x != 0).sum())


@pytest.mark.parametrize("storage", ["Fortran", "C", "sparse"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_counted(storage, bad):
    X = np.ones((5, 3))
    X[[1, 4], 1] = bad
    assert columns_of(X, storage).stats(np.ones(5), 5.0, 0, 3)[:, 4].tolist() == [0, 2, 0]


def test_stored_zeros_and_wide_indices():
    indptr, indices, data = np.array([0, 3, 4]), np.array([0, 2, 3, 1]), np.array([2.0, 0.0, 4.0, 0.0])
    for index in (np.int32, np.int64):
        kernel = SparseColumns(indptr.astype(index), indices.astype(index), data, 5)
        assert kernel.stats(np.ones(5), 5.0, 0, 2)[:, 5].tolist() == [2, 0]
        wanted = np.array([[2, 0, 0, 4, 0], [0, 0, 0, 0, 0]]).T
        assert (kernel.gather(np.array([0, 1]), np.zeros(2), np.ones(2)) == wanted).all()


def test_sizes_are_checked():
    X = np.asfortranarray(np.eye(4))
    dense = DenseColumns(X)
    for wrong in (
        lambda: dense.stats(np.ones(3), 3.0, 0, 4),
        lambda: dense.stats(np.ones(4), 4.0, 0, 5),
        lambda: dense.gather(np.array([4]), np.zeros(4), np.ones(4)),
        lambda: dense.gather(np.array([-1]), np.zeros(4), np.ones(4)),
        lambda: dense.gather(np.array([0]), np.zeros(3), np.ones(4)),
        lambda: dense.dots(np.array([0]), np.ones(5)),
        lambda: SparseColumns(np.array([0, 9]), np.array([0]), np.ones(1), 4),
        lambda: SparseColumns(np.array([0, 1]), np.array([0]), np.ones(2), 4),
        lambda: SparseColumns(np.array([0, 2]), np.array([3, 1]), np.ones(2), 4),
        lambda: SparseColumns(np.array([0, 2, 1, 2]), np.array([0, 1]), np.ones(2), 4),
        lambda: SparseColumns(np.array([0, 1]), np.array([4]), np.ones(1), 4),
        lambda: DenseColumns(np.ones(4)),
        lambda: DenseColumns(np.ones((4, 4), dtype=np.complex128)),
        lambda: LogisticNull.of_rows(np.ones((4, 1)), np.ones(3), np.ones(4), np.zeros(4), np.ones(4), 1.0, 0.0),
        lambda: LogisticNull.of_fit(np.ones((4, 1)), np.ones(4), np.ones(4), np.zeros(4), np.ones(2), 1.0),
        lambda: basis_without(np.eye(4), 2, 5),
        lambda: pattern_deviances(np.ones((4, 2)), np.ones(4), np.ones(4), np.array([1]), np.array([3])),
        lambda: concordant_pairs(np.ones(4), np.ones(4, dtype=bool), np.ones(4), np.ones((2, 3))),
        lambda: fit_logistic(np.ones((4, 2)), np.ones(4), np.ones(4), np.zeros((1, 1)), 1e-12, np.inf),
    ):
        with pytest.raises((ValueError, TypeError)):
            wrong()


# Fits and bounds.


@few
@given(seed=seeds)
def test_fit_is_a_maximum(seed):
    """The gradient is 0 there: the likelihood is concave."""
    rng = np.random.default_rng(seed)
    n, r = rng.integers(30, 200), rng.integers(1, 8)
    Z = np.column_stack([np.ones(n), normal(rng, n, r)])
    y = (rng.uniform(size=n) < special.expit(Z @ rng.normal(size=r + 1) * 0.3)).astype(float)
    y[:2] = 0, 1
    weights = rng.uniform(0.2, 3, n)
    coefficients, predictor, deviance, certain, decrement, is_separated, _ = fit_logistic(
        Z, weights, y, np.zeros((1, r + 1)), 1e-12, np.inf
    )
    np.testing.assert_allclose(predictor, Z @ coefficients, rtol=1e-12, atol=1e-12)
    if is_separated:
        assert ((2 * y - 1) * predictor > 0).all()
        assert deviance == 0.0
        return
    assert deviance == pytest.approx(2 * weights @ np.logaddexp(0, (1 - 2 * y) * predictor), rel=1e-13)
    if np.abs(predictor).max() < 15:
        gradient = Z.T @ (weights * (y - special.expit(predictor)))
        assert np.abs(gradient).max() < 1e-6
        assert decrement <= 1e-12
        assert certain <= deviance


@pytest.mark.parametrize("far", [10.0, 37.0, 60.0, 1e3, 1e6])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_fit_comes_back_from_the_wrong_side(far, side):
    """There, rows are as certain as they are wrong, and no curvature shows how far it is to the maximum."""
    rng = np.random.default_rng(5)
    Z = np.column_stack([np.ones(60), np.arange(60) < 20, rng.normal(size=60)])
    y = (rng.uniform(size=60) < np.where(Z[:, 1] > 0, 0.3, 0.6)).astype(float)
    starts = np.array([[0.0, side * far, 0.0]])
    away = fit_logistic(Z, np.ones(60), y, starts, 1e-12, np.inf)
    near = fit_logistic(Z, np.ones(60), y, np.zeros((1, 3)), 1e-12, np.inf)
    assert away[2] == pytest.approx(near[2], rel=1e-12)
    assert away[0] == pytest.approx(near[0], rel=1e-6)


class Fitted:
    """The fit on a few columns, and the exhaustive statistics of the others."""

    def __init__(self, case, selected):
        models = [
            read_problem(
                case.X, case.y, [fbed.AIC()], sample_weight=case.weights, family="binomial", engine=engine
            ).model
            for engine in ("certified", "exhaustive")
        ]
        self.fit, self.exhaustive = (model.fit(selected) for model in models)
        self.others = np.setdiff1d(np.arange(case.X.shape[1]), selected).astype(np.intp)
        evidence = self.exhaustive.gains(self.others)
        self.statistic, self.tested = evidence.statistic, evidence.df > 0
        self.fit.prepare(1000, 1.0)

    def assert_holds(self, lower, upper, rows=slice(None)):
        statistic, tested = self.statistic[rows], self.tested[rows]
        slack = 1e-8 * (1 + statistic)
        assert (lower - slack <= statistic)[tested].all()
        assert (statistic <= upper + slack)[tested].all()


def measurements(rng):
    X = normal(rng, rng.integers(30, 150), 10)
    return Case(X, outcome(rng, X, "binomial"), rng.uniform(0.3, 2, len(X)) if rng.uniform() < 0.3 else None)


def indicators(rng):
    X = rare(rng, rng.integers(40, 150), 12)
    return Case(sparse.csc_array(X) if rng.uniform() < 0.5 else X, outcome(rng, X, "binomial"))


KINDS = (
    measurements,
    indicators,
    lambda rng: heavy_tailed(rng, "binomial"),
    lambda rng: quasi_separated(rng, "binomial"),
    lambda rng: separated(rng, "binomial"),
)


@few
@given(seed=seeds, kind=st.sampled_from(range(len(KINDS))), size=st.integers(0, 3))
def test_brackets_hold_the_statistic(seed, kind, size):
    """Without refinement, and refined until each is clear of a critical value anywhere among the statistics."""
    case = KINDS[kind](np.random.default_rng(seed))
    fitted = Fitted(case, list(range(size)))
    if fitted.fit.saturated:
        return
    engine, design = fitted.fit.engine, fitted.fit.model.design
    numeric = np.flatnonzero(design.width[fitted.others] == 1)
    which = design.positions(fitted.others[numeric])
    for null in filter(None, (engine.null, engine.coarse)):
        for ranked in (False, True):
            lower, upper, _ = engine._brackets(null, which, 1e-9, ranked, refine=False)
            fitted.assert_holds(lower if null is engine.null else np.zeros(len(which)), upper, numeric)
    for critical in np.quantile(fitted.statistic[numeric], [0.1, 0.5, 0.9]) + 1e-3:
        lower, upper, suspect = engine.bounds(fitted.others[numeric], float(critical))
        fitted.assert_holds(lower, upper, numeric)
        clear = (upper <= critical * (1 - 1e-9)) | (lower >= critical * (1 + 1e-9)) | (upper - lower < 1e-7)
        assert clear[~suspect].mean() > 0.5  # the others are fitted by the caller


@few
@given(seed=seeds, kind=st.sampled_from(range(len(KINDS))), size=st.integers(2, 6))
def test_drop_one_bounds_hold_the_statistic(seed, kind, size):
    case = KINDS[kind](np.random.default_rng(seed))
    dense = case.X.toarray() if sparse.issparse(case.X) else case.X
    variables = np.flatnonzero(np.ptp(dense, axis=0) > 0)[:size].astype(np.intp)
    fitted = Fitted(case, variables.tolist())
    if fitted.fit.saturated:
        return
    evidence = fitted.exhaustive.losses(variables)
    bounds = fitted.fit.loss_bounds(variables, lambda df: np.full(df.shape, np.inf))
    tested = evidence.df > 0
    slack = 1e-8 * (1 + evidence.statistic)
    assert (bounds.lower - slack <= evidence.statistic)[tested].all()
    assert (evidence.statistic <= bounds.upper + slack)[tested].all()


@few
@given(seed=seeds, short=st.floats(1e-9, 1e-3))
def test_bounds_allow_for_a_fit_that_stops_short(seed, short):
    """At coefficients that are not the maximum: the interval still holds 2[LL*(S + x) − LL*(S)]."""
    rng = np.random.default_rng(seed)
    n, p = rng.integers(40, 150), 8
    X = np.asfortranarray(normal(rng, n, p))
    y = outcome(rng, X, "binomial")
    fitted = Fitted(Case(X, y), [0, 1])
    engine = fitted.fit.engine
    if fitted.fit.saturated or np.abs(engine.predictor).max() > 10:
        return
    eta = engine.Z @ (engine.coefficients + short * rng.normal(size=engine.Z.shape[1]))
    mean = special.expit(eta)
    curvature = mean * (1 - mean)
    deviance = float(2 * np.logaddexp(0, (1 - 2 * y) * eta).sum())
    null = LogisticNull.of_rows(engine.Z, np.ones(n), y, eta, np.ones(n), deviance, 0.0)
    G = null.G
    assert G.T @ (G * curvature[:, None]) == pytest.approx(np.eye(G.shape[1]), abs=1e-9)
    assert engine.Z @ null.whitener == pytest.approx(G, abs=1e-12)
    design = fitted.fit.model.design
    block = design.matrix.gather(design.positions(fitted.others), design.center, design.scale)
    projections = block.T @ (G * curvature[:, None])
    looked = null.look(block, projections)
    fitted.assert_holds(*looked[:2])
    orthogonal = (block.T - projections @ G.T).T
    fitted.assert_holds(*null.dense(orthogonal, looked[3], looked[0], looked[1], 1e-9, False)[:2])
    lower, upper, _ = null.dense(orthogonal, looked[3], looked[0], looked[1], 1e-9, True)
    fitted.assert_holds(lower - (deviance - engine.deviance), upper)  # refined: the gain over these coefficients


@few
@given(seed=seeds)
def test_upper_bounds_without_rows_that_a_step_takes_beyond(seed):
    """Near separation, with as many variables as it takes to leave some rows out: the bounds hold the statistic."""
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(60, 200)), int(rng.integers(6, 16))
    X = (rng.random((n, size + 12)) < rng.uniform(0.1, 0.5)).astype(float)
    X[:2] = [[0.0], [1.0]]  # they vary
    y = (X[:, : size + 4] @ rng.normal(size=size + 4) + rng.normal(scale=0.3, size=n) > 0).astype(float)
    if min(y.sum(), n - y.sum()) < 2:  # no class, or one of a single row, which is refused
        return
    fitted = Fitted(Case(X, y), list(range(size)))
    null, design = fitted.fit.engine.null, fitted.fit.model.design
    if fitted.fit.saturated or len(null.rows) == 0 or null.kernel.G.shape[1] < size // 2:
        return
    block = design.matrix.gather(design.positions(fitted.others), design.center, design.scale)
    for i, statistic in enumerate(fitted.statistic):
        for above in (1e-3, 0.1, 0.5, 2.0):  # the closer, the closer a bound has to be that settles it
            lower, upper, _ = null.brackets(block[:, i : i + 1], statistic + above, True)
            fitted.assert_holds(lower, upper, slice(i, i + 1))


@few
@given(seed=seeds, size=st.integers(1, 9))
def test_a_triangle_without_some_columns(seed, size):
    rng = np.random.default_rng(seed)
    R = np.triu(rng.normal(size=(size, size)) * 10.0 ** rng.uniform(-8, 8, size))
    R[rng.uniform(size=R.shape) < 0.2] = 0.0
    first = rng.integers(0, size + 1)
    last = rng.integers(first, size + 1)
    Q = basis_without(R, first, last)
    rest = np.delete(R, slice(first, last), axis=1)
    assert np.abs(Q.T @ Q - np.eye(size)).max() < 1e-14
    below = np.tril(Q.T @ rest, -1)
    assert (np.abs(below) <= 1e-14 * np.abs(rest).max(axis=0, initial=0.0)).all()


def least_deviance(X, y, weight):
    """Of a model with a probability for each set of equal rows."""
    _, group = np.unique(X, axis=0, return_inverse=True)
    ones, zeros = (np.bincount(group.ravel(), weight * (y == value)) for value in (1, 0))
    return 2.0 * float((special.entr(ones) + special.entr(zeros) - special.entr(ones + zeros)).sum())


@few
@given(seed=seeds, levels=st.integers(1, 4), weighted=st.booleans())
def test_rows_that_cannot_be_told_apart(seed, levels, weighted):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 60), rng.integers(1, 6)
    X = rng.integers(0, levels, (n, k)) * rng.normal(size=k) * rng.choice([0.0, -0.0, 1.0], size=(n, k))
    y = rng.integers(0, 2, n).astype(float)
    weight = rng.uniform(0.3, 2, n) if weighted else np.ones(n)
    first = rng.integers(0, k + 1, 5)
    last = np.array([rng.integers(start, k + 1) for start in first])
    found = pattern_deviances(X, y, weight, first, last)
    for start, stop, deviance in zip(first, last, found, strict=True):
        rest = np.delete(X + 0.0, slice(start, stop), axis=1)
        assert deviance == pytest.approx(least_deviance(rest, y, weight), rel=1e-12, abs=1e-12)


@few
@given(seed=seeds, far=st.sampled_from([1.0, 30.0, 1e3, 1e13]))
def test_deviances_of_rows(seed, far):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 40), rng.integers(0, 4)
    eta, steps = far * rng.normal(size=n), np.asfortranarray(far * rng.normal(size=(n, m)))
    y, weight = rng.integers(0, 2, n).astype(float), rng.uniform(0, 2, n)
    sign = 1.0 - 2.0 * y
    np.testing.assert_allclose(
        row_deviances(weight, y, eta), 2.0 * weight * np.logaddexp(0.0, sign * eta), 1e-13, 1e-300
    )
    after = 2.0 * (weight @ np.logaddexp(0.0, sign[:, None] * (eta[:, None] - steps)))
    np.testing.assert_allclose(deviances_after(weight, y, eta, steps), after, rtol=1e-12)


@few
@given(seed=seeds, spared=st.sampled_from([0.0, 1e-12, 0.1, 3.0, 1e9]))
def test_rows_that_have_least(seed, spared):
    """As many as may be spared, by sorting all; ties, zeros and numbers of any size."""
    rng = np.random.default_rng(seed)
    left = rng.choice([0.0, 0.5, 1.0, 3e-320, 1e300], size=30) * rng.choice([1.0, rng.random()], size=30)
    left[:15] = np.exp(20.0 * rng.normal(size=15) - 5.0)
    order = np.argsort(left, kind="stable")
    expected = order[np.cumsum(left[order]) <= spared * (1.0 + 1e-12)]
    strictly = order[np.cumsum(left[order]) <= spared * (1.0 - 1e-12)]
    found = set(least_rows(left, spared).tolist())
    assert set(strictly.tolist()) <= found <= set(expected.tolist())


def test_no_model_explains_rows_that_it_cannot_tell_apart():
    """The bound is below the deviance of every model without a variable, and close where rows are few kinds."""
    close = 0
    for seed in range(40):
        case = indicators(np.random.default_rng([77, seed]))
        dense = case.X.toarray() if sparse.issparse(case.X) else case.X
        variables = np.flatnonzero(np.ptp(dense, axis=0) > 0)[:5].astype(np.intp)
        fitted = Fitted(case, variables.tolist())
        least = fitted.fit.engine._least_deviances(variables)
        exact = fitted.exhaustive.losses(variables).statistic + fitted.exhaustive.deviance
        assert (least <= exact + 1e-8).all()
        close += int((least > 0.9 * exact).sum())
    assert close > 20


@pytest.mark.parametrize(("kind", "seed"), list(product(range(len(KINDS)), range(6))))
def test_a_contest_finds_the_best(kind, seed):
    fitted = Fitted(KINDS[kind](np.random.default_rng([21, seed])), [0])
    if fitted.fit.saturated:
        return
    count = len(fitted.others)
    zero, most = np.zeros(count), np.full(count, fitted.fit.deviance)
    lower, upper = fitted.fit.contest(fitted.others, zero, most, True)
    fitted.assert_holds(lower, upper)
    best = int(np.argmax(np.where(fitted.tested, fitted.statistic, 0.0)))
    assert lower[best] == pytest.approx(fitted.statistic[best], rel=1e-7, abs=1e-8)
    assert upper[best] == pytest.approx(lower[best], rel=2e-8, abs=2e-8)
    assert (lower <= lower[best] * (1 + 1e-7) + 1e-8)[fitted.tested].all()


@pytest.mark.parametrize(("kind", "seed"), list(product(range(len(KINDS)), range(6))))
def test_a_leader_who_is_known_is_not_asked_again(kind, seed, monkeypatch):
    """Whether others beat him is found as before, and where his model ends is not forgotten."""
    fitted = Fitted(KINDS[kind](np.random.default_rng([22, seed])), [0])
    if fitted.fit.saturated:
        return
    count, engine = len(fitted.others), fitted.fit.engine
    first = fitted.fit.contest(fitted.others, np.zeros(count), np.full(count, fitted.fit.deviance), True)
    best = int(np.argmax(first[0]))
    hint = engine.hints.get(frozenset((0, int(fitted.others[best]))))
    order = np.append(best, np.delete(np.arange(count), best))
    asked, contest = [], engine.contest
    monkeypatch.setattr(engine, "contest", lambda *told: asked.append(told[-1]) or contest(*told))
    lower, upper = np.zeros(count), np.full(count, fitted.fit.deviance)
    lower[best], upper[best] = first[0][best], first[1][best]
    lower[order], upper[order] = fitted.fit.contest(fitted.others[order], lower[order], upper[order], True)
    fitted.assert_holds(lower, upper)
    assert (lower[best], upper[best]) == (first[0][best], first[1][best])
    assert (np.delete(lower, best) <= lower[best] * (1 + 1e-7) + 1e-8).all()
    if hint is not None:
        assert asked == [True]
        np.testing.assert_array_equal(engine.hints[frozenset((0, int(fitted.others[best])))], hint)


@pytest.mark.parametrize(("kind", "seed"), list(product(range(len(KINDS)), range(6))))
def test_ways_to_models_without_a_variable_are_found_together(kind, seed):
    engine = Fitted(KINDS[kind](np.random.default_rng([23, seed])), [0, 1, 2]).fit.engine
    if engine.deviance == 0.0 or engine.span.rank < 4:
        return
    variables = np.arange(3, dtype=np.intp)
    known, ways, wald = engine._shortest_ways_without(variables)
    alone = [engine._shortest_way_without(variable) for variable in variables.tolist()]
    assert known.tolist() == [i for i, way in enumerate(alone) if way is not None]
    for i, way, statistic in zip(known.tolist(), ways.T, wald, strict=True):
        np.testing.assert_allclose(way, alone[i][0], rtol=1e-10, atol=1e-12)
        assert statistic == pytest.approx(alone[i][1], rel=1e-10)
