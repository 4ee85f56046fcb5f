"""Proportional hazards: the partial likelihood with Efron's ties, strata and left truncation.

    ℓ = Σ_events a·η − Σ_e c_e log(R_e − f_e·D_e),   R = Σ a·exp(η) over the rows at risk, D over the tied deaths

A tied set of d deaths has the terms f = 0, 1/d, …, (d − 1)/d with c = 1. Weights are frequencies, so d is the sum of
their weights (a last term with c < 1 makes up for a d that is not whole), and weight 2 is the row twice, ties included.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import CoxFits
from fbed.models.likelihoods.death_order import death_order
from fbed.models.likelihoods.likelihood import Regression, RegressionFit
from fbed.models.likelihoods.newton import (
    CONVERGED,
    JITTER,
    LEAST_STEP,
    MAX_ITERATIONS,
    NEARLY,
    NOISE,
    ROUNDING,
    SMALL_STEP,
    Columns,
    Maximum,
    climb,
    told,
)
from fbed.models.likelihoods.risk_sets import RiskSets
from fbed.models.recession import Constraints
from fbed.rules.p_values import Floats

_RANGE = 300.0  # hazards that are further apart than exp of this are not held on one scale
_CLEAR = 1e-9  # by how much, beside their size, predictors differ that are not equal up to rounding
_ROUNDING = 1e-15  # information below this part of Σ w·x² is what subtraction has left of none at all


class Cox(Regression):
    """Survival times with weights; the sample size of information criteria is the number of events."""

    name = "cox"
    intercept = False
    brackets = True

    def __init__(
        self,
        time: Floats,
        event: NDArray[np.bool_],
        weights: Floats,
        strata: NDArray[np.intp] | None = None,
        entry: Floats | None = None,
    ) -> None:
        self.risk = RiskSets(time, event, weights, strata, entry)
        self.n = self.risk.n_events
        self.event_weights = np.where(event, weights, 0.0)
        self._observed = (time, event, strata, entry)
        self.log_weights = np.log(self.risk.weights)[:, None]
        self.own_logs = float(weights[event] @ np.log(weights[event]))
        self.fits = self._kernels()

    def _kernels(self) -> CoxFits | None:
        """Kernels, for which rows that enter late and strata are too much."""
        risk = self.risk
        if risk.late or len(risk.strata) > 1 or not len(risk.deaths):
            return None
        after = np.where(risk.has_survivors, risk.after, -1)
        outlived = np.where(risk.outlives, risk.survived, 0)
        places = (risk.order, risk.deaths, risk.group_starts, outlived, risk.first, after, risk.term_group)
        values = (risk.weights, self.log_weights[:, 0], risk.left, risk.multiplicity, self.event_weights[risk.order])
        limits = [CONVERGED, NEARLY, SMALL_STEP, JITTER, ROUNDING, LEAST_STEP, NOISE, _RANGE, _ROUNDING, _CLEAR]
        return CoxFits(
            [np.ascontiguousarray(place, dtype=np.int64) for place in places],
            [np.ascontiguousarray(value) for value in values],
            risk.saturated,
            self.own_logs,
            limits,
            MAX_ITERATIONS,
        )

    @property
    def lowest_outcome(self) -> NDArray[np.bool_]:
        """Whoever does not die."""
        return self.event_weights == 0.0

    def maximise(self, columns: Columns, start: Floats) -> Maximum:
        """By kernels; models that ask for more than they can are left to `climb`."""
        if self.fits is None or not start.size:
            return super().maximise(columns, start)
        own = None if columns.x is None else np.asfortranarray(columns.x)
        found = Maximum(*self.fits.climb(np.asfortranarray(columns.Z), own, np.asfortranarray(start)))
        rest = ~found.finished
        if rest.any():
            more = climb(self, columns.only(rest), start[:, rest])
            found.parameters[:, rest], found.deviance[rest] = more.parameters, more.deviance
            found.finished[rest] = more.finished
        return told(found)

    def batch_rows(self, n_rows: int) -> int:
        """Terms, where there are more of them than rows."""
        return max(n_rows, len(self.risk.term_group))

    def at(self, columns: Columns, parameters: Floats) -> CoxPoint:
        """Evaluate many models."""
        return CoxPoint(self, columns, parameters)

    def constraints(self, fit: RegressionFit) -> Constraints:
        """Whoever dies must not fall behind anybody at risk."""
        dying, other = death_order(*self._observed)
        eta = fit.predictors()[:, 0]
        return Constraints(fit.Z[dying] - fit.Z[other], eta[dying] - eta[other])


class CoxPoint:
    """Deviance from the largest partial likelihood that any hazards could reach, and derivatives.

    `layers` are the hazards a·exp(η) in sorted order, on one scale for all tied sets as a rule (mask None). A row with
    an enormous hazard, once it is gone, leaves risk sets that vanish beside it: these are a layer of their own.
    """

    def __init__(self, cox: Cox, columns: Columns, parameters: Floats) -> None:
        self.cox, self.columns, risk = cox, columns, cox.risk
        self.eta = columns.predict(parameters)
        level = self.eta[risk.order] + cox.log_weights
        scale = level.max(axis=0)
        self.layers: list[tuple[Floats, NDArray[np.bool_] | None]]
        if np.any(scale - level.min(axis=0) > _RANGE):
            scale = self._layered(level, scale)[risk.group]
        else:
            self.layers = [(np.exp(level - scale), None)]
        self.denominator = self._per_term()
        deaths = risk.weights[risk.deaths] @ (level[risk.deaths] - scale) - cox.own_logs
        lost = ~(self.denominator > 0.0).all(axis=0)  # a step so far that levels have no digits left for a scale
        with np.errstate(divide="ignore", invalid="ignore"):
            log_likelihood = deaths - risk.multiplicity @ np.log(self.denominator)
        self.value = np.where(lost, np.inf, np.maximum(2.0 * (risk.saturated - log_likelihood), 0.0))

    def _layered(self, level: Floats, top: Floats) -> Floats:
        """A layer for each range of the largest hazard at risk; returns the scale of every tied set, as a logarithm."""
        depth = np.floor((top - self.cox.risk.largest_at_risk(level)) / _RANGE)
        self.layers = []
        for d in np.unique(depth):
            below = level - (top - _RANGE * d)
            self.layers.append((np.where(below < 1.0, np.exp(np.minimum(below, 1.0)), 0.0), depth == d))
        return top - _RANGE * depth

    def _per_term(self, column: Floats | None = None) -> Floats:
        """R − f·D of every term, for sums of hazard × column."""
        risk, total = self.cox.risk, np.zeros(())
        for hazard, mask in self.layers:
            part = risk.per_term(hazard if column is None else hazard * column)
            total = total + (part if mask is None else np.where(mask[risk.term_group], part, 0.0))
        return total

    def means_at_risk(self, columns: Floats) -> Floats:
        """Mean of every column of one model over the rows at risk, weighted by their hazards: terms × columns."""
        return np.asarray(self._per_term(columns[self.cox.risk.order]) / self.denominator)

    def _expected(self) -> Floats:
        """Expected number of events of every row."""
        risk = self.cox.risk
        share = risk.multiplicity[:, None] / self.denominator
        out = np.zeros_like(self.layers[0][0])
        for hazard, mask in self.layers:
            out[risk.order] += hazard * risk.expected(share if mask is None else share * mask[risk.term_group])
        return out

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """Σ x(event − w) and Σ w·xxᵀ − Σ_e c·x̄xᵀ̄, with w the expected number of events of every row."""
        columns = columns or self.columns
        weight = self._expected()
        gradient = columns.inner(self.cox.event_weights[:, None] - weight)
        squares = columns.gram(weight)
        hessian = squares - self._outer_means(columns, gradient.shape[1])
        diagonal = np.arange(columns.size)
        hessian[:, diagonal, diagonal] += _ROUNDING * squares[:, diagonal, diagonal]
        return gradient, hessian

    def _outer_means(self, columns: Columns, n_models: int) -> Floats:
        """Σ_e c·x̄_e x̄_eᵀ over the terms, x̄ the mean of the columns over the rows at risk."""
        risk = self.cox.risk
        root = np.sqrt(risk.multiplicity)[:, None] / self.denominator
        if columns.x is None and root.shape[1] == 1:  # one model: all its columns at once
            own = root * self._per_term(columns.Z[risk.order])
            return np.asarray((own.T @ own)[None])
        if root.shape[1] == 1:  # one point, and models with a column of their own each
            return self._outer_means_at_one_point(columns, root)
        sorted_columns = [column[risk.order][:, None] for column in columns.Z.T]
        if columns.x is not None:
            sorted_columns.append(columns.x[risk.order])
        means = np.empty((n_models, len(sorted_columns), len(root)))
        for j, column in enumerate(sorted_columns):
            means[:, j] = (root * self._per_term(column)).T
        return means @ means.transpose(0, 2, 1)

    def _outer_means_at_one_point(self, columns: Columns, root: Floats) -> Floats:
        """The same, where what belongs to the columns that all models share is the same for all of them."""
        assert columns.x is not None
        order, k = self.cox.risk.order, columns.size - 1
        shared, own = (root * self._per_term(x[order]) for x in (columns.Z, columns.x))
        out = np.empty((own.shape[1], k + 1, k + 1))
        out[:, :k, :k] = shared.T @ shared
        out[:, :k, k] = out[:, k, :k] = own.T @ shared
        out[:, k, k] = (own * own).sum(axis=0)
        return out

    def extremes(self, step: Floats) -> tuple[Floats, Floats]:
        """z = u − ū of every row at risk at every term, ū the mean there; rows yet to enter only widen the range."""
        risk = self.cox.risk
        u = step[0][risk.order]
        mean = self._per_term(u) / self.denominator
        low, high = (-risk.largest(-u)[risk.term_group], risk.largest(u)[risk.term_group])
        return (low - mean).min(axis=0), (high - mean).max(axis=0)

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Martingale residuals, which have variance 1 without censoring."""
        return self.cox.event_weights[:, None] - self._expected(), None

    def separated(self) -> NDArray[np.bool_]:
        """Whoever dies has clearly the largest hazard of all at risk, tied deaths the same one: likelihoods tend to 1.

        Likelihoods that are monotone in part only are followed to their limit by the iterations themselves.
        """
        risk = self.cox.risk
        if risk.late or not self.columns.size:
            return np.zeros(self.eta.shape[1], dtype=bool)
        eta = self.eta[risk.order]
        dying = eta[risk.deaths]
        first = dying[0] >= eta[risk.first[0] : risk.strata[risk.stratum[0]].stop].max(axis=0)
        if not first.any():  # the first to die settles it for nearly every model
            return np.asarray(first)
        lowest = np.minimum.reduceat(dying, risk.group_starts, axis=0)
        alike = lowest == np.maximum.reduceat(dying, risk.group_starts, axis=0)
        ahead = lowest - risk.largest_surviving(eta) > _CLEAR * (1.0 + np.abs(lowest))
        return np.asarray((alike & ahead).all(axis=0))
