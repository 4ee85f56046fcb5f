"""Which coefficients are infinite: those that a linear program can send away while no row loses likelihood."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize

import fbed
from fbed.clock import Clock, OutOfTime
from fbed.models.recession import Constraints, _null_space, recession, way_to_infinity
from fbed.result import cautions

FAMILIES = ("binomial", "trials", "offset", "poisson", "negative_binomial", "multinomial", "ordinal", "cox", "weibull")


def outcome(rng, family, signal, pure):
    """An outcome of a family; rows in `pure` are all at the edge of its range."""
    n, signal = len(signal), np.clip(signal, -3.0, 3.0)
    classes = np.digitize(signal + rng.logistic(size=n), [-0.7, 0.7])
    counts = rng.poisson(np.exp(0.5 * signal) * rng.gamma(2.0, 0.5, n))
    if family in ("binomial", "offset"):
        return np.where(pure, 1, classes > 0).astype(int)
    if family == "trials":
        return np.where(pure, 4, rng.binomial(4, 1 / (1 + np.exp(-signal))))
    if family in ("poisson", "negative_binomial"):
        return np.where(pure, 0, counts)
    if family == "multinomial":
        return np.array(["a", "b", "c"])[np.where(pure, 1, rng.integers(0, 3, n))]
    if family == "ordinal":
        return np.where(pure, 2, classes)
    return rng.exponential(np.exp(-0.4 * signal)) + 0.01, (rng.random(n) < 0.7) & ~pure


def hostile(seed, family):
    """A table with levels that may be pure, outliers and few rows, its outcome and extras."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    n = int(rng.integers(25, 90))
    level = rng.choice(["a", "b", "c", "d"], n, p=[0.4, 0.4, 0.1, 0.1])
    x = rng.normal(size=n)
    if seed % 3 == 0:
        x[rng.integers(n)] = rng.choice([-40.0, 40.0])
    table = pd.DataFrame({"level": level, "x": x, "z": (rng.random(n) < 0.15).astype(float)})
    table.loc[[0, 1], "z"] = [0.0, 1.0]  # it varies
    pure = np.isin(level, rng.choice(["c", "d", "x"], 2)) | (x > rng.choice([1.2, 9.0])) & (seed % 2 == 0)
    y = outcome(rng, family, x, pure)
    extras = {"trials": {"trials": np.full(n, 4)}, "offset": {"offset": rng.normal(size=n) * 8.0}}.get(family, {})
    if family in ("cox", "weibull") and seed % 4 == 1:
        y = (np.ceil(4 * y[0]) / 4, y[1])  # ties
    if family == "cox" and seed % 5 == 2:
        extras = {"entry": y[0] * rng.uniform(0.0, 0.99, n)}
    if family == "cox" and seed % 5 == 3:
        extras = {"strata": rng.integers(0, 3, n)}
    return table, y, extras


def design(table, intercept=True):
    """Standardised columns of the final model, as the terms are listed."""
    levels = sorted(set(table["level"]))
    columns = [(table["level"] == level).astype(float) for level in levels[1:]] + [table["x"], table["z"]]
    return np.column_stack([np.ones(len(table)), *columns] if intercept else columns)


def inequalities(family, table, y, extras):
    """Rows of A·d ≥ 0 and of E·d = 0 in the coefficients as they are listed, without any shortcut."""
    Z = design(table, family != "cox")
    n, k = Z.shape
    none = np.zeros((0, k))
    if family in ("binomial", "offset"):
        return (2.0 * y - 1.0)[:, None] * Z, none
    if family == "trials":
        return np.vstack([Z[y == 4], -Z[y == 0]]), Z[(y > 0) & (y < 4)]
    if family in ("poisson", "negative_binomial"):
        return -Z[y == 0], Z[y > 0]
    if family == "weibull":  # the coefficients are those of log time
        return Z[~y[1]], Z[y[1]]
    if family == "multinomial":
        codes, blocks = np.unique(y, return_inverse=True)[1], []
        for i in range(n):
            for other in set(range(3)) - {codes[i]}:
                row = np.zeros((3, k))
                row[codes[i]] += Z[i]
                row[other] -= Z[i]
                blocks.append(row[1:].ravel())
        return np.array(blocks), np.zeros((0, 2 * k))
    if family == "ordinal":  # coefficients, then the thresholds
        rows = [np.append(-Z[i, 1:], np.eye(2)[y[i]]) for i in range(n) if y[i] < 2]
        rows += [np.append(Z[i, 1:], -np.eye(2)[y[i] - 1]) for i in range(n) if y[i] > 0]
        return np.array(rows), np.zeros((0, k + 1))
    time, event = y
    entry, strata = extras.get("entry", np.full(n, -1.0)), extras.get("strata", np.zeros(n))
    at_risk = (time[None] >= time[:, None]) & (entry[None] < time[:, None]) & (strata[None] == strata[:, None])
    return np.array([Z[i] - Z[j] for i in np.flatnonzero(event) for j in np.flatnonzero(at_risk[i])]), none


