"""Score tests of all candidates from the sums of one pass over their columns.

At the fit on S, with residuals r and curvatures w of the rows, basis Z of the model, H = ZᵀwZ and g = Zᵀr (0 but for
rounding), the score statistic of a column x is

    gᵀH⁻¹g + (U − cᵀH⁻¹g)²/I,      U = Σrx,   c = Zᵀwx,   I = Σwx² − cᵀH⁻¹c.

All of it are products of x with vectors of the rows, so that blocks of rows are added up, and of a sparse column only
its entries are read. Where I is what cancellation has left of Σwx², or of a model without curvature in some direction,
the column is made orthogonal to the model instead, as every column is when all models are fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from fbed._kernels import fit_logistic
from fbed.matrix.row_blocks import RowBlocks
from fbed.models.base import Indices
from fbed.models.likelihoods.glm import Glm, GlmPoint
from fbed.models.likelihoods.likelihood import RegressionFit, evidence
from fbed.models.likelihoods.newton import JITTER, Maximum
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats

_EXACT, _CONVERGED = 1e-12, 1e-9  # squared Newton decrements
AT_ONCE = 4096  # columns
_CANCELLED = 1e-6  # part of a sum of squares that must be left of it
_WITHOUT_CURVATURE = 1e-7  # part of what columns have: less is rounding, where rows are as good as explained
_COLLINEAR = 1e-10  # part of a column, whatever the rows weigh, from which it is certain to be more than rounding


Products = Callable[[Indices, Callable[[slice], Floats], int], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Place:
    """A fit as columns beside it see it.

    Residual r, curvature w and wZ of every row, the root of H, g in its units, the trace of H, the largest curvature.
    """

    vectors: Floats
    root: Floats
    before: Floats
    trace: float
    most: float


@dataclass(frozen=True)
class Beside:
    """Columns beside a model.

    Slope U − cᵀH⁻¹g, Σwx², what the model leaves of that (I), what is typical of such sums, and whose I is sound.
    """

    slope: Floats
    own: Floats
    left: Floats
    typical: Floats
    known: NDArray[np.bool_]


class ScoredFit(RegressionFit):
    """A fit of a generalised linear model whose candidates are tested by their scores."""

    shares_rows = True

    def _maximise(self, start: Floats) -> Maximum:
        """By the kernel for two classes, where that arrives."""
        glm = cast(Glm, self.model.likelihood)
        if glm.can_separate:
            offset = None if glm.offset is None else np.ascontiguousarray(glm.offset[:, 0])
            found = fit_logistic(self.Z, glm.weights, glm.y, start[None], _EXACT, np.inf, offset)
            coefficients, _, deviance, _, decrement, separated, _ = found
            if decrement <= _CONVERGED and not separated:
                return Maximum(coefficients[:, None], np.array([deviance]), np.ones(1, dtype=bool))
        return super()._maximise(start)

    def gains(self, candidates: Indices) -> Evidence:
        """Evidence for adding each candidate."""
        statistic, df = np.zeros(len(candidates)), np.zeros(len(candidates))
        single = np.flatnonzero(self.model.design.varying[candidates])
        for start in range(0, len(single), AT_ONCE):
            some = single[start : start + AT_ONCE]
            statistic[some], known = self._scores(candidates[some])
            df[some[known]] = 1.0
        rest = np.flatnonzero(df == 0.0)
        if len(rest):
            careful = super().gains(candidates[rest])
            statistic[rest], df[rest] = careful.statistic, careful.df
        return evidence(statistic, df)

    @cached_property
    def _place(self) -> Place | None:
        """What all candidates share; None where some direction of the model has hardly any curvature."""
        point = cast(GlmPoint, self.model.likelihood.at(self.columns, self.parameters[:, None]))
        residual, curvature = point.residual(), point.curvature()
        weighted = curvature * self.Z
        H = self.Z.T @ weighted
        root = _root(H)
        if root is None:
            return None
        before = solve_triangular(root, self.Z.T @ residual[:, 0], lower=True)
        return Place(
            np.hstack([residual, curvature, weighted]), root, before, float(np.trace(H)), float(curvature.max())
        )

    def _scores(self, candidates: Indices) -> tuple[Floats, NDArray[np.bool_]]:
        """Score statistics of single columns, and whose are right.

        The least curvature that a fitted model would be given is added here as well.
        """
        place = self._place
        if place is None:
            return np.zeros(len(candidates)), np.zeros(len(candidates), dtype=bool)
        beside = self._beside(place, candidates, RowBlocks(self.model.design).products_beside_a_constant)
        own = np.where(beside.known, beside.left + JITTER * beside.typical, 1.0)
        statistic = place.before @ place.before + beside.slope**2 / own
        return statistic * self.model.likelihood.precision(np.array([self.deviance])), beside.known

    def _beside(self, place: Place, candidates: Indices, products: Products) -> Beside:
        """What the model leaves of single columns, from their products with vectors of the rows."""
        sums, own = products(candidates, lambda part: place.vectors[part], place.vectors.shape[1])
        white = solve_triangular(place.root, sums[:, 2:].T, lower=True)
        left = own - np.einsum("ij,ij->j", white, white)
        typical = (place.trace + own) / (len(place.root) + 1)
        known = (left > _CANCELLED * own) & (left > _WITHOUT_CURVATURE * typical)
        known &= left > _COLLINEAR * place.most * self.model.design.n
        return Beside(sums[:, 0] - place.before @ white, own, left, typical, known)


def _root(H: Floats) -> Floats | None:
    """Lower triangle with H = LLᵀ; None where some direction has hardly any curvature."""
    scale = np.sqrt(np.maximum(np.diag(H), 1e-300))
    try:
        L: NDArray[Any] = np.linalg.cholesky(H / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return None
    return None if (np.diag(L) ** 2).min() < _CANCELLED else scale[:, None] * L
