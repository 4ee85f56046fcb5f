"""What a proportional hazards model asks of its rows, which are in order of time: sums over them that are carried on.

Within a stratum rows go from the latest to the earliest, so that those at risk are the rows so far. With h the hazards,
S and D their sums of a column over those at risk and dying at a tied set, and w the expected events of each row,

    gradient Zᵀ(event − w),      information ZᵀwZ − Σ MᵀM,      M = lᵀ[S; D] of every set,

l a small triangle that depends on the hazards alone (`cox_state`). So what a scan needs are matrix products of columns
and of their M, and M is a sum that runs down the columns (`ProductsAtRisk`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import DenseColumns, MomentsAtRisk, ProductsAtRisk, SparseColumns, cox_change
from fbed.clock import check_time
from fbed.matrix.candidate_steps import extremes, predictors, remainder, steps
from fbed.matrix.counted_columns import CountedColumns, counted
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.matrix.scattered_columns import scattered
from fbed.models.base import Indices
from fbed.models.engines.tall import rare_at_risk
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.course import Course, RiskState
from fbed.models.engines.tall.eventless import Eventless
from fbed.models.engines.tall.explained_columns import FarOut
from fbed.models.engines.tall.information_at_risk import InformationAtRisk, information_by_entries
from fbed.models.engines.tall.rows_left import RowsLeft
from fbed.rules.p_values import Floats

_MANY_LEVELS = 64  # columns of a model with categories that are quicker counted than multiplied
_PRODUCTS = 2**23  # of variables of several columns that are held at once

Columns = Callable[[slice], Floats]
"""What reads columns, of some rows."""


class RiskSums:
    """The verbs of survival times on a design whose rows are in order, or on some rows in the midst of others.

    For the latter what is found is added to the sums over the rows before (`add_model` and the like).
    """

    constant = False
    stretch = 2.0  # z is the difference of a step from its mean among those at risk

    def __init__(self, blocks: RowBlocks, course: Course) -> None:
        self.blocks, self.design, self.course = blocks, blocks.design, course
        self.n = self.events = course.n_events
        self.eventless = Eventless(blocks, course)

    def start(self) -> Floats:
        """No constant: the baseline hazard is left open."""
        return np.zeros(0)

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Half the deviance, gradient and information of the columns of S, and the state of the rows."""
        rows, loss = self._state(selected, coefficients)
        found, left = self._sweep(selected, rows, loss), self.eventless.left_by(selected)
        return found if left is None else left.without_idle(found)

    def loss(self, selected: Sequence[int], coefficients: Floats) -> float:
        """Half the deviance."""
        return self._state(selected, coefficients)[1]

    def _state(self, selected: Sequence[int], coefficients: Floats) -> tuple[RiskState, float]:
        left = self.eventless.left_by(selected)
        return self.course.state(self.predictors(selected, coefficients), None if left is None else left.weights)

    def levels_alone(self, rows: RiskState, variable: int) -> Floats:
        """Where the coefficients of a category would be if each level were alone beside S: log(events / expected).

        That is near where they will be. A Newton step is not, for a level that has few rows: it goes to
        events / expected − 1, and hazards grow with the exponential of that.
        """
        codes, size = self.blocks.codes(variable), int(self.design.width[variable]) + 1
        if codes is None:
            raise TypeError("a category is expected")
        expected = np.bincount(codes, rows.expected, size)
        events = expected + np.bincount(codes, rows.residual, size)
        told = (expected > 0.0) & (events > 0.0)
        ratio = np.log(np.where(told, events, 1.0) / np.where(told, expected, 1.0))
        return np.asarray(ratio[1:] - ratio[0])

    def _sweep(self, selected: Sequence[int], rows: RiskState, loss: float) -> Sweep:
        columns = counted(self.blocks, selected, constant=False)
        if columns is not None:
            found = InformationAtRisk(columns, self.course, rows)
            return Sweep(loss, found.score(), found.within(), rows)
        few = scattered(self.blocks, selected)
        if few is not None and (within := information_by_entries(few, self.course, rows)) is not None:
            return Sweep(loss, few.along(rows.residual)[1:], within, rows)
        width = self.blocks.width(selected)
        sums = ProductsAtRisk(width, 0)
        if width:
            self.add_model(sums, rows, selected)
        gradient, information, _ = sums.found()
        return Sweep(loss, gradient, information, rows)

    def spares_rows(self, variables: Sequence[int]) -> bool:
        """Whether somebody is never at risk in a model of some variables, though he is in smaller ones."""
        return self.eventless.spares(variables)

    def needs_for_rows(self, selected: Sequence[int], variable: int) -> bool:
        """Whether somebody is at risk again without one of the variables of a model."""
        return self.eventless.spares([variable])

    def is_hidden(self, selected: Sequence[int], variable: int) -> bool:
        """Whether a column is 0 for all who are at risk beside S."""
        return self.eventless.hides(selected, variable)

    def far_out(self, selected: Sequence[int], coefficients: Floats, far: float) -> tuple[dict[int, FarOut], None]:
        """How columns of survivors take these so far out; where another engine may begin is not known."""
        return self.eventless.far_out(selected, self.predictors(selected, coefficients), far), None

    def explains_apart(self, selected: Sequence[int]) -> bool:
        """Whether nobody but columns far from dependent, each by itself, takes rows out."""
        return not self.eventless.has_levels(selected)

    def are_independent(self, variables: Sequence[int]) -> bool:
        """Whether the columns of some variables are, on all rows."""
        return self.eventless.independent(variables)

    def predictors(self, selected: Sequence[int], coefficients: Floats) -> Floats:
        """Zβ of every row."""
        told, eta = predictors(self.blocks, selected, coefficients, constant=False), np.zeros(self.design.n_rows)
        for part in self._parts(2 * len(coefficients)) if len(coefficients) else ():
            eta[part] = told(part)
        return eta

    def moved_by(self, selected: Sequence[int], step: Floats) -> float:
        """How far a step of the coefficients moves any two rows apart."""
        least, most = extremes(self.blocks, selected, step, constant=False)
        return most - least

    def look(self, rows: RiskState, selected: Sequence[int], candidates: Indices) -> Looked:
        """Xᵀr, the information of X with Z and of X with itself, for candidates that are single columns of numbers."""
        columns = counted(self.blocks, selected, constant=False)
        if columns is not None:
            return InformationAtRisk(columns, self.course, rows).with_numbers(candidates)
        sums = ProductsAtRisk(self.blocks.width(selected), len(candidates))
        self.add_candidates(sums, rows, selected, candidates)
        return Looked(*sums.found())

    def rows_left(self, selected: Sequence[int]) -> RowsLeft | None:
        """Who stays at risk beside S, None for everybody."""
        return self.eventless.left_by(selected)

    def row_scores(self, rows: RiskState) -> tuple[Floats, Floats | None]:
        """Martingale residuals, which have variance 1 without censoring."""
        return rows.residual[:, None], None

    def change(self, before: RiskState, scored: RiskState, rows: RiskState) -> tuple[float, float, float]:
        """Extremes of p/p_a, p the probabilities of those at risk now and p_a before, and Σ (p − p_b)²/p_a."""
        hazards = before.hazard, scored.hazard, rows.hazard
        return cox_change(self.course.event, self.course.closes, self.course.starts, self.course.deaths, *hazards)

    def look_at_group(self, rows: RiskState, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns; a category's are levels as they are."""
        return next(self.look_at_groups(rows, selected, np.array([variable], dtype=np.intp)))

    def look_at_groups(self, rows: RiskState, selected: Sequence[int], variables: Indices) -> Iterator[Looked]:
        """The same for several variables, as many together as have so many products with S and with themselves."""
        width = self.design.width[variables].astype(float)
        products = np.cumsum(width * (width + self.blocks.width(selected)))
        for some in np.split(variables, np.flatnonzero(np.diff(products // _PRODUCTS)) + 1):
            names = [int(v) for v in some]
            pays = [v for v in names if counted(self.blocks, [*selected, v], constant=False) is not None]
            found = self._counted_groups(rows, selected, pays) if pays else {}
            yield from (found[v] if v in found else self._multiplied_group(rows, selected, v) for v in names)

    def _counted_groups(self, rows: RiskState, selected: Sequence[int], variables: Sequence[int]) -> dict[int, Looked]:
        information = InformationAtRisk(CountedColumns(self.blocks, selected, constant=False), self.course, rows)
        categories = [v for v in variables if self.blocks.codes(v) is not None]
        found = dict(zip(categories, information.with_categories(categories), strict=True)) if categories else {}
        everything = slice(0, self.design.n_rows)
        others = {v: information.with_columns(self.blocks.variable(v, everything)) for v in variables if v not in found}
        return found | others

    def _multiplied_group(self, rows: RiskState, selected: Sequence[int], variable: int) -> Looked:
        size = self.blocks.width(selected)
        sums = ProductsAtRisk(size + int(self.design.width[variable]), 0)
        self.add_group(sums, rows, selected, variable)
        return looked_at_group(sums, size)

    def moments(
        self, rows: RiskState, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Moments of the steps u = x·own − Z·along among those at risk, summed over the events, and extremes."""
        sums = MomentsAtRisk(len(variables))
        self.add_steps(sums, rows, selected, variables, own, along)
        return sums.found()

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        return remainder(self.blocks, selected, variable, gamma)

    @property
    def knows_rare(self) -> bool:
        """Whether entries that are not 0 can be read by themselves."""
        return isinstance(self.design.matrix, (DenseColumns, SparseColumns))

    def enclose_rare(
        self, sweep: Sweep, selected: Sequence[int], candidates: Indices, reach: Floats, short: float
    ) -> tuple[Floats, Floats, Floats]:
        """Intervals of columns that are mostly 0, from the maximum along each; and about where their models end.

        Those are steps of the model's coefficients and then the column's own, on the scale of its standardised values.
        """
        which, model = self.design.positions(candidates), self._model_rows(selected)
        if model is None:
            nobody = np.full((len(sweep.gradient) + 1, len(which)), np.nan)
            return np.zeros(len(which)), np.full(len(which), np.inf), nobody
        matrix = cast("DenseColumns | SparseColumns", self.design.matrix)
        lower, upper, ends = rare_at_risk.enclosed(
            self.course, sweep.rows, self.design.weights, matrix, which, model, sweep.information, short
        )
        ends[-1] *= self.design.scale[which]
        return lower, upper, ends

    def _model_rows(self, selected: Sequence[int]) -> rare_at_risk.ModelRows | None:
        """The columns of S; None where there are many levels, beside which fits cost less than looks at columns."""
        width = self.blocks.width(selected)
        if width == 0:
            return rare_at_risk.NoColumns()
        if width > _MANY_LEVELS and counted(self.blocks, selected, constant=False) is not None:
            return None
        few = scattered(self.blocks, selected)
        if few is not None:
            return rare_at_risk.ByEntries(few)
        return rare_at_risk.RowByRow(self.blocks.model(selected, constant=False), self.blocks.parts(width))

    def enclose_losses(
        self, sweep: Sweep, selected: Sequence[int], places: Indices, coefficients: Floats, reach: Floats, short: float
    ) -> None:
        """Nothing is told of what it costs to remove columns."""

    # --- added to what the rows before have said ----------------------------------------------------------------------

    def add_model(self, sums: ProductsAtRisk, rows: RiskState, selected: Sequence[int]) -> None:
        """The columns of S with each other."""
        self._add(sums, rows, self.blocks.width(selected), self.blocks.model(selected, constant=False))

    def add_candidates(
        self, sums: ProductsAtRisk, rows: RiskState, selected: Sequence[int], candidates: Indices
    ) -> None:
        """The columns of S with those of candidates."""
        where, size = self.design.positions(candidates), self.blocks.width(selected)
        model = self.blocks.model(selected, constant=False)
        self._add(sums, rows, size + len(candidates), model, partial(self.blocks.gather, where))

    def add_group(self, sums: ProductsAtRisk, rows: RiskState, selected: Sequence[int], variable: int) -> None:
        """The columns of S and of a variable with each other."""
        model, size = self.blocks.model(selected, constant=False), self.blocks.width(selected)
        width, codes = int(self.design.width[variable]), self.blocks.codes(variable)

        def both(part: slice) -> Floats:
            X = self.blocks.variable(variable, part) if codes is None else codes[part, None] == np.arange(1, width + 1)
            return np.asfortranarray(np.hstack([model(part), X]))

        self._add(sums, rows, size + width, both)

    def _add(
        self, sums: ProductsAtRisk, rows: RiskState, width: int, model: Columns, candidates: Columns | None = None
    ) -> None:
        for part in self._parts(width):
            Z = model(part)
            X = np.empty((len(Z), 0), order="F") if candidates is None else candidates(part)
            state = rows.hazard[part], rows.expected[part], rows.residual[part], rows.triangle
            sums.add(*self._course_of(part), *state, Z, X)

    def add_steps(
        self,
        sums: MomentsAtRisk,
        rows: RiskState,
        selected: Sequence[int],
        variables: Indices,
        own: Sequence[Floats],
        along: Floats,
    ) -> None:
        """Moments of steps."""
        moved = steps(self.blocks, selected, variables, own, along, constant=False)
        for part in self._parts(along.shape[0] + len(variables)):
            sums.add(*self._course_of(part), rows.hazard[part], self.course.deaths, moved(part))

    def _parts(self, columns: int) -> Iterator[slice]:
        """Blocks of rows in order; what is carried on from one to the next keeps threads from sharing them."""
        for part in self.blocks.parts(columns):
            check_time()
            yield part

    def _course_of(self, part: slice) -> tuple[Floats, NDArray[np.int64], NDArray[np.bool_]]:
        return self.course.event[part], self.course.closes[part], self.course.starts[part]


def looked_at_group(sums: ProductsAtRisk, size: int) -> Looked:
    """What was found for a variable after so many columns of S."""
    score, cross, _ = sums.found()
    return Looked(score[size:], cross[:size, size:], cross[size:, size:])


def in_order(design: Design, order: NDArray[np.intp]) -> Design:
    """The design with its rows in another order, columns in one piece; itself where that is the order they have."""
    if (order == np.arange(len(order))).all():
        return design
    return Design(design.table.rows(order, turned=True), design.weights[order])
