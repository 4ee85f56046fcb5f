"""What searches on the same data have in common: intervals for statistics, by the set S they belong to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from fbed.families.base import Indices
from fbed.tails import Floats


class Known:
    """Intervals for the statistics of all variables, given one set."""

    def __init__(self, n_variables: int) -> None:
        self.table = np.empty((3, n_variables))
        self.table[0], self.table[1], self.table[2] = 0.0, np.inf, np.nan

    def recall(self, variables: Indices) -> tuple[Floats, Floats, Floats]:
        """Lower and upper ends and df of some variables; df is NaN where nothing is known."""
        lower, upper, df = self.table[:, variables]
        return lower.copy(), upper.copy(), df.copy()

    def remember(self, variables: Indices, lower: Floats, upper: Floats, df: Floats) -> None:
        """Keep intervals that are narrower than before."""
        self.table[0, variables], self.table[1, variables], self.table[2, variables] = lower, upper, df


class Memo:
    """Knowledge by set, within a budget of memory: the sets that were used last are kept."""

    def __init__(self, n_variables: int, budget: int = 2**28) -> None:
        self.n_variables = n_variables
        self.capacity = max(2, budget // (24 * max(1, n_variables)))
        self._known: OrderedDict[tuple[str, frozenset[int]], Known] = OrderedDict()

    def gains(self, selected: Sequence[int]) -> Known:
        """What is known about adding variables to a set."""
        return self._of("gains", selected)

    def losses(self, selected: Sequence[int]) -> Known:
        """What is known about removing variables from a set."""
        return self._of("losses", selected)

    def _of(self, kind: str, selected: Sequence[int]) -> Known:
        key = (kind, frozenset(selected))
        known = self._known.pop(key, None) or Known(self.n_variables)
        self._known[key] = known
        if len(self._known) > self.capacity:
            self._known.popitem(last=False)
        return known
