"""Weibull survival times, an accelerated failure time model: log t = Zβ + σW, W of the extreme-value distribution.

    ℓ = Σ a[δ(z + log α) − exp(z)] − Σ aδ log t,   z = α log t − Zγ,   α = 1/σ,   γ = β/σ

Written in (γ, α) the log-likelihood is concave, so that Newton's iterations cannot go astray. Events that are explained
without error, and nobody censored after their time, send α to infinity and the likelihood with it. As in the linear
model such a fit is perfect and counts as if its residual scale were a hundred-thousandth of the spread of log t: α has
an upper bound, and the likelihood a maximum that is the same whatever the order of the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fbed.models.likelihoods.likelihood import Regression, RegressionFit
from fbed.models.likelihoods.newton import Columns, newton_step
from fbed.models.presentation import Estimates
from fbed.models.recession import Constraints, held_further
from fbed.rules.p_values import Floats

PERFECT = 1e5
"""The largest shape, in units of 1/spread of log t: what is left of a perfect fit is rounding."""
_FARTHEST = 50.0  # spreads from the centre, at the start


class Weibull(Regression):
    """Positive times, right-censored, with weights."""

    name = "weibull"
    n_further = 1
    least = -np.inf

    def __init__(self, time: Floats, event: NDArray[np.bool_], weights: Floats) -> None:
        self.event = event.astype(float)
        self.weights = weights
        self.n = float(weights.sum())
        self.n_events = float(weights @ self.event)
        log_time = np.log(time)
        self.center = float(weights @ log_time) / self.n  # the unit of time changes no statistic
        self.log_time = log_time - self.center
        self.spread = float(np.sqrt(weights @ self.log_time**2 / self.n)) or 1.0

    @property
    def events(self) -> float:
        """Half the events, since the shape is estimated from them as well."""
        return float(self.weights @ self.event) / 2.0

    def start(self, size: int) -> Floats:
        """Exponential rate of the scaled times; one heavy row leaves others many spreads away."""
        out = np.zeros(size + 1)
        out[-1] = 1.0 / max(self.spread, float(self.log_time.max()) / _FARTHEST)
        total = self.weights @ np.exp(out[-1] * self.log_time)
        out[0] = np.log(total / (self.weights @ self.event))
        return out

    def project(self, parameters: Floats) -> Floats:
        """α up to that of a perfect fit; β = γ/α stays as it is."""
        return np.asarray(parameters / np.maximum(1.0, parameters[-1] * self.spread / PERFECT))

    def at(self, columns: Columns, parameters: Floats) -> WeibullPoint:
        """Evaluate many models."""
        return WeibullPoint(self, columns, parameters)

    def saturated(self, fit: RegressionFit) -> bool:
        """Whether the times are explained without error, or one more column could do so for want of events."""
        return bool(fit.parameters[-1] * self.spread >= PERFECT * (1.0 - 1e-9)) or self.n_events - fit.span.rank <= 1

    def constraints(self, fit: RegressionFit) -> Constraints:
        """Times that are censored may run to infinity; nothing else moves, the shape included."""
        late = -np.log(np.maximum(self.at(fit.columns, fit.parameters[:, None]).expected[:, 0], 1e-300))
        return held_further(Constraints(fit.Z, np.where(self.event > 0, -np.inf, late)), self.n_further)

    def present(self, estimates: Estimates) -> Estimates:
        """Coefficients of log time, β = γ/α, and the scale σ = 1/α."""
        gamma, alpha = estimates.values[:-1], estimates.values[-1]
        jacobian = np.diag(np.append(np.full(len(gamma), 1.0 / alpha), -1.0 / alpha**2))
        jacobian[:-1, -1] = -gamma / alpha**2
        values = np.append(gamma / alpha, 1.0 / alpha)
        values[0] += self.center
        return estimates.mapped((*estimates.terms[:-1], "scale"), values, jacobian)


class WeibullPoint:
    """Standardised log times, −2·log-likelihood of log t and derivatives."""

    def __init__(self, family: Weibull, columns: Columns, parameters: Floats) -> None:
        self.family, self.columns, self.alpha = family, columns, parameters[-1]
        z = self.alpha * family.log_time[:, None] - columns.predict(parameters[:-1])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            self.expected = np.exp(z)
            events = family.weights * family.event
            log_likelihood = events @ z + events.sum() * np.log(self.alpha) - family.weights @ self.expected
        self.value = np.where(np.isfinite(log_likelihood), -2.0 * log_likelihood, np.inf)

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """In γ and α; the Hessian is that of Σ exp(z), and δ/α² for log α."""
        columns = columns or self.columns
        family, a, log_time = self.family, self.family.weights[:, None], self.family.log_time
        residual = a * (self.expected - family.event[:, None])
        weight = a * self.expected
        events = float(family.weights @ family.event)
        gradient = np.vstack([columns.inner(residual), events / self.alpha - log_time @ residual])
        k = columns.size
        hessian = np.empty((len(self.alpha), k + 1, k + 1))
        hessian[:, :k, :k] = columns.gram(weight)
        hessian[:, :k, k] = hessian[:, k, :k] = -columns.inner(weight * log_time[:, None]).T
        hessian[:, k, k] = log_time**2 @ weight + events / self.alpha**2
        held = self._held(gradient, hessian)
        gradient[k, held] = 0.0
        hessian[held, k, :k] = hessian[held, :k, k] = 0.0
        return gradient, hessian

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Expected less observed events, which have variance 1 without censoring."""
        return self.family.weights[:, None] * (self.expected - self.family.event[:, None]), None

    def _held(self, gradient: Floats, hessian: Floats) -> NDArray[np.bool_]:
        """Which models are at the bound of α and would leave it by Newton's step."""
        held = self.alpha * self.family.spread >= PERFECT * (1.0 - 1e-12)
        if held.any():
            held[held] = newton_step(gradient[:, held], hessian[held])[0][-1] > 0.0
        return np.asarray(held)

    def separated(self) -> NDArray[np.bool_]:
        """Never reported: a perfect fit is told by the shape."""
        return np.zeros(len(self.alpha), dtype=bool)
