"""Firth's penalised likelihood for two classes and for survival times: ℓ + ½·log|I|, finite where classes separate.

Logistic regression (Heinze & Schemper 2002): the score gains Σ h(½ − μ)x, with h the leverages. Cox regression (Heinze
& Schemper 2001): it gains half the trace of I⁻¹ times the derivative of I, a third central moment of the columns over
every risk set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.models.likelihoods.cox import Cox
from fbed.models.likelihoods.glm import BINOMIAL, Glm, GlmPoint
from fbed.rules.tails import Floats
from fbed.tuning.likelihood import Standardised, descend

_ARRIVED = (
    1e-12  # scoring converges a digit at a time where classes separate: a millionth of a standard error is enough
)


def firth(on: Standardised) -> tuple[Floats, Floats]:
    """Parameters and their covariance: the inverse information there, of logistic regression that of the data which the
    correction adds to, as R's logistf has it.
    """
    like = on.likelihood
    if isinstance(like, Glm) and like.distribution is BINOMIAL:
        gain: Callable[[Standardised, Any, Floats], Floats] = _logistic
    elif isinstance(like, Cox):
        gain = _cox
    else:
        raise InvalidInput(
            f"Firth's correction is for family 'binomial' and 'cox', not {like.name!r}: choose final='ridge'"
        )

    def evaluate(parameters: Floats) -> tuple[float, Callable[[], tuple[Floats, Floats]]]:
        point = on.at(parameters)
        gradient, hessian = point.derivatives()
        sign, size = np.linalg.slogdet(hessian[0])
        value = float(point.value[0]) - float(size) if sign > 0 else np.inf
        return value, lambda: (gradient[:, 0] + gain(on, point, np.linalg.inv(hessian[0])), hessian[0])

    start = on.start
    if not len(start):
        return start, np.zeros((0, 0))
    found = descend(evaluate, start, arrived=_ARRIVED)
    return found, _covariance(on, found)


def _covariance(on: Standardised, parameters: Floats) -> Floats:
    point = on.at(parameters)
    information = point.derivatives()[1][0]
    if isinstance(point, GlmPoint):  # every row has been joined by two of weight h/2, one of each class
        Z = on.columns.Z
        leverage = _leverage(on, point, np.linalg.inv(information))
        information = information + Z.T @ (Z * (leverage * _per_unit(point))[:, None])
    return np.asarray(np.linalg.inv(information))


def _per_unit(point: GlmPoint) -> Floats:
    """μ(1 − μ) of every row."""
    mean = point.transformed[:, 0]
    return np.asarray(mean * (1.0 - mean))


def _leverage(on: Standardised, point: GlmPoint, covariance: Floats) -> Floats:
    Z = on.columns.Z
    return np.asarray(point.curvature()[:, 0] * ((Z @ covariance) * Z).sum(axis=1))


def _logistic(on: Standardised, point: GlmPoint, covariance: Floats) -> Floats:
    leverage = _leverage(on, point, covariance)
    return np.asarray(on.columns.Z.T @ (leverage * (0.5 - point.transformed[:, 0])))


def _cox(on: Standardised, point: object, covariance: Floats) -> Floats:
    """½ Σ_terms c·E[(x − x̄)ᵀA(x − x̄)·(x − x̄)], A the covariance, E the mean over a term's risk set."""
    cox = on.likelihood
    assert isinstance(cox, Cox)
    risk = cox.risk
    X = on.columns.Z[risk.order]
    eta = point.eta[risk.order, 0]  # type: ignore[attr-defined]
    hazard = risk.weights * np.exp(eta - eta.max())
    k = X.shape[1]
    square = np.einsum("ij,jk,ik->i", X, covariance, X)
    products = (X[:, :, None] * X[:, None, :]).reshape(len(X), k * k)
    sums = risk.per_term(hazard[:, None] * np.column_stack([np.ones(len(X)), X, square, square[:, None] * X, products]))
    moments = sums[:, 1:] / sums[:, :1]
    mean, q, qx = moments[:, :k], moments[:, k], moments[:, k + 1 : 2 * k + 1]
    xx = moments[:, 2 * k + 1 :].reshape(-1, k, k)
    along = mean @ covariance
    third = qx - mean * q[:, None] - 2.0 * np.einsum("tj,tji->ti", along, xx)
    third += 2.0 * mean * np.einsum("tj,tj->t", along, mean)[:, None]
    return np.asarray(0.5 * risk.multiplicity @ third)
