"""The deviance of a model enclosed while it is being fitted, as far as a decision needs.

At any point of the model let d be Newton's step, λ² its squared decrement and z the change of the log mean that it
means to first order (see `row_likelihoods`). Then

    deviance − λ²·P(z_min)  ≤  deviance of the maximum  ≤  deviance − λ²·P(z_max),

the left side where z_min > −1. Rows that have next to nothing left are idle where they keep it from being so: set to
their outcome, they cost what they have left, and the step is that of the others. Rows that are explained in the limit
are no part of the question (see `explained`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import bound_functions
from fbed.clock import check_time
from fbed.models.engines.categories.coded_columns import CodedColumns, Step
from fbed.models.engines.categories.coded_projection import moving_none
from fbed.models.engines.categories.explained import still_moving, unexplained
from fbed.models.engines.categories.row_likelihoods import RowLikelihood, Rows
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

CERTAIN = 1e-3
"""How far the mean of a one-sided row may be from its outcome for it to be idle."""
RESOLVED = 5e-11
"""Relative width at which an interval is a number: little beside what ties are judged by."""
ROUGHLY = 0.03
"""Relative width of an interval that is good enough to tell who may be best."""

_MOST_STEPS = 60
_ARRIVED, _SMALL = 1e-7, 1e-3  # a decrement² and a step after which the next gains the decrement², to 3e-11
_CONVERGED = 1e-12  # decrement² of coefficients on their way to infinity at which nothing is left to gain
_NARROW = (3e-10, 1e-12)  # what an interval, of itself and of its deviance, is wide where rounding ends all steps
_CLEAR = 1e-9  # part of the largest margin by which rows must be on their side: two equal rows have margins of ±0
_ROUNDING = 1e-9
_FARTHEST = 100.0  # change of a predictor by one step: rounding grows with predictors, and nothing is gained out there
_USELESS = 1e-2  # relative error of a step that bounds nothing
_IDLE = (1e-9, 1e-5)  # what a row may have left to be idle: next to nothing, or little beside a critical value
_CLEARLY_ON = 1e-3  # part of the largest margin by which rows are on their side whatever rounding is
_MOST_SECURED = 2000  # rows that are looked at together
_HINT = 12.0  # how far predictors of explained rows go in a place to start a fit from


@dataclass(frozen=True)
class Enclosed:
    """An interval for a deviance, the predictors where the search ended, and whether it is clear enough."""

    least: float
    most: float
    predictor: Floats
    settled: bool


Settled = Callable[[float, float], bool]


def idle_rows(outcome: RowLikelihood, rows: Rows, threshold: float) -> tuple[NDArray[np.bool_], float]:
    """One-sided rows that have less than this left to explain, and what they have together, at most."""
    left = 2.0 * np.abs(rows.residual)
    wrong = np.abs(rows.mean - (outcome.sides > 0))
    idle = (left < threshold) & (wrong < CERTAIN) & (outcome.sides != 0)
    return idle, float(left[idle].sum()) * (1.0 + 2.0 * CERTAIN)


class Enclosing(ABC):
    """Newton's way up a likelihood: the deviance of the maximum is enclosed after every step."""

    predictor: Floats
    least, most = 0.0, np.inf

    @abstractmethod
    def rows(self) -> Any:
        """The rows at the predictors: at least their `deviance`, `margin` and `largest`, see `Rows`."""

    @abstractmethod
    def step(self, rows: Any) -> Step:
        """Newton's step."""

    @abstractmethod
    def reach(self, rows: Any, step: Step) -> tuple[float, float, float]:
        """Least and largest z of a step, and how far it moves a predictor."""

    @abstractmethod
    def without_idle(self, rows: Any, threshold: float) -> tuple[float, Step, float]:
        """The deviance without what is next to nothing, each less than so much; the step of the rest, its least z."""

    @abstractmethod
    def hint(self) -> Floats:
        """The predictors, also of explained rows, which are on their way to infinity."""

    def is_separated(self) -> bool:
        """Whether predictors that put every row on its side do so for columns that can grow."""
        return True

    def enclose(self, settled: Settled) -> Enclosed:
        """Steps until the interval is settled; it may not get there."""
        rows = self.rows()
        for _ in range(_MOST_STEPS):
            check_time()
            if settled(self.least, self.most):
                return self._answer(True)
            if rows.margin > _CLEAR * max(1.0, rows.largest) and self.is_separated():
                self.least = self.most = 0.0
                return self._answer(True)
            step = self.step(rows)
            if self._bounded(rows, step, settled):
                return self._answer(True)
            found = self._advanced(rows.deviance, step.move)
            if found is None:
                break
            rows = found
        return self._answer(self._known())

    def _answer(self, settled: bool) -> Enclosed:
        return Enclosed(max(self.least, 0.0), max(self.most, 0.0), self.hint(), settled)

    def _bounded(self, rows: Any, step: Step, settled: Settled) -> bool:
        """Narrow the interval by what the step tells; whether it is settled now."""
        low, high, largest = self.reach(rows, step)
        deviance, gain = rows.deviance, step.decrement
        self.most = min(self.most, deviance)
        if not is_reliable(step):  # what is next to nothing may pull where nothing bends: without it there is an end
            self._idle_bounds(rows, settled)
            return settled(self.least, self.most) or self._known()
        if (gain <= _ARRIVED and largest <= _SMALL) or gain <= _CONVERGED:
            self.least = self.most = deviance - (gain if largest <= _SMALL else 0.0)
            self.predictor = self.predictor + step.move if largest <= _SMALL else self.predictor
            return True
        surely = gain * _p(high * (1.0 + step.error)) * (1.0 - _ROUNDING - step.error)
        self.most = min(self.most, deviance - surely + 1e-14 * deviance)
        if low * (1.0 + step.error) > -1.0:
            self._at_least(deviance - _at_most(step, low))
        elif gain < 1.0:
            self._idle_bounds(rows, settled)
        return settled(self.least, self.most)

    def _idle_bounds(self, rows: Any, settled: Settled) -> None:
        """The lower end without what is next to nothing."""
        for threshold in _IDLE:
            if not settled(self.least, self.most):
                left, step, low = self.without_idle(rows, threshold)
                if is_reliable(step) and low * (1.0 + step.error) > -1.0:
                    self._at_least(left - _at_most(step, low))

    def _known(self) -> bool:
        """Whether the interval is as narrow as rounding lets it become: then it is a number."""
        known = self.most - self.least <= _NARROW[0] + _NARROW[1] * self.most
        self.least = self.most if known else self.least
        return known

    def _at_least(self, deviance: float) -> None:
        self.least = min(max(self.least, deviance), self.most)

    def _advanced(self, deviance: float, move: Floats) -> Any:
        """The rows after the longest part of the step that makes the deviance fall; None where none does."""
        if not np.isfinite(move).all():
            return None
        part, before = min(1.0, _FARTHEST / max(float(np.abs(move).max()), 1e-300)), self.predictor
        least = 1e-3 * part  # where nothing bends, a step may be far too long to begin with
        while part > least:
            self.predictor = before + part * move
            rows = self.rows()
            if rows.deviance <= deviance * (1.0 + 1e-15):
                return rows
            part /= 2.0
        self.predictor = before
        return None


