"""Survival times beside categories: what is counted is what multiplying out gives, and searches are those of fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fbed
from fbed.families import builders
from fbed.models.engines.tall import information_at_risk, risk_sums
from fbed.models.engines.tall.model import TallModel
from problem_cases import read_problem


@pytest.fixture(autouse=True)
def however_short(monkeypatch):
    monkeypatch.setattr(builders, "TALL", 0)


def survival_table(rng, n=300, levels=(3, 12, 40), n_numbers=3, tied=True):
    """Categories with rare levels, numbers and survival times, tied or not."""
    table = pd.DataFrame(
        {f"c{j}": np.minimum(rng.geometric(3.0 / many, n), many).astype(str) for j, many in enumerate(levels)}
    )
    for j in range(n_numbers):
        table[f"x{j}"] = rng.normal(size=n)
    time = np.exp(0.5 * table["x0"].to_numpy()) * rng.exponential(size=n) if n_numbers else rng.exponential(size=n)
    time = np.ceil(4.0 * time) if tied else time
    return table, time, rng.random(n) < 0.7


def tall_model(table, time, event, **extras):
    model = read_problem(table, (time, event), [fbed.BIC()], family="cox", **extras).model
    assert isinstance(model, TallModel)
    return model


@pytest.mark.parametrize("extra", ["nothing", "weights", "strata"])
@pytest.mark.parametrize("tied", [False, True])
def test_counted_information_is_that_of_products(extra, tied, monkeypatch):
    rng = np.random.default_rng(3)
    table, time, event = survival_table(rng, tied=tied)
    extras = {
        "nothing": {},
        "weights": {"sample_weight": rng.integers(0, 4, len(table)).astype(float)},
        "strata": {"strata": rng.integers(0, 3, len(table))},
    }[extra]
    sums = tall_model(table, time, event, **extras).sums
    selected = (3, 2, 0, 4)
    coefficients = 0.3 * rng.normal(size=sums.blocks.width(selected))
    monkeypatch.setattr(information_at_risk, "_MOST", 5)  # several batches of levels

    def asked():
        sweep = sums.sweep(selected, coefficients)
        numbers = sums.look(sweep.rows, selected, np.array([5]))
        category = sums.look_at_group(sweep.rows, selected, 1)
        return sweep.gradient, sweep.information, *vars(numbers).values(), *vars(category).values()

    assert risk_sums.counted(sums.blocks, selected, constant=False) is not None
    found = asked()
    monkeypatch.setattr(risk_sums, "counted", lambda *_, **__: None)
    for counted, multiplied in zip(found, asked(), strict=True):
        np.testing.assert_allclose(counted, multiplied, rtol=1e-9, atol=1e-10 * max(1.0, np.abs(multiplied).max()))
