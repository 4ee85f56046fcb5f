"""What people are shown is exact: intervals that were enough to decide are narrowed where a reader would meet them.

A search leaves intervals. The closest of the last scans, the near ties of every step and what each selected variable
adds to the others are looked at by people, and by programs that read a saved result; their statistics are computed
when somebody looks, as long as the data are at hand. Bounds say who can be among the first few; nobody else is fitted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fbed.clock import Clock, OutOfTime, check_time
from fbed.models.base import CertifiedFit, Fit, Indices, Model, in_span, is_certified
from fbed.rules.criteria import Evidence, Rule, exceeds
from fbed.rules.p_values import ChiSquare, Floats
from fbed.search.scan import Finding, Scan
from fbed.search.search import Trail
from fbed.threads import one_blas_thread

if TYPE_CHECKING:
    from fbed.result.result import Candidates, Result, TraceRow

CLOSEST = 50
"""Candidates that were not selected, of whom people are told how close they came."""

RUNNERS_UP = 5
"""Near ties kept of each step."""

_SECONDS, _PART = 1.0, 0.2  # what looking closer may take: so long at least, or this part of the search
_BYTES = 2**30  # of data that results keep for this, besides the latest; older ones let go of theirs
_BATCH = 16  # statistics that are computed together


@dataclass(frozen=True)
class _Asked:
    """A search that has ended, with the data it was made on."""

    model: Model
    width: NDArray[np.integer]  # columns of each variable
    rule: Rule
    forced: tuple[int, ...]
    trail: Trail

    def sets(self) -> list[tuple[int, ...]]:
        """The set that each scan was made for."""
        selected, out = list(self.forced), []
        for step in self.trail.steps:
            out.append(tuple(selected))
            if step.scan.chosen is not None:
                (selected.append if step.phase == "forward" else selected.remove)(step.scan.chosen.variable)
        return out


class Closer:
    """Narrows what a search left open, once, when it is first asked to."""

    def __init__(self, asked: _Asked, seconds: float) -> None:
        self._asked: _Asked | None = asked
        self._budget = max(_SECONDS, _PART * seconds)
        self._found: tuple[tuple[TraceRow, ...], Candidates] | None = None
        self._lock = Lock()

    def settled(self, result: Result) -> Result:
        """The result with exact statistics where people look; as far as time and data allow."""
        with self._lock:
            if self._found is None and self._asked is not None:
                with one_blas_thread(), Clock(self._budget).running():
                    self._found = _Work(self._asked, result).done()
                self._asked = None
        if self._found is None:
            return replace(result, closer=None)
        trace, candidates = self._found
        return replace(result, trace=trace, candidates=candidates, closer=None)

    @property
    def size(self) -> int:
        """Bytes of data that are kept."""
        if self._asked is None:
            return 0
        matrix = getattr(getattr(self._asked.model, "design", None), "table", None)
        matrix = getattr(matrix, "matrix", None)
        return int(getattr(matrix, "nbytes", getattr(getattr(matrix, "data", None), "nbytes", 0)))

    def let_go(self) -> None:
        """Forget the data."""
        with self._lock:
            self._asked = None


_kept: list[weakref.ref[Closer]] = []
_keeping = Lock()


def closer(
    model: Model, width: NDArray[np.integer], rule: Rule, forced: tuple[int, ...], trail: Trail, seconds: float
) -> Closer | None:
    """What narrows the intervals of a search; None where none is open, or where the search was cut short.

    `width` tells how many columns each variable has.
    """
    finished = trail.status not in ("interrupted", "time_limit")
    if not finished or not any(_is_open(step.scan.lower, step.scan.upper).any() for step in trail.steps):
        return None
    made = Closer(_Asked(model, width, rule, forced, trail), seconds)
    with _keeping:
        alive = [other for other in (reference() for reference in _kept) if other is not None and other.size]
        room = _BYTES
        for other in reversed(alive):
            room -= other.size
            if room < 0:
                other.let_go()
        _kept[:] = [weakref.ref(other) for other in [*alive, made] if other.size]
    return made


class _Work:
    """One result's intervals, narrowed part by part."""

    def __init__(self, asked: _Asked, result: Result) -> None:
        self.asked, self.result = asked, result
        self.before = asked.sets()
        self.latest: tuple[tuple[int, ...], Fit] | None = None
        self.trace = list(result.trace)
        known = result.candidates
        self.candidates = replace(known, lower=known.lower.copy(), upper=known.upper.copy(), df=known.df.copy())

    def done(self) -> tuple[tuple[TraceRow, ...], Candidates]:
        """What is known in the end: first of the selected, then of near ties, then of the closest."""
        try:
            self._given_the_others()
            for i, step in enumerate(self.asked.trail.steps):
                if step.phase == "forward":
                    self._runners_up(i, step.scan)
            self._closest()
        except OutOfTime:  # looking closer has taken long enough; what has been found is kept
            pass
        return tuple(self.trace), self.candidates

    def _given_the_others(self) -> None:
        """What removing each selected variable costs, in the last scan of the backward phase."""
        steps = self.asked.trail.steps
        if not steps or steps[-1].phase != "backward":
            return
        scan = steps[-1].scan
        fit = self._fit(self.before[-1])
        if not is_certified(fit):
            return
        for variable in scan.candidates[_is_open(scan.lower, scan.upper)].tolist():
            lower, upper = fit.resolve_loss(variable, np.inf)
            self.candidates.lower[variable], self.candidates.upper[variable] = lower, upper
            check_time()

    def _runners_up(self, i: int, scan: Scan) -> None:
        """The best few of a scan besides the one that was chosen."""
        if scan.chosen is None or scan.reference is None or scan.critical is None:
            return
        critical = scan.critical(scan.df)
        rows = np.flatnonzero((scan.upper > critical) & (scan.candidates != scan.chosen.variable))
        if not _is_open(scan.lower[rows], scan.upper[rows]).any():
            return
        k, reference = len(self.before[i]) - len(self.asked.forced), scan.reference
        lower, upper, df = scan.lower[rows].copy(), scan.upper[rows].copy(), scan.df[rows].copy()

        def value(statistic: Floats) -> Floats:
            statistic = np.minimum(statistic, 1e300)
            if (df == df[0]).all():  # all have the same df, and merit rises with the statistic
                return statistic
            return self.asked.rule.merit(Evidence(statistic, df, None, reference), k)

        def resolve(some: Indices) -> None:
            lower[some], upper[some], df[some] = self._statistics(
                i, scan.candidates[rows[some]], lower[some], upper[some]
            )

        first = _first(lower, upper, value, resolve, RUNNERS_UP)
        first = first[exceeds(upper[first], scan.critical(df[first]))]
        self.trace[i] = replace(self.trace[i], runners_up=_findings(scan, rows[first], upper[first], df[first]))
        self._remember(i, scan.candidates[rows], lower, upper, df)

    def _closest(self) -> None:
        """Those who came closest to what they had to exceed, each in the scan that tested it last."""
        from fbed.result.views import critical_values

        known = self.candidates
        free = np.flatnonzero((known.row >= 0) & ~self.result.support)
        critical = critical_values(self.result)[free]
        sound = np.isfinite(critical) & (critical > 0)
        free, critical = free[sound], critical[sound]
        lower, upper = known.lower[free], known.upper[free]

        def resolve(some: Indices) -> None:
            for i in np.unique(known.row[free[some]]).tolist():
                here = some[known.row[free[some]] == i]
                lower[here], upper[here], df = self._statistics(i, free[here], lower[here], upper[here])
                self._remember(i, free[here], lower[here], upper[here], df)

        _first(lower, upper, lambda statistic: np.minimum(statistic, 1e300) / critical, resolve, CLOSEST)

    def _remember(self, i: int, variables: Indices, lower: Floats, upper: Floats, df: Floats) -> None:
        """Keep what was found of variables whose last test this was."""
        last = self.candidates.row[variables] == i
        where = variables[last]
        self.candidates.lower[where], self.candidates.upper[where] = lower[last], upper[last]
        self.candidates.df[where] = df[last]

    def _statistics(self, i: int, variables: Indices, lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
        """Exact statistics and df of some candidates of a scan."""
        check_time()
        scan = self.asked.trail.steps[i].scan
        fit = self._fit(self.before[i])
        assert is_certified(fit)  # others leave nothing open
        return _exact(fit, scan, variables, self.asked.width[variables] == 1, lower, upper)

    def _fit(self, selected: tuple[int, ...]) -> Fit:
        if self.latest is None or self.latest[0] != selected:
            near = None if self.latest is None else self.latest[1]
            self.latest = selected, self.asked.model.fit(selected, near)
        return self.latest[1]


def _exact(
    fit: CertifiedFit, scan: Scan, variables: Indices, is_column: NDArray[np.bool_], lower: Floats, upper: Floats
) -> tuple[Floats, Floats, Floats]:
    """Statistics of some candidates, 0 for a column in the span of the model; and their degrees of freedom.

    A group that adds one dimension is no column.
    """
    place = {variable: at for at, variable in enumerate(scan.candidates.tolist())}
    df = scan.df[[place[variable] for variable in variables.tolist()]]
    single = np.flatnonzero((df == 1) & is_column)
    if len(single):
        degenerate = single[in_span(fit, variables[single])]
        lower[degenerate] = upper[degenerate] = df[degenerate] = 0.0
    fit.prepare(0, np.inf)
    order = np.argsort(-lower, kind="stable")  # contenders come best first
    lower[order], upper[order] = fit.contest(variables[order], lower[order], upper[order], race=False)
    return lower, upper, df


def _first(
    lower: Floats,
    upper: Floats,
    value: Callable[[Floats], Floats],
    resolve: Callable[[Indices], None],
    most: int,
) -> Indices:
    """Positions of the largest few, best first, after resolving as many as it takes to be sure."""
    while True:
        high = value(upper)
        order = np.argsort(-high, kind="stable")
        first = order[:most]
        unknown = first[_is_open(lower[first], upper[first])]
        if len(unknown) == 0:
            return first
        resolve(unknown[:_BATCH].copy())
        lower[unknown[:_BATCH]] = upper[unknown[:_BATCH]]  # as close as it gets


def _is_open(lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    return np.asarray(upper - lower > 1e-9 * np.maximum(1.0, np.abs(upper)))


def _findings(scan: Scan, rows: Indices, statistic: Floats, df: Floats) -> tuple[Finding, ...]:
    log_p = (scan.reference or ChiSquare()).log_sf(statistic, df)
    score = statistic - (scan.critical(df) if scan.critical else 0.0)
    columns = (scan.candidates[rows], statistic, df, log_p, score, statistic)
    return tuple(Finding(*row) for row in zip(*(column.tolist() for column in columns), strict=True))
