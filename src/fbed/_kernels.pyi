"""Loops in C++ over columns; see src/kernels."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Which = NDArray[np.int64]
Flags = NDArray[np.bool_]

def ask_every(milliseconds: int) -> None:
    """How often long loops ask whether to go on: 100 unless told otherwise, 0 for every time that they can."""

def number_objects(columns: list[NDArray[np.object_]]) -> list[tuple[NDArray[np.int32], list[Any]]]:
    """Of every column, the code of every value and what the codes stand for, in the order in which they come first.

    Equal text is one; other things are one only when they are the same object.
    """

class DenseColumns:
    """Columns of a dense matrix of any real type and layout, or columns that lie apart, each in its own type."""

    @overload
    def __init__(self, matrix: NDArray[Any]) -> None: ...
    @overload
    def __init__(self, columns: list[NDArray[Any]], n: int) -> None: ...
    @property
    def is_across(self) -> bool:
        """Whether values of a column lie apart, as in a row-major matrix."""
    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, number of values that are not finite and not 0, a row a column."""
    def gather(self, which: Which, center: Floats, scale: Floats) -> Floats:
        """Columns (x − centre)/scale, column-major; zero where the scale is."""
    def gather_rows(self, which: Which, center: Floats, scale: Floats, first: int, last: int, constant: bool) -> Floats:
        """The same for the rows first..last only, after a column of ones if there is to be a constant."""
    def dots(self, which: Which, v: Floats) -> Floats:
        """Inner products of raw columns with v."""
    def support(self, j: int) -> tuple[Which, Floats]:
        """Rows of a column that are not 0, and their values."""

