"""What a tuned selection is worth: scores with their uncertainty, curves, and how stable the choice was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fbed.result.fitted.likelihoods import Observed
from fbed.result.performance import AtTime, Estimate, Performance, Point
from fbed.rules.p_values import Floats
from fbed.tuning import concordance
from fbed.tuning.bbc import Bootstrapped
from fbed.tuning.calibration import calibrate
from fbed.tuning.folds import Rows
from fbed.tuning.grid import CrossPath
from fbed.tuning.heldout import horizon_of
from fbed.tuning.resample import resampled
from fbed.tuning.scores import OutOfFold

_ROC_POINTS = 200
_RESAMPLED = 200  # bootstrap samples of areas at times


def performance(
    cross: CrossPath,
    found: OutOfFold,
    boot: Bootstrapped,
    chosen: int,
    values: Floats,
    errors: Floats,
    selected_by: str,
    rule: str,
    estimation: str,
    units: Rows | None = None,
) -> Performance:
    """Everything about the chosen configuration."""
    own = found.only([chosen])
    weights = found.weights[found.row] / found.folds_a_row
    seen = Observed(own.seen.y, weights, own.seen.event, own.seen.trials)
    mean = own.mean[:, 0] if own.mean.ndim == 2 else own.risk[:, 0]
    horizon = horizon_of(cross.problem)
    sets = cross.chosen_in(chosen)
    share = np.bincount(boot.chosen, minlength=len(cross.configurations)) / max(1, len(boot.chosen))
    return Performance(
        family=found.family,
        selected_by=selected_by,
        rule=rule,
        n_folds=len(cross.runs),
        n_bootstraps=len(boot.chosen),
        estimation=estimation,
        scores=boot.scores,
        points=tuple(_points(cross, values, errors, share)),
        chosen=chosen,
        variables=counted(sets),
        n_sets=len({frozenset(s) for s in sets}),
        roc=roc(seen.y == 1, mean, weights) if found.family == "binomial" and seen.trials is None else (),
        calibration=calibrate(found.family, own.risk[:, 0], mean, seen, _compared(found), horizon),
        areas=areas_at(own, units) if seen.event is not None and own.stratum is None else (),
        horizon=horizon,
        seconds=cross.seconds,
    )


def _compared(found: OutOfFold) -> Rows:
    """Entries that may be compared have the same number: of one fold, and one stratum."""
    if found.stratum is None:
        return found.fold
    return found.fold * (int(found.stratum.max()) + 1) + found.stratum


def _points(cross: CrossPath, values: Floats, errors: Floats, share: Floats) -> list[Point]:
    return [
        Point(
            c.setting.algorithm,
            c.setting.criterion,
            c.setting.value,
            c.penalty,
            float(size),
            float(value),
            float(error),
            float(part),
        )
        for c, size, value, error, part in zip(cross.configurations, cross.sizes, values, errors, share, strict=True)
    ]


def counted(sets: Sequence[Sequence[Any]]) -> tuple[tuple[str, float], ...]:
    """How often each variable came, most often first."""
    counts: dict[str, int] = {}
    for one in sets:
        for name in one:
            counts[str(name)] = counts.get(str(name), 0) + 1
    return tuple((name, count / len(sets)) for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def roc(positive: Any, score: Floats, weights: Floats) -> tuple[tuple[float, float], ...]:
    """False and true positive rates for falling thresholds, thinned out where there are many."""
    order = np.argsort(-score, kind="stable")
    up, w = positive[order], weights[order]
    last = np.append(np.diff(score[order]) != 0, True)
    true, false = np.cumsum(np.where(up, w, 0.0))[last], np.cumsum(np.where(up, 0.0, w))[last]
    if not len(true) or true[-1] <= 0 or false[-1] <= 0:
        return ()
    x, y = np.concatenate([[0.0], false / false[-1]]), np.concatenate([[0.0], true / true[-1]])
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), _ROC_POINTS)).round().astype(int))
    return tuple(zip(x[keep].tolist(), y[keep].tolist(), strict=True))


def areas_at(found: OutOfFold, units: Rows | None = None, seed: int = 0) -> tuple[AtTime, ...]:
    """Areas under the ROC curve at the quartiles of the times of events, with bootstrap intervals."""
    event = found.seen.event
    assert event is not None
    n = len(found.weights)
    counts = resampled(n, units, _RESAMPLED, np.random.default_rng(seed))
    rows: Floats = np.vstack([np.ones((1, n)), *counts]) * found.weights
    free = concordance.uncensored(found.seen.y, event, found.weights[found.row])
    sign = -1.0 if found.family == "weibull" else 1.0
    out = []
    for time in np.quantile(found.seen.y[event], [0.25, 0.5, 0.75]).tolist():
        N, D = np.zeros(len(rows)), np.zeros(len(rows))
        for part in found.parts:
            won, pairs = concordance.area_at(
                found.seen.y[part], event[part], sign * found.risk[part, 0], time, free[part], rows[:, found.row[part]]
            )
            N, D = N + won, D + pairs
        with np.errstate(invalid="ignore", divide="ignore"):
            area = N / D
        known = area[1:][np.isfinite(area[1:])]
        if math.isfinite(area[0]) and len(known):
            low, high = np.quantile(known, [0.025, 0.975])
            out.append(AtTime(time, Estimate(float(area[0]), float(low), float(high))))
    return tuple(out)
