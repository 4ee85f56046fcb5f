"""``python -m benchmarks [part …]``: measure, keep the numbers as JSON, and write RESULTS.md and its pictures."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks import machine, report
from benchmarks.options import Options
from benchmarks.text import as_json

PARTS = (
    "sets",
    "shapes",
    "limit",
    "growth",
    "rows",
    "memory",
    "path",
    "families",
    "reading",
    "tall",
    "dummies",
    "categories",
    "classes",
    "resampling",
    "tuning",
    "tuning_cost",
    "elsewhere",
    "cluster",
    "faults",
)
HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    """Whether every answer was right, as an exit status."""
    asked = _asked(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    options = Options(
        asked.out, tuple(asked.data), asked.quick, asked.turns, asked.limit, tuple(asked.only), asked.record
    )
    for part in asked.parts:
        found = {**machine.description(), **importlib.import_module(f"benchmarks.{part}").run(options)}
        (options.out / f"{part}.json").write_text(as_json(found))
    text = report.write(options.out)
    print(text)
    return 1 if "WRONG" in text else 0


def _asked(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}, or report: measure nothing anew")
    parser.add_argument(
        "--data", nargs="+", type=Path, default=[], metavar="FILE.npz", help="sets instead of the paper's"
    )
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that everything runs")
    parser.add_argument("--turns", type=int, default=5, help="how often each contender is measured")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a contender is stopped")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="contenders to measure again")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the JSON files and pictures")
    parser.add_argument("--record", action="store_true", help="keep the twin's selections for runs without it")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.parts) - {*PARTS, "all", "report"}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}, all and report")
    everything = not asked.parts or "all" in asked.parts
    asked.parts = list(PARTS) if everything else [part for part in asked.parts if part != "report"]
    return asked


if __name__ == "__main__":
    sys.exit(main())
