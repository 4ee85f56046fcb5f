"""How the variables were found: every scan, and what was dropped when."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fbed.result import views
from fbed.result.result import Result
from fbed.result.views import StepView
from fbed.show.report import charts
from fbed.show.report.cells import NAIVE, number, numeric, paragraph, plural, probability, section
from fbed.show.report.html import Cell, Head, Html, called, facts, table, tag

_MOST_BARS = 30


def path(result: Result) -> Html | None:
    """Criterion and deviance by step."""
    every = views.steps(result)
    if not every:
        return None
    drawn = (
        []
        if views.is_oracle(result)
        else [chart for chart in (_deviance(result), _criterion(result)) if chart is not None]
    )
    heads = [
        Head("step", True),
        Head("phase"),
        Head("action"),
        Head("variable"),
        Head("statistic", True),
        Head("needed", True),
        Head(NAIVE, True),
        Head("tested", True),
        Head("dropped", True),
        Head("seconds", True),
    ]
    rows = [_step_row(step) for step in every]
    explained = (
        "Each step is a scan: all candidates that are left are tested given the variables selected so far; the best "
        "enters, and those that would not pass the criterion are dropped until the next run. The backward phase "
        "removes what the others have made superfluous."
    )
    return section(
        "path", "The path", paragraph(explained), tag("div", *drawn, class_="charts"), table("Every scan", heads, rows)
    )


def _step_row(step: StepView) -> list[object]:
    row = step.row
    variable = Cell("–") if row.variable is None else Cell(called(row.variable))
    return [
        Cell(step.number, step.number),
        step.zone,
        {"add": "added", "remove": "removed", "stop": "nothing"}[row.action],
        variable,
        numeric(row.statistic),
        numeric(step.critical),
        probability(row.log_p),
        Cell(f"{row.tested:,}", row.tested),
        Cell(f"{row.n_dropped:,}" if row.phase == "forward" else "–", row.n_dropped),
        numeric(row.seconds, 2),
    ]


def _points(steps: Sequence[StepView], values: Sequence[float]) -> list[charts.Point]:
    return [
        charts.Point(step.number, value, str(step.row.variable), step.zone, step.row.action == "remove")
        for step, value in zip(steps, values, strict=True)
    ]


def _deviance(result: Result) -> Html | None:
    steps = views.changes(result)
    if not views.has_deviance(result) or not steps:
        return None
    told = f"It falls by {number(steps[-1].fall)} in {plural(len(steps), 'step')}"
    model = result.model
    both = () if model is None or result.n_forced else (model.null_log_likelihood, model.log_likelihood)
    ends = [number(-2.0 * value, 5) for value in both if value is not None]
    if len(ends) == 2:
        told += f", from {ends[0]} to {ends[1]}"
    return charts.path(
        "deviance",
        _points(steps, [step.fall for step in steps]),
        "Fall of −2 log-likelihood by step",
        told,
        f"Fall of −2 log-likelihood since the start. {told}. Hollow points: variables removed.",
        start=0.0,
    )


def _criterion(result: Result) -> Html | None:
    steps = views.changes(result)
    if not steps:
        return None
    if not views.by_level(result):
        gains = _cumulated(steps)
        told = f"In all it falls by {number(gains[-1])}"
        name = result.criterion.split(",")[0].split(" ")[0]
        return charts.path(
            "criterion",
            _points(steps, gains),
            f"Fall of {name} by step",
            told,
            f"Fall of the criterion ({name}) since the start. {told}.",
            start=0.0,
        )
    tested = [step for step in steps if step.row.log_p is not None and step.row.log_p < 0]
    values = [-(step.row.log_p or 0.0) / math.log(10) for step in tested if math.isfinite(step.row.log_p or 0.0)]
    if not values or len(values) < len(tested):
        return None
    log, level = max(values) > 30 * min(values), _level(result, tested[0])
    caption = "Strength of each step, −log₁₀ of the naive p-value: 2 is p = 0.01, 3 is p = 0.001."
    return charts.path(
        "criterion",
        _points(tested, values),
        "Strength of each step",
        f"From {number(max(values))} to {number(min(values))}",
        caption + (f" Dashed: {level[1]}." if level else "") + (" Logarithmic axis." if log else ""),
        level=None if level is None else level[0],
        log=log,
    )


def _cumulated(steps: Sequence[StepView]) -> list[float]:
    """Improvement of an information criterion: a removal improves it by what the variable was short of."""
    total, out = 0.0, []
    for step in steps:
        total += abs(step.row.score or 0.0)
        out.append(total)
    return out


def _level(result: Result, step: StepView) -> tuple[float, str] | None:
    """The level alpha, from the critical value of a step."""
    reference = result.reference(step.row)
    if reference is None or step.critical is None or step.row.df is None or not math.isfinite(step.critical):
        return None
    log_alpha = float(reference.log_sf([step.critical], [step.row.df])[0])
    return -log_alpha / math.log(10), f"alpha = {math.exp(log_alpha):.3g}"


def dropping(result: Result) -> Html | None:
    """The funnel of early dropping, and what it saved."""
    scans = [step for step in views.steps(result) if step.row.phase == "forward"]
    if not scans:
        return None
    found, least = result.n_tests, views.least_tests_of_fbs(result)
    tests = facts(
        "Tests",
        [
            ("forward phase", f"{found.forward:,}"),
            ("backward phase", f"{found.backward:,}"),
            ("together", f"{found.total:,}"),
            (
                "FBS, at the least",
                f"{least:,}" + (f" ({least / found.total:.3g} times as many)" if found.total else ""),
            ),
        ],
    )
    said = paragraph(
        "A test is one candidate looked at once. Plain forward-backward selection (FBS) drops nothing: to select as "
        f"many variables it needs {least:,} tests or more."
    )
    if not result.settings.get("early_dropping", True):
        return section(
            "dropping",
            "Tests",
            paragraph("Nothing was dropped early: this was plain forward-backward selection."),
            tests,
        )
    rows = [(f"{step.zone}, {step.number}", step.row.tested, step.remaining) for step in scans[:_MOST_BARS]]
    counts = [count for _, tested, kept in rows for count in (tested, kept)]
    log = max(counts) > 50 * max(1, sorted(counts)[len(counts) // 2])
    caption = (
        "By run and step: the whole bar is the candidates that were tested, its strong part those that were left for "
        "the next scan."
        + (" Logarithmic lengths." if log else "")
        + (f" The first {_MOST_BARS} of {len(scans)} scans." if len(scans) > _MOST_BARS else "")
    )
    told = "; ".join(f"{name}: {tested:,} tested, {kept:,} left" for name, tested, kept in rows)
    chart = charts.funnel("funnel", rows, told, caption, log)
    return section("dropping", "Early dropping", said, tag("div", chart, tests, class_="charts"))
