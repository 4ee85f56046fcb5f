"""How far steps move rows, and how much curvature may change on the way.

Along a direction d the curvature of a row's log-likelihood, in whatever direction, changes at a relative rate of s(d)
at most: for a softmax that is the range of the row's predictors in d; for proportional odds, whose likelihood is made
of logistic terms and of one for each gap between thresholds, the largest change of an edge, or of a gap times
coth(gap/2). So after a step with s the curvature is between e⁻ˢ and eˢ of what it was, and with λ² = gᵀH⁻¹g

    λ²·P(s)  ≤  2[ℓ* − ℓ],                s of its Newton step, which can be taken in part,
    2[ℓ* − ℓ]  ≤  λ²·P(−κλ),              κ the largest s of any step of length 1 in the metric of H.

The first: t of the step gains λ²[t − (e^{st} − 1 − st)/s²] at least, and t = log(1 + s)/s is best. The second: at
length r from here the slope has fallen by ∫e^{−κt}dt at least, so that nobody gets further than r = −log(1 − κλ)/κ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbed.models.engines.bound_functions import P
from fbed.rules.p_values import Floats

_FURTHEST = 0.79  # κλ up to which no way to the maximum is longer than 2λ


@dataclass(frozen=True)
class Moved:
    """How far steps move the predictors of any row, and thresholds where there are some; a step each."""

    rows: Floats
    thresholds: Floats

    def and_then(self, other: Moved) -> Moved:
        """Both, one after the other."""
        return Moved(self.rows + other.rows, self.thresholds + other.thresholds)

    def times(self, factor: Floats | float) -> Moved:
        """Steps that are longer, or shorter."""
        return Moved(self.rows * factor, self.thresholds * factor)


def gained_by(bend: Floats, promised: Floats) -> Floats:
    """What steps with some s and squared decrement gain at least."""
    known = np.isfinite(bend)
    return np.where(known, promised * P(np.where(known, bend, 0.0)), 0.0)


def gained_within(bend: Floats, promised: Floats) -> Floats:
    """What there is to gain at most, given κλ."""
    near = bend < _FURTHEST
    return np.where(near, promised * P(np.where(near, -bend, 0.0)), np.inf)
