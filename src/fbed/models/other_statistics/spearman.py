"""Partial rank correlation: the linear model on ranks, r = partial correlation of rank(x) and rank(y) given rank(S).

The p-value is that of t = r·√((n − 2 − k)/(1 − r²)) with n − 2 − k degrees of freedom. Ties share their mean rank, and
weights are frequencies: a row of weight 2 takes two ranks. A categorical column is tested through its indicators, whose
ranks are the same indicators on another scale.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel
from fbed.models.other_statistics.linear import Gaussian
from fbed.rules.p_values import Floats


class Spearman(Gaussian):
    """A numeric or ordered outcome, by ranks."""

    name = "spearman"
    has_likelihood = False  # ranks have no likelihood; the statistic −n·log(1 − r²) only carries the p-value

    def __init__(self, design: Design, y: Floats) -> None:
        super().__init__(ranked_design(design), ranks(y, design.weights))

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients on the scale of ranks."""
        return dataclasses.replace(super().describe(selected, near), family=self.name)


def ranked_design(design: Design) -> Design:
    """The same variables with numbers replaced by ranks."""
    table, matrix = design.table, design.table.matrix
    ranked = np.empty(matrix.shape, order="F")
    for j in range(matrix.shape[1]):
        check_time()
        column = matrix[:, [j]].toarray()[:, 0] if sparse.issparse(matrix) else matrix[:, j]
        ranked[:, j] = ranks(column, design.weights)
    return Design(dataclasses.replace(table, matrix=ranked), design.weights)


def ranks(values: NDArray[np.generic], weights: Floats) -> Floats:
    """Mean rank of every value, each row counted as often as its weight says."""
    _, code = np.unique(values, return_inverse=True)
    total = np.bincount(code, weights)
    return np.asarray((np.cumsum(total) - total + (total + 1.0) / 2.0)[code])
