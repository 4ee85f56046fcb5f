"""The tests of `small_sample` where every row is a cluster of its own (HC3).

The share of a row in the information is G_i = q_i q_iᵀ, of rank one, so that T_i = q_i f_iᵀ: no system has to be
solved, and what degrees of freedom need of two rows is q_i·q_j and f_i·f_j. A row may stand for several copies.
"""

from __future__ import annotations

import numpy as np

from fbed.clock import check_time
from fbed.models.likelihoods.newton import Columns
from fbed.models.long_products import times, weighted_inner
from fbed.models.other_statistics.small_sample import (
    FULL_LEVERAGE,
    blocks,
    inverse_root,
    large_and_small,
    log_p_of,
    testable_directions,
)
from fbed.rules.p_values import Floats, chi2_of_log_p

_ROWS = 128  # whose products are added up together, or more: the sum is far larger, and takes as long to go through
_ELEMENTWISE = 100  # multiplications of a product of matrices that take as long as going through what a pair has


def single_tests(Q: Floats, unit: Floats, residual: Floats, copies: Floats) -> Floats:
    """χ² statistics of candidates when rows are clusters: G_i = q_i q_iᵀ, and nothing has to be solved.

    `Q` and `unit` are rows of the orthonormal basis and of every candidate's own column, for one copy of each row.
    """
    leverage = (Q**2).sum(axis=1)[:, None] + unit**2
    full = leverage > FULL_LEVERAGE
    factor = unit / np.where(full, 1.0, 1.0 - leverage)  # T_i = q_i·factor_i
    own = unit * factor
    moment = Columns(Q).with_own(unit).gram(copies[:, None] * factor**2)
    total = copies @ own
    pairs = (moment**2).sum(axis=(1, 2)) + copies @ (own**2 - (factor**2 * leverage) ** 2)
    known = ~(full & (np.abs(unit) > 1e-9)).any(axis=0) & (total > 0.0)
    eta = np.where(known, total**2 / np.where(known, pairs, 1.0), 1.0)
    estimate = (copies @ (unit * residual))[:, None]
    left = residual - unit * estimate[:, 0]
    return chi2_of_log_p(log_p_of(estimate, (factor * left).T[:, :, None], copies, eta, known), 1.0)


def group_test(basis: Floats, residual: Floats, estimate: Floats, copies: Floats) -> float:
    """χ² statistic of the last columns of an orthonormal basis, in rows of one copy each, when rows are clusters.

    As for single columns, T_i = q_i·f_iᵀ: no K × q matrix of a row is needed.
    """
    q = len(estimate)
    check_time()
    leverage = (basis**2).sum(axis=1)
    full = leverage > FULL_LEVERAGE
    check_time()
    tested = testable_directions(basis[full, -q:], q)
    df = tested.shape[1]
    if df == 0:
        return 0.0
    own = times(basis[:, -q:], tested)
    factor = own / np.where(full, 1.0, 1.0 - leverage)[:, None]
    known, root = inverse_root(weighted_inner(own, copies, factor)[None])
    scaled = times(factor, root[0])
    each = (times(own, root[0]) * scaled).sum(axis=1)
    pairs = 2.0 * (copies @ each**2 + _row_pairs(basis, scaled, copies))
    eta = np.where(known, df * (df + 1.0) / np.where(known, pairs, 1.0), 1.0)
    log_p = log_p_of(estimate[None] @ tested, (factor * residual[:, None])[None], copies, eta, known)
    return float(chi2_of_log_p(log_p, float(q))[0])


def _row_pairs(Q: Floats, F: Floats, copies: Floats) -> float:
    """Σ (q_c·q_d)²(f_c·f_d)² over pairs of different rows, copies of a row among them; the largest one by one."""
    size = (Q**2).sum(axis=1) * (F**2).sum(axis=1)
    large, small, times = large_and_small(size, copies)
    check_time()
    square = ((Q[large] @ Q.T) * (F[large] @ F.T)) ** 2
    k, q, n = Q.shape[1], F.shape[1], len(small)
    among = _by_products if (k * q) ** 2 / 4 < n * (k + q + _ELEMENTWISE) else _by_pairs
    check_time()
    total = among(Q[small], F[small], copies[small]) - copies[small] @ size[small] ** 2
    return float(total + (square * times).sum())


def _by_products(Q: Floats, F: Floats, copies: Floats) -> float:
    """Σ over all pairs of rows, as the sum of squares of Σ_c (q_c⊗q_c)(f_c⊗f_c)ᵀ."""
    k, q = Q.shape[1], F.shape[1]
    moment = np.zeros((k * (k + 1) // 2, q * (q + 1) // 2))
    for rows in blocks(len(Q), k**2, _ROWS):
        check_time()
        moment += _products(Q[rows]).T @ (copies[rows, None] * _products(F[rows]))
    return float((moment**2).sum())


def _products(rows: Floats) -> Floats:
    """Products of the numbers of each row with each other; those of two different ones stand for both orders."""
    i, j = np.triu_indices(rows.shape[1])
    out = rows[:, i]
    out *= rows[:, j]
    out *= np.where(i < j, np.sqrt(2.0), 1.0)
    return out


def _by_pairs(Q: Floats, F: Floats, copies: Floats) -> float:
    """The same pair by pair."""
    total = 0.0
    for rows in blocks(len(Q), len(Q)):
        check_time()
        total += float(copies[rows] @ (((Q[rows] @ Q.T) * (F[rows] @ F.T)) ** 2 @ copies))
    return total
