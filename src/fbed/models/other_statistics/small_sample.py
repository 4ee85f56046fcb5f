"""Robust Wald tests that hold their level with few clusters: a jackknife variance and an F distribution that knows it.

In coordinates where the information of the whole model is I, a cluster c has the share G_c of it and the score s_c:

    F_c = (I − G_c)⁻¹,   z_c = EᵀF_c s_c,   V = Σ_c z_c z_cᵀ,   T² = θ̂ᵀV⁻¹θ̂

with E the last q coordinates, those that are tested. z_c is what the estimate changes by when the cluster is left out,
so that V is the variance of the jackknife: CR3, that of Mancl and DeRouen for estimating equations, HC3 when clusters
are rows. V is a sum of a few squares and varies itself. Were the working model true, z_c and z_d would have the
covariances

    K_cc = EᵀT_c,   K_cd = −T_cᵀT_d,   T_c = F_c E − E

from which V is matched with a Wishart matrix of η degrees of freedom (Bell and McCaffrey; Pustejovsky and Tipton):

    η = q(q + 1)/Σ_{c,d} [(tr K_cd)² + tr K_cd²]  with ΣK_cc = I,   T²·(η − q + 1)/(ηq) ~ F(q, η − q + 1).

Counts and positive numbers spread with their mean, and clusters whose means differ for reasons of their own differ in
spread: a few of them may be most of V. With a log link, clusters have a dispersion of their own.

A predictor that differs between a few clusters only has a small η. What a single cluster shows alone (G_c has the
eigenvalue 1) cannot be told from an effect of that cluster: such a direction is not tested, and p = 1 where no other is
left, or where η − q + 1 is not above 0.

Candidates have different η. They are compared by their p-values: the statistics given here are those of χ² with q
degrees of freedom that have the same p-value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbed.rules.p_values import Floats, chi2_of_log_p, f_log_sf

FULL_LEVERAGE = 1.0 - 1e-9
"""From here on a cluster, or a row, is the only one to show an effect."""

_BALANCED = 1e-3  # part of the absolute scores that is left of their sum: far less at a solution, most at infinity
_BLOCK_VALUES = 2**19  # four megabytes
_RIDGE = 1e-12  # keeps singular directions finite
_SINGULAR = 1e7  # a solution beyond this has met one
_ONE_BY_ONE = 4  # clusters that are paired with every other one by one


@dataclass(frozen=True)
class Shares:
    """What every cluster has of the information and of the score of some models.

    `information` is models × clusters × K × K and `scores` models × clusters × K; `estimate` (models × q) holds the
    last coefficients of every model, those that are tested. `dispersion` (models × clusters) is the variance of a
    cluster's rows over that of the working model, up to a factor; None where all have the same.
    """

    information: Floats
    scores: Floats
    estimate: Floats
    dispersion: Floats | None = None

    def orthonormal(self) -> Shares:
        """The same in coordinates where the information of the whole is I; those that are tested are still the last."""
        whole = self.information.sum(axis=1)
        scale = 1.0 / np.sqrt(np.maximum(np.einsum("bii->bi", whole), 1e-300))
        lower = np.linalg.cholesky(whole * scale[:, :, None] * scale[:, None] + _RIDGE * np.eye(whole.shape[1]))
        change = np.linalg.inv(lower) * scale[:, None]
        q = self.estimate.shape[1]
        return Shares(
            change[:, None] @ self.information @ change[:, None].swapaxes(2, 3),
            self.scores @ change.swapaxes(1, 2),
            np.einsum("bji,bj->bi", lower[:, -q:, -q:], self.estimate / scale[:, -q:]),
            self.dispersion,
        )

    def left_out(self, changes: Floats, spread: Floats, own: Floats) -> LeftOut:
        """The same with K_cd as the clusters' own dispersions φ have it, about √(φ_c φ_d) times what it would be."""
        if self.dispersion is None:
            return LeftOut(changes, spread, own)
        factor = self.dispersion[:, :, None, None]
        return LeftOut(changes, np.sqrt(factor) * spread, factor * own)


@dataclass(frozen=True)
class LeftOut:
    """What leaving clusters out does to the tested estimates of some models; see the head of this module.

    `changes` are the z_c (models × clusters × q), `spread` the T_c (models × clusters × K × q) and `own` the K_cc.
    """

    changes: Floats
    spread: Floats
    own: Floats

    def log_p(self, estimate: Floats) -> Floats:
        """Log p-value of every model."""
        q = estimate.shape[1]
        known, root = inverse_root(self.own.sum(axis=1))
        pairs = _pairs(self.spread @ root[:, None], root[:, None] @ self.own @ root[:, None])
        one = np.ones(self.changes.shape[1])
        return log_p_of(estimate, self.changes, one, q * (q + 1.0) / np.where(known, pairs, 1.0), known)


