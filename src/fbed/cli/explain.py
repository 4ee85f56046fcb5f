"""`fbed explain`: why a variable was selected or not, from a saved result."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from fbed.api.explain import BY_ROW, explain
from fbed.cli.arguments import about_data, with_levels
from fbed.errors import InvalidInput
from fbed.result.result import Result
from fbed.result.saved import consistent
from fbed.tables import readers
from fbed.tables.table import Name

_EXAMPLES = """\
examples:
  fbed select data.csv --target y --json > result.json
  fbed explain result.json age
  fbed explain result.json age --data data.csv

exit status: 0 done, 2 bad input"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to those of a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="why is a variable selected, or not?",
        description="Tell from a saved result why a variable was selected or not;\nexactly, when given the data.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("result", help="a result saved as JSON")
    parser.add_argument("variable", help="name of a column (or its index, where columns have no names)")
    parser.add_argument("--data", metavar="FILE", help="the file of the selection, for exact statistics")
    parser.add_argument("--sep", metavar="CHAR", help="separator of a text file (default: ',' or, for .tsv, a tab)")
    parser.add_argument("--target", metavar="COLUMN", help="the outcome (default: that of the result)")
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """`fbed explain`: read a result, find the variable, tell."""
    result = read_result(arguments.result)
    name: Name = arguments.variable
    if result.feature_names is None and arguments.variable.isdecimal():
        name = int(arguments.variable)
    if arguments.data is None and (arguments.target or arguments.sep):
        raise InvalidInput("--target and --sep describe the file of --data, which is missing")
    with consistent(f"the result saved in {arguments.result}"):
        given = {} if arguments.data is None else _read(result, arguments)
        told = str(explain(result, name, **given))
    print(told)
    return 0


def _read(result: Result, arguments: argparse.Namespace) -> dict[str, Any]:
    """Table, outcome and what else has a value a row, read as the command that made the result read them."""
    from fbed.cli.command import parser  # which has this command among others

    if result.provenance is not None and result.provenance.command is not None:
        try:
            asked = parser().parse_args(shlex.split(result.provenance.command)[1:])
        except SystemExit as error:  # a command that asks for help made no result
            raise InvalidInput(f"{arguments.result}: the command in it makes no result") from error
        form = {name: getattr(asked, name) for name in ("decimal", "encoding", "na_values")}
        data = readers.read(arguments.data, arguments.sep or asked.sep, **form)
        asked.target = arguments.target or asked.target
        data = with_levels(data, asked)
        about = about_data(data, asked)
        return {name: about[name] for name in ("X", "y", *BY_ROW) if about[name] is not None}
    data = readers.read(arguments.data, arguments.sep)
    given: dict[str, Any] = {"X": data.table}
    if arguments.target is not None or not data.is_frame:
        target = arguments.target or "y"
        given["y"] = target if data.is_frame else data.vector(target, "--target")
    return given


def read_result(path: str) -> Result:
    """A result from a file, or an error that names the file."""
    try:
        return Result.from_json(Path(path))
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path}: this is not a result of fbed, saved by --json or to_json()") from error
