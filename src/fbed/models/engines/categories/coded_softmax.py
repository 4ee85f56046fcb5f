"""Newton's steps of a softmax model in coded columns: the coefficients of every level are a small block of their own.

With C classes a level has C − 1 coefficients, I its block of the Hessian (C − 1)², M its products with the other
columns: eliminated as in `coded_columns`, with I⁻¹ of every level instead of one number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed.models.engines.categories.ascent import Enclosed, Enclosing, Settled
from fbed.models.engines.categories.coded_columns import DIGITS, CodedColumns, Step, pivoted, solved
from fbed.models.engines.categories.softmax_rows import Entries, SoftmaxRows
from fbed.rules.p_values import Floats

_DEAD = 1e-16  # curvature of a parameter, relative to its norm², that rounding may have made
_FLAT = 1e-11  # curvature, relative, below which a direction of a level moves no row
_SOUND = 1e-6  # smallest pivot, relative, of a factor that is right to 1e-8
_NO_PULL = 1e-22  # squared slope, relative to the curvature, of such a direction: rounding, no more


class SoftmaxHessian:
    """The Hessian at some rows, levels eliminated; parameters are told as levels × predictors × models and so on."""

    def __init__(self, columns: CodedColumns, rows: SoftmaxRows) -> None:
        self.columns, self.rows = columns, rows
        m, k, L = rows.n_predictors, columns.size, columns.levels.n_levels
        self.m = m
        own, cross, self.gram = np.empty((L, m, m)), np.empty((L, m, m, k)), np.empty((m, k, m, k))
        for c in range(m):
            for d in range(c + 1):
                weight = rows.curvature(c, d)
                own[:, c, d], cross[:, c, d] = columns.by_level(weight)
                own[:, d, c], cross[:, d, c] = own[:, c, d], cross[:, c, d]
                self.gram[c, :, d] = self.gram[d, :, c] = columns.gram(weight)
        self.gram = self.gram.reshape(m * k, m * k)
        self.cross = cross.reshape(L, m, m * k)
        self._invert(own)
        self.over = (self.root @ self.cross).reshape(L * m, m * k)

    def _invert(self, own: Floats) -> None:
        """A root of the inverse of every level's block, without directions that move no row."""
        size = np.einsum("lcc->lc", own)
        unit = np.divide(1.0, np.sqrt(size), out=np.zeros_like(size), where=size > _DEAD * self._level_norms)
        values, vectors = np.linalg.eigh(own * unit[:, :, None] * unit[:, None, :])
        flat = values <= _FLAT
        root = np.where(flat, 0.0, 1.0 / np.sqrt(np.where(flat, 1.0, values)))
        self.root = root[:, :, None] * vectors.transpose(0, 2, 1) * unit[:, None, :]
        self.flat = np.where(flat[:, :, None], vectors.transpose(0, 2, 1), 0.0)
        self.level_unit = np.where(unit > 0, unit, 1.0 / np.sqrt(np.maximum(self._level_norms, 1e-300)))
        self.level_error = DIGITS / float(values[~flat].min(initial=1.0))

    @property
    def _level_norms(self) -> Floats:
        return self.columns.level_norms[:, None]

    @cached_property
    def inner(self) -> Floats:
        """What the other columns have after the levels."""
        return np.asarray(self.gram - self.over.T @ self.over)

    def slopes(self, residual: Floats) -> tuple[Floats, Floats]:
        """Sums of residuals (rows × predictors) over levels, and of those with other columns (predictors × columns)."""
        rows = np.asfortranarray(residual)
        by_level = self.columns.levels.sums(self.columns.ones[:, 0], rows)
        return by_level, np.ascontiguousarray(self.columns.inner(rows).T)

    def newton(self) -> Step:
        """H⁻¹g."""
        slope, pull = self.slopes(self.rows.residual)
        own = (self.root @ slope[:, :, None])[:, :, 0]
        steps, decrement, error = self._solved(pull.ravel() - self.over.T @ own.ravel())
        pulled = (self.flat @ (self.level_unit * slope)[:, :, None])[:, :, 0]
        if (pulled**2 > _NO_PULL).any():
            error = np.inf
        left = own - (self.over @ steps).reshape(own.shape)
        by_level = (self.root.transpose(0, 2, 1) @ left[:, :, None])[:, :, 0]
        beside = np.ascontiguousarray(steps.reshape(self.m, -1).T)
        move = self.columns.predict(by_level, beside)
        return Step(move, by_level, beside, decrement + float((own**2).sum()), max(error, self.level_error))

    def _solved(self, right: Floats) -> tuple[Floats, float, float]:
        """Steps of the other columns, what they gain, and the relative error."""
        factor, unit, kept = self._factor.lower, self._factor.unit, self._factor.kept
        if not self._factor.is_sound:
            some, steps = np.flatnonzero(unit > 0), np.zeros(len(right))
            size = np.diag(self.gram)[some]
            steps[some], decrement, error = solved(self.inner[np.ix_(some, some)], size, right[some])
            still = unit == 0
            pulled = (right[still] ** 2 > _NO_PULL * self._norms[still]).any()
            return steps, decrement, np.inf if pulled else error
        steps = np.zeros(len(right))
        half = linalg.solve_triangular(factor, (unit * right)[kept], lower=True, check_finite=False)
        steps[kept] = unit[kept] * linalg.solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
        left = right - self.inner @ steps
        left[kept] = 0.0
        scale = np.where(unit > 0, unit, 1.0 / np.sqrt(np.maximum(self._norms, 1e-300)))
        pulled = ((scale * left) ** 2 > _NO_PULL * max(1.0, float(half @ half))).any()
        return steps, float(half @ half), np.inf if pulled else self._factor.error

    @property
    def _norms(self) -> Floats:
        return np.tile(self.columns.norms, self.m)

    @cached_property
    def _factor(self) -> _Factor:
        """Of what the other columns have, without those that add nothing: a class may be ruled out in their rows."""
        size = np.diag(self.gram)
        unit = np.divide(1.0, np.sqrt(size), out=np.zeros_like(size), where=size > _DEAD * self._norms)
        lower, kept = pivoted(self.inner * (unit[:, None] * unit), _FLAT)
        return _Factor(lower, unit, kept, float(np.diag(lower).min(initial=1.0)) ** 2)

    def beside(self, X: Floats) -> ColumnsBeside | None:
        """What the model leaves of columns, each with a coefficient a predictor; None where that is in doubt."""
        if not self._factor.is_sound:
            return None
        factor, unit, kept, error = self._factor.lower, self._factor.unit, self._factor.kept, self._factor.error
        m, b = self.m, X.shape[1]
        L, k = self.columns.levels.n_levels, self.columns.size
        level, other, square = np.empty((L, m, m, b)), np.empty((m, k, m, b)), np.empty((m, m, b))
        one = self.columns.ones[:, 0]
        for c in range(m):
            for d in range(c + 1):
                weighted = self.rows.curvature(c, d)[:, None] * X
                weighted = np.asfortranarray(weighted)
                level[:, c, d] = level[:, d, c] = self.columns.levels.sums(one, weighted)
                other[c, :, d] = other[d, :, c] = self.columns.inner(weighted)
                square[c, d] = square[d, c] = np.einsum("ij,ij->j", weighted, X)
        own = (self.root @ level.reshape(L, m, m * b)).reshape(L * m, m * b)
        right = other.reshape(m * k, m * b) - self.over.T @ own
        half = linalg.solve_triangular(factor, (unit[:, None] * right)[kept], lower=True, check_finite=False)
        information = square - _squares(own, m, b) - _squares(half, m, b)
        steps = np.zeros((m * k, m * b))
        steps[kept] = unit[kept, None] * linalg.solve_triangular(factor, half, lower=True, trans="T")
        levels = self.root.transpose(0, 2, 1) @ (own - self.over @ steps).reshape(L, m, m * b)
        slope, pull = self.slopes(self.rows.residual)
        score = self.rows.residual.T @ X - (
            np.tensordot(slope, levels.reshape(L, m, m, b), 2) + np.tensordot(pull, steps.reshape(m, k, m, b), 2)
        )
        found = levels.reshape(L, m, m, b), steps.reshape(m, k, m, b)
        return ColumnsBeside(self, X, *found, information, score, square, error + self.level_error)


