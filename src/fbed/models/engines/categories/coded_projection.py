"""Projections on a model in coded columns, under given weights of the rows; they grow with it, a column at a time."""

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
        by_level, along = self._products(self.weight[:, None] * column)
        left = (column - self._predicted(by_level, along))[:, 0]
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

    def steps(self, residuals: Floats) -> Floats:
        """The steps of the predictors within the model that weighted residuals ask for, one a column."""
        return self._predicted(*self._products(residuals))

    def own(self, place: int) -> tuple[Floats, float]:
        """g of one of the columns of numbers: gᵀw is 1 with it and 0 with all other columns; and gᵀwg."""
        along = self.inner[:, place : place + 1]
        level = -self.inverse[:, None] * (self.cross @ along)
        return self.columns.predict(level, along)[:, 0], float(along[place, 0])

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
