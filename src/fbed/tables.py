"""Any kind of table → `Table`: named columns that are numbers or categories, checked, and nothing copied in vain.

NumPy arrays, SciPy sparse matrices, mappings of columns, and pandas, polars and Arrow tables come in; what cannot be
used is refused here, before any work is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput, InvalidType

Name = str | int
Matrix = Any  # NDArray (any real dtype) or scipy.sparse CSC

_SHOWN = 5  # names listed in an error message before it says 'and N more'
_MANY_NUMBERS = 10  # a text column with more different numbers than this was meant to be numeric
_MARKERS = {"", "?", "-", "--", ".", "n/a", "na", "n.a.", "nan", "null", "none", "nil", "missing", "unknown", "#n/a"}


@dataclass(frozen=True)
class Factor:
    """A categorical column: `codes[i]` is the position of row i's value in `levels`."""

    codes: NDArray[np.intp]
    levels: tuple[Any, ...]

    def rows(self, keep: NDArray[np.intp]) -> Factor:
        """The column on some of the rows, with the levels that occur there."""
        present, codes = np.unique(self.codes[keep], return_inverse=True)
        return Factor(codes.astype(np.intp), tuple(self.levels[code] for code in present))


@dataclass(frozen=True)
class Table:
    """Predictors: a numeric matrix (dense or CSC) and categorical columns, in the order of the user's table.

    `position[j]` is variable j's column of `matrix`, or −1 when it is the categorical `factors[j]`.
    `names` is None when the user gave none; variables are then known by their index.
    """

    matrix: Matrix
    position: NDArray[np.intp]
    factors: Mapping[int, Factor]
    names: tuple[str, ...] | None
    n_rows: int
    excluded: frozenset[int] = frozenset()

    @property
    def n_variables(self) -> int:
        """Number of variables, categorical ones counted once."""
        return len(self.position)

    def name(self, variable: int) -> Name:
        """What the user calls a variable: its name, or its index when the table has no names."""
        return self.names[variable] if self.names is not None else int(variable)

    def find(self, wanted: Iterable[Name], role: str) -> list[int]:
        """Indices of variables given by name or index, without repeats; `role` is for the error message."""
        lookup = {} if self.names is None else {name: j for j, name in enumerate(self.names)}
        return list(dict.fromkeys(self._find_one(item, lookup, role) for item in as_list(wanted)))

    def _find_one(self, item: Name, lookup: Mapping[str, int], role: str) -> int:
        if isinstance(item, str):
            if item in lookup:
                return lookup[item]
            known = f"the columns are {listing(self.names)}" if self.names else "the table has no column names"
            raise InvalidInput(f"{role} names {item!r}, which is not a column: {known}")
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            if 0 <= item < self.n_variables:
                return int(item)
            raise InvalidInput(f"{role} holds index {item}, but there are {self.n_variables} predictors, from 0")
        raise InvalidInput(f"{role} must hold column names or indices, got {item!r}")

    def rows(self, keep: NDArray[np.intp]) -> Table:
        """The same variables on some of the rows."""
        factors = {j: f.rows(keep) for j, f in self.factors.items()}
        return Table(self.matrix[keep], self.position, factors, self.names, len(keep), self.excluded)


def read_table(
    X: Any,
    feature_names: Sequence[str] | None = None,
    leave_out: Sequence[str] = (),
    exclude: Iterable[Name] = (),
) -> Table:
    """Check X and bring it into the form the rest of the library reads.

    Parameters
    ----------
    X : array, sparse matrix, mapping of columns, or pandas / polars / Arrow table.
    feature_names : names of the columns, for X that has none.
    leave_out : columns of a named table that are no predictors (the outcome, weights).
    exclude : predictors that will not be used; they keep their index but may hold anything.
    """
    columns = None if sparse.issparse(X) else named_columns(X)
    if columns is None:
        return _from_matrix(_checked_sparse(X) if sparse.issparse(X) else _checked_dense(X), feature_names, exclude)
    if feature_names is not None:
        raise InvalidInput("feature_names is for arrays; this table has column names of its own: leave it out")
    return _from_columns({name: values for name, values in columns.items() if name not in set(leave_out)}, exclude)


