"""`select`: from a table to a result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fbed import families, oracle
from fbed.criteria import Criterion, as_criterion
from fbed.design import Design
from fbed.errors import InvalidInput
from fbed.extras import Extras, read_extras
from fbed.families.own import ConditionalTest, TestFunction
from fbed.glance import glance
from fbed.origin import Origin, origin
from fbed.outcomes import Outcome, read_outcome, suggested_family
from fbed.progress import Progress, reporting
from fbed.result import Result, build
from fbed.scan import Scanner
from fbed.search import Plan, Trail, search
from fbed.tables import Name, Table, as_list, read_table, refuse_masked, take_column
from fbed.tails import Floats


def select(
    X: Any,
    y: Any,
    *,
    family: str | TestFunction | ConditionalTest = "auto",
    test: str | None = None,
    cov: str | None = None,
    link: str | None = None,
    criterion: str | Criterion = "lr",
    alpha: float = 0.05,
    gamma: float | None = None,
    k: float = 1,
    early_dropping: bool = True,
    backward: bool = True,
    alpha_backward: float | None = None,
    include: Iterable[Name] = (),
    exclude: Iterable[Name] = (),
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
) -> Result:
    """Select variables by forward-backward selection with early dropping (FBED^K).

    Parameters
    ----------
    X : array, SciPy sparse matrix, mapping of columns, or pandas / polars / Arrow table
        Predictors, a row a sample. Text and category columns of a table enter and leave as a unit.
        Or a `fbed.graphs.DAG` or `MAG`: the tests are then perfect, answered by separation in the graph.
    y : array, series, the name of a column of X, or a pair
        Outcome; a node, when X is a graph. Survival times are a pair (time, event) of arrays or column names, or a
        structured array with the fields 'event' and 'time'.
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
        'lr' is a likelihood-ratio test (exact F for gaussian). Objects such as ``fbed.EBIC(gamma=0.5)`` carry their own
        parameters, and ``alpha``, ``gamma`` and ``alpha_backward`` are then not used.
    alpha : float
        Significance level of criterion 'lr'.
    gamma : float in [0, 1], optional
        Parameter of criterion 'ebic'; by default 1 − ½·log n / log p, clipped to [0, 1].
    k : int or math.inf
        Number of extra runs that bring dropped variables back: FBED^0, FBED^1, …, FBED^∞.
    early_dropping : bool
        False gives forward-backward selection (FBS), whatever k.
    backward : bool
        Whether the backward phase is run.
    alpha_backward : float, optional
        Level for staying in the backward phase; alpha by default.
    include, exclude : names or indices
        Variables forced into every model, and variables that are not considered.
    max_features : int, optional
        Most variables to select, forced ones not counted.
    sample_weight : array or the name of a column of X, optional
        Frequencies: weight 2 is the row twice, weight 0 no row.
    feature_names : sequence of str, optional
        Names of the columns of an array.
    time_limit : float, optional
        Seconds after which the search stops and returns what it has found.
    n_jobs : int, optional
        Threads; −1 for all processors. The answer does not depend on it.
    progress : bool or callable, optional
        True draws progress on the terminal; a callable gets a `Progress` after every scan.
    engine : {'certified', 'exhaustive'}
        'certified' decides by bounds on the statistics, 'exhaustive' fits every model. They select the same; the
        second is there to check the first.

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
    asked = origin(select, locals())
    started = time.perf_counter()
    chosen = as_criterion(criterion, alpha, gamma, alpha_backward)
    _check_options(k, max_features, time_limit, engine)
    include, exclude = as_list(include), as_list(exclude)
    given = {
        "offset": offset,
        "exposure": exposure,
        "trials": trials,
        "strata": strata,
        "entry": entry,
        "cluster": cluster,
    }
    if oracle.is_wanted(X, family):
        about_data = {"sample_weight": sample_weight, "feature_names": feature_names, "test": test, "cov": cov}
        perfect = oracle.asked(X, y, family, chosen, {**about_data, "link": link, **given})
        forced, excluded = perfect.predictors(include, "include"), perfect.predictors(exclude, "exclude")
        plan = _plan(perfect.table, forced, excluded, k, early_dropping, backward, max_features)
        settings = _settings(plan, chosen, perfect.table, n_jobs, time_limit)
        return _select_on_graph(perfect, plan, settings, asked, time_limit, progress)
    named = [name for name in (*_pair(y), sample_weight, *given.values()) if isinstance(name, str)]
    table = read_table(X, feature_names, leave_out=named, exclude=exclude)
    weights, notes = _weights(
        take_column(X, sample_weight, "sample_weight") if isinstance(sample_weight, str) else sample_weight,
        table.n_rows,
    )
    outcome = read_outcome(_outcome_values(X, y), table.n_rows)
    plan = _plan(table, include, exclude, k, early_dropping, backward, max_features)
    extras = read_extras(X, table.n_rows, given)
    table, outcome, weights, extras = _present_rows(table, outcome, weights, extras)
    if isinstance(family, str) and family == "auto":
        family, note = suggested_family(outcome) if trials is None else ("binomial", None)
        notes += [note] if note else []
    kind = families.find(family)
    families.check_abilities(
        kind,
        test=test,
        cov=cov,
        link=link,
        extras=given,
        weighted=sample_weight is not None,
        needs_likelihood=chosen.needs_likelihood,
        criterion=repr(criterion),
    )
    in_force = kind.test_for(test, cov)
    design = Design(table, weights)
    model = kind.build(families.Request(design, outcome, extras, in_force, cov, link, engine == "certified"))
    deadline = None if time_limit is None else time.monotonic() + time_limit
    p = len(plan.candidates)
    scanner = Scanner(model, chosen.bind(model.n, p), len(plan.forced), n_jobs, deadline)
    with reporting(progress, design.table.name) as listen:
        trail = Trail(list(plan.forced), listen)
        search(scanner, plan, trail)
    return build(
        trail,
        plan,
        design.table,
        model=model.describe(trail.selected),
        family=model.name,
        criterion=_criterion_text(chosen.describe(model.n, p), in_force),
        classes=outcome.levels if model.name == "binomial" else None,
        n=model.n,
        notes=tuple(notes + list(getattr(model, "notes", ())) + _remarks(design, plan)),
        settings={**_settings(plan, chosen, table, n_jobs, time_limit), "test": in_force, "cov": cov, "link": link},
        seconds=time.perf_counter() - started,
        glance=glance(design, outcome, trail.selected),
        origin=asked,
    )


