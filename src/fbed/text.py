"""A result as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fbed.search import STATUSES

if TYPE_CHECKING:
    from fbed.families.base import FittedModel
    from fbed.result import Result, TraceRow

_NAME_WIDTH = 24


def summary(result: Result) -> str:
    """Settings, steps, final model and what to keep in mind, within 80 columns."""
    if result.model is None:
        return "\n".join([*_head(result), "", *_steps(result)])
    return "\n".join([*_head(result), "", *_steps(result), "", *_model(result.model), "", *_foot(result)])


def _head(result: Result) -> list[str]:
    outcome = f"{result.family}" + (f", modelling {result.classes[-1]!r}" if result.classes else "")
    rows = f"{result.n_rows:,} rows" + (f" (total weight {result.n:,g})" if result.n != result.n_rows else "")
    rows = rows if result.model else "a graph, no data"
    algorithm = str(result.settings.get("algorithm", "FBED"))
    return [
        f"{algorithm} selected {_plural(len(result.selected), 'variable')} of {result.n_variables:,}",
        f"  outcome    {outcome}; {rows}",
        f"  criterion  {result.criterion}",
        f"  tests      {result.n_tests.total:,} ({result.n_tests.forward:,} forward, "
        f"{result.n_tests.backward:,} backward) in {result.seconds:.3g} s",
        f"  status     {result.status}: {STATUSES[result.status]}",
    ]


def _steps(result: Result) -> list[str]:
    head = f"{'phase':<8} {'run':>3}  {'action':<6} {'variable':<{_NAME_WIDTH}} {'statistic':>10} {'p-value':>9} "
    lines = [head + f"{'tested':>7} {'dropped':>7}"]
    return lines + [_step(row) for row in result.trace]


def _step(row: TraceRow) -> str:
    run = "" if row.run is None else str(row.run)
    name = "" if row.variable is None else shortened(str(row.variable), _NAME_WIDTH)
    numbers = f"{'':>10} {'':>9}"
    if row.statistic is not None and row.log_p is not None:
        numbers = f"{row.statistic:>10.4g} {p_value(row.log_p):>9}"
    return (
        f"{row.phase:<8} {run:>3}  {row.action:<6} {name:<{_NAME_WIDTH}} {numbers} {row.tested:>7,} {row.n_dropped:>7,}"
    )


def _model(model: FittedModel) -> list[str]:
    explained = f"deviance {model.deviance:.6g} of {model.null_deviance:.6g}"
    lines = [
        f"final model ({explained}):",
        f"  {'term':<{_NAME_WIDTH}} {'coefficient':>12} {'std. error':>12}",
    ]
    errors = model.standard_errors or (None,) * len(model.terms)
    for term, coefficient, error in zip(model.terms, model.coefficients, errors, strict=True):
        shown = "" if error is None else f"{error:.4g}"
        lines.append(f"  {shortened(term, _NAME_WIDTH):<{_NAME_WIDTH}} {coefficient:>12.4g} {shown:>12}")
    if model.separated:
        lines.append("  the outcome is separated: the coefficients are infinite, only their direction has meaning")
    return lines


def _foot(result: Result) -> list[str]:
    lines = [f"note: {note}" for note in result.notes]
    if len(result.selected) > result.n_forced:
        lines.append("p-values and standard errors are naive: they ignore that the variables were selected.")
    return lines


def p_value(log_p: float) -> str:
    """A p-value that does not underflow: 3.2e-1085 is written from its logarithm."""
    if log_p > -600 or log_p == -np.inf:
        return f"{np.exp(log_p):.3g}"
    exponent = np.floor(log_p / np.log(10))
    return f"{np.exp(log_p - exponent * np.log(10)):.1f}e{int(exponent)}"


def shortened(name: str, width: int) -> str:
    """The name, cut in the middle when it is too long: its end often tells it apart."""
    name = "".join(ch if ch.isprintable() else "�" for ch in name)
    if len(name) <= width:
        return name
    half = (width - 1) // 2
    return name[: width - 1 - half] + "…" + name[-half:]


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
