"""The paper's datasets: every form they come in, the checks, and fetching them, from small made files."""

import io
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from experiments import data, fetch
from experiments.data import Absent, DataError, Facts

X = np.array([[0, 3, 0], [1, 0, 2], [0, 0, 5], [4, 0, 0]])
Y = np.array([0, 1, 0, 1])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The paper's names, with four rows and three columns."""
    for name in ("musk", "secom", "p53", "madelon", "dexter", "dorothea", "gina", "hiva"):
        monkeypatch.setitem(data.PAPER, name, Facts(4, 3, 0.5, "Real", "Made", "Here"))


def read(name, folder):
    found = data.load(name, folder)
    table = found.X.toarray() if sp.issparse(found.X) else found.X
    return table, found.y


def write_challenge(folder, name, lines, labels=("-1", "1", "-1", "1")):
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in (("train", slice(0, 3)), ("valid", slice(3, 4))):
        (folder / f"{name}_{part}.data").write_text("\n".join(lines[rows]) + "\n")
        (folder / f"{name}_{part}.labels").write_text("\n".join(labels[rows]) + "\n")


DENSE = [" ".join(map(str, row)) for row in X]
SPARSE = [" ".join(f"{j + 1}:{v}" for j, v in enumerate(row) if v) for row in X]
ONES = [" ".join(f"{j + 1}" for j, v in enumerate(row) if v) for row in X]


def test_npz_dense(tmp_path):
    (tmp_path / "paper").mkdir()
    np.savez(tmp_path / "paper" / "madelon.npz", X=X, y=Y)
    table, y = read("madelon", tmp_path)
    assert table.tolist() == X.tolist()
    assert y.tolist() == Y.tolist()


def test_npz_sparse(tmp_path):
    m = sp.csc_matrix(X)
    parts = {"data": m.data, "indices": m.indices, "indptr": m.indptr, "shape": m.shape, "format": b"csc"}
    np.savez(tmp_path / "dexter.npz", y=Y, **parts)
    assert sp.issparse(data.load("dexter", tmp_path).X)
    assert read("dexter", tmp_path)[0].tolist() == X.tolist()


@pytest.mark.parametrize("name, lines", [("madelon", DENSE), ("dexter", SPARSE)])
def test_challenge_files_with_validation_rows_appended(tmp_path, name, lines):
    write_challenge(tmp_path / name, name, lines)
    table, y = read(name, tmp_path)
    assert table.tolist() == X.tolist()
    assert y.tolist() == Y.tolist()


def test_challenge_rows_of_indices(tmp_path):
    write_challenge(tmp_path, "dorothea", ONES)
    assert read("dorothea", tmp_path)[0].tolist() == (X > 0).astype(int).tolist()


def test_a_row_without_entries_is_a_row(tmp_path):
    write_challenge(tmp_path, "dexter", [SPARSE[0], "", SPARSE[2], SPARSE[3]])
    assert read("dexter", tmp_path)[0][1].tolist() == [0, 0, 0]


def test_a_column_beyond_the_last_is_an_error(tmp_path):
    write_challenge(tmp_path, "dexter", ["4:1", *SPARSE[1:]])
    with pytest.raises(DataError, match="from 1 to 3"):
        data.load("dexter", tmp_path)


def test_missing_labels_are_an_error(tmp_path):
    write_challenge(tmp_path, "madelon", DENSE)
    (tmp_path / "madelon_train.labels").unlink()
    with pytest.raises(DataError, match=r"madelon_train\.labels is missing"):
        data.load("madelon", tmp_path)


def test_musk(tmp_path):
    rows = [
        f"MUSK-{i},{i}_1,{','.join(map(str, row))},{label}." for i, (row, label) in enumerate(zip(X, Y, strict=True))
    ]
    (tmp_path / "clean2.data").write_text("\n".join(rows))
    table, y = read("musk", tmp_path)
    assert table.tolist() == X.tolist()
    assert y.tolist() == Y.tolist()


def test_secom_with_missing_values(tmp_path):
    (tmp_path / "secom.data").write_text("1 NaN 2\n3 4 5\n6 7 8\n9 1 2\n")
    (tmp_path / "secom_labels.data").write_text('-1 "19/07/2008"\n1 "20/07/2008"\n-1 "x"\n1 "y"\n')
    table, y = read("secom", tmp_path)
    assert np.isnan(table[0, 1])
    assert y.tolist() == Y.tolist()


def test_p53(tmp_path):
    (tmp_path / "K8.data").write_text("1,2.5,?,inactive,\n3,4,5,active,\n6,7,8,inactive,\n9,1,2,active,\n")
    table, y = read("p53", tmp_path)
    assert np.isnan(table[0, 2])
    assert table[0, 1] == 2.5
    assert y.tolist() == Y.tolist()


