"""G² test of conditional independence for all-categorical data: G² = 2Σ n_xys log(n_xys n_s / (n_xs n_ys)).

The strata s are the combinations of the levels of S that occur. It is the likelihood ratio of two nested log-linear
models (equivalently: of the saturated models of y given S, and given S and x).

Degrees of freedom: Σ_s (levels of x in s − 1)(levels of y in s − 1). A stratum without rows, or one in which x or y has
a single level, can show no dependence and counts 0, so that sparse tables do not promise df that they cannot fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from fbed.clock import check_time
from fbed.errors import InvalidInput
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices
from fbed.models.likelihoods.likelihood import SATURATED, evidence
from fbed.rules.criteria import Evidence
from fbed.tables.table import Name

_DENSE_CELLS = 16  # cells per row up to which a full table is cheaper than sorting the rows
_MOST_LEVELS = 200  # of a numeric column: beyond this it is a measurement, not a code

Codes = NDArray[np.intp]


class GSquare:
    """A categorical outcome and categorical predictors; numeric columns are codes, a level a value."""

    name = "gsquare"
    has_likelihood = True

    def __init__(self, design: Design, codes: Codes, n_classes: int) -> None:
        self.design = design
        self.y, self.n_classes = codes, n_classes
        self.n = design.n
        self.block_size = design.block_size
        self._codes: dict[int, tuple[Codes, int]] = {}
        self.null_deviance = self.fit([]).deviance

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> GSquareFit:
        """Cut the rows into strata."""
        return GSquareFit(self, selected)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Tables have no coefficients; the deviance is 2n times the entropy of y that S leaves."""
        return FittedModel(self.name, (), (), None, self.fit(selected).deviance, self.null_deviance)

    def codes(self, variable: int) -> tuple[Codes, int]:
        """Level of each row, and the number of levels."""
        if variable not in self._codes:
            self._codes[variable] = self._read(variable)
        return self._codes[variable]

    def _read(self, variable: int) -> tuple[Codes, int]:
        """A group is the combination of its columns, of which only those that occur are numbered."""
        parts = [part for j in self.design.table.columns(variable) for part in self._parts(j)]
        if len(parts) == 1:
            return parts[0]
        present, codes = np.unique(np.column_stack([part[0] for part in parts]), axis=0, return_inverse=True)
        return codes.ravel(), len(present)

    def _parts(self, j: int) -> list[tuple[Codes, int]]:
        table = self.design.table
        factor = table.factors.get(j)
        if factor is not None:
            return [(factor.codes, len(factor.levels))]
        return [_codes(table.matrix[:, [place]], table.column_name(j)) for place in table.places(j)]


class GSquareFit:
    """Strata of S: `strata[i]` is the combination of levels that row i has, numbered from 0."""

    def __init__(self, model: GSquare, selected: Sequence[int]) -> None:
        self.model, self.selected = model, tuple(selected)
        self.strata, self.n_strata = np.zeros(len(model.y), dtype=np.intp), 1
        for variable in selected:
            codes, levels = model.codes(int(variable))
            self.strata, self.n_strata = _renumbered(self.strata * levels + codes, self.n_strata * levels)
        weights = model.design.weights
        cell = self.strata * model.n_classes + model.y
        self.counts = np.bincount(cell, weights, self.n_strata * model.n_classes).reshape(-1, model.n_classes)
        self.deviance = 2.0 * (_entropy(self.counts.sum(axis=1)) - _entropy(self.counts))

    @property
    def saturated(self) -> bool:
        """Whether every stratum has a single level of the outcome."""
        return self.deviance <= SATURATED * self.model.null_deviance

    def gains(self, candidates: Indices) -> Evidence:
        """G² of each candidate within the strata."""
        return _tested([self._test(int(candidate)) for candidate in candidates])

    def losses(self, variables: Indices) -> Evidence:
        """G² of each variable within the strata of the others."""
        others = [self.model.fit([s for s in self.selected if s != variable]) for variable in variables]
        return _tested([fit._test(int(variable)) for fit, variable in zip(others, variables, strict=True)])

    def _test(self, variable: int) -> tuple[float, float]:
        check_time()
        codes, levels = self.model.codes(variable)
        finer, n_finer = _renumbered(self.strata * levels + codes, self.n_strata * levels)
        n_classes = self.model.n_classes
        counts = np.bincount(finer * n_classes + self.model.y, self.model.design.weights, n_finer * n_classes)
        cells = counts.reshape(-1, n_classes)
        left = 2.0 * (_entropy(cells.sum(axis=1)) - _entropy(counts))
        return self.deviance - left, float(self._df(finer, n_finer))

    def _df(self, finer: Codes, n_finer: int) -> float:
        """Σ_s (levels of x in s − 1)(levels of y in s − 1)."""
        parent = np.zeros(n_finer, dtype=np.intp)
        parent[finer] = self.strata
        occupied = np.bincount(finer, minlength=n_finer) > 0
        x_levels = np.bincount(parent[occupied], minlength=self.n_strata)
        y_levels = (self.counts > 0).sum(axis=1)
        return float(np.maximum(x_levels - 1, 0) @ np.maximum(y_levels - 1, 0))


def _codes(column: Any, name: Name) -> tuple[Codes, int]:
    """Numbers as codes, a level a value."""
    levels, codes = np.unique(column.toarray() if sparse.issparse(column) else column, return_inverse=True)
    if len(levels) > _MOST_LEVELS:
        raise InvalidInput(
            f"family 'gsquare' needs categories, but column {name!r} holds {len(levels)} different numbers: cut it "
            "into intervals, leave it out with exclude, or choose a family for numeric predictors"
        )
    return codes.ravel(), len(levels)


def _renumbered(cell: Codes, n_cells: int) -> tuple[Codes, int]:
    """Cells numbered from 0 without the empty ones, when a table of all of them would be mostly empty."""
    if n_cells <= _DENSE_CELLS * len(cell):
        return cell, n_cells
    present, numbered = np.unique(cell, return_inverse=True)
    return numbered, len(present)


def _entropy(counts: NDArray[Any]) -> float:
    """Σ n log n, with 0 log 0 = 0."""
    return float(special.xlogy(counts, counts).sum())


def _tested(tests: Sequence[tuple[float, float]]) -> Evidence:
    return evidence(np.array([test[0] for test in tests]), np.array([test[1] for test in tests]))
