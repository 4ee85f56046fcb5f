"""The data at a glance: what a reader wants to know about the outcome and the selected columns without having them.

Everything is kept in the result when it is made, from the selected columns alone, so that a result that was saved and
read back still has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed.clock import check_time
from fbed.larger_than_memory.designs import FarDesign
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks
from fbed.models.engines.tall.linear import LinearSums
from fbed.rules.p_values import Floats
from fbed.tables.outcomes import Outcome

_MOST = 100  # selected variables whose correlations are kept: more than that nobody reads
_MOST_CLASSES = 20  # an outcome with more different values is shown as numbers
_BINS = 24
_FEW_VALUES, _WIDEST, _LARGEST = 20, 10_000, 1e9  # whole numbers that may be codes
_SAMPLE = 1000  # rows that settle for most columns whether they are
_NEARLY = 1e-6  # how far from a whole number rounding brings one
_CLEAR = 1e-6  # smallest pivot, relative, that is certain to be none of rounding
_DIGITS = 6  # of what is kept: more than a reader sees, less than would swell the file
_FEW_VARIABLES = 4  # whose determinants cost less than an inverse
_FORMAT = f"%.{_DIGITS}g"


@dataclass(frozen=True)
class Column:
    """A selected variable: its terms in a model, and how its values are spread.

    `scales` has the standard deviation of each term that is a number, and 1 for a level of a category. `levels` holds
    each level of a categorical variable with its number of rows. Of a numeric one, `uncommon` is the number of rows
    that differ from the most common of its smallest value, its largest and 0. Groups of columns have terms only.
    """

    terms: tuple[str, ...]
    scales: tuple[float, ...]
    levels: tuple[tuple[str, float], ...] = ()
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    uncommon: float | None = None
    values: tuple[float, ...] = ()  # of a column of whole numbers, when there are few


@dataclass(frozen=True)
class OutcomeOverview:
    """The outcome as classes with counts, or as numbers with a histogram; `events` is for survival times."""

    classes: tuple[tuple[str, float], ...] = ()
    quartiles: tuple[float, ...] = ()  # least, first quartile, median, third quartile, largest
    mean: float | None = None
    sd: float | None = None
    edges: tuple[float, ...] = ()
    counts: tuple[float, ...] = ()
    events: float | None = None


@dataclass(frozen=True)
class Overview:
    """Outcome, table, and the selected columns in their order.

    `correlations` are among the selected: Pearson's for two numbers, the largest canonical correlation where a
    categorical variable or a group takes part. `inflation` is how much the variance of each one's coefficients grows
    because of the others (the variance inflation factor; per degree of freedom for several columns). Both end with the
    hundredth variable.
    """

    outcome: OutcomeOverview
    storage: str
    n_categorical: int
    n_constant: int
    columns: tuple[Column, ...]
    correlations: tuple[tuple[float, ...], ...]
    inflation: tuple[float, ...]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Overview:
        """Read back from JSON; what JSON could not hold is infinite."""
        outcome, columns = plain["outcome"], plain["columns"]
        return cls(
            **{
                **plain,
                "outcome": OutcomeOverview(**_tuples(outcome)),
                "columns": tuple(Column(**_tuples(column)) for column in columns),
                "correlations": tuple(map(tuple, plain["correlations"])),
                "inflation": tuple(np.inf if value is None else value for value in plain["inflation"]),
            }
        )

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)


def _tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _as_tuple(value) for name, value in plain.items()}


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


def overview(design: Design, outcome: Outcome, selected: Sequence[int]) -> Overview:
    """Look at the outcome and at the selected columns, each by itself."""
    return Overview(
        _outcome(outcome, design.weights),
        "sparse" if design.is_sparse else "dense",
        len(set(design.table.factors) - design.table.excluded),
        int((np.delete(design.width, list(design.table.excluded | design.table.absorbed)) == 0).sum()),
        _columns(design, selected),
        (),
        (),
    )


def associated(look: Overview, design: Design, selected: Sequence[int]) -> Overview:
    """With how the selected columns go together, which takes far longer where they are large categories."""
    correlations, inflation = _associations(design, list(selected)[:_MOST])
    return replace(look, correlations=correlations, inflation=inflation)


def _columns(design: Design, selected: Sequence[int]) -> tuple[Column, ...]:
    """Those that are single numbers are looked at together."""
    numeric = [variable for variable in selected if design.varying[variable]]
    numbers = dict(zip(numeric, _numbers(design, numeric), strict=True))
    return tuple(numbers.get(variable) or _column(design, variable) for variable in selected)


def _column(design: Design, variable: int) -> Column:
    table = design.table
    terms = tuple(design.labels(variable))
    center, scale = design.moments(variable)
    columns = table.columns(variable)
    numbers = {str(table.column_name(j)) for j in columns if j not in table.factors}
    scales = tuple(sd if term in numbers else 1.0 for term, sd in zip(terms, _rounded(scale), strict=True))
    factor = table.factors.get(variable) if len(columns) == 1 else None
    if factor is not None:
        counts = factor.totals(design.weights)
        levels = zip(map(str, factor.levels), counts.tolist(), strict=True)
        return Column(terms, scales, levels=tuple(levels))
    if len(terms) != 1:
        return Column(terms, scales)
    column = design.columns(variable)
    ends = column.min(axis=0) * scale + center, column.max(axis=0) * scale + center
    found = _spread(design, terms, lambda part: column[part], lambda j: column[:, j], center, scale, *ends)
    return replace(found[0], scales=scales)


def _numbers(design: Design, variables: Sequence[int]) -> list[Column]:
    if not variables:
        return []
    places = design.positions(variables)
    names = [str(design.table.column_name(variable)) for variable in variables]
    if isinstance(design, FarDesign):
        found = [(design.n - float(near.max()), few or ()) for near, few in design.spread(variables)]
    elif design.is_sparse:
        found = [_among_entries(design, place) for place in places.tolist()]
    else:
        moments = design.center[places], design.scale[places], design.low[places], design.high[places]
        read = partial(RowBlocks(design).gather, places)
        return _spread(design, names, read, lambda j: design.block([variables[j]])[:, 0], *moments)
    about = (_rounded(part[places]) for part in (design.scale, design.center, design.low, design.high))
    return [
        Column((name,), (sd,), mean=m, low=lo, high=hi, uncommon=uncommon, values=few)
        for name, sd, m, lo, hi, (uncommon, few) in zip(names, *about, found, strict=True)
    ]


def _spread(
    design: Design,
    terms: Sequence[str],
    read: Callable[[slice], Floats],
    read_one: Callable[[int], Floats],
    center: Floats,
    scale: Floats,
    low: Floats,
    high: Floats,
) -> list[Column]:
    """Columns that are numbers, from what reads the centred and scaled values of some rows, or of one column."""
    common = _weight_near(design, read, center, scale, low, high)
    rows = zip(terms, *(_rounded(part) for part in (scale, center, low, high, design.n - common)), strict=True)
    sample = read(slice(0, min(_SAMPLE, design.n_rows))) * scale + center
    small = np.maximum(np.abs(low), np.abs(high)) <= _LARGEST
    narrow = np.where(small, high, np.inf) - np.where(small, low, 0.0) <= _WIDEST
    whole = narrow & (np.abs(sample - np.round(sample)).max(axis=0) <= _NEARLY)
    codes: list[tuple[float, ...]] = [()] * len(terms)
    for j in np.flatnonzero(whole).tolist():
        codes[j] = _few_whole(read_one(j) * scale[j] + center[j], round(float(low[j])))
    return [
        Column((term,), (sd,), mean=m, low=lo, high=hi, uncommon=u, values=few)
        for (term, sd, m, lo, hi, u), few in zip(rows, codes, strict=True)
    ]


def _among_entries(design: Design, place: int) -> tuple[float, tuple[float, ...]]:
    """The weight of the rows apart from the most common of three values, and few whole numbers, by the entries."""
    matrix, low, high = design.table.matrix, float(design.low[place]), float(design.high[place])
    own = slice(matrix.indptr[place], matrix.indptr[place + 1])
    values = matrix.data[own].astype(np.float64)
    weights = np.ones(len(values)) if design.unit_weights else design.weights[matrix.indices[own]]
    zeros, near = design.n - float(weights.sum()), 1e-9 * max(abs(low), abs(high))
    common = max(float(weights[np.abs(values - at) <= near].sum()) + zeros * (abs(at) <= near) for at in (low, high, 0))
    is_narrow = max(abs(low), abs(high)) <= _LARGEST and high - low <= _WIDEST
    everything = values if len(values) == design.n_rows else np.append(values, 0.0)
    return _rounded([design.n - common])[0], _few_whole(everything, round(low)) if is_narrow else ()


def _few_whole(column: Floats, low: int) -> tuple[float, ...]:
    """The different values of whole numbers, when there are few: they may be codes."""
    if np.abs(column - np.round(column)).max(initial=0.0) > _NEARLY:
        return ()
    present = np.flatnonzero(np.bincount(np.round(column).astype(np.intp) - low, minlength=1))
    return tuple((present + low).astype(float).tolist()) if len(present) <= _FEW_VALUES else ()


def _weight_near(
    design: Design, read: Callable[[slice], Floats], center: Floats, scale: Floats, low: Floats, high: Floats
) -> Floats:
    """The largest weight of the rows that have the least value of a column, its largest, or 0, up to rounding."""
    near = 1e-9 * np.maximum(np.abs(low), np.abs(high)) / scale
    marks = [(value - center) / scale for value in (low, high, np.zeros(len(low)))]
    weights = None if design.unit_weights else design.weights

    def work(part: slice) -> tuple[Floats, ...]:
        Z = read(part)
        there = ((at - near <= Z) & (at + near >= Z) for at in marks)
        if weights is None:
            return tuple(np.count_nonzero(where, axis=0).astype(float) for where in there)
        return tuple(weights[part] @ where for where in there)

    found: Floats = np.max(RowBlocks(design).summed(work, len(near)), axis=0)
    return found


def _outcome(outcome: Outcome, weights: Floats) -> OutcomeOverview:
    if outcome.event is None and (outcome.categorical or len(outcome.levels) <= _MOST_CLASSES):
        return OutcomeOverview(classes=_classes(outcome, weights))
    values, share = outcome.values, weights / weights.sum()
    largest = float(np.abs(values).max()) or 1.0
    units = values / largest  # sums of huge values would overflow
    mean = float(share @ units)
    widest = float(np.abs(units - mean).max()) or 1.0  # squares of tiny ones would vanish
    sd = widest * float(np.sqrt(share @ ((units - mean) / widest) ** 2))
    counts, edges = _histogram(units, weights)
    return OutcomeOverview(
        quartiles=tuple(_rounded(_quantiles(values, weights, [0.0, 0.25, 0.5, 0.75, 1.0]))),
        mean=_rounded([mean * largest])[0],
        sd=_rounded([sd * largest])[0],
        edges=tuple(_rounded(edges * largest)),
        counts=tuple(_rounded(counts)),
        events=None if outcome.event is None else float(weights[outcome.event].sum()),
    )


def _histogram(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weights in bins of equal width, and the edges; by the place in the range, whose ends may be close."""
    low, high = float(values.min()), float(values.max())
    counts, places = np.histogram((values - low) / (high - low or 1.0), _BINS, (0.0, 1.0), weights=weights)
    return counts, low + (high - low) * places


