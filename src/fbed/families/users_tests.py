"""A function or object of the user's own as a family."""

from __future__ import annotations

from typing import Any

from fbed.errors import InvalidInput
from fbed.families.registry import Family, Request
from fbed.models.other_statistics.users_test import TestedOneByOne


def as_family(test: Any) -> Family:
    """The family of a user's function or object."""
    name = str(getattr(test, "name", None) or getattr(test, "__name__", None) or type(test).__name__)
    if isinstance(test, type):
        raise InvalidInput(f"family is the class {test.__name__}: pass an object, {test.__name__}(…)")
    function = getattr(test, "test", test)
    if not callable(function):
        raise InvalidInput(
            f"family must be a name, a function (candidate, y, conditioning) -> (statistic, df, log_p), or an object "
            f"with such a method called test; got {type(test).__name__}"
        )

    def build(request: Request) -> TestedOneByOne:
        return TestedOneByOne(request.design, request.outcome.raw(), function, name)

    return Family(name, "anything", build, ("p-value",), likelihood=False, weights=False)
