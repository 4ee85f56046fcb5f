"""Problems for tests, with options by their names."""

from __future__ import annotations

from fbed.api import reading
from fbed.api.options import DataOptions


def read_problem(X, y, criteria, exclude=(), n_jobs=None, **given):
    """What the doors make of the same arguments."""
    return reading.read_problem(X, y, criteria, exclude, DataOptions.of(given), n_jobs)
