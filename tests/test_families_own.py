"""Tests of one's own: a function, or an object with a method `test`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 8))
Y = X[:, 2] - X[:, 5] + RNG.normal(size=200)


def partial_correlation(candidate, y, conditioning):
    """Fisher's z of the partial correlation."""
    Z = np.column_stack([np.ones(len(y)), conditioning])
    x, y = (v - Z @ np.linalg.lstsq(Z, v, rcond=None)[0] for v in (candidate[:, 0], y))
    z = np.arctanh(x @ y / np.sqrt((x @ x) * (y @ y))) * np.sqrt(len(y) - Z.shape[1] - 2)
    return z**2, 1, np.log(2.0) + stats.norm.logsf(abs(z))


class Thresholded:
    """An object carries its parameters."""

    def __init__(self, power):
        self.power = power

    def test(self, candidate, y, conditioning):
        return partial_correlation(candidate, np.sign(y) * np.abs(y) ** self.power, conditioning)


def test_a_function_is_a_family():
    result = fbed.select(X, Y, family=partial_correlation, alpha=0.01)
    assert result.selected == fbed.select(X, Y, family="gaussian", alpha=0.01).selected
    assert result.family == "partial_correlation"
    assert result.trace[0].statistic == pytest.approx(
        partial_correlation(X[:, [result.indices[0]]], Y, np.empty((200, 0)))[0]
    )
    assert fbed.Result.from_json(result.to_json()).selected == result.selected


def test_an_object_is_a_family():
    result = fbed.select(X, Y, family=Thresholded(0.5), alpha=0.01)
    assert set(result.indices) == {2, 5}
    assert result.family == "Thresholded"


def test_it_sees_the_outcome_as_it_was_given_and_categories_as_columns():
    pd = pytest.importorskip("pandas")
    seen = []

    def spy(candidate, y, conditioning):
        seen.append((candidate.shape, y.dtype.kind, conditioning.shape))
        return 0.0, 1.0, -0.1

    frame = pd.DataFrame({"c": pd.Categorical(["a", "b", "c", "d"] * 5), "one": 1.0})
    result = fbed.select(frame, np.array(["u", "v"] * 10), family=spy)
    assert seen == [((20, 3), "O", (20, 0))]
    assert result.n_tests.forward == 2  # the constant column counts, and is not shown


@pytest.mark.parametrize(
    "answer", [(1.0, 1.0), None, (1.0, 1.0, 0.5), (np.nan, 1.0, -1.0), (1.0, -1.0, -1.0), (1.0, 1.0, -np.inf)]
)
def test_answers_that_make_no_sense_are_refused(answer):
    with pytest.raises(fbed.InvalidInput, match="test '<lambda>'"):
        fbed.select(X, Y, family=lambda candidate, y, conditioning: answer)


def test_what_is_no_test_is_refused():
    with pytest.raises(fbed.InvalidInput, match="pass an object"):
        fbed.select(X, Y, family=Thresholded)
    with pytest.raises(fbed.InvalidInput, match="must be a name, a function"):
        fbed.select(X, Y, family=3.0)
    with pytest.raises(fbed.InvalidInput, match="p-values only"):
        fbed.select(X, Y, family=partial_correlation, criterion="ebic")
    with pytest.raises(fbed.InvalidInput, match="sample_weight"):
        fbed.select(X, Y, family=partial_correlation, sample_weight=np.ones(200))


def test_other_quantiles():
    rng = np.random.default_rng(1)
    y = np.where(rng.random(200) < 0.5, -1.0, 1.0) * rng.exponential(np.exp(X[:, 3]))  # spread, not location
    assert 3 in fbed.select(X, y, family=fbed.families.quantile(0.9), alpha=0.01).indices
    assert 3 not in fbed.select(X, y, family="quantile", alpha=0.01).indices
    with pytest.raises(fbed.InvalidInput, match="strictly between 0 and 1"):
        fbed.select(X, y, family=fbed.families.quantile(1.5))


def test_a_path_needs_no_distribution_of_the_statistic():
    grid = fbed.path(X, Y, family=partial_correlation, alphas=(0.3, 0.01), gammas=(), ks=(0,))
    for setting, result in zip(grid.settings, grid, strict=True):
        alone = fbed.select(
            X, Y, family=partial_correlation, alpha=setting.value, k=0, early_dropping=setting.k is not None
        )
        assert result.selected == alone.selected
        assert result.candidates.log_p == pytest.approx(alone.candidates.log_p, nan_ok=True)
