"""Tests of your own: a function, or an object with a method `test`, that is asked about one candidate at a time.

    statistic, df, log_p = test(candidate, y, conditioning)

`candidate` holds the design columns of one variable (n × 1 for a number, a column a level but the first for a
category), `y` the outcome as it was given, `conditioning` the design columns of S (n × 0 for none). Columns are centred
and scaled. Variables are ranked by log p-value; a constant column is never shown to the test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.errors import InvalidInput
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices, Span
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import Floats

Answer = tuple[float, float, float]
TestFunction = Callable[[Floats, NDArray[Any], Floats], Answer]


class ConditionalTest(Protocol):
    """What an object must offer to serve as a family; it may carry parameters, and a `name` for reports."""

    def test(self, candidate: Floats, y: NDArray[Any], conditioning: Floats) -> Answer:
        """Statistic, degrees of freedom and log p-value of 'candidate ⊥ y given conditioning'."""


class TestedOneByOne:
    """A model that knows nothing but a conditional independence test."""

    has_likelihood = False
    block_size = 64  # candidates between two looks at the clock

    def __init__(self, design: Design, y: NDArray[Any], test: TestFunction, name: str) -> None:
        self.design, self.y, self.test, self.name = design, y, test, name
        self.n = design.n

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> TestedFit:
        """Gather the columns of a set of variables."""
        return TestedFit(self, selected)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """A test alone has no model: no coefficients, no deviance."""
        return FittedModel(self.name, (), (), None, 0.0, 0.0)


class TestedFit:
    """The columns of S."""

    saturated = False

    def __init__(self, model: TestedOneByOne, selected: Sequence[int]) -> None:
        self.model, self.selected = model, tuple(selected)
        self.span = Span(model.design, selected)
        self.conditioning = model.design.stack(selected)

    def gains(self, candidates: Indices) -> Evidence:
        """The test of each candidate given S."""
        return _evidence([self._test(int(candidate)) for candidate in candidates])

    def losses(self, variables: Indices) -> Evidence:
        """The test of each variable given the others."""
        others = [self.model.fit([s for s in self.selected if s != variable]) for variable in variables]
        return _evidence([fit._test(int(variable)) for fit, variable in zip(others, variables, strict=True)])

    def _test(self, variable: int) -> Answer:
        check_time()
        if self.span.group(variable).shape[1] == 0:  # constant, or in the span of S
            return 0.0, 0.0, 0.0
        answer = self.model.test(self.model.design.columns(variable), self.model.y, self.conditioning)
        return _checked(answer, self.model.name, self.model.design.table.name(variable))


def _checked(answer: Any, name: str, variable: Any) -> Answer:
    try:
        statistic, df, log_p = (float(value) for value in answer)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"the test {name!r} must return three numbers (statistic, df, log p-value), got {answer!r} for variable "
            f"{variable!r}"
        ) from error
    if not (math.isfinite(statistic) and df >= 0 and math.isfinite(df) and -math.inf < log_p <= 1e-9):
        raise InvalidInput(
            f"the test {name!r} returned statistic {statistic:g}, df {df:g} and log p-value {log_p:g} for variable "
            f"{variable!r}: the first two must be finite, and log p at most 0 (log, not p; use e.g. "
            "scipy.stats.norm.logsf rather than log(sf), which ends at −inf)"
        )
    return statistic, df, min(log_p, 0.0)


def _evidence(answers: Sequence[Answer]) -> Evidence:
    table = np.array(answers, dtype=float).reshape(-1, 3)
    return Evidence(table[:, 0], table[:, 1], table[:, 2])
