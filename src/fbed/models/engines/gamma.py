"""Positive numbers by the engines of counts.

With a log link, half the gamma deviance of a row at predictor η is y·exp(−η) − 1 + η − log y: that of a count of 1
whose mean is exp(log y − η). So the model is one of counts that are all 1, with offset log y and coefficients of the
other sign, and everything that encloses counts encloses these.

The shape ν is estimated in every model, and depends on nothing but the deviance D of it: −2ℓ = g(D), with g′ = ν(D) > 0
(`gamma_twice_negative`). A statistic rises with the difference of deviances: intervals are mapped by their ends.

    gain:  g(D) − g(D − δ),     loss:  g(D + δ) − g(D),       δ in an interval of the counts.

Fits end when their deviance is known to what matters for counts. So that it is what matters here, rows of outcomes with
little spread weigh about their shape times as much (`unit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from fbed.matrix.design import Design
from fbed.models.base import (
    Bounds,
    Fit,
    FittedModel,
    Indices,
    Model,
    in_span,
    is_certified,
    lost_at_least,
)
from fbed.models.likelihoods.glm import Glm
from fbed.rules.criteria import TIE, Evidence
from fbed.rules.p_values import ChiSquare, Floats

_SHARPEST = 30.0  # times as large a shape as weights allow for, beyond which what fits are short of would be seen
_FLATTEST = 1e-4  # a shape below which offsets, or outcomes, are beyond all sense
_ALMOST_ALL = 0.97  # part of the deviance that a variable explains, from which a small error in it is a large one
_ROUNDING = 1e-8  # part of the deviance by which an upper bound may be wrong, and much of what such a variable leaves
_ITERATIONS = 20  # of Newton's method in the log of the deviance, which takes about 3
_CLOSE = 1e-7  # a step of its, beside the way, after which nothing is left but rounding
_SMALL = 0.01  # change of the log of a deviance for which three points of an integral tell all digits
_NODES = 0.5 + np.array([-1.0, 0.0, 1.0]) * np.sqrt(0.15)
_WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18.0


class GammaByCounts:
    """Positive numbers; `counts` is the model of counts of 1, `careful` makes the ordinary one of the same data.

    The rows of the counts weigh `unit` times as much as those of `design`.
    """

    name = "gamma"
    has_likelihood = True
    n_predictors = 1

    def __init__(
        self, design: Design, likelihood: Glm, unit: float, counts: Model, careful: Callable[[], Model]
    ) -> None:
        self.design, self.likelihood, self.unit, self.counts, self._careful = design, likelihood, unit, counts, careful
        self.n, self.events, self.block_size = likelihood.n, likelihood.events, counts.block_size
        self.notes: tuple[str, ...] = ()

    @property
    def null_deviance(self) -> float:
        """Of the model without variables."""
        return float(cast(Any, self.counts).null_deviance) / self.unit

    @cached_property
    def careful(self) -> Model:
        """The ordinary model, made when it is asked for."""
        return self._careful()

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> Fit:
        """Maximise the likelihood on a set of variables; next to a perfect fit with the care that takes."""
        if near is not None and not isinstance(near, GammaFit):
            return self.careful.fit(selected, near)
        fit: Any = self.counts.fit(selected, None if near is None else near.counts)
        deviance = float(fit.deviance) / self.unit
        shape = float(self.likelihood.precision(np.array([deviance]))[0])
        if not is_certified(fit) or not _FLATTEST < shape < _SHARPEST * self.unit:
            return self.careful.fit(selected)
        return GammaFit(self, fit, deviance)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients and standard errors on the scale of the user's data."""
        fit = self.fit(selected, near)
        if not isinstance(fit, GammaFit):
            return self.careful.describe(selected, fit)
        return self._of_positive(self.counts.describe(selected, fit.counts))

    def _of_positive(self, told: FittedModel) -> FittedModel:
        deviance, errors = told.deviance / self.unit, told.standard_errors
        factor = np.sqrt(self.unit / self.likelihood.precision(np.array([deviance]))[0])
        return replace(
            told,
            family=self.name,
            coefficients=tuple(-value for value in told.coefficients),
            standard_errors=None if errors is None else tuple(float(value * factor) for value in errors),
            deviance=deviance,
            null_deviance=told.null_deviance / self.unit,
        )


