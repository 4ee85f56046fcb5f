"""One scan: given S, which candidates pass the criterion, and which is best?

The `Scanner` stands between the search, which knows nothing of models, and a family, which knows nothing of criteria.
It cuts candidates into blocks, spreads the blocks over threads, looks at the clock, and settles ties. A family
that computes every statistic is answered here; one that encloses them in intervals, in `decide_by_bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.models.base import Fit, Indices, Model, is_certified
from fbed.rules.criteria import TIE, Evidence, Rule, tied_with_best
from fbed.rules.criteria import ranking as ranking_of
from fbed.rules.p_values import ChiSquare, Floats, Reference
from fbed.search.decide_by_bounds import FAVOURITES, Intervals, best_by_intervals, worst_by_intervals
from fbed.search.memo import Known, Memo
from fbed.threads import spread


@dataclass(frozen=True)
class Finding:
    """What is known about one variable in one scan; its statistic lies between `statistic` and `upper`."""

    variable: int
    statistic: float
    df: float
    log_p: float
    score: float  # the statistic less its critical value
    upper: float

    @property
    def p_value(self) -> float:
        """Naive p-value; 0 when it underflows, the logarithm does not."""
        return float(np.exp(self.log_p))


@dataclass(frozen=True)
class Scan:
    """Answer to one scan. `chosen` is the variable to add or remove, None when the criterion allows none.

    `lower` and `upper` enclose the statistic of each candidate; they are equal where it was computed exactly.
    `critical` tells what a candidate of so many df had to exceed, and `reference` what a statistic means; a family
    that has p-values only leaves both out and gives `log_p` of each candidate.
    """

    candidates: Indices
    passes: NDArray[np.bool_]
    chosen: Finding | None
    runners_up: tuple[Finding, ...]
    lower: Floats
    upper: Floats
    df: Floats
    critical: Callable[[Floats], Floats] | None = None
    reference: Reference | None = None
    log_p: Floats | None = None

    @cached_property
    def dropped(self) -> Indices:
        """Those that do not pass."""
        return self.candidates[~self.passes]

    @cached_property
    def remaining(self) -> Indices:
        """Those that pass, but for the chosen one; searches that share a scan share them as well."""
        chosen = -1 if self.chosen is None else self.chosen.variable
        return self.candidates[self.passes & (self.candidates != chosen)]

    @cached_property
    def alike(self) -> bool:
        """Whether all candidates that could be tested have the same df."""
        return _alike(self.df)

    @cached_property
    def largest_df(self) -> float:
        """Of any candidate."""
        return float(self.df.max())


Part = TypeVar("Part")

_BLOCKS_A_CHECK = 64  # blocks between two looks at the clock
_PARTS = 16  # of a scan, where it has that many blocks: enough for the threads of most machines
_CLEAR = 1e-6  # of what is asked at most, by which a statistic must exceed what is asked of it to be sure of that
_STEEP = (
    0.01  # merit beside a statistic from which on it rises with the statistic by far more than what counts as a tie
)
_RUNNERS_UP = 5  # near ties kept of each scan, for people who ask what else could have been chosen


class Scanner:
    """Asks a model about candidates under a rule.

    Where only decisions matter and nobody looks at statistics (`decides_only`), p-values are not computed (NaN), and
    the statistic of a clear winner stays an interval.
    """

    def __init__(
        self,
        model: Model,
        rule: Rule,
        n_forced: int,
        n_threads: int = 1,
        memo: Memo | None = None,
        decides_only: bool = False,
    ) -> None:
        self.model = model
        self.rule = rule
        self.n_forced = n_forced
        self.n_threads = n_threads
        self.memo = memo
        self.decides_only = decides_only
        self._last: tuple[tuple[int, ...], Fit] | None = None
        self._last_gain: tuple[tuple[int, ...], Scan] | None = None
        self._last_loss: tuple[frozenset[int], Scan] | None = None

    @property
    def latest(self) -> Fit | None:
        """The fit that was asked for last, near which the next one is."""
        return None if self._last is None else self._last[1]

    def saturated(self, selected: Sequence[int]) -> bool:
        """Whether S explains the outcome completely."""
        return self._fit(selected).saturated

    def forward(self, selected: Sequence[int], candidates: Indices, everybody: bool = True) -> Scan:
        """Who passes, and whose addition is best? Where only the best matters, everybody else counts as passing."""
        check_time()
        k = len(selected) - self.n_forced
        shared = self.memo if self.decides_only and not everybody else None
        known_best = None if shared is None else self._shared_best(shared, selected, candidates, k)
        if known_best is not None:
            self._last_gain = (tuple(selected), known_best)
            return known_best
        fit = self._fit(selected)
        if is_certified(fit):
            known = Intervals(fit, candidates, self.memo.gains(selected, candidates) if self.memo else None)
            few = 0 if self.decides_only else _RUNNERS_UP
            before = self._best_before(selected, candidates) if fit.looks_are_dear and not everybody else None
            order = best_by_intervals(known, self.rule, k, self._mapped, few, everybody, not self.decides_only, before)
            passes = known.passes
        else:
            evidence = self._computed(
                fit.gains, candidates, self.memo.gains(selected, candidates) if self.memo else None
            )
            passes = self.rule.passes(evidence, k)
            order = self._ordered(evidence, passes, candidates, k) if passes.any() else []
            known = Intervals.exact(candidates, evidence)
        scan = self._answer(known, passes if everybody else np.ones(len(candidates), bool), order, bool(order), k)
        self._last_gain = (tuple(selected), scan)
        if shared is not None and self._passes_for_certain(scan, k):
            ranking = None if scan.alike else ranking_of(self.rule, k)
            shared.best.get((frozenset(selected), ranking), lambda: scan, 24 * len(candidates))
        return scan

    def _shared_best(self, shared: Memo, selected: Sequence[int], candidates: Indices, k: int) -> Scan | None:
        """A scan of another search that found the best of the same candidates, who is the best here as well.

        Where df are alike, he is best by every criterion; otherwise by those that rank candidates in the same order.
        """
        for ranking in (None, ranking_of(self.rule, k)):
            scan: Scan | None = shared.best.find((frozenset(selected), ranking))
            if scan is not None and _are_same(scan.candidates, candidates) and self._passes_for_certain(scan, k):
                return scan
        return None

    def _passes_for_certain(self, scan: Scan, k: int) -> bool:
        """Whether the best of a scan passes, and so does everybody who ties with him."""
        if scan.chosen is None or scan.reference is None:
            return False
        df = np.array([scan.chosen.df, scan.largest_df])
        own, largest = np.maximum(self.rule.critical(df, k, scan.reference), 0.0)
        return bool(scan.chosen.statistic > own + (2.0 * TIE * own if scan.alike else _CLEAR * largest))

    def _best_before(self, selected: Sequence[int], candidates: Indices) -> Indices | None:
        """Positions of candidates who were best in the scan that led to S, if it was asked and all had the same df."""
        before, scan = self._last_gain or ((), None)
        if scan is None or scan.chosen is None or tuple(selected) != (*before, scan.chosen.variable):
            return None
        if not scan.alike:
            return None
        return np.flatnonzero(np.isin(candidates, scan.candidates[_favourites(scan.lower, scan.upper)]))

    def _ordered(self, evidence: Evidence, passes: NDArray[np.bool_], candidates: Indices, k: int) -> list[int]:
        """Positions of the best few of those who pass; of the best alone, where nobody looks at the others."""
        rows = np.flatnonzero(passes)
        if self.decides_only and evidence.known_log_p is None:
            rows = rows[_may_be_best(evidence.statistic[rows], evidence.df[rows])]
        merit = np.full(len(candidates), -np.inf)
        merit[rows] = self._merit(evidence[rows], k)
        return _ranked(merit, evidence.statistic, candidates)

    def _merit(self, evidence: Evidence, k: int) -> Floats:
        """What those who pass are ranked by: the statistic where all have the same df, since merit rises with it."""
        race = evidence.known_log_p is None and len(evidence.df) > 0 and bool((evidence.df == evidence.df[0]).all())
        return evidence.statistic if race else self.rule.merit(evidence, k)

    def backward(self, selected: Sequence[int], variables: Indices) -> Scan:
        """Who would be kept, and whose removal costs least? `chosen` is None when every variable is kept."""
        check_time()
        fit = self._fit(selected)
        k = len(selected) - self.n_forced - 1
        if is_certified(fit):
            known = Intervals(fit, variables, self.memo.losses(selected) if self.memo else None)
            evidence = worst_by_intervals(known, self.rule, k, check_time, self._lost_before(selected, variables))
        else:
            evidence = self._computed(fit.losses, variables, self.memo.losses(selected) if self.memo else None)
            known = Intervals.exact(variables, evidence)
        keeps = self.rule.passes(evidence, k, staying=True)
        order = [] if self.decides_only and keeps.all() else self._worst(evidence, variables, k)
        scan = self._answer(known, keeps, order, bool(order) and not keeps[order[0]], k, staying=True)
        self._last_loss = (frozenset(selected), scan)
        return scan

    def _worst(self, evidence: Evidence, variables: Indices, k: int) -> list[int]:
        """Positions of the few whose removal costs least; of the first alone, where nobody looks at the others.

        For one df merit rises with the statistic, but next to 0 it rises so slowly that many may tie there.
        """
        if self.decides_only and evidence.known_log_p is None:
            few = np.flatnonzero(_may_be_best(-evidence.statistic, evidence.df, alike=False))
            merit, statistic = self.rule.merit(evidence[few], k), evidence.statistic[few]
            worst = float(merit.min())
            near = statistic[merit <= worst + _STEEP * abs(worst)]
            if worst > _STEEP * max(1.0, float(near.max())):
                return [int(few[i]) for i in _ranked(-merit, statistic, variables[few])[:1]]
        return _ranked(-self.rule.merit(evidence, k), evidence.statistic, variables)

    def _lost_before(self, selected: Sequence[int], variables: Indices) -> Floats:
        """What removing each variable costs at least, from the scan before, which led from S ∪ {r} to S.

        The model without r and x fits no better than the one without x, so that the cost of x cannot have fallen by
        more than r cost.
        """
        if not self.model.has_likelihood:
            return np.zeros(len(variables))
        before, scan = self._last_loss or (frozenset(), None)
        if scan is None or scan.chosen is None or before != {*selected, scan.chosen.variable}:
            return np.zeros(len(variables))
        cost = dict(zip(scan.candidates.tolist(), scan.lower.tolist(), strict=True))
        least = np.array([cost.get(variable, 0.0) for variable in variables.tolist()]) - scan.chosen.upper
        return np.maximum(least * (1.0 - 1e-9) - 1e-9, 0.0)

    def _fit(self, selected: Sequence[int]) -> Fit:
        key = tuple(selected)  # fits outlive the step: the search goes on to change its list
        if self._last is None or self._last[0] != key:
            make = partial(self.model.fit, near=self.latest)
            self._last = (key, self.memo.fit(key, make) if self.memo else make(key))
        return self._last[1]

    def _computed(self, evaluate: Callable[[Indices], Evidence], variables: Indices, memory: Known | None) -> Evidence:
        """Evidence of a family that computes its statistics, for variables whose evidence is not known yet."""
        if memory is None:
            return self._gather(evaluate, variables)
        unknown = memory.unknown(variables)
        if len(unknown):
            new = self._gather(evaluate, unknown)
            memory.remember(unknown, new.statistic, new.statistic, new.df, new.known_log_p)
            memory.reference = new.reference
        statistic, _, df, log_p = memory.recall(variables)
        return Evidence(statistic, df, None if np.isnan(log_p).any() else log_p, memory.reference)

    def _gather(self, evaluate: Callable[[Indices], Evidence], variables: Indices) -> Evidence:
        parts = self._mapped(evaluate, variables)
        return Evidence(
            np.concatenate([part.statistic for part in parts]),
            np.concatenate([part.df for part in parts]),
            None if parts[0].known_log_p is None else np.concatenate([part.log_p for part in parts]),
            parts[0].reference,
        )

    def _mapped(self, evaluate: Callable[[Indices], Part], variables: Indices) -> list[Part]:
        """Answers for all variables, part by part.

        How they are cut does not depend on the number of threads: a matrix product may round differently when it has
        other columns beside it.
        """
        own = self.model.block_size
        share = -(-len(variables) // (own * _PARTS))
        size = own * max(1, min(_BLOCKS_A_CHECK, share))
        blocks = [variables[i : i + size] for i in range(0, len(variables), size)]
        parts = []
        for part in spread(evaluate, blocks, self.n_threads):
            parts.append(part)
            check_time()
        return parts

    def _answer(
        self,
        known: Intervals,
        passes: NDArray[np.bool_],
        order: Sequence[int],
        allowed: bool,
        k: int,
        staying: bool = False,
    ) -> Scan:
        """`order` holds the positions of the best few; the first is chosen when that is allowed."""
        reference = known.reference

        def critical(df: Floats) -> Floats:
            return self.rule.critical(df, k, reference or ChiSquare(), staying)

        findings = _undescribed(known, order) if self.decides_only else _described(known, order, critical)
        chosen = findings[0] if allowed else None
        return Scan(
            known.candidates,
            passes,
            chosen,
            findings[1:] if chosen else findings,
            known.lower,
            known.upper,
            known.df,
            critical if reference else None,
            reference,
            known.exact_log_p if reference is None else None,
        )


def _described(known: Intervals, order: Sequence[int], critical: Callable[[Floats], Floats]) -> tuple[Finding, ...]:
    """All there is to tell about some candidates."""
    few = np.array(order, dtype=np.intp)
    statistic, df = known.lower[few], known.df[few]
    score = statistic - critical(df)
    columns = (known.candidates[few], statistic, df, known.log_p(few), score, known.upper[few])
    return tuple(Finding(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def _undescribed(known: Intervals, order: Sequence[int]) -> tuple[Finding, ...]:
    """The same where nobody looks at p-values and scores."""
    candidates, lower, df, upper = known.candidates, known.lower, known.df, known.upper
    return tuple(
        Finding(int(candidates[i]), float(lower[i]), float(df[i]), np.nan, np.nan, float(upper[i])) for i in order
    )


def _may_be_best(statistic: Floats, df: Floats, alike: bool = True) -> NDArray[np.bool_]:
    """The largest statistic of each df, and all that are near one of these: merit rises with the statistic.

    Where all df are `alike`, nobody needs to be left out: merit is the statistic then.
    """
    if alike and _alike(df):
        return np.ones(len(df), dtype=bool)
    largest = np.array([statistic[df == value].max() for value in np.unique(df)])
    near = _CLEAR * max(1.0, float(np.abs(largest).max()))
    return np.asarray((np.abs(statistic[:, None] - largest) <= near).any(axis=1))


def _are_same(some: Indices, others: Indices) -> bool:
    """Whether candidates are the same; those of searches that went the same way are one array."""
    return some is others or np.array_equal(some, others)


def _alike(df: Floats) -> bool:
    """Whether all that could be tested have the same df."""
    tested = df[df > 0]
    return not len(tested) or bool((tested == tested[0]).all())


def _favourites(lower: Floats, upper: Floats) -> Indices:
    """Positions of the largest lower bounds, of those above 0 if there are any; among equals by the upper ones."""
    some, few = np.flatnonzero(lower > 0), FAVOURITES + 1
    if len(some) == 0:
        return np.lexsort((-upper, -lower))[:few]
    if len(some) > few:  # to sort all of them takes longer
        some = some[lower[some] >= np.partition(lower[some], -few)[-few]]
    return some[np.lexsort((-upper[some], -lower[some]))[:few]]


def _ranked(merit: Floats, statistic: Floats, candidates: Indices) -> list[int]:
    """Positions of the best few: first the winner (of those tied, the lowest index), then by merit."""
    tied = np.flatnonzero(tied_with_best(merit, statistic))
    winner = int(tied[np.argmin(candidates[tied])])
    few = min(_RUNNERS_UP + 1, len(merit))
    top = np.argpartition(-merit, few - 1)[:few]
    rest = [int(i) for i in top[np.argsort(-merit[top], kind="stable")] if i != winner and merit[i] > -np.inf]
    return [winner, *rest[:_RUNNERS_UP]]
