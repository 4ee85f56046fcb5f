"""Damped Newton iterations for many models at once.

The models of a batch share the columns Z of the selected variables and have one column x_b each of their own. A
`Likelihood` says what the parameters mean; here they are only moved until the likelihood no longer rises.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.models.long_products import weighted_inner
from fbed.rules.p_values import Floats

CONVERGED = 1e-11
"""Squared Newton decrement at which the iterations end: twice this is about what the deviance can still fall."""

NEARLY = 1e-7
"""Squared decrement from which one more step ends the iterations, if it moves no predictor by more than `SMALL_STEP`:
the deviance then falls by the squared decrement itself, up to a third of that step, which is 3e-11 at most."""

SMALL_STEP = 1e-3

MAX_ITERATIONS = 100  # under quasi-separation the deviance falls by a factor e an iteration: 30 are enough
_MAX_CAREFUL = 1000
_HIDDEN = 1e-9  # of a deviance: what may be left where rounding hides the way on
_FAR = 1e3  # no predictor is moved further than about this by one step of bounded length
_FURTHER = 100.0  # times that a step may enlarge the parameters
JITTER = 1e-14  # relative to the mean curvature; changes the path to the optimum, never the optimum
ROUNDING = 1e-12  # a rise of the deviance below this part of its size is rounding
LEAST_STEP = 1e-10  # part of a step below which none is taken: where curvature is next to none, steps are far too long
NOISE = 2.0**-52  # part of the deviance that a decrement cannot be told from
_FEW_MODELS = 3  # up to here the products of all pairs of columns do not pay
_MOST_PRODUCTS = 2**25  # values of products that are kept in memory


@cache
def column_pairs(k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs of two of k columns; NumPy takes longer to find them than to multiply by them."""
    return np.triu_indices(k)


class Columns:
    """The design [Z x_b] of every model b of a batch; `x` is None when the models have no column of their own."""

    def __init__(self, Z: Floats, x: Floats | None = None, products: Floats | None = None) -> None:
        self.Z, self.x, self._products = Z, x, products
        self.size = Z.shape[1] + (x is not None)

    def with_own(self, x: Floats) -> Columns:
        """Models that have the same Z and a column each."""
        return Columns(self.Z, x, self._products)

    def only(self, models: Any) -> Columns:
        """The columns of some of the models."""
        return self if self.x is None else Columns(self.Z, self.x[:, models], self._products)

    def column(self, i: int) -> Floats:
        """One column of the designs, n × 1 where all models share it."""
        return self.Z[:, i : i + 1] if self.x is None or i < self.Z.shape[1] else self.x

    def predict(self, beta: Floats) -> Floats:
        """Zβ + xβ_x: linear predictors, n × models."""
        if self.x is None:
            return self.Z @ beta
        return self.Z @ beta[:-1] + self.x * beta[-1]

    def inner(self, rows: Floats) -> Floats:
        """[Z x]ᵀr: sums over the rows, size × models."""
        if self.x is None:
            return self.Z.T @ rows
        if rows.shape[1] == 1:  # all models are at the same point
            shared = np.broadcast_to(self.Z.T @ rows, (self.Z.shape[1], self.x.shape[1]))
            return np.vstack([shared, (rows[:, 0] @ self.x)[None]])
        return np.vstack([self.Z.T @ rows, np.einsum("ij,ij->j", self.x, rows)])

    def gram(self, weight: Floats) -> Floats:
        """[Z x]ᵀW[Z x]: models × size × size."""
        inner = self._shared_gram(weight)
        if self.x is None:
            return inner
        weighted = weight * self.x
        if weight.shape[1] == 1:
            inner = np.broadcast_to(inner, (self.x.shape[1], *inner.shape[1:]))
        return bordered(inner, self.Z.T @ weighted, np.einsum("ij,ij->j", self.x, weighted))

    def _shared_gram(self, weight: Floats) -> Floats:
        """ZᵀW_bZ of every model b, as one matrix product of the weights with all products of two columns."""
        k, batch = self.Z.shape[1], weight.shape[1]
        if batch <= _FEW_MODELS or self.Z.shape[0] * k * (k + 1) // 2 > _MOST_PRODUCTS:
            return np.stack([weighted_inner(self.Z, weight[:, b], self.Z) for b in range(batch)])
        row, column = column_pairs(k)
        if self._products is None:
            self._products = self.Z[:, row] * self.Z[:, column]
        return unpacked((self._products.T @ weight).T, k)


def unpacked(packed: Floats, k: int) -> Floats:
    """Symmetric k × k matrices from the values of all pairs."""
    row, column = column_pairs(k)
    out = np.empty((*packed.shape[:-1], k, k))
    out[..., row, column] = packed
    out[..., column, row] = packed
    return out