class Ascent(Enclosing):
    """The way up the likelihood of a model in coded columns, with one predictor a row."""

    def __init__(
        self,
        columns: CodedColumns,
        outcome: RowLikelihood,
        weight: Floats,
        start: Floats,
        offset: Floats | None = None,
    ) -> None:
        self.outcome, self.offset = outcome, offset
        categories = [columns.levels, *(other.category for other in columns.others)]
        self.weight = unexplained(categories, outcome, weight, columns.columns)
        self.columns = still_moving(columns, self.weight)
        self.explained = (self.weight == 0) & (weight > 0)
        shift = outcome.profiled(columns.levels, start, self.weight)
        self.predictor = start + shift[columns.levels.codes]

    def enclose(self, settled: Settled) -> Enclosed:
        """Steps until the interval is settled; nothing is left where levels explain all rows."""
        if not self.weight.any():
            return Enclosed(0.0, 0.0, self.hint(), True)
        return super().enclose(settled)

    def rows(self) -> Rows:
        """The rows at the predictors."""
        return self.outcome.at(self.predictor, self.weight)

    def step(self, rows: Rows) -> Step:
        """Newton's step."""
        return self.columns.newton(rows.residual, rows.curvature)

    def reach(self, rows: Rows, step: Step) -> tuple[float, float, float]:
        """Least and largest z of a step, and how far it moves a predictor."""
        return self.outcome.reach(rows.mean, step.move, rows.curvature)

    def is_separated(self) -> bool:
        """Whether the columns put every row on its side, by themselves: an offset does not grow with them."""
        if self.offset is None:
            return True
        side = (self.outcome.sides * (self.predictor - self.offset))[self.weight > 0]
        return bool(side.min() > _CLEAR * max(1.0, float(side.max())))

    def hint(self) -> Floats:
        """The predictors, also of explained rows, which are on their way to infinity."""
        near = np.clip(self.predictor, -_HINT, _HINT) + self.outcome.sides * _HINT
        return np.where(self.explained, near, self.predictor)

    def secured(self) -> NDArray[np.bool_]:
        """Rows with next to nothing left that a direction of the model takes to their side, and that moves no others.

        In the limit they are explained, whatever the other coefficients are. Where the search has gone says most often
        which direction that is.
        """
        idle = idle_rows(self.outcome, self.rows(), _IDLE[0])[0] & (self.weight > 0)
        out = np.zeros(len(idle), dtype=bool)
        here = np.flatnonzero(idle)
        if not 0 < len(here) <= _MOST_SECURED:
            return out
        moves = moving_none(self.columns, np.where(idle, 0.0, self.weight))[here]
        if not np.abs(moves).max(initial=0.0) > _CLEARLY_ON:
            return out
        side, went = self.outcome.sides[here], self.predictor[here]
        for goal in (went if self.offset is None else went - self.offset[here], side):
            found = _on_its_way(side, moves, goal)
            if found is not None:
                out[here[found]] = True
                break
        return out

    def without_idle(self, rows: Rows, threshold: float) -> tuple[float, Step, float]:
        """From the rows that still count, with the others at their outcome."""
        idle, cost = idle_rows(self.outcome, rows, threshold)
        curvature = np.where(idle, 0.0, rows.curvature)
        step = self.columns.newton(np.where(idle, 0.0, rows.residual), curvature)
        return rows.deviance - cost, step, self.outcome.reach(rows.mean, step.move, curvature)[0]


