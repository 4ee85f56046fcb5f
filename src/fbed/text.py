"""A result as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fbed.search import STATUSES

if TYPE_CHECKING:
    from fbed.families.base import FittedModel
    from fbed.paths import PathResult
    from fbed.result import Result, TraceRow

_WIDTH = 80
_LABEL = 13  # '  criterion  ', before what it says
_SHORTEST_NAME = 12  # below this a table is better too wide than unreadable


def summary(result: Result) -> str:
    """Settings, steps, final model and what to keep in mind, within 80 columns."""
    model = [] if result.model is None else ["", *_model(result.model), *_foot(result)]
    return "\n".join([*_head(result), "", *_steps(result), *model])


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
    rows = _plural(result.n_rows, "row") + (f" (total weight {result.n:,g})" if result.n != result.n_rows else "")
    rows = rows if result.model else "a graph, no data"
    forced = f", {result.n_forced:,} of them forced in" if result.n_forced else ""
    tests = f"{result.n_tests.forward:,} forward, {result.n_tests.backward:,} backward"
    algorithm = str(result.settings.get("algorithm", "FBED"))
    n_variables = result.n_variables - sum(len(columns) - 1 for columns in result.groups.values())
    return [
        f"{algorithm} selected {_plural(len(result.selected), 'variable')} of {n_variables:,}{forced}",
        *_labelled("outcome", f"{outcome}; {rows}"),
        *_labelled("criterion", result.criterion),
        *_labelled("tests", f"{result.n_tests.total:,} ({tests}) in {result.seconds:.3g} s"),
        *_labelled("status", f"{result.status}: {STATUSES[result.status]}"),
    ]


def _labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"  {label}".ljust(_LABEL), subsequent_indent=" " * _LABEL, break_on_hyphens=False
    )


def _steps(result: Result) -> list[str]:
    if not result.trace:
        return ["no scan was made"]
    head = ("phase", "run", "action", "variable", "statistic", "p-value", "tested", "dropped")
    return table([head, *(_step(row) for row in result.trace)], "<><<>>>>", name_column=3)


def _step(row: TraceRow) -> tuple[str, ...]:
    statistic = "" if row.statistic is None else f"{row.statistic:.4g}"
    p = "" if row.log_p is None else p_value(row.log_p)
    run = "" if row.run is None else str(row.run)
    variable = "" if row.variable is None else str(row.variable)
    dropped = f"{row.n_dropped:,}" if row.phase == "forward" else ""
    return row.phase, run, row.action, variable, statistic, p, f"{row.tested:,}", dropped


def _model(model: FittedModel) -> list[str]:
    errors: Sequence[float | None] = model.standard_errors or (None,) * len(model.terms)
    numbers = zip(model.terms, model.coefficients, errors, strict=True)
    rows = [(term, f"{value:.4g}", "" if error is None else f"{error:.4g}") for term, value, error in numbers]
    lines = [f"final model (deviance {model.deviance:.6g} of {model.null_deviance:.6g}):"]
    lines += table([("term", "coefficient", "std. error"), *rows], "<>>", name_column=0, indent=2)
    if model.separated:
        lines += _sentence(
            "  the outcome is separated, at least in part: some coefficients are infinite, and only their direction "
            "has meaning"
        )
    return lines


def _foot(result: Result) -> list[str]:
    sentences = [f"note: {note}" for note in result.notes]
    if len(result.selected) > result.n_forced:
        sentences.append("p-values and standard errors are naive: they ignore the selection.")
    return ["", *(line for sentence in sentences for line in _sentence(sentence))] if sentences else []


def _sentence(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


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


def p_value(log_p: float) -> str:
    """A p-value that does not underflow: 3.2e-1085 is written from its logarithm."""
    if log_p > -600 or log_p == -np.inf:
        return f"{np.exp(log_p):.3g}"
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
