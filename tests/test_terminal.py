"""What a person sees in a terminal of 80 columns, and what a program sees in a pipe."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed.api import progress
from fbed.cli.command import main, parser

if sys.platform == "win32":
    pytest.skip("terminals are another thing on Windows", allow_module_level=True)

import fcntl
import pty
import struct
import termios

SNAPSHOTS = Path(__file__).parent / "snapshots"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")},
    "PYTHONPATH": os.pathsep.join(sys.path),
    "PYTHONIOENCODING": "utf-8",
    "TERM": "xterm-256color",
}


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(300, 6)).round(4), columns=["age", "weight", "height", "dose", "pulse", "sugar"])
    X["a measurement whose name is much too long for a table in a terminal"] = (X["age"] + 0.3 * X["dose"]).round(4)
    X["centre"] = rng.choice(["north", "south", "west"], 300)
    signal = X["age"] - X["weight"] + (X["centre"] == "west") + 0.4 * X["pulse"] + rng.logistic(size=300)
    X.assign(ill=np.where(signal > 0, "yes", "no"), score=signal.round(4)).to_csv("data.csv", index=False)
    assert main(["select", "data.csv", "--target", "score", "--exclude", "ill", "--json"]) == 0
    Path("result.json").write_text(capsys.readouterr().out)
    return tmp_path


def in_a_terminal(*arguments: str, environment=None, type_after: tuple[str, bytes] | None = None):
    """Status and raw output of a command in a terminal of 80 columns; keys can be typed once a text has appeared."""
    command = [sys.executable, "-m", "fbed", *arguments]
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**ENVIRONMENT, **(environment or {})},
        preexec_fn=_own_the_terminal,
    )
    os.close(follower)
    output, deadline = b"", time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other side was closed
            break
        if not part:
            break
        output += part
        if type_after is not None and type_after[0].encode() in output:
            os.write(leader, type_after[1])
            type_after = None
    os.close(leader)
    return process.wait(timeout=30), output.decode()


def _own_the_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def in_a_pipe(*arguments: str, **options):
    command = [sys.executable, "-m", "fbed", *arguments]
    return subprocess.run(command, capture_output=True, env=ENVIRONMENT, encoding="utf-8", timeout=90, **options)


def screen(output: str) -> str:
    """What is left to see of an output: carriage returns, erased lines and cursor moves carried out, colours gone."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for code, final, char in re.findall(r"\x1b\[([?\d;]*)([A-Za-z])|(.)", output, flags=re.DOTALL):
        if final == "K":
            lines[row] = [] if code == "2" else lines[row][:column]
        elif final == "A":
            row = max(0, row - int(code or 1))
        elif char == "\r":
            column = 0
        elif char == "\n":
            row += 1
            lines += [[] for _ in range(row + 1 - len(lines))]
        elif char:
            lines[row] += " " * (column + 1 - len(lines[row]))
            lines[row][column] = char
            column += 1
    return "\n".join("".join(line).rstrip() for line in lines)


def same(text: str) -> str:
    """Text with the figures taken out that differ from day to day."""
    return re.sub(r"in [\d.e-]+ s", "in 0 s", text)


SHOWN = {
    "select": ["select", "data.csv", "--target", "ill", "--exclude", "score"],
    "ebic": ["select", "data.csv", "--target", "score", "--exclude", "ill", "--criterion", "ebic", "-k", "inf"],
    "explain": ["explain", "result.json", "dose"],
    "exactly": ["explain", "result.json", "dose", "--data", "data.csv"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_output_in_a_pipe(name, folder):
    done = in_a_pipe(*SHOWN[name])
    assert done.returncode == 0
    assert all(line.startswith("fbed: note: ") for line in done.stderr.splitlines())
    assert max(map(len, done.stdout.split("\n"))) <= 80
    snapshot = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("FBED_WRITE_SNAPSHOTS"):
        snapshot.write_text(same(done.stdout), encoding="utf-8")
    assert same(done.stdout) == snapshot.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHOWN)
def test_output_in_a_terminal_is_the_same_but_for_colours(name, folder):
    status, output = in_a_terminal(*SHOWN[name])
    assert status == 0
    assert same(screen(output)).startswith((SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8"))  # then notes


def test_colours_are_for_terminals_that_want_them(folder):
    bold = "\x1b[1mFBED^1 selected"
    assert bold in in_a_terminal(*SHOWN["select"])[1]
    assert bold not in in_a_terminal(*SHOWN["select"], environment={"NO_COLOR": "1"})[1]
    assert bold not in in_a_terminal(*SHOWN["select"], environment={"TERM": "dumb"})[1]
    assert "\x1b" not in in_a_pipe(*SHOWN["select"]).stdout


@pytest.fixture
def long_work(tmp_path, monkeypatch):
    """A selection of dozens of scans that takes seconds."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12000, 800))
    np.savez("data.npz", X=X, y=X[:, :80].sum(axis=1) + 4 * rng.normal(size=12000) > 0)
    return ["select", "data.npz", "--fbs"]


@pytest.mark.parametrize("kind", ["rich", "plain"])
def test_progress_tells_and_leaves_nothing(kind, long_work):
    environment = {} if kind == "rich" else {"TERM": "dumb"}
    status, output = in_a_terminal(*long_work, "--max-features", "30", environment=environment)
    assert status == 0
    told = re.findall(r"run 0, step (\d+): (\d+) selected, ([\d,]+) remaining, ([\d,]+) tests, \+(\d+)", output)
    assert told
    assert all(step == selected for step, selected, *_ in told)
    assert int(told[0][2].replace(",", "")) == 800 - int(told[0][0])
    assert screen(output).startswith("FBS selected 30 variables of 800\n")
    assert "remaining" not in screen(output)


def test_progress_is_silent_when_asked(folder):
    status, output = in_a_terminal(*SHOWN["select"], "--quiet")
    assert status == 0
    assert "remaining" not in output
    assert "first scan" not in output


@pytest.mark.parametrize("kind", ["rich", "plain"])
def test_interrupt_from_the_keyboard_keeps_what_was_found(kind, long_work):
    environment = {} if kind == "rich" else {"TERM": "dumb"}
    status, output = in_a_terminal(*long_work, environment=environment, type_after=("step ", b"\x03"))
    assert status == 130
    assert re.search(r"FBS selected [1-9]\d* variables? of 800\s", screen(output))
    assert "status     interrupted" in screen(output)


def test_progress_in_a_notebook(monkeypatch):
    shown = []

    class Handle:
        def update(self, data, raw):
            assert raw
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return Handle()

    shell = type("ZMQInteractiveShell", (), {})()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    X = np.random.default_rng(0).normal(size=(50, 4))
    fbed.select(X, X[:, 0] + X[:, 1], progress=True)
    assert shown[0] == "first scan"
    assert shown[1].startswith("run 0, step 1: 1 selected, ")
    assert shown[-1] == ""


def test_without_rich_there_is_a_line(monkeypatch):
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda: True))
    assert progress.display().func is progress._line.__wrapped__


def completed(shell: str, script: str, words: list[str]) -> list[str]:
    if shell == "bash":
        listed = " ".join(f"'{word}'" for word in words)
        code = f'COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _fbed; printf "%s\\n" "${{COMPREPLY[@]}}"'
    else:
        code = f"complete -C '{' '.join(words)}' | cut -f1"
    command = [shell, "--norc"] if shell == "bash" else [shell, "--no-config"]
    done = subprocess.run([*command, "-c", f"{script}\n{code}"], capture_output=True, encoding="utf-8", timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completion(shell, capsys, tmp_path, monkeypatch):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    monkeypatch.chdir(tmp_path)
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert completed(shell, script, ["fbed", "expl"]) == ["explain"]
    assert completed(shell, script, ["fbed", "select", "--crit"]) == ["--criterion"]
    assert {"--target", "--report", "--quiet"} <= set(completed(shell, script, ["fbed", "select", "--"]))
    assert set(completed(shell, script, ["fbed", "completion", ""])) == {"bash", "zsh", "fish"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_completion_of_zsh(capsys, tmp_path):
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_fbed").write_text(capsys.readouterr().out, encoding="utf-8")
    code = f"""
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "PS1='>'; fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; setopt no_beep"
    zpty -w shell "echo rea''dy"
    zpty -r shell _ '*ready*'
    zpty -n -w shell $'fbed select --crit\\t'
    zpty -r shell shown '*--criterion*'
    print -r -- $shown
    """
    done = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    assert "--criterion" in done.stdout


def test_help_fits_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    commands = next(a for a in parser()._actions if getattr(a, "choices", None)).choices
    assert {"select", "path", "report", "explain", "tune", "predict", "stability"} <= set(commands)
    for arguments in ([], *([name] for name in commands)):
        with pytest.raises(SystemExit):
            main([*arguments, "--help"])
        assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == [], arguments


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_told_in_one_line(folder):
    command = [sys.executable, "-m", "fbed", "select", "data.csv", "--target", "score", "--exclude", "ill", "--quiet"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith("fbed: error: the output cannot be read or written: No space left")
    assert "Traceback" not in ended.stderr
