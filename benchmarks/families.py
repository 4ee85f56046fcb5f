"""FBED^1 (α = .05) on 1000 rows and 200 candidates of which 5 are real: fbed against a loop of library fits.

The loop asks statsmodels or lifelines for every model that FBED^1 must compare, one fit a candidate, and follows the
same search; both must select the same variables. Times are those of one processor, which other work on the machine does
not change much. Run with ``python benchmarks/families.py [family …]``; what was measured is kept in
``benchmarks/results/families.json``.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from threadpoolctl import threadpool_limits

import fbed

N, P, REAL, ALPHA = 1000, 200, 5, 0.05
RESULTS = Path(__file__).parent / "results" / "families.json"
LogLikelihood = Callable[[list[int]], float]


def counts(rng, eta):
    return rng.poisson(np.exp(eta))


def survival(rng, eta):
    life, end = rng.exponential(np.exp(-eta)), rng.exponential(3.0, len(eta))
    return np.minimum(life, end), life <= end


def classes(rng, eta):
    return (rng.gumbel(size=(len(eta), 3)) + np.outer(eta, [0.0, 1.5, -1.5])).argmax(axis=1)


def ordered(rng, eta):
    return np.digitize(2 * eta + rng.logistic(size=len(eta)), [-2, 0, 1, 3])


def overdispersed(rng, eta):
    return rng.negative_binomial(1.5, 1.5 / (1.5 + np.exp(1.0 + eta)))


def by_poisson(X, y) -> LogLikelihood:
    import statsmodels.api as sm

    return lambda S: sm.GLM(y, sm.add_constant(X[:, S]), family=sm.families.Poisson()).fit(tol=1e-10).llf


def by_negative_binomial(X, y) -> LogLikelihood:
    import statsmodels.api as sm

    return lambda S: sm.NegativeBinomial(y, sm.add_constant(X[:, S])).fit(disp=0, maxiter=500).llf


def by_multinomial(X, y) -> LogLikelihood:
    import statsmodels.api as sm

    return lambda S: sm.MNLogit(y, sm.add_constant(X[:, S])).fit(disp=0, method="newton").llf


def by_ordinal(X, y) -> LogLikelihood:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    frequencies = np.bincount(y)
    null = float(frequencies @ np.log(frequencies / len(y)))

    def log_likelihood(S: list[int]) -> float:
        return null if not S else OrderedModel(y, X[:, S], distr="logit").fit(method="bfgs", disp=0).llf

    return log_likelihood


def by_cox(X, y) -> LogLikelihood:
    from lifelines import CoxPHFitter

    frame = pd.DataFrame(X).rename(columns=str).assign(time=y[0], event=y[1])
    null = []  # lifelines reports the null likelihood with every fit

    def log_likelihood(S: list[int]) -> float:
        if not S:
            return (
                null[0] if null else _remember(null, CoxPHFitter().fit(frame[["0", "time", "event"]], "time", "event"))
            )
        return CoxPHFitter().fit(frame[[*map(str, S), "time", "event"]], "time", "event").log_likelihood_

    return log_likelihood


def _remember(null: list[float], fit) -> float:
    null.append(float(fit.log_likelihood_ - fit.log_likelihood_ratio_test().test_statistic / 2))
    return null[0]


CASES = {
    "poisson": (counts, by_poisson, "statsmodels", 1),
    "cox": (survival, by_cox, "lifelines", 1),
    "multinomial": (classes, by_multinomial, "statsmodels", 2),
    "ordinal": (ordered, by_ordinal, "statsmodels", 1),
    "negative_binomial": (overdispersed, by_negative_binomial, "statsmodels", 1),
}


def loop(log_likelihood: LogLikelihood, df: int) -> tuple[list[int], int]:
    """FBED^1 with one library fit a test: what is selected, and the number of tests."""
    selected: list[int] = []
    tests = 0

    def passes(larger: float, smaller: float) -> float:
        nonlocal tests
        tests += 1
        return float(stats.chi2.logsf(2.0 * (larger - smaller), df))

    for _ in range(2):
        before = len(selected)
        remaining = [j for j in range(P) if j not in selected]
        while remaining:
            base = log_likelihood(selected)
            log_p = {j: passes(log_likelihood([*selected, j]), base) for j in remaining}
            passing = [j for j in remaining if log_p[j] < np.log(ALPHA)]
            if not passing:
                break
            best = min(passing, key=log_p.__getitem__)
            selected.append(best)
            remaining = [j for j in passing if j != best]
        if len(selected) == before:
            break
    while selected:
        full = log_likelihood(selected)
        log_p = {j: passes(full, log_likelihood([s for s in selected if s != j])) for j in selected}
        worst = max(selected, key=log_p.__getitem__)
        if log_p[worst] < np.log(ALPHA):
            break
        selected.remove(worst)
    return selected, tests


def main(names: list[str]) -> int:
    warnings.simplefilter("ignore")
    print(f"FBED^1, alpha = {ALPHA}, {N} rows, {P} candidates, {REAL} real; seconds of one processor")
    print(f"{'family':<18} {'fbed':>8} {'library':>9} {'ratio':>7} {'tests':>6}  selected")
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["families"] if RESULTS.exists() else {}
    found = {name: compared(name) for name in names or CASES}
    packages = ("numpy", "scipy", "statsmodels", "lifelines")
    record = {
        "setting": {"rows": N, "candidates": P, "real": REAL, "alpha": ALPHA, "k": 1},
        "versions": {"fbed": fbed.__version__, **{name: version(name) for name in packages}},
        "families": {**known, **found},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["same"] for row in found.values()) else 1


def compared(name: str) -> dict[str, Any]:
    """Print one line; what was measured."""
    draw, reference, library, df = CASES[name]
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, P))
    y = draw(rng, 0.5 * X[:, :REAL] @ np.array([1.0, -1.0, 1.0, -1.0, 1.0]))
    fbed.select(X[:, :2], y, family=name)  # imports and first calls
    ours = min(timed(lambda: fbed.select(X, y, family=name, alpha=ALPHA))[0] for _ in range(3))
    result = fbed.select(X, y, family=name, alpha=ALPHA)
    theirs, (selected, tests) = timed(lambda: loop(reference(X, y), df))
    same = selected == result.indices.tolist() and tests == result.n_tests.total
    answer = f"{len(selected)} variables, the same" if same else f"{selected} / {result.indices.tolist()}: DIFFERENT"
    print(f"{name:<18} {ours:>8.3f} {theirs:>9.2f} {theirs / ours:>7.0f} {tests:>6}  {answer} ({library})", flush=True)
    return {
        "fbed_seconds": round(ours, 4),
        "library": library,
        "library_seconds": round(theirs, 3),
        "ratio": round(theirs / ours, 1),
        "tests": tests,
        "selected": len(selected),
        "same": same,
    }


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    with threadpool_limits(limits=1):
        started = time.process_time()
        answer = action()
        return time.process_time() - started, answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
