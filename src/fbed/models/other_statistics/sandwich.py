"""Robust Wald tests, valid whatever the variance of rows, or the dependence within clusters of rows, is.

* `cluster`: rows of a cluster may depend on each other in any way. The variance is that of the jackknife over clusters
  (CR3), the reference F with degrees of freedom that the candidate itself decides: see `small_sample`.
* `HC3` (linear model): the same, each row a cluster.

By the Frisch–Waugh theorem the coefficients of a candidate in the linear model need only its part that is orthogonal to
S; generalised linear models have weights of their own for every candidate. The working model, under which degrees of
freedom are computed, is that of independent rows with the variance of the family. The dispersion of a negative binomial
outcome is taken as known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.clock import check_time
from fbed.errors import InvalidInput
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices, Span, correlation_of, single_columns
from fbed.models.likelihoods.likelihood import RegressionFit, evidence
from fbed.models.likelihoods.nested_tests import Comparison, Test
from fbed.models.likelihoods.newton import Columns, column_pairs, maximise, polished, unpacked
from fbed.models.other_statistics import rows_as_clusters
from fbed.models.other_statistics.linear import Gaussian, GaussianFit
from fbed.models.other_statistics.small_sample import (
    FULL_LEVERAGE,
    Projected,
    Shares,
    blocks,
    dispersions,
    group_test,
    jackknife_covariance,
    single_tests,
)
from fbed.models.presentation import ONE_PREDICTOR, on_users_scale
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats


class Clusters:
    """Sums over clusters of rows."""

    def __init__(self, codes: NDArray[np.intp]) -> None:
        dense = np.unique(codes, return_inverse=True)[1]
        self.count = int(dense.max()) + 1
        if self.count < 2:
            raise InvalidInput(
                "cluster holds a single cluster: to tell how clusters differ takes at least 2, better 30 or more"
            )
        self.codes = dense
        ones = np.ones(len(dense))
        self.indicator = sparse.csr_array((ones, (dense, np.arange(len(dense)))), shape=(self.count, len(dense)))

    def sums(self, rows: Floats) -> Floats:
        """Σ over the rows of each cluster."""
        return np.asarray(self.indicator @ rows)


def clustered_wald(clusters: Clusters) -> Test:
    """The robust Wald test of generalised linear models."""

    def test(comparison: Comparison) -> Floats:
        likelihood, columns, width = comparison.fit.model.likelihood, comparison.columns, comparison.width
        found = maximise(likelihood, columns, comparison.start)
        parameters = polished(likelihood, columns, found)
        point = likelihood.at(columns, parameters)
        residual, weight = point.residual(), point.information()  # type: ignore[attr-defined]
        estimate = parameters[columns.size - width : columns.size].T
        own = likelihood.own_dispersion

        def shares(models: slice) -> Shares:
            rows = (columns.only(models), residual[:, models], weight[:, models])
            return _shares(clusters, *rows, estimate[models], likelihood.weights if own else None)

        if columns.x is None:
            statistic = np.array([group_test(shares(slice(None)))])
        else:
            parts = blocks(len(estimate), clusters.count * columns.size**2)
            statistic = np.concatenate([single_tests(shares(models)) for models in parts])
        return np.where(found.deviance > 0.0, statistic, 0.0)

    return test


def _shares(
    clusters: Clusters,
    columns: Columns,
    residual: Floats,
    weight: Floats,
    estimate: Floats,
    copies: Floats | None = None,
) -> Shares:
    """Information and scores of every cluster, for models with weights of their own.

    With the number of `copies` of every row, clusters have a dispersion of their own.
    """
    k = columns.size
    scores = np.stack([clusters.sums(columns.column(i) * residual) for i in range(k)])
    weighted = [columns.column(i) * weight for i in range(k)]
    packed = np.stack([clusters.sums(columns.column(i) * weighted[j]) for i, j in zip(*column_pairs(k), strict=True)])
    if copies is None:
        return Shares(unpacked(packed.T, k), scores.T, estimate)
    squares = clusters.sums(residual**2 / np.maximum(weight, 1e-300)).T
    return Shares(unpacked(packed.T, k), scores.T, estimate, dispersions(squares, clusters.sums(copies)))


def clustered_covariance(clusters: Clusters) -> Callable[[RegressionFit], Floats | None]:
    """The jackknife's covariance of all coefficients of a generalised linear model; other parameters get none."""

    def covariance(fit: RegressionFit) -> Floats:
        k, size = fit.columns.size, len(fit.parameters)
        point = fit.model.likelihood.at(fit.columns, fit.parameters[:, None])
        residual, weight = point.residual(), point.information()  # type: ignore[attr-defined]
        out = np.full((size, size), np.nan)
        out[:k, :k] = jackknife_covariance(_shares(clusters, fit.columns, residual, weight, fit.parameters[None, :k]))
        out[k:, :k] = out[:k, k:] = 0.0
        return out

    return covariance


