"""Do the guarantees hold? Simulated data with a known truth, for every kind of outcome.

    python -m experiments inference                          # 200 repetitions of every cell; goes on where it was
    python -m experiments inference --repetitions 50 --jobs 2

A cell is a family, a shape (more rows than columns, or fewer), columns that are independent or correlated, and a truth:
nothing, or five variables. In every repetition each method selects; kept are the numbers of true and false selections,
and how many confidence intervals hold the truth. One line of JSON a repetition, so that a run that was stopped goes on.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fbed
from fbed.inference.complementary import largest_q
from fbed.inference.familywise import familywise_level
from fbed.inference.request import read as read_problem
from fbed.inference.resamples import halves, seeds, units_of

HERE = Path(__file__).parent
REPETITIONS = 200
N_REAL = 5
PFER, FDR, LEVEL = 1.0, 0.2, 0.05
SHAPES = {"n > p": (100, 15), "n < p": (60, 80)}
N_HALVES, N_SPLITS, N_LEVELS, N_DRAWS = 12, 12, 4, 99  # few: they are needed 6,400 times, and no level needs more
FAMILIES = ("gaussian", "binomial", "poisson", "cox")
EFFECTS = {"gaussian": 0.7, "binomial": 1.2, "poisson": 0.4, "cox": 0.8}
CORRELATION = 0.5  # of neighbours; it falls off with their distance

Random = np.random.Generator
Counts = dict[str, float]


@dataclass(frozen=True)
class Cell:
    """Where data come from."""

    family: str
    shape: str
    columns: str  # 'independent' or 'correlated'
    truth: str  # 'null' or 'sparse'

    @property
    def key(self) -> str:
        """A name for files and tables."""
        return f"{self.family}, {self.shape}, {self.columns}, {self.truth}"

    @property
    def real(self) -> tuple[int, ...]:
        """Columns that matter: apart from each other, so that neighbours are noise that resembles them."""
        p = SHAPES[self.shape][1]
        return () if self.truth == "null" else tuple(range(0, p, p // N_REAL))[:N_REAL]


def cells() -> list[Cell]:
    """All of them."""
    axes = (FAMILIES, SHAPES, ("independent", "correlated"), ("null", "sparse"))
    return [Cell(*each) for each in itertools.product(*axes)]


def draw(cell: Cell, rng: Random) -> tuple[np.ndarray, Any]:
    """Columns and outcome of one repetition."""
    n, p = SHAPES[cell.shape]
    X = rng.normal(size=(n, p))
    if cell.columns == "correlated":
        for j in range(1, p):
            X[:, j] = CORRELATION * X[:, j - 1] + math.sqrt(1 - CORRELATION**2) * X[:, j]
    eta = EFFECTS[cell.family] * X[:, list(cell.real)].sum(axis=1)
    if cell.family == "gaussian":
        return X, eta + rng.normal(size=n)
    if cell.family == "binomial":
        return X, (eta + rng.logistic(size=n) > 0).astype(float)
    if cell.family == "poisson":
        return X, rng.poisson(np.exp(0.5 + np.minimum(eta, 6.0)))
    time, censored = rng.exponential(np.exp(-eta)), rng.exponential(2.0, n)
    return X, (np.minimum(time, censored), time <= censored)


# -- methods -----------------------------------------------------------------------------------------------------------


def _counted(selected: Iterable[int], cell: Cell) -> Counts:
    found, real = {int(j) for j in selected}, set(cell.real)
    return {"true": len(found & real), "false": len(found - real)}


def _plain(X: np.ndarray, y: Any, cell: Cell, seed: int) -> Counts:
    result = fbed.select(X, y, family=cell.family)
    out = _counted(result.selected, cell)
    if result.model is not None and result.model.standard_errors is not None:
        known = dict(
            zip(
                result.model.terms,
                zip(result.model.coefficients, result.model.standard_errors, strict=True),
                strict=True,
            )
        )
        ranges = [(b - 1.96 * e, b + 1.96 * e) for b, e in (known[str(j)] for j in result.selected)]
        out |= _covered(result.selected, ranges, cell)
    return out


def _covered(variables: Sequence[int], ranges: Sequence[tuple[float, float]], cell: Cell) -> Counts:
    truth = [EFFECTS[cell.family] if j in cell.real else 0.0 for j in variables]
    inside = [low <= value <= high for value, (low, high) in zip(truth, ranges, strict=True)]
    return {"intervals": len(inside), "covering": sum(inside)}


def _stability(X: np.ndarray, y: Any, cell: Cell, seed: int) -> Counts:
    found = fbed.stability(X, y, family=cell.family, pfer=PFER, n_resamples=N_HALVES, random_state=seed)
    return _counted(found.selected, cell)


def _ipss(X: np.ndarray, y: Any, cell: Cell, seed: int) -> Counts:
    found = fbed.ipss(X, y, family=cell.family, fdr=FDR, n_resamples=N_HALVES, n_levels=N_LEVELS, random_state=seed)
    return _counted(found.selected, cell)


def _multisplit(X: np.ndarray, y: Any, cell: Cell, seed: int) -> Counts:
    found = fbed.multisplit(X, y, family=cell.family, level=LEVEL, n_resamples=N_SPLITS, random_state=seed)
    ranges = [(each.low, each.high) for each in found.intervals]
    return _counted(found.selected, cell) | _covered([int(each.variable) for each in found.intervals], ranges, cell)


def _familywise(X: np.ndarray, y: Any, cell: Cell, seed: int) -> Counts:
    """As `fbed.select(…, familywise=LEVEL)` does it, from fewer draws."""
    asked = read_problem(X, y, {"family": cell.family}, n_seeds=0, random_state=seed, n_jobs=None)
    level = familywise_level(asked.problem, asked.plan, LEVEL, N_DRAWS)
    return _counted(fbed.select(X, y, family=cell.family, alpha=level.alpha).selected, cell)


def working(y: Any, cell: Cell) -> np.ndarray:
    """What the lasso of a linear model is given: the outcome, or for times its residuals when nothing matters.

    Complementary pairs and knockoffs hold whatever ranks the variables, so that this costs them power at most.
    """
    if cell.family != "cox":
        return np.asarray(y, dtype=float)
    time, event = y
    order = np.argsort(time)
    hazard = np.empty(len(time))
    hazard[order] = np.cumsum(event[order] / np.arange(len(time), 0, -1))
    return event - hazard


def _lasso_pairs(X: np.ndarray, y: Any, cell: Cell, seed: int) -> Counts:
    """Complementary pairs with the first q variables on the path of the lasso."""
    from sklearn.linear_model import lars_path

    y = working(y, cell)
    asked = largest_q(PFER, X.shape[1], 0.75, N_HALVES // 2, "unimodal")
    counts = np.zeros(X.shape[1])
    for each in seeds(seed, N_HALVES // 2)[1]:
        for half in halves(units_of(len(X)), each):
            part = X[half.rows] - X[half.rows].mean(axis=0)
            active = lars_path(part, y[half.rows] - y[half.rows].mean(), method="lasso", max_iter=asked)[1]
            counts[list(active)[:asked]] += 1
    return _counted(np.flatnonzero(counts >= 0.75 * N_HALVES - 1e-9), cell)


def _knockoffs(X: np.ndarray, y: Any, cell: Cell, seed: int) -> Counts:
    """Gaussian knockoffs from the true covariance; W from the entries of the lasso's path; knockoff+ threshold."""
    from sklearn.linear_model import lars_path

    (n, p), y = X.shape, working(y, cell)
    rng = np.random.default_rng([seed, 1])
    place = np.arange(p)
    sigma = CORRELATION ** np.abs(place[:, None] - place) if cell.columns == "correlated" else np.eye(p)
    s = min(1.0, 2.0 * float(np.linalg.eigvalsh(sigma).min())) * 0.999
    inverse = np.linalg.inv(sigma)
    spread = 2.0 * s * np.eye(p) - s * s * inverse
    copies = X - s * X @ inverse + rng.normal(size=(n, p)) @ np.linalg.cholesky(spread + 1e-10 * np.eye(p)).T
    both = np.hstack([X, copies])
    both = (both - both.mean(axis=0)) / both.std(axis=0)
    alphas, _, path = lars_path(both, y - y.mean(), method="lasso", max_iter=min(n, 2 * p) - 2)
    entered = np.array([alphas[max(0, int(np.argmax(row != 0)) - 1)] if row.any() else 0.0 for row in path])
    larger = np.maximum(entered[:p], entered[p:])
    w = larger * np.sign(entered[:p] - entered[p:])
    steps = sorted(set(np.abs(w[w != 0]).tolist()))
    cut = next((t for t in steps if (1 + (w <= -t).sum()) / max(1, (w >= t).sum()) <= FDR), math.inf)
    return _counted(np.flatnonzero(w >= cut), cell)


