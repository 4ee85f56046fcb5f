"""External validation: what a saved model is worth on rows that it has never seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.result.fitted import FinalModel, responses
from fbed.result.fitted.columns import plain
from fbed.result.fitted.likelihoods import Observed
from fbed.result.performance import Honest, Validation
from fbed.rules.p_values import Floats
from fbed.tables.columns import listing
from fbed.tables.outcomes import Outcome, known_rows, read_outcome
from fbed.tuning.calibration import calibrate
from fbed.tuning.heldout import deviances, held_mean
from fbed.tuning.performance import areas_at, roc
from fbed.tuning.resample import resampled
from fbed.tuning.scores import OutOfFold, find_score, shown

_CLASSES = ("binomial", "multinomial", "ordinal")


def validate(
    model: FinalModel,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    trials: Any = None,
    unseen: str = "error",
    n_bootstraps: int = 500,
    random_state: int | None = 0,
) -> Validation:
    """Discrimination and calibration of a model on new rows with their outcomes, each with its uncertainty.

    Parameters
    ----------
    model : a final model, such as `fbed.Result.from_json("model.json").model`.
    X, y : new rows and their outcomes, as values (a pair (time, event) of survival times).
    sample_weight, offset, exposure, trials : of the new rows, as values.
    unseen : as in `FinalModel.predict`; rows without a prediction are counted and left out.
    n_bootstraps, random_state : of the intervals.

    Returns
    -------
    Validation
    """
    link, notes = model.predict_with_notes(X, "link", offset, exposure, unseen=unseen)
    eta = link[:, None] if link.ndim == 1 else link
    there, n_rows = known_rows(y, len(eta)), len(eta)
    if not there.all():
        notes = [*notes, f"the outcome is missing in {int((~there).sum()):,} rows, which are left out"]
    about = (_numbers(sample_weight, "sample_weight", there), _numbers(trials, "trials", there))
    eta, seen = eta[there], _observed(model, read_outcome(y, n_rows, there), *about)
    known = np.isfinite(eta).all(axis=1) & (seen.weights > 0)
    if known.sum() < 2:
        raise InvalidInput(
            f"{int(known.sum())} of {n_rows} rows have a prediction and an outcome: there is nothing to validate"
        )
    rows = np.flatnonzero(known)
    found = _as_out_of_fold(model, eta[rows], _only(seen, rows))
    horizon = None if seen.event is None else float(np.median(seen.y[rows][seen.event[rows]]))
    mean = found.mean[:, 0] if found.mean.ndim == 2 else found.risk[:, 0]
    if horizon is not None:
        one = model.family == "weibull" or len(model.baseline) == 1
        mean = (
            1.0 - responses.survival(model, eta[rows], np.array([horizon]))[:, 0] if one else np.full(len(rows), np.nan)
        )
    weighted = Observed(found.seen.y, found.weights, found.seen.event, found.seen.trials)
    return Validation(
        model.family,
        len(rows),
        n_rows - len(rows),
        _scores(found, n_bootstraps, random_state),
        calibrate(model.family, found.risk[:, 0], mean, weighted, None, horizon),
        roc(found.seen.y == 1, mean, found.weights) if model.family == "binomial" and seen.trials is None else (),
        areas_at(found) if seen.event is not None else (),
        tuple(notes),
    )


def _numbers(values: Any, role: str, there: NDArray[np.bool_]) -> Floats | None:
    """Of the rows whose outcome is there."""
    if values is None:
        return None
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{role} must hold numbers: {error}") from error
    if numbers.shape != there.shape or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise InvalidInput(f"{role} must hold one finite number a row, 0 or more")
    return numbers[there]


def _observed(model: FinalModel, outcome: Outcome, weights: Floats | None, counted: Floats | None) -> Observed:
    weights = np.ones(len(outcome.values)) if weights is None else weights
    if model.family in ("cox", "weibull"):
        time, event = outcome.survival(model.family, zero_allowed=model.family == "cox")
        return Observed(time, weights, event)
    if outcome.event is not None:
        raise InvalidInput(
            f"the model is of family {model.family!r}, whose outcome is one column, and no survival times"
        )
    if model.family in _CLASSES and model.classes:
        return Observed(_codes(model, outcome), weights)
    if model.family == "binomial" and counted is None:
        raise InvalidInput("the model is of successes out of trials: give the trials of the new rows")
    return Observed(outcome.values if counted is not None else outcome.numbers(model.family), weights, None, counted)


def _codes(model: FinalModel, outcome: Outcome) -> Floats:
    """The place of every row's class among those of the model."""
    known: Mapping[Any, int] = {str(label): code for code, label in enumerate(model.classes)}
    raw = [str(plain(value)) for value in outcome.raw().tolist()]
    as_number = {
        str(float(label)): code for label, code in zip(model.classes, known.values(), strict=True) if _is_number(label)
    }
    strange = sorted({value for value in raw if value not in known and value not in as_number})
    if strange:
        raise InvalidInput(f"the outcome holds classes that the model does not know: {listing(strange)}")
    return np.array([known.get(value, as_number.get(value, -1)) for value in raw], dtype=np.float64)


