"""What a variable is: a column, a category, or a group of columns; and what becomes of missing values."""

from __future__ import annotations

import dataclasses
import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline

import fbed
from family_cases import CASES, predictors, signal
from fbed.models.engines.binomial import CertifiedBinomialFit

N = 160
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 6))
Y = X[:, 1] + X[:, 2] - X[:, 4] + RNG.normal(size=N)
GROUPS = {"pair": [1, 2], "lone": [4]}
NAMES = list("abcdef")
FRAME = pd.DataFrame(X, columns=NAMES)

KINDS = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.from_pandas(frame),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "mapping": lambda frame: {name: frame[name].to_numpy() for name in frame},
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def refused(match, *args, **options):
    with pytest.raises(fbed.InvalidInput, match=match):
        fbed.select(*args, **options)


def steps(result):
    """The search without names and times."""
    return [(row.action, row.tested, row.n_dropped, row.df) for row in result.trace]


def numbers(result):
    return np.array([[row.statistic, row.log_p] for row in result.trace if row.statistic is not None])


def assert_same_search(found, expected, rtol=1e-7):
    assert steps(found) == steps(expected)
    assert_allclose(numbers(found), numbers(expected), rtol=rtol, atol=rtol)


# --- groups ---------------------------------------------------------------------------------------------------------


def test_a_group_is_tested_as_a_whole():
    result = fbed.select(X, Y, groups=GROUPS, criterion="bic")
    assert result.selected == ("pair", "lone")
    first = result.trace[0]
    f, p, df = sm.OLS(Y, sm.add_constant(X[:, [1, 2]])).fit().compare_f_test(sm.OLS(Y, np.ones(N)).fit())
    assert (first.variable, first.df, first.tested) == ("pair", df, 5)
    assert first.p_value == pytest.approx(p)
    assert first.statistic == pytest.approx(N * np.log1p(f * df / (N - 3)))


def test_columns_of_a_group_are_selected_together():
    result = fbed.select(FRAME, Y, groups={"pair": ["c", "b"], "lone": "e"}, criterion="bic")
    assert result.selected == ("pair", "lone")
    assert result.indices.tolist() == [2, 1, 4]
    assert np.flatnonzero(result.support).tolist() == [1, 2, 4]
    assert result.groups == {"pair": (2, 1), "lone": (4,)}
    assert list(result.transform(FRAME).columns) == ["c", "b", "e"]
    assert list(result.transform(FRAME[FRAME.columns[::-1]]).columns) == ["c", "b", "e"]
    assert result.transform(pl.from_pandas(FRAME)).columns == ["c", "b", "e"]
    assert result.model.terms == ("(intercept)", "c", "b", "e")
    assert [result.name(j) for j in (0, 1, 2, 4)] == ["a", "pair", "c", "lone"]
    assert "selected 2 variables of 5" in result.summary()


def test_arrays_and_sparse_matrices_have_groups_by_index():
    dense = fbed.select(X, Y, groups=GROUPS, criterion="bic")
    stored = fbed.select(sparse.csr_array(X), Y, groups=GROUPS, criterion="bic")
    assert dense.selected == stored.selected == ("pair", "lone")
    assert_array_equal(dense.transform(X), X[:, [1, 2, 4]])
    assert_array_equal(stored.transform(sparse.csr_array(X)).toarray(), X[:, [1, 2, 4]])
    assert_same_search(stored, dense)
    assert [dense.name(j) for j in (0, 1, 4)] == [0, "pair", "lone"]


def test_a_saved_result_knows_its_groups():
    result = fbed.select(X, Y, groups=GROUPS)
    again = fbed.Result.from_json(result.to_json())
    assert again.groups == result.groups
    assert again.selected == result.selected
    assert_array_equal(again.support, result.support)


def test_df_is_the_rank_that_a_group_adds():
    wide = np.column_stack([X, 2 * X[:, 1] - 3, X[:, 1] + X[:, 2], np.ones(N)])
    plain = fbed.select(X, Y, groups={"pair": [1, 2]})
    result = fbed.select(wide, Y, groups={"pair": [1, 2, 6, 7, 8]})
    assert result.trace[0].df == 2
    assert_same_search(result, plain)
    given = fbed.select(wide, Y, groups={"rest": [2, 6, 7]}, include=[1], exclude=[8], k=0)
    assert next(row.df for row in given.trace if row.variable == "rest") == 1


