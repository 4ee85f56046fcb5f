"""Scores of out-of-fold predictions against scikit-learn, lifelines and counting by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import RepeatedKFold
from tests.tuning_cases import SMALL, outcome, table, tuned

import fbed
from fbed.errors import InvalidInput
from fbed.tuning.concordance import area_parts, concordance_parts, uncensored
from fbed.tuning.scores import SCORES, SHOWN, find_score

RNG = np.random.default_rng


def test_scores_are_those_of_scikit_learn_fold_by_fold():
    made = tuned("binomial", cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0))
    found = made.out_of_fold
    ones = found.weights[None]
    for name, twin in (
        ("neg_log_loss", lambda y, p: -log_loss(y, np.clip(p, 1e-5, 1 - 1e-5))),
        ("neg_brier_score", lambda y, p: -np.mean((y - p) ** 2)),
        ("accuracy", lambda y, p: np.mean((p > 0.5) == y)),
    ):
        N, D = SCORES[name].by_fold(found, ones)
        by_hand = [twin(found.seen.y[part], found.mean[part, 1]) for part in found.parts]
        np.testing.assert_allclose(N[:, 0, 1] / D[:, 0, 1], by_hand, rtol=1e-12)
    N, D = SCORES["roc_auc"].by_fold(found, ones)
    assert N[:, 0, 1].sum() / D[:, 0, 1].sum() == pytest.approx(roc_auc_score(found.seen.y, found.mean[:, 1]))
    for number, part in enumerate(found.parts):  # the positive rows of a fold among all negative ones
        some = np.union1d(part, np.flatnonzero(found.seen.y == 0))
        expected = roc_auc_score(found.seen.y[some], found.mean[some, 1])
        assert N[number, 0, 1] / D[number, 0, 1] == pytest.approx(expected)
    value = SCORES["scaled_brier_score"].values(found, ones)[0][0, 1]
    y, said = found.seen.y, found.mean[:, 1]
    assert value == pytest.approx(1 - np.sum((y - said) ** 2) / np.sum((y - y.mean()) ** 2))
    made = tuned("gaussian")
    found = made.out_of_fold
    N, D = SCORES["r2"].by_fold(found, found.weights[None])
    y, said = found.seen.y, found.mean[:, 0]
    by_hand = [1 - np.sum((y - said)[part] ** 2) / np.sum((y[part] - y.mean()) ** 2) for part in found.parts]
    np.testing.assert_allclose((N / D)[:, 0, 0], by_hand, rtol=1e-10)
    assert N[:, 0, 0].sum() / D[:, 0, 0].sum() == pytest.approx(r2_score(y, said))  # of all folds together


def test_the_brier_score_of_several_classes_is_scaled_by_that_of_their_shares():
    found = tuned("multinomial").out_of_fold
    own = found.seen.y[:, None] == np.arange(3)
    loss, without = (np.square(p - own).sum() for p in (found.mean[:, 1], own.mean(axis=0)))
    value = SCORES["scaled_brier_score"].values(found, found.weights[None])[0][0, 1]
    assert value == pytest.approx(1 - loss / without)


def test_another_scorer_of_scikit_learn_is_called_by_name():
    made = tuned("binomial", scoring="balanced_accuracy")
    assert made.performance.scores[0].name == "balanced_accuracy"
    assert 0.4 < made.performance.scores[0].value <= 1.0
    with pytest.raises(InvalidInput, match="is not known"):
        tuned("binomial", scoring="nonsense")
    with pytest.raises(InvalidInput, match="is not for family"):
        tuned("gaussian", scoring="roc_auc")


def test_concordance_is_what_counting_pairs_gives_and_what_lifelines_has():
    lifelines = pytest.importorskip("lifelines.utils")
    rng = RNG(5)
    time, event = np.round(rng.exponential(size=40), 1), rng.random(40) < 0.6
    risk = np.round(rng.normal(size=40), 1)
    weights = rng.integers(0, 3, size=(3, 40)).astype(float)
    won, total = concordance_parts(time, event, risk, weights)
    for b in range(3):
        repeated = np.repeat(np.arange(40), weights[b].astype(int))
        n, d = 0.0, 0.0
        for i in repeated:
            for j in repeated:
                if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                    d += 1
                    n += (risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j])
        assert (won[b], total[b]) == (n, d)
    untied = time + 1e-6 * rng.random(40)
    won, total = concordance_parts(untied, event, risk, np.ones((1, 40)))
    assert won[0] / total[0] == pytest.approx(lifelines.concordance_index(untied, -risk, event))
    y = rng.random(40) < 0.5
    won, total = area_parts(y, risk, np.ones((1, 40)))
    assert won[0] / total[0] == pytest.approx(roc_auc_score(y, risk))


def pairs_of_all_rows(time, event, risk, weights):
    """Concordant and comparable pairs by a matrix of all of them."""
    later = event[:, None] & ((time[:, None] < time) | ((time[:, None] == time) & ~event))
    ahead = later * 0.5 * ((risk[:, None] > risk) + 1.0 * (risk[:, None] >= risk))
    return [np.einsum("bi,ij,bj->b", weights, pairs.astype(float), weights) for pairs in (ahead, later)]


@pytest.mark.parametrize("seed", range(12))
def test_pairs_are_those_of_a_matrix_of_all_pairs(seed):
    """Ties of times and risks, risks that are infinite or unknown, weights of any size, nobody who dies or is there."""
    rng = RNG([31, seed])
    n, weightings = int(rng.choice([0, 1, 2, 17, 90])), int(rng.integers(1, 20))
    time, event = np.round(rng.exponential(size=n), seed % 3), rng.random(n) < rng.choice([0.0, 0.5, 1.0])
    risk = np.round(rng.normal(size=n), seed % 4)
    risk[rng.random(n) < 0.2 * (seed % 2)] = rng.choice([np.nan, np.inf, -np.inf])
    weights = rng.integers(0, 3, size=(weightings, n)) * rng.choice([1.0, 1e-8, 1e8, np.pi], size=n)
    with np.errstate(invalid="ignore"):
        expected = pairs_of_all_rows(time, event, risk, weights)
    for found, wanted in zip(concordance_parts(time, event, risk, weights), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_bootstrap_samples_are_scored_like_samples_that_are_drawn_one_by_one():
    """Folds that lie side by side, folds whose entries are scattered, and settings that came to the same model."""
    for family in ("gaussian", "binomial", "cox"):
        found = tuned(family, cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)).out_of_fold
        order = RNG(3).permutation(len(found.row))
        names = {name: getattr(found, name)[order] for name in ("row", "fold", "risk", "mean", "loss", "null")}
        seen = replace(
            found.seen,
            y=found.seen.y[order],
            weights=found.seen.weights[order],
            event=None if found.seen.event is None else found.seen.event[order],
        )
        scattered, twice = replace(found, **names, seen=seen), found.only([0, 1, 0])
        assert all(isinstance(part, slice) for part in found.stretches)
        assert not any(isinstance(part, slice) for part in scattered.stretches)
        weights = RNG(4).integers(0, 3, size=(5, len(found.weights))).astype(float)
        for name in ("deviance", *SHOWN[family]):
            score = find_score(name, family)
            N, D = score.by_fold(found, weights)
            for b in range(5):
                one = score.by_fold(found, weights[[b]])
                np.testing.assert_allclose([N[:, b], D[:, b]], [one[0][:, 0], one[1][:, 0]], rtol=1e-12)
            np.testing.assert_allclose(score.by_fold(scattered, weights), (N, D), rtol=1e-12)
            np.testing.assert_allclose(
                score.by_fold(twice, weights), (N[:, :, [0, 1, 0]], D[:, :, [0, 1, 0]]), rtol=1e-12
            )


def test_the_probability_of_being_uncensored_is_that_of_lifelines():
    lifelines = pytest.importorskip("lifelines")
    rng = RNG(6)
    time, event = rng.exponential(size=50), rng.random(50) < 0.6
    fitted = lifelines.KaplanMeierFitter().fit(time, ~event)
    expected = fitted.survival_function_at_times(time - 1e-12).to_numpy()
    np.testing.assert_allclose(uncensored(time, event, np.ones(50)), expected, rtol=1e-12)


def test_partial_likelihood_of_held_out_rows_is_that_of_breslow():
    made = tuned("cox")
    found = made.out_of_fold
    N, D = find_score(None, "cox").by_fold(found, found.weights[None])
    part, event = found.parts[0], found.seen.event
    expected = 0.0
    for i in part[event[part]]:
        there = part[found.seen.y[part] >= found.seen.y[i]]
        expected += found.risk[i, 1] - np.log(np.exp(found.risk[there, 1]).sum())
    assert N[0, 0, 1] == pytest.approx(2.0 * expected)
    assert D[0, 0, 1] == event[part].sum()


def test_rows_of_different_strata_are_not_compared():
    frame = table()
    strata = np.arange(150) % 2
    made = fbed.tune(frame, outcome("cox", frame), strata=strata, **SMALL)
    found = made.out_of_fold
    N, D = SCORES["c_index"].by_fold(found, found.weights[None])
    part, won, total = found.parts[0], 0.0, 0.0
    for stratum in (0, 1):
        own = part[strata[found.row[part]] == stratum]
        n, d = concordance_parts(found.seen.y[own], found.seen.event[own], found.risk[own, 0], np.ones((1, len(own))))
        won, total = won + n[0], total + d[0]
    assert (N[0, 0, 0], D[0, 0, 0]) == (won, total)
    assert made.performance.areas == ()
    assert made.performance.calibration.slope is not None


def test_weights_count_as_repeated_rows_in_scores():
    frame = table(80)
    y = outcome("gaussian", frame)
    made = fbed.tune(frame, y, **SMALL)
    found = made.out_of_fold
    twice = np.ones((1, 80))
    twice[0, :20] = 2.0
    value = SCORES["neg_mean_squared_error"].values(found, twice)[0][0, 0]
    rows = np.concatenate([np.arange(len(found.row)), np.flatnonzero(found.row < 20)])
    assert value == pytest.approx(-np.mean((found.seen.y[rows] - found.mean[rows, 0]) ** 2))
