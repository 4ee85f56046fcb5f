"""The command `fbed`: a file in, the selected variables out."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

from fbed import __version__
from fbed.api.paths import path
from fbed.api.selection import select
from fbed.cli import blanket, completion, explain, inference, large, tuning
from fbed.cli import report as report
from fbed.cli.arguments import (
    about_data,
    about_search,
    criterion_of,
    levels_of,
    outcome_of,
    read_data,
    tell,
    with_provenance,
)
from fbed.cli.options import (
    add_all_options,
    add_data_options,
    add_device,
    add_grid_options,
    add_output_options,
    add_search_options,
    as_options,
)
from fbed.errors import InvalidInput, SlowSearch
from fbed.result.result import Result
from fbed.show.text import notes, style_of, summary
from fbed.tables import writers
from fbed.tables.plink import Genotypes

BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
CLOSED_PIPE = 141  # 128 + SIGPIPE

_DESCRIPTION = """\
Forward-backward selection with early dropping (FBED): which variables of a
table predict an outcome, given each other?"""

_SELECT_EXAMPLES = """\
examples:
  fbed select data.csv --target y
  fbed select data.csv --target y --criterion ebic --output kept.csv
  fbed select data.csv --target y --familywise 0.05
  fbed select genes.parquet --target relapse --alpha 0.01 -k inf
  fbed select counts.npz --json > result.json
  fbed select data.csv --target y --report report.html
  fbed select data.csv --target y --include age sex --exclude id
  fbed select trial.csv --time months --event died --strata centre
  fbed select visits.csv --target score --family mixed --cluster patient
  fbed select data.csv --target y --categorical grade --group dose=d1,d2
  fbed select cohort.bed --pheno pheno.tsv --target bmi --include age sex pc1
  zcat data.csv.gz | fbed select - --target y --sep ';'
  fbed select 'big/*.parquet' --target y --memory-limit 2GB

The target is a column of the table. For svmlight and .npz files it is the
array y of the file, and --target may be left out. Variables of a file without
column names are called by their index, from 0.

exit status: 0 done, 2 bad input, 130 interrupted (with what was found so far)"""

_PATH_EXAMPLES = """\
examples:
  fbed path data.csv --target y
  fbed path data.csv --target y --alphas 0.001 0.01 0.05 --gammas -k 1
  fbed path data.csv --target y --report settings.html
  fbed path counts.npz --json > path.json

Without --alphas, --gammas and -k the grid is that of the paper: levels 0.001,
0.01, 0.05 and 0.1, EBIC with gamma 0, 0.5, 1 and its default, K = 0, 1 and inf,
and forward-backward selection without early dropping."""

_EXAMPLES = """\
examples:
  fbed demo                          see it find a Markov blanket
  fbed select data.csv --target y    select variables of a file
  fbed path data.csv --target y      a whole grid of settings
  fbed tune data.csv --target y      choose settings and tell the worth
  fbed predict model.json new.csv    predictions of a saved model
  fbed validate model.json new.csv --target y    what it is worth on new rows
  fbed inclusion data.csv --target y how stable is the selection?
  fbed report result.json            a report for people, as HTML
  fbed explain result.json age       why is a variable not selected?
  fbed blanket net.bif --target y    Markov blanket of a node of a network
  fbed select --help                 all options"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is returned."""
    try:
        arguments = parser().parse_args(argv)
        arguments.command = shlex.join(["fbed", *(sys.argv[1:] if argv is None else argv)])
        _tolerate_plain_terminals()
        with _plain_warnings():
            status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except (InvalidInput, ImportError) as error:  # what is not installed says how to install it
        return _complain(str(error))
    except MemoryError:
        return _complain("the data do not fit into memory")
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to be written has nowhere to go
        if isinstance(error, BrokenPipeError):  # the reader has seen enough, as in `fbed select … | head`
            return CLOSED_PIPE
        return _complain(f"{error.filename or 'the output'} cannot be read or written: {error.strerror or error}")
    except KeyboardInterrupt:
        print("\nfbed: interrupted", file=sys.stderr)
        return INTERRUPTED


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Our own warnings in one line; those of others are for programmers, who ask for them by python -W."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **rest: Any) -> None:
            if issubclass(category, SlowSearch):
                print(f"fbed: warning: {message}".replace("time_limit", "--time-limit"), file=sys.stderr)
            elif sys.warnoptions:
                others(message, category, *where, **rest)

        warnings.showwarning = show
        yield


def _complain(message: str) -> int:
    """One line; the remedies that `select` names are spelt as options of the command."""
    print(f"fbed: error: {as_options(message)}", file=sys.stderr)
    return BAD_INPUT


