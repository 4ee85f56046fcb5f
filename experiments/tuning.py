"""Is BBC-CV honest? Simulated data sets, each tuned, against the truth of a large test set and nested cross-validation.

For every data set: the honest estimate with its interval, the naive best cross-validated score, what nested
cross-validation says, and what the refitted model is truly worth on rows that nobody has seen. What has been computed
is kept in a table: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fbed
from fbed.tuning.concordance import area_parts, concordance_parts

REPETITIONS = 200
N_TEST = 20_000
N_TEST_TIMES = 3_000  # all pairs are compared
_GRID: dict[str, Any] = {
    "alphas": (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3),
    "gammas": (0.0, 1.0),
    "ks": (0,),
    "fbs": False,
}
COLUMNS = ("honest", "low", "high", "naive", "nested", "truth")

Floats = NDArray[np.float64]
Rows = tuple[Floats, Any, NDArray[np.intp]]  # columns, outcome, clusters


@dataclass(frozen=True)
class Case:
    """Rows, columns, how many matter, and how much; clusters share what is not in the table."""

    name: str
    family: str
    n: int
    p: int
    effects: tuple[float, ...]
    cluster_size: int = 1
    final: str = "ml"

    @property
    def score(self) -> str:
        """By which the configuration is chosen, and performance told."""
        return {"binomial": "roc_auc", "gaussian": "r2", "cox": "c_index"}[self.family]


CASES = (
    Case("classes, nothing to find", "binomial", 80, 40, ()),
    Case("classes, weak", "binomial", 100, 50, (0.4, 0.4, 0.3)),
    Case("classes, strong", "binomial", 200, 30, (1.0, -1.0, 0.5)),
    Case("classes in clusters of 10", "binomial", 200, 30, (0.8, -0.8), 10),
    Case("numbers, weak", "gaussian", 80, 60, (0.4, 0.3, 0.3)),
    Case("survival times", "cox", 100, 40, (0.6, -0.4)),
    Case("classes, weak, ridge or not", "binomial", 100, 50, (0.4, 0.4, 0.3), final="auto"),
    Case("numbers, weak, ridge or not", "gaussian", 80, 60, (0.4, 0.3, 0.3), final="auto"),
    Case("classes, nothing to find, ridge or not", "binomial", 80, 40, (), final="auto"),
)


def simulated(case: Case, n: int, rng: np.random.Generator) -> Rows:
    """Columns, outcome and clusters."""
    cluster = np.arange(n) // case.cluster_size
    X = rng.normal(size=(n, case.p))
    shared: Any = 0.0
    if case.cluster_size > 1:  # columns and outcomes of a cluster are alike
        X = 0.7 * X + 0.7 * rng.normal(size=(cluster.max() + 1, case.p))[cluster]
        shared = rng.normal(size=cluster.max() + 1)[cluster]
    eta = X[:, : len(case.effects)] @ np.array(case.effects) + shared if case.effects else np.zeros(n)
    if case.family == "binomial":
        return X, (eta + rng.logistic(size=n) > 0).astype(np.intp), cluster
    if case.family == "gaussian":
        return X, eta + rng.normal(size=n), cluster
    time, censored = rng.exponential(np.exp(-eta)), rng.exponential(2.0, size=n)
    return X, (np.minimum(time, censored), time <= censored), cluster


def tuned(case: Case, rows: Rows, seed: int, n_bootstraps: int) -> fbed.tuning.Tuned:
    """Settings chosen by the score of the case; whole clusters are held out and resampled."""
    X, y, cluster = rows
    groups = cluster if case.cluster_size > 1 else None
    more = {"scoring": case.score, "n_bootstraps": n_bootstraps, "random_state": seed, **_GRID}
    return fbed.tune(X, y, family=case.family, fold_groups=groups, final=case.final, **more)


def parts(case: Case, y: Any, predicted: Floats, everything: Any) -> tuple[float, float]:
    """A score as a ratio, so that folds can be put together; R² looks at the mean of everything."""
    once = np.ones((1, len(predicted)))
    if case.family == "gaussian":
        spread = float(np.square(y - everything.mean()).sum())
        return spread - float(np.square(y - predicted).sum()), spread
    won, pairs = area_parts(y == 1, predicted, once) if case.family == "binomial" else _ordered(y, predicted, once)
    return float(won[0]), float(pairs[0])


def _ordered(y: Any, predicted: Floats, once: Floats) -> tuple[Floats, Floats]:
    time, event = y
    return concordance_parts(time, event, predicted, once)


def some(rows: Rows, which: NDArray[np.intp]) -> Rows:
    """Some of the rows."""
    X, y, cluster = rows
    return X[which], tuple(part[which] for part in y) if isinstance(y, tuple) else y[which], cluster[which]


def nested(case: Case, rows: Rows, folds: list[Any], seed: int) -> float:
    """Tuning inside every fold, and the score of the rows it has not seen."""
    top, bottom = 0.0, 0.0
    for train, test in folds:
        model = tuned(case, some(rows, train), seed, 1).model
        X, y, _ = some(rows, test)
        N, D = parts(case, y, model.predict(X, "link"), rows[1])
        top, bottom = top + N, bottom + D
    return top / bottom


def one(case: Case, seed: int) -> tuple[float, ...]:
    """The values of `COLUMNS` for one data set."""
    rng = np.random.default_rng([seed, CASES.index(case)])
    rows = simulated(case, case.n, rng)
    made = tuned(case, rows, seed, 200)
    X, y, _ = simulated(case, N_TEST_TIMES if case.family == "cox" else N_TEST, rng)
    N, D = parts(case, y, made.model.predict(X, "link"), y)
    score = next(s for s in made.performance.scores if s.name == case.score)
    best = float(np.nanmax(made.values))
    return score.value, score.low, score.high, best, nested(case, rows, made.cross.folds, seed), N / D


def run(file: Path, repetitions: int = REPETITIONS, seed: int = 0) -> str:
    """Simulate what is not in the table yet, and say what came out."""
    known = _kept(file)
    with file.open("a", newline="") as out:
        writer = csv.writer(out)
        if not known:
            writer.writerow(("case", "seed", *COLUMNS))
        for case in CASES:
            for i in range(seed, seed + repetitions):
                if (case.name, i) not in known:
                    known[case.name, i] = one(case, i)
                    writer.writerow((case.name, i, *(f"{value:.6g}" for value in known[case.name, i])))
                    out.flush()
    return markdown(_kept(file))


def _kept(file: Path) -> dict[tuple[str, int], tuple[float, ...]]:
    if not file.exists():
        return {}
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    return {(row["case"], int(row["seed"])): tuple(float(row[name]) for name in COLUMNS) for row in rows}


def markdown(known: dict[tuple[str, int], tuple[float, ...]]) -> str:
    """How optimistic each estimate is, with standard errors, and how often intervals hold the truth."""
    lines = [
        "# Is BBC-CV honest?",
        "",
        f"Simulated data sets, each tuned over {len(_GRID['alphas']) + len(_GRID['gammas'])} configurations in 5 "
        "folds (`python -m experiments tuning`), three times as many where the folds choose between maximum likelihood "
        "and two penalties of ridge. *Truth* is what the refitted model is worth on many new rows: area "
        "under the ROC curve, R², or concordance. Optimism is an estimate less the truth, ± its standard error; the "
        "naive estimate is the score of the best configuration. Nested cross-validation tunes again inside every fold, "
        "for six times as many fits. Where rows come in clusters, whole clusters are held out and resampled. **Bold** "
        "is more than two standard errors too good.",
        "",
        "| data | sets | truth | BBC-CV: optimism | against nested | naive: optimism | nested: optimism "
        "| 95% intervals hold the truth | lie above it |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case in CASES:
        found = np.array([values for (name, _), values in known.items() if name == case.name])
        if len(found) < 2:
            continue
        honest, low, high, naive, nest, truth = found.T
        cells = [_mean(v) for v in (honest - truth, honest - nest, naive - truth, nest - truth)]
        held = np.mean((low <= truth) & (truth <= high))
        first = f"{case.name} ({case.n} × {case.p}) | {len(found)} | {truth.mean():.3f}"
        lines.append(f"| {first} | {' | '.join(cells)} | {held:.0%} | {np.mean(low > truth):.1%} |")
    return "\n".join([*lines, "", _READING]) + "\n"


_READING = (
    "Areas under the ROC curve compare the probabilities of all rows, as the authors of BBC-CV have it. With pairs of "
    "rows of the same fold only, it was too good by 0.02 where there is nothing to find: a row out of the bag "
    "helped to train the models of the other folds, by which the configuration was chosen.\n\nNested cross-validation "
    "chooses with four fifths of the rows that there are to choose with, and is further below the truth than BBC-CV "
    "where signals are weak: what is bold in the third column is above nested cross-validation, and not above the "
    "truth. Intervals of R² miss the truth mostly from below: models of four fifths of the rows are worth less, and "
    "the R² of a few rows, whose mean is taken of these rows, is never above 0 for a model without variables, of "
    "which the truth is 0."
)


def _mean(values: Floats) -> str:
    mean, error = float(values.mean()), float(np.std(values, ddof=1)) / math.sqrt(len(values))
    told = f"{mean:+.4f} ± {error:.4f}".replace("-", "−")
    return f"**{told}**" if mean > 2.0 * error else told
