"""The paper's protocol: splits, leakage, models, choice, and a tiny run of everything on made data."""

import importlib.util
import multiprocessing

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from experiments import __main__ as command
from experiments import analysis, data, lasso, levels, paper, protocol, store, tables, timing
from experiments.protocol import Cell, Effort, Fitting
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from lasso_twin import fit_path as twin_path

TINY = Effort(n_lambda=8, n_lambda_limited=12)
HAS_GLMNET = importlib.util.find_spec("glmnet") is not None


@pytest.fixture(autouse=True)
def solver(monkeypatch):
    """glmnet where it is installed, else its twin."""
    if not HAS_GLMNET:
        monkeypatch.setattr(lasso, "fit_path", twin_path)


def made(n=120, p=12, seed=0, strength=1.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = (strength * (X[:, 2] - X[:, 5]) + rng.logistic(size=n) > 0).astype(np.int8)
    return X, y


# --- splits ----------------------------------------------------------------------------------------------------------


def test_a_split_is_stratified_and_covers_every_row_once():
    y = np.repeat([0, 1], [137, 41])
    split = protocol.split_rows(y, "madelon", 3, 0)
    assert sorted(np.concatenate(split)) == list(range(len(y)))
    assert [len(part) for part in split] == [108, 35, 35]
    assert [int(y[part].sum()) for part in split] == [25, 8, 8]


def test_splits_depend_on_dataset_repetition_and_seed_only():
    y = np.repeat([0, 1], 50)
    same = [protocol.split_rows(y, "hiva", 1, 0).test.tolist() for _ in range(2)]
    others = [protocol.split_rows(y, *key).test.tolist() for key in (("hiva", 2, 0), ("hiva", 1, 1), ("nova", 1, 0))]
    assert same[0] == same[1]
    assert all(other != same[0] for other in others)


# --- leakage ---------------------------------------------------------------------------------------------------------


def test_rows_and_labels_of_the_test_set_influence_nothing_but_the_scores():
    X, y = made()
    split = protocol.split_rows(y, "madelon", 0, 0)
    X2, y2 = X.copy(), y.copy()
    X2[split.test] = 1e3 * np.random.default_rng(1).normal(size=X[split.test].shape)
    # The labels of the test rows change places, so that the split stays the same.
    y2[split.test] = y[split.test][::-1]
    tuning = [Fitting(*d, split.train, split.valid) for d in ((X, y), (X2, y2))]
    final = [Fitting(*d, np.union1d(split.train, split.valid), split.test) for d in ((X, y), (X2, y2))]
    for before, after in (tuning, final):
        assert before.select() == after.select()
        assert before.limited({1, 3}, 12) == after.limited({1, 3}, 12)
    for selected in ((2,), (2, 5, 7)):
        model, model2 = (part.best_model(selected, 8) for part in tuning)
        assert model.deviance == model2.deviance
        assert model.lambdas.tolist() == model2.lambdas.tolist()


def test_the_validation_set_does_not_influence_the_first_selection():
    X, y = made()
    split = protocol.split_rows(y, "madelon", 0, 0)
    X2 = X.copy()
    X2[split.valid] = 0
    first, second = (Fitting(table, y, split.train, split.valid).select() for table in (X, X2))
    assert first == second


def test_missing_values_become_means_of_the_rows_that_are_fitted():
    X = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan], [100.0, 7.0]])
    part = Fitting(X, np.array([0, 1, 0, 1]), np.array([0, 1, 2]), np.array([3]))
    assert part.X.tolist() == [[1, 0], [3, 0], [2, 0]]
    assert part.X_new.tolist() == [[100, 7]]
    other_way = Fitting(X, np.array([0, 1, 0, 1]), np.array([0, 1, 3]), np.array([2]))
    assert other_way.X_new[0] == pytest.approx([104 / 3, 7])


def test_shuffled_labels_give_an_auc_of_one_half():
    X, _ = made(n=150, p=10)
    aucs = []
    for repetition in range(12):
        y = np.random.default_rng(100 + repetition).permutation(np.repeat([0, 1], 75))
        rows = protocol.repeat_once(X, y, "madelon", repetition, effort=TINY).rows
        aucs.append([row["auc"] for row in rows])
    # The standard error of a test set of 30 rows is .1; of 12 of them .03.
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.09)


