"""The paper's figures, as PNG and SVG. Differences have the sign of the paper's captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import analysis, paper
from experiments.protocol import ALGORITHMS

COLOURS = {"FBED^0": "#0072b2", "FBED^1": "#d55e00", "FBED^∞": "#009e73", "FBS": "#8a5fb4"}
MARKERS = {"FBED^0": "o", "FBED^1": "s", "FBED^∞": "^", "FBS": "D"}
CRITERIA = {"IT": "independence test", "EBIC": "EBIC"}
LABELS = {"FBED^0": "FBED$^0$", "FBED^1": "FBED$^1$", "FBED^∞": r"FBED$^\infty$", "FBS": "FBS"}


def draw_all(rows: pd.DataFrame, folder: Path) -> None:
    """All figures."""
    performance_and_variables(analysis.against_fbs(rows), folder)
    tests(analysis.against_fbs(rows), folder)
    limited = analysis.differences(rows, "limited")
    plain = analysis.differences(rows, "plain")
    two_differences(
        limited, "LASSO-FS limited to the same number of variables", "selector − LASSO-FS", "limited", folder
    )
    two_differences(plain, "LASSO-PM against logistic regression", "LASSO-PM − logistic regression", "plain", folder)


def performance_and_variables(compared: pd.DataFrame, folder: Path) -> None:
    """Difference in performance against the relative number of variables."""
    theirs = _paper_against_fbs(sorted(set(compared["dataset"])))
    figure, axes = _subplots(2, 2, (9.5, 8.2))
    for row, metric in enumerate(("auc", "accuracy")):
        for column, (criterion, name) in enumerate(CRITERIA.items()):
            axis = axes[row, column]
            some = compared[compared["criterion"] == criterion]
            for algorithm in list(ALGORITHMS)[:3]:
                _points(axis, some, algorithm, metric, "variables")
                printed = theirs[(theirs["criterion"] == criterion) & (theirs["algorithm"] == algorithm)]
                style = {"marker": MARKERS[algorithm], "s": 70, "facecolor": "none", "edgecolor": "black", "zorder": 4}
                axis.scatter(printed[metric].median(), printed["variables"].median(), **style)
            axis.set_yscale("log")
            _percent_ticks(axis)
            axis.axhline(100, color="#999999", linewidth=0.8)
            axis.axvline(0, color="#999999", linewidth=0.8)
            axis.set_title(f"{paper.METRICS[metric]}, {name}")
            axis.set_xlabel(f"{paper.METRICS[metric]} of FBED$^K$ − FBS (points)")
            axis.set_ylabel("variables, % of FBS")
    _legend(figure, list(ALGORITHMS)[:3], "black: medians here; hollow: medians of the paper's table for the same sets")
    _save(figure, folder / "performance_and_variables")


def _paper_against_fbs(datasets: list[str]) -> pd.DataFrame:
    """The same comparison from the paper's detailed tables."""
    detail = paper.numbers().query("table == 'detail' and metric != 'seconds' and dataset in @datasets")
    keys = ["dataset", "criterion", "value"]
    wide = detail.pivot_table(index=[*keys, "algorithm"], columns="metric", values="paper").reset_index()
    both = wide.merge(wide[wide["algorithm"] == "FBS"], on=keys, suffixes=("", "_fbs"))
    return both.assign(
        auc=both["auc"] - both["auc_fbs"],
        accuracy=both["accuracy"] - both["accuracy_fbs"],
        variables=100 * both["variables"] / both["variables_fbs"],
    )


def tests(compared: pd.DataFrame, folder: Path) -> None:
    """Histograms of the relative number of tests."""
    figure, axes = _subplots(2, 3, (10, 5.6), sharex=True)
    low = np.floor(np.log10(compared["tests"].min()) * 5) / 5
    bins = np.logspace(low, np.log10(max(100.0, compared["tests"].max())) + 0.01, 22)
    for row, criterion in enumerate(CRITERIA):
        for column, algorithm in enumerate(list(ALGORITHMS)[:3]):
            axis = axes[row, column]
            mine = (compared["criterion"] == criterion) & (compared["algorithm"] == algorithm)
            some = compared.loc[mine, "tests"]
            axis.hist(some, bins=bins, color=COLOURS[algorithm], alpha=0.55, edgecolor="white")
            axis.axvline(some.median(), color="#0b3fd6", linewidth=2)
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_title(f"{LABELS[algorithm]}, {criterion}: median {some.median():.1f} %", fontsize=10)
            axis.yaxis.get_major_locator().set_params(integer=True)
            if row == 1:
                axis.set_xlabel("tests, % of FBS")
            if column == 0:
                axis.set_ylabel("settings")
    figure.tight_layout()
    _save(figure, folder / "tests")


def two_differences(gaps: pd.DataFrame, title: str, what: str, name: str, folder: Path) -> None:
    """Difference in accuracy against difference in AUC, a panel a criterion."""
    figure, axes = _subplots(1, 2, (9.5, 4.9), sharex=True, sharey=True)
    for axis, (criterion, words) in zip(axes, CRITERIA.items(), strict=True):
        some = gaps[gaps["criterion"] == criterion]
        for algorithm in ALGORITHMS:
            _points(axis, some, algorithm, "accuracy", "auc")
        axis.axhline(0, color="#999999", linewidth=0.8)
        axis.axvline(0, color="#999999", linewidth=0.8)
        axis.set_title(f"{title}\n{words}", fontsize=10)
        axis.set_xlabel(f"accuracy: {what} (points)")
    axes[0].set_ylabel(f"AUC: {what} (points)")
    _legend(figure, list(ALGORITHMS), "black: medians")
    _save(figure, folder / name)


def _points(axis: Any, table: pd.DataFrame, algorithm: str, x: str, y: str) -> None:
    """The settings of one algorithm, and in black their medians."""
    some = table[table["algorithm"] == algorithm]
    style = {"marker": MARKERS[algorithm], "linewidth": 0}
    axis.scatter(some[x], some[y], s=26, color=COLOURS[algorithm], alpha=0.6, **style)
    axis.scatter(some[x].median(), some[y].median(), s=70, color="black", zorder=5, **style)


def _percent_ticks(axis: Any) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.yaxis.set_major_locator(FixedLocator([12.5, 25, 50, 100, 200]))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, 45), max(high, 130))


def _subplots(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "experiments"  # the same picture is the same file
    import matplotlib.pyplot as plt

    return plt.subplots(rows, columns, figsize=size, **options)


def _legend(figure: Any, algorithms: list[str], note: str) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker=MARKERS[name], color=COLOURS[name], linewidth=0, label=LABELS[name])
        for name in algorithms
    ]
    handles.append(Line2D([], [], linewidth=0, label=note))
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=9)


def _save(figure: Any, stem: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(stem.with_suffix(".png"), dpi=150)
    figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)
