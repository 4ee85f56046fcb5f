"""Likelihoods that have a road by codes beside the one by columns: counts, and classes without order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Span
from fbed.models.engines.categories.coded_classes import CodedClassesFit
from fbed.models.engines.categories.coded_columns import CodedColumns, category_of
from fbed.models.engines.categories.coded_fit import MANY_LEVELS, CodedFit, coded_fit, has_level_at_infinity
from fbed.models.engines.categories.coded_model import CodedModel
from fbed.models.engines.categories.coded_softmax import SoftmaxAscent
from fbed.models.engines.categories.row_likelihoods import CountRows
from fbed.models.engines.categories.softmax_rows import Entries
from fbed.models.engines.counts import CountsFit
from fbed.models.engines.scattered_classes import ScatteredFit
from fbed.models.engines.sparse_span import are_few
from fbed.models.likelihoods.glm import Glm
from fbed.models.likelihoods.likelihood import Predicted, Regression, RegressionFit, RegressionModel
from fbed.models.likelihoods.multinomial import Multinomial
from fbed.rules.p_values import Floats

_WORTH = (
    3.5e6  # rows times squared levels from which products of columns that are written out take longer than counting
)
_MOST_CLASSES = 9  # beyond, the products of all pairs of predictors take longer than columns that are written out


class CodedRegression(RegressionModel, CodedModel):
    """A likelihood bound to a design; fits keep categories as codes where there are many levels."""

    coded_kind: type[CodedFit] = CodedFit

    def __init__(self, design: Design, likelihood: Regression, kind: type[RegressionFit]) -> None:
        super().__init__(design, likelihood, kind=kind)
        levels = _levels(design)
        self.has_many_levels = levels > MANY_LEVELS and design.n_rows * levels**2 > _WORTH

    def is_coded(self, selected: Sequence[int]) -> bool:
        """Whether the fit on some variables is one by codes."""
        return self.has_many_levels

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> RegressionFit | CodedFit:  # type: ignore[override]
        """Maximise the likelihood on a set of variables; the fit nearby may be the one."""
        if isinstance(near, CodedFit) and near.selected == tuple(selected):
            return near
        if self.is_coded(selected):
            hints = near.hints if isinstance(near, CodedFit) else {}
            coded = coded_fit(self, selected, self.starts(tuple(selected), hints), near, self.coded_kind)
            if coded is not None:
                return coded
        return self.dense_fit(selected, near)

    def dense_fit(self, selected: Sequence[int], near: object = None) -> RegressionFit:
        """The same on a basis of orthogonal columns."""
        if isinstance(near, CodedFit | Predicted):  # it tells predictors, as a fit on columns does
            return self._kind.on_basis(self, Span(self.design, selected), cast(RegressionFit, near))
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
            fit = self.dense_fit(selected, fit)
        return fit.describe(with_errors)


class Counts(CodedRegression):
    """A Poisson likelihood: levels without a count are at minus infinity."""

    def __init__(self, design: Design, likelihood: Glm) -> None:
        super().__init__(design, likelihood, CountsFit)
        self.outcome = CountRows(likelihood.y)
        self.offset = None if likelihood.offset is None else likelihood.offset[:, 0]
        self.null_predictor = float(likelihood.start(1)[0])

    def is_coded(self, selected: Sequence[int]) -> bool:
        """Also where a level is at infinity."""
        return self.has_many_levels or has_level_at_infinity(self, selected)


class Classes(CodedRegression):
    """A softmax likelihood: a class that a level does not have is ruled out there."""

    coded_kind = CodedClassesFit
    offset = None

    def __init__(self, design: Design, likelihood: Multinomial) -> None:
        super().__init__(design, likelihood, ScatteredFit)
        self.observed: NDArray[np.bool_] = likelihood.codes[:, None] == np.arange(len(likelihood.labels))
        self._whole = Entries(self.observed, np.ones_like(self.observed), design.weights)
        self._alike = likelihood.start(1)
        few = are_few(design, np.flatnonzero(design.width))  # whose models are sparse whatever is selected
        self.has_many_levels = self.has_many_levels and len(likelihood.labels) <= _MOST_CLASSES and not few

    def null_predictors(self) -> Floats:
        """Log odds of every class against the first, the same for all rows."""
        return np.tile(self._alike, (self.design.n_rows, 1))

    def ascent(self, columns: CodedColumns, start: Floats, weight: Any = None) -> SoftmaxAscent:
        """The way up the likelihood of a model in coded columns; what levels leave of the rows is found anew."""
        return SoftmaxAscent(columns, self.observed, self.design.weights, start)

    def left_by(self, ascent: Any, deviance: float) -> tuple[Any, float]:
        """Entries that levels leave alive, and all of the deviance."""
        return ascent.weight, deviance

    def deviance_at(self, predictor: Floats) -> float:
        """The deviance of all rows at some predictors."""
        return self._whole.at(predictor).deviance


def _levels(design: Design) -> int:
    """Of all categories together."""
    several = np.flatnonzero(~design.numeric & (design.width > 1)).tolist()
    return sum(found.n_levels for v in several if (found := category_of(design, v)) is not None)
