"""The report of an inference: the page of `fbed.show.report` with other sections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fbed.inference.results import Inference
from fbed.show.report import page, save
from fbed.show.report.cells import number, section
from fbed.show.report.charts import Axis, figure, rectangle, text
from fbed.show.report.html import Cell, Head, Html, called, facts, table, tag
from fbed.show.text import shortened

_MOST_ROWS = 200
_MOST_BARS = 30
_BAR, _NAME = 18.0, 110.0
_TITLES = {
    "inclusion": "How stable is the selection?",
    "stability": "Which variables are stable?",
    "ipss": "Which variables are stable?",
    "multisplit": "Which variables matter? p-values over many splits",
    "equivalents": "Which sets do as well?",
    "selection_test": "Is there anything in it?",
}


def write(found: Inference, path: str | Path) -> Path:
    """Write the report to a file."""
    return save(render(found), path)


def render(found: Inference) -> str:
    """The report as a page of HTML."""
    title = _TITLES.get(found.kind, found.kind)
    parts = {
        "summary": ("Summary", _words(found)),
        "frequencies": ("Frequencies", _bars(found)),
        "table": ("Table", _table(found)),
        "methods": ("For the methods section", tag("p", found.methods())),
        "settings": ("Settings", _settings(found)),
    }
    shown = {name: (heading, part) for name, (heading, part) in parts.items() if part is not None}
    links = [tag("li", tag("a", heading, href=f"#{name}")) for name, (heading, _) in shown.items()]
    header = tag(
        "header",
        tag("a", "To the report", href="#summary", class_="skip"),
        tag("h1", title),
        tag("nav", tag("ul", *links), aria_label="Contents"),
    )
    sections = [section(name, heading, part) for name, (heading, part) in shown.items()]
    return page(f"fbed report: {title}", header, sections)


def _words(found: Inference) -> Html:
    notes = [tag("li", note) for note in found.notes]
    said = Html("".join(tag("p", text) for text in found.words()))
    return Html(said + (tag("ul", *notes) if notes else ""))


def _bars(found: Inference) -> Html | None:
    """Frequencies of the candidates that were selected most often."""
    rows = [row for row in found.rows() if row.get("frequency") is not None][:_MOST_BARS]
    if not rows:
        return None
    axis = Axis(0.0, 1.0, _NAME, 350.0)
    threshold = getattr(found, "threshold", None)
    parts: list[object] = []
    for i, row in enumerate(rows):
        top, frequency = 6.0 + i * _BAR, float(row["frequency"])
        parts += [
            text(_NAME - 6.0, top + 11.0, shortened(str(row["variable"]), 16), anchor="end"),
            rectangle(_NAME, top, axis(frequency) - _NAME, _BAR - 5.0, "bar"),
            text(min(axis(frequency) + 3.0, 325.0), top + 11.0, f"{frequency:.2f}"),
        ]
    if threshold is not None:
        at, bottom = axis(threshold), 6.0 + len(rows) * _BAR
        parts.append(tag("line", x1=f"{at:.1f}", x2=f"{at:.1f}", y1="2", y2=f"{bottom:.1f}", class_="grid"))
    caption = "How often each candidate was selected" + ("" if threshold is None else f"; the line is at {threshold:g}")
    told = f"{len(rows)} candidates, the most frequent first; the table has the numbers"
    return figure("frequencies-chart", 12.0 + len(rows) * _BAR, "Selection frequencies", told, parts, caption)


def _table(found: Inference) -> Html:
    rows = found.rows()
    if not rows:
        return tag("p", "There is nothing to list.")
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    heads = [Head(name.replace("_", " "), any(_is_number(row[name]) for row in rows)) for name in names]
    body = [[_cell(name, row[name]) for name in names] for row in rows[:_MOST_ROWS]]
    more = f", the first {_MOST_ROWS} of {len(rows):,}" if len(rows) > _MOST_ROWS else ""
    return table(f"All candidates{more}" if found.kind != "equivalents" else f"Replacements{more}", heads, body)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(name: str, value: Any) -> object:
    if name in ("variable", "replaced_by"):
        return called(value)
    if isinstance(value, bool):
        return Cell("yes" if value else "", float(value))
    if value is None:
        return "–"
    return Cell(number(float(value)), float(value)) if _is_number(value) else str(value)


def _settings(found: Inference) -> Html:
    given = dict(getattr(found, "settings", {}))
    given |= {"status": found.status, "seconds": f"{found.seconds:.3g}"}
    for name in ("n_resamples", "random_state"):
        if hasattr(found, name):
            given[name] = getattr(found, name)
    return facts("Settings", ((name.replace("_", " "), str(value)) for name, value in given.items()))
