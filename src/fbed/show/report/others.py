"""The variables beside the selected: near ties, correlations, and who came closest."""

from __future__ import annotations

from collections.abc import Sequence

from fbed.result import cautions, views
from fbed.result.exact_numbers import CLOSEST
from fbed.result.result import Result
from fbed.show.report import charts
from fbed.show.report.cells import bounded, bounded_p, numeric, paragraph, section
from fbed.show.report.html import Cell, Head, Html, called, join, table, tag

_MOST_IN_HEATMAP = 40
_MOST_PAIRS = 15


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
    rule = (
        f"Near means at most {views.NEAR:g} behind, in statistics; between variables of different degrees of freedom, "
        "in what they were ranked by."
    )
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
        behind = numeric(tie.behind)
        rows.append(
            [
                join([called(tie.name), tag("span", " near tie", class_="near") if tie.near and marked else None]),
                Cell(step.number, step.number),
                called(step.row.variable),
                numeric(step.row.statistic),
                numeric(finding.statistic),
                behind,
                tie.fate,
            ]
        )
    return table(caption, heads, rows)


def correlations(result: Result) -> Html | None:
    """Correlations among the selected."""
    if result.overview is None or len(result.overview.correlations) < 2:
        return None
    few = min(len(result.overview.correlations), _MOST_IN_HEATMAP)
    names = [str(name) for name in result.selected[:few]]
    matrix = [row[:few] for row in result.overview.correlations[:few]]
    pairs = cautions.correlated_pairs(result)
    told = "; ".join(f"{a} and {b} {r:.2f}" for a, b, r in pairs[:_MOST_PAIRS])
    limit = f" The first {few} of {len(result.selected)} variables." if len(result.selected) > few else ""
    unit = " Correlations in hundredths." if few > 11 else ""
    caption = f"Numbered by the order of selection; blue is positive, orange negative.{unit}{limit}"
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
    few = views.closest(result, CLOSEST)
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
    caption = "All of them" if total <= len(few) else f"The {len(few)} of {total:,} that came closest to passing"
    said = (
        "Given the variables that were selected at that step, each of these added less than the criterion asks. "
        "Variables that entered and were removed again are among them."
    )
    return section("others", "Not selected", paragraph(said), table(caption, heads, rows))
