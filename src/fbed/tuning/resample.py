"""Bootstrap samples as weightings: how often each row is drawn. Rows of a group are drawn together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fbed.rules.p_values import Floats
from fbed.tuning.folds import Rows

_CHUNK = 2**22  # values of weights that are held at once


def resampled(n_rows: int, units: Rows | None, n_samples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How often each row is drawn, samples × rows, in chunks; `units` are the groups of the rows."""
    owner = np.arange(n_rows) if units is None else np.unique(units, return_inverse=True)[1]
    n_units = int(owner.max(initial=-1)) + 1
    step = max(1, _CHUNK // max(1, n_rows))
    for start in range(0, n_samples, step):
        drawn = np.stack([_drawn(n_units, rng) for _ in range(min(step, n_samples - start))])
        yield drawn if units is None else drawn[:, owner]


def _drawn(n: int, rng: np.random.Generator) -> Floats:
    """How often each of n is among n that are drawn with replacement."""
    return np.bincount(rng.integers(0, max(1, n), size=n), minlength=n).astype(np.float64)
