"""A linear model with a random intercept for every cluster: y = Zβ + b_c + ε, by maximum likelihood.

    −2ℓ = n log(RSS_ρ/n) + Σ_c log(1 + n_c ρ),   ρ = var(b)/var(ε) ≥ 0,
    RSS_ρ = residual sum of squares under V⁻¹ = I − Σ_c ρ/(1 + n_c ρ)·s_c s_cᵀ,   s_c the indicator of cluster c

Everything that depends on ρ goes through sums over clusters, so that ρ is found for many candidates at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fbed.criteria import Evidence
from fbed.design import Design
from fbed.errors import InvalidInput
from fbed.families.base import Fit, FittedModel, Indices, Span, correlation_of, single_columns
from fbed.families.gaussian import PERFECT
from fbed.families.likelihood import evidence
from fbed.families.presentation import ONE_PREDICTOR, on_users_scale
from fbed.families.sandwich import Clusters
from fbed.tails import Floats

_GRID = np.concatenate([[0.0], np.linspace(0.02, 0.98, 13), [0.999, 1.0 - 1e-6]])
"""Values of ρ/(1 + ρ) among which the best is looked for before it is refined: the profile may have two maxima."""

_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
_NARROWINGS = 45  # the bracket shrinks by .618 each time: to 1e-10, which is 1e-16 in the likelihood


class Mixed:
    """A numeric outcome in clusters."""

    name = "mixed"
    has_likelihood = True

    def __init__(self, design: Design, y: Floats, cluster: NDArray[np.intp]) -> None:
        self.design, self.n, self.block_size = design, design.n, design.block_size
        self.clusters = Clusters(cluster)
        self.sizes = self.clusters.sums(design.weights)
        if self.sizes.max() <= 1.0:
            raise InvalidInput(
                "every cluster has a single row, so that nothing tells its effect from noise: choose 'gaussian', or "
                "give the cluster (subject) that several rows belong to"
            )
        self.center = float(design.weights @ y / design.n)
        self.scale = float(np.abs(y - self.center).max())
        self.root = np.sqrt(design.weights)
        self.y = self.root * (y - self.center) / self.scale
        self.total = float(self.y @ self.y)
        self.null_deviance = self.fit([]).deviance

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> MixedFit:
        """Maximise the likelihood on a set of variables."""
        return MixedFit(self, selected)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Generalised least squares at the best ρ, then the two standard deviations."""
        fit = self.fit(selected)
        inner, cross, _ = fit.moments(np.array([fit.ratio]), None)
        beta = np.linalg.solve(inner[0], cross[0])
        sigma2 = fit.rss / self.n
        unit = self.scale / np.sqrt(self.n)
        covariance = np.linalg.inv(inner[0]) * sigma2 * unit**2
        shown = on_users_scale(fit.span, ONE_PREDICTOR, beta * unit, covariance)
        values = shown.values.copy()
        values[0] += self.center
        spread = self.scale * np.sqrt(sigma2 * np.array([fit.ratio, 1.0]))
        errors = (*(shown.standard_errors() or ()), np.nan, np.nan)
        terms = (*shown.terms, "sd(cluster)", "sd(residual)")
        return FittedModel(
            self.name,
            terms,
            (*values.tolist(), *spread.tolist()),
            errors,
            fit.deviance,
            self.null_deviance,
            correlation=correlation_of(shown.covariance),
        )

    def likelihood(self, rss: Floats, ratio: Floats) -> Floats:
        """−2·log-likelihood up to a constant; a perfect fit counts as RSS = 1e-10·TSS."""
        left = np.maximum(rss, PERFECT * self.total)
        return self.n * np.log(left / self.n) + np.log1p(self.sizes[:, None] * ratio).sum(axis=0)


