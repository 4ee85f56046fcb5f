"""A linear model with a random intercept for every cluster: y = Zβ + b_c + ε, by maximum likelihood.

    −2ℓ = n log(RSS_ρ/n) + Σ_c log(1 + n_c ρ),   ρ = var(b)/var(ε) ≥ 0,
    RSS_ρ = Σ (r − r̄_c)² + Σ_c n_c r̄_c²/(1 + n_c ρ),   r the residuals, r̄_c their means within clusters

Everything that depends on ρ goes through means of clusters, so that ρ is found for many candidates at once. What varies
within clusters and what varies between them are kept apart and only added, so that neither drowns in the other.
Residuals that vanish within all clusters send ρ to infinity and the likelihood with it: a perfect fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.errors import InvalidInput
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices, Span, correlation_of, single_columns
from fbed.models.likelihoods.likelihood import evidence
from fbed.models.other_statistics.linear import PERFECT
from fbed.models.other_statistics.sandwich import Clusters
from fbed.models.presentation import ONE_PREDICTOR, on_users_scale
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats

_STEP = np.log(4.0)  # of the grid in s, ρ = unit·(exp(s) − 1), where the best ρ is looked for before it is refined
_LEAST = 0.02  # the unit of ρ, over the size of the clusters
_AT_FLOOR = 1e-4  # part by which an RSS may be beside its floor, since ρ is found to some digits only
_SECTIONS, _CUTS = 16, 8  # of a bracket; together as fine as the golden section
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
_NARROWINGS = 34  # the bracket shrinks by .618 each time: to 2e-7 in s, and the likelihood has its square of error
_JITTER = 1e-14  # keeps apart columns that are alike within clusters where ρ is so large that nothing else counts
_ROUNDING = 1e-13  # length of a unit column's part within clusters that is none
_CONSTANT = 1e-28  # part of the variance: what rounding leaves within clusters of a constant


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
                f"every cluster has {design.one_row}, so that nothing tells its effect from noise: choose 'gaussian', "
                "or give the cluster (subject) that several rows belong to"
            )
        self.center = float(design.weights @ y / design.n)
        self.scale = float(np.abs(y - self.center).max())
        self.root = np.sqrt(design.weights)
        self.y = self.root * (y - self.center) / self.scale
        self.within = self.less_means(self.y[:, None])[:, 0]
        self.total = float(self.within @ self.within)
        if self.total <= _CONSTANT * float(self.y @ self.y):
            raise InvalidInput(
                "y is constant within every cluster, so that nothing tells the clusters' effects from an exact fit: "
                "keep one row of every cluster and choose 'gaussian'"
            )
        self.unit, self.grid = self._ratios()
        self.null_deviance = self.fit([]).deviance

    def _ratios(self) -> tuple[float, Floats]:
        """The unit of ρ and a grid of s from ρ = 0 to where even a perfect fit has passed its best."""
        size = self.n / len(self.sizes)
        unit = _LEAST / size
        between = float(self.y @ self.y)
        most = 10.0 * (1.0 + size) * between / (PERFECT * self.total) / min(1.0, float(self.sizes.min()))
        return unit, np.arange(0.0, np.log1p(most / unit) + _STEP, _STEP)

    def means(self, rows: Floats) -> Floats:
        """Means within clusters of columns that carry the root of the weights."""
        return self.clusters.sums(self.root[:, None] * rows) / self.sizes[:, None]

    def less_means(self, rows: Floats) -> Floats:
        """What is left within clusters; twice, since a large mean leaves its rounding behind."""
        for _ in range(2):
            rows = rows - self.root[:, None] * self.means(rows)[self.clusters.codes]
        return rows

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> MixedFit:
        """Maximise the likelihood on a set of variables."""
        return MixedFit(self, selected)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Generalised least squares at the best ρ, then the two standard deviations."""
        fit = self.fit(selected)
        inner, cross, _ = fit.moments(np.array([fit.ratio]), None)
        beta = fit.turn @ (fit.beta + np.linalg.solve(inner[0], cross[0]))
        sigma2 = fit.rss / self.n
        unit = self.scale / np.sqrt(self.n)
        covariance = fit.turn @ np.linalg.inv(inner[0]) @ fit.turn.T * sigma2 * unit**2
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
        """−2·log-likelihood up to a constant; a perfect fit counts as RSS = 1e-10·TSS, both within clusters."""
        left = np.maximum(rss, PERFECT * self.total)
        return self.n * np.log(left / self.n) + np.log1p(self.sizes[:, None] * ratio).sum(axis=0)


