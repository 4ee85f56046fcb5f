"""A result as JSON and back: every field in a form that JSON has, and what was read is checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.result.fitted import FinalModel
from fbed.result.overview import Overview
from fbed.result.performance import Performance
from fbed.result.provenance import Provenance
from fbed.result.result import PHASES, Candidates, Result, TestCount, TraceRow
from fbed.result.saved import check_fields
from fbed.search.scan import Finding
from fbed.search.search import STATUSES

SCHEMA = 3
"""Version of the JSON form; it grows when a reader of the old form would misread the new one."""

_READABLE = (2, 3)  # a result of schema 2 has no more of its model than the estimates
_KEYS = {"overview": "glance", "provenance": "origin"}  # fields that JSON has by names of before


def to_plain(result: Result) -> dict[str, Any]:
    """What a result holds as JSON has it, but for numbers that are not finite."""
    shallow = {n: getattr(result, n) for n in Result.__dataclass_fields__ if n != "closer" and n not in _KEYS}
    return {
        "schema": SCHEMA,
        **shallow,
        "selected": list(result.selected),
        "indices": result.indices.tolist(),
        "trace": [_row_to_plain(row) for row in result.trace],
        "n_tests": asdict(result.n_tests),
        "model": None if result.model is None else result.model.to_plain(),
        "classes": None if result.classes is None else [_class_to_plain(value) for value in result.classes],
        "feature_names": None if result.feature_names is None else list(result.feature_names),
        "groups": {name: list(columns) for name, columns in result.groups.items()},
        "settings": dict(result.settings),
        "candidates": _candidates_to_plain(result.candidates),
        _KEYS["overview"]: None if result.overview is None else result.overview.to_plain(),
        _KEYS["provenance"]: None if result.provenance is None else result.provenance.to_plain(),
        "performance": None if result.performance is None else result.performance.to_plain(),
    }


def _candidates_to_plain(candidates: Candidates) -> dict[str, Any]:
    values = {name: getattr(candidates, name) for name in Candidates.__dataclass_fields__}
    return {name: None if value is None else value.tolist() for name, value in values.items()}


def finite(plain: Any) -> Any:
    """The same lists and mappings with None for numbers that JSON cannot write, and Python's numbers for NumPy's."""
    if isinstance(plain, Mapping):
        return {name: finite(value) for name, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [finite(value) for value in plain]
    if isinstance(plain, np.generic):
        return finite(plain.item())
    return None if isinstance(plain, float) and not np.isfinite(plain) else plain


def _class_to_plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, np.generic)) else str(value)


def _row_to_plain(row: TraceRow) -> dict[str, Any]:
    plain = {name: getattr(row, name) for name in TraceRow.__dataclass_fields__}
    return {**plain, "dropped": row.dropped.tolist(), "runners_up": [asdict(f) for f in row.runners_up]}


def from_plain(plain: dict[str, Any]) -> Result:
    """The result that JSON holds; raises when it is of another version, lacks something or contradicts itself."""
    found = plain.pop("schema", None)
    if found not in _READABLE:
        raise InvalidInput(
            f"this is not a result of schema 2 or {SCHEMA} (found {found!r}): it was saved by another version of "
            "fbed, or is something else"
        )
    plain |= {name: plain.pop(key) for name, key in _KEYS.items() if key in plain}
    check_fields(plain, Result)
    return _checked(_made(plain))


def _made(plain: dict[str, Any]) -> Result:
    candidates = plain["candidates"]
    values = {
        k: np.array(_numbers(candidates[k])) for k in ("lower", "upper", "df", "log_p") if candidates.get(k) is not None
    }
    return Result(
        **{
            **plain,
            "selected": tuple(plain["selected"]),
            "indices": np.array(plain["indices"], dtype=np.intp),
            "trace": tuple(_row_from_plain(row) for row in plain["trace"]),
            "n_tests": TestCount(**plain["n_tests"]),
            "model": None if plain["model"] is None else FinalModel.from_plain({"n": plain["n"], **plain["model"]}),
            "classes": None if plain["classes"] is None else tuple(plain["classes"]),
            "feature_names": None if plain["feature_names"] is None else tuple(plain["feature_names"]),
            "groups": {name: tuple(columns) for name, columns in plain.get("groups", {}).items()},
            "notes": tuple(plain["notes"]),
            "candidates": Candidates(np.array(candidates["row"], dtype=np.int32), **values),
            "overview": None if plain.get("overview") is None else Overview.from_plain(plain["overview"]),
            "provenance": None if plain.get("provenance") is None else Provenance.from_plain(plain["provenance"]),
            "performance": None if plain.get("performance") is None else Performance.from_plain(plain["performance"]),
        }
    )


def _checked(result: Result) -> Result:
    """Raise when the parts of a result that was read do not fit together; whoever shows it relies on that."""
    p, known = result.n_variables, result.candidates
    columns = [result.indices, *(np.array(group, dtype=np.intp) for group in result.groups.values())]
    columns += [row.dropped for row in result.trace]
    columns += [np.array([f.variable for f in row.runners_up], dtype=np.intp) for row in result.trace]
    sizes: list[NDArray[Any]] = [
        known.row,
        known.lower,
        known.upper,
        known.df,
        *([] if known.log_p is None else [known.log_p]),
    ]
    model, overview = result.model, result.overview
    faults = {
        "an unknown status": result.status not in STATUSES,
        "columns that are not there": any(((part < 0) | (part >= p)).any() for part in columns),
        "an empty group": not all(result.groups.values()),
        "names for another number of columns": result.feature_names is not None and len(result.feature_names) != p,
        "candidates for another number of columns": any(len(part) != p for part in sizes),
        "candidates of steps that are not there": bool(((known.row < -1) | (known.row >= len(result.trace))).any()),
        "steps of an unknown kind": any(
            row.phase not in PHASES or row.action not in ("add", "remove", "stop") for row in result.trace
        ),
        "as many columns as its variables do not have": len(result.indices)
        != sum(len(result.groups.get(str(name), (0,))) for name in result.selected),
        "coefficients for other terms": model is not None
        and {len(model.coefficients), len(model.standard_errors or model.terms)} != {len(model.terms)},
        "figures of other columns": overview is not None and len(overview.columns) != len(result.selected),
    }
    for fault, found in faults.items():
        if found:
            raise InvalidInput(f"the saved result contradicts itself: it has {fault}")
    return result


def _numbers(values: list[float | None]) -> tuple[float, ...]:
    return tuple(float("nan") if value is None else value for value in values)


def _row_from_plain(plain: dict[str, Any]) -> TraceRow:
    runners_up = tuple(_finding_from_plain(finding) for finding in plain["runners_up"])
    row = plain if plain["variable"] is None else _with_log_p(plain)
    critical = tuple((df, np.inf if value is None else value) for df, value in plain["critical"])
    dropped = np.array(plain["dropped"], dtype=np.intp)
    return TraceRow(**{**row, "dropped": dropped, "runners_up": runners_up, "critical": critical})


def _finding_from_plain(plain: dict[str, Any]) -> Finding:
    upper = np.inf if plain["upper"] is None else plain["upper"]
    return Finding(**_with_log_p({**plain, "score": _numbers([plain["score"]])[0], "upper": upper}))


def _with_log_p(plain: dict[str, Any]) -> dict[str, Any]:
    """Only the oracle, whose tests are perfect, has the p-value 0, whose logarithm JSON cannot write."""
    return {**plain, "log_p": -np.inf if plain["log_p"] is None else plain["log_p"]}
