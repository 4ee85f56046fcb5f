"""Overdispersed counts, variance μ + αμ², log link, the dispersion α ≥ 0 estimated in every model.

    ℓ = Σ a[yη − (y + 1/α) log(1 + αμ)] + Σ_j N_j log(1 + αj),   N_j = weight of the rows with y > j

up to a constant. Written like this it is smooth at α = 0, the Poisson distribution, which is where counts that are not
overdispersed end: the supremum of the likelihood.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.families.glm import log_intercept
from fbed.families.likelihood import Regression, RegressionFit
from fbed.families.newton import Columns
from fbed.families.presentation import Estimates
from fbed.families.recession import Constraints, held_further
from fbed.tails import Floats

_SMALL = 0.02  # below this the closed forms cancel and their series, cut after twelve terms, is exact
_POWERS = np.arange(12)
_COUNTS_IN_BLOCK = 2**14


class NegativeBinomial(Regression):
    """Counts with weights and offset."""

    name = "negative_binomial"
    n_further = 1
    least = -np.inf

    def __init__(self, y: Floats, weights: Floats, offset: Floats | None = None) -> None:
        self.y, self.weights = y, weights
        self.n = float(weights.sum())
        self.offset = None if offset is None else offset[:, None]
        self.saturated_loss = float(weights @ (y - special.xlogy(y, y)))
        above = np.bincount(y.astype(np.intp), weights)
        self.n_above = (self.n - np.cumsum(above))[:-1]  # N_j for j = 0 … max y − 1

    def start(self, size: int) -> Floats:
        """Logarithm of the mean, and the dispersion of the moments."""
        mean = float(self.weights @ self.y) / self.n
        variance = float(self.weights @ (self.y - mean) ** 2) / self.n
        out = np.zeros(size + 1)
        out[0] = np.log(mean) if self.offset is None else log_intercept(self.y, self.weights, self.offset[:, 0])
        out[-1] = np.clip((variance - mean) / mean**2, 0.01, 10.0)
        return out

    def project(self, parameters: Floats) -> Floats:
        """α ≥ 0."""
        return np.vstack([parameters[:-1], np.maximum(parameters[-1:], 0.0)])

    def at(self, columns: Columns, parameters: Floats) -> NegativeBinomialPoint:
        """Evaluate many models."""
        return NegativeBinomialPoint(self, columns, parameters)

    def count_terms(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        """Σ_j N_j log(1 + αj) and its first two derivatives in α, for every model."""
        value, first, second = np.zeros((3, len(alpha)))
        for start in range(0, len(self.n_above), _COUNTS_IN_BLOCK):
            weight = self.n_above[start : start + _COUNTS_IN_BLOCK]
            j = np.arange(start, start + len(weight), dtype=float)[:, None]
            inverse = j / (1.0 + j * alpha)
            value += weight @ np.log1p(j * alpha)
            first += weight @ inverse
            second -= weight @ inverse**2
        return value, first, second

    def constraints(self, fit: RegressionFit) -> Constraints:
        """Means of rows without a count may run to 0; nothing else moves."""
        eta = self.at(fit.columns, fit.parameters[:, None]).eta[:, 0]
        return held_further(Constraints(-fit.Z, np.where(self.y == 0.0, -eta, -np.inf)), self.n_further)

    def present(self, estimates: Estimates) -> Estimates:
        """The further parameter is the dispersion."""
        return estimates.named((*estimates.terms[:-1], "dispersion"))


class NegativeBinomialPoint:
    """Deviance from the saturated Poisson model, and derivatives."""

    def __init__(self, family: NegativeBinomial, columns: Columns, parameters: Floats) -> None:
        self.family, self.columns = family, columns
        self.alpha = parameters[-1]
        self.eta = columns.predict(parameters[:-1])
        if family.offset is not None:
            self.eta = self.eta + family.offset
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean = np.exp(self.eta)
            z = self.alpha * self.mean
            log_term = np.log1p(z)
            small = z < 1e-300
            per_alpha = np.where(small, self.mean, self.mean * log_term / np.where(small, 1.0, z))
            y, a = family.y, family.weights
            counts, self._first, self._second = family.count_terms(self.alpha)
            loss = (a * y) @ (log_term - self.eta) + a @ per_alpha - counts
        self.value = 2.0 * (loss - family.saturated_loss)
        self.value[np.isnan(self.value)] = np.inf

    def residual(self) -> Floats:
        """(y − μ)/(1 + αμ), weighted."""
        y, a = self.family.y[:, None], self.family.weights[:, None]
        return a * (y - self.mean) / (1.0 + self.alpha * self.mean)

    def curvature(self) -> Floats:
        """μ(1 + αy)/(1 + αμ)², weighted."""
        y, a = self.family.y[:, None], self.family.weights[:, None]
        return a * self.mean * (1.0 + self.alpha * y) / (1.0 + self.alpha * self.mean) ** 2

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """In the coefficients and α; where the Hessian is indefinite, its blocks, made positive."""
        columns = columns or self.columns
        y, a = self.family.y[:, None], self.family.weights
        z = self.alpha * self.mean
        g, g_slope = _mean_log_terms(z)
        slope = self._first + a @ (self.mean**2 * g - y * self.mean / (1.0 + z))
        bend = -(self._second + a @ (self.mean**3 * g_slope + y * (self.mean / (1.0 + z)) ** 2))
        cross = columns.inner(a[:, None] * (y - self.mean) * self.mean / (1.0 + z) ** 2)
        inner = columns.gram(self.curvature())
        held = (self.alpha <= 0.0) & (slope < 0.0)  # at the boundary, and the likelihood rises only beyond it
        slope = np.where(held, 0.0, slope)
        cross[:, held | ~_is_definite(inner, cross, bend)] = 0.0
        bend = np.where(held, 1.0, np.maximum(np.abs(bend), 1e-300))
        gradient = np.vstack([columns.inner(self.residual()), slope])
        return gradient, _with_corner(inner, cross, bend)

    def separated(self) -> NDArray[np.bool_]:
        """Counts have no boundary to be separated by."""
        return np.zeros(len(self.alpha), dtype=bool)


def _mean_log_terms(z: Floats) -> tuple[Floats, Floats]:
    """g(z) = [log(1+z) − z/(1+z)]/z² and its derivative, by series near 0."""
    small = z < _SMALL
    safe = np.where(small, 1.0, z)
    h = np.log1p(safe) - safe / (1.0 + safe)
    g, slope = h / safe**2, 1.0 / (safe * (1.0 + safe) ** 2) - 2.0 * h / safe**3
    if small.any():
        sign = (-1.0) ** _POWERS * (_POWERS + 1.0) / (_POWERS + 2.0)
        near = np.where(small, z, 0.0)
        g = np.where(small, np.polynomial.polynomial.polyval(near, sign), g)
        slope = np.where(small, np.polynomial.polynomial.polyval(near, (sign * _POWERS)[1:]), slope)
    return g, slope


def _is_definite(inner: Floats, cross: Floats, corner: Floats) -> NDArray[np.bool_]:
    """Whether the bordered matrix is positive definite, by its Schur complement (the inner block always is)."""
    size = inner.shape[1]
    jittered = inner + 1e-12 * np.einsum("bii->b", inner)[:, None, None] / size * np.eye(size)
    solved = np.linalg.solve(jittered, cross.T[:, :, None])[:, :, 0].T
    return corner - np.einsum("ij,ij->j", cross, solved) > 1e-8 * np.abs(corner)


def _with_corner(inner: Floats, cross: Floats, corner: Floats) -> Floats:
    batch, k, _ = inner.shape
    out = np.empty((batch, k + 1, k + 1))
    out[:, :k, :k] = inner
    out[:, :k, k] = out[:, k, :k] = cross.T
    out[:, k, k] = corner
    return out
