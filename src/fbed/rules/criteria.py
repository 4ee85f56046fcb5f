"""Selection criteria: when does a candidate improve the model, and which improves it most?

Every criterion here is a critical value on the difference of deviances of two nested models. A criterion object holds
what the user chose; `bind` ties it to the data (n, p) and gives the `Rule` that the search asks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.rules.p_values import ChiSquare, Floats, Reference

TIE = 1e-9
"""Relative difference below which two statistics are the same number: duplicate and rescaled columns differ by
rounding only, and a decision must not hang on that. Ties go to the lower column index; a statistic that only ties with
its critical value fails."""


@dataclass(frozen=True)
class Evidence:
    """What a family found about some variables: one statistic, df and log p-value each.

    Log p-values that follow from the statistic (`known_log_p` is None) are computed when they are asked for: most
    variables fail by their statistic, and nobody looks at their tail.
    """

    statistic: Floats
    df: Floats
    known_log_p: Floats | None
    reference: Reference | None = field(default=None)  # None: only the log p-value says what the statistic means

    @cached_property
    def log_p(self) -> Floats:
        """Log p-value of each variable."""
        if self.known_log_p is not None:
            return self.known_log_p
        assert self.reference is not None
        return self.reference.log_sf(self.statistic, self.df)

    def __getitem__(self, rows: Any) -> Evidence:
        known = None if self.known_log_p is None else self.known_log_p[rows]
        return Evidence(self.statistic[rows], self.df[rows], known, self.reference)


class Rule(Protocol):
    """A criterion bound to data: decides about evidence for going from k to k + 1 variables."""

    def critical(self, df: Floats, k: int, reference: Reference, staying: bool = False) -> Floats:
        """Statistic that a candidate must exceed to enter (or, when staying, to be kept)."""

    def passes(self, evidence: Evidence, k: int, staying: bool = False) -> NDArray[np.bool_]:
        """Whether each variable improves the model by more than the criterion asks."""

    def merit(self, evidence: Evidence, k: int) -> Floats:
        """The value by which variables are ranked; larger is better."""

    def ranking(self, k: int) -> Hashable:
        """The same for all rules that rank variables in the same order, whatever they ask of them."""


class Criterion(Protocol):
    """What the user chose."""

    @property
    def needs_likelihood(self) -> bool:
        """Whether the criterion compares likelihoods, so that a bare p-value is not enough."""

    def bind(self, n: float, p: int) -> Rule:
        """Tie the criterion to a sample size and a number of candidates that can enter: constant ones cannot."""

    def describe(self, n: float, p: int) -> str:
        """One line for people."""


@dataclass(frozen=True)
class LikelihoodRatio:
    """Nested test at level alpha: pass when log p < log alpha.

    Parameters
    ----------
    alpha : level for entering, in (0, 1).
    alpha_backward : level for staying (SLSTAY in SAS); alpha when None.
    min_gain : added to the critical value of the statistic in both phases.
    """

    alpha: float = 0.05
    alpha_backward: float | None = None
    min_gain: float = 0.0

    def __post_init__(self) -> None:
        _check_level("alpha", self.alpha)
        if self.alpha_backward is not None:
            _check_level("alpha_backward", self.alpha_backward)
        _check_gain(self.min_gain)

    @property
    def needs_likelihood(self) -> bool:
        """A minimum gain is a difference of deviances; without one a p-value is enough."""
        return self.min_gain > 0

    def bind(self, n: float, p: int) -> Rule:
        """The levels do not depend on the data."""
        staying = self.alpha if self.alpha_backward is None else self.alpha_backward
        return _TestRule(self.alpha, staying, self.min_gain)

    def describe(self, n: float, p: int) -> str:
        """One line for people."""
        text = f"likelihood-ratio test, alpha = {self.alpha:g}"
        if self.alpha_backward is not None:
            text += f" to enter, {self.alpha_backward:g} to stay"
        return text + _gain_text(self.min_gain)


@dataclass(frozen=True)
class AIC:
    """Akaike's information criterion: the deviance must fall by more than 2 per degree of freedom."""

    min_gain: float = 0.0

    def __post_init__(self) -> None:
        _check_gain(self.min_gain)

    needs_likelihood = True

    def bind(self, n: float, p: int) -> Rule:
        """AIC does not depend on the data."""
        return _PenaltyRule(2.0, 0.0, p, self.min_gain)

    def describe(self, n: float, p: int) -> str:
        """One line for people, with the equivalent significance level."""
        return "AIC" + _gain_text(self.min_gain) + _equivalent_level(self, n, p)


