"""What a family is: the small interface through which the search sees any kind of outcome.

A `Model` is an outcome bound to its data. It answers for a set S with a `Fit`, everything that depends on S alone; the
fit then tells, for candidates outside S, what adding each would gain, and for variables in S, what removing each would
lose. Nothing else is asked of a family: ranking, dropping, counting and ties are the search's business.

A model does not change once it is made, so that searches in several threads may share it. What one fit can do for the
next (a basis, a place to start from) is kept in the fit, and a search hands its latest fit to the model as `near`.

A fit that can enclose its statistics in intervals without computing them is a `CertifiedFit`: the scan then narrows
intervals only as far as decisions need.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats, Reference

COLLINEAR = 1e-12
"""A column whose residual on S has less than this part of its centred norm² is in the span of S."""

MAXIMUM_LIKELIHOOD = "maximum likelihood"
"""How models are estimated unless somebody asks for another way."""

_TOGETHER = 32  # columns that are made orthogonal to others in one matrix product

Indices = NDArray[np.intp]


class Fit(Protocol):
    """A model fitted on a set of variables."""

    @property
    def saturated(self) -> bool:
        """Whether the outcome is explained completely, so that no candidate can add anything."""

    def gains(self, candidates: Indices) -> Evidence:
        """Evidence for adding each candidate to the set; statistic 0, df 0, p = 1 for a degenerate one."""

    def losses(self, variables: Indices) -> Evidence:
        """Evidence against removing each variable from the set."""


@dataclass(frozen=True)
class Bounds:
    """Intervals that hold the statistics of some variables; they are points where a statistic is known."""

    lower: Floats
    upper: Floats
    df: Floats
    reference: Reference


class CertifiedFit(Protocol):
    """A fit that answers by certified bounds. No interval for a gain may contain the critical value."""

    span: Span
    reference: Reference
    bounds_are_cheap: bool  # whether bounds for an infinite critical value cost little beside those for a finite one
    looks_are_dear: bool  # whether they cost more than to know the best of a few who have been best before

    def prepare(self, n_candidates: int, critical: float) -> None:
        """Whatever so many candidates share, who have to exceed so much if of one df; before the threads start."""

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for adding each candidate, clear of the critical value of its df."""

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """Narrow the intervals of contenders, given best first, until their statistics are known.

        In a race, all have the same df and only the largest statistic matters: an interval may stay wide once it is
        below the best, or ties with it at most and has a higher index.
        """

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for removing each variable; they may be wide where they are above the critical value."""

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The statistic of removing one variable, or an interval that is above `enough`."""


def is_certified(fit: Fit | CertifiedFit) -> TypeGuard[CertifiedFit]:
    """Whether a fit answers by bounds."""
    return hasattr(fit, "gain_bounds")


def lost_at_least(fit: CertifiedFit, variables: Indices, enough: Floats) -> Floats:
    """What removing each variable costs at least, from a fit that looks at several together as far as is enough."""
    return np.asarray(fit.lost_at_least(variables, enough)) if hasattr(fit, "lost_at_least") else np.zeros(len(enough))


def in_span(fit: CertifiedFit, variables: Indices) -> NDArray[np.bool_]:
    """Which variables of one column are in the span of the model."""
    if hasattr(fit, "in_span"):  # it has no basis
        return np.asarray(fit.in_span(variables), dtype=bool)
    return fit.span.residuals(single_columns(fit.span.design, variables))[1]


class Model(Protocol):
    """A family bound to an outcome and a design."""

    name: str
    n: float  # the sample size of information criteria
    has_likelihood: bool  # whether statistics are differences of deviances
    block_size: int  # candidates evaluated in one go

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> Fit:
        """Fit the model on a set of variables; `near` is a fit of this model, best on nearly the same set, or None.

        It saves work and changes no answer.
        """

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients of the model on a set of variables, on the scale of the user's data."""


