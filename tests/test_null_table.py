"""A small version of `experiments/null_table.py`: the paper's multiple-testing table within sampling error."""

from __future__ import annotations

import math

import pytest
from experiments import null_table

REPETITIONS = 40


@pytest.fixture(scope="module")
def cells():
    return null_table.simulate(100, REPETITIONS, seed=0, levels=(0.01, 0.05))


def test_means_are_those_of_the_paper(cells):
    # Both means are estimates, theirs from 100 repetitions, ours from fewer: 3 standard errors of the difference.
    widening = math.sqrt(1 + null_table.PAPER_REPETITIONS / REPETITIONS)
    assert len(cells) == 8
    for cell in cells:
        assert abs(cell.distance) < 3 * widening, cell


def test_more_runs_select_more_and_fbs_about_as_many_as_all_runs(cells):
    mean = {(cell.algorithm, cell.alpha): cell.mean for cell in cells}
    assert mean["FBED^0", 0.05] < mean["FBED^1", 0.05] < mean["FBED^∞", 0.05]
    assert mean["FBED^∞", 0.05] == pytest.approx(mean["FBS", 0.05], rel=0.15)


def test_early_dropping_keeps_false_selections_below_the_nominal_rate(cells):
    mean = {(cell.algorithm, cell.alpha): cell.mean for cell in cells}
    assert mean["FBED^0", 0.05] < 0.05 * 100


def test_report_shows_every_cell_beside_the_paper(cells):
    lines = null_table.report(cells).splitlines()
    assert len(lines) == 1 + len(cells) + 1
    assert lines[1].split()[:4] == ["100", "0.01", "FBED^0", "0.92"]
    assert "of 8 means within 3 standard errors of the paper's" in lines[-1]


def test_paper_numbers_agree_with_those_it_rounds():
    rounded = {
        "FBED^0": (0.9, 3.3, 6.3, 1.8, 5.6, 9.3),
        "FBED^1": (1.1, 4.6, 9.3, 2.5, 8.7, 15.9),
        "FBED^∞": (1.2, 5.9, 14.4, 2.9, 22.3, 39.3),
        "FBS": (1.2, 5.8, 14.2, 2.8, 20.8, 38.1),
    }
    for algorithm, numbers in rounded.items():
        exact = [null_table.PAPER[algorithm][p, alpha] for p in (100, 200) for alpha in (0.01, 0.05, 0.1)]
        assert exact == pytest.approx(numbers, abs=0.051)
