"""FBED^1 as a loop of library fits, one a test: the reference that every family's race is measured against."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

LogLikelihood = Callable[[list[int]], float]


def fbed1(log_likelihood: LogLikelihood, p: int, df: int, alpha: float) -> tuple[list[int], int]:
    """What is selected, and the number of tests."""
    selected: list[int] = []
    tests = 0

    def log_p_value(larger: float, smaller: float) -> float:
        nonlocal tests
        tests += 1
        return float(stats.chi2.logsf(2.0 * (larger - smaller), df))

    for _ in range(2):
        before = len(selected)
        remaining = [j for j in range(p) if j not in selected]
        while remaining:
            base = log_likelihood(selected)
            log_p = {j: log_p_value(log_likelihood([*selected, j]), base) for j in remaining}
            passing = [j for j in remaining if log_p[j] < np.log(alpha)]
            if not passing:
                break
            best = min(passing, key=log_p.__getitem__)
            selected.append(best)
            remaining = [j for j in passing if j != best]
        if len(selected) == before:
            break
    while selected:
        full = log_likelihood(selected)
        log_p = {j: log_p_value(full, log_likelihood([s for s in selected if s != j])) for j in selected}
        worst = max(selected, key=log_p.__getitem__)
        if log_p[worst] < np.log(alpha):
            break
        selected.remove(worst)
    return selected, tests
