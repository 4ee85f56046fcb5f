"""Decisions from intervals: who passes, who is best and who is worst, when statistics are enclosed but not computed.

Intervals are narrowed only as far as a decision needs: away from the critical value for everybody, to a number for
contenders only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fbed.models.base import Bounds, CertifiedFit, Indices, lost_at_least
from fbed.rules.criteria import TIE, Evidence, Rule, exceeds, tied_with_best
from fbed.rules.p_values import Floats, Reference
from fbed.search.memo import Known

_CLEARLY_MORE = 1e-6  # beyond what counts as a tie, whatever the criterion
FAVOURITES = 10  # candidates who seem to be best, of whom the best is found first

Mapped = Callable[[Callable[[Indices], Bounds], Indices], list[Bounds]]


class Intervals:
    """What one scan knows about its candidates."""

    def __init__(self, fit: CertifiedFit, candidates: Indices, memory: Known | None = None) -> None:
        self.fit = fit
        self.candidates = candidates
        self.memory = memory
        self.reference: Reference | None = fit.reference
        self.lower, self.upper, self.df = _nothing(len(candidates)) if memory is None else memory.recall(candidates)[:3]
        self.passes: NDArray[np.bool_] = np.zeros(len(candidates), dtype=bool)
        self.exact_log_p: Floats | None = None

    @classmethod
    def exact(cls, candidates: Indices, evidence: Evidence) -> Intervals:
        """Intervals that are points, for a family that computes its statistics."""
        out = cls.__new__(cls)
        out.candidates, out.reference, out.exact_log_p = candidates, evidence.reference, evidence.known_log_p
        out.lower = out.upper = evidence.statistic
        out.df = evidence.df
        return out

    def log_p(self, rows: Indices) -> Floats:
        """Log p-values of some candidates, from the lower ends of their intervals."""
        if self.exact_log_p is not None:
            return self.exact_log_p[rows]
        assert self.reference is not None
        return self.reference.log_sf(self.lower[rows], self.df[rows])

    def put(self, rows: Indices | slice, lower: Floats, upper: Floats, df: Floats | None = None) -> None:
        """Keep narrower intervals for some candidates, here and for other searches that come to the same set."""
        self.lower[rows], self.upper[rows] = lower, upper
        if df is not None:
            self.df[rows] = df
        self.keep(rows)

    def keep(self, rows: Indices | slice) -> None:
        """Tell other searches what is known of some candidates."""
        if self.memory is not None:
            self.memory.remember(self.candidates[rows], self.lower[rows], self.upper[rows], self.df[rows])

    def evidence(self, statistic: Floats, rows: Indices) -> Evidence:
        """Evidence as it would be if some candidates had these statistics."""
        df, reference = self.df[rows], self.fit.reference
        return Evidence(statistic, df, None, reference)


def _nothing(count: int) -> tuple[Floats, Floats, Floats]:
    return np.zeros(count), np.full(count, np.inf), np.full(count, np.nan)


def best_by_intervals(
    known: Intervals,
    rule: Rule,
    k: int,
    mapped: Mapped,
    n_runners_up: int,
    everybody: bool = True,
    exact: bool = True,
    favourites: Indices | None = None,
) -> list[int]:
    """Positions of the winner and the runners-up among those who pass; sets `known.passes`.

    When not everybody has to be told whether he passes, those who are certain to lose may be left out; and when nobody
    looks at the winner's statistic, it stays an interval. `favourites` are positions of who may be best, as far as is
    known from elsewhere; without them everybody is looked at first.
    """
    fit = known.fit

    def critical(df: Floats) -> Floats:
        return rule.critical(df, k, fit.reference)

    raised = not everybody and fit.bounds_are_cheap
    _settle(known, _raised(known, critical, mapped, favourites) if raised else critical, mapped)
    known.passes = exceeds(known.lower, critical(known.df))
    rows = np.flatnonzero(known.passes)
    if len(rows) == 0:
        return []
    df = known.df[rows]
    race = bool((df == df[0]).all())

    def value(statistic: Floats) -> Floats:
        """What is ranked: the statistic itself while all have the same df, since merit rises with it."""
        return statistic if race else rule.merit(known.evidence(statistic, rows), k)

    lower, upper = known.lower[rows], known.upper[rows]
    if exact or int((value(upper) >= _near(float(value(lower).max()))).sum()) > 1:
        (_race if race else _contest)(known, rows, lower, upper, value)
        known.put(rows, lower, upper)
    tied = np.flatnonzero(tied_with_best(value(lower), lower) if not race else lower >= _near(float(lower.max())))
    winner = int(tied[np.argmin(known.candidates[rows[tied]])])
    if n_runners_up == 0:
        return [int(rows[winner])]
    others = np.argsort(-value(upper), kind="stable")[: n_runners_up + 1].tolist()
    return [int(rows[i]) for i in (winner, *(i for i in others if i != winner))][: n_runners_up + 1]


Value = Callable[[Floats], Floats]


def _race(known: Intervals, rows: Indices, lower: Floats, upper: Floats, value: Value) -> None:
    """Narrow the intervals of those who may be best, all of the same df."""
    contenders = np.flatnonzero(value(upper) >= _near(float(value(lower).max())))
    contenders = contenders[np.argsort(-lower[contenders], kind="stable")]
    found = known.fit.contest(known.candidates[rows[contenders]], lower[contenders], upper[contenders], True)
    lower[contenders], upper[contenders] = found


def _contest(known: Intervals, rows: Indices, lower: Floats, upper: Floats, value: Value) -> None:
    """The same for several df: those of each df among themselves, then whoever may still be better than the leader."""
    _race_by_df(known, rows, lower, upper, value)
    unseen = lower < upper
    while True:
        low, high = value(lower), value(upper)
        unknown = np.flatnonzero(unseen & (high >= _near(float(low.max()))))
        if len(unknown) == 0:
            return
        i = unknown[[int(np.argmax(low[unknown]))]]
        lower[i], upper[i] = known.fit.contest(known.candidates[rows[i]], lower[i], upper[i], False)
        unseen[i] = False


def _race_by_df(known: Intervals, rows: Indices, lower: Floats, upper: Floats, value: Value) -> None:
    """Narrow intervals until the best of each df is known, the most promising df first: who loses to somebody of the
    same df need not be known to the end. Where df differ, the larger statistic may be the lesser one.
    """
    df = known.df[rows]
    low = value(lower)
    kinds = np.unique(df)
    for kind in kinds[np.argsort([-low[df == kind].max() for kind in kinds], kind="stable")]:
        alike = np.flatnonzero((df == kind) & (value(upper) >= _near(float(value(lower).max()))))
        contenders = alike[upper[alike] >= _near(float(lower[alike].max(initial=0.0)))]
        if len(contenders) <= FAVOURITES or not (lower[contenders] < upper[contenders]).any():
            continue  # people look at the best few: their statistics are worth a fit
        contenders = contenders[np.argsort(-lower[contenders], kind="stable")]
        found = known.fit.contest(known.candidates[rows[contenders]], lower[contenders], upper[contenders], True)
        lower[contenders], upper[contenders] = found


def _near(best: float) -> float:
    """What ties with the best."""
    return best - TIE * max(1.0, abs(best))


def _raised(
    known: Intervals, critical: Callable[[Floats], Floats], mapped: Mapped, favourites: Indices | None
) -> Callable[[Floats], Floats]:
    """Critical values that leave out those who lose to a candidate who seems to be best; ties with it stay in."""
    leader = None if favourites is None else _leader(known, favourites)
    if leader is None:
        first = _seen_first(known, mapped) if favourites is None else favourites
        if len(first) == 0:
            return critical
        _look_closer(known, first, critical)  # which may find a column degenerate
        first = first[np.argsort(-known.lower[first], kind="stable")]
        known.put(first, *known.fit.contest(known.candidates[first], known.lower[first], known.upper[first], True))
        leader = first[int(np.argmax(known.lower[first]))]
    statistic = float(known.lower[leader])
    bar = statistic - 4.0 * TIE * max(1.0, statistic)
    return lambda df: np.maximum(critical(df), bar)


def _leader(known: Intervals, favourites: Indices) -> np.intp | None:
    """Who is known, from searches that came to the same set before, to be better than all favourites."""
    leader = np.argmax(known.lower)
    rivals = favourites[favourites != leader]
    alike = known.df[rivals] == known.df[leader]  # who is not known is not
    certain = len(favourites) > 0 and bool((alike & (known.upper[rivals] < known.lower[leader])).all())
    return leader if certain and known.lower[leader] > 0.0 else None


def _look_closer(known: Intervals, rows: Indices, critical: Callable[[Floats], Floats]) -> None:
    bounds = known.fit.gain_bounds(known.candidates[rows], critical)
    known.put(rows, bounds.lower, bounds.upper, bounds.df)


def _seen_first(known: Intervals, mapped: Mapped) -> Indices:
    """Who seems to be best at a first look; nobody where df differ: the largest statistic need not be best then."""
    _settle(known, lambda df: np.full(df.shape, np.inf), mapped)  # a look, no more
    alike = bool((known.df == known.df[0]).all())
    return np.argsort(-known.lower, kind="stable")[: FAVOURITES if alike else 0]


def _settle(known: Intervals, critical: Callable[[Floats], Floats], mapped: Mapped) -> None:
    """Move every interval clear of its critical value."""
    unknown = np.isnan(known.df)
    rows: Indices | slice = slice(None)
    if not unknown.all():
        bar = critical(np.where(unknown, 0.0, known.df))
        rows = np.flatnonzero(unknown | ((known.upper > bar) & ~exceeds(known.lower, bar)))
    candidates = known.candidates[rows]
    if len(candidates) == 0:
        return
    known.fit.prepare(len(candidates), float(critical(np.ones(1))[0]))
    parts = mapped(lambda block: known.fit.gain_bounds(block, critical), candidates)
    lower, upper, df = (_joined([getattr(part, name) for part in parts]) for name in ("lower", "upper", "df"))
    known.put(rows, lower, upper, df)


def _joined(parts: Sequence[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def worst_by_intervals(
    known: Intervals, rule: Rule, k: int, check_time: Callable[[], None], at_least: Floats
) -> Evidence:
    """Evidence against removing each variable: exact for those that could be worst, lower bounds for the others.

    When every variable is certain to stay, nobody needs to be known exactly. `at_least` are bounds from elsewhere.
    """
    everybody = np.arange(len(known.candidates), dtype=np.intp)
    if np.isnan(known.df).any():
        bounds = known.fit.loss_bounds(
            known.candidates, lambda df: rule.critical(df, k, known.fit.reference, staying=True)
        )
        lower = np.minimum(np.maximum(bounds.lower, at_least), bounds.upper)
        known.put(everybody, lower, bounds.upper, bounds.df)
    bar = rule.critical(known.df, k, known.fit.reference, staying=True)
    _look_together(known, bar)
    while (unsure := _next_unsure(known, bar)) is not None:
        _resolve_loss(known, *unsure)
        check_time()
    while not exceeds(known.lower, bar).all():
        low = rule.merit(known.evidence(known.lower, everybody), k)
        high = rule.merit(known.evidence(np.minimum(known.upper, 1e300), everybody), k)
        worst = float(high.min())
        contenders = np.flatnonzero((low <= worst + TIE * max(1.0, abs(worst))) & (known.lower < known.upper))
        if len(contenders) == 0:
            break
        _resolve_loss(known, int(contenders[np.argmin(low[contenders])]), enough=np.inf)
        check_time()
    known.keep(everybody)
    return known.evidence(known.lower, everybody)


def _unsure_of_losses(known: Intervals, bar: Floats) -> NDArray[np.bool_]:
    """Of whom it is not known whether they stay."""
    return np.asarray((known.upper > bar) & ~exceeds(known.lower, bar) & (known.lower < known.upper))


def _look_together(known: Intervals, bar: Floats) -> None:
    """What is quicker to find of several than of one after the other."""
    unsure = np.flatnonzero(_unsure_of_losses(known, bar))
    if len(unsure) > 1:
        least = lost_at_least(known.fit, known.candidates[unsure], bar[unsure])
        known.lower[unsure] = np.minimum(np.maximum(known.lower[unsure], least), known.upper[unsure])


def _next_unsure(known: Intervals, bar: Floats) -> tuple[int, float] | None:
    """One of those who may stay or go, and what he has to cost to be out of the question.

    Once somebody is certain to go, nobody who is certain to cost more than he does has to be asked whether he stays.
    """
    unsure = _unsure_of_losses(known, bar)
    goes = known.upper <= bar
    line = bar
    if goes.any() and bool((known.df == known.df[0]).all()):
        least = float(known.upper[goes].min())
        line = np.minimum(bar, least + _CLEARLY_MORE * max(1.0, least))
        unsure &= known.lower <= line
    places = np.flatnonzero(unsure)
    if len(places) == 0:
        return None
    first = int(places[np.lexsort((known.lower[places], known.upper[places]))[0]])  # who is most likely to go
    return first, float(line[first])


def _resolve_loss(known: Intervals, i: int, enough: float) -> None:
    """Narrow the interval of one variable."""
    lower, known.upper[i] = known.fit.resolve_loss(int(known.candidates[i]), enough)
    known.lower[i] = min(max(lower, known.lower[i]), known.upper[i])
