"""What becomes of missing values: an error, complete rows only, or indicators. Nothing is imputed silently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput
from fbed.rules.p_values import Floats
from fbed.tables.columns import Factor
from fbed.tables.encoding import code_type
from fbed.tables.mixed_storage import Beside
from fbed.tables.separate_columns import ColumnsApart
from fbed.tables.table import Matrix, Table, counted, refuse_infinite

MISSING = ("error", "drop", "indicator")
"""What can be asked for."""

LEVEL = "(missing)"  # the level that stands for 'missing' in a categorical column


def check_missing(missing: Any) -> None:
    """Refuse what cannot be asked for."""
    if missing not in MISSING:
        raise InvalidInput(
            f"missing must be 'error', 'drop' (complete rows only) or 'indicator' (a column that tells where values "
            f"are missing joins theirs), got {missing!r}"
        )


def complete_rows(
    table: Table, present: NDArray[np.bool_], outcome_known: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], list[str]]:
    """Rows, of those present, in which the outcome and every column that is used are known; and a note on the rest."""
    where = _where(table)
    complete = present & outcome_known
    for rows in where.values():
        complete[rows] = False
    counts = {j: int(present[rows].sum()) for j, rows in where.items()}
    return complete, told_dropped(table, counts, present, complete, outcome_known)


def told_dropped(
    table: Table,
    counts: dict[int, int],
    present: NDArray[np.bool_],
    complete: NDArray[np.bool_],
    outcome_known: NDArray[np.bool_],
) -> list[str]:
    """A note on rows that are left out, with how many values of each column are missing in rows that are present."""
    n_dropped, n_present = int((present & ~complete).sum()), int(present.sum())
    if n_dropped == 0:
        return []
    by_count = dict(sorted(counts.items(), key=lambda item: -item[1]))
    parts = [counted(table, by_count)] if counts else []
    unknown = int((present & ~outcome_known).sum())
    causes = ", ".join([f"the outcome ({unknown:,})", *parts] if unknown else parts)
    if int(complete.sum()) < 3:
        raise InvalidInput(
            f"missing='drop' leaves {int(complete.sum())} of {n_present:,} rows; values are missing in {causes}: leave "
            "out the columns with most of them by exclude, or choose missing='indicator'"
        )
    return [f"{n_dropped:,} of {n_present:,} rows were dropped for missing values in {causes}"]


def with_indicators(table: Table, weights: Floats) -> tuple[Table, list[str]]:
    """Missing numbers replaced by the mean of their column and joined by an indicator; missing categories a level."""
    where = _where(table)
    if not where:
        return table, []
    factors = {j: with_level(f) if j in where else f for j, f in table.factors.items()}
    numeric = {j: rows for j, rows in where.items() if j not in factors}
    first = table.matrix.shape[1]
    indicators = {j: first + i for i, j in enumerate(numeric)}
    matrix = _filled(table, numeric, weights) if numeric else table.matrix
    told = told_indicators(table, {j: len(rows) for j, rows in where.items()})
    return replace(table, matrix=matrix, factors=factors, indicators=indicators), told


def told_indicators(table: Table, counts: dict[int, int]) -> list[str]:
    """A note on columns whose missing values are told by indicators, with how many there are."""
    return [
        f"missing values are told by indicators in {len(counts)} column{'s' if len(counts) != 1 else ''}: "
        f"{counted(table, counts)}; the indicator joins its column, missing numbers are set to the mean of their "
        "column, missing categories are a level of their own"
    ]


def _where(table: Table) -> dict[int, NDArray[np.intp]]:
    """Rows in which each column that is used is missing, of the columns that are anywhere."""
    suspect = _not_finite(table.matrix)
    found = {}
    for j in sorted(set(range(table.n_variables)) - table.excluded):
        factor = table.factors.get(j)
        if factor is not None:
            rows = np.flatnonzero(factor.codes < 0)
        elif suspect[table.position[j]]:
            rows = _missing_numbers(table, j)
        else:
            continue
        if len(rows):
            found[j] = rows
    return found


def _not_finite(matrix: Matrix) -> NDArray[np.bool_]:
    """Which columns may hold values that are not finite: one of them spoils the sum."""
    if isinstance(matrix, Beside):  # what is stored in its own way has its own way with missing values
        return np.concatenate([np.zeros(matrix.n_stored, dtype=bool), _not_finite(matrix.plain)])
    if isinstance(matrix, ColumnsApart):
        return np.concatenate([_not_finite(column[:, None]) for column in matrix.columns])
    if matrix.dtype.kind != "f":
        return np.zeros(matrix.shape[1], dtype=bool)
    with np.errstate(invalid="ignore", over="ignore"):
        return ~np.isfinite(np.asarray(matrix.sum(axis=0, dtype=np.float64)).ravel())


def _missing_numbers(table: Table, j: int) -> NDArray[np.intp]:
    matrix, place = table.matrix, int(table.position[j])
    if not sparse.issparse(matrix):
        values, rows = matrix[:, place], None
    else:
        stored = slice(matrix.indptr[place], matrix.indptr[place + 1])
        values, rows = matrix.data[stored], matrix.indices[stored]
    infinite = int(np.isinf(values).sum())
    if infinite:
        refuse_infinite(table, {j: infinite})
    missing = np.flatnonzero(np.isnan(values))
    return missing if rows is None else rows[missing].astype(np.intp)


def with_level(factor: Factor) -> Factor:
    """Missing values as the last level."""
    codes = factor.codes.astype(code_type(len(factor.levels) + 1))
    codes[codes < 0] = len(factor.levels)
    return replace(factor, codes=codes, levels=(*factor.levels, LEVEL))


def _filled(table: Table, where: dict[int, NDArray[np.intp]], weights: Floats) -> Matrix:
    """The matrix with means for missing numbers, and the indicators after its last column."""
    if isinstance(table.matrix, Beside):
        alone = replace(table, matrix=table.matrix.plain, position=table.position - table.matrix.n_stored)
        return Beside(table.matrix.stored, _filled(alone, where, weights))
    if isinstance(table.matrix, ColumnsApart):
        return _filled_apart(table, table.matrix, where, weights)
    matrix = table.matrix.copy()
    for j, rows in where.items():
        place = int(table.position[j])
        mean = _known_mean(matrix[:, [place]], rows, weights)
        if sparse.issparse(matrix):
            stored = slice(matrix.indptr[place], matrix.indptr[place + 1])
            matrix.data[stored] = np.where(np.isnan(matrix.data[stored]), mean, matrix.data[stored])
        else:
            matrix[rows, place] = mean
    columns = np.concatenate([np.full(len(rows), i) for i, rows in enumerate(where.values())])
    rows = np.concatenate(list(where.values()))
    shape = (table.n_rows, len(where))
    new = sparse.csc_array((np.ones(len(rows), dtype=matrix.dtype), (rows, columns)), shape=shape)
    if sparse.issparse(matrix):
        return sparse.csc_array(sparse.hstack([matrix, new]))
    return np.asfortranarray(np.hstack([matrix, new.toarray()]))


def _filled_apart(
    table: Table, matrix: ColumnsApart, where: dict[int, NDArray[np.intp]], weights: Floats
) -> ColumnsApart:
    """The same of columns that lie apart: only those with missing values are copied."""
    columns, indicators = list(matrix.columns), []
    for j, rows in where.items():
        place = int(table.position[j])
        filled = columns[place].copy()
        filled[rows] = _known_mean(matrix[:, [place]], rows, weights)
        columns[place] = filled
        indicators.append(np.zeros(table.n_rows, dtype=np.int8))
        indicators[-1][rows] = 1
    return ColumnsApart([*columns, *indicators])


def _known_mean(column: Any, missing: NDArray[np.intp], weights: Floats) -> float:
    """Weighted mean of the known values; 0 when there is none, and the column is constant."""
    known = np.ones(len(weights), dtype=bool)
    known[missing] = False
    values = column.toarray()[:, 0] if sparse.issparse(column) else column[:, 0]
    if not known.any():
        return 0.0
    return float(np.average(values[known].astype(np.float64), weights=weights[known]))
