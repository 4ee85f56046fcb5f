"""Nested tests of any smooth likelihood, for many models at once:

    LR = 2(ℓ₁ − ℓ₀),   score = gᵀH⁻¹g at the smaller fit,   Wald = β̂ᵀ[(H⁻¹)_ββ]⁻¹β̂ at the larger one,

with H the observed information.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.models.likelihoods.newton import Columns, Maximum, newton_step, polished
from fbed.rules.p_values import Floats

if TYPE_CHECKING:
    from fbed.models.likelihoods.likelihood import Regression, RegressionFit

_CANCELLED = 1e-6  # part of a sum of squares that must be left for it to have digits
_DEPENDENT = 1e-14  # singular value of columns of length 1 below which it is rounding
_STEPS_OUT, _STILL = 40, 1e-7  # steps towards infinity, and a change of a statistic, beside it, that is none


@dataclass(frozen=True)
class Comparison:
    """Models with the columns of S and `width` more, and the fit on S from which their iterations start.

    Where better starts are known, `begin` has them, one column a model.
    """

    fit: RegressionFit
    columns: Columns
    width: int
    begin: Floats | None = None

    @property
    def start(self) -> Floats:
        """Parameters of the fit on S, 0 for what is new, one column a model."""
        if self.begin is not None:
            return self.begin
        kept = self.kept
        out = np.zeros((len(kept), 1 if self.columns.x is None else self.columns.x.shape[1]))
        out[kept] = self.fit.parameters[:, None]
        return out

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which parameters of the larger models the smaller one has, as a mask."""
        likelihood = self.fit.model.likelihood
        one = np.arange(self.columns.size) < self.columns.size - self.width
        return np.concatenate([np.tile(one, likelihood.n_predictors), np.ones(likelihood.n_further, dtype=bool)])


class WeighedRows(Protocol):
    """A point whose information, about all its parameters, is a sum over rows, each with a weight."""

    def curvature(self) -> Floats:
        """The weights, rows × models."""


Test = Callable[[Comparison], Floats]
"""A statistic for every model of a comparison."""


def likelihood_ratio(comparison: Comparison) -> Floats:
    """2(ℓ₁ − ℓ₀)."""
    likelihood = comparison.fit.model.likelihood
    found = likelihood.maximise(comparison.columns, comparison.start)
    return likelihood.twice_negative(np.array([comparison.fit.deviance])) - likelihood.twice_negative(found.deviance)


def score(comparison: Comparison) -> Floats:
    """gᵀH⁻¹g at the fit on S: no larger model is fitted."""
    fit, likelihood = comparison.fit, comparison.fit.model.likelihood
    if likelihood.n_further:
        derivatives = likelihood.at(comparison.columns, comparison.start).derivatives()
    else:  # all models are at the same point
        derivatives = likelihood.at(fit.columns, fit.parameters[:, None]).derivatives(comparison.columns)
    _, decrement = newton_step(*derivatives)
    return decrement * likelihood.precision(np.array([comparison.fit.deviance]))


def wald(comparison: Comparison) -> Floats:
    """β̂ᵀ[(H⁻¹)_ββ]⁻¹β̂ = β̂ᵀ(H_ββ − H_βθ H_θθ⁻¹ H_θβ)β̂ at the larger fit; 0 in the limit of separation.

    Coefficients on their way to infinity are followed until their statistics no longer change.
    """
    likelihood, columns = comparison.fit.model.likelihood, comparison.columns
    found = likelihood.maximise(columns, comparison.start)
    deviance, statistic, left = found.deviance, np.empty(len(found.deviance)), np.arange(len(found.deviance))
    for _ in range(_STEPS_OUT):
        check_time()
        parameters = polished(likelihood, columns.only(left), found)
        statistic[left], change = _of_coefficients(likelihood, columns.only(left), comparison.kept, parameters)
        on = np.abs(change) > _STILL * np.maximum(1.0, statistic[left])
        on &= (parameters != found.parameters).any(axis=0)
        if not on.any():
            break
        left, found = left[on], Maximum(parameters[:, on], found.deviance[on], found.finished[on])
    return np.where(deviance > 0.0, statistic * likelihood.precision(deviance), 0.0)


def _of_coefficients(
    likelihood: Regression, columns: Columns, kept: NDArray[np.bool_], parameters: Floats
) -> tuple[Floats, Floats]:
    """Wald statistics of parameters that are not kept, but for the precision, and what a step more would change."""
    point = likelihood.at(columns, parameters)
    gradient, hessian = point.derivatives()
    step = newton_step(gradient, hessian.copy())[0][~kept].T[:, :, None]
    beta = parameters[~kept].T[:, :, None]
    cross = hessian[:, ~kept][:, :, kept]
    inner = hessian[:, kept][:, :, kept] + 1e-300 * np.eye(int(kept.sum()))
    own = hessian[:, ~kept][:, :, ~kept] - cross @ _solved(inner, cross.transpose(0, 2, 1))
    both = np.concatenate([beta, 2.0 * step], axis=2)
    found = (beta.transpose(0, 2, 1) @ own @ both)[:, 0]
    if likelihood.weighs_rows:
        for model in np.flatnonzero(_parts_left(hessian) < _CANCELLED):
            weight = cast(WeighedRows, point).curvature()[:, model]
            found[model] = _left_of_rows(columns.only(slice(model, model + 1)), weight, both[model])
    return found[:, 0], found[:, 1]


def _solved(matrix: Floats, right: Floats) -> Floats:
    """A⁻¹B of every model, without the directions in which separation has left no curvature at all."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix, hermitian=True) @ right)


def _parts_left(hessian: Floats) -> Floats:
    """The least that the other columns of every model leave of a column's sum of squares, as a part of it."""
    diagonal = np.einsum("bii->bi", hessian)
    try:
        part = 1.0 / (diagonal * np.einsum("bii->bi", np.linalg.inv(hessian)))
    except np.linalg.LinAlgError:
        return np.zeros(len(hessian))
    return np.asarray(np.where(part > 0.0, part, 0.0).min(axis=1))


def _left_of_rows(columns: Columns, weight: Floats, ways: Floats) -> Floats:
    """How far some ways of a model's last columns move its rows, as its other columns leave that, times the first way.

    Sums of squares have half the digits. They tell nothing of a column that is next to the others on all rows but those
    that an outlier or separation has made certain, and rounding of them times a large coefficient may be any statistic.
    """
    check_time()
    root = np.sqrt(weight)
    rows = np.column_stack([root * columns.column(i)[:, 0] for i in range(columns.size)])
    others, moved = rows[:, : -len(ways)], rows[:, -len(ways) :] @ ways
    size = np.linalg.norm(others, axis=0)
    basis, triangle = np.linalg.qr(others[:, size > 0.0] / size[size > 0.0])
    U, values, _ = np.linalg.svd(triangle)
    basis = basis @ U[:, values > _DEPENDENT * values.max(initial=0.0)]
    for _ in range(2):
        moved = moved - basis @ (basis.T @ moved)
    return np.asarray(moved[:, 0] @ moved)


TESTS: dict[str, Test] = {"lr": likelihood_ratio, "score": score, "wald": wald}
