"""The same table in memory and elsewhere, and what two results must have in common."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from engine_cases import ALGORITHMS, CRITERIA, KINDS, of_another_family

STORAGES = ("parquet", "several files", "by rows", "by columns", "lazy", "dataset")
LIMIT = "4GB"


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def case_of(kind, family, seed):
    """A random data set of a kind, and the options of a search on it."""
    number = KINDS.index(kind)
    rng = np.random.default_rng([31, number, seed, len(family)])
    case = of_another_family(kind(rng, "gaussian"), rng, "poisson") if family == "poisson" else kind(rng, family)
    options = {
        "family": family,
        "criterion": CRITERIA[(number + seed) % len(CRITERIA)],
        **ALGORITHMS[(2 * number + seed) % len(ALGORITHMS)],
        "max_features": 5,
        "sample_weight": case.weights,
        "include": case.forced,
    }
    if seed % 2 and case.weights is None and family != "gaussian":
        options["offset"] = 0.3 * rng.normal(size=len(case.y))
    return dense(case.X), case.y, options, rng


def as_frame(X):
    if isinstance(X, Mapping):
        return pd.DataFrame(X)
    return pd.DataFrame(np.asarray(X), columns=[f"x{j}" for j in range(np.shape(X)[1])])


def stored(X, storage, folder, rows):
    """The table elsewhere, in parts of so many rows."""
    if storage in ("by rows", "by columns") and not isinstance(X, Mapping):
        X = np.asarray(X)
        order = "C" if storage == "by rows" else "F"
        mapped = np.memmap(folder / "matrix", dtype=X.dtype, mode="w+", shape=X.shape, order=order)
        mapped[:] = X
        return mapped
    frame = as_frame(X)
    if storage == "several files":
        for i, start in enumerate(range(0, len(frame), 2 * rows)):
            frame[start : start + 2 * rows].to_parquet(folder / f"part{i:04d}.parquet", row_group_size=rows)
        return str(folder / "*.parquet")
    frame.to_parquet(folder / "table.parquet", row_group_size=rows)
    if storage == "lazy":
        return pytest.importorskip("polars").scan_parquet(folder / "table.parquet")
    if storage == "dataset":
        return pytest.importorskip("pyarrow.dataset").dataset(folder / "table.parquet")
    return folder / "table.parquet"


def assert_same_answer(one: fbed.Result, other: fbed.Result, digits: float = 1e-9) -> None:
    """Selection, order, number of tests, statistics, model."""
    assert list(one.indices) == list(other.indices)
    assert one.n_tests == other.n_tests
    assert one.status == other.status
    assert one.n_rows == other.n_rows
    assert one.n == pytest.approx(other.n, rel=1e-14)  # weights that are not whole, added in another order
    assert len(one.trace) == len(other.trace)
    for a, b in zip(one.trace, other.trace, strict=True):
        assert (a.phase, a.run, a.action, a.variable, a.df) == (b.phase, b.run, b.action, b.variable, b.df)
        assert a.dropped.tolist() == b.dropped.tolist()
        if a.statistic is not None:
            assert b.statistic == pytest.approx(a.statistic, rel=digits, abs=digits)
    assert one.notes == other.notes
    assert one.classes == other.classes
