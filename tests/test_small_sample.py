"""Robust Wald tests with few clusters: numbers of R's clubSandwich, a dense twin, degenerate predictors, the level."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from experiments import cluster_levels
from scipy import stats

import fbed
import small_sample_twin as twin
from fbed import families
from fbed.matrix.design import Design
from fbed.models.other_statistics import rows_as_clusters, small_sample
from fbed.models.other_statistics.gee import Gee
from fbed.tables.extras import read_extras
from fbed.tables.outcomes import read_outcome
from fbed.tables.table import read_table


def r_data() -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Sixty rows in twelve clusters, written so that R has the same numbers."""
    i = np.arange(60)
    cluster = np.concatenate([np.repeat(np.arange(1, 5), 2), np.repeat(np.arange(5, 11), 5), np.repeat([11, 12], 11)])
    frame = pd.DataFrame({"z": np.sin(1 + i * i), "x": np.cos(3 * i * i + 1), "between": np.sin(7 * cluster**2)})
    frame["rare"] = np.isin(cluster, [3, 11]).astype(float)
    level, kind = np.array(list("abc"))[i**3 % 3], np.array(list("abc"))[(cluster**2 + cluster // 2) % 3]
    frame["level"], frame["kind"] = pd.Categorical(level), pd.Categorical(kind)
    effects = 0.5 * frame["z"] + 0.6 * frame["x"] + 0.9 * frame["between"] + 1.5 * frame["rare"]
    y = effects + 0.7 * (level == "b") + 0.8 * (kind == "a") + 0.5 * np.sin(5 * cluster) + np.cos(11 * i * i)
    y = y.to_numpy()
    return frame, {"y": y, "count": np.floor(2 * np.exp(0.5 * y)), "event": (y > 0.9).astype(float), "cluster": cluster}


# F, degrees of freedom of its denominator and p-value of each predictor beside z, by clubSandwich 0.5.8 on `r_data`:
#   m <- lm(y ~ z + x), glm(count ~ z + x, poisson), glm(event ~ z + x, binomial) with epsilon = 1e-14,
#        gls(y ~ z + x, correlation = corCompSymm(0.3, form = ~ 1 | cluster, fixed = TRUE))
#   V <- vcovCR(m, cluster, type = "CR3"), for HC3 with every row a cluster
#   coef_test(m, V, test = "Satterthwaite"), or Wald_test(m, constrain_zero(3:4), V, test = "HTZ") for categories
R_NUMBERS = {
    ("lm", "x"): (5.776041166, 5.622941663, 0.05582127208),
    ("lm", "between"): (0.6619052429, 3.340154765, 0.4698710137),
    ("lm", "rare"): (0.08633585423, 1.144358087, 0.8131704408),
    ("lm", "level"): (3.524521973, 6.435297459, 0.09253256179),
    ("lm", "kind"): (0.1832838808, 1.659161098, 0.8473861734),
    ("poisson", "x"): (8.844870385, 4.994637421, 0.03105366602),
    ("poisson", "between"): (0.5493348895, 3.262550413, 0.508343933),
    ("poisson", "rare"): (0.1143545116, 1.175344866, 0.7856409875),
    ("poisson", "level"): (3.954209785, 6.361103861, 0.07656275217),
    ("poisson", "kind"): (0.09040730361, 1.557837749, 0.9180216976),
    ("binomial", "x"): (3.985054337, 6.402479678, 0.08990868083),
    ("binomial", "between"): (0.9556388638, 3.490645178, 0.3910737543),
    ("binomial", "rare"): (0.04153797903, 1.148959359, 0.8685744498),
    ("binomial", "level"): (1.566125464, 6.281199812, 0.2806577134),
    ("binomial", "kind"): (0.4825042672, 1.905587578, 0.6767945363),
    ("gls", "x"): (5.177977626, 5.280772364, 0.06913712839),
    ("gls", "between"): (1.157295465, 5.000945184, 0.3311652707),
    ("gls", "rare"): (0.3773301329, 1.216571494, 0.633838067),
    ("gls", "level"): (3.562811856, 6.200955101, 0.0932899939),
    ("gls", "kind"): (0.2054298636, 2.00729734, 0.829530053),
    ("HC3", "x"): (12.29235376, 39.390794, 0.001151451154),
    ("HC3", "between"): (1.367909138, 34.36324048, 0.2502201497),
    ("HC3", "rare"): (1.434490979, 18.04508679, 0.2465290402),
    ("HC3", "level"): (1.957180283, 40.01670989, 0.1545443853),
    ("HC3", "kind"): (0.8485980506, 15.6405221, 0.4468030164),
}

SETTINGS = {
    "lm": ("gaussian", "y", "cluster"),
    "poisson": ("poisson", "count", "cluster"),
    "binomial": ("binomial", "event", "cluster"),
    "HC3": ("gaussian", "y", "HC3"),
    "gls": ("gee", "y", None),
}


def bound(frame, y, family, cov, cluster=None, link=None, weights=None):
    n = len(frame)
    design = Design(read_table(frame), np.ones(n) if weights is None else weights)
    extras = read_extras(frame, n, {} if cluster is None else {"cluster": cluster})
    return families.find(family).build(families.Request(design, read_outcome(y, n), extras, "wald", cov, link))


@pytest.mark.parametrize(("setting", "predictor"), R_NUMBERS)
def test_numbers_are_those_of_clubsandwich(setting, predictor, monkeypatch):
    frame, rest = r_data()
    family, outcome, cov = SETTINGS[setting]
    if setting == "gls":  # R's correlation is not estimated
        monkeypatch.setattr(Gee, "_correlation", lambda self, residual, k: (0.3, 1.0))
    model = bound(frame, rest[outcome], family, cov, None if cov == "HC3" else rest["cluster"])
    if setting == "poisson":  # R's clusters have the same dispersion
        model.likelihood.own_dispersion = False
    j = list(frame.columns).index(predictor)
    found = model.fit([0]).gains(np.array([j]))
    f, denominator, p = R_NUMBERS[setting, predictor]
    df = 2 if predictor in ("level", "kind") else 1
    assert stats.f.sf(f, df, denominator) == pytest.approx(p, rel=1e-6)
    assert found.df[0] == df
    assert np.exp(found.log_p[0]) == pytest.approx(p, rel=1e-6)
    assert found.statistic[0] == pytest.approx(stats.chi2.isf(p, df), rel=1e-6)


def clustered(seed=0, n_clusters=15):
    """Predictors of every kind, and outcomes of every kind that depend on a covariate and on clusters."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), rng.integers(3, 9, n_clusters))
    n = len(cluster)
    frame = pd.DataFrame(
        {"z": rng.normal(size=n), "x": rng.normal(size=n), "between": rng.normal(size=n_clusters)[cluster]}
    )
    frame["two"], frame["one"] = np.isin(cluster, [3, 5]).astype(float), (cluster == 4).astype(float)
    frame["rows of one"] = frame["one"] * rng.normal(size=n)
    frame["level"] = pd.Categorical(np.where(cluster == 4, "d", rng.choice(list("abc"), n)))
    eta = 0.4 * frame["z"].to_numpy() + 0.5 * rng.normal(size=n_clusters)[cluster]
    outcomes = {
        "gaussian": eta + rng.normal(size=n),
        "binomial": (eta + rng.logistic(size=n) > 0).astype(float),
        "poisson": rng.poisson(np.exp(0.5 + eta)),
        "gamma": rng.gamma(2.0, np.exp(eta)),
    }
    return frame, outcomes, cluster


MODELS = {
    "gaussian": ("gaussian", "gaussian", {"cov": "cluster"}),
    "binomial": ("binomial", "binomial", {"cov": "cluster"}),
    "poisson": ("poisson", "poisson", {"cov": "cluster"}),
    "negative_binomial": ("negative_binomial", "poisson", {"cov": "cluster"}),
    "gamma": ("gamma", "gamma", {"cov": "cluster"}),
    "gee": ("gee", "gaussian", {"cov": None}),
    "gee logit": ("gee", "binomial", {"cov": None}),
    "gee log": ("gee", "poisson", {"cov": None, "link": "log"}),
}


def place(frame, *names):
    return np.array([list(frame.columns).index(name) for name in names])


@pytest.mark.parametrize("name", MODELS)
def test_what_a_single_cluster_shows_is_not_tested(name):
    family, outcome, options = MODELS[name]
    frame, outcomes, cluster = clustered()
    fit = bound(frame, outcomes[outcome], family, cluster=cluster, **options).fit([0])
    found = fit.gains(place(frame, "one", "rows of one"))
    assert found.statistic.tolist() == [0.0, 0.0]
    assert found.log_p.tolist() == [0.0, 0.0]
    assert 0.05 < np.exp(fit.gains(place(frame, "two")).log_p[0]) < 1.0


@pytest.mark.parametrize("name", ["gaussian", "poisson", "gee"])
def test_predictors_of_one_or_two_clusters_are_named(name):
    family, outcome, options = MODELS[name]
    frame, outcomes, cluster = clustered()
    frame = frame.assign(constant=1.0, three=np.isin(cluster, [1, 2, 3]).astype(float))
    result = fbed.select(frame, outcomes[outcome], family=family, cluster=cluster, **options)
    (note,) = [note for note in result.notes if "clusters or fewer" in note]
    assert "'two', 'one', 'rows of one';" in note
    none = fbed.select(frame[["z", "between", "three"]], outcomes[outcome], family=family, cluster=cluster, **options)
    assert not [note for note in none.notes if "clusters or fewer" in note]


@pytest.mark.parametrize("name", MODELS)
def test_a_level_of_a_single_cluster_is_left_out_of_the_test_of_its_category(name):
    """As if its indicator were in the model; the statistic has the p-value of what is left."""
    family, outcome, options = MODELS[name]
    frame, outcomes, cluster = clustered()
    model = bound(frame, outcomes[outcome], family, cluster=cluster, **options)
    whole = model.fit([0]).gains(place(frame, "level"))
    rest = model.fit([0, int(place(frame, "one")[0])]).gains(place(frame, "level"))
    assert (whole.df[0], rest.df[0]) == (3, 2)
    assert whole.log_p[0] == pytest.approx(rest.log_p[0], rel=1e-6)
    assert rest.log_p[0] < 0.0


@pytest.mark.parametrize("name", ["gaussian", "poisson", "binomial"])
def test_an_effect_of_one_cluster_in_the_model_is_no_obstacle(name):
    frame, outcomes, cluster = clustered()
    y = outcomes[name]
    model = bound(frame, y, name, "cluster", cluster)
    found = model.fit(place(frame, "z", "one")).gains(place(frame, "x", "between", "two"))
    fits = {"gaussian": twin.linear, "poisson": twin.generalised(sm.families.Poisson())}
    fit = fits.get(name, twin.generalised(sm.families.Binomial()))
    for i, candidate in enumerate(("x", "between", "two")):
        Z = np.column_stack([np.ones(len(y)), frame[["z", "one", candidate]]])
        D, variance, residual, params = fit(Z, y, {})
        log_p = twin.left_out_test(D, variance, residual, params[-1:], twin.rows_of(cluster), name == "poisson")[2]
        assert found.log_p[i] == pytest.approx(log_p, rel=1e-6)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "gee log", "binomial", "gee logit"])
def test_an_infinite_coefficient_is_no_evidence(name):
    """No events at all in two clusters: the variance of an estimate at infinity is 0, and so was its standard error."""
    family, outcome, options = MODELS[name]
    frame, outcomes, cluster = clustered()
    y = np.where(frame["two"] > 0, 0, outcomes[outcome])
    found = bound(frame, y, family, cluster=cluster, **options).fit([0]).gains(place(frame, "two", "x"))
    assert found.log_p[0] == 0.0
    assert found.log_p[1] < 0.0


def test_standard_errors_are_those_of_mancl_and_derouen():
    frame, outcomes, cluster = clustered()
    Z = sm.add_constant(frame[["z", "x", "between"]].to_numpy())
    cases = (
        ({"family": "gaussian", "cov": "cluster"}, "gaussian", sm.families.Gaussian(), sm.cov_struct.Independence()),
        ({"family": "poisson", "cov": "cluster"}, "poisson", sm.families.Poisson(), sm.cov_struct.Independence()),
        ({"family": "binomial", "cov": "cluster"}, "binomial", sm.families.Binomial(), sm.cov_struct.Independence()),
        ({"family": "gee"}, "gaussian", sm.families.Gaussian(), sm.cov_struct.Exchangeable()),
        ({"family": "gee", "link": "log"}, "poisson", sm.families.Poisson(), sm.cov_struct.Exchangeable()),
    )
    for options, outcome, family, structure in cases:
        y = outcomes[outcome]
        found = fbed.select(frame[["z", "x", "between"]], y, cluster=cluster, include=[0, 1, 2], **options).model
        expected = sm.GEE(y, Z, cluster, family=family, cov_struct=structure).fit(
            cov_type="bias_reduced", ctol=1e-10, maxiter=200
        )
        np.testing.assert_allclose(found.standard_errors, expected.bse, rtol=1e-5)


def test_statistics_rank_candidates_as_their_p_values_do():
    """Whatever their degrees of freedom: a large effect in two clusters is worth less than a smaller one in many."""
    frame, outcomes, cluster = clustered(3)
    y = outcomes["gaussian"] + 3.0 * frame["two"] + 0.5 * frame["x"]
    found = bound(frame, y, "gaussian", "cluster", cluster).fit([0]).gains(place(frame, "x", "between", "two"))
    assert np.argsort(found.statistic).tolist() == np.argsort(-found.log_p).tolist()
    assert found.log_p[0] < found.log_p[2]
    np.testing.assert_allclose(found.log_p, stats.chi2.logsf(found.statistic, 1), rtol=1e-10)


def test_few_rows_and_many_variables_have_an_answer():
    """More coefficients than clusters, clusters of one row, two clusters: p-values between 0 and 1, nothing else."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, n_clusters = int(rng.integers(8, 30)), int(rng.integers(2, 7))
        cluster = np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, n - n_clusters)])
        frame = pd.DataFrame(rng.normal(size=(n, 6)) * 10.0 ** rng.integers(-8, 8, 6)).rename(columns=str)
        frame["c"] = pd.Categorical(rng.choice(list("abcd"), n))
        frame["d"] = pd.Categorical(cluster.astype(str))
        y = rng.normal(size=n)
        count = rng.poisson(1.0, n) + (np.arange(n) == 0)
        for family, outcome, cov in (
            ("gaussian", y, "cluster"),
            ("gaussian", y, "HC3"),
            ("poisson", count, "cluster"),
            ("gee", y, None),
        ):
            model = bound(frame, outcome, family, cov, None if cov == "HC3" else cluster)
            for selected in ([], [0], [0, 1, 2, 6]):
                found = model.fit(selected).gains(np.array([3, 4, 5, 7]))
                assert np.isfinite(found.log_p).all(), (seed, family, cov, selected)
                assert (found.log_p <= 0.0).all(), (seed, family, cov, selected)