def _classes(outcome: Outcome, weights: Floats) -> tuple[tuple[str, float], ...]:
    if outcome.categorical:
        counts = np.bincount(outcome.values.astype(np.intp), weights, minlength=len(outcome.levels))
    else:
        counts = np.array([weights[outcome.values == level].sum() for level in outcome.levels])
    return tuple(zip(map(str, outcome.levels), counts.tolist(), strict=True))


def _quantiles(values: Floats, weights: Floats, levels: Sequence[float]) -> Floats:
    """Smallest value that so much of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    where = np.minimum(np.searchsorted(share, np.array(levels) - 1e-12), len(values) - 1)
    return np.asarray(values[order][where])


def _associations(design: Design, variables: Sequence[int]) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """Correlation matrix of variables, and the variance inflation of each."""
    if not variables:
        return (), ()
    widths = design.width[list(variables)].tolist()
    ends = np.cumsum(widths)
    places = [slice(int(end) - width, int(end)) for end, width in zip(ends, widths, strict=True)]
    far = design if isinstance(design, FarDesign) else None
    inner = _products(design, variables) if far is None else far.products(variables)
    if all(width == 1 for width in widths):
        return _of_columns(inner)
    return _correlations(inner, places), _inflation(inner, places)


def _products(design: Design, variables: Sequence[int]) -> Floats:
    """Weighted means of the products of all design columns."""
    return LinearSums(RowBlocks(design), design.weights).between(variables, variables) / design.n


def _of_columns(inner: Floats) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """The usual case: every variable is one column."""
    unit = 1.0 / np.sqrt(np.diag(inner))
    correlation = np.clip(inner * unit[:, None] * unit, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    try:
        inflation = np.diag(inner) * np.diag(np.linalg.inv(inner))
    except np.linalg.LinAlgError:
        inflation = np.full(len(inner), np.inf)
    inflation = np.where(inflation >= 1.0 - 1e-6, inflation, np.inf)
    return tuple(tuple(_rounded(row)) for row in correlation.tolist()), tuple(_rounded(inflation))


def _correlations(inner: Floats, places: Sequence[slice]) -> tuple[tuple[float, ...], ...]:
    whitening = [_inverse_root(inner[place, place]) for place in places]

    def between(i: int, j: int) -> float:
        check_time()
        block = whitening[i] @ inner[places[i], places[j]] @ whitening[j].T
        if i == j or block.size == 0:
            return float(i == j)
        return float(np.clip(block[0, 0] if block.size == 1 else _largest(block), -1.0, 1.0))

    size = range(len(places))
    known = {(i, j): between(i, j) for i in size for j in size if i <= j}
    return tuple(tuple(_rounded([known[min(i, j), max(i, j)] for j in size])) for i in size)


def _largest(block: Floats) -> float:
    """The largest singular value, without the others."""
    square = block @ block.T if block.shape[0] <= block.shape[1] else block.T @ block
    last = len(square) - 1
    try:
        found = linalg.eigh(square, eigvals_only=True, subset_by_index=[last, last], check_finite=False)
    except np.linalg.LinAlgError:  # LAPACK does not tell one value of many that are the same but for rounding
        return float(np.linalg.norm(block, 2))
    return float(np.sqrt(max(found[0], 0.0)))


def _inverse_root(square: Floats) -> Floats:
    """A root R of M⁻¹ = RᵀR, on the part of M that is not 0: by pivots where they are clear, they cost less."""
    if len(square) == 0:  # LAPACK complains of matrices without rows
        return square
    factor, failed = linalg.lapack.dpotrf(square, lower=1)
    if not failed and (np.diag(factor) ** 2 > _CLEAR * np.diag(square)).all():
        return np.asarray(linalg.lapack.dtrtri(np.tril(factor), lower=1)[0])
    values, vectors = _beyond_rounding(square)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def _beyond_rounding(square: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, those of rounding aside, and their vectors."""
    values, vectors = np.linalg.eigh(square)
    kept = values > 1e-10 * max(float(values.max(initial=0.0)), 1e-300)
    return values[kept], vectors[:, kept]


