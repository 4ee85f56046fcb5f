"""Recovery of Markov blankets from simulated data: every node of nine known networks as the target.

    FBED_DATA_DIR=data python experiments/blankets.py            # everything, some minutes
    python experiments/blankets.py --data data --quick           # three small networks, n = 500 and 2000

The networks are `bn/bif/*.bif.gz` (discrete) and `bn/gaussian_*.json` (linear-Gaussian) of the data folder. For each of
them one sample is drawn, and its first 500, 2,000 and 10,000 rows are searched for the blanket of every node, by

* FBED^0, FBED^1, FBED^∞ and FBS with tests at level --alpha: G² for discrete data, exact F for Gaussian ones;
* FBED^1 at ten times that level, and, on the networks and sizes that it is fast enough for, with multinomial
  likelihood-ratio tests;
* L1: a penalised (logistic) model with the penalty of Belloni, Chernozhukov and Wei (2016), the smallest that keeps
  pure noise out with probability 0.95, times 1.1. A categorical variable is selected when any of its indicators has a
  coefficient, for any class of the target against the others.

Perfect tests ('inf' rows) show what FBED comes to with a faithful distribution. The summary goes to summary.csv and
tables.md, the pictures to recovery.png and networks.png, all in --output.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process a core: threads of BLAS would only get in the way

import argparse
import csv
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from scipy import sparse, stats
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from fbed.cli.blanket import Network, read_network, recover, recover_perfectly, usual_family
from fbed.errors import InvalidInput
from fbed.graphs import DiscreteNetwork, GaussianNetwork, Node, Recovery, Sample

DISCRETE = ("asia", "sachs", "child", "insurance", "alarm", "hailfinder", "win95pts")
GAUSSIAN = ("ecoli70", "magic-niab")
QUICK = ("asia", "child", "ecoli70")
SIZES = (500, 2000, 10000)
LARGEST_MULTINOMIAL = (20, 2000)  # nodes and rows: beyond this its Newton steps take minutes

SEARCHES: dict[str, dict[str, Any]] = {
    "FBED^0": {"k": 0},
    "FBED^1": {"k": 1},
    "FBED^∞": {"k": math.inf},
    "FBS": {"early_dropping": False},
}


# -- methods -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What one method found for one target."""

    recovery: Recovery
    tests: int | None
    constant: bool = False  # the target has a single value in the sample, so that there was nothing to select on


Method = Callable[[Network, Sample, Node], Outcome]


def by_tests(alpha: float, family: str | None = None, **options: Any) -> Method:
    """FBED or FBS with tests at a level."""

    def method(network: Network, data: Sample, target: Node) -> Outcome:
        done = recover(network.dag, data, target, family=family or usual_family(network), alpha=alpha, **options)
        return Outcome(done.recovery, done.result.n_tests.total)

    return method


def by_l1(network: Network, data: Sample, target: Node) -> Outcome:
    """The variables with a coefficient in an L1-penalised model."""
    others = [node for node in network.dag.nodes if node != target]
    if isinstance(network, GaussianNetwork):
        chosen = l1_gaussian(np.column_stack([data[node] for node in others]), data[target])
    else:
        chosen = l1_discrete([data[node] for node in others], data[target])
    return Outcome(Recovery(network.dag, target, [others[i] for i in chosen]), None)


def noise_level(p: int) -> float:
    """The largest of p standard normal scores stays below this with probability 0.95; a tenth is added for safety."""
    return 1.1 * float(stats.norm.isf(0.05 / (2 * p)))


def l1_gaussian(X: np.ndarray, y: np.ndarray) -> set[int]:
    """Lasso on standardised columns; the noise is measured by the residuals of the full linear model."""
    Z, centred = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    residual = centred - Z @ np.linalg.lstsq(Z, centred, rcond=None)[0]
    sigma = math.sqrt(residual @ residual / (len(y) - X.shape[1] - 1))
    model = Lasso(alpha=sigma * noise_level(X.shape[1]) / math.sqrt(len(y)), max_iter=10000).fit(Z, centred)
    return set(np.flatnonzero(model.coef_).tolist())


