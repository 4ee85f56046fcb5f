"""Options of the command line about the data: each means what the argument of `select` means."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import fbed
from fbed.cli.command import main

N = 120
RNG = np.random.default_rng(7)
TABLE = pd.DataFrame(RNG.normal(size=(N, 4)).round(6), columns=list("abcd")).assign(
    grade=RNG.integers(1, 4, N),
    who=np.char.add("s", (np.arange(N) // 4).astype(str)),
    ward=RNG.integers(0, 3, N),
    size=RNG.uniform(1, 9, N).round(3),
    tries=RNG.integers(2, 9, N),
)
EFFECT = (TABLE["a"] - TABLE["b"]).to_numpy()
TABLE = TABLE.assign(
    y=(EFFECT + RNG.normal(size=N)).round(6),
    count=RNG.poisson(TABLE["size"] * np.exp(EFFECT / 2)),
    hits=RNG.binomial(TABLE["tries"], 1 / (1 + np.exp(-EFFECT))),
    months=(RNG.exponential(np.exp(-EFFECT)) + 0.1).round(4),
    died=(RNG.random(N) < 0.7).astype(int),
    rank=np.digitize(EFFECT + RNG.normal(size=N), [-1, 1]),
).assign(start=lambda t: (t["months"] * RNG.random(N)).round(4))
OUTCOMES = ["y", "count", "hits", "months", "died", "rank", "start", "who", "ward", "size", "tries"]

CASES = {
    "poisson": ("count", "--family poisson --exposure size", {"family": "poisson", "exposure": "size"}),
    "offset": ("count", "--family poisson --offset c", {"family": "poisson", "offset": "c"}),
    "trials": ("hits", "--trials tries", {"trials": "tries"}),
    "test": ("count", "--family poisson --test score", {"family": "poisson", "test": "score"}),
    "link": ("rank", "--family ordinal --link probit", {"family": "ordinal", "link": "probit"}),
    "HC3": ("y", "--cov HC3", {"cov": "HC3"}),
    "cluster": ("y", "--cov cluster --cluster who", {"cov": "cluster", "cluster": "who"}),
    "mixed": ("y", "--family mixed --cluster who", {"family": "mixed", "cluster": "who"}),
    "survival": (("months", "died"), "", {}),
    "strata": (("months", "died"), "--strata ward --entry start", {"strata": "ward", "entry": "start"}),
    "weibull": (("months", "died"), "--family weibull", {"family": "weibull"}),
    "categorical": ("y", "--categorical grade --include grade", {"categorical": ["grade"], "include": ["grade"]}),
    "groups": ("y", "--group ab=a,b --group cd=c,d", {"groups": {"ab": ["a", "b"], "cd": ["c", "d"]}}),
    "forced group": ("y", "--group ab=a,b --include ab", {"groups": {"ab": ["a", "b"]}, "include": ["ab"]}),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("data.csv", index=False)
    return tmp_path


def without_cautions(err: str) -> str:
    """What was said besides the cautions that small tables deserve."""
    return "".join(line for line in err.splitlines(True) if "for each coefficient that could be selected" not in line)


@pytest.fixture
def run(capsys):
    def command(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, without_cautions(err)

    return command


def target_options(y):
    return ["--target", y] if isinstance(y, str) else ["--time", y[0], "--event", y[1]]


def unused(y, arguments):
    """Columns that are no predictors of this outcome."""
    used = {y} if isinstance(y, str) else set(y)
    return [name for name in OUTCOMES if name not in used and name not in arguments.values()]


@pytest.mark.parametrize("name", CASES)
def test_options_are_arguments(name, folder, run):
    y, options, arguments = CASES[name]
    exclude = unused(y, arguments)
    status, out, err = run(
        "select", "data.csv", *target_options(y), *options.split(), "--exclude", *exclude, "--alpha", 0.2, "--json"
    )
    assert status == 0
    assert all(line.startswith("fbed: note: ") for line in err.splitlines())
    found, expected = fbed.Result.from_json(out), fbed.select(TABLE, y, exclude=exclude, alpha=0.2, **arguments)
    assert found.selected == expected.selected
    assert found.family == expected.family
    assert_allclose(
        [row.log_p for row in found.trace if row.log_p is not None],
        [row.log_p for row in expected.trace if row.log_p is not None],
    )


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_missing_values(missing, folder, run):
    holes = TABLE[list("abcdy")].copy()
    holes.loc[::9, "a"] = np.nan
    holes.to_csv("holes.csv", index=False)
    status, out, _ = run("select", "holes.csv", "--target", "y", "--missing", missing, "--json")
    expected = fbed.select(holes, "y", missing=missing)
    found = fbed.Result.from_json(out)
    assert (status, found.selected, found.n_rows) == (0, expected.selected, expected.n_rows)
    assert found.notes == expected.notes
    status, _, err = run("select", "holes.csv", "--target", "y")
    assert status == 2
    assert "choose --missing drop (complete rows only) or --missing indicator" in err


def test_the_path_takes_the_same_options(folder, run):
    given = ["--time", "months", "--event", "died", "--strata", "ward", "--group", "cd=c,d", "--exclude"]
    exclude = unused(("months", "died"), {"strata": "ward"})
    status, out, err = run("path", "data.csv", *given, *exclude, "--alphas", 0.1, "--gammas", "-k", 1, "--json")
    assert (status, err) == (0, "")
    expected = fbed.select(
        TABLE, ("months", "died"), strata="ward", groups={"cd": ["c", "d"]}, exclude=exclude, alpha=0.1
    )
    assert fbed.PathResult.from_json(out).get(k=1, alpha=0.1).selected == expected.selected


def test_groups_and_categories_of_a_matrix_are_called_by_index(folder, run):
    X = TABLE[["a", "b", "c", "grade"]].to_numpy()
    np.savez("data.npz", X=X, y=TABLE["y"], size=TABLE["size"])
    options = ["--group", "ab=0,1", "--categorical", "3", "--include", "3", "--json"]
    _, out, _ = run("select", "data.npz", *options)
    expected = fbed.select(X, TABLE["y"], groups={"ab": [0, 1]}, categorical=[3], include=[3])
    assert fbed.Result.from_json(out).selected == expected.selected
    assert "ab" in expected.selected


@pytest.mark.parametrize("name", ["kept.csv", "kept.parquet", "kept.npz"])
def test_output_has_the_columns_of_groups_and_both_parts_of_a_survival_time(name, folder, run):
    exclude = unused(("months", "died"), {})
    given = ["--time", "months", "--event", "died", "--group", "ab=a,b", "--exclude", *exclude, "--criterion", "bic"]
    assert run("select", "data.csv", *given, "--output", name)[0] == 0
    if name.endswith("npz"):
        kept = np.load(name)
        assert kept["feature_names"].tolist() == ["a", "b"]
        assert_allclose(kept["months"], TABLE["months"])
        assert kept["died"].tolist() == TABLE["died"].tolist()
    else:
        kept = pd.read_csv(name) if name.endswith("csv") else pd.read_parquet(name)
        assert list(kept.columns) == ["a", "b", "months", "died"]
        assert_allclose(kept["a"], TABLE["a"])


REFUSED = {
    "time alone": ("--time months", "survival times need both --time and --event"),
    "event alone": ("--event died", "survival times need both --time and --event"),
    "target and time": ("--target y --time months --event died", "survival times have no --target"),
    "no such time": ("--time weeks --event died", "--time 'weeks' is not in the file"),
    "no such cluster": ("--target y --family mixed --cluster nobody", "--cluster 'nobody' is not in the file"),
    "no cluster": ("--target y --family mixed", "family 'mixed' needs --cluster"),
    "no columns": ("--target y --group ab", "expected NAME=COLUMN,COLUMN,…, got 'ab'"),
    "no name": ("--target y --group =a,b", "expected NAME=COLUMN,COLUMN,…, got '=a,b'"),
    "missing column": ("--target y --group ab=a,zz", "--group ab names 'zz', which is not a column"),
    "group twice": ("--target y --group ab=a --group ab=b", "--group 'ab' is given twice"),
    "column twice": ("--target y --group ab=a,b --group bc=b,c", "column 'b' is in two groups, 'ab' and 'bc'"),
    "name of a column": ("--target y --group a=b,c", "group 'a' is called like a column"),
    "part of a group": ("--target y --group ab=a,b --include a", "name the group, --include 'ab'"),
    "measurement": ("--target y --categorical y2 a", "categorical names 'y2', which is not a column"),
    "missing": ("--target y --missing mean", "missing must be 'error', 'drop'"),
    "test": ("--target y --family poisson --test permutation", "family 'poisson' has no test 'permutation'"),
    "covariance": ("--target y --cov HC9", "family 'gaussian' has no --cov HC9: it offers 'HC3', 'cluster'"),
    "link": ("--target y --link log", "family 'gaussian' has no option link="),
    "offset": ("--target y --family gsquare --offset a", "family 'gsquare' has no use for --offset"),
    "svmlight": (
        "--time months --event died --exclude who --output kept.svm",
        "svmlight files hold one outcome, not a time and an event",
    ),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_in_one_line(options, message, folder, run):
    status, _, err = run("select", "data.csv", *options.split())
    assert status == 2
    assert err.startswith("fbed: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_column_of_identifiers_is_named_with_its_remedy(folder, run):
    TABLE.assign(id=[f"P{i}" for i in range(N)]).to_csv("ids.csv", index=False)
    status, _, err = run("select", "ids.csv", "--target", "y")
    assert status == 2
    assert "column 'id' holds text with 120 different values" in err
    assert "--exclude 'id'" in err


def test_dates_are_named_with_their_remedy(folder, run):
    days = pd.date_range("2020-01-01", periods=N // 4).repeat(4)
    TABLE.assign(day=days).to_csv("days.csv", index=False)
    status, _, err = run("select", "days.csv", "--target", "y")
    assert status == 2
    assert "column 'day' holds dates written as text, such as '2020-01-01'" in err
    assert "--exclude 'day'" in err
    assert "--categorical 'day'" in err
