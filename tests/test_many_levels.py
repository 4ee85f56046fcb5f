"""Categories with many levels: p-values that hold, from pairs of rows; and rare levels joined on request."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fbed
from fbed.cli.command import main
from fbed.models.engines.categories.many_levels import ManyLevels
from fbed.models.engines.categories.residual_pairs import Basis, Cells, RowScores
from problem_cases import read_problem

N = 300
ALPHA = fbed.LikelihoodRatio(0.05)


def codes_as_text(rng, n_levels, n=N):
    return np.array([f"v{code}" for code in rng.integers(0, n_levels, n)])


def outcome(family, rng, eta):
    """An outcome with linear predictor eta, and what goes with it."""
    n = len(eta)
    if family == "binomial":
        return (eta + rng.logistic(size=n) > 0).astype(int)
    if family == "multinomial":
        return np.array(["a", "b", "c"])[np.argmax(np.c_[np.zeros(n), eta, -eta] + rng.gumbel(size=(n, 3)), axis=1)]
    if family == "ordinal":
        return pd.cut(eta + rng.logistic(size=n), [-np.inf, -1, 1, np.inf], labels=["low", "mid", "high"])
    if family == "poisson":
        return rng.poisson(np.exp(eta))
    if family == "negative_binomial":
        return rng.poisson(rng.gamma(2.0, np.exp(eta) / 2.0))
    if family == "gamma":
        return rng.gamma(2.0, np.exp(eta))
    time = rng.exponential(np.exp(-eta))
    return np.minimum(time, 1.5), time < 1.5


FAMILIES = ("binomial", "multinomial", "ordinal", "poisson", "negative_binomial", "gamma", "cox", "weibull")


def rows_of(problem, selected=()):
    return problem.paired_model.fit(list(selected)).rows


# -- the statistic and its moments, by the definition ----------------------------------------------------------------


def explicit(rows, codes):
    """Mean, variance, third cumulant and value of U from the matrix of all pairs."""
    a = rows.frequencies.astype(int)
    v, r, Z, codes = (np.repeat(x, a, axis=0) for x in (rows.variances, rows.standardised, rows.span.Z, codes))
    n, m = r.shape
    V = np.array([v[codes == code].sum() for code in codes])
    K = np.where((codes[:, None] == codes) & ~np.eye(n, dtype=bool), 1.0 / V[:, None], 0.0)
    W = np.diag(v)
    left = W - W @ Z @ np.linalg.inv(Z.T @ W @ Z) @ Z.T @ W
    unit = r / np.sqrt(v)[:, None]
    nu = (np.einsum("ni,nj,nk->ijk", unit, unit, unit) ** 2).sum() / n**2
    skewed = 4.0 * nu * (K**3 * np.outer(v, v) ** 1.5).sum()
    moments = m * np.trace(K @ left), 2 * m * np.trace(K @ left @ K @ left), 8 * m * np.trace(K @ W @ K @ W @ K @ W)
    return float(np.einsum("im,ij,jm->", r, K, r)), moments[0], moments[1], moments[2] + skewed, moments_base(K, W, m)


def moments_base(K, W, m):
    return 2 * m * np.trace(K @ W @ K @ W)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("selected", [(), (1, 2)])
def test_the_sums_are_those_of_all_pairs(family, selected):
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"c": codes_as_text(rng, 25, 80), "x": rng.normal(size=80), "z": rng.normal(size=80)})
    problem = read_problem(X, outcome(family, rng, X["x"].to_numpy()), [ALPHA], family=family,
                           sample_weight=rng.integers(1, 3, 80))  # fmt: skip
    rows, factor = rows_of(problem, selected), problem.table.factors[0]
    cells = Cells(rows, factor.codes, len(factor.levels))
    m = rows.standardised.shape[1]
    mean, lost = cells.given_selected()
    third = 8.0 * m * cells.triples + 4.0 * rows.third_moment * cells.skewed_pairs
    base = 2.0 * m * cells.pairs
    found = cells.statistic(), m * mean, base - 2.0 * m * lost, third, base
    assert found == pytest.approx(explicit(rows, factor.codes), rel=1e-9, abs=1e-9)
    both = problem.design.columns(0)
    whole = np.column_stack([rows.span.Z, both])
    assert rows.rank(factor.codes, len(factor.levels)) == np.linalg.matrix_rank(whole) - rows.span.Z.shape[1]


@pytest.mark.parametrize("family", ["binomial", "multinomial", "cox"])
def test_moments_are_those_of_levels_dealt_out_at_random(family):
    rng = np.random.default_rng(0)
    problem = read_problem({"c": codes_as_text(rng, 40, 150)}, outcome(family, rng, np.full(150, 1.0)), [ALPHA],
                           family=family)  # fmt: skip
    rows, factor = rows_of(problem), problem.table.factors[0]
    cells = Cells(rows, factor.codes, len(factor.levels))
    m = rows.standardised.shape[1]
    mean, lost = cells.given_selected()
    variance = 2.0 * m * (cells.pairs - lost)
    dealt = [Cells(rows, rng.permutation(factor.codes), len(factor.levels)).statistic() for _ in range(4000)]
    assert np.mean(dealt) == pytest.approx(m * mean, abs=4.0 * math.sqrt(variance / 4000))
    assert np.var(dealt) == pytest.approx(variance, rel=0.1)
    third = 8.0 * m * cells.triples + 4.0 * rows.third_moment * cells.skewed_pairs
    assert stats.skew(dealt) == pytest.approx(third / (2.0 * m * cells.pairs) ** 1.5, abs=0.2)


def test_the_third_moment_is_the_same_both_ways():
    rng = np.random.default_rng(0)
    scores = rng.gamma(1.0, size=(30, 6)) - 1.0
    few = RowScores(scores, np.ones(30), np.ones(30), Basis(np.ones((30, 1))))
    r = few.standardised
    assert few.third_moment == pytest.approx(((r @ r.T) ** 3).mean())
    assert few.third_moment == pytest.approx(((np.einsum("ni,nj,nk->ijk", r, r, r) / 30) ** 2).sum())


# -- levels and power ------------------------------------------------------------------------------------------------


def rejected(family, n_levels, skewed=False, repetitions=100, test=None, selected=(), rare=False):
    count = 0
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n_levels])
        x = rng.normal(size=N)
        eta = (x if selected else np.zeros(N)) - (3.0 if rare else 0.0)
        weight = 1.0 / np.arange(1, n_levels + 1) if skewed else np.ones(n_levels)
        codes = rng.choice(n_levels, N, p=weight / weight.sum())
        X = pd.DataFrame({"c": pd.Categorical(codes), "x": x})
        problem = read_problem(X, outcome(family, rng, eta), [ALPHA], family=family, test=test)
        model = problem.paired_model if problem.pairs_rows(ALPHA) else problem.model
        count += float(model.fit(list(selected)).gains(np.array([0])).log_p[0]) < math.log(0.05)
    return count / repetitions


MOST = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100)


@pytest.mark.parametrize("n_levels", [50, 100, 150])
def test_noise_with_many_levels_enters_as_often_as_it_may(n_levels):
    assert rejected("binomial", n_levels) <= MOST
    assert rejected("binomial", n_levels, test="lr", repetitions=30) > 0.1  # by name, as before


@pytest.mark.parametrize("family", FAMILIES)
def test_levels_hold_given_others_and_for_every_family(family):
    assert rejected(family, 100, skewed=True, selected=(1,), repetitions=60) <= 0.05 + 3 * math.sqrt(0.0475 / 60)


def test_levels_hold_for_rare_outcomes_and_uneven_levels():
    assert rejected("binomial", 100, skewed=True, rare=True) <= MOST
    assert rejected("binomial", 50, rare=True) <= MOST


@pytest.mark.parametrize("family", FAMILIES)
def test_a_category_that_matters_is_found(family):
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"c": codes_as_text(rng, 60), "x": rng.normal(size=N), "noise": codes_as_text(rng, 60)})
    effect = dict(zip(sorted(set(X["c"])), 1.5 * rng.normal(size=60), strict=False))
    y = outcome(family, rng, X["c"].map(effect).to_numpy() + X["x"].to_numpy())
    result = fbed.select(X, y, family=family, backward=False, k=0)
    assert {"c", "x"} <= set(result.selected)
    assert result.trace[0].variable != "noise"


# -- what else must be true ------------------------------------------------------------------------------------------


def mixed_table(seed, family="binomial", n=N, n_cities=70):
    """Two sparse categories, one of which matters, an ordinary one and numbers."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abde"))
    X["city"], X["street"] = codes_as_text(rng, n_cities, n), codes_as_text(rng, n_cities + n // 6, n)
    X["sex"] = codes_as_text(rng, 3, n)
    effect = dict(zip(sorted(set(X["city"])), rng.normal(size=n_cities), strict=False))
    return X, outcome(family, rng, X["city"].map(effect).to_numpy() + X["a"].to_numpy())


def findings(result):
    return [(row.action, row.variable, row.df, row.log_p and round(row.log_p, 6)) for row in result.trace]


@pytest.mark.parametrize("family", ["binomial", "multinomial", "poisson", "cox"])
def test_engines_threads_and_paths_agree(family):
    X, y = mixed_table(0, family, n=120, n_cities=25)
    grid = {"alphas": [0.4, 0.05], "gammas": [None], "ks": [1], "fbs": False}
    path = fbed.path(X, y, family=family, **grid)
    for setting, shared in zip(path.settings, path, strict=True):
        options = {"criterion": setting.as_criterion(), "k": setting.k or 0, "early_dropping": setting.k is not None}
        alone = fbed.select(X, y, family=family, **options)
        assert findings(shared) == findings(alone)
        assert shared.notes == alone.notes
        assert fbed.select(X, y, family=family, engine="exhaustive", n_jobs=3, **options).selected == alone.selected


def test_removal_is_the_test_given_the_others():
    X, y = mixed_table(4)
    problem = read_problem(X, y, [ALPHA])
    city = list(X).index("city")
    model = problem.paired_model
    loss = model.fit([0, city, 1]).losses(np.array([city, 0]))
    assert loss.log_p[0] == pytest.approx(model.fit([0, 1]).gains(np.array([city])).log_p[0], rel=1e-9)
    ordinary = problem.model.fit([city, 1]).gains(np.array([0]))  # numbers are tested as ever
    assert loss.statistic[1] == pytest.approx(ordinary.statistic[0], rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_weight_two_is_the_row_twice(family):
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"c": codes_as_text(rng, 60, 120), "x": rng.normal(size=120)})
    y = outcome(family, rng, X["x"].to_numpy())
    weights = rng.integers(1, 4, 120)
    again = np.repeat(np.arange(120), weights)
    repeated = tuple(part[again] for part in y) if isinstance(y, tuple) else np.asarray(y)[again]
    if family == "ordinal":
        repeated = pd.Series(repeated).astype(y.dtype)
    once = read_problem(X, y, [ALPHA], family=family, sample_weight=weights)
    twice = read_problem(X.iloc[again].reset_index(drop=True), repeated, [ALPHA], family=family)
    for selected in ([], [1]):
        found = [p.paired_model.fit(selected).gains(np.array([0])) for p in (once, twice)]
        assert found[0].log_p == pytest.approx(found[1].log_p, rel=1e-5)
        assert found[0].df == found[1].df


