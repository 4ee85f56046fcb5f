"""Real sets: our four searches against LASSO paths, subset selection, loops of fits and the exhaustive twin."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import (
    BY_EBIC,
    CONTENDERS,
    N_LAMBDAS,
    SEARCHES,
    largest_lambda,
    scaled,
    smallest_lambda_ratio,
)
from benchmarks.options import Options
from benchmarks.problems import Problem, paper_files, read
from benchmarks.race import export, race
from benchmarks.standings import draw, line, words
from benchmarks.text import as_json

__all__ = ["draw", "run", "words"]

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
            print(f"{problem.name}: {line(record)}", flush=True)
        kept = [r for r in sets.get(problem.name, {}).get("records", ()) if r["contender"] not in options.only]
        sets[problem.name] = {"shape": problem.shape, "sparse": problem.is_sparse, "records": kept + records}
        if options.record:
            recorded[problem.name] = {**_answers(records, "fbed", "certified"), **known}
            RECORDED.write_text(as_json(recorded))
    return {"limit": options.limit, "sets": sets}


def references(records: list[dict[str, Any]], recorded: dict[str, Any]) -> dict[str, Any]:
    """What each search must select: what fitting every model selects now, else what was recorded earlier."""
    return {**recorded, **_answers(records, "twin", "exhaustive")}


def _answers(records: list[dict[str, Any]], who: str, engine: str) -> dict[str, Any]:
    found = {r["contender"]: r["answer"] for r in records if r["answer"] and r["threads"] == 1}
    return {s: {**found[f"{who} {s}"], "by": engine} for s in SEARCHES if f"{who} {s}" in found}


def raced(file: Path, problem: Problem, options: Options) -> list[dict[str, Any]]:
    small = not problem.is_sparse and problem.X.size <= SMALL
    elsewhere = {f"fbed {search}" for search in BY_EBIC}
    names = [name for name, contender in CONTENDERS.items() if (small or not contender.slow) and name not in elsewhere]
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
    reference = known.get(record["contender"].split()[-1])
    if reference is None:
        return "unchecked"
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
