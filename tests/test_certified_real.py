"""Both engines agree on rows and columns of the paper's sets; all of them are compared by `benchmarks.exactness`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import fbed
from engine_cases import Case, trail_of
from test_certified import assert_same

FOLDER = Path(os.environ.get("FBED_DATA_DIR", "")) / "paper"
pytestmark = pytest.mark.skipif(
    "FBED_DATA_DIR" not in os.environ or not FOLDER.is_dir(), reason="FBED_DATA_DIR does not name the folder of data"
)

ROWS_AND_COLUMNS = {
    "madelon": (500, 60),
    "hiva": (600, 80),
    "arcene": (200, 120),
    "dexter": (200, 120),
    "dorothea": (250, 100),
}
SEARCHES = {
    "FBED^1, LR 0.05": (fbed.LikelihoodRatio(0.05), {"k": 1}),
    "FBED^inf, EBIC": (fbed.EBIC(), {"k": np.inf}),
    "FBS, LR 0.01": (fbed.LikelihoodRatio(0.01), {"early_dropping": False}),
}


def part_of(name, seed):
    """Random rows with both classes, and columns: half of them those that vary most with the outcome."""
    n_rows, n_columns = ROWS_AND_COLUMNS[name]
    path = FOLDER / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the folder that FBED_DATA_DIR names")
    file = np.load(path)
    X = sparse.csc_array(sparse.load_npz(path)) if "indptr" in file else file["X"]
    rng = np.random.default_rng([31, seed])
    rows = np.sort(rng.permutation(X.shape[0])[:n_rows])
    X, y = X[rows], file["y"][rows].astype(float)
    score = np.abs(np.asarray((y - y.mean()) @ X).ravel()) / np.sqrt(np.asarray((X != 0).sum(axis=0)).ravel() + 1.0)
    best = np.argsort(-score)[: n_columns // 2]
    others = rng.permutation(np.setdiff1d(np.arange(X.shape[1]), best))[: n_columns - len(best)]
    return Case(X[:, np.sort(np.concatenate([best, others]))], y)


@pytest.mark.parametrize("name", ROWS_AND_COLUMNS)
@pytest.mark.parametrize("search", SEARCHES)
def test_equals_exhaustive(name, search):
    criterion, algorithm = SEARCHES[search]
    case = part_of(name, list(SEARCHES).index(search))
    exhaustive, certified = (trail_of(case, "binomial", criterion, e, **algorithm) for e in ("exhaustive", "certified"))
    assert_same(exhaustive, certified)
    assert certified.selected
