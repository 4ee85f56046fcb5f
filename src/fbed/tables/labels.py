"""Row labels of pandas objects: rows are matched by position, so that labels that say otherwise are an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput


def check_labels(X: Any, beside: Mapping[str, Any]) -> None:
    """Refuse pandas objects whose indices differ from that of X, or from one another when X has none."""
    given = dict(_labelled(X, "X", mapping=True))
    for role, values in beside.items():
        given.update(_labelled(values, role))
    if len(given) < 2:
        return
    (first, index), *others = given.items()
    for role, other in others:
        if len(other) != len(index) or index.equals(other):  # of lengths others complain
            continue
        differ = np.array([a != b for a, b in zip(index.tolist(), other.tolist(), strict=True)], dtype=bool)
        if differ.any():
            raise InvalidInput(_told(first, index, role, other, np.flatnonzero(differ)))


def by_position(X: Any, values: Any) -> Any:
    """Values with the labels of X, whatever their own are: what scikit-learn's estimators mean by rows."""
    if isinstance(values, tuple):
        return tuple(by_position(X, part) for part in values)
    if not _is_pandas(values):
        return values
    index = X.index if _is_pandas(X) else range(len(values))
    return values.set_axis(index, axis=0) if len(index) == len(values) else values


def _labelled(values: Any, role: str, mapping: bool = False) -> list[tuple[str, Any]]:
    """The pandas indices of an input, which may be a pair (time, event) or a mapping of columns."""
    if _is_pandas(values):
        return [(role, values.index)]
    if isinstance(values, tuple):
        return [found for i, part in enumerate(values) for found in _labelled(part, f"{role}[{i}]")]
    if mapping and isinstance(values, Mapping):
        return [found for name, part in values.items() for found in _labelled(part, f"{role}[{name!r}]")]
    return []


def _is_pandas(values: Any) -> bool:
    return bool(nw.dependencies.is_pandas_dataframe(values) or nw.dependencies.is_pandas_series(values))


def _told(first: str, index: Any, role: str, other: Any, rows: NDArray[np.intp]) -> str:
    row = int(rows[0])
    one, two = (labels[row : row + 1].tolist()[0] for labels in (index, other))  # as Python's own numbers
    where = f"{len(rows):,} of {len(index):,} labels, the first in row {row}: {one!r} and {two!r}"
    move = f"bring it into the order of {first} by {role}.loc[{first}.index], or " if _same_labels(index, other) else ""
    return (
        f"{first} and {role} have different indices ({where}), but rows are matched by position: {move}pass "
        f"{role}.to_numpy() if its rows are in the order of {first}"
    )


def _same_labels(index: Any, other: Any) -> bool:
    return bool(index.is_unique and set(index.tolist()) == set(other.tolist()))
