"""Columns that are mostly one value, such as words: less that value they are mostly 0, and kernels skip zeros.

The span of a model is the same whatever its columns are shifted by, as long as there is an intercept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed.models.base import Indices
from fbed.models.engines.neighbours import standardised_zeros
from fbed.models.likelihoods.likelihood import RegressionFit
from fbed.rules.p_values import Floats

_QUICKER = 4  # how many times quicker products of all pairs of values in a row are, each, than those of its entries
APART = 0.1  # of a column's length beside the others, at least: otherwise an orthonormal basis has more digits


@dataclass(frozen=True)
class SparseBasis:
    """Columns of the model, mostly 0 and of unit mean square, after the constant; `columns` = Z·triangle."""

    columns: Floats
    triangle: Floats

    def from_orthonormal(self, coefficients: Floats) -> Floats:
        """Coefficients of these columns, given those of Z."""
        return np.asarray(linalg.solve_triangular(self.triangle, coefficients))

    def to_orthonormal(self, coefficients: Floats) -> Floats:
        """The other way round."""
        return np.asarray(self.triangle @ coefficients)


def sparse_basis(fit: RegressionFit) -> SparseBasis | None:
    """The model's own columns instead of Z, None where they are not mostly 0 or next to collinear."""
    span, design = fit.span, fit.model.design
    if not span.full_rank:
        return None
    selected = np.array(span.selected, dtype=np.intp)
    columns, _ = mostly_zero(fit, np.repeat(selected, design.width[selected]), design.stack(span.selected))
    columns = np.asfortranarray(np.column_stack([np.ones(design.n_rows), columns]))
    if span.rank > 1 and _QUICKER * _pairs(np.count_nonzero(columns, axis=1)).sum() > len(columns) * _pairs(span.rank):
        return None
    triangle = np.triu(span.Q.T @ (span.root[:, None] * columns)) / np.sqrt(design.n)
    return SparseBasis(columns, triangle) if np.diag(triangle).min() > APART else None


def mostly_zero(fit: RegressionFit, variables: Indices, columns: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Standardised columns of unit mean square, less what 0 has become where they are mostly 0; where that is."""
    design = fit.model.design
    zero = standardised_zeros(fit, variables, columns)
    few = np.count_nonzero(columns == zero, axis=0) * 2 > len(columns)
    shifted = columns - np.where(few, zero, 0.0)
    square = design.weights @ shifted**2 / design.n
    return shifted / np.sqrt(np.where(square > 0.0, square, 1.0)), few


def _pairs(k: Any) -> Any:
    return k * (k + 1) // 2
