"""Which rows a resample holds: subsamples, complementary halves and bootstrap samples, of whole units within strata.

A unit is what is drawn: a row, or all rows of a subject. Every resample has a seed of its own, derived from that of the
whole, so that the answer depends neither on the number of threads nor on the order in which they finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.models.base import Indices

FEWEST = 3  # rows that a search needs


@dataclass(frozen=True)
class Resample:
    """Rows of the data, in their order; a row that was drawn twice is there twice.

    `cluster` numbers the units of a bootstrap sample anew, since a unit that was drawn twice counts as two.
    """

    rows: Indices
    cluster: Indices | None = None


@dataclass(frozen=True)
class Units:
    """The rows of each unit (`order[starts[u]:starts[u + 1]]`) and the stratum that each unit belongs to."""

    order: Indices
    starts: Indices
    stratum: Indices

    @property
    def count(self) -> int:
        """Number of units."""
        return len(self.stratum)

    @property
    def are_rows(self) -> bool:
        """Whether every unit is a single row."""
        return self.count == len(self.order)

    def rows(self, units: Indices) -> Indices:
        """The rows of some units, in the order of the data."""
        if self.are_rows:
            return np.sort(self.order[units])
        return np.sort(np.concatenate([self.order[self.starts[u] : self.starts[u + 1]] for u in units.tolist()]))


def units_of(n_rows: int, unit: NDArray[Any] | None = None, stratum: NDArray[Any] | None = None) -> Units:
    """Units from a label of each row (None: rows are units), within strata from another."""
    strata = np.zeros(n_rows, dtype=np.intp) if stratum is None else np.unique(stratum, return_inverse=True)[1]
    if unit is None:
        rows = np.arange(n_rows, dtype=np.intp)
        return Units(rows, np.arange(n_rows + 1, dtype=np.intp), strata.astype(np.intp))
    labels, codes = np.unique(unit, return_inverse=True)
    order = np.argsort(codes, kind="stable").astype(np.intp)
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(labels)))]).astype(np.intp)
    first = strata[order[starts[:-1]]]
    if np.any(strata != first[codes]):
        raise InvalidInput(
            "rows of one unit lie in different strata: a unit is drawn as a whole and must belong to one stratum; "
            "stratify by something that does not change within a unit"
        )
    return Units(order, starts, first.astype(np.intp))


def seeds(random_state: int | None, count: int) -> tuple[int, list[np.random.SeedSequence]]:
    """A seed for each resample, and the number that makes all of them again."""
    if random_state is None:
        root = np.random.SeedSequence()
        state = int(root.generate_state(1, np.uint32)[0])
    else:
        if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)) or random_state < 0:
            raise InvalidInput(f"random_state must be a whole number that is 0 or more, or None, got {random_state!r}")
        state = int(random_state)
    return state, np.random.SeedSequence(state).spawn(count)


def subsample(units: Units, fraction: float, seed: np.random.SeedSequence) -> Resample:
    """A part of the units, without replacement, from every stratum alike."""
    return Resample(units.rows(_drawn(units, fraction, np.random.default_rng(seed))))


def halves(units: Units, seed: np.random.SeedSequence) -> tuple[Resample, Resample]:
    """Two halves of the units that share none; of an odd number, one unit is in neither."""
    rng = np.random.default_rng(seed)
    first = _drawn(units, 0.5, rng)
    rest = np.setdiff1d(np.arange(units.count, dtype=np.intp), first)
    left_out = rng.integers(len(rest)) if len(rest) > len(first) else None
    second = rest if left_out is None else np.delete(rest, left_out)
    return Resample(units.rows(first)), Resample(units.rows(second))


def bootstrap(units: Units, seed: np.random.SeedSequence) -> Resample:
    """As many units as there are, with replacement, from every stratum alike."""
    rng = np.random.default_rng(seed)
    members = _members(units)
    drawn = np.concatenate([some[rng.integers(len(some), size=len(some))] for some in members])
    if units.are_rows:
        return Resample(np.sort(units.order[drawn]))
    parts = [units.order[units.starts[u] : units.starts[u + 1]] for u in drawn.tolist()]
    cluster = np.repeat(np.arange(len(parts), dtype=np.intp), [len(part) for part in parts])
    return Resample(np.concatenate(parts), cluster)


def check_size(units: Units, fraction: float) -> None:
    """Refuse data of which a part is too small for any search."""
    part = int(units.count * fraction)
    if part < FEWEST:
        what = "rows" if units.are_rows else "units"
        raise InvalidInput(
            f"{units.count} {what} are too few to be resampled: a part of {fraction:g} has {part}, and a search needs "
            f"at least {FEWEST}"
        )


def _members(units: Units) -> list[Indices]:
    order = np.argsort(units.stratum, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(units.stratum[order])) + 1)


def _drawn(units: Units, fraction: float, rng: np.random.Generator) -> Indices:
    """⌊n·fraction⌋ units: the whole part of every stratum's share, the rest from strata drawn by lot, one each."""
    target = int(units.count * fraction)
    taken, spare = [], []
    for members in _members(units):
        mixed = rng.permutation(members)
        share = int(len(members) * fraction)
        taken.append(mixed[:share])
        spare.append(mixed[share : share + 1])
    missing = target - sum(map(len, taken))
    more = rng.permutation(np.concatenate(spare))[:missing]
    return np.sort(np.concatenate([*taken, more]))
