"""How the model on the selected variables is estimated; every way ends in a `FinalModel`, which predicts and is saved.

A way may have penalties to choose from: the folds choose them together with the configuration of the search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fbed.api.problem import Problem
from fbed.errors import InvalidInput
from fbed.models.base import Fit, FittedModel
from fbed.result.figures import figure
from fbed.result.fitted import FinalModel
from fbed.result.fitted.columns import read_columns
from fbed.result.fitted.make import predictive, reestimated
from fbed.rules.p_values import Floats
from fbed.tuning.firth import firth
from fbed.tuning.likelihood import Common, Standardised, descend, likelihood_of, regression_of
from fbed.tuning.penalised import FEW, LASSO, RIDGE, lasso, ridge
from fbed.tuning.shrinkage import shrunken

WAYS = ("auto", "ml", "ridge", "firth", "shrinkage", "parameterwise", "lasso")
"""Maximum likelihood or ridge as the folds have it, then each alone, Firth's correction, Heinze's global and
parameterwise shrinkage, and L1."""

_WEAK = 1e-3  # ridge where a likelihood has no maximum, and Firth's correction is not for the family
_ENDLESS = ", since the likelihood has no maximum"
_CORRECTED = ("binomial", "cox")
_PLENTY = 50.0  # rows a coefficient from which estimates are not too large by more than 1%


@dataclass(frozen=True)
class FinalWay:
    """A way to estimate, with the penalties that the folds choose from (None where there is nothing to choose)."""

    name: str
    penalties: tuple[float | None, ...] = (None,)

    def fit(
        self,
        problem: Problem,
        estimates: FittedModel,
        selected: Sequence[int],
        predicts_only: bool = False,
        near: Fit | None = None,
        common: Common | None = None,
    ) -> list[FinalModel]:
        """A model for every penalty, from the maximum-likelihood estimates of the selected variables.

        Models that only predict are not asked how well they fit. `near` is a fit on nearly the same set, and `common`
        is what models of other sets have found.
        """
        of = Selected(problem, estimates, selected, predicts_only, near, common)
        if self.name == "ml" and not _is_infinite(estimates):
            return [_with_baseline(of)]
        return _MADE[self.name](self, of)

    def with_penalty(self, penalty: float | None) -> FinalWay:
        """The same way with one penalty."""
        return FinalWay(self.name, (penalty,))


@dataclass(frozen=True)
class Selected:
    """Variables of a problem whose model is to be estimated, with the estimates of maximum likelihood."""

    problem: Problem
    estimates: FittedModel
    variables: Sequence[int]
    predicts_only: bool = False
    near: Fit | None = None
    common: Common | None = None

    @cached_property
    def on(self) -> Standardised:
        """The likelihood on their standardised columns."""
        return Standardised(self.problem, self.variables, self.near, self.common)

    @cached_property
    def base(self) -> FinalModel:
        """The model with the estimates of maximum likelihood, its columns known."""
        model = predictive(self.problem, self.estimates, self.variables)
        return replace(
            model,
            columns=model.columns or read_columns(self.problem.design, self.variables, self.problem.known_columns),
        )

    def model(self, parameters: Floats, words: str, covariance: Floats | None = None) -> FinalModel:
        """The model with other parameters, those of the standardised columns."""
        shown = self.on.presented(parameters, covariance)
        known = self.predicts_only or not len(parameters)
        deviance = self.estimates.deviance if known else float(self.on.at(parameters).value[0])
        values = shown.values.tolist()
        about = (words, shown.covariance, self.predicts_only)
        return reestimated(self.problem, self.base, self.variables, values, deviance, *about)


def find_way(name: str, family: str) -> FinalWay:
    """The way of a name, or an error."""
    if name not in WAYS:
        raise InvalidInput(f"final must be one of {', '.join(map(repr, WAYS))}, got {name!r}")
    if name == "firth" and family not in _CORRECTED:
        raise InvalidInput(f"final='firth' is for family 'binomial' and 'cox', not {family!r}: choose 'ml' or 'ridge'")
    penalties: dict[str, tuple[float | None, ...]] = {"auto": (None, *FEW), "ridge": RIDGE, "lasso": LASSO}
    return FinalWay(name, penalties.get(name, (None,)))


def check_way(way: FinalWay, problem: Problem) -> FinalWay:
    """Refuse a way that the family does not have, before any work is done; where there is a choice, it is made."""
    if way.name == "auto":
        return way if _may_shrink(problem) else FinalWay("ml")
    if way.name != "ml":
        like = regression_of(problem)
        if way.name in ("shrinkage", "parameterwise") and like.name not in _SHRINKING:
            raise InvalidInput(
                f"final={way.name!r} is for the families {', '.join(map(repr, _SHRINKING))}, not {like.name!r}: choose "
                "'ml' or 'ridge'"
            )
    return way


def rows_a_coefficient(problem: Problem) -> float:
    """Rows (or events) for every coefficient of a model with all variables."""
    model = problem.model
    predictors = getattr(getattr(model, "likelihood", None), "n_predictors", 1)
    return float(model.n) / max(1.0, float(problem.design.width.sum()) * predictors)


def _may_shrink(problem: Problem) -> bool:
    """Whether ridge is worth a try: it is there for the family, and rows are not so many that it changes nothing."""
    try:
        regression_of(problem)
    except InvalidInput:
        return False
    return rows_a_coefficient(problem) < _PLENTY


_SHRINKING = ("gaussian", "binomial", "poisson", "gamma", "cox")


def _with_baseline(of: Selected) -> FinalModel:
    """The maximum-likelihood model as held-out rows need it; a Cox model has its baseline hazard."""
    model = of.base
    if model.family != "cox":
        return model
    return reestimated(of.problem, model, of.variables, model.coefficients, model.deviance, model.estimation)


def _is_infinite(estimates: FittedModel) -> bool:
    """Whether the likelihood has no maximum, so that coefficients are infinite or merely large."""
    return estimates.separated or not all(map(math.isfinite, estimates.coefficients))


def _auto(way: FinalWay, of: Selected) -> list[FinalModel]:
    """Where the likelihood has no maximum, the smallest penalty stands for none."""
    endless = _is_infinite(of.estimates)
    wanted = tuple(dict.fromkeys(p or FEW[0] for p in way.penalties if p is not None or endless))
    by_penalty = dict(zip(wanted, _ridge(FinalWay("ridge", wanted), of), strict=True))
    return [
        by_penalty[penalty] if penalty is not None else _without_penalty(of, by_penalty) for penalty in way.penalties
    ]


def _without_penalty(of: Selected, by_penalty: dict[float, FinalModel]) -> FinalModel:
    if not _is_infinite(of.estimates):
        return _with_baseline(of)
    least = by_penalty[FEW[0]]
    return replace(least, estimation=f"{least.estimation}{_ENDLESS}")


def _ridge(way: FinalWay, of: Selected) -> list[FinalModel]:
    penalties = tuple(float(p) for p in way.penalties if p is not None)
    found = ridge(of.on, penalties) if penalties else []
    return [of.model(one, f"ridge (λ = {figure(penalty)})") for penalty, one in zip(penalties, found, strict=True)]


def _lasso(way: FinalWay, of: Selected) -> list[FinalModel]:
    penalties = tuple(float(p) for p in way.penalties if p is not None)
    words = "lasso (λ = {} of the largest)"
    found = lasso(of.on, penalties)
    return [of.model(one, words.format(figure(penalty))) for penalty, one in zip(penalties, found, strict=True)]


def _firth(way: FinalWay, of: Selected) -> list[FinalModel]:
    parameters, covariance = firth(of.on)
    return [of.model(parameters, "Firth's penalised likelihood", covariance)]


def _instead(way: FinalWay, of: Selected) -> list[FinalModel]:
    """Where the likelihood has no maximum."""
    if of.estimates.family in _CORRECTED:
        parameters, covariance = firth(of.on)
        return [of.model(parameters, f"Firth's penalised likelihood{_ENDLESS}", covariance)]
    (parameters,) = ridge(of.on, (_WEAK,))
    return [of.model(parameters, f"ridge (λ = {_WEAK:g}){_ENDLESS}")]


def _shrunken(way: FinalWay, of: Selected) -> list[FinalModel]:
    if _is_infinite(of.estimates):
        return _instead(way, of)
    fitted = descend(likelihood_of(of.on), of.on.start)
    parameters, factors = shrunken(of.on, fitted, by_variable=way.name == "parameterwise")
    kind = "parameterwise" if way.name == "parameterwise" else "global"
    told = ", ".join(figure(factor) for factor in factors.tolist()[:20]) or "none"
    words = f"{kind} shrinkage ({'factor' if len(factors) == 1 else 'factors'} {told})"
    return [of.model(np.asarray(parameters), words)]


_MADE = {
    "auto": _auto,
    "ml": _instead,
    "ridge": _ridge,
    "lasso": _lasso,
    "firth": _firth,
    "shrinkage": _shrunken,
    "parameterwise": _shrunken,
}
