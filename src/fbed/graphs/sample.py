"""Simulated data."""

from collections.abc import Hashable
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fbed.graphs.errors import GraphError

if TYPE_CHECKING:
    import pandas

Seed = int | np.random.Generator | None


class Sample(dict[Hashable, NDArray[Any]]):
    """The columns of a simulated table: a dict from node to array, in the order of the graph's nodes."""

    def to_frame(self) -> "pandas.DataFrame":
        """The table as a pandas DataFrame (pandas must be installed)."""
        import pandas

        return pandas.DataFrame(dict(self))


def as_sample_size(n: object) -> int:
    """The number of rows to draw."""
    try:
        size = index(n)  # type: ignore[arg-type]
    except TypeError:
        size = -1
    if size < 0:
        raise GraphError(f"Expected a whole number n ≥ 0 of rows to draw, got {n!r}.")
    return size
