"""Where a result came from: what was asked, when, and with which versions, so that anyone can run it again."""

from __future__ import annotations

import ast
import inspect
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from fbed.rules.criteria import LikelihoodRatio

_NOT_ASKED = ("X", "progress")  # the table is always passed again, and progress changes nothing
_LONGEST = 1000  # characters of an argument that are still read; longer ones are named, not written out
_PACKAGES = ("numpy", "scipy", "scikit-learn", "narwhals", "pandas")


@dataclass(frozen=True)
class Provenance:
    """How a result was made.

    `arguments` are those of `fbed.select` that differ from the default, as Python source; what has no source, such as
    an array, stands there by its own name. `reading` are the lines of Python that made the table, when they are known,
    and `command` is the command line, when there was one.
    """

    arguments: Mapping[str, str]
    date: str
    versions: Mapping[str, str]
    reading: tuple[str, ...] = ()
    command: str | None = None

    def python(self) -> str:
        """Lines of Python that make the result again."""
        keywords = [f"{name}={text}" for name, text in self.arguments.items() if name != "y"]
        call = ", ".join(["X", self.arguments.get("y", "y"), *keywords])
        imports = ["import fbed"] if "math." not in call else ["import math", "", "import fbed"]
        return "\n".join([*imports, *self.reading, f"result = fbed.select({call})"])

    def value(self, argument: str) -> Any:
        """The value of an argument whose source is a literal; None when it was left at its default."""
        text = self.arguments.get(argument)
        return None if text is None or text == argument else ast.literal_eval(text)

    @property
    def unwritten(self) -> tuple[str, ...]:
        """Arguments that were given, but as values that have no source."""
        return tuple(name for name, text in self.arguments.items() if text == name)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Provenance:
        """Read back from JSON."""
        return cls(**{**plain, "reading": tuple(plain["reading"])})

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)


def provenance(function: Callable[..., Any], asked: Mapping[str, Any]) -> Provenance:
    """The provenance of a result that a function makes now, given its arguments by name."""
    defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    arguments = {
        name: source(value, name)
        for name, value in asked.items()
        if name in defaults and name not in _NOT_ASKED and not _is_default(value, defaults[name])
    }
    return Provenance(arguments, datetime.now().astimezone().isoformat(timespec="seconds"), versions())


def source(value: Any, name: str) -> str:
    """Python source of a value, or the name under which it has to be given again."""
    text = _source(value)
    return name if text is None or len(text) > _LONGEST else text


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, LikelihoodRatio):
        return value == LikelihoodRatio()  # what criterion='lr' stands for
    if isinstance(value, (list, tuple)):
        return isinstance(default, tuple) and len(value) == len(default) == 0
    return value is default or (
        type(value) is type(default) and isinstance(value, (str, int, float)) and value == default
    )


def _source(value: Any) -> str | None:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return f"math.{value}" if value > 0 or math.isnan(value) else "-math.inf"
    if value is None or isinstance(value, (str, int, float, bool)):
        return repr(value)
    if isinstance(value, (list, tuple)) and len(value) <= _LONGEST:
        return _sequence(value)
    if isinstance(value, Mapping) and len(value) <= _LONGEST:
        parts = [(_source(key), _source(item)) for key, item in value.items()]
        return None if any(None in pair for pair in parts) else "{" + ", ".join(f"{k}: {v}" for k, v in parts) + "}"
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith("fbed."):
        return _object(value)
    return None


def _sequence(values: list[Any] | tuple[Any, ...]) -> str | None:
    parts = [_source(value) for value in values]
    if any(part is None for part in parts):
        return None
    inside = ", ".join(map(str, parts))
    if isinstance(values, list):
        return f"[{inside}]"
    return f"({inside},)" if len(values) == 1 else f"({inside})"


def _object(value: Any) -> str | None:
    """A criterion and the like, with what differs from its defaults."""
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    differ = {field.name: given[field.name] for field in fields(value) if given[field.name] != field.default}
    parts = {name: _source(item) for name, item in differ.items()}
    if None in parts.values():
        return None
    return f"fbed.{type(value).__name__}({', '.join(f'{name}={text}' for name, text in parts.items())})"


@cache
def versions() -> dict[str, str]:
    """Of everything that could change an answer, and of the machine."""
    import fbed

    found = {"fbed": fbed.__version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {**found, "system": f"{platform.system()} {platform.machine()}"}
