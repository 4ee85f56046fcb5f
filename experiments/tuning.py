"""Is BBC-CV honest? Simulated data sets, each tuned, against the truth of a large test set.

For every data set: the honest estimate with its interval, the naive best cross-validated score, and what the refitted
model is truly worth on rows that nobody has seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import fbed

N_TEST = 20_000
_GRID = {"alphas": (0.001, 0.01, 0.05, 0.1, 0.3), "gammas": (0.0, 1.0), "ks": (0, 1), "fbs": False}


@dataclass(frozen=True)
class Case:
    """Rows, columns, how many matter, and how much; clusters share what is not in the table."""

    name: str
    n: int
    p: int
    effects: tuple[float, ...]
    cluster_size: int = 1


CASES = (
    Case("nothing to find", 80, 40, ()),
    Case("weak", 100, 50, (0.4, 0.4, 0.3)),
    Case("strong", 200, 30, (1.0, -1.0, 0.5)),
    Case("clusters", 200, 30, (0.8, -0.8), 10),
)


def simulated(
    case: Case, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.intp]]:
    """Columns, classes and clusters."""
    cluster = np.arange(n) // case.cluster_size
    X = rng.normal(size=(n, case.p))
    shared = 0.0
    if case.cluster_size > 1:  # columns and outcomes of a cluster are alike
        X = 0.7 * X + 0.7 * rng.normal(size=(cluster.max() + 1, case.p))[cluster]
        shared = rng.normal(size=cluster.max() + 1)[cluster]
    eta = X[:, : len(case.effects)] @ np.array(case.effects) if case.effects else np.zeros(n)
    return X, (eta + shared + rng.logistic(size=n) > 0).astype(np.intp), cluster


def one(case: Case, seed: int) -> tuple[float, float, float, bool]:
    """Honest, naive and true area under the ROC curve, and whether the interval holds the truth."""
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    X, y, cluster = simulated(case, case.n, rng)
    groups = cluster if case.cluster_size > 1 else None
    tuned = fbed.tune(X, y, fold_groups=groups, scoring="roc_auc", n_bootstraps=200, random_state=seed, **_GRID)
    new, truth, _ = simulated(case, N_TEST, rng)
    score = next(s for s in tuned.performance.scores if s.name == "roc_auc")
    best = float(np.nanmax(tuned.values))
    true = float(roc_auc_score(truth, tuned.model.predict(new)))
    return score.value, best, true, score.low <= true <= score.high


def run(repetitions: int = 200, seed: int = 0) -> str:
    """A table: how optimistic each estimate is, with standard errors, and how often intervals hold the truth."""
    lines = [
        f"Area under the ROC curve, {repetitions} data sets each; optimism = estimate − truth on {N_TEST:,} new rows.",
        "",
        "| data | truth | BBC-CV: optimism | naive: optimism | 95% intervals hold the truth |",
        "|---|--:|--:|--:|--:|",
    ]
    for case in CASES:
        found = np.array([one(case, seed + i) for i in range(repetitions)])
        honest, naive = found[:, 0] - found[:, 2], found[:, 1] - found[:, 2]
        error = [float(np.std(v, ddof=1)) / math.sqrt(len(v)) for v in (honest, naive)]
        lines.append(
            f"| {case.name} ({case.n} × {case.p}) | {found[:, 2].mean():.3f} | {honest.mean():+.4f} ± {error[0]:.4f} | "
            f"{naive.mean():+.4f} ± {error[1]:.4f} | {found[:, 3].mean():.0%} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"