def test_labels_order_and_class_names_do_not_matter():
    X, y = mixed_table(6, "multinomial")
    renamed = X.assign(city=X["city"].map(lambda level: level[::-1] + "x"))
    order = np.random.default_rng(0).permutation(N)
    for other, classes in ((renamed, y), (X.iloc[order], y[order]), (X, np.array(["z" + c for c in y])[::1])):
        assert fbed.select(other, classes).selected == fbed.select(X, y).selected
    first = read_problem(X, y, [ALPHA]).paired_model.fit([]).gains(np.array([4])).log_p[0]
    swapped = read_problem(X, np.where(y == "a", "q", y), [ALPHA]).paired_model.fit([]).gains(np.array([4])).log_p[0]
    assert first == pytest.approx(swapped, rel=1e-9)


def test_ordinary_categories_keep_their_likelihood_ratio():
    X, y = mixed_table(7)
    problem = read_problem(X, y, [ALPHA])
    assert [problem.table.name(j) for j in problem.sparse] == ["city", "street"]
    sex = np.array([list(X).index("sex")])
    paired, plain = problem.paired_model.fit([0]).gains(sex), problem.model.fit([0]).gains(sex)
    assert paired.statistic == plain.statistic
    assert fbed.select(X[["a", "sex"]], y).settings["paired"] == []


