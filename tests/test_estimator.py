"""The scikit-learn door: the contract, and what people do with a selector."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fbed
from fbed import FBEDSelector
from fbed.tables.extras import EXTRAS


@pytest.mark.filterwarnings("ignore:No features were selected")
@parametrize_with_checks(
    [
        FBEDSelector(),
        FBEDSelector(criterion="ebic", k=math.inf),
        FBEDSelector(early_dropping=False),
        FBEDSelector(missing="indicator", groups={"first": [0]}),
        FBEDSelector(missing="drop"),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    return X, 2 * X[:, 5] - X[:, 2] + rng.normal(size=200)


@pytest.fixture
def frame():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(240, 5)), columns=list("abcde"))
    X["colour"] = rng.choice(["red", "green", "blue"], 240)
    X["size"] = pd.Categorical(rng.choice(["S", "L"], 240), categories=["S", "L"])
    X["count"] = rng.integers(0, 9, 240)
    y = (X["a"] + 2 * (X["colour"] == "red") + 0.3 * X["count"] + rng.logistic(size=240) > 2).astype(int)
    return X, y


def test_same_answer_as_select(numbers):
    X, y = numbers
    for settings in (
        {"k": 0},
        {"criterion": "bic"},
        {"alpha": 0.2, "max_features": 1},
        {"include": [0], "exclude": [5]},
    ):
        selector, result = FBEDSelector(**settings).fit(X, y), fbed.select(X, y, **settings)
        assert selector.result_.selected == result.selected
        assert_array_equal(selector.support_, result.support)


def test_parameters_are_those_of_select():
    import inspect

    selector = inspect.signature(FBEDSelector).parameters
    function = inspect.signature(fbed.select).parameters
    belong_to_fit = {"X", "y", "sample_weight", *EXTRAS}
    assert set(inspect.signature(FBEDSelector.fit).parameters) == belong_to_fit | {"self"}
    where_rows_are = {"memory_limit", "checkpoint", "client", "device"}  # an estimator has them in memory
    assert set(selector) == set(function) - belong_to_fit - {"feature_names"} - where_rows_are
    assert all(selector[name].default == function[name].default for name in selector)


def test_transform_keeps_the_order_of_the_table(numbers):
    X, y = numbers
    selector = FBEDSelector(criterion="ebic").fit(X, y)
    assert selector.result_.selected == (5, 2)
    assert_array_equal(selector.transform(X), X[:, [2, 5]])
    assert_array_equal(selector.get_feature_names_out(), ["x2", "x5"])


def test_sparse_matrix_stays_sparse(numbers):
    X, y = numbers
    selector = FBEDSelector(criterion="ebic").fit(sparse.csr_array(X), y)
    out = selector.transform(sparse.csr_array(X))
    assert sparse.issparse(out)
    assert_array_equal(out.toarray(), X[:, [2, 5]])


def test_frame_with_text_and_categories(frame):
    X, y = frame
    selector = FBEDSelector(criterion="bic").fit(X, y)
    assert selector.result_.selected == fbed.select(X, y, criterion="bic").selected
    assert set(selector.get_feature_names_out()) == {"a", "colour", "count"}
    assert_array_equal(selector.feature_names_in_, X.columns)


@pytest.mark.parametrize(
    "convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output_keeps_the_types_of_the_columns(frame, convert, output):
    X, y = frame
    selector = FBEDSelector(criterion="bic").set_output(transform=output)
    out = selector.fit_transform(convert(X), y)
    assert isinstance(out, pd.DataFrame if output == "pandas" else pl.DataFrame)
    assert list(out.columns) == ["a", "colour", "count"]
    assert out["a"].to_list() == X["a"].to_list()
    assert out["colour"].to_list() == X["colour"].to_list()
    assert str(out["count"].dtype).lower() == "int64"


def test_set_output_of_a_pandas_frame_keeps_its_index(frame):
    X, y = frame
    X = X.set_index(np.arange(1000, 1240))
    out = FBEDSelector(criterion="bic").set_output(transform="pandas").fit_transform(X, y)
    assert_array_equal(out.index, X.index)


def test_array_out_of_numeric_columns_is_numeric_beside_text(frame):
    X, y = frame
    out = FBEDSelector(criterion="bic", exclude=["colour"]).fit_transform(X, y)
    assert out.dtype == np.float64
    assert_array_equal(out, X[["a", "count"]].to_numpy())


def test_columns_that_were_left_out_may_hold_anything(frame, numbers):
    X, y = frame
    later = X.assign(b=np.nan)
    selector = FBEDSelector(criterion="bic").fit(X, y)
    assert_array_equal(selector.transform(later), selector.transform(X))
    X, y = numbers
    X = np.column_stack([X, np.full(len(X), np.nan)])
    selector = FBEDSelector(criterion="ebic", exclude=[8]).fit(X, y)
    assert_array_equal(selector.transform(X), X[:, [2, 5]])


def test_missing_values_in_kept_columns_are_refused(frame, numbers):
    X, y = frame
    selector = FBEDSelector(criterion="bic").fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        selector.transform(X.assign(a=np.nan))
    X, y = numbers
    selector = FBEDSelector(criterion="ebic", exclude=[7]).fit(X, y)
    X[0, 5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        selector.transform(X)


def test_columns_in_another_order_are_refused(frame):
    X, y = frame
    selector = FBEDSelector().fit(X, y)
    with pytest.raises(ValueError, match="feature names should match"):
        selector.transform(X[X.columns[::-1]])


def test_pipeline_on_mixed_columns(frame):
    X, y = frame
    text = make_column_selector(dtype_exclude=np.number)
    encode = make_column_transformer((OneHotEncoder(), text), remainder="passthrough")
    pipeline = make_pipeline(FBEDSelector(criterion="bic").set_output(transform="pandas"), encode, LogisticRegression())
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.6


def test_grid_search_over_k_and_alpha(numbers):
    X, y = numbers
    pipeline = Pipeline([("scale", StandardScaler()), ("select", FBEDSelector()), ("fit", LinearRegression())])
    grid = GridSearchCV(pipeline, {"select__k": [0, 1, math.inf], "select__alpha": [0.001, 0.3]}, cv=3).fit(X, y)
    assert set(grid.best_estimator_["select"].get_support(indices=True)) >= {2, 5}
    assert len(grid.cv_results_["params"]) == 6
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


def test_grid_search_over_criterion_objects(numbers):
    X, y = numbers
    pipeline = make_pipeline(FBEDSelector(), LinearRegression())
    criteria = [fbed.EBIC(gamma=0.5), fbed.LikelihoodRatio(0.01), "aic"]
    grid = GridSearchCV(pipeline, {"fbedselector__criterion": criteria}, cv=3).fit(X, y)
    assert grid.best_params_["fbedselector__criterion"] in criteria


def test_weights_are_frequencies(numbers):
    X, y = numbers
    weights = np.arange(200) % 3
    weighted = FBEDSelector(alpha=0.3).fit(X, y, sample_weight=weights)
    repeated = FBEDSelector(alpha=0.3).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.result_.selected == repeated.result_.selected
    assert weighted.result_.n == weights.sum()


def test_weights_are_routed(numbers):
    X, y = numbers
    weights = np.arange(200) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        selector = FBEDSelector().set_fit_request(sample_weight=True)
        regression = LinearRegression().set_fit_request(sample_weight=False)
        routed = make_pipeline(selector, regression).fit(X, y, sample_weight=weights)
        unasked = make_pipeline(
            FBEDSelector().set_fit_request(sample_weight=False), LinearRegression().set_fit_request(sample_weight=True)
        )
        assert unasked.fit(X, y, sample_weight=weights)[0].result_.n == 200
    assert routed[0].result_.n == weights.sum()


def survival(X):
    rng = np.random.default_rng(3)
    time = rng.exponential(np.exp(-X[:, 5]))
    y = np.empty(len(X), dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = time < 2, np.minimum(time, 2)
    return y


def test_survival_times_are_a_structured_array(numbers):
    X, _ = numbers
    selector = FBEDSelector(criterion="ebic").fit(X, survival(X))
    assert selector.result_.family == "cox"
    assert selector.result_.selected == (5,)


def test_extras_are_those_of_select(numbers):
    X, _ = numbers
    rng = np.random.default_rng(4)
    exposure, subject, strata = rng.uniform(1, 9, 200), np.repeat(np.arange(40), 5), rng.integers(0, 3, 200)
    counts, trials = rng.poisson(exposure * np.exp(0.3 * X[:, 1])), rng.integers(1, 9, 200)
    successes = rng.binomial(trials, 1 / (1 + np.exp(-X[:, 2])))
    cases = [
        ({"family": "poisson"}, counts, {"exposure": exposure}),
        ({"family": "poisson"}, counts, {"offset": np.log(exposure)}),
        ({"family": "poisson", "cov": "cluster"}, counts, {"cluster": subject}),
        ({"family": "gaussian", "cov": "HC3"}, counts, {}),
        ({"test": "score"}, successes, {"trials": trials}),
        ({"family": "ordinal", "link": "probit"}, np.minimum(counts, 4), {}),
        ({}, survival(X), {"strata": strata, "entry": survival(X)["time"] / 2}),
    ]
    for settings, y, extras in cases:
        fitted, expected = FBEDSelector(**settings).fit(X, y, **extras).result_, fbed.select(X, y, **settings, **extras)
        assert fitted.selected == expected.selected
        assert [row.statistic for row in fitted.trace] == [row.statistic for row in expected.trace]


def test_extras_are_routed_and_cut_into_folds(numbers):
    X, _ = numbers
    exposure = np.random.default_rng(5).uniform(1, 9, 200)
    y = np.random.default_rng(6).poisson(exposure * np.exp(0.5 * X[:, 1]))
    with sklearn.config_context(enable_metadata_routing=True):
        selector = FBEDSelector(family="poisson", criterion="ebic").set_fit_request(exposure=True)
        pipeline = make_pipeline(selector, LinearRegression())
        routed = pipeline.fit(X, y, exposure=exposure)[0].result_
        grid = GridSearchCV(pipeline, {"fbedselector__k": [0, 1]}, cv=3).fit(X, y, exposure=exposure)
    expected = fbed.select(X, y, family="poisson", criterion="ebic", exposure=exposure)
    assert routed.to_frame().equals(expected.to_frame().assign(seconds=routed.to_frame()["seconds"]))
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


def test_clone_and_pickle(numbers):
    X, y = numbers
    selector = FBEDSelector(criterion=fbed.EBIC(gamma=0.5), include=(1,), k=2)
    assert clone(selector).get_params() == selector.get_params()
    fitted = selector.fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.result_.selected == fitted.result_.selected
    assert_array_equal(again.transform(X), fitted.transform(X))
    assert not hasattr(clone(fitted), "result_")


def test_nothing_selected_warns_and_has_no_columns(frame):
    X, _ = frame
    y = np.random.default_rng(2).normal(size=len(X))
    for output, shape in (("default", (240, 0)), ("pandas", (240, 0))):
        selector = FBEDSelector(alpha=1e-9).set_output(transform=output).fit(X, y)
        with pytest.warns(UserWarning, match="No features were selected"):
            assert selector.transform(X).shape == shape


def test_interrupt_is_stored_and_raised_again(numbers):
    X, y = numbers

    def stop_after_two_scans(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    selector = FBEDSelector(progress=stop_after_two_scans)
    with pytest.raises(KeyboardInterrupt):
        selector.fit(X, y)
    assert selector.result_.status == "interrupted"
    assert selector.result_.selected == (5, 2)
    assert_array_equal(selector.get_support(indices=True), [2, 5])


def test_interrupt_ends_a_grid_search(numbers):
    X, y = numbers

    def stop(progress):
        raise KeyboardInterrupt

    grid = GridSearchCV(
        make_pipeline(FBEDSelector(progress=stop), LinearRegression()), {"fbedselector__k": [0, 1]}, cv=3
    )
    with pytest.raises(KeyboardInterrupt):
        grid.fit(X, y)


@pytest.mark.parametrize("role", ["y", "sample_weight", *EXTRAS])
def test_names_of_columns_are_refused(frame, role):
    X, y = frame
    given = {"y": y, role: "count"}
    with pytest.raises(fbed.InvalidInput, match=r"fbed\.select"):
        FBEDSelector().fit(X, **given)


def test_unfitted_selector_says_so(numbers):
    for method in ("transform", "get_support"):
        with pytest.raises(NotFittedError):
            getattr(FBEDSelector(), method)(*([numbers[0]] if method == "transform" else []))


def test_importing_fbed_does_not_import_scikit_learn():
    import subprocess
    import sys

    code = "import sys, fbed; assert 'sklearn' not in sys.modules; fbed.FBEDSelector; assert 'sklearn' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "FBEDSelector" in dir(fbed)
