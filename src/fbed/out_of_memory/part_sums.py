"""A part of the rows that answers: it reads the columns that a question needs and sums over its rows, as if there were
no others. The sums are those of the engines in memory, on a design that has these rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.row_sums import Looked, Rows, RowSums
from fbed.models.engines.tall_linear import LinearSums
from fbed.out_of_memory.designs import Columns, PartDesign, Spread
from fbed.out_of_memory.digest import batches, read
from fbed.out_of_memory.outline import Outline
from fbed.out_of_memory.part_readers import Part
from fbed.rules.tails import Floats

FEW_VALUES = 20
"""Different whole numbers up to which they may be codes, and are told."""

_WIDEST = 10_000  # range of such numbers
_LOADED = 2**26  # bytes of columns that a question loads at a time


@dataclass(frozen=True)
class Outcome:
    """What belongs to the rows of a part.

    `y` is the outcome of a generalised linear model with its prior weights and offset (`counts` for a Poisson model);
    of a linear one, where `counts` is None, it is centred and multiplied by the weights. Rows outside `keep` are left
    out; everything else has values for those inside only. `weights` are frequencies, None where all are 1.
    """

    n_rows: int
    y: Floats
    weights: Floats | None = None
    prior: Floats | None = None
    offset: Floats | None = None
    counts: bool | None = None
    keep: NDArray[np.bool_] | None = None


class Piece:
    """Some rows, with the columns of the model and, where there is room, of candidates kept from question to question.

    `room` is the number of bytes that it may keep.
    """

    def __init__(self, part: Part, outline: Outline, outcome: Outcome, room: int, loaded: int = _LOADED) -> None:
        self.part, self.outline, self.outcome, self.room, self.loaded = part, outline, outcome, room, loaded
        self._forget()

    def _forget(self) -> None:
        self._kept: dict[int, tuple[NDArray[Any], ...]] = {}  # by column, the ones used last at the end
        self._known: tuple[tuple[int, ...], bytes, Rows] | None = None
        self._sums: Any = None
        self._bytes = 0

    def __getstate__(self) -> tuple[Any, ...]:
        return self.part, self.outline, self.outcome, self.room, self.loaded

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.part, self.outline, self.outcome, self.room, self.loaded = state
        self._forget()

    def answer(self, verb: str, arguments: Sequence[Any]) -> tuple[Any, int]:
        """What a verb finds in these rows, and how many bytes were read for it."""
        self._bytes = 0
        found = getattr(self, verb)(*arguments)
        self.design.put({})  # a piece that waits for its next question keeps what it has room for, and nothing else
        return found, self._bytes

    # --- columns ----------------------------------------------------------------------------------------------------

    @property
    def sums(self) -> Any:
        """The verbs of an engine in memory, on these rows."""
        if self._sums is None:
            outcome = self.outcome
            ones = np.ones(outcome.n_rows)
            self.weights = ones if outcome.weights is None else outcome.weights
            self.design = PartDesign(self.outline, self.weights)
            blocks = RowBlocks(self.design)
            prior = self.weights if outcome.prior is None else outcome.prior
            if outcome.counts is None:
                self._sums = LinearSums(blocks, outcome.y)
            else:
                self._sums = RowSums(blocks, outcome.y, prior, outcome.offset, outcome.counts)
        return self._sums

    def _put(self, model: Iterable[int], others: Iterable[int] = ()) -> None:
        """Have the columns of the model and of other variables; what there is room for is kept, the model's first."""
        _ = self.sums
        first, rest = self.outline.columns_of(model), self.outline.columns_of(others)
        wanted = list(dict.fromkeys([*first, *rest]))
        self.design.put({})  # the columns before make room
        found = self._read(wanted)
        self.design.put(found)
        self._keep({j: found[j] for j in wanted}, first)

    def _read(self, wanted: Sequence[int]) -> Columns:
        unknown = [j for j in wanted if j not in self._kept]
        new: dict[int, tuple[NDArray[Any], ...]] = {}
        if unknown:
            readings = [self.outline.readings[j] for j in unknown]
            raw = read(self.part, [reading.wanted for reading in readings], self.outcome.keep)
            for j, reading, column in zip(unknown, readings, raw, strict=True):
                if j in self.outline.table.indicators:
                    new[j] = reading(column), reading.is_missing(column).astype(np.int8)
                else:
                    new[j] = (reading(column),)
            self._bytes += _size(new.values())
        return {j: self._kept.get(j) or new[j] for j in wanted}

    def _keep(self, found: dict[int, tuple[NDArray[Any], ...]], first: Sequence[int]) -> None:
        """Keep what fits: all of it, or the columns of the model; what was used longest ago makes room."""
        if _size(found.values()) > self.room:
            found = {j: found[j] for j in first}
        if _size(found.values()) > self.room:
            return
        for j in found:
            self._kept.pop(j, None)
        older, room = list(self._kept.items()), self.room - _size(found.values())
        self._kept = {}
        for j, column in reversed(older):
            room -= _size([column])
            if room < 0:
                break
            self._kept[j] = column
        self._kept = {**dict(reversed(self._kept.items())), **found}

    def _together(self) -> int:
        """Columns that are loaded at a time."""
        return max(1, self.loaded // (8 * max(1, self.part.n_rows)))

    def _rows(self, selected: tuple[int, ...], coefficients: Floats) -> Rows:
        """The state of the rows at given coefficients, which they have from the last sweep as a rule."""
        if self._known is None or self._known[:2] != (selected, coefficients.tobytes()):
            self.sweep(selected, coefficients)
        assert self._known is not None
        return self._known[2]

    # --- verbs of generalised linear models ---------------------------------------------------------------------------

    def sweep(self, selected: tuple[int, ...], coefficients: Floats) -> Sums:
        """Loss, gradient and information."""
        self._put(selected)
        found = self.sums.sweep(selected, coefficients)
        self._known = selected, coefficients.tobytes(), found.rows
        return np.array([found.loss]), found.gradient, found.information

    def look(self, selected: tuple[int, ...], coefficients: Floats, candidates: Indices) -> Sums:
        """Products of single columns with the rows' residuals and the model's columns."""
        rows = self._rows(selected, coefficients)
        parts = [
            self._asked(selected, some, lambda some=some: self.sums.look(rows, selected, some))  # type: ignore[misc]
            for some in self._some(candidates)
        ]
        return (
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.cross for part in parts], axis=1),
            np.concatenate([part.own for part in parts]),
        )

    def look_at_groups(self, selected: tuple[int, ...], coefficients: Floats, variables: Indices) -> list[Sums]:
        """The same for variables of several columns."""
        rows = self._rows(selected, coefficients)
        found: list[Looked] = []
        for some in self._some(variables):
            self._put(selected, some)
            found += [self.sums.look_at_group(rows, selected, int(variable)) for variable in some]
        return [(looked.score, looked.cross, looked.own) for looked in found]

    def moments(
        self,
        selected: tuple[int, ...],
        coefficients: Floats,
        variables: Indices,
        own: Sequence[Floats],
        along: Floats,
    ) -> Floats:
        """Moments and extremes of the steps of some variables."""
        rows = self._rows(selected, coefficients)
        found, first = [], 0
        for some in self._some(variables):
            these = slice(first, first + len(some))
            step = own[these], along[:, these]
            ask = lambda some=some, step=step: self.sums.moments(rows, selected, some, *step)  # noqa: E731
            found.append(self._asked(selected, some, ask))
            first += len(some)
        return np.concatenate(found, axis=1)

    def remainder(self, selected: tuple[int, ...], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        found: Sums = self._asked(selected, [variable], lambda: self.sums.remainder(selected, variable, gamma))
        return found

    def pearson(self, selected: tuple[int, ...], coefficients: Floats) -> Sums:
        """Pearson's χ²: squared residuals over variances, both weighted."""
        rows = self._rows(selected, coefficients)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.asarray(rows.residual @ (rows.residual / rows.weight)),)

    # --- verbs of the linear model ------------------------------------------------------------------------------------

    def with_outcome(self, variables: Sequence[int]) -> Sums:
        """Products of the columns of variables with the outcome."""
        found = [
            self._asked([], some, lambda some=some: self.sums.with_outcome(some.tolist()))  # type: ignore[misc]
            for some in self._some(np.array(variables, dtype=np.intp))
        ]
        return (np.concatenate(found),)

    def between(self, some: Sequence[int], others: Sequence[int]) -> Sums:
        """Products of the columns of some variables with those of others."""
        rows = []
        for left in self._some(np.array(some, dtype=np.intp), 2):
            row = [
                self._asked(left, right, lambda left=left, right=right: self._products(left, right))  # type: ignore[misc]
                for right in self._some(np.array(others, dtype=np.intp), 2)
            ]
            rows.append(np.concatenate(row, axis=1))
        return (np.concatenate(rows),)

    def _products(self, left: Indices, right: Indices) -> Floats:
        """Over the frequencies of the rows."""
        _ = self.sums
        one = left.tolist()
        linear = LinearSums(RowBlocks(self.design), self.weights)
        return linear.between(one, one if np.array_equal(left, right) else right.tolist())

    # --- values -------------------------------------------------------------------------------------------------------

    def fetch(self, variables: Sequence[int]) -> list[tuple[NDArray[Any], ...]]:
        """Columns as they are read."""
        _ = self.sums
        wanted = list(dict.fromkeys(self.outline.columns_of(variables)))
        found = self._read(wanted)
        return [found[j] for j in wanted]

    def spread(self, variables: Sequence[int], low: Floats, high: Floats) -> list[Spread]:
        """How the values of columns of numbers are spread between their extremes."""
        found = []
        for variable, least, most in zip(variables, low.tolist(), high.tolist(), strict=True):
            self._put([], [variable])
            x = self.design.table.matrix[:, 0].astype(np.float64)
            found.append((self._weights_near(x, least, most), few_whole(x, least, most)))
        return found

    def _weights_near(self, x: Floats, low: float, high: float) -> Floats:
        near = 1e-9 * max(abs(low), abs(high))
        there = [(x >= at - near) & (x <= at + near) if low <= at <= high else x != x for at in (low, high, 0.0)]
        return np.array([float(self.weights[rows].sum()) for rows in there])

    def _some(self, variables: Indices, share: int = 1) -> list[Indices]:
        """Variables some at a time, as many as may be loaded together."""
        size = max(1, self._together() // share)
        return [np.array(some, dtype=np.intp) for some in batches(variables.tolist(), size)]

    def _asked(self, model: Iterable[int], others: Iterable[int], ask: Callable[[], Any]) -> Any:
        self._put(model, others)
        return ask()


def few_whole(x: Floats, low: float, high: float) -> tuple[float, ...] | None:
    """The different values of whole numbers, when there are few; None when there are many, or others."""
    if high - low > _WIDEST or (np.abs(x - np.round(x)) > 1e-6).any():
        return None
    present = np.unique(np.round(x))
    return tuple(present.tolist()) if len(present) <= FEW_VALUES else None


def joined_spread(one: list[Spread], other: list[Spread]) -> list[Spread]:
    """Of two parts of the rows together."""
    return [(a[0] + b[0], _joined_values(a[1], b[1])) for a, b in zip(one, other, strict=True)]


def _joined_values(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> tuple[float, ...] | None:
    if one is None or other is None:
        return None
    both = tuple(sorted({*one, *other}))
    return both if len(both) <= FEW_VALUES else None


def _size(columns: Iterable[tuple[NDArray[Any], ...]]) -> int:
    return sum(array.nbytes for column in columns for array in column)
