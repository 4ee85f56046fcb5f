"""The races on real sets in words and in a picture."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.contenders import CONTENDERS, SEARCHES
from benchmarks.text import seconds, table


def words(found: dict[str, Any]) -> str:
    """Tables of seconds, and how we compare with the faster glmnet and with the twin."""
    sets = found["sets"]
    shapes = [f"{name} {' × '.join(f'{size:,}' for size in one['shape'])}" for name, one in sets.items()]
    few = [name for name, one in sets.items() if one["sparse"]]
    parts = [
        f"Logistic, likelihood-ratio test at α = .05; {'; '.join(shapes)}.",
        f"All get float64: CSC for {' and '.join(few) or 'none'}, Fortran order for the rest. A path has 100 λ; `twin` "
        "is our search with every model fitted. Best of several turns. `>` marks contenders that were stopped, a dash "
        "what was not tried: loops over scikit-learn or statsmodels fits run on small dense sets only.",
        "**One thread each, processor seconds** (other programs disturb them less than the clock on the wall):",
        _seconds_table(sets, 1, "cpu"),
    ]
    if every := {r["threads"] for one in sets.values() for r in one["records"]} - {1}:
        parts += [f"**All {max(every)} threads, seconds on the wall:**", _seconds_table(sets, max(every), "wall")]
    parts += [comparison(sets)] if any(_best(one, "glmnet") for one in sets.values()) else []
    parts += [twins(sets)]
    parts += [_checks(sets)]
    return "\n\n".join(part for part in parts if part)


def _checks(sets: dict[str, Any]) -> str:
    """How the answers were checked, and which were wrong."""
    records = [(name, r) for name, one in sets.items() for r in one["records"]]
    if wrong := [f"{name}, {r['contender']}: {r['check']}" for name, r in records if "WRONG" in r["check"]]:
        return "; ".join(wrong)
    ours = [r["check"] for _, r in records if r["answer"] and r["contender"].startswith("fbed")]
    exact, earlier = ours.count("the exhaustive selection"), ours.count("the recorded selection")
    early = {f"{name} ({r['answer']['lambdas']})" for name, r in records if r["check"].startswith("stopped")}
    return (
        f"Of our {len(ours)} answers {exact} are those of the exhaustive twin (selection, order and number of tests), "
        f"{earlier} are as recorded earlier, where the twin takes too long, and {len(ours) - exact - earlier} are "
        "unchecked. Paths begin at the right λ and have the right steps; glmnet ends by itself before 100 λ on "
        f"{_listed(early)}."
    )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def comparison(sets: dict[str, Any]) -> str:
    """Times by which we are faster than the faster glmnet, one thread each."""
    ratios = {
        search: {name: _ratio(_best(one, "glmnet"), _best(one, f"fbed {search}")) for name, one in sets.items()}
        for search in SEARCHES
    }
    rows = [[f"fbed {search}", *(seconds(r) for r in by_set.values())] for search, by_set in ratios.items()]
    pairs = [r for search in ("FBED^0", "FBED^1") for r in ratios[search].values() if r is not None]
    median = (
        f"Median over the {len(pairs)} pairs of a set and K = 0 or 1: {statistics.median(pairs):.3g}." if pairs else ""
    )
    return "\n\n".join(["**Times faster than the faster glmnet:**", table(["", *sets], rows), median])


def twins(sets: dict[str, Any]) -> str:
    """Times by which bounds are faster than fitting every model."""
    rows = []
    for search in SEARCHES:
        cells = []
        for one in sets.values():
            ours, twin = _best(one, f"fbed {search}"), _best(one, f"twin {search}")
            stopped = any(r["contender"] == f"twin {search}" and r["trouble"] for r in one["records"])
            cells.append(
                "–" if ours is None else f"{_ratio(twin, ours):.0f}" if twin else "stopped" if stopped else "–"
            )
        rows.append([search, *cells])
    return "**Times faster than the exhaustive twin:**\n\n" + table(["", *sets], rows)


def _seconds_table(sets: dict[str, Any], threads: int, clock: str) -> str:
    names = [n for n in CONTENDERS if any(_record(one, n, threads) for one in sets.values())]
    rows = [[name, *(_cell(_record(one, name, threads), clock) for one in sets.values())] for name in names]
    return table(["", *sets], rows)


def line(record: dict[str, Any]) -> str:
    threads = f"{record['threads']} thread{'s' if record['threads'] > 1 else ''}"
    if record["wall"] is None:
        return f"{record['contender']}, {threads}: {record['trouble']}"
    clocks = f"{seconds(record['cpu'])} s processor, {seconds(record['wall'])} s wall"
    return f"{record['contender']}, {threads}: {clocks}, best of {record['turns']}; {record['check']}"


def _cell(record: dict[str, Any] | None, clock: str) -> str:
    if record is None:
        return "–"
    return seconds(record[clock]) if record["wall"] is not None else record["trouble"].split(":")[0]


def _record(one: dict[str, Any], name: str, threads: int) -> dict[str, Any] | None:
    return next((r for r in one["records"] if r["contender"] == name and r["threads"] == threads), None)


def _best(one: dict[str, Any], prefix: str) -> float | None:
    """Fewest processor seconds with one thread of all contenders whose name begins like this."""
    times = [r["cpu"] for r in one["records"] if r["contender"].startswith(prefix) and r["threads"] == 1 and r["cpu"]]
    return min(times, default=None)


def _ratio(theirs: float | None, ours: float | None) -> float | None:
    return None if theirs is None or ours is None else theirs / ours


def draw(found: dict[str, Any], folder: Path) -> None:
    """A panel a set, a line a contender: processor seconds of one thread; an arrow where the limit stopped it."""
    from benchmarks.picture import COLOURS, save, subplots

    colours = {"fbed": COLOURS[0], "glmnet": COLOURS[1]}
    names = [n for n in CONTENDERS if any(_record(one, n, 1) for one in found["sets"].values())]
    size = (2.2 + 2.1 * len(found["sets"]), 0.8 + 0.27 * len(names))
    figure, panels = subplots(1, len(found["sets"]), size, sharex=True, sharey=True, squeeze=False)
    for panel, (name, one) in zip(panels[0], found["sets"].items(), strict=True):
        for height, contender in enumerate(names):
            record = _record(one, contender, 1)
            if record is None or (record["cpu"] is None and not record["trouble"].startswith(">")):
                continue
            colour = colours.get(contender.split()[0], "0.45")
            at = record["cpu"] or found["limit"]
            panel.plot(at, height, "o" if record["cpu"] else ">", color=colour, clip_on=False)
            text = seconds(at) if record["cpu"] else record["trouble"]
            panel.annotate(f" {text}", (at, height), (4, 0), textcoords="offset points", va="center", fontsize=7)
        panel.set(xscale="log", title=f"{name}\n{one['shape'][0]:,} × {one['shape'][1]:,}", xlabel="seconds")
        panel.set_yticks(range(len(names)), names)
        panel.grid(axis="y", color="0.92")
        panel.margins(x=0.25)
    panels[0][0].invert_yaxis()
    save(figure, folder / "sets")
