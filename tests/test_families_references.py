"""Statistics, degrees of freedom and log p-values of every family against an independent computation."""

from __future__ import annotations

import numpy as np
import pytest

from family_cases import CASES, bound, columns, predictors, signal
from fbed import families
from fbed.matrix.design import Design
from fbed.tables.extras import read_extras
from fbed.tables.outcomes import read_outcome
from fbed.tables.table import read_table

N_DATASETS = 20
SETS = ([], [0], [0, 1], [4, 0])


def dataset(case, seed, n=90):
    rng = np.random.default_rng(seed)
    frame = predictors(rng, n, case.predictors)
    y, extras = case.draw(rng, signal(frame))
    return frame, y, extras


@pytest.mark.parametrize("name", CASES)
def test_random_datasets(name):
    case = CASES[name]
    for seed in range(N_DATASETS):
        frame, y, extras = dataset(case, seed)
        selected = SETS[seed % len(SETS)]
        candidates = [j for j in (2, 3, 4, 5) if j not in selected][: 2 if case.slow else 4]
        found = bound(case, frame, y, extras).fit(selected).gains(np.array(candidates))
        for i, j in enumerate(candidates):
            statistic, df, log_p = case.reference(columns(frame, selected), columns(frame, [*selected, j]), y, extras)
            where = f"seed {seed}, S = {selected}, candidate {j}"
            assert found.df[i] == df, where
            assert found.statistic[i] == pytest.approx(statistic, rel=case.tolerance, abs=case.tolerance), where
            assert found.log_p[i] == pytest.approx(log_p, rel=1e-4, abs=10 * case.tolerance), where


@pytest.mark.parametrize("name", CASES)
def test_removal_is_the_test_of_the_variable_given_the_others(name):
    case = CASES[name]
    frame, y, extras = dataset(case, 1)
    lost = bound(case, frame, y, extras).fit([0, 4, 1]).losses(np.array([0, 4]))
    for i, (j, others) in enumerate([(0, [4, 1]), (4, [0, 1])]):
        statistic, df, log_p = case.reference(columns(frame, others), columns(frame, [*others, j]), y, extras)
        assert lost.df[i] == df
        assert lost.statistic[i] == pytest.approx(statistic, rel=case.tolerance, abs=case.tolerance)
        assert lost.log_p[i] == pytest.approx(log_p, rel=1e-4, abs=10 * case.tolerance)


def test_kernel_tests_are_those_of_causal_learn():
    """The logarithm of causal-learn's own p-value, as long as that is not yet 0."""
    cit = pytest.importorskip("causallearn.utils.cit")
    for seed in range(N_DATASETS):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 4))
        y = X[:, 0] ** 2 + 0.5 * X[:, 1] + rng.normal(size=60)
        own = cit.CIT(np.column_stack([X, y]), "kci")
        model = kernel_model(X, y)
        for selected in ([], [0], [0, 1]):
            candidates = np.array([j for j in range(4) if j not in selected])
            found = model.fit(selected).gains(candidates)
            expected = [own(j, 4, selected) for j in candidates]
            assert np.exp(found.log_p) == pytest.approx(expected, rel=1e-5, abs=1e-9), (seed, selected)


def kernel_model(X, y):
    kind = families.find("kernel")
    design = Design(read_table(X), np.ones(len(y)))
    return kind.build(families.Request(design, read_outcome(y, len(y)), read_extras(X, len(y), {}), "kci"))
