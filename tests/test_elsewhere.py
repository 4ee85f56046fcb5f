"""Tables that are read part by part have the answers of the same tables in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fbed
from elsewhere_cases import LIMIT, STORAGES, as_frame, assert_same_answer, case_of, stored
from engine_cases import KINDS
from fbed.families import builders
from fbed.larger_than_memory import sources

FAMILIES = ("gaussian", "binomial", "poisson")


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)
    monkeypatch.setattr(sources, "ROWS", 1)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hostile_tables(kind, family, seed, tmp_path, monkeypatch):
    X, y, options, rng = case_of(kind, family, seed)
    rows = int(rng.integers(3, 60))
    monkeypatch.setattr(sources, "ROWS", rows)
    storage = STORAGES[(KINDS.index(kind) + seed) % len(STORAGES)]
    far = stored(X, storage, tmp_path, rows)
    near = X if isinstance(far, np.memmap) else as_frame(X)
    found = fbed.select(far, y, memory_limit=LIMIT, **options)
    assert_same_answer(fbed.select(near, y, **options), found)


def mixed_table(rng, n=400):
    """Numbers of several types, text, categories with an order, true and false, and missing values in all of them."""
    table = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    table["e"] = table["e"].astype(np.float32)
    table["count"] = rng.poisson(1.0, n).astype(np.int16)
    table["flag"] = rng.random(n) < 0.3
    table["word"] = rng.choice(["one", "two", "three"], n)
    table["size"] = pd.Categorical(rng.choice(["S", "M", "L"], n, p=[0.6, 0.3, 0.1]), categories=["S", "M", "L", "XL"])
    table["code"] = rng.choice([1, 2, 7], n)
    table["rare"] = rng.choice(list("pqrstuv"), n, p=[0.5, 0.44, 0.02, 0.01, 0.01, 0.01, 0.01])
    signal = table["a"] + 0.5 * table["count"] + (table["word"] == "one") + (table["code"] == 7) - table["flag"]
    return table, signal.to_numpy()


def outcome_of(family, signal, rng):
    if family == "gaussian":
        return signal + rng.normal(size=len(signal))
    if family == "binomial":
        return np.where(signal + rng.logistic(size=len(signal)) > 0.5, "yes", "no")
    return rng.poisson(np.exp(0.3 * signal))


@pytest.mark.parametrize("rows", [37, 150, 1000])
@pytest.mark.parametrize("missing", ["error", "drop", "indicator"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_column(family, missing, rows, tmp_path):
    """Outcome, weights and offset by name, categories, groups, forced variables, missing values."""
    rng = np.random.default_rng([4, len(family), rows])
    table, signal = mixed_table(rng)
    table["y"] = outcome_of(family, signal, rng)
    table["copies"] = rng.integers(0, 3, len(table))
    table["known"] = 0.1 * rng.normal(size=len(table))
    if missing != "error":
        for name in ("a", "count", "word", "size", "flag"):
            column = table[name] if name in ("a", "word", "size") else table[name].astype(object)
            table[name] = column.where(rng.random(len(table)) > 0.05, None)
        table["count"] = table["count"].astype("Int16")
        table["flag"] = table["flag"].astype("boolean")
    if missing == "drop":
        table["y"] = table["y"].where(rng.random(len(table)) > 0.02, None)
    table.to_parquet(tmp_path / "table.parquet", row_group_size=rows)
    options = {
        "family": family,
        "sample_weight": "copies",
        "offset": "known",
        "groups": {"pair": ["b", "c"]},
        "categorical": ["code"],
        "include": ["d"],
        "exclude": ["size"] if rows == 150 else [],
        "rare_levels": 20,
        "criterion": "aic",
        "missing": missing,
    }
    near = fbed.select(table, "y", **options)
    far = fbed.select(tmp_path / "table.parquet", "y", memory_limit=LIMIT, **options)
    assert_same_answer(near, far)
    assert far.selected == near.selected
    assert far.model.terms == near.model.terms
    np.testing.assert_allclose(far.model.coefficients, near.model.coefficients, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(far.model.standard_errors, near.model.standard_errors, rtol=1e-8)
    assert far.model.log_likelihood == pytest.approx(near.model.log_likelihood, rel=1e-12)
    for one, other in zip(far.model.columns, near.model.columns, strict=True):
        assert replace(one, scale=1.0, fill=None, means=()) == replace(other, scale=1.0, fill=None, means=())
        assert one.means == pytest.approx(other.means, rel=1e-9, abs=1e-12 * other.scale)
        assert (one.fill or 0.0, one.scale) == pytest.approx((other.fill or 0.0, other.scale), rel=1e-12)
    assert far.overview.columns == near.overview.columns
    assert far.model.null_log_likelihood == pytest.approx(near.model.null_log_likelihood, rel=1e-12)
    assert len(far.model.checks) == len(near.model.checks) == (family == "poisson")
    for one, other in zip(far.model.checks, near.model.checks, strict=True):
        assert (one.assumption, one.df) == (other.assumption, other.df)
        assert one.statistic == pytest.approx(other.statistic, rel=1e-9)
    np.testing.assert_allclose(far.overview.correlations, near.overview.correlations, rtol=1e-5, atol=1e-9)
    assert far.overview.outcome == near.overview.outcome


def test_successes_out_of_trials(tmp_path):
    rng = np.random.default_rng(16)
    frame = as_frame(rng.normal(size=(500, 6)))
    frame["trials"] = rng.integers(1, 9, len(frame))
    frame["y"] = rng.binomial(frame["trials"], 1 / (1 + np.exp(-frame["x0"])))
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=120)
    near = fbed.select(frame, "y", trials="trials")
    far = fbed.select(tmp_path / "t.parquet", "y", trials="trials", memory_limit=LIMIT)
    assert_same_answer(near, far)
    assert far.model.log_likelihood == pytest.approx(near.model.log_likelihood, rel=1e-10)
    assert far.model.checks[0].statistic == pytest.approx(near.model.checks[0].statistic, rel=1e-9)


def test_threads_and_memory_change_nothing(tmp_path):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(3000, 12))
    y = (X[:, :3].sum(axis=1) + rng.logistic(size=3000) > 0).astype(int)
    as_frame(X).to_parquet(tmp_path / "t.parquet", row_group_size=400)
    one, two = (
        fbed.select(tmp_path / "t.parquet", y, memory_limit=limit, n_jobs=jobs)
        for limit, jobs in (("3GB", 1), ("6GB", 5))
    )
    assert [row.statistic for row in one.trace] == [row.statistic for row in two.trace]
    assert one.model.coefficients == two.model.coefficients


def test_columns_that_are_dropped_are_not_read_again(tmp_path, monkeypatch):
    """After the first scan only survivors are read; the model's columns stay."""
    from fbed.larger_than_memory.part_readers import FragmentRows

    rng = np.random.default_rng(10)
    X = rng.normal(size=(2000, 30))
    y = X[:, 0] + X[:, 1] + rng.normal(size=2000)
    as_frame(X).to_parquet(tmp_path / "t.parquet", row_group_size=500)
    asked: list[tuple[str, ...]] = []
    read = FragmentRows.columns
    monkeypatch.setattr(FragmentRows, "columns", lambda self, names: (asked.append(tuple(names)), read(self, names))[1])
    result = fbed.select(tmp_path / "t.parquet", y, memory_limit=LIMIT, k=0, alpha=1e-4)
    assert set(result.indices) == {0, 1}
    full = [names for names in asked if len(names) == 30]
    assert len(full) == 2 * 4  # types and moments, then the first scan: once each in four parts
    assert sum(map(len, asked)) <= 2 * 4 * 30 + 4 * 8


