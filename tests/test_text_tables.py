"""Files as analysts have them: other separators, decimal commas, encodings, words for 'missing', other programs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fbed import InvalidInput, Result, readers
from fbed.cli import main


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"größe": rng.normal(size=90).round(3), "weight": rng.normal(70, 9, 90).round(2)})
    X["veneer"] = rng.choice(["None", "brick", "stone"], 90)
    X["y"] = (X["größe"] + (X["veneer"] == "None") + rng.normal(size=90)).round(4)
    return X


@pytest.fixture
def run(capsys):
    def run(*arguments):
        status = main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_words_for_missing_are_named_and_can_be_levels(table, tmp_path, run):
    file = tmp_path / "data.csv"
    table.to_csv(file, index=False)
    count = int((table["veneer"] == "None").sum())
    status, _, err = run("select", file, "--target", "y", "--missing", "drop", "--json")
    assert status == 0
    assert f"veneer ('None' in {count} rows); if they are levels of a category, say --na-values ''" in err
    status, out, err = run("select", file, "--target", "y", "--na-values", "", "--json")
    assert (status, err) == (0, "")
    result = Result.from_json(out)
    assert result.model.references == {"veneer": "None"}
    assert "na_values=['']" in result.origin.python()
    status, out, _ = run(
        "select", file, "--target", "y", "--na-values", "brick", "stone", "--missing", "indicator", "--json"
    )
    assert status == 0


def test_empty_cells_need_no_note(table, tmp_path):
    file = tmp_path / "data.csv"
    table.assign(veneer=table["veneer"].replace("None", "")).to_csv(file, index=False)
    assert readers.read(str(file)).notes == ()


def test_decimal_commas(table, tmp_path, run):
    file = tmp_path / "data.csv"
    table.to_csv(file, index=False, sep=";", decimal=",")
    status, _, err = run("select", file, "--target", "y")
    assert status == 2
    assert "the separator seems to be ';', say --sep ';'" in err
    status, _, err = run("select", file, "--target", "y", "--sep", ";")
    assert status == 2
    assert "'größe' holds numbers with a decimal comma, such as" in err
    assert "say --decimal ," in err
    assert run("select", file, "--target", "y", "--sep", ";", "--decimal", ",", "--na-values", "")[0] == 0
    read = readers.read(str(file), ";", decimal=",", na_values=[""]).table
    pd.testing.assert_frame_equal(read, table)
    assert "--decimal , goes with --sep ';'" in run("select", file, "--target", "y", "--decimal", ",")[2]


def test_encodings(table, tmp_path, run):
    file = tmp_path / "data.csv"
    table.to_csv(file, index=False, encoding="latin-1")
    status, _, err = run("select", file, "--target", "y", "--na-values", "")
    assert status == 2
    assert "not written in utf-8" in err
    assert "--encoding, such as latin-1" in err
    assert run("select", file, "--target", "y", "--na-values", "", "--encoding", "latin-1")[0] == 0
    assert "'klingon' is not known" in run("select", file, "--target", "y", "--encoding", "klingon")[2]


WRITERS = {
    ".xlsx": lambda frame, file: frame.to_excel(file, index=False),
    ".dta": lambda frame, file: frame.to_stata(file, write_index=False, version=118),
    ".sav": lambda frame, file: pytest.importorskip("pyreadstat").write_sav(frame, file),
    ".xpt": lambda frame, file: pytest.importorskip("pyreadstat").write_xport(frame, file, file_format_version=5),
}


@pytest.mark.parametrize("extension", WRITERS)
def test_files_of_other_programs(extension, table, tmp_path, run):
    plain = table.rename(columns={"größe": "size"}).assign(veneer=table["veneer"].replace("None", "wood"))
    file = tmp_path / f"data{extension}"
    WRITERS[extension](plain, str(file))
    read = readers.read(str(file)).table
    np.testing.assert_allclose(read["size"], plain["size"])
    assert read["veneer"].tolist() == plain["veneer"].tolist()
    assert run("select", file, "--target", "y")[0] == 0
    with pytest.raises(InvalidInput, match="about text files"):
        readers.read(str(file), decimal=",")


def test_other_programs_files_are_not_written(table, tmp_path, run):
    table.to_csv(tmp_path / "data.csv", index=False)
    status, _, err = run("select", tmp_path / "data.csv", "--target", "y", "--output", tmp_path / "kept.xlsx")
    assert status == 2
    assert "read only; write .csv" in err
