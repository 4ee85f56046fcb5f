"""Tuning: folds, scores, the choice, BBC-CV and the object that holds folds × configurations."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, KFold
from tests.tuning_cases import FAMILIES, SMALL, extras, outcome, table, tuned

import fbed
from fbed.errors import InvalidInput
from fbed.result.fitted.likelihoods import Observed
from fbed.tuning import grid
from fbed.tuning.bbc import bootstrapped, distinct
from fbed.tuning.calibration import calibrate
from fbed.tuning.choice import choose
from fbed.tuning.folds import make_folds
from fbed.tuning.scores import SCORES
from fbed.tuning.validate import validate
from problem_cases import read_problem

RNG = np.random.default_rng


# -- folds -----------------------------------------------------------------------------------------------------------


def test_folds_hold_every_row_out_once_and_have_their_share_of_each_class():
    y = np.repeat(["a", "b", "c"], [50, 30, 10])
    problem = read_problem(RNG(0).normal(size=(90, 2)), y, [])
    folds = make_folds(problem, 5, None, 0, 90)
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == list(range(90))
    for train, test in folds:
        assert not set(train) & set(test)
        assert len(train) + len(test) == 90
        assert [(y[test] == c).sum() for c in "abc"] == [10, 6, 2]


def test_groups_stay_together_and_survival_folds_share_the_events():
    rng = RNG(1)
    time, event = rng.exponential(size=60), np.arange(60) < 10
    problem = read_problem(rng.normal(size=(60, 2)), (time, event), [])
    assert {int(event[test].sum()) for _, test in make_folds(problem, 5, None, 0, 60)} == {2}
    groups = rng.integers(0, 12, size=60)
    for train, test in make_folds(problem, 4, groups, 0, 60):
        assert not set(groups[train]) & set(groups[test])
    with pytest.raises(InvalidInput, match="as many groups"):
        make_folds(problem, 5, np.zeros(60, dtype=int), 0, 60)


def test_folds_of_a_splitter_speak_of_the_users_rows():
    rng = RNG(2)
    X, y, weight = rng.normal(size=(30, 2)), rng.normal(size=30), np.ones(30)
    weight[[0, 7]] = 0.0
    problem = read_problem(X, y, [], sample_weight=weight)
    folds = make_folds(problem, KFold(3), None, 0, 30)
    assert [len(test) for _, test in folds] == [8, 10, 10]
    assert (problem.kept[folds[1][1]] == np.arange(10, 20)).all()


@pytest.mark.parametrize("cv", [1, "five", [(np.arange(5), np.arange(5, 99))]])
def test_impossible_folds_are_refused(cv):
    X = RNG(0).normal(size=(20, 2))
    with pytest.raises(InvalidInput, match="cv"):
        fbed.tune(X, X[:, 0] + RNG(1).normal(size=20), **{**SMALL, "cv": cv})


# -- nothing of the held-out rows reaches a fold -----------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_out_of_fold_predictions_are_those_of_a_selection_on_the_other_rows(family, missing):
    """The slow twin: select on the training rows as a user would, and predict the others from the user's table."""
    frame = table(missing=missing)
    y, more = outcome(family, frame), extras(family, len(frame))
    how = {"missing": "indicator"} if missing else {}
    made = fbed.tune(frame, y, family=family, **more, **how, **SMALL)
    found, kind = made.out_of_fold, "link"
    for number, (train, test) in enumerate(made.cross.folds):
        at = [part[train] for part in (y if isinstance(y, tuple) else (y,))]
        own = fbed.select(
            frame.iloc[train].reset_index(drop=True),
            tuple(at) if len(at) > 1 else at[0],
            family=family,
            alpha=0.1,
            k=0,
            **{name: values[train] for name, values in more.items()},
            **how,
        )
        assert own.variables == made.cross.runs[number].selected[1]
        if own.model.separated:
            continue
        expected = own.model.predict(frame.iloc[test], kind, unseen="mean" if missing else "error")
        expected = (expected if expected.ndim == 1 else expected[:, 0]) - own.model.center
        np.testing.assert_allclose(found.risk[found.fold == number, 1], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "multinomial", "cox"])
