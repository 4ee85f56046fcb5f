"""Many searches: in processes, in threads or one after another; interrupted; without piling up in memory."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import statsmodels.api as sm
from scipy import stats

import fbed
from fbed.api.options import make_plan
from fbed.api.problem import Problem
from fbed.cli.command import main
from fbed.graphs import DAG
from fbed.inference.multisplit import _dispersion
from fbed.inference.resamples import halves, seeds, units_of
from fbed.inference.runner import run_all
from fbed.rules.criteria import EBIC, LikelihoodRatio
from problem_cases import read_problem

forks = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


def alone(source: str, timeout: float = 60) -> None:
    """Run lines in a process of their own: one that runs tests may have threads, and then nothing is forked."""
    lines = "import multiprocessing, os, signal, threading, time\nfrom fbed.inference.runner import run_all\n"
    done = subprocess.run([sys.executable, "-c", lines + textwrap.dedent(source)], capture_output=True, timeout=timeout)
    assert done.returncode == 0, done.stderr.decode()


@forks
def test_children_answer_in_the_order_of_the_items():
    alone("""
        local = list(range(100))  # seen by the children without being sent
        done = run_all(lambda k: (k, local[k] ** 2, os.getpid()), list(range(20)), 3)
        assert [answer[:2] for answer in done.answers] == [(k, k * k) for k in range(20)]
        assert done.status == "converged"
        assert os.getpid() not in {pid for _, _, pid in done.answers}
        assert multiprocessing.active_children() == []
    """)


def test_threads_where_other_threads_may_hold_a_lock():
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        done = run_all(lambda k: os.getpid(), list(range(6)), 2)
    finally:
        stop.set()
        other.join()
    assert done.answers == [os.getpid()] * 6


@pytest.mark.parametrize("n_workers", [1, 2])
def test_errors_of_a_search_are_errors_of_the_whole(n_workers):
    def work(k):
        if k == 3:
            raise ValueError("the third")
        return k

    with pytest.raises(ValueError, match="the third"):
        run_all(work, list(range(10)), n_workers)
    assert multiprocessing.active_children() == []


@forks
def test_ctrl_c_of_a_terminal_ends_all_processes_and_keeps_what_was_done():
    alone("""
        def work(k):
            if k >= 4:
                time.sleep(60)
            return k

        timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))

        def begin(where):
            if where.done == 4:  # the children are there by now
                timer.start()

        begun = time.monotonic()
        done = run_all(work, list(range(10)), 2, progress=begin)
        assert done.status == "interrupted", done.status
        assert done.answers == [0, 1, 2, 3], done.answers
        assert time.monotonic() - begun < 30
        assert multiprocessing.active_children() == []
    """)


def test_memory_does_not_grow_with_the_number_of_searches():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 5))
    alive = []

    def look(where):
        if where.done % 10 == 0:
            gc.collect()
            alive.append(sum(isinstance(each, Problem) for each in gc.get_objects()))

    fbed.inclusion(X, X[:, 0] + rng.normal(size=60), n_resamples=40, n_bootstrap=0, random_state=1, progress=look)
    assert alive[-1] <= alive[0]


# -- what siblings leave out changes no decision -----------------------------------------------------------------------


def mixed(n: int, seed: int) -> tuple[pd.DataFrame, dict[str, object]]:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 5))).add_prefix("x")
    table["c"] = rng.choice(list("abcd"), n)
    table["d"] = rng.choice(list("uvw"), n)
    eta = 0.6 * table["x0"] - 0.4 * table["x1"] + (table["c"] == "b") + 0.3 * (table["d"] == "u")
    return table, {
        "gaussian": eta + rng.normal(size=n),
        "binomial": (eta + rng.logistic(size=n) > 0).astype(int),
        "poisson": rng.poisson(np.exp(0.5 * eta)),
        "cox": (rng.exponential(np.exp(-eta)), rng.random(n) < 0.8),
    }


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "cox"])
@pytest.mark.parametrize("criterion", [LikelihoodRatio(0.1), EBIC(0.5)])
@pytest.mark.parametrize("early_dropping", [True, False])
def test_a_search_that_only_decides_decides_the_same(family, criterion, early_dropping):
    for seed in range(3):
        table, outcomes = mixed(150, seed)
        problem = read_problem(table, outcomes[family], [criterion], [], family=family)
        plan = make_plan(problem.table, [], [], 1, early_dropping, True, None)
        told, quick = problem.search(plan, criterion)[0], problem.search(plan, criterion, decides_only=True)[0]
        assert quick.selected == told.selected
        assert [step.action for step in quick.steps] == [step.action for step in told.steps]
        assert all(np.isnan(step.scan.chosen.log_p) for step in quick.steps if step.scan.chosen)


def test_bytes_stand_for_small_whole_numbers_only():
    rng = np.random.default_rng(2)
    y = rng.normal(size=80)
    rows = np.arange(0, 80, 2)
    for low, high, kind in [(0, 2, np.int8), (-128, 128, np.int8), (-129, 128, np.float64), (0, 129, np.float64)]:
        X = rng.integers(low, high, size=(80, 6)).astype(float)
        X[-1, :2] = low, high - 1
        problem = read_problem(X, y, [LikelihoodRatio()], [])
        sibling = problem.on_rows(rows)
        assert sibling.table.matrix.dtype == kind
        np.testing.assert_array_equal(sibling.table.matrix, X[rows])
    X[3, 2] = 0.5
    assert read_problem(X, y, [LikelihoodRatio()], []).on_rows(rows).table.matrix.dtype == np.float64
    sparse = scipy.sparse.csc_matrix(X)
    np.testing.assert_array_equal(
        read_problem(sparse, y, [LikelihoodRatio()], []).on_rows(rows).table.matrix.toarray(), X[rows]
    )


# -- counts that vary more than their model says -----------------------------------------------------------------------


def test_dispersion_and_p_values_of_counts_by_hand():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(160, 6))
    y = rng.poisson(np.exp(0.5 + 0.5 * X[:, 1]) * rng.gamma(1.0, 1.0, 160))
    found = fbed.multisplit(X, y, family="poisson", n_resamples=1, random_state=3)
    first, second = halves(units_of(160), seeds(3, 1)[1][0])
    chosen = fbed.select(X[first.rows], y[first.rows], family="poisson").selected
    Z, counts = sm.add_constant(X[second.rows][:, list(chosen)]), y[second.rows]
    whole = sm.GLM(counts, Z, family=sm.families.Poisson()).fit(tol=1e-13)
    rest = len(counts) - Z.shape[1]
    squared = (counts - whole.mu) ** 2
    dispersion = max(1.0, (squared / whole.mu).sum() / rest, squared.sum() / whole.mu.sum() * len(counts) / rest)
    assert dispersion > 1.5
    for place, variable in enumerate(chosen):
        less = sm.GLM(counts, np.delete(Z, place + 1, axis=1), family=sm.families.Poisson()).fit(tol=1e-13)
        p_value = stats.f.sf((less.deviance - whole.deviance) / dispersion, 1, rest)
        assert found.p_values[variable] == pytest.approx(min(1.0, p_value * len(chosen)), rel=1e-6)


def test_no_dispersion_where_there_are_no_counts():
    table, outcomes = mixed(100, 1)
    for family, outcome in outcomes.items():
        problem = read_problem(table, outcome, [LikelihoodRatio()], [], family=family)
        fit = problem.model.fit([0])
        found = _dispersion(problem, fit, 98.0)
        assert (found is not None) == (family == "poisson")
        assert found is None or found >= 1.0


def test_missed_variables_do_not_make_noise_significant():
    """Real effects that halves miss make counts vary more than Poisson's; noise was significant in half the data."""
    wrong = 0
    for seed in range(12):
        rng = np.random.default_rng([7, seed])
        X = rng.normal(size=(60, 60))
        y = rng.poisson(np.exp(0.5 + 0.4 * X[:, :50:10].sum(axis=1)))
        found = fbed.multisplit(X, y, family="poisson", n_resamples=10, random_state=seed)
        wrong += bool(set(found.selected) - set(range(0, 50, 10)))
    assert wrong <= 2


