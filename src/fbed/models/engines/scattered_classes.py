"""Fits of classes on columns that are mostly 0, as their entries: no row costs more than it has.

Coefficients are those of the columns themselves, each divided by its scale, after a constant. An orthonormal basis, and
parameters on it, are made only where somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed._kernels import DenseColumns, OrderedClasses, SoftmaxClasses, SparseColumns
from fbed.models.base import Bounds, FittedModel, Indices, Span, single_columns
from fbed.models.engines.raced import RacedFit, kernel_of
from fbed.models.engines.sparse_description import EntryFit
from fbed.models.engines.sparse_span import SparseSpan, sparse_span
from fbed.models.engines.words import APART, mostly_zero
from fbed.models.likelihoods.likelihood import RegressionFit, RegressionModel
from fbed.models.likelihoods.newton import Columns
from fbed.rules.p_values import Floats

_READABLE = 0.7  # part of the rows that a column may have an entry in to be looked at entry by entry
_FEW = 3  # contenders that are fitted, one after the other: models of which one is the next of the search


class ScatteredFit(RacedFit):
    """A fit on the entries of its columns."""

    span: SparseSpan
    grown: ScatteredFit | None = None  # with one variable more, where that had to be fitted

    @classmethod
    def made(cls, model: RegressionModel, selected: Sequence[int], near: RegressionFit | None) -> RegressionFit:
        """On entries where these are few, on an orthonormal basis elsewhere."""
        if isinstance(near, ScatteredFit) and near.grown is not None and near.grown.span.selected == tuple(selected):
            return near.grown
        known = getattr(near, "span", None)
        if isinstance(model.design.matrix, DenseColumns | SparseColumns):
            span = sparse_span(model.design, selected, known)
            if span is not None:
                return cls(model, span, near)
        return cls.on_basis(model, Span(model.design, selected, known), near)

    @classmethod
    def on_basis(cls, model: RegressionModel, span: Span, near: RegressionFit | None) -> RegressionFit:
        """The fit on an orthonormal basis."""
        return RacedFit(model, span, near)

    def __init__(
        self,
        model: RegressionModel,
        span: SparseSpan,
        near: RegressionFit | None = None,
        enough: float = np.inf,
        begin: Floats | None = None,
    ) -> None:
        self.model, self.span, self._enough = model, span, enough
        kernel = self._kernel_at(self._begin_at(near) if begin is None else begin, 0.0)
        self.coefficients, deviance, certain, finished = kernel.fit(enough)
        self.deviance = max(deviance, model.likelihood.least)
        if not finished and certain >= enough:
            self.at_least = certain
        elif not finished:  # the slow road
            slow = RacedFit(model, Span(model.design, span.selected), near, enough)
            self.deviance, self.at_least = slow.deviance, slow.at_least
            self.coefficients = self._nearest(slow.predictors(), slow.further())

    def _kernel_at(self, coefficients: Floats, deviance: float) -> SoftmaxClasses | OrderedClasses:
        return kernel_of(self.model.likelihood, self.span.columns, coefficients, deviance)

    def _begin_at(self, near: RegressionFit | None) -> Floats:
        """Where the neighbour is; where the family starts, if there is none."""
        if near is None:
            out = np.zeros(self.size)
            m = self.model.likelihood.n_predictors
            start = self.model.likelihood.start(1)
            out[:m], out[self.span.rank * m :] = start[:m], start[m:]
            return out
        if isinstance(near, ScatteredFit) and near.span.selected == self.span.selected[:-1]:
            m = self.model.likelihood.n_predictors
            new = np.zeros((self.span.rank - near.span.rank) * m)
            return np.insert(near.coefficients, near.span.rank * m, new)
        return self._nearest(near.predictors(), near.further())

    def _nearest(self, predictors: Floats, further: Floats) -> Floats:
        """Coefficients whose predictors are closest to given ones."""
        nearest = np.column_stack([self.span.coefficients_of(eta) for eta in predictors.T])
        return np.concatenate([nearest.ravel(), further])

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.span.rank * self.model.likelihood.n_predictors + self.model.likelihood.n_further

    def further(self) -> Floats:
        """Parameters that are no coefficients."""
        return self.coefficients[self.span.rank * self.model.likelihood.n_predictors :]

    def predictors(self) -> Floats:
        """Linear predictors, n × predictors."""
        m = self.model.likelihood.n_predictors
        coefficients = self.coefficients[: self.span.rank * m].reshape(-1, m)
        return np.asarray(self.span.columns.moved(np.asfortranarray(coefficients)))

    def prepare(self, n_candidates: int = 0, critical: float = np.inf) -> None:
        """What all candidates share."""
        self.classes = self._kernel_at(self.coefficients, self.deviance)
        self._unfinished = {}

    def _pays_to_look(self, count: int) -> bool:
        """Always."""
        return True

    def _readable(self, columns: Indices) -> NDArray[np.bool_]:
        """Which columns have entries that are few enough to be looked at one by one: a fit reads all rows often."""
        design = self.model.design
        return np.asarray(design.mostly_zero[columns] | (design.stored[columns] < _READABLE * design.n_rows))

    def _new_columns(self, candidates: Indices) -> Iterator[tuple[Indices, Floats]]:
        """Columns of candidates as they are, but for a shift and their scale, where they are apart from the others."""
        columns = single_columns(self.model.design, candidates)
        words, _ = mostly_zero(self, candidates, columns)
        left = self._left(words)
        yield np.flatnonzero(left > APART**2), np.asfortranarray(words[:, left > APART**2])
        close = np.flatnonzero(left <= APART**2)
        if len(close):
            unit, degenerate = self._whole_span.residuals(columns[:, close])
            yield close[~degenerate], np.asfortranarray((unit * self._unit_mean_square())[:, ~degenerate])

    @cached_property
    def _whole_span(self) -> Span:
        """For columns next to the span: the basis that decides what is in it."""
        return Span(self.model.design, self.span.selected)

    def _left(self, columns: Floats) -> Floats:
        """What the model leaves of the mean square of columns, relative to it."""
        weights = self.model.design.weights
        along = np.column_stack([self.span.columns.products(weights * x) for x in columns.T])
        inside = linalg.solve_triangular(self.span.factor, along, lower=True, check_finite=False)
        whole = weights @ columns**2
        return 1.0 - (inside**2).sum(axis=0) / np.where(whole > 0.0, whole, 1.0)

    def _fit_few(
        self, candidates: Indices, todo: Indices, ends: dict[int, Floats], lower: Floats, upper: Floats
    ) -> Indices:
        """Statistics of some whose models can be kept for the next step; positions of the others."""
        if len(todo) > _FEW:
            return todo
        for i in todo.tolist():
            larger = self._with(int(candidates[i]), ends.get(i))
            if larger is not None:
                lower[i] = upper[i] = max(self.deviance - larger.deviance, 0.0)
                if self.grown is None or larger.deviance < self.grown.deviance:
                    self.grown = larger
        return todo[lower[todo] < upper[todo]]

    def _with(self, variable: int, end: Floats | None) -> ScatteredFit | None:
        """The fit on one variable more, from where a look ended; None where it needs a basis."""
        design = self.model.design
        span = sparse_span(design, (*self.span.selected, variable), self.span)
        if span is None:
            return None
        m = self.model.likelihood.n_predictors
        at, begin = self.span.rank * m, None
        if end is not None and np.isfinite(end).all() and design.varying[variable]:
            own = end[self.size :] * design.scale[design.positions([variable])]
            begin = np.insert(self.coefficients + end[: self.size], at, own)
        return ScatteredFit(self.model, span, self, begin=begin)

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for removing each variable, from the rows where it is not 0."""
        self.prepare()
        lower, upper = np.zeros(len(variables)), np.full(len(variables), np.inf)
        single = np.flatnonzero(self.model.design.varying[variables])
        if len(single):
            places = [self.span.place(int(v)).start for v in variables[single]]
            lower[single], upper[single] = self.classes.leave(np.array(places, dtype=np.int64))
        df = np.array([float(self.span.rank_of[int(v)]) for v in variables]) * self.model.likelihood.n_predictors
        return Bounds(lower, upper, df, self.reference)

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The likelihood ratio of a variable against the model without it, or an interval that is above `enough`."""
        others = [s for s in self.span.selected if s != variable]
        bar = self._bar(enough)
        span = sparse_span(self.model.design, others)
        near = None if self._diverges else self
        without = (
            RacedFit(self.model, Span(self.model.design, others), near, bar)
            if span is None
            else ScatteredFit(self.model, span, near, bar)
        )
        return self._lost(without)

    def describe(self, with_errors: bool = True) -> FittedModel:
        """Coefficients and standard errors on the scale of the user's data."""
        return EntryFit(self, self.span, self.coefficients).describe(with_errors)

    # what a basis is asked for

    @cached_property
    def Z(self) -> Floats:  # type: ignore[override]  # noqa: N802
        """Basis of the linear predictors."""
        return self.span.Z if self.model.likelihood.intercept else self.span.Z[:, 1:]

    @cached_property
    def columns(self) -> Columns:  # type: ignore[override]
        """The same, as models know it."""
        return Columns(self.Z)

    @cached_property
    def parameters(self) -> Floats:  # type: ignore[override]
        """Coefficients on the basis, one predictor after another, and what else there is."""
        return np.concatenate([self._along(self.predictors()).T.ravel(), self.further()])
