"""Tuning as a new user meets it: data and options that have no answer say so, the others get a finite one."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

import fbed
from fbed.api.larger_than_memory import Far
from fbed.errors import InvalidInput

RNG = np.random.default_rng
GRID = {"alphas": (0.01, 0.1), "gammas": (None,), "ks": (0,), "n_bootstraps": 30}
X = RNG(0).normal(size=(60, 5))
Y = (X[:, 0] + RNG(1).logistic(size=60) > 0).astype(int)
TIME = RNG(2).exponential(size=60)


def few(n: int) -> np.ndarray:
    return np.arange(60) < n


@pytest.mark.parametrize(
    ("words", "fit"),
    [
        (
            "fitted on 30 of 60 rows: y holds a",
            lambda: fbed.FBEDClassifier(cv=KFold(2), **GRID).fit(X, np.sort(Y)),
        ),
        ("classes with a single row", lambda: fbed.FBEDClassifier(**GRID).fit(X, few(1).astype(int))),
        (
            "48 of 60 rows: every time is cens",
            lambda: fbed.FBEDCox(cv=KFold(5), **GRID).fit(X, (TIME, few(8))),
        ),
        ("as many groups", lambda: fbed.FBEDClassifier(**GRID).fit(X, Y, groups=np.zeros(60))),
        ("rows out that it is fitted on", lambda: fbed.FBEDClassifier(cv=[(few(60), few(60))] * 2, **GRID).fit(X, Y)),
        ("holds a single row", lambda: fbed.FBEDCox(cv=60, **GRID).fit(X, (TIME, few(60)))),
        (
            "holds a single row",
            lambda: fbed.FBEDClassifier(family="ordinal", cv=60, scoring="c_index", **GRID).fit(
                X, few(30).astype(int) + few(9)
            ),
        ),
        ("the name of a score", lambda: fbed.FBEDClassifier(scoring=len, **GRID).fit(X, Y)),
        ("cannot be written", lambda: fbed.FBEDClassifier(resume="no/such/folder/f.npz", **GRID).fit(X, Y)),
        ("unseen must be", lambda: fbed.FBEDClassifier(unseen="zero", **GRID).fit(X, Y)),
    ],
)
def test_what_has_no_answer_says_so(words, fit):
    with pytest.raises(InvalidInput, match=words):
        fit()


@pytest.mark.parametrize(
    "fit",
    [
        lambda: fbed.FBEDClassifier(**GRID).fit(X, few(3).astype(int)),  # folds without a positive row
        lambda: fbed.FBEDClassifier(**GRID).fit(X[:6], [0, 1] * 3),
        lambda: fbed.FBEDRegressor(**GRID).fit(X[:5], X[:5, 0]),
        lambda: fbed.FBEDClassifier(**GRID).fit(X, Y, groups=np.arange(60)),
        lambda: fbed.FBEDClassifier(**GRID).fit(X, Y, sample_weight=few(30).astype(float)),
        lambda: fbed.FBEDClassifier(**GRID).fit(X, Y, sample_weight=np.where(few(1), 1e6, 1.0)),
        lambda: fbed.FBEDCox(**GRID).fit(X, (TIME, few(2))),  # folds without an event
        lambda: fbed.FBEDCox(**GRID).fit(X, (np.exp(-X[:, 0]), few(60))),  # hazards beyond any scale
        lambda: fbed.FBEDClassifier(missing="indicator", **GRID).fit(np.where(X > 1, np.nan, X), Y),
        lambda: fbed.FBEDClassifier(missing="indicator", **GRID).fit(X * [1, 1, np.nan, 1, 1], Y),
        lambda: fbed.FBEDClassifier(**GRID).fit(np.ones((60, 3)), Y),
        lambda: fbed.FBEDRegressor(**GRID).fit(X * 1e150, X[:, 0] * 1e-100 + 1e-101 * RNG(3).normal(size=60)),
        lambda: fbed.FBEDRegressor(**GRID).fit(np.hstack([X, X]), X[:, 0] + RNG(3).normal(size=60)),
        lambda: fbed.FBEDRegressor(family="poisson", **GRID).fit(X, few(4).astype(int)),
        lambda: fbed.FBEDClassifier(scoring="f1", **GRID).fit(X, Y),  # some samples have no row of a fold
        lambda: fbed.FBEDClassifier(scoring="roc_auc_ovr", **GRID).fit(X, RNG(4).integers(0, 3, size=60)),
    ],
)
def test_what_has_an_answer_gets_a_finite_one_without_warnings(fit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit()
    assert np.isfinite(model.bbc_score_)
    assert np.isfinite(model.path_.out_of_fold().risk).all()
    assert np.isfinite(model.model_.coefficients).all()
    assert fbed.Result.from_json(model.result_.to_json()).performance == model.performance_


def test_survival_is_known_where_hazards_do_not_fit_on_one_scale():
    model = fbed.FBEDCox(**GRID).fit(X, (np.exp(-X[:, 0]), few(60)))
    survival = model.predict_survival_function(X, return_array=True)
    assert np.isfinite(survival).all()
    assert (np.diff(survival, axis=1) <= 0).all()
    assert model.score(X, (np.exp(-X[:, 0]), few(60))) == 1.0
    assert np.isfinite(model.model_.log_likelihood)


def test_scores_that_folds_of_one_row_cannot_have_are_named():
    grid = {"alphas": (0.05,), "gammas": (), "ks": (0,), "fbs": False, "n_bootstraps": 20}
    model = fbed.FBEDClassifier(family="ordinal", cv=60, **grid).fit(X, few(30).astype(int) + few(9))
    assert np.isnan(model.bbc_score_)
    assert any("concordance index is not known" in note for note in model.result_.notes)
    assert np.isfinite(model.bbc_scores_["neg_log_loss"]).all()
    assert np.isfinite(fbed.FBEDClassifier(cv=60, **grid).fit(X, Y).bbc_score_)  # probabilities are on one scale


def test_levels_that_were_not_seen_are_refused_filled_or_left_out():
    frame = pd.DataFrame(X, columns=list("abcde")).assign(kind=RNG(5).choice(list("xyz"), size=60))
    new = frame[:3].assign(kind=["new", "x", "y"])
    with pytest.raises(InvalidInput, match="not seen"):
        fbed.FBEDClassifier(include=["kind"], **GRID).fit(frame, Y).predict_proba(new)
    none = fbed.FBEDClassifier(include=["kind"], unseen="missing", **GRID).fit(frame, Y).predict_proba(new)
    assert np.isnan(none).all(axis=1).tolist() == [True, False, False]
    mean = fbed.FBEDClassifier(include=["kind"], unseen="mean", **GRID).fit(frame, Y).predict_proba(new)
    assert np.isfinite(mean).all()
    assert np.array_equal(mean[1:], none[1:])


def test_tuning_reads_files(tmp_path):
    polars, dataset = pytest.importorskip("polars"), pytest.importorskip("pyarrow.dataset")
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=Y)
    frame.to_csv(tmp_path / "data.csv", index=False)
    expected = fbed.tune(frame, "y", **GRID).result.selected
    assert fbed.tune(tmp_path / "data.csv", "y", **GRID).result.selected == expected
    polars.from_pandas(frame).write_parquet(tmp_path / "data.parquet")
    for table in (polars.scan_parquet(tmp_path / "data.parquet"), dataset.dataset(tmp_path / "data.parquet")):
        assert fbed.tune(table, "y", **GRID).result.selected == expected
        assert fbed.path(table, "y", alphas=(0.1,), gammas=(), ks=(0,))[0].selected


def test_rows_that_do_not_fit_in_memory_are_refused(monkeypatch):
    monkeypatch.setattr("fbed.api.larger_than_memory.far_or_near", lambda *_: object.__new__(Far))
    with pytest.raises(InvalidInput, match="tuning needs the rows in memory"):
        fbed.tune(X, Y, **GRID)
    with pytest.raises(InvalidInput, match="a path needs the rows in memory"):
        fbed.path(X, Y)


def test_missing_values_of_new_rows_are_refused_filled_or_left_out():
    """A class was named for rows whose probabilities were not known."""
    frame = pd.DataFrame(X, columns=list("abcde"))
    new = frame[:3].assign(a=[np.nan, 0.0, 1.0])
    labels = np.where(Y, "yes", "no")
    options = {"include": ["a"], **GRID}
    for refusing in (
        fbed.FBEDClassifier(**options).fit(frame, labels),
        fbed.FBEDRegressor(**options).fit(frame, X[:, 1]),
    ):
        with pytest.raises(InvalidInput, match=r"'a' is missing in 1 rows.*unseen='missing' or 'mean'"):
            refusing.predict(new)
    left_out = fbed.FBEDClassifier(unseen="missing", **options).fit(frame, labels).predict(new)
    filled = fbed.FBEDClassifier(unseen="mean", **options).fit(frame, labels).predict(new)
    assert left_out[0] is None
    assert left_out[1:].tolist() == filled[1:].tolist()
    assert filled[0] in ("yes", "no")


def test_labels_of_several_types_are_refused():
    with pytest.raises(InvalidInput, match="y holds labels of several types"):
        fbed.FBEDClassifier(**GRID).fit(X, np.array([1 if value else "no" for value in Y], dtype=object))
