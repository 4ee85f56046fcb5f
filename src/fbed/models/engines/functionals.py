"""Functionals of a model's coefficients that vanish on the models without one of its variables."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from fbed._kernels import basis_without
from fbed.models.base import Span
from fbed.rules.p_values import Floats


class Functionals:
    """Those of coefficients on the orthonormal basis Z.

    They come from the triangle with a variable's columns taken out, not from its inverse: coefficients may be on their
    way to infinity, and the least part of the variable that a rounded basis left in would grow with them.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        self._known: dict[int, tuple[Floats, Floats]] = {}

    def without(self, variable: int) -> tuple[Floats, Floats]:
        """Orthonormal functionals that vanish on models without the variable; and a basis of those models."""
        if variable not in self._known:
            place = self.span.place(variable)
            basis = basis_without(self.triangle, place.start, place.stop)
            kept = self.span.rank - (place.stop - place.start)
            self._known[variable] = basis[:, kept:], basis[:, :kept]
        return self._known[variable]

    def of(self, variable: int) -> Floats:
        """The functionals alone: those of single columns are found together."""
        if self.span.rank_of[variable] > 1:
            return self.without(variable)[0]
        return self.single[:, self.span.place(variable)]

    @cached_property
    def single(self) -> Floats:
        """F with RᵀF diagonal: each column vanishes on all columns of the triangle but one."""
        F = lapack.dtrtri(self.triangle)[0].T
        return np.asarray(F / np.sqrt(np.einsum("ij,ij->j", F, F)))

    @cached_property
    def triangle(self) -> Floats:
        """R with [1, columns] = Z·R."""
        return self.span.triangle()


class OwnFunctionals(Functionals):
    """Those of coefficients of the columns themselves."""

    def of(self, variable: int) -> Floats:
        """Those that pick the coefficients of a variable's columns."""
        return self.single[:, self.span.place(variable)]

    @cached_property
    def single(self) -> Floats:
        """Each picks the coefficient of one column."""
        return np.eye(self.span.rank)
