"""Sparse matrices, their structure checked once: whoever reads them afterwards follows their indices blindly.

SciPy's own conversions are such readers, so that a matrix is checked in the format in which it came.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fbed.errors import InvalidInput

_MOST_ROWS = 2**31 - 1  # the kernels count rows of sparse columns in 32 bits


def checked_csc(X: Any) -> Any:
    """A sparse matrix of any format as a canonical CSC array; the user's own is neither changed nor copied in vain."""
    check_structure(X)
    if X.shape[0] >= _MOST_ROWS:
        raise InvalidInput(f"X has {X.shape[0]:,} rows; a sparse matrix may have {_MOST_ROWS - 1:,} at most")
    try:
        csc = sparse.csc_array(X)
    except _ERRORS as error:
        raise _broken(X, str(error)) from error
    if not csc.has_canonical_format:
        csc = csc.copy()
        csc.sum_duplicates()
    return csc


def check_structure(X: Any) -> None:
    """Raise when following the indices of a sparse matrix would lead out of it."""
    try:
        _CHECKS[X.format](X)
    except InvalidInput:
        raise
    except _ERRORS as error:  # parts of types that nobody foresaw
        raise _broken(X, str(error)) from error


def _broken(X: Any, problem: str) -> InvalidInput:
    return InvalidInput(
        f"X is a sparse matrix ({X.format}) whose parts do not fit together: {problem}. Build it again, for example by "
        "scipy.sparse.csc_array((values, (rows, columns)), shape=…)"
    )


def _require(X: Any, holds: Any, problem: str) -> None:
    if not holds:
        raise _broken(X, problem)


def _check_whole(X: Any, **parts: Any) -> None:
    """Indices are whole numbers in one dimension, or they are not followed anywhere."""
    for name, values in parts.items():
        array = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu"
        _require(X, array, f"its {name} must be whole numbers in one dimension")


def _check_range(X: Any, name: str, values: Any, end: int) -> None:
    if len(values):
        low, high = int(values.min()), int(values.max())
        _require(X, low >= 0 and high < end, f"its {name} run from {low} to {high}, expected 0 to {end - 1}")


def _check_compressed(X: Any) -> None:
    """CSC, CSR and BSR, which holds blocks in the place of values."""
    across = X.shape[::-1] if X.format == "csc" else X.shape
    block = X.blocksize if X.format == "bsr" else (1, 1)
    n_major, n_minor = across[0] // block[0], across[1] // block[1]
    _check_whole(X, indptr=X.indptr, indices=X.indices)
    _require(X, np.ndim(X.data) == (3 if X.format == "bsr" else 1), f"its data have {np.ndim(X.data)} dimensions")
    _require(X, len(X.indptr) == n_major + 1, f"its indptr has {len(X.indptr)} entries, expected {n_major + 1}")
    _require(X, X.indptr[0] == 0, f"its indptr begins with {X.indptr[0]}, expected 0")
    _require(X, (X.indptr[1:] >= X.indptr[:-1]).all(), "its indptr decreases")
    stored = min(len(X.indices), len(X.data))
    _require(X, X.indptr[-1] <= stored, f"its indptr ends with {X.indptr[-1]}, but {stored} values are stored")
    _check_range(X, "indices", X.indices[: int(X.indptr[-1])], n_minor)


def _check_coordinates(X: Any) -> None:
    _check_whole(X, row=X.row, col=X.col)
    sizes = (len(X.data), len(X.row), len(X.col))
    _require(X, len(set(sizes)) == 1, "it has {} values, {} rows and {} columns of values".format(*sizes))
    _check_range(X, "rows", X.row, X.shape[0])
    _check_range(X, "columns", X.col, X.shape[1])


def _check_diagonals(X: Any) -> None:
    _check_whole(X, offsets=X.offsets)
    _require(X, np.ndim(X.data) == 2, f"its data have {np.ndim(X.data)} dimensions, expected 2")
    _require(X, len(X.data) == len(X.offsets), f"it has {len(X.data)} diagonals and {len(X.offsets)} offsets")
    _require(X, len(np.unique(X.offsets)) == len(X.offsets), "a diagonal comes twice")


def _check_lists(X: Any) -> None:
    rows, data = [len(row) for row in X.rows], [len(row) for row in X.data]
    _require(X, len(rows) == X.shape[0] and rows == data, "its rows and its values have different lengths")
    for row in X.rows:
        _check_range(X, "columns", np.asarray(row, dtype=np.int64), X.shape[1])


def _check_keys(X: Any) -> None:
    keys = np.array(list(X.keys()), dtype=np.int64).reshape(-1, 2)
    _check_range(X, "rows", keys[:, 0], X.shape[0])
    _check_range(X, "columns", keys[:, 1], X.shape[1])


_CHECKS = {
    "csc": _check_compressed,
    "csr": _check_compressed,
    "bsr": _check_compressed,
    "coo": _check_coordinates,
    "dia": _check_diagonals,
    "lil": _check_lists,
    "dok": _check_keys,
}
_ERRORS = (ValueError, TypeError, IndexError, AttributeError, OverflowError)
