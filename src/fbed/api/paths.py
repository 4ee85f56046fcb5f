"""`path`: results for a whole grid of settings, from searches that share what they learn.

Searches on the same data meet the same sets S again and again. Fits, and intervals for statistics, depend on S alone,
so that each is computed once; every result is that of the single run.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from fbed.api.larger_than_memory import in_memory
from fbed.api.options import DataArguments, DataOptions, check_search_options, make_plan
from fbed.api.problem import Listener, Memos
from fbed.api.reading import read_problem
from fbed.api.selection import select
from fbed.errors import InvalidInput
from fbed.graphs.oracle import is_wanted
from fbed.result.provenance import provenance
from fbed.result.result import Result
from fbed.result.saved import check_fields, read_object
from fbed.rules.criteria import EBIC, Criterion, LikelihoodRatio
from fbed.tables.genotypes import considered
from fbed.tables.table import Name, as_list

if TYPE_CHECKING:
    from fbed.show.plots import PathPlots

Value = TypeVar("Value")

SCHEMA = 1
"""Version of the JSON form."""

UNFINISHED = ("interrupted", "time_limit")

LEVELS = (0.001, 0.01, 0.05, 0.1)
"""Levels of the paper's grid."""


@dataclass(frozen=True)
class Setting:
    """One point of the grid."""

    criterion: str  # 'lr' or 'ebic'
    value: float | None  # alpha of 'lr' or gamma of 'ebic', whose default is None
    k: float | None  # None is FBS, without early dropping

    @property
    def algorithm(self) -> str:
        """FBS, FBED^0, FBED^1, …, FBED^∞."""
        return "FBS" if self.k is None else f"FBED^{'∞' if self.k == math.inf else int(self.k)}"

    def as_criterion(self) -> Criterion:
        """The criterion object."""
        if self.criterion == "ebic":
            return EBIC(self.value)
        assert self.value is not None  # a level has no default here
        return LikelihoodRatio(self.value)


@dataclass(frozen=True)
class _SavedSetting:
    """A setting in JSON, where 'inf' stands for infinite K."""

    criterion: str
    value: float | None
    k: int | str | None


@dataclass(frozen=True)
class _SavedPath:
    """A path in JSON; every result is looked at when it is read."""

    settings: tuple[_SavedSetting, ...]
    results: tuple[Mapping[str, Any], ...]
    status: str
    seconds: float


