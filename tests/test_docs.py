"""What the documentation promises, checked without building it: examples run, links lead, nothing is left out."""

from __future__ import annotations

import doctest
import importlib
import itertools
import re
import shlex
from pathlib import Path

import pytest

from fbed.cli.command import parser

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "gallery"} & set(path.parts))
DOCUMENTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def examples_of(path: Path) -> doctest.DocTest:
    blocks = re.findall(r"^```python\n(.*?)^```", text_of(path), flags=re.DOTALL | re.MULTILINE)
    return doctest.DocTestParser().get_doctest("\n".join(blocks), {}, name(path), name(path), 0)


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def links_of(path: Path) -> list[str]:
    found = re.findall(r"\]\(([^()\s]+)\)", without_code(text_of(path)))
    return [link for link in found if "://" not in link]


def anchors_of(path: Path) -> set[str]:
    """Headings as GitHub and MyST make links of them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text_of(path), flags=re.DOTALL | re.MULTILINE), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def source_of(target: Path) -> Path:
    """The file behind a link; a page of the gallery is made from a script."""
    if target.parent == DOCS / "gallery":
        return ROOT / "examples" / ("GALLERY_HEADER.rst" if target.stem == "index" else f"{target.stem}.py")
    return target


@pytest.mark.parametrize("path", [page for page in PAGES if examples_of(page).examples], ids=name)
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    report: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples_of(path), out=report.append)
    assert outcome.failed == 0, "".join(report)


def commands_of(path: Path) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", text_of(path), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^\$ fbed (.*)$", "\n".join(blocks), flags=re.MULTILINE)


@pytest.mark.parametrize("path", [page for page in PAGES if commands_of(page)], ids=name)
def test_commands_exist_with_their_options(path):
    for command in commands_of(path):
        words = itertools.takewhile(lambda word: word not in (">", "|", "#"), shlex.split(command))
        assert parser().parse_args(list(words)).run, command


def test_there_are_examples_on_the_pages_that_teach():
    for page in ("tutorial", "choosing", "reading", "theory", "extending", "recipes/genomics", "recipes/credit"):
        assert len(examples_of(DOCS / f"{page}.md").examples) >= 10, page


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path):
    for link in links_of(path):
        file, _, anchor = link.partition("#")
        target = source_of((path.parent / file).resolve() if file else path)
        assert target.exists(), f"{link} in {name(path)}"
        assert not anchor or anchor in anchors_of(target), f"{link} in {name(path)}: no such heading"


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text_of(page), flags=re.DOTALL | re.MULTILINE):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert {page for page in PAGES if page.name != "index.md" or page.parent != DOCS} <= listed


@pytest.mark.parametrize("module", ["fbed", "fbed.graphs"])
def test_every_public_name_is_in_the_reference(module):
    described = set(re.findall(r"^\.\. auto\w+:: (?:[\w.]+\.)?(\w+)$", text_of(DOCS / "api.md"), flags=re.MULTILINE))
    assert set(importlib.import_module(module).__all__) <= described
