"""A model whose categories with many levels are tested by pairs of rows, and everything else as before.

Likelihood ratios follow χ² as long as every level has several events. Their mean exceeds the df by about df/(5e) when
a level has e events on average, which is more than a tenth of the standard deviation √(2·df) once e² < 2·df, and more
than a twentieth once

    e² < 8·df.

There the p-value comes from `residual_pairs`. The statistic is the one that χ² with the category's df would need for
this p-value, so that critical values, ranks and what people are shown mean the same for every variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.counted_columns import counted
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks
from fbed.models.base import Bounds, CertifiedFit, Fit, FittedModel, Indices, Model, Span, in_span, is_certified
from fbed.models.engines.categories.residual_pairs import Basis, CountedBasis, NextToCollinear, RowScores, Spanning
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import ChiSquare, Floats, Reference, chi2_of_log_p

_DECIDED = 1e-8
"""Part of the largest variance below which a row is decided: in the limit it has none, wherever iterations ended."""


class ScoredModel(Model, Protocol):
    """A model that tells how many events it has, and whose fits tell the scores of their rows."""

    design: Design
    n_predictors: int
    events: float  # harmonic mean of the classes' rows, number of events or of counts: what a level needs some of


class ScoredFit(Fit, Protocol):
    """A fit that tells the scores of its rows, which are those of its model's design."""

    @property
    def model(self) -> ScoredModel:
        """The model that it is a fit of."""

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Score of every row (its copies together) in its predictors, and its variance up to a factor, None for 1."""


def sparse_categories(model: Model) -> tuple[int, ...]:
    """Variables that are a single category with so many levels that χ² does not hold for their likelihood ratio."""
    design = getattr(model, "design", None)
    if design is None or not len(design.table.factors) or not hasattr(model, "events"):
        return ()
    scored, table = cast(ScoredModel, model), design.table
    return tuple(
        j
        for j in np.flatnonzero(design.width > 1).tolist()
        if table.columns(j) == (j,) and j in table.factors and _is_sparse(scored, len(table.factors[j].levels))
    )


def _is_sparse(model: ScoredModel, levels: int) -> bool:
    return (model.events / levels) ** 2 < 8.0 * model.n_predictors * (levels - 1)


class ManyLevels:
    """Another model, whose sparse categories are tested by pairs of rows."""

    has_likelihood = False  # not every statistic is a difference of deviances

    def __init__(self, model: Model, sparse: Sequence[int]) -> None:
        self.model = cast(ScoredModel, model)
        self.name, self.n, self.block_size = model.name, model.n, model.block_size
        self.is_sparse = np.zeros(len(self.model.design.width), dtype=bool)
        self.is_sparse[list(sparse)] = True

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> ManyLevelsFit:
        """Fit the model on a set of variables."""
        known = near.fit if isinstance(near, ManyLevelsFit) else near
        fit = self.model.fit(selected, known)
        return (CertifiedManyLevelsFit if is_certified(fit) else ManyLevelsFit)(self, tuple(selected), fit)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients, as ever."""
        return self.model.describe(selected, near.fit if isinstance(near, ManyLevelsFit) else near)


