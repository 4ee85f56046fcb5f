"""Proportional hazards: the partial likelihood with Efron's ties, strata and left truncation.

    ℓ = Σ_events a·η − Σ_e c_e log(R_e − f_e·D_e),   R = Σ a·exp(η) over the rows at risk, D over the tied deaths

A tied set of d deaths has the terms f = 0, 1/d, …, (d − 1)/d with c = 1. Weights are frequencies, so d is the sum of
their weights (a last term with c < 1 makes up for a d that is not whole), and weight 2 is the row twice, ties included.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fbed.families.death_order import death_order
from fbed.families.likelihood import Regression, RegressionFit
from fbed.families.newton import Columns
from fbed.families.recession import Constraints
from fbed.tails import Floats

_LOWEST = -700.0  # predictors this far below the largest have hazard 0 in float64


class RiskSets:
    """Which rows are compared at every time of an event; the rows are sorted by stratum and time.

    Attributes
    ----------
    order : rows in sorted order; everything below counts positions in it.
    strata : slices of the sorted rows.
    deaths : positions of the events, and `group` of each: the tied set, numbered by stratum and time.
    first : first position at risk of each tied set: all from there to the end of the stratum are.
    term_group, fraction, multiplicity : tied set, f and c of every term.
    """

    def __init__(
        self,
        time: Floats,
        event: NDArray[np.bool_],
        weights: Floats,
        strata: NDArray[np.intp] | None,
        entry: Floats | None,
    ) -> None:
        stratum = np.zeros(len(time), dtype=np.intp) if strata is None else np.unique(strata, return_inverse=True)[1]
        self.order = np.lexsort((~event, time, stratum))  # deaths before those who are censored at the same time
        time, event, stratum = time[self.order], event[self.order], stratum[self.order]
        self.weights = weights[self.order]
        bounds = np.flatnonzero(np.diff(stratum)) + 1
        self.strata = [slice(a, b) for a, b in zip([0, *bounds], [*bounds, len(time)], strict=True)]
        self.deaths = np.flatnonzero(event)
        changes = (np.diff(time[self.deaths]) != 0) | (np.diff(stratum[self.deaths]) != 0)
        self.group = np.concatenate([[0], np.cumsum(changes)]).astype(np.intp)
        self.group_starts = np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.intp)
        self.time, self.stratum = time[self.deaths][self.group_starts], stratum[self.deaths][self.group_starts]
        self.first = _positions(time, stratum, self.time, self.stratum, "left")
        self.last_group = _positions(self.time, self.stratum, time, stratum, "right")  # groups up to each row's time
        self._terms()
        self.entry_order: NDArray[np.intp] | None = None
        if entry is not None:
            self._truncate(entry[self.order], stratum)

    def _terms(self) -> None:
        """Efron's terms of every tied set."""
        d = np.add.reduceat(self.weights[self.deaths], self.group_starts)
        n_terms = np.ceil(d - 1e-9).astype(np.intp)
        self.term_group = np.repeat(np.arange(len(d)), n_terms)
        position = np.arange(n_terms.sum()) - np.repeat(np.cumsum(n_terms) - n_terms, n_terms)
        self.fraction = position / d[self.term_group]
        self.multiplicity = np.minimum(d[self.term_group] - position, 1.0)
        self.term_starts = np.cumsum(n_terms) - n_terms
        self.tied = bool((self.fraction > 0).any())
        self.n_events = float(d.sum())
        self.saturated = -float(self.multiplicity @ np.log(d[self.term_group] - position))

    def _truncate(self, entry: Floats, stratum: NDArray[np.intp]) -> None:
        """Rows that enter at or after a time are not at risk at it."""
        self.entry_order = np.lexsort((entry, stratum))
        sorted_entry = entry[self.entry_order]
        self.first_entering = _positions(sorted_entry, stratum, self.time, self.stratum, "left")
        self.groups_before = _positions(self.time, self.stratum, entry, stratum, "right")

    def at_risk(self, values: Floats) -> Floats:
        """Sum over the rows at risk at every tied set, of values in sorted order."""
        total = self._tails(values)[self.first]
        if self.entry_order is None:
            return total
        entering = np.concatenate([self._tails(values[self.entry_order]), np.zeros_like(values[:1])])
        ends = np.array([part.stop for part in self.strata])[self.stratum]
        later = np.where((self.first_entering < ends)[:, None], entering[self.first_entering], 0.0)
        return total - later

    def _tails(self, values: Floats) -> Floats:
        """Sums from every row to the end of its stratum: adding up from the end loses no small risk set."""
        out = np.empty_like(values)
        for part in self.strata:
            np.cumsum(values[part][::-1], axis=0, out=out[part][::-1])
        return out

    def largest(self, values: Floats) -> Floats:
        """Largest value of the rows from the first at risk at every tied set to the end of the stratum."""
        out = np.empty_like(values)
        for part in self.strata:
            np.maximum.accumulate(values[part][::-1], axis=0, out=out[part][::-1])
        return out[self.first]

    def largest_surviving(self, values: Floats) -> Floats:
        """Largest value of the rows that are at risk at every tied set and do not die there; −inf for none."""
        out = np.full((len(values) + 1, values.shape[1]), -np.inf)
        for part in self.strata:
            out[part] = np.maximum.accumulate(values[part][::-1], axis=0)[::-1]
        last = np.append(self.group_starts[1:], len(self.deaths)) - 1
        after = self.deaths[last] + 1
        ends = np.array([part.stop for part in self.strata])[self.stratum]
        return np.where((after < ends)[:, None], out[after], -np.inf)

    def dying(self, values: Floats) -> Floats:
        """Sum over the deaths of every tied set."""
        return np.add.reduceat(values[self.deaths], self.group_starts, axis=0)

    def hazard(self, per_group: Floats) -> Floats:
        """Sum over the tied sets at which every row is at risk."""
        running = np.concatenate([np.zeros_like(per_group[:1]), np.cumsum(per_group, axis=0)])
        starts = np.searchsorted(self.stratum, np.arange(len(self.strata)))[self._stratum_of_rows()]
        before = starts if self.entry_order is None else np.maximum(self.groups_before, starts)
        return running[self.last_group] - running[np.minimum(before, self.last_group)]

    def _stratum_of_rows(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(len(self.strata)), [part.stop - part.start for part in self.strata])


