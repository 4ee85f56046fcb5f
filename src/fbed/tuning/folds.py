"""Which rows are held out together: folds that respect classes, events and groups, or whatever a splitter says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.api.problem import Problem
from fbed.errors import InvalidInput

Rows = NDArray[np.intp]
Fold = tuple[Rows, Rows]  # rows to fit on, rows held out

_USUAL = 5  # folds, where None is asked for, as in scikit-learn
_FEWEST = 3  # rows that a search needs


def make_folds(problem: Problem, cv: Any, groups: Any, random_state: int | None, n_rows: int) -> list[Fold]:
    """Folds in rows of the problem; `cv` speaks of the user's rows, of which the problem may have dropped some."""
    cv = _USUAL if cv is None else cv
    units = group_codes(groups, n_rows)
    units = None if units is None else units[problem.kept]
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        folds = _dealt(problem, int(cv), units, random_state)
    else:
        folds = list(_split_by(cv, problem, groups, n_rows))
    if len(folds) < 2:
        raise InvalidInput(f"cross-validation needs at least 2 folds, got {len(folds)}")
    for i, (train, test) in enumerate(folds):
        if len(train) < _FEWEST or len(test) == 0:
            raise InvalidInput(
                f"fold {i + 1} has {len(train)} rows to fit on and {len(test)} held out (n_samples = {n_rows}): give "
                "more rows, or fewer folds by cv"
            )
        if len(np.intersect1d(train, test)):
            raise InvalidInput(f"fold {i + 1} of cv holds rows out that it is fitted on: such scores are not honest")
    return folds


def group_codes(groups: Any, n_rows: int) -> Rows | None:
    """Groups as numbers."""
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n_rows,):
        raise InvalidInput(f"groups must hold one value a row ({n_rows} rows), got shape {values.shape}")
    kind = values.astype(str) if values.dtype.kind == "O" else values
    return np.unique(kind, return_inverse=True)[1].astype(np.intp)


def _dealt(problem: Problem, n_folds: int, units: Rows | None, random_state: int | None) -> list[Fold]:
    """Units dealt out like cards, sorted by kind of outcome and shuffled within a kind; whole groups stay together."""
    if n_folds < 2:
        raise InvalidInput(f"cv must be 2 or more folds, a splitter, or a list of splits: got {n_folds}")
    kind = _kinds(problem)
    rng = np.random.default_rng(random_state)
    if units is None:
        owner = _in_turn(kind, min(n_folds, len(kind)), rng)
    else:
        n_units = int(units.max()) + 1
        if n_units < n_folds:
            raise InvalidInput(f"{n_folds} folds need as many groups, but there are {n_units}: ask for fewer by cv")
        owner = _balanced(np.bincount(units), n_folds, rng)[units]
    return [(np.flatnonzero(owner != f), np.flatnonzero(owner == f)) for f in range(int(owner.max()) + 1)]


def _kinds(problem: Problem) -> Rows:
    """What every fold should have its share of: classes or events; numbers are all of one kind."""
    outcome = problem.outcome
    if outcome.event is not None:
        return outcome.event.astype(np.intp)
    if outcome.categorical or len(outcome.levels) == 2 or problem.model.name in ("multinomial", "ordinal"):
        return np.unique(outcome.values, return_inverse=True)[1].astype(np.intp)
    return np.zeros(len(outcome.values), dtype=np.intp)


def _in_turn(kind: Rows, n_folds: int, rng: np.random.Generator) -> Rows:
    order = np.lexsort((rng.permutation(len(kind)), kind))
    owner = np.empty(len(kind), dtype=np.intp)
    owner[order] = np.arange(len(kind)) % n_folds
    return owner


def _balanced(sizes: NDArray[np.integer[Any]], n_folds: int, rng: np.random.Generator) -> Rows:
    """Large groups first, each to the fold that has the fewest rows."""
    owner = np.empty(len(sizes), dtype=np.intp)
    filled = np.zeros(n_folds)
    for unit in np.lexsort((rng.permutation(len(sizes)), -sizes)).tolist():
        owner[unit] = int(filled.argmin())
        filled[owner[unit]] += sizes[unit]
    return owner


def _split_by(cv: Any, problem: Problem, groups: Any, n_rows: int) -> Iterable[Fold]:
    """The splits of a splitter or a list, without the rows that the problem does not have."""
    place = np.full(n_rows, -1, dtype=np.intp)
    place[problem.kept] = np.arange(len(problem.kept))
    if hasattr(cv, "split") and not isinstance(cv, str):
        labels = _labels(problem)
        y = np.zeros(n_rows, dtype=labels.dtype)
        y[problem.kept] = labels
        splits = _asked(cv, y, groups)
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        splits = list(cv)
    else:
        raise InvalidInput(f"cv must be a number of folds, a splitter of scikit-learn, or a list of splits, got {cv!r}")
    for number, split in enumerate(splits):
        if not hasattr(split, "__len__") or len(split) != 2:
            raise InvalidInput(
                f"cv must be pairs (rows to fit on, rows to hold out), but its split {number + 1} is {split!r}"
            )
        inside, outside = (place[_as_rows(part, n_rows)] for part in split)
        if len(outside) and (outside < 0).all():
            continue  # all that it would hold out was left out before
        yield inside[inside >= 0], outside[outside >= 0]


def _asked(cv: Any, y: NDArray[Any], groups: Any) -> list[tuple[Any, Any]]:
    try:
        return list(cv.split(np.zeros((len(y), 1)), y, groups))
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"cv={cv!r} cannot split these {len(y)} rows: {error}") from error


def _labels(problem: Problem) -> NDArray[Any]:
    """What a splitter may stratify by."""
    kinds = _kinds(problem)
    return kinds if kinds.any() else np.asarray(problem.outcome.values)


def _as_rows(part: Any, n_rows: int) -> Rows:
    rows = np.asarray(part)
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "biu") or (rows.dtype == bool and len(rows) != n_rows):
        raise InvalidInput(
            f"cv must name rows by their numbers from 0, or by a truth value for each of {n_rows}, got {part!r}"
        )
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.intp)
    if len(rows) and (rows.min() < 0 or rows.max() >= n_rows):
        raise InvalidInput(f"cv names rows from {rows.min()} to {rows.max()}, but they are from 0 to {n_rows - 1}")
    return rows
