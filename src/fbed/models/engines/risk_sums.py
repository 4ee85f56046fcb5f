"""What a proportional hazards model asks of its rows, which are in order of time: sums over them that are carried on.

Within a stratum rows go from the latest to the earliest, so that those at risk are the rows so far. With h the hazards,
S and D their sums of a column over those at risk and dying at a tied set, and w the expected events of each row,

    gradient Zᵀ(event − w),      information ZᵀwZ − Σ MᵀM,      M = lᵀ[S; D] of every set,

l a small triangle that depends on the hazards alone (`cox_state`). So what a scan needs are matrix products of columns
and of their M, and M is a sum that runs down the columns (`ProductsAtRisk`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import MomentsAtRisk, ProductsAtRisk, cox_state
from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks, Sums, remainder
from fbed.models.base import Indices
from fbed.models.engines.row_sums import Looked, Sweep
from fbed.rules.tails import Floats

Columns = Callable[[slice], Floats]
"""What reads columns, of some rows."""


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


class RiskSums:
    """The verbs of survival times on a design whose rows are in order (`order_of_risk`)."""

    constant = False
    stretch = 2.0  # z is the difference of a step from its mean among those at risk

    def __init__(
        self, blocks: RowBlocks, time: Floats, event: NDArray[np.bool_], strata: NDArray[np.intp] | None
    ) -> None:
        self.blocks, self.design = blocks, blocks.design
        self.weights = blocks.design.weights
        self.event = event.astype(np.float64)
        stratum = np.zeros(len(time), dtype=np.intp) if strata is None else strata
        self.starts = np.concatenate([[True], np.diff(stratum) != 0])
        ends = np.concatenate([(np.diff(time) != 0) | self.starts[1:], [True]])  # last row of each time
        number = np.cumsum(np.concatenate([[0], ends[:-1]])).astype(np.intp)  # of the time, by row
        deaths = np.bincount(number, self.event * self.weights, int(number[-1]) + 1)
        self.closes = np.zeros(len(time), dtype=np.int64)
        closing = np.flatnonzero(ends)[deaths > 0]
        self.closes[closing] = np.arange(1, len(closing) + 1)
        self.deaths: Floats = deaths[deaths > 0].astype(np.float64)
        self.tied = bool((self.deaths > 1.0).any())
        self.n = self.events = float(self.deaths.sum())
        self.least = saturated_loss(self.deaths)

    def start(self) -> Floats:
        """No constant: the baseline hazard is left open."""
        return np.zeros(0)

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Half the deviance, gradient and information of the columns of S, and the state of the rows."""
        model, eta = self.blocks.model(selected, constant=False), np.zeros(self.design.n_rows)
        size = len(coefficients)
        for part in self._parts(2 * size) if size else ():
            eta[part] = model(part) @ coefficients
        *state, loss = cox_state(self.event, self.closes, self.starts, self.deaths, eta, self.weights)
        rows = RiskState(*state)
        gradient, information, _ = self._products(rows, size, model) if size else (np.zeros(0), np.zeros((0, 0)), None)
        return Sweep(loss - self.least, gradient, information, rows)

    def look(self, rows: RiskState, selected: Sequence[int], candidates: Indices) -> Looked:
        """Xᵀr, the information of X with Z and of X with itself, for candidates that are single columns of numbers."""
        where, size = self.design.positions(candidates), self.blocks.width(selected)
        model = self.blocks.model(selected, constant=False)
        candidate = partial(self.blocks.gather, where)
        return Looked(*self._products(rows, size, model, len(candidates), candidate))

    def change(self, before: RiskState, rows: RiskState) -> tuple[float, float]:
        """Bounds on how the probabilities of those at risk have changed."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            hazards = rows.hazard / before.hazard
            even = float(hazards.min() / hazards.max())
        return even, 1.0 / even if even > 0.0 else np.inf

    def scores(
        self, before: RiskState, rows: RiskState, selected: Sequence[int], candidates: Indices
    ) -> tuple[Floats, Floats]:
        """Xᵀr with the residuals of now, and the information of X with Z for the hazards of before."""
        looked = self.look(replace(before, residual=rows.residual), selected, candidates)
        return looked.score, looked.cross

    def look_at_group(self, rows: RiskState, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns; a category's are levels as they are."""
        model, size = self.blocks.model(selected, constant=False), self.blocks.width(selected)
        width, codes = int(self.design.width[variable]), self.blocks.codes(variable)

        def both(part: slice) -> Floats:
            X = self.blocks.variable(variable, part) if codes is None else codes[part, None] == np.arange(1, width + 1)
            return np.asfortranarray(np.hstack([model(part), X]))

        score, cross, _ = self._products(rows, size + width, both)
        return Looked(score[size:], cross[:size, size:], cross[size:, size:])

    def _products(
        self, rows: RiskState, size: int, model: Columns, others: int = 0, candidates: Columns | None = None
    ) -> Sums:
        """Scores of columns, the information of a model's columns with them, and of each with itself.

        They are those of the model itself where no others are given.
        """
        sums = ProductsAtRisk(size, others)
        for part in self._parts(size + others):
            Z = model(part)
            X = np.empty((len(Z), 0), order="F") if candidates is None else candidates(part)
            state = rows.hazard[part], rows.expected[part], rows.residual[part], rows.triangle
            sums.add(self.event[part], self.closes[part], self.starts[part], *state, Z, X)
        return sums.found()

    def moments(
        self, rows: RiskState, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Moments of the steps u = x·own − Z·along among those at risk, summed over the events, and extremes."""
        steps = self.blocks.steps(selected, variables, own, along, constant=False)
        sums = MomentsAtRisk(len(variables))
        for part in self._parts(along.shape[0] + len(variables)):
            about = self.event[part], self.closes[part], self.starts[part], rows.hazard[part]
            sums.add(*about, self.deaths, steps(part))
        return sums.found()

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        return remainder(self.blocks, selected, variable, gamma)

    def _parts(self, columns: int) -> Iterator[slice]:
        """Blocks of rows in order; what is carried on from one to the next keeps threads from sharing them."""
        for part in self.blocks.parts(columns):
            check_time()
            yield part


def in_order(design: Design, order: NDArray[np.intp]) -> Design:
    """The design with its rows in another order, columns in one piece; itself where that is the order they have."""
    if (order == np.arange(len(order))).all():
        return design
    return Design(design.table.rows(order, turned=True), design.weights[order])


def saturated_loss(deaths: Floats) -> float:
    """−log-likelihood of the largest partial likelihood that any hazards could reach: Σ c·log(d − position)."""
    tied = deaths[deaths != 1.0]
    positions = [np.arange(np.ceil(d - 1e-9)) for d in tied]
    return float(sum(np.minimum(d - m, 1.0) @ np.log(d - m) for d, m in zip(tied, positions, strict=True)))
