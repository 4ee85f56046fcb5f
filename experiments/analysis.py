"""What the cells say: means with sampling errors, tuned methods, significance, correlations, conclusions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from experiments import paper, protocol
from experiments.data import PAPER
from experiments.protocol import ALGORITHMS, LASSO_FS, Cell

METHOD = ["algorithm", "criterion"]
CONFIGURATION = [*METHOD, "value"]
MEASURES = {"auc": "auc", "accuracy": "accuracy", "variables": "n_selected"}
PERCENT = {"auc": 100, "accuracy": 100, "variables": 1}
ROUNDING_VARIANCE = 0.1**2 / 12  # of a number printed with one decimal
FAR = 0.01  # a difference whose p-value is below is marked

B = 100_000
SURE = 0.95


def frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """The rows of all cells, without the lists of variables; configurations by the names of the paper's tables."""
    rows = pd.DataFrame([row for cell in cells for row in cell.rows])
    is_lasso = rows["algorithm"] == LASSO_FS
    rows["value"] = [
        "" if lasso else "def" if missing else f"{value:g}"
        for value, missing, lasso in zip(rows["value"], rows["value"].isna(), is_lasso, strict=True)
    ]
    rows["criterion"] = rows["criterion"].fillna("")
    return rows.drop(columns="selected")


