"""The certified scan: exact decisions about logistic models without fitting them.

The search needs decisions, not statistics: does x pass, is x best? Convex duality encloses the likelihood-ratio statistic
of every candidate in an interval computed from the fit on S alone; intervals are narrowed only until the decision is
certain, and only contenders for the best place are resolved to the end. What is selected is exactly what fitting every
model would select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import LogisticNull, SparseColumns, fit_logistic
from fbed.families.base import Bounds, Indices, Span
from fbed.tails import ChiSquare, Floats

if TYPE_CHECKING:
    from fbed.families.binomial import Binomial

_IDLE = 1e-12  # rows with less deviance than this are saturated: they are bounded, not modelled
_WEAK = 1e-12  # directions of the model with less curvature than this (relative) move saturated rows only
_SUSPECT = 1e-11  # norm² left after the model, relative, below which a column may count as collinear: looked at closely
_SHIFTED = 1e3  # a centre this many scales away costs digits in a one-pass inner product


class CertifiedLogistic:
    """The fit on S as the certificates need it: a basis that is orthonormal in the metric of the curvature."""

    def __init__(self, model: Binomial, span: Span, predictor: Floats | None = None) -> None:
        self.model = model
        self.span = span
        weights, y = model.design.weights, model.y
        Z = np.ascontiguousarray(span.Z)
        start = np.zeros(span.rank)
        start[0] = model.null_predictor
        if predictor is not None:
            start = span.Q.T @ (span.root * predictor) / np.sqrt(model.n)
        self.coefficients, self.predictor, self.deviance, _, self.separated = fit_logistic(Z, weights, y, start)
        self.Z = Z

    def prepare(self) -> None:
        """Factor the curvature; only asked for when a scan follows."""
        if hasattr(self, "null"):
            return
        weights, y = self.model.design.weights, self.model.y
        mean = 1.0 / (1.0 + np.exp(-self.predictor))
        loss = np.logaddexp(0.0, (1.0 - 2.0 * y) * self.predictor)
        active = np.where(weights * loss < _IDLE, 0.0, weights)
        curvature = active * mean * (1.0 - mean)
        self.whitener, self.free = _whitener((self.Z * curvature[:, None]).T @ self.Z)
        self.G = np.ascontiguousarray(self.Z @ self.whitener)
        self.weighted = self.G * curvature[:, None]
        gradient = self.G.T @ (active * (y - mean))
        self.score = active * (y - mean)
        self.curvature = curvature
        self.null = LogisticNull(
            self.G, weights, y, self.predictor, _IDLE, self.deviance, float(gradient @ gradient)
        )

    def bounds(self, candidates: Indices, critical: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Lower and upper bounds for single numeric columns, settled against the critical value; and who is suspect."""
        self.prepare()
        design = self.model.design
        which = design.positions(candidates)
        if isinstance(design.matrix, SparseColumns):
            lower, upper, left = self.null.sparse(design.matrix, which, critical, 0.0, False)
            return lower, upper, 4.0 * left <= _SUSPECT * design.n * design.scale[which] ** 2
        if self.span.rank == 1:
            return self._first_scan(which, critical)
        return self._dense(which, critical)

    def _dense(self, which: NDArray[np.int64], critical: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        design = self.model.design
        size = design.block_size
        parts = []
        for start in range(0, len(which), size):
            block = design.matrix.gather(which[start : start + size], design.center, design.scale)
            parts.append(self.null.dense(block, block.T @ self.weighted, critical, 0.0, False))
        lower, upper, left = (np.concatenate(values) for values in zip(*parts, strict=True))
        return lower, upper, 4.0 * left <= _SUSPECT * design.n

    def _first_scan(self, which: NDArray[np.int64], critical: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """S is empty: one pass over the columns, their extremes are known."""
        design = self.model.design
        center, scale = design.center[which], design.scale[which]
        u = (design.matrix.dots(which, self.score) - center * self.score.sum()) / scale
        low, high = (design.low[which] - center) / scale, (design.high[which] - center) / scale
        lower, upper = self.null.first(u, low, high, float(self.curvature.sum()))
        open_ = (upper > critical * (1.0 - 1e-9)) & (lower <= critical * (1.0 + 2e-9))
        open_ |= np.abs(center) > _SHIFTED * scale
        suspect = np.zeros(len(which), dtype=bool)
        if open_.any():
            lower[open_], upper[open_], suspect[open_] = self._dense(which[open_], critical)
        return lower, upper, suspect

    def resolve(self, candidate: int, critical: float, floor: float) -> tuple[float, float, Floats]:
        """One candidate to the end, or until its upper bound is below `floor`; with the predictor of its model."""
        design = self.model.design
        if isinstance(design.matrix, SparseColumns):
            return self.null.resolve_sparse(design.matrix, int(design.table.position[candidate]), critical, floor)
        return self.null.resolve_dense(np.ascontiguousarray(design.block([candidate])[:, 0]), critical, floor)


    def loss_bounds(self, variables: Indices) -> tuple[Floats, Floats]:
        """Bounds on what removing each variable costs, E(z_min)·Wald ≤ LR ≤ the deviance at a model without it.

        The model without a variable is the one that the quadratic approximation at the fit suggests; its deviance is an
        upper bound whatever its quality. A variable that only moves saturated rows has no such model: [0, ∞).
        """
        lower, upper = np.zeros(len(variables)), np.full(len(variables), np.inf)
        if self.deviance == 0.0:  # separated: the coefficients are some point on the way to infinity
            return lower, upper
        self.prepare()
        steps = np.zeros((self.model.design.n_rows, len(variables)))
        wald = np.zeros(len(variables))
        for i, variable in enumerate(variables):
            found = self._shortest_way_without(int(variable))
            if found is not None:
                steps[:, i], wald[i] = self.G @ found[0], found[1]
        y, weights = self.model.y, self.model.design.weights
        mean = 1.0 / (1.0 + np.exp(-self.predictor))[:, None]
        active = (self.curvature > 0)[:, None]
        z_min = np.minimum(np.where(active, np.minimum(-(1.0 - mean) * steps, mean * steps), 0.0).min(axis=0), 0.0)
        without = np.logaddexp(0.0, (1.0 - 2.0 * y)[:, None] * (self.predictor[:, None] - steps))
        known = wald > 0
        lower[known] = _e(z_min[known]) * wald[known] * (1.0 - 1e-9)
        upper[known] = np.maximum(2.0 * (weights @ without)[known] - self.deviance, lower[known]) * (1.0 + 1e-9)
        return lower, upper

    def _functionals(self, variable: int) -> Floats:
        """Linear functionals of the coefficients on Z that are the variable's own coefficients, rank × width."""
        if not hasattr(self, "_inverse"):
            self._triangle = self.span.triangle()
            self._inverse = np.linalg.inv(self._triangle)
        return self._inverse[self.span.place(variable)].T

    def _shortest_way_without(self, variable: int) -> tuple[Floats, float] | None:
        """Step (on G) to the nearest model, in the metric of the curvature, without the variable; and Wald's statistic."""
        functional = self._functionals(variable)
        if self.free.shape[1] and np.abs(self.free.T @ functional).max() > 1e-9 * np.abs(functional).max():
            return None
        whitened = self.whitener.T @ functional
        coefficients = functional.T @ self.coefficients
        dual = np.linalg.solve(whitened.T @ whitened, coefficients)
        return whitened @ dual, float(coefficients @ dual)

    def deviance_without(self, variable: int) -> float:
        """Deviance of the model without one variable, from a start close by."""
        functional = self._functionals(variable)
        width = functional.shape[1]
        rest = np.linalg.qr(functional, mode="complete")[0][:, width:]
        near = self._shortest_way_without(variable) if self.deviance > 0.0 else None
        if near is not None:
            start = self.coefficients - self.whitener @ near[0]
        else:
            own = self._triangle[:, self.span.place(variable)]
            start = self.coefficients - own @ (functional.T @ self.coefficients)
        weights, y = self.model.design.weights, self.model.y
        return fit_logistic(np.ascontiguousarray(self.Z @ rest), weights, y, rest.T @ start)[2]


def _e(z: Floats) -> Floats:
    """E(z) = 2(exp(z) − 1 − z)/z², for z ≤ 0; by its series near 0, where the formula cancels."""
    small = z > -1e-2
    safe = np.where(small, -1.0, z)
    return np.where(small, 1.0 + z / 3.0 + z**2 / 12.0 + z**3 / 60.0, 2.0 * (np.expm1(safe) - safe) / safe**2)


def _whitener(information: Floats) -> tuple[Floats, Floats]:
    """A matrix M with M'AM = I on the directions in which A has curvature, and the directions that have none."""
    try:
        factor = np.linalg.cholesky(information)
        diagonal = np.diag(factor)
        if diagonal.min() ** 2 > _WEAK * 10 * diagonal.max() ** 2:
            return np.linalg.inv(factor).T, np.empty((len(information), 0))
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(information)
    kept = values > _WEAK * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept]), vectors[:, ~kept]
