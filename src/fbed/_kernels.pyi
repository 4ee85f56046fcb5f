"""Loops in C++ over columns; see src/kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Which = NDArray[np.int64]

class DenseColumns:
    """Columns of a dense matrix of any real type and layout."""

    def __init__(self, matrix: NDArray[Any]) -> None: ...
    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, number of values that are not finite and not 0, a row a column."""
    def gather(self, which: Which, center: Floats, scale: Floats) -> Floats:
        """Columns (x − centre)/scale, column-major; zero where the scale is."""
    def dots(self, which: Which, v: Floats) -> Floats:
        """Inner products of raw columns with v."""

class SparseColumns:
    """Columns of a CSC matrix."""

    def __init__(self, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], n: int) -> None: ...
    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, number of values that are not finite and not 0, a row a column."""
    def gather(self, which: Which, center: Floats, scale: Floats) -> Floats:
        """Columns (x − centre)/scale, column-major and dense; zero where the scale is."""
    def dots(self, which: Which, v: Floats) -> Floats:
        """Inner products of raw columns with v."""

class LogisticNull:
    """A fitted logistic model, asked about columns that could join it.

    It knows some of the rows of the data; of those, the ones with active = 0 are only bounded.
    """

    counts: list[int]
    """How far candidates had to be looked at: brackets, columns formed, refinements and their iterations."""

    def __init__(
        self,
        G: Floats,
        weight: Floats,
        y: Floats,
        eta: Floats,
        active: Floats,
        rows: Which,
        deviance: float,
        idle_cost: float,
    ) -> None:
        """G has a row for each of `rows`. Upper bounds pay `idle_cost`; lower bounds watch what idle rows lose."""
    def support(
        self,
        columns: DenseColumns | SparseColumns,
        which: Which,
        scale: Floats,
        critical: float,
        refine: bool,
        spare_wide: bool,
    ) -> tuple[Floats, Floats, Floats]:
        """Bounds of the statistic for columns that are mostly 0, and the norm² left of each after the model.

        That norm² is NaN for undecided columns that were spared since they have too many entries.
        """
    def look(self, X: Floats, projections: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The same for columns of a dense block, from their projections on the model, and their norm² before it."""
    def dense(
        self, X: Floats, total: Floats, lower: Floats, upper: Floats, critical: float, refine: bool
    ) -> tuple[Floats, Floats, Floats]:
        """The same for columns that are orthogonal to the model, from what is known of them and of their norm²."""
    def first(self, u: Floats, low: Floats, high: Floats, norm: float) -> tuple[Floats, Floats]:
        """Bounds for a model with an intercept only, from scores and extremes of standardised columns."""
    def contest(
        self,
        columns: DenseColumns | SparseColumns,
        which: Which,
        center: Floats,
        scale: Floats,
        mostly_zero: Floats,
        lower: Floats,
        upper: Floats,
        race: bool,
    ) -> tuple[Floats, Floats, int, Floats]:
        """Refine contenders; their bounds, the position of the best, and the linear predictor of its model."""

def fit_logistic(
    Z: Floats, weight: Floats, y: Floats, starts: Floats, tolerance: float, enough: float
) -> tuple[Floats, Floats, float, float, float, bool, int]:
    """Coefficients, linear predictor, deviance attained, lower bound on the deviance, squared Newton decrement, whether
    separated, number of iterations.

    Begins at the best of the rows of `starts`. Ends early when the deviance is certain to be more than `enough`;
    otherwise the bound is the deviance itself, or 0 if the fit did not converge."""

def whiten(Z: Floats, curvature: Floats) -> tuple[Floats, Floats]:
    """M such that Z·M is orthonormal in the curvature of the rows, and orthonormal directions that move no such row."""

def bound_functions(z: float) -> tuple[float, float, float]:
    """P(z), P4(z) and E4(z)."""

def elementary_functions(x: float, e: float) -> tuple[float, float]:
    """exp(x) for x ≤ 0 and log(1 + e) for 0 ≤ e ≤ 1."""
