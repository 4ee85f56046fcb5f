"""The table of families: what each can do, and how its model is built from an outcome."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput, SlowSearch
from fbed.families.registry import Family, Request
from fbed.matrix.design import Design
from fbed.matrix.device_blocks import DeviceBlocks
from fbed.matrix.row_blocks import RowBlocks
from fbed.matrix.stored_blocks import PackedBlocks, blocks_of
from fbed.models.base import Model
from fbed.models.engines.binomial import Binomial
from fbed.models.engines.bounded import BoundedFit
from fbed.models.engines.coded_regression import Classes, Counts
from fbed.models.engines.dispersed import DispersedFit
from fbed.models.engines.gamma import GammaByCounts
from fbed.models.engines.linear_products import GaussianByProducts
from fbed.models.engines.scattered_classes import ScatteredFit
from fbed.models.engines.scored import ScoredFit
from fbed.models.engines.survival import SurvivalFit
from fbed.models.engines.tall.array_sums import ArraySums
from fbed.models.engines.tall.class_fit import TallClassFit
from fbed.models.engines.tall.course import Course, order_of_risk
from fbed.models.engines.tall.linear import LinearSums, Products, TallGaussian
from fbed.models.engines.tall.model import TallModel
from fbed.models.engines.tall.ordered_sums import OrderedSums
from fbed.models.engines.tall.packed_sums import PackedSums
from fbed.models.engines.tall.risk_sums import RiskSums, in_order
from fbed.models.engines.tall.row_sums import RowSums
from fbed.models.engines.tall.softmax_sums import SoftmaxSums
from fbed.models.engines.tall.timed_sums import TimedSums
from fbed.models.engines.tall.wide_products import WideProducts
from fbed.models.engines.trials import Halves, Trials, TrialsByFits
from fbed.models.engines.wald import WaldFit
from fbed.models.likelihoods.cox import Cox
from fbed.models.likelihoods.glm import BINOMIAL, GAMMA, PERFECT, POISSON, Distribution, Glm
from fbed.models.likelihoods.likelihood import Regression, RegressionFit, RegressionModel
from fbed.models.likelihoods.multinomial import Multinomial
from fbed.models.likelihoods.negative_binomial import NegativeBinomial
from fbed.models.likelihoods.nested_tests import TESTS
from fbed.models.likelihoods.ordinal import Ordinal
from fbed.models.likelihoods.weibull import Weibull
from fbed.models.other_statistics import scarce_predictors
from fbed.models.other_statistics.gee import LINKS as GEE_LINKS
from fbed.models.other_statistics.gee import Gee, gee_outcome
from fbed.models.other_statistics.gsquare import GSquare
from fbed.models.other_statistics.kernel import kernel_test, outcome_columns
from fbed.models.other_statistics.linear import Gaussian
from fbed.models.other_statistics.mixed import Mixed
from fbed.models.other_statistics.residual_scores import Huber, Quantile, ResidualScores, Scoring
from fbed.models.other_statistics.sandwich import Clusters, RobustGaussian, clustered_covariance, clustered_wald
from fbed.models.other_statistics.spearman import Spearman
from fbed.models.other_statistics.users_test import TestedOneByOne
from fbed.rules.p_values import Floats
from fbed.tables.columns import listing

_LIKELIHOOD_TESTS = ("lr", "score", "wald")
_MANY_CLASSES = 20  # from which the classes are what takes time
_LONG = 60.0  # seconds of a first scan that a person should know of before
_SECONDS_A_VALUE = 8e-10  # of the Hessian of a model of two columns, for each row and pair of classes
_FITS_A_TEST = 3  # Hessians of a model until it is fitted


def _gaussian(request: Request) -> Model:
    y = request.outcome.numbers()
    if request.extras.offset is not None:
        y = y - request.extras.offset
    if request.cov is None:
        model = Gaussian(request.design, y, request.certified)
        if request.certified and _has_few_products(request.design):
            return GaussianByProducts(model)
        few = int(request.design.width.sum()) <= _MOST_PRODUCTS
        if not _is_tall(request) or not (few or request.design.is_stored):
            return model
        return _tall_gaussian(model, few)
    if request.cov == "HC3":
        return RobustGaussian(request.design, y, None)
    return _with_notes(RobustGaussian(request.design, y, _clusters(request)), _scarce(request))


_CHEAP_PRODUCTS = 3e8  # multiplications for the products of all columns that take less time than a few scans
_ROWS_A_COLUMN = 2  # with fewer, models soon explain nearly everything, and products lose their digits


def _has_few_products(design: Design) -> bool:
    """Whether the products of all columns are cheap beside a search."""
    columns = int(design.width.sum())
    small = design.n_rows < TALL and not design.is_stored
    return small and _ROWS_A_COLUMN * columns <= design.n_rows and design.n_rows * columns**2 <= _CHEAP_PRODUCTS


def _tall_gaussian(model: Gaussian, few: bool) -> TallGaussian:
    blocks, y = blocks_of(model.design), np.sqrt(model.design.weights) * model.y
    return TallGaussian(model, Products(LinearSums(blocks, y)) if few else WideProducts(blocks, y))


def _clusters(request: Request) -> Clusters:
    assert request.extras.cluster is not None  # `check_abilities` has asked for it
    return Clusters(request.extras.cluster)


def _regression(request: Request, likelihood: Regression) -> RegressionModel:
    """A likelihood with the test that was asked for: robust where rows are clustered."""
    if request.cov != "cluster":
        kind = _answers(likelihood, request) if request.certified else None
        return RegressionModel(request.design, likelihood, TESTS[request.test], kind=kind)
    clusters = _clusters(request)
    robust = RegressionModel(request.design, likelihood, clustered_wald(clusters), clustered_covariance(clusters))
    return _with_notes(robust, _scarce(request))


def _answers(likelihood: Regression, request: Request) -> type[RegressionFit] | None:
    """How scans of a likelihood are answered, if not by a fit for every candidate."""
    if request.test != "lr":
        if not isinstance(likelihood, Glm) or request.design.is_stored:
            return None
        return ScoredFit if request.test == "score" else WaldFit if likelihood.brackets else None
    if isinstance(likelihood, Cox):
        return SurvivalFit
    if isinstance(likelihood, NegativeBinomial):
        return DispersedFit
    return ScatteredFit if likelihood.raced else BoundedFit if likelihood.brackets else None


def _scarce(request: Request) -> tuple[str, ...]:
    assert request.extras.cluster is not None
    return scarce_predictors.remarks(request.design, request.extras.cluster)


def binomial_outcome(request: Request) -> tuple[Floats, Floats]:
    """Part of every row's trials that succeeded, and their weight; refuses classes of which nothing can be learnt."""
    if request.extras.trials is not None:
        return _proportions(request)
    y = request.outcome.zero_one()
    _refuse_lone_members(request, y.astype(np.intp), request.outcome.levels)
    return y, request.design.weights