class SparseColumns:
    """Columns of a CSC matrix."""

    def __init__(self, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], n: int) -> None: ...
    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum, maximum, number of values that are not finite and not 0, a row a column."""
    def gather(self, which: Which, center: Floats, scale: Floats) -> Floats:
        """Columns (x − centre)/scale, column-major and dense; zero where the scale is."""
    def gather_rows(self, which: Which, center: Floats, scale: Floats, first: int, last: int, constant: bool) -> Floats:
        """The same for the rows first..last only, after a column of ones if there is to be a constant."""
    def dots(self, which: Which, v: Floats) -> Floats:
        """Inner products of raw columns with v."""
    def products(self, which: Which, first: int, V: Floats) -> tuple[Floats, Floats]:
        """VᵀX of raw columns on the rows from `first` on that V has, and Σ v·x² with the second vector."""
    def support(self, j: int) -> tuple[Which, Floats]:
        """Rows of a column that are not 0, and their values."""

class PackedColumns:
    """Columns of genotypes as PLINK packs them, four a byte, a row of bytes a column; missing ones are at the mean."""

    def __init__(self, bytes: NDArray[np.uint8], n: int) -> None: ...
    def stats(self, weights: Floats, total: float, first: int, last: int) -> Floats:
        """Centre, scale, minimum and maximum of the copies of the first allele, 0 and n, a row a column."""
    def gather(self, which: Which, center: Floats, scale: Floats) -> Floats:
        """Columns (x − centre)/scale, column-major; zero where the scale is, and where x is missing."""
    def gather_rows(self, which: Which, center: Floats, scale: Floats, first: int, last: int, constant: bool) -> Floats:
        """The same for the rows first..last only, after a column of ones if there is to be a constant."""
    def products(self, which: Which, center: Floats, scale: Floats, first: int, vectors: Floats) -> Floats:
        """Products of standardised columns with vectors v of the rows from `first` on, then Σ v·column² of one."""
    def digit_sums(self, which: Which, digits: NDArray[np.int8], first: int, last: int) -> Floats:
        """Σ copies·d of digits d, a row each; Σ d over rows with two copies, of some; Σ d over missing rows, of all."""
    def rows(self, keep: Which) -> NDArray[np.uint8]:
        """The same columns on some rows, packed."""

class SparseModel:
    """An intercept and columns of a matrix that are mostly 0, each divided by its scale."""

    pairs: float
    """Pairs of entries in the same row: what a Gram matrix costs."""
    size: int
    """Columns, the intercept included."""

    def taken_at_risk(
        self,
        event: Floats,
        closes: NDArray[np.int64],
        starts: NDArray[np.bool_],
        hazard: Floats,
        triangle: Floats,
    ) -> Floats | None:
        """What the tied sets take from the information of the columns but the first (see entries_at_risk.hpp)."""
    def __init__(self, columns: SparseColumns | DenseColumns, which: Which, scale: Floats) -> None: ...
    def with_column(self, columns: SparseColumns | DenseColumns, which: int, scale: float) -> SparseModel:
        """One more column, divided by its scale."""
    def column(self, which: int) -> Floats:
        """One of its columns, zeros and all."""
    def part(self, rows: Which, columns: Which) -> SparseModel:
        """Some of its columns on some of its rows."""
    def fit(
        self, weight: Floats, y: Floats, starts: Floats, tolerance: float, enough: float, offset: Floats | None = None
    ) -> tuple[Floats, Floats, float, float, float, bool, int]:
        """As `fit_logistic`, with coefficients on the columns."""
    def least_without(
        self,
        weight: Floats,
        y: Floats,
        told: Flags,
        places: Which,
        starts: Floats,
        tolerance: float,
        enough: Floats,
        offset: Floats | None = None,
    ) -> Floats:
        """What models without each of some columns leave unexplained at least, or more than enough.

        Of the rows that are told and those that the column moves; starts are rows of coefficients, as many a column.
        """
    def gram(self, curvature: Floats) -> Floats:
        """The weighted Gram matrix, of which the lower triangle is told."""
    def products(self, v: Floats) -> Floats:
        """Inner products of the columns with v."""
    def squares(self, metric: Floats) -> Floats:
        """zᵀMz of every row z, and what rounding may have taken off it; M has no negative squares."""
    def crossed(self, columns: SparseColumns, which: Which, weight: Floats) -> Floats:
        """Weighted inner products of the columns with some of a matrix as they are, a column each."""
    def moved(self, coefficients: Floats) -> Floats:
        """Columns times coefficients, which come column after column."""

class SoftmaxClasses:
    """Softmax of as many predictors as classes less one: a fit on S, from which candidates are raced."""

    def __init__(
        self,
        Z: Floats | SparseModel,
        codes: Which,
        n_classes: int,
        weights: Floats,
        parameters: Floats,
        deviance: float,
    ) -> None: ...
    def fit(self, enough: float) -> tuple[Floats, float, float, bool]:
        """Parameters and deviance of the fit on S, looked for from `parameters`, what its deviance is at least, and
        whether it was found: it is taken no further once its deviance is certain to be `enough`.
        """
    def race(
        self,
        own: Floats,
        width: int,
        starts: Floats,
        warm: Flags,
        line: Floats,
        places: Which,
        leader: int,
        best: float,
        exactly: bool,
    ) -> tuple[Floats, Floats, Floats]:
        """Bounds on the likelihood ratios of models with `width` columns more each, and where their fits ended.

        They are clear of their line; where `best` is finite, those above it are known or cannot be best: who is in the
        place `leader` has at least `best`, and of those who tie the first place wins. With `exactly`, all are known. An
        interval that is not so has not been narrowed any further.
        """
    def look(
        self,
        columns: SparseColumns | DenseColumns,
        which: Which,
        line: Floats,
        best: float,
        lower: Floats,
        upper: Floats,
    ) -> tuple[Floats, Floats, Floats]:
        """Intervals of columns that are mostly 0, from the rows that they move, within those that are known.

        They are narrowed until they are clear of their line, or below `best`, which somebody has at least. Nothing is
        said of a column that may be in the span of S. Where `best` is finite, also about where models end, a row each:
        steps of the parameters of S, then coefficients of the column as it is, NaN where that is not known.
        """
    def leave(self, which: Which) -> tuple[Floats, Floats]:
        """Intervals for what it costs to take columns of S out, from the rows where these are not 0."""

class OrderedClasses:
    """Proportional odds: a fit on S, from which candidates are raced."""

    def __init__(
        self,
        Z: Floats | SparseModel,
        codes: Which,
        n_classes: int,
        weights: Floats,
        parameters: Floats,
        deviance: float,
    ) -> None: ...
    def fit(self, enough: float) -> tuple[Floats, float, float, bool]:
        """Parameters and deviance of the fit on S, looked for from `parameters`, what its deviance is at least, and
        whether it was found: it is taken no further once its deviance is certain to be `enough`.
        """
    def race(
        self,
        own: Floats,
        width: int,
        starts: Floats,
        warm: Flags,
        line: Floats,
        places: Which,
        leader: int,
        best: float,
        exactly: bool,
    ) -> tuple[Floats, Floats, Floats]:
        """Bounds on the likelihood ratios of models with `width` columns more each, and where their fits ended.

        They are clear of their line; where `best` is finite, those above it are known or cannot be best: who is in the
        place `leader` has at least `best`, and of those who tie the first place wins. With `exactly`, all are known. An
        interval that is not so has not been narrowed any further.
        """
    def look(
        self,
        columns: SparseColumns | DenseColumns,
        which: Which,
        line: Floats,
        best: float,
        lower: Floats,
        upper: Floats,
    ) -> tuple[Floats, Floats, Floats]:
        """Intervals of columns that are mostly 0, from the rows that they move, within those that are known.

        They are narrowed until they are clear of their line, or below `best`, which somebody has at least. Nothing is
        said of a column that may be in the span of S. Where `best` is finite, also about where models end, a row each:
        steps of the parameters of S, then coefficients of the column as it is, NaN where that is not known.
        """
    def leave(self, which: Which) -> tuple[Floats, Floats]:
        """Intervals for what it costs to take columns of S out, from the rows where these are not 0."""

class LogisticNull:
    """A fitted logistic model, asked about columns that could join it.

    It knows some of the rows of the data; of those, the idle ones are only bounded. G spans the model on those rows,
    orthonormal in their curvature.
    """

    counts: list[int]
    """How far candidates had to be looked at: brackets, columns formed, refinements and their iterations."""

    deviance: float
    """Of the model, without the rows that it has explained for good."""

    idle_cost: float
    elsewhere: float
    """What idle rows have left."""

    reach: float
    """How far a step of length 1 can move an active row."""

    short: float
    """What the fit is short of a maximum, in its metric."""

    rows: Which
    """Rows of the data that are known."""

    G: Floats
    whitener: Floats
    """Coefficients on Z of the columns of G."""

    free: Floats
    """Coefficients on Z of orthonormal directions that move no active row."""

    curvature: Floats
    score: Floats
    """For each row of the data, 0 where it is idle or not known."""

    @staticmethod
    def of_fit(
        Z: Floats,
        weight: Floats,
        y: Floats,
        eta: Floats,
        coefficients: Floats,
        deviance: float,
        offset: Floats | None = None,
        rounding: float = 1.0,
    ) -> LogisticNull:
        """All rows but the saturated ones; of those only the ones that the model can move on its own, if it can."""
    @staticmethod
    def of_rows(
        Z: Floats,
        weight: Floats,
        y: Floats,
        eta: Floats,
        active: Floats,
        deviance: float,
        idle_cost: float,
        offset: Floats | None = None,
        rounding: float = 1.0,
    ) -> LogisticNull:
        """The rows whose weight in `active` is not 0; upper bounds pay `idle_cost` for the others."""
    @staticmethod
    def of_sparse_fit(
        columns: SparseModel,
        weight: Floats,
        y: Floats,
        eta: Floats,
        coefficients: Floats,
        deviance: float,
        offset: Floats | None = None,
    ) -> LogisticNull:
        """As `of_fit`."""
    @staticmethod
    def of_sparse_rows(
        columns: SparseModel,
        weight: Floats,
        y: Floats,
        eta: Floats,
        active: Floats,
        deviance: float,
        idle_cost: float,
        offset: Floats | None = None,
    ) -> LogisticNull:
        """As `of_rows`."""
    def brackets(
        self,
        columns: DenseColumns | SparseColumns,
        which: Which,
        center: Floats,
        scale: Floats,
        mostly_zero: Flags,
        critical: float,
        refine: bool,
        ranked: bool,
        spare_wide: bool,
    ) -> tuple[Floats, Floats, Floats]:
        """Bounds of the statistic of columns, and the norm² left of each after the model.

        Candidates that may be best get closer bounds if they are to be ranked. The norm² is NaN for undecided columns
        that were spared since they have too many entries.
        """
    def look(self, X: Floats, projections: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The same for columns of a dense block, from their projections on the model, and their norm² before it."""
    def dense(
        self, X: Floats, total: Floats, lower: Floats, upper: Floats, critical: float, refine: bool
    ) -> tuple[Floats, Floats, Floats]:
        """The same for columns that are orthogonal to the model, from what is known of them and of their norm²."""
    def first(self, u: Floats, low: Floats, high: Floats, norm: float) -> tuple[Floats, Floats]:
        """Bounds for a model with an intercept only, from scores and extremes of standardised columns."""
    def losses(self, columns: Which, coefficients: Floats, enough: float) -> Floats:
        """What it costs at least to take out columns of a sparse model, or more than enough; −inf where unknown."""
    def contest(
        self,
        columns: DenseColumns | SparseColumns,
        which: Which,
        center: Floats,
        scale: Floats,
        mostly_zero: Flags,
        lower: Floats,
        upper: Floats,
        race: bool,
        first_is_known: bool,
    ) -> tuple[Floats, Floats, int, Floats, Flags]:
        """Refine contenders; their bounds, the position of the best, the linear predictor of its model (unless that is
        the first, and known), and who is neither resolved nor out of the race."""

