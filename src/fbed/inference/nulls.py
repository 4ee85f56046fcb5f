"""Outcomes as they would be if no candidate mattered: permuted where rows are alike, simulated where they are not.

Rows that differ before any candidate is looked at (an offset, an exposure, variables that are forced in) must not be
exchanged; their outcomes are drawn from the model that has just these. All other outcomes are permuted: within strata,
and whole clusters among clusters of the same size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fbed.api.problem import Problem
from fbed.errors import InvalidInput
from fbed.models.base import FittedModel, Indices
from fbed.rules.p_values import Floats
from fbed.tables.outcomes import Outcome

_MOST_ROWS = 10**7  # that frequencies may stand for
_LARGEST_RATE = 30.0  # logarithm of a mean beyond which counts cannot be drawn

Draw = Callable[[np.random.Generator], Problem]


@dataclass(frozen=True)
class Null:
    """How outcomes are drawn under the hypothesis that no candidate matters; `method` says it in words."""

    draw: Draw
    method: str


def null_of(problem: Problem, forced: Sequence[int]) -> tuple[Problem, Null]:
    """The problem with a row for every frequency, and how its outcome is drawn anew."""
    problem = _row_by_row(problem)
    offset = problem.extras.offset
    if forced or (offset is not None and np.ptp(offset) > 0):
        return problem, Null(_simulated(problem, forced), "parametric bootstrap of the model without candidates")
    return problem, _permuted(problem)


def _row_by_row(problem: Problem) -> Problem:
    weights = problem.weights
    if np.all(weights == 1.0):
        return problem
    if np.any(weights != np.round(weights)) or weights.sum() > _MOST_ROWS:
        raise InvalidInput(
            "outcomes can be permuted and simulated only row by row: sample_weight must hold whole numbers (how often "
            f"a row occurs), {_MOST_ROWS:g} rows at most in all; leave it out, or round it"
        )
    rows = np.repeat(np.arange(len(weights), dtype=np.intp), weights.astype(np.intp))
    return problem.on_rows(rows, np.ones(len(rows)), n_jobs=problem.n_jobs)


# -- permutations ------------------------------------------------------------------------------------------------------


def _permuted(problem: Problem) -> Null:
    extras, n = problem.extras, problem.table.n_rows
    blocks = _exchangeable(n, extras.cluster, extras.strata)
    ways = sum(math.lgamma(len(block) + 1.0) for block in blocks)
    if ways < math.log(100.0):
        raise InvalidInput(
            "there are hardly any permutations of the outcome: clusters are permuted as wholes, among clusters of the "
            "same size and stratum, and too few are alike"
        )

    def draw(rng: np.random.Generator) -> Problem:
        order = np.arange(n, dtype=np.intp)
        for block in blocks:
            order[block] = block[rng.permutation(len(block))]
        moved = {name: getattr(extras, name) for name in ("trials", "entry")}  # they belong to the outcome
        changed = {name: value[order] for name, value in moved.items() if value is not None}
        return problem.with_outcome(_reordered(problem.outcome, order), replace(extras, **changed))

    within = " within strata" if extras.strata is not None else ""
    what = "permutations of the outcome" if extras.cluster is None else "permutations of whole clusters"
    return Null(draw, what + within)


def _exchangeable(n: int, cluster: Indices | None, strata: Indices | None) -> list[NDArray[np.intp]]:
    """Sets of units that may change places: a row a unit, with the rows of a unit side by side."""
    stratum = np.zeros(n, dtype=np.intp) if strata is None else strata
    if cluster is None:
        order = np.argsort(stratum, kind="stable")
        return [part[:, None] for part in np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1)]
    order = np.argsort(cluster, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(cluster[order])) + 1)
    alike: dict[tuple[int, ...], list[NDArray[np.intp]]] = {}
    for rows in members:
        alike.setdefault((len(rows), *stratum[rows].tolist()), []).append(rows)
    return [np.array(rows) for rows in alike.values()]


def _reordered(outcome: Outcome, order: Indices) -> Outcome:
    event = None if outcome.event is None else outcome.event[order]
    return replace(outcome, values=outcome.values[order], event=event)


# -- simulations -------------------------------------------------------------------------------------------------------


def _simulated(problem: Problem, forced: Sequence[int]) -> Draw:
    name = problem.model.name
    if name not in _DRAWS or problem.options.cov is not None:
        raise InvalidInput(
            f"with an offset, an exposure or variables that are forced in, outcomes are simulated from the model that "
            f"has just these, which family {name!r}{' with a robust covariance' if problem.options.cov else ''} cannot "
            f"do: it can be done for {', '.join(_DRAWS)}"
        )
    fitted = problem.model.describe(list(forced))
    if fitted.separated:
        raise InvalidInput("the variables that are forced in separate the outcome: nothing can be simulated from them")
    predictor = linear_predictor(problem, forced, fitted)
    draw = _DRAWS[name]

    def make(rng: np.random.Generator) -> Problem:
        return problem.with_outcome(_as_outcome(problem.outcome, draw(problem, fitted, predictor, rng)))

    return make


def linear_predictor(problem: Problem, variables: Sequence[int], fitted: FittedModel) -> Floats:
    """Of every row, the offset included."""
    coefficients = dict(zip(fitted.terms, fitted.coefficients, strict=True))
    out = np.full(problem.table.n_rows, coefficients.get("(intercept)", 0.0))
    for variable in variables:
        center, scale = problem.design.moments(variable)
        labels = problem.design.labels(variable)
        if problem.design.width[variable]:
            raw = problem.design.columns(variable) * scale + center
            out += raw @ np.array([coefficients[label] for label in labels])
    return out if problem.extras.offset is None else out + problem.extras.offset


def _gaussian(problem: Problem, fitted: FittedModel, predictor: Floats, rng: np.random.Generator) -> Floats:
    degrees = problem.model.n - len(fitted.terms)
    return predictor + math.sqrt(fitted.deviance / degrees) * rng.normal(size=len(predictor))


def _binomial(problem: Problem, fitted: FittedModel, predictor: Floats, rng: np.random.Generator) -> Floats:
    chance = 1.0 / (1.0 + np.exp(-np.clip(predictor, -700.0, 700.0)))
    trials = problem.extras.trials
    return rng.binomial(1 if trials is None else trials.astype(np.int64), chance).astype(np.float64)


def _poisson(problem: Problem, fitted: FittedModel, predictor: Floats, rng: np.random.Generator) -> Floats:
    return rng.poisson(_mean(predictor)).astype(np.float64)


def _negative_binomial(problem: Problem, fitted: FittedModel, predictor: Floats, rng: np.random.Generator) -> Floats:
    dispersion = dict(zip(fitted.terms, fitted.coefficients, strict=True))["dispersion"]
    if dispersion <= 0:
        return _poisson(problem, fitted, predictor, rng)
    return rng.poisson(_mean(predictor) * rng.gamma(1.0 / dispersion, dispersion, len(predictor))).astype(np.float64)


def _gamma(problem: Problem, fitted: FittedModel, predictor: Floats, rng: np.random.Generator) -> Floats:
    mean = _mean(predictor)
    spread = float(np.mean((problem.outcome.values / mean - 1.0) ** 2))  # 1/shape, by moments
    return np.maximum(mean * rng.gamma(1.0 / spread, spread, len(mean)), np.finfo(float).tiny)


def _mean(predictor: Floats) -> Floats:
    return np.exp(np.minimum(predictor, _LARGEST_RATE))


_DRAWS: dict[str, Callable[[Problem, FittedModel, Floats, np.random.Generator], Floats]] = {
    "gaussian": _gaussian,
    "binomial": _binomial,
    "poisson": _poisson,
    "negative_binomial": _negative_binomial,
    "gamma": _gamma,
}


def _as_outcome(outcome: Outcome, drawn: Floats) -> Outcome:
    """Drawn numbers as an outcome of the same kind; 0 and 1 stand for the two classes of one that has classes."""
    if len(outcome.levels) != 2 or not set(np.unique(drawn).tolist()) <= {0.0, 1.0}:
        return replace(outcome, values=drawn, levels=tuple(np.unique(drawn)[:21].tolist()))
    if outcome.categorical:
        return replace(outcome, values=drawn)
    low, high = outcome.levels
    return replace(outcome, values=np.where(drawn == 1.0, float(high), float(low)))
