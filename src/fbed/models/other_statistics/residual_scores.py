"""Median regression and robust regression by scores of the residuals: T = (Σ x̃ψ)²/v, one fit for each S.

x̃ is the candidate's part that is orthogonal to S, ψ a bounded score of the residuals of the fit on S, v the variance
of Σ x̃ψ when the candidate is irrelevant; T then follows χ² with the rank increase as df. No larger model is fitted.

* `quantile`: ψ are the regression rank scores, the dual solution of the linear program of quantile regression, and
  v = τ(1 − τ)Σx̃² (the rank-score test of Gutenbrunner, Jurečková, Koenker and Portnoy). Chosen because, unlike the Wald
  and likelihood-ratio tests of quantile regression, it needs no estimate of the density of the errors at the quantile.
* `robust`: ψ is Huber's function (c = 1.345) of residuals over their scale (median absolute deviation), and
  v = Σx̃²·Σψ²/(n − k) (the aligned M-test of Sen). Outlying outcomes have bounded influence; outlying predictors do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import optimize

from fbed.clock import check_time, seconds_left
from fbed.errors import InvalidInput
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices, Span, single_columns
from fbed.models.likelihoods.likelihood import evidence
from fbed.models.presentation import ONE_PREDICTOR, on_users_scale
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats

_PERFECT = 1e-10
_HUBER = 1.345  # 95 % efficiency with normal errors
_NORMAL_MAD = 0.6744897501960817  # median absolute deviation of the standard normal distribution
_SCALE_ITERATIONS = 300  # afterwards the scale is held, and what remains is convex
_WIDEST = 1e6  # ratio of the weights of a linear program


@dataclass(frozen=True)
class Scored:
    """A fit on S: coefficients of the columns Z, score of every row (of all its copies), v and what is left."""

    coefficients: Floats
    scores: Floats
    variance: float
    loss: float


class Scoring(Protocol):
    """A way to fit S and to score what is left."""

    name: str
    needs_spread: bool  # whether the median absolute deviation of the outcome must not be 0

    def fit(self, y: Floats, Z: Floats, weights: Floats) -> Scored:
        """Fit the outcome on the columns Z."""


class Quantile:
    """Quantile regression at level τ.

    Parameters
    ----------
    level : τ in (0, 1); 0.5 is the median.
    """

    needs_spread = False

    def __init__(self, level: float = 0.5) -> None:
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"level of a quantile lies strictly between 0 and 1, got {level!r}")
        self.level = level
        self.name = "quantile" if level == 0.5 else f"quantile({level:g})"

    def fit(self, y: Floats, Z: Floats, weights: Floats) -> Scored:
        """max yᵀλ with Zᵀλ = 0 and λ between a(τ − 1) and aτ; the coefficients are the multipliers."""
        if weights.max() > _WIDEST * weights.min():
            raise InvalidInput(
                f"the weights range from {weights.min():g} to {weights.max():g}, but the linear program of quantile "
                f"regression is solved to 7 digits only: let them differ {_WIDEST:g}-fold at most"
            )
        unit = 2.0 ** np.round(np.log2(weights.max()))  # the solver's tolerances and its infinity are absolute
        bounds = np.column_stack([weights * (self.level - 1.0), weights * self.level]) / unit
        found = optimize.linprog(
            -y,
            A_eq=Z.T,
            b_eq=np.zeros(Z.shape[1]),
            bounds=bounds,
            method="highs-ds",
            # looking for a smaller program takes time quadratic in the rows, and does not look at the clock
            options={"presolve": False, "time_limit": seconds_left()},
        )
        check_time()
        if found.x is None:
            raise RuntimeError(f"the linear program of the quantile regression was not solved: {found.message}")
        beta = np.asarray(-found.eqlin.marginals)
        residual = y - Z @ beta
        loss = weights @ (residual * np.where(residual > 0, self.level, self.level - 1.0))
        return Scored(beta, found.x * unit, self.level * (1.0 - self.level), float(loss))


class Huber:
    """Huber's M-estimate with the residuals' median absolute deviation as scale."""

    name = "robust"
    needs_spread = True

    def fit(self, y: Floats, Z: Floats, weights: Floats) -> Scored:
        """Iteratively reweighted least squares from the least-squares fit."""
        root = np.sqrt(weights)
        beta = _least_squares(Z, y, root)
        scale = 0.0
        for iteration in range(1000):
            check_time()
            residual = y - Z @ beta
            if iteration < _SCALE_ITERATIONS:
                scale = weighted_median(np.abs(residual), weights) / _NORMAL_MAD
            if scale <= 0.0:
                break
            row = root * np.sqrt(np.minimum(1.0, _HUBER / np.maximum(np.abs(residual) / scale, 1e-300)))
            previous, beta = beta, _least_squares(Z, y, row)
            if np.abs(beta - previous).max() <= 1e-11 * max(1.0, float(np.abs(beta).max())):
                break
        if scale <= 0.0:
            return Scored(beta, np.zeros_like(y), 1.0, 0.0)
        score = np.clip((y - Z @ beta) / scale, -_HUBER, _HUBER)
        variance = float(weights @ score**2) / max(float(weights.sum()) - Z.shape[1], 1.0)
        return Scored(beta, weights * score, variance, scale)


class ResidualScores:
    """A numeric outcome tested through scores of its residuals."""

    has_likelihood = False

    def __init__(self, design: Design, y: Floats, scoring: Scoring) -> None:
        self.design, self.scoring, self.name = design, scoring, scoring.name
        self.n, self.block_size = design.n, design.block_size
        self.center = weighted_median(y, design.weights)
        self.scale = float(np.abs(y - self.center).max())
        self.y = (y - self.center) / self.scale
        if scoring.needs_spread and weighted_median(np.abs(self.y), design.weights) <= 0.0:
            raise InvalidInput(
                f"family {self.name!r} measures the scale by the median absolute deviation, which is 0 here: half of "
                f"the values of y or more are {self.center:g}; choose another family"
            )
        self.null_loss = self.fit([]).scored.loss

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> ResidualScoresFit:
        """Fit and score on a set of variables."""
        return ResidualScoresFit(self, selected)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients; what is left and the same without variables stand for the deviances."""
        fit = self.fit(selected)
        shown = on_users_scale(fit.span, ONE_PREDICTOR, fit.scored.coefficients * self.scale, None)
        values = shown.values.copy()
        values[0] += self.center
        left, null = fit.scored.loss * self.scale, self.null_loss * self.scale
        return FittedModel(self.name, shown.terms, tuple(values.tolist()), None, left, null)