def model_rows(
    counts: bool,
    Z: Floats,
    coefficients: Floats,
    offset: Floats,
    y: Floats,
    weight: Floats,
    least: Floats,
    mean: Floats,
    information: Floats,
    residual: Floats,
) -> tuple[float, Floats, Floats]:
    """Half the deviance, gradient and information (its upper triangle) of a Poisson model where the
    outcome counts, of a logistic one otherwise; mean, information and residual of every row are written."""

def score_intervals(
    score: Floats,
    by_score: Floats,
    left: Floats,
    by_left: Floats,
    own: Floats,
    reach: Floats,
    stretch: float,
    fit: tuple[float, float, float],
    delicate: float,
) -> Floats:
    """Lower and upper ends of likelihood ratios, and 1 for those of whom too little is left to tell; a column each.

    Candidates have a score and the information `left` of their `own`, each with what rounding may have done to it, and
    `reach`, how far a unit step moves a row. `fit` is what the fit is short of its maximum, how far that moves a row,
    and its deviance.
    """

def score_interval(score: float, furthest: float, fit: tuple[float, float, float]) -> tuple[float, float]:
    """The same for one score statistic whose step moves no row further than that."""

def step_moments(counts: bool, mean: Floats, weight: Floats, U: Floats) -> Floats:
    """Σaμz², Σaμz³, Σaμz⁴, least and largest z of the steps that are the columns of U, a column each."""

