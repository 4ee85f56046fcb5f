"""The outcome: what kind of values it holds, and which family that suggests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput
from fbed.tables import categories, is_missing, listing, refuse_masked, refuse_numbers_with_text, sorted_values
from fbed.tails import Floats

_FEW = 20  # whole numbers with at most this many different values may be counts or codes


@dataclass(frozen=True)
class Outcome:
    """Values of the outcome: numbers, or codes into `levels` when it is categorical.

    `levels` lists what occurs, in the order of the categories, or sorted. Numeric outcomes have levels too, as long as
    there are two of them, for the binomial family.
    """

    values: Floats
    levels: tuple[Any, ...]
    categorical: bool
    ordered: bool = False

    def rows(self, keep: NDArray[np.intp]) -> Outcome:
        """The outcome of some of the rows."""
        if self.categorical:
            return _describe(self._raw()[keep], self.levels, self.ordered)
        fewer, kind = _describe(self.values[keep], None, False), type(self.levels[0])
        return replace(fewer, levels=tuple(kind(level) for level in fewer.levels))  # 0 stays 0 and not 0.0

    def numbers(self) -> Floats:
        """The outcome as numbers that vary, or an error."""
        if self.categorical:
            raise InvalidInput(
                f"family 'gaussian' needs a numeric outcome, but y holds categories: {listing(self.levels)}"
            )
        if len(self.levels) < 2:
            raise InvalidInput(_one_value(self))
        return self.values

    def zero_one(self) -> Floats:
        """1 where the outcome is the second of its two levels, or an error."""
        if len(self.levels) == 1:
            raise InvalidInput(_one_value(self))
        if len(self.levels) != 2:
            count = str(len(self.levels)) if self.categorical or len(self.levels) <= _FEW else f"more than {_FEW}"
            raise InvalidInput(
                f"family 'binomial' needs an outcome with two different values, but y has {count}: "
                f"{listing(self.levels[:_FEW])}"
            )
        return (self._raw() == self.levels[1]).astype(np.float64)

    def _raw(self) -> NDArray[Any]:
        if not self.categorical:
            return self.values
        lookup = np.empty(len(self.levels), dtype=object)
        lookup[:] = self.levels
        return np.asarray(lookup[self.values.astype(np.intp)])


def read_outcome(y: Any, n_rows: int) -> Outcome:
    """Check the outcome and find out what kind of values it holds."""
    raw, order, ordered = _raw_values(y)
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.ndim != 1:
        raise InvalidInput(f"y must have one value a row, got shape {raw.shape}: y should be a 1d array")
    if len(raw) != n_rows:
        raise InvalidInput(
            f"y has {len(raw)} values and X has {n_rows} rows: Found input variables with inconsistent numbers of "
            f"samples: [{n_rows}, {len(raw)}]; give one value a row"
        )
    if raw.dtype.kind == "O":
        raw = _from_objects(raw, categorical=order is not None)
    _check_complete(raw)
    if order is None and raw.dtype.kind in "OUST":
        refuse_numbers_with_text("y", raw, "or make it categorical if it is meant to be")
    return _describe(raw, order, ordered)


def suggested_family(outcome: Outcome) -> tuple[str, str | None]:
    """The family for family='auto', and a note for the user when the choice is worth a second thought."""
    if len(outcome.levels) < 2:
        raise InvalidInput(_one_value(outcome))
    if len(outcome.levels) == 2:
        return "binomial", None
    if outcome.categorical and len(outcome.levels) > 2:
        raise InvalidInput(
            f"y holds {len(outcome.levels)} categories ({listing(outcome.levels)}); the families are 'gaussian' for "
            "numbers and 'binomial' for two classes: recode the outcome"
        )
    whole = bool(np.all(outcome.values == np.round(outcome.values)))
    if whole and 2 < len(outcome.levels) <= _FEW:
        return "gaussian", (
            f"y holds whole numbers with {len(outcome.levels)} different values and is treated as continuous "
            "(family='gaussian'); codes of classes or ranks would need another family"
        )
    return "gaussian", None


def _raw_values(y: Any) -> tuple[NDArray[Any], tuple[Any, ...] | None, bool]:
    """Values, and the order of the categories where the type has one."""
    if y is None:
        raise InvalidInput(
            "y is missing: the selector requires y to be passed, but the target y is None; give the outcome"
        )
    refuse_masked(y, "y")
    if sparse.issparse(y):
        raise InvalidInput("y must be a dense array of one value a row, got a sparse matrix")
    if hasattr(y, "categories") and hasattr(y, "codes"):  # a pandas Categorical outside a series
        return np.asarray(y, dtype=object), tuple(y.categories.tolist()), bool(y.ordered)
    series = nw.from_native(y, series_only=True, pass_through=True) if not isinstance(y, nw.Series) else y
    if not isinstance(series, nw.Series):
        frame = nw.from_native(y, eager_only=True, pass_through=True)
        return np.asarray(frame.to_numpy() if isinstance(frame, nw.DataFrame) else y), None, False
    if series.dtype in (nw.Categorical, nw.Enum):
        order = categories(series)
        raw = np.empty(len(series), dtype=object)
        raw[:] = series.to_list()
        return raw, order, bool(nw.is_ordered_categorical(series))
    if series.dtype.is_numeric() and series.null_count():
        return series.cast(nw.Float64).to_numpy(), None, False
    return np.asarray(series.to_numpy()), None, False


def _from_objects(raw: NDArray[Any], categorical: bool) -> NDArray[Any]:
    """Objects that are all numbers or all bool become such, unless they were declared categories."""
    missing = np.array([is_missing(value) for value in raw], dtype=bool)
    if missing.any():
        _refuse_missing(int(missing.sum()))
    values = raw.tolist()
    if not categorical and all(isinstance(value, (bool, np.bool_)) for value in values):
        return raw.astype(bool)
    if not categorical and all(isinstance(value, (int, float, np.number, np.bool_)) for value in values):
        return raw.astype(np.float64)
    return raw


def _check_complete(raw: NDArray[Any]) -> None:
    if raw.dtype.kind == "c":
        raise InvalidInput("Complex data not supported: y must hold real numbers or classes")
    if raw.dtype.kind in "mM":
        raise InvalidInput("y holds dates or durations; turn them into numbers first")
    if raw.dtype.kind == "f" and not np.isfinite(raw).all():
        _refuse_missing(int((~np.isfinite(raw)).sum()))


def _refuse_missing(count: int) -> None:
    raise InvalidInput(f"y contains NaN, missing or infinity in {count} rows: drop those rows first")


def _describe(raw: NDArray[Any], order: tuple[Any, ...] | None, ordered: bool) -> Outcome:
    if raw.dtype.kind in "iuf":
        values = raw.astype(np.float64)
        return Outcome(values, tuple(v.item() for v in np.unique(raw)[: _FEW + 1]), categorical=False)
    present = set(raw.tolist())
    levels = [v for v in order if v in present] if order is not None else sorted_values(present)
    lookup = {level: code for code, level in enumerate(levels)}
    codes = np.array([lookup[value] for value in raw.tolist()], dtype=np.float64)
    return Outcome(codes, tuple(levels), categorical=True, ordered=ordered)


def _one_value(outcome: Outcome) -> str:
    value = outcome.levels[0] if outcome.levels else None
    return f"y holds a single value ({value!r}) in all rows: with one class or a constant there is nothing to explain"
