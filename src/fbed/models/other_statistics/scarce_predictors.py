"""Predictors about which hardly any cluster says something: their robust tests have an answer, but next to no power."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.design import Design
from fbed.models.base import Indices, single_columns
from fbed.tables.columns import listing

FEW = 2
"""A predictor that differs in so many clusters or fewer has about one degree of freedom, or none."""


def remarks(design: Design, cluster: NDArray[np.intp]) -> tuple[str, ...]:
    """A remark on the predictors that differ in one or two clusters only."""
    names = [repr(design.table.name(int(variable))) for variable in scarce(design, cluster)]
    if not names:
        return ()
    return (
        f"predictors that differ in {FEW} clusters or fewer from what they are in all others: "
        f"{listing(names, quote=False)}; robust tests can tell next to nothing about them",
    )


def scarce(design: Design, cluster: NDArray[np.intp]) -> Indices:
    """Variables of one column that have the same value in all clusters but one or two."""
    order = np.argsort(cluster, kind="stable")
    first = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    single = np.flatnonzero(design.width == 1)
    found = []
    for start in range(0, len(single), design.block_size):
        some = single[start : start + design.block_size]
        values = single_columns(design, some)[order]
        low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
        usual = np.sort(low, axis=0)[len(low) // 2]  # where nearly all clusters agree
        n_different = ((low != usual) | (high != usual)).sum(axis=0)
        found.append(some[(n_different > 0) & (n_different <= min(FEW, (len(first) - 1) // 2))])
    return np.concatenate(found) if found else single
