"""Plots of inferences with matplotlib; every function takes an `ax`, or makes one, and returns it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbed.errors import InvalidInput
from fbed.show.plots import BLUE, GREY, ORANGE, ROW, axes, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fbed.inference.inclusion import InclusionResult
    from fbed.inference.ipss import IPSSResult
    from fbed.inference.multisplit import MultisplitResult
    from fbed.inference.stability import StabilityResult

_MOST = 30  # variables in a plot


def bars(
    ax: Axes | None,
    names: Sequence[Any],
    values: Sequence[float],
    highlighted: Sequence[bool],
    label: str,
    threshold: float | None = None,
    spread: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Axes:
    """Horizontal bars, the first at the top; those that are highlighted are full, the others hatched."""
    ax = axes(ax, (6.0, 1.2 + ROW * len(names)))
    at = np.arange(len(names))
    colours = [BLUE if strong else "white" for strong in highlighted]
    ax.barh(at, values, color=colours, edgecolor=BLUE)
    if spread is not None:
        low, high = (np.asarray(part) for part in spread)
        ax.errorbar(values, at, xerr=[np.asarray(values) - low, high - np.asarray(values)], fmt="none", ecolor=GREY)
    if threshold is not None:
        ax.axvline(threshold, color=ORANGE, linestyle="--")
    ax.set_yticks(at, [named(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(label)
    return ax


@dataclass(frozen=True)
class InclusionPlots:
    """As in ``result.plot.frequencies()``."""

    result: InclusionResult

    def frequencies(self, ax: Axes | None = None) -> Axes:
        """How often each variable was selected, with intervals; full bars are selected on all rows."""
        rows = self.result.rows()[:_MOST]
        spread = [row["lower"] for row in rows], [row["upper"] for row in rows]
        names, values = [row["variable"] for row in rows], [row["frequency"] for row in rows]
        ax = bars(ax, names, values, [row["selected"] for row in rows], "inclusion frequency", None, spread)
        ax.set_xlim(0.0, 1.0)
        return ax

    def pairs(self, ax: Axes | None = None) -> Axes:
        """Who goes with whom: log odds ratios of being selected together, orange where two replace each other."""
        names, _ = self.result.joint()
        names = names[:_MOST]
        ax = axes(ax, (1.5 + 0.35 * len(names), 1.2 + 0.35 * len(names)))
        place = {name: i for i, name in enumerate(names)}
        grid = np.full((len(names), len(names)), np.nan)
        for pair in self.result.pairs(names):
            i, j = place[pair.first], place[pair.second]
            grid[i, j] = grid[j, i] = pair.log_odds_ratio
        drawn = ax.imshow(grid, cmap="PuOr", vmin=-4.0, vmax=4.0)
        ax.figure.colorbar(drawn, ax=ax, label="log odds ratio of joint inclusion")
        ax.set_xticks(range(len(names)), [named(name) for name in names], rotation=90)
        ax.set_yticks(range(len(names)), [named(name) for name in names])
        return ax

    def coefficients(self, ax: Axes | None = None) -> Axes:
        """Median and 95 % range of every coefficient over the resamples, and the estimate on all rows (crosses)."""
        frequency = dict(zip(self.result.candidates, self.result.frequencies.tolist(), strict=True))
        terms = sorted(self.result.terms, key=lambda term: -frequency.get(term.variable, 1.0))[:_MOST]
        if not terms:
            raise InvalidInput("this family has no coefficients to plot")
        ax = axes(ax, (6.0, 1.2 + ROW * len(terms)))
        at = np.arange(len(terms))
        ax.hlines(at, [term.low for term in terms], [term.high for term in terms], color=BLUE)
        ax.plot([term.median for term in terms], at, "o", color=BLUE, label="median")
        ax.plot([term.estimate for term in terms], at, "x", color=ORANGE, label="all rows")
        ax.axvline(0.0, color=GREY, linewidth=0.8)
        ax.set_yticks(at, [named(term.term) for term in terms])
        ax.invert_yaxis()
        ax.set_xlabel("coefficient")
        ax.legend()
        return ax


@dataclass(frozen=True)
class FrequencyPlots:
    """As in ``result.plot.frequencies()``."""

    result: StabilityResult | IPSSResult

    def frequencies(self, ax: Axes | None = None) -> Axes:
        """How often each variable was selected; full bars are stable, the line is the threshold."""
        rows = sorted(self.result.rows(), key=lambda row: -row["frequency"])[:_MOST]
        chosen = set(self.result.selected)
        names, values = [row["variable"] for row in rows], [row["frequency"] for row in rows]
        threshold = getattr(self.result, "threshold", None)
        ax = bars(ax, names, values, [name in chosen for name in names], "part of the halves", threshold)
        ax.set_xlim(0.0, 1.0)
        return ax

    def paths(self, ax: Axes | None = None) -> Axes:
        """How often each variable was selected at every level; those that are selected in blue."""
        levels = getattr(self.result, "levels", None)
        if levels is None:
            raise InvalidInput("complementary pairs have one level only: fbed.ipss has paths")
        ax = axes(ax, (6.0, 3.6))
        chosen, paths = set(self.result.selected), getattr(self.result, "paths")  # noqa: B009
        for name, path in zip(self.result.candidates, paths.T, strict=True):
            if path.any():
                strong = name in chosen
                ax.plot(
                    levels, path, color=BLUE if strong else GREY, linewidth=1.5 if strong else 0.5, zorder=1 + strong
                )
        ax.set_xscale("log")
        ax.set_xlabel("level")
        ax.set_ylabel("part of the halves")
        return ax


@dataclass(frozen=True)
class SplitPlots:
    """As in ``result.plot.p_values()``."""

    result: MultisplitResult

    def p_values(self, ax: Axes | None = None) -> Axes:
        """−log₁₀ of the adjusted p-values; full bars are selected, the line is the level."""
        rows = [row for row in self.result.rows() if row["p_value"] < 1.0][:_MOST]
        values = [-float(np.log10(max(row["p_value"], 1e-300))) for row in rows]
        chosen = [row["selected"] for row in rows]
        return bars(ax, [row["variable"] for row in rows], values, chosen, "−log₁₀ p", -np.log10(self.result.level))

    def intervals(self, ax: Axes | None = None) -> Axes:
        """Estimates and confidence intervals of what was selected; those that are infinite are left out."""
        shown = [each for each in self.result.intervals if np.isfinite([each.low, each.high]).all()][:_MOST]
        ax = axes(ax, (6.0, 1.2 + ROW * max(1, len(shown))))
        at = np.arange(len(shown))
        ax.hlines(at, [each.low for each in shown], [each.high for each in shown], color=BLUE)
        ax.plot([each.estimate for each in shown], at, "o", color=BLUE)
        ax.axvline(0.0, color=GREY, linewidth=0.8)
        ax.set_yticks(at, [named(each.variable) for each in shown])
        ax.invert_yaxis()
        ax.set_xlabel("coefficient")
        return ax
