"""What the documents promise: their examples run, their commands exist, their map is complete."""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed.cli.command import main
from fbed.families import FAMILIES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "fbed"


def blocks(language: str, document: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document, flags=re.DOTALL)


NETWORK = """\
variable x { type discrete [ 2 ] { no, yes }; }
variable y { type discrete [ 2 ] { no, yes }; }
probability ( x ) { table 0.3, 0.7; }
probability ( y | x ) { (no) 0.9, 0.1; (yes) 0.2, 0.8; }
"""

COMMANDS = [line[2:].split("#")[0].strip() for block in blocks("console") for line in block.splitlines()]


def run_examples(test: doctest.DocTest) -> None:
    report: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert outcome.attempted > 0
    assert outcome.failed == 0, "".join(report)


DOCUMENTS = {
    path.name: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
}


@pytest.mark.parametrize("name", sorted(name for name, text in DOCUMENTS.items() if "```python" in text))
def test_python_examples_of_the_documents(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples write files
    text = "\n".join(blocks("python", DOCUMENTS[name]))
    run_examples(doctest.DocTestParser().get_doctest(text, {}, name, name, 0))


def test_steps_shown_in_the_readme_are_what_is_printed():
    from sklearn.datasets import load_diabetes

    summary = fbed.select(*load_diabetes(return_X_y=True, as_frame=True), criterion="ebic").summary()
    (shown,) = blocks("text")
    assert shown in summary + "\n"


@pytest.mark.parametrize("name", ["fbed.select", "fbed.api.estimator.FBEDSelector"])
def test_examples_of_docstrings(name):
    module, attribute = name.rsplit(".", 1)
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(importlib.import_module(module), attribute))
    run_examples(test)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("fbed")])
def test_commands_of_the_readme_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["age", "weight", "height"])
    X["weight"] = np.exp(X["weight"])
    others = {"died": rng.integers(0, 2, 60), "centre": rng.integers(0, 3, 60), "id": range(60), "date": range(60)}
    X.assign(y=X["weight"] + rng.normal(size=60), **others).to_csv("data.csv", index=False)
    Path("network.bif").write_text(NETWORK, encoding="utf-8")
    fbed.select(pd.read_csv("data.csv"), "y").to_json("result.json")
    words = shlex.split(command.split(" > ")[0])
    assert main(words[1:]) == 0
    said = capsys.readouterr().err.replace("fbed: the report is in report.html\n", "")
    assert all(line.startswith("fbed: note: ") for line in said.splitlines())
    assert Path("kept.csv").exists() == ("--output" in command)


def test_targets_named_in_the_documents_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    documents = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^\$ |`)make (\w+)", documents, flags=re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named <= set(re.findall(r"^(\w+):", makefile, flags=re.MULTILINE))


def test_the_map_names_every_module():
    table = README.split("## The map of the source")[1].split("## ")[0]
    modules = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    packages = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    named = set(re.findall(r"`([\w]+\.py|\w+/)`", table))
    assert modules | packages <= named, "add them to the map in README.md"
    assert {name for name in named if "." in name} <= {path.name for path in SOURCE.rglob("*.py")}


def test_every_parameter_is_in_the_readme():
    import inspect

    table = README.split("## What can be chosen")[1].split("**The result**")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert set(inspect.signature(fbed.select).parameters) - {"X", "y", "feature_names"} <= named


def test_table_of_families_is_up_to_date():
    from fbed.families.__main__ import updated

    document = (ROOT / "docs" / "families.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in document for name in FAMILIES)
    assert updated(document) == document, "run: make docs"


def test_version_is_the_same_everywhere():
    assert f'version = "{fbed.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"\nversion: {fbed.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{fbed.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
