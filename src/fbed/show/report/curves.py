"""Charts of performance: scores by number of variables, the ROC curve, and calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fbed.show.report.charts import WIDTH, Axis, figure, line, mark, number, text
from fbed.show.report.html import Html, tag

_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 12.0, 34.0
_HEIGHT = 230.0


class Frame:
    """Two axes with their grid and titles."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], titles: tuple[str, str], log: bool = False
    ) -> None:
        self.across = Axis(*x, _LEFT, WIDTH - _RIGHT, log)
        self.up = Axis(*y, _HEIGHT - _BOTTOM, _TOP)
        self.parts: list[Html] = []
        for value in self.up.ticks(5):
            self.parts += [
                line(_LEFT, self.up(value), WIDTH - _RIGHT, self.up(value), "grid"),
                text(_LEFT - 5, self.up(value) + 3.5, number(float(f"{value:.4g}")), "small", "end"),
            ]
        for value in self.across.ticks(5):
            at = self.across(value)
            self.parts.append(text(at, _HEIGHT - _BOTTOM + 13, number(float(f"{value:.4g}")), "small", "middle"))
        self.parts.append(text((_LEFT + WIDTH - _RIGHT) / 2, _HEIGHT - 4, titles[0], "small", "middle"))
        self.parts.append(text(_LEFT, _TOP - 3, titles[1], "small"))

    def track(self, points: Sequence[tuple[float, float]], class_: str = "track") -> None:
        """A line through points."""
        drawn = " ".join(f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in points)
        self.parts.append(tag("polyline", points=drawn, class_=class_))

    def whisker(self, x: float, low: float, high: float) -> None:
        """An interval upright."""
        if math.isfinite(low) and math.isfinite(high):
            self.parts.append(line(self.across(x), self.up(low), self.across(x), self.up(high), "interval"))

    def dot(self, x: float, y: float, hollow: bool, title: str) -> None:
        """A point."""
        self.parts.append(mark(self.across(x), self.up(y), hollow, title))


def sizes(
    identifier: str,
    points: Sequence[tuple[float, float, float, str]],
    chosen: int,
    score: str,
    description: str,
    caption: object,
) -> Html:
    """Score (with a standard error) by number of variables, a point a configuration; the chosen one is filled."""
    known = [p for p in points if math.isfinite(p[1])]
    low, high = min(p[1] - p[2] for p in known), max(p[1] + p[2] for p in known)
    margin = 0.06 * (high - low) or 0.01
    most = max(p[0] for p in known)
    frame = Frame((0.0, most * 1.04 + 0.5), (low - margin, high + margin), ("variables, mean of the folds", score))
    for i, (size, value, _, name) in enumerate(points):
        if math.isfinite(value) and i != chosen:
            frame.dot(size, value, True, f"{name}: {size:.1f} variables, {value:.4g}")
    size, value, error, name = points[chosen]
    frame.parts.append(line(_LEFT, frame.up(value), WIDTH - _RIGHT, frame.up(value), "level"))
    frame.whisker(size, value - error, value + error)
    frame.dot(size, value, False, f"chosen, {name}: {size:.1f} variables, {value:.4g} ± {error:.2g}")
    return figure(identifier, _HEIGHT, f"{score} by number of variables", description, frame.parts, caption)


def roc(identifier: str, points: Sequence[tuple[float, float]], description: str, caption: object) -> Html:
    """True against false positive rate, with the line of no information."""
    frame = Frame((0.0, 1.0), (0.0, 1.0), ("false positive rate", "true positive rate"))
    frame.parts.append(line(frame.across(0), frame.up(0), frame.across(1), frame.up(1), "level"))
    frame.track(points)
    return figure(identifier, _HEIGHT, "ROC curve", description, frame.parts, caption)


def calibration(
    identifier: str,
    bins: Sequence[tuple[float, float, float, float, float]],
    titles: tuple[str, str],
    description: str,
    caption: object,
) -> Html:
    """Observed by predicted, each bin (predicted, observed, low, high, rows) with its interval, and perfection."""
    values = [v for b in bins for v in b[:4] if math.isfinite(v)]
    low, high = min(values), max(values)
    margin = 0.04 * (high - low) or 0.01
    ends = (low - margin, high + margin)
    frame = Frame(ends, ends, titles)
    frame.parts.append(
        line(frame.across(ends[0]), frame.up(ends[0]), frame.across(ends[1]), frame.up(ends[1]), "level")
    )
    for predicted, observed, start, end, n in bins:
        frame.whisker(predicted, start, end)
        frame.dot(predicted, observed, False, f"predicted {predicted:.3g}, observed {observed:.3g} ({n:,.0f} rows)")
    return figure(identifier, _HEIGHT, "Calibration", description, frame.parts, caption)