def as_list(wanted: Name | Iterable[Name]) -> list[Name]:
    """Names or indices as a list: a single one may come bare, and an iterator can be read only once."""
    return [wanted] if isinstance(wanted, (str, int, np.integer)) else list(wanted)


def take_column(X: Any, name: str, role: str) -> Any:
    """The column `name` of a table, for an outcome or weights given by name."""
    columns = named_columns(X)
    if columns is None:
        raise InvalidInput(
            f"{role}={name!r} names a column, but X is a {type(X).__name__} without column names: pass the values"
        )
    if name not in columns:
        raise InvalidInput(f"{role}={name!r} is not a column of X: the columns are {listing(columns)}")
    return columns[name]


def named_columns(X: Any) -> dict[str, Any] | None:
    """Columns by name of a mapping or data frame; None when X has no column names."""
    if isinstance(X, Mapping):
        names = [str(name) for name in X]
        _refuse_repeated(names)  # 1 and '1' are different keys
        return dict(zip(names, map(np.asarray, X.values()), strict=True))
    frame = as_frame(X)
    if frame is None:
        return None
    names = [str(name) for name in frame.columns]
    _refuse_repeated(names)
    return dict(zip(names, frame.iter_columns(), strict=True))


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """A pandas, polars or Arrow table behind one interface; None when X is something else."""
    names = getattr(X, "column_names", getattr(X, "columns", None))  # Arrow's columns are values, not names
    if isinstance(names, Iterable):
        _refuse_repeated([str(name) for name in names])  # in our words, before narwhals refuses them in its own
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        raise InvalidInput(f"column names must be unique, but {listing(repeated)} occur more than once: rename them")


def _from_matrix(matrix: Matrix, feature_names: Sequence[str] | None, exclude: Iterable[Name]) -> Table:
    n, p = matrix.shape
    _check_size(n, p)
    names = None if feature_names is None else _checked_names(feature_names, p)
    table = Table(matrix, np.arange(p, dtype=np.intp), {}, names, n)
    return replace(table, excluded=frozenset(table.find(exclude, "exclude")))


def _checked_names(feature_names: Sequence[str], p: int) -> tuple[str, ...]:
    names = tuple(str(name) for name in feature_names)
    if len(names) != p:
        raise InvalidInput(f"feature_names has {len(names)} names for {p} columns of X: give one name a column")
    _refuse_repeated(names)
    return names


