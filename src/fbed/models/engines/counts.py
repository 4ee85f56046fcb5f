"""Counts: intervals from the maximum along a column alone.

A word of few documents moves few rows, but those far: from the fit on S one Newton step tells little of them. So a
kernel first maximises along the column alone, which only the rows take part in where it is not 0, and encloses the
likelihood ratio by a Newton step from there (see `counts.hpp`). Only what that leaves open is fitted, from where that
step leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed._kernels import enclose_counts
from fbed.models.base import Indices, Span, single_columns
from fbed.models.engines.bounded import BoundedFit
from fbed.models.likelihoods.glm import Glm
from fbed.models.likelihoods.likelihood import RegressionFit, RegressionModel
from fbed.models.likelihoods.newton import Columns
from fbed.rules.p_values import Floats

_IDLE = 1e-8  # mean of a row without a count that is as good as 0
_KEPT = 1e-8  # curvature, beside the largest, of directions in which the means of other rows move
_GONE = 1e-6  # how far all counts together may move in the directions that are left out


@dataclass(frozen=True)
class _Whitened:
    """Rows of the fit on S in coordinates in which its Hessian is the identity; idle rows count as having no mean."""

    coordinates: Floats
    rows: Floats
    mean: Floats
    idle: NDArray[np.bool_]


class CountsFit(BoundedFit):
    """A Poisson model."""

    def __init__(self, model: RegressionModel, span: Span, near: RegressionFit | None = None) -> None:
        self._ends: dict[int, Floats] = {}  # about where models with one variable more have their maximum
        super().__init__(model, span, near)

    def _narrowed(self, candidates: Indices, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Intervals from the maximum along each column."""
        known = self._whitened
        if known is None:
            return lower, upper
        columns, zero = self._raw(candidates)
        glm = cast(Glm, self.model.likelihood)
        low, high, ends = enclose_counts(columns, zero, known.rows, glm.weights, known.mean, glm.y, known.idle)
        self._ends.update((v, ends[:, j]) for j, v in enumerate(candidates.tolist()) if ends[-1, j] != 0.0)
        return np.maximum(lower, low), np.minimum(upper, high)

    def _raw(self, candidates: Indices) -> tuple[Floats, Floats]:
        """Standardised columns, and what an entry of 0 (or the first of two levels) has become in them."""
        design = self.model.design
        columns, where = np.asfortranarray(single_columns(design, candidates)), design.positions(candidates)
        zero, numeric = columns.min(axis=0), where >= 0
        zero[numeric] = -design.center[where[numeric]] * (1.0 / design.scale[where[numeric]])  # to the last bit
        return columns, zero

    def _moves(self, candidates: Indices) -> Floats:
        """Changes of the linear predictors that lead to the maxima of models with one variable more, a column each."""
        known = self._whitened
        out = np.zeros((len(self.Z), len(candidates)))
        some = [j for j, v in enumerate(candidates.tolist()) if v in self._ends]
        if known is None or not some:
            return out
        ends = np.column_stack([self._ends[int(v)] for v in candidates[some]])
        columns, zero = self._raw(candidates[some])
        out[:, some] = known.rows @ ends[:-1] + (columns - zero) * ends[-1]
        return out

    def _begin(self, candidates: Indices, columns: Columns) -> Floats | None:
        """Where a Newton step from the maximum along a column led, unless that is a worse place than this fit."""
        if not self._ends:
            return None
        weighted = self.model.design.weights[:, None] * self._moves(candidates) / self.model.design.n
        begin = columns.inner(weighted)
        begin[:-1] += self.parameters[:, None]
        worse = ~(self.model.likelihood.at(columns, begin).value <= self.deviance)
        begin[:-1, worse], begin[-1, worse] = self.parameters[:, None], 0.0
        return begin

    def _projected(self, near: RegressionFit) -> Floats:
        """Parameters of predictors close to those of another fit, or to where it saw the maximum of this one."""
        if not isinstance(near, CountsFit):
            return super()._projected(near)
        predictors = near.predictors()
        new, gone = (_missing(one.selected, other) for one, other in ((self.span, near.span), (near.span, self.span)))
        if (len(new), len(gone)) == (1, 0):
            predictors = predictors + near._moves(np.array(new, dtype=np.intp))
        elif (len(new), len(gone)) == (0, 1) and near.span.full_rank:
            predictors = predictors - near._part(gone[0])
        return self._along(predictors)[:, 0]

    def _without(self, others: Span) -> RegressionFit:
        """The model with a variable less; the other coefficients stay where they are, on the way to infinity or not."""
        return CountsFit(self.model, others, self)

    def _part(self, variable: int) -> Floats:
        """What a variable adds to the linear predictors."""
        triangle, own = self._triangle, self.span.place(variable)
        coefficients = linalg.solve_triangular(triangle, self.parameters)
        return self.Z @ (triangle[:, own] @ coefficients[own, None])

    @cached_property
    def _triangle(self) -> Floats:
        return self.span.triangle()

    @cached_property
    def _whitened(self) -> _Whitened | None:
        """None where some direction moves hardly anything, and yet more than idle rows."""
        glm = cast(Glm, self.model.likelihood)
        mean = glm.at(self.columns, self.parameters[:, None]).transformed[:, 0]
        idle = (glm.y == 0.0) & (mean < _IDLE)
        if not np.isfinite(mean).all():
            return None
        weight = np.where(idle, 0.0, glm.weights * mean)
        curvature, directions = np.linalg.eigh(self.Z.T @ (weight[:, None] * self.Z))
        kept = curvature > _KEPT * curvature[-1]
        counts = float(glm.weights @ (glm.y + mean))
        if not kept.any() or np.abs(self.Z[~idle] @ directions[:, ~kept]).max(initial=0.0) * counts > _GONE:
            return None
        coordinates = directions[:, kept] / np.sqrt(curvature[kept])
        return _Whitened(coordinates, self.Z @ coordinates, mean, idle)


def _missing(variables: Sequence[int], span: Span) -> list[int]:
    return [variable for variable in variables if variable not in span.selected]
