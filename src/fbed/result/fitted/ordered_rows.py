"""The rows of a Cox model that are in order of time: baseline hazard and checks from a few numbers a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import cox_expected, cox_shares
from fbed.models.engines.tall.course import Course
from fbed.result.fitted.checks import Baseline, Check, centred_rank, slopes_in_time
from fbed.rules.p_values import Floats


class OrderedRows:
    """As `CoxRows`, which sorts the rows and holds many times what is held here; `eta` is overwritten."""

    def __init__(self, time: Floats, course: Course, strata: NDArray[np.intp] | None, eta: Floats) -> None:
        self.time, self.course, self.strata = time, course, strata
        self.center = float(course.weights @ eta / course.weights.sum())
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            eta -= self.center
            self.hazard = np.exp(eta, out=eta)
            self.hazard *= course.weights
            about = course.event, course.closes, course.starts, course.deaths
            self.share, self.own = cox_shares(*about, self.hazard)
        self.last = np.flatnonzero(course.closes)  # row of every tied set

    def log_likelihood(self, deviance: float) -> float:
        """Of the partial likelihood, with Efron's ties."""
        return -self.course.least - 0.5 * deviance

    def baselines(self, labels: Sequence[Any]) -> tuple[Baseline, ...]:
        """Cumulative hazards of the strata that have events, called by their labels."""
        time = self.time[self.last]
        if self.strata is None:
            return (_baseline(None, time, self.share),)
        stratum = self.strata[self.last]
        groups = [(labels[one], stratum == one) for one in np.unique(stratum).tolist()]
        return tuple(_baseline(label, time[here], self.share[here]) for label, here in groups)

    def proportional(
        self, products: Callable[[Floats], Floats], covariance: Floats, terms: Sequence[str]
    ) -> list[Check]:
        """Grambsch and Therneau's test of each term, as `CoxRows` has it."""
        deaths = np.flatnonzero(self.course.event)
        weights = self.course.weights[deaths]
        rank = centred_rank(self.time[deaths], weights)
        if rank is None or not (np.isfinite(self.share).all() and np.isfinite(self.hazard).all()):
            return []
        trend = products(self._trend(deaths, rank)) @ covariance
        return slopes_in_time(terms, trend, np.diag(covariance), weights, rank)

    def _trend(self, deaths: NDArray[np.intp], rank: Floats) -> Floats:
        """What rows have in Σ rank·(x − E x) over the deaths, E the mean of those at risk."""
        closing = np.searchsorted(self.last, deaths)  # the tied set in which each of them dies
        by_set = np.zeros(len(self.last))
        by_set[closing] = rank
        about = self.course.event, self.course.closes, self.course.starts
        out = cox_expected(*about, self.hazard, by_set * self.share, by_set * self.own)
        np.negative(out, out=out)
        out[deaths] += self.course.weights[deaths] * rank
        return out


def _baseline(label: Any, time: Floats, share: Floats) -> Baseline:
    """From tied sets that go from the latest to the earliest."""
    return Baseline(label, tuple(time[::-1].tolist()), tuple(np.cumsum(share[::-1]).tolist()))