def _binomial(request: Request) -> Model:
    if request.extras.trials is None:
        _refuse_lone_members(request, request.outcome.zero_one().astype(np.intp), request.outcome.levels)
    offset, single = request.extras.told_offset, request.extras.several_trials is None
    if single and request.test == "lr" and (request.certified or offset is None):
        y = request.outcome.zero_one() if request.extras.trials is None else _proportions(request)[0]

        def careful() -> Model:
            if request.design.is_stored:  # those kernels read arrays
                return _regression(request, Glm(BINOMIAL, y, request.design.weights, offset))
            return Binomial(request.design, y, request.certified, offset)

        return (
            _tall("binomial", request, y, request.design.weights, careful)
            if _is_tall(request, keeps_codes=True, part=_SPARSE if request.design.is_sparse else 1.0)
            else careful()
        )
    return _glm(request, BINOMIAL)


_MOST_PRODUCTS = 4096  # columns of which all products are kept
TALL = 20_000  # rows from which brackets by the largest value of a column decide nearly everything


_SPARSE = 5.0  # times as many where the ordinary model of two classes looks at entries that are not 0 only
_SOONER = 0.02  # part of these from which they are quicker where the ordinary model has few kernels of its own
_WIDE, _SHORTEST = 16, 1000  # columns of a category that are not worth to be expanded, with so many rows or more


def _is_tall(request: Request, keeps_codes: bool = False, part: float = 1.0) -> bool:
    """Whether sums over rows are the way: many rows, or large categories that the ordinary model would expand."""
    design = request.design
    tall = design.n_rows >= part * TALL or design.is_stored
    if not tall and not keeps_codes and design.n_rows >= _SHORTEST:
        tall = any(len(factor.levels) > _WIDE for factor in design.table.factors.values())
    return _answers_by_bounds(request) and tall


