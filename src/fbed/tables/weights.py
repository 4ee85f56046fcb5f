"""Weights of rows, which are frequencies: read, and refused where they count nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.rules.p_values import Floats
from fbed.tables.named import refuse_masked

_WIDEST = 1e12  # ratio of weights; sums lose what is a rounding error of the largest
_FEWEST, _MOST = 1e-6, 1e15  # rows that weights may stand for


def read_weights(sample_weight: Any, n_rows: int) -> tuple[Floats, list[str]]:
    """Frequencies as floats, and a note when they are not whole numbers."""
    if sample_weight is None:
        return np.ones(n_rows), []
    refuse_masked(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"sample_weight must hold numbers: {error}") from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise InvalidInput(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: give one weight a row (Sample weights must "
            "be 1D array or scalar)"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInput("sample_weight must be finite and 0 or more: weight 2 stands for the row twice, 0 for none")
    if int((weights > 0).sum()) < 3:
        raise InvalidInput(f"selection needs at least 3 rows with a weight above zero, got {int((weights > 0).sum())}")
    _check_range(weights)
    if np.any(weights != np.round(weights)):
        return weights, [
            "the weights are not whole numbers; they count as frequencies, so the sample size is their sum "
            f"({weights.sum():g})"
        ]
    return weights, []


def _check_range(weights: Floats) -> None:
    """Refuse frequencies beside which others are rounding, and sums that are no sample size."""
    least, most = float(weights[weights > 0].min()), float(weights.max())
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if most > _WIDEST * least:
        raise InvalidInput(
            f"sample_weight ranges from {least:g} to {most:g}, more than {_WIDEST:g}-fold: beside the heaviest "
            "rows the lightest are less than rounding; leave those out by a weight of 0"
        )
    if not _FEWEST <= total <= _MOST:
        raise InvalidInput(
            f"the sum of sample_weight is the sample size and must lie between {_FEWEST:g} and {_MOST:g}, got "
            f"{total:g}: weights count rows, weight 2 stands for the row twice"
        )
