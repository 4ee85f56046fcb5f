"""A table larger than memory: selected within a hard limit on memory, next to reading it by Arrow alone."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import MARK, say
from benchmarks.options import Options
from benchmarks.race import ROOT, threads_allowed
from benchmarks.text import table

FULL = {"rows": 5_000_000, "columns": 500, "limit": 2 * 10**9}
QUICK = {"rows": 20_000, "columns": 30, "limit": 2 * 10**9}
REAL = 20
GROUP, GROUPS_A_FILE = 100_000, 5
WANTED = 2.0  # times reading


def run(options: Options) -> dict[str, Any]:
    size = QUICK if options.quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="fbed-elsewhere-"))
    try:
        make(folder, size["rows"], size["columns"])
        return {"runs": [both(folder, search, **size) for search in ("FBED^1",)]}
    finally:
        shutil.rmtree(folder)


def make(folder: Path, rows: int, columns: int) -> None:
    """Independent columns, of which the first matter a little, in Parquet files without compression."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, effect = np.random.default_rng(7), 0.03 * (5e6 / rows) ** 0.5  # as easy to see in few rows as in many
    names = [f"x{j}" for j in range(columns)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("y", pa.int8())])
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    starts = range(0, rows, GROUP)
    for number in range(0, len(starts), GROUPS_A_FILE):
        with pq.ParquetWriter(folder / f"part{number:04d}.parquet", schema, **plain) as file:
            for start in starts[number : number + GROUPS_A_FILE]:
                X = rng.standard_normal((columns, min(GROUP, rows - start)))
                odds = effect * X[:REAL].sum(axis=0)
                y = (rng.random(X.shape[1]) < 1 / (1 + np.exp(-odds))).astype(np.int8)
                file.write_table(pa.table([*X, y], schema=schema))


def both(folder: Path, search: str, rows: int, columns: int, limit: int) -> dict[str, Any]:
    """A search and passes by Arrow, each in a process with the limit."""
    reading = limited("reading", folder, search, limit)
    found = limited("searching", folder, search, limit)
    passes = found["bytes_read"] / reading["bytes"]
    return {
        "search": search,
        "rows": rows,
        "columns": columns,
        "limit": limit,
        "passes": passes,
        "reading": passes * reading["seconds"],
        "times": found["seconds"] / (passes * reading["seconds"]),
        **found,
    }


def limited(what: str, folder: Path, search: str, limit: int) -> dict[str, Any]:
    """What a function of this module finds in a process that cannot have more memory than that."""
    call = [sys.executable, "-m", "benchmarks.elsewhere", what, str(folder), search, str(limit)]
    with control_group(limit) as group:
        call.append(str(group or ""))
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=threads_allowed(1), check=True)
    answers = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    found: dict[str, Any] = json.loads(answers[-1])
    return found


@contextmanager
def control_group(limit: int) -> Iterator[Path | None]:
    """A group of processes that the kernel of Linux ends when they take more; None where we may not make one."""
    made = None
    for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root) / f"fbed-{os.getpid()}"
        try:
            group.mkdir()
            (group / file).write_text(str(limit))
            made = group
            break
        except OSError:
            if group.exists():
                group.rmdir()
    try:
        yield made
    finally:
        if made is not None:
            made.rmdir()


def reading(folder: Path, search: str, limit: int) -> dict[str, Any]:
    """One pass over everything by Arrow: decoded, and forgotten."""
    import pyarrow.parquet as pq

    begun, n_bytes = time.perf_counter(), 0
    for path in sorted(folder.iterdir()):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            n_bytes += file.read_row_group(group).nbytes
    return {"seconds": time.perf_counter() - begun, "bytes": n_bytes}


def searching(folder: Path, search: str, limit: int) -> dict[str, Any]:
    """A search, and the most memory that the process had."""
    import fbed

    last: list[fbed.Progress] = []
    k = int(search[-1])
    result = fbed.select(
        f"{folder}/*.parquet", "y", family="binomial", alpha=1e-6, k=k, memory_limit=limit, progress=last.append
    )
    return {
        "seconds": result.seconds,
        "bytes_read": last[-1].bytes_read,
        "asked": last[-1].passes,
        "hard": bool(sys.argv[5]),
        "cpu": time.process_time(),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "n_selected": len(result.selected),
        "right": sorted(result.indices.tolist()) == list(range(min(REAL, result.n_variables))),
    }


def words(found: dict[str, Any]) -> str:
    rows = [
        [one["search"], f"{one['rows']:,} × {one['columns']}", f"{8e-9 * one['rows'] * one['columns']:.1f} GB",
         f"{one['limit'] / 1e9:.1f} GB", f"{one['peak'] / 1e9:.2f} GB", f"{one['passes']:.2f}",
         f"{one['seconds']:.0f} s", f"{one['reading']:.0f} s", f"{one['times']:.2f}"]
        for one in found["runs"]
    ]  # fmt: skip
    hard = all(one["hard"] for one in found["runs"])
    wrong = [one["search"] for one in found["runs"] if not one["right"]]
    head = ["", "shape", "table", "limit", "peak", "passes", "search", "reading", "times"]
    return "\n\n".join(
        [
            f"Logistic, {REAL} real predictors, Parquet files without compression. 'passes' is what was read over the "
            "size of the table, and 'reading' the time of as many passes by Arrow alone; at most "
            f"{WANTED:g} times that is wanted. The limit was {'hard: a control group' if hard else 'asked for'}.",
            table(head, rows),
            f"WRONG: {', '.join(wrong)} did not find the real predictors"
            if wrong
            else "All real predictors were found.",
        ]
    )


if __name__ == "__main__":
    most = int(sys.argv[4])
    if sys.argv[5]:
        Path(sys.argv[5], "cgroup.procs").write_text(str(os.getpid()))
    say({"reading": reading, "searching": searching}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3], most))
