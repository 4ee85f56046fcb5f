"""Both engines agree on rows and columns of the paper's sets; all of them are compared by `benchmarks.exactness`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import fbed
from engine_cases import Case, trail_of
from problem_cases import read_problem
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
FAR_APART = """
9 860 1197 168 1110 1501 1264 804 433 663 682 828 473 999 148 972 460 488 316 904 313 1099 156 111 1072 1612
1607 849 435 1492 372 217 2 821 553 48 407 752 432 1310 1441 400 1321 64 611 1616 207 1102 83 257 380 267 1136
483 1396 1467 687 751 1193 1167 512 463 636 1610 1188 1550 950 734 1417 806 645 366 1339 482 470 506 1268 826
375 1239 1030 1140 559 1168 754 493 1238 558 1054 98 901 631 383 449 951 1147 716 827 964 458 1294 1157 508 359
223 367 1489 1481 1546 417 203 1296 1057 401 640 102 1263 948 365 373 1480 521 664 703 275 850 189 306 65 1412
573 27 81
"""  # columns of hiva that explain all rows but two equal ones, some of them a hundred thousand times later than others
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


def test_rows_that_are_explained_long_after_others():
    """Newton's steps do not find the way, which is there; nobody is warned of a fit that did not end."""
    path = FOLDER / "hiva.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the folder that FBED_DATA_DIR names")
    file = np.load(path)
    columns = list(map(int, FAR_APART.split()))
    model = read_problem(file["X"][:, columns].astype(float), file["y"].astype(float), ()).model
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        fit = model.fit(range(len(columns)))
    assert fit.deviance == pytest.approx(4.0 * np.log(2.0), rel=1e-9)
