"""The level of robust tests: how often is a predictor that does not matter significant at .05?

    python -m experiments.cluster_levels                 # 3,000 repetitions, half an hour on one core
    python -m experiments.cluster_levels --quick         # 300 repetitions
    python -m experiments.cluster_levels --families gaussian gee --jobs 2 --output experiments/CLUSTERS.md

Clusters are of 3 to 12 rows and have an effect of their own on the outcome, besides that of a covariate in the model.
The predictors that are tested have none: one that varies within clusters, one that is constant in each, one that is
present in 2 clusters only, and categories of three levels, of rows and of clusters. HC3 is tried on rows whose spread
depends on the covariate. A share of rejections above .05 by more than 3 standard errors is marked.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fbed import families
from fbed.matrix.design import Design
from fbed.tables.extras import read_extras
from fbed.tables.outcomes import read_outcome
from fbed.tables.table import read_table

LEVEL = 0.05
CLUSTERS = (20, 40)
ROWS = (50, 200)
SPREAD = 0.7  # standard deviation of the clusters' own effects

Random = np.random.Generator
Draw = Callable[[Random, np.ndarray], Any]


@dataclass(frozen=True)
class Setting:
    """A family with its options, and how its outcome is drawn given the linear predictor."""

    family: str
    draw: Draw
    options: dict[str, str]


def _negative_binomial(rng: Random, eta: np.ndarray) -> np.ndarray:
    return rng.poisson(np.exp(0.5 + eta) * rng.gamma(2.0, 0.5, len(eta)))


SETTINGS = {
    "gaussian": Setting("gaussian", lambda rng, eta: eta + rng.normal(size=len(eta)), {"cov": "cluster"}),
    "binomial": Setting(
        "binomial", lambda rng, eta: (eta + rng.logistic(size=len(eta)) > 0).astype(float), {"cov": "cluster"}
    ),
    "poisson": Setting("poisson", lambda rng, eta: rng.poisson(np.exp(0.5 + eta)), {"cov": "cluster"}),
    "negative_binomial": Setting("negative_binomial", _negative_binomial, {"cov": "cluster"}),
    "gamma": Setting("gamma", lambda rng, eta: rng.gamma(2.0, np.exp(eta) / 2.0), {"cov": "cluster"}),
    "gee": Setting("gee", lambda rng, eta: eta + rng.normal(size=len(eta)), {"link": "identity"}),
    "gee logit": Setting(
        "gee", lambda rng, eta: (eta + rng.logistic(size=len(eta)) > 0).astype(float), {"link": "logit"}
    ),
    "gee log": Setting("gee", lambda rng, eta: rng.poisson(np.exp(0.5 + eta)), {"link": "log"}),
}
HC3 = Setting("gaussian", lambda rng, eta: eta + np.exp(eta) * rng.normal(size=len(eta)), {"cov": "HC3"})

PREDICTORS = ("within", "between", "in 2 clusters", "3 levels within", "3 levels between")
ROW_PREDICTORS = ("normal", "binary, 5 %", "heavy tails", "3 levels")


@dataclass(frozen=True)
class Cell:
    """How often a predictor was significant."""

    setting: str
    size: str
    predictor: str
    repetitions: int
    rejections: int

    @property
    def level(self) -> float:
        """The share of rejections."""
        return self.rejections / self.repetitions

    @property
    def holds(self) -> bool:
        """Whether the level is not above .05 by more than 3 standard errors."""
        return self.level <= LEVEL + 3.0 * math.sqrt(LEVEL * (1.0 - LEVEL) / self.repetitions)


def clustered_data(rng: Random, n_clusters: int, draw: Draw) -> tuple[pd.DataFrame, Any, np.ndarray]:
    """A covariate that matters and predictors that do not, with an outcome in clusters."""
    cluster = np.repeat(np.arange(n_clusters), rng.integers(3, 13, n_clusters))
    n = len(cluster)
    frame = pd.DataFrame({"covariate": rng.normal(size=n)})
    frame["within"] = rng.normal(size=n)
    frame["between"] = rng.normal(size=n_clusters)[cluster]
    frame["in 2 clusters"] = np.isin(cluster, rng.choice(n_clusters, 2, replace=False)).astype(float)
    frame["3 levels within"] = pd.Categorical(rng.choice(list("abc"), n))
    frame["3 levels between"] = pd.Categorical(rng.choice(list("abc"), n_clusters)[cluster])
    return frame, draw(rng, 0.4 * frame["covariate"] + SPREAD * rng.normal(size=n_clusters)[cluster]), cluster


def row_data(rng: Random, n: int, draw: Draw) -> tuple[pd.DataFrame, Any]:
    """The same without clusters; the spread of the outcome depends on the covariate."""
    frame = pd.DataFrame({"covariate": rng.normal(size=n), "normal": rng.normal(size=n)})
    frame["binary, 5 %"] = (rng.random(n) < 0.05).astype(float)
    frame["heavy tails"] = rng.standard_t(2, n)
    frame["3 levels"] = pd.Categorical(rng.choice(list("abc"), n))
    return frame, draw(rng, 0.4 * frame["covariate"].to_numpy())


def log_p_values(task: tuple[str, int, int, int]) -> np.ndarray:
    """Log p-values of all predictors in one repetition; NaN stands for data that cannot be tested at all."""
    name, size, seed, repetition = task
    rng = np.random.default_rng([seed, size, repetition])
    setting = SETTINGS.get(name, HC3)
    if name == "HC3":
        frame, y = row_data(rng, size, setting.draw)
        extras = {}
    else:
        frame, y, cluster = clustered_data(rng, size, setting.draw)
        extras = {"cluster": cluster}
    model = families.find(setting.family).build(
        families.Request(
            Design(read_table(frame), np.ones(len(frame))),
            read_outcome(np.asarray(y), len(frame)),
            read_extras(frame, len(frame), extras),
            "wald",
            setting.options.get("cov"),
            setting.options.get("link"),
        )
    )
    return model.fit([0]).gains(np.arange(1, frame.shape[1])).log_p


def simulate(name: str, size: int, repetitions: int, seed: int = 0, jobs: int = 1) -> list[Cell]:
    """A cell for every predictor."""
    tasks = [(name, size, seed, repetition) for repetition in range(repetitions)]
    rejected = sum((log_p < math.log(LEVEL)).astype(int) for log_p in _mapped(tasks, jobs))
    predictors, unit = (ROW_PREDICTORS, "rows") if name == "HC3" else (PREDICTORS, "clusters")
    return [
        Cell(name, f"{size} {unit}", predictor, repetitions, int(count))
        for predictor, count in zip(predictors, rejected, strict=True)
    ]


def _mapped(tasks: list[tuple[str, int, int, int]], jobs: int) -> Iterator[np.ndarray]:
    if jobs == 1:
        yield from map(log_p_values, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(log_p_values, tasks, chunksize=20)


def report(cells: Iterable[Cell]) -> str:
    """A table of levels, a line for every setting and size."""
    lines = []
    header: tuple[str, ...] = ()
    table: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        table.setdefault((cell.setting, cell.size), []).append(cell)
    for (setting, size), row in table.items():
        predictors = tuple(cell.predictor for cell in row)
        if predictors != header:
            header = predictors
            lines += [""] * bool(lines) + [
                "| test | size | samples | " + " | ".join(header) + " |",
                "|---" * (3 + len(header)) + "|",
            ]
        shown = (f"{cell.level:.3f}" + ("" if cell.holds else " **above**") for cell in row)
        lines.append(f"| {setting} | {size} | {row[0].repetitions:,} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the simulation and print the table; exit status 1 when a level does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*SETTINGS, "HC3"]
    parser.add_argument("--families", nargs="+", choices=names, default=names, help="which tests (default: all)")
    parser.add_argument("--repetitions", type=int, help="datasets a size (default 3000, with --quick 300)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--output", type=Path, help="document to write the table into, besides printing it")
    options = parser.parse_args(arguments)
    repetitions = options.repetitions or (300 if options.quick else 3000)
    cells: list[Cell] = []
    for name in options.families:
        for size in ROWS if name == "HC3" else CLUSTERS:
            cells += simulate(name, size, repetitions, options.seed, options.jobs)
            print(report(cells[-len(ROW_PREDICTORS if name == "HC3" else PREDICTORS) :]), file=sys.stderr, flush=True)
    text = report(cells)
    print(text)
    if options.output is not None:
        options.output.write_text(_document(text), encoding="utf-8")
    return int(not all(cell.holds for cell in cells))


def _document(table: str) -> str:
    what = (
        "# The level of robust tests\n\n"
        "Share of samples in which a predictor that does not matter is significant at .05, by\n"
        "`python -m experiments.cluster_levels`, which says how the samples are drawn. Predictors that differ between\n"
        "two clusters only, or are 1 in a row or two, are far below .05: little can be learnt about them.\n\n"
    )
    return what + table + "\n"


if __name__ == "__main__":
    sys.exit(main())
