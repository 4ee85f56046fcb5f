"""`equivalents`: sets that do as well. Which selected variables could be replaced by which others, with no loss?

Z can stand for X, given the rest R of the selected variables, when (Borboudakis and Tsamardinos 2021)

    Z says something about the outcome given R;
    X says nothing more given R and Z;
    Z says nothing more given R and X.

The last two accept a hypothesis, which few rows make easy. So a replacement is claimed only where the tests could have
told: where what X has to say given R is enough to be seen, and what is left of it given Z is not.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np

from fbed.api.options import SelectArguments
from fbed.api.problem import Problem, algorithm_name
from fbed.errors import InvalidInput
from fbed.inference.inclusion import check_count
from fbed.inference.request import Asked, full_search, read
from fbed.inference.results import Inference, listed
from fbed.inference.runner import Listener, run_all
from fbed.models.base import Indices
from fbed.rules.criteria import Evidence, LikelihoodRatio
from fbed.rules.p_values import Floats
from fbed.tables.table import Name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_SETS = 10**6  # that are told apart one by one where replacements overlap


@dataclass(frozen=True)
class Replacement:
    """`by` can stand for `variable`, given the other selected variables.

    `p_variable` is the p-value of the variable given the others and its replacement, `p_by` that of the replacement
    given the others and the variable: neither adds to the other. `p_alone` is that of the replacement given the others.
    """

    variable: Name
    by: Name
    p_variable: float
    p_by: float
    p_alone: float


@dataclass(frozen=True, eq=False)
class EquivalentsResult(Inference):
    """Replacements, and the sets of variables (signatures) that come from them.

    Attributes
    ----------
    selected : what the search selects.
    classes : of each selected variable, those that can stand for it.
    replacements : the tests behind the classes.
    n_signatures : how many sets there are, the selected one included.
    signatures : the first of them, with the deviance of their models (None where the family has none).
    exact : whether `n_signatures` is the number, or a lower bound where there are too many to tell apart.
    """

    kind: ClassVar[str] = "equivalents"
    selected: tuple[Name, ...]
    classes: Mapping[Name, tuple[Name, ...]]
    replacements: tuple[Replacement, ...]
    n_signatures: int
    signatures: tuple[tuple[tuple[Name, ...], float | None], ...]
    exact: bool
    level: float
    n_rows: int
    settings: Mapping[str, Any]
    status: str
    notes: tuple[str, ...]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        """A row a replacement."""
        return [
            {
                "variable": each.variable,
                "replaced_by": each.by,
                "p_variable": each.p_variable,
                "p_replacement": each.p_by,
                "p_alone": each.p_alone,
            }
            for each in self.replacements
        ]

    def words(self) -> tuple[str, ...]:
        """What was found and what it means."""
        several = [f"{name} by {listed(others, 5)}" for name, others in self.classes.items() if others]
        least = "" if self.exact else "at least "
        return (
            f"The search selects {len(self.selected)} variables: {listed(self.selected)}. With these data, {least}"
            f"{self.n_signatures:,} {'set does' if self.n_signatures == 1 else 'sets do'} as well.",
            f"Could be replaced: {'; '.join(several)}."
            if several
            else "None of them could be replaced by another one.",
            f"Two variables are called equivalent when neither adds to the other, given the rest, at level "
            f"{self.level:g}: the data do not tell them apart, which is not to say that they are the same. "
            "Replacements are tested one at a time; sets with several of them are combinations.",
        )

    def methods(self) -> str:
        """Words for a methods section."""
        return (
            f"Equivalent variables were sought as Borboudakis and Tsamardinos (2021) propose: a variable is a "
            f"replacement of a selected one ({self.settings['algorithm']}, {self.settings['criterion']}) if it is "
            f"associated with the outcome given the other selected variables and neither of the two is, given the "
            f"other and these (level {self.level:g}). There are {self.n_signatures:,} resulting sets."
        )

    @property
    def plot(self) -> EquivalentsPlots:
        """A plot: `classes()`, returning matplotlib Axes."""
        return EquivalentsPlots(self)


@dataclass(frozen=True)
class EquivalentsPlots:
    """As in ``result.plot.classes()``."""

    result: EquivalentsResult

    def classes(self, ax: Axes | None = None) -> Axes:
        """How many variables can stand for each selected one."""
        from fbed.inference.plots import bars

        names = list(self.result.classes)
        counts = [float(len(self.result.classes[name])) for name in names]
        return bars(ax, names, counts, [count > 0 for count in counts], "variables that could replace it")


def equivalents(
    X: Any,
    y: Any,
    *,
    level: float | None = None,
    limit: int = 100,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    progress: Listener = None,
    **options: Unpack[SelectArguments],
) -> EquivalentsResult:
    """Variables that could replace selected ones without loss of information, and the sets that come from them.

    Parameters
    ----------
    X, y
        As in `fbed.select`.
    level : float, optional
        Of the tests; by default that of the search, or 0.05 where its criterion has none.
    limit : int
        Most sets that are listed; all are counted.
    n_jobs, time_limit, progress
        As in `fbed.inclusion`, for the selected variables that are looked at.
    **options
        Arguments of `fbed.select`.

    Returns
    -------
    EquivalentsResult

    Examples
    --------
    >>> import numpy as np, fbed
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(200, 4))
    >>> X[:, 2] = -3 * X[:, 0]  # the same in other units
    >>> found = fbed.equivalents(X, X[:, 0] + X[:, 1] + rng.normal(size=200))
    >>> found.classes, found.n_signatures
    ({0: (2,), 1: ()}, 2)
    """
    check_count(limit, "limit")
    asked = read(X, y, options, n_seeds=0, random_state=0, n_jobs=n_jobs, fraction=1.0, time_limit=time_limit)
    level = _level(asked, level)
    selected = full_search(asked).selected
    problem = asked.problem.exhaustive()
    problem.__dict__["design"] = asked.problem.design
    redundant = _redundant(problem, asked, selected, level)

    def one(variable: int) -> list[tuple[int, Floats]]:
        return _replacements(problem, asked, selected, variable, redundant, level)

    done = run_all(one, selected, asked.n_workers, time_limit, progress)
    found = dict(zip(selected, done.answers, strict=False))
    classes = {variable: tuple(by for by, _ in found.get(variable, [])) for variable in selected}
    count, exact = count_signatures(classes)
    table = asked.problem.table
    return EquivalentsResult(
        selected=asked.names(selected),
        classes={table.name(variable): asked.names(others) for variable, others in classes.items()},
        replacements=tuple(
            Replacement(table.name(variable), table.name(by), *(float(p) for p in p_values))
            for variable, some in found.items()
            for by, p_values in some
        ),
        n_signatures=count,
        signatures=tuple(
            (asked.names(each), _deviance(problem, [*asked.plan.forced, *each])) for each in listed_sets(classes, limit)
        ),
        exact=exact,
        level=level,
        n_rows=table.n_rows,
        settings={"algorithm": algorithm_name(asked.plan), "criterion": asked.criterion_text},
        status=done.status,
        notes=asked.problem.notes,
        seconds=time.perf_counter() - asked.started,
    )


def _level(asked: Asked, level: float | None) -> float:
    if level is None:
        criterion = asked.criterion
        return criterion.alpha if isinstance(criterion, LikelihoodRatio) else 0.05
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise InvalidInput(f"level is a significance level strictly between 0 and 1, got {level!r}")
    return level


def _p_values(evidence: Evidence) -> Floats:
    return np.where(evidence.df > 0, np.exp(evidence.log_p), 1.0)


def _redundant(problem: Problem, asked: Asked, selected: Sequence[int], level: float) -> dict[int, float]:
    """Candidates that add nothing to all that was selected, with their p-values: only they can be replacements."""
    others = np.setdiff1d(asked.plan.candidates, np.array(selected, dtype=np.intp))
    if not selected or not len(others):
        return {}
    p_values = _gains(problem, [*asked.plan.forced, *selected], others)
    return {int(v): float(p) for v, p in zip(others, p_values, strict=True) if p >= level}


def _gains(problem: Problem, given: Sequence[int], candidates: Indices) -> Floats:
    """p-values of adding each candidate, a block at a time."""
    fit, size = problem.model.fit(given), problem.model.block_size
    if fit.saturated:
        return np.ones(len(candidates))
    parts = [_p_values(fit.gains(candidates[i : i + size])) for i in range(0, len(candidates), size)]
    return np.concatenate([np.ones(0), *parts])


def _replacements(
    problem: Problem,
    asked: Asked,
    selected: Sequence[int],
    variable: int,
    redundant: Mapping[int, float],
    level: float,
) -> list[tuple[int, Floats]]:
    """Who can stand for one variable, with p-values: of it given them, of them given it, of them alone."""
    if not redundant:
        return []
    rest = [*asked.plan.forced, *(other for other in selected if other != variable)]
    own = np.array([variable], dtype=np.intp)
    if _gains(problem, rest, own)[0] >= level:
        return []  # the variable itself has nothing to say that a test could see
    others = np.array(sorted(redundant), dtype=np.intp)
    alone = _gains(problem, rest, others)
    out = []
    for other, p_alone in zip(others.tolist(), alone.tolist(), strict=True):
        if p_alone < level:
            p_variable = float(_gains(problem, [*rest, other], own)[0])
            if p_variable >= level:
                out.append((other, np.array([p_variable, redundant[other], p_alone])))
    return out


def _deviance(problem: Problem, variables: Sequence[int]) -> float | None:
    model = problem.model.describe(list(variables))
    return model.deviance if problem.model.has_likelihood and math.isfinite(model.deviance) else None


def count_signatures(classes: Mapping[int, Sequence[int]]) -> tuple[int, bool]:
    """Number of different sets that have one member of each class, and whether it is exact.

    Classes that share no member multiply. Those that do are told apart set by set, since two ways of choosing may
    give the same set.
    """
    total, exact = 1, True
    for part in _connected(classes):
        if len(part) == 1:
            total *= 1 + len(classes[part[0]])
            continue
        sets: set[frozenset[int]] = {frozenset()}
        for variable in part:
            members = (variable, *classes[variable])
            sets = {chosen | {member} for chosen in sets for member in members if member not in chosen}
            if len(sets) > _MOST_SETS:
                exact = False
                sets = set(itertools.islice(sets, _MOST_SETS))
        total *= len(sets)
    return total, exact


def _connected(classes: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Selected variables in parts whose replacements do not overlap."""
    parts: list[tuple[list[int], set[int]]] = []
    for variable, others in classes.items():
        members, reach = [variable], {variable, *others}
        apart = []
        for some, covered in parts:
            if covered & reach:
                members, reach = some + members, covered | reach
            else:
                apart.append((some, covered))
        parts = [*apart, (members, reach)]
    return [members for members, _ in parts]


def listed_sets(classes: Mapping[int, Sequence[int]], limit: int) -> list[tuple[int, ...]]:
    """The selected set and others, up to a limit; a set is listed once, in the order of the variables it replaces."""
    seen: dict[frozenset[int], tuple[int, ...]] = {}
    choices = [(variable, *others) for variable, others in classes.items()]
    for chosen in itertools.islice(itertools.product(*choices), _MOST_SETS):
        key = frozenset(chosen)
        if len(key) == len(chosen):
            seen.setdefault(key, chosen)
        if len(seen) >= limit:
            break
    return list(seen.values())
