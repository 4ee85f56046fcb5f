"""Products of matrices of many rows and columns: block after block of rows, with a look at the clock before each.

A category of hundreds of levels, seen as columns, makes one product take seconds. Small products are made at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fbed.clock import check_time
from fbed.rules.p_values import Floats

_AT_A_STRETCH = 2**30  # multiplications between two looks at the clock: a tenth of a second or so
_LEAST_ROWS = 64  # of a block: with fewer, the product would be slower by far


def weighted_inner(left: Floats, weight: Floats, right: Floats) -> Floats:
    """LᵀWR, weights a row."""
    n, size = len(left), left.shape[1] * right.shape[1]
    if n * size <= _AT_A_STRETCH:
        return np.asarray(left.T @ (weight[:, None] * right))
    total = np.zeros((left.shape[1], right.shape[1]))
    for rows in _blocks(n, size):
        total += left[rows].T @ (weight[rows, None] * right[rows])
    return total


def times(rows: Floats, matrix: Floats) -> Floats:
    """A matrix of many rows by one of few; each column in one piece, whose ends are found in a tenth of the time."""
    n, size = len(rows), matrix.size
    if n * size <= _AT_A_STRETCH:
        return np.asarray((matrix.T @ rows.T).T)
    out = np.empty((n, matrix.shape[1]), order="F")
    for some in _blocks(n, size):
        out[some] = rows[some] @ matrix
    return out


def _blocks(n: int, size: int) -> Iterator[slice]:
    step = max(_LEAST_ROWS, _AT_A_STRETCH // size)
    for first in range(0, n, step):
        check_time()
        yield slice(first, first + step)
