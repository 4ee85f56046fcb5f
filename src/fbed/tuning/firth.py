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
from fbed.models.likelihoods.cox import Cox, CoxPoint
from fbed.models.likelihoods.glm import BINOMIAL, Glm, GlmPoint
from fbed.rules.p_values import Floats
from fbed.tuning.likelihood import Standardised, descend

_ARRIVED = 1e-12  # a millionth of a standard error is enough
_LITTLE = (
    0.1  # leverage up to which the correction hardly changes from step to step, and Fisher's scoring is at its best
)
_BLOCK = 2**20  # values that are held at once


def firth(on: Standardised) -> tuple[Floats, Floats]:
    """Parameters and their covariance: the inverse information there, of logistic regression that of the data which the
    correction adds to, as R's logistf has it.
    """
    like = on.likelihood
    if isinstance(like, Glm) and like.distribution is BINOMIAL:
        gain: Callable[[Standardised, Any, Floats, Floats], tuple[Floats, Floats]] = _logistic
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

        def derivatives() -> tuple[Floats, Floats]:
            more, curved = gain(on, point, hessian[0], np.linalg.inv(hessian[0]))
            return gradient[:, 0] + more, curved

        return value, derivatives

    start = on.start  # from afar the penalised likelihood, which is not concave, may lead astray
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


def _logistic(on: Standardised, point: GlmPoint, hessian: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """What the score gains, and the Hessian of the penalised likelihood, or that of scoring where it will do.

    With s = ½ − μ and H the hat matrix, whose diagonal are the leverages h, a leverage changes by dh_i =
    2(h_i s_i dη_i − Σ_j H_ij² s_j dη_j). Scoring, which takes h as given, converges slowly where few rows decide.
    """
    Z, leverage, apart = on.columns.Z, _leverage(on, point, covariance), 0.5 - point.transformed[:, 0]
    gain = np.asarray(Z.T @ (leverage * apart))
    if leverage.max(initial=0.0) <= _LITTLE:
        return gain, hessian
    joined = hessian + Z.T @ (Z * (leverage * _per_unit(point))[:, None])
    changing = 2.0 * Z.T @ (Z * (leverage * apart**2)[:, None])
    exact = joined - changing + 2.0 * _squared_hats(Z, point.curvature()[:, 0], apart, covariance)
    return gain, exact if np.linalg.eigvalsh(exact)[0] > 0.0 else joined


def _squared_hats(Z: Floats, curvature: Floats, apart: Floats, covariance: Floats) -> Floats:
    """Zᵀs(H∘H)sZ, from H∘H = PPᵀ with rows of P that hold all products of two columns of Z times a root of A."""
    n, k = Z.shape
    size, along = np.linalg.eigh(covariance)
    root = Z @ (along * np.sqrt(np.maximum(size, 0.0)))  # by rounding alone a size may be less than 0
    rows = max(1, _BLOCK // (k * k))
    total = np.zeros((k, k * k))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        products = (root[part, :, None] * root[part, None, :]).reshape(-1, k * k)
        total += (Z[part] * (apart[part] * curvature[part])[:, None]).T @ products
    return np.asarray(total @ total.T)


def _cox(on: Standardised, point: CoxPoint, hessian: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """½ Σ_terms c·E[(x − x̄)ᵀA(x − x̄)·(x − x̄)], A the covariance, E the mean over a term's risk set."""
    X = on.columns.Z
    n, k = X.shape
    square = np.einsum("ij,jk,ik->i", X, covariance, X)[:, None]
    products = (X[:, :, None] * X[:, None, :]).reshape(n, k * k)
    moments = point.means_at_risk(np.hstack([X, square, square * X, products]))
    mean, q, qx = moments[:, :k], moments[:, [k]], moments[:, k + 1 : 2 * k + 1]
    xx = moments[:, 2 * k + 1 :].reshape(-1, k, k)
    along = mean @ covariance
    third = qx - mean * q - 2.0 * np.einsum("tj,tji->ti", along, xx)
    third += 2.0 * mean * np.einsum("tj,tj->t", along, mean)[:, None]
    return np.asarray(0.5 * point.cox.risk.multiplicity @ third), hessian
