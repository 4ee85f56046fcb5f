"""The outcome: what kind of values it holds, and which family that suggests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput
from fbed.rules.p_values import Floats
from fbed.tables.columns import (
    EXACT,
    OBJECTS,
    as_factor,
    as_numbers,
    is_number,
    listing,
    reads_as_number,
    refuse_numbers_with_text,
)
from fbed.tables.encoding import Encoded, encode_coded, encode_objects, encode_series
from fbed.tables.named import refuse_masked

_SMALL_COUNT = 10  # whole numbers that start above this are prices or years rather than counts
_FEW = 20  # whole numbers with at most this many different values may be counts or codes
_SQUARABLE = 1e150  # numbers of which many squares can be added up


@dataclass(frozen=True)
class Outcome:
    """Values of the outcome: numbers, or codes into `levels` when it is categorical.

    `levels` lists what occurs, in the order of the categories, or sorted. Numeric outcomes have levels too, as long as
    there are few of them. `event` is None but for survival times, of which it says which are not censored.
    """

    values: Floats
    levels: tuple[Any, ...]
    categorical: bool
    ordered: bool = False
    event: NDArray[np.bool_] | None = None

    def numbers(self, family: str = "gaussian") -> Floats:
        """The outcome as numbers that vary, or an error."""
        self._refuse_survival(family)
        if self.categorical:
            raise InvalidInput(
                f"family {family!r} needs a numeric outcome, but y holds categories: {_words_first(self.levels)}. "
                + _TO_DO
            )
        if len(self.levels) < 2:
            raise InvalidInput(_one_value(self))
        return self.values

    def counts(self, family: str) -> Floats:
        """The outcome as counts 0, 1, 2, …, or an error."""
        values = self.numbers(family)
        if (values < 0).any() or np.any(values != np.round(values)):
            bad = values[(values < 0) | (values != np.round(values))]
            raise InvalidInput(
                f"family {family!r} needs counts (0, 1, 2, …), but y holds {bad[0]:g} and {len(bad) - 1} other values "
                "that are negative or not whole: choose 'gamma' for positive measurements or 'gaussian'"
            )
        if values.max() > EXACT:
            raise InvalidInput(
                f"family {family!r} needs counts (0, 1, 2, …), but y holds {values.max():g}: beyond 2^53 numbers "
                "do not tell one count from the next: correct those rows, or choose 'gamma' for positive measurements"
            )
        return values

    def squarable(self, family: str) -> Floats:
        """The outcome as numbers whose squares are numbers as well, or an error."""
        values = self.numbers(family)
        largest = float(np.abs(values).max())
        if largest > _SQUARABLE:
            raise InvalidInput(
                f"family {family!r} adds up squares of the outcome, but y holds {largest:g}, whose square is beyond "
                "all numbers: divide y by a constant, or correct those rows"
            )
        return values

    def positive(self, family: str) -> Floats:
        """The outcome as positive numbers, or an error."""
        values = self.numbers(family)
        if (values <= 0).any():
            raise InvalidInput(
                f"family {family!r} needs an outcome above 0, but {int((values <= 0).sum())} values are 0 or less: "
                "choose another family, or leave those rows out if that is what they mean"
            )
        return values

    def zero_one(self) -> Floats:
        """1 where the outcome is the second of its two levels, or an error."""
        self._refuse_survival("binomial")
        if len(self.levels) == 1:
            raise InvalidInput(_one_value(self))
        if len(self.levels) != 2:
            count = str(len(self.levels)) if self.categorical or len(self.levels) <= _FEW else f"more than {_FEW}"
            raise InvalidInput(
                f"family 'binomial' needs an outcome with two different values, but y has {count}: "
                f"{listing(self.levels[:_FEW])}; successes out of several trials need trials="
            )
        return (self.raw() == self.levels[1]).astype(np.float64)

    def classes(self, family: str) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
        """Code of each row and the labels, in their order; or an error when y looks like a measurement."""
        self._refuse_survival(family)
        if len(self.levels) < 2:
            raise InvalidInput(_one_value(self))
        if self.categorical:
            return self.values.astype(np.intp), self.levels
        labels, codes = np.unique(self.values, return_inverse=True)
        if len(labels) > max(len(codes) / 2, 2):
            raise InvalidInput(
                f"family {family!r} needs classes, but y holds {len(labels)} different numbers in {len(codes)} rows, "
                "like a measurement: choose 'gaussian', or cut it into intervals"
            )
        return codes, tuple(int(v) if v == round(v) else v for v in labels.tolist())

    def ordered_classes(self) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
        """As `classes`; text without an order is refused, since alphabetical order would mean nothing."""
        codes, labels = self.classes("ordinal")
        if self.categorical and not self.ordered and not all(isinstance(v, (bool, np.bool_)) for v in labels):
            raise InvalidInput(
                f"family 'ordinal' needs classes with an order, but y holds {listing(labels)} without one: make y an "
                "ordered category (pandas: pd.Categorical(y, categories=[…], ordered=True)) or numbers"
            )
        return codes, labels

    def survival(self, family: str, zero_allowed: bool) -> tuple[Floats, NDArray[np.bool_]]:
        """Times and events, or an error."""
        if self.event is None:
            raise InvalidInput(
                f"family {family!r} needs survival times: give y as two columns, y=('time', 'event'), or as a "
                "structured array with the fields 'event' and 'time'"
            )
        bad = self.values < 0 if zero_allowed else self.values <= 0
        if bad.any():
            raise InvalidInput(
                f"family {family!r} needs times {'of 0 or more' if zero_allowed else 'above 0'}, but {int(bad.sum())} "
                f"are not (the first: {self.values[bad][0]:g}): correct or leave out those rows"
            )
        if not self.event.any():
            raise InvalidInput(
                "every time is censored (no row has an event): without events there is nothing to explain; check that "
                "event is True or 1 where it happened"
            )
        return self.values, self.event

    def rows(self, keep: NDArray[np.intp]) -> Outcome:
        """The outcome of some of the rows, with the levels that occur there."""
        values = self.values[keep]
        event = None if self.event is None else self.event[keep]
        if event is not None:
            return replace(self, values=values, event=event)
        if self.categorical:
            present, codes = np.unique(values.astype(np.intp), return_inverse=True)
            return replace(self, values=codes.astype(np.float64), levels=tuple(self.levels[c] for c in present))
        there = np.unique(values)
        if len(self.levels) <= _FEW:
            return replace(self, values=values, levels=tuple(v for v in self.levels if (there == v).any()))
        return replace(self, values=values, levels=tuple(there[: _FEW + 1].tolist()))

    def raw(self) -> NDArray[Any]:
        """What the user gave: numbers, labels, or times with events as a structured array."""
        if self.event is not None:
            out = np.empty(len(self.values), dtype=[("event", bool), ("time", float)])
            out["event"], out["time"] = self.event, self.values
            return out
        if not self.categorical:
            return self.values
        lookup = np.empty(len(self.levels), dtype=object)
        lookup[:] = self.levels
        return np.asarray(lookup[self.values.astype(np.intp)])

    def _refuse_survival(self, family: str) -> None:
        if self.event is not None:
            raise InvalidInput(
                f"y holds times and events, which family {family!r} cannot use: choose 'cox' or 'weibull'"
            )


def read_outcome(y: Any, n_rows: int, keep: NDArray[np.bool_] | None = None) -> Outcome:
    """Check the outcome and find out what kind of values it holds; a pair (time, event) is a survival time.

    Only the rows in `keep` are read, all by default; the others may be missing.
    """
    if _is_survival(y):
        time, event = _time_and_event(y)
        return _survival(read_outcome(time, n_rows, keep), read_outcome(event, n_rows, keep))
    raw, ordered = _one_a_row(y, n_rows)
    if keep is not None:
        raw = raw.rows(keep) if isinstance(raw, Encoded) else raw[keep]
    values = _from_objects(raw) if isinstance(raw, Encoded) else raw
    if isinstance(values, Encoded):
        return _categories(values, ordered)
    _check_complete(values)
    return _describe(values)


def known_rows(y: Any, n_rows: int) -> NDArray[np.bool_]:
    """Rows in which the outcome is not missing."""
    if _is_survival(y):
        time, event = _time_and_event(y)
        return known_rows(time, n_rows) & known_rows(event, n_rows)
    raw, _ = _one_a_row(y, n_rows)
    if isinstance(raw, Encoded):
        return np.asarray(raw.codes >= 0)
    return ~np.isnan(raw) if raw.dtype.kind == "f" else np.ones(n_rows, dtype=bool)


def _one_a_row(y: Any, n_rows: int) -> tuple[NDArray[Any] | Encoded, bool]:
    """Values, one a row, encoded unless they are numbers, and whether they have an order as categories."""
    raw, ordered = _raw_values(y)
    if isinstance(raw, Encoded):
        _check_length(raw, n_rows)
        return raw, ordered
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.ndim != 1:
        raise InvalidInput(
            f"y must have one value a row, got shape {raw.shape}: y should be a 1d array; survival times are a pair "
            "y=(time, event), successes out of trials are y=successes with trials="
        )
    _check_length(raw, n_rows)
    return (encode_objects([raw])[0] if raw.dtype.kind in OBJECTS else raw), ordered


def _check_length(raw: NDArray[Any] | Encoded, n_rows: int) -> None:
    if len(raw) != n_rows:
        raise InvalidInput(
            f"y has {len(raw)} values and X has {n_rows} rows: Found input variables with inconsistent numbers of "
            f"samples: [{n_rows}, {len(raw)}]; give one value a row"
        )


def _is_survival(y: Any) -> bool:
    return (isinstance(y, tuple) and len(y) == 2) or (isinstance(y, np.ndarray) and y.dtype.names is not None)


def _time_and_event(y: Any) -> tuple[Any, Any]:
    """A pair as it is; of a structured array the fields 'event' and 'time', or, as scikit-survival has it, one bool and
    one number.
    """
    if isinstance(y, tuple):
        return y
    names = y.dtype.names or ()
    if {"event", "time"} <= set(names):
        return y["time"], y["event"]
    booleans = [name for name in names if y.dtype[name].kind == "b"]
    numbers = [name for name in names if y.dtype[name].kind in "iuf"]
    if len(names) == 2 and len(booleans) == 1 and len(numbers) == 1:
        return y[numbers[0]], y[booleans[0]]
    raise InvalidInput(f"y is a structured array with the fields {list(names)}: expected 'event' and 'time'")


def _survival(times: Outcome, events: Outcome) -> Outcome:
    if times.categorical:
        raise InvalidInput(f"time must hold numbers, got categories: {_words_first(times.levels)}. {_TO_DO_IN_TIMES}")
    known = {0, 1} if not events.categorical else {False, True}
    if not set(events.levels) <= known:
        raise InvalidInput(
            f"event must be True or 1 where the event happened and False or 0 where the time is censored, but it holds "
            f"{listing(events.levels)}: recode it (1/2 codes are not guessed at)"
        )
    happened = events.raw().astype(np.float64) == 1.0
    return Outcome(times.values, (), categorical=False, event=happened)


def suggested_family(outcome: Outcome) -> tuple[str, str | None]:
    """The family for family='auto', and a note for the user when the choice is worth a second thought."""
    if outcome.event is not None:
        return "cox", None
    if len(outcome.levels) < 2:
        raise InvalidInput(_one_value(outcome))
    if len(outcome.levels) == 2:
        return "binomial", None
    if outcome.categorical and len(outcome.levels) > 2:
        return ("ordinal" if outcome.ordered else "multinomial"), None
    whole = bool(np.all(outcome.values == np.round(outcome.values)))
    if whole and 2 < len(outcome.levels) <= _FEW:
        others = "'poisson' for counts, 'ordinal' for ranks and 'multinomial' for codes of classes"
        if (outcome.values < 0).any():
            others = "'ordinal' for ranks and 'multinomial' for codes of classes"
        return "gaussian", (
            f"y holds whole numbers with {len(outcome.levels)} different values and is treated as continuous "
            f"(family='gaussian'); other families are {others}"
        )
    if whole and len(outcome.levels) > _FEW and 0 <= outcome.values.min() <= _SMALL_COUNT:
        return "gaussian", (
            "y holds whole numbers and is treated as continuous (family='gaussian'); counts may be better served by "
            "family='poisson' or 'negative_binomial'"
        )
    return "gaussian", None


def _raw_values(y: Any) -> tuple[NDArray[Any] | Encoded, bool]:
    """Values, and whether they are categories with an order."""
    if y is None:
        raise InvalidInput(
            "y is missing: the selector requires y to be passed, but the target y is None; give the outcome"
        )
    refuse_masked(y, "y")
    if sparse.issparse(y):
        raise InvalidInput("y must be a dense array of one value a row, got a sparse matrix")
    if hasattr(y, "categories") and hasattr(y, "codes"):  # a pandas Categorical outside a series
        return encode_coded(y.codes, y.categories.tolist(), declared=True), bool(y.ordered)
    series = nw.from_native(y, series_only=True, pass_through=True) if not isinstance(y, nw.Series) else y
    if not isinstance(series, nw.Series):
        frame = nw.from_native(y, eager_only=True, pass_through=True)
        try:
            return np.asarray(frame.to_numpy() if isinstance(frame, nw.DataFrame) else y), False
        except ValueError as error:
            raise InvalidInput(f"y must be a list of values, one a row: {error}") from error
    if series.dtype in (nw.Categorical, nw.Enum):
        return encode_series(series), bool(nw.is_ordered_categorical(series))
    if series.dtype in (nw.String, nw.Object):
        return encode_series(series), False
    if series.dtype.is_numeric() and series.null_count():
        return series.cast(nw.Float64).to_numpy(), False
    return np.asarray(series.to_numpy()), False


def _from_objects(raw: Encoded) -> NDArray[Any] | Encoded:
    """Objects that are all numbers or all bool become such, unless they were declared categories."""
    missing = int((raw.codes < 0).sum())
    if missing:
        _refuse_missing(missing)
    if raw.declared or not raw.values:
        return raw
    truth = [isinstance(value, (bool, np.bool_)) for value in raw.values]
    if all(truth):
        return np.array(raw.values, dtype=bool)[raw.codes]
    if all(true or is_number(value) for true, value in zip(truth, raw.values, strict=True)):
        return as_numbers("y", raw.values)[raw.codes]
    return raw


def _check_complete(raw: NDArray[Any]) -> None:
    if raw.dtype.kind == "c":
        raise InvalidInput("Complex data not supported: y must hold real numbers or classes")
    if raw.dtype.kind in "mM":
        raise InvalidInput("y holds dates or durations; turn them into numbers first")
    if raw.dtype.kind == "f" and np.isnan(raw).any():
        _refuse_missing(int(np.isnan(raw).sum()))
    if raw.dtype.kind == "f" and np.isinf(raw).any():
        raise InvalidInput(
            f"y contains infinity in {int(np.isinf(raw).sum())} rows, which is no missing value: correct those rows, "
            "or leave them out"
        )


def _refuse_missing(count: int) -> None:
    raise InvalidInput(
        f"y contains NaN or missing values in {count} rows: drop those rows first, or choose missing='drop'"
    )


def _categories(column: Encoded, ordered: bool) -> Outcome:
    """Text, or whatever else was declared to be categories."""
    try:
        factor = as_factor(column.occurring())
    except TypeError as error:
        raise InvalidInput(f"y holds values that are neither numbers nor classes ({error}): give one a row") from error
    if not column.declared:
        refuse_numbers_with_text("y", column, "or make it categorical if it is meant to be")
    return Outcome(factor.codes.astype(np.float64), factor.levels, categorical=True, ordered=ordered)


def _describe(raw: NDArray[Any]) -> Outcome:
    """Numbers, or true and false, which are classes."""
    if raw.dtype.kind in "iuf":
        values = raw.astype(np.float64)
        if raw.dtype.kind in "iu" and np.abs(values).max(initial=0.0) > EXACT:
            _refuse_rounded(raw, values)
        return Outcome(values, tuple(v.item() for v in np.unique(raw)[: _FEW + 1]), categorical=False)
    levels, codes = np.unique(raw, return_inverse=True)
    return Outcome(codes.astype(np.float64), tuple(levels.tolist()), categorical=True)


def _refuse_rounded(whole: NDArray[Any], values: Floats) -> None:
    """An error for whole numbers that differ, but not as floating-point numbers."""
    if len(np.unique(values)) < len(np.unique(whole)):
        raise InvalidInput(
            "y holds whole numbers beyond 2^53, of which some differ too little to be told apart when computed with: "
            "subtract a constant from them, or make them categories if they are codes"
        )


_TO_DO_IN_TIMES = "Correct what is no number, and turn text into numbers (pandas: pd.to_numeric)"
_TO_DO = f"{_TO_DO_IN_TIMES}; for classes choose 'binomial', 'multinomial' or 'ordinal'"


def _words_first(levels: Sequence[Any]) -> str:
    """The first few levels, what cannot be meant as a number before the others."""
    return listing(sorted(levels, key=lambda level: isinstance(level, str) and reads_as_number(level)))


def _one_value(outcome: Outcome) -> str:
    value = outcome.levels[0] if outcome.levels else None
    return f"y holds a single value ({value!r}) in all rows: with one class or a constant there is nothing to explain"
