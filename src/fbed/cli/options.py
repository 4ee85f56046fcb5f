"""Options of commands that read a table; `arguments.py` has what is made of the answers."""

from __future__ import annotations

import argparse
import math
import re

from fbed.families import FAMILIES
from fbed.tables import readers

EXTRAS = {
    "offset": "known part of the linear predictor",
    "exposure": "size or duration that counts refer to",
    "trials": "number of trials, when the target counts successes",
    "strata": "strata of survival times",
    "entry": "when a row came under observation",
    "cluster": "subject or unit that rows belong to",
}
_LISTS = {
    "include": "force into the model (a column or group)",
    "exclude": "do not consider (a column or group)",
    "categorical": "numbers that are codes of categories",
}
_FAMILYWISE = "probability that anything is selected when nothing matters; sets alpha"


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where the search is."""
    parser.add_argument("--device", metavar="NAME", help="search on a GPU: cuda, or cuda:1 (needs PyTorch)")


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Options about the data and the model, for commands that read a table; `asked.about_data` has the answers."""
    data = parser.add_argument_group("data")
    data.add_argument("file", help=f"a table: {readers.FORMATS}; '-' reads CSV from standard input")
    data.add_argument("--pheno", metavar="FILE", help="phenotypes and covariates, with a column IID, of genotypes")
    data.add_argument("--target", metavar="COLUMN", help="the outcome")
    data.add_argument("--time", metavar="COLUMN", help="survival times, instead of --target")
    data.add_argument("--event", metavar="COLUMN", help="1 or true where --time ends with the event, 0 or false if not")
    data.add_argument("--weights", metavar="COLUMN", help="frequencies: weight 2 is the row twice")
    for name, meaning in EXTRAS.items():
        data.add_argument(f"--{name}", metavar="COLUMN", help=meaning)
    data.add_argument("--sep", metavar="CHAR", help="separator of a text file (default: ',' or, for .tsv, a tab)")
    data.add_argument("--decimal", metavar="CHAR", help="decimal point of a text file (default: '.')")
    data.add_argument("--encoding", metavar="NAME", help="of a text file, such as latin-1 (default: utf-8)")
    data.add_argument(
        "--na-values",
        nargs="+",
        action="extend",
        metavar="WORD",
        help="words that mean 'missing', instead of the usual ones; '' is an empty cell",
    )
    data.add_argument(
        "--reference",
        action="append",
        default=[],
        type=_level_of,
        metavar="COLUMN=LEVEL",
        help="the level that others of a categorical column are compared with (repeatable; default: the first)",
    )
    data.add_argument("--positive", metavar="CLASS", help="which of two classes is modelled (default: the last)")
    for name, meaning in _LISTS.items():
        data.add_argument(f"--{name}", nargs="+", action="extend", default=[], metavar="COLUMN", help=meaning)
    data.add_argument(
        "--group",
        action="append",
        default=[],
        type=_named_group,
        metavar="NAME=A,B",
        help="columns A and B enter and leave together as the variable NAME (repeatable)",
    )
    data.add_argument(
        "--missing", default="error", help="missing values: error (default), drop (complete rows only) or indicator"
    )
    data.add_argument(
        "--rare-levels", type=float, metavar="N", help="join levels with fewer than N rows (or, below 1, part of them)"
    )
    model = parser.add_argument_group("model")
    model.add_argument("--family", default="auto", help=f"auto (default), {', '.join(FAMILIES)}")
    model.add_argument("--test", help="lr, score or wald, where the family has a choice")
    model.add_argument("--cov", help="robust Wald tests: HC3, or cluster (needs --cluster)")
    model.add_argument("--link", help="link function, where the family has a choice")


def _named_group(text: str) -> tuple[str, list[str]]:
    name, _, columns = text.partition("=")
    listed = [column for column in columns.split(",") if column]
    if not name or not listed:
        raise argparse.ArgumentTypeError(f"expected NAME=COLUMN,COLUMN,…, got {text!r}")
    return name, listed


