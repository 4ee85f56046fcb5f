"""Rows along a step of a candidate: how far each moves, and what a column has beside its part along S."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import linalg

from fbed.matrix.counted_columns import counted
from fbed.matrix.row_blocks import Indices, RowBlocks, Sums
from fbed.rules.p_values import Floats

_CLEAR = 1e-12  # pivot of scaled products below which a column is one of the others


def predictors(
    blocks: RowBlocks, selected: Sequence[int], coefficients: Floats, constant: bool = True
) -> Callable[[slice], Floats]:
    """What computes Zβ of some rows, for one β or several beside each other."""
    columns = counted(blocks, selected, constant)
    if columns is not None:
        return lambda part: columns.predict(part, coefficients)
    model = blocks.model(selected, constant)
    return lambda part: np.asarray(model(part) @ coefficients)


def extremes(
    blocks: RowBlocks, selected: Sequence[int], coefficients: Floats, constant: bool = True
) -> tuple[float, float]:
    """The least and the largest Zβ of all rows."""
    told = predictors(blocks, selected, coefficients, constant)

    def work(part: slice) -> tuple[float, float]:
        moved = told(part)
        return float(moved.min()), float(moved.max())

    def join(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
        return min(one[0], other[0]), max(one[1], other[1])

    return blocks.reduced(work, len(coefficients), join)


def steps(
    blocks: RowBlocks,
    selected: Sequence[int],
    variables: Indices,
    own: Sequence[Floats],
    along: Floats,
    constant: bool = True,
) -> Callable[[slice], Floats]:
    """What computes u = x·own − Z·along of some variables, a column each, of some rows."""
    singles, beside = blocks.design.varying[variables], predictors(blocks, selected, along, constant)
    where = blocks.design.positions(variables[singles])
    factors = [step[0] for step, single in zip(own, singles, strict=True) if single]

    def read(part: slice) -> Floats:
        U = np.empty((part.stop - part.start, len(variables)), order="F")
        U[:, singles] = blocks.gather(where, part) * factors
        for j in np.flatnonzero(~singles).tolist():
            U[:, j] = _step(blocks, int(variables[j]), own[j], part)
        U -= beside(part)
        return U

    return read


def _step(blocks: RowBlocks, variable: int, own: Floats, part: slice) -> Floats:
    """x·own of a variable of several columns; a category's are levels as they are, and its reference has 0."""
    codes = blocks.codes(variable)
    if codes is None:
        return np.asarray(blocks.variable(variable, part) @ own)
    return np.asarray(np.concatenate([[0.0], own])[codes[part]])


def remainder(blocks: RowBlocks, selected: Sequence[int], variable: int, gamma: Floats) -> Sums:
    """ZᵀZ, Zᵀr and rᵀr of what a column is beside its part along S, r = x − Zγ, under the frequencies of the rows."""
    columns, weights = counted(blocks, selected), blocks.design.weights
    if columns is not None:
        left, beside = np.empty(len(weights)), predictors(blocks, selected, gamma)
        for part in blocks.parts(columns.first):
            left[part] = blocks.variable(variable, part)[:, 0] - beside(part)
        return columns.gram(weights), columns.along(weights * left), np.array([weights @ left**2])
    model = blocks.model(selected)

    def work(part: slice) -> Sums:
        Z, weight = model(part), weights[part]
        x = blocks.variable(variable, part)[:, 0] - Z @ gamma
        return Z.T @ (weight[:, None] * Z), Z.T @ (weight * x), np.array([weight @ x**2])

    return blocks.summed(work, len(gamma))


def left_over(look: Callable[[Floats], Sums], size: int, n: float) -> float:
    """Part of a column's norm² that S leaves, as orthogonal factors would have it; `look` tells the `remainder`.

    The coefficients of the column on S are found again for what is left, since subtracting products would lose what is
    small.
    """
    gamma, left = np.zeros(size), 0.0
    for _ in range(3):
        gram, cross, norm = look(gamma)
        left = float(norm[0])
        gamma = gamma + _solved(gram, cross)
    return left / n


def _solved(gram: Floats, cross: Floats) -> Floats:
    """Coefficients on columns, of which some may be the same: those that were forced in, and explain the same rows."""
    unit = 1.0 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled, right = gram * unit * unit[:, None], unit * cross
    factor, failed = linalg.lapack.dpotrf(scaled, lower=1)
    if not failed and float(np.diag(factor).min()) ** 2 > _CLEAR:
        return np.asarray(unit * linalg.cho_solve((factor, True), right))
    return np.asarray(unit * np.linalg.lstsq(scaled, right, rcond=_CLEAR)[0])
