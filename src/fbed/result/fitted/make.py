"""From a search's last fit to the final model: estimates, how well they fit, and what a prediction needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from fbed.larger_than_memory.designs import FarDesign
from fbed.larger_than_memory.time_order import JoinedRisks
from fbed.models.base import FittedModel, correlation_of
from fbed.models.likelihoods.glm import gamma_twice_negative
from fbed.result.fitted import likelihoods, responses
from fbed.result.fitted.checks import Check, CoxRows, dispersion, overdispersion
from fbed.result.fitted.columns import plain, read_columns
from fbed.result.fitted.likelihoods import Observed
from fbed.result.fitted.model import FinalModel
from fbed.result.fitted.ordered_rows import OrderedRows
from fbed.result.fitted.training_rows import TrainingRows
from fbed.result.overview import Overview
from fbed.rules.p_values import Floats

if TYPE_CHECKING:
    from fbed.api.problem import Problem

_CLASSES = ("multinomial", "ordinal")


def finish(problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> FinalModel:
    """The final model of a problem."""
    model = predictive(problem, estimates, selected)
    return _with_fit(problem, model, selected) if _predicts(estimates) else model


def with_inflation(problem: Problem, model: FinalModel, selected: Sequence[int], overview: Overview) -> FinalModel:
    """The same with the variance inflation of its variables."""
    names = [str(problem.table.name(variable)) for variable in selected]
    return replace(model, inflation=dict(zip(names, overview.inflation, strict=False)))


def predictive(problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> FinalModel:
    """The final model with what predictions of linear predictors and means need, and no look at the rows."""
    return FinalModel(
        **{f.name: getattr(estimates, f.name) for f in fields(FittedModel)},
        n=problem.model.n,
        n_variables=problem.table.n_variables,
        link=_link(problem),
        classes=_classes(problem),
        columns=read_columns(problem.design, selected, problem.known_columns) if _predicts(estimates) else (),
        n_parameters=len(estimates.terms),
        has_offset=problem.extras.told_offset is not None,
    )


def reestimated(
    problem: Problem,
    model: FinalModel,
    selected: Sequence[int],
    coefficients: Sequence[float],
    deviance: float,
    estimation: str,
    covariance: Floats | None = None,
    predicts_only: bool = False,
) -> FinalModel:
    """The model with coefficients that were found in another way, and everything that depends on them.

    One that `predicts_only` is not asked how well it fits its own rows.
    """
    errors = None if covariance is None else tuple(np.sqrt(np.maximum(np.diag(covariance), 0.0)).tolist())
    model = replace(
        model,
        coefficients=tuple(float(value) for value in coefficients),
        standard_errors=errors,
        correlation=correlation_of(covariance),
        deviance=deviance,
        estimation=estimation,
        separated=False,
        directions=(),
        reached=(),
        columns=model.columns or read_columns(problem.design, selected, problem.known_columns),
    )
    return model if predicts_only and model.family != "cox" else _with_fit(problem, model, selected)


def _predicts(estimates: FittedModel) -> bool:
    known = bool(np.isfinite(estimates.reached or estimates.coefficients).all())
    return known and estimates.family in responses.PREDICTING


def _link(problem: Problem) -> str:
    usual = {"binomial": "logit", "multinomial": "logit", "ordinal": "logit"}
    usual |= dict.fromkeys(("poisson", "negative_binomial", "gamma", "cox", "weibull"), "log")
    return problem.options.link or getattr(problem.model, "link", None) or usual.get(problem.model.name, "identity")


def _classes(problem: Problem) -> tuple[object, ...]:
    name, outcome = problem.model.name, problem.outcome
    if name in _CLASSES:
        return tuple(plain(label) for label in outcome.classes(name)[1])
    if (name == "binomial" and problem.extras.several_trials is None) or (name == "gee" and len(outcome.levels) == 2):
        return tuple(plain(level) for level in outcome.levels)
    return ()


def _with_fit(problem: Problem, model: FinalModel, selected: Sequence[int]) -> FinalModel:
    """Log-likelihoods, number of parameters, checks and baseline, from one look at the rows."""
    if isinstance(problem.design, FarDesign):
        return _with_far_fit(problem, problem.design, model, selected)
    terms = TrainingRows(problem.design, selected)
    eta = terms.predictors(model)
    offset = problem.extras.offset
    if offset is not None:
        eta = eta + offset[:, None]
    model = replace(model, n_parameters=_n_parameters(model))
    if model.family == "cox":
        return _cox(problem, model, terms, eta[:, 0])
    seen = observed(problem, model.family)
    known = dict(zip(model.terms, model.coefficients, strict=True)) | {
        "deviance": model.deviance,
        "null_deviance": model.null_deviance,
    }
    with np.errstate(over="ignore", invalid="ignore"):
        mean = responses.mean(model, eta)
        found = likelihoods.log_likelihood(model.family, eta, mean, seen, known)
    if model.infinite and model.family in likelihoods.OF_DEVIANCE:  # in the limit, not at the coefficients shown
        found = likelihoods.of_deviance(model.family, seen, model.deviance, model.null_deviance)
    model = replace(model, log_likelihood=found, null_log_likelihood=_null(model, found))
    return replace(model, checks=tuple(_checks(model, seen, mean)))


def _with_far_fit(problem: Problem, design: FarDesign, model: FinalModel, selected: Sequence[int]) -> FinalModel:
    """The same where the rows are elsewhere: from deviances and sums."""
    if model.family == "cox":
        return _far_cox(problem, design, replace(model, n_parameters=_n_parameters(model)), selected)
    seen = observed(problem, model.family)
    found = likelihoods.of_deviance(model.family, seen, model.deviance, model.null_deviance)
    model = replace(
        model,
        n_parameters=_n_parameters(model),
        log_likelihood=found,
        null_log_likelihood=_null(model, found),
    )
    if model.family != "poisson" and seen.trials is None:
        return model
    check = dispersion(design.pearson(model, selected), float(seen.weights.sum()) - len(model.terms))
    return replace(model, checks=() if check is None else (check,))


def _n_parameters(model: FinalModel) -> int:
    """All that were estimated: coefficients but those that are 0 for want of information, and a spread."""
    errors = model.standard_errors or (math.nan,) * len(model.terms)
    estimated = sum(
        not (error == 0.0 and value == 0.0) for error, value in zip(errors, model.coefficients, strict=True)
    )
    return estimated + (model.family in ("gaussian", "gamma"))


def _null(model: FinalModel, found: float | None) -> float | None:
    """The same without variables, from the difference of the deviances."""
    if found is None:
        return None
    if model.family == "gaussian":
        return likelihoods.gaussian(model.null_deviance, model.n)
    if model.family == "gamma":
        both = gamma_twice_negative(np.array([model.deviance, model.null_deviance]), model.n)
        return found - 0.5 * float(both[1] - both[0])
    return found - 0.5 * (model.null_deviance - model.deviance)


def observed(problem: Problem, family: str) -> Observed:
    """The outcome of a problem, as the likelihoods of a family want it."""
    outcome, extras = problem.outcome, problem.extras
    if family in _CLASSES:
        y: Floats = outcome.classes(family)[0].astype(float)
    elif family == "binomial" and extras.several_trials is None:
        y = outcome.zero_one()
    else:
        y = outcome.values
    return Observed(y, problem.weights, outcome.event, extras.several_trials, extras.cluster)


def _checks(model: FinalModel, seen: Observed, mean: Floats) -> list[Check]:
    found = None
    if model.family == "poisson":
        found = overdispersion(seen.y, mean, mean, seen.weights, len(model.terms))
    elif model.family == "binomial" and seen.trials is not None:
        expected, variance = seen.trials * mean, seen.trials * mean * (1.0 - mean)
        found = overdispersion(seen.y, expected, variance, seen.weights, len(model.terms))
    return [] if found is None else [found]


def _cox(problem: Problem, model: FinalModel, terms: TrainingRows, eta: Floats) -> FinalModel:
    rows = CoxRows(problem.risk_sets, problem.weights, problem.extras.strata, eta)
    return _with_rows(problem, model, rows, terms.along)


def _far_cox(problem: Problem, design: FarDesign, model: FinalModel, selected: Sequence[int]) -> FinalModel:
    """The rows are in order of time, and their columns elsewhere."""
    sums = getattr(problem.model, "sums", None)
    assert isinstance(sums, JoinedRisks)
    sums.forget()
    eta = design.predictors(model, selected)
    rows = OrderedRows(problem.outcome.values, sums.course, problem.extras.strata, eta)
    return _with_rows(problem, model, rows, lambda v: design.along(selected, v))


def _with_rows(
    problem: Problem, model: FinalModel, rows: CoxRows | OrderedRows, products: Callable[[Floats], Floats]
) -> FinalModel:
    """`products` are those of the terms with numbers that the rows have and that add up to 0."""
    found, covariance = rows.log_likelihood(model.deviance), model.covariance
    usable = covariance is not None and len(model.terms) and bool(np.isfinite(covariance).all())
    checks = rows.proportional(products, covariance, model.terms) if usable and covariance is not None else []
    return replace(
        model,
        log_likelihood=found,
        null_log_likelihood=_null(model, found),
        baseline=rows.baselines([plain(label) for label in problem.extras.strata_labels]),
        center=rows.center,
        checks=tuple(checks),
    )
