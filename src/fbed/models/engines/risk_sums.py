"""What a proportional hazards model asks of its rows, which are in order of time: sums over them that are carried on.

Within a stratum rows go from the latest to the earliest, so that those at risk are the rows so far. With h the hazards,
S and D their sums of a column over those at risk and dying at a tied set, and w the expected events of each row,

    gradient Zᵀ(event − w),      information ZᵀwZ − Σ MᵀM,      M = lᵀ[S; D] of every set,

l a small triangle that depends on the hazards alone (`cox_state`). So what a scan needs are matrix products of columns
and of their M, and M is one pass over a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import cox_means, cox_state, cox_step_moments
from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks, Sums, remainder
from fbed.models.base import Indices
from fbed.models.engines.row_sums import Looked, Sweep, joined_moments
from fbed.rules.tails import Floats

CARRIED_MOMENTS = 12
"""Numbers a step that moments carry on from block to block."""

Both = tuple[Floats, Floats]
"""Sums of columns over those at risk and over those dying, which are carried on from block to block."""


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
    def tied(self) -> bool:
        """Whether several die at a time."""
        return bool((self.deaths > 1.0).any())

    @property
    def n_events(self) -> float:
        """Of all tied sets together."""
        return float(self.deaths.sum())

    @cached_property
    def least(self) -> float:
        """−log-likelihood of the largest partial likelihood that any hazards could reach."""
        return saturated_loss(self.deaths)

    def state(self, eta: Floats) -> tuple[RiskState, float]:
        """All rows at given linear predictors, and half the deviance."""
        *state, loss = cox_state(self.event, self.closes, self.starts, self.deaths, eta, self.weights)
        return RiskState(*state), loss - self.least


@dataclass
class Carried:
    """What looks at columns carry on from block to block, of those of the model and of the candidates."""

    model: Both
    candidates: Both

    @classmethod
    def nothing(cls, size: int, count: int) -> Carried:
        """Before the first row."""
        return cls((np.zeros(size), np.zeros(size)), (np.zeros(count), np.zeros(count)))

    def of(self, some: slice) -> Carried:
        """With some of the candidates, whose sums are written where they are; the model's are a copy."""
        at_risk, dying = self.candidates
        return Carried((self.model[0].copy(), self.model[1].copy()), (at_risk[some], dying[some]))


