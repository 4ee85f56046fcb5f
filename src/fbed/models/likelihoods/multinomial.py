"""A nominal outcome, softmax of K − 1 predictors: ℓ = Σ a[η_y − log Σ_c exp(η_c)], η of the first class 0.

Degrees of freedom: (K − 1) for each column that a variable adds to the span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.models.base import harmonic_mean
from fbed.models.likelihoods.likelihood import Regression, RegressionFit
from fbed.models.likelihoods.newton import Columns
from fbed.models.presentation import Estimates
from fbed.models.recession import Constraints, one_below_another, rows_times, side_by_side
from fbed.rules.p_values import Floats

_DECIDED = (
    1e-7  # part of the largest variance below which a class is: in the limit it has none, wherever iterations ended
)


class Multinomial(Regression):
    """Classes 0 … K − 1 with weights; `labels` are what the user calls them."""

    name = "multinomial"
    brackets = raced = True

    def __init__(self, codes: NDArray[np.intp], labels: Sequence[Any], weights: Floats) -> None:
        self.codes, self.labels, self.weights = codes, tuple(labels), weights
        self.n = float(weights.sum())
        self.n_predictors = len(labels) - 1
        self.indicator = (codes[None, :] == np.arange(1, len(labels))[:, None]).astype(float)  # classes × rows

    @property
    def events(self) -> float:
        """Rows of a class, on average."""
        return harmonic_mean(np.bincount(self.codes, self.weights, len(self.labels)))

    def start(self, size: int) -> Floats:
        """Log odds of every class against the first."""
        counts = np.bincount(self.codes, self.weights, len(self.labels))
        out = np.zeros((self.n_predictors, size))
        out[:, 0] = np.log(counts[1:] / counts[0])
        return out.ravel()

    def at(self, columns: Columns, parameters: Floats) -> MultinomialPoint:
        """Evaluate many models."""
        return MultinomialPoint(self, columns, parameters)

    def present(self, estimates: Estimates) -> Estimates:
        """Every coefficient with the class that it makes more likely than the first."""
        size = len(estimates.terms) // self.n_predictors
        names = (f"{term} → {label}" for label, term in zip(np.repeat(self._names(), size), estimates.terms))  # noqa: B905
        return estimates.named(tuple(names))

    def constraints(self, fit: RegressionFit) -> Constraints:
        """The predictor of every row's class against that of every other class, the first being 0."""
        eta = np.column_stack([np.zeros(len(self.codes)), fit.predictors()])
        blocks, margins = [], []
        for other in range(self.n_predictors + 1):
            some = np.flatnonzero(self.codes != other)
            rows, own = fit.constrained_rows[some], self.codes[some]
            ways = [(own == c) * 1.0 - float(other == c) for c in range(1, self.n_predictors + 1)]
            blocks.append(side_by_side([rows_times(way, rows) for way in ways]))
            margins.append(eta[some, own] - eta[some, other])
        return Constraints(one_below_another(blocks), np.concatenate(margins))

    def _names(self) -> list[str]:
        return [str(label) for label in self.labels[1:]]


class MultinomialPoint:
    """Class probabilities (classes but the first × rows × models), deviance and derivatives."""

    def __init__(self, family: Multinomial, columns: Columns, parameters: Floats) -> None:
        self.family, self.columns = family, columns
        m, size = family.n_predictors, columns.size
        eta = np.stack([columns.predict(parameters[j * size : (j + 1) * size]) for j in range(m)])
        self.top = np.maximum(eta.max(axis=0), 0.0)
        odds = np.exp(eta - self.top)
        total = odds.sum(axis=0) + np.exp(-self.top)
        self.own = np.einsum("cr,crb->rb", family.indicator, eta)  # predictor of the class that was observed
        self.value = 2.0 * (family.weights @ (np.log(total) + (self.top - self.own)))
        self.eta, self.probability = eta, odds / total
        self.others = self._others(odds, total)

    def _others(self, odds: Floats, total: Floats) -> Floats:
        """1 − p to all its digits, which decide where most rows are certain."""
        likeliest = odds.argmax(axis=0)[None]
        rest = odds.copy()
        np.put_along_axis(rest, likeliest, 0.0, axis=0)
        out = 1.0 - self.probability
        np.put_along_axis(out, likeliest, ((rest.sum(axis=0) + np.exp(-self.top)) / total)[None], axis=0)
        return np.asarray(out)

    @property
    def least_probability(self) -> float:
        """Of any class in any row."""
        first = 1.0 - self.probability.sum(axis=0) if self.probability.shape[0] > 1 else self.others[0]
        return float(min(self.probability.min(), first.min()))

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """Blocks [Z x]ᵀ(y_c − p_c) and [Z x]ᵀdiag(p_c(δ_cd − p_d))[Z x]."""
        columns = columns or self.columns
        m, size = self.family.n_predictors, columns.size
        a = self.family.weights[:, None]
        p = self.probability
        observed = self.family.indicator > 0
        residual = [a * np.where(observed[c][:, None], self.others[c], -p[c]) for c in range(m)]
        gradient = np.vstack([columns.inner(r) for r in residual])
        hessian = np.empty((gradient.shape[1], m * size, m * size))
        for c in range(m):
            check_time()  # hundreds of classes have tens of thousands of blocks
            for d in range(c + 1):
                block = columns.gram(a * p[c] * (self.others[c] if c == d else -p[d]))
                hessian[:, c * size : (c + 1) * size, d * size : (d + 1) * size] = block
                hessian[:, d * size : (d + 1) * size, c * size : (c + 1) * size] = block
        return gradient, hessian

    def extremes(self, step: Floats) -> tuple[Floats, Floats]:
        """z_c = u_c − Σ_d p_d u_d of every class, the first with u = 0."""
        mean = np.einsum("crb,crb->rb", np.broadcast_to(self.probability, step.shape), step)
        low, high = np.minimum(step.min(axis=0), 0.0) - mean, np.maximum(step.max(axis=0), 0.0) - mean
        return low.min(axis=0), high.max(axis=0)

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """y_c − p_c of every class but the first; the variance is diag(p) − ppᵀ, relative to its mean over the rows."""
        return class_scores(self.probability[:, :, 0], self.family.indicator, self.family.weights)

    def separated(self) -> NDArray[np.bool_]:
        """Every row's class has a larger predictor than any other."""
        on_top = (self.own >= self.top).all(axis=0)
        if not on_top.any():
            return np.asarray(on_top)
        others = np.where(self.family.indicator[:, :, None] > 0, -np.inf, self.eta).max(axis=0)
        reference = np.where(self.family.codes[:, None] == 0, -np.inf, 0.0)
        return np.asarray((self.own > np.maximum(others, reference)).all(axis=0))


def class_scores(p: Floats, indicator: NDArray[Any], a: Floats) -> tuple[Floats, Floats]:
    """Scores of every row, given probabilities of classes but the first × rows, and their relative variances."""
    mean = np.diag(p @ a) - (p * a) @ p.T
    inverse = np.linalg.pinv(mean / a.sum(), rcond=_DECIDED, hermitian=True)
    relative = np.diag(inverse) @ p - np.einsum("cr,cd,dr->r", p, inverse, p)
    return (a * (indicator - p)).T, a * np.maximum(relative, 0.0)
