"""Searches on data of every family, and what it means that two of them are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fbed
from family_cases import CASES, Case, predictors, signal


def partial_correlation(candidate: np.ndarray, y: np.ndarray, conditioning: np.ndarray) -> tuple[float, float, float]:
    """A test of one's own: the F test of the candidate's columns in a linear model."""
    smaller = np.column_stack([np.ones(len(y)), conditioning])
    larger = np.column_stack([smaller, candidate])
    rss = [float(np.sum((y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]) ** 2)) for Z in (smaller, larger)]
    df, left = candidate.shape[1], len(y) - larger.shape[1]
    f = (rss[0] - rss[1]) / df / (rss[1] / left)
    return f, df, float(stats.f.logsf(f, df, left))


EVERY_FAMILY = {**CASES, "a test of one's own": Case(partial_correlation, CASES["quantile"].draw, None)}


def many_columns(case: Case, seed: int, n: int = 90, noise: int = 5) -> tuple[pd.DataFrame, Any, dict[str, Any]]:
    """Predictors of a case, two of them again with an error, and noise: searches that end at different sets."""
    rng = np.random.default_rng(seed)
    frame = predictors(rng, n, case.predictors)
    y, extras = case.draw(rng, signal(frame))
    for j in range(2 + noise):
        if case.predictors == "codes":
            column = np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), frame[f"x{j}"] > 0) if j < 2 else None
            frame[f"z{j}"] = rng.integers(0, 2 + j % 2, n) if column is None else column.astype(int)
        else:
            frame[f"z{j}"] = rng.normal(size=n) + (frame[f"x{j}"] if j < 2 else 0.0)
    return frame[list(rng.permutation(frame.columns))], y, extras


def single(X, y, setting, **options):
    chosen = {"alpha": setting.value} if setting.criterion == "lr" else {"gamma": setting.value}
    return fbed.select(
        X,
        y,
        criterion=setting.criterion,
        **chosen,
        k=1 if setting.k is None else setting.k,
        early_dropping=setting.k is not None,
        **options,
    )


def assert_same(one, other):
    assert one.selected == other.selected
    assert one.n_tests == other.n_tests
    assert one.status == other.status
    assert one.criterion == other.criterion
    for row, twin in zip(one.trace, other.trace, strict=True):
        assert (row.phase, row.run, row.action, row.variable) == (twin.phase, twin.run, twin.action, twin.variable)
        assert row.dropped.tolist() == twin.dropped.tolist()
        if row.statistic is not None:
            assert row.statistic == pytest.approx(twin.statistic, rel=1e-6, abs=1e-6)
            assert row.log_p == pytest.approx(twin.log_p, rel=1e-5, abs=1e-6)
    assert one.model.coefficients == pytest.approx(other.model.coefficients, rel=1e-4, abs=1e-6) or one.model.separated
