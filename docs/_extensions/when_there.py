"""`<!-- include when there: FILE -->`: a document that measuring makes, or a sentence when nobody has measured.

The document is taken in without its title. It lives elsewhere in the repository: pictures are found from there, and
links to files beside it, which are not part of the documentation, become plain text.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

_MARK = re.compile(r"^<!-- include when there: (\S+) -->$", flags=re.MULTILINE)
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+://|#)[^()\s]+\)")
_ABSENT = "*Not measured for this version.*"


def resolve(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the marks of a page."""
    folder = Path(app.env.doc2path(docname)).parent
    source[0] = _MARK.sub(lambda mark: _taken_in(folder, mark[1]), source[0])


def _taken_in(folder: Path, name: str) -> str:
    file = folder / name
    if not file.exists():
        return _ABSENT
    text = file.read_text(encoding="utf-8")
    if not all((file.parent / picture).exists() for _, picture in _PICTURE.findall(text)):
        return _ABSENT  # the text is written, its numbers are not
    beside = Path(name).parent.as_posix()
    text = _PICTURE.sub(lambda found: f"![{found[1]}]({beside}/{found[2]})", text)
    return _LINK.sub(lambda found: found[1], re.sub(r"\A# .*\n", "", text))


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("source-read", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
