"""The top of the report: title, key figures, what was selected in words, and cautions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fbed.result import cautions, views
from fbed.result.result import Result
from fbed.search.search import STATUSES
from fbed.show.report.cells import paragraph, plural, section, target
from fbed.show.report.html import Html, called, tag

_MOST_CHIPS = 60
_MOST_LETTERS = 900  # of names in the summary: a phone shows about thirty in a line


def header(result: Result, contents: Sequence[tuple[str, str]]) -> Html:
    """Title, key figures and contents."""
    algorithm = str(result.settings.get("algorithm", "FBED"))
    date = "" if result.provenance is None else f", {result.provenance.date[:10]}"
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
    room = itertools.accumulate(len(str(name)) for name in result.selected)
    few = [name for name, letters in zip(result.selected, room, strict=True) if letters <= _MOST_LETTERS]
    chips = [tag("li", tag("span", i, class_="rank"), called(name)) for i, name in enumerate(few[:_MOST_CHIPS], 1)]
    more = len(result.selected) - len(chips)
    names: list[object] = [tag("ul", *chips, class_="chips")] if chips else []
    if more > 0:
        names.append(paragraph(f"and {more:,} more, in the table below."))
    due = [
        tag("div", tag("strong", caution.title), paragraph(caution.text), class_="caution")
        for caution in cautions.cautions(result)
    ]
    return section("summary", "Summary", paragraph(*_in_words(result)), *names, _honesty(result), *due)


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
