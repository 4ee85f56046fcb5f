"""Files → what `select` reads.

Tables with column names (CSV, TSV, Parquet, Feather) become pandas data frames, of which the outcome is a column.
Matrices (svmlight, NumPy and SciPy `.npz`) keep their form; the outcome is a vector beside them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fbed.errors import InvalidInput
from fbed.tables.columns import hint, listing, sorted_values
from fbed.tables.plink import FAMILY, PERSON, genotypes, is_plink
from fbed.tables.sparsity import checked_csc

Source = str | io.BytesIO  # a file by its name, or what came through a pipe

STDIN = "-"
FORMATS = (
    ".csv, .tsv (also .gz, .bz2, .xz), .parquet, .feather, .svm, .svmlight, .libsvm (also .gz, .bz2), .npz, .xlsx, "
    ".xls, .dta (Stata), .sav (SPSS), .sas7bdat or .xpt (SAS), .bed (PLINK, with .bim and .fam)"
)

_KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".npz": "npz",
    ".xlsx": "excel",
    ".xls": "excel",
    ".dta": "stata",
    ".sav": "spss",
    ".zsav": "spss",
    ".sas7bdat": "sas",
    ".xpt": "sas",
}
_COMPRESSED: dict[str, tuple[Callable[..., Any], set[str]]] = {  # how a file is opened, and for which kinds
    ".gz": (gzip.open, {"csv", "tsv", "svmlight"}),
    ".bz2": (bz2.open, {"csv", "tsv", "svmlight"}),
    ".xz": (lzma.open, {"csv", "tsv"}),
}
_OF_SPARSE = {"format", "shape", "data", "indices", "indptr", "row", "col", "offsets", "coords", "_is_array"}
_MOST_COLUMNS = 2**25  # of a sparse file: each costs a name and a hundred bytes of a search, whether it holds anything


@dataclass(frozen=True)
class Data:
    """What a file holds.

    `table` is a data frame, or a matrix whose columns are called `names` if the file names them; `vectors` are other
    arrays of the file, the outcome `y` among them. `notes` is what the reader did that a person should know.
    """

    table: Any
    names: tuple[str, ...] | None = None
    vectors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_frame(self) -> bool:
        """Whether the columns, the outcome among them, are found by name."""
        return hasattr(self.table, "columns")

    def vector(self, name: str, role: str) -> Any:
        """The values of an outcome or of weights, by name."""
        known = list(self.table.columns) if self.is_frame else list(self.vectors)
        if name not in known:
            what = "columns" if self.is_frame else "arrays beside the matrix"
            raise InvalidInput(f"{role} {name!r} is not in the file: {hint(name, known, what)}")
        return self.table[name] if self.is_frame else self.vectors[name]


def kind_of(path: str, sep: str | None = None) -> str:
    """The format of a file by its extension; any other text file when a separator is given."""
    if path == STDIN:
        return "csv"
    if sep is None and not Path(path).suffixes and is_stream(path):  # as in <(zcat data.csv.gz)
        return "csv"
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSED else None
    kind = _KINDS.get(suffixes[-1] if suffixes else "", "csv" if sep else None)
    if kind is None or (packing and kind not in _COMPRESSED[packing][1]):
        raise InvalidInput(f"{path}: unknown kind of file; expected {FORMATS} (or say --sep for other text files)")
    return kind


def is_stream(path: str) -> bool:
    """Whether what is read once from a file is gone: standard input, a pipe, a device."""
    try:
        return path == STDIN or not stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):  # it does not exist, or cannot
        return False


def read(
    path: str,
    sep: str | None = None,
    *,
    pheno: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    na_values: Sequence[str] | None = None,
) -> Data:
    """Read a file (or '-', standard input); the rest says how a text file is written.

    Parameters
    ----------
    path : file whose extension tells its kind.
    sep : separator of a text file; ',' by default, a tab for .tsv.
    decimal : decimal point, '.' by default.
    encoding : 'utf-8' by default.
    na_values : words that mean 'missing', instead of the usual ones ('', 'NA', 'None', 'nan' and so on).
    pheno : text table of phenotypes and covariates, where the file has PLINK's genotypes; the rest is about it then.
    """
    if path != STDIN and is_plink(path):
        return Data(genotypes(path, None if pheno is None else phenotypes(pheno, sep, decimal, encoding, na_values)))
    if pheno is not None:
        raise InvalidInput(
            f"--pheno is a table beside PLINK's genotypes, which {path} is not: expected cohort.bed or so"
        )
    if path != STDIN and not os.path.exists(path):
        raise InvalidInput(f"{path}: no such file")
    if os.path.isdir(path):
        raise InvalidInput(f"{path}: this is a folder, expected a file")
    kind = kind_of(path, sep)
    with explained(path, "read"):
        source = _whole(path) if is_stream(path) else path
        if kind in ("csv", "tsv"):
            return _read_text(source, separator(sep, kind), decimal, encoding, na_values)
        if not (decimal is None and encoding is None and na_values is None):
            raise InvalidInput("--decimal, --encoding and --na-values are about text files, which this is not")
        return _READERS[kind](source)


def phenotypes(
    path: str,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    na_values: Sequence[str] | None = None,
) -> Any:
    """A table of samples, whose names are text even where they look like numbers: 007 is not 7."""
    if not os.path.exists(path):
        raise InvalidInput(f"{path}: no such file")
    if sep is None and Path(path).suffix.lower() not in _KINDS:
        with explained(path, "read"), open(path, encoding=encoding or "utf-8-sig") as file:
            first = file.readline()
        sep = "\t" if "\t" in first else "," if "," in first else " "
    frame = read(path, sep, decimal=decimal, encoding=encoding, na_values=na_values).table
    names = [name for name in (*FAMILY, *PERSON) if name in frame.columns]
    if names and kind_of(path, sep) in ("csv", "tsv"):
        as_text = pandas_for("text tables").read_csv(
            path, sep=separator(sep, kind_of(path, sep)), usecols=names, dtype=str, encoding=encoding or "utf-8-sig"
        )
        frame = frame.assign(**{name: as_text[name] for name in names})
    return frame


def _whole(path: str) -> io.BytesIO:
    """All that a stream holds, unpacked: readers look at a table more than once."""
    if path == STDIN:
        content = io.BytesIO(sys.stdin.buffer.read())
    else:
        with opened_file(path, "rb") as file:
            content = io.BytesIO(file.read())
    if not content.getbuffer().nbytes:
        raise InvalidInput("nothing came in, expected a table")
    return content


def opened(X: Any) -> Any:
    """A table in memory: a file is read by its name, a lazy polars frame collected; anything else is as it is."""
    if isinstance(X, (str, Path)):
        if is_plink(X):
            return genotypes(X)
        data = read(str(X))
        if not data.is_frame:
            raise InvalidInput(
                f"{X} holds a matrix and an outcome beside it: data = fbed.tables.readers.read({str(X)!r}), then "
                "fbed.select(data.table, data.vectors['y'])"
            )
        return data.table
    if type(X).__name__ == "LazyFrame" and hasattr(X, "collect"):
        return X.collect()
    return X


def with_levels(data: Data, first: Mapping[str, str], last: Mapping[str, str]) -> Data:
    """The table with some columns as categories that begin with a level of choice (the reference), or end with it."""
    import pandas as pd

    frame = data.table
    for places, at_end in ((first, False), (last, True)):
        for name, level in places.items():
            column = data.vector(name, "--positive" if at_end else "--reference")
            levels = sorted_values(set(column.dropna().tolist()))
            chosen = [value for value in levels if str(value) == level]
            if not chosen:
                raise InvalidInput(f"column {name!r} has no level {level!r}: {hint(level, levels, 'levels')}")
            others = [value for value in levels if value is not chosen[0]]
            order = [*others, *chosen] if at_end else [*chosen, *others]
            frame = frame.assign(**{name: pd.Categorical(column, categories=order)})
    return replace(data, table=frame)


def python_lines(
    path: str,
    sep: str | None,
    vectors: Mapping[str, Sequence[str]],
    levels: tuple[dict[str, str], dict[str, str]] | None = None,
    **form: Any,
) -> tuple[str, ...]:
    """Lines of Python that read a file as the command line does; `vectors` are arguments and their arrays in the file.

    Nothing for standard input and pipes, which cannot be read again.
    """
    if is_stream(path):
        return ()
    given = [repr(path), *([] if sep is None else [repr(sep)])]
    given += [f"{name}={value!r}" for name, value in form.items() if value is not None]
    call = f"readers.read({', '.join(given)})"
    if levels is not None:
        call = f"readers.with_levels({call}, {levels[0]!r}, {levels[1]!r})"
    if not vectors:
        return ("from fbed.tables import readers", "", f"X = {call}.table")
    lines = []
    for name, arrays in vectors.items():
        parts = ", ".join(f"data.vector({array!r}, {name!r})" for array in arrays)
        lines.append(f"{name} = {parts}")
    return (
        "from fbed.tables import readers",
        "",
        f"data = {call}",
        "X = data.table",
        "feature_names = data.names",
        *lines,
    )


def separator(sep: str | None, kind: str) -> str:
    r"""One character; '\t' may be typed as it is written."""
    chosen = {"\\t": "\t", "tab": "\t"}.get(sep, sep) if sep is not None else ("\t" if kind == "tsv" else ",")
    if len(chosen) != 1:
        raise InvalidInput(f"--sep must be one character, such as ';' or '\\t', got {sep!r}")
    return chosen


def _read_text(
    source: Source, sep: str, decimal: str | None, encoding: str | None, na_values: Sequence[str] | None
) -> Data:
    pandas_for("text tables")
    from fbed.tables import text_tables

    form = text_tables.Form(
        sep, decimal or ".", encoding or "utf-8-sig", None if na_values is None else tuple(na_values)
    )
    frame, notes = text_tables.read(source, form)
    data = _without_row_numbers(frame)
    return replace(data, notes=(*data.notes, *notes))


def _without_row_numbers(frame: Any) -> Data:
    """Row numbers that were saved with a table are no predictor: on sorted rows they would even be a good one."""
    first = str(frame.columns[0])
    numbers = frame.iloc[:, 0].to_numpy()
    if not first.startswith("Unnamed:") or numbers.dtype.kind != "i" or len(frame) == 0:
        return Data(frame)
    if not np.array_equal(numbers - numbers[0], np.arange(len(frame))):
        return Data(frame)
    return Data(frame.iloc[:, 1:], notes=("the first column has no name and holds row numbers: left out",))


def _read_parquet(source: Source) -> Data:
    return _framed(pandas_for("Parquet files").read_parquet(source))


def _read_feather(source: Source) -> Data:
    return _framed(pandas_for("Feather files").read_feather(source))


def _read_excel(source: Source) -> Data:
    try:
        return _framed(_with("openpyxl", lambda: pandas_for("Excel files").read_excel(source)))
    except ValueError as error:
        if "format cannot be determined" not in str(error):
            raise
        raise InvalidInput("this is no Excel file, whatever its name says") from error


def _read_stata(source: Source) -> Data:
    return _framed(pandas_for("Stata files").read_stata(source, order_categoricals=False))


def _read_spss(source: Source) -> Data:
    return _framed(_with("pyreadstat", lambda: pandas_for("SPSS files").read_spss(source)))


def _read_sas(source: Source) -> Data:
    frame = pandas_for("SAS files").read_sas(source, encoding="latin-1")
    return _framed(frame)


def _with(package: str, make: Callable[[], Any]) -> Any:
    """What pandas needs for a format, by name."""
    try:
        return make()
    except ImportError as error:
        raise InvalidInput(f"this format needs {package}: pip install {package}") from error


def _framed(frame: Any) -> Data:
    frame.columns = [str(name) for name in frame.columns]
    return Data(frame)


def _read_svmlight(source: Source) -> Data:
    """Columns are called by their number in the file, whether it counts from 0 or from 1."""
    from sklearn.datasets import load_svmlight_file

    matrix, y = load_svmlight_file(source, zero_based=True)
    if matrix.shape[1] > _MOST_COLUMNS:
        raise InvalidInput(
            f"the largest column number is {matrix.shape[1] - 1:,}, and columns up to it cannot all be held: number "
            f"them below {_MOST_COLUMNS:,}"
        )
    matrix = checked_csc(matrix)
    first = int(matrix.shape[1] > 0 and matrix.indptr[1] == 0)  # nothing in column 0: the file counts from 1
    names = tuple(str(j) for j in range(first, matrix.shape[1]))
    labels = y.astype(np.int64) if np.array_equal(y, np.round(y)) and np.abs(y).max(initial=0) < 2**53 else y
    return Data(matrix[:, first:], names, {"y": labels})


def _read_npz(source: Source) -> Data:
    try:
        loaded = np.load(source, allow_pickle=False)
    except ValueError as error:  # NumPy takes whatever it does not know for objects, and says how to trust them
        raise InvalidInput("this is no .npz file, as np.savez and scipy.sparse.save_npz write them") from error
    if isinstance(loaded, np.ndarray):
        raise InvalidInput("this is a single array, expected several with names, as np.savez writes them")
    with loaded as file:
        arrays = {name: file[name] for name in file.files}
    if {"format", "shape", "data"} <= set(arrays):
        if isinstance(source, io.BytesIO):
            source.seek(0)
        matrix = checked_csc(sparse.load_npz(source))
        arrays = {name: values for name, values in arrays.items() if name not in _OF_SPARSE}
    elif "X" in arrays:
        matrix = arrays.pop("X")
    else:
        raise InvalidInput(
            f"expected an array X, or a matrix saved by scipy.sparse.save_npz, found {listing(arrays) or 'nothing'}"
        )
    names = next((arrays.pop(key) for key in ("feature_names", "names") if key in arrays), None)
    if names is not None and names.ndim != 1:
        raise InvalidInput(f"the names of the columns must be one list, got an array of {names.ndim} dimensions")
    return Data(matrix, None if names is None else tuple(str(name) for name in names), arrays)


_READERS: dict[str, Callable[[Source], Data]] = {
    "parquet": _read_parquet,
    "feather": _read_feather,
    "svmlight": _read_svmlight,
    "npz": _read_npz,
    "excel": _read_excel,
    "stata": _read_stata,
    "spss": _read_spss,
    "sas": _read_sas,
}


def opened_file(path: str, mode: str = "wb") -> Any:
    """A file, through what its name says it is packed by."""
    opener = _COMPRESSED.get(Path(path).suffix.lower(), (open, set()))[0]
    return opener(path, mode)


@contextmanager
def explained(path: str, verb: str) -> Iterator[None]:
    """Whatever goes wrong in reading or writing a file is told in one line that names the file."""
    shown = "standard input" if path == STDIN else path
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{shown}: {error}") from error
    except ImportError as error:  # pandas is there, what it needs for this format is not
        raise InvalidInput(f"cannot {verb} {shown} without pyarrow: pip install pyarrow") from error
    except Exception as error:  # the parsers of other libraries raise whatever a damaged file makes them raise
        reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[0] or type(error).__name__
        raise InvalidInput(f"cannot {verb} {shown}: {reason}") from error


def pandas_for(what: str) -> Any:
    """pandas, or an error that says what needs it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InvalidInput(f"{what} need pandas and pyarrow: pip install pandas pyarrow") from error
    return pd
