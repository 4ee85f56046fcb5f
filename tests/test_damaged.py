"""Damaged and hostile files and matrices: one line that says what is wrong, never a traceback, a crash or a hang."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
import zipfile

import numpy as np
import pytest
from scipy import sparse

import fbed
from fbed.cli.command import main
from fbed.errors import InvalidInput
from fbed.graphs import DiscreteNetwork
from fbed.tables.sparsity import checked_csc

RNG = np.random.default_rng(3)


def refused(capsys, *arguments: str) -> str:
    """The one line that the command line answers with, and status 2."""
    assert main(list(arguments)) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert out.err.startswith("fbed: error: ")
    return out.err


# -- sparse matrices -------------------------------------------------------------------------------------------------


def sound(form: str = "csc"):
    return sparse.csc_array((RNG.random((12, 5)) < 0.5).astype(float)).asformat(form)


def broken_matrices():
    """Matrices whose parts SciPy does not look at until it is too late."""
    for form in ("csc", "csr", "bsr"):
        for where, value in (("indices", 10**6), ("indices", -7), ("indptr", -3), ("indptr", 10**6)):
            matrix = sound(form)
            getattr(matrix, where)[1] = value
            yield f"{form}-{where}-{value}", matrix
        matrix = sound(form)
        matrix.indptr = matrix.indptr[:-1]
        yield f"{form}-short", matrix
        matrix = sound(form)
        matrix.data = matrix.data[:2]
        yield f"{form}-data", matrix
    for axis in range(2):
        matrix = sound("coo")
        matrix.coords[axis][0] = 10**6
        yield f"coo-{axis}", matrix
    matrix = sound("dia")
    matrix.offsets = matrix.offsets[:-1]
    yield "dia", matrix
    matrix = sound("lil")
    matrix.rows[0] = [10**6] * len(matrix.data[0])
    yield "lil-index", matrix
    matrix = sound("lil")
    matrix.rows[0] = [0, 1, 2, 3, 4]
    matrix.data[0] = [1.0]
    yield "lil-length", matrix
    matrix = sound("dok")
    matrix._dict[(10**6, 2)] = 1.0
    yield "dok", matrix


@pytest.mark.parametrize("matrix", [pytest.param(m, id=name) for name, m in broken_matrices()])
def test_a_broken_sparse_matrix_is_refused_by_every_door(matrix):
    y = RNG.normal(size=12)
    with pytest.raises(InvalidInput, match="parts do not fit together"):
        fbed.select(matrix, y)
    with pytest.raises(InvalidInput, match="parts do not fit together"):
        fbed.FBEDSelector().fit(matrix, y)
    fitted = fbed.FBEDSelector().fit(sound(), y)
    with pytest.raises(InvalidInput, match="parts do not fit together"):
        fitted.transform(matrix)
    with pytest.raises(InvalidInput, match="parts do not fit together"):
        fitted.result_.transform(matrix)


@pytest.mark.parametrize("form", ["csc", "csr", "bsr", "coo", "dia", "lil", "dok"])
def test_a_sound_sparse_matrix_passes_in_every_format(form):
    matrix = sound(form)
    np.testing.assert_array_equal(checked_csc(matrix).toarray(), matrix.toarray())


def test_unsorted_indices_and_duplicates_are_put_in_order_without_touching_the_user_s_matrix():
    matrix = sparse.csc_array((np.ones(4), np.array([3, 1, 1, 0]), np.array([0, 3, 4])), shape=(4, 2))
    kept = matrix.indices.copy()
    found = checked_csc(matrix)
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), [[0, 1], [2, 0], [0, 0], [1, 0]])
    np.testing.assert_array_equal(matrix.indices, kept)


@pytest.mark.parametrize("form", ["csc", "csr", "bsr", "coo"])
def test_a_broken_sparse_matrix_in_a_file_is_refused(tmp_path, capsys, form):
    matrix = sound(form)
    if form == "coo":
        matrix.coords[0][0] = 10**6
    else:
        matrix.indices[0] = 10**6
    sparse.save_npz(tmp_path / "x.npz", matrix)
    with np.load(tmp_path / "x.npz") as file:
        np.savez(tmp_path / "xy.npz", **file, y=RNG.normal(size=12))
    refused(capsys, "select", str(tmp_path / "xy.npz"))


# -- other files -----------------------------------------------------------------------------------------------------


def an_npz(path, compression: int | None = None, encrypted: bool = False, **arrays):
    np.savez(path, **{"X": RNG.normal(size=(20, 3)), "y": RNG.normal(size=20), **arrays})
    if compression is None and not encrypted:
        return
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        directory = archive.start_dir
        local = [info.header_offset for info in archive.infolist()]
    at = directory
    while content[at : at + 4] == b"PK\x01\x02":
        content[at + 8] |= encrypted
        if compression is not None:
            content[at + 10] = compression
        at += 46 + sum(int.from_bytes(content[at + k : at + k + 2], "little") for k in (28, 30, 32))
    for at in local:
        content[at + 6] |= encrypted
        if compression is not None:
            content[at + 8] = compression
    path.write_bytes(bytes(content))


def test_an_encrypted_npz(tmp_path, capsys):
    an_npz(tmp_path / "x.npz", encrypted=True)
    assert "encrypted" in refused(capsys, "select", str(tmp_path / "x.npz"))


@pytest.mark.parametrize("method", [1, 9, 93, 99])
def test_an_npz_with_a_compression_that_nobody_reads(tmp_path, capsys, method):
    an_npz(tmp_path / "x.npz", compression=method)
    assert "compression" in refused(capsys, "select", str(tmp_path / "x.npz"))


@pytest.mark.parametrize("names", [np.array("a"), np.array([["a", "b", "c"]])])
def test_an_npz_whose_names_are_no_list(tmp_path, capsys, names):
    an_npz(tmp_path / "x.npz", feature_names=names)
    assert "one list" in refused(capsys, "select", str(tmp_path / "x.npz"))


@pytest.mark.parametrize(("name", "message"), [("x.npz", "no .npz file"), ("x.xlsx", "no Excel file")])
def test_a_file_of_another_kind_than_its_name_says(tmp_path, capsys, name, message):
    (tmp_path / name).write_text("a,b\n1,2\n")
    answer = refused(capsys, "select", str(tmp_path / name), "--target", "b")
    assert message in answer
    assert "pickle" not in answer


def test_what_is_not_installed_is_told_in_one_line(tmp_path, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "causallearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "causallearn", None)
    (tmp_path / "x.csv").write_text("a,y\n" + "".join(f"{i},{i * i % 7}.5\n" for i in range(20)))
    answer = refused(capsys, "select", str(tmp_path / "x.csv"), "--target", "y", "--family", "kernel")
    assert "pip install causal-learn" in answer


def test_an_npz_that_is_a_single_array(tmp_path, capsys):
    with open(tmp_path / "x.npz", "wb") as file:
        np.save(file, np.eye(3))
    assert "several" in refused(capsys, "select", str(tmp_path / "x.npz"))


@pytest.mark.parametrize("index", ["2147483646", "4294967296", "99999999999", "9223372036854775807", "1" * 40, "-3"])
def test_huge_column_numbers_in_an_svmlight_file(tmp_path, capsys, index):
    (tmp_path / "x.svm").write_text(f"1 1:2 {index}:1\n0 1:3\n1 2:1\n0 2:2\n")
    refused(capsys, "select", str(tmp_path / "x.svm"))


def test_a_file_name_that_is_too_long_or_holds_a_zero(capsys):
    assert "no such file" in refused(capsys, "select", "a" * 5000 + ".csv", "--target", "y")
    assert "no such file" in refused(capsys, "select", "a\0.csv", "--target", "y")


# -- streams ---------------------------------------------------------------------------------------------------------

TABLE = "a,b,y\n" + "\n".join(f"{i % 7},{i * i % 11},{i % 7 + i % 3}" for i in range(40)) + "\n"


def feeding(path, content: bytes) -> threading.Thread:
    """A writer at the other end of a pipe, who writes once."""

    def write() -> None:
        with open(path, "wb") as file:
            file.write(content)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.npz", "x.svm", "stream"])
def test_a_pipe_is_read_once(tmp_path, capsys, name):
    import gzip

    path = tmp_path / name
    os.mkfifo(path)
    if name == "x.npz":
        an_npz(tmp_path / "file.npz")
        content = (tmp_path / "file.npz").read_bytes()
    elif name == "x.svm":
        content = "".join(f"{i % 3} 1:{i % 7} 2:{i % 5}\n" for i in range(30)).encode()
    else:
        content = gzip.compress(TABLE.encode()) if name.endswith(".gz") else TABLE.encode()
    writer = feeding(path, content)
    target = [] if name in ("x.npz", "x.svm") else ["--target", "y"]
    assert main(["select", str(path), *target, "--json"]) == 0
    writer.join(10)
    result = fbed.Result.from_json(capsys.readouterr().out)
    assert result.provenance is not None
    assert result.provenance.reading == ()  # what came through a pipe cannot be read again
    if name in ("x.csv", "x.csv.gz", "stream"):
        assert result.selected == ("a",)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="this system has no /dev/fd")
def test_a_shell_s_process_substitution_is_a_csv_table(capsys):
    out, into = os.pipe()
    writer = feeding(into, TABLE.encode())
    try:
        assert main(["select", f"/dev/fd/{out}", "--target", "y"]) == 0
    finally:
        writer.join(10)
        os.close(out)
    assert "a" in capsys.readouterr().out


# -- saved results ---------------------------------------------------------------------------------------------------

SAVED = fbed.select({"a": RNG.normal(size=30), "b": RNG.normal(size=30)}, RNG.normal(size=30)).to_json()


@pytest.mark.parametrize("command", [["report"], ["explain"]])
@pytest.mark.parametrize(
    "content",
    ["[]", "[1, 2]", "3", "null", '"text"', "{}", "", "nan", "[" * 100_000, '{"a":' * 50_000, '{"schema": 2}'],
    ids=lambda text: text[:12] or "empty",
)
def test_json_that_is_no_result(tmp_path, capsys, command, content):
    path = tmp_path / "result.json"
    path.write_text(content)
    assert str(path) in refused(capsys, *command, str(path), *(["a"] if command == ["explain"] else []))


@pytest.mark.parametrize("part", sorted(json.loads(SAVED)))
@pytest.mark.parametrize("value", [None, 3, -1.5, "text", [], [None], [[1]], {}, {"a": 1}, True], ids=repr)
def test_parts_of_a_result_that_have_another_type(tmp_path, capsys, part, value):
    """Either the value is as good as the one that was there, or it is refused in one line."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**json.loads(SAVED), part: value}))
    for command in (["report", str(path)], ["explain", str(path), "a"]):
        assert main(command) in (0, 2)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert said.err.count("\n") <= 1


