"""What the tall engine asks of a family: sums over rows, whatever the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np

from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.explained_columns import FarOut
from fbed.models.engines.tall.movement import Moved
from fbed.models.engines.tall.rows_left import RowsLeft
from fbed.models.presentation import Estimates
from fbed.rules.p_values import Floats


class Verbs(Protocol):
    """What a family tells about its rows; see `row_sums` and `risk_sums`."""

    n: float  # sample size of information criteria
    design: Design
    blocks: RowBlocks
    constant: bool  # whether the model has one
    stretch: float  # no z of a step is larger than this times the step

    @property
    def events(self) -> float:
        """What every level of a category needs some of."""

    def start(self) -> Floats:
        """Coefficients of the model without variables."""

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Loss, gradient, information, and the state of the rows."""

    def look(self, rows: Any, selected: Sequence[int], candidates: Indices) -> Looked:
        """Products of candidates that are single columns of numbers."""

    def look_at_group(self, rows: Any, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns."""

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""


class MomentVerbs(Protocol):
    """What a family tells whose variables have a coefficient for each column."""

    def moments(
        self, rows: Any, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Second to fourth moments and extremes of the steps u = x·own − Z·along of some variables, a column each."""


class ClassVerbs(Verbs, Protocol):
    """What a family of classes tells: variables have as many coefficients as there are predictors, a column.

    Products of candidates are those of all their coefficients; `Looked.own` has a matrix for each candidate.
    """

    n_predictors: int
    lead: int  # coefficients before those of variables

    def ends(
        self, rows: Any, selected: Sequence[int], variables: Indices, steps: Sequence[Floats]
    ) -> tuple[Floats, list[Floats]]:
        """What steps of models with one variable more each gain, and the gradients where they end."""

    def moved(self, step: Floats, reach: Floats) -> Moved:
        """How far steps, a column each, can move a row, whose columns have some size."""

    def farthest(self, moves: Floats) -> Moved:
        """The same of predictors of rows that are known."""

    def unit_moves(self, covariance: Floats, reach: Floats) -> Moved:
        """The same of any step of length 1 in the metric whose inverse is given."""

    def bend(self, rows: Any, moved: Moved, within: Moved) -> Floats:
        """How much curvature may change along steps, while nobody moves further than `within`; see `movement`."""

    def above(self, bend: Floats) -> Floats:
        """Factor on what a step promises that is no less than what there is to gain; infinite where nobody knows."""

    def lost_by(self, bend: Floats, drift: Floats, wald: Floats) -> Floats:
        """What it costs at least to remove a variable, given the step to the nearest model without it.

        It may be taken in part; what the fit is short of its maximum, `drift`, may not.
        """

    def estimates(self, selected: Sequence[int], coefficients: Floats, covariance: Floats) -> Estimates:
        """Coefficients as people read them."""


class ShapedVerbs(Protocol):
    """What a family tells that has a further parameter among the coefficients, after the constant."""

    base: float  # −2·log-likelihood from which deviances are counted
    farthest_removal: float  # how far a step to a model without a variable may go for its upper bound to hold
    farthest_addition: float  # how far a step to a model with one more may go for its lower bound to hold

    def lead_reach(self, coefficients: Floats) -> Floats:
        """How far a unit of each coefficient that belongs to no variable moves a row, or what counts as one."""

    def estimates(self, selected: Sequence[int], coefficients: Floats, covariance: Floats) -> Estimates:
        """The parameters as people read them."""


def lead_reach(sums: Verbs, coefficients: Floats) -> Floats:
    """How far a unit of each coefficient that belongs to no variable moves a row."""
    if hasattr(sums, "lead_reach"):
        return cast("ShapedVerbs", sums).lead_reach(coefficients)
    return np.ones(1 if sums.constant else 0)


def base_of(sums: Verbs) -> float:
    """What deviances are counted from: 0, unless the likelihood has no value that a perfect fit would reach."""
    return float(getattr(sums, "base", 0.0))


class ScoredVerbs(Protocol):
    """What a family tells whose rows are at hand."""

    def row_scores(self, rows: Any) -> tuple[Floats, Floats | None]:
        """Score of every row in its predictor, rows × 1, and its variance up to a factor, None for 1."""


class RareVerbs(Protocol):
    """What a family tells about columns that are mostly 0."""

    knows_rare: bool

    def enclose_rare(
        self, sweep: Sweep, selected: Sequence[int], candidates: Indices, reach: Floats, short: float
    ) -> tuple[Floats, Floats, Floats]:
        """Intervals of likelihood ratios, and about where the models with each column end."""

    def enclose_losses(
        self, sweep: Sweep, selected: Sequence[int], places: Indices, coefficients: Floats, reach: Floats, short: float
    ) -> tuple[Floats, Floats] | None:
        """Intervals of what removing columns of S costs, if they can be told."""


class SparingVerbs(Protocol):
    """What a family tells whose models may do without rows that some variables explain for good."""

    def rows_left(self, selected: Sequence[int]) -> RowsLeft | None:
        """Rows that S has left to explain, None where those are all."""

    def spares_rows(self, variables: Sequence[int]) -> bool:
        """Whether a model of some variables does."""

    def needs_for_rows(self, selected: Sequence[int], variable: int) -> bool:
        """Whether rows may have to be explained again without one of the variables of a model."""

    def is_hidden(self, selected: Sequence[int], variable: int) -> bool:
        """Whether a column has nothing to tell of the rows that are left."""

    def are_independent(self, variables: Sequence[int]) -> bool:
        """Whether the columns of some variables are, on all rows."""


class ExplainingVerbs(Protocol):
    """What a family tells whose columns may explain rows for good, each as its coefficient goes to infinity."""

    def far_out(
        self, selected: Sequence[int], coefficients: Floats, far: float
    ) -> tuple[dict[int, FarOut], Floats | None]:
        """How columns take the rows that they explain so far out, and linear predictors there, less the offset, if they
        are a place where another engine may begin.
        """

    def explains_apart(self, selected: Sequence[int]) -> bool:
        """Whether the columns that explain rows are far from dependent on them."""


class LevelVerbs(Protocol):
    """What a family tells about levels of categories that can do without rows of some of them."""

    def levels_alone(self, rows: Any, variable: int) -> Floats:
        """Where the coefficients of a category would be if each level were alone beside the model."""

    def loss(self, selected: Sequence[int], coefficients: Floats) -> float:
        """Half the deviance."""