def _tall(name: str, request: Request, y: Floats, weights: Floats, careful: Callable[[], Model]) -> TallModel:
    """An engine by sums over rows, and the ordinary model for what is next to collinear or separated."""
    counts = name == "poisson"
    blocks = blocks_of(request.design)
    offset = request.extras.told_offset
    if isinstance(blocks, DeviceBlocks):
        return TallModel(name, ArraySums(blocks, y, weights, offset, counts), careful)
    if isinstance(blocks, PackedBlocks):
        return TallModel(name, PackedSums(blocks, y, weights, offset, counts), careful)
    sums = RowSums(blocks, y, weights, offset, counts)
    return TallModel(name, sums, careful)


def _glm(request: Request, distribution: Distribution) -> Model:
    weights = request.design.weights
    if distribution is POISSON:
        y = request.outcome.counts("poisson")
    elif distribution is GAMMA:
        y = request.outcome.positive("gamma")
    elif request.extras.trials is None:
        y = request.outcome.zero_one()
    else:
        y, weights = _proportions(request)
    by_halves = request.extras.several_trials is not None and _by_likelihoods(request) and not request.design.is_stored
    glm = Glm(distribution, y, weights, request.extras.told_offset)

    def careful() -> Model:
        if distribution is POISSON and _answers_by_bounds(request) and not request.design.is_stored:
            return Counts(request.design, glm)
        if by_halves:
            return _trials(request, y)
        return _regression(request, glm)

    if distribution is GAMMA:
        by_counts = _answers_by_bounds(request) and not request.design.is_stored
        return _gamma(request, glm, careful) if by_counts else careful()
    part = _SOONER if distribution is POISSON else 1.0
    if _is_tall(request, by_halves, part):
        return _tall(distribution.name, request, y, weights, careful)
    return careful()


_SPREAD = 3.0  # shape from which the rows of positive numbers weigh more than one of counts
_NO_SPREAD = 1e8  # and one beyond which sums over rows have lost digits of what little they differ


def _gamma(request: Request, gamma: Glm, careful: Callable[[], Model]) -> Model:
    """Counts of 1, with an offset that is the log of the outcome."""
    shape = float(gamma.precision(np.array([gamma.floor / PERFECT]))[0])  # without variables, and an offset
    if not shape < _NO_SPREAD:
        return careful()
    unit = shape if shape > _SPREAD else 1.0
    design = request.design if unit == 1.0 else request.design.times(unit)
    offset = np.log(gamma.y) - (0.0 if gamma.offset is None else gamma.offset[:, 0])
    ones = np.ones(len(gamma.y))

    def ordinary() -> Model:
        return Counts(design, Glm(POISSON, ones, design.weights, offset))

    if not _is_tall(request, part=_SOONER):
        return GammaByCounts(request.design, gamma, unit, ordinary(), careful)
    told = replace(request, design=design, extras=replace(request.extras, offset=offset))
    counts = _tall("poisson", told, ones, design.weights, ordinary)
    return GammaByCounts(request.design, gamma, unit, counts, careful)


def _trials(request: Request, part: Floats) -> Model:
    trials, offset = request.extras.trials, request.extras.told_offset
    assert trials is not None
    halves = Halves.of(request.design, part, trials, offset)
    return Trials(halves, request.certified) if request.certified or offset is None else TrialsByFits(halves)


def _answers_by_bounds(request: Request) -> bool:
    return request.certified and _by_likelihoods(request)


def _by_likelihoods(request: Request) -> bool:
    return request.test == "lr" and request.cov is None


def _proportions(request: Request) -> tuple[Floats, Floats]:
    """Part of the trials that succeeded, and weight × trials."""
    trials = request.extras.trials
    assert trials is not None
    successes = request.outcome.values if not request.outcome.categorical else None
    if successes is None or (successes < 0).any() or np.any(successes != np.round(successes)):
        raise InvalidInput("with trials=, y is the number of successes of every row: 0, 1, 2, …")
    if (successes > trials).any():
        row = int((successes > trials).argmax())
        raise InvalidInput(
            f"y holds more successes than trials in {int((successes > trials).sum())} rows, the first is row {row} "
            f"({successes[row]:g} of {trials[row]:g}): y counts successes, trials counts successes and failures"
        )
    if successes.sum() in (0.0, trials.sum()):
        raise InvalidInput("all trials end alike: with one class there is nothing to explain")
    return successes / trials, request.design.weights * trials


