"""Why was a variable selected, or not? Answered from a saved result, and exactly when the data are at hand.

A result knows of every candidate the last scan that tested it, with certified bounds on its statistic there, and of
every scan who was dropped. With the data, each scan that tested the variable is made again for it alone.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from fbed.api.options import DataOptions
from fbed.api.reading import read_problem
from fbed.errors import InvalidInput
from fbed.result import views
from fbed.result.result import Result, TraceRow
from fbed.result.views import Statistic
from fbed.search.search import STATUSES
from fbed.show.text import p_value, paragraph, shortened, table
from fbed.tables.named import named_columns
from fbed.tables.table import Name

BY_ROW = ("sample_weight", "offset", "exposure", "trials", "strata", "entry", "cluster")
_ABOUT_DATA = (*BY_ROW, "family", "test", "cov", "link", "exclude", "groups", "categorical", "missing", "rare_levels")
_HOPELESS = 1000  # times as many rows: beyond that no one collects them

_UNKNOWN = (
    "How close it came is not known: bounds were enough to decide. With the data (explain(…, X, y), or --data on the "
    "command line) its statistics are computed."
)


@dataclass(frozen=True)
class Encounter:
    """A scan that tested the variable, given some others; `what` says how it went."""

    step: int
    zone: str
    given: tuple[Name, ...]
    variables: tuple[int, ...]  # the indices of the given
    what: str  # 'added', 'passed', 'dropped', 'failed', 'kept' or 'removed'
    winner: Name | None
    known: Statistic

    @property
    def passed(self) -> bool:
        """Whether the criterion was met."""
        return self.what in ("added", "passed", "kept")


@dataclass(frozen=True)
class Explanation:
    """What happened to a variable. `now` is its test given all that was selected, known when the data were given."""

    variable: Name
    verdict: str
    encounters: tuple[Encounter, ...]
    reasons: tuple[str, ...]
    exact: bool
    now: Statistic | None = None

    def __str__(self) -> str:
        lines = paragraph(self.verdict, indent="")
        if self.encounters:
            lines += ["", *table([_HEAD, *(_line(e) for e in self.encounters)], "><>>><", name_column=5)]
        for reason in self.reasons:
            lines += ["", *paragraph(reason, indent="")]
        return "\n".join(lines)


_HEAD = ("step", "", "statistic", "needed", "p-value", "given")


def _line(encounter: Encounter) -> tuple[str, ...]:
    known = encounter.known
    needed = "" if known.critical is None else f"{known.critical:.4g}"
    given = ", ".join(map(str, encounter.given)) or "nothing"
    return str(encounter.step), encounter.what, _range(known), needed, _p_range(known), shortened(given, 200)


def _range(known: Statistic) -> str:
    low, high = f"{known.lower:.4g}", f"{known.upper:.4g}"
    if math.isnan(known.lower) or low == high:
        return "" if math.isnan(known.lower) else high
    if math.isinf(known.upper):
        return f"> {low}"
    return f"< {high}" if known.lower <= 0 else f"{known.lower:.3g} to {known.upper:.3g}"


def _p_range(known: Statistic) -> str:
    if math.isnan(known.log_p_low):
        return ""
    low, high = p_value(known.log_p_low), p_value(known.log_p_high)
    if low == high:
        return high
    if known.log_p_low == -math.inf:
        return f"< {high}"
    if known.log_p_high == 0:
        return f"> {low}"
    return f"{p_value(known.log_p_low, 2)} to {p_value(known.log_p_high, 2)}"


def explain(result: Result, variable: Name, X: Any = None, y: Any = None, **values: Any) -> Explanation:
    """Why a variable was selected or not.

    Parameters
    ----------
    result : Result
    variable : name or index of a predictor
    X, y : the data of the selection, optional
        With them every statistic is exact. An outcome that was the name of a column need not be given again.
    **values : arguments of `fbed.select` that held one value a row, such as sample_weight, where they were arrays.
    """
    j = find(result, variable)
    met = tuple(_encounters(result, j))
    now = None
    if X is not None:
        again = _Again(result, j, X, y, values)
        met = tuple(replace(e, known=again.test(e.variables, e.known.critical)) for e in met)
        now = None if j in result.variables else again.test(result.variables, None)
    elif y is not None or values:
        raise InvalidInput("explain needs the table X besides y: give both for exact statistics, or neither")
    name = result.name(j)
    return Explanation(name, _verdict(result, j, met), met, tuple(_reasons(result, j, met, now)), X is not None, now)


def find(result: Result, variable: Name) -> int:
    """Index of a variable of a result, by its name, a group's name, or an index."""
    names = result.feature_names
    if variable in result.groups:
        return min(result.groups[str(variable)])
    if names is not None and variable in names:
        return _alone(result, names.index(str(variable)))
    if isinstance(variable, (int, np.integer)) and not isinstance(variable, bool):
        if 0 <= variable < result.n_variables:
            return _alone(result, int(variable))
        raise InvalidInput(f"there is no predictor {variable}: the result has {result.n_variables:,}, counted from 0")
    close = difflib.get_close_matches(str(variable), [*(names or ()), *result.groups], 3)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "names are as in the table, case included"
    if names is None:
        hint = f"the table had no names; give an index from 0 to {result.n_variables - 1:,}"
    raise InvalidInput(f"the result has no predictor {variable!r}: {hint}")


