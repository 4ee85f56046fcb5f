"""`fbed report`: the report of a saved result."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fbed.cli.explain import read_result
from fbed.errors import InvalidInput
from fbed.result.saved import consistent
from fbed.show.report import write

_EXAMPLES = """\
examples:
  fbed select data.csv --target y --json > result.json
  fbed report result.json
  fbed report result.json -o for-the-reviewer.html

exit status: 0 done, 2 bad input"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to those of a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help="a report of a saved result, as one HTML file",
        description="Write the report of a saved result: one HTML file that needs nothing else.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("result", help="a result saved as JSON")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to (default: the name of the result, .html)")
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Read the result, write the report, say where it is."""
    path = arguments.output or str(Path(arguments.result).with_suffix(".html"))
    check_path(path, arguments.result)
    result = read_result(arguments.result)
    with consistent(f"the result saved in {arguments.result}"):
        written = write(result, path)
    print(written)
    return 0


def check_path(path: str, source: str) -> None:
    """Find out before the work begins whether a file can be written."""
    file = Path(path)
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise InvalidInput(f"{path} cannot be written to: it is a folder, or its folder does not exist")
    if file.exists() and Path(source).exists() and file.samefile(source):
        raise InvalidInput(f"this would overwrite {source}: choose another name")
