"""Robust Wald tests: W = β̂ᵀV⁻¹β̂ with V = H⁻¹MH⁻¹, M the sum of squared scores of rows or of clusters of rows.

By the Frisch–Waugh theorem the coefficients of a candidate need only its part x̃ that is orthogonal to S (under the
weights of the larger fit): V = I⁻¹[Σ_c u_c u_cᵀ]I⁻¹, u_c = Σ_{i in c} x̃_i r_i, I = Σ w x̃x̃ᵀ.

* `cluster`: rows of a cluster may depend on each other in any way; V carries the usual factor
  C/(C − 1)·(n − 1)/(n − k) for C clusters and k coefficients. Clusters of one row each give the HC1 covariance.
* `HC3` (linear model): each row is a cluster and its residual is divided by 1 − leverage. A candidate with a row of
  leverage 1 cannot be tested: statistic 0, p = 1.

p-values are those of χ². The dispersion of a negative binomial outcome is taken as known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.criteria import Evidence
from fbed.design import Design
from fbed.errors import InvalidInput
from fbed.families.base import Fit, FittedModel, Indices, Span, single_columns
from fbed.families.gaussian import Gaussian, GaussianFit
from fbed.families.likelihood import Comparison, RegressionFit, Test, evidence
from fbed.families.newton import maximise, polished
from fbed.families.presentation import ONE_PREDICTOR, on_users_scale
from fbed.tails import Floats

_FULL_LEVERAGE = 1.0 - 1e-9


class Clusters:
    """Sums over clusters of rows."""

    def __init__(self, codes: NDArray[np.intp], n: float) -> None:
        dense = np.unique(codes, return_inverse=True)[1]
        self.count, self.n = int(dense.max()) + 1, n
        if self.count < 2:
            raise InvalidInput("cluster holds a single cluster: a robust variance needs at least 2, better 30 or more")
        ones = np.ones(len(dense))
        self.indicator = sparse.csr_array((ones, (dense, np.arange(len(dense)))), shape=(self.count, len(dense)))

    def sums(self, rows: Floats) -> Floats:
        """Σ over the rows of each cluster."""
        return np.asarray(self.indicator @ rows)

    def factor(self, n_coefficients: int) -> float:
        """C/(C − 1)·(n − 1)/(n − k)."""
        return self.count / (self.count - 1.0) * (self.n - 1.0) / max(self.n - n_coefficients, 1.0)


def clustered_wald(clusters: Clusters) -> Test:
    """The robust Wald test of generalised linear models."""

    def test(comparison: Comparison) -> Floats:
        likelihood, columns, width = comparison.fit.model.likelihood, comparison.columns, comparison.width
        found = maximise(likelihood, columns, comparison.start)
        parameters = polished(likelihood, columns, found)
        point = likelihood.at(columns, parameters)
        residual, hessian = point.residual(), columns.gram(point.curvature())  # type: ignore[attr-defined]
        k = columns.size - width
        inner = hessian[:, :k, :k] + 1e-300 * np.eye(k)
        gamma = np.linalg.solve(inner, hessian[:, :k, k:])
        information = hessian[:, k:, k:] - hessian[:, k:, :k] @ gamma
        beta = parameters[k : columns.size]
        factor = clusters.factor(columns.size)
        if columns.x is not None:
            scores = clusters.sums((columns.x - columns.Z @ gamma[:, :, 0].T) * residual)
            variance = np.einsum("cb,cb->b", scores, scores) * factor
            return _ratio((information[:, 0, 0] * beta[0]) ** 2, variance)
        own = columns.Z[:, k:] - columns.Z[:, :k] @ gamma[0]
        return np.array([_quadratic(information[0] @ beta[:, 0], clusters.sums(own * residual), factor)])

    return test


def clustered_covariance(clusters: Clusters) -> Callable[[RegressionFit], Floats | None]:
    """H⁻¹MH⁻¹ of all coefficients of a generalised linear model; further parameters get no variance."""

    def covariance(fit: RegressionFit) -> Floats:
        k, size = fit.columns.size, len(fit.parameters)
        point = fit.model.likelihood.at(fit.columns, fit.parameters[:, None])
        scores = clusters.sums(fit.Z * point.residual())  # type: ignore[attr-defined]
        bread = np.linalg.pinv(fit.columns.gram(point.curvature())[0], hermitian=True)  # type: ignore[attr-defined]
        out = np.full((size, size), np.nan)
        out[:k, :k] = bread @ (scores.T @ scores) @ bread * clusters.factor(k)
        out[k:, :k] = out[:k, k:] = 0.0
        return out

    return covariance


class RobustGaussian(Gaussian):
    """The linear model with robust Wald tests; `clusters` None for HC3."""

    has_likelihood = False

    def __init__(self, design: Design, y: Floats, clusters: Clusters | None) -> None:
        super().__init__(design, y)
        self.clusters = clusters

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> RobustGaussianFit:
        """Project the outcome on a set of variables."""
        return RobustGaussianFit(self, Span(self.design, selected))

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Least-squares coefficients with robust standard errors."""
        fit = self.fit(selected)
        unit = self.scale**2
        coefficients = (fit.span.Q.T @ self.y) * self.scale / np.sqrt(self.n)
        scores, factor = fit.scores(fit.span.Q, fit.residual, np.zeros((len(self.y), 0)))
        covariance = scores.T @ scores * factor * unit / self.n
        shown = on_users_scale(fit.span, ONE_PREDICTOR, coefficients, covariance)
        values = shown.values.copy()
        values[0] += self.center
        errors = shown.standard_errors()
        return FittedModel(self.name, shown.terms, tuple(values.tolist()), errors, fit.rss * unit, self.total * unit)


