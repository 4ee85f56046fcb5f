"""The functions behind every bound, safe near 0, where the plain formulas cancel.

h(z)  = (1 + z)log(1 + z) − z
P(z)  = 2h(z)/z²                              decreasing, P(0) = 1,    z ≥ −1
E(z)  = 2(eᶻ − 1 − z)/z²                      increasing, E(0) = 1
P₄(z) = 2[h(z) − z²/2 + z³/6]/z⁴              decreasing, P₄(0) = 1/6, z ≥ −1
E₄(z) = 2[eᶻ − 1 − z − z²/2 − z³/6]/z⁴        increasing, E₄(0) = 1/12
"""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from fbed.rules.p_values import Floats

_NEAR_ZERO = 1e-2  # for the second order: below this the closed forms cancel, and the series is exact
_FEW_TERMS = 10  # of the series so near 0; scans of many candidates spend their time here
_NEAR = 0.1  # for the fourth order, which cancels sooner
_FAR, _FURTHEST = 700.0, 1e75  # beyond which there are no exponentials, and no fourth powers
_ORDERS = np.arange(18)
_P = (-1.0) ** _ORDERS * 2.0 / ((_ORDERS + 1) * (_ORDERS + 2))
_P4 = (-1.0) ** _ORDERS * 2.0 / ((_ORDERS + 3) * (_ORDERS + 4))
_E = np.array([2.0 / factorial(j + 2) for j in range(18)])
_E4 = np.array([2.0 / factorial(j + 4) for j in range(18)])


def P(z: Floats) -> Floats:  # noqa: N802
    """P(z)."""
    z = np.asarray(z, dtype=np.float64)
    near = np.abs(z) < _NEAR_ZERO
    out, far = np.empty(z.shape), z[~near]
    out[near] = polyval(z[near], _P[:_FEW_TERMS])
    out[~near] = 2.0 * _h(far) / far**2
    return out


def E(z: Floats) -> Floats:  # noqa: N802
    """E(z)."""
    near, far = _apart(z, _NEAR_ZERO)
    value = np.where(near, polyval(np.where(near, z, 0.0), _E), 2.0 * (np.expm1(far) - far) / far**2)
    return np.where(z > _FAR, np.inf, value)


def P4(z: Floats) -> Floats:  # noqa: N802
    """P₄(z)."""
    near, far = _apart(z, _NEAR)
    direct = 2.0 * (_h(far) - far**2 / 2.0 + far**3 / 6.0) / far**4
    return np.where(near, polyval(np.where(near, z, 0.0), _P4), direct)


def E4(z: Floats) -> Floats:  # noqa: N802
    """E₄(z)."""
    near, far = _apart(z, _NEAR)
    direct = 2.0 * (np.expm1(far) - far - far**2 / 2.0 - far**3 / 6.0) / far**4
    return np.where(z > _FAR, np.inf, np.where(near, polyval(np.where(near, z, 0.0), _E4), direct))


def _apart(z: Floats, limit: float) -> tuple[NDArray[np.bool_], Floats]:
    """Who is near 0, and the others, with 1 in the place of those, and within what has powers and an exponential."""
    near = np.abs(z) < limit
    return near, np.where(near, 1.0, np.clip(z, -_FURTHEST, _FAR))


def _h(z: Floats) -> Floats:
    return (1.0 + z) * np.log1p(np.maximum(z, -1.0 + 1e-16)) - z