def test_groups_are_forced_in_and_left_out_by_name():
    result = fbed.select(X, Y, groups=GROUPS, include=["pair"])
    assert result.selected[0] == "pair"
    assert result.n_forced == 1
    assert result.trace[0].tested == 4
    excluded = fbed.select(np.where(np.isin(np.arange(6), [1, 2]), np.nan, X), Y, groups=GROUPS, exclude=["pair"])
    assert "pair" not in excluded.selected
    assert excluded.trace[0].tested == 4
    assert excluded.settings["n_excluded"] == 1
    refused("both included and excluded", X, Y, groups=GROUPS, include=["pair"], exclude=["pair"])


def test_a_group_counts_once_in_the_criterion_and_in_max_features():
    result = fbed.select(X, Y, groups=GROUPS, criterion=fbed.EBIC(gamma=1.0))
    # from no variable to one of five, with two columns
    assert result.trace[0].statistic - result.trace[0].score == pytest.approx(2 * np.log(N) + 2 * np.log(5))
    assert fbed.select(X, Y, groups=GROUPS, max_features=1).selected == ("pair",)


GROUPS_REFUSED = {
    "a missing column": ({"dose": ["d1", "b"]}, r"groups\['dose'\] names 'd1', which is not a column: did you mean"),
    "a missing index": ({"dose": [1, 17]}, r"groups\['dose'\] holds index 17, but there are 6 predictors"),
    "two groups": ({"one": ["a", "b"], "two": ["b"]}, "column 'b' is in two groups, 'one' and 'two'"),
    "the name of a column": ({"a": ["b", "c"]}, "group 'a' is called like a column"),
    "no columns": ({"dose": []}, "group 'dose' has no columns"),
    "no mapping": ([["a", "b"]], "groups must map the name of each group to its columns"),
    "no name": ({3: ["a", "b"]}, "names that are text, got 3"),
    "no list": ({"dose": 1.5}, r"groups\['dose'\] must be a list"),
}


@pytest.mark.parametrize(("groups", "match"), GROUPS_REFUSED.values(), ids=GROUPS_REFUSED)
def test_groups_that_are_refused(groups, match):
    refused(match, FRAME, Y, groups=groups)


@pytest.mark.parametrize("role", ["include", "exclude"])
def test_a_part_of_a_group_cannot_be_named(role):
    refused(f"{role} names column 'b', which is part of the group 'pair'", FRAME, Y, groups=GROUPS, **{role: ["b"]})


def case_data(case, seed=2, n=90):
    rng = np.random.default_rng(seed)
    frame = predictors(rng, n, case.predictors)
    y, extras = case.draw(rng, signal(frame))
    return frame, y, {"family": case.family, **case.options, **extras}


MIXED = [name for name, case in CASES.items() if case.predictors == "mixed"]


