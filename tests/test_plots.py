"""Plots: what they show is what the result holds."""

from __future__ import annotations

import sys
from functools import cache

import pytest

import fbed
from fbed.result import views
from fbed.show.report import render
from report_cases import CASES, case, hostile_table, table

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


def cut(figure):
    """What is written on a figure and not inside it; ticks beyond the ends of an axis are not drawn."""
    figure.draw_without_rendering()
    box, out = figure.bbox.padded(1.0), []
    for ax in figure.axes:
        beyond = set()
        for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim()))):
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            beyond |= {id(t.label1) for t in ticks if not low <= t.get_loc() <= high}
        for text in ax.findobj(plt.Text):
            extent = text.get_window_extent()
            inside = extent.x0 >= box.x0 and extent.x1 <= box.x1 and extent.y0 >= box.y0 and extent.y1 <= box.y1
            if text.get_visible() and text.get_text().strip() and id(text) not in beyond and not inside:
                out.append((text.get_text(), extent.extents.round().tolist(), figure.bbox.extents.tolist()))
    return out


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("kind", ["steps", "funnel", "effects", "ties"])
@pytest.mark.parametrize(
    "name", ["hostile", "separated", "removals", "cox", "multinomial", "nothing", "oracle", "groups"]
)
def test_nothing_is_cut_when_a_figure_is_saved(name, kind):
    assert cut(getattr(case(name).plot, kind)().figure) == []


@pytest.mark.filterwarnings("ignore:Glyph")
def test_nothing_is_cut_of_a_path():
    X, y = hostile_table()
    wide = X.rename(columns=lambda name: f"{name[:20]} and a long name that goes on")
    for grid in (fbed.path(*table(), alphas=(0.1,), gammas=(), ks=(0,)), fbed.path(wide, y, alphas=(0.01,), gammas=())):
        for ax in (grid.plot.sizes(), grid.plot.tests(), grid.plot.variables(k=0)):
            assert cut(ax.figure) == []


def test_text_beyond_a_figure_would_be_found():
    _, ax = plt.subplots()
    ax.set_xlabel("far too long " * 30)
    assert len(cut(ax.figure)) == 1


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
    exec(result.provenance.python(), namespace)
    assert namespace["result"].selected == result.selected
    assert render(result)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        case("linear").plot.steps()
