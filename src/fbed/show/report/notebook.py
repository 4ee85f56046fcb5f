"""A result as a notebook shows it: what was selected and how strongly, in one small table."""

from __future__ import annotations

from fbed.result import cautions, views
from fbed.result.result import Result
from fbed.show.report import cells
from fbed.show.report.html import Cell, Html, called, join, tag

_MOST = 25
_LEFT, _RIGHT = "text-align:left", "text-align:right"


def compact(result: Result) -> str:
    """A heading, a table of the selected, and what to keep in mind; its colours are the notebook's."""
    algorithm = str(result.settings.get("algorithm", "FBED"))
    title = f"{algorithm} selected {cells.plural(len(result.selected), 'variable')} of {views.n_variables(result):,}"
    facts = [f"{result.family}", result.criterion, f"{result.n_tests.total:,} tests", result.status.replace("_", " ")]
    return tag(
        "div",
        tag("p", tag("strong", title), tag("br"), join(facts, " · ")),
        _table(result),
        *(tag("p", tag("strong", f"{caution.title}. "), caution.text) for caution in cautions.cautions(result)),
    )


def _table(result: Result) -> Html | None:
    if not result.selected:
        return None
    entered = {step.row.variable: step for step in views.steps(result) if step.row.action == "add"}
    coefficients = _coefficients(result)
    head = tag(
        "tr",
        *(
            tag("th", title, scope="col", style=style)
            for title, style in (
                ("", _RIGHT),
                ("variable", _LEFT),
                ("step", _LEFT),
                ("statistic", _RIGHT),
                ("p-value (naive)", _RIGHT),
                ("coefficient [95%, naive]", _LEFT),
            )
        ),
    )
    rows = []
    for i, name in enumerate(result.selected[:_MOST]):
        step = entered.get(name)
        shown_cells: list[object] = ["forced in", "", ""]
        if step is not None:
            p = cells.probability(step.row.log_p)
            shown_cells = [f"{step.number} ({step.zone})", cells.number(step.row.statistic), p.shown]
        shown = [
            (i + 1, _RIGHT),
            (called(name), _LEFT),
            (shown_cells[0], _LEFT),
            (shown_cells[1], _RIGHT),
            (shown_cells[2], _RIGHT),
        ]
        shown.append((coefficients.get(name, ""), _LEFT))
        rows.append(tag("tr", *(tag("td", content, style=style) for content, style in shown)))
    more = len(result.selected) - len(rows)
    foot = tag("p", f"and {more:,} more") if more > 0 else None
    caption = tag("caption", "Selected variables in order of selection", style=_LEFT)
    return join([tag("table", caption, tag("thead", head), tag("tbody", *rows)), foot])


def _coefficients(result: Result) -> dict[object, str]:
    """The coefficient of every variable that has exactly one."""
    found: dict[object, list[str]] = {}
    for effect in views.effects(result):
        interval: Cell = cells.interval(effect.low, effect.high)
        ends = "" if effect.low is None else f" [{interval.shown}]"
        found.setdefault(effect.variable, []).append(f"{cells.number(effect.value)}{ends}")
    return {name: texts[0] if len(texts) == 1 else f"{len(texts)} coefficients" for name, texts in found.items()}