class ResidualScoresFit:
    """The scores given S."""

    def __init__(self, model: ResidualScores, selected: Sequence[int]) -> None:
        self.model, self.selected = model, tuple(selected)
        self.span = Span(model.design, selected)
        self.Z = self.span.Z
        self.scored = model.scoring.fit(model.y, self.Z, model.design.weights)
        self.scores = self.scored.scores / self.span.root  # meets columns that carry the root of the weights

    @property
    def saturated(self) -> bool:
        """Nothing, or no degree of freedom, is left."""
        return self.scored.loss <= _PERFECT * self.model.null_loss or self.model.n - self.span.rank <= 1

    def gains(self, candidates: Indices) -> Evidence:
        """The score test of each candidate."""
        explained, df = np.zeros(len(candidates)), np.zeros(len(candidates))
        width = self.model.design.width[candidates]
        single = np.flatnonzero(width == 1)
        if len(single):
            unit, degenerate = self.span.residuals(single_columns(self.model.design, candidates[single]))
            explained[single] = np.where(degenerate, 0.0, (unit.T @ self.scores) ** 2)
            df[single] = ~degenerate
        for i in np.flatnonzero(width > 1):
            new = self.span.group(int(candidates[i]))
            explained[i], df[i] = float(((new.T @ self.scores) ** 2).sum()), new.shape[1]
        return evidence(explained / self.scored.variance, df)

    def losses(self, variables: Indices) -> Evidence:
        """The score test of each variable given the others."""
        others = [self.model.fit([s for s in self.selected if s != variable]) for variable in variables]
        parts = [fit.gains(np.array([v], dtype=np.intp)) for fit, v in zip(others, variables, strict=True)]
        return evidence(np.concatenate([p.statistic for p in parts]), np.concatenate([p.df for p in parts]))


def _least_squares(Z: Floats, y: Floats, root: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(Z * root[:, None], y * root, rcond=None)[0], dtype=np.float64)


def weighted_median(values: Floats, weights: Floats) -> float:
    """The median of the values, each as often as its weight says."""
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weights[order])
    half = running[-1] / 2.0
    i = int(np.searchsorted(running, half * (1.0 - 1e-12)))
    if i + 1 < len(values) and running[i] <= half * (1.0 + 1e-12):
        return float(values[order[i]] + values[order[i + 1]]) / 2.0
    return float(values[order[i]])
