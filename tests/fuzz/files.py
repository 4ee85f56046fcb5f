"""Files that are nearly sound, given to the command line: whatever is wrong with them takes one line to say."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from tests.fuzz import mutants

import fbed
from fbed.cli.command import main
from fbed.graphs import DAG

Mutant = tuple[list[list[str]], dict[str, bytes]]
"""Commands, in which {} is the folder, and the files that they read."""


def run(mutant: Mutant, folder: Path) -> None:
    """Raise when a command does anything but succeed, or end with status 2 and one line."""
    commands, files = mutant
    for name, content in files.items():
        (folder / name).write_bytes(content)
    for command in commands:
        out, err = _Stream(), _Stream()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([part.replace("{}", str(folder)) for part in command])
        said = err.getvalue()
        errors = [line for line in said.splitlines() if line.startswith("fbed: error: ")]
        if (
            status not in (0, 2)
            or "Traceback" in said
            or len(errors) != (status == 2)
            or (status == 2 and said.count("\n") > 1)
        ):
            raise AssertionError(f"{command}: status {status}, said {said!r}")


class _Stream(io.StringIO):
    """Text for people; the command line asks where it goes."""

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ else 1


# -- seeds -----------------------------------------------------------------------------------------------------------

_RNG = np.random.default_rng(7)
_X = np.round(_RNG.normal(size=(24, 3)), 2)
_Y = np.round(_X[:, 0] + _RNG.normal(size=24), 2)


@cache
def _table() -> bytes:
    rows = [f"{a},{b},{c},{'uvw'[i % 3]},{i % 2},{y}" for i, ((a, b, c), y) in enumerate(zip(_X, _Y, strict=True))]
    return ("x0,x1,x2,kind,flag,y\n" + "\n".join(rows) + "\n").encode()


@cache
def _svmlight() -> bytes:
    return "".join(f"{i % 2} 1:{a} 2:{b} 4:{c}\n" for i, (a, b, c) in enumerate(_X.tolist())).encode()


@cache
def _network() -> bytes:
    return b"""network "n" { property by hand; }
