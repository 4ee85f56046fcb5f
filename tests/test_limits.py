"""Time limits and Ctrl-C: they hold in every family and every phase, and lose nothing that was found."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.limits import CASES, LARGE_LEVELS, search

import fbed
from fbed._kernels import ask_every
from fbed.api import problem as problem_module
from fbed.cli.command import main
from fbed.clock import Clock, OutOfTime, check_time, seconds_left
from fbed.errors import InvalidInput, SlowSearch
from fbed.models import long_products
from fbed.models.engines.linear_products import GaussianByProducts
from fbed.result import exact_numbers
from fbed.threads import spread

LATE = 1.0  # seconds that a search may go on, as the documentation promises; a busy machine gets twice that


def classes(n: int, p: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, p)), np.array([f"c{i}" for i in np.arange(n) % k])


# -- the clock -------------------------------------------------------------------------------------------------------


def test_the_clock_runs_out_in_its_own_context_only():
    check_time()  # nothing is going on
    assert seconds_left() == np.inf
    with Clock(0.0).running():
        time.sleep(0.001)
        with pytest.raises(OutOfTime):
            check_time()
        with Clock(None).running():
            check_time()
        assert seconds_left() == 0.0
    check_time()


def test_the_clock_counts_from_when_it_was_started():
    with Clock(1.0, time.monotonic() - 2.0).running(), pytest.raises(OutOfTime):
        check_time()


def test_threads_see_the_clock_of_who_called_them():
    def work(item: int) -> int:
        time.sleep(0.2)
        check_time()
        return item

    with Clock(0.1).running(), pytest.raises(OutOfTime):
        list(spread(work, range(4), 2))
    assert list(spread(work, range(4), 2)) == [0, 1, 2, 3]


def test_threads_end_when_nobody_waits_for_them():
    begun, ended = threading.Event(), threading.Event()

    def work(item: int) -> int:
        if item:
            begun.set()
        try:
            while item:
                time.sleep(0.01)
                check_time()
        except OutOfTime:
            ended.set()
        return item

    for answer in spread(work, [0, 1], 2):
        assert answer == 0
        assert begun.wait(10)
        break
    assert ended.wait(10)


def test_long_products_are_those_of_whole_matrices(monkeypatch):
    rng = np.random.default_rng(0)
    left, right, weight = rng.normal(size=(1000, 3)), rng.normal(size=(1000, 4)), rng.random(1000)
    for rows in (left, np.asfortranarray(left)):
        inner, moved = long_products.weighted_inner(rows, weight, right), long_products.times(rows, np.eye(3)[:, :2])
        monkeypatch.setattr(long_products, "_AT_A_STRETCH", 1)
        np.testing.assert_allclose(long_products.weighted_inner(rows, weight, right), inner, rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(long_products.times(rows, np.eye(3)[:, :2]), moved, rtol=1e-12)
        with Clock(-1.0).running(), pytest.raises(OutOfTime):
            long_products.times(rows, np.eye(3))
        monkeypatch.undo()


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("interrupted", [False, True], ids=["limit", "Ctrl-C"])
def test_limits_hold_in_every_family(name, interrupted):
    """A fifth of the rows of the searches of `python -m tests.limits`, which are run as they are by that command."""
    over, status, _ = search(name, 0.2, 0.3, interrupted)
    assert status in ("time_limit", "interrupted", "converged", "KeyboardInterrupt")
    assert over < 2 * LATE


@pytest.fixture
def looks(monkeypatch):
    """Counts looks at the clock, at every one that there is, and lets a time limit end at a given one."""

    class Looks:
        left = np.inf
        seen = 0

    def check(clock):
        if clock.deadline is None:
            return
        Looks.seen += 1
        if Looks.seen > Looks.left:
            raise OutOfTime

    monkeypatch.setattr(Clock, "check", check)
    ask_every(0)
    yield Looks
    ask_every(100)


@pytest.mark.parametrize(
    "name", sorted(CASES.keys() - LARGE_LEVELS.keys() - {"multinomial, 150 classes", "multinomial, 500 classes"})
)
def test_a_search_can_end_at_any_look_at_the_clock(name, looks):
    """An exception in the middle of any loop of the kernels leaves it in order."""
    asked = CASES[name](np.random.default_rng(0), 0.05)
    X, y = asked.pop("X"), asked.pop("y")
    X = X.iloc[:, :3] if isinstance(X, pd.DataFrame) else X[:, :3]
    fbed.select(X, y, time_limit=1000, **asked)
    for last in [*range(min(looks.seen, 40)), *np.geomspace(40, max(looks.seen, 41), 10)]:
        looks.left, looks.seen = last, 0
        assert fbed.select(X, y, time_limit=1000, **asked).status in ("time_limit", "converged")


def test_limits_hold_with_threads():
    over, status, _ = search("multinomial, 26 classes", 1.0, 0.5, False, n_jobs=2)
    assert status == "time_limit"
    assert over < 2 * LATE


def test_the_model_is_told_where_no_time_is_left_for_how_its_variables_go_together(monkeypatch, tmp_path):
    def late(*_):
        raise OutOfTime

    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    monkeypatch.setattr(problem_module, "associated", late)
    result = fbed.select(X, X[:, 2] + rng.normal(size=100))
    assert result.model.terms == ("(intercept)", "2")
    assert "no time left to tell how the selected variables go together" in result.notes[-1]
    assert_presentable(result, tmp_path)


def test_what_was_found_before_the_limit_is_returned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 60))
    odds = np.column_stack([np.zeros(4000), *(2.0 * X[:, :6].T)])
    y = (odds + rng.gumbel(size=odds.shape)).argmax(axis=1).astype(str)
    whole = fbed.select(X, y, k=0)
    assert whole.status == "converged"
    limit = whole.seconds
    for _ in range(5):  # other work on the machine may have ended in between
        limit /= 2
        part = fbed.select(X, y, k=0, time_limit=limit)
        if part.status == "time_limit":
            break
    assert part.status == "time_limit"
    assert part.selected == whole.selected[: len(part.selected)]
    assert part.seconds < limit + 2 * LATE


@pytest.mark.parametrize("limit", ["x", "3", True, -1, float("nan"), [3], 1j])
def test_a_limit_that_is_no_number_is_told_plainly(limit):
    X, y = classes(30, 2, 3)
    with pytest.raises(InvalidInput, match="time_limit must be a number of seconds"):
        fbed.select(X, y, time_limit=limit)
    with pytest.raises(InvalidInput, match="time_limit must be a number of seconds"):
        fbed.path(X, y, time_limit=limit)


def test_a_limit_of_nothing_still_tells_about_the_null_model():
    X, y = classes(60, 2, 3)
    result = fbed.select(X, y, time_limit=0)
    assert result.status == "time_limit"
    assert result.selected == ()
    assert result.model is not None


def test_a_model_that_cannot_be_described_in_time_is_left_out(monkeypatch, capsys, tmp_path):
    X, y = classes(600, 4, 3)
    y = np.where(X[:, 0] > 0.5, "c9", y)

    def slow(self, selected, near=None):
        while True:
            time.sleep(0.01)
            check_time()

    monkeypatch.setattr("fbed.models.engines.coded_regression.CodedRegression.describe", slow)
    result = fbed.select(X, y, time_limit=0.5)
    assert result.status == "converged"
    assert result.model is None
    assert 0 in result.selected
    assert any("no time left" in note for note in result.notes)
    assert_presentable(result, tmp_path)


def assert_presentable(result: fbed.Result, folder) -> None:
    """A result without a model is saved, read, shown and explained like any other."""
    again = fbed.Result.from_json(result.to_json())
    assert again.selected == result.selected
    assert str(result).startswith(str(result.settings["algorithm"]))
    assert "a graph" not in str(result)
    assert again.report(folder / "report.html").exists()
    assert str(result.explain(0))


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "place, keeps_model",
    [("describe", False), ("overview", True), ("associated", True), ("build", True)],
)
def test_an_interrupt_while_the_result_is_described_does_not_lose_it(monkeypatch, tmp_path, place, keeps_model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    y = X[:, 2] + rng.normal(size=100)
    whole = fbed.select(X, y)
    if place == "describe":
        monkeypatch.setattr(GaussianByProducts, "describe", interrupt)
    elif place in ("overview", "associated"):
        monkeypatch.setattr(problem_module, place, interrupt)
    else:
        build, calls = problem_module.build, []

        def once(*args, **kwargs):
            calls.append(1)
            return interrupt() if len(calls) == 1 else build(*args, **kwargs)

        monkeypatch.setattr(problem_module, "build", once)
    result = fbed.select(X, y)
    assert result.status == "interrupted"
    assert result.selected == whole.selected
    assert result.n_tests == whole.n_tests
    assert (result.model is not None) == keeps_model
    assert_presentable(result, tmp_path)
    monkeypatch.undo()
    assert fbed.select(X, y).status == "converged"


def test_an_interrupt_of_the_command_line_prints_what_was_found(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    np.savez(tmp_path / "x.npz", X=X, y=X[:, 1] + rng.normal(size=100))
    monkeypatch.setattr(GaussianByProducts, "describe", interrupt)
    assert main(["select", str(tmp_path / "x.npz")]) == 130
    assert "interrupted" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_reaches_into_a_long_kernel():
    """A single fit of a large model, which releases the interpreter's lock, ends within a tenth of a second or so."""
    from fbed._kernels import fit_logistic

    rng = np.random.default_rng(0)
    Z = np.asfortranarray(rng.normal(size=(200_000, 60)))
    y = (rng.random(200_000) < 0.5).astype(float)

    def fit_again_and_again() -> None:
        for _ in range(10_000):
            fit_logistic(Z, np.ones(len(y)), y, np.zeros((1, 60)), 0.0, np.inf)

    alarm = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        fit_again_and_again()
    alarm.join()
    started = time.perf_counter()
    with Clock(0.2).running(), pytest.raises(OutOfTime):
        fit_again_and_again()
    assert time.perf_counter() - started < LATE


