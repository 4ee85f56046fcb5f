"""L1-penalised logistic regression by glmnet: the regularisation path, and predictions along it.

glmnet's own Fortran routines are called (through `python-glmnet`), because its scikit-learn front end keeps every
coefficient of every model: p × λ numbers, 8 GB for 10,000 λ of dorothea. Here a path holds the variables that ever
entered. All of glmnet's parameters have their default values but the number of λ and the limit on the number of sweeps,
which counts over the whole path and is meant for 100 λ. Where that limit is reached the path ends, as in R.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

TOLERANCE = 1e-7
MOST_SWEEPS = 1_000_000
TOO_MANY_VARIABLES = -10_000  # glmnet's error code; the λ at which it happened is subtracted from it


class GlmnetFailure(RuntimeError):
    """glmnet refused the data or did not converge."""


@dataclass(frozen=True)
class Path:
    """Models for falling λ: `coefficients[i, l]` belongs to the variable `variables[i]` in model l."""

    lambdas: np.ndarray
    intercepts: np.ndarray
    variables: np.ndarray
    coefficients: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of variables of each model."""
        return (self.coefficients != 0).sum(axis=0)

    def selected(self, model: int) -> tuple[int, ...]:
        """Variables of one model."""
        return tuple(sorted(int(j) for j in self.variables[self.coefficients[:, model] != 0]))

    def scores(self, X: Any) -> np.ndarray:
        """Linear predictors of all models: rows × λ."""
        columns = X[:, self.variables]
        columns = columns.toarray() if sp.issparse(columns) else columns
        return columns.astype(np.float64) @ self.coefficients + self.intercepts

    def first_with(self, n_variables: int) -> tuple[int, ...]:
        """Variables of the first model with at least so many; of the last one where none has."""
        reached = np.flatnonzero(self.sizes >= n_variables)
        return self.selected(int(reached[0]) if len(reached) else len(self.lambdas) - 1)


def fit_path(
    X: Any, y: np.ndarray, n_lambda: int, lambdas: np.ndarray | None = None, enough_variables: int | None = None
) -> Path:
    """glmnet's path on (X, y): at most `n_lambda` models, or one for each of the given `lambdas`.

    The path ends with the first model of `enough_variables`, where that is given.
    """
    if X.shape[1] == 0:
        return _intercept_only(y, lambdas)
    room = min(X.shape[1], 1000 if enough_variables is None else 500 + 10 * enough_variables)
    while True:
        path = _call(X, y, n_lambda, lambdas, enough_variables, room)
        if path is not None:
            return path
        room = min(X.shape[1], 2 * room)


def _intercept_only(y: np.ndarray, lambdas: np.ndarray | None) -> Path:
    mean = y.mean()
    lambdas = np.zeros(1) if lambdas is None else lambdas
    intercepts = np.full(len(lambdas), np.log(mean / (1 - mean)))
    return Path(lambdas, intercepts, np.empty(0, dtype=np.intp), np.empty((0, len(lambdas))))


def _call(
    X: Any, y: np.ndarray, n_lambda: int, lambdas: np.ndarray | None, enough: int | None, room: int
) -> Path | None:
    """One call of the Fortran routine; None when more than `room` variables entered."""
    from glmnet.logistic import lognet, splognet

    n, p = X.shape
    classes = np.asfortranarray(np.column_stack([y == 1, y == 0]), dtype=np.float64)
    limits = np.empty((2, p), order="F")
    limits[0], limits[1] = -np.inf, np.inf
    options = {
        "parm": 1.0,  # the elastic net's mixing parameter: 1 is the lasso
        "nc": 1,
        "y": classes,
        "g": np.zeros((n, 2), order="F"),
        "jd": 0,
        "vp": np.ones(p),
        "cl": limits,
        "ne": p + 1 if enough is None else enough - 1,  # the path ends after the first model with more than this
        "nx": room,
        "flmin": (1e-4 if n >= p else 1e-2) if lambdas is None else 1.0,
        "ulam": np.zeros(n_lambda) if lambdas is None else np.asarray(lambdas, dtype=np.float64),
        "thr": TOLERANCE,
        "maxit": MOST_SWEEPS,
    }
    if sp.issparse(X):
        columns = sp.csc_matrix(X, dtype=np.float64, copy=True)
        storage = {"x": columns.data, "ix": columns.indptr + 1, "jx": columns.indices + 1, "no": n, "ni": p}
        found = splognet(**storage, **options)
    else:
        found = lognet(x=np.array(X, dtype=np.float64, order="F"), **options)
    return _read(found, given=lambdas is not None)


def _read(found: tuple[Any, ...], given: bool) -> Path | None:
    n_models, intercepts, coefficients, variables, ever, _, _, lambdas, _, error = found
    if error < TOO_MANY_VARIABLES:
        return None
    if error > 0 or n_models == 0:
        raise GlmnetFailure(f"glmnet stopped with code {error} (see the description of jerr in its documentation)")
    entered = int(ever[:n_models].max(initial=0))
    lambdas = lambdas[:n_models].copy()
    if not given and n_models > 2:  # glmnet says 'infinity' for the first; what it means is the next step up
        lambdas[0] = lambdas[1] ** 2 / lambdas[2]
    return Path(
        lambdas,
        intercepts[0, :n_models].copy(),
        variables[:entered].astype(np.intp) - 1,
        coefficients[:entered, 0, :n_models].copy(),
    )
