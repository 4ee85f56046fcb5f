"""Reading is fast and the same for every storage: each fast way is held against a slow one."""

from __future__ import annotations

import datetime
import math
import tracemalloc
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fbed
import fbed.tables.encoding
import reading_twin
from fbed._kernels import DenseColumns, number_objects
from fbed.matrix.design import Design
from fbed.tables.columns import Factor, read_column
from fbed.tables.encoding import encode_series
from fbed.tables.separate_columns import ColumnsApart, as_matrix
from fbed.tables.table import read_table

# --- one column of objects against the twin ---------------------------------------------------------------------------

TEXTS = [
    *["a", "b", "", " ", "A", "é", "日本", "🙂", "a\x00b", "a\x00", "\ud800", "long" * 40],
    *["1", "2", "3.5", "1e3", "?", "NA", "nan", "None", "2020-01-01", "2020-01-02", "1/2/2020"],
]
NOTHING = [None, math.nan, np.float64("nan"), pd.NA, pd.NaT]
NUMBERS = [
    *[True, False, np.True_, np.False_, 0, 1, 2, -1, 10**20, 1.0, 0.5, math.inf],
    *[np.int8(1), np.float32(0.5), Decimal("1.5"), Decimal("1")],
]
OTHERS = [
    *[b"a", np.str_("a"), (1, 2), frozenset({1}), 1 + 2j],
    *[datetime.date(2020, 1, 1), np.datetime64("2020-01-01"), pd.Timestamp("2020")],
]
HOSTILE = [*TEXTS, *NOTHING, *NUMBERS, *OTHERS]
SOME = [TEXTS, [*TEXTS[:10], None], [*map(str, range(14)), "?", "x"], [*NOTHING, *NUMBERS], ["a", "b", None], HOSTILE]


