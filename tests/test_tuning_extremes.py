"""Tuning where numbers run out: means beyond all numbers, dispersions at their boundary, rows that decide alone."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold

import fbed
from fbed.errors import InvalidInput
from fbed.models.engines.neighbours import standardised_zeros
from fbed.models.likelihoods.cox import Cox
from fbed.models.likelihoods.newton import Columns
from tuning_cases import SMALL

RNG = np.random.default_rng


@pytest.fixture(autouse=True)
def _no_noise():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


@pytest.mark.parametrize("family", ["poisson", "gamma", "negative_binomial"])
def test_means_beyond_all_numbers_have_a_finite_loss(family):
    """One row lies so far out that a fit without it expects more than any number there."""
    n = 40
    x = RNG(0).normal(size=n)
    x[3] = 1e5
    y = RNG(1).poisson(np.exp(1 + np.clip(x, -2, 2))) + (family == "gamma")
    tuned = fbed.tune(x[:, None], y, family=family, **{**SMALL, "alphas": (0.5,)})
    assert np.isfinite(tuned.out_of_fold.loss).all()
    assert np.isfinite(tuned.out_of_fold.mean).all()
    assert np.isfinite(tuned.values).all()
    assert repr(fbed.Result.from_json(tuned.result.to_json()).performance) == repr(tuned.performance)
    far = tuned.model.predict(np.array([[1e9]]))  # so much is expected there, and nobody is warned
    assert far[0] == np.inf or len(tuned.result.selected) == 0


def test_times_far_from_what_is_expected_have_a_finite_loss():
    n = 40
    x = RNG(0).normal(size=n)
    time = np.exp(x + 1e-6 * RNG(1).normal(size=n))
    time[5] = 1e9
    tuned = fbed.tune(x[:, None], (time, np.ones(n, bool)), family="weibull", **{**SMALL, "alphas": (0.5,)})
    assert np.isfinite(tuned.out_of_fold.loss).all()
    assert np.isfinite(tuned.performance.scores[0].value)


@pytest.mark.parametrize("final", ["ridge", "lasso"])
def test_dispersions_of_penalised_models_stay_in_their_domain(final):
    """Counts that vary less than Poisson's have a dispersion of 0, and not one below it."""
    n = 60
    x = RNG(0).normal(size=(n, 2))
    y = np.round(np.exp(2 + 0.4 * x[:, 0])).astype(int)
    tuned = fbed.tune(x, y, family="negative_binomial", **{**SMALL, "final": final})
    assert tuned.result.selected == (0,)
    assert dict(zip(tuned.model.terms, tuned.model.coefficients, strict=True))["dispersion"] == 0.0
    plain = fbed.tune(x, y, family="poisson", **{**SMALL, "final": final})
    assert np.isfinite(tuned.out_of_fold.risk).all()
    np.testing.assert_allclose(tuned.out_of_fold.risk[:, -1], plain.out_of_fold.risk[:, -1], atol=1e-3)


@pytest.mark.parametrize("final", ["shrinkage", "parameterwise"])
def test_a_row_that_decides_alone_does_not_break_shrinkage(final):
    n = 30
    X = RNG(0).normal(size=(n, 2))
    X[:, 1] = np.arange(n) == 4  # known by one row
    y = RNG(1).gamma(2.0, np.exp(X[:, 0]))
    y[4] *= 1e4
    tuned = fbed.tune(X, y, family="gamma", include=[0, 1], **{**SMALL, "final": final})
    assert np.isfinite(tuned.out_of_fold.risk).all()
    assert np.isfinite(tuned.model.coefficients).all()


def test_a_column_whose_values_are_the_same_where_they_are_known_varies_by_its_indicator():
    x = np.where(np.arange(30) % 3 == 0, np.nan, 3.0)
    time = RNG(0).exponential(size=30) * np.where(np.isnan(x), 0.2, 1.0)
    model = fbed.FBEDCox(missing="indicator", **SMALL).fit(x[:, None], (time, np.ones(30, bool)))
    fit = model.path_.problem.model.fit([])
    columns = model.path_.problem.design.stack([0])
    assert standardised_zeros(fit, np.array([0]), columns) == [columns.min()]


def test_splitters_see_the_outcome_as_it_is():
    """Numbers were cut to whole ones on their way to a splitter."""
    seen = []

    class Asking(KFold):
        def split(self, X, y=None, groups=None):
            seen.append(y)
            return super().split(X, y, groups)

    X, y = RNG(0).normal(size=(30, 2)), RNG(1).random(30)
    fbed.tune(X, y, **{**SMALL, "cv": Asking(3)})
    assert seen[0].tolist() == y.tolist()
    with pytest.raises(InvalidInput, match="cannot split these 30 rows: Supported target types"):
        fbed.tune(X, y, **{**SMALL, "cv": StratifiedKFold(3)})


def test_folds_that_would_hold_out_nothing_but_dropped_rows_are_left_out():
    X, y = RNG(0).normal(size=(20, 2)), RNG(1).normal(size=20)
    X[[2, 7], 1] = np.nan
    tuned = fbed.tune(X, y, missing="drop", **{**SMALL, "cv": LeaveOneOut()})
    assert tuned.performance.n_folds == 18