HEADER = """% made
@RELATION made
@ATTRIBUTE id INTEGER
@attribute 'a b' numeric
@attribute c {0, 3}
@attribute name string
@attribute d REAL
@attribute class {-1,1}
@data
"""


def test_arff(tmp_path):
    rows = ["1,0,3,x,0,-1", "2,1,0,y,2,1", "3,0,0,z,?,-1", "", "4,4,0,w,0,1"]
    (tmp_path / "gina.arff").write_text(HEADER + "\n".join(rows))
    table, y = read("gina", tmp_path)
    assert table[[0, 1, 3]].tolist() == X[[0, 1, 3]].tolist()
    assert np.isnan(table[2, 2])
    assert y.tolist() == Y.tolist()


def test_sparse_arff(tmp_path):
    rows = ["{0 1,2 3}", "{1 1, 4 2, 5 1}", "{4 5}", "{1 4,5 1}"]
    (tmp_path / "gina.arff").write_text(HEADER + "\n".join(rows))
    table, y = read("gina", tmp_path)
    assert table.tolist() == X.tolist()
    assert y.tolist() == Y.tolist()


def test_absent_sets_are_named_and_say_what_to_do(tmp_path):
    assert data.present(tmp_path) == []
    with pytest.raises(Absent, match="experiments fetch nova"):
        data.load("nova", tmp_path)


def test_differences_from_the_papers_table():
    assert data.checked("hiva", X, Y).remarks == ()
    fewer = data.checked("hiva", X[:3], Y[:3])
    assert fewer.remarks == (
        "3 rows where the paper has 4",
        "0.33 of the rows in the rarer class where the paper has 0.50",
    )
    flipped = data.checked("hiva", X, 1 - Y)
    assert flipped.remarks == ()


@pytest.mark.parametrize(
    "table, labels, words",
    [
        (X[:, :2], Y, "2 predictors where the paper has 3"),
        (X, Y[:3], "4 rows and 3 labels"),
        (X, np.array([0, 1, 2, 1]), "two classes, got 3"),
    ],
)
def test_another_table_is_an_error(table, labels, words):
    with pytest.raises(DataError, match=words):
        data.checked("hiva", table, labels)


def test_the_table_of_the_paper_is_whole():
    assert len(data.PAPER) == 12
    assert data.PAPER["gisette"].repetitions == 10
    assert data.PAPER["arcene"].repetitions == 50


# --- fetching --------------------------------------------------------------------------------------------------------


def archive(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return content.getvalue()


def test_an_archive_is_fetched_unpacked_and_checked(tmp_path):
    inner = archive({"DIR/madelon_train.data": "\n".join(DENSE), "DIR/readme.txt": "x"})
    outer = archive({"inner.zip": inner, "../madelon_train.labels": "-1\n1\n-1\n1\n"})
    (tmp_path / "m.zip").write_bytes(outer)
    folder = tmp_path / "data"
    found = fetch.fetch("madelon", folder, {"madelon": fetch.Source((tmp_path / "m.zip").as_uri(), True)})
    assert found.X.tolist() == X.tolist()
    assert sorted(file.name for file in (folder / "madelon").iterdir()) == [
        "madelon_train.data",
        "madelon_train.labels",
    ]
    assert data.present(folder) == ["madelon"]


def test_an_openml_dataset_is_fetched_by_its_description(tmp_path):
    (tmp_path / "file").write_text(HEADER + "1,0,3,x,0,-1\n2,1,0,y,2,1\n3,0,0,z,5,-1\n4,4,0,w,0,1\n")
    description = {"data_set_description": {"url": (tmp_path / "file").as_uri()}}
    (tmp_path / "description").write_text(json.dumps(description))
    source = fetch.Source((tmp_path / "description").as_uri(), False)
    assert fetch.fetch("gina", tmp_path / "data", {"gina": source}).X.tolist() == X.tolist()


def test_a_wrong_download_leaves_nothing_behind(tmp_path):
    (tmp_path / "m.zip").write_bytes(archive({"madelon_train.data": "1 2\n", "madelon_train.labels": "1\n"}))
    with pytest.raises(DataError):
        fetch.fetch("madelon", tmp_path / "data", {"madelon": fetch.Source((tmp_path / "m.zip").as_uri(), True)})
    assert not (tmp_path / "data" / "madelon").exists()


def test_no_connection_is_explained(tmp_path):
    source = fetch.Source((tmp_path / "nothing.zip").as_uri(), True)
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch.fetch("madelon", tmp_path / "data", {"madelon": source})


def test_what_has_no_address_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"put nova_train\.data"):
        fetch.fetch("nova", tmp_path)


def test_every_set_of_the_paper_can_be_fetched_or_says_how():
    assert set(fetch.SOURCES) | set(fetch.BY_HAND) == set(data.PAPER)
