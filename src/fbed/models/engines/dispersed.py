"""Overdispersed counts: likelihood ratios enclosed without fitting, whatever the dispersion of the larger model is.

What all candidates share is a `Frame` of the fit on S: intervals that hold all dispersions, each with a dual point.
Only what that leaves open is fitted, and dispersions that are out of the question are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed.models.base import Bounds, Indices, Span, single_columns
from fbed.models.engines.bounded import BoundedFit
from fbed.models.engines.dispersion_frame import Frame
from fbed.models.engines.functionals import Functionals
from fbed.models.engines.neighbours import standardised_zeros
from fbed.models.likelihoods.likelihood import RegressionFit
from fbed.models.likelihoods.negative_binomial import NegativeBinomial
from fbed.models.likelihoods.nested_tests import Comparison
from fbed.models.likelihoods.newton import Columns
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

_ROUNDING = 1e-8  # what bounds are widened by, relative
_TOGETHER = 8  # contenders who are fitted at a time at most,
_TOGETHER_VALUES = 2**16  # where the rows are so few that this takes hardly longer than one of them
_GONE = 25.0  # how far predictors are moved whose means go to 0
_WIDE = 20.0  # range of a column's values for which all of them can be moved so far
_BATCH_VALUES = 2**19  # values of candidates that are bounded together,
_LEAST_BATCH = 16  # and so many of them at least


class DispersedFit(BoundedFit):
    """A negative binomial model that answers scans by intervals."""

    def prepare(self, n_candidates: int = 0, critical: float = np.inf) -> None:
        """What all candidates share."""
        _ = self._frame

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for adding each candidate; nothing is known of anybody where the model has no curvature left."""
        self.prepare()
        return super().gain_bounds(candidates, critical)

    def _enclosed(self, columns: Columns) -> tuple[Floats, Floats]:
        """Bounds of every model with a column of its own, or of one with several: none explains more than there is."""
        single = columns.x is not None
        new = columns.x if columns.x is not None else columns.Z[:, self.columns.size :]
        if self._frame is None:
            count = new.shape[1] if single else 1
            return np.zeros(count), np.full(count, max(self.deviance, 0.0))
        lower, upper = self._frame.single(new) if single else self._frame.several(new)
        return np.minimum(lower, self.deviance), np.minimum(upper, self.deviance)

    def _wanted(self, lower: Floats, upper: Floats, line: Floats) -> NDArray[np.bool_]:
        """Who may pass or fail; who is best is found out in the contest."""
        return np.asarray((lower <= line) & (upper > line))

    def _narrowed(self, candidates: Indices, lower: Floats, upper: Floats, line: Floats) -> tuple[Floats, Floats]:
        """A closer look at who is open."""
        if self._frame is None:
            return lower, upper
        unit, _ = self.span.residuals(single_columns(self.model.design, candidates))
        known = self._frame.closer(unit * self._unit_mean_square(), line)
        self._closer.update(zip(candidates.tolist(), known, strict=True))
        return lower, np.maximum(np.minimum(upper, np.maximum(known.max(axis=1), 0.0)), lower)

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """In a race those who seem best are fitted, a few at a time, as long as others may be better."""
        if not race:
            return super().contest(candidates, lower, upper, race)
        lower, upper = lower.copy(), upper.copy()
        looked = False
        while True:
            best = lower.max(initial=0.0) * (1.0 - TIE)
            todo = np.flatnonzero((lower < upper) & (upper >= best))
            if len(todo) == 0:
                return lower, upper
            known = bool((lower == upper).any())
            if known and not looked:
                lower[todo], upper[todo] = self._looked_at(candidates[todo], lower[todo], upper[todo], best)
                looked = True
                continue
            first = todo[np.argsort(-(upper if known else lower)[todo], kind="stable")]
            self._resolve(candidates, first[: self._together if known else 1], lower, upper)

    @property
    def _together(self) -> int:
        """Contenders who are fitted at a time: whoever has the largest upper bound has to be, others seem to."""
        return max(1, min(_TOGETHER, _TOGETHER_VALUES // self.model.design.n_rows))

    def _looked_at(self, candidates: Indices, lower: Floats, upper: Floats, best: float) -> tuple[Floats, Floats]:
        """A closer look at candidates of one column each."""
        single = np.flatnonzero(self.model.design.width[candidates] == 1)
        for some in self._batches(single):
            line = np.full(len(some), best)
            lower[some], upper[some] = self._narrowed(candidates[some], lower[some], upper[some], line)
        return lower, upper

    def _batches(self, positions: Indices) -> Iterator[Indices]:
        """Batches for bounds, for which many vectors of the intervals are read once each."""
        size = max(_LEAST_BATCH, _BATCH_VALUES // self.model.design.n_rows)
        for first in range(0, len(positions), size):
            yield positions[first : first + size]

    def _statistics(self, candidates: Indices, columns: Columns) -> Floats:
        """Likelihood ratios, of a few models at a time, whose arrays fit into the cache."""
        out = np.zeros(len(candidates))
        for some in super()._batches(np.arange(len(candidates), dtype=np.intp)):
            out[some] = self._ratios(candidates[some], columns.only(some))
        return out

    def _ratios(self, candidates: Indices, columns: Columns) -> Floats:
        """Likelihood ratios; dispersions that are out of the question are not looked at."""
        if self._frame is None or columns.x is None:
            return super()._statistics(candidates, columns)
        missing = [j for j, v in enumerate(candidates.tolist()) if v not in self._closer]
        if missing:
            looked = self._frame.closer(columns.x[:, missing], np.full(len(missing), np.inf))
            self._closer.update(zip(candidates[missing].tolist(), looked, strict=True))
        upper = np.array([self._closer[v] for v in candidates.tolist()])
        comparison = Comparison(self, columns, 1, self._begin(candidates, columns))
        family = cast(NegativeBinomial, self.model.likelihood)
        found = family.maximise(columns, comparison.start, self._frame.floors(upper))
        return self.deviance - found.deviance

    @cached_property
    def _closer(self) -> dict[int, Floats]:
        """Upper bounds of candidates, for every interval of dispersions."""
        return {}

    def _bounds_pay(self, count: int, columns: Columns) -> bool:
        """What all candidates share is known: the rest costs next to nothing."""
        return True

    @cached_property
    def _frame(self) -> Frame | None:
        return Frame.of(self)

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """What removing each variable costs at least; nothing is known from above until somebody asks."""
        self.prepare()
        if self._frame is None or not self.span.full_rank:  # ask the fits
            evidence = self.losses(variables)
            return Bounds(evidence.statistic, evidence.statistic, evidence.df, self.reference)
        df = np.array([float(self.span.rank_of[int(v)]) for v in variables])
        functionals = Functionals(self.span)
        lower = self._frame.lost_at_least([functionals.of(int(v)) for v in variables])
        most = (self.model.null_deviance - self.deviance) * (1.0 + _ROUNDING) + _ROUNDING
        return Bounds(np.minimum(lower, most), np.full(len(df), most), df, self.reference)

    def _begin(self, candidates: Indices, columns: Columns) -> Floats | None:
        """Where a column goes to infinity because no row that has it has a count: next to there."""
        moves = self._moves(candidates)
        if not moves.any():
            return None
        begin = np.zeros((columns.size + 1, len(candidates)))
        begin[:-1] = columns.inner(self.model.design.weights[:, None] * moves / self.model.design.n)
        begin[:-2] += self.parameters[:-1, None]
        begin[-1] = self.parameters[-1]
        worse = ~(self.model.likelihood.at(columns, begin).value <= self.deviance)
        begin[:-2, worse], begin[-2, worse] = self.parameters[:-1, None], 0.0
        return begin

    def _moves(self, candidates: Indices) -> Floats:
        """Changes of the predictors that take the means of such columns to 0; none for the others."""
        raw = single_columns(self.model.design, candidates)
        own = raw - standardised_zeros(self, candidates, raw)
        y = cast(NegativeBinomial, self.model.likelihood).y
        least = np.where(own == 0.0, np.inf, np.abs(own)).min(axis=0)
        pure = (y @ np.abs(own) == 0.0) & np.isfinite(least) & (np.abs(own).max(axis=0) < _WIDE * least)
        alike = (own >= 0.0).all(axis=0) | (own <= 0.0).all(axis=0)
        return np.where(pure & alike, -_GONE * np.abs(own) / np.where(pure, least, 1.0), 0.0)

    def _projected(self, near: RegressionFit) -> Floats:
        """Parameters of predictors close to those of another fit, with a variable more or less."""
        predictors = near.predictors()
        new = [v for v in self.span.selected if v not in near.span.selected]
        gone = [v for v in near.span.selected if v not in self.span.selected]
        if (len(new), len(gone)) == (1, 0) and self.model.design.width[new[0]] == 1 and isinstance(near, DispersedFit):
            predictors = predictors + near._moves(np.array(new, dtype=np.intp))
        elif (len(new), len(gone)) == (0, 1) and near.span.full_rank:
            triangle, own = near.span.triangle(), near.span.place(gone[0])
            coefficients = linalg.solve_triangular(triangle, near.parameters[:-1])
            predictors = predictors - near.Z @ (triangle[:, own] @ coefficients[own, None])
        return np.append(self._along(predictors)[:, 0], near.parameters[-1])

    def _without(self, others: Span) -> RegressionFit:
        """The model with a variable less; the other coefficients stay where they are, on the way to infinity or not."""
        return type(self)(self.model, others, self)