def _alone(result: Result, column: int) -> int:
    """The variable that a column is, or is part of."""
    return next((min(columns) for columns in result.groups.values() if column in columns), column)


# -- from the result -------------------------------------------------------------------------------------------------


def _encounters(result: Result, j: int) -> Iterator[Encounter]:
    """Every scan that tested a variable: from the start of a run until it is dropped or added, and those of S."""
    if result.candidates.row[j] < 0:
        return
    name, run, waiting = result.name(j), None, False
    for step in views.steps(result):
        row = step.row
        if row.phase == "forward" and row.run != run:
            run, waiting = row.run, j not in step.before
        tested = waiting if row.phase == "forward" else j in step.before
        if not tested:
            continue
        what = _what(result, row, j, name)
        waiting = waiting and what == "passed"
        others = tuple(s for s in step.before if s != j)
        given = tuple(result.name(s) for s in others)
        winner = row.variable if what == "passed" else None
        known = _known(result, step.number - 1, j, what)
        yield Encounter(step.number, step.zone, given, others, what, winner, known)


def _what(result: Result, row: TraceRow, j: int, name: Name) -> str:
    if row.variable == name and row.variable is not None:
        return "added" if row.action == "add" else "removed"
    if row.phase == "backward":
        return "kept"
    if bool((row.dropped == j).any()):
        return "dropped"
    early = result.settings.get("early_dropping", True)
    return "passed" if early and row.variable is not None else "failed" if row.variable is None else "passed"


def _known(result: Result, place: int, j: int, what: str) -> Statistic:
    """What the result knows about the test: its last one from the candidates, others from the runners-up."""
    last = views.last_test(result, j)
    if last is not None and last[0] == place:
        return last[1]
    row, df = result.trace[place], float(result.candidates.df[j])
    if what in ("added", "removed") and row.statistic is not None and row.df is not None:
        return views.statistic(result, row, row.statistic, row.statistic, row.df)
    for finding in row.runners_up:
        if finding.variable == j:
            return views.statistic(result, row, finding.statistic, finding.upper, finding.df)
    critical = dict(row.critical).get(df)
    if critical is None or not result.settings.get("early_dropping", True):
        return Statistic(math.nan, math.nan, df, math.nan, math.nan, critical)
    ends = (critical, math.inf) if what in ("passed", "kept") else (0.0, critical)
    return views.statistic(result, row, *ends, df)


def _verdict(result: Result, j: int, met: Sequence[Encounter]) -> str:
    name = result.name(j)
    if j in result.variables:
        entered = [e for e in met if e.what == "added"]
        if not entered:
            return f"{name} was forced in: it is in every model and was never tested."
        return f"{name} was selected in step {entered[-1].step} ({entered[-1].zone})."
    if not met:
        return f"{name} was not considered: it was excluded, or the search ended before a scan was made."
    last = met[-1]
    if last.what == "removed":
        return f"{name} was selected, and removed again in step {last.step} (backward phase)."
    if last.what == "passed":
        ended = "early" if result.status != "converged" else ""
        return f"{name} was not selected: it passed in step {last.step}, but the search ended {ended or 'there'}."
    verb = "dropped" if last.what == "dropped" else "not good enough"
    return f"{name} was not selected: it was {verb} in step {last.step} ({last.zone})."


# -- reasons and remedies --------------------------------------------------------------------------------------------


