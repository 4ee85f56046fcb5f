"""Several trials a row: a row of successes and a row of failures, each as often as they came.

The likelihood is the same up to a constant, so all that is known about binary outcomes holds for trials. What people
read as deviance is measured from a model with a probability of its own for every row, as is usual for trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel
from fbed.models.engines.binomial import Binomial
from fbed.models.likelihoods.glm import BINOMIAL, Glm
from fbed.models.likelihoods.likelihood import RegressionModel
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Halves:
    """Rows of successes (y = 1) and of failures, those of a row beside each other.

    `row` says whose half each is, `least` is the deviance of a model in which every row has its own probability.
    """

    design: Design
    y: Floats
    offset: Floats | None
    row: NDArray[np.intp]
    least: float

    @classmethod
    def of(cls, design: Design, part: Floats, trials: Floats, offset: Floats | None) -> Halves:
        """`part` of every row's trials succeeded."""
        won, lost = np.flatnonzero(part > 0.0), np.flatnonzero(part < 1.0)
        rows = np.concatenate([won, lost])
        order = np.argsort(rows, kind="stable")
        row, success = rows[order], order < len(won)
        chance = np.where(success, part[row], 1.0 - part[row])
        frequency = design.weights[row] * np.round(chance * trials[row])
        halves = Design(design.table.rows(row), frequency, design.n_threads)
        least = -2.0 * float(frequency @ np.log(chance))
        return cls(halves, success.astype(np.float64), None if offset is None else offset[row], row, least)


class _ReadAsTrials:
    """What is told of rows and deviances, where a model is one of halves."""

    halves: Halves

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients on the log-odds scale."""
        described: Any = super()
        return self._of_trials(described.describe(selected, near))

    def outline(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """The same without standard errors."""
        described: Any = super()
        return self._of_trials(described.outline(selected, near))

    def by_row(self, values: Floats) -> Floats:
        """Sums over the halves of every row."""
        return np.asarray(np.bincount(self.halves.row, values), dtype=np.float64)

    def _of_trials(self, told: FittedModel) -> FittedModel:
        deviance, null = (max(value - self.halves.least, 0.0) for value in (told.deviance, told.null_deviance))
        return replace(told, deviance=deviance, null_deviance=null)


class Trials(_ReadAsTrials, Binomial):
    """A number of successes among a number of trials."""

    def __init__(self, halves: Halves, certified: bool = True) -> None:
        self.halves = halves
        super().__init__(halves.design, halves.y, certified, halves.offset)


class TrialsByFits(_ReadAsTrials, RegressionModel):
    """The same by fits of every model, which know offsets."""

    def __init__(self, halves: Halves) -> None:
        self.halves = halves
        super().__init__(halves.design, Glm(BINOMIAL, halves.y, halves.design.weights, halves.offset))
