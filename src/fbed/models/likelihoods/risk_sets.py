"""Which rows are compared at every time of an event, and Efron's terms for deaths at the same time.

A tied set of deaths with d = Σ weights has the terms R − f·D, f = 0, 1/d, …, (d − 1)/d, R the sum over the rows at risk
and D over those who die; computed as S + (1 − f)D, S the sum over the survivors, so that nothing cancels. Where d is
large, few terms with multiplicities stand for them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fbed.models.likelihoods import few_terms
from fbed.models.likelihoods.time_at_risk import Spells
from fbed.rules.p_values import Floats

_NEARLY_WHOLE = 1e-12  # a sum of weights this close above a whole number is that number


class RiskSets:
    """The rows are sorted by stratum and time.

    Attributes
    ----------
    order : rows in sorted order; everything below counts positions in it.
    strata : slices of the sorted rows.
    deaths : positions of the events, and `group` of each: the tied set, numbered by stratum and time.
    first : first position at risk of each tied set: all from there to the end of the stratum are, unless they enter
        later.
    term_group, left, multiplicity : tied set, 1 − f and multiplicity c of every term.
    late : whether rows enter at different times.
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
        self._terms()
        self._spells(time, event, stratum, None if entry is None else entry[self.order])

    def _terms(self) -> None:
        """Efron's terms of every tied set; m = d, d − 1, … of them are 1 − f = m/d, and what is left at the end."""
        d = np.add.reduceat(self.weights[self.deaths], self.group_starts)
        whole = np.maximum(np.ceil(d * (1.0 - _NEARLY_WHOLE)), 1.0)
        counts, which = np.unique(whole, return_inverse=True)  # most sets are of few sizes
        rules = [few_terms.of_run(int(count)) for count in counts]
        lengths = np.array([len(nodes) for nodes, _ in rules])
        sizes = lengths[which]
        self.term_starts = np.cumsum(sizes) - sizes
        self.term_group = np.repeat(np.arange(len(d)), sizes)
        ahead = (np.cumsum(lengths) - lengths)[which] - self.term_starts  # of each set's terms, its rule's
        place = np.arange(len(self.term_group)) + ahead[self.term_group]
        last = np.clip(d - (whole - 1.0), 0.0, 1.0)  # a d that is not whole ends with a part of a death
        m = np.concatenate([nodes for nodes, _ in rules])[place] + last[self.term_group]
        self.multiplicity = np.concatenate([multiplicity for _, multiplicity in rules])[place]
        self.multiplicity[self.term_starts] = last
        self.left = m / d[self.term_group]
        self.tied = bool((sizes > 1).any())
        self.n_events = float(d.sum())
        self.saturated = -float(self.multiplicity @ np.log(m))

    def _spells(self, time: Floats, event: NDArray[np.bool_], stratum: NDArray[np.intp], entry: Floats | None) -> None:
        """At which tied sets every row is at risk without dying there; who enters at a time is not at risk at it."""
        starts = np.searchsorted(self.stratum, stratum)  # the first tied set of every row's stratum
        self.survived = _positions(self.time, self.stratum, time, stratum, "right") - event  # tied sets up to a row's
        self.outlives = self.survived > starts
        last = np.append(self.group_starts[1:], len(self.deaths)) - 1
        self.after = self.deaths[last] + 1  # first position that outlives each tied set
        self.has_survivors = self.after < np.array([part.stop for part in self.strata])[self.stratum]
        self.after[~self.has_survivors] = 0
        self.late = entry is not None
        if entry is not None:
            begin = _positions(self.time, self.stratum, entry, stratum, "right")
            self.spells = Spells(begin, self.survived, len(self.time))

    def per_term(self, values: Floats) -> Floats:
        """S + (1 − f)D of every term, for values in sorted order."""
        if not (self.tied or self.late):
            return self._tails(values)[self.first]
        survivors, dying = self._surviving(values), self.dying(values)
        if not self.tied:
            return survivors + dying
        return survivors[self.term_group] + self.left[:, None] * dying[self.term_group]

    def _surviving(self, values: Floats) -> Floats:
        """Sum over the rows that are at risk at every tied set and do not die there."""
        if self.late:
            return self.spells.at_moments(values)
        return np.where(self.has_survivors[:, None], self._tails(values)[self.after], 0.0)

    def _tails(self, values: Floats, ufunc: np.ufunc = np.add) -> Floats:
        """Sums from every row to the end of its stratum: adding up from the end loses no small risk set."""
        out = np.empty_like(values)
        for part in self.strata:
            ufunc.accumulate(values[part][::-1], axis=0, out=out[part][::-1])
        return out

    def largest(self, values: Floats) -> Floats:
        """Largest value of the rows at risk at every tied set; of those yet to enter, too."""
        return self._tails(values, np.maximum)[self.first]

    def largest_at_risk(self, values: Floats) -> Floats:
        """Largest value of the rows at risk at every tied set."""
        if not self.late:
            return self.largest(values)
        dying = np.maximum.reduceat(values[self.deaths], self.group_starts, axis=0)
        return np.maximum(dying, self.spells.at_moments(values, np.maximum, -np.inf))

    def largest_surviving(self, values: Floats) -> Floats:
        """Largest value of the rows that are at risk at every tied set and do not die there; −inf for none."""
        return np.where(self.has_survivors[:, None], self._tails(values, np.maximum)[self.after], -np.inf)

    def dying(self, values: Floats) -> Floats:
        """Sum over the deaths of every tied set."""
        return np.add.reduceat(values[self.deaths], self.group_starts, axis=0)

    def expected(self, shares: Floats) -> Floats:
        """Sum over the terms for which every row is at risk; over part of its own tied set for a row that dies."""
        per_group, own = shares, shares
        if self.tied:
            per_group = np.add.reduceat(shares, self.term_starts, axis=0)
            own = np.add.reduceat(self.left[:, None] * shares, self.term_starts, axis=0)
        out = self.spells.of_rows(per_group) if self.late else self._heads(per_group)
        out[self.deaths] += own[self.group]
        return out

    def _heads(self, per_group: Floats) -> Floats:
        """Sum over the tied sets of its stratum that every row outlives."""
        running = np.empty_like(per_group)
        bounds = [0, *(np.flatnonzero(np.diff(self.stratum)) + 1), len(self.stratum)]
        for a, b in pairwise(bounds):
            np.cumsum(per_group[a:b], axis=0, out=running[a:b])
        return np.where(self.outlives[:, None], running[self.survived - 1], 0.0)


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
