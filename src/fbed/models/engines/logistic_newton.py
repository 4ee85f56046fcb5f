"""Newton's method for logistic models, many at once: how the engine that fits every model fits them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from fbed.clock import check_time
from fbed.models.likelihoods.newton import bordered
from fbed.rules.p_values import Floats

_CONVERGED = 1e-11  # squared Newton decrement: twice this is about what the deviance can still fall
_MAX_ITERATIONS = 100  # under quasi-separation the deviance falls by a factor e an iteration: 30 are enough
_DEPENDENT = 1e-14  # of a column beside others, below which it is one of them
_JITTER = 1e-14  # relative to each curvature; changes the path to the optimum, never the optimum
# A step that must be cut a lot goes wrong in a direction that moves saturated rows only, or that an outlier saturates:
# a ridge, relative to each curvature, takes such directions out until the others have done their part.
_RIDGE, _GENTLE, _STEEP = 1e-10, 1e-13, 1e12
_DEAD, _NO_PULL = 1e-16, 1e-22  # curvature and squared slope of a column, over its norm², that rounding may have made
_FURTHER = 100.0  # times that a step may enlarge the predictors
_CERTAIN = 40.0  # a predictor that leaves nothing of the other class
_BLOCK_VALUES = 2**22


class Maximum:
    """Where the Newton iterations of `maximise` ended, one column a model."""

    def __init__(self, coefficients: Floats, deviance: Floats) -> None:
        self.coefficients = coefficients
        self.deviance = deviance


def deviance(predictor: Floats, y: Floats, weights: Floats) -> Floats:
    """−2·log-likelihood = 2Σ a·log(1 + exp(∓η)), for one predictor or one a column."""
    sign = 1.0 - 2.0 * y
    loss = np.logaddexp(0.0, sign[:, None] * predictor if predictor.ndim == 2 else sign * predictor)
    return np.asarray(2.0 * (weights @ loss))


def maximise(Z: Floats, x: Floats | None, start: Floats, y: Floats, weights: Floats) -> Maximum:
    """Damped Newton iterations for many models at once: model b has the columns Z, and x[:, b] if x is given.

    A model in which every row is on its side of the boundary is separated: its deviance is 0, the supremum.
    """
    beta = start.copy()
    predictor = _predict(Z, x, beta)
    value = np.atleast_1d(deviance(predictor, y, weights))
    ridge = np.full(beta.shape[1], _JITTER)
    out_beta, out_value = beta.copy(), value.copy()
    left = np.arange(beta.shape[1])  # models still iterating
    stuck = np.ones(beta.shape[1], dtype=bool)
    for _ in range(_MAX_ITERATIONS):
        check_time()
        columns = None if x is None else x[:, left]
        separated = _all_on_their_side(predictor, y)
        step, decrement = _newton_step(Z, columns, predictor, y, weights, ridge)
        done = separated | ((decrement <= _CONVERGED) & (ridge < _GENTLE)) | (ridge > _STEEP)
        out_beta[:, left] = beta
        out_value[left] = np.where(separated, 0.0, value)
        stuck[left] = ~(done & (ridge <= _STEEP))
        if done.all():
            break
        left, beta, step, value, ridge = left[~done], beta[:, ~done], step[:, ~done], value[~done], ridge[~done]
        columns = None if x is None else x[:, left]
        beta, predictor, value, moved = _damped(Z, columns, beta, step, value, y, weights)
        ridge = np.where(moved, np.maximum(ridge * 1e-2, _JITTER), np.maximum(ridge * 1e3, _RIDGE))
    for b in np.flatnonzero(stuck):
        columns = Z if x is None else np.column_stack([Z, x[:, b]])
        if start[:, b].any() and _is_lost(columns @ out_beta[:, b], y):
            again = maximise(columns, None, np.zeros((len(start), 1)), y, weights)
            out_beta[:, b], out_value[b] = again.coefficients[:, 0], again.deviance[0]
            continue
        out_beta[:, b], out_value[b] = _with_care(columns, out_beta[:, b], float(out_value[b]), y, weights)
    return Maximum(out_beta, out_value)


def _is_lost(predictor: Floats, y: Floats) -> bool:
    """Whether some row is certain of the other class: it pulls with all its weight, and no curvature tells how far."""
    return bool(((1.0 - 2.0 * y) * predictor).max() > _CERTAIN)


def _with_care(columns: Floats, beta: Floats, value: float, y: Floats, weights: Floats) -> tuple[Floats, float]:
    """Newton steps of one model by orthogonal factors, where the normal equations have not led to the maximum.

    Once an outlier is saturated, what is left of its column may differ from others by 1e-9 of its size, and the normal
    equations square that.
    """
    for _ in range(_MAX_ITERATIONS):
        check_time()
        predictor = columns @ beta
        if _all_on_their_side(predictor[:, None], y)[0]:
            return beta, 0.0
        mean = special.expit(predictor)
        root = np.sqrt(weights * mean * special.expit(-predictor))
        rows = np.flatnonzero(root)
        bent = columns[rows] * root[rows][:, None]
        unit = 1.0 / np.maximum(np.linalg.norm(bent, axis=0), 1e-300)
        Q, R, order = linalg.qr(bent * unit, mode="economic", pivoting=True)
        rank = int((np.abs(np.diag(R)) > _DEPENDENT * max(abs(R[0, 0]), 1e-300)).sum()) if len(rows) else 0
        along = Q[:, :rank].T @ ((weights * (y - mean))[rows] / root[rows])
        if along @ along <= _CONVERGED:
            break
        step = np.zeros(len(beta))
        step[order[:rank]] = linalg.solve_triangular(R[:rank, :rank], along)
        found = _damped(columns, None, beta[:, None], (unit * step)[:, None], np.array([value]), y, weights)
        if not found[3][0] or not found[2][0] < value * (1.0 - 1e-14):
            break
        beta, value = found[0][:, 0], float(found[2][0])
    return beta, value


def _predict(Z: Floats, x: Floats | None, beta: Floats) -> Floats:
    k = Z.shape[1]
    return Z @ beta if x is None else Z @ beta[:k] + x * beta[k]


def _all_on_their_side(predictor: Floats, y: Floats) -> NDArray[np.bool_]:
    """By more than rounding: two rows that are equal but for their class have margins of ±0; nothing separates them."""
    margin = (2.0 * y - 1.0)[:, None] * predictor
    return margin.min(axis=0) > 1e-9 * np.maximum(1.0, margin.max(axis=0))


def _newton_step(
    Z: Floats, x: Floats | None, predictor: Floats, y: Floats, weights: Floats, ridge: Floats
) -> tuple[Floats, Floats]:
    """H⁻¹g for every model and the squared decrement gᵀH⁻¹g; the ridge is relative to each curvature."""
    mean = special.expit(predictor)
    residual = weights[:, None] * (y[:, None] - mean)
    curvature = weights[:, None] * mean * special.expit(-predictor)
    gradient = Z.T @ residual
    hessian = _gram(Z, curvature)
    if x is not None:
        gradient = np.vstack([gradient, np.einsum("ij,ij->j", x, residual)])
        hessian = bordered(hessian, Z.T @ (curvature * x), np.einsum("ij,ij->j", x, curvature * x))
    diagonal = np.arange(hessian.shape[1])
    own = hessian[:, diagonal, diagonal]
    unit = 1.0 / np.sqrt(own + 1e-300)  # heavy tails: curvatures of very different sizes
    norm2 = np.broadcast_to(weights @ Z**2, (len(own), Z.shape[1]))
    if x is not None:
        norm2 = np.column_stack([norm2, weights @ x**2])
    # where all rows that a column moves are saturated, its step is rounding over rounding: any number
    unit[(own <= _DEAD * norm2) & (_NO_PULL * norm2 >= gradient.T**2)] = 0.0
    hessian *= unit[:, :, None] * unit[:, None, :]
    hessian[:, diagonal, diagonal] += np.where(unit > 0, ridge[:, None], 1.0)
    step = (unit * _solved(hessian, unit * gradient.T)).T
    return step, np.einsum("ij,ij->j", gradient, step)


def _solved(hessian: Floats, gradient: Floats) -> Floats:
    """Of every model, whose diagonal is about 1; where rounding has left nothing of a pivot, more is added to all."""
    try:
        return np.asarray(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        apart = hessian + _RIDGE * np.eye(hessian.shape[1])
        return np.asarray(np.linalg.solve(apart, gradient[:, :, None])[:, :, 0])


def _gram(Z: Floats, curvature: Floats) -> Floats:
    """ZᵀW_bZ for every model b, as one matrix product of the weights with all products of two columns."""
    n, k = Z.shape
    if curvature.shape[1] == 1:
        return ((Z * curvature).T @ Z)[None]
    row, column = np.triu_indices(k)
    packed = np.zeros((len(row), curvature.shape[1]))
    rows_in_block = max(1, _BLOCK_VALUES // len(row))
    for start in range(0, n, rows_in_block):
        block = Z[start : start + rows_in_block]
        packed += (block[:, row] * block[:, column]).T @ curvature[start : start + rows_in_block]
    out = np.empty((curvature.shape[1], k, k))
    out[:, row, column] = packed.T
    out[:, column, row] = packed.T
    return out


def _damped(
    Z: Floats, x: Floats | None, beta: Floats, step: Floats, value: Floats, y: Floats, weights: Floats
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Halve each step until its deviance falls; one that must be cut to less than a thousandth is not taken.

    Where all rows that a direction moves are saturated, a step along it is any number, and so large that rounding takes
    the predictors out of the model's span: no step enlarges them a hundred times.
    """
    reach = np.abs(_predict(Z, x, beta)).max(axis=0)
    move = np.abs(_predict(Z, x, step)).max(axis=0)
    size = np.minimum(1.0, _FURTHER * np.maximum(1.0, reach) / np.maximum(move, 1e-300))
    while True:
        check_time()
        trial = beta + size * step
        predictor = _predict(Z, x, trial)
        new = np.atleast_1d(deviance(predictor, y, weights))
        worse = (new > value * (1.0 + 1e-12)) & (size > 0)
        if not worse.any():
            return trial, predictor, new, size > 0
        size[worse] = np.where(size[worse] > 1e-3, size[worse] / 2.0, 0.0)
