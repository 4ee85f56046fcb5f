"""`multisplit`: p-values after selection. Select on one half, test on the other, many times, and combine."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from scipy import stats

from fbed.api.options import SelectArguments
from fbed.api.problem import Problem, algorithm_name
from fbed.errors import InvalidInput
from fbed.inference.aggregation import combined_sparse, discoveries, interval
from fbed.inference.inclusion import check_count
from fbed.inference.request import Asked, Found, find, full_search, read, refuse_failures
from fbed.inference.resamples import halves
from fbed.inference.results import Inference, listed
from fbed.inference.runner import Listener
from fbed.models.base import FittedModel, Indices
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats
from fbed.tables.table import Name

if TYPE_CHECKING:
    from fbed.inference.plots import SplitPlots

_ROOM = 5.0  # rows, events or members of the smaller class that a coefficient needs for its test to hold its level


@dataclass(frozen=True)
class Interval:
    """A coefficient with its confidence interval over all splits; infinite where too few splits selected it."""

    variable: Name
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class MultisplitResult(Inference):
    """p-values of all candidates, valid after selection if the halves screen well.

    Attributes
    ----------
    selected : candidates whose p-value (error 'fwer') or q-value (error 'fdr') is at most `level`.
    p_values : adjusted for all candidates: the probability of any false selection is at most the level.
    q_values : the same for the rate of false discoveries.
    frequencies : part of the splits whose first half selected each candidate.
    intervals : confidence intervals of the selected variables that have a single coefficient.
    """

    kind: ClassVar[str] = "multisplit"
    selected: tuple[Name, ...]
    candidates: tuple[Name, ...]
    p_values: Floats
    q_values: Floats
    frequencies: Floats
    intervals: tuple[Interval, ...]
    level: float
    error: str
    simultaneous: bool
    mean_selected: float
    plain: tuple[Name, ...]
    n_resamples: int
    n_rows: int
    random_state: int
    settings: Mapping[str, Any]
    status: str
    notes: tuple[str, ...]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        """A row a candidate, the smallest p-value first."""
        order = np.lexsort((-self.frequencies, self.p_values)).tolist()
        chosen, known = set(self.selected), {each.variable: each for each in self.intervals}
        out = []
        for i in order:
            name = self.candidates[i]
            own = known.get(name)
            out.append(
                {
                    "variable": name,
                    "selected": name in chosen,
                    "p_value": float(self.p_values[i]),
                    "q_value": float(self.q_values[i]),
                    "frequency": float(self.frequencies[i]),
                    "estimate": None if own is None else own.estimate,
                    "low": None if own is None else own.low,
                    "high": None if own is None else own.high,
                }
            )
        return out

    def words(self) -> tuple[str, ...]:
        """What was found, and when it holds."""
        what = "any false selection has probability" if self.error == "fwer" else "the rate of false discoveries is"
        return (
            f"{len(self.selected)} of {len(self.candidates):,} candidates have adjusted p-values of at most "
            f"{self.level:g}: {listed(self.selected)}."
            if self.error == "fwer"
            else f"{len(self.selected)} of {len(self.candidates):,} candidates are discoveries at rate {self.level:g}: "
            f"{listed(self.selected)}.",
            f"Over {self.n_resamples} splits, one half selected {self.mean_selected:.3g} variables on average and the "
            f"other tested them. At most, {what} {self.level:g}, provided that the half that selects finds all "
            "variables that matter (screening) and that the tests hold their level on the other half. Where a variable "
            "that matters is missed, its correlates take its place in the test, and may be selected for it.",
            f"The search on all rows selects {len(self.plain)}, without such a guarantee.",
        )

    @property
    def _about_counts(self) -> str:
        if not self.settings["counts"]:
            return ""
        return " Tests on the second half were quasi-likelihood F tests, with the dispersion estimated there."

    def methods(self) -> str:
        """Words for a methods section."""
        kind = "familywise error rate" if self.error == "fwer" else "false discovery rate"
        return (
            f"p-values were computed by multi-sample splitting (Meinshausen, Meier and Bühlmann, 2009): in each of "
            f"{self.n_resamples} random splits of the data into halves, variables were selected on one half by "
            f"{self.settings['algorithm']} (Borboudakis and Tsamardinos, 2019; {self.settings['criterion']}) and "
            f"tested on the other, with Bonferroni's correction for the number selected; p-values were combined over "
            f"splits by quantiles (γ from 0.05).{self._about_counts} The {kind} was controlled at {self.level:g}. "
            f"Seed: {self.random_state}."
        )

    @property
    def plot(self) -> SplitPlots:
        """Plots: `p_values()` and `intervals()`, each returning matplotlib Axes."""
        from fbed.inference.plots import SplitPlots

        return SplitPlots(self)


def multisplit(
    X: Any,
    y: Any,
    *,
    level: float = 0.05,
    error: str = "fwer",
    simultaneous: bool = False,
    n_resamples: int = 100,
    stratify: Any = None,
    units: Any = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    progress: Listener = None,
    **options: Unpack[SelectArguments],
) -> MultisplitResult:
    """p-values that are valid after selection, by selecting on one half of the rows and testing on the other.

    Parameters
    ----------
    X, y
        As in `fbed.select`.
    level : float
        Probability of any false selection, or rate of false discoveries; confidence intervals have level 1 − level.
    error : {'fwer', 'fdr'}
        Which of the two.
    simultaneous : bool
        Whether all intervals together have the level, instead of each.
    n_resamples : int
        Number of splits.
    stratify, units, random_state, n_jobs, time_limit, progress
        As in `fbed.inclusion`.
    **options
        Arguments of `fbed.select`. Lenient ones are best: what the first half misses cannot be tested.

    Returns
    -------
    MultisplitResult

    Examples
    --------
    >>> import numpy as np, fbed
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(200, 50))
    >>> y = X[:, 3] - X[:, 7] + rng.normal(size=200)
    >>> found = fbed.multisplit(X, y, n_resamples=50, random_state=1)
    >>> sorted(found.selected)
    [3, 7]
    """
    check_count(n_resamples, "n_resamples")
    if error not in ("fwer", "fdr"):
        raise InvalidInput(f"error must be 'fwer' or 'fdr', got {error!r}")
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise InvalidInput(f"level is a probability strictly between 0 and 1, got {level!r}")
    drawn = {"stratify": stratify, "units": units, "time_limit": time_limit}
    asked = read(X, y, options, n_seeds=n_resamples, random_state=random_state, n_jobs=n_jobs, **drawn)
    plain = full_search(asked)
    done = asked.run(lambda seed: _one(asked, seed), asked.seeds, time_limit, progress)
    splits: list[Split] = done.answers
    notes = (*refuse_failures([split.found for split in splits], "splits"), *_cut(splits))
    n = max(1, len(splits))
    p_values, frequencies = _p_values(asked, splits, n)
    q_values = discoveries(p_values)
    kept = np.flatnonzero((p_values if error == "fwer" else q_values) <= level)
    kept = kept[np.argsort(p_values[kept], kind="stable")]
    return MultisplitResult(
        selected=tuple(asked.candidates[i] for i in kept),
        candidates=asked.candidates,
        p_values=p_values,
        q_values=q_values,
        frequencies=frequencies,
        intervals=_intervals(asked, splits, kept, level, simultaneous),
        level=level,
        error=error,
        simultaneous=simultaneous,
        mean_selected=float(frequencies.sum()),
        plain=asked.names(plain.selected),
        n_resamples=len(splits),
        n_rows=asked.problem.table.n_rows,
        random_state=asked.seed,
        settings={
            "algorithm": algorithm_name(asked.plan),
            "criterion": asked.criterion_text,
            "family": asked.problem.model.name,
            "counts": are_counts(asked.problem),
        },
        status=done.status,
        notes=(*asked.problem.notes, *notes),
        seconds=time.perf_counter() - asked.started,
    )


@dataclass(frozen=True)
class Split:
    """What one half selected and the other says about it: p-values, and estimates of single coefficients."""

    found: Found
    tested: tuple[int, ...] = ()
    p_values: Floats = dataclasses.field(default_factory=lambda: np.ones(0))
    estimates: Mapping[int, tuple[float, float]] = dataclasses.field(default_factory=dict)
    degrees: float = math.inf

    @property
    def n_cut(self) -> int:
        """Variables that were selected and had no room in the test."""
        return 0 if self.found.failed else len(self.found.selected) - len(self.tested)


def _one(asked: Asked, seed: np.random.SeedSequence) -> Split:
    first, second = halves(asked.units, seed)
    found = find(asked.sibling(first), asked.plan, asked.criterion)
    if found.failed is not None or not found.selected:
        return Split(found)
    problem = asked.sibling(second).exhaustive()
    try:
        tested = _with_room(problem, asked.plan.forced, found.selected)
    except InvalidInput as error:
        return Split(dataclasses.replace(found, failed=str(error)))
    if not tested:
        return Split(found)
    return _tested(problem, asked.plan.forced, tested, found)


def _tested(problem: Problem, forced: Sequence[int], tested: tuple[int, ...], found: Found) -> Split:
    """Each variable given the others, on the half that took no part in the selection."""
    model = [*forced, *tested]
    fit = problem.model.fit(model)
    evidence = fit.losses(np.array(tested, dtype=np.intp))
    rest = problem.model.n - 1.0 - float(sum(problem.design.width[v] for v in model))
    dispersion = _dispersion(problem, fit, rest)
    p_values = np.where(evidence.df > 0, _p_of(evidence, dispersion, rest), 1.0)  # no df: constant, or in the span
    described = problem.model.describe(model, fit)
    estimates = _estimates(problem, tested, described, 1.0 if dispersion is None else math.sqrt(dispersion))
    exact = problem.model.name == "gaussian" or dispersion is not None
    return Split(found, tested, p_values, estimates, rest if exact and estimates else math.inf)


def are_counts(problem: Problem) -> bool:
    """Whether the outcome may vary more than its model says, and nobody asked for a variance that allows for it."""
    return problem.options.cov is None and (problem.model.name == "poisson" or problem.extras.trials is not None)


def _dispersion(problem: Problem, fit: Any, rest: float) -> float | None:
    """How much more counts vary than their model says, at least 1; None for outcomes that are no counts.

    A real variable that the first half missed makes counts vary more than a Poisson model allows, as real counts do
    anyway, and everything else would look like an effect. The mean of (y − μ)²/μ has rows of large means count too
    little: what matters for a coefficient are sums, Σ(y − μ)²/Σμ.
    """
    if not are_counts(problem) or rest <= 0:
        return None
    scores, variance = fit.row_scores()
    residual = scores[:, 0]
    if hasattr(fit.model, "by_row"):  # successes and failures of a row are rows of their own
        residual, variance = fit.model.by_row(residual), fit.model.by_row(variance)
    squared = residual**2
    informed = variance > 0
    by_row = float((squared[informed] / variance[informed]).sum()) / rest
    in_sum = float(squared.sum() / variance.sum()) * problem.model.n / rest
    return max(1.0, by_row, in_sum)


def _p_of(evidence: Evidence, dispersion: float | None, rest: float) -> Floats:
    if dispersion is None:
        return np.exp(evidence.log_p)
    df = np.maximum(evidence.df, 1.0)
    return stats.f.sf(evidence.statistic / (df * dispersion), df, rest)


def _estimates(
    problem: Problem, tested: Sequence[int], model: FittedModel, factor: float
) -> dict[int, tuple[float, float]]:
    """Single coefficients with their standard errors, times a factor."""
    if not model.terms or model.standard_errors is None:
        return {}
    place, out = {term: i for i, term in enumerate(model.terms)}, {}
    for variable in tested:
        labels = problem.design.labels(variable)
        at = place.get(labels[0]) if len(labels) == 1 and problem.design.width[variable] == 1 else None
        if at is not None and model.standard_errors[at] > 0 and math.isfinite(model.coefficients[at]):
            out[variable] = model.coefficients[at], factor * model.standard_errors[at]
    return out


def _with_room(problem: Problem, forced: Sequence[int], selected: Sequence[int]) -> tuple[int, ...]:
    """The first of the selected variables, as many as the other half has rows enough to test."""
    width = problem.design.width
    room = _rows_that_count(problem) - float(sum(width[v] for v in forced))
    taken = np.cumsum([int(width[v]) for v in selected])
    return tuple(v for v, total in zip(selected, taken.tolist(), strict=True) if total <= room)


def _rows_that_count(problem: Problem) -> float:
    """Coefficients that a test on these rows can bear: an exact one nearly all, others a fifth of what informs them."""
    n = problem.model.n
    if problem.model.name == "gaussian" and problem.options.cov is None:
        return n - 3.0
    values = problem.outcome.values
    if problem.model.name == "binomial" and problem.extras.trials is None:
        levels = np.unique(values, return_inverse=True)[1]
        n = float(np.bincount(levels, problem.weights).min())
    return n / _ROOM


def _cut(splits: Sequence[Split]) -> tuple[str, ...]:
    cut = [split for split in splits if split.n_cut]
    if not cut:
        return ()
    return (
        f"in {len(cut)} of {len(splits)} splits the half that tests has too few rows or events for all that was "
        "selected: those that entered last were not tested there; a stricter criterion, or max_features, selects fewer",
    )


def _p_values(asked: Asked, splits: Sequence[Split], n: int) -> tuple[Floats, Floats]:
    """Combined p-values and the frequencies of selection."""
    found: dict[int, list[float]] = defaultdict(list)
    for split in splits:
        adjusted = np.minimum(1.0, split.p_values * max(1, len(split.tested)))
        for variable, p in zip(split.tested, adjusted.tolist(), strict=True):
            found[variable].append(p)
    out = np.ones(len(asked.plan.candidates))
    for variable, some in found.items():
        out[asked.places([variable])] = combined_sparse(np.array(some), n)
    places: Indices = np.concatenate([np.zeros(0, np.intp), *(asked.places(s.found.selected) for s in splits)])
    return out, np.bincount(places, minlength=len(out)) / n


def _intervals(
    asked: Asked, splits: Sequence[Split], kept: Indices, level: float, simultaneous: bool
) -> tuple[Interval, ...]:
    out = []
    for place in kept.tolist():
        variable = int(asked.plan.candidates[place])
        known = [(*s.estimates[variable], s.degrees, len(s.tested)) for s in splits if variable in s.estimates]
        if not known:
            continue
        estimates, errors, degrees, tested = np.array(known, dtype=np.float64).T
        allowed = tested if simultaneous else np.ones(len(tested))
        low, high = interval(estimates, errors, degrees, allowed, len(splits), level)
        out.append(Interval(asked.candidates[place], float(np.median(estimates)), low, high))
    return tuple(out)
