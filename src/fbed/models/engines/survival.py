"""Survival times: intervals from steps that leave the model's own Hessian as it is.

A word of few documents moves few rows, but those far: from the fit on S one Newton step tells little of them. A kernel
goes on from there until the likelihood ratio is known (see `cox_brackets.hpp`), at a price that depends on the entries
that are not 0. Only what that leaves open is fitted, from where it ended.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import CoxBrackets, CoxFits, settle_cox
from fbed.models.base import Indices, Span, single_columns
from fbed.models.engines.neighbours import NeighbourlyFit, standardised_zeros
from fbed.models.likelihoods.cox import Cox
from fbed.models.likelihoods.likelihood import RegressionFit, RegressionModel
from fbed.rules.p_values import Floats

_OPEN = 1e-6  # part of a statistic within which it is as good as known
_ROUNDED = 2e-8  # width of an interval that is all rounding


class SurvivalFit(NeighbourlyFit):
    """Proportional hazards."""

    def __init__(self, model: RegressionModel, span: Span, near: RegressionFit | None = None) -> None:
        self._ends: dict[int, Floats] = {}  # changes of the predictor that lead to models with one variable more
        super().__init__(model, span, near)

    def _narrowed(self, candidates: Indices, lower: Floats, upper: Floats, line: Floats) -> tuple[Floats, Floats]:
        """Intervals from the maximum of every model, as far as a kernel comes to it, for columns that are mostly 0."""
        columns, sparse = self._shifted(candidates)
        if not sparse.any() or self._brackets is None:
            return lower, upper
        low, high, moves = self._brackets.enclose(columns[:, sparse])
        lower[sparse], upper[sparse] = np.maximum(lower[sparse], low), np.minimum(upper[sparse], high)
        kept = upper[sparse] - lower[sparse] > _OPEN * upper[sparse]  # who will be fitted, and who may be selected
        kept[int(np.argmax(low))] = True
        numbers = candidates[sparse]
        self._ends.update((int(numbers[j]), moves[:, j].copy()) for j in np.flatnonzero(kept))
        return lower, upper

    def _moves(self, candidates: Indices) -> Floats | None:
        nothing = np.zeros(len(self.Z))
        known = [self._ends.get(v, nothing) for v in candidates.tolist()]
        return np.column_stack(known) if any(one is not nothing for one in known) else None

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The likelihood ratio of a variable against the model without it, or an interval that is above `enough`."""
        own, sparse = self._own_columns
        if self._fits is None or self._brackets is None or 2 * np.count_nonzero(sparse) < len(sparse):
            return super().resolve_loss(variable, enough)
        place = self.span.place(variable)
        others = np.r_[: place.start - 1, place.stop - 1 : self.span.rank - 1]
        predictor = self.predictors()[:, 0] - self._part(variable)[:, 0]
        low, high = settle_cox(self._fits, own[:, others], predictor)
        low, high = low - self.deviance, max(high - self.deviance, 0.0)
        if np.isfinite(high) and high - low <= _ROUNDED * (1.0 + high):
            return high, high
        return (low, high) if low > enough else super().resolve_loss(variable, enough)

    @property
    def _fits(self) -> CoxFits | None:
        return cast(Cox, self.model.likelihood).fits

    def _shifted(self, variables: Indices) -> tuple[Floats, NDArray[np.bool_]]:
        columns = single_columns(self.model.design, variables)
        return _mostly_zero(columns, standardised_zeros(self, variables, columns))

    @cached_property
    def _own_columns(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Those of S, shifted."""
        design = self.model.design
        each = np.repeat(np.array(self.span.selected, dtype=np.intp), design.width[list(self.span.selected)])
        columns = design.stack(self.span.selected)
        return _mostly_zero(columns, standardised_zeros(self, each, columns))

    @cached_property
    def _brackets(self) -> CoxBrackets | None:
        """None where there is no use for them."""
        if self._fits is None or not self.span.full_rank or self.deviance == 0.0:
            return None
        known = CoxBrackets(self._fits, self._own_columns[0], self.predictors()[:, 0])
        return known if known.sound else None


def _mostly_zero(columns: Floats, zero: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Columns less what 0 has become in them, where most values are 0; and where that is."""
    sparse = np.count_nonzero(columns == zero, axis=0) * 2 > len(columns)
    return np.asfortranarray(columns - np.where(sparse, zero, 0.0)), sparse
