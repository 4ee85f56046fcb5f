"""The paper's section 4: one repetition of split, selection, model, choice and test.

Every repetition splits the rows 60/20/20 by class. Each configuration (algorithm, criterion, hyper-parameter) selects
on the training rows; L1-penalised logistic regression on what it selected (LASSO-PM) is tried with up to 1000 λ, and
the validation rows choose λ, and later the hyper-parameter, by their deviance. What was chosen is then done again on
training and validation rows together: selection, model, prediction of the test rows. The test rows are used for
nothing else.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

import fbed
from experiments import lasso

LASSO_FS = "LASSO-FS"
ALGORITHMS: dict[str, float | None] = {"FBED^0": 0, "FBED^1": 1, "FBED^∞": math.inf, "FBS": None}
ALPHAS = (0.001, 0.01, 0.05, 0.1)
GAMMAS = (None, 1.0, 0.5, 0.0)


class Configuration(NamedTuple):
    """A selector with its hyper-parameter; `value` is α of an independence test (IT) or γ of EBIC (None: default)."""

    algorithm: str
    criterion: str
    value: float | None

    @property
    def text(self) -> str:
        """The hyper-parameter as in the paper's tables."""
        return "def" if self.value is None else f"{self.value:g}"

    def find(self, grid: fbed.PathResult) -> fbed.Result:
        """The result of this configuration in a whole grid of them."""
        parameter = {"alpha": self.value} if self.criterion == "IT" else {"gamma": self.value}
        return grid.get(k=ALGORITHMS[self.algorithm], **parameter)


# Strict values come first: where two values do equally well on the validation rows, the first is chosen.
CONFIGURATIONS = [
    Configuration(algorithm, criterion, value)
    for criterion, values in (("IT", ALPHAS), ("EBIC", GAMMAS))
    for value in values
    for algorithm in ALGORITHMS
]


@dataclass(frozen=True)
class Effort:
    """How fine the λ grids are."""

    n_lambda: int = 1000
    n_lambda_limited: int = 10_000


FULL = Effort()
QUICK = Effort(n_lambda=100, n_lambda_limited=1000)


class Split(NamedTuple):
    """Row numbers of the three parts."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


class Choice(NamedTuple):
    """What one selection found, and what it cost."""

    selected: tuple[int, ...]
    tests: int
    status: str


class Model(NamedTuple):
    """The best model on the validation rows, and the λ that lead to it."""

    deviance: float
    lambdas: np.ndarray


class Cell(NamedTuple):
    """The results of one repetition: a row a configuration, and the test rows' scores behind its AUC."""

    rows: list[dict[str, Any]]
    labels: np.ndarray
    scores: np.ndarray


