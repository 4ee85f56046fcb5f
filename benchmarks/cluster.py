"""A Dask cluster on this machine with 1, 2 and 4 workers: time, passes, and what travels, next to the cost on paper."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.elsewhere import GROUP, REAL, make
from benchmarks.options import Options
from benchmarks.text import table

FULL = {"rows": 1_000_000, "columns": 100}
QUICK = {"rows": 5_000, "columns": 30}


def run(options: Options) -> dict[str, Any]:
    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="fbed-cluster-") as folder:
        make(Path(folder), size["rows"], size["columns"])
        workers = (1,) if options.quick else (1, 2, 4)
        return {**size, "runs": [measured(Path(folder), n) for n in workers]}


def measured(folder: Path, workers: int) -> dict[str, Any]:
    """A search by so many workers; what they have sent is counted by them."""
    from distributed import Client, LocalCluster

    import fbed

    options = {"threads_per_worker": 1, "dashboard_address": None, "protocol": "tcp://", "memory_limit": "2GB"}
    last: list[fbed.Progress] = []
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.run(_ready)
        begun, before = time.perf_counter(), _sent(client)
        result = fbed.select(
            f"{folder}/*.parquet", "y", family="binomial", alpha=1e-6, client=client, progress=last.append
        )
        seconds, sent = time.perf_counter() - begun, _sent(client) - before
    parts = -(-int(result.n_rows) // GROUP)
    return {
        "workers": workers,
        "seconds": seconds,
        "asked": last[-1].passes,
        "bytes_read": last[-1].bytes_read,
        "sent": sent,
        "expected": parts * expected(result),
        "statistics": [row.statistic for row in result.trace],
        "right": len(result.selected) == min(REAL, result.n_variables),
    }


def expected(result: Any) -> float:
    """Bytes that the sums of one part have, over all scans: a look at every candidate, three sweeps, ten steps."""
    total, size = 0.0, 1
    for row in result.trace:
        total += 8.0 * (row.tested * (size + 2) + 3 * (size + 1) ** 2 + 5 * 10)
        size += {"add": 1, "remove": -1}.get(row.action, 0)
    return total


def _sent(client: Any) -> int:
    return sum(client.run(_outgoing).values())


def _outgoing(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


def _ready() -> None:
    import fbed.larger_than_memory.cluster  # noqa: F401


def words(found: dict[str, Any]) -> str:
    rows = [
        [str(one["workers"]), f"{one['seconds']:.1f} s", str(one["asked"]), f"{one['bytes_read'] / 1e9:.2f} GB",
         f"{one['sent'] / 1e6:.1f} MB", f"{one['expected'] / 1e6:.2f} MB"]
        for one in found["runs"]
    ]  # fmt: skip
    same = all(one["statistics"] == found["runs"][0]["statistics"] for one in found["runs"])
    right = same and all(one["right"] for one in found["runs"])
    return "\n\n".join(
        [
            f"Logistic, {found['rows']:,} × {found['columns']}, FBED^1, workers of one thread on this machine.",
            table(["workers", "search", "questions", "read", "sent by workers", "on paper"], rows),
            "Every statistic is the same to the last bit." if right else "WRONG: the answer depends on the workers.",
        ]
    )
