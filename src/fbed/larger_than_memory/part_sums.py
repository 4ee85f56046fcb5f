"""The verbs of generalised linear models and of the linear one on some rows: those of the engines in memory, on a
design that has these rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbed.larger_than_memory.part_columns import Piece
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.tall.answers import Looked
from fbed.models.engines.tall.linear import LinearSums
from fbed.models.engines.tall.row_sums import Rows, RowSums
from fbed.rules.p_values import Floats


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


class SumsPiece(Piece):
    """Some rows whose outcome is that of a generalised linear model, or of a linear one."""

    def _forget(self) -> None:
        super()._forget()
        self._known: tuple[tuple[int, ...], bytes, Rows] | None = None

    def _engine(self, blocks: RowBlocks) -> LinearSums | RowSums:
        outcome = self.outcome
        if outcome.counts is None:
            return LinearSums(blocks, outcome.y)
        prior = self.weights if outcome.prior is None else outcome.prior
        return RowSums(blocks, outcome.y, prior, outcome.offset, outcome.counts, whole=False)

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
