"""The engine for tall data on every kind of data there is, however short, and its kernels against plain NumPy.

With the number of rows from which it is used set to none, it must select what fitting every model selects: where data
are not of its kind, it says so and leaves them to the ordinary model.
"""

from __future__ import annotations

import gc
import itertools
import math
import weakref

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, special

import fbed
from engine_cases import KINDS, of_another_family, trail_of
from fbed._kernels import (
    MomentsAtRisk,
    ProductsAtRisk,
    cox_change,
    cox_state,
    model_rows,
    score_interval,
    score_intervals,
    step_moments,
)
from fbed.families import builders
from fbed.matrix import row_blocks
from fbed.models.engines.bound_functions import E4, E, P
from fbed.models.engines.tall import climb, screen
from fbed.models.engines.tall import linear as tall_linear
from fbed.models.engines.tall.course import order_of_risk
from fbed.models.engines.tall.fit import TallFit
from fbed.models.engines.tall.linear import TallGaussianFit
from fbed.models.engines.tall.model import TallModel
from fbed.models.engines.tall.risk_sums import RiskSums
from fbed.models.engines.tall.row_sums import RowSums
from fbed.models.likelihoods.cox import Cox
from fbed.models.likelihoods.newton import Columns
from problem_cases import read_problem
from test_certified import assert_same, combination


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "cox"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_equals_exhaustive(kind, family, seed):
    number = KINDS.index(kind)
    rng = np.random.default_rng([21, number, seed, len(family)])
    case = kind(rng, family if family == "gaussian" else "binomial")
    if family in ("poisson", "cox"):
        case = of_another_family(kind(rng, "gaussian"), rng, family)
    criterion, algorithm = combination(7 * number + seed)
    options = {**algorithm, "max_features": 5}
    assert_same(*(trail_of(case, family, criterion, engine, **options) for engine in ("exhaustive", "certified")))


def mixed_table(rng, n=600):
    """Numbers, categories of a few and of many levels, sparse counts, and copies."""
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    table["few"] = rng.choice(list("xyz"), n)
    table["many"] = rng.integers(0, 30, n).astype(str)
    table["count"] = rng.poisson(0.2, n).astype(np.int8)
    table["a again"] = 3.0 * table["a"] + 1.0
    signal = table["a"] + table["count"] + (table["few"] == "x") + 0.5 * (table["many"] < "15")
    return table, signal.to_numpy()


@pytest.mark.parametrize("options", [{}, {"early_dropping": False}, {"criterion": "bic", "k": math.inf}])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "cox"])
def test_categories_and_groups(family, options):
    rng = np.random.default_rng(len(family))
    table, signal = mixed_table(rng)
    outcomes = {
        "gaussian": signal + rng.normal(size=len(signal)),
        "binomial": (signal + rng.logistic(size=len(signal)) > 1).astype(int),
        "poisson": rng.poisson(np.exp(0.3 * signal)),
        "cox": (np.ceil(9 * rng.exponential(size=len(signal)) * np.exp(-signal)), rng.random(len(signal)) < 0.7),
    }
    common = {
        "family": family,
        "groups": {"pair": ["c", "d"]},
        "sample_weight": rng.integers(1, 4, len(signal)),
        **options,
    }
    fast, slow = (fbed.select(table, outcomes[family], engine=e, **common) for e in ("certified", "exhaustive"))
    assert fast.selected == slow.selected
    assert fast.n_tests == slow.n_tests
    for one, other in zip(fast.trace, slow.trace, strict=True):
        assert one.variable == other.variable
        assert one.statistic is None or one.statistic == pytest.approx(other.statistic, rel=1e-7, abs=1e-7)
    np.testing.assert_allclose(fast.model.coefficients, slow.model.coefficients, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fast.model.standard_errors, slow.model.standard_errors, rtol=1e-4)


@pytest.mark.parametrize("storage", ["c", "f", "float32", "csc", "apart"])
def test_storage_changes_nothing(storage):
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(500, 8)) * 4) * (rng.random((500, 8)) < 0.5)
    y = (X[:, 0] + X[:, 1] + 3 * rng.logistic(size=500) > 0).astype(int)
    stored = {
        "c": np.ascontiguousarray(X),
        "f": np.asfortranarray(X),
        "float32": X.astype(np.float32),
        "csc": sparse.csc_array(X),
        "apart": pd.DataFrame({f"x{j}": X[:, j].astype([np.int8, np.float32, np.int64][j % 3]) for j in range(8)}),
    }
    expected = fbed.select(X, y, engine="exhaustive")
    found = fbed.select(stored[storage], y)
    assert list(found.indices) == list(expected.indices)
    assert found.model.coefficients == pytest.approx(expected.model.coefficients, rel=1e-6)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_in_another_order(order, turned):
    rng = np.random.default_rng(6)
    X, keep = np.array(rng.normal(size=(1300, 3)), order=order), rng.permutation(1300)[:1200]
    table = read_problem(X, X[:, 0], [fbed.BIC()]).design.table
    found = table.rows(keep, turned)
    np.testing.assert_array_equal(found.matrix, X[keep])
    assert found.n_rows == 1200
    assert found.matrix.flags.f_contiguous == (turned or order == "F")


