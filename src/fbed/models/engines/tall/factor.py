"""The Cholesky factor of an information matrix, and what to do where there is none worth having."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fbed.rules.p_values import Floats

_CLEAR = 1e-3  # smallest pivot with which columns are far from dependent
_PIVOT = 1e-7  # of the scaled information: below, the model is next to collinear or separated


class NotTall(Exception):  # no error: it never leaves the tall engine
    """The model is next to collinear or separated: its maximum is not to be had from the normal equations."""


class Factor:
    """Cholesky factor of an information matrix, its diagonal scaled to 1; refuses one that is next to singular."""

    def __init__(self, information: Floats) -> None:
        diagonal = np.diag(information)
        if not (diagonal > 0.0).all():
            raise NotTall
        self.unit = 1.0 / np.sqrt(diagonal)
        try:
            self.lower = linalg.cholesky(information * self.unit * self.unit[:, None], lower=True, check_finite=False)
        except linalg.LinAlgError:
            raise NotTall from None
        if np.diag(self.lower).min(initial=1.0) ** 2 < _PIVOT:
            raise NotTall

    def solve(self, right: Floats) -> Floats:
        """H⁻¹ times a vector or the columns of a matrix."""
        unit = self.unit if right.ndim == 1 else self.unit[:, None]
        return np.asarray(unit * linalg.cho_solve((self.lower, True), unit * right, check_finite=False))

    def halved(self, right: Floats) -> Floats:
        """G with H = FᵀF, G = F⁻ᵀ times the columns of a matrix: GᵀG is what is between them and H⁻¹."""
        scaled = self.unit[:, None] * right
        return np.asarray(linalg.solve_triangular(self.lower, scaled, lower=True, check_finite=False))

    def completed(self, half: Floats) -> Floats:
        """H⁻¹ times a vector, from half of the way."""
        return np.asarray(
            self.unit * linalg.solve_triangular(self.lower, half, lower=True, trans="T", check_finite=False)
        )

    def inverse(self) -> Floats:
        """H⁻¹."""
        if len(self.lower) == 0:  # LAPACK complains of matrices without rows
            return self.lower
        lower = linalg.lapack.dpotri(self.lower, lower=1)[0]  # above the diagonal are zeros, as in the factor
        out = lower + lower.T
        np.fill_diagonal(out, np.diag(lower))
        out *= self.unit
        out *= self.unit[:, None]
        return np.asarray(out)


def solved_by_pivots(left: Floats, score: Floats, least: float) -> Floats | None:
    """I⁻¹U of columns scaled to 1, by eigenvectors where pivots leave a doubt; None where one has too little."""
    factor, failed = linalg.lapack.dpotrf(left, lower=1)
    if not failed and float(np.diag(factor).min()) ** 2 > _CLEAR:
        return np.asarray(linalg.cho_solve((factor, True), score, check_finite=False))
    values, vectors = np.linalg.eigh(left)
    return None if values[0] <= least else np.asarray(vectors @ ((vectors.T @ score) / values))
