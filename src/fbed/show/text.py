"""A result as text for a terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbed.result import cautions, views
from fbed.result.figures import figure
from fbed.result.fitted.table import fit_facts
from fbed.result.fitted.table import lines as table_lines
from fbed.search.search import STATUSES

if TYPE_CHECKING:
    from fbed.api.paths import PathResult
    from fbed.result.result import Result, TraceRow

_WIDTH = 80
_LABEL = 13  # '  criterion  ', before what it says
_MOST_TERMS = 60  # of a model that are printed
_NAMES_OF_A_SETTING = 32  # characters; the other columns of a path's table leave no more
_SHORTEST_NAME = 12  # below this a table is better too wide than unreadable


@dataclass(frozen=True)
class Style:
    """Codes that a terminal turns into looks; all empty where there is none."""

    strong: str = ""
    quiet: str = ""
    warn: str = ""
    end: str = ""

    def __call__(self, look: str, lines: Sequence[str]) -> list[str]:
        """Lines in one of the looks."""
        code = getattr(self, look)
        return [f"{code}{line}{self.end}" if code and line else line for line in lines]


PLAIN = Style()
COLOURED = Style("\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[0m")


def style_of(stream: Any) -> Style:
    """Colours for a terminal that has them, unless the environment says NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return COLOURED if not plain and hasattr(stream, "isatty") and stream.isatty() else PLAIN


def summary(result: Result, style: Style = PLAIN, with_notes: bool = True) -> str:
    """Settings, steps, final model and what to keep in mind, within 80 columns."""
    result = result.settled()
    title, *head = _head(result)
    model = [] if result.model is None else ["", *_model(result, style), *style("warn", _foot(result, with_notes))]
    return "\n".join([*style("strong", [title]), *head, "", *_steps(result, style), *model])


def path_summary(found: PathResult) -> str:
    """The grid as a table, within 80 columns: how much was selected, at what cost, and which variables first."""
    head = ("criterion", "value", "algorithm", "selected", "tests", "first selected")
    rows = [
        (
            setting.criterion,
            "default" if setting.value is None else f"{setting.value:g}",
            setting.algorithm,
            f"{len(result.selected):,}",
            f"{result.n_tests.total:,}",
            _whole_or_counted([str(name) for name in result.selected], _NAMES_OF_A_SETTING),
        )
        for setting, result in zip(found.settings, found.results, strict=True)
    ]
    ended = f"; {STATUSES[found.status]}" if found.status != "converged" else ""
    lines = [f"{_plural(len(rows), 'setting')} in {found.seconds:.3g} s{ended}", ""]
    return "\n".join(lines + table([head, *rows], "<><>><", name_column=5))


def _whole_or_counted(names: Sequence[str], width: int) -> str:
    """As many names as fit, each whole, and how many more there are; one that does not fit alone is cut."""
    for shown in range(len(names), 0, -1):
        more = f", and {len(names) - shown:,} more" if shown < len(names) else ""
        text = ", ".join(names[:shown]) + more
        if len(text) <= width:
            return text
        if shown == 1:
            return shortened(names[0], width - len(more)) + more
    return ""


def _head(result: Result) -> list[str]:
    outcome = f"{result.family}" + (f", modelling {result.classes[-1]!r}" if result.classes else "")
    size = views.sample_size(result)
    rows = _plural(result.n_rows, "row") + (f" ({size})" if size else "")
    rows = "a graph, no data" if views.is_oracle(result) else rows
    forced = f", {result.n_forced:,} of them forced in" if result.n_forced else ""
    tests = f"{result.n_tests.forward:,} forward, {result.n_tests.backward:,} backward"
    algorithm = str(result.settings.get("algorithm", "FBED"))
    fbs = f"; FBS needs {views.least_tests_of_fbs(result):,} or more" if algorithm != "FBS" else ""
    return [
        f"{algorithm} selected {_plural(len(result.selected), 'variable')} of {views.n_variables(result):,}{forced}",
        *_labelled("outcome", f"{outcome}; {rows}"),
        *_labelled("criterion", result.criterion),
        *_labelled("tests", f"{result.n_tests.total:,} ({tests}) in {result.seconds:.3g} s{fbs}"),
        *_labelled("status", f"{result.status}: {STATUSES[result.status]}"),
    ]


def _labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"  {label}".ljust(_LABEL), subsequent_indent=" " * _LABEL, break_on_hyphens=False
    )


def _steps(result: Result, style: Style) -> list[str]:
    if not result.trace:
        return ["no scan was made"]
    head = ("phase", "run", "action", "variable", "statistic", "p-value", "tested", "dropped")
    first, *lines = table([head, *(_step(row) for row in result.trace)], "<><<>>>>", name_column=3)
    looks = {"add": PLAIN, "remove": style, "stop": style}
    shown = [
        line
        for row, text in zip(result.trace, lines, strict=True)
        for line in looks[row.action]("warn" if row.action == "remove" else "quiet", [text])
    ]
    return [*style("strong", [first]), *shown]


