"""A model whose selected variables include categories with many levels, which stay codes.

A basis of orthogonal columns would take n·L numbers and n·L² operations for L levels. Here Newton's steps eliminate the
levels of the largest category and count pairs of levels for the others (`coded_columns`), fits and candidates are
enclosed on the way up (`ascent`), and candidates of few columns are bounded from the rows of the fit (`fitted_rows`). A
fit with one more variable takes over what the fit before has factorised, as long as the weights of the rows have not
moved far.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from fbed.matrix.design import Design
from fbed.models.base import COLLINEAR, Bounds, FittedModel, Indices, Span
from fbed.models.engines.categories.ascent import RESOLVED, Settled, is_clear
from fbed.models.engines.categories.coded_columns import INDEPENDENT, Category, CodedColumns, category_of
from fbed.models.engines.categories.coded_description import CodedDescription
from fbed.models.engines.categories.coded_model import CodedModel, DenseFit
from fbed.models.engines.categories.coded_projection import Projection
from fbed.models.engines.categories.explained import moved_alone, moving_columns, still_moving, unexplained
from fbed.models.engines.categories.fitted_rows import FittedRows
from fbed.models.engines.categories.walks import AllSettled
from fbed.rules.criteria import TIE, Evidence
from fbed.rules.p_values import ChiSquare, Floats

MANY_LEVELS = 16
"""Levels of all categories in the model from which they are worth to stay codes."""

_SATURATED = 1e-6  # part of the null deviance below which nothing is left to explain
_MOST_PAIRS = 2**24  # of levels of two categories
_STRAY = 1e-6  # part of a predictor that may be rounding


def is_worth_coding(model: CodedModel, selected: Sequence[int]) -> bool:
    """Whether categories have many levels together, or one has a level that is at infinity, out of Newton's reach."""
    levels = sum(category.n_levels for category in _categories(model.design, selected))
    return levels > MANY_LEVELS or has_level_at_infinity(model, selected)


def has_level_at_infinity(model: CodedModel, selected: Sequence[int]) -> bool:
    """Whether a level explains its rows in the limit."""
    explained, weights = model.outcome.explained, model.design.weights
    return any(bool(explained(category, weights).any()) for category in _categories(model.design, selected))


def _categories(design: Design, selected: Sequence[int]) -> list[Category]:
    several = np.flatnonzero(~design.numeric[np.asarray(selected, dtype=np.intp)]).tolist()
    return [found for i in several if (found := category_of(design, selected[i])) is not None]


@dataclass(frozen=True)
class Arrangement:
    """Variables as coded columns: the category with most levels is eliminated."""

    columns: CodedColumns
    rank: int


def arranged(design: Design, selected: Sequence[int], own: Floats | None = None) -> Arrangement | None:
    """A set of variables, and maybe a column; None when it is not certain which of them depend on others."""
    categories = {v: category_of(design, v) for v in selected}
    coded = sorted((c for c in categories.values() if c is not None), key=lambda c: -c.n_levels)
    if len(coded) > 1 and coded[0].n_levels * coded[1].n_levels > _MOST_PAIRS:
        return None
    plain = [v for v in selected if categories[v] is None]
    parts = [design.stack(plain)] if own is None else [design.stack(plain), own]
    constant = Category(np.zeros(design.n_rows, dtype=np.int8), 1)
    first, others = (coded[0], coded[1:]) if coded else (constant, [])
    columns = CodedColumns(first, np.hstack(parts), design.weights, others)
    kept = columns.independent()
    if kept is None:
        return None
    columns = columns if len(kept) == columns.size else columns.only(kept)
    return Arrangement(columns, columns.n_levels + columns.size)


