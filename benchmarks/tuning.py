"""Tuned selection against tuned peers, on real sets of every kind of outcome: performance, variables, time.

Every contender tunes itself inside each of 5 × 5 outer folds. What has been measured is kept, fold by fold: a run that
was stopped goes on where it was. ``python -m benchmarks tuning`` measures sets that are not there yet.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.text import seconds, table
from benchmarks.tuned_contenders import CONTENDERS, PEERS, Told, able, cv_glmnet
from benchmarks.tuned_sets import SCORES, SETS, TunedSet, load, score, toy

FOLDS, REPEATS = 5, 5
ON_REQUEST = ("fbed, ml",)  # measured when it is named by --only
SLOW = 20.0  # processor seconds of a first fit after which no further ones are waited for

Known = dict[str, dict[str, list[list[float]]]]  # by set and contender: score, variables and seconds of every fold


def run(options: Options) -> dict[str, Any]:
    """Races on the sets that are there: the first folds of all of them, then the second, and so on."""
    folder = os.environ.get("FBED_DATA_DIR")
    kept = options.out / "tuning_folds.json"
    known: Known = json.loads(kept.read_text()) if kept.exists() else {}
    if options.quick:
        problems = [toy()]
    else:
        there = [name for name in SETS if folder is not None and (Path(folder) / SETS[name].file).exists()]
        problems = [load(name, Path(str(folder))) for name in there]
    for repeats in range(1, 2 if options.quick else REPEATS + 1):
        for problem in problems:
            for _ in measured(problem, known.setdefault(problem.name, {}), repeats, options.only):
                kept.write_text(json.dumps(known))
    return found(problems, known)


def found(problems: list[TunedSet], known: Known) -> dict[str, Any]:
    """What is told of the sets."""
    about = {p.name: {"family": p.family, "shape": list(p.frame.shape)} for p in problems}
    return {"sets": {name: {**about[name], "records": known[name]} for name in about if known.get(name)}}


def folds_of(problem: TunedSet, repeats: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Outer folds that have their share of each class and of the events."""
    from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

    by = problem.y[:, 1] if problem.family == "cox" else problem.y
    splitter = RepeatedKFold if problem.family in ("gaussian", "poisson") else RepeatedStratifiedKFold
    return list(splitter(n_splits=FOLDS, n_repeats=repeats, random_state=0).split(problem.frame, by))


def measured(
    problem: TunedSet, known: dict[str, list[list[float]]], repeats: int, only: tuple[str, ...] = ()
) -> Iterator[None]:
    """A list (score, variables, seconds) a fold of every contender; stops after each to be kept."""
    warnings.filterwarnings("ignore")
    folds = folds_of(problem, REPEATS)[: FOLDS * repeats]

    def keep(name: str, test: np.ndarray, told: Told) -> None:
        mine = score(problem.family, problem.y[test], told.said)
        known.setdefault(name, []).append([mine, told.variables, told.seconds])

    for name, contender in CONTENDERS.items():
        if not able(name, problem) or (name not in only if only else name in ON_REQUEST):
            continue
        for train, test in folds[len(known.get(name, ())) :]:
            if known.get(name) and known[name][0][2] > SLOW:
                break
            for who, told in contender(problem, train, test).items():
                keep(who, test, told)
            yield
        print(f"{problem.name}: {name}: {_line(known[name])}", flush=True)
    left = folds[len(known.get("cv.glmnet, lambda.min", ())) :]
    if left and shutil.which("Rscript") and not only:
        for name, answers in cv_glmnet(problem, [test for _, test in left]).items():
            for (_, test), told in zip(left, answers, strict=True):
                keep(name, test, told)
            print(f"{problem.name}: {name}: {_line(known[name])}", flush=True)
        yield


def summary(records: list[list[float]]) -> tuple[float, float, float, float]:
    """Mean score, its standard error, variables and seconds; folds of repetitions are not independent of each other."""
    values = np.array(records)
    error = float(values[:, 0].std(ddof=1)) / np.sqrt(FOLDS) if len(values) > 1 else float("nan")
    return float(values[:, 0].mean()), error, float(values[:, 1].mean()), float(values[:, 2].mean())


def _line(records: list[list[float]]) -> str:
    mean, error, variables, used = summary(records)
    return f"{mean:.3f} ± {error:.3f}, {variables:.1f} variables, {used:.2f} s"


def words(found: dict[str, Any]) -> str:
    rows, verdicts = [], []
    for name, one in found["sets"].items():
        told = {who: (*summary(records), len(records)) for who, records in one["records"].items() if records}
        for who, (mean, error, variables, used, folds) in told.items():
            first = f"{name} ({one['shape'][0]:,} × {one['shape'][1]:,}, {SCORES[one['family']]})"
            rows.append([first, who, str(folds), f"{mean:.3f} ± {error:.3f}", f"{variables:.1f}", seconds(used)])
        verdicts += [_verdict(name, one["records"], mine) for mine in ("fbed", "fbed, 1se") if mine in told]
    return "\n\n".join(
        [
            f"Up to {FOLDS} × {REPEATS} outer folds, in each of which every contender tunes itself by 5 folds; "
            "processor seconds of one thread a fit. The standard error is that of 5 folds. fbed has its defaults or "
            "the one-standard-error rule. Ordered classes are an outcome for fbed and abess only; scikit-learn's lasso "
            "is for numbers and two classes; it and abess are left out where a fit takes minutes. A contender with "
            "one fold took too long for more.",
            table(["", "contender", "folds", "score", "variables", "seconds"], rows),
            "Wanted of fbed: within one standard error of the best peer, with at most a third of its variables, and "
            "faster than all peers.",
            table(["", "", "within one error", "a third of the variables", "faster than all"], verdicts),
        ]
    )


def _verdict(name: str, records: dict[str, list[list[float]]], ours: str) -> list[str]:
    """On the folds that everybody has who has more than one."""
    several = {who: records[who] for who in (ours, *PEERS) if len(records.get(who, ())) > 1}
    if ours not in several or len(several) == 1:
        return [name, ours, "–", "–", "–"]
    folds = min(map(len, several.values()))
    mine, *peers = (summary(one[:folds]) for one in several.values())
    best = max(peers)
    within = mine[0] >= best[0] - best[1]
    few, fast = mine[2] <= best[2] / 3.0, mine[3] < min(peer[3] for peer in peers)
    return [name, ours, *("yes" if well else "no" for well in (within, few, fast))]