def test_sparse_rows_in_another_order_stay_in_order():
    rng = np.random.default_rng(6)
    X, keep = sparse.random_array((300, 5), density=0.3, rng=rng, format="csc"), rng.integers(0, 300, 400)
    found = read_problem(X, rng.normal(size=300), [fbed.BIC()]).design.table.rows(keep).matrix
    np.testing.assert_array_equal(found.toarray(), X.toarray()[keep])
    for j in range(5):
        assert (np.diff(found.indices[found.indptr[j] : found.indptr[j + 1]]) > 0).all()


@pytest.mark.parametrize("family", ["poisson", "cox"])
def test_sparse_columns_in_several_blocks_of_rows(family, monkeypatch):
    """Survival times put the rows in another order."""
    monkeypatch.setattr(row_blocks, "_LEAST_ROWS", 50)
    monkeypatch.setattr(row_blocks, "_MOST_ROWS", 50)
    rng = np.random.default_rng(9)
    X = sparse.random_array((700, 40), density=0.1, rng=rng, format="csc")
    mean = np.exp(2.0 * (X[:, [0]] - X[:, [1]]).toarray()[:, 0])
    y = rng.poisson(mean) if family == "poisson" else (rng.exponential(1.0 / mean), rng.random(700) < 0.7)
    found, expected = (fbed.select(X, y, family=family, engine=engine) for engine in ("certified", "exhaustive"))
    assert found.selected == expected.selected
    assert len(found.selected) > 2
    for one, other in zip(found.trace, expected.trace, strict=True):
        assert one.statistic is None or one.statistic == pytest.approx(other.statistic, rel=1e-7)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_threads_change_no_bit(family):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(30_000, 6))
    y = (
        rng.poisson(np.exp(0.1 * X[:, 0] + 0.1 * X[:, 1]))
        if family != "binomial"
        else (X[:, 0] > rng.normal(size=30_000)) * 1
    )
    one, many = (fbed.select(X, y, family=family, n_jobs=jobs) for jobs in (1, 4))
    assert one.selected == many.selected
    assert [step.statistic for step in one.trace] == [step.statistic for step in many.trace]
    assert one.model.coefficients == many.model.coefficients


def test_it_is_this_engine_that_answers():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 5))
    y = (X[:, 0] + rng.logistic(size=400) > 0).astype(int)
    model = read_problem(X, y, [fbed.BIC()]).model
    assert isinstance(model, TallModel)
    assert isinstance(model.fit([0, 2]), TallFit)
    assert isinstance(read_problem(X, X[:, 1] + rng.normal(size=400), [fbed.BIC()]).model.fit([0]), TallGaussianFit)


def test_the_winner_is_fitted_once():
    """The fit that settles who is best is the one that the search goes on with."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2000, 30))
    y = (X[:, :4].sum(axis=1) + 2 * rng.logistic(size=2000) > 0).astype(int)
    model = read_problem(X, y, [fbed.BIC()]).model
    fit = model.fit([])
    bounds = fit.gain_bounds(np.arange(30), lambda df: np.full(len(df), 8.0))
    best = int(np.argmax(bounds.lower))
    fit.contest(np.array([best]), bounds.lower[[best]], bounds.upper[[best]], True)
    assert model.fit([best], fit) is fit._larger[best]
    assert len(fit._larger) <= 2


def test_a_result_can_be_settled():
    """Closest candidates, copies of the model's columns among them, without a basis of the model."""
    rng = np.random.default_rng(4)
    table, signal = mixed_table(rng)
    y = (signal + rng.logistic(size=len(signal)) > 1).astype(int)
    fast, slow = (fbed.select(table, y, engine=engine, alpha=0.001).settled() for engine in ("certified", "exhaustive"))
    assert fast.selected == slow.selected
    forward = [pair for pair in zip(fast.trace, slow.trace, strict=True) if pair[0].phase == "forward"]
    for one, other in forward:
        assert [f.variable for f in one.runners_up] == [f.variable for f in other.runners_up]
        found, expected = ([f.statistic for f in row.runners_up] for row in (one, other))
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)