def split_rows(y: np.ndarray, name: str, repetition: int, seed: int) -> Split:
    """A stratified 60/20/20 split that depends on nothing but its arguments."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), repetition])
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in (0, 1):
        rows = rng.permutation(np.flatnonzero(y == label))
        fifth = round(len(rows) / 5)
        for part, some in zip(parts, np.split(rows, [len(rows) - 2 * fifth, len(rows) - fifth]), strict=True):
            part.append(some)
    return Split(*(np.sort(np.concatenate(part)) for part in parts))


class Fitting:
    """Rows to fit on and rows to predict: what is learnt from the first, here the mean for missing values, too."""

    def __init__(self, X: Any, y: np.ndarray, fit: np.ndarray, predict: np.ndarray) -> None:
        self.y, self.y_new = y[fit], y[predict]
        self.X, self.X_new = _without_missing(X[fit], X[predict])
        self._models: dict[tuple[int, ...], Model] = {}
        self._scores: dict[tuple[tuple[int, ...], float], tuple[np.ndarray, int]] = {}
        self._plain: dict[tuple[int, ...], np.ndarray] = {}

    def select(self) -> dict[Configuration, Choice]:
        """Run every selector on the rows to fit on."""
        grid = fbed.path(self.X, self.y, family="binomial", alphas=ALPHAS, gammas=GAMMAS)
        found = {configuration: configuration.find(grid) for configuration in CONFIGURATIONS}
        return {c: Choice(tuple(sorted(r.selected)), r.n_tests.total, r.status) for c, r in found.items()}

    def limited(self, sizes: set[int], n_lambda: int) -> dict[int, tuple[int, ...]]:
        """The variables of the first models of the lasso that have so many."""
        path = lasso.fit_path(self.X, self.y, n_lambda, enough_variables=max(1, *sizes))
        return {size: path.first_with(size) if size else () for size in sizes}

    def best_model(self, selected: tuple[int, ...], n_lambda: int) -> Model:
        """LASSO-PM whose λ does best on the rows to predict."""
        if selected not in self._models:
            self._models[selected] = self._best(_dense(self.X, selected), _dense(self.X_new, selected), n_lambda)
        return self._models[selected]

    def best_lasso(self, n_lambda: int) -> Model:
        """LASSO-FS: the same with all variables."""
        return self._best(self.X, self.X_new, n_lambda)

    def _best(self, X: Any, X_new: Any, n_lambda: int) -> Model:
        path = lasso.fit_path(X, self.y, n_lambda)
        deviances = deviance(self.y_new, path.scores(X_new))
        best = int(np.argmin(deviances))
        return Model(float(deviances[best]), path.lambdas[: best + 1])

    def scores(self, selected: tuple[int, ...], lambdas: np.ndarray) -> tuple[np.ndarray, int]:
        """Scores of the rows to predict by LASSO-PM with the last of the λ, and its number of variables."""
        key = (selected, float(lambdas[-1]))
        if key not in self._scores:
            self._scores[key] = self._last(_dense(self.X, selected), _dense(self.X_new, selected), lambdas)
        return self._scores[key]

    def lasso_scores(self, lambdas: np.ndarray) -> tuple[np.ndarray, int]:
        """The same with all variables."""
        return self._last(self.X, self.X_new, lambdas)

    def _last(self, X: Any, X_new: Any, lambdas: np.ndarray) -> tuple[np.ndarray, int]:
        # The larger λ before it are the warm starts that glmnet recommends.
        path = lasso.fit_path(X, self.y, len(lambdas), lambdas=lambdas)
        return path.scores(X_new)[:, -1], int(path.sizes[-1])

    def plain_scores(self, selected: tuple[int, ...]) -> np.ndarray:
        """Scores of the rows to predict by logistic regression without a penalty."""
        if selected not in self._plain:
            coefficients = fit_logistic(_dense(self.X, selected), self.y)
            self._plain[selected] = coefficients[0] + _dense(self.X_new, selected) @ coefficients[1:]
        return self._plain[selected]


def repeat_once(X: Any, y: np.ndarray, name: str, repetition: int, seed: int = 0, effort: Effort = FULL) -> Cell:
    """One repetition on one dataset: all configurations and LASSO-FS."""
    split = split_rows(y, name, repetition, seed)
    tuning = Fitting(X, y, split.train, split.valid)
    final = Fitting(X, y, np.union1d(split.train, split.valid), split.test)
    first, again = tuning.select(), final.select()
    first_limited = tuning.limited({len(c.selected) for c in first.values()}, effort.n_lambda_limited)
    again_limited = final.limited({len(c.selected) for c in again.values()}, effort.n_lambda_limited)
    rows, scores = [], []
    for configuration in CONFIGURATIONS:
        before, after = first[configuration], again[configuration]
        model = tuning.best_model(before.selected, effort.n_lambda)
        predicted, n_nonzero = final.scores(after.selected, model.lambdas)
        rival = tuning.best_model(first_limited[len(before.selected)], effort.n_lambda)
        limited = again_limited[len(after.selected)]
        rival_predicted, _ = final.scores(limited, rival.lambdas)
        rows.append(
            {
                "dataset": name,
                "repetition": repetition,
                **configuration._asdict(),
                "n_train": len(before.selected),
                "tests_train": before.tests,
                "valid_deviance": model.deviance,
                "lambda": float(model.lambdas[-1]),
                "n_selected": len(after.selected),
                "n_nonzero": n_nonzero,
                "tests": after.tests,
                "status": after.status,
                "selected": list(after.selected),
                **_performance(final.y_new, predicted),
                **_performance(final.y_new, final.plain_scores(after.selected), "plain_"),
                "n_limited": len(limited),
                **_performance(final.y_new, rival_predicted, "limited_"),
            }
        )
        scores.append(predicted)
    model = tuning.best_lasso(effort.n_lambda)
    predicted, n_nonzero = final.lasso_scores(model.lambdas)
    rows.append(
        {
            "dataset": name,
            "repetition": repetition,
            "algorithm": LASSO_FS,
            "valid_deviance": model.deviance,
            "lambda": float(model.lambdas[-1]),
            "n_selected": n_nonzero,
            "n_nonzero": n_nonzero,
            **_performance(final.y_new, predicted),
        }
    )
    return Cell(rows, final.y_new, np.array([*scores, predicted]))


def deviance(y: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Deviance of each column of linear predictors."""
    signs = np.where(y == 1, -1.0, 1.0)
    return 2 * np.logaddexp(0, signs[:, None] * scores).sum(axis=0)


