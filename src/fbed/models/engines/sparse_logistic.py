"""The certified engine of two classes for models whose columns are mostly 0, such as words of documents, on the columns
themselves (`sparse_span.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import LogisticNull, SparseModel, least_rows
from fbed.models.base import Indices, Span
from fbed.models.engines.certified import _COARSE, _ENOUGH, CROWD, FAR, Begin, CertifiedLogistic, Tried
from fbed.models.engines.fitted_logistic import Null
from fbed.models.engines.functionals import OwnFunctionals
from fbed.models.engines.sparse_span import SparseSpan, sparse_span
from fbed.rules.p_values import Floats

MANY_COLUMNS = 100  # of a model from which a look at the rows that a column moves takes less time than a fit without it
_HALFWAY = 0.025  # part of the null deviance that Newton's step promises where a fit towards infinity is half way there


class SparseLogistic(CertifiedLogistic):
    """Coefficients are those of the columns, each divided by its scale, with an intercept first."""

    span: SparseSpan
    crowd = CROWD
    grown: SparseLogistic | None = None  # with one variable more, where that had to be fitted

    def _begin(self, start: Sequence[Floats]) -> None:
        starts = [self.span.coefficients_of(self.model.without_offset(eta)) for eta in start]
        self.coefficients, self.predictor, self.deviance, _ = self._fitted(self.span.columns, starts)

    def on_basis(self) -> Floats:
        """Coefficients on the orthonormal basis."""
        moved = self.model.without_offset(self.predictor)
        return np.asarray(self.span.Q.T @ (self.span.root * moved) / np.sqrt(self.model.n))

    def _elsewhere(self, safely: Begin) -> tuple[Begin, ...]:
        """The safe start first: programs of many documents take seconds."""
        return safely, self._by_linear_program, self._by_slower_steps

    def _tried(self, columns: SparseModel, starts: Floats, tolerance: float, enough: float) -> Tried:
        return columns.fit(self.model.design.weights, self.model.y, starts, tolerance, enough, self.model.offset)

    @staticmethod
    def _side_by_side(columns: SparseModel, size: int) -> Floats:
        return columns.moved(np.asfortranarray(np.eye(size)))

    @cached_property
    def null(self) -> Null:
        """All rows but the saturated ones; of those only the ones that the model can move on its own, if it can."""
        weights, y = self.model.design.weights, self.model.y
        kernel = LogisticNull.of_sparse_fit(
            self.span.columns, weights, y, self.predictor, self.coefficients, self.deviance, self.model.offset
        )
        self.deviance = kernel.deviance
        return Null(kernel)

    def _fitted_on(self, rows: Indices, weights: Floats, tolerance: float) -> Floats:
        part = self.span.columns.part(rows, np.arange(self.span.rank))
        return part.fit(weights, self.model.y[rows], self.coefficients[None], tolerance, np.inf, self._offset(rows))[1]

    def _in_the_limit(self, columns: SparseModel, found: tuple[Floats, Floats, float, float]) -> float:
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        null = LogisticNull.of_sparse_fit(columns, weights, y, found[1], found[0], found[2], offset)
        return self._limit(null, columns, found[0])

    def _limit(self, null: LogisticNull, columns: SparseModel, coefficients: Floats) -> float:
        """The deviance of a fit whose rows on their way to infinity are there.

        Far out, rounding hides how to fit the rows that are not on their way: without the others it does not.
        """
        weights, y, rows = self.model.design.weights, self.model.y, null.rows
        if not 0 < len(rows) < len(y):
            return null.deviance
        rest = columns.part(rows, np.arange(columns.size))
        found = rest.fit(weights[rows], y[rows], coefficients[None], _ENOUGH, np.inf, self._offset(rows))
        return min(null.deviance, found[2])

    def _null_of(self, predictor: Floats, active: Floats, cost: float) -> LogisticNull:
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        how = active, self.deviance, cost, offset
        return LogisticNull.of_sparse_rows(self.span.columns, weights, y, predictor, *how)

    def _moved(self, coefficients: Floats) -> Floats:
        return self.span.columns.moved(np.asfortranarray(coefficients))

    @cached_property
    def functionals(self) -> OwnFunctionals:
        """What vanishes on models without a variable."""
        return OwnFunctionals(self.span)

    def single_gain(self, candidate: int) -> tuple[float, float]:
        """By a fit on the columns, unless the candidate is close to their span.

        A fit that a contest has led to is kept: the search goes on from there.
        """
        larger = sparse_span(self.model.design, (*self.span.selected, candidate), self.span)
        if larger is None:
            return self._dense.single_gain(candidate)
        near = self.hints.get(frozenset(larger.selected))
        if near is not None:
            self.grown = SparseLogistic(self.model, larger, [near, self.model.null_predictors()])
            return max(0.0, self.deviance - self.grown.settled()), 1.0
        starts = [np.append(self.coefficients, 0.0), np.append(self._centre(), 0.0)]
        found = self._fitted(larger.columns, starts, _ENOUGH)
        return max(0.0, self.deviance - self._settled(larger.columns, found)), 1.0

    def settled(self) -> float:
        """The deviance, in the limit where some rows are on their way there."""
        far = self.deviance > 0.0 and float(np.abs(self.predictor).max()) > FAR
        return self._limit(self.null.kernel, self.span.columns, self.coefficients) if far else self.deviance

    def deviance_with(self, columns: Floats, variable: int) -> float:
        """Deviance of the model with a variable more, whose columns are orthogonal to it."""
        return self._dense.deviance_with(columns, variable)

    @cached_property
    def _dense(self) -> CertifiedLogistic:
        """The same model on an orthonormal basis."""
        dense = CertifiedLogistic(self.model, Span(self.model.design, self.span.selected), [self.predictor])
        dense.deviance = self.deviance
        return dense

    def deviance_without(self, variable: int, enough: float) -> tuple[float, float]:
        """Deviance of the model without one variable, from a start close by; or an interval that is above `enough`."""
        if self.span.rank_of[variable] > 1:
            return self._dense.deviance_without(variable, enough)
        place = self.span.place(variable).start
        kept = np.array([k for k in range(self.span.rank) if k != place])
        near = self._shortest_way_without(variable) if self.deviance > 0.0 else None
        start = self.coefficients if near is None else self.coefficients - self.null.whitener @ near[0]
        starts = [part * start[kept] for part in self._parts(near is not None)] + [self._centre()[kept]]
        if near is None and (halfway := self._halfway_without(place)) is not None:
            starts.insert(0, halfway[kept])
        few = self._unexplained.sum() < self.span.rank  # which are explained by almost any model of so many variables
        least = self._least_without(place, kept, starts, enough) if np.isfinite(enough) and not few else 0.0
        if least > enough:
            return least, self.model.null_deviance
        columns = self.span.columns.part(np.arange(self.model.design.n_rows), kept)
        return self._decided(variable, columns, self._fitted(columns, starts, _ENOUGH, enough), enough)

    def least_losses(self, variables: Indices, enough: float) -> Floats:
        """What removing each variable costs at least, or more than enough, from its own rows; 0 where it is not told.

        By steps that begin where a part of a variable's coefficient is taken off them, the fewest rows first. Nothing
        is told of categories and groups.
        """
        design, out = self.model.design, np.zeros(len(variables))
        single = np.flatnonzero(design.varying[variables])
        if not self.deviance > 0.0 or len(single) == 0:
            return out
        order = single[np.argsort(design.stored[design.positions(variables[single])], kind="stable")]
        places = np.array([self.span.place(int(v)).start for v in variables[order]], dtype=np.int64)
        out[order] = self.null.kernel.losses(places, self.coefficients, enough)
        return np.maximum(out, 0.0)

    def least_deviances_without(self, variables: Indices, enough: Floats) -> Floats:
        """What the models without each of some variables leave unexplained at least, or more than enough of it.

        Nothing is told of categories and groups.
        """
        single = self.model.design.varying[variables]
        if not single.all():
            left = np.zeros(len(variables))
            if single.any():
                left[single] = self.least_deviances_without(variables[single], enough[single])
            return left
        places, out = np.array([self.span.place(int(v)).start for v in variables]), np.zeros(len(variables))
        far = np.ones(len(places), dtype=bool)
        if self.deviance > 0.0:
            near, starts = self._starts_nearby(places)
            far[near] = False
            out[near] = self._surely_left(places[near], starts, enough[near])
        if far.any():
            out[far] = self._surely_left(places[far], self._starts_far_out(places[far]), enough[far])
        return out

    def _surely_left(self, places: Indices, starts: Floats, enough: Floats) -> Floats:
        """Rows that are explained by almost any model of so many variables are too few to be looked at alone."""
        if len(places) == 0:
            return np.zeros(0)
        told = self._unexplained
        if told.sum() < self.span.rank:
            told = np.ones_like(told)
        starts = np.ascontiguousarray(starts.reshape(-1, self.span.rank))
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        return self.span.columns.least_without(weights, y, told, places, starts, _ENOUGH, enough, offset)

    def _starts_nearby(self, places: Indices) -> tuple[Indices, Floats]:
        """Which models without a column are at the end of a step from here; columns × starts × coefficients."""
        near, ways, _ = self._single_ways_without(places.tolist())
        starts = np.empty((len(near), 2, self.span.rank))
        starts[:, 0], starts[:, 1] = self.coefficients - (self.null.whitener @ ways).T, self._centre()
        return near, starts

    def _starts_far_out(self, places: Indices) -> Floats:
        """The same where models are on their way to infinity: anywhere on it, or where it begins."""
        parts = np.array(self._parts(False))
        starts = np.empty((len(places), len(parts) + 2, self.span.rank))
        starts[:, 1:-1], starts[:, -1] = parts[:, None] * self.coefficients, self._centre()
        coefficients, whitener = self._halfway
        own = np.square(whitener[places]).sum(axis=1)
        step = coefficients[places] / np.where(own > 0.0, own, np.inf)
        starts[:, 0] = coefficients - step[:, None] * (whitener[places] @ whitener.T)
        return starts

    def _halfway_without(self, place: int) -> Floats | None:
        """Where the way to infinity begins, without a column: the model without it is nearer to that than to the end
        of the way, unless the column does not matter.
        """
        coefficients, whitener = self._halfway
        own = float(whitener[place] @ whitener[place])
        if not own > 0.0:
            return None
        return coefficients - whitener @ whitener[place] * (coefficients[place] / own)

    @cached_property
    def _halfway(self) -> tuple[Floats, Floats]:
        """Coefficients of a fit that was stopped on its way to infinity, and a root of the inverse curvature there."""
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        columns, tolerance = self.span.columns, _HALFWAY * self.model.null_deviance
        found = columns.fit(weights, y, self._centre()[None], tolerance, np.inf, offset)
        null = LogisticNull.of_sparse_fit(columns, weights, y, found[1], found[0], found[2], offset)
        return found[0], null.whitener

    def _least_without(self, place: int, kept: Indices, starts: Sequence[Floats], enough: float) -> float:
        """What the model without a column leaves unexplained at least of the rows that have most of the deviance, and
        of those that the column moves: no more than of all rows.
        """
        rows = np.flatnonzero(self._unexplained | (self.span.columns.column(place) != 0.0))
        weights, y = self.model.design.weights[rows], self.model.y[rows]
        part = self.span.columns.part(rows, kept)
        return part.fit(weights, y, np.array(starts), _ENOUGH, enough, self._offset(rows))[3]

    @cached_property
    def _unexplained(self) -> NDArray[np.bool_]:
        """Which rows have the deviance, but for a little."""
        out = np.ones(len(self.predictor), dtype=bool)
        out[least_rows(self.row_deviance, _COARSE)] = False
        return out