@dataclass(frozen=True)
class PathResult(Sequence[Result]):
    """Results in the order of the grid, one a setting; fewer when the search was interrupted or ran out of time."""

    settings: tuple[Setting, ...]
    results: tuple[Result, ...]
    status: str  # 'converged', 'time_limit' or 'interrupted'
    seconds: float

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: Any) -> Any:
        return self.results[index]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def get(self, *, k: float | None = 1, alpha: float | None = None, gamma: float | None = None) -> Result:
        """The result of one setting: k=None is FBS; without alpha, EBIC with gamma, None being its default."""
        wanted = Setting("ebic", gamma, k) if alpha is None else Setting("lr", alpha, k)
        if wanted not in self.settings:
            raise KeyError(f"the path has no {wanted}: see its .settings")
        return self.results[self.settings.index(wanted)]

    def rows(self) -> list[dict[str, Any]]:
        """A row a setting: what was asked, how many variables and tests, the deviance, which variables."""
        return [_row(setting, result) for setting, result in zip(self.settings, self.results, strict=True)]

    def to_frame(self) -> Any:
        """`rows` as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        return pd.DataFrame(self.rows())

    def summary(self) -> str:
        """A readable table for a terminal of 80 columns."""
        from fbed.show.text import path_summary

        return path_summary(self)

    def __str__(self) -> str:
        return self.summary()

    @property
    def plot(self) -> PathPlots:
        """Plots over the grid: `sizes()`, `tests()` and `variables()`, each returning matplotlib Axes."""
        from fbed.show.plots import PathPlots

        return PathPlots(self)

    def report(self, path: str | Path) -> Path:
        """Write a report for people: one HTML file that needs nothing else."""
        from fbed.show.report import write_path

        return write_path(self, path)

    def to_json(self, path: str | Path | None = None, indent: int | None = None) -> str:
        """JSON form, every result included; also written to a file when a path is given."""
        plain = {
            "schema": SCHEMA,
            "kind": "path",
            "settings": [_setting_to_plain(setting) for setting in self.settings],
            "results": [json.loads(result.to_json()) for result in self.results],
            "status": self.status,
            "seconds": self.seconds,
        }
        text = json.dumps(plain, indent=indent, allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> PathResult:
        """Read a path back from its JSON text or file."""
        plain = read_object(source, "a path of fbed, saved by to_json()")
        if plain.pop("kind", None) != "path" or plain.pop("schema", None) != SCHEMA:
            raise InvalidInput("this is not a path that this version of fbed saved")
        check_fields(plain, _SavedPath)
        if len(plain["settings"]) != len(plain["results"]):
            raise InvalidInput("this path has more settings than results, or fewer: it is damaged")
        return cls(
            tuple(_setting_from_plain(setting) for setting in plain["settings"]),
            tuple(Result.from_json(json.dumps(result)) for result in plain["results"]),
            plain["status"],
            plain["seconds"],
        )


def path(
    X: Any,
    y: Any,
    *,
    alphas: Iterable[float] = LEVELS,
    gammas: Iterable[float | None] = (0.0, 0.5, 1.0, None),
    ks: Iterable[float] = (0, 1, math.inf),
    fbs: bool = True,
    backward: bool = True,
    include: Iterable[Name] = (),
    exclude: Iterable[Name] = (),
    max_features: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: Listener = None,
    **data: Unpack[DataArguments],
) -> PathResult:
    """Select by every setting of a grid, sharing fits and scans; each result is that of `fbed.select`.

    Parameters
    ----------
    X, y
        As in `fbed.select`.
    alphas : numbers
        Levels of likelihood-ratio tests. The default is the grid of the paper, here and below.
    gammas : numbers or None
        Parameters of EBIC; None is its default, 1 − ½·log n / log p. Empty for a family without a likelihood.
    ks : numbers
        Extra runs of FBED^K.
    fbs : bool
        Whether forward-backward selection without early dropping is run as well.
    backward, include, exclude, max_features, n_jobs, progress
        As in `fbed.select`.
    time_limit : float, optional
        Seconds for the whole grid; settings that were not reached are missing from the result.
    **data
        Arguments of `fbed.select` about the data and the model: family, test, cov, link, sample_weight, offset,
        exposure, trials, strata, entry, cluster, feature_names, groups, categorical, missing,
        rare_levels, engine.

    Returns
    -------
    PathResult

    Examples
    --------
    >>> import numpy as np, fbed
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(200, 10))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.normal(size=200)
    >>> grid = fbed.path(X, y, alphas=(0.001, 0.1), gammas=(None,), ks=(0, 1))
    >>> [(setting.algorithm, len(result.selected)) for setting, result in zip(grid.settings, grid)][:3]
    [('FBED^0', 2), ('FBED^1', 2), ('FBS', 2)]
    >>> grid.get(k=1, alpha=0.001).selected
    (3, 7)
    """
    include, exclude = as_list(include), as_list(exclude)
    X = considered(in_memory(X, "a path"), include, data.get("groups"))
    common = {"y": y, "backward": backward, "max_features": max_features, "n_jobs": n_jobs, **data}
    started = time.perf_counter()
    grid = settings_grid(alphas, gammas, ks, fbs)
    for setting in grid:
        check_search_options(0 if setting.k is None else setting.k, max_features, time_limit)
    if is_wanted(X, data.get("family")):
        raise InvalidInput("a path varies the criterion, and a graph needs none: use fbed.select(graph, target, k=…)")
    criteria = [setting.as_criterion() for setting in grid]
    problem = read_problem(X, y, criteria, exclude, DataOptions.of(data), n_jobs)
    memos = Memos(problem)
    results: list[Result] = []
    for setting, criterion in zip(grid, criteria, strict=True):
        plan = make_plan(problem.table, include, exclude, setting.k or 0, setting.k is not None, backward, max_features)
        left = None if time_limit is None else max(0.0, started + time_limit - time.perf_counter())
        same = {"criterion": criterion, "k": setting.k or 0, "early_dropping": setting.k is not None}
        alone = provenance(select, {**common, "include": include, "exclude": exclude, **same})
        results.append(replace(problem.run(plan, criterion, left, progress, memos.of(criterion)), provenance=alone))
        if results[-1].status in UNFINISHED:
            break
    status = results[-1].status if results[-1].status in UNFINISHED else "converged"
    return PathResult(tuple(grid[: len(results)]), tuple(results), status, time.perf_counter() - started)


def settings_grid(
    alphas: Iterable[float], gammas: Iterable[float | None], ks: Iterable[float], fbs: bool
) -> list[Setting]:
    """Every combination: levels first, then parameters of EBIC."""
    runs: list[float | None] = [*as_several(ks, "ks"), *([None] if fbs else [])]
    grid = [Setting("lr", alpha, k) for alpha in as_several(alphas, "alphas") for k in runs]
    grid += [Setting("ebic", gamma, k) for gamma in as_several(gammas, "gammas") for k in runs]
    if not grid:
        raise InvalidInput("the grid is empty: give at least one of alphas and gammas, and one of ks or fbs=True")
    return grid


def as_several(values: Iterable[Value], name: str) -> list[Value]:
    """Values of one side of the grid, or an error."""
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise InvalidInput(f"{name} must be several numbers, such as a list, got {values!r}")
    return list(values)


def _row(setting: Setting, result: Result) -> dict[str, Any]:
    return {
        "criterion": setting.criterion,
        "alpha": setting.value if setting.criterion == "lr" else None,
        "gamma": setting.value if setting.criterion == "ebic" else None,
        "algorithm": setting.algorithm,
        "n_selected": len(result.selected),
        "n_tests": result.n_tests.total,
        "deviance": None if result.model is None else result.model.deviance,
        "status": result.status,
        "seconds": result.seconds,
        "selected": list(result.selected),
    }


def _setting_to_plain(setting: Setting) -> dict[str, Any]:
    return {"criterion": setting.criterion, "value": setting.value, "k": "inf" if setting.k == math.inf else setting.k}


def _setting_from_plain(plain: dict[str, Any]) -> Setting:
    return Setting(plain["criterion"], plain["value"], math.inf if plain["k"] == "inf" else plain["k"])
