"""A hostile search: random small data with everything that goes wrong, every family against brute force.

    python -m tests.hostile --family cox --cases 2000

Columns are binary and rare, heavy-tailed, shifted, tiny, doubled, nearly doubled or constant; effects go up to a
perfect fit; weights, offsets, late entry, strata and clusters come and go. A difference is printed with its seed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

import fbed
import hostile_references as references
from family_cases import Case, bound, columns

TOLERANCE = 2e-5  # of a statistic, relative to max(1, statistic): general optimisers do no better
PERFECT = 1e-7  # part of the variance left to a fit that is compared no further

Draw = Callable[[np.random.Generator, np.ndarray], tuple[Any, dict[str, Any]]]


@dataclass(frozen=True)
class Hostile:
    """A family, how its outcome is drawn from predictors, and the reference."""

    draw: Draw
    least: references.Least | None = None
    score: Callable[..., float] | None = None
    extras: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    doubled: bool = True  # whether weights may be checked by doubling rows
    log_scale: bool = False  # whether −2ℓ runs to −∞ as a fit becomes perfect


def hostile_columns(rng: np.random.Generator, n: int, p: int = 5) -> pd.DataFrame:
    """Columns of the kinds that break things."""
    out: dict[str, Any] = {}
    for j in range(p):
        kind = rng.choice(
            ["normal", "rare", "heavy", "counts", "shifted", "tiny", "double", "near", "constant", "text"]
        )
        x = rng.normal(size=n)
        if kind == "rare":
            x = (rng.random(n) < 0.12).astype(float)
        elif kind == "heavy":
            x = rng.standard_t(1.3, n)
        elif kind == "counts":
            x = rng.poisson(1.0, n).astype(float)
        elif kind == "shifted":
            x = 1e5 + x
        elif kind == "tiny":
            x = 1e-9 * x
        elif kind in ("double", "near") and j and out["x0"].dtype.kind == "f":
            x = out["x0"] * 3.0 + (np.ptp(out["x0"]) * 1e-2 * x if kind == "near" else 0.0)
        elif kind == "constant":
            x = np.full(n, 2.5)
        out[f"x{j}"] = pd.Categorical(rng.choice(["a", "b", "c"], n)) if kind == "text" else x
    return pd.DataFrame(out)


def predictor(rng: np.random.Generator, frame: pd.DataFrame) -> np.ndarray:
    """The sum of two standardised columns, of any strength."""
    eta = np.zeros(len(frame))
    for j in rng.choice(frame.shape[1], 2, replace=False):
        x = columns(frame, [int(j)])[:, -1]
        eta += rng.choice([-1.0, 1.0]) * (x - x.mean()) / max(x.std(), 1e-12)
    return rng.choice([0.0, 0.4, 1.0, 3.0]) * eta


def noise(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.choice([1.0, 1.0, 0.1, 1e-3]) * rng.normal(size=n)


def draw_numbers(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    offset = rng.choice([1.0, 30.0]) * rng.normal(size=len(eta))
    return rng.choice([1.0, 1e-6, 1e6]) * (eta + noise(rng, len(eta))) + offset, {"offset": offset}


def draw_heavy(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return rng.choice([1.0, 1e5]) * (eta + rng.standard_t(1.5, len(eta))), {}


def draw_counts(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    offset = rng.choice([0.3, 1.0, 3.0]) * rng.normal(size=len(eta))
    mean = np.exp(np.clip(rng.choice([-1.0, 0.5, 3.0]) + 0.7 * eta + offset, -8.0, 8.0))
    size = rng.choice([0.5, 2.0, 1e6])
    return rng.poisson(mean * rng.gamma(size, 1.0 / size, len(eta))), {"offset": offset}


def draw_positive(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    exposure = np.exp(rng.normal(size=len(eta)))
    shape = rng.choice([0.5, 2.0, 1e3])
    return exposure * np.exp(np.clip(eta, -20.0, 20.0)) * rng.gamma(shape, 1.0 / shape, len(eta)), {
        "exposure": exposure
    }


def draw_survival(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    n = len(eta)
    life = np.exp(np.clip(-eta, -20.0, 20.0)) * rng.weibull(rng.choice([0.7, 1.0, 30.0]), n)
    end = rng.exponential(rng.choice([0.5, 2.0, 20.0]) * np.median(life), n)
    time = np.minimum(life, end)
    time = np.ceil(time / np.median(time)) if rng.random() < 0.4 else np.maximum(time, 1e-12)
    entry = time * rng.choice([0.0, 0.3, 0.99], n) * rng.random(n)
    return (time, life <= end), {"strata": rng.integers(0, 3, n), "entry": entry}


def draw_classes(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return (rng.gumbel(size=(len(eta), 3)) + np.outer(eta, [0.0, 1.5, -1.5])).argmax(axis=1), {}


def draw_ordered(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    return np.digitize(1.5 * eta + rng.logistic(size=len(eta)), [-1.0, 0.5, 1.5][: rng.integers(1, 4)]), {}


def draw_clustered(rng: np.random.Generator, eta: np.ndarray) -> tuple[Any, dict[str, Any]]:
    n, m = len(eta), int(rng.integers(3, 12))
    cluster = rng.integers(0, m, n)
    spread = rng.choice([0.0, 1.0, 1e2, 1e4, 1e6])
    return eta + noise(rng, n) + spread * rng.normal(size=m)[cluster], {"cluster": cluster}


FAMILIES = {
    "gaussian": Hostile(draw_numbers, references.gaussian, extras=("offset",), log_scale=True),
    "poisson": Hostile(draw_counts, references.poisson, extras=("offset",)),
    "negative_binomial": Hostile(draw_counts, references.negative_binomial, extras=("offset",)),
    "gamma": Hostile(draw_positive, references.gamma, extras=("exposure",), log_scale=True),
    "cox": Hostile(draw_survival, references.cox, extras=("strata", "entry")),
    "weibull": Hostile(draw_survival, references.weibull, log_scale=True),
    "multinomial": Hostile(draw_classes, references.multinomial),
    "ordinal": Hostile(draw_ordered, references.ordinal),
    "mixed": Hostile(draw_clustered, references.mixed, extras=("cluster",), log_scale=True),
    "quantile": Hostile(draw_heavy, score=references.quantile_score, doubled=False),
    "robust": Hostile(draw_heavy, score=references.huber_score),
}


def reference(hostile: Hostile, smaller: np.ndarray, larger: np.ndarray, y: Any, extras: dict[str, Any]) -> float:
    """The statistic of the larger set of columns against the smaller one."""
    if hostile.score is not None:
        return hostile.score(smaller, larger, y, extras)
    assert hostile.least is not None
    return hostile.least(smaller, y, extras) - hostile.least(larger, y, extras)


def is_perfect(hostile: Hostile, statistic: float, n: int) -> bool:
    """Whether so little is left that its floor, a matter of definition, may count."""
    return hostile.log_scale and statistic > -0.8 * n * np.log(PERFECT)


def unlike_select(frame: pd.DataFrame, y: Any, options: dict[str, Any]) -> list[str]:
    """Settings of a grid whose result is not that of the single run."""
    grid = fbed.path(frame, y, alphas=[0.5, 0.1, 0.001], gammas=[], ks=[0, 1], fbs=False, n_jobs=1, **options)
    found = []
    for alpha, k in itertools.product([0.5, 0.1, 0.001], [0, 1]):
        one = fbed.select(frame, y, alpha=alpha, k=k, n_jobs=1, **options)
        if grid.get(alpha=alpha, k=k).selected != one.selected:
            found.append(f"path and select differ at alpha {alpha}, k {k}")
    return found


def check(family: str, seed: int, paths: bool = False) -> tuple[str, list[str]]:
    """One case: 'compared', 'refused' or 'perfect', and the differences that were found."""
    hostile, rng = FAMILIES[family], np.random.default_rng([seed, 77])
    n = int(rng.integers(16, 60))
    frame = hostile_columns(rng, n)
    y, extras = hostile.draw(rng, predictor(rng, frame))
    always = ("cluster",)
    extras = {k: v for k, v in extras.items() if k in hostile.extras and (k in always or rng.random() < 0.6)}
    weights = rng.integers(1, 4, n).astype(float) if hostile.doubled and rng.random() < 0.4 else np.ones(n)
    selected = [int(j) for j in rng.choice(5, rng.integers(0, 3), replace=False)]
    case = Case(family, draw_numbers, lambda *_: (0.0, 0.0, 0.0), hostile.options)
    try:
        model = bound(case, frame, y, extras, weights)
        fit = model.fit(selected)
        searches = [run(frame, y, family, extras, weights, engine) for engine in ("certified", "exhaustive")]
    except fbed.InvalidInput:
        return "refused", []
    if paths:
        found = unlike_select(frame, y, {"family": family, "sample_weight": weights, **extras})
        if found:
            return "compared", found
    if fit.saturated:
        return "perfect", [] if agree(*searches) else [f"engines: {searches}"]
    again = np.repeat(np.arange(n), weights.astype(int))
    rows = (again, *(tuple(v[again] for v in y) if isinstance(y, tuple) else (y[again],)))
    doubled = rows[1:] if isinstance(y, tuple) else rows[1]
    twice = {name: values[again] for name, values in extras.items()}
    found = [] if agree(*searches) else [f"engines: {searches}"]
    for j in range(5):
        others = [s for s in selected if s != j]
        smaller, larger = (references.basis(columns(frame, some)[again, 1:]) for some in (others, [*others, j]))
        evidence = fit.losses(np.array([j])) if j in selected else fit.gains(np.array([j]))
        statistic, df = float(evidence.statistic[0]), float(evidence.df[0])
        if larger.shape[1] == smaller.shape[1]:
            found += [] if df == 0 else [f"x{j} adds nothing to {others}, but df = {df}"]
            continue
        expected = reference(hostile, smaller, larger, doubled, twice)
        size = int(doubled[1].sum()) if family == "weibull" else len(again)  # what is censored has no residual
        if np.isnan(expected) or is_perfect(hostile, expected, size):
            continue
        if not abs(statistic - expected) <= TOLERANCE * max(1.0, abs(expected)):
            found.append(f"x{j} given {others}: {statistic:.9g}, reference {expected:.9g}")
    return "compared", found


def run(frame: pd.DataFrame, y: Any, family: str, extras: dict[str, Any], weights: np.ndarray, engine: str) -> Any:
    """A search, as its variables and statistics."""
    result = fbed.select(frame, y, family=family, sample_weight=weights, engine=engine, alpha=0.1, n_jobs=1, **extras)
    return [(row.action, row.variable, row.statistic) for row in result.trace]


def agree(one: Any, other: Any) -> bool:
    """Whether two searches took the same steps; score statistics are as wrong as the root of what a fit is short of."""
    same = [row[:2] for row in one] == [row[:2] for row in other]
    numbers = [np.array([row[2] for row in rows if row[2] is not None]) for rows in (one, other)]
    return same and bool(np.allclose(*numbers, rtol=1e-6, atol=1e-7))


def search(family: str, seeds: range, paths: bool = False) -> tuple[Counter[str], dict[int, list[str]]]:
    """How the cases ended, and the differences by seed."""
    outcomes: Counter[str] = Counter()
    differences: dict[int, list[str]] = {}
    for seed in seeds:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome, found = check(family, seed, paths)
        except Exception as error:
            outcome, found = "crashed", [repr(error)]
        outcomes[outcome] += 1
        if found:
            differences[seed] = found
    return outcomes, differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=[*FAMILIES, "all"], default="all")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--paths", action="store_true", help="also compare `path` with `select`")
    options = parser.parse_args()
    failed = 0
    for family in FAMILIES if options.family == "all" else [options.family]:
        outcomes, differences = search(family, range(options.first, options.first + options.cases), options.paths)
        failed += len(differences)
        print(f"{family}: {dict(outcomes)}, {len(differences)} differ", flush=True)
        for seed, found in differences.items():
            print(f"  seed {seed}: " + "; ".join(found), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
