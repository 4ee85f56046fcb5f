"""One scan: given S, which candidates pass the criterion, and which is best?

The `Scanner` stands between the search, which knows nothing of models, and a family, which knows nothing of criteria.
It cuts candidates into blocks, spreads the blocks over threads, keeps an eye on the clock, and settles ties.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fbed.criteria import TIE, Evidence, Rule, exceeds, tied_with_best
from fbed.errors import InvalidInput
from fbed.families.base import CertifiedFit, Fit, Indices, Model
from fbed.tails import ChiSquare, Floats


class OutOfTime(Exception):  # no error: it never leaves the search
    """The time limit was reached."""


@dataclass(frozen=True)
class Finding:
    """What is known about one variable in one scan."""

    variable: int
    statistic: float
    df: float
    log_p: float
    score: float  # the statistic less its critical value

    @property
    def p_value(self) -> float:
        """Naive p-value; 0 when it underflows, the logarithm does not."""
        return float(np.exp(self.log_p))


@dataclass(frozen=True)
class Scan:
    """Answer to one scan. `chosen` is the variable to add or remove, None when the criterion allows none.

    `lower` and `upper` enclose the statistic of each candidate; they are equal where it was computed exactly.
    """

    candidates: Indices
    passes: NDArray[np.bool_]
    chosen: Finding | None
    runners_up: tuple[Finding, ...]
    lower: Floats
    upper: Floats
    df: Floats


Part = TypeVar("Part")

_BLOCKS_A_CHECK = 64  # blocks between two looks at the clock
_RUNNERS_UP = 5  # near ties kept of each scan, for people who ask what else could have been chosen


class Scanner:
    """Asks a model about candidates under a rule."""

    def __init__(
        self,
        model: Model,
        rule: Rule,
        n_forced: int,
        n_jobs: int | None = None,
        deadline: float | None = None,
    ) -> None:
        self.model = model
        self.rule = rule
        self.n_forced = n_forced
        self.n_threads = thread_count(n_jobs)
        self.deadline = deadline
        self._last: tuple[tuple[int, ...], Fit] | None = None

    def saturated(self, selected: Sequence[int]) -> bool:
        """Whether S explains the outcome completely."""
        return self._fit(selected).saturated

    def forward(self, selected: Sequence[int], candidates: Indices) -> Scan:
        """Who passes, and whose addition is best?"""
        self.check_time()
        fit = self._fit(selected)
        k = len(selected) - self.n_forced
        if isinstance(fit, CertifiedFit):
            return self._certified_forward(fit, candidates, k)
        evidence = self._gather(fit.gains, candidates)
        passes = self.rule.passes(evidence, k)
        merit = np.where(passes, self.rule.merit(evidence, k), -np.inf)
        order = _ranked(merit, evidence.statistic, candidates) if passes.any() else []
        return self._answer(candidates, evidence, passes, order, passes, k)

    def backward(self, selected: Sequence[int], variables: Indices) -> Scan:
        """Who would be kept, and whose removal costs least? `chosen` is None when every variable is kept."""
        self.check_time()
        fit = self._fit(selected)
        k = len(selected) - self.n_forced - 1
        evidence, upper = self._losses(fit, variables, k)
        keeps = self.rule.passes(evidence, k, staying=True)
        order = _ranked(-self.rule.merit(evidence, k), evidence.statistic, variables)
        return replace(self._answer(variables, evidence, keeps, order, ~keeps, k, staying=True), upper=upper)

    def _losses(self, fit: Fit, variables: Indices, k: int) -> tuple[Evidence, Floats]:
        """Evidence against removing each variable: exact for those that could be worst, else lower bounds."""
        if not isinstance(fit, CertifiedFit):
            evidence = self._gather(fit.losses, variables)
            return evidence, evidence.statistic
        bounds = fit.loss_bounds(variables)
        lower, upper, df, reference = bounds.lower.copy(), bounds.upper.copy(), bounds.df, bounds.reference

        def evidence_at(statistic: Floats) -> Evidence:
            return Evidence(statistic, df, reference.log_sf(statistic, df), reference)

        while True:
            low, high = (self.rule.merit(evidence_at(ends), k) for ends in (lower, np.minimum(upper, 1e300)))
            contenders = np.flatnonzero((low <= high.min() + TIE * max(1.0, abs(high.min()))) & (lower < upper))
            if len(contenders) == 0:
                return evidence_at(lower), upper
            i = int(contenders[np.argmin(low[contenders])])
            lower[i] = upper[i] = fit.resolve_loss(int(variables[i]))
            self.check_time()

    def _certified_forward(self, fit: CertifiedFit, candidates: Indices, k: int) -> Scan:
        """Intervals for everybody, then a contest among those who pass."""
        fit.prepare()

        def critical(df: Floats) -> Floats:
            return self.rule.critical(df, k, fit.reference)

        parts = self._mapped(lambda block: fit.gain_bounds(block, critical), candidates)
        lower, upper, df = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("lower", "upper", "df")
        )
        passes = exceeds(lower, critical(df))
        order = self._contest(fit, candidates, lower, upper, df, np.flatnonzero(passes), k)
        evidence = Evidence(lower, df, fit.reference.log_sf(lower, df), fit.reference)
        scan = self._answer(candidates, evidence, passes, order, passes, k)
        return replace(scan, upper=upper)

    def _contest(
        self, fit: CertifiedFit, candidates: Indices, lower: Floats, upper: Floats, df: Floats, rows: Indices, k: int
    ) -> list[int]:
        """Winner and runners-up of those who pass; narrows the intervals of contenders in place."""
        if len(rows) == 0:
            return []
        race = bool((df[rows] == df[rows[0]]).all())

        def value(statistic: Floats) -> Floats:
            """What is ranked: the statistic itself while all have the same df, since merit rises with it."""
            if race:
                return statistic[rows]
            log_p = fit.reference.log_sf(statistic[rows], df[rows])
            return self.rule.merit(Evidence(statistic[rows], df[rows], log_p, fit.reference), k)

        low, high = value(lower), value(upper)
        contenders = rows[high >= low.max() - TIE * max(1.0, abs(low.max()))]
        contenders = contenders[np.argsort(-lower[contenders], kind="stable")]
        lower[contenders], upper[contenders] = fit.contest(
            candidates[contenders], lower[contenders], upper[contenders], race
        )
        winner, *_ = _ranked(value(lower), lower[rows], candidates[rows])
        others = [int(i) for i in np.argsort(-value(upper), kind="stable")[: _RUNNERS_UP + 1] if i != winner]
        return [int(rows[i]) for i in (winner, *others[:_RUNNERS_UP])]

    def check_time(self) -> None:
        """Raise when the time limit has passed."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime

    def _fit(self, selected: Sequence[int]) -> Fit:
        key = tuple(selected)
        if self._last is None or self._last[0] != key:
            self._last = (key, self.model.fit(selected))
        return self._last[1]

    def _gather(self, evaluate: Callable[[Indices], Evidence], variables: Indices) -> Evidence:
        parts = self._mapped(evaluate, variables)
        return Evidence(
            np.concatenate([part.statistic for part in parts]),
            np.concatenate([part.df for part in parts]),
            np.concatenate([part.log_p for part in parts]),
            parts[0].reference,
        )

    def _mapped(self, evaluate: Callable[[Indices], Part], variables: Indices) -> list[Part]:
        """Answers for all variables, block by block; the threads see whole blocks, so they change no answer."""
        size = max(1, min(_BLOCKS_A_CHECK * self.model.block_size, -(-len(variables) // self.n_threads)))
        blocks = [variables[i : i + size] for i in range(0, len(variables), size)]
        return list(self._evaluated(evaluate, blocks))

    def _evaluated(self, evaluate: Callable[[Indices], Part], blocks: list[Indices]) -> Iterator[Part]:
        if self.n_threads == 1 or len(blocks) == 1:
            for block in blocks:
                self.check_time()
                yield evaluate(block)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            try:
                for part in pool.map(evaluate, blocks):
                    self.check_time()
                    yield part
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _answer(
        self,
        candidates: Indices,
        evidence: Evidence,
        passes: NDArray[np.bool_],
        order: Sequence[int],
        allowed: NDArray[np.bool_],
        k: int,
        staying: bool = False,
    ) -> Scan:
        reference = evidence.reference or ChiSquare()

        def finding(i: int) -> Finding:
            statistic, df, log_p = (float(v[i]) for v in (evidence.statistic, evidence.df, evidence.log_p))
            critical = self.rule.critical(evidence.df[[i]], k, reference, staying)
            return Finding(int(candidates[i]), statistic, df, log_p, statistic - float(critical[0]))

        chosen = finding(order[0]) if len(order) and allowed[order[0]] else None
        others = order[1:] if chosen else order
        return Scan(
            candidates,
            passes,
            chosen,
            tuple(finding(i) for i in others),
            evidence.statistic,
            evidence.statistic,
            evidence.df,
        )


def _ranked(merit: Floats, statistic: Floats, candidates: Indices) -> list[int]:
    """Positions of the best few: first the winner (of those tied, the lowest index), then by merit."""
    tied = np.flatnonzero(tied_with_best(merit, statistic))
    winner = int(tied[np.argmin(candidates[tied])])
    few = min(_RUNNERS_UP + 1, len(merit))
    top = np.argpartition(-merit, few - 1)[:few]
    rest = [int(i) for i in top[np.argsort(-merit[top], kind="stable")] if i != winner and merit[i] > -np.inf]
    return [winner, *rest[:_RUNNERS_UP]]


def thread_count(n_jobs: int | None) -> int:
    """Threads for n_jobs, by joblib's convention: None is 1, −1 all processors, −2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InvalidInput(f"n_jobs must be None, a positive number of threads, or −1 for all, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))
