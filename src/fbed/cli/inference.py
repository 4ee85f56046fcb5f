"""`fbed inclusion`, `stability`, `multisplit`, `equivalents`: from a file to what can be believed of a selection."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fbed
from fbed.cli import report
from fbed.errors import InvalidInput
from fbed.rules.criteria import LikelihoodRatio


@dataclass(frozen=True)
class Door:
    """What the command line lends to its commands: options about data and search, and the reading of them."""

    add_options: Callable[[argparse.ArgumentParser], None]
    arguments: Callable[[argparse.Namespace], dict[str, Any]]
    interrupted: int


@dataclass(frozen=True)
class Option:
    """An option of one command; `name` is the argument of the function behind it."""

    name: str
    type: Callable[[str], Any]
    help: str


@dataclass(frozen=True)
class Command:
    """A command: the function of `fbed` that has its name, on a file."""

    help: str
    options: tuple[Option, ...]
    settled: tuple[tuple[str, Any], ...] = ()  # arguments of a search that the function takes no other value of


_RESAMPLES = (
    Option("n_resamples", int, "how many times rows are drawn"),
    Option("random_state", int, "a number that makes the same draws again"),
    Option("stratify", str, "'outcome' or a column: strata that every draw holds in proportion"),
    Option("units", str, "a column of subjects whose rows are drawn together (default: --cluster)"),
)

_COMMANDS = {
    "inclusion": Command(
        "how stable is the selection? inclusion frequencies over resamples",
        (
            *_RESAMPLES,
            Option("resampling", str, "subsample (default) or bootstrap"),
            Option("fraction", float, "size of a subsample (default 0.5)"),
            Option("n_bootstrap", int, "bootstrap samples for RMSD and bias"),
        ),
    ),
    "stability": Command(
        "which variables are selected in most halves? with a bound on false ones",
        (
            *_RESAMPLES,
            Option("pfer", float, "expected number of false selections (default 1)"),
            Option("threshold", float, "part of the halves that must select a variable (default 0.75)"),
            Option("q", int, "most entries of a search on a half, instead of --pfer"),
            Option("assumption", str, "of the bound: none, unimodal (default) or r-concave"),
        ),
    ),
    "ipss": Command(
        "which variables are stable over all levels? with approximate FDR",
        (
            *_RESAMPLES,
            Option("fdr", float, "approximate false discovery rate (default 0.2)"),
            Option("efp", float, "expected number of false selections, instead of --fdr"),
            Option("n_levels", int, "levels at which each half is searched (default 25)"),
        ),
        (("criterion", LikelihoodRatio()),),
    ),
    "equivalents": Command(
        "which sets of variables do as well as the selected one?",
        (
            Option("level", float, "of the tests that two variables say the same (default: that of the search)"),
            Option("limit", int, "most sets that are listed (default 100)"),
        ),
    ),
    "selection_test": Command(
        "is there anything in it? one p-value for the whole selection, by permutation",
        _RESAMPLES[:2],
    ),
    "multisplit": Command(
        "p-values after selection: select on one half, test on the other, many times",
        (
            *_RESAMPLES,
            Option("level", float, "probability of any false selection, or rate of false ones (default 0.05)"),
            Option("error", str, "fwer (default) or fdr"),
        ),
    ),
}


def add_parsers(commands: Any, door: Door) -> None:
    """Add the commands to those of a parser."""
    for name, command in _COMMANDS.items():
        typed = name.replace("_", "-")
        parser: argparse.ArgumentParser = commands.add_parser(
            typed,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            epilog="\n".join(
                ["examples:", f"  fbed {typed} data.csv --target y", f"  fbed {typed} data.csv --target y --json"]
            ),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        door.add_options(parser)
        own = parser.add_argument_group(typed)
        for option in command.options:
            own.add_argument(f"--{option.name.replace('_', '-')}", type=option.type, metavar="VALUE", help=option.help)
        output = parser.add_argument_group("output")
        output.add_argument("--json", action="store_true", help="the whole result as JSON instead of a table")
        output.add_argument("--report", metavar="FILE", help="write a report for people, one HTML file")
        parser.set_defaults(run=lambda arguments, name=name: _run(arguments, name, door))


def _run(arguments: argparse.Namespace, name: str, door: Door) -> int:
    command = _COMMANDS[name]
    if arguments.report:
        report.check_path(arguments.report, arguments.file)
    given = door.arguments(arguments)
    own = {option.name: getattr(arguments, option.name) for option in command.options}
    own = {key: value for key, value in own.items() if value is not None}
    for role in ("stratify", "units"):
        if role in own and own[role] != "outcome" and not hasattr(given["X"], "columns"):
            raise InvalidInput(f"--{role} names a column, and this file has none that are named")
    # a column that says how rows are drawn is no predictor
    roles = [own[role] for role in ("stratify", "units") if own.get(role, "outcome") != "outcome"]
    given["exclude"] = [*given["exclude"], *(column for column in roles if column not in given["exclude"])]
    given = {key: value for key, value in given.items() if not _is_settled(key, value, command)}
    found = getattr(fbed, name)(**given, **own)
    print(found.to_json() if arguments.json else found.summary())
    if arguments.report:
        found.report(arguments.report)
    return door.interrupted if found.status == "interrupted" else 0


def _is_settled(key: str, value: Any, command: Command) -> bool:
    return any(key == name and type(value) is type(only) and value == only for name, only in command.settled)