# what cannot be read, or asked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "multinomial"}, "needs all rows in memory"),
        ({"test": "score"}, "test='score' needs all rows in memory"),
        ({"cov": "HC3", "family": "gaussian"}, "needs all rows in memory"),
        ({"engine": "exhaustive"}, "needs all rows in memory"),
        ({"memory_limit": "some"}, "memory_limit must be"),
        ({"memory_limit": "1MB"}, "too small"),
        ({"feature_names": list("abc")}, "leave it out"),
        ({"sample_weight": "x99"}, "not a column"),
        ({"include": ["nobody"]}, "nobody"),
    ],
)
def test_what_is_refused(options, message, tmp_path):
    rng = np.random.default_rng(11)
    frame = as_frame(rng.normal(size=(60, 4)))
    frame["y"] = rng.integers(0, 2, 60)
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.select(tmp_path / "t.parquet", "y", **{"memory_limit": LIMIT, **options})


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1.0, None, 3.0], "NaN or missing"),
        ([1.0, np.inf, 3.0], "infinite"),
        (["1", "?", "3"], "text|identifier"),
        (pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]), "neither a number nor a category"),
    ],
)
def test_columns_that_cannot_be_used(column, message, tmp_path):
    frame = as_frame(np.random.default_rng(12).normal(size=(60, 2)))
    frame["odd"] = list(column) * 20
    frame["y"] = range(60)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=7)
    for X, limit in ((frame, None), (tmp_path / "t.parquet", LIMIT)):
        if message == "text|identifier" and limit:
            continue  # three different values in a part are no reason to refuse; the whole column is judged below
        with pytest.raises(fbed.InvalidInput, match=message):
            fbed.select(X, "y", memory_limit=limit)


