"""Generalised linear models with one predictor a row: a distribution is data, the engine is shared.

    ℓ = Σ a[yη − ψ(η)] up to a constant,   gradient Zᵀa(y − μ),   information Zᵀ(aw)Z

for Poisson counts (log link) and successes out of trials (logit link); the gamma distribution with log link has
ℓ = −ν Σ a[η + y·exp(−η)], with the same shape of derivatives. Its shape ν is estimated in every model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.models.base import harmonic_mean
from fbed.models.likelihoods.likelihood import Regression, RegressionFit
from fbed.models.likelihoods.newton import Columns, Maximum, newton_step
from fbed.models.recession import Constraints
from fbed.rules.p_values import Floats

PERFECT = 1e-10
"""Deviance below this part of the null one is a perfect fit where the dispersion is estimated: what is left is
rounding, and counts as exactly this much."""

_LITTLE = 1e-3  # deviance a row from which on fits are taken further than those of other outcomes,
_ROUGH = 1e-10  # by steps that may undo what was taken to be gained before: deviances are known to this much a row then
_KNOWN = 1e-11  # part of a deviance by which the last of them changes it at most
_MORE_STEPS = 5  # of Newton's method, so close to the maximum

_NEAR_ZERO = 1e-3  # below which four terms of eᵘ − 1 − u are all digits of it, nearly

_CLOSE = 1e-8  # a step of Newton's method after which nothing is left but rounding


@dataclass(frozen=True)
class Distribution:
    """A distribution of y given its linear predictor η.

    `residual` and `curvature` are minus the first and the second derivative of `loss`, half the deviance up to
    a constant; all take the predictor, what `transform` made of it, and the outcome.
    """

    name: str
    transform: Callable[[Floats], Floats]
    loss: Callable[[Floats, Floats, Floats, Floats], Floats]
    residual: Callable[[Floats, Floats, Floats], Floats]
    curvature: Callable[[Floats, Floats, Floats], Floats]
    saturated_loss: Callable[[Floats], Floats]
    link: Callable[[float], float]
    estimates_dispersion: bool = False
    intercept: Callable[[Floats, Floats, Floats], float] | None = (
        None  # of a model with nothing but an offset beside it
    )
    lowest: float = -np.inf  # outcome that is likelier the smaller its predictor, for ever
    highest: float = np.inf  # and the larger it is


def _exp(predictor: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.exp(predictor)


def _beyond(change: Floats, grown: Floats) -> Floats:
    """eᵘ − 1 − u, of u and eᵘ − 1: by its series where that cancels."""
    near = np.abs(change) < _NEAR_ZERO
    if not near.any():
        return grown - change
    u = np.where(near, change, 0.0)
    return np.where(near, u * u * (0.5 + u * (1.0 / 6.0 + u * (1.0 / 24.0 + u / 120.0))), grown - change)


def log_intercept(y: Floats, weights: Floats, offset: Floats) -> float:
    """Σay = Σa·exp(offset + intercept)."""
    return float(np.log(weights @ y) - special.logsumexp(offset, b=weights))


def logit_intercept(y: Floats, weights: Floats, offset: Floats) -> float:
    """Σay = Σa·expit(offset + intercept), by bisection: the right side grows with the intercept."""
    wanted = float(weights @ y)
    center = float(special.logit(wanted / weights.sum()))
    low, high = center - float(offset.max()), center - float(offset.min())
    for _ in range(60):
        middle = 0.5 * (low + high)
        if weights @ special.expit(offset + middle) > wanted:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


POISSON = Distribution(
    "poisson",
    transform=_exp,
    # row by row less that of the mean y: sums of large counts would leave nothing of their difference
    loss=lambda eta, mean, y, a: a @ (mean - y[:, None]) - (a * y) @ (eta - np.log(np.maximum(y, 1.0))[:, None]),
    residual=lambda eta, mean, y: y[:, None] - mean,
    curvature=lambda eta, mean, y: mean,
    saturated_loss=np.zeros_like,
    link=np.log,
    intercept=log_intercept,
    lowest=0.0,
)

BINOMIAL = Distribution(
    "binomial",
    transform=special.expit,
    loss=lambda eta, mean, y, a: a @ np.logaddexp(0.0, eta) - (a * y) @ eta,
    residual=lambda eta, mean, y: y[:, None] - mean,
    curvature=lambda eta, mean, y: mean * special.expit(-eta),
    saturated_loss=lambda y: -special.xlogy(y, y) - special.xlog1py(1.0 - y, -y),
    link=special.logit,
    intercept=logit_intercept,
    lowest=0.0,
    highest=1.0,
)

GAMMA = Distribution(
    "gamma",
    transform=lambda eta: _exp(-eta),
    # row by row less that of the outcome itself: of sums of logarithms, far from 0, little is left where a fit is close
    loss=lambda eta, inverse, y, a: a @ _beyond(np.log(y)[:, None] - eta, y[:, None] * inverse - 1.0),
    residual=lambda eta, inverse, y: y[:, None] * inverse - 1.0,
    curvature=lambda eta, inverse, y: y[:, None] * inverse,
    saturated_loss=np.zeros_like,
    link=np.log,
    intercept=lambda y, a, offset: float(special.logsumexp(-offset, b=a * y) - np.log(a.sum())),
    estimates_dispersion=True,
)


class Glm(Regression):
    """A distribution with data: outcome, prior weights (frequency × trials) and offset of every row."""

    weighs_rows = True

    def __init__(self, distribution: Distribution, y: Floats, weights: Floats, offset: Floats | None = None) -> None:
        self.distribution = distribution
        self.name = distribution.name
        self.brackets = not distribution.estimates_dispersion
        self.own_dispersion = distribution is not BINOMIAL
        self.n = float(weights.sum())
        self.y, self.weights = y, weights
        self.offset = None if offset is None else offset[:, None]
        self.saturated_loss = float(weights @ distribution.saturated_loss(y))
        self.can_separate = distribution is BINOMIAL and bool(np.isin(y, (0.0, 1.0)).all())
        self.floor = 0.0
        if distribution.estimates_dispersion:
            mean = float(weights @ y) / self.n
            self.floor = PERFECT * 2.0 * float(weights @ np.log(mean / y))

    @property
    def events(self) -> float:
        """Counts, successes and failures; half the rows where the dispersion is estimated from the same rows."""
        total = float(self.weights @ self.y)
        if self.distribution.estimates_dispersion:
            return self.n / 2.0
        return total if self.distribution is POISSON else harmonic_mean(np.array([total, self.n - total]))

    def start(self, size: int) -> Floats:
        """The link of the mean for the intercept; with an offset, what explains the mean with it."""
        out = np.zeros(size)
        if self.offset is None or self.distribution.intercept is None:
            shift = 0.0 if self.offset is None else float(self.weights @ self.offset[:, 0]) / self.n
            out[0] = self.distribution.link(float(self.weights @ self.y) / self.n) - shift
        else:
            out[0] = self.distribution.intercept(self.y, self.weights, self.offset[:, 0])
        return out

    def maximise(self, columns: Columns, start: Floats) -> Maximum:
        """Where the dispersion is estimated, a close fit has to be known to a part of what little it leaves."""
        found = super().maximise(columns, start)
        left = np.arange(found.parameters.shape[1] if self.distribution.estimates_dispersion else 0)
        for _ in range(_MORE_STEPS):
            deviance = found.deviance[left]
            left = left[(deviance > self.floor) & (deviance <= _LITTLE * self.n)]
            if not len(left):
                break
            some = columns.only(left)
            step, _ = newton_step(*self.at(some, found.parameters[:, left]).derivatives())
            further = found.parameters[:, left] + step
            there = self.at(some, further).value
            better = there <= found.deviance[left] + _ROUGH * self.n
            left = left[better]
            found.parameters[:, left] = further[:, better]
            known = np.abs(found.deviance[left] - there[better]) <= _KNOWN * there[better]
            found.deviance[left] = there[better]
            left = left[~known]
        return found

    def at(self, columns: Columns, parameters: Floats) -> GlmPoint:
        """Evaluate many models."""
        return GlmPoint(self, columns, parameters)

    def twice_negative(self, deviance: Floats) -> Floats:
        """The deviance itself, or −2·log-likelihood at the best shape where the dispersion is estimated."""
        if not self.distribution.estimates_dispersion:
            return deviance
        return gamma_twice_negative(np.maximum(deviance, self.floor), self.n)

    def precision(self, deviance: Floats) -> Floats:
        """The shape, by maximum likelihood, where there is one."""
        if not self.distribution.estimates_dispersion:
            return np.ones_like(deviance)
        return gamma_shape(np.maximum(deviance, self.floor) / (2.0 * self.n))

    def saturated(self, fit: RegressionFit) -> bool:
        """As usual, or a perfect fit where the dispersion is estimated."""
        if not self.distribution.estimates_dispersion:
            return super().saturated(fit)
        return fit.deviance <= self.floor or self.n - fit.span.rank <= 1

    def constraints(self, fit: RegressionFit) -> Constraints | None:
        """Rows at the edge of their range, all successes, all failures or no count, may run to it; no others move."""
        low, high = self.y == self.distribution.lowest, self.y == self.distribution.highest
        if not (low | high).any():
            return None
        sign = np.where(low, -1.0, 1.0)
        margin = sign * self.at(fit.columns, fit.parameters[:, None]).eta[:, 0]
        return Constraints(sign[:, None] * fit.Z, np.where(low | high, margin, -np.inf))


class GlmPoint:
    """Predictors, deviance and derivatives."""

    def __init__(self, glm: Glm, columns: Columns, parameters: Floats) -> None:
        self.glm, self.columns = glm, columns
        self.eta = columns.predict(parameters)
        if glm.offset is not None:
            self.eta = self.eta + glm.offset
        self.transformed = glm.distribution.transform(self.eta)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = glm.distribution.loss(self.eta, self.transformed, glm.y, glm.weights)
        self.value = np.maximum(2.0 * (loss - glm.saturated_loss), 0.0)
        self.value[np.isnan(self.value)] = np.inf

    def residual(self) -> Floats:
        """Derivative of the log-likelihood of every row in its predictor, weighted."""
        glm = self.glm
        return glm.weights[:, None] * glm.distribution.residual(self.eta, self.transformed, glm.y)

    def curvature(self) -> Floats:
        """Information of every row about its predictor, weighted."""
        glm = self.glm
        return glm.weights[:, None] * glm.distribution.curvature(self.eta, self.transformed, glm.y)

    def information(self) -> Floats:
        """The curvature that is expected, weighted: 1 for the gamma distribution, the curvature itself otherwise."""
        if self.glm.distribution is GAMMA:
            return np.broadcast_to(self.glm.weights[:, None], self.eta.shape)
        return self.curvature()

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """[Z x]ᵀr and [Z x]ᵀW[Z x]."""
        columns = columns or self.columns
        return columns.inner(self.residual()), columns.gram(self.curvature())

    def extremes(self, step: Floats) -> tuple[Floats, Floats]:
        """Poisson: z = u. Binomial: z = (1 − μ)u for a success and −μu for a failure."""
        u = step[0]
        if self.glm.distribution is POISSON:
            return u.min(axis=0), u.max(axis=0)
        success, failure = (1.0 - self.transformed) * u, -self.transformed * u
        return np.minimum(success, failure).min(axis=0), np.maximum(success, failure).max(axis=0)

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Residuals, and the information that is expected."""
        return self.residual(), self.information()[:, 0]

    def separated(self) -> NDArray[np.bool_]:
        """Successes or failures only in every row, and the columns put every row on its side of the boundary.

        The offset does not grow with the coefficients: only what the columns do goes on for ever.
        """
        if not self.glm.can_separate:
            return np.zeros(self.eta.shape[1], dtype=bool)
        y, eta = self.glm.y, self.eta if self.glm.offset is None else self.eta - self.glm.offset
        margin = (2.0 * y - 1.0)[:, None] * eta
        # by more than rounding: rows that are equal but for their outcome have margins of ±0
        return np.asarray(margin.min(axis=0) > 1e-9 * np.maximum(1.0, np.abs(self.eta).max(axis=0)))


