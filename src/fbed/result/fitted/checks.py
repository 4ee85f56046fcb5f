"""What a final model assumes, checked on the rows it was fitted on, and the baseline hazard of a Cox model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from fbed.models.likelihoods.risk_sets import RiskSets
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Check:
    """A test of an assumption, for one term or for the whole model; `ratio` is the dispersion, 1 where it holds."""

    assumption: str
    term: str | None
    statistic: float
    df: float
    p_value: float
    ratio: float | None = None

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Baseline:
    """Cumulative hazard of a stratum at the times of its events, for a row with the mean linear predictor."""

    stratum: Any  # what it is called; None where there are no strata
    times: tuple[float, ...]
    hazard: tuple[float, ...]

    def at(self, times: Floats) -> Floats:
        """A step function: 0 before the first event."""
        place = np.searchsorted(np.array(self.times), times, side="right")
        return np.concatenate([[0.0], self.hazard])[place]

    @classmethod
    def from_plain(cls, saved: Mapping[str, Any]) -> Baseline:
        """Read back from JSON."""
        return cls(saved["stratum"], tuple(saved["times"]), tuple(saved["hazard"]))


def overdispersion(y: Floats, mean: Floats, variance: Floats, weights: Floats, n_parameters: int) -> Check | None:
    """Pearson's χ² over its degrees of freedom, with the χ² distribution."""
    df = float(weights.sum()) - n_parameters
    if df <= 0 or not (variance > 0).all():
        return None
    with np.errstate(over="ignore"):  # where a count of 1 or more has a mean of next to nothing
        return dispersion(float(weights @ ((y - mean) ** 2 / variance)), df)


def dispersion(statistic: float, df: float) -> Check | None:
    """The same from Pearson's χ²."""
    if df <= 0 or not math.isfinite(statistic):
        return None
    return Check("no overdispersion", None, statistic, df, float(special.chdtrc(df, statistic)), statistic / df)


class CoxRows:
    """The rows of a Cox model, in risk sets, with their hazards."""

    def __init__(self, risk: RiskSets, weights: Floats, strata: NDArray[np.intp] | None, eta: Floats) -> None:
        self.risk = risk
        self.present = [] if strata is None else np.unique(strata).tolist()  # the risk sets number them from 0
        self.center = float(weights @ eta / weights.sum())
        self.level = (eta - self.center)[self.risk.order]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            self.hazard = (self.risk.weights * np.exp(self.level))[:, None]
            self.denominator = self.risk.per_term(self.hazard)
            self.share = self.risk.multiplicity / self.denominator[:, 0]

    def log_likelihood(self, deviance: float) -> float:
        """Of the partial likelihood, with Efron's ties; by the deviance where hazards do not fit on one scale."""
        if not np.isfinite(self.share).all() or not np.isfinite(self.hazard).all():
            return float(self.risk.saturated) - 0.5 * deviance
        deaths = self.risk.deaths
        with np.errstate(divide="ignore", invalid="ignore"):
            risks = float(self.risk.multiplicity @ np.log(self.denominator[:, 0]))
        return float(self.risk.weights[deaths] @ self.level[deaths]) - risks

    def baselines(self, labels: Sequence[Any]) -> tuple[Baseline, ...]:
        """Cumulative hazards of the strata that have events, called by their labels."""
        steps = np.add.reduceat(self.share, self.risk.term_starts)
        out = []
        for stratum in np.unique(self.risk.stratum).tolist():
            here = self.risk.stratum == stratum
            label = labels[self.present[stratum]] if labels else None
            out.append(Baseline(label, tuple(self.risk.time[here].tolist()), tuple(np.cumsum(steps[here]).tolist())))
        return tuple(out)

    def proportional(
        self, products: Callable[[Floats], Floats], covariance: Floats, terms: Sequence[str]
    ) -> list[Check]:
        """Grambsch and Therneau's test of each term: do its scaled Schoenfeld residuals change with time's rank?

        `products` are those of the terms with numbers that the rows have and that add up to 0.
        """
        risk = self.risk
        weights = risk.weights[risk.deaths]
        rank = centred_rank(risk.time[risk.group], weights)
        if rank is None or not (np.isfinite(self.share).all() and np.isfinite(self.hazard).all()):
            return []
        trend = products(self._trend(weights * rank)) @ covariance
        return slopes_in_time(terms, trend, np.diag(covariance), weights, rank)

    def _trend(self, at_deaths: Floats) -> Floats:
        """What rows have in Σ v·(x − E x) over the deaths, E the mean of those at risk."""
        risk = self.risk
        counts = np.add.reduceat(risk.multiplicity, risk.term_starts)
        by_set = np.add.reduceat(at_deaths, risk.group_starts) / counts
        at = -self.hazard * risk.expected((by_set[risk.term_group] * self.share)[:, None])
        at[risk.deaths, 0] += at_deaths
        by_row = np.empty(len(at))
        by_row[risk.order] = at[:, 0]
        return by_row


def centred_rank(time: Floats, weights: Floats) -> Floats | None:
    """Ranks of the times of deaths less their mean; None where there is one time only."""
    rank = stats.rankdata(time)
    rank -= weights @ rank / weights.sum()
    return rank if weights @ rank**2 > 0 else None


def slopes_in_time(
    terms: Sequence[str], trend: Floats, variances: Floats, weights: Floats, rank: Floats
) -> list[Check]:
    """Whether the effects of terms change with the rank of time, from the products of both with residuals."""
    out, total, spread = [], float(weights.sum()), float(weights @ rank**2)
    for term, along, variance in zip(terms, (total * trend).tolist(), variances.tolist(), strict=True):
        if variance > 0 and math.isfinite(along):
            statistic = along**2 / (total * variance * spread)
            out.append(Check("proportional hazards", term, statistic, 1.0, float(special.chdtrc(1.0, statistic))))
    return out
