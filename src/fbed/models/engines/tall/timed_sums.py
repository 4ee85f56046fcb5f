"""What a Weibull model of survival times asks of its rows: those of a Poisson model of events with the log of time.

With η = α log t + Zβ, α the shape, the log-likelihood is Σ a[δη − exp(η)] + D log α, D the events: that of counts δ on
one column more, and a term in its coefficient alone. That term is as good as a row more. Let z = s/α for a step s of α.
Where 2|z| stands beside the rows' largest |u|, as P and E are increasing in their size,

    2D[−z − log(1 − z)]  ≤  Dz²·P(−2|z|),      2D[z − log(1 + z)]  ≤  Dz²·E(3|z|)  for |z| ≤ 0.8,

so that every bracket of the tall engine holds with it, at gradient D/α and information D/α². The second is what a step
takes away: of a way to a model without a variable, and of log(1 + m)/m of a step that moves rows by m, which is what
gains P(m)·score. Beyond |z| = .8 on these nothing is said (`farthest_removal`, `farthest_addition`). For moments it has
Dz², −2Dz³ and 12Dz⁴ (what follows is (4/(k + 4))z^k of half of that, less than all of it up to |z| = ½). `_BEND`, 4, is
enough for all of this and for what a fit is short of its maximum, whose own fourth moment is at most 12z²·Dz².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbed._kernels import step_moments
from fbed.matrix.candidate_steps import steps
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.factor import NotTall
from fbed.models.engines.tall.row_sums import Rows, RowSums, joined_moments
from fbed.models.likelihoods.weibull import PERFECT, Weibull
from fbed.models.presentation import Estimates
from fbed.rules.p_values import Floats

_BEND = 4.0  # |z| of a step of the shape counts as a row that moves so many times as far
_FARTHEST = 0.4  # |z| up to which moments tell anything
_STEEP = 1e3  # shape, in units of 1/spread of log t, from which times are explained next to perfectly
_SPARE = 10  # rows with an event beside as many as there are coefficients, without which a model may soon be perfect
_BEYOND = 700.0  # a step so far tells nothing
_SHAPE = 1  # where the shape is among the coefficients: after the constant, before those of variables


@dataclass(frozen=True)
class _Timed:
    """The state of the rows as counts, and the shape."""

    rows: Rows
    shape: float


class TimedSums:
    """The verbs of survival times, on the columns of a design."""

    constant = True
    stretch = 1.0
    farthest_removal = 0.8 * _BEND  # up to which a step that takes a variable out is known not to end the shape
    farthest_addition = float(np.expm1(0.8 * _BEND))  # up to which as much of a step as P(m) tells of is

    def __init__(self, blocks: RowBlocks, family: Weibull) -> None:
        self.family, self.blocks, self.design = family, blocks, blocks.design
        self.n, self.events, self.n_events = family.n, family.events, family.n_events
        self._event_rows = int(np.count_nonzero(family.event))
        self.log_time = family.log_time
        self._log_size = float(np.abs(self.log_time).max())
        self.counts = RowSums(blocks, family.event, family.weights, None, counts=True, whole=False)
        self.best = self.n_events * (np.log(PERFECT / family.spread) - 1.0)

    @property
    def base(self) -> float:
        """−2·log-likelihood of a perfect fit, from which deviances are counted here."""
        return -2.0 * self.best

    def start(self) -> Floats:
        """Where the model without variables begins: a constant and the shape."""
        intercept, shape = self.family.start(1)
        return np.array([-intercept, shape])

    def lead_reach(self, coefficients: Floats) -> Floats:
        """How far a unit of the constant and of the shape move a row, or what counts as one."""
        return np.array([1.0, max(self._log_size, _BEND / coefficients[_SHAPE])])

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Half the deviance and its derivatives, the shape among the coefficients; and the state of the rows."""
        shape, events = float(coefficients[_SHAPE]), self.n_events
        few = self._event_rows - len(coefficients) <= _SPARE or self.n_events - len(coefficients) <= 0.0
        if (
            few or shape * self.family.spread >= _STEEP
        ):  # of events that weigh too little nothing is left to explain, either
            raise NotTall
        if not shape > 0.0:
            return _nowhere(len(coefficients))
        others = np.delete(coefficients, _SHAPE)
        found = self.counts.sweep(selected, others, shape * self.log_time)
        rows: Rows = found.rows
        timed = rows.weight * self.log_time
        cross = self.counts.along(selected, timed)
        gradient = np.insert(found.gradient, _SHAPE, self.log_time @ rows.residual + events / shape)
        information = np.insert(np.insert(found.information, _SHAPE, cross, axis=0), _SHAPE, 0.0, axis=1)
        information[:, _SHAPE] = np.insert(cross, _SHAPE, self.log_time @ timed + events / shape**2)
        loss = found.loss + events * np.log(PERFECT / (self.family.spread * shape))
        return Sweep(float(loss), gradient, information, _Timed(rows, shape))

    def look(self, rows: _Timed, selected: Sequence[int], candidates: Indices) -> Looked:
        """Products of candidates that are single columns of numbers."""
        found = self.counts.look(rows.rows, selected, candidates, [self._weighted(rows)])
        return Looked(found.score, _with_shape(found.cross[:-1], found.cross[-1]), found.own)

    def look_at_group(self, rows: _Timed, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns; a category's are levels as they are."""
        found = self.counts.look_at_group(rows.rows, selected, variable)
        timed, codes, width = self._weighted(rows), self.blocks.codes(variable), int(self.design.width[variable])
        if codes is not None:
            own = np.asarray(np.bincount(codes, timed, width + 1)[1:], dtype=np.float64)
        else:
            (own,) = self.blocks.summed(lambda part: (self.blocks.variable(variable, part).T @ timed[part],), width)
        return Looked(found.score, _with_shape(found.cross, own), found.own)

    def _weighted(self, rows: _Timed) -> Floats:
        return np.asarray(rows.rows.weight * self.log_time)

    def moments(
        self, rows: _Timed, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Second to fourth moments and extremes of the steps u = x·own − Z·along of some variables, a column each."""
        shape, others = -along[_SHAPE], np.delete(along, _SHAPE, axis=0)
        beside = steps(self.blocks, selected, variables, own, others)

        def work(part: slice) -> Floats:
            moved = beside(part)
            moved += self.log_time[part, None] * shape
            return step_moments(True, rows.rows.mean[part], rows.rows.weight[part], moved)

        found = self.blocks.reduced(work, along.shape[0] + len(variables), joined_moments)
        z = shape / rows.shape
        found[:3] += self.n_events * z**2 * np.array([np.ones_like(z), -2.0 * z, 12.0 * z**2])
        found[3:, np.abs(z) > _FARTHEST] = np.array([[-np.inf], [_BEYOND]])
        return found

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them, without the time."""
        return self.counts.remainder(selected, variable, gamma)

    def row_scores(self, rows: _Timed) -> tuple[Floats, Floats | None]:
        """Expected less observed events, in the predictor of log time; they have variance 1 without censoring."""
        return -rows.rows.residual[:, None], None

    def estimates(self, selected: Sequence[int], coefficients: Floats, covariance: Floats) -> Estimates:
        """Coefficients of log time and its scale, of the user's columns."""
        center, scale = self.design.moments_of(selected)
        size = len(coefficients)
        change = np.zeros((size, size))  # of opposite signs there, with the shape at the end
        change[0, 0], change[-1, _SHAPE] = -1.0, 1.0
        change[0, 2:] = center / scale
        change[1:-1, 2:] = -np.diag(1.0 / scale)
        terms = ("(intercept)", *(label for v in selected for label in self.design.labels(v)), "parameter 1")
        return self.family.present(Estimates(terms, change @ coefficients, change @ covariance @ change.T))


def _nowhere(size: int) -> Sweep:
    """Beyond the domain: no step leads there, and no fit begins there."""
    return Sweep(np.inf, np.full(size, np.nan), np.eye(size), None)


def _with_shape(others: Floats, own: Floats) -> Floats:
    return np.insert(others, _SHAPE, own, axis=0)