def l1_discrete(columns: Sequence[np.ndarray], y: np.ndarray) -> set[int]:
    """L1 logistic models on standardised indicators of all levels, one class of the outcome against the others."""
    encoder = OneHotEncoder()
    indicators = encoder.fit_transform(np.column_stack(columns))
    owner = np.repeat(np.arange(len(columns)), [len(levels) for levels in encoder.categories_])
    share = np.asarray(indicators.mean(axis=0)).ravel()
    varies = (share > 0) & (share < 1)
    scale = 1 / np.sqrt(share[varies] * (1 - share[varies]))
    Z = sparse.csr_matrix(indicators[:, varies].multiply(scale))
    # The score of an indicator of unit variance has a standard deviation of at most √n / 2.
    penalty = noise_level(Z.shape[1]) * math.sqrt(len(y)) / 2
    classes = np.unique(y)
    chosen: set[int] = set()
    for one in classes[1:] if len(classes) == 2 else classes:
        weights = sparse_logistic(Z, y == one, penalty)
        chosen.update(owner[varies][weights != 0].tolist())
    return chosen


def sparse_logistic(Z: sparse.csr_matrix, y: np.ndarray, penalty: float) -> np.ndarray:
    """Coefficients that minimise the negative log-likelihood plus penalty · Σ|coefficient|."""
    newer = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
    kind: dict[str, Any] = {"l1_ratio": 1.0} if newer else {"penalty": "l1"}
    # liblinear penalises the intercept as well, which a large scaling makes harmless.
    model = LogisticRegression(solver="liblinear", C=1 / penalty, intercept_scaling=20.0, tol=1e-3, **kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged to the last digit
        return np.asarray(model.fit(Z, y).coef_[0])


def methods_for(network: Network, n: int, alpha: float) -> dict[str, Method]:
    """The methods by name, in the order of the tables."""
    methods = {name: by_tests(alpha, **options) for name, options in SEARCHES.items()}
    methods[f"FBED^1, α = {10 * alpha:g}"] = by_tests(10 * alpha, k=1)
    small = len(network.dag) <= LARGEST_MULTINOMIAL[0] and n <= LARGEST_MULTINOMIAL[1]
    if isinstance(network, DiscreteNetwork) and small:
        methods["FBED^1, multinomial"] = by_tests(alpha, "multinomial", k=1)
    return {**methods, "L1": by_l1}


# -- one network, one size -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """Means over all nodes of a network as targets; counts of spouses are sums."""

    network: str
    nodes: int
    deterministic: int
    n: float
    method: str
    precision: float
    recall: float
    f1: float
    exact: float
    spouses_found: int
    spouses: int
    spouses_beyond_fbed0: int
    tests: float | None
    constant_targets: int
    seconds: float


def run_task(task: tuple[str, str, int | float, int, float]) -> list[Summary]:
    """All methods on one network at one size."""
    name, path, n, seed, alpha = task
    network = read_network(path)
    if n == math.inf:
        results = {method: perfect_outcomes(network, options) for method, options in SEARCHES.items()}
    else:
        sample = network.sample(max(SIZES), seed)
        data = Sample({node: values[: int(n)] for node, values in sample.items()})
        methods = methods_for(network, int(n), alpha)
        results = {method: outcomes(network, data, find) for method, find in methods.items()}
    first = [set(spouses(outcome.recovery)) for outcome in results["FBED^0"][0]]
    return [summarise(name, network, n, method, *result, first) for method, result in results.items()]


def outcomes(network: Network, data: Sample, find: Method) -> tuple[list[Outcome], float]:
    """What a method finds for every node as the target, and the seconds that it takes."""
    started = time.perf_counter()
    return [outcome(network, data, target, find) for target in network.dag.nodes], time.perf_counter() - started


def outcome(network: Network, data: Sample, target: Node, find: Method) -> Outcome:
    """What a method finds for one target; nothing when the sample has a single value of it."""
    if len(np.unique(data[target])) < 2:
        return Outcome(Recovery(network.dag, target, ()), None, constant=True)
    return find(network, data, target)


def perfect_outcomes(network: Network, options: dict[str, Any]) -> tuple[list[Outcome], float]:
    """What a search finds with perfect tests."""
    started = time.perf_counter()
    done = [recover_perfectly(network.dag, target, **options) for target in network.dag.nodes]
    return [Outcome(one.recovery, one.result.n_tests.total) for one in done], time.perf_counter() - started


def spouses(recovery: Recovery) -> list[Node]:
    """The spouses that were found."""
    return [node for node in recovery.hit if recovery.roles[node] == "spouse"]


def summarise(
    name: str,
    network: Network,
    n: float,
    method: str,
    found: Sequence[Outcome],
    seconds: float,
    spouses_of_fbed0: Sequence[set[Node]],
) -> Summary:
    """Means and sums over the targets."""
    recoveries = [one.recovery for one in found]
    tests = [one.tests for one in found if one.tests is not None]
    counts = np.array([recovery.role_recall("spouse") for recovery in recoveries]).sum(axis=0)
    beyond = sum(len(set(spouses(r)) - known) for r, known in zip(recoveries, spouses_of_fbed0, strict=True))
    return Summary(
        network=name,
        nodes=len(network.dag),
        deterministic=n_deterministic(network),
        n=n,
        method=method,
        precision=float(np.mean([r.precision for r in recoveries])),
        recall=float(np.mean([r.recall for r in recoveries])),
        f1=float(np.mean([r.f1 for r in recoveries])),
        exact=float(np.mean([r.exact for r in recoveries])),
        spouses_found=int(counts[0]),
        spouses=int(counts[1]),
        spouses_beyond_fbed0=beyond,
        tests=float(np.mean(tests)) if tests else None,
        constant_targets=sum(one.constant for one in found),
        seconds=seconds,
    )


def n_deterministic(network: Network) -> int:
    """Nodes that are a function of their parents: nothing but 0 and 1 in their table."""
    if isinstance(network, GaussianNetwork):
        return sum(equation.sd == 0 for equation in network.equations.values())
    return sum(
        bool(table.parents) and bool((table.probabilities.max(axis=-1) == 1).all()) for table in network.tables.values()
    )


# -- all of them ---------------------------------------------------------------------------------------------------


def run_all(tasks: Sequence[tuple[str, str, int | float, int, float]], jobs: int) -> Iterator[Summary]:
    """The rows of all tasks, with a line on standard error after each."""
    started = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        for i, (task, rows) in enumerate(zip(tasks, pool.map(run_task, tasks), strict=True), start=1):
            done = f"[{i}/{len(tasks)}] {task[0]}, n = {task[2]}: {time.perf_counter() - started:.0f} s"
            print(done, file=sys.stderr, flush=True)
            yield from rows


def write_csv(rows: Iterable[Summary], path: Path) -> None:
    """One line for each network, size and method."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Summary))
        for row in rows:
            values = [getattr(row, field.name) for field in fields(Summary)]
            writer.writerow(f"{v:.4g}" if isinstance(v, float) else "" if v is None else v for v in values)


def read_csv(path: Path) -> list[Summary]:
    """What `write_csv` wrote."""
    kinds: dict[str, Any] = {"network": str, "method": str}
    kinds |= dict.fromkeys(("nodes", "deterministic", "spouses_found", "spouses", "spouses_beyond_fbed0"), int)
    kinds["constant_targets"] = int
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return [Summary(*(kinds.get(name, float)(text) if text else None for name, text in line.items())) for line in lines]


def pooled(rows: Sequence[Summary], names: Sequence[str]) -> list[tuple[str, float, list[Summary]]]:
    """The rows of some networks, by method and size, where the method was run on all of these networks."""
    keys = dict.fromkeys((row.method, row.n) for row in rows)
    groups = [(m, n, [r for r in rows if (r.method, r.n) == (m, n) and r.network in names]) for m, n in keys]
    return [(method, n, group) for method, n, group in groups if len(group) == len(names)]


def spouse_recall(group: Sequence[Summary]) -> float:
    """The part of all spouses that was found, over all targets together."""
    total = sum(row.spouses for row in group)
    return sum(row.spouses_found for row in group) / total if total else math.nan


def mean(group: Sequence[Summary], name: str) -> float:
    """Mean of a field over networks."""
    values = [getattr(row, name) for row in group if getattr(row, name) is not None]
    return float(np.mean(values)) if values else math.nan


def markdown(rows: Sequence[Summary], names: Sequence[str], title: str) -> str:
    """Means over networks, a line for each size and method."""
    head = ["n", "method", "precision", "recall", "F1", "exact", "spouse recall", "spouses that FBED^0 missed", "tests"]
    head.append("s / target")
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for method, n, group in sorted(pooled(rows, names), key=lambda item: item[1]):
        tests = mean(group, "tests")
        per_target = sum(row.seconds for row in group) / sum(row.nodes for row in group)
        cells = [f"{n:,.0f}" if n < math.inf else "perfect tests", method]
        cells += [f"{mean(group, name):.3f}" for name in ("precision", "recall", "f1", "exact")]
        cells += [f"{spouse_recall(group):.3f}", str(sum(row.spouses_beyond_fbed0 for row in group))]
        cells += ["–" if math.isnan(tests) else f"{tests:,.0f}", f"{per_target:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def by_network(rows: Sequence[Summary], names: Sequence[str], method: str) -> str:
    """One method, a line for each network and a column for each size."""
    sizes = sorted({row.n for row in rows if row.method == method})
    head = ["network", "nodes", "deterministic", *(f"{n:,.0f}" if n < math.inf else "perfect" for n in sizes)]
    lines = [f"### F1 of {method} by network and n", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name in names:
        mine = {row.n: row for row in rows if row.network == name and row.method == method}
        first = next(iter(mine.values()))
        cells = [name, str(first.nodes), str(first.deterministic), *(f"{mine[n].f1:.3f}" for n in sizes)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


# -- pictures ------------------------------------------------------------------------------------------------------

STYLES = {  # Okabe and Ito's colours; markers and dashes say the same without colour
    "FBED^0": ("#e69f00", "o", "-"),
    "FBED^1": ("#0072b2", "s", "-"),
    "FBED^∞": ("#009e73", "^", "-"),
    "FBS": ("#cc79a7", "D", "--"),
    "L1": ("#555555", "x", ":"),
}


def draw_lines(ax: Any, rows: Sequence[Summary], names: Sequence[str], value: Callable[[list[Summary]], float]) -> None:
    """A line for each method against the number of rows."""
    groups = pooled([row for row in rows if row.n < math.inf], names)
    for method, (colour, marker, line) in STYLES.items():
        points = sorted((n, value(group)) for name, n, group in groups if name == method)
        points = [(n, v) for n, v in points if not math.isnan(v)]
        if points:
            ax.plot(*zip(*points, strict=True), color=colour, marker=marker, linestyle=line, label=method, markersize=5)
    sizes = sorted({row.n for row in rows if row.n < math.inf})
    ax.set_xscale("log")
    ax.set_xticks(sizes, [f"{n:,.0f}" for n in sizes])
    ax.minorticks_off()
    ax.grid(alpha=0.3)


def draw_means(rows: Sequence[Summary], names: Sequence[str], path: Path) -> None:
    """Means over networks."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
    panels: list[tuple[str, Callable[[list[Summary]], float]]] = [
        ("mean F1", lambda group: mean(group, "f1")),
        ("mean precision", lambda group: mean(group, "precision")),
        ("recall of spouses", spouse_recall),
        ("mean number of tests", lambda group: mean(group, "tests")),
    ]
    for ax, (title, value) in zip(axes, panels, strict=True):
        draw_lines(ax, rows, names, value)
        ax.set(title=title, xlabel="rows")
        if title != panels[-1][0]:
            ax.set_ylim(0, 1.03)
    axes[-1].set_ylim(bottom=0)
    axes[0].legend(fontsize=8, loc="lower right")
    figure.suptitle(f"Markov blankets from data: means over {len(names)} networks, every node a target", fontsize=11)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_networks(rows: Sequence[Summary], names: Sequence[str], path: Path) -> None:
    """F1, a panel for each network."""
    import matplotlib.pyplot as plt

    n_columns = min(5, len(names))
    n_rows = -(-len(names) // n_columns)
    size = (2.6 * n_columns, 2.5 * n_rows + 0.6)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", sharey=True, squeeze=False)
    for ax, name in zip(axes.flat, names, strict=False):
        draw_lines(ax, rows, [name], lambda group: mean(group, "f1"))
        first = next(row for row in rows if row.network == name)
        star = " *" if first.deterministic else ""
        ax.set(title=f"{name} ({first.nodes} nodes){star}", ylim=(0, 1.03))
        ax.tick_params(labelsize=8)
    for ax in list(axes.flat)[len(names) :]:
        ax.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    if len(names) < axes.size:
        axes.flat[-1].legend(handles, labels, loc="center", fontsize=10)
    else:
        figure.legend(handles, labels, loc="outside lower center", fontsize=9, ncols=len(labels))
    figure.suptitle("Mean F1 by number of rows (* has deterministic nodes: the data are not faithful)", fontsize=11)
    figure.savefig(path, dpi=120)
    plt.close(figure)


# -- command line --------------------------------------------------------------------------------------------------


def find_network(folder: Path, name: str) -> Path:
    """The file of a network in the data folder, or in its folder of networks."""
    parts = Path("bif", f"{name}.bif.gz") if name in DISCRETE else Path(f"gaussian_{name}.json")
    for path in (folder / "bn" / parts, folder / parts):
        if path.exists():
            return path
    raise InvalidInput(f"{folder} holds no {Path('bn') / parts}: name the data folder by --data or FBED_DATA_DIR")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("FBED_DATA_DIR", ".")), help="data folder")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "blankets")
    parser.add_argument("--alpha", type=float, default=0.001, help="level of the tests (default 0.001)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the samples (default 1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--quick", action="store_true", help="three small networks, n = 500 and 2000")
    parser.add_argument("--redraw", action="store_true", help="tables and pictures from an earlier run's summary.csv")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything and write the results."""
    arguments = parse(argv)
    try:
        rows = read_csv(arguments.output / "summary.csv") if arguments.redraw else measured(arguments)
    except (InvalidInput, OSError) as error:
        print(f"blankets: {error}", file=sys.stderr)
        return 2
    names = list(dict.fromkeys(row.network for row in rows))
    text = "\n".join(report(rows, names))
    (arguments.output / "tables.md").write_text(text, encoding="utf-8")
    draw_means(rows, names, arguments.output / "recovery.png")
    draw_networks(rows, names, arguments.output / "networks.png")
    print(text)
    return 0


def measured(arguments: argparse.Namespace) -> list[Summary]:
    """Run all tasks and keep their summary in a file."""
    names = QUICK if arguments.quick else DISCRETE + GAUSSIAN
    sizes = (*SIZES[: 2 if arguments.quick else 3], math.inf)
    paths = {name: str(find_network(arguments.data, name)) for name in names}
    tasks = [(name, paths[name], n, arguments.seed, arguments.alpha) for n in sizes for name in names]
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows = list(run_all(tasks, arguments.jobs))
    write_csv(rows, arguments.output / "summary.csv")
    return rows


def report(rows: Sequence[Summary], names: Sequence[str]) -> list[str]:
    """The tables: all networks, the faithful ones, G² against multinomial tests, and FBED^1 by network."""
    faithful = [name for name in names if not any(row.deterministic for row in rows if row.network == name)]
    small = [row.network for row in rows if row.method == "FBED^1, multinomial" and row.n == SIZES[1]]
    tables = [markdown(rows, names, f"All {len(names)} networks")]
    if len(faithful) < len(names):
        tables.append(markdown(rows, faithful, f"Without deterministic nodes: {', '.join(faithful)}"))
    if small:
        compared = [row for row in rows if row.method.startswith("FBED^1") and row.n in SIZES[:2]]
        tables.append(markdown(compared, small, f"G² against multinomial tests: {', '.join(small)}"))
    return [*tables, by_network(rows, names, "FBED^1")]


if __name__ == "__main__":
    sys.exit(main())
