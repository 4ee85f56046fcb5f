"""One column → numbers or categories; dates, identifiers and other things that are neither are refused.

Every question is asked about the different values of a column, see `encoding`.
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.tables.encoding import Codes, Encoded, code_type, encode_objects, encode_series, renumbered, totals

OBJECTS = "OUST"
"""Kinds of NumPy types that may hold text."""

EXACT = 2.0**53
"""Whole numbers below this have a floating-point number of their own."""

_SHOWN = 5  # names listed in an error message before it says 'and N more'
_MANY_NUMBERS = 10  # a text column with more different numbers than this was meant to be numeric
_MANY_DATES = 2  # a text column with more different dates than this was meant to be a time
_MARKERS = {"", "?", "-", "--", ".", "n/a", "na", "n.a.", "nan", "null", "none", "nil", "missing", "unknown", "#n/a"}
_DATE = re.compile(r"\s*(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{2}|\d{4}))([T\s].*)?", re.DOTALL)


@dataclass(frozen=True)
class Factor:
    """A categorical column: `codes[i]` is the position of row i's value in `levels`, −1 where it is missing.

    Codes are of the smallest type that holds them.
    """

    codes: Codes
    levels: tuple[Any, ...]

    def totals(self, weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """How many rows have each level, or the sum of their weights."""
        return totals(self.codes, len(self.levels), weights)

    @property
    def n_missing(self) -> int:
        """Rows without a value."""
        return int((self.codes < 0).sum())

    def rows(self, keep: NDArray[np.intp]) -> Factor:
        """The column on some of the rows, with the levels that occur there."""
        some = Factor(self.codes[keep], self.levels)
        present = np.flatnonzero(some.totals())
        levels = tuple(self.levels[code] for code in present)
        return Factor(renumbered(some.codes, present, len(self.levels)), levels)


def read_column(name: str, values: Any, categorical: bool = False) -> NDArray[Any] | Factor:
    """One column as numbers (NaN where missing) or a factor; `categorical` makes categories of anything."""
    column = values if isinstance(values, Encoded) else raw_column(name, values)
    if not isinstance(column, Encoded):
        return coded(repr(name), column) if categorical else column
    if column.declared:
        return _factor(name, column)
    return _declared(name, column) if categorical else _from_objects(name, column)


def raw_column(name: str, values: Any) -> NDArray[Any] | Encoded:
    """Numbers as they are, NaN where they are missing; anything else encoded, not yet understood."""
    if isinstance(values, nw.Series):
        return _raw_series(name, values)
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"column {name!r} has shape {array.shape}; a column has one dimension")
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind in OBJECTS:
        return encode_objects([array])[0]
    _refuse(name, str(array.dtype))


def coded(name: str, numbers: NDArray[Any], n_rows: int | None = None) -> Factor:
    """Numbers as codes of categories, a level a value; `n_rows` where they are the different ones of that many."""
    missing = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(len(numbers), dtype=bool)
    levels, codes = np.unique(numbers[~missing], return_inverse=True)
    _refuse_many_levels(name, len(levels), len(numbers) if n_rows is None else n_rows)
    out = np.full(len(numbers), -1, dtype=code_type(len(levels)))
    out[~missing] = codes
    whole = levels.dtype.kind == "f" and bool(((levels == np.round(levels)) & (np.abs(levels) < EXACT)).all())
    return Factor(out, tuple((levels.astype(np.int64) if whole else levels).tolist()))


def _raw_series(name: str, series: nw.Series[Any]) -> NDArray[Any] | Encoded:
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return _numeric_series(series)
    if dtype in (nw.Categorical, nw.Enum, nw.String, nw.Object):
        return encode_series(series)
    if series.null_count() == len(series):  # of no type at all, as polars and Arrow have it
        return np.full(len(series), np.nan)
    native = series.to_native()
    _refuse(name, str(getattr(native, "dtype", getattr(native, "type", dtype)) if dtype == nw.Unknown else dtype))


def _refuse(name: str, what: str) -> NoReturn:
    raise InvalidInput(
        f"column {name!r} holds {what}, which is neither a number nor a category: turn it into numbers (days since "
        f"a date, say), or leave it out with exclude=[{name!r}]"
    )


def _numeric_series(series: nw.Series[Any]) -> NDArray[Any]:
    if series.null_count():
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    array = np.asarray(series.to_numpy())
    if array.dtype.kind != "O":
        return array
    return array.astype(bool if series.dtype == nw.Boolean else np.float64)  # decimals come as objects


def _from_objects(name: str, column: Encoded) -> NDArray[Any] | Factor:
    """Objects that are all numbers, or all true or false, are numbers; others are categories."""
    values = column.values
    if not values or not (all(map(is_number, values)) or all(isinstance(v, (bool, np.bool_)) for v in values)):
        return _undeclared(name, column)
    return as_numbers(f"column {name!r}", [*values, np.nan])[column.codes]  # code −1 is the last one, NaN


def is_number(value: Any) -> bool:
    """Whether an object is a number; true and false are not."""
    return isinstance(value, (int, float, np.number, Decimal)) and not isinstance(value, bool)


def as_numbers(what: str, values: Sequence[Any]) -> NDArray[np.float64]:
    """Numbers that are Python's or anybody's objects, as floating-point numbers."""
    try:
        return np.array(values, dtype=object).astype(np.float64)
    except OverflowError as error:
        raise InvalidInput(
            f"{what} holds numbers beyond {np.finfo(np.float64).max:.1e}, the largest that can be computed with: "
            "divide them by a constant, or take logarithms"
        ) from error


def _undeclared(name: str, column: Encoded) -> Factor:
    """Text that nobody called a category: what looks like something else is refused."""
    factor = _factor(name, column)
    _refuse_times(name, column.values)
    remedy = f"name it in categorical=[{name!r}] if it is meant to be categories, or leave it out with"
    refuse_numbers_with_text(f"column {name!r}", column, f"{remedy} exclude=[{name!r}]")
    if len(factor.levels) > max(len(column) / 2, 2):
        raise InvalidInput(
            f"column {name!r} holds text with {len(factor.levels)} different values in {len(column)} rows, like an "
            f"identifier: leave it out with exclude=[{name!r}], or make it numeric or categorical"
        )
    return factor


def _declared(name: str, column: Encoded) -> Factor:
    factor = _factor(name, column)
    _refuse_many_levels(repr(name), len(factor.levels), len(column))
    return factor


def _refuse_many_levels(name: str, n_levels: int, n_rows: int) -> None:
    if n_levels > max(n_rows / 2, 2):
        raise InvalidInput(
            f"categorical names column {name}, which has {n_levels} different values in {n_rows} rows, like a "
            "measurement or an identifier: take it out of categorical, cut it into intervals, or exclude it"
        )


def _refuse_times(name: str, values: Sequence[Any]) -> None:
    """Dates as objects, or written as text."""
    times = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    found = next((value for value in values if isinstance(value, times) or type(value).__name__ == "Period"), None)
    if found is not None:
        _refuse(name, f"values of type {type(found).__name__}")
    different = {value for value in values if isinstance(value, str)}
    if len(different) > _MANY_DATES and all(_DATE.fullmatch(text) for text in different):
        raise InvalidInput(
            f"column {name!r} holds dates written as text, such as {min(different)!r}: turn them into numbers (days "
            f"since a date, say), leave them out with exclude=[{name!r}], or name them in categorical=[{name!r}] if "
            "they are no more than labels"
        )


def _factor(name: str, column: Encoded) -> Factor:
    """Levels in the order of the categories, or sorted; only those that occur, and equal values as one."""
    column = column.occurring() if column.declared else column  # else every value is some row's
    _refuse_containers(name, column.values)
    try:
        return as_factor(column)
    except TypeError as error:
        raise InvalidInput(
            f"column {name!r} holds values that are neither numbers nor categories ({error}): leave it out with "
            f"exclude=[{name!r}]"
        ) from error


def as_factor(column: Encoded) -> Factor:
    """A level a value, in the order of the categories or sorted; a TypeError for what cannot be told apart."""
    different = dict.fromkeys(column.values)
    levels = tuple(different) if column.declared else sorted_values(different)
    place = {level: code for code, level in enumerate(levels)}
    new = np.array([*(place[value] for value in column.values), -1], dtype=code_type(len(levels)))
    return Factor(new[column.codes], levels)


def _refuse_containers(name: str, values: Sequence[Any]) -> None:
    found = next((v for v in values if isinstance(v, (list, tuple, dict, set, np.ndarray))), None)
    if found is not None:
        raise InvalidInput(
            f"column {name!r} holds values of type {type(found).__name__}, which are neither numbers nor categories: "
            f"make columns of what they contain, or leave it out with exclude=[{name!r}]"
        )


def refuse_numbers_with_text(what: str, column: Encoded, remedy: str) -> None:
    """One '?' makes a column of numbers text; as categories it would be a wrong answer to a question nobody asked.

    Few different numbers beside other words, such as '1', '2', '3 or more', are categories.
    """
    present = set(column.values)
    words = sorted(value for value in present if isinstance(value, str) and not reads_as_number(value))
    n_numbers = len(present) - len(words)
    if not words or n_numbers == 0 or (n_numbers <= _MANY_NUMBERS and not _are_markers(words)):
        return
    among = set(words)
    count = sum(int(rows) for rows, value in zip(column.counts, column.values, strict=True) if str(value) in among)
    raise InvalidInput(
        f"{what} holds numbers, but also text in {count} row{'s' if count != 1 else ''}: {listing(words)}. Clean or "
        f"drop those rows, {remedy}"
    )


def _are_markers(words: Sequence[str]) -> bool:
    return all(word.strip().lower() in _MARKERS for word in words)


def reads_as_number(text: str) -> bool:
    """Whether a text is a number to people, too."""
    if text.strip().lower() in _MARKERS:  # float('nan') is a number to Python only
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def sorted_values(values: Iterable[Any]) -> tuple[Any, ...]:
    """Values in their order, or by type and text when they have none in common."""
    try:
        return tuple(sorted(values))
    except (TypeError, OverflowError):  # NumPy's numbers cannot be compared with all of Python's
        return tuple(sorted(values, key=lambda value: (type(value).__name__, str(value))))


def hint(wanted: str, names: Iterable[Any], what: str = "columns") -> str:
    """For the error about a name that is unknown: what may have been meant, else the first few names there are."""
    known = {str(name).lower(): name for name in names}
    close = difflib.get_close_matches(wanted.lower(), known, n=2)
    if close:
        return f"did you mean {' or '.join(repr(known[name]) for name in close)}?"
    return f"the {what} are {listing(known.values()) or 'none'}"


def listing(names: Iterable[Any] | None, quote: bool = True) -> str:
    """The first few names for an error message."""
    items = [repr(name) if quote else str(name) for name in (names or ())]
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
