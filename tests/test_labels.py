"""Row labels of pandas objects: different ones are an error in functions, and mean nothing to estimators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fbed

N = 60
RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
Y = pd.Series(2 * X["b"] + RNG.normal(size=N), name="y")


def shuffled(series):
    return series.sample(frac=1, random_state=1)


@pytest.mark.parametrize("door", [fbed.select, fbed.path])
def test_an_outcome_in_another_order_is_refused(door):
    with pytest.raises(fbed.InvalidInput, match=r"X and y have different indices \(\d+ of 60 labels, the first in row"):
        door(X, shuffled(Y))


def test_the_error_says_what_to_do_and_that_works():
    other = shuffled(Y)
    with pytest.raises(fbed.InvalidInput, match=r"y\.loc\[X\.index\], or pass y\.to_numpy\(\)"):
        fbed.select(X, other)
    assert fbed.select(X, other.loc[X.index]).selected == fbed.select(X, Y).selected == ("b",)
    fbed.select(X, other.to_numpy())  # whatever is found there


def test_other_labels_cannot_be_brought_into_order():
    with pytest.raises(
        fbed.InvalidInput, match=r"matched by position: pass y\.to_numpy\(\) if its rows are in"
    ) as told:
        fbed.select(X, Y.set_axis(range(100, 100 + N)))
    assert ".loc" not in str(told.value)
    with pytest.raises(fbed.InvalidInput, match="different indices"):
        fbed.select(X.set_axis([f"r{i}" for i in range(N)]), Y)


@pytest.mark.parametrize("role", ["sample_weight", "offset", "cluster"])
def test_everything_that_has_a_value_a_row(role):
    values = shuffled(pd.Series(np.arange(N) % 7 + 1.0))
    with pytest.raises(fbed.InvalidInput, match=f"X and {role} have different indices"):
        fbed.select(X, Y, family="gee" if role == "cluster" else "auto", **{role: values})


def test_times_and_events():
    time, event = Y.abs() + 0.1, pd.Series(np.arange(N) % 3 > 0)
    assert fbed.select(X, (time, event)).family == "cox"
    with pytest.raises(fbed.InvalidInput, match=r"X and y\[1\] have different indices"):
        fbed.select(X, (time, shuffled(event)))


def test_without_labels_on_the_table_the_others_are_compared():
    with pytest.raises(fbed.InvalidInput, match="y and sample_weight have different indices"):
        fbed.select(X.to_numpy(), Y, sample_weight=shuffled(pd.Series(np.arange(N) % 3 + 1)))
    fbed.select(X.to_numpy(), shuffled(Y))
    fbed.select(pl.DataFrame(X.to_dict("list")), shuffled(Y))


def test_a_mapping_of_series():
    columns = {"a": X["a"], "b": X["b"]}
    assert fbed.select(columns, Y).selected == ("b",)
    with pytest.raises(fbed.InvalidInput, match=r"X\['a'\] and X\['b'\] have different indices"):
        fbed.select(columns | {"b": shuffled(X["b"])}, Y)


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(10, 10 + N),
        pd.Index([f"r{i}" for i in range(N)]),
        pd.Index([1] * N),
        pd.Index([*range(N - 1), np.nan]),
        pd.MultiIndex.from_product([range(6), range(10)]),
        pd.date_range("2020", periods=N),
    ],
    ids=["range", "text", "repeated", "missing", "levels", "dates"],
)
def test_equal_indices_pass_whatever_they_are(index):
    assert fbed.select(X.set_axis(index), Y.set_axis(index.copy())).selected == ("b",)
    with pytest.raises(fbed.InvalidInput, match="different indices"):
        fbed.select(X.set_axis(index), Y.set_axis(range(5, 5 + N)))


def test_indices_of_different_types_with_equal_labels_pass():
    assert fbed.select(X, Y.set_axis(pd.Index(range(N), dtype=object))).selected == ("b",)
    assert fbed.select(X, Y.set_axis(np.arange(N, dtype=float))).selected == ("b",)


def test_lengths_are_told_first():
    with pytest.raises(fbed.InvalidInput, match="y has 59 values and X has 60 rows"):
        fbed.select(X, Y.iloc[1:])


def test_estimators_go_by_position():
    other, weights = shuffled(Y), shuffled(pd.Series(np.arange(N) % 3 + 1.0))
    found = fbed.FBEDSelector().fit(X, other, sample_weight=weights).result_
    assert found.selected == fbed.select(X, other.to_numpy(), sample_weight=weights.to_numpy()).selected
    assert fbed.FBEDSelector().fit(X.to_numpy(), other, sample_weight=weights).result_.n == weights.sum()
    assert fbed.FBEDSelector().fit(X.set_axis(range(7, 7 + N)), Y.astype("Float64")).result_.n == N
    ordered = pd.Series(pd.cut(Y, 3, labels=["lo", "mid", "hi"]))
    assert fbed.FBEDSelector().fit(X, shuffled(ordered)).result_.family == "ordinal"
