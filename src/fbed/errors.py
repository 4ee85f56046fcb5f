"""The exceptions for input that fbed cannot work with."""

from __future__ import annotations


class InvalidInput(ValueError):
    """Input that has no defined answer. The message says what was expected, what came and what to do."""


class InvalidType(InvalidInput, TypeError):
    """Values of a type that can be neither a number nor a category; scikit-learn expects a TypeError for them."""