def test_real_labels_do_not():
    X, y = made(n=150, p=10)
    rows = [row for r in range(3) for row in protocol.repeat_once(X, y, "madelon", r, effort=TINY).rows]
    assert np.mean([row["auc"] for row in rows]) > 0.75


# --- models ----------------------------------------------------------------------------------------------------------


def test_measures_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 2, 50), rng.normal(size=50).round(1)
    probabilities = 1 / (1 + np.exp(-scores))
    assert protocol.auc(y, scores) == pytest.approx(roc_auc_score(y, scores))
    assert protocol.accuracy(y, scores) == accuracy_score(y, probabilities > 0.5)
    assert protocol.deviance(y, scores[:, None])[0] == pytest.approx(2 * log_loss(y, probabilities, normalize=False))


def test_logistic_regression_agrees_with_scikit_learn():
    X, y = made()
    X = X * np.logspace(-2, 3, X.shape[1]) + 5
    ours = protocol.fit_logistic(X, y)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(scaled, y)
    assert ours[0] + X @ ours[1:] == pytest.approx(theirs.decision_function(scaled), abs=1e-4)


def test_logistic_regression_of_separated_classes_ends_with_finite_scores():
    x = np.linspace(-1, 1, 20)[:, None]
    coefficients = protocol.fit_logistic(x, (x[:, 0] > 0).astype(int))
    assert np.isfinite(coefficients).all()
    assert coefficients[1] > 10


def test_nothing_selected_is_a_model_too():
    X, y = made()
    split = protocol.split_rows(y, "madelon", 0, 0)
    part = Fitting(X, y, split.train, split.valid)
    model = part.best_model((), 8)
    scores, size = part.scores((), model.lambdas)
    assert size == 0
    assert len(set(scores.tolist())) == 1
    assert protocol.auc(part.y_new, scores) == 0.5


def test_the_limited_lasso_takes_the_first_model_that_is_large_enough():
    coefficients = np.array([[0, 1, 1, 1.0], [0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 1]])
    path = lasso.Path(np.arange(4.0), np.zeros(4), np.array([9, 4, 6, 1]), coefficients)
    assert [path.first_with(size) for size in (1, 2, 3, 4)] == [(9,), (4, 6, 9), (4, 6, 9), (1, 4, 9)]


@pytest.mark.skipif(not HAS_GLMNET, reason="python-glmnet is not installed")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(80, 6), (40, 60)])
def test_glmnet_and_its_twin_agree(shape, sparse):
    X, y = made(*shape, seed=3)
    X[np.abs(X) < 0.4] = 0
    path = lasso.fit_path(sp.csc_matrix(X) if sparse else X, y, 20)
    twin = twin_path(X, y, len(path.lambdas), path.lambdas)
    few = slice(0, 11)  # towards the end scores are large, and both stop short of the optimum
    assert path.lambdas[0] == pytest.approx(twin_path(X, y, 2).lambdas[0], rel=1e-6)
    assert path.scores(X)[:, few] == pytest.approx(twin.scores(X)[:, few], abs=2e-2)
    again = lasso.fit_path(X, y, 20, lambdas=path.lambdas[:10])
    assert again.scores(X)[:, -1] == pytest.approx(path.scores(X)[:, 9], abs=1e-3)


@pytest.mark.skipif(not HAS_GLMNET, reason="python-glmnet is not installed")
def test_a_glmnet_path_can_end_early_and_can_hold_more_variables_than_expected():
    X, y = made(60, 400, seed=1)
    whole = lasso.fit_path(X, y, 100)
    short = lasso.fit_path(X, y, 100, enough_variables=5)
    assert short.sizes[-1] >= 5 > short.sizes[-2]
    assert short.lambdas == pytest.approx(whole.lambdas[: len(short.lambdas)])
    crowded = lasso._call(X, y, 100, None, None, room=3)
    assert crowded is None


