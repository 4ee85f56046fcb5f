"""The problem: a table, an outcome and everything that belongs to their rows, checked, and the model that answers.

Reading and checking come first and are cheap; the columns are looked at, and the model is built, when the first search
asks for them. Several searches on the same data share one problem.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from fbed import families
from fbed.criteria import Criterion
from fbed.design import Design
from fbed.errors import InvalidInput
from fbed.extras import EXTRAS, Extras, read_extras
from fbed.families.base import Model
from fbed.families.own import ConditionalTest, TestFunction
from fbed.families.registry import Family
from fbed.fitted.make import finish
from fbed.glance import glance
from fbed.labels import check_labels
from fbed.memo import Memo
from fbed.missing import check_missing, complete_rows, with_indicators
from fbed.outcomes import Outcome, known_rows, read_outcome, suggested_family
from fbed.progress import Progress, reporting
from fbed.result import Result, build
from fbed.scan import Scanner
from fbed.search import Plan, Trail, search
from fbed.settle import closer
from fbed.tables import Groups, Name, Table, rare_levels, read_table, refuse_masked, take_column
from fbed.tails import Floats
from fbed.threads import one_blas_thread, thread_count

Listener = bool | Callable[[Progress], None] | None


class DataOptions(TypedDict, total=False):
    """Arguments of `select` that are about the data and the model, not about the search."""

    family: str | TestFunction | ConditionalTest
    test: str | None
    cov: str | None
    link: str | None
    sample_weight: Any
    offset: Any
    exposure: Any
    trials: Any
    strata: Any
    entry: Any
    cluster: Any
    feature_names: Sequence[str] | None
    groups: Groups | None
    categorical: Iterable[Name]
    missing: str
    engine: str


@dataclass(frozen=True)
class Problem:
    """Data that were read and checked; `kind` is the family that answers, by the test in force.

    `kept` are the user's rows that the problem has, and `unfilled` is the table before indicators told what is missing.
    """

    table: Table
    outcome: Outcome
    weights: Floats
    extras: Extras
    kind: Family
    test: str
    cov: str | None
    link: str | None
    certified: bool
    n_jobs: int | None
    notes: tuple[str, ...]
    missing: str = "error"
    n_dropped: int = 0
    kept: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    unfilled: Table | None = None

    @property
    def observed(self) -> Table:
        """The table as it came, missing values included."""
        return self.table if self.unfilled is None else self.unfilled

    def on_rows(self, rows: NDArray[np.intp]) -> Problem:
        """The same problem on some of its rows; nothing of the others reaches it, means and levels are their own."""
        table, weights = self.observed.rows(rows), self.weights[rows]
        filled = with_indicators(table, weights)[0] if self.missing == "indicator" else table
        return replace(
            self,
            table=filled,
            outcome=self.outcome.rows(rows),
            weights=weights,
            extras=self.extras.rows(rows),
            kept=self.kept[rows],
            unfilled=table,
        )

    @cached_property
    def design(self) -> Design:
        """The columns as the models see them."""
        return Design(self.table, self.weights, thread_count(self.n_jobs))

    @cached_property
    def model(self) -> Model:
        """The outcome bound to its data."""
        request = families.Request(
            self.design, self.outcome, self.extras, self.test, self.cov, self.link, self.certified
        )
        return self.kind.build(request)

    def search(
        self,
        plan: Plan,
        criterion: Criterion,
        time_limit: float | None = None,
        progress: Listener = None,
        memo: Memo | None = None,
    ) -> tuple[Trail, Scanner]:
        """Search by one plan and criterion; a memo shares work with other searches on the same problem."""
        deadline = None if time_limit is None else time.monotonic() + time_limit
        n, p = self.model.n, self.design.n_varying(plan.candidates)
        threads = thread_count(self.n_jobs)
        scanner = Scanner(self.model, criterion.bind(n, p), len(plan.forced), threads, deadline, memo)
        with one_blas_thread(), reporting(progress, self.table.name) as listen:
            trail = Trail(list(plan.forced), listen)
            search(scanner, plan, trail)
        return trail, scanner

    def run(
        self,
        plan: Plan,
        criterion: Criterion,
        time_limit: float | None = None,
        progress: Listener = None,
        memo: Memo | None = None,
    ) -> Result:
        """Search by one plan and criterion, and describe what was found."""
        started = time.perf_counter()
        n, p = self.model.n, self.design.n_varying(plan.candidates)
        trail, scanner = self.search(plan, criterion, time_limit, progress, memo)
        seconds = time.perf_counter() - started
        look = glance(self.design, self.outcome, trail.selected)
        estimates = self.model.describe(trail.selected, scanner.latest)
        return build(
            trail,
            plan,
            self.table,
            closer=closer(self.model, scanner.rule, plan.forced, trail, seconds),
            model=finish(self, estimates, trail.selected, look),
            family=self.model.name,
            criterion=_criterion_text(criterion.describe(n, p), self.test),
            classes=self.outcome.levels if self.model.name == "binomial" else None,
            n=n,
            notes=(*self.notes, *getattr(self.model, "notes", ()), *_remarks(self.design, plan)),
            settings={
                **settings(plan, criterion, self.table, self.n_jobs, time_limit),
                "test": self.test,
                "cov": self.cov,
                "link": self.link,
                "missing": self.missing,
                "n_rows_dropped": self.n_dropped,
            },
            seconds=time.perf_counter() - started,
            glance=look,
        )


def read_problem(
    X: Any,
    y: Any,
    criteria: Sequence[Criterion],
    exclude: Sequence[Name] = (),
    *,
    family: str | TestFunction | ConditionalTest = "auto",
    test: str | None = None,
    cov: str | None = None,
    link: str | None = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    groups: Groups | None = None,
    categorical: Iterable[Name] = (),
    missing: str = "error",
    engine: str = "certified",
    n_jobs: int | None = None,
    **extras: Any,
) -> Problem:
    """Read and check the data, and that the family can do what the criteria and options ask for."""
    _check_known(extras)
    thread_count(n_jobs)  # refuses what is no number of threads
    if engine not in ("certified", "exhaustive"):
        raise InvalidInput(f"engine must be 'certified' or 'exhaustive', got {engine!r}")
    check_missing(missing)
    check_labels(X, {"y": y, "sample_weight": sample_weight, **extras})
    named = [name for name in (*_pair(y), sample_weight, *extras.values()) if isinstance(name, str)]
    table = read_table(X, feature_names, named, exclude, groups, categorical)
    weights, notes = _weights(
        take_column(X, sample_weight, "sample_weight") if isinstance(sample_weight, str) else sample_weight,
        table.n_rows,
    )
    y, present = _outcome_values(X, y), weights > 0
    keep = present
    if missing == "drop":
        keep, told = complete_rows(table, present, known_rows(y, table.n_rows))
        notes += told
    outcome = read_outcome(y, table.n_rows, keep)
    row_extras = read_extras(X, table.n_rows, extras)
    if not keep.all():  # rows of weight 0, and those dropped, leave before anything is computed
        kept = np.flatnonzero(keep)
        table, weights, row_extras = table.rows(kept), weights[kept], row_extras.rows(kept)
    observed = table
    if missing == "indicator":
        table, told = with_indicators(table, weights)
        notes += told
    notes += rare_levels(table, weights)
    if isinstance(family, str) and family == "auto":
        family, note = suggested_family(outcome) if extras.get("trials") is None else ("binomial", None)
        notes += [note] if note else []
    kind = families.find(family)
    for criterion in criteria:
        families.check_abilities(
            kind,
            test=test,
            cov=cov,
            link=link,
            extras=extras,
            weighted=sample_weight is not None,
            needs_likelihood=criterion.needs_likelihood,
            criterion=repr(criterion),
        )
    in_force = kind.test_for(test, cov)
    return Problem(
        table,
        outcome,
        weights,
        row_extras,
        kind,
        in_force,
        cov,
        link,
        engine == "certified",
        n_jobs,
        tuple(notes),
        missing,
        int((present & ~keep).sum()),
        np.flatnonzero(keep),
        observed,
    )


def make_plan(
    table: Table,
    include: Iterable[Name],
    exclude: Iterable[Name],
    k: float = 1,
    early_dropping: bool = True,
    backward: bool = True,
    max_features: int | None = None,
) -> Plan:
    """What is searched, with names looked up."""
    forced, excluded = table.find(include, "include"), table.find(exclude, "exclude")
    both = [table.name(j) for j in forced if j in excluded]
    if both:
        raise InvalidInput(f"{both} are both included and excluded: leave them out of one of the two")
    considered = np.ones(table.n_variables, dtype=bool)
    considered[[*forced, *excluded, *table.absorbed]] = False
    limit = math.inf if max_features is None else max_features
    return Plan(np.flatnonzero(considered), tuple(forced), k, bool(early_dropping), bool(backward), limit)


def check_search_options(k: float, max_features: int | None, time_limit: float | None) -> None:
    """Refuse numbers that no search can work with."""
    number = isinstance(k, (int, np.integer, float)) and not isinstance(k, bool)
    if not number or not k >= 0 or (k != math.inf and k != int(k)):
        raise InvalidInput(f"k is the number of extra runs: 0, 1, 2, … or math.inf, got {k!r}")
    if max_features is not None and (
        isinstance(max_features, bool) or not isinstance(max_features, (int, np.integer)) or max_features < 0
    ):
        raise InvalidInput(f"max_features must be a whole number that is 0 or more, or None, got {max_features!r}")
    if time_limit is not None and not time_limit >= 0:
        raise InvalidInput(f"time_limit must be a number of seconds, 0 or more, got {time_limit!r}")


def algorithm_name(plan: Plan) -> str:
    """FBS, FBED^0, FBED^1, …, FBED^∞."""
    return "FBS" if not plan.early_dropping else f"FBED^{'∞' if plan.k == math.inf else int(plan.k)}"


def settings(
    plan: Plan, criterion: Criterion, table: Table, n_jobs: int | None, time_limit: float | None
) -> dict[str, Any]:
    """What was asked for, as the result keeps it."""
    return {
        "algorithm": algorithm_name(plan),
        "criterion": repr(criterion),
        "k": None if plan.k == math.inf else int(plan.k),
        "early_dropping": plan.early_dropping,
        "backward": plan.backward,
        "include": [table.name(j) for j in plan.forced],
        "n_excluded": table.n_variables - len(table.absorbed) - len(plan.candidates) - len(plan.forced),
        "max_features": None if plan.max_features == math.inf else int(plan.max_features),
        "time_limit": time_limit,
        "n_jobs": n_jobs,
    }


def _check_known(extras: dict[str, Any]) -> None:
    unknown = [name for name in extras if name not in EXTRAS]
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")


def _weights(sample_weight: Any, n_rows: int) -> tuple[Floats, list[str]]:
    """Frequencies as floats, and a note when they are not whole numbers."""
    if sample_weight is None:
        return np.ones(n_rows), []
    refuse_masked(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"sample_weight must hold numbers: {error}") from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise InvalidInput(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: give one weight a row (Sample weights must "
            "be 1D array or scalar)"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInput("sample_weight must be finite and 0 or more: weight 2 stands for the row twice, 0 for none")
    if int((weights > 0).sum()) < 3:
        raise InvalidInput(f"selection needs at least 3 rows with a weight above zero, got {int((weights > 0).sum())}")
    if np.any(weights != np.round(weights)):
        return weights, [
            "the weights are not whole numbers; they count as frequencies, so the sample size is their sum "
            f"({weights.sum():g})"
        ]
    return weights, []


def _pair(y: Any) -> tuple[Any, ...]:
    """The two names of a survival time, or the outcome itself."""
    return tuple(y) if isinstance(y, (tuple, list)) and len(y) == 2 and any(isinstance(v, str) for v in y) else (y,)


def _outcome_values(X: Any, y: Any) -> Any:
    """The outcome, or the pair (time, event), with names replaced by columns."""
    parts = tuple(take_column(X, part, "y") if isinstance(part, str) else part for part in _pair(y))
    return parts if len(parts) == 2 else parts[0]


def _criterion_text(text: str, test: str) -> str:
    """The criterion in words, with the name of the test in force."""
    names = {"score": "score test", "wald": "Wald test", "g2": "G² test", "kci": "KCI test", "rcit": "RCIT test"}
    name = names.get(test, "test" if test == "p-value" else f"{test} test")
    return text if test == "lr" else text.replace("likelihood-ratio test", name)


def _remarks(design: Design, plan: Plan) -> list[str]:
    constant = len(plan.candidates) - design.n_varying(plan.candidates)
    if constant == 0:
        return []
    return [f"{constant:,} constant column{'s' if constant != 1 else ''} cannot be selected"]
