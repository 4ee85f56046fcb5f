"""Tables that lie elsewhere → their parts: Parquet files, Arrow datasets, lazy frames, mapped files, Dask."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.larger_than_memory.part_readers import (
    ArrayRows,
    DelayedRows,
    FragmentRows,
    LazyRows,
    MappedRows,
    Part,
    Stamp,
    explained,
)
from fbed.tables.columns import listing
from fbed.tables.readers import opened

ROWS = 2**16
"""Rows that a part has at least, where its storage leaves a choice: enough to make up for asking it."""

_BLOCK = 2**25  # bytes of a part of a matrix by rows, which is read whole
_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclass(frozen=True)
class Source:
    """A table by its parts, in the order of the rows.

    `stamps` are its files as they were; `n_bytes` is what it would take in memory, as far as that is known.
    """

    parts: tuple[Part, ...]
    names: tuple[str, ...] | None
    n_columns: int
    types: tuple[str, ...]
    stamps: tuple[Stamp, ...] = ()
    n_bytes: float = np.inf

    @property
    def n_rows(self) -> int:
        """Of all parts together."""
        return sum(part.n_rows for part in self.parts)


def size_in_bytes(size: Any) -> int:
    """A number of bytes, or text such as '2GB' or '512 MiB'."""
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", size.lower())
        if found is not None:
            return int(float(found[1]) * _UNITS[found[2] or ""])
    elif isinstance(size, (int, float, np.number)) and not isinstance(size, bool) and size >= 1 and np.isfinite(size):
        return int(size)
    raise InvalidInput(f"memory_limit must be a number of bytes or text such as '2GB', got {size!r}")


def whole(X: Any) -> Any:
    """A table that lies elsewhere, in memory."""
    with explained(None):
        if isinstance(X, (str, Path)):
            return opened(X) if not is_pattern(str(X)) else _dataset(str(X), _files_of(str(X))).to_table()
        if _is_lazy(X):
            return X.collect()
        return X.to_table() if _is_dataset(X) else X


def lies_elsewhere(X: Any) -> bool:
    """Whether X is a kind of table that may be larger than memory."""
    if isinstance(X, (str, Path)):
        return bool(_files_of(str(X)))
    return isinstance(X, np.memmap) or _is_lazy(X) or _is_dataset(X) or is_dask(X)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def _is_lazy(X: Any) -> bool:
    return type(X).__name__ == "LazyFrame" and hasattr(X, "collect_schema")


def _is_dataset(X: Any) -> bool:
    return hasattr(X, "get_fragments") and hasattr(X, "schema")


def source_of(X: Any) -> Source:
    """The parts of a table that `lies_elsewhere`."""
    if isinstance(X, (str, Path)):
        return _of_files(str(X), _files_of(str(X)))
    if isinstance(X, np.memmap):
        return _of_map(X)
    if _is_lazy(X):
        return _of_lazy(X)
    return _of_dask(X) if is_dask(X) else _of_dataset(X)


# --- files --------------------------------------------------------------------------------------------------------


def is_pattern(path: str) -> bool:
    """Whether a path may stand for several files."""
    return os.path.isdir(path) or (glob.has_magic(path) and not os.path.exists(path))


def _files_of(path: str) -> list[str]:
    """The files that a pattern, a folder or a path stands for, if Arrow reads their columns one by one."""
    if not is_pattern(path):
        return [path] if Path(path).suffix.lower() in _FORMATS and os.path.isfile(path) else []
    pattern = os.path.join(glob.escape(path), "**", "*") if os.path.isdir(path) else path
    found = [name for name in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(name)]
    found = [name for name in found if not Path(name).name.startswith((".", "_"))]
    if not found:
        raise InvalidInput(f"{path}: no file has such a name")
    kinds = sorted({Path(name).suffix.lower() for name in found})
    if len({_FORMATS.get(kind) for kind in kinds}) > 1 or kinds[0] not in _FORMATS:
        what = "this is a folder of" if os.path.isdir(path) else "this stands for"
        raise InvalidInput(
            f"{path}: {what} files of the kinds {listing(kinds)}; several files are read together when all of them "
            "are Parquet (.parquet) or Feather (.feather)"
        )
    return found


def _of_files(path: str, files: Sequence[str]) -> Source:
    try:
        return _of_dataset(_dataset(path, files))
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def _dataset(path: str, files: Sequence[str]) -> Any:
    """Files as one dataset; folders such as year=2026 are columns of a folder's files."""
    hive = {"partitioning": "hive", "partition_base_dir": path} if os.path.isdir(path) else {}
    form = {"format": _FORMATS[Path(files[0]).suffix.lower()], **hive}
    dataset = _arrow_dataset().dataset
    return dataset(list(files), schema=_common_schema(dataset(list(files), **form)), **form)


def _common_schema(dataset: Any) -> Any:
    """Every column that any file has, in a type for all of them; Arrow takes those of the first file."""
    import pyarrow

    fields, latest = {field.name: field for field in dataset.schema}, None
    for fragment in dataset.get_fragments():
        if fragment.physical_schema == latest:
            continue
        latest = fragment.physical_schema
        for field in latest:
            known = fields.setdefault(field.name, field)
            if known.type != field.type:
                fields[field.name] = _widened(pyarrow, known, field)
    return pyarrow.schema(list(fields.values()))


