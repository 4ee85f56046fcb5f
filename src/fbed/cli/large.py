"""Files that are larger than memory, on the command line: their names and columns, all that is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fbed.errors import InvalidInput
from fbed.partitions.sources import available_memory, is_pattern, lies_elsewhere, source_of
from fbed.tables import readers
from fbed.tables.columns import hint


class Files(str):
    """A path or pattern, with the names of the columns of its files."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class FileData(readers.Data):
    """A table that is read by `select`, part by part."""

    def vector(self, name: str, role: str) -> Any:
        """The name itself, if there is such a column."""
        if name not in self.table.columns:
            raise InvalidInput(f"{role} {name!r} is not in the file: {hint(name, self.table.columns)}")
        return name


def is_large(path: str, asked: bool) -> bool:
    """Whether a path is read part by part: because somebody asked for it, it is several files, or has no room."""
    if path == readers.STDIN:
        return False
    if asked or is_pattern(path):
        return asked or lies_elsewhere(path)
    return lies_elsewhere(path) and source_of(path).n_bytes > available_memory() // 4


def described(path: str) -> FileData:
    """The columns of files, without reading their rows."""
    if not lies_elsewhere(path):
        raise InvalidInput(
            f"{path} is read whole: --memory-limit and --dask are for Parquet and Feather files, to which other tables "
            "can be converted (pandas: pd.read_csv(…).to_parquet(…))"
        )
    files = Files(path)
    files.columns = source_of(path).names or ()
    return FileData(files)