def inverse_root(omega: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Which of some symmetric matrices can be inverted, and the roots of their inverses."""
    value, vectors = np.linalg.eigh(omega)
    known = value[:, 0] > 1e-12 * value[:, -1]
    return known, (vectors / np.sqrt(np.where(known[:, None], value, 1.0))[:, None]) @ vectors.swapaxes(1, 2)


def _pairs(spread: Floats, own: Floats) -> Floats:
    """Σ_{c,d} [(tr K_cd)² + tr K_cd²] with K_cd = T_cᵀT_d for different clusters.

    Sums of products tell it for all pairs of clusters at once, each with itself, too, which is taken out again. What is
    taken out of a cluster that has nearly all the weight would leave rounding: the largest are paired one by one.
    """
    large, small, times = large_and_small((spread**2).sum(axis=(2, 3)).max(axis=0), np.ones(spread.shape[1]))
    found = _squares(own).sum(axis=1) + _pairs_among(spread[:, small])
    product = spread[:, large, None].swapaxes(3, 4) @ spread[:, None]  # models × large × all × q × q
    square = np.einsum("bcdss->bcd", product) ** 2 + np.einsum("bcdst,bcdts->bcd", product, product)
    return np.asarray(found + np.einsum("bcd,cd->b", square, times))


def large_and_small(size: Floats, copies: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Who is paired with every other one by one, the others, and how many pairs of large ones with each there are."""
    order = np.argsort(-size, kind="stable")
    large, small = order[:_ONE_BY_ONE], order[_ONE_BY_ONE:]
    times = copies[large, None] * copies
    times[:, small] *= 2.0
    times[np.arange(len(large)), large] -= copies[large]
    return large, small, times


def _pairs_among(spread: Floats) -> Floats:
    """The same for pairs of different clusters of about one size."""
    models, clusters, size, q = spread.shape
    flat = spread.reshape(models, clusters, size * q)
    moment = (flat.swapaxes(1, 2) @ flat).reshape(models, size, q, size, q)
    total = (moment**2 + moment * moment.swapaxes(2, 4)).sum(axis=(1, 2, 3, 4))
    return np.asarray(total - _squares(spread.swapaxes(2, 3) @ spread).sum(axis=1))


def _squares(matrices: Floats) -> Floats:
    """(tr K)² + tr K² of symmetric matrices."""
    return np.asarray(np.einsum("bcss->bc", matrices) ** 2 + np.einsum("bcst,bcst->bc", matrices, matrices))


def log_p_of(estimate: Floats, changes: Floats, copies: Floats, eta: Floats, known: NDArray[np.bool_]) -> Floats:
    """The F test of estimates whose variance is that of the changes, with η degrees of freedom."""
    q = estimate.shape[1]
    variance = changes.swapaxes(1, 2) @ (copies[:, None] * changes)
    if q == 1:
        square = np.where(variance[:, 0, 0] > 0, estimate[:, 0] ** 2, 0.0) / np.maximum(variance[:, 0, 0], 1e-300)
    else:
        square = np.einsum("bs,bst,bt->b", estimate, np.linalg.pinv(variance, hermitian=True), estimate)
    denominator = np.where(known, eta - q + 1.0, 0.0)
    return f_log_sf(square * denominator / (eta * q), q, denominator)


def single_tests(shares: Shares) -> Floats:
    """χ² statistics of models whose last coordinate is tested; 0 where it is infinite, or shows in one cluster only.

    With LLᵀ the information of the whole and l its last pivot, F_cE = l·Lᵀ(LLᵀ − G_c)⁻¹E in the old coordinates: one
    system a cluster is all that has to be solved.
    """
    size = shares.scores.shape[2]
    unit = np.eye(size)[:, -1:]
    whole = shares.information.sum(axis=1)
    whole += _RIDGE * np.eye(size) * whole + 1e-300 * np.eye(size)
    lower = np.linalg.cholesky(whole)
    pivot = lower[:, -1, -1]
    solved = np.linalg.solve(whole[:, None] - shares.information, unit)[:, :, :, 0] * pivot[:, None, None]
    spread = solved @ lower - unit[:, 0]
    own = np.linalg.solve(lower.swapaxes(1, 2), unit)  # takes what others explain out of a score
    testable = (np.abs(spread) < _SINGULAR).all(axis=(1, 2)) & balanced(shares.scores @ own)
    spread = np.where(testable[:, None, None], spread, 0.0)
    changes = np.einsum("bci,bci->bc", shares.scores, solved)
    left_out = shares.left_out(changes[:, :, None], spread[:, :, :, None], spread[:, :, -1:, None])
    return chi2_of_log_p(left_out.log_p(pivot[:, None] * shares.estimate), 1.0)


def dispersions(squares: Floats, rows: Floats) -> Floats:
    """Mean squares of clusters over those of all, models × clusters, from their sums and numbers of rows.

    They are drawn together as means of so few squares must be, if they truly differed by about their own size.
    """
    mean = squares.sum(axis=1, keepdims=True) / rows.sum()
    ratio = squares / np.maximum(rows * mean, 1e-300)
    return np.asarray(1.0 + (ratio - 1.0) * rows / (rows + 2.0))


def balanced(scores: Floats) -> NDArray[np.bool_]:
    """Whether the scores of clusters cancel in every model, as they do unless an estimate is infinite."""
    return np.asarray((np.abs(scores.sum(axis=1)) <= _BALANCED * np.abs(scores).sum(axis=1)).all(axis=1))


def group_test(shares: Shares) -> float:
    """χ² statistic, with as many df as coordinates are tested, of the one model in `shares`."""
    own = shares.orthonormal()
    q = own.estimate.shape[1]
    if not balanced(own.scores[:, :, -q:])[0]:
        return 0.0
    value, vectors = np.linalg.eigh(np.eye(own.scores.shape[2]) - own.information[0])
    alone = value <= 1.0 - FULL_LEVERAGE
    tested = testable_directions(vectors.swapaxes(1, 2)[alone][:, -q:], q)
    inverse = np.where(alone, 0.0, 1.0 / np.where(alone, 1.0, value))
    solved = (vectors * inverse[:, None]) @ (vectors[:, -q:].swapaxes(1, 2) @ tested)
    spread = solved.copy()
    spread[:, -q:] -= tested
    changes = np.einsum("ci,cis->cs", own.scores[0], solved)
    left_out = own.left_out(changes[None], spread[None], (tested.T @ spread[:, -q:])[None])
    return group_statistic(left_out, own.estimate @ tested, q)


def group_statistic(left_out: LeftOut, estimate: Floats, df: int) -> float:
    """χ² statistic with df degrees of freedom and the p-value of the directions that are tested; 0 without any."""
    return float(chi2_of_log_p(left_out.log_p(estimate), float(df))[0]) if estimate.shape[1] else 0.0


def testable_directions(alone: Floats, q: int) -> Floats:
    """Orthonormal columns orthogonal to the rows of `alone`, what single clusters show of the q tested coordinates."""
    if len(alone) == 0:
        return np.eye(q)
    _, value, rows = np.linalg.svd(alone)
    return np.asarray(rows[int((value > 1e-6).sum()) :].T)


class Projected:
    """The clusters of a linear model on S: what is the same for all candidates, so that each costs clusters × k².

    `basis` is orthonormal, n × k; `sums` adds the rows of every cluster.
    """

    def __init__(self, basis: Floats, sums: Callable[[Floats], Floats]) -> None:
        self.basis, self.sums = basis, sums
        size = basis.shape[1]
        shares = np.stack([sums(basis * column[:, None]) for column in basis.T], axis=1)
        value, vectors = np.linalg.eigh(np.eye(size) - shares)
        alone = value <= 1.0 - FULL_LEVERAGE  # directions of S that are orthogonal to whatever is left of a candidate
        self.inverse = (vectors * np.where(alone, 0.0, 1.0 / np.where(alone, 1.0, value))[:, None]) @ vectors.swapaxes(
            1, 2
        )

    def tests(self, unit: Floats, residual: Floats) -> Floats:
        """χ² statistics of candidates, whose columns are unit vectors orthogonal to the basis."""
        on_basis = self.sums(self.basis * residual[:, None])
        parts = [
            self._some(unit[:, some], residual, on_basis)
            for some in blocks(unit.shape[1], len(on_basis) * (self.basis.shape[1] + 1))
        ]
        return np.concatenate(parts)

    def _some(self, unit: Floats, residual: Floats, on_basis: Floats) -> Floats:
        estimate = unit.T @ residual
        cross = np.stack(
            [self.sums(unit * column[:, None]) for column in self.basis.T], axis=2
        )  # clusters × models × k
        through = cross @ self.inverse
        share = self.sums(unit**2)
        kept = 1.0 - share - np.einsum("cbi,cbi->cb", cross, through)
        full = kept <= 1.0 - FULL_LEVERAGE
        kept = np.where(full, 1.0, kept)
        own_score = self.sums(unit * residual[:, None]) - share * estimate
        scores = on_basis[:, None] - cross * estimate[:, None]
        changes = (own_score + np.einsum("cbi,cbi->cb", scores, through)) / kept
        spread = np.concatenate([through / kept[:, :, None], (1.0 / kept - 1.0)[:, :, None]], axis=2).swapaxes(0, 1)
        left_out = LeftOut(changes.T[:, :, None], spread[:, :, :, None], spread[:, :, -1:, None])
        return np.where(full.any(axis=0), 0.0, chi2_of_log_p(left_out.log_p(estimate[:, None]), 1.0))


def jackknife_covariance(shares: Shares) -> Floats:
    """Σ_c δ_cδ_cᵀ, δ_c what all the coefficients of the one model in `shares` change by without cluster c."""
    whole = shares.information[0].sum(axis=0)
    keep = whole - shares.information[0]
    changes = np.einsum("cij,cj->ci", np.linalg.pinv(keep, rcond=1.0 - FULL_LEVERAGE, hermitian=True), shares.scores[0])
    return np.asarray(changes.T @ changes)


def blocks(count: int, values: int, least: int = 1) -> Iterator[slice]:
    """Some of the models at a time, `least` or more, so that arrays of so many values a model stay small."""
    size = max(least, _BLOCK_VALUES // max(values, 1))
    return (slice(first, first + size) for first in range(0, count, size))
