"""A search that can be killed and goes on where it was: every answer is written down as soon as it is known.

The search is deterministic: given the same answers it asks the same questions. So a checkpoint is the list of answers
so far, a line of JSON each, after a line that says what was asked of which data. A search that finds such a file is
told the answers in it, and goes on asking where they end. The file is replaced as a whole, so that whatever happens
there is a complete one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.models.base import Indices
from fbed.rules import p_values
from fbed.rules.p_values import ChiSquare, Floats, Reference
from fbed.search.scan import Finding, Scan, Scanner

FORMAT = 1
"""Version of the file; it grows when a reader of the old form would misread the new one."""

Plain = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a checkpoint belongs to: options by name, and the data by what can be told of them without keeping them."""

    options: Mapping[str, Any]
    data: Mapping[str, Any]


def digest_of(*values: Any) -> str:
    """A short text that changes with any bit of arrays and other values."""
    found = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else None
        found.update(
            repr(value).encode() if array is None else f"{array.dtype}{array.shape}".encode() + array.tobytes()
        )
    return found.hexdigest()[:32]


class Checkpoint:
    """The file; `answers` are those that it has."""

    def __init__(self, path: str | os.PathLike[str], asked: Asked) -> None:
        self.path = Path(path)
        self.trouble: str | None = None  # why it could not be written
        self._head = json.dumps({"fbed checkpoint": FORMAT, **_as_json(asdict(asked))})
        self.answers = self._read(json.loads(self._head)) if self.path.exists() else []
        self._lines = [json.dumps(answer) for answer in self.answers]
        try:
            self._write()
        except OSError as error:
            raise InvalidInput(
                f"checkpoint {self.path} cannot be written ({error.strerror or error}): give a file in a folder that "
                "exists, with room for it"
            ) from error

    def add(self, answer: Plain) -> None:
        """Keep one more answer; a disk that is full does not end the search."""
        self._lines.append(json.dumps(answer))
        try:
            self._write()
            self.trouble = None
        except OSError as error:
            self.trouble = f"the checkpoint {self.path} could not be written ({error.strerror or error})"

    def _write(self) -> None:
        part = self.path.with_name(f".part-{self.path.name}")
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.write("\n".join([self._head, *self._lines, ""]))
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        finally:
            part.unlink(missing_ok=True)

    def _read(self, asked: Plain) -> list[Plain]:
        """The answers of the file; refuses one that belongs to something else."""
        try:
            head, *answers = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
            version = head["fbed checkpoint"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{self.path} is no checkpoint: give another file, or delete this one") from error
        if version != FORMAT:
            raise InvalidInput(f"{self.path} is a checkpoint of format {version}, expected {FORMAT}: begin a new one")
        for what in ("options", "data"):
            _refuse_differences(self.path, what, head.get(what, {}), asked[what])
        return answers


def _refuse_differences(path: Path, what: str, before: Plain, now: Plain) -> None:
    differ = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not differ:
        return
    name = differ[0]
    told = f"{name} was {_short(before.get(name))} and is {_short(now.get(name))}"
    raise InvalidInput(
        f"the checkpoint {path} belongs to other {what}: {told}; go on with the same {what}, or delete it (or name "
        "another file) to begin anew"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _as_json(value: Any) -> Any:
    """What a file can hold, as it comes back from there."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_as_json(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (str, int, float, bool)) else repr(value)


class Recorded:
    """The questions of a search, answered from a checkpoint as far as it goes, and by a scanner from there on."""

    def __init__(self, scanner: Scanner, checkpoint: Checkpoint) -> None:
        self.scanner, self.checkpoint = scanner, checkpoint
        self._known = iter(checkpoint.answers)

    def saturated(self, selected: Sequence[int]) -> bool:
        """Whether S explains the outcome completely."""
        known = self._next("saturated", selected)
        if known is not None:
            return bool(known["answer"])
        answer = bool(self.scanner.saturated(selected))
        self.checkpoint.add({"question": "saturated", "selected": _ints(selected), "answer": answer})
        return answer

    def forward(self, selected: Sequence[int], candidates: Indices, everybody: bool = True) -> Scan:
        """Who passes, and whose addition is best?"""
        return self._scan(
            "forward", selected, candidates, lambda: self.scanner.forward(selected, candidates, everybody)
        )

    def backward(self, selected: Sequence[int], variables: Indices) -> Scan:
        """Who is kept, and whose removal costs least?"""
        return self._scan("backward", selected, variables, lambda: self.scanner.backward(selected, variables))

    def _scan(self, question: str, selected: Sequence[int], candidates: Indices, ask: Callable[[], Scan]) -> Scan:
        known = self._next(question, selected)
        if known is not None:
            return self._restored(known, question == "backward", len(selected), candidates)
        before = _ints(selected)
        scan = ask()
        self.checkpoint.add({"question": question, "selected": before, **_scan_to_plain(scan)})
        return scan

    def _next(self, question: str, selected: Sequence[int]) -> Plain | None:
        known = next(self._known, None)
        if known is not None and (known.get("question"), known.get("selected")) != (question, _ints(selected)):
            raise InvalidInput(f"the checkpoint {self.checkpoint.path} contradicts itself: delete it to begin anew")
        return known

    def _restored(self, known: Plain, staying: bool, size: int, candidates: Indices) -> Scan:
        scanner = self.scanner
        k = size - scanner.n_forced - int(staying)
        reference = _reference_from_plain(known["reference"])

        def critical(df: Floats) -> Floats:
            return scanner.rule.critical(df, k, reference or ChiSquare(), staying)

        passes = np.ones(len(candidates), dtype=bool)
        passes[known["fails"]] = False
        lower = np.array(known["lower"], dtype=float)
        few = [Finding(**finding) for finding in known["best"]]
        return Scan(
            candidates,
            passes,
            few[0] if known["chosen"] else None,
            tuple(few[1:] if known["chosen"] else few),
            lower,
            lower.copy() if known["upper"] is None else np.array(known["upper"], dtype=float),
            np.broadcast_to(np.array(known["df"], dtype=float), lower.shape).copy(),
            critical if reference else None,
            reference,
            None if known["log_p"] is None else np.array(known["log_p"], dtype=float),
        )


def _ints(variables: Sequence[int] | NDArray[np.intp]) -> list[int]:
    return [int(v) for v in variables]


def _scan_to_plain(scan: Scan) -> Plain:
    best = [*([scan.chosen] if scan.chosen else []), *scan.runners_up]
    same = len(scan.df) > 0 and bool((scan.df == scan.df[0]).all())
    return {
        "chosen": scan.chosen is not None,
        "best": [_as_json(asdict(finding)) for finding in best],
        "fails": np.flatnonzero(~scan.passes).tolist(),
        "lower": scan.lower.tolist(),
        "upper": None if np.array_equal(scan.lower, scan.upper) else scan.upper.tolist(),
        "df": float(scan.df[0]) if same else scan.df.tolist(),
        "reference": _reference_to_plain(scan.reference),
        "log_p": None if scan.log_p is None else scan.log_p.tolist(),
    }


def _reference_to_plain(reference: Reference | None) -> Plain | None:
    """A distribution by its name and parameters."""
    if reference is None:
        return None
    fields: Plain = asdict(reference) if is_dataclass(reference) and not isinstance(reference, type) else {}
    return {"name": type(reference).__name__, **_as_json(fields)}


def _reference_from_plain(plain: Plain | None) -> Reference | None:
    if plain is None:
        return None
    made: Reference = getattr(p_values, plain["name"])(**{name: v for name, v in plain.items() if name != "name"})
    return made
