"""Data of every family that can be tuned, small and seeded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import fbed

FAMILIES = (
    "gaussian",
    "binomial",
    "multinomial",
    "ordinal",
    "poisson",
    "negative_binomial",
    "gamma",
    "cox",
    "weibull",
    "mixed",
)
SMALL = {"alphas": (0.01, 0.1), "gammas": (), "ks": (0,), "fbs": False, "final": "ml", "n_bootstraps": 30, "cv": 3}
"""A grid that takes a moment."""


def table(n: int = 150, seed: int = 0, missing: bool = False) -> pd.DataFrame:
    """Numbers on different scales, a category, and on request missing values in both."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        rng.normal(size=(n, 6)) * [1, 100, 0.01, 1, 1, 1] + [0, 50, 1, 0, 0, 0], columns=list("abcdef")
    )
    frame["kind"] = rng.choice(["x", "y", "z"], size=n)
    if missing:
        frame.loc[rng.random(n) < 0.2, "a"] = np.nan
        frame.loc[rng.random(n) < 0.2, "kind"] = None
    return frame


def outcome(family: str, frame: pd.DataFrame, seed: int = 1) -> Any:
    """An outcome that depends on a, b and the kind."""
    rng = np.random.default_rng(seed)
    n = len(frame)
    eta = 0.8 * frame["a"].fillna(0.0) + 0.006 * (frame["b"] - 50) + 0.8 * (frame["kind"] == "y")
    eta = eta.to_numpy()
    if family in ("gaussian", "mixed"):
        return eta + rng.normal(size=n)
    if family == "binomial":
        return np.where(eta + rng.logistic(size=n) > 0, "yes", "no")
    if family in ("multinomial", "ordinal"):
        return np.digitize(eta + rng.logistic(size=n), [-0.7, 0.7])
    if family == "poisson":
        return rng.poisson(np.exp(0.5 * eta + 0.5))
    if family == "negative_binomial":
        return rng.negative_binomial(2, 2 / (2 + np.exp(0.5 * eta + 1.0)))
    if family == "gamma":
        return rng.gamma(3.0, np.exp(0.5 * eta) / 3.0)
    time = rng.exponential(np.exp(-eta)) + 0.01
    return time, rng.random(n) < 0.7


def extras(family: str, n: int) -> dict[str, Any]:
    """What else a family needs."""
    return {"cluster": np.arange(n) // 5} if family == "mixed" else {}


def tuned(family: str, missing: bool = False, **more: Any) -> fbed.tuning.Tuned:
    """Tuning over a small grid."""
    frame = table(missing=missing)
    how = {"missing": "indicator"} if missing else {}
    return fbed.tune(
        frame, outcome(family, frame), family=family, **extras(family, len(frame)), **how, **{**SMALL, **more}
    )
