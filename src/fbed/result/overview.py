"""The data at a glance: what a reader wants to know about the outcome and the selected columns without having them.

Everything is kept in the result when it is made, from the selected columns alone, so that a result that was saved and
read back still has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed._kernels import sums_by_level
from fbed.matrix.design import Design
from fbed.out_of_memory.designs import FarDesign
from fbed.rules.tails import Floats
from fbed.tables.outcomes import Outcome

_MOST = 100  # selected variables whose correlations are kept: more than that nobody reads
_MOST_CLASSES = 20  # an outcome with more different values is shown as numbers
_BINS = 24
_FEW_VALUES, _WIDEST, _SAMPLE = 20, 10_000, 1000  # whole numbers that may be codes; a look at some rows settles most
_COUNTED = 8  # design columns from which the products of a category are counted
_VALUES = 2**24  # of columns that are looked at together
_DIGITS = 6  # of what is kept: more than a reader sees, less than would swell the file
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
    """Look at the outcome and at the selected columns."""
    few = list(selected)[:_MOST]
    correlations, inflation = _associations(design, few)
    return Overview(
        _outcome(outcome, design.weights),
        "sparse" if design.is_sparse else "dense",
        len(set(design.table.factors) - design.table.excluded),
        int((np.delete(design.width, list(design.table.excluded | design.table.absorbed)) == 0).sum()),
        _columns(design, selected),
        correlations,
        inflation,
    )


def _columns(design: Design, selected: Sequence[int]) -> tuple[Column, ...]:
    """Those that are single numbers are looked at together, as many as leave memory for others."""
    numeric = [variable for variable in selected if design.varying[variable]]
    size = len(numeric) if isinstance(design, FarDesign) else max(1, _VALUES // max(1, design.n_rows))
    found = [column for i in range(0, len(numeric), size or 1) for column in _numbers(design, numeric[i : i + size])]
    numbers = dict(zip(numeric, found, strict=True))
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
    return replace(_spread(design, terms, design.columns(variable), center, scale)[0], scales=scales)


def _numbers(design: Design, variables: Sequence[int]) -> list[Column]:
    if not variables:
        return []
    places = design.positions(variables)
    names = [str(design.table.column_name(variable)) for variable in variables]
    if isinstance(design, FarDesign):
        about = (_rounded(part[places]) for part in (design.scale, design.center, design.low, design.high))
        rows = zip(names, *about, design.spread(variables), strict=True)
        return [
            Column((name,), (sd,), mean=m, low=lo, high=hi, uncommon=design.n - float(near.max()), values=few or ())
            for name, sd, m, lo, hi, (near, few) in rows
        ]
    found = _spread(design, names, design.block(variables), design.center[places], design.scale[places])
    ends = zip(_rounded(design.low[places]), _rounded(design.high[places]), strict=True)
    return [replace(column, low=low, high=high) for column, (low, high) in zip(found, ends, strict=True)]


def _spread(design: Design, terms: Sequence[str], columns: Floats, center: Floats, scale: Floats) -> list[Column]:
    """Columns that are numbers, from their centred and scaled values."""
    values = np.asfortranarray(columns) * scale + center
    low, high = values.min(axis=0), values.max(axis=0)
    ends = list(zip(values.T, low, high, strict=True))
    uncommon = [
        design.n - max(_weight_near(design, column, at, lo, hi) for at in (lo, hi, 0.0)) for column, lo, hi in ends
    ]
    rows = zip(terms, *(_rounded(part) for part in (scale, center, low, high)), uncommon, strict=True)
    whole = zip(values.T, _safe(low), _safe(high), strict=True)
    codes = [_few_whole(column, round(lo), round(hi)) for column, lo, hi in whole]
    return [
        Column((term,), (sd,), mean=m, low=lo, high=hi, uncommon=u, values=few)
        for (term, sd, m, lo, hi, u), few in zip(rows, codes, strict=True)
    ]


def _safe(ends: Floats) -> Floats:
    return np.nan_to_num(np.clip(ends, -1e9, 1e9))


def _few_whole(column: Floats, low: int, high: int) -> tuple[float, ...]:
    """The different values of whole numbers, when there are few: they may be codes."""
    if high - low > _WIDEST or np.abs(column[:_SAMPLE] - np.round(column[:_SAMPLE])).max(initial=0.0) > 1e-6:
        return ()
    if np.abs(column - np.round(column)).max(initial=0.0) > 1e-6:
        return ()
    present = np.flatnonzero(np.bincount(np.round(column).astype(np.intp) - low, minlength=1))
    return tuple((present + low).astype(float).tolist()) if len(present) <= _FEW_VALUES else ()


def _weight_near(design: Design, column: Floats, value: float, low: float, high: float) -> float:
    """Weight of the rows with a value; values come back from the scaled column, up to rounding."""
    if not low <= value <= high:
        return 0.0
    near = 1e-9 * max(abs(low), abs(high))
    there = (column >= value - near) & (column <= value + near)
    return float(np.count_nonzero(there)) if design.unit_weights else float(design.weights[there].sum())


def _outcome(outcome: Outcome, weights: Floats) -> OutcomeOverview:
    if outcome.event is None and (outcome.categorical or len(outcome.levels) <= _MOST_CLASSES):
        return OutcomeOverview(classes=_classes(outcome, weights))
    values, total = outcome.values, float(weights.sum())
    mean = float(weights @ values) / total
    widest = float(np.abs(values - mean).max()) or 1.0  # squares of huge values would overflow
    sd = widest * float(np.sqrt(weights @ ((values - mean) / widest) ** 2 / total))
    counts, edges = np.histogram(values, _BINS, weights=weights)
    return OutcomeOverview(
        quartiles=tuple(_rounded(_quantiles(values, weights, [0.0, 0.25, 0.5, 0.75, 1.0]))),
        mean=_rounded([mean])[0],
        sd=_rounded([sd])[0],
        edges=tuple(_rounded(edges)),
        counts=tuple(_rounded(counts)),
        events=None if outcome.event is None else float(weights[outcome.event].sum()),
    )


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
    inner = _products(design, variables, places) if far is None else far.products(variables)
    if all(width == 1 for width in widths):
        return _of_columns(inner)
    return _correlations(inner, places), _inflation(inner, places)


def _products(design: Design, variables: Sequence[int], places: Sequence[slice]) -> Floats:
    """Weighted means of the products of all design columns; those of categories by counting."""
    coded = {v: found for v in variables if (found := design.codes(v)) is not None and design.width[v] >= _COUNTED}
    dense = [v for v in variables if v not in coded]
    at = {v: np.r_[place] for v, place in zip(variables, places, strict=True)}
    weights = design.weights / design.n
    out = np.zeros((places[-1].stop, places[-1].stop))
    columns = np.asfortranarray(design.stack(dense))
    everywhere = np.concatenate([np.empty(0, dtype=np.intp), *(at[v] for v in dense)])
    out[np.ix_(everywhere, everywhere)] = columns.T @ (weights[:, None] * columns)
    for i, (v, (codes, n_levels)) in enumerate(coded.items()):
        center, scale = design.moments(v)
        sums = sums_by_level(np.ascontiguousarray(codes), n_levels, weights, columns)[1:]
        out[np.ix_(at[v], everywhere)] = (sums - center[:, None] * (weights @ columns)) / scale[:, None]
        out[np.ix_(everywhere, at[v])] = out[np.ix_(at[v], everywhere)].T
        for w, (others, n_others) in list(coded.items())[: i + 1]:
            mean, spread = design.moments(w)
            joint = np.bincount(codes.astype(np.int64) * n_others + others, weights, n_levels * n_others)
            pairs = joint.reshape(n_levels, n_others)[1:, 1:] - np.outer(center, mean)
            out[np.ix_(at[v], at[w])] = pairs / np.outer(scale, spread)
            out[np.ix_(at[w], at[v])] = out[np.ix_(at[v], at[w])].T
    return out


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
        block = whitening[i] @ inner[places[i], places[j]] @ whitening[j]
        if i == j or block.size == 0:
            return float(i == j)
        return float(np.clip(block[0, 0] if block.size == 1 else np.linalg.norm(block, 2), -1.0, 1.0))

    size = range(len(places))
    known = {(i, j): between(i, j) for i in size for j in size if i <= j}
    return tuple(tuple(_rounded([known[min(i, j), max(i, j)] for j in size])) for i in size)


def _inverse_root(square: Floats) -> Floats:
    """M^(−½) on the part of M that is not 0."""
    values, vectors = np.linalg.eigh(square)
    kept = values > 1e-10 * max(float(values.max(initial=0.0)), 1e-300)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T)


def _inflation(inner: Floats, places: Sequence[slice]) -> tuple[float, ...]:
    """(det R₁₁ · det (R⁻¹)₁₁)^(1/df): 1/(1 − R²) for one column, Fox and Monette's generalisation for several."""
    try:
        inverse = np.linalg.inv(inner)
    except np.linalg.LinAlgError:
        return (np.inf,) * len(places)
    out = []
    for place in places:
        product = float(np.linalg.det(inner[place, place]) * np.linalg.det(inverse[place, place]))
        width = place.stop - place.start
        out.append(product ** (1.0 / width) if product >= 1.0 - 1e-6 and width else np.inf if width else 1.0)
    return tuple(_rounded(out))


def _rounded(values: Sequence[float] | NDArray[Any]) -> list[float]:
    return [float(_FORMAT % value) for value in values]
