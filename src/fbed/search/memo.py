"""What searches on the same data have in common: fits, and intervals for statistics, by the set S they belong to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from fbed.models.base import Fit, Indices
from fbed.rules.p_values import Floats, Reference

_FEW = 0.1  # part of many variables up to which those that were asked for are kept in a list of their own,
_MANY = 1000  # and how many others there must be for that

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Known:
    """Intervals for the statistics of some variables for one set.

    An interval is a point where the statistic was computed, and then has its log p-value as well. Room is made for the
    variables that are asked for: for all of them once they are many.
    """

    def __init__(self, n_variables: int) -> None:
        self.n_variables = n_variables
        self.keys: Indices | None = np.empty(0, dtype=np.intp)  # in order; None: all
        self.table = _nothing_about(0)
        self.reference: Reference | None = None

    def make_room(self, variables: Indices) -> None:
        """For variables of which something is going to be asked, or told."""
        if self.keys is None or self._has_room(variables):
            return
        few = min(_FEW * self.n_variables, self.n_variables - _MANY)
        keys = None if len(variables) > few else _united(self.keys, variables)
        table = _nothing_about(self.n_variables if keys is None else len(keys))
        if len(self.keys):
            table[:, self.keys if keys is None else np.searchsorted(keys, self.keys)] = self.table
        self.keys, self.table = keys, table

    def _has_room(self, variables: Indices) -> bool:
        assert self.keys is not None
        if len(variables) > len(self.keys):
            return False
        place = np.minimum(np.searchsorted(self.keys, variables), len(self.keys) - 1)
        return bool((self.keys[place] == variables).all())

    def recall(self, variables: Indices) -> tuple[Floats, Floats, Floats, Floats]:
        """Lower and upper ends, df and log p-values of some variables; df is NaN where nothing is known."""
        lower, upper, df, log_p = self.table.take(self._places(variables), axis=1)
        return lower, upper, df, log_p

    def unknown(self, variables: Indices) -> Indices:
        """Those of which nothing is known."""
        return variables[np.isnan(self.table[2, self._places(variables)])]

    def remember(
        self, variables: Indices, lower: Floats, upper: Floats, df: Floats, log_p: Floats | None = None
    ) -> None:
        """Keep intervals that are narrower than before."""
        where = self._places(variables)
        self.table[0, where], self.table[1, where], self.table[2, where] = lower, upper, df
        if log_p is not None:
            self.table[3, where] = log_p

    def _places(self, variables: Indices) -> Indices:
        return variables if self.keys is None else np.searchsorted(self.keys, variables)


def _united(some: Indices, others: Indices) -> Indices:
    """All of them, in order; most often there are only others, which are in order."""
    if len(some) == 0 and bool((others[1:] > others[:-1]).all()):
        return others
    return np.union1d(some, others)


def _nothing_about(count: int) -> Floats:
    out = np.empty((4, count))
    out[:] = np.array([0.0, np.inf, np.nan, np.nan])[:, None]
    return out


class Memo:
    """Knowledge by set, within a budget of memory for each kind: what was used last is kept.

    `best` holds scans that found the best of all candidates for their set, by criteria that rank them alike.
    """

    def __init__(self, n_variables: int, n_rows: int, budget: int = 2**28) -> None:
        self.n_variables = n_variables
        self.n_rows = n_rows
        self._gains = _Recent[frozenset[int], Known](budget)
        self._losses = _Recent[frozenset[int], Known](budget // 8)
        self._fits = _Recent[frozenset[int], Fit](budget)
        self.best = _Recent[tuple[frozenset[int], Hashable], Any](budget // 4)

    def gains(self, selected: Sequence[int], candidates: Indices) -> Known:
        """What is known about adding variables to a set, with room for some."""
        known = self._gains.get(frozenset(selected), lambda: Known(self.n_variables), 32 * self.n_variables)
        known.make_room(candidates)
        return known

    def losses(self, selected: Sequence[int]) -> Known:
        """What is known about removing variables from a set."""
        known = self._losses.get(frozenset(selected), lambda: Known(self.n_variables), 32 * len(selected))
        known.make_room(np.array(selected, dtype=np.intp))
        return known

    def fit(self, selected: tuple[int, ...], make: Callable[[Sequence[int]], Fit]) -> Fit:
        """The fit on a set."""
        # a fit keeps a few matrices of a column a variable of S, and may keep what S leaves of every variable
        size = 64 * self.n_rows * (len(selected) + 2) + 16 * self.n_variables
        return self._fits.get(frozenset(selected), lambda: make(selected), size)


class _Recent(Generic[Key, Value]):
    """Values by set; those that were not asked for the longest are forgotten when they take too much memory."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._size = 0

    def find(self, key: Key) -> Value | None:
        """The value of a set, if it is there."""
        return self._kept[key][0] if key in self._kept else None

    def get(self, key: Key, make: Callable[[], Value], size: int) -> Value:
        """The value of a set, made when it is not there."""
        value, size = self._kept.pop(key) if key in self._kept else self._made(make, size)
        self._kept[key] = value, size
        while self._size > self.budget and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1][1]
        return value

    def _made(self, make: Callable[[], Value], size: int) -> tuple[Value, int]:
        value = make()
        self._size += size
        return value, size
