"""What a result says, as numbers ready to be shown: the steps, the effects, the near ties, the warnings.

The report, the plots, the terminal and the explanations all read a result through these functions, so that they say
the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fbed.result.fitted import table
from fbed.rules.p_values import Floats
from fbed.tables.table import Name

if TYPE_CHECKING:
    from fbed.models.base import FittedModel, Indices
    from fbed.result.overview import Column
    from fbed.result.result import Result, TraceRow
    from fbed.search.scan import Finding

NEAR = 2.0
"""Scores that differ by less are near ties: the data are at most e times likelier under one model than the other."""

_NO_BOUND = 1e6  # an upper bound so many times the lower one says nothing
_TIED = 1e-7  # relative difference of statistics that are the same up to rounding of their fits


@dataclass(frozen=True)
class Statistic:
    """What is known of one test: an interval for its statistic, and the log p-values at its two ends."""

    lower: float
    upper: float
    df: float
    log_p_low: float  # of the upper end
    log_p_high: float  # of the lower end
    critical: float | None

    @property
    def exact(self) -> bool:
        """Whether the statistic itself is known."""
        return self.upper - self.lower <= 1e-9 * max(1.0, abs(self.upper))


@dataclass(frozen=True)
class StepView:
    """A scan, numbered from 1, with what led up to it.

    `fall` is by how much the deviance has fallen since the start, and `gain` by how much more than the criterion asks.
    """

    number: int
    row: TraceRow
    before: tuple[int, ...]  # S when the scan was made
    remaining: int
    n_selected: int
    critical: float | None
    fall: float
    gain: float

    @property
    def zone(self) -> str:
        """The part of the search that the scan belongs to."""
        return "backward" if self.row.run is None else f"run {self.row.run}"


@dataclass(frozen=True)
class Effect:
    """A coefficient with its naive 95% interval, and the same per standard deviation of a numeric column."""

    term: str
    variable: Name | None  # None for an intercept and the like
    value: float
    low: float | None
    high: float | None
    scale: float  # standard deviation of a number, 1 for a level of a category

    @property
    def scaled(self) -> tuple[float, float | None, float | None]:
        """Value and interval per standard deviation."""
        low, high = (None if end is None else end * self.scale for end in (self.low, self.high))
        return self.value * self.scale, low, high


@dataclass(frozen=True)
class Tie:
    """A runner-up of a step: by how much its score was behind (at the least, when only bounds are known)."""

    step: StepView
    finding: Finding
    name: Name
    behind: float
    near: bool
    fate: str


def has_deviance(result: Result) -> bool:
    """Whether the statistics are differences of deviances, so that they add up along the path."""
    return not is_oracle(result) and result.settings.get("test") in ("lr", "g2")


def by_level(result: Result) -> bool:
    """Whether variables pass by p-value, and not by an information criterion."""
    return "alpha" in str(result.settings.get("criterion", "alpha"))


def is_oracle(result: Result) -> bool:
    """Whether a graph and not data answered."""
    return result.family == "oracle"


def sample_size(result: Result) -> str | None:
    """What the criterion takes for n, when that is not the number of rows: events, trials or the sum of weights."""
    if is_oracle(result) or result.n == result.n_rows:
        return None
    events = None if result.overview is None else result.overview.outcome.events
    what = "events" if events == result.n else "in all, by trials or weights"
    return f"{result.n:,g} {what}"


# -- the path --------------------------------------------------------------------------------------------------------


def steps(result: Result) -> list[StepView]:
    """Every scan in order."""
    index = _index(result)
    selected = [index[name] for name in result.settings.get("include", ()) if name in index]
    out: list[StepView] = []
    fall = gain = 0.0
    for number, row in enumerate(result.trace, 1):
        before = tuple(selected)
        changed = row.variable is not None
        if changed:
            variable = index[row.variable]
            (selected.append if row.action == "add" else selected.remove)(variable)
            sign = 1.0 if row.action == "add" else -1.0
            fall += sign * (row.statistic or 0.0)
            gain += sign * (row.score or 0.0)
        remaining = row.tested - row.n_dropped - (row.action == "add")
        critical = None if row.df is None else dict(row.critical).get(row.df)
        if critical is None and row.critical:
            critical = row.critical[0][1]
        out.append(StepView(number, row, before, remaining, len(selected), critical, fall, gain))
    return out


def changes(result: Result) -> list[StepView]:
    """The scans that added or removed a variable."""
    return [step for step in steps(result) if step.row.variable is not None]


def _index(result: Result) -> dict[Name | None, int]:
    """Indices of the variables that ever were in S."""
    moved: set[Name | None] = {row.variable for row in result.trace} | set(result.settings.get("include", ()))
    names: Iterable[Name] = range(result.n_variables) if result.feature_names is None else result.feature_names
    groups: dict[Name | None, int] = {name: min(columns) for name, columns in result.groups.items()}
    return {name: j for j, name in enumerate(names) if name in moved} | groups


def n_variables(result: Result) -> int:
    """Number of variables that could be in a model: columns, those of a group counted once."""
    return result.n_variables - sum(len(columns) - 1 for columns in result.groups.values())


def n_candidates(result: Result) -> int:
    """Number of variables that the search had to decide about."""
    return n_variables(result) - result.n_forced - int(result.settings.get("n_excluded", 0))


def least_tests_of_fbs(result: Result) -> int:
    """Tests that plain forward-backward selection needs at the least to select as many variables.

    A scan of everything that is left for each variable, one more that finds nothing, and one backward scan. Scans that
    a limit or a perfect fit would have spared are not counted.
    """
    p = n_candidates(result)
    found = len(result.selected) - result.n_forced
    last = 1 if result.status == "converged" and p > found else 0
    forward = sum(p - i for i in range(found + last))
    return forward + (found if result.n_tests.backward else 0)


# -- one test --------------------------------------------------------------------------------------------------------


def last_test(result: Result, variable: int) -> tuple[int, Statistic] | None:
    """The last scan that tested a variable (its position in the trace) and what is known from it."""
    known = result.candidates
    place = int(known.row[variable])
    if place < 0:
        return None
    lower, upper, df = (float(values[variable]) for values in (known.lower, known.upper, known.df))
    if math.isnan(upper) or upper > _NO_BOUND * max(lower, 1.0):  # NaN: JSON has no infinity
        upper = np.inf
    row = result.trace[place]
    if known.log_p is not None:
        p = float(known.log_p[variable])
        return place, Statistic(lower, upper, df, p, p, None)
    return place, statistic(result, row, lower, upper, df)


def statistic(result: Result, row: TraceRow, lower: float, upper: float, df: float) -> Statistic:
    """An interval for a statistic of a scan with the p-values of its ends."""
    reference = result.reference(row)
    if reference is None:
        return Statistic(lower, upper, df, np.nan, np.nan, None)
    low, high = (
        float(reference.log_sf(np.array([end]), np.array([df]))[0]) if math.isfinite(end) else -math.inf
        for end in (upper, lower)
    )
    return Statistic(lower, upper, df, low, high, dict(row.critical).get(df))


# -- effects ---------------------------------------------------------------------------------------------------------


def effects(result: Result) -> list[Effect]:
    """Terms of the final model that belong to variables, in the model's order."""
    return [effect for effect in terms(result) if effect.variable is not None]


