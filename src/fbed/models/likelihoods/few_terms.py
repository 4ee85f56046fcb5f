"""Long sums by few terms: Gauss quadrature for sums over whole numbers.

    Σ_j c_j h(j)  =  Σ_k C_k h(x_k)       for every polynomial h of degree below 24, with 12 nodes x_k and weights C_k

The sums here are those of log(s + j), s ≥ 0, and of its derivatives in s. Nothing happens to such a function but at
−s ≤ 0, so that from j = a to 2a a polynomial follows it to 5.8⁻²⁴: below rounding, whatever s is. A sum up to a billion
has 30 such blocks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from fbed.rules.p_values import Floats

NODES = 12
_EXACT = 32  # so many terms at the beginning are kept as they are
_NARROW = 0.02  # a run of so small a part of what comes before it needs four nodes only: (.02/2)⁸ is rounding


@lru_cache(2**12)
def of_run(count: int) -> tuple[Floats, Floats]:
    """Nodes and weights for Σ h(j) over j = 0 … count − 1: all of the first terms, then a few for every block."""
    if count <= _EXACT:
        return np.arange(count, dtype=float), np.ones(count)
    parts = [(np.arange(_EXACT, dtype=float), np.ones(_EXACT))]
    start = _EXACT
    while start < count:
        nodes, weights = _of_block(min(start, count - start))
        parts.append((start + nodes, weights))
        start *= 2
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def of_counts(y: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Nodes and weights for Σ over rows of weight·Σ h(j) over j = 0 … y − 1."""
    levels, which = np.unique(y, return_inverse=True)
    # weight of the rows whose count is this level or more
    above: Floats = np.cumsum(np.bincount(which, weights)[::-1], dtype=float)[::-1]
    starts = np.concatenate([np.arange(_EXACT), _EXACT * 2.0 ** np.arange(64)])  # of single terms, then of blocks
    edges = np.unique(np.concatenate([[0.0], levels, starts[starts < levels[-1]]]))
    weight = above[np.searchsorted(levels, edges[1:])]  # of every run from one edge to the next
    nodes, node_weights = _of_runs(edges[:-1], np.diff(edges), weight)
    block = np.searchsorted(starts, nodes, side="right")
    parts = [(nodes[:0], nodes[:0])]
    parts += [_condensed(nodes[block == b], node_weights[block == b]) for b in np.unique(block)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _of_runs(first: Floats, count: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Nodes and weights of many runs of whole numbers that have a weight each."""
    short = count <= NODES
    narrow = ~short & (count <= _NARROW * first)
    length = count[short].astype(np.intp)
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    nodes, shares = _of_narrow(count[narrow])
    parts = [
        (np.repeat(first[short], length) + within, np.repeat(weight[short], length)),
        ((first[narrow] + nodes).ravel(), (weight[narrow] * shares).ravel()),
    ]
    for run in np.flatnonzero(~short & ~narrow):
        nodes, shares = _of_block(int(count[run]))
        parts.append((first[run] + nodes, weight[run] * shares))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _of_narrow(count: Floats) -> tuple[Floats, Floats]:
    """`_of_block` with four nodes, in closed form, for many runs at once."""
    b1, b2, b3 = (_recurrence(k, count) for k in (1.0, 2.0, 3.0))
    half, product = (b1 + b2 + b3) / 2.0, b1 * b3
    outer = half + np.sqrt(half**2 - product)
    square = np.array([outer, product / outer, product / outer, outer])  # of the nodes over the length of the run
    node = np.sqrt(square) * np.array([-1.0, -1.0, 1.0, 1.0])[:, None]
    norm = 1.0 + square / b1 + (square - b1) ** 2 / (b1 * b2) + square * (square - b1 - b2) ** 2 / (b1 * b2 * b3)
    return (count - 1.0) / 2.0 + count * node, count / norm


@lru_cache(2**12)
def _of_block(count: int) -> tuple[Floats, Floats]:
    """Nodes and weights for Σ h(j) over j = 0 … count − 1 of a function that is smooth there.

    The orthogonal polynomials of equally spaced points are Chebyshev's discrete ones; the nodes are the eigenvalues of
    the matrix of their recurrence (Golub and Welsch).
    """
    if count <= NODES:
        return np.arange(count, dtype=float), np.ones(count)
    nodes, vectors = eigh_tridiagonal(np.zeros(NODES), np.sqrt(_recurrence(np.arange(1.0, NODES), count)))
    return (count - 1.0) / 2.0 + count * nodes, count * vectors[0] ** 2


def _recurrence(k: Any, count: Any) -> Any:
    """Coefficients of the recurrence of Chebyshev's polynomials on `count` points, over the square of that length."""
    return k**2 * (1.0 - (k / count) ** 2) / (4.0 * (4.0 * k**2 - 1.0))


def _condensed(points: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The Gauss quadrature of a sum over given points, by the Lanczos iterations for its recurrence."""
    if len(points) <= NODES:
        return points, weights
    center, half, total = (points.max() + points.min()) / 2.0, np.ptp(points) / 2.0, float(weights.sum())
    t = (points - center) / half
    basis = np.sqrt(weights / total)[None]
    diagonal, beside = np.zeros(NODES), np.zeros(NODES)
    for k in range(NODES):
        new = t * basis[-1]
        diagonal[k] = float(basis[-1] @ new)
        for _ in range(2):
            new = new - basis.T @ (basis @ new)
        beside[k] = float(np.linalg.norm(new))
        if beside[k] < 1e-14:  # fewer points than nodes carry weight
            diagonal, beside = diagonal[: k + 1], beside[: k + 1]
            break
        basis = np.vstack([basis, new / beside[k]])
    nodes, vectors = eigh_tridiagonal(diagonal, beside[:-1])
    return center + half * nodes, total * vectors[0] ** 2