def _check_size(n: int, p: int) -> None:
    if p == 0:
        raise InvalidInput(f"X has 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    if n < 3:
        raise InvalidInput(
            f"X has {n} row{'s' if n != 1 else ''}, i.e. n_samples={n}; selection needs at least 3: "
            "a model with one predictor leaves nothing to test it on"
        )


def _checked_sparse(X: Any) -> Any:
    if X.ndim != 2:
        raise InvalidInput(f"X must have two dimensions (rows, columns), got {X.ndim}")
    _check_dtype(X.dtype)
    csc = sparse.csc_array(X)
    if not csc.has_canonical_format:
        csc = csc.copy()
        csc.sum_duplicates()
    return csc


def _checked_dense(X: Any) -> NDArray[Any]:
    refuse_masked(X, "X")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInput(f"X must be a rectangular table of numbers: {error}") from error
    if array.dtype.kind == "O":
        array = _numbers_from_objects(array)
    if array.ndim != 2:
        raise InvalidInput(
            f"X must have two dimensions (rows, columns), got shape {array.shape}. "
            "Reshape your data with X.reshape(-1, 1) if it is a single feature."
        )
    _check_dtype(array.dtype)
    return array


def refuse_masked(values: Any, role: str) -> None:
    """An error for masked values, which NumPy would replace by what lies under the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidInput(
            f"{role} is a masked array with masked values; fbed does not fill them: drop or impute those rows"
        )


def _numbers_from_objects(array: NDArray[Any]) -> NDArray[np.float64]:
    try:
        if any(isinstance(value, (str, bytes)) for value in array.flat):
            raise ValueError("there is text among them")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        kind = InvalidType if isinstance(error, TypeError) else InvalidInput
        raise kind(
            f"X holds values that are not numbers ({error}): pass a data frame, whose text columns become "
            "categorical, or encode them"
        ) from error


def _check_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.kind in "biuf":
        return
    if dtype.kind == "c":
        raise InvalidInput("Complex data not supported: X must hold real numbers")
    raise InvalidInput(
        f"X must hold numbers, got dtype {dtype}: pass a data frame, whose text columns become categorical, or "
        "encode them"
    )


def refuse_not_finite(table: Table, counts: NDArray[np.intp]) -> None:
    """Raise when a variable that is used holds values that are missing or infinite; `counts` has their number."""
    found = {table.name(j): int(counts[j]) for j in np.flatnonzero(counts).tolist() if j not in table.excluded}
    if found:
        columns = listing([f"{name} ({count})" for name, count in found.items()], quote=False)
        raise InvalidInput(
            f"X contains NaN, missing or infinite values in {len(found)} column{'s' if len(found) != 1 else ''}: "
            f"{columns}. Nothing is imputed silently: drop those rows or columns, or impute them first"
        )


def _from_columns(columns: Mapping[str, Any], exclude: Iterable[Name]) -> Table:
    """A table of named columns: the numeric ones are gathered into one matrix, the others become factors."""
    names = tuple(columns)
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"the columns of X have different lengths: {sorted(lengths)}")
    n = lengths.pop() if lengths else 0
    _check_size(n, len(names))
    position = np.full(len(names), -1, dtype=np.intp)
    unread = set(Table(None, position, {}, names, n).find(exclude, "exclude"))
    nothing = Factor(np.zeros(n, dtype=np.intp), ("excluded",))
    read = [nothing if j in unread else _read_column(name, values) for j, (name, values) in enumerate(columns.items())]
    numeric = [values for values in read if not isinstance(values, Factor)]
    factors = {j: values for j, values in enumerate(read) if isinstance(values, Factor)}
    position[[j for j in range(len(read)) if j not in factors]] = np.arange(len(numeric))
    matrix = _gather(numeric) if numeric else np.empty((n, 0))
    table = Table(matrix, position, factors, names, n, frozenset(unread))
    missing = np.zeros(len(names), dtype=np.intp)
    for j, factor in factors.items():
        missing[j] = int((factor.codes < 0).sum())
    refuse_not_finite(table, missing)
    return table


def _gather(numeric: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Column-major matrix in the smallest type that holds every column."""
    out = np.empty((len(numeric[0]), len(numeric)), dtype=np.result_type(*numeric), order="F")
    for j, values in enumerate(numeric):
        out[:, j] = values
    return out


def _read_column(name: str, values: Any) -> NDArray[Any] | Factor:
    """One column as numbers or a factor (code −1 where missing); an error for dates, text identifiers and the like."""
    if isinstance(values, nw.Series):
        return _read_series(name, values)
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"column {name!r} has shape {array.shape}; a column has one dimension")
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind in "OUST":
        return _from_objects(name, array)
    raise InvalidInput(f"column {name!r} has dtype {array.dtype}, which is neither a number nor a category")


def _read_series(name: str, series: nw.Series[Any]) -> NDArray[Any] | Factor:
    dtype = series.dtype
    if dtype == nw.Boolean and series.null_count() == 0:
        return series.to_numpy().astype(bool)
    if dtype.is_numeric():
        return _numeric_series(series)
    if dtype in (nw.Categorical, nw.Enum):
        return _factor(name, _objects(series), categories(series))
    if dtype in (nw.String, nw.Object, nw.Boolean):
        return _from_objects(name, _objects(series))
    raise InvalidInput(
        f"column {name!r} holds {dtype}, which is neither a number nor a category: turn it into numbers (days since "
        f"a date, say), or leave it out with exclude=[{name!r}]"
    )


def _numeric_series(series: nw.Series[Any]) -> NDArray[Any]:
    if series.null_count():
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    array = np.asarray(series.to_numpy())
    return array.astype(np.float64) if array.dtype.kind == "O" else array  # decimals come as objects


def _objects(series: nw.Series[Any]) -> NDArray[Any]:
    out = np.empty(len(series), dtype=object)
    out[:] = series.to_list()
    return out


