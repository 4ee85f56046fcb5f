"""The result: frozen, complete, saved and read back, and its final model that of statsmodels."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
from scipy import sparse

import fbed
from fbed.search.scan import Finding


def data(n=150, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * [1, 10, 0.1, 1, 1, 1] + [0, 5, 0, 0, -3, 0]
    signal = X[:, 0] - 0.1 * X[:, 1] + 5 * X[:, 2] + rng.normal(size=n)
    return X, signal


NAMES = list("abcdef")


def frame_with_category(n=150):
    X, signal = data(n)
    level = np.random.default_rng(1).choice(["low", "mid", "top"], n)
    frame = pd.DataFrame(X, columns=NAMES).assign(level=level)
    return frame, signal + np.select([level == "mid", level == "top"], [1.0, -1.0], 0.0)


@pytest.fixture
def linear():
    return fbed.select(*data())


def test_result_is_frozen(linear):
    with pytest.raises(FrozenInstanceError):
        linear.selected = ()
    with pytest.raises(FrozenInstanceError):
        linear.trace[0].statistic = 1.0
    with pytest.raises(FrozenInstanceError):
        linear.model.deviance = 0.0


def test_support_marks_the_selected(linear):
    assert np.flatnonzero(linear.support).tolist() == sorted(linear.selected)
    assert linear.support.shape == (6,)


def test_indices_are_in_order_of_selection(linear):
    added = [row.variable for row in linear.trace if row.action == "add"]
    assert list(linear.selected) == linear.indices.tolist() == added


@pytest.mark.parametrize("k", [0, 1, math.inf])
@pytest.mark.parametrize("early_dropping", [True, False])
def test_trace_adds_up_to_the_number_of_tests(k, early_dropping):
    X, y = data()
    result = fbed.select(X, y, k=k, early_dropping=early_dropping, alpha=0.3, alpha_backward=0.01)
    for phase in ("forward", "backward"):
        assert sum(row.tested for row in result.trace if row.phase == phase) == getattr(result.n_tests, phase)
    assert result.n_tests.total == sum(row.tested for row in result.trace)
    assert all(row.n_dropped == len(row.dropped) for row in result.trace)


def test_what_was_dropped_when_can_be_recovered():
    X, y = data()
    result = fbed.select(X, y, k=0)
    remaining = set(range(6))
    for row in result.trace:
        if row.phase == "forward":
            assert row.tested == len(remaining)
            remaining -= {*row.dropped.tolist(), row.variable}
    assert not remaining


def test_rows_that_change_nothing_hold_no_numbers():
    stop = fbed.select(*data()).trace[-1]
    assert (stop.phase, stop.action) == ("backward", "stop")
    assert [stop.variable, stop.statistic, stop.df, stop.log_p, stop.p_value, stop.score] == [None] * 6


def test_p_values_and_scores_belong_to_their_statistics(linear):
    for row in linear.trace:
        if row.variable is not None:
            assert row.p_value == pytest.approx(math.exp(row.log_p))
            assert row.score > 0


def test_runners_up_are_ordered_and_do_not_contain_the_winner():
    X, y = data(p=6)
    row = fbed.select(X, y, early_dropping=False, alpha=0.9).trace[0]
    merits = [finding.log_p for finding in row.runners_up]
    assert merits == sorted(merits)
    assert row.variable not in [finding.variable for finding in row.runners_up]
    assert row.log_p <= merits[0]


def test_every_candidate_knows_its_last_scan(linear):
    assert (linear.candidates.row >= 0).all()
    assert (linear.candidates.lower <= linear.candidates.upper).all()
    unknown = fbed.select(*data(), exclude=[1], include=[0])
    assert unknown.candidates.row[[0, 1]].tolist() == [-1, -1]
    assert np.isnan(unknown.candidates.lower[[0, 1]]).all()


def test_to_frame_has_a_row_a_scan(linear):
    frame = linear.to_frame()
    assert list(frame.columns) == [
        *("phase", "run", "action", "variable", "statistic", "df", "log_p", "p_value", "score"),
        *("tested", "dropped", "seconds"),
    ]
    assert frame["tested"].sum() == linear.n_tests.total
    assert frame["action"].tolist() == [row.action for row in linear.trace]


def round_trip(result, tmp_path):
    text = result.to_json(tmp_path / "result.json")
    again = fbed.Result.from_json(text)
    assert again.to_json() == text
    assert fbed.Result.from_json(tmp_path / "result.json").to_json() == text
    assert fbed.Result.from_json(str(tmp_path / "result.json")).to_json() == text
    json.loads(text, parse_constant=pytest.fail)  # NaN and Infinity are no JSON
    return again


def assert_equal(one, other):
    for name in ("selected", "trace", "n_tests", "model", "status", "family", "criterion", "classes", "n_rows", "n"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("n_variables", "feature_names", "n_forced", "notes", "settings", "seconds"):
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_array_equal(one.indices, other.indices)
    for name in ("row", "lower", "upper", "df"):
        np.testing.assert_array_equal(getattr(one.candidates, name), getattr(other.candidates, name))
    for row, again in zip(one.trace, other.trace, strict=True):
        np.testing.assert_array_equal(row.dropped, again.dropped)
    assert one.summary() == other.summary()


def saved(name):
    X, signal = data()
    frame, shifted = frame_with_category()
    binary = (signal > 0).astype(int)
    weights = np.random.default_rng(2).uniform(0.5, 2, len(signal))
    return {
        "linear": lambda: fbed.select(X, signal),
        "nothing selected": lambda: fbed.select(X, signal[::-1], alpha=1e-12),
        "logistic": lambda: fbed.select(X, binary),
        "text classes": lambda: fbed.select(X, np.where(binary, "yes", "no")),
        "bool classes": lambda: fbed.select(X, binary.astype(bool)),
        "categories": lambda: fbed.select(frame, shifted),
        "weights": lambda: fbed.select(frame, shifted, sample_weight=weights),
        "numpy numbers": lambda: fbed.select(X, signal, k=np.int64(1), n_jobs=np.int64(1), max_features=np.int32(2)),
        "separated": lambda: fbed.select(np.column_stack([X, binary]), binary),
        "all runs": lambda: fbed.select(X, signal, k=math.inf),
        "forced, excluded": lambda: fbed.select(frame, shifted, include=["b"], exclude=["c"]),
    }[name]()


SAVED = ("linear", "nothing selected", "logistic", "text classes", "bool classes", "categories", "weights")
SAVED += ("numpy numbers", "separated", "all runs", "forced, excluded")


@pytest.mark.parametrize("name", SAVED)
def test_json_round_trip(name, tmp_path):
    result = saved(name).settled()
    assert_equal(result, round_trip(result, tmp_path))


def test_json_of_an_infinite_time_limit(tmp_path):
    result = fbed.select(*data(), time_limit=math.inf)
    assert round_trip(result, tmp_path).settings == {**result.settings, "time_limit": None}


def test_json_of_classes_that_json_does_not_know(tmp_path):
    X, signal = data()
    for y in (np.where(signal > 0, b"a", b"b"), pd.cut(pd.Series(signal), [-99, 0, 99])):
        result = fbed.select(X, y)
        assert round_trip(result, tmp_path).classes == tuple(str(value) for value in result.classes)


def test_json_of_numbers_that_json_does_not_know(tmp_path):
    X, signal = data()
    huge = fbed.select(X, signal * 1e200)
    again = round_trip(huge, tmp_path)
    assert math.isinf(huge.model.deviance)
    assert math.isnan(again.model.deviance)
    assert again.model.coefficients == huge.model.coefficients


def test_json_of_an_infinite_score(linear, tmp_path):
    # a selected variable in the span of the others has nothing to be tested by: its critical value is infinite
    finding = Finding(variable=0, statistic=0.0, df=0.0, log_p=0.0, score=-math.inf, upper=0.0)
    trace = (replace(linear.trace[0], runners_up=(finding,)), *linear.trace[1:])
    again = round_trip(replace(linear, trace=trace), tmp_path)
    assert math.isnan(again.trace[0].runners_up[0].score)


def test_json_has_a_schema_version(linear):
    assert json.loads(linear.to_json())["schema"] == 3


@pytest.mark.parametrize("schema", [0, 1, None])
def test_json_of_another_schema_is_refused(linear, schema):
    plain = json.loads(linear.to_json()) | {"schema": schema}
    with pytest.raises(fbed.InvalidInput, match=f"not a result of schema 2 or 3 \\(found {schema}\\)"):
        fbed.Result.from_json(json.dumps(plain))


def test_transform_keeps_the_type():
    X, y = data()
    result = fbed.select(X, y)
    wanted = X[:, result.indices]
    np.testing.assert_array_equal(result.transform(X), wanted)
    np.testing.assert_array_equal(result.transform(X.tolist()), wanted)
    stored = result.transform(sparse.csr_array(X))
    assert sparse.issparse(stored)
    np.testing.assert_array_equal(stored.toarray(), wanted)
    framed = result.transform(pd.DataFrame(X, index=np.arange(len(X)) + 7))
    assert framed.index[0] == 7
    np.testing.assert_array_equal(framed.to_numpy(), wanted)


@pytest.mark.parametrize(
    "make, columns",
    [
        (lambda X: pd.DataFrame(X, columns=NAMES), lambda table: list(table.columns)),
        (lambda X: pl.DataFrame(X, schema=NAMES), lambda table: table.columns),
        (lambda X: pa.table({name: X[:, j] for j, name in enumerate(NAMES)}), lambda table: table.column_names),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_transform_finds_columns_by_name(make, columns):
    X, y = data()
    result = fbed.select(make(X), y)
    chosen = result.transform(make(X))
    assert type(chosen) is type(make(X))
    assert tuple(columns(chosen)) == result.selected
    other_order = pd.DataFrame(X, columns=NAMES)[NAMES[::-1]]
    np.testing.assert_array_equal(result.transform(other_order).to_numpy(), X[:, result.indices])


def test_transform_of_numbered_pandas_columns():
    X, y = data()
    numbered = pd.DataFrame(X)
    result = fbed.select(numbered, y)
    np.testing.assert_array_equal(result.transform(numbered).to_numpy(), X[:, result.indices])


def test_transform_of_nothing_keeps_the_rows():
    X, y = data()
    nothing = fbed.select(X, y, max_features=0)
    assert nothing.transform(X).shape == (150, 0)
    assert nothing.transform(sparse.csr_array(X)).shape == (150, 0)
    assert nothing.transform(pd.DataFrame(X)).shape == (150, 0)


def test_transform_of_another_table_is_refused(linear):
    X, y = data()
    for other in (X[:, :4], sparse.csr_array(X[:, :4]), pd.DataFrame(X[:, :4])):
        with pytest.raises(fbed.InvalidInput, match="X has 4 columns; the selection was made on 6"):
            linear.transform(other)
    named = fbed.select(pd.DataFrame(X, columns=NAMES), y)
    with pytest.raises(fbed.InvalidInput, match=r"the table lacks selected columns: \['"):
        named.transform(pd.DataFrame(X, columns=list("uvwxyz")))


def test_outcome_by_name_leaves_the_predictors_their_indices():
    X, y = data()
    frame = pd.DataFrame(X, columns=NAMES)
    frame.insert(1, "outcome", y)
    result = fbed.select(frame, "outcome")
    assert result.indices.tolist() == fbed.select(X, y).indices.tolist()
    assert result.feature_names == tuple(NAMES)
    assert list(result.transform(frame).columns) == list(result.selected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_model_is_that_of_statsmodels(family, weighted):
    frame, y = frame_with_category()
    y = y if family == "gaussian" else (y > y.mean()).astype(float)
    weights = np.random.default_rng(3).integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    result = fbed.select(frame, y, family=family, sample_weight=weights, include=["level", "b"])
    assert result.model.terms[:4] == ("(intercept)", "level[mid]", "level[top]", "b")
    columns = {f"level[{name}]": (frame["level"] == name).astype(float) for name in ("mid", "top")}
    design = np.column_stack([np.ones(len(y)), *(columns.get(t, frame.get(t)) for t in result.model.terms[1:])])
    kind = sm.families.Gaussian() if family == "gaussian" else sm.families.Binomial()
    expected = sm.GLM(y, design, family=kind, freq_weights=weights).fit(tol=1e-12)
    np.testing.assert_allclose(result.model.coefficients, expected.params, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(result.model.standard_errors, expected.bse, rtol=1e-5)
    assert result.model.deviance == pytest.approx(expected.deviance, rel=1e-8)
    assert result.model.null_deviance == pytest.approx(expected.null_deviance, rel=1e-8)
    assert result.family == result.model.family == family


def test_deviance_of_the_logistic_model_is_the_sum_of_the_statistics():
    X, signal = data()
    result = fbed.select(X, (signal > 0).astype(int), backward=False)
    explained = sum(row.statistic for row in result.trace if row.statistic is not None)
    assert result.model.deviance == pytest.approx(result.model.null_deviance - explained, rel=1e-9)


def test_separated_model_has_no_standard_errors():
    X, signal = data()
    binary = (signal > 0).astype(int)
    X[:, 3] = signal
    result = fbed.select(X, binary)
    assert (result.selected, result.status) == ((3,), "saturated")
    assert result.model.separated
    assert result.model.standard_errors is None
    assert result.model.deviance == 0.0
    assert result.trace[0].statistic == pytest.approx(result.model.null_deviance)
    assert "separated" in result.summary()


def test_a_term_of_a_quasi_separated_model_has_no_standard_error():
    _, signal = data()
    binary = (signal > 0).astype(int)
    rare = np.zeros(len(binary))
    rare[np.flatnonzero(binary)[:15]] = 1.0  # only ever seen with class 1
    model = fbed.select(rare[:, None], binary, include=[0]).model
    kept = rare == 0  # the supremum: the other rows fitted alone
    share = binary[kept].mean()
    assert model.separated
    assert model.coefficients == (pytest.approx(math.log(share / (1 - share))), math.inf)
    assert model.standard_errors[0] == pytest.approx((kept.sum() * share * (1 - share)) ** -0.5)
    assert math.isnan(model.standard_errors[1])
    wanted = -2 * kept.sum() * (share * math.log(share) + (1 - share) * math.log(1 - share))
    assert model.deviance == pytest.approx(wanted, rel=1e-8)


def test_an_outlier_does_not_make_a_model_separated():
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=99), 60.0)
    y = (rng.uniform(size=100) < 1 / (1 + np.exp(-x))).astype(int)
    y[-1] = 1
    model = fbed.select(x[:, None], y, include=[0]).model
    expected = sm.Logit(y, sm.add_constant(x)).fit(disp=0, tol=1e-12)
    assert abs(expected.fittedvalues[-1]) > 18
    assert not model.separated
    np.testing.assert_allclose(model.standard_errors, expected.bse, rtol=1e-6)


def test_a_column_in_the_span_of_earlier_ones_gets_no_coefficient():
    X, y = data()
    result = fbed.select(np.column_stack([X, X[:, 0]]), y, include=[0, 6], max_features=0)
    assert result.model.coefficients[2] == 0.0
    assert result.model.coefficients[1] == pytest.approx(
        fbed.select(X, y, include=[0], max_features=0).model.coefficients[1]
    )


@pytest.mark.parametrize("power", [-200, 200])
def test_standard_errors_follow_the_units_of_the_outcome(power):
    X, y = data()
    plain, scaled = fbed.select(X, y).model, fbed.select(X, y * 10.0**power).model
    np.testing.assert_allclose(np.array(scaled.standard_errors) / 10.0**power, plain.standard_errors, rtol=1e-8)


def test_summary_tells_what_happened(linear):
    text = linear.summary()
    assert str(linear) == text
    for part in ("FBED^1 selected 3 variables of 6", "gaussian", "150 rows", "converged", "(intercept)", "naive"):
        assert part in text
    assert f"{linear.n_tests.total} (" in text


def test_summary_names_the_modelled_class_and_the_equivalent_level():
    X, signal = data()
    text = fbed.select(X, np.where(signal > 0, "yes", "no"), criterion="bic").summary()
    assert "modelling 'yes'" in text
    assert "as a test at alpha = 0.0252" in text  # P(χ²₁ > log 150)


def test_summary_of_a_tiny_p_value_does_not_underflow():
    X, _ = data(n=2000)
    y = X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=2000)
    result = fbed.select(X, y)
    assert result.trace[0].p_value == 0.0
    exponent = math.floor(result.trace[0].log_p / math.log(10))
    assert f"e{exponent}" in result.summary()


def test_interrupt_inside_select_returns_what_was_found():
    X, y = data()

    def stop(progress):
        if progress.n_selected == 2:
            raise KeyboardInterrupt

    result = fbed.select(X, y, progress=stop)
    assert (len(result.selected), result.status, result.n_tests.backward) == (2, "interrupted", 0)
    assert len(result.model.coefficients) == 3


def test_time_limit_of_nothing_returns_nothing():
    result = fbed.select(*data(), time_limit=0)
    assert (result.selected, result.status) == ((), "time_limit")


def test_progress_adds_up():
    told = []
    result = fbed.select(*data(), progress=told.append)
    assert len(told) == len(result.trace)
    assert told[-1].tests == result.n_tests.total
    assert [report.variable for report in told] == [row.variable for row in result.trace]


def test_repr_is_one_line(linear):
    shown = repr(linear)
    assert "\n" not in shown
    assert len(shown) < 120
    assert shown.startswith(f"<Result: {len(linear.selected)} of ")
