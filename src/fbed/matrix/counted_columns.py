"""The columns of variables of which some are categories, multiplied by counting: a category is never expanded.

With R a constant, the columns of numbers and an indicator of every level, a standardised column of a category is
(r − center·1)/scale. So products of standardised columns are differences of products of R; and in R a category costs
one addition a row, however many levels it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fbed._kernels import pair_sums, standardised_products, sums_by_level
from fbed.clock import check_time
from fbed.matrix.row_blocks import RowBlocks
from fbed.rules.p_values import Floats
from fbed.tables.encoding import Codes
from fbed.threads import spread

Category = tuple[Codes, int]
"""The level of every row, and how many levels there are."""

_AN_ADDITION = 24  # products of numbers that take as long as adding to where a code says


def counted(blocks: RowBlocks, variables: Sequence[int], constant: bool = True) -> CountedColumns | None:
    """The columns of some variables, where counting takes less time than multiplying what is expanded."""
    design = blocks.design
    found = [design.codes(v) for v in variables if not design.varying[v]]
    n_categories = sum(codes is not None for codes in found)
    if n_categories == 0:
        return None
    size = 1 + blocks.width(variables)
    numbers = size - sum(codes[1] - 1 for codes in found if codes is not None)
    additions = n_categories * numbers + n_categories * (n_categories + 1) // 2
    if numbers**2 + _AN_ADDITION * additions > size**2:
        return None
    return CountedColumns(blocks, variables, constant)


class CountedColumns:
    """Variables on the rows of `blocks`, after a constant if there is to be one.

    Columns of categories are standardised as everything else, or the plain indicators of all levels but the first.
    """

    def __init__(
        self, blocks: RowBlocks, variables: Sequence[int], constant: bool = True, plain_levels: bool = False
    ) -> None:
        self.blocks, self.design = blocks, blocks.design
        codes = {v: self.design.codes(v) for v in variables}
        self.numbers = [v for v in variables if codes[v] is None]
        self.categories = [(np.ascontiguousarray(c[0]), c[1]) for v in variables if (c := codes[v]) is not None]
        self.read = blocks.model(self.numbers, constant=True)
        self.first = 1 + blocks.width(self.numbers)
        self.ends = [self.first, *(self.first + np.cumsum([n_levels for _, n_levels in self.categories])).tolist()]
        self._arrange(variables, codes, constant, plain_levels)

    def _arrange(
        self, variables: Sequence[int], codes: Mapping[int, object], constant: bool, plain_levels: bool
    ) -> None:
        """Where every column of the variables is in R, and its centre and scale."""
        width = self.design.width
        place = [np.zeros(1 if constant else 0, dtype=np.intp)]
        center, scale = [np.zeros(len(place[0]))], [np.ones(len(place[0]))]
        number, level = 1, self.first
        for v in variables:
            size = int(width[v])
            if codes[v] is None:
                place.append(np.arange(number, number + size))
                number += size
            else:
                place.append(np.arange(level + 1, level + 1 + size))
                level += size + 1
            plain = codes[v] is None or plain_levels
            moments = (np.zeros(size), np.ones(size)) if plain else self.blocks.center_scale(v)
            center.append(moments[0])
            scale.append(moments[1])
        self.place = np.concatenate(place).astype(np.int64, copy=False)
        self.center, self.scale = np.concatenate(center), np.concatenate(scale)

    @property
    def levels(self) -> list[tuple[Category, slice]]:
        """Categories, and where their levels are in R."""
        return [(c, slice(*ends)) for c, ends in zip(self.categories, pairwise(self.ends), strict=True)]

    @property
    def size(self) -> int:
        """Columns, the constant among them."""
        return len(self.place)

    def predict(self, part: slice, coefficients: Floats) -> Floats:
        """Zβ of some rows, for one β or several beside each other."""
        scaled = coefficients.T / self.scale
        raw = np.zeros((*scaled.shape[:-1], self.ends[-1]))
        raw[..., self.place] = scaled
        raw[..., 0] -= scaled @ self.center
        out = self.read(part) @ raw[..., : self.first].T
        for (codes, _), first, last in zip(self.categories, self.ends, self.ends[1:], strict=False):
            out += raw[..., first:last].T[codes[part]]
        return np.asarray(out)

    def along(self, vector: Floats) -> Floats:
        """Zᵀv."""
        return self.between(CountedColumns(self.blocks, ()), vector)[:, 0]

    def along_columns(self, G: Floats) -> Floats:
        """ZᵀG of columns of all rows that sum to 0, so that centres do not matter."""
        return np.asarray(self.raw_along(G)[self.place] / self.scale[:, None])

    def raw_along(self, G: Floats) -> Floats:
        """RᵀG of columns of all rows."""
        raw = np.empty((self.ends[-1], G.shape[1]))
        (raw[: self.first],) = self.blocks.summed(lambda part: (self.read(part).T @ G[part],), self.first + G.shape[1])
        once = np.ones(len(G))
        for (codes, n_levels), place in self.levels:
            raw[place] = sums_by_level(codes, n_levels, once, G)
        return raw

    def scaled(self, raw: Floats) -> Floats:
        """A form in Z from one in R that does not know constants, so that centres do not matter."""
        return np.asarray(raw[np.ix_(self.place, self.place)] / self.scale / self.scale[:, None])

    def gram(self, weight: Floats) -> Floats:
        """ZᵀwZ."""
        return self.between(self, weight)

    def by_level(self, codes: Codes, n_levels: int, weight: Floats) -> Floats:
        """Weighted sums of these columns over the rows of each level of a category, levels × columns."""
        raw = np.empty((n_levels, self.ends[-1]))

        def work(part: slice) -> tuple[Floats]:
            return (sums_by_level(codes[part], n_levels, weight[part], self.read(part)),)

        (raw[:, : self.first],) = self.blocks.summed(work, self.first)
        for (own, n_own), first, last in zip(self.categories, self.ends, self.ends[1:], strict=False):
            raw[:, first:last] = pair_sums(codes, n_levels, own, n_own, weight)
        return np.asarray((raw[:, self.place] - raw[:, :1] * self.center) / self.scale)

    def between(self, other: CountedColumns, weight: Floats) -> Floats:
        """Weighted products of these columns with others of the same rows."""
        raw = np.zeros((self.ends[-1], other.ends[-1]))
        self._with_numbers(other, weight, raw)
        self._with_levels(other, weight, raw)
        here, there = (self.place, self.center, self.scale), (other.place, other.center, other.scale)
        return standardised_products(raw, *here, *there)

    def _with_numbers(self, other: CountedColumns, weight: Floats, raw: Floats) -> None:
        """Products of numbers with numbers and with levels, block after block of rows."""
        alike = other is self

        def work(part: slice) -> tuple[Floats, ...]:
            D, w = self.read(part), weight[part]
            E = D if alike else other.read(part)
            left = [sums_by_level(codes[part], n_levels, w, E) for codes, n_levels in self.categories]
            right = (
                [] if alike else [sums_by_level(codes[part], n_levels, w, D) for codes, n_levels in other.categories]
            )
            return D.T @ (w[:, None] * E), *left, *right

        found = self.blocks.summed(work, self.first + other.first)
        raw[: self.first, : other.first] = found[0]
        here = len(self.categories)
        for sums, first in zip(found[1 : 1 + here], self.ends, strict=False):
            raw[first : first + len(sums), : other.first] = sums
        for sums, first in zip(found[1:] if alike else found[1 + here :], other.ends, strict=False):
            raw[: self.first, first : first + len(sums)] = sums.T

    def _with_levels(self, other: CountedColumns, weight: Floats, raw: Floats) -> None:
        """Weights of pairs of levels, over all rows at once."""
        alike = other is self
        pairs = [
            (i, j) for i in range(len(self.categories)) for j in range(len(other.categories)) if not alike or i <= j
        ]

        def work(pair: tuple[int, int]) -> Floats:
            check_time()
            return pair_sums(*self.categories[pair[0]], *other.categories[pair[1]], weight)

        for (i, j), sums in zip(pairs, spread(work, pairs, self.design.n_threads), strict=True):
            rows, columns = slice(self.ends[i], self.ends[i + 1]), slice(other.ends[j], other.ends[j + 1])
            raw[rows, columns] = sums
            if alike:
                raw[columns, rows] = sums.T
