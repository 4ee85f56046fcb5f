"""Classes are raced: the answers of fitting every model, from bounds that hold at every iteration."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

import class_word_cases
import fbed
import many_class_cases
from class_cases import searches
from engine_cases import Case, trail_of
from fbed._kernels import OrderedClasses, SoftmaxClasses
from fbed.models.likelihoods.multinomial import Multinomial
from fbed.models.likelihoods.newton import Columns, climb
from problem_cases import read_problem
from test_certified import assert_same

# fits that got stuck, two classes in order, and a step against the gradient that looked like an arrival
NUMBERS = [*range(34), 181, 249, 419, 1795, 2355]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.filterwarnings("ignore:.*could not be fitted to the end")
def test_equals_exhaustive(number):
    trails = searches(number)
    if trails is not None:
        assert_same(*trails)


@pytest.mark.parametrize("number", range(16))
@pytest.mark.filterwarnings("ignore:.*could not be fitted to the end")
def test_words_equal_exhaustive(number):
    trails = class_word_cases.searches(number)
    if trails is not None:
        assert_same(*trails)


@pytest.mark.parametrize("number", [*range(12), 22])  # the last: a Wald step where there is no curvature
@pytest.mark.filterwarnings("ignore:.*could not be fitted to the end")
def test_many_classes_equal_exhaustive(number):
    trails = many_class_cases.searches(number)
    if trails is not None:
        assert_same(*trails)


@pytest.mark.parametrize("number", [0, 1, 3, 4, 11])
def test_every_interval_of_many_classes_holds_the_statistic(number):
    """Wherever steps without Hessians end, and whatever classes are left then."""
    case = many_class_cases.table(number)
    models = [
        read_problem(
            case.X, case.y, [fbed.AIC()], family="multinomial", sample_weight=case.weights, engine=engine
        ).model
        for engine in ("exhaustive", "certified")
    ]
    exact, raced = (model.fit([0, 1]) for model in models)
    candidates = np.arange(2, case.X.shape[1])
    evidence = exact.gains(candidates)
    candidates, statistic = candidates[evidence.df > 0], evidence.statistic[evidence.df > 0]
    raced.prepare(len(candidates))
    for share in (0.3, 0.8, 0.98, 1.02, 1.3, 3.0):
        for i, candidate in enumerate(candidates):
            line = share * statistic[i]
            bounds = raced.gain_bounds(np.array([candidate]), lambda df, at=line: np.full(df.shape, at))
            assert bounds.lower[0] <= statistic[i] * (1 + 1e-7) + 1e-7
            assert bounds.upper[0] >= statistic[i] * (1 - 1e-7) - 1e-7
            assert (bounds.lower[0] > line) == (share < 1)
    lower, upper = raced.contest(candidates, np.zeros(len(candidates)), np.full(len(candidates), np.inf), True)
    assert (lower <= statistic * (1 + 1e-7) + 1e-7).all()
    assert (upper >= statistic * (1 - 1e-7) - 1e-7).all()


def test_those_who_explain_everything_are_not_all_fitted():
    """Whoever comes after one who explains everything cannot be better; the first of them wins."""
    rng = np.random.default_rng(3)
    y = np.arange(120) % 12
    codes = np.repeat(y[:, None], 6, axis=1) + 0.01 * rng.normal(size=(120, 6))
    X = np.column_stack([rng.normal(size=(120, 2)), codes, codes**2 + 0.01 * rng.normal(size=(120, 6))])
    case = Case(X, y.astype(str))
    trails = [trail_of(case, "multinomial", fbed.AIC(), e, k=0) for e in ("exhaustive", "certified")]
    assert trails[0].status == "saturated"
    assert_same(*trails)
    last = trails[1].steps[len(trails[1].selected) - 1].scan
    assert (last.lower < last.upper).any()


def words(seed, n=300, p=14, n_classes=4):
    rng = np.random.default_rng([4, seed])
    y = rng.integers(n_classes, size=n)
    X = rng.poisson(rng.choice([0.05, 0.1, 0.4], p) * np.exp(rng.normal(size=(n_classes, p)))[y]).astype(float)
    return X, y.astype(str), rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize("selected", [(), (0,), tuple(range(9))])
def test_entries_alone_give_what_all_values_give(selected):
    """Models on words are fitted on the entries that are not 0, to the same maxima as on an orthonormal basis."""
    X, y, weights = words(len(selected))
    options = {"family": "multinomial", "sample_weight": weights}
    model, other = (
        read_problem(X, y, [fbed.AIC()], engine=engine, **options).model for engine in ("certified", "exhaustive")
    )
    fit, expected = model.fit(selected), other.fit(selected)
    assert fit._sparse is not None or selected == (0,)  # a column beside the constant is multiplied as it is
    assert fit.deviance == pytest.approx(expected.deviance, rel=1e-10)
    assert np.abs(fit.predictors() - expected.predictors()).max() < 1e-4
    rest = np.setdiff1d(np.arange(X.shape[1]), selected)
    fit.prepare(len(rest))
    lower, upper = fit.contest(rest, np.zeros(len(rest)), np.full(len(rest), np.inf), False)
    assert (lower == upper).all()
    assert lower == pytest.approx(expected.gains(rest).statistic, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("selected", [(), (0, 3), tuple(range(9))])
def test_every_interval_of_words_holds_the_statistic(selected):
    """Words of two rows and of many, at lines that they are far from and next to."""
    X, y, weights = words(7)
    X[:, 10:] *= np.arange(len(X))[:, None] < [3, 20, 60, 300]
    options = {"family": "multinomial", "sample_weight": weights}
    raced, exact = (
        read_problem(X, y, [fbed.AIC()], engine=engine, **options).model.fit(selected)
        for engine in ("certified", "exhaustive")
    )
    rest = np.setdiff1d(np.arange(X.shape[1]), selected)
    found = exact.gains(rest)
    rest, statistic = rest[found.df > 0], found.statistic[found.df > 0]
    raced.prepare(len(rest))
    for share in (0.3, 0.98, 1.02, 1.3, 3.0, 30.0):
        line = share * statistic
        for i, candidate in enumerate(rest):
            bounds = raced.gain_bounds(np.array([candidate]), lambda df, at=line[i]: np.full(df.shape, at))
            assert bounds.lower[0] <= statistic[i] * (1 + 1e-7) + 1e-7
            assert bounds.upper[0] >= statistic[i] * (1 - 1e-7) - 1e-7
            assert (bounds.upper[0] <= line[i]) == (share > 1)


def test_next_to_collinear_words_keep_an_orthonormal_basis():
    X, y, _ = words(0)
    X[:, 1] = X[:, 0] + (np.arange(len(X)) == 5) * 1e-3
    model = read_problem(X, y, [fbed.AIC()], family="multinomial").model
    assert model.fit(range(9))._sparse is None
    assert model.fit([0, *range(2, 10)])._sparse is not None


def drawn(family, seed, n=120, p=6, n_classes=5):
    rng = np.random.default_rng([3, seed])
    X = rng.normal(size=(n, p)) * 10.0 ** rng.uniform(-3, 3, p)
    X[:, 1] = rng.uniform(size=n) < 0.08  # present in few rows, so that some classes never have it
    eta = X[:, 0] / X[:, 0].std() + 2.0 * X[:, 1]
    if family == "ordinal":
        y = np.digitize(eta + rng.logistic(size=n), np.linspace(-2, 3, n_classes - 1))
    else:
        y = (rng.gumbel(size=(n, n_classes)) + np.outer(eta, rng.normal(size=n_classes))).argmax(axis=1).astype(str)
    return X, y, rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize("family", ["multinomial", "ordinal"])
@pytest.mark.parametrize("seed", [6, 7, 11])
def test_every_interval_holds_the_statistic(family, seed):
    """Whatever the critical value, at which of the iterations the race ends, the interval is clear of it and holds."""
    X, y, weights = drawn(family, seed)
    candidates = np.arange(1, 6)
    models = [
        read_problem(X, y, [fbed.AIC()], family=family, sample_weight=weights, engine=engine).model
        for engine in ("exhaustive", "certified")
    ]
    exact, raced = (model.fit([0]) for model in models)
    statistic = exact.gains(candidates).statistic
    raced.prepare(len(candidates))
    for share in (0.3, 0.8, 0.98, 1.02, 1.3, 3.0):
        line = share * statistic[:, None]
        for i, candidate in enumerate(candidates):
            bounds = raced.gain_bounds(np.array([candidate]), lambda df, at=line[i]: np.full(df.shape, at[0]))
            assert bounds.lower[0] <= statistic[i] * (1 + 1e-7) + 1e-7
            assert bounds.upper[0] >= statistic[i] * (1 - 1e-7) - 1e-7
            assert (bounds.lower[0] > line[i]) == (share < 1)
            assert (bounds.upper[0] <= line[i]) == (share > 1)


@pytest.mark.parametrize("family", ["multinomial", "ordinal"])
@pytest.mark.parametrize("width", [1, 3])
def test_kernels_agree_with_newton_in_python(family, width):
    """The same maxima from any number of columns more, one after another or all at once."""
    X, y, weights = drawn(family, 1, p=4)
    model = read_problem(X, y, [fbed.AIC()], family=family, sample_weight=weights).model
    fit = model.fit([])
    fit.prepare()
    own = np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0))[:, [0, 2, 3]]
    assert isinstance(fit.classes, SoftmaxClasses | OrderedClasses)
    count = 3 // width
    size = fit.parameters.size + width * model.likelihood.n_predictors
    nothing = np.zeros((count, size)), np.zeros(count, bool), np.zeros(count)
    lower, upper, _ = fit.classes.race(own, width, *nothing, np.arange(count), 0, np.inf, True)
    assert (lower == upper).all()
    for i in range(count):
        columns = Columns(np.hstack([fit.Z, own[:, i * width : (i + 1) * width]]))
        found = model.likelihood.maximise(columns, model.likelihood.start(columns.size)[:, None])
        assert lower[i] == pytest.approx(fit.deviance - found.deviance[0], rel=1e-9)


@pytest.mark.parametrize("seed", [6, 7, 11])
def test_fits_arrive_where_most_rows_are_certain(seed):
    """Some digits are told apart completely, others are not: curvatures of all sizes, down to none."""
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    rows = np.sort(rng.choice(len(y), rng.integers(150, 500), replace=False))
    columns = X[np.ix_(rows, rng.choice(64, rng.integers(8, 16), replace=False))]
    columns = columns[:, columns.std(axis=0) > 0]
    n = len(rows)
    Z = np.linalg.qr(np.column_stack([np.ones(n), columns]))[0] * np.sqrt(n)
    likelihood = Multinomial(y[rows], range(10), np.ones(n))
    kernel = SoftmaxClasses(np.asfortranarray(Z), y[rows], 10, np.ones(n), np.zeros(9 * Z.shape[1]), 0.0)
    parameters, deviance, _, finished = kernel.fit(np.inf)
    assert finished
    point = likelihood.at(Columns(Z), parameters.reshape(-1, 9).T.reshape(-1, 1))
    assert point.value[0] == pytest.approx(deviance, abs=1e-6)
    slow = climb(likelihood, Columns(Z), np.zeros((9 * Z.shape[1], 1)))
    assert deviance <= slow.deviance[0] + 1e-6
    assert not slow.finished[0] or deviance == pytest.approx(slow.deviance[0], abs=1e-6)


PIXELS = [21, 33, 43, 61, 10, 26, 42, 27, 30, 52, 19, 36, 4, 20, 38, 58, 35, 5, 28, 44]


def kernel_of_digits(pixels):
    X, y = load_digits(return_X_y=True)
    Z = np.linalg.qr(np.column_stack([np.ones(len(y)), X[:, pixels]]))[0] * np.sqrt(len(y))
    return SoftmaxClasses(np.asfortranarray(Z), y, 10, np.ones(len(y)), np.zeros(9 * Z.shape[1]), 0.0)


def test_a_fit_next_to_separation_is_found():
    """Most directions have no curvature left, and what rounding leaves of it must not grow."""
    _, deviance, certain, finished = kernel_of_digits(PIXELS).fit(np.inf)
    assert finished
    assert certain == deviance == pytest.approx(39.712176760, abs=1e-8)


def test_numbers_next_to_nothing_are_there_again_after_a_fit():
    """Kernels compute without them; whoever called them does not, however the call ends."""
    tiny, kernel = np.array([1e-200]), kernel_of_digits(PIXELS[:9])
    kernel.fit(np.inf)
    assert (tiny * 1e-110)[0] > 0.0
    column, nobody = np.ones((1797, 1), order="F"), np.zeros(1)
    with pytest.raises(ValueError, match="starts"):
        kernel.race(column, 1, np.zeros((1, 1)), nobody > 0, nobody, nobody.astype(np.int64), 0, np.inf, False)
    assert (tiny * 1e-110)[0] > 0.0


@pytest.mark.parametrize("n_pixels", [3, 8, 17])
def test_a_fit_ends_once_its_deviance_is_certain_to_be_enough(n_pixels):
    kernel = kernel_of_digits(PIXELS[:n_pixels])
    exact = kernel.fit(np.inf)[1]
    for share in (0.2, 0.7, 0.99):
        _, attained, certain, finished = kernel.fit(share * exact)
        assert not finished
        assert share * exact <= certain <= exact <= attained * (1 + 1e-7)
    _, deviance, certain, finished = kernel.fit(1.01 * exact)
    assert finished
    assert certain == deviance == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("pixels", [PIXELS[:9], PIXELS[6:20], [*PIXELS, 50]])
def test_a_loss_is_above_what_is_enough_or_known(pixels):
    """The last model is separated."""
    X, y = load_digits(return_X_y=True)
    X, y = X[::3, pixels], y[::3]
    fit = read_problem(X, y, [fbed.AIC()], family="multinomial").model.fit(range(len(pixels)))
    for variable, loss in enumerate(fit.losses(np.arange(len(pixels))).statistic):
        for enough in (0.3 * loss, 0.9 * loss, 1.1 * loss + 1e-3):
            lower, upper = fit.resolve_loss(variable, enough)
            assert lower <= loss + 1e-6 * max(1.0, loss)
            assert upper >= loss - 1e-6 * max(1.0, loss)
            assert lower == upper or lower > enough


def test_a_race_stops_short_of_the_best():
    """Those who lose need not be known, the winner is."""
    X, y, weights = drawn("multinomial", 5, n=400, p=40)
    fit = read_problem(X, y, [fbed.AIC()], family="multinomial", sample_weight=weights).model.fit([])
    fit.prepare()
    candidates = np.arange(40)
    bounds = fit.gain_bounds(candidates, lambda df: np.zeros(df.shape))
    order = np.argsort(-bounds.lower, kind="stable")
    lower, upper = fit.contest(candidates[order], bounds.lower[order], bounds.upper[order], True)
    best = int(lower.argmax())
    assert lower[best] == upper[best]
    assert order[best] == 0
    assert (np.delete(upper, best) < lower[best]).all()
    assert (lower < upper).sum() > 20


def test_many_classes_of_correlated_columns():
    """Categories and groups enter the same race as numbers."""
    rng = np.random.default_rng(8)
    y = np.arange(300) % 15
    factors = rng.normal(size=(15, 4))[y] + rng.normal(size=(300, 4))
    X = factors @ rng.normal(size=(4, 12)) + rng.normal(size=(300, 12))
    columns = {f"x{j}": X[:, j] for j in range(12)}
    columns["level"] = np.array(list("abc"))[np.digitize(X[:, 0] + rng.normal(size=300), [-1, 1])]
    case = Case(columns, np.array([f"class {code}" for code in y]))
    for criterion in (fbed.LikelihoodRatio(0.05), fbed.EBIC()):
        options = {"k": 1, "max_features": 3}
        trails = [trail_of(case, "multinomial", criterion, e, **options) for e in ("exhaustive", "certified")]
        assert_same(*trails)


def test_twenty_six_classes_are_scanned_in_seconds():
    """Fitting all of these models takes a hundred times as long."""
    rng = np.random.default_rng(4)
    y = np.arange(780) % 26
    factors = rng.normal(size=(26, 8))[y] + rng.normal(size=(780, 8))
    X = factors @ rng.normal(size=(8, 60)) + rng.normal(size=(780, 60))
    started = time.process_time()
    result = fbed.select(X, y.astype(str), family="multinomial", k=0, max_features=2)
    assert len(result.selected) == 2
    assert time.process_time() - started < 10.0


@pytest.mark.parametrize("seed", [323, 360, 375])
def test_fits_that_go_on_from_separated_ones(seed):
    """Steps along directions without curvature do not lead so far out that predictors have no digits left."""
    rng = np.random.default_rng(seed)
    n = 300
    y = rng.choice(5, n, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    level = rng.integers(0, 9, n)
    level = np.where(rng.uniform(size=n) < 0.5, y, level)
    X = np.column_stack([level[:, None] == np.arange(1, 9), rng.normal(size=(n, 2)) + 0.7 * y[:, None]]).astype(float)
    weights = 10.0 ** rng.uniform(-3, 3, n)
    X[:, 8] *= 1e3 * (rng.uniform(size=n) < 0.02)
    y = np.array([f"c{code}" for code in y])
    model = read_problem(X, y, [fbed.AIC()], family="multinomial", sample_weight=weights).model
    fit = model.fit(())
    for k in (8, 9, 10):
        fit = model.fit(tuple(range(k)), fit)
        assert np.abs(fit.predictors()).max() < 1e9
        assert fit.deviance == pytest.approx(model.fit(tuple(range(k))).deviance, rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*could not be fitted to the end")
def test_rounding_far_out_lets_nobody_pass():
    """A near copy explains a row of little weight with a coefficient of 10⁸: what is left of it has rounding to fit."""
    rng = np.random.default_rng(17)
    n = 450
    far, few = 1e7 + rng.normal(size=n), rng.poisson(0.2, n).astype(float)
    near = few.copy()
    near[49] += 10.0 ** rng.integers(-4, 0)
    X = np.column_stack([rng.normal(size=(n, 2)), far, few, near, np.arange(n) == 49])
    weights = 10.0 ** rng.uniform(-3, 3, n)
    y = np.digitize(X[:, 0] + 3 * rng.normal(size=n) + rng.logistic(size=n), [-1, 1])
    y[49] = 0
    fit = read_problem(X, y, [fbed.AIC()], family="ordinal", sample_weight=weights).model.fit([0, 1, 2, 3])
    fit.prepare(2, 3.84)
    assert (fit.gain_bounds(np.array([4, 5]), lambda df: np.full(len(df), 3.841459)).upper < 1.0).all()
