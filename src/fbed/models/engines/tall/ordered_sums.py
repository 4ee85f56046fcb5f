"""What ordered classes ask of their rows: sums over blocks of rows for proportional odds, and for the probit.

Coefficients are the thresholds, then those of the columns; there is no constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbed._kernels import ordered_look, ordered_move, ordered_vectors
from fbed.matrix.candidate_steps import remainder
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.movement import Moved
from fbed.models.engines.tall.row_products import (
    Vectors,
    add_steps,
    moved_by,
    products_of_group,
    products_of_singles,
    values_of,
)
from fbed.models.likelihoods.ordinal import Ordinal
from fbed.models.presentation import Estimates, standardised_to_users_scale
from fbed.rules.p_values import Floats

_STATE = 6  # numbers that are kept of a row: see ordered_sums.hpp
_SLOPE = 2  # which of them is the slope in the linear predictor
_ONE_SIDED = 0.4  # by which the rate of a cell of one edge may exceed that edge
_NEAR = 0.1
_FALLS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1)  # parts of a step back that are tried for what it costs


@dataclass(frozen=True)
class OrderedRows:
    """The state of every row, the thresholds, and the size of the furthest edge of any row."""

    table: Floats
    thresholds: Floats
    furthest: float

    def narrowest(self, less: Floats) -> Floats:
        """The narrowest gap between thresholds, each of which may have moved."""
        gaps = np.diff(self.thresholds)
        return gaps.min(initial=np.inf) - 2.0 * less


class OrderedSums:
    """The verbs of an ordered outcome on the columns of a design."""

    constant = False
    stretch = 1.0
    n_predictors = 1

    def __init__(self, blocks: RowBlocks, likelihood: Ordinal) -> None:
        self.blocks, self.design, self.likelihood = blocks, blocks.design, likelihood
        self.codes = likelihood.codes.astype(np.int64, copy=False)
        self.weights, self.n = likelihood.weights, likelihood.n
        self.lead = len(likelihood.labels) - 1
        self.is_normal = not likelihood.raced

    @property
    def events(self) -> float:
        """Rows of a class, on average."""
        return self.likelihood.events

    def start(self) -> Floats:
        """Thresholds of the observed frequencies."""
        found = self.likelihood.start(1)
        return np.concatenate([[0.0], found[1:]]) - found[0]

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Loss, gradient and information, and the state of the rows."""
        c, model = self.lead, self.blocks.model(selected, constant=False)
        thresholds, slopes = coefficients[:c].copy(), coefficients[c:]
        table, furthest = np.empty((self.design.n_rows, _STATE), order="F"), []

        def work(part: slice) -> Sums:
            Z, codes, weights = model(part), self.codes[part], self.weights[part]
            loss, *totals, far = ordered_look(Z @ slopes, thresholds, codes, weights, self.is_normal, table[part])
            furthest.append(far)
            return np.array([loss]), *totals, Z.T @ ordered_vectors(table[part], codes, weights, Z, c)

        loss, slope, own, beside, found = self.blocks.summed(work, 2 * (c + len(slopes)))
        information = np.diag(np.concatenate([own, np.zeros(len(slopes))]))
        information[np.arange(c - 1), np.arange(1, c)] = information[np.arange(1, c), np.arange(c - 1)] = beside
        information[c:, :c], information[:c, c:] = found[:, 2 : 2 + c], found[:, 2 : 2 + c].T
        information[c:, c:] = (found[:, 2 + c :] + found[:, 2 + c :].T) / 2.0
        rows = OrderedRows(table, thresholds, max(furthest))
        return Sweep(float(loss[0]), np.concatenate([slope, found[:, 0]]), information, rows)

    def look(self, rows: OrderedRows, selected: Sequence[int], candidates: Indices) -> Looked:
        """Score, products with thresholds and the model's columns, and information of each."""
        along, own = products_of_singles(
            self.blocks, candidates, self._vectors(rows, selected), slice(1, 2), self._width(selected)
        )
        return Looked(along[:, :1], along[:, 2:].T, own[:, :, None])

    def look_at_group(self, rows: OrderedRows, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns."""
        along, own = products_of_group(
            self.blocks, variable, self._vectors(rows, selected), slice(1, 2), self._width(selected)
        )
        return Looked(along[None, :, 0], along[:, 2:].T, own)

    def ends(
        self, rows: OrderedRows, selected: Sequence[int], variables: Indices, steps: Sequence[Floats]
    ) -> tuple[Floats, list[Floats]]:
        """What steps of models with one variable more each gain, and the gradients where they end."""
        c, k = self.lead, self.blocks.width(selected)
        model, read = self.blocks.model(selected, constant=False), values_of(self.blocks, variables)
        along = np.column_stack([step[c : c + k] for step in steps])
        moved = np.column_stack([step[:c] for step in steps])
        thresholds = np.asfortranarray(rows.thresholds[:, None] + moved)
        own = [step[c + k :] for step in steps]

        def work(part: slice) -> Sums:
            Z, X = model(part), list(read(part))
            U = moved_by(Z, along)
            for t, (x, step) in enumerate(zip(X, own, strict=True)):
                add_steps(x, step[:, None], U[:, t : t + 1])
            codes, weights = self.codes[part], self.weights[part]
            gain, slope = ordered_move(rows.table[part], codes, weights, self.is_normal, rows.thresholds, thresholds, U)
            return gain, slope, Z.T @ U, *(x.T @ U[:, t] for t, x in enumerate(X))

        gain, slope, of_model, *of_own = self.blocks.summed(work, k + 2 * len(steps) + _STATE)
        return gain, [np.concatenate([slope[:, t], of_model[:, t], x]) for t, x in enumerate(of_own)]

    def moved(self, step: Floats, reach: Floats) -> Moved:
        """How far steps (a column each) of the thresholds and of columns of some size can move a row at most."""
        thresholds = np.abs(step[: self.lead]).max(axis=0)
        slopes = np.abs(step[self.lead :])
        sizes = np.broadcast_to(reach if reach.ndim == 2 else reach[:, None], slopes.shape)
        return Moved(thresholds + np.einsum("kb,kb->b", slopes, sizes), thresholds)

    def farthest(self, moves: Floats) -> Moved:
        """The same of rows that are known: rows × 1."""
        return Moved(np.abs(moves).max(axis=0), np.zeros(moves.shape[1]))

    def unit_moves(self, covariance: Floats, reach: Floats) -> Moved:
        """The same of any step of length 1, given the inverse information."""
        return self.moved(np.sqrt(np.maximum(np.diag(covariance), 0.0))[:, None], reach)

    def bend(self, rows: OrderedRows, moved: Moved, within: Moved) -> Floats:
        """At what rate curvature changes, relatively, while nobody moves further than `within`.

        Normal cells: where both edges move alike, at that of the furthest edge; where they move against each other, at
        twice that and 4 over the gap (`tests/test_tall_classes.py` looks at all of them).
        """
        gap = rows.narrowest(within.thresholds)
        open_ = gap > 0.0
        gap = np.where(open_, gap, 1.0)
        if self.is_normal:
            far = rows.furthest + within.rows
            bend = (far + _ONE_SIDED) * moved.rows + (2.0 * far + 4.0 / gap) * moved.thresholds
        else:
            bend = np.maximum(moved.rows, 2.0 * moved.thresholds / np.tanh(gap / 2.0))
        return np.where(open_, bend, np.inf)

    def above(self, bend: Floats) -> Floats:
        """Factor on what a step promises, from a dual point: 2[−log(1 − z) − z]/z², which also holds for gaps."""
        out = np.full(bend.shape, np.inf)
        if not self.is_normal:
            inside = bend < 1.0
            out[inside] = _gap_factor(bend[inside])
        return out

    def lost_by(self, bend: Floats, drift: Floats, wald: Floats) -> Floats:
        """What it costs at least to take a step back to the nearest model without a variable."""
        tried = [t * wald * (2.0 - t * self.above(t * bend + drift)) for t in _FALLS]
        return np.maximum(np.max(tried, axis=0), 0.0)

    def row_scores(self, rows: OrderedRows) -> tuple[Floats, Floats | None]:
        """Derivatives in the predictor; their variance depends on it little."""
        return rows.table[:, _SLOPE : _SLOPE + 1].copy(), None

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of a constant and the model's columns, and of what a column is beside its part along them."""
        return remainder(self.blocks, selected, variable, gamma)

    def estimates(self, selected: Sequence[int], coefficients: Floats, covariance: Floats) -> Estimates:
        """Coefficients as people read them, then thresholds."""
        c, k = self.lead, len(coefficients) - self.lead
        change = np.zeros((k + c, k + c))  # to a constant, slopes, and the thresholds but the first beside that
        change[0, 0] = -1.0
        change[1 : 1 + k, c:] = np.eye(k)
        change[1 + k :, 1:c], change[1 + k :, 0] = np.eye(c - 1), -1.0
        columns = [standardised_to_users_scale(self.design, selected, column, None) for column in np.eye(1 + k)]
        users = np.eye(k + c)
        users[: 1 + k, : 1 + k] = np.column_stack([told.values for told in columns])
        whole = users @ change
        terms = (*columns[0].terms, *(f"parameter {j + 1}" for j in range(c - 1)))
        return self.likelihood.present(Estimates(terms, whole @ coefficients, whole @ covariance @ whole.T))

    def _width(self, selected: Sequence[int]) -> int:
        return 2 + self.lead + self.blocks.width(selected)

    def _vectors(self, rows: OrderedRows, selected: Sequence[int]) -> Vectors:
        model, count = self.blocks.model(selected, constant=False), self.lead
        return lambda part: ordered_vectors(rows.table[part], self.codes[part], self.weights[part], model(part), count)


def _gap_factor(z: Floats) -> Floats:
    """2[−log(1 − z) − z]/z², from 1 at 0; by its series where that cancels."""
    near = z < _NEAR
    powers = np.arange(20)
    series = (2.0 / (powers + 2.0)) @ np.power.outer(np.where(near, z, 0.0), powers).T
    far = np.where(near, 0.5, z)
    return np.where(near, series, 2.0 * (-np.log1p(-far) - far) / far**2)
