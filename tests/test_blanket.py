"""Recovery of blankets: the comparison, the picture and the command."""

import gzip
import itertools
import json
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

from fbed.cli import blanket
from fbed.cli import command as cli
from fbed.graphs import BLANKET_ROLES, DAG, MAG, GaussianNetwork, GraphError, Recovery, draw_blanket, random_dag

mpl.use("Agg")
import matplotlib.pyplot as plt

# a → t → c ← s, and d below c: the blanket of t is a, c and s
TREE = DAG([("a", "t"), ("t", "c"), ("s", "c"), ("c", "d")])

BIF = """\
network small { }
variable a { type discrete [ 2 ] { yes, no }; }
variable t { type discrete [ 2 ] { yes, no }; }
variable s { type discrete [ 2 ] { yes, no }; }
variable c { type discrete [ 2 ] { yes, no }; }
variable d { type discrete [ 3 ] { low, middle, high }; }
probability ( a ) { table 0.4, 0.6; }
probability ( s ) { table 0.5, 0.5; }
probability ( t | a ) { (yes) 0.8, 0.2; (no) 0.3, 0.7; }
probability ( c | t, s ) { (yes, yes) 0.95, 0.05; (yes, no) 0.6, 0.4; (no, yes) 0.4, 0.6; (no, no) 0.05, 0.95; }
probability ( d | c ) { (yes) 0.7, 0.2, 0.1; (no) 0.1, 0.2, 0.7; }
"""


@pytest.fixture
def bif(tmp_path):
    path = tmp_path / "small.bif"
    path.write_text(BIF)
    return str(path)


# -- the comparison -----------------------------------------------------------------------------------------------


def test_hits_misses_and_extras():
    recovery = Recovery(TREE, "t", ["d", "c", "a"])
    assert recovery.blanket == ("a", "c", "s")
    assert (recovery.hit, recovery.missed, recovery.extra) == (("a", "c"), ("s",), ("d",))
    assert (recovery.precision, recovery.recall, recovery.f1) == (2 / 3, 2 / 3, 2 / 3)
    assert not recovery.exact
    assert recovery.by_role(recovery.missed) == {"spouse": ["s"]}
    assert recovery.by_role(recovery.extra) == {"descendant": ["d"]}
    assert list(recovery.by_role(recovery.blanket)) == ["parent", "child", "spouse"]
    assert recovery.role_recall("spouse") == (0, 1)
    assert recovery.role_recall("child") == (1, 1)


def test_nothing_found_is_nothing_wrong_but_no_f1():
    recovery = Recovery(TREE, "t", ())
    assert (recovery.precision, recovery.recall, recovery.f1) == (1.0, 0.0, 0.0)


def test_an_empty_blanket_is_found_by_finding_nothing():
    alone = DAG([("a", "b")], nodes=["a", "b", "t"])
    assert (Recovery(alone, "t", ()).f1, Recovery(alone, "t", ()).exact) == (1.0, True)
    wrong = Recovery(alone, "t", "a")
    assert (wrong.precision, wrong.recall, wrong.f1) == (0.0, 1.0, 0.0)


def test_f1_is_the_harmonic_mean():
    rng = np.random.default_rng(0)
    graph = random_dag(10, degree=3, seed=rng)
    for _ in range(200):
        target, *found = (graph.nodes[i] for i in rng.permutation(10)[: rng.integers(2, 10)])
        r = Recovery(graph, target, found)
        if r.hit:
            assert r.f1 == pytest.approx(2 * r.precision * r.recall / (r.precision + r.recall))


@pytest.mark.parametrize(("found", "message"), [(["t"], "target 't' is among"), (["x"], "Unknown node 'x'")])
def test_what_was_found_must_be_other_nodes(found, message):
    with pytest.raises(GraphError, match=message):
        Recovery(TREE, "t", found)


# -- the picture --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def names_in(ax):
    return {text.get_text() for text in ax.texts}


def boxes_of(ax):
    return [patch for patch in ax.patches if isinstance(patch, mpl.patches.FancyBboxPatch)]


def arrows_of(ax):
    return [patch for patch in ax.patches if isinstance(patch, mpl.patches.FancyArrowPatch)]


def test_the_picture_marks_what_was_found_missed_and_added():
    ax = draw_blanket(TREE, "t", ["a", "c", "d"])
    assert isinstance(ax, mpl.axes.Axes)
    assert names_in(ax) == {"t", "✓ a", "✓ c", "− s", "+ d"}
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert entries == ["target", "✓ found (2)", "− missed (1)", "+ extra (1)"]
    assert "precision 0.67" in ax.get_title()


