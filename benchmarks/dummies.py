"""Many rows with dummies of rare levels, some without an event, beside R's glmnet with its path of 100 penalties."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.options import Options
from benchmarks.tall import glmnet
from benchmarks.text import seconds, table

NUMBERS, LEVELS = 60, (5, 20, 60, 200)
FAMILIES = ("binomial", "poisson", "cox")
SEARCHES: dict[str, dict[str, Any]] = {"FBED^1, α = .05": {"k": 1}, "FBED^1, EBIC": {"k": 1, "criterion": "ebic"}}


def run(options: Options) -> dict[str, Any]:
    n = 3_000 if options.quick else 150_000
    turns = max(1, min(options.turns, 3))
    found = {}
    for family in FAMILIES:
        out = in_fresh_process(measured, threads=1, family=family, n=n, turns=turns)
        found[family] = {**out, "glmnet": glmnet(family, *data(family, n), turns)}
    return {"n": n, "families": found}


def data(family: str, n: int) -> tuple[Any, Any]:
    """Numbers, and categories as dummies whose levels are as frequent as words; a few of each matter."""
    rng = np.random.default_rng(1)
    columns = [rng.normal(size=(n, NUMBERS))]
    eta = columns[0][:, :10] @ rng.normal(scale=0.2, size=10)
    for levels in LEVELS:
        frequency = 1.0 / np.arange(1, levels + 1) ** 1.3
        level = rng.choice(levels, n, p=frequency / frequency.sum())
        columns.append((level[:, None] == np.arange(levels)).astype(float))
        eta += (rng.normal(scale=0.5, size=levels) * (rng.random(levels) < 0.2))[level]
    X = np.asfortranarray(np.hstack(columns))
    if family == "binomial":
        return X, (rng.random(n) < 1 / (1 + np.exp(3.5 - eta))).astype(float)
    if family == "cox":
        time, until = rng.exponential(np.exp(-eta)), rng.exponential(0.1, n)
        return X, (np.minimum(time, until), time <= until)
    return X, rng.poisson(np.exp(np.clip(0.5 * eta - 2.5, -5.0, 3.0))).astype(float)


def measured(family: str, n: int, threads: int, turns: int) -> dict[str, Any]:
    """Times of the searches, and whether they agree with the ordinary engine on a part of the rows."""
    import fbed
    from fbed.families import builders

    X, y = data(family, n)
    selected = {}

    def search(name: str) -> None:
        selected[name] = len(fbed.select(X, y, family=family, n_jobs=threads, **SEARCHES[name]).selected)

    best = best_of_turns({name: (lambda name=name: search(name)) for name in SEARCHES}, turns)
    part = slice(0, 20_000)
    few = tuple(of[part] for of in y) if isinstance(y, tuple) else y[part]
    tall = fbed.select(X[part], few, family=family)
    builders.TALL = np.inf
    ordinary = fbed.select(X[part], few, family=family)
    right = tall.selected == ordinary.selected and tall.n_tests == ordinary.n_tests
    return {"best": best, "selected": selected, "right": right, "columns": X.shape[1]}


def words(found: dict[str, Any]) -> str:
    rows, wrong = [], []
    for family, one in found["families"].items():
        cells = [f"{seconds(one['best'][name]['cpu'])} ({one['selected'][name]})" for name in SEARCHES]
        rows.append([family, *cells, seconds((one["glmnet"] or {}).get("cpu"))])
        wrong += [] if one["right"] else [family]
    columns = next(iter(found["families"].values()))["columns"]
    return "\n\n".join(
        [
            f"{found['n']:,} rows, {columns} columns of float64, {NUMBERS} of them numbers and the others dummies of "
            f"categories of {LEVELS[0]} to {LEVELS[-1]} levels; one thread, processor seconds, variables selected in "
            "parentheses; R's glmnet with 100 penalties.",
            table(["family", *SEARCHES, "glmnet"], rows),
            f"WRONG: another selection than the ordinary engine's: {', '.join(wrong)}"
            if wrong
            else "On the first rows (20,000 at most) the ordinary engine selects the same by as many tests.",
        ]
    )
