"""Who cannot be best, from products and scores of before: most steps of a search read only those who may be.

Let the weights of the rows be w in the model at hand and a in one of before, ρ·a ≤ w ≤ σ·a. Then

    ρ·left_a(x)  ≤  left(x)  ≤  σ·left_a(x),      left_a(x) = min_γ Σ a(x − Zγ)²,

since the minimum of a sum that is larger is larger. With r the residuals of now, b those of another model of before,
and x̃ = x − Zγ what S leaves of x under the weights a,

    |x̃ᵀ(r − b)|  ≤  √left_a(x)·e,      e² = Σ (r − b)²/a − hᵀA⁻¹h,      h = Zᵀ(r − b),  A = ZᵀaZ,

since x̃ is orthogonal to Z, and what is left of (r − b)/a without Z has the size e. So xᵀr is xᵀb + γᵀh up to that:
neither the weights nor the scores of now have to be known of all candidates. For proportional hazards the same holds
with the probabilities p of those at risk, event by event: ρ and σ are the extremes of p/p_a, and Σ (p − p_b)²/p_a takes
the place of the sum. On the way,

    |γᵀg| ≤ √own·N,      |zᵀγ| ≤ √own·√(reachᵀ|H⁻¹|reach).

Products with a are found once for every variable that enters, several at a time: those who are likely to enter next are
multiplied in the same pass. When the bounds tell little any more, all is taken anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Protocol

import numpy as np
from scipy import linalg

from fbed.matrix.design import Design
from fbed.models.base import Indices
from fbed.models.engines.projection import Projected
from fbed.models.engines.tall.answers import Looked
from fbed.rules.p_values import Floats

_MANY = 64  # candidates from which it pays
_LARGE = 3  # variables of the model from which it does where everybody shall be told whether he passes
_EVEN = 0.05  # part of the largest ratio of weights that the least must have
_STEADY = 0.8  # and that it must have for more products to be worth having
_MOST_LEFT = 0.25  # part of the candidates that may be left in doubt before all is taken anew
_AHEAD = 12  # likely next variables whose products are found in the same pass, at most
_ROUNDING = 1e-9  # of sums of products
_BY_DIFFERENCE = 1e-8  # of e², relative to what it is a difference of
_CONSTANT = -1


class EarlierVerbs(Protocol):
    """What a family tells about its rows under the weights of another model."""

    design: Design
    constant: bool

    def change(self, before: Any, scored: Any, rows: Any) -> tuple[float, float, float]:
        """Bounds on what the information of any column is of that of before, and Σ (r − b)²/a, b those of `scored`."""

    def look(self, rows: Any, selected: Sequence[int], candidates: Indices) -> Looked:
        """Products of candidates that are single columns of numbers."""


@dataclass(frozen=True)
class Here:
    """The model at hand: its rows, derivatives, the inverse of its information, and what it is short of its maximum."""

    rows: Any
    selected: Sequence[int]
    gradient: Floats
    information: Floats
    covariance: Floats
    reach: Floats
    short: float


@dataclass(frozen=True)
class Before:
    """A state of the rows, the sum of its weights, and products under it: of each column with itself and with some."""

    rows: Any
    total: float
    own: Floats
    known: dict[int, Floats]


@dataclass(frozen=True)
class Scored:
    """A state of the rows, and products of its residuals with a constant and with all columns."""

    rows: Any
    level: float
    score: Floats


class Screen:
    """Products of columns that are in the model, or soon will be, with all columns, as passes of before found them."""

    def __init__(self, sums: EarlierVerbs) -> None:
        self.sums = sums
        self.everybody: Indices = np.flatnonzero(sums.design.varying)
        self._before: tuple[Before, Scored] | None = None
        self._likely: list[int] = []  # who enters next, the likeliest first
        self._served = _AHEAD  # looks since the last pass for which it was enough
        self._finding = Lock()

    def pays(self, selected: Sequence[int], candidates: Indices, best_only: bool) -> bool:
        """Whether it is worth a pass over all columns; `best_only` says that nobody else matters, now and later."""
        many = len(candidates) >= max(_MANY, len(self.everybody) / 2)
        return many and (best_only or len(selected) >= _LARGE) and bool(self.sums.design.varying[list(selected)].all())

    def leaves_too_many(self, n_in_doubt: int, n_candidates: int) -> bool:
        """Whether so many are in doubt that all shall be taken anew."""
        too_many = n_in_doubt > _MOST_LEFT * n_candidates
        if too_many:
            self._before = None
        else:
            self._served += 1
        return too_many

    def rank(self, candidates: Indices, found: Projected) -> None:
        """Keep who is likely to be next."""
        merit = found.score**2 / np.where(found.left > 0.0, found.left, np.inf)
        few = min(len(merit), 2 * _AHEAD)
        top = np.argpartition(-merit, few - 1)[:few]
        self._likely = candidates[top[np.argsort(-merit[top], kind="stable")]].tolist()

    def look_at_all(self, here: Here, candidates: Indices, best_only: bool) -> Looked:
        """Products as they are, which are kept, with those of who may be next if only the best will ever matter."""
        with self._finding:
            size = len(self._names(here.selected))
            read = [*here.selected, *self._ahead(set(here.selected), best_only)]
            found = self.sums.look(here.rows, read, self.everybody)
            known = dict(zip(self._names(read), found.cross, strict=True))
            before = Before(here.rows, float(here.information[0, 0]) if self.sums.constant else 0.0, found.own, known)
            self._before = before, self._scored(here, found.score)
        at = self._places(candidates)
        return Looked(found.score[at], found.cross[:size, at], found.own[at])

    def look(self, here: Here, candidates: Indices, best_only: bool) -> Projected | None:
        """What S leaves of candidates, with room for what is not known of it; None where that would be too much."""
        with self._finding:
            if self._before is None:
                return None
            before, scored = self._before
            least, largest, apart = self.sums.change(before.rows, scored.rows, here.rows)
            new = [v for v in here.selected if v not in before.known]
            in_vain = new and best_only and (self._served == 0 or not least > _STEADY * largest)
            if in_vain or not least > _EVEN * largest:
                return None
            if new:
                scored, apart = self._read(before, here, new, best_only), 0.0
                self._before = before, scored
        return self._projected(before, scored, here, (least, largest, apart), self._places(candidates))

    def _read(self, before: Before, here: Here, new: list[int], best_only: bool) -> Scored:
        """Scores of now, and products under the weights of before with variables that are new or may be next."""
        read = [*new, *self._ahead({*before.known, *new}, best_only)]
        found = self.sums.look(replace(before.rows, residual=here.rows.residual), read, self.everybody)
        before.known.update(zip(self._names(read), found.cross, strict=True))
        return self._scored(here, found.score)

    def _ahead(self, without: set[int], best_only: bool) -> list[int]:
        """Who is likely to enter next: many, if those of the last pass did; nobody, where they will soon be few."""
        if not (best_only and self._likely):
            return []
        many, self._served = min(_AHEAD, 2 + 4 * self._served), 0
        return [variable for variable in self._likely if variable not in without][:many]

    def _scored(self, here: Here, score: Floats) -> Scored:
        return Scored(here.rows, float(here.gradient[0]) if self.sums.constant else 0.0, score)

    def _projected(
        self, before: Before, scored: Scored, here: Here, change: tuple[float, float, float], at: Indices
    ) -> Projected | None:
        """From products under the weights of before; None where columns of S are next to collinear under them."""
        selected = np.array(here.selected, dtype=np.intp)
        cross = np.array([before.known[name] for name in self._names(here.selected)]).reshape(-1, len(self.everybody))
        inner, then = cross[:, self._places(selected)], scored.score[self._places(selected)]
        if self.sums.constant:
            inner = np.column_stack([np.concatenate([[before.total], inner[0]]), inner])
            then = np.concatenate([[scored.level], then])
        try:
            lower = linalg.cholesky(inner, lower=True)
        except linalg.LinAlgError:
            return None
        least, largest, apart = change
        W = linalg.solve_triangular(lower, cross[:, at], lower=True)
        moved = linalg.solve_triangular(lower, here.gradient - then, lower=True)
        beside = np.sqrt(max(apart - float(moved @ moved), 0.0) + _BY_DIFFERENCE * apart)
        own = before.own[at]
        left, size = own - np.einsum("ij,ij->j", W, W), np.sqrt(largest * own)
        low, high = least * (left - _ROUNDING * own), largest * (left + _ROUNDING * own)
        rounding = _ROUNDING * (1.0 + float(np.sqrt(apart)))
        room = size * (np.sqrt(here.short) + rounding) + np.sqrt(np.maximum(left, 0.0) + _ROUNDING * own) * beside
        spread = size * float(np.sqrt(here.reach @ np.abs(here.covariance) @ here.reach))
        score = scored.score[at] + W.T @ moved
        return Projected(score, (low + high) / 2, largest * own, spread, None, room, (high - low) / 2)

    def _names(self, variables: Sequence[int]) -> list[int]:
        """Of the columns that a model of some variables has."""
        return [_CONSTANT, *variables] if self.sums.constant else list(variables)

    def _places(self, variables: Indices) -> Indices:
        return np.searchsorted(self.everybody, variables)
