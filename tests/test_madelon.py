"""Madelon, one of the paper's datasets: what two independent implementations also select."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fbed

FOLDER = os.environ.get("FBED_DATA_DIR")
MADELON = Path(FOLDER or ".") / "paper" / "madelon.npz"

pytestmark = pytest.mark.skipif(
    FOLDER is None or not MADELON.exists(),
    reason="needs madelon: set FBED_DATA_DIR to a folder that holds paper/madelon.npz",
)


@pytest.fixture(scope="module")
def madelon():
    with np.load(MADELON) as file:
        return file["X"], file["y"]


def test_shape_is_that_of_the_pooled_data(madelon):
    X, y = madelon
    assert X.shape == (2600, 500)
    assert y.sum() == 1300


@pytest.mark.parametrize("k, count", [(0, 19), (1, 26)])
def test_selected_variables(madelon, k, count):
    result = fbed.select(*madelon, criterion="lr", alpha=0.05, k=k)
    assert len(result.selected) == count
    assert result.selected[:5] == (475, 48, 424, 323, 285)
