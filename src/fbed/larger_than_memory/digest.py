"""What the first pass over the parts tells of every column: moments and extremes of numbers, the different values of
anything else, how many are missing. From it the table is described without being there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import DenseColumns
from fbed.errors import InvalidInput
from fbed.larger_than_memory.part_readers import Part
from fbed.matrix.design import plain_numbers
from fbed.rules.p_values import Floats
from fbed.tables.columns import raw_column
from fbed.tables.encoding import Encoded, totals
from fbed.tables.table import Name

INFORMATION = 1e-13
"""A column whose spread is below this part of its size holds rounding, not information: as in the kernels."""

_MOST_VALUES = 2**20  # different values of one column that are kept: nothing with more of them is a category


@dataclass(frozen=True)
class Wanted:
    """A column to be looked at: its name in the source, and whether its numbers are codes."""

    name: Name
    label: str
    coded: bool


@dataclass(frozen=True)
class Moments:
    """Of the known numbers of some rows of several columns: weight, centre, scale, extremes; and how many are not."""

    weight: Floats
    center: Floats
    scale: Floats
    low: Floats
    high: Floats
    missing: Floats
    infinite: Floats

    def joined(self, other: Moments) -> Moments:
        """Of both together, without squares that could overflow."""
        weight = self.weight + other.weight
        safe = np.where(weight > 0, weight, 1.0)
        own, its = self.weight / safe, other.weight / safe
        apart = np.where((own > 0) & (its > 0), other.center - self.center, 0.0)
        within = np.hypot(np.sqrt(own) * self.scale, np.sqrt(its) * other.scale)
        return Moments(
            weight,
            np.where(own > 0, self.center, other.center) + apart * its,
            np.hypot(within, np.sqrt(own * its) * np.abs(apart)),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.missing + other.missing,
            self.infinite + other.infinite,
        )


@dataclass(frozen=True)
class Values:
    """The different values of a column, with number and weight of the rows that have each; the missing ones last."""

    values: list[Any]
    rows: Floats
    weight: Floats
    declared: bool

    def joined(self, other: Values) -> Values:
        """Values in the order in which they were met."""
        place = {key_of(value): i for i, value in enumerate(self.values)}
        values = list(self.values)
        for value in other.values:
            if place.setdefault(key_of(value), len(values)) == len(values):
                values.append(value)
        if len(values) > _MOST_VALUES:
            raise InvalidInput(
                f"a column has more than {_MOST_VALUES:,} different values such as {values[0]!r}, like an identifier: "
                "leave it out by exclude"
            )
        rows, weight = np.zeros(len(values) + 1), np.zeros(len(values) + 1)
        for found in (self, other):
            at = [*(place[key_of(value)] for value in found.values), len(values)]
            rows[at] += found.rows
            weight[at] += found.weight
        return Values(values, rows, weight, self.declared and other.declared)


def key_of(value: Any) -> tuple[str, Any]:
    """What tells values apart: 1 and True are different ones."""
    try:
        hash(value)
    except TypeError:
        return type(value).__name__, repr(value)
    return type(value).__name__, value


@dataclass(frozen=True)
class Digest:
    """Of some columns: moments and types of those that hold numbers, by index, and the values of the others."""

    numeric: tuple[int, ...]
    types: tuple[np.dtype[Any], ...]
    moments: Moments
    values: dict[int, Values]
    n_rows: int
    n_bytes: int  # that were read

    def joined(self, other: Digest) -> Digest:
        """Of both parts together; a column is of one kind everywhere."""
        if self.numeric != other.numeric:
            return _of_one_kind(self, other)
        values = {j: found.joined(other.values[j]) for j, found in self.values.items()}
        return Digest(
            self.numeric,
            tuple(map(np.promote_types, self.types, other.types)),
            self.moments.joined(other.moments),
            values,
            self.n_rows + other.n_rows,
            self.n_bytes + other.n_bytes,
        )


def _of_one_kind(one: Digest, other: Digest) -> Digest:
    strange = sorted(set(one.numeric) ^ set(other.numeric))
    raise InvalidInput(
        f"column {strange[0]} (counted from 0) holds numbers in some parts of the table and something else in others: "
        "give it one type, or leave it out with exclude"
    )


def digest(
    part: Part,
    wanted: dict[int, Wanted],
    together: int,
    weights: Floats | None,
    keep: NDArray[np.bool_] | None,
) -> Digest:
    """The first look at a part, some columns at a time, at the rows that are kept."""
    numeric: dict[int, Floats] = {}
    types: dict[int, np.dtype[Any]] = {}
    values: dict[int, Values] = {}
    n_bytes, n = 0, part.n_rows if keep is None else int(keep.sum())
    weight = np.ones(n) if weights is None else weights
    for some in batches(list(wanted), together):
        arrays: dict[int, NDArray[Any]] = {}
        for j, found in zip(some, read(part, [wanted[j] for j in some], keep), strict=True):
            n_bytes += found.codes.nbytes if isinstance(found, Encoded) else found.nbytes
            if isinstance(found, Encoded):
                values[j] = _values(found, weight)
            elif wanted[j].coded:
                values[j] = _different(found, weight)
            else:
                arrays[j] = plain_numbers(np.ascontiguousarray(found))
                types[j] = arrays[j].dtype
        numeric |= dict(zip(arrays, _moments(list(arrays.values()), weight), strict=True))
    columns = np.array([numeric[j] for j in sorted(numeric)]).reshape(-1, 7).T
    kinds = tuple(types[j] for j in sorted(numeric))
    return Digest(tuple(sorted(numeric)), kinds, Moments(*columns), values, n, n_bytes)


def batches(items: Sequence[int], size: int) -> list[list[int]]:
    """Some at a time."""
    return [list(items[i : i + size]) for i in range(0, len(items), max(1, size))]


def read(part: Part, wanted: Sequence[Wanted], keep: NDArray[np.bool_] | None) -> list[NDArray[Any] | Encoded]:
    """Columns of a part as numbers or encoded, of the rows that are kept."""
    found = zip(wanted, part.columns([column.name for column in wanted]), strict=True)
    raw = [raw_column(column.label, values) for column, values in found]
    if keep is None:
        return raw
    return [column.rows(keep) if isinstance(column, Encoded) else column[keep] for column in raw]


def _moments(columns: list[NDArray[Any]], weights: Floats) -> Floats:
    """A row of `Moments` for each column."""
    if not columns:
        return np.zeros((0, 7))
    n, total = len(weights), float(weights.sum())
    out = np.zeros((len(columns), 7))
    out[:, 3], out[:, 4] = np.inf, -np.inf
    if n == 0:
        return out
    kernel = DenseColumns(columns, n)
    stats = kernel.stats(weights, total, 0, len(columns))
    out[:, 0] = total
    out[:, 1:5] = stats[:, :4]
    for i in np.flatnonzero(stats[:, 4]).tolist():
        known, infinite = ~np.isnan(columns[i]), int(np.isinf(columns[i]).sum())
        if infinite or not known.any():
            out[i] = (0.0, 0.0, 0.0, np.inf, -np.inf, n - int(known.sum()), infinite)
        else:
            out[i] = _moments([np.ascontiguousarray(columns[i][known])], weights[known])[0]
            out[i, 5] = n - int(known.sum())
    return out


def _values(column: Encoded, weights: Floats) -> Values:
    missing = column.codes < 0
    rows = np.append(totals(column.codes, len(column.values)), missing.sum()).astype(float)
    weight = np.append(totals(column.codes, len(column.values), weights), weights[missing].sum())
    return Values(list(column.values), rows, weight, column.declared)


def _different(numbers: NDArray[Any], weights: Floats) -> Values:
    """Numbers that are codes."""
    missing = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(len(numbers), dtype=bool)
    levels, codes = np.unique(numbers[~missing], return_inverse=True)
    known = _values(Encoded(codes.astype(np.int64), levels.tolist()), weights[~missing])
    rows, weight = known.rows, known.weight
    rows[-1], weight[-1] = missing.sum(), weights[missing].sum()
    return Values([float(level) for level in known.values], rows, weight, declared=False)


def complete(
    part: Part, wanted: dict[int, Wanted], together: int, present: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], dict[int, int], dict[int, int]]:
    """Rows in which no column is missing, and how many present values of each column are missing, or infinite."""
    known = np.ones(part.n_rows, dtype=bool)
    missing: dict[int, int] = {}
    infinite: dict[int, int] = {}
    for some in batches(list(wanted), together):
        for j, column in zip(some, read(part, [wanted[j] for j in some], None), strict=True):
            if isinstance(column, Encoded):
                here = column.codes < 0
            elif column.dtype.kind == "f":
                here = np.isnan(column)
                infinite[j] = int(np.isinf(column).sum())
            else:
                continue
            if here.any():
                missing[j] = int((here & present).sum())
                known &= ~here
    return known, missing, {j: count for j, count in infinite.items() if count}
