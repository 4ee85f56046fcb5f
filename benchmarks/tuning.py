"""Tuned selection against tuned lassos, on real sets: performance out of fold, number of variables, time.

    python -m benchmarks.tuning                 # all sets that are there
    python -m benchmarks.tuning colon ames      # some
    python -m benchmarks.tuning --repeats 5     # 5 × 5 outer folds (default: 1 × 5)

Every contender tunes itself inside each outer fold. Categories are expanded and numbers standardised for the lassos.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.preprocessing import StandardScaler

import fbed

SETS = {  # file, outcome, whether it has two classes
    "colon": ("extra/colon.npz", "y", True),
    "credit_g": ("extra/credit_g.parquet", "class", True),
    "madelon": ("paper/madelon.npz", "y", True),
    "riboflavin": ("extra/riboflavin.npz", "y", False),
    "ames": ("extra/ames.parquet", "Sale_Price", False),
}
Fitted = tuple[Callable[[pd.DataFrame], Any], int]


def load(name: str, folder: Path) -> tuple[pd.DataFrame, Any, bool]:
    """Predictors, outcome, and whether it has two classes."""
    file, target, classes = SETS[name]
    if file.endswith(".npz"):
        with np.load(folder / file) as kept:
            frame = pd.DataFrame(kept["X"], columns=[f"x{j}" for j in range(kept["X"].shape[1])])
            y = kept["y"]
    else:
        frame = pd.read_parquet(folder / file)
        y = frame.pop(target).to_numpy()
    return frame, (np.unique(y, return_inverse=True)[1] if classes else y.astype(float)), classes


def ours(choose: str) -> Callable[[pd.DataFrame, Any, bool], Fitted]:
    """fbed with a rule of choice."""

    def fit(X: pd.DataFrame, y: Any, classes: bool) -> Fitted:
        kind = fbed.FBEDClassifier if classes else fbed.FBEDRegressor
        model = kind(choose=choose, n_bootstraps=100, missing="indicator").fit(X.reset_index(drop=True), y)
        predict = (lambda new: model.predict_proba(new)[:, 1]) if classes else model.predict
        return predict, len(model.selected_)

    return fit


def lasso(X: pd.DataFrame, y: Any, classes: bool) -> Fitted:
    """scikit-learn's LassoCV, or LogisticRegressionCV with the L1 penalty."""
    wide = pd.get_dummies(X).astype(float)
    scaler = StandardScaler().fit(wide)
    if classes:
        model: Any = LogisticRegressionCV(l1_ratios=(1.0,), solver="saga", Cs=20, cv=5, max_iter=300)
    else:
        model = LassoCV(cv=5)
    model.fit(scaler.transform(wide), y)

    def predict(new: pd.DataFrame) -> Any:
        rows = scaler.transform(pd.get_dummies(new).reindex(columns=wide.columns, fill_value=0).astype(float))
        return model.predict_proba(rows)[:, 1] if classes else model.predict(rows)

    used = [wide.columns[j] for j in np.flatnonzero(np.ravel(model.coef_) != 0)]
    return predict, len({name if name in X else name.rsplit("_", 1)[0] for name in used})


CONTENDERS = {"fbed (min)": ours("min"), "fbed (1se)": ours("1se"), "lasso (scikit-learn)": lasso}


def race(name: str, folder: Path, repeats: int) -> list[str]:
    """A row a contender."""
    X, y, classes = load(name, folder)
    splitter = (RepeatedStratifiedKFold if classes else RepeatedKFold)(n_splits=5, n_repeats=repeats, random_state=0)
    lines = []
    for who, fit in CONTENDERS.items():
        scores, sizes, seconds = [], [], []
        for train, test in splitter.split(X, y):
            started = time.perf_counter()
            predict, size = fit(X.iloc[train], y[train], classes)
            seconds.append(time.perf_counter() - started)
            said = predict(X.iloc[test])
            scores.append(roc_auc_score(y[test], said) if classes else r2_score(y[test], said))
            sizes.append(size)
        error = np.std(scores, ddof=1) / np.sqrt(len(scores) / repeats)
        lines.append(
            f"| {name} | {who} | {np.mean(scores):.3f} ± {error:.3f} | {np.mean(sizes):.1f} | {np.mean(seconds):.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Race on the sets that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[[], *SETS], default=[])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--data", type=Path, default=os.environ.get("FBED_DATA_DIR"))
    options = parser.parse_args()
    if options.data is None:
        parser.error("set FBED_DATA_DIR or give --data")
    warnings.filterwarnings("ignore")
    print("| set | contender | AUC or R² | variables | seconds a fit |\n|---|---|--:|--:|--:|")
    for name in options.sets or SETS:
        race(name, Path(options.data), options.repeats)


if __name__ == "__main__":
    main()
