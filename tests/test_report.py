"""The report: complete, valid, the same from a saved result, and indifferent to hostile names."""

from __future__ import annotations

import itertools
import math
import os
import shlex
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fbed
from fbed.cli.command import main
from fbed.result import cautions, views
from fbed.show.report import render
from report_cases import CASES, HOSTILE, case, hostile_table, table

VOID = {"meta", "br", "wbr"}


class Page(HTMLParser):
    """Elements with their attributes and text, in order; complains about what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text_of: list[str] = []
        self.open: list[tuple[str, int]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.text_of.append("")
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, i in self.open:
            self.text_of[i] += data

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [
            (attributes, text)
            for (name, attributes), text in zip(self.elements, self.text_of, strict=True)
            if name == tag
        ]


@pytest.mark.parametrize("name", CASES)
def test_page_is_well_formed_and_accessible(name):
    page = Page(render(case(name)))
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(identifiers)) == len(identifiers)
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for attributes, _ in page.all("svg"):
        told = [
            text
            for tag in ("title", "desc")
            for a, text in page.all(tag)
            if a.get("id", "") in attributes["aria-labelledby"].split()
        ]
        assert attributes["role"] == "img"
        assert len(told) == 2
        assert all(text.strip() for text in told)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(attributes.get("scope") in ("row", "col") for attributes, _ in page.all("th"))
    for attributes, _ in page.all("a"):
        assert attributes["href"].removeprefix("#") in identifiers
    assert page.elements[0] == ("html", {"lang": "en"})


@pytest.mark.parametrize("name", CASES)
def test_page_needs_nothing_from_outside(name):
    text = render(case(name))
    page = Page(text)
    asking = {"src", "srcset", "action", "data", "poster", "background", "formaction", "ping"}
    assert not [e for e in page.elements if asking & set(e[1]) or e[0] in ("link", "iframe", "object", "embed", "base")]
    assert not [e for e in page.elements if any(attribute.startswith("on") for attribute in e[1])]
    assert "@import" not in text
    assert "url(" not in text
    assert any("default-src 'none'" in (attributes.get("content") or "") for attributes, _ in page.all("meta"))


@pytest.mark.parametrize("name", CASES)
def test_restored_result_gives_the_same_report(name):
    result = case(name)
    assert render(fbed.Result.from_json(result.to_json())) == render(result)


def test_names_are_text():
    result = case("hostile")
    assert set(result.selected) == set(HOSTILE)
    page = Page(render(result))
    assert len(page.all("script")) == 1
    assert page.all("img") == []
    assert page.all("b") == []
    names = {text for attributes, text in page.all("bdi") if attributes.get("class") == "name"}
    for name in HOSTILE:
        assert "".join(ch if ch.isprintable() else " " if ch.isspace() else "�" for ch in name) in names


def test_class_and_level_names_are_text():
    X, y = hostile_table()
    X = pd.DataFrame({"<u>": np.where(X["name"] > 0, "<i>yes</i>", "<i>no</i>"), "x": X["Name"]})
    result = fbed.select(X, np.where(y > 0, "<s>up</s>", "<s>down</s>"), include=["<u>"])
    page = Page(render(result))
    assert not [tag for tag, _ in page.elements if tag in ("u", "i", "s")]
    assert any("<i>yes</i>" in text for _, text in page.all("td"))
    assert any("<s>up</s>" in text for _, text in page.all("td"))


def test_contents_follow_the_result():
    result = case("removals")
    page = Page(render(result))
    whole = page.text_of[0]
    for name in result.selected:
        assert any(text == str(name) for _, text in page.all("bdi"))
    assert "removed" in whole
    assert "backward" in whole
    assert f"{result.n_tests.total:,}" in whole
    assert "p-value (naive)" in whole
    assert "Borboudakis" in whole
    assert f"fbed.select({'X, y'}" in whole
    for package in ("fbed", "Python", "numpy", "scipy"):
        assert any(text == package for _, text in page.all("th"))


def test_cautions_name_what_is_wrong():
    told = " ".join(
        f"{c.title}: {c.text}" for c in cautions.cautions(fbed.select(*table(), include=["a", "twin", "rare"]))
    )
    assert "Selected variables are collinear" in told
    assert "a and twin (1.00)" in told
    assert "rare = odd (4 rows)" in told
    assert "The outcome is separated" in [c.title for c in cautions.cautions(case("separated"))]
    assert "The search did not finish" in [c.title for c in cautions.cautions(case("interrupted"))]
    assert "The search was limited" in [c.title for c in cautions.cautions(case("limited"))]
    quiet = fbed.select(table()[0][["b", "c"]], table()[1])
    assert cautions.cautions(quiet) == []


def test_least_tests_of_fbs_is_what_fbs_needs():
    result = case("fbs")
    assert result.status == "converged"
    assert [row.action for row in result.trace].count("remove") == 0
    assert views.least_tests_of_fbs(result) == result.n_tests.total
    assert views.least_tests_of_fbs(case("linear")) == views.least_tests_of_fbs(result)
    assert result.selected == case("linear").selected


def test_steps_add_up():
    result = case("logistic")
    last = views.steps(result)[-1]
    assert result.model.null_deviance - last.fall == pytest.approx(result.model.deviance, rel=1e-8)
    assert last.n_selected == len(result.selected)
    assert [step.row.tested - step.row.n_dropped - (step.row.action == "add") for step in views.steps(result)] == [
        step.remaining for step in views.steps(result)
    ]


def test_near_ties_are_found():
    X, y = table()
    result = fbed.select(X, y, alpha=0.01)
    assert result.selected[0] in ("a", "twin", "b", "level")
    close = {tie.name for tie in views.ties(result) if tie.near}
    assert close & {"a", "twin"}
    for tie in views.ties(result):
        assert tie.behind >= 0
        assert tie.near == (tie.behind <= views.NEAR)


def test_bounds_of_the_last_test_hold_the_exact_statistic():
    X, y = table()
    binary = (y > 0).astype(int)
    result = fbed.select(X, binary)
    exact = fbed.select(X, binary, engine="exhaustive")
    for j in range(result.n_variables):
        place, known = views.last_test(result, j)
        other_place, other = views.last_test(exact, j)
        assert place == other_place
        assert known.lower <= other.lower * (1 + 1e-9) + 1e-12
        assert other.upper <= known.upper * (1 + 1e-9) + 1e-12
        assert known.log_p_low <= other.log_p_low + 1e-9


def test_p_values_and_critical_values_are_those_of_the_search():
    for name in ("linear", "logistic", "cox", "ebic"):
        result = case(name)
        for step in views.changes(result):
            if step.row.action == "add":
                known = views.statistic(result, step.row, step.row.statistic, step.row.statistic, step.row.df)
                assert known.log_p_high == pytest.approx(step.row.log_p, rel=1e-9)
                assert step.row.score == pytest.approx(step.row.statistic - known.critical)


def test_effects_belong_to_their_variables():
    result = case("multinomial")
    owners = {effect.term: effect.variable for effect in views.terms(result)}
    assert owners["a → y → z"] == "a"
    assert owners["(intercept) → z"] is None
    result = case("linear")
    effects = {effect.term: effect for effect in views.effects(result)}
    assert effects["level[mid]"].variable == "level"
    assert effects["level[mid]"].scale == 1.0
    assert effects["a" if "a" in effects else "twin"].scale == pytest.approx(table()[0]["a"].std(ddof=0), rel=0.1)


def test_intervals_are_those_of_statsmodels():
    import statsmodels.api as sm

    X, y = _numeric()
    result = fbed.select(X, y)
    expected = sm.OLS(y, sm.add_constant(X[:, result.indices])).fit().conf_int()
    found = np.array([(effect.low, effect.high) for effect in views.terms(result)])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def _numeric():
    X, y = table()
    return X.drop(columns=["level", "rare"]).to_numpy(), y


def test_glance_is_what_numpy_says():
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    X, y = _numeric()
    result = fbed.select(X, y, include=[0, 1, 8], max_features=0)
    chosen = X[:, result.indices]
    np.testing.assert_allclose(result.overview.correlations, np.corrcoef(chosen.T), atol=1e-5)
    with_constant = np.column_stack([np.ones(len(y)), chosen])
    wanted = [variance_inflation_factor(with_constant, j) for j in (1, 2, 3)]
    np.testing.assert_allclose(result.overview.inflation, wanted, rtol=1e-4)
    outcome = result.overview.outcome
    assert outcome.mean == pytest.approx(y.mean(), rel=1e-5)
    assert outcome.sd == pytest.approx(y.std(), rel=1e-5)
    assert outcome.quartiles[2] == pytest.approx(np.quantile(y, 0.5, method="inverted_cdf"), rel=1e-5)
    assert sum(outcome.counts) == len(y)


def test_correlation_with_a_category_is_the_root_of_the_explained_variance():
    X, y = table()
    result = fbed.select(X, y, include=["a", "level"], max_features=0)
    groups = X.groupby("level")["a"].transform("mean")
    assert result.overview.correlations[0][1] == pytest.approx(groups.std(ddof=0) / X["a"].std(ddof=0), rel=1e-4)
    assert dict(result.overview.columns[1].levels) == X["level"].value_counts().to_dict()


def test_glance_counts_frequencies():
    X, y = table()
    weights = np.arange(len(y)) % 3
    rows = np.repeat(np.arange(len(y)), weights)
    once = fbed.select(X, y, sample_weight=weights)
    twice = fbed.select(X.iloc[rows], y[rows])
    assert once.overview.columns == twice.overview.columns
    assert once.overview.outcome == twice.overview.outcome
    np.testing.assert_allclose(once.overview.correlations, twice.overview.correlations, atol=1e-5)


def test_python_lines_run_again():
    X, y = table()
    for settings in ({}, {"k": math.inf, "include": ["h"]}, {"criterion": fbed.EBIC(gamma=0.3), "max_features": 2}):
        result = fbed.select(X, y, **settings)
        namespace = {"X": X, "y": y}
        exec(result.provenance.python(), namespace)
        assert namespace["result"].selected == result.selected
        assert namespace["result"].settings == result.settings


def test_command_and_python_lines_of_the_command_line_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = table()
    X.assign(y=y).to_csv("my data.csv", index=False, sep=";")
    call = ["select", "my data.csv", "--sep", ";", "--target", "y", "-k", "inf", "--json"]
    assert main(call) == 0
    result = fbed.Result.from_json(capsys.readouterr().out)
    assert shlex.split(result.provenance.command) == ["fbed", *call]
    namespace = {}
    exec(result.provenance.python(), namespace)
    assert namespace["result"].selected == result.selected
    numbers, _ = _numeric()
    np.savez("data.npz", X=numbers, y=y, w=np.arange(len(y)) % 2)
    assert main(["select", "data.npz", "--weights", "w", "--json"]) == 0
    result = fbed.Result.from_json(capsys.readouterr().out)
    namespace = {}
    exec(result.provenance.python(), namespace)
    assert namespace["result"].selected == result.selected
    assert namespace["result"].n == result.n


def _real(name):
    folder = os.environ.get("FBED_DATA_DIR")
    if not folder:
        pytest.skip("FBED_DATA_DIR is not set")
    data = Path(folder)
    if name == "bank_marketing":
        return fbed.select(pd.read_parquet(data / "extra" / "bank_marketing.parquet")[::10], "y")
    if name == "nki70":
        return fbed.select(pd.read_parquet(data / "extra" / "nki70.parquet"), ("time", "event"), alpha=0.01)
    if name == "riboflavin":
        with np.load(data / "extra" / "riboflavin.npz", allow_pickle=True) as file:
            return fbed.select(file["X"], file["y"], criterion="ebic")
    with np.load(data / "paper" / "dexter.npz") as file:
        return fbed.select(sparse.load_npz(data / "paper" / "dexter.npz"), file["y"], alpha=0.01)


@pytest.mark.parametrize("name", ["bank_marketing", "nki70", "riboflavin", "dexter"])
def test_reports_of_real_data(name):
    result = _real(name)
    text = render(result)
    assert render(fbed.Result.from_json(result.to_json())) == text
    assert len(text) < 500_000
    shown = {text for _, text in Page(text).all("bdi")}
    assert {str(variable) for variable in result.selected} <= shown


def test_report_of_many_variables_is_small_and_quick(tmp_path):
    rng = np.random.default_rng(0)
    p = 100_000
    X = sparse.random_array((120, p), density=0.05, rng=rng, format="csc")
    names = [f"probe set {j} with quite a long name" for j in range(p)]
    y = np.asarray(X[:, [5]].todense())[:, 0] * 4 + rng.normal(size=120)
    result = fbed.select(X, y, feature_names=names, alpha=0.001)
    started = time.perf_counter()
    file = result.report(tmp_path / "report.html")
    assert time.perf_counter() - started < 2.0
    assert file.stat().st_size < 2_000_000
    assert len(result.selected) > 0


def test_report_of_many_steps_is_small(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 150))
    result = fbed.select(X, X.sum(axis=1) + rng.normal(size=1000))
    assert len(result.selected) > 100
    assert result.report(tmp_path / "report.html").stat().st_size < 2_000_000


def test_report_goes_where_it_is_told(tmp_path):
    assert case("linear").report(str(tmp_path / "a.html")) == tmp_path / "a.html"
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == render(case("linear"))
    with pytest.raises(fbed.InvalidInput, match=r"cannot write the report to .*: No such file or directory"):
        case("linear").report(tmp_path / "nowhere" / "a.html")


def test_report_of_a_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = table()
    X.assign(y=y).to_csv("data.csv", index=False)
    call = ["path", "data.csv", "--target", "y", "--alphas", "0.001", "0.2", "--gammas", "default", "-k", "1"]
    assert main([*call, "--report", "grid.html"]) == 0
    assert "the report is in grid.html" in capsys.readouterr().err
    page = (tmp_path / "grid.html").read_text(encoding="utf-8")
    found = fbed.path(X, y, alphas=[0.001, 0.2], gammas=[None], ks=[1])
    for text in ("FBED^1, α = 0.001", "FBED^1, EBIC γ = default", "FBS, α = 0.2"):
        assert text in page
    assert page.count(": selected by") == sum(len(result.selected) for result in found)
    counts = Counter(name for result in found for name in result.selected)
    for count in counts.values():
        assert f">{count} of {len(found)}<" in page
    assert main(["path", "data.csv", "--target", "y", "--report", "data.csv"]) == 2


def test_report_of_a_path_that_selects_nothing(tmp_path):
    rng = np.random.default_rng(0)
    found = fbed.path(rng.normal(size=(50, 3)), rng.normal(size=50), alphas=[1e-9], gammas=[], ks=[0], fbs=False)
    page = found.report(tmp_path / "grid.html").read_text(encoding="utf-8")
    assert "0 variables are selected by at least one of 1 setting" in page
    assert "nothing" in page


def test_report_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = table()
    X.assign(y=y).to_csv("data.csv", index=False)
    assert main(["select", "data.csv", "--target", "y", "--json", "--report", "one.html"]) == 0
    (tmp_path / "result.json").write_text(capsys.readouterr().out)
    assert main(["report", "result.json"]) == 0
    assert capsys.readouterr().out == "result.html\n"
    assert main(["report", "result.json", "-o", "two.html"]) == 0
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("one.html", "two.html", "result.html")]
    assert pages[0] == pages[1] == pages[2]
    assert "fbed select data.csv --target y --json --report one.html" in pages[0]


@pytest.mark.parametrize(
    "call, message",
    [
        (["report", "no.json"], "no.json: cannot be read"),
        (["report", "other.json"], "other.json: this is not a result of"),
        (["report", "text.json"], "text.json: this is not a result of fbed"),
        (["report", "result.json", "-o", "result.json"], "would overwrite result.json"),
        (["report", "result.json", "-o", "no/report.html"], "its folder does not exist"),
        (["select", "data.csv", "--target", "y", "--report", "no/report.html"], "its folder does not exist"),
        (["select", "data.csv", "--target", "y", "--report", "data.csv"], "would overwrite data.csv"),
    ],
)
def test_reports_that_cannot_be_made(call, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = table()
    X.assign(y=y).to_csv("data.csv", index=False)
    case("linear").to_json("result.json")
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "text.json").write_text("hello")
    assert main(call) == 2
    err = capsys.readouterr().err
    assert err.startswith("fbed: error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", CASES)
def test_notebook_shows_a_result(name):
    result = case(name)
    page = Page(f"<html>{result._repr_html_()}</html>")
    whole = page.text_of[0]
    assert f"of {views.n_variables(result):,}" in whole
    assert page.all("script") == []
    assert page.all("img") == []
    assert len(page.all("td")) == 6 * min(len(result.selected), 25)


def test_selector_keeps_the_diagram_of_scikit_learn():
    selector = fbed.FBEDSelector().fit(*_numeric())
    assert "sk-estimator" in selector._repr_html_()
