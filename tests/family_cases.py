"""Every family with data drawn for it and an independent computation of its test: statsmodels, lifelines or by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import optimize, stats
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.miscmodels.ordinal_model import OrderedModel

import small_sample_twin as twin
from fbed import families
from fbed.matrix.design import Design
from fbed.tables.extras import read_extras
from fbed.tables.outcomes import read_outcome
from fbed.tables.table import read_table

Answer = tuple[float, float, float]  # statistic, df, log p
Test = Callable[[np.ndarray, np.ndarray, Any, dict[str, Any]], Answer]
"""Test of the columns in the second matrix but not in the first (both with a constant), for an outcome with extras."""


@dataclass(frozen=True)
class Case:
    """A family, how to draw an outcome from linear predictors, and the reference."""

    family: str
    draw: Callable[[np.random.Generator, np.ndarray], tuple[Any, dict[str, Any]]]
    reference: Test
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-7  # of the statistic, relative to max(1, statistic): what the reference itself is good for
    weighted: bool = True
    slow: bool = False
    predictors: str = "mixed"

    @property
    def likelihood(self) -> bool:
        return families.find(self.family).has_likelihood(self.options.get("test"), self.options.get("cov"))


def bound(case: Case, X: Any, y: Any, extras: dict[str, Any], weights: np.ndarray | None = None) -> Any:
    """The model of a case on given data, as `select` builds it."""
    table = read_table(X)
    family = families.find(case.family)
    weights = np.ones(table.n_rows) if weights is None else weights
    test = family.test_for(case.options.get("test"), case.options.get("cov"))
    design, outcome = Design(table, weights), read_outcome(y, table.n_rows)
    row_aligned = read_extras(X, table.n_rows, extras)
    options = (case.options.get("cov"), case.options.get("link"))
    return family.build(families.Request(design, outcome, row_aligned, test, *options))


def predictors(rng: np.random.Generator, n: int, kind: str = "mixed") -> pd.DataFrame:
    """Four columns of numbers of different shapes and scales, and two categorical ones."""
    if kind == "codes":
        return pd.DataFrame({f"x{j}": rng.integers(0, 2 + j % 3, n) for j in range(6)})
    frame = pd.DataFrame(rng.normal(size=(n, 4)), columns=[f"x{j}" for j in range(4)])
    frame["x2"] = 1000.0 + 5.0 * frame["x2"]
    frame["x3"] = (frame["x3"] > 0.5).astype(float)
    frame["f"] = pd.Categorical(rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]))
    frame["g"] = pd.Categorical(rng.choice(["u", "v"], n))
    return frame


def signal(frame: pd.DataFrame) -> np.ndarray:
    """A linear predictor with an effect of two numbers and of a category."""
    if frame.dtypes.iloc[0].kind == "i":
        return 0.8 * frame["x0"].to_numpy() - 0.8 * frame["x1"].to_numpy()
    return 0.5 * frame["x0"].to_numpy() - 0.4 * frame["x1"].to_numpy() + 0.5 * (frame["f"] == "b").to_numpy()


def columns(frame: pd.DataFrame, variables: Sequence[int]) -> np.ndarray:
    """A constant, numbers, and indicators of all levels but the first."""
    parts = [np.ones((len(frame), 1))]
    for j in variables:
        values = frame.iloc[:, j]
        if isinstance(values.dtype, pd.CategoricalDtype):
            parts.append(pd.get_dummies(values).to_numpy(float)[:, 1:])
        else:
            parts.append(values.to_numpy(float)[:, None])
    return np.hstack(parts)


def by_likelihood(log_likelihood: Callable[[np.ndarray, Any, dict[str, Any]], float], nominal: bool = False) -> Test:
    """The likelihood-ratio test from a function that maximises the likelihood on given columns."""

    def test(smaller: np.ndarray, larger: np.ndarray, y: Any, extras: dict[str, Any]) -> Answer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statistic = 2.0 * (log_likelihood(larger, y, extras) - log_likelihood(smaller, y, extras))
        df = (larger.shape[1] - smaller.shape[1]) * (len(np.unique(y)) - 1 if nominal else 1)
        return statistic, df, stats.chi2.logsf(statistic, df)

    return test


def by_wald(fit: Callable[[np.ndarray, Any, dict[str, Any]], Any]) -> Test:
    """The Wald test of the last columns of a fitted statsmodels model."""

    def test(smaller: np.ndarray, larger: np.ndarray, y: Any, extras: dict[str, Any]) -> Answer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = fit(larger, y, extras)
        new = slice(smaller.shape[1], larger.shape[1])
        beta, covariance = np.asarray(fitted.params)[new], np.asarray(fitted.cov_params())[new, new]
        statistic = float(beta @ np.linalg.solve(covariance, beta))
        return statistic, len(beta), stats.chi2.logsf(statistic, len(beta))

    return test


def glm(family: Callable[[], Any]) -> Callable[[np.ndarray, Any, dict[str, Any]], float]:
    """`family` is a class: its objects remember the trials of the model before."""

    def log_likelihood(Z: np.ndarray, y: Any, extras: dict[str, Any]) -> float:
        outcome = y if "trials" not in extras else np.column_stack([y, extras["trials"] - y])
        offset = np.log(extras["exposure"]) if "exposure" in extras else extras.get("offset")
        return float(sm.GLM(outcome, Z, family=family(), offset=offset).fit(tol=1e-12, maxiter=200).llf)

    return log_likelihood


def gamma_log_likelihood(Z: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> float:
    """The means by statsmodels, the shape by a search: its own estimate of the dispersion is not the likeliest."""
    offset = np.log(extras["exposure"]) if "exposure" in extras else None
    model = sm.GLM(y, Z, family=sm.families.Gamma(sm.families.links.Log()), offset=offset)
    mean = model.fit(tol=1e-13, maxiter=200).fittedvalues
    options = {"xatol": 1e-10}
    found = optimize.minimize_scalar(
        lambda log_shape: -stats.gamma.logpdf(y, np.exp(log_shape), scale=mean / np.exp(log_shape)).sum(),
        bounds=(-5.0, 8.0),
        method="bounded",
        options=options,
    )
    return float(-found.fun)


def standardised(Z: np.ndarray) -> np.ndarray:
    """The same span in columns that a general optimiser can work with."""
    return np.column_stack([Z[:, 0], (Z[:, 1:] - Z[:, 1:].mean(axis=0)) / Z[:, 1:].std(axis=0)])


def negative_binomial_log_likelihood(Z: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> float:
    Z, exposure = standardised(Z), extras.get("exposure")
    model = sm.NegativeBinomial(y, Z, exposure=exposure)
    start = np.append(sm.Poisson(y, Z, exposure=exposure).fit(disp=0).params, 0.5)
    return float(model.fit(start, disp=0, maxiter=1000, gtol=1e-8).llf)


def multinomial_log_likelihood(Z: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> float:
    return float(sm.MNLogit(y, Z).fit(disp=0, method="newton", maxiter=100, tol=1e-12).llf)


def ordinal_log_likelihood(link: str) -> Callable[[np.ndarray, Any, dict[str, Any]], float]:
    def log_likelihood(Z: np.ndarray, y: Any, extras: dict[str, Any]) -> float:
        codes = np.unique(y, return_inverse=True)[1]
        if Z.shape[1] == 1:
            counts = np.bincount(codes)
            return float(counts @ np.log(counts / counts.sum()))
        model = OrderedModel(codes, standardised(Z)[:, 1:], distr=link)
        return float(model.fit(method="bfgs", disp=0, maxiter=1000, gtol=1e-7).llf)

    return log_likelihood


def cox_log_likelihood(Z: np.ndarray, y: Any, extras: dict[str, Any]) -> float:
    time, event = y
    X = Z[:, 1:] if Z.shape[1] > 1 else np.zeros((len(time), 1))
    model = PHReg(
        time,
        X - X.mean(axis=0),
        event.astype(int),
        ties="efron",
        strata=extras.get("strata"),
        entry=extras.get("entry"),
    )
    if Z.shape[1] == 1:
        return float(model.loglike(np.zeros(1)))
    return float(model.fit(disp=0, gtol=1e-9, maxiter=200).llf)


def weibull_log_likelihood(Z: np.ndarray, y: Any, extras: dict[str, Any]) -> float:
    """By a quasi-Newton search on (β, log σ), the usual way to write this model."""
    Z, (time, event) = standardised(Z), y

    def loss(parameters: np.ndarray) -> float:
        scale = np.exp(parameters[-1])
        z = (np.log(time) - Z @ parameters[:-1]) / scale
        return -float(np.sum(event * (z - parameters[-1]) - np.exp(z)))

    start = np.append(np.linalg.lstsq(Z, np.log(time), rcond=None)[0], 0.0)
    found = optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-6, "maxiter": 2000})
    return -float(found.fun)


def mixed_log_likelihood(Z: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> float:
    """The density of every cluster from its covariance matrix, the two variances found by a search."""
    groups = [np.flatnonzero(extras["cluster"] == c) for c in np.unique(extras["cluster"])]

    def loss(log_ratio: float) -> float:
        ratio = np.exp(log_ratio)
        inverse = [np.linalg.inv(np.eye(len(g)) + ratio) for g in groups]
        inner = sum(Z[g].T @ v @ Z[g] for g, v in zip(groups, inverse, strict=True))
        cross = sum(Z[g].T @ v @ y[g] for g, v in zip(groups, inverse, strict=True))
        r = y - Z @ np.linalg.solve(inner, cross)
        rss = sum(r[g] @ v @ r[g] for g, v in zip(groups, inverse, strict=True))
        log_det = -sum(np.linalg.slogdet(v)[1] for v in inverse)
        return float(0.5 * (len(y) * np.log(rss / len(y)) + log_det))

    found = optimize.minimize_scalar(loss, bounds=(-12.0, 6.0), method="bounded", options={"xatol": 1e-8})
    return -min(float(found.fun), loss(-40.0))


def rank_columns(Z: np.ndarray) -> np.ndarray:
    return np.column_stack([Z[:, 0], *(stats.rankdata(column) for column in Z[:, 1:].T)])


def spearman(smaller: np.ndarray, larger: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> Answer:
    n, ranks = len(y), stats.rankdata(y)
    fits = [sm.OLS(ranks, rank_columns(Z)).fit() for Z in (smaller, larger)]
    f, _, df = fits[1].compare_f_test(fits[0])
    residual = n - larger.shape[1]
    return n * np.log1p(f * df / residual), df, stats.f.logsf(f, df, residual)


def residual_score(scores: np.ndarray, variance: float, smaller: np.ndarray, larger: np.ndarray) -> Answer:
    new = larger[:, smaller.shape[1] :]
    new = new - smaller @ np.linalg.lstsq(smaller, new, rcond=None)[0]
    total = new.T @ scores
    statistic = float(total @ np.linalg.solve(new.T @ new, total)) / variance
    return statistic, new.shape[1], stats.chi2.logsf(statistic, new.shape[1])


def rank_score(smaller: np.ndarray, larger: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> Answer:
    """Median regression as a linear program in the coefficients and the two parts of every residual."""
    n, k = smaller.shape
    scaled = smaller / np.abs(smaller).max(axis=0)
    cost = np.concatenate([np.zeros(k), np.full(2 * n, 0.5)])
    A = np.hstack([scaled, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * k + [(0, None)] * (2 * n)
    found = optimize.linprog(cost, A_eq=A, b_eq=y, bounds=bounds, method="highs")
    return residual_score(found.eqlin.marginals, 0.25, smaller, larger)


def huber_score(smaller: np.ndarray, larger: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> Answer:
    fit = sm.RLM(y, smaller).fit(tol=1e-13, maxiter=1000, conv="coefs")
    scores = np.clip(fit.resid / fit.scale, -1.345, 1.345)
    return residual_score(scores, float(scores @ scores) / (len(y) - smaller.shape[1]), smaller, larger)


def g_square(smaller: np.ndarray, larger: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> Answer:
    """scipy's G² of the table of every stratum, without its empty rows and columns."""
    statistic, df = 0.0, 0.0
    for stratum in np.unique(smaller, axis=0):
        inside = (smaller == stratum).all(axis=1)
        table = pd.crosstab(larger[inside, -1], y[inside]).to_numpy()
        if min(table.shape) > 1:
            found = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
            statistic, df = statistic + found.statistic, df + found.dof
    return statistic, df, float(stats.chi2.logsf(statistic, df)) if df else 0.0


