"""From cells and times to the files of a results folder: CSV, tables in Markdown and HTML, figures."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pandas as pd

from experiments import analysis, data, figures, null_table, paper, tables
from experiments.protocol import Cell

NULL_FILE = "null.csv"
TIMES_FILE = "times.csv"
CELLS_FILE = "cells.csv"
SIGNIFICANCE_FILE = "significance.csv"


def write(cells: dict[str, list[Cell]], present: list[data.Dataset], folder: Path) -> list[tables.Table]:
    """Everything; the null table and the timing table where their CSV files are in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [tables.datasets(present)]
    if (folder / NULL_FILE).exists():
        parts.append(_null(pd.read_csv(folder / NULL_FILE)))
    if cells:
        parts += _from_cells(cells, folder)
    if (folder / TIMES_FILE).exists():
        times = pd.read_csv(folder / TIMES_FILE, dtype={"criterion": str, "value": str}, keep_default_na=False)
        parts.append(tables.timing(times))
    tables.write(parts, folder)
    return parts


def _from_cells(cells: dict[str, list[Cell]], folder: Path) -> list[tables.Table]:
    rows = analysis.frame(cell for some in cells.values() for cell in some)
    rows.round(6).to_csv(folder / CELLS_FILE, index=False)
    significance = pd.concat(
        [analysis.bootstrap(some).assign(dataset=name) for name, some in cells.items()], ignore_index=True
    )
    significance.to_csv(folder / SIGNIFICANCE_FILE, index=False)
    tuned = analysis.means(analysis.tuned(rows), analysis.METHOD)
    tuned_beside = analysis.expected_order(analysis.beside_paper(tuned, "tuned"))
    detail = analysis.means(rows, analysis.CONFIGURATION)
    detail_beside = analysis.expected_order(analysis.beside_paper(detail[detail["criterion"] != ""], "detail"))
    ranks = paper.average_ranks(tuned)
    conclusions = analysis.conclusions(rows)
    correlation = analysis.spearman(rows)
    for name, table in {
        "tuned": tuned_beside,
        "detail": detail_beside,
        "ranks": ranks,
        "conclusions": conclusions,
        "spearman": correlation,
        "against_fbs": analysis.against_fbs(rows),
        "limited": analysis.differences(rows, "limited"),
        "plain": analysis.differences(rows, "plain"),
    }.items():
        table.round(6).to_csv(folder / f"{name}.csv", index=False)
    figures.draw_all(rows, folder)
    return [
        tables.plain("Repetitions", "Random splits that were computed.", _repetitions(cells)),
        *tables.tuned(tuned_beside, significance, ranks),
        tables.plain("Agreement with the paper", _AGREEMENT, agreement(tuned_beside, detail_beside)),
        tables.plain("The paper's conclusions", _CONCLUSIONS, conclusions),
        tables.plain("LASSO-PM's advantage and the number of variables", "Spearman correlations.", correlation, ".3g"),
        *tables.detail(detail_beside),
    ]


_AGREEMENT = (
    "Numbers that differ from the paper's with a p-value below .01 (about 1 % of them would if both came from the same "
    "distribution and were independent), and the mean difference."
)
_CONCLUSIONS = (
    "Medians are over the settings on all datasets; intervals (95 %) resample datasets. Similar means that the "
    f"interval lies within ±{analysis.SIMILAR:g} point of AUC."
)


def agreement(tuned: pd.DataFrame, detail: pd.DataFrame) -> pd.DataFrame:
    """How many numbers are far from the paper's, by table, measure and dataset."""
    both = pd.concat([tuned.assign(table="tuned"), detail.assign(table="by hyper-parameter")])
    both["difference"] = both["mean"] - both["paper"]
    grouped = both.groupby(["table", "metric", "dataset"], sort=False)
    counts = grouped.agg(numbers=("far", "size"), far=("far", "sum"), mean_difference=("difference", "mean"))
    return counts.reset_index()


def _repetitions(cells: dict[str, list[Cell]]) -> pd.DataFrame:
    done = [
        {"dataset": name, "computed": len(some), "of the paper's": data.PAPER[name].repetitions}
        for name, some in cells.items()
    ]
    return pd.DataFrame(done, dtype=object)


def null(folder: Path, quick: bool, repetitions: int | None, jobs: int) -> None:
    """Simulate the paper's multiple-testing table and keep it as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    repetitions = repetitions or (30 if quick else null_table.PAPER_REPETITIONS)
    found = [
        cell
        for p in (null_table.WIDTHS[:1] if quick else null_table.WIDTHS)
        for cell in null_table.simulate(p, repetitions, jobs=jobs, log=True)
    ]
    rows = [
        {
            "p": cell.p,
            "alpha": cell.alpha,
            "algorithm": cell.algorithm,
            "mean": cell.mean,
            "std": float(np.std(cell.counts, ddof=1)),
            "repetitions": len(cell.counts),
            "paper": cell.paper,
        }
        for cell in found
    ]
    pd.DataFrame(rows).to_csv(folder / NULL_FILE, index=False)


def _null(found: pd.DataFrame) -> tables.Table:
    """Rows of algorithms, columns of p and α, as in the paper."""
    error = found["std"] * np.sqrt(1 / found["repetitions"] + 1 / null_table.PAPER_REPETITIONS)
    distance = (found["mean"] - found["paper"]) / error
    found = found.assign(
        cell=[
            f"{mean:.2f} ({paper:.2f}{', ' if far else ''}{f'{t:+.1f} se' if far else ''})"
            for mean, paper, t, far in zip(found["mean"], found["paper"], distance, distance.abs() > 2.6, strict=True)
        ],
        column=[f"p = {p}, α = {alpha:g}" for p, alpha in zip(found["p"], found["alpha"], strict=True)],
    )
    wide = found.pivot_table(index="algorithm", columns="column", values="cell", aggfunc="first", sort=False)
    legend = (
        "Mean number of variables selected where none matters (n = 200), the paper's in brackets, with the difference "
        "in standard errors where its p-value is below .01."
    )
    return tables.plain("Variables selected by chance", legend, wide.reset_index())


def processor() -> str:
    """The processor's name, for the account of a run."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()