@pytest.mark.parametrize("name", MIXED)
def test_a_category_is_the_group_of_its_indicators(name):
    frame, y, options = case_data(CASES[name])
    dummies = frame.drop(columns="f").assign(f1=frame["f"] == "b", f2=frame["f"] == "c")
    found = fbed.select(dummies, y, groups={"f": ["f1", "f2"]}, alpha=0.2, include=["x0"], **options)
    expected = fbed.select(frame, y, alpha=0.2, include=["x0"], **options)
    assert set(found.selected) == set(expected.selected)
    assert_same_search(found, expected, 1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_group_of_one_is_its_column_by_another_name(name):
    frame, y, options = case_data(CASES[name])
    expected = fbed.select(frame, y, alpha=0.2, **options)
    names = {column: f"group of {column}" for column in frame}
    found = fbed.select(frame, y, groups={names[c]: [c] for c in frame}, alpha=0.2, **options)
    assert found.selected == tuple(names[column] for column in expected.selected)
    assert_same_search(found, expected, 0)


def test_tables_of_counts_see_a_group_as_combinations():
    rng = np.random.default_rng(3)
    codes = pd.DataFrame(rng.integers(0, 2, size=(300, 4)), columns=list("abcd"))
    y = np.where(rng.random(300) < 0.8, codes["a"] ^ codes["b"], rng.integers(0, 2, 300)).astype(str)
    result = fbed.select(codes, y, family="gsquare", groups={"ab": ["a", "b"]})
    joined = fbed.select(codes.assign(ab=2 * codes["a"] + codes["b"])[["ab", "c", "d"]], y, family="gsquare")
    assert result.selected == joined.selected == ("ab",)
    assert_same_search(result, joined)


def outcomes(rng, eta):
    return {
        "gaussian": eta + rng.normal(size=len(eta)),
        "binomial": np.where(eta + rng.logistic(size=len(eta)) > 0, "yes", "no"),
        "poisson": rng.poisson(np.exp(eta / 3)),
        "multinomial": np.array(["x", "y", "z"])[np.digitize(eta + rng.normal(size=len(eta)), [-1, 1])],
        "cox": (rng.exponential(np.exp(-eta)) + 0.01, rng.random(len(eta)) < 0.8),
    }


OUTCOMES = outcomes(RNG, Y)


@pytest.mark.parametrize("family", OUTCOMES)
@pytest.mark.parametrize("settings", [{"alpha": 0.99, "alpha_backward": 1e-6}, {"criterion": "bic", "k": 0}], ids=str)
def test_groups_that_share_a_span_are_removed_as_by_fits(family, settings):
    """Without one group another has more to say than it had when it came in."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(N, 6))
        shared = np.column_stack([Z[:, :2], Z[:, 1:3], Z[:, 2] + Z[:, 0], Z[:, 3:]])
        y = outcomes(rng, Z[:, :3] @ rng.normal(size=3) + Z[:, 4])[family]
        options = {"family": family, "groups": {"A": [0, 1], "B": [2, 3], "C": [4, 5]}, **settings}
        found, expected = (fbed.select(shared, y, engine=engine, **options) for engine in ("certified", "exhaustive"))
        assert found.selected == expected.selected
        assert_same_search(found, expected, 1e-6)


def test_nested_categories_are_removed_as_by_fits():
    rng = np.random.default_rng(5)
    town = rng.integers(0, 6, 300)
    frame = pd.DataFrame({"region": (town // 2).astype(str), "town": np.char.add("t", town.astype(str)), "x": town})
    y = rng.random(300) < 1 / (1 + np.exp(-(town - 2.5)))
    options = {"alpha": 0.999, "alpha_backward": 0.01, "k": 2}
    found = [fbed.select(frame, y, engine=engine, **options) for engine in ("certified", "exhaustive")]
    assert found[0].selected == found[1].selected
    assert_same_search(found[0], found[1], 1e-6)


def test_groups_have_bounds_as_other_columns_have(monkeypatch):
    """Nothing is fitted for a group in a certified scan."""
    monkeypatch.setattr(CertifiedBinomialFit, "deviance_with", lambda self, variable: pytest.fail("fitted"))
    found = fbed.select(X, OUTCOMES["binomial"], groups={"pair": [1, 2], "other": [3, 5]}, k=0)
    assert_same_search(
        found,
        fbed.select(X, OUTCOMES["binomial"], groups={"pair": [1, 2], "other": [3, 5]}, k=0, engine="exhaustive"),
        1e-6,
    )


# --- categories -----------------------------------------------------------------------------------------------------


CODES = RNG.integers(1, 5, N)
EFFECT = np.array([0.0, 2.0, -1.0, 1.5])[CODES - 1] + RNG.normal(size=N)


@each_kind
def test_codes_are_categories_when_the_user_says_so(kind):
    frame = FRAME.assign(grade=CODES)
    result = fbed.select(kind(frame), EFFECT, categorical=["grade"], criterion="bic")
    text = fbed.select(kind(frame.assign(grade=[f"g{code}" for code in CODES])), EFFECT, criterion="bic")
    assert result.selected == ("grade",)
    assert result.trace[0].df == 3
    assert result.model.terms == ("(intercept)", "grade[2]", "grade[3]", "grade[4]")
    assert_same_search(result, text)
    assert fbed.select(kind(frame), EFFECT, include=["grade"]).model.terms[1] == "grade"  # a number otherwise


@pytest.mark.parametrize("store", [np.asarray, sparse.csc_array, np.asfortranarray])
def test_columns_of_an_array_are_categories_by_index(store):
    table = store(np.column_stack([X, CODES]))
    result = fbed.select(table, EFFECT, categorical=[6], criterion="bic")
    expected = fbed.select(FRAME.assign(grade=CODES.astype(str)), EFFECT, criterion="bic")
    assert result.selected == (6,)
    assert result.model.terms[1] == "6[2]"
    assert_same_search(result, expected)
    named = fbed.select(table, EFFECT, feature_names=[*NAMES, "grade"], categorical="grade", criterion="bic")
    assert named.selected == ("grade",)


def test_categories_can_be_part_of_a_group():
    frame = FRAME.assign(grade=CODES, other=(CODES == 1).astype(str))
    result = fbed.select(frame, EFFECT, categorical=["grade"], groups={"both": ["grade", "a"]}, k=0)
    assert (result.trace[0].variable, result.trace[0].df) == ("both", 4)


def test_measurements_are_no_categories():
    match = r"categorical names column {}, which has 160 different values in 160 rows, like a measurement"
    refused(match.format("'a'"), FRAME, Y, categorical=["a"])
    refused(match.format("0"), X, Y, categorical=[0])
    refused("categorical names 'nobody', which is not a column", FRAME, Y, categorical=["nobody"])


def test_stray_words_among_numbers_are_categories_when_the_user_says_so():
    mixed = CODES.astype(str).astype(object)
    mixed[CODES == 4] = "?"
    refused(r"name it in categorical=\['c'\]", FRAME.assign(c=mixed), Y)
    result = fbed.select(FRAME.assign(c=mixed), EFFECT, categorical=["c"], include=["c"])
    assert result.model.terms[1:4] == ("c[2]", "c[3]", "c[?]")


@each_kind
def test_truth_values_are_one_column(kind):
    truth = Y > 0
    result = fbed.select(kind(FRAME.assign(t=truth)), truth + 0.3 * X[:, 0], k=0)
    assert "t" in result.selected
    assert next(row.df for row in result.trace if row.variable == "t") == 1
    assert "t" in result.model.terms


def test_a_single_level_is_a_constant():
    result = fbed.select(FRAME.assign(same="x", code=3), Y, categorical=["code"], alpha=0.9)
    assert not {"same", "code"} & set(result.selected)
    assert "2 constant columns cannot be selected" in result.notes


def test_rare_levels_are_noted_and_change_nothing_else():
    rare = np.where(np.arange(N) < 3, "seldom", np.where(np.arange(N) % 2, "odd", "even"))
    result = fbed.select(FRAME.assign(c=rare), Y, include=["c"])
    assert result.notes == (
        "levels with fewer than 5 rows: c (1 of 3); tests of such columns are rough, consider joining levels",
    )
    assert result.model.terms[1:3] == ("c[odd]", "c[seldom]")
    assert fbed.select(FRAME.assign(c=rare), Y, exclude=["c"]).notes == ()


def test_unseen_levels_do_not_matter_later():
    frame = FRAME.assign(grade=CODES.astype(str))
    result = fbed.select(frame, EFFECT, criterion="bic")
    later = frame.assign(grade="never seen")
    assert result.transform(later)["grade"].tolist() == ["never seen"] * N
    selector = fbed.FBEDSelector(criterion="bic").set_output(transform="pandas").fit(frame, EFFECT)
    assert selector.transform(later)["grade"].tolist() == ["never seen"] * N


DATES = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i % 20) for i in range(N)]
TIMES = {
    "datetime64": (pd.to_datetime(DATES), "holds Datetime"),
    "date objects": (pd.Series(DATES, dtype=object), "holds values of type date|holds Date"),
    "durations": (pd.to_timedelta(np.arange(N) % 20, unit="h"), "holds Duration"),
    "periods": (pd.Series(pd.PeriodIndex(pd.to_datetime(DATES), freq="D")), "which is neither a number nor a category"),
    "text": (np.array(DATES).astype(str), "holds dates written as text, such as '2020-01-01'"),
    "text with hours": (pd.to_datetime(DATES).strftime("%d.%m.%Y %H:%M"), "holds dates written as text"),
}


@pytest.mark.parametrize(("values", "match"), TIMES.values(), ids=TIMES)
def test_dates_are_refused(values, match):
    refused(match, FRAME.assign(day=values), Y)
    assert "a" in fbed.select(FRAME.assign(day=values), X[:, 0], exclude=["day"]).selected


def test_dates_as_text_are_labels_when_the_user_says_so():
    frame = FRAME.assign(day=np.array(DATES).astype(str))
    assert fbed.select(frame, Y, categorical=["day"], include=["day"], k=0).selected[0] == "day"


@pytest.mark.parametrize("values", [["1-2-3", "4-5-6", "x"], ["10.5", "11.5", "12"], ["1/2", "2/3", "3/4"]], ids=str)
def test_other_words_are_no_dates(values):
    fbed.select(FRAME.assign(c=np.resize(values, N)), Y)


@each_kind
def test_free_text_is_refused(kind):
    frame = FRAME.assign(who=[f"patient {i} was seen" for i in range(N)])
    refused(r"'who' holds text with 160 different values.*exclude=\['who'\]", kind(frame), Y)


# --- missing values -------------------------------------------------------------------------------------------------


def with_missing(frame=FRAME):
    """Missing numbers in b and f, missing words in c, and a column that is never used."""
    holes = frame.copy()
    holes.loc[[3, 5, 8], "b"] = np.nan
    holes.loc[[5, 20], "f"] = np.nan
    return holes.assign(word=[None if i in (8, 40) else "pq"[i % 2] for i in range(N)], junk=np.nan)


GONE = [3, 5, 8, 20, 40]


def test_missing_values_are_an_error_that_names_columns_and_counts():
    match = r"in 3 columns: b \(3\), f \(2\), word \(2\)\. Nothing is imputed silently.*missing='drop'.*'indicator'"
    refused(match, with_missing(), Y, exclude=["junk"])
    refused("missing must be 'error', 'drop'", FRAME, Y, missing="mean")


@each_kind
def test_drop_is_the_complete_rows(kind):
    holes = with_missing()
    result = fbed.select(kind(holes), Y, missing="drop", exclude=["junk"], alpha=0.2)
    rows = holes.drop(index=GONE).reset_index(drop=True)
    expected = fbed.select(kind(rows), np.delete(Y, GONE), exclude=["junk"], alpha=0.2)
    assert result.selected == expected.selected
    assert_same_search(result, expected, 0)
    assert (result.n_rows, result.settings["n_rows_dropped"]) == (N - 5, 5)
    assert result.notes == ("5 of 160 rows were dropped for missing values in b (3), f (2), word (2)",)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_drop_on_arrays(store):
    holes = X.copy()
    holes[[3, 5], 1] = np.nan
    holes[7, 5] = np.nan
    result = fbed.select(store(holes), Y, missing="drop", alpha=0.2)
    expected = fbed.select(store(np.delete(X, [3, 5, 7], axis=0)), np.delete(Y, [3, 5, 7]), alpha=0.2)
    assert result.selected == expected.selected
    assert_same_search(result, expected, 0)


def lacking(values, kind):
    """The same outcome with two values missing."""
    if kind == "numbers":
        return np.where(np.isin(np.arange(N), [2, 9]), np.nan, values)
    words = np.where(values > 0, "yes", "no").astype(object)
    words[[2, 9]] = None
    if kind == "words":
        return words
    if kind == "category":
        return pd.Series(pd.Categorical(words))
    if kind == "truth":
        return pd.array([None if w is None else w == "yes" for w in words], dtype="boolean")
    return pl.Series(words.tolist())


@pytest.mark.parametrize("kind", ["numbers", "words", "category", "truth", "polars"])
def test_rows_without_an_outcome_are_refused_or_dropped(kind):
    y = lacking(Y, kind)
    refused("y contains NaN or missing values in 2 rows.*missing='drop'", X, y)
    refused("y contains NaN or missing values in 2 rows", X, y, missing="indicator")
    result = fbed.select(X, y, missing="drop", alpha=0.2)
    known = np.delete(Y, [2, 9]) if kind == "numbers" else np.where(np.delete(Y, [2, 9]) > 0, "yes", "no")
    assert_same_search(result, fbed.select(np.delete(X, [2, 9], axis=0), known, alpha=0.2), 0)
    assert result.notes == ("2 of 160 rows were dropped for missing values in the outcome (2)",)


def test_rows_without_a_time_or_an_event_are_dropped():
    time, event = OUTCOMES["cox"]
    time, event = np.where(np.arange(N) == 4, np.nan, time), np.where(np.arange(N) == 6, np.nan, event)
    strata = np.arange(N) % 3
    result = fbed.select(X, (time, event), missing="drop", strata=strata, alpha=0.2)
    rows = np.delete(np.arange(N), [4, 6])
    expected = fbed.select(X[rows], (time[rows], event[rows]), strata=strata[rows], alpha=0.2)
    assert_same_search(result, expected, 0)
    assert result.family == "cox"


def test_weights_count_in_what_is_dropped():
    weights = (np.arange(N) % 3).astype(float)
    holes = X.copy()
    holes[[0, 1, 2], 1] = np.nan  # row 0 has no weight: it was never there
    result = fbed.select(holes, Y, missing="drop", sample_weight=weights, alpha=0.2)
    rows = np.flatnonzero((weights > 0) & (np.arange(N) > 2))
    assert_same_search(result, fbed.select(X[rows], Y[rows], sample_weight=weights[rows], alpha=0.2), 0)
    assert result.settings["n_rows_dropped"] == 2


def test_dropping_everything_is_an_error():
    holes = FRAME.assign(b=np.nan)
    refused(
        r"missing='drop' leaves 0 of 160 rows; values are missing in b \(160\): leave out", holes, Y, missing="drop"
    )


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_infinity_is_not_missing(missing):
    broken = X.copy()
    broken[0, 1] = np.inf
    for table in (broken, sparse.csc_array(broken)):
        refused("infinite values in 1 column: 1 .*missing= does not help", table, Y, missing=missing)


@each_kind
def test_an_indicator_joins_its_column(kind):
    holes = with_missing()
    y = Y + 4 * holes["b"].isna() + 0.5 * X[:, 5]
    result = fbed.select(kind(holes), y, missing="indicator", exclude=["junk"], include=["b"], criterion="aic")
    by_hand = FRAME.assign(
        b=holes["b"].fillna(holes["b"].mean()),
        b_missing=holes["b"].isna(),
        f=holes["f"].fillna(holes["f"].mean()),
        f_missing=holes["f"].isna(),
        word=holes["word"].fillna("~"),
    )
    groups = {"b*": ["b", "b_missing"], "f*": ["f", "f_missing"]}
    expected = fbed.select(by_hand, y, groups=groups, include=["b*"], criterion="aic")
    assert [f"{name}*" if name in "bf" else name for name in result.selected] == list(expected.selected)
    assert_same_search(result, expected, 1e-9)
    assert result.model.terms[1:3] == ("b", "b[missing]")
    assert_allclose(result.model.coefficients, expected.model.coefficients, rtol=1e-9)
    assert list(result.indices) == [NAMES.index(name) if name in NAMES else 6 for name in result.selected]
    (note,) = [note for note in result.notes if "indicators" in note]
    assert "in 3 columns: b (3), f (2), word (2)" in note
    assert "set to the mean of their column" in note


def test_indicators_of_arrays():
    holes = X.copy()
    holes[::7, 1] = np.nan
    dense = fbed.select(holes, Y, missing="indicator", alpha=0.2)
    stored = fbed.select(sparse.csr_array(holes), Y, missing="indicator", alpha=0.2)
    assert dense.selected == stored.selected
    assert_same_search(stored, dense, 1e-9)
    assert next(row.df for row in dense.trace if row.variable == 1) == 2
    assert np.isnan(holes).sum() == len(range(0, N, 7))  # the table of the user is as it was


def test_an_indicator_joins_the_group_of_its_column():
    holes = X.copy()
    holes[::7, 1] = np.nan
    result = fbed.select(holes, Y, missing="indicator", groups={"pair": [1, 2]}, k=0)
    assert (result.trace[0].variable, result.trace[0].df) == ("pair", 3)
    assert result.model.terms[1:4] == ("1", "1[missing]", "2")


def test_a_missing_category_is_a_level():
    word = np.where(CODES == 4, None, CODES.astype(str).astype(object))
    result = fbed.select(FRAME.assign(word=word), EFFECT, missing="indicator", criterion="bic")
    expected = fbed.select(FRAME.assign(word=CODES.astype(str)), EFFECT, criterion="bic")
    assert_same_search(result, expected)
    assert result.model.terms[-1] == "word[(missing)]"


def test_a_column_that_is_always_missing_is_constant():
    result = fbed.select(FRAME.assign(b=np.nan, e=[None] * N), Y, missing="indicator", alpha=0.9)
    assert not {"b", "e"} & set(result.selected)
    assert "2 constant columns cannot be selected" in result.notes


def test_the_mean_is_weighted():
    weights = 1.0 + np.arange(N) % 3
    holes = X.copy()
    holes[::7, 1] = np.nan
    rows = np.repeat(np.arange(N), weights.astype(int))
    found = fbed.select(holes, Y, missing="indicator", sample_weight=weights, alpha=0.2)
    assert_same_search(found, fbed.select(holes[rows], Y[rows], missing="indicator", alpha=0.2), 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_every_family_takes_groups_codes_and_missing_values(name):
    case = CASES[name]
    frame, y, options = case_data(case)
    frame = frame.astype({column: float for column in frame if frame[column].dtype.kind in "if"})
    frame.iloc[::9, 1] = np.nan
    for missing in ("drop", "indicator"):
        result = fbed.select(
            frame, y, groups={"two": ["x0", "x3"]}, categorical=["x3"], missing=missing, alpha=0.5, **options
        )
        assert np.isfinite(numbers(result)).all()
        assert result.settings["missing"] == missing


# --- the other doors ------------------------------------------------------------------------------------------------


def test_the_selector_keeps_groups_whole():
    selector = fbed.FBEDSelector(groups={"pair": ["b", "c"]}, criterion="bic").fit(FRAME, Y)
    assert selector.result_.selected == ("pair", "e")
    assert_array_equal(selector.get_support(), [False, True, True, False, True, False])
    assert_array_equal(selector.get_feature_names_out(), ["b", "c", "e"])
    assert_array_equal(selector.transform(FRAME), X[:, [1, 2, 4]])
    assert selector.n_features_in_ == 6


@pytest.mark.parametrize("missing", ["drop", "indicator"])
@pytest.mark.parametrize("make", [np.asarray, lambda X: pd.DataFrame(X, columns=NAMES)], ids=["array", "frame"])
def test_the_selector_lets_missing_values_pass(missing, make):
    holes = X.copy()
    holes[::7, 1] = np.nan
    pipeline = make_pipeline(fbed.FBEDSelector(missing=missing, criterion="bic"), HistGradientBoostingRegressor())
    fitted = pipeline.fit(make(holes), Y)
    assert_array_equal(fitted[0].transform(make(holes)), holes[:, [1, 2, 4]])
    assert fitted.score(make(holes), Y) > 0.5
    broken = np.where(np.arange(6) == 2, np.inf, holes)
    with pytest.raises(ValueError, match="infinity"):
        fitted[0].transform(make(broken))


def test_a_graph_has_no_groups_and_nothing_missing():
    graph = fbed.graphs.DAG([("a", "y"), ("b", "y")])
    for options in ({"groups": {"g": ["a"]}}, {"categorical": ["a"]}, {"missing": "drop"}):
        refused(f"{next(iter(options))} is about data and models", graph, "y", family="oracle", **options)


def test_a_path_takes_groups_codes_and_missing_values():
    holes = with_missing()
    options = {"groups": {"pair": ["b", "c"]}, "missing": "drop", "exclude": ["junk"]}
    grid = fbed.path(holes, Y, alphas=(0.05,), gammas=(), ks=(1,), fbs=False, **options)
    single = fbed.select(holes, Y, **options)
    assert grid[0].selected == single.selected
    assert dataclasses.replace(grid[0], seconds=0).settings == single.settings
