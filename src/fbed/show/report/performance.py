"""What predictions are worth: honest scores, curves, the choice among configurations, and how stable it was."""

from __future__ import annotations

import math

from fbed.result.performance import Calibration, Estimate, Honest, Performance, Point
from fbed.result.result import Result
from fbed.show.performance import LOSSES, NAMES, setting_words, signed
from fbed.show.report import charts, curves
from fbed.show.report.cells import number, paragraph, section
from fbed.show.report.html import Cell, Head, Html, table, tag
from fbed.show.text import shortened

_MOST_BARS = 30
_MOST_ROWS = 200
_EVENTS = ("cox", "weibull")
_SQUARED = ("gaussian", "mixed")  # whose deviance is the squared error


def performance(result: Result) -> Html | None:
    """The chapter, where settings were chosen by cross-validation."""
    told = result.performance
    if told is None:
        return None
    return section(
        "performance",
        "Performance",
        paragraph(_opening(told)),
        _scores(told),
        tag("div", _sizes(told), _roc(told), _calibration(told), _stability(result, told), class_="charts"),
        _areas(told),
        _configurations(told),
    )


def _opening(told: Performance) -> str:
    point = told.points[told.chosen]
    chosen = setting_words(point.algorithm, point.criterion, point.parameter, point.penalty)
    rule = (
        "the best out-of-fold score"
        if told.rule == "min"
        else "the fewest variables within a standard error of the best out-of-fold score"
    )
    by = "deviance" if told.selected_by == "deviance" else told.selected_by
    return (
        f"{chosen} was chosen among {len(told.points):,} configurations by {rule} ({by}), in {told.n_folds} folds. The "
        f"final model was estimated by {told.estimation}. Every figure in this chapter is of rows that the model which "
        "predicted them had not seen."
    )


def _scores(told: Performance) -> Html:
    heads = [Head("score"), Head("honest", True), Head("95% interval", True), Head("naive", True)]
    caption = (
        f"Honest: BBC-CV with {told.n_bootstraps:,} bootstrap samples, which repeats the choice of the configuration. "
        "Naive: the cross-validated score of the chosen configuration, which is partly luck."
    )
    return table(caption, heads, [_score_row(score) for score in told.scores], sortable=False)


def _score_row(score: Honest) -> list[object]:
    value, low, high, naive = (text.replace("-", "−") for text in signed(score))
    name = NAMES.get(score.name, score.name.replace("_", " "))
    less = " (less is better)" if score.name in LOSSES else ""
    return [f"{name}{less}", Cell(value, score.value), Cell(f"{low} to {high}"), Cell(naive, score.naive)]


def _by_what(told: Performance) -> str:
    """The score by which the configuration was chosen, as it is shown."""
    if told.selected_by == "deviance" and told.family in _SQUARED:
        return "−root mean squared error"
    return NAMES.get(told.selected_by, told.selected_by)


def _readable(told: Performance, point: Point) -> tuple[float, float]:
    """Score and standard error of a configuration; squared errors in the unit of the outcome."""
    if told.selected_by != "deviance" or told.family not in _SQUARED or not point.score < 0:
        return point.score, point.error
    root = math.sqrt(-point.score)
    return -root, 0.5 * point.error / root


def _sizes(told: Performance) -> Html:
    score = _by_what(told)
    points = [
        (p.n_selected, *_readable(told, p), setting_words(p.algorithm, p.criterion, p.parameter, p.penalty))
        for p in told.points
    ]
    size, value, _, name = points[told.chosen]
    said = f"{len(points)} configurations; chosen: {name}, {size:.1f} variables, score {number(value)}"
    caption = (
        "Every configuration by its number of variables and its out-of-fold score, higher is better. The filled point "
        "was chosen; its line is one standard error each way."
    )
    return curves.sizes("sizes", points, told.chosen, score, said, caption)


def _roc(told: Performance) -> Html | None:
    if not told.roc:
        return None
    area = next((s for s in told.scores if s.name == "roc_auc"), None)
    said = "" if area is None else f"area {number(area.value)}, 95% interval {number(area.low)} to {number(area.high)}"
    caption = f"ROC curve of the out-of-fold predictions{f': {said}' if said else ''}. The dashed line: no information."
    return curves.roc("roc", told.roc, said or "ROC curve", caption)


