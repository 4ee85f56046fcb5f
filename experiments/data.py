"""The twelve binary classification sets of the paper: where they are, how they are read, and whether they are right.

A set is looked for in a folder (`FBED_DATA_DIR`, with or without a subfolder `paper`) in one of these forms:

* `NAME.npz`: arrays `X` and `y`, or a sparse matrix of `scipy.sparse.save_npz` with `y` added;
* `NAME.arff`, dense or sparse: the outcome is the column called class, target or outcome, or the last one;
* a subfolder `NAME` (or the folder itself) with the challenges' `NAME_train.data` and `NAME_train.labels`, and
  `NAME_valid.*` which is appended: rows of numbers, of `index:value`, or of the indices of ones;
* the files of the UCI repository: `clean2.data`, `secom.data` with `secom_labels.data`, `K9.data`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


class DataError(ValueError):
    """A file does not hold what it should."""


class Absent(DataError):
    """A dataset is not in the folder."""


@dataclass(frozen=True)
class Facts:
    """A row of the paper's table of datasets; `minority` is the smaller of P(T = 1) and P(T = 0)."""

    n: int
    p: int
    share: float
    kind: str
    domain: str
    source: str

    @property
    def minority(self) -> float:
        """Share of the rarer class."""
        return round(min(self.share, 1 - self.share), 2)

    @property
    def repetitions(self) -> int:
        """Splits of the paper's protocol."""
        return 10 if self.n > 1000 else 50


PAPER = {
    "musk": Facts(6598, 166, 0.15, "Real", "Musk activity prediction", "UCI"),
    "sylva": Facts(14394, 216, 0.94, "Mixed", "Forest cover types", "WCCI 2006"),
    "madelon": Facts(2600, 500, 0.5, "Integer", "Artificial", "NIPS 2003"),
    "secom": Facts(1567, 590, 0.93, "Real", "Semi-conductor manufacturing", "UCI"),
    "gina": Facts(3568, 970, 0.51, "Real", "Handwritten digit recognition", "WCCI 2006"),
    "hiva": Facts(4229, 1617, 0.96, "Binary", "Drug discovery", "WCCI 2006"),
    "gisette": Facts(7000, 5000, 0.5, "Integer", "Handwritten digit recognition", "NIPS 2003"),
    "p53": Facts(16772, 5408, 0.01, "Real", "Protein transcriptional activity", "UCI"),
    "arcene": Facts(200, 10000, 0.56, "Binary", "Mass spectrometry", "NIPS 2003"),
    "nova": Facts(1929, 16969, 0.72, "Binary", "Text classification", "WCCI 2006"),
    "dexter": Facts(600, 20000, 0.5, "Integer", "Text classification", "NIPS 2003"),
    "dorothea": Facts(1150, 100000, 0.9, "Binary", "Drug discovery", "NIPS 2003"),
}


@dataclass(frozen=True)
class Dataset:
    """Predictors and a 0/1 outcome; `remarks` say where they differ from the paper's table."""

    name: str
    X: Any
    y: np.ndarray
    remarks: tuple[str, ...]

    @property
    def minority(self) -> float:
        """Share of the rarer class."""
        return float(min(self.y.mean(), 1 - self.y.mean()))


def folder_of_data() -> Path:
    """The folder that `FBED_DATA_DIR` names."""
    given = os.environ.get("FBED_DATA_DIR")
    if not given:
        raise DataError("set the environment variable FBED_DATA_DIR to the folder of the datasets, or give --data")
    return Path(given)


def present(folder: Path) -> list[str]:
    """Names of the paper's sets that are in a folder."""
    return [name for name in PAPER if _find(name, folder) is not None]


def load(name: str, folder: Path) -> Dataset:
    """A set of the paper, checked against its table."""
    if name not in PAPER:
        raise DataError(f"the paper has no dataset {name!r}: choose from {', '.join(PAPER)}")
    reader = _find(name, folder)
    if reader is None:
        raise Absent(f"{name} is not in {folder}: put it there, or try `python -m experiments fetch {name}`")
    return checked(name, *reader())


