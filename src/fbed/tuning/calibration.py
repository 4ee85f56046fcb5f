"""Do predictions mean what they say? Slope and intercept of the outcome on the predictor, and observed by predicted.

A slope below 1 says that predictions are too extreme, an intercept (with the slope held at 1) above 0 that outcomes are
larger than predicted, on the scale of the linear predictor. The intervals are Wald's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.models.likelihoods.cox import Cox
from fbed.models.likelihoods.glm import BINOMIAL, GAMMA, POISSON, Glm
from fbed.models.likelihoods.likelihood import Regression
from fbed.models.likelihoods.newton import Columns
from fbed.result.fitted.likelihoods import Observed
from fbed.result.performance import Bin, Calibration, Estimate
from fbed.rules.p_values import Floats
from fbed.tuning.folds import Rows
from fbed.tuning.likelihood import Squares, descend

N_BINS = 10
_LEAST_IN_BIN = 20  # rows of a bin, if there are as many: fewer tell nothing
_FARTHEST = 300.0  # predictor up to which the square of its exponential is a number


_DISTRIBUTIONS = {"binomial": BINOMIAL, "poisson": POISSON, "negative_binomial": POISSON, "gamma": GAMMA}


def calibrate(
    family: str, risk: Floats, mean: Floats, seen: Observed, strata: Rows | None = None, horizon: float | None = None
) -> Calibration | None:
    """Calibration of predictions with one number a row; None for several classes.

    `seen.weights` count; rows of different `strata`, folds for instance, are not compared where hazards are.
    """
    keep = np.isfinite(risk) & (seen.weights > 0)
    if family in ("multinomial", "ordinal") or keep.sum() < 3 or np.ptp(risk[keep]) == 0:
        return None
    risk, mean = risk[keep], mean[keep]
    if family not in ("gaussian", "mixed"):  # whose predictor is no exponent
        risk = np.clip(risk, -_FARTHEST, _FARTHEST)
    seen = Observed(
        seen.y[keep],
        seen.weights[keep],
        None if seen.event is None else seen.event[keep],
        None if seen.trials is None else seen.trials[keep],
    )
    slope, intercept = _line(family, risk, seen, None if strata is None else strata[keep])
    return Calibration(slope, intercept, _curve(family, mean, seen, horizon))


def _line(family: str, risk: Floats, seen: Observed, strata: Rows | None) -> tuple[Estimate | None, Estimate | None]:
    like = _likelihood(family, risk, seen, strata)
    if like is None:
        return None, None
    first = int(like.intercept)
    center, spread = float(np.mean(risk)), float(np.std(risk)) or 1.0
    Z = np.column_stack([np.ones((len(risk), first)), (risk - center) / spread])
    columns = Columns(Z)

    def evaluate(parameters: Floats) -> tuple[float, Callable[[], tuple[Floats, Floats]]]:
        point = like.at(columns, parameters[:, None])

        def derivatives() -> tuple[Floats, Floats]:
            gradient, hessian = point.derivatives()
            return gradient[:, 0], hessian[0]

        return float(point.value[0]), derivatives

    start = np.array([center, spread] if first else [spread])
    sigma2 = _dispersion(family, risk, seen)
    both = descend(evaluate, start)
    slope = _estimate(both[first] / spread, evaluate(both)[1]()[1], first, sigma2, spread)
    if not first:
        return slope, None
    shifted = descend(evaluate, start, np.array([True, False]))
    return slope, _estimate(shifted[0] - center, evaluate(shifted)[1]()[1][:1, :1], 0, sigma2, 1.0)


def _estimate(value: float, information: Floats, place: int, sigma2: float, spread: float) -> Estimate:
    try:
        error = math.sqrt(max(sigma2 * np.linalg.inv(information)[place, place], 0.0)) / spread
    except np.linalg.LinAlgError:
        error = math.nan
    half = float(special.ndtri(0.975)) * error
    return Estimate(float(value), float(value - half), float(value + half))


def _likelihood(family: str, risk: Floats, seen: Observed, strata: Rows | None) -> Regression | None:
    if family in ("gaussian", "mixed"):
        return Squares(seen.y, seen.weights)
    if family == "cox":
        assert seen.event is not None
        if not seen.event.any():
            return None
        return Cox(seen.y, seen.event, seen.weights, strata)
    if family not in _DISTRIBUTIONS:
        return None
    y, weights = seen.y, seen.weights
    if family == "binomial" and seen.trials is not None:
        y, weights = y / seen.trials, weights * seen.trials
    if family == "binomial" and not 0.0 < float(weights @ y) < float(weights.sum()):
        return None
    return Glm(_DISTRIBUTIONS[family], y, weights)


def _dispersion(family: str, risk: Floats, seen: Observed) -> float:
    """What the inverse information is to be multiplied by."""
    n = max(1.0, float(seen.weights.sum()) - 2.0)
    if family in ("gaussian", "mixed"):
        return float(seen.weights @ (seen.y - risk) ** 2) / n
    if family in ("poisson", "negative_binomial", "gamma"):
        mean = np.exp(risk)
        variance = mean**2 if family == "gamma" else mean
        return float(seen.weights @ ((seen.y - mean) ** 2 / np.maximum(variance, 1e-300))) / n
    return 1.0


def _curve(family: str, mean: Floats, seen: Observed, horizon: float | None) -> tuple[Bin, ...]:
    known = np.isfinite(mean)
    n_bins = int(min(N_BINS, max(2, known.sum() // _LEAST_IN_BIN)))
    if known.sum() < 2 * n_bins:
        return ()
    edges = np.unique(np.quantile(mean[known], np.linspace(0.0, 1.0, n_bins + 1)[1:-1]))
    place = np.searchsorted(edges, mean, side="left")
    bins = [_bin(family, mean, seen, known & (place == b), horizon) for b in range(len(edges) + 1)]
    return tuple(b for b in bins if b is not None)


def _bin(family: str, mean: Floats, seen: Observed, rows: NDArray[np.bool_], horizon: float | None) -> Bin | None:
    w = seen.weights[rows]
    n = float(w.sum())
    if n <= 0:
        return None
    y, predicted = seen.y[rows], float(w @ mean[rows]) / n
    if seen.event is not None:
        if horizon is None:
            return None
        return Bin(n, predicted, *_died(y, seen.event[rows], w, horizon))
    if family == "binomial":
        trials = np.ones_like(y) if seen.trials is None else seen.trials[rows]
        total = float(w @ trials)
        predicted = float((w * trials) @ mean[rows]) / total
        return Bin(n, predicted, *_wilson(float(w @ y) / total, total))
    observed = float(w @ y) / n
    half = 1.96 * math.sqrt(float(w @ (y - observed) ** 2) / max(n - 1.0, 1.0) / n)
    return Bin(n, predicted, observed, observed - half, observed + half)


def _wilson(p: float, n: float, z: float = 1.959964) -> tuple[float, float, float]:
    """A proportion with Wilson's interval."""
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return p, max(0.0, middle - half), min(1.0, middle + half)


def _died(time: Floats, event: NDArray[np.bool_], w: Floats, horizon: float) -> tuple[float, float, float]:
    """1 − Kaplan and Meier's survival at a time, with the interval of its log(−log)."""
    moments, place = np.unique(time, return_inverse=True)
    there = np.bincount(place, w, len(moments))[::-1].cumsum()[::-1]
    died = np.bincount(place, np.where(event, w, 0.0), len(moments))
    now = moments <= horizon
    survival = float(np.prod(1.0 - died[now] / there[now]))
    left = there[now] - died[now]
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = float(np.sum(np.where(left > 0, died[now] / (there[now] * left), 0.0)))
    if not 0.0 < survival < 1.0:
        return 1.0 - survival, math.nan, math.nan
    half = 1.959964 * math.sqrt(variance) / abs(math.log(survival))
    return 1.0 - survival, 1.0 - survival ** math.exp(-half), 1.0 - survival ** math.exp(half)