class RobustGaussian(Gaussian):
    """The linear model with robust Wald tests; `clusters` None for HC3."""

    has_likelihood = False

    def __init__(self, design: Design, y: Floats, clusters: Clusters | None) -> None:
        super().__init__(design, y)
        self.clusters = clusters
        self.notes: tuple[str, ...] = ()

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> RobustGaussianFit:
        """Project the outcome on a set of variables."""
        return RobustGaussianFit(self, Span(self.design, selected))

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Least-squares coefficients with robust standard errors."""
        fit = self.fit(selected)
        unit = self.scale**2
        coefficients = (fit.span.Q.T @ self.y) * self.scale / np.sqrt(self.n)
        covariance = fit.covariance() * unit / self.n
        shown = on_users_scale(fit.span, ONE_PREDICTOR, coefficients, covariance)
        values = shown.values.copy()
        values[0] += self.center
        errors, correlation = shown.standard_errors(), correlation_of(shown.covariance)
        left, total = fit.rss * unit, self.total * unit
        return FittedModel(self.name, shown.terms, tuple(values.tolist()), errors, left, total, correlation=correlation)


class RobustGaussianFit(GaussianFit):
    """Projection on the span of S; everything below is in rows multiplied by the root of their weight."""

    model: RobustGaussian

    def gains(self, candidates: Indices) -> Evidence:
        """Robust Wald statistic of each candidate."""
        statistic, df = np.zeros(len(candidates)), np.zeros(len(candidates))
        width = self.model.design.width[candidates]
        single, size = np.flatnonzero(width == 1), self.model.design.block_size
        for some in (single[first : first + size] for first in range(0, len(single), size)):
            check_time()
            unit, degenerate = self.span.residuals(single_columns(self.model.design, candidates[some]))
            statistic[some] = np.where(degenerate, 0.0, self._single(np.where(degenerate, 0.0, unit)))
            df[some] = ~degenerate
        for i in np.flatnonzero(width > 1):
            new = self.span.group(int(candidates[i]))
            statistic[i], df[i] = self._group(new), new.shape[1]
        return evidence(statistic, df)

    def losses(self, variables: Indices) -> Evidence:
        """Robust Wald statistic of each variable given the others."""
        others = [self.model.fit([s for s in self.span.selected if s != variable]) for variable in variables]
        parts = [fit.gains(np.array([v], dtype=np.intp)) for fit, v in zip(others, variables, strict=True)]
        return evidence(np.concatenate([p.statistic for p in parts]), np.concatenate([p.df for p in parts]))

    @cached_property
    def _projected(self) -> Projected:
        assert self.model.clusters is not None
        return Projected(self.span.Q, self.model.clusters.sums)

    def _single(self, unit: Floats) -> Floats:
        if self.model.clusters is not None:
            return self._projected.tests(unit, self.residual)
        root = self.span.root[:, None]
        basis, left = self.span.Q / root, self.residual[:, None] / root
        return rows_as_clusters.single_tests(basis, unit / root, left, self.model.design.weights)

    def _group(self, new: Floats) -> float:
        if new.shape[1] == 0:
            return 0.0
        estimate = new.T @ self.residual
        basis, left = np.hstack([self.span.Q, new]), self.residual - new @ estimate
        if self.model.clusters is not None:
            return group_test(self._shares(basis, left, estimate))
        root = self.span.root[:, None]
        return rows_as_clusters.group_test(basis / root, left / root[:, 0], estimate, self.model.design.weights)

    def _shares(self, basis: Floats, residual: Floats, estimate: Floats) -> Shares:
        assert self.model.clusters is not None
        one = np.ones((len(residual), 1))
        return _shares(self.model.clusters, Columns(basis), residual[:, None], one, estimate[None])

    def covariance(self) -> Floats:
        """Of the coefficients of the basis; NaN for HC3 where a row has full leverage."""
        if self.model.clusters is not None:
            return jackknife_covariance(self._shares(self.span.Q, self.residual, self.span.Q.T @ self.model.y))
        basis = self.span.Q / self.span.root[:, None]
        leverage = (basis**2).sum(axis=1)
        keep = np.where(leverage > FULL_LEVERAGE, np.nan, 1.0 - leverage)
        changes = self.span.Q * (self.residual / (self.span.root * keep))[:, None]
        return np.asarray(changes.T @ changes)