class MixedFit:
    """The likelihood given S, with the sums over clusters of its basis and of the outcome."""

    def __init__(self, model: Mixed, selected: Sequence[int], span: Span | None = None) -> None:
        self.model, self.selected = model, tuple(selected)
        self.span = span or Span(model.design, selected)
        self._split()
        self.pairs = np.triu_indices(self.Q.shape[1])
        self.products = self.means[:, self.pairs[0]] * self.means[:, self.pairs[1]]
        self.inner = np.diag(self.size**2)[self.pairs]
        self.explain(np.zeros(self.span.rank))
        ratio, _ = self.best(None)
        self.explain(self._solved(ratio, None)[0][0])  # sums of squares of what is left do not cancel
        ratio, value = self.best(None)
        self.ratio, self.deviance = float(ratio[0]), float(value[0])
        self.rss = float(self._rss(ratio, None)[0])

    def _split(self) -> None:
        """A basis that is orthogonal within clusters, too, so that what varies between them only stands alone.

        `Q` is the span's basis, turned; its parts within clusters are `size` times the unit columns `within`.
        """
        left, self.size, turn = np.linalg.svd(self.model.less_means(self.span.Q), full_matrices=False)
        self.size[self.size <= _ROUNDING] = 0.0
        self.turn = turn.T
        self.Q, self.within = self.span.Q @ self.turn, left * (self.size > 0)
        self.means = self.model.means(self.Q)

    def explain(self, beta: Floats) -> None:
        """Take what coefficients of the basis explain out of the outcome: no RSS changes, but fewer digits cancel."""
        left = (self.model.y - self.Q @ beta)[:, None]
        self.beta = beta
        self.y_means, self.y_within = self.model.means(left)[:, 0], self.model.less_means(left)[:, 0]
        self.along = self.size * (self.within.T @ self.y_within)
        self.total = float(self.y_within @ self.y_within)

    @property
    def saturated(self) -> bool:
        """Perfect fit, or no degree of freedom left; the best ρ of a perfect fit is where RSS comes to its floor."""
        return self.rss <= PERFECT * self.model.total * (1.0 + _AT_FLOOR) or self.model.n - self.span.rank <= 1

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

        def value(s: Floats) -> Floats:
            check_time()
            ratio = self.model.unit * np.expm1(s)
            return self.model.likelihood(self._rss(ratio, own), ratio)

        own, grid = None if unit is None else _Own(self, unit), self.model.grid
        points = [grid] if unit is None else [np.full(unit.shape[1], s) for s in grid]
        coarse = np.array([value(s) for s in points]).reshape(len(grid), -1)  # the profile may have two maxima
        position = coarse.argmin(axis=0)
        low, high = grid[np.maximum(position - 1, 0)], grid[np.minimum(position + 1, len(grid) - 1)]
        s, found = _by_sections(value, low[0], high[0]) if unit is None else _golden_section(value, low, high)
        at_edge = coarse.min(axis=0) < found
        s = np.where(at_edge, grid[position], s)
        return self.model.unit * np.expm1(s), np.minimum(found, coarse.min(axis=0))

    def moments(self, ratio: Floats, own: _Own | None) -> tuple[Floats, Floats, Floats]:
        """AᵀV⁻¹A, AᵀV⁻¹y and yᵀV⁻¹y for the columns A of every model; y is what `explain` has left."""
        kept = self.model.sizes[:, None] / (1.0 + self.model.sizes[:, None] * ratio)  # clusters × models
        k = self.Q.shape[1]
        size = k + (own is not None)
        inner = np.empty((len(ratio), size, size))
        packed = self.products.T @ kept + self.inner[:, None]
        inner[:, self.pairs[0], self.pairs[1]] = packed.T
        inner[:, self.pairs[1], self.pairs[0]] = packed.T
        cross = np.empty((len(ratio), size))
        weighted_y = kept * self.y_means[:, None]
        cross[:, :k] = (self.along[:, None] + self.means.T @ weighted_y).T
        if own is not None:
            weighted = kept * own.means
            inner[:, :k, k] = inner[:, k, :k] = (self.means.T @ weighted).T
            inner[:, k, k] = own.norm2 + np.einsum("cb,cb->b", weighted, own.means)
            cross[:, k] = own.along + np.einsum("cb,cb->b", weighted_y, own.means)
        return inner, cross, self.total + weighted_y.T @ self.y_means

    def _solved(self, ratio: Floats, own: _Own | None) -> tuple[Floats, Floats]:
        """Coefficients of every model, and RSS_ρ."""
        inner, cross, total = self.moments(ratio, own)
        unit = 1.0 / np.sqrt(np.maximum(np.einsum("bkk->bk", inner), 1e-300))  # columns between clusters shrink with ρ
        scaled = inner * unit[:, :, None] * unit[:, None, :]
        scaled[:, np.arange(scaled.shape[1]), np.arange(scaled.shape[1])] += _JITTER
        solved = unit * np.linalg.solve(scaled, (unit * cross)[:, :, None])[:, :, 0]
        return solved, np.maximum(total - np.einsum("bk,bk->b", cross, solved), 0.0)

    def _rss(self, ratio: Floats, own: _Own | None) -> Floats:
        return self._solved(ratio, own)[1]


class _Own:
    """Means and parts within clusters of every model's own column, made orthogonal to those of the basis."""

    def __init__(self, fit: MixedFit, unit: Floats) -> None:
        within = fit.model.less_means(unit)
        along = fit.within.T @ within
        within -= fit.within @ along
        within -= fit.within @ (fit.within.T @ within)
        within[:, np.linalg.norm(within, axis=0) <= _ROUNDING] = 0.0
        self.means = fit.model.means(unit) - fit.means @ (along / np.where(fit.size > 0, fit.size, 1.0)[:, None])
        self.along = within.T @ fit.y_within
        self.norm2 = np.einsum("ij,ij->j", within, within)


def _by_sections(value: Callable[[Floats], Floats], low: float, high: float) -> tuple[Floats, Floats]:
    """Minimum of one function that takes many points at once, within a bracket."""
    for _ in range(_CUTS):
        points = np.linspace(low, high, _SECTIONS + 1)
        i = int(value(points).argmin())
        low, high = points[max(i - 1, 0)], points[min(i + 1, _SECTIONS)]
    at = np.array([0.5 * (low + high)])
    return at, value(at)


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
