"""New rows → the terms of a model. What does not fit is refused; what is not known makes a row's prediction unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput
from fbed.result.fitted.columns import MISSING, Column, plain
from fbed.rules.p_values import Floats
from fbed.tables.columns import Factor, listing, read_column
from fbed.tables.encoding import is_missing
from fbed.tables.missing import LEVEL
from fbed.tables.named import named_columns, refuse_masked
from fbed.tables.plink import Genotypes
from fbed.tables.rare import OTHER

UNSEEN = ("error", "missing", "mean")
"""What becomes of levels that the model has not seen."""


def check_unseen(unseen: str) -> None:
    """Refuse what is no answer to levels that a model does not know."""
    if unseen not in UNSEEN:
        raise InvalidInput(
            "unseen must be 'error', 'missing' (no prediction for such rows) or 'mean' (the mean of the rows that the "
            f"model was fitted on stands for what is not known), got {unseen!r}"
        )


def terms_of(columns: Sequence[Column], n_variables: int, X: Any, unseen: str = "error") -> tuple[Floats, list[str]]:
    """The terms of new rows, NaN where a value is not known, and notes on that."""
    check_unseen(unseen)
    values, n_rows = _values(columns, n_variables, X)
    notes: list[str] = []
    variants = set(X.variants) if isinstance(X, Genotypes) else set()  # a missing genotype is the mean, as it was
    parts = [
        _terms(column, found, "mean" if str(column.name) in variants else unseen, notes)
        for column, found in zip(columns, values, strict=True)
    ]
    return (np.hstack(parts) if parts else np.empty((n_rows, 0))), notes


def _values(columns: Sequence[Column], n_variables: int, X: Any) -> tuple[list[Any], int]:
    """The values of each column, found by name, or by place in a table without names."""
    if isinstance(X, Genotypes):
        X = X.frame([str(column.name) for column in columns], filled=False)
    named = None if sparse.issparse(X) else named_columns(X)
    if named is not None:
        lacking = [column.name for column in columns if str(column.name) not in named]
        if lacking:
            raise InvalidInput(f"the table lacks columns of the model: {listing(lacking)}")
        rows = len(next(iter(named.values()))) if named else 0
        return [named[str(column.name)] for column in columns], rows
    refuse_masked(X, "X")
    array = X if sparse.issparse(X) else np.asarray(X)
    if array.ndim != 2 or array.shape[1] != n_variables:
        raise InvalidInput(
            f"X has shape {array.shape}; the selection was made on {n_variables:,} columns: give a table with these, "
            "in their order, or a data frame with names"
        )
    if sparse.issparse(array):
        csc = sparse.csc_array(array)
        return [csc[:, [column.index]].toarray()[:, 0] for column in columns], array.shape[0]
    return [array[:, column.index] for column in columns], array.shape[0]


def _terms(column: Column, values: Any, unseen: str, notes: list[str]) -> Floats:
    if column.levels:
        return _indicators(column, _objects(values), unseen, notes)
    numbers = _numbers(column, values)
    missing = np.isnan(numbers)
    if column.fill is not None:
        numbers = np.where(missing, column.fill, numbers)
    elif missing.any():
        notes.append(f"{column.name!r} is missing in {int(missing.sum()):,} rows, {_STEAD[unseen]}")
    parts = [missing.astype(float) if part == MISSING else numbers for part in column.parts]
    terms = np.column_stack(parts) if parts else np.empty((len(numbers), 0))
    return with_means(column, terms, np.isnan(numbers)) if unseen == "mean" else terms


_STEAD = dict.fromkeys(UNSEEN, "which get no prediction") | {"mean": "where the mean stands for it"}


def with_means(column: Column, terms: Floats, unknown: NDArray[np.bool_]) -> Floats:
    """The terms of a column, with their means in the rows where its value is not known."""
    terms[unknown] = column.means
    return terms


def _numbers(column: Column, values: Any) -> Floats:
    read = read_column(str(column.name), values)
    if isinstance(read, Factor):
        if all(code < 0 for code in read.codes.tolist()):
            return np.full(len(read.codes), np.nan)
        raise InvalidInput(
            f"column {column.name!r} held numbers when the model was made, and now holds {listing(read.levels)}"
        )
    numbers = np.asarray(read, dtype=np.float64)
    if np.isinf(numbers).any():
        raise InvalidInput(f"column {column.name!r} holds infinite values: correct them, or replace them by NaN")
    return numbers


def _objects(values: Any) -> list[Any]:
    series = values if isinstance(values, nw.Series) else None
    return series.to_list() if series is not None else np.asarray(values).tolist()


def _indicators(column: Column, values: Sequence[Any], unseen: str, notes: list[str]) -> Floats:
    codes, strange = _codes(column.levels, values)
    if strange and unseen == "error":
        raise InvalidInput(
            f"column {column.name!r} holds levels that the model has not seen: {listing(strange)}; it knows "
            f"{listing(column.levels)}. Correct them, leave those rows out, or say unseen='missing' (no prediction) or "
            "'mean' (the mean of the rows that the model was fitted on)"
        )
    unknown = codes < 0
    if unknown.any():
        what = f"is missing or has unseen levels ({listing(strange)})" if strange else "is missing"
        notes.append(f"{column.name!r} {what} in {int(unknown.sum()):,} rows, {_STEAD[unseen]}")
    out = indicators(codes, len(column.levels))
    return with_means(column, out, unknown) if unseen == "mean" else out


def indicators(codes: NDArray[np.integer[Any]], n_levels: int) -> Floats:
    """A column for every level but the first; NaN where the code is −1."""
    out = (codes[:, None] == np.arange(1, n_levels)).astype(float)
    out[codes < 0] = np.nan
    return out


def _codes(levels: Sequence[Any], values: Sequence[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """The level of each value, −1 for those that are missing or unseen; and what is unseen."""
    known: Mapping[Any, int] = {level: code for code, level in enumerate(levels)}
    by_text = {str(level): code for code, level in enumerate(levels)}
    absent = by_text.get(LEVEL, -1)
    other = by_text.get(OTHER, -1)  # rare levels were joined: whatever else comes belongs to them
    found: dict[Any, int] = {}
    strange = []
    codes = np.empty(len(values), dtype=np.intp)
    for i, value in enumerate(values):
        if is_missing(value):
            codes[i] = absent
            continue
        key = plain(value)
        if key not in found:
            found[key] = known.get(key, by_text.get(str(key), other))
            if found[key] < 0:
                strange.append(value)
        codes[i] = found[key]
    return codes, strange
