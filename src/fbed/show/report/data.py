"""Outcome and table at a glance."""

from __future__ import annotations

from fbed.result import views
from fbed.result.result import Result
from fbed.show.report import charts
from fbed.show.report.cells import number, numeric, plural, section
from fbed.show.report.html import Cell, Head, Html, called, facts, table, tag


def data(result: Result) -> Html | None:
    """Outcome and table at a glance."""
    look = result.overview
    if look is None:
        return None
    described = facts(
        "The table",
        [
            ("rows", f"{result.n_rows:,}"),
            ("sample size in the criterion", views.sample_size(result)),
            ("predictors", f"{result.n_variables:,}, stored {look.storage}"),
            ("groups of columns", f"{len(result.groups):,}" if result.groups else None),
            ("of them categorical", f"{look.n_categorical:,}" if look.n_categorical else None),
            ("rows dropped for missing values", _counted(result, "n_rows_dropped")),
            ("constant, hence never selected", f"{look.n_constant:,}" if look.n_constant else None),
            ("left out", _counted(result, "n_excluded")),
            ("forced in", f"{result.n_forced:,}" if result.n_forced else None),
            ("family", result.family + (f", modelling {result.classes[-1]}" if result.classes else "")),
        ],
    )
    return section(
        "data", "Outcome and data", tag("div", _outcome_chart(result), described, class_="charts"), _columns(result)
    )


def _counted(result: Result, setting: str) -> str | None:
    count = int(result.settings.get(setting) or 0)
    return f"{count:,}" if count else None


def _outcome_chart(result: Result) -> Html | None:
    outcome = result.overview.outcome if result.overview is not None else None
    if outcome is None:
        return None
    if outcome.classes:
        told = ", ".join(f"{name}: {count:,g}" for name, count in outcome.classes)
        return charts.counts("outcome", outcome.classes, "Classes of the outcome", told, "Rows by value of the outcome")
    q = outcome.quartiles
    told = (
        f"From {number(q[0])} to {number(q[4])}, median {number(q[2])}, quartiles {number(q[1])} and {number(q[3])}, "
        f"mean {number(outcome.mean)}, standard deviation {number(outcome.sd)}"
    )
    if outcome.events is not None:
        times = f"{told[0].lower()}{told[1:]}"
        told = f"Times: {times}. {outcome.events:,g} events, {result.n_rows - outcome.events:,g} censored"
    return charts.histogram("outcome", outcome.edges, outcome.counts, "Distribution of the outcome", told, told + ".")


def _columns(result: Result) -> Html | None:
    look = result.overview
    if look is None or not look.columns:
        return None
    rows = []
    for i, (name, column) in enumerate(zip(result.selected, look.columns, strict=True)):
        inflation = numeric(look.inflation[i], 3) if i < len(look.inflation) else Cell("–")
        if column.levels:
            text = ", ".join(f"{level}: {count:,g}" for level, count in column.levels[:8])
            more = f" and {len(column.levels) - 8:,} more" if len(column.levels) > 8 else ""
            text = f"{text}{more}; reference {column.levels[0][0]}"
            rows.append([called(name), f"{len(column.levels)} levels", "–", "–", text, inflation])
        elif column.mean is None:
            rows.append([called(name), plural(len(column.terms), "column"), "–", "–", "–", inflation])
        else:
            spread = f"{number(column.low)} to {number(column.high)}"
            scale = numeric(column.scales[0] if column.scales else 0.0)
            rows.append([called(name), "number", numeric(column.mean), scale, spread, inflation])
    heads = [
        Head("variable"),
        Head("kind"),
        Head("mean", True),
        Head("standard deviation", True),
        Head("range, or rows by level"),
        Head("variance inflation", True),
    ]
    return tag("details", tag("summary", "The selected columns in figures"), table("The selected columns", heads, rows))
