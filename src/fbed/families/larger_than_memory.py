"""Models of rows that are not in memory: the families whose verbs are sums over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.families.builders import binomial_outcome, checked_offset, silent_strata
from fbed.families.registry import Family, Request
from fbed.larger_than_memory.designs import FarDesign
from fbed.larger_than_memory.gathered import GatheredModel
from fbed.larger_than_memory.joined import JoinedLinear, JoinedSums
from fbed.larger_than_memory.part_sums import Outcome
from fbed.larger_than_memory.time_order import InTime, JoinedRisks
from fbed.larger_than_memory.workers import Crew
from fbed.matrix.design import Design
from fbed.models.base import Model
from fbed.models.engines.tall.course import Course
from fbed.models.engines.tall.linear import Products, TallGaussian
from fbed.models.engines.tall.model import TallModel
from fbed.models.other_statistics.linear import Gaussian
from fbed.rules.p_values import Floats

FAMILIES = ("gaussian", "binomial", "poisson", "cox")
"""Families whose models are found from sums over rows; those of the last over rows in order of time."""


@dataclass(frozen=True)
class Elsewhere:
    """Where the rows are: who asks the parts, which rows of each are kept (None for all), and bytes for few columns."""

    crew: Crew
    lengths: Sequence[int]
    keeps: Sequence[NDArray[np.bool_] | None]
    room: int

    def cut(self, values: Floats | None) -> list[Floats | None]:
        """Values of the rows, by part."""
        ends = list(accumulate(self.lengths))
        return [
            None if values is None else np.ascontiguousarray(values[end - n : end])
            for n, end in zip(self.lengths, ends, strict=True)
        ]

    def settle(
        self, design: FarDesign, y: Floats, prior: Floats | None, offset: Floats | None, counts: bool | None
    ) -> None:
        """Hand every part the outcome of its rows."""
        weights = self.cut(None if design.unit_weights else design.weights)
        parts = zip(self.lengths, self.cut(y), weights, self.cut(prior), self.cut(offset), self.keeps, strict=True)
        outcomes = [Outcome(n, own, w, a, o, counts, keep) for n, own, w, a, o, keep in parts if own is not None]
        self.crew.settle(design.outline, outcomes)


def refuse_others(kind: Family, test: str, cov: str | None, engine: str, late: bool = False) -> None:
    """An error for what cannot be answered by sums over rows."""
    what = None
    if kind.name not in FAMILIES:
        what = f"family {kind.name!r} needs all rows in memory"
    elif test != "lr" or cov is not None:
        what = f"test={test!r}{f' with cov={cov!r}' if cov else ''} needs all rows in memory"
    elif engine != "certified":
        what = "engine='exhaustive' needs all rows in memory"
    elif late:
        what = "entry (rows that are not at risk from the beginning) needs all rows in memory"
    if what is not None:
        raise InvalidInput(
            f"{what}, and this table is read part by part: that works for the families {', '.join(FAMILIES)} with "
            "test='lr'. Read the table into memory if it fits (pandas.read_parquet, say, or without memory_limit and "
            "client), or select on a sample of the rows"
        )


def model_elsewhere(kind: Family, request: Request, where: Elsewhere) -> Model:
    """The model of an outcome whose rows are elsewhere."""
    design = request.design
    assert isinstance(design, FarDesign)

    def ordinary(near: Design) -> Model:
        model = kind.build(replace(request, design=near))
        return getattr(model, "careful", model)

    careful = GatheredModel(kind.name, design, ordinary, where.room)
    if kind.name == "cox":
        return _survival(request, design, where, careful)
    if kind.name == "gaussian":
        return _linear(request, design, where, careful)
    offset = checked_offset(request)
    counts = kind.name == "poisson"
    y, weights = (request.outcome.counts("poisson"), design.weights) if counts else binomial_outcome(request)
    where.settle(design, y, None if weights is design.weights else weights, offset, counts)
    return TallModel(kind.name, JoinedSums(where.crew, design, y, weights, offset, counts), lambda: careful)


def _survival(request: Request, design: FarDesign, where: Elsewhere, careful: GatheredModel) -> TallModel:
    """Of rows that are in order of time (`in_order_of_time`)."""
    crew, strata = where.crew, request.extras.strata
    assert isinstance(crew, InTime)
    time, event = request.outcome.survival("cox", zero_allowed=True)
    course = Course.of(time, event, strata, design.weights)
    crew.follow(design.outline, course)
    return TallModel("cox", JoinedRisks(crew, design, course), lambda: careful, tuple(silent_strata(event, strata)))


def _linear(request: Request, design: FarDesign, where: Elsewhere, careful: GatheredModel) -> TallGaussian:
    y = request.outcome.numbers()
    if request.extras.offset is not None:
        y = y - request.extras.offset
    columns = int(design.width.sum())
    if 8 * columns**2 > where.room:
        raise InvalidInput(
            f"a linear model of {columns:,} columns keeps their products, {8 * columns**2:,} bytes of which "
            f"{where.room:,} are allowed: raise memory_limit, or leave out columns by exclude"
        )
    linear = Gaussian(design, y)
    where.settle(design, np.sqrt(design.weights) * linear.y, None, None, None)
    return TallGaussian(linear, Products(JoinedLinear(where.crew, design)), careful)
