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

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import cox_means, cox_state, cox_step_moments
from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks, Sums, remainder
from fbed.models.base import Indices
from fbed.models.engines.row_sums import Looked, Sweep
from fbed.rules.tails import Floats

_COLUMNS_TOGETHER = 8  # steps whose values on all rows are held at once


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
        gradient, information = np.zeros(size), np.zeros((size, size))
        carried = self._nothing(size)
        for part in self._parts(2 * size) if size else ():
            Z = model(part)
            M = self._means(rows, Z, part, carried)
            gradient += Z.T @ rows.residual[part]
            root = Z * np.sqrt(np.maximum(rows.expected[part, None], 0.0))
            information += root.T @ root - M.T @ M  # half of each is computed, since they are symmetric
        return Sweep(loss - self.least, gradient, information, rows)

    def look(self, rows: RiskState, selected: Sequence[int], candidates: Indices) -> Looked:
        """Xᵀr, the information of X with Z and of X with itself, for candidates that are single columns of numbers."""
        where, model = self.design.positions(candidates), self.blocks.model(selected, constant=False)
        size, count = self.blocks.width(selected), len(candidates)
        score, cross, own = np.zeros(count), np.zeros((size, count)), np.zeros(count)
        carried, along = self._nothing(count), self._nothing(size)
        for part in self._parts(size + count):
            X, Z = self.blocks.gather(where, part), model(part)
            weight = rows.expected[part]
            MX, MZ = self._means(rows, X, part, carried), self._means(rows, Z, part, along)
            score += X.T @ rows.residual[part]
            cross += (Z * weight[:, None]).T @ X - MZ.T @ MX
            own += np.einsum("ij,ij,i->j", X, X, weight) - np.einsum("ij,ij->j", MX, MX)
        return Looked(score, cross, own)

    def look_at_group(self, rows: RiskState, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns."""
        model, size = self.blocks.model(selected, constant=False), self.blocks.width(selected)
        width = int(self.design.width[variable])
        codes = self.blocks.codes(variable)
        score, cross, own = np.zeros(width), np.zeros((size, width)), np.zeros((width, width))
        carried, along = self._nothing(width), self._nothing(size)
        for part in self._parts(size + width):
            Z, weight = model(part), rows.expected[part, None]
            if codes is None:
                X = np.asfortranarray(self.blocks.variable(variable, part))
            else:  # levels as they are
                X = np.asfortranarray(codes[part, None] == np.arange(1, width + 1), dtype=np.float64)
            MX, MZ = self._means(rows, X, part, carried), self._means(rows, Z, part, along)
            score += X.T @ rows.residual[part]
            cross += (Z * weight).T @ X - MZ.T @ MX
            own += (X * weight).T @ X - MX.T @ MX
        return Looked(score, cross, own)

    def moments(
        self, rows: RiskState, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Moments of the steps u = x·own − Z·along among those at risk, summed over the events, and extremes."""
        found = []
        for first in range(0, len(variables), _COLUMNS_TOGETHER):
            some = slice(first, first + _COLUMNS_TOGETHER)
            steps = self.blocks.steps(selected, variables[some], own[some], along[:, some], constant=False)
            U = np.empty((self.design.n_rows, len(variables[some])), order="F")
            for part in self._parts(along.shape[0] + U.shape[1]):
                U[part] = steps(part)
            found.append(cox_step_moments(self.event, self.closes, self.starts, rows.hazard, self.deaths, U))
        return np.concatenate(found, axis=1)

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        return remainder(self.blocks, selected, variable, gamma)

    def _parts(self, columns: int) -> Iterator[slice]:
        """Blocks of rows in order; what is carried on from one to the next keeps threads from sharing them."""
        for part in self.blocks.parts(columns):
            check_time()
            yield part

    def _nothing(self, count: int) -> tuple[Floats, Floats]:
        return np.zeros(count), np.zeros(count)

    def _means(self, rows: RiskState, X: Floats, part: slice, carried: tuple[Floats, Floats]) -> Floats:
        """M of the tied sets that close in some rows; what is carried on changes."""
        about = self.event[part], self.closes[part], self.starts[part], rows.hazard[part]
        return cox_means(*about, rows.triangle, self.tied, X, *carried)


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
