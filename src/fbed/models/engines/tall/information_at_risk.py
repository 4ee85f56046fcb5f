"""The information of a proportional hazards model of which some columns are categories, by counting.

What the information has in the rows for a column x of numbers is a vector g with zᵀg the information of any column z
with x: w·x less what the tied sets take, and that is a sum down the rows and one up (`information_rows`). Summed by the
codes, g tells the information of x with every level. That of pairs of levels is a sum down the rows as well
(`level_information`). So no column of a category is ever written out, unless hazards are too far apart for the latter.
Columns may be shifted at will, since the baseline hazard makes up for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fbed._kernels import information_rows, level_information, sums_by_level
from fbed.clock import check_time
from fbed.matrix.counted_columns import Category, CountedColumns
from fbed.matrix.scattered_columns import ScatteredColumns
from fbed.models.base import Indices
from fbed.models.engines.tall.answers import Looked
from fbed.models.engines.tall.course import Course, RiskState
from fbed.rules.p_values import Floats

_VALUES = 2**23  # float64 values of columns that are looked at together
_FEWEST, _MOST = 8, 64  # columns that are


def information_by_entries(columns: ScatteredColumns, course: Course, rows: RiskState) -> Floats | None:
    """That of columns that are mostly 0 with each other; None where hazards are too far apart for it.

    Their constant is left out.
    """
    check_time()
    state = course.event, course.closes, course.starts, rows.hazard, rows.triangle
    taken = columns.columns.taken_at_risk(*state)
    if taken is None:
        return None
    lower = np.tril(columns.columns.gram(rows.expected))[1:, 1:]
    return np.asarray(lower + np.tril(lower, -1).T - taken)


class InformationAtRisk:
    """What the rows in a given state say of the columns of S and of others."""

    def __init__(self, columns: CountedColumns, course: Course, rows: RiskState) -> None:
        self.columns, self.course, self.rows = columns, course, rows
        self.blocks, self.design = columns.blocks, columns.design

    def score(self) -> Floats:
        """Zᵀr."""
        return self.columns.along(self.rows.residual)

    def within(self) -> Floats:
        """The information of the columns with each other."""
        columns = self.columns
        raw = np.zeros((columns.ends[-1], columns.ends[-1]))
        for first, G in self._numbers_in_rows():
            raw[:, first : first + G.shape[1]] = columns.raw_along(G)
        raw[: columns.first, columns.first :] = raw[columns.first :, : columns.first].T
        for i, (one, place) in enumerate(columns.levels):
            for other, beside in columns.levels[: i + 1]:
                raw[place, beside] = self._of_levels(one, other)
                raw[beside, place] = raw[place, beside].T
        found = columns.scaled(raw)
        return np.asarray((found + found.T) / 2.0)

    def with_numbers(self, candidates: Indices) -> Looked:
        """Scores of candidates that are single columns of numbers, their information with Z and with themselves."""
        score, cross, own = [], [], []
        for X in self._read(candidates):
            G = self._in_rows(X)
            score.append(X.T @ self.rows.residual)
            cross.append(self.columns.along_columns(G))
            own.append(np.einsum("ij,ij->j", X, G))
        return Looked(np.concatenate(score), np.hstack(cross), np.concatenate(own))

    def with_categories(self, variables: Sequence[int]) -> list[Looked]:
        """The same of categories, as plain levels after the first."""
        found = [self._beside_levels(self._category(v)) for v in variables]
        for first, G in self._numbers_in_rows():
            once, some = np.ones(len(G)), slice(first, first + G.shape[1])
            for v, raw in zip(variables, found, strict=True):
                raw[some] = sums_by_level(*self._category(v), once, G).T
        columns = self.columns
        return [
            Looked(
                np.asarray(np.bincount(self._category(v)[0], self.rows.residual, raw.shape[1])[1:], dtype=np.float64),
                raw[columns.place, 1:] / columns.scale[:, None],
                self._of_levels(self._category(v), self._category(v))[1:, 1:],
            )
            for v, raw in zip(variables, found, strict=True)
        ]

    def with_columns(self, X: Floats) -> Looked:
        """The same of any columns, of all rows."""
        parts = [X[:, first : first + _MOST] for first in range(0, X.shape[1], _MOST)]
        G = np.hstack([self._in_rows(np.asfortranarray(part)) for part in parts])
        own = X.T @ G
        return Looked(X.T @ self.rows.residual, self.columns.along_columns(G), (own + own.T) / 2.0)

    def _category(self, variable: int) -> Category:
        codes = self.design.codes(variable)
        if codes is None:
            raise TypeError("a category is expected")
        return np.ascontiguousarray(codes[0]), codes[1]

    def _beside_levels(self, category: Category) -> Floats:
        """The information of S with all levels, but for the rows of numbers, which are left 0."""
        raw = np.zeros((self.columns.ends[-1], category[1]))
        for other, place in self.columns.levels:
            raw[place] = self._of_levels(other, category)
        return raw

    def _of_levels(self, one: Category, other: Category) -> Floats:
        """The information of pairs of levels."""
        check_time()
        course, rows = self.course, self.rows
        state = rows.hazard, rows.expected, rows.triangle
        found = level_information(course.event, course.closes, course.starts, *state, *one, *other)
        if found is not None:
            return found
        codes, levels = one
        once, out = np.ones(len(codes)), np.empty((levels, other[1]))
        for first in range(0, other[1], _FEWEST):
            some = np.arange(first, min(first + _FEWEST, other[1]))
            X = np.asfortranarray((other[0][:, None] == some).astype(np.float64))
            out[:, some] = sums_by_level(codes, levels, once, self._in_rows(X))
        return out

    def _in_rows(self, X: Floats) -> Floats:
        course, rows = self.course, self.rows
        check_time()
        return information_rows(
            course.event, course.closes, course.starts, rows.hazard, rows.expected, rows.triangle, X
        )

    def _numbers_in_rows(self) -> Iterator[tuple[int, Floats]]:
        """What the information has in the rows for numbers of S, some at a time, and the place of the first in R."""
        everything, first = slice(0, self.design.n_rows), 1
        for variables in self._runs():
            yield first, self._in_rows(self.blocks.model(variables, constant=False)(everything))
            first += self.blocks.width(variables)

    def _runs(self) -> Iterator[list[int]]:
        """Variables of numbers in S, some at a time."""
        run: list[int] = []
        for variable in self.columns.numbers:
            if run and self.blocks.width([*run, variable]) > self._at_once:
                yield run
                run = []
            run.append(variable)
        if run:
            yield run

    @property
    def _at_once(self) -> int:
        return int(np.clip(_VALUES // self.design.n_rows, _FEWEST, _MOST))

    def _read(self, variables: Indices) -> Iterator[Floats]:
        """Single columns of numbers, some at a time, standardised."""
        where, everything = self.design.positions(variables), slice(0, self.design.n_rows)
        for first in range(0, len(where), self._at_once):
            yield self.blocks.gather(where[first : first + self._at_once], everything)
