"""Counts: intervals from the maximum along a column alone.

A word of few documents moves few rows, but those far: from the fit on S one Newton step tells little of them. So a
kernel first maximises along the column alone, which only the rows take part in where it is not 0, and encloses the
likelihood ratio by a Newton step from there (see `counts.hpp`). Only what that leaves open is fitted, from where that
step leads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from fbed._kernels import CountedRows
from fbed.models.base import Indices, Span, single_columns
from fbed.models.engines.neighbours import NeighbourlyFit, standardised_zeros
from fbed.models.likelihoods.glm import Glm
from fbed.models.likelihoods.likelihood import RegressionFit, RegressionModel
from fbed.rules.p_values import Floats

_IDLE = 1e-8  # mean of a row without a count that is as good as 0
_KEPT = 1e-8  # curvature, beside the largest, of directions in which the means of other rows move
_GONE = 1e-6  # how far all counts together may move in the directions that are left out


@dataclass(frozen=True)
class _Whitened:
    """Rows of the fit on S in coordinates in which its Hessian is the identity; idle rows count as having no mean."""

    rows: Floats
    kernel: CountedRows


class CountsFit(NeighbourlyFit):
    """A Poisson model."""

    def __init__(self, model: RegressionModel, span: Span, near: RegressionFit | None = None) -> None:
        self._ends: dict[int, Floats] = {}  # about where models with one variable more have their maximum
        super().__init__(model, span, near)

    def _narrowed(self, candidates: Indices, lower: Floats, upper: Floats, line: Floats) -> tuple[Floats, Floats]:
        """Intervals from the maximum along each column."""
        known = self._whitened
        if known is None:
            return lower, upper
        columns, zero = self._raw(candidates)
        low, high, ends = known.kernel.enclose(columns, zero)
        self._ends.update((v, ends[:, j]) for j, v in enumerate(candidates.tolist()) if ends[-1, j] != 0.0)
        return np.maximum(lower, low), np.minimum(upper, high)

    def _raw(self, candidates: Indices) -> tuple[Floats, Floats]:
        """Standardised columns, and what an entry of 0 has become in them."""
        columns = np.asfortranarray(single_columns(self.model.design, candidates))
        return columns, standardised_zeros(self, candidates, columns)

    def _moves(self, candidates: Indices) -> Floats | None:
        known = self._whitened if self._ends else None
        if known is None:
            return None
        out = np.zeros((len(self.Z), len(candidates)))
        some = [j for j, v in enumerate(candidates.tolist()) if v in self._ends]
        if some:
            ends = np.column_stack([self._ends[int(v)] for v in candidates[some]])
            columns, zero = self._raw(candidates[some])
            out[:, some] = known.rows @ ends[:-1] + (columns - zero) * ends[-1]
        return out

    @cached_property
    def _whitened(self) -> _Whitened | None:
        """None where some direction moves hardly anything, and yet more than idle rows."""
        glm = cast(Glm, self.model.likelihood)
        mean = glm.at(self.columns, self.parameters[:, None]).transformed[:, 0]
        idle = (glm.y == 0.0) & (mean < _IDLE)
        if not np.isfinite(mean).all():
            return None
        weight = np.where(idle, 0.0, glm.weights * mean)
        curvature, directions = np.linalg.eigh(self.Z.T @ (weight[:, None] * self.Z))
        kept = curvature > _KEPT * curvature[-1]
        counts = float(glm.weights @ (glm.y + mean))
        if not kept.any() or np.abs(self.Z[~idle] @ directions[:, ~kept]).max(initial=0.0) * counts > _GONE:
            return None
        coordinates = directions[:, kept] / np.sqrt(curvature[kept])
        rows = self.Z @ coordinates
        return _Whitened(rows, CountedRows(rows, glm.weights, mean, glm.y, idle))
