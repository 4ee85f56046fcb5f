"""Forward-backward selection with early dropping (FBED^K) and without (FBS), as in the paper's pseudocode.

The search asks one question, 'given S, which of these candidates pass the criterion, and which is best?', and never
learns how the answer was found.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fbed.clock import OutOfTime
from fbed.models.base import Indices
from fbed.search.scan import Finding, Scan

STATUSES = {
    "converged": "no further variable passes the criterion",
    "max_features": "the limit on the number of variables was reached",
    "saturated": "the selected variables explain the outcome completely",
    "time_limit": "the time limit was reached; the backward phase may be incomplete",
    "interrupted": "interrupted; what had been found so far is kept, without the backward phase",
}


class Questions(Protocol):
    """What the search asks."""

    def saturated(self, selected: list[int]) -> bool:
        """Whether S explains the outcome completely."""

    def forward(self, selected: list[int], candidates: Indices, everybody: bool) -> Scan:
        """Who passes, and whose addition is best? Where only the best matters, everybody else counts as passing."""

    def backward(self, selected: list[int], variables: Indices) -> Scan:
        """Who is kept, and whose removal costs least?"""


@dataclass(frozen=True)
class Plan:
    """What is searched: `k` extra runs (math.inf for all), `forced` variables first and for good."""

    candidates: Indices
    forced: tuple[int, ...] = ()
    k: float = 1
    early_dropping: bool = True
    backward: bool = True
    max_features: float = np.inf


@dataclass(frozen=True)
class Step:
    """One scan as it was recorded."""

    phase: str
    run: int | None
    scan: Scan
    dropped: Indices
    seconds: float

    @property
    def action(self) -> str:
        """What the scan led to."""
        if self.scan.chosen is None:
            return "stop"
        return "add" if self.phase == "forward" else "remove"


@dataclass
class Trail:
    """What the search has done so far; it stays readable when the search is interrupted."""

    selected: list[int]
    listen: Callable[[Trail], None] = field(default=lambda trail: None)
    steps: list[Step] = field(default_factory=list)
    status: str = "converged"
    _clock: float = field(default_factory=time.perf_counter)

    def record(self, phase: str, run: int | None, scan: Scan, dropped: Indices) -> Finding | None:
        """Keep a scan, do what it says to S, and tell who listens."""
        now = time.perf_counter()
        self.steps.append(Step(phase, run, scan, dropped, now - self._clock))
        self._clock = now
        if scan.chosen is not None:
            (self.selected.append if phase == "forward" else self.selected.remove)(scan.chosen.variable)
        self.listen(self)
        return scan.chosen


@contextmanager
def keeping(trail: Trail) -> Iterator[None]:
    """Whatever ends the work inside, the trail holds what was found until then, and says why it ended."""
    try:
        yield
    except KeyboardInterrupt:
        trail.status = "interrupted"
    except OutOfTime:
        trail.status = "time_limit"


def search(ask: Questions, plan: Plan, trail: Trail) -> None:
    """Forward phase, then backward phase."""
    with keeping(trail):
        trail.status = forward_phase(ask, plan, trail)
        if plan.backward:
            backward_phase(ask, plan, trail)


def forward_phase(ask: Questions, plan: Plan, trail: Trail) -> str:
    """Runs until K extra ones are done or a run adds nothing; FBS is a single run."""
    for run in itertools.count():
        before = len(trail.selected)
        status = one_run(ask, plan, trail, run)
        if status != "converged" or len(trail.selected) == before or run >= plan.k or not plan.early_dropping:
            return status
    raise AssertionError("unreachable")


Ends = dict[tuple[int, ...], tuple[int, ...]]
"""What backward phases by one criterion have left of what forward phases had selected."""


class SharedRuns:
    """FBED^K for several K by one criterion: the runs of a smaller K are the first ones of a larger one.

    Searches by the same criterion share their `ends`.
    """

    def __init__(self, ask: Questions, plan: Plan, ends: Ends | None = None) -> None:
        self.ask, self.plan = ask, plan
        self._left: Ends = {} if ends is None else ends
        self._trail = Trail(list(plan.forced))
        self._ends: list[tuple[int, str]] = []  # variables after every run, and how it ended

    def search(self, k: float) -> Trail:
        """What `search` finds for this K; nothing of a run that was stopped is taken for the whole of it."""
        trail = Trail([])
        with keeping(trail):
            size, trail.status = self._forward(k)
            trail.selected = self._trail.selected[:size]
            if self.plan.backward:
                self._backward(trail)
        return trail

    def _backward(self, trail: Trail) -> None:
        """The backward phase, unless a search has come to the same variables before."""
        before = tuple(trail.selected)
        if before not in self._left:
            backward_phase(self.ask, self.plan, trail)
            self._left[before] = tuple(trail.selected)
        trail.selected = list(self._left[before])

    def _forward(self, k: float) -> tuple[int, str]:
        """Variables and status after the runs of this K, of which those that were not done before are done."""
        before = len(self.plan.forced)
        for run in itertools.count():
            if run == len(self._ends):
                started = Trail(list(self._trail.selected))
                status = one_run(self.ask, self.plan, started, run)
                self._trail = started
                self._ends.append((len(started.selected), status))
            size, status = self._ends[run]
            if status != "converged" or size == before or run >= k:
                return size, status
            before = size
        raise AssertionError("unreachable")


def one_run(ask: Questions, plan: Plan, trail: Trail, run: int) -> str:
    """Add the best candidate, drop all that do not pass given the S it was chosen for, until none remains."""
    remaining = plan.candidates[~np.isin(plan.candidates, trail.selected)]
    while True:
        if len(trail.selected) - len(plan.forced) >= plan.max_features:
            return "max_features"
        if len(remaining) == 0:
            return "converged"
        if ask.saturated(trail.selected):
            return "saturated"
        scan = ask.forward(trail.selected, remaining, everybody=plan.early_dropping)
        if trail.record("forward", run, scan, scan.dropped) is None:
            return "converged"
        remaining = scan.remaining


def backward_phase(ask: Questions, plan: Plan, trail: Trail) -> None:
    """Remove the worst variable as long as the criterion allows."""
    while removable := [s for s in trail.selected if s not in plan.forced]:
        scan = ask.backward(trail.selected, np.array(removable, dtype=np.intp))
        if trail.record("backward", None, scan, np.empty(0, dtype=np.intp)) is None:
            return
