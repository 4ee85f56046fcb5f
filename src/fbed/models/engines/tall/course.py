"""Who is at risk when: rows of survival times in order, and what given hazards say of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import cox_state
from fbed.rules.p_values import Floats


def order_of_risk(time: Floats, event: NDArray[np.bool_], strata: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """Rows by stratum, then from the latest time to the earliest; those who die at a time before the censored."""
    stratum = np.zeros(len(time), dtype=np.intp) if strata is None else strata
    return np.lexsort((~event, -time, stratum))


@dataclass(frozen=True)
class RiskState:
    """Hazard, expected events and residual of every row, and the triangle of every tied set."""

    hazard: Floats
    expected: Floats
    residual: Floats
    triangle: Floats

    def rows(self, part: slice) -> RiskState:
        """Of some rows; all tied sets stay, since the rows know them by number."""
        return RiskState(self.hazard[part], self.expected[part], self.residual[part], self.triangle)


@dataclass(frozen=True)
class Course:
    """When rows in order (`order_of_risk`) come and go, with their weights.

    `event` is 1 where a row dies, `starts` marks the first row of a stratum, and `closes` has at the last row of a tied
    set its number, from 1. `deaths` is the weight of those who die in each set.
    """

    event: Floats
    closes: NDArray[np.int64]
    starts: NDArray[np.bool_]
    deaths: Floats
    weights: Floats

    @classmethod
    def of(cls, time: Floats, event: NDArray[np.bool_], strata: NDArray[np.intp] | None, weights: Floats) -> Course:
        """From times, events and strata in order."""
        dies = event.astype(np.float64)
        starts = np.zeros(len(time), dtype=bool)
        starts[0] = True
        if strata is not None:
            starts[1:] = np.diff(strata) != 0
        last = np.flatnonzero(np.append((np.diff(time) != 0) | starts[1:], True))  # row of each time
        deaths = np.add.reduceat(dies * weights, np.concatenate([[0], last[:-1] + 1]))
        closes = np.zeros(len(time), dtype=np.int64)
        closing = last[deaths > 0]
        closes[closing] = np.arange(1, len(closing) + 1)
        return cls(dies, closes, starts, deaths[deaths > 0], weights)

    def rows(self, part: slice) -> Course:
        """Of some rows; all tied sets stay, since the rows know them by number."""
        return Course(self.event[part], self.closes[part], self.starts[part], self.deaths, self.weights[part])

    @property
    def n_events(self) -> float:
        """Of all tied sets together."""
        return float(self.deaths.sum())

    @cached_property
    def least(self) -> float:
        """−log-likelihood of the largest partial likelihood that any hazards could reach."""
        return saturated_loss(self.deaths)

    def state(self, eta: Floats, weights: Floats | None = None) -> tuple[RiskState, float]:
        """All rows at given linear predictors, and half the deviance; rows of which none dies may weigh less."""
        weights = self.weights if weights is None else weights
        *state, loss = cox_state(self.event, self.closes, self.starts, self.deaths, eta, weights)
        return RiskState(*state), loss - self.least


def saturated_loss(deaths: Floats) -> float:
    """−log-likelihood of the largest partial likelihood that any hazards could reach: Σ c·log(d − position)."""
    tied = deaths[deaths != 1.0]
    positions = [np.arange(np.ceil(d - 1e-9)) for d in tied]
    return float(sum(np.minimum(d - m, 1.0) @ np.log(d - m) for d, m in zip(tied, positions, strict=True)))
