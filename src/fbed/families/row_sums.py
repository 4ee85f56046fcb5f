"""What a generalised linear model asks of its rows: everything found is a sum, minimum or maximum over them.

What a search needs to know of tall data are small things: gradients and information matrices of the model's columns,
products of candidates with residuals and with the model's columns, moments of a few steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbed._kernels import model_rows, step_moments
from fbed.families.base import Indices
from fbed.families.row_blocks import RowBlocks, Sums
from fbed.tails import Floats


@dataclass(frozen=True)
class Rows:
    """The state of the rows given a model: mean, information and residual, weighted, of each."""

    mean: Floats
    weight: Floats
    residual: Floats


@dataclass(frozen=True)
class Sweep:
    """One look at a model at given coefficients: half the deviance up to a constant, and its derivatives."""

    loss: float
    gradient: Floats
    information: Floats
    rows: Rows


@dataclass(frozen=True)
class Looked:
    """Products of design columns with the rows' residuals, with the model's columns and with each other.

    The last is the diagonal only for variables of one column.
    """

    score: Floats
    cross: Floats
    own: Floats


def _joined_moments(one: Floats, other: Floats) -> Floats:
    return np.vstack([one[:3] + other[:3], np.minimum(one[3], other[3]), np.maximum(one[4], other[4])])


class RowSums:
    """The verbs of an outcome y with prior weights and offset, on the columns of a design.

    `counts` says whether the outcome is a Poisson count (log link) or the part of trials that succeeded (logit link).
    """

    def __init__(self, blocks: RowBlocks, y: Floats, weights: Floats, offset: Floats | None, counts: bool) -> None:
        self.blocks, self.design, self.y, self.weights = blocks, blocks.design, y, weights
        self.offset = np.zeros(len(y)) if offset is None else offset
        self.counts = counts

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Loss, Zᵀar and ZᵀawZ of a constant and the columns of S, and the state of the rows."""
        n, size = self.design.n_rows, len(coefficients)
        rows = Rows(np.empty(n), np.empty(n), np.empty(n))
        model = self.blocks.model(selected)

        def work(part: slice) -> Sums:
            kept = rows.mean[part], rows.weight[part], rows.residual[part]
            loss, gradient, information = model_rows(
                self.counts, model(part), coefficients, self.offset[part], self.y[part], self.weights[part], *kept
            )
            return np.array([loss]), gradient, information

        loss, gradient, upper = self.blocks.summed(work, 2 * size)
        return Sweep(float(loss[0]), gradient, np.triu(upper) + np.triu(upper, 1).T, rows)

    def look(self, rows: Rows, selected: Sequence[int], candidates: Indices) -> Looked:
        """Xᵀar, ZᵀawX and Σawx² of candidates that are single columns of numbers."""
        where, model = self.design.positions(candidates), self.blocks.model(selected)
        size = 1 + self.blocks.width(selected)

        def work(part: slice) -> Sums:
            X = self.blocks.gather(where, part)
            Z = model(part)
            weight = rows.weight[part, None]
            along = X.T @ np.column_stack([rows.residual[part], weight * Z])
            return along[:, 0], along[:, 1:].T, np.einsum("ij,ij,i->j", X, X, weight[:, 0])

        return Looked(*self.blocks.summed(work, size + len(where)))

    def look_at_group(self, rows: Rows, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns, by counting where it is a category."""
        codes, model = self.blocks.codes(variable), self.blocks.model(selected)
        size, width = 1 + self.blocks.width(selected), int(self.design.width[variable])

        def work(part: slice) -> Sums:
            Z = model(part)
            weight, residual = rows.weight[part], rows.residual[part]
            if codes is None:
                X = self.blocks.variable(variable, part)
                return X.T @ residual, Z.T @ (weight[:, None] * X), X.T @ (weight[:, None] * X)
            level = codes[part]
            by_level = [np.bincount(level, v, width + 1)[1:].astype(float) for v in (residual, weight, *(weight * Z.T))]
            return by_level[0], np.array(by_level[2:]), np.diag(by_level[1])

        return Looked(*self.blocks.summed(work, size + (width if codes is None else 0)))

    def moments(
        self, rows: Rows, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Moments and extremes (see `step_moments`) of the steps u = x·own − Z·along of some variables, a column each."""
        singles, model = self.design.varying[variables], self.blocks.model(selected)
        where = self.design.positions(variables[singles])
        size = along.shape[0] + len(variables)

        def work(part: slice) -> Floats:
            U = np.empty((part.stop - part.start, len(variables)), order="F")
            U[:, singles] = self.blocks.gather(where, part) * [
                step[0] for step, single in zip(own, singles, strict=True) if single
            ]
            for j in np.flatnonzero(~singles).tolist():
                U[:, j] = self._step(int(variables[j]), own[j], part)
            U -= model(part) @ along
            return step_moments(self.counts, rows.mean[part], rows.weight[part], U)

        return self.blocks.reduced(work, size, _joined_moments)

    def left_over(self, selected: Sequence[int], variable: int) -> float:
        """Part of a column's norm² that S leaves, under the prior weights: as orthogonal factors would have it.

        The coefficients of the column on S are found twice, the second time of what the first left, since subtracting
        products would lose what is small.
        """
        where, model = self.design.positions([variable]), self.blocks.model(selected)
        size = 1 + self.blocks.width(selected)
        gamma = np.zeros(size)
        left = 0.0
        for _ in range(3):

            def work(part: slice, gamma: Floats = gamma) -> Sums:
                Z, weight = model(part), self.weights[part]
                x = self.blocks.gather(where, part)[:, 0] - Z @ gamma
                return Z.T @ (weight[:, None] * Z), Z.T @ (weight * x), np.array([weight @ x**2])

            gram, cross, norm = self.blocks.summed(work, size)
            left = float(norm[0])
            gamma = gamma + np.linalg.solve(gram, cross)
        return left / float(self.weights.sum())

    def _step(self, variable: int, own: Floats, part: slice) -> Floats:
        """x·own of a variable of several columns; a category's are levels as they are, and its reference has 0."""
        codes = self.blocks.codes(variable)
        if codes is None:
            return np.asarray(self.blocks.variable(variable, part) @ own)
        return np.asarray(np.concatenate([[0.0], own])[codes[part]])
