"""Products of columns where there are too many of these for a table of all pairs: a row for each that has entered."""

from __future__ import annotations

from threading import Lock

import numpy as np

from fbed.matrix.row_blocks import RowBlocks
from fbed.models.base import Indices
from fbed.rules.p_values import Floats


class WideProducts:
    """Products of standardised columns with each other and with the outcome, over n, found as they are asked for.

    A search asks for those of the model's columns with all candidates: the former are few.
    """

    def __init__(self, blocks: RowBlocks, y: Floats) -> None:
        self.blocks, self.y = blocks, y  # y: the weighted outcome, centred
        self.design = blocks.design
        self.first = np.concatenate([[0], np.cumsum(self.design.width)])
        self._rows: dict[int, Floats] = {}  # products of a design column with all others, NaN where unknown
        self._with_outcome = np.full(int(self.first[-1]), np.nan)
        self._finding = Lock()

    def places(self, variables: Indices) -> Indices:
        """Design columns of some variables."""
        width = self.design.width[variables]
        within = np.arange(int(width.sum())) - np.repeat(np.cumsum(width) - width, width)
        return np.asarray(np.repeat(self.first[variables], width) + within, dtype=np.intp)

    def between(self, some: Indices, others: Indices) -> Floats:
        """Products of the columns of some variables, which are few, with those of others."""
        rows, columns = self.places(some), self.places(others)
        with self._finding:
            for row in rows.tolist():
                self._ensure(row)
            unknown = [v for v in some.tolist() if self._unknown(self.places(np.array([v])), columns).any()]
            if unknown:
                missing = self._unknown(self.places(np.array(unknown, dtype=np.intp)), columns).any(axis=0)
                owners = np.repeat(others, self.design.width[others])
                self._find(np.array(unknown, dtype=np.intp), np.unique(owners[missing]))
            return np.array([self._rows[row][columns] for row in rows.tolist()]).reshape(len(rows), len(columns))

    def outcome(self, variables: Indices) -> Floats:
        """Products of the columns of some variables with the outcome."""
        columns = self.places(variables)
        with self._finding:
            unknown = np.isnan(self._with_outcome[columns])
            if unknown.any():
                wanted = np.unique(np.repeat(variables, self.design.width[variables])[unknown])
                found = self._products(wanted, self.y[:, None])
                self._with_outcome[self.places(wanted)] = found[:, 0] / self.design.n
        return self._with_outcome[columns]

    def _ensure(self, row: int) -> None:
        """A row for a column, with what others know of it."""
        if row not in self._rows:
            self._rows[row] = np.full(int(self.first[-1]), np.nan)
            for other, known in self._rows.items():
                self._rows[row][other] = known[row]

    def _unknown(self, rows: Indices, columns: Indices) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        return np.isnan(np.array([self._rows[row][columns] for row in rows.tolist()]).reshape(len(rows), len(columns)))

    def _find(self, some: Indices, others: Indices) -> None:
        """One pass over the columns of the others."""
        read = self.blocks.model(some.tolist(), constant=False)
        weights = self.design.weights[:, None]
        V = np.concatenate([weights[part] * read(part) for part in self.blocks.parts(self.blocks.width(some.tolist()))])
        found = self._products(others, V).T / self.design.n
        columns = self.places(others)
        for i, row in enumerate(self.places(some).tolist()):
            self._rows[row][columns] = found[i]
            for column in self._rows.keys() & set(columns.tolist()) if len(columns) < len(self._rows) else self._rows:
                self._rows[column][row] = self._rows[row][column]

    def _products(self, variables: Indices, V: Floats) -> Floats:
        """XᵀV of all design columns of some variables."""
        single = self.design.varying[variables]
        out = np.empty((int(self.design.width[variables].sum()), V.shape[1]))
        first = np.cumsum(self.design.width[variables]) - self.design.width[variables]
        if single.any():
            along, _ = self.blocks.products(variables[single], lambda part: V[part], V.shape[1])
            out[first[single]] = along
        for i in np.flatnonzero(~single).tolist():
            variable, width = int(variables[i]), int(self.design.width[variables[i]])
            (found,) = self.blocks.summed(
                lambda part, v=variable: (self.blocks.variable(v, part).T @ V[part],),  # type: ignore[misc]
                width + V.shape[1],
            )
            out[first[i] : first[i] + width] = found
        return out
