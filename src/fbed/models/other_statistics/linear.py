"""The linear model: statistic n·log(RSS₀/RSS₁), closed form by projection, p-values from the exact F distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fbed.matrix.design import Design
from fbed.models.base import COLLINEAR, Fit, FittedModel, Indices, Span, correlation_of, original_scale, single_columns
from fbed.models.presentation import standardised_to_users_scale
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import ExactF, Floats

PERFECT = 1e-10
"""RSS below this part of TSS is a perfect fit: what is left is rounding, and counts as exactly this much."""

_MOST = 0.25  # part of all columns from which products with all of them cost less than a copy of some
_SHIFTED = 10.0  # a centre this many scales away costs digits in an inner product with a raw column
_NEARLY_COLLINEAR = 1e-5  # part of a column's norm² below which differences of sums have lost too many digits


class Gaussian:
    """A continuous outcome."""

    name = "gaussian"
    has_likelihood = True

    def __init__(self, design: Design, y: Floats, fast: bool = True) -> None:
        self.design = design
        self.n = design.n
        self.block_size = design.block_size
        self.center = float(design.weights / design.n @ y)
        self.scale = float(np.abs(y - self.center).max())  # keeps squares of very large outcomes finite
        self.y = np.sqrt(design.weights) * (y - self.center) / self.scale
        self.total = float(self.y @ self.y)
        self.fast = fast

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> GaussianFit:
        """Project the outcome on a set of variables."""
        span = Span(self.design, selected, near.span if isinstance(near, GaussianFit) else None)
        if not self.fast:
            return GaussianFit(self, span)
        return FastGaussianFit(self, span, near.remainders if isinstance(near, FastGaussianFit) else None)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Least-squares coefficients."""
        fit = self.fit(selected, near)
        df = self.n - fit.span.rank
        sigma = self.scale * float(np.sqrt(fit.rss / df)) if df > 0 else np.nan
        return self._shown(fit, np.eye(fit.span.rank) * self.n, sigma)

    def outline(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """The same without standard errors."""
        return self._shown(self.fit(selected, near))

    def _shown(self, fit: GaussianFit, information: Floats | None = None, sigma: float = 1.0) -> FittedModel:
        on_basis = self.scale * (fit.span.Q.T @ self.y) / np.sqrt(self.n)
        on_basis[0] += self.center
        shown = original_scale(fit.span, on_basis, information, sigma)
        rss, tss = (value * self.scale * self.scale for value in (fit.rss, self.total))  # inf beyond 1e308, as it must
        return FittedModel("gaussian", *shown[:3], rss, tss, correlation=shown[3])


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
        return Evidence(statistic, df, None, reference)

    def _single_gains(self, candidates: Indices) -> tuple[Floats, Floats]:
        unit, degenerate = self.span.residuals(single_columns(self.model.design, candidates))
        return np.where(degenerate, 0.0, (unit.T @ self.residual) ** 2), (~degenerate).astype(float)

    def losses(self, variables: Indices) -> Evidence:
        """RSS rises by the squared projection of the fitted outcome on what only that variable spans."""
        added, df = np.zeros(len(variables)), np.zeros(len(variables))
        for i, variable in enumerate(variables):
            others = [s for s in self.span.selected if s != variable]
            own = Span(self.model.design, others, self.span).group(int(variable))  # what comes before it is known
            added[i], df[i] = float(((own.T @ self.model.y) ** 2).sum()), own.shape[1]
        return self._loss_evidence(added, df)

    def _loss_evidence(self, added: Floats, df: Floats) -> Evidence:
        statistic = self._statistic(self.rss + added, self.rss)
        reference = ExactF(self.model.n, self.residual_df, shares_larger=True)
        return Evidence(statistic, df, None, reference)

    def _statistic(self, smaller: Floats | float, larger: Floats | float) -> Floats:
        return n_log_ratio(self.model, smaller, larger)


def n_log_ratio(model: Gaussian, smaller: Floats | float, larger: Floats | float) -> Floats:
    """n·log(RSS₀/RSS₁), from the residual sums of squares of a smaller and a larger model."""
    floor = PERFECT * model.total
    return np.asarray(model.n * np.log(np.maximum(smaller, floor) / np.maximum(larger, floor)))


class Remainders:
    """What S leaves of every column: its norm², brought up to date one basis vector at a time.

    `depth[j]` says how many basis vectors have been taken out of column j. When S has grown, what is known of the
    smaller set is taken over; for any other set everything starts anew.
    """

    def __init__(self, design: Design, selected: tuple[int, ...], known: Remainders | None = None) -> None:
        self.design, self.selected = design, selected
        self.depth: Indices = np.ones(len(design.center), dtype=np.intp)  # centred: the intercept is out already
        self.norm2: Floats = np.full(len(design.center), design.n)
        if known is not None and known.selected == selected[: len(known.selected)]:
            self.depth, self.norm2 = known.depth.copy(), known.norm2.copy()

    def update(self, span: Span, which: Indices, residual: Floats) -> tuple[Floats, Floats]:
        """norm² of what is left of some columns, and their products with the residual of the outcome: one pass."""
        product, depths = np.empty(len(which)), self.depth[which]
        alike = len(depths) > 0 and bool((depths == depths[0]).all())
        for depth in depths[:1].tolist() if alike else np.unique(depths).tolist():
            rows = slice(None) if alike else np.flatnonzero(depths == depth)
            vectors = np.column_stack([span.Q[:, depth:], residual]) * span.root[:, None]
            along = self._products(which[rows], vectors)
            product[rows] = along[:, -1]
            self.norm2[which[rows]] -= np.einsum("ij,ij->i", along[:, :-1], along[:, :-1])
        self.depth[which] = span.rank
        return self.norm2[which], product

    def _products(self, which: Indices, vectors: Floats) -> Floats:
        design = self.design
        if design.small_whole is not None:
            most = len(which) > _MOST * len(design.small_whole)
            return np.asarray((design.small_whole @ vectors)[which] if most else design.small_whole[which] @ vectors)
        out = np.empty((len(which), vectors.shape[1]))
        raw = design.is_sparse & (np.abs(design.center[which]) / _SHIFTED <= design.scale[which])
        some = np.flatnonzero(raw)
        if len(some):
            columns, sums = which[some], vectors.sum(axis=0)
            products = np.column_stack([design.matrix.dots(columns, np.ascontiguousarray(v)) for v in vectors.T])
            out[some] = (products - design.center[columns, None] * sums) / design.scale[columns, None]
        rest = np.flatnonzero(~raw)
        for start in range(0, len(rest), design.block_size):
            part = rest[start : start + design.block_size]
            out[part] = design.matrix.gather(which[part], design.center, design.scale).T @ vectors
        return out


class FastGaussianFit(GaussianFit):
    """The same answers from remainders that are handed on from step to step."""

    def __init__(self, model: Gaussian, span: Span, known: Remainders | None = None) -> None:
        super().__init__(model, span)
        self.remainders = Remainders(model.design, span.selected, known)

    def _single_gains(self, candidates: Indices) -> tuple[Floats, Floats]:
        design = self.model.design
        explained, df = np.zeros(len(candidates)), np.ones(len(candidates))
        numeric = design.numeric[candidates]
        left = np.zeros(len(candidates))
        if numeric.any():
            which = design.positions(candidates[numeric])
            left[numeric], product = self.remainders.update(self.span, which, self.residual)
            explained[numeric] = product**2 / np.maximum(left[numeric], _NEARLY_COLLINEAR * design.n)
        close = np.flatnonzero(
            left <= _NEARLY_COLLINEAR * design.n
        )  # subtraction has cost digits: do it again with care
        for start in range(0, len(close), design.block_size):
            part = close[start : start + design.block_size]
            explained[part], df[part] = super()._single_gains(candidates[part])
        return explained, df

    def losses(self, variables: Indices) -> Evidence:
        """The same from the inverse of the triangle that leads from the columns to the basis."""
        if not self.span.full_rank:
            return super().losses(variables)
        inverse = np.linalg.inv(self.span.triangle())
        norm2 = np.einsum("ij,ij->i", inverse, inverse)
        fitted = self.span.Q.T @ self.model.y
        added, df = np.zeros(len(variables)), np.zeros(len(variables))
        for i, variable in enumerate(variables.tolist()):
            place = self.span.place(variable)
            if (norm2[place] * COLLINEAR > 0.01).any():  # next to the span of the others
                return super().losses(variables)
            df[i] = place.stop - place.start
            if df[i] == 1:
                added[i] = float(inverse[place.start] @ fitted) ** 2 / norm2[place.start]
            else:
                added[i] = float(((np.linalg.qr(inverse[place].T)[0].T @ fitted) ** 2).sum())
        return self._loss_evidence(added, df)


def on_the_users_scale(
    linear: Gaussian, selected: Sequence[int], coefficients: Floats, covariance: Floats | None, rss: float
) -> FittedModel:
    """What least squares found for standardised columns and outcome, the intercept first, as the user measured them."""
    shown = standardised_to_users_scale(linear.design, selected, coefficients, covariance)
    known = shown.standard_errors()
    errors = None if known is None else tuple(linear.scale * error for error in known)
    deviance, null = (value * linear.scale * linear.scale for value in (rss, linear.total))
    values = tuple((linear.scale * shown.values).tolist())
    correlation = correlation_of(shown.covariance)
    return FittedModel("gaussian", shown.terms, values, errors, deviance, null, correlation=correlation)