def outline(model: Model, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
    """The description of a model that is to predict only, without standard errors where the family can do without."""
    told: FittedModel = getattr(model, "outline", model.describe)(selected, near)
    return told


@dataclass(frozen=True)
class FittedModel:
    """The final model on the selected variables.

    The standard errors are the naive ones of a model that was fixed in advance; after selection they are too small.

    Where the outcome is `separated`, at least in part, the likelihood rises for ever along some direction and some
    coefficients are infinite: `directions` has 1 or −1 for those that are plus or minus infinity and 0 for the others,
    and is empty when all are finite. An infinite coefficient has no standard error (NaN); the finite ones have those of
    the rows that are not separated. `standard_errors` is None when no term has one.
    `correlation` is that of the coefficients: times two standard errors it is their covariance. `reached` is where an
    infinite coefficient was when the likelihood no longer rose: what is predicted with.
    """

    family: str
    terms: tuple[str, ...]
    coefficients: tuple[float, ...]
    standard_errors: tuple[float, ...] | None
    deviance: float
    null_deviance: float
    separated: bool = False
    directions: tuple[int, ...] = ()
    correlation: tuple[tuple[float, ...], ...] | None = None
    reached: tuple[float, ...] = ()

    @property
    def infinite(self) -> dict[str, int]:
        """Terms whose coefficients are infinite, with their sign."""
        return {term: way for term, way in zip(self.terms, self.directions, strict=False) if way}


class Span:
    """Orthonormal basis (under the frequency weights) of the intercept and the columns of S.

    `least_part` is about what a column of S has kept of its length beside those before it, at least: the basis has
    rounding of as much the inverse. The basis holds √weight times the columns; `Z` is the same basis without that
    factor, scaled so that the intercept is a column of ones, which is what a likelihood is fitted on.
    """

    def __init__(self, design: Design, selected: Sequence[int], known: Span | None = None) -> None:
        self.design = design
        self.selected = tuple(int(variable) for variable in selected)
        self.root: Floats = np.sqrt(design.weights)
        basis = (self.root / np.sqrt(design.n))[:, None]
        self.least_part: float = 1.0 if known is None else known.least_part
        self.rank_of: dict[int, int] = {}  # how many columns of the basis each variable brought
        todo = self.selected
        if known is not None:
            shared = shared_beginning(known.selected, self.selected)
            self.rank_of = {variable: known.rank_of[variable] for variable in self.selected[:shared]}
            basis, todo = known.Q[:, : 1 + sum(self.rank_of.values())], self.selected[shared:]
        for some in _side_by_side(design, todo):
            check_time()
            columns = single_columns(design, np.array(some)) if len(some) > 1 else design.columns(some[0])
            weighted = self.root[:, None] * columns
            new, kept = _orthonormal(basis, weighted)
            self.least_part = min(self.least_part, _least_part(new, weighted, kept))
            self.rank_of.update(zip(some, kept.tolist(), strict=True) if len(some) > 1 else [(some[0], new.shape[1])])
            basis = np.concatenate([basis.T, new.T]).T  # column after column, as sums over rows want it
        self.Q: Floats = basis

    @property
    def rank(self) -> int:
        """Dimension, intercept included."""
        return int(self.Q.shape[1])

    @property
    def full_rank(self) -> bool:
        """Whether every column of S added to the span.

        Otherwise what a variable brought is not what its removal takes away: another may step in for it.
        """
        return all(self.rank_of[variable] == self.design.width[variable] for variable in self.selected)

    @cached_property
    def Z(self) -> Floats:  # noqa: N802
        """Basis of the linear predictors, with unit weighted mean square."""
        return self.Q * (np.sqrt(self.design.n) / self.root)[:, None]

    def residuals(self, columns: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Unit residuals of √weight·columns on the basis, and which columns have none (degenerate)."""
        weighted = self.root[:, None] * columns
        total = np.einsum("ij,ij->j", weighted, weighted)
        left = weighted - self.Q @ (self.Q.T @ weighted)
        left -= self.Q @ (self.Q.T @ left)  # twice is enough: the second pass removes what the first left by rounding
        norm2 = np.einsum("ij,ij->j", left, left)
        degenerate = norm2 <= COLLINEAR * total
        return left / np.sqrt(np.where(degenerate, 1.0, norm2)), degenerate

    def place(self, variable: int) -> slice:
        """Columns of the basis that a variable brought."""
        return self._places[variable]

    @cached_property
    def _places(self) -> dict[int, slice]:
        ends = itertools.accumulate((self.rank_of[variable] for variable in self.selected), initial=1)
        return {variable: slice(*pair) for variable, pair in zip(self.selected, itertools.pairwise(ends), strict=True)}

    def triangle(self) -> Floats:
        """R with [1, columns] = Z·R, where the columns are those that are not in the span of the ones before."""
        if self.full_rank:
            columns = self.design.stack(self.selected)
        else:
            kept = [self.design.columns(variable)[:, self.independent(variable)] for variable in self.selected]
            columns = np.hstack(kept)
        whole = np.concatenate([np.ones((self.design.n_rows, 1)), columns], axis=1)
        return np.triu(self.Q.T @ (self.root[:, None] * whole)) / np.sqrt(self.design.n)

    def independent(self, variable: int) -> Indices:
        """Which columns of a variable brought something new, found by what they have along the basis."""
        rank, width = self.rank_of[variable], int(self.design.width[variable])
        if rank == width:
            return np.arange(width, dtype=np.intp)
        columns = self.root[:, None] * self.design.columns(variable)
        along = np.abs(self.Q[:, self.place(variable)].T @ columns)
        return np.array([int(np.flatnonzero(row > 1e-9 * row.max())[0]) for row in along], dtype=np.intp)

    def offset(self, variable: int) -> int:
        """How many design columns come before a variable's."""
        return self._offsets[variable]

    @cached_property
    def _offsets(self) -> dict[int, int]:
        width = self.design.width[list(self.selected)]
        return dict(zip(self.selected, (np.cumsum(width) - width).tolist(), strict=True))

    def group(self, variable: int) -> Floats:
        """Orthonormal columns that a variable adds to the basis, n × rank increase."""
        return _orthonormal(self.Q, self.root[:, None] * self.design.columns(variable))[0]


def harmonic_mean(counts: NDArray[Any]) -> float:
    """Of the rows of every class: dominated by the rarest ones, as the quality of χ² is."""
    return float(len(counts) / np.sum(1.0 / counts))


def shared_beginning(one: Sequence[int], other: Sequence[int]) -> int:
    """How many elements two sequences have in common at their beginning."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))


def single_columns(design: Design, variables: Indices) -> Floats:
    """Columns of variables that have one each, read in one go where all of them are numbers."""
    return design.block(variables) if design.numeric[variables].all() else design.stack(variables.tolist())


def _side_by_side(design: Design, variables: Sequence[int]) -> Iterator[list[int]]:
    """Variables of one column each a few at a time, others by themselves, in order."""
    for single, group in itertools.groupby(variables, lambda variable: bool(design.varying[variable])):
        members = list(group)
        size = _TOGETHER if single else 1
        yield from (members[start : start + size] for start in range(0, len(members), size))


def _orthonormal(basis: Floats, columns: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Gram–Schmidt, one column after another, leaving out those in the span of what came before; 1 for who is not.

    Some columns at a time are made orthogonal to all before them in one matrix product, then to each other.
    """
    new, count, kept = np.empty(columns.shape, order="F"), 0, np.zeros(columns.shape[1], dtype=np.intp)
    for start in range(0, columns.shape[1], _TOGETHER):
        check_time()
        block = np.asfortranarray(columns[:, start : start + _TOGETHER])
        first, left = count, _without(_without(block, basis, new[:, :count]), basis, new[:, :count])
        for j in range(block.shape[1]):
            own = left[:, j]
            before = float(own @ own)
            if count > first:
                own = _without(_without(own, new[:, first:count]), new[:, first:count])
                if float(own @ own) < 0.01 * before:  # what little is left has rounding of what was there
                    own = _without(own, basis, new[:, :count])
            norm2, total = float(own @ own), float(block[:, j] @ block[:, j])
            if total > 0 and norm2 > COLLINEAR * total:
                new[:, count] = own / np.sqrt(norm2)
                count += 1
                kept[start + j] = 1
    return np.ascontiguousarray(new[:, :count].T).T, kept


def _least_part(new: Floats, columns: Floats, kept: NDArray[np.intp]) -> float:
    """What columns that brought something new have along it, beside their length, at least."""
    own = columns[:, kept > 0]
    along, size = np.einsum("ij,ij->j", new, own), np.sqrt(np.einsum("ij,ij->j", own, own))
    return float((np.abs(along) / size).min(initial=1.0))


def _without(columns: Floats, *bases: Floats) -> Floats:
    """Columns less their projections on orthonormal ones."""
    for basis in bases:
        columns = columns - basis @ (basis.T @ columns)
    return columns


def original_scale(
    span: Span, coefficients: Floats, information: Floats | None, sigma: float = 1.0
) -> tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...] | None, Correlation | None]:
    """Terms, coefficients, standard errors and correlation on the user's scale, from coefficients on Z.

    `information` is the Fisher information of those coefficients; None leaves the standard errors out. They are
    multiplied by `sigma`, the residual standard deviation of a linear model. A column in the span of earlier ones gets
    coefficient 0 and standard error 0.
    """
    design, selected = span.design, span.selected
    kept = np.concatenate([[0], *(1 + span.offset(v) + span.independent(v) for v in selected)]).astype(np.intp)
    inverse = np.linalg.inv(span.triangle())  # coefficients on the columns = inverse @ coefficients on Z
    center, scale = design.moments_of(selected)
    terms = ("(intercept)", *(label for variable in selected for label in design.labels(variable)))
    theta = np.zeros(1 + len(scale))  # on the standardised columns; what depends on units comes last
    theta[kept] = inverse @ coefficients
    shift = np.concatenate([[1.0], -center / scale])  # raw intercept = shift @ theta
    raw = (float(shift @ theta), *(theta[1:] / scale).tolist())
    if information is None:
        return terms, raw, None, None
    try:
        covariance = inverse @ np.linalg.inv(information) @ inverse.T
    except np.linalg.LinAlgError:
        return terms, raw, None, None
    change = np.eye(len(theta))[:, kept]  # from what was estimated to all coefficients, the raw intercept first
    change[0] = shift[kept]
    whole = change @ covariance @ change.T
    errors = sigma * np.sqrt(np.maximum(np.diag(whole), 0.0)) / np.concatenate([[1.0], scale])
    return terms, raw, tuple(errors.tolist()), correlation_of(whole)


Correlation = tuple[tuple[float, ...], ...]


def correlation_of(covariance: Floats | None) -> Correlation | None:
    """Correlation of estimates; 0 with one that does not vary."""
    if covariance is None:
        return None
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    unit = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        correlation = np.clip(covariance * unit[:, None] * unit, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return tuple(map(tuple, correlation.tolist()))