@pytest.mark.parametrize("error, models", [(0, 3), (-3, 2)])
def test_a_path_ends_where_glmnet_does_not_converge(error, models):
    lambdas = np.array([9.9e35, 2.0, 1.0])
    found = (models, np.zeros((1, 3)), np.ones((4, 1, 3)), np.array([7, 1, 0, 0]), np.array([0, 1, 2]), None, None)
    path = lasso._read((*found, lambdas, None, error), given=True)
    assert len(path.lambdas) == models
    assert path.variables.tolist() == [6, 0][: models - 1]


def test_a_refusal_of_glmnet_is_an_error():
    with pytest.raises(lasso.GlmnetFailure, match="code 7777"):
        lasso._read((0, *[np.zeros((1, 1))] * 4, None, None, np.zeros(1), None, 7777), given=True)


# --- choice and comparison -------------------------------------------------------------------------------------------


def rows_of(deviances, **columns):
    parts = [("FBS", "IT", value) for value in (0.001, 0.01, 0.05, 0.1)]
    rows = [
        {"dataset": "arcene", "repetition": 0, "algorithm": a, "criterion": c, "value": v, "valid_deviance": d}
        for (a, c, v), d in zip(parts, deviances, strict=True)
    ]
    return pd.DataFrame(rows).assign(**columns)


@pytest.mark.parametrize("deviances, chosen", [([3, 1, 2, 4], 0.01), ([2, 1, 1, 1], 0.01), ([1, 1, 2, 2], 0.001)])
def test_the_validation_deviance_chooses_and_ties_go_to_the_stricter_value(deviances, chosen):
    assert analysis.tuned(rows_of(deviances))["value"].tolist() == [chosen]


def test_difference_from_the_paper_in_units_of_its_sampling_error():
    ours = pd.DataFrame(
        [{"metric": "auc", "dataset": "arcene", "algorithm": "FBS", "criterion": "IT", "mean": 80.6, "std": 10.0}]
    ).assign(count=50)
    row = analysis.beside_paper(ours, "tuned").iloc[0]
    assert row["paper"] == 77.6
    assert row["t"] == pytest.approx(3 / np.sqrt(100 * 2 / 50 + 0.01 / 12))
    assert not row["far"]


def test_resampled_auc_is_that_of_the_resampled_rows():
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, 30), rng.normal(size=(2, 30)).round(1)
    drawn = rng.integers(0, 30, (5, 30))
    counts = np.array([np.bincount(row, minlength=30) for row in drawn], dtype=np.float32)
    expected = [[roc_auc_score(labels[row], one[row]) for one in scores] for row in drawn]
    assert analysis.auc_resampled(labels, scores, counts) == pytest.approx(np.array(expected), abs=1e-6)


def test_the_bootstrap_finds_the_best_and_the_worst():
    rng = np.random.default_rng(0)
    cells = [_cell(rng, repetition) for repetition in range(4)]
    found = analysis.bootstrap(cells, n_samples=500).set_index(["metric", "algorithm"])
    assert found.loc[("auc", "FBED^0"), "p_best"] > 0.99
    assert found.loc[("auc", "FBED^1"), "p_worst"] > 0.99
    assert found.loc[("accuracy", "FBED^0"), "p_best"] > 0.99
    assert found.loc[("variables", "FBS"), "p_best"] == 1  # fewest in every repetition
    assert found.loc[("variables", "FBED^0"), "p_worst"] == 1


def _cell(rng, repetition):
    """FBED^0 is always right, FBED^1 mostly wrong, FBS guesses."""
    labels = np.repeat([0, 1], 40)
    direction = 2 * labels - 1
    scores = np.array([direction, -direction + rng.normal(size=80), rng.normal(size=80)])
    sizes = {"FBED^0": 9, "FBED^1": 5, "FBS": 2}
    rows = [
        {
            "dataset": "arcene",
            "repetition": repetition,
            "algorithm": name,
            "criterion": "IT",
            "value": 0.1,
            "valid_deviance": 1,
            "n_selected": size,
            "selected": [],
        }
        for name, size in sizes.items()
    ]
    return Cell(rows, labels, scores)


