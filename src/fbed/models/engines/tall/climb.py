"""Newton sweeps up the likelihood of a model, until its deviance is known or what is known of it says enough.

What a Newton step promises, N², and how far it goes tell what is left to gain: between N²P(f) and N²P(−f) where it
moves no row by more than f; what classes know instead is in `class_fit` (`left_to_gain`). So every sweep encloses the
deviance, and whoever only has to be told from others need not be taken to the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fbed.models.engines.bound_functions import P
from fbed.models.engines.tall.answers import Sweep
from fbed.models.engines.tall.factor import Factor, NotTall
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

SHORT = 1e-9  # what a fit may always be short of its maximum, in units of the deviance
_MOST_SHORT = 1e-3  # and what it may be where its deviance is known all the same
_WRONG = 1e-8  # how far the deviance may be from its minimum then
_NEAR = 0.1  # how far the last step may move a row
_ROUNDING = 1e-13  # of a sum of losses
_SWEEPS = 30  # Newton iterations after which a model counts as next to separated
_FLAT = 1e-3  # N² beside the weight of the rows with which it pays to ask all of them how far they move
_SLACK = 1e-9  # rounding of sums, relative
_PARTS = (1.0, 0.5, 0.25, 0.1, 0.01)  # of a step, the first that gains something

Until = Callable[[float, float], bool]
"""Whether a deviance between these is known well enough."""


class Climber(Protocol):
    """A model on the way to its maximum, of rows that weigh n."""

    @property
    def n(self) -> float:
        """Weight of the rows."""

    def sweep_at(self, coefficients: Floats) -> Sweep:
        """A look at the model at some coefficients."""

    def drift_of(self, step: Floats, at: Floats, here: Sweep) -> float:
        """How far a step can move a row, from the largest values of the columns."""

    def moved_by(self, step: Floats) -> float:
        """How far it moves any, from all rows: no row is the largest in every column."""

    def left_to_gain(self, promised: float, drift: float) -> tuple[float, float]:
        """What is left to gain where a step that moves rows so far promises so much: at least, at most."""

    def enough(self, loss: float, drift: float) -> float:
        """What the last step may promise."""


def left_by_step(promised: float, drift: float) -> tuple[float, float]:
    """N²P(f) and N²P(−f)."""
    if drift > 1.0:
        return 0.0, np.inf
    most, least = P(np.array([-drift, drift]))
    return promised * float(least), promised * float(most)


def enough_beside(beside: float, loss: float, drift: float) -> float:
    """What the gain of a step that moves no row by more than `drift` may be for its sweep to be left out.

    P(±f) is 1 ∓ f/3: so far the deviance may be from its minimum, and that must neither be seen in it nor make a
    difference between statistics that are the same. `beside` is the deviance that this one will be compared with.
    """
    if np.isnan(beside):
        return SHORT
    worth = abs(beside - 2.0 * loss)
    wrong = min(_WRONG, TIE * worth) if worth > 1.0 else TIE
    return max(SHORT, min(_MOST_SHORT, 2.0 * wrong / max(drift, 1e-300)))


class Climb:
    """The way to the maximum of a model: `at` is where the last sweep was, `here` what it found there."""

    def __init__(self, climber: Climber, start: Floats) -> None:
        self._climber, self._left = climber, _SWEEPS
        self.at, self.here = start, climber.sweep_at(start)
        self._look_around()

    def go(self, until: Until | None = None) -> None:
        """Up to the maximum, or until enough is known."""
        while not self.arrived and not (until is not None and until(*self.deviance)):
            self._move()
            self._look_around()

    @property
    def arrived(self) -> bool:
        """Whether what is left to gain is known.

        A small N² alone may belong to a point where rows are certain and wrong.
        """
        return self.drift <= _NEAR and self.gain <= self._climber.enough(self.here.loss, self.drift)

    @property
    def deviance(self) -> tuple[float, float]:
        """What the deviance of the model is at least and at most."""
        here, gain = 2.0 * self.here.loss, max(self.gain, 0.0)
        least, most = self._climber.left_to_gain(gain, self.drift)
        rounding = _SLACK * gain + 4.0 * _ROUNDING * here
        return max(0.0, here - most - rounding), here - least + rounding

    def _look_around(self) -> None:
        if self._left == 0:
            raise NotTall
        self._left -= 1
        self.factor = Factor(self.here.information)
        self.step = self.factor.solve(self.here.gradient)
        self.gain = float(self.here.gradient @ self.step)
        if not np.isfinite(self.gain + self.here.loss):
            raise NotTall
        self.drift = self._climber.drift_of(self.step, self.at, self.here)
        if self.drift > _NEAR and self.gain <= _FLAT * self._climber.n:
            self.drift = min(self.drift, self._climber.moved_by(self.step))

    def _move(self) -> None:
        """A Newton step; one that gains nothing is halved."""
        for part in _PARTS:
            with np.errstate(all="ignore"):  # a step may lead beyond all numbers: then it is cut
                there = self._climber.sweep_at(self.at + part * self.step)
            if there.loss <= self.here.loss * (1.0 + _ROUNDING):
                self.at, self.here = self.at + part * self.step, there
                return
        raise NotTall
