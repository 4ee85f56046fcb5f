"""The final model as a table: for programs, the terminal, Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from fbed.errors import InvalidInput
from fbed.models.base import MAXIMUM_LIKELIHOOD
from fbed.result.figures import figure
from fbed.result.figures import ratio as ratio_figure
from fbed.result.fitted.columns import Column
from fbed.rules.p_values import ChiSquare

if TYPE_CHECKING:
    from fbed.result.fitted.model import FinalModel

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
    outcome: Any = None
    for j in range(where.n_predictors if model.columns or not where.n_terms else 0):
        outcome = model.classes[j + 1] if where.n_predictors > 1 else None
        suffix = f" → {outcome}" if outcome is not None else ""
        if where.intercept and at < len(model.terms):
            yield _row(model.terms[at], at, outcome)
            at += 1
        for column in model.columns:
            if column.levels:
                yield _row(f"{column.name}[{column.levels[0]}]{suffix}", None, outcome, column, column.levels[0])
            levels: Sequence[Any] = column.levels[1:] or (None,) * len(column.terms)
            for level, scale in zip(levels, column.scales, strict=True):
                yield _row(model.terms[at], at, outcome, column, level, scale)
                at += 1
    for i in range(at, len(model.terms)):
        yield _row(model.terms[i], i)


def _row(
    term: str,
    place: int | None,
    outcome: Any = None,
    column: Column | None = None,
    level: Any = None,
    scale: float = 1.0,
) -> dict[str, Any]:
    variable, name = (None, None) if column is None else (column.variable, column.name)
    return {
        "term": term,
        "place": place,
        "class": outcome,
        "variable": variable,
        "column": name,
        "level": level,
        "sd": scale,
    }


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
        ("estimated by", "" if model.estimation == MAXIMUM_LIKELIHOOD else model.estimation),
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
                f"the counts vary {figure(check.ratio)} times as much as the model has it (Pearson's χ² over its "
                "degrees of freedom): standard errors and p-values are far too small, and too much is selected; "
                + ("family 'negative_binomial' allows for it" if model.family == "poisson" else "use cov='cluster'")
            )
    tested = [check for check in model.checks if check.assumption == "proportional hazards"]
    doubtful = [c for c in tested if c.p_value < 0.05 / max(1, len(tested))]
    if doubtful:
        names = ", ".join(f"{c.term} (p = {figure(c.p_value)})" for c in doubtful[:5])
        out.append(
            f"hazards do not seem proportional: the effect of {names}{' and others' if len(doubtful) > 5 else ''} "
            "changes with time (Grambsch and Therneau's test); its hazard ratio is an average over time"
        )
    return out


def cells(model: FinalModel, level: float = 0.95) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of text, as documents show them."""
    ratio = ratio_name(model)
    heads = ["term", "coefficient", "std. error", "t" if model.family == "gaussian" else "z", "p (naive)"]
    heads += ([ratio] if ratio else []) + [f"{100 * level:g}% interval"]
    return heads, [[row["term"], *_figures(row, ratio)] for row in rows(model, level)]


def _figures(row: dict[str, Any], ratio: str | None) -> list[str]:
    """What stands behind the name of a term."""
    if row["reference"]:
        return ["reference", *[""] * (5 if ratio else 4)]
    shown = [figure(row["coefficient"], 4), figure(row["std_error"]), figure(row["z"]), figure(row["p_value"])]
    if not ratio:
        return [*shown, interval(row["low"], row["high"])]
    return [*shown, *ratios(row["ratio"], row["ratio_low"], row["ratio_high"])]


def ratios(value: float, low: float, high: float) -> tuple[str, str]:
    """A ratio and its interval; next to 1 by what they differ from it."""
    shown = ratio_figure if 0.99 < value < 1.01 else figure
    ends = "" if math.isnan(low) or math.isnan(high) else f"{shown(low)} to {shown(high)}"
    return shown(value), ends


def interval(low: float, high: float, digits: int = 3) -> str:
    """Two numbers with 'to' between them."""
    return "" if math.isnan(low) or math.isnan(high) else f"{figure(low, digits)} to {figure(high, digits)}"


def lines(model: FinalModel, most: int = 10**9, indent: int = 0) -> list[str]:
    """The table for a terminal of 80 columns: levels under the name of their column, which says the reference."""
    from fbed.show.text import table

    ratio = ratio_name(model)
    # where there are ratios with intervals, names need the room of the standard errors more
    heads = ["", "coef.", *(["p (naive)", ratio] if ratio else ["std. err.", "p (naive)"]), "95% interval"]
    body: list[list[str]] = []
    titles: dict[int, list[str]] = {}  # lines that stand before a row, across all columns
    block: Any = None
    for row in rows(model)[:most]:
        if row["class"] is not None and row["class"] != block:
            block = row["class"]
            titles.setdefault(len(body), []).append(f"{block}, against {model.classes[0]}:")
        if row["reference"]:
            titles.setdefault(len(body), []).append(f"{row['column']}, against {row['level']}:")
            continue
        name = row["term"] if row["class"] is None else row["term"].rpartition(" → ")[0]
        name = name if row["level"] is None else f"  {row['level']}"
        coefficient, error, _, *rest = _figures(row, ratio)
        body.append([name, coefficient, *([] if ratio else [error]), *rest])
    if not body:
        return []
    first, *rest_of = table([heads, *body], "<" + ">" * (len(heads) - 1), name_column=0, indent=indent)
    out = [first]
    for i, line in enumerate(rest_of):
        out += [" " * indent + title for title in titles.get(i, ())]
        out.append(line)
    return out


def as_text(model: FinalModel) -> str:
    """Within 80 columns."""
    from fbed.show.text import paragraph

    out = lines(model) or ["no coefficients"]
    facts = [f"{name} {value}" for name, value in fit_facts(model)]
    out += ["", *paragraph("; ".join(facts))] if facts else []
    for sentence in [*check_sentences(model), _NAIVE]:
        out += paragraph(sentence)
    return "\n".join(out)


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
