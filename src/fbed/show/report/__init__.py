"""The report: one HTML file that a person can send, read offline, print, and sort the tables of.

It holds nothing from outside and asks for nothing from outside; its content security policy forbids both, and lets no
script run but its own.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fbed.errors import InvalidInput
from fbed.result import views
from fbed.result.result import Result
from fbed.show.report import data, grid, model, opening, others, performance, small_print
from fbed.show.report import path as steps
from fbed.show.report.html import Html, tag

if TYPE_CHECKING:
    from fbed.api.paths import PathResult

Section = Callable[[Result], Html | None]

_SECTIONS: dict[str, tuple[str, Section]] = {
    "summary": ("Summary", opening.summary),
    "data": ("Outcome and data", data.data),
    "selected": ("Selected", model.selected),
    "performance": ("Performance", performance.performance),
    "path": ("Path", steps.path),
    "dropping": ("Dropping", steps.dropping),
    "ties": ("Near ties", others.near_ties),
    "correlations": ("Correlations", others.correlations),
    "others": ("Not selected", others.not_selected),
    "settings": ("Settings", small_print.settings),
    "rerun": ("Run again", small_print.rerun),
    "cite": ("Cite", small_print.citing),
}


def write(result: Result, path: str | Path) -> Path:
    """Write the report of a result to a file."""
    return save(render(result), path)


def write_path(results: PathResult, path: str | Path) -> Path:
    """Write the report of a whole grid of settings to a file."""
    shown = {name: (title, part) for name, (title, part) in grid.sections(results).items() if part is not None}
    header = grid.header(results, [(name, title) for name, (title, _) in shown.items()])
    return save(page("fbed report: a grid of settings", header, [part for _, part in shown.values()]), path)


def save(text: str, path: str | Path) -> Path:
    """Write a page to a file."""
    file = Path(path)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write the report to {path}: {error.strerror or error}") from error
    return file


def render(result: Result) -> str:
    """The report of a result as a page of HTML."""
    result = result.settled()
    made = {name: (title, build(result)) for name, (title, build) in _SECTIONS.items()}
    shown = {name: (title, part) for name, (title, part) in made.items() if part is not None}
    contents = [(name, title) for name, (title, _) in shown.items()]
    found = f"{len(result.selected):,} of {views.n_variables(result):,} variables selected"
    return page(f"fbed report: {found}", opening.header(result, contents), [part for _, part in shown.values()])


def page(title: str, header: Html, parts: Sequence[Html]) -> str:
    """A page of HTML that needs nothing else."""
    body = tag(
        "body",
        header,
        tag("main", *parts),
        tag("div", id="told", class_="hidden", role="status", aria_live="polite"),
        tag("script", _asset("page.js")),
    )
    return f"<!DOCTYPE html>\n{tag('html', _head(title), body, lang='en')}\n"


def _head(title: str) -> Html:
    policy = (
        f"default-src 'none'; style-src '{_digest('page.css')}'; script-src '{_digest('page.js')}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", _asset("page.css")),
    )


@cache
def _asset(name: str) -> Html:
    return Html((Path(__file__).parent / name).read_text(encoding="utf-8"))


@cache
def _digest(name: str) -> str:
    """What the content security policy calls the only script, and the only style, of the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()


__all__ = ["page", "render", "save", "write", "write_path"]
