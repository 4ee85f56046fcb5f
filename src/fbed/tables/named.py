"""Tables whose columns have names: mappings of columns, and pandas, polars and Arrow tables behind one interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from fbed.errors import InvalidInput
from fbed.tables.columns import hint, listing
from fbed.tables.plink import Genotypes

_AT_ONCE = 2**24  # values of one type that are taken together: column by column, thousands of columns take a while


def take_column(X: Any, name: str, role: str) -> Any:
    """The column `name` of a table, for an outcome or weights given by name."""
    if isinstance(X, Genotypes):
        X = X.beside
    frame = X if isinstance(X, Mapping) else as_frame(X)
    if X is None:
        raise InvalidInput(
            f"{role}={name!r} names a column, but there is no table of phenotypes: fbed.genotypes(path, pheno=…)"
        )
    if frame is None:
        raise InvalidInput(
            f"{role}={name!r} names a column, but X is a {type(X).__name__} without column names: pass the values"
        )
    keys = {str(key): key for key in (frame if isinstance(frame, Mapping) else frame.columns)}
    if name not in keys:
        raise InvalidInput(f"{role}={name!r} is not a column of X: {hint(name, keys)}")
    return _as_column(name, frame[keys[name]]) if isinstance(frame, Mapping) else frame[keys[name]]


def named_columns(X: Any) -> dict[str, Any] | None:
    """Columns by name of a mapping or data frame; None when X has no column names."""
    if isinstance(X, Mapping):
        names = [str(name) for name in X]
        refuse_repeated(names)  # 1 and '1' are different keys
        return dict(zip(names, map(_as_column, names, X.values()), strict=True))
    frame = as_frame(X)
    if frame is None:
        return None
    names = [str(name) for name in frame.columns]
    refuse_repeated(names)
    if not frame.implementation.is_pandas():
        return dict(zip(names, frame.iter_columns(), strict=True))
    native = frame.to_native()
    if native.size <= _AT_ONCE and len(kinds := set(native.dtypes)) == 1 and _is_numeric(kinds.pop()):
        return dict(zip(names, native.to_numpy().T, strict=True))
    series = [one for _, one in native.items()]
    columns = [_from_pandas(*both) for both in zip(series, frame.iter_columns(), strict=True)]
    return dict(zip(names, columns, strict=True))


def _is_numeric(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """A pandas, polars or Arrow table behind one interface; None when X is something else."""
    if hasattr(X, "collect"):  # a lazy frame, which is read elsewhere; to ask it for its names may take long
        return None
    names = getattr(X, "column_names", getattr(X, "columns", None))  # Arrow's columns are values, not names
    if isinstance(names, Iterable):
        refuse_repeated([str(name) for name in names])  # in our words, before narwhals refuses them in its own
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _as_column(name: str, values: Any) -> Any:
    """A column of a mapping: a series as it is, anything else as an array of one dimension."""
    refuse_masked(values, f"column {name!r}")
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _from_pandas(values, series) if series.implementation.is_pandas() else series
    try:
        column = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"column {name!r} must be a list of values, one a row: {error}") from error
    if column.ndim != 1:
        raise InvalidInput(f"column {name!r} has shape {column.shape}; a column has one dimension")
    return column


def _from_pandas(native: Any, wrapped: Any) -> Any:
    """Numbers and objects where NumPy holds them, and sparse columns in full, as only pandas can read them."""
    if isinstance(native.dtype, np.dtype):
        return native.to_numpy() if native.dtype.kind in "biufO" else wrapped
    return native.sparse.to_dense().to_numpy() if hasattr(native.array, "sp_values") else wrapped


def refuse_masked(values: Any, role: str) -> None:
    """An error for masked values, which NumPy would replace by what lies under the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidInput(
            f"{role} is a masked array with masked values; fbed does not fill them: drop or impute those rows"
        )


def refuse_repeated(names: Sequence[str]) -> None:
    """An error for columns of the same name."""
    if len(set(names)) < len(names):
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        raise InvalidInput(f"column names must be unique, but {listing(repeated)} occur more than once: rename them")