def test_average_ranks_of_the_printed_numbers_are_the_printed_scores():
    """Those of numbers of variables; AUC and accuracy are ranked before they are rounded."""
    printed = pd.read_csv(paper.__file__.replace("paper.py", "paper_numbers.csv"), keep_default_na=False)
    printed = printed.query("table == 'tuned' and metric == 'variables'")
    ours = paper.ranking(paper.DATASETS).query("metric == 'variables'")
    assert ours["score"].round(2).tolist() == pytest.approx(printed["score"].astype(float).tolist(), abs=0.011)
    assert ours["rank"].tolist() == printed["rank"].astype(int).tolist()


def test_the_printed_tables_are_complete():
    counts = paper.numbers().groupby(["table", "metric"]).size().to_dict()
    assert counts == {
        **{("tuned", metric): 9 * 12 for metric in paper.METRICS},
        **{("detail", metric): 32 * 12 for metric in paper.METRICS},
        ("detail", "seconds"): 34 * 12,
    }
    assert (paper.numbers()["mark"] == "best").sum() == 7 + 6 + 9


# --- everything, once ------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Two small datasets under the paper's names, and arguments for the command line."""
    for name, seed in (("madelon", 0), ("arcene", 1)):
        X, y = made(seed=seed)
        np.savez(tmp_path / f"{name}.npz", X=X, y=y)
        monkeypatch.setitem(data.PAPER, name, data.Facts(120, 12, 0.5, "Real", "Made", "Here"))
    monkeypatch.setattr(protocol, "FULL", TINY)
    monkeypatch.setattr(analysis, "B", 300)
    monkeypatch.setattr(timing, "N_LAMBDAS", (4, 8))
    out = tmp_path / "out"
    common = ["--data", str(tmp_path), "--cells", str(tmp_path / "cells"), "--output", str(out), "--repetitions", "2"]
    return out, common


def test_one_command_makes_every_table_and_figure(tiny, monkeypatch, capsys):
    out, common = tiny
    monkeypatch.setattr(command.report.null_table, "WIDTHS", (5,))
    monkeypatch.setattr(
        command.report.null_table, "PAPER", {a: {(5, x): 1.0 for x in (0.01, 0.05, 0.1)} for a in _NULL}
    )
    assert command.main([*common]) == 0
    text = (out / "tables.md").read_text()
    for title in ("Datasets", "Variables selected by chance", "AUC after tuning", "Accuracy by hyper-parameter"):
        assert f"### {title}" in text
    assert "### Running time" in text
    assert "| madelon | 2 | 50 |" in text
    assert "<table>" in (out / "tables.html").read_text()
    for name in ("performance_and_variables", "tests", "limited", "plain"):
        assert (out / f"{name}.png").stat().st_size > 5000
        assert (out / f"{name}.svg").read_text().startswith("<?xml")
    cells = pd.read_csv(out / "cells.csv")
    assert len(cells) == 2 * 2 * 33
    assert cells["auc"].between(0, 1).all()
    assert len(pd.read_csv(out / "times.csv")) == 2 * 35
    assert "absent" in capsys.readouterr().err


_NULL = ("FBED^0", "FBED^1", "FBED^∞", "FBS")


def test_a_run_that_was_stopped_goes_on_where_it_was(tiny, monkeypatch, capsys):
    _, common = tiny
    done = []
    original = store.compute

    def stop_at_third(task, *places):
        if len(done) == 2:
            raise KeyboardInterrupt
        original(task, *places)
        done.append(task)

    monkeypatch.setattr(store, "compute", stop_at_third)
    assert command.main(["run", *common]) == 130
    monkeypatch.setattr(store, "compute", lambda task, *places: (original(task, *places), done.append(task)))
    assert command.main(["run", *common]) == 0
    assert len(done) == len(set(done)) == 4
    assert "2 of 4 cells were there already" in capsys.readouterr().err