METHODS: dict[str, Callable[[np.ndarray, Any, Cell, int], Counts]] = {
    "plain": _plain,
    "stability": _stability,
    "ipss": _ipss,
    "multisplit": _multisplit,
    "familywise": _familywise,
    "lasso pairs": _lasso_pairs,
    "knockoffs": _knockoffs,
}


def methods_of(cell: Cell) -> list[str]:
    """Familywise levels speak of the null only."""
    return [name for name in METHODS if name != "familywise" or cell.truth == "null"]


# -- running and keeping -----------------------------------------------------------------------------------------------


def repetition(task: tuple[Cell, int, tuple[str, ...]]) -> dict[str, Any]:
    """All methods on one dataset."""
    cell, number, names = task
    X, y = draw(cell, np.random.default_rng([number, *map(ord, cell.key)]))
    return {"cell": cell.key, "repetition": number, **{name: METHODS[name](X, y, cell, number) for name in names}}


def run(file: Path, repetitions: int, jobs: int, chosen: Sequence[str] = (), wanted: Sequence[Cell] = ()) -> None:
    """Do what is not in the file yet, a repetition of every cell after another, and add it."""
    done = {(row["cell"], row["repetition"]) for row in read(file)}
    tasks = [
        (cell, number, tuple(name for name in methods_of(cell) if not chosen or name in chosen))
        for number in range(repetitions)
        for cell in wanted or cells()
        if (cell.key, number) not in done
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out, ProcessPoolExecutor(jobs) as pool:
        for i, row in enumerate(pool.map(repetition, tasks, chunksize=1)):
            out.write(json.dumps(row) + "\n")
            out.flush()
            if sys.stderr.isatty():
                print(f"\r{i + 1} of {len(tasks)}", end="", file=sys.stderr)


def read(file: Path) -> list[dict[str, Any]]:
    """Repetitions that were done."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """A mean over repetitions, with its standard error."""

    mean: float
    error: float
    n: int

    def holds(self, nominal: float) -> bool:
        """Not above the nominal value by more than 3 standard errors."""
        return self.mean <= nominal + 3.0 * self.error + 1e-12

    def __str__(self) -> str:
        return f"{self.mean:.3f}"


def rate(values: Sequence[float]) -> Rate:
    """Mean and standard error; of proportions that are all alike, that of one more or less."""
    array = np.asarray(values, dtype=float)
    n = max(1, len(array))
    error = float(array.std(ddof=1)) / math.sqrt(n) if len(array) > 1 else math.inf
    return Rate(float(array.mean()) if len(array) else math.nan, max(error, 1.0 / n), n)


def errors(rows: Sequence[dict[str, Any]], method: str) -> dict[str, Rate]:
    """PFER, FWER, FDR, power and the rate of intervals that miss (none where none was given) of one method."""
    found = [row[method] for row in rows if method in row]
    out = {
        "PFER": rate([each["false"] for each in found]),
        "FWER": rate([float(each["false"] > 0) for each in found]),
        "FDR": rate([each["false"] / max(1, each["true"] + each["false"]) for each in found]),
        "true": rate([each["true"] for each in found]),
    }
    missed = [
        (each["intervals"] - each["covering"]) / max(1, each["intervals"]) for each in found if "covering" in each
    ]
    return out | ({"missed": rate(missed)} if missed else {})


PROMISES = {
    "stability": ("PFER", PFER),
    "ipss": ("FDR", FDR),
    "multisplit": ("FWER", LEVEL),
    "familywise": ("FWER", LEVEL),
    "lasso pairs": ("PFER", PFER),
    "knockoffs": ("FDR", FDR),
}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Every cell: what is promised, whether it held, and what was found."""
    lines = [
        "| cell | n | plain FBED: false, true | stability: PFER, true | IPSS: FDR, true | multisplit: FWER, true, "
        "intervals that miss | familywise: P(any) | lasso pairs: PFER, true | knockoffs: FDR, true |",
        "|---" * 9 + "|",
    ]
    for cell in cells():
        some = [row for row in rows if row["cell"] == cell.key]
        if some:
            shown = [_shown(errors(some, name), name) if name in some[0] else "" for name in METHODS]
            lines.append(f"| {cell.key} | {len(some)} | " + " | ".join(shown) + " |")
    for family, truth in itertools.product(FAMILIES, ("null", "sparse")):
        keys = {cell.key for cell in cells() if (cell.family, cell.truth) == (family, truth)}
        some = [row for row in rows if row["cell"] in keys]
        if some:
            shown = [_shown(errors(some, name), name) if name in some[0] else "" for name in METHODS]
            lines.append(f"| **{family}, {truth}, together** | {len(some)} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _shown(found: dict[str, Rate], method: str) -> str:
    if method == "plain":
        return f"{found['PFER']}, {found['true'].mean:.2f}"
    what, nominal = PROMISES[method]
    mark = "" if found[what].holds(nominal) else " **above**"
    parts = [f"{found[what]}{mark}"] + ([] if method == "familywise" else [f"{found['true'].mean:.2f}"])
    if "missed" in found and method == "multisplit":
        parts.append(f"{found['missed']}" + ("" if found["missed"].holds(LEVEL) else " **above**"))
    return ", ".join(parts)


_WORDS = """\
# Do the guarantees of `fbed.inference` hold?

Simulated by `python -m experiments inference`, which says how; {total:,} repetitions in all, their number in each cell
below. Promised are: complementary pairs (`fbed.stability`) PFER ≤ 1, integrated paths (`fbed.ipss`) FDR ≤ .2, many
splits (`fbed.multisplit`) FWER ≤ .05 and intervals that miss ≤ .05, `familywise=.05` P(any | nothing matters) ≤ .05.
A value more than 3 standard errors above what is promised is marked. `true` is the mean number of real variables found,
of {real}. Plain FBED^1 at .05 promises nothing. Lasso pairs (complementary pairs with the lasso's path) and knockoffs
(with the true covariance, the lasso's path, FDR ≤ .2) are there to compare with; theirs is the lasso of a linear model
whatever the outcome, of residuals for times. The last rows put all cells of a family together, for smaller errors.

What holds only under conditions: the bound of complementary pairs counts variables that a half selects no more often
than by lot, and is the number of false ones where noise is exchangeable; neighbours of real variables in correlated
columns are selected more often, and are counted as false here. Many splits promise something where the first half finds
all that matters. Here it does not (with 60 rows a half of 30 finds one or two of five), and what is missed is part of
the noise of the second half: the residual variance of a linear model takes it up, and so does the dispersion that is
estimated for counts. Without it, Poisson models gave false selections in .44 to .50 of the repetitions (80 rows, 120
columns) instead of .05. Correlates of missed variables remain: they are selected in their place, and no split can tell.
That is what is marked below: of classes with correlated columns, a half of 50 rows finds two of five variables, and the
neighbour of another in its place.

"""


def write(file: Path, document: Path) -> str:
    """The table of what is there, into a document."""
    rows = read(file)
    text = table(rows)
    document.write_text(_WORDS.format(total=len(rows), real=N_REAL) + text + "\n", encoding="utf-8")
    return text
