"""`inclusion`: how stable is a selection? The same search on a thousand parts of the rows.

Frequencies come from halves of the rows by default: tests on bootstrap samples select too much, since rows that repeat
look like evidence. How far estimates stray (RMSD, bias) needs samples of the full size, and comes from the bootstrap.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from scipy import stats

from fbed.api.options import SelectArguments
from fbed.api.problem import algorithm_name
from fbed.errors import InvalidInput
from fbed.inference.coefficients import TermSummary, full_model, observed, summarised
from fbed.inference.request import Asked, Found, find, full_search, read, refuse_failures
from fbed.inference.resamples import Resample, bootstrap, subsample
from fbed.inference.results import Inference, listed
from fbed.inference.runner import Listener
from fbed.models.base import FittedModel
from fbed.rules.p_values import Floats
from fbed.tables.table import Name

if TYPE_CHECKING:
    from fbed.inference.plots import InclusionPlots

_MODELS = 20  # most frequent models that are kept
_CLEARLY = -3.0  # standard errors from which two variables are said to replace each other
_PAIRED = 0.05  # frequency from which a variable takes part in pairs


@dataclass(frozen=True)
class Pair:
    """Two variables and how often both were selected, next to what chance would give.

    `log_odds_ratio` is negative where they replace each other and positive where they go together; `z` is its size in
    standard errors.
    """

    first: Name
    second: Name
    joint: float
    expected: float
    log_odds_ratio: float
    z: float


@dataclass(frozen=True, eq=False)
class InclusionResult(Inference):
    """How often each candidate was selected, with whom, and what became of the coefficients.

    Attributes
    ----------
    selected : what the search selects on all rows.
    candidates : names of the candidates.
    frequencies : part of the resamples in which each candidate was selected.
    lower, upper : 95 % interval of each frequency (Clopper and Pearson): what another draw of resamples might give.
    models : sets of variables that were selected together, most frequent first, with their counts.
    terms : coefficients, see `TermSummary`.
    selections : of each resample, positions of its variables among the candidates.
    """

    kind: ClassVar[str] = "inclusion"
    selected: tuple[Name, ...]
    candidates: tuple[Name, ...]
    frequencies: Floats
    lower: Floats
    upper: Floats
    models: tuple[tuple[tuple[Name, ...], int], ...]
    terms: tuple[TermSummary, ...]
    n_resamples: int
    n_bootstrap: int
    n_rows: int
    random_state: int
    settings: Mapping[str, Any]
    status: str
    notes: tuple[str, ...]
    seconds: float
    selections: tuple[tuple[int, ...], ...] = field(default=(), repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """A row a candidate, most frequent first; with its coefficient where it has a single one."""
        single = self._single_terms
        order = np.lexsort((np.arange(len(self.frequencies)), -self.frequencies))
        return [self._row(int(i), single.get(self.candidates[int(i)])) for i in order]

    def _row(self, i: int, term: TermSummary | None) -> dict[str, Any]:
        name = self.candidates[i]
        return {
            "variable": name,
            "selected": name in self.selected,
            "frequency": float(self.frequencies[i]),
            "lower": float(self.lower[i]),
            "upper": float(self.upper[i]),
            "same_sign": None if term is None else term.sign_stability,
            "rmsd_ratio": None if term is None else term.rmsd_ratio,
            "bias_percent": None if term is None else term.relative_bias,
        }

    @cached_property
    def _single_terms(self) -> dict[Name, TermSummary]:
        counts = Counter(term.variable for term in self.terms)
        return {term.variable: term for term in self.terms if counts[term.variable] == 1}

    def joint(self, names: Sequence[Name] | None = None) -> tuple[tuple[Name, ...], Floats]:
        """Names, and how often each two of them were selected together; on the diagonal, each alone.

        By default those that were selected in a twentieth of the resamples or more, most frequent first.
        """
        order = np.argsort(-self.frequencies, kind="stable")
        wanted = [int(i) for i in order if self.frequencies[i] >= _PAIRED] if names is None else self._places(names)
        place = {i: at for at, i in enumerate(wanted)}
        chosen = np.zeros((len(self.selections), len(wanted)))
        for row, selection in enumerate(self.selections):
            chosen[row, [place[i] for i in selection if i in place]] = 1.0
        return tuple(self.candidates[i] for i in wanted), chosen.T @ chosen / max(1, len(self.selections))

    def _places(self, names: Sequence[Name]) -> list[int]:
        unknown = [name for name in names if name not in self.candidates]
        if unknown:
            raise InvalidInput(f"{unknown[0]!r} is not a candidate: expected some of {listed(self.candidates)}")
        return [self.candidates.index(name) for name in names]

    def pairs(self, names: Sequence[Name] | None = None) -> list[Pair]:
        """Every two variables, those that replace each other first and those that go together last."""
        found, joint = self.joint(names)
        n = max(1, len(self.selections))
        out = []
        for i in range(len(found)):
            for j in range(i + 1, len(found)):
                both, one, other = joint[i, j], joint[i, i] - joint[i, j], joint[j, j] - joint[i, j]
                cells = n * np.array([both, 1.0 - both - one - other, one, other]) + 0.5  # ½: no cell is empty
                odds = float(np.log(cells) @ [1.0, 1.0, -1.0, -1.0])
                z = odds / float(np.sqrt((1.0 / cells).sum()))
                out.append(Pair(found[i], found[j], float(both), float(joint[i, i] * joint[j, j]), odds, z))
        return sorted(out, key=lambda pair: pair.log_odds_ratio)

    def words(self) -> tuple[str, ...]:
        """What was found."""
        drawn = self.settings["drawn"]
        model = self.models[0] if self.models else ((), 0)
        same = sum(count for names, count in self.models if set(names) == set(self.selected))
        replacing = [pair for pair in self.pairs()[:3] if pair.z < _CLEARLY]
        told = "; ".join(f"{pair.first} and {pair.second}" for pair in replacing)
        return (
            f"{self.settings['algorithm']} on all {self.n_rows:,} rows selects {len(self.selected)} of "
            f"{len(self.candidates):,} candidates. Repeated on {self.n_resamples:,} {drawn}, it selects exactly these "
            f"in {same / max(1, self.n_resamples):.1%} of them; the most frequent set is {listed(model[0])} "
            f"({model[1] / max(1, self.n_resamples):.1%}).",
            *([f"Seem to replace each other: {told}."] if told else []),
        )

    def methods(self) -> str:
        """Words for a methods section."""
        more = (
            " Root mean squared differences relative to the standard errors of the full model, and relative "
            f"conditional bias, come from {self.n_bootstrap:,} bootstrap samples."
            if self.n_bootstrap
            else ""
        )
        return (
            f"Stability of the selection was assessed as Heinze, Wallisch and Dunkler (2018) propose: the selection "
            f"({self.settings['algorithm']}, {self.settings['criterion']}) was repeated on {self.n_resamples:,} "
            f"{self.settings['drawn']}, and inclusion frequencies, model frequencies and pairwise inclusion "
            f"frequencies are reported.{more} Seed: {self.random_state}."
        )

    @property
    def plot(self) -> InclusionPlots:
        """Plots: `frequencies()`, `pairs()` and `coefficients()`, each returning matplotlib Axes."""
        from fbed.inference.plots import InclusionPlots

        return InclusionPlots(self)


def inclusion(
    X: Any,
    y: Any,
    *,
    n_resamples: int = 1000,
    resampling: str = "subsample",
    fraction: float = 0.5,
    n_bootstrap: int | None = None,
    stratify: Any = None,
    units: Any = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    progress: Listener = None,
    **options: Unpack[SelectArguments],
) -> InclusionResult:
    """How often is each variable selected, when the search is repeated on parts of the rows?

    Parameters
    ----------
    X, y
        As in `fbed.select`.
    n_resamples : int
        How many resamples the frequencies come from.
    resampling : {'subsample', 'bootstrap'}
        Parts of the rows without replacement, or as many rows as there are, with replacement. Tests on bootstrap
        samples select too much: noise enters at about .15 where .05 was asked for.
    fraction : float
        Size of a subsample.
    n_bootstrap : int, optional
        Bootstrap samples for RMSD and bias of the coefficients; by default as many as `n_resamples` where the model on
        all candidates can be fitted, else 0.
    stratify : 'outcome', array or the name of a column of X, optional
        Strata that every resample holds in proportion; 'outcome' are its classes, or events and censored times.
    units : array or the name of a column of X, optional
        Subjects whose rows are drawn together; the clusters, where there are some.
    random_state : int, optional
        Makes the same draws again; the answer does not depend on `n_jobs`.
    n_jobs : int, optional
        Searches at the same time, in processes where those can be forked, else in threads; −1 for all processors.
    time_limit : float, optional
        Seconds after which no further search begins.
    progress : bool or callable, optional
        True shows progress on the terminal; a callable gets an object with `done`, `total` and `seconds`.
    **options
        Arguments of `fbed.select`.

    Returns
    -------
    InclusionResult

    Examples
    --------
    >>> import numpy as np, fbed
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(200, 5))
    >>> y = 2 * X[:, 3] - 0.2 * X[:, 1] + rng.normal(size=200)
    >>> found = fbed.inclusion(X, y, n_resamples=100, random_state=1)
    >>> found.frequencies[3]
    np.float64(1.0)
    """
    check_count(n_resamples, "n_resamples")
    if resampling not in ("subsample", "bootstrap"):
        raise InvalidInput(f"resampling must be 'subsample' or 'bootstrap', got {resampling!r}")
    if not (isinstance(fraction, (int, float)) and 0 < fraction < 1):
        raise InvalidInput(f"fraction is the size of a subsample, above 0 and below 1, got {fraction!r}")
    if n_bootstrap is not None:
        check_count(n_bootstrap, "n_bootstrap", least=0)
    most = n_resamples + (n_resamples if n_bootstrap is None else n_bootstrap)
    part = fraction if resampling == "subsample" else 1.0
    drawn_from = {"fraction": part, "stratify": stratify, "units": units, "time_limit": time_limit}
    asked = read(X, y, options, n_seeds=most, random_state=random_state, n_jobs=n_jobs, **drawn_from)
    full = full_search(asked, describe=True)
    reference = full_model(asked.problem, asked.plan) if n_bootstrap != 0 else None
    extra = 0 if reference is None else n_resamples if n_bootstrap is None else n_bootstrap
    again = resampling == "bootstrap"
    items = [(seed, again) for seed in asked.seeds[:n_resamples]]
    items += [(seed, True) for seed in asked.seeds[n_resamples : n_resamples + (0 if again else extra)]]
    done = asked.run(lambda item: _one(asked, part, *item), items, time_limit, progress)
    return _result(asked, full, reference, done.answers, done.status, n_resamples, resampling, part)


def check_count(value: Any, name: str, least: int = 1) -> None:
    """Refuse what is no number of resamples."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidInput(f"{name} must be a whole number that is {least} or more, got {value!r}")


