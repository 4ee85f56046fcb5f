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

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fbed.models.base import COLLINEAR
from fbed.rules.tails import Floats, chi2_log_sf

_LEAST_SKEWNESS = 1e-2  # below it the tail is that of the normal distribution for all purposes
_WORK = 1e8  # products that the third moments may take; beyond, some of the rows tell them
_SINGULAR = 1e-10  # part of the largest variance below which scores do not vary in a direction

Codes = NDArray[np.intp]


@dataclass(frozen=True)
class RowScores:
    """The fit on S, row by row.

    `scores` are derivatives of the log-likelihood in the m predictors of a row (n × m) and `variances` their variances
    up to a factor, both of one copy of the row; `frequencies` count the copies, and `Z` spans S and the intercept, with
    unit mean squares.
    """

    scores: Floats
    variances: Floats
    frequencies: Floats
    Z: Floats

    @cached_property
    def n(self) -> float:
        """Number of rows, copies included."""
        return float(self.frequencies.sum())

    @cached_property
    def standardised(self) -> Floats:
        """Scores without correlation, with mean squares v; directions in which they do not vary are left out."""
        pearson = self._pearson
        covariance = pearson.T @ (self.frequencies[:, None] * pearson) / (self.n - self.Z.shape[1])
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
        weight = (self.frequencies * self.variances)[:, None]
        return np.asarray(
            np.linalg.pinv(self.Z.T @ (weight * self.Z), rcond=_SINGULAR, hermitian=True), dtype=np.float64
        )

    def log_p(self, codes: Codes, n_levels: int) -> float:
        """Log p-value of a category."""
        if self.n - self.Z.shape[1] < 1.0:
            return 0.0
        m, cells = self.standardised.shape[1], Cells(self, codes, n_levels)
        mean, lost = cells.given_selected()
        variance = 2.0 * m * (cells.pairs - lost)
        if m == 0 or variance <= 1e-9 * cells.pairs:  # no level has two rows, or S leaves nothing of them
            return 0.0
        distance = (cells.statistic() - m * mean) / np.sqrt(variance)
        third = 8.0 * m * cells.triples + 4.0 * self.third_moment * cells.skewed_pairs
        skewness = max(third / (2.0 * m * cells.pairs) ** 1.5, _LEAST_SKEWNESS)
        df = 8.0 / skewness**2
        return float(chi2_log_sf(df + np.sqrt(2.0 * df) * distance, df))

    def rank(self, codes: Codes, n_levels: int) -> int:
        """How many dimensions a category adds to S: what varies within levels counts once."""
        cells = Cells(self, codes, n_levels)
        within = self.Z - (cells.sums(self.Z) / cells.count[:, None])[codes]
        left = np.linalg.eigvalsh(within.T @ (self.frequencies[:, None] * within) / self.n)
        return n_levels + int((left > COLLINEAR).sum()) - self.Z.shape[1]


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

        B = VZ(ZᵀVZ)⁻¹ZᵀV. With K the weights of the pairs these are −tr KB and tr(2KVKB − KBKB).
        """
        rows, a = self.rows, self.rows.frequencies[:, None]
        v, G = rows.variances[:, None], rows.inverse_information
        VZ = v * rows.Z
        KVZ = self.weight[self.codes][:, None] * (self.sums(VZ)[self.codes] - VZ)
        along = G @ ((a * VZ).T @ KVZ)
        lost = 2.0 * np.trace(G @ KVZ.T @ (a * v * KVZ)) - np.trace(along @ along)
        return -float(np.trace(along)), float(lost)
