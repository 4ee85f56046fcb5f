"""Least values of −2·log-likelihood, up to a constant, by brute force and general optimisers: no code of the library's.

Every function takes a matrix of columns (centred, orthogonal, without the constant), the outcome and its extras. Rows
with weights are to be repeated first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special, stats

Extras = dict[str, Any]
Least = Callable[[np.ndarray, Any, Extras], float]


def basis(columns: np.ndarray) -> np.ndarray:
    """Orthogonal columns of unit mean square that span the given ones and are centred; fewer where those depend."""
    if not columns.shape[1]:
        return columns
    centred = columns - columns.mean(axis=0)
    centred = centred - centred.mean(axis=0)
    scale = np.abs(centred).max(axis=0)
    used = scale > 1e-12 * np.abs(columns).max(axis=0)
    if not used.any():
        return columns[:, :0]
    centred = centred[:, used] / scale[used]
    left, size, _ = np.linalg.svd(centred / np.linalg.norm(centred, axis=0), full_matrices=False)
    return left[:, size > 1e-7] * np.sqrt(len(columns))


def with_constant(B: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(B)), B])


def minimum(loss: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray) -> float:
    """Least value of a smooth function with its gradient; a second run from where the first one ended."""
    best = loss(start)[0]
    for _ in range(2):
        with np.errstate(all="ignore"):
            found = optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 3000})
        best, start = min(best, float(found.fun)), found.x
    return best


def gaussian(B: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    y = y - extras.get("offset", 0.0)
    Z = with_constant(B)
    left = y - y.mean()
    for _ in range(3):
        left = left - Z @ np.linalg.lstsq(Z, left, rcond=None)[0]
    return float(len(y) * np.log(left @ left))


def poisson(B: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    Z, offset = with_constant(B), _offset(y, extras)

    def loss(beta: np.ndarray) -> tuple[float, np.ndarray]:
        eta = np.clip(Z @ beta + offset, -700.0, 700.0)
        return float((np.exp(eta) - y * eta).sum()), Z.T @ (np.exp(eta) - y)

    return 2.0 * minimum(loss, _first(Z, np.log(y.sum() / np.exp(offset).sum())))


def negative_binomial(B: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    """Over coefficients and log α together, from several α, and the Poisson distribution as the limit α = 0."""
    Z, offset = with_constant(B), _offset(y, extras)
    constant = special.gammaln(y + 1.0).sum()
    start = np.log(y.sum() / np.exp(offset).sum())

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        eta, log_alpha = np.clip(Z @ parameters[:-1] + offset, -300.0, 300.0), np.clip(parameters[-1], -18.0, 18.0)
        alpha = np.exp(log_alpha)
        mean, size = np.exp(eta), 1.0 / alpha
        log_term = np.log1p(alpha * mean)
        value = -(special.gammaln(y + size) - special.gammaln(size) + y * log_alpha + y * eta).sum()
        value += ((y + size) * log_term).sum()
        d_eta = (mean - y) / (1.0 + alpha * mean)
        d_alpha = size * (special.digamma(y + size) - special.digamma(size)).sum() - y.sum()
        d_alpha += (-size * log_term + (y + size) * alpha * mean / (1.0 + alpha * mean)).sum()
        return float(value), np.append(Z.T @ d_eta, d_alpha)

    limit = poisson(B, y, extras) + 2.0 * constant
    found = [2.0 * minimum(loss, np.append(_first(Z, start), a)) for a in (-4.0, -1.0, 1.0)]
    return min(limit, *(value + 2.0 * constant for value in found))


def gamma(B: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    Z, offset = with_constant(B), _offset(y, extras)

    def loss(beta: np.ndarray) -> tuple[float, np.ndarray]:
        eta = np.clip(Z @ beta + offset, -700.0, 700.0)
        ratio = y * np.exp(-eta)
        return float((ratio + eta).sum()), Z.T @ (1.0 - ratio)

    half = minimum(loss, _first(Z, np.log((y * np.exp(-offset)).mean()))) / len(y)

    def shaped(log_shape: float) -> float:
        shape = np.exp(log_shape)
        return (
            -2.0 * len(y) * (shape * log_shape - special.gammaln(shape) - shape * half)
            - 2.0 * (shape - 1.0) * np.log(y).sum()
        )

    grid = np.linspace(-8.0, 16.0, 97)
    best = grid[int(np.argmin([shaped(s) for s in grid]))]
    found = optimize.minimize_scalar(shaped, bounds=(best - 0.3, best + 0.3), method="bounded", options={"xatol": 1e-9})
    return float(found.fun)


def cox(B: np.ndarray, y: Any, extras: Extras) -> float:
    """All risk sets as rows of a matrix; Efron's terms are combinations of those at risk and those who die."""
    time, event = y
    strata, entry = extras.get("strata", np.zeros(len(time))), extras.get("entry", np.full(len(time), -1.0))
    rows = []
    for s in np.unique(strata):
        for t in np.unique(time[event & (strata == s)]):
            dying = event & (strata == s) & (time == t)
            surviving = (strata == s) & (time >= t) & (entry < t) & ~dying
            rows += [surviving + dying * (m / dying.sum()) for m in range(1, int(dying.sum()) + 1)]
    share = np.array(rows)  # terms × rows
    if not B.shape[1]:
        return float(2.0 * np.log(share.sum(axis=1)).sum())
    with np.errstate(divide="ignore"):
        log_share = np.log(share)

    def loss(beta: np.ndarray) -> tuple[float, np.ndarray]:
        eta = B @ beta
        terms = special.logsumexp(log_share + eta, axis=1)
        expected = np.exp(log_share + eta - terms[:, None]).sum(axis=0)
        return float(terms.sum() - eta[event].sum()), B.T @ (expected - event)

    return 2.0 * minimum(loss, np.zeros(B.shape[1]))


