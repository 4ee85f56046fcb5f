"""A fitted logistic model as the kernels see it, on all rows or on those that have most of the deviance."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import LogisticNull
from fbed.matrix.design import Design
from fbed.rules.p_values import Floats


class Null:
    """The fit as the kernels see it: G spans the model, orthonormal in the curvature of the active rows.

    It has all rows, or, where the others are out of the question altogether, those that are known. Coefficients on Z
    are `whitener` times those on G, and `free` are the directions that move no active row.
    """

    def __init__(self, kernel: LogisticNull) -> None:
        self.kernel = kernel
        self.columns: set[bytes] | None = None  # of the model on its rows, once somebody asks whether one is among them

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Rows of the data that are known."""
        return self.kernel.rows

    @cached_property
    def curvature(self) -> Floats:
        """Of every row of the data, 0 where it is idle or not known."""
        return self.kernel.curvature

    @cached_property
    def score(self) -> Floats:
        """The residual of every row of the data, 0 where it is idle or not known."""
        return self.kernel.score

    @cached_property
    def whitener(self) -> Floats:
        """Coefficients on Z of the columns of G."""
        return self.kernel.whitener

    @cached_property
    def free(self) -> Floats:
        """Coefficients on Z of orthonormal directions that move no active row."""
        return self.kernel.free

    @cached_property
    def basis(self) -> tuple[Floats, Floats]:
        """G on the rows that are known, and G times the curvature: what projections are computed with."""
        G = self.kernel.G
        curvature = self.curvature if len(G) == len(self.curvature) else self.curvature[self.rows]
        return G, G * curvature[:, None]

    def prepare(self) -> None:
        """What several threads are going to ask for."""
        _ = self.basis

    def brackets(self, block: Floats, critical: float, refine: bool) -> tuple[Floats, Floats, Floats]:
        """Bounds for the columns of a dense block, and the norm² left of each after the model."""
        G, weighted = self.basis
        known = block if len(self.rows) == len(block) else np.take(block.T, self.rows, axis=1).T
        projections = known.T @ weighted
        lower, upper, left, total = self.kernel.look(known, projections)
        rest = np.flatnonzero(upper > critical * (1.0 - 1e-9))
        if len(rest):
            orthogonal = known.T[rest] - projections[rest] @ G.T
            lower[rest], upper[rest], left[rest] = self.kernel.dense(
                orthogonal.T, total[rest], lower[rest], upper[rest], critical, refine
            )
        return lower, upper, left


def as_stored(design: Design, which: NDArray[np.int64], rows: NDArray[np.int64]) -> list[bytes]:
    """Columns of the matrix on some rows, as they are: two that are equal there have the same bytes."""
    p = len(design.center)
    block = design.matrix.gather(which, np.zeros(p), np.ones(p))
    return [column.tobytes() for column in np.take(block.T, rows, axis=1)]
