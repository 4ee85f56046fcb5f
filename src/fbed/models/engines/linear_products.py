"""The linear model on tables of few columns: every statistic from the products of all columns, which are found once.

With R the correlations of the columns, J those of S that are independent of each other, L the Cholesky factor of R_JJ,
W = L⁻¹R_J and t = L⁻¹r_J, a group of columns c explains

    (r_c − W_cᵀt)ᵀ (R_cc − W_cᵀW_c)⁻¹ (r_c − W_cᵀt),      RSS = TSS(1 − tᵀt).

When S grows, W grows by a row a column. Columns in the span of others are left out, as Gram and Schmidt would, one
after another, once that is proved. What is next to collinear, or an outcome that is explained next to perfectly, is
left to orthogonal factors: differences of products would have lost their digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed._kernels import group_gains
from fbed.matrix.design import Design
from fbed.models.base import Fit, FittedModel, Indices, shared_beginning
from fbed.models.engines.dependences import Dependences
from fbed.models.other_statistics.linear import Gaussian, n_log_ratio, on_the_users_scale
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import ExactF, Floats

_DELICATE = 1e-5  # part of a column that others leave, or of the outcome, below which products lose digits
_SPANNED = 1e-9  # part that is worth a look whether it is nothing but rounding
_CERTAIN = 1e-4  # singular value of a dependence, relative to the largest, that is not 0
_NOTHING = 1e-7  # and one that is


class AllProducts:
    """Products of all standardised columns with each other and with the outcome, over n."""

    def __init__(self, design: Design, y: Floats) -> None:
        self.design, self.y = design, y
        self.first = np.cumsum(design.width) - design.width
        self.owner = np.repeat(np.arange(len(design.width)), design.width)

    @property
    def table(self) -> Floats:
        """Of all columns with each other."""
        return self.design.all_products

    @cached_property
    def outcome(self) -> Floats:
        """Of all columns with the outcome."""
        design = self.design
        y = self.y if design.unit_weights else np.sqrt(design.weights) * self.y
        return (y @ design.stack(np.flatnonzero(design.width).tolist())) / design.n

    @cached_property
    def dependences(self) -> Dependences:
        """Which columns are in the span of which others."""
        return Dependences(self.table, self.read)

    def of(self, variable: int) -> range:
        """Columns of a variable."""
        first = int(self.first[variable])
        return range(first, first + int(self.design.width[variable]))

    def read(self, columns: Sequence[int]) -> Floats:
        """Some columns, each times the root of the weights."""
        owners = self.owner[list(columns)].tolist()
        blocks = {v: self.design.columns(v) for v in set(owners)}
        picked = [blocks[v][:, c - int(self.first[v])] for v, c in zip(owners, columns, strict=True)]
        return np.column_stack(picked) * np.sqrt(self.design.weights)[:, None]


class GaussianByProducts:
    """A continuous outcome; `careful` is the ordinary model, for what is next to collinear or perfect."""

    name = "gaussian"
    has_likelihood = True

    def __init__(self, careful: Gaussian) -> None:
        self.careful, self.design, self.n = careful, careful.design, careful.n
        self.block_size = max(1, self.design.table.n_variables)
        self.variance = careful.total / self.n
        self.products = AllProducts(self.design, careful.y)

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> Fit:
        """Project the outcome on a set of variables."""
        fit = self._fit(selected, near)
        return fit if fit.sound else self.careful.fit(selected, near)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Least-squares coefficients."""
        fit = self._fit(selected, near)
        return fit.describe() if fit.sound else self.careful.describe(selected, near)

    def outline(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """The same without standard errors."""
        fit = self._fit(selected, near)
        return fit.describe(with_errors=False) if fit.sound else self.careful.outline(selected, near)

    def independent(self, selected: Sequence[int], near: Fit | None = None) -> Indices | None:
        """Which columns of a set, counted from its first, are not in the span of earlier ones; None if in doubt."""
        fit = self._fit(selected, near)
        return np.flatnonzero(np.isin(fit.columns, fit.kept)) if fit.sound else None

    def sums(self, selected: Sequence[int], which: Indices) -> tuple[Floats, Floats]:
        """XᵀWX and XᵀWy for some of the columns of a set, counted from its first."""
        columns = np.array([c for variable in selected for c in self.products.of(variable)], dtype=np.intp)[which]
        products = self.products
        return self.n * products.table[np.ix_(columns, columns)], self.n * self.careful.scale * products.outcome[
            columns
        ]

    def _fit(self, selected: Sequence[int], near: Fit | None) -> GaussianProductsFit:
        known, chosen = near if isinstance(near, GaussianProductsFit) else None, tuple(selected)
        return known if known is not None and known.selected == chosen else GaussianProductsFit(self, chosen, known)


class GaussianProductsFit:
    """Projection on the columns of S, from their products.

    It is sound if those that are not in the span of others are far from it, and if they leave something of the outcome.

    Attributes
    ----------
    kept : independent columns of S, in order; `spanned` are the others.
    W : a row for every one that is kept, L⁻¹R_J; `along` is L⁻¹r_J.
    score : products of all columns with what is left of the outcome.
    """

    def __init__(self, model: GaussianByProducts, selected: tuple[int, ...], known: GaussianProductsFit | None) -> None:
        self.model, self.products, self.selected = model, model.products, selected
        self.kept: list[int] = []
        self.spanned: list[int] = []
        self.W, self.along = np.zeros((0, len(self.products.table))), np.zeros(0)
        self.score = self.products.outcome
        self.sound = True
        n_known = 0
        if known is not None:
            n_known = shared_beginning(known.selected, selected)
            self._take_over(known, n_known)
        for variable in selected[n_known:]:
            self._add(variable)
        self.left = model.variance - float(self.along @ self.along)
        self.rss = model.n * self.left
        self.residual_df = model.n - 1 - len(self.kept)
        self.sound = self.sound and self.left > _DELICATE * model.variance

    @property
    def columns(self) -> list[int]:
        """All columns of S."""
        return [c for variable in self.selected for c in self.products.of(variable)]

    def _take_over(self, known: GaussianProductsFit, n_variables: int) -> None:
        """What is known of the same variables."""
        columns = {c for v in self.selected[:n_variables] for c in self.products.of(v)}
        self.kept = [c for c in known.kept if c in columns]
        self.spanned = [c for c in known.spanned if c in columns]
        size = len(self.kept)
        self.W, self.along, self.score = known.W[:size], known.along[:size], known.score
        if size < len(known.kept):
            self.score = self.products.outcome - self.along @ self.W

    def _add(self, variable: int) -> None:
        """Rows of W for the columns of a variable, without those in the span of earlier ones."""
        columns = list(self.products.of(variable))
        left = self.products.table[columns] - self.W[:, columns].T @ self.W
        rows: list[Floats] = []
        along: list[float] = []
        score = self.score
        for i, c in enumerate(columns):
            pivot = float(left[i, c])
            if pivot <= _SPANNED and self.products.dependences.holds(c, self.kept, self.spanned):
                self.spanned.append(c)
                continue
            if pivot <= _DELICATE:
                self.sound = False
                break
            row = left[i] / np.sqrt(pivot)
            along.append(float(score[c] / np.sqrt(pivot)))
            score = score - along[-1] * row
            left[i + 1 :] -= row[columns[i + 1 :], None] * row
            rows.append(row)
            self.kept.append(c)
        self.W = np.vstack([self.W, *rows])
        self.along, self.score = np.append(self.along, along), score

    @property
    def saturated(self) -> bool:
        """No degree of freedom left for a larger model's residuals; a perfect fit is not sound."""
        return self.residual_df - 1 < 1

    def gains(self, candidates: Indices) -> Evidence:
        """What each candidate explains of the residual."""
        width = self.model.design.width[candidates]
        first = self.products.first[candidates]
        found = group_gains(self.products.table, self.W, self.score, first, width, _SPANNED, _DELICATE)
        explained, df, delicate, spanned = found
        if spanned.any():
            ends = np.cumsum(width)
            for i in np.unique(np.searchsorted(ends, np.flatnonzero(spanned), side="right")).tolist():
                delicate[i] |= not self._all_spanned(int(first[i]), spanned[ends[i] - width[i] : ends[i]])
        explained[self.residual_df - df < 1] = 0.0  # a perfect fit for want of residuals is no evidence
        statistic = n_log_ratio(self.model.careful, self.rss, self.rss - self.model.n * explained)
        if delicate.any():
            careful = self._careful.gains(candidates[delicate])
            statistic[delicate], df[delicate] = careful.statistic, careful.df
        return Evidence(statistic, df, None, ExactF(self.model.n, self.residual_df))

    def _all_spanned(self, first: int, spanned: NDArray[np.bool_]) -> bool:
        """Whether those columns of a group that seem to be in the span of S and of its earlier columns really are."""
        there = list(self.kept)
        for c, seems in enumerate(spanned.tolist(), start=first):
            if not seems:
                there.append(c)
            elif not self.products.dependences.holds(c, there, self.spanned):
                return False
        return True

    def losses(self, variables: Indices) -> Evidence:
        """What removing each variable adds to the RSS: from the coefficients and their covariance."""
        added, df = np.zeros(len(variables)), np.zeros(len(variables))
        owner = self.products.owner
        owners, others = owner[self.kept], owner[self.spanned]
        replaced: NDArray[np.bool_] = np.asarray((np.abs(self._dependence) > _NOTHING).any(axis=1))
        alone = self._coefficients * (self._coefficients / np.diag(self._inverse))  # of a column by itself
        begins = np.flatnonzero(np.diff(owners, prepend=-1))
        places = dict(zip(owners[begins].tolist(), itertools.pairwise([*begins.tolist(), len(owners)]), strict=True))
        for i, variable in enumerate(variables.tolist()):
            own = slice(*places.get(variable, (0, 0)))
            if own.stop - own.start == 1 and not replaced[own.start]:
                added[i], df[i] = alone[own.start], 1.0
                continue
            coefficients, inverse = self._coefficients[own], self._inverse[own, own]
            if replaced[own].any():
                free = _not_replaced(self._dependence[own][:, others != variable])
                if free is None:  # whether others stand in for it is a matter of digits
                    return self._careful.losses(variables)
                coefficients, inverse = free.T @ coefficients, free.T @ inverse @ free
            df[i] = len(coefficients)
            one = len(coefficients) == 1
            added[i] = coefficients @ (coefficients / inverse[0] if one else np.linalg.solve(inverse, coefficients))
        statistic = n_log_ratio(self.model.careful, self.rss + self.model.n * added, self.rss)
        return Evidence(statistic, df, None, ExactF(self.model.n, self.residual_df, shares_larger=True))

    @cached_property
    def _careful(self) -> Fit:
        return self.model.careful.fit(self.selected)

    @cached_property
    def _inverse(self) -> Floats:
        """R_JJ⁻¹."""
        half = linalg.solve_triangular(self.W[:, self.kept], np.eye(len(self.kept)), check_finite=False)
        return np.asarray(half @ half.T)

    @cached_property
    def _coefficients(self) -> Floats:
        return np.asarray(linalg.solve_triangular(self.W[:, self.kept], self.along, check_finite=False))

    @cached_property
    def _dependence(self) -> Floats:
        """Coefficients of the columns that are spanned on those that are kept."""
        return self._inverse @ self.products.table[np.ix_(self.kept, self.spanned)]

    def describe(self, with_errors: bool = True) -> FittedModel:
        """Least-squares coefficients on the scale of the user's data; 0 for a column in the span of earlier ones."""
        linear = self.model.careful
        columns = self.columns
        place = {c: 1 + i for i, c in enumerate(columns)}
        kept = [0, *(place[c] for c in self.kept)]
        coefficients = np.zeros(len(columns) + 1)
        coefficients[kept] = np.concatenate([[linear.center / linear.scale], self._coefficients])
        covariance = self._covariance(kept, len(coefficients)) if with_errors else None
        return on_the_users_scale(linear, self.selected, coefficients, covariance, self.rss)

    def _covariance(self, kept: Sequence[int], size: int) -> Floats:
        covariance = np.zeros((size, size))
        covariance[0, 0] = 1.0
        covariance[np.ix_(kept[1:], kept[1:])] = self._inverse
        covariance *= self.left / self.residual_df if self.residual_df > 0 else np.nan
        return covariance


def _not_replaced(dependence: Floats) -> Floats | None:
    """Directions of a variable's columns for which no other column can stand in, or None where that is not clear.

    `dependence` has, for its columns (rows), their part in each column that is in the span of all: those directions are
    orthogonal to its columns.
    """
    if dependence.shape[1] == 0:
        return np.eye(len(dependence))
    vectors, values, _ = np.linalg.svd(dependence)
    relative = values / max(1.0, float(values[0]))
    if ((relative > _NOTHING) & (relative < _CERTAIN)).any():
        return None
    return np.asarray(vectors[:, int((relative >= _CERTAIN).sum()) :])
