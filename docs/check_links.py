"""Check the built pages: every link, picture, script and anchor inside them exists, and nothing comes from outside.

python docs/check_links.py docs/_build/html
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
_NOT_LOADED = {"canonical", "search", "next", "prev", "index", "author"}  # a <link> that only tells where something is


@dataclass
class Page(HTMLParser):
    """Anchors of a page and where it points."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep ids, links and what the browser loads by itself."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for element, attribute in _LOADED:
            if tag == element and attribute in given and given.get("rel") not in _NOT_LOADED:
                self.loaded.append(given[attribute])


def read(path: Path) -> Page:
    """Parse a page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(folder: Path) -> Iterator[str]:
    """What is wrong with the pages of a folder, a line each."""
    pages = {path.resolve(): read(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    if not pages:
        yield f"{folder}: no pages"
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        yield from (f"{name}: loads {url} from outside" for url in page.loaded if urlsplit(url).netloc)
        for url in page.links + page.loaded:
            target = urlsplit(url)
            if target.scheme or target.netloc:
                continue
            file = path if not target.path else (path.parent / unquote(target.path)).resolve()
            if not file.is_file():
                yield f"{name}: {url} does not exist"
            elif target.fragment and file in pages and unquote(target.fragment) not in pages[file].anchors:
                yield f"{name}: {url} has no such anchor"


if __name__ == "__main__":
    problems = list(broken(Path(sys.argv[1])))
    print("\n".join(problems) or "all links inside the documentation lead somewhere")
    sys.exit(1 if problems else 0)
