"""Saved JSON → plain values of the right types: what came from a file is looked at before anything is made of it."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from fbed.errors import InvalidInput

_LARGEST = 2**53  # whole numbers beyond are not what anybody counted


def read_object(source: str | Path, what: str) -> dict[str, Any]:
    """The JSON object in a file, or in a text that begins like one."""
    is_text = isinstance(source, str) and source.lstrip().startswith(("{", "["))
    try:
        plain = json.loads(str(source) if is_text else Path(source).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"this is not {what}: it is not readable as JSON ({error})") from error
    if not isinstance(plain, dict):
        raise InvalidInput(f"this is not {what}: it holds a {type(plain).__name__}, expected an object with its parts")
    return plain


@contextmanager
def consistent(what: str) -> Iterator[None]:
    """Whatever goes wrong in telling about saved values is their fault: the same code tells about fresh ones."""
    try:
        yield
    except InvalidInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError) as error:
        raise InvalidInput(f"{what} contradicts itself: {type(error).__name__}: {error}") from error


def check_fields(plain: Any, kind: type, where: str = "it") -> None:
    """Raise when JSON does not have the fields of a dataclass, each of the type that it is annotated with."""
    if not isinstance(plain, Mapping):
        raise InvalidInput(f"{where} must be an object, got {_shown(plain)}")
    hints = _hints(kind)
    needed = {field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING}
    for name in sorted(needed - set(plain)):
        raise InvalidInput(f"{where} lacks {name!r}")
    for name in plain:
        if name not in hints:
            raise InvalidInput(f"{where} has an unknown part {str(name)[:50]!r}")
        _check(plain[name], hints[name], name if where == "it" else f"{where}.{name}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _check(value: Any, kind: Any, where: str) -> None:
    if is_dataclass(kind) and isinstance(kind, type):
        check_fields(value, kind, where)
    elif get_origin(kind) in (Union, types.UnionType):
        _check_any(value, get_args(kind), where)
    elif get_origin(kind) is tuple:
        _check_items(value, get_args(kind), where)
    elif get_origin(kind) is np.ndarray:
        _check_items(value, (_element(kind), ...), where)
    elif isinstance(kind, type) or get_origin(kind) is not None:
        _check_simple(value, kind, where)


def _check_any(value: Any, kinds: tuple[Any, ...], where: str) -> None:
    """One of several types: that which does not complain; the complaint of the last is told."""
    last: InvalidInput | None = None
    for kind in kinds:
        try:
            return _check(value, kind, where)
        except InvalidInput as error:
            last = error if kind is not type(None) else last
    raise last or InvalidInput(f"{where} must be null, got {_shown(value)}")


def _check_items(value: Any, kinds: tuple[Any, ...], where: str) -> None:
    if not isinstance(value, list):
        raise InvalidInput(f"{where} must be a list, got {_shown(value)}")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise InvalidInput(f"{where} must have {len(kinds)} entries, got {len(value)}")
    for i, (item, kind) in enumerate(zip(value, kinds, strict=True)):
        _check(item, kind, f"{where}[{i}]")


def _check_simple(value: Any, kind: Any, where: str) -> None:
    if get_origin(kind) is not None:  # a mapping, by names
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{where} must be an object, got {_shown(value)}")
        for name, item in value.items():
            _check(item, get_args(kind)[1], f"{where}[{str(name)[:50]!r}]")
    elif not _is_a(value, kind):
        raise InvalidInput(f"{where} must be a value of type {kind.__name__}, got {_shown(value)}")


def _is_a(value: Any, kind: type) -> bool:
    """JSON has null for numbers that it cannot write, and no difference between 1 and 1.0."""
    if kind is float:
        return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST
    return kind is type(value) if kind in (str, bool, type(None)) else True


def _element(kind: Any) -> type:
    """int or float, as an array of NumPy is annotated."""
    dtype = get_args(get_args(kind)[1])[0]
    return int if issubclass(dtype, np.integer) else float


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, (list, dict)) else f"a {type(value).__name__} of {len(value)}"
    return text if len(text) <= 50 else f"{text[:50]}…"
