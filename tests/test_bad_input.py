"""Bad and degenerate input through the three doors: the function, the scikit-learn selector and the command line.

Every case has one defined answer, and every door gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse
from sklearn.datasets import load_breast_cancer

import fbed
from fbed.cli.command import main
from fbed.result.result import Result


@dataclass
class Case:
    """Predictors and outcome; `match` is what the error says."""

    X: Any
    y: Any
    match: str
    file: str = "csv"  # by which the command line gets the data


def outcome_of_select(case: Case, *_: Any, **settings: Any) -> Result | str:
    try:
        return fbed.select(case.X, case.y, **settings)
    except fbed.InvalidInput as error:
        return str(error)


def outcome_of_selector(case: Case, *_: Any, **settings: Any) -> Result | str:
    try:
        return fbed.FBEDSelector(**settings).fit(case.X, case.y).result_
    except fbed.InvalidInput as error:
        return str(error)


def outcome_of_command(case: Case, folder: Any, capsys: Any, **settings: Any) -> Result | str:
    path = folder / f"data.{case.file}"
    if case.file == "npz":
        np.savez(path, X=np.asarray(case.X), y=np.asarray(case.y))
    else:
        table = pd.concat([case.X, pd.Series(np.asarray(case.y), name="y")], axis=1)
        table.to_csv(path, index=False) if case.file == "csv" else table.to_parquet(path, index=False)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    status = main(["select", str(path), "--target", "y", "--json", *options])
    out, err = capsys.readouterr()
    if status == 0:
        assert all(line.startswith("fbed: note: ") for line in err.splitlines())
        return Result.from_json(out)
    assert (status, out) == (2, "")
    assert err.startswith("fbed: error: ")
    assert err.count("\n") == 1, "one line"
    return err


DOORS = {"select": outcome_of_select, "selector": outcome_of_selector, "command": outcome_of_command}
each_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


def table(n: int = 30, p: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(n)
    return pd.DataFrame(rng.normal(size=(n, p)), columns=[f"x{j}" for j in range(p)])


def changed(column: str, values: Any) -> pd.DataFrame:
    """A table with some first values of a column replaced."""
    X = table()
    new = X[column].round(3).astype(object).to_numpy(copy=True)
    new[: len(values)] = values
    return X.assign(**{column: pd.Series(new).infer_objects()})


Y = table()["x0"].to_numpy() + np.random.default_rng(9).normal(size=30)
LABELS = np.where(Y > 0, "yes", "no")

REFUSED = {
    "missing number": Case(changed("x1", [np.nan, np.nan]), Y, r"NaN or missing values in 1 column: x1 \(2\)"),
    "infinite number": Case(changed("x1", [np.inf]), Y, r"infinite values in 1 column: x1 \(1\)"),
    "missing category": Case(table().assign(c=[None] + ["u", "v", "v"] * 9 + ["u", "v"]), Y, r"in 1 column: c \(1\)"),
    "missing outcome": Case(table(), np.where(np.arange(30) < 2, np.nan, Y), "y contains NaN or missing values in 2"),
    "infinite outcome": Case(
        table(), np.where(np.arange(30) < 1, np.inf, Y), "y contains infinity in 1 rows, which is no missing value"
    ),
    "missing label": Case(
        table(), np.array([None, *LABELS[1:]], dtype=object), "y contains NaN or missing values in 1"
    ),
    "repeated names": Case(table().set_axis(["a", "b", "a"], axis=1), Y, "unique, but 'a' occur"),
    "one class": Case(table(), np.repeat("yes", 30), r"single value \('yes'\)"),
    "constant outcome": Case(table(), np.full(30, 3.5), r"single value \(3.5\)"),
    "two rows": Case(table(2), [1.0, 2.0], "n_samples=2; selection needs at least 3"),
    "no predictors": Case(pd.DataFrame(index=range(30)), Y, r"0 feature\(s\)"),
    "short outcome": Case(table(), Y[:20], r"y has 20 values and X has 30 rows", file="npz"),
    "outcome with two columns": Case(table(), np.column_stack([Y, Y]), "one value a row", file="npz"),
    "stray text": Case(changed("x1", ["?", "?"]), Y, r"column 'x1' holds numbers, but also text in 2 rows: '\?'"),
    "stray text in the outcome": Case(
        table(), np.array(["-", *Y[1:].astype(str)]), r"y holds numbers, but also text in 1"
    ),
    "identifiers": Case(table().assign(id=[f"P{i}" for i in range(30)]), Y, "'id' holds text with 30 different values"),
    "dates": Case(
        table().assign(day=pd.date_range("2020-01-01", periods=30)), Y, "'day' holds Datetime", file="parquet"
    ),
    "dates as text": Case(
        table().assign(day=np.resize(["1.2.2020", "2.2.2020", "3.2.2020"], 30)), Y, "'day' holds dates written as text"
    ),
    "lists": Case(table().assign(l=[[1, 2]] * 30), Y, "column 'l' holds", file="parquet"),
    "complex numbers": Case(table().to_numpy() * 1j, Y, "Complex data not supported", file="npz"),
    "one dimension": Case(table().to_numpy()[:, 0], Y, "two dimensions", file="npz"),
    "text in an array": Case(np.full((30, 2), "a"), Y, "X must hold numbers", file="npz"),
}


@each_door
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case, door, tmp_path, capsys):
    answer = door(case, tmp_path, capsys)
    assert isinstance(answer, str), "accepted"
    assert pd.Series([answer]).str.contains(case.match).all(), answer


SETTINGS = {
    "alpha": ({"alpha": 1.5}, "alpha is a significance level"),
    "alpha_backward": ({"alpha_backward": 0.0}, "alpha_backward is a significance level"),
    "gamma": ({"criterion": "ebic", "gamma": 2.0}, "gamma must lie between 0 and 1"),
    "criterion": ({"criterion": "cp"}, "unknown criterion 'cp'"),
    "family": ({"family": "gama"}, "unknown family 'gama'"),
    "max_features": ({"max_features": -1}, "max_features must be a whole number"),
    "time_limit": ({"time_limit": -1.0}, "time_limit must be a number of seconds"),
    "n_jobs": ({"n_jobs": 0}, "n_jobs must be"),
    "missing": ({"missing": "mean"}, "missing must be 'error', 'drop'"),
    "categorical": ({"categorical": "x1"}, "categorical names column 'x1', which has 30 different values in 30 rows"),
    "test": ({"test": "wald", "family": "spearman"}, "family 'spearman' has no test 'wald'"),
    "link": ({"link": "probit"}, "family 'gaussian' has no option link="),
    "include": ({"include": "nobody"}, "include names 'nobody', which is not a column"),
    "exclude": ({"exclude": 17}, "exclude holds index 17, but there are 3 predictors"),
}


@each_door
@pytest.mark.parametrize(("settings", "message"), SETTINGS.values(), ids=SETTINGS)
def test_refused_settings(settings, message, door, tmp_path, capsys):
    answer = door(Case(table(), Y, ""), tmp_path, capsys, **settings)
    assert isinstance(answer, str), "accepted"
    assert message in answer


HUGE = np.where(np.arange(30) < 1, 1e200, np.round(np.exp(Y)))
OFFSET, FAR_OFFSET = np.where(np.arange(30) < 1, 800.0, 0.0), np.where(np.arange(30) < 1, 1e9, 0.0)
COUNTS = np.round(np.exp(Y))

BY_FAMILY = {
    "no counts": ("poisson", HUGE, {}, "beyond 2^53 numbers do not tell one count from the next"),
    "no counts either": ("negative_binomial", HUGE, {}, "beyond 2^53 numbers do not tell one count from the next"),
    "squares": ("mixed", HUGE, {"cluster": np.arange(30) // 3}, "whose square is beyond all numbers: divide y"),
    "squares in clusters": ("gee", HUGE, {"cluster": np.arange(30) // 3}, "whose square is beyond all numbers"),
    "offset": ("poisson", COUNTS, {"offset": FAR_OFFSET}, "offset ranges from 0 to 1e+09, but it is added to the log"),
    "offset of few digits": ("gamma", COUNTS + 1, {"offset": np.full(30, -1e9)}, "give counts' exposures"),
    "offset, classes": ("binomial", LABELS, {"offset": FAR_OFFSET}, "added to the log of a mean or of odds"),
    "offset, dispersion": ("negative_binomial", COUNTS, {"offset": OFFSET}, "offset ranges from 0 to 800"),
    "text": ("gaussian", Y.astype(str), {}, "turn text into numbers (pandas: pd.to_numeric)"),
    "a word": ("poisson", np.array(["many", *np.resize(["1", "2", "3"], 29)]), {}, "categories: 'many', '1', '2'"),
    "times": ("cox", (np.exp(Y).astype(str), np.ones(30)), {}, "time must hold numbers, got categories"),
}


@pytest.mark.parametrize("door", ["select", "selector"])
@pytest.mark.parametrize(("family", "y", "extras", "message"), BY_FAMILY.values(), ids=BY_FAMILY)
def test_refused_by_a_family(family, y, extras, message, door):
    call = partial(fbed.select, family=family) if door == "select" else fbed.FBEDSelector(family=family).fit
    with pytest.raises(fbed.InvalidInput) as caught:
        call(table(), y, **extras)
    assert message in str(caught.value)


def test_times_of_any_size():
    """Beyond what the mean of a Weibull distribution can be, nothing fails."""
    times = np.where(np.arange(30) < 1, 1e300, np.exp(Y))
    assert fbed.select(table(), (times, np.ones(30)), family="weibull").status == "converged"


@each_door
def test_extra_runs_are_counted_in_whole_numbers(door, tmp_path, capsys):
    if door is outcome_of_command:
        assert main(["select", "data.csv", "-k", "1.5"]) == 2
        assert "expected 0, 1, 2, … or inf, got '1.5'" in capsys.readouterr().err
    else:
        assert "k is the number of extra runs" in str(door(Case(table(), Y, ""), k=1.5))


WEIGHTS = {
    "negative": (np.where(np.arange(30) < 1, -1.0, 1.0), "finite and 0 or more"),
    "missing": (np.where(np.arange(30) < 1, np.nan, 1.0), "finite and 0 or more"),
    "nearly all zero": (np.where(np.arange(30) < 2, 1.0, 0.0), "at least 3 rows with a weight above zero, got 2"),
    "text": (np.repeat("heavy", 30), "sample_weight must hold numbers"),
    "short": (np.ones(20), "expected (30,)"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("weights", "message"), WEIGHTS.values(), ids=WEIGHTS)
def test_refused_weights(weights, message, door, tmp_path, capsys):
    X = table().to_numpy()
    if door == "command":
        np.savez(tmp_path / "data.npz", X=X, y=Y, w=weights)
        assert main(["select", str(tmp_path / "data.npz"), "--weights", "w"]) == 2
        answer = capsys.readouterr().err
        assert answer.count("\n") == 1
    else:
        call = fbed.select if door == "select" else fbed.FBEDSelector().fit
        with pytest.raises(fbed.InvalidInput) as caught:
            call(X, Y, sample_weight=weights)
        answer = str(caught.value)
    assert message in answer


@each_door
def test_constant_columns_are_never_selected(door, tmp_path, capsys):
    case = Case(table().assign(one=1, word="same", x3=lambda X: X["x0"]), Y, "")
    result = door(case, tmp_path, capsys)
    assert set(result.selected) == {"x0"}
    assert result.notes == ("2 constant columns cannot be selected",)


@each_door
def test_of_duplicate_columns_the_first_is_selected(door, tmp_path, capsys):
    X = table()
    case = Case(pd.DataFrame({"noise": X["x1"], "scaled": -3 * X["x0"], "same": X["x0"], "again": X["x0"]}), Y, "")
    assert door(case, tmp_path, capsys).selected == ("scaled",)


@each_door
def test_separated_classes(door, tmp_path, capsys):
    X = table()
    result = door(Case(X, np.where(X["x1"] > 0.1, "yes", "no"), ""), tmp_path, capsys)
    assert result.selected == ("x1",)
    assert result.status == "saturated"
    assert result.model.separated
    assert result.model.standard_errors is None
    assert "separated" in result.summary()


@each_door
def test_many_more_columns_than_rows(door, tmp_path, capsys):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(20, 500))).add_prefix("v")
    result = door(Case(X, 3 * X["v77"] + rng.normal(size=20), ""), tmp_path, capsys, criterion="ebic")
    assert result.selected == ("v77",)


@each_door
def test_all_columns_explain_nothing(door, tmp_path, capsys):
    result = door(Case(table(), np.random.default_rng(5).normal(size=30), ""), tmp_path, capsys, alpha=0.001)
    assert result.selected == ()
    assert result.model.terms == ("(intercept)",)


@each_door
def test_excluded_columns_may_hold_anything(door, tmp_path, capsys):
    case = Case(changed("x1", ["?", np.nan]), Y, "")
    assert door(case, tmp_path, capsys, exclude="x1").selected == ("x0",)


def test_missing_values_of_a_sparse_matrix():
    X = sparse.random(30, 4, 0.5, format="csr", random_state=0)
    X.data[0] = np.nan
    for call in (fbed.select, fbed.FBEDSelector().fit):
        with pytest.raises(fbed.InvalidInput, match="NaN or missing values in 1 column"):
            call(X, Y)


def test_numbers_beside_words_are_categories_when_they_are_few():
    n_children = np.resize(["0", "1", "2", "3 or more"], 30)
    result = fbed.select({"children": n_children, "x": table()["x0"]}, Y, include=["children"])
    assert result.model.terms[1:4] == ("children[1]", "children[2]", "children[3 or more]")


def test_extreme_measurements_are_no_separation():
    """Fitted probabilities near 0 and 1 are common in good models; the coefficients are finite all the same."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    result = fbed.select(X, y, criterion="ebic")
    reference = sm.Logit(y, sm.add_constant(X[list(result.selected)])).fit(disp=0, maxiter=100)
    assert not result.model.separated
    np.testing.assert_allclose(result.model.standard_errors, reference.bse, rtol=1e-5)


@pytest.mark.parametrize("n", [30, 3000])
def test_partial_separation_is_told(n):
    rng = np.random.default_rng(0)
    rare, x = (rng.random(n) < 0.1).astype(float), rng.normal(size=n)
    y = np.where(rare == 1, 1, x + rng.logistic(size=n) > 0)
    model = fbed.select(np.column_stack([x, rare]), y, include=[0, 1]).model
    rest = fbed.select(x[rare == 0][:, None], y[rare == 0], include=[0]).model
    assert model.separated
    assert model.infinite == {"1": 1}
    np.testing.assert_allclose(model.coefficients, [*rest.coefficients, np.inf], rtol=1e-6)
    np.testing.assert_allclose(model.standard_errors, [*rest.standard_errors, np.nan], rtol=1e-6)
    assert model.deviance == pytest.approx(rest.deviance, rel=1e-9)