def to_columns(rows: NDArray[Any], out: NDArray[Any], first: int, last: int) -> None:
    """Write the rows first..last of a row-major matrix of unsigned integers into the rows of its transpose."""

class RareColumns:
    """Columns that are mostly 0 beside a model of k coefficients and many rows, which gives the rows these means."""

    @overload
    def __init__(
        self,
        counts: bool,
        matrix: DenseColumns | SparseColumns,
        which: Which,
        mean: Floats,
        y: Floats,
        weights: Floats,
        k: int,
    ) -> None: ...
    @overload
    def __init__(
        self,
        counts: bool,
        matrix: DenseColumns | SparseColumns,
        which: Which,
        mean: Floats,
        y: Floats,
        weights: Floats,
        k: int,
        place: Which,
        coefficient: Floats,
        infinite: Flags,
        back: Floats,
    ) -> None:
        """Columns that are to leave the model, with their places in it and their coefficients as they are.

        Rows of those that are infinite come back with other weights.
        """
    def add(self, first: int, Z: Floats) -> None:
        """Rows of the model's columns, which come in order."""
    def add_sparse(self, model: SparseModel, shift: Floats, idle: Which) -> None:
        """All rows at once of columns that are mostly 0, each less by its shift; those that are idle count as 0."""
    def lost(self, information: Floats, gradient: Floats, reach: Floats, short: float) -> tuple[Floats, Floats]:
        """Intervals of what it costs to take each column out of the model."""
    def enclosed(
        self, information: Floats, gradient: Floats, reach: Floats, short: float
    ) -> tuple[Floats, Floats, Floats]:
        """Intervals of likelihood ratios; and where the models with each column end, k + 1 coefficients each.

        The first k are steps from the model. The last is that of the column as it is, neither centred nor scaled, and 0
        where it is infinite.
        """

class RareAtRisk:
    """Columns that are mostly 0 beside a proportional hazards model of rows in order.

    `leverage` is the square of how far every row is from some centre, in the metric of the model's information.
    """

    def __init__(
        self,
        event: Floats,
        closes: Which,
        starts: Flags,
        deaths: Floats,
        hazard: Floats,
        expected: Floats,
        weight: Floats,
        leverage: Floats,
    ) -> None: ...
    def along(self, matrix: DenseColumns | SparseColumns, which: Which) -> tuple[Floats, Floats]:
        """What the likelihood does along each column, a row of facts for each, and residuals where it is largest.

        Facts are: where that is, the gain of the log-likelihood, the part of the model's information that its rows have
        at most, the most by which a sum of hazards grows, the largest odds of its rows, Σ E|x|, curvature, the spread
        of x with 0, the largest |x|; not a number where nobody knows."""

