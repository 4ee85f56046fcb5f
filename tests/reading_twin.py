"""Reading a column of objects in the slow, obvious way: Python looks at every value, as often as it likes."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import numpy as np

from fbed.errors import InvalidInput
from fbed.tables.columns import _DATE, _MANY_DATES, _MANY_NUMBERS, _are_markers, listing, reads_as_number

TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def is_missing(value):
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (np.ndim(value) == 0 and value != value)


def read(name, values, categorical=False):
    """('numbers', floats with NaN) or ('levels', levels, level of each row or None), or an InvalidInput."""
    present = [value for value in values if not is_missing(value)]
    if present and not categorical:
        numbers = all(isinstance(v, (int, float, np.number, Decimal)) and not isinstance(v, bool) for v in present)
        if numbers or all(isinstance(v, (bool, np.bool_)) for v in present):
            return "numbers", [math.nan if is_missing(value) else float(value) for value in values]
    levels = _levels(name, present)
    if categorical:
        if len(levels) > max(len(values) / 2, 2):
            raise InvalidInput(
                f"categorical names column {name!r}, which has {len(levels)} different values in {len(values)} rows, "
                "like a measurement or an identifier: take it out of categorical, cut it into intervals, or exclude it"
            )
    else:
        _refuse_times(name, present)
        _refuse_numbers_with_text(name, present)
        if len(levels) > max(len(values) / 2, 2):
            raise InvalidInput(
                f"column {name!r} holds text with {len(levels)} different values in {len(values)} rows, like an "
                f"identifier: leave it out with exclude=[{name!r}], or make it numeric or categorical"
            )
    code = {level: i for i, level in enumerate(levels)}
    return "levels", levels, [None if is_missing(value) else code[value] for value in values]


def _levels(name, present):
    for value in present:
        if isinstance(value, (list, tuple, dict, set, np.ndarray)):
            raise InvalidInput(
                f"column {name!r} holds values of type {type(value).__name__}, which are neither numbers nor "
                f"categories: make columns of what they contain, or leave it out with exclude=[{name!r}]"
            )
    try:
        different = list(dict.fromkeys(present))
    except TypeError as error:  # not hashable, or Decimal(1) beside np.int8(1), which cannot be compared
        raise InvalidInput(
            f"column {name!r} holds values that are neither numbers nor categories ({error}): leave it out with "
            f"exclude=[{name!r}]"
        ) from error
    try:
        return sorted(different)
    except (TypeError, OverflowError):  # NumPy's numbers beside 10**20
        return sorted(different, key=lambda value: (type(value).__name__, str(value)))


def _refuse_times(name, present):
    for value in present:
        if isinstance(value, TIMES) or type(value).__name__ == "Period":
            raise InvalidInput(
                f"column {name!r} holds values of type {type(value).__name__}, which is neither a number nor a "
                f"category: turn it into numbers (days since a date, say), or leave it out with exclude=[{name!r}]"
            )
    texts = {value for value in present if isinstance(value, str)}
    if len(texts) > _MANY_DATES and all(_DATE.fullmatch(text) for text in texts):
        raise InvalidInput(
            f"column {name!r} holds dates written as text, such as {min(texts)!r}: turn them into numbers (days since "
            f"a date, say), leave them out with exclude=[{name!r}], or name them in categorical=[{name!r}] if they are "
            "no more than labels"
        )


def _refuse_numbers_with_text(name, present):
    different = set(present)
    words = sorted(value for value in different if isinstance(value, str) and not reads_as_number(value))
    n_numbers = len(different) - len(words)
    if not words or n_numbers == 0 or (n_numbers <= _MANY_NUMBERS and not _are_markers(words)):
        return
    count = sum(str(value) in words for value in present)
    raise InvalidInput(
        f"column {name!r} holds numbers, but also text in {count} row{'s' if count != 1 else ''}: {listing(words)}. "
        f"Clean or drop those rows, name it in categorical=[{name!r}] if it is meant to be categories, or leave it out "
        f"with exclude=[{name!r}]"
    )
