"""The one exception for input that fbed cannot work with."""

from __future__ import annotations


class InvalidInput(ValueError):
    """Input that has no defined answer. The message says what was expected, what came and what to do."""