def auc(y: np.ndarray, scores: np.ndarray) -> float:
    """Area under the ROC curve; a tie counts half."""
    positive = y == 1
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    ranks = rankdata(scores)[positive].sum()
    return float((ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def accuracy(y: np.ndarray, scores: np.ndarray) -> float:
    """Share of rows on the right side of probability ½."""
    return float(((scores > 0) == (y == 1)).mean())


def _performance(y: np.ndarray, scores: np.ndarray, prefix: str = "") -> dict[str, float]:
    return {f"{prefix}auc": auc(y, scores), f"{prefix}accuracy": accuracy(y, scores)}


def fit_logistic(X: np.ndarray, y: np.ndarray, most_steps: int = 25, tolerance: float = 1e-8) -> np.ndarray:
    """Intercept and coefficients of logistic regression by Newton steps.

    They have no limit where the classes are separated; like other programs this one then stops after 25 steps.
    """
    spread = X.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    mean = X.mean(axis=0)
    design = np.column_stack([np.ones(len(y)), (X - mean) / scale])
    beta = np.zeros(design.shape[1])
    before = math.inf
    for _ in range(most_steps):
        eta = design @ beta
        now = float(deviance(y, eta[:, None])[0])
        if before - now <= tolerance * (abs(now) + 0.1):
            break
        before = now
        fitted = 1 / (1 + np.exp(-np.clip(eta, -30, 30)))
        root = np.sqrt(fitted * (1 - fitted))
        beta = beta + np.linalg.lstsq(design * root[:, None], (y - fitted) / root, rcond=1e-12)[0]
    slopes = beta[1:] / scale
    return np.concatenate([[beta[0] - slopes @ mean], slopes])


def _dense(X: Any, columns: tuple[int, ...]) -> np.ndarray:
    chosen = X[:, list(columns)]
    return np.asarray(chosen.toarray() if sp.issparse(chosen) else chosen, dtype=np.float64)


def _without_missing(X: Any, X_new: Any) -> tuple[Any, Any]:
    """Missing values become the column's mean in the rows to fit on; a column without any value becomes 0."""
    if sp.issparse(X) or not np.issubdtype(X.dtype, np.floating):
        return X, X_new
    known = ~np.isnan(X)
    if known.all() and not np.isnan(X_new).any():
        return X, X_new
    means = np.where(known, X, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, X, means), np.where(np.isnan(X_new), means, X_new)