def infinite_by_programs(A, E, size):
    """Signs that each coefficient can have along directions of the cone, two linear programs each."""
    scale = np.maximum(np.abs(np.vstack([A, E])).max(axis=0), 1e-300)
    out = []
    for j in range(size):
        signs = set()
        for sign in (1.0, -1.0):
            found = optimize.linprog(
                -sign * np.eye(size)[j],
                A_ub=-A / scale,
                b_ub=np.zeros(len(A)),
                A_eq=E / scale if len(E) else None,
                b_eq=np.zeros(len(E)) if len(E) else None,
                bounds=(-1.0, 1.0),
            )
            if -found.fun > 1e-6:
                signs.add(int(sign))
        out.append(signs)
    return out


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(12))
def test_infinite_terms_are_those_of_the_recession_cone(family, seed):
    table, y, extras = hostile(seed, family)
    name = "binomial" if family in ("trials", "offset") else family
    try:
        model = fbed.select(table, y, family=name, include=list(table), **extras).model
    except fbed.InvalidInput:  # a class with a single row
        return
    A, E = inequalities(family, table, y, extras)
    size = A.shape[1]
    allowed = infinite_by_programs(A, E, size)
    ways = (model.directions or (0,) * len(model.terms))[:size]
    assert [bool(way) for way in ways] == [bool(signs) for signs in allowed], (model, allowed)
    assert all(way in signs for way, signs in zip(ways, allowed, strict=True) if way)
    assert model.separated == any(ways)
    errors = model.standard_errors or (math.nan,) * len(model.terms)
    for way, value, error in zip(ways, model.coefficients, errors, strict=False):
        assert value == way * math.inf if way else math.isfinite(value)
        assert math.isnan(error) if way else 0.0 < error < 1e4


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "trials"])
def test_a_pure_level_leaves_the_other_terms_as_they_are_without_its_rows(family):
    rng = np.random.default_rng(5)
    n = 300
    table = pd.DataFrame({"level": rng.choice(["a", "b", "c"], n, p=[0.5, 0.42, 0.08]), "x": rng.normal(size=n)})
    pure = (table["level"] == "c").to_numpy()
    y = outcome(rng, family, table["x"].to_numpy(), pure)
    offset = {"offset": rng.normal(size=n) * 2} if family == "offset" else {}
    name = "binomial" if family == "offset" else family
    model = fbed.select(table, y, family=name, include=list(table), **offset).model
    kept = tuple(v[~pure] for v in y) if isinstance(y, tuple) else y[~pure]
    offset = {key: v[~pure] for key, v in offset.items()}
    rest = fbed.select(table[~pure], kept, family=name, include=list(table), **offset).model
    finite = [i for i, way in enumerate(model.directions) if not way]
    assert set(model.infinite) == {term for term in model.terms if "[c]" in term}
    np.testing.assert_allclose(np.array(model.coefficients)[finite], rest.coefficients, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(np.array(model.standard_errors)[finite], rest.standard_errors, rtol=1e-5)


@pytest.mark.parametrize("engine", ["certified", "exhaustive"])
def test_standard_errors_where_nobody_of_a_level_is_ever_at_risk(engine):
    """Nothing is known of such a level, and that is not seen in what is known of others."""
    rng = np.random.default_rng(0)
    n, level = 200, np.repeat(["gone", "early", "a", "b", "c"], [8, 4, 60, 60, 68])
    table = pd.DataFrame({"level": level, "x": rng.normal(size=n)})
    time, event = 1.0 + rng.exponential(np.exp(-table["x"] - (level == "b"))), rng.random(n) < 0.8
    early = (level == "early") | (np.arange(n) < 4)
    time, event = np.where(early, 0.5, time), event & ~np.isin(level, ["gone", "early"])
    kept = ~np.isin(level, ["gone", "early"])
    model = fbed.select(table, (time, event), include=["level", "x"], engine=engine).model
    rest = fbed.select(table[kept], (time[kept], event[kept]), include=["level", "x"]).model
    told = dict(zip(model.terms, zip(model.coefficients, model.standard_errors, strict=True), strict=True))
    for term, *expected in zip(rest.terms, rest.coefficients, rest.standard_errors, strict=True):
        np.testing.assert_allclose(told[term], expected, rtol=1e-5)


@pytest.mark.parametrize("engine", ["certified", "exhaustive"])
def test_standard_errors_beside_a_row_beyond_all_doubt(engine):
    """The only success of a level has an outlier: whatever the level is worth, nobody doubts that success."""
    rng = np.random.default_rng(1)
    n, level = 600, rng.choice(list("abcdef"), 600, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
    table = pd.DataFrame({"level": level, "x": rng.normal(size=n)})
    y = (table["x"] + rng.logistic(size=n) > 1.0).to_numpy() & ~np.isin(level, ["d", "e", "f"])
    first = int(np.flatnonzero(level == "f")[0])
    table.loc[first, "x"], y[first] = 1e5, True
    kept = ~np.isin(level, ["d", "e", "f"])
    model = fbed.select(table, y, include=["level", "x"], engine=engine).model
    rest = fbed.select(table[kept], y[kept], include=["level", "x"]).model
    told = dict(zip(model.terms, zip(model.coefficients, model.standard_errors, strict=True), strict=True))
    for term, *expected in zip(rest.terms, rest.coefficients, rest.standard_errors, strict=True):
        np.testing.assert_allclose(told[term], expected, rtol=1e-4)


def test_an_outlier_is_no_separation_of_counts():
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=99), -60.0)
    y = np.append(rng.poisson(np.exp(0.5 * x[:99])), 0)
    model = fbed.select(x[:, None], y, family="poisson", include=[0]).model
    expected = sm.GLM(y, sm.add_constant(x), family=sm.families.Poisson()).fit(tol=1e-14)
    assert expected.fittedvalues.min() < 1e-8
    assert not model.separated
    np.testing.assert_allclose(model.coefficients, expected.params, rtol=1e-6)
    np.testing.assert_allclose(model.standard_errors, expected.bse, rtol=1e-6)


