"""Reading: text and categories in every storage, beside the bare factorising of their columns; what numbers cost."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.fresh import best_of_turns, in_fresh_process
from benchmarks.options import Options
from benchmarks.text import seconds, table

WANTED = 0.5
LEVELS = np.array(["lower", "middle", "upper"])


def run(options: Options) -> dict[str, Any]:
    n, p = (200, 40) if options.quick else (3_000, 2_000)
    text = in_fresh_process(measured, threads=1, n=n, p=p, turns=options.turns)
    numbers = in_fresh_process(added, threads=1, n=1_000 if options.quick else 100_000)
    return {"n": n, "p": p, "text": text, "numbers": numbers}


def measured(n: int, p: int, turns: int, threads: int) -> list[dict[str, Any]]:
    """Processor seconds of reading and of factorising, and whether the same categories were read everywhere."""
    from fbed.tables.table import read_table

    values = LEVELS[np.random.default_rng(0).integers(0, len(LEVELS), (n, p))]
    out = []
    for storage, (X, factorise) in _stored(values).items():
        best = best_of_turns({"read": lambda X=X: read_table(X), "factorise": factorise}, turns)
        factors = read_table(X).factors
        right = all((LEVELS[factor.codes] == values[:, j]).all() for j, factor in factors.items())
        times = {name: used["cpu"] for name, used in best.items()}
        out.append({"storage": storage, **times, "right": right and len(factors) == p})
    return out


def _stored(values: Any) -> dict[str, tuple[Any, Callable[[], Any]]]:
    """The same text in every storage, each with the bare factorising of its columns by the library that stores it."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    rows = pd.DataFrame(values).rename(columns=lambda j: f"v{j}")
    columns = pd.DataFrame({name: rows[name].to_list() for name in rows})
    arrow = pa.Table.from_pandas(rows)
    polars = pl.from_arrow(arrow)

    def by_pandas(frame: Any) -> Callable[[], Any]:
        return lambda: [pd.factorize(series) for _, series in frame.items()]

    stored: dict[str, Any] = {
        "pandas, objects by rows": rows,
        "pandas, objects by columns": columns,
        "pandas, string": rows.astype("string[python]"),
        "pandas, string of Arrow": rows.astype("string[pyarrow]"),
        "pandas, category": rows.astype("category"),
    }
    out = {name: (frame, by_pandas(frame)) for name, frame in stored.items()}
    out["polars"] = polars, lambda: [series.cast(pl.Categorical).to_physical() for series in polars]
    out["Arrow"] = arrow, lambda: [column.dictionary_encode() for column in arrow.columns]
    return out


def added(n: int, threads: int) -> dict[str, int]:
    """Bytes of a table of numbers of several types and some text, and what reading it adds at most."""
    import pandas as pd

    from fbed.matrix.design import Design
    from fbed.tables.table import read_table

    rng = np.random.default_rng(0)
    kinds = {"float64": 40, "float32": 20, "int64": 20, "int8": 40, "bool": 40}
    frame = pd.DataFrame(
        {f"{kind}_{j}": rng.integers(0, 2, n).astype(kind) for kind, count in kinds.items() for j in range(count)}
    )
    size = int(frame.memory_usage(index=False).sum())
    frame["text"] = LEVELS[rng.integers(0, len(LEVELS), n)].astype(object)
    tracemalloc.start()
    Design(read_table(frame), np.ones(n))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"bytes": size, "added": peak}


def words(found: dict[str, Any]) -> str:
    rows = [
        [one["storage"], seconds(one["read"]), seconds(one["factorise"]), f"{one['read'] / one['factorise']:.2f}"]
        for one in found["text"]
    ]
    wrong = [one["storage"] for one in found["text"] if not one["right"]]
    size, more = (found["numbers"][key] / 2**20 for key in ("bytes", "added"))
    return "\n\n".join(
        [
            f"{found['n']:,} rows and {found['p']:,} columns of text with {len(LEVELS)} levels, processor seconds on "
            "one thread: reading and checking the whole table, and the bare factorising of its columns by the library "
            f"that stores it. At most {WANTED:g} s is wanted.",
            table(["", "reading", "factorising", "times"], rows),
            f"WRONG: other categories from {', '.join(wrong)}" if wrong else "The same categories from all of them.",
            f"A pandas table of numbers of five types, {size:.1f} MB, and a column of text: reading it and the first "
            f"pass over its columns add {more:.1f} MB at most.",
        ]
    )
