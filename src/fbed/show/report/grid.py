"""The report of a path: what every setting of a grid selects, and which variables hardly depend on the setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fbed.search.search import STATUSES
from fbed.show.report import charts, data
from fbed.show.report.cells import numeric, paragraph, plural, section, target
from fbed.show.report.html import Cell, Head, Html, called, join, table, tag
from fbed.show.text import shortened_apart

if TYPE_CHECKING:
    from fbed.api.paths import PathResult, Setting

_MOST_VARIABLES = 40  # of the chart; the table has them all
_NAMES = 6  # variables of a setting that are named in its row
_LABEL = 118.0  # width of the names beside the chart
_ROW = 15.0


def header(path: PathResult, contents: Sequence[tuple[str, str]]) -> Html:
    """Title, key figures and contents."""
    sizes = [len(result.selected) for result in path.results]
    different = len({frozenset(result.selected) for result in path.results})
    span = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    figures = [
        (f"{len(path.results):,}", "setting" if len(path.results) == 1 else "settings"),
        (f"{different:,}", "selection" if different == 1 else "different selections"),
        (span, "variables selected"),
        (f"{path.results[0].n_rows:,}", "rows"),
        (f"{path.seconds:.3g} s", "of computing"),
    ]
    return tag(
        "header",
        tag("a", "To the report", href="#summary", class_="skip"),
        tag("h1", "Which variables predict ", target(path.results[0]), ", setting by setting?"),
        tag("p", "Forward-backward selection with early dropping, a grid of settings", class_="quiet"),
        tag("ul", *(tag("li", tag("strong", big), small) for big, small in figures), class_="figures"),
        tag("nav", tag("ul", *(tag("li", tag("a", title, href=f"#{name}")) for name, title in contents))),
    )


def sections(path: PathResult) -> dict[str, tuple[str, Html | None]]:
    """The parts of the page, in their order."""
    return {
        "summary": ("Summary", summary(path)),
        "settings": ("Settings", settings(path)),
        "variables": ("Variables", variables(path)),
        "data": ("Outcome and data", data.data(path.results[0])),
    }


def summary(path: PathResult) -> Html:
    """What all settings agree on, and what a path does not tell."""
    counts = _counts(path)
    always = [name for name, count in counts.items() if count == len(path.results)]
    chips = [tag("li", called(name)) for name in always[:_MOST_VARIABLES]]
    told = f"{plural(len(counts), 'variable')} {'is' if len(counts) == 1 else 'are'} selected by at least one of "
    told += f"{plural(len(path.results), 'setting')}, {len(always):,} by all of them"
    more = "" if len(always) <= len(chips) else f" The first {len(chips)}:"
    parts: list[object] = [paragraph(f"{told}{':' if always and not more else '.'}{more}")]
    if chips:
        parts.append(tag("ul", *chips, class_="chips"))
    if path.status != "converged":
        parts.append(paragraph(f"The grid is not complete: {STATUSES[path.status]}."))
    parts.append(
        tag(
            "div",
            tag("strong", "What a path does not tell"),
            paragraph(
                "A looser setting explains more of these rows, always; that is no reason to choose it. Settings are "
                "compared on rows that took no part in the search: fbed tune does so by cross-validation."
            ),
            class_="caution",
        )
    )
    return section("summary", "Summary", *parts)


def settings(path: PathResult) -> Html:
    """A row a setting."""
    heads = [
        Head("setting"),
        Head("variables", numeric=True),
        Head("tests", numeric=True),
        Head("deviance", numeric=True),
        Head("in order of selection"),
    ]
    rows = [
        (
            named(setting),
            Cell(f"{len(result.selected):,}", len(result.selected)),
            Cell(f"{result.n_tests.total:,}", result.n_tests.total),
            numeric(None if result.model is None else result.model.deviance, 5),
            _first(result.selected),
        )
        for setting, result in zip(path.settings, path.results, strict=True)
    ]
    caption = "What every setting selects, each exactly as a search of its own would. Deviances are of the same rows."
    return section("settings", "Settings", table(caption, heads, rows))


def variables(path: PathResult) -> Html | None:
    """Who is selected by which setting, the most stable first."""
    counts = _counts(path)
    if not counts:
        return None
    heads = [Head("variable"), Head("settings that select it", numeric=True), Head("share", numeric=True)]
    n = len(path.results)
    rows = [(called(name), Cell(f"{c:,} of {n:,}", c), Cell(f"{c / n:.0%}", c / n)) for name, c in counts.items()]
    listed = table("How many settings select each variable.", heads, rows)
    return section("variables", "Variables", _chart(path, list(counts)[:_MOST_VARIABLES], len(counts)), listed)


def named(setting: Setting) -> str:
    """A setting in words."""
    if setting.criterion == "ebic":
        return f"{setting.algorithm}, EBIC γ = {'default' if setting.value is None else f'{setting.value:g}'}"
    return f"{setting.algorithm}, α = {setting.value:g}"


def _counts(path: PathResult) -> dict[object, int]:
    """How many settings select a variable, the most first; as many: who was met first."""
    counts = Counter(name for result in path.results for name in result.selected)
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _first(selected: Sequence[object]) -> Html:
    more = len(selected) - _NAMES
    parts = [*(called(name) for name in selected[:_NAMES]), *([f"and {more:,} more"] if more > 0 else [])]
    return tag("span", join(parts, ", ") if parts else "nothing", class_="names")


def _chart(path: PathResult, names: Sequence[object], n_names: int) -> Html:
    """A square where a setting (across) selects a variable (down)."""
    side = min((charts.WIDTH - _LABEL) / len(path.results), _ROW)
    top = 18.0
    labels = shortened_apart([str(name) for name in names], 19)
    parts: list[Html] = []
    for j in range(len(path.results)):
        if side >= 12 or j % 5 == 4 or j == 0:
            parts.append(charts.text(_LABEL + (j + 0.5) * side, top - 5, j + 1, "small", "middle"))
    for i, (name, label) in enumerate(zip(names, labels, strict=True)):
        y = top + i * _ROW
        parts.append(charts.text(_LABEL - 6, y + 11, label, "small", "end"))
        for j, (setting, result) in enumerate(zip(path.settings, path.results, strict=True)):
            inside = name in result.selected
            title = tag("title", f"{name}: {'' if inside else 'not '}selected by {named(setting)}")
            look = "bar" if inside else "zone1"
            parts.append(charts.rectangle(_LABEL + j * side + 0.5, y + 1, max(side - 1, 0.8), _ROW - 2, look, title))
    shown = "" if n_names == len(names) else f" The first {len(names)} of {n_names:,} variables."
    caption = f"Settings across, in the order of the table above; filled where a variable is selected.{shown}"
    description = f"{plural(len(names), 'variable')} by {plural(len(path.results), 'setting')}"
    return charts.figure("grid", top + len(names) * _ROW + 2, "Variables by setting", description, parts, caption)
