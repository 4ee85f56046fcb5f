"""The columns of a final model: how values of a table, old or new, become terms.

A number is a term; a category has a term a level but the first, its reference; where a column had missing values that
an indicator tells, there is a term for that, and a number that stands for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fbed.larger_than_memory.designs import FarDesign
from fbed.matrix.design import Design
from fbed.tables.table import Name

VALUE, MISSING = "value", "missing"


@dataclass(frozen=True)
class Column:
    """A column that the model reads.

    `parts` of a column of numbers are 'value', 'missing' (the indicator) or both; a category has `levels`, of which the
    first is the reference. `fill` stands for a missing number, and `scale` is the standard deviation of the values;
    `means` are those of its terms, which stand for what is not known where somebody asks for that.
    """

    name: Name
    index: int  # among the predictors
    variable: Name
    parts: tuple[str, ...] = ()
    levels: tuple[Any, ...] = ()
    fill: float | None = None
    scale: float = 1.0
    means: tuple[float, ...] = ()

    @property
    def n_terms(self) -> int:
        """How many terms it has."""
        return len(self.levels) - 1 if self.levels else len(self.parts)

    @property
    def terms(self) -> tuple[str, ...]:
        """What its terms are called."""
        if self.levels:
            return tuple(f"{self.name}[{level}]" for level in self.levels[1:])
        return tuple(str(self.name) if part == VALUE else f"{self.name}[missing]" for part in self.parts)

    @property
    def scales(self) -> tuple[float, ...]:
        """The standard deviation of a number, 1 for a level and for an indicator."""
        if self.levels:
            return (1.0,) * self.n_terms
        return tuple(self.scale if part == VALUE else 1.0 for part in self.parts)

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold."""
        levels = [plain(level) for level in self.levels]
        return {**asdict(self), "parts": list(self.parts), "levels": levels, "means": list(self.means)}

    @classmethod
    def from_plain(cls, saved: Mapping[str, Any]) -> Column:
        """Read back from JSON."""
        several = {name: tuple(saved.get(name, ())) for name in ("parts", "levels", "means")}
        return cls(**{**saved, **several})


def plain(value: Any) -> Any:
    """A level or class as JSON holds it: itself, or its text."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (str, int, float, bool)) else str(value)


Known = dict[int, tuple[Column, ...]]
"""The columns of variables that somebody asked for."""


def read_columns(design: Design, selected: Sequence[int], known: Known | None = None) -> tuple[Column, ...]:
    """The columns of the selected variables, in the order of the model's terms; those that are `known` are not read."""
    known, table = {} if known is None else known, design.table
    for variable in selected:
        if variable not in known:
            name = table.name(variable)
            known[variable] = tuple(_column(design, j, name) for j in table.columns(variable))
    return tuple(column for variable in selected for column in known[variable])


def _column(design: Design, j: int, variable: Name) -> Column:
    table = design.table
    factor = table.factors.get(j)
    if factor is not None:
        means = tuple((factor.totals(design.weights)[1:] / design.n).tolist())
        return Column(table.column_name(j), j, variable, levels=tuple(map(plain, factor.levels)), means=means)
    places = table.places(j)
    parts = tuple(part for part, place in zip((VALUE, MISSING), places, strict=False) if design.scale[place] > 0)
    fill = _fill(design, j, *places) if len(places) > 1 else None
    scale = float(design.scale[places[0]]) or 1.0
    means = tuple(float(design.center[place]) for place in places if design.scale[place] > 0)
    return Column(table.column_name(j), j, variable, parts, fill=fill, scale=scale, means=means)


def _fill(design: Design, j: int, place: int, indicator: int) -> float:
    """The value that missing numbers were set to."""
    if isinstance(design, FarDesign):
        return design.fill(j)
    matrix = design.table.matrix
    pair = matrix[:, [place, indicator]]
    values, where = (pair.toarray() if sparse.issparse(pair) else pair).T
    return float(values[np.flatnonzero(where)[0]])
