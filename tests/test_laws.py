"""What must not change the answer: units, order, storage, table type, threads, and how rows are counted."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

import fbed

FAMILIES = ("gaussian", "binomial")
CRITERIA = ("lr", "aic", "bic", "ebic")
few = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)


def data(seed, family, n=80, p=8):
    """Integer-valued predictors, so that every number type and every storage holds exactly the same values."""
    rng = np.random.default_rng(seed)
    X = np.round(3 * rng.normal(size=(n, p)) + rng.normal(size=(n, 1)))
    signal = X[:, 0] - X[:, 3] + 0.5 * X[:, 5] + 3 * rng.normal(size=n)
    return X, signal if family == "gaussian" else (signal > 0).astype(int)


def assert_same(one, other, order=None, rtol=1e-8):
    """Same steps and numbers; `order` maps the other's indices to this one's."""
    renamed = (lambda j: j) if order is None else (lambda j: None if j is None else int(order[j]))
    assert [renamed(row.variable) for row in other.trace] == [row.variable for row in one.trace]
    assert other.n_tests == one.n_tests
    assert other.status == one.status
    for name in ("statistic", "log_p", "score"):
        found = [getattr(row, name) for row in other.trace if row.statistic is not None]
        wanted = [getattr(row, name) for row in one.trace if row.statistic is not None]
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-8)


def statistics(result):
    return result.candidates.lower


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES), criterion=st.sampled_from(CRITERIA))
def test_order_of_the_columns(seed, family, criterion):
    X, y = data(seed, family)
    X = X + 0.01 * np.random.default_rng(seed).normal(size=X.shape)  # rounded columns could tie
    order = np.random.default_rng(seed + 1).permutation(X.shape[1])
    assert_same(
        fbed.select(X, y, family=family, criterion=criterion, k=math.inf),
        fbed.select(X[:, order], y, family=family, criterion=criterion, k=math.inf),
        order,
    )


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES))
def test_order_of_the_rows(seed, family):
    X, y = data(seed, family)
    order = np.random.default_rng(seed).permutation(len(y))
    assert_same(fbed.select(X, y, family=family), fbed.select(X[order], y[order], family=family))


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES), powers=st.lists(st.integers(-150, 150), min_size=8, max_size=8))
def test_units_of_the_columns(seed, family, powers):
    X, y = data(seed, family)
    scaled = X * 10.0 ** np.array(powers)
    assert_same(fbed.select(X, y, family=family), fbed.select(scaled, y, family=family))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("power", [-150, 150])
def test_coefficients_follow_the_units(family, power):
    X, y = data(1, family)
    plain = fbed.select(X, y, family=family)
    scaled = fbed.select(X * 10.0**power, y, family=family)
    for name in ("coefficients", "standard_errors"):
        wanted = np.array(getattr(plain.model, name)[1:])
        np.testing.assert_allclose(np.array(getattr(scaled.model, name)[1:]) * 10.0**power, wanted, rtol=1e-8)


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES), shift=st.sampled_from([-1e6, 1.0, 12345.0, 1e9]))
def test_shifted_columns(seed, family, shift):
    X, y = data(seed, family)  # whole numbers: the shift loses nothing
    assert_same(fbed.select(X, y, family=family), fbed.select(X + shift, y, family=family))


@few
@given(seed=seeds, power=st.integers(-200, 200), shift=st.sampled_from([0.0, 1000.0]))
def test_units_of_a_continuous_outcome(seed, power, shift):
    X, y = data(seed, "gaussian")
    assert_same(fbed.select(X, y), fbed.select(X, (y + shift) * 10.0**power))


@few
@given(seed=seeds)
def test_either_class_may_be_the_first(seed):
    X, y = data(seed, "binomial")
    assert_same(fbed.select(X, y), fbed.select(X, 1 - y))


@pytest.mark.parametrize(
    "labels",
    [(0.25, 7.5), (-1, 1), ("no", "yes"), (False, True), (b"a", b"b")],
    ids=lambda labels: type(labels[0]).__name__,
)
def test_any_two_labels(labels):
    X, y = data(2, "binomial")
    named = np.array(labels)[y]
    result = fbed.select(X, named)
    assert_same(fbed.select(X, y), result)
    assert result.classes == labels


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES), criterion=st.sampled_from(CRITERIA))
def test_sparse_equals_dense(seed, family, criterion):
    X, y = data(seed, family)
    X = np.where(np.abs(X) > 3, X, 0)
    for convert in (sparse.csc_array, sparse.csr_matrix, sparse.coo_array):
        assert_same(
            fbed.select(X, y, family=family, criterion=criterion),
            fbed.select(convert(X), y, family=family, criterion=criterion),
        )


@few
@given(seed=seeds, power=st.integers(-150, 150))
def test_sparse_columns_in_any_units(seed, power):
    X, y = data(seed, "gaussian")
    X = np.where(np.abs(X) > 3, X, 0)
    assert_same(fbed.select(X, y), fbed.select(sparse.csc_array(X * 10.0**power), y))


def test_sparse_zeros_may_be_stored_and_entries_repeated():
    X, y = data(3, "gaussian")
    coo = sparse.coo_array(np.where(np.abs(X) > 3, X, 0))
    row, column = coo.coords
    doubled = sparse.coo_array(
        (np.r_[coo.data, coo.data, 0.0], (np.r_[row, row, 0], np.r_[column, column, 1])), shape=coo.shape
    )
    assert_same(fbed.select(coo, y), fbed.select(doubled, y))


def test_all_zero_sparse_columns_are_constant():
    X, y = data(4, "gaussian")
    X[:, [1, 6]] = 0
    dense, stored = fbed.select(X, y), fbed.select(sparse.csr_array(X), y)
    assert_same(dense, stored)
    assert stored.notes == ("2 constant columns cannot be selected",)
    assert not {1, 6} & set(stored.selected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "int16", "int8", "O"])
@pytest.mark.parametrize("family", FAMILIES)
def test_number_types(dtype, family):
    X, y = data(5, family)
    assert_same(fbed.select(X, y, family=family), fbed.select(X.astype(dtype), y, family=family))


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "bool"])
def test_unsigned_and_boolean_types(dtype):
    X, y = data(5, "gaussian")
    X = X > 0
    assert_same(fbed.select(X.astype(float), y), fbed.select(X.astype(dtype), y))


def test_memory_layout():
    X, y = data(6, "gaussian")
    wide = np.zeros((2 * len(X), X.shape[1]))
    wide[::2] = X
    for same in (np.asfortranarray(X), wide[::2], X[::-1][::-1]):
        assert_same(fbed.select(X, y), fbed.select(same, y))


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES), criterion=st.sampled_from(CRITERIA))
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(seed, family, criterion):
    X, y = data(seed, family)
    weights = np.random.default_rng(seed).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    one = fbed.select(X[repeated], y[repeated], family=family, criterion=criterion)
    other = fbed.select(X, y, family=family, criterion=criterion, sample_weight=weights)
    assert_same(one, other)
    np.testing.assert_allclose(other.model.coefficients, one.model.coefficients, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.model.standard_errors, one.model.standard_errors, rtol=1e-6)
    assert other.n == one.n == weights.sum()


def test_weights_of_one_change_nothing():
    X, y = data(7, "gaussian")
    for ones in (np.ones(len(y)), 1, np.ones(len(y), dtype=int), [1] * len(y)):
        assert_same(fbed.select(X, y), fbed.select(X, y, sample_weight=ones))


def test_fractional_weights_get_a_note():
    X, y = data(7, "gaussian")
    assert "not whole numbers" in fbed.select(X, y, sample_weight=np.full(len(y), 1.5)).notes[0]
    assert fbed.select(X, y, sample_weight=np.full(len(y), 2.0)).notes == ()


def test_a_row_of_weight_zero_does_not_decide_the_family():
    X, y = data(8, "binomial")
    weights = np.ones(len(y))
    weights[0] = 0
    y[0] = 5
    result = fbed.select(X, y, sample_weight=weights)
    assert result.family == "binomial"
    assert result.classes == (0, 1)
    assert_same(fbed.select(X[1:], y[1:]), result)


def test_a_level_of_weight_zero_is_no_level():
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    frame = pd.DataFrame({"c": ["a"] * 5 + list(rng.choice(["b", "c", "d"], 55))})
    weights = np.r_[np.zeros(5), np.ones(55)]
    weighted = fbed.select(frame, y, include=["c"], sample_weight=weights)
    without = fbed.select(frame[5:], y[5:], include=["c"])
    assert weighted.model.terms == without.model.terms
    assert weighted.model.coefficients == pytest.approx(without.model.coefficients)


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES))
def test_threads_change_nothing(seed, family):
    X, y = data(seed, family, p=17)
    X[:, 9] = X[:, 3]
    one = fbed.select(X, y, family=family, n_jobs=1)
    assert_same(one, fbed.select(X, y, family=family, n_jobs=4), rtol=1e-10)


TABLES = {
    "numpy": lambda X, names: X,
    "pandas": lambda X, names: pd.DataFrame(X, columns=names),
    "pandas, nullable": lambda X, names: pd.DataFrame(X, columns=names).convert_dtypes(),
    "pandas, arrow": lambda X, names: pd.DataFrame(X, columns=names).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda X, names: pl.DataFrame(X, schema=names),
    "arrow": lambda X, names: pa.table({name: X[:, j] for j, name in enumerate(names)}),
    "mapping": lambda X, names: {name: X[:, j] for j, name in enumerate(names)},
    "lists": lambda X, names: X.tolist(),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("family", FAMILIES)
def test_any_kind_of_table(kind, family):
    X, y = data(9, family)
    names = [f"x{j}" for j in range(X.shape[1])]
    plain, result = fbed.select(X, y, family=family), fbed.select(TABLES[kind](X, names), y, family=family)
    assert result.indices.tolist() == plain.indices.tolist()
    np.testing.assert_allclose(statistics(result), statistics(plain), rtol=1e-9, atol=1e-9)
    if kind not in ("numpy", "lists"):
        assert result.selected == tuple(names[j] for j in plain.selected)


@pytest.mark.parametrize("wrap", [list, pd.Series, pl.Series, pa.array, lambda y: pa.chunked_array([y[:9], y[9:]])])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_kind_of_outcome(wrap, family):
    X, y = data(10, family)
    assert_same(fbed.select(X, y, family=family), fbed.select(X, wrap(y), family=family))


def table_with_category(seed, family, n=120):
    rng = np.random.default_rng(seed)
    level = rng.choice(["a", "b", "c", "d"], n, p=[0.4, 0.3, 0.2, 0.1])
    x = rng.normal(size=n)
    signal = np.select([level == "b", level == "c"], [1.0, -1.0], 0.0) + 0.7 * x + rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "level": level, "noise": rng.normal(size=n)})
    return frame, signal if family == "gaussian" else (signal > 0).astype(int)


def deviance_by_statsmodels(y, columns, family):
    A = np.column_stack([np.ones(len(y)), *columns])
    if family == "gaussian":
        return len(y) * math.log(sm.OLS(y, A).fit().ssr)
    return -2 * sm.Logit(y, A).fit(disp=0, tol=1e-12).llf


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_category_is_tested_as_its_dummies_together(family, seed):
    frame, y = table_with_category(seed, family)
    dummies = pd.get_dummies(frame["level"], drop_first=True, dtype=float)
    empty, both = deviance_by_statsmodels(y, [], family), deviance_by_statsmodels(y, [dummies], family)
    row = fbed.select(frame[["level"]], y, family=family, alpha=0.5, k=0).trace[0]
    assert row.df == 3
    assert row.statistic == pytest.approx(empty - both, rel=1e-6)
    if family == "binomial":
        assert row.p_value == pytest.approx(stats.chi2.sf(empty - both, 3), rel=1e-6)
    else:
        full = sm.OLS(y, sm.add_constant(dummies)).fit()
        assert row.p_value == pytest.approx(full.f_pvalue, rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_category_given_others_and_in_the_backward_phase(family):
    frame, y = table_with_category(3, family)
    dummies = pd.get_dummies(frame["level"], drop_first=True, dtype=float).to_numpy()
    x = frame["x"].to_numpy()
    options = {"family": family, "criterion": "aic", "exclude": ["noise"]}
    enclosed, result = (fbed.select(frame, y, engine=engine, **options) for engine in ("certified", "exhaustive"))
    assert set(result.selected) == set(enclosed.selected) == {"x", "level"}
    full = deviance_by_statsmodels(y, [x, dummies], family)
    without = {"level": [x], "x": [dummies]}
    lost = result.candidates.lower[[0, 1]]  # the last scan is the backward one
    wanted = [deviance_by_statsmodels(y, without[name], family) - full for name in ("x", "level")]
    np.testing.assert_allclose(lost, wanted, rtol=1e-6)
    assert (enclosed.candidates.lower[:2] <= lost * (1 + 1e-9)).all()
    assert (enclosed.candidates.upper[:2] >= lost * (1 - 1e-9)).all()
    for found in (result, enclosed):
        assert found.candidates.df[:2].tolist() == [1.0, 3.0]


def test_levels_that_do_not_occur_count_for_nothing():
    frame, y = table_with_category(4, "gaussian")
    declared = frame.assign(level=pd.Categorical(frame["level"], categories=["z", "a", "b", "c", "d", "y"]))
    assert fbed.select(declared, y, alpha=0.5).trace[0].df in (1.0, 3.0)
    assert_same(fbed.select(frame, y), fbed.select(declared, y))


def test_a_category_inside_the_span_of_another_adds_only_what_is_new():
    frame, y = table_with_category(5, "gaussian")
    coarse = frame["level"].isin(["a", "b"]).map({True: "ab", False: "cd"})
    result = fbed.select(frame.assign(coarse=coarse), y, include=["coarse"], alpha=0.5, k=0)
    assert result.candidates.df[1] == 2.0
    result = fbed.select(frame.assign(coarse=coarse), y, include=["level"], alpha=0.5, k=0)
    assert (result.candidates.df[3], result.candidates.lower[3]) == (0.0, 0.0)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_category_with_a_level_a_row_explains_nothing(criterion):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"id": pd.Categorical([f"r{i}" for i in range(40)]), "x": rng.normal(size=40)})
    y = frame["x"].to_numpy() + rng.normal(size=40)
    assert fbed.select(frame, y, criterion=criterion).selected == ("x",)


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES), factor=st.sampled_from([1.0, -1.0, 1e-7, 3e40, 1 / 3]))
def test_duplicates_tie_to_the_lower_index(seed, family, factor):
    X, y = data(seed, family)
    copies = X * factor + (0.0 if factor > 1e9 else 0.5 * factor)
    plain = fbed.select(X, y, family=family, k=math.inf)
    after = fbed.select(np.hstack([X, copies]), y, family=family, k=math.inf)
    before = fbed.select(np.hstack([copies, X]), y, family=family, k=math.inf)
    assert plain.selected == after.selected == before.selected


@pytest.mark.parametrize("seed", range(8))
def test_tied_variables_enter_and_leave_by_the_lower_index(seed):
    # z + e and z − e with y = z + r and 1, z, e, r orthogonal: the two columns differ by rounding only
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(np.column_stack([np.ones(100), rng.normal(size=(100, 3))]))
    z, e, r = basis[:, 1:].T
    result = fbed.select(np.column_stack([z + e, z - e]), z + r, alpha=0.9, alpha_backward=1e-300)
    assert [(row.action, row.variable) for row in result.trace] == [
        ("add", 0),
        ("add", 1),
        ("remove", 0),
        ("remove", 1),
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_forced_variables_are_not_counted(family):
    X, y = data(11, family)
    result = fbed.select(X, y, family=family, include=[6, 2], max_features=2, criterion=fbed.EBIC(1.0))
    assert result.selected[:2] == (6, 2)
    assert len(result.selected) <= 4
    assert result.n_forced == 2
    first = result.trace[0]
    assert first.tested == 6
    penalty = math.log(len(y)) + 2 * math.log(6)  # p counts candidates only, k starts at 0
    assert first.statistic - first.score == pytest.approx(penalty, rel=1e-9)
    assert all(row.variable not in (6, 2) for row in result.trace)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_forced_variable_conditions_every_test(family):
    X, y = data(12, family)
    result = fbed.select(X, y, family=family, include=[0], max_features=0)
    assert result.trace == ()
    given = fbed.select(X, y, family=family, include=[0], k=0).trace[0]
    columns = [X[:, 0]]
    wanted = deviance_by_statsmodels(y, columns, family) - deviance_by_statsmodels(
        y, [*columns, X[:, given.variable]], family
    )
    assert given.statistic == pytest.approx(wanted, rel=1e-6)


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES))
def test_excluded_variables_might_as_well_not_be_there(seed, family):
    X, y = data(seed, family)
    kept = np.array([0, 2, 3, 4, 6, 7])
    assert_same(
        fbed.select(X, y, family=family, exclude=[1, 5], criterion="ebic"),
        fbed.select(X[:, kept], y, family=family, criterion="ebic"),
        kept,
    )


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES))
def test_constant_columns_only_cost_tests(seed, family):
    X, y = data(seed, family)
    padded = np.hstack([X, np.full((len(y), 2), 0.1)])
    plain, result = fbed.select(X, y, family=family, k=0), fbed.select(padded, y, family=family, k=0)
    assert result.selected == plain.selected
    assert result.n_tests.forward == plain.n_tests.forward + 2


@few
@given(seed=seeds, family=st.sampled_from(FAMILIES))
def test_ebic_does_not_count_what_cannot_enter(seed, family):
    """Columns that are constant in the rows at hand, and a category of one level; forced ones neither."""
    X, y = data(seed, family)
    padded = pd.DataFrame(X).add_prefix("x").assign(c=0.1, g="only", h=0.0)
    with_rest = pd.concat([padded, padded.iloc[:1].assign(c=5.0, g="other", h=2.0)])  # weight 0: not at hand
    weights = np.r_[np.ones(len(y)), 0.0]
    for criterion in (fbed.EBIC(), fbed.EBIC(0.7)):
        options = {"family": family, "criterion": criterion, "k": math.inf}
        plain = fbed.select(X, y, include=[3], **options)
        for table, outcome, more in ((padded, y, {}), (with_rest, np.r_[y, y[:1]], {"sample_weight": weights})):
            result = fbed.select(table, outcome, include=["x3"], **options, **more)
            assert result.indices.tolist() == plain.indices.tolist()
            assert result.criterion == plain.criterion
            assert result.trace[0].tested == plain.trace[0].tested + 3
            found, expected = ([c for row in r.trace for _, c in row.critical] for r in (result, plain))
            assert set(np.round(expected, 9)) <= set(np.round(found, 9))


def test_a_category_counts_once_in_ebic():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc")).assign(g=rng.choice(list("uvwx"), 80), one=1)
    result = fbed.select(X, rng.normal(size=80) + X["a"], criterion=fbed.EBIC(1.0), include=["b"], k=0)
    critical = dict(result.trace[0].critical)
    assert critical[1.0] == pytest.approx(math.log(80) + 2.0 * math.log(3.0))  # a, c and g
    assert critical[3.0] == pytest.approx(3.0 * math.log(80) + 2.0 * math.log(3.0))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", [(3, 1), (3, 5), (4, 30), (12, 200)])
def test_few_rows_and_many_columns_have_an_answer(family, shape):
    shape = shape if family == "gaussian" else (max(4, shape[0]), shape[1])  # two rows of each class
    rng = np.random.default_rng(shape)
    X = rng.normal(size=shape)
    y = rng.normal(size=shape[0]) if family == "gaussian" else np.arange(shape[0]) % 2
    for criterion in CRITERIA:
        result = fbed.select(X, y, family=family, criterion=criterion, k=math.inf)
        assert len(result.selected) <= shape[0] - 2
        assert np.isfinite([row.statistic for row in result.trace if row.statistic is not None]).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_ebic_asks_in_the_backward_phase_what_it_asked_in_the_forward_phase(family):
    X, y = data(13, family)
    result = fbed.select(X, y, family=family, criterion=fbed.EBIC(1.0), include=[7])
    last = result.trace[-1]
    assert (last.phase, last.action) == ("backward", "stop")
    k, p = len(result.selected) - 1 - 1, 7  # one forced, one leaves; p counts all candidates, not those selected
    assert k >= 1
    penalty = math.log(len(y)) + 2 * math.log((p - k) / (k + 1))
    for finding in last.runners_up:
        assert finding.statistic - finding.score == pytest.approx(penalty, rel=1e-9)
