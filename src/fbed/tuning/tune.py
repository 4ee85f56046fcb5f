"""`tune`: choose the settings of the search by cross-validation, fit on all rows, and say honestly what it is worth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from fbed import families
from fbed.api.larger_than_memory import in_memory
from fbed.api.options import DataArguments, DataOptions, check_search_options
from fbed.api.paths import LEVELS, as_several, settings_grid
from fbed.api.problem import Problem
from fbed.api.progress import Progress
from fbed.api.reading import read_problem
from fbed.api.selection import select
from fbed.errors import InvalidInput
from fbed.result.fitted import FinalModel
from fbed.result.performance import Performance
from fbed.result.provenance import provenance
from fbed.result.result import Result
from fbed.rules.p_values import Floats
from fbed.tables.genotypes import considered
from fbed.tables.named import take_column
from fbed.tables.table import Name, as_list
from fbed.tuning import choice
from fbed.tuning.bbc import Bootstrapped, bootstrapped
from fbed.tuning.final_models import FinalWay, check_way, find_way, rows_a_coefficient
from fbed.tuning.folds import group_codes, make_folds
from fbed.tuning.grid import Configuration, CrossPath, Searches, check_family
from fbed.tuning.performance import performance
from fbed.tuning.scores import OutOfFold, Score, check_pairs, find_score, shown
from fbed.tuning.store import check_place

LOOSE = (0.2, 0.5)
"""Further levels where all variables could be kept, so that weak ones may be worth their while."""

ENOUGH = 10.0
"""Rows (or events) a coefficient of a model with all variables that make it so."""

_SMALLEST = 1e-140  # spread of an outcome of which sums of squares are numbers


@dataclass(frozen=True, eq=False)
class Tuned:
    """A selection whose settings were chosen by cross-validation.

    Attributes
    ----------
    result : the selection on all rows by the chosen settings; `result.model` is the final model.
    performance : what it is worth, out of fold.
    cross : folds × configurations; `out_of_fold` has its predictions.
    chosen : index of the chosen configuration among `cross.configurations`.
    values, errors : score of every configuration by which it was chosen, and its standard error.
    """

    result: Result
    performance: Performance
    cross: CrossPath
    out_of_fold: OutOfFold
    boot: Bootstrapped
    chosen: int
    values: Floats
    errors: Floats

    @property
    def score(self) -> Score:
        """By which the configuration was chosen."""
        found = self.out_of_fold
        return find_score(self.performance.selected_by, found.family, found.seen.trials is not None)

    @property
    def configuration(self) -> Configuration:
        """The chosen one."""
        return self.cross.configurations[self.chosen]

    @property
    def model(self) -> FinalModel:
        """The final model."""
        assert self.result.model is not None
        return self.result.model

    def cv_results(self) -> dict[str, Any]:
        """A column a key, a row a configuration, as scikit-learn's searches have it."""
        weights = self.out_of_fold.weights[None]
        N, D = (part[:, 0] for part in self.score.by_fold(self.out_of_fold, weights))
        with np.errstate(divide="ignore", invalid="ignore"):
            folds = N / D
        n = len(self.cross.searches.way.penalties)
        seconds = np.array([run.seconds[: self.cross.n_settings] for run in self.cross.runs])
        order = np.argsort(np.argsort(-np.nan_to_num(self.values, nan=-np.inf), kind="stable"), kind="stable")
        params = [c.params for c in self.cross.configurations]
        return {
            "params": params,
            **{
                f"param_{name}": [p.get(name) for p in params]
                for name in ("criterion", "alpha", "gamma", "k", "penalty")
            },
            "mean_test_score": self.values.copy(),
            "std_test_score": self.errors.copy(),
            "rank_test_score": order + 1,
            "mean_n_selected": self.cross.sizes,
            "mean_fit_time": np.repeat(seconds.mean(axis=0), n) / n,
            **{f"split{i}_test_score": folds[i] for i in range(len(folds))},
        }


