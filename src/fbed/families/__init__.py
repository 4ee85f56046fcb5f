"""Families: one module a kind of outcome, and one table of what each can do.

``python -m fbed.families`` prints that table.
"""

from __future__ import annotations

from typing import Any

from fbed.errors import InvalidInput
from fbed.families.base import FittedModel, Model
from fbed.families.builders import FAMILIES, quantile
from fbed.families.own import as_family
from fbed.families.registry import Family, Request, check_abilities, markdown


def find(family: Any) -> Family:
    """The family of a name that exists, or of a test of the user's own."""
    if isinstance(family, Family):
        return family
    if not isinstance(family, str):
        return as_family(family)
    if family not in FAMILIES:
        known = ", ".join(repr(name) for name in ("auto", *FAMILIES))
        raise InvalidInput(f"unknown family {family!r}: expected one of {known}")
    return FAMILIES[family]


__all__ = ["FAMILIES", "Family", "FittedModel", "Model", "Request", "check_abilities", "find", "markdown", "quantile"]