def objects(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def outcome_of(read, *arguments):
    """What comes of it, in a form that can be compared: errors by what they say."""
    try:
        found = read(*arguments)
    except (fbed.InvalidInput, OverflowError) as error:
        return type(error).__name__, str(error)
    if isinstance(found, Factor):
        codes = found.codes.tolist()
        assert found.codes.dtype == np.int8
        return "levels", list(found.levels), [None if code < 0 else code for code in codes]
    if isinstance(found, np.ndarray):
        return "numbers", found.tolist()
    return found


def columns_of_objects():
    return st.sampled_from(SOME).flatmap(lambda some: st.lists(st.sampled_from(some), min_size=3, max_size=40))


@settings(max_examples=600, deadline=None)
@given(columns_of_objects(), st.booleans())
@example([1, True, 0, "x"], False)
@example([True, 1, 0], False)
@example([1, 1.0, Decimal(1), 2, 2], False)
@example([None, None, None], False)
@example(["a" + "b" * (i % 2) for i in range(9)], False)
def test_a_column_of_objects_is_read_as_by_its_twin(values, categorical):
    expected = outcome_of(reading_twin.read, "c", values, categorical)
    found = outcome_of(read_column, "c", objects(values), categorical)
    assert repr(found) == repr(expected)  # NaN is NaN, and True is not 1


@settings(max_examples=100, deadline=None)
@given(columns_of_objects())
def test_objects_are_numbered_by_identity_and_text_by_content(values):
    unshared = ["".join(value) if type(value) is str else value for value in values]
    step = np.empty((len(values), 3), dtype=object)
    step[:, 1] = unshared
    for column in (objects(unshared), step[:, 1], step[::-1, 1]):
        ((codes, different),) = number_objects([column])
        assert all(
            different[code] is value or different[code] == value for code, value in zip(codes, column, strict=True)
        )
        texts = [value for value in different if type(value) is str]
        assert len(set(texts)) == len(texts)
        assert len({id(value) for value in different}) == len(different)
        assert list(dict.fromkeys(codes.tolist())) == list(range(len(different)))


def test_many_different_texts_are_numbered():
    values = [f"{i % 5000:x}" for i in range(20_000)]
    ((codes, different),) = number_objects([objects(values)])
    assert different == values[:5000]
    assert codes.tolist() == [i % 5000 for i in range(20_000)]


def test_columns_of_different_lengths_are_numbered_together():
    short, long = objects(["a"] * 3), objects(["b", "a"] * 50)
    (first, _), (second, _) = number_objects([short, long])
    assert (first.tolist(), second.tolist()) == ([0] * 3, [0, 1] * 50)


@pytest.mark.parametrize(
    "values", [np.arange(3), np.array(["a"]), np.empty((2, 2), dtype=object)], ids=["i", "U", "2-D"]
)
def test_only_columns_of_objects_are_numbered(values):
    with pytest.raises((ValueError, BufferError)):
        number_objects([values])


def test_python_looks_at_different_values_only(monkeypatch):
    """Not at 40,000 of them, in any storage."""
    seen = []
    real = fbed.tables.encoding.is_missing
    monkeypatch.setattr(fbed.tables.encoding, "is_missing", lambda value: seen.append(value) or real(value))
    text = pd.DataFrame(np.random.default_rng(0).choice(["lo", "mid", "hi"], (2000, 20))).rename(columns=str)
    for table in (
        text,
        text.astype("string"),
        text.astype("category"),
        pa.Table.from_pandas(text),
        text.to_dict("list"),
    ):
        seen.clear()
        assert len(read_table(table).factors) == 20
        assert len(seen) <= 20 * 3


# --- the same content in every storage --------------------------------------------------------------------------------

TEXT_STORAGE = {
    "objects of pandas": lambda values: pd.DataFrame({"c": pd.Series(values, dtype=object)}),
    "objects in rows": lambda values: pd.DataFrame(np.repeat(objects(values)[:, None], 3, 1)[:, 1:2], columns=["c"]),
    "mapping": lambda values: {"c": objects(values)},
    "string": lambda values: pd.DataFrame({"c": pd.Series(values, dtype="string[python]")}),
    "string of Arrow": lambda values: pd.DataFrame({"c": pd.Series(values, dtype="string[pyarrow]")}),
    "string with NaN": lambda values: pd.DataFrame({"c": pd.Series(values, dtype=pd.StringDtype(na_value=np.nan))}),
    "Arrow in pandas": lambda values: pd.DataFrame({"c": pd.Series(values, dtype=pd.ArrowDtype(pa.string()))}),
    "polars": lambda values: pl.DataFrame({"c": pl.Series(values, dtype=pl.String)}),
    "Arrow": lambda values: pa.table({"c": pa.array(values, pa.string())}),
    "large Arrow": lambda values: pa.table({"c": pa.array(values, pa.large_string())}),
    "chunks": lambda values: pa.table({"c": pa.chunked_array([values[:2], [], values[2:]], pa.string())}),
}  # fmt: skip
CATEGORY_STORAGE = {
    "category": lambda values, order: pd.DataFrame({"c": pd.Categorical(values, categories=order)}),
    "enum": lambda values, order: pl.DataFrame({"c": pl.Series(values, dtype=pl.Enum(order))}),
    "dictionary": lambda values, order: pa.table({"c": dictionary(values, order)}),
    "dictionary in chunks": lambda values, order: pa.table(
        {"c": pa.chunked_array([dictionary(values[:2], order), dictionary(values[2:], order)])}
    ),
    "dictionary in pandas": lambda values, order: pd.DataFrame(
        {"c": pd.Series(pd.arrays.ArrowExtensionArray(dictionary(values, order)))}
    ),
}  # fmt: skip
words = st.sampled_from(["a", "b", "B", "", "é", "日本", "x y", "1", "2020-01-01", "?"])
some_text = st.one_of(st.none(), words, st.text(max_size=3))


def dictionary(values, order):
    codes = [None if value is None else order.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.uint8()), pa.array(order, pa.string()))


def table_of(make, *arguments, categorical=()):
    """The column c as it was read, or the error."""
    return outcome_of(lambda: read_table(make(*arguments), categorical=categorical).factors[0])


@settings(max_examples=60, deadline=None)
@given(st.lists(some_text, min_size=3, max_size=30).filter(any), st.booleans())
def test_text_is_the_same_in_every_storage(values, categorical):
    found = {
        name: table_of(make, values, categorical=["c"] if categorical else []) for name, make in TEXT_STORAGE.items()
    }
    expected = outcome_of(reading_twin.read, "c", values, categorical)
    assert found == dict.fromkeys(TEXT_STORAGE, expected)


@settings(max_examples=60, deadline=None)
@given(st.permutations(["a", "b", "", "日本", "x y", "unused"]).flatmap(
    lambda order: st.tuples(st.just(order), st.lists(st.sampled_from([*order[:4], None]), min_size=3, max_size=30))
))  # fmt: skip
def test_categories_are_the_same_in_every_storage(case):
    order, values = case
    levels = [level for level in order if level in values]
    expected = "levels", levels, [None if value is None else levels.index(value) for value in values]
    found = {name: table_of(make, values, order) for name, make in CATEGORY_STORAGE.items()}
    assert found == dict.fromkeys(CATEGORY_STORAGE, expected)
    without_order = table_of(lambda: pl.DataFrame({"c": pl.Series(values, dtype=pl.Categorical)}))
    again = [None if value is None else sorted(levels).index(value) for value in values]
    assert without_order == ("levels", sorted(levels), again)


