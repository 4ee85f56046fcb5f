"""The predictors: scikit-learn's own checks, scikit-survival's habits, and the commands that use them."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.tuning_cases import SMALL, extras, outcome, table

import fbed
from fbed.cli.command import main
from fbed.errors import InvalidInput

TINY = {"cv": 3, "n_bootstraps": 10, "alphas": (), "gammas": (None,), "ks": (0,), "fbs": False}


@parametrize_with_checks([fbed.FBEDClassifier(**TINY), fbed.FBEDRegressor(**TINY)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_a_classifier_has_what_was_promised():
    frame = table()
    y = outcome("binomial", frame)
    model = fbed.FBEDClassifier(**SMALL).fit(frame, y, groups=np.arange(150) // 3)
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(model.predict(frame), model.classes_[model.predict_proba(frame).argmax(axis=1)])
    np.testing.assert_allclose(model.decision_function(frame), np.log(np.divide(*model.predict_proba(frame).T[::-1])))
    assert model.selected_ == model.result_.selected
    assert model.support_.sum() == len(model.selected_)
    assert len(model.fold_selected_) == 3
    assert set(model.selection_frequency_.values()) <= {1 / 3, 2 / 3, 1.0}
    assert model.bbc_interval_[0] < model.bbc_score_ < model.bbc_interval_[1]
    assert model.best_params_ == model.cv_results_["params"][model.best_index_]
    assert clone(model).get_params()["cv"] == 3


def test_ordered_and_renamed_classes_keep_their_columns():
    import pandas as pd

    frame = table()
    y = pd.Categorical.from_codes(outcome("ordinal", frame), categories=["low", "mid", "high"], ordered=True)
    model = fbed.FBEDClassifier(family="ordinal", **SMALL).fit(frame, pd.Series(y))
    assert model.classes_.tolist() == ["high", "low", "mid"]
    assert np.mean(model.predict(frame) == np.asarray(y)) > 0.45


def test_a_regressor_of_counts_with_exposure():
    frame = table()
    years = np.random.default_rng(0).uniform(1, 3, size=150)
    y = outcome("poisson", frame)
    model = fbed.FBEDRegressor(family="poisson", **SMALL).fit(frame, y, exposure=years)
    np.testing.assert_allclose(model.predict(frame, exposure=2 * years), 2 * model.predict(frame, exposure=years))
    with pytest.raises(InvalidInput, match="give that of the new rows"):
        model.predict(frame)
    with pytest.raises(InvalidInput, match="FBEDRegressor is for the families"):
        fbed.FBEDRegressor(family="cox").fit(frame, y)


def test_missing_values_pass_through_an_estimator():
    frame = table(missing=True)
    model = fbed.FBEDRegressor(missing="indicator", **SMALL).fit(frame, outcome("gaussian", frame))
    assert np.isfinite(model.predict(table(40, seed=3, missing=True))).all()


@pytest.mark.parametrize("family", ["cox", "weibull"])
def test_survival_by_the_conventions_of_scikit_survival(family):
    frame = table()
    time, event = outcome("cox", frame)
    y = np.array(list(zip(event, time, strict=True)), dtype=[("status", bool), ("months", float)])
    X = frame.drop(columns="kind")
    model = fbed.FBEDCox(family=family, **SMALL).fit(X, y)
    assert 0.5 < model.score(X, y) <= 1.0
    curves = model.predict_survival_function(X[:4])
    array = model.predict_survival_function(X[:4], return_array=True)
    assert array.shape == (4, len(model.unique_times_))
    assert (np.diff(array, axis=1) <= 0).all()
    assert curves[0](0.0) == 1.0
    assert curves[1](model.unique_times_[3]) == array[1, 3]
    hazard = model.predict_cumulative_hazard_function(X[:4], return_array=True)
    np.testing.assert_allclose(np.exp(-hazard), array)
    assert (np.argsort(model.predict(X[:4])) == np.argsort(-array[:, 5])).all()
    if family == "cox":
        scores = cross_val_score(fbed.FBEDCox(**TINY), X.to_numpy(), y, cv=3)
        assert np.isfinite(scores).all()


def test_mixed_models_keep_clusters_in_one_fold():
    frame = table()
    cluster = extras("mixed", 150)["cluster"]
    model = fbed.FBEDRegressor(family="mixed", **SMALL).fit(frame, outcome("mixed", frame), cluster=cluster)
    for train, test in model.path_.folds:
        assert not set(cluster[train]) & set(cluster[test])


# -- commands --------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    old, new = table(150), table(60, seed=9)
    old.assign(y=outcome("binomial", old)).to_csv(tmp_path / "old.csv", index=False)
    new.assign(y=outcome("binomial", new), id=range(60)).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def test_tune_predict_and_validate_from_files(files, capsys):
    model, new = str(files / "model.json"), str(files / "new.csv")
    grid = ["--alphas", "0.01", "0.1", "--gammas", "-k", "0", "--no-fbs", "--cv", "3", "--bootstraps", "20", "-q"]
    tune = ["tune", str(files / "old.csv"), "--target", "y", "--save", model, "--report", str(files / "r.html"), *grid]
    assert main(tune) == 0
    shown = capsys.readouterr()
    assert "performance, out of fold" in shown.out
    assert "the model is in" in shown.err
    assert max(map(len, shown.out.splitlines())) <= 80
    assert 'id="performance"' in (files / "r.html").read_text(encoding="utf-8")
    assert main(["predict", model, new, "--keep", "id"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    saved = fbed.Result.from_json(files / "model.json").model
    expected = saved.predict(table(60, seed=9))
    assert [row["id"] for row in rows] == [str(i) for i in range(60)]
    np.testing.assert_allclose([float(row["P(yes)"]) for row in rows], expected, rtol=1e-12)
    assert main(["validate", model, new, "--target", "y", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n_rows"] == 60
    assert told["scores"][0]["name"] == "roc_auc"
    assert main(["validate", model, new, "--target", "y"]) == 0
    assert "Calibration slope" in capsys.readouterr().out


def test_predict_says_what_it_did_and_refuses_what_does_not_fit(files, capsys):
    model = str(files / "model.json")
    frame = table(150)
    fbed.select(frame, outcome("gaussian", frame), include=["kind", "a"]).to_json(model)
    new = table(10, seed=2)
    new.loc[0, "kind"] = "strange"
    new.loc[1, "a"] = np.nan
    new.to_csv(files / "new.csv", index=False)
    assert main(["predict", model, str(files / "new.csv"), "--interval", "0.9"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1] == ",,"
    assert shown.out.splitlines()[2] == ",,"
    assert "strange" in shown.err
    assert "'a' is missing in 1 rows" in shown.err
    assert main(["predict", model, str(files / "new.csv"), "--unseen", "error"]) == 2
    new.drop(columns="a").to_csv(files / "new.csv", index=False)
    assert main(["predict", model, str(files / "new.csv")]) == 2
    assert "lacks columns of the model: 'a'" in capsys.readouterr().err
    assert main(["validate", model, str(files / "new.csv")]) == 2
    assert "--target" in capsys.readouterr().err


def test_validate_leaves_rows_without_an_outcome_out_and_refuses_text_for_numbers(files, capsys):
    model, new = str(files / "model.json"), files / "new.csv"
    frame = table(150)
    fbed.select(frame, outcome("binomial", frame), include=["a"]).to_json(model)
    rows = table(60, seed=9)
    labels = outcome("binomial", rows).astype(object)
    labels[:4] = None
    rows.assign(y=labels, time=1.0, event=1).to_csv(new, index=False)
    assert main(["validate", model, str(new), "--target", "y", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["n_rows"] == 56
    assert "the outcome is missing in 4 rows, which are left out" in shown.err
    assert main(["validate", model, str(new), "--target", "y", "--weights", "kind"]) == 2
    assert "must hold numbers" in capsys.readouterr().err
    assert main(["predict", model, str(new), "--offset", "kind"]) == 2
    assert "--offset 'kind' must hold numbers" in capsys.readouterr().err
    assert main(["validate", model, str(new), "--time", "time", "--event", "event"]) == 2
    assert "and no survival times" in capsys.readouterr().err