def cox_state(
    event: Floats, closes: Which, starts: Flags, deaths: Floats, eta: Floats, weight: Floats
) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Hazard, expected events and residual of every row, a 2 × 2 triangle of every tied set, and −log-likelihood.

    Rows are in order, within a stratum from the latest to the earliest; `starts` marks the first of a stratum, `closes`
    (from 1) the last with the time of a tied set."""

def squares_and_reach(X: Floats, projections: Floats, curvature: Floats, length: Floats) -> tuple[Floats, Floats]:
    """Σ c·x² of columns, and their largest |x_i| + l_i|p| with p the projections of each on a basis of row norms l."""

def cox_change(
    event: Floats, closes: Which, starts: Flags, deaths: Floats, before: Floats, scored: Floats, now: Floats
) -> tuple[float, float, float]:
    """Least and largest p/p₀ of the probabilities of those at risk by the hazards of now and before, over all of
    Efron's terms, and Σ (p − p₁)²/p₀ with p₁ by the hazards `scored`."""

def cox_shares(event: Floats, closes: Which, starts: Flags, deaths: Floats, hazard: Floats) -> tuple[Floats, Floats]:
    """What every tied set adds to the cumulated hazard, and what those who die in it are short of that."""

def cox_expected(event: Floats, closes: Which, starts: Flags, hazard: Floats, share: Floats, own: Floats) -> Floats:
    """The hazard of every row times the sum of shares of the tied sets at which it is at risk, less its own part of the
    one in which it dies."""

def information_rows(
    event: Floats, closes: Which, starts: Flags, hazard: Floats, expected: Floats, triangle: Floats, X: Floats
) -> Floats:
    """G with ZᵀG the information of any columns Z with X in a proportional hazards model; all rows at once."""

def level_information(
    event: Floats,
    closes: Which,
    starts: Flags,
    hazard: Floats,
    expected: Floats,
    triangle: Floats,
    codes: NDArray[Any],
    levels: int,
    others: NDArray[Any],
    n_others: int,
) -> Floats | None:
    """The information of pairs of levels of two categories, levels × others; None where hazards are too far apart."""

class ProductsAtRisk:
    """Sums over rows in order of risk of so many columns Z of a model and others X, a block of rows after another."""

    def __init__(self, model: int, others: int) -> None: ...
    def add(
        self,
        event: Floats,
        closes: Which,
        starts: Flags,
        hazard: Floats,
        expected: Floats,
        residual: Floats,
        triangle: Floats,
        Z: Floats,
        X: Floats,
    ) -> None:
        """The next rows, with their state as `cox_state` tells it."""

    def found(self) -> tuple[Floats, Floats, Floats]:
        """Scores of X, the information of Z with X, and of each column of X with itself; X is Z where no others are."""

class MomentsAtRisk:
    """What `step_moments` tells, of steps in a proportional hazards model, a block of rows after another."""

    def __init__(self, count: int) -> None: ...
    def add(self, event: Floats, closes: Which, starts: Flags, hazard: Floats, deaths: Floats, U: Floats) -> None:
        """The next rows; a step is a column of U."""

    def found(self) -> Floats:
        """Moments and extremes, a column each."""

