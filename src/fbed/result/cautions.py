"""What should make a careful reader of a result look twice, each with a reason and a way out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fbed.result import views
from fbed.result.figures import figure
from fbed.result.fitted import table
from fbed.tables.table import Name

if TYPE_CHECKING:
    from fbed.result.result import Result

_RARE = 10  # rows below which a level or an uncommon value decides its own coefficient
_INFLATED = 10.0  # variance inflation from which textbooks speak of collinearity
_CORRELATED = 0.9
_TOO_FEW, _ENOUGH = 10.0, 25.0  # events per candidate: Heinze, Wallisch and Dunkler (2018)
_BY_CHANCE = 5.0  # columns of noise that would pass the first scan, from which it is worth a word
_DISGUISED = 0.98  # part of what there is to explain that a single variable explains
_LEVELS_EACH = 10  # rows that a level should have on average
_CODED = re.compile(r"(code|type|class|group|category|kind|zone|region|_cd|_id)s?$|^(code|type|class)", re.IGNORECASE)


@dataclass(frozen=True)
class Caution:
    """Something that makes a careful reader look twice."""

    title: str
    text: str


def cautions(result: Result) -> list[Caution]:
    """What may mislead a reader of this result."""
    return [*_ending(result), *_separation(result), *about_data(result), *_notes(result)]


def about_data(result: Result) -> list[Caution]:
    """What the search, the selected columns and the model on them should make a reader careful about."""
    if result.model is None:
        return []
    parts = (_disguise, _events, _chance, _assumptions, _codes, _levels, _collinearity, _rare)
    return [caution for part in parts for caution in part(result)]


def _ending(result: Result) -> Iterator[Caution]:
    if result.status in ("interrupted", "time_limit"):
        yield Caution(
            "The search did not finish",
            "What is shown had been found when it was stopped. More variables might have been selected, and some of "
            "these might have been removed again.",
        )
    if result.status == "max_features":
        yield Caution(
            "The search was limited", "It stopped at the largest number of variables allowed, not for want of others."
        )
    if result.status == "saturated":
        yield Caution(
            "The outcome is explained completely",
            "No further variable could add anything. With few rows and many variables this happens by chance; a "
            "variable that is the outcome in disguise does it, too.",
        )


def _separation(result: Result) -> Iterator[Caution]:
    if result.model is not None and result.model.separated:
        yield Caution(
            "The outcome is separated",
            f"The selected variables predict some rows without error: {views.infinite(result.model)}.",
        )


def _disguise(result: Result) -> Iterator[Caution]:
    """A variable that explains nearly everything by itself."""
    first = next((row for row in result.trace if row.action == "add"), None)
    model = result.model
    if first is None or first.statistic is None or model is None or result.settings.get("test") != "lr":
        return
    if result.family == "gaussian":
        share = -math.expm1(-first.statistic / result.n)
    elif result.family in ("binomial", "multinomial", "ordinal") and model.null_deviance > 0:
        share = first.statistic / model.null_deviance
    else:
        return
    if share >= _DISGUISED and result.n_forced == 0:
        yield Caution(
            "A variable may be the outcome in disguise",
            f"{first.variable} alone explains {100 * min(share, 1.0):.3g}% of the outcome. Was it measured after the "
            "outcome, or computed from it? Then leave it out by exclude.",
        )


def _events(result: Result) -> Iterator[Caution]:
    """Few rows, events or members of the rarer class for each candidate."""
    tested = result.candidates.row >= 0
    parameters = float(np.nansum(np.maximum(result.candidates.df[tested], 0.0)))
    effective, what = _effective(result)
    if parameters <= 0 or effective <= 0 or result.settings.get("test") not in ("lr", "score", "wald"):
        return
    share = effective / parameters
    told = f"There are {figure(share)} {what} for each coefficient that could be selected ({parameters:,.0f} in all)."
    if share < _TOO_FEW:
        yield Caution(
            "Few rows for so many candidates",
            f"{told} With fewer than {_TOO_FEW:g}, which variables are selected depends much on chance: be stricter "
            "(criterion='ebic'), leave out what cannot matter, and check the set on other rows.",
        )
    elif share < _ENOUGH and len(result.selected) > result.n_forced:
        yield Caution(
            "Effects are likely to be overstated",
            f"{told} With fewer than {_ENOUGH:g}, the coefficients of selected variables are too large on average: "
            "shrink them before predicting.",
        )


def _effective(result: Result) -> tuple[float, str]:
    outcome = None if result.overview is None else result.overview.outcome
    if outcome is not None and result.family == "binomial" and len(outcome.classes) == 2:
        return min(count for _, count in outcome.classes), "rows of the rarer class"
    if outcome is not None and outcome.events is not None:
        return outcome.events, "events"
    return result.n, "rows"


def _chance(result: Result) -> Iterator[Caution]:
    """Hundreds of candidates at a level that lets one in twenty pass."""
    found = re.search(r"LikelihoodRatio\(alpha=([\d.e-]+)", str(result.settings.get("criterion", "")))
    tested = int((result.candidates.row >= 0).sum())
    if found is None or tested * float(found[1]) < _BY_CHANCE:
        return
    alpha = float(found[1])
    yield Caution(
        "Many candidates at a lenient level",
        f"At alpha = {alpha:g} about {tested * alpha:,.0f} of {tested:,} columns of pure noise would pass the first "
        f"scan. criterion='ebic' or a level near {figure(1.0 / tested, 1)} lets about one pass.",
    )


def _assumptions(result: Result) -> Iterator[Caution]:
    if result.model is not None:
        for sentence in table.check_sentences(result.model):
            yield Caution("An assumption of the model does not hold", sentence[0].upper() + sentence[1:] + ".")


def _codes(result: Result) -> Iterator[Caution]:
    """Whole numbers with few values that may stand for categories."""
    if result.overview is None or result.family == "gsquare":
        return
    suspect = []
    for name, column in zip(result.selected, result.overview.columns, strict=False):
        values = column.values
        gaps = len(values) > 2 and values[-1] - values[0] > 2 * (len(values) - 1)
        if len(values) > 2 and (gaps or _CODED.search(str(name))):
            suspect.append(f"{name} ({', '.join(f'{v:g}' for v in values[:5])}{', …' if len(values) > 5 else ''})")
    if suspect:
        yield Caution(
            "Numbers that may be codes",
            f"{listed(suspect)} hold few whole numbers, and are treated as measurements: twice the number, twice the "
            "effect. If they are codes of categories, name them in categorical.",
        )


def _levels(result: Result) -> Iterator[Caution]:
    """Categories with more levels than the rows can bear."""
    if result.overview is None:
        return
    crowded = [
        f"{name} ({len(column.levels):,} levels)"
        for name, column in zip(result.selected, result.overview.columns, strict=False)
        if len(column.levels) * _LEVELS_EACH > result.n_rows
    ]
    if crowded:
        yield Caution(
            "More levels than the rows can bear",
            f"{listed(crowded)}: fewer than {_LEVELS_EACH} rows a level on average. Tests of such a column are rough "
            "and its coefficients noise; join rare levels, or replace the column by what is known about them.",
        )


def _collinearity(result: Result) -> Iterator[Caution]:
    if result.overview is None:
        return
    inflated = [
        f"{name} ({value:.3g})" if math.isfinite(value) else f"{name} (no bound)"
        for name, value in zip(result.selected, result.overview.inflation, strict=False)
        if value >= _INFLATED
    ]
    if inflated:
        yield Caution(
            "Selected variables are collinear",
            f"The others explain most of {listed(inflated)}; in brackets, how many times larger that makes the "
            "variance of the coefficient. Read these coefficients together, not one by one.",
        )
    pairs = [f"{a} and {b} ({r:.2f})" for a, b, r in correlated_pairs(result) if abs(r) >= _CORRELATED]
    if pairs:
        yield Caution("Selected variables are strongly correlated", f"Strongly correlated: {listed(pairs)}.")


def correlated_pairs(result: Result) -> list[tuple[Name, Name, float]]:
    """Pairs of selected variables with their correlation, strongest first."""
    if result.overview is None:
        return []
    matrix = result.overview.correlations
    pairs = [
        (result.selected[i], result.selected[j], matrix[i][j])
        for i in range(len(matrix))
        for j in range(i + 1, len(matrix))
    ]
    return sorted(pairs, key=lambda pair: -abs(pair[2]))


def _rare(result: Result) -> Iterator[Caution]:
    if result.overview is None:
        return
    rare = []
    for name, column in zip(result.selected, result.overview.columns, strict=True):
        rare += [f"{name} = {level} ({count:g} rows)" for level, count in column.levels if 0 < count < _RARE]
        if column.uncommon is not None and column.uncommon < _RARE:
            rare.append(f"{name} (all rows but {column.uncommon:g} have the same value)")
    if rare:
        yield Caution(
            "Rare values",
            f"A handful of rows decides about {listed(rare)}. Check that they are not mistakes.",
        )


def _notes(result: Result) -> Iterator[Caution]:
    for note in result.notes:
        yield Caution(
            "A note on the data", note[:1].upper() + note[1:] + ("" if note.endswith((".", "!", "?")) else ".")
        )


def listed(items: Sequence[str], most: int = 6) -> str:
    """The first few, with how many more there are."""
    shown = "; ".join(items[:most])
    return shown if len(items) <= most else f"{shown}; and {len(items) - most:,} more"