def _tolerate_plain_terminals() -> None:
    """A terminal that cannot show '∞' shows '?' rather than an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


class _Parser(argparse.ArgumentParser):
    """Complains in one line, like the rest of the command."""

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message}{_meant(message)} (see {self.prog} --help)")


def _meant(message: str) -> str:
    """Which option a misspelt one may have been."""
    strange = re.search(r"unrecognized arguments: .*?(--[\w-]+)", message)
    if strange is None:
        return ""
    known = {
        spelling
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
        for sub in action.choices.values()
        for option in sub._actions
        for spelling in option.option_strings
    }
    close = difflib.get_close_matches(strange[1], sorted(known), 1)
    return f"; did you mean {close[0]}?" if close else ""


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="fbed", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=plain)
    parser.add_argument("--version", action="version", version=f"fbed {__version__}")
    parser.set_defaults(run=lambda arguments: _show_help(parser))
    commands = parser.add_subparsers(metavar="command")
    choosing = commands.add_parser(
        "select",
        help="select variables of a file",
        description="Select variables of a file.",
        epilog=_SELECT_EXAMPLES,
        formatter_class=plain,
    )
    add_data_options(choosing)
    add_search_options(choosing)
    large.add_options(choosing)
    add_output_options(choosing)
    add_device(choosing)
    choosing.set_defaults(run=run_select)
    gridding = commands.add_parser(
        "path",
        help="select by a whole grid of settings, sharing work",
        description="Select variables of a file by every setting of a grid.\nEach result is that of a single run.",
        epilog=_PATH_EXAMPLES,
        formatter_class=plain,
    )
    add_data_options(gridding)
    add_grid_options(gridding)
    gridding.add_argument("--json", action="store_true", help="every result as JSON instead of a table")
    gridding.add_argument("--report", metavar="FILE", help="also write a report, one HTML file")
    add_device(gridding)
    gridding.set_defaults(run=run_path)
    showing = commands.add_parser("demo", help="find the Markov blanket in data from a known Bayesian network")
    showing.add_argument("--rows", type=int, default=1000, metavar="N", help="rows to simulate (default 1000)")
    showing.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the simulation (default 1)")
    showing.set_defaults(run=run_demo)
    tuning.add_parsers(commands, add_data_options, add_grid_options)
    inference.add_parsers(commands, inference.Door(add_all_options, about_search, INTERRUPTED))
    report.add_parser(commands)
    explain.add_parser(commands)
    blanket.add_parser(commands)
    completion.add_parser(commands, parser)
    return parser


def _show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0


def run_select(arguments: argparse.Namespace) -> int:
    """`fbed select`: read, select, show, write."""
    criterion = criterion_of(arguments)
    if arguments.fbs and arguments.k is not None:
        raise InvalidInput("-k counts the runs of early dropping, and --fbs drops nothing: leave one of them out")
    if arguments.output:
        for source in (arguments.file, *([arguments.pheno] if arguments.pheno else [])):
            writers.check_output(arguments.output, source, survival=arguments.time is not None)
    for written in (arguments.report, arguments.save):
        if written:
            report.check_path(written, arguments.file)
    data = large.read(arguments, levels_of(arguments) is not None) or read_data(arguments)
    result = select(
        **about_data(data, arguments),
        memory_limit=arguments.memory_limit,
        checkpoint=arguments.checkpoint,
        client=arguments.dask,
        criterion=criterion,
        familywise=arguments.familywise,
        device=arguments.device,
        k=1 if arguments.k is None else arguments.k,
        early_dropping=not arguments.fbs,
    )
    result = with_provenance(result, arguments, data)
    result, stopped = _settled(result)
    print(result.to_json() if arguments.json else summary(result, style_of(sys.stdout), with_notes=False), flush=True)
    tell(notes(result))
    if arguments.save:
        result.to_json(arguments.save)
        print(f"fbed: the result is in {arguments.save}", file=sys.stderr)
    if arguments.report:
        result.report(arguments.report)
        print(f"fbed: the report is in {arguments.report}", file=sys.stderr)
    if arguments.output:
        outcome = {name: data.vector(name, role) for role, name in outcome_of(data, arguments).items()}
        names = [result.feature_names[j] if result.feature_names else j for j in result.indices.tolist()]
        table = data.table.frame(names) if isinstance(data.table, Genotypes) else data.table
        writers.write(arguments.output, result.transform(table), names, outcome)
    return INTERRUPTED if stopped or result.status == "interrupted" else 0


def _settled(result: Result) -> tuple[Result, bool]:
    """With exact statistics where people look; Ctrl-C leaves them as the search has left them, and is told."""
    try:
        return result.settled(), False
    except KeyboardInterrupt:
        return replace(result, closer=None), True


def run_path(arguments: argparse.Namespace) -> int:
    """`fbed path`: read, select by every setting, show, write."""
    if arguments.report:
        report.check_path(arguments.report, arguments.file)
    data = read_data(arguments)
    grid = {"alphas": arguments.alphas, "gammas": arguments.gammas, "ks": arguments.k}
    found = path(
        **about_data(data, arguments),
        **{name: values for name, values in grid.items() if values is not None},
        fbs=not arguments.no_fbs,
        device=arguments.device,
    )
    print(found.to_json() if arguments.json else found.summary(), flush=True)
    tell(found.results[0].notes)
    if arguments.report:
        found.report(arguments.report)
        print(f"fbed: the report is in {arguments.report}", file=sys.stderr)
    return INTERRUPTED if found.status == "interrupted" else 0


def run_demo(arguments: argparse.Namespace) -> int:
    """`fbed demo`: a known Bayesian network and what the search finds in data from it."""
    from fbed.cli.demo import report

    print(report(arguments.rows, arguments.seed))
    return 0
