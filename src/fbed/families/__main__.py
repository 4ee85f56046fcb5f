"""Print the table of families as Markdown, or renew the one in a document: python -m fbed.families [FILE]."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fbed.families import FAMILIES, markdown

_TABLE = re.compile(r"(<!-- begin: .*? -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def updated(document: str) -> str:
    """The document with the table of today between its two marks."""
    return _TABLE.sub(lambda marks: marks[1] + markdown(FAMILIES) + marks[2], document)


def main(arguments: list[str]) -> None:
    """Print the table, or write it into the documents named."""
    if not arguments:
        print(markdown(FAMILIES), end="")
    for path in map(Path, arguments):
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
