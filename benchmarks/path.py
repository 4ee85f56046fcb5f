"""A grid of configurations: the paper's 32, together and one by one, on every set."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.fresh import in_fresh_process
from benchmarks.options import Options
from benchmarks.problems import paper_files, read
from benchmarks.text import seconds, table

WANTED = 3.0
LONG = 5.0  # processor seconds after which a measurement is not repeated


def run(options: Options) -> dict[str, Any]:
    files = options.files or paper_files()
    return {
        "sets": [in_fresh_process(measured, threads=1, file=str(file.resolve()), turns=options.turns) for file in files]
    }


def measured(file: str, threads: int, turns: int) -> dict[str, Any]:
    """Processor seconds of the whole grid and of each configuration alone, and whether their results are the same."""
    import fbed

    problem = read(Path(file))
    together, grid = _best(lambda: fbed.path(problem.X, problem.y, family="binomial", n_jobs=threads), turns)
    alone, different = {}, []
    for setting, result in zip(grid.settings, grid.results, strict=True):
        value = "default" if setting.value is None else f"{setting.value:g}"
        name = f"{setting.algorithm}, {'α' if setting.criterion == 'lr' else 'γ'} = {value}"
        search = {"early_dropping": False} if setting.k is None else {"k": setting.k}
        options = {"family": "binomial", "criterion": setting.as_criterion(), "n_jobs": threads, **search}
        alone[name], single = _best(lambda options=options: fbed.select(problem.X, problem.y, **options), turns)
        if single.selected != result.selected or single.n_tests != result.n_tests:
            different.append(name)
    return {"set": problem.name, "together": together, "alone": alone, "different": different}


def _best(task: Callable[[], Any], turns: int) -> tuple[float, Any]:
    """Fewest processor seconds, and the answer."""
    used: list[float] = []
    while len(used) < turns and sum(used) <= LONG:
        started = time.process_time()
        answer = task()
        used.append(time.process_time() - started)
    return min(used), answer


def words(found: dict[str, Any]) -> str:
    rows = []
    for one in found["sets"]:
        dearest = max(one["alone"], key=one["alone"].get)
        cost = one["alone"][dearest]
        total = sum(one["alone"].values())
        rows.append(
            [f"{one['set']} ({len(one['alone'])} configurations)", seconds(one["together"]), seconds(cost), dearest,
             f"{one['together'] / cost:.2f}", seconds(total)]
        )  # fmt: skip
    different = [f"{one['set']}: {name}" for one in found["sets"] for name in one["different"]]
    return "\n\n".join(
        [
            "`fbed.path` on one thread, processor seconds: all configurations together against the dearest of them and "
            f"against the sum of all one by one. At most {WANTED:g} times the dearest is wanted.",
            table(["", "together", "dearest alone", "which", "times", "sum"], rows),
            f"WRONG: other results for {'; '.join(different)}" if different else "Results are those of single runs.",
        ]
    )
