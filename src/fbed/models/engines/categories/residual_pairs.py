"""Does a category with many levels matter, given S? Rows of the same level, compared two by two.

The χ² of a category needs several events in every level. This test does not. With r the scores of the rows at the fit
on S, divided by their spread so that they are unrelated and have the variances v when the category is irrelevant,

    U = Σ_c [(Σ_{i∈c} r_i)² − Σ_{i∈c} r_i²] / V_c,    V_c = Σ_{i∈c} v_i,

is the score statistic of the category without its diagonal: pairs i ≠ j of the same level c. However rare an outcome
is, a pair of unrelated rows has mean 0, and only the second and third moments of single rows enter

    var U = 2m Σ_c (1 − Σu²),        u = v/V_c,
    κ₃(U) = Σ_c [8m(1 − 3Σu² + 2Σu³) + 4ν((Σu^{3/2})² − Σu³)],

for m predictors a row, with ν = ‖E r⊗r⊗r‖² of scores of variance 1 (the squared skewness when m = 1). Fitting S makes
the scores orthogonal to its columns, which moves mean and variance by what `given_selected` says. U then has the tail
of the gamma distribution with its three moments (Pearson's type III). Without S these are, up to 1/n, the moments of U
when the levels are dealt out to the rows at random. Everything is a sum over rows and over levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg

from fbed._kernels import sums_by_level
from fbed.matrix.counted_columns import CountedColumns
from fbed.models.base import COLLINEAR
from fbed.models.engines.categories.coded_columns import pivoted
from fbed.rules.p_values import Floats, chi2_log_sf
from fbed.tables.encoding import Codes

_LEAST_SKEWNESS = 1e-2  # below it the tail is that of the normal distribution for all purposes
_WORK = 1e8  # products that the third moments may take; beyond, some of the rows tell them
_NO_PAIRS = 1e-9  # of levels with two rows that count; a level of two equal rows has half of one
_SINGULAR = 1e-10  # part of the largest variance below which scores do not vary in a direction
_NOTHING, _SOMETHING = 1e-11, 1e-8  # part of a direction that differences of products say is left: rounding, and not
_CLEAR = 1e-5  # smallest pivot, relative, of an inverse that is right to 1e-9
_SOUND = 1e-6  # smallest pivot with which products tell what columns span


class Spanning(Protocol):
    """Columns that span S and the intercept; nothing that is asked about them depends on which columns do."""

    @property
    def size(self) -> int:
        """How many there are."""

    def gram(self, weight: Floats) -> Floats:
        """Weighted products of them."""

    def by_level(self, codes: Codes, n_levels: int, weight: Floats) -> Floats:
        """Weighted sums over the rows of each level of a category, levels × columns."""

    def inverse(self, information: Floats) -> Floats:
        """The inverse of weighted products of them, without directions that have next to nothing of it."""

    def varying_within(self, codes: Codes, n_levels: int, weight: Floats) -> int:
        """How many of their directions vary within levels, for weights that are the frequencies of the rows."""


class Basis:
    """Columns with unit mean squares, unrelated to each other, that are written out."""

    def __init__(self, Z: Floats) -> None:
        self.Z, self.size = np.asfortranarray(Z), Z.shape[1]

    def gram(self, weight: Floats) -> Floats:
        """Weighted products of them."""
        return np.asarray(self.Z.T @ (weight[:, None] * self.Z))

    def by_level(self, codes: Codes, n_levels: int, weight: Floats) -> Floats:
        """Weighted sums over the rows of each level of a category, levels × columns."""
        return sums_by_level(np.ascontiguousarray(codes), n_levels, weight, self.Z)

    def inverse(self, information: Floats) -> Floats:
        """The inverse of weighted products of them, without directions that have next to nothing of it."""
        return _pseudo_inverse(information)

    def varying_within(self, codes: Codes, n_levels: int, weight: Floats) -> int:
        """How many of their directions vary within levels."""
        count = np.bincount(codes, weight, n_levels)
        within = self.Z - (self.by_level(codes, n_levels, weight) / count[:, None])[codes]
        left = np.linalg.eigvalsh(within.T @ (weight[:, None] * within) / weight.sum())
        return int((left > COLLINEAR).sum())


class CountedBasis:
    """The same of columns that are multiplied by counting; refuses those that are next to collinear.

    Where differences of products do not tell, columns are `written_out`.
    """

    def __init__(self, columns: CountedColumns, frequencies: Floats, written_out: Callable[[], Basis]) -> None:
        self.columns, self.size, self.written_out = columns, columns.size, written_out
        gram = columns.gram(frequencies) / frequencies.sum()
        try:
            self.lower = linalg.cholesky(gram, lower=True)
        except linalg.LinAlgError:
            raise NextToCollinear from None
        if np.diag(self.lower).min() ** 2 < _SOUND:
            raise NextToCollinear

    def gram(self, weight: Floats) -> Floats:
        """Weighted products of them."""
        return self.columns.gram(weight)

    def by_level(self, codes: Codes, n_levels: int, weight: Floats) -> Floats:
        """Weighted sums over the rows of each level of a category, levels × columns."""
        return self.columns.by_level(np.ascontiguousarray(codes), n_levels, weight)

    def inverse(self, information: Floats) -> Floats:
        """By pivots where they tell what counts; else of columns that are unrelated to each other."""
        found = _inverse_by_pivots(information)
        if found is not None:
            return found
        inside = _pseudo_inverse(self._unrelated(self._unrelated(information).T))
        half = linalg.solve_triangular(self.lower, inside, lower=True, trans="T")
        return np.asarray(linalg.solve_triangular(self.lower, half.T, lower=True, trans="T"))

    def _unrelated(self, products: Floats) -> Floats:
        """Products with columns that are unrelated to each other and have unit mean squares."""
        return np.asarray(linalg.solve_triangular(self.lower, products, lower=True))

    def varying_within(self, codes: Codes, n_levels: int, weight: Floats) -> int:
        """How many of their directions vary within levels."""
        sums, count = self._unrelated(self.by_level(codes, n_levels, weight).T).T, np.bincount(codes, weight, n_levels)
        between = sums.T @ (sums / count[:, None])
        within = np.eye(self.size) - between / weight.sum()
        factor, kept = pivoted(within, _NOTHING)
        if np.diag(factor).min(initial=1.0) ** 2 > _CLEAR:
            return len(kept)
        left = np.linalg.eigvalsh(within)
        if ((left > _NOTHING) & (left < _SOMETHING)).any():
            return self.written_out().varying_within(codes, n_levels, weight)
        return int((left >= _SOMETHING).sum())


class NextToCollinear(Exception):  # no error: a basis is written out instead
    """Columns whose products do not tell what they span."""


@dataclass(frozen=True)
class RowScores:
    """The fit on S, row by row.

    `scores` are derivatives of the log-likelihood in the m predictors of a row (n × m) and `variances` their variances
    up to a factor, both of one copy of the row; `frequencies` count the copies, and `span` is that of S and the
    intercept.
    """

    scores: Floats
    variances: Floats
    frequencies: Floats
    span: Spanning

    @cached_property
    def n(self) -> float:
        """Number of rows, copies included."""
        return float(self.frequencies.sum())

    @cached_property
    def standardised(self) -> Floats:
        """Scores without correlation, with mean squares v; directions in which they do not vary are left out."""
        pearson = self._pearson
        covariance = pearson.T @ (self.frequencies[:, None] * pearson) / (self.n - self.span.size)
        size, direction = np.linalg.eigh(covariance)
        kept = size > _SINGULAR * max(float(size.max(initial=0.0)), 1e-300)
        return np.asarray(pearson @ (direction[:, kept] / np.sqrt(size[kept])) * np.sqrt(self.variances)[:, None])

    @cached_property
    def _pearson(self) -> Floats:
        root = np.sqrt(self.variances)[:, None]
        return np.divide(self.scores, root, out=np.zeros_like(self.scores), where=root > 0)

    @cached_property
    def third_moment(self) -> float:
        """ν = ‖E r⊗r⊗r‖² for scores of variance 1."""
        root = np.sqrt(self.variances)[:, None]
        r = np.divide(self.standardised, root, out=np.zeros_like(self.standardised), where=root > 0)
        n, m = r.shape
        step = max(1, int(np.ceil(n * m * min(m * m, n) / _WORK)))
        r, a = r[::step], self.frequencies[::step] / self.frequencies[::step].sum()
        if m * m > len(r):  # the same from the products of two rows
            return float(a @ (r @ r.T) ** 3 @ a)
        pairs = np.einsum("ni,nj->nij", r, r).reshape(len(r), m * m)
        return float(((pairs.T @ (a[:, None] * r)) ** 2).sum())

    @cached_property
    def inverse_information(self) -> Floats:
        """(ZᵀVZ)⁻¹."""
        return self.span.inverse(self.span.gram(self.frequencies * self.variances))

    def log_p(self, codes: Codes, n_levels: int) -> float:
        """Log p-value of a category."""
        if self.n - self.span.size < 1.0:
            return 0.0
        m, cells = self.standardised.shape[1], Cells(self, codes, n_levels)
        mean, lost = cells.given_selected()
        variance = 2.0 * m * (cells.pairs - lost)
        if m == 0 or cells.pairs <= _NO_PAIRS or variance <= 1e-9 * cells.pairs:  # or S leaves nothing of them
            return 0.0
        distance = (cells.statistic() - m * mean) / np.sqrt(variance)
        third = 8.0 * m * cells.triples + 4.0 * self.third_moment * cells.skewed_pairs
        skewness = max(third / (2.0 * m * cells.pairs) ** 1.5, _LEAST_SKEWNESS)
        df = 8.0 / skewness**2
        return float(chi2_log_sf(df + np.sqrt(2.0 * df) * distance, df))

    def rank(self, codes: Codes, n_levels: int) -> int:
        """How many dimensions a category adds to S: what varies within levels counts once."""
        within = self.span.varying_within(codes, n_levels, self.frequencies)
        return n_levels + within - self.span.size


class Cells:
    """Sums over the levels of a category; a level with a single row has no pair and says nothing.

    A row has the share u = v/V_c of its level, so that no power of large frequencies is ever formed.
    """

    def __init__(self, rows: RowScores, codes: Codes, n_levels: int) -> None:
        self.rows, self.codes, self.n_levels = rows, codes, n_levels
        self.count = self._sum(np.ones(len(codes)))
        self.V = self._sum(rows.variances)
        self.several = (self.count > 1.0 + 1e-9) & (self.V > 0)
        self.weight = np.where(self.several, 1.0 / np.where(self.several, self.V, 1.0), 0.0)
        self.share = rows.variances * self.weight[codes]

    def _sum(self, values: Floats) -> Floats:
        return np.bincount(self.codes, self.rows.frequencies * values, self.n_levels).astype(np.float64)

    def sums(self, columns: Floats) -> Floats:
        """Sums of several columns over the rows of each level, levels × columns."""
        return np.stack([self._sum(column) for column in columns.T], axis=1)

    def statistic(self) -> float:
        """U."""
        r = self.rows.standardised * np.sqrt(self.weight)[self.codes][:, None]
        return float(((self.sums(r) ** 2).sum(axis=1) - self._sum((r**2).sum(axis=1))).sum())

    @cached_property
    def pairs(self) -> float:
        """Σ_c (1 − Σu²)."""
        return float(np.maximum(self.several - self._sum(self.share**2), 0.0).sum())

    @cached_property
    def triples(self) -> float:
        """Σ_c (1 − 3Σu² + 2Σu³)."""
        different = self.several - 3.0 * self._sum(self.share**2) + 2.0 * self._sum(self.share**3)
        return float(np.maximum(different, 0.0).sum())

    @cached_property
    def skewed_pairs(self) -> float:
        """Σ_c ((Σu^{3/2})² − Σu³)."""
        return float(np.maximum(self._sum(self.share**1.5) ** 2 - self._sum(self.share**3), 0.0).sum())

    def given_selected(self) -> tuple[float, float]:
        """Mean of U, and what its variance loses (over m and 2m), since the scores of a fit have variance V − B.

        B = VZ(ZᵀVZ)⁻¹ZᵀV. With K the weights of the pairs these are −tr KB and tr(2KVKB − KBKB): sums over the rows of
        products of Z, and over the levels of products of s = Σvz and t = Σv²z.
        """
        rows, weight = self.rows, self.weight
        v, span, G = rows.variances, rows.span, rows.inverse_information
        s, t = (span.by_level(self.codes, self.n_levels, rows.frequencies * v**power) for power in (1, 2))
        own = weight[self.codes] * rows.frequencies * v**2
        KB = G @ (s.T @ (weight[:, None] * s) - span.gram(own))
        by_level = weight**2 * np.einsum("ij,ij->i", s @ G, self.V[:, None] * s - 2.0 * t)
        KVKB = float(by_level.sum()) + float((G * span.gram(own * weight[self.codes] * v)).sum())
        lost = 2.0 * KVKB - float((KB * KB.T).sum())
        return -float(np.trace(KB)), lost


def _pseudo_inverse(information: Floats) -> Floats:
    return np.asarray(np.linalg.pinv(information, rcond=_SINGULAR, hermitian=True), dtype=np.float64)


def _inverse_by_pivots(information: Floats) -> Floats | None:
    """The inverse on columns that are independent, 0 on those that depend on them; None where pivots leave a doubt."""
    size = np.diag(information)
    unit = np.divide(1.0, np.sqrt(size), out=np.zeros_like(size), where=size > _SINGULAR * size.max(initial=0.0))
    factor, kept = pivoted(information * (unit[:, None] * unit), _NOTHING)
    if not np.diag(factor).min(initial=1.0) ** 2 > _CLEAR:
        return None
    if len(kept) == 0:  # LAPACK complains of matrices without rows
        return np.zeros_like(information)
    lower = linalg.lapack.dpotri(factor, lower=1)[0]
    out = np.zeros_like(information)
    out[np.ix_(kept, kept)] = np.tril(lower) + np.tril(lower, -1).T
    return np.asarray(out * (unit[:, None] * unit))
