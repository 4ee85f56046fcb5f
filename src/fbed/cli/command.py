"""The command `fbed`: a file in, the selected variables out."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

from fbed import __version__
from fbed.cli import blanket, completion, inference, large, tuning
from fbed.cli import report as report
from fbed.doors import explain
from fbed.doors.paths import path
from fbed.doors.selection import select
from fbed.errors import InvalidInput, SlowSearch
from fbed.families import FAMILIES
from fbed.result.result import Result
from fbed.rules.criteria import Criterion, as_criterion
from fbed.show.text import notes, paragraph, style_of, summary
from fbed.tables import readers, writers
from fbed.tables.columns import listing
from fbed.tables.plink import Genotypes
from fbed.tables.table import Name

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
    except InvalidInput as error:
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
    print(f"fbed: error: {_as_options(message)}", file=sys.stderr)
    return BAD_INPUT


def _as_options(message: str) -> str:
    """A message about arguments of `select` as one about options, in one line."""
    spelt = re.sub(r"\b(exclude|include|categorical)=\[(.+?)\]", _as_option, " ".join(message.split()))
    spelt = re.sub(r"\bgroups\['(.+?)'\]", r"--group \1", spelt)
    return re.sub(r"\b(missing|cov|test|link|criterion|family)='(\w+)'", r"--\1 \2", spelt)


def _as_option(found: re.Match[str]) -> str:
    return f"--{found[1]} " + found[2].replace("', '", "' '")


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
    _add_data_options(choosing)
    _add_search_options(choosing)
    large.add_options(choosing)
    _add_output_options(choosing)
    _add_device(choosing)
    choosing.set_defaults(run=run_select)
    gridding = commands.add_parser(
        "path",
        help="select by a whole grid of settings, sharing work",
        description="Select variables of a file by every setting of a grid.\nEach result is that of a single run.",
        epilog=_PATH_EXAMPLES,
        formatter_class=plain,
    )
    _add_data_options(gridding)
    _add_grid_options(gridding)
    gridding.add_argument("--json", action="store_true", help="every result as JSON instead of a table")
    gridding.add_argument("--report", metavar="FILE", help="also write a report, one HTML file")
    _add_device(gridding)
    gridding.set_defaults(run=run_path)
    showing = commands.add_parser("demo", help="find the Markov blanket in data from a known Bayesian network")
    showing.add_argument("--rows", type=int, default=1000, metavar="N", help="rows to simulate (default 1000)")
    showing.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the simulation (default 1)")
    showing.set_defaults(run=run_demo)
    tuning.add_parsers(commands, _add_data_options, _add_grid_options)
    inference.add_parsers(commands, inference.Door(_add_all_options, _about_search, INTERRUPTED))
    report.add_parser(commands)
    explain.add_parser(commands)
    blanket.add_parser(commands)
    completion.add_parser(commands, parser)
    return parser


def _show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="NAME", help="search on a GPU: cuda, or cuda:1 (needs PyTorch)")


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    """Options about the data and the model, for every command that reads a table; `_about_data` has the answers."""
    data = parser.add_argument_group("data")
    data.add_argument("file", help=f"a table: {readers.FORMATS}; '-' reads CSV from standard input")
    data.add_argument("--pheno", metavar="FILE", help="phenotypes and covariates, with a column IID, of genotypes")
    data.add_argument("--target", metavar="COLUMN", help="the outcome")
    data.add_argument("--time", metavar="COLUMN", help="survival times, instead of --target")
    data.add_argument("--event", metavar="COLUMN", help="1 or true where --time ends with the event, 0 or false if not")
    data.add_argument("--weights", metavar="COLUMN", help="frequencies: weight 2 is the row twice")
    for name, meaning in _EXTRAS.items():
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


_EXTRAS = {
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


def _add_grid_options(parser: argparse.ArgumentParser) -> None:
    grid = parser.add_argument_group("grid")
    grid.add_argument("--alphas", nargs="*", type=float, metavar="ALPHA", help="levels of likelihood-ratio tests")
    grid.add_argument("--gammas", nargs="*", type=_gamma, metavar="GAMMA", help="parameters of EBIC, or 'default'")
    grid.add_argument("-k", nargs="*", type=_runs, metavar="N", help="extra runs: 0, 1, 2, … or inf")
    grid.add_argument("--no-fbs", action="store_true", help="leave out the search without early dropping")
    grid.add_argument("--no-backward", action="store_true", help="skip the backward phase")
    _add_limits(grid)


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--max-features", type=int, metavar="N", help="select at most N variables")
    group.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after this time with what was found")
    group.add_argument("--n-jobs", type=int, metavar="N", help="threads, -1 for all processors (default 1)")
    group.add_argument("-q", "--quiet", action="store_true", help="no progress on the terminal")


_FAMILYWISE = "probability that anything is selected when nothing matters; sets alpha"


def _add_search_options(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group("search")
    search.add_argument("--criterion", default="lr", help="lr (likelihood-ratio test, default), aic, bic or ebic")
    search.add_argument("--alpha", type=float, help="significance level of criterion lr (default 0.05)")
    search.add_argument("--alpha-backward", type=float, metavar="ALPHA", help="level for staying (default: alpha)")
    search.add_argument("--familywise", type=float, metavar="LEVEL", help=_FAMILYWISE)
    search.add_argument("--gamma", type=float, help="parameter of criterion ebic (default: 1 - log n / (2 log p))")
    search.add_argument("-k", type=_runs, metavar="N", help="extra runs: 0, 1, 2, … or inf (default 1)")
    search.add_argument("--fbs", action="store_true", help="no early dropping: plain forward-backward selection")
    search.add_argument("--no-backward", action="store_true", help="skip the backward phase")
    _add_limits(search)


def _add_all_options(parser: argparse.ArgumentParser) -> None:
    _add_data_options(parser)
    _add_search_options(parser)


def _about_search(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything that is asked of a search in a file."""
    if arguments.fbs and arguments.k is not None:
        raise InvalidInput("-k counts the runs of early dropping, and --fbs drops nothing: leave one of them out")
    if arguments.familywise is not None:
        raise InvalidInput("--familywise sets the level of a single search: use it with fbed select")
    criterion = _criterion(arguments)
    runs = {"k": 1 if arguments.k is None else arguments.k, "early_dropping": not arguments.fbs}
    return {**about_data(read_data(arguments), arguments), "criterion": criterion, **runs}


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="the whole result as JSON instead of a table")
    output.add_argument("--save", metavar="FILE", help="write the whole result as JSON to a file, besides the table")
    output.add_argument("--output", metavar="FILE", help="write the kept columns and the target to a file")
    output.add_argument("--report", metavar="FILE", help="write a report for people, one HTML file")


