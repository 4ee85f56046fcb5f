"""The result of a selection: one frozen object that people read, programs save and other tools build on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput
from fbed.models.base import Indices
from fbed.result.exact_numbers import Closer
from fbed.result.fitted import FinalModel
from fbed.result.overview import Overview
from fbed.result.performance import Performance
from fbed.result.provenance import Provenance
from fbed.result.saved import read_object
from fbed.rules.p_values import ChiSquare, ExactF, Floats, Reference
from fbed.search.scan import Finding, Scan
from fbed.search.search import STATUSES, Plan, Step, Trail
from fbed.tables.sparsity import checked_csc
from fbed.tables.table import Name, Table

if TYPE_CHECKING:
    from fbed.api.explain import Explanation
    from fbed.show.plots import Plots


@dataclass(frozen=True)
class TestCount:
    """Number of tests: a candidate evaluated once is one test."""

    forward: int
    backward: int

    @property
    def total(self) -> int:
        """Tests of both phases."""
        return self.forward + self.backward


@dataclass(frozen=True)
class TraceRow:
    """One scan. The variable and its numbers are None when the scan changed nothing (action 'stop').

    `critical` pairs each df among the candidates with the statistic that it had to exceed. `residual_df` belongs to
    the exact F test of a linear model; without one, statistics are compared with χ².
    """

    phase: str
    run: int | None
    action: str
    variable: Name | None
    statistic: float | None
    df: float | None
    log_p: float | None
    p_value: float | None
    score: float | None
    tested: int
    n_dropped: int
    seconds: float
    dropped: Indices = field(compare=False, repr=False)
    runners_up: tuple[Finding, ...] = field(repr=False)
    critical: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    residual_df: float | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Candidates:
    """What is known of every variable, selected or not: the last scan that tested it and its statistic there.

    `row` is the row of the trace (−1: never tested); `lower` and `upper` enclose the statistic, and are equal where it
    was computed exactly. `log_p` is there only where the statistic alone does not tell it.
    """

    row: NDArray[np.int32]
    lower: Floats
    upper: Floats
    df: Floats
    log_p: Floats | None = None


@dataclass(frozen=True, eq=False)
class Result:
    """What was selected, and how.

    Attributes
    ----------
    selected : names of the selected variables (indices for plain arrays), forced ones first, in order of selection; a
        group of columns has its name here.
    indices : the columns of these variables: indices among the predictors, of a group all its columns.
    groups : the columns of each group by its name. Elsewhere in the result (`trace`, `candidates`) a group goes by the
        index of its first column, and `name` tells what a variable is called.
    n_variables : number of predictors, that is of columns.
    trace : a row a scan, those that changed nothing included.
    n_tests : tests in the forward and the backward phase.
    model : the final model: coefficients with ratios and intervals, how well it fits, predictions; None for the oracle,
        which fits none, and where a time limit or an interrupt left no time for it.
    status : 'converged', 'max_features', 'saturated', 'time_limit' or 'interrupted'.
    notes : remarks on the data that a person should read.
    settings : what was asked for.
    overview : the outcome and the selected columns in figures; None for the oracle.
    provenance : the call, the date and the versions that made this result.
    performance : what predictions are worth, out of fold, where the settings were chosen by `fbed.tune`.
    closer : what makes statistics exact that were only enclosed, as long as the data are at hand.
    """

    selected: tuple[Name, ...]
    indices: Indices
    trace: tuple[TraceRow, ...]
    n_tests: TestCount
    model: FinalModel | None
    status: str
    family: str
    criterion: str
    classes: tuple[Any, ...] | None
    n_rows: int
    n: float
    n_variables: int
    feature_names: tuple[str, ...] | None
    groups: Mapping[str, tuple[int, ...]]
    n_forced: int
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    candidates: Candidates = field(repr=False)
    seconds: float
    overview: Overview | None = field(default=None, repr=False)
    provenance: Provenance | None = field(default=None, repr=False)
    performance: Performance | None = field(default=None, repr=False)
    closer: Closer | None = field(default=None, repr=False, compare=False)

    def settled(self) -> Result:
        """The same result with exact statistics where people look, instead of the bounds that were enough to decide.

        Everything that shows or saves a result begins with this. It is quick, and has no more to do afterwards; where
        the data are no longer at hand, or it would take long, some bounds remain.
        """
        return self if self.closer is None else self.closer.settled(self)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: no data."""
        return dict(self.settled().__dict__)

    def __repr__(self) -> str:
        few = ", ".join(map(str, self.selected[:4])) + (", …" if len(self.selected) > 4 else "")
        return f"<Result: {len(self.selected)} of {self.n_variables:,} selected ({few}); {self.family}, {self.status}>"

    @property
    def glance(self) -> Overview | None:
        """`overview`, by its name of before."""
        return self.overview

    @property
    def origin(self) -> Provenance | None:
        """`provenance`, by its name of before."""
        return self.provenance

    @property
    def support(self) -> NDArray[np.bool_]:
        """Mask of the selected columns among the predictors."""
        mask = np.zeros(self.n_variables, dtype=bool)
        mask[self.indices] = True
        return mask

    @property
    def variables(self) -> tuple[int, ...]:
        """The index that each of `selected` goes by: that of its column, or of the first column of a group."""
        columns = iter(self.indices.tolist())
        return tuple(min(itertools.islice(columns, len(self.groups.get(str(name), (0,))))) for name in self.selected)

    def name(self, variable: int) -> Name:
        """What the user calls a variable: a group's name, a column's name, or its index where there are no names."""
        group = next((name for name, columns in self.groups.items() if min(columns) == variable), None)
        if group is not None:
            return group
        return self.feature_names[variable] if self.feature_names is not None else int(variable)

    def transform(self, X: Any) -> Any:
        """The selected columns of a table, in order of selection, those of a group side by side."""
        if sparse.issparse(X):
            self._check_width(X.shape[1])
            return checked_csc(X)[:, self.indices]
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if not isinstance(frame, nw.DataFrame):
            array = np.asarray(X)
            self._check_width(array.shape[1] if array.ndim == 2 else 0)
            return array[:, self.indices]
        positions = self._positions([str(name) for name in frame.columns])
        # pandas keeps its rows even when nothing was selected
        return X.iloc[:, positions] if hasattr(X, "iloc") else frame[:, positions].to_native()

    def _positions(self, columns: list[str]) -> list[int]:
        """Where the selected columns are among those of a table: by name, if the selection knew names."""
        if self.feature_names is None:
            self._check_width(len(columns))
            return cast(list[int], self.indices.tolist())
        wanted = [self.feature_names[j] for j in self.indices.tolist()]
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise InvalidInput(f"the table lacks selected columns: {missing}")
        return [columns.index(name) for name in wanted]

    def _check_width(self, found: int) -> None:
        if found != self.n_variables:
            raise InvalidInput(f"X has {found} columns; the selection was made on {self.n_variables}")

    def reference(self, row: TraceRow) -> Reference | None:
        """What the statistics of a scan are compared with; None where only p-values have a meaning."""
        if self.candidates.log_p is not None or self.model is None:
            return None
        return ChiSquare() if row.residual_df is None else ExactF(self.n, row.residual_df, row.phase == "backward")

    def to_frame(self) -> Any:
        """The trace as a pandas data frame, a row a scan."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        hidden = ("dropped", "runners_up", "critical", "residual_df")
        fields = [name for name in TraceRow.__dataclass_fields__ if name not in hidden]
        rows = [{name: getattr(row, name) for name in fields} for row in self.trace]
        return pd.DataFrame(rows, columns=fields).rename(columns={"n_dropped": "dropped"})

    @property
    def cautions(self) -> tuple[str, ...]:
        """What should make a careful reader look twice, a sentence or two each; the notes are among them."""
        from fbed.result.cautions import cautions

        return tuple(f"{caution.title}. {caution.text}" for caution in cautions(self.settled()))

    def summary(self) -> str:
        """A readable account for a terminal of 80 columns."""
        from fbed.show.text import summary

        return summary(self)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """How a notebook shows the result."""
        from fbed.show.report.notebook import compact

        return compact(self.settled())

    @property
    def plot(self) -> Plots:
        """Plots of the result: `steps()`, `funnel()`, `effects()` and `ties()`, each returning matplotlib Axes."""
        from fbed.show.plots import Plots

        return Plots(self.settled())

    def explain(self, variable: Name, X: Any = None, y: Any = None, **values: Any) -> Explanation:
        """Why a variable was selected or not; with the data of the selection, every statistic is exact.

        Parameters
        ----------
        variable : name or index of a predictor.
        X, y : the data of the selection, optional; an outcome that was the name of a column is known.
        **values : sample_weight, offset and the like, where they were arrays.
        """
        from fbed.api.explain import explain

        return explain(self.settled(), variable, X, y, **values)

    def report(self, path: str | Path) -> Path:
        """Write a report for people: one HTML file that needs nothing else, to send, read offline or print."""
        from fbed.show.report import write

        return write(self, path)

    def to_json(self, path: str | Path | None = None, indent: int | None = None) -> str:
        """JSON form, with a schema version; also written to a file when a path is given.

        JSON has no infinity and no NaN: where one stands in the result, null is written, and read back as NaN.
        Classes that JSON has no form for, such as intervals or bytes, are written as text.
        """
        from fbed.result.json_form import finite, to_plain

        text = json.dumps(finite(to_plain(self.settled())), indent=indent, allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> Result:
        """Read a result back from its JSON text or file."""
        from fbed.result.json_form import from_plain

        return from_plain(read_object(source, "a result of fbed, saved by --json or to_json()"))


def build(trail: Trail, plan: Plan, table: Table, **rest: Any) -> Result:
    """The result of a search that has ended."""
    return Result(
        selected=tuple(table.name(j) for j in trail.selected),
        indices=np.array([j for v in trail.selected for j in table.columns(v)], dtype=np.intp),
        trace=tuple(_row(step, table) for step in trail.steps),
        n_tests=_count(trail),
        status=trail.status,
        n_rows=table.n_rows,
        n_variables=table.n_variables,
        feature_names=table.names,
        groups={group.name: group.columns for group in table.groups.values()},
        n_forced=len(plan.forced),
        candidates=_candidates(trail, table.n_variables),
        **rest,
    )


def _row(step: Step, table: Table) -> TraceRow:
    chosen = step.scan.chosen
    return TraceRow(
        phase=step.phase,
        run=step.run,
        action=step.action,
        variable=None if chosen is None else table.name(chosen.variable),
        statistic=None if chosen is None else chosen.statistic,
        df=None if chosen is None else chosen.df,
        log_p=None if chosen is None else chosen.log_p,
        p_value=None if chosen is None else chosen.p_value,
        score=None if chosen is None else chosen.score,
        tested=len(step.scan.candidates),
        n_dropped=len(step.dropped),
        seconds=step.seconds,
        dropped=step.dropped,
        runners_up=step.scan.runners_up,
        critical=_critical(step.scan),
        residual_df=getattr(step.scan.reference, "residual_df", None),
    )


def _critical(scan: Scan) -> tuple[tuple[float, float], ...]:
    if scan.critical is None:
        return ()
    df = scan.df[:1] if (scan.df == scan.df[0]).all() else np.unique(scan.df)
    return tuple(zip(df.tolist(), scan.critical(df).tolist(), strict=True))


def _count(trail: Trail) -> TestCount:
    tested = {phase: sum(len(s.scan.candidates) for s in trail.steps if s.phase == phase) for phase in PHASES}
    return TestCount(**tested)


PHASES = ("forward", "backward")


def _candidates(trail: Trail, p: int) -> Candidates:
    without_reference = any(step.scan.log_p is not None for step in trail.steps)
    out = Candidates(
        np.full(p, -1, dtype=np.int32),
        np.full(p, np.nan),
        np.full(p, np.nan),
        np.full(p, np.nan),
        np.full(p, np.nan) if without_reference else None,
    )
    for i, step in enumerate(trail.steps):
        where = step.scan.candidates
        out.row[where] = i
        out.lower[where], out.upper[where], out.df[where] = step.scan.lower, step.scan.upper, step.scan.df
        if out.log_p is not None and step.scan.log_p is not None:
            out.log_p[where] = step.scan.log_p
    return out


__all__ = ["STATUSES", "Candidates", "Result", "TestCount", "TraceRow", "build"]
