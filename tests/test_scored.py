"""Score tests by sums over rows: the answers of the engine that makes every column orthogonal to the model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fbed
from fbed.models.engines.scored import ScoredFit
from fbed.models.likelihoods.likelihood import RegressionFit
from problem_cases import read_problem


def table(rng, kind, n, p):
    if kind == "normal":
        return rng.normal(size=(n, p))
    if kind == "sparse":
        return sparse.csc_array(np.where(rng.random((n, p)) < 0.04, rng.poisson(2.0, (n, p)), 0))
    if kind == "indicators":
        return (rng.random((n, p)) < 0.3).astype(float)
    if kind == "near copies":
        X = rng.normal(size=(n, p))
        X[:, 1], X[:, 2], X[:, 3] = X[:, 0] + 1e-6 * rng.normal(size=n), X[:, 0], 5.0
        return X
    return rng.standard_t(1, size=(n, p)) * 10.0 ** rng.integers(-6, 6, p) + 10.0 ** rng.integers(-3, 4, p)


def outcome(rng, family, eta):
    eta = np.clip(eta - eta.mean(), -3.0, 3.0)
    if family == "poisson":
        return rng.poisson(np.exp(eta))
    if family == "gamma":
        return rng.gamma(2.0, np.exp(eta)) + 1e-9
    return (eta + rng.logistic(size=len(eta)) > 0).astype(int)


def drawn(seed, family, kind):
    rng = np.random.default_rng([seed, len(family), len(kind)])
    n, p = int(rng.integers(30, 300)), int(rng.integers(4, 40))
    X = table(rng, kind, n, p)
    scale = np.asarray(abs(X).max(axis=0).todense() if sparse.issparse(X) else np.abs(X).max(axis=0)).ravel()
    y = outcome(
        rng, family, np.asarray(X @ (rng.normal(size=p) * (rng.random(p) < 0.4) * 4.0 / np.maximum(scale, 1e-9)))
    )
    options = {"sample_weight": rng.integers(0, 4, n)} if seed % 3 == 1 else {}
    if seed % 4 == 2 and family != "gamma":
        options["offset"] = rng.normal(size=n)
    return X, y, options


@pytest.mark.parametrize("kind", ["normal", "sparse", "indicators", "near copies", "heavy tails"])
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_every_column_made_orthogonal(seed, family, kind):
    X, y, options = drawn(seed, family, kind)
    asked = {"family": family, "test": "score", "alpha": 0.1, "early_dropping": seed != 5, **options}
    quick, slow = (fbed.select(X, y, engine=engine, **asked) for engine in ("certified", "exhaustive"))
    assert quick.indices.tolist() == slow.indices.tolist()
    assert quick.n_tests == slow.n_tests
    for row, wanted in zip(quick.trace, slow.trace, strict=True):
        assert row.dropped.tolist() == wanted.dropped.tolist()
        assert row.statistic == (wanted.statistic and pytest.approx(wanted.statistic, rel=1e-5))


@pytest.mark.parametrize("family", ["multinomial", "ordinal", "negative_binomial", "cox"])
def test_batches_of_other_families_are_those_of_one_column_at_a_time(family, monkeypatch):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(120, 12))
    latent = X[:, 0] + rng.logistic(size=120)
    y = {"negative_binomial": rng.poisson(np.exp(0.5 * latent)), "cox": (np.exp(-latent), rng.random(120) < 0.7)}.get(
        family, np.digitize(latent, [-1.0, 1.0])
    )
    if family == "multinomial":
        y = np.array(["a", "b", "c"])[y]
    together = fbed.select(X, y, family=family, test="score", alpha=0.2)
    monkeypatch.setattr("fbed.models.likelihoods.likelihood._BATCH_VALUES", 1)
    alone = fbed.select(X, y, family=family, test="score", alpha=0.2)
    assert together.indices.tolist() == alone.indices.tolist()
    assert [row.statistic for row in together.trace] == [
        row.statistic and pytest.approx(row.statistic, rel=1e-8) for row in alone.trace
    ]


def test_trials_and_threads():
    rng = np.random.default_rng(3)
    X, trials = rng.normal(size=(400, 30)), rng.integers(1, 6, 400)
    y = rng.binomial(trials, 1.0 / (1.0 + np.exp(-X[:, :3].sum(axis=1))))
    asked = {"family": "binomial", "test": "score", "trials": trials}
    slow = fbed.select(X, y, engine="exhaustive", **asked)
    for n_jobs in (1, 2):
        quick = fbed.select(X, y, n_jobs=n_jobs, **asked)
        assert quick.indices.tolist() == slow.indices.tolist()
    assert set(quick.indices[:3]) == {0, 1, 2}


def test_most_columns_need_no_second_look(monkeypatch):
    """Columns are made orthogonal to the model only where what is left of them may be rounding."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 50))
    X[:, 7] = X[:, 0] + 1e-9 * rng.normal(size=300)
    problem = read_problem(
        X,
        (X[:, 0] + rng.logistic(size=300) > 0).astype(int),
        [fbed.LikelihoodRatio(0.05)],
        family="binomial",
        test="score",
    )
    fit = problem.model.fit([0])
    assert isinstance(fit, ScoredFit)
    asked = []
    careful = RegressionFit.gains
    monkeypatch.setattr(RegressionFit, "gains", lambda self, some: asked.extend(some.tolist()) or careful(self, some))
    fit.gains(np.arange(1, 50))
    assert asked == [7]