class GammaFit:
    """A fit of counts, read as one of positive numbers."""

    reference = ChiSquare()

    def __init__(self, model: GammaByCounts, counts: Any, deviance: float) -> None:
        self.model, self.counts, self.deviance = model, counts, deviance
        self._whole = deviance * model.unit  # of the counts
        self.bounds_are_cheap, self.looks_are_dear = self.counts.bounds_are_cheap, self.counts.looks_are_dear
        self._value = float(model.likelihood.twice_negative(np.array([deviance]))[0])

    @property
    def selected(self) -> tuple[int, ...]:
        """The variables of the model."""
        return tuple((self.counts if hasattr(self.counts, "selected") else self.span).selected)

    @property
    def span(self) -> Any:
        """The basis of the model, where it has one."""
        return self.counts.span

    @property
    def saturated(self) -> bool:
        """Whether the fit is perfect."""
        rank = 1 + int(self.model.design.width[list(self.selected)].sum())
        return self.deviance <= self.model.likelihood.floor or self.model.n - rank <= 1

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Score of every row in its predictor, and its variance up to a factor."""
        return -self.counts.row_scores()[0] / self.model.unit, self.model.likelihood.weights

    def prepare(self, n_candidates: int, critical: float = np.inf) -> None:
        """What all candidates share."""
        self.counts.prepare(n_candidates, float(self._fallen(np.array([critical]))[0]))

    def gains(self, candidates: Indices) -> Evidence:
        """Statistics of adding each candidate."""
        found = self.counts.gains(candidates)
        return Evidence(self._read(candidates, found.statistic, found.statistic)[0], found.df, None, self.reference)

    def losses(self, variables: Indices) -> Evidence:
        """Statistics of removing each variable."""
        found = self.counts.losses(variables)
        return Evidence(self._lost(found.statistic), found.df, None, self.reference)

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for adding each candidate, clear of the critical value of its df."""
        found = self.counts.gain_bounds(candidates, lambda df: self._fallen(critical(df)))
        lower, upper = self._read(candidates, found.lower, found.upper)
        line = critical(found.df)
        open_ = np.flatnonzero((lower < upper) & (lower <= line * (1.0 + TIE)) & (upper > line) & np.isfinite(line))
        if len(open_):  # by rounding of the map
            ends = self.counts.contest(candidates[open_], found.lower[open_], found.upper[open_], False)
            lower[open_], upper[open_] = self._read(candidates[open_], *ends)
        return Bounds(lower, upper, found.df, self.reference)

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """Narrow the intervals of contenders, given best first, until their statistics are known."""
        low, high = self._fallen(lower), self._fallen(upper)
        ends = self.counts.contest(candidates, low, high, race)
        new = np.flatnonzero((ends[0] != low) | (ends[1] != high))
        lower, upper = lower.copy(), upper.copy()
        lower[new], upper[new] = self._read(candidates[new], ends[0][new], ends[1][new])
        return lower, upper

    def _read(self, candidates: Indices, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Intervals for statistics; those that are numbers are computed with care where nearly all is explained."""
        lower, sharp = self._gained(low), np.flatnonzero((low == high) & (low > _ALMOST_ALL * self._whole))
        wider = np.where(high > _ALMOST_ALL * self._whole, high + _ROUNDING * self._whole, high)
        upper = np.maximum(self._gained(wider), lower)
        if len(sharp):
            lower[sharp] = upper[sharp] = self.model.careful.fit(self.selected).gains(candidates[sharp]).statistic
        return lower, upper

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for removing each variable."""
        found = self.counts.loss_bounds(variables, lambda df: self._risen(critical(df)))
        lower = self._lost(found.lower)
        return Bounds(lower, np.maximum(self._lost(found.upper), lower), found.df, self.reference)

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The statistic of removing one variable, or an interval that is above `enough`."""
        ends = self.counts.resolve_loss(variable, float(self._risen(np.array([enough]))[0]))
        lower, upper = self._lost(np.array(ends))
        return float(lower), float(upper)

    def lost_at_least(self, variables: Indices, enough: Floats) -> Floats:
        """What removing each variable costs at least."""
        return self._lost(lost_at_least(self.counts, variables, self._risen(enough)))

    def in_span(self, variables: Indices) -> Any:
        """Which variables of one column are in the span of the model."""
        return in_span(self.counts, variables)

    # --- from differences of deviances to statistics, and back ------------------------------------------------------

    def _gained(self, fall: Floats) -> Floats:
        """g(D) − g(D − δ)"""
        with np.errstate(divide="ignore"):
            ratio = np.log1p(-np.clip(fall / self._whole, 0.0, 1.0))
        return np.where(fall > 0.0, self._statistic(np.maximum(ratio, self._furthest)), 0.0)

    def _lost(self, rise: Floats) -> Floats:
        """g(D + δ) − g(D)"""
        known = (rise > 0.0) & np.isfinite(rise)
        statistic = -self._statistic(np.log1p(np.where(known, rise, 0.0) / self._whole))
        return np.where(known, statistic, np.where(np.isinf(rise), np.inf, 0.0))

    def _fallen(self, statistic: Floats) -> Floats:
        """What the deviance falls by for a statistic; all of it where no fit attains that."""
        attained = statistic < self._statistic(np.full(1, self._furthest))
        fall = -self._whole * np.expm1(self._ratio(np.where(attained & (statistic > 0.0), statistic, 0.0)))
        return np.where(np.isinf(statistic), np.inf, np.where(attained, fall, self._whole))

    def _risen(self, statistic: Floats) -> Floats:
        """What the deviance rises by for a statistic."""
        asked = (statistic > 0.0) & np.isfinite(statistic)
        rise = self._whole * np.expm1(self._ratio(np.where(asked, -statistic, 0.0)))
        return np.where(np.isinf(statistic), np.inf, rise)

    @property
    def _furthest(self) -> float:
        """How far the log of the deviance can fall: less than its floor counts as that."""
        return min(0.0, float(np.log(self.model.likelihood.floor / self.deviance)))

    def _statistic(self, ratio: Floats) -> Floats:
        """g(D) − g(D·exp(ratio)); for small ratios, where that cancels, the integral of g′."""
        out, small = np.empty_like(ratio), np.abs(ratio) < _SMALL
        if not small.all():
            out[~small] = self._value - self.model.likelihood.twice_negative(self.deviance * np.exp(ratio[~small]))
        if small.any():
            out[small] = -ratio[small] * (self._slope(np.outer(ratio[small], _NODES)) @ _WEIGHTS)
        return out

    def _slope(self, ratio: Floats) -> Floats:
        """Derivative of g in log D, at D·exp(ratio)."""
        deviance = self.deviance * np.exp(ratio)
        return self.model.likelihood.precision(deviance) * deviance

    def _ratio(self, statistic: Floats) -> Floats:
        """Where `_statistic` has these values, by Newton's method: it is next to linear."""
        ratio = -statistic / self._slope(np.zeros(statistic.shape))
        for _ in range(_ITERATIONS):
            step = (self._statistic(ratio) - statistic) / self._slope(ratio)
            ratio = ratio + step
            if not (np.abs(step) > _CLOSE * np.abs(ratio)).any():
                break
        return ratio
