"""Who cannot be best, from scores alone: what S leaves of a candidate has bounds by products under earlier weights.

Let the weights of the rows be w in the model at hand and a in one of before, ρ·a ≤ w ≤ σ·a. Then

    ρ·left_a(x)  ≤  left(x)  ≤  σ·left_a(x),      left_a(x) = min_γ Σ a(x − Zγ)²,

since the minimum of a sum that is larger is larger; for proportional hazards the same holds with the probabilities of
those at risk, which change by the ratio of the least and the largest change of a hazard. The products with a that
left_a takes are found once for every variable that has entered since. So a step of the search reads every candidate for
its score and its product with one column, instead of multiplying all of them with all columns of the model under new
weights. On the way,

    |γᵀg| ≤ √own·N,      |zᵀγ| ≤ √own·√(reachᵀ|H⁻¹|reach).

When the weights have changed so much that the bounds tell little, products are taken anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np
from scipy import linalg

from fbed.matrix.design import Design
from fbed.models.base import Indices
from fbed.models.engines.projection import Projected
from fbed.models.engines.tall.row_sums import Looked
from fbed.rules.p_values import Floats

_MANY = 64  # candidates from which it pays
_LARGE = 3  # variables of the model from which it does
_EVEN = 0.05  # part of the largest ratio of weights that the least must have
_MOST_LEFT = 0.25  # part of the candidates that may be left in doubt before products are taken anew
_ROUNDING = 1e-9  # of sums of products
_CONSTANT = -1


class EarlierVerbs(Protocol):
    """What a family tells about its rows under the weights of another model."""

    design: Design
    constant: bool

    def change(self, before: Any, rows: Any) -> tuple[float, float]:
        """Bounds on what the information of any column is of that of before."""

    def scores(self, before: Any, rows: Any, selected: Sequence[int], candidates: Indices) -> tuple[Floats, Floats]:
        """Scores of now, and the information of before with the columns of S."""

    def look(self, rows: Any, selected: Sequence[int], candidates: Indices) -> Looked:
        """Products of candidates that are single columns of numbers."""


@dataclass(frozen=True)
class Before:
    """A state of the rows, the sum of its weights, and products under it: of each column with itself and with some."""

    rows: Any
    total: float
    own: Floats
    known: dict[int, Floats]


class Screen:
    """Products of columns that are in the model with all columns, as they were when all were looked at."""

    def __init__(self, sums: EarlierVerbs) -> None:
        self.sums = sums
        self.everybody: Indices = np.flatnonzero(sums.design.varying)
        self._before: Before | None = None
        self._finding = Lock()

    def pays(self, selected: Sequence[int], candidates: Indices) -> bool:
        """Whether it is worth a pass over all columns."""
        many = len(candidates) >= max(_MANY, len(self.everybody) / 2)
        return many and len(selected) >= _LARGE and bool(self.sums.design.varying[list(selected)].all())

    def told(self, n_in_doubt: int, n_candidates: int) -> None:
        """How many it left in doubt: if they were many, products will be taken anew."""
        if n_in_doubt > _MOST_LEFT * n_candidates:
            self._before = None

    def look_at_all(self, rows: Any, selected: Sequence[int], candidates: Indices, total: float) -> Looked:
        """Products as they are, which are kept."""
        found = self.sums.look(rows, selected, self.everybody)
        with self._finding:
            self._before = Before(rows, total, found.own, dict(zip(self._names(selected), found.cross, strict=True)))
        at = self._places(candidates)
        return Looked(found.score[at], found.cross[:, at], found.own[at])

    def look(
        self, rows: Any, selected: Sequence[int], candidates: Indices, covariance: Floats, reach: Floats, short: float
    ) -> Projected | None:
        """What S leaves of candidates, with room for what is not known of it; None where that would be too much."""
        with self._finding:
            before = self._before
            if before is None:
                return None
            least, largest = self.sums.change(before.rows, rows)
            if not least > _EVEN * largest:
                return None
            new = [v for v in selected if v not in before.known]
            score, cross = self.sums.scores(before.rows, rows, new, self.everybody)
            before.known.update(zip(self._names(new), cross, strict=True))
        at = self._places(candidates)
        own, left = before.own[at], self._left(before, selected, at)
        if left is None:
            return None
        size = np.sqrt(largest * own)
        spread = size * float(np.sqrt(reach @ np.abs(covariance) @ reach))
        low, high = least * (left - _ROUNDING * own), largest * (left + _ROUNDING * own)
        room = size * (np.sqrt(short) + _ROUNDING)
        return Projected(score[at], (low + high) / 2, largest * own, spread, None, room, (high - low) / 2)

    def _left(self, before: Before, selected: Sequence[int], at: Indices) -> Floats | None:
        """left_a of the columns in some places; None where those of S are next to collinear."""
        cross = np.array([before.known[name] for name in self._names(selected)])
        inner = cross[:, self._places(np.array(selected, dtype=np.intp))]
        if self.sums.constant:
            inner = np.column_stack([np.concatenate([[before.total], inner[0]]), inner])
        try:
            lower = linalg.cholesky(inner, lower=True)
        except linalg.LinAlgError:
            return None
        W = linalg.solve_triangular(lower, cross[:, at], lower=True)
        return np.asarray(before.own[at] - np.einsum("ij,ij->j", W, W))

    def _names(self, variables: Sequence[int]) -> list[int]:
        """Of the columns that a model of some variables has."""
        return [_CONSTANT, *variables] if self.sums.constant else list(variables)

    def _places(self, variables: Indices) -> Indices:
        return np.searchsorted(self.everybody, variables)
