"""Tall data: the certified scan from sums over blocks of rows, without a basis of the model and with hardly any fit.

With many rows a step of the search is: a few Newton sweeps over the model's columns; one pass over the candidates with
the present weights, which gives the score statistic of each and a bracket from the largest value its column has

    P(m)·score − 2N²  ≤  LR  ≤  (score + N²)·P(−m − f),       m ≥ max|u|,  u = x̃δ

(N² is what the fit is short of its maximum, f how far that moves a row); exact moments of the step for those who are
near the critical value or may be best,

    S₂ − S₃/3 − S₄·E₄(z_max)  ≤  LR  ≤  S₂ − S₃/3 + S₄·P₄(z_min),

whose width is a thousandth of the statistic; and fits for whoever is still in doubt, the winner's first, since it is
the model that the search goes on with. Where the data are not of that kind (next to collinear or separated) the
ordinary model of the family answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import score_interval, score_intervals
from fbed.matrix.candidate_steps import left_over
from fbed.models.base import COLLINEAR, Bounds, Fit, FittedModel, Indices
from fbed.models.engines.bound_functions import E4, P4, E
from fbed.models.engines.projection import Projected
from fbed.models.engines.single_answers import gain_of, loss_of
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.climb import Climb, Until, enough_beside, left_by_step
from fbed.models.engines.tall.description import described
from fbed.models.engines.tall.factor import NotTall, solved_by_pivots
from fbed.models.engines.tall.row_questions import (
    LevelVerbs,
    MomentVerbs,
    RareVerbs,
    ScoredVerbs,
    SparingVerbs,
    lead_reach,
)
from fbed.models.engines.tall.rows_left import RowsLeft
from fbed.models.engines.tall.screen import Here
from fbed.models.likelihoods.likelihood import SATURATED
from fbed.rules.criteria import TIE, Evidence
from fbed.rules.p_values import ChiSquare, Floats

if TYPE_CHECKING:
    from fbed.models.engines.tall.model import TallModel

_CLOSE = 1e-17  # what a fit may be short of its maximum where scores of its rows are told
_RIVALS = 16  # candidates for the best whose moments are found in one pass
_DELICATE = 1e-5  # part of a column's own information that S leaves, below which sums of products lose digits
_SLACK = 1e-9  # rounding of sums, relative
_LEADERS = 10  # candidates who are looked at together with those who may be best: they are asked about next
_FEW_COEFFICIENTS = 400  # of a model beside which rare columns are looked at by themselves: a row costs their square
_ENTRIES = 2**20  # of rare columns that are looked at in one pass over the model
_FEW = 32  # candidates whose steps are kept although they do not pass: some of them may be looked at more closely
_SHORT = 1.0  # how far a step may move a row for its end to be higher for certain


@dataclass(frozen=True)
class _Left:
    """A fit that was left: where another one would go on, and what the deviance is at least and at most."""

    start: Floats
    enclosed: tuple[float, float]


class TallFit:
    """Maximum likelihood on the standardised columns of S.

    `beside` is the deviance of the model that this one will be compared with. A fit that was stopped as enough was
    known, by `until`, is not `finished`.
    """

    reference = ChiSquare()
    bounds_are_cheap, looks_are_dear = True, False

    def __init__(
        self,
        model: TallModel,
        selected: tuple[int, ...],
        start: Floats | None,
        beside: float = np.nan,
        until: Until | None = None,
    ) -> None:
        self.model, self.sums, self.selected = model, model.sums, selected
        start = self._cold() if start is None else start
        self._beside = beside  # deviance of the model that this one will be compared with, if there is one
        climb = Climb(self, start)
        climb.go(until)
        self._arrive(climb)
        self._larger: dict[int, TallFit] = {}  # the best model with one variable more of those that were needed
        self._begun: dict[int, _Left] = {}  # what is known of the others; their rows would be too much to keep
        self._told: dict[int, float] = {}  # deviances of those that were fitted to the end
        self._failed: set[int] = set()  # variables with which there is no way up
        self._smaller: dict[int, TallFit] = {}
        self._ways: dict[int, tuple[Floats, float]] = {}  # how to come near them
        self._lost: dict[int, float] = {}  # what removing a variable costs, where the model was made by adding it
        self._steps: dict[int, tuple[Floats, Floats]] = {}  # δ and Γδ of those who were looked at and may matter
        self._seen_rare: set[int] = set()  # rare columns that were looked at by themselves
        self._ends: dict[int, Floats] = {}  # about where models with one of these have their maximum
        self._looked: dict[int, tuple[float, float, bool]] = {}  # brackets of theirs, if a full look told them

    @property
    def n_larger(self) -> int:
        """How many models with one variable more had to be fitted, wholly or in part."""
        return len(self._begun)

    @property
    def saturated(self) -> bool:
        """Whether next to nothing is left to explain."""
        return self.deviance <= SATURATED * self.model.null_deviance

    def _cold(self) -> Floats:
        """The model without variables."""
        return np.concatenate([self.sums.start(), np.zeros(self.sums.blocks.width(self.selected))])

    def _arrive(self, climb: Climb) -> None:
        self.finished = climb.arrived
        self.sweep, self.coefficients, self.factor = climb.here, climb.at, climb.factor
        self.short, self.drift, self.maximum = max(climb.gain, 0.0), climb.drift, climb.at + climb.step
        self.deviance = max(0.0, 2.0 * climb.here.loss - self.short)
        self.enclosed = (self.deviance, self.deviance) if self.finished else climb.deviance

    def sweep_at(self, coefficients: Floats) -> Sweep:
        """A look at the model at some coefficients."""
        return self.sums.sweep(self.selected, coefficients)

    def drift_of(self, step: Floats, at: Floats, here: Sweep) -> float:
        """How far a step can move a row, from the largest values of the columns."""
        return self._furthest(step, self._reach_at(at))

    def moved_by(self, step: Floats) -> float:
        """How far it moves any, from all rows, where somebody can tell."""
        moved = getattr(self.sums, "moved_by", None)
        return np.inf if moved is None else float(moved(self.selected, step))

    @property
    def n(self) -> float:
        """Weight of the rows."""
        return self.sums.n

    def left_to_gain(self, promised: float, drift: float) -> tuple[float, float]:
        """What is left to gain where a step that moves rows so far promises so much: at least, at most."""
        return left_by_step(promised, drift)

    def enough(self, loss: float, drift: float) -> float:
        """What the last step may promise."""
        return enough_beside(self._beside, loss, drift)

    def row_scores(self) -> tuple[Floats, Floats | None]:
        """Score of every row (its copies together), and its variance up to a factor, None for 1."""
        found: tuple[Floats, Floats | None] = cast("ScoredVerbs", self.sums).row_scores(self._closer.sweep.rows)
        return found

    @cached_property
    def _closer(self) -> TallFit:
        """The fit with the rows of its maximum: scores are wrong to first order in the way that is left to it."""
        try:
            return self if self.short <= _CLOSE else self.again()
        except NotTall:
            return self

    @cached_property
    def reach(self) -> Floats:
        """The largest size of every column of the model, the constant first."""
        return self._reach_at(self.coefficients)

    def _reach_at(self, coefficients: Floats) -> Floats:
        first = lead_reach(self.sums, coefficients)
        return np.concatenate([first, self.sums.blocks.reach(self.selected)])

    @property
    def lead(self) -> int:
        """How many coefficients come before those of the variables."""
        return len(self.maximum) - self.sums.blocks.width(self.selected)

    def _furthest(self, along: Floats, reach: Floats | None = None) -> float:
        """How far a step of the coefficients can move a row."""
        return self.sums.stretch * float(np.abs(along) @ (self.reach if reach is None else reach))

    # --- adding a variable ------------------------------------------------------------------------------------------

    def prepare(self, n_candidates: int, critical: float = np.inf) -> None:
        """All that candidates share is there already."""

    def gains(self, candidates: Indices) -> Evidence:
        """Statistics by fits."""
        found = [self._gain(int(v)) for v in candidates]
        statistic, df = np.array([f[0] for f in found]), np.array([f[1] for f in found])
        return Evidence(statistic, df, None, self.reference)

    def losses(self, variables: Indices) -> Evidence:
        """Statistics by fits."""
        found = np.array([self.resolve_loss(int(v), np.inf)[0] for v in variables])
        df = self._widths(variables)
        return Evidence(found, df, None, self.reference)

    def gain_bounds(self, candidates: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """Brackets from a pass over the columns, moments, fits: each for those whom the one before left in doubt."""
        lower, upper, df = np.zeros(len(candidates)), np.zeros(len(candidates)), self._widths(candidates)
        single = np.flatnonzero(self.model.design.varying[candidates])
        delicate = np.zeros(len(candidates), dtype=bool)
        if len(single):
            lower[single], upper[single], delicate[single] = self._brackets(candidates[single], critical)
        groups = np.flatnonzero((df > 0) & ~self.model.design.varying[candidates])
        for i, looked in zip(groups, self._looked_at(candidates[groups]), strict=True):
            lower[i], upper[i], delicate[i] = self._group_bracket(int(candidates[i]), self._on_rows_left(looked))
        for i in np.flatnonzero(delicate):
            hidden = self._spared and self._sparing.is_hidden(self.selected, int(candidates[i]))
            lower[i], df[i] = (0.0, df[i]) if hidden else self._gain(int(candidates[i]))
            upper[i] = lower[i]
        line = critical(df)
        self._enclose_rare(candidates, lower, upper, in_doubt(lower, upper, line))
        self._narrow(candidates, lower, upper, in_doubt(lower, upper, line))
        passing = np.flatnonzero((df > 0) & (lower > line))
        if len(np.unique(df[passing])) > 1:
            self._narrow(candidates, lower, upper, passing)  # whose p-value is smallest, wide brackets would not tell
        else:
            self._enclose_rare(candidates, lower, upper, _rivals(lower, upper, passing))
            self._narrow_leaders(candidates, lower, upper, passing)
        self._fit_in_doubt(candidates, lower, upper, df, line)
        return Bounds(lower, np.maximum(upper, lower), df, self.reference)

    def _fit_in_doubt(self, candidates: Indices, lower: Floats, upper: Floats, df: Floats, line: Floats) -> None:
        """Fit who may be on either side of his critical value, until he is not."""
        for i in in_doubt(lower, upper, line):
            known = lower[i], upper[i], df[i]
            lower[i], upper[i], df[i] = self._gain_until(int(candidates[i]), partial(_is_told, line[i]), known)

    def _brackets(
        self, candidates: Indices, critical: Callable[[Floats], Floats]
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Brackets of single columns; whoever may pass after a quick look is looked at again, in float64 at last."""
        if all(variable in self._looked for variable in candidates.tolist()):
            told = np.array([self._looked[variable] for variable in candidates.tolist()])
            return told[:, 0], told[:, 1], told[:, 2] > 0.0
        line, closer, look = float(critical(np.ones(1))[0]), np.arange(len(candidates)), 0
        lower, upper, delicate, found = self._single_brackets(candidates, critical, look)
        while found.is_rough:
            screened = self.model.screen if found.gamma is None else None
            few = _FEW if screened is None else 1  # a screen tells little of those who are not best
            best = float(np.partition(lower, -few)[-few]) if len(lower) > few else 0.0
            doubtful = delicate[closer] | (upper[closer] > line * (1.0 - TIE)) | (upper[closer] >= best)
            if screened is not None and doubtful.any():
                doubtful[np.argsort(-lower, kind="stable")[:_LEADERS]] = True
            closer, look = closer[doubtful], look + 1
            if screened is not None and screened.leaves_too_many(len(closer), len(candidates)):
                closer, look = np.arange(len(candidates)), 0
            if len(closer) == 0:
                break
            lower[closer], upper[closer], delicate[closer], found = self._single_brackets(
                candidates[closer], critical, look
            )
        return lower, upper, delicate

    def _single_brackets(
        self, candidates: Indices, critical: Callable[[Floats], Floats], look: int
    ) -> tuple[Floats, Floats, NDArray[np.bool_], Projected]:
        """Brackets, who is delicate, and what they come from."""
        found = self._projected(candidates, look, best_only=np.isinf(critical(np.ones(1))[0]))
        reach = self.sums.blocks.reach(candidates) + found.spread + found.by_spread
        by = (np.atleast_1d(found.by_score), np.atleast_1d(found.by_left))
        ends = score_intervals(
            found.score, by[0], found.left, by[1], found.own, reach, self.sums.stretch, self._nearly, _DELICATE
        )
        lower, upper, delicate = ends[:, 0], ends[:, 1], ends[:, 2] > 0.0
        if hasattr(self.sums, "farthest_addition"):
            lower[self.sums.stretch * reach * np.abs(found.steps) > self.sums.farthest_addition] = 0.0
        if found.gamma is not None:
            kept = self._keep_steps(candidates, found, found.gamma, lower, upper, critical)
            if not found.is_rough:
                brackets = zip(lower[kept].tolist(), upper[kept].tolist(), delicate[kept].tolist(), strict=True)
                self._looked.update(zip(candidates[kept].tolist(), brackets, strict=True))
        return lower, upper, delicate, found

    @property
    def _nearly(self) -> tuple[float, float, float]:
        """What the fit is short of its maximum, how far that moves a row, and the deviance."""
        return self.short, self.drift, self.deviance

    def _projected(self, candidates: Indices, look: int, best_only: bool) -> Projected:
        """What S leaves of candidates that are single columns."""
        rows, selected, gradient = self.sweep.rows, self.selected, self.sweep.gradient
        if hasattr(self.sums, "project"):  # where the columns are
            factor = self.factor.lower, self.factor.unit
            return self.sums.project(rows, selected, candidates, factor, gradient, self.reach, look)
        screen = self.model.screen
        if look > 0 or screen is None or self._spared or not screen.pays(selected, candidates, best_only):
            return self._left_by(self._on_rows_left(self.sums.look(rows, selected, candidates)))
        here = Here(rows, selected, gradient, self.sweep.information, self.covariance, self.reach, self.short)
        found = screen.look(here, candidates, best_only)
        if found is None:
            found = self._left_by(screen.look_at_all(here, candidates, best_only))
        screen.rank(candidates, found)
        return found

    def _left_by(self, looked: Looked) -> Projected:
        gamma = self.factor.solve(looked.cross)
        score = looked.score - gamma.T @ self.sweep.gradient
        left = looked.own - np.einsum("ij,ij->j", looked.cross, gamma)
        return Projected(score, left, looked.own, np.abs(gamma).T @ self.reach, lambda some: gamma[:, some])

    def _keep_steps(
        self,
        candidates: Indices,
        found: Projected,
        gamma_of: Callable[[Indices], Floats],
        lower: Floats,
        upper: Floats,
        critical: Callable[[Floats], Floats],
    ) -> Indices:
        """Of those who may pass, and of the best few, who are told: nobody will ask about the others."""
        line = critical(np.ones(1))[0]
        best = np.partition(lower, -_FEW)[-_FEW] if len(lower) > _FEW else 0.0
        kept = np.flatnonzero((upper > line * (1.0 - TIE)) | (lower >= best))
        delta, gamma = found.steps[kept], gamma_of(kept)
        for j, variable in enumerate(candidates[kept].tolist()):
            self._steps[variable] = delta[j : j + 1], gamma[:, j] * delta[j]
        return kept

    def _looked_at(self, variables: Indices) -> Iterable[Looked]:
        """Variables of several columns, one after another, or together where every question is a pass over files."""
        together = getattr(self.sums, "look_at_groups", None)
        if together is not None:
            found: Iterable[Looked] = together(self.sweep.rows, self.selected, variables) if len(variables) else ()
            return found
        return (self.sums.look_at_group(self.sweep.rows, self.selected, int(v)) for v in variables)

    def _group_bracket(self, variable: int, looked: Looked) -> tuple[float, float, bool]:
        step = self._group_step(variable, looked)
        if step is None:
            return 0.0, np.inf, True
        delta, along, score = step
        self._steps[variable] = delta, along
        levels = self.sums.blocks.codes(variable) is not None
        own = np.abs(delta).max() if levels else np.abs(delta) @ self.sums.blocks.reach([variable])
        furthest = self.sums.stretch * own + self._furthest(along)
        lower, upper = score_interval(score, float(furthest), self._nearly)
        known = furthest <= getattr(self.sums, "farthest_addition", np.inf)
        return lower if known else 0.0, upper, False

    def _group_step(self, variable: int, looked: Looked) -> tuple[Floats, Floats, float] | None:
        """δ = I⁻¹U of several columns, Γδ and the score statistic; None where S leaves too little of them."""
        half = self.factor.halved(looked.cross)
        score = looked.score - half.T @ self.factor.halved(self.sweep.gradient[:, None])[:, 0]
        own = np.diag(looked.own)
        some = np.flatnonzero(own > 0.0)
        if len(some) == 0 or (len(some) < len(own) and not self._are_independent(variable)):
            return None
        unit = 1.0 / np.sqrt(own[some])
        left = (looked.own - half.T @ half)[np.ix_(some, some)] * unit * unit[:, None]
        solved = solved_by_pivots(left, unit * score[some], _DELICATE)
        if solved is None:
            return None
        delta = np.zeros(len(own))
        delta[some] = unit * solved
        return delta, self.factor.completed(half @ delta), float(score @ delta)

    def _are_independent(self, variable: int) -> bool:
        """Whether columns without information are so since S spares their rows, not since S leaves nothing of them."""
        both = (*self.selected, variable)
        return self._spares_rows(both) and self._sparing.are_independent(both)

    def _spares_rows(self, variables: Sequence[int]) -> bool:
        """Whether the family can do without rows that certain variables explain, and does."""
        spares = getattr(self.sums, "spares_rows", None)
        return spares is not None and spares(variables)

    @property
    def _sparing(self) -> SparingVerbs:
        return cast("SparingVerbs", self.sums)

    @cached_property
    def rows_left(self) -> RowsLeft | None:
        """Rows that no variable of S explains for good, None where those are all."""
        return self._sparing.rows_left(self.selected) if hasattr(self.sums, "rows_left") else None

    @property
    def _spared(self) -> bool:
        return self.rows_left is not None

    def _on_rows_left(self, looked: Looked) -> Looked:
        """Without what columns of S tell that the rows that are left do not have."""
        return looked if self.rows_left is None else self.rows_left.beside_others(looked)

    def _narrow(self, candidates: Indices, lower: Floats, upper: Floats, rows: Indices) -> None:
        """Bounds from exact moments of the step, for those whose statistic is not known."""
        rows = rows[lower[rows] < upper[rows]]
        if len(rows) == 0:
            return
        steps = [self._steps[int(v)] for v in candidates[rows]]
        along = np.column_stack([along for _, along in steps])
        found = cast("MomentVerbs", self.sums).moments(
            self.sweep.rows, self.selected, candidates[rows], [own for own, _ in steps], along
        )
        low, high = self._by_moments(found)
        lower[rows] = np.maximum(lower[rows], low)
        upper[rows] = np.maximum(np.minimum(upper[rows], high), lower[rows])

    def _by_moments(self, found: Floats) -> tuple[Floats, Floats]:
        """S₂ − S₃/3 − S₄·E₄(z_max) and S₂ − S₃/3 + S₄·P₄(z_min), charged with what the fit is short of its maximum.

        The dual point moves by u + f instead of u. The two are orthogonal, so that S₂ grows by N²; S₃ changes by no
        more than |f|(3S₂ + 3N√S₂ + N²), and the fourth root of S₄ by that of f²N² at most.
        """
        second, third, fourth, low, high = found
        short, f = self.short, self.drift
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a step may move a row so far that its powers are no numbers
            lower = second - third / 3.0 - fourth * E4(high) - 2.0 * short
            shift = f * (3.0 * second + 3.0 * np.sqrt(second * short) + short)
            wider = (fourth**0.25 + (f * f * short) ** 0.25) ** 4
            least = low - f
            upper = second + short - third / 3.0 + shift / 3.0 + wider * P4(np.maximum(least, -1.0))
        rounding = _SLACK * np.maximum(second, 1e-9)
        lower, upper = np.fmax(lower - rounding, 0.0), np.where(least > -1.0, upper + rounding, np.inf)
        return lower, np.fmin(upper, self.deviance * (1.0 + _SLACK))

    def _enclose_rare(self, candidates: Indices, lower: Floats, upper: Floats, rows: Indices) -> None:
        """Bounds from the maximum along a column alone, for those that are mostly 0."""
        unseen = [i for i in rows.tolist() if int(candidates[i]) not in self._seen_rare]
        rows = np.array([i for i in unseen if self.model.rare[candidates[i]] and lower[i] < upper[i]], dtype=np.intp)
        if len(rows) == 0 or len(self.maximum) > _FEW_COEFFICIENTS:
            return
        sums, design = cast("RareVerbs", self.sums), self.model.design
        stored = np.cumsum(design.stored[design.positions(candidates[rows])])
        for some in np.split(rows, np.flatnonzero(np.diff(stored // _ENTRIES)) + 1):
            found = sums.enclose_rare(self.sweep, self.selected, candidates[some], self.reach, self.short)
            lower[some] = np.maximum(lower[some], found[0])
            upper[some] = np.maximum(np.minimum(upper[some], found[1]), lower[some])
            self._seen_rare.update(candidates[some].tolist())
            ends = zip(candidates[some].tolist(), found[2].T, strict=True)
            self._ends.update((v, end) for v, end in ends if np.isfinite(end).all())

    def _narrow_leaders(self, candidates: Indices, lower: Floats, upper: Floats, rows: Indices) -> None:
        """Moments of those who may be best; if they are many, of whoever leads first."""
        rivals = _rivals(lower, upper, rows)
        if len(rivals) > _RIVALS:
            self._narrow(candidates, lower, upper, rows[[int(np.argmax(lower[rows]))]])
            rivals = _rivals(lower, upper, rows)
        if len(rivals) > 1:
            self._narrow(candidates, lower, upper, rivals)

    def contest(self, candidates: Indices, lower: Floats, upper: Floats, race: bool) -> tuple[Floats, Floats]:
        """Fits, of the one who leads first, then of whoever may still be better, until he is certain not to be."""
        lower, upper = lower.copy(), upper.copy()
        while True:
            unknown, least = lower < upper, -np.inf
            if race and len(lower):
                best = float(lower.max())
                least = best - TIE * max(1.0, best)
                unknown &= upper >= least
            if not unknown.any():
                return lower, upper
            i = int(np.flatnonzero(unknown)[np.argmax((lower + upper)[unknown])])
            known = lower[i], upper[i], 0.0
            lower[i], upper[i], _ = self._gain_until(int(candidates[i]), partial(_is_below, least), known)

    def _gain(self, variable: int, doubtful: bool = True) -> tuple[float, float]:
        """The statistic of one more variable and its df, by a fit; who may be collinear is looked at first."""
        single = bool(self.model.design.varying[variable])
        unsure = single and doubtful and variable not in self._told
        if unsure and self._left_of(variable) <= COLLINEAR:
            return 0.0, 0.0
        whole = single or not doubtful or self._spares_rows((*self.selected, variable))
        if whole and variable not in self._told:
            self._with(variable)
        if not whole or variable not in self._told:
            return gain_of(self._with_care, variable)
        return max(0.0, self.deviance - self._told[variable]), float(self._widths(np.array([variable]))[0])

    def _gain_until(self, variable: int, told: Until, known: tuple[float, float, float]) -> tuple[float, float, float]:
        """The statistic of one more variable, or an interval that says what is asked; and its df."""
        if variable not in self._told and variable not in self._begun:
            self._with(variable, lambda least, most: told(self.deviance - most, self.deviance - least))
        if variable in self._begun:
            least, most = self._begun[variable].enclosed
            lower, upper = max(self.deviance - most, known[0]), min(self.deviance - least, known[1])
            if told(lower, upper):
                return lower, max(upper, lower), known[2]
        exact, df = self._gain(variable, doubtful=False)
        return exact, exact, df

    @cached_property
    def _with_care(self) -> Fit:
        """The same fit of the ordinary model."""
        return self.model.careful.fit(self.selected)

    def _left_of(self, variable: int) -> float:
        """Part of a column that S leaves."""
        size = 1 + self.sums.blocks.width(self.selected)
        return left_over(lambda gamma: self.sums.remainder(self.selected, variable, gamma), size, self.model.design.n)

    def in_span(self, variables: Indices) -> NDArray[np.bool_]:
        """Which variables of one column S leaves nothing of."""
        return np.array([self._left_of(int(variable)) for variable in variables]) <= COLLINEAR

    def _with(self, variable: int, until: Until | None = None) -> TallFit | None:
        """The fit with one variable more, as far as it is needed; None where that is not to be had."""
        if variable in self._larger or variable in self._failed:
            return self._larger.get(variable)
        left = self._begun.get(variable)
        try:
            start = self._start_with(variable) if left is None else left.start
            fit = type(self)(self.model, (*self.selected, variable), start, self.deviance, until)
        except NotTall:
            self._failed.add(variable)
            self._begun.pop(variable, None)  # what it said holds for where it was before it was lost
            return None
        self._begun[variable] = fit.left
        if fit.finished:
            self._told[variable] = fit.deviance
            fit._lost[variable] = max(0.0, self.deviance - fit.deviance)
            if all(fit.deviance < best.deviance for best in self._larger.values()):
                self._larger = {variable: fit}
        return fit

    @property
    def left(self) -> _Left:
        """What is kept of a fit whose rows are not."""
        ahead = not self.finished and self.drift <= _SHORT
        return _Left(self.maximum if ahead else self.coefficients, self.enclosed)

    # --- removing a variable ----------------------------------------------------------------------------------------

    def loss_bounds(self, variables: Indices, critical: Callable[[Floats], Floats]) -> Bounds:
        """E(−m)·Wald ≤ LR ≤ E(m)·Wald, m ≥ max|u| of the step to the nearest model without the variable."""
        ways = [self._way_without(int(v)) for v in variables]
        wald = np.array([statistic for _, statistic in ways])
        furthest = np.array([self._furthest(step) for step, _ in ways])
        short = np.sqrt(self.short)
        charge = 4.0 * short * np.sqrt(wald) + 2.0 * self.short
        lower = E(-furthest - self.drift * (1.0 + furthest)) * wald * (1.0 - _SLACK) - charge
        upper = E(np.minimum(furthest, 700.0)) * wald * (1.0 + _SLACK) + charge
        upper[furthest > getattr(self.sums, "farthest_removal", np.inf)] = np.inf
        for i, variable in enumerate(variables.tolist()):
            if self._spared and self._sparing.needs_for_rows(self.selected, variable):  # without it, more rows count
                upper[i] = np.inf
        lower = np.maximum(lower, 0.0)
        self._enclose_losses(variables, lower, upper, critical(self._widths(variables)))
        return Bounds(lower, upper, self._widths(variables), self.reference)

    def _enclose_losses(self, variables: Indices, lower: Floats, upper: Floats, line: Floats) -> None:
        """Closer bounds for columns that are mostly 0, where those of Wald's statistic do not tell who stays."""
        rows = [i for i in in_doubt(lower, upper, line).tolist() if self.model.rare[variables[i]]]
        if len(rows) == 0 or len(self.maximum) > _FEW_COEFFICIENTS:
            return
        places = np.array([self.selected.index(int(variables[i])) for i in rows], dtype=np.intp)
        at = self.coefficients, self.reach, self.short
        found = cast("RareVerbs", self.sums).enclose_losses(self.sweep, self.selected, places, *at)
        if found is not None:
            lower[rows] = np.maximum(lower[rows], found[0])
            upper[rows] = np.maximum(np.minimum(upper[rows], found[1]), lower[rows])

    def resolve_loss(self, variable: int, enough: float) -> tuple[float, float]:
        """The statistic of removing one variable by a fit, or what it is at least if that is more than enough."""
        if variable in self._lost:
            return self._lost[variable], self._lost[variable]
        fit = self._without(variable, enough)
        if fit is None:
            found = loss_of(self._with_care, variable)
            return found, found
        least, most = fit.enclosed
        return max(0.0, least - self.deviance), max(0.0, most - self.deviance)

    def _without(self, variable: int, enough: float) -> TallFit | None:
        if variable not in self._smaller:
            rest = tuple(s for s in self.selected if s != variable)
            step, _ = self._way_without(variable)
            start = np.delete(self.maximum - step, self.place(variable))
            try:
                fit = type(self)(
                    self.model, rest, start, self.deviance, lambda least, _: least > self.deviance + enough
                )
            except NotTall:
                return None
            if not fit.finished:
                return fit
            self._smaller[variable] = fit
        return self._smaller[variable]

    def _way_without(self, variable: int) -> tuple[Floats, float]:
        """V_J V_JJ⁻¹ b_J, which leads to the best approximation without the variable; and Wald's statistic.

        Coefficients of columns that the rows which are left do not have are any numbers, and tell nothing.
        """
        if variable not in self._ways:
            place = self.place(variable)
            own = np.arange(place.start, place.stop)
            own = own if self.rows_left is None else np.setdiff1d(own, self.rows_left.idle)
            dual = np.linalg.solve(self.covariance[np.ix_(own, own)], self.coefficients[own])
            self._ways[variable] = self.covariance[:, own] @ dual, float(self.coefficients[own] @ dual)
        return self._ways[variable]

    @cached_property
    def covariance(self) -> Floats:
        """Of the coefficients."""
        return self.factor.inverse()

    def place(self, variable: int) -> slice:
        """Coefficients that belong to a variable."""
        width = self.model.design.width
        first = self.lead + int(sum(width[s] for s in self.selected[: self.selected.index(variable)]))
        return slice(first, first + int(width[variable]))

    # --- where the next fit begins ----------------------------------------------------------------------------------

    def known(self, selected: tuple[int, ...]) -> TallFit | None:
        """The fit on a set, if it is this one or was made on the way."""
        if selected == self.selected:
            return self
        if self._is_with_another(selected) and selected[-1] in self._told:
            return self._with(selected[-1])
        return next((fit for fit in self._smaller.values() if fit.selected == selected), None)

    def fails(self, selected: tuple[int, ...]) -> bool:
        """Whether there was no way up to the maximum on a set."""
        return self._is_with_another(selected) and selected[-1] in self._failed

    def _is_with_another(self, selected: tuple[int, ...]) -> bool:
        return len(selected) > 0 and selected[:-1] == self.selected

    def start(self, selected: tuple[int, ...]) -> Floats | None:
        """Coefficients of the variables that a set has in common with this one, 0 for the others."""
        shared = [v for v in selected if v in self.selected]
        if len(shared) < len(self.selected):
            return None
        return np.concatenate([self.maximum[: self.lead], *(self._coefficients_of(v) for v in selected)])

    def _coefficients_of(self, variable: int) -> Floats:
        if variable in self.selected:
            return self.maximum[self.place(variable)]
        return np.zeros(int(self.model.design.width[variable]))

    def _start_with(self, variable: int) -> Floats | None:
        """One Newton step with the variable, if it was looked at; levels as they would be alone, if that is nearer."""
        start = self._newton_step(variable)
        if not hasattr(self.sums, "levels_alone") or self.sums.blocks.codes(variable) is None:
            return start
        sums, both = cast("LevelVerbs", self.sums), (*self.selected, variable)
        scale = self.model.design.moments(variable)[1]
        alone = np.concatenate([self.maximum, scale * sums.levels_alone(self.sweep.rows, variable)])
        return alone if start is None or not sums.loss(both, start) <= sums.loss(both, alone) else start

    def _newton_step(self, variable: int) -> Floats | None:
        if variable in self._ends:
            return np.concatenate([self.coefficients + self._ends[variable][:-1], self._ends[variable][-1:]])
        if variable not in self._steps:
            return self.start((*self.selected, variable))
        own, along = self._steps[variable]
        out = np.concatenate([self.maximum - along, own])
        if self.sums.blocks.codes(variable) is not None:  # levels as they are, where the model has standardised ones
            center, scale = self.model.design.moments(variable)
            out[: int(self.sums.constant)] += float(own @ center)
            out[-len(own) :] *= scale
        return out

    def _widths(self, variables: Indices) -> Floats:
        return self.model.design.width[variables].astype(float)

    def again(self) -> TallFit:
        """From its own maximum: closer to it than a search needs."""
        return type(self)(self.model, self.selected, self.maximum)

    def describe(self) -> FittedModel:
        """Coefficients and standard errors on the scale of the user's data."""
        return described(self)


def _rivals(lower: Floats, upper: Floats, rows: Indices) -> Indices:
    """Who of some may be best."""
    return rows[upper[rows] >= lower[rows].max(initial=0.0) * (1.0 - TIE)]


def _is_told(line: float, lower: float, upper: float) -> bool:
    """Whether an interval is clear of a critical value."""
    return not len(in_doubt(np.array([lower]), np.array([upper]), np.array([line])))


def _is_below(least: float, lower: float, upper: float) -> bool:
    return upper < least


def in_doubt(lower: Floats, upper: Floats, line: Floats) -> Indices:
    """Whose interval may hold the critical value."""
    return np.flatnonzero((lower < upper) & (upper > line * (1.0 - TIE)) & (lower <= line * (1.0 + 2.0 * TIE)))