# kernels


def glm_rows(counts, eta, y, a):
    mean = np.exp(eta) if counts else special.expit(eta)
    variance = mean if counts else mean * special.expit(-eta)
    least = y - special.xlogy(y, y) if counts else -special.xlogy(y, y) - special.xlogy(1 - y, 1 - y)
    loss = a @ ((mean - y * eta if counts else np.logaddexp(0, eta) - y * eta) - least)
    return mean, a * variance, a * (y - mean), loss


@pytest.mark.parametrize("counts", [False, True])
def test_rows_of_a_model(counts):
    rng = np.random.default_rng(3)
    n, k = 700, 9
    Z, b = np.asfortranarray(rng.normal(size=(n, k))), rng.normal(size=k)
    offset, a = rng.normal(size=n), rng.integers(0, 4, n).astype(float)
    y = rng.poisson(1.0, n).astype(float) if counts else rng.random(n)
    state = [np.empty(n) for _ in range(3)]
    least = y - special.xlogy(y, y) if counts else -special.xlogy(y, y) - special.xlogy(1 - y, 1 - y)
    loss, gradient, information = model_rows(counts, Z, b, offset, y, a, least, *state)
    *expected, expected_loss = glm_rows(counts, Z @ b + offset, y, a)
    for found, wanted in zip(state, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-300)
    assert loss == pytest.approx(expected_loss, rel=1e-13)
    np.testing.assert_allclose(gradient, Z.T @ expected[2], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.triu(information), np.triu(Z.T @ (expected[1][:, None] * Z)), rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("counts", [False, True])
def test_moments_of_steps(counts):
    rng = np.random.default_rng(4)
    n = 333
    mean, weight, _, _ = glm_rows(counts, rng.normal(size=n), np.zeros(n), rng.random(n))
    a = weight / (mean if counts else mean * (1 - mean))
    U = np.asfortranarray(rng.normal(size=(n, 5)))
    found = step_moments(counts, mean, weight, U)
    z = [U] if counts else [(1 - mean)[:, None] * U, -mean[:, None] * U]
    parts = [mean] if counts else [mean, 1 - mean]
    for row, power in enumerate((2, 3, 4)):
        wanted = sum((a * part) @ v**power for part, v in zip(parts, z, strict=True))
        np.testing.assert_allclose(found[row], wanted, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[3], np.min([v.min(axis=0) for v in z], axis=0))
    np.testing.assert_allclose(found[4], np.max([v.max(axis=0) for v in z], axis=0))


def risk_rows(time, event, stratum, weights):
    """Tied sets by comparing everybody with everybody."""
    starts = np.concatenate([[True], np.diff(stratum) != 0])
    closes, deaths, number = np.zeros(len(time), dtype=np.int64), [], 0
    for i in range(len(time)):
        same = (time == time[i]) & (stratum == stratum[i])
        if i == np.flatnonzero(same).max() and event[same].any():
            number += 1
            closes[i] = number
            deaths.append(weights[same & event].sum())
    return event.astype(float), closes, starts, np.array(deaths)


def terms_at_risk(time, event, stratum, weights, hazard):
    """Multiplicity and probabilities of the rows, of each of Efron's terms, by comparing everybody with everybody."""
    for s, t in sorted(set(zip(stratum[event].tolist(), time[event].tolist(), strict=True))):
        at_risk, dying = (stratum == s) & (time >= t), (stratum == s) & (time == t) & event
        d = weights[dying].sum()
        for m in range(max(1, int(np.ceil(d - 1e-9)))):
            h = hazard * (at_risk - dying * m / d)
            yield min(d - m, 1.0), h / h.sum()


def in_blocks(n, rng):
    """Rows cut anywhere."""
    ends = [0, *np.sort(rng.choice(np.arange(1, n), 4, replace=False)).tolist(), n]
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize(("n", "k"), [(80, 3), (300, 35)])
@pytest.mark.parametrize("kind", ["apart", "tied", "some tied", "next to none"])
def test_rows_at_risk(kind, n, k):
    """Against the ordinary model of the same rows, in another order, and against plain sums over Efron's terms."""
    rng = np.random.default_rng([6, len(kind), n])
    time = rng.exponential(size=n)
    time = {"tied": np.ceil(6 * time), "some tied": np.round(time, 2)}.get(kind, time)
    event, stratum = rng.random(n) < (0.05 if kind == "next to none" else 0.7), rng.integers(0, 2, n)
    weights = rng.integers(1, 3, n) * 0.75 if kind == "tied" else np.ones(n)
    order = order_of_risk(time, event, stratum)
    time, event, stratum, weights = time[order], event[order], stratum[order], weights[order]
    A, b = np.asfortranarray(rng.normal(size=(n, k + 2))), rng.normal(size=k) / k**0.5
    Z, X = A[:, :k], A[:, k:]
    rows = risk_rows(time, event, stratum, weights)
    hazard, expected, residual, triangle, loss = cox_state(*rows, Z @ b, weights)
    others, model = ProductsAtRisk(k, 2), ProductsAtRisk(k, 0)
    steps, U = MomentsAtRisk(k), np.asfortranarray(Z * rng.normal(size=k))
    for part in in_blocks(n, rng):
        about = rows[0][part], rows[1][part], rows[2][part]
        state = hazard[part], expected[part], residual[part], triangle
        others.add(*about, *state, np.asfortranarray(Z[part]), np.asfortranarray(X[part]))
        model.add(*about, *state, np.asfortranarray(Z[part]), np.empty((part.stop - part.start, 0), order="F"))
        steps.add(*about, hazard[part], rows[3], np.asfortranarray(U[part]))
    score, cross, own = (np.concatenate(pair, axis=-1) for pair in zip(model.found(), others.found(), strict=True))
    cox = Cox(time, event, weights, stratum, None)
    point = cox.at(Columns(Z), b[:, None])
    gradient, information = point.derivatives()
    np.testing.assert_allclose(score[:k], gradient[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(cross[:, :k], information[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(score, A.T @ residual, rtol=1e-9, atol=1e-9)
    other = cox.at(Columns(Z), np.zeros((k, 1)))
    null_loss = cox_state(*rows, np.zeros(n), weights)[-1]
    assert 2 * (null_loss - loss) == pytest.approx(other.value[0] - point.value[0], rel=1e-9)
    terms = list(terms_at_risk(time, event, stratum, weights, hazard))
    joint = sum(c * ((q[:, None] * A).T @ A - np.outer(q @ A, q @ A)) for c, q in terms)
    np.testing.assert_allclose(cross, joint[:k], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(own, np.diag(joint), rtol=1e-9, atol=1e-9)
    found = steps.found()
    for row, power in enumerate((2, 3, 4)):
        wanted = sum(c * (q @ (U - q @ U) ** power) for c, q in terms)
        np.testing.assert_allclose(found[row], wanted, rtol=1e-8, atol=1e-8)
    seen = [(U - q @ U)[stratum == stratum[q > 0][0]] for _, q in terms]
    assert (found[3] >= np.min([z.min(axis=0) for z in seen], axis=0) - 1e-12).all()
    assert (found[4] <= np.max([z.max(axis=0) for z in seen], axis=0) + 1e-12).all()
    assert (found[3] <= np.min([(U - q @ U)[q > 0].min(axis=0) for _, q in terms], axis=0) + 1e-12).all()
    assert (found[4] >= np.max([(U - q @ U)[q > 0].max(axis=0) for _, q in terms], axis=0) - 1e-12).all()


# who cannot be best


def outcome_of(family, eta, rng):
    n = len(eta)
    return {
        "binomial": lambda: (eta + rng.logistic(size=n) > 0).astype(int),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "cox": lambda: (np.round(rng.exponential(size=n) * np.exp(-eta), 2) + 0.01, rng.random(n) < 0.6),
    }[family]()


def hostile_columns(rng, n, p, mixed):
    """Correlated or not, with a copy, one that nearly is, and one that is large in few rows."""
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p)) * mixed)
    X[:, 5] = X[:, 0] + 1e-4 * X[:, 5]
    X[:, 6] = 100.0 * (rng.random(n) < 0.02)
    X[:, 9] = 3.0 - 2.0 * X[:, 1]
    return X


def same_search(one, other):
    assert one.selected == other.selected
    assert one.n_tests == other.n_tests
    for mine, its in zip(one.trace, other.trace, strict=True):
        assert mine.variable == its.variable
        assert mine.statistic is None or mine.statistic == pytest.approx(its.statistic, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", ["binomial", "poisson", "cox"])
def test_a_screen_leaves_no_winner_out(family, seed, monkeypatch):
    """Its intervals hold what a full look finds, and the search goes the same way as without it."""
    rng = np.random.default_rng([31, seed, len(family)])
    n, p = 1500, 30
    X = hostile_columns(rng, n, p, seed % 2)
    eta = (0.1, 0.1, 0.25, 0.25, 0.6, 0.6)[seed] * (X / X.std(axis=0))[:, :8] @ rng.normal(size=8)
    y = outcome_of(family, eta, rng)
    options = {"family": family, "early_dropping": False, "alpha": 0.2, "sample_weight": rng.integers(1, 3, n)}
    plain = fbed.select(X, y, **options)  # too few candidates for it to pay
    hopeful = {"_MANY": 1, "_LARGE": 1, "_EVEN": 1e-9, "_MOST_LEFT": 1.0, "_STEADY": (1e-9, 0.8)[seed // 2 % 2]}
    for name, value in hopeful.items():
        monkeypatch.setattr(screen, name, value)
    used, stale = [], []
    look = screen.Screen.look

    def watched(self, here, candidates, best_only):
        found = look(self, here, candidates, best_only)
        if found is not None:
            used.append(len(candidates))
            stale.append(self._before[1].rows is not here.rows)
            exact = self.sums.look(here.rows, here.selected, candidates)
            cross, own = exact.cross, exact.own
            gamma = here.covariance @ cross
            left, slack = own - (cross * gamma).sum(axis=0), 1e-8 * own
            assert (found.left - found.by_left <= left + slack).all()
            assert (left <= found.left + found.by_left + slack).all()
            assert (own <= found.own + slack).all()
            moved = self.sums.blocks.model(here.selected, self.sums.constant)(slice(0, n)) @ gamma
            assert (np.abs(moved).max(axis=0) <= found.spread * (1 + 1e-9)).all()
            score = exact.score - gamma.T @ here.gradient
            assert (np.abs(found.score - score) <= found.by_score + 1e-9 * np.abs(score)).all()
        return found

    monkeypatch.setattr(screen.Screen, "look", watched)
    screened = fbed.select(X, y, **options)
    assert used
    assert any(stale)
    same_search(screened, plain)


@pytest.mark.parametrize("family", ["binomial", "poisson", "cox"])
def test_most_steps_read_few_candidates(family, monkeypatch):
    """Without early dropping, one pass over all columns serves several steps, and finds what a pass a step finds."""
    rng = np.random.default_rng([32, len(family)])
    X = rng.normal(size=(20_000, 80))
    y = outcome_of(family, X[:, :12] @ rng.uniform(0.03, 0.06, 12), rng)
    sums, options = RiskSums if family == "cox" else RowSums, {"family": family, "early_dropping": False}
    looks, look = [], sums.look
    monkeypatch.setattr(sums, "look", lambda self, *asked: looks.append(len(asked[2])) or look(self, *asked))
    found = fbed.select(X, y, **options)
    assert len(found.trace) > 12
    assert sum(count == 80 for count in looks) < len(found.trace) / 2
    monkeypatch.setattr(screen, "_MANY", np.inf)
    same_search(found, fbed.select(X, y, **options))


@pytest.mark.parametrize("family", ["binomial", "poisson", "cox"])
def test_a_screen_that_tells_nothing_is_made_anew(family, monkeypatch):
    """Effects so large that weights change beyond recognition from step to step, next to separated at the end."""
    rng = np.random.default_rng([33, len(family)])
    X = hostile_columns(rng, 800, 70, 0)
    size = {"binomial": 4.0, "poisson": 0.7, "cox": 2.0}[family]
    y = outcome_of(family, size * X[:, [0, 1, 2, 3, 4]].sum(axis=1), rng)
    anew, at_all = [], screen.Screen.look_at_all
    monkeypatch.setattr(
        screen.Screen, "look_at_all", lambda self, here, *asked: anew.append(here) or at_all(self, here, *asked)
    )
    options = {"family": family, "early_dropping": False, "criterion": "bic"}
    found = fbed.select(X, y, **options)
    assert len(found.selected) > 3
    assert len(anew) > len(found.selected) / 2
    same_search(found, fbed.select(X, y, engine="exhaustive", **options))


@pytest.mark.parametrize("kind", ["apart", "tied", "weighted"])
def test_changes_of_those_at_risk(kind):
    """Against Efron's terms one by one."""
    rng = np.random.default_rng([34, len(kind)])
    n = 60
    time = rng.exponential(size=n)
    time = time if kind == "apart" else np.ceil(4 * time)
    event, stratum = rng.random(n) < 0.7, rng.integers(0, 2, n)
    weights = rng.integers(1, 4, n) * 0.75 if kind == "weighted" else np.ones(n)
    order = order_of_risk(time, event, stratum)
    time, event, stratum, weights = time[order], event[order], stratum[order], weights[order]
    hazards = [weights * np.exp(0.5 * rng.normal(size=n) - level) for level in (0.0, 1.0, 2.0)]
    terms = [list(terms_at_risk(time, event, stratum, weights, hazard)) for hazard in hazards]
    ratios = [now[1][now[1] > 0] / before[1][now[1] > 0] for before, _, now in zip(*terms, strict=True)]
    squares = [b[0] * ((s[1] - r[1])[b[1] > 0] ** 2 / b[1][b[1] > 0]).sum() for b, s, r in zip(*terms, strict=True)]
    least, largest, apart = cox_change(*risk_rows(time, event, stratum, weights), *hazards)
    assert least == pytest.approx(min(ratio.min() for ratio in ratios))
    assert largest == pytest.approx(max(ratio.max() for ratio in ratios))
    assert apart == pytest.approx(sum(squares))
    hazards[0][0] = 0.0
    assert cox_change(*risk_rows(time, event, stratum, weights), *hazards) == (0.0, np.inf, np.inf)


@pytest.mark.parametrize("rounded", [False, True])
def test_intervals_of_score_statistics(rounded):
    """The formulas of the module, one candidate at a time."""
    rng = np.random.default_rng(9)
    count, stretch, fit = 400, 1.5, (1e-10, 1e-4, 80.0)
    score, own, reach = rng.standard_t(2, count) * 5, rng.random(count) * 3, np.exp(rng.normal(-2, 2, count))
    left = own * rng.choice([1e-7, 0.01, 0.5, 1.0], count)
    by_score = rng.random(count) * 0.2 if rounded else np.zeros(1)
    by_left = rng.random(count) * left * 0.3 if rounded else np.zeros(1)
    if rounded:
        by_score[:3], by_left[3:6] = np.inf, 2.0 * left[3:6]
    found = score_intervals(score, by_score, left, by_left, own, reach, stretch, fit, 1e-5)
    for i in range(count):
        e, d = (by_score[i], by_left[i]) if rounded else (0.0, 0.0)
        if not (left[i] - d > 1e-5 * own[i] and np.isfinite(e)):
            assert found[i].tolist() == [0.0, pytest.approx(80.0), 1.0]
            continue
        m = stretch * (abs(score[i]) + e) / (left[i] - d) * reach[i]
        lower = P(np.array(m)) * max(abs(score[i]) - e, 0.0) ** 2 / (left[i] + d) - 2e-10
        upper = np.inf
        if m + 1e-4 < 1.0:
            upper = ((abs(score[i]) + e) ** 2 / (left[i] - d) + 1e-10) * P(np.array(-m - 1e-4))
        assert found[i, 0] == pytest.approx(max(float(lower), 0.0), rel=1e-8, abs=1e-9)
        assert found[i, 1] == pytest.approx(min(float(upper), 80.0), rel=1e-8)
        assert found[i, 2] == 0.0
    assert (found[:, 2] == 1.0).any()


def test_a_step_beyond_all_numbers_tells_nothing():
    assert score_interval(3.0, np.inf, (0.0, 0.0, 50.0)) == (0.0, pytest.approx(50.0))


@pytest.mark.parametrize("seed", range(4))
def test_products_that_are_found_ahead(seed, monkeypatch):
    """Of many columns, several are multiplied in one pass: the same products, in fewer passes, and the same search."""
    rng = np.random.default_rng([83, seed])
    X = rng.normal(size=(700, 90)) + (seed % 2) * rng.normal(size=(700, 1))
    y = X[:, :12] @ rng.uniform(0.2, 0.5, 12) + rng.normal(size=700)
    passes, ways = [], {}
    between = tall_linear.LinearSums.between
    monkeypatch.setattr(
        tall_linear.LinearSums, "between", lambda self, *asked: passes.append(asked) or between(self, *asked)
    )
    monkeypatch.setattr(tall_linear, "_PRODUCTS_A_READ", 0)  # never all at once
    for ahead in (1, 16):
        monkeypatch.setattr(tall_linear, "_AHEAD", ahead)
        passes.clear()
        result = fbed.select(X, y, family="gaussian", early_dropping=False, alpha=0.01)
        ways[ahead] = result.selected, result.n_tests, len(passes)
    assert ways[1][:2] == ways[16][:2]
    assert ways[16][2] < ways[1][2] / 2
    expected = fbed.select(X, y, family="gaussian", early_dropping=False, alpha=0.01, engine="exhaustive")
    assert ways[16][:2] == (expected.selected, expected.n_tests)


@pytest.mark.parametrize("spread", [0, 30, 300])
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_offsets_may_be_far_apart(family, spread, monkeypatch):
    """From their mean, Newton's method would not find the intercept; beyond some, not even from where it is."""
    monkeypatch.setattr(builders, "TALL", 0)
    rng = np.random.default_rng(1)
    X, offset = rng.normal(size=(400, 3)), rng.normal(size=400) * spread
    offset[:20] += 60.0
    y = np.where(np.arange(400) < 20, 0, rng.poisson(1.0, 400))
    y = y if family == "poisson" else np.minimum(y, 1)
    one, other = (
        fbed.select(X, y, family=family, offset=offset, engine=engine) for engine in ("certified", "exhaustive")
    )
    assert one.selected == other.selected
    assert one.model.null_deviance == pytest.approx(other.model.null_deviance, rel=1e-9)


@pytest.fixture
def beside():
    """A fit of counts, and its candidates' statistics."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(2000, 6))
    y = rng.poisson(np.exp(0.3 * X[:, 0] + 0.2 * X[:, 1] - 0.2 * X[:, 2]))
    model = read_problem(X, y, [], family="poisson").model
    candidates = np.arange(1, 6)
    return model, candidates, model.fit((0,)).gains(candidates).statistic


def test_a_fit_ends_once_enough_is_known_and_goes_on_when_more_is_asked(beside):
    model, candidates, exact = beside
    fit = model.fit((0,))
    seen = []
    for variable, statistic in zip(candidates.tolist(), exact, strict=True):
        low, high, _ = fit._gain_until(variable, lambda low, high: True, (0.0, np.inf, 1.0))
        seen.append(high - low)
        assert low <= statistic * (1 + 1e-9)
        assert statistic <= high * (1 + 1e-9)
    assert 0.0 < max(seen) < np.inf
    assert fit.n_larger == len(candidates)
    assert len(fit._told) < len(candidates)
    found = [fit._gain_until(v, lambda low, high: False, (0.0, np.inf, 1.0))[:2] for v in candidates.tolist()]
    np.testing.assert_allclose(found, np.column_stack([exact, exact]), rtol=1e-9)
    assert len(fit._told) == len(candidates)


def test_of_fits_that_a_scan_needed_only_the_best_keeps_its_rows(monkeypatch):
    """Effects of one size take many fits, and each has the state of all rows."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(3000, 8))
    y = rng.poisson(np.exp(0.2 * X.sum(axis=1)))
    fit = read_problem(X, y, [], family="poisson").model.fit(())
    candidates, made, began = np.arange(8), [], TallFit.__init__
    monkeypatch.setattr(TallFit, "__init__", lambda this, *given: made.append(weakref.ref(this)) or began(this, *given))
    for until in (lambda low, high: True, lambda low, high: False):
        for variable in candidates.tolist():
            fit._gain_until(variable, until, (0.0, np.inf, 1.0))
        gc.collect()
        assert fit.n_larger == 8
        assert sum(ref() is not None for ref in made) <= 1
    statistics, count = fit.gains(candidates).statistic, len(made)
    worst, best = int(statistics.argmin()), int(statistics.argmax())
    assert fit.known((best,)).resolve_loss(best, 0.0)[0] == statistics[best]
    assert len(made) == count
    assert fit.known((worst,)).resolve_loss(worst, 0.0)[0] == statistics[worst]  # fitted again, in one sweep


def test_who_is_certain_not_to_be_best_is_not_fitted_to_the_end(beside):
    model, candidates, exact = beside
    fit = model.fit((0,))
    lower, upper = fit.contest(candidates, np.zeros(5), np.full(5, np.inf), True)
    best = int(exact.argmax())
    assert lower[best] == upper[best] == pytest.approx(exact[best], rel=1e-9)
    assert (lower <= exact * (1 + 1e-9)).all()
    assert (exact <= upper * (1 + 1e-9)).all()
    assert (np.delete(upper, best) < exact[best]).all()
    assert (np.delete(lower < upper, best)).any()
    lower, upper = fit.contest(candidates, np.zeros(5), np.full(5, np.inf), False)
    np.testing.assert_allclose(lower, exact, rtol=1e-9)
    np.testing.assert_allclose(upper, exact, rtol=1e-9)


def test_a_removal_that_costs_enough_is_not_fitted_to_the_end(beside):
    model, _, _ = beside
    fit = model.fit((0, 1, 2))
    exact = fit.losses(np.array([0, 1, 2])).statistic
    for variable in (0, 1):
        other = TallFit(model, (0, 1, 2), None)
        low, high = other.resolve_loss(variable, 5.0)
        assert 5.0 < low < high
        assert low <= exact[variable] <= high
        assert not other._smaller
        assert other.resolve_loss(variable, np.inf) == pytest.approx([exact[variable]] * 2, rel=1e-9)


@pytest.mark.parametrize("family", ["poisson", "cox", "multinomial"])
def test_how_far_a_step_moves_any_row(family, monkeypatch):
    monkeypatch.setattr(builders, "_are_tall_classes", lambda *_: True)
    monkeypatch.setattr(row_blocks, "_BLOCK_VALUES", 2**10)  # several blocks
    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.standard_t(2, size=(900, 3))).add_prefix("x")
    X["c"] = pd.Categorical(rng.integers(0, 12, 900).astype(str))
    y = {"poisson": rng.poisson(1.0, 900), "multinomial": rng.integers(0, 3, 900)}
    outcome = (rng.exponential(size=900), rng.random(900) < 0.6) if family == "cox" else y[family]
    fit = read_problem(X, outcome, [fbed.BIC()], family=family).model.fit((0, 2, 3))
    assert isinstance(fit, TallFit)
    step = rng.normal(size=len(fit.coefficients))
    Z = fit.sums.blocks.model((0, 2, 3), fit.sums.constant)(slice(0, 900))
    moved = Z @ step.reshape(Z.shape[1], -1)
    if family == "poisson":
        expected = np.abs(moved).max()
    elif family == "cox":
        expected = np.ptp(fit.sums.predictors((0, 2, 3), step))
    else:
        expected = np.ptp(np.column_stack([np.zeros(900), moved]), axis=1).max()
    assert fit.moved_by(step) == pytest.approx(expected, rel=1e-12)
    assert fit.moved_by(step) < fit.drift_of(step, fit.coefficients, fit.sweep)


@pytest.mark.parametrize("seed", [2, 5, 7])
def test_hazards_too_small_to_be_told_from_each_other_are_left_to_the_ordinary_model(seed):
    """Three rows with an outlier die last: beside each other they are not alike, however small their hazards."""
    rng = np.random.default_rng(seed)
    X, event = rng.normal(size=(120, 3)), np.ones(120, dtype=bool)
    time = rng.exponential(size=120) * np.exp(-X[:, 0])
    X[:3, 1], time[:3] = -1e5, 50.0 + np.arange(3)
    model = read_problem(X, (time, event), [fbed.BIC()], family="cox").model
    assert isinstance(model, TallModel)
    assert model.fit((0, 1)).deviance == pytest.approx(model.careful.fit((0, 1)).deviance, rel=1e-9)


def test_log_likelihoods_of_hazards_far_apart():
    """Those at risk beside larger hazards count for nothing; those by themselves are not told; no weight, no unit."""
    event, closes, starts = np.ones(4), np.arange(1, 5), np.array([True, False, False, False])

    def found(eta, weights=(1.0, 1.0, 1.0, 1.0)):
        return cox_state(event, closes, starts, np.ones(4), eta, np.array(weights))[4]

    eta = np.array([0.0, -900.0, 1.0, -2.0])
    assert found(eta) == pytest.approx((np.logaddexp.accumulate(eta) - eta).sum(), rel=1e-12)
    assert np.isinf(found(np.array([-900.0, -901.0, 0.0, 1.0])))
    alone = np.array([-900.0, -901.0, -899.0, 0.0])
    expected = (np.logaddexp.accumulate(alone[:3]) - alone[:3]).sum() + np.logaddexp.reduce(alone[:3]) + 899.0
    assert found(alone, (1.0, 1.0, 1.0, 0.0)) == pytest.approx(expected, rel=1e-12)


def test_a_null_model_that_is_lost_is_left_to_the_ordinary_one(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(200, 3)), rng.poisson(1.0, 200)
    expected = fbed.select(X, y, family="poisson").model.null_deviance
    monkeypatch.setattr(climb, "_SWEEPS", 0)
    found = fbed.select(X, y, family="poisson")
    assert found.model.null_deviance == pytest.approx(expected, rel=1e-12)


def test_bounds_of_steps_that_are_hardly_numbers():
    far = np.array([-1e200, 0.0, 1e3, 1e90, np.inf])
    for function, at_0 in ((E, 1.0), (E4, 1.0 / 12.0)):
        np.testing.assert_allclose(function(far), [0.0, at_0, np.inf, np.inf, np.inf], atol=1e-70)


def test_moments_that_are_no_numbers_tell_nothing():
    rng = np.random.default_rng(6)
    model = read_problem(rng.normal(size=(500, 3)), rng.poisson(2.0, 500), [fbed.BIC()], family="poisson").model
    fit = model.fit((0,))
    assert isinstance(fit, TallFit)
    lower, upper = fit._by_moments(np.array([[6e87], [1e175], [5e262], [-0.2], [3e87]]))
    assert lower[0] == 0.0
    assert upper[0] == pytest.approx(fit.deviance)