def test_the_picture_of_a_blanket_alone_leaves_the_rest_out():
    ax = draw_blanket(TREE, "t")
    assert names_in(ax) == {"t", "a", "c", "s"}
    assert len(arrows_of(ax)) == 3  # not the one to d
    assert ax.get_title() == "Markov blanket of t"


def test_kinds_differ_by_more_than_colour():
    ax = draw_blanket(TREE, "t", ["a", "c", "d"])
    lines = {text.get_text()[0]: box.get_linestyle() for text, box in zip(ax.texts, boxes_of(ax), strict=True)}
    assert len({lines[mark] for mark in "✓−+"}) == 3


def test_a_picture_can_go_into_given_axes():
    _, ax = plt.subplots()
    assert draw_blanket(TREE, "t", "c", ax=ax, title="mine") is ax
    assert ax.get_title() == "mine"


def test_bidirected_edges_have_two_heads():
    ax = draw_blanket(MAG([("t", "c")], [("c", "d")]), "t")
    assert sorted(type(arrow.get_arrowstyle()).__name__ for arrow in arrows_of(ax)) == ["CurveFilledAB", "CurveFilledB"]


@pytest.mark.parametrize("seed", range(8))
def test_boxes_do_not_overlap_and_hold_their_names(seed):
    rng = np.random.default_rng(seed)
    graph = random_dag(40, degree=rng.uniform(2, 6), seed=rng)
    spelt = {node: f"{node}_VOLUMEOUTPUT"[: rng.integers(2, 15)] + f"{i}" for i, node in enumerate(graph.nodes)}
    graph = DAG([(spelt[a], spelt[b]) for a, b in graph.edges], spelt.values())
    target, *found = (graph.nodes[i] for i in rng.permutation(40)[:6])
    ax = draw_blanket(graph, target, found)
    ax.figure.canvas.draw()
    extents = [box.get_window_extent() for box in boxes_of(ax)]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(extents, 2))
    for text, extent in zip(ax.texts, extents, strict=True):
        name = text.get_window_extent()
        assert extent.x0 <= name.x0
        assert name.x1 <= extent.x1


# -- the command --------------------------------------------------------------------------------------------------


def run(*arguments):
    return cli.main(["blanket", *map(str, arguments)])


def test_the_true_blanket_by_role(bif, capsys):
    assert run(bif, "--target", "t") == 0
    out = capsys.readouterr().out
    assert "Markov blanket of t: 3 of 4 other nodes" in out
    assert [line.split() for line in out.splitlines()[1:4]] == [["parent:", "a"], ["child:", "c"], ["spouse:", "s"]]
    assert "FBED^1 on perfect tests finds exactly the blanket" in out
    assert "simulated" not in out


def test_what_one_run_misses_on_perfect_tests(bif, capsys):
    assert run(bif, "--target", "t", "-k", "0") == 0
    out = capsys.readouterr().out
    assert "FBED^0 on perfect tests finds 2 of 3 and 0 more" in out
    assert "missed spouse:" in out


def test_recovery_from_simulated_data(bif, capsys):
    assert run(bif, "--target", "t", "-n", "4000", "--seed", "1") == 0
    out = capsys.readouterr().out
    assert "FBED^1 on 4,000 simulated rows (seed 1) finds exactly the blanket" in out
    assert "precision 1.00, recall 1.00, F1 1.00" in out


def test_the_seed_decides_the_data(bif, capsys):
    def tried(seed):
        run(bif, "--target", "c", "-n", "60", "--seed", seed, "--alpha", "0.2", "--json")
        simulated = json.loads(capsys.readouterr().out)["simulated"]
        return simulated["selected"], simulated["n_tests"]

    assert tried(1) == tried(1)
    assert any(tried(seed) != tried(1) for seed in range(2, 8))


