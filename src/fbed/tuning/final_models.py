"""How the model on the selected variables is estimated; every way ends in a `FinalModel`, which predicts and is saved.

A way may have penalties to choose from: the folds choose them together with the configuration of the search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbed.doors.problem import Problem
from fbed.errors import InvalidInput
from fbed.models.base import FittedModel
from fbed.result.figures import figure
from fbed.result.fitted import FinalModel
from fbed.result.fitted.make import predictive, reestimated
from fbed.rules.tails import Floats
from fbed.tuning.firth import firth
from fbed.tuning.likelihood import Standardised, descend, likelihood_of, regression_of
from fbed.tuning.penalised import LASSO, RIDGE, lasso, ridge
from fbed.tuning.shrinkage import shrunken

WAYS = ("ml", "ridge", "firth", "shrinkage", "parameterwise", "lasso")
"""Maximum likelihood, ridge, Firth's correction, Heinze's global and parameterwise shrinkage, and L1."""

_WEAK = 1e-3  # ridge where a likelihood has no maximum, and Firth's correction is not for the family
_CORRECTED = ("binomial", "cox")


@dataclass(frozen=True)
class FinalWay:
    """A way to estimate, with the penalties that the folds choose from (None where there is nothing to choose)."""

    name: str
    penalties: tuple[float | None, ...] = (None,)

    def fit(self, problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> list[FinalModel]:
        """A model for every penalty, from the maximum-likelihood estimates of the selected variables."""
        if self.name == "ml" and not _is_infinite(estimates):
            return [predictive_with_baseline(problem, estimates, selected)]
        return _MADE[self.name](self, problem, estimates, selected)

    def with_penalty(self, penalty: float | None) -> FinalWay:
        """The same way with one penalty."""
        return FinalWay(self.name, (penalty,))


def find_way(name: str, family: str) -> FinalWay:
    """The way of a name, or an error."""
    if name not in WAYS:
        raise InvalidInput(f"final must be one of {', '.join(map(repr, WAYS))}, got {name!r}")
    if name == "firth" and family not in _CORRECTED:
        raise InvalidInput(f"final='firth' is for family 'binomial' and 'cox', not {family!r}: choose 'ml' or 'ridge'")
    penalties: dict[str, tuple[float | None, ...]] = {"ridge": RIDGE, "lasso": LASSO}
    return FinalWay(name, penalties.get(name, (None,)))


def check_way(way: FinalWay, problem: Problem) -> None:
    """Refuse a way that the family does not have, before any work is done."""
    if way.name != "ml":
        like = regression_of(problem)
        if way.name in ("shrinkage", "parameterwise") and like.name not in _SHRINKING:
            raise InvalidInput(
                f"final={way.name!r} is for the families {', '.join(map(repr, _SHRINKING))}, not {like.name!r}: choose "
                "'ml' or 'ridge'"
            )


_SHRINKING = ("gaussian", "binomial", "poisson", "gamma", "cox")


def predictive_with_baseline(problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> FinalModel:
    """The maximum-likelihood model as held-out rows need it; a Cox model has its baseline hazard."""
    model = predictive(problem, estimates, selected)
    if model.family != "cox":
        return model
    return reestimated(problem, model, selected, model.coefficients, model.deviance, model.estimation)


def _is_infinite(estimates: FittedModel) -> bool:
    """Whether the likelihood has no maximum, so that coefficients are infinite or merely large."""
    return estimates.separated or not all(math.isfinite(value) for value in estimates.coefficients)


def _model(
    on: Standardised,
    problem: Problem,
    estimates: FittedModel,
    selected: Sequence[int],
    parameters: Floats,
    words: str,
    covariance: Floats | None = None,
) -> FinalModel:
    shown = on.presented(parameters, covariance)
    base = predictive(problem, estimates, selected)
    deviance = float(on.at(parameters).value[0]) if len(parameters) else estimates.deviance
    return reestimated(problem, base, selected, shown.values.tolist(), deviance, words, shown.covariance)


def _ridge(way: FinalWay, problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> list[FinalModel]:
    on = Standardised(problem, selected)
    penalties = tuple(float(p) for p in way.penalties if p is not None)
    return [
        _model(on, problem, estimates, selected, found, f"ridge (λ = {figure(penalty)})")
        for penalty, found in zip(penalties, ridge(on, penalties), strict=True)
    ]


def _lasso(way: FinalWay, problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> list[FinalModel]:
    on = Standardised(problem, selected)
    penalties = tuple(float(p) for p in way.penalties if p is not None)
    return [
        _model(on, problem, estimates, selected, found, f"lasso (λ = {figure(penalty)} of the largest)")
        for penalty, found in zip(penalties, lasso(on, penalties), strict=True)
    ]


def _firth(way: FinalWay, problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> list[FinalModel]:
    on = Standardised(problem, selected)
    parameters, covariance = firth(on)
    return [_model(on, problem, estimates, selected, parameters, "Firth's penalised likelihood", covariance)]


def _instead(way: FinalWay, problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> list[FinalModel]:
    """Where the likelihood has no maximum."""
    why = ", since the likelihood has no maximum"
    on = Standardised(problem, selected)
    if estimates.family in _CORRECTED:
        parameters, covariance = firth(on)
        words = f"Firth's penalised likelihood{why}"
        return [_model(on, problem, estimates, selected, parameters, words, covariance)]
    (parameters,) = ridge(on, (_WEAK,))
    return [_model(on, problem, estimates, selected, parameters, f"ridge (λ = {_WEAK:g}){why}")]


def _shrunken(way: FinalWay, problem: Problem, estimates: FittedModel, selected: Sequence[int]) -> list[FinalModel]:
    if _is_infinite(estimates):
        return _instead(way, problem, estimates, selected)
    on = Standardised(problem, selected)
    fitted = descend(likelihood_of(on), on.start)
    parameters, factors = shrunken(on, fitted, by_variable=way.name == "parameterwise")
    kind = "parameterwise" if way.name == "parameterwise" else "global"
    told = ", ".join(figure(factor) for factor in factors.tolist()[:20]) or "none"
    words = f"{kind} shrinkage ({'factor' if len(factors) == 1 else 'factors'} {told})"
    return [_model(on, problem, estimates, selected, np.asarray(parameters), words)]


_MADE = {
    "ml": _instead,
    "ridge": _ridge,
    "lasso": _lasso,
    "firth": _firth,
    "shrinkage": _shrunken,
    "parameterwise": _shrunken,
}