def test_memory_limit_is_for_tables_elsewhere():
    with pytest.raises(fbed.InvalidInput, match="memory_limit is for tables"):
        fbed.select(np.zeros((5, 2)), np.arange(5), memory_limit="1GB")


def test_a_file_that_changes_or_goes_midway(tmp_path, monkeypatch):
    from fbed.api import larger_than_memory

    crew = larger_than_memory.Here
    monkeypatch.setattr(
        larger_than_memory, "Here", lambda parts, threads, room, loaded: crew(parts, threads, 0, loaded)
    )
    rng = np.random.default_rng(13)
    X = rng.normal(size=(600, 5))
    y = X[:, 0] + rng.normal(size=600)
    for damage, message in (("unlink", "is gone now"), ("write", "has changed since")):
        folder = tmp_path / damage
        folder.mkdir()
        stored(X, "several files", folder, 100)
        last = folder / "part0002.parquet"

        def spoil(progress, last=last, damage=damage):
            if damage == "unlink":
                last.unlink(missing_ok=True)
            else:
                last.write_bytes(b"something else")

        with pytest.raises(fbed.InvalidInput, match=message):
            fbed.select(str(folder), y, memory_limit=LIMIT, progress=spoil, alpha=0.3)


def test_models_next_to_collinear_need_their_columns_in_memory(tmp_path, monkeypatch):
    from fbed.api import larger_than_memory

    rng = np.random.default_rng(14)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] > 0).astype(int)  # separated
    as_frame(X).to_parquet(tmp_path / "t.parquet", row_group_size=50)
    near = fbed.select(as_frame(X), y)
    assert_same_answer(near, fbed.select(tmp_path / "t.parquet", y, memory_limit=LIMIT))
    made = larger_than_memory.Far
    monkeypatch.setattr(larger_than_memory, "Far", lambda source, crew, loaded, *_: made(source, crew, loaded, 100))
    read = larger_than_memory.far_or_near(tmp_path / "t.parquet", LIMIT, None, None)
    model = larger_than_memory.read_problem_elsewhere(read, y, [fbed.BIC()]).model
    with pytest.raises(fbed.InvalidInput, match="raise memory_limit"):
        model.fit([0])


def test_a_piece_that_waits_holds_no_more_than_it_has_room_for(tmp_path):
    from fbed.api import larger_than_memory

    rng = np.random.default_rng(15)
    X = rng.normal(size=(1000, 20))
    y = (X[:, 0] + rng.logistic(size=1000) > 0).astype(int)
    as_frame(X).to_parquet(tmp_path / "t.parquet", row_group_size=250)
    far = larger_than_memory.far_or_near(tmp_path / "t.parquet", LIMIT, None, None)
    far.crew.room = 4 * 8 * 1000  # four columns
    model = larger_than_memory.read_problem_elsewhere(far, y, [fbed.BIC()]).model
    fit = model.fit([3])
    for candidates in (np.arange(4, 20), np.array([4, 5]), np.array([6])):
        fit.sums.look(fit.sweep.rows, fit.selected, candidates)
        kept = {tuple(piece._kept) for piece in far.crew.pieces}
        assert kept == {16: {(3,)}, 2: {(3, 4, 5)}, 1: {(4, 5, 3, 6)}}[len(candidates)]
        assert all(piece.design.table.matrix.shape[1] == 0 for piece in far.crew.pieces)


