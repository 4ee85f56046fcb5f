"""Predictions for rows that were held out, straight from the table that was read once.

What a fold's model cannot know, a level that its rows do not have or a value that is missing where theirs never were,
is replaced by the mean of the term over the rows it was fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, special

from fbed.api.problem import Problem
from fbed.result.fitted import FinalModel, responses
from fbed.result.fitted.columns import MISSING, Column, plain
from fbed.result.fitted.likelihoods import Observed
from fbed.result.fitted.make import observed
from fbed.result.fitted.rows import indicators, with_means
from fbed.rules.p_values import Floats
from fbed.tables.columns import Factor
from fbed.tables.missing import LEVEL
from fbed.tables.rare import OTHER
from fbed.tables.table import Table
from fbed.tuning.folds import Rows

CERTAIN = 1e-5
"""Probabilities are held this far from 0 and 1 in deviances, as cv.glmnet does: a model of few rows that is certain and
wrong once shall not lose against all others for that row alone."""

_BEYOND = 1e70
"""Means of a log link are held within this factor of the mean outcome, so that sums of their squares are numbers."""


class RowsOfTable:
    """Some rows of a table as it was read, for models that were fitted on the same rows: terms of a column are kept."""

    def __init__(self, table: Table, rows: Rows) -> None:
        self.table, self.rows = table, rows
        self._known: dict[int, Floats] = {}

    def terms(self, columns: Sequence[Column]) -> Floats:
        """The terms of a model."""
        parts = [self._terms(column) for column in columns]
        return np.concatenate(parts).T if parts else np.empty((len(self.rows), 0))

    def _terms(self, column: Column) -> Floats:
        """Those of a column, a row each, as they are worked with."""
        if column.index not in self._known:
            self._known[column.index] = np.ascontiguousarray(self._made(column).T)
        return self._known[column.index]

    def _made(self, column: Column) -> Floats:
        factor = self.table.factors.get(column.index)
        if factor is not None:
            codes = _codes(column, factor, self.rows)
            return with_means(column, indicators(codes, len(column.levels)), codes < 0)
        values = self._column(column.index)
        missing = np.isnan(values)
        if column.fill is not None:
            values = np.where(missing, column.fill, values)
        parts = [missing.astype(float) if part == MISSING else values for part in column.parts]
        terms = np.column_stack(parts) if parts else np.empty((len(values), 0))
        return with_means(column, terms, np.isnan(values)) if column.fill is None else terms

    def _column(self, index: int) -> Floats:
        matrix, place = self.table.matrix, int(self.table.position[index])
        if (
            sparse.issparse(matrix) and matrix.format == "csc"
        ):  # a slice of it takes far longer to be made than to be read
            own = slice(matrix.indptr[place], matrix.indptr[place + 1])
            values: Floats = np.bincount(matrix.indices[own], matrix.data[own], matrix.shape[0]).astype(np.float64)
            return values[self.rows]
        whole = matrix[:, [place]]
        dense = whole.toarray() if sparse.issparse(whole) else np.asarray(whole)
        return np.asarray(dense[self.rows, 0], dtype=np.float64)


def _codes(column: Column, factor: Factor, rows: Rows) -> Rows:
    """Level of each row among those of the model, −1 for what it does not know."""
    known = {level: code for code, level in enumerate(column.levels)}
    absent, other = known.get(LEVEL, -1), known.get(OTHER, -1)
    lookup = np.array([*(known.get(plain(level), other) for level in factor.levels), absent], dtype=np.intp)
    return lookup[factor.codes[rows]]  # a missing value has code −1, the last place


@dataclass(frozen=True)
class Held:
    """What a model says of rows that were held out: predictor, mean (a column a class), deviance of each row.

    The mean of a survival time is the probability of an event up to the median time of events.
    """

    risk: Floats
    mean: Floats
    loss: Floats


class HeldOut:
    """Rows of a problem that were held out of a fit."""

    def __init__(self, problem: Problem, rows: Rows) -> None:
        self.problem, self.table = problem, RowsOfTable(problem.observed, rows)
        self.name = problem.model.name
        seen = observed(problem, self.name)
        self.seen = Observed(
            seen.y[rows],
            seen.weights[rows],
            None if seen.event is None else seen.event[rows],
            None if seen.trials is None else seen.trials[rows],
        )
        offset = problem.extras.offset
        self.offset = None if offset is None else offset[rows]
        self.labels = class_labels(problem)
        self.horizon = horizon_of(problem)
        self.average = float(np.mean(seen.y))

    def predicted_by(self, models: Sequence[FinalModel]) -> list[Held]:
        """The predictions of models with the same variables that were fitted on other rows."""
        terms = self.table.terms(models[0].columns)
        found = responses.predictors_of_several(models, terms)
        return [self._predicted(model, eta) for model, eta in zip(models, found, strict=True)]

    def _predicted(self, model: FinalModel, eta: Floats) -> Held:
        if self.offset is not None:
            eta = eta + self.offset[:, None]
        mean = held_mean(model, eta, self.average) if self.horizon is None else self._event_probability(model, eta)
        mean = self._all_classes(model, mean) if mean.ndim == 2 else mean
        risk = eta[:, 0] - model.center if self.name == "cox" else eta[:, 0]
        return Held(risk, mean, deviances(model, eta[:, 0], mean, self.seen))

    def _event_probability(self, model: FinalModel, eta: Floats) -> Floats:
        """Not known of strata, each of which has a hazard of its own."""
        if self.problem.extras.strata is not None:
            return np.full(len(eta), np.nan)
        return 1.0 - responses.survival(model, eta, np.array([self.horizon]))[:, 0]

    def _all_classes(self, model: FinalModel, probability: Floats) -> Floats:
        """Probability 0 for classes that the fold's rows do not have."""
        out = np.zeros((len(probability), len(self.labels)))
        out[:, [self.labels.index(label) for label in model.classes]] = probability
        return out


