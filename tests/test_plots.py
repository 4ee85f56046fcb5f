"""Plots: what they show is what the result holds."""

from __future__ import annotations

import sys
from functools import cache

import pytest

import fbed
from fbed.result import views
from fbed.show.report import render
from report_cases import CASES, case, table

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("kind", ["steps", "funnel", "effects", "ties"])
@pytest.mark.parametrize("name", CASES)
def test_every_result_can_be_plotted(name, kind, tmp_path):
    ax = getattr(case(name).plot, kind)()
    assert isinstance(ax, plt.Axes)
    assert ax.get_title()
    ax.figure.savefig(tmp_path / "plot.png")


@pytest.mark.parametrize("kind", ["steps", "funnel", "effects", "ties"])
def test_drawn_where_it_is_told(kind):
    _, axes = plt.subplots(1, 2)
    assert getattr(case("linear").plot, kind)(ax=axes[1]) is axes[1]
    assert not axes[0].has_data()


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def test_steps_are_those_of_the_trace():
    result = case("removals")
    ax = result.plot.steps()
    changes = views.changes(result)
    assert [label.removeprefix("− ") for label in labels(ax.xaxis)] == [str(step.row.variable) for step in changes]
    track = ax.lines[0].get_ydata()
    assert list(track) == [0.0, *(step.fall for step in changes)]
    zones = {text.get_text() for text in ax.texts}
    assert zones == {step.zone for step in changes}


def test_funnel_has_a_pair_of_bars_for_each_scan():
    result = case("linear")
    ax = result.plot.funnel()
    scans = [row for row in result.trace if row.phase == "forward"]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths[: len(scans)] == [row.tested for row in scans]
    assert widths[len(scans) :] == [row.tested - row.n_dropped - (row.action == "add") for row in scans]


def test_effects_are_the_coefficients():
    result = case("linear")
    ax = result.plot.effects()
    points = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert points == [effect.scaled[0] for effect in views.effects(result)]
    assert case("logistic").plot.effects().get_xscale() == "log"


def test_ties_are_marked():
    result = case("linear")
    ax = result.plot.ties()
    marked = next(line for line in ax.lines if line.get_label() == "near tie")
    assert len(marked.get_xdata()) == sum(tie.near for tie in views.ties(result)) > 0


@cache
def grid():
    return fbed.path(*table(), alphas=(0.001, 0.1), gammas=(None, 1.0), ks=(0, 1))


def test_path_plots_show_the_grid():
    sizes = grid().plot.sizes()
    assert [line.get_label() for line in sizes.lines] == ["FBED^0", "FBED^1", "FBS"]
    assert labels(sizes.xaxis) == ["0.001", "0.1"]
    assert list(sizes.lines[1].get_ydata()) == [len(grid().get(k=1, alpha=alpha).selected) for alpha in (0.001, 0.1)]
    tests = grid().plot.tests("ebic")
    assert labels(tests.xaxis) == ["default", "1"]
    assert list(tests.lines[2].get_ydata()) == [grid().get(k=None, gamma=g).n_tests.total for g in (None, 1.0)]


def test_path_plot_of_the_variables():
    ax = grid().plot.variables(k=1)
    shown = {(labels(ax.yaxis)[int(y)], int(x)) for x, y in zip(*ax.lines[0].get_data(), strict=True)}
    results = [grid().get(k=1, alpha=alpha) for alpha in (0.001, 0.1)]
    assert shown == {(name, i) for i, result in enumerate(results) for name in result.selected}
    for call, message in (
        (lambda: grid().plot.variables(k=7), "the path has no results of criterion 'lr' with k=7"),
        (lambda: grid().plot.sizes("bic"), "the path has no criterion 'bic': it holds 'lr', 'ebic'"),
    ):
        with pytest.raises(fbed.InvalidInput, match=message):
            call()


def test_results_of_a_path_have_reports_and_explanations():
    result = grid().get(k=1, alpha=0.1)
    alone = fbed.select(*table(), alpha=0.1)
    assert str(result.explain("twin", *table())) == str(alone.explain("twin", *table()))
    namespace = dict(zip("Xy", table(), strict=True))
    exec(result.origin.python(), namespace)
    assert namespace["result"].selected == result.selected
    assert render(result)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        case("linear").plot.steps()
