"""Packed genotypes on a device, multiplied in whole numbers.

Genotypes times the digits of a vector are added up without any rounding: the answer is that of the rounded vector,
whatever the order of the sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.array_library import Array, Place, on_host
from fbed.matrix.device_columns import DeviceColumns, Quick
from fbed.matrix.digits import BASE, digits_of
from fbed.matrix.mixed_storage_columns import Places
from fbed.rules.p_values import Floats

_DIGITS = 3
_EIGHT = 8  # sizes of products of whole numbers are multiples of this
_LEAST = 32  # columns of such a product
_FIELD = 21  # bits of a count in a sum of counts
_COPIES = np.array([2, 0, 1, 0])  # of the first allele, by the two bits of a genotype
_MISSING = np.array([0, 1, 0, 0])


class PackedOnDevice(DeviceColumns):
    """Four genotypes a byte, a row of bytes a column; the missing ones are at the mean."""

    def __init__(self, place: Place, bytes_: Array, n: int) -> None:
        super().__init__(place, (n, int(bytes_.shape[0])))
        self.bytes = bytes_
        self.padded = 4 * int(bytes_.shape[1])  # rows, those that nobody has included: they get vectors of zeros
        self._has_missing = np.ones(self.p, dtype=bool)
        self._tables = {name: self._table(values) for name, values in _tables().items()}

    def _table(self, values: NDArray[np.int64]) -> Array:
        """Four small numbers for every byte, as one of 32 bits."""
        return self.place.put(np.ascontiguousarray(values.astype(np.int8)).view(np.int32)[:, 0].copy())

    def _unpacked(self, which: Places, name: str) -> Array:
        """Small whole numbers that stand for genotypes, a row a column."""
        four = self.place.looked_up(self._tables[name], self._some(which))
        return four.view(self.place.xp.int8)

    def _some(self, which: Places) -> Array:
        return self.bytes[self._at(which)]

    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, 0 and n, a row a column."""
        which = np.arange(first, last, dtype=np.int64)
        equal = bool((weights == 1.0).all())
        two, one, missing = self._counts(which) if equal else self._weighted_counts(which, weights)
        known = total - missing
        self._has_missing[which] = missing > 0
        center = (2.0 * two + one) / np.where(known > 0, known, 1.0)
        none = np.maximum(known - two - one, 0.0)
        none[none < 1e-12 * total] = 0.0
        spread = two * (2.0 - center) ** 2 + one * (1.0 - center) ** 2 + none * center**2
        low = np.where(none > 0, 0.0, np.where(one > 0, 1.0, 2.0))
        high = np.where(two > 0, 2.0, np.where(one > 0, 1.0, 0.0))
        scale = np.where((low < high) & (known > 0), np.sqrt(spread / total), 0.0)
        return np.column_stack([center, scale, low, high, np.zeros(len(which)), np.full(len(which), self.n)])

    def _counts(self, which: Places) -> tuple[Floats, Floats, Floats]:
        """How many rows have two copies, have one, and are missing: three counts in one sum."""
        place = self.place
        codes = (np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3
        fields = sum((codes == kind).sum(axis=1).astype(np.int64) << (_FIELD * i) for i, kind in enumerate((0, 2, 1)))
        table = place.put(np.asarray(fields))
        parts = [place.host(place.looked_up(table, self._some(which[s])).sum(1)) for s in self._pieces(which, 8)]
        found, mask = np.concatenate(parts), (1 << _FIELD) - 1
        two, one, missing = ((found >> (_FIELD * i)) & mask for i in range(3))
        return two.astype(float) - (self.padded - self.n), one.astype(float), missing.astype(float)

    def _weighted_counts(self, which: Places, weights: Floats) -> tuple[Floats, Floats, Floats]:
        w = self.place.put(np.concatenate([weights, np.zeros(self.padded - self.n)]))
        names = ("copies", "squares", "missing")
        sums: dict[str, list[Floats]] = {name: [] for name in names}
        for some in self._pieces(which, 12):
            for name in names:
                values = self.place.cast(self._unpacked(which[some], name), "float64")
                sums[name].append(on_host(values @ w, self.place))
        first, second, missing = (np.concatenate(sums[name]) for name in names)
        two = np.maximum((second - first) / 2.0, 0.0)
        return two, np.maximum(first - 2.0 * two, 0.0), missing

    def _pieces(self, which: Places, bytes_a_value: int) -> list[slice]:
        size = max(1, self._room * 2 // (self.padded * bytes_a_value // 4 + 1))
        return [slice(i, min(i + size, len(which))) for i in range(0, len(which), size)]

    def standard(self, which: Places, center: Floats, scale: Floats) -> Array:
        """Standardised columns in float64, a row each, the missing at 0."""
        c, unit = self._moments(which, center, scale)
        copies = self.place.cast(self._unpacked(which, "copies")[:, : self.n], "float64")
        if not self._has_missing[which].any():
            return (copies - c) * unit
        known = 1.0 - self.place.cast(self._unpacked(which, "missing")[:, : self.n], "float64")
        return (copies - c * known) * unit

    def quick(self, which: Places, center: Floats, scale: Floats, norm: Floats, V: Array, own: bool) -> Quick:
        """Products of the columns with rounded vectors; `norm` bounds the lengths of the standardised columns."""
        place, xp = self.place, self.place.xp
        digits, ulp, rounded = digits_of(self.place, V, _DIGITS)
        totals, away = rounded.sum(0), on_host(((V - rounded) ** 2).sum(0), place)
        of_all, of_second = self._beside(digits), self._beside(digits[:, _DIGITS : 2 * _DIGITS]) if own else None
        along, squares = [], []
        for some in self._pieces(which, 12):
            part = which[some] if some.stop - some.start >= _LEAST else np.resize(which[some], _LEAST)
            c, unit = self._moments(part, center, scale)
            sums = self._products(part, "copies", of_all, ulp)
            gone = self._products(part, "missing", of_all, ulp) if self._has_missing[part].any() else 0.0
            known = totals - gone
            along.append(((sums - c * known) * unit)[: some.stop - some.start])
            if own:
                square = self._products(part, "squares", of_second, ulp[1:2])
                second = (square - c * (2.0 * sums[:, 1:2] - c * known[..., 1:2])) * unit * unit
                squares.append(second[: some.stop - some.start, 0])
        by_own = 0.5 * float(on_host(ulp, place)[1 if own else 0]) * norm**2
        slack = 1e-13 * np.sqrt(on_host((V * V).sum(0), place))  # of the arithmetic in float64 that follows
        wrong = np.sqrt(away) * (1.0 + 1e-9) + slack
        return Quick(xp.concatenate(along), xp.concatenate(squares) if own else None, norm, wrong, by_own)

    def _beside(self, digits: Array) -> Array:
        """Digits of all rows, with zeros for rows and columns that fill up."""
        n, count = digits.shape
        out = self.place.empty((-(-count // _EIGHT) * _EIGHT, self.padded), "int8")
        out[:] = 0
        out[:count, :n] = digits.T
        return out.T

    def _products(self, which: Places, name: str, digits: Array, ulp: Array) -> Array:
        """Σ gv of genotypes and vectors that are given by their digits, in float64."""
        place, count = self.place, int(ulp.shape[0])
        found = place.cast(place.whole_products(self._unpacked(which, name), digits), "float64")
        found = found[:, : count * _DIGITS].reshape(len(which), count, _DIGITS)
        return (found @ place.put(float(BASE) ** np.arange(_DIGITS - 1, -1, -1))) * ulp


def _tables() -> dict[str, NDArray[np.int64]]:
    codes = (np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3
    return {"copies": _COPIES[codes], "squares": _COPIES[codes] ** 2, "missing": _MISSING[codes]}
