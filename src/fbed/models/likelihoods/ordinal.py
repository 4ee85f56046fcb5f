"""An ordered outcome: P(y ≤ j) = F(θ_j − η), F the logistic (proportional odds) or the normal distribution (probit).

    ℓ = Σ a log[F(u) − F(l)],   u = θ_y − η,   l = θ_{y−1} − η

The constant among the columns stands for the first threshold, which is held at 0; the further parameters are the
others. The log-likelihood is concave in all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.models.base import harmonic_mean
from fbed.models.likelihoods.likelihood import Regression, RegressionFit
from fbed.models.likelihoods.newton import Columns
from fbed.models.presentation import Estimates
from fbed.models.recession import Constraints, one_below_another, rows_times, side_by_side
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Cell:
    """log P of the cell between l and u, and its derivatives in both."""

    log_p: Floats
    u: Floats
    l: Floats  # noqa: E741
    uu: Floats
    ll: Floats
    ul: Floats


@dataclass(frozen=True)
class Link:
    """A distribution function F: log P of a cell alone, with derivatives, and the quantile function."""

    log_p: Callable[[Floats, Floats], Floats]
    cell: Callable[[Floats, Floats], Cell]
    quantile: Callable[[Floats], Floats]
    log_above: Callable[[Floats], Floats]  # log(1 − F)


def _logit_log_p(u: Floats, l: Floats) -> Floats:  # noqa: E741
    """log F(u) + log F(−l) + log(1 − exp(l − u)): no difference of nearly equal numbers."""
    with np.errstate(over="ignore"):  # of thresholds that a step has put far the wrong way round
        return -np.logaddexp(0.0, -u) - np.logaddexp(0.0, l) + np.log(-np.expm1(l - u))


def _logit_cell(u: Floats, l: Floats) -> Cell:  # noqa: E741
    above, below = special.expit(-u), special.expit(l)
    with np.errstate(over="ignore"):
        gap = 1.0 / np.expm1(u - l)  # 0 where the cell is unbounded, or nearly so
    curved = gap * (1.0 + gap)
    uu, ll = -above * (1.0 - above) - curved, -below * (1.0 - below) - curved
    return Cell(_logit_log_p(u, l), above + gap, -below - gap, uu, ll, curved)


def _probit_log_p(u: Floats, l: Floats) -> Floats:  # noqa: E741
    """log[Φ(u) − Φ(l)], taken in the lower tail, where the logarithms are exact."""
    flipped = l > 0
    high, low = np.where(flipped, -l, u), np.where(flipped, -u, l)
    log_high = special.log_ndtr(high)
    return log_high + np.log(-np.expm1(special.log_ndtr(low) - log_high))


def _probit_cell(u: Floats, l: Floats) -> Cell:  # noqa: E741
    log_p = _probit_log_p(u, l)
    at_u, at_l = (np.exp(-0.5 * v**2 - 0.5 * np.log(2.0 * np.pi) - log_p) for v in (u, l))
    slope_u = np.where(np.isfinite(u), -u, 0.0) * at_u
    slope_l = np.where(np.isfinite(l), -l, 0.0) * at_l
    return Cell(log_p, at_u, -at_l, slope_u - at_u**2, -slope_l - at_l**2, at_u * at_l)


LINKS = {
    "logit": Link(_logit_log_p, _logit_cell, special.logit, lambda u: -np.logaddexp(0.0, u)),
    "probit": Link(_probit_log_p, _probit_cell, special.ndtri, lambda u: special.log_ndtr(-u)),
}


class Ordinal(Regression):
    """Classes 0 … K − 1 in their order, with weights."""

    name = "ordinal"

    def __init__(self, codes: NDArray[np.intp], labels: Sequence[Any], weights: Floats, link: str = "logit") -> None:
        self.codes, self.labels, self.weights, self.link = codes, tuple(labels), weights, LINKS[link]
        self.raced = link == "logit"
        self.n = float(weights.sum())
        self.n_further = len(labels) - 2
        thresholds = np.arange(1, len(labels) - 1)[:, None]  # all but the first, which is part of the intercept
        self.is_upper = (codes == thresholds).astype(float)  # further thresholds × rows
        self.is_lower = (codes == thresholds + 1).astype(float)

    @property
    def events(self) -> float:
        """Rows of a class, on average."""
        return harmonic_mean(np.bincount(self.codes, self.weights, len(self.labels)))

    def start(self, size: int) -> Floats:
        """Thresholds of the null model, whose cells have the observed frequencies."""
        counts = np.bincount(self.codes, self.weights, len(self.labels))
        thresholds = self.link.quantile(np.cumsum(counts)[:-1] / self.n)
        out = np.zeros(size + self.n_further)
        out[0] = -thresholds[0]
        out[size:] = thresholds[1:] - thresholds[0]
        return out

    def at(self, columns: Columns, parameters: Floats) -> OrdinalPoint:
        """Evaluate many models."""
        return OrdinalPoint(self, columns, parameters)

    def present(self, estimates: Estimates) -> Estimates:
        """Coefficients, then every threshold by the classes that it parts."""
        k, further = len(estimates.terms) - self.n_further, self.n_further
        jacobian = np.zeros((k + further, k + further))
        jacobian[: k - 1, 1:k] = np.eye(k - 1)
        jacobian[k - 1 :, 0] = -1.0
        jacobian[k:, k:] = np.eye(further)
        names = tuple(f"{a} | {b}" for a, b in zip(self.labels, self.labels[1:], strict=False))
        return estimates.mapped((*estimates.terms[1:k], *names), jacobian @ estimates.values, jacobian)

    def constraints(self, fit: RegressionFit) -> Constraints:
        """Every row between the thresholds of its class: the upper one must not come closer, nor the lower one."""
        point = self.at(fit.columns, fit.parameters[:, None])
        blocks, margins = [], []
        for sign, shift, distance in ((1.0, 0, point.u[:, 0]), (-1.0, -1, -point.l[:, 0])):
            some = np.flatnonzero(np.isfinite(distance))
            moved = np.zeros((len(some), 1 + self.n_further))
            moved[np.arange(len(some)), self.codes[some] + shift] = sign
            of_thresholds = moved[:, 1:]  # the first is held
            blocks.append(
                side_by_side([rows_times(np.full(len(some), -sign), fit.constrained_rows[some]), of_thresholds])
            )
            margins.append(-self.link.log_above(distance[some]))
        return Constraints(one_below_another(blocks), np.concatenate(margins))


class OrdinalPoint:
    """Distances of every row's predictor to the thresholds of its class, deviance and derivatives."""

    def __init__(self, family: Ordinal, columns: Columns, parameters: Floats) -> None:
        self.family, self.columns = family, columns
        self.eta = eta = columns.predict(parameters[: columns.size])
        edge = np.full((1, eta.shape[1]), np.inf)
        thresholds = np.concatenate([-edge, np.zeros_like(edge), parameters[columns.size :], edge])
        self.u = thresholds[family.codes + 1] - eta
        self.l = thresholds[family.codes] - eta
        with np.errstate(invalid="ignore", divide="ignore"):
            self.value = -2.0 * (family.weights @ family.link.log_p(self.u, self.l))
        self.value[~np.isfinite(self.value)] = np.inf  # thresholds out of order

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """In the coefficients (dη = −du = −dl) and the further thresholds."""
        family, columns, a = self.family, columns or self.columns, self.family.weights[:, None]
        cell = family.link.cell(self.u, self.l)
        k, further = columns.size, family.n_further
        gradient = np.vstack(
            [
                columns.inner(-a * (cell.u + cell.l)),
                family.is_upper @ (a * cell.u) + family.is_lower @ (a * cell.l),
            ]
        )
        hessian = np.zeros((self.u.shape[1], k + further, k + further))
        hessian[:, :k, :k] = columns.gram(-a * (cell.uu + cell.ll + 2.0 * cell.ul))
        by_upper, by_lower = a * (cell.uu + cell.ul), a * (cell.ll + cell.ul)
        for j in range(further):
            rows = family.is_upper[j][:, None] * by_upper + family.is_lower[j][:, None] * by_lower
            hessian[:, k + j, :k] = hessian[:, :k, k + j] = columns.inner(rows).T
        diagonal = -(family.is_upper @ (a * cell.uu) + family.is_lower @ (a * cell.ll))
        beside = -(family.is_upper[1:] @ (a * cell.ul))  # rows between two neighbouring thresholds
        for j in range(further):
            hessian[:, k + j, k + j] = diagonal[j]
        for j in range(further - 1):
            hessian[:, k + j, k + j + 1] = hessian[:, k + j + 1, k + j] = beside[j]
        return gradient, hessian

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Derivatives in the predictor; their variance depends on it little."""
        cell = self.family.link.cell(self.u, self.l)
        return -self.family.weights[:, None] * (cell.u + cell.l), None

    def separated(self) -> NDArray[np.bool_]:
        """Every predictor lies between the thresholds of its class."""
        return np.asarray(((self.u > 0) & (self.l < 0)).all(axis=0))
