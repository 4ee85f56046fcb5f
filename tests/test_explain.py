"""Explanations: what they say is what the search did, and with the data every number is that of a fitted model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

import fbed
from fbed.api.explain import find
from fbed.cli.command import main
from report_cases import CASES, case, coded, holes, table


def numbers():
    X, y = table()
    return X.drop(columns=["level", "rare"]), y


@pytest.mark.parametrize("name", CASES)
def test_every_variable_can_be_explained(name):
    result = case(name)
    for j in range(result.n_variables):
        told = result.explain(result.name(j))
        assert told.verdict.startswith(str(told.variable))
        assert told.variable in (result.name(j), *result.groups)
        assert ("was selected in" in told.verdict or "forced in" in told.verdict) == (told.variable in result.selected)
        assert [encounter.step for encounter in told.encounters] == sorted({e.step for e in told.encounters})
        if told.encounters:
            assert told.encounters[-1].step == result.candidates.row[find(result, result.name(j))] + 1


@pytest.mark.parametrize("name", CASES)
def test_a_saved_result_explains_the_same(name):
    result = case(name)
    again = fbed.Result.from_json(result.to_json())
    for j in range(result.n_variables):
        assert str(again.explain(j)) == str(result.explain(j))


@pytest.mark.parametrize("criterion", [fbed.LikelihoodRatio(0.2), "bic"])
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_statistics_with_the_data_are_those_of_fitted_models(family, criterion):
    X, y = numbers()
    y = y if family == "gaussian" else (y > 0).astype(float)
    result = fbed.select(X, y, criterion=criterion, k=2)
    kind = sm.families.Gaussian() if family == "gaussian" else sm.families.Binomial()

    def deviance(names):
        fitted = sm.GLM(y, sm.add_constant(X[list(names)].to_numpy(), has_constant="add"), family=kind).fit(tol=1e-12)
        return len(y) * np.log(fitted.deviance) if family == "gaussian" else fitted.deviance

    for name in X.columns:
        bounded, exact = result.explain(name), result.explain(name, X, y)
        assert [e.what for e in bounded.encounters] == [e.what for e in exact.encounters]
        for known, encounter in zip(bounded.encounters, exact.encounters, strict=True):
            wanted = deviance(encounter.given) - deviance([*encounter.given, name])
            assert encounter.known.exact
            assert encounter.known.upper == pytest.approx(wanted, rel=1e-5, abs=1e-6)
            assert encounter.passed == (encounter.known.upper > encounter.known.critical)
            assert known.known.lower <= encounter.known.upper * (1 + 1e-8) + 1e-9
            assert encounter.known.lower <= known.known.upper * (1 + 1e-8) + 1e-9
            assert known.known.log_p_low - 1e-8 <= encounter.known.log_p_high <= known.known.log_p_high + 1e-8
        if exact.now is not None:
            assert exact.now.upper == pytest.approx(
                deviance(result.selected) - deviance([*result.selected, name]), abs=1e-5
            )


def test_what_took_its_place_is_named():
    X, y = numbers()
    result = fbed.select(X, y, alpha=0.01)
    loser = ({"a", "twin"} - set(result.selected)).pop()
    winner = ({"a", "twin"} & set(result.selected)).pop()
    told = str(result.explain(loser))
    assert f"{loser} was not selected: it was dropped in step" in told
    assert f"then {winner} entered" in told
    assert "a level alpha above" in told


def test_rows_that_it_would_take_are_about_enough():
    rng = np.random.default_rng(2)
    x, noise = rng.normal(size=(2, 400))
    y = 0.07 * x + noise
    result = fbed.select(x[:, None], y)
    told = str(result.explain(0, x[:, None], y))
    rows = int(told.split("about ")[1].split(" rows")[0].replace(",", ""))
    copies = -(-rows // 400) + 1
    assert result.selected == ()
    assert fbed.select(np.tile(x, copies)[:, None], np.tile(y, copies)).selected == (0,)


def test_a_further_run_is_suggested_when_it_could_matter():
    from fbed.cli.demo import NETWORK, TARGET, simulate

    data = simulate(NETWORK, 1000, 1)
    result = fbed.select(data, TARGET, alpha=0.01, k=0)
    assert "spouse" not in result.selected
    told = result.explain("spouse", data)
    assert "A further run" in str(told)
    assert told.now.log_p_high < np.log(1e-10)
    assert (
        fbed.select(data, TARGET, alpha=0.01, k=1).explain("spouse").verdict.startswith("spouse was selected in step")
    )


def test_forced_excluded_and_constant_variables():
    X, y = table()
    result = fbed.select(X.assign(same=1.0), y, include=["h"], exclude=["g"])
    assert str(result.explain("h")) == "h was forced in: it is in every model and was never tested."
    assert str(result.explain("g")).startswith("g was not considered: it was excluded")
    assert "It is constant, or a combination of the selected" in str(result.explain("same"))


def test_removed_variables():
    result = case("removals")
    removed = [row.variable for row in result.trace if row.action == "remove"]
    assert removed
    told = result.explain(removed[0])
    assert "was selected, and removed again in step" in told.verdict
    assert [encounter.what for encounter in told.encounters][-1] == "removed"


def test_a_limit_that_ended_the_search_is_the_reason():
    X, y = table()
    result = fbed.select(X, y, max_features=1)
    passed = [name for name in X.columns if result.explain(name).encounters[-1].what == "passed"]
    assert passed
    assert "the limit on the number of variables was reached" in str(result.explain(passed[0]))


@pytest.mark.parametrize("family, values", [("binomial", {}), ("gaussian", {"sample_weight": np.arange(200) % 3})])
def test_every_kind_of_table(family, values):
    X, y = numbers()
    y = y if family == "gaussian" else y > 0
    matrix = X.to_numpy()
    wanted = [e.known.upper for e in fbed.select(X, y, **values).explain("f", X, y, **values).encounters]
    for data, name in ((matrix, 5), (sparse.csc_array(matrix), 5), ({n: X[n].to_numpy() for n in X}, "f")):
        result = fbed.select(data, y, **values)
        found = [e.known.upper for e in result.explain(name, data, y, **values).encounters]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_outcome_and_weights_by_name_need_not_be_given_again():
    X, y = table()
    frame = X.assign(y=y, w=np.arange(200) % 3)
    result = fbed.Result.from_json(fbed.select(frame, "y", sample_weight="w").to_json())
    told = result.explain("f", frame)
    assert told.exact
    assert told.encounters[0].known.upper == pytest.approx(
        fbed.select(X, y, sample_weight=frame["w"])
        .explain("f", X, y, sample_weight=frame["w"])
        .encounters[0]
        .known.upper
    )


WITH_DATA = {
    "groups": (table, {}),
    "forced group": (table, {}),
    "complete rows": (holes, {}),
    "indicators": (holes, {}),
    "declared": (lambda: (coded(), table()[1]), {}),
    "multinomial": (lambda: (table()[0], pd.cut(table()[1], 3, labels=["x", "y → z", "z"]).astype(str)), {}),
    "separated": (lambda: (table()[0].assign(y=table()[1]), table()[1] > 0), {}),
    "robust": (lambda: (numbers()[0].to_numpy(), table()[1]), {}),
    "gsquare": (lambda: (table()[0][["level", "rare"]], table()[1] > 0), {}),
}


@pytest.mark.parametrize("name", WITH_DATA)
def test_exact_statistics_lie_within_the_bounds(name):
    result = fbed.Result.from_json(case(name).to_json())
    data, values = WITH_DATA[name]
    for j in sorted(set(range(result.n_variables)) - {c for cs in result.groups.values() for c in cs if c != min(cs)}):
        bounded, exact = result.explain(result.name(j)), result.explain(result.name(j), *data(), **values)
        assert exact.exact
        for known, found in zip(bounded.encounters, exact.encounters, strict=True):
            assert found.known.exact
            if not np.isnan(known.known.lower):
                assert known.known.lower <= found.known.upper * (1 + 1e-6) + 1e-7
                assert found.known.lower <= known.known.upper * (1 + 1e-6) + 1e-7
            assert known.known.df == found.known.df or found.known.df == 0


def test_a_column_of_a_group_is_explained_by_the_group():
    result = case("groups")
    assert result.explain("level").variable == "pair"
    assert str(result.explain("h")) == str(result.explain("noise"))


def test_survival_times_by_name():
    X, y = table()
    frame = X.assign(time=np.exp(-y / y.std()), event=np.arange(200) % 3 > 0)
    result = fbed.select(frame, ("time", "event"))
    assert result.explain("f", frame).exact


def test_bad_questions():
    X, y = table()
    result = fbed.select(X, y, sample_weight=np.ones(200))
    for call, message in (
        (lambda: result.explain("twins"), "no predictor 'twins': did you mean 'twin'"),
        (lambda: result.explain("zzz"), "names are as in the table"),
        (lambda: result.explain(99), "there is no predictor 99: the result has 11, counted from 0"),
        (lambda: result.explain("f", X), "explain needs y, sample_weight again"),
        (lambda: result.explain("f", X, y), "explain needs sample_weight again"),
        (lambda: result.explain("f", y=y), "explain needs the table X besides y"),
        (lambda: result.explain("f", X, y, alpha=3), r"explain has no use for \['alpha'\]"),
        (
            lambda: result.explain("f", X[["a"]], y, sample_weight=y * 0 + 1),
            "it has 1 predictors",
        ),
        (lambda: fbed.select(X[["a"]].to_numpy(), y).explain("a"), "the table had no names; give an index"),
        (lambda: fbed.select(X[["a"]].to_numpy(), y).explain(0, X[["a", "b"]].to_numpy(), y), "it has 2 predictors"),
        (lambda: case("oracle").explain("cause", X, y), "a graph answered this selection exactly"),
    ):
        with pytest.raises(fbed.InvalidInput, match=message):
            call()


def test_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = table()
    frame = X.assign(y=y)
    frame.to_csv("data.csv", index=False)
    assert main(["select", "data.csv", "--target", "y", "--json"]) == 0
    (tmp_path / "result.json").write_text(capsys.readouterr().out)
    result = fbed.Result.from_json(tmp_path / "result.json")
    assert main(["explain", "result.json", "f"]) == 0
    assert capsys.readouterr() == (f"{result.explain('f')}\n", "")
    assert main(["explain", "result.json", "f", "--data", "data.csv"]) == 0
    assert capsys.readouterr() == (f"{result.explain('f', pd.read_csv('data.csv'))}\n", "")
    assert main(["explain", "result.json", "ff"]) == 2
    assert main(["explain", "result.json", "f", "--target", "y"]) == 2
    assert "describe the file of --data, which is missing" in capsys.readouterr().err


def test_from_the_command_line_on_a_matrix(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = numbers()
    np.savez("data.npz", X=X.to_numpy(), y=y, w=np.arange(200) % 3)
    assert main(["select", "data.npz", "--weights", "w", "--json"]) == 0
    (tmp_path / "result.json").write_text(capsys.readouterr().out)
    assert main(["explain", "result.json", "6", "--data", "data.npz"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("6 was not selected")
    assert "<" not in told


@pytest.mark.parametrize("name", CASES)
def test_explanations_fit_a_terminal(name):
    result = case(name)
    if name != "hostile":
        for j in range(result.n_variables):
            assert max(map(len, str(result.explain(j)).split("\n"))) <= 80


def test_groups_and_missing_values_are_explained_with_the_whole_table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 6)), columns=list("abcdef"))
    y = X["a"] + X["b"] + 0.3 * X["c"] + rng.normal(size=120)
    X.loc[3, "f"] = np.nan  # the row is dropped, also from tests that have nothing to do with f
    groups = {"ab": ["a", "b"], "de": ["d", "e"]}
    result = fbed.select(X, y, groups=groups, missing="drop")
    assert result.selected[0] == "ab"
    assert "ab was selected in step 1" in str(result.explain("ab"))
    assert str(result.explain("b")) == str(result.explain("ab"))
    exact = result.explain("de", X, y).encounters[0].known
    again = fbed.select(X, y, groups=groups, missing="drop", engine="exhaustive").candidates
    first = fbed.select(X, y, groups=groups, missing="drop", k=0, max_features=1, engine="exhaustive").candidates
    assert exact.upper == pytest.approx(first.upper[3], rel=1e-9)
    assert not np.isnan(again.upper[3])


def test_without_the_data_nothing_is_made_up_from_bounds():
    """What a bound would suggest, such as 'about 8,785 rows', is left unsaid; what is not known is named."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, size=(400, 300))
    y = (X[:, 0] + X[:, 1] + rng.logistic(size=400) > 0).astype(int)
    result = fbed.Result.from_json(fbed.select(X, y, criterion="ebic").to_json())
    open_ = np.flatnonzero((result.candidates.upper - result.candidates.lower > 0.5) & ~result.support)
    assert len(open_)
    for j in open_[:20].tolist():
        told = str(result.explain(j)).replace("\n", " ")
        assert "rows instead of" not in told
        assert "How close it came is not known" in told
        exact = str(result.explain(j, X, y)).replace("\n", " ")
        assert "not known" not in exact
