"""A problem whose table is not in memory: read once part by part, described, and asked through its sums over rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed import families
from fbed.api.options import DataOptions
from fbed.api.problem import Problem
from fbed.api.reading import find_family, pair
from fbed.errors import InvalidInput
from fbed.families.builders import many_ties
from fbed.families.larger_than_memory import Elsewhere, model_elsewhere, refuse_others
from fbed.larger_than_memory.cluster import OnDask, connected, current_client
from fbed.larger_than_memory.designs import FarDesign
from fbed.larger_than_memory.digest import Digest, Wanted, complete, digest
from fbed.larger_than_memory.joined import JoinedRows
from fbed.larger_than_memory.outline import Outline, described, with_codes
from fbed.larger_than_memory.part_readers import Part, Stamp
from fbed.larger_than_memory.scratch import Order
from fbed.larger_than_memory.sources import (
    Source,
    is_dask,
    lies_elsewhere,
    size_in_bytes,
    source_of,
    whole,
)
from fbed.larger_than_memory.time_order import in_order_of_time
from fbed.larger_than_memory.workers import Crew, Here, Tally, together
from fbed.matrix.design import Design
from fbed.memory import available_memory, used_memory
from fbed.models.base import Model
from fbed.models.engines.tall.course import order_of_risk
from fbed.result.exact_numbers import Closer
from fbed.rules.criteria import Criterion, Rule
from fbed.rules.p_values import Floats
from fbed.search.checkpoint import Asked
from fbed.search.search import Plan, Trail
from fbed.tables.columns import hint, listing
from fbed.tables.extras import read_extras
from fbed.tables.missing import told_dropped
from fbed.tables.outcomes import Outcome, known_rows, read_outcome
from fbed.tables.rare import few_rows, with_rare_levels_joined
from fbed.tables.readers import opened
from fbed.tables.table import Name, Table, arranged, checked_names, outline, refuse_infinite
from fbed.tables.weights import read_weights
from fbed.threads import thread_count


@dataclass(frozen=True)
class FarProblem(Problem):
    """Data whose table is elsewhere; the outcome and what else belongs to the rows is here."""

    outline: Outline | None = None
    where: Elsewhere | None = None
    stamps: tuple[Stamp, ...] = ()

    @cached_property
    def design(self) -> Design:
        """Descriptions of the columns, without their values."""
        assert self.outline is not None
        assert self.where is not None
        return FarDesign(self.outline, self.weights, JoinedRows(self.where.crew))

    @cached_property
    def model(self) -> Model:
        """The outcome bound to its data."""
        assert self.where is not None
        request = families.Request(
            self.design, self.outcome, self.extras, self.test, self.options.cov, self.options.link
        )
        return model_elsewhere(self.kind, request, self.where)

    @property
    def tally(self) -> Tally | None:
        """Passes over the rows, and bytes of columns read for them."""
        return None if self.where is None else self.where.crew.tally

    def pairs_rows(self, criterion: Criterion) -> bool:
        """No p-value comes from pairs of rows, since they are not at hand."""
        if super().pairs_rows(criterion):
            names = listing(self.table.name(j) for j in self.sparse)
            raise InvalidInput(
                f"{names} have too many levels for χ², and p-values from pairs of rows need all rows in memory: join "
                "levels by rare_levels, leave the columns out by exclude, or say test='lr' if χ² will do"
            )
        return False

    def asked(self, plan: Plan, criterion: Criterion) -> Asked:
        """What a checkpoint belongs to: the files as they are, too."""
        asked = super().asked(plan, criterion)
        return Asked(asked.options, {"files": [astuple(stamp) for stamp in self.stamps], **asked.data})

    def closer(self, model: Model, rule: Rule, forced: tuple[int, ...], trail: Trail, seconds: float) -> Closer | None:
        """Statistics stay as the search has left them: looking closer would read the table again."""
        return None


@dataclass(frozen=True)
class Far:
    """A table that is not read into memory: its parts, who asks them, and how many bytes may be loaded at a time, and
    gathered.
    """

    source: Source
    crew: Crew
    loaded: int
    room: int
    limit: int = 0  # bytes that this process may take in all
    own_client: Any = None  # that was made for this table alone

    def close(self) -> None:
        """Let go of the cluster."""
        if self.own_client is not None:
            self.own_client.close()


_ROW = 96  # bytes that every row takes whatever is read: outcome, weights, state
_AT_RISK = 90  # bytes that a row takes beside its outcome in a proportional hazards model
_MOST_TIES = 100.0  # events a row that weights may make of them
_LEAST = 2**25  # bytes with which something can be read


def in_memory(X: Any, what: str) -> Any:
    """The table for what needs all rows at hand; an error where they are too many, or on the workers of a cluster."""
    found = far_or_near(X, None, None, None)
    if isinstance(found, Far):
        raise InvalidInput(f"{what} needs the rows in memory, where these do not fit: give a sample of the rows")
    return found


def far_or_near(X: Any, memory_limit: Any, client: Any, n_jobs: int | None) -> Far | Any:
    """The table as it is to be read: part by part, or where it fits, and nobody asked for anything else, in memory."""
    limit = None if memory_limit is None else size_in_bytes(memory_limit)
    if not lies_elsewhere(X):
        if limit is not None or client is not None:
            what = "client" if limit is None else "memory_limit"
            raise InvalidInput(
                f"{what} is for tables that are read part by part, but X is {_kind(X)}: give names of Parquet "
                "files, an Arrow dataset, a polars LazyFrame, a numpy.memmap or a Dask collection, or leave it out"
            )
        return opened(X)
    source = source_of(X)
    if source.n_rows == 0:
        raise InvalidInput("X has 0 rows, i.e. n_samples=0; selection needs at least 3")
    if client is None and is_dask(X) and limit is None:
        client = current_client()
    if client is not None:
        share = (available_memory() if limit is None else limit) // 4
        found = connected(client)
        return Far(source, OnDask(found, source.parts), share, share, 0, found if isinstance(client, str) else None)
    if limit is None:
        limit = available_memory() // 2
        if source.n_bytes < limit // 2:
            return whole(X)
    free = _left(limit, _ROW, source.n_rows)
    threads = max(2, thread_count(n_jobs))  # one reads while another computes
    loaded = free // (8 * threads)  # reading and computing take as much again
    return Far(source, Here(source.parts, threads, free // 4, loaded), loaded, free // 3, limit)


def _left(limit: int, a_row: int, n_rows: int) -> int:
    """Bytes that are left for columns when every row takes so many more."""
    free = limit - used_memory() - a_row * n_rows
    if free < _LEAST:
        needed = limit - free + _LEAST
        raise InvalidInput(
            f"memory_limit={limit:,} bytes is too small for {n_rows:,} rows: Python and what belongs to every row take "
            f"{needed:,} bytes before the first column is read; allow twice that"
        )
    return free


def _kind(X: Any) -> str:
    return f"the file {X}, which is read whole" if isinstance(X, (str, Path)) else f"a {type(X).__name__} in memory"


def read_problem_elsewhere(
    far: Far,
    y: Any,
    criteria: Sequence[Criterion],
    exclude: Sequence[Name] = (),
    options: DataOptions = DataOptions(),  # noqa: B008  (frozen)
    n_jobs: int | None = None,
) -> FarProblem:
    """As `read_problem`; a pass over all columns finds their types, levels and moments."""
    source, crew = far.source, far.crew
    options.check()
    y, sample_weight, extras, named = _vectors(source, crew, y, options.sample_weight, options.extras)
    table, wanted = _table(source, named, exclude, options)
    weights, notes = read_weights(sample_weight, table.n_rows)
    reading = _Reading(source.parts, crew, wanted, far.loaded)
    present = weights > 0
    keep = present
    if options.missing == "drop":
        keep, told = reading.complete_rows(table, present, known_rows(y, table.n_rows))
        notes += told
    outcome = read_outcome(y, table.n_rows, keep)
    del y, sample_weight
    row_extras = read_extras(None, table.n_rows, extras)
    kind, told = find_family(outcome, criteria, options)
    test = kind.test_for(options.test, options.cov)
    refuse_others(kind, test, options.cov, options.engine, row_extras.entry is not None)
    weights = weights[keep]
    if not keep.all():
        row_extras = row_extras.rows(np.flatnonzero(keep))
    if kind.name == "cox":
        _check_order_of_time(crew, outcome, weights)
    found, keeps = reading.digest(weights, keep)
    about, notes_on_missing = described(table, wanted, found, float(weights.sum()), options.missing)
    notes += notes_on_missing
    if options.rare_levels is not None:
        joined, notes_on_levels = with_rare_levels_joined(about.table, weights, options.rare_levels)
        about = with_codes(replace(about, table=joined), wanted, found)
        notes += notes_on_levels
    notes += few_rows(about.table, weights)
    where = Elsewhere(crew, reading.lengths(keeps), keeps, far.room)
    if kind.name == "cox":
        assert outcome.event is not None
        order = order_of_risk(outcome.values, outcome.event, row_extras.strata)
        outcome, weights, row_extras = outcome.rows(order), weights[order], row_extras.rows(order)
        where = _in_order_of_time(far, about, found, order, where, n_jobs)
    return FarProblem(
        about.table,
        outcome,
        weights,
        row_extras,
        kind,
        options.without_rows(),
        n_jobs,
        (*notes, *told),
        int((present & ~keep).sum()),
        outline=about,
        where=where,
        stamps=source.stamps,
    )


def _check_order_of_time(crew: Crew, outcome: Outcome, weights: Floats) -> None:
    """Refuse survival times of rows that cannot be put in order, or that stand for too many."""
    _, event = outcome.survival("cox", zero_allowed=True)
    if not isinstance(crew, Here):
        raise InvalidInput(
            "a Cox model needs its rows in order of time, which workers of a cluster do not have: leave out client and "
            "give memory_limit, and this machine writes them in that order to its own disk; or select on a sample"
        )
    if many_ties(weights, event, _MOST_TIES):
        raise InvalidInput(
            f"the weights make {weights[event].sum():,.0f} events of {int(event.sum()):,} rows with one, which a Cox "
            "model goes through one by one unless all rows are in memory: read the table into memory if it fits, or "
            "select on a sample of the rows"
        )


def _in_order_of_time(
    far: Far, about: Outline, found: Digest, order: Order, where: Elsewhere, n_jobs: int | None
) -> Elsewhere:
    """The rows that are kept, written in that order."""
    free, threads = _left(far.limit, _AT_RISK, len(order)), max(2, thread_count(n_jobs))
    crew = in_order_of_time(where.crew, about, found, order, where.keeps, where.lengths, threads, free)
    return Elsewhere(crew, [part.n_rows for part in crew.parts], [None] * len(crew.parts), free // 3)


@dataclass(frozen=True)
class _Reading:
    """Passes over all columns, before anything is known of them."""

    parts: Sequence[Part]
    crew: Crew
    wanted: dict[int, Wanted]
    loaded: int

    @property
    def _together(self) -> int:
        return together(max((part.n_rows for part in self.parts), default=1), self.loaded)

    def cut(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Values of all rows, by part."""
        return np.split(values, np.cumsum([part.n_rows for part in self.parts])[:-1])

    def lengths(self, keeps: Sequence[NDArray[np.bool_] | None]) -> list[int]:
        """How many rows of every part are kept."""
        parts = zip(self.parts, keeps, strict=True)
        return [part.n_rows if mask is None else int(mask.sum()) for part, mask in parts]

    def complete_rows(
        self, table: Table, present: NDArray[np.bool_], outcome_known: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], list[str]]:
        """Rows, of those present, in which everything is known; and a note on the rest."""
        shared = (self.wanted, self._together)
        found = self.crew.each(complete, shared, [(part,) for part in self.cut(present)])
        infinite, counts = _added([f[2] for f in found]), _added([f[1] for f in found])
        if infinite:
            refuse_infinite(table, infinite)
        keep = present & outcome_known & np.concatenate([f[0] for f in found])
        counts = {j: counts[j] for j in sorted(counts)}
        return keep, told_dropped(table, counts, present, keep, outcome_known)

    def digest(self, weights: Floats, keep: NDArray[np.bool_]) -> tuple[Digest, list[NDArray[np.bool_] | None]]:
        """Moments and different values of all columns, and which rows of every part are kept."""
        keeps = [None if mask.all() else mask for mask in self.cut(keep)]
        by_part = np.split(weights, np.cumsum(self.lengths(keeps))[:-1])
        own = [(None if (w == 1.0).all() else w, mask) for w, mask in zip(by_part, keeps, strict=True)]
        found = self.crew.joined(digest, (self.wanted, self._together), own, Digest.joined)
        self.crew.tally.bytes_read += found.n_bytes
        return found, keeps


