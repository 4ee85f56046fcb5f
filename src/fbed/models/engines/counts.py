"""Poisson counts beside categories: codes stay codes, and levels without a count are at minus infinity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel
from fbed.models.engines.bounded import BoundedFit
from fbed.models.engines.categories.coded_columns import category_of
from fbed.models.engines.categories.coded_fit import MANY_LEVELS, CodedFit, coded_fit, is_worth_coding
from fbed.models.engines.categories.coded_model import CodedModel
from fbed.models.engines.categories.row_likelihoods import CountRows
from fbed.models.likelihoods.glm import Glm
from fbed.models.likelihoods.likelihood import RegressionFit, RegressionModel


class Counts(RegressionModel, CodedModel):
    """A Poisson likelihood; its fits answer by bounds."""

    def __init__(self, design: Design, likelihood: Glm) -> None:
        super().__init__(design, likelihood, kind=BoundedFit)
        self.outcome = CountRows(likelihood.y)
        self.offset = None if likelihood.offset is None else likelihood.offset[:, 0]
        self.null_predictor = float(likelihood.start(1)[0])
        self._has_many_levels = _levels(design) > MANY_LEVELS

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> RegressionFit | CodedFit:  # type: ignore[override]
        """Maximise the likelihood on a set of variables; the fit nearby may be the one."""
        if isinstance(near, CodedFit) and near.selected == tuple(selected):
            return near
        if self._has_many_levels or is_worth_coding(self, selected):
            hints = near.hints if isinstance(near, CodedFit) else {}
            coded = coded_fit(self, selected, self.starts(tuple(selected), hints), near)
            if coded is not None:
                return coded
        return self.dense_fit(selected, near)

    def dense_fit(self, selected: Sequence[int], near: object = None) -> RegressionFit:
        """The same on a basis of orthogonal columns."""
        return super().fit(selected, near if isinstance(near, RegressionFit) else None)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients and standard errors on the scale of the user's data."""
        return self._described(selected, near, with_errors=True)

    def outline(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """The same without standard errors, where they take time."""
        return self._described(selected, near, with_errors=False)

    def _described(self, selected: Sequence[int], near: Fit | None, with_errors: bool) -> FittedModel:
        fit = self.fit(selected, near)
        if isinstance(fit, CodedFit):
            told = fit.describe()
            if told is not None:
                return told
            fit = self.dense_fit(selected)
        return fit.describe(with_errors)


def _levels(design: Design) -> int:
    """Of all categories together."""
    several = np.flatnonzero(~design.numeric & (design.width > 1)).tolist()
    return sum(found.n_levels for v in several if (found := category_of(design, v)) is not None)
