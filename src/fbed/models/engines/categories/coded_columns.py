"""Columns of a model that keep their codes: the levels of one category are eliminated, everything else is beside them.

Levels are disjoint sets of rows, so that their block of a Hessian is diagonal and a Newton step needs sums by level
only: with I and ρ the curvature and the gradient of every level, M the sums of the other columns over the levels, A and
g what the other columns have among themselves,

    (A − MᵀI⁻¹M) d = g − MᵀI⁻¹ρ,       e = I⁻¹(ρ − M d),

which costs n·k and k³ however many levels there are. Further categories stay codes as well: their sums are counts of
pairs of levels. A constant column is in the span of the levels; where there is no category, it is the only level.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed._kernels import add_by_level, pair_sums, sums_by_level
from fbed.matrix.design import Design
from fbed.rules.p_values import Floats

SOUND = 1e-5
"""Smallest pivot, relative, with which a factor of the normal equations is right to 1e-10."""
DIGITS = 1e-14
"""Relative error of the normal equations; the smallest pivot magnifies it."""
INDEPENDENT = 1e-7
"""Norm² left, relative, of what surely does not depend on others."""

_FLAT = 1e-11  # curvature, relative, below which a direction does not move the rows that count
_NO_PULL = 1e-22  # squared slope, relative to the curvature, of such a direction: rounding, no more
_DEPENDENT = 1e-13  # norm² left, relative, of what depends on others: rounding; more may be a near copy
_DEAD = 1e-16  # curvature of a column, relative to its norm², that rounding may have made: all its rows are certain

_FEW_VALUES = 2**17  # of all columns, with which a matrix product is done sooner than Python with pairs of categories

Codes = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Category:
    """A level for every row; −1 nowhere."""

    codes: Codes
    n_levels: int

    def sums(self, weight: Floats, columns: Floats) -> Floats:
        """Weighted sums of columns over the rows of each level, levels × columns."""
        return sums_by_level(self.codes, self.n_levels, weight, columns)

    def add(self, steps: Floats, out: Floats) -> None:
        """Adds the steps of every row's level (levels × columns) to columns."""
        add_by_level(self.codes, np.ascontiguousarray(steps), out)


def category_of(design: Design, variable: int) -> Category | None:
    """The codes of a variable that is a single category."""
    found = design.codes(variable)
    return None if found is None else Category(np.ascontiguousarray(found[0]), found[1])


class OtherCategory:
    """A category beside the eliminated one; the levels that are `kept` have a coefficient."""

    def __init__(self, category: Category, base: int, kept: NDArray[np.intp]) -> None:
        self.category, self.base, self.kept = category, base, kept

    @classmethod
    def of(cls, category: Category, weight: Floats) -> OtherCategory:
        """All levels but the most frequent one."""
        base = int(np.bincount(category.codes, weight, category.n_levels).argmax())
        return cls(category, base, np.delete(np.arange(category.n_levels), base))

    def pairs(self, other: Category, weight: Floats) -> Floats:
        """Weight of every pair of levels, those of the other category × those that are kept."""
        counts = pair_sums(other.codes, other.n_levels, self.category.codes, self.category.n_levels, weight)
        return counts if len(self.kept) == self.category.n_levels else counts[:, self.kept]

    def add(self, steps: Floats, out: Floats) -> None:
        """Adds the steps of every row's level (levels × columns) to columns."""
        whole = np.zeros((self.category.n_levels, steps.shape[1]))
        whole[self.kept] = steps
        self.category.add(whole, out)


@dataclass(frozen=True)
class Step:
    """A Newton step, twice what it gains to second order, and how far both can be relied on.

    It is told as a move of the predictors, as that of every level, and as that of everything beside the levels.
    """

    move: Floats
    by_level: Floats
    beside: Floats
    decrement: float
    error: float  # relative; infinite where the equations are not solved