def checked(name: str, X: Any, y: np.ndarray) -> Dataset:
    """A dataset with its differences from the paper's table; another number of columns is an error."""
    facts = PAPER[name]
    y = as_labels(y, name)
    if X.shape[0] != len(y):
        raise DataError(f"{name} has {X.shape[0]} rows and {len(y)} labels")
    if X.shape[1] != facts.p:
        raise DataError(f"{name} has {X.shape[1]} predictors where the paper has {facts.p}: is it another version?")
    dataset = Dataset(name, X, y, ())
    remarks = []
    if len(y) != facts.n:
        remarks.append(f"{len(y)} rows where the paper has {facts.n}")
    if abs(dataset.minority - facts.minority) > 0.011:
        remarks.append(
            f"{dataset.minority:.2f} of the rows in the rarer class where the paper has {facts.minority:.2f}"
        )
    return Dataset(name, X, y, tuple(remarks))


def as_labels(y: np.ndarray, name: str) -> np.ndarray:
    """Two labels as 0 and 1: the larger, or the last in the alphabet, is 1."""
    levels = np.unique(y)
    if len(levels) != 2:
        raise DataError(f"{name} must have two classes, got {len(levels)}: {levels[:5].tolist()}")
    return (y == levels[1]).astype(np.int8)


Read = Callable[[], tuple[Any, np.ndarray]]


def _find(name: str, folder: Path) -> Read | None:
    """The reader for the first form of a dataset that is there."""
    for place in (folder, folder / "paper", folder / name, folder / "paper" / name):
        for file_name, read in _forms(name).items():
            if (place / file_name).is_file():
                return lambda read=read, file=place / file_name: read(file)  # type: ignore[misc]
    return None


def _forms(name: str) -> dict[str, Callable[[Path], tuple[Any, np.ndarray]]]:
    forms: dict[str, Callable[[Path], tuple[Any, np.ndarray]]] = {
        f"{name}.npz": read_npz,
        f"{name}.arff": read_arff,
        f"{name}_train.data": lambda file: read_challenge(file, PAPER[name].p),
    }
    return forms | {"musk": {"clean2.data": read_musk}, "secom": {"secom.data": read_secom}}.get(
        name, {"K8.data": read_p53} if name == "p53" else {}
    )


def read_npz(file: Path) -> tuple[Any, np.ndarray]:
    """Arrays X and y, or a sparse matrix with y beside it."""
    with np.load(file) as kept:
        y = kept["y"]
        return (kept["X"] if "X" in kept else sp.csc_matrix(sp.load_npz(file))), y


def read_challenge(train: Path, p: int) -> tuple[Any, np.ndarray]:
    """`NAME_train.data` and `.labels`, and `NAME_valid.*` where it has labels."""
    parts = [train.with_name(train.name.replace("_train", f"_{part}")) for part in ("train", "valid")]
    parts = [part for part in parts if part.is_file() and part.with_suffix(".labels").is_file()]
    if train not in parts:
        raise DataError(f"{train.with_suffix('.labels')} is missing")
    tables = [read_rows(part, p) for part in parts]
    y = np.concatenate([np.loadtxt(part.with_suffix(".labels"), ndmin=1) for part in parts])
    return (sp.vstack(tables, format="csc") if sp.issparse(tables[0]) else np.vstack(tables)), y


def read_rows(file: Path, p: int) -> Any:
    """Rows of p numbers, or sparse rows of `index:value` or of indices, which count from 1."""
    lines = file.read_text().splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    rows = [line.split() for line in lines]
    if ":" not in "".join(rows[0]) and all(len(row) == p for row in rows[:20]):
        return _small(np.loadtxt(lines, ndmin=2))
    entries = [(i, *_entry(word)) for i, row in enumerate(rows) for word in row]
    i, j, values = (np.array(part) for part in zip(*entries, strict=True))
    if j.min() < 1 or j.max() > p:
        raise DataError(f"{file} has column {int(j.max())}: columns must be from 1 to {p}")
    return sp.csc_matrix((values.astype(np.float64), (i.astype(np.intp), j.astype(np.intp) - 1)), shape=(len(rows), p))


def _entry(word: str) -> tuple[int, float]:
    index, _, value = word.partition(":")
    return int(index), float(value) if value else 1.0