def test_who_is_best_by_one_criterion_is_best_by_all(family):
    """Searches without early dropping share the best of a set, ties among the columns included."""
    frame = table(150)[["a", "b"]]
    frame = frame.assign(again=frame["a"], **{f"x{j}": RNG(50 + j).normal(size=150) for j in range(10)})
    y = outcome(family, table(150))
    grid = {"alphas": (0.001, 0.4, 0.05, 0.2), "gammas": (0.0, 1.0), "ks": (), "fbs": True}
    made = fbed.tune(frame, y, family=family, cv=2, n_bootstraps=5, backward=False, **grid)
    train = made.cross.folds[0][0]
    rows = frame.iloc[train].reset_index(drop=True)
    at = tuple(part[train] for part in y) if isinstance(y, tuple) else y[train]
    for setting, found in zip(made.cross.searches.settings, made.cross.runs[0].selected, strict=True):
        how = {"alpha": setting.value} if setting.criterion == "lr" else {"criterion": fbed.EBIC(setting.value)}
        assert fbed.select(rows, at, family=family, early_dropping=False, backward=False, **how).variables == found


@pytest.mark.parametrize("family", ["gaussian", "binomial", "cox"])
def test_every_setting_selects_what_a_search_alone_does(family):
    """Settings that differ in K share their runs, in whatever order they come, and nobody computes p-values."""
    frame = table(200).assign(**{f"x{j}": RNG(50 + j).normal(size=200) for j in range(12)})
    y = outcome(family, frame)
    grid = {"alphas": (0.3, 0.05), "gammas": (0.0,), "ks": (math.inf, 0, 1)}
    made = fbed.tune(frame, y, family=family, cv=2, n_bootstraps=5, max_features=9, **grid)
    train = made.cross.folds[0][0]
    own = tuple(part[train] for part in y) if isinstance(y, tuple) else y[train]
    alone = fbed.path(frame.iloc[train].reset_index(drop=True), own, family=family, max_features=9, **grid)
    assert made.cross.runs[0].selected == [result.variables for result in alone]
    assert len(set(made.cross.runs[0].selected)) > 2


def test_levels_and_ebic_do_not_share_what_they_know_of_categories_with_many_levels():
    """By levels such a category is tested by pairs of rows, by EBIC with its likelihood: other answers for one set."""
    rng = RNG(8)
    frame = pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc"))
    frame["city"] = [f"city {i}" for i in rng.integers(0, 60, size=150)]
    effect = dict(zip(frame["city"].unique(), rng.normal(size=60), strict=False))
    y = (0.3 * frame["a"] + frame["city"].map(effect) + 0.5 * rng.normal(size=150)).to_numpy()
    grid = {"alphas": (0.2,), "gammas": (0.0,), "ks": (0,), "fbs": False}
    made = fbed.tune(frame, y, cv=3, n_bootstraps=20, missing="indicator", **grid)
    for run, (train, _) in zip(made.cross.runs, made.cross.folds, strict=True):
        part = frame.iloc[train].reset_index(drop=True)
        single = [
            fbed.select(part, y[train], k=0, missing="indicator", **how)
            for how in ({"alpha": 0.2}, {"criterion": fbed.EBIC(0.0)})
        ]
        assert run.selected == [result.variables for result in single]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_predicts_bit_for_bit(family, tmp_path):
    """With a category, missing values in it and in numbers, and an offset where the family takes one."""
    frame, new = table(missing=True), table(60, seed=5, missing=True)
    takes = "offset" in fbed.families.find(family).extras
    known, of_new = (RNG(9).normal(size=len(rows)) if takes else None for rows in (frame, new))
    more = {"offset": known} if takes else {}
    made = fbed.tune(
        frame,
        outcome(family, frame),
        family=family,
        missing="indicator",
        include=["a", "kind"],
        **extras(family, len(frame)),
        **more,
        **SMALL,
    )
    made.result.to_json(tmp_path / "model.json")
    again = fbed.Result.from_json(tmp_path / "model.json")
    for kind in ("response", "link"):
        one, other = (m.predict(new, kind, offset=of_new, unseen="mean") for m in (made.model, again.model))
        assert np.array_equal(one, other)
        assert np.isfinite(one).all()
    if family in ("cox", "weibull"):
        one, other = (m.predict(new, "survival", times=[0.1, 1.0], unseen="mean") for m in (made.model, again.model))
        assert np.array_equal(one, other)
    assert again.performance == made.performance


