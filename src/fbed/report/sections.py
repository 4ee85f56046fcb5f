"""The sections of the report, each a function from a result to markup (None when there is nothing to say)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fbed import views
from fbed.report import charts
from fbed.report.html import Cell, Head, Html, called, facts, join, table, tag
from fbed.result import Result
from fbed.search import STATUSES
from fbed.text import p_value
from fbed.views import Effect, Statistic, StepView

_MOST_CHIPS = 60
_MOST_BARS = 30
_MOST_NOT_SELECTED = 50
_MOST_IN_HEATMAP = 40
_MOST_PAIRS = 15
_NAIVE = "p-value (naive, after selection)"

Section = Callable[[Result], Html | None]


# -- figures ---------------------------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 4) -> str:
    """A number for a reader."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 10**digits <= abs(value) < 1e9:
        return f"{value:,.0f}".replace("-", "−")
    return (
        f"{value:.{digits}g}".replace("-", "−")
        if abs(value) >= 1e-4 or value == 0
        else f"{value:.2e}".replace("-", "−")
    )


def numeric(value: float | None, digits: int = 4) -> Cell:
    """A cell with a number."""
    return Cell(number(value, digits), None if value is None or math.isnan(value) else value)


def probability(log_p: float | None) -> Cell:
    """A cell with a p-value, sorted by its logarithm."""
    return Cell("–") if log_p is None or math.isnan(log_p) else Cell(p_value(log_p).replace("-", "−"), log_p)


def bounded(known: Statistic) -> Cell:
    """A statistic, or what is certain about it."""
    return between(known.lower, known.upper)


def between(low: float, high: float) -> Cell:
    """A number that is known from bounds, as precisely as a reader sees it."""
    ends = number(low), number(high)
    if ends[0] == ends[1]:
        return Cell(ends[1], high)
    if math.isinf(high):
        return Cell(f"≥ {ends[0]}", low)
    return Cell(f"≤ {ends[1]}" if low <= 0 else f"{ends[0]} to {ends[1]}", high)


def bounded_p(known: Statistic) -> Cell:
    """A p-value, or what is certain about it."""
    if math.isnan(known.log_p_low):
        return Cell("–")
    low, high = (p_value(log_p).replace("-", "−") for log_p in (known.log_p_low, known.log_p_high))
    if low == high:
        return probability(known.log_p_high)
    if known.log_p_low == -math.inf:
        return Cell(f"≤ {high}", known.log_p_high)
    return Cell(f"≥ {low}" if known.log_p_high == 0 else f"{low} to {high}", known.log_p_low)


def target(result: Result) -> object:
    """What the outcome is called."""
    given = None if result.origin is None else result.origin.value("y")
    if isinstance(given, str):
        return called(given)
    if isinstance(given, (tuple, list)) and all(isinstance(part, str) for part in given):
        return join((called(part) for part in given), ", ")
    return "the outcome"


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def section(identifier: str, title: str, *parts: object) -> Html:
    """A part of the page with a heading."""
    return tag(
        "section",
        tag("h2", title, id=f"{identifier}-heading"),
        *parts,
        id=identifier,
        aria_labelledby=f"{identifier}-heading",
    )


def paragraph(*parts: object) -> Html:
    """A paragraph."""
    return tag("p", *parts)


# -- at the top ------------------------------------------------------------------------------------------------------


def header(result: Result, contents: Sequence[tuple[str, str]]) -> Html:
    """Title, key figures and contents."""
    algorithm = str(result.settings.get("algorithm", "FBED"))
    date = "" if result.origin is None else f", {result.origin.date[:10]}"
    links = [tag("li", tag("a", title, href=f"#{identifier}")) for identifier, title in contents]
    return tag(
        "header",
        tag("a", "To the report", href="#summary", class_="skip"),
        tag("h1", "Which variables predict ", target(result), "?"),
        tag(
            "p",
            f"Forward-backward selection with early dropping ({algorithm}), {result.criterion}{date}",
            class_="quiet",
        ),
        _figures(result),
        tag("nav", tag("ul", *links), aria_label="Contents"),
    )


