"""What was asked for: the data, the search and how rows are drawn, read once for all searches.

Everything that `fbed.select` takes is taken here, too, and means the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.api.options import DataOptions, SearchOptions, SelectArguments
from fbed.api.problem import Problem
from fbed.api.reading import read_problem
from fbed.errors import InvalidInput
from fbed.graphs.oracle import is_wanted
from fbed.inference.resamples import Resample, Units, check_size, seeds, units_of
from fbed.inference.runner import Done, Listener, run_all
from fbed.models.base import FittedModel, Indices
from fbed.rules.criteria import Criterion
from fbed.search.memo import Memo
from fbed.search.search import Plan
from fbed.tables.extras import read_extras
from fbed.tables.genotypes import considered
from fbed.tables.readers import opened
from fbed.tables.table import Name, as_list
from fbed.threads import thread_count

MOSTLY = 0.5  # part of the searches at which failures become that of the whole


@dataclass(frozen=True)
class Asked:
    """Data that were read, what is searched in them, and what is drawn."""

    problem: Problem
    plan: Plan
    criterion: Criterion
    units: Units
    seed: int
    seeds: list[np.random.SeedSequence]
    n_workers: int
    started: float

    @property
    def candidates(self) -> tuple[Name, ...]:
        """What the candidates are called, in their order."""
        return tuple(self.problem.table.name(int(j)) for j in self.plan.candidates)

    @property
    def criterion_text(self) -> str:
        """The criterion in words."""
        return self.criterion.describe(self.problem.model.n, self.problem.design.n_varying(self.plan.candidates))

    def names(self, variables: Iterable[int]) -> tuple[Name, ...]:
        """What variables are called."""
        return tuple(self.problem.table.name(int(j)) for j in variables)

    def places(self, variables: Iterable[int]) -> Indices:
        """Positions of variables among the candidates."""
        return np.searchsorted(self.plan.candidates, np.fromiter(variables, dtype=np.intp)).astype(np.intp)

    def run(
        self,
        work: Callable[[Any], Any],
        items: Iterable[Any],
        time_limit: float | None = None,
        progress: Listener = None,
    ) -> Done[Any]:
        """Work on all items, as many at a time as was asked for."""
        return run_all(work, list(items), self.n_workers, time_limit, progress)

    def sibling(self, resample: Resample) -> Problem:
        """The problem on a resample; rows that repeat become frequencies where the family has them."""
        problem, rows = self.problem, resample.rows
        if resample.cluster is not None:
            cluster = resample.cluster if problem.extras.cluster is not None else None
            return problem.on_rows(rows, cluster=cluster, n_jobs=1)
        if not problem.kind.weights or len(rows) <= 1 or np.all(np.diff(rows) > 0):
            return problem.on_rows(rows, n_jobs=1)
        once, counts = np.unique(rows, return_counts=True)
        return problem.on_rows(once, problem.weights[once] * counts, n_jobs=1)


@dataclass(frozen=True)
class Found:
    """What one search found: variables in the order of their entry, forced ones left out.

    `failed` says why there was no search, as where a class is missing from the resample; nothing is selected then.
    """

    selected: tuple[int, ...]
    model: FittedModel | None = None
    failed: str | None = None


def read(
    X: Any,
    y: Any,
    options: SelectArguments,
    *,
    n_seeds: int,
    random_state: int | None,
    n_jobs: int | None,
    fraction: float = 0.5,
    stratify: Any = None,
    units: Any = None,
    time_limit: float | None = None,
    **plan: Any,
) -> Asked:
    """Read and check everything; `plan` overrides what the options say about the search."""
    started = time.perf_counter()
    search, rest = SearchOptions.split({**options, **plan})
    data = DataOptions.of(rest)
    X = considered(opened(X), as_list(search.include), data.groups)
    if is_wanted(X, data.family):
        raise InvalidInput("a graph has no rows that could be drawn: use fbed.select(graph, target)")
    criterion = search.chosen()
    search.check(time_limit)
    problem = read_problem(X, y, [criterion], search.excluded, data, n_jobs)
    planned = search.plan(problem.table)
    drawn = _units(X, problem, stratify, units)
    check_size(drawn, fraction)
    seed, many = seeds(random_state, n_seeds)
    return Asked(problem, planned, criterion, drawn, seed, many, thread_count(n_jobs), started)


def _units(X: Any, problem: Problem, stratify: Any, units: Any) -> Units:
    """Clusters are drawn as wholes, as are the units that were named; strata are those that were named."""
    n = problem.table.n_rows
    named = {"cluster": units} if units is not None else {}
    if stratify is not None and not (isinstance(stratify, str) and stratify == "outcome"):
        named["strata"] = stratify
    if named and problem.n_dropped:
        raise InvalidInput("units and stratify hold a label a row: drop rows with missing values first")
    labels = read_extras(X, n, named)
    unit = labels.cluster if units is not None else problem.extras.cluster
    stratum = labels.strata if "strata" in named else _classes(problem) if stratify is not None else None
    return units_of(n, unit, stratum)


def _classes(problem: Problem) -> NDArray[Any]:
    """Strata of the outcome: its classes, or whether the event happened."""
    outcome = problem.outcome
    if outcome.event is not None:
        return outcome.event
    if not outcome.categorical and len(np.unique(outcome.values)) > max(len(outcome.values) / 2, 2):
        raise InvalidInput(
            "stratify='outcome' needs classes or events, but y is a measurement: give strata of your own"
        )
    return outcome.values


def find(problem: Problem, plan: Plan, criterion: Criterion, describe: bool = False, memo: Memo | None = None) -> Found:
    """One search, without the trouble of a whole result; what cannot be searched finds nothing."""
    try:
        trail, scanner = problem.search(plan, criterion, memo=memo, decides_only=True)
    except InvalidInput as error:
        return Found((), failed=str(error))
    if trail.status == "interrupted":
        raise KeyboardInterrupt  # the search keeps what it found; here the whole is what is kept
    model = scanner.model.describe(trail.selected, scanner.latest) if describe else None
    return Found(tuple(trail.selected[len(plan.forced) :]), model)


def refuse_failures(found: list[Found], what: str) -> tuple[str, ...]:
    """An error when most searches could not be made, a note when some could not."""
    reasons = [one.failed for one in found if one.failed is not None]
    if not reasons:
        return ()
    if len(reasons) >= MOSTLY * len(found):
        raise InvalidInput(
            f"{len(reasons)} of {len(found)} {what} cannot be searched: {reasons[0]} (there; the whole data may do). "
            "There are too few rows, events or members of a class to be divided; stratify='outcome' keeps classes and "
            "events in proportion"
        )
    return (
        f"{len(reasons)} of {len(found)} {what} could not be searched and count as selecting nothing: {reasons[0]}",
    )


def full_search(asked: Asked, describe: bool = False) -> Found:
    """The same search on all rows."""
    found = find(asked.problem, asked.plan, asked.criterion, describe)
    if found.failed is not None:
        raise InvalidInput(found.failed)
    return found