def test_dictionaries_may_repeat_values_and_hold_missing_ones():
    codes = pa.array([0, 1, 2, 3, None, 0], pa.int8())
    stored = pa.DictionaryArray.from_arrays(codes, pa.array(["q", "p", "q", None]))
    assert table_of(lambda: pa.table({"c": stored})) == ("levels", ["q", "p"], [0, 1, 0, None, None, 0])


def test_a_dictionary_as_large_as_its_index_type():
    order = [f"v{i:03}" for i in range(128)]
    values = order * 2
    stored = pa.DictionaryArray.from_arrays(pa.array([*range(128)] * 2, pa.int8()), pa.array(order))
    factor = read_table(pa.table({"c": stored})).factors[0]
    assert [factor.levels[code] for code in factor.codes] == values
    assert factor.codes.dtype == np.int16


@pytest.mark.parametrize("n_levels", [126, 127, 128, 129, 40_000])
def test_codes_have_the_smallest_type_and_room_for_a_level_of_missing_values(n_levels):
    levels = [f"v{i:05}" for i in range(n_levels)]
    values = pd.Series([*levels, *levels, None])
    frame = pd.DataFrame({"c": pd.Categorical(values, categories=levels), "t": values})
    table = read_table(frame)
    for factor in table.factors.values():
        assert factor.codes.dtype == (np.int8 if n_levels <= 127 else np.int16 if n_levels < 2**15 else np.int32)
        assert factor.codes.tolist() == [*range(n_levels), *range(n_levels), -1]
    from fbed.tables.missing import with_indicators

    filled, _ = with_indicators(table, np.ones(len(frame)))
    assert [factor.codes[-1] for factor in filled.factors.values()] == [n_levels, n_levels]
    some = table.factors[0].rows(np.arange(3, 7))
    assert (some.codes.tolist(), some.levels) == ([0, 1, 2, 3], tuple(levels[3:7]))


def test_codes_that_polars_shares_among_tables_do_not_matter():
    pl.Series([f"used elsewhere {i}" for i in range(60_000)]).cast(pl.Categorical)
    series = pl.Series(["late", None, "later", "late"])
    for column in (series, series.cast(pl.Categorical)):
        found = table_of(lambda column=column: pl.DataFrame({"c": column}))
        assert found == ("levels", ["late", "later"], [0, None, 1, 0])


def test_codes_far_apart_are_numbered_from_zero():
    codes, first = fbed.tables.encoding._first_rows(np.array([10**9, -1, 5, 10**9, 5]))
    assert (codes.tolist(), first.tolist()) == ([1, -1, 0, 1, 0], [2, 0])
    codes, first = fbed.tables.encoding._first_rows(np.array([-1, -1]))
    assert (codes.tolist(), first.tolist()) == ([-1, -1], [])


@pytest.mark.parametrize("values", [[True, False, None, True], [True, False, True, True]], ids=["missing", "complete"])
def test_booleans_are_the_same_numbers_in_every_storage(values):
    known = None not in values
    tables = [
        pd.DataFrame({"c": pd.Series(values, dtype=object)}),
        pd.DataFrame({"c": pd.Series(values, dtype="boolean")}),
        pd.DataFrame({"c": pd.Series(values, dtype="bool[pyarrow]")}),
        pl.DataFrame({"c": values}),
        pa.table({"c": values}),
        {"c": objects(values)},
        *([pd.DataFrame({"c": values})] if known else []),
    ]
    expected = [math.nan if value is None else float(value) for value in values]
    for table in tables:
        np.testing.assert_array_equal(np.asarray(read_table(table).matrix[:, 0], dtype=float), expected)


def test_an_outcome_is_the_same_in_every_storage():
    X, text = np.random.default_rng(1).normal(size=(60, 3)), ["no", "yes", "no"] * 20
    for make in TEXT_STORAGE.values():
        column = make(text)["c"]
        outcome = fbed.tables.outcomes.read_outcome(column, 60)
        assert (outcome.levels, outcome.values.tolist()) == (("no", "yes"), [0.0, 1.0, 0.0] * 20)
        assert fbed.select(X, column, family="binomial").n == 60


