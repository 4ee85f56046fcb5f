"""Tables that are read part by part, and checkpoints, on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from elsewhere_cases import as_frame
from fbed.cli.command import main


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(5)
    frame = as_frame(rng.normal(size=(900, 6)))
    frame["word"] = rng.choice(["red", "green"], len(frame))
    frame["y"] = (frame["x0"] + (frame["word"] == "red") + rng.logistic(size=len(frame)) > 0).astype(int)
    for i in range(3):
        frame[300 * i : 300 * (i + 1)].to_parquet(tmp_path / f"part{i}.parquet", row_group_size=100)
    frame.to_csv(tmp_path / "whole.csv", index=False)
    return tmp_path


def selected(capsys, *arguments):
    assert main(["select", *map(str, arguments), "--target", "y", "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("options", [(), ("--memory-limit", "2GB"), ("--memory-limit", "2GB", "--n-jobs", "3")])
def test_several_files(folder, capsys, options):
    whole = selected(capsys, folder / "whole.csv")
    found = selected(capsys, folder / "*.parquet", *options)
    assert found["selected"] == whole["selected"]
    assert found["n_tests"] == whole["n_tests"]
    for one, other in zip(found["trace"], whole["trace"], strict=True):
        assert (one["statistic"] or 0.0) == pytest.approx(other["statistic"] or 0.0, rel=1e-7)

    assert found["origin"]["reading"] == [f"X = {str(folder / '*.parquet')!r}"]


def test_a_checkpoint_is_used_again(folder, capsys):
    arguments = (folder / "*.parquet", "--memory-limit", "2GB", "--checkpoint", folder / "run.fbed")
    first, second = selected(capsys, *arguments), selected(capsys, *arguments)
    assert first["selected"] == second["selected"]
    assert main(["select", *map(str, arguments), "--target", "y", "--alpha", "0.5"]) == 2
    assert "belongs to other options" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["whole.csv", "--target", "y", "--memory-limit", "2GB"], "is read whole"),
        (["*.parquet", "--target", "z", "--memory-limit", "2GB"], "did you mean|is not in the file"),
        (["*.parquet", "--target", "y", "--memory-limit", "2GB", "--output", "kept.csv"], "--output writes"),
        (["*.parquet", "--target", "y", "--positive", "1"], "need a table that is in memory"),
        (["*.parquet", "--target", "y", "--memory-limit", "little"], "memory_limit must be"),
        (["*", "--target", "y"], "several files are read together"),
        (["none*.parquet", "--target", "y"], "no file has such a name"),
    ],
)
def test_what_is_refused(folder, capsys, monkeypatch, arguments, message):
    import re

    monkeypatch.chdir(folder)
    assert main(["select", *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)
