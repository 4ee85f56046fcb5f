"""Projections on a model in coded columns, under given weights of the rows; they grow with the model, a column at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbed.models.engines.categories.coded_columns import DIGITS, SOUND, CodedColumns, inverted
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Projection:
    """What all columns that are projected share."""

    columns: CodedColumns
    weight: Floats
    inverse: Floats  # of the weight of each level
    cross: Floats
    inner: Floats  # inverse of what the other columns have after the levels
    error: float

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
        inner, error = inverted(left)
        return cls(columns, weight, inverse, cross, unit[:, None] * inner * unit, error)

    def joined(self, column: Floats) -> Projection | None:
        """With one more column of numbers (n × 1), by bordering the inverse; None where little is left of it."""
        by_level, along = self._coordinates(column)
        left = self._left(column, by_level, along)[:, 0]
        norm, total = float(self.weight @ left**2), float(self.weight @ column[:, 0] ** 2)
        if not norm > SOUND * total:
            return None
        place, size = self.columns.columns.shape[1], self.columns.size
        before, after = slice(0, place), slice(place + 1, size + 1)
        own = np.insert(along[:, 0], place, -1.0)
        inner = np.empty((size + 1, size + 1))
        inner[place] = inner[:, place] = 0.0
        for here, h in ((before, slice(0, place)), (after, slice(place, size))):
            for there, t in ((before, slice(0, place)), (after, slice(place, size))):
                inner[here, there] = self.inner[h, t]
        inner += np.multiply.outer(own / norm, own)
        cross = np.insert(self.cross, place, by_level[:, 0], axis=1)
        error = self.error + DIGITS * total / norm
        return Projection(self.columns.joined(column), self.weight, self.inverse, cross, inner, error)

    def step(self, residual: Floats) -> tuple[Floats, float]:
        """The step of the predictors within the model that weighted residuals ask for."""
        by_level = self.columns.levels.sums(residual, self.columns.ones)[:, 0]
        along = self.inner @ (self.columns.inner(residual) - self.cross.T @ (self.inverse * by_level))
        level = self.inverse * (by_level - self.cross @ along)
        move = level[self.columns.levels.codes] + self.columns.predict(along)
        return np.asarray(move), float(residual @ move)

    def own(self, place: int) -> tuple[Floats, float]:
        """g of one of the columns of numbers: gᵀw is 1 with it and 0 with all other columns; and gᵀwg."""
        along = self.inner[:, place]
        level = -self.inverse * (self.cross @ along)
        return np.asarray(level[self.columns.levels.codes] + self.columns.predict(along)), float(along[place])

    def without_model(self, X: Floats) -> Floats:
        """Columns less their projections."""
        X = np.asfortranarray(X)
        return self._left(X, *self._coordinates(X))

    def _coordinates(self, X: Floats) -> tuple[Floats, Floats]:
        """Sums of columns over the levels, and the coefficients of everything beside the levels in their projections."""
        by_level = self.columns.levels.sums(self.weight, X)
        beside = self.columns.cross(self.weight, X) - self.cross.T @ (self.inverse[:, None] * by_level)
        return by_level, self.inner @ beside

    def _left(self, X: Floats, by_level: Floats, along: Floats) -> Floats:
        level = self.inverse[:, None] * (by_level - self.cross @ along)
        return np.asarray(X - level[self.columns.levels.codes] - self.columns.predict(along))