def test_threads_storage_and_resuming_change_nothing(tmp_path):
    rng = RNG(3)
    X = rng.normal(size=(120, 15)) * (rng.random((120, 15)) < 0.6)
    y = (X[:, 0] - X[:, 1] + rng.logistic(size=120) > 0).astype(int)
    whole = fbed.tune(X, y, **SMALL)
    for other in (fbed.tune(X, y, **SMALL, n_jobs=2), fbed.tune(sparse.csc_array(X), y, **SMALL)):
        np.testing.assert_allclose(other.out_of_fold.risk, whole.out_of_fold.risk, rtol=1e-7, atol=1e-7)
        assert other.result.selected == whole.result.selected
    file = tmp_path / "folds.npz"
    with pytest.raises(InvalidInput, match="finished in every fold"):
        fbed.tune(X, y, **SMALL, time_limit=0.0, resume=file)
    fbed.tune(X, y, **SMALL, resume=file)
    again = fbed.tune(X, y, **SMALL, resume=file)
    assert np.array_equal(again.out_of_fold.risk, whole.out_of_fold.risk)
    assert sum(map(sum, (run.seconds for run in again.cross.runs))) > 0
    with pytest.raises(InvalidInput, match="other data"):
        fbed.tune(X + 1e-3, y, **SMALL, resume=file)


def test_a_time_limit_leaves_settings_that_all_folds_have_done():
    rng = RNG(4)
    X = rng.normal(size=(300, 40))
    y = X[:, 0] + rng.normal(size=300)
    seen = []
    made = fbed.tune(X, y, time_limit=60.0, progress=seen.append, **{**SMALL, "alphas": (0.01, 0.05, 0.1)})
    assert made.cross.status == "converged"
    assert made.cross.n_settings == 3
    assert [p.step for p in seen] == list(range(1, 10))
    assert seen[-1].remaining == 0
    again = pickle.loads(pickle.dumps(made))
    assert again.cross.chosen_in(again.chosen) == made.cross.chosen_in(made.chosen)
    assert again.cv_results()["mean_n_selected"].tolist() == made.cv_results()["mean_n_selected"].tolist()
    with pytest.raises(InvalidInput, match="no data"):
        again.cross.out_of_fold()


@pytest.mark.parametrize("family", ["quantile", "robust", "gee", "spearman", "gsquare"])
def test_families_without_a_predictive_likelihood_are_refused_with_the_reason(family):
    frame = table()
    more = {"cluster": np.arange(len(frame)) // 5, "link": "identity"} if family == "gee" else {}
    y = outcome("multinomial", frame) if family == "gsquare" else outcome("gaussian", frame)
    X = frame[["kind"]].assign(other=RNG(0).choice(list("uv"), size=len(frame))) if family == "gsquare" else frame
    with pytest.raises(InvalidInput, match=r"no likelihood|no model that predicts"):
        fbed.tune(X, y, family=family, **more, **SMALL)
    with pytest.raises(InvalidInput, match=r"no likelihood|no model that predicts"):
        fbed.tune(X, y, family=family, **more)  # not because of criteria that nobody has asked for


# -- defaults that follow the data -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "p", "loose", "shrinks"), [(60, 10, False, True), (300, 10, True, True), (600, 4, True, False)]
)
def test_loose_levels_where_rows_carry_all_variables_and_ridge_where_rows_are_few(n, p, loose, shrinks):
    X = RNG(0).normal(size=(n, p))
    y = (X[:, 0] + RNG(1).logistic(size=n) > 0).astype(int)
    made = fbed.tune(X, y, gammas=(), ks=(0,), fbs=False, n_bootstraps=5, cv=3)
    assert {c.setting.value for c in made.cross.configurations} == {
        0.001,
        0.01,
        0.05,
        0.1,
        *((0.2, 0.5) if loose else ()),
    }
    assert ({c.penalty for c in made.cross.configurations} != {None}) == shrinks