def _figures(result: Result) -> Html:
    found, least = result.n_tests.total, views.least_tests_of_fbs(result)
    rows = "a graph, no data" if views.is_oracle(result) else f"{result.n_rows:,}"
    shown = [
        (f"{len(result.selected):,} of {views.n_variables(result):,}", "variables selected"),
        (rows, "rows" if not views.is_oracle(result) else "perfect tests"),
        (f"{found:,}", f"tests; FBS needs {least:,} or more" if result.settings.get("early_dropping") else "tests"),
        (f"{result.seconds:.3g} s", "of computing"),
        (result.status.replace("_", " "), "how the search ended"),
    ]
    return tag("ul", *(tag("li", tag("strong", big), small) for big, small in shown), class_="figures")


def summary(result: Result) -> Html:
    """What was selected, in words, and what to keep in mind."""
    chips = [
        tag("li", tag("span", i, class_="rank"), called(name))
        for i, name in enumerate(result.selected[:_MOST_CHIPS], 1)
    ]
    more = len(result.selected) - len(chips)
    names: list[object] = [tag("ul", *chips, class_="chips")] if chips else []
    if more > 0:
        names.append(paragraph(f"and {more:,} more, in the table below."))
    cautions = [
        tag("div", tag("strong", caution.title), paragraph(caution.text), class_="caution")
        for caution in views.cautions(result)
    ]
    return section("summary", "Summary", paragraph(*_in_words(result)), *names, _honesty(result), *cautions)


def _in_words(result: Result) -> list[object]:
    found, forced = len(result.selected) - result.n_forced, result.n_forced
    of = f"of {plural(views.n_candidates(result), 'candidate')}"
    text: list[object] = [
        f"{plural(found, 'variable')} {of} {'was' if found == 1 else 'were'} selected for ",
        target(result),
    ]
    if forced:
        text.append(f", besides {plural(forced, 'variable')} forced in")
    text.append(f". The search ended because {_because(result.status)}.")
    if found:
        text.append(" In order of selection:")
    return text


def _because(status: str) -> str:
    because = {"interrupted": "it was interrupted", "time_limit": "the time limit was reached"}
    return because.get(status, STATUSES[status])


def _honesty(result: Result) -> Html | None:
    if views.is_oracle(result) or len(result.selected) == result.n_forced:
        return None
    return tag(
        "div",
        tag("strong", "What the p-values are not"),
        paragraph(
            "Variables were chosen because they looked best, and then tested on the same rows. p-values and intervals "
            "below ignore that: they are too optimistic, by an unknown amount. They show how the search decided. "
            "Evidence needs data that took no part in the selection."
        ),
        class_="caution",
    )


# -- the data --------------------------------------------------------------------------------------------------------


def data(result: Result) -> Html | None:
    """Outcome and table at a glance."""
    look = result.glance
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
    outcome = result.glance.outcome if result.glance is not None else None
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
    look = result.glance
    if look is None or not look.columns:
        return None
    rows = []
    for i, (name, column) in enumerate(zip(result.selected, look.columns, strict=True)):
        inflation = numeric(look.inflation[i], 3) if i < len(look.inflation) else Cell("–")
        if column.levels:
            shown = sorted(column.levels, key=lambda level: -level[1])
            text = ", ".join(f"{level} {count:,g}" for level, count in shown[:8]) + (", …" if len(shown) > 8 else "")
            rows.append([called(name), f"{len(shown)} levels", "–", "–", text, inflation])
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


# -- what was selected -----------------------------------------------------------------------------------------------


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
        Head(_NAIVE, True),
        Head("statistic given all the others", True),
        Head("p-value given all the others (naive)", True),
    ]
    caption = (
        "On entry: given the variables selected before it. Given all the others: from the last backward scan; where "
        "bounds were enough to keep a variable, they are shown."
    )
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
    every, model = views.terms(result), result.model
    if not every or model is None:
        return []
    ratio = views.ratio_name(result)
    caption = (
        f"The final model, with deviance {number(model.deviance, 5)}; without variables it is "
        f"{number(model.null_deviance, 5)}. "
    )
    if model.separated and model.standard_errors is None:
        heads = [Head("term"), Head("coefficient", True)]
        caption += "The outcome is separated: only the signs of the coefficients have a meaning."
        return [tag("h3", "Size of the effects"), table(caption, heads, [_effect_row(e, False)[:2] for e in every])]
    heads = [Head("term"), Head("coefficient", True), Head("95% interval (naive)", True)]
    heads += [Head(f"{ratio or 'coefficient'} per SD or level", True), Head("its 95% interval (naive)", True)]
    caption += (
        "Per SD or level: for one standard deviation more of a number, or for a level of a category against its first."
    )
    if model.separated:
        caption += f" The outcome is separated in part: {views.infinite(model)}."
    rows = [_effect_row(effect, ratio is not None) for effect in every]
    return [tag("h3", "Size of the effects"), _forest(result, ratio), table(caption, heads, rows)]


