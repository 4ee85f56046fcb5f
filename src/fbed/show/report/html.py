"""Markup from Python, escaped unless it is markup already.

Names of columns come from anywhere. Everything that is not `Html` is escaped where it becomes part of a page, so that
forgetting to do it is not possible.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_VOID = {"br", "meta"}


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def escape(value: object) -> Html:
    """A value as markup: as it is, or with everything escaped that means something in HTML or cannot be shown."""
    if isinstance(value, Html):
        return value
    shown = "".join(ch if ch.isprintable() else " " if ch.isspace() else "�" for ch in str(value))
    return Html(html.escape(shown))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Parts one after another; None is left out."""
    return Html(between.join(escape(part) for part in parts if part is not None))


def tag(name: str, /, *children: object, **attributes: Any) -> Html:
    """An element. `class_` is class, `aria_label` is aria-label; an attribute that is None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{join(children)}</{name}>")


def called(name: object) -> Html:
    """The name of a variable: kept apart from the text around it, whatever script it is written in.

    A long name breaks before the level of a category.
    """
    return tag("bdi", Html(escape(name).replace("[", "<wbr>[")), class_="name")


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and the number by which its column is sorted."""

    shown: object
    value: float | None = None


@dataclass(frozen=True)
class Head:
    """A column of a table."""

    title: object
    numeric: bool = False


def table(caption: object, heads: Sequence[Head], rows: Iterable[Sequence[object]], sortable: bool = True) -> Html:
    """A table with a caption whose first column names the rows; it scrolls by itself when it is too wide."""
    head = tag("tr", *(tag("th", h.title, scope="col", class_="number" if h.numeric else None) for h in heads))
    body = [
        tag("tr", *(_cell(h, value, first=not i) for i, (h, value) in enumerate(zip(heads, row, strict=True))))
        for row in rows
    ]
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", head),
        tag("tbody", *body),
        class_="sortable" if sortable and len(body) > 1 else None,
    )
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=f"Table: {_plain(caption)}")


def _cell(head: Head, value: object, first: bool) -> Html:
    cell = value if isinstance(value, Cell) else Cell(value)
    attributes = {
        "class_": "number" if head.numeric else None,
        "data_v": None if cell.value is None else repr(float(cell.value)),
    }
    return tag("th", cell.shown, scope="row", **attributes) if first else tag("td", cell.shown, **attributes)


def facts(caption: object, pairs: Iterable[tuple[object, object]]) -> Html:
    """A table of two columns: what, and what it is."""
    rows = [tag("tr", tag("th", key, scope="row"), tag("td", value)) for key, value in pairs if value is not None]
    return tag("div", tag("table", tag("caption", caption), tag("tbody", *rows), class_="facts"), class_="scroll")


def _plain(value: object) -> str:
    """Text without markup, for an attribute."""
    if not isinstance(value, Html):
        return str(value)
    text, inside = [], False
    for ch in value:
        inside = (inside or ch == "<") and ch != ">"
        text.append("" if inside or ch == ">" else ch)
    return html.unescape("".join(text))
