"""Any kind of table → `Table`: named columns that are numbers or categories, checked, and nothing copied in vain.

NumPy arrays, SciPy sparse matrices, mappings of columns, and pandas, polars and Arrow tables come in; what cannot be
used is refused here, before any work is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput

Name = str | int
Matrix = Any  # NDArray (any real dtype) or scipy.sparse CSC

_SHOWN = 5  # names listed in an error message before it says 'and N more'


@dataclass(frozen=True)
class Factor:
    """A categorical column: `codes[i]` is the position of row i's value in `levels`."""

    codes: NDArray[np.intp]
    levels: tuple[Any, ...]


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
        if isinstance(wanted, (str, int, np.integer)):
            wanted = [wanted]
        return list(dict.fromkeys(self._find_one(item, lookup, role) for item in wanted))

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
        factors = {j: Factor(f.codes[keep], f.levels) for j, f in self.factors.items()}
        return Table(self.matrix[keep], self.position, factors, self.names, len(keep))


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
        return {str(name): np.asarray(values) for name, values in X.items()}
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    names = [str(name) for name in _native_names(X, frame)]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise InvalidInput(f"column names must be unique, but {listing(repeated)} occur more than once: rename them")
    return dict(zip(names, frame.iter_columns(), strict=True))


def _native_names(X: Any, frame: nw.DataFrame[Any]) -> Sequence[Any]:
    return (
        list(X.columns)
        if hasattr(X, "columns") and not callable(X.columns) and len(X.columns) and not hasattr(X, "column_names")
        else frame.columns
    )


def _from_matrix(matrix: Matrix, feature_names: Sequence[str] | None, exclude: Iterable[Name]) -> Table:
    n, p = matrix.shape
    _check_size(n, p)
    names = None if feature_names is None else _checked_names(feature_names, p)
    table = Table(matrix, np.arange(p, dtype=np.intp), {}, names, n)
    counts = _not_finite(matrix)
    counts[table.find(exclude, "exclude")] = 0
    if counts.any():
        _refuse_not_finite({str(table.name(j)): int(counts[j]) for j in np.flatnonzero(counts).tolist()})
    return table


def _checked_names(feature_names: Sequence[str], p: int) -> tuple[str, ...]:
    names = tuple(str(name) for name in feature_names)
    if len(names) != p:
        raise InvalidInput(f"feature_names has {len(names)} names for {p} columns of X: give one name a column")
    if len(set(names)) < p:
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise InvalidInput(f"feature_names must be unique, but {listing(repeated)} occur more than once")
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
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InvalidInput("X is a masked array with masked values; fbed does not fill them: drop or impute those rows")
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


def _not_finite(matrix: Matrix) -> NDArray[np.intp]:
    """Number of NaN and infinite values in each column."""
    p = matrix.shape[1]
    if matrix.dtype.kind != "f":
        return np.zeros(p, dtype=np.intp)
    if sparse.issparse(matrix):
        column = np.repeat(np.arange(p), np.diff(matrix.indptr))
        return np.bincount(column[~np.isfinite(matrix.data)], minlength=p).astype(np.intp)
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(matrix.sum(dtype=np.float64)):  # the usual case, without a mask of X's size
            return np.zeros(p, dtype=np.intp)
    starts = range(0, p, 256)
    return np.concatenate([(~np.isfinite(matrix[:, s : s + 256])).sum(axis=0) for s in starts]).astype(np.intp)


def _numbers_from_objects(array: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
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


def _refuse_not_finite(counts: Mapping[str, int]) -> None:
    found = listing([f"{name} ({count})" for name, count in counts.items()], quote=False)
    raise InvalidInput(
        f"X contains NaN, missing or infinite values in {len(counts)} column{'s' if len(counts) != 1 else ''}: "
        f"{found}. Nothing is imputed silently: drop those rows or columns, or impute them first"
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
    _refuse_missing(names, read)
    numeric = [values for values in read if not isinstance(values, Factor)]
    factors = {j: values for j, values in enumerate(read) if isinstance(values, Factor)}
    position[[j for j in range(len(read)) if j not in factors]] = np.arange(len(numeric))
    matrix = _gather(numeric) if numeric else np.empty((n, 0))
    return Table(matrix, position, factors, names, n)


def _gather(numeric: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Column-major matrix in the smallest type that holds every column."""
    out = np.empty((len(numeric[0]), len(numeric)), dtype=np.result_type(*numeric), order="F")
    for j, values in enumerate(numeric):
        out[:, j] = values
    return out


def _refuse_missing(names: Sequence[str], read: Sequence[NDArray[Any] | Factor]) -> None:
    counts = {}
    for name, values in zip(names, read, strict=True):
        count = int((values.codes < 0).sum() if isinstance(values, Factor) else (~np.isfinite(values)).sum())
        if count:
            counts[name] = count
    if counts:
        _refuse_not_finite(counts)


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
        return _factor(name, array)
    raise InvalidInput(f"column {name!r} has dtype {array.dtype}, which is neither a number nor a category")


def _read_series(name: str, series: nw.Series[Any]) -> NDArray[Any] | Factor:
    dtype = series.dtype
    if dtype == nw.Boolean and series.null_count() == 0:
        return series.to_numpy().astype(bool)
    if dtype.is_numeric():
        return _numeric_series(series)
    if dtype in (nw.Categorical, nw.Enum):
        return _factor(name, _objects(series), _categories(series))
    if dtype in (nw.String, nw.Object, nw.Boolean):
        return _factor(name, _objects(series))
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


def _categories(series: nw.Series[Any]) -> tuple[Any, ...]:
    return tuple(series.cat.get_categories().to_list())


def _factor(name: str, values: NDArray[Any], order: Sequence[Any] | None = None) -> Factor:
    """Levels in the order of the categories, or sorted; only those that occur."""
    missing = np.array([_is_missing(value) for value in values], dtype=bool)
    present = set(values[~missing].tolist())
    levels = tuple(v for v in order if v in present) if order is not None else _sorted(present)
    if order is None and len(levels) > max(len(values) / 2, 2):
        raise InvalidInput(
            f"column {name!r} holds text with {len(levels)} different values in {len(values)} rows, like an "
            f"identifier: leave it out with exclude=[{name!r}], or make it numeric or categorical"
        )
    lookup = {level: code for code, level in enumerate(levels)}
    codes = np.array([-1 if m else lookup[v] for v, m in zip(values.tolist(), missing, strict=True)], dtype=np.intp)
    return Factor(codes, levels)


def _sorted(values: set[Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(values))
    except TypeError:  # mixed types have no order of their own
        return tuple(sorted(values, key=lambda value: (type(value).__name__, str(value))))


def _is_missing(value: Any) -> TypeGuard[None]:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")


def listing(names: Iterable[Any] | None, quote: bool = True) -> str:
    """The first few names for an error message."""
    items = [repr(name) if quote else str(name) for name in (names or ())]
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
