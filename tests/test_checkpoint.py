"""Searches that are killed go on where they were, and checkpoints of other searches are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fbed
from elsewhere_cases import LIMIT, as_frame, assert_same_answer
from fbed.search import checkpoint as checkpoints
from fbed.search.scan import Scanner

FAMILIES = ("gaussian", "binomial", "poisson", "cox", "multinomial", "spearman", "robust")


def data(family, n=300, p=12):
    rng = np.random.default_rng(len(family))
    X = rng.normal(size=(n, p))
    signal_ = X[:, 0] + 0.5 * X[:, 1] + 0.3 * X[:, 2]
    outcomes = {
        "binomial": (signal_ + rng.logistic(size=n) > 0).astype(int),
        "poisson": rng.poisson(np.exp(0.3 * signal_)),
        "cox": (rng.exponential(size=n) * np.exp(-signal_), rng.random(n) < 0.7),
        "multinomial": np.digitize(signal_ + rng.normal(size=n), [-0.5, 0.5]),
    }
    return X, outcomes.get(family, signal_ + rng.normal(size=n))


class Killed(BaseException):
    """Ends a search as a signal would, with nothing tidied up."""


def kill_after(monkeypatch, answers):
    """The scanner dies when it is asked once more than that."""
    left = [answers]

    def dying(method):
        def ask(self, *arguments):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return method(self, *arguments)

        return ask

    for name in ("forward", "backward", "saturated"):
        monkeypatch.setattr(Scanner, name, dying(getattr(Scanner, name)))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_search_goes_on_wherever_it_was_killed(family, tmp_path, monkeypatch):
    X, y = data(family)
    options = {"family": family, "alpha": 0.2, "k": 1}
    expected = fbed.select(X, y, **options)
    path = tmp_path / "run.fbed"
    for answers in range(1, 4):  # so many steps at a time, killed after each
        with monkeypatch.context() as patch:
            kill_after(patch, answers)
            with pytest.raises(Killed):
                fbed.select(X, y, checkpoint=path, **options)
        known = len(path.read_text().splitlines()) - 1
        assert known == sum(range(1, answers + 1))
    found = fbed.select(X, y, checkpoint=path, **options)
    assert_same_answer(expected, found)
    assert [row.critical for row in found.trace] == [row.critical for row in expected.trace]
    assert found.model.coefficients == pytest.approx(expected.model.coefficients, rel=1e-7)
    again = fbed.select(X, y, checkpoint=path, **options)  # nothing is left to ask
    assert_same_answer(expected, again)


def test_what_is_read_back_is_what_was_found(tmp_path, monkeypatch):
    X, y = data("gaussian")
    found = fbed.select(X, y, checkpoint=tmp_path / "run.fbed")
    with monkeypatch.context() as patch:
        kill_after(patch, 0)
        told = fbed.select(X, y, checkpoint=tmp_path / "run.fbed")
    assert [row.statistic for row in told.trace] == [row.statistic for row in found.trace]
    assert [row.runners_up for row in told.trace] == [row.runners_up for row in found.trace]
    assert told.candidates.lower.tolist() == found.candidates.lower.tolist()
    assert told.candidates.upper.tolist() == found.candidates.upper.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.01}, "other options: criterion was"),
        ({"k": 0}, "other options"),
        ({"include": [3]}, "other options: include was"),
        ({"family": "robust"}, "other options: family was"),
        ({"missing": "drop"}, "other options: missing was"),
        ({"X": 1}, "other data: moments"),
        ({"y": 1}, "other data: outcome"),
        ({"rows": 1}, "other data: rows was 300 and is 299"),
    ],
)
def test_other_options_and_data_are_refused(change, message, tmp_path):
    X, y = data("gaussian")
    fbed.select(X, y, checkpoint=tmp_path / "run.fbed")
    changed = dict(change)
    if changed.pop("X", None):
        X = X + 1e-9
    if changed.pop("y", None):
        y = y * (1 + 1e-15)
    if changed.pop("rows", None):
        X, y = X[:-1], y[:-1]
    before = (tmp_path / "run.fbed").read_bytes()
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.select(X, y, checkpoint=tmp_path / "run.fbed", **changed)
    assert (tmp_path / "run.fbed").read_bytes() == before


def test_what_changes_no_answer_may_differ(tmp_path):
    X, y = data("gaussian")
    one = fbed.select(X, y, checkpoint=tmp_path / "run.fbed")
    two = fbed.select(X, y, checkpoint=tmp_path / "run.fbed", n_jobs=2, time_limit=100)
    assert one.selected == two.selected


def test_a_file_that_was_touched_is_other_data(tmp_path):
    X, y = data("gaussian")
    table = tmp_path / "t.parquet"
    as_frame(X).to_parquet(table)
    options = {"memory_limit": LIMIT, "checkpoint": tmp_path / "run.fbed"}
    fbed.select(table, y, **options)
    os.utime(table, (1, 1))
    with pytest.raises(fbed.InvalidInput, match="other data: files"):
        fbed.select(table, y, **options)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[1]\n", b'{"fbed checkpoint": 99}\n', b"\xff\xfe"])
def test_what_is_no_checkpoint_is_refused(content, tmp_path):
    X, y = data("gaussian")
    (tmp_path / "run.fbed").write_bytes(content)
    with pytest.raises(fbed.InvalidInput, match="checkpoint"):
        fbed.select(X, y, checkpoint=tmp_path / "run.fbed")
    assert (tmp_path / "run.fbed").read_bytes() == content


def test_a_folder_that_does_not_exist(tmp_path):
    X, y = data("gaussian")
    with pytest.raises(fbed.InvalidInput, match="cannot be written"):
        fbed.select(X, y, checkpoint=tmp_path / "nowhere" / "run.fbed")


def test_a_full_disk_does_not_end_the_search(tmp_path):
    """The system refuses to let a file grow: the search goes on, says so, and the last complete file stays."""
    script = f"""
