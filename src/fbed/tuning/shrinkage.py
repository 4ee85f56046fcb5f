"""Shrinkage after selection (Verweij & van Houwelingen 1993; Dunkler, Sauerbrei & Heinze 2016).

Each row is predicted by the coefficients that a fit without it would have, found by one Newton step from the fit on all
(exact for linear models). Regressed on these predictions, the outcome tells by how much coefficients are too large: one
factor for all of them, or one for each variable. The intercept is then found again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.models.likelihoods.cox import Cox
from fbed.models.likelihoods.glm import Glm, GlmPoint
from fbed.models.likelihoods.newton import Columns
from fbed.rules.p_values import Floats
from fbed.tuning.likelihood import Squares, SquaresPoint, Standardised, descend, likelihood_of


def shrunken(on: Standardised, parameters: Floats, by_variable: bool) -> tuple[Floats, Floats]:
    """Parameters after shrinkage, and the factors: one, or one for each variable in the order of the columns."""
    first = int(on.likelihood.intercept)
    if not len(on.kept):
        return parameters, np.ones(0)
    owner = on.owner if by_variable else np.zeros(len(on.kept))
    variables, place = np.unique(owner, return_index=True)
    variables = variables[np.argsort(place)]
    without = on.X * (parameters[first:] - changes(on, parameters))
    parts = np.column_stack([without[:, owner == v].sum(axis=1) for v in variables])
    if first:
        parts = np.column_stack([np.ones(len(parts)), parts])
    columns = Columns(parts)
    factors = np.maximum(descend(likelihood_of(on, columns), _start(on, columns, parameters[:first]))[first:], 0.0)
    out = parameters.copy()
    for v, factor in zip(variables, factors, strict=True):
        out[first:][owner == v] *= factor
    free = np.zeros(len(out), dtype=bool)
    free[:first] = True
    return descend(likelihood_of(on), out, free), factors


def _start(on: Standardised, columns: Columns, intercept: Floats) -> Floats:
    """Factors of 1, or of 0 where a row that decides alone would be predicted beyond all numbers without it."""
    ones = np.concatenate([intercept, np.ones(columns.size - len(intercept))])
    return ones if np.isfinite(on.at(ones, columns).value[0]) else on.likelihood.start(columns.size)


def changes(on: Standardised, parameters: Floats) -> Floats:
    """How much the slopes change when a row is left out, rows × columns: fit on all less fit without it."""
    point: Any = on.at(parameters)
    covariance = np.linalg.inv(point.derivatives()[1][0])
    if isinstance(on.likelihood, Cox):
        return _score_residuals(on, parameters) @ covariance
    residual, curvature = _rows(on, point)
    Z = on.columns.Z
    leverage = curvature * np.einsum("ij,jk,ik->i", Z, covariance, Z)
    step = (residual / np.maximum(1.0 - leverage, 1e-9))[:, None] * (Z @ covariance)
    return np.asarray(step[:, int(on.likelihood.intercept) :])


def _rows(on: Standardised, point: Any) -> tuple[Floats, Floats]:
    """Residual and curvature of one unit of each row."""
    like = on.likelihood
    if isinstance(like, Squares):
        assert isinstance(point, SquaresPoint)
        return point.residual[:, 0], np.ones(len(like.y))
    if not isinstance(like, Glm):
        raise InvalidInput(
            "shrinkage factors are for the families 'gaussian', 'binomial', 'poisson', 'gamma' and 'cox', not "
            f"{like.name!r}: choose final='ridge'"
        )
    assert isinstance(point, GlmPoint)
    return point.residual()[:, 0] / like.weights, point.curvature()[:, 0] / like.weights


def _score_residuals(on: Standardised, parameters: Floats) -> Floats:
    """∫(x − x̄)dM of every row."""
    cox = on.likelihood
    assert isinstance(cox, Cox)
    risk = cox.risk
    X = on.X[risk.order]
    eta = X @ parameters
    relative = np.exp(eta - eta.max())
    hazard = (risk.weights * relative)[:, None]
    denominator = risk.per_term(hazard)
    mean = risk.per_term(hazard * X) / denominator
    share = risk.multiplicity[:, None] / denominator
    out = -relative[:, None] * (X * risk.expected(share) - risk.expected(share * mean))
    counts = np.add.reduceat(risk.multiplicity, risk.term_starts)[:, None]
    own = np.add.reduceat(risk.multiplicity[:, None] * mean, risk.term_starts, axis=0) / counts
    out[risk.deaths] += X[risk.deaths] - own[risk.group]
    back = np.empty_like(out)
    back[risk.order] = out
    return back
