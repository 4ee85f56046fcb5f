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


FAVOURS = {
    "result": {"show", "api"},  # what a result draws, writes and explains
    "show": {"api"},  # paths, for their types
    "api": {"inference"},  # a level that holds for a whole family of tests
}
"""Later rooms that methods may ask for a favour, or name as types."""


def names(node):
    """Modules of this package that a node imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.split(".")[0] == "fbed"]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "fbed":
        return [node.module] if "." in node.module else [f"fbed.{alias.name}" for alias in node.names]
    return []


def against_the_flow(path, nodes):
    """Modules of later rooms that are imported."""
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in EVERYWHERE:
        return []
    assert room in FLOW, f"{room} has no place in the flow"
    later = FLOW[FLOW.index(room) + 1 :]
    return [module for node in nodes for module in names(node) if "." in module and room_of(module) in later]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_flow(path):
    assert against_the_flow(path, ast.parse(path.read_text()).body) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_favours_are_few(path):
    """Imports inside functions, and for types."""
    asked = against_the_flow(path, ast.walk(ast.parse(path.read_text())))
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert {room_of(module) for module in asked} <= FAVOURS.get(room, set())


def test_no_import_is_relative():
    for path in MODULES:
        found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        assert all(node.level == 0 for node in found), path


def test_likelihoods_know_no_engine():
    for path in (SOURCE / "models" / "likelihoods").glob("*.py"):
        found = [name for node in ast.walk(ast.parse(path.read_text())) for name in names(node)]
        assert not [name for name in found if name.startswith("fbed.models.engines")], path


def test_every_room_says_what_happens_there():
    rooms = [folder for folder in SOURCE.iterdir() if folder.is_dir() and folder.name != "__pycache__"]
    assert {folder.name for folder in rooms} <= set(FLOW)
    for folder in rooms:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