@dataclass(frozen=True)
class BIC:
    """Bayesian information criterion: the deviance must fall by more than log n per degree of freedom."""

    min_gain: float = 0.0

    def __post_init__(self) -> None:
        _check_gain(self.min_gain)

    needs_likelihood = True

    def bind(self, n: float, p: int) -> Rule:
        """Tie the criterion to the sample size."""
        return _PenaltyRule(math.log(n), 0.0, p, self.min_gain)

    def describe(self, n: float, p: int) -> str:
        """One line for people, with the equivalent significance level."""
        return "BIC" + _gain_text(self.min_gain) + _equivalent_level(self, n, p)


@dataclass(frozen=True)
class EBIC:
    """Extended BIC: BIC plus 2·gamma·log C(p, k), which counts the models of each size.

    p is the number of candidates that vary in the rows at hand, a categorical column or a group counted once; constant
    columns and those that are forced in are not among them.

    Parameters
    ----------
    gamma : in [0, 1]; None for the default 1 − ½·log n / log p, clipped to [0, 1] (0 when p = 1).
    min_gain : added to the critical value of the statistic in both phases.
    """

    gamma: float | None = None
    min_gain: float = 0.0

    def __post_init__(self) -> None:
        if self.gamma is not None and not (_is_number(self.gamma) and 0.0 <= self.gamma <= 1.0):
            raise InvalidInput(
                f"gamma must lie between 0 and 1, got {self.gamma!r}; use gamma=None for the default formula"
            )
        _check_gain(self.min_gain)

    needs_likelihood = True

    def bind(self, n: float, p: int) -> Rule:
        """Tie the criterion to the sample size and the number of candidates."""
        return _PenaltyRule(math.log(n), self.gamma_for(n, p), p, self.min_gain)

    def gamma_for(self, n: float, p: int) -> float:
        """The gamma in force for n rows and p candidates that can enter."""
        if self.gamma is not None:
            return self.gamma
        if p <= 1:
            return 0.0
        return min(1.0, max(0.0, 1.0 - 0.5 * math.log(n) / math.log(p)))

    def describe(self, n: float, p: int) -> str:
        """One line for people, with the equivalent significance level."""
        default = ", the default" if self.gamma is None else ""
        gamma = f"EBIC, gamma = {self.gamma_for(n, p):.3g}{default}"
        return gamma + _gain_text(self.min_gain) + _equivalent_level(self, n, p)


@dataclass(frozen=True)
class _TestRule:
    """Passes at a significance level, ranks by −log p."""

    alpha: float
    alpha_backward: float
    min_gain: float

    def critical(self, df: Floats, k: int, reference: Reference, staying: bool = False) -> Floats:
        return reference.isf(self.alpha_backward if staying else self.alpha, df) + self.min_gain

    def passes(self, evidence: Evidence, k: int, staying: bool = False) -> NDArray[np.bool_]:
        if evidence.reference is None:
            return evidence.log_p < math.log(self.alpha_backward if staying else self.alpha)
        return exceeds(evidence.statistic, self.critical(evidence.df, k, evidence.reference, staying))

    def merit(self, evidence: Evidence, k: int) -> Floats:
        return -evidence.log_p

    def ranking(self, k: int) -> Hashable:
        return "log p"


@dataclass(frozen=True)
class _PenaltyRule:
    """Passes when the deviance falls by more than a penalty, ranks by how much more."""

    per_df: float
    gamma: float
    p: int
    min_gain: float

    def critical(self, df: Floats, k: int, reference: Reference, staying: bool = False) -> Floats:
        """per_df·df + 2·gamma·log((p − k)/(k + 1)): the step from k to k + 1 of p variables; never below 0."""
        step = math.log((self.p - k) / (k + 1)) if self.gamma > 0 and self.p > k else 0.0  # p = 0: all were forced in
        return np.maximum(self.per_df * df + 2.0 * self.gamma * step, 0.0) + self.min_gain

    def passes(self, evidence: Evidence, k: int, staying: bool = False) -> NDArray[np.bool_]:
        return exceeds(evidence.statistic, self._critical(evidence, k))

    def merit(self, evidence: Evidence, k: int) -> Floats:
        return evidence.statistic - self._critical(evidence, k)

    def ranking(self, k: int) -> Hashable:
        """What is asked of a step is the same for all df, unless it makes up for what is asked of a df."""
        free = self.gamma == 0.0 or self.p - k >= k + 1
        return ("penalty", self.per_df) if free else ("penalty", self.per_df, self.gamma, self.p)

    def _critical(self, evidence: Evidence, k: int) -> Floats:
        return self.critical(evidence.df, k, evidence.reference or ChiSquare())


def exceeds(statistic: Floats, critical: Floats) -> NDArray[np.bool_]:
    """Strictly above the critical value, by more than rounding can explain; a statistic of 0 never is."""
    return (statistic > critical * (1.0 + TIE)) & (statistic > 0.0)


