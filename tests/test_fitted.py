"""The final model: its table against other libraries, its predictions, its saved form."""

from __future__ import annotations

import json
import math

import lifelines
import lifelines.statistics
import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
from scipy import sparse
from statsmodels.miscmodels.ordinal_model import OrderedModel

import fbed
from fbed.result.fitted.table import rows as table_rows

N = 400


def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": rng.normal(5, 100, size=N),
            "town": rng.choice(["x", "y", "z"], N),
            "c": rng.normal(size=N),
        }
    )
    return X, X["a"] + X["b"] / 100 + (X["town"] == "z"), rng


def outcome(family):
    _, eta, rng = data()
    made = {
        "gaussian": lambda: eta + rng.normal(size=N),
        "binomial": lambda: np.where(eta + rng.logistic(size=N) > 0, "yes", "no"),
        "poisson": lambda: rng.poisson(3 * np.exp(eta / 2)),
        "negative_binomial": lambda: rng.negative_binomial(2, 1 / (1 + np.exp(eta / 2))),
        "gamma": lambda: rng.gamma(2, np.exp(eta)),
        "cox": lambda: (np.ceil(20 * rng.exponential(np.exp(-eta))) / 20, rng.random(N) < 0.8),
        "weibull": lambda: (rng.exponential(np.exp(-eta)), rng.random(N) < 0.8),
        "multinomial": lambda: np.array(["p", "q", "r"])[np.digitize(eta + rng.logistic(size=N), [-1, 1])],
        "ordinal": lambda: np.digitize(eta + rng.logistic(size=N), [-1, 1]),
        "quantile": lambda: eta + rng.normal(size=N),
        "robust": lambda: eta + rng.standard_t(3, size=N),
        "mixed": lambda: eta + rng.normal(size=40)[np.arange(N) // 10] + rng.normal(size=N),
        "gee": lambda: (eta + rng.logistic(size=40)[np.arange(N) // 10] + rng.logistic(size=N) > 0).astype(int),
    }
    return made[family]()


FAMILIES = ("gaussian", "binomial", "poisson", "negative_binomial", "gamma", "cox", "weibull", "multinomial", "ordinal")
FAMILIES += ("quantile", "robust", "mixed", "gee")


def selected(family, X=None, **options):
    X = data()[0] if X is None else X
    if family in ("mixed", "gee"):
        options["cluster"] = np.arange(N) // 10
    return fbed.select(X, outcome(family), family=family, include=["a", "b", "town"], exclude=["c"], **options)


def design(constant=True):
    X = data()[0]
    columns = [X["a"], X["b"], X["town"] == "y", X["town"] == "z"]
    Z = np.column_stack(columns).astype(float)
    return sm.add_constant(Z) if constant else Z


def reference(family):
    """Log-likelihood, the same without variables, mean and standard errors of another library."""
    y = outcome(family)
    if family in ("gaussian", "binomial", "poisson"):
        kind = {"binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}
        values = (y == "yes").astype(float) if family == "binomial" else y
        if family == "gaussian":
            fit = sm.OLS(values, design()).fit()
            return fit.llf, sm.OLS(values, np.ones(N)).fit().llf, fit.fittedvalues, fit.bse
        fit = sm.GLM(values, design(), family=kind[family]).fit(tol=1e-12)
        return fit.llf, fit.llnull, fit.fittedvalues, fit.bse
    if family == "negative_binomial":
        fit = sm.NegativeBinomial(y, design()).fit(disp=0, method="newton", maxiter=500)
        return fit.llf, sm.NegativeBinomial(y, np.ones(N)).fit(disp=0, maxiter=500).llf, fit.predict(), None
    if family == "multinomial":
        codes = pd.Categorical(y).codes
        fit = sm.MNLogit(codes, design()).fit(disp=0, method="newton", tol=1e-12)
        return fit.llf, fit.llnull, fit.predict(), np.asarray(fit.bse).T.ravel()
    if family == "ordinal":
        fit = OrderedModel(y, design(False), distr="logit").fit(disp=0, method="bfgs", gtol=1e-8)
        return fit.llf, fit.llnull, fit.predict(), None
    frame = pd.DataFrame(design(False), columns=["a", "b", "y", "z"]).assign(t=y[0], e=y[1])
    if family == "cox":
        fit = lifelines.CoxPHFitter().fit(frame, "t", "e")
        null = fit.log_likelihood_ - fit.log_likelihood_ratio_test().test_statistic / 2
        return fit.log_likelihood_, null, fit.predict_partial_hazard(frame).to_numpy(), fit.standard_errors_.to_numpy()
    fit = lifelines.WeibullAFTFitter().fit(frame, "t", "e")
    null = fit.log_likelihood_ - fit.log_likelihood_ratio_test().test_statistic / 2
    return fit.log_likelihood_, null, fit.predict_expectation(frame).to_numpy(), None


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("quantile", "robust", "mixed", "gee", "gamma")])
def test_fit_and_means_are_those_of_other_libraries(family):
    model = selected(family).model
    likelihood, null, mean, errors = reference(family)
    assert model.log_likelihood == pytest.approx(likelihood, rel=1e-6)
    assert model.null_log_likelihood == pytest.approx(null, rel=1e-5)
    predicted = model.predict(data()[0])
    if family == "cox":
        predicted, mean = predicted / predicted[0], mean / mean[0]
    np.testing.assert_allclose(predicted, mean, rtol=2e-4)
    if errors is not None:
        np.testing.assert_allclose(model.standard_errors[: len(errors)], errors, rtol=1e-4)


def test_gamma_is_as_likely_as_scipy_has_it():
    from scipy import stats

    result = selected("gamma")
    mean, y = result.model.predict(data()[0]), outcome("gamma")
    shapes = np.exp(np.linspace(-2, 4, 4001))
    best = max(stats.gamma.logpdf(y, shape, scale=mean / shape).sum() for shape in shapes)
    assert result.model.log_likelihood == pytest.approx(best, rel=1e-6)
    flat = max(stats.gamma.logpdf(y, shape, scale=y.mean() / shape).sum() for shape in shapes)
    assert result.model.null_log_likelihood == pytest.approx(flat, rel=1e-6)


def test_mixed_model_is_as_likely_as_statsmodels_has_it():
    fit = sm.MixedLM(outcome("mixed"), design(), groups=np.arange(N) // 10).fit(reml=False)
    assert selected("mixed").model.log_likelihood == pytest.approx(fit.llf, rel=1e-7)


def test_information_criteria_and_r_squared():
    model, fit = selected("gaussian").model, sm.OLS(outcome("gaussian"), design()).fit()
    assert model.r_squared == ("R²", pytest.approx(fit.rsquared))
    assert model.aic == pytest.approx(fit.aic + 2)  # the spread is a parameter, too
    assert model.bic == pytest.approx(fit.bic + math.log(N))
    np.testing.assert_allclose(model.covariance, fit.cov_params(), rtol=1e-6, atol=1e-12)
    logistic = selected("binomial").model
    other = sm.Logit((outcome("binomial") == "yes").astype(float), design()).fit(disp=0)
    assert logistic.r_squared == ("McFadden's pseudo-R²", pytest.approx(other.prsquared))
    assert logistic.aic == pytest.approx(other.aic)
    np.testing.assert_allclose(logistic.covariance, other.cov_params(), rtol=1e-5, atol=1e-12)


def test_table_has_references_ratios_and_p_values():
    model = selected("binomial").model
    frame = model.to_frame()
    other = sm.Logit((outcome("binomial") == "yes").astype(float), design()).fit(disp=0)
    effects = frame[~frame["reference"]]
    np.testing.assert_allclose(effects["p_value"], other.pvalues, rtol=1e-5)
    np.testing.assert_allclose(effects[["low", "high"]], other.conf_int(), rtol=1e-5)
    np.testing.assert_allclose(effects["ratio"].iloc[1:], np.exp(other.params[1:]), rtol=1e-5)
    scale = data()[0]["b"].std(ddof=0)
    assert effects.loc["b", "per_sd"] == pytest.approx(math.exp(other.params[2] * scale), rel=1e-5)
    assert frame.index.tolist() == ["(intercept)", "a", "b", "town[x]", "town[y]", "town[z]"]
    assert frame.loc["town[x]", "coefficient"] == 0
    assert model.references == {"town": "x"}
    linear = selected("gaussian").model.to_frame()
    np.testing.assert_allclose(
        linear[~linear["reference"]]["p_value"], sm.OLS(outcome("gaussian"), design()).fit().pvalues, rtol=1e-6
    )


def test_variance_inflation_is_that_of_statsmodels():
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    X["c"] += X["a"]
    model = fbed.select(X, X.sum(axis=1) + rng.normal(size=200), include=list("abc")).model
    Z = sm.add_constant(X.to_numpy())
    frame = model.to_frame()
    for j, name in enumerate("abc", 1):
        assert frame.loc[name, "vif"] == pytest.approx(variance_inflation_factor(Z, j), rel=1e-4)


def test_proportional_hazards_are_tested_as_lifelines_does():
    X, y = data()[0], outcome("cox")
    rng = np.random.default_rng(8)
    time = y[0] + 1e-3 * rng.random(N)  # without ties
    result = fbed.select(X, (time, y[1]), include=["a", "b", "town"], exclude=["c"])
    frame = pd.DataFrame(design(False), columns=["a", "b", "town[y]", "town[z]"]).assign(t=time, e=y[1])
    cox = lifelines.CoxPHFitter().fit(frame, "t", "e")
    test = lifelines.statistics.proportional_hazard_test(cox, frame, time_transform="rank")
    found = {check.term: check.statistic for check in result.model.checks}
    for name, value in test.summary["test_statistic"].items():
        assert found[name] == pytest.approx(value, rel=2e-3, abs=1e-3)


def test_changing_hazards_are_found():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"early": rng.normal(size=800), "steady": rng.normal(size=800)})
    time = rng.exponential(np.exp(-0.7 * X["steady"] - 1.5 * X["early"]))
    late = time > np.median(time)
    time = np.where(late, np.median(time) + rng.exponential(np.exp(-0.7 * X["steady"]), 800), time)
    model = fbed.select(X, (time, np.ones(800, dtype=bool)), include=["early", "steady"]).model
    p = {check.term: check.p_value for check in model.checks}
    assert p["early"] < 1e-6
    assert p["steady"] > 1e-3
    assert "hazards do not seem proportional: the effect of early" in model.summary().replace("\n  ", " ")


def test_overdispersion_is_found():
    X, eta, rng = data()
    wild = rng.negative_binomial(1, 1 / (1 + 3 * np.exp(eta / 2)))
    model = fbed.select(X, wild, family="poisson", include=["a", "b", "town"]).model
    fit = sm.GLM(wild, sm.add_constant(design(False)), family=sm.families.Poisson()).fit()
    (check,) = model.checks
    if model.terms[-1] != "c":
        assert check.ratio == pytest.approx(fit.pearson_chi2 / fit.df_resid, rel=1e-6)
    assert "family 'negative_binomial' allows for it" in model.summary().replace("\n  ", " ")
    tame = fbed.select(X, rng.poisson(np.exp(eta / 2)), family="poisson").model
    assert "negative_binomial" not in tame.summary()


@pytest.mark.parametrize("family", FAMILIES)
def test_saved_model_predicts_bit_for_bit(family):
    result = selected(family)
    again = fbed.Result.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    X = data()[0]
    kinds = ["response", "link"] + (["class"] if result.model.classes else [])
    for kind in kinds:
        np.testing.assert_array_equal(again.model.predict(X, kind), result.model.predict(X, kind))
    if family in ("cox", "weibull"):
        times = [0.1, 0.5, 2.0]
        survival = result.model.predict(X, "survival", times=times)
        np.testing.assert_array_equal(again.model.predict(X, "survival", times=times), survival)
        assert (np.diff(survival, axis=1) <= 0).all()
    json.loads(result.to_json(), parse_constant=pytest.fail)


def test_baseline_survival_is_that_of_lifelines():
    X, y = data()[0], outcome("cox")
    rng = np.random.default_rng(8)
    time = y[0] + 1e-3 * rng.random(N)
    model = fbed.select(X, (time, y[1]), include=["a", "b", "town"], exclude=["c"]).model
    frame = pd.DataFrame(design(False), columns=list("abyz")).assign(t=time, e=y[1])
    cox = lifelines.CoxPHFitter().fit(frame, "t", "e")
    times = np.sort(time[y[1]])[[20, 100, 200]].tolist()  # lifelines interpolates between events
    wanted = cox.predict_survival_function(frame.iloc[:20], times=times).to_numpy().T
    np.testing.assert_allclose(model.predict(X.iloc[:20], "survival", times=times), wanted, atol=1e-4)


def stratified():
    X, y = data()[0], outcome("cox")
    ward = np.array(["north", "south", "west"])[np.arange(N) % 3]
    died = y[1] & (ward != "south")  # a stratum without an event has no hazard to tell
    return X, (y[0], died), ward


def test_strata_are_called_by_their_labels():
    X, y, ward = stratified()
    result = fbed.select(X, y, strata=ward, include=["a", "b"])
    assert [part.stratum for part in result.model.baseline] == ["north", "west"]
    for model in (result.model, fbed.Result.from_json(result.to_json()).model):
        each = {name: model.predict(X, "survival", times=[0.3, 1.0], stratum=name) for name in ("north", "west")}
        assert not np.allclose(each["north"], each["west"])
        known = np.where(ward == "south", "west", ward)
        by_row = model.predict(X, "survival", times=[0.3, 1.0], stratum=known)
        np.testing.assert_array_equal(by_row, np.where((known == "north")[:, None], each["north"], each["west"]))


def test_the_hazard_of_a_stratum_is_that_of_its_rows():
    """Breslow's estimate of one stratum, from its own rows alone, with Efron's ties."""
    X, y, ward = stratified()
    model = fbed.select(X, y, strata=ward, include=["a", "b"]).model
    here = ward == "west"
    time, died, risk = y[0][here], y[1][here], model.predict(X, "response")[here]
    total = 0.0
    for t in np.unique(time[died]):
        dying, at_risk = risk[died & (time == t)], risk[time >= t].sum()
        total += sum(1.0 / (at_risk - i / len(dying) * dying.sum()) for i in range(len(dying)))
    found = next(part for part in model.baseline if part.stratum == "west")
    assert found.hazard[-1] == pytest.approx(total)


@pytest.mark.parametrize(
    "stratum, message",
    [
        (None, "the model has strata, 'north', 'west': say which with stratum="),
        ("south", "no event of a stratum 'south' was seen; the model knows 'north', 'west'"),
        (["north"], f"one for each of the {N} rows, got 1"),
    ],
)
def test_strata_that_are_not_known_are_refused(stratum, message):
    X, y, ward = stratified()
    model = fbed.select(X, y, strata=ward, include=["a", "b"]).model
    with pytest.raises(fbed.InvalidInput, match=message):
        model.predict(X, "survival", times=[1.0], stratum=stratum)
    with pytest.raises(fbed.InvalidInput, match="fitted without strata"):
        fbed.select(X, y, include=["a"]).model.predict(X, "survival", times=[1.0], stratum="north")


def test_numbers_are_labels_of_strata_too():
    X, y, ward = stratified()
    codes = np.where(ward == "north", 7, 3)
    model = fbed.select(X, y, strata=codes, include=["a"]).model
    assert [part.stratum for part in model.baseline] == [3, 7]
    assert model.predict(X, "survival", times=[1.0], stratum=7).shape == (N, 1)


def test_offsets_are_part_of_a_prediction():
    X, eta, rng = data()
    years = rng.uniform(0.5, 3, N)
    y = rng.poisson(years * np.exp(eta / 2))
    model = fbed.select(X, y, family="poisson", exposure=years).model
    twice = model.predict(X, exposure=2 * years)
    np.testing.assert_allclose(twice, 2 * model.predict(X, exposure=years), rtol=1e-12)
    np.testing.assert_allclose(model.predict(X, exposure=1), model.predict(X, exposure=np.ones(N)))
    np.testing.assert_allclose(model.predict(X.assign(w=years), exposure="w"), model.predict(X, exposure=years))
    assert model.predict(X, exposure=years).sum() == pytest.approx(y.sum())
    with pytest.raises(fbed.InvalidInput, match="fitted with an offset or exposure: give that of the new rows"):
        model.predict(X)
    with pytest.raises(fbed.InvalidInput, match="without an offset or exposure: leave it out"):
        selected("gaussian").model.predict(X, offset=1.0)


def holes():
    X, eta, rng = data()
    X = X.assign(town=X["town"].where(rng.random(N) > 0.1), a=X["a"].where(rng.random(N) > 0.2))
    return X, eta + rng.normal(size=N)


def test_missing_values_are_told_by_indicators():
    X, y = holes()
    result = fbed.select(X, y, missing="indicator", include=["a", "town"])
    again = fbed.Result.from_json(result.to_json()).model
    fitted = result.model.predict(X)
    assert not np.isnan(fitted).any()
    np.testing.assert_array_equal(again.predict(X), fitted)
    assert np.sum((y - fitted) ** 2) == pytest.approx(result.model.deviance, rel=1e-9)


def test_missing_values_without_an_indicator_leave_the_row_without_a_prediction():
    X, _ = holes()
    model = selected("gaussian").model
    predicted, notes = model.predict_with_notes(X)
    unknown = X[["a", "town"]].isna().any(axis=1)
    np.testing.assert_array_equal(np.isnan(predicted), unknown)
    assert f"'a' is missing in {X['a'].isna().sum()} rows, which get no prediction" in notes
    assert selected("binomial").model.predict(X, "class")[unknown.to_numpy()].tolist() == [None] * int(unknown.sum())


def test_unseen_levels():
    X = data()[0].copy()
    X.loc[:2, "town"] = "elsewhere"
    model = selected("gaussian").model
    with pytest.raises(
        fbed.InvalidInput, match=r"'town' holds levels that the model has not seen: 'elsewhere'; it knows 'x'"
    ):
        model.predict(X)
    predicted, notes = model.predict_with_notes(X, unseen="missing")
    assert np.isnan(predicted).nonzero()[0].tolist() == [0, 1, 2]
    assert "unseen levels ('elsewhere') in 3 rows" in notes[0]


@pytest.mark.parametrize(
    "make",
    [pl.from_pandas, lambda X: X.sample(frac=1, axis=1, random_state=0), dict],
    ids=["polars", "reordered", "mapping"],
)
def test_columns_are_found_by_name_in_any_table(make):
    X = data()[0]
    model = selected("binomial").model
    np.testing.assert_array_equal(model.predict(make(X)), model.predict(X))


def test_columns_of_a_matrix_are_found_by_place():
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(100, 6)))
    y = X[:, 4] - X[:, 2] + rng.normal(size=100)
    model = fbed.select(X, y, categorical=[5], include=[5]).model
    np.testing.assert_array_equal(model.predict(sparse.csr_array(X)), model.predict(X))
    with pytest.raises(fbed.InvalidInput, match="the selection was made on 6 columns"):
        model.predict(X[:, :5])
    named = fbed.select(X, y, feature_names=list("abcdef")).model
    np.testing.assert_array_equal(named.predict(pd.DataFrame(X, columns=list("abcdef"))), named.predict(X))


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda m, X: m.predict(X[["a", "b"]]), "the table lacks columns of the model: 'town'"),
        (lambda m, X: m.predict(X, "odds"), "kind must be 'response'"),
        (lambda m, X: m.predict(X, "class"), "has no classes"),
        (lambda m, X: m.predict(X, "survival"), "goes with times="),
        (lambda m, X: m.predict(X, "survival", times=[1]), "has no survival function"),
        (lambda m, X: m.predict(X.assign(a="tall")), "'a' held numbers when the model was made, and now holds 'tall'"),
        (lambda m, X: m.predict(X.assign(a=np.inf)), "infinite values"),
        (lambda m, X: m.rows(2.0), "level must be between 0 and 1"),
    ],
)
def test_what_cannot_be_predicted(call, said):
    with pytest.raises(fbed.InvalidInput, match=said):
        call(selected("gaussian").model, data()[0])


