"""Plots of a result with matplotlib, in colours that people with any kind of colour vision tell apart.

Every function takes an `ax` to draw on, or makes a figure of its own, and returns the Axes for further work.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.result import views
from fbed.show.text import shortened, shortened_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fbed.api.paths import PathResult, Setting
    from fbed.result.result import Result

# Okabe and Ito's colours; shapes and hatches tell the same, so that none of them is needed.
BLUE, ORANGE, GREY, _PALE = "#0072b2", "#d55e00", "#777777", "#cfe3f1"
_NAME = 28  # characters of a name on an axis
ROW = 0.28  # inches of a row of bars
LETTER = 0.085  # inches of a letter of a name
_MOST_VARIABLES = 40
_LINES = [  # colour, marker and dashes of each algorithm
    (BLUE, "o", "-"),
    (ORANGE, "s", "--"),
    ("#009e73", "^", "-."),
    ("#cc79a7", "D", ":"),
    ("#000000", "v", "-"),
]


@dataclass(frozen=True)
class Plots:
    """The plots of a result, as in ``result.plot.steps()``."""

    result: Result

    def steps(self, ax: Axes | None = None) -> Axes:
        """By how much the deviance has fallen after each step; without a likelihood, −log₁₀ of the p-values.

        Runs and the backward phase are parted by lines; hollow points are variables that were removed.
        """
        steps = views.changes(self.result)
        names = [("− " if s.row.action == "remove" else "") + named(s.row.variable) for s in steps]
        ax = axes(ax, _size_by_step(names))
        adds_up = views.has_deviance(self.result)
        values = [step.fall if adds_up else -(step.row.log_p or 0.0) / math.log(10) for step in steps]
        at = range(1, len(steps) + 1)
        if adds_up:
            ax.plot([0, *at], [0.0, *values], color=BLUE, zorder=1)
        else:
            ax.vlines(at, 0.0, values, color=BLUE, zorder=1)
        for x, value, step in zip(at, values, steps, strict=True):
            removed = step.row.action == "remove"
            ax.plot(x, value, "o", color=ORANGE if removed else BLUE, mfc="white" if removed else BLUE, zorder=2)
        _mark_zones(ax, [step.zone for step in steps])
        ax.set_xticks(list(at), names, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_ylabel("fall of the deviance" if adds_up else "−log₁₀ p (naive)")
        ax.set_title("Steps of the search")
        return ax

    def funnel(self, ax: Axes | None = None) -> Axes:
        """How many candidates each forward scan tested, and how many it left."""
        scans = [step for step in views.steps(self.result) if step.row.phase == "forward"]
        ax = axes(ax, (6.0, 1.2 + ROW * len(scans)))
        at = list(range(len(scans)))
        ax.barh(at, [step.row.tested for step in scans], color=_PALE, edgecolor=BLUE, label="tested")
        ax.barh(at, [step.remaining for step in scans], color=BLUE, label="left for the next scan")
        if scans and max(step.row.tested for step in scans) > 1000:
            ax.set_xscale("symlog", linthresh=10)
        for y, step in zip(at, scans, strict=True):
            text = f" {step.row.tested:,} → {step.remaining:,}"
            ax.text(step.row.tested, y, text, va="center", fontsize="small", color=GREY)
        ax.set_yticks(at, [f"{step.zone}, step {step.number}" for step in scans])
        ax.invert_yaxis()
        ax.margins(x=0.25)
        ax.set_xlabel("candidates")
        ax.set_title("Early dropping")
        ax.legend(loc="lower right", frameon=False)
        return ax

    def effects(self, ax: Axes | None = None) -> Axes:
        """Coefficients with naive 95% intervals, per standard deviation or level; ratios on a logarithmic axis."""
        every = views.effects(self.result)
        names = named_all(effect.term for effect in every)
        ax = axes(ax, (4.4 + LETTER * longest(names), 1.4 + ROW * len(every)))
        model = self.result.model
        separated = model is not None and model.separated
        unknown = separated and model is not None and model.standard_errors is None
        ratio = None if unknown else views.ratio_name(self.result)  # of infinite coefficients there is none

        def shown(value: float) -> float:
            return math.exp(min(value, 700.0)) if ratio else value

        for y, effect in enumerate(every):
            value, low, high = effect.scaled
            if low is not None and high is not None:
                ax.plot([shown(low), shown(high)], [y, y], color=BLUE, linewidth=2)
            if math.isinf(value):  # an arrow at the edge
                side = ax.get_yaxis_transform()
                ax.plot(float(value > 0), y, ">" if value > 0 else "<", color=BLUE, transform=side, clip_on=False)
            else:
                ax.plot(shown(value), y, "o", color=BLUE)
        if ratio:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter("{x:g}")
        ax.axvline(shown(0.0), color=GREY, linestyle="--", linewidth=1, zorder=0)
        ax.set_yticks(range(len(every)), names)
        ax.invert_yaxis()
        ax.margins(y=0.5 / max(len(every), 1))
        ax.set_xlabel(f"{ratio or 'coefficient'} per standard deviation or level,\nnaive 95% interval")
        ax.set_title("Effects" + ("\n(arrows: infinite, the outcome is separated)" if separated else ""))
        return ax

    def ties(self, ax: Axes | None = None) -> Axes:
        """The score of each chosen variable and of its runners-up; a bar spans what is known of a runner-up's."""
        steps = [step for step in views.changes(self.result) if step.row.action == "add"]
        ties = views.ties(self.result)
        names = [named(step.row.variable) for step in steps]
        ax = axes(ax, _size_by_step(names))
        place = {step.number: x for x, step in enumerate(steps, 1)}
        ax.plot(list(place.values()), [step.row.score or 0.0 for step in steps], "o", color=BLUE, label="entered")
        for near, colour, marker, label in ((False, GREY, "_", "runner-up"), (True, ORANGE, "D", "near tie")):
            few = [tie for tie in ties if tie.near == near]
            x = [place[tie.step.number] for tie in few]
            low = [tie.finding.score for tie in few]
            high = [tie.finding.score + tie.finding.upper - tie.finding.statistic for tie in few]
            ax.vlines(
                x,
                low,
                [end if math.isfinite(end) else start for start, end in zip(low, high, strict=True)],
                colors=colour,
            )
            ax.plot(x, low, marker, color=colour, label=label, markersize=5, linestyle="none")
        ax.set_yscale("symlog", linthresh=10)
        ax.set_xticks(
            list(place.values()),
            names,
            rotation=45,
            ha="right",
            rotation_mode="anchor",
        )
        ax.set_ylabel("score:\nstatistic less what was needed")
        ax.set_title("Near ties")
        ax.legend(frameon=False)
        return ax


