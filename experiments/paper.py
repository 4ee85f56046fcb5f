"""The numbers that the paper prints."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

# In the order of its tables.
DATASETS = [
    "musk",
    "sylva",
    "madelon",
    "secom",
    "gina",
    "hiva",
    "gisette",
    "p53",
    "arcene",
    "nova",
    "dexter",
    "dorothea",
]
SPEARMAN = {"auc": 0.51, "accuracy": 0.22}
METRICS = {"auc": "AUC", "accuracy": "Accuracy", "variables": "Selected variables"}

_MARKS = {"b": "best", "i": "worst"}


def numbers() -> pd.DataFrame:
    """All its result tables: a row a printed number.

    `table` is 'tuned' or 'detail', `metric` one of auc, accuracy (both in percent), variables and seconds; `mark` says
    whether the number is bold (best) or italic (worst).
    """
    wide = pd.read_csv(Path(__file__).with_name("paper_numbers.csv"), dtype=str, keep_default_na=False)
    keys = ["table", "metric", "algorithm", "criterion", "value"]
    tidy = wide.melt(keys, DATASETS, "dataset", "printed")
    tidy["mark"] = tidy["printed"].str[-1].map(_MARKS).fillna("")
    tidy["paper"] = tidy.pop("printed").str.rstrip("bi").astype(float)
    return tidy


def ranking(datasets: list[str]) -> pd.DataFrame:
    """Average rank of each tuned method over some datasets, from the printed numbers."""
    tuned = numbers().query("table == 'tuned' and dataset in @datasets")
    return average_ranks(tuned.rename(columns={"paper": "mean"}))


def average_ranks(means: pd.DataFrame) -> pd.DataFrame:
    """`score`, the average rank over datasets, and `rank`, the rank of the score.

    High AUC and accuracy and few variables are good.
    """
    worth = means["mean"] * means["metric"].eq("variables").map({True: 1, False: -1})
    ranks = means.assign(score=worth.groupby([means["metric"], means["dataset"]]).rank())
    scores = ranks.groupby(["metric", "algorithm", "criterion"], sort=False)["score"].mean().reset_index()
    scores["rank"] = scores.groupby("metric")["score"].rank(method="min").astype(int)
    return scores
