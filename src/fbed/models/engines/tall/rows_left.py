"""Rows that a model has not explained for good, and what the others leave of sums over rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class RowsLeft:
    """Weights of the rows that are left, 0 for the others; `idle` are columns of the model that these do not have."""

    weights: Floats
    idle: NDArray[np.intp]

    def without_idle(self, sweep: Sweep) -> Sweep:
        """Idle columns stay where they are: as if their coefficients were known."""
        gradient, information = sweep.gradient.copy(), sweep.information.copy()
        gradient[self.idle] = 0.0
        information[self.idle] = information[:, self.idle] = 0.0
        information[self.idle, self.idle] = 1.0
        return Sweep(sweep.loss, gradient, information, sweep.rows)

    def beside_others(self, looked: Looked) -> Looked:
        """The same for what candidates have along the columns."""
        cross = looked.cross.copy()
        cross[self.idle] = 0.0
        return Looked(looked.score, cross, looked.own)
