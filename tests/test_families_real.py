"""Every family on a real table, against its reference: statistics of candidates with and without a variable in S."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import fbed
from family_cases import CASES, bound, columns

FOLDER = Path(os.environ.get("FBED_DATA_DIR", "")) / "extra"
pytestmark = pytest.mark.skipif(
    "FBED_DATA_DIR" not in os.environ or not FOLDER.is_dir(), reason="FBED_DATA_DIR does not name the folder of data"
)


def categories(frame):
    """Text as categories, and only those that occur."""
    out = {}
    for name, values in frame.items():
        plain = values.astype(object) if isinstance(values.dtype, pd.CategoricalDtype) else values
        out[name] = values if pd.api.types.is_numeric_dtype(values) else pd.Categorical(plain.astype(str))
    return pd.DataFrame(out, index=frame.index)


def bikeshare(names):
    table = pd.read_parquet(FOLDER / "bikeshare.parquet")
    return categories(table[names]), table["bikers"].to_numpy(), {}


def ames(names, **extras):
    table = pd.read_parquet(FOLDER / "ames.parquet")
    price = table["Sale_Price"].to_numpy(float) / 1e5
    return categories(table[names]), price, {name: table[column].to_numpy(object) for name, column in extras.items()}


def wine():
    table = pd.read_parquet(FOLDER / "wine_red.parquet")
    return table.drop(columns="target"), table["target"].to_numpy().astype(int), {}


def glioma():
    data = np.load(FOLDER / "GLIOMA.npz")
    codes = np.unique(data["y"], return_inverse=True)[1]
    return pd.DataFrame(data["X"][:, :8].astype(float)).rename(columns=str), codes, {}


def nki():
    table = pd.read_parquet(FOLDER / "nki70.parquet")
    y = (table["time"].to_numpy(float), table["event"].to_numpy().astype(bool))
    return categories(table.drop(columns=["time", "event"])), y, {}


def metabric():
    data = np.load(FOLDER / "metabric.npz")
    keep = data["time"] > 0  # one time is 0, which a Weibull model cannot have
    y = (data["time"][keep].astype(float), data["event"][keep].astype(bool))
    return pd.DataFrame(data["X"][keep].astype(float)).rename(columns=str), y, {}


def bank(names):
    table = pd.read_parquet(FOLDER / "bank_marketing.parquet")
    return categories(table[names]), np.unique(table["y"].astype(str), return_inverse=True)[1]


def bank_counts():
    """Successes out of the customers that have the same job, marital status and education."""
    frame, y = bank(["job", "marital", "education"])
    grouped = frame.assign(y=y).groupby(["job", "marital", "education"], observed=True)["y"].agg(["sum", "count"])
    grouped = grouped.reset_index()
    table = categories(grouped[["job", "marital", "education"]].astype(str))
    return table, grouped["sum"].to_numpy(), {"trials": grouped["count"].to_numpy()}


def bank_classes():
    frame, y = bank(["age", "balance", "job", "housing", "duration", "marital"])
    return frame.iloc[::5], y[::5], {}


def clustered_months(names):
    """Counts of the same month may depend on each other."""
    frame, y, _ = bikeshare([*names, "mnth"])
    return frame.drop(columns="mnth"), y, {"cluster": frame["mnth"].to_numpy(object)}


def without_offset(data):
    frame, y, _ = data
    return frame, y, {"offset": np.zeros(len(y))}


def bank_codes():
    frame, y = bank(["job", "marital", "education", "housing", "loan", "poutcome"])
    return frame.apply(lambda column: column.astype("category").cat.codes.astype(int)), y, {}


AMES = ["Gr_Liv_Area", "Year_Built", "Lot_Area", "Central_Air", "Garage_Cars", "Bldg_Type"]
BIKE = ["temp", "hum", "windspeed", "weathersit", "hr", "workingday"]

REAL = {
    "gaussian": lambda: without_offset(ames(AMES)),
    "binomial": bank_classes,
    "binomial wald": bank_classes,
    "poisson score": lambda: bikeshare(BIKE),
    "poisson cluster": lambda: every_tenth(every_tenth(clustered_months(BIKE))),
    "poisson": lambda: bikeshare(BIKE),
    "negative_binomial": lambda: bikeshare(BIKE),
    "ordinal": wine,
    "ordinal probit": wine,
    "multinomial": glioma,
    "gamma": lambda: ames(AMES),
    "gaussian HC3": lambda: every_tenth(ames(AMES)),
    "gaussian cluster": lambda: every_tenth(ames(AMES, cluster="Neighborhood")),
    "quantile": lambda: wine_noise(wine()),
    "robust": lambda: ames(AMES),
    "spearman": lambda: ames(AMES),
    "mixed": lambda: every_tenth(ames(AMES, cluster="Neighborhood")),
    "gee": lambda: every_tenth(ames(AMES, cluster="Neighborhood")),
    "cox": metabric,
    "cox tied": nki,
    "weibull": metabric,
    "binomial trials": bank_counts,
    "gsquare": bank_codes,
}


def wine_noise(data):
    """Median regression of alcohol, without the ties that leave its dual solution open."""
    frame, _, _ = data
    y = frame["alcohol"].to_numpy() + 1e-3 * np.random.default_rng(0).normal(size=len(frame))
    rows = slice(0, 400)
    return frame.drop(columns="alcohol").iloc[rows], y[rows], {}


def every_tenth(data):
    """References by whole matrices are slow: fewer rows make them bearable."""
    frame, y, extras = data
    few = frame.iloc[::10].copy()
    for name in few.select_dtypes("category"):
        few[name] = few[name].cat.remove_unused_categories()
    return few, y[::10], {name: values[::10] for name, values in extras.items()}


@pytest.mark.parametrize("name", REAL)
def test_agrees_with_the_reference(name):
    case = CASES[name]
    frame, y, extras = REAL[name]()
    if "cluster" in extras:
        extras["cluster"] = np.unique(extras["cluster"].astype(str), return_inverse=True)[1]
    model = bound(case, frame, y, extras)
    for selected in ([], [0]) if not case.slow else ([0],):
        candidates = np.array([j for j in range(min(6, frame.shape[1])) if j not in selected])[:4]
        found = model.fit(selected).gains(candidates)
        for i, j in enumerate(candidates):
            statistic, df, log_p = case.reference(columns(frame, selected), columns(frame, [*selected, j]), y, extras)
            assert found.df[i] == df
            assert found.statistic[i] == pytest.approx(statistic, rel=20 * case.tolerance, abs=20 * case.tolerance)
            if np.isfinite(log_p):
                assert found.log_p[i] == pytest.approx(log_p, rel=1e-4, abs=1e-4)
            else:
                assert found.log_p[i] < -700.0  # scipy's logarithm has ended, ours has not


def test_many_more_genes_than_rows():
    """Riboflavin: 71 rows, 4088 genes. Every test of the first two scans is that of least squares."""
    data = np.load(FOLDER / "riboflavin.npz")
    X, y = data["X"].astype(float), data["y"].astype(float)
    result = fbed.select(X, y, criterion="ebic")
    n, first = len(y), result.indices[0]
    r = np.array([np.corrcoef(column, y)[0, 1] for column in X.T])
    assert first == np.argmax(r**2)
    assert result.trace[0].statistic == pytest.approx(-n * np.log1p(-(r[first] ** 2)))
    assert result.n_tests.forward >= X.shape[1]
    given = np.column_stack([np.ones(n), X[:, first]])
    left = [v - given @ np.linalg.lstsq(given, v, rcond=None)[0] for v in (y, X)]
    partial = (left[0] @ left[1]) ** 2 / (left[0] @ left[0]) / np.maximum((left[1] ** 2).sum(axis=0), 1e-9)
    model = fbed.select(X, y, include=[int(first)], max_features=1, alpha=0.999, backward=False)
    assert model.indices[1] == np.argmax(partial)
    assert model.trace[0].statistic == pytest.approx(-n * np.log1p(-partial.max()))


def test_kernel_tests_are_those_of_causal_learn():
    cit = pytest.importorskip("causallearn.utils.cit")
    frame, y, _ = wine()
    X = frame.iloc[::10, :5].to_numpy()
    own = cit.CIT(np.column_stack([X, y[::10]]), "kci")
    result = fbed.select(X, y[::10].astype(float), family="kernel", alpha=0.05, k=0, backward=False)
    selected: list[int] = []
    for row in result.trace:
        if row.variable is not None:
            assert np.exp(row.log_p) == pytest.approx(own(row.variable, 5, selected), rel=1e-4, abs=1e-9)
            selected.append(row.variable)
    assert selected


def test_lifelines_agrees_on_metabric():
    lifelines = pytest.importorskip("lifelines")
    frame, (time, event), _ = metabric()
    result = fbed.select(frame, (time, event), criterion="bic")
    table = frame[list(result.selected)].assign(time=time, event=event)
    fit = lifelines.CoxPHFitter().fit(table, "time", "event", fit_options={"precision": 1e-9})
    np.testing.assert_allclose(result.model.coefficients, fit.params_.to_numpy(), rtol=1e-6)
    np.testing.assert_allclose(result.model.standard_errors, fit.standard_errors_.to_numpy(), rtol=1e-6)
    smaller = lifelines.CoxPHFitter().fit(table.drop(columns=[result.selected[-1]]), "time", "event")
    last = [row for row in result.trace if row.action == "add"][-1]
    if last.variable == result.selected[-1] and not any(row.action == "remove" for row in result.trace):
        assert last.statistic == pytest.approx(2 * (fit.log_likelihood_ - smaller.log_likelihood_), rel=1e-5)


def test_a_whole_table_of_genes():
    """Four classes of tumours, 4434 genes, 50 rows: every first scan has candidates that separate classes."""
    data = np.load(FOLDER / "GLIOMA.npz")
    result = fbed.select(data["X"], data["y"].astype(str), k=0, alpha=0.001)
    assert result.family == "multinomial"
    assert result.status in ("saturated", "converged")
    assert all(np.isfinite(row.statistic) for row in result.trace if row.statistic is not None)


def test_classes_of_wine_are_not_separated():
    """Rare classes have predictors far from the others'; the maximum exists, and statsmodels finds it."""
    frame, y, _ = wine()
    result = fbed.select(frame, y.astype(str), family="multinomial", k=0)
    chosen = frame[list(result.selected)]
    scale = chosen.std().to_numpy()
    reference = sm.MNLogit(y, sm.add_constant((chosen - chosen.mean()) / scale)).fit(disp=0, maxiter=500)
    assert not result.model.separated
    size = len(result.selected) + 1
    for found, expected in (
        (result.model.coefficients, reference.params),
        (result.model.standard_errors, reference.bse),
    ):
        np.testing.assert_allclose(
            np.reshape(found, (-1, size))[:, 1:] * scale, expected.to_numpy().T[:, 1:], rtol=1e-6, atol=1e-9
        )
