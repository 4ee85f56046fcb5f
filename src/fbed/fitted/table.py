"""The final model as a table: for programs, the terminal, Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from fbed.errors import InvalidInput
from fbed.figures import figure
from fbed.figures import ratio as ratio_figure
from fbed.fitted.columns import Column
from fbed.tails import ChiSquare

if TYPE_CHECKING:
    from fbed.fitted.model import FinalModel

RATIOS = {  # what exp(coefficient) is, where it has a name
    "binomial": "odds ratio",
    "ordinal": "odds ratio",
    "multinomial": "odds ratio",
    "cox": "hazard ratio",
    "poisson": "rate ratio",
    "negative_binomial": "rate ratio",
    "gamma": "ratio of means",
    "weibull": "time ratio",
}
_GEE = {"logit": "odds ratio", "log": "rate ratio"}
_NAIVE = "p-values, standard errors and intervals are naive: they ignore the selection."
_NOT_RATIOS = ("(intercept)",)


def ratio_name(model: FinalModel) -> str | None:
    """What exp(coefficient) is called, or None where it has no meaning."""
    if model.family == "gee":
        return _GEE.get(model.link)
    return None if model.link == "probit" else RATIOS.get(model.family)


def rows(model: FinalModel, level: float = 0.95) -> list[dict[str, Any]]:
    """A row a term, each category with its reference level first."""
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"level must be between 0 and 1, such as 0.95, got {level!r}")
    return [_filled(model, row, half_width(model, level)) for row in _skeleton(model)]


def _skeleton(model: FinalModel) -> Iterator[dict[str, Any]]:
    """Terms in the model's order, with where their coefficients are (None for a reference level)."""
    where, at = model.layout, 0
    for j in range(where.n_predictors if model.columns or not where.n_terms else 0):
        suffix = f" → {model.classes[j + 1]}" if where.n_predictors > 1 else ""
        if where.intercept and at < len(model.terms):
            yield _row(model.terms[at], at)
            at += 1
        for column in model.columns:
            if column.levels:
                yield _row(f"{column.name}[{column.levels[0]}]{suffix}", None, column, column.levels[0])
            levels: Sequence[Any] = column.levels[1:] or (None,) * len(column.terms)
            for level, scale in zip(levels, column.scales, strict=True):
                yield _row(model.terms[at], at, column, level, scale)
                at += 1
    for i in range(at, len(model.terms)):
        yield _row(model.terms[i], i)


def _row(
    term: str, place: int | None, column: Column | None = None, level: Any = None, scale: float = 1.0
) -> dict[str, Any]:
    variable = None if column is None else column.variable
    return {"term": term, "place": place, "variable": variable, "level": level, "sd": scale}


def _filled(model: FinalModel, row: dict[str, Any], half: float) -> dict[str, Any]:
    place = row.pop("place")
    reference = place is None
    value = 0.0 if place is None else model.coefficients[place]
    error = math.nan if reference or model.standard_errors is None else model.standard_errors[place]
    known = math.isfinite(error) and error > 0 and math.isfinite(value)
    low, high = (value + sign * half * error if known else math.nan for sign in (-1.0, 1.0))
    z = value / error if known else math.nan
    is_effect = row["variable"] is not None
    ratio = is_effect and ratio_name(model) is not None
    sd = row["sd"]
    return {
        **row,
        "reference": reference,
        "coefficient": value,
        "std_error": error,
        "z": z,
        "p_value": math.exp(log_p(model, z)) if known else math.nan,
        "low": low,
        "high": high,
        "ratio": _exp(value) if ratio else math.nan,
        "ratio_low": _exp(low) if ratio else math.nan,
        "ratio_high": _exp(high) if ratio else math.nan,
        "per_sd": (_exp(value * sd) if ratio else value * sd) if is_effect else math.nan,
        "per_sd_low": (_exp(low * sd) if ratio else low * sd) if is_effect else math.nan,
        "per_sd_high": (_exp(high * sd) if ratio else high * sd) if is_effect else math.nan,
        "vif": model.inflation.get(str(row["variable"]), math.nan) if is_effect else math.nan,
    }


def half_width(model: FinalModel, level: float = 0.95) -> float:
    """Of an interval, in standard errors: Student's t for the linear model."""
    upper = 0.5 + level / 2.0
    if model.family == "gaussian" and model.df_residual > 0:
        return float(special.stdtrit(model.df_residual, upper))
    return float(special.ndtri(upper))


def log_p(model: FinalModel, z: float) -> float:
    """Log p-value of z, or of t for the linear model."""
    if model.family == "gaussian" and model.df_residual > 0:
        return float(np.log(np.maximum(2.0 * special.stdtr(model.df_residual, -abs(z)), 1e-300)))
    return float(ChiSquare().log_sf(np.array([z * z]), np.ones(1))[0])


def _exp(value: float) -> float:
    return math.nan if math.isnan(value) else math.exp(min(value, 700.0)) if value < 700 else math.inf


# -- for people ------------------------------------------------------------------------------------------------------


