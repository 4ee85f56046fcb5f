"""Tables as CSV, Markdown and HTML, our numbers next to the paper's."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments import analysis, paper
from experiments.data import PAPER, Dataset
from experiments.protocol import LASSO_FS

LEGEND = (
    "Here, then the paper's number in brackets. **Bold**: better than all other methods with probability .95 or more; "
    "*italic*: worse (of the paper's, the marks follow the number: b, i). † marks a difference from the paper whose "
    "p-value, by the sampling error of both means, is below .01."
)


class Table:
    """A title, a legend, column heads and rows of text in Markdown."""

    def __init__(self, title: str, legend: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self.title, self.legend, self.heads, self.rows = title, legend, list(heads), [list(row) for row in rows]

    def body(self) -> str:
        """The rows as GitHub shows them."""
        lines = [self.heads, ["---"] * len(self.heads), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def markdown(self) -> str:
        """Title, legend and rows."""
        return f"### {self.title}\n\n{self.legend}\n\n{self.body()}\n"

    def html(self) -> str:
        """As a fragment of a page."""
        head = "".join(f"<th>{html.escape(word)}</th>" for word in self.heads)
        body = "\n".join("<tr>" + "".join(f"<td>{_styled(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return (
            f"<h2>{html.escape(self.title)}</h2>\n<p>{_styled(self.legend)}</p>\n"
            f"<table>\n<tr>{head}</tr>\n{body}\n</table>\n"
        )


def _styled(text: str) -> str:
    """Bold and italic of Markdown as HTML."""
    parts = html.escape(text).split("**")
    text = "".join(f"<b>{part}</b>" if i % 2 else part for i, part in enumerate(parts))
    parts = text.split("*")
    return "".join(f"<i>{part}</i>" if i % 2 else part for i, part in enumerate(parts))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The paper's tables, computed again</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem; color: #1d1d1f; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; margin-bottom: 2.5rem; }}
th, td {{ padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: left; white-space: nowrap; }}
p {{ max-width: 60rem; }}
</style></head><body>
<h1>The paper's tables, computed again</h1>
{body}
</body></html>
"""


def write(tables: list[Table], folder: Path) -> None:
    """All tables in one Markdown and one HTML file."""
    text = "# The paper's tables, computed again\n\n" + "\n".join(table.markdown() for table in tables)
    (folder / "tables.md").write_text(text, encoding="utf-8")
    page = _PAGE.format(body="\n".join(table.html() for table in tables))
    (folder / "tables.html").write_text(page, encoding="utf-8")


