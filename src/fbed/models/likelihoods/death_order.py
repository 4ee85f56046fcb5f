"""Who must have at least the hazard of whom for a partial likelihood to rise for ever."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fbed.rules.p_values import Floats

Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]


def death_order(time: Floats, event: NDArray[np.bool_], strata: NDArray[np.intp] | None, entry: Floats | None) -> Pairs:
    """Pairs of rows (i, j) with η_i ≥ η_j, from which all others follow: whoever dies against everybody at risk.

    Tied deaths are alike. Whoever dies next, if at risk already, stands for everybody who is at risk then.
    """
    groups = np.zeros(len(time), dtype=np.intp) if strata is None else strata
    first: list[NDArray[np.intp]] = []
    second: list[NDArray[np.intp]] = []
    for stratum in np.unique(groups[event]):
        rows = np.flatnonzero(groups == stratum)
        rows = rows[np.lexsort((~event[rows], time[rows]))]
        i, j = _in_stratum(time[rows], event[rows], None if entry is None else entry[rows])
        first.append(rows[i])
        second.append(rows[j])
    return np.concatenate(first), np.concatenate(second)


def _in_stratum(time: Floats, event: NDArray[np.bool_], entry: Floats | None) -> Pairs:
    """Rows are sorted by time, deaths before others."""
    deaths = np.flatnonzero(event)
    new = np.concatenate([[True], np.diff(time[deaths]) > 0])
    head = deaths[new]  # the first death at each time
    group = np.searchsorted(time[head], time, side="right") - 1  # latest time of a death up to each row's
    tied = np.setdiff1d(deaths, head)
    pairs = [(head[group[tied]], tied), (tied, head[group[tied]])]
    if entry is None:
        others = np.flatnonzero(~event & (group >= 0))
        pairs += [(head[group[others]], others), (head[:-1], head[1:])]
    else:
        pairs += [_truncated(g, head, group, event, entry, time) for g in range(len(head))]
    return np.concatenate([i for i, _ in pairs]), np.concatenate([j for _, j in pairs])


def _truncated(
    g: int, head: NDArray[np.intp], group: NDArray[np.intp], event: NDArray[np.bool_], entry: Floats, time: Floats
) -> Pairs:
    """Everybody at risk at the g-th time up to the next death of somebody who is."""
    here = head[g]
    later = np.flatnonzero((group >= g) & (entry < time[here]) & ~(event & (group == g)))
    dying = later[event[later]]
    if len(dying):
        nearest = dying[0]
        later = np.append(later[group[later] < group[nearest]], nearest)
    return np.full(len(later), here), later
