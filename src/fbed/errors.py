"""The exceptions for input that fbed cannot work with, and the warning for what it can, but slowly."""

from __future__ import annotations


class InvalidInput(ValueError):
    """Input that has no defined answer. The message says what was expected, what came and what to do."""


class InvalidType(InvalidInput, TypeError):
    """Values of a type that can be neither a number nor a category; scikit-learn expects a TypeError for them."""


class SlowSearch(UserWarning):
    """A search that will take long for a reason that can be changed; told before it begins."""
