"""Does every test hold its level? How often an irrelevant predictor passes at α = .05, family by family.

    python -m experiments levels                              # all cells; what has been counted is kept
    python -m experiments levels cox poisson --fresh          # count these families again, from the beginning
    python -m experiments levels --repetitions 50 --jobs 2    # fewer outcomes a cell, two processes

A cell is a family with a test, a kind of predictor and a number of rows. In every repetition an outcome and several
predictors of each kind are drawn, all independent of each other, and each predictor is tested alone: 300 repetitions
are 3,000 tests of a numeric predictor, fewer of categories. Counts are in `levels.csv` beside this file, and LEVELS.md
is made from them; a run that was stopped goes on where it was. Slow families get a part of the repetitions.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import fbed
from fbed.api.options import DataOptions
from fbed.api.problem import Problem
from fbed.api.reading import read_problem

LEVEL = 0.05
SIZES = (50, 200, 1000)
REPETITIONS = 300
CHUNK = 20  # repetitions between two times of saving
CATEGORIES = ("binary 5 %", "3 levels", "30 levels")
BETWEEN = "numeric, by cluster"  # constant within clusters
COPIES = {"numeric": 10, "binary 5 %": 10, "heavy-tailed": 10, "3 levels": 5, "30 levels": 3, BETWEEN: 10}
KINDS = tuple(kind for kind in COPIES if kind != BETWEEN)
CRITERION = fbed.LikelihoodRatio(LEVEL)
FIELDS = ("case", "test", "predictor", "n", "tests", "rejected")

Draw = Callable[[np.random.Generator, int], tuple[Any, dict[str, Any]]]
Counts = dict[tuple[str, str], int]  # (test, predictor): how often it passed


@dataclasses.dataclass(frozen=True)
class Case:
    """An outcome to be drawn, and the tests that it is given; `part` of the repetitions are made."""

    family: str
    draw: Draw
    tests: tuple[str, ...] = ("default",)
    kinds: tuple[str, ...] = KINDS
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    part: float = 1.0


def _normal(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, Any]]:
    return rng.normal(size=n), {}


def _classes(*probabilities: float) -> Draw:
    """Classes of which each has two rows at least: a single one is refused."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, Any]]:
        while True:
            codes = rng.choice(len(probabilities), n, p=probabilities)
            if np.bincount(codes, minlength=len(probabilities)).min() > 1:
                return np.array(["a", "b", "c"])[codes], {}

    return draw


def _ordered(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, Any]]:
    y, _ = _classes(0.5, 0.3, 0.2)(rng, n)
    return pd.Series(pd.Categorical(y, ["a", "b", "c"], ordered=True)), {}


def _survival(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, Any]]:
    """A third is censored."""
    time, censored = rng.exponential(size=n), rng.exponential(2.0, size=n)
    return (np.minimum(time, censored), time < censored), {}


