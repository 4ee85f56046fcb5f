"""Folds × configurations: every fold searches the whole grid once, sharing work, and predicts the rows it held out.

Folds run one after another, or in threads. With a time limit, settings run one after another through all folds, so that
what is there when time is over is a grid that is shorter, and not folds that are fewer. What has been computed can be
kept in a file, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fbed.api.options import make_plan
from fbed.api.paths import UNFINISHED, Setting
from fbed.api.problem import Memos, Problem, searching
from fbed.api.progress import Progress, display
from fbed.errors import InvalidInput
from fbed.families.registry import Family
from fbed.models.base import Fit, outline
from fbed.result.fitted.likelihoods import Observed
from fbed.result.fitted.make import observed
from fbed.rules.p_values import Floats
from fbed.search.scan import Scanner
from fbed.search.search import Ends, Plan, SharedRuns, Trail
from fbed.tables.table import Name
from fbed.threads import one_blas_thread, spread, thread_count
from fbed.tuning import store
from fbed.tuning.final_models import FinalWay
from fbed.tuning.folds import Fold
from fbed.tuning.heldout import Held, HeldOut, class_labels
from fbed.tuning.likelihood import Common
from fbed.tuning.scores import OutOfFold


@dataclass(frozen=True)
class Configuration:
    """A setting of the search with a penalty of the final model."""

    setting: Setting
    penalty: float | None = None

    @property
    def params(self) -> dict[str, Any]:
        """As scikit-learn shows what was chosen."""
        s = self.setting
        name = {"lr": "alpha", "ebic": "gamma"}[s.criterion]
        out = {"criterion": s.criterion, name: s.value, "k": s.k, "algorithm": s.algorithm}
        return out if self.penalty is None else {**out, "penalty": self.penalty}


@dataclass(frozen=True)
class Searches:
    """What is searched, the same in every fold."""

    settings: tuple[Setting, ...]
    way: FinalWay
    include: tuple[Name, ...] = ()
    exclude: tuple[Name, ...] = ()
    backward: bool = True
    max_features: int | None = None

    def plan(self, problem: Problem, setting: Setting) -> Plan:
        """The plan of a setting."""
        return make_plan(
            problem.table,
            self.include,
            self.exclude,
            setting.k or 0,
            setting.k is not None,
            self.backward,
            self.max_features,
        )

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Settings × penalties, those of a setting side by side."""
        return tuple(Configuration(s, penalty) for s in self.settings for penalty in self.way.penalties)


@dataclass
class FoldRun:
    """A fold: the searches that are done, and what their models say of the rows held out."""

    number: int
    test: Any
    selected: list[tuple[int, ...]] = field(default_factory=list)  # by setting
    held: list[Held] = field(default_factory=list)  # by configuration
    seconds: list[float] = field(default_factory=list)
    null: Floats | None = None

    @property
    def done(self) -> int:
        """How many settings."""
        return len(self.selected)


