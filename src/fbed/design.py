"""Variables → design columns in float64, centred and scaled, a block at a time.

A numeric variable gives one column, a categorical one a column a level but the first. Every model has an intercept, so
centring and scaling change no statistic; they make the arithmetic indifferent to units. Small types and sparse
matrices are converted a block at a time, never as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.tables import Table
from fbed.tails import Floats

_BLOCK_VALUES = 2**21  # float64 values in a block: 16 MB stay near the cache and bound the extra memory
_INFORMATION = 1e-13  # a column whose spread is below this part of its size holds rounding, not information


class Design:
    """Centred and scaled design columns of a table whose rows have frequency weights.

    Attributes
    ----------
    weights : frequency of each row, all positive.
    n : sum of the weights.
    width : number of design columns of each variable; 0 for a constant variable.
    """

    def __init__(self, table: Table, weights: Floats) -> None:
        self.table = table
        self.weights = weights
        self.n = float(weights.sum())
        self.n_rows = table.n_rows
        p = table.matrix.shape[1]
        self._center = np.zeros(p)
        self._scale = np.zeros(p)  # 0 marks a constant column
        for start in range(0, p, self.block_size):
            block = slice(start, min(start + self.block_size, p))
            self._center[block], self._scale[block] = self._moments(block)
        self.width = np.array([self._width(j) for j in range(table.n_variables)], dtype=np.intp)

    @property
    def block_size(self) -> int:
        """How many columns make a block."""
        return max(1, _BLOCK_VALUES // max(1, self.n_rows))

    def block(self, variables: Sequence[int] | NDArray[np.intp]) -> Floats:
        """Columns of numeric variables, one each; all zero for a constant one."""
        position = self.table.position[np.asarray(variables, dtype=np.intp)]
        raw = _dense(self.table.matrix[:, position])
        scale = self._scale[position]
        return np.where(scale > 0, (raw - self._center[position]) / np.where(scale > 0, scale, 1.0), 0.0)

    def columns(self, variable: int) -> Floats:
        """All design columns of one variable, n × width."""
        if variable not in self.table.factors:
            return self.block([variable])[:, : self.width[variable]]
        indicators = self._indicators(variable)
        center, scale = self._factor_moments(indicators)
        return (indicators - center) / scale

    def stack(self, variables: Sequence[int]) -> Floats:
        """Design columns of several variables side by side."""
        parts = [self.columns(int(variable)) for variable in variables]
        return np.hstack(parts) if parts else np.empty((self.n_rows, 0))

    def labels(self, variable: int) -> list[str]:
        """A name for each design column of a variable."""
        name = str(self.table.name(variable))
        factor = self.table.factors.get(variable)
        if factor is None:
            return [name] * int(self.width[variable])
        return [f"{name}[{level}]" for level in factor.levels[1 : 1 + int(self.width[variable])]]

    def moments(self, variable: int) -> tuple[Floats, Floats]:
        """Centre and scale of each design column: column = (raw − centre)/scale."""
        if variable in self.table.factors:
            return self._factor_moments(self._indicators(variable))
        position = self.table.position[variable]
        kept = slice(0, int(self.width[variable]))
        return self._center[[position]][kept], self._scale[[position]][kept]

    def _width(self, variable: int) -> int:
        factor = self.table.factors.get(variable)
        if factor is None:
            return int(self._scale[self.table.position[variable]] > 0)
        return max(0, len(factor.levels) - 1)

    def _indicators(self, variable: int) -> Floats:
        factor = self.table.factors[variable]
        return (factor.codes[:, None] == np.arange(1, max(1, len(factor.levels)))[None, :]).astype(np.float64)

    def _factor_moments(self, indicators: Floats) -> tuple[Floats, Floats]:
        center = self.weights @ indicators / self.n
        scale = np.sqrt(center * (1.0 - center))
        return center, np.where(scale > 0, scale, 1.0)  # a level that no row has is a zero column

    def _moments(self, block: slice) -> tuple[Floats, Floats]:
        """Weighted mean and standard deviation of raw columns; deviation 0 when a column is constant."""
        raw = self.table.matrix[:, block]
        if sparse.issparse(raw):
            return _sparse_moments(raw, self.weights)
        values = _dense(raw)
        size = np.abs(values).max(axis=0)
        size[(size == 0) | ~np.isfinite(size)] = 1.0  # excluded columns may hold anything, and count as constant
        values = values / size  # before squaring: 1e200 is a legitimate value
        with np.errstate(invalid="ignore"):
            center = self.weights @ values / self.n
            scale = np.sqrt(self.weights @ (values - center) ** 2 / self.n)
            scale[~(scale > _INFORMATION) | (values.min(axis=0) == values.max(axis=0))] = 0.0
            return center * size, scale * size


def _dense(raw: Any) -> Floats:
    dense = raw.toarray() if sparse.issparse(raw) else raw
    return np.asarray(dense, dtype=np.float64, order="F")


def _sparse_moments(raw: Any, weights: Floats) -> tuple[Floats, Floats]:
    """Σa(x − m)² over the stored entries plus m² for the weight of the zeros: no cancellation, nothing densified."""
    n, p = float(weights.sum()), raw.shape[1]
    column = np.repeat(np.arange(p), np.diff(raw.indptr))
    a, x = weights[raw.indices], raw.data.astype(np.float64)
    size = np.zeros(p)
    with np.errstate(invalid="ignore"):
        np.maximum.at(size, column, np.abs(x))
        size[(size == 0) | ~np.isfinite(size)] = 1.0  # a column of zeros, or an excluded one that may hold anything
        x = x / size[column]
        center = np.bincount(column, a * x, p) / n
        spread = np.bincount(column, a * (x - center[column]) ** 2, p)
        zeros = np.maximum(n - np.bincount(column, a, p), 0.0)
        scale = np.sqrt((spread + zeros * center**2) / n)
        scale[~(scale > _INFORMATION)] = 0.0
        return center * size, scale * size
