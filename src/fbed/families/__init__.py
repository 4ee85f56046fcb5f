"""Families: one table of what each can do and who builds its model.

``python -m fbed.families`` prints that table.
"""

from __future__ import annotations

import difflib
from typing import Any

from fbed.errors import InvalidInput
from fbed.families.registry import Family, Request, check_abilities, check_stored, markdown
from fbed.families.table import FAMILIES, quantile
from fbed.families.users_tests import as_family
from fbed.models.base import FittedModel, Model


def find(family: Any) -> Family:
    """The family of a name that exists, or of a test of the user's own."""
    if isinstance(family, Family):
        return family
    if not isinstance(family, str):
        return as_family(family)
    if family not in FAMILIES:
        known = ", ".join(repr(name) for name in ("auto", *FAMILIES))
        raise InvalidInput(f"unknown family {family!r}: {_meant(family)}expected one of {known}")
    return FAMILIES[family]


_ALSO_CALLED = {
    "logistic": "binomial",
    "logit": "binomial",
    "binary": "binomial",
    "linear": "gaussian",
    "normal": "gaussian",
    "ols": "gaussian",
    "survival": "cox",
    "coxph": "cox",
    "count": "poisson",
    "nb": "negative_binomial",
    "softmax": "multinomial",
    "polr": "ordinal",
    "median": "quantile",
    "huber": "robust",
}


def _meant(family: str) -> str:
    """What a family may be called elsewhere, or how it is spelt."""
    name = family.lower().replace("-", "_")
    close = [_ALSO_CALLED[name]] if name in _ALSO_CALLED else difflib.get_close_matches(name, FAMILIES, 1, 0.75)
    return f"did you mean {close[0]!r}? " if close else ""


__all__ = [
    "FAMILIES",
    "Family",
    "FittedModel",
    "Model",
    "Request",
    "check_abilities",
    "check_stored",
    "find",
    "markdown",
    "quantile",
]
