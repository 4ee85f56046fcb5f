"""Generalised estimating equations with an exchangeable working correlation, robust Wald tests, through statsmodels.

The mean is linear for numbers, logistic for two classes, log-linear for counts (link="log"). Each candidate is a fit of
its own, so that this is for tens or hundreds of candidates; `mixed` is faster for numbers.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.families.own import Answer, TestFunction
from fbed.outcomes import Outcome
from fbed.tails import Floats, chi2_log_sf

LINKS = ("identity", "logit", "log")


def gee_test(cluster: NDArray[np.intp], link: str) -> TestFunction:
    """The Wald test of the candidate's coefficients."""
    try:
        import statsmodels.api as sm
    except ImportError as error:
        raise ImportError("family='gee' needs statsmodels: pip install 'fbed[gee]'") from error
    family = {"identity": sm.families.Gaussian, "logit": sm.families.Binomial, "log": sm.families.Poisson}[link]()
    order = np.argsort(cluster, kind="stable")
    if np.bincount(cluster).max() < 2:
        raise InvalidInput(
            "every cluster has a single row, so that there is no dependence to allow for: choose a family without "
            "clusters, or give the cluster (subject) that several rows belong to"
        )

    def test(candidate: Floats, y: NDArray[Any], conditioning: Floats) -> Answer:
        columns = np.column_stack([np.ones(len(y)), conditioning, candidate])[order]
        model = sm.GEE(y[order], columns, cluster[order], family=family, cov_struct=sm.cov_struct.Exchangeable())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = model.fit(maxiter=100, ctol=1e-8)
        q = candidate.shape[1]
        beta, covariance = fit.params[-q:], fit.cov_params()[-q:, -q:]
        statistic = float(beta @ np.linalg.pinv(covariance, hermitian=True) @ beta)
        return statistic, float(q), float(chi2_log_sf(statistic, float(q)))

    return test


def gee_outcome(outcome: Outcome, link: str | None) -> tuple[Floats, str]:
    """The outcome as numbers, and the link: the one that was asked for, or what the outcome suggests."""
    chosen = link or ("logit" if len(outcome.levels) == 2 else "identity")
    if chosen == "logit":
        return outcome.zero_one(), chosen
    return (outcome.counts("gee") if chosen == "log" else outcome.numbers("gee")), chosen
