"""Rows that a model explains in the limit, whatever its other coefficients are: they are no part of the question.

A level whose rows are all of one class, or have no count, explains them by itself. So does a column of numbers that has
one value on all rows but some, is further to the same side on each of these, and these are all likelier the further
their predictor goes to one side: a word of documents without a count, say. Its coefficient goes to infinity, which
Newton's steps do one unit a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fbed.models.engines.categories.coded_columns import Category, CodedColumns
from fbed.models.engines.categories.row_likelihoods import RowLikelihood
from fbed.rules.p_values import Floats

_FIRST = 32  # rows of the other side that most columns differ on
_APART = 1e-3  # how far rows are moved at least, beside those that are moved furthest: rounding does not tell them
_MOVED = 1e-7  # of a column's largest value, how far these are moved: columns of a basis tell equal rows apart by less


def unexplained(
    categories: Sequence[Category], outcome: RowLikelihood, weight: Floats, columns: Floats | None = None
) -> Floats:
    """The weights, 0 on rows that are explained in the limit, by themselves or once others have explained theirs."""
    weight = weight.copy()
    left = True
    while left:
        left = False
        for category in categories:
            explained = outcome.explained(category, weight)
            if explained.any():
                here = explained[category.codes] & (weight > 0)
                left = left or (len(categories) > 1 and bool(here.any()))
                weight[here] = 0.0
        moved = np.zeros(len(weight), dtype=bool) if columns is None else moved_alone(columns, outcome.sides, weight)
        if moved.any():
            weight[moved], left = 0.0, True
    return weight


def moving_columns(columns: CodedColumns, weight: Floats) -> NDArray[np.intp]:
    """Columns of numbers that are not the same on all rows that are left."""
    X, rows = columns.columns, np.flatnonzero(weight > 0)
    still = np.zeros(X.shape[1], dtype=bool)
    if 0 < len(rows) < len(weight):
        for j in np.flatnonzero((X[rows[:_FIRST]] == X[rows[0]]).all(axis=0)).tolist():
            still[j] = bool((X[rows, j] == X[rows[0], j]).all())
    return np.flatnonzero(~still)


def still_moving(columns: CodedColumns, weight: Floats) -> CodedColumns:
    """Without columns of numbers that are a constant on the rows that are left."""
    numbers, moving = columns.columns.shape[1], moving_columns(columns, weight)
    if len(moving) == numbers:
        return columns
    return columns.only(np.concatenate([moving, np.arange(numbers, columns.size)]))


def moved_alone(columns: Floats, sides: Floats, weight: Floats) -> NDArray[np.bool_]:
    """Rows that some column moves to their side, and no others."""
    out, counts = np.zeros(len(weight), dtype=bool), weight > 0
    for side in (1.0, -1.0):
        others = np.flatnonzero(counts & (sides != side))
        if not len(others) or len(others) == np.count_nonzero(counts):
            continue  # the levels explain all of them, or there are none
        value = columns[others[0]]
        for j in np.flatnonzero((columns[others[:_FIRST]] == value).all(axis=0)).tolist():
            if (columns[others, j] == value[j]).all():
                away = np.where(counts, columns[:, j] - value[j], 0.0)
                out |= (away != 0.0) & _is_to_one_side(away, float(np.abs(columns[:, j]).max()))
    return out


def _is_to_one_side(away: Floats, largest: float) -> bool:
    """Whether rows are moved clearly, beside the largest value of the column, and all of them the same way."""
    low, high = float(away.min()), float(away.max())
    if (low < 0.0) == (high > 0.0):
        return False
    size = np.abs(away[away != 0.0])
    return bool(size.min() > _APART * size.max() and size.max() > _MOVED * largest)