# -- hopeless searches -----------------------------------------------------------------------------------------------


def test_a_hopeless_number_of_classes_is_told_before_the_work_begins(capsys, tmp_path):
    X, y = classes(3000, 200, 300)
    with pytest.warns(SlowSearch, match="300 classes") as told:
        result = fbed.select(X, y, time_limit=0.2)
    assert len(told) == 1
    assert any("300 classes" in note for note in result.notes) or result.model is None
    np.savez(tmp_path / "x.npz", X=X, y=y)
    assert main(["select", str(tmp_path / "x.npz"), "--time-limit", "0.2"]) == 0
    said = capsys.readouterr().err
    assert said.count("fbed: warning: y has 300 classes") == 1
    assert all(line.startswith(("fbed: warning: ", "fbed: note: ")) for line in said.splitlines())  # notes follow
    assert "set --time-limit" in said


def test_a_usual_number_of_classes_is_not():
    X, y = classes(600, 5, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fbed.select(X, y)


def test_an_interrupt_while_statistics_are_made_exact_loses_nothing(monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 30))).add_prefix("x")
    table["y"] = np.where(table["x3"] + rng.logistic(size=200) > 0, "yes", "no")
    table.to_csv(tmp_path / "data.csv", index=False)
    monkeypatch.setattr(exact_numbers._Work, "done", interrupt)
    assert main(["select", str(tmp_path / "data.csv"), "--target", "y"]) == 130
    assert "x3" in capsys.readouterr().out