def _added(counts: Iterable[dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for part in counts:
        for j, count in part.items():
            total[j] = total.get(j, 0) + count
    return total


def _table(
    source: Source,
    named: Iterable[str],
    exclude: Sequence[Name],
    options: DataOptions,
) -> tuple[Table, dict[int, Wanted]]:
    """The table without values, and the columns of the source that are looked at."""
    if source.names is None:
        names, columns = checked_names(options.feature_names), list(range(source.n_columns))
    elif options.feature_names is not None:
        raise InvalidInput("feature_names is for arrays; this table has column names of its own: leave it out")
    else:
        columns = [name for name in source.names if name not in set(named)]  # type: ignore[misc]
        names = tuple(map(str, columns))
    table = arranged(outline((source.n_rows, len(columns)), names), options.groups, exclude)
    coded = set(table.find_columns(options.categorical, "categorical"))
    wanted = {
        j: Wanted(column, str(table.column_name(j)), j in coded)
        for j, column in enumerate(columns)
        if j not in table.excluded
    }
    return table, wanted


def _vectors(
    source: Source, crew: Crew, y: Any, sample_weight: Any, extras: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any], list[str]]:
    """The outcome, weights and extras with names replaced by columns, and the names."""
    parts = pair(y)
    given = {**{f"y[{i}]": part for i, part in enumerate(parts)}, "sample_weight": sample_weight, **extras}
    named = {role: name for role, name in given.items() if isinstance(name, str)}
    for role, name in named.items():
        if source.names is None:
            raise InvalidInput(f"{role}={name!r} names a column, but X has no column names: pass the values")
        if name not in source.names:
            raise InvalidInput(f"{role.split('[')[0]}={name!r} is not a column of X: {hint(name, source.names)}")
    names = list(dict.fromkeys(named.values()))
    found = dict(zip(names, _columns(crew, names, len(source.parts)), strict=True)) if names else {}

    def values(role: str) -> Any:
        value = found[named[role]] if role in named else given[role]
        return value.compute() if is_dask(value) else value

    outcome = tuple(values(f"y[{i}]") for i in range(len(parts)))
    rest = {role: values(role) for role in extras}
    return outcome if len(outcome) == 2 else outcome[0], values("sample_weight"), rest, names


def native_columns(part: Part, names: Sequence[str]) -> list[Any]:
    """Columns of a part as whoever stores them has them."""
    return [column if isinstance(column, np.ndarray) else column.to_native() for column in part.columns(names)]


def _columns(crew: Crew, names: Sequence[str], n_parts: int) -> list[Any]:
    """Whole columns."""
    parts = crew.each(native_columns, (names,), [()] * n_parts)
    return [_joined([part[i] for part in parts]) for i in range(len(names))]


def _joined(columns: list[Any]) -> Any:
    first = columns[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(columns)
    module = type(first).__module__.split(".")[0]
    if module == "pandas":
        import pandas

        return pandas.concat(columns, ignore_index=True)
    if module == "polars":
        import polars

        return polars.concat(columns)
    import pyarrow

    return pyarrow.chunked_array([chunk for column in columns for chunk in column.chunks], type=first.type)
