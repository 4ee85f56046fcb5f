"""The columns of a design whose matrix is on a device: those of the model are kept there, the others read as asked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fbed.matrix.array_library import Array, on_host
from fbed.matrix.design import Design
from fbed.matrix.device_columns import ROUGH, DeviceColumns, Quick
from fbed.matrix.mixed_storage_columns import Places
from fbed.matrix.row_blocks import Indices, RowBlocks
from fbed.rules.p_values import Floats

_NEARLY = 0.75  # part of the columns from which it is as well to read all
_MODELS = 3  # of which the columns are kept side by side: one, and those that are tried beside it


@dataclass(frozen=True)
class Exact:
    """XᵀV, and Σ v·x² of the second vector, in float64."""

    along: Array
    own: Array


class DeviceBlocks(RowBlocks):
    """Products and columns on a device; what is asked of the rows themselves comes to memory."""

    def __init__(self, design: Design) -> None:
        super().__init__(design)
        self.kernel: DeviceColumns = design.matrix.stored
        self.place = self.kernel.place
        edge = design.matrix.n_stored
        self._center, self._scale = design.center[:edge], design.scale[:edge]
        self._models: OrderedDict[tuple[int, ...], Array] = OrderedDict()
        self._norm = self._norms(edge)

    def _norms(self, edge: int) -> Floats:
        """What bounds the length of each column: as it is where it holds numbers, standardised where it is packed."""
        design, root = self.design, np.sqrt(self.design.n_rows)
        low, high = design.low[:edge], design.high[:edge]
        if hasattr(self.kernel, "bytes"):
            if design.unit_weights:
                return np.full(edge, root * (1.0 + 1e-9))
            reach = np.maximum(self._center - low, high - self._center)
            return root * reach / np.where(self._scale > 0, self._scale, 1.0) * (1.0 + 1e-9)
        if design.unit_weights:
            return root * np.hypot(self._center, self._scale) * (1.0 + ROUGH)
        return root * np.maximum(np.abs(low), np.abs(high))

    def columns(self, selected: Sequence[int]) -> Array:
        """A constant and the columns of S, n × k, on the device."""
        key = tuple(int(v) for v in selected)
        if key not in self._models:
            self._models[key] = self._joined(key)
            if len(self._models) > _MODELS:
                self._models.popitem(last=False)
        self._models.move_to_end(key)
        return self._models[key]

    def _joined(self, selected: tuple[int, ...]) -> Array:
        """Beside those of a model that has nearly the same."""
        xp = self.place.xp
        for known, columns in reversed(self._models.items()):
            if known == selected[: len(known)]:
                self._models.move_to_end(known)
                new = [self._variable(v) for v in selected[len(known) :]]
                return xp.concatenate([columns, *new], 1) if new else columns
        ones = self.place.put(np.ones((self.design.n_rows, 1)))
        return xp.concatenate([ones, *(self._variable(v) for v in selected)], 1)

    def _variable(self, variable: int) -> Array:
        """All design columns of a variable on the device."""
        where = self.design.positions([variable])
        if self.design.varying[variable] and where[0] < self.design.matrix.n_stored:
            return self.kernel.standard(where, self._center, self._scale).T
        return self.place.put(np.ascontiguousarray(self.variable(variable, slice(0, self.design.n_rows))))

    def levels(self, variable: int) -> Array:
        """Columns of a variable of several; of a category, its levels but the first as they are."""
        codes = self.codes(variable)
        if codes is None:
            return self._variable(variable)
        levels = np.arange(1, int(self.design.width[variable]) + 1)
        return self.place.put((codes[:, None] == levels).astype(np.float64))

    def steps_of(self, variables: Indices, own: Sequence[Floats]) -> Array:
        """x·own of some variables, a column each, n × count."""
        stored = self._is_stored(variables)
        if stored.all():
            where = self.design.positions(variables)
            X = self.kernel.standard(where, self._center, self._scale)
            return (X * self.place.put(np.array([step[0] for step in own]))[:, None]).T
        read = [self._step_of(int(v), step) for v, step in zip(variables, own, strict=True)]
        return self.place.xp.stack(read, 1)

    def _step_of(self, variable: int, own: Floats) -> Array:
        single = bool(self.design.varying[variable])
        return (self._variable(variable) if single else self.levels(variable)) @ self.place.put(np.asarray(own))

    def _is_stored(self, variables: Indices) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        inside = self.design.positions(variables) < self.design.matrix.n_stored
        return np.asarray(self.design.varying[variables] & inside)

    def quick(self, variables: Indices, V: Array, own: bool = True) -> Quick:
        """Products with bounds on what they are wrong by; columns in memory are multiplied exactly."""
        inside = self._is_stored(variables)
        if inside.all():
            return self._quick(self.design.positions(variables), V, own)
        found, rest = self.quick(variables[inside], V, own), self.exact(variables[~inside], V)
        back = np.argsort(np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)]))
        xp, order = self.place.xp, self.place.put(back)
        nothing = np.zeros(int((~inside).sum()))
        return Quick(
            xp.concatenate([found.along, rest.along])[order],
            xp.concatenate([found.own, rest.own])[order] if own else None,
            np.concatenate([found.by_column, nothing])[back],
            found.by_vector,
            np.concatenate([found.by_own, nothing])[back],
        )

    def _quick(self, where: Places, V: Array, own: bool) -> Quick:
        """Where nearly all columns are wanted, all are read: picking them would copy them first."""
        whole = len(where) >= _NEARLY * self.kernel.p
        read = np.arange(self.kernel.p, dtype=np.int64) if whole else where
        found = self.kernel.quick(read, self._center, self._scale, self._norm[read], V, own)
        if not whole or (len(where) == self.kernel.p and bool((where == read).all())):
            return found
        at = self.place.put(where)
        picked = None if found.own is None else found.own[at]
        return Quick(found.along[at], picked, found.by_column[where], found.by_vector, found.by_own[where])

    def exact(self, variables: Indices, V: Array) -> Exact:
        """Products in float64."""
        xp, inside = self.place.xp, self._is_stored(variables)
        second = V.shape[1] > 1
        if inside.all():
            where = self.design.positions(variables)
            return Exact(*self.kernel.exact(where, self._center, self._scale, V, second))
        along = self.place.empty((len(variables), int(V.shape[1])))
        own = self.place.empty((len(variables),))
        if inside.any():
            found = self.exact(variables[inside], V)
            place = self.place.put(np.flatnonzero(inside))
            along[place] = found.along
            own[place] = found.own if second else 0.0
        for i in np.flatnonzero(~inside).tolist():
            x = self._variable(int(variables[i]))[:, 0]
            along[i] = x @ V
            own[i] = (x * x) @ V[:, 1] if second else xp.zeros_like(own[i])
        return Exact(along, own)

    def products(self, variables: Indices, vectors: Callable[[slice], Floats], width: int) -> tuple[Floats, Floats]:
        """XᵀV of variables that are single columns, and Σ v·x² of the second vector, in float64."""
        V = self.place.put(np.ascontiguousarray(vectors(slice(0, self.design.n_rows))))
        found = self.exact(variables, V)
        own = on_host(found.own, self.place) if width > 1 else np.zeros(len(variables))
        return on_host(found.along, self.place), own

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> tuple[Floats, Floats, Floats]:
        """ZᵀZ, Zᵀr and rᵀr of what a column is beside its part along S; see `steps.remainder`."""
        Z, weights = self.columns(selected), self.place.put(self.design.weights)
        left = self._variable(variable)[:, 0] - Z @ self.place.put(gamma)
        found = (Z.T @ (Z * weights[:, None]), Z.T @ (weights * left), (weights * left * left).sum()[None])
        gram, cross, norm = (on_host(v, self.place) for v in found)
        return gram, cross, norm
