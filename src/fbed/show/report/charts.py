"""Charts as inline SVG: drawn for the width of a phone and enlarged on wider screens, coloured by the page's style.

Colours come from classes, so that dark mode and print need no other drawing; shape and position tell the same as
colour does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fbed.show.report.html import Html, escape, join, tag
from fbed.show.text import shortened_apart

WIDTH = 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 10.0, 22.0, 34.0
_ROW = 20.0
_NUMBERED = 13.0  # side of a square that has room for a number, in hundredths if it is small
_DARKEST = 0.55  # of a square, so that the number in it can be read


def figure(
    identifier: str, height: float, title: str, description: str, parts: Sequence[object], caption: object
) -> Html:
    """An SVG that a screen reader can tell about, with a caption for everybody."""
    drawing = tag(
        "svg",
        tag("title", title, id=f"{identifier}-title"),
        tag("desc", description, id=f"{identifier}-desc"),
        *parts,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_labelledby=f"{identifier}-title {identifier}-desc",
    )
    return tag("figure", drawing, tag("figcaption", caption))


class Axis:
    """From values to places on the page, linear or logarithmic."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool = False) -> None:
        self.log = log
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        if self.high <= self.low:
            self.high = self.low + 1.0
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        at = math.log10(max(value, 1e-300)) if self.log else value
        share = (at - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values inside the range."""
        if self.log:
            return _log_ticks(self.low, self.high, most)
        step = _round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten; for a short range also 2 and 5 times them."""
    steps = (1.0, 2.0, 5.0) if high - low < 2 else (1.0,)
    found = [m * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for m in steps]
    inside = [value for value in found if low - 1e-9 <= math.log10(value) <= high + 1e-9]
    return inside[:: max(1, math.ceil(len(inside) / (most + 1)))]


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-300)))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough - 1e-12 * power)


def number(value: float) -> str:
    """A number on an axis."""
    if value == 0:
        return "0"
    plain = f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:g}" if abs(value) < 1e6 else f"{value:.3g}"
    return plain.replace("e+0", "e").replace("e+", "e").replace("-", "−")


def text(x: float, y: float, content: object, class_: str = "", anchor: str = "start") -> Html:
    """Text at a place."""
    return tag(
        "text",
        content,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        class_=class_ or None,
        text_anchor=None if anchor == "start" else anchor,
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    """A straight line."""
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=class_)


def rectangle(x: float, y: float, width: float, height: float, class_: str, *children: object, **more: object) -> Html:
    """A box."""
    return tag(
        "rect",
        *children,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        width=f"{max(width, 0.0):.1f}",
        height=f"{height:.1f}",
        class_=class_,
        **more,
    )


def mark(x: float, y: float, hollow: bool, title: object) -> Html:
    """A point; hollow for what was taken away."""
    return tag(
        "circle", tag("title", title), cx=f"{x:.1f}", cy=f"{y:.1f}", r="3.4", class_="hollow" if hollow else "point"
    )


# -- the path --------------------------------------------------------------------------------------------------------


class Point:
    """A step on a path chart."""

    def __init__(self, x: int, y: float, name: str, zone: str, removed: bool) -> None:
        self.x, self.y, self.name, self.zone, self.removed = x, y, name, zone, removed


