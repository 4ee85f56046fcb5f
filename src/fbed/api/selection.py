"""`select`: from a table to a result."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import Any

from fbed.api.larger_than_memory import Far, far_or_near, read_problem_elsewhere
from fbed.api.options import DataOptions, SearchOptions
from fbed.api.problem import Listener, Problem, settings
from fbed.api.progress import Progress, reporting
from fbed.api.reading import read_problem
from fbed.clock import Clock
from fbed.errors import InvalidInput
from fbed.graphs import oracle
from fbed.models.other_statistics.users_test import ConditionalTest, TestFunction
from fbed.result.provenance import Provenance, provenance
from fbed.result.result import Result, build
from fbed.rules.criteria import Criterion, LikelihoodRatio
from fbed.search.checkpoint import Checkpoint
from fbed.search.search import Plan, Trail, search
from fbed.tables.genotypes import considered
from fbed.tables.table import Groups, Name, as_list


def select(
    X: Any,
    y: Any,
    *,
    family: str | TestFunction | ConditionalTest = "auto",
    test: str | None = None,
    cov: str | None = None,
    link: str | None = None,
    criterion: str | Criterion = "lr",
    alpha: float | None = None,
    gamma: float | None = None,
    k: float = 1,
    early_dropping: bool = True,
    backward: bool = True,
    alpha_backward: float | None = None,
    familywise: float | None = None,
    include: Iterable[Name] = (),
    exclude: Iterable[Name] = (),
    groups: Groups | None = None,
    categorical: Iterable[Name] = (),
    missing: str = "error",
    rare_levels: float | None = None,
    max_features: int | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    trials: Any = None,
    strata: Any = None,
    entry: Any = None,
    cluster: Any = None,
    feature_names: Sequence[str] | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    engine: str = "certified",
    device: str | None = None,
    memory_limit: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    client: Any = None,
) -> Result:
    """Select variables by forward-backward selection with early dropping (FBED^K).

    Parameters
    ----------
    X : array, SciPy sparse matrix, mapping of columns, or pandas / polars / Arrow table
        Predictors, a row a sample; or the name of a file that the command line reads. Text and category columns of a
        table enter and leave as a unit, with a degree of freedom a level but the first.
        Tables may be larger than memory: Parquet files (``'data/*.parquet'`` or a folder), `pyarrow.dataset.Dataset`,
        polars `LazyFrame`, `numpy.memmap`, Dask arrays and data frames; see `memory_limit`.
        Or a `fbed.graphs.DAG` or `MAG`: the tests are then perfect, answered by separation in the graph.
    y : array, series, the name of a column of X, or a pair
        Outcome; a node, when X is a graph. Survival times are a pair (time, event) of arrays or column names, or a
        structured array with the fields 'event' and 'time'. Rows are matched by position: pandas indices must be equal.
    family : str or a test of your own
        Kind of outcome, a name of the table that ``python -m fbed.families`` prints. 'auto' chooses: 'binomial' for two
        different values, 'multinomial' for more classes, 'ordinal' for ordered ones, 'cox' for survival times,
        'gaussian' for other numbers, 'oracle' for a graph.
    test : {'lr', 'score', 'wald'}, optional
        Test of nested models, where the family has a choice; the likelihood ratio by default.
    cov : str, optional
        Robust covariance for Wald tests: 'HC3' for heteroscedastic rows, 'cluster' for rows that depend on each other.
    link : str, optional
        Link function, where the family has a choice.
    offset, exposure : array or the name of a column of X, optional
        Known part of the linear predictor; an exposure is the offset log(exposure).
    trials : array or the name of a column of X, optional
        Number of trials of every row; y is then the number of successes.
    strata, entry : array or the name of a column of X, optional
        Of survival times: rows of different strata are not compared; rows are at risk after their entry time only.
    cluster : array or the name of a column of X, optional
        Subject or other unit that rows belong to.
    criterion : {'lr', 'aic', 'bic', 'ebic'} or a criterion object
        'lr' is the test of the family at level alpha, a likelihood ratio as a rule (exact F for gaussian; where a
        category has too many levels for χ², p-values from pairs of rows). Objects such as ``fbed.EBIC(gamma=0.5)``
        carry their own parameters; ``alpha``, ``gamma`` and ``alpha_backward`` are refused where the criterion does not
        use them.
    alpha : float, optional
        Significance level of criterion 'lr'; 0.05 by default.
    gamma : float in [0, 1], optional
        Parameter of criterion 'ebic'; by default 1 − ½·log n / log p, clipped to [0, 1], with p the number of
        candidates that are not constant.
    k : int or math.inf
        Number of extra runs that bring dropped variables back: FBED^0, FBED^1, …, FBED^∞.
    early_dropping : bool
        False gives forward-backward selection (FBS), whatever k.
    backward : bool
        Whether the backward phase is run.
    alpha_backward : float, optional
        Level for staying in the backward phase; alpha by default.
    familywise : float, optional
        Probability that anything at all is selected when nothing matters: alpha is set so that it is at most this, by
        permutations of the outcome (by simulation, where there is an offset, an exposure or something forced in). Weak
        control: it says nothing about further variables once one matters.
    include, exclude : names or indices
        Variables forced into every model, and variables that are not considered; groups by their names.
    groups : mapping of names to lists of columns, optional
        Columns that enter and leave together, such as the columns of a spline: ``{'dose': ['d1', 'd2']}``. A group is
        one variable: it is tested with as many degrees of freedom as it adds, and is called by its name in the result.
    categorical : names or indices
        Columns of numbers that are codes of categories; text and category columns are categories anyhow.
    missing : {'error', 'drop', 'indicator'}
        Missing values are refused; or rows with any in y or in a column that is considered are left out; or every such
        column is joined by an indicator of where it is missing, as one variable, and its missing numbers are set to
        its mean (a missing category is a level of its own). `notes` tells what was done.
    rare_levels : int or float, optional
        Levels of a category with fewer rows than this (or, below 1, with a smaller part of them) become one level,
        '(other)', where there are several.
    max_features : int, optional
        Most variables to select, forced ones not counted.
    sample_weight : array or the name of a column of X, optional
        Frequencies: weight 2 is the row twice, weight 0 no row.
    feature_names : sequence of str, optional
        Names of the columns of an array.
    time_limit : float, optional
        Seconds after which the search stops and returns what it has found; kept to within a second, or one pass over
        the rows where that takes longer.
    n_jobs : int, optional
        Threads; −1 for all processors. The answer does not depend on it.
    progress : bool or callable, optional
        True shows progress on the terminal or in the notebook; a callable gets a `Progress` after every scan.
    engine : {'certified', 'exhaustive'}
        'certified' decides by bounds on the statistics, 'exhaustive' fits every model. They select the same; the
        second is there to check the first.
    memory_limit : int or str, optional
        Bytes of memory, such as '2GB', within which a table is read part by part: Parquet files, an Arrow dataset, a
        lazy polars frame, a mapped file or a Dask collection. Without it, such a table is read into memory if it takes
        less than a quarter of what is free.
    checkpoint : path, optional
        A file in which every step is written down as soon as it is known. A search that was killed goes on there when
        it is started again with the same options and data, and is refused with others.
    client : `dask.distributed.Client` or the address of a scheduler, optional
        A cluster whose workers read the table and keep their parts of it; for Dask collections the current client by
        default. The answer does not depend on the number of workers.
    device : str, optional
        'cuda' (or 'cuda:1') moves the numbers of the table to a GPU and searches there with PyTorch; 'cpu' does the
        same arithmetic without one. Tensors and CuPy arrays that are on a GPU stay there. The answer is the same.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np, fbed
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(200, 10))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.normal(size=200)
    >>> fbed.select(X, y, criterion="ebic").selected
    (3, 7)
    """
    asked = provenance(select, locals())
    include, exclude = as_list(include), as_list(exclude)
    X = considered(far_or_near(X, memory_limit, client, n_jobs), include, groups)
    started, on_clock = time.perf_counter(), time.monotonic()
    data = DataOptions(
        family=family,
        test=test,
        cov=cov,
        link=link,
        sample_weight=sample_weight,
        offset=offset,
        exposure=exposure,
        trials=trials,
        strata=strata,
        entry=entry,
        cluster=cluster,
        feature_names=feature_names,
        groups=groups,
        categorical=categorical,
        missing=missing,
        rare_levels=rare_levels,
        engine=engine,
        device=device,
    )
    searched = SearchOptions(
        criterion=criterion,
        alpha=alpha,
        gamma=gamma,
        alpha_backward=alpha_backward,
        k=k,
        early_dropping=early_dropping,
        backward=backward,
        include=include,
        exclude=exclude,
        max_features=max_features,
    )
    chosen = searched.chosen()
    searched.check(time_limit)
    if oracle.is_wanted(X, family):
        perfect = oracle.asked(X, y, family, chosen, {**_about_data(data), "familywise": familywise})
        forced, excluded = perfect.predictors(include, "include"), perfect.predictors(exclude, "exclude")
        plan = dataclasses.replace(searched, include=forced, exclude=excluded).plan(perfect.table)
        return _select_on_graph(perfect, plan, chosen, asked, n_jobs, time_limit, progress)
    if isinstance(X, Far) and device is not None:
        raise InvalidInput("device= holds the whole table: it does not go with data that are read part by part")
    read = read_problem_elsewhere if isinstance(X, Far) else read_problem
    with closing(X) if isinstance(X, Far) else nullcontext():
        problem = read(X, y, [chosen], exclude, data, n_jobs)
        plan = searched.plan(problem.table)
        if familywise is not None:
            if isinstance(X, Far):
                raise InvalidInput("familywise= permutes rows that are in memory: give alpha= for data that are not")
            own_level = alpha is not None or chosen != LikelihoodRatio()
            chosen, problem = _with_level(problem, plan, own_level, familywise)
        kept = None if checkpoint is None else partial(Checkpoint, checkpoint)
        result = problem.run(plan, chosen, time_limit, progress, started=on_clock, checkpoint=kept)
    return dataclasses.replace(result, seconds=time.perf_counter() - started, provenance=asked)


def _about_data(data: DataOptions) -> dict[str, Any]:
    """Options that a graph, which has no rows, has to refuse; None where they are not given."""
    given: dict[str, Any] = {"missing": None if data.missing == "error" else data.missing}
    given |= {"categorical": as_list(data.categorical) or None}
    names = ("sample_weight", "feature_names", "test", "cov", "groups", "rare_levels", "link")
    return {**{name: getattr(data, name) for name in names}, **given, **data.extras}


def _with_level(problem: Problem, plan: Plan, own_level: bool, familywise: float) -> tuple[Criterion, Problem]:
    """The criterion at the level that holds familywise, and the problem with a note on it."""
    from fbed.inference.familywise import familywise_level

    if own_level:
        raise InvalidInput(
            "familywise sets the level of criterion='lr': leave out criterion, alpha and alpha_backward, or familywise"
        )
    found = familywise_level(problem, plan, familywise)
    return LikelihoodRatio(found.alpha), dataclasses.replace(problem, notes=(*problem.notes, found.note))


def _select_on_graph(
    perfect: oracle.Oracle,
    plan: Plan,
    criterion: Criterion,
    asked: Provenance,
    n_jobs: int | None,
    time_limit: float | None,
    progress: Listener,
) -> Result:
    """The same search on perfect tests: no rows, no model."""
    started = time.perf_counter()
    with Clock(time_limit).running(), reporting(progress, perfect.table.name) as listen:
        trail = Trail(list(plan.forced), listen)
        search(perfect, plan, trail)
    return build(
        trail,
        plan,
        perfect.table,
        model=None,
        family=oracle.NAME,
        criterion=oracle.CRITERION,
        classes=None,
        n=0.0,
        notes=(),
        settings=settings(plan, criterion, perfect.table, n_jobs, time_limit),
        seconds=time.perf_counter() - started,
        provenance=asked,
    )