def terms(result: Result) -> list[Effect]:
    """Every term of the final model."""
    model = result.model
    if model is None:
        return []
    half = table.half_width(model)
    known = _columns_by_term(result)
    out = []
    for i, (term, value) in enumerate(zip(model.terms, model.coefficients, strict=True)):
        error = math.nan if model.standard_errors is None else model.standard_errors[i]
        variable, scale = _owner(term, known)
        known_error = math.isfinite(error) and error > 0
        low, high = (value + sign * half * error if known_error else None for sign in (-1, 1))
        out.append(Effect(term, variable, value, low, high, scale))
    return out


def ratio_name(result: Result) -> str | None:
    """What exp(coefficient) is called, or None where it has no meaning."""
    return None if result.model is None else table.ratio_name(result.model)


def _columns_by_term(result: Result) -> dict[str, tuple[Name, float]]:
    columns: tuple[Column, ...] = () if result.overview is None else result.overview.columns
    out: dict[str, tuple[Name, float]] = {}
    for name, column in zip(result.selected, columns, strict=False):
        for term, scale in zip(column.terms, column.scales, strict=True):
            out.setdefault(term, (name, scale))
    return out


def _owner(term: str, known: dict[str, tuple[Name, float]]) -> tuple[Name | None, float]:
    """The variable of a term; terms of multinomial models end in ' → class'."""
    if term in known:
        return known[term]
    head = term
    while " → " in head:
        head = head.rpartition(" → ")[0]
        if head in known:
            return known[head]
    return None, 1.0


def infinite(model: FittedModel) -> str:
    """Which coefficients of a separated model are infinite, in words."""
    terms = list(model.infinite)
    if not terms:  # saved before a model could tell
        return "some coefficients are infinite, and only their direction has meaning"
    if len(terms) == len(model.terms):
        return "all coefficients are infinite, and only their direction has meaning"
    said = "coefficients of" if len(terms) > 1 else "coefficient of"
    listed = "; ".join(terms[:6]) + ("; and others" if len(terms) > 6 else "")
    return (
        f"the {said} {listed} {'are' if len(terms) > 1 else 'is'} infinite; the others have the estimates and standard "
        "errors of the rows that are left"
    )


