"""`familywise`: the level at which a search finds anything in noise with a chosen probability; and is there anything?

A search selects nothing exactly when the smallest p-value of its first scan is not below its level. The distribution of
that p-value when nothing matters comes from outcomes that are permuted or simulated: many of them in one pass, or one
scan each, and no search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack

import numpy as np

from fbed.api.options import SelectArguments
from fbed.api.problem import Problem, algorithm_name
from fbed.errors import InvalidInput
from fbed.inference.inclusion import check_count
from fbed.inference.nulls import Null, null_of
from fbed.inference.request import find, full_search, read
from fbed.inference.results import Inference, listed
from fbed.inference.runner import Listener, run_all
from fbed.models.base import FittedModel, Indices
from fbed.models.engines.bound_functions import P
from fbed.rules.criteria import Criterion, LikelihoodRatio
from fbed.rules.p_values import ChiSquare, ExactF, Floats
from fbed.search.search import Plan
from fbed.tables.table import Name
from fbed.threads import thread_count

_FEWEST = 399  # draws of the outcome
_BELOW = 20  # of them, that shall lie below the level
_SEED = 20190109  # of the draws in `select`, which has no seed of its own
_INTERVALS = 2**23  # of candidates and draws that are held at a time
_ROUNDING = 1e-8  # of sums over rows, relative
_ANY = LikelihoodRatio(1.0 - 1e-9)  # lets the best of a scan pass, however weak it is


@dataclass(frozen=True)
class FamilywiseLevel:
    """The level of every test, and how it was found."""

    alpha: float
    level: float
    n_draws: int
    method: str

    @property
    def note(self) -> str:
        """What a reader of the result must know."""
        return (
            f"alpha = {self.alpha:.3g} was set so that anything at all is selected with probability {self.level:g} at "
            f"most when nothing matters ({self.n_draws} {self.method}). This is weak control: once something matters, "
            "further variables may be selected by chance more often"
        )


def familywise_level(problem: Problem, plan: Plan, level: float, n_draws: int | None = None) -> FamilywiseLevel:
    """The largest level at which a search selects anything with probability `level` at most, when nothing matters.

    The k-th smallest of n such p-values, k = ⌊level·(n + 1)⌋: one more of the same kind lies below it with probability
    k/(n + 1) or less, whatever n is; more draws make the level itself less of a matter of luck.
    """
    if not (isinstance(level, (int, float)) and 0.0 < level < 1.0):
        raise InvalidInput(f"familywise is a probability strictly between 0 and 1, got {level!r}")
    n = max(_FEWEST, math.ceil(_BELOW / level) - 1) if n_draws is None else max(n_draws, math.ceil(1.0 / level) - 1)
    whole, null = null_of(problem, plan.forced)
    seeds = np.random.SeedSequence(_SEED).spawn(n)
    best = np.sort(smallest_p_values(whole, plan, null, seeds))
    log_alpha = float(best[math.floor(level * (n + 1) + 1e-9) - 1])
    if log_alpha < math.log(np.finfo(float).tiny):
        raise InvalidInput(
            "the smallest p-values of outcomes in which nothing matters are far below any that can be a level: the "
            "family does not fit these data; choose another"
        )
    return FamilywiseLevel(min(math.exp(log_alpha), 1.0 - 1e-9), level, n, null.method)


def smallest_p_values(problem: Problem, plan: Plan, null: Null, seeds: list[np.random.SeedSequence]) -> Floats:
    """Logarithm of the smallest p-value of the first scan, for every draw of the outcome."""
    if _is_plain_linear(problem, plan):
        return _by_correlations(problem, plan, null, seeds)

    def one(seed: np.random.SeedSequence) -> float:
        return first_scan(null.draw(np.random.default_rng(seed)), plan)

    problem.design  # noqa: B018  # made once, before the workers start
    if _is_plain_glm(problem, plan):
        drawn = [null.draw(np.random.default_rng(seed)) for seed in seeds]
        searched = _may_be_best(problem, plan, drawn)
        return _all_of(lambda i: first_scan(drawn[i], searched[i]), range(len(seeds)), problem)
    return _all_of(one, seeds, problem)


def _all_of(one: Callable[[Any], float], items: Sequence[Any], problem: Problem) -> Floats:
    done = run_all(one, items, thread_count(problem.n_jobs))
    if done.status == "interrupted":
        raise KeyboardInterrupt  # a part of the draws says nothing about the level
    return np.array(done.answers)


def first_scan(problem: Problem, plan: Plan) -> float:
    """Logarithm of the smallest p-value of the first scan; 0 where the outcome is such that there is none."""
    try:
        scan = problem.scanner(plan, _ANY).forward(list(plan.forced), plan.candidates, everybody=False)
    except InvalidInput:
        return 0.0
    return 0.0 if scan.chosen is None else scan.chosen.log_p


def _is_plain_linear(problem: Problem, plan: Plan) -> bool:
    return problem.model.name == "gaussian" and _is_plain(problem, plan)


def _is_plain_glm(problem: Problem, plan: Plan) -> bool:
    extras = problem.extras
    alike = extras.offset is None and extras.trials is None and problem.test == "lr"
    return problem.model.name in ("binomial", "poisson") and alike and _is_plain(problem, plan)


def _is_plain(problem: Problem, plan: Plan) -> bool:
    """Whether all candidates are single columns beside an intercept."""
    single = problem.design.varying[plan.candidates] | (problem.design.width[plan.candidates] == 0)
    return problem.options.cov is None and not plan.forced and bool(single.all())


def _may_be_best(problem: Problem, plan: Plan, drawn: Sequence[Problem]) -> list[Plan]:
    """Who may have the smallest p-value, for every draw: scores of many draws in one pass bound the likelihood ratios.

    All rows have the same mean before anything is selected, so that the information of a column is that of its norm.
    """
    counts = problem.model.name == "poisson"
    varying = plan.candidates[problem.design.varying[plan.candidates]]
    together = max(1, _INTERVALS // max(1, len(varying)))
    out: list[Plan] = []
    for first in range(0, len(drawn), together):
        some = drawn[first : first + together]
        Y = np.column_stack([each.outcome.values if counts else each.outcome.zero_one() for each in some])
        lower, upper = _score_bounds(problem, varying, Y, counts)
        contenders = upper >= lower.max(axis=0, initial=0.0) * (1.0 - 1e-9)
        out += [replace(plan, candidates=varying[contenders[:, i]]) for i in range(len(some))]
    return out


def _score_bounds(problem: Problem, variables: Indices, Y: Floats, counts: bool) -> tuple[Floats, Floats]:
    """Bounds on the likelihood ratio of every variable for every outcome, variables × outcomes."""
    design, mean = problem.design, Y.mean(axis=0)
    n = len(Y)
    weight = mean if counts else mean * (1.0 - mean)
    stretch = (
        1.0 if counts else float(np.maximum(mean, 1.0 - mean).max())
    )  # z is (1 − μ)u of a success, −μu of a failure
    residuals = Y - mean
    lower, upper = np.empty((2, len(variables), Y.shape[1]))
    for start in range(0, len(variables), design.block_size):
        rows = slice(start, start + design.block_size)
        columns = design.block(variables[rows])
        score, own = columns.T @ residuals, n * weight
        reach = np.abs(columns).max(axis=0)
        furthest = stretch * np.abs(score) / own * reach[:, None] * (1.0 + _ROUNDING)
        statistic = score**2 / own
        lower[rows] = P(furthest) * statistic * (1.0 - _ROUNDING)
        with np.errstate(over="ignore", invalid="ignore"):
            most = P(np.maximum(-furthest, -1.0 + 1e-12)) * statistic * (1.0 + _ROUNDING)
        upper[rows] = np.where(furthest < 1.0 - 1e-9, most, np.inf)
    return lower, upper


def _by_correlations(problem: Problem, plan: Plan, null: Null, seeds: list[np.random.SeedSequence]) -> Floats:
    """All draws in one pass over the columns: the best p-value is that of the largest correlation."""
    design, n = problem.design, problem.table.n_rows
    drawn = [null.draw(np.random.default_rng(seed)) for seed in seeds]
    offset = problem.extras.offset
    outcomes = np.column_stack([each.outcome.values - (0.0 if offset is None else offset) for each in drawn])
    outcomes = outcomes - outcomes.mean(axis=0)
    outcomes /= np.sqrt((outcomes**2).sum(axis=0))
    varying = plan.candidates[design.varying[plan.candidates]]
    largest = np.zeros(len(seeds))
    for start in range(0, len(varying), design.block_size):
        columns = design.block(varying[start : start + design.block_size]) / math.sqrt(n)
        np.maximum(largest, ((columns.T @ outcomes) ** 2).max(axis=0), out=largest)
    statistic = -n * np.log1p(-np.minimum(largest, 1.0 - 1e-12))
    return ExactF(float(n), n - 1.0).log_sf(statistic, np.ones(len(seeds)))


# -- is there anything in it? -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SelectionTest(Inference):
    """One p-value for the selected model as a whole.

    Attributes
    ----------
    p_value : probability of a model that explains as much or more, found by the same search, when nothing matters.
    statistic : minus the logarithm of the naive p-value of the selected model against none.
    drawn : the same for searches on outcomes in which nothing matters.
    frequencies : part of those searches that selected each candidate.
    """

    kind: ClassVar[str] = "selection_test"
    p_value: float
    statistic: float
    drawn: Floats
    selected: tuple[Name, ...]
    candidates: tuple[Name, ...]
    frequencies: Floats
    n_resamples: int
    random_state: int
    settings: Mapping[str, Any]
    status: str
    notes: tuple[str, ...]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        """A row a candidate: whether it is selected, and how often it is when nothing matters."""
        chosen = set(self.selected)
        order = np.argsort(-self.frequencies, kind="stable").tolist()
        return [
            {
                "variable": self.candidates[i],
                "selected": self.candidates[i] in chosen,
                "frequency": float(self.frequencies[i]),
            }
            for i in order
        ]

    def words(self) -> tuple[str, ...]:
        """What was found and what it means."""
        empty = float(np.mean(self.drawn == 0.0)) if len(self.drawn) else 0.0
        return (
            f"The search selects {len(self.selected)} variables ({listed(self.selected)}). p = {self.p_value:.3g} for "
            f"the selection as a whole, by {self.n_resamples} {self.settings['method']}.",
            f"Of searches on such outcomes, in which nothing matters, {1.0 - empty:.0%} select something. The p-value "
            "speaks of the model as a whole, not of its variables.",
        )

    def methods(self) -> str:
        """Words for a methods section."""
        return (
            f"The p-value of the selected model as a whole, adjusted for the selection, was computed by repeating the "
            f"whole selection ({self.settings['algorithm']}, {self.settings['criterion']}) on {self.n_resamples} "
            f"{self.settings['method']} (Finos, Brombin and Salmaso, 2010). Seed: {self.random_state}."
        )


def selection_test(
    X: Any,
    y: Any,
    *,
    n_resamples: int = 199,
    random_state: int | None = None,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    progress: Listener = None,
    **options: Unpack[SelectArguments],
) -> SelectionTest:
    """The p-value of a selection as a whole: the same search on outcomes in which nothing matters.

    Parameters
    ----------
    X, y
        As in `fbed.select`.
    n_resamples : int
        Number of searches. The smallest p-value is 1/(n_resamples + 1).
    random_state, n_jobs, time_limit, progress
        As in `fbed.inclusion`.
    **options
        Arguments of `fbed.select`.

    Returns
    -------
    SelectionTest
    """
    check_count(n_resamples, "n_resamples")
    asked = read(X, y, options, n_seeds=n_resamples, random_state=random_state, n_jobs=n_jobs, time_limit=time_limit)
    observed = full_search(asked, describe=True)
    whole, null = null_of(asked.problem, asked.plan.forced)
    whole.design  # noqa: B018  # made once, before the threads start

    def one(seed: np.random.SeedSequence) -> tuple[float, tuple[int, ...]]:
        problem = null.draw(np.random.default_rng(seed))
        found = find(problem, asked.plan, asked.criterion, describe=True)
        return _evidence(problem, asked.plan, asked.criterion, found.selected, found.model), found.selected

    done = run_all(one, asked.seeds, asked.n_workers, time_limit, progress)
    drawn = np.array([value for value, _ in done.answers])
    statistic = _evidence(asked.problem, asked.plan, asked.criterion, observed.selected, observed.model)
    places = np.concatenate([np.zeros(0, np.intp), *(asked.places(selected) for _, selected in done.answers)])
    n = len(drawn)
    return SelectionTest(
        p_value=(1 + int((drawn >= statistic * (1.0 - 1e-9)).sum())) / (n + 1),
        statistic=statistic,
        drawn=drawn,
        selected=asked.names(observed.selected),
        candidates=asked.candidates,
        frequencies=np.bincount(places, minlength=len(asked.candidates)) / max(1, n),
        n_resamples=n,
        random_state=asked.seed,
        settings={
            "algorithm": algorithm_name(asked.plan),
            "criterion": asked.criterion_text,
            "method": null.method,
        },
        status=done.status,
        notes=asked.problem.notes,
        seconds=time.perf_counter() - asked.started,
    )


def _evidence(
    problem: Problem, plan: Plan, criterion: Criterion, selected: tuple[int, ...], model: FittedModel | None
) -> float:
    """Minus the logarithm of the naive p-value of the selected model against the one without candidates."""
    if not selected or model is None:
        return 0.0
    if not (problem.model.has_likelihood and problem.options.cov is None and model.terms):
        return -first_scan(problem, replace(plan, candidates=np.sort(np.array(selected, dtype=np.intp))))
    smaller = problem.model.describe(list(plan.forced))
    df = np.array([float(len(model.terms) - len(smaller.terms))])
    if problem.model.name == "gaussian":
        n = problem.model.n
        statistic = n * math.log(smaller.deviance / max(model.deviance, 1e-10 * model.null_deviance))
        return -float(ExactF(n, n - len(smaller.terms)).log_sf(np.array([statistic]), df)[0])
    return -float(ChiSquare().log_sf(np.array([smaller.deviance - model.deviance]), df)[0])