@pytest.mark.parametrize(("name", "size"), [("gaussian", 20), ("poisson", 20), ("gee", 20), ("HC3", 50)])
def test_the_level_holds(name, size):
    """A small version of `experiments/cluster_levels.py`; χ² rejects in 30 % for a predictor in two clusters."""
    for cell in cluster_levels.simulate(name, size, 120, seed=1):
        assert cell.holds, cell


def test_the_table_of_levels_is_written(tmp_path, capsys):
    cells = [cluster_levels.Cell("gee", "20 clusters", "within", 100, n) for n in (11, 12)]
    assert [cell.holds for cell in cells] == [True, False]
    assert "| gee | 20 clusters | 100 | 0.110 | 0.120 **above** |" in cluster_levels.report(cells)
    path = tmp_path / "levels.md"
    assert cluster_levels.main(["--families", "gaussian", "--repetitions", "2", "--output", str(path)]) in (0, 1)
    assert capsys.readouterr().out.strip() in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("q", [1, 2])
def test_pairs_of_clusters_one_by_one(q):
    """One cluster has nearly all the weight: what it is with itself is far larger than all the rest."""
    rng = np.random.default_rng(q)
    spread = rng.normal(size=(3, 9, 3, q))
    spread[:, 2] *= 1e9
    spread[:, [c for c in range(9) if c != 2]] *= 1e-9
    spread[:, 5] *= 1e4
    own = rng.normal(size=(3, 9, q, q))
    own = own @ own.swapaxes(2, 3)
    expected = np.zeros(3)
    for model in range(3):
        for c in range(9):
            expected[model] += np.trace(own[model, c]) ** 2 + np.trace(own[model, c] @ own[model, c])
            for d in (d for d in range(9) if d != c):
                K = spread[model, c].T @ spread[model, d]
                expected[model] += np.trace(K) ** 2 + np.trace(K @ K)
    np.testing.assert_allclose(small_sample._pairs(spread, own), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_rows_as_clusters_are_clusters_of_one_row(seed):
    """A group's test from numbers of rows is that from a K × q matrix for every copy of every row."""
    rng = np.random.default_rng(seed)
    n, k, q = 30 + 5 * seed, 1 + seed % 3, 2 + seed % 4
    columns = (
        rng.standard_t(2, size=(n, k + q))
        if seed % 2
        else (rng.random((n, k + q)) < 0.2) + 0.1 * rng.random((n, k + q))
    )
    copies = rng.integers(1, 4, n)
    basis = np.linalg.qr(np.sqrt(copies)[:, None] * columns)[0] / np.sqrt(copies)[:, None]
    residual, estimate = rng.normal(size=n), 0.3 * rng.normal(size=q)
    every = np.repeat(np.arange(n), copies)
    leverage = (basis**2).sum(axis=1)
    factor = basis[:, -q:] / (1.0 - leverage)[:, None]
    changes, spread = factor * residual[:, None], basis[:, :, None] * factor[:, None]
    own = basis[:, -q:, None] * factor[:, None]
    left_out = small_sample.LeftOut(changes[every][None], spread[every][None], own[every][None])
    expected = small_sample.group_statistic(left_out, estimate[None], q)
    found = rows_as_clusters.group_test(basis, residual, estimate, copies.astype(float))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    rows = basis, basis[:, -q:], copies.astype(float)
    np.testing.assert_allclose(rows_as_clusters._by_pairs(*rows), rows_as_clusters._by_products(*rows), rtol=1e-12)


def test_wide_models_are_summed_many_rows_at_a_time(monkeypatch):
    """Each time the whole sum is gone through, which is far larger than the rows."""
    asked, products = [], rows_as_clusters._products
    monkeypatch.setattr(rows_as_clusters, "_products", lambda rows: asked.append(rows.shape) or products(rows))
    rng = np.random.default_rng(0)
    n, k = 200, 300
    rows = rng.normal(size=(n, k)), rng.normal(size=(n, 2)), np.ones(n)
    np.testing.assert_allclose(rows_as_clusters._by_products(*rows), rows_as_clusters._by_pairs(*rows), rtol=1e-12)
    assert sum(shape == (rows_as_clusters._ROWS, k) for shape in asked) == n // rows_as_clusters._ROWS
