"""What a result knows of its performance: plain values, made by `fbed.tuning`, saved and shown like everything else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Honest:
    """An honest score with its interval, the naive one of the chosen configuration, and how often each was chosen."""

    name: str
    words: str
    value: float
    low: float
    high: float
    naive: float


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Bin:
    """Rows with similar predictions: their number, the mean prediction, and what was observed, with an interval."""

    n: float
    predicted: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """Slope and intercept (None where the family has none), and the curve."""

    slope: Estimate | None
    intercept: Estimate | None
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Point:
    """A configuration on the way from few variables to many."""

    algorithm: str
    criterion: str
    parameter: float | None
    penalty: float | None
    n_selected: float
    score: float
    error: float
    chosen_share: float  # of the bootstrap samples


@dataclass(frozen=True)
class AtTime:
    """The area under the ROC curve at a time."""

    time: float
    area: Estimate


@dataclass(frozen=True)
class Performance:
    """Out-of-fold performance of the procedure that chose the model.

    Attributes
    ----------
    scores : honest ones by BBC-CV, with 95% intervals, and the naive one of the chosen configuration beside each.
    points : every configuration with its score by which it was chosen (`selected_by`), `chosen` among them.
    variables : how often each variable came in the folds by the chosen configuration, most often first.
    roc : false and true positive rates; calibration : slope, intercept and curve; areas : at times, of survival.
    """

    family: str
    selected_by: str
    rule: str
    n_folds: int
    n_bootstraps: int
    estimation: str
    scores: tuple[Honest, ...]
    points: tuple[Point, ...]
    chosen: int
    variables: tuple[tuple[str, float], ...]
    n_sets: int
    roc: tuple[tuple[float, float], ...] = ()
    calibration: Calibration | None = None
    areas: tuple[AtTime, ...] = ()
    horizon: float | None = None
    seconds: float = math.nan

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)

    @classmethod
    def from_plain(cls, saved: Mapping[str, Any]) -> Performance:
        """Read back from JSON."""
        known = _with_nan(saved)
        c = known["calibration"]
        areas = tuple(AtTime(a["time"], Estimate(**a["area"])) for a in known["areas"])
        return cls(
            **{
                **known,
                "scores": tuple(Honest(**s) for s in known["scores"]),
                "points": tuple(Point(**{**p, **_optional(saved["points"][i])}) for i, p in enumerate(known["points"])),
                "variables": tuple((name, share) for name, share in known["variables"]),
                "roc": tuple((x, y) for x, y in known["roc"]),
                "calibration": None if c is None else calibration_from_plain(c),
                "areas": areas,
                "horizon": saved["horizon"],
            }
        )


def _optional(point: Mapping[str, Any]) -> dict[str, Any]:
    """Where None means none, and not a number that JSON cannot write."""
    return {name: point[name] for name in ("parameter", "penalty")}


def _with_nan(saved: Mapping[str, Any]) -> dict[str, Any]:
    def filled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: math.nan if v is None else filled(v) for name, v in value.items()}
        return [filled(v) for v in value] if isinstance(value, (list, tuple)) else value

    return {name: None if value is None else filled(value) for name, value in saved.items()}


def calibration_from_plain(saved: Mapping[str, Any]) -> Calibration:
    """Read back from JSON."""
    lines = [saved[name] if isinstance(saved[name], Mapping) else None for name in ("slope", "intercept")]
    slope, intercept = (None if line is None else Estimate(**line) for line in lines)
    return Calibration(slope, intercept, tuple(Bin(**b) for b in saved["bins"]))


@dataclass(frozen=True)
class Validation:
    """Scores with 95% bootstrap intervals, calibration, and how many rows they are of."""

    family: str
    n_rows: int
    n_without: int  # rows that got no prediction
    scores: tuple[Honest, ...]
    calibration: Calibration | None
    roc: tuple[tuple[float, float], ...]
    areas: tuple[AtTime, ...]
    notes: tuple[str, ...]

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)
