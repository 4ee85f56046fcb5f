"""Classes, raced in C++: every candidate's model is fitted only as far as a decision needs.

Newton's method encloses the likelihood ratio after each Hessian (see `brackets`), so that a candidate is left alone as
soon as it fails for certain, or passes and cannot be best. Where its steps lead nowhere, the slow road decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import DenseColumns, OrderedClasses, SoftmaxClasses, SparseColumns, SparseModel
from fbed.models.base import Bounds, Indices, Span, single_columns
from fbed.models.engines.bounded import BoundedFit, BracketedPoint
from fbed.models.engines.words import APART, SparseBasis, mostly_zero, sparse_basis
from fbed.models.likelihoods.likelihood import Regression, RegressionFit, RegressionModel
from fbed.models.likelihoods.multinomial import Multinomial
from fbed.models.likelihoods.newton import Maximum
from fbed.models.likelihoods.ordinal import Ordinal
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

_REMEMBERED = 2**22  # parameters of unfinished candidates that are kept for the contest
_WHOLE = 3e8  # products of all pairs of parameters in all rows, up to which looks pay where no entry is 0
_FAR = 1e4  # a coefficient of a column of unit size, from which rounding of what is left of near copies may be seen
_MORE = 1e-7  # by which a loss is above a bar that it is said to exceed


class RacedFit(BoundedFit):
    """A fit of a likelihood of classes: softmax or proportional odds.

    It is taken no further once its deviance is certain to be `enough`: then `at_least` says what is certain of it.
    """

    reads_entries = True
    at_least: float | None = None

    def __init__(
        self, model: RegressionModel, span: Span, near: RegressionFit | None = None, enough: float = np.inf
    ) -> None:
        self._enough = enough
        super().__init__(model, span, near)

    def _maximise(self, start: Floats) -> Maximum:
        """By the kernel; from where it got stuck, if it did, by the slow road."""
        parameters, deviance, certain, finished = self._kernel(start, 0.0).fit(self._enough)
        found = self._by_predictor(parameters)
        if not finished and certain >= self._enough:
            self.at_least = certain
        elif not finished:
            return super()._maximise(start)
        return Maximum(found[:, None], np.array([deviance]), np.ones(1, dtype=bool))

    def prepare(self, n_candidates: int = 0, critical: float = np.inf) -> None:
        """What all candidates share."""
        self.classes = self._kernel(self.parameters, self.deviance)
        self._unfinished: dict[int, Floats] = {}  # where candidates stopped

    @cached_property
    def point(self) -> BracketedPoint:  # type: ignore[override]
        """The likelihood at the fit, where removals begin."""
        return cast(BracketedPoint, self.model.likelihood.at(self.columns, self.parameters[:, None]))

    def _kernel(self, parameters: Floats, deviance: float) -> SoftmaxClasses | OrderedClasses:
        columns = np.asfortranarray(self.Z if self._sparse is None else self._sparse.columns)
        return kernel_of(self.model.likelihood, columns, self._by_column(parameters), deviance)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return int(self.parameters.size)

    @cached_property
    def _sparse(self) -> SparseBasis | None:
        """The kernel's columns where they are not Z: words, most of which a row does not have."""
        return sparse_basis(self)

    def _by_column(self, parameters: Floats) -> Floats:
        """Coefficients of the kernel's columns ordered by column, then by predictor, and what else there is."""
        m = self.model.likelihood.n_predictors
        size = m * self.columns.size
        coefficients = parameters[:size].reshape(m, -1).T
        if self._sparse is not None:
            coefficients = self._sparse.from_orthonormal(coefficients)
        return np.concatenate([coefficients.ravel(), parameters[size:]])

    def _by_predictor(self, parameters: Floats) -> Floats:
        """The other way round."""
        m = self.model.likelihood.n_predictors
        size = m * self.columns.size
        coefficients = parameters[:size].reshape(-1, m)
        if self._sparse is not None:
            coefficients = self._sparse.to_orthonormal(coefficients)
        return np.concatenate([coefficients.T.ravel(), parameters[size:]])

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for adding each candidate, clear of the critical value."""
        lower, upper, df = (np.zeros(len(candidates)) for _ in range(3))
        todo = self._look_at_rows(candidates, critical, lower, upper, df)
        for places, columns, rank in self._designs(candidates[todo]):
            some = todo[places]
            df[some] = rank * self.model.likelihood.n_predictors
            if rank:
                line = critical(df[some]) * (1.0 + TIE)
                lower[some], upper[some] = self._raced(candidates[some], columns, line)
                stuck = some[(lower[some] <= line) & (upper[some] > line)]
                self._resolve(candidates, stuck, lower, upper)
        return Bounds(np.maximum(lower, 0.0), np.maximum(upper, 0.0), df, self.reference)

    def _look_at_rows(
        self, candidates: Indices, critical: Callable[[Floats], Floats], lower: Floats, upper: Floats, df: Floats
    ) -> Indices:
        """Intervals of columns that are mostly 0, where the rows they move tell enough; positions of others."""
        some = self._rare(candidates)
        m = float(self.model.likelihood.n_predictors)
        line = critical(np.full(len(some), m)) * (1.0 + TIE)
        low, high, _ = self._looked(candidates[some], line, np.inf, np.zeros(len(some)), np.full(len(some), np.inf))
        told = (high <= line) | (low > line)
        lower[some[told]], upper[some[told]], df[some[told]] = low[told], high[told], m
        return np.setdiff1d(np.arange(len(candidates)), some[told])

    def _rare(self, candidates: Indices) -> Indices:
        """Positions of candidates that are columns of few entries, where a look at these is cheap."""
        design, nobody = self.model.design, np.empty(0, dtype=np.intp)
        if not isinstance(design.matrix, DenseColumns | SparseColumns):
            return nobody
        single = np.flatnonzero(design.varying[candidates])
        few = single[self._readable(design.positions(candidates[single]))]
        return few if self._pays_to_look(len(few)) else nobody

    def _readable(self, columns: Indices) -> NDArray[np.bool_]:
        """Which columns have entries that are few enough to be looked at one by one."""
        return self.model.design.mostly_zero[columns]

    def _pays_to_look(self, count: int) -> bool:
        """Whether looks at the rows of so many candidates cost less than their models: what they share is all rows."""
        quick = count >= self.columns.size and self.model.design.n_rows * self.size**2 <= _WHOLE
        return self._sparse is not None or quick

    def _looked(
        self, candidates: Indices, line: Floats, best: float, lower: Floats, upper: Floats
    ) -> tuple[Floats, Floats, Floats]:
        if not len(candidates):
            return lower, upper, np.empty((0, 0))
        design = self.model.design
        return self.classes.look(design.matrix, design.positions(candidates), line, best, lower, upper)

    def _designs(self, candidates: Indices) -> Iterator[tuple[Indices, Floats, int]]:
        """Positions of candidates with as many new columns each, those columns, and how many a candidate has."""
        width = self.model.design.width[candidates]
        singles = np.flatnonzero(width == 1)
        step = max(1, self.model.design.block_size)
        for first in range(0, len(singles), step):
            some = singles[first : first + step]
            for places, columns in self._new_columns(candidates[some]):
                yield some[places], columns, 1
        for i in np.flatnonzero(width > 1):
            new = self.span.group(int(candidates[i])) * self._unit_mean_square()
            yield np.array([i], dtype=np.intp), np.asfortranarray(new), new.shape[1]

    def _new_columns(self, candidates: Indices) -> Iterator[tuple[Indices, Floats]]:
        """Columns that candidates of one each add to the model, and positions of those who add something."""
        columns = single_columns(self.model.design, candidates)
        unit, degenerate = self.span.residuals(columns)
        new = unit * self._unit_mean_square()
        if self._sparse is not None:
            words, few = mostly_zero(self, candidates, columns)
            apart = self.model.design.weights @ (words * new) / self.model.design.n
            new = np.where(few & (apart > APART), words, new)
        yield np.flatnonzero(~degenerate), np.asfortranarray(new[:, ~degenerate])

    def _raced(
        self,
        candidates: Indices,
        columns: Floats,
        line: Floats,
        leader: tuple[int, float] = (0, np.inf),
        exactly: bool = False,
    ) -> tuple[Floats, Floats]:
        """Intervals of candidates until the questions about them are answered; in a race, somebody leads."""
        if not len(candidates):
            return np.zeros(0), np.zeros(0)
        width = columns.shape[1] // len(candidates)
        size = self.size + width * self.model.likelihood.n_predictors
        known = [self._unfinished.get(candidate) for candidate in candidates.tolist()]
        warm = np.array([parameters is not None for parameters in known])
        starts = np.zeros((len(candidates), size))
        for i in np.flatnonzero(warm):
            starts[i] = known[i]
        lower, upper, ends = self.classes.race(
            columns, width, starts, warm, line, candidates.astype(np.int64, copy=False), *leader, exactly
        )
        far = self._is_far_out(ends, width)
        lower, upper = np.where(far, 0.0, lower), np.where(far & (upper > line), np.inf, upper)
        open_ = (lower < upper) & (lower > line)
        self._remember(candidates[open_], ends[open_])
        return lower, upper

    def _is_far_out(self, ends: Floats, width: int) -> NDArray[np.bool_]:
        """Whose own coefficients have gone so far that the likelihood they attain may be one of rounding."""
        m = self.model.likelihood.n_predictors
        first = m * self.columns.size
        return np.asarray(np.abs(ends[:, first : first + m * width]).max(axis=1, initial=0.0) > _FAR)

    def _remember(self, candidates: Indices, ends: Floats) -> None:
        if (len(self._unfinished) + len(candidates)) * ends.shape[1] <= _REMEMBERED:
            self._unfinished.update(zip(candidates.tolist(), ends, strict=True))

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """In a race, contenders are given up once they are below the best; all others are fitted to the end."""
        lower, upper = lower.copy(), upper.copy()
        todo = np.flatnonzero(lower < upper)
        if race:
            todo = self._look_closer(candidates, todo, lower, upper)
        for places, columns, _ in self._designs(candidates[todo]):
            some = todo[places]
            leader = _leader(candidates, lower) if race else (0, np.inf)
            low, high = self._raced(candidates[some], columns, np.full(len(some), -np.inf), leader, exactly=not race)
            exact = low == high
            lower[some] = np.where(exact, low, np.maximum(low, lower[some]))
            upper[some] = np.where(exact, high, np.minimum(high, upper[some]))
        self._unfinished.clear()
        left = (lower < upper) & (_may_be_best(candidates, lower, upper) if race else True)
        self._resolve(candidates, np.flatnonzero(left), lower, upper)
        return np.maximum(lower, 0.0), np.maximum(upper, 0.0)

    def _look_closer(self, candidates: Indices, todo: Indices, lower: Floats, upper: Floats) -> Indices:
        """Narrower intervals of columns that are mostly 0; who may still be best, and is not known."""
        some = todo[self._rare(candidates[todo])]
        line, best = np.full(len(some), -np.inf), _leader(candidates, lower)[1]
        lower[some], upper[some], ends = self._looked(candidates[some], line, best, lower[some], upper[some])
        left = todo[(lower[todo] < upper[todo]) & _may_be_best(candidates, lower, upper)[todo]]
        return self._fit_few(candidates, left, dict(zip(some.tolist(), ends, strict=False)), lower, upper)

    def _fit_few(
        self, candidates: Indices, todo: Indices, ends: dict[int, Floats], lower: Floats, upper: Floats
    ) -> Indices:
        """Statistics of some whose models can be kept for the next step; positions of the others."""
        return todo

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Intervals for removing each variable; thresholds bend the likelihood in ways that no Wald step shows."""
        unknown = self.deviance == 0.0 or not self.model.likelihood.brackets
        if unknown and self.span.full_rank:  # until somebody asks
            df = np.array([float(self.model.likelihood.n_predictors * self.span.rank_of[int(v)]) for v in variables])
            return Bounds(np.zeros(len(df)), np.full(len(df), np.inf), df, self.reference)
        if self.model.likelihood.brackets:
            return super().loss_bounds(variables, critical)
        evidence = self.losses(variables)
        return Bounds(evidence.statistic, evidence.statistic, evidence.df, self.reference)

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The likelihood ratio of a variable against the model without it, or an interval that is above `enough`."""
        if not np.isfinite(enough):
            return super().resolve_loss(variable, enough)
        others = Span(self.model.design, [s for s in self.span.selected if s != variable], self.span)
        return self._lost(type(self)(self.model, others, None if self._diverges else self, self._bar(enough)))

    def _bar(self, enough: float) -> float:
        """A deviance that says that a removal costs more than enough."""
        return self.deviance + enough * (1.0 + 4.0 * TIE) + _MORE

    def _lost(self, without: RacedFit) -> tuple[float, float]:
        loss = max(without.deviance - self.deviance, 0.0)
        return (loss if without.at_least is None else without.at_least - self.deviance), loss


def kernel_of(
    likelihood: Regression, columns: Floats | SparseModel, parameters: Floats, deviance: float
) -> SoftmaxClasses | OrderedClasses:
    """Models of classes with some columns; parameters come by column, then by predictor."""
    classes = cast(Multinomial | Ordinal, likelihood)
    kernel = SoftmaxClasses if isinstance(classes, Multinomial) else OrderedClasses
    codes = classes.codes.astype(np.int64, copy=False)
    return kernel(columns, codes, len(classes.labels), classes.weights, parameters, deviance)


def _leader(candidates: Indices, lower: Floats) -> tuple[int, float]:
    """Who is ahead, the first of those who are, and what his statistic is at least."""
    best = float(lower.max(initial=0.0))
    return int(candidates[lower >= best].min(initial=np.iinfo(np.int64).max)), best


def _may_be_best(candidates: Indices, lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Who may be better than the leader; those after him have to be, since the first of those who tie wins."""
    leader, best = _leader(candidates, lower)
    return np.where(candidates > leader, upper > best, upper >= best * (1.0 - TIE))