def test_an_outlier_is_no_separation_of_survival_times():
    rng = np.random.default_rng(1)
    x = np.append(rng.normal(size=99), -60.0)
    time = np.append(rng.exponential(np.exp(-0.5 * x[:99])), 30.0)
    event = np.append(rng.random(99) < 0.8, False)
    model = fbed.select(x[:, None], (time, event), include=[0]).model
    expected = sm.PHReg(time, x[:, None], event, ties="efron").fit()
    assert abs(x * expected.params[0]).max() > 18
    assert not model.separated
    np.testing.assert_allclose(model.coefficients, expected.params, rtol=1e-6)
    np.testing.assert_allclose(model.standard_errors, expected.bse, rtol=1e-6)


def test_large_predictors_are_no_separation_of_classes():
    """Three classes that lie far apart but overlap: predictors differ by more than 30, the maximum exists."""
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(m, 1.0, 60) for m in (-8.0, 0.0, 8.0)])
    y = np.repeat(["low", "middle", "top"], 60)
    swapped = y.copy()
    swapped[[np.argmax(x[:60]), 60 + np.argmin(x[60:120])]] = ["middle", "low"]
    swapped[[60 + np.argmax(x[60:120]), 120 + np.argmin(x[120:])]] = ["top", "middle"]
    model = fbed.select(x[:, None], swapped, family="multinomial", include=[0]).model
    expected = sm.MNLogit(swapped, sm.add_constant(x)).fit(disp=0, maxiter=200)
    assert np.ptp(expected.fittedvalues) > 18
    assert not model.separated
    np.testing.assert_allclose(model.coefficients, expected.params.T.ravel(), rtol=1e-5)
    np.testing.assert_allclose(model.standard_errors, expected.bse.T.ravel(), rtol=1e-4)


def partly_separated():
    rng = np.random.default_rng(2)
    level, x = rng.choice(["a", "b", "c"], 200, p=[0.5, 0.4, 0.1]), rng.normal(size=200)
    y = np.where(level == "c", 0, x + rng.logistic(size=200) > 0).astype(int)
    return fbed.select(pd.DataFrame({"level": level, "x": x}), y, include=["level", "x"])


def test_what_is_infinite_is_told_everywhere(tmp_path):
    result = partly_separated()
    said = "the coefficient of level[c] is infinite"
    assert said in " ".join(result.summary().split())
    assert "-∞" in result.summary()
    assert any(said in caution.text for caution in cautions.cautions(result))
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert said in page
    assert "−∞" in page
    assert "−∞" in result._repr_html_() or "coefficients" in result._repr_html_()