def _small(X: np.ndarray) -> np.ndarray:
    """Whole numbers that fit in 16 bits take a quarter of the memory, and cannot be missing."""
    whole = X.astype(np.int16) if np.isfinite(X).all() and np.abs(X).max(initial=0) < 2**15 else X
    return whole if np.array_equal(whole, X) else X


def read_musk(file: Path) -> tuple[Any, np.ndarray]:
    """UCI's clean2.data: two names, 166 numbers, the class."""
    table = np.genfromtxt(file, delimiter=",", dtype=str)
    return _small(table[:, 2:-1].astype(np.float64)), np.char.rstrip(table[:, -1], ".").astype(np.float64)


def read_secom(file: Path) -> tuple[Any, np.ndarray]:
    """UCI's secom.data, with NaN where a value is missing, and the labels beside it."""
    labels = file.with_name("secom_labels.data")
    if not labels.is_file():
        raise DataError(f"{labels} is missing")
    return np.loadtxt(file, ndmin=2), np.loadtxt(labels, usecols=0, ndmin=1)


def read_p53(file: Path) -> tuple[Any, np.ndarray]:
    """UCI's K8.data: 5408 numbers, '?' where one is missing, and 'active' or 'inactive'."""
    numbers, labels = [], []
    with file.open() as lines:
        for line in lines:
            *row, label = line.strip().rstrip(",").split(",")
            numbers.append(np.array([np.nan if word == "?" else float(word) for word in row]))
            labels.append(label)
    return np.vstack(numbers), (np.array(labels) == "active").astype(np.int8)


def read_arff(file: Path) -> tuple[Any, np.ndarray]:
    """A dense or sparse ARFF file; columns that are no numbers, and an `id`, are left out."""
    with file.open() as lines:
        columns = list(_arff_header(lines))
        rows = [line.strip() for line in lines if line.strip() and not line.startswith("%")]
    names = [name.lower() for name, _ in columns]
    outcome = next((names.index(word) for word in ("class", "target", "outcome") if word in names), len(names) - 1)
    numeric = [numbers and name != "id" for name, (_, numbers) in zip(names, columns, strict=True)]
    numeric[outcome] = False
    if not rows:
        raise DataError(f"{file} has no rows")
    read = _sparse_arff if rows[0].startswith("{") else _dense_arff
    return read(rows, np.flatnonzero(numeric), outcome)


def _arff_header(lines: Iterator[str]) -> Iterator[tuple[str, bool]]:
    """Name of each column, and whether it holds numbers."""
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word.lower() == "@data":
            return
        if word.lower() == "@attribute":
            rest = rest.strip()
            name, _, kind = rest[1:].partition(rest[0]) if rest[0] in "'\"" else rest.partition(" ")
            yield name, _holds_numbers(kind.strip().lower())


def _holds_numbers(kind: str) -> bool:
    if not kind.startswith("{"):
        return kind in ("numeric", "real", "integer")
    levels = [word.strip().strip("'\"") for word in kind.strip("{}").split(",")]
    return all(word.lstrip("+-").replace(".", "", 1).isdigit() for word in levels)


def _dense_arff(rows: list[str], numeric: np.ndarray, outcome: int) -> tuple[Any, np.ndarray]:
    words = [[word.strip().strip("'\"") for word in row.split(",")] for row in rows]
    X = np.array([[np.nan if row[j] == "?" else float(row[j]) for j in numeric] for row in words])
    return _small(X), np.array([row[outcome] for row in words])


def _sparse_arff(rows: list[str], numeric: np.ndarray, outcome: int) -> tuple[Any, np.ndarray]:
    position = {int(j): i for i, j in enumerate(numeric)}
    labels: list[str] = []
    entries: list[tuple[int, int, float]] = []
    for i, row in enumerate(rows):
        cells = dict(cell.split(None, 1) for cell in row.strip("{} ").split(",") if cell.strip())
        labels.append(cells.pop(str(outcome), "").strip("'\" "))  # the first level of a nominal column is not written
        entries += [(i, position[int(j)], float(value)) for j, value in cells.items() if int(j) in position]
    i, j, values = (np.array(part) for part in zip(*entries, strict=True))
    return sp.csc_matrix((values, (i, j)), shape=(len(rows), len(numeric))), np.array(labels)