def _level_of(text: str) -> tuple[str, str]:
    name, found, level = text.partition("=")
    if not name or not found:
        raise argparse.ArgumentTypeError(f"expected COLUMN=LEVEL, got {text!r}")
    return name, level


def add_grid_options(parser: argparse.ArgumentParser) -> None:
    """Options of commands that search a grid of settings."""
    grid = parser.add_argument_group("grid")
    grid.add_argument("--alphas", nargs="*", type=float, metavar="ALPHA", help="levels of likelihood-ratio tests")
    grid.add_argument("--gammas", nargs="*", type=_gamma, metavar="GAMMA", help="parameters of EBIC, or 'default'")
    grid.add_argument("-k", nargs="*", type=runs, metavar="N", help="extra runs: 0, 1, 2, … or inf")
    grid.add_argument("--no-fbs", action="store_true", help="leave out the search without early dropping")
    grid.add_argument("--no-backward", action="store_true", help="skip the backward phase")
    _add_limits(grid)


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--max-features", type=int, metavar="N", help="select at most N variables")
    group.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after this time with what was found")
    group.add_argument("--n-jobs", type=int, metavar="N", help="threads, -1 for all processors (default 1)")
    group.add_argument("-q", "--quiet", action="store_true", help="no progress on the terminal")


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Options of a single search."""
    search = parser.add_argument_group("search")
    search.add_argument("--criterion", default="lr", help="lr (likelihood-ratio test, default), aic, bic or ebic")
    search.add_argument("--alpha", type=float, help="significance level of criterion lr (default 0.05)")
    search.add_argument("--alpha-backward", type=float, metavar="ALPHA", help="level for staying (default: alpha)")
    search.add_argument("--familywise", type=float, metavar="LEVEL", help=_FAMILYWISE)
    search.add_argument("--gamma", type=float, help="parameter of criterion ebic (default: 1 - log n / (2 log p))")
    search.add_argument("-k", type=runs, metavar="N", help="extra runs: 0, 1, 2, … or inf (default 1)")
    search.add_argument("--fbs", action="store_true", help="no early dropping: plain forward-backward selection")
    search.add_argument("--no-backward", action="store_true", help="skip the backward phase")
    _add_limits(search)


def add_all_options(parser: argparse.ArgumentParser) -> None:
    """Options of a single search in a file."""
    add_data_options(parser)
    add_search_options(parser)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """What becomes of a result."""
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="the whole result as JSON instead of a table")
    output.add_argument("--save", metavar="FILE", help="write the whole result as JSON to a file, besides the table")
    output.add_argument("--output", metavar="FILE", help="write the kept columns and the target to a file")
    output.add_argument("--report", metavar="FILE", help="write a report for people, one HTML file")


def runs(text: str) -> float:
    """How many extra runs, or as many as there are."""
    if text.lower() in ("inf", "∞"):
        return math.inf
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected 0, 1, 2, … or inf, got {text!r}")
    return int(text)


def _gamma(text: str) -> float | None:
    if text.lower() == "default":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1 or 'default', got {text!r}") from error


_SURVIVAL = "--time and --event"


def as_options(message: str) -> str:
    """A message about arguments of `select` as one about options, in one line."""
    spelt = re.sub(r"\b(exclude|include|categorical)=\[(.+?)\]", _as_option, " ".join(message.split()))
    spelt = re.sub(r"\bgroups\['(.+?)'\]", r"--group \1", spelt)
    spelt = re.sub(r"\b(missing|cov|test|link|criterion|family|kind|unseen)='(\w+)'", r"--\1 \2", spelt)
    spelt = spelt.replace("y=('time', 'event'), or as a structured array with the fields 'event' and 'time'", _SURVIVAL)
    return re.sub(r"\b(cluster|trials|strata|entry|offset|exposure|times)=(?=[:;, ]|$)", r"--\1", spelt)


def _as_option(found: re.Match[str]) -> str:
    return f"--{found[1]} " + found[2].replace("', '", "' '")
