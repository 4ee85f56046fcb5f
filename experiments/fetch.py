"""Download the paper's datasets to the data folder: from the UCI repository as zip archives, from OpenML as ARFF."""

from __future__ import annotations

import io
import json
import shutil
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from experiments import data

OPENML = "https://api.openml.org/api/v1/json/data/{}"
UCI = "https://archive.ics.uci.edu/static/public/{}"


@dataclass(frozen=True)
class Source:
    """An archive of text files, or the description of an OpenML dataset."""

    address: str
    is_archive: bool


SOURCES = {
    "musk": Source(UCI.format("75/musk+version+2.zip"), True),
    "secom": Source(UCI.format("179/secom.zip"), True),
    "p53": Source(UCI.format("188/p53+mutants.zip"), True),
    "madelon": Source(UCI.format("171/madelon.zip"), True),
    "gisette": Source(UCI.format("170/gisette.zip"), True),
    "arcene": Source(UCI.format("167/arcene.zip"), True),
    "dexter": Source(UCI.format("168/dexter.zip"), True),
    "dorothea": Source(UCI.format("169/dorothea.zip"), True),
    "gina": Source(OPENML.format(1038), False),
    "hiva": Source(OPENML.format(1039), False),
    "sylva": Source(OPENML.format(1040), False),
}
BY_HAND = {
    "nova": "nova of the WCCI 2006 challenge has no address that is known to last: put nova_train.data, "
    "nova_train.labels, nova_valid.data and nova_valid.labels into {folder}"
}


def fetch(name: str, folder: Path, sources: dict[str, Source] = SOURCES) -> data.Dataset:
    """Download one dataset, read it and check it; a dataset that does not hold what it should is removed again."""
    target = folder / name
    if name in data.present(folder):
        return data.load(name, folder)
    if name not in sources:
        known = ", ".join(sources)
        raise data.DataError(BY_HAND.get(name, f"{name} is none of {known}").format(folder=target))
    target.mkdir(parents=True, exist_ok=True)
    try:
        (_fetch_archive if sources[name].is_archive else _fetch_arff)(name, sources[name].address, target)
        return data.load(name, folder)
    except BaseException:
        shutil.rmtree(target)
        raise


def _fetch_archive(name: str, address: str, target: Path) -> None:
    """Keep the data and label files of a zip archive, and of archives in it, without their folders."""
    _unpack(_download(address), target)


def _unpack(content: bytes, target: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.namelist():
            kind = PurePosixPath(member).suffix.lower()
            if kind in (".data", ".labels"):
                (target / PurePosixPath(member).name).write_bytes(archive.read(member))
            elif kind == ".zip":
                _unpack(archive.read(member), target)


def _fetch_arff(name: str, address: str, target: Path) -> None:
    """The file that an OpenML description names."""
    description = json.loads(_download(address))["data_set_description"]
    (target / f"{name}.arff").write_bytes(_download(description["url"]))


def _download(address: str) -> bytes:
    """All of a file."""
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return bytes(answer.read())
    except OSError as error:
        raise data.DataError(
            f"{address} could not be downloaded ({error}): put the files into the folder by hand"
        ) from error
