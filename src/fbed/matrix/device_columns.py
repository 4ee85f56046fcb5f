"""Columns on a device: a float matrix, or packed genotypes.

There are two ways to multiply columns with vectors of rows. The exact one is in float64. The quick one is in float32, a
thousand rows at a time, or, of genotypes, in whole numbers, which lose nothing: what is rounded is the vectors, to
three digits of seven bits each. The quick one comes with a bound, q·ν for a column and a vector, on what it may be
wrong by. Sums over rows have an order that depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.array_library import Array, Place, on_host
from fbed.matrix.mixed_storage_columns import Places
from fbed.rules.p_values import Floats

ROUGH = 1e-4  # part that moments of float32 may be wrong by
_CHUNK = 1024  # rows that are added up in float32
_HALF_ULP = 2.0**-24
_CLOSE = 30.0  # scales from 0 within which the mean of squares less the square of the mean keeps its digits
_INFORMATION = 1e-13  # part of a column's size below which its spread is rounding
_VANISHING = 1e-30  # added to vectors, for what float32 takes for 0
_SAFE = (1e-15, 1e15)  # norms of columns whose products neither vanish nor overflow in float32


@dataclass(frozen=True)
class Quick:
    """XᵀV and Σ v·x² of the second vector, found quickly.

    The former is wrong by `by_column`·`by_vector` at most, the latter by `by_own`.
    """

    along: Array
    own: Array
    by_column: Floats
    by_vector: Floats
    by_own: Floats


class DeviceColumns:
    """What storages on a device share.

    `roughly` says that centres and scales may be those of float32: what a model with a constant tells of a column does
    not depend on them, as long as they are the same everywhere.
    """

    roughly = False

    def __init__(self, place: Place, shape: tuple[int, int]) -> None:
        self.place, self.n, self.p = place, *shape
        self._room = place.room()
        self._center = self._scale = np.zeros(0)  # moments that are on the device, as they are in memory and there
        self._there: tuple[Array, Array] = ()  # type: ignore[assignment]

    def slabs(self, count: int, bytes_a_value: int = 8) -> Iterator[slice]:
        """Parts of so many columns that are held at a time."""
        size = max(1, min(count, self._room // (max(1, self.n) * bytes_a_value)))
        return (slice(i, min(i + size, count)) for i in range(0, count, size))

    def standard(self, which: Places, center: Floats, scale: Floats) -> Array:
        """Standardised columns in float64, a row each; zero where the scale is."""
        raise NotImplementedError

    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, how many are not finite and not 0, a row a column."""
        raise NotImplementedError

    def quick(self, which: Places, center: Floats, scale: Floats, norm: Floats, V: Array, own: bool) -> Quick:
        """XᵀV, and Σ v·x² of the second vector if `own`, with bounds; `norm` bounds the lengths of the columns."""
        raise NotImplementedError

    def exact(self, which: Places, center: Floats, scale: Floats, V: Array, second: bool) -> tuple[Array, Array]:
        """XᵀV, and Σ v·x² of the second vector if it is wanted, in float64."""
        xp = self.place.xp
        along, own = [], []
        for some in self.slabs(len(which)):
            X = self.standard(which[some], center, scale)
            along.append(X @ V)
            if second:
                own.append((X * X) @ V[:, 1])
        return xp.concatenate(along), xp.concatenate(own) if second else None

    def gather_rows(
        self, which: Places, center: Floats, scale: Floats, first: int, last: int, constant: bool
    ) -> Floats:
        """Standardised columns of some rows in memory, after a column of ones if there is to be a constant."""
        lead = 1 if constant else 0
        out = np.ones((last - first, lead + len(which)), order="F")
        for some in self.slabs(len(which)):
            part = self.standard(which[some], center, scale)[:, first:last]
            out[:, lead + some.start : lead + some.stop] = self.place.host(part).T
        return out

    def gather(self, which: Places, center: Floats, scale: Floats) -> Floats:
        """All rows."""
        return self.gather_rows(which, center, scale, 0, self.n, False)

    def _moments(self, which: Places, center: Floats, scale: Floats) -> tuple[Array, Array]:
        """Centres and units of columns, as columns beside their values; those of all are brought there once."""
        if not (_same(self._center, center) and _same(self._scale, scale)):
            unit = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
            self._center, self._scale = center, scale
            self._there = self.place.put(np.ascontiguousarray(center))[:, None], self.place.put(unit)[:, None]
        some = self._at(which)
        return self._there[0][some], self._there[1][some]

    def _at(self, which: Places) -> Any:
        """An index for columns: a slice where they follow each other, which copies nothing."""
        if len(which) and which[-1] - which[0] == len(which) - 1 and (np.diff(which) == 1).all():
            return slice(int(which[0]), int(which[-1]) + 1)
        return self.place.put(which)


def _same(one: Floats, other: Floats) -> bool:
    """Whether two arrays are the same memory: the first is kept, so that nobody else can have its place."""
    return one is other or (len(one) == len(other) > 0 and one.ctypes.data == other.ctypes.data)