import resource, numpy as np, fbed, pathlib
rng = np.random.default_rng(1)
X = rng.normal(size=(200, 60)); y = X[:, :4].sum(axis=1) + rng.normal(size=200)
path = pathlib.Path({str(tmp_path / "run.fbed")!r})
whole = fbed.select(X, y, alpha=0.2)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
found = fbed.select(X, y, alpha=0.2, checkpoint=path)
assert found.selected == whole.selected and found.n_tests == whole.n_tests
assert any("could not be written" in note for note in found.notes), found.notes
assert 0 < path.stat().st_size <= 6000
assert [p.name for p in path.parent.iterdir()] == ["run.fbed"]
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
again = fbed.select(X, y, alpha=0.2, checkpoint=path)
assert again.selected == whole.selected
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SCRIPT = """
import sys, fbed
result = fbed.select(sys.argv[1], "y", family="binomial", alpha=0.2, memory_limit="2GB", checkpoint=sys.argv[2])
result.to_json(sys.argv[3])
"""


def lines_of(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_killed_at_random_moments(tmp_path):
    """SIGKILL, and again; then the search comes to its end."""
    rng = np.random.default_rng(3)
    frame = as_frame(rng.normal(size=(20_000, 40)))
    frame["y"] = (frame.iloc[:, :8].sum(axis=1) + 3 * rng.logistic(size=len(frame)) > 0).astype(int)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=2000)
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        *(str(tmp_path / name) for name in ("t.parquet", "run.fbed", "result.json")),
    ]
    for answers in (1, 5):  # killed at a random moment after so many
        running = subprocess.Popen(command)
        while running.poll() is None and lines_of(tmp_path / "run.fbed") <= answers:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.05))
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
    subprocess.run(command, check=True)
    expected = fbed.select(frame, "y", family="binomial", alpha=0.2)
    found = fbed.Result.from_json(tmp_path / "result.json")
    assert_same_answer(expected, found)
    assert json.loads((tmp_path / "run.fbed").read_text().splitlines()[0])["fbed checkpoint"] == checkpoints.FORMAT