# --- numbers stay where they are --------------------------------------------------------------------------------------


def mixed(n=300, missing=False):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({f"f{j}": rng.normal(size=n) for j in range(4)})
    for j, kind in enumerate(["float32", "int8", "int16", "int64", "uint8", "bool"]):
        frame.insert(j, kind, rng.integers(0, 2 if kind == "bool" else 7, n).astype(kind))
    frame["text"] = rng.choice(["p", "q", "r"], n)
    if missing:
        frame.loc[[3, 7], "f1"] = np.nan
        frame.loc[[5], "float32"] = np.nan
    return frame


MIXED = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "mapping": lambda frame: {name: frame[name].to_numpy() for name in frame},
}


@pytest.mark.parametrize("stored", MIXED)
def test_a_mixed_table_keeps_each_column_in_its_own_type(stored):
    frame = mixed()
    matrix = read_table(MIXED[stored](frame)).matrix
    assert isinstance(matrix, ColumnsApart)
    kinds = [frame[name].dtype for name in frame if name != "text"]
    assert [column.dtype for column in matrix.columns] == kinds
    np.testing.assert_array_equal(np.asarray(matrix), frame.drop(columns="text").to_numpy(dtype=float))
    np.testing.assert_array_equal(matrix[:, [0, 3]], frame.iloc[:, [0, 3]].to_numpy(dtype=float))
    assert matrix[np.array([2, 0])].shape == (2, 10)


def test_numbers_of_a_frame_are_not_copied():
    frame = mixed()
    for j, column in enumerate(read_table(frame).matrix.columns):
        assert np.shares_memory(column, frame.iloc[:, j].to_numpy())
    own = read_table(pl.from_pandas(frame[["f0", "int8"]])).matrix
    assert not any(column.flags.owndata for column in own.columns)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("text", [False, True])
def test_a_block_of_numbers_is_the_matrix(order, text):
    block = np.asarray(np.random.default_rng(0).normal(size=(50, 6)), order=order)
    frame = pd.DataFrame(block, columns=list("abcdef"), copy=False)
    if text:
        frame["text"] = ["p", "q"] * 25
    matrix = read_table(frame).matrix
    assert isinstance(matrix, np.ndarray)
    assert np.shares_memory(matrix, frame["c"].to_numpy())
    np.testing.assert_array_equal(matrix, block)
    every_second = read_table(frame, exclude=["b", "d", "f"]).matrix
    np.testing.assert_array_equal(every_second, block[:, ::2])
    assert np.shares_memory(every_second, frame["c"].to_numpy())


def test_columns_in_different_arrays_are_no_block_even_when_they_lie_in_a_row():
    whole = np.arange(12.0)
    one, two = np.frombuffer(whole.tobytes()), np.frombuffer(whole.tobytes())
    assert isinstance(as_matrix([one, two]), ColumnsApart)
    assert isinstance(as_matrix([whole[:4], whole[4:8], whole[8:]]), np.ndarray)
    assert isinstance(as_matrix([whole[:4], whole[8:], whole[4:8]]), ColumnsApart)
    backwards = as_matrix([whole[8:], whole[4:8], whole[:4]])
    np.testing.assert_array_equal(backwards, np.column_stack([whole[8:], whole[4:8], whole[:4]]))
    same = as_matrix([whole[:4], whole[:4]])
    np.testing.assert_array_equal(same, np.column_stack([whole[:4], whole[:4]]))