class FloatColumns(DeviceColumns):
    """Columns of a matrix of floating-point numbers, as rows of its transpose."""

    def __init__(self, place: Place, matrix: Array) -> None:
        super().__init__(place, (int(matrix.shape[0]), int(matrix.shape[1])))
        self.rows = matrix.T
        self.floating = "float" in str(matrix.dtype)

    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, how many are not finite and not 0, a row a column."""
        out = np.zeros((last - first, 6))
        out[:, 5] = self.n
        with np.errstate(invalid="ignore", over="ignore"):
            self._quick_stats(first, last, bool((weights == 1.0).all()), total, out)
            varies = out[:, 2] < out[:, 3]
            sound = np.isfinite(out[:, :4]).all(axis=1) & (np.abs(out[:, 0]) < _CLOSE * out[:, 1])
        careful = np.flatnonzero(~sound & (varies | ~np.isfinite(out[:, 2:4]).all(axis=1)))
        for some in self.slabs(len(careful)):
            with np.errstate(invalid="ignore", over="ignore"):
                self._careful_stats(first, careful[some], weights, total, out)
        out[~varies, 1] = 0.0
        out[~varies, 0] = out[~varies, 2]
        return out

    def _quick_stats(self, first: int, last: int, equal: bool, total: float, out: Floats) -> None:
        """Extremes, and, of floating-point numbers without weights, the mean and the mean of squares.

        All is asked for before anything is waited for: the device has work while we look at what it has found.
        """
        place, xp = self.place, self.place.xp
        slabs = [self.rows[first + some.start : first + some.stop] for some in self.slabs(last - first)]
        ends = [place.ends(X) for X in slabs]
        if self.floating and equal and self.roughly:
            moments = [place.rough_moments(X) for X in slabs]
        elif self.floating and equal:
            moments = [(X.sum(1, dtype=xp.float64), place.lengths(X)) for X in slabs]
        else:
            moments = []
        for i, found in enumerate((ends, moments)):
            for j in range(2 if found else 0):
                out[:, 2 - 2 * i + j] = on_host(xp.concatenate([part[j] for part in found]), place)
        if moments and not self.roughly:
            out[:, 0] /= total
            out[:, 1] = out[:, 1] ** 2 / total - out[:, 0] ** 2
        if moments:
            np.sqrt(np.maximum(out[:, 1], 0.0), out=out[:, 1])

    def _careful_stats(self, first: int, which: NDArray[np.intp], weights: Floats, total: float, out: Floats) -> None:
        """The same of columns with weights, far from 0 or with values that are not finite: more than one pass."""
        place, xp = self.place, self.place.xp
        X = place.cast(self.rows[place.put(first + which)], "float64")
        out[which, 4] = on_host(xp.sum(~xp.isfinite(X), 1), place)
        low, high = out[which, 2], out[which, 3]
        size = np.maximum(np.abs(low), np.abs(high))
        safe = np.where(size > 1e300, 0.25, 1.0)  # the range itself must not overflow
        with np.errstate(invalid="ignore"):
            base, width = safe * low, safe * high - safe * low
        known = np.isfinite(width) & (width > 0)
        base, width = np.where(known, base, 0.0), np.where(known, width, 1.0)
        w = place.put(weights / total)
        X = (X * place.put(safe)[:, None] - place.put(base)[:, None]) / place.put(width)[:, None]
        center = X @ w
        spread = ((X - center[:, None]) ** 2) @ w
        scale = np.sqrt(on_host(spread, place)) * width
        out[which, 0] = (base + on_host(center, place) * width) / safe
        out[which, 1] = np.where(scale <= _INFORMATION * size * safe, 0.0, scale / safe)

    def standard(self, which: Places, center: Floats, scale: Floats) -> Array:
        """Standardised columns in float64, a row each."""
        c, unit = self._moments(which, center, scale)
        return (self.place.cast(self._some(which), "float64") - c) * unit

    def _some(self, which: Places) -> Array:
        return self.rows[self._at(which)]

    def quick(self, which: Places, center: Floats, scale: Floats, norm: Floats, V: Array, own: bool) -> Quick:
        """Products in float32: a sum of m products is wrong by m·2⁻²⁴·Σ|xv| at most, and Σ|xv| ≤ ‖x‖‖v‖."""
        place, xp = self.place, self.place.xp
        small, totals = place.cast(V, "float32"), V.sum(0)
        lengths = np.sqrt(on_host((V * V).sum(0), place)) + _VANISHING * np.sqrt(self.n)
        most = float(on_host(xp.amax(xp.abs(V[:, -1 if not own else 1])), place))
        along, squares = [], []
        with place.exactly():  # which goes on while the bounds are computed here
            for some in self.slabs(len(which), 4):
                X = place.cast(self._some(which[some]), "float32")
                c, unit = self._moments(which[some], center, scale)
                sums = self._sums(X, small)
                along.append((sums - c * totals) * unit)
                if own:
                    square = self._sums(X * X, small[:, 1:2])
                    squares.append(((square - c * (2.0 * sums[:, 1:2] - c * totals[1])) * unit * unit)[:, 0])
        c, s = center[which], scale[which]
        rounding = (_CHUNK + 8) * _HALF_ULP
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            by_column = rounding * norm / s
            by_own = rounding * (most * norm**2 + 2.0 * np.abs(c) * norm * lengths[1 if own else 0]) / s**2
        unsafe = ~((norm > _SAFE[0]) & (norm < _SAFE[1]) & np.isfinite(by_own))
        by_column[unsafe] = by_own[unsafe] = np.inf
        return Quick(xp.concatenate(along), xp.concatenate(squares) if own else None, by_column, lengths, by_own)

    def _sums(self, X: Array, V: Array) -> Array:
        """XV of float32, a chunk of rows at a time, added up in float64."""
        place = self.place
        whole = self.n // _CHUNK * _CHUNK
        out = place.cast(X[:, whole:] @ V[whole:], "float64")
        if whole:
            chunks = X[:, :whole].reshape(X.shape[0], -1, _CHUNK).swapaxes(0, 1)
            parts = chunks @ V[:whole].reshape(-1, _CHUNK, V.shape[1])
            out = out + place.cast(parts, "float64").sum(0)
        return out