class MixedFit:
    """The likelihood given S, with the sums over clusters of its basis and of the outcome."""

    def __init__(self, model: Mixed, selected: Sequence[int], span: Span | None = None) -> None:
        self.model, self.selected = model, tuple(selected)
        self.span = span or Span(model.design, selected)
        self.Q = self.span.Q
        self.prepare()
        ratio, value = self.best(None)
        self.ratio, self.deviance = float(ratio[0]), float(value[0])
        self.rss = float(self._rss(ratio, None)[0])

    def prepare(self) -> None:
        """What does not depend on ρ."""
        model = self.model
        self.y_sums = model.clusters.sums(model.root * model.y)
        self.sums = model.clusters.sums(model.root[:, None] * self.Q)
        self.pairs = np.triu_indices(self.Q.shape[1])
        self.products = self.sums[:, self.pairs[0]] * self.sums[:, self.pairs[1]]
        self.along = self.Q.T @ model.y

    @property
    def saturated(self) -> bool:
        """Perfect fit, or no degree of freedom left."""
        return self.rss <= PERFECT * self.model.total or self.model.n - self.span.rank <= 1

    def gains(self, candidates: Indices) -> Evidence:
        """Likelihood ratio of each candidate, ρ estimated anew."""
        statistic, df = np.zeros(len(candidates)), np.zeros(len(candidates))
        width = self.model.design.width[candidates]
        single = np.flatnonzero(width == 1)
        if len(single):
            unit, degenerate = self.span.residuals(single_columns(self.model.design, candidates[single]))
            tested = np.flatnonzero(~degenerate)
            if len(tested):
                statistic[single[tested]] = self.deviance - self.best(unit[:, tested])[1]
            df[single] = ~degenerate
        for i in np.flatnonzero(width > 1):
            larger = self.model.fit([*self.selected, int(candidates[i])])
            statistic[i], df[i] = self.deviance - larger.deviance, larger.span.rank - self.span.rank
        return evidence(statistic, df)

    def losses(self, variables: Indices) -> Evidence:
        """Likelihood ratio of each variable against the model without it."""
        others = [self.model.fit([s for s in self.selected if s != variable]) for variable in variables]
        statistic = np.array([fit.deviance for fit in others]) - self.deviance
        return evidence(statistic, np.array([float(self.span.rank - fit.span.rank) for fit in others]))

    def best(self, unit: Floats | None) -> tuple[Floats, Floats]:
        """ρ and −2ℓ at the maximum, for every model with one of the unit columns more (None: for S alone)."""

        def value(share: Floats) -> Floats:
            ratio = share / (1.0 - share)
            return self.model.likelihood(self._rss(ratio, own), ratio)

        own = None if unit is None else _Own(self, unit)
        batch = 1 if unit is None else unit.shape[1]
        coarse = np.array([value(np.full(batch, share)) for share in _GRID])
        position = coarse.argmin(axis=0)
        low, high = _GRID[np.maximum(position - 1, 0)], _GRID[np.minimum(position + 1, len(_GRID) - 1)]
        share, found = _golden_section(value, low, high)
        at_edge = coarse.min(axis=0) < found
        share = np.where(at_edge, _GRID[position], share)
        return share / (1.0 - share), np.minimum(found, coarse.min(axis=0))

    def moments(self, ratio: Floats, own: _Own | None) -> tuple[Floats, Floats, Floats]:
        """AᵀV⁻¹A, AᵀV⁻¹y and yᵀV⁻¹y for the columns A of every model."""
        shrink = ratio / (1.0 + self.model.sizes[:, None] * ratio)  # clusters × models
        k = self.Q.shape[1]
        size = k + (own is not None)
        inner = np.zeros((len(ratio), size, size))
        packed = self.products.T @ shrink
        inner[:, self.pairs[0], self.pairs[1]] = -packed.T
        inner[:, self.pairs[1], self.pairs[0]] = -packed.T
        inner[:, np.arange(size), np.arange(size)] += 1.0
        cross = np.empty((len(ratio), size))
        weighted_y = shrink * self.y_sums[:, None]
        cross[:, :k] = (self.along[:, None] - self.sums.T @ weighted_y).T
        if own is not None:
            weighted = shrink * own.sums
            inner[:, :k, k] = inner[:, k, :k] = -(self.sums.T @ weighted).T
            inner[:, k, k] -= np.einsum("cb,cb->b", weighted, own.sums)
            cross[:, k] = own.along - np.einsum("cb,cb->b", weighted_y, own.sums)
        return inner, cross, self.model.total - weighted_y.T @ self.y_sums

    def _rss(self, ratio: Floats, own: _Own | None) -> Floats:
        inner, cross, total = self.moments(ratio, own)
        solved = np.linalg.solve(inner, cross[:, :, None])[:, :, 0]
        return np.maximum(total - np.einsum("bk,bk->b", cross, solved), 0.0)


class _Own:
    """Sums over clusters of every model's own column."""

    def __init__(self, fit: MixedFit, unit: Floats) -> None:
        self.sums = fit.model.clusters.sums(fit.model.root[:, None] * unit)
        self.along = unit.T @ fit.model.y


def _golden_section(value: Callable[[Floats], Floats], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Minimum of many functions of one variable at once, each within its bracket."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(_NARROWINGS):
        to_left = at_left < at_right
        low, high = np.where(to_left, low, left), np.where(to_left, right, high)
        new = np.where(to_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = value(new)
        left, right = np.where(to_left, new, right), np.where(to_left, left, new)
        at_left, at_right = np.where(to_left, at_new, at_right), np.where(to_left, at_left, at_new)
    better = at_left < at_right
    return np.where(better, left, right), np.minimum(at_left, at_right)
