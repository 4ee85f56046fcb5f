"""Vectors of rows in digits, v ≈ ulp·Σ 128ᵏ·dₖ with −64 ≤ dₖ ≤ 64: whole numbers that small types hold."""

from __future__ import annotations

from fbed.matrix.array_library import Array, Place

BASE = 128


def digits_of(place: Place, V: Array, count: int) -> tuple[Array, Array, Array]:
    """A column for every digit of every vector, the units of the vectors, and the vectors as they are then."""
    xp = place.xp
    most = xp.amax(xp.abs(V), 0)
    ulp = xp.where(most > 0, most, xp.ones_like(most)) / (BASE // 2 * BASE ** (count - 1))
    left = xp.round(V / ulp)
    rounded, columns = left * ulp, []
    for k in range(count - 1, -1, -1):
        digit = xp.round(left / BASE**k)
        left = left - digit * BASE**k
        columns.append(digit)
    return place.cast(xp.stack(columns, 2).reshape(V.shape[0], -1), "int8"), ulp, rounded