def _calibration(told: Performance) -> Html | None:
    calibration = told.calibration
    if calibration is None or not calibration.bins:
        return None
    bins = [(b.predicted, b.observed, b.low, b.high, b.n) for b in calibration.bins]
    what = "probability" if told.family == "binomial" else "mean"
    if told.family in _EVENTS:
        what = f"probability of an event up to {number(told.horizon)}"
    said = calibration_words(calibration)
    caption = f"Observed against predicted {what}, rows in groups of similar predictions, with 95% intervals. {said}"
    titles = (f"predicted {what}", "observed")
    return curves.calibration("calibration", bins, titles, said or "observed by predicted", caption)


def calibration_words(calibration: Calibration) -> str:
    """Slope and intercept in a sentence."""
    if calibration.slope is None:
        return ""
    said = f"Slope {_between(calibration.slope)}"
    if calibration.intercept is not None:
        said += f", intercept {_between(calibration.intercept)}"
    return f"{said}; 1 and 0 are perfect, a slope below 1 says that predictions are too extreme."


def _between(estimate: Estimate) -> str:
    return f"{number(estimate.value)} ({number(estimate.low)} to {number(estimate.high)})"


def _areas(told: Performance) -> Html | None:
    if not told.areas:
        return None
    heads = [Head("time"), Head("area under the ROC curve", True), Head("95% interval", True)]
    rows = [
        [number(a.time), Cell(number(a.area.value), a.area.value), f"{number(a.area.low)} to {number(a.area.high)}"]
        for a in told.areas
    ]
    caption = "Who has the event up to a time, against who is still without it then (Uno's weights for censoring)."
    return table(caption, heads, rows, sortable=False)


def _stability(result: Result, told: Performance) -> Html | None:
    if not told.variables:
        return None
    rows = [(name, share * told.n_folds) for name, share in told.variables[:_MOST_BARS]]
    kept = {str(name) for name in result.selected}
    left = f" The first {_MOST_BARS} of {len(told.variables):,}." if len(told.variables) > _MOST_BARS else ""
    shared = sum(1 for name, share in told.variables if share == 1.0)
    caption = (
        f"How stable the choice was: in how many of {told.n_folds} folds each variable was selected by the chosen "
        f"configuration (● on all rows, too).{left} {shared} came in all folds, which had {told.n_sets} different sets."
    )
    marked = [(f"{shortened(name, 15)} ●" if name in kept else name, count) for name, count in rows]
    said = "; ".join(f"{name} {count:g}" for name, count in rows[:10])
    return charts.counts("stability", marked, "Folds in which each variable came", said, caption, told.n_folds)


def _configurations(told: Performance) -> Html:
    heads = [Head("algorithm"), Head("criterion"), Head("parameter", True)]
    penalised = any(p.penalty is not None for p in told.points)
    heads += [Head("penalty λ", True)] if penalised else []
    heads += [Head("variables", True), Head("score", True), Head("std. error", True), Head("chosen in samples", True)]
    rows = []
    for i, p in enumerate(told.points[:_MOST_ROWS]):
        name = tag("strong", f"{p.algorithm} (chosen)") if i == told.chosen else p.algorithm
        parameter = "default" if p.parameter is None else f"{p.parameter:g}"
        rows.append(
            [
                Cell(name),
                p.criterion.upper() if p.criterion == "ebic" else "level α",
                Cell(parameter, p.parameter),
                *([Cell(number(p.penalty), p.penalty)] if penalised else []),
                Cell(f"{p.n_selected:.1f}", p.n_selected),
                *(Cell(number(value, digits), value) for value, digits in zip(_readable(told, p), (4, 3), strict=True)),
                Cell(f"{p.chosen_share:.0%}", p.chosen_share),
            ]
        )
    more = f" The first {_MOST_ROWS} of {len(told.points):,}." if len(told.points) > _MOST_ROWS else ""
    caption = f"Score: {_by_what(told)}, out of fold; higher is better.{more}"
    return tag("details", tag("summary", "All configurations"), table(caption, heads, rows))
