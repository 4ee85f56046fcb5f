"""Overdispersed counts, variance μ + αμ², log link, the dispersion α ≥ 0 estimated in every model.

    ℓ = Σ a[yη − (y + 1/α) log(1 + αμ)] + Σ_j N_j log(1 + αj),   N_j = weight of the rows with y > j

up to a constant. Written like this it is smooth at α = 0, the Poisson distribution, which is where counts that are not
overdispersed end: the supremum of the likelihood. For counts of a billion these terms are billions that cancel, so what
is computed is the deviance from the saturated Poisson model, in parts that are small and not negative:

    −2ℓ = 2Σ a·d(y, μ) + 2Σ_j N_j φ(r_j),   φ(r) = (1 + 1/r) log(1 + r) − 1,   r_j = α/(1 + αj),
    d = y log[1 + (y − μ)/(μ(1 + αy))] − log[1 + α(y − μ)/(1 + αμ)]/α

with d the deviance of a row at a known α, and φ by how much ∫ log(1 + αu) du from j to j + 1 exceeds log(1 + αj).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fbed.models.likelihoods import few_terms
from fbed.models.likelihoods.glm import log_intercept
from fbed.models.likelihoods.likelihood import Regression, RegressionFit
from fbed.models.likelihoods.newton import Columns, Maximum, bordered, climb, newton_step, told
from fbed.models.presentation import Estimates
from fbed.models.recession import Constraints, held_further
from fbed.rules.p_values import Floats

_SMALL = 0.02  # below this the closed forms cancel and their series, cut after twelve terms, is exact
_POWERS = np.arange(12)
_CLEARLY = 1e-3  # of a deviance: far beyond the rounding of any bound
_ATTEMPTS = 5  # Newton steps on which a Poisson model is asked whether it is out of the question
_FURTHEST = 1.0  # move of the predictors that such a step makes at most
_HIGHEST = 700.0  # predictor above which the mean is too large for a number


class NegativeBinomial(Regression):
    """Counts with weights and offset."""

    name = "negative_binomial"
    n_further = 1
    own_dispersion = True
    least = -np.inf

    def __init__(self, y: Floats, weights: Floats, offset: Floats | None = None) -> None:
        self.y, self.weights = y, weights
        self.n = float(weights.sum())
        self.offset = None if offset is None else offset[:, None]
        levels, self.which = np.unique(y, return_inverse=True)
        self.levels = levels[:, None]  # what is a function of a count is computed once for each
        self.steps, self.n_above = few_terms.of_counts(y, weights)  # the j and N_j of Σ_j, or few that stand for them

    @property
    def events(self) -> float:
        """Counts, or half the rows where these are fewer: the dispersion is estimated from them."""
        return min(float(self.weights @ self.y), self.n / 2.0)

    def start(self, size: int) -> Floats:
        """Logarithm of the mean, and the dispersion of the moments."""
        mean = float(self.weights @ self.y) / self.n
        variance = float(self.weights @ (self.y - mean) ** 2) / self.n
        out = np.zeros(size + 1)
        out[0] = np.log(mean) if self.offset is None else log_intercept(self.y, self.weights, self.offset[:, 0])
        out[-1] = np.clip((variance - mean) / mean**2, 0.01, 10.0)
        return out

    def maximise(self, columns: Columns, start: Floats, floors: Floors | None = None) -> Maximum:
        """The likelihood may have a maximum at α = 0 and another above it: whoever found one looks for the other.

        Unless it is out of the question, by what is known of deviances at other dispersions.
        """
        found = climb(self, columns, start)
        above = found.parameters[-1] > 0.0
        doubtful = above.copy()
        if floors is not None:
            doubtful &= floors.at_zero() <= found.deviance
        left = np.flatnonzero(doubtful)
        beaten = self._beats_poisson(columns.only(left), found.parameters[:, left], found.deviance[left])
        doubtful[left[beaten]] = False
        _improve(found, doubtful, self._held(columns.only(doubtful), found.parameters[:, doubtful], 0.0))
        searched = ~above & (True if floors is None else ~self._falls_from_zero(columns, found, floors))
        for alpha in self.dispersions if searched.any() else ():
            below = searched & (found.parameters[-1] == 0.0)
            held = self._held(columns.only(below), found.parameters[:, below], alpha)
            _improve(found, below, climb(self, columns.only(below), held.parameters))
        return told(found)

    def _falls_from_zero(self, columns: Columns, found: Maximum, floors: Floors) -> NDArray[np.bool_]:
        """Whether no dispersion is likelier than 0, for certain: none beyond some α₁ by what is known, and none below.

        With the residuals s of the Poisson model, half the deviance at α is at least that at 0 plus
        α[Σy − Σs²]/2 − α²M/2, where M ≥ Σ|s|³/3/(1 + α₁s)² of negative s and −(Σ_j N_jφ)″(0).
        """
        end = floors.certain_beyond(found.deviance)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            eta = columns.predict(found.parameters[:-1])
            s = self.y[:, None] - np.exp(eta if self.offset is None else eta + self.offset)
            _, first, second = self.count_terms(np.zeros(1))
            below = np.minimum(s, 0.0)
            most = self.weights @ (np.abs(below) ** 3 / (3.0 * (1.0 + end * below) ** 2)) - second[0]
            inside = (1.0 + end * below > 0.0).all(axis=0)
            return np.asarray(inside & (self.weights @ s**2 / 2.0 - first[0] + end * most / 2.0 <= 0.0))

    def _beats_poisson(self, columns: Columns, parameters: Floats, deviance: Floats) -> NDArray[np.bool_]:
        """Whether no coefficients reach the deviance with α = 0, for certain.

        A Newton step d of the Poisson model leads to means m = μ(1 + [Z x]d) with y − m orthogonal to its columns; if
        they are positive, no predictor η of the model has a deviance below 2Σ a[y log(y/m) − (y − m)(1 + η − log m)].
        """
        out, at = np.zeros(parameters.shape[1], dtype=bool), parameters[:-1]
        for _ in range(_ATTEMPTS):
            left = np.flatnonzero(~out)
            if not len(left):
                break
            some = columns.only(left)
            point = _AtDispersion(self, 0.0).at(some, at[:, left])
            step, _ = newton_step(*point.derivatives())
            move = some.predict(step)
            out[left] = self._least_poisson(point, move) > deviance[left] + _CLEARLY * np.maximum(1.0, deviance[left])
            at = at.copy()
            at[:, left] += step / np.maximum(1.0, np.abs(move).max(axis=0) / _FURTHEST)
        return out

    def _least_poisson(self, point: _PointAtDispersion, move: Floats) -> Floats:
        y = self.y[:, None]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            mean, further = point.mean * (1.0 + move), np.log1p(move)
            rows = np.where(y > 0.0, y * (np.log(np.maximum(y, 1.0)) - point.eta - further), 0.0)
            least = 2.0 * (self.weights @ (rows - (y - mean) * (1.0 - further)))
        return np.where((move > -1.0).all(axis=0) & np.isfinite(least), least, -np.inf)

    def _held(self, columns: Columns, parameters: Floats, alpha: float) -> Maximum:
        """The maximum at a given α, which is the only one there."""
        if not parameters.shape[1]:
            return Maximum(parameters, np.zeros(0), np.zeros(0, dtype=bool))
        likelihood, start = _AtDispersion(self, alpha), parameters[:-1]
        plain = np.broadcast_to(self.start(len(start))[:-1, None], start.shape)
        nearer = likelihood.at(columns, start).value <= likelihood.at(columns, plain).value
        found = climb(likelihood, columns, np.where(nearer, start, plain))
        whole = np.vstack([found.parameters, np.full((1, parameters.shape[1]), alpha)])
        return Maximum(whole, found.deviance, found.finished)

    def project(self, parameters: Floats) -> Floats:
        """α ≥ 0."""
        return np.vstack([parameters[:-1], np.maximum(parameters[-1:], 0.0)])

    def at(self, columns: Columns, parameters: Floats) -> NegativeBinomialPoint:
        """Evaluate many models."""
        return NegativeBinomialPoint(self, columns, parameters)

    def count_terms(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        """Σ_j N_j φ(r_j) and its first two derivatives in α, for every model."""
        j = self.steps[:, None]
        below = 1.0 + j * alpha
        value, slope, bend = _excess(alpha / below)
        first = self.n_above @ (slope / below**2)
        second = self.n_above @ (bend / below**4 - 2.0 * j * slope / below**3)
        return self.n_above @ value, first, second

    @cached_property
    def dispersions(self) -> Floats:
        """Where a maximum above 0 is looked for: from a variance next to that of Poisson to far above it."""
        mean = float(self.weights @ self.y) / self.n
        return np.geomspace(0.3 / max(mean, 1.0), 3.0, 3)

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
        y, a = family.y[:, None], family.weights
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            self.mean = np.exp(np.minimum(self.eta, _HIGHEST))
            counts, self._first, self._second = family.count_terms(self.alpha)
            self.value = 2.0 * (a @ _row_deviance(y, self.mean, self.alpha) + counts)
        self.value[np.isnan(self.value)] = np.inf

    def residual(self) -> Floats:
        """(y − μ)/(1 + αμ), weighted."""
        y, a = self.family.y[:, None], self.family.weights[:, None]
        return a * (y - self.mean) / (1.0 + self.alpha * self.mean)

    def curvature(self) -> Floats:
        """μ(1 + αy)/(1 + αμ)², weighted."""
        y, a = self.family.y[:, None], self.family.weights[:, None]
        above = 1.0 + self.alpha * self.mean  # its square may be too large for a number
        return a * (self.mean / above) * ((1.0 + self.alpha * y) / above)

    def information(self) -> Floats:
        """The curvature that is expected: μ/(1 + αμ), weighted."""
        return self.family.weights[:, None] * self.mean / (1.0 + self.alpha * self.mean)

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """In the coefficients and α; where the Hessian is indefinite, its blocks, made positive."""
        columns = columns or self.columns
        y, a, mean = self.family.y[:, None], self.family.weights, self.mean
        z = self.alpha * mean
        g, g_slope = _mean_log_terms(mean, self.alpha)
        g_y, g_y_slope = (part[self.family.which] for part in _mean_log_terms(self.family.levels, self.alpha))
        at_mean, at_y = mean / (1.0 + z), y / (1.0 + self.alpha * y)
        apart = (y - mean) / (1.0 + z) / (1.0 + self.alpha * y)  # at_y − at_mean
        slope = a @ (g - g_y + y * apart) - self._first
        bend = self._second - a @ (g_slope - g_y_slope - y * apart * (at_mean + at_y))
        cross = columns.inner(a[:, None] * ((y - mean) / (1.0 + z)) * at_mean)
        inner = columns.gram(self.curvature())
        held = (self.alpha <= 0.0) & (slope < 0.0)  # at the boundary, and the likelihood rises only beyond it
        slope = np.where(held, 0.0, slope)
        cross[:, held | ~_is_definite(inner, cross, bend)] = 0.0
        bend = np.where(held, 1.0, np.maximum(np.abs(bend), 1e-300))
        gradient = np.vstack([columns.inner(self.residual()), slope])
        return gradient, bordered(inner, cross, bend)

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Residuals, and the information that is expected."""
        return self.residual(), self.information()[:, 0]

    def separated(self) -> NDArray[np.bool_]:
        """Counts have no boundary to be separated by."""
        return np.zeros(len(self.alpha), dtype=bool)


