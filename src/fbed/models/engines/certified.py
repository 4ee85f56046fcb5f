"""The certified scan: exact decisions about logistic models without fitting them.

The search needs decisions, not statistics: does x pass, is x best? Convex duality encloses the likelihood-ratio
statistic of every candidate in an interval computed from the fit on S alone; intervals are narrowed only until the
decision is certain, and only contenders for the best place are resolved to the end. What is selected is exactly what
fitting every model would select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fbed._kernels import (
    LogisticNull,
    deviances_after,
    fit_logistic,
    least_rows,
    pattern_deviances,
    row_deviances,
)
from fbed.models.base import Indices, Span
from fbed.models.engines.bound_functions import E
from fbed.models.engines.categories.coded_model import Hints
from fbed.models.engines.fitted_logistic import Null, as_stored
from fbed.models.engines.functionals import Functionals
from fbed.models.engines.rows_apart import Apart, largest_terms, without_rounding
from fbed.models.engines.some_rows import SomeRows
from fbed.models.likelihoods.glm import BINOMIAL, Glm
from fbed.models.likelihoods.newton import Columns, maximise
from fbed.models.recession import way_to_infinity
from fbed.rules.p_values import Floats

if TYPE_CHECKING:
    from fbed.models.engines.binomial import Binomial

_SUSPECT = 1e-11  # norm² left after the model, relative, below which a column may count as collinear: looked at closely
_COARSE = 0.1  # deviance that a quick upper bound may give away: little beside any critical value in use,
_RAISED = 3.0  # and as large a part of what it exceeds this by, as that of the best so far does
_TOO_DEAR, _LESS = 5.0, 0.1  # times that what is spared may cost, beyond which only this part of it is
_EXACT = 1e-12  # squared Newton decrement of the fit on S; quadratic convergence leaves far less, separation this much
_ROUGH = 1e-6  # of a fit that is looked at for bounds only, which know what it is short of
_ENOUGH = 1e-11  # and of fits of which only the deviance is wanted
_CONVERGED = 1e-9  # squared Newton decrement that no finished fit exceeds
_UNSOUND = 1e-2  # what a fit that has ended may seem short of its maximum: a basis with more has directions of rounding
CROWD = 20  # contenders for whom a coarser look at the rows pays where columns are mostly 0
_FEW = 200  # candidates for whom a coarser look at the rows, or a look at several columns at once, does not pay
_FIRST = 32  # one in so many of many candidates is asked first whether most of them pass
FAR = 20.0  # linear predictors from which a row may be on its way to infinity
_ARRIVED = 45.0  # and at which there is nothing left of it in float64
_SHIFTED = 1e3  # a centre this many scales away costs digits in a one-pass inner product


Begin = Callable[[Floats, Floats], Floats]
Tried = tuple[Floats, Floats, float, float, float, bool, int]


class CertifiedLogistic:
    """The fit on S, and what it tells about models with one variable more or less."""

    crowd: float = np.inf  # contenders for whom a coarser look at the rows pays; of dense columns it costs as much

    def __init__(self, model: Binomial, span: Span, start: Sequence[Floats]) -> None:
        self.model = model
        self.span = span
        if model.design.by_support:
            self.crowd = CROWD
        self._begin(start)
        self.hints: Hints = {frozenset(span.selected): self.predictor}
        self.coarse: Null | None = None  # for upper bounds only
        self._spared = 0.0  # what its rows may leave out
        self.some_rows: SomeRows | None = None  # the same, for many candidates
        self.crowded = False  # whether many candidates are being asked about, block after block

    def _begin(self, start: Sequence[Floats]) -> None:
        """Fit the model, from linear predictors that may be near."""
        span, model = self.span, self.model
        starts = [span.Q.T @ (span.root * model.without_offset(eta)) / np.sqrt(model.n) for eta in start]
        self.coefficients, self.predictor, self.deviance, _ = self._fitted(self.Z, starts)
        apart = self._apart(self.Z, self.coefficients, span.selected)
        if apart is not None and abs(apart.deviance - self.deviance) > _ROUGH:
            moved = model.without_offset(apart.predictor)
            self.coefficients = np.asarray(self.Z.T @ (model.design.weights * moved) / model.n)
            self.predictor, self.deviance = self._moved(self.coefficients), apart.deviance
            if model.offset is not None:
                self.predictor = self.predictor + model.offset

    @cached_property
    def Z(self) -> Floats:  # noqa: N802
        """The basis, column after column."""
        return np.asfortranarray(self.span.Z)

    def on_basis(self) -> Floats:
        """Coefficients on the orthonormal basis."""
        return self.coefficients

    def _fitted(
        self, Z: Any, starts: Sequence[Floats], tolerance: float = _EXACT, enough: float = np.inf
    ) -> tuple[Floats, Floats, float, float]:
        """Coefficients, linear predictor and deviance of the model Z, from the best start; the last is a safe one.

        The fit ends early when its deviance is certain to be more than `enough`; the last number bounds it from below.
        Where none of the ways to it arrives, the one that comes closest is taken.
        """

        def got_stuck(found: Tried) -> bool:
            return found[4] > _CONVERGED and not found[5] and found[3] <= enough

        found = best = self._tried(Z, np.array(starts), tolerance, enough)
        for elsewhere in self._elsewhere(lambda *_: starts[-1]):
            if not got_stuck(found):
                return found[:4]
            begin = elsewhere(self._side_by_side(Z, len(found[0])), found[0])
            found = self._tried(Z, begin[None], tolerance, enough)
            best = min(best, found, key=lambda tried: tried[2])
        return (best if got_stuck(found) else found)[:4]

    def _elsewhere(self, safely: Begin) -> tuple[Begin, ...]:
        """Where to begin again, given columns and where a fit got stuck: on a basis, a safe start may end there too."""
        return self._by_linear_program, safely, self._by_slower_steps

    def _apart(self, Z: Floats, coefficients: Floats, variables: Sequence[int]) -> Apart | None:
        """The model of variables with the basis Z, where rounding of the basis may have told rows apart."""
        terms = float(largest_terms(Z, None, coefficients[:, None])[0])
        return without_rounding(self.model.design, variables, self.model.y, Z, terms, self.model.offset)

    def _tried(self, Z: Any, starts: Floats, tolerance: float, enough: float) -> Tried:
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        return fit_logistic(Z, weights, y, starts, tolerance, enough, offset)

    @staticmethod
    def _side_by_side(Z: Any, size: int) -> Floats:
        """The columns of a model as a matrix."""
        return np.asarray(Z)

    def _by_linear_program(self, Z: Floats, start: Floats) -> Floats:
        """Coefficients far along a way to infinity that explains as many rows as any, if there is one.

        Newton's steps do not find a way on which some rows come to be explained a thousand times later than others.
        """
        way, margin = way_to_infinity((2.0 * self.model.y - 1.0)[:, None] * Z)
        behind = -((2.0 * self.model.y - 1.0) * (Z @ start))[margin > 0.0]
        if len(behind) == 0:
            return start
        return np.asarray(start + way * (_ARRIVED + max(float(behind.max()), 0.0)) / float(margin[margin > 0.0].min()))

    def _by_slower_steps(self, Z: Floats, start: Floats) -> Floats:
        """Coefficients that the engine of all families ends at."""
        likelihood = Glm(BINOMIAL, self.model.y, self.model.design.weights, self.model.offset)
        return maximise(likelihood, Columns(Z), start[:, None]).parameters[:, 0]

    @cached_property
    def mean(self) -> Floats:
        """Fitted probabilities."""
        return np.asarray(special.expit(self.predictor))

    @cached_property
    def row_deviance(self) -> Floats:
        """What each row has left to explain."""
        return row_deviances(self.model.design.weights, self.model.y, self.predictor)

    @cached_property
    def null(self) -> Null:
        """All rows but the saturated ones; of those only the ones that the model can move on its own, if it can."""
        weights, y = self.model.design.weights, self.model.y
        kernel = LogisticNull.of_fit(
            self.Z, weights, y, self.predictor, self.coefficients, self.deviance, self.model.offset, self._rounding
        )
        self.deviance = kernel.deviance  # in the supremum, rows that the model has explained for good are
        return Null(kernel)

    def _coarse(self, spared: float) -> Null | None:
        """Without the rows that have next to nothing left, for upper bounds only; None when there are few such rows.

        Near separation those rows are most rows, and the ones that make bounds wide: they can move far at little cost.
        Setting them to their outcome costs the deviance they have left, `spared` at most. The others are looked at
        where they fit best on their own; what they gain on the way there is added to that cost.
        """
        n_rows, idle = len(self.predictor), least_rows(self.row_deviance, spared)
        if not n_rows / 4 <= len(idle) < n_rows:
            return None
        active = self.model.design.weights.copy()
        active[idle] = 0.0
        rows = np.flatnonzero(active)
        predictor = self.predictor.copy()
        predictor[rows] = self._fitted_on(rows, active[rows], _ROUGH)
        left = row_deviances(active, self.model.y, predictor)
        active[left < _ROUGH] = 0.0  # explained on the way
        cost = float(self.row_deviance.sum()) * (1.0 + 1e-12) - float(left[active > 0].sum())
        if not active.any():
            return None
        return Null(self._null_of(predictor, active, cost))

    def _fitted_on(self, rows: Indices, weights: Floats, tolerance: float) -> Floats:
        """Linear predictors of some rows, of the model that fits them best."""
        Z, y = np.take(self.Z.T, rows, axis=1).T, self.model.y[rows]
        return fit_logistic(Z, weights, y, self.coefficients[None], tolerance, np.inf, self._offset(rows))[1]

    def _offset(self, rows: Indices) -> Floats | None:
        """What some rows have that no coefficient moves, where there is such a thing."""
        return None if self.model.offset is None else self.model.offset[rows]

    def _null_of(self, predictor: Floats, active: Floats, cost: float) -> LogisticNull:
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        how = self.deviance, cost, offset, self._rounding
        return LogisticNull.of_rows(self.Z, weights, y, predictor, active, *how)

    @property
    def _rounding(self) -> float:
        """Of the basis, beside that of one whose columns are far from dependent."""
        return 1.0 / self.span.least_part

    def _moved(self, coefficients: Floats) -> Floats:
        """How far coefficients move every row."""
        return np.asarray(self.Z @ coefficients)

    def prepare(self, n_candidates: int, critical: float = np.inf) -> None:
        """What all candidates share, before threads ask for it; a few candidates are asked without further ado."""
        self.crowded = n_candidates >= _FEW
        if n_candidates >= min(_FEW, self.crowd) and self.span.rank > 1 and np.isfinite(critical):
            self._look_coarsely(_COARSE * max(1.0, critical - _RAISED))
        null = self.null
        if not self.model.design.by_support:
            null.prepare()
        told_apart = self.crowded and self.span.rank > 1 and self.coarse is None and np.isfinite(critical)
        self.some_rows = SomeRows.of(self.model.design, null, n_candidates) if told_apart else None

    def _look_coarsely(self, spared: float) -> None:
        """Find the rows that have most of the deviance, unless those are known for about as much to spare."""
        if 0.5 * spared <= self._spared <= 1.5 * spared:
            return
        self.coarse, self._spared = self._coarse(spared), spared
        if self.coarse is not None and self.coarse.kernel.idle_cost > _TOO_DEAR * spared:
            self.coarse = self._coarse(_LESS * spared) or self.coarse

    @property
    def _is_sound(self) -> bool:
        """Whether no direction of the basis is rounding, along which any number may be told."""
        return self.span.rank == 1 or not self.null.kernel.short > _UNSOUND

    def bounds(self, candidates: Indices, critical: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Lower and upper bounds for single numeric columns, settled against the critical value; and who is suspect."""
        which = self.model.design.positions(candidates)
        if not self._is_sound:
            return np.zeros(len(which)), np.full(len(which), self.deviance), np.zeros(len(which), dtype=bool)
        if self.span.rank == 1 and not self.model.design.is_sparse and self.model.offset is None:
            lower, upper = self._first_scan(which)
            still = np.flatnonzero(_unsettled(lower, upper, critical) & np.isfinite(critical))
        elif self.coarse is not None and np.isfinite(critical):
            lower, upper = self._bounds_by_fewer_rows(self.coarse, which, critical)
            still = np.flatnonzero(_unsettled(lower, upper, critical))
        elif self.some_rows is not None and np.isfinite(critical):
            upper = self.some_rows.upper(which, critical)
            lower, still = np.zeros(len(which)), np.flatnonzero(upper > critical * (1.0 - 1e-9))
        else:
            return self._brackets(self.null, which, critical)
        suspect = np.zeros(len(which), dtype=bool)
        if len(still):
            lower[still], fine, suspect[still] = self._brackets(self.null, which[still], critical)
            upper[still] = np.maximum(np.minimum(upper[still], fine), lower[still])
        return lower, upper, suspect

    def _bounds_by_fewer_rows(self, coarse: Null, which: NDArray[np.int64], critical: float) -> tuple[Floats, Floats]:
        """Upper bounds from the rows that have most of the deviance, which have no lower ones to tell.

        Of many candidates most fail, unless the first ones pass; few have been left by scans before, and most of them
        pass.
        """
        lower, upper = np.zeros(len(which)), np.full(len(which), np.inf)
        first = len(which)
        if self.crowded:  # a look at all rows costs little where columns are stored without zeros
            first = -(-len(which) // _FIRST) if self.model.design.is_sparse else 0
        if first:
            self._look_quickly(which, critical, slice(0, first), lower, upper)
        if first < len(which) and np.count_nonzero(lower[:first] > critical) > first / 2:
            self._look_quickly(which, critical, slice(first, None), lower, upper)
        still = np.flatnonzero(_unsettled(lower, upper, critical))
        if len(still):
            high, suspect = self._brackets(coarse, which[still], critical, ranked=False)[1:]
            doubtful = np.flatnonzero(suspect & (high > critical))
            if len(doubtful):
                known = self._are_known(coarse, which[still][doubtful])
                high[doubtful[known]] = np.minimum(high[doubtful[known]], coarse.kernel.elsewhere)
            upper[still] = np.maximum(np.minimum(upper[still], high), lower[still])
        return lower, upper

    def _look_quickly(
        self, which: NDArray[np.int64], critical: float, some: slice, lower: Floats, upper: Floats
    ) -> None:
        """Brackets of some columns from all rows, without refinement."""
        lower[some], upper[some], suspect = self._brackets(self.null, which[some], critical, ranked=False, refine=False)
        lower[some][suspect] = 0.0

    def _are_known(self, coarse: Null, which: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which columns are no other, on the rows of a coarser look, than one of the model: they add nothing there.

        Columns that differ from one of the model in rows only that are as good as explained are many near separation,
        and rounding hides whether they differ elsewhere.
        """
        chosen = [variable for variable in self.span.selected if self.model.design.varying[variable]]
        if coarse.columns is None:
            coarse.columns = set(as_stored(self.model.design, self.model.design.positions(chosen), coarse.rows))
        here = as_stored(self.model.design, which, coarse.rows)
        return np.array([column in coarse.columns for column in here])

    def _brackets(
        self, null: Null, which: NDArray[np.int64], critical: float, ranked: bool = True, refine: bool = True
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        design = self.model.design
        # enough columns to look at all rows of several at once
        many = not design.by_support and (not design.is_sparse or len(which) > _FEW)
        lower, upper, left = null.kernel.brackets(
            design.matrix, which, design.center, design.scale, design.mostly_zero[which], critical, refine, ranked, many
        )
        rest = np.flatnonzero(np.isnan(left)) if many else np.empty(0, dtype=np.intp)
        for start in range(0, len(rest), design.block_size):
            part = rest[start : start + design.block_size]
            block = design.matrix.gather(which[part], design.center, design.scale)
            low, high, left[part] = null.brackets(block, critical, refine)
            lower[part] = np.maximum(lower[part], low)
            upper[part] = np.maximum(np.minimum(upper[part], high), lower[part])
        return lower, upper, 4.0 * left <= _SUSPECT * design.n

    def _first_scan(self, which: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """S is empty: one pass over the columns, their extremes are known."""
        design = self.model.design
        center, scale = design.center[which], design.scale[which]
        u = (design.matrix.dots(which, self.null.score) - center * self.null.score.sum()) / scale
        low, high = (design.low[which] - center) / scale, (design.high[which] - center) / scale
        lower, upper = self.null.kernel.first(u, low, high, float(self.null.curvature.sum()))
        shifted = np.abs(center) / _SHIFTED > scale
        return np.where(shifted, 0.0, lower), np.where(shifted, np.inf, upper)

    def contest(
        self, candidates: Indices, lower: Floats, upper: Floats, race: bool, first_is_known: bool = False
    ) -> tuple[Floats, Floats, int, Floats, NDArray[np.bool_]]:
        """Refine contenders, given best first, until each is resolved or out of the race; the first may be known.

        Also tells who is best, the linear predictor of that model, and where certificates did not close. Most of a
        crowd is put below what the first of them is certain to gain by a coarser look.
        """
        crowded = race and len(candidates) >= (self.crowd if self.coarse is None else min(self.crowd, 2))
        if crowded and self.coarse is None:
            self._look_coarsely(_COARSE)
        if not crowded or self.coarse is None:
            return self._resolved(candidates, lower, upper, race, first_is_known)
        lower, upper, leading = lower.copy(), upper.copy(), None
        if not first_is_known:  # the more is certain of the first, the less it takes to put others below
            # whether it stays open is told again below: nobody rules it out
            lower[:1], upper[:1], _, leading, _ = self._resolved(candidates[:1], lower[:1], upper[:1], True, False)
        bar = float(lower[0])
        which = self.model.design.positions(candidates[1:])
        coarse = self._brackets(self.coarse, which, bar, ranked=False)[1]
        upper[1:] = np.maximum(np.minimum(upper[1:], coarse), lower[1:])
        stay = np.flatnonzero(upper >= bar * (1.0 - 1e-8) - 1e-8)
        found = self._resolved(candidates[stay], lower[stay], upper[stay], True, True)
        is_open = np.zeros(len(lower), dtype=bool)
        lower[stay], upper[stay], is_open[stay] = found[0], found[1], found[4]
        best = int(stay[found[2]])
        predictor = found[3] if best > 0 or leading is None else leading
        return lower, upper, best, predictor, is_open

    def _resolved(
        self, candidates: Indices, lower: Floats, upper: Floats, race: bool, first_is_known: bool
    ) -> tuple[Floats, Floats, int, Floats, NDArray[np.bool_]]:
        design = self.model.design
        which = design.positions(candidates)
        return self.null.kernel.contest(
            design.matrix,
            which,
            design.center,
            design.scale,
            design.mostly_zero[which],
            lower,
            upper,
            race,
            first_is_known,
        )

    def single_gain(self, candidate: int) -> tuple[float, float]:
        """Statistic and df of one more column by a fit of its own, where certificates do not close."""
        unit, degenerate = self.span.residuals(self.model.design.block([candidate]))
        if degenerate[0]:
            return 0.0, 0.0
        larger = self.deviance_with(unit * (np.sqrt(self.model.n) / self.span.root)[:, None], candidate)
        return max(0.0, self.deviance - larger), 1.0

    def deviance_with(self, columns: Floats, variable: int) -> float:
        """Deviance of the model with a variable more, whose columns are orthogonal to it."""
        none = np.zeros(columns.shape[1])
        starts = [np.append(self.coefficients, none), np.append(self._centre(), none)]
        Z = np.asfortranarray(np.hstack([self.Z, columns]))
        found = self._fitted(Z, starts, _ENOUGH)
        apart = self._apart(Z, found[0], (*self.span.selected, variable))
        return self._settled(Z, found) if apart is None else apart.deviance

    def _centre(self) -> Floats:
        """Coefficients of the model with an intercept only."""
        out = np.zeros(self.span.rank)
        out[0] = self.model.null_predictor
        return out

    def loss_bounds(self, variables: Indices, critical: float) -> tuple[Floats, Floats]:
        """Bounds on what removing each variable costs; no removal costs more than that of all variables."""
        most = (self.model.null_deviance - self.deviance) * (1.0 + 1e-9) + 1e-9 * self.model.null_deviance
        lower, upper = np.zeros(len(variables)), np.full(len(variables), most)
        if self.deviance > 0.0 and self._is_sound:  # if separated, the coefficients are some point on a way to infinity
            lower, upper = self._bounds_by_ways(variables, critical, most)
        unsure = np.flatnonzero(lower <= critical * (1.0 + 2e-9))
        if len(unsure) and self.model.offset is None:  # which would tell rows apart that are equal otherwise
            least = self._least_deviances(variables[unsure]) - self.deviance - 1e-9 * self.model.null_deviance
            lower[unsure] = np.minimum(np.maximum(lower[unsure], least * (1.0 - 1e-9)), upper[unsure])
        return lower, upper

    def _bounds_by_ways(self, variables: Indices, critical: float, most: float) -> tuple[Floats, Floats]:
        """About E(z_min)·Wald ≤ LR ≤ the deviance at a model without the variable.

        That model is the one that the quadratic approximation at the fit suggests; its deviance is an upper bound
        whatever its quality, and only looked at where the lower bound does not settle it.
        """
        lower, upper = np.zeros(len(variables)), np.full(len(variables), most)
        known, ways, wald = self._shortest_ways_without(variables)
        if len(known) == 0:
            return lower, upper
        steps = self._moved(self.null.whitener @ ways)
        active = self.null.curvature > 0
        mean, moved = (self.mean, steps) if active.all() else (self.mean[active], steps[active])
        mean = mean[:, None]
        z_min = np.minimum(np.minimum((mean - 1.0) * moved, mean * moved).min(axis=0, initial=0.0), 0.0)
        lower[known] = np.maximum(self._surely_lost(wald, z_min), 0.0)
        unsure = lower[known] <= critical * (1.0 + 2e-9)
        without = deviances_after(self.model.design.weights, self.model.y, self.predictor, steps.T[unsure].T)
        rest, rounding = known[unsure], 1e-12 * self.deviance
        upper[rest] = np.minimum(without - self.deviance + rounding, most)
        return lower, np.maximum(upper, lower) * (1.0 + 1e-9)

    def _least_deviances(self, variables: Indices) -> Floats:
        """What models without each variable leave unexplained whatever their coefficients: rows of different classes
        that are equal in all other variables.
        """
        design, selected = self.model.design, self.span.selected
        width = design.width[list(selected)]
        place = np.array([selected.index(int(variable)) for variable in variables], dtype=np.intp)
        first = (np.cumsum(width) - width)[place]
        columns = np.ascontiguousarray(design.stack(selected))
        return pattern_deviances(columns, self.model.y, design.weights, first, first + width[place])

    def _surely_lost(self, wald: Floats, z_min: Floats) -> Floats:
        """E(z_min)·Wald, less what the fit is short of a maximum and what saturated rows might be hiding."""
        null, short = self.null.kernel, self.null.kernel.short
        least = E(z_min - null.reach * short * (1.0 - z_min)) * wald * (1.0 - 1e-9)
        return least - 4.0 * short * np.sqrt(wald) - 2.0 * short**2 - null.idle_cost

    @cached_property
    def functionals(self) -> Functionals:
        """What vanishes on models without a variable."""
        return Functionals(self.span)

    def _shortest_ways_without(self, variables: Indices) -> tuple[Indices, Floats, Floats]:
        """Which variables have such a way; the ways, a column each; and their Wald statistics."""
        selected = variables.tolist()
        if all(self.span.rank_of[variable] == 1 for variable in selected):
            return self._single_ways_without([self.span.place(variable).start for variable in selected])
        found = [self._shortest_way_without(variable) for variable in selected]
        known = np.array([i for i, way in enumerate(found) if way is not None], dtype=np.intp)
        there = [way for way in found if way is not None]
        ways = np.column_stack([way for way, _ in there]) if there else np.empty((0, 0))
        return known, ways, np.array([wald for _, wald in there])

    def _single_ways_without(self, places: list[int]) -> tuple[Indices, Floats, Floats]:
        """The same for single columns of the model, all in one go."""
        functionals, free = self.functionals.single[:, places], self.null.free
        known = np.arange(len(places), dtype=np.intp)
        if free.shape[1]:
            known = np.flatnonzero(np.abs(free.T @ functionals).max(axis=0) <= 1e-9)
            functionals = functionals[:, known]
        whitened, coefficients = self.null.whitener.T @ functionals, self.coefficients @ functionals
        dual = coefficients / np.einsum("ij,ij->j", whitened, whitened)
        return known, whitened * dual, coefficients * dual

    def _shortest_way_without(self, variable: int) -> tuple[Floats, float] | None:
        """Step (on G) to the nearest model without the variable, in the curvature's metric; and Wald's statistic."""
        functional = self.functionals.of(variable)
        if self.null.free.shape[1] and np.abs(self.null.free.T @ functional).max() > 1e-9:
            return None
        whitened = self.null.whitener.T @ functional
        coefficients = functional.T @ self.coefficients
        dual = _solved(whitened.T @ whitened, coefficients)
        return whitened @ dual, float(coefficients @ dual)

    def deviance_without(self, variable: int, enough: float) -> tuple[float, float]:
        """Deviance of the model without one variable, from a start close by; or an interval that is above `enough`."""
        functional, rest = self.functionals.without(variable)
        near = self._shortest_way_without(variable) if self.deviance > 0.0 else None
        if near is not None:
            start = self.coefficients - self.null.whitener @ near[0]
        else:
            own = self.functionals.triangle[:, self.span.place(variable)]
            start = self.coefficients - own @ _solved(functional.T @ own, functional.T @ self.coefficients)
        starts = [part * (rest.T @ start) for part in self._parts(near is not None)] + [rest.T @ self._centre()]
        Z = (rest.T @ self.Z.T).T
        found = self._fitted(Z, starts, _ENOUGH, enough)
        apart = self._apart(Z, found[0], [v for v in self.span.selected if v != variable])
        if apart is not None:
            found = found[0], apart.predictor, apart.deviance, apart.deviance
            return self._decided(variable, None, found, enough)
        return self._decided(variable, Z, found, enough)

    @staticmethod
    def _parts(finite: bool) -> tuple[float, ...]:
        """A separated model may be anywhere on its way to infinity, so a part of it is tried as well."""
        return (1.0,) if finite else (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)

    def _decided(
        self, variable: int, Z: Any, found: tuple[Floats, Floats, float, float], enough: float
    ) -> tuple[float, float]:
        """What a fit without a variable tells of its deviance, in the limit; without columns, it is there already."""
        attained, certain = found[2:]
        if certain > enough:
            return certain, attained
        self.hints[frozenset(self.span.selected) - {variable}] = found[1]
        if attained > 0.0 and Z is not None:
            attained = self._in_the_limit(Z, found)
        return attained, attained

    def _settled(self, Z: Any, found: tuple[Floats, Floats, float, float]) -> float:
        """The deviance of a fit, in the limit where some rows are on their way there."""
        far = found[2] > 0.0 and float(np.abs(found[1]).max()) > FAR
        return self._in_the_limit(Z, found) if far else found[2]

    def _in_the_limit(self, Z: Any, found: tuple[Floats, Floats, float, float]) -> float:
        """The deviance of a fit without what its steps to infinity have still left.

        Several variables may be superfluous where nearly all rows are separated: they tie at a loss of 0, but for that.
        """
        weights, y, offset = self.model.design.weights, self.model.y, self.model.offset
        return LogisticNull.of_fit(Z, weights, y, found[1], found[0], found[2], offset, self._rounding).deviance


def _solved(matrix: Floats, right: Floats) -> Floats:
    """The solution of a linear system, most often one of a single number."""
    return np.asarray(right / matrix[0, 0] if len(right) == 1 else np.linalg.solve(matrix, right))


def _unsettled(lower: Floats, upper: Floats, critical: float) -> NDArray[np.bool_]:
    return (upper > critical * (1.0 - 1e-9)) & (lower <= critical * (1.0 + 2e-9))
