"""Final models against independent references: firthmodels, scikit-learn, lifelines, statsmodels, leaving rows out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tuning_cases import FAMILIES, SMALL, outcome, table

import fbed
from fbed.errors import InvalidInput
from fbed.families import builders
from fbed.tuning.final_models import FinalWay, find_way
from fbed.tuning.firth import _logistic, _squared_hats, firth
from fbed.tuning.likelihood import Standardised, descend, likelihood_of
from fbed.tuning.penalised import LASSO, _coordinates, lasso, ridge
from fbed.tuning.shrinkage import changes
from problem_cases import read_problem

RNG = np.random.default_rng
SELECTED = [0, 1, 3]


def data(n: int = 80) -> np.ndarray:
    return RNG(0).normal(size=(n, 4)) * [1, 10, 0.1, 3] + [0, 5, 1, -2]


def classes(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] + 0.2 * X[:, 3] + RNG(1).logistic(size=len(X)) > 0).astype(int)


def times(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return RNG(2).exponential(np.exp(-0.8 * X[:, 0])) + 0.01, RNG(3).random(len(X)) < 0.7


def made(X, y, way, **more):
    problem = read_problem(X, y, [], **more)
    return way.fit(problem, problem.model.describe(SELECTED), SELECTED)


def test_firth_logistic_is_that_of_firthmodels():
    firthmodels = pytest.importorskip("firthmodels")
    X = data()
    for y in (classes(X), (X[:, 0] > 0).astype(int)):  # the second is separated
        (model,) = made(X, y, find_way("firth", "binomial"))
        twin = firthmodels.FirthLogisticRegression(max_iter=500, gtol=1e-8, xtol=1e-8).fit(X[:, SELECTED], y)
        np.testing.assert_allclose(model.coefficients, [twin.intercept_, *twin.coef_], rtol=2e-4)
        np.testing.assert_allclose(np.array(model.standard_errors)[[1, 2, 3, 0]], twin.bse_, rtol=2e-4)


def test_firth_cox_is_that_of_firthmodels():
    firthmodels = pytest.importorskip("firthmodels")
    X = data()
    time, event = times(X)
    (model,) = made(X, (time, event), find_way("firth", "cox"))
    y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
    twin = firthmodels.FirthCoxPH(max_iter=500, gtol=1e-9, xtol=1e-9).fit(X[:, SELECTED], y)
    np.testing.assert_allclose(model.coefficients, twin.coef_, rtol=1e-5)
    np.testing.assert_allclose(model.standard_errors, twin.bse_, rtol=1e-5)


SEX = """
0000010:1 0001000:2 0001010:1 0001100:8 0001110:18 0010000:42 0010010:1 0011000:1 0011100:5 0011110:6 0101100:2
0101110:4 0110000:14 0110010:1 0111000:1 0111110:2 1000010:1 1001000:14 1001010:3 1001100:10 1001110:12 1001111:1
1010000:44 1010001:3 1011000:15 1011001:1 1011010:2 1011100:7 1011110:3 1101000:2 1101010:1 1101011:1 1101100:1
1101111:1 1110000:5 1111000:3
"""  # case, age, oc, vic, vicl, vis, dia: how many women (Foxman et al. 1997; the data of R's logistf)


def test_firth_logistic_has_the_printed_numbers_of_logistf():
    """All users of diaphragms were cases: maximum likelihood has no estimate for `dia`."""
    cells = [cell.split(":") for cell in SEX.split()]
    values = np.array([[int(digit) for digit in cell] for cell, _ in cells])
    count = np.array([int(number) for _, number in cells])
    problem = read_problem(values[:, 1:], values[:, 0], [], sample_weight=count)
    everything = list(range(6))
    (model,) = find_way("firth", "binomial").fit(problem, problem.model.describe(everything), everything)
    printed = [0.12025405, -1.10598131, -0.06881673, 2.26887464, -2.11140817, -0.78831694, 3.09601166]
    np.testing.assert_allclose(model.coefficients, printed, atol=3e-6)
    errors = [0.4763429, 0.4149021, 0.4344026, 0.5384872, 0.5320395, 0.4089620, 1.5052197]
    np.testing.assert_allclose(model.standard_errors, errors, rtol=1e-5)


@pytest.mark.parametrize("separated", [False, True])
def test_firths_derivatives_are_those_of_the_penalised_likelihood(separated):
    """Score and Hessian against differences, where leverages are large."""
    X = data(25)
    y = (X[:, 0] > 0).astype(int) if separated else classes(X)
    on = Standardised(read_problem(X, y, [], sample_weight=RNG(7).integers(1, 3, size=25)), SELECTED)
    at = firth(on)[0] + 0.1

    def penalised(parameters):
        point = on.at(parameters)
        return 0.5 * float(point.value[0]) - 0.5 * np.linalg.slogdet(point.derivatives()[1][0])[1]

    def score(parameters):
        point = on.at(parameters)
        gradient, hessian = point.derivatives()
        more, curved = _logistic(on, point, hessian[0], np.linalg.inv(hessian[0]))
        return gradient[:, 0] + more, curved

    steps = 1e-5 * np.eye(4)
    slopes = [(penalised(at - step) - penalised(at + step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(score(at)[0], slopes, rtol=1e-6, atol=1e-6)
    curved = [(score(at - step)[0] - score(at + step)[0]) / 2e-5 for step in steps]
    np.testing.assert_allclose(score(at)[1], curved, rtol=1e-5, atol=1e-6)


def test_firth_bears_a_covariance_that_rounding_has_made_singular():
    Z, apart, curvature = RNG(0).normal(size=(30, 3)), RNG(1).normal(size=30), RNG(2).random(30)
    long = np.array([3.0, -1.0, 2.0]) * 1e7
    covariance = np.outer(long, long) - np.diag([0.25, 0.25, 0.25])  # as an inverse of 16 digits may be
    hats = np.square(np.sqrt(curvature)[:, None] * (Z @ np.outer(long, long) @ Z.T) * np.sqrt(curvature))
    expected = Z.T @ (apart[:, None] * hats * apart) @ Z
    np.testing.assert_allclose(_squared_hats(Z, curvature, apart, covariance), expected, rtol=1e-6)


@pytest.mark.parametrize("n", [20, 60, 200])
def test_firth_cox_is_finite_where_times_are_in_perfect_order(n):
    """The hazards of the first and the last death differ by hundreds of powers of ten."""
    X = data(n)
    y = np.exp(-X[:, 0]), np.ones(n, dtype=bool)
    on = Standardised(read_problem(X, y, []), SELECTED)
    found, covariance = firth(on)
    assert np.isfinite(found).all()
    assert np.isfinite(covariance).all()

    def penalised(parameters):
        point = on.at(parameters)
        return float(point.value[0]) - np.linalg.slogdet(point.derivatives()[1][0])[1]

    here = penalised(found)
    for size in (0.99, 1.01):
        assert penalised(found * size) > here - 1e-6


def test_firth_weights_are_repeated_rows():
    X = data(40)
    y, weight = classes(X), RNG(4).integers(1, 4, size=40)
    rows = np.repeat(np.arange(40), weight)
    (one,) = made(X, y, find_way("firth", "binomial"), sample_weight=weight)
    (other,) = made(X[rows], y[rows], find_way("firth", "binomial"))
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-6)
    np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=1e-6)


def test_ridge_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression, Ridge

    X = data()
    Z = (X[:, SELECTED] - X[:, SELECTED].mean(axis=0)) / X[:, SELECTED].std(axis=0)
    scale = X[:, SELECTED].std(axis=0)
    y = X[:, 0] + RNG(5).normal(size=len(X))
    (model,) = made(X, y, FinalWay("ridge", (0.3,)))
    twin = Ridge(alpha=0.3 * len(X)).fit(Z, y)
    np.testing.assert_allclose(np.array(model.coefficients[1:]) * scale, twin.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), twin.predict(Z), rtol=1e-8)
    y = classes(X)
    (model,) = made(X, y, FinalWay("ridge", (0.3,)))
    penalty = 0.3 * len(X) * y.mean() * (1 - y.mean())
    twin = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=10_000).fit(Z, y)
    np.testing.assert_allclose(np.array(model.coefficients[1:]) * scale, twin.coef_[0], rtol=1e-5)
    np.testing.assert_allclose(model.predict(X), twin.predict_proba(Z)[:, 1], rtol=1e-5)


def test_cox_ridge_is_that_of_lifelines():
    lifelines = pytest.importorskip("lifelines")
    import pandas as pd

    X = data()
    time, event = times(X)
    problem = read_problem(X, (time, event), [])
    on = Standardised(problem, SELECTED)
    information = np.diag(on.at(np.zeros(3)).derivatives()[1][0]).mean()
    (model,) = made(X, (time, event), FinalWay("ridge", (0.5,)))
    frame = pd.DataFrame((X[:, SELECTED] - X[:, SELECTED].mean(0)) / X[:, SELECTED].std(0)).assign(t=time, e=event)
    frame.columns = ["a", "b", "c", "t", "e"]
    # lifelines' penalty is of the mean over rows, and of columns divided by standard deviations with n − 1
    twin = lifelines.CoxPHFitter(penalizer=0.5 * information * (len(X) - 1) / len(X) ** 2, l1_ratio=0.0)
    twin.fit(frame, "t", "e", fit_options={"precision": 1e-12})
    np.testing.assert_allclose(np.array(model.coefficients) * X[:, SELECTED].std(0), twin.params_, rtol=1e-6)


def test_lasso_meets_the_conditions_of_its_optimum_and_scikit_learn():
    from sklearn.linear_model import Lasso

    X = data()
    scale = X[:, SELECTED].std(axis=0)
    Z = (X[:, SELECTED] - X[:, SELECTED].mean(axis=0)) / scale
    y = X[:, 0] + RNG(5).normal(size=len(X))
    (model,) = made(X, y, FinalWay("lasso", (0.2,)))
    largest = np.abs(Z.T @ (y - y.mean())).max() / len(X)
    twin = Lasso(alpha=0.2 * largest, tol=1e-12).fit(Z, y)
    np.testing.assert_allclose(np.array(model.coefficients[1:]) * scale, twin.coef_, atol=1e-8)
    y = classes(X)
    (model,) = made(X, y, FinalWay("lasso", (0.2,)))
    beta = np.array(model.coefficients[1:]) * scale
    gradient = Z.T @ (y - model.predict(X))
    limit = 0.2 * np.abs(Z.T @ (y - y.mean())).max()
    assert (np.abs(gradient) <= limit * (1 + 1e-5)).all()
    np.testing.assert_allclose(gradient[beta != 0], limit * np.sign(beta[beta != 0]), rtol=1e-4)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "cox"])
def test_leaving_a_row_out_is_what_one_step_says(family):
    """Exact for the linear model; elsewhere nearly, and in the same direction for every row that matters."""
    X = data(60)
    y = {
        "gaussian": X[:, 0] + RNG(5).normal(size=60),
        "binomial": classes(X),
        "poisson": RNG(6).poisson(np.exp(0.4 * X[:, 0])),
        "cox": times(X),
    }[family]
    on = Standardised(read_problem(X, y, [], family=family), SELECTED)
    first = int(on.likelihood.intercept)
    whole = descend(likelihood_of(on), on.start)
    step = changes(on, whole)
    for row in range(5):
        keep = np.arange(60) != row
        part = tuple(v[keep] for v in y) if isinstance(y, tuple) else y[keep]
        less = Standardised(read_problem(X[keep], part, [], family=family), SELECTED)
        without = descend(likelihood_of(less), less.start)[first:] / less.scale * on.scale
        tolerance = 1e-8 if family == "gaussian" else 0.25 * np.abs(step[row]).max() + 0.004
        np.testing.assert_allclose(whole[first:] - step[row], without, atol=tolerance)


def test_global_shrinkage_is_the_slope_on_predictions_without_the_row():
    import statsmodels.api as sm

    X = data(60)
    y = 0.5 * X[:, 0] + RNG(5).normal(size=60)
    (model,) = made(X, y, find_way("shrinkage", "gaussian"))
    design = sm.add_constant(X[:, SELECTED])
    left_out = np.empty(60)
    for row in range(60):
        keep = np.arange(60) != row
        slopes = sm.OLS(y[keep], design[keep]).fit().params[1:]
        left_out[row] = (X[row, SELECTED] - X[:, SELECTED].mean(axis=0)) @ slopes
    factor = sm.OLS(y, sm.add_constant(left_out)).fit().params[1]
    full = sm.OLS(y, design).fit().params[1:]
    np.testing.assert_allclose(model.coefficients[1:], factor * full, rtol=1e-8)
    assert 0 < factor < 1
    assert "factor" in model.estimation
    assert np.mean(model.predict(X)) == pytest.approx(np.mean(y))


def test_parameterwise_shrinkage_is_the_slopes_on_the_parts_of_such_predictions():
    import statsmodels.api as sm

    X = data(60)
    y = 0.5 * X[:, 0] + 0.1 * X[:, 3] + RNG(5).normal(size=60)
    (model,) = made(X, y, find_way("parameterwise", "gaussian"))
    design = sm.add_constant(X[:, SELECTED])
    parts = np.empty((60, 3))
    for row in range(60):
        keep = np.arange(60) != row
        parts[row] = (X[row, SELECTED] - X[:, SELECTED].mean(axis=0)) * sm.OLS(y[keep], design[keep]).fit().params[1:]
    factors = np.maximum(sm.OLS(y, sm.add_constant(parts)).fit().params[1:], 0.0)
    full = sm.OLS(y, design).fit().params[1:]
    np.testing.assert_allclose(model.coefficients[1:], factors * full, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("final", ["auto", "ridge", "lasso", "firth", "shrinkage", "parameterwise"])
@pytest.mark.parametrize("family", ["binomial", "cox", "gaussian"])
def test_every_way_goes_through_tuning_and_json(final, family):
    frame = table(120)
    y = outcome(family, frame)
    if final == "firth" and family == "gaussian":
        with pytest.raises(InvalidInput, match="'binomial' and 'cox'"):
            fbed.tune(frame, y, family=family, **{**SMALL, "final": final})
        return
    tuned = fbed.tune(frame, y, family=family, **{**SMALL, "final": final})
    again = fbed.Result.from_json(tuned.result.to_json()).model
    assert np.array_equal(again.predict(frame), tuned.model.predict(frame))
    assert again.estimation == tuned.model.estimation
    assert (tuned.model.estimation == "maximum likelihood") == (final == "auto" and tuned.configuration.penalty is None)
    assert tuned.model.estimation.split(" ")[0] in tuned.result.summary()


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "mixed"])
def test_penalties_that_are_fitted_together_are_those_fitted_one_by_one(family):
    """The slow twin: Newton steps for one penalty at a time, each from the model without variables."""
    frame = table(120)
    problem = read_problem(frame, outcome(family, frame), [], family=family)
    on = Standardised(problem, [0, 1, 6])
    evaluate, slopes = likelihood_of(on), on.is_slope
    null = descend(evaluate, on.start, ~slopes)
    information = float(np.diag(evaluate(null)[1]()[1])[slopes].mean())
    for penalty, together in zip((5.0, 0.5, 0.001), ridge(on, (5.0, 0.5, 0.001)), strict=True):
        weight = np.where(slopes, penalty * information, 0.0)

        def penalised(parameters, weight=weight):
            value, derivatives = evaluate(parameters)

            def both():
                gradient, hessian = derivatives()
                return gradient - weight * parameters, hessian + np.diag(weight)

            return value + float(weight @ parameters**2), both

        np.testing.assert_allclose(together, descend(penalised, null), rtol=1e-6, atol=1e-7)


def test_models_that_only_predict_predict_the_same():
    frame = table(120)
    for family in ("gaussian", "binomial", "cox", "multinomial"):
        problem = read_problem(frame, outcome(family, frame), [], family=family)
        way, estimates = find_way("auto", family), problem.model.describe(SELECTED)
        for lean, whole in zip(
            way.fit(problem, estimates, SELECTED, predicts_only=True),
            way.fit(problem, estimates, SELECTED),
            strict=True,
        ):
            assert np.array_equal(lean.predict(frame), whole.predict(frame))


@pytest.mark.parametrize(("final", "words"), [("ml", "Firth's penalised likelihood, since"), ("auto", "ridge (λ = ")])
def test_separated_classes_get_finite_predictions(final, words):
    X = data(60)
    y = (X[:, 0] > 0).astype(int)
    tuned = fbed.tune(X, y, **{**SMALL, "final": final})
    assert tuned.model.estimation.startswith(words)
    assert np.isfinite(tuned.model.coefficients).all()
    assert np.isfinite(tuned.out_of_fold.loss).all()


def test_prediction_intervals_are_those_of_statsmodels_and_refused_elsewhere():
    import statsmodels.api as sm

    X = data(60)
    y = X[:, 0] + RNG(5).normal(size=60)
    result = fbed.select(X, y, include=[0, 1])
    names = list(result.indices)
    twin = sm.OLS(y, sm.add_constant(X[:, names])).fit().get_prediction(sm.add_constant(X[:7, names]))
    expected = twin.summary_frame(alpha=0.1)[["obs_ci_lower", "obs_ci_upper"]].to_numpy()
    np.testing.assert_allclose(result.model.predict_interval(X[:7], 0.9), expected, rtol=1e-8)
    with pytest.raises(InvalidInput, match="linear models"):
        fbed.select(X, classes(X)).model.predict_interval(X)


def test_what_a_model_does_not_know_may_be_its_mean():
    frame = table(120)
    model = fbed.select(frame, outcome("gaussian", frame), alpha=0.2, include=["a", "kind"]).model
    new = frame.iloc[:3].copy()
    new.loc[0, "kind"] = "new"
    new.loc[1, "a"] = np.nan
    with pytest.raises(InvalidInput, match="not seen"):
        model.predict(new)
    assert np.isnan(model.predict(new, unseen="missing")).tolist() == [True, True, False]
    values, notes = model.predict_with_notes(new, unseen="mean")
    assert np.isfinite(values).all()
    assert any("the mean stands for it" in note for note in notes)
    shares = frame["kind"].value_counts(normalize=True)
    others = [model.predict(new.assign(kind=level), unseen="mean")[0] for level in "xyz"]
    assert values[0] == pytest.approx(sum(shares[level] * v for level, v in zip("xyz", others, strict=True)))


@pytest.mark.parametrize("family", ("poisson", "cox"))
@pytest.mark.parametrize("final", ("ridge", "shrinkage"))
def test_many_rows_shrink_as_few_do(family, final, monkeypatch):
    """Models by sums over rows have likelihoods as well."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 5))
    eta = 0.5 * X[:, 0] - 0.4 * X[:, 1]
    y = rng.poisson(np.exp(eta)) if family == "poisson" else (rng.exponential(np.exp(-eta)), rng.random(300) < 0.7)
    few = fbed.tune(X, y, family=family, final=final, cv=3, random_state=0)
    monkeypatch.setattr(builders, "TALL", 100)
    many = fbed.tune(X, y, family=family, final=final, cv=3, random_state=0)
    assert many.result.selected == few.result.selected
    assert many.model.coefficients == pytest.approx(few.model.coefficients, rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_the_lasso_of_a_quadratic_form_meets_the_conditions_of_its_minimum(seed):
    """Columns that are almost the same made a coordinate at a time crawl."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(8, 5)) + 3.0 * rng.normal(size=(8, 1))
    hessian, gradient, at = Z.T @ Z, rng.normal(size=5) * 100.0, rng.normal(size=5)
    weight = np.where(np.arange(5) < 1, 0.0, rng.choice([1.0, 30.0, 300.0]))
    b = _coordinates(gradient, hessian, at, weight)
    slope = gradient - hessian @ (b - at)
    np.testing.assert_allclose(slope[b != 0], (weight * np.sign(b))[b != 0], atol=1e-4)
    assert (np.abs(slope) <= weight + 1e-4).all()


def test_a_small_penalty_of_the_lasso_is_found_alone_as_after_larger_ones():
    """One heavy row kept a fit that began at nothing far from its minimum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 4))
    y, weights = np.arange(14) % 2, np.where(np.arange(14) == 13, 1e6, 1.0)
    on = Standardised(read_problem(X, y, [], sample_weight=weights), [0, 1, 2, 3])
    together = lasso(on, LASSO)
    for penalty, expected in zip(LASSO, together, strict=True):
        np.testing.assert_array_equal(lasso(on, (penalty,))[0], expected)
