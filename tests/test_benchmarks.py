"""Every part of the benchmarks at toy size, so that their code keeps running; no other library is needed."""

import json
import sys

import numpy as np
import pytest
from benchmarks import sets
from benchmarks.__main__ import main
from benchmarks.contenders import CONTENDERS, largest_lambda, scaled, smallest_lambda_ratio
from benchmarks.problems import logistic, read, sparse_logistic
from benchmarks.race import Runner, race
from benchmarks.text import table
from scipy import sparse

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="contenders are stopped by signals of Unix")
OURS = ["fbed FBED^1", "fbed FBS", "twin FBED^1", "twin FBS"]


@pytest.fixture
def dense_file(tmp_path):
    problem = logistic(150, 12, 3)
    np.savez(tmp_path / "toy.npz", X=problem.X.astype(np.float32), y=problem.y + 1)
    return tmp_path / "toy.npz"


@pytest.fixture
def sparse_file(tmp_path):
    problem = sparse_logistic(200, 15, 4, 3)
    parts = {name: getattr(problem.X, name) for name in ("data", "indices", "indptr")}
    np.savez(tmp_path / "few.npz", **parts, shape=problem.X.shape, format=b"csc", y=problem.y)
    return tmp_path / "few.npz"


def test_files_of_both_kinds_are_read(dense_file, sparse_file):
    dense, few = read(dense_file), read(sparse_file)
    assert dense.X.flags.f_contiguous
    assert (dense.X.dtype, set(dense.y)) == (np.float64, {0.0, 1.0})
    assert sparse.issparse(few.X)
    assert (few.X.format, few.shape) == ("csc", (200, 15))


def test_our_searches_race_and_agree_with_the_twin(dense_file, sparse_file, tmp_path):
    asked = ["sets", "--quick", "--turns", "1", "--out", str(tmp_path / "results"), "--only", *OURS]
    assert main([*asked, "--data", str(dense_file), str(sparse_file)]) == 0
    found = json.loads((tmp_path / "results" / "sets.json").read_text())
    records = found["sets"]["toy"]["records"] + found["sets"]["few"]["records"]
    assert {r["check"] for r in records} == {"the exhaustive selection"}
    assert (tmp_path / "results" / "sets.svg").exists()
    assert "FBED^1" in (tmp_path / "RESULTS.md").read_text()


def test_a_contender_that_is_too_slow_is_stopped(dense_file, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.race.PATIENCE", 1e6)  # so that it is the processor's clock that stops it
    record = race(["twin FBS"], dense_file, tmp_path, threads=1, turns=1, limit=1e-3)[0]
    assert (record["trouble"], record["wall"]) == ("> 0.001 s", None)


def test_a_contender_that_is_not_installed_is_left_out(dense_file, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.race.program", lambda environment: None)
    assert race(["abess"], dense_file, tmp_path, threads=1, turns=1, limit=10)[0]["trouble"] == "not installed"


def test_a_contender_that_dies_is_reported(dense_file, tmp_path):
    runner = Runner(CONTENDERS["fbed FBED^0"], dense_file, tmp_path, threads=1, limit=10)
    runner.process.terminate()
    runner.process.wait()
    runner.turn()
    assert runner.standing.trouble == "failed: exit status -15"


def test_wrong_answers_are_noticed(dense_file):
    problem = read(dense_file)
    known = {"FBED^1": {"selected": [0, 1], "tests": 20, "by": "exhaustive"}}
    other = {"contender": "fbed FBED^1", "answer": {"selected": [1, 0], "tests": 20}}
    assert sets.judged(other, problem, known).startswith("WRONG")
    largest, ratio = largest_lambda(scaled(problem.X), problem.y), smallest_lambda_ratio(problem)
    whole = (largest * np.geomspace(1, ratio, 100)).tolist()
    path = {"contender": "glmnet (PyPI)", "answer": {"lambdas": whole}}
    assert sets.judged(path, problem, known) == "right"
    path["answer"]["lambdas"] = (np.array(whole) * 1.01).tolist()
    assert sets.judged(path, problem, known).startswith("WRONG")


def test_the_grid_is_measured_together_and_one_by_one(dense_file, tmp_path):
    assert main(["path", "--turns", "1", "--data", str(dense_file), "--out", str(tmp_path / "results")]) == 0
    found = json.loads((tmp_path / "results" / "path.json").read_text())["sets"][0]
    assert (len(found["alone"]), found["different"]) == (32, [])


@pytest.mark.parametrize(
    "part",
    [
        "limit",
        "growth",
        "rows",
        "memory",
        "families",
        "reading",
        "dummies",
        "categories",
        "classes",
        "shapes",
        "resampling",
        "tuning",
        "tuning_cost",
        "elsewhere",
        "cluster",
        "faults",
    ],
)
def test_other_parts_at_toy_size(part, tmp_path):
    assert main([part, "--quick", "--turns", "1", "--out", str(tmp_path / "results")]) == 0
    found = json.loads((tmp_path / "results" / f"{part}.json").read_text())
    assert found["machine"]["cores"] >= 1
    assert found["versions"]["own"]["numpy"] == np.__version__
    assert "|" in (tmp_path / "RESULTS.md").read_text()


def test_tables_are_aligned():
    assert table(["", "a"], [["name", "1.5"]]) == "|      |   a |\n| ---- | --: |\n| name | 1.5 |"
