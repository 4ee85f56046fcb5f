"""Complementary pairs and integrated paths: bounds and scores of reference implementations, sets of a loop by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

import fbed
from fbed.inference.complementary import expected_false, largest_q, largest_tail, smallest_threshold
from fbed.inference.ipss import efp_scores, false_discovery
from fbed.inference.resamples import halves, seeds, units_of


def data(n: int = 150, p: int = 30, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, 3] - X[:, 7 % p] + 0.3 * X[:, 9 % p] + rng.normal(size=n)


# R's stabs 0.6-4: p, q, threshold, pairs, and the bounds without assumptions, unimodal, r-concave. Its search for the
# worst r-concave distribution stops at a tolerance of 1e-4, and was run with 1e-13.
STABS = [
    (100, 10, 0.75, 50, 2.0, 1.02040816326531, 0.286031064227776),
    (1000, 20, 0.6, 50, 2.0, 1.05263157894737, 0.334498579606657),
    (1000, 50, 0.9, 50, 3.125, 1.07843137254902, 0.170495575783414),
    (200, 15, 0.8, 50, 1.875, 0.926470588235294, 0.205910650715491),
    (20000, 50, 0.7, 50, 0.3125, 0.16025641025641, 0.0439523802664432),
    (5000, 30, 0.9, 25, 0.225, 0.0830769230769231, 0.0143861534468437),
]


@pytest.mark.parametrize(("p", "q", "threshold", "pairs", "none", "unimodal", "concave"), STABS)
def test_bounds_are_those_of_stabs(p, q, threshold, pairs, none, unimodal, concave):
    assert expected_false(q, p, threshold, pairs, "none") == pytest.approx(none, rel=1e-12)
    assert expected_false(q, p, threshold, pairs, "unimodal") == pytest.approx(unimodal, rel=1e-12)
    assert expected_false(q, p, threshold, pairs, "r-concave") == pytest.approx(concave, rel=2e-6)


@pytest.mark.parametrize(
    ("assumption", "p", "pfer", "threshold", "q"),  # R's stabsel_parameters, 50 pairs
    [
        ("none", 1000, 1, 0.75, 22),
        ("none", 500, 0.5, 0.9, 14),
        ("none", 20000, 1, 0.6, 63),
        ("unimodal", 1000, 1, 0.75, 31),
        ("unimodal", 500, 0.5, 0.9, 24),
        ("unimodal", 20000, 1, 0.6, 87),
        ("r-concave", 1000, 1, 0.75, 61),
        ("r-concave", 500, 0.5, 0.9, 56),
    ],
)
def test_entries_are_those_of_stabs(assumption, p, pfer, threshold, q):
    assert largest_q(pfer, p, threshold, 50, assumption) == q


def test_thresholds_are_those_of_stabs():
    assert smallest_threshold(1, 20, 1000, 50, "none") == 0.7
    assert smallest_threshold(1, 20, 1000, 50, "unimodal") == 0.61
    assert smallest_threshold(0.5, 10, 500, 50, "unimodal") == 0.61
    assert smallest_threshold(0.01, 20, 1000, 50, "r-concave") > 0.8


def test_no_r_concave_distribution_has_a_larger_tail():
    """Random distributions whose powers f^r are convex, tilted to the mean."""
    rng, n, mean, r = np.random.default_rng(0), 20, 0.08, -0.5
    i = np.arange(n + 1.0)
    bound, met, nearest = largest_tail(mean, 10, n, r), 0, 0.0
    for _ in range(200):
        slopes = np.sort(rng.normal(size=n)) + rng.exponential() * rng.integers(0, 2)
        powers = np.concatenate([[0.0], np.cumsum(slopes)])
        base = powers - powers.min() + rng.exponential(0.1)

        def law(tilt, base=base):
            mass = np.maximum(base + tilt * i, 1e-12) ** (1 / r)
            return mass / mass.sum()

        def excess(tilt, law=law):
            return law(tilt) @ i / n - mean

        if excess(0.0) * excess(200.0) >= 0:
            continue
        tail = law(brentq(excess, 0.0, 200.0))[10:].sum()
        assert tail <= bound * (1 + 1e-6)
        met += 1
        nearest = max(nearest, tail / bound)
    assert met > 50
    assert nearest > 0.05  # the bound is not met by being far away


def test_bounds_are_ordered_and_end_where_they_must():
    for q in (1, 5, 20):
        one, two, three = (expected_false(q, 500, 0.8, 50, name) for name in ("none", "unimodal", "r-concave"))
        assert three <= two <= one
    assert math.isinf(expected_false(400, 500, 0.6, 50, "unimodal"))
    assert math.isinf(expected_false(5, 500, 0.505, 50, "unimodal"))
    with pytest.raises(fbed.InvalidInput, match="so few false selections"):
        largest_q(1e-9, 100, 0.6, 50, "none")
    with pytest.raises(fbed.InvalidInput, match="no threshold"):
        smallest_threshold(1e-9, 50, 100, 50, "none")


def test_frequencies_are_those_of_a_loop_by_hand():
    X, y = data()
    found = fbed.stability(X, y, random_state=5, n_resamples=10)
    counts = np.zeros(X.shape[1])
    for seed in seeds(5, 5)[1]:
        for half in halves(units_of(len(X)), seed):
            chosen = fbed.select(X[half.rows], y[half.rows], backward=False, max_features=found.q).selected
            counts[list(chosen)] += 1
    np.testing.assert_allclose(found.frequencies, counts / 10)
    assert set(found.selected) == set(np.flatnonzero(counts / 10 >= found.threshold).tolist())
    assert found.q == largest_q(1.0, 30, 0.75, 5, "unimodal")
    assert found.bound == found.bounds["unimodal"] <= 1.0
    assert found.plain == fbed.select(X, y).selected
    again = fbed.stability(X, y, random_state=5, n_resamples=10, n_jobs=3)
    np.testing.assert_array_equal(again.frequencies, found.frequencies)


def test_two_of_three_say_the_third():
    X, y = data()
    by_q = fbed.stability(X, y, q=3, threshold=0.9, n_resamples=10, random_state=1)
    assert (by_q.q, by_q.threshold) == (3, 0.9)
    by_both = fbed.stability(X, y, q=3, pfer=0.5, n_resamples=10, random_state=1)
    assert by_both.bound <= 0.5 * (1 + 1e-9)
    words = " ".join(by_both.summary().split())
    assert "no more often than by drawing lots" in words
    assert "exchangeable" in words


def test_halves_that_cannot_be_searched_select_nothing():
    X, _ = data(60)
    rare = np.zeros(60, dtype=int)
    rare[:5] = 1
    found = fbed.stability(X, rare, n_resamples=20, random_state=1)
    assert any("count as selecting nothing" in note for note in found.notes)
    assert found.n_resamples == 20
    event = np.zeros(60, dtype=bool)
    event[:1] = True
    with pytest.raises(fbed.InvalidInput, match="cannot be searched"):
        fbed.stability(X, (np.arange(1.0, 61.0), event), n_resamples=20, random_state=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": 7}, "even number"),
        ({"threshold": 0.5}, "above 0.5"),
        ({"pfer": 0}, "above 0"),
        ({"q": 0}, "q must be"),
        ({"q": 31}, "more than the 30 candidates"),
        ({"q": 3, "pfer": 1, "threshold": 0.9}, "leave one of them out"),
        ({"assumption": "normal"}, "assumption must be"),
        ({"backward": False}, "backward is settled"),
        ({"max_features": 3}, "max_features is settled"),
    ],
)
def test_bad_input(options, message):
    X, y = data()
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.stability(X, y, **options)
    with pytest.raises(fbed.InvalidInput, match="too few to be resampled"):
        fbed.stability(X[:5], y[:5])


# -- integrated paths ---------------------------------------------------------------------------------------------


def made_up_paths(p: int, pairs: int, rates: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(3)
    uniform = rng.random((pairs, 2, p))
    uniform[:, :, :5] *= np.array([0.01, 0.02, 0.05, 0.1, 0.3])
    return np.array([(uniform < rate).mean(axis=(0, 1)) for rate in rates])


def test_scores_are_those_of_the_package_ipss():
    """Printed by version 1.1.13, which rounds to eight digits, for the same selections."""
    paths = made_up_paths(200, 25, np.linspace(0, 0.03, 20))
    scores = efp_scores(paths, np.geomspace(4, 1.2, 20), 200, 25)
    theirs = [0.00043261, 0.00077932, 0.21720054, 200.0, 200.0]
    np.testing.assert_allclose(np.round(scores.efp[:5], 8), theirs, atol=1e-10)
    np.testing.assert_allclose(
        false_discovery(np.round(scores.efp, 8))[:4], [0.00038966, 0.00038966, 0.07240018, 1.0], atol=1e-10
    )


def test_bound_and_scores_are_integrated_by_the_same_measure():
    """Where the levels are cut short, the package normalises the bound by all levels and the scores by those in use.

    The theorem has one measure. Its efp scores, multiplied by the ratio of the two, are ours.
    """
    scale = np.geomspace(4, 1.2, 15)
    scores = efp_scores(made_up_paths(40, 10, np.linspace(0.1, 0.5, 15)), scale, 40, 10)

    def normaliser(some: np.ndarray) -> float:
        return (1 - (some[-1] / some[0]) ** (1 / len(some))) / math.log(some[0] / some[-1])

    ratio = normaliser(scale[: scores.n_levels + 1]) / normaliser(scale)
    np.testing.assert_allclose(np.array([0.05451339, 11.27863178]) * ratio, scores.efp[[0, 4]], rtol=2e-7)


def test_package_ipss_itself():
    processing = pytest.importorskip("ipss.processing")
    rng = np.random.default_rng(8)
    p, pairs, n_levels = 60, 12, 10
    uniform = rng.random((pairs, 2, p)) * np.where(np.arange(p) < 4, 0.03, 1.0)
    rates = np.linspace(0, 0.04, n_levels)
    chosen = np.stack([(uniform < rate).astype(float) for rate in rates], axis=1)
    scale = np.geomspace(5, 1, n_levels)
    theirs = processing.postprocess_ipss(
        chosen.copy(), scale, n_levels, p, p, np.arange(p), pairs, 0.05, 1, "h3", None, None
    )
    ours = efp_scores(chosen.mean(axis=(0, 2)), scale, p, pairs)
    np.testing.assert_allclose(np.round(ours.efp, 8), [theirs["efp_scores"][j] for j in range(p)], atol=1e-10)


def test_false_discovery_by_hand():
    efp = np.array([0.1, 3.0, 0.1, 1.2, 50.0])
    by_hand = [min(max(efp[efp <= t]) / (efp <= t).sum() for t in efp if t >= own) for own in efp]
    np.testing.assert_allclose(false_discovery(efp), by_hand)


def test_ipss_finds_what_matters():
    X, y = data(200)
    found = fbed.ipss(X, y, n_resamples=20, n_levels=8, random_state=1, n_jobs=2)
    assert {3, 7} <= set(found.selected) <= {3, 7, 9}
    assert (found.efp_scores <= 30).all()
    same = fbed.ipss(X, y, n_resamples=20, n_levels=8, random_state=1, efp=0.5)
    np.testing.assert_array_equal(found.efp_scores, same.efp_scores)
    assert set(same.selected) == set(np.flatnonzero(same.efp_scores <= 0.5).tolist())
    noise = fbed.ipss(np.random.default_rng(5).normal(size=X.shape), y, n_resamples=10, n_levels=5, random_state=1)
    assert len(noise.selected) <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fdr": 0.1, "efp": 1}, "leave one of them out"),
        ({"fdr": 2}, "between 0 and 1"),
        ({"efp": -1}, "above 0"),
        ({"alpha": 0.01}, "alpha has no meaning here"),
        ({"n_levels": 2}, "n_levels"),
    ],
)
def test_bad_input_of_ipss(options, message):
    X, y = data()
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.ipss(X, y, **options)


def test_shown_saved_and_on_the_command_line(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    from fbed.cli.command import main

    X, y = data(80, 6)
    for found in (
        fbed.stability(X, y > 0, n_resamples=4, random_state=1, pfer=2),
        fbed.ipss(X, y, n_resamples=4, n_levels=4, random_state=1),
    ):
        assert json.loads(found.to_json())["kind"] == found.kind
        assert found.random_state == 1
        assert "methods" in found.report(tmp_path / "r.html").read_text()
        assert found.plot.frequencies() is not None
        assert len(found.to_frame()) == 6
    assert found.plot.paths() is not None
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_csv(tmp_path / "d.csv", index=False)
    line = [str(tmp_path / "d.csv"), "--target", "y", "--n-resamples", "4", "--random-state", "1", "-q"]
    assert main(["stability", *line, "--q", "2", "--threshold", "0.8", "--alpha", "0.01"]) == 0
    assert main(["ipss", *line, "--n-levels", "4", "--json"]) == 0
    assert "are stable" in capsys.readouterr().out
    assert main(["ipss", *line, "--alpha", "0.01"]) == 2
