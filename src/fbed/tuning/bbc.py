"""BBC-CV: the performance of the *whole procedure*, choice of configuration included, without further fits.

Bootstrap the rows of the out-of-fold predictions; choose a configuration on those in the bag, by the same rule; score
its predictions for the rows out of the bag (Tsamardinos, Greasidou & Borboudakis, Machine Learning 2018). The best
cross-validated score is optimistic, since the best of many is partly lucky; this is not. Whole groups are resampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fbed.result.performance import Honest
from fbed.rules.p_values import Floats
from fbed.tuning.choice import choose
from fbed.tuning.folds import Rows
from fbed.tuning.resample import resampled
from fbed.tuning.scores import OutOfFold, Score, combined


@dataclass(frozen=True)
class Bootstrapped:
    """What the bootstrap samples say."""

    scores: tuple[Honest, ...]
    chosen: Rows  # configuration of every sample
    samples: Floats  # samples × scores


def bootstrapped(
    found: OutOfFold,
    selecting: Score,
    shown: Sequence[Score],
    sizes: Floats,
    rule: str,
    chosen: int,
    units: Rows | None,
    n_bootstraps: int,
    random_state: int | None,
    level: float = 0.95,
) -> Bootstrapped:
    """Choose in the bag, score out of it."""
    different, which = distinct(found)
    small = found.only(different)
    picks: list[Rows] = []
    samples: list[Floats] = []
    rng = np.random.default_rng(random_state)
    weights = found.weights[found.row]
    for drawn in resampled(len(found.weights), units, n_bootstraps, rng):
        counts = drawn.take(found.row, axis=1)
        value, error = combined(*selecting.parts(small, counts * weights), found.folds_a_row)
        pick = choose(value[:, which], error[:, which], sizes, rule)
        picks.append(pick)
        samples.append(_of_picked(shown, small, (counts == 0) * weights, which[pick]))
    every = np.vstack(samples)
    own = found.only([chosen])
    naive = [float(score.values(own, found.weights[None])[0][0, 0]) for score in shown]
    made = tuple(_honest(score, every[:, i], naive[i], level) for i, score in enumerate(shown))
    return Bootstrapped(made, np.concatenate(picks), every)


def _of_picked(scores: Sequence[Score], found: OutOfFold, weights: Floats, pick: Rows) -> Floats:
    """The scores of the configuration that each weighting of the entries has picked, weightings × scores."""
    out = np.full((len(weights), len(scores)), np.nan)
    for c in np.unique(pick).tolist():
        some = np.flatnonzero(pick == c)
        own, w = found.only([c]), weights[some]
        for i, score in enumerate(scores):
            out[some, i] = combined(*score.parts(own, w), found.folds_a_row)[0][:, 0]
    return out


def _honest(score: Score, values: Floats, naive: float, level: float) -> Honest:
    known = values[np.isfinite(values)]
    if not len(known):
        return Honest(score.name, score.words, float("nan"), float("nan"), float("nan"), naive)
    low, high = np.quantile(known, [0.5 - level / 2.0, 0.5 + level / 2.0])
    return Honest(score.name, score.words, float(known.mean()), float(low), float(high), naive)


def distinct(found: OutOfFold) -> tuple[Rows, Rows]:
    """Configurations whose predictions differ, and for every one which of these it is."""
    keys: dict[bytes, int] = {}
    which = np.empty(found.n_configurations, dtype=np.intp)
    first: list[int] = []
    for c in range(found.n_configurations):
        key = found.risk[:, c].tobytes() + found.mean[:, c].tobytes() + found.loss[:, c].tobytes()
        if key not in keys:
            keys[key] = len(first)
            first.append(c)
        which[c] = keys[key]
    return np.array(first, dtype=np.intp), which