@dataclass(frozen=True)
class Floors:
    """What models leave unexplained at least, for dispersions in some intervals that hold all of them.

    An interval of a single dispersion holds all up to its neighbours as well.
    """

    low: Floats
    high: Floats
    least: Floats  # models × intervals

    def at_zero(self) -> Floats:
        """Without dispersion."""
        return np.asarray(self.least[:, self.low == 0.0].max(axis=1, initial=-np.inf))

    def certain_beyond(self, deviance: Floats) -> Floats:
        """Dispersions from which on no model reaches a deviance."""
        ends = np.unique(np.concatenate([self.low, self.high, [np.inf]]))
        nearest = ends[np.searchsorted(ends, self.high, side="right")]
        reach = np.where(self.low < self.high, self.high, nearest)
        return np.asarray(np.where(self.least < deviance[:, None], reach, 0.0).max(axis=1))


class _AtDispersion:
    """The likelihood of the coefficients alone, which is concave."""

    def __init__(self, family: NegativeBinomial, alpha: float) -> None:
        self.family, self.alpha = family, alpha

    def at(self, columns: Columns, parameters: Floats) -> _PointAtDispersion:
        """Evaluate many models."""
        alpha = np.full((1, parameters.shape[1]), self.alpha)
        return _PointAtDispersion(self.family, columns, np.vstack([parameters, alpha]))

    def project(self, parameters: Floats) -> Floats:
        """Coefficients have no boundary."""
        return parameters

    def largest_move(self, columns: Columns, step: Floats) -> Floats:
        """max |Δη|."""
        return np.asarray(np.abs(columns.predict(step)).max(axis=0))


