"""`ipss`: integrated path stability selection (Melikechi and Miller, JASA 2025) over the levels of a search.

Each half is searched at many levels, from one that lets nothing pass to a lenient one. A candidate's score is how far
the part of halves that select it exceeds one half, cubed and integrated over the levels; the expected score of what
does not matter is bounded by the number of selected variables alone. That gives every candidate an *efp score*: the
expected number of false selections when it and all that score higher are selected.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from scipy.stats import norm

from fbed.api.options import SelectArguments
from fbed.api.problem import algorithm_name
from fbed.errors import InvalidInput
from fbed.inference.inclusion import check_count
from fbed.inference.request import Asked, Found, find, full_search, read, refuse_failures
from fbed.inference.resamples import Resample, halves
from fbed.inference.results import Inference, listed
from fbed.inference.runner import Listener
from fbed.inference.stability import base_plan, check_pairs, frequency, refuse_settled
from fbed.rules.criteria import LikelihoodRatio
from fbed.rules.p_values import Floats
from fbed.search.memo import Memo
from fbed.tables.table import Name

if TYPE_CHECKING:
    from fbed.inference.plots import FrequencyPlots

_POWER = 3  # of the excess over one half; the authors' choice
_CUTOFF = 0.05  # most that the integral of the bound may reach; the authors' choice
_FDR = 0.2
_LENIENT = 0.1  # the last level
_STRICTEST = 37.0  # standard deviations: levels beyond are below the smallest number


@dataclass(frozen=True, eq=False)
class IPSSResult(Inference):
    """Candidates with their efp scores and q-values.

    Attributes
    ----------
    selected : candidates whose q-value is at most `fdr` (or whose efp score is at most `efp`).
    efp_scores : expected false selections when a candidate and all that score higher are selected, at most p.
    q_values : smallest approximate false discovery rate at which a candidate is selected.
    frequencies : part of the halves that selected a candidate at the most lenient level in use.
    levels, paths : the levels in use, and at each the part of the halves that selected each candidate.
    """

    kind: ClassVar[str] = "ipss"
    selected: tuple[Name, ...]
    candidates: tuple[Name, ...]
    efp_scores: Floats
    q_values: Floats
    frequencies: Floats
    levels: Floats
    paths: Floats
    fdr: float | None
    efp: float | None
    plain: tuple[Name, ...]
    n_resamples: int
    n_rows: int
    random_state: int
    settings: Mapping[str, Any]
    status: str
    notes: tuple[str, ...]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        """A row a candidate, the smallest efp score first."""
        order = np.lexsort((-self.frequencies, self.efp_scores)).tolist()
        chosen = set(self.selected)
        return [
            {
                "variable": self.candidates[i],
                "selected": self.candidates[i] in chosen,
                "efp_score": float(self.efp_scores[i]),
                "q_value": float(self.q_values[i]),
                "frequency": float(self.frequencies[i]),
            }
            for i in order
        ]

    def words(self) -> tuple[str, ...]:
        """What was found and what it means."""
        target = f"efp score {self.efp:g}" if self.efp is not None else f"false discovery rate {self.fdr:g}"
        return (
            f"{len(self.selected)} of {len(self.candidates):,} candidates reach a {target}: {listed(self.selected)}.",
            "The efp score of a candidate bounds the expected number of false selections when it and all that score "
            "better are selected, as long as what does not matter is selected no more often than by lot, on average "
            "over levels and candidates; the false discovery rate is that number over the number selected, which is "
            "an approximation.",
            f"The search on all rows selects {len(self.plain)}.",
        )

    def methods(self) -> str:
        """Words for a methods section."""
        target = f"efp scores of at most {self.efp:g}" if self.efp is not None else f"q-values of at most {self.fdr:g}"
        return (
            f"Variables were selected by integrated path stability selection (Melikechi and Miller, 2025) with "
            f"{self.settings['algorithm']} (Borboudakis and Tsamardinos, 2019) over {len(self.levels)} levels as the "
            f"base procedure, {self.n_resamples // 2} complementary pairs of halves and the cubic function; variables "
            f"with {target} were selected. Seed: {self.random_state}."
        )

    @property
    def plot(self) -> FrequencyPlots:
        """Plots: `frequencies()` and `paths()`, each returning matplotlib Axes."""
        from fbed.inference.plots import FrequencyPlots

        return FrequencyPlots(self)


def ipss(
    X: Any,
    y: Any,
    *,
    fdr: float | None = None,
    efp: float | None = None,
    n_levels: int = 25,
    n_resamples: int = 100,
    stratify: Any = None,
    units: Any = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    progress: Listener = None,
    **options: Unpack[SelectArguments],
) -> IPSSResult:
    """Integrated path stability selection: variables with efp scores and q-values, over many levels at once.

    Parameters
    ----------
    X, y
        As in `fbed.select`.
    fdr : float, optional
        Approximate false discovery rate to select at; 0.2 unless `efp` is given.
    efp : float, optional
        Expected number of false selections to select at.
    n_levels : int
        Levels at which each half is searched.
    n_resamples : int
        Number of halves, an even one: they come in pairs that share no row.
    stratify, units, random_state, n_jobs, time_limit, progress
        As in `fbed.inclusion`.
    **options
        Arguments of `fbed.select`; the criterion is a test whose level varies.

    Returns
    -------
    IPSSResult
    """
    check_pairs(n_resamples)
    check_count(n_levels, "n_levels", least=3)
    _check_targets(fdr, efp)
    refuse_settled(options)
    for name in ("criterion", "alpha", "alpha_backward", "gamma"):
        if options.get(name) is not None:
            raise InvalidInput(f"{name} has no meaning here: the levels of the tests vary over a whole range")
    drawn = {"stratify": stratify, "units": units, "time_limit": time_limit}
    asked = read(X, y, options, n_seeds=n_resamples // 2, random_state=random_state, n_jobs=n_jobs, **drawn)
    plain = full_search(asked)
    scale = _scale(asked, n_levels)

    def one(seed: np.random.SeedSequence) -> list[list[Found]]:
        return [_path(asked, half, scale) for half in halves(asked.units, seed)]

    done = asked.run(one, asked.seeds, time_limit, progress)
    searched = [half for pair in done.answers for half in pair]
    notes = refuse_failures([found for half in searched for found in half], "searches")
    paths = _paths(asked, searched)
    p = max(1, asked.problem.design.n_varying(asked.plan.candidates))
    scores = efp_scores(paths, scale, p, max(1, len(done.answers)))
    target = _FDR if fdr is None else fdr
    q_values = false_discovery(scores.efp)
    kept = np.flatnonzero(scores.efp <= efp if efp is not None else q_values <= target)
    return IPSSResult(
        selected=tuple(asked.candidates[i] for i in kept[np.argsort(scores.efp[kept], kind="stable")]),
        candidates=asked.candidates,
        efp_scores=scores.efp,
        q_values=q_values,
        frequencies=paths[max(0, scores.n_levels - 1)],
        levels=2.0 * norm.sf(scale[: scores.n_levels]),
        paths=paths[: scores.n_levels],
        fdr=target if efp is None else None,
        efp=efp,
        plain=asked.names(plain.selected),
        n_resamples=len(searched),
        n_rows=asked.problem.table.n_rows,
        random_state=asked.seed,
        settings={"algorithm": algorithm_name(asked.plan), "family": asked.problem.model.name},
        status=done.status,
        notes=(*asked.problem.notes, *notes),
        seconds=time.perf_counter() - asked.started,
    )


def _check_targets(fdr: float | None, efp: float | None) -> None:
    if fdr is not None and efp is not None:
        raise InvalidInput("fdr and efp are two ways to say where to stop: leave one of them out")
    if fdr is not None and not 0 < fdr < 1:
        raise InvalidInput(f"fdr is a rate between 0 and 1, got {fdr!r}")
    if efp is not None and not (efp > 0 and math.isfinite(efp)):
        raise InvalidInput(f"efp is an expected number of false selections, above 0, got {efp!r}")


def _scale(asked: Asked, n_levels: int) -> Floats:
    """What a normal statistic must exceed at each level, from above the best of the first scan to a lenient level.

    Equal steps of the logarithm, as a penalty of the lasso would have.
    """
    scanner = asked.problem.scanner(asked.plan, asked.criterion)
    first = scanner.forward(list(asked.plan.forced), asked.plan.candidates)
    best = [first.chosen, *first.runners_up]
    log_p = min((finding.log_p for finding in best if finding is not None), default=math.log(_LENIENT))
    strictest = _STRICTEST if log_p < -680 else float(norm.isf(math.exp(log_p) / 2.0))
    lenient = float(norm.isf(_LENIENT / 2.0))
    return np.geomspace(min(max(strictest, 2.0 * lenient), _STRICTEST), lenient, n_levels)


def _path(asked: Asked, half: Resample, scale: Floats) -> list[Found]:
    """What each level selects in one half; searches share fits and scans."""
    problem = asked.sibling(half)
    plan = base_plan(asked, max(1, len(half.rows) // 4))
    memo = Memo(problem.table.n_variables, problem.table.n_rows, 2**26)
    return [find(problem, plan, LikelihoodRatio(2.0 * float(norm.sf(z))), memo=memo) for z in scale]


def _paths(asked: Asked, searched: list[list[Found]]) -> Floats:
    """At each level, the part of the halves that selected each candidate."""
    return np.array([frequency(asked, list(level)) for level in zip(*searched, strict=True)])


@dataclass(frozen=True)
class Scores:
    """efp scores of all candidates, and how many levels they come from."""

    efp: Floats
    n_levels: int


def efp_scores(paths: Floats, scale: Floats, p: int, pairs: int, cutoff: float = _CUTOFF) -> Scores:
    """Expected false selections of every candidate, from stability paths (levels × candidates) on a geometric scale.

    The bound and the scores are sums over the same levels with the same weights, which cancel. Levels are used as long
    as the normalised bound stays below the cutoff and the paths still change.
    """
    paths = paths[: _settled_at(paths)]
    n = len(paths)
    per_level = _bound(paths.sum(axis=1), p, pairs)
    ratio = scale[0] / scale[n - 1]
    weight = (1.0 - ratio ** (-1.0 / n)) / math.log(ratio)  # of a level, so that all of them make 1
    running = weight * np.cumsum(per_level[: n - 1])  # a level stands for the step to the next one
    used = int(np.searchsorted(running, cutoff, side="right"))
    total = float(per_level[:used].sum())
    excess = np.where(paths[:used] > 0.5, 2.0 * paths[:used] - 1.0, 0.0)
    score = (excess**_POWER).sum(axis=0)
    if total <= 0.0:
        return Scores(np.where(score > 0, 0.0, float(p)), used)
    return Scores(total / np.maximum(score, total / p), used)


def _bound(q: Floats, p: int, pairs: int) -> Floats:
    """Of the expected cubed excess, summed over what does not matter, when a search selects q of p on average."""
    first = q**2 / (p * pairs**2)
    second = 3.0 * (pairs - 1) * q**4 / (p**3 * pairs**2)
    third = (pairs - 1) * (pairs - 2) * q**6 / (p**5 * pairs**2)
    return np.asarray(first + second + third)


def _settled_at(paths: Floats) -> int:
    """The first level whose frequencies are those of two levels before."""
    for i in range(2, len(paths)):
        if np.allclose(paths[i], paths[i - 2], rtol=1e-5, atol=1e-8) and paths[i].mean() > 0.01:
            return i
    return len(paths)


def false_discovery(efp: Floats) -> Floats:
    """Smallest ratio of expected false selections to selections, over all sets that contain a candidate."""
    order = np.argsort(efp, kind="stable")
    ranked = efp[order]
    size = np.searchsorted(ranked, ranked, side="right")  # how many score as well or better
    smallest = np.minimum.accumulate((ranked / size)[::-1])[::-1]
    out = np.empty(len(efp))
    out[order] = smallest
    return out
