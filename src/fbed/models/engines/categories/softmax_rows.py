"""The rows of a softmax model at given predictors, with classes that levels rule out left out of them.

A class that no row of a level has is ruled out there in the limit, whatever the other coefficients are: its entries of
the rows of that level are not alive. A row of which only its own class is alive is explained, and counts no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fbed.models.engines.categories.coded_columns import Category
from fbed.rules.p_values import Floats

_FAR = 30.0  # log odds against a class at which it is as good as ruled out
_PROFILING = 3  # rounds of scaling by which levels come near their classes


@dataclass(frozen=True)
class RuledOut:
    """Classes that are absent from levels of a category (levels × classes) among the rows that counted then."""

    category: Category
    absent: NDArray[np.bool_]
    counted: NDArray[np.bool_]

    def lowered(self, eta: Floats, observed: NDArray[np.bool_]) -> Floats:
        """Predictors of all classes, with those of absent ones far below the own classes of all rows that counted."""
        codes = self.category.codes[self.counted]
        above = (eta - eta[observed][:, None])[self.counted]
        highest = np.full(self.absent.shape, -np.inf)
        np.maximum.at(highest, codes, above)
        return np.asarray(eta - np.where(self.absent, np.maximum(0.0, _FAR + highest), 0.0)[self.category.codes])


@dataclass(frozen=True)
class Entries:
    """Which entries (rows × classes) are alive, and how often every row counts."""

    observed: NDArray[np.bool_]
    alive: NDArray[np.bool_]
    weight: Floats
    ruled_out: tuple[RuledOut, ...] = ()

    @classmethod
    def of(cls, categories: Sequence[Category], observed: NDArray[np.bool_], weight: Floats) -> Entries:
        """Without what levels rule out, by themselves or once others have explained rows."""
        alive, weight = np.ones_like(observed), weight.copy()
        columns = np.asfortranarray(observed, dtype=np.float64)
        ruled_out, left = [], True
        while left:
            left = False
            for category in categories:
                counts = weight > 0
                absent = category.sums(weight, columns) == 0
                if not (alive & counts[:, None] & absent[category.codes]).any():
                    continue
                alive &= ~(absent[category.codes] & counts[:, None])
                ruled_out.append(RuledOut(category, absent, counts))
                explained = (weight > 0) & (alive.sum(axis=1) == 1)
                left = left or (len(categories) > 1 and bool(explained.any()))
                weight[explained] = 0.0
        return cls(observed, alive, weight, tuple(ruled_out))

    def without(self, idle: NDArray[np.bool_]) -> Entries:
        """Without some more, none of which is that of a row's own class."""
        return replace(self, alive=self.alive & ~idle)

    def at(self, predictor: Floats) -> SoftmaxRows:
        """The rows at predictors of all classes but the first (rows × classes)."""
        eta = np.hstack([np.zeros((len(predictor), 1)), predictor])
        own = eta[self.observed]
        eta = np.where(self.alive, eta, -np.inf)
        others = np.where(self.observed, -np.inf, eta).max(axis=1)
        top = np.maximum(own, others)
        odds = np.exp(eta - top[:, None])
        rest = np.where(self.observed, 0.0, odds).sum(axis=1)
        total = rest + np.exp(own - top)
        loss = np.where(own >= others, np.log1p(rest), np.log(total) + (top - own))
        counts = self.weight > 0
        margin = (own - others)[counts]
        finite = margin[np.isfinite(margin)]
        probability = odds / total[:, None]
        residual = self.weight[:, None] * np.where(self.observed, (rest / total)[:, None], -probability)
        return SoftmaxRows(
            self,
            2.0 * float(self.weight @ np.where(counts, loss, 0.0)),
            probability,
            residual[:, 1:],
            float(finite.min(initial=np.inf)),
            float(finite.max(initial=0.0)),
        )

    def in_the_limit(self, predictor: Floats) -> Floats:
        """Predictors of the same model at which classes are as good as ruled out where they should be.

        What was ruled out first goes furthest: later on, rows that it explains did not count.
        """
        eta = np.hstack([np.zeros((len(predictor), 1)), predictor])
        for one in reversed(self.ruled_out):
            eta = one.lowered(eta, self.observed)
        return eta[:, 1:] - eta[:, :1]

    def profiled(self, category: Category, predictor: Floats) -> Floats:
        """Predictors whose levels have nearly the classes that they should: every round makes them likelier."""
        seen = category.sums(self.weight, np.asfortranarray(self.observed, dtype=np.float64))
        for _ in range(_PROFILING):
            expected = category.sums(self.weight, np.asfortranarray(self.at(predictor).probability))
            told = (seen > 0) & (expected > 0)
            shift = np.log(np.where(told, seen, 1.0)) - np.log(np.where(told, expected, 1.0))
            predictor = predictor + (shift[:, 1:] - shift[:, :1])[category.codes]
        return predictor


@dataclass(frozen=True)
class SoftmaxRows:
    """Probabilities of all classes, and weighted residuals of all but the first (rows × classes)."""

    entries: Entries
    deviance: float
    probability: Floats
    residual: Floats
    margin: float
    largest: float

    @property
    def n_predictors(self) -> int:
        """Classes but the first."""
        return self.residual.shape[1]

    def curvature(self, c: int, d: int) -> Floats:
        """a·p_c(1 − p_c), or −a·p_c·p_d, of the predictors c and d."""
        p = self.probability
        if c != d:
            return np.asarray(-self.entries.weight * p[:, c + 1] * p[:, d + 1])
        others = np.delete(p, c + 1, axis=1).sum(axis=1)
        return np.asarray(self.entries.weight * p[:, c + 1] * others)

    def changes(self, step: Floats) -> Floats:
        """z of steps of the predictors (predictors × rows × any), of all classes; 0 where entries are not alive."""
        p = self.probability.T.reshape(self.n_predictors + 1, -1, *(1,) * (step.ndim - 2))
        mean = (p[1:] * step).sum(axis=0)
        z = np.concatenate([-mean[None], step - mean])
        counts = (self.entries.alive & (self.entries.weight > 0)[:, None]).T
        return np.asarray(np.where(counts.reshape(*counts.shape, *(1,) * (step.ndim - 2)), z, 0.0))

    def idle(self, threshold: float) -> NDArray[np.bool_]:
        """Entries of other classes that are next to nothing, and cost next to nothing."""
        small = 2.0 * self.entries.weight[:, None] * self.probability < threshold
        return np.asarray(small & (self.probability < 1e-3) & self.entries.alive & ~self.entries.observed)