def tune(
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    fold_groups: Any = None,
    scoring: str | None = None,
    choose: str = "min",
    final: str = "auto",
    alphas: Iterable[float] | None = None,
    gammas: Iterable[float | None] = (0.0, 0.5, 1.0, None),
    ks: Iterable[float] = (0, 1, math.inf),
    fbs: bool = True,
    backward: bool = True,
    include: Iterable[Name] = (),
    exclude: Iterable[Name] = (),
    max_features: int | None = None,
    n_bootstraps: int = 500,
    random_state: int | None = 0,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    resume: str | Path | None = None,
    **data: Unpack[DataArguments],
) -> Tuned:
    """Choose level, EBIC parameter and K by cross-validation, refit on all rows, and estimate performance honestly.

    Parameters
    ----------
    X, y
        As in `fbed.select`.
    cv : int, splitter or list of splits
        Folds (None is 5); those of a number have their share of every class (or of the events), and are shuffled.
    fold_groups : array or the name of a column of X, optional
        Rows that stay in one fold together, and are resampled together; `cluster` by default, where there is one.
    scoring : str, optional
        By what the configuration is chosen: the deviance by default; 'roc_auc', 'neg_log_loss', 'neg_brier_score',
        'accuracy', 'r2', 'd2', 'neg_mean_squared_error', 'neg_mean_absolute_error', 'c_index', or the name of another
        scorer of scikit-learn, which takes longer.
    choose : {'min', '1se'}
        The best configuration, or the one with the fewest variables within a standard error of the best.
    final : {'auto', 'ml', 'ridge', 'firth', 'shrinkage', 'parameterwise', 'lasso'}
        How the model on the selected variables is estimated, in the folds and at the end: 'auto' is maximum likelihood,
        or ridge where the folds find it better (it is tried where there are fewer than 50 rows for every coefficient of
        a model with all variables). Penalties are chosen by the same folds.
    alphas : numbers, optional
        Levels of likelihood-ratio tests: those of `fbed.path` by default, and 0.2 and 0.5 as well where there are ten
        rows (or events) and more for every coefficient of a model with all variables.
    gammas, ks, fbs, backward, include, exclude, max_features
        The rest of the grid, as in `fbed.path`.
    n_bootstraps : int
        Samples of BBC-CV.
    random_state : int, optional
        Of folds and bootstrap samples.
    time_limit : float, optional
        Seconds for the folds; settings that were not reached in all of them are left out. Folds are then all in memory.
        What the choice is worth, and the search by it on all rows, take their time beyond that.
    n_jobs : int, optional
        Folds at the same time, in threads. The answer does not depend on it.
    progress : bool or callable, optional
        As in `fbed.select`, by finished searches.
    resume : path, optional
        File in which finished folds are kept; a run that was stopped goes on where it was.
    **data
        As in `fbed.path`.

    Returns
    -------
    Tuned

    Examples
    --------
    >>> import fbed
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> tuned = fbed.tune(X, y, alphas=(0.001, 0.05), gammas=(None,), ks=(0, 1), fbs=False, final="firth")
    >>> tuned.performance.scores[0].name
    'roc_auc'
    >>> tuned.performance.scores[0].value > 0.97
    True
    """
    started = time.perf_counter()
    include, exclude = as_list(include), as_list(exclude)
    X = considered(in_memory(X, "tuning"), include, data.get("groups"))
    choice.check_rule(choose)
    if resume is not None:
        check_place(Path(resume))
    _check_bootstraps(n_bootstraps, random_state)
    gammas, ks = as_several(gammas, "gammas"), as_several(ks, "ks")
    grid = settings_grid(LEVELS if alphas is None else alphas, gammas, ks, fbs)
    for setting in grid:
        check_search_options(0 if setting.k is None else setting.k, max_features, time_limit)
    groups, left_out = _fold_groups(X, fold_groups, data)
    exclude = [*exclude, *(name for name in left_out if name not in exclude)]
    if (family := data.get("family", "auto")) != "auto":
        check_family(families.find(family))  # before levels and criteria, which others have no use for either
    problem = read_problem(X, y, [s.as_criterion() for s in grid], exclude, DataOptions.of(data), n_jobs)
    check_family(problem.kind)
    _check_scale(problem)
    if alphas is None and rows_a_coefficient(problem) >= ENOUGH:
        grid = settings_grid(LEVELS + LOOSE, gammas, ks, fbs)
    way = check_way(find_way(final, problem.model.name), problem)
    trials = problem.extras.trials is not None
    score = find_score(scoring, problem.model.name, trials)
    n_rows = _n_rows(X, problem)
    folds = make_folds(problem, cv, groups, random_state, n_rows)
    check_pairs(score, folds)
    searches = Searches(tuple(grid), way, tuple(include), tuple(exclude), backward, max_features)
    cross = CrossPath(problem, folds, searches).run(time_limit, n_jobs, progress, resume)
    if cross.status == "interrupted":
        raise KeyboardInterrupt
    codes = group_codes(groups, n_rows)
    units = None if codes is None else codes[problem.kept]
    chosen, judged = _judged(cross, score, choose, units, n_bootstraps, random_state, trials)
    setting = cross.configurations[chosen].setting
    asked = {"y": y, "backward": backward, "max_features": max_features, "n_jobs": n_jobs, **data}
    asked |= {"include": include, "exclude": exclude, "criterion": setting.as_criterion(), "k": setting.k or 0}
    result = _refitted(problem, searches, cross.configurations[chosen])
    assert result.model is not None
    told = replace(judged["performance"], estimation=result.model.estimation)
    result = replace(
        result,
        provenance=provenance(select, {**asked, "early_dropping": setting.k is not None}),
        seconds=time.perf_counter() - started,
        notes=result.notes + _notes(cross, told),
        performance=told,
    )
    return Tuned(**{**judged, "performance": told}, result=result, cross=cross, chosen=chosen)


