"""Row-aligned extras: offset, exposure, trials, strata, entry times and clusters, as arrays or column names."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.rules.p_values import Floats
from fbed.tables.named import refuse_masked, take_column

EXTRAS = ("offset", "exposure", "trials", "strata", "entry", "cluster")
"""Keyword arguments that hold one value a row."""


@dataclass(frozen=True)
class Extras:
    """What was given, None for what was not. An exposure has become the offset log(exposure)."""

    offset: Floats | None = None
    trials: Floats | None = None
    entry: Floats | None = None
    strata: NDArray[np.intp] | None = None  # places in `strata_labels`
    strata_labels: tuple[Any, ...] = ()
    cluster: NDArray[np.intp] | None = None

    @property
    def told_offset(self) -> Floats | None:
        """The offset, if it says anything."""
        return None if self.offset is None or not self.offset.any() else self.offset

    @property
    def several_trials(self) -> Floats | None:
        """The numbers of trials, unless every row is one success or one failure."""
        return None if self.trials is None or (self.trials == 1.0).all() else self.trials

    def rows(self, keep: NDArray[np.intp]) -> Extras:
        """The extras of some of the rows."""
        by_row = [field.name for field in fields(self) if field.name != "strata_labels"]
        values: dict[str, Any] = {name: getattr(self, name) for name in by_row}
        kept: dict[str, Any] = {name: None if value is None else value[keep] for name, value in values.items()}
        return replace(self, **kept)


def read_extras(X: Any, n_rows: int, given: dict[str, Any]) -> Extras:
    """Check what was given: its length, its type and its range."""
    present = {name: _values(X, name, value) for name, value in given.items() if value is not None}
    if "offset" in present and "exposure" in present:
        raise InvalidInput("give offset or exposure, not both: an exposure is the offset log(exposure)")
    numbers = {name: _numbers(name, present[name], n_rows) for name in present if name not in ("strata", "cluster")}
    labels = {name: _codes(name, present[name], n_rows) for name in present if name in ("strata", "cluster")}
    if "exposure" in numbers:
        _refuse(numbers["exposure"] <= 0, "exposure", "above 0")
        numbers["offset"] = np.log(numbers.pop("exposure"))
    if "trials" in numbers:
        trials = numbers["trials"]
        _refuse((trials < 1) | (trials != np.round(trials)), "trials", "whole numbers, 1 or more")
    found: dict[str, Any] = {**numbers, **{name: codes for name, (codes, _) in labels.items()}}
    if "strata" in labels:
        found["strata_labels"] = labels["strata"][1]
    return Extras(**found)


def _values(X: Any, name: str, value: Any) -> Any:
    values = take_column(X, value, name) if isinstance(value, str) else value
    refuse_masked(values, name)
    series = (
        nw.from_native(values, series_only=True, pass_through=True) if not isinstance(values, nw.Series) else values
    )
    return np.asarray(series.to_numpy()) if isinstance(series, nw.Series) else np.asarray(values)


def _numbers(name: str, values: NDArray[Any], n_rows: int) -> Floats:
    _check_length(name, values, n_rows)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must hold numbers: {error}") from error
    if not np.isfinite(numbers).all():
        count = int((~np.isfinite(numbers)).sum())
        raise InvalidInput(f"{name} contains NaN, missing or infinity in {count} rows: drop or complete those rows")
    return numbers


def _codes(name: str, values: NDArray[Any], n_rows: int) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
    """The place of each value among the different ones, and these in order."""
    _check_length(name, values, n_rows)
    missing = np.array([v is None or v != v or type(v).__name__ == "NAType" for v in values.tolist()], dtype=bool)
    if missing.any():
        raise InvalidInput(f"{name} is missing in {int(missing.sum())} rows: drop or complete those rows")
    kind = values.astype(str) if values.dtype.kind == "O" else values
    labels, codes = np.unique(kind, return_inverse=True)
    return codes.astype(np.intp), tuple(labels.tolist())


def _check_length(name: str, values: NDArray[Any], n_rows: int) -> None:
    if values.shape != (n_rows,):
        raise InvalidInput(
            f"{name} must hold one value a row ({n_rows} rows), got shape {values.shape}: give an array of that "
            "length or the name of a column"
        )


def _refuse(bad: NDArray[np.bool_], name: str, expected: str) -> None:
    if bad.any():
        raise InvalidInput(f"{name} must be {expected}; {int(bad.sum())} rows are not, the first is row {bad.argmax()}")