def test_classes_of_dropped_rows_are_no_classes():
    X = pd.DataFrame({"a": RNG(0).normal(size=60)})
    y = np.where(X["a"] + RNG(1).normal(size=60) > 0, "yes", "no")
    X.loc[:3, "a"], y[:4] = np.nan, "?"
    model = fbed.FBEDClassifier(missing="drop", unseen="mean", **SMALL).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.predict_proba(X).shape == (60, 2)
    weighted = fbed.FBEDClassifier(**SMALL).fit(X.fillna(0.0), y, sample_weight=(y != "?").astype(float))
    assert weighted.classes_.tolist() == ["no", "yes"]


def test_a_score_that_nobody_knows_chooses_nothing():
    X, y = RNG(0).normal(size=(20, 2)), np.arange(20) % 2
    with pytest.raises(InvalidInput, match="scoring='roc_auc_ovr' is not known of any configuration"):
        fbed.tune(X, np.where(y, "b", "a"), **{**SMALL, "cv": 20, "scoring": "roc_auc_ovr"})


def test_hazards_beyond_all_digits_are_no_perfect_fit():
    """The sum over a risk set came to 0 there, and its logarithm made the deviance the least of all."""
    n = 14
    cox = Cox(np.arange(1.0, n + 1), np.ones(n, bool), np.ones(n))
    column = np.where(np.arange(n) == 5, 1.0, RNG(0).normal(size=n) * 1e-6)
    point = cox.at(Columns(column[:, None]), np.array([[4e20]]))
    assert point.value[0] == np.inf


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("its split 1 is 1", {"cv": [1, 2, 3]}),
        ("its split 1 is", {"cv": [(np.arange(10),)]}),
        ("cv names rows from -1 to -1", {"cv": [(np.arange(10), [-1])] * 2}),
        ("cv must name rows", {"cv": [(np.arange(10) / 2, [11])] * 2}),
        ("cv must name rows", {"cv": [(np.ones(10, bool), np.zeros(10, bool))] * 2}),
        ("random_state must be", {"random_state": "a"}),
        ("random_state must be", {"random_state": -1}),
    ],
)
def test_folds_that_are_none_are_named(words, options):
    X, y = RNG(0).normal(size=(30, 2)), RNG(1).normal(size=30)
    with pytest.raises(InvalidInput, match=words):
        fbed.tune(X, y, **{**SMALL, **options})


def test_no_number_of_folds_is_five():
    X, y = RNG(0).normal(size=(30, 2)), RNG(1).normal(size=30)
    assert fbed.tune(X, y, **{**SMALL, "cv": None}).performance.n_folds == 5


def test_a_file_that_holds_no_folds_is_named(tmp_path):
    (tmp_path / "junk").write_text("junk")
    X, y = RNG(0).normal(size=(30, 2)), RNG(1).normal(size=30)
    with pytest.raises(InvalidInput, match="does not hold folds that were kept by fbed: remove it"):
        fbed.tune(X, y, resume=tmp_path / "junk", **SMALL)


@pytest.mark.parametrize("unit", [1e-130, 1e-90, 1e90, 1e130])
def test_scores_do_not_depend_on_the_unit_of_the_outcome(unit):
    X = RNG(0).normal(size=(40, 2))
    y = X[:, 0] + RNG(1).normal(size=40)
    same, other = fbed.tune(X, y, **SMALL), fbed.tune(X, y * unit, **SMALL)
    assert other.performance.scores[0].value == pytest.approx(same.performance.scores[0].value)
    np.testing.assert_allclose(other.errors / unit**2, same.errors, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-160, 1e160])
def test_outcomes_whose_squares_are_no_numbers_are_refused(unit):
    X = RNG(0).normal(size=(40, 2))
    with pytest.raises(InvalidInput, match="another unit"):
        fbed.tune(X, (X[:, 0] + RNG(1).normal(size=40)) * unit, **SMALL)


@pytest.mark.parametrize("kind", [float, object])
def test_rows_without_a_class_are_dropped_where_that_is_asked_for(kind):
    X = RNG(0).normal(size=(60, 2))
    y = np.where(X[:, 0] + RNG(1).normal(size=60) > 0, 1.0, 0.0)
    y = np.where(np.arange(60) % 9 == 0, np.nan, y) if kind is float else np.where(y > 0, "a", "b").astype(object)
    if kind is object:
        y[::9] = None
    model = fbed.FBEDClassifier(missing="drop", **SMALL).fit(X, y)
    assert len(model.classes_) == 2
    assert model.predict(X).shape == (60,)


def test_lazy_frames_are_read_without_a_warning():
    polars = pytest.importorskip("polars")
    X, y = RNG(0).normal(size=(40, 2)), RNG(1).integers(0, 2, size=40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fbed.FBEDClassifier(**SMALL).fit(polars.DataFrame(X, schema=["a", "b"]).lazy(), y)


def test_survival_explained_by_categories_alone():
    kind = RNG(0).choice(["x", "y"], size=40)
    time = RNG(1).exponential(size=40) * np.where(kind == "x", 0.1, 1.0)
    model = fbed.FBEDCox(**SMALL).fit(pd.DataFrame({"kind": kind}), (time, np.ones(40, bool)))
    assert model.selected_ == ("kind",)