_WIDEST = 1e5  # beyond, a single row may move the dispersion to where its likelihood has lost its digits


def _refuse_wide_weights(weights: Floats) -> None:
    if weights.max() > _WIDEST * weights.min():
        raise InvalidInput(
            f"the weights range from {weights.min():g} to {weights.max():g}, but the dispersion of a negative binomial "
            f"outcome cannot be told from rows so unequal: let them differ {_WIDEST:g}-fold at most"
        )


def _negative_binomial(request: Request) -> Model:
    y = request.outcome.counts("negative_binomial")
    _refuse_wide_weights(request.design.weights)
    likelihood = NegativeBinomial(y, request.design.weights, request.extras.told_offset)
    return _regression(request, likelihood)


def _multinomial(request: Request) -> Model:
    codes, labels = request.outcome.classes("multinomial")
    _refuse_lone_members(request, codes, labels)
    slow = _slow_classes(request, len(labels))
    for note in slow:
        warnings.warn(note, SlowSearch, stacklevel=2)
    likelihood = Multinomial(codes, labels, request.design.weights)

    def careful() -> RegressionModel:
        if _answers_by_bounds(request) and not request.design.is_stored:
            return _with_notes(Classes(request.design, likelihood), slow)
        return _with_notes(_regression(request, likelihood), slow)

    if not _are_tall_classes(request, len(labels) - 1):
        return careful()
    return TallModel(
        likelihood.name, SoftmaxSums(RowBlocks(request.design), likelihood), careful, tuple(slow), TallClassFit
    )


def _slow_classes(request: Request, n_classes: int) -> list[str]:
    """A remark when the first scan alone would take minutes because of the classes: a Hessian has all pairs of them."""
    p = int((request.design.width > 0).sum())
    seconds = _FITS_A_TEST * p * _SECONDS_A_VALUE * n_classes**2 * request.design.n_rows
    if n_classes < _MANY_CLASSES or seconds < _LONG:
        return []
    length = f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
    return [
        f"y has {n_classes} classes, and time grows with their square: the first scan of {p:,} variables may take "
        f"{length}. Join classes, choose a family for numbers or ordered classes if they are such, or set time_limit"
    ]


def _ordinal(request: Request) -> Model:
    codes, labels = request.outcome.ordered_classes()
    _refuse_lone_members(request, codes, labels)
    likelihood = Ordinal(codes, labels, request.design.weights, request.link or "logit")

    def careful() -> RegressionModel:
        return _regression(request, likelihood)

    if not _are_tall_classes(request, 1, _FEWER if likelihood.raced else _SOONER):
        return careful()
    return TallModel(likelihood.name, OrderedSums(RowBlocks(request.design), likelihood), careful, kind=TallClassFit)


_FEWER = 0.1  # part of the rows from which classes are quicker
_MOST_PREDICTORS = 12  # of classes whose sums by blocks are quicker: they have all pairs of predictors
_FEW_ENTRIES = 0.05  # part of all values that are not 0, below which these are quicker than columns of many rows
_MOST_TOGETHER = 512  # coefficients of a variable, whose products have to be decomposed at a stretch
_MOST_LEVELS = 32  # of a category that may be written out, as the columns of a model are


def _are_tall_classes(request: Request, n_predictors: int, part: float = _FEWER) -> bool:
    """Whether classes go by sums over many rows; tables that are mostly 0 are known better by few entries."""
    design = request.design
    is_thin = design.is_sparse or 2 * int(design.mostly_zero.sum()) > len(design.stored)
    short = design.n_rows < (1.0 if is_thin else part) * TALL or design.is_stored or n_predictors > _MOST_PREDICTORS
    if short or not _answers_by_bounds(request):
        return False
    large = any(len(factor.levels) > _MOST_LEVELS for factor in design.table.factors.values())
    large |= int(design.width.max(initial=0)) * n_predictors > _MOST_TOGETHER
    return not (large or (is_thin and float(design.stored.mean()) < _FEW_ENTRIES * design.n_rows))


