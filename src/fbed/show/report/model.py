"""What was selected, how strongly, and the final model."""

from __future__ import annotations

import math
from typing import Any

from fbed.result import views
from fbed.result.fitted.table import fit_facts, ratios
from fbed.result.result import Result
from fbed.result.views import StepView
from fbed.show.report import charts
from fbed.show.report.cells import NAIVE, bounded, bounded_p, interval, number, numeric, paragraph, probability, section
from fbed.show.report.html import Cell, Head, Html, called, facts, join, table, tag

_MOST_BARS = 30
_MOST_TERMS = 60


def selected(result: Result) -> Html | None:
    """The selected variables: when each entered, and what it still adds at the end."""
    if not result.selected:
        return section("selected", "Selected variables", paragraph("No variable passed the criterion."))
    entered = {step.row.variable: step for step in views.steps(result) if step.row.action == "add"}
    rows = [_selected_row(result, i, entered.get(name)) for i, name in enumerate(result.selected)]
    heads = [
        Head("variable"),
        Head("entered in step", True),
        Head("statistic on entry", True),
        Head("df", True),
        Head(NAIVE, True),
        Head("statistic given all the others", True),
        Head("p-value given all the others (naive)", True),
    ]
    caption = "On entry: given the variables selected before it. Given all the others: in the last backward scan."
    return section("selected", "Selected variables", table(caption, heads, rows), *_effects(result))


def _selected_row(result: Result, i: int, step: StepView | None) -> list[object]:
    name, variable = result.selected[i], result.variables[i]
    last = views.last_test(result, variable)
    final = last if last is not None and result.trace[last[0]].phase == "backward" else None
    shown = Cell(join([tag("span", i + 1, class_="rank"), called(name)]), i)
    at_end: list[object] = ["–", "–"] if final is None else [bounded(final[1]), bounded_p(final[1])]
    if step is None:
        return [shown, "forced in", "–", "–", "–", *at_end]
    row = step.row
    return [
        shown,
        Cell(f"{step.number} ({step.zone})", step.number),
        numeric(row.statistic),
        numeric(row.df, 3),
        probability(row.log_p),
        *at_end,
    ]


def _effects(result: Result) -> list[object]:
    model = result.model
    if model is None or not model.terms:
        return []
    ratio = views.ratio_name(result)
    if model.separated and model.standard_errors is None:
        heads = [Head("term"), Head("coefficient", True)]
        caption = "The outcome is separated: only the signs of the coefficients have a meaning."
        rows = [[called(e.term), numeric(e.value)] for e in views.terms(result)]
        return [tag("h3", "The final model"), table(caption, heads, rows[:_MOST_TERMS])]
    heads = [Head("term")] + ([Head(ratio, True), Head("95% interval (naive)", True)] if ratio else [])
    heads += [Head("coefficient", True), Head("95% interval (naive)", True), Head("p-value (naive)", True)]
    heads += [Head(f"{ratio or 'coefficient'} per SD", True), Head("variance inflation", True)]
    rows = [_effect_row(row, ratio is not None) for row in model.rows()[:_MOST_TERMS]]
    caption = (
        "A coefficient is what one unit more of a number changes, or a level of a category against its reference; per "
        "SD, what one standard deviation more changes."
        + (f" The outcome is separated in part: {views.infinite(model)}." if model.separated else "")
        + (f" The first {_MOST_TERMS} of {len(model.terms):,} terms." if len(model.terms) > _MOST_TERMS else "")
    )
    fit = facts("How well it fits", [(name, value.replace("-", "−")) for name, value in fit_facts(model)])
    return [
        tag("h3", "The final model"),
        tag("div", _forest(result, ratio), fit, class_="charts"),
        table(caption, heads, rows),
        _checks(result),
    ]


def _effect_row(row: dict[str, Any], ratio: bool) -> list[object]:
    width = 7 if ratio else 5
    if row["reference"]:
        return [called(row["term"]), Cell("reference"), *[""] * (width - 1)]
    shown = [numeric(row["coefficient"]), interval(row["low"], row["high"]), _p(row["p_value"])]
    if ratio:
        value, ends = ratios(row["ratio"], row["ratio_low"], row["ratio_high"])
        known = not math.isnan(row["ratio"])
        shown = [Cell(value if known else "–", row["ratio"] if known else None), Cell(ends or "–"), *shown]
    return [called(row["term"]), *shown, numeric(row["per_sd"]), numeric(row["vif"])]


def _p(value: float) -> Cell:
    return Cell("–") if math.isnan(value) else Cell(number(value), value)


def _checks(result: Result) -> Html | None:
    """Tests of what the model assumes, term by term."""
    tested = [] if result.model is None else [c for c in result.model.checks if c.term is not None]
    if not tested:
        return None
    heads = [Head("term"), Head("statistic", True), Head("p-value", True)]
    rows = [[called(check.term), numeric(check.statistic), _p(check.p_value)] for check in tested[:_MOST_TERMS]]
    said = "Does the effect of a term change with time? A small p-value says so (Grambsch and Therneau's test)."
    return tag("details", tag("summary", "Are the hazards proportional?"), table(said, heads, rows))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _forest(result: Result, ratio: str | None) -> Html | None:
    every = views.effects(result)
    if not every:
        return None
    rows = [(effect.term, *effect.scaled) for effect in every[:_MOST_BARS]]
    what = ratio or "coefficient"
    left_out = f" The first {_MOST_BARS} of {len(every)} terms." if len(every) > _MOST_BARS else ""
    caption = (
        f"{what.capitalize()} per standard deviation of a number, or against the first level of a category, with naive "
        f"95% intervals.{left_out}"
    )
    told = "; ".join(f"{term} {number(_exp(value) if ratio else value, 3)}" for term, value, _, _ in rows)
    return charts.forest("effects", rows, told, caption, ratio is not None)