def path(
    identifier: str,
    points: Sequence[Point],
    title: str,
    description: str,
    caption: object,
    *,
    start: float | None = None,
    level: float | None = None,
    log: bool = False,
) -> Html:
    """Values by step, as a line when they start somewhere, else as stems; runs and the backward phase are zones."""
    height = 200.0
    values = [p.y for p in points] + ([] if start is None else [start]) + ([] if level is None else [level])
    low = min(values) / 1.3 if log else min([*values, 0.0])
    high = max(values) * (1.3 if log else 1.06)
    steps = [p.x for p in points]
    across = Axis(0 if start is not None else min(steps) - 0.6, max(steps) + 0.4, _LEFT, WIDTH - _RIGHT)
    up = Axis(low, high, height - _BOTTOM, _TOP, log)
    parts = [_zones(points, across, height), *_upright(up), *_step_ticks(steps, across, height)]
    if level is not None:
        parts.append(line(_LEFT, up(level), WIDTH - _RIGHT, up(level), "level"))
    if start is None:
        parts += [line(across(p.x), up(p.y), across(p.x), height - _BOTTOM, "stem") for p in points]
    else:
        track = [(0, start), *((p.x, p.y) for p in points)]
        parts.append(tag("polyline", points=" ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in track), class_="track"))
    parts += [
        mark(across(p.x), up(p.y), p.removed, f"step {p.x}: {p.name}, {number(float(f'{p.y:.4g}'))}") for p in points
    ]
    parts += _named_points(points, across, up)
    return figure(identifier, height, title, description, parts, caption)


def _named_points(points: Sequence[Point], across: Axis, up: Axis) -> list[Html]:
    """Names of the variables beside their points, where they do not get into each other's way."""
    taken: list[tuple[float, float, float]] = []  # left, right and height of what is written
    parts = []
    labels = shortened_apart([p.name for p in points], 16)
    for p, label in zip(points, labels, strict=True):
        x, y, width = across(p.x), up(p.y), 5.2 * len(label)
        for left, level in (
            (x - width / 2, y - 7),
            (x - width - 7, y + 3.5),
            (x + 7, y + 3.5),
            (x - width / 2, y + 14),
        ):
            inside = left >= _LEFT and left + width <= WIDTH - _RIGHT + 8 and level > _TOP - 8
            if inside and all(left > r or left + width < a or abs(level - h) > 10 for a, r, h in taken):
                taken.append((left, left + width, level))
                parts.append(text(left, level, ("− " if p.removed else "") + label, "small"))
                break
        taken.append((x - 4, x + 4, y + 3))
    return parts


def _zones(points: Sequence[Point], across: Axis, height: float) -> Html:
    """A band for each run and for the backward phase, named at its top where there is room."""
    bands: list[tuple[str, int, int]] = []
    for p in points:
        if bands and bands[-1][0] == p.zone:
            bands[-1] = (p.zone, bands[-1][1], p.x)
        else:
            bands.append((p.zone, p.x, p.x))
    parts: list[Html] = []
    for i, (zone, first, last) in enumerate(bands):
        left, right = across(first - 0.5) if i else across.start, across(last + 0.5)
        parts.append(rectangle(left, _TOP - 14, right - left, height - _BOTTOM - _TOP + 14, f"zone{i % 2}"))
        shown = zone if right - left > 5.4 * len(zone) else zone.split()[-1]
        if right - left > 5.4 * len(shown):
            parts.append(text((left + right) / 2, _TOP - 4, shown, "small", "middle"))
    return join(parts)


def _upright(up: Axis) -> list[Html]:
    parts = []
    for value in up.ticks():
        parts += [
            line(_LEFT, up(value), WIDTH - _RIGHT, up(value), "grid"),
            text(_LEFT - 5, up(value) + 3.5, number(float(f"{value:.6g}")), "small", "end"),
        ]
    return parts


def _step_ticks(steps: Sequence[int], across: Axis, height: float) -> list[Html]:
    every = max(1, math.ceil(len(steps) / 12))
    parts = [text(across(x), height - _BOTTOM + 14, x, "small", "middle") for x in steps[::every]]
    return [*parts, text((_LEFT + WIDTH - _RIGHT) / 2, height - 4, "step", "small", "middle")]


# -- bars ------------------------------------------------------------------------------------------------------------


def funnel(identifier: str, rows: Sequence[tuple[str, int, int]], description: str, caption: object, log: bool) -> Html:
    """For each scan, how many candidates were tested (pale) and how many stayed (dark)."""
    label, room = 64.0, 92.0
    most = max(tested for _, tested, _ in rows)
    across = Axis(1.0 if log else 0.0, most + 1.0 if log else most, label, WIDTH - room, log)
    parts: list[Html] = []
    for i, (name, tested, kept) in enumerate(rows):
        y = 4 + i * _ROW
        title = tag("title", f"{name}: {tested:,} tested, {kept:,} stayed")
        ends = [across(count + 1.0 if log else count) for count in (tested, kept)]
        parts += [
            text(label - 6, y + 12, name, "small", "end"),
            rectangle(label, y + 2, max(ends[0] - label, 1.0), _ROW - 6, "bar-pale", title),
            rectangle(label, y + 2, ends[1] - label, _ROW - 6, "bar"),
            text(ends[0] + 5, y + 12, f"{tested:,} → {kept:,}", "small"),
        ]
    return figure(
        identifier, 8 + len(rows) * _ROW, "Candidates that stayed after each scan", description, parts, caption
    )


def counts(
    identifier: str,
    rows: Sequence[tuple[str, float]],
    title: str,
    description: str,
    caption: object,
    whole: float | None = None,
) -> Html:
    """A horizontal bar for each class; the percentages are of `whole`, or of all classes together."""
    label, room = 110.0, 92.0
    most = max(count for _, count in rows) if whole is None else whole
    total = sum(count for _, count in rows) if whole is None else whole
    across = Axis(0.0, most, label, WIDTH - room)
    parts: list[Html] = []
    labels = shortened_apart([name for name, _ in rows], 17)
    for i, (name, count) in enumerate(rows):
        y = 4 + i * _ROW
        parts += [
            text(label - 6, y + 12, labels[i], "small", "end"),
            rectangle(
                label, y + 2, max(across(count) - label, 1.0), _ROW - 6, "bar", tag("title", f"{name}: {count:,g}")
            ),
            text(across(count) + 5, y + 12, f"{count:,g} ({count / total:.1%})", "small"),
        ]
    return figure(identifier, 8 + len(rows) * _ROW, title, description, parts, caption)


def histogram(
    identifier: str, edges: Sequence[float], heights: Sequence[float], title: str, description: str, caption: object
) -> Html:
    """Bars that touch."""
    height = 150.0
    across = Axis(edges[0], edges[-1], _LEFT, WIDTH - _RIGHT)
    up = Axis(0.0, max(heights) * 1.05, height - 22, 8)
    parts: list[Html] = _upright(up)
    for low, high, count in zip(edges, edges[1:], heights, strict=False):
        x = across(low)
        label = tag("title", f"{low:g} to {high:g}: {count:,g}")
        parts.append(rectangle(x, up(count), across(high) - x - 0.8, height - 22 - up(count), "bar", label))
    parts += [
        text(across(tick), height - 8, number(float(f"{tick:.6g}")), "small", "middle") for tick in across.ticks(4)
    ]
    return figure(identifier, height, title, description, parts, caption)


# -- effects ---------------------------------------------------------------------------------------------------------


def forest(
    identifier: str,
    rows: Sequence[tuple[str, float, float | None, float | None]],
    description: str,
    caption: object,
    ratio: bool,
) -> Html:
    """A point with its interval for each term, around the line of no effect; ratios on a logarithmic axis."""
    label = 130.0
    values = [end for _, *ends in rows for end in ends if end is not None and math.isfinite(end)] + [0.0]
    margin = 0.04 * (max(values) - min(values)) or 1.0
    low, high = min(values) - margin, max(values) + margin
    across = Axis(low, high, label, WIDTH - _RIGHT)
    bottom = 6 + len(rows) * _ROW
    ticks = (
        [(math.log(v), v) for v in Axis(_exp(low), _exp(high), 0, 1, log=True).ticks(4)]
        if ratio
        else [(v, v) for v in across.ticks(4)]
    )
    parts: list[Html] = []
    for at, shown in ticks:
        parts += [
            line(across(at), 2, across(at), bottom, "grid"),
            text(across(at), bottom + 13, number(float(f"{shown:.6g}")), "small", "middle"),
        ]
    parts.append(line(across(0.0), 2, across(0.0), bottom, "level"))
    labels = shortened_apart([name for name, *_ in rows], 20)
    for i, (name, value, start, end) in enumerate(rows):
        y = 6 + (i + 0.5) * _ROW
        parts.append(text(label - 6, y + 3.5, labels[i], "small", "end"))
        if start is not None and end is not None:
            parts.append(line(across(start), y, across(end), y, "interval"))
        if math.isinf(value):
            edge, sign, side = (high, "∞ →", "end") if value > 0 else (low, "← 0" if ratio else "← −∞", "start")
            parts.append(text(across(edge), y + 3.5, sign, "small", side))
        else:
            parts.append(mark(across(value), y, False, f"{name}: {(_exp(value) if ratio else value):.4g}"))
    return figure(identifier, bottom + 18, "Effects with 95% intervals", description, parts, caption)


def _exp(value: float) -> float:
    return math.exp(min(max(value, -300.0), 300.0))


# -- correlations ----------------------------------------------------------------------------------------------------


def heatmap(
    identifier: str, names: Sequence[str], matrix: Sequence[Sequence[float]], description: str, caption: object
) -> Html:
    """Correlations as squares, stronger ones darker; negative ones in the second colour and with a dash."""
    margin = 18.0
    size = min((WIDTH - margin) / len(names), 44.0)
    parts: list[Html] = []
    for i in range(len(names)):
        middle = margin + (i + 0.5) * size
        if size >= 12 or i % 5 == 4 or i == 0:
            parts += [
                text(middle, margin - 5, i + 1, "small", "middle"),
                text(margin - 4, middle + 3.5, i + 1, "small", "end"),
            ]
        for j in range(len(names)):
            if i == j:
                continue
            r = matrix[i][j]
            x, y = margin + j * size, margin + i * size
            title = tag("title", f"{names[i]} and {names[j]}: {r:.2f}")
            kind = "bar" if r >= 0 else "bar2"
            parts.append(
                rectangle(
                    x + 0.5, y + 0.5, size - 1, size - 1, kind, title, fill_opacity=f"{_DARKEST * min(abs(r), 1.0):.2f}"
                )
            )
            if size >= _NUMBERED:
                look, shown = ("cell", f"{r:.2f}") if size >= 30 else ("tiny", f"{100 * r:.0f}")
                parts.append(text(x + size / 2, y + size / 2 + 3.5, shown.replace("-", "−"), look, "middle"))
            elif r < -0.1 and size >= 8:
                parts.append(line(x + size * 0.3, y + size / 2, x + size * 0.7, y + size / 2, "dash"))
    return figure(
        identifier, margin + len(names) * size + 2, "Correlations among the selected", description, parts, caption
    )


__all__ = ["Point", "counts", "escape", "forest", "funnel", "heatmap", "histogram", "path"]