def tied_with_best(merit: Floats, statistic: Floats) -> NDArray[np.bool_]:
    """Which merits equal the largest one, up to a relative `TIE` of the statistic behind it.

    Near 0 a log p-value falls with the root of its statistic, so that rounding of a statistic is much more of a merit:
    there the statistics decide, as long as the merits are close enough to mean the same.
    """
    best = int(np.argmax(merit))
    size = max(1.0, abs(float(statistic[best])))
    same = np.abs(statistic - statistic[best]) <= TIE * size
    return (merit >= merit[best] - TIE * size) | (same & (merit >= merit[best] - math.sqrt(TIE) * size))


def equivalent_level(criterion: Criterion, n: float, p: int, k: int = 0) -> float:
    """Significance level at which a one-df LR test asks what the criterion asks from k to k + 1 variables."""
    one = np.ones(1)
    critical = criterion.bind(n, p).critical(one, k, ChiSquare())
    return float(np.exp(ChiSquare().log_sf(critical, one))[0])


OWNED: dict[str, tuple[str, ...]] = {"lr": ("alpha", "alpha_backward"), "aic": (), "bic": (), "ebic": ("gamma",)}
"""Criteria by name, each with the arguments of `select` that belong to it."""

ALPHA = 0.05
"""The level of a likelihood-ratio test when none is given."""


def as_criterion(
    criterion: str | Criterion,
    alpha: float | None = None,
    gamma: float | None = None,
    alpha_backward: float | None = None,
) -> Criterion:
    """The criterion object behind a name and the arguments that belong to it; those of another one are refused."""
    named = (("alpha", alpha), ("gamma", gamma), ("alpha_backward", alpha_backward))
    given = {name: value for name, value in named if value is not None}
    if not isinstance(criterion, str):
        return _checked_object(criterion, given)
    name = criterion.lower()
    if name not in OWNED:
        raise InvalidInput(
            f"unknown criterion {criterion!r}: expected 'lr', 'aic', 'bic', 'ebic' or an object such as "
            "fbed.EBIC(gamma=0.5)"
        )
    for argument in given:
        if argument not in OWNED[name]:
            owner = next(other for other, names in OWNED.items() if argument in names)
            raise InvalidInput(
                f"{argument} belongs to criterion={owner!r}, not to {criterion!r}: leave it out, or choose the other "
                "criterion"
            )
    if name == "lr":
        return LikelihoodRatio(ALPHA if alpha is None else alpha, alpha_backward)
    if name == "ebic":
        return EBIC(gamma)
    return AIC() if name == "aic" else BIC()


def belonging(criterion: object, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those of other criteria: a grid over criterion × alpha asks for more than one has."""
    own = OWNED.get(criterion.lower(), ()) if isinstance(criterion, str) else ()
    others = {argument for names in OWNED.values() for argument in names} - set(own)
    return {name: value for name, value in arguments.items() if name not in others}


def _checked_object(criterion: Criterion, given: Mapping[str, float]) -> Criterion:
    if isinstance(criterion, type) and hasattr(criterion, "bind"):
        raise InvalidInput(f"criterion is the class {criterion.__name__}: pass an object, {criterion.__name__}()")
    if not hasattr(criterion, "bind"):
        raise InvalidInput(
            f"criterion must be a name or a criterion object, got {type(criterion).__name__}: pass 'lr', 'aic', "
            "'bic', 'ebic' or e.g. fbed.LikelihoodRatio(0.01)"
        )
    if given:
        argument, value = next(iter(given.items()))
        example = f"fbed.EBIC(gamma={value!r})" if argument == "gamma" else "fbed.LikelihoodRatio(alpha=…)"
        if argument == "alpha_backward":
            example = f"fbed.LikelihoodRatio(alpha, alpha_backward={value!r})"
        raise InvalidInput(
            f"{argument} goes into the criterion object when one is given, such as {example}: leave it out here"
        )
    return criterion


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)


def _check_level(name: str, value: float) -> None:
    if not _is_number(value) or not 0.0 < value < 1.0:
        raise InvalidInput(f"{name} is a significance level strictly between 0 and 1, got {value!r}")


def _check_gain(value: float) -> None:
    if not (_is_number(value) and math.isfinite(value) and value >= 0.0):
        raise InvalidInput(f"min_gain must be a finite number that is 0 or more, got {value!r}")


def _gain_text(min_gain: float) -> str:
    return f", gain above {min_gain:g}" if min_gain else ""


def _equivalent_level(criterion: Criterion, n: float, p: int) -> str:
    return f" (as a test at alpha = {equivalent_level(criterion, n, p):.3g} for the first variable)"
