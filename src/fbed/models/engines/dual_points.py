"""Dual points of overdispersed counts: residuals that are orthogonal to a model, each a bound on its likelihood.

At a dispersion α a row of mean μ has the residual s = (y − μ)/(1 + αμ), and m = y − s. A Newton step d leads from
there to residuals s − w·Zd that are orthogonal to the model, and to a bound that is as good as the step is short (see
`dispersion_intervals`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbed.clock import check_time
from fbed.models.likelihoods.negative_binomial import NegativeBinomial
from fbed.models.long_products import times, weighted_inner
from fbed.rules.p_values import Floats

_SOLVED = 1e-18  # what residuals may have left along the model, in the metric of its information
_STEADY = 1e-8  # least curvature of the model beside the largest, from which its equations are solved well enough
_SHORT = 0.3  # step of the predictors after which a dual point is as good as that of the fit
_IDLE = 1e-8  # mean of a row without a count that is as good as 0
_GONE_WITH = 1e-6  # how far all counts together may move in the directions that are left out
HIGHEST = 700.0  # whose exponential is still a number
_MOST_STEPS = 30


@dataclass(frozen=True)
class Dual:
    """Residuals that are orthogonal to the model, and a predictor of the model close to where they come from."""

    alpha: float
    coefficients: Floats
    eta: Floats
    s: Floats
    m: Floats
    view: View


class View:
    """Weights of the rows, under which candidates are made orthogonal to the model.

    Where only some intervals are looked at in this way, equations are made for these alone.
    """

    def __init__(self, Z: Floats, weight: Floats, inverse: Floats | Callable[[], tuple[Floats, Floats]]) -> None:
        self.Z, self._told = Z, (weight, inverse)

    @cached_property
    def _settled(self) -> tuple[Floats, Floats]:
        weight, inverse = self._told
        return inverse() if callable(inverse) else (weight, inverse)

    @property
    def weight(self) -> Floats:
        """a·W."""
        return self._settled[0]

    @property
    def inverse(self) -> Floats:
        """(ZᵀaWZ)⁻¹."""
        return self._settled[1]

    def left(self, new: Floats) -> Floats:
        """What the model leaves of columns."""
        return self.parted(new)[0]

    def parted(self, new: Floats) -> tuple[Floats, Floats]:
        """The same, and the coefficients of what it does not leave."""
        coefficients = np.zeros((self.Z.shape[1], new.shape[1]))
        for _ in range(2):  # the second time removes what the first left by rounding
            check_time()
            more = self.inverse @ weighted_inner(self.Z, self.weight, new)
            new, coefficients = new - times(self.Z, more), coefficients + more
        return new, coefficients


class Duals:
    """Dual points of a model at any dispersion, by Newton steps from one that is near.

    Rows without a count and next to no mean are idle: their m is 0 in every dual point, which costs what their mean
    was, and directions in which nothing but such rows moves need no equation.
    """

    def __init__(self, family: NegativeBinomial, Z: Floats, predictor: Floats) -> None:
        mean = np.exp(np.minimum(predictor, HIGHEST))
        self.busy = (family.y > 0.0) | (mean > _IDLE)
        self.idle_height = (np.log(family.weights) + predictor)[~self.busy]
        self.y, self.a, self.Z = family.y[self.busy], family.weights[self.busy], Z[self.busy]
        self.offset = 0.0 if family.offset is None else family.offset[self.busy, 0]
        self._known: dict[float, Dual] = {}
        self._quick: dict[float, Dual | None] = {}
        self._counts = float(self.a @ (self.y + mean[self.busy]))

    def beside(self, centre: Dual, alpha: float) -> Dual | None:
        """The point that one step leads to from the predictors of another, with the equations of that one.

        Predictors hardly depend on the dispersion, and whatever residuals are orthogonal to the model will do.
        """
        if alpha == centre.alpha:
            return centre
        if alpha not in self._quick:
            check_time()
            self._quick[alpha] = self._stepped(centre, alpha)
        return self._quick[alpha]

    def _stepped(self, centre: Dual, alpha: float) -> Dual | None:
        Z, a, y, mean = self.Z, self.a, self.y, np.exp(centre.eta)
        above, weight = 1.0 + alpha * mean, centre.view.weight / a
        residual = (y - mean) / above
        move = Z @ (centre.view.inverse @ (Z.T @ (a * residual)))
        if not float(np.abs(move).max()) <= _SHORT:
            return None
        s, m = residual - weight * move, mean * ((1.0 + alpha * y) / above) + weight * move
        left = Z.T @ (a * s)
        if not (float(left @ centre.view.inverse @ left) <= _SOLVED and bool((m > 1e-300).all())):
            return None

        def own() -> tuple[Floats, Floats]:
            there = (mean / above) * ((1.0 + alpha * y) / above)
            inverse = self.inverse(there)
            return (centre.view.weight, centre.view.inverse) if inverse is None else (a * there, inverse)

        return Dual(alpha, centre.coefficients, centre.eta, s, m, View(Z, a, own))

    def at(self, alpha: float, coefficients: Floats) -> Dual | None:
        """The point that one Newton step leads to, from where steps are short; None where equations are hard to solve.

        What a step leads to is as good as orthogonal to the model, and close to the best such point.
        """
        Z, a, y = self.Z, self.a, self.y
        if alpha in self._known:
            return self._known[alpha]
        for _ in range(_MOST_STEPS):
            check_time()
            eta = self.offset + Z @ coefficients
            mean = np.exp(eta)
            above = 1.0 + alpha * mean
            residual, weight = (y - mean) / above, (mean / above) * ((1.0 + alpha * y) / above)
            inverse = self.inverse(weight)
            if inverse is None:
                return None
            step = inverse @ (Z.T @ (a * residual))
            move = Z @ step
            longest = float(np.abs(move).max())
            if longest <= _SHORT:
                break
            coefficients = coefficients + step * min(1.0, 2.0 / longest)
        else:
            return None
        left = residual - weight * move
        again = inverse @ (Z.T @ (a * left))  # what rounding has left of the equations
        move = move + Z @ again
        s, m = residual - weight * move, mean * (1.0 + alpha * y) / above * (1.0 + move / above)
        left = Z.T @ (a * s)
        sound = float(left @ inverse @ left) <= _SOLVED and bool((m > 1e-300).all())
        if not sound:
            return None
        self._known[alpha] = Dual(alpha, coefficients, eta, s, m, View(Z, a * weight, inverse))
        return self._known[alpha]

    def inverse(self, weight: Floats) -> Floats | None:
        """(ZᵀawZ)⁻¹, without directions that move idle rows only; None where one moves others, but hardly."""
        curvature, directions = np.linalg.eigh(weighted_inner(self.Z, self.a * weight, self.Z))
        kept = curvature > _STEADY * curvature[-1]
        if not kept.all():
            moved = np.abs(self.Z @ directions[:, ~kept]).max(initial=0.0)
            if not (kept.any() and moved * self._counts <= _GONE_WITH):
                return None
        return np.asarray((directions[:, kept] / curvature[kept]) @ directions[:, kept].T)
