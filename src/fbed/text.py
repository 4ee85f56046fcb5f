"""A result as text for a terminal."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbed import views
from fbed.search import STATUSES

if TYPE_CHECKING:
    from fbed.paths import PathResult
    from fbed.result import Result, TraceRow

_WIDTH = 80
_LABEL = 13  # '  criterion  ', before what it says
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


def summary(result: Result, style: Style = PLAIN) -> str:
    """Settings, steps, final model and what to keep in mind, within 80 columns."""
    title, *head = _head(result)
    model = [] if result.model is None else ["", *_model(result, style), *style("warn", _foot(result))]
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
            ", ".join(str(name) for name in result.selected[:8]),
        )
        for setting, result in zip(found.settings, found.results, strict=True)
    ]
    ended = f"; {STATUSES[found.status]}" if found.status != "converged" else ""
    lines = [f"{_plural(len(rows), 'setting')} in {found.seconds:.3g} s{ended}", ""]
    return "\n".join(lines + table([head, *rows], "<><>><", name_column=5))


def _head(result: Result) -> list[str]:
    outcome = f"{result.family}" + (f", modelling {result.classes[-1]!r}" if result.classes else "")
    size = views.sample_size(result)
    rows = _plural(result.n_rows, "row") + (f" ({size})" if size else "")
    rows = rows if result.model else "a graph, no data"
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
    statistic = "" if row.statistic is None else f"{row.statistic:.4g}"
    p = "" if row.log_p is None else p_value(row.log_p)
    run = "" if row.run is None else str(row.run)
    variable = "" if row.variable is None else str(row.variable)
    dropped = f"{row.n_dropped:,}" if row.phase == "forward" else ""
    return row.phase, run, row.action, variable, statistic, p, f"{row.tested:,}", dropped


def _model(result: Result, style: Style) -> list[str]:
    model = result.model
    assert model is not None
    errors: Sequence[float | None] = model.standard_errors or (None,) * len(model.terms)
    rows = [
        (effect.term, _coefficient(effect.value), "" if error is None else _error(error), _interval(effect))
        for effect, error in zip(views.terms(result), errors, strict=True)
    ]
    lines = [f"final model (deviance {model.deviance:.6g} of {model.null_deviance:.6g}):"]
    head = ("term", "coefficient", "std. error", "95% interval")
    first, *rest = table([head, *rows], "<>>>", name_column=0, indent=2) if rows else [""]
    lines += [*style("strong", [first]), *rest] if rows else []
    if model.separated:
        lines += style("warn", paragraph(f"  the outcome is separated, at least in part: {views.infinite(model)}"))
    return lines


def _coefficient(value: float) -> str:
    return f"{value:.4g}".replace("inf", "∞")


def _error(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"


def _interval(effect: views.Effect) -> str:
    return "" if effect.low is None or effect.high is None else f"{effect.low:.4g} to {effect.high:.4g}"


def _foot(result: Result) -> list[str]:
    sentences = [f"note: {note}" for note in result.notes]
    sentences += [f"note: {caution.text}" for caution in views.data_cautions(result)]
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
    for row in rows:
        cells = [shortened(cell, widths[j]) if j == name_column else cell for j, cell in enumerate(row)]
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


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