def coded_fit(
    model: CodedModel,
    selected: Sequence[int],
    starts: Sequence[Floats],
    near: object = None,
    kind: type[CodedFit] | None = None,
) -> CodedFit | None:
    """The fit on a set of variables; None where orthogonal columns are needed."""
    best = min(starts, key=model.deviance_at)
    larger = near.extended(tuple(selected), best) if isinstance(near, CodedFit) else None
    if larger is not None:
        return larger
    arrangement = arranged(model.design, selected)
    if arrangement is None:
        return None
    if isinstance(near, CodedFit) and set(selected) < set(near.selected):
        best = near.within(arrangement.columns)
    for start in (best, starts[-1]):
        ascent = model.ascent(arrangement.columns, start)
        found = ascent.enclose(lambda least, most: False)
        if found.settled:
            chosen = tuple(int(v) for v in selected)
            weight, deviance = model.left_by(ascent, found.most)
            return (kind or CodedFit)(model, chosen, arrangement, weight, ascent.hint(), deviance)
    return None


class CodedFit:
    """Maximum likelihood on S by codes; scans are answered by bounds."""

    reference = ChiSquare()
    bounds_are_cheap, looks_are_dear = True, False

    def __init__(
        self,
        model: CodedModel,
        selected: tuple[int, ...],
        arrangement: Arrangement,
        weight: Floats,
        predictor: Floats,
        deviance: float,
    ) -> None:
        self.model, self.selected, self.arrangement = model, selected, arrangement
        self.columns, self.weight = arrangement.columns, weight
        self.predictor, self.deviance = predictor, deviance
        self.hints = {frozenset(selected): self.predictor}

    def extended(self, selected: tuple[int, ...], start: Floats) -> CodedFit | None:
        """The fit with one more variable, by the factor of this one; None where it does not serve."""
        if selected[:-1] != self.selected or "_null" not in self.__dict__:
            return None
        joined = self._null.joined(self.model.design, selected[-1])
        if joined is None or not self._is_new(selected[-1]):
            return None
        projection, left = joined
        rows = FittedRows.arrived(projection, start, self.model.outcome, self.weight)
        if rows is None:
            return None
        rank = self.arrangement.rank + projection.columns.size - self.columns.size
        arrangement = Arrangement(projection.columns, rank)
        out = CodedFit(self.model, selected, arrangement, self.weight, rows.predictor, rows.deviance)
        out._null = replace(rows, before=left)
        return out

    def _is_new(self, variable: int) -> bool:
        """Whether columns are certain to be no combination of the model's, from what is left of them at the fit.

        A projection leaves at least as much under larger weights: the prior ones are those of the fit at least, once
        these are divided by the largest curvature of a single copy of a row.
        """
        left = self._null.left_of(self.model.design, variable)
        if left is None:
            return False
        weight, design = self._null.projection.weight, self.model.design
        least = float(np.linalg.eigvalsh(left.columns.T @ (weight[:, None] * left.columns))[0])
        return least > INDEPENDENT * design.n * float((weight / design.weights).max())

    @cached_property
    def span(self) -> Span:
        """The same model by orthogonal columns, for those who need them."""
        return Span(self.model.design, self.selected)

    @cached_property
    def dense(self) -> DenseFit:
        """The same fit by orthogonal columns."""
        return self.model.dense_fit(self.selected, self)

    def further(self) -> Floats:
        """No parameters beside those of the predictors."""
        return np.zeros(0)

    def predictors(self) -> Floats:
        """Linear predictors without the offset, n × predictors."""
        return self.model.without_offset(self.predictor).reshape(len(self.predictor), -1)

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """y − μ and the variance of y, weighted; 0 on rows that levels explain."""
        rows = self.model.outcome.at(self.predictor, self.weight)
        return rows.residual[:, None], rows.curvature

    @property
    def saturated(self) -> bool:
        """Whether the outcome is explained completely, or as good as."""
        return self.deviance <= _SATURATED * self.model.null_deviance

    def describe(self) -> FittedModel | None:
        """The model as people see it; None where that takes orthogonal columns."""
        design = self.model.design
        numbers = sum(int(design.width[v]) for v in self.selected if design.codes(v) is None)
        if self.columns.columns.shape[1] != numbers or self.deviance == 0.0 or not self._levels_explain:
            return None
        description = CodedDescription(design, self.selected, self.columns)
        linear = self.model.without_offset(self.predictor)
        return description.model(
            linear, self.predictor, self.model.outcome, self.weight, self.deviance, self.model.null_deviance
        )

    @property
    def _levels_explain(self) -> bool:
        """Whether all rows that are explained are so by levels alone."""
        categories = [self.columns.levels, *(other.category for other in self.columns.others)]
        left = unexplained(categories, self.model.outcome, self.model.design.weights)
        return np.array_equal(left > 0, self.weight > 0)

    def prepare(self, n_candidates: int, critical: float = np.inf) -> None:
        """Factor the curvature."""
        _ = self._null

    @cached_property
    def _null(self) -> FittedRows:
        return FittedRows.of(self.columns, self.predictor, self.model.outcome, self.weight)

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Blocks of numeric columns by the bracket at the fit, everything else on the way up."""
        design = self.model.design
        lower, upper, df = (np.zeros(len(candidates)) for _ in range(3))
        one = float(self.model.n_predictors)
        numeric, bar = np.flatnonzero(design.varying[candidates]), float(critical(np.array([one]))[0])
        for start in range(0, len(numeric), design.block_size):
            some = numeric[start : start + design.block_size]
            lower[some], upper[some], suspect = self._null.brackets(design, candidates[some], self.deviance, bar)
            df[some] = one
            for i in some[suspect | _is_open(lower[some], upper[some], bar)]:
                lower[i], upper[i], df[i] = self._one(int(candidates[i]), critical)
        for i in np.flatnonzero(~design.varying[candidates] & (design.width[candidates] > 0)):
            lower[i], upper[i], df[i] = self._group(int(candidates[i]), critical)
        return Bounds(lower, upper, df, self.reference)

    def _group(self, candidate: int, critical: Callable[[Floats], Floats]) -> tuple[float, float, int]:
        """An interval for several columns, by what they have beside the model where that is enough."""
        directions = self._own_directions(candidate)
        if directions is not None:
            df = directions.shape[1]
            bar = float(critical(np.array([float(df)]))[0])
            found = self._null.enclose(directions, self.deviance, partial(is_clear, self.deviance, bar))
            if found is not None:
                return max(0.0, self.deviance - found.most), max(0.0, self.deviance - found.least), df
        return self._one(candidate, critical)

    def _own_directions(self, candidate: int) -> Floats | None:
        """What a variable has beside the model, where steps by the factor of the fit tell intervals."""
        return self._null.own_directions(self.model.design, candidate) if self._null.is_sound else None

    def _one(self, candidate: int, critical: Callable[[Floats], Floats]) -> tuple[float, float, int]:
        """An interval for one candidate that is clear of its critical value, and its df."""
        larger = self._with(candidate)
        if larger is None:
            found = self.dense.gains(np.array([candidate], dtype=np.intp))
            return float(found.statistic[0]), float(found.statistic[0]), int(found.df[0])
        df = self.model.n_predictors * (larger.rank - self.arrangement.rank)
        if df == 0:
            return 0.0, 0.0, 0
        bar = float(critical(np.array([float(df)]))[0])
        return (*self._enclosed(candidate, larger, partial(is_clear, self.deviance, bar))[:2], df)

    def _with(self, candidate: int) -> Arrangement | None:
        """The model with a candidate; a single column counts as new by what the model leaves of it."""
        design = self.model.design
        if not design.varying[candidate]:
            return arranged(design, (*self.selected, candidate))
        column = design.block([candidate])
        if self._left_over(column) <= COLLINEAR:
            return self.arrangement
        return Arrangement(self._moving.joined(column), self.arrangement.rank + 1)

    @cached_property
    def _moving(self) -> CodedColumns:
        """Without columns that depend on others on the rows that count, where that leaves no doubt."""
        columns = still_moving(self.columns, self.weight)
        if (self.weight > 0).all():
            return columns
        kept = CodedColumns(columns.levels, columns.columns, self.weight, columns.others).independent()
        return columns if kept is None or len(kept) == columns.size else columns.only(kept)

    def _left_over(self, column: Floats) -> float:
        """Part of a column's norm² that the model leaves under the prior weights; projected twice against rounding."""
        rows, weights = self._plain, self.model.design.weights
        left = rows.without_model(rows.without_model(column))[:, 0]
        return float(weights @ left**2) / float(weights @ column[:, 0] ** 2)

    @cached_property
    def _plain(self) -> Projection:
        return Projection.of(self.columns, self.model.design.weights)

    def _enclosed(self, candidate: int, larger: Arrangement, settled: Settled) -> tuple[float, float, Floats | None]:
        ascent = self.model.ascent(larger.columns, self.predictor, self.weight)
        found = ascent.enclose(settled)
        if found.settled:
            return max(0.0, self.deviance - found.most), max(0.0, self.deviance - found.least), found.predictor
        exact = float(self.dense.gains(np.array([candidate], dtype=np.intp)).statistic[0])
        return exact, exact, None

    def resolve(self, candidate: int, floor: float) -> tuple[float, float, Floats | None]:
        """The statistic of adding a variable, or an interval below `floor`; and the predictors of that model."""

        def is_known(least: float, most: float) -> bool:
            return self.deviance - least < floor or most - least <= RESOLVED * max(1.0, self.deviance - most)

        directions = None if self._goes_to_infinity(candidate) else self._own_directions(candidate)
        if directions is not None and (not self.model.design.varying[candidate] or self._is_new(candidate)):
            found = self._null.enclose(directions, self.deviance, is_known)
            if found is not None:
                return self.deviance - found.most, self.deviance - found.least, found.predictor
        larger = self._with(candidate)
        if larger is None:
            exact = float(self.dense.gains(np.array([candidate], dtype=np.intp)).statistic[0])
            return exact, exact, None
        return (0.0, 0.0, None) if larger is self.arrangement else self._enclosed(candidate, larger, is_known)

    def _goes_to_infinity(self, candidate: int) -> bool:
        """Whether a column explains rows by itself, where steps by the factor of the fit do not lead in time."""
        design = self.model.design
        if not design.varying[candidate]:
            return False
        return bool(moved_alone(design.block([candidate]), self.model.outcome.sides, self.weight).any())

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """Contenders one by one, until each is a number or out of the race."""
        lower, upper = lower.copy(), upper.copy()
        best = contested(self.resolve, candidates, lower, upper, np.flatnonzero(lower < upper), race)
        if best is not None:
            self.hints[frozenset((*self.selected, best[0]))] = best[1]
        return lower, upper

    def gains(self, candidates: Indices) -> Evidence:
        """Fall of the deviance when each candidate is added."""
        return self.dense.gains(candidates)

    def losses(self, variables: Indices) -> Evidence:
        """Rise of the deviance when each variable is removed."""
        return self.dense.losses(variables)

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Deviances without each variable, as far as the rows of the fit tell; none exceeds that of no variable."""
        df = self._df_lost(variables)
        if df is None:
            exact = self.losses(variables)
            return Bounds(exact.statistic, exact.statistic, exact.df, self.reference)
        most = (self.model.null_deviance - self.deviance) * (1.0 + 1e-9) + 1e-9 * self.model.null_deviance
        lower, upper = np.zeros(len(variables)), np.where(df > 0, most, 0.0)
        which = [i for i, variable in enumerate(variables.tolist()) if variable in self._told]
        bar = critical(df)[which]
        found = self._enclosed_without(variables[which].tolist(), partial(_are_lost_or_not, self.deviance, bar))
        if found is not None:
            least, attained, _ = found
            lower[which] = np.clip(least - self.deviance, 0.0, most)
            upper[which] = np.clip((attained - self.deviance) * (1.0 + 1e-9) + 1e-9, lower[which], most)
        return Bounds(lower, upper, df, self.reference)

    def _df_lost(self, variables: Indices) -> Floats | None:
        """By how many parameters models without each variable are smaller; None where that is in doubt."""
        df = np.ones(len(variables))
        for i, variable in enumerate(variables.tolist()):
            place = self._places.get(variable)
            if place is not None:
                df[i] = place.stop - place.start
            elif self._places and (category := category_of(self.model.design, variable)) is not None:
                eliminated = category.codes is self.columns.levels.codes
                df[i] = (self.columns.n_levels if eliminated else category.n_levels) - 1
            elif (smaller := self._without(variable)) is not None:
                df[i] = self.arrangement.rank - smaller.rank
            else:
                return None
        return self.model.n_predictors * df

    def _enclosed_without(
        self, variables: Sequence[int], settled: AllSettled
    ) -> tuple[Floats, Floats, NDArray[np.bool_]] | None:
        """Intervals for deviances without each of some variables, from the rows of the fit; None if these do not do."""
        places = [self._places[variable] for variable in variables]
        found = self._null.enclose_without(places, self._coefficients, settled) if places else None
        if found is None:
            return None
        least, most, told, ends = found
        strays = self._strays(places, ends)
        return np.where(strays, 0.0, least), np.where(strays, np.inf, most), told & ~strays

    def _strays(self, places: Sequence[slice], ends: Floats) -> NDArray[np.bool_]:
        """Which predictors are not those of a model without the columns at each of some places.

        Beside rows that are as good as certain, steps are long, and what rounding has left in them grows.
        """
        moved = ends if self.model.offset is None else ends - self.model.offset[:, None]
        there, own = self.weight > 0, np.zeros((self.columns.size, len(places)))
        for j, place in enumerate(places):
            own[place, j] = self._by_weight.coefficients(moved[:, j])[place]
        no_levels = np.zeros((len(self._by_weight.inverse), len(places)))
        rest = self._by_weight.without_model(moved) + self.columns.predict(no_levels, own)
        size = np.maximum(1.0, np.abs(moved[there]).max(axis=0, initial=0.0))
        return ~np.asarray(np.abs(rest[there]).max(axis=0, initial=0.0) <= _STRAY * size)

    def _without(self, variable: int) -> Arrangement | None:
        if variable not in self._smaller:
            others = tuple(v for v in self.selected if v != variable)
            self._smaller[variable] = arranged(self.model.design, others)
        return self._smaller[variable]

    @cached_property
    def _smaller(self) -> dict[int, Arrangement | None]:
        return {}

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The statistic of removing one variable, or an interval that is above `enough`."""
        if variable in self._told:
            found = self._enclosed_without([variable], partial(_are_lost, self.deviance, enough))
            if found is not None and found[2][0]:
                least, worth = (max(0.0, float(end[0]) - self.deviance) for end in found[:2])
                return (least, worth) if least > enough else (worth, worth)
        smaller = self._without(variable)
        if smaller is not None and smaller.rank == self.arrangement.rank:  # others stand in for it
            return 0.0, 0.0
        for start in (self.within(smaller.columns), self.model.null_predictors()) if smaller is not None else ():
            assert smaller is not None
            ascent = self.model.ascent(smaller.columns, start)
            found = ascent.enclose(lambda least, most: least - self.deviance > enough)
            if found.settled:
                if found.least == found.most:
                    self.hints[frozenset(self.selected) - {variable}] = found.predictor
                return max(0.0, found.least - self.deviance), max(0.0, found.most - self.deviance)
        loss = float(self.dense.losses(np.array([variable], dtype=np.intp)).statistic[0])
        return loss, loss

    @cached_property
    def _coefficients(self) -> Floats:
        """Of the columns beside the levels; every row counts alike, since those that are certain may be the ones that
        tell them.
        """
        return self._by_weight.coefficients(self.model.without_offset(self.predictor))

    @cached_property
    def _by_weight(self) -> Projection:
        """Every row that is not explained by its level counts as it is weighted."""
        return Projection.of(self.columns, self.weight)

    @cached_property
    def _places(self) -> dict[int, slice]:
        """Which columns beside the levels belong to a variable: where no column depends on others.

        Not for what explains rows, a column or a category by its levels: without it, these count again.
        """
        design = self.model.design
        plain = [v for v in self.selected if design.codes(v) is None]
        ends = np.cumsum([0, *design.width[plain]]).tolist()
        whole = all(len(other.kept) == other.category.n_levels - 1 for other in self.columns.others)
        if not whole or self.columns.columns.shape[1] != ends[-1]:
            return {}
        moving = set(moving_columns(self.columns, self.weight).tolist())
        places = {v: slice(*pair) for v, pair in zip(plain, itertools.pairwise(ends), strict=True)}
        out = {v: place for v, place in places.items() if moving.issuperset(range(place.start, place.stop))}
        coded = {id(c.codes): v for v in self.selected if (c := category_of(design, v)) is not None}
        place = ends[-1]
        for other in self.columns.others:
            own, place = slice(place, place + len(other.kept)), place + len(other.kept)
            variable = coded.get(id(other.category.codes))
            if variable is not None and not self.model.outcome.explained(other.category, self.weight).any():
                out[variable] = own
        return out

    @cached_property
    def _told(self) -> set[int]:
        """Variables that the rows of the fit tell about: nothing stands in for their columns where rows bend."""
        if not self._places:
            return set()
        loose = self._null.projection.loose.tolist()
        return {v for v, place in self._places.items() if not any(place.start <= j < place.stop for j in loose)}

    def within(self, columns: CodedColumns) -> Floats:
        """Predictors of a smaller model that are close to those of this one where rows are undecided."""
        null = self._null
        target = self.model.without_offset(np.clip(self.predictor, -30.0, 30.0))
        weight = null.curvature + 1e-6 * self.model.design.weights
        fitted = columns.newton(weight * target, weight).move
        return fitted if self.model.offset is None else fitted + self.model.offset


