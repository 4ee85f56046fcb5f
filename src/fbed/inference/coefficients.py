"""What became of the coefficients over resamples: spread, sign, and distance from the model on all candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbed.api.problem import Problem
from fbed.inference.request import Asked, Found
from fbed.models.base import FittedModel
from fbed.search.search import Plan
from fbed.tables.table import Name

_ROOM = 5  # rows (or events) a coefficient for the model on all candidates to be worth comparing with
_PERCENTILES = (2.5, 50.0, 97.5)


@dataclass(frozen=True)
class TermSummary:
    """One coefficient over the resamples; it is 0 where its variable was not selected.

    Attributes
    ----------
    estimate : in the model selected on all rows, 0 if not selected there.
    low, median, high : 2.5, 50 and 97.5 % points over the resamples.
    sign_stability : how often, when selected, it has the sign of `estimate` (or its most frequent sign).
    full_estimate, full_error : in the model on all candidates, fitted on all rows; None where that cannot be fitted.
    rmsd_ratio : root mean squared difference from `full_estimate`, over bootstrap samples, in units of `full_error`;
        above 1, selection adds variance.
    relative_bias : mean over the bootstrap samples that selected it, in percent of `full_estimate`, less 100.
    """

    term: str
    variable: Name
    estimate: float
    low: float
    median: float
    high: float
    sign_stability: float | None
    full_estimate: float | None = None
    full_error: float | None = None
    rmsd_ratio: float | None = None
    relative_bias: float | None = None


def full_model(problem: Problem, plan: Plan) -> FittedModel | None:
    """The model on all candidates, where there are rows enough for it and every coefficient is finite."""
    variables = [*plan.forced, *plan.candidates.tolist()]
    if problem.design.width[variables].sum() * _ROOM > problem.model.n:
        return None
    model = problem.model.describe(variables)
    usable = model.terms and not model.separated and model.standard_errors is not None
    return model if usable else None


def owners(problem: Problem, variables: Sequence[int], model: FittedModel) -> dict[str, int]:
    """The variable that each term belongs to; intercepts, thresholds and the like belong to none."""
    labels = {label: variable for variable in variables for label in problem.design.labels(variable)}
    found = {term: labels.get(term, labels.get(term.rsplit(" → ", 1)[0])) for term in model.terms}
    return {term: variable for term, variable in found.items() if variable is not None}


def observed(problem: Problem, whole: Problem, variables: Sequence[int], model: FittedModel | None) -> dict[str, float]:
    """Coefficients of a resample by their terms.

    Where the first level of a category, or the first class of the outcome, is missing from the resample, coefficients
    are differences from another one, and are left out (NaN).
    """
    if model is None or not model.terms:
        return {}
    same_outcome = not whole.outcome.categorical or problem.outcome.levels[:1] == whole.outcome.levels[:1]
    out = {}
    for term, variable in owners(problem, variables, model).items():
        comparable = same_outcome and all(
            problem.table.factors[j].levels[:1] == whole.table.factors[j].levels[:1]
            for j in whole.table.columns(variable)
            if j in whole.table.factors
        )
        out[term] = model.coefficients[model.terms.index(term)] if comparable else np.nan
    return out


def summarised(
    asked: Asked,
    full: Found,
    reference: FittedModel | None,
    counted: Sequence[dict[str, float]],
    varied: Sequence[dict[str, float]],
) -> tuple[TermSummary, ...]:
    """Every term that was ever seen, in the order of the variables."""
    if full.model is None or not full.model.terms or not counted:
        return ()
    problem, everybody = asked.problem, [*asked.plan.forced, *asked.plan.candidates.tolist()]
    labels = {label: v for v in everybody for label in problem.design.labels(v)}
    seen = list(dict.fromkeys(term for values in (*counted, *varied) for term in values))
    owner = {term: labels.get(term, labels.get(term.rsplit(" → ", 1)[0])) for term in seen}
    ordered = sorted((v, term) for term, v in owner.items() if v is not None)
    mine = dict(zip(full.model.terms, full.model.coefficients, strict=True))
    return tuple(_summary(asked, term, v, mine.get(term, 0.0), reference, counted, varied) for v, term in ordered)


def _summary(
    asked: Asked,
    term: str,
    variable: int,
    estimate: float,
    reference: FittedModel | None,
    counted: Sequence[dict[str, float]],
    varied: Sequence[dict[str, float]],
) -> TermSummary:
    values = np.array([each.get(term, 0.0) for each in counted])
    known = np.sort(values[~np.isnan(values)])
    low, median, high = (_percentile(known, at) for at in _PERCENTILES)
    signs = np.sign([each[term] for each in counted if term in each and not np.isnan(each[term])])
    sign = np.sign(estimate) or np.sign(signs.sum()) or 1.0
    same = float(np.mean(signs == sign)) if len(signs) else None
    name = asked.problem.table.name(variable)
    plain = TermSummary(term, name, estimate, low, median, high, same)
    if reference is None or term not in reference.terms or not varied:
        return plain
    return _compared(plain, reference, varied)


def _compared(plain: TermSummary, reference: FittedModel, varied: Sequence[dict[str, float]]) -> TermSummary:
    assert reference.standard_errors is not None
    at = reference.terms.index(plain.term)
    estimate, error = reference.coefficients[at], reference.standard_errors[at]
    values = np.array([each.get(plain.term, 0.0) for each in varied])
    values = values[np.isfinite(values)]
    kept = np.array([each[plain.term] for each in varied if plain.term in each])
    kept = kept[np.isfinite(kept)]
    ratio = float(np.sqrt(np.mean((values - estimate) ** 2)) / error) if len(values) and error > 0 else None
    bias = float(100.0 * (kept.mean() / estimate - 1.0)) if len(kept) and estimate != 0 else None
    known = (plain.term, plain.variable, plain.estimate, plain.low, plain.median, plain.high, plain.sign_stability)
    return TermSummary(*known, estimate, error, ratio, bias)


def _percentile(values: np.ndarray, at: float) -> float:
    """The smallest value that so many percent do not exceed; values may be infinite."""
    if not len(values):
        return np.nan
    return float(values[max(0, int(np.ceil(at / 100.0 * len(values))) - 1)])
