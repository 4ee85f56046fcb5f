"""Genotypes → `Table`: variants that stay packed, and the covariates that were named beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.tables.mixed_storage import Beside
from fbed.tables.plink import Genotypes
from fbed.tables.table import Groups, Name, Table, arranged, as_list, from_columns, outline


def considered(X: Any, include: Iterable[Name], groups: Groups | None) -> Any:
    """Genotypes with the covariates that are named as variables; anything else as it is."""
    if not isinstance(X, Genotypes):
        return X
    members = [] if not isinstance(groups, Mapping) else [name for group in groups.values() for name in as_list(group)]
    return X.considering([*include, *members])


def read_genotypes(
    X: Genotypes,
    feature_names: Sequence[str] | None,
    leave_out: Sequence[str],
    exclude: Iterable[Name],
    groups: Groups | None,
    categorical: Iterable[Name],
) -> Table:
    """Covariates first, then the variants, which stay packed."""
    if feature_names is not None:
        raise InvalidInput("feature_names is for arrays; variants have names of their own: leave it out")
    columns = {name: values for name, values in X.covariates().items() if name not in set(leave_out)}
    table = outline((len(X), len(columns) + X.shape[1]), (*columns, *X.variants))
    table = arranged(table, groups, exclude)
    declared = table.find_columns(categorical, "categorical")
    packed = [j for j in declared if j >= len(columns)]
    if packed:
        raise InvalidInput(
            f"categorical names the variant {table.column_name(packed[0])!r}, whose genotypes are numbers"
        )
    table = from_columns(columns, table, declared)
    place = np.where(table.position < 0, -1, table.position + X.shape[1])
    matrix = Beside(X.packed, table.matrix)
    return replace(table, matrix=matrix, position=np.concatenate([place, np.arange(X.shape[1], dtype=np.intp)]))
