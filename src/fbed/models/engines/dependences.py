"""Which columns are in the span of which others, each found once and proved on the rows.

Tables of categories are full of them ('no basement' is a level of five columns). From products of columns one sees that
next to nothing is left of a column, but not whether it is nothing: products have lost the digits. The rows have not:
once c = Σ bⱼxⱼ over a few columns A is found to hold on them, c is in the span of every set that holds A.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from fbed.models.base import COLLINEAR
from fbed.rules.p_values import Floats

_PART = 1e-7  # coefficient of standardised columns below which a column has no part in a dependence


class Dependences:
    """Proved dependences between standardised columns with products `table`; `read` gives the columns, √weight times.

    Attributes
    ----------
    known : by column, sets of columns whose span it is in.
    """

    def __init__(self, table: Floats, read: Callable[[Sequence[int]], Floats]) -> None:
        self.table, self.read = table, read
        self.known: defaultdict[int, list[frozenset[int]]] = defaultdict(list)

    def holds(self, column: int, others: Sequence[int], spanned: Sequence[int] = ()) -> bool:
        """Whether a column is in the span of others, independent of each other, that hold `spanned` in their span."""
        there = frozenset((*others, *spanned))
        return any(few <= there for few in self.known[column]) or self._proved(column, list(others))

    def _proved(self, column: int, others: list[int]) -> bool:
        if self.table[column, column] == 0.0:  # of a level that no row has
            self.known[column].append(frozenset())
            return True
        if not others:
            return False
        coefficients = np.linalg.solve(self.table[np.ix_(others, others)], self.table[others, column])
        part = np.abs(coefficients) > _PART
        few = [c for c, there in zip(others, part.tolist(), strict=True) if there]
        X = self.read([column, *few])
        left = X[:, 0] - X[:, 1:] @ coefficients[part]
        if float(left @ left) > COLLINEAR * float(X[:, 0] @ X[:, 0]):
            return False
        self.known[column].append(frozenset(few))
        return True
