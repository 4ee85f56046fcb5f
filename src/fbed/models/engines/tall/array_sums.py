"""The verbs of generalised linear models in an array library, on the device where the columns are.

The state of the rows and the columns of the model stay there in float64; what comes back are sums. Candidates are
looked at quickly first, with bounds on what rounding may have done; those whom that leaves in doubt, and whoever may be
best, are looked at again in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from fbed.clock import check_time
from fbed.matrix.array_library import Array, on_host
from fbed.matrix.device_blocks import DeviceBlocks
from fbed.matrix.device_columns import ROUGH, Quick
from fbed.matrix.row_blocks import RowBlocks
from fbed.models.base import Indices
from fbed.models.engines.projection import Projected, first_look, left_by, left_with_room, told
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.row_sums import events_of, null_coefficients
from fbed.rules.p_values import Floats

_MANY = 256  # candidates from which a quick look pays
_ALIKE = 0.3  # least information of a row beside the largest, from which bounds of it are good enough to begin with
_STEP_VALUES = 2**27  # of steps that are computed at a time


@dataclass(frozen=True)
class DeviceRows:
    """Mean, information and residual of the rows, weighted, on the device."""

    mean: Array
    weight: Array
    residual: Array


class ArraySums:
    """Trials (logit link) or counts (log link) with prior weights and offset, on columns of a device."""

    constant = True
    stretch = 1.0

    def __init__(self, blocks: DeviceBlocks, y: Floats, weights: Floats, offset: Floats | None, counts: bool) -> None:
        self.blocks: RowBlocks = blocks
        self.here, self.design, self.counts = blocks, blocks.design, counts
        self.place, self.xp = blocks.place, blocks.place.xp
        self.n = float(weights.sum())
        self._start = null_coefficients(y, weights, offset, counts)
        self.events = events_of(y, weights, counts)
        least = special.xlogy(y, y)  # what a row loses at the mean that fits it best
        least = y - least if counts else -least - special.xlog1py(1.0 - y, -y)
        zeros = np.zeros(len(y)) if offset is None else offset
        self._same_weights = bool((weights == blocks.design.weights).all() and (weights > 0).all())
        self._flat = offset is None and self._same_weights
        self.y, self.weights, self.offset, self.least = (self.place.put(v) for v in (y, weights, zeros, least))
        self.n_looked = self.n_closer = 0  # candidates looked at quickly, and those for whom that was not enough

    @property
    def notes(self) -> tuple[str, ...]:
        """How much the first bounds decided."""
        return (f"computed on {self.place.name}, {told(self.n_looked, self.n_closer)}",)

    def start(self) -> Floats:
        """The link of the mean, less the mean offset."""
        return self._start

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Loss, Zᵀar and ZᵀawZ of a constant and the columns of S, and the state of the rows."""
        check_time()
        Z = self.here.columns(selected)
        eta = self.offset + Z @ self.place.put(np.ascontiguousarray(coefficients))
        rows, loss = self._state(eta)
        size, both = int(Z.shape[1]), self.xp.concatenate([rows.residual[:, None], Z * rows.weight[:, None]], 1)
        found = on_host(self.xp.concatenate([(Z.T @ both).reshape(-1), loss.reshape(-1)]), self.place)
        products = found[:-1].reshape(size, size + 1)
        gradient, information = np.ascontiguousarray(products[:, 0]), products[:, 1:]
        return Sweep(float(found[-1]), gradient, (information + information.T) / 2.0, rows)

    def _state(self, eta: Array) -> tuple[DeviceRows, Array]:
        xp, a, y = self.xp, self.weights, self.y
        if self.counts:
            mean = xp.exp(xp.clip(eta, -700.0, 700.0))
            loss = (a * ((mean - y * eta) - self.least)).sum()
            return DeviceRows(mean, a * mean, a * (y - mean)), loss
        e = xp.exp(-xp.abs(eta))
        one = 1.0 / (1.0 + e)
        mean = xp.where(eta < 0, e * one, one)
        loss = (a * ((xp.log1p(e) + xp.clip(eta, 0.0, None) - y * eta) - self.least)).sum()
        return DeviceRows(mean, a * (e * one * one), a * (y - mean)), loss

    def project(
        self,
        rows: DeviceRows,
        selected: Sequence[int],
        candidates: Indices,
        factor: tuple[Floats, Floats],
        gradient: Floats,
        reach: Floats,
        look: int,
    ) -> Projected:
        """What S leaves of candidates that are single columns; `factor` has L and unit of the scaled information.

        The first look bounds their own information by that of single rows, where rows are alike, and the second finds
        it; both are quick. The last is in float64.
        """
        check_time()
        self.n_looked += len(candidates) if look == 0 and len(candidates) >= _MANY else 0
        self.n_closer += len(candidates) if look else 0
        Z = self.here.columns(selected)
        V = self.xp.concatenate([rows.residual[:, None], Z * rows.weight[:, None]], 1)
        ends = self._ends_of_own(rows) if len(candidates) >= _MANY and look < 2 else None
        if len(candidates) < _MANY or look > (0 if ends is None else 1):
            exact = self.here.exact(candidates, V)
            return left_by(self.place, exact.along, exact.own, factor, gradient, reach)[0]
        if look == 0 and len(selected) == 0 and self._flat:
            return self._first_look(rows, candidates)
        if look == 0 and ends is not None:
            found = self._with_own_between(self.here.quick(candidates, V, own=False), *ends)
        else:
            found = self.here.quick(candidates, V)
        return left_with_room(self.place, found, factor, gradient, reach)

    def _ends_of_own(self, rows: DeviceRows) -> tuple[float, float] | None:
        """Between what Σawx² is, since Σax² is n; None where rows differ too much for that to tell something."""
        if not self._same_weights:
            return None
        each = rows.weight / self.weights
        least, most = (float(on_host(end, self.place)) for end in (self.xp.amin(each), self.xp.amax(each)))
        return (self.n * least * (1.0 - ROUGH), self.n * most * (1.0 + ROUGH)) if least > _ALIKE * most else None

    def _with_own_between(self, found: Quick, least: float, most: float) -> Quick:
        count = len(found.by_column)
        middle = self.place.put(np.full(count, (least + most) / 2.0))
        return replace(found, own=middle, by_own=np.full(count, (most - least) / 2.0))

    def _first_look(self, rows: DeviceRows, candidates: Indices) -> Projected:
        """Without variables all rows have the same information w: centred columns have Σawx = 0, and Σawx² = wn."""
        found = self.here.quick(candidates, rows.residual[:, None], own=False)
        return first_look(self.place, found, float(on_host(rows.weight.sum(), self.place)))

    def look(self, rows: DeviceRows, selected: Sequence[int], candidates: Indices) -> Looked:
        """Xᵀar, ZᵀawX and Σawx² of candidates that are single columns, in float64."""
        Z = self.here.columns(selected)
        V = self.xp.concatenate([rows.residual[:, None], Z * rows.weight[:, None]], 1)
        found = self.here.exact(candidates, V)
        along = on_host(found.along, self.place)
        return Looked(along[:, 0], along[:, 1:].T, on_host(found.own, self.place))

    def look_at_group(self, rows: DeviceRows, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns; those of a category are levels as they are."""
        Z, weight = self.here.columns(selected), rows.weight[:, None]
        X = self.here.levels(variable)
        products = (X.T @ rows.residual, Z.T @ (weight * X), X.T @ (weight * X))
        score, cross, own = (on_host(v, self.place) for v in products)
        return Looked(score, cross, own)

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> tuple[Floats, Floats, Floats]:
        """What a column is beside its part along S."""
        return self.here.remainder(selected, variable, gamma)

    def moments(
        self, rows: DeviceRows, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Moments and extremes of the steps u = x·own − Z·along of variables, a column each."""
        size = max(1, _STEP_VALUES // self.design.n_rows)
        parts = [slice(i, i + size) for i in range(0, len(variables), size)]
        return np.hstack([self._moments(rows, selected, variables[p], own[p], along[:, p]) for p in parts])

    def _moments(
        self, rows: DeviceRows, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        check_time()
        xp, place = self.xp, self.place
        U = self.here.steps_of(variables, own)
        U = U - self.here.columns(selected) @ place.put(np.ascontiguousarray(along))
        mean, t = rows.mean[:, None], U * U * rows.weight[:, None]
        if self.counts:
            low, high, third, fourth = U, U, t * U, t * U * U
        else:
            success, failure = (1.0 - mean) * U, -mean * U
            low, high = xp.minimum(success, failure), xp.maximum(success, failure)
            third, fourth = t * U * (1.0 - 2.0 * mean), t * U * U * (1.0 - 3.0 * mean * (1.0 - mean))
        sums = [on_host(v.sum(0), place) for v in (t, third, fourth)]
        ends = np.minimum(on_host(xp.amin(low, 0), place), 0.0), np.maximum(on_host(xp.amax(high, 0), place), 0.0)
        return np.vstack([*sums, *ends])
