"""The data of the races: files in the format of the data folder, and problems with a known answer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

PAPER_SETS = ("madelon", "hiva", "arcene", "dexter", "dorothea")


@dataclass(frozen=True)
class Problem:
    """`X` is float64, Fortran-ordered or CSC, so that no contender has to convert it; `y` is 0 or 1."""

    name: str
    X: Any
    y: np.ndarray

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self.X))

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape


def paper_files() -> list[Path]:
    """The paper's sets that the folder FBED_DATA_DIR has."""
    folder = os.environ.get("FBED_DATA_DIR")
    files = [Path(folder) / "paper" / f"{name}.npz" for name in PAPER_SETS] if folder else []
    return [file for file in files if file.exists()]


def read(file: str | Path) -> Problem:
    """A set from an .npz file with `y` of two values and `X`, or the arrays of a CSC matrix."""
    with np.load(file, allow_pickle=False) as arrays:
        levels, y = np.unique(arrays["y"], return_inverse=True)
        dense = np.asfortranarray(arrays["X"], dtype=np.float64) if "X" in arrays.files else None
    if len(levels) != 2:
        raise SystemExit(f"{file}: these races are for outcomes of two values, y has {len(levels)}")
    X = sparse.load_npz(file).tocsc().astype(np.float64) if dense is None else dense
    return Problem(Path(file).stem, X, y.astype(np.float64))


def logistic(n: int, p: int, n_real: int, seed: int = 1, effect: float = 0.6, dtype: Any = np.float64) -> Problem:
    """Independent normal columns, of which the first `n_real` matter; the matrix is filled in place."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, p), dtype=dtype, order="F")
    for j in range(p):
        X[:, j] = rng.standard_normal(n, dtype=dtype)
    return Problem(f"{n}x{p}", X, _outcome(rng, X[:, :n_real].sum(axis=1), effect))


def sparse_logistic(n: int, p: int, stride: int, n_real: int, seed: int = 1, effect: float = 2.0) -> Problem:
    """CSC with one value in each `stride` rows of a column, of which the first `n_real` matter; filled in place."""
    rng = np.random.default_rng(seed)
    per_column = n // stride
    indices, data = np.empty((p, per_column), dtype=np.int32), np.empty((p, per_column))
    first = np.arange(per_column, dtype=np.int32) * stride
    for j in range(p):
        indices[j] = first + rng.integers(0, stride, per_column, dtype=np.int32)
        data[j] = 1.0 + rng.random(per_column)
    start = np.arange(p + 1, dtype=np.int32 if p * per_column < 2**31 else np.int64) * per_column
    X = sparse.csc_matrix((data.ravel(), indices.ravel(), start), shape=(n, p), copy=False)
    real = np.asarray(X[:, :n_real].sum(axis=1)).ravel()
    return Problem(f"{n}x{p}", X, _outcome(rng, real - real.mean(), effect))


def _outcome(rng: np.random.Generator, signal: np.ndarray, effect: float) -> np.ndarray:
    return (rng.random(len(signal)) < 1.0 / (1.0 + np.exp(-effect * signal))).astype(np.float64)