def test_a_damaged_path_is_refused():
    X = RNG.normal(size=(30, 2))
    saved = json.loads(fbed.path(X, X[:, 0], alphas=[0.1], gammas=[], ks=[0], fbs=False).to_json())
    for damage in ({"settings": 3}, {"results": [3]}, {"settings": []}, {"status": 1}, {"results": None}):
        with pytest.raises(InvalidInput):
            fbed.PathResult.from_json(json.dumps({**saved, **damage}))


# -- networks --------------------------------------------------------------------------------------------------------


def a_network(path, n_parents: int, n_levels: int = 2) -> str:
    levels = ", ".join(f"l{i}" for i in range(n_levels))
    even = ", ".join([repr(1 / n_levels)] * n_levels)
    names = [f"p{i}" for i in range(n_parents)]
    text = "network x { }\n"
    for name in [*names, "y"]:
        text += f"variable {name} {{ type discrete [ {n_levels} ] {{ {levels} }}; }}\n"
    for name in names:
        text += f"probability ( {name} ) {{ table {even}; }}\n"
    text += f"probability ( y | {', '.join(names)} ) {{ default {even}; }}\n"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("n_parents, n_levels", [(28, 2), (63, 2), (64, 1), (70, 1), (400, 10)])
def test_a_table_that_cannot_be_held(tmp_path, capsys, n_parents, n_levels):
    started = time.perf_counter()
    path = a_network(tmp_path / "x.bif", n_parents, n_levels)
    assert "cannot be held" in refused(capsys, "blanket", path, "--target", "y")
    assert time.perf_counter() - started < 5


def test_a_table_that_can_be_held(tmp_path):
    assert len(DiscreteNetwork.from_bif(a_network(tmp_path / "x.bif", 12)).dag.parents("y")) == 12


def test_a_comment_that_never_ends_is_found_at_once(tmp_path, capsys):
    started = time.perf_counter()
    (tmp_path / "x.bif").write_text("network x { }\n" + "/* " * 200_000)
    assert "line 2, in a comment: it never ends" in refused(capsys, "blanket", str(tmp_path / "x.bif"), "--target", "y")
    assert time.perf_counter() - started < 5


def test_deep_and_odd_linear_networks(tmp_path, capsys):
    one = {"parents": [], "coef": [], "intercept": 0, "sd": 1}
    odd = [
        "[" * 100_000,
        json.dumps({"y": {**one, "parents": [[]], "coef": [1]}}),
        json.dumps({"y": {**one, "sd": 10**400}}),
    ]
    for i, content in enumerate(odd):
        path = tmp_path / f"{i}.json"
        path.write_text(content)
        refused(capsys, "blanket", str(path), "--target", "y")
