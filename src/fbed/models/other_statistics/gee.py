"""Generalised estimating equations with an exchangeable working correlation: Σ_c D_cᵀV_c⁻¹(y_c − μ_c) = 0, robust Wald.

The mean is linear for numbers, logistic for two classes, log-linear for counts (link="log"). V_c⁻¹ of a cluster of m
rows with correlation ρ is diag(1/√v)[I − ρ/(1 + (m − 1)ρ)·J]diag(1/√v)/(1 − ρ), so that sums over rows, and over the
sums of clusters, are all that is needed. The correlation is estimated from the Pearson residuals, in turn with the
coefficients; their covariance is that of the sandwich, valid whatever the true correlation is, in the form that Mancl
and DeRouen gave it for few clusters, with the F distribution of `small_sample`.

Weights are numbers of rows, in the same cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.clock import check_time
from fbed.errors import InvalidInput
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices, Span, correlation_of
from fbed.models.likelihoods.likelihood import evidence
from fbed.models.other_statistics.small_sample import (
    Shares,
    dispersions,
    group_test,
    jackknife_covariance,
    single_tests,
)
from fbed.models.presentation import ONE_PREDICTOR, on_users_scale
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats
from fbed.tables.outcomes import Outcome

LINKS = ("identity", "logit", "log")

_CONVERGED = 1e-9  # of a step, relative to the coefficients: far below what a statistic shows
_MAX_ITERATIONS = 100
_LARGEST_MOVE = 5.0  # of a predictor in one step: beyond this an exponential is no longer what it was
_CERTAIN = 30.0  # of a predictor of two classes: the coefficients are on their way to infinity
_LEAST_VARIANCE = 1e-12
_JITTER = 1e-14  # relative to the mean curvature; changes the path to the solution, never the solution
_PERFECT = 1e-12  # part of the null model's scale below which nothing is left to explain


@dataclass(frozen=True)
class Solution:
    """Where the equations hold, or have come closest."""

    coefficients: Floats
    equations: Equations


class Gee:
    """An outcome of dependent rows; `y` holds numbers, zeros and ones, or counts, as the link has it."""

    name = "gee"
    has_likelihood = False
    block_size = 64  # candidates between two looks at the clock

    def __init__(self, design: Design, y: Floats, cluster: NDArray[np.intp], link: str) -> None:
        self.design, self.link = design, link
        self.notes: tuple[str, ...] = ()
        self.n = design.n
        order = np.argsort(cluster, kind="stable")
        self.order, self.y, self.weights = order, y[order], design.weights[order]
        self.first = np.flatnonzero(np.diff(cluster[order], prepend=-1))  # where each cluster begins
        self.size = self.sums(np.ones(len(y)))
        if self.size.max() < 2:
            raise InvalidInput(
                f"every cluster has {design.one_row}, so that there is no dependence to allow for: choose a family "
                "without clusters, or give the cluster (subject) that several rows belong to"
            )
        self.n_pairs = float((self.size * (self.size - 1.0)).sum() / 2.0)
        self.null = self.solve(np.ones((len(y), 1)), np.array([self._start()]))

    def _start(self) -> float:
        mean = float(self.weights @ self.y / self.n)
        if self.link == "identity":
            return mean
        return float(special.logit(mean) if self.link == "logit" else np.log(mean))

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> GeeFit:
        """Solve the equations on a set of variables."""
        return GeeFit(self, Span(self.design, selected))

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients with robust standard errors; there is no likelihood, and so no deviance."""
        fit = self.fit(selected)
        covariance = jackknife_covariance(self.shares(fit.solution, 1))
        shown = on_users_scale(fit.span, ONE_PREDICTOR, fit.solution.coefficients, covariance)
        values, errors, correlation = shown.values, shown.standard_errors(), correlation_of(shown.covariance)
        return FittedModel(self.name, shown.terms, tuple(values.tolist()), errors, 0.0, 0.0, correlation=correlation)

    def sums(self, rows: Floats) -> Floats:
        """Weighted sums over the rows of each cluster."""
        weighted = (self.weights if rows.ndim == 1 else self.weights[:, None]) * rows
        return np.add.reduceat(weighted, self.first, axis=0)

    def solve(self, columns: Floats, start: Floats) -> Solution:
        """Fisher scoring on sorted rows, the correlation renewed in every step."""
        beta = start.copy()
        for _ in range(_MAX_ITERATIONS):
            check_time()
            equations = self._at(columns, beta)
            step = np.linalg.solve(equations.bread, equations.score)
            move = float(np.abs(columns @ step).max())
            if self.link != "identity" and move > _LARGEST_MOVE:
                step *= _LARGEST_MOVE / move
            beta += step
            if np.abs(step).max() <= _CONVERGED * max(1.0, np.abs(beta).max()) or (
                self.link == "logit" and np.abs(columns @ beta).max() > _CERTAIN
            ):
                break
        return Solution(beta, self._at(columns, beta))

    def _at(self, columns: Floats, beta: Floats) -> Equations:
        """Score Σ_c u_c, its clusters u_c and DᵀV⁻¹D, with √v·Z and (y − μ)/√v in the place of Z and y."""
        mean, variance = self._mean(columns @ beta)
        root = np.sqrt(variance)
        Z, residual = columns * root[:, None], (self.y - mean) / root
        rho, scale = self._correlation(residual, columns.shape[1])
        shrink = rho / (1.0 + (self.size - 1.0) * rho)
        Z_sums, residual_sums = self.sums(Z), self.sums(residual)
        by_cluster = (self.sums(Z * residual[:, None]) - Z_sums * (shrink * residual_sums)[:, None]) / (1.0 - rho)
        bread = (Z.T @ (self.weights[:, None] * Z) - Z_sums.T @ (shrink[:, None] * Z_sums)) / (1.0 - rho)
        bread[np.diag_indices_from(bread)] += _JITTER * np.trace(bread) / len(bread) + 1e-300
        return Equations(Z, residual, by_cluster, bread, rho, scale)

    def shares(self, solution: Solution, tested: int) -> Shares:
        """What every cluster has of DᵀV⁻¹D and of the score, with the last coefficients tested."""
        at = solution.equations
        shrink = at.correlation / (1.0 + (self.size - 1.0) * at.correlation)
        sums = self.sums(at.Z)
        products = at.Z[:, :, None] * (self.weights[:, None] * at.Z)[:, None]
        information = (
            np.add.reduceat(products, self.first, axis=0) - shrink[:, None, None] * sums[:, :, None] * sums[:, None]
        )
        information /= 1.0 - at.correlation
        own = dispersions(self.sums(at.residual**2)[None], self.size) if self.link == "log" else None
        return Shares(information[None], at.by_cluster[None], solution.coefficients[None, -tested:], own)

    def _mean(self, predictor: Floats) -> tuple[Floats, Floats]:
        """Mean and variance; for these links the variance is the derivative of the mean, too."""
        if self.link == "identity":
            return predictor, np.ones_like(predictor)
        mean = special.expit(predictor) if self.link == "logit" else np.exp(predictor)
        variance = mean * special.expit(-predictor) if self.link == "logit" else mean
        return mean, np.maximum(variance, _LEAST_VARIANCE)

    def _correlation(self, residual: Floats, k: int) -> tuple[float, float]:
        """Mean product of the residuals of two rows of a cluster over their mean square; within what is possible."""
        squares = float(self.weights @ residual**2)
        scale = squares / max(self.n - k, 1.0)
        products = (float((self.sums(residual) ** 2).sum()) - squares) / 2.0
        rho = products / (max(scale, 1e-300) * max(self.n_pairs - k, 1.0))
        return float(np.clip(rho, -0.999 / (self.size.max() - 1.0), 0.999)), scale