def _refuse_lone_members(request: Request, codes: NDArray[np.intp], labels: Sequence[Any]) -> None:
    """Whatever tells the single row of a class from the rest fits it perfectly: that is no evidence."""
    counts = np.bincount(codes, request.design.weights, len(labels))
    lone = [label for label, count in zip(labels, counts, strict=True) if count <= 1]
    if lone:
        raise InvalidInput(
            f"y has classes with {request.design.one_row}: {listing(lone)}; nothing can be learnt about a class from "
            "one row: join them to other classes, or leave those rows out"
        )


class _Noted(Protocol):
    notes: tuple[str, ...]


Noted = TypeVar("Noted", bound=_Noted)


def _with_notes(model: Noted, notes: Sequence[str]) -> Noted:
    model.notes = (*model.notes, *notes)
    return model


def _cox(request: Request) -> Model:
    time, event = request.outcome.survival("cox", zero_allowed=True)
    extras = request.extras
    if extras.entry is not None and (extras.entry >= time).any():
        late = extras.entry >= time
        raise InvalidInput(
            f"entry must be before time in every row, but it is not in {int(late.sum())} rows, the first is row "
            f"{int(late.argmax())} (entry {extras.entry[late][0]:g}, time {time[late][0]:g})"
        )

    def careful() -> RegressionModel:
        return _regression(request, Cox(time, event, request.design.weights, extras.strata, extras.entry))

    part = _SOONER if _is_worth_ordering(request.design) else 1.0
    if extras.entry is None and not many_ties(request.design.weights, event) and _is_tall(request, part=part):
        return _tall_cox(request, time, event, careful, silent_strata(event, extras.strata))
    return _with_notes(careful(), silent_strata(event, extras.strata))


_COPIED = 2**28  # bytes of a table that may be copied in order of time for the sake of speed


def _is_worth_ordering(design: Design) -> bool:
    """Whether few rows may be put in order of time."""
    values = float(design.stored.sum()) if design.is_sparse else design.n_rows * len(design.stored)
    return 8 * values <= _COPIED


def many_ties(weights: Floats, event: NDArray[np.bool_], most: float = 4.0) -> bool:
    """Whether weights make more events a row than sums over the rows should go through one by one."""
    return float(weights[event].sum()) > most * len(event)


def _tall_cox(
    request: Request, time: Floats, event: NDArray[np.bool_], careful: Callable[[], Model], notes: list[str]
) -> TallModel:
    """The engine by sums over rows, on a copy of the table in order of time."""
    strata = request.extras.strata
    order = order_of_risk(time, event, strata)
    blocks = RowBlocks(in_order(request.design, order))
    course = Course.of(time[order], event[order], None if strata is None else strata[order], blocks.design.weights)
    return TallModel("cox", RiskSums(blocks, course), careful, tuple(notes))


def silent_strata(event: NDArray[np.bool_], strata: NDArray[np.intp] | None) -> list[str]:
    """A note on strata without events."""
    if strata is None:
        return []
    silent = len(np.unique(strata)) - len(np.unique(strata[event]))
    return [f"{silent} strata have no event and say nothing"] if silent else []


def _weibull(request: Request) -> Model:
    time, event = request.outcome.survival("weibull", zero_allowed=False)
    likelihood = Weibull(time, event, request.design.weights)

    def careful() -> RegressionModel:
        return _regression(request, likelihood)

    if not _is_tall(request, part=_SOONER) or type(blocks := blocks_of(request.design)) is not RowBlocks:
        return careful()
    return TallModel("weibull", TimedSums(blocks, likelihood), careful)


def _spearman(request: Request) -> Model:
    outcome = request.outcome
    return Spearman(request.design, outcome.values if outcome.ordered else outcome.numbers("spearman"))


def _scored(request: Request, scoring: Scoring) -> Model:
    return ResidualScores(request.design, request.outcome.numbers(scoring.name), scoring)


def quantile(level: float = 0.5) -> Family:
    """Quantile regression at a level other than the median, e.g. ``family=fbed.families.quantile(0.9)``."""
    return replace(FAMILIES["quantile"], build=lambda request: _scored(request, Quantile(level)))


def _mixed(request: Request) -> Model:
    assert request.extras.cluster is not None
    return Mixed(request.design, request.outcome.numbers("mixed"), request.extras.cluster)


