"""A table that is described but not there: from the digest of its parts to what models and parts must know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.larger_than_memory.digest import INFORMATION, Digest, Values, Wanted, key_of
from fbed.rules.p_values import Floats
from fbed.tables.columns import Factor, coded, read_column
from fbed.tables.encoding import Codes, Encoded, totals
from fbed.tables.missing import told_indicators, with_level
from fbed.tables.table import Table, all_refused, refuse_infinite, refuse_not_finite


@dataclass(frozen=True)
class Different(Encoded):
    """The different values of a column, as if each were a row; `rows_of` says how many rows have each."""

    rows_of: Floats = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return int(self.rows_of.sum())

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many rows have each value."""
        return self.rows_of[:-1].astype(np.intp)


@dataclass(frozen=True)
class DigestFactor(Factor):
    """A category that is not there: `codes` are of its different values, the missing one last, not of rows."""

    weight: Floats = field(default_factory=lambda: np.zeros(0))  # of the rows that have each value
    rows_missing: int = 0

    def totals(self, weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """The weight of each level."""
        return totals(self.codes, len(self.levels), self.weight)

    @property
    def n_missing(self) -> int:
        """Rows without a value, of a column that has no level for them."""
        return self.rows_missing if self.codes[-1] < 0 else 0


@dataclass(frozen=True)
class PartFactor(Factor):
    """Some rows of a category; the weight of each level is that of all rows."""

    of_all: Floats = field(default_factory=lambda: np.zeros(0))

    def totals(self, weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """The weight of each level among all rows."""
        return self.of_all


@dataclass(frozen=True)
class Reading:
    """How a column of a part becomes numbers or codes: `by_value` has the code, or number, of each different value."""

    wanted: Wanted
    by_value: Mapping[tuple[str, Any], float] | None = None
    missing: float = -1  # code, or number, of what is missing
    n_levels: int = 0  # 0 for numbers
    code: np.dtype[Any] = np.dtype(np.int8)  # noqa: RUF009  # it never changes
    fill: float | None = None

    def __call__(self, raw: NDArray[Any] | Encoded) -> NDArray[Any]:
        """The column of some rows."""
        if self.by_value is None:
            assert not isinstance(raw, Encoded)  # the digest has seen to that
            return raw if self.fill is None else np.where(np.isnan(raw), self.fill, raw)
        if not isinstance(raw, Encoded):
            return self._coded(raw)
        found = [self.by_value[key_of(value)] for value in raw.values]
        kind = self.code if self.n_levels else np.dtype(np.float64)
        return np.asarray(np.array([*found, self.missing])[raw.codes].astype(kind))

    def _coded(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Codes of numbers that are categories."""
        assert self.by_value is not None
        known = np.array(sorted(value for _, value in self.by_value))
        codes = np.array([self.by_value["float", value] for value in known.tolist()] + [self.missing])
        numbers = raw.astype(np.float64)
        at = np.where(np.isnan(numbers), len(known), np.minimum(np.searchsorted(known, numbers), len(known) - 1))
        return np.asarray(codes[at].astype(self.code))

    def is_missing(self, raw: NDArray[Any] | Encoded) -> NDArray[np.bool_]:
        """Rows without a value."""
        return raw.codes < 0 if isinstance(raw, Encoded) else np.isnan(raw)


@dataclass(frozen=True)
class Outline:
    """The table without its values; centre, scale and extremes of every column that its matrix would have."""

    table: Table
    readings: Mapping[int, Reading]
    center: Floats
    scale: Floats
    low: Floats
    high: Floats
    n: float

    def columns_of(self, variables: Any) -> list[int]:
        """Columns of the table that some variables need."""
        return [column for variable in variables for column in self.table.columns(int(variable))]


def described(
    table: Table, wanted: Mapping[int, Wanted], found: Digest, n: float, missing: str
) -> tuple[Outline, list[str]]:
    """From the digest to the table; values that are missing or infinite are refused, or told by indicators."""
    factors: dict[int, Factor] = {j: _left_out(n) for j in table.excluded}
    readings: dict[int, Reading] = {}
    about: dict[int, Floats] = {}  # weight, centre, scale, low, high
    counts = np.zeros(table.n_variables, dtype=np.intp)
    moments = found.moments
    rows = np.column_stack([moments.weight, moments.center, moments.scale, moments.low, moments.high])
    for i, j in enumerate(found.numeric):
        about[j], readings[j] = rows[i], Reading(wanted[j])
        counts[j] = int(moments.missing[i] + moments.infinite[i])
    infinite = {j: int(c) for j, c in zip(found.numeric, moments.infinite, strict=True) if c}
    if infinite:
        refuse_infinite(table, infinite)
    refused: dict[str, InvalidInput] = {}
    for j, values in found.values.items():
        counts[j] = int(values.rows[-1])
        try:
            read = _understood(wanted[j], values)
        except InvalidInput as error:
            refused[wanted[j].label] = error
            continue
        if isinstance(read, DigestFactor):
            factors[j] = read
        else:
            about[j] = _moments_of(read, values.weight[:-1])
            numbers = {key_of(value): float(x) for value, x in zip(values.values, read, strict=True)}
            readings[j] = Reading(wanted[j], numbers, missing=np.nan)
    if refused:
        raise all_refused(refused)
    notes: list[str] = []
    where = {j: int(counts[j]) for j in np.flatnonzero(counts).tolist()}
    if missing != "indicator":
        refuse_not_finite(table, counts, {})
        where = {}
    elif where:
        factors = {j: with_level(f) if j in where else f for j, f in factors.items()}
        notes = told_indicators(table, where)
    numeric = sorted(about)
    position = np.full(table.n_variables, -1, dtype=np.intp)
    position[numeric] = np.arange(len(numeric))
    shown = [j for j in where if j in about]
    indicators = {j: len(numeric) + i for i, j in enumerate(shown)}
    for j in shown:
        readings[j] = replace(readings[j], fill=float(about[j][1]))
    columns = [_filled(about[j], n) for j in numeric] + [_indicator(float(about[j][0]), n) for j in shown]
    center, scale, low, high = np.array(columns).reshape(-1, 4).T
    scale = np.where(scale <= INFORMATION * np.maximum(np.abs(low), np.abs(high)), 0.0, scale)
    levels = dict(sorted(factors.items()))
    table = replace(table, position=position, factors=levels, indicators=indicators, n_rows=found.n_rows)
    outline = Outline(table, readings, center.copy(), scale, low.copy(), high.copy(), n)
    return with_codes(outline, wanted, found), notes


def with_codes(outline: Outline, wanted: Mapping[int, Wanted], found: Digest) -> Outline:
    """The outline whose readings of categories follow the levels that its table has now."""
    readings = dict(outline.readings)
    for j, values in found.values.items():
        factor = outline.table.factors.get(j)
        if factor is None:
            continue
        codes = {key_of(value): int(code) for value, code in zip(values.values, factor.codes, strict=False)}
        readings[j] = Reading(wanted[j], codes, int(factor.codes[-1]), max(1, len(factor.levels)), factor.codes.dtype)
    return replace(outline, readings=readings)


def _left_out(n: float) -> DigestFactor:
    """What stands for a column that is not read."""
    return DigestFactor(np.array([0, -1], dtype=np.int8), ("excluded",), np.array([n, 0.0]))


def _understood(wanted: Wanted, values: Values) -> DigestFactor | Floats:
    """Different values as levels, or as the numbers that they all are."""
    if wanted.coded and all(isinstance(value, float) for value in values.values):
        numbers = np.array(values.values, dtype=np.float64)
        read: NDArray[Any] | Factor = coded(repr(wanted.label), numbers, int(values.rows.sum()))
    else:
        order = np.arange(len(values.values), dtype=np.int64)
        read = read_column(wanted.label, Different(order, values.values, values.declared, values.rows), wanted.coded)
    if not isinstance(read, Factor):
        return np.asarray(read, dtype=np.float64)
    codes: Codes = np.append(read.codes, -1).astype(read.codes.dtype)
    return DigestFactor(codes, read.levels, values.weight, int(values.rows[-1]))


def _moments_of(numbers: Floats, weight: Floats) -> Floats:
    """Of numbers that came as objects, from the different ones."""
    total = float(weight.sum())
    if total == 0:
        return np.array([0.0, 0.0, 0.0, np.inf, -np.inf])
    center = float(weight @ numbers) / total
    widest = float(np.abs(numbers - center).max()) or 1.0
    scale = widest * float(np.sqrt(weight @ ((numbers - center) / widest) ** 2 / total))
    return np.array([total, center, scale, numbers.min(), numbers.max()])


def _filled(about: Floats, n: float) -> tuple[float, float, float, float]:
    """Centre, scale and extremes once missing numbers are the mean of the others; 0 where there are no others."""
    weight, center, scale, low, high = about.tolist()
    if weight == 0:
        return 0.0, 0.0, 0.0, 0.0
    return center, scale * float(np.sqrt(min(1.0, weight / n))), low, high


def _indicator(weight: float, n: float) -> tuple[float, float, float, float]:
    """Of the column that tells where numbers are missing."""
    share = 1.0 - weight / n
    return share, float(np.sqrt(max(share * (1.0 - share), 0.0))), 1.0 if weight == 0 else 0.0, 1.0
