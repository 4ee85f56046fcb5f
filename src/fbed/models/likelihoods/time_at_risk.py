"""Rows that are there for a time: sums over the rows at every moment, and over the moments of every row.

With late entry neither is a difference of running sums that could be trusted: where a large row has come and gone,
nothing is left of the small ones. Here every sum adds up what belongs to it and nothing else. The moments are split in
halves again and again; a spell is cut in two at the first split that it contains, so that it reaches from some moment
to the end of one half and from the beginning of the next to some other: two running sums within halves (a disjoint
sparse table), and n log n in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbed.rules.p_values import Floats

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class _Level:
    """Spells that are cut at splits into halves of one length (0: spells of one moment, which are not cut)."""

    half: int
    rows: Indices
    first: Indices
    last: Indices
    sources: Indices  # rows in the order of the moments at which they begin or end, by the next two
    starts: Indices
    moments: Indices

    def running(self, moments: Floats, ufunc: np.ufunc, outwards: bool) -> None:
        """Running sums within halves, in place: away from the split that they share, or towards it."""
        halves = moments.reshape(len(moments) // (2 * self.half), 2, self.half, moments.shape[1])
        for side, backwards in ((0, outwards), (1, not outwards)):
            part = halves[:, side, ::-1] if backwards else halves[:, side]
            ufunc.accumulate(part, axis=1, out=part)


class Spells:
    """Row i is there at the moments `first[i]` … `end[i]` − 1 out of `n_moments`; at none where that is empty."""

    def __init__(self, first: Indices, end: Indices, n_moments: int) -> None:
        self.n_rows, self.n_moments = len(first), n_moments
        self._padded = 1 << max(n_moments - 1, 1).bit_length()
        there = np.flatnonzero(first < end)
        differing = first[there] ^ (end[there] - 1)
        bits = np.frexp(differing.astype(float))[1]  # position of the highest bit that tells them apart, from 1
        self._levels = [_level(int(bit), there[bits == bit], first, end - 1) for bit in np.unique(bits).tolist()]

    def at_moments(self, values: Floats, ufunc: np.ufunc = np.add, nothing: float = 0.0) -> Floats:
        """Sum (or another reduction) over the rows that are there at every moment, moments × models."""
        out = np.full((self.n_moments, values.shape[1]), nothing)
        for level in self._levels:
            part = np.full((self._padded, values.shape[1]), nothing)
            part[level.moments] = ufunc.reduceat(values[level.sources], level.starts, axis=0)
            if level.half:
                level.running(part, ufunc, outwards=False)
            ufunc(out, part[: self.n_moments], out=out)
        return out

    def of_rows(self, moments: Floats) -> Floats:
        """Sum over the moments at which every row is there, rows × models."""
        out = np.zeros((self.n_rows, moments.shape[1]))
        for level in self._levels:
            if not level.half:
                out[level.rows] = moments[level.first]
                continue
            part = np.zeros((self._padded, moments.shape[1]))
            part[: self.n_moments] = moments
            level.running(part, np.add, outwards=True)
            out[level.rows] = part[level.first] + part[level.last]
        return out


def _level(bit: int, rows: Indices, first: Indices, last: Indices) -> _Level:
    first, last = first[rows], last[rows]
    moments, sources = (first, rows) if bit == 0 else (np.concatenate([first, last]), np.concatenate([rows, rows]))
    order = np.argsort(moments, kind="stable")
    distinct, starts = np.unique(moments[order], return_index=True)
    return _Level(1 << (bit - 1) if bit else 0, rows, first, last, sources[order], starts, distinct)