class RobustGaussianFit(GaussianFit):
    """Projection on the span of S; everything below is in rows multiplied by the root of their weight."""

    model: RobustGaussian

    def gains(self, candidates: Indices) -> Evidence:
        """Robust Wald statistic of each candidate."""
        statistic, df = np.zeros(len(candidates)), np.zeros(len(candidates))
        width = self.model.design.width[candidates]
        single = np.flatnonzero(width == 1)
        if len(single):
            unit, degenerate = self.span.residuals(single_columns(self.model.design, candidates[single]))
            statistic[single] = np.where(degenerate, 0.0, self._single(np.where(degenerate, 0.0, unit)))
            df[single] = ~degenerate
        for i in np.flatnonzero(width > 1):
            new = self.span.group(int(candidates[i]))
            statistic[i], df[i] = self._group(new), new.shape[1]
        return evidence(statistic, df)

    def losses(self, variables: Indices) -> Evidence:
        """Robust Wald statistic of each variable given the others."""
        others = [self.model.fit([s for s in self.span.selected if s != variable]) for variable in variables]
        parts = [fit.gains(np.array([v], dtype=np.intp)) for fit, v in zip(others, variables, strict=True)]
        return evidence(np.concatenate([p.statistic for p in parts]), np.concatenate([p.df for p in parts]))

    def _single(self, unit: Floats) -> Floats:
        beta = unit.T @ self.residual
        left = self.residual[:, None] - unit * beta
        if self.model.clusters is not None:
            scores = self.model.clusters.sums(unit * left)
            return _ratio(
                beta**2, np.einsum("cb,cb->b", scores, scores) * self.model.clusters.factor(self.span.rank + 1)
            )
        root = self.span.root[:, None]
        leverage = self._leverage()[:, None] + (unit / root) ** 2
        full = leverage > _FULL_LEVERAGE
        scores = unit * left / (root * np.where(full, 1.0, 1.0 - leverage))
        testable = ~(full & (np.abs(unit) > 1e-9)).any(axis=0)
        return np.where(testable, _ratio(beta**2, np.einsum("ib,ib->b", scores, scores)), 0.0)

    def _group(self, new: Floats) -> float:
        if new.shape[1] == 0:
            return 0.0
        beta = new.T @ self.residual
        scores, factor = self.scores(new, self.residual - new @ beta, new)
        return 0.0 if np.isnan(scores).any() else _quadratic(beta, scores, factor)

    def scores(self, columns: Floats, residual: Floats, new: Floats) -> tuple[Floats, float]:
        """Score of every cluster (or row) and the factor on the sum of their squares; NaN at full leverage."""
        if self.model.clusters is not None:
            return self.model.clusters.sums(columns * residual[:, None]), self.model.clusters.factor(
                self.span.rank + new.shape[1]
            )
        leverage = self._leverage() + (new**2).sum(axis=1) / self.span.root**2
        keep = np.where(leverage > _FULL_LEVERAGE, np.nan, 1.0 - leverage)
        return columns * (residual / (self.span.root * keep))[:, None], 1.0

    def _leverage(self) -> Floats:
        """Of one copy of every row."""
        return np.asarray((self.span.Q**2).sum(axis=1) / self.span.root**2)


def _ratio(numerator: Floats, variance: Floats) -> Floats:
    """Wald statistics; 0 where the variance is, since then nothing was estimated."""
    return np.where(variance > 0, numerator / np.where(variance > 0, variance, 1.0), 0.0)


def _quadratic(vector: Floats, scores: Floats, factor: float) -> float:
    """vᵀ(Σuuᵀ)⁻¹v; with fewer clusters than columns, on the directions that vary."""
    return float(vector @ np.linalg.pinv(scores.T @ scores * factor, hermitian=True) @ vector)
