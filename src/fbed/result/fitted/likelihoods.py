"""Log-likelihoods of final models, constants included, from the predictions alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.models.likelihoods.glm import gamma_shape
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Observed:
    """An outcome as numbers or codes, with what belongs to its rows."""

    y: Floats
    weights: Floats
    event: NDArray[np.bool_] | None = None
    trials: Floats | None = None
    cluster: NDArray[np.intp] | None = None

    @property
    def n(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())


def gaussian(rss: float, n: float) -> float:
    """−n/2·(log(2π·RSS/n) + 1)."""
    return -0.5 * n * (math.log(2.0 * math.pi * rss / n) + 1.0) if 0.0 < rss < math.inf else math.nan


def binomial(eta: Floats, seen: Observed) -> float:
    """Σ a[yη − log(1 + exp η)], for successes out of trials with the number of ways."""
    if seen.trials is None:
        return float(seen.weights @ -np.logaddexp(0.0, (1.0 - 2.0 * seen.y) * eta))
    trials, won = seen.trials, seen.y
    ways = special.gammaln(trials + 1.0) - special.gammaln(won + 1.0) - special.gammaln(trials - won + 1.0)
    return float(seen.weights @ (ways - won * np.logaddexp(0.0, -eta) - (trials - won) * np.logaddexp(0.0, eta)))


def poisson(eta: Floats, seen: Observed) -> float:
    """Σ a[yη − exp η − log y!]."""
    return float(seen.weights @ (seen.y * eta - np.exp(eta) - special.gammaln(seen.y + 1.0)))


def negative_binomial(eta: Floats, seen: Observed, alpha: float) -> float:
    """Poisson's where α is 0."""
    if alpha < 1e-10:
        return poisson(eta, seen)
    size, y = 1.0 / alpha, seen.y
    z = alpha * np.exp(eta)
    ways = special.gammaln(y + size) - special.gammaln(size) - special.gammaln(y + 1.0)
    return float(seen.weights @ (ways + special.xlogy(y, z) - (y + size) * np.log1p(z)))


def gamma(eta: Floats, seen: Observed, deviance: float) -> float:
    """At the shape of greatest likelihood."""
    shape = float(gamma_shape(np.array([max(deviance, 1e-300) / (2.0 * seen.n)]))[0])
    rows = shape * (math.log(shape) - eta - seen.y * np.exp(-eta)) + (shape - 1.0) * np.log(seen.y)
    return float(seen.weights @ rows) - seen.n * float(special.gammaln(shape))


def classes(probability: Floats, seen: Observed) -> float:
    """Σ a·log P(class)."""
    own = probability[np.arange(len(seen.y)), seen.y.astype(np.intp)]
    return float(seen.weights @ np.log(np.maximum(own, 1e-300)))


def weibull(eta: Floats, seen: Observed, scale: float) -> float:
    """Of the times themselves."""
    z = (np.log(seen.y) - eta) / scale
    event = np.asarray(seen.event, dtype=float)
    return float(seen.weights @ (event * (z - math.log(scale) - np.log(seen.y)) - np.exp(z)))


def mixed(seen: Observed, sd_cluster: float, sd_residual: float) -> float:
    """At the maximum, where the weighted sum of squares is n·σ²."""
    assert seen.cluster is not None  # the family asks for it
    sizes = np.bincount(seen.cluster, seen.weights)
    ratio = (sd_cluster / sd_residual) ** 2 if sd_residual > 0 else math.nan
    spread = seen.n * (math.log(2.0 * math.pi) + 2.0 * math.log(sd_residual) + 1.0) if sd_residual > 0 else math.nan
    return -0.5 * (spread + float(np.log1p(sizes * ratio).sum()))


OF_DEVIANCE = ("gaussian", "poisson", "binomial", "multinomial", "ordinal")
"""Families whose log-likelihood `of_deviance` knows."""


def of_deviance(family: str, seen: Observed, deviance: float, null_deviance: float) -> float | None:
    """The log-likelihood without a look at predictions: that of rows explained perfectly, less half the deviance."""
    y, weights, trials = seen.y, seen.weights, seen.trials
    if family == "gaussian":
        return gaussian(deviance, seen.n) if deviance > _PERFECT * null_deviance else None
    if family == "poisson":
        best = float(weights @ (special.xlogy(y, y) - y - special.gammaln(y + 1.0)))
    elif trials is None:
        best = 0.0
    else:
        lost = trials - y
        ways = special.gammaln(trials + 1.0) - special.gammaln(y + 1.0) - special.gammaln(lost + 1.0)
        best = float(weights @ (ways + special.xlogy(y, y / trials) + special.xlogy(lost, lost / trials)))
    return best - 0.5 * deviance


_PERFECT = 1e-9  # part of the null deviance below which a fit is perfect, and its likelihood has no bound


def log_likelihood(family: str, eta: Floats, mean: Floats, seen: Observed, known: dict[str, Any]) -> float | None:
    """Log-likelihood of a model; None for a family that has none, or where a perfect fit leaves it without bound.

    `known` are deviances and further parameters.
    """
    if family in ("gaussian", "gamma") and not known["deviance"] > _PERFECT * known["null_deviance"]:
        return None
    one = eta[:, 0]
    made = {
        "gaussian": lambda: gaussian(known["deviance"], seen.n),
        "binomial": lambda: binomial(one, seen),
        "multinomial": lambda: classes(mean, seen),
        "ordinal": lambda: classes(mean, seen),
        "poisson": lambda: poisson(one, seen),
        "negative_binomial": lambda: negative_binomial(one, seen, known["dispersion"]),
        "gamma": lambda: gamma(one, seen, known["deviance"]),
        "weibull": lambda: weibull(one, seen, known["scale"]),
        "mixed": lambda: mixed(seen, known["sd(cluster)"], known["sd(residual)"]),
    }
    with np.errstate(over="ignore", invalid="ignore"):
        found = made[family]() if family in made else math.nan
    return found if math.isfinite(found) else None
