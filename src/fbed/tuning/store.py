"""What folds have computed, kept in a file: arrays and a line of JSON, nothing that is run when it is read."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.tuning.heldout import Held

if TYPE_CHECKING:
    from fbed.tuning.grid import CrossPath

SCHEMA = 1
_lock = Lock()


def check_place(file: Path) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if not file.parent.is_dir() or file.is_dir():
        raise InvalidInput(f"resume: {file} cannot be written: give the name of a file in a folder that is there")


def save(file: Path, cross: CrossPath) -> None:
    """Write what is done; a file is replaced as a whole, so that a stop in between leaves the old one."""
    with _lock:
        arrays: dict[str, Any] = {"meta": np.array(json.dumps(_meta(cross)))}
        for run in cross.runs:
            if run.done:
                for name in ("risk", "mean", "loss"):
                    arrays[f"{name}{run.number}"] = np.stack([getattr(held, name) for held in run.held])
                arrays[f"null{run.number}"] = np.asarray(run.null)
        part = file.with_name(file.name + ".part")
        with part.open("wb") as out:
            np.savez_compressed(out, **arrays)
        os.replace(part, file)


def load(file: Path, cross: CrossPath) -> None:
    """Take what was done before; a file of other data, folds or settings is refused."""
    try:
        with np.load(file, allow_pickle=False) as kept:
            meta = json.loads(str(kept["meta"]))
            if meta.get("schema") != SCHEMA or meta["fingerprint"] != fingerprint(cross):
                raise InvalidInput(
                    f"{file} holds folds of other data, other folds or another grid: remove it, or name another file"
                )
            for run, known in zip(cross.runs, meta["folds"], strict=True):
                if known["selected"] and len(known["selected"]) > run.done:
                    run.selected = [tuple(s) for s in known["selected"]]
                    run.seconds = known["seconds"]
                    parts = (kept[f"{name}{run.number}"] for name in ("risk", "mean", "loss"))
                    run.held = [Held(*three) for three in zip(*parts, strict=True)]
                    run.null = kept[f"null{run.number}"]
    except (OSError, KeyError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"resume: {file} does not hold folds that were kept by fbed: remove it, or name another file"
        ) from error


def _meta(cross: CrossPath) -> dict[str, Any]:
    folds = [{"selected": [list(map(int, s)) for s in run.selected], "seconds": run.seconds} for run in cross.runs]
    return {"schema": SCHEMA, "fingerprint": fingerprint(cross), "folds": folds}


def fingerprint(cross: CrossPath) -> str:
    """Of the outcome, the rows of the folds, sums of the columns, and the searches."""
    problem, digest = cross.problem, hashlib.sha256()
    parts: list[Any] = [problem.outcome.values, problem.weights, problem.design.center, problem.design.scale]
    parts += [part for fold in cross.folds for part in fold]
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    for factor in problem.table.factors.values():
        digest.update(factor.codes.tobytes())
    digest.update(repr((cross.searches, problem.model.name, problem.options.link, problem.options.missing)).encode())
    return digest.hexdigest()
