"""What all results have in common: a table, JSON, a summary for people, a report."""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fbed.show.text import table as text_table

SCHEMA = 1
"""Version of the JSON form."""

_WIDTH = 80
_HEADS = {"bias_percent": "bias %", "rmsd_ratio": "RMSD"}  # words that would make a table too wide
_PARTS = ("frequency", "lower", "upper", "same_sign")  # columns of numbers between 0 and 1, of which none is tiny
_MOST_ROWS = 30  # of a table for people; programs get all of them


class Inference:
    """A frozen dataclass that people read and programs save; `kind` is what its JSON is called."""

    kind: ClassVar[str]
    status: str
    seconds: float
    notes: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """The main table, a row a candidate."""
        raise NotImplementedError

    def words(self) -> tuple[str, ...]:
        """What was found and what it means, a paragraph each."""
        raise NotImplementedError

    def methods(self) -> str:
        """A paragraph for the methods section of a paper, with the figures of this analysis."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """`rows` as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install 'fbed[cli]'") from error
        return pd.DataFrame(self.rows())

    def to_json(self, path: str | Path | None = None, indent: int | None = None) -> str:
        """JSON form, with a schema version; also written to a file when a path is given. NaN and ∞ become null."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        plain = {"schema": SCHEMA, "kind": self.kind, **fields, "rows": self.rows()}
        text = json.dumps(_plain(plain), indent=indent, allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def summary(self) -> str:
        """A readable account for a terminal of 80 columns."""
        paragraphs = [line for text in self.words() for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False)]
        notes = [line for note in self.notes for line in textwrap.wrap(f"note: {note}", _WIDTH, subsequent_indent="  ")]
        return "\n".join([*paragraphs, "", *self.lines(), *(["", *notes] if notes else [])])

    def lines(self, most: int = _MOST_ROWS) -> list[str]:
        """The main table as text, its first rows."""
        rows = self.rows()
        if not rows:
            return ["nothing to show"]
        head = [name for name in rows[0] if any(row[name] is not None for row in rows)]
        shown = [[_shown(row[name], name) for name in head] for row in rows[:most]]
        aligned = "".join(">" if any(_is_number(row[name]) for row in rows) else "<" for name in head)
        more = [f"… and {len(rows) - most:,} more"] if len(rows) > most else []
        return [*text_table([[_HEADS.get(name, name.replace("_", " ")) for name in head], *shown], aligned, 0), *more]

    def __str__(self) -> str:
        return self.summary()

    def report(self, path: str | Path) -> Path:
        """Write a report for people: one HTML file that needs nothing else."""
        from fbed.inference.page import write

        return write(self, path)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any, column: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if column in _PARTS:
        return f"{value:.3f}"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return "∞" if value == math.inf else "−∞" if value == -math.inf else f"{value:.3g}"
    return str(value)


def _plain(value: Any) -> Any:
    """Lists, mappings, text and finite numbers only."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def listed(names: Sequence[Any], most: int = 12) -> str:
    """Names for a sentence."""
    if not names:
        return "nothing"
    shown = ", ".join(str(name) for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")