def weibull(B: np.ndarray, y: Any, extras: Extras) -> float:
    """In coefficients of log time over the scale, and the logarithm of the shape."""
    Z, log_time, event = with_constant(B), np.log(y[0]), y[1].astype(float)
    log_time = log_time - log_time.mean()

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        shape = np.exp(np.clip(parameters[-1], -30.0, 30.0))
        z = np.clip(shape * log_time - Z @ parameters[:-1], -700.0, 700.0)
        residual = np.exp(z) - event
        value = np.exp(z).sum() - event @ (z + np.log(shape))
        return float(value), np.append(-Z.T @ residual, shape * (log_time @ residual) - event.sum())

    shape = 1.0 / max(log_time.std(), 1e-3)
    start = _first(Z, np.log(np.exp(shape * log_time).sum() / event.sum()))
    return 2.0 * minimum(loss, np.append(start, np.log(shape)))


def multinomial(B: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    Z, (levels, codes) = with_constant(B), np.unique(y, return_inverse=True)
    seen = np.eye(len(levels))[codes]

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        eta = np.column_stack([np.zeros(len(Z)), Z @ parameters.reshape(Z.shape[1], -1)])
        log_p = special.log_softmax(eta, axis=1)
        return -float((seen * log_p).sum()), (Z.T @ (np.exp(log_p) - seen)[:, 1:]).ravel()

    start = np.zeros((Z.shape[1], len(levels) - 1))
    start[0] = np.log(seen.sum(axis=0)[1:] / seen.sum(axis=0)[0])
    return 2.0 * minimum(loss, start.ravel())


def ordinal(B: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    """Thresholds as the first one and the logarithms of the gaps between them."""
    levels, codes = np.unique(y, return_inverse=True)
    k, last = B.shape[1], len(levels) - 1

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        gaps = np.exp(np.clip(parameters[k + 1 :], -40.0, 40.0))
        thresholds = parameters[k] + np.concatenate([[0.0], np.cumsum(gaps)])
        eta = B @ parameters[:k]
        u = np.append(thresholds, np.inf)[codes] - eta
        l = np.concatenate([[-np.inf], thresholds])[codes] - eta  # noqa: E741
        log_p = -np.logaddexp(0.0, -u) - np.logaddexp(0.0, l) + np.log(-np.expm1(l - u))
        gap = 1.0 / np.expm1(u - l)
        du, dl = special.expit(-u) + gap, -special.expit(l) - gap
        d_threshold = np.bincount(codes, du, last + 1)[:last] + np.bincount(codes, dl, last + 1)[1:]
        tail = np.cumsum(d_threshold[::-1])[::-1]
        return -float(log_p.sum()), -np.concatenate([-B.T @ (du + dl), tail[:1], gaps * tail[1:]])

    thresholds = special.logit(np.cumsum(np.bincount(codes))[:-1] / len(y))
    start = np.concatenate([np.zeros(k), thresholds[:1], np.log(np.diff(thresholds))])
    return 2.0 * minimum(loss, start)


def mixed(B: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    return mixed_least(with_constant(B), y, extras["cluster"])


def mixed_least(Z: np.ndarray, y: np.ndarray, cluster: np.ndarray) -> float:
    """Rows made independent for one ratio of variances after another, then least squares."""
    codes = np.unique(cluster, return_inverse=True)[1]
    size = np.bincount(codes)

    def means(rows: np.ndarray) -> np.ndarray:
        return np.array([np.bincount(codes, column) / size for column in rows.T]).T[codes]

    rows = np.column_stack([Z, y])
    between = means(rows)
    within = rows - between
    within -= means(within)

    def loss(log_ratio: float) -> float:
        ratio = np.exp(log_ratio)
        white = within + between / np.sqrt(1.0 + size * ratio)[codes, None]
        columns = white[:, :-1] / np.linalg.norm(white[:, :-1], axis=0)
        left = white[:, -1]
        for _ in range(2):
            left = left - columns @ np.linalg.lstsq(columns, left, rcond=1e-13)[0]
        return float(len(y) * np.log(left @ left / len(y)) + np.log1p(size * ratio).sum())

    grid = np.linspace(-12.0, 60.0, 145)
    values = [loss(s) for s in grid]
    best = int(np.argmin(values))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, 144)])
    found = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return min(float(found.fun), values[best], loss(-90.0))


