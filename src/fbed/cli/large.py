"""Files that are larger than memory, on the command line: their names and columns, all that is known of them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from fbed.errors import InvalidInput
from fbed.larger_than_memory.sources import is_pattern, lies_elsewhere, source_of
from fbed.memory import available_memory
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options for tables that are read part by part."""
    large = parser.add_argument_group("large tables", "Parquet files (also several: 'data/*.parquet', or a folder)")
    large.add_argument("--memory-limit", metavar="SIZE", help="read the table part by part within so much memory (2GB)")
    large.add_argument("--dask", metavar="ADDRESS", help="let workers of a Dask scheduler read it (tcp://host:8786)")
    large.add_argument("--checkpoint", metavar="FILE", help="write every step down; a search that was killed goes on")


def read(arguments: argparse.Namespace, has_levels: bool) -> FileData | None:
    """What is known of a table that is read part by part; None for one that is read whole."""
    if not is_large(arguments.file, bool(arguments.memory_limit or arguments.dask)):
        return None
    if has_levels or arguments.output:
        what = "--output writes" if arguments.output else "--reference and --positive need"
        raise InvalidInput(f"{what} a table that is in memory: leave out --memory-limit and --dask, or that option")
    return described(arguments.file)


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
