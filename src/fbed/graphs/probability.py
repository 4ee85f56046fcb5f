"""Checks of probabilities, for files and for tables made in Python."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fbed.graphs.errors import GraphError

#: Files print their probabilities with as few as three decimals; a typing error is nearly always larger.
SUM_TOLERANCE = 1e-3


def as_distributions(values: ArrayLike, where: str) -> NDArray[np.float64]:
    """The values as distributions along the last axis, rescaled where rounding had their sum off 1."""
    table = np.asarray(values, dtype=np.float64)
    wrong = table[~((table >= 0) & (table <= 1))]  # written so that NaN is wrong too
    if wrong.size:
        raise GraphError(f"{where}: expected probabilities between 0 and 1, got {wrong[0]:g}. Correct the entry.")
    totals = table.sum(axis=-1, keepdims=True)
    off = np.abs(totals - 1) > SUM_TOLERANCE
    if off.any():
        raise GraphError(
            f"{where}: expected probabilities that sum to 1 (within {SUM_TOLERANCE:g}), got the sum "
            f"{totals[off][0]:g}. Correct the entries of this distribution."
        )
    return np.asarray(table / totals)
