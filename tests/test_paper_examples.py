"""The paper's two examples of what early dropping and forward selection cannot see."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import fbed


def hidden_spouse(n=2000, seed=3):
    """X = T + Y with T and Y independent: Y alone tells nothing about T, but does once X is known."""
    rng = np.random.default_rng(seed)
    target, Y = rng.normal(1.0, 2.0, n), rng.normal(-1.0, 1.5, n)
    return np.column_stack([target + Y + 0.5 * rng.normal(size=n), Y]), target


def xor(copies=50):
    """T = X ⊕ Y, every combination equally often: neither is informative, both determine T."""
    table = np.array(list(product([0, 1], repeat=2)) * copies)
    return table, table[:, 0] ^ table[:, 1]


RUNS = {"FBED^0": {"k": 0}, "FBED^1": {"k": 1}, "FBED^inf": {"k": math.inf}, "FBS": {"early_dropping": False}}


@pytest.mark.parametrize("algorithm, selected", [("FBED^0", (0,)), ("FBED^1", (0, 1)), ("FBS", (0, 1))])
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_dropped_variable_returns_in_the_next_run(algorithm, selected, family):
    X, target = hidden_spouse()
    y = target if family == "gaussian" else target > 1.0
    result = fbed.select(X, y, family=family, alpha=0.01, **RUNS[algorithm])
    assert result.selected == selected


def test_without_noise_the_linear_model_becomes_perfect():
    X, target = hidden_spouse()
    X[:, 0] = target + X[:, 1]
    result = fbed.select(X, target, alpha=0.01, k=1)
    assert result.selected == (0, 1)
    assert result.model.coefficients == pytest.approx((0, 1, -1), abs=1e-9)


def test_dropping_happens_before_the_best_variable_enters():
    X, target = hidden_spouse()
    first = fbed.select(X, target, alpha=0.01, k=0).trace[0]
    assert (first.variable, first.dropped.tolist()) == (0, [1])


@pytest.mark.parametrize("algorithm", RUNS)
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_xor_is_invisible_and_the_empty_set_minimal(algorithm, family):
    X, y = xor()
    result = fbed.select(X, y, family=family, alpha=0.05, **RUNS[algorithm])
    assert result.selected == ()
    assert result.n_tests.forward == 2
    assert result.candidates.upper == pytest.approx([0, 0], abs=1e-9)


def test_xor_is_found_when_the_product_is_a_column():
    X, y = xor()
    X = np.column_stack([X, (2 * X[:, 0] - 1) * (2 * X[:, 1] - 1)])
    assert fbed.select(X, y, alpha=0.05).selected == (2,)