def test_statistics_are_what_chi_square_needs_for_the_p_value():
    X, y = mixed_table(8)
    result = fbed.select(X, y, alpha=0.3)
    row = next(row for row in result.trace if row.variable == "city")
    assert row.df == len(set(X["city"])) - 1
    assert row.log_p == pytest.approx(stats.chi2.logsf(row.statistic, row.df), rel=1e-8)
    assert dict(row.critical)[row.df] == pytest.approx(stats.chi2.isf(0.3, row.df))


def test_information_criteria_gains_and_named_tests_are_unchanged():
    X, y = mixed_table(9)
    city = np.array([list(X).index("city")])
    named = read_problem(X, y, [ALPHA], test="lr")
    assert not named.pairs_rows(ALPHA)
    plain = read_problem(X, y, [ALPHA])
    for criterion in (fbed.AIC(), fbed.BIC(), fbed.EBIC(), fbed.LikelihoodRatio(0.05, min_gain=1.0)):
        assert not plain.pairs_rows(criterion)
    cells = pd.crosstab(X["city"], y)
    pearson = stats.chi2_contingency(cells, lambda_="log-likelihood", correction=False)
    assert named.model.fit([]).gains(city).statistic[0] == pytest.approx(pearson.statistic, rel=1e-6)
    assert "find far too much" in " ".join(fbed.select(X, y, test="lr", k=0).notes)
    assert "are not to be trusted" in " ".join(fbed.select(X, y, test="score", k=0).notes)
    assert not any("χ²" in note for note in fbed.select(X, y, criterion="bic").notes)


