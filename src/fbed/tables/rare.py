"""Levels of categories that few rows have: a remark, or one level for all of them on request."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.rules.p_values import Floats
from fbed.tables.columns import Factor, listing
from fbed.tables.table import Table

_FEW_ROWS = 5  # the usual rule for χ² approximations

OTHER = "(other)"
"""The level that rare ones become."""


def check_rare_levels(rare_levels: Any) -> None:
    """Refuse what is neither a number of rows nor a part of them."""
    if rare_levels is None:
        return
    number = isinstance(rare_levels, Real) and not isinstance(rare_levels, (bool, np.bool_))
    if not number or not (0 < rare_levels < 1 or (1 <= rare_levels < np.inf and rare_levels == round(rare_levels))):
        raise InvalidInput(
            "rare_levels is the number of rows that a level needs to stand alone (2, 3, …), or a part of all rows "
            f"(0.01, say), got {rare_levels!r}"
        )


def with_rare_levels_joined(table: Table, weights: Floats, rare_levels: float) -> tuple[Table, list[str]]:
    """Levels with fewer rows than asked for become one level of their column, where there are several; and a note."""
    least = rare_levels * float(weights.sum()) if rare_levels < 1 else rare_levels
    factors, joined = dict(table.factors), {}
    for j, factor in table.factors.items():
        if j in table.excluded:
            continue
        rare = factor.totals(weights) < least
        if rare.sum() > 1:
            factors[j] = _joined(factor, rare)
            joined[j] = f"{table.column_name(j)} ({int(rare.sum())} of {len(factor.levels)})"
    if not joined:
        return table, []
    told = f"levels with fewer than {least:g} rows were joined to {OTHER!r}: {listing(joined.values(), quote=False)}"
    return replace(table, factors=factors), [told]


def _joined(factor: Factor, rare: np.ndarray[Any, np.dtype[np.bool_]]) -> Factor:
    """The kept levels in their order, then the other ones as one; a kept level of that name takes them in."""
    kept = [level for level, is_rare in zip(factor.levels, rare.tolist(), strict=True) if not is_rare]
    levels = kept if OTHER in kept else [*kept, OTHER]
    new = np.append(np.where(rare, levels.index(OTHER), np.cumsum(~rare) - 1), -1)  # the last one is for code −1
    return replace(factor, codes=new[factor.codes].astype(factor.codes.dtype), levels=tuple(levels))


def few_rows(table: Table, weights: Floats) -> list[str]:
    """A remark on categories that few rows have: what is found about them is rough."""
    rare = {}
    for j, factor in table.factors.items():
        few = int((factor.totals(weights) < _FEW_ROWS).sum())
        if few and len(factor.levels) > 1:
            rare[j] = f"{table.column_name(j)} ({few} of {len(factor.levels)})"
    if not rare:
        return []
    return [
        f"levels with fewer than {_FEW_ROWS} rows: {listing(rare.values(), quote=False)}; tests of such columns are "
        "rough, consider joining levels"
    ]