def _effect_row(effect: Effect, ratio: bool) -> list[object]:
    cells: list[object] = [called(effect.term), numeric(effect.value), interval(effect.low, effect.high)]
    if effect.variable is None:
        return [*cells, "–", "–"]
    value, *ends = ((_exp(v) if ratio else v) if v is not None else None for v in effect.scaled)
    return [*cells, numeric(value), interval(*ends)]


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def interval(low: float | None, high: float | None) -> Cell:
    """A cell with an interval."""
    return Cell("–") if low is None or high is None else Cell(f"{number(low)} to {number(high)}", low)


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


# -- how it was found ------------------------------------------------------------------------------------------------


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
        Head(_NAIVE, True),
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
    return charts.path(
        "deviance",
        _points(steps, [step.fall for step in steps]),
        "Fall of the deviance by step",
        told,
        f"Fall of the deviance (−2 log-likelihood) since the start. {told}. Hollow points: variables removed.",
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


def near_ties(result: Result) -> Html | None:
    """Variables that would have entered almost as well."""
    every = views.ties(result)
    if views.is_oracle(result) or not views.changes(result):
        return None
    near = [tie for tie in every if tie.near]
    said = (
        f"{_times(len(near))} another variable would have entered almost as well as the one that did: with slightly "
        "other data the selection might have gone another way there."
        if near
        else "At no step was another variable nearly as good as the one that entered."
    )
    rule = f"Near means: the score, the statistic less what was needed, is at most {views.NEAR:g} behind."
    parts: list[object] = [paragraph(said, " ", rule)]
    if near:
        parts.append(_ties_table("Near ties", near, marked=False))
    if len(every) > len(near):
        others = tag("summary", f"All {len(every):,} runners-up")
        parts.append(tag("details", others, _ties_table("The best that did not enter, at every step", every)))
    return section("ties", "Near ties", *parts)


def _times(count: int) -> str:
    return {1: "Once", 2: "Twice"}.get(count, f"{count:,} times")


def _ties_table(caption: str, ties: Sequence[views.Tie], marked: bool = True) -> Html:
    heads = [
        Head("runner-up"),
        Head("step", True),
        Head("entered instead"),
        Head("its statistic", True),
        Head("statistic of the runner-up", True),
        Head("behind by", True),
        Head("what became of it"),
    ]
    rows = []
    for tie in ties:
        finding, step = tie.finding, tie.step
        low, high = finding.statistic, finding.upper
        behind = Cell(("" if number(low) == number(high) else "≥ ") + number(tie.behind, 3), tie.behind)
        rows.append(
            [
                join([called(tie.name), tag("span", " near tie", class_="near") if tie.near and marked else None]),
                Cell(step.number, step.number),
                called(step.row.variable),
                numeric(step.row.statistic),
                between(low, high),
                behind,
                tie.fate,
            ]
        )
    return table(caption, heads, rows)


def correlations(result: Result) -> Html | None:
    """Correlations among the selected."""
    if result.glance is None or len(result.glance.correlations) < 2:
        return None
    few = min(len(result.glance.correlations), _MOST_IN_HEATMAP)
    names = [str(name) for name in result.selected[:few]]
    matrix = [row[:few] for row in result.glance.correlations[:few]]
    pairs = views.correlated_pairs(result)
    told = "; ".join(f"{a} and {b} {r:.2f}" for a, b, r in pairs[:_MOST_PAIRS])
    limit = f" The first {few} of {len(result.selected)} variables." if len(result.selected) > few else ""
    caption = f"Numbers are the order of selection; blue is positive, orange and dashed negative.{limit}"
    chart = charts.heatmap("correlations-map", names, matrix, f"Strongest: {told}", caption)
    heads = [Head("variable"), Head("and"), Head("correlation", True)]
    rows = [[called(a), called(b), numeric(r, 3)] for a, b, r in pairs[:_MOST_PAIRS]]
    listed = table("The strongest correlations" if len(pairs) > _MOST_PAIRS else "All pairs", heads, rows)
    said = (
        "Pearson's correlation of two numbers; where a category takes part, the largest correlation that any coding of "
        "it reaches, which has no sign."
    )
    return section(
        "correlations", "Correlations among the selected", paragraph(said), tag("div", chart, listed, class_="charts")
    )


def not_selected(result: Result) -> Html | None:
    """Candidates that were left out, those first that came closest."""
    if views.is_oracle(result):
        return None
    few = views.closest(result, _MOST_NOT_SELECTED)
    if len(few) == 0:
        return None
    total = int(((result.candidates.row >= 0) & ~result.support).sum())
    rows = []
    for variable in few.tolist():
        last = views.last_test(result, variable)
        if last is None:
            continue
        place, known = last
        rows.append(
            [
                called(result.name(variable)),
                Cell(place + 1, place + 1),
                bounded(known),
                numeric(known.critical),
                bounded_p(known),
                views.fate(result, variable),
            ]
        )
    heads = [Head("variable"), Head("last tested in step", True), Head("statistic there", True), Head("needed", True)]
    heads += [Head("p-value there (naive)", True), Head("what became of it")]
    shown = "" if total <= len(few) else f" The {len(few)} of {total:,} that came closest."
    caption = f"Where only a range is given, it was enough to decide.{shown}"
    said = "Given the variables that were selected at that step, each of these added less than the criterion asks."
    return section("others", "Not selected", paragraph(said), table(caption, heads, rows))


# -- the small print -------------------------------------------------------------------------------------------------


def settings(result: Result) -> Html:
    """What was asked for."""
    said = result.settings
    runs = "as many as add something" if said.get("k", 0) is None else said.get("k")
    dropping = bool(said.get("early_dropping", True))
    include = list(said.get("include", ()))
    pairs = [
        ("algorithm", said.get("algorithm")),
        ("family", result.family),
        ("criterion", result.criterion),
        ("test", said.get("test")),
        ("robust covariance", said.get("cov")),
        ("link", said.get("link")),
        ("extra runs (K)", runs if dropping else None),
        ("early dropping", "yes" if dropping else "no"),
        ("backward phase", "yes" if said.get("backward", True) else "no"),
        ("forced in", join((called(name) for name in include[:20]), ", ") if include else None),
        ("most variables", said.get("max_features")),
        ("time limit", f"{said['time_limit']:g} s" if said.get("time_limit") is not None else None),
        ("threads", said.get("n_jobs")),
    ]
    known = {
        "criterion",
        "algorithm",
        "test",
        "cov",
        "link",
        "k",
        "early_dropping",
        "backward",
        "include",
        "max_features",
        "time_limit",
        "n_jobs",
        "n_excluded",
        "n_rows_dropped",
    }
    others = [
        (name.replace("_", " "), str(value)) for name, value in said.items() if name not in known and value is not None
    ]
    return section("settings", "Settings", facts("What was asked for", [*pairs, *others]))


def rerun(result: Result) -> Html | None:
    """The exact command and Python lines."""
    origin = result.origin
    if origin is None:
        return None
    parts: list[object] = []
    if origin.command is not None:
        parts += [tag("h3", "On the command line"), tag("pre", tag("code", origin.command))]
    parts += [tag("h3", "In Python"), tag("pre", tag("code", _lines(origin.python())))]
    if not origin.reading:
        given = [f"{name} as it was given" for name in origin.unwritten if name != "y"]
        table_text = f"X: the table, {result.n_rows:,} rows and {result.n_variables:,} predictors"
        parts.append(tag("p", "; ".join([table_text, *given]) + ".", class_="quiet"))
    return section("rerun", "How to run this again", *parts)


def _lines(code: str) -> Html:
    return join(code.split("\n"), "\n")


def citing(result: Result) -> Html:
    """How to cite, and versions."""
    article = paragraph(
        "Giorgos Borboudakis and Ioannis Tsamardinos. Forward-Backward Selection with Early Dropping. ",
        tag("em", "Journal of Machine Learning Research"),
        ", 20(8):1–39, 2019.",
    )
    origin = result.origin
    software = paragraph("Software: fbed" + (f", version {origin.versions.get('fbed', '')}." if origin else "."))
    versions = (
        None
        if origin is None
        else facts("Versions", [("made", origin.date.replace("T", " ")), *origin.versions.items()])
    )
    return section("cite", "How to cite, and versions", article, software, versions)