def _is_number(label: Any) -> bool:
    return isinstance(label, (int, float)) and not isinstance(label, bool)


def _only(seen: Observed, rows: Any) -> Observed:
    return Observed(
        seen.y[rows],
        seen.weights[rows],
        None if seen.event is None else seen.event[rows],
        None if seen.trials is None else seen.trials[rows],
    )


def _as_out_of_fold(model: FinalModel, eta: Floats, seen: Observed) -> OutOfFold:
    """One configuration, and all rows in one fold."""
    n = len(eta)
    mean = held_mean(model, eta, float(np.mean(seen.y)))
    loss = deviances(model, eta[:, 0], mean, seen)
    return OutOfFold(
        model.family,
        np.arange(n),
        np.zeros(n, dtype=np.intp),
        eta[:, :1],
        mean[:, None] if mean.ndim == 1 else mean[:, None, :],
        loss[:, None],
        deviances(model, eta[:, 0], _average(mean, seen), seen),
        Observed(seen.y, np.ones(n), seen.event, seen.trials),
        seen.weights,
        model.classes,
    )


def _average(mean: Floats, seen: Observed) -> Floats:
    """What a model without variables would say of the new rows."""
    total = float(seen.weights.sum())
    if mean.ndim == 2:
        share = np.bincount(seen.y.astype(np.intp), seen.weights, mean.shape[1]) / total
        return np.broadcast_to(share, mean.shape)
    if seen.trials is not None:
        return np.full(len(mean), float(seen.weights @ seen.y) / float(seen.weights @ seen.trials))
    return np.full(len(mean), float(seen.weights @ seen.y) / total)


def _scores(found: OutOfFold, n_bootstraps: int, random_state: int | None) -> tuple[Honest, ...]:
    rng = np.random.default_rng(random_state)
    n = len(found.weights)
    names = ("d2",) if found.seen.trials is not None else shown(found.family)
    scores = [find_score(name, found.family, found.seen.trials is not None) for name in names]
    plain_values = [float(score.values(found, found.weights[None])[0][0, 0]) for score in scores]
    samples: list[list[float]] = [[] for _ in scores]
    for counts in resampled(n, None, n_bootstraps, rng):
        for i, score in enumerate(scores):
            samples[i] += score.values(found, counts * found.weights)[0][:, 0].tolist()
    out = []
    for score, value, some in zip(scores, plain_values, samples, strict=True):
        known = [v for v in some if math.isfinite(v)]
        low, high = np.quantile(known, [0.025, 0.975]) if known else (math.nan, math.nan)
        out.append(Honest(score.name, score.words, value, float(low), float(high), value))
    return tuple(out)
