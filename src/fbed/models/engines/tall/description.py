"""Coefficients of a model by sums over rows as people read them, also where some are infinite.

A column that explains its rows in the limit has an infinite coefficient, and what the others have is that of the rows
which are left. So estimates and standard errors are at hand: nothing has to be fitted on a basis of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from fbed.models.base import Fit, FittedModel
from fbed.models.engines.tall.explained_columns import FarOut
from fbed.models.engines.tall.factor import NotTall
from fbed.models.engines.tall.row_questions import ExplainingVerbs, ShapedVerbs, base_of
from fbed.models.likelihoods.likelihood import Predicted
from fbed.models.presentation import Estimates, standardised_to_users_scale
from fbed.models.recession import Recession

if TYPE_CHECKING:
    from fbed.models.engines.tall.fit import TallFit

_SHOWN = 1e-17  # what a fit may be short of its maximum where standard errors are shown, which do not tell its way then
_FAR_OUT = 40.0  # a linear predictor that leaves next to nothing of a row


def described(fit: TallFit) -> FittedModel:
    """Coefficients and standard errors on the scale of the user's data."""
    model = fit.model
    try:
        fit = fit if fit.short <= _SHOWN else fit.again()
        told = _estimates(fit)
    except NotTall:
        told = None
    if told is None:
        return model.careful.describe(fit.selected, _predicted(fit))
    base = base_of(model.sums)
    return told.fitted(model.name, base + fit.deviance, base + model.null_deviance)


def _estimates(fit: TallFit) -> Estimates | None:
    """Estimates of a fit; None where rows that are left do not tell all about the others."""
    design, selected, constant = fit.model.design, fit.selected, fit.sums.constant
    left = fit.rows_left
    if hasattr(fit.sums, "estimates"):
        return cast("ShapedVerbs", fit.sums).estimates(selected, fit.maximum, fit.covariance)
    if left is None:
        return standardised_to_users_scale(design, selected, fit.maximum, fit.covariance, constant=constant)
    if not hasattr(fit.sums, "far_out") or not (sums := cast("ExplainingVerbs", fit.sums)).explains_apart(selected):
        return None
    known = fit.covariance.copy()  # as if idle coefficients were
    known[left.idle] = known[:, left.idle] = 0.0
    told = standardised_to_users_scale(design, selected, fit.maximum, known, constant=constant)
    out, _ = sums.far_out(selected, fit.maximum, _FAR_OUT)
    return _going_to_infinity(told, {fit.place(variable).start: way for variable, way in out.items()})


def _going_to_infinity(told: Estimates, ways: Mapping[int, FarOut]) -> Estimates:
    """Estimates of which some, by their places, are infinite, each by itself."""
    values, places = told.values.copy(), list(ways)
    heading, span = np.zeros(len(values)), np.zeros((len(values), len(places)))
    values[places] += [way.step for way in ways.values()]
    heading[places] = [way.way for way in ways.values()]
    span[places, np.arange(len(places))] = 1.0
    return replace(told, values=values, change=np.eye(len(values)), recession=Recession(span, heading))


def _predicted(fit: TallFit) -> Fit | None:
    """Where the ordinary model may begin, with rows that S explains far out."""
    if not hasattr(fit.sums, "far_out"):
        return None
    _, predictors = cast("ExplainingVerbs", fit.sums).far_out(fit.selected, fit.maximum, _FAR_OUT)
    return None if predictors is None else cast("Fit", Predicted(predictors[:, None]))