def horizon_of(problem: Problem) -> float | None:
    """The median time of events, at which survival is looked at; None where there are no times."""
    outcome = problem.outcome
    return None if outcome.event is None else float(np.median(outcome.values[outcome.event]))


def class_labels(problem: Problem) -> list[Any]:
    """The classes of the whole outcome, as models call them."""
    name = problem.model.name
    if name in ("multinomial", "ordinal"):
        return [plain(label) for label in problem.outcome.classes(name)[1]]
    return [plain(level) for level in problem.outcome.levels] if name == "binomial" else []


def held_mean(model: FinalModel, eta: Floats, average: float) -> Floats:
    """The mean of every row, or the probability of each class; what a log link takes beyond all numbers is held."""
    mean = responses.mean(model, eta)
    return np.clip(mean, average / _BEYOND, average * _BEYOND) if model.link == "log" and average > 0 else mean


def deviances(model: FinalModel, eta: Floats, mean: Floats, seen: Observed) -> Floats:
    """−2·log-likelihood of every row up to a constant of the row; squared errors where the spread is no parameter."""
    y, family = seen.y, model.family
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if family in ("multinomial", "ordinal"):
            own = mean[np.arange(len(y)), y.astype(np.intp)]
            return -2.0 * np.log(np.clip(own, CERTAIN, 1.0 - CERTAIN))
        if family == "binomial":
            p = np.clip(mean, CERTAIN, 1.0 - CERTAIN)
            trials = np.ones_like(y) if seen.trials is None else seen.trials
            return -2.0 * (y * np.log(p) + (trials - y) * np.log1p(-p))
        if family == "poisson":
            return 2.0 * (mean - y - special.xlogy(y, mean) + special.xlogy(y, y))
        if family == "negative_binomial":
            return _negative_binomial(y, mean, model.coefficients[model.terms.index("dispersion")])
        if family == "gamma":
            return 2.0 * (y / mean - 1.0 - np.log(y / mean))
        if family == "weibull":
            scale = model.coefficients[model.terms.index("scale")]
            z = np.minimum((np.log(y) - eta) / scale, math.log(_BEYOND))
            return -2.0 * (np.where(np.asarray(seen.event), z - np.log(scale), 0.0) - np.exp(z))
        if family == "cox":
            return np.full(len(y), np.nan)  # a row alone has no partial likelihood
        return (y - mean) ** 2


def _negative_binomial(y: Floats, mean: Floats, alpha: float) -> Floats:
    if alpha < 1e-10:
        return 2.0 * (mean - y - special.xlogy(y, mean) + special.xlogy(y, y))
    size = 1.0 / alpha
    ways = special.gammaln(y + size) - special.gammaln(size) - special.gammaln(y + 1.0)
    return -2.0 * (ways + special.xlogy(y, alpha * mean) - (y + size) * np.log1p(alpha * mean))