def _judged(
    cross: CrossPath,
    score: Score,
    rule: str,
    units: Any,
    n_bootstraps: int,
    random_state: int | None,
    trials: bool,
) -> tuple[int, dict[str, Any]]:
    """The choice, and what it is worth."""
    found = cross.out_of_fold()
    values, errors = (v[0] for v in score.values(found, found.weights[None]))
    if np.isnan(values).all():
        raise InvalidInput(
            f"scoring={score.name!r} is not known of any configuration in any of the {len(cross.runs)} folds: they "
            "hold out too few rows, or rows that are too much alike: ask for fewer folds by cv, or for another scoring"
        )
    chosen = int(choice.choose(values[None], errors[None], cross.sizes, rule)[0])
    names = ["d2"] if trials else list(shown(found.family))
    told = [score] if score.name not in (*names, "deviance") else []
    told += [find_score(name, found.family, trials) for name in names]
    boot = bootstrapped(found, score, told, cross.sizes, rule, chosen, units, n_bootstraps, random_state)
    worth = performance(cross, found, boot, chosen, values, errors, score.name, rule, cross.searches.way.name, units)
    return chosen, {"performance": worth, "out_of_fold": found, "boot": boot, "values": values, "errors": errors}


def _refitted(problem: Problem, searches: Searches, chosen: Configuration) -> Result:
    """The search on all rows by the chosen setting, with the final model estimated in the chosen way."""
    result = problem.run(searches.plan(problem, chosen.setting), chosen.setting.as_criterion())
    if result.status == "interrupted":
        raise KeyboardInterrupt
    assert result.model is not None
    way: FinalWay = searches.way.with_penalty(chosen.penalty) if result.variables else FinalWay("ml")
    if chosen.penalty is None and way.name in ("auto", "ml") and not _needs_another(result.model):
        return result
    (model,) = way.fit(problem, result.model, list(result.variables))
    return replace(result, model=replace(model, inflation=result.model.inflation), closer=result.closer)


def _needs_another(model: FinalModel) -> bool:
    return model.separated or not all(math.isfinite(value) for value in model.coefficients)


def _notes(cross: CrossPath, told: Performance) -> tuple[str, ...]:
    done, wanted = cross.n_settings, len(cross.searches.settings)
    notes = [
        f"{score.words} is not known: no fold has rows to compare"
        for score in told.scores
        if score.value != score.value
    ]
    if done < wanted:
        notes.append(f"time ran out: {done} of {wanted} settings of the grid were finished in every fold and compared")
    return tuple(notes)


def _fold_groups(X: Any, groups: Any, data: Any) -> tuple[Any, list[str]]:
    """Values of the groups, and columns of X that are no predictors for being groups."""
    cluster = data.get("cluster")
    if groups is None:
        groups = cluster
    if groups is None:
        return None, []
    if not isinstance(groups, str):
        return np.asarray(groups), []
    values = take_column(X, groups, "fold_groups")
    used = [name for name in data.values() if isinstance(name, str)]
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values), (
        [] if groups in used else [groups]
    )


def _n_rows(X: Any, problem: Problem) -> int:
    """Rows of the user's table, those that the problem left out included."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0])
    return int(problem.kept.max()) + 1 if not hasattr(X, "__len__") else _length(X, problem)


def _length(X: Any, problem: Problem) -> int:
    if isinstance(X, dict):
        return len(next(iter(X.values()))) if X else len(problem.kept)
    return len(X)


def _check_bootstraps(n: int, random_state: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise InvalidInput(f"n_bootstraps must be a whole number, 1 or more, got {n!r}")
    try:
        np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"random_state must be None or a whole number, 0 or more, got {random_state!r}") from error


def _check_scale(problem: Problem) -> None:
    """Refuse outcomes whose squared errors are beyond all numbers."""
    if problem.model.name not in ("gaussian", "mixed"):
        return
    spread = float(np.ptp(problem.outcome.numbers()))
    if not _SMALLEST < spread < 1.0 / _SMALLEST:
        raise InvalidInput(
            f"the outcome spreads over {spread:.3g}, and squares of such errors are no numbers: give it in another unit"
        )
