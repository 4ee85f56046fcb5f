"""Categories and groups of columns that could join a logistic model: intervals for their statistics, by counting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from fbed.models.engines.categories.ascent import RESOLVED, Enclosed, is_clear
from fbed.models.engines.categories.coded_columns import Category, CodedColumns, category_of
from fbed.rules.p_values import Floats

if TYPE_CHECKING:
    from fbed.models.engines.binomial import CertifiedBinomialFit

_DEPENDENT, _INDEPENDENT = 1e-13, 1e-7  # what a direction of S may vary within levels: nothing but rounding, or enough


class GroupQuestions:
    """What a fit tells about variables of several columns outside it."""

    def __init__(self, fit: CertifiedBinomialFit) -> None:
        self.fit = fit
        self.design = fit.model.design
        self.y = fit.model.y

    def bounds(self, variable: int, critical: Callable[[Floats], Floats]) -> tuple[float, float, int]:
        """An interval for the statistic of adding a variable, clear of its critical value, and its df."""
        category = category_of(self.design, variable)
        if category is not None and self.fit.span.rank == 1 and self.fit.model.offset is None:
            return self._alone(category)
        columns, df = self._columns(variable, category)
        if df == 0:
            return 0.0, 0.0, 0
        bar, null = float(critical(np.array([float(df)]))[0]), self.fit.deviance

        return (*self._enclosed(variable, columns, partial(is_clear, null, bar))[:2], df)

    def resolve(self, variable: int, floor: float) -> tuple[float, float, Floats | None]:
        """The statistic of adding a variable, or an interval below `floor`; and the predictors of that model."""
        columns, df = self._columns(variable, category_of(self.design, variable))
        null = self.fit.deviance

        def is_known(least: float, most: float) -> bool:
            return null - least < floor or most - least <= RESOLVED * max(1.0, null - most)

        return (0.0, 0.0, None) if df == 0 else self._enclosed(variable, columns, is_known)

    def _enclosed(
        self, variable: int, columns: CodedColumns, settled: Callable[[float, float], bool]
    ) -> tuple[float, float, Floats | None]:
        found: Enclosed = self.fit.model.ascent(columns, self.fit.predictor).enclose(settled)
        null = self.fit.deviance
        if found.settled:
            return max(0.0, null - found.most), max(0.0, null - found.least), found.predictor
        exact = max(0.0, null - self.fit.deviance_with(variable))
        return exact, exact, None

    def _columns(self, variable: int, category: Category | None) -> tuple[CodedColumns, int]:
        """The model with the variable, and by how much it is larger."""
        Z, weights = self.fit.engine.Z, self.design.weights
        if category is None:
            new = self.fit.own_columns(variable)
            constant = Category(np.zeros(len(weights), dtype=np.int8), 1)
            return CodedColumns(constant, np.hstack([Z[:, 1:], new]), weights), new.shape[1]
        columns = CodedColumns(category, Z[:, 1:], weights)
        df = added_rank(columns, weights)
        return columns, self.fit.own_columns(variable).shape[1] if df is None else df

    def _alone(self, category: Category) -> tuple[float, float, int]:
        """The statistic beside an intercept only, where levels are all there is to a model."""
        y, weights = self.y, self.design.weights
        ones, zeros = category.sums(weights, np.asfortranarray(np.column_stack([y, 1.0 - y]))).T
        total = ones + zeros
        part = np.divide(ones, total, out=np.zeros_like(ones), where=total > 0)
        other = np.divide(zeros, total, out=np.zeros_like(ones), where=total > 0)
        left = -2.0 * float((special.xlogy(ones, part) + special.xlogy(zeros, other)).sum())
        statistic = max(0.0, self.fit.deviance - left)
        df = int((total > 0).sum()) - 1
        return (statistic, statistic, df) if df else (0.0, 0.0, 0)


def added_rank(columns: CodedColumns, weights: Floats) -> int | None:
    """How many dimensions the levels add to a constant and orthogonal columns of unit mean square; None if in doubt.

    A direction of S that does not vary within levels is one of theirs.
    """
    total, cross = columns.by_level(weights)
    present = total > 0
    if columns.size == 0:
        return int(present.sum()) - 1
    between = cross[present].T @ (cross[present] / total[present][:, None])
    within = np.linalg.eigvalsh(np.eye(columns.size) - between / weights.sum())
    if ((within > _DEPENDENT) & (within < _INDEPENDENT)).any():
        return None
    return int(present.sum()) - 1 - int((within <= _DEPENDENT).sum())
