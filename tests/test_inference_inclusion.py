"""Inclusion frequencies: the same answer as a loop by hand, for any number of threads; bad input is told."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed.inference.inclusion import binomial_interval
from fbed.inference.resamples import Resample, bootstrap, halves, seeds, subsample, units_of


def data(n: int = 120, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    X["b"] = X["a"] + 0.3 * X["b"]
    X["g"] = rng.choice(["u", "v", "w"], n)
    return X, (X["a"] + 0.5 * X["c"] + rng.normal(size=n)).to_numpy()


def outcomes(X: pd.DataFrame, y: np.ndarray) -> dict[str, tuple]:
    rng = np.random.default_rng(2)
    return {
        "gaussian": (y, {}),
        "binomial": (y > 0, {}),
        "poisson": (rng.poisson(np.exp(0.4 * y)), {}),
        "cox": ((rng.exponential(np.exp(-y)), rng.random(len(y)) < 0.7), {}),
        "multinomial": (np.digitize(y, [-0.7, 0.7]), {}),
    }


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "cox", "multinomial"])
def test_frequencies_are_those_of_a_loop_by_hand(family):
    X, y = data()
    outcome, options = outcomes(X, y)[family]
    found = fbed.inclusion(X, outcome, family=family, n_resamples=12, n_bootstrap=0, random_state=7, **options)
    units, counts = units_of(len(X)), dict.fromkeys(X.columns, 0)
    for seed in seeds(7, 12)[1]:
        rows = subsample(units, 0.5, seed).rows
        part = tuple(v[rows] for v in outcome) if isinstance(outcome, tuple) else np.asarray(outcome)[rows]
        half = X.iloc[rows].reset_index(drop=True)
        for name in fbed.select(half, part, family=family, **options).selected:
            counts[name] += 1
    assert dict(zip(found.candidates, (12 * found.frequencies).round().astype(int), strict=True)) == counts
    assert found.selected == fbed.select(X, outcome, family=family, **options).selected


def test_bootstrap_is_the_search_on_repeated_rows():
    X, y = data()
    found = fbed.inclusion(X, y, n_resamples=8, resampling="bootstrap", random_state=3)
    units, counts, slopes = units_of(len(X)), np.zeros(len(X.columns)), []
    for seed in seeds(3, 8)[1]:
        rows = bootstrap(units, seed).rows
        assert len(rows) == len(X)
        again = fbed.select(X.iloc[rows].reset_index(drop=True), y[rows])
        counts[[X.columns.get_loc(name) for name in again.selected]] += 1
        slopes.append(dict(zip(again.model.terms, again.model.coefficients, strict=True)).get("a", 0.0))
    np.testing.assert_allclose(found.frequencies, counts / 8)
    term = next(term for term in found.terms if term.term == "a")
    whole = fbed.select(X, y, include=list(X.columns)).model
    at = whole.terms.index("a")
    rmsd = np.sqrt(np.mean((np.array(slopes) - whole.coefficients[at]) ** 2)) / whole.standard_errors[at]
    assert term.rmsd_ratio == pytest.approx(rmsd, rel=1e-9)
    chosen = [slope for slope in slopes if slope != 0]
    assert term.relative_bias == pytest.approx(100 * (np.mean(chosen) / whole.coefficients[at] - 1), rel=1e-9)
    assert any("select too much" in note for note in found.notes)


def test_threads_change_nothing_and_the_seed_is_kept():
    X, y = data()
    one = fbed.inclusion(X, y, n_resamples=15, n_bootstrap=5)
    two = fbed.inclusion(X, y, n_resamples=15, n_bootstrap=5, random_state=one.random_state, n_jobs=3)
    np.testing.assert_array_equal(one.frequencies, two.frequencies)
    assert one.terms == two.terms
    assert one.selections == two.selections


def test_pairs_that_replace_each_other():
    rng = np.random.default_rng(5)
    a = rng.normal(size=300)
    X = pd.DataFrame({"a": a, "copy": a + 0.05 * rng.normal(size=300), "other": rng.normal(size=300)})
    y = a + X["other"] + rng.normal(size=300)
    found = fbed.inclusion(X, y, n_resamples=60, n_bootstrap=0, random_state=1)
    first = found.pairs()[0]
    assert {first.first, first.second} == {"a", "copy"}
    assert first.z < -3
    names, joint = found.joint(["a", "copy"])
    assert names == ("a", "copy")
    assert joint[0, 1] < 0.2
    assert joint[0, 0] == found.frequencies[0]
    assert "replace each other: copy and a" in " ".join(found.summary().split())


def test_units_stay_together_and_strata_in_proportion():
    subject, stratum = np.repeat(np.arange(20), 3), np.repeat(np.arange(20) < 8, 3)
    units = units_of(60, subject, stratum)
    for seed in seeds(0, 20)[1]:
        first, second = halves(units, seed)
        assert not set(subject[first.rows]) & set(subject[second.rows])
        for half in (first, second):
            assert (np.bincount(subject[half.rows], minlength=20) % 3 == 0).all()
            assert len(half.rows) == 30
            assert stratum[half.rows].sum() == 12
        drawn = bootstrap(units, seed)
        assert len(drawn.rows) == 60
        assert len(np.unique(drawn.cluster)) == 20
        for unit in range(20):
            assert len(set(subject[drawn.rows[drawn.cluster == unit]])) == 1
    odd = units_of(7, None, np.array([0, 0, 0, 1, 1, 1, 2]))
    first, second = halves(odd, seeds(0, 1)[1][0])
    assert len(first.rows) == len(second.rows) == 3
    assert not set(first.rows) & set(second.rows)
    with pytest.raises(fbed.InvalidInput, match="different strata"):
        units_of(4, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 0]))


def test_clusters_are_drawn_as_wholes():
    X, y = data(120)
    cluster = np.repeat(np.arange(40), 3)
    X, y = X.drop(columns="g"), y + np.repeat(np.random.default_rng(0).normal(size=40), 3)
    found = fbed.inclusion(
        X, y, family="mixed", cluster=cluster, n_resamples=4, n_bootstrap=3, random_state=1, max_features=2
    )
    assert found.settings["drawn"] == "subsamples of 50% of the units"
    assert found.n_bootstrap == 3
    lone = fbed.inclusion(X, y, n_resamples=4, n_bootstrap=0, random_state=1, units=np.arange(120))
    plain = fbed.inclusion(X, y, n_resamples=4, n_bootstrap=0, random_state=1)
    np.testing.assert_array_equal(lone.frequencies, plain.frequencies)  # clusters of one are rows


def test_interval_of_a_frequency():
    lower, upper = binomial_interval([0, 5, 10], 10)
    np.testing.assert_allclose(lower, [0.0, 0.187086, 0.691503], atol=1e-6)  # R: binom.test
    np.testing.assert_allclose(upper, [0.308497, 0.812914, 1.0], atol=1e-6)


def test_class_that_is_missing_from_resamples():
    X, _ = data(60)
    rare = np.zeros(60, dtype=int)
    rare[:4] = 1
    found = fbed.inclusion(X, rare, n_resamples=40, n_bootstrap=0, random_state=1)
    assert any("could not be searched" in note for note in found.notes)
    assert found.n_resamples < 40
    kept = fbed.inclusion(X, rare, n_resamples=40, n_bootstrap=0, random_state=1, stratify="outcome")
    assert kept.n_resamples == 40
    rare[2:] = 0
    with pytest.raises(fbed.InvalidInput, match=r"cannot be searched.*stratify"):
        fbed.inclusion(X, rare, n_resamples=40, random_state=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": 0}, "n_resamples must be a whole number"),
        ({"resampling": "jackknife"}, "'subsample' or 'bootstrap'"),
        ({"fraction": 1.0}, "fraction is the size"),
        ({"random_state": -1}, "random_state must be"),
        ({"stratify": "outcome"}, "needs classes or events"),
        ({"fraction": 0.02}, "too few to be resampled"),
        ({"units": np.arange(3)}, "one value a row"),
    ],
)
def test_bad_input(options, message):
    X, y = data()
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.inclusion(X, y, **options)


def test_ctrl_c_keeps_what_was_done():
    X, y = data()

    def stop(where):
        if where.done == 20:  # late enough for the first one to be among them, whichever process had it
            raise KeyboardInterrupt

    for n_jobs in (1, 2):
        found = fbed.inclusion(X, y, n_resamples=50, n_bootstrap=0, random_state=1, progress=stop, n_jobs=n_jobs)
        assert found.status == "interrupted"
        assert 1 <= found.n_resamples <= 22
    whole = fbed.inclusion(X, y, n_resamples=50, n_bootstrap=0, random_state=1)
    assert whole.selections[: found.n_resamples] == found.selections
    short = fbed.inclusion(X, y, n_resamples=5000, n_bootstrap=0, time_limit=0.05)
    assert short.status == "time_limit"
    assert 0 < short.n_resamples < 5000


def test_json_report_frame_and_plots(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    X, y = data()
    X = X.rename(columns={"a": "<a & b>"})
    found = fbed.inclusion(X, y, n_resamples=10, n_bootstrap=4, random_state=1)
    plain = json.loads(found.to_json(tmp_path / "found.json"))
    assert plain["kind"] == "inclusion"
    assert plain["frequencies"] == found.frequencies.tolist()
    page = found.report(tmp_path / "found.html").read_text()
    assert "&lt;a &amp; b&gt;" in page
    assert "<a & b>" not in page
    assert "Heinze" in page
    assert list(found.to_frame()["variable"]) == [row["variable"] for row in found.rows()]
    for draw in (found.plot.frequencies, found.plot.pairs, found.plot.coefficients):
        assert draw().figure is not None


def test_a_test_alone_has_no_coefficients():
    X, y = data(60)
    found = fbed.inclusion(X[["a", "c", "d"]], y, family="spearman", n_resamples=5, random_state=1)
    assert found.n_resamples == 5
    assert (found.frequencies <= 1).all()


def test_command_line(tmp_path, capsys):
    from fbed.cli.command import main

    X, y = data()
    X.assign(y=y, centre=np.arange(len(X)) % 4).to_csv(tmp_path / "data.csv", index=False)
    command = ["inclusion", str(tmp_path / "data.csv"), "--target", "y", "--n-resamples", "9", "--random-state", "1"]
    assert main([*command, "--stratify", "centre", "--report", str(tmp_path / "r.html"), "-q"]) == 0
    assert "inclusion" in (tmp_path / "r.html").read_text()
    assert "frequency" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_resamples"] == 9
    assert main([*command, "--fraction", "2"]) == 2


# R's abe 5.1.2, backward elimination without augmentation (tau = Inf, alpha = 0.05, F tests), on the draws below:
# frequency, estimate and standard error of the full model, RMSD ratio, relative conditional bias.
ABE = {
    "a": (1.0, 0.41534270973190890, 0.0825538575477634, 1.06429463589725, 0.044785613120147616),
    "b": (1.0, 0.39792897140273314, 0.0835751340826321, 0.95256272719449, -0.000876554450271905),
    "c": (0.3, -0.09116197509955530, 0.0827007721438607, 1.36298274559561, 1.534435161007302373),
    "d": (0.125, 0.11814147631641092, 0.0807132459367833, 1.42272754570364, 0.713391163945285456),
    "e": (0.45, -0.15635115924450999, 0.0840495912641574, 1.47541283660127, 0.363786011106534746),
}


def test_numbers_are_those_of_abe(monkeypatch):
    n, count = 120, 40
    i = np.arange(1, n + 1)
    made = {"a": np.sin(i * 1.3), "b": np.cos(i * 2.1), "c": np.sin(i * 0.37 + 1)}
    table = pd.DataFrame({**made, "d": np.cos(i * i * 0.11), "e": np.sin(i * i * 0.07)})
    y = 0.5 * table["a"] + 0.25 * table["b"] - 0.2 * table["c"] + 0.9 * np.sin(i * i * 0.313)
    draws = iter(range(1, count + 1))

    def drawn(units, seed):
        k = next(draws)
        return Resample(np.sort((i * 37 + k * 101 + (i * i * (k + 3)) % 89) % n))

    monkeypatch.setattr("fbed.inference.inclusion.bootstrap", drawn)
    found = fbed.inclusion(table, y, resampling="bootstrap", n_resamples=count, n_bootstrap=count, random_state=1)
    assert found.selected == ("a", "b")
    assert [(set(names), times) for names, times in found.models[:3]] == [
        ({"a", "b", "e"}, 16),
        ({"a", "b"}, 11),
        ({"a", "b", "c"}, 8),
    ]
    joint = found.joint(["c", "d", "e"])[1]
    np.testing.assert_allclose(joint, [[0.3, 0.1, 0.025], [0.1, 0.125, 0.05], [0.025, 0.05, 0.45]], atol=1e-12)
    terms = {term.term: term for term in found.terms}
    for name, (frequency, estimate, error, rmsd, bias) in ABE.items():
        own = terms[name]
        assert found.frequencies[found.candidates.index(name)] == pytest.approx(frequency, abs=1e-12)
        np.testing.assert_allclose((own.full_estimate, own.full_error, own.rmsd_ratio), (estimate, error, rmsd), 1e-9)
        assert own.relative_bias == pytest.approx(100 * bias, rel=1e-7)
