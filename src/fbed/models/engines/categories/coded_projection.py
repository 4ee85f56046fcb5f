"""Projections on a model in coded columns, under given weights of the rows; they grow with it, a column at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed.models.engines.categories.coded_columns import DIGITS, SOUND, CodedColumns, OtherCategory, inverted
from fbed.rules.p_values import Floats

_MOVED = 1e-6  # of the largest move of a direction, or of its length: what is less is rounding


@dataclass(frozen=True)
class Projection:
    """What all columns that are projected share."""

    columns: CodedColumns
    weight: Floats
    inverse: Floats  # of the weight of each level
    cross: Floats
    inner: Floats  # inverse of what the other columns have after the levels
    error: float
    adrift: NDArray[np.intp]  # rows that directions without curvature move: no equation holds them where they are
    loose: NDArray[np.intp]  # columns beside the levels that have a part in such directions

    @classmethod
    def of(cls, columns: CodedColumns, weight: Floats) -> Projection:
        """From the products of all columns."""
        total, cross = columns.by_level(weight)
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        gram = columns.gram(weight)
        size = np.diag(gram)
        unit = 1.0 / np.sqrt(np.where(size > 0, size, 1.0))
        root = np.sqrt(inverse)[:, None] * cross
        left = (gram - root.T @ root) * (unit[:, None] * unit)
        inner, error, flat = inverted(left)
        moves = _moves(columns, inverse, cross, unit[:, None] * flat)
        moved = (np.abs(moves) > _MOVED * np.abs(moves).max(axis=0, initial=0.0)).any(axis=1)
        adrift = np.flatnonzero(moved | (total == 0.0)[columns.levels.codes])
        loose = np.flatnonzero((np.abs(flat) > _MOVED).any(axis=1))
        return cls(columns, weight, inverse, cross, unit[:, None] * inner * unit, error, adrift, loose)

    def joined(self, column: Floats) -> Projection | None:
        """With one more column of numbers (n × 1); None where little is left of it."""
        return self._bordered(self.columns.joined(column), column, self.columns.columns.shape[1])

    def joined_by(self, other: OtherCategory) -> Projection | None:
        """With one more category of few levels; None where little is left of some combination of them."""
        indicators = np.equal(other.category.codes[:, None], other.kept).astype(np.float64, order="F")
        return self._bordered(self.columns.joined_by(other), indicators, self.columns.size)

    def _bordered(self, columns: CodedColumns, new: Floats, place: int) -> Projection | None:
        """With new columns, which come before those from `place` on, by bordering the inverse."""
        by_level, along = self._products(self.weight[:, None] * new)
        left = new - self._predicted(by_level, along)
        gram, total = left.T @ (self.weight[:, None] * left), self.weight @ new**2
        inside, weakest = _inverse(gram, total)
        if inside is None:
            return None
        size, count = self.columns.size, new.shape[1]
        old = np.r_[0:place, place + count : size + count]
        own = np.empty((size + count, count))
        own[old], own[place : place + count] = along, -np.eye(count)
        inner = own @ inside @ own.T
        inner[np.ix_(old, old)] += self.inner
        cross = np.hstack([self.cross[:, :place], by_level, self.cross[:, place:]])
        error = self.error + DIGITS / weakest
        return Projection(columns, self.weight, self.inverse, cross, inner, error, self.adrift, old[self.loose])

    def steps(self, residuals: Floats) -> Floats:
        """The steps of the predictors within the model that weighted residuals ask for, one a column."""
        return self._predicted(*self._products(residuals))

    def own(self, places: slice) -> tuple[Floats, Floats]:
        """G of some of the columns beside the levels: Gᵀw is 1 with each and 0 with all other columns; and GᵀwG."""
        along = self.inner[:, places]
        level = -self.inverse[:, None] * (self.cross @ along)
        return self.columns.predict(level, along), along[places]

    def coefficients(self, predictor: Floats) -> Floats:
        """Of the columns beside the levels, in the model that is nearest to a linear predictor."""
        return np.asarray(self._products((self.weight * predictor)[:, None])[1][:, 0])

    def without_model(self, X: Floats) -> Floats:
        """Columns less their projections."""
        return np.asarray(X - self._predicted(*self._products(self.weight[:, None] * X)))

    def _products(self, rows: Floats) -> tuple[Floats, Floats]:
        """Sums of columns over the levels, and the coefficients of what is beside the levels in their projections."""
        rows = np.asfortranarray(rows)
        by_level = self.columns.levels.sums(self.columns.ones[:, 0], rows)
        return by_level, self.inner @ (self.columns.inner(rows) - self.cross.T @ (self.inverse[:, None] * by_level))

    def _predicted(self, by_level: Floats, along: Floats) -> Floats:
        return self.columns.predict(self.inverse[:, None] * (by_level - self.cross @ along), along)


def moving_none(columns: CodedColumns, weight: Floats) -> Floats:
    """The moves of the rows by directions of the model that move no row with a weight, one a column."""
    total, cross = columns.by_level(weight)
    inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    gram = columns.gram(weight)
    unit = 1.0 / np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
    root = np.sqrt(inverse)[:, None] * cross
    flat = inverted((gram - root.T @ root) * (unit[:, None] * unit))[2]
    without = np.flatnonzero(total == 0.0)
    return np.hstack([_moves(columns, inverse, cross, unit[:, None] * flat), columns.levels.codes[:, None] == without])


def _moves(columns: CodedColumns, inverse: Floats, cross: Floats, along: Floats) -> Floats:
    """Of the rows, by coefficients beside the levels and those of the levels that keep the others where they are."""
    along = np.asfortranarray(along)
    return columns.predict(-inverse[:, None] * (cross @ along), along)


def _inverse(gram: Floats, total: Floats) -> tuple[Floats | None, float]:
    """The inverse of what is left of columns with these squares before, if it is sound; and the smallest pivot."""
    unit = np.divide(1.0, np.sqrt(total), out=np.zeros_like(total), where=total > 0)
    factor, failed = linalg.lapack.dpotrf(gram * (unit[:, None] * unit), lower=1)
    weakest = 0.0 if failed else float(np.diag(factor).min()) ** 2
    if not weakest > SOUND:
        return None, weakest
    lower = np.tril(linalg.lapack.dpotri(factor, lower=1)[0])
    return (lower + np.tril(lower, -1).T) * (unit[:, None] * unit), weakest