@dataclass(frozen=True)
class _Factor:
    """Cholesky factor of some of the scaled columns, in its own order, and its smallest pivot."""

    lower: Floats
    unit: Floats
    kept: NDArray[np.intp]
    weakest: float

    @property
    def is_sound(self) -> bool:
        """Whether it is right to 1e-8."""
        return self.weakest > _SOUND

    @property
    def error(self) -> float:
        """Relative."""
        return DIGITS / self.weakest


@dataclass(frozen=True)
class ColumnsBeside:
    """Columns beside a model: their projections on it, information and score, predictors × predictors × columns."""

    hessian: SoftmaxHessian
    X: Floats
    levels: Floats
    steps: Floats
    information: Floats
    score: Floats
    square: Floats
    error: float

    @cached_property
    def unclear(self) -> NDArray[np.bool_]:
        """Whose information may be rounding."""
        size = np.einsum("ccb->bc", self.square)
        unit = np.divide(1.0, np.sqrt(size), out=np.zeros_like(size), where=size > 0)
        scaled = self.information.transpose(2, 0, 1) * unit[:, :, None] * unit[:, None, :]
        return np.asarray(~(np.linalg.eigvalsh(scaled)[:, 0] > 1e-7))

    @cached_property
    def coefficients(self) -> Floats:
        """Newton's step of every column (predictors × columns), 0 where it is unclear."""
        matrix = self.information.transpose(2, 0, 1).copy()
        matrix[self.unclear] = np.eye(self.hessian.m)
        return np.asarray(np.where(self.unclear, 0.0, np.linalg.solve(matrix, self.score.T[:, :, None])[:, :, 0].T))

    @property
    def decrement(self) -> Floats:
        """Twice what the step of every column gains to second order."""
        return np.asarray((self.coefficients * self.score).sum(axis=0))

    def moves(self, which: NDArray[np.intp] | slice = slice(None)) -> Floats:
        """The steps of some columns as those of the predictors, predictors × rows × columns."""
        delta, columns = self.coefficients[:, which], self.hessian.columns
        levels = np.einsum("lcdb,db->lcb", self.levels[..., which], delta)
        steps = np.einsum("ckdb,db->ckb", self.steps[..., which], delta)
        X = self.X[:, which]
        return np.stack(
            [
                X * delta[c] - columns.predict(np.ascontiguousarray(levels[:, c]), np.ascontiguousarray(steps[c]))
                for c in range(self.hessian.m)
            ]
        )