class ManyLevelsFit:
    """The fit on S; sparse categories are tested by pairs of rows."""

    def __init__(self, model: ManyLevels, selected: tuple[int, ...], fit: Fit) -> None:
        self.model, self.selected, self.fit = model, selected, fit

    @property
    def saturated(self) -> bool:
        """Whether the outcome is explained completely."""
        return self.fit.saturated

    @cached_property
    def rows(self) -> RowScores:
        """Scores of one copy of every row."""
        fit, a = cast(ScoredFit, self.fit), self.design.weights
        scores, variances = fit.row_scores()
        per_copy = np.ones_like(a) if variances is None else variances / a
        decided = per_copy <= _DECIDED * per_copy.max(initial=0.0)
        scores, per_copy = np.where(decided[:, None], 0.0, scores / a[:, None]), np.where(decided, 0.0, per_copy)
        return RowScores(scores, per_copy / max(per_copy.mean(), 1e-300), a, self._spanning())

    @property
    def design(self) -> Design:
        """Whose rows have the scores: a model may have put them in another order."""
        return cast(ScoredFit, self.fit).model.design

    def _spanning(self) -> Spanning:
        """S and the intercept, by counting where that takes less time."""
        columns = counted(RowBlocks(self.design), self.selected)
        if columns is not None:
            try:
                return CountedBasis(columns, self.design.weights, self._written_out)
            except NextToCollinear:
                pass
        return self._written_out()

    def _written_out(self) -> Basis:
        span = getattr(self.fit, "span", None)
        return Basis((Span(self.design, self.selected) if span is None else span).Z)

    def gains(self, candidates: Indices) -> Evidence:
        """Evidence for adding each candidate."""
        return self._joined(candidates, self.fit.gains, self._paired)

    def losses(self, variables: Indices) -> Evidence:
        """Evidence against removing each variable."""
        return self._joined(variables, self.fit.losses, self._without)

    def _joined(
        self, variables: Indices, others: Callable[[Indices], Evidence], paired: Callable[[Indices], Evidence]
    ) -> Evidence:
        sparse = self.model.is_sparse[variables]
        parts = [(~sparse, others), (sparse, paired)]
        statistic, df, log_p = np.zeros((3, len(variables)))
        for where, ask in parts:
            if where.any():
                found = ask(variables[where])
                statistic[where], df[where], log_p[where] = found.statistic, found.df, found.log_p
        return Evidence(statistic, df, log_p, ChiSquare())

    def _paired(self, candidates: Indices) -> Evidence:
        factors = self.design.table.factors
        df, log_p = np.zeros((2, len(candidates)))
        for i, candidate in enumerate(candidates.tolist()):
            codes, n_levels = factors[candidate].codes, len(factors[candidate].levels)
            df[i] = self.model.model.n_predictors * self.rows.rank(codes, n_levels)
            told = df[i] > 0 and not self.saturated  # where nothing is left, neither are pairs of rows
            log_p[i] = self.rows.log_p(codes, n_levels) if told else 0.0
        return Evidence(chi2_of_log_p(log_p, df), df, log_p, ChiSquare())

    def _without(self, variables: Indices) -> Evidence:
        """The test of each variable given the others."""
        parts = [self._one_without(variable) for variable in variables.tolist()]
        statistic, df, log_p = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("statistic", "df", "log_p")
        )
        return Evidence(statistic, df, log_p, ChiSquare())

    def _one_without(self, variable: int) -> Evidence:
        others = self.model.fit([s for s in self.selected if s != variable], self)
        return others._paired(np.array([variable], dtype=np.intp))


class CertifiedManyLevelsFit(ManyLevelsFit):
    """The same for a fit that answers by bounds: sparse categories are known exactly."""

    fit: Any

    @property
    def certified(self) -> CertifiedFit:
        """The fit, by its questions about bounds."""
        return cast(CertifiedFit, self.fit)

    @property
    def span(self) -> Span:
        """What the variables of the model span."""
        return self.certified.span

    def in_span(self, variables: Indices) -> NDArray[np.bool_]:
        """Which variables of one column S leaves nothing of."""
        return in_span(self.certified, variables)

    @property
    def reference(self) -> Reference:
        """χ²."""
        return self.certified.reference

    @property
    def bounds_are_cheap(self) -> bool:
        """As for the other variables."""
        return self.certified.bounds_are_cheap

    @property
    def looks_are_dear(self) -> bool:
        """Whether a look at everybody costs more than to know the best of a few."""
        return self.certified.looks_are_dear

    def prepare(self, n_candidates: int, critical: float = np.inf) -> None:
        """Whatever so many candidates share."""
        self.certified.prepare(n_candidates, critical)

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for adding each candidate."""
        return self._bounds(candidates, lambda some: self.certified.gain_bounds(some, critical), self._paired)

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """Narrow the intervals of contenders; those of sparse categories are points already."""
        return self.certified.contest(candidates, lower, upper, race)

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for removing each variable."""
        return self._bounds(variables, lambda some: self.certified.loss_bounds(some, critical), self._without)

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The statistic of removing a variable that is no sparse category."""
        return self.certified.resolve_loss(variable, enough)

    def _bounds(
        self, variables: Indices, others: Callable[[Indices], Bounds], paired: Callable[[Indices], Evidence]
    ) -> Bounds:
        sparse = self.model.is_sparse[variables]
        lower, upper, df = np.zeros((3, len(variables)))
        if not sparse.all():
            found = others(variables[~sparse])
            lower[~sparse], upper[~sparse], df[~sparse] = found.lower, found.upper, found.df
        if sparse.any():
            exact = paired(variables[sparse])
            lower[sparse] = upper[sparse] = exact.statistic
            df[sparse] = exact.df
        return Bounds(lower, upper, df, self.reference)