def _widened(pyarrow: Any, one: Any, other: Any) -> Any:
    """A column of the type that holds the values of both; the first where there is none, which Arrow may still read."""
    try:
        both = [pyarrow.schema([one]), pyarrow.schema([other])]
        return pyarrow.unify_schemas(both, promote_options="permissive").field(0)
    except TypeError:
        return one


def _arrow_dataset() -> Any:
    try:
        import pyarrow.dataset
    except ImportError as error:
        raise InvalidInput("reading files part by part needs pyarrow: pip install 'fbed[files]'") from error
    return pyarrow.dataset


def _of_dataset(dataset: Any) -> Source:
    parts: list[Part] = []
    stamps = []
    for fragment in dataset.get_fragments():
        path = getattr(fragment, "path", None)
        local = path is not None and "Local" in type(fragment.filesystem).__name__
        stamp = Stamp.of(str(path)) if local else None
        stamps += [stamp] if stamp else []
        parts += [FragmentRows(some, dataset.schema, n, stamp) for some, n in _row_groups(fragment)]
    types = [field.type for field in dataset.schema]
    source = Source(tuple(parts), tuple(dataset.schema.names), len(types), tuple(map(str, types)), tuple(stamps))
    return _weighed(source, sum(_width_of(kind) for kind in types))


def _width_of(kind: Any) -> float:
    """Bytes of a value of an Arrow type; text is coded."""
    try:
        return max(1.0, kind.bit_width / 8)
    except ValueError:
        return 8.0


def _weighed(source: Source, row: float) -> Source:
    return Source(source.parts, source.names, source.n_columns, source.types, source.stamps, row * source.n_rows)


def _row_groups(fragment: Any) -> Iterable[tuple[Any, int]]:
    """Neighbouring row groups that together have enough rows; files of other kinds are one part each."""
    groups = getattr(fragment, "row_groups", None)
    if groups is None:
        n = fragment.count_rows()
        return [(fragment, n)] if n else []
    found, some, n = [], [], 0
    for group in groups:
        some.append(group.id)
        n += group.num_rows
        if n >= ROWS:
            found.append((fragment.subset(row_group_ids=some), n))
            some, n = [], 0
    return [*found, (fragment.subset(row_group_ids=some), n)] if n else found


# --- arrays and lazy frames ---------------------------------------------------------------------------------------


def _slices(n: int, rows: int) -> list[tuple[int, int]]:
    return [(start, min(rows, n - start)) for start in range(0, n, rows)]


def _of_map(X: Any) -> Source:
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InvalidInput(f"a mapped file must be a matrix of numbers, got shape {X.shape} of {X.dtype}")
    by_columns = bool(X.flags.f_contiguous and not X.flags.c_contiguous)
    n, p = X.shape
    rows = ROWS if by_columns else int(np.clip(_BLOCK // (X.itemsize * max(1, p)), 256, ROWS))
    whole = X.filename is not None and (X.flags.c_contiguous or X.flags.f_contiguous) and not hasattr(X.base, "base")
    parts: list[Part]
    if whole:
        X.flush()
        stamp = Stamp.of(str(X.filename))
        parts = [MappedRows(stamp, X.dtype, (n, p), by_columns, X.offset, *piece) for piece in _slices(n, rows)]
    else:
        parts = [ArrayRows(X, *piece) for piece in _slices(n, rows)]
    stamps = (stamp,) if whole else ()
    return Source(tuple(parts), None, p, (str(X.dtype),) * p, stamps, float(X.nbytes))


def _of_lazy(X: Any) -> Source:
    import polars

    with explained(None):
        schema = X.collect_schema()
        n = int(X.select(polars.len()).collect().item())
    parts = tuple(LazyRows(X, *piece) for piece in _slices(n, 2 * ROWS))
    return Source(
        parts, tuple(schema.names()), len(schema), tuple(map(str, schema.dtypes())), n_bytes=8.0 * n * len(schema)
    )


def _of_dask(X: Any) -> Source:
    """Partitions as they are; the columns of an array are brought together."""
    from dask.base import compute
    from dask.delayed import delayed as later

    named = hasattr(X, "columns")
    if not named:
        if X.ndim != 2:
            raise InvalidInput(f"X must have two dimensions (rows, columns), got shape {X.shape}")
        X = X.rechunk({1: -1})
        if np.isnan(X.shape[0]):
            X = X.compute_chunk_sizes()
        delayed, lengths = X.to_delayed()[:, 0].tolist(), list(X.chunks[0])
    else:
        delayed = X.to_delayed()
        lengths = list(compute(*[later(len)(part) for part in delayed]))  # type: ignore[no-untyped-call]
    parts = tuple(DelayedRows(part, int(n)) for part, n in zip(delayed, lengths, strict=True) if n)
    if not named:
        return Source(parts, None, X.shape[1], (str(X.dtype),) * X.shape[1])
    return Source(parts, tuple(map(str, X.columns)), len(X.columns), tuple(map(str, X.dtypes)))