class CodedColumns:
    """A category whose levels are eliminated, further categories, and columns of numbers (column-major)."""

    def __init__(
        self, levels: Category, columns: Floats, weight: Floats, others: Sequence[Category | OtherCategory] = ()
    ) -> None:
        self.levels = levels
        self.columns = np.asfortranarray(columns)
        self.weight = weight
        self.others = [OtherCategory.of(other, weight) if isinstance(other, Category) else other for other in others]
        self.ones = np.ones((len(weight), 1), order="F")
        self.size = columns.shape[1] + sum(len(other.kept) for other in self.others)
        self.level_norms = levels.sums(weight, self.ones)[:, 0]
        if self.expanded is not None:
            self.norms = weight @ self.expanded**2
            return
        parts = [other.category.sums(weight, self.ones)[other.kept, 0] for other in self.others]
        self.norms = np.concatenate([weight @ self.columns**2, *parts])

    @cached_property
    def expanded(self) -> Floats | None:
        """Everything beside the levels as columns of numbers, where they are so few that counting takes longer."""
        if len(self.weight) * self.size > _FEW_VALUES:
            return None
        if not self.others:
            return self.columns
        out = np.empty((len(self.weight), self.size), order="F")
        place = self.columns.shape[1]
        out[:, :place] = self.columns
        for other in self.others:
            np.equal(other.category.codes[:, None], other.kept, out=out[:, place : place + len(other.kept)])
            place += len(other.kept)
        return out

    def joined(self, column: Floats) -> CodedColumns:
        """With one more column of numbers (n × 1)."""
        out = copy(self)
        out.__dict__.pop("expanded", None)
        place = self.columns.shape[1]
        out.columns = np.asfortranarray(np.hstack([self.columns, column]))
        out.norms = np.insert(self.norms, place, self.weight @ column[:, 0] ** 2)
        out.size = self.size + 1
        return out

    def joined_by(self, other: OtherCategory) -> CodedColumns:
        """With one more category."""
        out = copy(self)
        out.__dict__.pop("expanded", None)
        out.others = [*self.others, other]
        out.norms = np.append(self.norms, other.category.sums(self.weight, self.ones)[other.kept, 0])
        out.size = self.size + len(other.kept)
        return out

    def newton(self, residual: Floats, curvature: Floats) -> Step:
        """H⁻¹g for weighted residuals and curvatures of the rows."""
        curve, cross = self.by_level(curvature)
        slope = self.levels.sums(residual, self.ones)[:, 0]
        alive = curve > _DEAD * self.level_norms
        inverse = np.divide(1.0, curve, out=np.zeros_like(curve), where=alive)
        own = inverse * slope
        gram, pull = self.gram(curvature), self.inner(residual[:, None])[:, 0]
        moving = np.flatnonzero(np.diag(gram) > _DEAD * self.norms)
        steps = np.zeros(self.size)
        some = gram if len(moving) == self.size else gram[np.ix_(moving, moving)]
        over = cross if len(moving) == self.size else cross[:, moving]
        root = np.sqrt(inverse)[:, None] * over
        steps[moving], decrement, error = solved(some - root.T @ root, np.diag(some), pull[moving] - over.T @ own)
        if (slope[~alive] ** 2 > _NO_PULL * self.level_norms[~alive]).any():
            error = np.inf
        pull[moving] = 0.0
        if (pull**2 > _NO_PULL * self.norms).any():
            error = np.inf
        by_level = own - inverse * (cross @ steps)
        move = self.predict(by_level[:, None], steps[:, None])[:, 0]
        return Step(move, by_level, steps, decrement + float(slope @ own), error)

    def by_level(self, weight: Floats) -> tuple[Floats, Floats]:
        """Weight of every level, and weighted sums of the other columns over its rows."""
        if self.expanded is not None:
            return self.levels.sums(weight, self.ones)[:, 0], self.levels.sums(weight, self.expanded)
        parts = [self.levels.sums(weight, self.columns), *(other.pairs(self.levels, weight) for other in self.others)]
        return self.levels.sums(weight, self.ones)[:, 0], np.hstack(parts)

    def inner(self, rows: Floats) -> Floats:
        """Sums over the rows of every column beside the levels, times those of columns of numbers (column-major)."""
        if self.expanded is not None:
            return np.asarray(self.expanded.T @ rows)
        one = self.ones[:, 0]
        return np.vstack(
            [self.columns.T @ rows, *(other.category.sums(one, rows)[other.kept] for other in self.others)]
        )

    def cross(self, weight: Floats, columns: Floats) -> Floats:
        """Weighted products of everything beside the levels with columns of numbers (column-major)."""
        return self.inner(weight[:, None] * columns)

    def predict(self, by_level: Floats, beside: Floats) -> Floats:
        """The change of the predictors by steps of the levels and of everything beside them, one a column."""
        place = self.columns.shape[1]
        if self.expanded is not None:
            out = (beside.T @ self.expanded.T).T
        else:
            out = (beside[:place].T @ self.columns.T).T
            for other in self.others:
                other.add(beside[place : place + len(other.kept)], out)
                place += len(other.kept)
        self.levels.add(by_level, out)
        return np.asarray(out)

    def only(self, kept: NDArray[np.intp]) -> CodedColumns:
        """Without some of the columns and levels beside the eliminated category."""
        k = self.columns.shape[1]
        others, place = [], k
        for other in self.others:
            here = kept[(kept >= place) & (kept < place + len(other.kept))] - place
            others.append(OtherCategory(other.category, other.base, other.kept[here]))
            place += len(other.kept)
        return CodedColumns(self.levels, self.columns[:, kept[kept < k]], self.weight, others)

    def independent(self) -> NDArray[np.intp] | None:
        """Columns and levels that span the model beside the eliminated ones; None where that is doubtful."""
        scaled = self._beside_levels()
        kept, weakest = _ranked(scaled)
        return kept if weakest >= INDEPENDENT and self._are_told_by(kept, scaled) else None

    def ranked(self) -> tuple[NDArray[np.intp], float]:
        """The same whatever the doubt, and what the weakest of them adds to the others, relative to its norm²."""
        return _ranked(self._beside_levels())

    def _are_told_by(self, kept: NDArray[np.intp], scaled: Floats) -> bool:
        """Whether columns of numbers that are left out are combinations of those that are kept, whoever comes last.

        What is missing of a combination is little beside a column with an outlier, and may be much beside another one
        that has a small part in it.
        """
        numbers = self.columns.shape[1]
        out = np.setdiff1d(np.arange(numbers), kept)
        if not len(out) or not len(kept):
            return True
        part = np.linalg.solve(scaled[np.ix_(kept, kept)], scaled[np.ix_(kept, out)])
        missing = np.diag(scaled)[out] - np.einsum("ij,ij->j", part, scaled[np.ix_(kept, out)])
        missing = np.maximum(missing, DIGITS)
        part = part[kept < numbers]
        return bool((missing <= _DEPENDENT * part**2)[part**2 > missing].all())

    def _beside_levels(self) -> Floats:
        """Products of everything beside the levels, in units of their norms, less what the levels have of them."""
        total, cross = self.by_level(self.weight)
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        unit = 1.0 / np.sqrt(np.where(self.norms > 0, self.norms, 1.0))
        root = np.sqrt(inverse)[:, None] * cross
        return np.asarray((self.gram(self.weight) - root.T @ root) * (unit[:, None] * unit))

    @property
    def n_levels(self) -> int:
        """Levels of the eliminated category that some rows have."""
        return int((self.level_norms > 0).sum())

    def gram(self, weight: Floats) -> Floats:
        """Weighted products of everything beside the levels, by counting where there are codes."""
        if self.expanded is not None:
            return np.asarray(self.expanded.T @ (weight[:, None] * self.expanded))
        k = self.columns.shape[1]
        out = np.zeros((self.size, self.size))
        out[:k, :k] = self.columns.T @ (weight[:, None] * self.columns)
        place = k
        for i, other in enumerate(self.others):
            here = slice(place, place + len(other.kept))
            out[here, :k] = other.category.sums(weight, self.columns)[other.kept]
            out[:k, here] = out[here, :k].T
            out[here, here] = np.diag(other.category.sums(weight, self.ones)[other.kept, 0])
            before = k
            for earlier in self.others[:i]:
                there = slice(before, before + len(earlier.kept))
                out[here, there] = earlier.pairs(other.category, weight)[other.kept]
                out[there, here] = out[here, there].T
                before += len(earlier.kept)
            place += len(other.kept)
        return out


