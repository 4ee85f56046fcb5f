"""A Dask cluster of real processes has the answers of one machine, also when a worker dies or joins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import fbed
from elsewhere_cases import LIMIT, STORAGES, as_frame, assert_same_answer, case_of, stored
from engine_cases import KINDS
from fbed.families import builders
from fbed.larger_than_memory import sources
from test_checkpoint import Killed, kill_after, lines_of

distributed = pytest.importorskip("distributed")


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)
    monkeypatch.setattr(sources, "ROWS", 1)


class Cluster:
    """A scheduler and workers, each a process of its own that nothing restarts: one that is killed stays dead."""

    def __init__(self, folder):
        self.file = folder / "scheduler.json"
        self.scheduler = self._started("scheduler", "--host=127.0.0.1", "--port=0")
        self.workers = []

    @property
    def scheduler_address(self):
        return json.loads(self.file.read_text())["address"]

    def scale(self, number):
        alive = [worker for worker in self.workers if worker.poll() is None]
        options = ("--host=127.0.0.1", "--nthreads=1", "--memory-limit=1GB", "--no-nanny")
        new = [self._started("worker", *options) for _ in range(number - len(alive))]
        stopped(alive[number:])
        self.workers = alive[:number] + new

    def close(self):
        stopped([*self.workers, self.scheduler])

    def _started(self, part, *options):
        command = [
            sys.executable,
            "-m",
            f"distributed.cli.dask_{part}",
            f"--scheduler-file={self.file}",
            "--no-dashboard",
        ]
        return subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stopped(processes):
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.scale(1)
    yield made
    made.close()


@pytest.fixture
def client(cluster):
    with distributed.Client(scheduler_file=str(cluster.file), timeout=60) as made:
        made.wait_for_workers(1, timeout=60)
        yield made


def scaled(cluster, client, workers):
    cluster.scale(workers)
    client.wait_for_workers(workers, timeout=60)
    return sorted(client.run(os.getpid, on_error="ignore").values())  # one that goes may still be listed


def data(tmp_path, n=2400):
    rng = np.random.default_rng(2)
    frame = as_frame(rng.normal(size=(n, 10)))
    frame["word"] = rng.choice(list("xyz"), n)
    signal_ = frame["x0"] + 0.5 * frame["x1"] + (frame["word"] == "x")
    frame["y"] = (signal_ + rng.logistic(size=n) > 0).astype(int)
    frame["copies"] = rng.integers(0, 3, n)
    frame.loc[rng.choice(n, 50), "x3"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=600)
    return frame


OPTIONS = {"y": "y", "sample_weight": "copies", "missing": "indicator", "include": ["x5"], "alpha": 0.1}


def test_the_number_of_workers_changes_no_bit(cluster, client, tmp_path):
    frame = data(tmp_path)
    near = fbed.select(frame, **OPTIONS)
    found = []
    for workers in (1, 2, 4):
        scaled(cluster, client, workers)
        found.append(fbed.select(tmp_path / "t.parquet", client=client, **OPTIONS))
        assert_same_answer(near, found[-1])
    for other in found[1:]:
        assert [row.statistic for row in other.trace] == [row.statistic for row in found[0].trace]
        assert other.model.coefficients == found[0].model.coefficients


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_hostile_tables(cluster, client, family, number, tmp_path, monkeypatch):
    kind = KINDS[(5 * len(family) + 3 * number) % len(KINDS)]
    X, y, options, _ = case_of(kind, family, 7)
    monkeypatch.setattr(sources, "ROWS", 40)
    far = stored(X, STORAGES[number % len(STORAGES)], tmp_path, 40)
    near = X if isinstance(far, np.memmap) else as_frame(X)
    assert_same_answer(fbed.select(near, y, **options), fbed.select(far, y, client=client, **options))


def test_collections(cluster, client, tmp_path):
    """Data frames and arrays of Dask, through the current client and without one."""
    frames, arrays = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.array")
    frame = data(tmp_path)
    near = fbed.select(frame, **OPTIONS)
    assert_same_answer(near, fbed.select(frames.from_pandas(frame, npartitions=3), **OPTIONS))
    X, y = frame[["x0", "x1", "x2"]].to_numpy(), frame["y"].to_numpy()
    blocks = arrays.from_array(X, chunks=(1000, 2))
    for given in (client, cluster.scheduler_address):
        found = fbed.select(blocks, arrays.from_array(y, chunks=1000), client=given)
        assert_same_answer(fbed.select(X, y), found)


def test_a_worker_that_is_killed_and_one_that_joins(cluster, client, tmp_path):
    frame = data(tmp_path)
    near = fbed.select(frame, **OPTIONS)
    calm = fbed.select(tmp_path / "t.parquet", client=client, **OPTIONS)
    first, *_ = scaled(cluster, client, 2)
    steps = []

    def trouble(progress):
        steps.append(progress)
        if len(steps) == 1:
            os.kill(first, signal.SIGKILL)
        elif len(steps) == 3:
            cluster.scale(3)

    found = fbed.select(tmp_path / "t.parquet", client=client, progress=trouble, **OPTIONS)
    assert len(steps) > 3
    assert_same_answer(near, found)
    assert [row.statistic for row in found.trace] == [row.statistic for row in calm.trace]


def test_a_search_goes_on_without_the_cluster_it_began_on(cluster, client, tmp_path, monkeypatch):
    """A scheduler that dies takes a search along, but not its checkpoint."""
    frame = data(tmp_path)
    options = {**OPTIONS, "checkpoint": tmp_path / "run.fbed"}
    with monkeypatch.context() as patch:
        kill_after(patch, 3)
        with pytest.raises(Killed):
            fbed.select(tmp_path / "t.parquet", client=client, **options)
    assert lines_of(tmp_path / "run.fbed") == 4
    assert_same_answer(
        fbed.select(frame, **OPTIONS), fbed.select(tmp_path / "t.parquet", memory_limit=LIMIT, **options)
    )


def test_a_file_that_goes_midway(cluster, client, tmp_path, monkeypatch):
    from fbed.larger_than_memory import cluster as of_cluster

    monkeypatch.setattr(of_cluster, "_SHARE", 0.0)  # nothing is kept, so that everything is read again
    data(tmp_path)
    with pytest.raises(fbed.InvalidInput, match="is gone now"):
        fbed.select(
            tmp_path / "t.parquet",
            client=client,
            progress=lambda progress: (tmp_path / "t.parquet").unlink(missing_ok=True),
            **OPTIONS,
        )


def test_what_is_no_client(tmp_path):
    data(tmp_path)
    with pytest.raises(fbed.InvalidInput, match=r"must be a dask.distributed.Client"):
        fbed.select(tmp_path / "t.parquet", client=7, **OPTIONS)
    with pytest.raises(fbed.InvalidInput, match="client is for tables"):
        fbed.select(np.zeros((9, 2)), np.arange(9), client="tcp://127.0.0.1:1")


def test_survival_times_are_for_one_machine(client, tmp_path):
    """Workers have rows in any order; what to do is said."""
    frame = data(tmp_path)
    y = frame["x0"].abs().to_numpy(), np.ones(len(frame), dtype=bool)
    with pytest.raises(fbed.InvalidInput, match=r"order of time.*leave out client and give memory_limit"):
        fbed.select(tmp_path / "t.parquet", y, client=client, exclude=["x3", "y", "copies"])