def _select_on_graph(
    perfect: oracle.Oracle,
    plan: Plan,
    settings: dict[str, Any],
    asked: Origin,
    time_limit: float | None,
    progress: bool | Callable[[Progress], None] | None,
) -> Result:
    """The same search on perfect tests: no rows, no model."""
    started = time.perf_counter()
    perfect.deadline = None if time_limit is None else time.monotonic() + time_limit
    with reporting(progress, perfect.table.name) as listen:
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
        settings=settings,
        seconds=time.perf_counter() - started,
        origin=asked,
    )


def _check_options(k: float, max_features: int | None, time_limit: float | None, engine: str) -> None:
    number = isinstance(k, (int, np.integer, float)) and not isinstance(k, bool)
    if not number or not k >= 0 or (k != math.inf and k != int(k)):
        raise InvalidInput(f"k is the number of extra runs: 0, 1, 2, … or math.inf, got {k!r}")
    if max_features is not None and (
        isinstance(max_features, bool) or not isinstance(max_features, (int, np.integer)) or max_features < 0
    ):
        raise InvalidInput(f"max_features must be a whole number that is 0 or more, or None, got {max_features!r}")
    if time_limit is not None and not time_limit >= 0:
        raise InvalidInput(f"time_limit must be a number of seconds, 0 or more, got {time_limit!r}")
    if engine not in ("certified", "exhaustive"):
        raise InvalidInput(f"engine must be 'certified' or 'exhaustive', got {engine!r}")


