"""Text files of tables: how values are parted and written, and what pandas would do to them without a word."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fbed.errors import InvalidInput
from fbed.tables.columns import listing

Source = str | io.BytesIO

_SEPARATORS = {";": "';'", "\t": "'\\t'", "|": "'|'", ",": "','"}
_WITH_COMMA = re.compile(r"\s*[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+\s*")
_MANY = 3  # different numbers with a comma that make a column one of numbers


@dataclass(frozen=True)
class Form:
    """How a text file is written. `na_values` are the words that mean 'missing', instead of the usual ones."""

    sep: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"
    na_values: tuple[str, ...] | None = None

    def options(self) -> dict[str, Any]:
        """Arguments of pandas."""
        if len(self.decimal) != 1 or self.decimal == self.sep:
            raise InvalidInput(
                f"the decimal point must be one character other than the separator {self.sep!r}, got {self.decimal!r}: "
                "--decimal , goes with --sep ';'"
            )
        out: dict[str, Any] = {"sep": self.sep, "decimal": self.decimal, "encoding": self.encoding}
        out["float_precision"] = "round_trip"  # quicker without, and a third of numbers off in the last digit
        if self.decimal == ",":
            out["thousands"] = "."
        if self.na_values is not None:
            out |= {"na_values": list(self.na_values), "keep_default_na": False}
        return out


_WIDE = (b"\xff\xfe", b"\xfe\xff")  # how a file of two bytes a character begins


def read(source: Source, form: Form) -> tuple[Any, tuple[str, ...]]:
    """The table of a text file, and notes on what was made of its words."""
    try:
        header = _again(source, form, header=None, nrows=1, dtype=str, keep_default_na=False, na_values=[])
        names = [str(name) for name in header.iloc[0]]
        _check_header(names, form)
        frame = _again(source, form, low_memory=False)
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the file is not written in {form.encoding.removesuffix('-sig')} (byte {error.start}): say how with "
            f"--encoding, such as {'utf-16' if error.object[:2] in _WIDE else 'latin-1 or cp1252'}"
        ) from error
    except LookupError as error:
        if isinstance(error, (KeyError, IndexError)):
            raise
        raise InvalidInput(f"--encoding {form.encoding!r} is not known: try utf-8, latin-1 or cp1252") from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise InvalidInput(
            f"the rows have more values than the header has names ({len(names)}): give every column a name"
        )
    _refuse_decimal_commas(frame, form)
    return frame, tuple(_words_for_missing(source, frame, form))


def _again(source: Source, form: Form, **more: Any) -> Any:
    if isinstance(source, io.BytesIO):
        source.seek(0)
    return pd.read_csv(source, **{**form.options(), **more})


def _check_header(names: Sequence[str], form: Form) -> None:
    """pandas would rename a repeated column without a word; a single one often has other separators in it."""
    repeated = sorted({name for name in names if name and names.count(name) > 1})
    if repeated:
        raise InvalidInput(f"column names must be unique, but {listing(repeated)} occur more than once: rename them")
    if len(names) == 1:
        found = [shown for sep, shown in _SEPARATORS.items() if sep != form.sep and sep in names[0]]
        if found:
            raise InvalidInput(
                f"the header is a single name, {names[0][:60]!r}: the separator seems to be {found[0]}, say --sep "
                f"{found[0]}"
            )


def _text_columns(frame: Any) -> list[str]:
    return [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]


def _refuse_decimal_commas(frame: Any, form: Form) -> None:
    if form.decimal == ",":
        return
    for name in _text_columns(frame):
        different = [value for value in frame[name].dropna().unique().tolist() if isinstance(value, str)]
        if len(different) >= _MANY and all(_WITH_COMMA.fullmatch(value) for value in different):
            raise InvalidInput(
                f"column {name!r} holds numbers with a decimal comma, such as {different[0]!r}: say --decimal ,"
            )


def _words_for_missing(source: Source, frame: Any, form: Form) -> list[str]:
    """Words such as 'None' and 'NA' that were read as missing in columns of text, where they may be levels."""
    if form.na_values is not None:
        return []
    suspect = [name for name in _text_columns(frame) if frame[name].isna().any()]
    if not suspect:
        return []
    raw = _again(source, form, usecols=suspect, dtype=str, keep_default_na=False, na_values=[])
    told = []
    for name in suspect:
        words = raw[name][frame[name].isna() & (raw[name] != "")].value_counts()
        if len(words):
            told.append(f"{name} ({', '.join(f'{word!r} in {count:,} rows' for word, count in words.items())})")
    if not told:
        return []
    return [
        f"words that usually mean 'missing' were read so in {listing(told, quote=False)}; if they are levels of a "
        "category, say --na-values '' (then only empty cells are missing)"
    ]
