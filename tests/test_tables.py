"""What comes in: every kind of table and outcome, and an error for each that has no defined answer.

Every error says what was expected, what came (the columns, how many values) and what to do.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import fbed
from fbed.tables.outcomes import read_outcome, suggested_family
from fbed.tables.table import read_table

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X[:, 1] + 0.5 * RNG.normal(size=N)
BINARY = (Y > 0).astype(int)


def frame(**columns):
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1]} | columns)


def refused(match, *args, **options):
    with pytest.raises(fbed.InvalidInput, match=match):
        fbed.select(*args, **options)


# --- what a table becomes -------------------------------------------------------------------------------------------


def test_an_array_has_no_names():
    table = read_table(X)
    assert table.names is None
    assert table.name(2) == 2
    assert (table.n_rows, table.n_variables) == (N, 3)


def test_names_for_an_array():
    table = read_table(X, feature_names=["u", "v", "w"])
    assert table.names == ("u", "v", "w")
    assert fbed.select(X, Y, feature_names=["u", "v", "w"]).selected == ("v",)


def test_numbers_are_not_copied_to_a_larger_type():
    assert read_table(X.astype(np.float32)).matrix.dtype == np.float32
    assert read_table(frame().astype("float32")).matrix.dtype == np.float32
    assert read_table(sparse.csr_array(BINARY[:, None].astype(np.int8))).matrix.dtype == np.int8


def test_an_array_is_not_copied_at_all():
    assert np.shares_memory(read_table(X).matrix, X)


def test_the_input_is_not_changed():
    inside, weights, outcome = X.copy(), np.ones(N), Y.copy()
    stored = sparse.csr_array(np.where(X > 0, X, 0))
    before = stored.copy()
    fbed.select(inside, outcome, sample_weight=weights)
    fbed.select(stored, outcome)
    np.testing.assert_array_equal(inside, X)
    np.testing.assert_array_equal(outcome, Y)
    assert (abs(stored - before)).sum() == 0


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["p", "q"] * 20),
        pd.Series(["p", "q"] * 20, dtype="string"),
        pd.Series(["p", "q"] * 20, dtype="category"),
        pd.Series(["p", "q"] * 20, dtype="string[pyarrow]"),
    ],
    ids=["object", "string", "category", "arrow"],
)
def test_text_columns_of_pandas_are_categories(column):
    table = read_table(frame(c=column))
    assert table.factors[2].levels == ("p", "q")
    assert table.factors[2].codes.tolist() == [0, 1] * 20
    assert table.position.tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["p", "q"])], ids=str)
def test_text_columns_of_polars_are_categories(kind):
    table = read_table(pl.DataFrame({"a": X[:, 0], "c": pl.Series(["p", "q"] * 20, dtype=pl.String).cast(kind)}))
    assert table.factors[1].levels == ("p", "q")


def test_text_columns_of_arrow_are_categories():
    text = pa.array(["q", "p"] * 20)
    table = read_table(pa.table({"plain": text, "coded": text.dictionary_encode()}))
    assert table.factors[0].levels == ("p", "q")
    assert set(table.factors[1].levels) == {"p", "q"}


def test_arrow_chunks_with_different_dictionaries_are_one_category():
    one, two = pa.array(["p", "q"] * 10).dictionary_encode(), pa.array(["r", "p"] * 10).dictionary_encode()
    table = read_table(pa.table({"c": pa.chunked_array([one, two])}))
    values = [table.factors[0].levels[code] for code in table.factors[0].codes]
    assert values == ["p", "q"] * 10 + ["r", "p"] * 10


def test_text_columns_of_a_mapping_are_categories():
    assert read_table({"a": X[:, 0], "c": ["p", "q"] * 20}).factors[1].levels == ("p", "q")


def test_declared_categories_keep_their_order_and_only_those_that_occur():
    declared = pd.Categorical(["low", "top"] * 20, categories=["low", "mid", "top"], ordered=True)
    assert read_table(frame(c=declared)).factors[2].levels == ("low", "top")
    enum = pl.Series(["low", "top"] * 20, dtype=pl.Enum(["top", "mid", "low"]))
    assert read_table(pl.DataFrame({"c": enum})).factors[0].levels == ("top", "low")


def test_intervals_are_categories():
    table = read_table(frame(c=pd.cut(pd.Series(X[:, 2]), [-9, 0, 9])))
    assert [str(level) for level in table.factors[2].levels] == ["(-9, 0]", "(0, 9]"]


def test_numeric_categories_are_categories():
    table = read_table(frame(c=pd.Categorical([3, 1] * 20)))
    assert table.factors[2].levels == (1, 3)


@pytest.mark.parametrize(
    "column",
    [
        BINARY.astype(bool),
        pd.Series(BINARY, dtype="boolean"),
        pd.Series(BINARY, dtype="Int8"),
        pd.Series(BINARY, dtype="Float32"),
        pd.Series(BINARY, dtype="int64[pyarrow]"),
        pd.Series([Decimal(int(value)) for value in BINARY]),
        pd.Series(BINARY.astype(object)),
    ],
    ids=["bool", "boolean", "Int8", "Float32", "arrow", "decimal", "object"],
)
def test_number_columns_are_numbers(column):
    table = read_table(frame(c=column))
    assert not table.factors
    np.testing.assert_array_equal(table.matrix[:, 2].astype(float), BINARY)


def test_decimals_of_arrow_and_polars_are_numbers():
    decimals = [Decimal("1.5"), Decimal("2.25")] * 20
    for table in (pa.table({"c": decimals}), pl.DataFrame({"c": decimals})):
        np.testing.assert_array_equal(read_table(table).matrix[:, 0], [1.5, 2.25] * 20)


def test_mixed_levels_have_some_order():
    assert set(read_table(frame(c=pd.Series(["p", 1] * 20, dtype=object))).factors[2].levels) == {"p", 1}


# --- tables that are refused ----------------------------------------------------------------------------------------


def test_missing_numbers_are_counted_by_column():
    broken = X.copy()
    broken[:3, 1] = np.nan
    broken[0, 2] = np.nan
    match = r"NaN or missing values in 2 columns: 1 \(3\), 2 \(1\).*Nothing is imputed silently: drop"
    refused(match, broken, Y)
    refused(r"in 2 columns: v \(3\), w \(1\)", broken, Y, feature_names=["u", "v", "w"])
    refused(r"in 2 columns: 1 \(3\), 2 \(1\)", sparse.csr_array(broken), Y)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([None, "p"] + ["q"] * 38),
        pd.Series([None, "p"] + ["q"] * 38, dtype="category"),
        pd.Series([None, 1] + [2] * 38, dtype="Int64"),
        pd.Series([None, True] + [False] * 38, dtype="boolean"),
        pd.Series([pd.NA, "p"] + ["q"] * 38, dtype=object),
        pd.Series([pd.NA] * 1 + [1.5] * 39, dtype=object),
        pd.Series([np.nan] + [1.0] * 39),
    ],
    ids=["text", "category", "Int64", "boolean", "NA among text", "NA among numbers", "float"],
)
def test_missing_values_of_pandas(column):
    refused(r"NaN or missing values in 1 column: c \(1\)", frame(c=column), Y)


@pytest.mark.parametrize(
    "values", [[None, 1, *[2] * 38], [None, "p", *["q"] * 38], [None, True, *[False] * 38]], ids=str
)
@pytest.mark.parametrize("make", [pl.DataFrame, pa.table], ids=["polars", "arrow"])
def test_missing_values_of_polars_and_arrow(make, values):
    refused(r"NaN or missing values in 1 column: c \(1\)", make({"a": X[:, 0], "c": values}), Y)


def test_many_broken_columns_are_abbreviated():
    refused(r"in 9 columns: 0 \(40\), 1 \(40\), 2 \(40\), 3 \(40\), 4 \(40\) and 4 more", np.full((N, 9), np.nan), Y)


def test_an_excluded_column_may_hold_anything():
    broken = np.column_stack([X, np.full(N, np.nan), np.full(N, np.inf)])
    for table in (broken, sparse.csc_array(broken)):
        result = fbed.select(table, Y, exclude=[3, 4])
        assert (result.selected, result.notes) == ((1,), ())
    odd = frame(when=pd.date_range("2020", periods=N), key=[f"id{i}" for i in range(N)], lists=[[1]] * N)
    assert fbed.select(odd, Y, exclude=["when", "key", "lists"]).selected == ("b",)


def test_text_that_looks_like_an_identifier():
    keys = [f"id{i}" for i in range(N)]
    refused(
        r"column 'key' holds text with 40 different values in 40 rows, like an identifier: leave it out with "
        r"exclude=\['key'\]",
        frame(key=keys),
        Y,
    )
    assert fbed.select(frame(key=keys), Y, exclude=["key"]).selected == ("b",)
    half = [f"id{i // 2}" for i in range(N)]
    assert read_table(frame(key=half)).factors[2].levels[0] == "id0"


@pytest.mark.parametrize(
    "column",
    [
        pd.date_range("2020", periods=N),
        pd.to_timedelta(np.arange(N), unit="s"),
        [datetime.date(2020, 1, 1)] * N,
    ],
    ids=["datetime", "timedelta", "date"],
)
def test_times_are_refused(column):
    if isinstance(column, list):
        refused(r"column 'when' holds Date.*exclude=\['when'\]", pl.DataFrame({"a": X[:, 0], "when": column}), Y)
    else:
        refused(r"column 'when' holds (Datetime|Duration).*exclude=\['when'\]", frame(when=column), Y)


def test_times_of_a_mapping_are_refused():
    refused("column 'when' holds datetime64", {"when": np.arange(N).astype("datetime64[s]")}, Y)


def test_lists_in_a_column_are_refused():
    refused(
        r"column 'c' holds values of type list, which are neither numbers nor categories.*exclude=\['c'\]",
        frame(c=[[1]] * N),
        Y,
    )
    refused("column 'c' holds List", pl.DataFrame({"c": [[1]] * N}), Y)


def test_repeated_names_are_refused():
    twice = pd.DataFrame(X, columns=["a", "b", "a"])
    refused("column names must be unique, but 'a' occur more than once: rename them", twice, Y)
    refused("column names must be unique, but 'a'", pa.Table.from_arrays(list(X.T), names=["a", "b", "a"]), Y)
    refused("column names must be unique, but '1' occur", {1: X[:, 0], "1": X[:, 1]}, Y)
    refused("column names must be unique, but 'a' occur", X, Y, feature_names=["a", "b", "a"])


def test_wrong_number_of_names_is_refused():
    refused("feature_names has 2 names for 3 columns of X: give one name a column", X, Y, feature_names=["a", "b"])


def test_names_for_a_table_that_has_names_are_refused():
    refused("feature_names is for arrays; this table has column names of its own", frame(), Y, feature_names=["u", "v"])


def test_columns_of_different_lengths_are_refused():
    refused(r"the columns of X have different lengths: \[39, 40\]", {"a": X[:, 0], "b": X[1:, 1]}, Y)


def test_columns_with_two_dimensions_are_refused():
    refused(r"column 'a' has shape \(40, 3\); a column has one dimension", {"a": X}, Y)


@pytest.mark.parametrize("shape", [(40,), (40, 3, 1)])
def test_arrays_need_two_dimensions(shape):
    refused(r"X must have two dimensions \(rows, columns\), got shape \(40", np.zeros(shape), Y)


def test_ragged_lists_are_refused():
    refused("X must be a rectangular table of numbers", [[1, 2], [3]] * 20, Y)


@pytest.mark.parametrize("table", [np.zeros((N, 0)), {}, pd.DataFrame(index=range(N)), sparse.csr_array((N, 0))])
def test_tables_without_columns_are_refused(table):
    refused(r"X has 0 feature\(s\)", table, Y)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tables_with_fewer_than_three_rows_are_refused(rows):
    refused(f"X has {rows} rows?, i.e. n_samples={rows}; selection needs at least 3", X[:rows], Y[:rows])


def test_masked_values_are_refused():
    hidden = np.arange(N) < 2
    refused("X is a masked array with masked values", np.ma.array(X, mask=X > 1), Y)
    refused("y is a masked array with masked values", X, np.ma.array(Y, mask=hidden))
    refused("sample_weight is a masked array", X, Y, sample_weight=np.ma.array(np.ones(N), mask=hidden))


def test_masked_arrays_without_masked_values_are_arrays():
    assert fbed.select(np.ma.array(X), np.ma.array(Y)).selected == (1,)


def test_complex_numbers_are_refused():
    refused("Complex data not supported: X must hold real numbers", X + 1j, Y)
    refused("Complex data not supported: y must hold real numbers", X, Y + 1j)


def test_text_in_an_array_is_refused():
    refused("X must hold numbers, got dtype <U.*pass a data frame", X.astype("U6"), Y)
    refused("X holds values that are not numbers.*pass a data frame", X.astype("U6").astype(object), Y)
    mixed = X.astype(object)
    mixed[0, 0] = {"foo": "bar"}
    refused("X holds values that are not numbers", mixed, Y)


def test_objects_that_are_numbers_are_numbers():
    assert fbed.select(X.astype(object), Y).selected == (1,)


def test_missing_objects_are_missing():
    holes = X.astype(object)
    holes[0, 1] = None
    refused(r"NaN or missing values in 1 column: 1 \(1\)", holes, Y)


# --- names and indices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["include", "exclude"])
def test_unknown_variables_are_refused(role):
    refused(f"{role} names 'z', which is not a column: the columns are 'a', 'b'", frame(), Y, **{role: ["z"]})
    refused(f"{role} names 'z', which is not a column: the table has no column names", X, Y, **{role: ["z"]})
    refused(f"{role} holds index 3, but there are 3 predictors, from 0", X, Y, **{role: [3]})
    refused(f"{role} holds index -1, but", X, Y, **{role: [-1]})
    refused(f"{role} must hold column names or indices, got 1.5", X, Y, **{role: [1.5]})
    refused(f"{role} must hold column names or indices, got True", X, Y, **{role: [True]})


@pytest.mark.parametrize(
    "wanted",
    ["b", ["b"], [1], 1, np.array([1]), pd.Index(["b"]), iter(["b"]), ("b", 1)],
    ids=lambda wanted: type(wanted).__name__,
)
def test_variables_are_given_by_name_or_index(wanted):
    assert "b" not in fbed.select(frame(), Y, exclude=wanted).selected


def test_forced_variables_from_an_iterator():
    assert fbed.select(X, Y, include=iter([2, 0])).selected[:2] == (2, 0)


def test_included_and_excluded_is_refused():
    refused(r"\['b'\] are both included and excluded", frame(), Y, include=["a", "b"], exclude=[1])


def test_everything_may_be_forced_in_or_excluded():
    for criterion in ("lr", "aic", "bic", fbed.EBIC(0.5)):
        assert fbed.select(X, Y, include=[0, 1, 2], criterion=criterion).selected == (0, 1, 2)
        assert fbed.select(X, Y, exclude=[0, 1, 2], criterion=criterion).selected == ()


def test_outcome_and_weights_by_name():
    table = frame(outcome=Y, times=np.arange(N) % 3)
    result = fbed.select(table, "outcome", sample_weight="times")
    assert result.feature_names == ("a", "b")
    assert result.n == table["times"].sum()
    for other in (pl.DataFrame(table.to_dict("list")), pa.Table.from_pandas(table), table.to_dict("list")):
        assert fbed.select(other, "outcome", sample_weight="times").selected == result.selected


def test_outcome_by_an_unknown_name():
    refused("y='z' is not a column of X: the columns are 'a', 'b'", frame(), "z")
    refused("sample_weight='z' is not a column of X", frame(), Y, sample_weight="z")
    refused("y='z' names a column, but X is a ndarray without column names: pass the values", X, "z")


# --- the outcome ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "y, classes",
    [
        (BINARY, (0, 1)),
        (BINARY.astype(bool), (False, True)),
        (BINARY * 2.5, (0.0, 2.5)),
        (BINARY.astype("uint8") + 1, (1, 2)),
        (np.where(BINARY, "yes", "no"), ("no", "yes")),
        (np.where(BINARY, "yes", "no").astype(object), ("no", "yes")),
        (np.array([bool(value) for value in BINARY], dtype=object), (False, True)),
        (pd.Series(BINARY, dtype="boolean"), (False, True)),
        (pd.Series(BINARY, dtype="Int64"), (0, 1)),
        (pd.Series(np.where(BINARY, "yes", "no"), dtype="category"), ("no", "yes")),
        (pd.Categorical(np.where(BINARY, "b", "c"), categories=["c", "a", "b"]), ("c", "b")),
        (pd.Series(pd.Categorical(BINARY, categories=[1, 0])), (1, 0)),
        (pl.Series(["no", "yes"] * 20, dtype=pl.Enum(["yes", "no"])), ("yes", "no")),
        (pl.Series(["no", "yes"] * 20, dtype=pl.Categorical), ("no", "yes")),
        (BINARY[:, None], (0, 1)),
        (pd.DataFrame({"y": BINARY}), (0, 1)),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_two_values_are_classes(y, classes):
    result = fbed.select(X, y)
    assert result.family == "binomial"
    assert result.classes == classes


def test_the_second_class_is_modelled():
    assert fbed.select(X, np.where(BINARY, "yes", "no")).model.coefficients[1] > 0
    assert fbed.select(X, pd.Categorical(BINARY, categories=[1, 0])).model.coefficients[1] < 0


@pytest.mark.parametrize("y", [Y, np.arange(N), np.arange(N) % 25, list(Y), Y.astype(object)])
def test_other_numbers_are_continuous(y):
    assert fbed.select(X, y).family == "gaussian"


def test_few_whole_numbers_are_continuous_with_a_note():
    result = fbed.select(X, np.arange(N) % 5)
    assert result.family == "gaussian"
    assert "whole numbers with 5 different values" in result.notes[0]
    assert "'poisson'" in fbed.select(X, np.arange(N)).notes[0]
    assert fbed.select(X, np.arange(N) + 1000).notes == ()  # whole, but hardly counts
    assert fbed.select(X, np.arange(N) % 5 + 0.5).notes == ()


def test_two_numbers_may_be_continuous_when_asked():
    assert fbed.select(X, BINARY, family="gaussian").family == "gaussian"


@pytest.mark.parametrize(
    "y",
    [
        np.array(["p", "q", "r", "s"] * 10),
        pd.Series(["p", "q", "r", "s"] * 10, dtype="category"),
        pd.Series(pd.Categorical([1, 2, 3, 4] * 10)),
        pl.Series(["p", "q", "r", "s"] * 10, dtype=pl.Categorical),
    ],
    ids=["text", "category", "numeric category", "polars"],
)
def test_more_categories_are_multinomial(y):
    assert fbed.select(X, y).family == "multinomial"


def test_categories_are_not_continuous():
    refused(
        "family 'gaussian' needs a numeric outcome, but y holds categories: 'no', 'yes'",
        X,
        ["no", "yes"] * 20,
        family="gaussian",
    )


def test_many_values_are_not_binary():
    refused(
        "'binomial' needs an outcome with two different values, but y has 3: 0, 1, 2",
        X,
        np.arange(N) % 3,
        family="binomial",
    )
    refused("but y has more than 20: .* and 15 more", X, Y, family="binomial")


@pytest.mark.parametrize("y", [np.ones(N), ["a"] * N, np.full(N, 0.1), np.zeros(N, dtype=bool)])
@pytest.mark.parametrize("family", ["auto", "binomial"])
def test_one_value_is_refused(y, family):
    refused("y holds a single value .* nothing to explain|needs a numeric outcome", X, y, family=family)


def test_advice_about_infinite_values_works():
    """missing= would not help, and is not offered; what is offered does."""
    broken = pd.DataFrame(X.copy(), columns=["u", "v", "w"])
    broken.loc[:3, "v"] = np.nan
    broken.loc[0, "w"] = np.inf
    for missing in ("error", "drop", "indicator"):
        refused(r"infinite values in 1 column: w \(1\).*missing= does not help", broken, Y, missing=missing)
    mended = broken.replace([np.inf, -np.inf], np.nan)
    assert fbed.select(mended, Y, missing="drop").selected == ("v",)
    assert fbed.select(broken, Y, missing="drop", exclude=["w"]).selected == ("v",)
    infinite = Y.copy()
    infinite[4] = np.inf
    for missing in ("error", "drop"):
        with pytest.raises(fbed.InvalidInput, match="y contains infinity in 1 rows") as refusal:
            fbed.select(X, infinite, missing=missing)
        assert "missing='drop'" not in str(refusal.value)


def test_missing_outcomes_are_counted():
    holes = Y.copy()
    holes[:5] = np.nan
    refused("y contains NaN or missing values in 5 rows: drop those rows first", X, holes)
    for y in (
        np.array([None, "a", *["b"] * 38], dtype=object),
        pd.Series([None, 1, *[2] * 38], dtype="Int64"),
        pd.Series([pd.NA, True, *[False] * 38], dtype="boolean"),
        pd.Series([None, "a", *["b"] * 38], dtype="category"),
        pd.Series([pd.NA, "a", *["b"] * 38], dtype=object),
        pl.Series([None, 1, *[2] * 38]),
        pl.Series([None, "a", *["b"] * 38]),
        pl.Series([None, True, *[False] * 38]),
        pa.array([None, 1.5, *[2.5] * 38]),
    ):
        refused("y contains NaN or missing values in 1 rows", X, y)


def test_wrong_length_of_the_outcome():
    refused("y has 39 values and X has 40 rows.*give one value a row", X, Y[1:])


def test_wrong_shape_of_the_outcome():
    refused(r"y must have one value a row, got shape \(40, 3\)", X, X)


def test_no_outcome():
    refused("y is missing: .* give the outcome", X, None)


def test_sparse_outcome():
    refused("y must be a dense array of one value a row", X, sparse.csr_array(BINARY[:, None]))


def test_times_as_outcome():
    refused("y holds dates or durations; turn them into numbers first", X, np.arange(N).astype("datetime64[D]"))


def test_mixed_labels_have_some_order():
    y = np.array(["a" if value else True for value in BINARY], dtype=object)
    assert set(fbed.select(X, y).classes) == {"a", True}


def test_unknown_family():
    refused("unknown family 'probit': expected one of 'auto', 'gaussian', 'binomial'", X, Y, family="probit")


def test_outcome_knows_the_order_of_its_categories():
    ordered = pd.Series(pd.Categorical(["lo", "hi"] * 20, categories=["lo", "hi"], ordered=True))
    outcome = read_outcome(ordered, N)
    assert (outcome.levels, outcome.ordered, outcome.categorical) == (("lo", "hi"), True, True)
    assert suggested_family(outcome) == ("binomial", None)


# --- weights and options --------------------------------------------------------------------------------------------


def test_bad_weights():
    refused(r"sample_weight.shape == \(39,\), expected \(40,\): give one weight a row", X, Y, sample_weight=np.ones(39))
    refused(r"sample_weight.shape == \(40, 1\)", X, Y, sample_weight=np.ones((N, 1)))
    refused("sample_weight must be finite and 0 or more", X, Y, sample_weight=-np.ones(N))
    refused("sample_weight must be finite and 0 or more", X, Y, sample_weight=np.full(N, np.nan))
    refused("sample_weight must hold numbers", X, Y, sample_weight=["a"] * N)
    refused(
        "selection needs at least 3 rows with a weight above zero, got 2", X, Y, sample_weight=np.r_[1, 1, np.zeros(38)]
    )


def test_weights_may_leave_one_class():
    refused("y holds a single value", X, BINARY, family="binomial", sample_weight=BINARY)


@pytest.mark.parametrize("k", [-1, 1.5, np.nan, -np.inf, "1", None, True])
def test_bad_k(k):
    refused("k is the number of extra runs: 0, 1, 2, … or math.inf, got", X, Y, k=k)


@pytest.mark.parametrize("k", [0, 2.0, np.int64(3), np.inf])
def test_good_k(k):
    assert fbed.select(X, Y, k=k).selected == (1,)


@pytest.mark.parametrize("limit", [-1, 1.5, "1", True])
def test_bad_max_features(limit):
    refused("max_features must be a whole number that is 0 or more, or None, got", X, Y, max_features=limit)


@pytest.mark.parametrize("limit", [-1, np.nan])
def test_bad_time_limit(limit):
    refused("time_limit must be a number of seconds, 0 or more", X, Y, time_limit=limit)


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, "2"])
def test_bad_n_jobs(n_jobs):
    refused("n_jobs must be None, a positive number of threads, or −1 for all", X, Y, n_jobs=n_jobs)


@pytest.mark.parametrize("n_jobs", [None, 1, 3, -1, -2, -1000])
def test_good_n_jobs(n_jobs):
    assert fbed.select(X, Y, n_jobs=n_jobs).selected == (1,)


def test_constant_columns_get_a_note():
    assert fbed.select(np.column_stack([X, np.ones(N)]), Y).notes == ("1 constant column cannot be selected",)
    assert fbed.select(frame(c="same", d=0), Y).notes == ("2 constant columns cannot be selected",)
