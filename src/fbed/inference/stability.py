"""`stability`: a set of variables with a bound on how many of them are there by chance (complementary pairs)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np

from fbed.api.options import SelectArguments
from fbed.api.problem import algorithm_name
from fbed.errors import InvalidInput
from fbed.inference.complementary import ASSUMPTIONS, expected_false, largest_q, smallest_threshold
from fbed.inference.inclusion import check_count
from fbed.inference.request import Asked, Found, find, full_search, read, refuse_failures
from fbed.inference.resamples import halves
from fbed.inference.results import Inference, listed
from fbed.inference.runner import Listener
from fbed.rules.p_values import Floats
from fbed.search.search import Plan
from fbed.tables.table import Name

if TYPE_CHECKING:
    from fbed.inference.plots import FrequencyPlots

_THRESHOLD = 0.75
_PFER = 1.0
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class StabilityResult(Inference):
    """Variables that were selected in most halves, and how many false ones to expect among them.

    Attributes
    ----------
    selected : candidates whose frequency reaches the threshold, most frequent first.
    frequencies : part of the halves in which each of `candidates` was selected.
    threshold : the part of the halves that is asked for.
    q : most entries of a search on a half.
    bound : of the expected number of selected variables whose probability to be selected by a search on a half is
        q/p or less, under `assumption`; `bounds` has it under every assumption.
    plain : what the search selects on all rows, without any of this.
    """

    kind: ClassVar[str] = "stability"
    selected: tuple[Name, ...]
    candidates: tuple[Name, ...]
    frequencies: Floats
    threshold: float
    q: int
    p: int
    bound: float
    bounds: Mapping[str, float]
    assumption: str
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
        """A row a candidate, most frequent first."""
        order = np.lexsort((np.arange(len(self.frequencies)), -self.frequencies)).tolist()
        chosen, plain = set(self.selected), set(self.plain)
        return [
            {
                "variable": self.candidates[i],
                "stable": self.candidates[i] in chosen,
                "frequency": float(self.frequencies[i]),
                "plain_search": self.candidates[i] in plain,
            }
            for i in order
        ]

    def words(self) -> tuple[str, ...]:
        """What was found, what it cost, and what the bound bounds."""
        lost = [name for name in self.plain if name not in self.selected]
        new = [name for name in self.selected if name not in self.plain]
        assumed = "without assumptions" if self.assumption == "none" else f"under the {self.assumption} assumption"
        return (
            f"{len(self.selected)} of {self.p:,} candidates are stable: {listed(self.selected)}.",
            f"They were selected in at least {self.threshold:.0%} of {self.n_resamples} halves of the rows "
            f"({self.n_resamples // 2} complementary pairs), each by a search of at most {self.q} entries.",
            f"Bound: among them, at most {self.bound:.3g} are expected that a search on a half selects with "
            f"probability {self.q / max(1, self.p):.3g} or less, no more often than by drawing lots ({assumed}). This "
            "is the number of false selections proper where noise variables are exchangeable and no worse than lots; "
            "where noise is correlated with what matters, it may be selected more often and is then not counted.",
            f"Cost: the search on all rows selects {len(self.plain)}; of these, {len(lost)} are not stable "
            f"({listed(lost)})" + (f", and {listed(new)} are stable but not selected there." if new else "."),
        )

    def methods(self) -> str:
        """Words for a methods section."""
        return (
            f"Variables were selected by complementary pairs stability selection (Shah and Samworth, 2013) with "
            f"{self.settings['algorithm']} (Borboudakis and Tsamardinos, 2019; {self.settings['criterion']}, no "
            f"backward phase) stopped after q = {self.q} variables as the base procedure, "
            f"{self.n_resamples // 2} complementary pairs of halves and threshold {self.threshold:.3g}. The expected "
            f"number of selected variables with low selection probability is at most {self.bound:.3g} "
            f"({self.assumption} bound). Seed: {self.random_state}."
        )

    @property
    def plot(self) -> FrequencyPlots:
        """A plot: `frequencies()`, returning matplotlib Axes."""
        from fbed.inference.plots import FrequencyPlots

        return FrequencyPlots(self)


def stability(
    X: Any,
    y: Any,
    *,
    pfer: float | None = None,
    threshold: float | None = None,
    q: int | None = None,
    assumption: str = "unimodal",
    n_resamples: int = 100,
    stratify: Any = None,
    units: Any = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    progress: Listener = None,
    **options: Unpack[SelectArguments],
) -> StabilityResult:
    """Variables that are selected in most halves of the rows, with a bound on the number of false ones among them.

    Two of `pfer`, `threshold` and `q` say the third; by default they are 1, 0.75 and what follows.

    Parameters
    ----------
    X, y
        As in `fbed.select`.
    pfer : float, optional
        Bound on the expected number of selected variables that a search on a half selects with probability q/p or
        less.
    threshold : float, optional
        Part of the halves, above 0.5, in which a variable must be selected.
    q : int, optional
        Most entries of a search on a half.
    assumption : {'none', 'unimodal', 'r-concave'}
        Under which the bound holds; the weaker, the fewer entries are allowed.
    n_resamples : int
        Number of halves, an even one: they come in pairs that share no row.
    stratify, units, random_state, n_jobs, time_limit, progress
        As in `fbed.inclusion`.
    **options
        Arguments of `fbed.select`; `backward` and `max_features` are settled by the method.

    Returns
    -------
    StabilityResult

    Examples
    --------
    >>> import numpy as np, fbed
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(200, 50))
    >>> y = X[:, 3] - X[:, 7] + rng.normal(size=200)
    >>> found = fbed.stability(X, y, random_state=1)
    >>> sorted(found.selected)
    [3, 7]
    """
    check_pairs(n_resamples)
    _check(pfer, threshold, q, assumption)
    refuse_settled(options)
    drawn = {"stratify": stratify, "units": units, "time_limit": time_limit}
    asked = read(X, y, options, n_seeds=n_resamples // 2, random_state=random_state, n_jobs=n_jobs, **drawn)
    pairs, p = n_resamples // 2, asked.problem.design.n_varying(asked.plan.candidates)
    q, threshold = _settled(pfer, threshold, q, max(1, p), pairs, assumption)
    plain = full_search(asked)
    planned = base_plan(asked, q)

    def one(seed: np.random.SeedSequence) -> list[Found]:
        return [find(asked.sibling(half), planned, asked.criterion) for half in halves(asked.units, seed)]

    done = asked.run(one, asked.seeds, time_limit, progress)
    found = [half for pair in done.answers for half in pair]
    notes = refuse_failures(found, "halves")
    if len(done.answers) < pairs:
        notes += (f"{len(done.answers)} of {pairs} pairs were searched; the bounds are those of so many",)
    frequencies = frequency(asked, found)
    bounds = {name: expected_false(q, max(1, p), threshold, max(1, len(done.answers)), name) for name in ASSUMPTIONS}
    stable = np.flatnonzero(frequencies >= threshold - _ROUNDING)
    return StabilityResult(
        selected=tuple(asked.candidates[i] for i in stable[np.argsort(-frequencies[stable], kind="stable")]),
        candidates=asked.candidates,
        frequencies=frequencies,
        threshold=threshold,
        q=q,
        p=p,
        bound=bounds[assumption],
        bounds=bounds,
        assumption=assumption,
        mean_selected=float(frequencies.sum()),
        plain=asked.names(plain.selected),
        n_resamples=len(found),
        n_rows=asked.problem.table.n_rows,
        random_state=asked.seed,
        settings={
            "algorithm": algorithm_name(asked.plan),
            "criterion": asked.criterion_text,
            "family": asked.problem.model.name,
        },
        status=done.status,
        notes=(*asked.problem.notes, *notes),
        seconds=time.perf_counter() - asked.started,
    )


def base_plan(asked: Asked, most: int) -> Plan:
    """The search on a half: forward only, so that what entered stays, and no further than `most` entries."""
    return replace(asked.plan, backward=False, max_features=most)


def frequency(asked: Asked, found: list[Found]) -> Floats:
    """Part of the searches that selected each candidate; one that could not be made has selected nothing."""
    places = np.concatenate([np.zeros(0, dtype=np.intp), *(asked.places(one.selected) for one in found)])
    return np.bincount(places, minlength=len(asked.plan.candidates)) / max(1, len(found))


def check_pairs(n_resamples: Any) -> None:
    """Halves come in pairs."""
    check_count(n_resamples, "n_resamples", least=2)
    if n_resamples % 2:
        raise InvalidInput(f"n_resamples counts halves, which come in pairs: give an even number, got {n_resamples}")


def refuse_settled(options: SelectArguments) -> None:
    """Refuse options that the method settles by itself."""
    for name in ("backward", "max_features"):
        if options.get(name) is not None and not (name == "backward" and options[name]):
            raise InvalidInput(
                f"{name} is settled by the method: a search on a half has no backward phase and ends at q"
            )


def _check(pfer: float | None, threshold: float | None, q: int | None, assumption: str) -> None:
    if assumption not in ASSUMPTIONS:
        raise InvalidInput(f"assumption must be one of {', '.join(map(repr, ASSUMPTIONS))}, got {assumption!r}")
    if pfer is not None and threshold is not None and q is not None:
        raise InvalidInput("pfer, threshold and q: two of them say the third, so leave one of them out")
    if pfer is not None and not (pfer > 0 and math.isfinite(pfer)):
        raise InvalidInput(f"pfer is an expected number of false selections, above 0, got {pfer!r}")
    if threshold is not None and not 0.5 < threshold <= 1.0:
        raise InvalidInput(f"threshold is a part of the halves, above 0.5 and at most 1, got {threshold!r}")
    if q is not None:
        check_count(q, "q")


def _settled(
    pfer: float | None, threshold: float | None, q: int | None, p: int, pairs: int, assumption: str
) -> tuple[int, float]:
    """q and the threshold, from what was given."""
    if q is None:
        threshold = _THRESHOLD if threshold is None else threshold
        return largest_q(_PFER if pfer is None else pfer, p, threshold, pairs, assumption), threshold
    if q > p:
        raise InvalidInput(f"q={q} entries of a search are more than the {p} candidates: lower q")
    if pfer is None:
        return q, _THRESHOLD if threshold is None else threshold
    return q, smallest_threshold(pfer, q, p, pairs, assumption)