@dataclass(frozen=True)
class PathPlots:
    """The plots of a path, as in ``path.plot.sizes()``; `criterion` is 'lr' (over alpha) or 'ebic' (over gamma)."""

    path: PathResult

    def sizes(self, criterion: str | None = None, ax: Axes | None = None) -> Axes:
        """How many variables each setting selects, a line for each algorithm."""
        return self._lines("variables selected", lambda result: len(result.selected), criterion, ax)

    def tests(self, criterion: str | None = None, ax: Axes | None = None) -> Axes:
        """How many tests each setting needs, a line for each algorithm."""
        ax = self._lines("tests", lambda result: result.n_tests.total, criterion, ax)
        ax.set_yscale("log")
        return ax

    def variables(self, criterion: str | None = None, k: float | None = 1, ax: Axes | None = None) -> Axes:
        """Which variables each setting of one algorithm (FBED^k; FBS for k=None) selects, the most stable first."""
        criterion = self._criterion(criterion)
        chosen = [
            (setting, result)
            for setting, result in zip(self.path.settings, self.path.results, strict=True)
            if setting.criterion == criterion and setting.k == k
        ]
        if not chosen:
            raise InvalidInput(f"the path has no results of criterion {criterion!r} with k={k}: see its .settings")
        counts = Counter(name for _, result in chosen for name in result.selected)
        names = sorted(counts, key=lambda name: -counts[name])[:_MOST_VARIABLES]
        grid = np.array([[name in result.selected for _, result in chosen] for name in names]).reshape(len(names), -1)
        shown = named_all(names)
        wide = max(2.5 + 0.5 * len(chosen), 1.5 + 0.5 * len(chosen) + LETTER * longest(shown))
        ax = axes(ax, (wide, 1.4 + ROW * len(names)))
        rows, columns = np.nonzero(grid)
        ax.plot(columns, rows, "s", color=BLUE, markersize=9)
        ax.set_yticks(range(len(names)), shown)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlim(-0.6, len(chosen) - 0.4)
        _name_settings(ax, [setting for setting, _ in chosen])
        left_out = f", {_MOST_VARIABLES} of {len(counts)}" if len(counts) > len(names) else ""
        ax.set_title(f"Selected by {chosen[0][0].algorithm}{left_out}")
        return ax

    def _criterion(self, wanted: str | None) -> str:
        known = list(dict.fromkeys(setting.criterion for setting in self.path.settings))
        if wanted is None:
            return known[0]
        if wanted not in known:
            raise InvalidInput(f"the path has no criterion {wanted!r}: it holds {', '.join(map(repr, known))}")
        return wanted

    def _lines(self, title: str, figure: Callable[[Result], float], criterion: str | None, ax: Axes | None) -> Axes:
        criterion = self._criterion(criterion)
        ax = axes(ax, (5.4, 3.6))
        of = [(s, r) for s, r in zip(self.path.settings, self.path.results, strict=True) if s.criterion == criterion]
        values = list(dict.fromkeys(setting.value for setting, _ in of))
        looks = zip(dict.fromkeys(setting.algorithm for setting, _ in of), itertools.cycle(_LINES), strict=False)
        for algorithm, (colour, marker, line) in looks:
            points = [(values.index(s.value), figure(r)) for s, r in of if s.algorithm == algorithm]
            x, y = zip(*points, strict=True)
            ax.plot(x, y, color=colour, marker=marker, linestyle=line, label=algorithm)
        _name_settings(ax, [next(s for s, _ in of if s.value == value) for value in values])
        ax.set_ylabel(title)
        ax.set_title(f"{title.capitalize()} over the path")
        ax.legend(frameon=False)
        return ax


