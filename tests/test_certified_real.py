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
2 9 27 48 64 65 81 83 98 102 111 148 156 168 189 203 207 217 223 257 267 275 306 313 316 359 365 366 367 372 373
375 380 383 400 401 407 417 432 433 435 449 458 460 463 470 473 482 483 488 493 506 508 512 521 553 558 559 573
611 631 636 640 645 663 664 682 687 703 716 734 751 752 754 804 806 821 826 827 828 849 850 860 901 904 948 950
951 964 972 999 1030 1054 1057 1072 1099 1102 1110 1136 1140 1147 1157 1167 1168 1188 1193 1197 1238 1239 1263
1264 1268 1294 1296 1310 1321 1339 1396 1412 1417 1441 1467 1480 1481 1489 1492 1501 1546 1550 1607 1610 1612
1616
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