def categories(series: nw.Series[Any]) -> tuple[Any, ...]:
    """Categories of a categorical column in their order, as the values they are; sorted where they have no order."""
    native = series.to_native()
    if hasattr(native, "unify_dictionaries"):  # Arrow
        chunks = native.unify_dictionaries().chunks
        return tuple(chunks[0].dictionary.to_pylist()) if chunks else ()
    if hasattr(getattr(native, "cat", None), "categories"):  # pandas
        return tuple(native.cat.categories.tolist())
    if isinstance(series.dtype, nw.Enum):  # polars
        return tuple(native.dtype.categories.to_list())
    return sorted_values(set(series.drop_nulls().to_list()))


def _from_objects(name: str, values: NDArray[Any]) -> NDArray[Any] | Factor:
    """Objects that are all numbers are numbers; others are categories."""
    missing = np.array([is_missing(value) for value in values], dtype=bool)
    if missing.all() or not all(_is_number(value) for value in values[~missing].tolist()):
        return _factor(name, values)
    out = np.full(len(values), np.nan)
    out[~missing] = values[~missing].astype(np.float64)
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number, Decimal)) and not isinstance(value, bool)


def _factor(name: str, values: NDArray[Any], order: Sequence[Any] | None = None) -> Factor:
    """Levels in the order of the categories, or sorted; only those that occur."""
    _refuse_containers(name, values)
    missing = np.array([is_missing(value) for value in values], dtype=bool)
    try:
        present = set(values[~missing].tolist())
    except TypeError as error:
        raise InvalidInput(
            f"column {name!r} holds values that are neither numbers nor categories ({error}): leave it out with "
            f"exclude=[{name!r}]"
        ) from error
    if order is None:
        refuse_numbers_with_text(
            f"column {name!r}",
            values,
            f"make the column categorical if it is meant to be, or leave it out with exclude=[{name!r}]",
        )
    levels = tuple(v for v in order if v in present) if order is not None else sorted_values(present)
    if order is None and len(levels) > max(len(values) / 2, 2):
        raise InvalidInput(
            f"column {name!r} holds text with {len(levels)} different values in {len(values)} rows, like an "
            f"identifier: leave it out with exclude=[{name!r}], or make it numeric or categorical"
        )
    lookup = {level: code for code, level in enumerate(levels)}
    codes = np.array([-1 if m else lookup[v] for v, m in zip(values.tolist(), missing, strict=True)], dtype=np.intp)
    return Factor(codes, levels)


def _refuse_containers(name: str, values: NDArray[Any]) -> None:
    found = next((v for v in values.tolist() if isinstance(v, (list, tuple, dict, set, np.ndarray))), None)
    if found is not None:
        raise InvalidInput(
            f"column {name!r} holds values of type {type(found).__name__}, which are neither numbers nor categories: "
            f"make columns of what they contain, or leave it out with exclude=[{name!r}]"
        )


def refuse_numbers_with_text(what: str, values: NDArray[Any], remedy: str) -> None:
    """One '?' makes a column of numbers text; as categories it would be a wrong answer to a question nobody asked.

    Few different numbers beside other words, such as '1', '2', '3 or more', are categories.
    """
    present = {value for value in values.tolist() if not is_missing(value)}
    words = sorted(value for value in present if isinstance(value, str) and not _reads_as_number(value))
    n_numbers = len(present) - len(words)
    if not words or n_numbers == 0 or (n_numbers <= _MANY_NUMBERS and not _are_markers(words)):
        return
    count = int(np.isin(values.astype(str), words).sum())
    raise InvalidInput(
        f"{what} holds numbers, but also text in {count} row{'s' if count != 1 else ''}: {listing(words)}. Clean or "
        f"drop those rows, {remedy}"
    )


def _are_markers(words: Sequence[str]) -> bool:
    return all(word.strip().lower() in _MARKERS for word in words)


def _reads_as_number(text: str) -> bool:
    if text.strip().lower() in _MARKERS:  # float('nan') is a number to Python only
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def sorted_values(values: set[Any]) -> tuple[Any, ...]:
    """Values in their order, or by type and text when they have none in common."""
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=lambda value: (type(value).__name__, str(value))))


def is_missing(value: Any) -> bool:
    """None, NaN, pandas' NA or a missing time."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return np.ndim(value) == 0 and bool(value != value)


def listing(names: Iterable[Any] | None, quote: bool = True) -> str:
    """The first few names for an error message."""
    items = [repr(name) if quote else str(name) for name in (names or ())]
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