def _step(row: TraceRow) -> tuple[str, ...]:
    statistic = figure(row.statistic, 4)
    p = "" if row.log_p is None else p_value(row.log_p)
    run = "" if row.run is None else str(row.run)
    variable = "" if row.variable is None else str(row.variable)
    dropped = f"{row.n_dropped:,}" if row.phase == "forward" else ""
    return row.phase, run, row.action, variable, statistic, p, f"{row.tested:,}", dropped


def _model(result: Result, style: Style) -> list[str]:
    model = result.model
    assert model is not None
    facts = [f"{name} {value}" for name, value in fit_facts(model)]
    title = f"final model: {'; '.join(facts)}" if facts else "final model:" if model.terms else "no model: tests only"
    lines = paragraph(title)
    first, *rest = table_lines(model, _MOST_TERMS, indent=2) or [""]
    lines += [*style("strong", [first]), *rest] if rest else []
    if len(model.terms) > _MOST_TERMS:
        lines += paragraph("  … and more terms; result.model has them all")
    if model.separated:
        lines += style("warn", paragraph(f"  the outcome is separated, at least in part: {views.infinite(model)}"))
    return lines


def notes(result: Result) -> list[str]:
    """What a person should know about the data and the model, a sentence each."""
    return [*result.notes, *(caution.text for caution in cautions.about_data(result))]


def _foot(result: Result, with_notes: bool) -> list[str]:
    sentences = [f"note: {note}" for note in notes(result)] if with_notes else []
    sentences += _near_ties(result)
    if len(result.selected) > result.n_forced:
        sentences.append("p-values, standard errors and intervals are naive: they ignore the selection.")
    return ["", *(line for sentence in sentences for line in paragraph(sentence))] if sentences else []


def _near_ties(result: Result) -> list[str]:
    best: dict[int, views.Tie] = {}
    for tie in views.ties(result):
        if tie.near:
            best.setdefault(tie.step.number, tie)
    told = [f"{shortened(str(t.name), 30)} for {shortened(str(t.step.row.variable), 30)}" for t in best.values()]
    if not told:
        return []
    return [f"near ties, which would have entered almost as well: {'; '.join(told[:3])}{' …' if len(told) > 3 else ''}"]


def paragraph(text: str, indent: str = "  ") -> list[str]:
    """A sentence or more as lines; those after the first are indented."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def table(
    rows: Sequence[Sequence[str]], align: str, name_column: int, indent: int = 0, width: int = _WIDTH
) -> list[str]:
    """Rows of cells as aligned lines; the names are shortened, and nothing else, to fit the width."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(align))]
    others = indent + sum(widths) - widths[name_column] + 2 * (len(align) - 1)
    widths[name_column] = min(widths[name_column], max(_SHORTEST_NAME, width - others))
    lines = []
    names = shortened_apart([row[name_column] for row in rows], widths[name_column])
    for row, name in zip(rows, names, strict=True):
        cells = [name if j == name_column else cell for j, cell in enumerate(row)]
        padded = (f"{cell:{side}{w}}" for cell, side, w in zip(cells, align, widths, strict=True))
        lines.append((" " * indent + "  ".join(padded)).rstrip())
    return lines


def p_value(log_p: float, digits: int = 3) -> str:
    """A p-value that does not underflow: 3.2e-1085 is written from its logarithm."""
    if log_p > -600 or log_p == -np.inf:
        return f"{np.exp(log_p):.{digits}g}"
    exponent = np.floor(log_p / np.log(10))
    return f"{np.exp(log_p - exponent * np.log(10)):.1f}e{int(exponent)}"


def shortened(name: str, width: int) -> str:
    """The name, cut in the middle when it is too long: its end often tells it apart."""
    name = "".join(ch if ch.isprintable() else "�" for ch in name)
    if len(name) <= width:
        return name
    half = (width - 1) // 2
    return name[: width - 1 - half] + "…" + name[-half:]


def shortened_apart(names: Sequence[str], width: int) -> list[str]:
    """The names, each cut to the width, such that different names stay different."""
    short = {name: shortened(name, width) for name in dict.fromkeys(names)}
    alike: dict[str, list[str]] = {}
    for name, text in short.items():
        alike.setdefault(text, []).append(name)
    for group in alike.values():
        if len(group) > 1:
            short |= _told_apart(group, width)
    return [short[name] for name in names]


def _told_apart(names: Sequence[str], width: int) -> dict[str, str]:
    """Names that look alike when cut in the middle: cut where they differ, or numbered where that does not help."""
    first = next((i for i, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1), 0)
    start = min(4, width // 4)
    cut = {name: name[:start] + "…" + shortened(name[max(first - 1, start) :], width - start - 1) for name in names}
    if len(set(cut.values())) == len(names):
        return {name: shortened(text, width) for name, text in cut.items()}
    numbered = {}
    for i, name in enumerate(names, 1):
        tag = f"#{i}"
        numbered[name] = shortened(name, max(1, width - len(tag))) + tag
    return numbered


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
