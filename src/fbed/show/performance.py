"""Performance as text for a terminal of 80 columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fbed.result.figures import figure
from fbed.result.performance import AtTime, Calibration, Estimate, Honest, Performance, Validation
from fbed.show.text import paragraph, table

LOSSES = {
    "neg_log_loss": "log loss",
    "neg_brier_score": "Brier score",
    "neg_mean_squared_error": "root mean squared error",  # in the unit of the outcome
    "neg_mean_absolute_error": "mean absolute error",
}
"""Scores that are shown without their sign: less is better."""

NAMES = {
    "roc_auc": "area under the ROC curve",
    "accuracy": "classified rightly",
    "d2": "deviance explained",
    "scaled_brier_score": "scaled Brier score",
    "r2": "R²",
    "c_index": "concordance index",
    "deviance": "−deviance, a row or event",
    **LOSSES,
}


def performance_text(told: Performance) -> str:
    """What was chosen, what it is worth, how stable it was."""
    point = told.points[told.chosen]
    chosen = setting_words(point.algorithm, point.criterion, point.parameter, point.penalty)
    rule = "least" if told.rule == "min" else "fewest variables within a standard error of the least"
    by = "out-of-fold deviance" if told.selected_by == "deviance" else f"minus {told.selected_by}"
    lines = ["performance, out of fold", ""]
    lines += paragraph(
        f"{chosen} was chosen of {len(told.points)} configurations in {told.n_folds} folds: {rule} {by}."
    )
    lines += ["", *score_lines(told.scores, naive=True), ""]
    lines += paragraph(
        f"BBC-CV, {told.n_bootstraps} samples: what the whole procedure is worth on new rows, the choice included. "
        "'Naive' is the cross-validated score of what was chosen, which is partly luck."
    )
    lines += calibration_lines(told.calibration) + area_lines(told.areas)
    often = [f"{name} ({share:.0%})" for name, share in told.variables[:12]]
    if often:
        more = len(told.variables) - len(often)
        listed = ", ".join(often) + (f" and {more} more" if more > 0 else "")
        lines += paragraph(f"In the folds came: {listed}; {told.n_sets} different sets in {told.n_folds} folds.")
    return "\n".join(lines)


def validation_text(told: Validation) -> str:
    """Scores and calibration of a model on new rows."""
    without = f"; {told.n_without:,} rows got no prediction" if told.n_without else ""
    lines = [f"validation on {told.n_rows:,} rows{without}", "", *score_lines(told.scores, naive=False), ""]
    return "\n".join(lines + calibration_lines(told.calibration) + area_lines(told.areas)).rstrip()


def setting_words(algorithm: str, criterion: str, parameter: float | None, penalty: float | None) -> str:
    """A configuration in words."""
    if criterion == "ebic":
        asked = "EBIC" + ("" if parameter is None else f" with γ = {parameter:g}")
    else:
        asked = f"α = {parameter:g}"
    return f"{algorithm} by {asked}" + ("" if penalty is None else f" and λ = {figure(penalty)}")


def score_lines(scores: Sequence[Honest], naive: bool) -> list[str]:
    """A table of scores."""
    heads = ["", "estimate", "95% interval", *(["naive"] if naive else [])]
    rows = []
    for score in scores:
        value, low, high, plain = signed(score)
        rows.append([NAMES.get(score.name, score.name), value, f"{low} to {high}", *([plain] if naive else [])])
    return table([heads, *rows], "<>>>" if naive else "<>>", name_column=0)


def signed(score: Honest) -> tuple[str, str, str, str]:
    """Figures of a score; losses without their sign, the smaller end of the interval first."""
    values: tuple[float, ...] = (score.value, score.low, score.high, score.naive)
    if score.name in LOSSES:
        values = (-score.value, -score.high, -score.low, -score.naive)
    if score.name == "neg_mean_squared_error":
        values = tuple(math.sqrt(v) if v >= 0 else v for v in values)  # NaN stays what it is
    value, low, high, naive = (figure(v) for v in values)
    return value, low, high, naive


def calibration_lines(calibration: Calibration | None) -> list[str]:
    """Slope and intercept."""
    if calibration is None or calibration.slope is None:
        return []
    said = f"Calibration slope {between(calibration.slope)}"
    if calibration.intercept is not None:
        said += f", intercept {between(calibration.intercept)}"
    return paragraph(f"{said}; 1 and 0 are perfect.")


def area_lines(areas: Sequence[AtTime]) -> list[str]:
    """Areas under the ROC curve at times."""
    if not areas:
        return []
    listed = "; ".join(f"{between(a.area)} at {figure(a.time)}" for a in areas)
    return paragraph(f"Area under the ROC curve at times: {listed}.")


def between(estimate: Estimate) -> str:
    """A value with its interval."""
    return f"{figure(estimate.value)} ({figure(estimate.low)} to {figure(estimate.high)})"
