"""Inducing paths: which nodes no set of observed nodes can separate."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fbed.graphs.walks import Links, mask, reach, trace


def ancestry(links: Links, order: Iterable[int]) -> NDArray[np.bool_]:
    """Row v flags the ancestors of v, itself included; `order` has parents before children."""
    table = np.eye(len(links), dtype=bool)
    for node in order:
        if links.parents[node]:
            table[node] |= table[list(links.parents[node])].any(axis=0)
    return table


def inducing_pairs(links: Links, ancestors: NDArray[np.bool_], hidden: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs x < y of nodes outside `hidden` that an inducing path relative to `hidden` joins.

    Letting a path pass any collider gives the few candidates of x in one walk; only they are worth a walk of
    their own.
    """
    n, concealed = len(links), mask(len(links), hidden)
    for x in range(n):
        if concealed[x]:
            continue
        candidates = {state >> 1 for state in reach(links, [x], bytearray(b"\1") * n, concealed)}
        neighbours = links.adjacent(x)
        for y in sorted(candidates):
            if y <= x or concealed[y]:
                continue
            if y in neighbours or inducing_path(links, ancestors, concealed, x, y):
                yield x, y


def inducing_path(links: Links, ancestors: NDArray[np.bool_], concealed: Sequence[int], x: int, y: int) -> list[int]:
    """A shortest inducing path from x to y relative to the flagged nodes, empty when there is none."""
    collider = (ancestors[x] | ancestors[y]).tobytes()
    previous = reach(links, [x], collider, concealed)
    paths = [trace(previous, state) for state in (2 * y, 2 * y + 1) if state in previous]
    return [state >> 1 for state in min(paths, key=len, default=[])]
