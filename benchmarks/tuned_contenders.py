"""Contenders that tune themselves by cross-validation: ours, scikit-learn's lassos, abess, and cv.glmnet of R.

Each is given the training rows, and says what the other rows will be, how many variables it uses, and the processor
seconds it took. Categories are expanded and numbers standardised for those who need it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tuned_sets import TunedSet

SCRIPT = Path(__file__).parent / "cv_glmnet.R"
_WIDE_LASSO = 2_000_000  # values up to which scikit-learn's logistic lasso is tried: it takes minutes a fit beyond


class Told(NamedTuple):
    """What a contender says of the rows of one fold."""

    said: np.ndarray
    variables: int
    seconds: float


def ours(problem: TunedSet, train: np.ndarray, test: np.ndarray, **options: Any) -> Told:
    """fbed, as it comes or with options."""
    import fbed

    kinds = {"gaussian": fbed.FBEDRegressor, "poisson": fbed.FBEDRegressor, "cox": fbed.FBEDCox}
    y = problem.y[train]
    outcome = (y[:, 0], y[:, 1] > 0) if problem.family == "cox" else y
    rows, new = (problem.frame.iloc[part].reset_index(drop=True) for part in (train, test))
    kind = kinds.get(problem.family, fbed.FBEDClassifier)
    started = time.process_time()
    model = kind(family=problem.family, unseen="mean", **options).fit(rows, outcome)
    seconds = time.process_time() - started
    if problem.family in ("gaussian", "poisson", "cox"):
        said = model.predict(new)
    else:
        said = model.predict_proba(new)
        said = said[:, 1] if problem.family == "binomial" else said
        said = said @ np.arange(said.shape[1]) if problem.family == "ordinal" else said
    return Told(said, len(model.selected_), seconds)


def by_both_rules(problem: TunedSet, train: np.ndarray, test: np.ndarray) -> dict[str, Told]:
    """fbed as it comes, and by the one-standard-error rule, which looks at the same folds."""
    with tempfile.TemporaryDirectory() as place:
        folds = Path(place) / "folds.npz"
        best = ours(problem, train, test, resume=folds)
        few = ours(problem, train, test, resume=folds, choose="1se")
    return {"fbed": best, "fbed, 1se": few._replace(seconds=best.seconds)}


def _standardised(problem: TunedSet, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    wide, owners = problem.wide()
    varying = np.ptp(wide[train], axis=0) > 0
    wide = wide[:, varying]
    center, scale = wide[train].mean(axis=0), wide[train].std(axis=0)
    kept = [owner for owner, there in zip(owners, varying, strict=True) if there]
    return (wide[train] - center) / scale, (wide[test] - center) / scale, kept


def _used(coefficients: Any, owners: list[str]) -> int:
    nonzero = (np.atleast_2d(coefficients) != 0).any(axis=0)
    return len({owner for owner, there in zip(owners, nonzero, strict=True) if there})


def scikit_learn(problem: TunedSet, train: np.ndarray, test: np.ndarray) -> Told:
    """LassoCV, or LogisticRegressionCV with an L1 penalty by liblinear."""
    from sklearn.linear_model import LassoCV, LogisticRegressionCV

    rows, new, owners = _standardised(problem, train, test)
    if problem.family == "gaussian":
        model: Any = LassoCV(cv=5)
    else:
        model = LogisticRegressionCV(
            l1_ratios=(1.0,), solver="liblinear", Cs=20, cv=5, scoring="neg_log_loss", use_legacy_attributes=False
        )
    started = time.process_time()
    model.fit(rows, problem.y[train])
    seconds = time.process_time() - started
    said = model.predict(new) if problem.family == "gaussian" else model.predict_proba(new)[:, 1]
    return Told(said, _used(model.coef_, owners), seconds)


def with_abess(problem: TunedSet, train: np.ndarray, test: np.ndarray) -> Told:
    """Best subset selection by splicing, its size by 5-fold cross-validation."""
    import abess

    kinds = {
        "gaussian": abess.LinearRegression,
        "binomial": abess.LogisticRegression,
        "multinomial": abess.MultinomialRegression,
        "ordinal": abess.OrdinalRegression,
        "poisson": abess.PoissonRegression,
        "cox": abess.CoxPHSurvivalAnalysis,
    }
    rows, new, owners = _standardised(problem, train, test)
    model = kinds[problem.family](cv=5, path_type="seq")
    started = time.process_time()
    model.fit(rows, problem.y[train])
    seconds = time.process_time() - started
    said = model.predict_proba(new) if problem.family in ("binomial", "multinomial", "ordinal") else model.predict(new)
    said = said[:, 1] if problem.family == "binomial" else said
    said = said @ np.arange(said.shape[1]) if problem.family == "ordinal" else said
    coefficients = model.coef_.T if np.ndim(model.coef_) == 2 else model.coef_
    return Told(np.asarray(said), _used(coefficients, owners), seconds)


One = Callable[[TunedSet, np.ndarray, np.ndarray], dict[str, Told]]
CONTENDERS: dict[str, One] = {
    "fbed": by_both_rules,
    "fbed, ml": lambda *fold: {"fbed, ml": ours(*fold, final="ml")},
    "scikit-learn lasso": lambda *fold: {"scikit-learn lasso": scikit_learn(*fold)},
    "abess": lambda *fold: {"abess": with_abess(*fold)},
}
RULES = ("lambda.min", "lambda.1se")
PEERS = ("scikit-learn lasso", "abess", *(f"cv.glmnet, {rule}" for rule in RULES))


def able(name: str, problem: TunedSet) -> bool:
    """Whether a contender has such outcomes, and is done in a time that a person waits."""
    if name == "abess" and (importlib.util.find_spec("abess") is None or problem.name == "toy"):
        return False
    if name == "scikit-learn lasso":
        wide = problem.wide()[0].size <= _WIDE_LASSO
        return problem.family == "gaussian" or (problem.family == "binomial" and wide)
    return True


def _above_zero(problem: TunedSet) -> np.ndarray:
    """The outcome; glmnet takes no times of 0."""
    y = problem.y.astype(np.float64)
    if problem.family == "cox":
        y[:, 0] = np.maximum(y[:, 0], y[y[:, 0] > 0, 0].min() / 2.0)
    return y


def cv_glmnet(problem: TunedSet, folds: Iterable[np.ndarray]) -> dict[str, list[Told]]:
    """All folds in one process of R, by both rules."""
    if problem.family == "ordinal":
        return {}
    wide, owners = problem.wide()
    tests = [np.isin(np.arange(len(wide)), test).astype(np.float64) for test in folds]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.asfortranarray(wide).T.tofile(folder / "X.bin")
        np.asfortranarray(_above_zero(problem)).T.tofile(folder / "y.bin")
        np.array(tests).tofile(folder / "folds.bin")
        sizes = map(str, (*wide.shape, len(tests)))
        subprocess.run(["Rscript", str(SCRIPT), place, problem.family, *sizes], check=True, capture_output=True)
        lines = [line.split("\t") for line in (folder / "told.txt").read_text().splitlines()]
        said = np.fromfile(folder / "said.bin")
    out: dict[str, list[Told]] = {f"cv.glmnet, {rule}": [] for rule in RULES}
    n_classes = int(problem.y.max()) + 1 if problem.family == "multinomial" else 1
    for fold, rule, seconds, used in lines:
        size = int(tests[int(fold) - 1].sum()) * n_classes
        mine, said = said[:size], said[size:]
        mine = mine.reshape(n_classes, -1).T if n_classes > 1 else mine
        variables = len({owners[int(j) - 1] for j in used.split(",") if j})
        out[f"cv.glmnet, {rule}"].append(Told(mine, variables, float(seconds)))
    return out