@pytest.mark.skipif(
    not HAS_GLMNET and multiprocessing.get_start_method() != "fork", reason="the twin would not reach the processes"
)
def test_the_number_of_processes_changes_no_number(tiny, tmp_path):
    _, common = tiny
    cells = [tmp_path / "one", tmp_path / "two"]
    for folder, jobs in zip(cells, ("1", "2"), strict=True):
        assert command.main(["run", "arcene", *common, "--cells", str(folder), "--jobs", jobs]) == 0
    for repetition in range(2):
        task = store.Task("arcene", repetition, 0, TINY)
        first, second = (store.Store(folder).read(task) for folder in cells)
        assert first.rows == second.rows
        assert np.array_equal(first.scores, second.scores)


def test_unfinished_runs_are_balanced_over_datasets():
    tasks = store.plan(["arcene", "hiva"], {"arcene": 50, "hiva": 10}.get, 0, TINY)
    assert len(tasks) == 60
    names = [task.dataset for task in tasks[:24]]
    assert (names.count("arcene"), names.count("hiva")) == (20, 4) or names[10:12] == ["hiva", "hiva"]


def test_every_timed_selection_is_one_of_the_paper():
    keys = [key for key, _ in timing.jobs()]
    printed = paper.numbers().query("metric == 'seconds'")[analysis.CONFIGURATION].drop_duplicates()
    assert {tuple(row) for row in printed.to_numpy()} == set(keys) - {(timing.WHOLE_GRID, "", "")}


def test_time_left_is_said_as_people_say_it():
    assert [store.duration(s) for s in (7, 61, 600, 7500)] == ["7 s", "1 min", "10 min", "2 h 05 min"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["run", "iris"], "no dataset 'iris'"),
        (["fetch"], "say which dataset"),
        (["data", "--data", "/nowhere/at/all"], "no folder"),
    ],
)
def test_wrong_arguments_are_explained(arguments, words, tmp_path, capsys):
    given = arguments if "--data" in arguments else [*arguments, "--data", str(tmp_path)]
    assert command.main(given) == 2
    assert words in capsys.readouterr().err


def test_the_tables_of_a_document_are_brought_up_to_date(tmp_path):
    file = tmp_path / "a.md"
    file.write_text("Text\n<!-- table: One -->\nold\n<!-- end -->\nmore\n<!-- table: Two -->\nkept\n<!-- end -->\n")
    tables.insert([tables.Table("One", "", ["a", "b"], [["1", "**2**"]])], file)
    assert file.read_text() == (
        "Text\n<!-- table: One -->\n| a | b |\n| --- | --- |\n| 1 | **2** |\n<!-- end -->\nmore\n"
        "<!-- table: Two -->\nkept\n<!-- end -->\n"
    )


def test_simulations_need_no_data(tmp_path, monkeypatch):
    monkeypatch.delenv("FBED_DATA_DIR", raising=False)
    assert command.main(["null", "--quick", "--repetitions", "2", "--output", str(tmp_path)]) == 0
    assert len(pd.read_csv(tmp_path / "null.csv")) >= 12


def test_the_simulation_of_honesty_goes_on_where_it_was(tmp_path, monkeypatch):
    from experiments import tuning

    monkeypatch.setattr(tuning, "CASES", (tuning.Case("toy", "gaussian", 40, 3, (1.0,)),))
    monkeypatch.setattr(tuning, "N_TEST", 500)
    text = tuning.run(tmp_path / "tuning.csv", 2)
    assert "| toy (40 × 3) | 2 |" in text
    monkeypatch.setattr(tuning, "one", None)  # nothing is simulated again
    assert tuning.run(tmp_path / "tuning.csv", 2) == text
    honest, low, high, naive, nested, truth = tuning._kept(tmp_path / "tuning.csv")["toy", 0]
    assert low <= honest <= high
    assert honest <= naive + 1e-6
    assert 0 < truth < 1
    assert nested < 1


@pytest.mark.parametrize("case", levels.CASES)
def test_levels_are_counted_for_every_case(case):
    passed = levels.count(levels.Task(case, 50, 0, 1))
    assert set(passed) == {(test, kind) for test in levels.CASES[case].tests for kind in levels.CASES[case].kinds}
    assert all(0 <= number <= levels.COPIES[kind] for (_, kind), number in passed.items())