def insert(tables: list[Table], file: Path) -> None:
    """Bring the tables of a document up to date, each between the comments `table: TITLE` and `end`."""
    text = file.read_text(encoding="utf-8")
    for table in tables:
        between = re.compile(rf"(<!-- table: {re.escape(table.title)} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = between.sub(lambda found, table=table: f"{found[1]}{table.body()}\n{found[2]}", text)  # type: ignore[misc]
    file.write_text(text, encoding="utf-8")


def datasets(present: list[Dataset]) -> Table:
    """The paper's table of datasets, with what is here."""
    here = {dataset.name: dataset for dataset in present}
    rows = [
        [
            name,
            f"{facts.n}",
            f"{facts.p}",
            f"{facts.share:.2f}",
            facts.kind,
            facts.domain,
            facts.source,
            _presence(here.get(name)),
        ]
        for name, facts in PAPER.items()
    ]
    heads = ["dataset", "n", "p", "P(T = 1)", "type", "domain", "source", "here"]
    legend = "The paper's table; the last column says what was found. Which label is called 1 makes no difference."
    return Table("Datasets", legend, heads, rows)


def _presence(dataset: Dataset | None) -> str:
    if dataset is None:
        return "absent"
    return "; ".join(dataset.remarks) or "n, p and class balance match"


def tuned(compared: pd.DataFrame, significance: pd.DataFrame, ranks: pd.DataFrame) -> list[Table]:
    """AUC, accuracy and number of variables after tuning."""
    compared = compared.merge(significance, on=["dataset", "metric", *analysis.METHOD])
    names = [name for name in paper.DATASETS if name in set(compared["dataset"])]
    theirs = paper.ranking(names)
    tables = []
    for metric, title in paper.METRICS.items():
        some = compared[compared["metric"] == metric]
        rows = []
        for (algorithm, criterion), group in some.groupby(analysis.METHOD, sort=False):
            by_name = group.set_index("dataset")
            key = (metric, algorithm, criterion)
            scores = [table.set_index(["metric", *analysis.METHOD]).loc[key] for table in (ranks, theirs)]
            rows.append(
                [
                    f"{algorithm} – {criterion}" if criterion else algorithm,
                    *(_tuned_cell(by_name.loc[name]) for name in names),
                    f"{scores[0]['score']:.2f} ({scores[1]['score']:.2f})",
                    f"{scores[0]['rank']:.0f} ({scores[1]['rank']:.0f})",
                ]
            )
        legend = f"{LEGEND} Score: average rank over these datasets."
        tables.append(Table(f"{title} after tuning", legend, ["method", *names, "score", "rank"], rows))
    return tables


def _tuned_cell(row: Any) -> str:
    number = f"{row['mean']:.1f}"
    number = f"**{number}**" if row["p_best"] >= analysis.SURE else number
    number = f"*{number}*" if row["p_worst"] >= analysis.SURE else number
    mark = {"best": "b", "worst": "i"}.get(row["mark"], "")
    return f"{number} ({row['paper']:.1f}{mark}){'†' if row['far'] else ''}"


def detail(compared: pd.DataFrame) -> list[Table]:
    """AUC, accuracy and number of variables of each hyper-parameter."""
    names = [name for name in paper.DATASETS if name in set(compared["dataset"])]
    tables = []
    for metric, title in paper.METRICS.items():
        some = compared[(compared["metric"] == metric) & (compared["algorithm"] != LASSO_FS)]
        rows = []
        for (criterion, value, algorithm), group in some.groupby(["criterion", "value", "algorithm"], sort=False):
            by_name = group.set_index("dataset")
            rows.append([_parameter(criterion, value), algorithm, *(_cell(by_name.loc[name]) for name in names)])
        legend = "Here ± standard error, the paper's number in brackets, † where they differ with p < .01."
        tables.append(Table(f"{title} by hyper-parameter", legend, ["parameter", "algorithm", *names], rows))
    return tables


def _parameter(criterion: str, value: str) -> str:
    return f"{'α' if criterion == 'IT' else 'γ'} = {value}" if criterion else f"{value} λ"


def _cell(row: Any) -> str:
    error = row["std"] / row["count"] ** 0.5
    return f"{row['mean']:.1f} ± {error:.1f} ({row['paper']:.1f}){'†' if row['far'] else ''}"


def timing(times: pd.DataFrame) -> Table:
    """Seconds of each selection on the complete data."""
    names = [name for name in paper.DATASETS if name in set(times["dataset"])]
    theirs = paper.numbers().query("metric == 'seconds'").drop(columns=["table", "metric", "mark"])
    both = analysis.expected_order(times.merge(theirs, on=["dataset", *analysis.CONFIGURATION], how="left"))
    rows = []
    for (criterion, value, algorithm), group in both.groupby(["criterion", "value", "algorithm"], sort=False):
        by_name = group.set_index("dataset")
        cells = [_seconds(by_name.loc[name]) if name in by_name.index else "" for name in names]
        rows.append([_parameter(criterion, value) if value else "all of these", algorithm, *cells])
    legend = (
        "Processor seconds of a single run on the complete data, the paper's seconds in brackets. `fbed.path` computes "
        "the 32 configurations above it together; LASSO-FS is glmnet."
    )
    return Table("Running time", legend, ["parameter", "algorithm", *names], rows)


def _seconds(row: Any) -> str:
    paper_seconds = "" if pd.isna(row["paper"]) else f" ({row['paper']:.1f})"
    return f"{row['cpu']:.2f}{paper_seconds}"


def plain(title: str, legend: str, table: pd.DataFrame, form: str = ".2f") -> Table:
    """Any data frame."""
    rows = [[f"{cell:{form}}" if isinstance(cell, float) else str(cell) for cell in row] for row in table.to_numpy()]
    return Table(title, legend, [str(column) for column in table.columns], rows)
