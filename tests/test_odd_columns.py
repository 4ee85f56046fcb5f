"""Columns and outcomes in odd storage and of odd sizes: read as what they are, or refused in words."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import fbed
from fbed.tables.outcomes import read_outcome
from fbed.tables.table import read_table

N = 60
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 3))
Y = 2 * X[:, 1] + RNG.normal(size=N)
RANKS = np.argsort(np.argsort(X[:, 1]))


def refused(match, *args, **options):
    with pytest.raises(fbed.InvalidInput, match=match):
        fbed.select(*args, **options)


def same_steps(found, expected):
    assert found.selected == expected.selected
    assert [step.statistic for step in found.trace] == pytest.approx([step.statistic for step in expected.trace])


@pytest.mark.parametrize("fill", [0.0, 1.0, np.nan])
def test_sparse_columns_of_pandas(fill):
    counts = np.digitize(X, [-1.0, 0.0, 1.0]).astype(float)
    stored = pd.DataFrame(counts, columns=list("abc")).astype(pd.SparseDtype(float, fill))
    same_steps(fbed.select(stored, Y), fbed.select(pd.DataFrame(counts, columns=list("abc")), Y))
    dummies = pd.get_dummies(pd.Series(np.where(X[:, 1] > 0, "u", "v")), sparse=True)
    assert fbed.select(dummies, Y).selected == ("u",)


def test_a_type_that_is_not_known_has_its_name_in_the_error():
    refused("column 'a' holds complex128", pd.DataFrame({"a": X[:, 0] + 1j, "b": X[:, 1]}), Y)
    refused(r"column 'a' holds period\[D\]", pd.DataFrame({"a": pd.period_range("2020", periods=N)}), Y)
    months = pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval())
    refused("column 'a' holds month_day_nano_interval", pa.table({"a": months}), Y)


@pytest.mark.parametrize("table", [pl.DataFrame, pa.table])
def test_a_column_of_no_type_is_missing_everywhere(table):
    data = table({"empty": [None] * N, "b": X[:, 1]})
    refused(r"missing values in 1 column: empty \(60\)", data, Y)
    assert fbed.select(data, Y, missing="indicator").selected == ("b",)


def test_masked_values_are_refused_wherever_they_are():
    masked = np.ma.masked_array(X[:, 1], X[:, 1] > 0)
    refused("column 'b' is a masked array", {"a": X[:, 0], "b": masked}, Y)
    refused("column 'y' is a masked array", {"a": X[:, 0], "y": masked}, "y")
    refused("offset is a masked array", X, Y, offset=masked)
    model = fbed.select(X, Y).model
    with pytest.raises(fbed.InvalidInput, match="X is a masked array"):
        model.predict(np.ma.masked_array(X, X > 0))


def test_series_in_a_mapping_stay_what_they_are():
    grade = pd.Series(pd.Categorical(["high", "low", "middle"] * 20, ["low", "middle", "high"], ordered=True))
    assert fbed.select({"a": X[:, 0], "y": grade}, "y").family == "ordinal"
    assert read_table({"grade": grade}).factors[0].levels == ("low", "middle", "high")


def test_decimals_are_numbers_in_an_outcome_too():
    decimals = [Decimal(str(round(value, 1))) for value in Y]
    expected = fbed.select(X, np.round(Y, 1))
    for y in (decimals, pl.Series(decimals), pa.array(decimals)):
        same_steps(fbed.select(X, y), expected)


def test_whole_numbers_beyond_64_bits():
    large = np.array([10**30 * int(rank + 1) for rank in RANKS], dtype=object)
    assert fbed.select({"a": X[:, 0], "b": large}, Y).selected == ("b",)
    too_large = np.array([10**400 * int(rank + 1) for rank in RANKS], dtype=object)
    refused("column 'b' holds numbers beyond", {"a": X[:, 0], "b": too_large}, Y)
    refused("y holds numbers beyond", X, too_large)


def test_whole_numbers_that_rounding_makes_equal():
    refused("y holds whole numbers beyond 2\\^53", X, 2**60 + RANKS)
    assert len(read_outcome(2**60 + 2**12 * RANKS, N).levels) > 2
    spread = np.uint64(2**63) + RANKS.astype(np.uint64) * np.uint64(2**40)
    assert fbed.select({"a": X[:, 0], "b": spread}, Y).selected == ("b",)
    codes = fbed.select({"a": np.tile([1e20, 2e20, 3e20], 20), "b": X[:, 1]}, Y, categorical=["a"], include=["a"])
    assert codes.model.terms[1:3] == ("a[2e+20]", "a[3e+20]")


def test_an_outcome_within_a_few_roundings_or_across_all_numbers():
    near = 2.0**53 + 2.0 * RANKS
    assert sum(fbed.select(X, near, family="spearman").overview.outcome.counts) == N
    across = 1.7e308 * np.linspace(-1.0, 1.0, N)[RANKS]
    edges = fbed.select(X, across, family="spearman").overview.outcome.edges
    assert np.isfinite(edges).all()


def test_a_group_of_copies_is_inflated_by_others_only():
    """What its columns have in common with each other is no number at all."""
    rng = np.random.default_rng(7)
    X = np.where(rng.random((300, 4)) < 0.4, rng.normal(size=(300, 4)), 0.0)
    X[:, 1] += X[:, 0]
    X[:, 3] = 1e-4 * X[:, 2]
    y = rng.normal(size=300)
    expected = fbed.select(X[:, :3], y, include=[0, 1, 2]).overview.inflation
    for matrix in (X, sparse.csc_array(X)):
        found = fbed.select(matrix, y, groups={"copies": [2, 3]}, include=[0, 1, "copies"]).overview.inflation
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sparse_table_is_looked_at_by_its_entries(weighted):
    rng = np.random.default_rng(3)
    X = np.where(rng.random((400, 9)) < 0.3, rng.poisson(2, (400, 9)) * [1, 0.5, -1, 7e9, 1, 1e-7, 3, 1, 1], 0.0)
    X[:, 4], X[:, 7], X[:, 8] = rng.normal(size=400), 5.0 * (rng.random(400) < 0.9), rng.integers(1, 4, 400)
    y = (X[:, 0] + X[:, 4] + rng.logistic(size=400) > 0).astype(int)
    weights = rng.integers(0, 4, 400) if weighted else None
    dense, few = (
        fbed.select(matrix, y, family="binomial", sample_weight=weights, alpha=0.9)
        for matrix in (X, sparse.csc_array(X))
    )
    assert len(dense.selected) > 3
    assert dense.overview.columns == few.overview.columns
