"""The data flow through the rooms of the source in one direction, and so do the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "fbed"
FLOW = (
    "errors",
    "clock",
    "threads",
    "memory",
    "rules",
    "tables",
    "matrix",
    "models",
    "larger_than_memory",
    "families",
    "search",
    "graphs",
    "result",
    "show",
    "api",
    "tuning",
    "inference",
    "cli",
)
EVERYWHERE = ("__init__", "__main__")  # the front door sees everything
MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(module):
    return module.split(".")[1]


def imported(tree):
    """Modules of this package that are imported when a module is; methods may ask a later room for a favour."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fbed":
            yield from [node.module] if "." in node.module else [f"fbed.{alias.name}" for alias in node.names]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_flow(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in EVERYWHERE:
        return
    assert room in FLOW, f"{room} has no place in the flow"
    later = FLOW[FLOW.index(room) + 1 :]
    against = [module for module in imported(ast.parse(path.read_text())) if room_of(module) in later]
    assert against == []


def test_every_room_says_what_happens_there():
    rooms = [folder for folder in SOURCE.iterdir() if folder.is_dir() and folder.name != "__pycache__"]
    assert {folder.name for folder in rooms} <= set(FLOW)
    for folder in rooms:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
