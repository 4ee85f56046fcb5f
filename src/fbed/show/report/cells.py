"""Numbers, names and sections as the report shows them."""

from __future__ import annotations

import math

from fbed.result import figures
from fbed.result.result import Result
from fbed.result.views import Statistic
from fbed.show.report.html import Cell, Html, called, join, tag
from fbed.show.text import p_value

NAIVE = "p-value (naive)"


def number(value: float | None, digits: int = 3) -> str:
    """A number for a reader."""
    return figures.figure(value, digits, missing="–").replace("-", "−")


def numeric(value: float | None, digits: int = 3) -> Cell:
    """A cell with a number."""
    return Cell(number(value, digits), None if value is None or math.isnan(value) else value)


def probability(log_p: float | None) -> Cell:
    """A cell with a p-value, sorted by its logarithm."""
    return Cell("–") if log_p is None or math.isnan(log_p) else Cell(p_value(log_p).replace("-", "−"), log_p)


def bounded(known: Statistic) -> Cell:
    """A statistic, or what is certain about it."""
    return between(known.lower, known.upper)


def between(low: float, high: float) -> Cell:
    """A number that is known from bounds, as precisely as a reader sees it."""
    ends = number(low), number(high)
    if ends[0] == ends[1]:
        return Cell(ends[1], high)
    if math.isinf(high):
        return Cell(f"≥ {ends[0]}", low)
    return Cell(f"≤ {ends[1]}" if low <= 0 else f"{ends[0]} to {ends[1]}", high)


def bounded_p(known: Statistic) -> Cell:
    """A p-value, or what is certain about it."""
    if math.isnan(known.log_p_low):
        return Cell("–")
    low, high = (p_value(log_p).replace("-", "−") for log_p in (known.log_p_low, known.log_p_high))
    if low == high:
        return probability(known.log_p_high)
    if known.log_p_low == -math.inf:
        return Cell(f"≤ {high}", known.log_p_high)
    return Cell(f"≥ {low}" if known.log_p_high == 0 else f"{low} to {high}", known.log_p_low)


def interval(low: float | None, high: float | None) -> Cell:
    """A cell with an interval."""
    unknown = low is None or high is None or math.isnan(low) or math.isnan(high)
    return Cell("–") if unknown else Cell(f"{number(low)} to {number(high)}", low)


def target(result: Result) -> object:
    """What the outcome is called."""
    given = None if result.provenance is None else result.provenance.value("y")
    if isinstance(given, str):
        return called(given)
    if isinstance(given, (tuple, list)) and all(isinstance(part, str) for part in given):
        return join((called(part) for part in given), ", ")
    return "the outcome"


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def section(identifier: str, title: str, *parts: object) -> Html:
    """A part of the page with a heading."""
    return tag(
        "section",
        tag("h2", title, id=f"{identifier}-heading"),
        *parts,
        id=identifier,
        aria_labelledby=f"{identifier}-heading",
    )


def paragraph(*parts: object) -> Html:
    """A paragraph."""
    return tag("p", *parts)
