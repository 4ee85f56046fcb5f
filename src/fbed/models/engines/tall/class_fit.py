"""Outcomes of classes on many rows: the certified scan from sums over blocks of rows.

A variable has several coefficients here, one for each class but the first where classes have no order, and thresholds
are parameters beside those of columns. What a scan knows of a candidate after one pass are its score, the information
that S leaves of it, and Newton's step, of which `movement` says what it promises at least and at most. Who may still
pass or fail, or be best, is looked at where his step ends: the likelihood there is a lower bound, and the gradient
there, λ₁² = gᵀH⁻¹g in the metric of the fit on S, an upper one, since the curvature there is e⁻ˢ of that at S at least:

    2[ℓ₁ − ℓ] − 2N²  ≤  LR  ≤  2[ℓ₁ − ℓ] + λ₁²eˢ·P(−κλ₁eˢ).

λ₁ is of second order in the step: the interval is a thousandth of the statistic. Where it tells nothing, a fit does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.models.base import Bounds, FittedModel, Indices
from fbed.models.engines.bound_functions import E
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.climb import SHORT
from fbed.models.engines.tall.factor import NotTall
from fbed.models.engines.tall.fit import TallFit, in_doubt
from fbed.models.engines.tall.movement import Moved, gained_by, gained_within
from fbed.rules.criteria import TIE
from fbed.rules.p_values import Floats

if TYPE_CHECKING:
    from fbed.models.engines.tall.row_questions import ClassVerbs

_DELICATE = 1e-5  # part of a column's own information that S leaves, below which sums of products lose digits
_SOUND = 1e-7  # and the part of it that some combination of classes has
_SLACK = 1e-9  # rounding of sums, relative
_MOST_PRODUCTS = 2**22  # of candidates with coefficients of the model that are held at once
_FEW = 32  # candidates whose steps are kept although they do not pass
_TOGETHER = 16  # steps whose ends are looked at side by side
_WORTH_A_STEP = 1e-4  # promise of a step from which another one is followed before a fit begins
_MOST = 2.0  # how much curvature may change along a step that is followed to its end
_NOTHING = 1e-200  # promise of a step of which nobody can tell how far it goes for its length
_LONGEST = 50.0  # beyond, nothing is known
_SHOWN = 1e-17  # what a fit may be short of its maximum where standard errors are shown


@dataclass(frozen=True)
class _Step:
    """Newton's step of a model with one variable more: what there is beside S, and where it leads."""

    gamma: Floats  # the model's coefficients for a unit of each of the variable's
    left: Floats  # information that S leaves of these
    whole: Floats  # the step of all coefficients
    reach: Floats  # sizes of all columns
    moved: Moved

    def copied(self) -> _Step:
        """The same without what other candidates have beside it."""
        return replace(self, gamma=self.gamma.copy(), whole=self.whole.copy(), reach=self.reach.copy())


