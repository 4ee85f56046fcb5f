"""Real tables that are read part by part, or are on a device, have the answers of the same tables in memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from elsewhere_cases import LIMIT, as_frame, assert_same_answer
from fbed.families import builders
from fbed.larger_than_memory import sources
from fbed.models.engines.tall import array_sums
from test_devices import DEVICES
from test_genotypes import same

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


def read(name):
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"{name} is not in the folder that FBED_DATA_DIR names")
    if path.suffix != ".npz":
        return pd.read_parquet(path)
    file = np.load(path)
    return as_frame(file["X"]).assign(y=file["y"])


@pytest.mark.parametrize("name", TABLES)
def test_real_tables(name, tmp_path, monkeypatch):
    frame, options = read(name), TABLES[name]
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=997)
    monkeypatch.setattr(builders, "TALL", 0)
    monkeypatch.setattr(sources, "ROWS", 900)
    near = fbed.select(frame, **options)
    assert_same_answer(near, fbed.select(tmp_path / "table.parquet", memory_limit=LIMIT, **options))
    assert near.selected


@pytest.mark.parametrize("device", [name for name in DEVICES if name != "cpu"])  # which does the arithmetic of cuda
@pytest.mark.parametrize("name", TABLES)
def test_real_tables_on_a_device(name, device, monkeypatch):
    frame, options = read(name), TABLES[name]
    monkeypatch.setattr(array_sums, "_MANY", 1)
    same(fbed.select(frame, device=device, **options), fbed.select(frame, **options))


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
@pytest.mark.parametrize("search", [{"criterion": "ebic"}, {"alpha": 0.001, "max_features": 8}], ids=str)
@pytest.mark.parametrize("name", ["hiva", "madelon", "musk2", "secom"])  # others have next to no rows, or separate
def test_sets_of_the_paper_on_a_gpu(name, search):
    path = FOLDER / "paper" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{name} is not in the folder that FBED_DATA_DIR names")
    file = np.load(path)
    X = sparse.load_npz(path).toarray() if "indptr" in file else file["X"]
    y, search = file["y"], {**search, "missing": "indicator"}
    same(fbed.select(X, y, device="cuda", **search), fbed.select(X, y, **search))
