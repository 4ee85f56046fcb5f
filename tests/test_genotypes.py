"""Packed genotypes: the kernels against plain NumPy, and searches against the same search on an array of numbers."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed._kernels import PackedColumns
from fbed.cli.command import main
from fbed.errors import InvalidInput
from fbed.families import builders
from fbed.matrix.design import Design
from fbed.matrix.stored_blocks import PackedBlocks
from fbed.models.engines.tall import packed_sums
from fbed.tables.mixed_storage import Packed
from fbed.tables.table import read_table
from plink_files import imputed, packed, random_codes, written


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [3, 7, 512, 1023, 2050])
def test_kernels_equal_numpy(n, weighted):
    rng = np.random.default_rng(n)
    codes = rng.integers(0, 4, (n, 9)).astype(np.uint8)
    codes[:, 3], codes[:, 4] = 3, 1
    codes[:, 5][codes[:, 5] == 1] = 2
    weights = rng.random(n) + 0.5 if weighted else np.ones(n)
    dense, kernel = imputed(codes, weights), PackedColumns(packed(codes), n)
    stats = kernel.stats(weights, weights.sum(), 0, 9)
    center = np.average(dense, axis=0, weights=weights)
    scale = np.sqrt(np.average((dense - center) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(stats[:, 0], center, atol=1e-14)
    np.testing.assert_allclose(stats[:, 1], scale, atol=1e-14)
    np.testing.assert_array_equal(stats[:, 2] <= dense.min(axis=0) + 1e-12, True)
    np.testing.assert_array_equal(stats[:, 3] >= dense.max(axis=0) - 1e-12, True)
    center, scale = np.ascontiguousarray(stats[:, 0]), np.ascontiguousarray(stats[:, 1])
    X = np.where(scale > 0, (dense - center) / np.where(scale > 0, scale, 1.0), 0.0)
    which, first = np.array([8, 0, 3, 4, 5, 2]), 4 * (n // 8)
    np.testing.assert_allclose(kernel.gather(which, center, scale), X[:, which], atol=1e-14)
    part = kernel.gather_rows(which, center, scale, 1, n - 1, True)
    np.testing.assert_allclose(part, np.hstack([np.ones((n - 2, 1)), X[1:-1, which]]), atol=1e-14)
    for columns in (6, 5, 1):
        for vectors in (1, 2, 3, 4, 7):
            V = np.asfortranarray(rng.normal(size=(n - first, vectors)))
            found = kernel.products(which[:columns], center, scale, first, V)
            part = X[first:, which[:columns]]
            np.testing.assert_allclose(found[:, :vectors], part.T @ V, atol=1e-12 * n)
            if vectors > 1:
                np.testing.assert_allclose(found[:, vectors], (part**2).T @ V[:, 1], atol=1e-12 * n)
    keep = rng.permutation(n)[: n // 2 + 1]
    np.testing.assert_array_equal(kernel.rows(keep), packed(codes[keep]))


@pytest.mark.parametrize("n", [3, 7, 2048, 5003])
def test_sums_of_digits_equal_numpy(n):
    rng = np.random.default_rng(n)
    codes = rng.integers(0, 4, (n, 7)).astype(np.uint8)
    digits, which = rng.integers(-64, 65, (6, n)).astype(np.int8), np.array([6, 0, 3])
    found = PackedColumns(packed(codes), n).digit_sums(which, digits, 2, 4)
    kinds, whole = codes[:, which], digits.astype(int).T
    copies = np.array([2, 0, 1, 0])[kinds]
    expected = np.hstack([copies.T @ whole, (kinds == 0).T @ whole[:, 2:4], (kinds == 1).T @ whole])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [5, 3103])
def test_quick_products_are_no_further_off_than_they_say(n, weighted):
    rng = np.random.default_rng(n)
    codes = random_codes(rng, n, 40, missing=0.03)
    weights = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
    names = tuple(f"rs{j}" for j in range(40))
    table = read_table(fbed.Genotypes(Packed(packed(codes), n), names, tuple(map(str, range(n)))))
    blocks = PackedBlocks(Design(table, weights, 2))
    which = np.flatnonzero(blocks.design.varying)
    X = blocks.gather(which, slice(0, n))
    V = rng.normal(size=(n, 4)) * [1.0, 0.2, 1e-6, 0.0]
    V[:, 1] = np.abs(V[:, 1])
    found = blocks.quick(which, V)
    assert (np.abs(found.along - X.T @ V) <= found.by_column[:, None] * found.by_vector).all()
    assert (np.abs(found.own - (X**2).T @ V[:, 1]) <= found.by_own + 1e-12 * n).all()
    assert found.by_vector[0] < 1e-3 * math.sqrt(n)


def cohort(tmp_path, rng, n, p=40):
    """Files, a table beside them in another order and with a sample more, and the same as a data frame."""
    codes = random_codes(rng, n, p)
    stem = written(tmp_path / "cohort", codes)
    table = pd.DataFrame({"age": rng.normal(50, 10, n), "sex": rng.choice(["f", "m"], n), "pc1": rng.normal(size=n)})
    dense = imputed(codes)
    signal = dense[:, [1, 2, 6]] @ [0.6, -0.5, 0.7] + 0.03 * table["age"] + 0.3 * (table["sex"] == "m")
    table["linear"] = signal + 1.5 * rng.normal(size=n)
    table["case"] = (signal + 2 * rng.logistic(size=n) > np.median(signal)).astype(int)
    table["events"] = rng.poisson(np.exp(signal / 3))
    table["copies"] = rng.integers(1, 4, n)
    frame = pd.concat([table, pd.DataFrame(dense, columns=[f"rs{j}" for j in range(p)])], axis=1)
    table.insert(0, "IID", [f"I{i}" for i in range(n)])
    table = pd.concat([table, table.iloc[:1].assign(IID="someone else")]).sample(frac=1, random_state=1)
    return codes, stem, table, frame


def same(one, other):
    assert one.selected == other.selected
    assert one.n_tests == other.n_tests
    assert len(one.trace) == len(other.trace)
    for a, b in zip(one.trace, other.trace, strict=True):
        assert a.variable == b.variable
        assert a.statistic is None or a.statistic == pytest.approx(b.statistic, rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(one.model.coefficients, other.model.coefficients, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"early_dropping": False}, {"alpha": 1e-4, "k": math.inf, "n_jobs": 2}, {"criterion": "ebic"}],
    ids=str,
)
@pytest.mark.parametrize(("family", "target"), [("gaussian", "linear"), ("binomial", "case"), ("poisson", "events")])
def test_equals_the_dense_answer(tmp_path, monkeypatch, family, target, options, wide):
    if wide:  # products of columns are kept in rows rather than in a table, and looks are quick ones first
        monkeypatch.setattr(builders, "_MOST_PRODUCTS", 0)
        monkeypatch.setattr(packed_sums, "_MANY", 1)
    rng = np.random.default_rng([len(family), len(options)])
    _, stem, table, frame = cohort(tmp_path, rng, 1501)
    common = {"family": family, "include": ["age", "sex"], **options}
    unused = [name for name in ("pc1", "linear", "case", "events", "copies") if name != target]
    found = fbed.select(fbed.genotypes(stem, table), target, **common)
    same(found, fbed.select(frame, target, exclude=unused, engine="exhaustive", **common))
    assert any("mean of their variant" in note for note in found.notes)


def test_weights_and_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(packed_sums, "_MANY", 1)
    rng = np.random.default_rng(7)
    codes, stem, table, frame = cohort(tmp_path, rng, 999)
    frame[[f"rs{j}" for j in range(codes.shape[1])]] = imputed(codes, frame["copies"])
    common = {"sample_weight": "copies", "groups": {"gene": ["rs1", "rs2"]}, "alpha": 0.01}
    unused = ["pc1", "linear", "events", "age", "sex"]
    same(
        fbed.select(fbed.genotypes(stem, table), "case", **common),
        fbed.select(frame, "case", exclude=unused, engine="exhaustive", **common),
    )


def test_many_rows_and_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(packed_sums, "_MANY", 1)
    rng = np.random.default_rng(8)
    _, stem, table, frame = cohort(tmp_path, rng, 20_003, 12)
    unused = ["pc1", "linear", "events", "copies"]
    dense = fbed.select(frame, "case", include=["age", "sex"], exclude=unused)
    found = [fbed.select(fbed.genotypes(stem, table), "case", include=["age", "sex"], n_jobs=jobs) for jobs in (1, 2)]
    same(found[0], dense)
    assert [step.statistic for step in found[0].trace] == [step.statistic for step in found[1].trace]


def test_missing_phenotypes(tmp_path):
    rng = np.random.default_rng(9)
    codes, stem, table, frame = cohort(tmp_path, rng, 600)
    names = table["IID"].to_numpy()
    gone = [f"I{i}" for i in range(0, 600, 11)]
    table.loc[np.isin(names, gone), "age"] = np.nan
    found = fbed.genotypes(stem, table)
    with pytest.raises(InvalidInput, match="missing"):
        fbed.select(found, "linear", include=["age"])
    kept = np.array([f"I{i}" not in gone for i in range(600)])
    frame = frame[kept].reset_index(drop=True)
    frame[[f"rs{j}" for j in range(codes.shape[1])]] = imputed(codes[kept])
    unused = ["pc1", "case", "events", "copies", "sex"]
    dropped = fbed.select(found, "linear", include=["age"], missing="drop")
    same(dropped, fbed.select(frame, "linear", include=["age"], exclude=unused))
    told = fbed.select(found, "linear", include=["age"], missing="indicator")
    assert "age[missing]" in told.model.terms


def test_separated_and_tiny(tmp_path):
    """Where a variant tells cases from controls, the ordinary model answers."""
    codes = np.tile(np.array([[3, 0, 2], [3, 0, 3], [0, 2, 3], [0, 3, 2]], np.uint8), (5, 1))
    y = np.tile([0, 0, 1, 1], 5)
    found = fbed.select(fbed.genotypes(written(tmp_path / "tiny", codes)), y, alpha=0.01)
    dense = fbed.select(pd.DataFrame(imputed(codes), columns=["rs0", "rs1", "rs2"]), y, alpha=0.01)
    assert found.selected == dense.selected == ("rs0",)
    assert found.trace[0].statistic == pytest.approx(dense.trace[0].statistic)


def test_names_that_are_not_unique(tmp_path):
    stem = written(tmp_path / "c", random_codes(np.random.default_rng(1), 50, 8))
    lines = ["1 . 0 10 A G", "1 . 0 10 A G", "1 x 0 30 A G", "1 x 0 40 A T", *(f"1 v{j} 0 9 A G" for j in range(4))]
    (tmp_path / "c.bim").write_text("\n".join(lines) + "\n")
    found = fbed.genotypes(stem)
    assert found.variants == ("1:10:G:A", "1:10:G:A#2", "1:30:G:A", "1:40:T:A", "v0", "v1", "v2", "v3")
    assert any("4 variants without" in note for note in found.notes)


def test_frame_holds_copies(tmp_path):
    rng = np.random.default_rng(3)
    codes, stem, table, _ = cohort(tmp_path, rng, 101)
    frame = fbed.genotypes(stem, table).frame(["rs6", "age"])
    np.testing.assert_allclose(frame["rs6"], imputed(codes)[:, 6], rtol=1e-12)
    assert set(frame["rs6"][codes[:, 6] != 1]) <= {0.0, 1.0, 2.0}
    with pytest.raises(InvalidInput, match="no variant"):
        fbed.genotypes(stem).frame(["nobody"])


def test_bad_files(tmp_path):
    stem = written(tmp_path / "c", random_codes(np.random.default_rng(1), 50, 8))
    bed = tmp_path / "c.bed"
    content = bed.read_bytes()
    for damaged, message in (
        (content[:-1], "do the three files belong together"),
        (b"PK" + content[2:], "no PLINK .bed file"),
        (content[:2] + b"\0" + content[3:], "one sample after the other"),
        (b"", "no PLINK .bed file"),
    ):
        bed.write_bytes(damaged)
        with pytest.raises(InvalidInput, match=message):
            fbed.genotypes(stem)
    bed.write_bytes(content)
    (tmp_path / "c.fam").write_text("F0 I0\n")
    with pytest.raises(InvalidInput, match="is this a PLINK file"):
        fbed.genotypes(stem)
    (tmp_path / "c.fam").unlink()
    with pytest.raises(InvalidInput, match=r"c\.fam: no such file"):
        fbed.genotypes(stem)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="IID"), "no column IID"),
        (lambda t: t.assign(IID="I0"), "more than once"),
        (lambda t: t.assign(IID=range(len(t))), "no sample in common"),
        (lambda t: t.assign(rs1=1.0), "called like variants"),
        (lambda t: 7, "pheno must be"),
    ],
)
def test_bad_tables_beside(tmp_path, change, message):
    _, stem, table, _ = cohort(tmp_path, np.random.default_rng(1), 60)
    with pytest.raises(InvalidInput, match=message):
        fbed.genotypes(stem, change(table))


def test_what_needs_numbers_in_memory_says_so(tmp_path):
    _, stem, table, _ = cohort(tmp_path, np.random.default_rng(1), 60)
    found = fbed.genotypes(stem, table)
    for options in ({"family": "spearman"}, {"test": "score", "family": "binomial"}, {"cov": "HC3"}):
        with pytest.raises(InvalidInput, match="in memory as numbers"):
            fbed.select(found, "case" if "test" in options else "linear", **options)
    with pytest.raises(InvalidInput, match="whose genotypes are numbers"):
        fbed.select(found, "linear", categorical=["rs1"])
    with pytest.raises(InvalidInput, match="no table of phenotypes"):
        fbed.select(stem + ".bed", "linear")


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, table, _ = cohort(tmp_path, np.random.default_rng(2), 1200)
    table["IID"] = table["IID"].str.replace("I", "00")  # names that look like numbers
    fam = tmp_path / "cohort.fam"
    fam.write_text(fam.read_text().replace(" I", " 00"))
    table.to_csv("pheno.tsv", sep="\t", index=False)
    table.to_csv("pheno.txt", sep=" ", index=False)
    expected = fbed.select(fbed.genotypes("cohort", table), "linear", include=["age", "sex"], alpha=1e-4)
    asked = ["--target", "linear", "--include", "age", "sex", "--alpha", "1e-4", "-q"]
    for pheno in ("pheno.tsv", "pheno.txt"):
        assert main(["select", "cohort", "--pheno", pheno, *asked, "--json", "--output", "kept.csv"]) == 0
        out = capsys.readouterr()
        result = fbed.Result.from_json(out.out)
        assert result.selected == expected.selected
        assert "mean of their variant" in out.err
    kept = pd.read_csv("kept.csv")
    assert list(kept) == [*expected.selected, "linear"]
    assert not kept.isna().any().any()
    assert "fbed.genotypes('cohort', 'pheno.txt')" in result.provenance.python()
    assert main(["select", "pheno.tsv", "--pheno", "pheno.tsv", "--target", "linear"]) == 2
    assert "beside PLINK's genotypes" in capsys.readouterr().err


@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_genotypes_are_tuned_saved_and_predicted(missing, tmp_path, capsys):
    rng = np.random.default_rng(12)
    codes = random_codes(rng, 150, 30, missing)
    stem = written(tmp_path / "cohort", codes)
    y = imputed(codes)[:, 10] + rng.normal(size=150)
    pd.DataFrame({"IID": [f"I{i}" for i in range(150)], "y": y}).to_csv(tmp_path / "pheno.tsv", sep="\t", index=False)
    grid = {"alphas": (0.01,), "gammas": (), "ks": (0,), "fbs": False, "n_bootstraps": 20}
    made = fbed.tune(fbed.genotypes(stem, tmp_path / "pheno.tsv"), "y", **grid)
    assert "rs10" in made.result.selected
    assert np.isfinite(made.out_of_fold.mean).all()
    if not missing:  # a missing one has the mean of the rows that a fold was fitted on
        twin = fbed.tune(imputed(codes), y, **grid)
        np.testing.assert_allclose(made.out_of_fold.mean, twin.out_of_fold.mean, atol=1e-9)
    made.result.to_json(tmp_path / "model.json")
    files = [str(tmp_path / "model.json"), f"{stem}.bed", "--pheno", str(tmp_path / "pheno.tsv")]
    assert main(["predict", *files, "--unseen", "mean"]) == 0
    told = np.array([float(line) for line in capsys.readouterr().out.splitlines()[1:]])
    np.testing.assert_allclose(told, made.model.predict(imputed(codes)), atol=1e-6)


def test_missing_genotypes_of_new_samples_have_the_mean_of_those_before(tmp_path):
    rng = np.random.default_rng(13)
    codes = random_codes(rng, 200, 8, 0.05)
    stem = written(tmp_path / "cohort", codes)
    before = imputed(codes)
    y = before[:, 2] + rng.normal(size=200)
    pd.DataFrame({"IID": [f"I{i}" for i in range(200)], "y": y}).to_csv(tmp_path / "pheno.tsv", sep="\t", index=False)
    result = fbed.select(fbed.genotypes(stem, tmp_path / "pheno.tsv"), "y", include=["rs2"])
    few = codes[:7].copy()
    few[:3, 2] = 1  # PLINK's code of a missing genotype
    new = fbed.genotypes(written(tmp_path / "new", few))
    by_hand = np.repeat(before.mean(axis=0)[None], 7, axis=0)
    known = few != 1
    by_hand[known] = imputed(few)[known]
    np.testing.assert_allclose(result.model.predict(new), result.model.predict(by_hand), atol=1e-9)