def test_families_without_another_way_have_maximum_likelihood():
    frame = table()
    made = fbed.tune(
        frame, outcome("mixed", frame), family="mixed", **extras("mixed", 150), **{**SMALL, "final": "auto"}
    )
    assert {c.penalty for c in made.cross.configurations} == {None}
    assert made.model.estimation == tuned("mixed").model.estimation


def test_ridge_or_maximum_likelihood_by_the_folds():
    """The configurations of each alone, side by side; what the folds choose is what is fitted at the end."""
    frame = table(100)
    y = outcome("binomial", frame)
    both, ml, ridge = (fbed.tune(frame, y, **{**SMALL, "final": final}) for final in ("auto", "ml", "ridge"))
    of = {c: both.values[i] for i, c in enumerate(both.cross.configurations)}
    for i, c in enumerate(ml.cross.configurations):
        assert of[c] == pytest.approx(ml.values[i], rel=1e-9)
    assert both.values.max() >= ml.values.max()
    words = (
        "maximum likelihood" if both.configuration.penalty is None else f"ridge (λ = {both.configuration.penalty:g})"
    )
    assert both.model.estimation == words
    assert ridge.values.max() == pytest.approx(both.values.max(), abs=0.02)


# -- the choice ------------------------------------------------------------------------------------------------------


def test_choice_by_the_best_and_by_one_standard_error():
    value = np.array([[1.0, 0.97, 0.97, math.nan, 1.0 - 1e-12]])
    error = np.full((1, 5), 0.05)
    sizes = np.array([9.0, 3.0, 2.0, 0.0, 8.0])
    assert choose(value, error, sizes, "min").tolist() == [4]
    assert choose(value, error, sizes, "1se").tolist() == [2]


def test_one_standard_error_takes_no_more_variables_than_the_best():
    best, few = tuned("binomial", alphas=(0.001, 0.05, 0.3)), tuned("binomial", alphas=(0.001, 0.05, 0.3), choose="1se")
    assert few.cross.sizes[few.chosen] <= best.cross.sizes[best.chosen]
    assert few.values[few.chosen] >= best.values[best.chosen] - best.errors[best.chosen]
    assert np.array_equal(best.values, few.values)


# -- BBC-CV ----------------------------------------------------------------------------------------------------------


def test_bbc_is_what_resampling_row_by_row_gives():
    made = tuned("gaussian")
    found, sizes = made.out_of_fold, made.cross.sizes
    score = SCORES["neg_mean_squared_error"]
    boot = bootstrapped(found, score, [score], sizes, "min", made.chosen, None, 25, 7)
    rng = RNG(7)
    counts = [np.bincount(rng.integers(0, 150, size=150), minlength=150) for _ in range(25)]
    errors = np.empty_like(found.mean)
    errors[found.row] = (found.seen.y[:, None] - found.mean) ** 2
    for b in range(25):
        inside = np.repeat(np.arange(150), counts[b])
        best = errors[inside].mean(axis=0).argmin()
        assert boot.samples[b, 0] == pytest.approx(-errors[counts[b] == 0, best].mean())


