"""Who is certain to fail, from some of the rows: a dual point may leave the means of all others where they are.

Let x̃ be what the model leaves of a column x on the first rows alone, in the metric of their curvature aw, left = Σ awx̃²
over them, and U the score of x over all rows. With f the step that the fit itself has left, N its length and κ the
largest row norm of the basis, the means μ + w(f + v), v = x̃U/left on those rows and 0 on the others, satisfy the
equations of the maximum. So, as with all rows,

    LR  ≤  (U²/left + N²)·P(−max|v| − κN).

`left` is smaller, by about the share of the rows, and so is the price of projections. The score tells who has that much
room: most of those who are irrelevant, the more so the more rows there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed._kernels import squares_and_reach
from fbed.matrix.design import Design
from fbed.models.engines.bound_functions import P
from fbed.models.engines.fitted_logistic import Null
from fbed.rules.p_values import Floats

_SHARES = (0.125, 0.25, 0.5)  # of the rows
_MANY_VALUES = 2**23  # of all candidates, for it to be worth it
_ROWS_A_COLUMN = 10  # of a part, for every column of the model: else too little is left of any x
_PIVOT = 1e-3  # of the information that a part has of the model, below which it is not used
_ROOM = 0.8  # part of the critical value, and of the longest step, that a guess may come to
_SLACK = 1e-9  # rounding of sums, relative
_CANCELLED = 1e-2  # part of a column that must be left, for one pass to tell how much it is
_SHIFTED = 1e3  # scales that the centre of a column may be away, for one pass to tell its score


@dataclass(frozen=True)
class Part:
    """The first rows: their curvature, a basis of the model times that, orthonormal on them, and its row norms."""

    curvature: Floats
    weighted: Floats
    length: Floats

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.curvature)

    @classmethod
    def of(cls, basis: Floats, curvature: Floats) -> Part | None:
        """None where these rows tell next to nothing about some direction of the model."""
        information = basis.T @ (curvature[:, None] * basis)
        try:
            lower = linalg.cholesky(information, lower=True)
        except linalg.LinAlgError:
            return None
        if np.diag(lower).min() ** 2 <= _PIVOT:  # the whole has 1 everywhere
            return None
        own = linalg.solve_triangular(lower, basis.T, lower=True).T
        return cls(np.ascontiguousarray(curvature), curvature[:, None] * own, np.sqrt(np.einsum("ij,ij->i", own, own)))


class SomeRows:
    """Upper bounds for many dense columns from parts of the rows, beside one fitted model."""

    def __init__(self, design: Design, null: Null, parts: list[Part], n_weighted: float) -> None:
        self.design, self.null, self.parts = design, null, parts
        self._most = 0.25 * n_weighted * (1.0 + 1e-6)  # Σ awx² of a standardised column

    @classmethod
    def of(cls, design: Design, null: Null, n_candidates: int) -> SomeRows | None:
        """None where the model does not know all rows, or there is little to look at."""
        n = design.n_rows
        if design.is_sparse or design.by_support or n * n_candidates < _MANY_VALUES or len(null.rows) < n:
            return None
        if null.kernel.idle_cost > 0.0 or not null.curvature.all():
            return None
        G = null.basis[0]
        sizes = [m for m in (int(share * n) for share in _SHARES) if m >= _ROWS_A_COLUMN * G.shape[1]]
        found = [Part.of(G[:m], null.curvature[:m]) for m in sizes]
        parts = [part for part in found if part is not None]
        return cls(design, null, parts, float(design.weights.sum())) if parts else None

    def upper(self, which: NDArray[np.int64], critical: float) -> Floats:
        """Upper bounds for columns of the matrix; inf for those for whom all rows are needed."""
        design, out = self.design, np.full(len(which), np.inf)
        center, scale = design.center[which], design.scale[which]
        still = np.flatnonzero((np.abs(center) < _SHIFTED * scale) & ~design.mostly_zero[which])
        which, center, scale = which[still], center[still], scale[still]
        along = (design.matrix.dots(which, self.null.score) - center * self.null.score.sum()) / scale
        score = np.abs(along) + self.null.kernel.short * np.sqrt(self._most)
        reach = np.maximum(center - design.low[which], design.high[which] - center) / scale
        left_out = np.ones(len(still), dtype=bool)
        for part in self.parts:
            hopeful = np.flatnonzero(left_out & self._has_room(part, score, reach, critical))
            left_out[hopeful] = False
            size = max(8, design.block_size * design.n_rows // part.n_rows)
            for start in range(0, len(hopeful), size):
                some = hopeful[start : start + size]
                out[still[some]] = self._upper(part, which[some], score[some])
        return out

    def _has_room(self, part: Part, score: Floats, reach: Floats, critical: float) -> NDArray[np.bool_]:
        """Whether a column that has nothing in common with the model would be certain to fail."""
        rank = part.weighted.shape[1]
        delta = score / (float(part.curvature.sum()) * (1.0 - rank / part.n_rows))
        step = delta * (reach + float(part.length.max()) * np.sqrt(rank))
        return np.asarray((step < _ROOM) & (score * delta * P(-np.minimum(step, 1.0)) < _ROOM * critical))

    def _upper(self, part: Part, which: NDArray[np.int64], score: Floats) -> Floats:
        design, kernel = self.design, self.null.kernel
        block = design.matrix.gather_rows(which, design.center, design.scale, 0, part.n_rows, False)
        projections = block.T @ part.weighted
        own, furthest = squares_and_reach(block, projections, part.curvature, part.length)
        left = own - np.einsum("ij,ij->i", projections, projections)
        sound = left > _CANCELLED * own
        delta = score / np.where(sound, left, 1.0)
        back = -(delta * furthest + kernel.reach * kernel.short)
        sound &= back > -1.0
        bound = (score * delta + kernel.short**2) * P(np.maximum(back, -1.0)) * (1.0 + _SLACK)
        return np.where(sound, np.minimum(bound, kernel.deviance), np.inf)