class _PointAtDispersion(NegativeBinomialPoint):
    """The same point, seen by the coefficients."""

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """In the coefficients."""
        columns = columns or self.columns
        return columns.inner(self.residual()), columns.gram(self.curvature())


def _improve(found: Maximum, which: NDArray[np.bool_], other: Maximum) -> None:
    """Keep what another search has found for some of the models, where it is better by more than rounding."""
    better = other.deviance < found.deviance[which] - 1e-9
    models = np.flatnonzero(which)[better]
    found.parameters[:, models], found.deviance[models] = other.parameters[:, better], other.deviance[better]
    found.finished[models] = other.finished[better]


def _row_deviance(y: Floats, mean: Floats, alpha: Floats) -> Floats:
    """d(y, μ), half the deviance of a row at a known dispersion."""
    gap = (y - mean) / (1.0 + alpha * mean)
    scaled = alpha * gap
    small = np.abs(scaled) < 1e-300
    apart = np.log1p(alpha * y) - np.log1p(alpha * mean)  # of a mean far above its count, where 1 + scaled cancels
    log = np.where(scaled < -0.5, apart, np.log1p(np.maximum(scaled, -0.75)))
    per_alpha = gap * np.where(small, 1.0, log / np.where(small, 1.0, scaled))
    ratio = np.where(y > 0, (y - mean) / (mean * (1.0 + alpha * y)), 0.0)
    far = np.log(np.maximum(y, 1.0) / mean) - apart
    return y * np.where(np.abs(ratio) < 0.5, np.log1p(ratio), far) - per_alpha