def tuned(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that the validation set chooses: one of each method in each repetition."""
    order = ["dataset", "repetition", *METHOD]
    best = rows.groupby(order, sort=False)["valid_deviance"].idxmin()  # the first of equals
    return rows.loc[best]


def means(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Mean, standard deviation and number of repetitions of each measure, in percent for AUC and accuracy."""
    tables = []
    for metric, column in MEASURES.items():
        grouped = (rows[column] * PERCENT[metric]).groupby([rows[key] for key in ["dataset", *keys]], sort=False)
        tables.append(grouped.agg(["mean", "std", "count"]).reset_index().assign(metric=metric))
    return pd.concat(tables, ignore_index=True)


def beside_paper(ours: pd.DataFrame, table: str) -> pd.DataFrame:
    """Our means next to the paper's, with their difference in standard errors (t) and its p-value.

    Both are means over random splits, with one standard deviation, estimated from ours; the paper's is rounded.
    """
    theirs = paper.numbers().query("table == @table").drop(columns="table")
    keys = ["metric", "dataset", *METHOD]
    if table == "detail":
        keys.append("value")
    else:
        theirs = theirs.drop(columns="value")
    both = ours.merge(theirs, on=keys, how="left")
    repetitions = both["dataset"].map(lambda name: PAPER[name].repetitions)
    error = np.sqrt(both["std"] ** 2 * (1 / both["count"] + 1 / repetitions) + ROUNDING_VARIANCE)
    both["t"] = (both["mean"] - both["paper"]) / error
    both["p"] = 2 * stats.t.sf(both["t"].abs(), both["count"] - 1)
    both["far"] = both["p"] < FAR
    return both


def bootstrap(cells: list[Cell], seed: int = 0, n_samples: int | None = None) -> pd.DataFrame:
    """Probability that a tuned method is at least (at most) as good as all others on one dataset.

    AUC and accuracy: the rows of each test set are drawn again, the same ones for all methods, and the mean over test
    sets is compared. The number of variables is constant within a test set: repetitions are drawn again instead.
    """
    rng = np.random.default_rng(seed)
    n_samples = n_samples or B
    chosen = [_tuned_scores(cell) for cell in cells]
    methods = chosen[0][0]
    sums = {metric: np.zeros((n_samples, len(methods))) for metric in ("auc", "accuracy")}
    for (_, scores, _), cell in zip(chosen, cells, strict=True):
        for start in range(0, n_samples, 5000):
            part = slice(start, min(start + 5000, n_samples))
            counts = _resampled(rng, len(cell.labels), part.stop - part.start)
            sums["auc"][part] += auc_resampled(cell.labels, scores, counts)
            correct = ((scores > 0) == (cell.labels == 1)).astype(np.float32)
            sums["accuracy"][part] += counts @ correct.T / len(cell.labels)
    sizes = np.array([n_selected for _, _, n_selected in chosen], dtype=np.float32)
    sums["variables"] = -(_resampled(rng, len(cells), n_samples) @ sizes).astype(np.float64)
    return pd.concat([_probabilities(sums[metric], methods, metric) for metric in sums], ignore_index=True)


def _tuned_scores(cell: Cell) -> tuple[pd.DataFrame, np.ndarray, list[int]]:
    """Methods of a cell, and the test scores and number of variables of the configuration that was chosen for each."""
    rows = tuned(frame([cell]))
    return rows[METHOD].reset_index(drop=True), cell.scores[rows.index], rows["n_selected"].tolist()


def _resampled(rng: np.random.Generator, n: int, n_samples: int) -> np.ndarray:
    """How often each of n things occurs in samples of n with replacement."""
    drawn = rng.integers(0, n, (n_samples, n)) + n * np.arange(n_samples)[:, None]
    return np.bincount(drawn.ravel(), minlength=n * n_samples).reshape(n_samples, n).astype(np.float32)


def auc_resampled(labels: np.ndarray, scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """AUC of each method (row of scores) in each resampling (row of counts); ½ where a class was not drawn."""
    positive = labels == 1
    up, down = counts[:, positive], counts[:, ~positive]
    pairs = up.sum(axis=1) * down.sum(axis=1)
    areas = []
    for row in scores:
        gaps = row[positive][:, None] - row[~positive]
        wins = ((gaps > 0) + 0.5 * (gaps == 0)).astype(np.float32)
        areas.append(np.where(pairs > 0, ((up @ wins) * down).sum(axis=1) / np.maximum(pairs, 1), 0.5))
    return np.column_stack(areas)


def _probabilities(values: np.ndarray, methods: pd.DataFrame, metric: str) -> pd.DataFrame:
    # Equal sums of the same numbers in another order may differ in the last bits.
    slack = 1e-9 * np.abs(values).max()
    best = (values >= values.max(axis=1, keepdims=True) - slack).mean(axis=0)
    worst = (values <= values.min(axis=1, keepdims=True) + slack).mean(axis=0)
    return methods.assign(metric=metric, p_best=best, p_worst=worst)


def spearman(rows: pd.DataFrame) -> pd.DataFrame:
    """Correlation of the number of variables with LASSO-PM's advantage over plain logistic regression.

    Over all configurations and datasets, of means over repetitions as in the figure, and of single repetitions.
    """
    selectors = rows[rows["algorithm"] != LASSO_FS]
    averaged = selectors.groupby(["dataset", *CONFIGURATION])[_WITH_PLAIN].mean()
    found = []
    for kind, table in (("means", averaged), ("single repetitions", selectors)):
        for metric in ("auc", "accuracy"):
            gain = table[metric] - table[f"plain_{metric}"]
            rho, p = stats.spearmanr(table["n_selected"], gain)
            found.append({"over": kind, "metric": metric, "here": rho, "p": p, "paper": paper.SPEARMAN[metric]})
    return pd.DataFrame(found)


_WITH_PLAIN = ["n_selected", "auc", "plain_auc", "accuracy", "plain_accuracy"]


def against_fbs(rows: pd.DataFrame) -> pd.DataFrame:
    """Each FBED^K configuration compared with FBS at the same hyper-parameter: means over repetitions.

    Differences in percentage points, positive where FBED^K is better; variables and tests relative to FBS, in percent.
    """
    selectors = rows[rows["algorithm"] != LASSO_FS]
    mean = selectors.groupby(["dataset", "criterion", "value", "algorithm"])[
        ["auc", "accuracy", "n_selected", "tests"]
    ].mean()
    base = mean.xs("FBS", level="algorithm")
    compared = []
    for algorithm in list(ALGORITHMS)[:3]:
        one = mean.xs(algorithm, level="algorithm")
        compared.append(
            pd.DataFrame(
                {
                    "algorithm": algorithm,
                    "auc": 100 * (one["auc"] - base["auc"]),
                    "accuracy": 100 * (one["accuracy"] - base["accuracy"]),
                    "variables": 100 * one["n_selected"] / base["n_selected"],
                    "tests": 100 * one["tests"] / base["tests"],
                }
            ).reset_index()
        )
    return pd.concat(compared, ignore_index=True)


def differences(rows: pd.DataFrame, rival: str) -> pd.DataFrame:
    """Mean difference in AUC and accuracy between each configuration and a rival with the same variables' number.

    `rival` is 'limited' (LASSO-FS with as many variables) or 'plain' (logistic regression as the model).
    """
    selectors = rows[rows["algorithm"] != LASSO_FS]
    gaps = selectors[["dataset", *CONFIGURATION, "n_selected"]].assign(
        auc=100 * (selectors["auc"] - selectors[f"{rival}_auc"]),
        accuracy=100 * (selectors["accuracy"] - selectors[f"{rival}_accuracy"]),
    )
    return gaps.groupby(["dataset", *CONFIGURATION], sort=False).mean().reset_index()


def conclusions(rows: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Each conclusion of the paper with the number that decides it, and whether it holds here."""
    return pd.DataFrame(_conclusions(rows, np.random.default_rng(seed)))


SIMILAR = 1.0  # percentage points of AUC


def _conclusions(rows: pd.DataFrame, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    compared = against_fbs(rows)
    for algorithm in ("FBED^0", "FBED^1"):
        some = compared[compared["algorithm"] == algorithm]
        fewer = (some["variables"] <= 100).mean()
        yield _verdict(
            f"{algorithm} selects fewer variables than FBS",
            f"median {some['variables'].median():.0f} % of FBS's; at most as many in {fewer:.0%} of the settings",
            some["variables"].median() < 100,
        )
        low, high = median_interval(some, "auc", rng)
        yield _verdict(
            f"{algorithm} has an AUC similar to FBS",
            f"median difference {some['auc'].median():+.2f} points ({low:+.2f} to {high:+.2f})",
            low > -SIMILAR and high < SIMILAR,
        )
    for algorithm in list(ALGORITHMS)[:3]:
        share = compared.loc[compared["algorithm"] == algorithm, "tests"]
        orders = -np.log10(share / 100)
        extent = f"median {share.median():.1f} % of FBS's ({share.min():.1f} to {share.max():.0f} %)"
        if algorithm == "FBED^∞":
            yield _verdict("FBED^∞ performs about 25–30 % of FBS's tests", extent, 10 <= share.median() <= 50)
        else:
            claim = f"{algorithm} performs 1–2 orders of magnitude fewer tests than FBS"
            yield _verdict(claim, f"{extent}: {orders.median():.2f} orders", bool(0.8 <= orders.median() <= 2.2))
    limited = differences(rows, "limited")
    for criterion in ("IT", "EBIC"):
        some = limited[limited["criterion"] == criterion]
        low, high = median_interval(some, "auc", rng)
        yield _verdict(
            f"LASSO-FS limited to the same number of variables performs alike ({criterion})",
            f"median AUC of the selectors − LASSO-FS {some['auc'].median():+.2f} points ({low:+.2f} to {high:+.2f})",
            low > -SIMILAR and high < SIMILAR,
        )
    plain = differences(rows, "plain")
    yield _verdict(
        "LASSO-PM predicts at least as well as plain logistic regression",
        f"median AUC difference {plain['auc'].median():+.2f} points; as good in {(plain['auc'] >= 0).mean():.0%}",
        plain["auc"].median() >= 0,
    )
    table = spearman(rows).query("over == 'means'").set_index("metric")
    yield _verdict(
        "The more variables, the larger LASSO-PM's advantage",
        f"Spearman correlation {table.loc['auc', 'here']:.2f} (AUC), {table.loc['accuracy', 'here']:.2f} (accuracy)",
        bool((table["here"] > 0).all() and (table["p"] < 0.05).all()),
    )


def _verdict(claim: str, evidence: str, holds: bool) -> dict[str, Any]:
    return {"conclusion": claim, "evidence": evidence, "holds": "yes" if holds else "no"}


def median_interval(table: pd.DataFrame, column: str, rng: np.random.Generator) -> tuple[float, float]:
    """95 % bootstrap interval of a median; datasets are resampled, as settings on one of them depend on each other."""
    groups = [values.to_numpy() for _, values in table.groupby("dataset")[column]]
    draws = rng.integers(0, len(groups), (2000, len(groups)))
    low, high = np.quantile([np.median(np.concatenate([groups[i] for i in draw])) for draw in draws], [0.025, 0.975])
    return float(low), float(high)


def expected_order(table: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of the paper's tables."""
    values = [c.value for c in protocol.CONFIGURATIONS]
    labels = list(dict.fromkeys("def" if value is None else f"{value:g}" for value in values))
    places = {
        "algorithm": [*ALGORITHMS, LASSO_FS],
        "criterion": ["IT", "EBIC", ""],
        "value": [*labels, "100", "1000", ""],
        "dataset": paper.DATASETS,
        "metric": [*paper.METRICS, "seconds"],
    }
    return table.sort_values(
        [key for key in ("metric", "criterion", "value", "algorithm", "dataset") if key in table],
        key=lambda column: column.map({name: place for place, name in enumerate(places[column.name])}),
        ignore_index=True,
    )
