"""The kept columns and the outcome → files, in the format that the name says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput
from fbed.tables.columns import listing
from fbed.tables.readers import STDIN, explained, kind_of, opened_file, pandas_for, separator
from fbed.tables.table import Name

_WRITTEN = ("csv", "tsv", "parquet", "feather", "svmlight", "npz")


def write(path: str, kept: Any, columns: Sequence[Name], outcome: Mapping[str, Any]) -> None:
    """Write the kept columns and the outcome (a time and an event are two), in the format of the extension."""
    names = [str(name) for name in columns]
    part = Path(path).with_name(f".part-{Path(path).name}")  # a write that fails half-way leaves no half file
    with explained(path, "write"):
        try:
            _write(str(part), kept, names, outcome)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _write(path: str, kept: Any, names: Sequence[str], outcome: Mapping[str, Any]) -> None:
    kind = kind_of(path)
    if kind == "npz":
        _write_npz(path, _numbers(kept), names, outcome)
    elif kind == "svmlight":
        _write_svmlight(path, _numbers(kept), names, outcome)
    else:
        _write_frame(path, kind, _frame(kept, names, outcome))


def check_output(path: str, source: str, survival: bool = False) -> None:
    """Find out before the work begins whether its outcome can be written."""
    if kind_of(path) not in _WRITTEN:
        raise InvalidInput(f"--output {path}: this kind of file is read only; write .csv, .parquet, .feather or .npz")
    if kind_of(path) == "svmlight" and survival:
        raise InvalidInput("svmlight files hold one outcome, not a time and an event: write .csv, .parquet or .npz")
    if path == STDIN:
        raise InvalidInput("--output needs a file name; the result itself goes to standard output with --json")
    if not Path(path).absolute().parent.is_dir():
        raise InvalidInput(f"--output {path}: there is no folder {Path(path).parent}")
    if source != STDIN and Path(path).exists() and Path(source).exists() and Path(path).samefile(source):
        raise InvalidInput(f"--output {path} would overwrite the input: choose another name")


def _frame(kept: Any, names: Sequence[str], outcome: Mapping[str, Any]) -> Any:
    pd = pandas_for("tables")
    if not hasattr(kept, "columns"):
        values = kept.toarray() if sparse.issparse(kept) else kept
        kept = pd.DataFrame(values, columns=list(names))
    for target in outcome:
        if target in kept.columns:
            raise InvalidInput(
                f"a kept column is called {target!r} like the outcome: write .npz, which holds them apart"
            )
    return kept.assign(**{name: y if hasattr(y, "index") else np.asarray(y) for name, y in outcome.items()})


def _write_frame(path: str, kind: str, frame: Any) -> None:
    if kind == "parquet":
        frame.to_parquet(path, index=False)
    elif kind == "feather":
        frame.reset_index(drop=True).to_feather(path)
    else:
        frame.to_csv(path, index=False, sep=separator(None, kind))


def _numbers(kept: Any) -> Any:
    """The kept columns as a matrix, for formats that hold nothing else."""
    if not hasattr(kept, "columns"):
        return kept
    text = [name for name in kept.columns if kept[name].dtype.kind not in "biuf"]
    if text:
        raise InvalidInput(f"this format holds numbers only, not the text of {listing(text)}: write .csv or .parquet")
    return kept.to_numpy()


def _write_npz(path: str, matrix: Any, names: Sequence[str], outcome: Mapping[str, Any]) -> None:
    """A single outcome is called y, a time and an event keep their names."""
    names_of_outcome = ["y"] if len(outcome) == 1 else list(outcome)
    arrays: dict[str, Any] = dict(zip(names_of_outcome, map(_without_objects, outcome.values()), strict=True))
    arrays["feature_names"] = np.array(names, dtype=str)
    with open(path, "wb") as file:  # given a name, NumPy might append another extension
        np.savez_compressed(file, **arrays, **(_sparse_parts(matrix) if sparse.issparse(matrix) else {"X": matrix}))


def _sparse_parts(matrix: Any) -> dict[str, Any]:
    """The arrays that scipy.sparse.load_npz expects; save_npz would leave no room for the outcome."""
    csc = sparse.csc_array(matrix)
    shape, form = np.array(csc.shape), np.array(b"csc")
    return {"format": form, "shape": shape, "data": csc.data, "indices": csc.indices, "indptr": csc.indptr}


def _without_objects(y: Any) -> NDArray[Any]:
    values = np.asarray(y)
    return values.astype(str) if values.dtype.kind == "O" else values


def _write_svmlight(path: str, matrix: Any, names: Sequence[str], outcome: Mapping[str, Any]) -> None:
    """Columns that are called by number keep it, as in the file they came from; others are counted from 1."""
    from sklearn.datasets import dump_svmlight_file

    (y,) = outcome.values()  # `check_output` has seen to it
    if np.asarray(y).dtype.kind not in "biuf":
        raise InvalidInput("svmlight files hold numbers only, but the outcome is text: write .csv, .parquet or .npz")
    numbered = all(name.isdecimal() for name in names)
    column = np.array([int(name) for name in names] if numbered else range(1, len(names) + 1), dtype=np.intp)
    stored = sparse.coo_array(matrix)
    shape = (stored.shape[0], int(column.max(initial=0)) + 1)
    placed = sparse.csr_array((stored.data, (stored.row, column[stored.col])), shape=shape)
    placed.sort_indices()
    placed.indices, placed.indptr = placed.indices.astype(np.int32), placed.indptr.astype(np.int32)  # what it reads
    with opened_file(path) as file:
        dump_svmlight_file(placed, np.asarray(y), file, zero_based=True)