def _squares(half: Floats, m: int, b: int) -> Floats:
    """Products of the vectors of every column, predictors × predictors × columns."""
    each = half.reshape(-1, m, b)
    return np.einsum("icb,idb->cdb", each, each, optimize=False)


class SoftmaxAscent(Enclosing):
    """The way up the likelihood of a softmax model in coded columns."""

    def __init__(self, columns: CodedColumns, observed: NDArray[np.bool_], weight: Floats, start: Floats) -> None:
        self.columns = columns
        categories = [columns.levels, *(other.category for other in columns.others)]
        self.entries = Entries.of(categories, observed, weight)
        self.predictor = start if self.entries.alive.all() else self.entries.profiled(columns.levels, start)

    def enclose(self, settled: Settled) -> Enclosed:
        """Steps until the interval is settled; nothing is left where levels explain all rows."""
        if not self.entries.weight.any():
            return Enclosed(0.0, 0.0, self.hint(), True)
        return super().enclose(settled)

    @property
    def weight(self) -> Entries:
        """What levels leave of the rows."""
        return self.entries

    def rows(self) -> SoftmaxRows:
        """The rows at the predictors."""
        return self.entries.at(self.predictor)

    def step(self, rows: SoftmaxRows) -> Step:
        """Newton's step."""
        return SoftmaxHessian(self.columns, rows).newton()

    def reach(self, rows: SoftmaxRows, step: Step) -> tuple[float, float, float]:
        """Least and largest z of a step, and how far it moves the predictors of classes against each other."""
        z = rows.changes(step.move.T)
        return float(z.min()), float(z.max()), float(np.abs(z).max())

    def without_idle(self, rows: SoftmaxRows, threshold: float) -> tuple[float, Step, float]:
        """With entries that are next to nothing ruled out: a model with fewer of them is likelier."""
        there = self.entries.without(rows.idle(threshold)).at(self.predictor)
        step = self.step(there)
        return there.deviance, step, self.reach(there, step)[0]

    def hint(self) -> Floats:
        """The predictors, with classes that are ruled out far below others."""
        return self.entries.in_the_limit(self.predictor)
