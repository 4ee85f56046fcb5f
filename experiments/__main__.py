"""The paper's experiments on real data, computed again.

    python -m experiments                       # everything, on the datasets that are there
    python -m experiments --quick               # three datasets, three repetitions, coarse λ grids: some minutes
    python -m experiments run madelon hiva      # the protocol on some datasets
    python -m experiments timing | null | report
    python -m experiments inference             # do the guarantees of fbed.stability and others hold?
    python -m experiments levels cox gamma      # how often irrelevant predictors pass, for some families or all
    python -m experiments tuning                # is the performance that fbed.tune tells honest? some minutes
    python -m experiments data                  # which datasets are there, and whether they are right
    python -m experiments fetch secom           # download a dataset into the folder

Datasets are looked for in the folder that FBED_DATA_DIR or --data names. What has been computed is kept: a command that
was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments import data, fetch, inference, levels, protocol, report, store, tables, timing, tuning
from experiments.store import Store, Task

HERE = Path(__file__).parent
QUICK_DATASETS = ("madelon", "arcene", "dexter")
QUICK_REPETITIONS = 3


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks for."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.part not in ("null", "levels", "tuning", "inference"):  # simulated data need no folder
            options.data = options.data or data.folder_of_data()
            if not options.data.is_dir():
                raise data.DataError(f"{options.data} is no folder: set FBED_DATA_DIR or give --data")
        PARTS[options.part](options)
    except data.DataError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on where it was", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=list(PARTS), default="all", help="what to do (default: all)")
    parser.add_argument("names", nargs="*", metavar="DATASET", help="datasets (default: those in the folder)")
    parser.add_argument("--data", type=Path, help="folder of the datasets (default: FBED_DATA_DIR)")
    parser.add_argument("--quick", action="store_true", help="a small version of everything")
    parser.add_argument("--jobs", type=int, default=1, help="processes; they change no number (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits (default 0)")
    parser.add_argument("--repetitions", type=int, help="splits, or simulations (default: the paper's)")
    parser.add_argument("--cells", type=Path, default=HERE / "cells", help="folder where computed cells are kept")
    parser.add_argument("--fresh", action="store_true", help="levels: count again from the beginning")
    parser.add_argument("--output", type=Path, help="folder of the results (default: results/paper beside this file)")
    return parser


def _names(options: argparse.Namespace) -> list[str]:
    """Datasets that are asked for and there; those that are absent are named."""
    wanted = options.names or [name for name in data.PAPER if not options.quick or name in QUICK_DATASETS]
    unknown = [name for name in wanted if name not in data.PAPER]
    if unknown:
        raise data.DataError(f"the paper has no dataset {unknown[0]!r}: choose from {', '.join(data.PAPER)}")
    there = data.present(options.data)
    absent = [name for name in wanted if name not in there]
    if absent:
        print(f"absent from {options.data}: {', '.join(absent)}", file=sys.stderr)
    return [name for name in wanted if name in there]


def _tasks(options: argparse.Namespace) -> list[Task]:
    def repetitions(name: str) -> int:
        return options.repetitions or (QUICK_REPETITIONS if options.quick else data.PAPER[name].repetitions)

    effort = protocol.QUICK if options.quick else protocol.FULL
    return store.plan(_names(options), repetitions, options.seed, effort)


def _output(options: argparse.Namespace) -> Path:
    return options.output or HERE / "results" / ("quick" if options.quick else "paper")


def _run(options: argparse.Namespace) -> None:
    store.run(_tasks(options), Store(options.cells), options.data, options.jobs)


def _timing(options: argparse.Namespace) -> None:
    timing.measure(_names(options), options.data, _output(options) / report.TIMES_FILE)


def _null(options: argparse.Namespace) -> None:
    report.null(_output(options), options.quick, options.repetitions, options.jobs)


def _inference(options: argparse.Namespace) -> None:
    """Simulate what is not there yet, and write the table."""
    folder = options.output or HERE / "results" / "inference"
    document = HERE / "INFERENCE.md" if options.output is None else folder / "INFERENCE.md"
    repetitions = options.repetitions or (2 if options.quick else inference.REPETITIONS)
    try:
        inference.run(folder / "repetitions.jsonl", repetitions, options.jobs)
    finally:
        print(inference.write(folder / "repetitions.jsonl", document))


def _levels(options: argparse.Namespace) -> None:
    """Count, save and write the table."""
    unknown = [name for name in options.names if name not in {case.family for case in levels.CASES.values()}]
    if unknown:
        raise data.DataError(f"levels knows no family {unknown[0]!r}")
    cases = [name for name, case in levels.CASES.items() if not options.names or case.family in options.names]
    folder = options.output or HERE
    table = levels.Table(folder / "levels.csv")
    if options.fresh:
        table.forget(cases)
    try:
        levels.run(table, cases, options.repetitions or (20 if options.quick else levels.REPETITIONS), options.jobs)
    finally:
        if table.cells:
            (folder / "LEVELS.md").write_text(levels.markdown(table), encoding="utf-8")


def _tuning(options: argparse.Namespace) -> None:
    """Is the performance that tuning tells honest?"""
    folder = options.output or HERE
    folder.mkdir(parents=True, exist_ok=True)
    text = tuning.run(
        folder / "tuning.csv", options.repetitions or (10 if options.quick else tuning.REPETITIONS), options.seed
    )
    (folder / "TUNING.md").write_text(text, encoding="utf-8")
    print(text)


def _report(options: argparse.Namespace) -> None:
    """Write tables and figures from the cells that are there."""
    cells = Store(options.cells)
    tasks = sorted(task for task in _tasks(options) if task in cells)
    names = [name for name in data.PAPER if any(task.dataset == name for task in tasks)]
    found = {name: [cells.read(task) for task in tasks if task.dataset == name] for name in names}
    present = [data.load(name, options.data) for name in data.present(options.data)]
    written = report.write(found, present, _output(options))
    print(f"wrote {_output(options)}")
    if not options.quick and options.output is None:
        tables.insert(written, HERE / "RESULTS.md")


def _data(options: argparse.Namespace) -> None:
    """A line a dataset."""
    there = data.present(options.data)
    for name in options.names or data.PAPER:
        state = "absent"
        if name in there:
            dataset = data.load(name, options.data)
            rows, columns = dataset.X.shape
            state = f"{rows} × {columns}; " + ("; ".join(dataset.remarks) or "as in the paper")
        print(f"{name:<9} {state}")


def _fetch(options: argparse.Namespace) -> None:
    if not options.names:
        raise data.DataError("say which dataset: python -m experiments fetch NAME")
    for name in options.names:
        print(f"{name}: downloading")
        dataset = fetch.fetch(name, options.data)
        print(f"{name}: {dataset.X.shape[0]} × {dataset.X.shape[1]} {'; '.join(dataset.remarks)}")


def _all(options: argparse.Namespace) -> None:
    for part in (_null, _run, _timing, _report):
        part(options)


PARTS = {
    "all": _all,
    "tuning": _tuning,
    "run": _run,
    "timing": _timing,
    "null": _null,
    "inference": _inference,
    "levels": _levels,
    "report": _report,
    "data": _data,
    "fetch": _fetch,
}


if __name__ == "__main__":
    sys.exit(main())