def _are_lost(deviance: float, enough: float, least: Floats, most: Floats) -> NDArray[np.bool_]:
    """What is certain to cost more than `enough` to be removed, or costs what is a number."""
    is_number = (most < np.inf) & (most - least <= RESOLVED * np.maximum(1.0, most - deviance))
    return np.asarray((least - deviance > enough) | is_number)


def _are_lost_or_not(deviance: float, bar: Floats, least: Floats, most: Floats) -> NDArray[np.bool_]:
    """What is certain to cost more than is asked of it to be removed, or no more."""
    return np.asarray((least - deviance > bar * (1.0 + 2.0 * TIE)) | (most - deviance <= bar))


def _is_open(lower: Floats, upper: Floats, bar: float) -> NDArray[np.bool_]:
    """Who may pass or fail."""
    return np.asarray((upper > bar) & (lower <= bar * (1.0 + 2.0 * TIE)))


def contested(
    resolve: Callable[[int, float], tuple[float, float, Floats | None]],
    candidates: Indices,
    lower: Floats,
    upper: Floats,
    which: Indices,
    race: bool,
) -> tuple[int, Floats] | None:
    """Narrow the intervals of some contenders in place, until each is a number or out of the race.

    Also tells the best of them and the predictors of the model with it, where the search for it has come by them.
    """
    best: tuple[int, Floats] | None = None
    for i in which.tolist():
        bar = float(lower.max())
        floor = bar - 2.0 * TIE * max(1.0, bar) if race else -np.inf
        if upper[i] < floor:
            continue
        low, high, predictor = resolve(int(candidates[i]), floor)
        lower[i] = max(lower[i], low)
        upper[i] = max(lower[i], min(upper[i], high)) if low < high else lower[i]
        if lower[i] >= lower.max() and predictor is not None:
            best = int(candidates[i]), predictor
    return best
