"""Fits that know their neighbours: about where a model with one variable more, or less, has its maximum.

Newton's method from there takes a step or two, where it takes many from the fit itself: a rare word moves few rows, but
those far.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy import linalg

from fbed.models.base import Indices, Span
from fbed.models.engines.bounded import BoundedFit
from fbed.models.likelihoods.likelihood import RegressionFit
from fbed.models.likelihoods.newton import Columns
from fbed.rules.p_values import Floats


class NeighbourlyFit(BoundedFit):
    """A model with one linear predictor."""

    def _moves(self, candidates: Indices) -> Floats | None:
        """Changes of the linear predictors that lead to the maxima of models with one variable more, a column each; 0
        where nothing is known, None if that is so of all."""
        raise NotImplementedError

    def _begin(self, candidates: Indices, columns: Columns) -> Floats | None:
        """Where a neighbour's maximum is, unless that is a worse place than this fit."""
        moves = self._moves(candidates)
        if moves is None:
            return None
        begin = columns.inner(self.model.design.weights[:, None] * moves / self.model.design.n)
        begin[:-1] += self.parameters[:, None]
        worse = ~(self.model.likelihood.at(columns, begin).value <= self.deviance)
        begin[:-1, worse], begin[-1, worse] = self.parameters[:, None], 0.0
        return begin

    def _projected(self, near: RegressionFit) -> Floats:
        """Parameters of predictors close to those of another fit, or to where it saw the maximum of this one."""
        if not isinstance(near, NeighbourlyFit):
            return super()._projected(near)
        predictors = near.predictors()
        new, gone = (_missing(one.selected, other) for one, other in ((self.span, near.span), (near.span, self.span)))
        if (len(new), len(gone)) == (1, 0):
            moves = near._moves(np.array(new, dtype=np.intp))
            predictors = predictors if moves is None else predictors + moves
        elif (len(new), len(gone)) == (0, 1) and near.span.full_rank:
            predictors = predictors - near._part(gone[0])
        return self._along(predictors)[:, 0]

    def _without(self, others: Span) -> RegressionFit:
        """The model with a variable less; the other coefficients stay where they are, on the way to infinity or not."""
        return type(self)(self.model, others, self)

    def _part(self, variable: int) -> Floats:
        """What a variable adds to the linear predictor, apart from a constant where there is no intercept."""
        triangle, own = self._triangle, self.span.place(variable)
        if not self.model.likelihood.intercept:
            triangle, own = triangle[1:, 1:], slice(own.start - 1, own.stop - 1)
        coefficients = linalg.solve_triangular(triangle, self.parameters)
        return self.Z @ (triangle[:, own] @ coefficients[own, None])

    @cached_property
    def _triangle(self) -> Floats:
        return self.span.triangle()


def _missing(variables: Sequence[int], span: Span) -> list[int]:
    return [variable for variable in variables if variable not in span.selected]


def standardised_zeros(fit: RegressionFit, variables: Indices, columns: Floats) -> Floats:
    """What an entry of 0 (or the first of two levels) has become in standardised columns, to the last bit."""
    design = fit.model.design
    where = design.positions(variables)
    zero, numeric = columns.min(axis=0), where >= 0
    numeric[numeric] = design.scale[where[numeric]] > 0  # of a constant its indicator of missing values is what varies
    zero[numeric] = -design.center[where[numeric]] * (1.0 / design.scale[where[numeric]])
    return np.asarray(zero)
