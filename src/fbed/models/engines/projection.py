"""What S leaves of candidates: scores, information and reach, found where the products are, with room for rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve

from fbed.matrix.array_library import Array, Place, on_host
from fbed.matrix.device_columns import ROUGH, Quick
from fbed.models.base import Indices
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Projected:
    """Of candidates that are single columns, given S.

    `score` is xᵀr less what S has of it, `left` the part of their information `own` that S leaves, `spread` how far a
    unit step of x can move the model's columns at any row, Σ|γ|·reach. Rounding may have moved them by `by_score`,
    `by_left` and `by_spread`. `gamma` gives the coefficients of some on the model's columns, where they are known.
    """

    score: Floats
    left: Floats
    own: Floats
    spread: Floats
    gamma: Callable[[Indices], Floats] | None
    by_score: Floats | float = 0.0
    by_left: Floats | float = 0.0
    by_spread: Floats | float = 0.0

    @property
    def is_rough(self) -> bool:
        """Whether rounding is more than that of float64."""
        return isinstance(self.by_score, np.ndarray)

    @property
    def steps(self) -> Floats:
        """One Newton step of each by itself."""
        return self.score / np.where(self.left > 0.0, self.left, 1.0)


Factor = tuple[Floats, Floats]
"""L and the unit of an information matrix whose diagonal was scaled to 1."""


def left_by(
    place: Place, along: Array, own: Array, factor: Factor, gradient: Floats, reach: Floats
) -> tuple[Projected, Array]:
    """Score and information of columns less what the model's columns have of them, found where they are; and |γ|."""
    lower, unit = (place.put(np.ascontiguousarray(part)) for part in factor)
    cross = along[:, 1:].T
    gamma = unit[:, None] * place.cholesky_solve(lower, unit[:, None] * cross)
    size = place.xp.abs(gamma)
    score, left = along[:, 0] - gamma.T @ place.put(gradient), own - (cross * gamma).sum(0)
    score, left, own, spread = (on_host(v, place) for v in (score, left, own, size.T @ place.put(reach)))
    told = Projected(score, left, own, spread, lambda some: on_host(gamma[:, place.put(np.asarray(some))], place))
    return told, size


def left_with_room(place: Place, found: Quick, factor: Factor, gradient: Floats, reach: Floats) -> Projected:
    """The same from quick products: γ = H⁻¹c is wrong by |H⁻¹|ν·q at most."""
    told, size = left_by(place, found.along, found.own, factor, gradient, reach)
    q, by_cross = found.by_column, found.by_vector[1:]
    lower, unit = factor
    turned = np.abs(unit[:, None] * cho_solve((lower, True), np.diag(unit))) @ by_cross
    along = on_host(size.T @ place.put(by_cross), place)
    return replace(
        told,
        by_score=q * (found.by_vector[0] + float(turned @ np.abs(gradient))),
        by_left=found.by_own + 2.0 * q * along + q * q * float(by_cross @ turned),
        by_spread=q * float(turned @ reach),
    )


def first_look(place: Place, found: Quick, own: float) -> Projected:
    """Candidates of a model without variables: they have nothing in common with a constant, and all the same `own`."""
    score = on_host(found.along[:, 0], place)
    information, nothing = np.full(len(score), own), np.zeros(len(score))
    return Projected(
        score,
        information,
        information,
        nothing,
        lambda some: np.zeros((1, len(some))),
        by_score=found.by_column * found.by_vector[0],
        by_left=ROUGH * information,  # columns are scaled as roughly as that
        by_spread=np.full(len(score), ROUGH),
    )


def told(n_looked: int, n_closer: int) -> str:
    """How much quick looks decided, in words."""
    if n_looked == 0:
        return "in float64"
    part = 100.0 * n_closer / n_looked
    return f"{n_looked:,} looks at candidates with rounding in the bounds, {n_closer:,} ({part:.3g}%) again in float64"