def _excess(r: Floats) -> tuple[Floats, Floats, Floats]:
    """φ(r) = (1 + 1/r) log(1 + r) − 1 and its first two derivatives, by series near 0."""
    small = r < _SMALL
    safe = np.where(small, 1.0, r)
    log = np.log1p(safe)
    value, slope = (1.0 + 1.0 / safe) * log - 1.0, (safe - log) / safe**2
    bend = (2.0 * log - safe - safe / (1.0 + safe)) / safe**3
    if small.any():
        sign = (-1.0) ** _POWERS / (_POWERS + 2.0)  # of φ′
        near, series = np.where(small, r, 0.0), np.polynomial.polynomial.polyval
        value = np.where(small, near * series(near, sign / (_POWERS + 1.0)), value)
        slope = np.where(small, series(near, sign), slope)
        bend = np.where(small, series(near, (sign * _POWERS)[1:]), bend)
    return value, slope, bend


def _mean_log_terms(mean: Floats, alpha: Floats) -> tuple[Floats, Floats]:
    """μ²g(αμ) and μ³g′(αμ), where g(z) = [log(1+z) − z/(1+z)]/z², by series near 0; means may be huge."""
    z = alpha * mean
    small = z < _SMALL
    safe, per_alpha = np.where(small, 1.0, z), 1.0 / np.where(small, 1.0, np.broadcast_to(alpha, z.shape))
    part = safe / (1.0 + safe)
    h = np.log1p(safe) - part
    g, slope = h * per_alpha**2, (part**2 - 2.0 * h) * per_alpha**3
    if small.any():
        sign = (-1.0) ** _POWERS * (_POWERS + 1.0) / (_POWERS + 2.0)
        near, low = z[small], np.broadcast_to(mean, z.shape)[small]
        g[small] = low**2 * np.polynomial.polynomial.polyval(near, sign)
        slope[small] = low**3 * np.polynomial.polynomial.polyval(near, (sign * _POWERS)[1:])
    return g, slope


def _is_definite(inner: Floats, cross: Floats, corner: Floats) -> NDArray[np.bool_]:
    """Whether the bordered matrix is positive definite, by its Schur complement (the inner block always is)."""
    size = inner.shape[1]
    jittered = inner + 1e-12 * np.einsum("bii->b", inner)[:, None, None] / size * np.eye(size)
    solved = np.linalg.solve(jittered, cross.T[:, :, None])[:, :, 0].T
    return corner - np.einsum("ij,ij->j", cross, solved) > 1e-8 * np.abs(corner)