def _on_its_way(side: Floats, moves: Floats, goal: Floats) -> NDArray[np.bool_] | None:
    """Rows that a combination of moves takes to their side, as near to a goal as they can; None where it takes some
    the other way, or where rounding might have.
    """
    way = side * (moves @ np.linalg.lstsq(moves, goal, rcond=1e-10)[0])
    furthest = float(way.max(initial=0.0))
    clear = way > _CLEARLY_ON * furthest
    return clear if furthest > 0.0 and (clear | (np.abs(way) <= _CLEAR * furthest)).all() else None


def is_clear(null: float, bar: float, least: float, most: float) -> bool:
    """Whether a statistic fails for certain, or passes and is known well enough to compare it with others."""
    lower, upper = null - most, null - least
    return upper <= bar * (1.0 - TIE) or (lower > bar * (1.0 + 2.0 * TIE) and upper - lower <= ROUGHLY * lower)


def is_reliable(step: Step) -> bool:
    """Whether a step can tell bounds."""
    return step.error < _USELESS and 0.0 <= step.decrement < np.inf


def _at_most(step: Step, low: float) -> float:
    return step.decrement * _p(low * (1.0 + step.error)) * (1.0 + _ROUNDING + step.error)


def _p(z: float) -> float:
    return bound_functions(z)[0]
