"""Products of candidates with vectors of the rows, of which some are weights that the candidates' own squares take."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fbed._kernels import sums_by_level
from fbed.matrix.row_blocks import Indices, RowBlocks, Sums
from fbed.rules.p_values import Floats

Vectors = Callable[[slice], Floats]


def products_of_singles(
    blocks: RowBlocks, candidates: Indices, vectors: Vectors, weights: slice, width: int
) -> tuple[Floats, Floats]:
    """XᵀV of single columns, and Σ v·x² of those of the vectors that are weights; a row a candidate."""
    where = blocks.design.positions(candidates)

    def work(part: slice) -> Sums:
        X, V = blocks.gather(where, part), vectors(part)
        along = X.T @ V
        return along, np.multiply(X, X, out=X).T @ V[:, weights]

    along, own = blocks.summed(work, width + len(where))
    return along, own


def products_of_group(
    blocks: RowBlocks, variable: int, vectors: Vectors, weights: slice, width: int
) -> tuple[Floats, Floats]:
    """XᵀV of the columns of one variable, and XᵀvX for every weight v."""
    codes = blocks.codes(variable)
    if codes is None:
        return _of_columns(blocks, variable, vectors, weights, width)
    levels = blocks.values_of_levels(variable)

    def work(part: slice) -> Sums:
        V = vectors(part)
        return (sums_by_level(codes[part], levels.shape[1], np.ones(len(V)), V),)

    (sums,) = blocks.summed(work, width)
    return levels @ sums, np.stack([(levels * w) @ levels.T for w in sums[:, weights].T])


def _of_columns(
    blocks: RowBlocks, variable: int, vectors: Vectors, weights: slice, width: int
) -> tuple[Floats, Floats]:
    def work(part: slice) -> Sums:
        X, V = blocks.variable(variable, part), vectors(part)
        return X.T @ V, np.stack([X.T @ (w[:, None] * X) for w in V[:, weights].T])

    along, own = blocks.summed(work, width + 2 * int(blocks.design.width[variable]))
    return along, own


def moved_by(Z: Floats, steps: Floats) -> Floats:
    """Z times steps, a column each, column after column."""
    return (steps.T @ Z.T).T


def add_steps(x: Floats, step: Floats, to: Floats) -> None:
    """x times a step, column after column."""
    if x.shape[1] > 1:
        to += x @ step
        return
    for column, size in zip(to.T, step[0].tolist(), strict=True):
        column += x[:, 0] * size


def values_of(blocks: RowBlocks, variables: Indices) -> Callable[[slice], Iterator[Floats]]:
    """What reads the columns of some variables, one variable after another, of some rows."""
    singles = blocks.design.varying[variables]
    where = blocks.design.positions(variables[singles])
    place = np.cumsum(singles) - 1

    def read(part: slice) -> Iterator[Floats]:
        together = blocks.gather(where, part)
        for i, variable in enumerate(variables.tolist()):
            yield together[:, place[i] : place[i] + 1] if singles[i] else blocks.variable(variable, part)

    return read