def _reasons(result: Result, j: int, met: Sequence[Encounter], now: Statistic | None) -> Iterator[str]:
    if j in result.variables or not met:
        return
    last = met[-1]
    if views.is_oracle(result):
        yield "The selected variables separate it from the target in the graph."
        return
    if last.known.df == 0:
        yield "It is constant, or a combination of the selected variables: there is nothing to test."
        return
    if last.passed:
        yield f"The search ended there ({STATUSES[result.status]}); otherwise it would have remained a candidate."
        return
    passed = [e for e in met if e.winner is not None]
    if passed:
        winner = passed[-1].winner
        yield f"In step {passed[-1].step} it still passed; then {winner} entered, and given that it adds too little."
    ways = list(_ways(result, last.known))
    if ways:
        yield f"To pass in step {last.step} it would have taken {', or '.join(ways)}."
    if not last.known.exact:
        yield _UNKNOWN
    yield from _another_run(result, last, now)


def _ways(result: Result, known: Statistic) -> Iterator[str]:
    """What would have let it pass in the scan that decided; from bounds only what the statistic had to exceed."""
    if known.exact and views.by_level(result) and not math.isnan(known.log_p_low):
        yield f"a level alpha above {p_value(known.log_p_low)}"
    if known.critical is None or not math.isfinite(known.critical) or not 0 < known.upper < known.critical:
        return
    yield f"a statistic above {known.critical:.4g}"
    times = known.critical / known.upper
    if known.exact and times < _HOPELESS:
        yield f"at the same size of effect, about {times * result.n_rows:,.0f} rows instead of {result.n_rows:,}"


def _another_run(result: Result, last: Encounter, now: Statistic | None) -> Iterator[str]:
    """Variables that entered after the last look may have changed what it adds."""
    later = [str(name) for name in result.selected if name not in last.given]
    if not later or last.what == "removed":
        return
    since = f"After that look {', '.join(later[:5])}{' and others' if len(later) > 5 else ''} entered."
    if now is None:
        yield f"{since} A further run (a larger k) would look again; with the data, what it would see can be told."
        return
    seen = f"statistic {now.upper:.4g}, p = {p_value(now.log_p_high)} (naive)"
    yield f"{since} Given all that was selected: {seen}. A further run (a larger k) would decide by that."


# -- with the data ---------------------------------------------------------------------------------------------------


class _Again:
    """Makes single tests of a variable again, by fitting models."""

    def __init__(self, result: Result, j: int, X: Any, y: Any, values: dict[str, Any]) -> None:
        if views.is_oracle(result):
            raise InvalidInput("a graph answered this selection exactly: leave the data out")
        options = _options(result, X, y, values)
        outcome, excluded = options.pop("y"), options.pop("exclude", ())
        problem = read_problem(X, outcome, [], excluded, DataOptions.of({**options, "engine": "exhaustive"}))
        if problem.table.n_variables != result.n_variables or problem.table.names != result.feature_names:
            raise InvalidInput(
                f"this is not the table of the selection: it has {problem.table.n_variables:,} predictors, and the "
                f"selection was made on {result.n_variables:,}, or they have other names"
            )
        model = problem.paired_model if result.settings.get("paired") else problem.model
        self.j, self.model, self.made = j, model, dict[frozenset[int], Statistic]()

    def test(self, given: Sequence[int], critical: float | None) -> Statistic:
        """The exact statistic of the variable given others."""
        key = frozenset(given)
        if key not in self.made:
            self.made[key] = self._test(given)
        return replace(self.made[key], critical=critical)

    def _test(self, given: Sequence[int]) -> Statistic:
        fit = self.model.fit(given)
        if fit.saturated:
            return Statistic(0.0, 0.0, 0.0, 0.0, 0.0, None)
        found = fit.gains(np.array([self.j], dtype=np.intp))
        statistic, df, log_p = (float(values[0]) for values in (found.statistic, found.df, found.log_p))
        return Statistic(statistic, statistic, df, log_p, log_p, None)


def _options(result: Result, X: Any, y: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `select` that say what a test is, as they were, or given again where they were arrays."""
    unknown = set(values) - set(_ABOUT_DATA)
    if unknown:
        raise InvalidInput(f"explain has no use for {sorted(unknown)}: the rest is known from the result")
    provenance = result.provenance
    kept = {} if provenance is None else {name: provenance.value(name) for name in ("y", *_ABOUT_DATA)}
    options = {name: value for name, value in kept.items() if value is not None} | values
    if y is not None:
        options["y"] = y
    if sparse.issparse(X) or named_columns(X) is None:
        options["feature_names"] = result.feature_names
    unwritten = () if provenance is None else provenance.unwritten
    needed = ["y", *(name for name in unwritten if name in _ABOUT_DATA)]
    missing = [name for name in dict.fromkeys(needed) if name not in options]
    if missing:
        raise InvalidInput(
            f"explain needs {', '.join(missing)} again: the selection was given values that are not kept"
        )
    options.setdefault("family", result.family)
    return options
