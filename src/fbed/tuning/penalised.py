"""Ridge and lasso on the selected variables, over a grid of penalties.

    ½·deviance + ½·λcn·‖β‖²   or   ½·deviance + λcn·‖β‖₁,

with β of standardised columns, n the sum of the weights, and c what makes λ mean the same in every family and unit: for
ridge the information that a row has about a coefficient of the null model, so that λ = 1 about halves it; for the lasso
the largest λcn is that which leaves no variable.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from fbed._kernels import fit_ridge
from fbed.models.likelihoods.glm import BINOMIAL, Glm, GlmPoint
from fbed.models.likelihoods.newton import Columns, newton_step
from fbed.rules.p_values import Floats
from fbed.tuning.likelihood import Evaluate, Project, Squares, Standardised, descend, likelihood_of

RIDGE = tuple(float(v) for v in np.logspace(1, -4, 11))
LASSO = tuple(float(v) for v in np.logspace(0, -3, 13))[1:]
"""Parts of the penalty that leaves nothing; the first would be just that."""

FEW = (0.05, 0.5)
"""Penalties of ridge that are tried beside maximum likelihood: the deviance is so flat in them that two will do."""

_STEPS = 200
_ARRIVED = 1e-10  # squared decrement, relative to the value, of the last step: the next would be its square
_LEAST = 1e-6  # part of a step below which none is taken
_SWEEPS = 1000
_LOOKS = 5  # sweeps after which it is tried whether the signs are those of the minimum
_OUTER = 100


def ridge(on: Standardised, penalties: tuple[float, ...]) -> list[Floats]:
    """Parameters for every penalty; all are found together."""
    like = on.likelihood
    if isinstance(like, Squares):
        return _ridge_of_squares(on, like, penalties)
    slopes, null = on.is_slope, _null(on)
    is_logistic = isinstance(like, Glm) and like.distribution is BINOMIAL
    curvature = _curvatures(on, null) if is_logistic else np.diag(on.at(null).derivatives()[1][0])
    information = float(curvature[slopes].mean()) if slopes.any() else 0.0
    weight = np.where(slopes[:, None], information * np.array(penalties), 0.0)
    return list((_logistic_with_squares if is_logistic else _with_squares)(on, null, weight).T)


def _curvatures(on: Standardised, parameters: Floats) -> Floats:
    """Of a logistic model along each parameter."""
    point = on.at(parameters)
    assert isinstance(point, GlmPoint)
    return np.asarray(point.curvature()[:, 0] @ on.columns.Z**2)


def _ridge_of_squares(on: Standardised, like: Squares, penalties: tuple[float, ...]) -> list[Floats]:
    """The linear model in closed form; its columns are centred, so that the intercept is the mean whatever they do."""
    mean = float(like.weights @ like.y) / like.n
    if not len(on.kept):
        return [np.array([mean]) for _ in penalties]
    gram, products = on.squares
    information = float(np.diag(gram).mean())
    diagonal, found = np.arange(len(gram)), []
    for penalty in penalties:
        matrix = gram.copy()
        matrix[diagonal, diagonal] += information * penalty
        _, slopes, failed = lapack.dposv(matrix, products, lower=1)
        found.append(np.append(mean, linalg.solve(matrix, products) if failed else slopes))
    return found


def _null(on: Standardised) -> Floats:
    """Parameters of the model without variables, whose columns need not be looked at."""
    like, out = on.likelihood, on.start
    constant = Columns(on.columns.Z[:, : int(like.intercept)])
    others = ~on.is_slope
    if others.any():
        out[others] = on.common.without_columns(
            lambda: descend(likelihood_of(on, constant), like.start(constant.size), project=on.project)
        )
    return out


def _logistic_with_squares(on: Standardised, start: Floats, weight: Floats) -> Floats:
    """The same as `_with_squares`, in one go."""
    like, Z = on.likelihood, np.asfortranarray(on.columns.Z)
    assert isinstance(like, Glm)
    offset = None if like.offset is None else np.ascontiguousarray(like.offset[:, 0])
    least = np.asarray(like.distribution.saturated_loss(like.y), dtype=np.float64)
    about = (start, np.asfortranarray(weight), _STEPS, _ARRIVED, _LEAST)
    return fit_ridge(Z, like.weights, like.y, least, *about, offset)


def _with_squares(on: Standardised, start: Floats, weight: Floats) -> Floats:
    """Damped Newton steps for several penalties at once, a column each, until they no longer matter for any."""
    found = np.repeat(start[:, None], weight.shape[1], axis=1)
    left = np.arange(weight.shape[1])  # those that still move
    point = on.likelihood.at(on.columns, found)
    value = point.value + (weight * found**2).sum(axis=0)
    diagonal = np.arange(len(start))
    for _ in range(_STEPS if len(start) else 0):
        w, at = weight[:, left], found[:, left]
        gradient, hessian = point.derivatives()
        hessian = np.repeat(hessian, len(left), axis=0) if len(hessian) < len(left) else hessian.copy()
        hessian[:, diagonal, diagonal] += w.T
        step, decrement = newton_step(gradient - w * at, hessian)
        size = np.ones(len(left))
        while True:
            trial = on.likelihood.project(at + size * step)
            point = on.likelihood.at(on.columns, trial)
            new = point.value + (w * trial**2).sum(axis=0)
            fell = new <= value[left] + 1e-12 * np.maximum(1.0, np.abs(value[left]))
            worse = ~fell & (size >= _LEAST)
            if not worse.any():
                break
            size[worse] /= 2.0
        found[:, left], value[left] = np.where(fell, trial, at), np.where(fell, new, value[left])
        going = (decrement > _ARRIVED * np.maximum(1.0, np.abs(new))) & fell
        left = left[going]
        if not len(left):
            break
        if not going.all():
            point = on.likelihood.at(on.columns, found[:, left])
    return found


def lasso(on: Standardised, penalties: tuple[float, ...]) -> list[Floats]:
    """Parameters for every penalty, a part of the largest that matters, each found from the one before.

    A small penalty alone is reached by the larger ones of the grid: from afar heavy rows may lead nowhere.
    """
    slopes, null = on.is_slope, _null(on)
    evaluate = likelihood_of(on)
    largest = float(np.abs(evaluate(null)[1]()[0][slopes]).max(initial=0.0))
    least = min(penalties, default=1.0)
    found, by_penalty = null, {}
    for penalty in sorted({*penalties, *(p for p in LASSO if p > least)}, reverse=True):
        found = _proximal(evaluate, found, np.where(slopes, penalty * largest, 0.0), on.project)
        by_penalty[penalty] = found
    return [by_penalty[penalty] for penalty in penalties]


def _proximal(evaluate: Evaluate, start: Floats, weight: Floats, project: Project) -> Floats:
    """Newton's method with the penalty kept as it is: a lasso on the quadratic approximation, then a damped step."""
    parameters = start.copy()
    value, derivatives = evaluate(parameters)
    total = value + 2.0 * float(weight @ np.abs(parameters))
    for _ in range(_OUTER):
        gradient, hessian = derivatives()
        step = _coordinates(gradient, hessian, parameters, weight) - parameters
        size = 1.0
        while True:
            trial = project(parameters + size * step)
            value, derivatives = evaluate(trial)
            new = value + 2.0 * float(weight @ np.abs(trial))
            if new <= total + 1e-12 * max(1.0, abs(total)):
                break
            if size < _LEAST:
                return parameters
            size /= 2.0
        parameters = trial
        if total - new <= 1e-11 * max(1.0, abs(total)):
            break
        total = new
    return parameters


