"""What single rows tell about a model with one predictor a row: a binary outcome (logit link), or counts (log link).

A row is one-sided where it is likelier the further its predictor goes to one side, for ever: a success, a failure, a
count of 0. Rows of a level that are all one-sided, and to the same side, are explained in the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import (
    coded_looks,
    logistic_columns,
    logistic_divergences,
    logistic_reach,
    logistic_rows,
    poisson_columns,
    poisson_divergences,
    profile_levels,
)
from fbed.models.engines.categories.coded_columns import Category
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Rows:
    """The rows at some predictors: mean, weighted residual and weighted curvature of each.

    `margin` is how far the predictors are on the side of every row that counts, at least, and `largest` at most;
    margin is −inf where rows are not one-sided.
    """

    deviance: float
    mean: Floats
    residual: Floats
    curvature: Floats
    margin: float = -np.inf
    largest: float = 0.0


class RowLikelihood(Protocol):
    """A likelihood of the outcome of every row given its predictor; weights count rows."""

    name: str
    sides: Floats  # 1 or −1 for the side that a row is likelier on, the further the better; 0 where it has none

    def at(self, predictor: Floats, weight: Floats) -> Rows:
        """The rows at some predictors."""

    def at_each(self, predictors: Floats, weight: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Deviances, means, residuals and curvatures at several predictors, one a column (column-major)."""

    def reach(self, mean: Floats, step: Floats, curvature: Floats) -> tuple[float, float, float]:
        """Least and largest z of a step of the predictors, and its largest size, over the rows that have curvature."""

    def divergences(self, mean: Floats, change: Floats, weight: Floats) -> Floats:
        """Twice the divergence of mean + change/weight from means, of columns; inf where these are no means."""

    def looks(
        self, X: Floats, residual: Floats, earlier: Floats, curvature: Floats, ratio: Floats, mean: Floats
    ) -> Floats:
        """What a model leaves of columns, by a row each: see `coded_looks`."""

    def least_change(self, mean: Floats, move: Floats) -> float:
        """Least z of a move of the predictors, 0 included."""

    def explained(self, category: Category, weight: Floats) -> NDArray[np.bool_]:
        """Levels whose rows that count are explained in the limit by the level alone, or that have none."""

    def profiled(self, category: Category, predictor: Floats, weight: Floats) -> Floats:
        """The shift of the predictors of each level that makes it likeliest, about; 0 where no row counts."""


class BinaryRows:
    """Outcomes 0 and 1: z is (1 − μ)v for a success and −μv for a failure."""

    name = "binomial"

    def __init__(self, y: Floats) -> None:
        self.y, self.sides = y, 2.0 * y - 1.0
        self.classes = np.asfortranarray(np.column_stack([y, 1.0 - y]))

    def at(self, predictor: Floats, weight: Floats) -> Rows:
        """The rows at some predictors."""
        deviance, margin, largest, mean, residual, curvature = logistic_rows(predictor, self.y, weight)
        return Rows(deviance, mean, residual, curvature, margin, largest)

    def at_each(self, predictors: Floats, weight: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """At several predictors."""
        return logistic_columns(predictors, self.y, weight)

    def reach(self, mean: Floats, step: Floats, curvature: Floats) -> tuple[float, float, float]:
        """Least and largest z, and the largest step."""
        return logistic_reach(mean, step, curvature)

    def divergences(self, mean: Floats, change: Floats, weight: Floats) -> Floats:
        """Twice the divergence of probabilities."""
        return logistic_divergences(mean, change, weight)

    def looks(
        self, X: Floats, residual: Floats, earlier: Floats, curvature: Floats, ratio: Floats, mean: Floats
    ) -> Floats:
        """What a model leaves of columns."""
        return coded_looks(X, residual, earlier, curvature, ratio, mean)

    def least_change(self, mean: Floats, move: Floats) -> float:
        """Least z of both classes."""
        return float(np.minimum((1.0 - mean) * move, -mean * move).min(initial=0.0))

    def explained(self, category: Category, weight: Floats) -> NDArray[np.bool_]:
        """Levels of one class."""
        successes, failures = category.sums(weight, self.classes).T
        return np.asarray((successes == 0.0) | (failures == 0.0))

    def profiled(self, category: Category, predictor: Floats, weight: Floats) -> Floats:
        """By Newton's steps of all levels together; what is left is for those of the whole model."""
        return profile_levels(category.codes, category.n_levels, predictor, self.y, weight)


class CountRows:
    """Poisson counts: z is the step itself, as it is of a success that is next to impossible."""

    name = "poisson"

    def __init__(self, y: Floats) -> None:
        self.y, self.sides = y, np.where(y == 0.0, -1.0, 0.0)
        self.log_y = np.log(np.maximum(y, 1.0))
        self._impossible = np.zeros_like(y)

    def at(self, predictor: Floats, weight: Floats) -> Rows:
        """The rows at some predictors."""
        deviance, mean, residual, curvature = self.at_each(predictor[:, None], weight)
        return Rows(float(deviance[0]), mean[:, 0], residual[:, 0], curvature[:, 0])

    def at_each(self, predictors: Floats, weight: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """At several predictors."""
        return poisson_columns(predictors, self.y, self.log_y, weight)

    def reach(self, mean: Floats, step: Floats, curvature: Floats) -> tuple[float, float, float]:
        """Least, largest and largest absolute step."""
        return logistic_reach(self._impossible, step, curvature)

    def divergences(self, mean: Floats, change: Floats, weight: Floats) -> Floats:
        """Twice the divergence of Poisson means."""
        return poisson_divergences(mean, change, weight)

    def looks(
        self, X: Floats, residual: Floats, earlier: Floats, curvature: Floats, ratio: Floats, mean: Floats
    ) -> Floats:
        """What a model leaves of columns."""
        return coded_looks(X, residual, earlier, curvature, ratio, self._impossible)

    def least_change(self, mean: Floats, move: Floats) -> float:
        """The least move."""
        return float(move.min(initial=0.0))

    def explained(self, category: Category, weight: Floats) -> NDArray[np.bool_]:
        """Levels without a count."""
        return np.asarray(category.sums(weight, self.y[:, None])[:, 0] == 0.0)

    def profiled(self, category: Category, predictor: Floats, weight: Floats) -> Floats:
        """log Σay − log Σaμ, with the largest predictor that counts taken out against overflow."""
        counts = weight > 0
        top = float(predictor[counts].max(initial=0.0))
        mean = np.exp(np.where(counts, predictor - top, 0.0))
        observed, expected = category.sums(weight, np.asfortranarray(np.column_stack([self.y, mean]))).T
        told = (observed > 0) & (expected > 0)
        return np.log(np.where(told, observed, 1.0)) - np.log(np.where(told, expected, 1.0)) - np.where(told, top, 0.0)
