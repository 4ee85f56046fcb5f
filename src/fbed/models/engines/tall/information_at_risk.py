"""The information of a proportional hazards model of which some columns are categories, by counting.

What the information has in the rows for a column x is a vector g with zᵀg the information of any column z with x: w·x
less what the tied sets take, and that is a sum down the rows and one up (`information_rows`). So no column is ever
multiplied by another: a category costs one addition a row for every column beside it, however many levels it has.
Columns may be shifted at will, since the baseline hazard makes up for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fbed._kernels import information_rows
from fbed.clock import check_time
from fbed.matrix.counted_columns import CountedColumns
from fbed.models.base import Indices
from fbed.models.engines.tall.answers import Looked
from fbed.models.engines.tall.course import Course, RiskState
from fbed.rules.p_values import Floats

_VALUES = 2**23  # float64 values of columns that are looked at together
_FEWEST, _MOST = 8, 64  # columns that are


class InformationAtRisk:
    """What the rows in a given state say of some columns."""

    def __init__(self, columns: CountedColumns, course: Course, rows: RiskState) -> None:
        self.columns, self.course, self.rows = columns, course, rows
        self.blocks, self.design = columns.blocks, columns.design

    def score(self) -> Floats:
        """Zᵀr."""
        return self.columns.along(self.rows.residual)

    def within(self, variables: Sequence[int]) -> Floats:
        """The information of the columns, which are those of `variables`, with each other."""
        parts = [self.columns.along_columns(self._in_rows(X)) for v in self._runs(variables) for X in self._read(v)]
        found = np.hstack(parts)
        return np.asarray((found + found.T) / 2.0)

    def with_numbers(self, candidates: Indices) -> Looked:
        """Scores of candidates that are single columns of numbers, their information with Z and with themselves."""
        score, cross, own = [], [], []
        for X in self._read(candidates.tolist()):
            G = self._in_rows(X)
            score.append(X.T @ self.rows.residual)
            cross.append(self.columns.along_columns(G))
            own.append(np.einsum("ij,ij->j", X, G))
        return Looked(np.concatenate(score), np.hstack(cross), np.concatenate(own))

    def with_group(self, selected: Sequence[int], variable: int) -> Looked:
        """The same for the last variable of the columns, after those of S; a category's are levels as they are."""
        size, score = self.blocks.width(selected), self.score()
        both = np.hstack([self.columns.along_columns(self._in_rows(X)) for X in self._read([variable])])
        scale = np.ones(len(score) - size) if self.blocks.codes(variable) is None else self.design.moments(variable)[1]
        own = both[size:] * scale[:, None] * scale
        return Looked(score[size:] * scale, both[:size] * scale, (own + own.T) / 2.0)

    def _in_rows(self, X: Floats) -> Floats:
        course, rows = self.course, self.rows
        check_time()
        return information_rows(
            course.event, course.closes, course.starts, rows.hazard, rows.expected, rows.triangle, X
        )

    def _runs(self, variables: Sequence[int]) -> Iterator[list[int]]:
        """Variables that follow each other, those that are single columns of numbers together."""
        run: list[int] = []
        for variable in variables:
            if self.design.varying[variable]:
                run.append(variable)
                continue
            if run:
                yield run
            run = []
            yield [variable]
        if run:
            yield run

    def _read(self, variables: Sequence[int]) -> Iterator[Floats]:
        """Columns of single columns of numbers or of one variable, some at a time, standardised but for a shift."""
        everything, most = slice(0, self.design.n_rows), int(np.clip(_VALUES // self.design.n_rows, _FEWEST, _MOST))
        if self.design.varying[variables].all():
            where = self.design.positions(variables)
            for first in range(0, len(where), most):
                yield self.blocks.gather(where[first : first + most], everything)
            return
        (variable,) = variables
        codes = self.blocks.codes(variable)
        if codes is None:
            yield np.asfortranarray(self.blocks.variable(variable, everything))
            return
        scale = self.blocks.center_scale(variable)[1]
        for first in range(0, len(scale), most):
            some = np.arange(first, min(first + most, len(scale)))
            yield np.asfortranarray((codes == some[:, None] + 1).T / scale[some])
