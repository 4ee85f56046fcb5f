"""Survival times of tables that are read part by part: rows in order of time, and the answers of memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import namedtuple

import numpy as np
import pandas as pd
import pytest

import fbed
from elsewhere_cases import LIMIT, STORAGES, as_frame, assert_same_answer, dense, stored
from engine_cases import ALGORITHMS, CRITERIA, KINDS, of_another_family
from fbed.cli.command import main
from fbed.families import builders
from fbed.larger_than_memory import scratch, sources
from fbed.larger_than_memory.sources import source_of
from fbed.larger_than_memory.workers import Here
from test_checkpoint import Killed, kill_after, lines_of
from test_elsewhere import mixed_table


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)
    monkeypatch.setattr(sources, "ROWS", 40)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hostile_tables(kind, seed, tmp_path, monkeypatch):
    number = KINDS.index(kind)
    rng = np.random.default_rng([32, number, seed])
    case = of_another_family(kind(rng, "gaussian"), rng, "cox")
    X, (time, event) = dense(case.X), case.y
    if seed % 2:
        time = np.ceil(4 * time)  # ties, also with those who are censored
    options = {
        "criterion": CRITERIA[(number + seed) % len(CRITERIA)],
        **ALGORITHMS[(2 * number + seed) % len(ALGORITHMS)],
        "max_features": 5,
        "sample_weight": case.weights,
        "include": case.forced,
        "strata": rng.integers(0, 3, len(time)) if seed and number % 2 else None,
    }
    rows = int(rng.integers(3, 60))
    monkeypatch.setattr(sources, "ROWS", rows)
    far = stored(X, STORAGES[(number + seed) % len(STORAGES)], tmp_path, rows)
    near = X if isinstance(far, np.memmap) else as_frame(X)
    found = fbed.select(far, (time, event), memory_limit=LIMIT, **options)
    assert_same_answer(fbed.select(near, (time, event), **options), found)


def survival_table(rng, missing="error", n=400):
    table, signal = mixed_table(rng, n)
    table["months"] = np.ceil(9 * rng.exponential(size=n) * np.exp(-signal))
    table["died"] = rng.random(n) < 0.7
    table["centre"] = rng.choice(["north", "south", "empty"], n)
    table.loc[table["centre"] == "empty", "died"] = False
    table["copies"] = rng.integers(0, 3, n)
    if missing != "error":
        for name in ("a", "count", "word", "size", "flag"):
            column = table[name] if name in ("a", "word", "size") else table[name].astype(object)
            table[name] = column.where(rng.random(n) > 0.05, None)
        table["count"], table["flag"] = table["count"].astype("Int16"), table["flag"].astype("boolean")
    if missing == "drop":
        table["months"] = table["months"].where(rng.random(n) > 0.02, None)
    return table


@pytest.mark.parametrize("rows", [37, 150, 1000])
@pytest.mark.parametrize("missing", ["error", "drop", "indicator"])
def test_every_kind_of_column(missing, rows, tmp_path):
    """Times, events, strata and weights by name, ties, categories, groups, forced variables, missing values."""
    rng = np.random.default_rng([5, len(missing), rows])
    table = survival_table(rng, missing)
    table.to_parquet(tmp_path / "table.parquet", row_group_size=rows)
    options = {
        "sample_weight": "copies",
        "strata": "centre",
        "groups": {"pair": ["b", "c"]},
        "categorical": ["code"],
        "include": ["d"],
        "exclude": ["size"] if rows == 150 else [],
        "rare_levels": 20,
        "criterion": "aic",
        "missing": missing,
    }
    near = fbed.select(table, ("months", "died"), **options)
    far = fbed.select(tmp_path / "table.parquet", ("months", "died"), memory_limit=LIMIT, **options)
    assert_same_answer(near, far)
    assert any("no event" in note for note in far.notes)
    same_model(near, far)
    assert far.overview.columns == near.overview.columns
    assert far.overview.outcome == near.overview.outcome
    np.testing.assert_allclose(far.overview.correlations, near.overview.correlations, rtol=1e-5, atol=1e-9)


def same_model(near, far):
    one, other = far.model, near.model
    assert one.terms == other.terms
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=1e-8)
    for name in ("log_likelihood", "null_log_likelihood", "center"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-12)
    for a, b in zip(one.baseline, other.baseline, strict=True):
        assert (a.stratum, a.times) == (b.stratum, b.times)
        np.testing.assert_allclose(a.hazard, b.hazard, rtol=1e-8)
    for a, b in zip(one.checks, other.checks, strict=True):
        assert (a.assumption, a.term, a.df) == (b.assumption, b.term, b.df)
        assert a.statistic == pytest.approx(b.statistic, rel=1e-6, abs=1e-9)


def plain_data(n=1500, p=8):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(n, p))
    return X, rng.exponential(size=n) * np.exp(-X[:, :3].sum(axis=1)), rng.random(n) < 0.6


@pytest.mark.parametrize("order", [np.arange, lambda n: np.arange(n)[::-1], np.random.default_rng(2).permutation])
def test_rows_in_any_order(order, tmp_path):
    """Sorted by time either way, or not at all; threads and memory change no bit."""
    X, time, event = plain_data()
    rows = np.argsort(time)[order(len(time))]
    X, y = X[rows], (time[rows], event[rows])
    as_frame(X).to_parquet(tmp_path / "t.parquet", row_group_size=200)
    one, two = (
        fbed.select(tmp_path / "t.parquet", y, memory_limit=limit, n_jobs=jobs)
        for limit, jobs in (("3GB", 1), ("6GB", 5))
    )
    assert [row.statistic for row in one.trace] == [row.statistic for row in two.trace]
    assert one.model.coefficients == two.model.coefficients
    near = fbed.select(as_frame(X), y)
    assert_same_answer(near, one)
    same_model(near, one)


@pytest.mark.parametrize("together", [1, 3])
def test_few_columns_at_a_time(together, tmp_path, monkeypatch):
    """Sums of those at risk are carried on for each of them, however they are cut."""
    from fbed.api import larger_than_memory

    table = survival_table(np.random.default_rng(11))
    table.to_parquet(tmp_path / "t.parquet", row_group_size=90)
    made = larger_than_memory.in_order_of_time

    def narrow(*arguments):
        crew = made(*arguments)
        crew.room, crew.loaded = 0, 8 * 40 * together
        return crew

    monkeypatch.setattr(larger_than_memory, "in_order_of_time", narrow)
    options = {"strata": "centre", "categorical": ["code"], "exclude": ["rare"], "alpha": 0.2}
    near = fbed.select(table, ("months", "died"), **options)
    assert_same_answer(near, fbed.select(tmp_path / "t.parquet", ("months", "died"), memory_limit=LIMIT, **options))


@pytest.mark.parametrize("rows", [1, 7, 64, 1000])
def test_the_scratch_file_is_the_table_in_another_order(rows, tmp_path, monkeypatch):
    """Types of every size, rows that are left out, parts without rows."""
    monkeypatch.setattr(sources, "ROWS", 30)
    rng = np.random.default_rng(rows)
    n = 500
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 99, n).astype(np.int8)})
    frame["c"], frame["d"] = rng.normal(size=n).astype(np.float32), rng.random(n) < 0.5
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=30)
    source = source_of(tmp_path / "t.parquet")
    keep = rng.random(n) < 0.7
    keep[60:90] = False
    keeps = np.split(keep, np.cumsum([part.n_rows for part in source.parts])[:-1])
    order = rng.permutation(int(keep.sum()))
    kinds = {j: (np.dtype(kind),) for j, kind in enumerate(("f8", "i1", "f4", "u1"))}
    outline = Outline({j: Reading(name) for j, name in enumerate("abcd")}, Table({}))
    file = scratch.Scratch(kinds, len(order), rows)
    crew = Here(source.parts, 3, 0, 1)
    lengths = [int(mask.sum()) for mask in keeps]
    assert scratch.in_order(crew, outline, file, order, keeps, lengths, 2) == len(order) * 14
    parts = file.parts(rows)
    assert max(part.n_rows for part in parts) <= rows
    for j, name in enumerate("abcd"):
        found = np.concatenate([part.ready([j])[j][0] for part in parts])
        assert found.dtype == kinds[j][0]
        np.testing.assert_array_equal(found, frame[name].to_numpy()[keep][order])


Outline = namedtuple("Outline", ["readings", "table"])
Table = namedtuple("Table", ["indicators"])


class Reading:
    """A column as it is."""

    def __init__(self, name):
        self.wanted = fbed.larger_than_memory.digest.Wanted(name, name, False)

    def __call__(self, raw):
        return raw


def test_the_scratch_file_goes(tmp_path, monkeypatch):
    """It is only there while the search is, and has no name by which it could stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    X, time, event = plain_data(300, 4)
    as_frame(X).to_parquet(tmp_path / "t.parquet")
    seen = []
    fbed.select(
        tmp_path / "t.parquet",
        (time, event),
        memory_limit=LIMIT,
        progress=lambda _: seen.append(list((tmp_path / "scratch").iterdir())),
    )
    assert seen
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_disk_without_room(tmp_path, monkeypatch):
    X, time, event = plain_data(300, 4)
    as_frame(X).to_parquet(tmp_path / "t.parquet")
    space = namedtuple("space", ["free"])(100)
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda _: space)
    with pytest.raises(fbed.InvalidInput, match=r"9,600 bytes.*TMPDIR"):
        fbed.select(tmp_path / "t.parquet", (time, event), memory_limit=LIMIT)