def gamma_twice_negative(deviance: Floats, n: float) -> Floats:
    """−2ℓ = −2n[ν log ν − log Γ(ν) − ν(1 + D/2n)] at the ν that maximises it, up to Σ log y."""
    mean = np.maximum(deviance / (2.0 * n), 1e-300)
    shape = gamma_shape(mean)
    # Stirling's series for ν log ν − log Γ(ν) − ν: the direct difference cancels for large shapes
    direct = shape * np.log(shape) - special.gammaln(shape) - shape
    large = np.maximum(shape, 1.0)
    series = 0.5 * np.log(large) - 0.5 * np.log(2.0 * np.pi) - 1.0 / (12.0 * large) + 1.0 / (360.0 * large**3)
    return -2.0 * n * (np.where(shape > 100.0, series, direct) - shape * mean)


def gamma_shape(mean_deviance: Floats) -> Floats:
    """ν with log ν − digamma(ν) = D/2n, by Newton in log ν from an approximation good to 1.5 %."""
    s = np.maximum(mean_deviance, 1e-300)
    root = np.hypot(s - 3.0, np.sqrt(24.0 * s))
    shape = np.where(s < 3.0, (3.0 - s + root) / (12.0 * s), 2.0 / (np.maximum(s - 3.0, 0.0) + root))
    for _ in range(8):
        value, slope = _log_less_digamma(shape)
        step = np.clip((s - value) / slope, -2.0, 2.0)
        shape = shape * np.exp(step)
        if not (np.abs(step) > _CLOSE).any():
            break
    return shape


def _log_less_digamma(shape: Floats) -> tuple[Floats, Floats]:
    """log ν − digamma(ν) and its derivative in log ν, by series where the difference cancels."""
    large = shape > 1e3
    safe = np.where(large, 1.0, shape)
    inverse = 1.0 / np.where(large, shape, 1.0)
    value = np.where(large, inverse / 2 + inverse**2 / 12 - inverse**4 / 120, np.log(safe) - special.digamma(safe))
    slope = np.where(large, -inverse / 2 - inverse**2 / 6 + inverse**4 / 30, 1.0 - safe * special.polygamma(1, safe))
    return value, slope