def _name_settings(ax: Axes, settings: Sequence[Setting]) -> None:
    names = ["default" if setting.value is None else f"{setting.value:g}" for setting in settings]
    ax.set_xticks(range(len(names)), names)
    ax.set_xlabel("alpha" if settings[0].criterion == "lr" else "gamma of EBIC")


def named_all(names: Iterable[object]) -> list[str]:
    """Names on an axis, different ones different."""
    return [name.replace("$", r"\$") for name in shortened_apart([str(name) for name in names], _NAME)]


def longest(names: Sequence[str]) -> int:
    """Letters of the longest name."""
    return max(map(len, names), default=0)


def _size_by_step(names: Sequence[str]) -> tuple[float, float]:
    """Inches of a plot over steps, with room for their names below, which lean and may reach to the left."""
    leaning = 0.7 * LETTER * longest(names)
    return max(4.5, 0.42 * len(names) + 1.5, leaning + 3.0), 3.2 + leaning


def axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The Axes that were given, or new ones of a size."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    made: Any = plt.subplots(figsize=size, layout="constrained")[1]
    made.spines[["top", "right"]].set_visible(False)
    return made


def named(name: object) -> str:
    """A name on an axis; between two dollar signs matplotlib would look for mathematics."""
    return shortened(str(name), _NAME).replace("$", r"\$")


def _mark_zones(ax: Axes, zones: Sequence[str]) -> None:
    """A line where a run ends, and the name of each part at its top."""
    for i, zone in enumerate(zones):
        if i and zone != zones[i - 1]:
            ax.axvline(i + 0.5, color=GREY, linestyle=":", linewidth=1)
        if i == 0 or zone != zones[i - 1]:
            ax.annotate(
                zone, (i + 0.6, 1.0), xycoords=("data", "axes fraction"), va="bottom", fontsize="small", color=GREY
            )