class RiskSums:
    """The verbs of survival times on a design whose rows are in order, or on some rows in the midst of others.

    For the latter, what the rows before have left is given as `carried`, and changed to what these rows leave.
    """

    constant = False
    stretch = 2.0  # z is the difference of a step from its mean among those at risk

    def __init__(self, blocks: RowBlocks, course: Course) -> None:
        self.blocks, self.design, self.course = blocks, blocks.design, course
        self.tied = course.tied
        self.n = self.events = course.n_events

    def start(self) -> Floats:
        """No constant: the baseline hazard is left open."""
        return np.zeros(0)

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Half the deviance, gradient and information of the columns of S, and the state of the rows."""
        rows, loss = self.course.state(self.predictors(selected, coefficients))
        return Sweep(loss, *self.derivatives(rows, selected), rows)

    def predictors(self, selected: Sequence[int], coefficients: Floats) -> Floats:
        """Zβ of every row."""
        model, eta = self.blocks.model(selected, constant=False), np.zeros(self.design.n_rows)
        for part in self._parts(2 * len(coefficients)) if len(coefficients) else ():
            eta[part] = model(part) @ coefficients
        return eta

    def derivatives(self, rows: RiskState, selected: Sequence[int], carried: Carried | None = None) -> Both:
        """Gradient and information of the columns of S."""
        model, size = self.blocks.model(selected, constant=False), self.blocks.width(selected)
        gradient, information = np.zeros(size), np.zeros((size, size))
        along = (carried or Carried.nothing(size, 0)).model
        for part in self._parts(2 * size) if size else ():
            Z = model(part)
            M = self._means(rows, Z, part, along)
            gradient += Z.T @ rows.residual[part]
            root = Z * np.sqrt(np.maximum(rows.expected[part, None], 0.0))
            information += root.T @ root - M.T @ M  # half of each is computed, since they are symmetric
        return gradient, information

    def look(
        self, rows: RiskState, selected: Sequence[int], candidates: Indices, carried: Carried | None = None
    ) -> Looked:
        """Xᵀr, the information of X with Z and of X with itself, for candidates that are single columns of numbers."""
        where, model = self.design.positions(candidates), self.blocks.model(selected, constant=False)
        size, count = self.blocks.width(selected), len(candidates)
        score, cross, own = np.zeros(count), np.zeros((size, count)), np.zeros(count)
        carried = carried or Carried.nothing(size, count)
        for part in self._parts(size + count):
            X, Z = self.blocks.gather(where, part), model(part)
            weight = rows.expected[part]
            MX, MZ = self._means(rows, X, part, carried.candidates), self._means(rows, Z, part, carried.model)
            score += X.T @ rows.residual[part]
            cross += (Z * weight[:, None]).T @ X - MZ.T @ MX
            own += np.einsum("ij,ij,i->j", X, X, weight) - np.einsum("ij,ij->j", MX, MX)
        return Looked(score, cross, own)

    def look_at_group(
        self, rows: RiskState, selected: Sequence[int], variable: int, carried: Carried | None = None
    ) -> Looked:
        """The same for a variable of several columns."""
        model, size = self.blocks.model(selected, constant=False), self.blocks.width(selected)
        width = int(self.design.width[variable])
        codes = self.blocks.codes(variable)
        score, cross, own = np.zeros(width), np.zeros((size, width)), np.zeros((width, width))
        carried = carried or Carried.nothing(size, width)
        for part in self._parts(size + width):
            Z, weight = model(part), rows.expected[part, None]
            if codes is None:
                X = np.asfortranarray(self.blocks.variable(variable, part))
            else:  # levels as they are
                X = np.asfortranarray(codes[part, None] == np.arange(1, width + 1), dtype=np.float64)
            MX, MZ = self._means(rows, X, part, carried.candidates), self._means(rows, Z, part, carried.model)
            score += X.T @ rows.residual[part]
            cross += (Z * weight).T @ X - MZ.T @ MX
            own += (X * weight).T @ X - MX.T @ MX
        return Looked(score, cross, own)

    def moments(
        self,
        rows: RiskState,
        selected: Sequence[int],
        variables: Indices,
        own: Sequence[Floats],
        along: Floats,
        carried: Floats | None = None,
    ) -> Floats:
        """Moments of the steps u = x·own − Z·along among those at risk, summed over the events, and extremes."""
        steps = self.blocks.steps(selected, variables, own, along, constant=False)
        carried = np.zeros(CARRIED_MOMENTS * len(variables)) if carried is None else carried
        found = np.zeros((5, len(variables)))
        for part in self._parts(along.shape[0] + len(variables)):
            about = *self._course_of(part), rows.hazard[part], self.course.deaths
            found = joined_moments(found, cox_step_moments(*about, steps(part), carried))
        return found

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        return remainder(self.blocks, selected, variable, gamma)

    def _parts(self, columns: int) -> Iterator[slice]:
        """Blocks of rows in order; what is carried on from one to the next keeps threads from sharing them."""
        for part in self.blocks.parts(columns):
            check_time()
            yield part

    def _course_of(self, part: slice) -> tuple[Floats, NDArray[np.int64], NDArray[np.bool_]]:
        return self.course.event[part], self.course.closes[part], self.course.starts[part]

    def _means(self, rows: RiskState, X: Floats, part: slice, carried: Both) -> Floats:
        """M of the tied sets that close in some rows; what is carried on changes."""
        return cox_means(*self._course_of(part), rows.hazard[part], rows.triangle, self.tied, X, *carried)


def in_order(design: Design, order: NDArray[np.intp]) -> Design:
    """The design with its rows in another order; itself where that is the order they have."""
    if (order == np.arange(len(order))).all():
        return design
    return Design(design.table.rows(order), design.weights[order])


def saturated_loss(deaths: Floats) -> float:
    """−log-likelihood of the largest partial likelihood that any hazards could reach: Σ c·log(d − position)."""
    tied = deaths[deaths != 1.0]
    positions = [np.arange(np.ceil(d - 1e-9)) for d in tied]
    return float(sum(np.minimum(d - m, 1.0) @ np.log(d - m) for d, m in zip(tied, positions, strict=True)))
