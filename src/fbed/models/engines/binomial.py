"""Two classes: which engine answers, by bounds (`CertifiedBinomialFit`), codes, or a fit a model (`BinomialFit`).

The likelihood is its *supremum*: where a model separates the classes the coefficients are infinite, but the deviance
has a limit (0 when every row is separated), and the likelihood-ratio statistic is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed.clock import check_time
from fbed.matrix.design import Design
from fbed.models.base import Bounds, Fit, FittedModel, Indices, Span, harmonic_mean
from fbed.models.engines.categories.coded_fit import CodedFit, coded_fit, contested, is_worth_coding
from fbed.models.engines.categories.coded_model import CodedModel, Hints
from fbed.models.engines.categories.groups import GroupQuestions
from fbed.models.engines.categories.row_likelihoods import BinaryRows
from fbed.models.engines.certified import CertifiedLogistic
from fbed.models.engines.logistic_newton import deviance, maximise
from fbed.models.engines.rows_apart import FAR, Apart, largest_terms, without_rounding
from fbed.models.engines.sparse_description import logistic_estimates
from fbed.models.engines.sparse_logistic import MANY_COLUMNS, SparseLogistic
from fbed.models.engines.sparse_span import SparseSpan, sparse_span
from fbed.models.likelihoods.glm import logit_intercept
from fbed.models.presentation import ONE_PREDICTOR, on_users_scale
from fbed.models.recession import Recession, every, inverse_of_finite, logistic_recession
from fbed.rules.criteria import TIE, Evidence
from fbed.rules.p_values import ChiSquare, Floats

SATURATED = 1e-6
"""A deviance below this part of the null deviance leaves nothing to explain."""


class Binomial(CodedModel):
    """A binary outcome, y in {0, 1}; `certified` answers scans by bounds instead of fits."""

    name = "binomial"
    has_likelihood = True
    n_predictors = 1

    def __init__(self, design: Design, y: Floats, certified: bool = True, offset: Floats | None = None) -> None:
        self.design = design
        self.n = design.n
        self.y, self.outcome = y, BinaryRows(y)
        self.certified = certified
        self.block_size = design.scan_size if certified else design.block_size
        self.offset = offset
        mean = float(design.weights @ y / design.n)
        self.events = harmonic_mean(design.n * np.array([mean, 1.0 - mean]))
        self.null_predictor = (
            float(np.log(mean / (1.0 - mean))) if offset is None else logit_intercept(y, design.weights, offset)
        )
        self.null_deviance = float(deviance(self.null_predictors(), y, design.weights))

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> BinomialFit | CodedFit:
        """Maximise the likelihood on a set of variables; the fit nearby may be the one."""
        if isinstance(near, BinomialFit | CodedFit) and near.selected == tuple(selected):
            return near
        if not self.certified:
            return self.dense_fit(selected, near)
        grown = near.grown if isinstance(near, CertifiedBinomialFit) else None
        if grown is not None and grown.span.selected == tuple(selected):
            return CertifiedBinomialFit.of_engine(self, grown)
        sparse = sparse_span(self.design, selected, near.span if isinstance(near, BinomialFit) else None)
        if sparse is not None:
            return CertifiedBinomialFit(self, sparse, _hints(near))
        coded = None
        if is_worth_coding(self, selected):
            coded = coded_fit(self, selected, self.starts(tuple(selected), _hints(near)), near)
        return self.dense_fit(selected, near) if coded is None else coded

    def dense_fit(self, selected: Sequence[int], near: object = None) -> BinomialFit:
        """The same on a basis of orthogonal columns."""
        known = near.span if isinstance(near, BinomialFit) else None
        span = Span(self.design, selected, known)
        if not self.certified:
            return BinomialFit(self, span)
        found = CertifiedBinomialFit(self, span, _hints(near))
        if not isinstance(near, CodedFit) or near.selected != span.selected or _alike(found.deviance, near.deviance):
            return found
        again = CertifiedBinomialFit(self, span)  # from predictors far out, rounding may tell equal rows apart
        is_right = _alike(again.deviance, near.deviance) or self.offset is not None
        return again if is_right else BinomialFit(self, span)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Coefficients on the log-odds scale; where the classes are separated, some are infinite."""
        return self._described(self.fit(selected, near), with_errors=True)

    def outline(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """The same without standard errors."""
        return self._described(self.fit(selected, near), with_errors=False)

    def _described(self, fit: BinomialFit | CodedFit, with_errors: bool) -> FittedModel:
        if isinstance(fit, CodedFit):
            described = fit.describe()
            if described is not None:
                return described
            fit = self.dense_fit(fit.selected, fit)
        known = not with_errors and isinstance(fit, CertifiedBinomialFit) and fit.has_recession
        if isinstance(fit, CertifiedBinomialFit) and isinstance(fit.engine, SparseLogistic):
            told = logistic_estimates(fit.engine, with_errors, known)
            return told.fitted("binomial", fit.deviance, self.null_deviance)
        covariance, found = None, every(fit.coefficients) if known else fit.recession
        if with_errors:
            curvature = self.design.weights * special.expit(fit.predictor) * special.expit(-fit.predictor)
            covariance = inverse_of_finite(fit.Z.T @ (fit.Z * curvature[:, None]), found)
        shown = on_users_scale(fit.span, ONE_PREDICTOR, fit.coefficients, covariance, found)
        return shown.fitted("binomial", fit.deviance, self.null_deviance)


def _alike(one: float, other: float) -> bool:
    """Whether two deviances of the same model are the same."""
    return abs(one - other) <= 1e-8 * max(1.0, other)


def _hints(near: object) -> Hints:
    """What a fit knows of where others end."""
    if isinstance(near, CodedFit):
        return near.hints
    return near.engine.hints if isinstance(near, CertifiedBinomialFit) else {}


class BinomialFit:
    """Maximum likelihood on the span of S; every question is answered by fitting the model it is about."""

    def __init__(self, model: Binomial, span: Span, hints: Hints | None = None) -> None:
        self.model = model
        self.span = span
        self._maximise(hints or {})

    @property
    def Z(self) -> Floats:  # noqa: N802
        """The orthonormal basis that the coefficients belong to."""
        return self.span.Z

    @property
    def selected(self) -> tuple[int, ...]:
        """The variables of the model."""
        return self.span.selected

    def _maximise(self, hints: Hints) -> None:
        start = np.zeros((self.span.rank, 1))
        start[0] = self.model.null_predictor
        design = self.model.design
        found = maximise(self.Z, None, start, self.model.y, design.weights)
        self.coefficients, self.deviance = found.coefficients[:, 0], float(found.deviance[0])
        apart = self._apart(self.Z, float(largest_terms(self.Z, None, found.coefficients)[0]))
        if apart is not None:
            self.deviance = apart.deviance
            self.coefficients = np.asarray(self.Z.T @ (design.weights * apart.predictor) / design.n)
        self.predictor = self.Z @ self.coefficients

    def _apart(self, Z: Floats, terms: float, *more: int) -> Apart | None:
        """The model on S and maybe more, where the terms of its predictors are so large that rounding may be seen."""
        return without_rounding(self.model.design, (*self.selected, *more), self.model.y, Z, terms)

    @property
    def saturated(self) -> bool:
        """Whether the classes are separated, or as good as."""
        return self.deviance <= SATURATED * self.model.null_deviance

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """y − μ and μ(1 − μ), weighted."""
        mean, weights = special.expit(self.predictor), self.model.design.weights
        return (weights * (self.model.y - mean))[:, None], weights * mean * special.expit(-self.predictor)

    @cached_property
    def recession(self) -> Recession:
        """Directions in which fitted probabilities of some rows run to 0 or 1, and coefficients to infinity."""
        if self.deviance == 0.0:
            return every(self.coefficients)
        return logistic_recession(lambda: self.Z, self.model.y, self.predictor, self.coefficients)

    def gains(self, candidates: Indices) -> Evidence:
        """Fall of the deviance when each candidate is added."""
        larger, df = np.full(len(candidates), self.deviance), np.zeros(len(candidates))
        width = self.model.design.width[candidates]
        single = np.flatnonzero(width == 1)
        if len(single):
            larger[single], df[single] = self._single_deviances(candidates[single])
        for i in np.flatnonzero(width > 1):
            larger[i], df[i] = self._group_deviance(int(candidates[i]))
        return _evidence(self.deviance - larger, df)

    def losses(self, variables: Indices) -> Evidence:
        """Rise of the deviance when each variable is removed."""
        smaller, df = np.zeros(len(variables)), np.zeros(len(variables))
        for i, variable in enumerate(variables):
            check_time()
            without = BinomialFit(self.model, Span(self.model.design, [s for s in self.span.selected if s != variable]))
            smaller[i], df[i] = without.deviance, self.span.rank - without.span.rank
        return _evidence(smaller - self.deviance, df)

    def _single_deviances(self, candidates: Indices) -> tuple[Floats, Floats]:
        columns = self.model.design.stack(candidates.tolist())
        unit, degenerate = self.span.residuals(columns)
        out = np.full(len(candidates), self.deviance)
        tested = np.flatnonzero(~degenerate)
        if len(tested):
            x = unit[:, tested] * (np.sqrt(self.model.n) / self.span.root)[:, None]
            start = np.zeros((self.span.rank + 1, len(tested)))
            start[:-1] = self.coefficients[:, None]
            found = maximise(self.Z, x, start, self.model.y, self.model.design.weights)
            out[tested] = found.deviance
            terms = largest_terms(self.Z, x, found.coefficients)
            for j in np.flatnonzero(terms > FAR):
                i = tested[j]
                apart = self._apart(np.column_stack([self.Z, x[:, j]]), float(terms[j]), int(candidates[i]))
                out[i] = out[i] if apart is None else apart.deviance
        return out, (~degenerate).astype(float)

    def own_columns(self, variable: int) -> Floats:
        """Columns that a variable adds to the model, orthogonal to it and with unit mean square."""
        return np.asarray(self.span.group(variable) * (np.sqrt(self.model.n) / self.span.root)[:, None])

    def _group_deviance(self, variable: int) -> tuple[float, int]:
        new = self.own_columns(variable)
        start = np.concatenate([self.coefficients, np.zeros(new.shape[1])])[:, None]
        Z = np.hstack([self.Z, new])
        found = maximise(Z, None, start, self.model.y, self.model.design.weights)
        apart = self._apart(Z, float(largest_terms(Z, None, found.coefficients)[0]), variable)
        return float(found.deviance[0]) if apart is None else apart.deviance, new.shape[1]


class CertifiedBinomialFit(BinomialFit):
    """The same answers from certified bounds; models are fitted only where a decision needs it."""

    reference = ChiSquare()
    bounds_are_cheap = looks_are_dear = True
    engine: CertifiedLogistic

    def _maximise(self, hints: Hints) -> None:
        engine = SparseLogistic if isinstance(self.span, SparseSpan) else CertifiedLogistic
        self.engine = engine(self.model, self.span, self.model.starts(self.span.selected, hints))
        self.deviance, self.predictor = self.engine.deviance, self.engine.predictor

    @classmethod
    def of_engine(cls, model: Binomial, engine: CertifiedLogistic) -> CertifiedBinomialFit:
        """A fit that has been made already."""
        out = cls.__new__(cls)
        out.model, out.span, out.engine = model, engine.span, engine
        out.deviance, out.predictor = engine.deviance, engine.predictor
        return out

    @property
    def grown(self) -> SparseLogistic | None:
        """The fit with one variable more, where a contest had to make it."""
        return self.engine.grown if isinstance(self.engine, SparseLogistic) else None

    @cached_property
    def coefficients(self) -> Floats:  # type: ignore[override]
        """On the orthonormal basis."""
        return self.engine.on_basis()

    @property
    def has_recession(self) -> bool:
        """Whether rows that are explained for good tell so, without a search for all directions."""
        return self.deviance > 0.0 and len(self.engine.null.rows) < self.model.design.n_rows

    def prepare(self, n_candidates: int, critical: float = np.inf) -> None:
        """Factor the curvature."""
        self.engine.prepare(n_candidates, critical)

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Single columns and groups by certificates, doubtful ones by fits."""
        design = self.model.design
        one = float(critical(np.ones(1))[0])
        numeric = design.varying[candidates]
        if numeric.all() or (design.is_sparse and design.numeric[candidates].all()):
            return self._numeric_bounds(candidates, one, numeric)
        lower, upper, df = (np.zeros(len(candidates)) for _ in range(3))
        if numeric.any():
            found = self._numeric_bounds(candidates[numeric], one, numeric[numeric])
            lower[numeric], upper[numeric], df[numeric] = found.lower, found.upper, found.df
        for i in np.flatnonzero(~numeric & (design.width[candidates] > 0)):
            lower[i], upper[i], df[i] = self._groups.bounds(int(candidates[i]), critical)
        return Bounds(lower, upper, df, self.reference)

    @cached_property
    def _groups(self) -> GroupQuestions:
        return GroupQuestions(self)

    def _numeric_bounds(self, candidates: Indices, critical: float, varying: NDArray[np.bool_]) -> Bounds:
        lower, upper, suspect = self.engine.bounds(candidates, critical)
        df = varying.astype(np.float64)
        lower[suspect] = 0.0  # a column in the span of S has statistic 0, whatever its likelihood
        for i in np.flatnonzero((upper > critical) & (suspect | (lower <= critical * (1.0 + TIE)))):
            lower[i], df[i] = self._single_gain(int(candidates[i]))
            upper[i] = lower[i]
        return Bounds(lower, upper, df, self.reference)

    def _single_gain(self, candidate: int) -> tuple[float, float]:
        return self.engine.single_gain(candidate)

    def deviance_with(self, variable: int) -> float:
        """Deviance of the model with a variable, by fitting it, where certificates do not close."""
        return self.engine.deviance_with(self.own_columns(variable), variable)

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """Contenders by refinement, by fits of their own where certificates do not close."""
        lower, upper = lower.copy(), upper.copy()
        numeric, unknown = self.model.design.numeric[candidates], lower < upper
        self._contest_numeric(candidates, lower, upper, np.flatnonzero(numeric & unknown), race)
        if numeric.all():
            return lower, upper
        wide = np.flatnonzero(~numeric & unknown)
        best = contested(self._groups.resolve, candidates, lower, upper, wide, race)
        if best is not None:
            self.engine.hints[frozenset((*self.span.selected, best[0]))] = best[1]
        return lower, upper

    def _contest_numeric(self, candidates: Indices, lower: Floats, upper: Floats, numeric: Indices, race: bool) -> None:
        """Narrow the intervals of single columns of numbers in place."""
        if len(numeric) == 0:
            return
        told = race and self._is_known(int(candidates[0]), float(lower[0]), float(upper[0]))
        if told and numeric[0] > 0:
            numeric = np.append(0, numeric)
        contenders = candidates[numeric]
        found = self.engine.contest(contenders, lower[numeric], upper[numeric], race, told)
        lower[numeric], upper[numeric], best, predictor, is_open = found
        if best > 0 or not told:
            self.engine.hints[frozenset((*self.span.selected, int(contenders[best])))] = predictor
        for i in numeric[np.flatnonzero(is_open)] if is_open.any() else ():
            lower[i] = upper[i] = self._single_gain(int(candidates[i]))[0]

    def _is_known(self, candidate: int, lower: float, upper: float) -> bool:
        """Whether there is nothing to be learned of a column of numbers: its statistic, or where its model ends."""
        if not self.model.design.numeric[candidate] or upper - lower > TIE * max(1.0, lower):
            return False
        return lower == upper or frozenset((*self.span.selected, candidate)) in self.engine.hints

    def gains(self, candidates: Indices) -> Evidence:
        """Fall of the deviance when each candidate is added, by fits of their own."""
        found = [self._gain(int(candidate)) for candidate in candidates]
        return _evidence(np.array([gain for gain, _ in found]), np.array([df for _, df in found]))

    def _gain(self, candidate: int) -> tuple[float, float]:
        if self.model.design.numeric[candidate]:
            return self._single_gain(candidate)
        new = self.own_columns(candidate)
        return self.deviance - self.engine.deviance_with(new, candidate), float(new.shape[1])

    def losses(self, variables: Indices) -> Evidence:
        """Rise of the deviance when each variable is removed, by fits of their own."""
        rest = [[s for s in self.span.selected if s != variable] for variable in variables]
        spans = [Span(self.model.design, others) for others in rest]
        centre = [self.model.null_predictors()]
        smaller = np.array([CertifiedLogistic(self.model, span, centre).deviance for span in spans])
        return _evidence(smaller - self.deviance, np.array([float(self.span.rank - span.rank) for span in spans]))

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Drop-one intervals from the fit on S."""
        if not self.span.full_rank:
            exact = self.losses(variables)
            return Bounds(exact.statistic, exact.statistic, exact.df, self.reference)
        df = np.array([self.span.rank_of[int(variable)] for variable in variables], dtype=float)
        lower, upper = self.engine.loss_bounds(variables, float(critical(df).max()))
        return Bounds(lower, upper, df, self.reference)

    def lost_at_least(self, variables: Indices, enough: Floats) -> Floats:
        """What removing each variable costs at least, from one look at all of them; more than enough of most."""
        if not isinstance(self.engine, SparseLogistic):
            return np.zeros(len(variables))
        least = np.zeros(len(variables))
        if self.span.rank >= MANY_COLUMNS:
            least = self.engine.least_losses(variables, float(enough.max()) * (1.0 + 4.0 * TIE))
        rest = np.flatnonzero(least <= enough * (1.0 + 2.0 * TIE))
        if len(rest):
            left = self.engine.least_deviances_without(variables[rest], self.deviance + enough[rest])
            least[rest] = np.maximum(least[rest], left - self.deviance)
        return least

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """Fit the model without the variable, as far as is needed."""
        lower, upper = self.engine.deviance_without(variable, self.deviance + enough)
        return max(0.0, lower - self.deviance), max(0.0, upper - self.deviance)


def _evidence(difference: Floats, df: Floats) -> Evidence:
    statistic = np.where(df > 0, np.maximum(difference, 0.0), 0.0)
    return Evidence(statistic, df, None, ChiSquare())
