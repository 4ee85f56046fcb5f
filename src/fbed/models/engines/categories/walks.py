"""Walks up the likelihoods of several models at once, by projections under weights w₀ that are those of none.

All of them have the columns of one projection, and each has something beside it. A step v, the projection of the
residuals, from means μ suggests the means μ + w₀v. Whatever w₀ is, these satisfy the equations of the maximum, so that
their divergence from μ bounds what is left to gain. Steps are conjugate: where w₀ is right for most rows, each takes
care of one direction in which it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.models.engines.categories.coded_projection import Projection
from fbed.models.engines.categories.row_likelihoods import RowLikelihood
from fbed.rules.p_values import Floats

ROUNDING = 1e-8
"""Relative error of bounds, beside that of a projection."""

_MOST_STEPS = 25
_AT_OUTCOME = 1e-9  # residuals of rows that have nothing left to gain,
_PULLED = 100.0  # and what they may cost at most
_AT_REST = 1e-13  # part of the deviance by which a step lowers it that leads nowhere
_MOST_RESTS = 2  # such steps in a row

AllSettled = Callable[[Floats, Floats], NDArray[np.bool_]]
"""Which intervals are clear enough, given the lower and upper ends of all of them."""


class Beside(Protocol):
    """What columns have beside the model."""

    @property
    def count(self) -> int:
        """How many models there are with some of them."""

    def first(self, residual: Floats) -> Floats:
        """The step beside the model that the residuals of all of them ask for, of every model, one a column."""

    def steps(self, residuals: Floats, which: NDArray[np.intp]) -> Floats:
        """The steps beside the model that residuals ask for, of some of the models, one a column."""


@dataclass(frozen=True)
class OneEach:
    """A model for every column, with its squared norm."""

    columns: Floats
    norm: Floats

    @property
    def count(self) -> int:
        """How many columns there are."""
        return self.columns.shape[1]

    def first(self, residual: Floats) -> Floats:
        """The step along each column."""
        return np.asarray(self.columns * ((residual @ self.columns) / self.norm))

    def steps(self, residuals: Floats, which: NDArray[np.intp]) -> Floats:
        """The step along each column."""
        own = self.columns if len(which) == self.count else np.asfortranarray(self.columns[:, which])
        return np.asarray(own * (np.einsum("ij,ij->j", residuals, own) / self.norm[which]))


@dataclass(frozen=True)
class Together:
    """One model with all of some orthonormal columns."""

    columns: Floats
    count = 1

    def first(self, residual: Floats) -> Floats:
        """The step along all of them."""
        return self.steps(residual[:, None], np.zeros(1, dtype=np.intp))

    def steps(self, residuals: Floats, which: NDArray[np.intp]) -> Floats:
        """The step along all of them."""
        return np.asarray(self.columns @ (self.columns.T @ residuals))


@dataclass(frozen=True)
class Without:
    """Models without some orthonormal columns of the span each: `owner` says which of them lacks a column."""

    columns: Floats
    owner: NDArray[np.intp]
    count: int

    def first(self, residual: Floats) -> Floats:
        """Back along the columns of each."""
        return self.steps(np.repeat(residual[:, None], self.count, axis=1), np.arange(self.count))

    def steps(self, residuals: Floats, which: NDArray[np.intp]) -> Floats:
        """Back along the columns of each."""
        return np.asarray(-(self.columns @ self._own(residuals, which)))

    def cleared(self, moves: Floats, weight: Floats, which: NDArray[np.intp]) -> Floats:
        """Without what rounding has left along the columns of each: where little else is left, it would grow."""
        return np.asfortranarray(moves - self.columns @ self._own(weight[:, None] * moves, which))

    def _own(self, rows: Floats, which: NDArray[np.intp]) -> Floats:
        """Sums over rows with the columns of each."""
        along = self.columns.T @ rows
        along[self.owner[:, None] != which] = 0.0
        return np.asarray(along)


class Nothing:
    """The model itself."""

    count = 1

    def first(self, residual: Floats) -> Floats:
        """None."""
        return np.zeros((len(residual), 1))

    def steps(self, residuals: Floats, which: NDArray[np.intp]) -> Floats:
        """None."""
        return np.zeros_like(residuals)


@dataclass
class Walks:
    """Predictors of the models, one a column, and intervals for the deviances of their maxima."""

    projection: Projection
    outcome: RowLikelihood
    weight: Floats
    beside: Beside
    predictor: Floats
    least: Floats
    most: Floats
    settled: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.settled = np.zeros(self.beside.count, dtype=bool)

    @np.errstate(over="ignore", invalid="ignore")  # of means beyond all numbers nothing is learnt
    def go(self, settled: AllSettled) -> None:
        """Steps until every interval is settled; a walk that does not come closer to its maximum is given up."""
        going, rests = np.arange(self.beside.count), np.zeros(self.beside.count, dtype=np.intp)
        before: _Step | None = None
        for _ in range(_MOST_STEPS):
            check_time()
            deviance, mean, residual, curvature = self.outcome.at_each(self._at(going), self.weight)
            rests[going] = np.where(deviance > self.most[going] * (1.0 - _AT_REST), rests[going] + 1, 0)
            falling = (deviance <= self.most[going] * (1.0 + 1e-12)) & (rests[going] <= _MOST_RESTS)
            self.most[going] = np.minimum(self.most[going], np.where(falling, deviance, np.inf))
            kept = np.flatnonzero(falling & ~self._look(going, settled))
            if len(kept) < len(going):
                going, before = going[kept], None if before is None else before.only(kept)
                deviance, mean, residual, curvature = (
                    deviance[kept],
                    *(_columns(part, kept) for part in (mean, residual, curvature)),
                )
            if len(going) == 0:
                return
            move = np.asfortranarray(self.projection.steps(residual) + self.beside.steps(residual, going))
            if isinstance(self.beside, Without):
                move = self.beside.cleared(move, self.projection.weight, going)
            gain = self.outcome.divergences(mean, self.projection.weight[:, None] * move, self.weight)
            known = at_least(self.projection, residual, deviance, gain)
            self.least[going] = np.fmax(self.least[going], known)
            step = _Step.after(before, move, residual)
            kept = np.flatnonzero(~self._look(going, settled))
            if len(kept) < len(going):
                going, step, curvature = going[kept], step.only(kept), _columns(curvature, kept)
            self.predictor[:, going] += step.scaled(curvature)
            before = step

    def _at(self, going: NDArray[np.intp]) -> Floats:
        return self.predictor if len(going) == self.beside.count else _columns(self.predictor, going)

    def _look(self, which: NDArray[np.intp], settled: AllSettled) -> NDArray[np.bool_]:
        """Which of some intervals are settled now."""
        self.least[which] = np.minimum(self.least[which], self.most[which])
        self.settled[which] = settled(self.least, self.most)[which]
        return self.settled[which]


@dataclass(frozen=True)
class _Step:
    """Directions of several walks, one a column, and what the next ones are made conjugate by."""

    direction: Floats
    residual: Floats
    slope: Floats  # of the move that the residuals ask for

    @classmethod
    def after(cls, before: _Step | None, move: Floats, residual: Floats) -> _Step:
        """The move itself at first; then with that part of the direction before that makes them conjugate."""
        slope = _products(move, residual)
        if before is None:
            return cls(move, residual, slope)
        turned = slope - _products(move, before.residual)
        part = np.divide(turned, before.slope, out=np.zeros_like(slope), where=before.slope > 0)
        return cls(move + np.maximum(part, 0.0) * before.direction, residual, slope)

    def only(self, kept: NDArray[np.intp]) -> _Step:
        """Of some of the walks."""
        return _Step(_columns(self.direction, kept), _columns(self.residual, kept), self.slope[kept])

    def scaled(self, curvature: Floats) -> Floats:
        """As long as slope and curvature say."""
        bend = np.einsum("ij,ij,ij->j", curvature, self.direction, self.direction)
        slope = _products(self.direction, self.residual)
        return np.asarray(self.direction * np.divide(slope, bend, out=np.ones_like(bend), where=bend > 0))


def at_least(projection: Projection, residual: Floats, deviance: Floats, gain: Floats) -> Floats:
    """The deviance of a maximum, given bounds of what is left to gain; nothing, where means are beyond all numbers.

    No equation holds rows adrift where they are: a step along what is beside the model may take them from their
    outcome, and the model would bring them back. What little they pull at the others changes m·log m of a mean m next
    to 0 by some ten times as much.
    """
    pull = np.abs(residual[projection.adrift]).sum(axis=0)
    least = deviance * (1.0 - 1e-14) - gain * (1.0 + ROUNDING + projection.error) - _PULLED * pull
    return np.where((deviance < np.inf) & (pull <= _AT_OUTCOME), np.maximum(0.0, least), 0.0)


def _products(one: Floats, other: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", one, other))


def _columns(matrix: Floats, which: NDArray[np.intp]) -> Floats:
    return np.asfortranarray(matrix[:, which])