def _coordinates(gradient: Floats, hessian: Floats, at: Floats, weight: Floats) -> Floats:
    """Minimum of ½(b − a)ᵀH(b − a) − gᵀ(b − a) + Σ w|b|, a coordinate at a time until its signs are known."""
    b, left = at.copy(), gradient.copy()  # left = g − H(b − a)
    diagonal = np.diag(hessian) + 1e-12 * float(np.trace(hessian)) / len(hessian) + 1e-300
    for sweep in range(_SWEEPS):
        moved = 0.0
        for j in range(len(b)):
            target = left[j] + diagonal[j] * b[j]
            new = np.sign(target) * max(abs(target) - weight[j], 0.0) / diagonal[j]
            if new != b[j]:
                left -= hessian[:, j] * (new - b[j])
                moved = max(moved, diagonal[j] * (new - b[j]) ** 2)
                b[j] = new
        if moved <= 1e-18 * max(1.0, float(np.abs(gradient).max(initial=0.0)) ** 2):
            break
        solved = _with_signs(gradient, hessian, diagonal, at, weight, b) if sweep % _LOOKS == _LOOKS - 1 else None
        if solved is not None:
            return solved
    return b


def _with_signs(
    gradient: Floats, hessian: Floats, diagonal: Floats, at: Floats, weight: Floats, b: Floats
) -> Floats | None:
    """The minimum in one go, if its signs are those of b: collinear columns would take very many sweeps."""
    signs, there = np.sign(b), (b != 0) | (weight == 0)
    matrix = hessian.copy()
    np.fill_diagonal(matrix, diagonal)
    target = matrix @ at + gradient
    try:
        inner = np.linalg.solve(matrix[np.ix_(there, there)], (target - weight * signs)[there])
    except np.linalg.LinAlgError:
        return None
    out = np.zeros_like(b)
    out[there] = inner
    slack = np.abs(target - matrix @ out)[~there] - weight[~there]
    kept = (weight[there] == 0) | (inner * signs[there] > 0)
    return out if kept.all() and slack.max(initial=0.0) <= 1e-12 * np.abs(target).max(initial=0.0) else None
