"""Files as analysts have them: other separators, decimal commas, encodings, words for 'missing', other programs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fbed import InvalidInput, Result
from fbed.cli.command import main
from fbed.tables import readers


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


@pytest.mark.parametrize(("sep", "decimal"), [(",", "."), (";", ",")])
def test_numbers_are_read_to_the_last_digit(sep, decimal, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * 10.0 ** rng.integers(-8, 8, size=(200, 5))
    numbers = pd.DataFrame(X, columns=list("abcde"))
    numbers.to_csv(tmp_path / "data.csv", index=False, sep=sep, decimal=decimal)
    frame = readers.read(str(tmp_path / "data.csv"), sep, decimal=decimal).table
    pd.testing.assert_frame_equal(frame, numbers, check_exact=True)


def test_words_for_missing_are_named_and_can_be_levels(table, tmp_path, run):
    file = tmp_path / "data.csv"
    table.to_csv(file, index=False)
    count = int((table["veneer"] == "None").sum())
    status, _, err = run("select", file, "--target", "y", "--missing", "drop", "--json")
    assert status == 0
    assert f"veneer ('None' in {count} rows); if they are levels of a category, say --na-values ''" in err
    status, out, err = run("select", file, "--target", "y", "--na-values", "", "--json")
    assert status == 0
    assert "usually mean" not in err
    result = Result.from_json(out)
    assert result.model.references == {"veneer": "None"}
    assert "na_values=['']" in result.provenance.python()
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
    table.to_csv(file, index=False, encoding="utf-16")
    assert "--encoding, such as utf-16" in run("select", file, "--target", "y")[2]
    assert run("select", file, "--target", "y", "--na-values", "", "--encoding", "utf-16")[0] == 0
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


def test_reference_and_modelled_class(table, tmp_path, run):
    file = tmp_path / "data.csv"
    table.assign(y=np.where(table["y"] > 0, "yes", "no"), veneer=table["veneer"].replace("None", "wood")).to_csv(
        file, index=False
    )
    options = ["--target", "y", "--include", "veneer,weight", "--json"]
    usual = Result.from_json(run("select", file, *options)[1])
    status, out, _ = run("select", file, *options, "--reference", "veneer=wood", "--positive", "no")
    assert status == 0
    turned = Result.from_json(out)
    assert (usual.classes, turned.classes) == (("no", "yes"), ("yes", "no"))
    assert (usual.model.references, turned.model.references) == ({"veneer": "brick"}, {"veneer": "wood"})
    assert usual.selected == turned.selected
    by_term = dict(zip(usual.model.terms, usual.model.coefficients, strict=True))
    other = dict(zip(turned.model.terms, turned.model.coefficients, strict=True))
    assert other["veneer[brick]"] == pytest.approx(by_term["veneer[wood]"], rel=1e-6)  # against each other, both turned
    lines: dict[str, object] = {}
    exec(turned.provenance.python(), lines)
    assert lines["result"].model.coefficients == pytest.approx(turned.model.coefficients)
    (tmp_path / "result.json").write_text(out)
    assert run("explain", tmp_path / "result.json", "größe", "--data", file)[0] == 0
    assert "has no level 'straw'" in run("select", file, *options, "--reference", "veneer=straw")[2]
    assert "expected COLUMN=LEVEL" in run("select", file, *options, "--reference", "veneer")[2]
    assert "name the target" in run("select", file, "--positive", "no", "--json")[2]


def test_the_result_is_saved_besides_the_table(table, tmp_path, run):
    table.to_csv(tmp_path / "data.csv", index=False)
    saved = tmp_path / "result.json"
    status, out, err = run("select", tmp_path / "data.csv", "--target", "y", "--na-values", "", "--save", saved)
    assert status == 0
    assert out.startswith("FBED^1 selected")
    assert "the result is in" in err
    assert Result.from_json(saved).selected


@pytest.mark.parametrize(
    "words, said",
    [
        (["--critereon", "aic"], "did you mean --criterion?"),
        (["--taget", "y"], "did you mean --target?"),
        (["--family", "logistic"], "did you mean 'binomial'?"),
        (["--family", "gausian"], "did you mean 'gaussian'?"),
        (["--missing", "dorp"], "'drop'"),
    ],
)
def test_near_names(words, said, table, tmp_path, run):
    table.to_csv(tmp_path / "data.csv", index=False)
    status, _, err = run("select", tmp_path / "data.csv", "--target", "y", *words)
    assert status == 2
    assert said in err


def test_values_are_completed(run):
    for shell in ("bash", "zsh", "fish"):
        script = run("completion", shell)[1]
        assert all(word in script for word in ("negative_binomial", "ebic", "indicator"))


def test_files_and_lazy_frames_in_python(table, tmp_path):
    import polars as pl

    import fbed

    plain = table.assign(veneer=table["veneer"].replace("None", "wood"))
    plain.to_csv(tmp_path / "data.csv", index=False)
    wanted = fbed.select(plain, "y").selected
    assert fbed.select(tmp_path / "data.csv", "y").selected == wanted
    assert fbed.select(str(tmp_path / "data.csv"), "y").selected == wanted
    assert fbed.select(pl.from_pandas(plain).lazy(), "y").selected == wanted
    assert len(fbed.path(tmp_path / "data.csv", "y", alphas=[0.05], gammas=[], ks=[1])) == 2
    with pytest.raises(fbed.InvalidInput, match="no such file"):
        fbed.select("nowhere.csv", "y")