def _runs(text: str) -> float:
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


def run_select(arguments: argparse.Namespace) -> int:
    """`fbed select`: read, select, show, write."""
    criterion = _criterion(arguments)
    if arguments.fbs and arguments.k is not None:
        raise InvalidInput("-k counts the runs of early dropping, and --fbs drops nothing: leave one of them out")
    if arguments.output:
        for source in (arguments.file, *([arguments.pheno] if arguments.pheno else [])):
            writers.check_output(arguments.output, source, survival=arguments.time is not None)
    for written in (arguments.report, arguments.save):
        if written:
            report.check_path(written, arguments.file)
    data = large.read(arguments, _levels(arguments) is not None) or read_data(arguments)
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
    result = result.settled()
    print(result.to_json() if arguments.json else summary(result, style_of(sys.stdout), with_notes=False), flush=True)
    tell(notes(result))
    if arguments.save:
        result.to_json(arguments.save)
        print(f"fbed: the result is in {arguments.save}", file=sys.stderr)
    if arguments.report:
        result.report(arguments.report)
        print(f"fbed: the report is in {arguments.report}", file=sys.stderr)
    if arguments.output:
        outcome = {name: data.vector(name, role) for role, name in _outcome(data, arguments).items()}
        names = [result.feature_names[j] if result.feature_names else j for j in result.indices.tolist()]
        table = data.table.frame(names) if isinstance(data.table, Genotypes) else data.table
        writers.write(arguments.output, result.transform(table), names, outcome)
    return INTERRUPTED if result.status == "interrupted" else 0


def with_provenance(result: Result, arguments: argparse.Namespace, data: readers.Data) -> Result:
    """The result with the command that made it, and the Python lines that read its data."""
    if result.provenance is None:
        return result
    if isinstance(data.table, Genotypes):
        call = ", ".join(map(repr, (arguments.file, *([arguments.pheno] if arguments.pheno else []))))
        return replace(
            result,
            provenance=replace(result.provenance, command=arguments.command, reading=(f"X = fbed.genotypes({call})",)),
        )
    vectors: dict[str, tuple[str, ...]] = {}
    if not data.is_frame:
        options = {"sample_weight": arguments.weights, **{name: getattr(arguments, name) for name in _EXTRAS}}
        vectors = {"y": tuple(_outcome(data, arguments).values())}
        vectors |= {name: (column,) for name, column in options.items() if column is not None}
    if isinstance(data, large.FileData):
        lines: tuple[str, ...] = (f"X = {arguments.file!r}",)
    else:
        lines = readers.python_lines(arguments.file, arguments.sep, vectors, _levels(arguments), **_form(arguments))
    return replace(result, provenance=replace(result.provenance, command=arguments.command, reading=lines))


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


def read_data(arguments: argparse.Namespace) -> readers.Data:
    """The file, with what the reader has to say about it."""
    data = readers.read(arguments.file, arguments.sep, pheno=arguments.pheno, **_form(arguments))
    tell(data.notes)
    return with_levels(data, arguments)


def with_levels(data: readers.Data, arguments: argparse.Namespace) -> readers.Data:
    """The data with the reference levels and the modelled class that were asked for."""
    levels = _levels(arguments)
    if levels is None:
        return data
    if isinstance(data.table, Genotypes):
        raise InvalidInput("--reference and --positive are not there for genotypes: order the levels in the file")
    if not data.is_frame:
        raise InvalidInput("--reference and --positive are about columns of categories, which a matrix has none of")
    if arguments.positive is not None and arguments.target is None:
        raise InvalidInput("--positive says which class of --target is modelled: name the target")
    return readers.with_levels(data, *levels)


