"""Any kind of table → `Table`: named columns that are numbers or categories, checked, and nothing copied in vain.

NumPy arrays, SciPy sparse matrices, mappings of columns, and pandas, polars and Arrow tables come in; what cannot be
used is refused here, before any work is done. A *variable* is what the search selects: a column, or a group of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput, InvalidType
from fbed.tables.columns import OBJECTS, Factor, coded, hint, listing, read_column
from fbed.tables.encoding import TOGETHER, encode_objects
from fbed.tables.mixed_storage import Beside
from fbed.tables.named import named_columns, refuse_masked, refuse_repeated
from fbed.tables.on_device import as_stored, is_tensor
from fbed.tables.plink import Genotypes
from fbed.tables.separate_columns import as_matrix
from fbed.tables.sparsity import checked_csc

Name = str | int
Groups = Mapping[str, Iterable[Name]]

Matrix = Any  # NDArray (any real dtype), ColumnsApart or scipy.sparse CSC


@dataclass(frozen=True)
class Group:
    """Columns that enter and leave together, under a name of their own."""

    name: str
    columns: tuple[int, ...]


_TURNED = 2**28  # bytes up to which a matrix is copied to lie column after column
_TURNED_TOGETHER = 512  # rows that are turned while they are in the cache
_REASONS = 5  # of columns that are refused, told in one message


@dataclass(frozen=True)
class Table:
    """Predictors: a numeric matrix (dense or CSC) and categorical columns, in the order of the user's table.

    `position[j]` is the place of column j in `matrix`, or −1 when it is the categorical `factors[j]`;
    `indicators[j]` is where the indicator of its missing values is. `names` is None when the user gave none;
    columns are then known by their index.

    Variables go by the index of a column: a group by that of its first column, while the others are `absorbed`, indices
    of no variable. `groups` has the groups by that index.
    """

    matrix: Matrix
    position: NDArray[np.intp]
    factors: Mapping[int, Factor]
    names: tuple[str, ...] | None
    n_rows: int
    excluded: frozenset[int] = frozenset()
    groups: Mapping[int, Group] = field(default_factory=dict)
    indicators: Mapping[int, int] = field(default_factory=dict)

    @property
    def n_variables(self) -> int:
        """Number of indices: every column has one, those absorbed by a group included."""
        return len(self.position)

    @cached_property
    def absorbed(self) -> frozenset[int]:
        """Columns that a group stands for."""
        return frozenset(j for head, group in self.groups.items() for j in group.columns if j != head)

    def columns(self, variable: int) -> tuple[int, ...]:
        """The columns of a variable."""
        group = self.groups.get(variable)
        return (variable,) if group is None else group.columns

    def places(self, column: int) -> list[int]:
        """Where a numeric column is in the matrix, and after it the indicator of its missing values, if it has one."""
        return [int(self.position[column]), *([self.indicators[column]] if column in self.indicators else [])]

    def name(self, variable: int) -> Name:
        """What the user calls a variable: its name, or its index when the table has no names."""
        group = self.groups.get(variable)
        return self.column_name(variable) if group is None else group.name

    def column_name(self, column: int) -> Name:
        """What the user calls a column, whether or not it is part of a group."""
        return self.names[column] if self.names is not None else int(column)

    def find(self, wanted: Iterable[Name], role: str) -> list[int]:
        """Indices of variables given by name or index, without repeats; `role` is for the error message."""
        by_name = {group.name: head for head, group in self.groups.items()}
        return list(dict.fromkeys(self._find_one(item, by_name, role) for item in as_list(wanted)))

    def _find_one(self, item: Name, by_name: Mapping[str, int], role: str) -> int:
        if isinstance(item, str) and item in by_name:
            return by_name[item]
        (column,) = self.find_columns([item], role)
        owner = next((group.name for group in self.groups.values() if column in group.columns), None)
        if owner is not None:
            raise InvalidInput(
                f"{role} names column {item!r}, which is part of the group {owner!r} and enters and leaves with it: "
                f"name the group, {role}=[{owner!r}], or take the column out of it"
            )
        return column

    def find_columns(self, wanted: Name | Iterable[Name], role: str) -> list[int]:
        """Indices of columns given by name or index, without repeats."""
        return list(dict.fromkeys(self._find_column(item, role) for item in as_list(wanted)))

    def _find_column(self, item: Name, role: str) -> int:
        if isinstance(item, str):
            if item in self._by_name:
                return self._by_name[item]
            known = hint(item, self.names) if self.names else "the table has no column names"
            raise InvalidInput(f"{role} names {item!r}, which is not a column: {known}")
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            if 0 <= item < self.n_variables:
                return int(item)
            raise InvalidInput(f"{role} holds index {item}, but there are {self.n_variables} predictors, from 0")
        raise InvalidInput(f"{role} must hold column names or indices, got {item!r}")

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names or ())}

    def rows(self, keep: NDArray[np.intp], turned: bool = False) -> Table:
        """The same variables on some of the rows; a matrix that lies row after row can be `turned` on the way."""
        factors = {j: f.rows(keep) for j, f in self.factors.items()}
        is_turned = turned and isinstance(self.matrix, np.ndarray) and not self.matrix.flags.f_contiguous
        matrix = _turned_rows(self.matrix, keep) if is_turned else _some_rows(self.matrix, keep)
        return replace(self, matrix=matrix, factors=factors, n_rows=len(keep))

    def by_columns(self) -> Table:
        """The same table with a matrix of which rows are quickly taken, unless it is large.

        It lies column after column, and small whole numbers take a byte each.
        """
        matrix = self.matrix
        if not isinstance(matrix, np.ndarray) or matrix.nbytes > _TURNED:
            return self
        return replace(self, matrix=np.asfortranarray(_as_bytes(matrix)))


def _as_bytes(matrix: NDArray[Any]) -> NDArray[Any]:
    """A byte a value, where that holds all of them."""
    if matrix.dtype.itemsize == 1 or not matrix.size:
        return matrix
    for rows in (matrix[:1], matrix):  # most matrices that do not fit show it in their first row
        with np.errstate(invalid="ignore"):
            small = rows.astype(np.int8)
        if not np.array_equal(small, rows):
            return matrix
    return small


def _some_rows(matrix: Matrix, keep: NDArray[np.intp]) -> Matrix:
    """Rows of a matrix that keeps its layout: NumPy would turn columns into rows, SciPy leaves entries in disorder."""
    if isinstance(matrix, np.ndarray) and matrix.flags.f_contiguous and not matrix.flags.c_contiguous:
        return np.take(matrix.T, keep, axis=1, mode="clip").T  # six times faster than with a check of each index
    taken = matrix[keep]
    if sparse.issparse(taken):
        taken.sort_indices()
    return taken


def _turned_rows(matrix: NDArray[Any], keep: NDArray[np.intp]) -> NDArray[Any]:
    """Rows of a matrix, column after column; without another copy on the way."""
    out = np.empty((len(keep), matrix.shape[1]), dtype=matrix.dtype, order="F")
    for first in range(0, len(keep), _TURNED_TOGETHER):
        out[first : first + _TURNED_TOGETHER] = matrix[keep[first : first + _TURNED_TOGETHER]]
    return out


def read_table(
    X: Any,
    feature_names: Sequence[str] | None = None,
    leave_out: Sequence[str] = (),
    exclude: Iterable[Name] = (),
    groups: Groups | None = None,
    categorical: Iterable[Name] = (),
) -> Table:
    """Check X and bring it into the form the rest of the library reads.

    Parameters
    ----------
    X : array, sparse matrix, mapping of columns, or pandas / polars / Arrow table.
    feature_names : names of the columns, for X that has none.
    leave_out : columns of a named table that are no predictors (the outcome, weights).
    exclude : predictors that will not be used; they keep their index but may hold anything.
    groups : columns that are one variable, by its name.
    categorical : columns whose values are categories, whatever they look like.
    """
    if isinstance(X, Genotypes):
        from fbed.tables.genotypes import read_genotypes

        return read_genotypes(X, feature_names, leave_out, exclude, groups, categorical)
    if is_tensor(X):
        stored = as_stored(X)
        table = arranged(outline(stored.shape, checked_names(feature_names)), groups, exclude)
        return _from_matrix(Beside(stored, np.empty((stored.n_rows, 0))), table, [])
    named = None if sparse.issparse(X) else named_columns(X)
    if named is None:
        matrix = _checked_sparse(X) if sparse.issparse(X) else _checked_dense(X)
        table = outline(matrix.shape, checked_names(feature_names))
        table = arranged(table, groups, exclude)
        return _from_matrix(matrix, table, table.find_columns(categorical, "categorical"))
    if feature_names is not None:
        raise InvalidInput("feature_names is for arrays; this table has column names of its own: leave it out")
    columns = {name: values for name, values in named.items() if name not in set(leave_out)}
    shape = (_common_length(columns), len(columns)) if columns else (len(X) if hasattr(X, "__len__") else 0, 0)
    table = arranged(outline(shape, tuple(columns)), groups, exclude)
    return from_columns(columns, table, table.find_columns(categorical, "categorical"))


def checked_names(feature_names: Any) -> tuple[str, ...] | None:
    """Names of columns as text, one each."""
    if feature_names is None:
        return None
    if isinstance(feature_names, str) or not isinstance(feature_names, Iterable):
        raise InvalidInput(f"feature_names must be a list of names, one a column, got {feature_names!r}")
    return tuple(str(name) for name in feature_names)


def outline(shape: tuple[int, int], names: tuple[str, ...] | None) -> Table:
    """A table without values: what is needed to find columns by name."""
    n, p = shape
    if p == 0:
        raise InvalidInput(
            f"X has 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required."
            " Give the outcome and one or more columns beside it"
        )
    if n < 3:
        raise InvalidInput(
            f"X has {n} row{'s' if n != 1 else ''}, i.e. n_samples={n}; selection needs at least 3: "
            "a model with one predictor leaves nothing to test it on"
        )
    if names is not None and len(names) != p:
        raise InvalidInput(f"feature_names has {len(names)} names for {p} columns of X: give one name a column")
    refuse_repeated(names or ())
    return Table(None, np.full(p, -1, dtype=np.intp), {}, names, n)


def arranged(table: Table, groups: Groups | None, exclude: Iterable[Name]) -> Table:
    """The outline with its groups, and without what is excluded."""
    table = replace(table, groups=_read_groups(table, groups))
    excluded = frozenset(j for variable in table.find(exclude, "exclude") for j in table.columns(variable))
    return replace(table, excluded=excluded)


def _read_groups(table: Table, groups: Groups | None) -> dict[int, Group]:
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InvalidInput(
            f"groups must map the name of each group to its columns, such as {{'dose': ['d1', 'd2']}}, got a "
            f"{type(groups).__name__}"
        )
    found = [_read_group(table, name, columns) for name, columns in groups.items()]
    owners: dict[int, str] = {}
    for group in found:
        for j in group.columns:
            if owners.setdefault(j, group.name) != group.name:
                raise InvalidInput(
                    f"column {table.column_name(j)!r} is in two groups, {owners[j]!r} and {group.name!r}: a column "
                    "can enter and leave with one group only"
                )
    return {min(group.columns): group for group in found}


def _read_group(table: Table, name: Any, columns: Any) -> Group:
    if not isinstance(name, str):
        raise InvalidInput(f"groups must have names that are text, got {name!r}")
    if name in (table.names or ()):
        raise InvalidInput(f"the group {name!r} is called like a column: give it a name of its own")
    if not isinstance(columns, (str, int, Iterable)):
        raise InvalidInput(f"groups[{name!r}] must be a list of column names or indices, got {columns!r}")
    found = table.find_columns(columns, f"groups[{name!r}]")
    if not found:
        raise InvalidInput(f"the group {name!r} has no columns: name at least one, or leave the group out")
    return Group(name, tuple(found))


def as_list(wanted: Name | Iterable[Name]) -> list[Name]:
    """Names or indices as a list: a single one may come bare, and an iterator can be read only once."""
    if isinstance(wanted, (str, int, np.integer)):
        return [wanted]
    if not isinstance(wanted, Iterable):
        raise InvalidInput(f"expected the names or indices of columns, such as a list, got {wanted!r}")
    return list(wanted)


def _from_matrix(matrix: Matrix, table: Table, categorical: Sequence[int]) -> Table:
    """The matrix as it is, and factors of the columns that hold codes."""
    position = np.arange(matrix.shape[1], dtype=np.intp)
    factors = {}
    for j in categorical:
        values = matrix[:, [j]].toarray()[:, 0] if sparse.issparse(matrix) else matrix[:, j]
        factors[j] = _left_out(table.n_rows) if j in table.excluded else coded(repr(table.column_name(j)), values)
        position[j] = -1
    return replace(table, matrix=matrix, position=position, factors=factors)


def _left_out(n_rows: int) -> Factor:
    """What stands for a column that is not read."""
    return Factor(np.zeros(n_rows, dtype=np.int8), ("excluded",))


def _checked_sparse(X: Any) -> Any:
    if X.ndim != 2:
        raise InvalidInput(f"X must have two dimensions (rows, columns), got {X.ndim}")
    _check_dtype(X.dtype)
    return checked_csc(X)


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


def refuse_not_finite(table: Table, counts: NDArray[np.intp], infinite: Mapping[int, int] | None = None) -> None:
    """Raise when a column that is used holds values that are missing or infinite; `counts` has their number."""
    found = {j: int(counts[j]) for j in np.flatnonzero(counts).tolist() if j not in table.excluded}
    if infinite is None:
        infinite = {j: count for j, count in ((j, _infinite(table, j)) for j in found) if count}
    if infinite:
        refuse_infinite(table, infinite)
    if found:
        raise InvalidInput(
            f"X contains NaN or missing values in {len(found)} column{'s' if len(found) != 1 else ''}: "
            f"{counted(table, found)}. Nothing is imputed silently: drop those rows or columns, impute them first, or "
            "choose missing='drop' (complete rows only) or missing='indicator'"
        )


def refuse_infinite(table: Table, counts: Mapping[int, int]) -> NoReturn:
    """An error about infinite values, which are not missing: no choice of `missing` makes them go away."""
    raise InvalidInput(
        f"X contains infinite values in {len(counts)} column{'s' if len(counts) != 1 else ''}: "
        f"{counted(table, counts)}. "
        "They are not missing values, so that missing= does not help: correct them, replace them by NaN first (pandas: "
        "X.replace([np.inf, -np.inf], np.nan)), or leave the columns out by exclude"
    )


def _infinite(table: Table, column: int) -> int:
    """How many values of a column are infinite."""
    place = int(table.position[column])
    if place < 0:
        return 0
    matrix = table.matrix
    values = (
        matrix.data[matrix.indptr[place] : matrix.indptr[place + 1]] if sparse.issparse(matrix) else matrix[:, place]
    )
    return int(np.isinf(values).sum())


def counted(table: Table, counts: Mapping[int, int]) -> str:
    """Columns with how many values each, for a message."""
    return listing([f"{table.column_name(j)} ({count:,})" for j, count in counts.items()], quote=False)


def _common_length(columns: Mapping[str, Any]) -> int:
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"the columns of X have different lengths: {sorted(lengths)}")
    return lengths.pop() if lengths else 0


def from_columns(columns: Mapping[str, Any], table: Table, categorical: Sequence[int]) -> Table:
    """A table of named columns: the numeric ones are a matrix, the others become factors."""
    declared = set(categorical)
    read: list[NDArray[Any] | Factor] = []
    refused: dict[str, InvalidInput] = {}
    used = [None if j in table.excluded else values for j, values in enumerate(columns.values())]
    for j, (name, values) in enumerate(zip(columns, _encoded(used), strict=True)):
        try:
            read.append(_left_out(table.n_rows) if values is None else read_column(name, values, j in declared))
        except InvalidInput as error:
            refused[name] = error
    if refused:
        raise all_refused(refused)
    numeric = [values for values in read if not isinstance(values, Factor)]
    factors = {j: values for j, values in enumerate(read) if isinstance(values, Factor)}
    position = np.full(len(read), -1, dtype=np.intp)
    position[[j for j in range(len(read)) if j not in factors]] = np.arange(len(numeric))
    matrix = as_matrix(numeric) if numeric else np.empty((table.n_rows, 0))
    return replace(table, matrix=matrix, position=position, factors=factors)


def all_refused(refused: Mapping[str, InvalidInput]) -> InvalidInput:
    """One error for all columns that cannot be used, so that nobody has to mend them one by one."""
    if len(refused) == 1:
        return next(iter(refused.values()))
    reasons = "; ".join(str(error).split(": ")[0] for error in list(refused.values())[:_REASONS])
    more = f"; and {len(refused) - _REASONS} more" if len(refused) > _REASONS else ""
    return InvalidInput(
        f"{len(refused)} columns cannot be used as they are: {reasons}{more}. Turn them into numbers or categories, or "
        f"leave them out with exclude={list(refused)}"
    )


def _encoded(columns: Sequence[Any]) -> Iterator[Any]:
    """The same columns with those of NumPy's objects encoded, some of them at a time."""
    for start in range(0, len(columns), TOGETHER):
        some = list(columns[start : start + TOGETHER])
        which = [i for i, values in enumerate(some) if _holds_objects(values)]
        for i, column in zip(which, encode_objects([some[i] for i in which]), strict=True):
            some[i] = column
        yield from some


def _holds_objects(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in OBJECTS
