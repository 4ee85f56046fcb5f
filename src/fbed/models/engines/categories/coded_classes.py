"""A softmax model whose categories stay codes: candidates are bounded from the rows of the fit.

With p the probabilities at the fit, u Newton's step of a column and z = u − Σpu, p(1 + z) satisfies the equations of
the maximum, so that twice its divergence from p bounds what the column can gain; the deviance at the end of the step
bounds it from below. Both are right to third order.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.design import Design
from fbed.models.base import FittedModel
from fbed.models.engines.bound_functions import P
from fbed.models.engines.categories.ascent import is_reliable
from fbed.models.engines.categories.coded_columns import CodedColumns
from fbed.models.engines.categories.coded_fit import CodedFit
from fbed.models.engines.categories.coded_softmax import ColumnsBeside, SoftmaxHessian
from fbed.models.engines.categories.softmax_rows import Entries
from fbed.models.likelihoods.multinomial import class_scores
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

_ROUNDING = 1e-8  # relative error of bounds, beside that of a projection
_IDLE = 1e-9  # what an entry may have left to be ruled out
_SHORT = -0.5  # z of the step that a fit is short of, beyond which entries on their way to nothing are ruled out
_FARTHEST = 30.0  # predictors of a larger model that a smaller one is to come near


class ClassesAtFit:
    """The rows at a fit, and what they tell about columns that could join it."""

    is_sound = False  # no factor is kept for the steps of later fits

    def __init__(self, columns: CodedColumns, predictor: Floats, entries: Entries) -> None:
        self.predictor, self.entries = predictor, entries
        self.rows = entries.at(predictor)
        for attempt in range(2):
            self.hessian = SoftmaxHessian(columns, self.rows)
            step = self.hessian.newton()
            low = float(self.rows.changes(step.move.T).min())
            self.has_upper_bounds = is_reliable(step) and low > _SHORT
            if self.has_upper_bounds or attempt:
                break
            self.rows = entries.without(self.rows.idle(_IDLE)).at(predictor)
        self.missing, self.reach, self.short = step.move.T, low, float(np.sqrt(max(step.decrement, 0.0)))

    def brackets(
        self, design: Design, variables: NDArray[np.intp], deviance: float, bar: float
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Lower and upper bounds for columns of numbers, and who may depend on the model.

        They are looked at more closely where the bar is between them, and where they may be best.
        """
        count = len(variables)
        lower, upper = np.zeros(count), np.full(count, deviance)
        found = self.hessian.beside(np.asfortranarray(design.block(variables))) if self.has_upper_bounds else None
        if found is None:
            return lower, upper, np.ones(count, dtype=bool)
        moves, gain, suspect = found.moves(), np.maximum(found.decrement, 0.0), found.unclear
        slack = _ROUNDING + found.error
        z = self.rows.changes(moves)
        low, high = z.min(axis=(0, 1)) + self.reach, z.max(axis=(0, 1))
        inside = low > -1.0 + slack
        most = (np.sqrt(gain) + self.short) ** 2 * P(np.where(inside, low * (1.0 + slack), 0.0)) * (1.0 + slack)
        upper = np.where(inside & ~suspect, np.minimum(most + self._beyond(deviance), deviance), deviance)
        if self.rows.entries is self.entries:
            lower = np.where(suspect, 0.0, gain * P(high * (1.0 + slack)) * (1.0 - slack) - self.short**2)
        lower = np.clip(lower, 0.0, upper)
        passes = lower > bar * (1.0 + 2.0 * TIE)
        doubtful = (upper > bar) & ~suspect & (~passes | (upper >= lower.max(initial=0.0)))
        for j in np.flatnonzero(doubtful):
            below, above = self._closely(moves[:, :, j], found, deviance)
            lower[j] = max(lower[j], below)
            upper[j] = max(lower[j], min(upper[j], above))
        return lower, upper, suspect

    def _beyond(self, deviance: float) -> float:
        """What the entries that are ruled out have left."""
        return max(0.0, deviance - self.rows.deviance)

    def _closely(self, move: Floats, found: ColumnsBeside, deviance: float) -> tuple[float, float]:
        """Bounds from the sums over all rows."""
        lower = deviance - self.entries.at(self.predictor + move.T).deviance
        z = self.rows.changes(move + self.missing)
        if not z.min() > -1.0:
            return lower, np.inf
        divergence = float(((self.rows.probability * self.entries.weight[:, None]).T * z**2 * P(z)).sum())
        return lower, divergence * (1.0 + _ROUNDING + found.error) + self._beyond(deviance)


class CodedClassesFit(CodedFit):
    """Maximum likelihood of a softmax model on S by codes; `weight` are the entries that levels leave alive."""

    weight: Any

    @cached_property
    def _null(self) -> ClassesAtFit:  # type: ignore[override]
        return ClassesAtFit(self.columns, self.predictor, self.weight)

    def extended(self, selected: tuple[int, ...], start: Floats) -> None:
        """Every fit has a factor of its own."""

    def _own_directions(self, candidate: int) -> None:
        """Every candidate that the rows do not decide about has a factor of its own."""

    def _goes_to_infinity(self, candidate: int) -> bool:
        """No steps are taken by the factor of the fit."""
        return False

    def _is_new(self, variable: int) -> bool:
        return False

    @cached_property
    def _places(self) -> dict[int, slice]:
        return {}

    @cached_property
    def _moving(self) -> CodedColumns:
        """All columns: those that rule a class out tell about the others."""
        return self.columns

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """y − p of every class but the first, and its variance relative to that of all rows."""
        p = self.weight.at(self.predictor).probability[:, 1:].T
        return class_scores(p, self.weight.observed[:, 1:].T, self.model.design.weights)

    def describe(self) -> FittedModel | None:
        """Coefficients take orthogonal columns."""
        return None

    def within(self, columns: CodedColumns) -> Floats:
        """Predictors of a smaller model that are close to those of this one where rows are undecided."""
        rows, target = self.weight.at(self.predictor), np.clip(self.predictor, -_FARTHEST, _FARTHEST)
        out = np.empty_like(target)
        for c in range(rows.n_predictors):
            weight = rows.curvature(c, c) + 1e-6 * self.model.design.weights
            out[:, c] = columns.newton(weight * target[:, c], weight).move
        return out