def _levels(arguments: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]] | None:
    """Columns with the level that shall be first, and that shall be last."""
    if not arguments.reference and arguments.positive is None:
        return None
    last = {} if arguments.positive is None else {str(arguments.target): str(arguments.positive)}
    return dict(arguments.reference), last


def _form(arguments: argparse.Namespace) -> dict[str, Any]:
    """How a text file is written, as far as it was said."""
    return {name: getattr(arguments, name) for name in ("decimal", "encoding", "na_values")}


def tell(notes: Iterable[str]) -> None:
    """Notes go to standard error, so that they are seen whatever becomes of the output."""
    look = style_of(sys.stderr)
    for note in map(_as_options, notes):
        lines = paragraph(f"fbed: note: {note}") if sys.stderr.isatty() else [f"fbed: note: {note}"]
        print("\n".join(look("warn", lines)), file=sys.stderr)


def about_data(data: readers.Data, arguments: argparse.Namespace) -> dict[str, Any]:
    """Arguments that `select` and `path` have in common."""
    outcome = tuple(_column(data, name, role) for role, name in _outcome(data, arguments).items())
    extras = {"sample_weight": ("--weights", arguments.weights)}
    extras |= {name: (f"--{name}", getattr(arguments, name)) for name in _EXTRAS}
    names = [name for name, _ in arguments.group]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInput(f"--group {repeated[0]!r} is given twice: list all its columns at once")
    return {
        "X": data.table,
        "y": outcome if len(outcome) > 1 else outcome[0],
        "family": arguments.family,
        "test": arguments.test,
        "cov": arguments.cov,
        "link": arguments.link,
        "include": _variables(data, arguments.include),
        "exclude": _variables(data, arguments.exclude),
        "groups": {name: _variables(data, columns) for name, columns in arguments.group} or None,
        "categorical": _variables(data, arguments.categorical),
        "missing": arguments.missing,
        "rare_levels": arguments.rare_levels,
        "feature_names": data.names,
        "backward": not arguments.no_backward,
        "max_features": arguments.max_features,
        "time_limit": arguments.time_limit,
        "n_jobs": arguments.n_jobs,
        "progress": not arguments.quiet,
        **{name: None if column is None else _column(data, column, role) for name, (role, column) in extras.items()},
    }


def _criterion(arguments: argparse.Namespace) -> Criterion:
    """An option that the criterion does not have was meant for another one."""
    name = arguments.criterion.lower()
    for option, owner in (("alpha", "lr"), ("alpha_backward", "lr"), ("gamma", "ebic")):
        if getattr(arguments, option) is not None and name != owner:
            raise InvalidInput(
                f"--{option.replace('_', '-')} belongs to --criterion {owner}, but the criterion is {name!r}"
            )
    return as_criterion(name, arguments.alpha, arguments.gamma, arguments.alpha_backward)


def _outcome(data: readers.Data, arguments: argparse.Namespace) -> dict[str, str]:
    """The option and the column of the outcome: --target, or --time and --event."""
    if arguments.time is None and arguments.event is None:
        return {"--target": _target(data, arguments.target)}
    if arguments.target is not None:
        raise InvalidInput("--target and --time/--event are both given: survival times have no --target")
    if arguments.time is None or arguments.event is None:
        raise InvalidInput("survival times need both --time and --event")
    return {"--time": arguments.time, "--event": arguments.event}


def _target(data: readers.Data, target: str | None) -> str:
    if target is not None:
        return target
    if not data.is_frame:
        return "y"
    known = listing(list(data.table.columns))
    raise InvalidInput(
        f"say which column is the outcome with --target (or --time and --event): the columns are {known}"
    )


def _column(data: readers.Data, name: str, role: str) -> Any:
    """What `select` expects: the name of a column of a frame, values otherwise."""
    values = _vector_with_hint(data, name, role)
    return name if data.is_frame else values


def _vector_with_hint(data: readers.Data, name: str, role: str) -> Any:
    try:
        return data.vector(name, role)
    except InvalidInput as error:
        if data.is_frame and len(data.table.columns) == 1:
            raise InvalidInput(f"{error}. There is one column only: is the separator right (--sep)?") from error
        raise


def _variables(data: readers.Data, wanted: Sequence[str]) -> list[Name]:
    """Names as they are; a number that is no name is an index."""
    known = set(data.table.columns if data.is_frame else data.names or ())
    known |= set(data.table.variants) if isinstance(data.table, Genotypes) else set()
    parts = [part for item in wanted for part in ([item] if item in known else item.split(",")) if part]
    return [int(item) if item not in known and item.isdecimal() else item for item in parts]


def run_demo(arguments: argparse.Namespace) -> int:
    """`fbed demo`: a known Bayesian network and what the search finds in data from it."""
    from fbed.cli.demo import report

    print(report(arguments.rows, arguments.seed))
    return 0