def by_left_out(fit: Callable[[np.ndarray, Any, dict[str, Any]], Any], own_dispersion: bool = False) -> Test:
    """The robust Wald test of the last columns, by whole matrices; the statistic is that of χ² with its p-value."""

    def test(smaller: np.ndarray, larger: np.ndarray, y: Any, extras: dict[str, Any]) -> Answer:
        own = dict(extras)
        Z = standardised(larger)  # the intercept is not tested, and the equations are solved more exactly
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            D, variance, residual, params = fit(Z, y, own)
        df = larger.shape[1] - smaller.shape[1]
        groups = twin.rows_of(own["cluster"] if "cluster" in own else np.arange(len(y)))
        log_p = twin.left_out_test(D, variance, residual, params[-df:], groups, own_dispersion)[2]
        return float(stats.chi2.isf(np.exp(log_p), df)), df, log_p

    return test


def score_by_statsmodels(smaller: np.ndarray, larger: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> Answer:
    fit = sm.GLM(y, smaller, family=sm.families.Poisson()).fit(tol=1e-13, maxiter=200)
    new = larger[:, smaller.shape[1] :]
    statistic = float(np.squeeze(fit.score_test(exog_extra=new)[0]))
    return statistic, new.shape[1], stats.chi2.logsf(statistic, new.shape[1])


def f_test(smaller: np.ndarray, larger: np.ndarray, y: np.ndarray, extras: dict[str, Any]) -> Answer:
    fits = [sm.OLS(y - extras["offset"], Z).fit() for Z in (smaller, larger)]
    f, _, df = fits[1].compare_f_test(fits[0])
    residual = len(y) - larger.shape[1]
    return len(y) * np.log1p(f * df / residual), df, stats.f.logsf(f, df, residual)


def draw_offset(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    offset = rng.normal(size=len(eta))
    return eta + offset + rng.normal(size=len(eta)), {"offset": offset}


def draw_counts(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    exposure = rng.uniform(0.5, 2.0, len(eta))
    return rng.poisson(exposure * np.exp(0.5 + eta)), {"exposure": exposure}


def draw_overdispersed(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    exposure = rng.uniform(0.5, 2.0, len(eta))
    return rng.negative_binomial(2.0, 2.0 / (2.0 + exposure * np.exp(0.5 + eta))), {"exposure": exposure}


def draw_gamma(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    exposure = rng.uniform(0.5, 2.0, len(eta))
    return rng.gamma(2.0, exposure * np.exp(eta) / 2.0), {"exposure": exposure}


def draw_classes(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    gumbel = rng.gumbel(size=(len(eta), 3)) + np.outer(eta, [0.0, 1.5, -1.5])
    return gumbel.argmax(axis=1), {}


def draw_ordered(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return np.digitize(1.5 * eta + rng.logistic(size=len(eta)), [-1.0, 0.5, 1.5]), {}


def draw_trials(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    trials = rng.integers(1, 6, len(eta))
    return rng.binomial(trials, 1.0 / (1.0 + np.exp(-eta))), {"trials": trials}


def draw_two_classes(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    y = (eta + rng.logistic(size=len(eta)) > 0).astype(float)
    return y, {"cluster": rng.integers(0, 25, len(eta))}


def draw_survival(tied: bool, strata: bool = False, entry: bool = False) -> Callable[..., tuple[Any, dict[str, Any]]]:
    def draw(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
        n = len(eta)
        life, end = rng.exponential(np.exp(-eta)), rng.exponential(2.0, n)
        time = np.minimum(life, end) + 0.01
        time = np.ceil(4.0 * time) if tied else time
        extras: dict[str, Any] = {"strata": rng.integers(0, 3, n)} if strata else {}
        if entry:
            extras["entry"] = np.where(rng.random(n) < 0.5, 0.0, 0.6 * time * rng.random(n))
        return (time, life <= end), extras

    return draw


def draw_clustered(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    cluster = rng.integers(0, 25, len(eta))
    return eta + rng.normal(size=len(eta)) + 0.8 * rng.normal(size=25)[cluster], {"cluster": cluster}


def draw_clustered_counts(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return rng.poisson(np.exp(0.5 + eta)), {"cluster": rng.integers(0, 25, len(eta))}


def draw_clustered_gamma(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return rng.gamma(2.0, np.exp(eta) / 2.0), {"cluster": rng.integers(0, 25, len(eta))}


def draw_clustered_overdispersed(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return draw_overdispersed(rng, eta)[0], {"cluster": rng.integers(0, 25, len(eta))}


def draw_heavy_tailed(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return eta + 0.7 * rng.standard_t(2, len(eta)), {}


def draw_heteroscedastic(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return eta + 0.5 * np.exp(0.4 * eta) * rng.normal(size=len(eta)), {}


def without_extras(draw: Callable[..., tuple[Any, dict[str, Any]]]) -> Callable[..., tuple[Any, dict[str, Any]]]:
    return lambda rng, eta: (draw(rng, eta)[0], {})


_BINOMIAL, _POISSON = sm.families.Binomial(), sm.families.Poisson()

CASES = {
    "gaussian": Case("gaussian", draw_offset, f_test),
    "binomial": Case("binomial", without_extras(draw_two_classes), by_likelihood(glm(sm.families.Binomial))),
    "binomial trials": Case("binomial", draw_trials, by_likelihood(glm(sm.families.Binomial))),
    "multinomial": Case("multinomial", draw_classes, by_likelihood(multinomial_log_likelihood, nominal=True)),
    "ordinal": Case("ordinal", draw_ordered, by_likelihood(ordinal_log_likelihood("logit")), tolerance=1e-6),
    "ordinal probit": Case(
        "ordinal", draw_ordered, by_likelihood(ordinal_log_likelihood("probit")), {"link": "probit"}, tolerance=1e-6
    ),
    "poisson": Case("poisson", draw_counts, by_likelihood(glm(sm.families.Poisson))),
    "negative_binomial": Case(
        "negative_binomial", draw_overdispersed, by_likelihood(negative_binomial_log_likelihood), tolerance=1e-6
    ),
    "gamma": Case("gamma", draw_gamma, by_likelihood(gamma_log_likelihood)),
    "cox": Case("cox", draw_survival(tied=False), by_likelihood(cox_log_likelihood)),
    "cox tied": Case("cox", draw_survival(tied=True), by_likelihood(cox_log_likelihood)),
    "cox strata": Case("cox", draw_survival(tied=True, strata=True), by_likelihood(cox_log_likelihood)),
    "cox entry": Case("cox", draw_survival(tied=True, strata=True, entry=True), by_likelihood(cox_log_likelihood)),
    "weibull": Case("weibull", draw_survival(tied=False), by_likelihood(weibull_log_likelihood), tolerance=1e-6),
    "poisson score": Case(
        "poisson", without_extras(draw_counts), score_by_statsmodels, {"test": "score"}, tolerance=1e-6
    ),
    "binomial wald": Case(
        "binomial",
        without_extras(draw_two_classes),
        by_wald(lambda Z, y, extras: sm.GLM(y, Z, family=_BINOMIAL).fit(tol=1e-13, maxiter=200)),
        {"test": "wald"},
        tolerance=1e-5,
    ),
    "gaussian HC3": Case("gaussian", draw_heteroscedastic, by_left_out(twin.linear), {"cov": "HC3"}),
    "gaussian cluster": Case("gaussian", draw_clustered, by_left_out(twin.linear), {"cov": "cluster"}),
    "binomial cluster": Case(
        "binomial", draw_two_classes, by_left_out(twin.generalised(_BINOMIAL)), {"cov": "cluster"}, tolerance=1e-6
    ),
    "poisson cluster": Case(
        "poisson",
        draw_clustered_counts,
        by_left_out(twin.generalised(_POISSON), own_dispersion=True),
        {"cov": "cluster"},
    ),
    "gamma cluster": Case(
        "gamma",
        draw_clustered_gamma,
        by_left_out(twin.generalised(sm.families.Gamma(sm.families.links.Log())), own_dispersion=True),
        {"cov": "cluster"},
        tolerance=1e-6,
    ),
    "negative_binomial cluster": Case(
        "negative_binomial",
        draw_clustered_overdispersed,
        by_left_out(twin.negative_binomial, own_dispersion=True),
        {"cov": "cluster"},
        tolerance=1e-5,
    ),
    "mixed": Case("mixed", draw_clustered, by_likelihood(mixed_log_likelihood)),
    "gee": Case("gee", draw_clustered, by_left_out(twin.equations(sm.families.Gaussian())), tolerance=1e-6, slow=True),
    "gee two classes": Case("gee", draw_two_classes, by_left_out(twin.equations(_BINOMIAL)), tolerance=1e-6, slow=True),
    "gee counts": Case(
        "gee",
        draw_clustered_counts,
        by_left_out(twin.equations(_POISSON), own_dispersion=True),
        {"link": "log"},
        tolerance=1e-6,
        slow=True,
    ),
    "quantile": Case("quantile", draw_heavy_tailed, rank_score),
    "robust": Case("robust", draw_heavy_tailed, huber_score, tolerance=1e-6),
    "spearman": Case("spearman", draw_heavy_tailed, spearman),
    "gsquare": Case("gsquare", draw_classes, g_square, predictors="codes"),
}