class CoxFits:
    """Partial likelihoods of one stratum without late entries."""

    def __init__(
        self,
        places: list[Which],
        values: list[Floats],
        saturated: float,
        own_logs: float,
        limits: list[float],
        iterations: int,
    ) -> None: ...
    def climb(self, Z: Floats, own: Floats | None, start: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Coefficients, deviances, and which models have arrived, from `start`, a column a model.

        Every model has the columns Z and, if there are any, one of `own`."""

class CoxBrackets:
    """What is near a model of survival times.

    X are its columns, each shifted so that it is 0 on most rows where it can be; `predictor` is its linear predictor.
    Without use where not `sound`.
    """

    sound: bool

    def __init__(self, fits: CoxFits, X: Floats, predictor: Floats) -> None: ...
    def enclose(self, X: Floats) -> tuple[Floats, Floats, Floats]:
        """Intervals of the likelihood ratios of columns beside the model, and changes of the linear predictor that lead
        to the maxima with them, about, a column each. Intervals are open where nothing can be told."""

def settle_cox(fits: CoxFits, X: Floats, predictor: Floats) -> tuple[float, float]:
    """The interval of a model's least deviance, from some linear predictor of it; open where nothing can be told."""

def columns_pull_apart(x: Floats, y: Floats, counts: bool) -> Flags:
    """Which columns by themselves put rows on their sides of some value, so that their coefficients are infinite."""

def wald_intervals(
    Q: Floats,
    weight: Floats,
    y: Floats,
    eta: Floats,
    counts: bool,
    x: Floats,
    line: Floats,
    width: float,
    offset: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Ends of intervals of the Wald statistics of the columns of x, each beside a model.

    The model has the columns Q, orthonormal under its curvatures at the predictor `eta`, to which `offset` belongs.
    Intervals are below their lines, or above and no wider than `width` times their ends; points where a statistic is
    known to the last digits; [0, ∞) where that needs more care."""

def fit_logistic(
    Z: Floats,
    weight: Floats,
    y: Floats,
    starts: Floats,
    tolerance: float,
    enough: float,
    offset: Floats | None = None,
) -> tuple[Floats, Floats, float, float, float, bool, int]:
    """Coefficients, linear predictor (with the offset), deviance attained, lower bound on the deviance, squared Newton
    decrement, whether separated, number of iterations.

    Begins at the best of the rows of `starts`. Ends early when the deviance is certain to be more than `enough`;
    otherwise the bound is the deviance itself, or 0 if the fit did not converge."""

def fit_ridge(
    Z: Floats,
    weight: Floats,
    y: Floats,
    least: Floats,
    start: Floats,
    penalties: Floats,
    steps: int,
    arrived: float,
    smallest: float,
    offset: Floats | None = None,
) -> Floats:
    """Coefficients that make deviance + Σ λb² smallest, a column for every column λ of `penalties`.

    `least` is what each row loses at the mean that suits it best. Damped Newton steps begin at `start`; they end when
    the squared decrement is `arrived` of the value, when a step would be cut to less than `smallest` of it, or after
    `steps`.
    """

def basis_without(R: Floats, first: int, last: int) -> Floats:
    """Q, orthonormal, for which QᵀR without the columns first..last is an upper triangle, as R is."""

class CountedRows:
    """Rows of a model of counts, in coordinates in which its Hessian is the identity."""

    def __init__(self, rows: Floats, weight: Floats, mean: Floats, y: Floats, idle: Flags) -> None: ...
    def enclose(self, X: Floats, zero: Floats) -> tuple[Floats, Floats, Floats]:
        """Intervals of the likelihood ratios of columns, each `zero` on some rows; open where nothing can be told.

        The last answer has a column each: about where the maximum is, in these coordinates and the coefficient of the
        column less `zero`.
        """

def group_gains(
    G: Floats, W: Floats, score: Floats, first: Which, width: Which, spanned: float, delicate: float
) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """What each group of columns explains, its rank, whether that is delicate, and which columns are spanned."""

def pattern_deviances(X: Floats, y: Floats, weight: Floats, first: Which, last: Which) -> Floats:
    """The least deviance of any model without the columns first..last, for several such ranges: rows of different
    classes that are equal in all other columns cannot be told apart."""

def row_deviances(weight: Floats, y: Floats, eta: Floats) -> Floats:
    """What each row of a logistic model has left to explain, 2·weight·log(1 + exp(∓eta))."""

def least_rows(left: Floats, spared: float) -> NDArray[np.int64]:
    """Rows that have least, all of which have no more than `spared` together."""

def deviances_after(weight: Floats, y: Floats, eta: Floats, steps: Floats) -> Floats:
    """Deviances of a logistic model with linear predictors eta less each of some steps, one a column."""

def concordant_pairs(time: Floats, event: NDArray[np.bool_], risk: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Concordant and comparable pairs of rows for every row of `weights`, weightings × rows.

    In a pair one has its event before the time of the other, and is concordant where it has the higher risk, or half so
    where the risks are the same."""

def bound_functions(z: float) -> tuple[float, float, float]:
    """P(z), P4(z) and E4(z)."""

def elementary_functions(x: float, e: float) -> tuple[float, float]:
    """exp(x) for x ≤ 0 and log(1 + e) for 0 ≤ e ≤ 1."""

def sums_by_level(codes: NDArray[Any], levels: int, weight: Floats, Z: Floats) -> Floats:
    """Sums of weight·column over the rows of each level, levels × columns; Z is column-major."""

def pair_sums(codes: NDArray[Any], levels: int, others: NDArray[Any], n_others: int, weight: Floats) -> Floats:
    """Sums of weights over the rows of every pair of levels of two categories, levels × others."""

def standardised_products(
    raw: Floats,
    rows: NDArray[np.int64],
    row_center: Floats,
    row_scale: Floats,
    columns: NDArray[np.int64],
    center: Floats,
    scale: Floats,
) -> Floats:
    """Products of columns (r − center)/scale, from those of plain columns after a constant, at some of their places."""

def profile_levels(codes: NDArray[Any], levels: int, eta: Floats, y: Floats, weight: Floats) -> Floats:
    """The shift of the predictors of each level that makes it likeliest, about; ±inf for a level of one class."""

def logistic_rows(eta: Floats, y: Floats, weight: Floats) -> tuple[float, float, float, Floats, Floats, Floats]:
    """Deviance, least and largest margin; mean, weighted residual and weighted curvature of every row."""

def logistic_reach(mean: Floats, step: Floats, curvature: Floats) -> tuple[float, float, float]:
    """Least and largest z of a step of the predictors, and its largest size, over the rows that have curvature."""

def coded_looks(X: Floats, residual: Floats, w0: Floats, w: Floats, ratio: Floats, mean: Floats) -> Floats:
    """Slope, squares under w₀, w₀²/w and w, least and largest z of what a model leaves of columns; a row a column."""

def logistic_divergence(mean: Floats, change: Floats, weight: Floats) -> float:
    """Twice the divergence of mean + change/weight from the means, summed over rows; inf outside of [0, 1]."""

def logistic_divergences(mean: Floats, change: Floats, weight: Floats) -> Floats:
    """The same of columns (column-major), from the means of each or from those that all share."""

def logistic_columns(eta: Floats, y: Floats, weight: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Deviance; mean, weighted residual and weighted curvature of every row at several predictors, one a column."""

def poisson_columns(eta: Floats, y: Floats, log_y: Floats, weight: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The same of a Poisson model with log mean eta, given the logarithms of the counts (anything for none)."""

def poisson_divergences(mean: Floats, change: Floats, weight: Floats) -> Floats:
    """Twice the divergence of Poisson means mean + change/weight from the means, of columns; inf for negative ones."""

def add_by_level(codes: NDArray[Any], steps: Floats, out: Floats) -> None:
    """Adds the step of every row's level (levels × columns) to columns (column-major)."""

def log_of_positive(x: float) -> float:
    """log(x) as vectors compute it."""

def softmax_look(eta: Floats, codes: Which, weights: Floats, p: Floats) -> float:
    """Half the deviance of classes at linear predictors; probabilities of all but the first are written to `p`."""

def softmax_vectors(p: Floats, codes: Which, weights: Floats, Z: Floats) -> Floats:
    """Residuals of classes but the first, then the curvature of every pair of these times every column of Z."""

def softmax_sums(p: Floats, codes: Which, weights: Floats, Z: Floats) -> tuple[Floats, Floats]:
    """Gradient, a column a class; sums of the curvature of pairs of classes with products of two columns of Z."""

def softmax_move(p: Floats, codes: Which, weights: Floats, U: Floats) -> Floats:
    """What the log-likelihood gains as predictors move by U, and residuals there in the place of U."""

def ordered_look(
    eta: Floats, theta: Floats, codes: Which, weights: Floats, normal: bool, state: Floats
) -> tuple[float, Floats, Floats, Floats, float]:
    """Half the deviance, slopes and curvatures of thresholds, the furthest edge; `state` of the rows is written."""

def ordered_vectors(state: Floats, codes: Which, weights: Floats, Z: Floats, thresholds: int) -> Floats:
    """Slopes, curvatures, what rows have with each threshold, then curvatures times the columns of Z."""

def ordered_move(
    state: Floats, codes: Which, weights: Floats, normal: bool, before: Floats, theta: Floats, U: Floats
) -> tuple[Floats, Floats]:
    """Gains of steps that end at thresholds and move predictors by U, with slopes there in its place; of thresholds."""
