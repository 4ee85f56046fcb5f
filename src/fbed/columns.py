"""One column → numbers or categories; dates, identifiers and other things that are neither are refused."""

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

_SHOWN = 5  # names listed in an error message before it says 'and N more'
_MANY_NUMBERS = 10  # a text column with more different numbers than this was meant to be numeric
_MANY_DATES = 2  # a text column with more different dates than this was meant to be a time
_MARKERS = {"", "?", "-", "--", ".", "n/a", "na", "n.a.", "nan", "null", "none", "nil", "missing", "unknown", "#n/a"}
_DATE = re.compile(r"\s*(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{2}|\d{4}))([T\s].*)?", re.DOTALL)


@dataclass(frozen=True)
class Factor:
    """A categorical column: `codes[i]` is the position of row i's value in `levels`, −1 where it is missing."""

    codes: NDArray[np.intp]
    levels: tuple[Any, ...]

    def rows(self, keep: NDArray[np.intp]) -> Factor:
        """The column on some of the rows, with the levels that occur there."""
        return _occurring(self.codes[keep], self.levels)


def read_column(name: str, values: Any, categorical: bool = False) -> NDArray[Any] | Factor:
    """One column as numbers (NaN where missing) or a factor; `categorical` makes categories of anything."""
    if isinstance(values, nw.Series):
        return _read_series(name, values, categorical)
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"column {name!r} has shape {array.shape}; a column has one dimension")
    if array.dtype.kind in "biuf":
        return coded(repr(name), array) if categorical else array
    if array.dtype.kind in "OUST":
        return _declared(name, array) if categorical else _from_objects(name, array)
    _refuse(name, str(array.dtype))


def coded(name: str, numbers: NDArray[Any]) -> Factor:
    """Numbers as codes of categories, a level a value."""
    missing = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(len(numbers), dtype=bool)
    levels, codes = np.unique(numbers[~missing], return_inverse=True)
    _refuse_many_levels(name, len(levels), len(numbers))
    out = np.full(len(numbers), -1, dtype=np.intp)
    out[~missing] = codes
    whole = (
        bool((levels == np.round(levels)).all()) if levels.dtype.kind == "f" and np.isfinite(levels).all() else False
    )
    return Factor(out, tuple((levels.astype(np.int64) if whole else levels).tolist()))


def _read_series(name: str, series: nw.Series[Any], categorical: bool) -> NDArray[Any] | Factor:
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        numbers = _numeric_series(series)
        return coded(repr(name), numbers) if categorical else numbers
    if dtype in (nw.Categorical, nw.Enum):
        return _factor(name, _objects(series), categories(series))
    if dtype in (nw.String, nw.Object):
        return _declared(name, _objects(series)) if categorical else _from_objects(name, _objects(series))
    _refuse(name, str(dtype))


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


def _objects(series: nw.Series[Any]) -> NDArray[Any]:
    out = np.empty(len(series), dtype=object)
    out[:] = series.to_list()
    return out


def categories(series: nw.Series[Any]) -> tuple[Any, ...]:
    """Categories of a categorical column in their order, as the values they are; sorted where they have no order."""
    native = series.to_native()
    if hasattr(native, "unify_dictionaries"):  # Arrow
        chunks = native.unify_dictionaries().chunks
        return tuple(chunks[0].dictionary.to_pylist()) if chunks else ()
    if hasattr(getattr(native, "cat", None), "categories"):  # pandas
        return tuple(native.cat.categories.tolist())
    if isinstance(series.dtype, nw.Enum):  # polars
        return tuple(native.dtype.categories.to_list())
    return sorted_values(set(series.drop_nulls().to_list()))


def _from_objects(name: str, values: NDArray[Any]) -> NDArray[Any] | Factor:
    """Objects that are all numbers, or all true or false, are numbers; others are categories."""
    missing = missing_values(values)
    present = values[~missing].tolist()
    if not present or not (all(map(_is_number, present)) or all(isinstance(v, (bool, np.bool_)) for v in present)):
        return _undeclared(name, values)
    out = np.full(len(values), np.nan)
    out[~missing] = values[~missing].astype(np.float64)
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number, Decimal)) and not isinstance(value, bool)


def _undeclared(name: str, values: NDArray[Any]) -> Factor:
    """Text that nobody called a category: what looks like something else is refused."""
    factor = _factor(name, values)
    _refuse_times(name, values)
    remedy = f"name it in categorical=[{name!r}] if it is meant to be categories, or leave it out with"
    refuse_numbers_with_text(f"column {name!r}", values, f"{remedy} exclude=[{name!r}]")
    if len(factor.levels) > max(len(values) / 2, 2):
        raise InvalidInput(
            f"column {name!r} holds text with {len(factor.levels)} different values in {len(values)} rows, like an "
            f"identifier: leave it out with exclude=[{name!r}], or make it numeric or categorical"
        )
    return factor


