"""Passes over the rows of a generalised linear model, block after block: everything found is a sum, minimum or maximum.

What a search needs to know of tall data are small things: gradients and information matrices of the model's columns,
products of candidates with residuals and with the model's columns, moments of a few steps. Blocks of rows are read,
used while they are in the cache, and forgotten; no copy of a column is kept. How the rows are cut does not depend on
the number of threads, and sums are added in the order of the rows, so that neither changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import model_rows, step_moments
from fbed.design import Design
from fbed.families.base import Indices
from fbed.tails import Floats
from fbed.threads import spread

_BLOCK_VALUES = 2**17  # float64 values of a block: a megabyte stays in the cache of a core
_LEAST_ROWS, _MOST_ROWS = 256, 8192
_CHUNKS = 32  # parts of the rows that threads share

Sums = tuple[Floats, Floats, Floats]
Answer = TypeVar("Answer")


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

    def __init__(
        self, design: Design, y: Floats, weights: Floats, offset: Floats | None, counts: bool, n_threads: int = 1
    ) -> None:
        self.design, self.y, self.weights = design, y, weights
        self.offset = np.zeros(len(y)) if offset is None else offset
        self.counts, self.n_threads = counts, n_threads
        self._moments: dict[int, tuple[Floats, Floats]] = {}

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Loss, Zᵀar and ZᵀawZ of a constant and the columns of S, and the state of the rows."""
        n, size = self.design.n_rows, len(coefficients)
        rows = Rows(np.empty(n), np.empty(n), np.empty(n))
        model = self._model(selected)

        def work(part: slice) -> Sums:
            kept = rows.mean[part], rows.weight[part], rows.residual[part]
            loss, gradient, information = model_rows(
                self.counts, model(part), coefficients, self.offset[part], self.y[part], self.weights[part], *kept
            )
            return np.array([loss]), gradient, information

        loss, gradient, upper = self._summed(work, 2 * size)
        return Sweep(float(loss[0]), gradient, np.triu(upper) + np.triu(upper, 1).T, rows)

    def look(self, rows: Rows, selected: Sequence[int], candidates: Indices) -> Looked:
        """Xᵀar, ZᵀawX and Σawx² of candidates that are single columns of numbers."""
        where, model = self.design.positions(candidates), self._model(selected)
        size = 1 + self._width(selected)

        def work(part: slice) -> Sums:
            X = self._gather(where, part)
            Z = model(part)
            weight = rows.weight[part, None]
            along = X.T @ np.column_stack([rows.residual[part], weight * Z])
            return along[:, 0], along[:, 1:].T, np.einsum("ij,ij,i->j", X, X, weight[:, 0])

        return Looked(*self._summed(work, size + len(where)))

    def look_at_group(self, rows: Rows, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns, by counting where it is a category."""
        codes, model = self.codes(variable), self._model(selected)
        size, width = 1 + self._width(selected), int(self.design.width[variable])

        def work(part: slice) -> Sums:
            Z = model(part)
            weight, residual = rows.weight[part], rows.residual[part]
            if codes is None:
                X = self._variable(variable, part)
                return X.T @ residual, Z.T @ (weight[:, None] * X), X.T @ (weight[:, None] * X)
            level = codes[part]
            cross = [np.bincount(level, weight * z, width + 1)[1:] for z in Z.T]
            own = np.diag(np.bincount(level, weight, width + 1)[1:])
            return np.bincount(level, residual, width + 1)[1:], np.array(cross), own

        return Looked(*self._summed(work, size + (width if codes is None else 0)))

    def codes(self, variable: int) -> Indices | None:
        """Levels of a variable that is one category, the first of them its reference; None for anything else."""
        columns = self.design.table.columns(variable)
        factor = self.design.table.factors.get(columns[0]) if len(columns) == 1 else None
        return None if factor is None else factor.codes

    def moments(
        self, rows: Rows, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Moments and extremes (see `step_moments`) of the steps u = x·own − Z·along of some variables, a column each."""
        singles, model = self.design.varying[variables], self._model(selected)
        where = self.design.positions(variables[singles])
        size = along.shape[0] + len(variables)

        def work(part: slice) -> Floats:
            U = np.empty((part.stop - part.start, len(variables)), order="F")
            U[:, singles] = self._gather(where, part) * [own[j][0] for j in np.flatnonzero(singles)]
            for j in np.flatnonzero(~singles):
                U[:, j] = self._step(int(variables[j]), own[j], part)
            U -= model(part) @ along
            return step_moments(self.counts, rows.mean[part], rows.weight[part], U)

        return self._reduced(work, size, _joined_moments)

    def left_over(self, selected: Sequence[int], variable: int) -> float:
        """Part of a column's norm² that S leaves, under the prior weights: as orthogonal factors would have it.

        The coefficients of the column on S are found twice, the second time of what the first left, since subtracting
        products would lose what is small.
        """
        where, model = self.design.positions([variable]), self._model(selected)
        size = 1 + self._width(selected)
        gamma = np.zeros(size)
        left = 0.0
        for _ in range(3):

            def work(part: slice, gamma: Floats = gamma) -> Sums:
                Z, weight = model(part), self.weights[part]
                x = self._gather(where, part)[:, 0] - Z @ gamma
                return Z.T @ (weight[:, None] * Z), Z.T @ (weight * x), np.array([weight @ x**2])

            gram, cross, norm = self._summed(work, size)
            left = float(norm[0])
            gamma = gamma + np.linalg.solve(gram, cross)
        return left / float(self.weights.sum())

    def reach(self, variables: Sequence[int]) -> Floats:
        """The largest size of every design column of some variables, as the model sees them."""
        design, out = self.design, []
        for variable in variables:
            if design.varying[variable]:
                j = design.table.position[variable]
                low, high = design.low[j], design.high[j]
            else:
                low, high = np.zeros(1), np.ones(1)  # levels; columns of numbers in groups are asked for one by one
                numbers = [j for c in design.table.columns(variable) for j in self._places(c)]
                if numbers:
                    low = np.concatenate([np.zeros(design.width[variable] - len(numbers)), design.low[numbers]])
                    high = np.concatenate([np.ones(design.width[variable] - len(numbers)), design.high[numbers]])
            center, scale = self._center_scale(variable)
            out.append(np.maximum(np.abs(low - center), np.abs(high - center)) / scale)
        return np.concatenate([np.zeros(0), *out])

    def _places(self, column: int) -> list[int]:
        design = self.design
        return [] if column in design.table.factors else [j for j in design.table.places(column) if design.scale[j] > 0]

    def _width(self, variables: Sequence[int]) -> int:
        return int(self.design.width[list(variables)].sum()) if len(variables) else 0

    def _model(self, selected: Sequence[int]) -> Callable[[slice], Floats]:
        """What reads a constant and the columns of S, of some rows."""
        design = self.design
        if all(design.varying[v] for v in selected):
            where = design.positions(selected)
            return lambda part: self._gather(where, part, constant=True)
        return lambda part: np.asfortranarray(
            np.hstack([np.ones((part.stop - part.start, 1)), *(self._variable(v, part) for v in selected)])
        )

    def _variable(self, variable: int, part: slice) -> Floats:
        """All design columns of one variable, of some rows."""
        design = self.design
        if design.varying[variable]:
            return self._gather(design.positions([variable]), part)
        center, scale = self._center_scale(variable)
        out, first = [], 0
        for column in design.table.columns(variable):
            factor = design.table.factors.get(column)
            if factor is None:
                out.append(self._gather(np.array(self._places(column), dtype=np.int64), part))
            else:
                levels = np.arange(1, max(1, len(factor.levels)))
                own = slice(first, first + len(levels))
                out.append(((factor.codes[part, None] == levels) - center[own]) / scale[own])
            first += out[-1].shape[1]
        return np.hstack(out)

    def _step(self, variable: int, own: Floats, part: slice) -> Floats:
        """x·own of a variable of several columns; a category's are levels as they are, and its reference has 0."""
        codes = self.codes(variable)
        if codes is None:
            return np.asarray(self._variable(variable, part) @ own)
        return np.asarray(np.concatenate([[0.0], own])[codes[part]])

    def _center_scale(self, variable: int) -> tuple[Floats, Floats]:
        if variable not in self._moments:
            self._moments[variable] = self.design.moments(variable)
        return self._moments[variable]

    def _gather(self, where: NDArray[np.int64], part: slice, constant: bool = False) -> Floats:
        design = self.design
        return design.matrix.gather_rows(where, design.center, design.scale, part.start, part.stop, constant)

    def _summed(self, work: Callable[[slice], Sums], columns: int) -> Sums:
        """Sums of what is found in all blocks of rows."""
        return self._reduced(work, columns, lambda one, other: tuple(a + b for a, b in zip(one, other, strict=True)))

    def _reduced(self, work: Callable[[slice], Answer], columns: int, join: Callable[[Answer, Answer], Answer]) -> Answer:
        """Answers for blocks of rows that hold so many columns each, joined in the order of the rows."""
        n = self.design.n_rows
        size = int(np.clip(_BLOCK_VALUES // max(1, columns), _LEAST_ROWS, _MOST_ROWS))
        blocks = [slice(i, min(i + size, n)) for i in range(0, n, size)]
        share = -(-len(blocks) // _CHUNKS)
        chunks = [blocks[i : i + share] for i in range(0, len(blocks), share)]
        return reduce(join, spread(lambda some: reduce(join, map(work, some)), chunks, self.n_threads))