def test_the_note_names_the_columns():
    X, y = mixed_table(10)
    n_levels = [len(set(X[name])) for name in ("city", "street")]
    expected = (
        f"too many levels for χ²: city ({n_levels[0]} levels), street ({n_levels[1]} levels); p-values of such columns "
        "come from pairs of rows of the same level"
    )
    result = fbed.select(X, y)
    assert expected in result.notes
    assert result.settings["paired"] == ["city", "street"]
    assert fbed.Result.from_json(result.to_json()).settings == result.settings
    assert not any("χ²" in note for note in fbed.select(X, y, exclude=["city", "street"]).notes)


def test_explain_makes_the_same_test_again():
    X, y = mixed_table(11)
    result = fbed.select(X, y, k=0, backward=False)
    told = result.explain("street", X, y)
    problem = read_problem(X, y, [ALPHA])
    first = problem.paired_model.fit([]).gains(np.array([list(X).index("street")]))
    assert told.encounters[0].known.log_p_high == pytest.approx(first.log_p[0], rel=1e-9)


# -- hostile categories ----------------------------------------------------------------------------------------------


def test_a_category_in_the_span_of_the_selected_adds_nothing():
    rng = np.random.default_rng(0)
    fine = rng.integers(0, 120, N)
    X = pd.DataFrame({"fine": pd.Categorical(fine), "coarse": pd.Categorical(fine // 3), "x": rng.normal(size=N)})
    problem = read_problem(X, rng.integers(0, 2, N), [ALPHA])
    assert problem.sparse == (0, 1)
    found = problem.paired_model.fit([0]).gains(np.array([1, 2]))
    assert (found.statistic[0], found.df[0], found.log_p[0]) == (0.0, 0.0, 0.0)
    nested = problem.paired_model.fit([1]).gains(np.array([0]))
    assert nested.df[0] == len(set(fine)) - len(set(fine // 3))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [0.5, 1e6])
def test_any_weights(family, scale):
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"c": codes_as_text(rng, 60, 120)})
    weights = scale * rng.exponential(size=120)
    problem = read_problem(X, outcome(family, rng, np.zeros(120)), [ALPHA], family=family, sample_weight=weights)
    found = ManyLevels(problem.model, [0]).fit([]).gains(np.array([0]))
    assert np.isfinite(found.log_p).all()
    assert (found.log_p <= 0).all()


def test_levels_of_one_row_each_say_nothing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": pd.Categorical(np.arange(60))})
    found = read_problem(X, rng.integers(0, 2, 60), [ALPHA]).paired_model.fit([]).gains(np.array([0]))
    assert (found.statistic[0], found.log_p[0]) == (0.0, 0.0)


def test_separation_by_what_is_selected():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": codes_as_text(rng, 60), "x": np.linspace(-3, 3, N)})
    y = (X["x"] > 0).astype(int).to_numpy()
    assert fbed.select(X, y).selected == ("x",)
    y[[10, 290]] = 1 - y[[10, 290]]
    result = fbed.select(X, y)
    assert result.selected == ("x",)


# -- rare levels -----------------------------------------------------------------------------------------------------


LETTERS = pd.DataFrame({"c": list("aaaaabbbbbcdde"), "n": np.arange(14.0)})
FLIPS = np.array([0, 1] * 7)


@pytest.mark.parametrize(
    ("rare_levels", "terms"),
    [(None, "bcde"), (2, ["b", "d", "(other)"]), (3, ["b", "(other)"]), (0.2, ["b", "(other)"]), (1, "bcde")],
)
def test_rare_levels_become_one(rare_levels, terms):
    result = fbed.select(LETTERS, FLIPS, include=["c"], rare_levels=rare_levels)
    assert result.model.terms[1:] == tuple(f"c[{level}]" for level in terms)
    assert result.settings["rare_levels"] == rare_levels


def test_joined_levels_are_told_and_count_weights():
    result = fbed.select(LETTERS, FLIPS, include=["c"], rare_levels=3)
    assert "levels with fewer than 3 rows were joined to '(other)': c (3 of 5)" in result.notes
    heavy = np.where(LETTERS["c"] == "e", 3, 1)
    kept = fbed.select(LETTERS, FLIPS, include=["c"], rare_levels=3, sample_weight=heavy)
    assert kept.model.terms[1:] == ("c[b]", "c[e]", "c[(other)]")


def test_a_level_of_that_name_takes_the_others_in():
    X = LETTERS.assign(c=LETTERS["c"].replace("b", "(other)"))
    assert fbed.select(X, FLIPS, include=["c"], rare_levels=3).model.terms[1:] == ("c[a]",)


def test_all_levels_rare_are_a_constant():
    result = fbed.select(LETTERS, FLIPS, rare_levels=10)
    assert "1 constant column cannot be selected" in result.notes


@pytest.mark.parametrize("bad", [0, -1, 2.5, "5", True, math.nan, math.inf])
def test_what_rare_levels_cannot_be(bad):
    with pytest.raises(fbed.InvalidInput, match="rare_levels is the number of rows"):
        fbed.select(LETTERS, FLIPS, rare_levels=bad)


def test_rare_levels_everywhere(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": [f"v{i}" for i in np.minimum(rng.geometric(0.2, 200), 30)], "x": rng.normal(size=200)})
    y = ((X["c"] == "v1") + rng.normal(size=200) > 0.5).astype(int)
    expected = fbed.select(X, y, rare_levels=20)
    grid = fbed.path(X, y, rare_levels=20, alphas=[0.05], gammas=[], ks=[1], fbs=False)
    assert (grid[0].notes, findings(grid[0])) == (expected.notes, findings(expected))
    assert findings(fbed.FBEDSelector(rare_levels=20).fit(X, y).result_) == findings(expected)
    X.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    assert main(["select", str(tmp_path / "t.csv"), "--target", "y", "--rare-levels", "20", "--json", "-q"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["settings"]["rare_levels"] == 20
    assert plain["notes"] == list(expected.notes)
    again = expected.explain("c", X, y)
    assert again.encounters[0].known.df == next(row.df for row in expected.trace if row.variable == "c")


# -- the table of levels ---------------------------------------------------------------------------------------------


def test_counts_of_levels_are_kept_and_go_on(tmp_path, monkeypatch):
    from experiments import levels

    monkeypatch.setattr(levels, "SIZES", (50,))
    monkeypatch.setattr(levels, "CHUNK", 2)
    table = levels.Table(tmp_path / "levels.csv")
    levels.run(table, ["spearman", "binomial 5 %"], repetitions=2)
    levels.run(levels.Table(tmp_path / "levels.csv"), ["spearman", "binomial 5 %"], repetitions=4)
    resumed = levels.Table(tmp_path / "levels.csv")
    whole = levels.Table(tmp_path / "whole.csv")
    levels.run(whole, ["spearman", "binomial 5 %"], repetitions=4)
    assert resumed.cells == whole.cells
    assert resumed.cells["spearman", "default", "numeric", 50][0] == 40
    assert resumed.cells["spearman", "default", "30 levels", 50][0] == 12
    text = levels.markdown(resumed)
    assert "| binomial 5 % | wald | 4 |" in text
    resumed.forget(["spearman"])
    assert {key[0] for key in resumed.cells} == {"binomial 5 %"}


def test_every_family_has_a_level():
    from experiments import levels

    from fbed.families import FAMILIES as TABLE

    assert {case.family for case in levels.CASES.values()} == set(TABLE) - {"kernel"}
    drawn = read_problem(levels.predictors(np.random.default_rng(0), 50, levels.KINDS), np.arange(50) % 2, [ALPHA])
    assert len(drawn.table.factors) == levels.COPIES["3 levels"] + levels.COPIES["30 levels"]
    assert len(drawn.sparse) == levels.COPIES["30 levels"]
    for name, case in levels.CASES.items():
        tests = set(TABLE[case.family].tests) if case.tests != ("default",) else set()
        assert tests <= {*case.tests, TABLE[case.family].tests[0]}, name
    assert [levels.verdict(1000, rejected) for rejected in (20, 50, 90)] == ["−", "", "+"]


def test_nothing_is_left_for_pairs_beside_a_perfect_fit():
    """Scores of a fit towards infinity depend on where it stopped: engines must not disagree about them."""
    rng = np.random.default_rng(0)
    n = 36
    x = np.sort(rng.normal(size=n))
    X = pd.DataFrame({"c": rng.choice(["a", "b", "c"], n), "x": x})
    y = np.array(["low", "middle", "high"])[np.digitize(x, [-0.5, 0.5])]
    for engine in ("certified", "exhaustive"):
        problem = read_problem(X, y, [ALPHA], family="multinomial", engine=engine)
        assert 0 in problem.sparse
        fit = problem.paired_model.fit([1])
        assert fit.saturated
        assert fit.gains(np.array([0])).log_p.tolist() == [0.0]
        assert problem.paired_model.fit([1, 0]).losses(np.array([0])).statistic.tolist() == [0.0]


def test_levels_in_which_a_single_row_counts_say_nothing():
    """All other rows are decided: there is no pair, and rounding must not make one."""
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(12), 3)
    variances = np.tile([1.0, 0.0, 0.0], 12)
    scores = np.where(variances > 0, rng.normal(size=36), 0.0)[:, None]
    Z = np.column_stack([np.ones(36), rng.normal(size=(36, 4))])
    assert RowScores(scores, variances, np.ones(36), Basis(Z)).log_p(codes, 12) == 0.0
