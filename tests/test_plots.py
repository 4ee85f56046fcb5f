"""Plots: what they show is what the result holds."""

from __future__ import annotations

import sys

import pytest

from fbed import views
from report_cases import CASES, case

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


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'fbed\[plot\]'"):
        case("linear").plot.steps()