variable a { type discrete [ 2 ] { yes, no }; }
variable b { type discrete [ 3 ] { l, m, h }; property position 3; }
variable y { type discrete [ 2 ] { t, f }; }
probability ( a ) { table 0.2, 0.8; } // the root
probability ( b | a ) { (yes) 0.1, 0.2, 0.7; (no) 0.3, 0.3, 0.4; }
/* the outcome */
probability ( y | a, b ) { (yes, l) 0.9, 0.1; (no, m) 0.5, 0.5; default 0.3, 0.7; }
"""


@cache
def _linear() -> str:
    one = '{"parents": [], "coef": [], "intercept": 0, "sd": 1}'
    return f'{{"a": {one}, "b": {{"parents": ["a"], "coef": [0.5], "intercept": 1, "sd": 2}}, "y": {one}}}'


@cache
def _results() -> tuple[str, ...]:
    named = {f"x{j}": _X[:, j] for j in range(3)} | {"kind": np.array(list("uvw"))[np.arange(24) % 3]}
    clear = _X[:, 0] * 3 + _Y
    return (
        fbed.select(named, clear, groups={"pair": ["x1", "x2"]}, alpha=0.3).to_json(),
        fbed.select(_X, (clear > 0).astype(int), criterion="aic").to_json(),
        fbed.select(_X, (np.exp(_Y), np.arange(24) % 3 > 0), alpha=0.5).to_json(),
        fbed.select(_X, clear, family="spearman", k=0).to_json(),
        fbed.select(DAG([("a", "y"), ("y", "b"), ("c", "b")]), "y", family="oracle").to_json(),
    )


# -- kinds of mutants ------------------------------------------------------------------------------------------------


def csv(rng: random.Random) -> Mutant:
    content = mutants.of_bytes(rng, _table())
    name = rng.choice(("x.csv", "x.csv", "x.csv", "x.tsv", "x.csv.gz", "x.csv.bz2"))
    if name.endswith("gz"):
        content = (
            mutants.of_bytes(rng, gzip.compress(content, mtime=0)) if rng.random() < 0.5 else gzip.compress(content)
        )
    more = rng.choice(
        (
            [],
            [],
            ["--missing", "drop"],
            ["--missing", "indicator"],
            ["--sep", ";"],
            ["--family", "multinomial"],
            ["--exclude", "x1", "--include", "x2"],
            ["--group", "g=x1,x2", "--categorical", "flag"],
            ["--criterion", "ebic", "--json"],
        )
    )
    return [["select", f"{{}}/{name}", "--target", rng.choice(("y", "y", "y", "kind", "flag")), *more]], {name: content}


def npz(rng: random.Random) -> Mutant:
    arrays: dict[str, Any] = {"X": _X, "y": _Y, "feature_names": np.array(["a", "b", "c"])}
    if rng.random() < 0.6:
        form = rng.choice(("csc", "csr", "coo", "bsr", "dia"))
        arrays = {**_sparse_parts(rng, form), "y": _Y}
    for _ in range(rng.choice((0, 1, 1, 2))):
        name = rng.choice(list(arrays))
        arrays[name] = _changed(rng, arrays[name])
    file = io.BytesIO()
    np.savez(file, **arrays)
    content = file.getvalue()
    if rng.random() < 0.3:
        content = mutants.of_bytes(rng, content)
    elif rng.random() < 0.2:
        content = _other_archive(rng, content)
    return [["select", "{}/x.npz", *rng.choice(([], ["--target", "y"], ["--family", "binomial"]))]], {"x.npz": content}


def _sparse_parts(rng: random.Random, form: str) -> dict[str, Any]:
    file = io.BytesIO()
    sparse.save_npz(file, sparse.coo_array(_X * (np.abs(_X) > 0.5)).asformat(form), compressed=False)
    file.seek(0)
    with np.load(file) as loaded:
        return dict(loaded)


def _changed(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """The same array with another type, shape or value."""
    roll = rng.randrange(7)
    if roll == 0:
        return array.astype(rng.choice(("i1", "u8", "f2", "f8", "c16", "S3", "U3", "?"))) if _castable(array) else array
    if roll == 1:
        flat = array.ravel()
        return rng.choice((array[..., None], np.asarray(0), flat, flat[:0], flat[:2]))
    if roll == 2:
        return np.concatenate([array.ravel(), array.ravel()[:1]])
    out = array.copy()
    if out.size and out.dtype.kind in "iuf":
        low, high = (np.iinfo(out.dtype).min, np.iinfo(out.dtype).max) if out.dtype.kind in "iu" else (-1e308, np.nan)
        out.ravel()[rng.randrange(out.size)] = rng.choice((0, 1, 5, 100, low, high, high))
        return out
    return np.asarray(rng.choice(("csc", "csr", b"coo", b"xyz", 3)))


def _castable(array: np.ndarray) -> bool:
    return array.dtype.kind in "iuf?"


def _other_archive(rng: random.Random, content: bytes) -> bytes:
    """The same members, packed otherwise or called otherwise."""
    out = io.BytesIO()
    how = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(out, "w", how) as target:
        for member in source.namelist():
            name = rng.choice((member, member, member.removesuffix(".npy"), f"../{member}", "X.npy"))
            with contextlib.suppress(UserWarning):
                target.writestr(
                    name, mutants.of_bytes(rng, source.read(member)) if rng.random() < 0.3 else source.read(member)
                )
    return out.getvalue()


def svmlight(rng: random.Random) -> Mutant:
    return [["select", "{}/x.svm"]], {"x.svm": mutants.of_bytes(rng, _svmlight())}


def bif(rng: random.Random) -> Mutant:
    more = rng.choice(([], ["-n", "40"], ["--hidden", "a"], ["--json"]))
    return [["blanket", "{}/x.bif", "--target", "y", *more]], {"x.bif": mutants.of_bytes(rng, _network())}


def linear_network(rng: random.Random) -> Mutant:
    content = mutants.of_json(rng, _linear())
    return [["blanket", "{}/x.json", "--target", "y", *rng.choice(([], ["-n", "40"]))]], {"x.json": content}


def saved_result(rng: random.Random) -> Mutant:
    content = mutants.of_json(rng, rng.choice(_results()))
    who = rng.choice(("x0", "x1", "kind", "pair", "0", "1", "a", "c"))
    commands = [["report", "{}/x.json"], ["explain", "{}/x.json", who]]
    if rng.random() < 0.2:
        commands = [["explain", "{}/x.json", who, "--data", "{}/x.csv", "--target", "y"]]
    return commands, {"x.json": content, "x.csv": _table()}


def arguments(rng: random.Random) -> Mutant:
    """A sound file, and arguments that need not be."""
    sound = [
        "select",
        "{}/x.csv",
        "--target",
        "y",
        "--alpha",
        "0.1",
        "-k",
        "1",
        "--criterion",
        "lr",
        "--time-limit",
        "5",
    ]
    command = list(sound)
    for _ in range(rng.choice((1, 2, 3))):
        token = rng.choice(mutants.TOKENS).decode("utf-8", "replace").replace("\0", "")
        roll = rng.random()
        if roll < 0.6:
            command[rng.randrange(2, len(command))] = token
        else:
            options = (
                "--family",
                "--include",
                "--exclude",
                "--gamma",
                "--offset",
                "--cluster",
                "--test",
                "--cov",
                "--n-jobs",
            )
            command += [rng.choice(options), token]
    if any(part in ("-h", "--help", "--version") for part in command):
        command = sound
    return [command], {"x.csv": _table()}


KINDS: dict[str, Callable[[random.Random], Mutant]] = {
    "csv": csv,
    "npz": npz,
    "svmlight": svmlight,
    "bif": bif,
    "network": linear_network,
    "result": saved_result,
    "arguments": arguments,
}