def _one(asked: Asked, fraction: float, seed: np.random.SeedSequence, again: bool) -> tuple[Found, dict[str, float]]:
    """One search, and the coefficients that can be compared with those of the whole."""
    drawn: Resample = bootstrap(asked.units, seed) if again else subsample(asked.units, fraction, seed)
    problem = asked.sibling(drawn)
    found = find(problem, asked.plan, asked.criterion, describe=True)
    return found, observed(problem, asked.problem, (*asked.plan.forced, *found.selected), found.model)


def _result(
    asked: Asked,
    full: Found,
    reference: FittedModel | None,
    answers: list[tuple[Found, dict[str, float]]],
    status: str,
    n_resamples: int,
    resampling: str,
    fraction: float,
) -> InclusionResult:
    counted, further = answers[:n_resamples], answers[n_resamples:]
    notes = refuse_failures([found for found, _ in counted], "resamples")
    usable = [(found, values) for found, values in counted if found.failed is None]
    n = len(usable)
    selections = tuple(tuple(asked.places(found.selected).tolist()) for found, _ in usable)
    counts = np.bincount(np.array([i for s in selections for i in s], np.intp), minlength=len(asked.plan.candidates))
    lower, upper = binomial_interval(counts, n)
    models = Counter(tuple(sorted(selection)) for selection in selections).most_common(_MODELS)
    variation = usable if resampling == "bootstrap" else [pair for pair in further if pair[0].failed is None]
    terms = summarised(asked, full, reference, [v for _, v in usable], [v for _, v in variation])
    if resampling == "bootstrap":
        notes += ("tests on bootstrap samples select too much: frequencies of noise are about three times its level",)
    elif variation:
        notes += ("RMSD and bias come from bootstrap samples, frequencies and percentiles from the subsamples",)
    if reference is None and not variation:
        notes += ("no RMSD and no bias: the model on all candidates cannot be fitted, or no bootstrap was asked for",)
    what = "rows" if asked.units.are_rows else "units"
    drawn = (
        f"bootstrap samples of {what}" if resampling == "bootstrap" else f"subsamples of {fraction:.0%} of the {what}"
    )
    return InclusionResult(
        selected=asked.names(full.selected),
        candidates=asked.candidates,
        frequencies=counts / max(1, n),
        lower=lower,
        upper=upper,
        models=tuple((tuple(asked.candidates[i] for i in model), count) for model, count in models),
        terms=terms,
        n_resamples=n,
        n_bootstrap=len(variation),
        n_rows=asked.problem.table.n_rows,
        random_state=asked.seed,
        settings={
            "algorithm": algorithm_name(asked.plan),
            "criterion": asked.criterion_text,
            "family": asked.problem.model.name,
            "resampling": resampling,
            "drawn": drawn,
        },
        status=status,
        notes=(*asked.problem.notes, *notes),
        seconds=time.perf_counter() - asked.started,
        selections=selections,
    )


def binomial_interval(counts: Iterable[int], n: int, level: float = 0.95) -> tuple[Floats, Floats]:
    """Clopper and Pearson's interval for a probability, from counts out of n."""
    k = np.asarray(list(counts), dtype=np.float64)
    tail = (1.0 - level) / 2.0
    with np.errstate(invalid="ignore"):
        lower = np.where(k > 0, stats.beta.ppf(tail, k, n - k + 1), 0.0)
        upper = np.where(k < n, stats.beta.isf(tail, k + 1, n - k), 1.0)
    return np.asarray(lower), np.asarray(upper)