def fit_facts(model: FinalModel) -> list[tuple[str, str]]:
    """How well the model fits, a name and a figure each."""
    r2 = model.r_squared
    facts = [
        ("log-likelihood", figure(model.log_likelihood, 6)),
        ("without variables", figure(model.null_log_likelihood, 6)),
        ("AIC", figure(model.aic, 6)),
        ("BIC", figure(model.bic, 6)),
        ("" if r2 is None else r2[0], "" if r2 is None else figure(r2[1], 3)),
    ]
    return [(name, value) for name, value in facts if value]


def check_sentences(model: FinalModel) -> list[str]:
    """What the checks of the model found, where it matters."""
    out = []
    for check in model.checks:
        if check.ratio is not None and check.ratio > 1.0 and check.p_value < 0.01:
            out.append(
                f"the counts vary {figure(check.ratio)} times as much as the model has it (Pearson's χ² over its degrees "
                "of freedom): standard errors and p-values are far too small, and too much is selected; "
                + ("family 'negative_binomial' allows for it" if model.family == "poisson" else "use cov='cluster'")
            )
    tested = [check for check in model.checks if check.assumption == "proportional hazards"]
    doubtful = [c for c in tested if c.p_value < 0.05 / max(1, len(tested))]
    if doubtful:
        names = ", ".join(f"{c.term} (p = {figure(c.p_value)})" for c in doubtful[:5])
        out.append(
            f"hazards do not seem proportional: the effect of {names}{' and others' if len(doubtful) > 5 else ''} changes "
            "with time (Grambsch and Therneau's test); its hazard ratio is an average over time"
        )
    return out


def cells(model: FinalModel, level: float = 0.95, narrow: bool = False) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of text, as the table is printed; a narrow one leaves the statistic out."""
    ratio = ratio_name(model)
    percent = f"{100 * level:g}%"
    heads = ["term", "coef.", "std. err.", "z" if model.family != "gaussian" else "t", "p (naive)"]
    heads += [ratio, f"{percent} interval"] if ratio else [f"{percent} interval"]
    out = []
    for row in rows(model, level):
        if row["reference"]:
            out.append([row["term"], "reference", *[""] * (len(heads) - 2)])
            continue
        shown = [row["term"], figure(row["coefficient"], 4), figure(row["std_error"]), figure(row["z"]), ""]
        shown[4] = figure(row["p_value"]) if not math.isnan(row["p_value"]) else ""
        if ratio:
            ends = row["ratio_low"], row["ratio_high"]
            shown += [ratio_figure(row["ratio"]), "" if math.isnan(ends[0]) else " to ".join(map(ratio_figure, ends))]
        else:
            shown += [interval(row["low"], row["high"])]
        out.append(shown)
    if narrow:
        return [*heads[:3], *heads[4:]], [[*row[:3], *row[4:]] for row in out]
    return heads, out


def interval(low: float, high: float, digits: int = 3) -> str:
    """Two numbers with 'to' between them."""
    return "" if math.isnan(low) or math.isnan(high) else f"{figure(low, digits)} to {figure(high, digits)}"


def as_text(model: FinalModel) -> str:
    """Within 80 columns."""
    from fbed.text import paragraph, table

    heads, body = cells(model, narrow=True)
    lines = table([heads, *body], "<" + ">" * (len(heads) - 1), name_column=0) if body else ["no coefficients"]
    facts = [f"{name} {value}" for name, value in fit_facts(model)]
    lines += ["", *paragraph("; ".join(facts))] if facts else []
    for sentence in [*check_sentences(model), _NAIVE]:
        lines += paragraph(sentence)
    return "\n".join(lines)


def as_markdown(model: FinalModel, level: float) -> str:
    """A table of Markdown, numbers to the right."""
    heads, body = cells(model, level)
    escaped = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in [heads, *body]]
    rule = "|---" + "|--:" * (len(heads) - 1) + "|"
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    return "\n".join([lines[0], rule, *lines[1:], "", f"{_facts_line(model)}{_NAIVE}", ""])


_LATEX = {
    "\\": r"\textbackslash{}",
    **{ch: f"\\{ch}" for ch in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "→": r"$\to$",
    "²": r"\textsuperscript{2}",
}


def as_latex(model: FinalModel, level: float) -> str:
    """A tabular environment."""
    heads, body = cells(model, level)
    escaped = [["".join(_LATEX.get(ch, ch) for ch in cell) for cell in row] for row in [heads, *body]]
    lines = [" & ".join(row) + r" \\" for row in escaped]
    note = "".join(_LATEX.get(ch, ch) for ch in f"{_facts_line(model)}{_NAIVE}")
    start = rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}"
    return "\n".join([start, r"\hline", lines[0], r"\hline", *lines[1:], r"\hline", r"\end{tabular}", f"% {note}", ""])


def as_html(model: FinalModel, level: float) -> str:
    """A table without a style of its own."""
    heads, body = cells(model, level)
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in heads)
    lines = []
    for first, *rest in body:
        numbers = "".join(f'<td style="text-align:right">{html.escape(cell)}</td>' for cell in rest)
        lines.append(f'<tr><th scope="row" style="text-align:left">{html.escape(first)}</th>{numbers}</tr>')
    caption = f"<caption>{html.escape(_facts_line(model) + _NAIVE)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _facts_line(model: FinalModel) -> str:
    facts = "; ".join(f"{name} {value}" for name, value in fit_facts(model))
    return f"{facts}. " if facts else ""