def test_families_without_a_model_say_so():
    X, y = data()[0], outcome("gaussian")
    for result in (fbed.select(X[["a", "b"]], y, family="spearman"), fbed.select(X[["town"]], y > 0, family="gsquare")):
        with pytest.raises(fbed.InvalidInput, match="tests variables, and has no model that predicts"):
            result.model.predict(X)
        assert result.model.summary()


def test_groups_keep_their_name():
    X, y = data()[0], outcome("gaussian")
    model = fbed.select(X, y, groups={"pair": ["b", "town"]}, include=["pair"]).model
    assert {row["variable"] for row in table_rows(model)} >= {"pair"}
    assert np.sum((y - model.predict(X)) ** 2) == pytest.approx(model.deviance)


@pytest.mark.parametrize("family", FAMILIES)
def test_tables_for_documents(family):
    model = selected(family).model
    text, markdown, latex, page = model.summary(), model.to_markdown(), model.to_latex(), model.to_html()
    assert max(map(len, text.split("\n"))) <= 80
    assert "town, against x:" in text
    assert all("reference" in shown for shown in (markdown, latex, page))
    lines = markdown.split("\n")
    assert len({line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}) == 1
    rows = [line for line in latex.split("\n") if line.endswith(r"\\")]
    assert len({line.count("&") for line in rows}) == 1
    assert page.count("<tr>") == page.count("</tr>") == len(rows)


def test_names_are_escaped_in_documents():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a|b_&%": rng.normal(size=50), "<b>": rng.normal(size=50)})
    model = fbed.select(X, X.sum(axis=1) + rng.normal(size=50), include=list(X.columns)).model
    assert r"a\|b_&%" in model.to_markdown()
    assert r"a|b\_\&\%" in model.to_latex()
    assert "&lt;b&gt;" in model.to_html()


def test_results_of_schema_2_still_open():
    result = selected("binomial")
    plain = json.loads(result.to_json())
    plain["schema"] = 2
    known = ("family", "terms", "coefficients", "standard_errors", "deviance", "null_deviance", "separated")
    plain["model"] = {name: plain["model"][name] for name in known}
    old = fbed.Result.from_json(json.dumps(plain))
    assert old.model.coefficients == result.model.coefficients
    assert old.selected == result.selected
    assert old.summary()
    assert "town[y]" in old.model.summary()
    with pytest.raises(fbed.InvalidInput, match="saved by an earlier version"):
        old.model.predict(data()[0])