class Point(Protocol):
    """A likelihood at given parameters of every model of a batch."""

    value: Floats
    """Deviance of each model; +inf outside the domain."""

    def derivatives(self, columns: Columns | None = None) -> tuple[Floats, Floats]:
        """Gradient (parameters × models) and negative Hessian (models × parameters²) of the log-likelihood.

        Other columns may be given to the point of a single model: what has no coefficient there has coefficient 0.
        """

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Of a single model: derivatives in the predictors of every row (rows × predictors), and their variance.

        Both are of all copies of a row together; the variance is known up to a factor, None where it is the same for
        every row.
        """

    def separated(self) -> NDArray[np.bool_]:
        """Which models reach the supremum, deviance 0, in the limit along their present direction."""


class Likelihood(Protocol):
    """What is maximised."""

    def at(self, columns: Columns, parameters: Floats) -> Point:
        """Evaluate at parameters, one column a model."""

    def project(self, parameters: Floats) -> Floats:
        """The nearest parameters inside a closed domain; most families have none."""

    def largest_move(self, columns: Columns, step: Floats) -> Floats:
        """By how much a step changes the predictors at most; inf where that does not tell how far it goes."""


@dataclass(frozen=True)
class Maximum:
    """Where the iterations ended, one column a model; `finished` says where that is the supremum."""

    parameters: Floats
    deviance: Floats
    finished: NDArray[np.bool_]


def climb(likelihood: Likelihood, columns: Columns, start: Floats) -> Maximum:
    """Newton iterations, each step halved until the deviance falls; a separated model has deviance 0.

    Models whose steps lead nowhere are taken further one by one, by steps of bounded length.
    """
    everything, parameters = columns, start.copy()
    point = likelihood.at(columns, parameters)
    finished = np.full(parameters.shape[1], parameters.size == 0)
    found = Maximum(parameters.copy(), point.value.copy(), finished)
    left = np.arange(parameters.shape[1])  # models still iterating
    moved = np.ones(parameters.shape[1], dtype=bool)
    for _ in range(MAX_ITERATIONS if parameters.size else 0):
        check_time()
        step, decrement = newton_step(*point.derivatives())
        separated = point.separated()
        last = ~separated & moved & _is_last(likelihood, columns, step, decrement)
        noise = np.where(np.isfinite(point.value), NOISE * np.abs(point.value), 0.0)
        known = decrement <= np.maximum(CONVERGED, noise)
        done = separated | last | known
        found.parameters[:, left] = np.where(last, parameters + step, parameters)
        found.deviance[left] = np.where(separated, 0.0, point.value - np.where(last, decrement, 0.0))
        found.finished[left] = done
        going = ~done & moved
        if not going.any():
            break
        left, columns = left[going], columns.only(going)
        before = parameters[:, going]
        parameters, point = _damped(likelihood, columns, before, step[:, going], point.value[going])
        moved = (parameters != before).any(axis=0)
    for model in np.flatnonzero(~found.finished):
        _finish(likelihood, everything.only(slice(model, model + 1)), found, int(model))
    return found


def maximise(likelihood: Likelihood, columns: Columns, start: Floats) -> Maximum:
    """The same, with a warning where the iterations did not arrive."""
    return told(climb(likelihood, columns, start))


def told(found: Maximum) -> Maximum:
    """Warn of models that were not fitted to the end."""
    if not found.finished.all():
        warnings.warn(
            f"{int((~found.finished).sum())} models could not be fitted to the end: their likelihoods are too small",
            RuntimeWarning,
            stacklevel=2,
        )
    return found


def _finish(likelihood: Likelihood, columns: Columns, found: Maximum, model: int) -> None:
    """Continue one model by steps of bounded length: (H + λI)⁻¹g, λ raised until the deviance falls as it should.

    Where most rows are certain of their outcome, whichever it is, the likelihood has hardly any curvature and Newton's
    step goes anywhere; λ keeps it to a length at which the quadratic approximation still holds.
    """
    parameters = found.parameters[:, [model]]
    point = likelihood.at(columns, parameters)
    damping, reached = 0.0, False
    for _ in range(_MAX_CAREFUL):
        check_time()
        gradient, hessian = point.derivatives()
        length = float(np.linalg.norm(gradient))
        _, decrement = newton_step(gradient, hessian.copy())
        value = float(point.value[0])
        rounding = ROUNDING * max(1.0, abs(value))
        endless = bool(point.separated()[0])
        reached = endless or decrement[0] <= max(CONVERGED, rounding) or length * _FAR <= rounding
        if reached:
            break
        damping = max(damping, length / _FAR)
        while True:
            step = _bounded_step(gradient[:, 0], hessian[0], damping)[:, None]
            promised = float(2.0 * gradient[:, 0] @ step[:, 0] - step[:, 0] @ hessian[0] @ step[:, 0])
            trial = likelihood.project(parameters + step)
            there = likelihood.at(columns, trial)
            fall = value - float(there.value[0])
            if fall >= 0.1 * promised or not promised > rounding:  # which is so where nothing can be computed, too
                break
            damping *= 4.0
        if not fall >= 0.0 or (promised <= rounding and damping > length):  # rounding hides the way on
            reached = min(float(decrement[0]), length * _FAR) <= _HIDDEN * max(1.0, abs(value))
            break
        damping *= 0.1 if fall >= 0.75 * promised else 0.5
        parameters, point = trial, there
    found.parameters[:, [model]] = parameters
    found.deviance[model] = 0.0 if point.separated()[0] else point.value[0]
    found.finished[model] = reached


def _bounded_step(gradient: Floats, hessian: Floats, damping: float) -> Floats:
    """(H + λI)⁻¹g, solved with curvatures of very different sizes made alike."""
    matrix = hessian + damping * np.eye(len(hessian))
    unit = 1.0 / np.sqrt(np.diag(matrix) + 1e-300)
    scaled, right = matrix * np.outer(unit, unit), unit * gradient
    try:
        return np.asarray(unit * np.linalg.solve(scaled, right))
    except np.linalg.LinAlgError:  # an outlier's curvature is so large that damping is lost in it
        return np.asarray(unit * np.linalg.lstsq(scaled, right, rcond=None)[0])


def _is_last(likelihood: Likelihood, columns: Columns, step: Floats, decrement: Floats) -> NDArray[np.bool_]:
    """Whether a step arrives: what it gains is known without evaluating the likelihood there."""
    out = decrement <= NEARLY
    if out.any():
        out[out] = likelihood.largest_move(columns.only(out), step[:, out]) <= SMALL_STEP
    return out


def polished(likelihood: Likelihood, columns: Columns, found: Maximum) -> Floats:
    """Parameters after one more Newton step: where the deviance is exact, coefficients still have six digits only.

    A small step is taken whatever rounding makes of the deviance there, of which large counts leave few digits.
    """
    step, _ = newton_step(*likelihood.at(columns, found.parameters).derivatives())
    better = likelihood.project(found.parameters + step)
    taken = likelihood.at(columns, better).value <= found.deviance + 1e-9
    small = likelihood.largest_move(columns, step) <= SMALL_STEP
    return np.where(taken | small, better, found.parameters)


def newton_step(gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
    """H⁻¹g of every model, and the squared decrement gᵀH⁻¹g: the score statistic when g is that of a smaller model."""
    size = hessian.shape[1]
    diagonal = np.arange(size)
    hessian[:, diagonal, diagonal] += JITTER * np.einsum("bii->b", hessian)[:, None] / max(size, 1) + 1e-300
    step = _solutions(hessian, gradient.T[:, :, None])[:, :, 0].T.astype(np.float64, copy=False)
    return step, np.einsum("ij,ij->j", gradient, step)


def _solutions(hessian: Floats, right: Floats) -> Floats:
    """H⁻¹g of every model; the shortest step where rounding leaves a pivot of 0, which no jitter rules out."""
    try:
        return np.asarray(np.linalg.solve(hessian, right))
    except np.linalg.LinAlgError:
        if len(hessian) > 1:  # the others are solved as if they were alone
            return np.concatenate([_solutions(hessian[[b]], right[[b]]) for b in range(len(hessian))])
        return np.asarray(np.linalg.lstsq(hessian[0], right[0], rcond=None)[0])[None]


def _damped(
    likelihood: Likelihood, columns: Columns, parameters: Floats, step: Floats, value: Floats
) -> tuple[Floats, Point]:
    """Halve each step until its deviance falls; a step that rounding keeps from falling is not taken.

    Where all rows that a direction moves are saturated, a step along it is any number, and so large that rounding takes
    the predictors out of the model's span: no step enlarges the parameters, of columns of unit size, a hundred times.
    """
    reach, move = np.linalg.norm(parameters, axis=0), np.linalg.norm(step, axis=0)
    size = np.minimum(1.0, _FURTHER * np.maximum(1.0, reach) / np.maximum(move, 1e-300))
    allowed = value + ROUNDING * np.maximum(1.0, np.abs(value))
    while True:
        check_time()
        trial = likelihood.project(np.where(size > 0, parameters + size * step, parameters))
        point = likelihood.at(columns, trial)
        worse = ~(point.value <= allowed) & (size > 0)
        if not worse.any():
            return trial, point
        size[worse] = np.where(size[worse] > LEAST_STEP, size[worse] / 2.0, 0.0)


def bordered(inner: Floats, cross: Floats, corner: Floats) -> Floats:
    """The Hessians of models with one column more each."""
    batch, k, _ = inner.shape
    out = np.empty((batch, k + 1, k + 1))
    out[:, :k, :k] = inner
    out[:, :k, k] = out[:, k, :k] = cross.T
    out[:, k, k] = corner
    return out
