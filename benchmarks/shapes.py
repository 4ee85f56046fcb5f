"""Binary outcomes of every shape: all of the paper's sets that are there, word counts, beside LASSO paths.

Each contender waits in a process of its own and has one thread; they take turns. Missing values become means.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.options import Options
from benchmarks.problems import PAPER_SETS
from benchmarks.race import export, race
from benchmarks.text import seconds, table
from benchmarks.words import CORPORA, Corpus, documents

OURS = ("fbed FBED^0", "fbed FBED^1", "fbed FBED^0 by EBIC", "fbed FBED^1 by EBIC")
PEERS = ("glmnet (PyPI)", "glmnet (R)", "adelie")
MORE_PAPER_SETS = ("musk2", "secom", "sylva")
WORDS = {"words, more": CORPORA["like PCMAC"], "words, fewer documents": CORPORA["like RELATHE"]}
SOME_WORDS = {"words": Corpus(120, 60, 12.0)}


def run(options: Options) -> dict[str, Any]:
    data: dict[str, Any] = options.kept("shapes").get("data", {}) if options.only else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, file in _files(Path(folder), options).items():
            if options.only and name not in options.only:
                continue
            data[name] = _raced(name, file, Path(folder), options)
            print(name, {r["contender"]: r["cpu"] for r in data[name]["records"]}, flush=True)
    return {"data": data}


def _raced(name: str, file: Path, folder: Path, options: Options) -> dict[str, Any]:
    arrays = folder / f"{file.stem} arrays"
    arrays.mkdir()
    export(file, arrays)
    records = race((*OURS, *PEERS), file, arrays, threads=1, turns=options.turns, limit=options.limit)
    for record in records:
        answer = record.pop("answer") or {}
        record["size"] = len(answer["selected"]) if "selected" in answer else answer.get("most_nonzero")
    with np.load(file, allow_pickle=False) as stored:
        shape = stored["shape"] if "shape" in stored.files else stored["X"].shape
        return {"shape": [int(size) for size in shape], "records": records}


def _files(folder: Path, options: Options) -> dict[str, Path]:
    """Real sets where FBED_DATA_DIR has them, and word counts."""
    root = os.environ.get("FBED_DATA_DIR")
    real: dict[str, Path] = {}
    if root and not options.quick:
        real = {name: Path(root, "paper", f"{name}.npz") for name in (*PAPER_SETS, *MORE_PAPER_SETS)}
        real["BASEHOCK"] = Path(root, "extra", "BASEHOCK.npz")
    files = {name: _without_missing(file, folder) for name, file in real.items() if file.exists()}
    for name, corpus in (SOME_WORDS if options.quick else WORDS).items():
        X, y = documents(corpus)
        files[name] = folder / f"{name}.npz"
        sparse.save_npz(files[name], X)
        with np.load(files[name]) as stored:
            arrays = dict(stored)
        np.savez(files[name], y=y, **arrays)
    return files


def _without_missing(file: Path, folder: Path) -> Path:
    with np.load(file, allow_pickle=False) as stored:
        if "X" not in stored.files or not np.isnan(stored["X"]).any():
            return file
        X, y = stored["X"], stored["y"]
    known = ~np.isnan(X)
    mean = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    out = folder / file.name
    np.savez(out, X=np.where(known, X, mean), y=y)
    return out


def words(found: dict[str, Any]) -> str:
    """Processor seconds, and times by which we are faster than the fastest peer."""
    data = found["data"]
    rows, ratios = [], []
    for name, one in data.items():
        taken = {record["contender"]: record["cpu"] for record in one["records"]}
        fastest = min((taken[peer] for peer in PEERS if taken.get(peer) is not None), default=None)
        ours = [taken.get(search) for search in OURS]
        if fastest is not None:
            ratios += [fastest / own for own in ours if own]
        rows.append(
            [f"{name}, {' × '.join(f'{size:,}' for size in one['shape'])}"]
            + [seconds(value) for value in (*ours, *(taken.get(peer) for peer in PEERS))]
        )
    turns = sorted({record["turns"] for one in data.values() for record in one["records"] if record["turns"]})
    often = f"best of {turns[0]} to {turns[-1]} turns" if len(turns) > 1 else f"best of {max(turns, default=0)} turns"
    head = ["", *(name.removeprefix("fbed ") for name in OURS), *PEERS]
    parts = [
        f"Logistic, α = .05 or EBIC, one thread each, processor seconds, {often} in which all took part. "
        "A path has 100 λ in glmnet's range and ends where glmnet ends it.",
        table(head, rows),
    ]
    if ratios:
        behind = sum(ratio < 1 for ratio in ratios)
        parts.append(
            f"Times faster than the fastest peer, median over {len(ratios)} searches: {statistics.median(ratios):.3g}; "
            f"behind it in {behind}."
        )
    return "\n\n".join(parts)
