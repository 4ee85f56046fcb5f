"""Other outcomes: FBED^1 (α = .05) on 1000 rows and 200 candidates of which 5 are real, against a loop of library fits.

The loop asks statsmodels or lifelines for every model that FBED^1 must compare, one fit a candidate, and follows the
same search; both must select the same variables.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import fbed
from benchmarks.loop import LogLikelihood, fbed1
from benchmarks.options import Options
from benchmarks.text import seconds, table

N, P, REAL, ALPHA = 1000, 200, 5, 0.05


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


def run(options: Options) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    n, p = (300, 12) if options.quick else (N, P)
    return {"n": n, "p": p, "rows": [compared(name, n, p, options.turns) for name in CASES]}


def compared(name: str, n: int, p: int, turns: int) -> dict[str, Any]:
    """Times of both, and whether they found the same."""
    draw, reference, library, df = CASES[name]
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p))
    y = draw(rng, 0.5 * X[:, :REAL] @ np.array([1.0, -1.0, 1.0, -1.0, 1.0]))
    fbed.select(X[:, :2], y, family=name)  # imports and first calls
    ours, result = timed(lambda: fbed.select(X, y, family=name, alpha=ALPHA), turns)
    theirs, (selected, tests) = timed(lambda: fbed1(reference(X, y), p, df, ALPHA))
    return {
        "family": name,
        "library": library,
        "ours": ours,
        "theirs": theirs,
        "tests": tests,
        "selected": selected,
        "same": selected == result.indices.tolist() and tests == result.n_tests.total,
    }


def timed(action: Callable[[], Any], turns: int = 1) -> tuple[float, Any]:
    """Fewest processor seconds, and the answer."""
    used = []
    for _ in range(turns):
        started = time.process_time()
        answer = action()
        used.append(time.process_time() - started)
    return min(used), answer


def words(found: dict[str, Any]) -> str:
    rows = [
        [row["family"], seconds(row["ours"]), seconds(row["theirs"]), row["library"],
         f"{row['theirs'] / row['ours']:.0f}", str(row["tests"]), str(len(row["selected"]))]
        for row in found["rows"]
    ]  # fmt: skip
    different = [row["family"] for row in found["rows"] if not row["same"]]
    return "\n\n".join(
        [
            f"FBED^1, α = {ALPHA}, {found['n']} rows, {found['p']} candidates, {REAL} real; processor seconds.",
            table(["", "fbed", "loop of fits", "by", "times faster", "tests", "selected"], rows),
            f"WRONG: another selection for {', '.join(different)}" if different else "Both select the same everywhere.",
        ]
    )
