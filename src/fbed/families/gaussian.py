"""The linear model: statistic n·log(RSS₀/RSS₁), closed form by projection, p-values from the exact F distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fbed.criteria import Evidence
from fbed.design import Design
from fbed.families.base import FittedModel, Indices, Span, original_scale
from fbed.tails import ExactF, Floats

PERFECT = 1e-10
"""RSS below this part of TSS is a perfect fit: what is left is rounding, and counts as exactly this much."""


class Gaussian:
    """A continuous outcome."""

    name = "gaussian"
    has_likelihood = True

    def __init__(self, design: Design, y: Floats) -> None:
        self.design = design
        self.n = design.n
        self.block_size = design.block_size
        self.center = float(design.weights / design.n @ y)
        self.scale = float(np.abs(y - self.center).max())  # keeps squares of very large outcomes finite
        self.y = np.sqrt(design.weights) * (y - self.center) / self.scale
        self.total = float(self.y @ self.y)
        self._span = Span(design, ())

    def fit(self, selected: Sequence[int]) -> GaussianFit:
        """Project the outcome on a set of variables."""
        self._span = Span(self.design, selected, self._span)
        return GaussianFit(self, self._span)

    def describe(self, selected: Sequence[int]) -> FittedModel:
        """Least-squares coefficients."""
        fit = self.fit(selected)
        df = self.n - fit.span.rank
        sigma = self.scale * float(np.sqrt(fit.rss / df)) if df > 0 else np.nan
        on_basis = self.scale * (fit.span.Q.T @ self.y) / np.sqrt(self.n)
        on_basis[0] += self.center
        terms, coefficients, errors = original_scale(fit.span, on_basis, np.eye(fit.span.rank) * self.n, sigma)
        rss, tss = (value * self.scale * self.scale for value in (fit.rss, self.total))  # inf beyond 1e308, as it must
        return FittedModel("gaussian", terms, coefficients, errors, rss, tss)


class GaussianFit:
    """Projection on the span of S."""

    def __init__(self, model: Gaussian, span: Span) -> None:
        self.model = model
        self.span = span
        self.residual = model.y - self.span.Q @ (self.span.Q.T @ model.y)
        self.residual -= self.span.Q @ (self.span.Q.T @ self.residual)
        self.rss = float(self.residual @ self.residual)
        self.residual_df = model.n - self.span.rank

    @property
    def saturated(self) -> bool:
        """Perfect fit, or no degree of freedom left for a larger model's residuals."""
        return self.rss <= PERFECT * self.model.total or self.residual_df - 1 < 1

    def gains(self, candidates: Indices) -> Evidence:
        """RSS falls by the squared projection of the residual on what a candidate adds to the span."""
        explained, df = np.zeros(len(candidates)), np.zeros(len(candidates))
        width = self.model.design.width[candidates]
        single = np.flatnonzero(width == 1)
        if len(single):
            explained[single], df[single] = self._single_gains(candidates[single])
        for i in np.flatnonzero(width > 1):
            new = self.span.group(int(candidates[i]))
            explained[i], df[i] = float(((new.T @ self.residual) ** 2).sum()), new.shape[1]
        explained[self.residual_df - df < 1] = 0.0  # a perfect fit for want of residuals is no evidence
        statistic = self._statistic(self.rss, self.rss - explained)
        reference = ExactF(self.model.n, self.residual_df)
        return Evidence(statistic, df, reference.log_sf(statistic, df), reference)

    def _single_gains(self, candidates: Indices) -> tuple[Floats, Floats]:
        if any(int(c) in self.model.design.table.factors for c in candidates):
            columns = self.model.design.stack(candidates.tolist())
        else:
            columns = self.model.design.block(candidates)
        unit, degenerate = self.span.residuals(columns)
        return np.where(degenerate, 0.0, (unit.T @ self.residual) ** 2), (~degenerate).astype(float)

    def losses(self, variables: Indices) -> Evidence:
        """RSS rises by the squared projection of the fitted outcome on what only that variable spans."""
        added, df = np.zeros(len(variables)), np.zeros(len(variables))
        for i, variable in enumerate(variables):
            others = [s for s in self.span.selected if s != variable]
            own = Span(self.model.design, others).group(int(variable))
            added[i], df[i] = float(((own.T @ self.model.y) ** 2).sum()), own.shape[1]
        statistic = self._statistic(self.rss + added, self.rss)
        reference = ExactF(self.model.n, self.residual_df, shares_larger=True)
        return Evidence(statistic, df, reference.log_sf(statistic, df), reference)

    def _statistic(self, smaller: Floats | float, larger: Floats | float) -> Floats:
        floor = PERFECT * self.model.total
        return np.asarray(self.model.n * np.log(np.maximum(smaller, floor) / np.maximum(larger, floor)))
