"""Survival times beside categories: what is counted is what multiplying out gives, and searches are those of fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fbed
from engine_cases import Case, trail_of
from fbed._kernels import information_rows, level_information
from fbed.families import builders
from fbed.models.engines.tall import information_at_risk, risk_sums
from fbed.models.engines.tall.fit import TallFit
from fbed.models.engines.tall.model import TallModel
from fbed.models.engines.tall.risk_sums import RiskSums
from problem_cases import read_problem
from test_certified import assert_same, combination


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


@pytest.mark.parametrize("counting", ["by pairs", "written out"])
@pytest.mark.parametrize("extra", ["nothing", "weights", "strata"])
@pytest.mark.parametrize("tied", [False, True])
def test_everything_about_groups_is_as_multiplied(tied, extra, counting, monkeypatch):
    """Categories beside each other and themselves, and columns with indicators of what is missing."""
    rng = np.random.default_rng(11)
    table, time, event = survival_table(rng, tied=tied, levels=(3, 5, 60), n_numbers=9)
    for name in ("x1", "x2"):
        table[name] = table[name].where(rng.random(len(table)) < 0.8)
    extras = {
        "nothing": {},
        "weights": {"sample_weight": rng.integers(0, 4, len(table)).astype(float)},
        "strata": {"strata": rng.integers(0, 3, len(table))},
    }[extra]
    sums = tall_model(table, time, event, missing="indicator", **extras).sums
    monkeypatch.setattr(information_at_risk, "_MOST", 8)
    if counting == "written out":
        monkeypatch.setattr(information_at_risk, "level_information", lambda *_: None)
    for selected, others in [((), (0, 1, 2, 4)), ((3, 5, 6, 7, 8, 9, 10, 11), (0, 1, 2, 4)), ((2, 4, 3, 1), (0, 5))]:
        sweep = sums.sweep(selected, 0.3 * rng.normal(size=sums.blocks.width(selected)))
        counted = sums._counted_groups(sweep.rows, selected, others)
        for variable in others:
            expected = vars(sums._multiplied_group(sweep.rows, selected, variable))
            for name, value in vars(counted[variable]).items():
                room = 1e-10 * max(1.0, np.abs(expected[name]).max(initial=0.0))
                np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=room)


def test_hazards_too_far_apart_for_squares_are_multiplied():
    """Sums of pairs of levels would take squares of numbers whose squares are none."""
    course_of = [1.0, 1.0], [1, 2], [True, False]
    event, closes, starts = (np.array(a, dtype=d) for a, d in zip(course_of, (float, np.int64, bool), strict=True))
    codes = np.array([0, 1])

    def found(small):
        hazard, triangle = np.array([small, 1.0]), np.array([1.0 / small, 0.0, 0.0, 1.0, 0.0, 0.0])
        return level_information(event, closes, starts, hazard, np.ones(2), triangle, codes, 2, codes, 2)

    assert found(1e-200) is None
    np.testing.assert_allclose(found(1e-100), [[0.0, 0.0], [0.0, 0.0]], atol=1e-12)


def test_deaths_without_a_hazard_count_once():
    """Hazards may be 0 beside others; the level of such a death may have another one at the same time."""
    event, hazard, triangle = np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.0, 2.0]), np.array([0.7, -0.3, 0.2])
    closes, starts, codes, others = np.array([0, 0, 1]), np.array([True, False, False]), [1, 0, 0], [0, 1, 1]
    course, state = (event, closes, starts), (hazard, np.zeros(3), triangle)
    found = level_information(*course, *state, np.array(codes), 2, np.array(others), 2)
    one, other = (np.asfortranarray(np.eye(2)[which]) for which in (codes, others))
    np.testing.assert_allclose(found, one.T @ information_rows(*course, *state, other), rtol=1e-12)


def test_strata_whose_hazards_are_far_smaller_keep_their_information():
    rng = np.random.default_rng(8)
    n = 60
    stratum = np.repeat([0, 1], n // 2)
    table = pd.DataFrame({"x": rng.normal(size=n), "far": 100.0 * stratum + rng.normal(size=n)})
    time, event = np.ceil(4.0 * rng.exponential(size=n)), rng.random(n) < 0.8

    def information(rows, shift):
        model = tall_model(table[rows], time[rows], event[rows], strata=stratum[rows])
        scale = model.design.scale[model.design.positions([0, 1])]
        found = model.sums.sweep((0, 1), np.array([0.3, shift]) * scale).information
        return found * scale * scale[:, None]

    both = information(np.ones(n, dtype=bool), 3.0)
    apart = information(stratum == 0, 3.0) + information(stratum == 1, 3.0)
    np.testing.assert_allclose(both[0, 0], apart[0, 0], rtol=1e-9)


def eventless_case(rng):
    """Categories with levels in which nobody dies, the first among them, and others that share these rows."""
    n = int(rng.integers(40, 200))
    table, time, event = survival_table(rng, n, (4, 12, 30), n_numbers=3, tied=bool(rng.integers(2)))
    table["c0"] = np.where(table["c1"] == "1", "0", table["c0"])  # joined to rows of another category
    gone = rng.choice(table["c1"].unique(), 3)
    event &= ~table["c1"].isin(["1", *gone]).to_numpy()
    event[rng.choice(n, 6, replace=False)] = True
    weights = rng.choice([0.5, 1.0, 2.0], n) if rng.integers(2) else None
    return Case(table, (time, event), weights)


@pytest.mark.parametrize("seed", range(24))
def test_searches_without_rows_of_eventless_levels_are_those_of_fits(seed):
    rng = np.random.default_rng([5, seed])
    case = eventless_case(rng)
    criterion, algorithm = combination(seed)
    options = {**algorithm, "max_features": 5}
    assert_same(*(trail_of(case, "cox", criterion, engine, **options) for engine in ("exhaustive", "certified")))


def test_a_model_that_spares_rows_is_fitted_and_told_as_before():
    rng = np.random.default_rng(4)
    case = eventless_case(rng)
    model = tall_model(case.X, *case.y)
    fit = model.fit((1, 3), model.fit(()))
    careful = model.careful.fit((1, 3))
    assert isinstance(fit, TallFit)
    assert model.sums.spares_rows((1, 3))
    assert not model.sums.spares_rows((3, 4))
    assert fit.deviance == pytest.approx(careful.deviance, rel=1e-8)
    assert fit.describe() == model.careful.describe((1, 3))


def test_levels_that_share_all_rows_they_have_are_not_counted_twice():
    rng = np.random.default_rng(12)
    table, time, event = survival_table(rng, 150, (4, 4), n_numbers=2)
    table["c1"] = np.where(table["c0"] == "3", "3", np.where(table["c1"] == "3", "2", table["c1"]))
    event &= (table["c0"] != "3").to_numpy()
    found = tall_model(table, time, event).fit((0,)).gains(np.array([1]))
    fitted = tall_model(table, time, event).careful.fit((0,)).gains(np.array([1]))
    assert found.df.tolist() == fitted.df.tolist() == [2.0]
    np.testing.assert_allclose(found.statistic, fitted.statistic, rtol=1e-6)


def test_levels_of_a_row_or_two_are_found_by_a_few_sweeps():
    rng = np.random.default_rng(1)
    table, time, event = survival_table(rng, 1500, (400,), n_numbers=1, tied=False)
    table["c0"] = "level " + table["c0"]
    model = tall_model(table, time, event)
    null = model.fit(())
    null.gain_bounds(np.array([0]), lambda df: np.full(df.shape, np.inf))
    fit = null._with(0)
    assert fit is not None  # no step was too long
    assert fit.deviance == pytest.approx(model.careful.fit((0,)).deviance, rel=1e-8)


def test_large_categories_are_not_all_held_at_once(monkeypatch):
    """What a category has with itself are its levels squared."""
    rng = np.random.default_rng(2)
    table, time, event = survival_table(rng, 600, (3,), n_numbers=1)
    table = pd.DataFrame({f"c{j}": rng.permutation(600) % 60 for j in range(8)}).astype(str).assign(x=table["x0"])
    sums = tall_model(table, time, event).sums
    asked, counted_groups = [], RiskSums._counted_groups
    width = sums.blocks.width([0])
    monkeypatch.setattr(risk_sums, "_PRODUCTS", 4 * width * (width + 1) + 1)
    monkeypatch.setattr(
        RiskSums, "_counted_groups", lambda this, *given: asked.append(given[2]) or counted_groups(this, *given)
    )
    sweep, some = sums.sweep((8,), np.zeros(1)), np.arange(8)
    together = sums.look_at_groups(sweep.rows, (8,), some)
    assert not asked
    for variable, found in zip(some.tolist(), together, strict=True):
        alone = sums.look_at_group(sweep.rows, (8,), variable)
        for name, value in vars(found).items():
            np.testing.assert_array_equal(value, vars(alone)[name])
    assert sorted(map(len, asked)) == [1] * 8 + [4, 4]