def test_a_piece_keeps_no_blocks_of_categories(tmp_path):
    """In memory, blocks of a model with categories are kept expanded; of parts they would be the whole table."""
    from fbed.api import larger_than_memory

    rng = np.random.default_rng(18)
    frame = pd.DataFrame({"a": rng.normal(size=400), "word": rng.choice(list("xyz"), 400)})
    y = (frame["a"] + rng.logistic(size=400) > 0).astype(int)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    far = larger_than_memory.far_or_near(tmp_path / "t.parquet", LIMIT, None, None)
    larger_than_memory.read_problem_elsewhere(far, y, [fbed.BIC()]).model.fit([0, 1])
    assert len(far.crew.pieces) == 4
    assert all(piece.sums.blocks._kept == {} for piece in far.crew.pieces)


def test_progress_tells_passes_and_bytes(tmp_path):
    rng = np.random.default_rng(17)
    X = rng.normal(size=(1000, 6))
    as_frame(X).to_parquet(tmp_path / "t.parquet", row_group_size=250)
    told = []
    fbed.select(tmp_path / "t.parquet", X[:, 0] + rng.normal(size=1000), memory_limit=LIMIT, progress=told.append)
    passes, read = [one.passes for one in told], [one.bytes_read for one in told]
    assert passes == sorted(passes)
    assert read[0] >= 2 * X.nbytes  # types and moments, then the first scan
    assert read == sorted(read)
    assert f"pass {passes[-1]}, {read[-1] / 1e6:.1f} MB" in str(told[-1])
    near = []
    fbed.select(X, X[:, 0] + rng.normal(size=1000), progress=near.append)
    assert "pass" not in str(near[-1])


def written(folder, *parts):
    for i, part in enumerate(parts):
        part.to_parquet(folder / f"part{i}.parquet", index=False)
    return str(folder / "*.parquet")


FILES_THAT_DIFFER = {
    "an empty file first, whose text has no type": (lambda half: half.iloc[:0], lambda half: half),
    "whole numbers, then others": (lambda half: half.assign(a=np.arange(len(half))), lambda half: half),
    "nothing known, then something": (lambda half: half.assign(b=None), lambda half: half),
    "a category, then text": (lambda half: half.assign(kind=half["kind"].astype("category")), lambda half: half),
    "a column more in the second": (lambda half: half.drop(columns="b"), lambda half: half),
}


@pytest.mark.parametrize("limit", [None, LIMIT])
@pytest.mark.parametrize("how", FILES_THAT_DIFFER)
def test_files_that_differ(how, limit, tmp_path):
    """Arrow took columns and types of the first file, and left out or failed on what others had."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "y"]).assign(kind=rng.choice(["u", "v"], 200))
    table["y"] += table["b"] + (table["kind"] == "u")
    halves = [change(half) for change, half in zip(FILES_THAT_DIFFER[how], (table[:100], table[100:]), strict=True)]
    typed = [half.astype({"kind": str, **({"b": float} if "b" in half else {})}) for half in halves]
    together = pd.concat(typed, ignore_index=True)
    found = fbed.select(written(tmp_path, *halves), "y", missing="indicator", memory_limit=limit)
    expected = fbed.select(together, "y", missing="indicator")
    assert set(found.selected) == set(expected.selected) == {"b", "kind"}
    assert [step.statistic for step in found.trace] == pytest.approx([step.statistic for step in expected.trace])


@pytest.mark.parametrize("limit", [None, LIMIT])
def test_files_that_cannot_be_read_together(limit, tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["a", "y"])
    with pytest.raises(fbed.InvalidInput, match="cannot be read: Failed to parse string: 'much'"):
        fbed.select(written(tmp_path, table, table.assign(a="much")), "y", memory_limit=limit)


@pytest.mark.parametrize("limit", [None, LIMIT])
def test_a_lazy_frame_whose_files_are_gone(limit, tmp_path):
    polars = pytest.importorskip("polars")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["a", "y"])
    lazy = polars.scan_parquet(written(tmp_path, table))
    (tmp_path / "part0.parquet").unlink()
    with pytest.raises(fbed.InvalidInput, match="the table cannot be read"):
        fbed.select(lazy, "y", memory_limit=limit)
