"""What a family is: the small interface through which the search sees any kind of outcome.

A `Model` is an outcome bound to its data. It answers for a set S with a `Fit`, everything that depends on S alone; the
fit then tells, for candidates outside S, what adding each would gain, and for variables in S, what removing each would
lose. Nothing else is asked of a family: ranking, dropping, counting and ties are the search's business.

A fit that can answer 'who passes, who is best?' without evaluating every candidate offers `scan` as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fbed.criteria import Evidence
from fbed.design import Design
from fbed.tails import Floats

COLLINEAR = 1e-12
"""A column whose residual on S has less than this part of its centred norm² is in the span of S."""

Indices = NDArray[np.intp]


class Fit(Protocol):
    """A model fitted on a set of variables."""

    @property
    def saturated(self) -> bool:
        """Whether the outcome is explained completely, so that no candidate can add anything."""

    def gains(self, candidates: Indices) -> Evidence:
        """Evidence for adding each candidate to the set; statistic 0, df 0, p = 1 for a degenerate one."""

    def losses(self, variables: Indices) -> Evidence:
        """Evidence against removing each variable from the set."""


class Model(Protocol):
    """A family bound to an outcome and a design."""

    name: str
    n: float  # the sample size of information criteria
    has_likelihood: bool  # whether statistics are differences of deviances
    block_size: int  # candidates evaluated in one go

    def fit(self, selected: Sequence[int]) -> Fit:
        """Fit the model on a set of variables."""

    def describe(self, selected: Sequence[int]) -> FittedModel:
        """Coefficients of the model on a set of variables, on the scale of the user's data."""


@dataclass(frozen=True)
class FittedModel:
    """The final model on the selected variables.

    The standard errors are the naive ones of a model that was fixed in advance; after selection they are too small.
    They are None when the outcome is separated, since the coefficients are then infinite.
    """

    family: str
    terms: tuple[str, ...]
    coefficients: tuple[float, ...]
    standard_errors: tuple[float, ...] | None
    deviance: float
    null_deviance: float
    separated: bool = False


class Span:
    """Orthonormal basis (under the frequency weights) of the intercept and the columns of S.

    The basis holds √weight times the columns; `Z` is the same basis without that factor, scaled so that the intercept
    is a column of ones, which is what a likelihood is fitted on.
    """

    def __init__(self, design: Design, selected: Sequence[int]) -> None:
        self.design = design
        self.root = np.sqrt(design.weights)
        basis = [self.root / np.sqrt(design.n)]
        self.rank_of: dict[int, int] = {}  # how many columns of the basis each variable brought
        for variable in selected:
            new = _orthonormal(np.column_stack(basis), self.root[:, None] * design.columns(int(variable)))
            self.rank_of[int(variable)] = new.shape[1]
            basis.extend(new.T)
        self.Q: Floats = np.column_stack(basis)

    @property
    def rank(self) -> int:
        """Dimension, intercept included."""
        return int(self.Q.shape[1])

    @property
    def Z(self) -> Floats:  # noqa: N802
        """Basis of the linear predictors, with unit weighted mean square."""
        return self.Q * (np.sqrt(self.design.n) / self.root)[:, None]

    def residuals(self, columns: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Unit residuals of √weight·columns on the basis, and which columns have none (degenerate)."""
        weighted = self.root[:, None] * columns
        total = np.einsum("ij,ij->j", weighted, weighted)
        left = weighted - self.Q @ (self.Q.T @ weighted)
        left -= self.Q @ (self.Q.T @ left)  # twice is enough: the second pass removes what the first left by rounding
        norm2 = np.einsum("ij,ij->j", left, left)
        degenerate = norm2 <= COLLINEAR * total
        return left / np.sqrt(np.where(degenerate, 1.0, norm2)), degenerate

    def group(self, variable: int) -> Floats:
        """Orthonormal columns that a variable adds to the basis, n × rank increase."""
        return _orthonormal(self.Q, self.root[:, None] * self.design.columns(variable))


def _orthonormal(basis: Floats, columns: Floats) -> Floats:
    """Gram–Schmidt, one column after another, leaving out those in the span of what came before."""
    new: list[Floats] = []
    for column in columns.T:
        left = column.copy()
        for _ in range(2):
            left -= basis @ (basis.T @ left)
            for earlier in new:
                left -= earlier * (earlier @ left)
        norm2, total = float(left @ left), float(column @ column)
        if total > 0 and norm2 > COLLINEAR * total:
            new.append(left / np.sqrt(norm2))
    return np.column_stack(new) if new else np.empty((len(columns), 0))


def original_scale(
    design: Design,
    selected: Sequence[int],
    predictor: Floats,
    information: Floats | None,
    dispersion: float = 1.0,
) -> tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...] | None]:
    """Terms, coefficients and standard errors on the user's scale, from the linear predictor and the row weights.

    `information` holds the weight of each row in the Fisher information; None leaves the standard errors out.
    A column in the span of earlier ones gets coefficient 0.
    """
    columns = np.column_stack([np.ones(design.n_rows), design.stack(selected)])
    kept = independent_columns(columns)
    theta = np.zeros(columns.shape[1])
    theta[kept] = np.linalg.lstsq(columns[:, kept], predictor, rcond=None)[0]
    moments = [design.moments(int(variable)) for variable in selected]
    center = np.concatenate([np.zeros(0), *(m[0] for m in moments)])
    scale = np.concatenate([np.zeros(0), *(m[1] for m in moments)])
    back = np.diag(np.concatenate([[1.0], 1.0 / scale]))  # raw coefficients = back @ standardised ones
    back[0, 1:] = -center / scale
    terms = ("(intercept)", *(label for variable in selected for label in design.labels(int(variable))))
    errors = None if information is None else _errors(columns, kept, back, information, dispersion)
    return terms, tuple((back @ theta).tolist()), errors


def independent_columns(columns: Floats) -> Indices:
    """Which columns are not in the span of earlier ones."""
    basis = np.empty((len(columns), 0))
    kept = []
    for j in range(columns.shape[1]):
        new = _orthonormal(basis, columns[:, [j]])
        if new.shape[1]:
            kept.append(j)
            basis = np.column_stack([basis, new])
    return np.array(kept, dtype=np.intp)


def _errors(
    columns: Floats, kept: Indices, back: Floats, information: Floats, dispersion: float
) -> tuple[float, ...] | None:
    Z = columns[:, kept]
    covariance = np.zeros((columns.shape[1],) * 2)
    try:
        covariance[np.ix_(kept, kept)] = np.linalg.inv(Z.T @ (information[:, None] * Z)) * dispersion
    except np.linalg.LinAlgError:
        return None
    variance = np.diag(back @ covariance @ back.T)
    return tuple(np.sqrt(np.maximum(variance, 0.0)).tolist())