def test_reading_takes_hardly_any_memory():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"f{j}": rng.normal(size=20_000) for j in range(40)})
    frame["small"] = rng.integers(0, 5, 20_000).astype(np.int8)
    frame["text"] = rng.choice(["p", "q"], 20_000)
    tracemalloc.start()
    Design(read_table(frame), np.ones(20_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < frame.memory_usage(deep=False).sum() / 4


@pytest.mark.parametrize("family", ["gaussian", "binomial", "spearman", "poisson"])
@pytest.mark.parametrize("stored", MIXED)
def test_columns_apart_change_no_answer(stored, family):
    frame = mixed()
    rng = np.random.default_rng(8)
    signal = frame["f2"] + 0.4 * frame["int8"] + (frame["text"] == "q") + rng.normal(size=len(frame))
    counts = rng.poisson(np.exp(signal / 4))
    y = np.asarray({"binomial": signal > 1, "poisson": counts}.get(family, signal))
    weights = np.arange(len(frame)) % 4
    plain = frame.astype({name: float for name in frame if name != "text"})
    for options in ({}, {"sample_weight": weights}, {"engine": "exhaustive"}):
        one = fbed.select(MIXED[stored](frame), y, family=family, **options)
        two = fbed.select(plain, y, family=family, **options)
        assert one.selected == two.selected
        assert len(one.selected) >= 2
        for row, wanted in zip(one.trace, two.trace, strict=True):
            assert row.statistic == (wanted.statistic and pytest.approx(wanted.statistic, rel=1e-9))


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_columns_apart_with_missing_values(missing):
    frame = mixed(missing=True)
    before = frame.copy()
    y = frame["f2"].to_numpy() + 0.3 * np.random.default_rng(8).normal(size=len(frame))
    plain = frame.astype({name: float for name in frame if name != "text"})
    one, two = (fbed.select(table, y, missing=missing, criterion="aic") for table in (frame, plain))
    assert (one.selected, one.notes) == (two.selected, two.notes)
    pd.testing.assert_frame_equal(frame, before)
    with pytest.raises(fbed.InvalidInput, match=r"in 2 columns: float32 \(1\), f1 \(2\)"):
        fbed.select(frame, y)


def test_kernels_read_columns_apart_as_they_read_a_matrix():
    frame = mixed().drop(columns="text")
    apart = read_table(frame).matrix
    n, p = apart.shape
    whole = DenseColumns(np.asfortranarray(frame.to_numpy(dtype=float)))
    pieces = DenseColumns([column.view(np.uint8) if column.dtype == bool else column for column in apart.columns], n)
    weights, which = np.arange(n) % 3 + 1.0, np.array([9, 0, 5, 5], dtype=np.int64)
    np.testing.assert_array_equal(pieces.stats(weights, weights.sum(), 0, p), whole.stats(weights, weights.sum(), 0, p))
    np.testing.assert_allclose(pieces.dots(which, weights), whole.dots(which, weights), rtol=1e-14)
    moments = np.full(p, 0.5), np.full(p, 2.0)
    np.testing.assert_array_equal(pieces.gather(which, *moments), whole.gather(which, *moments))
    with pytest.raises(ValueError, match="columns"):
        DenseColumns([np.arange(4.0)], 5)
    with pytest.raises(ValueError, match="columns"):
        DenseColumns([np.arange(8.0)[::2]], 4)


# --- indicators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_indicators_by_counting(weighted):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 5, 80)
    weights = rng.uniform(0.5, 3, 80) if weighted else np.ones(80)
    frame = pd.DataFrame({"c": np.array(list("abcde"))[codes], "x": rng.normal(size=80)})
    design = Design(read_table(frame), weights)
    naive = (codes[:, None] == np.arange(1, 5)).astype(float)
    center = np.average(naive, axis=0, weights=weights)
    np.testing.assert_allclose(design.columns(0), (naive - center) / np.sqrt(center * (1 - center)), rtol=1e-12)
    np.testing.assert_allclose(design.moments(0)[0], center, rtol=1e-14)
    found, n_levels = design.codes(0)
    assert (found.tolist(), n_levels, design.codes(1)) == (codes.tolist(), 5, None)


def test_indicators_of_a_level_that_no_row_has_are_zero():
    design = Design(read_table({"c": ["p", "q", "p", "p"], "x": np.arange(4.0)}), np.ones(4))
    object.__setattr__(design.table.factors[0], "levels", ("p", "q", "none"))
    assert design.columns(0)[:, 1].tolist() == [0.0] * 4


def test_indicators_are_written_once():
    n, n_levels = 20_000, 200
    frame = pd.DataFrame({"c": [f"v{i % n_levels}" for i in range(n)], "x": np.arange(float(n))})
    design = Design(read_table(frame), np.ones(n))
    tracemalloc.start()
    design.moments(0)
    assert tracemalloc.get_traced_memory()[1] < 4 * n * 8
    made = design.stack([0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < made.nbytes * 1.1


def test_series_that_narwhals_reads_for_us():
    """A library without a way of its own: values come as a list."""

    class Other:
        dtype = fbed.tables.encoding.nw.String
        implementation = fbed.tables.encoding.nw.Implementation.UNKNOWN

        def to_native(self):
            return self

        def to_list(self):
            return ["b", None, "a"]

        def __len__(self):
            return 3

    assert encode_series(Other()).codes.tolist() == [0, -1, 1]
