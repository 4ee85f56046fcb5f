"""Families: one module a kind of outcome. `bind` ties a family to an outcome and its predictors."""

from __future__ import annotations

from collections.abc import Callable

from fbed.design import Design
from fbed.errors import InvalidInput
from fbed.families.base import FittedModel, Model
from fbed.families.binomial import Binomial
from fbed.families.gaussian import Gaussian
from fbed.outcomes import Outcome

_FAMILIES: dict[str, Callable[[Design, Outcome, bool], Model]] = {
    "gaussian": lambda design, outcome, certified: Gaussian(design, outcome.numbers(), certified),
    "binomial": lambda design, outcome, certified: Binomial(design, outcome.zero_one(), certified),
}


def bind(family: str, design: Design, outcome: Outcome, certified: bool = True) -> Model:
    """The model for an outcome under a family given by name; not certified means that every model is fitted."""
    return _FAMILIES[check_name(family)](design, outcome, certified)


def check_name(family: str) -> str:
    """The name of a family that exists."""
    if family not in _FAMILIES:
        known = ", ".join(repr(name) for name in ("auto", *_FAMILIES))
        raise InvalidInput(f"unknown family {family!r}: expected one of {known}")
    return family


__all__ = ["FittedModel", "Model", "bind", "check_name"]