class _Worker:
    """A fold at work: its problem and what its searches share."""

    def __init__(self, whole: Problem, fold: Fold, run: FoldRun, searches: Searches) -> None:
        self.run, self.searches = run, searches
        try:
            self.problem = replace(whole.on_rows(fold[0]), n_jobs=None)  # threads are for folds
            self.memos = Memos(self.problem)
            self.held = HeldOut(whole, fold[1])
            self.common = Common(self.problem)
            self.known: dict[frozenset[int], list[Held]] = {}
            self.shared: dict[tuple[str, float | None, bool], tuple[Scanner, SharedRuns]] = {}
            self.ends: dict[tuple[str, float | None], Ends] = {}
            if run.null is None:
                run.null = self._predicted((), None)[0].loss
        except InvalidInput as error:
            raise InvalidInput(
                f"in fold {run.number + 1}, fitted on {len(fold[0]):,} of {len(whole.kept):,} rows: {error}. All rows "
                "together are not so: give other folds by cv"
            ) from error

    def step(self, time_limit: float | None) -> str:
        """Search by the next setting, and predict; the status of the search."""
        started = time.perf_counter()
        setting = self.searches.settings[self.run.done]
        trail, latest = self._searched(setting, time_limit)
        if trail.status not in UNFINISHED:
            key = frozenset(trail.selected)  # in whatever order they came, the model is the same
            if key not in self.known:
                self.known[key] = self._predicted(trail.selected, latest)
            self.run.selected.append(tuple(trail.selected))
            self.run.held += self.known[key]
            self.run.seconds.append(time.perf_counter() - started)
        return trail.status

    def _searched(self, setting: Setting, time_limit: float | None) -> tuple[Trail, Fit | None]:
        """What a setting selects, and the last fit; settings that differ in K alone share their runs.

        Those without early dropping have one run of their own.
        """
        key = (setting.criterion, setting.value, setting.k is not None)
        if key not in self.shared:
            plan, criterion = self._plan(setting), setting.as_criterion()
            scanner = self.problem.scanner(plan, criterion, self.memos.of(criterion), decides_only=True)
            self.shared[key] = scanner, SharedRuns(scanner, plan, self.ends.setdefault(key[:2], {}))
        scanner, runs = self.shared[key]
        with searching(time_limit):
            return runs.search(setting.k or 0), scanner.latest

    def _plan(self, setting: Setting) -> Plan:
        return replace(self._any_plan, k=setting.k or 0, early_dropping=setting.k is not None)

    @cached_property
    def _any_plan(self) -> Plan:
        """What all search, without columns that are constant here: they fail every test, which nobody counts."""
        plan = self.searches.plan(self.problem, self.searches.settings[0])
        return replace(plan, candidates=plan.candidates[self.problem.design.width[plan.candidates] > 0])

    def _predicted(self, selected: Sequence[int], near: Any) -> list[Held]:
        estimates = outline(self.problem.model, list(selected), near)
        way = FinalWay("ml") if not selected else self.searches.way
        models = way.fit(self.problem, estimates, list(selected), predicts_only=True, near=near, common=self.common)
        held = self.held.predicted_by(models)
        return held if selected else held * len(self.searches.way.penalties)  # without variables nothing is penalised


class CrossPath:
    """Every configuration of a grid in every fold.

    Attributes
    ----------
    problem, folds, searches : what is run.
    runs : a `FoldRun` a fold, with the variables selected by every setting.
    status : 'converged', 'time_limit' or 'interrupted'.
    """

    def __init__(self, problem: Problem, folds: Sequence[Fold], searches: Searches) -> None:
        self._problem: Problem | None = problem
        self._names: dict[int, Name] = {}  # of selected variables, once the data are gone
        self.folds, self.searches = list(folds), searches
        self.runs = [FoldRun(i, test) for i, (_, test) in enumerate(folds)]
        self.status = "time_limit"
        self.seconds = 0.0

    @property
    def problem(self) -> Problem:
        """The data; what was pickled has none."""
        if self._problem is None:
            raise InvalidInput("folds that were pickled hold no data, and cannot go on or predict again")
        return self._problem

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: no data."""
        seen = {v for run in self.runs for selected in run.selected for v in selected}
        names = self._names if self._problem is None else {v: self._problem.table.name(v) for v in seen}
        return {**self.__dict__, "_problem": None, "_names": names}

    def _name(self, variable: int) -> Name:
        return self._names[variable] if self._problem is None else self._problem.table.name(variable)

    @property
    def n_settings(self) -> int:
        """Settings that all folds have done."""
        return min(run.done for run in self.runs)

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Those that all folds have done."""
        return self.searches.configurations[: self.n_settings * len(self.searches.way.penalties)]

    def run(
        self,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        progress: bool | Callable[[Progress], None] | None = None,
        resume: str | Path | None = None,
    ) -> CrossPath:
        """Do what is not done yet; called again, it goes on."""
        started = time.perf_counter()
        file = None if resume is None else Path(resume)
        if file is not None and file.exists():
            store.load(file, self)
        with one_blas_thread(), _telling(progress) as tell:
            if time_limit is None:
                status = self._fold_by_fold(thread_count(n_jobs), file, tell)
            else:
                status = self._setting_by_setting(started + time_limit, thread_count(n_jobs), file, tell)
        self.status = status
        self.seconds += time.perf_counter() - started
        return self

    def _fold_by_fold(self, n_threads: int, file: Path | None, tell: Callable[[CrossPath], None]) -> str:
        def work(run: FoldRun) -> str:
            worker = None
            while run.done < len(self.searches.settings):
                worker = worker or _Worker(self.problem, self.folds[run.number], run, self.searches)
                status = worker.step(None)
                if status in UNFINISHED:
                    return status
                tell(self)
            if file is not None:
                store.save(file, self)
            return "converged"

        return _first_unfinished(spread(work, self.runs, n_threads))

    def _setting_by_setting(
        self, deadline: float, n_threads: int, file: Path | None, tell: Callable[[CrossPath], None]
    ) -> str:
        workers: dict[int, _Worker] = {}

        def work(run: FoldRun) -> str:
            left = deadline - time.perf_counter()
            if left <= 0:
                return "time_limit"
            if run.number not in workers:
                workers[run.number] = _Worker(self.problem, self.folds[run.number], run, self.searches)
            status = workers[run.number].step(left)
            tell(self)
            return status

        while self.n_settings < len(self.searches.settings):
            behind = [run for run in self.runs if run.done == self.n_settings]
            status = _first_unfinished(spread(work, behind, n_threads))
            if file is not None:
                store.save(file, self)
            if status in UNFINISHED:
                return status
        return "converged"

    # -- what came out -----------------------------------------------------------------------------------------------

    @property
    def sizes(self) -> Floats:
        """Variables of every configuration, on average over the folds."""
        by_setting = np.array([[len(s) for s in run.selected[: self.n_settings]] for run in self.runs], dtype=float)
        return np.repeat(by_setting.mean(axis=0), len(self.searches.way.penalties))

    def out_of_fold(self) -> OutOfFold:
        """The predictions of all folds, an entry a row that was held out."""
        n = len(self.configurations)
        if n == 0:
            raise InvalidInput("no configuration was finished in every fold: give more time, or a smaller grid")
        stacked = [[np.stack([getattr(h, name) for h in run.held[:n]], axis=1) for run in self.runs] for name in _PARTS]
        risk, mean, loss = (np.concatenate(parts) for parts in stacked)
        row = np.concatenate([run.test for run in self.runs])
        name = self.problem.model.name
        seen, strata = observed(self.problem, name), self.problem.extras.strata
        return OutOfFold(
            name,
            row,
            np.repeat(np.arange(len(self.runs)), [len(run.test) for run in self.runs]),
            risk,
            mean,
            loss,
            np.concatenate([np.asarray(run.null) for run in self.runs]),
            Observed(
                seen.y[row],
                np.ones(len(row)),
                None if seen.event is None else seen.event[row],
                None if seen.trials is None else seen.trials[row],
            ),
            self.problem.weights,
            tuple(class_labels(self.problem)),
            None if strata is None else strata[row],
        )

    def chosen_in(self, configuration: int) -> list[tuple[Name, ...]]:
        """The variables that a configuration selected in every fold."""
        setting = configuration // len(self.searches.way.penalties)
        return [tuple(self._name(v) for v in run.selected[setting]) for run in self.runs]