def _inflation(inner: Floats, places: Sequence[slice]) -> tuple[float, ...]:
    """(det R₁₁ · det (R⁻¹)₁₁)^(1/df): 1/(1 − R²) for one column, Fox and Monette's generalisation for several."""
    inner, places = _without_dependent(inner, places)
    check_time()
    try:
        products = _logs_of_determinants(inner, places)
    except np.linalg.LinAlgError:
        return (np.inf,) * len(places)
    out = []
    for place, product in zip(places, products, strict=True):
        width = place.stop - place.start
        out.append(float(np.exp(product / width)) if product >= -1e-6 and width else np.inf if width else 1.0)
    return tuple(_rounded(out))


def _without_dependent(inner: Floats, places: Sequence[slice]) -> tuple[Floats, Sequence[slice]]:
    """The same for variables without columns that depend on their others, such as copies: determinants would be 0."""
    blocks = [inner[place, place] for place in places]
    clear = [_log_determinant(block) is not None for block in blocks]
    if all(clear):
        return inner, places
    pairs = zip(blocks, clear, strict=True)
    parts = [np.eye(len(block)) if is_clear else _beyond_rounding(block)[1].T for block, is_clear in pairs]
    ends = np.cumsum([len(part) for part in parts])
    change = linalg.block_diag(*parts)
    fewer = [slice(int(end) - len(part), int(end)) for end, part in zip(ends, parts, strict=True)]
    return change @ inner @ change.T, fewer


