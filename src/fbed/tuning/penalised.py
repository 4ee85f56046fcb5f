"""Ridge and lasso on the selected variables, over a grid of penalties.

    ½·deviance + ½·λcn·‖β‖²   or   ½·deviance + λcn·‖β‖₁,

with β of standardised columns, n the sum of the weights, and c what makes λ mean the same in every family and unit: for
ridge the information that a row has about a coefficient of the null model, so that λ = 1 about halves it; for the lasso
the largest λcn is that which leaves no variable.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fbed.rules.tails import Floats
from fbed.tuning.likelihood import Evaluate, Standardised, descend, likelihood_of

RIDGE = tuple(float(v) for v in np.logspace(1, -4, 11))
LASSO = tuple(float(v) for v in np.logspace(0, -3, 13))[1:]
"""Parts of the penalty that leaves nothing; the first would be just that."""

_SWEEPS = 1000
_OUTER = 100


def ridge(on: Standardised, penalties: tuple[float, ...]) -> list[Floats]:
    """Parameters for every penalty, each found from the one before."""
    slopes = on.is_slope
    evaluate = likelihood_of(on)
    null = descend(evaluate, on.start, ~slopes)
    information = float(np.diag(evaluate(null)[1]()[1])[slopes].mean()) if slopes.any() else 0.0
    found, out = null, []
    for penalty in penalties:
        found = descend(_with_squares(evaluate, np.where(slopes, penalty * information, 0.0)), found)
        out.append(found)
    return out


def _with_squares(evaluate: Evaluate, weight: Floats) -> Evaluate:
    def penalised(parameters: Floats) -> tuple[float, Callable[[], tuple[Floats, Floats]]]:
        value, derivatives = evaluate(parameters)

        def both() -> tuple[Floats, Floats]:
            gradient, hessian = derivatives()
            return gradient - weight * parameters, hessian + np.diag(weight)

        return value + float(weight @ parameters**2), both

    return penalised


def lasso(on: Standardised, penalties: tuple[float, ...]) -> list[Floats]:
    """Parameters for every penalty, a part of the largest that matters, each found from the one before."""
    slopes = on.is_slope
    evaluate = likelihood_of(on)
    null = descend(evaluate, on.start, ~slopes)
    largest = float(np.abs(evaluate(null)[1]()[0][slopes]).max(initial=0.0))
    found, out = null, []
    for penalty in penalties:
        found = _proximal(evaluate, found, np.where(slopes, penalty * largest, 0.0))
        out.append(found)
    return out


def _proximal(evaluate: Evaluate, start: Floats, weight: Floats) -> Floats:
    """Newton's method with the penalty kept as it is: a lasso on the quadratic approximation, then a damped step."""
    parameters = start.copy()
    value, derivatives = evaluate(parameters)
    total = value + 2.0 * float(weight @ np.abs(parameters))
    for _ in range(_OUTER):
        gradient, hessian = derivatives()
        step = _coordinates(gradient, hessian, parameters, weight) - parameters
        size = 1.0
        while True:
            trial, derivatives = evaluate(parameters + size * step)
            new = trial + 2.0 * float(weight @ np.abs(parameters + size * step))
            if new <= total + 1e-12 * max(1.0, abs(total)) or size < 1e-6:
                break
            size /= 2.0
        parameters = parameters + size * step
        if total - new <= 1e-11 * max(1.0, abs(total)):
            break
        total = new
    return parameters


def _coordinates(gradient: Floats, hessian: Floats, at: Floats, weight: Floats) -> Floats:
    """Minimum of ½(b − a)ᵀH(b − a) − gᵀ(b − a) + Σ w|b|, a coordinate at a time."""
    b, left = at.copy(), gradient.copy()  # left = g − H(b − a)
    diagonal = np.diag(hessian) + 1e-12 * float(np.trace(hessian)) / len(hessian) + 1e-300
    for _ in range(_SWEEPS):
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
    return b