def _gee(request: Request) -> Model:
    assert request.extras.cluster is not None
    y, link = gee_outcome(request.outcome, request.link)
    return _with_notes(Gee(request.design, y, request.extras.cluster, link), _scarce(request))


def _kernel(request: Request) -> Model:
    test = kernel_test(request.test)
    return TestedOneByOne(request.design, outcome_columns(request.outcome), test, "kernel")


def _gsquare(request: Request) -> Model:
    codes, labels = request.outcome.classes("gsquare")
    return GSquare(request.design, codes, len(labels))


_TABLE = (
    Family(
        "gaussian",
        "numbers",
        _gaussian,
        ("lr",),
        extras=("offset",),
        covs=("HC3", "cluster"),
        note="p-values of `lr` from the exact F distribution",
    ),
    Family(
        "binomial",
        "two classes, or successes with `trials`",
        _binomial,
        _LIKELIHOOD_TESTS,
        extras=("trials", "offset"),
        covs=("cluster",),
        note="n of the criteria is the number of trials",
    ),
    Family("multinomial", "unordered classes", _multinomial, _LIKELIHOOD_TESTS),
    Family(
        "ordinal",
        "ordered classes",
        _ordinal,
        _LIKELIHOOD_TESTS,
        links=("logit", "probit"),
        note="cumulative model; proportional odds with the logit link",
    ),
    Family(
        "poisson",
        "counts",
        lambda request: _glm(request, POISSON),
        _LIKELIHOOD_TESTS,
        extras=("offset", "exposure"),
        covs=("cluster",),
        note="log link",
    ),
    Family(
        "negative_binomial",
        "overdispersed counts",
        _negative_binomial,
        _LIKELIHOOD_TESTS,
        extras=("offset", "exposure"),
        covs=("cluster",),
        note="log link; the dispersion is estimated in every model",
    ),
    Family(
        "gamma",
        "positive numbers",
        lambda request: _glm(request, GAMMA),
        _LIKELIHOOD_TESTS,
        extras=("offset", "exposure"),
        covs=("cluster",),
        note="log link; the shape is estimated in every model",
    ),
    Family(
        "cox",
        "survival times: y=(time, event)",
        _cox,
        _LIKELIHOOD_TESTS,
        extras=("strata", "entry"),
        note="partial likelihood, Efron's ties; n of the criteria is the number of events",
    ),
    Family(
        "weibull",
        "survival times above 0: y=(time, event)",
        _weibull,
        _LIKELIHOOD_TESTS,
        note="accelerated failure time; n of the criteria counts all rows",
    ),
    Family(
        "quantile",
        "numbers",
        lambda request: _scored(request, Quantile()),
        ("rank score",),
        likelihood=False,
        note="median regression; the rank-score test needs no density of the errors",
    ),
    Family(
        "robust",
        "numbers with outliers",
        lambda request: _scored(request, Huber()),
        ("score",),
        likelihood=False,
        note="Huber's M-estimate, score (aligned M) test",
    ),
    Family(
        "mixed",
        "numbers in clusters",
        _mixed,
        ("lr",),
        extras=("cluster",),
        required=("cluster",),
        note="random intercept of every cluster, maximum likelihood",
    ),
    Family(
        "gee",
        "numbers, two classes or counts in clusters",
        _gee,
        ("wald",),
        likelihood=False,
        extras=("cluster",),
        required=("cluster",),
        links=GEE_LINKS,
        note="estimating equations, exchangeable working correlation, robust variance that holds with few clusters",
    ),
    Family(
        "kernel",
        "numbers or classes",
        _kernel,
        ("kci", "rcit"),
        likelihood=False,
        weights=False,
        note="any dependence; needs causal-learn (`pip install '.[kernel]'`)",
    ),
    Family(
        "spearman",
        "numbers or ordered classes",
        _spearman,
        ("rank correlation",),
        likelihood=False,
        note="partial rank correlation, p-values from t",
    ),
    Family(
        "gsquare",
        "classes",
        _gsquare,
        ("g2",),
        predictors="categorical, or numbers as codes",
        note="df = Σ over strata of (levels of x − 1)(levels of y − 1), levels that occur there",
    ),
)

FAMILIES: dict[str, Family] = {family.name: family for family in _TABLE}
"""Every family by name."""
