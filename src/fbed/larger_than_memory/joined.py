"""The verbs of the engines for tall data, answered by the parts of the rows and joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.larger_than_memory.designs import FarDesign, Spread
from fbed.larger_than_memory.workers import Crew
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks, Sums
from fbed.models.base import Indices
from fbed.models.engines.tall.answers import Looked, Sweep
from fbed.models.engines.tall.row_sums import events_of, null_coefficients
from fbed.rules.p_values import Floats


class JoinedSums:
    """The verbs of a generalised linear model. The state of the rows is the coefficients that it follows from."""

    constant = True
    stretch = 1.0

    def __init__(
        self, crew: Crew, design: FarDesign, y: Floats, weights: Floats, offset: Floats | None, counts: bool
    ) -> None:
        self.crew, self.blocks = crew, RowBlocks(design)
        self.design: Design = design
        self.n = float(weights.sum())
        self.events = events_of(y, weights, counts)
        self._start = null_coefficients(y, weights, offset, counts)

    def start(self) -> Floats:
        """Coefficients of the model without variables."""
        return self._start

    def sweep(self, selected: Sequence[int], coefficients: Floats) -> Sweep:
        """Loss, gradient, information."""
        loss, gradient, information = self.crew.ask("sweep", plain(selected), coefficients)
        return Sweep(float(loss[0]), gradient, information, coefficients)

    def look(self, rows: Floats, selected: Sequence[int], candidates: Indices) -> Looked:
        """Products of candidates that are single columns of numbers."""
        return Looked(*self.crew.ask("look", plain(selected), rows, candidates))

    def look_at_group(self, rows: Floats, selected: Sequence[int], variable: int) -> Looked:
        """The same for a variable of several columns."""
        return self.look_at_groups(rows, selected, np.array([variable], dtype=np.intp))[0]

    def look_at_groups(self, rows: Floats, selected: Sequence[int], variables: Indices) -> list[Looked]:
        """The same for several of them in one pass."""
        found = self.crew.ask("look_at_groups", plain(selected), rows, variables)
        return [Looked(*sums) for sums in found]

    def moments(
        self, rows: Floats, selected: Sequence[int], variables: Indices, own: Sequence[Floats], along: Floats
    ) -> Floats:
        """Moments and extremes of the steps of some variables."""
        found: Floats = self.crew.ask("moments", plain(selected), rows, variables, list(own), along)
        return found

    def remainder(self, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
        """Products of the model's columns and of what a column is beside its part along them."""
        found: Sums = self.crew.ask("remainder", plain(selected), int(variable), gamma)
        return found


class JoinedLinear:
    """The verbs of the linear model."""

    def __init__(self, crew: Crew, design: FarDesign) -> None:
        self.crew = crew
        self.design: Design = design

    def with_outcome(self, variables: Sequence[int]) -> Floats:
        """Sums over the rows of the columns of variables times the outcome."""
        found: Floats = self.crew.ask("with_outcome", plain(variables))[0]
        return found

    def between(self, some: Sequence[int], others: Sequence[int]) -> Floats:
        """Sums of products of the columns of some variables with those of others."""
        found: Floats = self.crew.ask("between", plain(some), plain(others))[0]
        return found


class JoinedRows:
    """Few columns, and what follows from them for every row."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew

    def fetch(self, variables: Sequence[int]) -> list[tuple[NDArray[Any], ...]]:
        """All rows of the columns that some variables have."""
        parts = self.crew.gather("fetch", plain(variables))
        return [tuple(map(np.concatenate, zip(*column, strict=True))) for column in zip(*parts, strict=True)]

    def products(self, variables: Sequence[int]) -> Floats:
        """Sums of the products of all design columns of some variables."""
        found: Floats = self.crew.ask("between", plain(variables), plain(variables))[0]
        return found

    def pearson(self, selected: Sequence[int], coefficients: Floats) -> float:
        """Pearson's χ², from coefficients of a constant and the standardised columns."""
        return float(self.crew.ask("pearson", plain(selected), coefficients)[0])

    def spread(self, variables: Sequence[int], low: Floats, high: Floats) -> list[Spread]:
        """How the values of columns of numbers are spread between their extremes."""
        found: list[Spread] = self.crew.ask("spread", plain(variables), low, high)
        return found

    def predictors(self, selected: Sequence[int], coefficients: Floats) -> Floats:
        """Linear predictors of all rows, from coefficients of the standardised columns."""
        return np.concatenate(self.crew.gather("predictors", plain(selected), coefficients))

    def along(self, selected: Sequence[int], rows: Floats) -> Floats:
        """Products of the standardised columns with numbers that the rows have."""
        found: Floats = self.crew.ask("along", plain(selected), rows)[0]
        return found


def plain(variables: Sequence[int]) -> tuple[int, ...]:
    """Indices as they travel."""
    return tuple(int(v) for v in variables)