def test_a_disk_that_becomes_full(tmp_path):
    """The system refuses to let a file grow."""
    X, time, event = plain_data(3000, 4)
    frame = as_frame(X)
    frame["time"], frame["event"] = time, event
    frame.to_parquet(tmp_path / "t.parquet")
    script = f"""
import resource, fbed
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    fbed.select({str(tmp_path / "t.parquet")!r}, ("time", "event"), memory_limit="2GB")
except fbed.InvalidInput as error:
    assert "TMPDIR" in str(error), error
else:
    raise SystemExit("no error")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("answers", [0, 1, 4])
def test_a_search_that_was_killed_goes_on(answers, tmp_path, monkeypatch):
    X, time, event = plain_data(600, 12)
    as_frame(X).to_parquet(tmp_path / "t.parquet", row_group_size=100)
    options = {"memory_limit": LIMIT, "alpha": 0.3, "checkpoint": tmp_path / "run.fbed"}
    whole = fbed.select(as_frame(X), (time, event), alpha=0.3)
    with monkeypatch.context() as patch:
        kill_after(patch, answers)
        with pytest.raises(Killed):
            fbed.select(tmp_path / "t.parquet", (time, event), **options)
    assert lines_of(tmp_path / "run.fbed") >= answers
    assert_same_answer(whole, fbed.select(tmp_path / "t.parquet", (time, event), **options))
    with pytest.raises(fbed.InvalidInput, match="other data: outcome"):
        fbed.select(tmp_path / "t.parquet", (time + 1e-9, event), **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry": "a"}, "entry .* needs all rows in memory"),
        ({"family": "weibull"}, "family 'weibull' needs all rows in memory"),
        ({"test": "score"}, "test='score' needs all rows in memory"),
        ({"engine": "exhaustive"}, "needs all rows in memory"),
        ({"y": "months", "family": "cox"}, r"y=\('time', 'event'\)"),
        ({"y": ("months", "dead")}, "not a column"),
        ({"y": ("a", "died")}, "times of 0 or more"),
        ({"y": ("months", "never")}, "every time is censored"),
        ({"y": ("months", "code")}, "event must be True or 1"),
        ({"y": ("months", "gaps")}, "NaN or missing"),
        ({"strata": "gaps"}, "strata is missing in 1 rows"),
        ({"offset": "a"}, "offset"),
        ({"sample_weight": "often"}, "one by one"),
        ({"memory_limit": "1MB"}, "too small"),
    ],
)
def test_what_is_refused(change, message, tmp_path):
    table = survival_table(np.random.default_rng(3))
    extra = {
        "never": np.zeros(400, bool),
        "often": np.full(400, 1000),
        "gaps": np.where(np.arange(400) == 3, np.nan, 1),
    }
    table.to_parquet(tmp_path / "t.parquet")
    options = {"y": ("months", "died"), "memory_limit": LIMIT, **change}
    for role, value in options.items():  # columns that are not of the table
        if isinstance(value, str):
            options[role] = extra.get(value, value)
    if isinstance(options["y"], tuple) and options["y"][1] in extra:
        options["y"] = (options["y"][0], extra[options["y"][1]])
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.select(tmp_path / "t.parquet", **options)


def test_collections_of_dask_without_a_cluster(tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    table = survival_table(np.random.default_rng(4))[["a", "b", "c", "word", "months", "died"]]
    far = fbed.select(frames.from_pandas(table, npartitions=3), ("months", "died"), memory_limit=LIMIT)
    assert_same_answer(fbed.select(table, ("months", "died")), far)


def test_on_the_command_line(tmp_path, capsys):
    table = survival_table(np.random.default_rng(6))
    table.to_parquet(tmp_path / "t.parquet", row_group_size=90)
    words = ["--time", "months", "--event", "died", "--strata", "centre", "--exclude", "rare"]
    words += ["--memory-limit", "2GB", "--checkpoint", str(tmp_path / "run.fbed"), "--save", str(tmp_path / "r.json")]
    assert main(["select", str(tmp_path / "*.parquet"), *words]) == 0
    assert "a" in capsys.readouterr().out
    near = fbed.select(table, ("months", "died"), strata="centre", exclude=["rare"])
    assert_same_answer(near, fbed.Result.from_json(tmp_path / "r.json"))
