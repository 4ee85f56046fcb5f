"""Designs of tables that are described: without any values, and with those of some rows and some variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import DenseColumns
from fbed.larger_than_memory.outline import Outline, PartFactor
from fbed.matrix.design import Design, plain_numbers
from fbed.rules.p_values import Floats
from fbed.tables.separate_columns import ColumnsApart

Columns = Mapping[int, tuple[NDArray[Any], ...]]
"""By column of the table: its numbers, and the indicator of where they are missing if it has one; or its codes."""


class DescribedDesign(Design):
    """What is asked of single columns without looking at their rows: widths, moments, extremes, names."""

    def __init__(self, outline: Outline, weights: Floats, n_threads: int = 1) -> None:
        self.outline, self.table = outline, outline.table
        self.weights, self.n_threads = weights, n_threads
        self.unit_weights = bool((weights == 1.0).all())
        self.n, self.n_rows = outline.n, len(weights)
        self.is_sparse = self.by_support = self.is_scattered = False
        self.center, self.scale, self.low, self.high = outline.center, outline.scale, outline.low, outline.high
        self._count_stored()
        self._name_columns()

    def _count_stored(self) -> None:
        """No column counts as mostly 0: how many values are not was never asked."""
        self.mostly_zero = np.zeros(len(self.center), dtype=bool)
        self.stored = np.full(len(self.center), float(self.n_rows))


class PartDesign(DescribedDesign):
    """The design of some rows, with the columns of those variables that were `put` there last."""

    def put(self, columns: Columns) -> None:
        """Have these columns of the table, and no others."""
        outline = self.outline
        arrays: list[NDArray[Any]] = []
        places: list[int] = []  # in the matrix that all columns would make
        position = np.full(outline.table.n_variables, -1, dtype=np.intp)
        factors, indicators = {}, {}
        for j, found in columns.items():
            factor = outline.table.factors.get(j)
            if factor is not None:
                factors[j] = PartFactor(found[0], factor.levels, factor.totals())
                continue
            position[j] = len(arrays)
            if len(found) > 1:
                indicators[j] = len(arrays) + 1
            places += outline.table.places(j)
            arrays += [plain_numbers(np.ascontiguousarray(array)) for array in found]
        about = (outline.center, outline.scale, outline.low, outline.high)
        self.center, self.scale, self.low, self.high = (np.ascontiguousarray(values[places]) for values in about)
        self._count_stored()
        empty = np.empty((self.n_rows, 0))
        matrix = ColumnsApart(arrays) if arrays else empty
        self.matrix = DenseColumns(arrays, self.n_rows) if arrays else DenseColumns(empty)
        self.table = replace(
            outline.table, matrix=matrix, position=position, factors=factors, indicators=indicators, n_rows=self.n_rows
        )


Spread = tuple[Floats, tuple[float, ...] | None]
"""Weight of the rows with the smallest value, with the largest and with 0; the whole numbers there are, if few."""


class Rows(Protocol):
    """What a design that is not there asks of the rows."""

    def fetch(self, variables: Sequence[int]) -> list[tuple[NDArray[Any], ...]]:
        """All rows of the columns that some variables have."""

    def products(self, variables: Sequence[int]) -> Floats:
        """Sums of the products of all design columns of some variables."""

    def pearson(self, selected: Sequence[int], coefficients: Floats) -> float:
        """Pearson's χ², from coefficients of a constant and the standardised columns."""

    def spread(self, variables: Sequence[int], low: Floats, high: Floats) -> list[Spread]:
        """How the values of columns of numbers are spread between their extremes."""

    def predictors(self, selected: Sequence[int], coefficients: Floats) -> Floats:
        """Linear predictors of all rows, from coefficients of the standardised columns."""

    def along(self, selected: Sequence[int], rows: Floats) -> Floats:
        """Products of the standardised columns with numbers that the rows have."""


class Estimated(Protocol):
    """A model with coefficients on the scale of the user's data, the constant first."""

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Some of them may be infinite."""

    @property
    def reached(self) -> tuple[float, ...]:
        """Finite ones in their place, where there are such."""


class FarDesign(DescribedDesign):
    """A design without values that fetches the columns of few variables when they are looked at."""

    def __init__(self, outline: Outline, weights: Floats, rows: Rows) -> None:
        super().__init__(outline, weights)
        self.rows = rows

    def products(self, variables: Sequence[int]) -> Floats:
        """Weighted means of the products of all design columns of some variables."""
        return self.rows.products(variables) / self.n

    def spread(self, variables: Sequence[int]) -> list[Spread]:
        """How the values of variables that are single columns of numbers are spread."""
        places = self.positions(variables)
        return self.rows.spread(variables, self.low[places], self.high[places])

    def pearson(self, model: Estimated, selected: Sequence[int]) -> float:
        """Pearson's χ² of a model."""
        values = np.array(model.reached or model.coefficients)
        center, scale = self.moments_of(selected)
        standardised = np.concatenate([[values[0] + center @ values[1:]], scale * values[1:]])
        return self.rows.pearson(selected, standardised)

    def predictors(self, model: Estimated, selected: Sequence[int]) -> Floats:
        """Linear predictors of all rows by a model without a constant."""
        values = np.array(model.reached or model.coefficients)
        center, scale = self.moments_of(selected)
        found = self.rows.predictors(selected, scale * values)
        found += center @ values
        return found

    def along(self, selected: Sequence[int], rows: Floats) -> Floats:
        """Products of the terms of a model, centred, with numbers that the rows have."""
        return self.moments_of(selected)[1] * self.rows.along(selected, rows)

    def fill(self, column: int) -> float:
        """The value that missing numbers of a column are set to."""
        found = self.outline.readings[column].fill
        assert found is not None
        return found

    def near(self, variables: Sequence[int]) -> PartDesign:
        """All rows of some variables, in memory."""
        design = PartDesign(self.outline, self.weights)
        wanted = list(dict.fromkeys(self.outline.columns_of(variables)))
        design.put(dict(zip(wanted, self.rows.fetch(variables), strict=True)))
        return design

    def block(self, variables: Sequence[int] | NDArray[np.intp]) -> Floats:
        """Columns of numeric variables, one each."""
        return self.near([int(v) for v in variables]).block(variables)

    def columns(self, variable: int) -> Floats:
        """All design columns of one variable, n × width."""
        return self.near([variable]).columns(variable)

    def stack(self, variables: Sequence[int]) -> Floats:
        """Design columns of several variables side by side."""
        return self.near(variables).stack(variables)

    def codes(self, variable: int) -> Any:
        """Level of each row and the number of levels, of a variable that is one categorical column."""
        return None if super().codes(variable) is None else self.near([variable]).codes(variable)