def test_json(bif, capsys):
    assert run(bif, "--target", "t", "-n", "30", "-k", "inf", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["blanket"] == {"parent": ["a"], "child": ["c"], "spouse": ["s"]}
    assert report["perfect_tests"]["recall"] == 1.0
    simulated = report["simulated"]
    assert (simulated["n"], simulated["algorithm"], simulated["family"]) == (30, "FBED^∞", "gsquare")
    members = [node for nodes in report["blanket"].values() for node in nodes]
    missed = [node for nodes in simulated["missed"].values() for node in nodes]
    assert sorted(missed) == sorted(set(members) - set(simulated["selected"]))
    assert set(simulated["missed"]) <= set(BLANKET_ROLES)


def test_hidden_nodes_make_a_maximal_ancestral_graph(bif, capsys):
    """Without c, its children and parents are joined: t → d ← s."""
    assert run(bif, "--target", "t", "--hidden", "c", "-n", "4000") == 0
    out = capsys.readouterr().out
    assert "3 of 3 other nodes" in out
    assert ["child:", "d"] in [line.split() for line in out.splitlines()]
    assert run(bif, "--target", "d", "--hidden", "t", "a", "--json") == 0
    assert json.loads(capsys.readouterr().out)["n_nodes"] == 3


def test_gaussian_networks(tmp_path, capsys):
    network = {
        "a": {"parents": [], "coef": [], "intercept": 1.0, "sd": 1.0},
        "s": {"parents": [], "coef": [], "intercept": 0.0, "sd": 1.0},
        "t": {"parents": ["a"], "coef": [0.8], "intercept": 0.0, "sd": 1.0},
        "c": {"parents": ["t", "s"], "coef": [1.0, -1.0], "intercept": 0.0, "sd": 0.5},
    }
    path = tmp_path / "network.json"
    path.write_text(json.dumps(network))
    assert run(path, "--target", "t", "-n", 300, "--fbs") == 0
    out = capsys.readouterr().out
    assert "FBS on 300 simulated rows (seed 0) finds exactly the blanket" in out
    assert "gaussian, likelihood-ratio test, alpha = 0.001" in out


def test_a_compressed_network_and_a_picture(tmp_path, capsys):
    path, picture = tmp_path / "small.bif.gz", tmp_path / "blanket.png"
    path.write_bytes(gzip.compress(BIF.encode()))
    assert run(path, "--target", "t", "--plot", picture) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.bif", "--target", "t"], "nowhere.bif: cannot be read: No such file"),
        (["nowhere.json", "--target", "t"], "nowhere.json: cannot be read: No such file"),
        (["{bif}"], "required: --target"),
        (["{bif}", "--target", "T"], "Unknown node 'T' in `--target`"),
        (["{bif}", "--target", "t", "--hidden", "t"], "Unknown node 't' in `--target`"),
        (["{bif}", "--target", "t", "--hidden", "x"], "Unknown node 'x' in `hidden`"),
        (["{bif}", "--target", "t", "-k", "-1"], "-k"),
        (["{bif}", "--target", "t", "-k", "two"], "expected 0, 1, 2, … or inf, got 'two'"),
        (["{bif}", "--target", "t", "-n", "-5"], "-n: expected a whole number, 0 or more, got '-5'"),
        (["{bif}", "--target", "t", "-n", "some"], "-n: expected a whole number, 0 or more, got 'some'"),
        (["{bif}", "--target", "t", "-n", "1"], "selection needs at least 3"),
        (["{bif}", "--target", "t", "-n", "50", "--family", "gauss"], "unknown family 'gauss'"),
        (["{bif}", "--target", "t", "-n", "50", "--alpha", "2"], "alpha is a significance level"),
        (
            ["{bif}", "--target", "t", "-n", "50", "--seed", "-1"],
            "--seed: expected a whole number, 0 or more, got '-1'",
        ),
        (["{bif}", "--target", "t", "--plot", "picture.nothing"], "picture.nothing: the picture cannot be written"),
    ],
)
def test_bad_input_is_one_clear_line_and_status_2(arguments, message, bif, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(*(argument.format(bif=bif) for argument in arguments)) == 2
    err = capsys.readouterr().err
    assert err.startswith("fbed: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_broken_network_file(tmp_path, capsys):
    path = tmp_path / "broken.bif"
    path.write_text(BIF.replace("table 0.4, 0.6", "table 0.4, 0.7"))
    assert run(path, "--target", "t") == 2
    assert "broken.bif" in capsys.readouterr().err


def test_the_command_in_a_process_of_its_own(bif):
    done = subprocess.run(
        [sys.executable, "-m", "fbed", "blanket", bif, "--target", "t"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Markov blanket of t")


def test_more_data_recover_more(capsys):
    """Mean F1 over all targets of a network grows with n, up to the truth."""
    network = GaussianNetwork.random(random_dag(12, degree=2.5, seed=3), seed=4, strength=(0.3, 0.8))
    means = []
    for n in (50, 500, 20000):
        data = network.sample(n, seed=5)
        found = [blanket.recover(network.dag, data, t, family="gaussian", alpha=1e-3) for t in network.dag.nodes]
        means.append(np.mean([one.recovery.f1 for one in found]))
    assert means[0] < means[1] < means[2]
    assert means[2] > 0.97