def test_bbc_draws_whole_groups():
    frame = table(90)
    groups = np.repeat(np.arange(9), 10)
    made = fbed.tune(frame, outcome("gaussian", frame), fold_groups=groups, **{**SMALL, "cv": GroupKFold(3)})
    for train, test in made.cross.folds:
        assert not set(groups[train]) & set(groups[test])
    score = SCORES["r2"]
    boot = bootstrapped(made.out_of_fold, score, [score], made.cross.sizes, "min", made.chosen, groups, 200, 0)
    alone = bootstrapped(made.out_of_fold, score, [score], made.cross.sizes, "min", made.chosen, None, 200, 0)
    assert not np.allclose(boot.samples, alone.samples)


def test_bbc_is_not_fooled_by_the_best_of_many_useless_configurations():
    """With predictions that are pure noise, the best of 200 looks good and is worth nothing."""
    found = tuned("binomial").out_of_fold
    auc, y = SCORES["roc_auc"], found.seen.y[:, None]
    naive, honest = [], []
    for seed in range(8):
        noise = RNG(seed).normal(size=(len(found.row), 200))
        mean = 1.0 / (1.0 + np.exp(-noise))
        useless = replace(found, risk=noise, mean=mean, loss=-2.0 * np.log(np.where(y == 1, mean, 1.0 - mean)))
        value = auc.values(useless, useless.weights[None])[0][0]
        boot = bootstrapped(useless, auc, [auc], np.ones(200), "min", int(value.argmax()), None, 40, seed)
        naive.append(boot.scores[0].naive)
        honest.append(boot.scores[0].value)
        assert boot.scores[0].low < 0.5 < boot.scores[0].high
    assert min(naive) > 0.58
    assert abs(np.mean(honest) - 0.5) < 0.03


def test_configurations_with_the_same_predictions_are_computed_once():
    made = tuned("gaussian", alphas=(0.05, 0.05000001, 0.2))
    first, which = distinct(made.out_of_fold)
    assert which[0] == which[1]
    assert len(first) < 3


# -- calibration and validation --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (180_000.0, 70_000.0), (1e9, 1.0), (0.0, 1e-9)])
def test_calibration_of_numbers_is_the_regression_on_predictions_at_any_scale(shift, scale):
    rng = RNG(11)
    z = rng.normal(size=300)
    y = shift + scale * (0.2 + 0.8 * z + 0.1 * rng.normal(size=300))
    found = calibrate("gaussian", shift + scale * z, shift + scale * z, Observed(y, np.ones(300)))
    expected = np.polyfit(z, (y - shift) / scale, 1)[0]
    assert found.slope.value == pytest.approx(expected, rel=1e-5)
    assert found.slope.low < expected < found.slope.high
    assert found.intercept.value == pytest.approx(np.mean(y - shift - scale * z), rel=1e-5)


def test_calibration_finds_the_slope_and_shift_that_were_put_in():
    rng = RNG(9)
    eta = rng.normal(size=20_000)
    y = (0.5 * eta + 0.3 + rng.logistic(size=20_000) > 0).astype(float)
    found = calibrate("binomial", eta, 1 / (1 + np.exp(-eta)), Observed(y, np.ones(20_000)))
    assert found.slope.low < 0.5 < found.slope.high
    assert found.slope.high - found.slope.low < 0.1
    assert len(found.bins) == 10
    assert found.bins[0].observed > found.bins[0].predicted
    assert found.bins[-1].observed < found.bins[-1].predicted
    y = 3.0 + 2.0 * eta + rng.normal(size=20_000)
    found = calibrate("gaussian", eta, eta, Observed(y, np.ones(20_000)))
    assert found.slope.value == pytest.approx(2.0, abs=0.03)
    assert found.intercept.value == pytest.approx(3.0 + np.mean(eta), abs=0.05)


