"""What S leaves of candidates: scores, information and reach, found where the products are, with room for rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fbed.models.base import Indices
from fbed.rules.tails import Floats


@dataclass(frozen=True)
class Projected:
    """Of candidates that are single columns, given S.

    `score` is xᵀr less what S has of it, `left` the part of their information `own` that S leaves, `spread` how far a
    unit step of x can move the model's columns at any row, Σ|γ|·reach. Rounding may have moved them by `by_score`,
    `by_left` and `by_spread`. `gamma` gives the coefficients of some on the model's columns.
    """

    score: Floats
    left: Floats
    own: Floats
    spread: Floats
    gamma: Callable[[Indices], Floats]
    by_score: Floats | float = 0.0
    by_left: Floats | float = 0.0
    by_spread: Floats | float = 0.0

    @property
    def least_left(self) -> Floats:
        """What S leaves at least."""
        return self.left - self.by_left

    @property
    def steps(self) -> Floats:
        """One Newton step of each by itself."""
        return self.score / np.where(self.left > 0.0, self.left, 1.0)