def _positions(
    sorted_values: Floats,
    sorted_stratum: NDArray[np.intp],
    values: Floats,
    stratum: NDArray[np.intp],
    side: Literal["left", "right"],
) -> NDArray[np.intp]:
    """`searchsorted` among the values of the same stratum."""
    ranks = np.unique(np.concatenate([sorted_values, values]), return_inverse=True)[1].ravel()
    base = len(ranks) + 1
    known = sorted_stratum * base + ranks[: len(sorted_values)]
    return np.searchsorted(known, stratum * base + ranks[len(sorted_values) :], side=side).astype(np.intp)


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

    def at(self, columns: Columns, parameters: Floats) -> CoxPoint:
        """Evaluate many models."""
        return CoxPoint(self, columns, parameters)

    def constraints(self, fit: RegressionFit) -> Constraints:
        """Whoever dies must not fall behind anybody at risk."""
        dying, other = death_order(*self._observed)
        eta = fit.predictors()[:, 0]
        return Constraints(fit.Z[dying] - fit.Z[other], eta[dying] - eta[other])


class CoxPoint:
    """Deviance from the largest partial likelihood that any hazards could reach, and derivatives."""

    def __init__(self, cox: Cox, columns: Columns, parameters: Floats) -> None:
        self.cox, self.columns, risk = cox, columns, cox.risk
        self.eta = columns.predict(parameters)
        eta = np.maximum(self.eta - self.eta.max(axis=0), _LOWEST)
        self.hazard = risk.weights[:, None] * np.exp(eta[risk.order])  # sorted
        self.denominator = self._per_term(self.hazard)
        if risk.entry_order is not None:  # a difference of sums: rounding must not take it below the deaths' own
            floor = (1.0 - risk.fraction)[:, None] * risk.dying(self.hazard)[risk.term_group]
            self.denominator = np.maximum(self.denominator, floor)
        log_likelihood = cox.event_weights @ eta - risk.multiplicity @ np.log(self.denominator)
        self.value = np.maximum(2.0 * (risk.saturated - log_likelihood), 0.0)

    def _per_term(self, values: Floats) -> Floats:
        """R − f·D of every term, for sums of any values."""
        risk = self.cox.risk
        total = risk.at_risk(values)
        if not risk.tied:
            return total
        return total[risk.term_group] - risk.fraction[:, None] * risk.dying(values)[risk.term_group]

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """Σ x(event − w) and Σ w·xxᵀ − Σ_e c·x̄xᵀ̄, with w the expected number of events of every row."""
        risk, columns = self.cox.risk, columns or self.columns
        share = risk.multiplicity[:, None] / self.denominator
        expected = risk.hazard(np.add.reduceat(share, risk.term_starts, axis=0) if risk.tied else share)
        if risk.tied:
            own = np.add.reduceat(risk.fraction[:, None] * share, risk.term_starts, axis=0)
            expected[risk.deaths] -= own[risk.group]
        weight = np.empty_like(self.hazard)
        weight[risk.order] = self.hazard * expected
        gradient = columns.inner(self.cox.event_weights[:, None] - weight)
        return gradient, columns.gram(weight) - self._outer_means(columns, gradient.shape[1])

    def _outer_means(self, columns: Columns, n_models: int) -> Floats:
        """Σ_e c·x̄_e x̄_eᵀ over the terms, x̄ the mean of the columns over the rows at risk."""
        risk = self.cox.risk
        root = np.sqrt(risk.multiplicity)[:, None] / self.denominator
        sorted_columns = [column[risk.order][:, None] for column in columns.Z.T]
        if columns.x is not None:
            sorted_columns.append(columns.x[risk.order])
        means = np.empty((n_models, len(sorted_columns), len(root)))
        for j, column in enumerate(sorted_columns):
            means[:, j] = (root * self._per_term(self.hazard * column)).T
        return means @ means.transpose(0, 2, 1)

    def extremes(self, step: Floats) -> tuple[Floats, Floats]:
        """z = u − ū of every row at risk at every term, ū the mean there; rows yet to enter only widen the range."""
        risk = self.cox.risk
        u = step[0][risk.order]
        mean = self._per_term(self.hazard * u) / self.denominator
        low, high = (-risk.largest(-u)[risk.term_group], risk.largest(u)[risk.term_group])
        return (low - mean).min(axis=0), (high - mean).max(axis=0)

    def separated(self) -> NDArray[np.bool_]:
        """Whoever dies has the largest hazard of all at risk, tied deaths the same one: the likelihood tends to 1.

        Likelihoods that are monotone in part only are followed to their limit by the iterations themselves.
        """
        risk = self.cox.risk
        if risk.entry_order is not None or not self.columns.size:
            return np.zeros(self.eta.shape[1], dtype=bool)
        eta = self.eta[risk.order]
        dying = eta[risk.deaths]
        first = dying[0] >= eta[risk.first[0] : risk.strata[risk.stratum[0]].stop].max(axis=0)
        if not first.any():  # the first to die settles it for nearly every model
            return np.asarray(first)
        lowest = np.minimum.reduceat(dying, risk.group_starts, axis=0)
        alike = lowest == np.maximum.reduceat(dying, risk.group_starts, axis=0)
        return np.asarray((alike & (lowest > risk.largest_surviving(eta))).all(axis=0))
