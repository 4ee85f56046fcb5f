"""Rows that a model explains in the limit: words without a count or of one class, beside categories that stay codes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import explained_cases
import fbed
from fbed.models.engines import coded_regression
from fbed.models.engines.categories import coded_fit
from fbed.models.engines.categories.ascent import Ascent
from fbed.models.engines.categories.coded_columns import Category, CodedColumns
from fbed.models.engines.categories.coded_projection import Projection
from fbed.models.engines.categories.explained import moving_columns, unexplained
from fbed.models.engines.categories.row_likelihoods import BinaryRows, CountRows

RNG = np.random.default_rng(5)
LEVELS = Category(np.array([0, 0, 0, 1, 1, 1, 0, 1], dtype=np.int8), 2)
COUNTS = np.array([3.0, 0, 0, 2, 0, 0, 1, 4])


@pytest.fixture(autouse=True)
def _small_tables_are_coded_too(monkeypatch):
    monkeypatch.setattr(coded_regression, "_WORTH", 0.0)
    for module in (coded_fit, coded_regression):
        monkeypatch.setattr(module, "MANY_LEVELS", 1)


def left_of(y, *columns, kind=CountRows):
    X = np.column_stack(columns)
    return unexplained([LEVELS], kind(np.asarray(y, dtype=float)), np.ones(8), X) > 0


def test_a_word_without_a_count_explains_its_rows():
    word = np.array([0.0, 2, 1, 0, 0, 0, 0, 0])
    for column in (word, -word, 7.0 - 1e-5 * word):
        assert_array_equal(left_of(COUNTS, column), word == 0)
    assert left_of(COUNTS, np.array([0.0, 2, -1, 0, 0, 0, 0, 0])).all()  # to both sides
    assert left_of(COUNTS, np.array([0.0, 2, 0, 1, 0, 0, 0, 0])).all()  # of a row with a count
    assert left_of(COUNTS, np.array([0.0, 2, 1e-9, 0, 0, 0, 0, 0])).all()  # a row that may be moved by rounding only


def test_rounding_of_a_basis_explains_nothing():
    """Equal rows had values that differed in the last digit, and those with a count moved by themselves."""
    last_digit = np.array([0.0, 0, 0, 0, 1, 0, 0, 0]) * 2.0**-52
    assert left_of(COUNTS, 0.5 + last_digit).all()
    assert left_of(COUNTS > 0, -0.5 - last_digit, kind=BinaryRows).all()


def test_a_word_of_one_class_explains_its_rows_whatever_the_class():
    y = COUNTS > 0
    for word in (np.array([0.0, 2, 1, 0, 0, 0, 0, 0]), np.array([1.0, 0, 0, 0, 0, 0, 2, 0])):
        assert_array_equal(left_of(y, word, kind=BinaryRows), LEVELS.codes == 1)  # and its level the others of level 0


def test_words_and_levels_explain_once_others_have():
    first, second = np.array([0.0, 1, 1, 0, 0, 0, 0, 0]), np.array([0.0, 0, -4, 0, 2, 2, 0, 0])
    third = np.array([0.0, 0, 5, 0, 0, 1, 0, 1])  # of a row with a count
    assert_array_equal(left_of(COUNTS, first, second, third), [1, 0, 0, 1, 0, 0, 1, 1])
    columns = CodedColumns(LEVELS, np.column_stack([first, third, second]), np.ones(8))
    assert_array_equal(moving_columns(columns, left_of(COUNTS, first, second, third).astype(float)), [1])


def test_no_step_is_taken_to_infinity():
    """Newton's steps would go there one unit a step."""
    rng = np.random.default_rng(2)
    word, number = (rng.random(400) < 0.1).astype(float), rng.normal(size=400)
    y = np.where(word > 0, 0.0, rng.poisson(np.exp(0.5 * number)))
    columns = CodedColumns(
        Category(rng.integers(0, 3, 400).astype(np.int8), 3), np.column_stack([word, number]), np.ones(400)
    )
    steps = []
    ascent = Ascent(columns, CountRows(y), np.ones(400), np.zeros(400))
    found = ascent.enclose(lambda *ends: steps.append(ends))
    assert found.settled
    assert len(steps) < 10
    assert_array_equal(ascent.weight > 0, word == 0)


def test_rows_that_a_level_and_a_word_explain_together_are_secured():
    """Neither does by itself: all counts of the level are in rows that have the word."""
    level, word = np.repeat([0, 1, 2], 40).astype(np.int8), np.zeros(120)
    word[[0, 1, 2, 40, 41, 80]] = 1.0
    y = RNG.poisson(3.0, 120) + 1.0
    y[[0, 1, 2]] = 0.0
    y[40:80] = 0.0
    y[[40, 41]] = 5.0
    columns = CodedColumns(Category(level, 3), np.column_stack([word, word * (level == 1)]), np.ones(120))
    ascent = Ascent(columns, CountRows(y), np.ones(120), np.zeros(120))
    found = ascent.enclose(lambda *ends: False)
    assert found.settled
    rows = ascent.secured()
    assert set(np.flatnonzero(rows)) == set(range(42, 80))
    weight = np.where(rows, 0.0, ascent.weight)
    assert CountRows(y).at(ascent.predictor, weight).deviance == pytest.approx(found.most, abs=1e-7)


def test_columns_that_stand_in_for_others_where_rows_have_curvature_are_told():
    word = np.array([0.0, 1, 1, 0, 0, 0, 0, 0])
    columns = CodedColumns(LEVELS, np.column_stack([word, word + np.eye(8)[4], np.arange(8.0) ** 2]), np.ones(8))
    weight = np.ones(8)
    assert len(Projection.of(columns, weight).adrift) == len(Projection.of(columns, weight).loose) == 0
    weight[4] = 0.0  # where alone the first two differ
    projection = Projection.of(columns, weight)
    assert_array_equal(projection.adrift, [4])
    assert_array_equal(projection.loose, [0, 1])


@pytest.mark.parametrize("seed", [*range(10), 36, 43, 175, 261, 770067])
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_selections_are_those_of_fits(seed, family):
    """Of the last few, removals were bounded by models that lacked more than the variable, or by no model at all, and
    rows were taken for explained that differed from others by rounding of a basis.
    """
    assert explained_cases.differ(seed, family) is None


def test_signs_of_infinite_coefficients_of_words_beside_levels_are_their_own():
    rng = np.random.default_rng(3)
    level, word = np.arange(300) % 20, rng.random(300) < 0.1
    mean = np.exp(1.0 + 0.5 * rng.normal(size=20))[level]
    y = np.where(word | (level == 7), 0, rng.poisson(mean))
    table = pd.DataFrame({"level": [f"l{code:02}" for code in level], "word": np.where(word, 2.0, 0.0)})
    for sign in (1.0, -1.0):
        found = fbed.select(table.assign(word=sign * table.word), y, family="poisson", include=["level", "word"])
        infinite = dict(zip(found.model.terms, found.model.coefficients, strict=True))
        assert infinite["word"] == -sign * np.inf
        assert infinite["level[l07]"] == -np.inf


def test_a_pivot_of_which_rounding_leaves_nothing_is_no_error():
    assert explained_cases.differ(1584, "binomial") is None
