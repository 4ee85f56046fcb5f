"""What is asked for besides the table and the outcome: frozen objects that every door makes once and hands on whole."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict

import numpy as np

from fbed.errors import InvalidInput
from fbed.models.other_statistics.users_test import ConditionalTest, TestFunction
from fbed.rules.criteria import Criterion, as_criterion
from fbed.search.search import Plan
from fbed.tables.extras import EXTRAS
from fbed.tables.missing import check_missing
from fbed.tables.rare import check_rare_levels
from fbed.tables.table import Groups, Name, Table, as_list


class DataArguments(TypedDict, total=False):
    """Arguments of `select` that are about the data and the model, not about the search: fields of `DataOptions`."""

    family: str | TestFunction | ConditionalTest
    test: str | None
    cov: str | None
    link: str | None
    sample_weight: Any
    offset: Any
    exposure: Any
    trials: Any
    strata: Any
    entry: Any
    cluster: Any
    feature_names: Sequence[str] | None
    groups: Groups | None
    categorical: Iterable[Name]
    missing: str
    rare_levels: float | None
    engine: str
    device: str | None


class SelectArguments(DataArguments, total=False):
    """Those that are about the search, too: fields of `SearchOptions`."""

    criterion: str | Criterion
    alpha: float | None
    gamma: float | None
    k: float
    early_dropping: bool
    backward: bool
    alpha_backward: float | None
    include: Iterable[Name]
    exclude: Iterable[Name]
    max_features: int | None


class _Options:
    """What options share."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Those that are given by their names; nobody else's."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
        return cls(**given)

    @classmethod
    def split(cls, given: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Those among the arguments that are of this kind, and the others."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        mine = {name: value for name, value in given.items() if name in known}
        return cls(**mine), {name: value for name, value in given.items() if name not in known}


@dataclass(frozen=True, kw_only=True)
class DataOptions(_Options):
    """How the table and its rows are read, and the model that answers; `select` says what each of them means."""

    family: str | TestFunction | ConditionalTest = "auto"
    test: str | None = None
    cov: str | None = None
    link: str | None = None
    sample_weight: Any = None
    offset: Any = None
    exposure: Any = None
    trials: Any = None
    strata: Any = None
    entry: Any = None
    cluster: Any = None
    feature_names: Sequence[str] | None = None
    groups: Groups | None = None
    categorical: Iterable[Name] = ()
    missing: str = "error"
    rare_levels: float | None = None
    engine: str = "certified"
    device: str | None = None

    @property
    def extras(self) -> dict[str, Any]:
        """What else belongs to the rows, as it was given."""
        return {name: getattr(self, name) for name in EXTRAS}

    def check(self) -> None:
        """Refuse what can be told to be wrong without data."""
        if self.engine not in ("certified", "exhaustive"):
            raise InvalidInput(f"engine must be 'certified' or 'exhaustive', got {self.engine!r}")
        check_missing(self.missing)
        check_rare_levels(self.rare_levels)

    def without_rows(self) -> Self:
        """The same without what belongs to rows or columns, which were read: a problem on other rows has its own."""
        nothing: dict[str, Any] = dict.fromkeys((*EXTRAS, "sample_weight", "feature_names", "groups"))
        return replace(self, categorical=(), **nothing)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(_Options):
    """What is searched, how far, and by which criterion; `select` says what each of them means."""

    criterion: str | Criterion = "lr"
    alpha: float | None = None
    gamma: float | None = None
    alpha_backward: float | None = None
    k: float = 1
    early_dropping: bool = True
    backward: bool = True
    include: Iterable[Name] = ()
    exclude: Iterable[Name] = ()
    max_features: int | None = None

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):  # iterators can be read once
            object.__setattr__(self, name, tuple(as_list(getattr(self, name))))

    @property
    def excluded(self) -> list[Name]:
        """Variables that are not considered."""
        return list(self.exclude)

    def chosen(self) -> Criterion:
        """The criterion, as an object."""
        return as_criterion(self.criterion, self.alpha, self.gamma, self.alpha_backward)

    def check(self, time_limit: float | None) -> None:
        """Refuse numbers that no search can work with."""
        check_search_options(self.k, self.max_features, time_limit)

    def plan(self, table: Table) -> Plan:
        """What is searched, with names looked up."""
        return make_plan(
            table, self.include, self.exclude, self.k, self.early_dropping, self.backward, self.max_features
        )


def make_plan(
    table: Table,
    include: Iterable[Name],
    exclude: Iterable[Name],
    k: float = 1,
    early_dropping: bool = True,
    backward: bool = True,
    max_features: int | None = None,
) -> Plan:
    """What is searched, with names looked up."""
    forced, excluded = table.find(include, "include"), table.find(exclude, "exclude")
    both = [table.name(j) for j in forced if j in excluded]
    if both:
        raise InvalidInput(f"{both} are both included and excluded: leave them out of one of the two")
    considered = np.ones(table.n_variables, dtype=bool)
    considered[[*forced, *excluded, *table.absorbed]] = False
    limit = math.inf if max_features is None else max_features
    return Plan(np.flatnonzero(considered), tuple(forced), k, bool(early_dropping), bool(backward), limit)


def check_search_options(k: float, max_features: int | None, time_limit: float | None) -> None:
    """Refuse numbers that no search can work with."""
    number = isinstance(k, (int, np.integer, float)) and not isinstance(k, bool)
    if not number or not k >= 0 or (k != math.inf and k != int(k)):
        raise InvalidInput(f"k is the number of extra runs: 0, 1, 2, … or math.inf, got {k!r}")
    if max_features is not None and (
        isinstance(max_features, bool) or not isinstance(max_features, (int, np.integer)) or max_features < 0
    ):
        raise InvalidInput(f"max_features must be a whole number that is 0 or more, or None, got {max_features!r}")
    if time_limit is None:
        return
    if isinstance(time_limit, bool) or not isinstance(time_limit, (int, float, np.number)) or not time_limit >= 0:
        raise InvalidInput(f"time_limit must be a number of seconds, 0 or more, got {time_limit!r}")
