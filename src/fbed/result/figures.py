"""Numbers as people read them: a few significant digits, thousands apart, powers of ten only where they are needed."""

from __future__ import annotations

import math

_LARGEST, _SMALLEST = 1e12, 1e-4  # beyond these a number is a power of ten


def figure(value: float | None, digits: int = 3, missing: str = "") -> str:
    """A number with so many significant digits: 36,760 and 0.0123, not 3.676e+04; whole thousands are not rounded."""
    if value is None or math.isnan(value):
        return missing
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    size = abs(float(f"{value:.{digits}g}"))
    if size >= _LARGEST or size < _SMALLEST:
        return f"{value:.{max(digits - 1, 1)}e}"
    if size >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def ratio(value: float, digits: int = 2) -> str:
    """A ratio with so many significant digits of what it differs from 1 by, where that is little: 1.00011."""
    if math.isnan(value) or not 0.99 < value < 1.01 or value == 1.0:
        return figure(value, digits)
    places = min(digits - 1 - math.floor(math.log10(abs(value - 1.0))), 12)
    return f"{value:.{places}f}".rstrip("0").rstrip(".")