_PARTS = ("risk", "mean", "loss")


def _first_unfinished(statuses: Iterator[str]) -> str:
    """The status of the first fold that was stopped; those after it are not begun, or given up."""
    return next((status for status in statuses if status in UNFINISHED), "converged")


def check_family(kind: Family) -> None:
    """Families that predict and have a likelihood can be tuned; the others are refused with the reason."""
    from fbed.result.fitted.responses import PREDICTING

    others = (
        "choose 'gaussian', 'binomial', 'multinomial', 'ordinal', 'poisson', 'negative_binomial', 'gamma', 'cox', "
        "'weibull' or 'mixed'"
    )
    if kind.name not in PREDICTING:
        raise InvalidInput(
            f"family {kind.name!r} tests variables, and has no model that predicts: it cannot be tuned; {others}"
        )
    if not kind.likelihood:
        raise InvalidInput(
            f"family {kind.name!r} has no likelihood, so that held-out rows have no deviance to choose by: {others}"
        )


@dataclass(frozen=True)
class FoldProgress(Progress):
    """How many of the searches of all folds are done: `step` are, `remaining` are not."""

    def __str__(self) -> str:
        return f"{self.step:,} of {self.step + self.remaining:,} searches, {self.n_selected} selected by the last"


@contextmanager
def _telling(progress: bool | Callable[[Progress], None] | None) -> Iterator[Callable[[CrossPath], None]]:
    """Progress by finished searches, on the terminal or to a function."""
    started = time.perf_counter()

    def now(cross: CrossPath) -> Progress:
        done = sum(run.done for run in cross.runs)
        left = len(cross.runs) * len(cross.searches.settings) - done
        last = next((run.selected[-1] for run in reversed(cross.runs) if run.selected), ())
        return FoldProgress("folds", None, done, len(last), left, done, None, time.perf_counter() - started)

    if progress is None or progress is False:
        yield lambda cross: None
    elif progress is True:
        with display() as tell:
            yield lambda cross: tell(now(cross))
    else:
        yield lambda cross: progress(now(cross))
