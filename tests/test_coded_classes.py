"""Classes without order beside categories that stay codes: entries ruled out, bounds, searches against fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fbed
from category_cases import answers
from fbed.models.engines import coded_regression
from fbed.models.engines.categories.coded_classes import CodedClassesFit
from fbed.models.engines.categories.coded_columns import Category, CodedColumns
from fbed.models.engines.categories.coded_softmax import SoftmaxAscent, SoftmaxHessian
from fbed.models.engines.categories.softmax_rows import Entries
from fbed.models.engines.raced import RacedFit
from fbed.models.likelihoods.multinomial import Multinomial
from fbed.models.likelihoods.newton import Columns, climb, newton_step
from problem_cases import read_problem


@pytest.fixture(autouse=True)
def _small_tables_are_coded_too(monkeypatch):
    monkeypatch.setattr(coded_regression, "_WORTH", 0.0)


def observed_of(codes, n_classes):
    return codes[:, None] == np.arange(n_classes)


def test_classes_that_a_level_does_not_have_are_ruled_out():
    one = Category(np.array([0, 0, 1, 1, 1, 2, 2], dtype=np.int8), 3)
    two = Category(np.array([0, 1, 0, 0, 1, 1, 1], dtype=np.int8), 2)
    observed = observed_of(np.array([0, 0, 1, 2, 0, 2, 1]), 3)
    found = Entries.of([one], observed, np.ones(7))
    assert_array_equal(found.weight, [0, 0, 1, 1, 1, 1, 1])  # a level of class 0 alone explains its rows
    assert_array_equal(found.alive[2:], [[1, 1, 1]] * 3 + [[0, 1, 1]] * 2)
    again = Entries.of([one, two], observed, np.ones(7))  # without those rows, level 0 of the other has no class 0
    assert_array_equal(again.alive[2:4], [[0, 1, 1]] * 2)
    eta = again.in_the_limit(np.zeros((7, 2)))
    whole = np.hstack([np.zeros((7, 1)), eta])
    assert (whole[observed][:, None] - whole)[~again.alive & observed.any(axis=1)[:, None]].min() >= 30.0 - 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_steps_and_intervals_are_those_of_written_out_columns(seed):
    rng = np.random.default_rng([9, seed])
    n, n_levels, n_classes = int(rng.integers(60, 300)), int(rng.integers(2, 20)), int(rng.integers(3, 6))
    levels, other = (Category(rng.integers(0, size, n).astype(np.int8), size) for size in (n_levels, 4))
    weight, X = rng.uniform(0.3, 2, n), rng.normal(size=(n, 2))
    X[:, 1] = (rng.random(n) < 0.2) * rng.poisson(2, n)
    signal = rng.normal(size=n_levels)[levels.codes] + X[:, 0]
    y = (signal[:, None] * rng.normal(size=n_classes) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    columns = CodedColumns(levels, X, weight, [other])
    D = np.hstack([indicators(levels), X, indicators(other)[:, columns.others[0].kept]])
    family, start = Multinomial(y, list(range(n_classes)), weight), 0.3 * rng.normal(size=(n, n_classes - 1))
    start = D @ np.linalg.lstsq(D, start, rcond=None)[0]
    ascent = SoftmaxAscent(columns, observed_of(y, n_classes), weight, start)
    if ascent.entries.alive.all():
        step = SoftmaxHessian(columns, ascent.entries.at(start)).newton()
        beta = np.linalg.lstsq(D, start, rcond=None)[0]
        move, decrement = newton_step(*family.at(Columns(D), beta.T.ravel()[:, None]).derivatives())
        assert step.decrement == pytest.approx(decrement[0], rel=1e-8)
        assert_allclose(step.move, D @ move.reshape(n_classes - 1, -1).T, atol=1e-7)
    seen = []
    found = ascent.enclose(lambda *ends: seen.append(ends))
    Q = np.linalg.qr(D[:, D.any(axis=0)])[0] * np.sqrt(n)
    expected = climb(family, Columns(Q), np.zeros(((n_classes - 1) * Q.shape[1], 1))).deviance[0]
    assert found.settled
    assert found.most == pytest.approx(expected, rel=1e-9, abs=1e-8)
    for least, most in seen:
        assert least <= expected * (1 + 1e-10) + 1e-9
        assert most >= expected * (1 - 1e-10) - 1e-9
    rows, parameters = ascent.entries.at(ascent.predictor), np.linalg.lstsq(Q, found.predictor, rcond=None)[0]
    written_out, counts = family.at(Columns(Q), parameters.T.ravel()[:, None]).probability, rows.entries.weight > 0
    assert_allclose(rows.probability[counts, 1:].T, written_out[:, counts, 0], atol=1e-6)


def indicators(category):
    return (category.codes[:, None] == np.arange(category.n_levels)).astype(float)


def classes(seed):
    """Categories whose levels lack classes, levels of one row, nested ones, beside numbers; and how to search."""
    rng = np.random.default_rng([73, seed])
    n = int(rng.integers(80, 400))
    big, other = rng.choice(25, n, p=(part := 1 / np.arange(1, 26)) / part.sum()), rng.integers(0, 5, n)
    big[: n // 30] = 100 + np.arange(n // 30)
    X = pd.DataFrame({"big": [f"b{c:03d}" for c in big], "other": [f"o{c}" for c in other]})
    X["coarse"] = [f"g{c // 5}" for c in big]
    for j in range(4):
        X[f"x{j}"] = rng.normal(size=n) if j % 2 else (rng.random(n) < 0.15) * rng.poisson(2.0, n).astype(float)
    X["twice"] = 2.0 * X["x1"] + 1.0
    signal = rng.normal(size=200)[big] + X["x1"] - 0.5 * X["x0"] + 0.6 * rng.normal(size=5)[other]
    count = 3 + seed % 3
    y = (signal.to_numpy()[:, None] * rng.normal(size=count) + rng.gumbel(size=(n, count))).argmax(axis=1)
    y[: 2 * count] = np.repeat(np.arange(count), 2)
    criteria = ({"alpha": 0.05, "k": 1}, {"criterion": "ebic", "k": np.inf}, {"criterion": "aic", "k": 0})
    how = {"family": "multinomial", **criteria[seed % 3]}
    if seed % 4 == 0:
        how = {"family": "multinomial", "alpha": 0.1, "early_dropping": False}
    if seed % 2:
        weights = rng.integers(1, 4, n).astype(float), 10 ** rng.uniform(-1, 1, n)
        how["sample_weight"] = weights[seed // 2 % 2]
    if seed % 5 == 2:
        how["groups"] = {"several": ["x0", "x2", "x3"]}
    return X, np.array(list("abcdef"))[y], how


@pytest.mark.parametrize("seed", range(12))
def test_classes_choose_as_fits_do(seed):
    one, other = (answers(*classes(seed), engine) for engine in ("certified", "exhaustive"))
    assert one[0] == other[0]
    assert_allclose(one[1], other[1], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_the_statistics_of_fits(seed):
    X, y, how = classes(seed)
    model = read_problem(X, y, [fbed.BIC()], family="multinomial", sample_weight=how.get("sample_weight")).model
    fit, dense = model.fit([0, 1, 4]), model.dense_fit([0, 1, 4])
    assert isinstance(fit, CodedClassesFit)
    assert fit.deviance == pytest.approx(dense.deviance, rel=1e-9)
    numbers = np.array([3, 5, 6, 7])
    exact = dense.gains(numbers)
    lower, upper, suspect = fit._null.brackets(model.design, numbers, fit.deviance, 5.0)
    assert not suspect[:3].any()
    assert (lower[:3] <= exact.statistic[:3] * (1 + 1e-9) + 1e-7).all()
    assert (upper[:3] >= exact.statistic[:3] * (1 - 1e-9) - 1e-7).all()
    told = fit.gain_bounds(np.arange(2, 8)[[0, 1, 3, 4, 5]], lambda df: 2.0 * df)
    expected = dense.gains(np.arange(2, 8)[[0, 1, 3, 4, 5]])
    assert_array_equal(told.df, expected.df)
    for variable, least, most in zip([0, 1, 4], *(fit.losses(np.array([0, 1, 4])).statistic,) * 2, strict=True):
        lower, upper = fit.resolve_loss(variable, np.inf)
        assert (lower, upper) == pytest.approx((least, most), rel=1e-7, abs=1e-7)
    for mine, theirs in zip(fit.row_scores(), dense.row_scores(), strict=True):
        assert_allclose(mine, theirs, atol=1e-5)


def test_what_is_shown_takes_over_where_codes_have_arrived(monkeypatch):
    X, y, how = classes(2)
    expected = fbed.select(X, y, engine="exhaustive", **how).model
    monkeypatch.setattr(RacedFit, "_maximise", only_once(RacedFit._maximise))
    found = fbed.select(X, y, **how).model
    assert found.terms == expected.terms
    assert found.deviance == pytest.approx(expected.deviance, rel=1e-9)
    assert found.infinite.keys() == expected.infinite.keys()
    finite = np.isfinite(expected.coefficients)
    assert_allclose(np.array(found.coefficients)[finite], np.array(expected.coefficients)[finite], rtol=1e-4, atol=1e-4)


def only_once(maximise):
    """Of the model without variables."""

    def called(self, start):
        assert self.span.rank == 1
        return maximise(self, start)

    return called