def test_infinite_coefficients_survive_json():
    result = partly_separated()
    saved = fbed.Result.from_json(result.to_json())
    assert saved.model.coefficients == result.model.coefficients
    assert saved.model.infinite == result.model.infinite == {"level[c]": -1}
    assert saved.summary() == result.summary()


def test_where_a_separated_model_arrived_is_kept_for_predictions():
    result = partly_separated()
    saved = fbed.Result.from_json(result.to_json())
    model = saved.model
    assert (model.reached, model.directions) == (result.model.reached, result.model.directions)
    assert len(model.reached) == len(model.terms)
    assert np.isfinite(model.reached).all()
    assert all(math.copysign(1, at) == way for at, way in zip(model.reached, model.directions, strict=True) if way)
    new = pd.DataFrame({"level": ["a", "b", "c"], "x": [0.3, -1.0, 2.0]})
    for kind in ("link", "response", "class"):
        np.testing.assert_array_equal(model.predict(new, kind), result.model.predict(new, kind))
    chance = model.predict(new)
    assert np.isfinite(model.predict(new, "link")).all()
    assert chance[2] < 1e-6 < chance[:2].min()  # the level that never had the outcome
    assert model.predict(new, "class").tolist()[2] == 0


@pytest.mark.parametrize("engine", ["certified", "exhaustive"])
@pytest.mark.parametrize("family", ["binomial", "multinomial", "ordinal"])
def test_the_likelihood_of_a_separated_model_is_its_limit(family, engine):
    """Not that of the coefficients at which the iterations ended."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    edges = [0.0] if family == "binomial" else [-0.5, 0.5]
    some = np.digitize(X[:, 0] + 0.5 * rng.normal(size=60) * (X[:, 1] < 0.5), edges)
    apart = fbed.select(X, np.digitize(X[:, 0], edges), family=family, engine=engine).model
    assert apart.log_likelihood == 0.0
    assert math.copysign(1.0, apart.deviance) == 1.0
    partly = pd.DataFrame({"x": X[:, 0], "pure": np.where(X[:, 1] > 1.2, "yes", "no")})
    some[X[:, 1] > 1.2] = len(edges)
    mixed = fbed.select(partly, some, family=family, engine=engine, alpha=0.9).model
    assert mixed.infinite
    assert mixed.deviance > 1.0
    assert mixed.log_likelihood == pytest.approx(-mixed.deviance / 2.0, rel=1e-12)


def test_models_saved_before_directions_were_are_read():
    plain = json.loads(partly_separated().to_json())
    del plain["model"]["directions"]
    plain["model"] |= {"coefficients": [0.1, 0.2, -20.0, 1.0], "standard_errors": None}
    model = fbed.Result.from_json(json.dumps(plain)).model
    assert (model.separated, model.infinite, model.coefficients[2]) == (True, {}, -20.0)
    assert "only their direction has meaning" in " ".join(fbed.Result.from_json(json.dumps(plain)).summary().split())


def test_a_direction_that_moves_no_row_is_not_infinite():
    rows = np.array([[1.0, 0.0], [2.0, 0.0]])
    found = recession(Constraints(rows, np.array([20.0, 30.0])), np.array([20.0, 5.0]))
    np.testing.assert_allclose(np.abs(found.span), [[1.0], [0.0]], atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("least", [0.0, 1e-9, 1e-6, 1e-3])
def test_directions_that_move_no_row_are_those_of_singular_values(least, seed):
    """Also where rows are many, and their products with each other have lost the digits that it takes."""
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(60, 400)), int(rng.integers(3, 30))
    hidden = int(rng.integers(1, size))
    moves = 10.0 ** rng.uniform(-5.0, 0.0, size)
    moves[:hidden] = least * rng.uniform(0.5, 1.0, hidden)  # of columns that are orthonormal
    left, right = (np.linalg.qr(rng.normal(size=(rows, size)))[0] for rows in (n, size))
    rows = np.sqrt(n) * (left * moves) @ right.T
    found = _null_space(rows)
    _, values, directions = np.linalg.svd(rows)
    expected = directions[(values > 1e-8 * max(1.0, values[0])).sum() :].T
    assert found.shape == expected.shape
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-6)
    assert np.abs(rows @ found).max(initial=0.0) <= 2e-8 * max(1.0, values[0])
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-12)


def test_a_linear_program_keeps_to_the_time_limit():
    """A search is ended, rather than told that there is no way to infinity."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 60))
    with Clock(0.0).running(), pytest.raises(OutOfTime):
        way_to_infinity(rows)
