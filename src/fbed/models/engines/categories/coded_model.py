"""What a model must tell for its categories to stay codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fbed.matrix.design import Design
from fbed.models.base import Indices
from fbed.models.engines.categories.ascent import Ascent
from fbed.models.engines.categories.coded_columns import CodedColumns
from fbed.models.engines.categories.row_likelihoods import RowLikelihood
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats

Hints = dict[frozenset[int], Floats]
"""Linear predictors at which fits have ended, or are going to end, by their sets."""


class DenseFit(Protocol):
    """A fit on orthogonal columns, which knows every statistic."""

    def gains(self, candidates: Indices) -> Evidence:
        """Evidence for adding each candidate."""

    def losses(self, variables: Indices) -> Evidence:
        """Evidence against removing each variable."""


class CodedModel:
    """A likelihood of rows bound to a design; `null_predictor` is what all rows have without variables and offset."""

    design: Design
    outcome: RowLikelihood
    offset: Floats | None
    null_predictor: float
    null_deviance: float
    n_predictors: int

    def dense_fit(self, selected: Sequence[int], near: object = None) -> DenseFit:
        """The fit on a set of variables by a basis of orthogonal columns."""
        raise NotImplementedError

    def ascent(self, columns: CodedColumns, start: Floats, weight: Any = None) -> Any:
        """The way up the likelihood of a model in coded columns; its `weight` says what is left of the rows.

        What a smaller model leaves of them may be given.
        """
        return Ascent(columns, self.outcome, self.design.weights if weight is None else weight, start, self.offset)

    def left_by(self, ascent: Any, deviance: float) -> tuple[Any, float]:
        """What a fit leaves of the rows, and of their deviance."""
        secured = ascent.secured()
        if not secured.any():
            return ascent.weight, deviance
        cost = self.outcome.at(ascent.predictor, np.where(secured, ascent.weight, 0.0)).deviance
        return np.where(secured, 0.0, ascent.weight), max(0.0, deviance - cost)

    def deviance_at(self, predictor: Floats) -> float:
        """The deviance of all rows at some predictors."""
        return self.outcome.at(predictor, self.design.weights).deviance

    def starts(self, selected: tuple[int, ...], hints: Hints) -> list[Floats]:
        """Linear predictors to start the fit on a set from: what is known of it and of its subsets, and the mean."""
        wanted = frozenset(selected)
        known = [hints[wanted]] if wanted in hints else [hints[hinted] for hinted in hints if hinted <= wanted]
        return [*known, self.null_predictors()]

    def null_predictors(self) -> Floats:
        """Linear predictors of the model without variables."""
        alike = np.full(self.design.n_rows, self.null_predictor)
        return alike if self.offset is None else alike + self.offset

    def without_offset(self, predictor: Floats) -> Floats:
        """The part of a linear predictor that the columns explain."""
        return predictor if self.offset is None else predictor - self.offset
