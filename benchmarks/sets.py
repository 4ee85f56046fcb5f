"""Real sets: our four searches against LASSO paths, subset selection, loops of fits and the exhaustive twin."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import CONTENDERS, N_LAMBDAS, SEARCHES, largest_lambda, scaled, smallest_lambda_ratio
from benchmarks.options import Options
from benchmarks.problems import Problem, paper_files, read
from benchmarks.race import export, race
from benchmarks.text import as_json, seconds, table

RECORDED = Path(__file__).parent / "recorded.json"
SMALL = 2_000_000  # values up to which contenders that fit every model are tried
TWINS = tuple(name for name in CONTENDERS if name.startswith("twin"))


def run(options: Options) -> dict[str, Any]:
    """Races on every set, first with one thread each, then with all."""
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    sets = options.kept("sets").get("sets", {}) if options.only else {}
    for file in options.files or paper_files():
        problem = read(file)
        records = raced(file, problem, options)
        known = references(records, recorded.get(problem.name, {}))
        for record in records:
            record["check"] = judged(record, problem, known)
            record["answer"] = shortened(record["answer"])
            print(f"{problem.name}: {_line(record)}", flush=True)
        kept = [r for r in sets.get(problem.name, {}).get("records", ()) if r["contender"] not in options.only]
        sets[problem.name] = {"shape": problem.shape, "sparse": problem.is_sparse, "records": kept + records}
        if options.record:
            recorded[problem.name] = known
            RECORDED.write_text(as_json(recorded))
    return {"limit": options.limit, "sets": sets}


def references(records: list[dict[str, Any]], recorded: dict[str, Any]) -> dict[str, Any]:
    """What each search must select: what fitting every model selects now, or did; else what bounds selected first."""
    answers = {r["contender"]: r["answer"] for r in records if r["answer"] and r["threads"] == 1}
    known = {}
    for search in SEARCHES:
        if answer := answers.get(f"twin {search}"):
            known[search] = {**answer, "by": "exhaustive"}
        elif search in recorded:
            known[search] = recorded[search]
        elif answer := answers.get(f"fbed {search}"):
            known[search] = {**answer, "by": "certified"}
    return known


def raced(file: Path, problem: Problem, options: Options) -> list[dict[str, Any]]:
    small = not problem.is_sparse and problem.X.size <= SMALL
    names = [name for name, contender in CONTENDERS.items() if small or not contender.slow]
    names = [name for name in names if not options.only or name in options.only]
    with tempfile.TemporaryDirectory() as folder:
        export(file, Path(folder))
        alone = race(names, file, Path(folder), threads=1, turns=options.turns, limit=options.limit)
        able = {record["contender"] for record in alone if record["wall"] is not None} - set(TWINS)
        threaded = [name for name in names if name in able and CONTENDERS[name].threaded]
        every = os.cpu_count() or 1
        together = race(threaded, file, Path(folder), threads=every, turns=options.turns, limit=options.limit)
    return alone + (together if every > 1 else [])


def judged(record: dict[str, Any], problem: Problem, known: dict[str, Any]) -> str:
    """What a look at the answer says; 'WRONG' when it is."""
    answer = record["answer"]
    if answer is None:
        return "no answer"
    kind = CONTENDERS[record["contender"]].kind
    if kind == "path":
        return _judged_path(answer, problem)
    if kind == "subset":
        return "right" if 0 < answer["size"] <= problem.shape[1] else "WRONG: nothing selected"
    reference = known[record["contender"].split()[-1]]
    if any(answer[part] != reference[part] for part in ("selected", "tests")):
        return f"WRONG: another selection than the {reference['by']} engine's"
    return "the exhaustive selection" if reference["by"] == "exhaustive" else "the recorded selection"


def _judged_path(answer: dict[str, Any], problem: Problem) -> str:
    lambdas = np.array(answer["lambdas"])
    whole = np.geomspace(1.0, smallest_lambda_ratio(problem), N_LAMBDAS) * largest_lambda(scaled(problem.X), problem.y)
    if not np.allclose(lambdas, whole[: len(lambdas)], rtol=1e-3):
        return "WRONG: another sequence of λ"
    return "right" if len(lambdas) == N_LAMBDAS else f"stopped by itself after {len(lambdas)} λ"


def shortened(answer: dict[str, Any] | None) -> dict[str, Any] | None:
    """Without the values of λ, which follow from their number."""
    return {**answer, "lambdas": len(answer["lambdas"])} if answer and "lambdas" in answer else answer


def words(found: dict[str, Any]) -> str:
    """Tables of seconds, and how we compare with the faster glmnet and with the twin."""
    sets = found["sets"]
    shapes = [
        f"{name} {' × '.join(map(str, one['shape']))}{' sparse' if one['sparse'] else ''}" for name, one in sets.items()
    ]
    wrong = [
        f"{name}: {r['contender']} {r['check']}"
        for name, one in sets.items()
        for r in one["records"]
        if "WRONG" in r["check"]
    ]
    parts = [
        f"Logistic, likelihood-ratio test at α = .05. Sets: {', '.join(shapes)}.",
        "**One thread each, processor seconds** (other programs disturb them less than the clock on the wall):",
        _seconds_table(sets, 1, "cpu"),
    ]
    if every := {r["threads"] for one in sets.values() for r in one["records"]} - {1}:
        parts += [f"**All {max(every)} threads, seconds on the wall:**", _seconds_table(sets, max(every), "wall")]
    parts += [comparison(sets)] if any(_best(one, "glmnet") for one in sets.values()) else []
    parts += [twins(sets)]
    parts += ["**Answers:** " + "; ".join(wrong) if wrong else _checks(sets)]
    return "\n\n".join(part for part in parts if part)


def _checks(sets: dict[str, Any]) -> str:
    """How the answers were checked."""
    answered = [r for one in sets.values() for r in one["records"] if r["answer"] and r["contender"].startswith("fbed")]
    exact = sum(r["check"] == "the exhaustive selection" for r in answered)
    return (
        f"Of our {len(answered)} answers {exact} were compared with those of the exhaustive twin (selection, order and "
        f"number of tests are the same), {len(answered) - exact} with recorded ones, because the twin takes too long."
    )


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


def _line(record: dict[str, Any]) -> str:
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
    figure, panels = subplots(1, len(found["sets"]), size, sharey=True, squeeze=False)
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