@pytest.mark.parametrize("family", FAMILIES)
def test_validation_on_the_training_rows_and_on_new_ones(family):
    made = tuned(family)
    new = table(120, seed=11)
    told = validate(made.model, new, outcome(family, new, seed=12), n_bootstraps=20)
    assert told.n_rows == 120
    assert told.n_without == 0
    for score in told.scores:
        assert score.low <= score.value + 0.2
        assert math.isfinite(score.value)
    if family == "gaussian":
        y = outcome(family, new, seed=12)
        r2 = next(s for s in told.scores if s.name == "r2")
        assert r2.value == pytest.approx(r2_score(y, made.model.predict(new)))
    assert (told.calibration is None) == (family in ("multinomial", "ordinal"))


def test_validation_refuses_classes_that_the_model_does_not_know():
    made = tuned("binomial")
    new = table(20, seed=1)
    with pytest.raises(InvalidInput, match="does not know: 'maybe'"):
        validate(made.model, new, np.array(["yes", "maybe"] * 10))


def test_offsets_and_trials_reach_the_folds():
    frame = table(200)
    rng = RNG(13)
    years = rng.uniform(0.5, 3.0, size=200)
    y = rng.poisson(years * np.exp(0.5 * frame["a"]))
    made = fbed.tune(frame, y, family="poisson", exposure=years, **SMALL)
    found = made.out_of_fold
    train, test = made.cross.folds[0]
    own = fbed.select(
        frame.iloc[train].reset_index(drop=True), y[train], family="poisson", exposure=years[train], alpha=0.1, k=0
    )
    expected = own.model.predict(frame.iloc[test], exposure=years[test])
    np.testing.assert_allclose(found.mean[found.fold == 0, 1], expected, rtol=1e-9)
    trials = rng.integers(1, 9, size=200)
    y = rng.binomial(trials, 1 / (1 + np.exp(-frame["a"])))
    made = fbed.tune(frame, y, trials=trials, **SMALL)
    assert made.performance.scores[0].name == "d2"
    assert made.performance.scores[0].value > 0
    assert "a" in made.result.selected


def test_the_report_has_a_chapter_on_performance(tmp_path):
    for family in ("binomial", "cox", "multinomial"):
        made = tuned(family)
        page = made.result.report(tmp_path / f"{family}.html").read_text(encoding="utf-8")
        assert 'id="performance"' in page
        assert "Honest: BBC-CV" in page
        assert ("ROC curve of the out-of-fold predictions" in page) == (family == "binomial")
        again = fbed.Result.from_json(made.result.to_json())
        assert 'id="performance"' in again.report(tmp_path / "again.html").read_text(encoding="utf-8")
    assert 'id="performance"' not in fbed.select(table(), outcome("gaussian", table())).report(
        tmp_path / "none.html"
    ).read_text(encoding="utf-8")


def test_names_of_columns_are_outcome_groups_and_weights():
    frame = table(100).assign(y=outcome("gaussian", table(100)), who=np.arange(100) // 4, w=1)
    made = fbed.tune(frame, "y", fold_groups="who", sample_weight="w", **SMALL)
    assert not {"who", "w", "y"} & {name for name, _ in made.performance.variables}
    groups = frame["who"].to_numpy()
    assert all(not set(groups[train]) & set(groups[test]) for train, test in made.cross.folds)
    assert isinstance(made.cv_results()["params"][0], dict)
    assert pd.DataFrame(made.cv_results()).shape[0] == 2


@pytest.mark.parametrize("time_limit", [None, 100.0])
def test_no_fold_begins_after_one_that_was_interrupted(time_limit, monkeypatch):
    begun = []

    def step(worker, limit):
        begun.append(worker.run.number)
        return "interrupted"

    monkeypatch.setattr(grid._Worker, "step", step)
    frame = table()
    with pytest.raises(KeyboardInterrupt):
        fbed.tune(frame, outcome("gaussian", frame), time_limit=time_limit, **SMALL)
    assert len(begun) == 1
