"""What a generalised linear model asks of its rows: everything found is a sum, minimum or maximum over them.

What a search needs to know of tall data are small things: gradients and information matrices of the model's columns,
products of candidates with residuals and with the model's columns, moments of a few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from fbed._kernels import DenseColumns, RareColumns, SparseColumns, model_rows, step_moments
from fbed.clock import check_time
from fbed.matrix.candidate_steps import extremes, remainder, steps
from fbed.matrix.counted_columns import CountedColumns, counted
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.matrix.scattered_columns import ScatteredColumns, scattered
from fbed.models.base import Indices, harmonic_mean
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.explained_columns import ExplainedColumns, FarOut
from fbed.models.engines.tall.rows_left import RowsLeft
from fbed.models.likelihoods.glm import log_intercept
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Rows:
    """The state of the rows given a model: mean, information and residual, weighted, of each."""

    mean: Floats
    weight: Floats
    residual: Floats


_TOGETHER = 16  # steps of all rows that are looked at side by side


def joined_moments(one: Floats, other: Floats) -> Floats:
    """Of two parts of the rows together."""
    return np.vstack([one[:3] + other[:3], np.minimum(one[3], other[3]), np.maximum(one[4], other[4])])


def null_coefficients(y: Floats, weights: Floats, offset: Floats | None, counts: bool) -> Floats:
    """Where the model without variables begins: the link of the mean, less the mean offset; for counts, its maximum.

    Means of counts are exponentials of their offsets: from the mean offset, Newton's way may be too long.
    """
    if counts and offset is not None:
        return np.array([log_intercept(y, weights, offset)])
    n = float(weights.sum())
    mean = float(weights @ y) / n
    link = np.log(mean) if counts else np.log(mean / (1.0 - mean))
    return np.array([link - (0.0 if offset is None else float(weights @ offset) / n)])


def events_of(y: Floats, weights: Floats, counts: bool) -> float:
    """What every level of a category needs some of: counts, or the harmonic mean of successes and failures."""
    total = float(weights @ y)
    return total if counts else harmonic_mean(np.array([total, float(weights.sum()) - total]))


def _vectors(rows: Rows, beside: Sequence[Floats], model: Callable[[slice], Floats], part: slice) -> Floats:
    """Residuals, then weighted columns of the model, of which the first is a constant; then other vectors."""
    Z = model(part)
    last = 1 + Z.shape[1]
    out = np.empty((len(Z), last + len(beside)), order="F")
    out[:, 0] = rows.residual[part]
    np.multiply(Z, rows.weight[part, None], out=out[:, 1:last])
    for j, vector in enumerate(beside):
        out[:, last + j] = vector[part]
    return out


class RowSums:
    """The verbs of an outcome y with prior weights and offset, on the columns of a design.

    `counts` says whether the outcome is a Poisson count (log link) or the part of trials that succeeded (logit link);
    `whole`, whether these are all rows: a part of them does not tell what a column explains.
    `trials_share_rows` says whether rows weigh more than their copies, since there are several trials in some.
    """

    constant = True
    stretch = 1.0  # z is u for counts, and a part of it for trials

    def __init__(
        self, blocks: RowBlocks, y: Floats, weights: Floats, offset: Floats | None, counts: bool, whole: bool = True
    ) -> None:
        self.blocks, self.design, self.y, self.weights = blocks, blocks.design, y, weights
        self.offset = np.zeros(len(y)) if offset is None else offset
        self.counts = counts
        self.least = special.xlogy(y, y)  # what a row loses at the mean that fits it best
        self.least = y - self.least if counts else -self.least - special.xlog1py(1.0 - y, -y)
        self.n = float(weights.sum())
        self.trials_share_rows = bool((weights != blocks.design.weights).any())
        rises = np.zeros(len(y), dtype=bool) if counts else y == 1.0
        self._kept: tuple[tuple[int, ...], ScatteredColumns | None] | None = None
        told = whole and self.knows_rare and not self.sparse_classes
        self.explained = ExplainedColumns(blocks, weights, y == 0.0, rises, told)

    @property
    def sparse_classes(self) -> bool:
        """Whether these are two classes beside sparse columns, for which the ordinary model is quick."""
        return not self.counts and isinstance(self.design.matrix, SparseColumns)

    @property
    def events(self) -> float:
        """What every level of a category needs some of."""
        return events_of(self.y, self.weights, self.counts)

    def start(self) -> Floats:
        """Where the model without variables has its maximum, or next to it."""
        return null_coefficients(self.y, self.weights, self.offset, self.counts)

    def sweep(self, selected: Sequence[int], coefficients: Floats, offset: Floats | None = None) -> Sweep:
        """Loss, Zᵀar and ZᵀawZ of a constant and the columns of S, and the state of the rows.

        Another offset than that of the rows may be given.
        """
        n, size = self.design.n_rows, len(coefficients)
        rows, offset = Rows(np.empty(n), np.empty(n), np.empty(n)), self.offset if offset is None else offset
        columns = counted(self.blocks, selected)
        if columns is not None:
            return self._counted_sweep(columns, coefficients, offset, rows, self.explained.left_by(selected))
        few = self._scattered(selected)
        if few is not None:
            return self._scattered_sweep(few, coefficients, offset, rows, self.explained.left_by(selected))
        model, left = self.blocks.model(selected), self.explained.left_by(selected)
        weights = self.weights if left is None else left.weights
        loss, gradient, upper = self.blocks.summed(
            lambda part: self._state(rows, part, model(part), coefficients, offset[part], weights[part]), 2 * size
        )
        found = Sweep(float(loss[0]), gradient, np.triu(upper) + np.triu(upper, 1).T, rows)
        return found if left is None else left.without_idle(found)

    def _counted_sweep(
        self, columns: CountedColumns, coefficients: Floats, offset: Floats, rows: Rows, left: RowsLeft | None
    ) -> Sweep:
        """The same where categories are counted: first the state of the rows, then products."""
        weights = self.weights if left is None else left.weights

        def work(part: slice) -> Sums:
            eta = offset[part] + columns.predict(part, coefficients)
            return self._state(rows, part, np.empty((len(eta), 0), order="F"), np.empty(0), eta, weights[part])[:1]

        (loss,) = self.blocks.summed(work, 2 * columns.first)
        found = Sweep(float(loss[0]), columns.along(rows.residual), columns.gram(rows.weight), rows)
        return found if left is None else left.without_idle(found)

    def _scattered(self, selected: Sequence[int]) -> ScatteredColumns | None:
        """The columns of S by their entries, where these are few; they are asked for again and again."""
        key, kept = tuple(selected), self._kept
        if kept is None or kept[0] != key:
            kept = self._kept = key, scattered(self.blocks, selected)
        return kept[1]

    def _scattered_sweep(
        self, columns: ScatteredColumns, coefficients: Floats, offset: Floats, rows: Rows, left: RowsLeft | None
    ) -> Sweep:
        """The same where columns are mostly 0: rows first, then products by entries."""
        check_time()
        weights, none = self.weights if left is None else left.weights, np.empty((len(rows.mean), 0), order="F")
        eta = offset + columns.predict(coefficients)
        loss = self._state(rows, slice(0, len(eta)), none, np.empty(0), eta, weights)[0]
        found = Sweep(float(loss[0]), columns.along(rows.residual), columns.gram(rows.weight), rows)
        return found if left is None else left.without_idle(found)

    def _state(self, rows: Rows, part: slice, Z: Floats, coefficients: Floats, offset: Floats, weights: Floats) -> Sums:
        """Half the deviance, gradient and information of some rows, whose state is written."""
        loss, gradient, information = model_rows(
            self.counts,
            Z,
            coefficients,
            offset,
            self.y[part],
            weights,
            self.least[part],
            rows.mean[part],
            rows.weight[part],
            rows.residual[part],
        )
        return np.array([loss]), gradient, information

    def look(self, rows: Rows, selected: Sequence[int], candidates: Indices, beside: Sequence[Floats] = ()) -> Looked:
        """Xᵀar, ZᵀawX and Σawx² of candidates that are single columns of numbers.

        Other vectors come last among what candidates are multiplied with.
        """
        columns = counted(self.blocks, selected)
        few = self._scattered(selected) if columns is None else None
        if columns is None and few is None:
            model, width = self.blocks.model(selected), 2 + self.blocks.width(selected) + len(beside)
            along, own = self.blocks.products(candidates, partial(_vectors, rows, beside, model), width)
            return Looked(along[:, 0], along[:, 1:].T, own)
        vectors = np.column_stack([rows.residual, rows.weight, *beside])
        along, own = self.blocks.products(candidates, vectors.__getitem__, vectors.shape[1])
        if columns is not None:
            cross = columns.between(CountedColumns(self.blocks, candidates.tolist(), constant=False), rows.weight)
        elif few is not None:
            cross = few.between(candidates, rows.weight)
        return Looked(along[:, 0], np.vstack([cross, along[:, 2:].T]), own)

    def along(self, selected: Sequence[int], vector: Floats) -> Floats:
        """Zᵀv of a constant and the columns of S."""
        columns = counted(self.blocks, selected)
        if columns is not None:
            return columns.along(vector)
        few = self._scattered(selected)
        if few is not None:
            return few.along(vector)
        model = self.blocks.model(selected)
        return self.blocks.summed(lambda part: (model(part).T @ vector[part],), 1 + self.blocks.width(selected))[0]

    def rows_left(self, selected: Sequence[int]) -> RowsLeft | None:
        """Rows that S has left to explain, None where those are all."""
        return self.explained.left_by(selected)

    def far_out(self, selected: Sequence[int], coefficients: Floats, far: float) -> tuple[dict[int, FarOut], Floats]:
        """How columns that explain rows in the limit take these so far out, and linear predictors less the offset."""
        found, out = self.explained.far_out(selected, self.offset + self._predictors(selected, coefficients), far)
        return found, out - self.offset

    def _predictors(self, selected: Sequence[int], coefficients: Floats) -> Floats:
        """Zβ of every row."""
        few = self._scattered(selected)
        if few is not None:
            return few.predict(coefficients)
        model, parts = self.blocks.model(selected), self.blocks.parts(len(coefficients))
        return np.concatenate([model(part) @ coefficients for part in parts])

    def moved_by(self, selected: Sequence[int], step: Floats) -> float:
        """How far a step of the coefficients moves any row."""
        few = self._scattered(selected)
        if few is not None:
            return float(np.abs(few.predict(step)).max())
        return max(map(abs, extremes(self.blocks, selected, step)))

    def explains_apart(self, selected: Sequence[int]) -> bool:
        """Whether the columns that explain rows are far from dependent on them."""
        return self.explained.are_apart(selected)

    def spares_rows(self, variables: Sequence[int]) -> bool:
        """Whether a model of some variables explains rows in the limit."""
        return self.explained.left_by(variables) is not None

    def needs_for_rows(self, selected: Sequence[int], variable: int) -> bool:
        """Whether rows may have to be explained again without one of the variables of a model."""
        return self.explained.hides(selected, variable)

    def are_independent(self, variables: Sequence[int]) -> bool:
        """Whether the columns of some variables are, on all rows: nobody knows."""
        return False

    def is_hidden(self, selected: Sequence[int], variable: int) -> bool:
        """Whether a column is 0 on all rows that S has left to explain."""
        return self.explained.hides(selected, variable)

    def row_scores(self, rows: Rows) -> tuple[Floats, Floats | None]:
        """Residuals, and the information that is expected."""
        return rows.residual[:, None], rows.weight

    def change(self, before: Rows, scored: Rows, rows: Rows) -> tuple[float, float, float]:
        """Least and largest ratio of the weights to those of before, and Σ (r − b)²/a with b the residuals then."""
        some = (before.weight > 0.0) | (rows.weight > 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            ratio = rows.weight[some] / before.weight[some]
            apart = (rows.residual[some] - scored.residual[some]) ** 2 / before.weight[some]
        return float(ratio.min()), float(ratio.max()), float(apart.sum())

    def look_at_group(self, rows: Rows, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns, by counting where it is a category."""
        columns = counted(self.blocks, [*selected, variable])
        if columns is not None:
            own = CountedColumns(self.blocks, [variable], constant=False, plain_levels=True)
            cross = CountedColumns(self.blocks, selected).between(own, rows.weight)
            return Looked(own.along(rows.residual), cross, own.gram(rows.weight))
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
        """Moments and extremes (see `step_moments`) of the steps u = x·own − Z·along of variables, a column each."""
        few = self._scattered(selected) if self.design.varying[variables].all() else None
        if few is not None:
            parts = [slice(i, i + _TOGETHER) for i in range(0, len(variables), _TOGETHER)]
            found = [few.steps(variables[part], np.array(own[part])[:, 0], along[:, part]) for part in parts]
            return np.hstack([step_moments(self.counts, rows.mean, rows.weight, moved) for moved in found])
        moved = steps(self.blocks, selected, variables, own, along)
        return self.blocks.reduced(
            lambda part: step_moments(self.counts, rows.mean[part], rows.weight[part], moved(part)),
            along.shape[0] + len(variables),
            joined_moments,
        )

    @property
    def knows_rare(self) -> bool:
        """Whether entries that are not 0 can be read by themselves."""
        return isinstance(self.design.matrix, (DenseColumns, SparseColumns))

    def enclose_rare(
        self, sweep: Sweep, selected: Sequence[int], candidates: Indices, reach: Floats, short: float
    ) -> tuple[Floats, Floats, Floats]:
        """Intervals of columns that are mostly 0, from the maximum along each; and about where their models end.

        Those are steps of the model's coefficients and then the column's own, on the scale of its standardised values.
        """
        design, size = self.design, len(sweep.gradient)
        which, rows, left = design.positions(candidates), sweep.rows, self.explained.left_by(selected)
        weights = self.weights if left is None else left.weights
        columns = RareColumns(self.counts, design.matrix, which, rows.mean, self.y, weights, size)
        self._read_model(columns, selected, size)
        information = np.ascontiguousarray(sweep.information)
        lower, upper, ends = columns.enclosed(information, sweep.gradient, reach, short)
        ends[0] += ends[-1] * design.center[which]
        ends[-1] *= design.scale[which]
        return lower, upper, ends

    def _read_model(self, columns: RareColumns, selected: Sequence[int], size: int) -> None:
        """All rows of the model's columns, without those that tell nothing of the rows that are left."""
        model, left, few = self.blocks.model(selected), self.explained.left_by(selected), self._scattered(selected)
        if few is not None:
            return few.tell(columns, None if left is None else left.idle)
        for part in self.blocks.parts(size):
            check_time()
            Z = np.asfortranarray(model(part))
            if left is not None:
                Z = Z.copy(order="F")  # a block may be kept for others
                Z[:, left.idle] = 0.0
            columns.add(part.start, Z)

    def enclose_losses(
        self, sweep: Sweep, selected: Sequence[int], places: Indices, coefficients: Floats, reach: Floats, short: float
    ) -> tuple[Floats, Floats] | None:
        """Intervals of what it costs to remove columns of S that are mostly 0, whose place among the others is given.

        None where that may bring more rows back than their own.
        """
        alone, design = self.explained.alone_by(selected), self.design
        if alone is None:
            return None
        which, size = design.positions(np.asarray(selected)[places]), len(sweep.gradient)
        width = design.width[list(selected)]
        own = (1 + np.cumsum(width) - width)[places].astype(np.int64)
        left = self.explained.left_by(selected)
        state = sweep.rows.mean, self.y, self.weights if left is None else left.weights, size
        leaving = own, coefficients[own] / design.scale[which], alone[0][places], alone[1]
        columns = RareColumns(self.counts, design.matrix, which, *state, *leaving)
        self._read_model(columns, selected, size)
        return columns.lost(np.ascontiguousarray(sweep.information), sweep.gradient, reach, short)

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        return remainder(self.blocks, selected, variable, gamma)