# -- bad input: defined answers ----------------------------------------------------------------------------------------


def test_clusters_of_one_are_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 5))
    y = X[:, 2] + rng.normal(size=90)
    rows = fbed.inclusion(X, y, n_resamples=10, n_bootstrap=0, random_state=1)
    units = fbed.inclusion(X, y, n_resamples=10, n_bootstrap=0, random_state=1, units=np.arange(90))
    np.testing.assert_array_equal(rows.frequencies, units.frequencies)
    with pytest.raises(fbed.InvalidInput, match="too few to be resampled"):
        fbed.inclusion(X, y, n_resamples=10, units=np.repeat(np.arange(5), 18))


@pytest.mark.parametrize("ask", [fbed.inclusion, fbed.stability, fbed.ipss, fbed.multisplit])
def test_what_cannot_be_halved(ask):
    X = np.random.default_rng(1).normal(size=(40, 4))
    with pytest.raises(fbed.InvalidInput, match="too few to be resampled"):
        ask(X[:5], X[:5, 0])
    one_event = np.arange(40) == 7
    with pytest.raises(fbed.InvalidInput, match="cannot be searched"):
        ask(X, (np.arange(1.0, 41.0), one_event), n_resamples=10, random_state=3)
    with pytest.raises(fbed.InvalidInput, match="single row"):
        ask(X, np.r_[np.zeros(39, dtype=int), 1], n_resamples=10, random_state=3)


def test_families_without_p_values_say_so():
    graph = DAG([("a", "b"), ("b", "c")])
    for ask in (fbed.inclusion, fbed.stability, fbed.ipss, fbed.multisplit, fbed.selection_test, fbed.equivalents):
        with pytest.raises(fbed.InvalidInput, match="no rows"):
            ask(graph, "b")


def test_summaries_fit_a_terminal_of_80_columns():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(120, 6))).add_prefix("x")
    table = table.rename(columns={"x0": "a very long name of a variable, too long for any table that people read"})
    y = table.iloc[:, 0] - table["x2"] + rng.normal(size=120)
    table["copy"] = 2 * table["x2"]
    few = {"n_resamples": 10, "random_state": 1}
    for found in (
        fbed.inclusion(table, y, **few),
        fbed.stability(table, y, **few),
        fbed.ipss(table, y, n_levels=4, **few),
        fbed.multisplit(table, y, **few),
        fbed.selection_test(table, y, **few),
        fbed.equivalents(table, y),
    ):
        assert max(map(len, found.summary().splitlines())) <= 80
        assert "None" not in found.summary()


@pytest.mark.parametrize("command", ["inclusion", "stability", "ipss", "multisplit", "selection-test", "equivalents"])
def test_help_fits_a_terminal_of_80_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert f"fbed {command} data.csv --target y" in told