def _plan(
    table: Table,
    include: Iterable[Name],
    exclude: Iterable[Name],
    k: float,
    early_dropping: bool,
    backward: bool,
    max_features: int | None,
) -> Plan:
    forced, excluded = table.find(include, "include"), table.find(exclude, "exclude")
    both = [table.name(j) for j in forced if j in excluded]
    if both:
        raise InvalidInput(f"{both} are both included and excluded: leave them out of one of the two")
    candidates = np.setdiff1d(np.arange(table.n_variables, dtype=np.intp), np.array(forced + excluded, dtype=np.intp))
    limit = math.inf if max_features is None else max_features
    return Plan(candidates, tuple(forced), k, bool(early_dropping), bool(backward), limit)


def _weights(sample_weight: Any, n_rows: int) -> tuple[Floats, list[str]]:
    """Frequencies as floats, and a note when they are not whole numbers."""
    if sample_weight is None:
        return np.ones(n_rows), []
    refuse_masked(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"sample_weight must hold numbers: {error}") from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise InvalidInput(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: give one weight a row (Sample weights must "
            "be 1D array or scalar)"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInput("sample_weight must be finite and 0 or more: weight 2 stands for the row twice, 0 for none")
    if int((weights > 0).sum()) < 3:
        raise InvalidInput(f"selection needs at least 3 rows with a weight above zero, got {int((weights > 0).sum())}")
    if np.any(weights != np.round(weights)):
        return weights, [
            "the weights are not whole numbers; they count as frequencies, so the sample size is their sum "
            f"({weights.sum():g})"
        ]
    return weights, []


def _pair(y: Any) -> tuple[Any, ...]:
    """The two names of a survival time, or the outcome itself."""
    return tuple(y) if isinstance(y, (tuple, list)) and len(y) == 2 and any(isinstance(v, str) for v in y) else (y,)


def _outcome_values(X: Any, y: Any) -> Any:
    """The outcome, or the pair (time, event), with names replaced by columns."""
    parts = tuple(take_column(X, part, "y") if isinstance(part, str) else part for part in _pair(y))
    return parts if len(parts) == 2 else parts[0]


def _present_rows(
    table: Table, outcome: Outcome, weights: Floats, extras: Extras
) -> tuple[Table, Outcome, Floats, Extras]:
    """Rows of weight 0 leave before anything is computed."""
    if (weights > 0).all():
        return table, outcome, weights, extras
    keep = np.flatnonzero(weights > 0)
    return table.rows(keep), outcome.rows(keep), weights[keep], extras.rows(keep)


def _criterion_text(text: str, test: str) -> str:
    """The criterion in words, with the name of the test in force."""
    names = {"score": "score test", "wald": "Wald test", "g2": "G² test", "kci": "KCI test", "rcit": "RCIT test"}
    name = names.get(test, "test" if test == "p-value" else f"{test} test")
    return text if test == "lr" else text.replace("likelihood-ratio test", name)


def _remarks(design: Design, plan: Plan) -> list[str]:
    constant = int((design.width[plan.candidates] == 0).sum())
    if constant == 0:
        return []
    return [f"{constant:,} constant column{'s' if constant != 1 else ''} cannot be selected"]


def _settings(
    plan: Plan, criterion: Criterion, table: Table, n_jobs: int | None, time_limit: float | None
) -> dict[str, Any]:
    excluded = table.n_variables - len(plan.candidates) - len(plan.forced)
    name = "FBS" if not plan.early_dropping else f"FBED^{'∞' if plan.k == math.inf else int(plan.k)}"
    return {
        "algorithm": name,
        "criterion": repr(criterion),
        "k": None if plan.k == math.inf else int(plan.k),
        "early_dropping": plan.early_dropping,
        "backward": plan.backward,
        "include": [table.name(j) for j in plan.forced],
        "n_excluded": excluded,
        "max_features": None if plan.max_features == math.inf else int(plan.max_features),
        "time_limit": time_limit,
        "n_jobs": n_jobs,
    }