def _ranked(scaled: Floats) -> tuple[NDArray[np.intp], float]:
    """Columns that span all of them, and what the weakest of these adds to the others."""
    factor, kept = pivoted(scaled, _DEPENDENT)
    return np.sort(kept), float(np.diag(factor).min(initial=1.0)) ** 2


def pivoted(matrix: Floats, least: float) -> tuple[Floats, NDArray[np.intp]]:
    """The Cholesky factor of columns that have more than `least` beside those before them, best first, and which."""
    if not (np.diag(matrix) > least).any():  # LAPACK takes the first pivot whatever it is
        return np.empty((0, 0)), np.empty(0, dtype=np.intp)
    factor, order, rank, _ = linalg.lapack.dpstrf(matrix, tol=least, lower=1)
    return factor[:rank, :rank], order[:rank].astype(np.intp) - 1


def solved(matrix: Floats, size: Floats, right: Floats) -> tuple[Floats, float, float]:
    """The solution of normal equations, its product with the right side, and their relative error.

    `size` is the diagonal before anything was eliminated, to which rounding is relative. Directions without curvature
    are left out, which is right when nothing pulls at them.
    """
    if len(right) == 0:
        return right, 0.0, DIGITS
    unit = 1.0 / np.sqrt(np.where(size > 0, size, 1.0))
    scaled, pull = matrix * (unit[:, None] * unit), unit * right
    if not (np.isfinite(scaled).all() and np.isfinite(pull).all()):
        return np.zeros_like(right), np.inf, np.inf
    try:
        factor = np.linalg.cholesky(scaled)
        weakest = float(np.diag(factor).min()) ** 2
        if weakest > SOUND:
            steps = linalg.cho_solve((factor, True), pull, check_finite=False)
            return unit * steps, float(pull @ steps), DIGITS / weakest
    except np.linalg.LinAlgError:
        pass
    curvature, direction = np.linalg.eigh(scaled)
    along = direction.T @ pull
    flat = curvature <= _FLAT
    kept = np.where(flat, 0.0, along / np.where(flat, 1.0, curvature))
    sound = float(along[flat] @ along[flat]) <= _NO_PULL * max(1.0, float(along @ along))
    error = DIGITS / float(curvature[~flat].min(initial=1.0)) if sound else np.inf
    return unit * (direction @ kept), float(along @ kept), error


def inverted(scaled: Floats) -> tuple[Floats, float, Floats]:
    """The inverse of normal equations with a unit diagonal before elimination, its relative error, and the directions
    without curvature, one a column, which are left out.
    """
    size = len(scaled)
    if size == 0:
        return scaled, DIGITS, scaled
    factor, failed = linalg.lapack.dpotrf(scaled, lower=1)
    weakest = 0.0 if failed else float(np.diag(factor).min()) ** 2
    if weakest > SOUND:
        lower = linalg.lapack.dpotri(factor, lower=1)[0]
        return np.tril(lower) + np.tril(lower, -1).T, DIGITS / weakest, np.zeros((size, 0))
    curvature, direction = np.linalg.eigh(scaled)
    kept = curvature > _FLAT
    root = direction[:, kept] / np.sqrt(curvature[kept])
    return root @ root.T, DIGITS / float(curvature[kept].min(initial=1.0)), direction[:, ~kept]
