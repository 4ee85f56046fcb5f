"""Numbers and tables in words: Markdown that is also readable on a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any


def seconds(value: float | None) -> str:
    """Three figures."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.1 else f"{value:.2g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    cells = [
        [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))] for line in lines
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [cells[0], rule, *cells[1:]])


def as_json(data: Any) -> str:
    """Indented, but with lists of numbers on one line."""
    text = json.dumps(data, indent=1, ensure_ascii=False)
    return re.sub(r"\[[-+.,\d\se]*\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n"
