"""Coefficients and standard errors of a model in coded columns, on the scale of the user's data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.models.base import FittedModel
from fbed.models.engines.categories.coded_columns import Category, CodedColumns, category_of
from fbed.models.engines.categories.row_likelihoods import RowLikelihood
from fbed.models.presentation import Estimates
from fbed.models.recession import UNDECIDED, Recession, inverse_of_finite, none
from fbed.rules.p_values import Floats

_FAR = 40.0  # predictors at which rows that levels explain are certain of their outcome
_MOVES = 1e-7  # sum of squares that a unit direction must have on some rows to count as moving them


class CodedDescription:
    """The fit on some variables, all of whose columns of numbers are independent.

    Levels that depend on others have the effect of the most frequent level. The parameters are the levels of the
    eliminated category, then columns of numbers, then levels of other categories.
    """

    def __init__(self, design: Design, selected: Sequence[int], columns: CodedColumns) -> None:
        self.design, self.selected, self.columns = design, selected, columns
        self.n_levels = columns.levels.n_levels

    def model(
        self,
        linear: Floats,
        predictor: Floats,
        outcome: RowLikelihood,
        weight: Floats,
        deviance: float,
        null_deviance: float,
    ) -> FittedModel | None:
        """The model as people see it; None where it takes more to tell which coefficients are infinite.

        `linear` is the part of the predictor that the columns explain. `weight` is 0 on the rows of levels that explain
        them, which have infinite coefficients.
        """
        rank, sides = self._rank(weight), outcome.sides
        recession = self._recession(sides, weight, rank)
        curvature = outcome.at(predictor, weight).curvature
        undecided = np.where(sides * predictor < UNDECIDED, weight, 0.0)
        if recession is None or not weight.any() or self._rank(undecided) != rank:
            return None
        found = self.columns.newton(weight * linear, weight)
        margin = sides * (found.move + predictor - linear)
        far = max(0.0, _FAR - float(margin[weight == 0].min(initial=_FAR)))
        parameters = np.concatenate([found.by_level, found.beside]) + far * recession.heading
        change = self._change()
        covariance = inverse_of_finite(self._information(curvature), recession)
        if covariance is None:
            return None
        terms = ("(intercept)", *(label for v in self.selected for label in self.design.labels(v)))
        few = sparse.csr_array(change)  # next to all of it is 0
        shown = Estimates(terms, few @ parameters, few @ (few @ covariance).T, change, recession)
        return shown.fitted(outcome.name, deviance, null_deviance)

    def _rank(self, weight: Floats) -> int:
        """Dimensions in which the parameters move the rows that count."""
        check_time()
        levels, others = self.columns.levels, self.columns.others
        columns = CodedColumns(levels, self.columns.columns, weight, others)
        return columns.n_levels + len(columns.ranked()[0])

    def _recession(self, sides: Floats, weight: Floats, rank: int) -> Recession | None:
        """Levels that explain their rows run to infinity, and so does whatever moves their rows only.

        The reference of a category beside the eliminated one is none of them here.
        """
        size = self.n_levels + self.columns.size
        heading, empty = np.zeros(size), np.zeros(size, dtype=bool)
        place = self.n_levels + self.columns.columns.shape[1]
        heading[: self.n_levels], empty[: self.n_levels] = _without_rows(self.columns.levels, sides, weight)
        for other in self.columns.others:
            pure, none_left = _without_rows(other.category, sides, weight)
            here = slice(place, place + len(other.kept))
            heading[here], empty[here] = pure[other.kept], none_left[other.kept]
            if pure[other.base]:
                return None
            place += len(other.kept)
        if not heading.any():
            return none(size) if rank == size else None
        if rank == size - int(empty.sum()):
            return Recession(np.eye(size)[:, empty], heading)
        moved, directions = np.linalg.eigh(self._information(weight / weight.max()))
        return Recession(directions[:, : size - rank], heading) if moved[size - rank] > _MOVES else None

    def _information(self, curvature: Floats) -> Floats:
        by_level, cross = self.columns.by_level(curvature)
        return np.block([[np.diag(by_level), cross], [cross.T, self.columns.gram(curvature)]])

    def _change(self) -> Floats:
        """The matrix that turns the parameters into an intercept and the coefficients of the user's columns."""
        first, L, k = self.columns.levels, self.n_levels, self.columns.columns.shape[1]
        rows = [np.zeros((0, L + self.columns.size))]
        intercept = np.zeros(L + self.columns.size)
        intercept[0] = 1.0
        place = L
        for v in self.selected:
            category = category_of(self.design, v)
            block = np.zeros((int(self.design.width[v]), len(intercept)))
            if category is None:
                center, scale = self.design.moments(v)
                own = np.arange(len(scale))
                block[own, place + own] = 1.0 / scale
                intercept[place + own] = -center / scale
                place += len(scale)
            else:
                effects = np.eye(L, len(intercept)) if _same(category, first) else self._effects(category, L + k)
                block[:] = effects[1:] - effects[0]
                if not _same(category, first):
                    intercept += effects[0]
            rows.append(block)
        return np.vstack([intercept, *rows])

    def _effects(self, category: Category, place: int) -> Floats:
        """Levels of a category beside the eliminated one as combinations of the parameters."""
        out = np.zeros((category.n_levels, self.n_levels + self.columns.size))
        for other in self.columns.others:
            if _same(other.category, category):
                out[other.kept, place + np.arange(len(other.kept))] = 1.0
                return out
            place += len(other.kept)
        raise KeyError(category)


def _same(one: Category, other: Category) -> bool:
    return one.codes is other.codes


def _without_rows(category: Category, sides: Floats, weight: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Levels whose rows are all explained, and on which side most of these are: 1 or −1."""
    columns = np.asfortranarray(np.column_stack([np.ones_like(sides), weight > 0, sides]))
    rows, left, sign = category.sums(np.ones_like(sides), columns).T
    empty = (rows > 0) & (left == 0)
    return np.where(empty, np.sign(sign), 0.0), empty
