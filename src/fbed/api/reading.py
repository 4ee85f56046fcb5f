"""From what a user has to a problem: read, checked, and with a family that can do what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fbed import families
from fbed.api.options import DataOptions
from fbed.api.problem import Problem
from fbed.families.registry import Family
from fbed.matrix.device_storage import moved
from fbed.rules.criteria import Criterion
from fbed.tables.extras import read_extras
from fbed.tables.labels import check_labels
from fbed.tables.missing import complete_rows, with_indicators
from fbed.tables.mixed_storage import Beside
from fbed.tables.named import take_column
from fbed.tables.outcomes import Outcome, known_rows, read_outcome, suggested_family
from fbed.tables.plink import Genotypes
from fbed.tables.rare import few_rows, with_rare_levels_joined
from fbed.tables.table import Name, read_table
from fbed.tables.weights import read_weights
from fbed.threads import thread_count


def read_problem(
    X: Any,
    y: Any,
    criteria: Sequence[Criterion],
    exclude: Sequence[Name] = (),
    options: DataOptions = DataOptions(),  # noqa: B008  (frozen)
    n_jobs: int | None = None,
) -> Problem:
    """Read and check the data, and that the family can do what the criteria and options ask for."""
    sample_weight = options.sample_weight
    thread_count(n_jobs)  # refuses what is no number of threads
    options.check()
    extras = options.extras
    check_labels(X, {"y": y, "sample_weight": sample_weight, **extras})
    named = [name for name in (*pair(y), sample_weight, *extras.values()) if isinstance(name, str)]
    table = read_table(X, options.feature_names, named, exclude, options.groups, options.categorical)
    weights, notes = read_weights(
        take_column(X, sample_weight, "sample_weight") if isinstance(sample_weight, str) else sample_weight,
        table.n_rows,
    )
    notes += list(X.notes) if isinstance(X, Genotypes) else []
    y, present = _outcome_values(X, y), weights > 0
    keep = present
    if options.missing == "drop":
        keep, told = complete_rows(table, present, known_rows(y, table.n_rows))
        notes += told
    outcome = read_outcome(y, table.n_rows, keep)
    row_extras = read_extras(X, table.n_rows, extras)
    if not keep.all():  # rows of weight 0, and those dropped, leave before anything is computed
        kept = np.flatnonzero(keep)
        table, weights, row_extras = table.rows(kept), weights[kept], row_extras.rows(kept)
    observed = table
    if options.missing == "indicator":
        table, told = with_indicators(table, weights)
        notes += told
    if options.rare_levels is not None:
        table, told = with_rare_levels_joined(table, weights, options.rare_levels)
        notes += told
    notes += few_rows(table, weights)
    if options.device is not None:
        table = moved(table, options.device)
    kind, told = find_family(outcome, criteria, options)
    notes += told
    if isinstance(table.matrix, Beside):
        families.check_stored(kind, kind.test_for(options.test, options.cov), options.cov)
    return Problem(
        table,
        outcome,
        weights,
        row_extras,
        kind,
        options.without_rows(),
        n_jobs,
        tuple(notes),
        int((present & ~keep).sum()),
        np.flatnonzero(keep),
        observed,
    )


def find_family(outcome: Outcome, criteria: Sequence[Criterion], options: DataOptions) -> tuple[Family, list[str]]:
    """The family that answers, checked to be able to, and a note where it was chosen here."""
    notes: list[str] = []
    family, extras = options.family, options.extras
    if isinstance(family, str) and family == "auto":
        family, note = suggested_family(outcome) if extras.get("trials") is None else ("binomial", None)
        notes += [note] if note else []
    kind = families.find(family)
    for criterion in criteria:
        families.check_abilities(
            kind,
            test=options.test,
            cov=options.cov,
            link=options.link,
            extras=extras,
            weighted=options.sample_weight is not None,
            needs_likelihood=criterion.needs_likelihood,
            criterion=repr(criterion),
        )
    return kind, notes


def pair(y: Any) -> tuple[Any, ...]:
    """The two names of a survival time, or the outcome itself."""
    return tuple(y) if isinstance(y, (tuple, list)) and len(y) == 2 and any(isinstance(v, str) for v in y) else (y,)


def _outcome_values(X: Any, y: Any) -> Any:
    """The outcome, or the pair (time, event), with names replaced by columns."""
    parts = tuple(take_column(X, part, "y") if isinstance(part, str) else part for part in pair(y))
    return parts if len(parts) == 2 else parts[0]
