"""The problem: a table, an outcome and everything that belongs to their rows, checked, and the model that answers.

Reading and checking come first and are cheap; the columns are looked at, and the model is built, when the first search
asks for them. Several searches on the same data share one problem.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed import families
from fbed.api.options import DataOptions
from fbed.api.progress import Progress, reporting
from fbed.clock import Clock, OutOfTime
from fbed.families.registry import Family
from fbed.larger_than_memory.workers import Tally
from fbed.matrix.design import Design
from fbed.models.base import Fit, Indices, Model
from fbed.models.engines.categories.many_levels import ManyLevels, sparse_categories
from fbed.models.likelihoods.risk_sets import RiskSets
from fbed.result.exact_numbers import Closer, closer
from fbed.result.fitted.columns import Known
from fbed.result.fitted.make import finish, with_inflation
from fbed.result.overview import associated, overview
from fbed.result.result import Result, build
from fbed.rules.criteria import Criterion, Rule
from fbed.rules.p_values import Floats
from fbed.search.checkpoint import Asked, Checkpoint, Recorded, digest_of
from fbed.search.memo import Memo
from fbed.search.scan import Scanner
from fbed.search.search import Plan, Trail, keeping, search
from fbed.tables.columns import listing
from fbed.tables.extras import Extras
from fbed.tables.missing import with_indicators
from fbed.tables.outcomes import Outcome
from fbed.tables.rare import with_rare_levels_joined
from fbed.tables.table import Table
from fbed.threads import one_blas_thread, thread_count

Listener = bool | Callable[[Progress], None] | None

_GRACE = 0.5  # seconds beyond a time limit in which the null model is fitted and the last one described


@dataclass(frozen=True)
class Problem:
    """Data that were read and checked; `kind` is the family that answers, and `options` are those that were given.

    `kept` are the user's rows that the problem has, and `unfilled` is the table before indicators told what is missing.
    """

    table: Table
    outcome: Outcome
    weights: Floats
    extras: Extras
    kind: Family
    options: DataOptions
    n_jobs: int | None
    notes: tuple[str, ...]
    n_dropped: int = 0
    kept: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    unfilled: Table | None = None

    @property
    def test(self) -> str:
        """The test in force."""
        return self.kind.test_for(self.options.test, self.options.cov)

    @property
    def observed(self) -> Table:
        """The table as it came, missing values included."""
        return self.table if self.unfilled is None else self.unfilled

    def on_rows(
        self, rows: Indices, weights: Floats | None = None, cluster: Indices | None = None, n_jobs: int | None = None
    ) -> Problem:
        """The same problem on some of its rows; nothing of the others reaches it, means and levels are their own.

        Rows may repeat. Weights and clusters are those of the rows unless others are given, as a bootstrap needs them:
        a row by its frequency, a cluster that was drawn twice as two. What was read and checked is not read again.
        """
        table, weights = self._by_columns.rows(rows), self.weights[rows] if weights is None else weights
        filled = with_indicators(table, weights)[0] if self.options.missing == "indicator" else table
        if self.options.rare_levels is not None:
            filled = with_rare_levels_joined(filled, weights, self.options.rare_levels)[0]
        extras = self.extras.rows(rows)
        return replace(
            self,
            table=filled,
            outcome=self.outcome.rows(rows),
            weights=weights,
            extras=extras if cluster is None else replace(extras, cluster=cluster),
            n_jobs=self.n_jobs if n_jobs is None else n_jobs,
            kept=self.kept[rows],
            unfilled=table,
        )

    def with_outcome(self, outcome: Outcome, extras: Extras | None = None, n_jobs: int | None = None) -> Problem:
        """A sibling with another outcome on the same columns, which are not looked at again."""
        sibling = replace(self, outcome=outcome, extras=self.extras if extras is None else extras, n_jobs=n_jobs)
        sibling.__dict__["design"] = self.design
        return sibling

    def exhaustive(self) -> Problem:
        """The same problem, answered by fits alone."""
        return replace(self, options=replace(self.options, engine="exhaustive"))

    @cached_property
    def _by_columns(self) -> Table:
        """The table as siblings read it: a small matrix that lies row after row is turned once for all."""
        return self.observed.by_columns()

    @cached_property
    def design(self) -> Design:
        """The columns as the models see them."""
        by_products = self.kind.name == "gaussian"  # of a few passes, which are exact
        often = not by_products and self.kind.name != "cox"  # whose rows are put in order of time, as columns
        return Design(self.table, self.weights, thread_count(self.n_jobs), roughly=not by_products, often=often)

    @cached_property
    def model(self) -> Model:
        """The outcome bound to its data."""
        asked, certified = self.options, self.options.engine == "certified"
        request = families.Request(self.design, self.outcome, self.extras, self.test, asked.cov, asked.link, certified)
        return self.kind.build(request)

    @cached_property
    def known_columns(self) -> Known:
        """What final models need to know of columns, for all of them that are made of this problem."""
        return {}

    @cached_property
    def risk_sets(self) -> RiskSets:
        """Who is at risk when somebody dies, for all models of survival times that are made of this problem."""
        outcome, extras = self.outcome, self.extras
        assert outcome.event is not None
        return RiskSets(outcome.values, outcome.event, self.weights, extras.strata, extras.entry)

    @property
    def tally(self) -> Tally | None:
        """What is read of a table that is not in memory."""
        return None

    @cached_property
    def sparse(self) -> tuple[int, ...]:
        """Categories with too many levels for χ²."""
        return sparse_categories(self.model) if self.options.cov is None else ()

    def pairs_rows(self, criterion: Criterion) -> bool:
        """Whether p-values of such categories come from pairs of rows: where nobody asked for anything else."""
        free = self.model.has_likelihood and self.options.test is None and not criterion.needs_likelihood
        return free and bool(self.sparse)

    @cached_property
    def paired_model(self) -> Model:
        """The model that tests them so: it needs the scores of rows, which may be elsewhere."""
        told = getattr(self.model, "tells_scores", True)
        return ManyLevels(self.model if told else getattr(self.model, "careful", self.model), self.sparse)

    def scanner(
        self, plan: Plan, criterion: Criterion, memo: Memo | None = None, decides_only: bool = False
    ) -> Scanner:
        """What answers a search by one plan and criterion."""
        model = self.paired_model if self.pairs_rows(criterion) else self.model
        rule = criterion.bind(model.n, self.design.n_varying(plan.candidates))
        return Scanner(model, rule, len(plan.forced), thread_count(self.n_jobs), memo, decides_only)

    def search(
        self,
        plan: Plan,
        criterion: Criterion,
        time_limit: float | None = None,
        memo: Memo | None = None,
        decides_only: bool = False,
    ) -> tuple[Trail, Scanner]:
        """What a search finds, without a result around it; a memo shares work with others on the same problem."""
        scanner, trail = self.scanner(plan, criterion, memo, decides_only), Trail(list(plan.forced))
        with searching(time_limit):
            search(scanner, plan, trail)
        return trail, scanner

    def run(
        self,
        plan: Plan,
        criterion: Criterion,
        time_limit: float | None = None,
        progress: Listener = None,
        memo: Memo | None = None,
        started: float | None = None,
        checkpoint: Callable[[Asked], Checkpoint] | None = None,
    ) -> Result:
        """Search by one plan and criterion; a memo shares work with other searches on the same problem.

        The time limit counts from `started`, a moment on the monotonic clock, or from now. `checkpoint` makes the file
        in which the search is written down, given what it belongs to.
        """
        begun, p = time.perf_counter(), self.design.n_varying(plan.candidates)  # the pass over the rows that always is
        clock, late = Clock(time_limit, started), _late(time_limit, started)
        model: Model | None = None
        written: Checkpoint | None = None
        latest: Fit | None = None
        look_closer: Closer | None = None
        with one_blas_thread(), reporting(progress, self.table.name, self.tally) as listen:
            trail = Trail(list(plan.forced), listen)
            with late.running(), keeping(trail):
                model = self.paired_model if self.pairs_rows(criterion) else self.model
            if model is not None:
                rule, threads = criterion.bind(model.n, p), thread_count(self.n_jobs)
                scanner = Scanner(model, rule, len(plan.forced), threads, memo)
                written = None if checkpoint is None else checkpoint(self.asked(plan, criterion))
                with clock.running():
                    search(scanner if written is None else Recorded(scanner, written), plan, trail)
                latest = scanner.latest
                look_closer = self.closer(model, rule, plan.forced, trail, time.perf_counter() - begun)
            late = Clock(_GRACE) if trail.status == "interrupted" else late
            about_model = {**self._described(model, latest, trail, late), "closer": look_closer}
        about_search = {
            **settings(plan, criterion, self.table, self.n_jobs, time_limit),
            "test": self.test,
            "cov": self.options.cov,
            "link": self.options.link,
            "missing": self.options.missing,
            "n_rows_dropped": self.n_dropped,
            "rare_levels": self.options.rare_levels,
            "paired": [self.table.name(j) for j in self.sparse] if isinstance(model, ManyLevels) else [],
        }
        about_model["notes"] += tuple(_remarks(self.design, plan))
        about_model["notes"] += () if written is None or written.trouble is None else (written.trouble,)
        about_model["notes"] += tuple(self._sparse_notes(plan, criterion) if model is not None else ())
        rest = {"criterion": _criterion_text(criterion.describe(about_model["n"], p), self.test), **about_model}
        try:
            return build(trail, plan, self.table, settings=about_search, **rest, seconds=time.perf_counter() - begun)
        except KeyboardInterrupt:  # what was found is not lost, whenever Ctrl-C comes
            trail.status = "interrupted"
            return build(trail, plan, self.table, settings=about_search, **rest, seconds=time.perf_counter() - begun)

    def closer(self, model: Model, rule: Rule, forced: tuple[int, ...], trail: Trail, seconds: float) -> Closer | None:
        """What makes statistics exact when somebody looks at them."""
        return closer(model, self.design.width, rule, forced, trail, seconds)

    def asked(self, plan: Plan, criterion: Criterion) -> Asked:
        """What a checkpoint of a search belongs to."""
        free = ("n_jobs", "time_limit")  # they change no answer
        plain = settings(plan, criterion, self.table, None, None)
        options = {name: value for name, value in plain.items() if name not in free}
        options |= {"family": self.kind.name, "test": self.test, "cov": self.options.cov, "link": self.options.link}
        options |= {"missing": self.options.missing, "rare_levels": self.options.rare_levels}
        table, design, extras = self.table, self.design, self.extras
        by_row = (extras.offset, extras.trials, extras.entry, extras.strata, extras.cluster)
        levels = {j: factor.levels for j, factor in table.factors.items()}
        schema = digest_of(table.names, table.position, levels, sorted(table.groups.items()), plan.candidates)
        moments = digest_of(design.center, design.scale, design.low, design.high, self.weights)
        outcome = digest_of(self.outcome.values, self.outcome.levels, self.outcome.event, *by_row)
        data = {"rows": table.n_rows, "columns": table.n_variables}
        return Asked(options, {**data, "schema": schema, "moments": moments, "outcome": outcome})

    def _described(self, model: Model | None, latest: Fit | None, trail: Trail, clock: Clock) -> dict[str, Any]:
        """What the result tells about the model and the data; nothing where there is no time left for it."""
        told: dict[str, Any] = {
            "model": None,
            "overview": None,
            "family": self.kind.name if model is None else model.name,
            "n": float(self.weights.sum()) if model is None else model.n,
            "classes": self.outcome.levels if model is not None and model.name == "binomial" else None,
            "notes": (*self.notes, *getattr(model, "notes", ())),
        }
        try:
            with clock.running():
                if model is not None:
                    told["model"] = finish(self, model.describe(trail.selected, latest), trail.selected)
                look = told["overview"] = overview(self.design, self.outcome, trail.selected)
                look = told["overview"] = associated(look, self.design, trail.selected)
                if model is not None:
                    told["model"] = with_inflation(self, told["model"], trail.selected, look)
        except OutOfTime:
            missed = "describe the model" if told["model"] is None else "tell how the selected variables go together"
            told["notes"] += (f"there was no time left to {missed}; without a time limit there is",)
        except KeyboardInterrupt:
            trail.status = "interrupted"
        return told

    def _sparse_notes(self, plan: Plan, criterion: Criterion) -> list[str]:
        """Which categories are not tested by χ², or should not be."""
        found = [j for j in self.sparse if j in plan.candidates]
        if not found or criterion.needs_likelihood:
            return []
        levels = (f"{self.table.name(j)} ({len(self.table.factors[j].levels)} levels)" for j in found)
        names = f"too many levels for χ²: {listing(levels, quote=False)}"
        if self.pairs_rows(criterion):
            return [f"{names}; p-values of such columns come from pairs of rows of the same level"]
        error = "find far too much" if self.test == "lr" else "are not to be trusted"
        return [f"{names}; {self.test} tests of such columns {error}: leave test out, or join levels by rare_levels"]


@contextmanager
def searching(time_limit: float | None) -> Iterator[None]:
    """A search at work; without a limit of its own it goes by the clock of those that it is one of."""
    with one_blas_thread(), nullcontext() if time_limit is None else Clock(time_limit).running():
        yield


class Memos:
    """What searches on a problem share: statistics of a category with many levels differ between levels and EBIC."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._memos: dict[bool, Memo] = {}

    def of(self, criterion: Criterion) -> Memo:
        """The memo of the searches by such a criterion."""
        table = self.problem.table
        return self._memos.setdefault(self.problem.pairs_rows(criterion), Memo(table.n_variables, table.n_rows))


def _late(time_limit: float | None, started: float | None) -> Clock:
    """The clock of what a result cannot do without: it may go on a little after the time limit."""
    if time_limit is None:
        return Clock()
    begun = time.monotonic() if started is None else started
    return Clock(max(time_limit, time.monotonic() - begun) + _GRACE, begun)


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