class TallClassFit(TallFit):
    """Maximum likelihood of classes on the standardised columns of S."""

    sums: ClassVerbs

    def _cold(self) -> Floats:
        width = self.sums.blocks.width(self.selected) * self.sums.n_predictors
        return np.concatenate([self.sums.start(), np.zeros(width)])

    @property
    def lead(self) -> int:
        """How many coefficients come before those of the variables."""
        return self.sums.lead

    @cached_property
    def reach(self) -> Floats:
        """The largest size of every column of the model, the constant first if there is one."""
        return np.concatenate([np.ones(1 if self.sums.constant else 0), self.sums.blocks.reach(self.selected)])

    def place(self, variable: int) -> slice:
        """Coefficients that belong to a variable."""
        width, m = self.model.design.width, self.sums.n_predictors
        first = self.lead + m * int(sum(width[s] for s in self.selected[: self.selected.index(variable)]))
        return slice(first, first + m * int(width[variable]))

    def _widths(self, variables: Indices) -> Floats:
        return super()._widths(variables) * self.sums.n_predictors

    def drift_of(self, step: Floats, at: Floats, here: Sweep) -> float:
        """How much curvature may change along a step."""
        moved = self.sums.moved(step[:, None], self.reach)
        return float(self.sums.bend(here.rows, moved, moved)[0])

    def left_to_gain(self, promised: float, drift: float) -> tuple[float, float]:
        """What is left to gain where a step that bends so much promises so much: at least, at most."""
        bend, whole = np.array([drift]), np.array([promised])
        return float(gained_by(bend, whole)[0]), float((whole * self.sums.above(bend))[0])

    def enough(self, loss: float, drift: float) -> float:
        """What the last step may promise: less where no dual point tells what is left."""
        return super().enough(loss, drift) if self._has_duals else SHORT

    @cached_property
    def _has_duals(self) -> bool:
        return bool(np.isfinite(self.sums.above(np.zeros(1)))[0])

    @cached_property
    def _drifted(self) -> Moved:
        """How far the fit is from its maximum, as far as a step tells."""
        return self.sums.moved((self.maximum - self.coefficients)[:, None], self.reach)

    def _bend(self, moved: Moved, within: Moved | None = None) -> Floats:
        return self.sums.bend(self.sweep.rows, moved, moved if within is None else within)

    # --- adding a variable ------------------------------------------------------------------------------------------

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Brackets from a pass over the columns, ends of steps, fits: each for those in doubt after the one before."""
        df = self._widths(candidates)
        lower, upper = np.zeros(len(candidates)), np.where(df > 0, self.deviance * (1.0 + _SLACK), 0.0)
        delicate = self._look(candidates, lower, upper, critical(df))
        for i in np.flatnonzero(delicate):
            lower[i], df[i] = self._gain(int(candidates[i]))
            upper[i] = lower[i]
        line = critical(df)
        self._follow(candidates, lower, upper, in_doubt(lower, upper, line))
        passing = np.flatnonzero((df > 0) & (lower > line))
        if len(np.unique(df[passing])) > 1:
            self._follow(candidates, lower, upper, passing)  # whose p-value is smallest, wide brackets would not tell
        else:
            self._narrow_leaders(candidates, lower, upper, passing)
        self._follow_on(candidates, lower, upper, in_doubt(lower, upper, line))
        self._fit_in_doubt(candidates, lower, upper, df, line)
        return Bounds(lower, np.maximum(upper, lower), df, self.reference)

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """In a race rivals are followed another step, so that hardly anybody but the winner is fitted."""
        lower, upper = lower.copy(), upper.copy()
        unknown = np.flatnonzero(lower < upper)
        rivals = unknown[upper[unknown] >= lower.max(initial=0.0) * (1.0 - TIE)]
        if race and len(rivals) > 1:
            self._follow_on(candidates, lower, upper, rivals)
        return super().contest(candidates, lower, upper, race)

    def _narrow(self, candidates: Indices, lower: Floats, upper: Floats, rows: Indices) -> None:
        self._follow(candidates, lower, upper, rows)

    def _look(self, candidates: Indices, lower: Floats, upper: Floats, line: Floats) -> NDArray[np.bool_]:
        """Brackets from one pass over the columns, some at a time; who is delicate."""
        delicate, design = np.zeros(len(candidates), dtype=bool), self.model.design
        single = np.flatnonzero(design.varying[candidates])
        together = max(1, _MOST_PRODUCTS // (len(self.coefficients) * self.sums.n_predictors))
        blocks = np.split(single, np.arange(together, len(single), together)) if len(single) else []
        for some in blocks:
            looked = self.sums.look(self.sweep.rows, self.selected, candidates[some])
            reach = np.tile(self.reach[:, None], len(some))
            own = self.sums.blocks.reach(candidates[some])[None]
            found = self._brackets_of(candidates[some], looked, np.vstack([reach, own]), line[some])
            lower[some], upper[some], delicate[some] = found
        for i in np.flatnonzero(~design.varying[candidates] & (design.width[candidates] > 0)):
            variable = int(candidates[i])
            looked = self.sums.look_at_group(self.sweep.rows, self.selected, variable)
            reach = np.concatenate([self.reach, self.sums.blocks.reach([variable])])[:, None]
            one = self._brackets_of(candidates[[i]], looked, reach, line[[i]])
            lower[i], upper[i], delicate[i] = (part[0] for part in one)
        return delicate

    def _brackets_of(
        self, candidates: Indices, looked: Looked, reach: Floats, line: Floats
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Brackets of variables that have as many coefficients each, and who is delicate."""
        check_time()
        count, size = looked.score.shape
        gamma = self.factor.solve(looked.cross)
        score = looked.score - (gamma.T @ self.sweep.gradient).reshape(count, size)
        crossed = looked.cross.T.reshape(count, size, -1) @ gamma.T.reshape(count, size, -1).transpose(0, 2, 1)
        left = looked.own - (crossed + crossed.transpose(0, 2, 1)) / 2.0
        delicate = ~_is_apart(looked.own, left)
        left[delicate] = np.eye(size)
        delta = np.linalg.solve(left, score[:, :, None])[:, :, 0]
        gammas = gamma.reshape(-1, count, size)
        steps = np.vstack([-np.einsum("dbs,bs->db", gammas, delta), delta.T])
        moved, promised = self._moved_by(candidates, steps, reach), np.einsum("bs,bs->b", score, delta)
        steps_of = [
            _Step(gammas[:, j], left[j], steps[:, j], reach[:, j], Moved(moved.rows[[j]], moved.thresholds[[j]]))
            for j in range(count)
        ]
        lower, upper = self._brackets_by_step(promised, moved, steps_of)
        wanted = (upper > line * (1.0 - TIE)) | (lower >= _best_but(lower, _FEW))
        self._keep(candidates, steps_of, wanted & ~delicate)
        return lower, upper, delicate

    def _keep(self, candidates: Indices, steps: Sequence[_Step], wanted: NDArray[np.bool_]) -> None:
        """Steps of those who may pass, and of the best few: nobody will ask about the others."""
        for j in np.flatnonzero(wanted).tolist():
            self._looks[int(candidates[j])] = steps[j].copied()

    def _moved_by(self, candidates: Indices, steps: Floats, reach: Floats) -> Moved:
        """How far steps move rows; a row has one level of a category."""
        codes = self.sums.blocks.codes(int(candidates[0])) if len(candidates) == 1 else None
        if codes is None:
            return self.sums.moved(steps, reach)
        levels, m = self.sums.blocks.values_of_levels(int(candidates[0])), self.sums.n_predictors
        own = steps[len(self.coefficients) :, 0].reshape(-1, m)
        beside = self.sums.moved(steps[: len(self.coefficients)], reach[: len(self.reach)])
        return beside.and_then(self.sums.farthest(levels.T @ own))

    def _brackets_by_step(self, promised: Floats, moved: Moved, steps: Sequence[_Step]) -> tuple[Floats, Floats]:
        """Brackets from what steps promise and how far they go."""
        rounding = _SLACK * np.maximum(promised, 1e-9)
        bend = self._bend(moved)
        lower = np.where(bend < _LONGEST, gained_by(bend, promised), 0.0) - 2.0 * self.short - rounding
        whole = promised + self.short
        if self._has_duals:
            upper = whole * self.sums.above(self._bend(moved.and_then(self._drifted)))
        else:
            ball = self._unit_beside(promised, moved, steps).times(np.sqrt(whole))
            upper = gained_within(self._bend(ball, ball.times(2.0)), whole)
        upper = np.minimum(upper + rounding, self.deviance * (1.0 + _SLACK))
        return np.maximum(lower, 0.0), upper

    def _follow(self, candidates: Indices, lower: Floats, upper: Floats, rows: Indices) -> None:
        """Bounds from the ends of steps, for those whose statistic is not known."""
        self._look_at_ends(candidates, lower, upper, rows, self._looks)

    def _follow_on(self, candidates: Indices, lower: Floats, upper: Floats, rows: Indices) -> None:
        """The same from the ends of the steps after these."""
        further = {v: self._after(v) for v in candidates[rows].tolist() if v in self._ends}
        self._look_at_ends(candidates, lower, upper, rows, further)

    def _look_at_ends(
        self, candidates: Indices, lower: Floats, upper: Floats, rows: Indices, known: Mapping[int, _Step]
    ) -> None:
        rows = np.array(
            [i for i in rows.tolist() if lower[i] < upper[i] and self._can_follow(known.get(int(candidates[i])))]
        )
        for some in np.split(rows, np.arange(_TOGETHER, len(rows), _TOGETHER)) if len(rows) else []:
            steps = [known[int(v)] for v in candidates[some]]
            gains, slopes = self.sums.ends(self.sweep.rows, self.selected, candidates[some], [s.whole for s in steps])
            for i, step, gain, slope in zip(some.tolist(), steps, gains.tolist(), slopes, strict=True):
                low, high = self._bracket_at_end(int(candidates[i]), step, gain, slope)
                lower[i] = max(lower[i], low)
                upper[i] = max(lower[i], min(upper[i], high))

    def _after(self, variable: int) -> _Step:
        """The step of a variable and the one from where that ends."""
        whole, reach = self._ends[variable], self._looks[variable].reach
        moved = self._moved_by(np.array([variable]), whole[:, None], reach[:, None])
        return replace(self._looks[variable], whole=whole, moved=moved)

    def _can_follow(self, step: _Step | None) -> bool:
        return step is not None and bool(self._bend(step.moved)[0] <= _MOST)

    def _bracket_at_end(self, variable: int, step: _Step, gain: float, slope: Floats) -> tuple[float, float]:
        """An interval from the likelihood and the gradient where a step ends; where the next would lead is kept."""
        size = len(self.coefficients)
        own = slope[size:] - step.gamma.T @ slope[:size]
        delta = np.linalg.solve(step.left, own)
        further = np.concatenate([self.factor.solve(slope[:size]) - step.gamma @ delta, delta])
        if not np.isfinite(gain + further.sum()):
            return 0.0, np.inf
        self._ends[variable], self._promised[variable] = step.whole + further, float(slope @ further)
        bend = float(self._bend(step.moved)[0])
        promised = max(0.0, float(slope @ further)) * np.exp(bend)
        ball = self._unit_with(step).times(np.exp(0.5 * bend) * np.sqrt(promised))
        turned = self._bend(ball, step.moved.and_then(ball.times(2.0)))
        rounding = _SLACK * max(abs(gain), 1e-9)
        upper = 2.0 * gain + float(gained_within(turned, np.array([promised]))[0]) + rounding
        return max(0.0, 2.0 * gain - 2.0 * self.short - rounding), upper

    @cached_property
    def _unit(self) -> Moved:
        """How far any step of length 1 moves a row."""
        return self.sums.unit_moves(self.covariance, self.reach)

    def _unit_beside(self, promised: Floats, moved: Moved, steps: Sequence[_Step]) -> Moved:
        """The same of models with one variable more: of one coefficient, it is what their own steps tell."""
        if steps[0].left.size > 1 or not (promised > _NOTHING).all():
            each = [self._unit_with(step) for step in steps]
            return Moved(*(np.concatenate([getattr(one, name) for one in each]) for name in ("rows", "thresholds")))
        own = moved.times(1.0 / np.sqrt(promised))
        return Moved(np.hypot(self._unit.rows, own.rows), np.hypot(self._unit.thresholds, own.thresholds))

    def _unit_with(self, step: _Step) -> Moved:
        """The same with one variable more."""
        inverse = np.linalg.inv(step.left)
        beside = -step.gamma @ inverse
        whole = np.block([[self.covariance - beside @ step.gamma.T, beside], [beside.T, inverse]])
        return self.sums.unit_moves(whole, step.reach)

    def _start_with(self, variable: int) -> Floats | None:
        """Where the step of a model with one variable more, and the one after it, lead: a gradient is found sooner."""
        one, nothing = np.array([variable]), np.zeros(1, dtype=np.intp)
        if variable not in self._ends and self._can_follow(self._looks.get(variable)):
            self._follow(one, np.zeros(1), np.ones(1), nothing)
        if self._promised.get(variable, 0.0) > _WORTH_A_STEP:
            self._follow_on(one, np.zeros(1), np.ones(1), nothing)
        end = self._ends[variable].copy() if variable in self._ends else self._far_end(variable)
        if end is None:
            return self.start((*self.selected, variable))
        end[: len(self.coefficients)] += self.coefficients
        return end

    def _far_end(self, variable: int) -> Floats | None:
        """Where a step leads that bends too much to tell anything, if that is up."""
        step = self._looks.get(variable)
        if step is None:
            return None
        with np.errstate(all="ignore"):
            gains, _ = self.sums.ends(self.sweep.rows, self.selected, np.array([variable]), [step.whole])
        return step.whole.copy() if gains[0] > 0.0 else None

    def _coefficients_of(self, variable: int) -> Floats:
        if variable in self.selected:
            return self.maximum[self.place(variable)]
        return np.zeros(int(self.model.design.width[variable]) * self.sums.n_predictors)

    @cached_property
    def _promised(self) -> dict[int, float]:
        """What the last steps of some promised that are followed."""
        return {}

    @cached_property
    def _looks(self) -> dict[int, _Step]:
        """Steps of those who were looked at."""
        return {}

    # --- removing a variable ----------------------------------------------------------------------------------------

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Bounds by Wald's statistic, as far as the step to the nearest model without a variable may bend."""
        ways = [self._way_without(int(v)) for v in variables]
        wald = np.array([statistic for _, statistic in ways])
        moved = self.sums.moved(np.column_stack([step for step, _ in ways]), self.reach)
        bend, further = self._bend(moved), moved.and_then(self._drifted)
        charge = 4.0 * np.sqrt(self.short * wald) + 2.0 * self.short
        if self._has_duals:
            low = self.sums.lost_by(self._bend(moved, further), self._bend(self._drifted, further), wald)
        else:
            ball = self._unit.times(np.sqrt(wald))
            turned = self._bend(ball)
            low = np.where(turned < _LONGEST, E(-np.minimum(turned, _LONGEST)) * wald, 0.0)
        with np.errstate(over="ignore"):
            high = np.where(bend < _LONGEST, E(np.minimum(bend, _LONGEST)) * wald * (1.0 + _SLACK) + charge, np.inf)
        return Bounds(np.maximum(low * (1.0 - _SLACK) - charge, 0.0), high, self._widths(variables), self.reference)

    # --- what people read -------------------------------------------------------------------------------------------

    def describe(self) -> FittedModel:
        """Coefficients and standard errors on the scale of the user's data."""
        model = self.model
        try:
            fit = self if self.short <= _SHOWN else cast("TallClassFit", self.again())
            told = fit.sums.estimates(fit.selected, fit.maximum, fit.covariance)
        except NotTall:
            return model.careful.describe(self.selected)
        return told.fitted(model.name, fit.deviance, model.null_deviance)


def _best_but(values: Floats, few: int) -> float:
    """The value that only a few exceed."""
    return float(np.partition(values, -few)[-few]) if len(values) > few else 0.0


def _is_apart(own: Floats, left: Floats) -> NDArray[np.bool_]:
    """Of whom S leaves enough in every combination of their coefficients, relative to what they have there."""
    diagonal = np.einsum("bss->bs", own)
    known = (diagonal > 0.0).all(axis=1) & np.isfinite(own).all(axis=(1, 2)) & np.isfinite(left).all(axis=(1, 2))
    unit = 1.0 / np.sqrt(np.where(known[:, None], diagonal, 1.0))
    scale = unit[:, :, None] * unit[:, None, :]
    identity = np.eye(own.shape[1])
    values, vectors = np.linalg.eigh(np.where(known[:, None, None], own * scale, identity))
    known &= values[:, 0] > _SOUND
    root = vectors / np.sqrt(np.maximum(values, _SOUND))[:, None, :]
    part = root.transpose(0, 2, 1) @ np.where(known[:, None, None], left * scale, identity) @ root
    return np.asarray(known & (np.linalg.eigvalsh(part)[:, 0] > _DELICATE))