# -- near ties -------------------------------------------------------------------------------------------------------


def ties(result: Result) -> list[Tie]:
    """Runners-up of every step that added a variable, best first."""
    return [tie for step in changes(result) if step.row.action == "add" for tie in _ties_of(result, step)]


def _ties_of(result: Result, step: StepView) -> Iterator[Tie]:
    for finding in step.row.runners_up:
        if not is_oracle(result) and finding.upper - finding.statistic > 1e-9 * max(1.0, finding.upper):
            return  # a bound, and all that it might come before
        behind = _behind(result, step.row, finding)
        fate_of = fate(result, finding.variable)
        yield Tie(step, finding, result.name(finding.variable), behind, behind <= NEAR, fate_of)


def _behind(result: Result, row: TraceRow, finding: Finding) -> float:
    """By how much a runner-up was worse, on the scale of deviances.

    Of the same df, that is the difference of the statistics. Otherwise what was ranked differs: scores, or, by level,
    log p-values, of which twice the difference is about what it is for statistics.
    """
    if is_oracle(result) or row.score is None or row.log_p is None:
        return 0.0
    if by_level(result) and finding.df != row.df:
        return max(2.0 * (finding.log_p - row.log_p), 0.0)
    return max(row.score - finding.score, 0.0)  # ties go to the lower index, up to rounding


def fate(result: Result, variable: int) -> str:
    """What became of a variable, in a few words."""
    name = result.name(variable)
    moves = [number for number, row in enumerate(result.trace, 1) if row.variable == name and row.variable is not None]
    if variable in result.variables:
        return f"selected in step {moves[-1]}" if moves else "forced in"
    if moves:
        return f"removed in step {moves[-1]}"
    place = int(result.candidates.row[variable])
    if place < 0:
        return "not considered"
    row = result.trace[place]
    return f"dropped in step {place + 1}" if variable in row.dropped else f"not selected by step {place + 1}"


def closest(result: Result, most: int) -> Indices:
    """Candidates that were not selected, those first that came closest to passing in their last scan.

    Those whose statistics are not known exactly, and all that they might come before, are left out. Variables that
    entered and were removed again are always among them.
    """
    known = result.candidates
    free = (known.row >= 0) & ~result.support
    if known.log_p is not None:
        share = np.where(free & ~np.isnan(known.log_p), -known.log_p, -np.inf)
    else:
        share = np.where(free, _share_of_critical(result), -np.inf)
    order = _best_first(share)[: int(free.sum())]
    exact = _is_exact(known.lower[order], known.upper[order])
    certain = order[: len(order) if exact.all() else int(np.argmin(exact))][:most]
    removed = [row.variable for row in result.trace if row.action == "remove"]
    index = _index(result)
    again = [j for j in dict.fromkeys(index[name] for name in removed) if free[j] and j not in certain]
    return np.array([*certain.tolist(), *again], dtype=np.intp)


def _best_first(share: Floats) -> Indices:
    """Who ties is in the order of the columns: rounding, which depends on the processor, has no say."""
    order = np.argsort(-share, kind="stable")
    ranked = share[order]
    with np.errstate(invalid="ignore"):  # infinities beside each other
        apart = ranked[:-1] - ranked[1:] > _TIED * np.maximum(1.0, np.abs(ranked[1:]))
    return order[np.lexsort((order, np.concatenate([[0], np.cumsum(apart)])))]


def _is_exact(lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    return np.asarray(upper - lower <= 1e-9 * np.maximum(1.0, np.abs(upper)))


def _share_of_critical(result: Result) -> Floats:
    """Each candidate's statistic, at the most, as a part of what it had to exceed; 1 where it had to exceed nothing."""
    known, critical = result.candidates, critical_values(result)
    asked = (critical > 0) & np.isfinite(critical)
    upper = np.where(np.isnan(known.upper), np.inf, known.upper)  # NaN: JSON has no infinity
    return np.where(asked, upper / np.where(asked, critical, 1.0), 0.0)


def critical_values(result: Result) -> Floats:
    """What each variable had to exceed in its last test; infinite where that is not known."""
    known = result.candidates
    critical = np.full(len(known.row), np.inf)
    for i, row in enumerate(result.trace):
        here = np.flatnonzero(known.row == i)
        for df, value in row.critical:
            critical[here[known.df[here] == df]] = value
    return critical