def _declared(name: str, values: NDArray[Any]) -> Factor:
    factor = _factor(name, values)
    _refuse_many_levels(repr(name), len(factor.levels), len(values))
    return factor


def _refuse_many_levels(name: str, n_levels: int, n_rows: int) -> None:
    if n_levels > max(n_rows / 2, 2):
        raise InvalidInput(
            f"categorical names column {name}, which has {n_levels} different values in {n_rows} rows, like a "
            "measurement or an identifier: take it out of categorical, cut it into intervals, or exclude it"
        )


def _refuse_times(name: str, values: NDArray[Any]) -> None:
    """Dates as objects, or written as text."""
    present = [value for value in values.tolist() if not is_missing(value)]
    times = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    found = next((value for value in present if isinstance(value, times) or type(value).__name__ == "Period"), None)
    if found is not None:
        _refuse(name, f"values of type {type(found).__name__}")
    different = {value for value in present if isinstance(value, str)}
    if len(different) > _MANY_DATES and all(_DATE.fullmatch(text) for text in different):
        raise InvalidInput(
            f"column {name!r} holds dates written as text, such as {min(different)!r}: turn them into numbers (days "
            f"since a date, say), leave them out with exclude=[{name!r}], or name them in categorical=[{name!r}] if "
            "they are no more than labels"
        )


def _factor(name: str, values: NDArray[Any], order: Sequence[Any] | None = None) -> Factor:
    """Levels in the order of the categories, or sorted; only those that occur."""
    _refuse_containers(name, values)
    missing = missing_values(values)
    try:
        present = set(values[~missing].tolist())
    except TypeError as error:
        raise InvalidInput(
            f"column {name!r} holds values that are neither numbers nor categories ({error}): leave it out with "
            f"exclude=[{name!r}]"
        ) from error
    levels = tuple(v for v in order if v in present) if order is not None else sorted_values(present)
    lookup = {level: code for code, level in enumerate(levels)}
    codes = np.array([-1 if m else lookup[v] for v, m in zip(values.tolist(), missing, strict=True)], dtype=np.intp)
    return Factor(codes, levels)


def _occurring(codes: NDArray[np.intp], levels: Sequence[Any]) -> Factor:
    """The factor without the levels that no row has."""
    present = np.unique(codes[codes >= 0])
    new = np.full(len(levels) + 1, -1, dtype=np.intp)  # the last one is for code −1
    new[present] = np.arange(len(present))
    return Factor(new[codes], tuple(levels[code] for code in present))


def _refuse_containers(name: str, values: NDArray[Any]) -> None:
    found = next((v for v in values.tolist() if isinstance(v, (list, tuple, dict, set, np.ndarray))), None)
    if found is not None:
        raise InvalidInput(
            f"column {name!r} holds values of type {type(found).__name__}, which are neither numbers nor categories: "
            f"make columns of what they contain, or leave it out with exclude=[{name!r}]"
        )


def refuse_numbers_with_text(what: str, values: NDArray[Any], remedy: str) -> None:
    """One '?' makes a column of numbers text; as categories it would be a wrong answer to a question nobody asked.

    Few different numbers beside other words, such as '1', '2', '3 or more', are categories.
    """
    present = {value for value in values.tolist() if not is_missing(value)}
    words = sorted(value for value in present if isinstance(value, str) and not _reads_as_number(value))
    n_numbers = len(present) - len(words)
    if not words or n_numbers == 0 or (n_numbers <= _MANY_NUMBERS and not _are_markers(words)):
        return
    count = int(np.isin(values.astype(str), words).sum())
    raise InvalidInput(
        f"{what} holds numbers, but also text in {count} row{'s' if count != 1 else ''}: {listing(words)}. Clean or "
        f"drop those rows, {remedy}"
    )


def _are_markers(words: Sequence[str]) -> bool:
    return all(word.strip().lower() in _MARKERS for word in words)


def _reads_as_number(text: str) -> bool:
    if text.strip().lower() in _MARKERS:  # float('nan') is a number to Python only
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def sorted_values(values: set[Any]) -> tuple[Any, ...]:
    """Values in their order, or by type and text when they have none in common."""
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=lambda value: (type(value).__name__, str(value))))


def missing_values(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values of any kind are missing."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.array([is_missing(value) for value in values.tolist()], dtype=bool)


def is_missing(value: Any) -> bool:
    """None, NaN, pandas' NA or a missing time."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return np.ndim(value) == 0 and bool(value != value)


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
