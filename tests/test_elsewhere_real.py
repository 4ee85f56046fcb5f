"""Real tables that are read part by part have the answers of the same tables in memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fbed
from elsewhere_cases import LIMIT, as_frame, assert_same_answer
from fbed.families import builders
from fbed.out_of_memory import sources

FOLDER = Path(os.environ.get("FBED_DATA_DIR", ""))
pytestmark = pytest.mark.skipif(
    "FBED_DATA_DIR" not in os.environ or not FOLDER.is_dir(), reason="FBED_DATA_DIR does not name the folder of data"
)

TABLES = {
    "extra/credit_g.parquet": {"y": "class", "test": "lr"},
    "extra/bikeshare.parquet": {
        "y": "bikers",
        "family": "poisson",
        "criterion": "bic",
        "exclude": ["casual", "registered"],
    },
    "extra/communities.parquet": {"y": "ViolentCrimesPerPop", "missing": "indicator", "alpha": 0.001},
    "extra/ames.parquet": {"y": "Sale_Price", "criterion": "bic", "test": "lr", "max_features": 8},
    "paper/madelon.npz": {"y": "y", "alpha": 0.01},
    "paper/musk2.npz": {"y": "y", "criterion": "ebic", "max_features": 10},
}


@pytest.mark.parametrize("name", TABLES)
def test_real_tables(name, tmp_path, monkeypatch):
    path, options = FOLDER / name, dict(TABLES[name])
    if not path.is_file():
        pytest.skip(f"{name} is not in the folder that FBED_DATA_DIR names")
    if path.suffix == ".npz":
        file = np.load(path)
        frame = as_frame(file["X"]).assign(y=file["y"])
    else:
        frame = pd.read_parquet(path)
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=997)
    monkeypatch.setattr(builders, "TALL", 0)
    monkeypatch.setattr(sources, "ROWS", 900)
    near = fbed.select(frame, **options)
    assert_same_answer(near, fbed.select(tmp_path / "table.parquet", memory_limit=LIMIT, **options))
    assert near.selected
