"""Newton sweeps up the likelihood of a model, until its deviance is known or what is known of it says enough.

A Newton step that moves no row by more than f leaves between N²P(f) and N²P(−f) to gain, N² what it promises. So every
sweep encloses the deviance, and whoever only has to be told from others need not be taken to the maximum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fbed.models.engines.bound_functions import P
from fbed.models.engines.tall.answers import Sweep
from fbed.models.engines.tall.factor import Factor, NotTall
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

_SHORT = 1e-9  # what a fit may always be short of its maximum, in units of the deviance
_MOST_SHORT = 1e-3  # and what it may be where its deviance is known all the same
_WRONG = 1e-8  # how far the deviance may be from its minimum then
_NEAR = 0.1  # how far the last step may move a row
_ROUNDING = 1e-13  # of a sum of losses
_SWEEPS = 30  # Newton iterations after which a model counts as next to separated
_SLACK = 1e-9  # rounding of sums, relative
_PARTS = (1.0, 0.5, 0.25, 0.1, 0.01)  # of a step, the first that gains something

Until = Callable[[float, float], bool]
"""Whether a deviance between these is known well enough."""


class Climb:
    """The way to the maximum of a model: `at` is where the last sweep was, `here` what it found there.

    `furthest` tells how far a step can move a row, `beside` is the deviance of the model that this one will be compared
    with, if there is one.
    """

    def __init__(
        self, sweep: Callable[[Floats], Sweep], furthest: Callable[[Floats], float], start: Floats, beside: float
    ) -> None:
        self._sweep, self._furthest, self._beside, self._left = sweep, furthest, beside, _SWEEPS
        self.at, self.here = start, sweep(start)
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
        return self.drift <= _NEAR and self.gain <= self._enough()

    @property
    def deviance(self) -> tuple[float, float]:
        """What the deviance of the model is at least and at most."""
        here, gain = 2.0 * self.here.loss, max(self.gain, 0.0)
        if self.drift > 1.0:
            return 0.0, here
        most, least = P(np.array([-self.drift, self.drift]))
        rounding = _SLACK * gain + 4.0 * _ROUNDING * here
        return max(0.0, here - gain * float(most) - rounding), here - gain * float(least) + rounding

    def _look_around(self) -> None:
        if self._left == 0:
            raise NotTall
        self._left -= 1
        self.factor = Factor(self.here.information)
        self.step = self.factor.solve(self.here.gradient)
        self.gain, self.drift = float(self.here.gradient @ self.step), self._furthest(self.step)
        if not np.isfinite(self.gain):
            raise NotTall

    def _move(self) -> None:
        """A Newton step; one that gains nothing is halved."""
        for part in _PARTS:
            with np.errstate(all="ignore"):  # a step may lead beyond all numbers: then it is cut
                there = self._sweep(self.at + part * self.step)
            if there.loss <= self.here.loss * (1.0 + _ROUNDING):
                self.at, self.here = self.at + part * self.step, there
                return
        raise NotTall

    def _enough(self) -> float:
        """What the gain of a step that moves no row by more than the drift may be for its sweep to be left out.

        P(±f) is 1 ∓ f/3: so far the deviance may be from its minimum, and that must neither be seen in it nor make
        a difference between statistics that are the same.
        """
        if np.isnan(self._beside):
            return _SHORT
        worth = abs(self._beside - 2.0 * self.here.loss)
        wrong = min(_WRONG, TIE * worth) if worth > 1.0 else TIE
        return max(_SHORT, min(_MOST_SHORT, 2.0 * wrong / max(self.drift, 1e-300)))