def _logs_of_determinants(inner: Floats, places: Sequence[slice]) -> list[float]:
    """log(det R₁₁ · det (R⁻¹)₁₁) of each variable; det (R⁻¹)₁₁ is det R₂₂ / det R, which costs less where they are few.

    Determinants of hundreds of levels are beyond all numbers.
    """
    whole = _log_determinant(inner) if len(places) <= _FEW_VARIABLES else None
    if whole is None:
        inverse = _inverse(inner)
        return [_log_of_positive(inner[place, place]) + _log_of_positive(inverse[place, place]) for place in places]
    out = []
    for place in places:
        check_time()
        rest = np.delete(np.arange(len(inner)), place)
        parts = [_log_determinant(inner[place, place]), _log_determinant(inner[np.ix_(rest, rest)])]
        out.append(sum(part for part in parts if part is not None) - whole)
    return out


def _log_of_positive(square: Floats) -> float:
    """−∞ where rounding has left a determinant that is not positive."""
    sign, log = np.linalg.slogdet(square)
    return float(log) if sign > 0 else -np.inf


def _log_determinant(square: Floats) -> float | None:
    """By pivots where they are clear; those of a part are clear where those of the whole are."""
    if len(square) == 0:
        return 0.0
    factor, failed = linalg.lapack.dpotrf(square, lower=1)
    pivots = np.diag(factor)
    clear = not failed and (pivots**2 > _CLEAR * np.diag(square)).all()
    return 2.0 * float(np.log(pivots).sum()) if clear else None


def _inverse(square: Floats) -> Floats:
    """Of products of columns, by pivots where they are clear."""
    if len(square) == 0:  # LAPACK complains of matrices without rows
        return square
    factor, failed = linalg.lapack.dpotrf(square, lower=1)
    if failed or not (np.diag(factor) ** 2 > _CLEAR * np.diag(square)).all():
        return np.asarray(np.linalg.inv(square))
    lower = np.tril(linalg.lapack.dpotri(factor, lower=1)[0])
    return lower + np.tril(lower, -1).T


def _rounded(values: Sequence[float] | NDArray[Any]) -> list[float]:
    return [float(_FORMAT % value) for value in values]
