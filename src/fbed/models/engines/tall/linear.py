"""The linear model on tall data: every statistic from products of columns, each of which is summed over the rows once.

With R the correlations of the columns, L the Cholesky factor of R_SS, W = L⁻¹R_Sx and t = L⁻¹R_Sy,

    explained = (r_xy − Wᵀt)²/(1 − WᵀW),      RSS = TSS(1 − tᵀt).

Products are found as they are asked for: those of a variable that has entered with the candidates that are left, in one
pass over these; where these are many, with those of a few that go with the outcome best, since reading columns costs
more than multiplying them. Where that has cost more than all products at once would, all are found at once. A candidate
of which S leaves little, and an outcome that is explained next to perfectly, are left to orthogonal factors:
differences of products would have lost their digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from fbed.matrix.counted_columns import CountedColumns, counted
from fbed.matrix.design import Design
from fbed.matrix.row_blocks import RowBlocks
from fbed.matrix.scattered_columns import scattered_products
from fbed.models.base import Fit, FittedModel, Indices, Model
from fbed.models.engines.tall.wide_products import WideProducts
from fbed.models.other_statistics.linear import Gaussian, n_log_ratio, on_the_users_scale
from fbed.rules.criteria import Evidence
from fbed.rules.p_values import ExactF, Floats

_DELICATE = 1e-5  # part of a column that S leaves, or of the outcome, below which differences of products lose digits
_AHEAD = 16  # columns that are multiplied in one pass: the next to enter are likely to be among them
_MANY = 64  # columns of which a pass is dear enough for that
_PRODUCTS_A_READ = 48  # of two columns that are both in the cache, which cost as much as reading a column


class LinearVerbs(Protocol):
    """What a linear model asks of its rows."""

    design: Design

    def with_outcome(self, variables: Sequence[int]) -> Floats:
        """Sums over the rows of the columns of variables times the outcome."""

    def between(self, some: Sequence[int], others: Sequence[int]) -> Floats:
        """Sums of products of the columns of some variables with those of others."""


class LinearSums:
    """The verbs on the columns of a design; y is the outcome times the weights, centred."""

    def __init__(self, blocks: RowBlocks, y: Floats) -> None:
        self.blocks, self.design, self.y = blocks, blocks.design, y

    def with_outcome(self, variables: Sequence[int]) -> Floats:
        """Sums over the rows of the columns of variables times the outcome."""
        columns = counted(self.blocks, variables, constant=False)
        if columns is not None:
            return columns.along(self.y)
        read = self.blocks.model(variables, constant=False)
        (found,) = self.blocks.summed(lambda part: (read(part).T @ self.y[part],), self.blocks.width(variables))
        return found

    def between(self, some: Sequence[int], others: Sequence[int]) -> Floats:
        """Sums of products of the columns of some variables with those of others, under the weights."""
        if counted(self.blocks, some) is not None or counted(self.blocks, others) is not None:
            left = CountedColumns(self.blocks, some, constant=False)
            right = left if some is others else CountedColumns(self.blocks, others, constant=False)
            return left.between(right, self.design.weights)
        return self._multiplied(some, others)

    def _multiplied(self, some: Sequence[int], others: Sequence[int]) -> Floats:
        by_entries = scattered_products(self.blocks, some, others, self.design.weights)
        if by_entries is not None:
            return by_entries
        left, right = self.blocks.model(some, constant=False), self.blocks.model(others, constant=False)
        weights = None if self.design.unit_weights else self.design.weights

        def own(part: slice) -> tuple[Floats]:
            """Half of it is computed, since it is symmetric."""
            Z = left(part) if weights is None else left(part) * np.sqrt(weights[part, None])
            return (Z.T @ Z,)

        def work(part: slice) -> tuple[Floats]:
            Z = left(part) if weights is None else left(part) * weights[part, None]
            return (Z.T @ right(part),)

        (found,) = self.blocks.summed(own if some is others else work, self.blocks.width([*some, *others]))
        return found


class Products:
    """Products of all standardised design columns with each other and with the outcome, over n; found once each."""

    def __init__(self, sums: LinearVerbs) -> None:
        self.sums, self.design = sums, sums.design
        width = self.design.width
        self.first = np.concatenate([[0], np.cumsum(width)])[:-1]
        total = int(width.sum())
        self.table = np.full((total, total), np.nan)
        single = self.first[self.design.varying]
        self.table[single, single] = 1.0
        self.with_outcome = np.full(total, np.nan)
        self._read = 0
        self._finding = Lock()

    def places(self, variables: Indices) -> Indices:
        """Design columns of some variables."""
        width = self.design.width
        if len(variables) and (width[variables] == 1).all():
            return np.asarray(self.first[variables], dtype=np.intp)
        return np.concatenate(
            [np.zeros(0, dtype=np.intp), *(np.arange(self.first[v], self.first[v] + width[v]) for v in variables)]
        ).astype(np.intp)

    def between(self, some: Indices, others: Indices) -> Floats:
        """Products of the columns of some variables with those of others."""
        rows, columns = self.places(some), self.places(others)
        with self._finding:
            unknown = np.isnan(self.table[np.ix_(rows, columns)])
            if unknown.any():
                self._find(self._owners(some, unknown.any(axis=1)), self._owners(others, unknown.any(axis=0)))
        return self.table[np.ix_(rows, columns)]

    def _owners(self, variables: Indices, which: NDArray[np.bool_]) -> list[int]:
        """Those variables that some of their design columns belong to."""
        found: list[int] = np.unique(np.repeat(variables, self.design.width[variables])[which]).tolist()
        return found

    def outcome(self, variables: Indices) -> Floats:
        """Products of the columns of some variables with the outcome."""
        columns = self.places(variables)
        with self._finding:
            unknown = np.isnan(self.with_outcome[columns])
            if unknown.any():
                wanted = self._owners(variables, unknown)
                self.with_outcome[self.places(np.array(wanted))] = self.sums.with_outcome(wanted) / self.design.n
        return self.with_outcome[columns]

    def _find(self, some: list[int], others: list[int]) -> None:
        """One pass over the rows; for all pairs of these columns once single passes have cost as much as that would."""
        design = self.design
        self._read += int(design.width[others].sum())
        together = sorted({*some, *others})
        if self._read * _PRODUCTS_A_READ > int(design.width[together].sum()) ** 2:
            some = others = together
        elif len(others) >= _MANY and len(some) < _AHEAD:
            some = [*some, *self._likely(some, others)]
        found = self.sums.between(some, others)
        rows, columns = self.places(np.array(some)), self.places(np.array(others))
        self.table[np.ix_(rows, columns)] = found / design.n
        self.table[np.ix_(columns, rows)] = found.T / design.n

    def _likely(self, some: list[int], others: list[int]) -> list[int]:
        """Of others, those who go with the outcome best and have products that are not known."""
        rest = np.array([v for v in others if v not in set(some) and self.design.varying[v]], dtype=np.intp)
        places = self.places(rest)
        unknown = np.isnan(self.table[np.ix_(places, self.places(np.array(others)))]).any(axis=1)
        with_outcome = np.where(unknown, np.nan_to_num(np.abs(self.with_outcome[places]), nan=0.0), -1.0)
        best = np.argsort(-with_outcome, kind="stable")[: _AHEAD - len(some)]
        return rest[best[with_outcome[best] > 0.0]].tolist()


class TallGaussian:
    """A continuous outcome with many rows; `careful` is the ordinary model, for what is next to collinear or perfect.

    `linear` knows the outcome; where the rows are at hand it is the ordinary model as well.
    """

    name = "gaussian"
    has_likelihood = True

    def __init__(self, linear: Gaussian, products: Products | WideProducts, careful: Model | None = None) -> None:
        self.linear, self.careful = linear, linear if careful is None else careful
        self.design, self.n = linear.design, linear.n
        self.block_size = self.design.table.n_variables  # threads share the rows, not the candidates
        self.products = products
        self.variance = linear.total / self.n

    def fit(self, selected: Sequence[int], near: Fit | None = None) -> Fit:
        """Project the outcome on a set of variables."""
        fit = TallGaussianFit(self, tuple(selected))
        return fit if fit.sound else self.careful.fit(selected, near)

    def describe(self, selected: Sequence[int], near: Fit | None = None) -> FittedModel:
        """Least-squares coefficients."""
        fit = TallGaussianFit(self, tuple(selected))
        return fit.describe() if fit.sound else self.careful.describe(selected, near)


class TallGaussianFit:
    """Projection on the columns of S, from their products.

    It is sound if they are far from collinear, and if they leave something of the outcome.
    """

    def __init__(self, model: TallGaussian, selected: tuple[int, ...]) -> None:
        self.model, self.selected = model, selected
        self.residual_df = model.n - 1 - int(model.design.width[list(selected)].sum())
        variables = np.array(selected, dtype=np.intp)
        self.triangle = np.zeros((0, 0))
        self.along = np.zeros(0)
        self.sound = True
        if len(selected):
            try:
                self.triangle = linalg.cholesky(model.products.between(variables, variables), lower=True)
            except linalg.LinAlgError:
                self.sound = False
                return
            outcome = model.products.outcome(variables)
            self.along = linalg.solve_triangular(self.triangle, outcome, lower=True)
            self.sound = bool(np.diag(self.triangle).min() ** 2 > _DELICATE)
        self.left = model.variance - float(self.along @ self.along)
        self.rss = model.n * self.left
        self.sound = self.sound and self.left > _DELICATE * model.variance

    @property
    def saturated(self) -> bool:
        """No degree of freedom left for a larger model's residuals; a perfect fit is not sound."""
        return self.residual_df - 1 < 1

    def gains(self, candidates: Indices) -> Evidence:
        """What each candidate explains of the residual."""
        explained, df = np.zeros(len(candidates)), np.zeros(len(candidates))
        width = self.model.design.width[candidates]
        delicate = np.zeros(len(candidates), dtype=bool)
        tested = np.flatnonzero(width > 0)
        if len(tested):
            explained[tested], df[tested], delicate[tested] = self._explained(candidates[tested])
        explained[self.residual_df - df < 1] = 0.0  # a perfect fit for want of residuals is no evidence
        reference = ExactF(self.model.n, self.residual_df)
        statistic = n_log_ratio(self.model.linear, self.rss, self.rss - self.model.n * explained)
        if delicate.any():
            found = self._careful.gains(candidates[delicate])
            statistic[delicate], df[delicate] = found.statistic, found.df
        return Evidence(statistic, df, None, reference)

    def _explained(self, candidates: Indices) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Part of the mean square that each explains, its df, and who must be looked at with care."""
        products, width = self.model.products, self.model.design.width[candidates]
        selected = np.array(self.selected, dtype=np.intp)
        score = products.outcome(candidates)
        W = np.zeros((0, len(score)))
        if len(selected):
            cross = products.between(selected, candidates)
            W = linalg.solve_triangular(self.triangle, cross, lower=True, check_finite=False)
            score = score - W.T @ self.along
        if (width == 1).all():
            left = 1.0 - np.einsum("ij,ij->j", W, W)
            close = left <= _DELICATE
            return score**2 / np.where(close, 1.0, left), np.ones(len(candidates)), close
        ends = np.cumsum(width)
        found = [
            self._explained_by_group(variable, score[end - size : end], W[:, end - size : end])
            for variable, size, end in zip(candidates.tolist(), width.tolist(), ends.tolist(), strict=True)
        ]
        return np.array([f[0] for f in found]), width.astype(float), np.array([f[1] for f in found])

    def _explained_by_group(self, variable: int, score: Floats, W: Floats) -> tuple[float, bool]:
        one = np.array([variable], dtype=np.intp)
        left = self.model.products.between(one, one) - W.T @ W
        values, vectors = np.linalg.eigh(left)
        if values[0] <= _DELICATE:
            return 0.0, True
        return float((vectors.T @ score) ** 2 @ (1.0 / values)), False

    def losses(self, variables: Indices) -> Evidence:
        """Squared coefficients over the diagonal of the inverse: what removing each variable adds to the RSS."""
        coefficients, inverse = self._coefficients, self._inverse
        added, df = np.zeros(len(variables)), self.model.design.width[variables].astype(float)
        for i, variable in enumerate(variables.tolist()):
            place = self._place(variable)
            added[i] = coefficients[place] @ np.linalg.solve(inverse[place, place], coefficients[place])
        statistic = n_log_ratio(self.model.linear, self.rss + self.model.n * added, self.rss)
        reference = ExactF(self.model.n, self.residual_df, shares_larger=True)
        return Evidence(statistic, df, None, reference)

    @cached_property
    def _careful(self) -> Fit:
        return self.model.careful.fit(self.selected)

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(linalg.cho_solve((self.triangle, True), np.eye(len(self.triangle))))

    @cached_property
    def _coefficients(self) -> Floats:
        return np.asarray(linalg.solve_triangular(self.triangle, self.along, lower=True, trans="T"))

    def _place(self, variable: int) -> slice:
        width = self.model.design.width
        first = int(sum(width[s] for s in self.selected[: self.selected.index(variable)]))
        return slice(first, first + int(width[variable]))

    def describe(self) -> FittedModel:
        """Least-squares coefficients on the scale of the user's data."""
        linear = self.model.linear
        covariance = np.zeros((len(self.along) + 1, len(self.along) + 1))
        covariance[0, 0] = 1.0
        if len(self.along):
            covariance[1:, 1:] = self._inverse
        covariance *= self.left / self.residual_df if self.residual_df > 0 else np.nan
        coefficients = np.concatenate([[linear.center / linear.scale], self._coefficients])
        return on_the_users_scale(linear, self.selected, coefficients, covariance, self.rss)