@dataclass(frozen=True)
class Equations:
    """The estimating equations at given coefficients."""

    Z: Floats  # √v·columns
    residual: Floats  # (y − μ)/√v
    by_cluster: Floats
    bread: Floats
    correlation: float
    scale: float

    @property
    def score(self) -> Floats:
        """What the solution brings to 0."""
        return np.asarray(self.by_cluster.sum(axis=0))


class GeeFit:
    """The solution on S; every candidate is one more solution, that starts there."""

    def __init__(self, model: Gee, span: Span) -> None:
        self.model, self.span = model, span
        self.Z = self._sorted(span.Q)
        start = np.zeros(span.rank)
        start[0] = model.null.coefficients[0]
        self.solution = model.solve(self.Z, start)

    @property
    def saturated(self) -> bool:
        """Whether the residuals are 0."""
        return self.solution.equations.scale <= _PERFECT * self.model.null.equations.scale

    def gains(self, candidates: Indices) -> Evidence:
        """Wald's test of the coefficients of each candidate."""
        return _evidence([self._test(int(candidate)) for candidate in candidates])

    def losses(self, variables: Indices) -> Evidence:
        """Wald's test of the coefficients of each variable, given the others."""
        others = [self.model.fit([s for s in self.span.selected if s != variable]) for variable in variables]
        return _evidence([fit._test(int(variable)) for fit, variable in zip(others, variables, strict=True)])

    def _test(self, variable: int) -> tuple[float, float]:
        new = self._sorted(self.span.group(variable))
        q = new.shape[1]
        if q == 0:
            return 0.0, 0.0
        start = np.concatenate([self.solution.coefficients, np.zeros(q)])
        found = self.model.solve(np.hstack([self.Z, new]), start)
        shares = self.model.shares(found, q)
        return (float(single_tests(shares)[0]) if q == 1 else group_test(shares)), float(q)

    def _sorted(self, basis: Floats) -> Floats:
        """Columns with unit mean square, cluster by cluster."""
        unit = basis * (np.sqrt(self.model.n) / self.span.root)[:, None]
        return np.ascontiguousarray(unit[self.model.order])


def gee_outcome(outcome: Outcome, link: str | None) -> tuple[Floats, str]:
    """The outcome as numbers, and the link: the one that was asked for, or what the outcome suggests."""
    chosen = link or ("logit" if len(outcome.levels) == 2 else "identity")
    if chosen == "logit":
        return outcome.zero_one(), chosen
    return (outcome.counts("gee") if chosen == "log" else outcome.squarable("gee")), chosen


def _evidence(tests: Sequence[tuple[float, float]]) -> Evidence:
    return evidence(np.array([test[0] for test in tests]), np.array([test[1] for test in tests]))
