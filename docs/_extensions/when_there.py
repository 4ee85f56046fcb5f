"""`<!-- include when there: FILE -->`: a document that measuring makes, or a sentence when nobody has measured."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

_MARK = re.compile(r"^<!-- include when there: (\S+) -->$", flags=re.MULTILINE)
_INCLUDE = "```{{include}} {}\n:heading-offset: 1\n:relative-images:\n```"


def resolve(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the marks of a page."""
    folder = Path(app.env.doc2path(docname)).parent

    def found(mark: re.Match[str]) -> str:
        return _INCLUDE.format(mark[1]) if (folder / mark[1]).exists() else "*Not measured for this version.*"

    source[0] = _MARK.sub(found, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("source-read", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
