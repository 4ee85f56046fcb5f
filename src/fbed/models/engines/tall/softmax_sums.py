"""What classes without order ask of their rows: sums of a softmax of C − 1 predictors over blocks of rows.

Coefficients are ordered by column, the constant first, then by class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import softmax_look, softmax_move, softmax_sums, softmax_vectors
from fbed.matrix.candidate_steps import remainder
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.bound_functions import P
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
from fbed.models.likelihoods.multinomial import Multinomial, class_scores
from fbed.models.likelihoods.newton import unpacked
from fbed.models.presentation import Estimates, standardised_to_users_scale
from fbed.rules.p_values import Floats


class SoftmaxSums:
    """The verbs of a nominal outcome on the columns of a design; the state of the rows is their probabilities."""

    constant = True
    stretch = 1.0

    def __init__(self, blocks: RowBlocks, likelihood: Multinomial) -> None:
        self.blocks, self.design, self.likelihood = blocks, blocks.design, likelihood
        self.codes = likelihood.codes.astype(np.int64, copy=False)
        self.weights, self.n = likelihood.weights, likelihood.n
        self.n_predictors = self.lead = likelihood.n_predictors
        self._pairs = _numbers_of_pairs(self.n_predictors)

    @property
    def events(self) -> float:
        """Rows of a class, on average."""
        return self.likelihood.events

    def start(self) -> Floats:
        """Log odds of every class against the first."""
        return self.likelihood.start(1)

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Loss, gradient and information, and the probabilities of all classes but the first."""
        m, model = self.n_predictors, self.blocks.model(selected)
        by_column = coefficients.reshape(-1, m)
        rows = np.empty((self.design.n_rows, m), order="F")

        def work(part: slice) -> Sums:
            Z = model(part)
            codes, weights = self.codes[part], self.weights[part]
            loss = softmax_look(moved_by(Z, by_column), codes, weights, rows[part])
            return np.array([loss]), *softmax_sums(rows[part], codes, weights, Z)

        loss, gradient, sums = self.blocks.summed(work, 2 * (m + len(by_column)))
        each = unpacked(sums, len(by_column))[self._pairs]  # class, class, column, column
        information = each.transpose(2, 0, 3, 1).reshape(len(coefficients), -1)
        return Sweep(float(loss[0]), gradient.ravel(), information, rows)

    def look(self, rows: Floats, selected: Sequence[int], candidates: Indices) -> Looked:
        """Score (candidates × classes), products with the model, and information of each (candidates × classes²)."""
        m, size = self.n_predictors, 1 + self.blocks.width(selected)
        first = slice(m, None, size)  # where the weights themselves are, times the constant
        along, own = products_of_singles(
            self.blocks, candidates, self._vectors(rows, selected), first, self._width(size)
        )
        return Looked(along[:, :m], self._crossed(along[:, m:]), own[:, self._pairs])

    def look_at_group(self, rows: Floats, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns, as if it were one of several classes each."""
        m, size = self.n_predictors, 1 + self.blocks.width(selected)
        first = slice(m, None, size)
        along, own = products_of_group(self.blocks, variable, self._vectors(rows, selected), first, self._width(size))
        q = len(along)
        whole = own[self._pairs].transpose(2, 0, 3, 1).reshape(1, q * m, q * m)
        return Looked(along[:, :m].reshape(1, q * m), self._crossed(along[:, m:]), whole)

    def ends(
        self, rows: Floats, selected: Sequence[int], variables: Indices, steps: Sequence[Floats]
    ) -> tuple[Floats, list[Floats]]:
        """What steps of models with one variable more each gain, and the gradients where they end."""
        m, size = self.n_predictors, 1 + self.blocks.width(selected)
        model, read = self.blocks.model(selected), values_of(self.blocks, variables)
        along = np.hstack([step[: size * m].reshape(size, m) for step in steps])
        own = [step[size * m :].reshape(-1, m) for step in steps]

        def work(part: slice) -> Sums:
            Z, X = model(part), list(read(part))
            U = moved_by(Z, along)
            for t, (x, step) in enumerate(zip(X, own, strict=True)):
                add_steps(x, step, U[:, t * m : (t + 1) * m])
            gain = softmax_move(rows[part], self.codes[part], self.weights[part], U)
            return gain, Z.T @ U, *(x.T @ U[:, t * m : (t + 1) * m] for t, x in enumerate(X))

        gain, of_model, *of_own = self.blocks.summed(work, size + (m + 1) * len(steps))
        parts = np.split(of_model, len(steps), axis=1)
        return gain, [np.concatenate([s.ravel(), x.ravel()]) for s, x in zip(parts, of_own, strict=True)]

    def moved(self, step: Floats, reach: Floats) -> Moved:
        """The largest range of predictors of a row that steps (a column each) of columns of some size can move."""
        return self._at_most(self._ranges(step), reach)

    def moved_by(self, selected: Sequence[int], step: Floats) -> float:
        """By how much a step of the coefficients moves any two classes of a row apart."""
        model, by_column = self.blocks.model(selected), step.reshape(-1, self.n_predictors)

        def work(part: slice) -> float:
            moved = moved_by(model(part), by_column)
            return float((np.maximum(moved.max(axis=1), 0.0) - np.minimum(moved.min(axis=1), 0.0)).max())

        return self.blocks.reduced(work, 2 * (self.n_predictors + len(by_column)), max)

    def farthest(self, moves: Floats) -> Moved:
        """The same of rows that are known: rows × steps of all classes."""
        ranges = self._ranges(moves.reshape(-1, 1)).reshape(-1, 1)
        return self._at_most(ranges.max(axis=0, keepdims=True), np.ones(1))

    def unit_moves(self, covariance: Floats, reach: Floats) -> Moved:
        """The same of any step of length 1, given the inverse information."""
        m = self.n_predictors
        k = len(covariance) // m
        blocks = np.zeros((k, m + 1, m + 1))
        blocks[:, 1:, 1:] = covariance.reshape(k, m, k, m)[np.arange(k), :, np.arange(k), :]
        own = np.einsum("kcc->kc", blocks)
        between = own[:, :, None] + own[:, None, :] - 2.0 * blocks
        return self._at_most(np.sqrt(np.maximum(between.max(axis=(1, 2)), 0.0))[:, None], reach)

    def bend(self, rows: Floats, moved: Moved, within: Moved) -> Floats:
        """At what rate curvature changes, relatively."""
        return moved.rows

    def above(self, bend: Floats) -> Floats:
        """Factor on what a step promises: μ(1 + z) has the moments of the maximum, and no z is below −s."""
        inside = bend < 1.0
        return np.where(inside, P(np.where(inside, -bend, 0.0)), np.inf)

    def lost_by(self, bend: Floats, drift: Floats, wald: Floats) -> Floats:
        """What it costs at least to take a step back to the nearest model without a variable."""
        part = np.where(bend > 0.0, -np.expm1(-bend) / np.where(bend > 0.0, bend, 1.0), 1.0)
        return wald * (2.0 * part - part**2 * self.above(part * bend + drift))

    def row_scores(self, rows: Floats) -> tuple[Floats, Floats | None]:
        """y_c − p_c of every class but the first, and their relative variance."""
        return class_scores(rows.T, self.likelihood.indicator, self.weights)

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        return remainder(self.blocks, selected, variable, gamma)

    def estimates(self, selected: Sequence[int], coefficients: Floats, covariance: Floats) -> Estimates:
        """Coefficients as people read them: class after class."""
        m = self.n_predictors
        by_class = np.arange(len(coefficients)).reshape(-1, m).T.ravel()
        k = len(coefficients) // m
        one = [standardised_to_users_scale(self.design, selected, column, None) for column in np.eye(k)]
        change = np.kron(np.eye(m), np.column_stack([told.values for told in one]))
        values, inner = change @ coefficients[by_class], covariance[np.ix_(by_class, by_class)]
        return self.likelihood.present(Estimates(one[0].terms * m, values, change @ inner @ change.T))

    @property
    def _n_pairs(self) -> int:
        return self.n_predictors * (self.n_predictors + 1) // 2

    def _width(self, size: int) -> int:
        """Vectors of a block of rows, of a model with so many columns."""
        return self.n_predictors + self._n_pairs * size

    def _vectors(self, rows: Floats, selected: Sequence[int]) -> Vectors:
        model = self.blocks.model(selected)
        return lambda part: softmax_vectors(rows[part], self.codes[part], self.weights[part], model(part))

    def _crossed(self, along: Floats) -> Floats:
        """Products of columns with weighted columns of the model, both of all classes."""
        m, columns = self.n_predictors, len(along)
        each = along.reshape(columns, self._n_pairs, -1)[:, self._pairs]  # columns, class of either, model's columns
        return each.transpose(3, 1, 0, 2).reshape(-1, columns * m)

    def _ranges(self, step: Floats) -> Floats:
        by_column = step.reshape(-1, self.n_predictors, step.shape[1])
        return np.maximum(by_column.max(axis=1), 0.0) - np.minimum(by_column.min(axis=1), 0.0)

    def _at_most(self, ranges: Floats, reach: Floats) -> Moved:
        furthest = np.einsum(
            "kb,kb->b", ranges, np.broadcast_to(reach if reach.ndim == 2 else reach[:, None], ranges.shape)
        )
        return Moved(furthest, np.zeros(len(furthest)))


def _numbers_of_pairs(m: int) -> NDArray[np.intp]:
    """Which of all pairs c ≤ d a pair of classes is."""
    out = np.empty((m, m), dtype=np.intp)
    upper = np.triu_indices(m)
    out[upper] = out.T[upper] = np.arange(len(upper[0]))
    return out
