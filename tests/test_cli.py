"""The command line: every format in and out, what is printed where, and the exit status."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import fbed
from fbed.api import progress
from fbed.cli.command import main
from fbed.tables import readers

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(150, 4)).round(6), columns=list("abcd"))
    X["colour"] = rng.choice(["red", "green", "blue"], 150)
    X["y"] = (2 * X["c"] - X["a"] + 3 * (X["colour"] == "red") + rng.normal(size=150)).round(6)
    X["times"] = rng.integers(0, 3, 150)
    return X


@pytest.fixture
def matrix():
    rng = np.random.default_rng(3)
    X = rng.random((150, 20)) * (rng.random((150, 20)) < 0.4)
    return sparse.csc_array(X), (4 * X[:, 7] + rng.normal(size=150) > 0.5).astype(int)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def without_cautions(err: str) -> str:
    """What was said besides the cautions that small tables deserve."""
    return "".join(line for line in err.splitlines(True) if "for each coefficient that could be selected" not in line)


@pytest.fixture
def run(capsys):
    def command(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, without_cautions(err)

    return command


def selected(output: tuple[int, str, str]) -> tuple[str | int, ...]:
    status, out, err = output
    assert (status, err) == (0, "")
    return fbed.Result.from_json(out).selected


FRAME_WRITERS = {
    "data.csv": lambda X, path: X.to_csv(path, index=False),
    "data.csv.gz": lambda X, path: X.to_csv(path, index=False),
    "data.csv.bz2": lambda X, path: X.to_csv(path, index=False),
    "DATA.CSV": lambda X, path: X.to_csv(path, index=False),
    "data.tsv": lambda X, path: X.to_csv(path, index=False, sep="\t"),
    "data.tsv.gz": lambda X, path: X.to_csv(path, index=False, sep="\t"),
    "data.parquet": lambda X, path: X.to_parquet(path),
    "data.feather": lambda X, path: X.to_feather(path),
}


@pytest.mark.parametrize("name", FRAME_WRITERS)
def test_tables_with_names(name, table, folder, run):
    FRAME_WRITERS[name](table, name)
    expected = fbed.select(table.drop(columns="times"), "y")
    assert expected.selected == ("c", "colour", "a")
    assert selected(run("select", name, "--target", "y", "--exclude", "times", "--json")) == expected.selected


@pytest.mark.parametrize("count_from", [0, 1])
@pytest.mark.parametrize("name", ["data.svm", "data.svmlight", "data.libsvm.gz", "data.svm.bz2"])
def test_svmlight_columns_are_called_by_their_number_in_the_file(name, count_from, matrix, folder, run):
    X, y = matrix
    with readers.opened_file(name) as file:
        dump_svmlight_file(X, y, file, zero_based=not count_from)
    status, out, _ = run("select", name, "--criterion", "ebic", "--json")
    result = fbed.Result.from_json(out)
    assert (status, result.selected, result.n_variables) == (0, (str(7 + count_from),), 20)
    assert result.classes == (0, 1)


def test_npz_of_numpy(matrix, folder, run):
    X, y = matrix
    np.savez("data.npz", X=X.toarray(), y=y, other=-y)
    assert selected(run("select", "data.npz", "--criterion", "ebic", "--json")) == (7,)
    assert selected(run("select", "data.npz", "--criterion", "ebic", "--target", "other", "--json")) == (7,)


def test_npz_of_numpy_with_names(matrix, folder, run):
    X, y = matrix
    np.savez("data.npz", X=X.toarray(), y=y, feature_names=[f"gene {j}" for j in range(20)])
    assert selected(run("select", "data.npz", "--criterion", "ebic", "--json")) == ("gene 7",)
    assert "gene 7" not in selected(run("select", "data.npz", "--exclude", "gene 7", "--json"))


@pytest.mark.parametrize("form", ["csc", "csr", "coo"])
def test_npz_of_scipy(form, matrix, folder, run):
    X, y = matrix
    sparse.save_npz("bare.npz", X.asformat(form))
    with np.load("bare.npz") as bare:
        np.savez("data.npz", **bare, y=y)
    assert selected(run("select", "data.npz", "--criterion", "ebic", "--json")) == (7,)
    status, _, err = run("select", "bare.npz")
    assert (status, err) == (2, "fbed: error: --target 'y' is not in the file: the arrays beside the matrix are none\n")


def test_other_separators(table, folder, run):
    table.to_csv("data.csv", sep=";", index=False)
    table.to_csv("data.txt", sep="\t", index=False)
    assert selected(run("select", "data.csv", "--target", "y", "--sep", ";", "--json"))[:2] == ("c", "colour")
    assert selected(run("select", "data.txt", "--target", "y", "--sep", "\\t", "--json"))[:2] == ("c", "colour")
    status, _, err = run("select", "data.csv", "--target", "y")
    assert status == 2
    assert "say --sep ';'" in err


def test_standard_input(table, run, monkeypatch):
    content = table.to_csv(index=False).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert selected(run("select", "-", "--target", "y", "--json"))[:2] == ("c", "colour")


def test_saved_row_numbers_are_no_predictor(table, folder, run):
    table.sort_values("y", ignore_index=True).to_csv("data.csv")
    status, out, err = run("select", "data.csv", "--target", "y", "--json")
    assert status == 0
    assert fbed.Result.from_json(out).selected[:2] == ("c", "colour")
    assert err == "fbed: note: the first column has no name and holds row numbers: left out\n"


def test_every_option_reaches_the_search(table, folder, run):
    table.to_csv("data.csv", index=False)
    cases = [
        (["-k", "0"], {"k": 0}),
        (["-k", "inf"], {"k": float("inf")}),
        (["--fbs"], {"early_dropping": False}),
        (["--criterion", "ebic", "--gamma", "0.5"], {"criterion": "ebic", "gamma": 0.5}),
        (["--criterion", "AIC"], {"criterion": "aic"}),
        (["--alpha", "0.3", "--alpha-backward", "0.4"], {"alpha": 0.3, "alpha_backward": 0.4}),
        (["--no-backward"], {"backward": False}),
        (["--max-features", "1"], {"max_features": 1}),
        (["--weights", "times"], {"sample_weight": "times"}),
        (["--include", "b", "3", "--exclude", "colour"], {"include": ["b", "d"], "exclude": ["colour"]}),
        (["--n-jobs", "2", "--time-limit", "60"], {"n_jobs": 2, "time_limit": 60.0}),
        (["--family", "gaussian"], {"family": "gaussian"}),
    ]
    for options, settings in cases:
        _, out, err = run("select", "data.csv", "--target", "y", "--json", *options)
        found, expected = fbed.Result.from_json(out), fbed.select(table, "y", **settings)
        assert err == ""
        assert found.selected == expected.selected, options
        assert found.settings == expected.settings, options
        assert found.n == expected.n


def test_summary_fits_a_terminal(table, folder, run):
    table.rename(columns={"c": "a name that is much too long for a column " * 3}).to_csv("data.csv", index=False)
    status, out, err = run("select", "data.csv", "--target", "y", "--criterion", "ebic")
    assert (status, err) == (0, "")
    assert out.startswith("FBED^1 selected 3 variables of 6\n")
    assert max(len(line) for line in out.split("\n")) <= 80


def test_json_is_all_there_is_on_standard_output(table, folder, run):
    table.to_csv("data.csv", index=False)
    _, out, _ = run("select", "data.csv", "--target", "y", "--json")
    assert json.loads(out)["schema"] == 3
    assert out.count("\n") == 1


@pytest.mark.parametrize("name", ["kept.csv", "kept.tsv.gz", "kept.csv.xz", "kept.parquet", "kept.feather"])
def test_output_of_a_table(name, table, folder, run):
    table.to_csv("data.csv", index=False)
    assert run("select", "data.csv", "--target", "y", "--exclude", "times", "--output", name)[0] == 0
    kept = readers.read(name).table
    pd.testing.assert_frame_equal(kept, table[["c", "colour", "a", "y"]])
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["kept.npz", "kept.svm", "kept.libsvm.gz", "kept.csv"])
def test_output_of_a_matrix(name, matrix, folder, run):
    X, y = matrix
    dump_svmlight_file(X, y, "data.svm", zero_based=False)
    assert run("select", "data.svm", "--alpha", "0.2", "--output", name)[0] == 0
    chosen = [int(j) for j in selected(run("select", "data.svm", "--alpha", "0.2", "--json"))]
    kept = readers.read(name)
    if name == "kept.csv":
        assert list(kept.table.columns) == [*map(str, chosen), "y"]
        values = kept.table[[*map(str, chosen)]].to_numpy()
    else:
        values = kept.table[:, [kept.names.index(str(j)) for j in chosen]].toarray()
    assert_allclose(values, X[:, [j - 1 for j in chosen]].toarray(), rtol=1e-12)
    assert_array_equal(kept.vector("y", "--target"), y)


def test_output_of_a_numeric_table_as_a_matrix(table, folder, run):
    table.drop(columns="colour").to_csv("data.csv", index=False)
    assert run("select", "data.csv", "--target", "y", "--output", "kept.npz")[0] == 0
    with np.load("kept.npz") as kept:
        names = list(kept["feature_names"])
        assert names[0] == "c"
        assert_allclose(kept["X"], table[names])
        assert_allclose(kept["y"], table["y"])
    assert run("select", "data.csv", "--target", "y", "--output", "kept.svm.gz")[0] == 0
    X, y = load_svmlight_file("kept.svm.gz")
    assert_allclose(X.toarray(), table[names])
    assert_allclose(y, table["y"])


def test_labels_survive_in_npz(table, folder, run):
    table.assign(y=np.where(table["y"] > 0, "ill", "well"), colour=0).to_csv("data.csv", index=False)
    assert run("select", "data.csv", "--target", "y", "--output", "kept.npz")[0] == 0
    assert set(np.load("kept.npz")["y"]) == {"ill", "well"}


BAD_CALLS = {
    "no file": (["select", "nowhere.csv", "--target", "y"], "nowhere.csv: no such file"),
    "folder": (["select", ".", "--target", "y"], "this is a folder"),
    "unknown kind": (["select", "data.doc", "--target", "y"], "unknown kind of file; expected .csv"),
    "no target": (
        ["select", "data.csv"],
        "say which column is the outcome with --target (or --time and --event): the columns are 'a'",
    ),
    "unknown target": (["select", "data.csv", "--target", "z"], "--target 'z' is not in the file"),
    "unknown weights": (["select", "data.csv", "--target", "y", "--weights", "z"], "--weights 'z' is not in the file"),
    "unknown include": (["select", "data.csv", "--target", "y", "--include", "z"], "include names 'z'"),
    "long separator": (["select", "data.csv", "--target", "y", "--sep", "::"], "--sep must be one character"),
    "alpha of ebic": (
        ["select", "data.csv", "--criterion", "ebic", "--alpha", ".1"],
        "--alpha belongs to --criterion lr",
    ),
    "gamma of lr": (["select", "data.csv", "--gamma", ".1"], "--gamma belongs to --criterion ebic"),
    "k of fbs": (["select", "data.csv", "--fbs", "-k", "1"], "--fbs drops nothing"),
    "k": (["select", "data.csv", "-k", "many"], "expected 0, 1, 2, … or inf, got 'many'"),
    "output folder": (["select", "data.csv", "--target", "y", "--output", "no/kept.csv"], "there is no folder no"),
    "output kind": (["select", "data.csv", "--target", "y", "--output", "kept.doc"], "unknown kind of file"),
    "output is input": (["select", "data.csv", "--target", "y", "--output", "data.csv"], "would overwrite the input"),
    "text as svmlight": (["select", "data.csv", "--target", "y", "--output", "kept.svm"], "not the text of 'colour'"),
    "unknown command": (["choose"], "invalid choice: 'choose'"),
    "unknown option": (["select", "data.csv", "--speed", "9"], "unrecognized arguments: --speed 9"),
    "demo rows": (["demo", "--rows", "2"], "--rows must be at least 10"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_calls(arguments, message, table, folder, run):
    table.to_csv("data.csv", index=False)
    (folder / "data.doc").write_bytes(b"PK")
    status, _, err = run(*arguments)
    assert status == 2
    assert err.startswith("fbed: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not [path for path in folder.iterdir() if "kept" in path.name]


BAD_FILES = {
    "empty.csv": b"",
    "binary.csv": b"\xff\xfe\x00\x01",
    "ragged.csv": b"a,y\n1,2\n3,4,5\n",
    "extra.csv": b"a,y\n1,2,3\n4,5,6\n",
    "header.csv": b"a,y\n",
    "twice.csv": b"a,a,y\n1,2,3\n4,5,6\n7,8,10\n",
    "cut.csv.gz": gzip.compress(b"a,y\n" + b"1,2\n" * 1000)[:40],
    "not.csv.gz": b"a,y\n1,2\n",
    "not.parquet": b"hello",
    "not.feather": b"hello",
    "not.svm": b"hello\n",
    "not.npz": b"hello",
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name, folder, run):
    (folder / name).write_bytes(BAD_FILES[name])
    status, out, err = run("select", name, "--target", "y")
    assert (status, out) == (2, "")
    assert err.startswith("fbed: error: ")
    assert err.count("\n") == 1


def test_npz_without_a_matrix(folder, run):
    np.savez("data.npz", A=np.ones((3, 3)))
    assert "expected an array X, or a matrix saved by scipy.sparse.save_npz, found 'A'" in run("select", "data.npz")[2]
    np.savez("data.npz", X=np.array([{}], dtype=object), y=[1])
    assert run("select", "data.npz")[0] == 2


def test_without_pandas_the_message_says_what_to_install(folder, run, monkeypatch):
    (folder / "data.csv").write_text("a,y\n1,2\n")
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert run("select", "data.csv", "--target", "y")[2].endswith("pip install pandas pyarrow\n")


def test_remedies_are_spelt_as_options(table, folder, run):
    table.assign(id=[f"P{i}" for i in range(150)]).to_csv("data.csv", index=False)
    assert "leave it out with --exclude 'id'" in run("select", "data.csv", "--target", "y")[2]


def test_help_and_version(capsys):
    for arguments, expected in (
        (["--help"], "fbed select data.csv --target y"),
        (["select", "--help"], "fbed select data.csv --target y --criterion ebic --output kept.csv"),
        (["demo", "--help"], "--seed"),
        (["--version"], f"fbed {fbed.__version__}"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert expected in capsys.readouterr().out


def test_interrupt_prints_what_was_found(table, folder, run, monkeypatch):
    table.to_csv("data.csv", index=False)

    def stop_at_the_second_scan(now):
        if now.step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(progress, "display", lambda: contextlib.nullcontext(stop_at_the_second_scan))
    status, out, err = run("select", "data.csv", "--target", "y", "--json", "--output", "kept.csv")
    result = fbed.Result.from_json(out)
    assert (status, err, result.status) == (130, "", "interrupted")
    assert result.selected == ("c", "colour")
    assert list(pd.read_csv("kept.csv").columns) == ["c", "colour", "y"]


def test_interrupt_while_reading(folder, run, monkeypatch):
    (folder / "data.csv").write_text("a,y\n1,2\n")

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(readers, "read", stop)
    assert run("select", "data.csv", "--target", "y") == (130, "", "\nfbed: interrupted\n")


class Terminal(io.StringIO):
    """Remembers what a person would see on the current line."""

    def isatty(self) -> bool:
        return True

    @property
    def line(self) -> str:
        shown: list[str] = []
        for text in self.getvalue().split("\r"):
            shown[: len(text)] = text
        return "".join(shown).rstrip()


@pytest.mark.parametrize("settings", [{}, {"backward": False}, {"max_features": 1}, {"time_limit": 0}])
def test_progress_leaves_nothing_on_the_terminal(settings, table, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")  # where a line is all that can be drawn
    fbed.select(table, "y", progress=True, **settings)
    if "time_limit" not in settings:
        assert "run 0, step 1: 1 selected" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()
    assert terminal.line == ""


def test_progress_is_silent_without_a_terminal(table, capsys):
    fbed.select(table, "y", progress=True)
    assert capsys.readouterr() == ("", "")


def in_a_process(*arguments: str, **options):
    command = [sys.executable, "-m", "fbed", *arguments]
    return subprocess.run(command, capture_output=True, env=ENVIRONMENT, encoding="utf-8", timeout=60, **options)


def test_as_a_process_reading_standard_input(table):
    done = in_a_process("select", "-", "--target", "y", input=table.to_csv(index=False))
    assert (done.returncode, without_cautions(done.stderr)) == (0, "")
    assert done.stdout.startswith("FBED^1 selected 3 variables of 6")


def test_as_a_process_with_bad_input():
    done = in_a_process("select", "nowhere.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fbed: error: nowhere.csv: no such file\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another thing on Windows")
def test_as_a_process_with_a_real_interrupt(table, folder):
    table.to_csv("data.csv", index=False)
    code = (
        "import contextlib, os, signal, sys\n"
        "import fbed.api.progress\n"
        "from fbed.cli.command import main\n"
        "stop = lambda now: os.kill(os.getpid(), signal.SIGINT)\n"
        "fbed.api.progress.display = lambda: contextlib.nullcontext(stop)\n"
        "sys.exit(main(['select', 'data.csv', '--target', 'y']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=ENVIRONMENT, encoding="utf-8", timeout=60
    )
    assert (done.returncode, without_cautions(done.stderr)) == (128 + signal.SIGINT, "")
    assert "status     interrupted" in done.stdout
    assert done.stdout.startswith("FBED^1 selected 1 variable of 6")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are another thing on Windows")
def test_as_a_process_into_a_closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "fbed", "demo"], stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_as_a_process_on_a_terminal_without_unicode(table):
    done = subprocess.run(
        [sys.executable, "-m", "fbed", "select", "-", "--target", "y", "-k", "inf"],
        input=table.to_csv(index=False).encode(),
        capture_output=True,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert (done.returncode, without_cautions(done.stderr.decode())) == (0, "")
    assert done.stdout.startswith(b"FBED^? selected")


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 0
    assert "examples:" in capsys.readouterr().out


def test_all_columns_that_cannot_be_used_are_named_at_once(tmp_path, capsys):
    rows = [f"p{i},2020-01-{i % 28 + 1:02d},{i * 7 % 13},{'yes' if i % 3 else 'no'}" for i in range(40)]
    (tmp_path / "data.csv").write_text("\n".join(["id,day,age,outcome", *rows]), encoding="utf-8")
    assert main(["select", str(tmp_path / "data.csv"), "--target", "Outcome"]) == 2
    assert "did you mean 'outcome'?" in capsys.readouterr().err
    arguments = ["select", str(tmp_path / "data.csv"), "--target", "outcome"]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "2 columns cannot be used" in error
    assert error.rstrip().endswith("leave them out with --exclude 'id' 'day'")
    assert main([*arguments, "--exclude", "id", "day"]) == 0


def test_what_is_asked_for_is_spelt_as_options(table, folder, run):
    table.assign(months=1.0 + np.abs(table["a"]), died=table["times"] > 0).to_csv("data.csv", index=False)
    assert "needs --cluster: one value" in run("select", "data.csv", "--target", "y", "--family", "mixed")[2]
    assert "two columns, --time and --event" in run("select", "data.csv", "--target", "y", "--family", "cox")[2]
    survival = ("select", "data.csv", "--time", "months", "--event", "died", "--json")
    (folder / "cox.json").write_text(run(*survival)[1])
    err = run("predict", "cox.json", "data.csv", "--kind", "survival")[2]
    assert "--kind survival goes with --times" in err
