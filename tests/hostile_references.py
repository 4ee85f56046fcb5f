"""Least values of −2·log-likelihood (and statistics of score tests) by brute force: no code of the library's own.

Every function takes columns with a constant, the outcome and its extras, weights among them as `weight`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, special

Extras = dict[str, Any]


def mixed_least(Z: np.ndarray, y: np.ndarray, cluster: np.ndarray) -> float:
    """Rows made independent for one ratio of variances after another, then least squares."""
    codes = np.unique(cluster, return_inverse=True)[1]
    size = np.bincount(codes)

    def means(rows: np.ndarray) -> np.ndarray:
        return np.array([np.bincount(codes, column) / size for column in rows.T]).T[codes]

    rows = np.column_stack([Z, y])
    between = means(rows)
    within = rows - between
    within -= means(within)

    def loss(log_ratio: float) -> float:
        ratio = np.exp(log_ratio)
        white = within + between / np.sqrt(1.0 + size * ratio)[codes, None]
        columns = white[:, :-1] / np.linalg.norm(white[:, :-1], axis=0)
        left = white[:, -1]
        for _ in range(2):
            left = left - columns @ np.linalg.lstsq(columns, left, rcond=1e-13)[0]
        return float(len(y) * np.log(left @ left / len(y)) + np.log1p(size * ratio).sum())

    grid = np.linspace(-12.0, 40.0, 105)
    values = [loss(s) for s in grid]
    best = int(np.argmin(values))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, 104)])
    found = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return min(float(found.fun), values[best], loss(-90.0))