def _effects(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Clusters of five rows and what their rows have in common."""
    cluster = np.arange(n) // 5
    return cluster, 0.7 * rng.normal(size=n // 5)[cluster]


def _clustered(outcome: Callable[[np.random.Generator, np.ndarray], np.ndarray]) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, Any]]:
        cluster, effect = _effects(rng, n)
        return outcome(rng, effect), {"cluster": cluster}

    return draw


_gaussian = _clustered(lambda rng, effect: effect + rng.normal(size=len(effect)))
_logistic = _clustered(lambda rng, effect: (effect + rng.logistic(size=len(effect)) > 0).astype(int))
_counts = _clustered(lambda rng, effect: rng.poisson(np.exp(effect)))
_overdispersed = _clustered(lambda rng, effect: rng.poisson(rng.gamma(2.0, np.exp(effect) / 2.0)))
_positive = _clustered(lambda rng, effect: rng.gamma(2.0, np.exp(effect)))

_ALL = ("default", "lr", "score", "wald")
_WITHIN = (*KINDS, BETWEEN)
_ROBUST = {"cov": "cluster"}

CASES = {
    "gaussian": Case("gaussian", _normal, ("default", "HC3")),
    "gaussian, clusters": Case("gaussian", _gaussian, kinds=_WITHIN, options=_ROBUST, part=0.5),
    "binomial": Case("binomial", _classes(0.5, 0.5), _ALL),
    "binomial 5 %": Case("binomial", _classes(0.95, 0.05), _ALL),
    "binomial, clusters": Case("binomial", _logistic, kinds=_WITHIN, options=_ROBUST, part=1 / 3),
    "multinomial": Case("multinomial", _classes(0.5, 0.3, 0.2), _ALL, part=0.5),
    "ordinal": Case("ordinal", _ordered, _ALL, part=0.5),
    "ordinal, probit": Case("ordinal", _ordered, options={"link": "probit"}, part=0.5),
    "poisson": Case("poisson", lambda rng, n: (rng.poisson(1.0, n), {}), _ALL),
    "poisson, clusters": Case("poisson", _counts, kinds=_WITHIN, options=_ROBUST, part=1 / 3),
    "negative_binomial": Case(
        "negative_binomial", lambda rng, n: (rng.negative_binomial(2, 0.5, n), {}), _ALL, part=0.5
    ),
    "negative_binomial, clusters": Case(
        "negative_binomial", _overdispersed, kinds=_WITHIN, options=_ROBUST, part=1 / 3
    ),
    "gamma": Case("gamma", lambda rng, n: (rng.gamma(2.0, size=n), {}), _ALL),
    "gamma, clusters": Case("gamma", _positive, kinds=_WITHIN, options=_ROBUST, part=1 / 3),
    "cox": Case("cox", _survival, _ALL, part=0.5),
    "weibull": Case("weibull", _survival, _ALL, part=0.5),
    "quantile": Case("quantile", _normal),
    "robust": Case("robust", lambda rng, n: (rng.standard_t(2, n), {})),
    "mixed": Case("mixed", _gaussian, kinds=_WITHIN, part=1 / 3),
    "gee, identity": Case("gee", _gaussian, kinds=_WITHIN, options={"link": "identity"}, part=1 / 3),
    "gee, logit": Case("gee", _logistic, kinds=_WITHIN, options={"link": "logit"}, part=1 / 3),
    "gee, log": Case("gee", _counts, kinds=_WITHIN, options={"link": "log"}, part=1 / 3),
    "spearman": Case("spearman", _normal),
    "gsquare": Case("gsquare", _classes(0.5, 0.3, 0.2), kinds=CATEGORIES),
}


class Task(NamedTuple):
    """Some repetitions of a case."""

    case: str
    n: int
    first: int
    last: int


def predictors(rng: np.random.Generator, n: int, kinds: Sequence[str]) -> pd.DataFrame:
    """Predictors of every kind, independent of everything."""
    names = [(kind, f"{kind}, {copy}") for kind in kinds for copy in range(COPIES[kind])]
    return pd.DataFrame({name: _predictor(rng, n, kind) for kind, name in names})


def _predictor(rng: np.random.Generator, n: int, kind: str) -> Any:
    if kind.endswith("levels"):
        codes = rng.integers(0, int(kind.split()[0]), n)
        return pd.Categorical.from_codes(codes, [f"level {code}" for code in range(codes.max() + 1)])
    if kind == "binary 5 %":
        return (rng.random(n) < 0.05).astype(float)
    if kind == BETWEEN:
        return rng.normal(size=n // 5)[np.arange(n) // 5]
    return rng.normal(size=n) if kind == "numeric" else rng.standard_t(2, n)


def count(task: Task) -> Counts:
    """How often the predictors pass each test of a case."""
    case = CASES[task.case]
    passed: Counts = {(test, kind): 0 for test in case.tests for kind in case.kinds}
    for repetition in range(task.first, task.last):
        rng = np.random.default_rng([list(CASES).index(task.case), task.n, repetition])
        y, extras = case.draw(rng, task.n)
        X = predictors(rng, task.n, case.kinds)
        given = {"family": case.family, "engine": "exhaustive", **case.options, **extras}
        problem = read_problem(X, y, [CRITERION], options=DataOptions.of(given))
        for test in case.tests:
            small = log_p_values(_with_test(problem, test)) < math.log(LEVEL)
            for name, is_small in zip(X, small.tolist(), strict=True):
                passed[test, name.rsplit(", ", 1)[0]] += is_small
    return passed


def _with_test(problem: Problem, test: str) -> Problem:
    if test == "default":
        return problem
    asked = {"test": "wald", "cov": test} if test == "HC3" else {"test": test}
    return dataclasses.replace(problem, options=dataclasses.replace(problem.options, **asked))


def log_p_values(problem: Problem) -> np.ndarray:
    """Of every predictor alone, as a selection at a level would have them."""
    model = problem.paired_model if problem.pairs_rows(CRITERION) else problem.model
    return model.fit([]).gains(np.arange(problem.table.n_variables, dtype=np.intp)).log_p


class Table:
    """Counts by cell, in a CSV file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[tuple[str, str, str, int], tuple[int, int]] = {}
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    key = (row["case"], row["test"], row["predictor"], int(row["n"]))
                    self.cells[key] = int(row["tests"]), int(row["rejected"])

    def done(self, case: str, n: int) -> int:
        """Repetitions that all cells of a case have."""
        wanted = [(test, kind) for test in CASES[case].tests for kind in CASES[case].kinds]
        return min(self.cells.get((case, test, kind, n), (0, 0))[0] // COPIES[kind] for test, kind in wanted)

    def forget(self, cases: Iterable[str]) -> None:
        """Begin some cases again."""
        gone = set(cases)
        self.cells = {key: value for key, value in self.cells.items() if key[0] not in gone}

    def add(self, task: Task, passed: Counts) -> None:
        """Count some repetitions, and save."""
        for (test, kind), number in passed.items():
            key = (task.case, test, kind, task.n)
            before = self.cells.get(key, (0, 0))[1] if task.first else 0
            self.cells[key] = task.last * COPIES[kind], before + number
        self.save()

    def save(self) -> None:
        """The file is there completely or not at all."""
        unfinished = self.path.with_suffix(".tmp")
        order = {name: position for position, name in enumerate(CASES)}
        known = sorted((key for key in self.cells if key[0] in order), key=lambda key: (order[key[0]], key[3]))
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(FIELDS)
            writer.writerows((*key, *self.cells[key]) for key in known)
        unfinished.replace(self.path)


def run(table: Table, cases: Sequence[str], repetitions: int = REPETITIONS, jobs: int = 1) -> None:
    """Bring every cell to its repetitions, a chunk of each at a time, so that a run that is stopped is balanced."""
    for goal in range(CHUNK, repetitions + CHUNK, CHUNK):
        tasks = [
            Task(case, n, table.done(case, n), wanted)
            for case in cases
            for n in SIZES
            if table.done(case, n) < (wanted := math.ceil(CASES[case].part * min(goal, repetitions)))
        ]
        for task, passed in _counted(tasks, jobs):
            table.add(task, passed)
            print(f"{task.case}, n = {task.n}: {task.last} repetitions", file=sys.stderr)


def _counted(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Counts]]:
    if jobs == 1:
        yield from ((task, count(task)) for task in tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting: dict[Future[Counts], Task] = {pool.submit(count, task): task for task in tasks}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()


# -- the report ------------------------------------------------------------------------------------------------------


def verdict(tests: int, rejected: int) -> str:
    """'+' for more than the level and three standard errors, '−' for less."""
    error = math.sqrt(LEVEL * (1.0 - LEVEL) / tests)
    difference = rejected / tests - LEVEL
    return "+" if difference > 3.0 * error else "−" if difference < -3.0 * error else ""


def markdown(table: Table) -> str:
    """A table for each number of rows."""
    marks = [verdict(*cell) for cell in table.cells.values()]
    total = sum(cell[0] for cell in table.cells.values())
    lines = [
        "# Levels of the tests",
        "",
        f"How often an irrelevant predictor passes at α = {LEVEL:g}, in percent, by `python -m experiments levels`: "
        f"{len(marks)} cells, {total:,} tests. **Bold** numbers are more than three standard errors above the level "
        f"({marks.count('+')} cells), numbers in *italics* as far below it ({marks.count('−')} cells). What to do "
        "about the former is said in [docs/families.md](../docs/families.md).",
        "",
        "For each outcome several predictors of a kind are drawn: 10, of categories 5 or 3. Tests of the same outcome "
        "are not quite independent, so that with few outcomes the standard errors are too small. *default* is what "
        "is used when no test is named: the likelihood ratio, or for categories with too many levels for χ², pairs of "
        "rows. *clusters* are of five rows; such families have a predictor more, which is constant within clusters.",
    ]
    for n in SIZES:
        lines += ["", f"## {n:,} rows", "", *_lines(table, n)]
    return "\n".join(lines) + "\n"


def _lines(table: Table, n: int) -> Iterator[str]:
    columns = (*KINDS, BETWEEN)
    yield "| family | test | outcomes | " + " | ".join(columns) + " |"
    yield "|---|---|---:|" + "---:|" * len(columns)
    for name, case in CASES.items():
        for test in case.tests:
            cells = [table.cells.get((name, test, kind, n)) for kind in columns]
            known = [cell for cell in cells if cell is not None]
            if known:
                outcomes = table.done(name, n)
                row = " | ".join("" if cell is None else _percent(*cell) for cell in cells)
                yield f"| {name} | {_test_name(case, test)} | {outcomes:,} | {row} |"


def _test_name(case: Case, test: str) -> str:
    return "Wald, robust" if case.options == _ROBUST else test


def _percent(tests: int, rejected: int) -> str:
    text, mark = f"{100.0 * rejected / tests:.1f}", verdict(tests, rejected)
    return f"**{text}**" if mark == "+" else f"*{text}*" if mark == "−" else text