def quantile_score(smaller: np.ndarray, larger: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    """Median regression as a linear program in coefficients and parts of residuals; the scores are its multipliers."""
    Z, n = with_constant(smaller), len(y)
    cost = np.concatenate([np.zeros(Z.shape[1]), np.full(2 * n, 0.5)])
    A = np.hstack([Z, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * Z.shape[1] + [(0, None)] * (2 * n)
    exactly = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    outcome = (y - np.median(y)) / np.ptp(y)
    scores = optimize.linprog(cost, A_eq=A, b_eq=outcome, bounds=bounds, options=exactly).eqlin.marginals
    return _score(scores, 0.25, smaller, larger)


def huber_score(smaller: np.ndarray, larger: np.ndarray, y: np.ndarray, extras: Extras) -> float:
    """Reweighted least squares with the median absolute residual as scale, to the end."""
    Z = with_constant(smaller)
    beta = np.linalg.lstsq(Z, y, rcond=None)[0]
    for _ in range(3000):
        residual = y - Z @ beta
        scale = np.median(np.abs(residual)) / stats.norm.ppf(0.75)
        root = np.sqrt(np.minimum(1.0, 1.345 / np.maximum(np.abs(residual / scale), 1e-300)))
        previous, beta = beta, np.linalg.lstsq(Z * root[:, None], y * root, rcond=None)[0]
        if np.abs(beta - previous).max() <= 1e-12 * np.abs(beta).max():
            break
    else:
        return np.nan  # the scale goes round in circles, and the answer is a matter of definition
    scores = np.clip((y - Z @ beta) / scale, -1.345, 1.345)
    return _score(scores, float(scores @ scores) / max(len(y) - Z.shape[1], 1), smaller, larger)


def _score(scores: np.ndarray, variance: float, smaller: np.ndarray, larger: np.ndarray) -> float:
    Z = with_constant(smaller)
    left = larger - Z @ np.linalg.lstsq(Z, larger, rcond=None)[0]
    vectors, size, _ = np.linalg.svd(left, full_matrices=False)
    new = vectors[:, size > 1e-6 * np.sqrt(len(scores))]
    return float(((new.T @ scores) ** 2).sum()) / variance


def _offset(y: np.ndarray, extras: Extras) -> np.ndarray:
    if "exposure" in extras:
        return np.asarray(np.log(extras["exposure"]))
    return np.asarray(extras.get("offset", np.zeros(len(y))))


def _first(Z: np.ndarray, value: float) -> np.ndarray:
    out = np.zeros(Z.shape[1])
    out[0] = value
    return out
