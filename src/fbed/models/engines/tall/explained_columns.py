"""Columns that explain all rows where they are not 0, in the limit: those without a count, or of one class.

The likelihood rises for ever as the coefficient of such a column goes to infinity, whatever the others are. So a model
with it is the model of the other columns on the other rows. Beside it a column may come to explain what is left of its
rows, which is looked for until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.matrix.row_blocks import RowBlocks
from fbed.models.engines.tall.factor import Factor, NotTall
from fbed.models.engines.tall.rows_left import RowsLeft
from fbed.rules.p_values import Floats

_FEW = 64  # rows that speak against a column, beyond which nobody waits for others to explain them
_INDEPENDENT = 1e-5  # least pivot of scaled products of columns that are not near to dependent
_KEPT = 8  # models of which it is known who is left: as many vectors of all rows


@dataclass(frozen=True)
class _Support:
    """Rows where a column is not 0; and those of them that are not explained as its coefficient falls, or rises."""

    rows: NDArray[np.int64]
    against_falling: NDArray[np.int64]
    against_rising: NDArray[np.int64]

    def is_explained_beside(self, gone: NDArray[np.bool_]) -> bool:
        """Whether the column explains its rows, apart from those that are gone."""
        return bool(gone[self.against_falling].all() or gone[self.against_rising].all())

    def falls_beside(self, gone: NDArray[np.bool_]) -> bool:
        """Whether it does so as its coefficient falls."""
        return bool(gone[self.against_falling].all())


@dataclass(frozen=True)
class FarOut:
    """Where a coefficient goes that explains rows in the limit, and a step on its way."""

    way: float
    step: float


@dataclass(frozen=True)
class _Explained:
    """What a model explains: rows that are gone, who explained them one after another, and who did not."""

    gone: NDArray[np.bool_]
    order: tuple[int, ...]
    waiting: dict[int, _Support]
    left: RowsLeft | None


class ExplainedColumns:
    """Which rows are left beside the columns of a model.

    `falls` and `rises` tell which rows are explained as their linear predictor goes to −∞ and to ∞; nobody looks where
    they are not `told`.
    """

    def __init__(
        self, blocks: RowBlocks, weights: Floats, falls: NDArray[np.bool_], rises: NDArray[np.bool_], told: bool
    ) -> None:
        self.design, self.weights, self.falls, self.rises, self.told = blocks.design, weights, falls, rises, told
        self._supports: dict[int, _Support | None] = {}
        self._known: dict[tuple[int, ...], _Explained] = {}

    def left_by(self, selected: Sequence[int]) -> RowsLeft | None:
        """Rows that are left to explain beside S, None where those are all."""
        return self._explained_by(tuple(selected)).left

    def far_out(self, selected: Sequence[int], predictor: Floats, far: float) -> tuple[dict[int, FarOut], Floats]:
        """How the columns that explain rows take these at least so far out, and the linear predictor there.

        Who explained rows first comes last: others may move them back.
        """
        out, found = predictor.copy(), {}
        for variable, falls, own in reversed(list(self._one_by_one(selected))):
            rows, values = self.design.matrix.support(int(self.design.positions([variable])[0]))
            way, side = -1.0 if falls else 1.0, np.where(self.rises[rows], 1.0, -1.0)
            short = np.where(own, (far - side * out[rows]) / np.abs(values), 0.0)
            step = way * max(0.0, float(short.max(initial=0.0)))
            out[rows] += values * step
            found[variable] = FarOut(way, step)
        return found, out

    def _one_by_one(self, selected: Sequence[int]) -> Iterator[tuple[int, bool, NDArray[np.bool_]]]:
        """Who explains rows, whether with a coefficient that falls, and which of its rows nobody explained before."""
        gone = self.weights <= 0.0
        for variable in self._explained_by(tuple(selected)).order:
            support = self._support(variable)
            assert support is not None
            yield variable, support.falls_beside(gone), ~gone[support.rows]
            gone[support.rows] = True

    def are_apart(self, selected: Sequence[int]) -> bool:
        """Whether the columns that explain rows are far from dependent: rows that are left do not tell."""
        places = self.design.positions(list(self._explained_by(tuple(selected)).order))
        supports = [self.design.matrix.support(int(place)) for place in places]
        rows, ends = [rows for rows, _ in supports], np.cumsum([0, *(len(rows) for rows, _ in supports)])
        shape, values = (self.design.n_rows, len(places)), [values for _, values in supports]
        columns = sparse.csc_array((np.concatenate(values), np.concatenate(rows), ends), shape=shape)
        products = (columns * np.sqrt(self.weights)[:, None]).tocsc()
        try:
            return bool(np.diag(Factor((products.T @ products).toarray()).lower).min() ** 2 > _INDEPENDENT)
        except NotTall:
            return False

    def _explained_by(self, key: tuple[int, ...]) -> _Explained:
        known = self._known.get(key)
        if known is None:
            known = self._found(key)
            if len(self._known) >= _KEPT:
                before = self._known.get(key[:-1])
                self._known.clear()  # threads that share it have what they asked for
                if before is not None:
                    self._known[key[:-1]] = before
            self._known[key] = known
        return known

    def hides(self, selected: Sequence[int], variable: int) -> bool:
        """Whether a column is 0 on all rows that are left beside S."""
        left, support = self.left_by(selected), self._support(variable)
        return left is not None and support is not None and not (left.weights[support.rows] > 0.0).any()

    def alone_by(self, selected: Sequence[int]) -> tuple[NDArray[np.bool_], Floats] | None:
        """Which variables of S explain rows, and weights of the rows that one of them explains alone.

        None where some do so only beside others, or have no rows left: then more changes without one of them.
        """
        left, gone = self.left_by(selected), self.weights <= 0.0
        explains, times = np.zeros(len(selected), dtype=bool), np.zeros(len(gone), dtype=np.int32)
        for i, variable in enumerate(selected):
            support = self._support(variable)
            if support is not None and support.is_explained_beside(gone):
                explains[i] = True
                times[support.rows] += 1
            elif left is not None and self.hides(selected, variable):
                return None
        return explains, np.where(times == 1, self.weights, 0.0)

    def _found(self, selected: tuple[int, ...]) -> _Explained:
        """From what is known of the model without its last variable, if it is."""
        before = self._known.get(selected[:-1]) if selected else None
        new, gone = selected, self.weights <= 0.0
        order: tuple[int, ...] = ()
        waiting: dict[int, _Support] = {}
        if before is not None:
            new, gone, order, waiting = selected[-1:], before.gone, before.order, dict(before.waiting)
        added = {v: support for v in new if (support := self._support(v)) is not None}
        waiting |= added
        some = [v for v, support in added.items() if support.is_explained_beside(gone)]
        if some:
            gone = gone.copy()
        while some:
            for variable in some:
                gone[waiting.pop(variable).rows] = True
            order = (*order, *some)
            some = [v for v, support in waiting.items() if support.is_explained_beside(gone)]
        return _Explained(gone, order, waiting, self._left(selected, gone) if order else None)

    def _left(self, selected: tuple[int, ...], gone: NDArray[np.bool_]) -> RowsLeft:
        idle, first = [], 1  # after the constant
        for variable in selected:
            support = self._support(variable)
            if support is not None and gone[support.rows].all():
                idle.append(first)
            first += int(self.design.width[variable])
        return RowsLeft(np.where(gone, 0.0, self.weights), np.array(idle, dtype=np.intp))

    def _support(self, variable: int) -> _Support | None:
        """Where a column is not 0; None for variables that explain nothing for good."""
        if variable not in self._supports:
            self._supports[variable] = self._read(variable)
        return self._supports[variable]

    def _read(self, variable: int) -> _Support | None:
        design = self.design
        if not design.varying[variable] or not self.told:
            return None
        place = int(design.positions([variable])[0])
        if not design.mostly_zero[place]:
            return None
        rows, values = design.matrix.support(place)
        up = np.where(values > 0.0, self.rises[rows], self.falls[rows])
        down = np.where(values > 0.0, self.falls[rows], self.rises[rows])
        counts = self.weights[rows] > 0.0
        support = _Support(rows, rows[counts & ~down], rows[counts & ~up])
        against = min(len(support.against_falling), len(support.against_rising))
        return support if against <= _FEW else None
