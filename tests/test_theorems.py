"""What the paper proves, run on random graphs with perfect tests.

Every theorem is checked on 2,000 random graphs of up to 12 nodes, for every node as the target, with ties broken by a
random order of the nodes, and on some of the graphs by several. The order in which tied variables enter is the only
freedom that the search has on perfect tests, and every sequence of additions is the one of some order of the nodes.
"""

import functools
import itertools
import math
import time

import numpy as np
import pytest

import fbed
from fbed.graphs import DAG, MAG, MixedGraph, random_dag, random_mag

N_GRAPHS = 2000
LARGEST = 12

FBS = {"early_dropping": False}
FBED_0, FBED_1, FBED_INF = {"k": 0}, {"k": 1}, {"k": math.inf}


@functools.cache
def dags():
    return [random_dag(n, degree=degree, seed=rng) for n, degree, rng in sizes(seed=1)]


@functools.cache
def mags():
    """MAGs of DAGs with up to as many hidden nodes as observed ones."""
    graphs = []
    for n, degree, rng in sizes(seed=2):
        graphs.append(random_mag(n, degree=degree, n_hidden=int(rng.integers(0, n + 1)), seed=rng))
    return graphs


def sizes(seed):
    """Numbers of nodes and neighbours, from empty to crowded graphs."""
    rng = np.random.default_rng(seed)
    for _ in range(N_GRAPHS):
        n = int(rng.integers(2, LARGEST + 1))
        yield n, float(rng.uniform(0.3, min(n - 1, 4.0))), rng


def every_case(graphs, n_orders=1, seed=0):
    """Every target of every graph, under random orders of its nodes."""
    rng = np.random.default_rng(seed)
    for graph in graphs:
        for _ in range(n_orders):
            ordered = graph.reordered([graph.nodes[i] for i in rng.permutation(len(graph))])
            for target in graph.nodes:
                yield ordered, target


def selected(graph, target, **options):
    return set(fbed.select(graph, target, family="oracle", **options).selected)


def is_minimal(graph, target, chosen):
    """The paper's definition: nothing can be removed given the rest, nothing can be added."""
    others = set(graph.nodes) - chosen - {target}
    can_be_removed = any(graph.separated(target, v, chosen - {v}) for v in chosen)
    can_be_added = not graph.separated(target, others, chosen)
    return not can_be_removed and not can_be_added


# -- the theorems -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [FBS, FBED_INF], ids=["theorem 1: FBS", "theorem 2: FBED^∞"])
@pytest.mark.parametrize("graphs", [dags, mags])
def test_selects_a_minimal_set(options, graphs):
    for graph, target in every_case(graphs()):
        chosen = selected(graph, target, **options)
        assert is_minimal(graph, target, chosen), (graph.directed, graph.bidirected, target, chosen)


def test_theorem_3_one_extra_run_finds_the_blanket_of_a_bayesian_network():
    for graph, target in every_case(dags()):
        assert selected(graph, target, **FBED_1) == graph.markov_blanket(target), (graph.directed, target)


@pytest.mark.parametrize("options", [FBED_INF, FBS], ids=["theorem 4: FBED^∞", "remark: FBS"])
def test_all_runs_find_the_blanket_of_a_maximal_ancestral_graph(options):
    for graph, target in every_case(mags()):
        chosen = selected(graph, target, **options)
        assert chosen == graph.markov_blanket(target), (graph.directed, graph.bidirected, target)


@pytest.mark.parametrize("graphs", [dags, mags])
def test_no_extra_run_finds_all_adjacent_nodes(graphs):
    """FBED^0 ⊇ adjacent, as claimed of the algorithm as a whole.

    No set separates adjacent nodes, so that none of them is ever dropped in the forward phase (first assertion), nor
    removed in the backward phase (second one). Other nodes may remain: the set is a superset, not the adjacent nodes.
    """
    for graph, target in every_case(graphs()):
        adjacent, result = graph.adjacent(target), fbed.select(graph, target, family="oracle", **FBED_0)
        assert {row.variable for row in result.trace if row.action == "add"} >= adjacent
        assert set(result.selected) >= adjacent, (graph.directed, graph.bidirected, target)


def test_the_theorems_hold_for_any_order_of_the_nodes():
    for graph, target in every_case(dags()[:100], n_orders=10):
        assert selected(graph, target, **FBED_1) == graph.markov_blanket(target), (graph.directed, target)
    for graph, target in every_case(mags()[:100], n_orders=10):
        assert selected(graph, target, **FBED_INF) == graph.markov_blanket(target), (graph.directed, target)


def test_the_random_graphs_exercise_the_theorems():
    """Theorems about spouses and long collider paths mean nothing on graphs that have none."""
    with_spouses = sum(bool(g.spouses(t) - g.adjacent(t)) for g in dags() for t in g.nodes)
    beyond_spouses = sum(bool(g.markov_blanket(t) - g.spouses(t) - g.adjacent(t)) for g in mags() for t in g.nodes)
    proper = sum(g.markov_blanket(t) < set(g.nodes) - {t} for g in mags() for t in g.nodes)
    assert with_spouses > 1000
    assert beyond_spouses > 1000
    assert proper > 1000


# -- one step too strong ------------------------------------------------------------------------------------------


def counter_examples(graphs, claim):
    return [(graph, target) for graph, target in every_case(graphs) if not claim(graph, target)]


def test_no_extra_run_is_not_enough_for_the_blanket_of_a_bayesian_network():
    """t → c ← s, the paper's X = T + Y: the spouse s is dropped before its child c is selected."""
    graph = DAG([("t", "c"), ("s", "c")])
    assert selected(graph, "t", **FBED_0) == {"c"}
    assert graph.markov_blanket("t") == {"c", "s"}
    found = counter_examples(dags()[:300], lambda g, t: selected(g, t, **FBED_0) == g.markov_blanket(t))
    assert len(found) > 25
    assert all(g.spouses(t) for g, t in found)  # what FBED^0 misses are spouses


def test_one_extra_run_is_not_enough_for_the_blanket_of_a_maximal_ancestral_graph():
    """t → c ↔ d ↔ e: e is dropped in the run that selects d, because d opens the way to it."""
    graph = MAG([("t", "c")], [("c", "d"), ("d", "e")])
    assert selected(graph, "t", **FBED_1) == {"c", "d"}
    assert graph.markov_blanket("t") == {"c", "d", "e"}
    found = counter_examples(mags()[:1000], lambda g, t: selected(g, t, **FBED_1) == g.markov_blanket(t))
    assert found
    assert all(g.bidirected for g, _ in found)  # without ↔ it would be a Bayesian network, and theorem 3 holds


@pytest.mark.parametrize("k", range(6))
def test_k_extra_runs_follow_a_collider_path_for_k_plus_1_steps(k):
    """t → v0 ↔ v1 ↔ … ↔ v6: each run reaches one node further."""
    path = [f"v{i}" for i in range(7)]
    graph = MAG([("t", path[0])], itertools.pairwise(path))
    assert selected(graph, "t", k=k) == set(path[: k + 1])
    assert selected(graph, "t", **FBED_INF) == set(path) == graph.markov_blanket("t")


def test_no_extra_run_may_keep_more_than_the_adjacent_nodes():
    """a → t → c ← s ← a: s depends on t through a, and stays when it enters first, because c then ties it to t."""
    graph = DAG([("a", "t"), ("t", "c"), ("s", "c"), ("a", "s")])
    assert selected(graph.reordered("sact"), "t", **FBED_0) == {"a", "c", "s"} > graph.adjacent("t")
    assert selected(graph.reordered("acst"), "t", **FBED_0) == {"a", "c"} == graph.adjacent("t")


def test_no_extra_run_is_not_minimal_and_may_keep_what_the_blanket_does_not_hold():
    """FBED^0 may end with nodes outside the blanket, since it never conditions on the spouses that it misses."""
    found = [(g, t) for g, t in every_case(dags()[:500]) if not selected(g, t, **FBED_0) <= g.markov_blanket(t)]
    assert found
    assert not any(is_minimal(g, t, selected(g, t, **FBED_0)) for g, t in found)


# -- the oracle itself --------------------------------------------------------------------------------------------


def test_one_walk_answers_a_whole_scan_in_both_phases():
    """Against a question for every variable: given S outside S, given the rest of S inside S."""
    rng = np.random.default_rng(3)
    answers = []
    for graph in dags()[:300] + mags()[:300]:
        target = graph.nodes[rng.integers(len(graph))]
        others = [node for node in graph.nodes if node != target]
        oracle = fbed.graphs.oracle.Oracle(graph, target)
        inside = np.flatnonzero(rng.random(len(others)) < rng.random())
        outside = np.setdiff1d(np.arange(len(others)), inside)
        given = {others[i] for i in inside}
        forward = oracle.forward(inside.tolist(), outside)
        backward = oracle.backward(inside.tolist(), inside)
        assert forward.passes.tolist() == [not graph.separated(target, others[i], given) for i in outside]
        expected = [not graph.separated(target, others[i], given - {others[i]}) for i in inside]
        assert backward.passes.tolist() == expected
        answers += expected
    assert 200 < sum(answers) < len(answers) - 200


def test_the_result_reads_like_any_other():
    graph = DAG([("a", "t"), ("t", "c"), ("s", "c"), ("c", "d"), ("z", "a")])
    result = fbed.select(graph, "t", family="oracle", k=1)
    assert result.selected == ("a", "c", "s")
    assert result.feature_names == ("a", "c", "s", "d", "z")
    assert result.indices.tolist() == [0, 1, 2]
    assert (result.status, result.family, result.model) == ("converged", "oracle", None)
    assert result.n_tests.total == sum(row.tested for row in result.trace) == 5 + 3 + 1 + 3 + 3
    assert [row.p_value for row in result.trace if row.action == "add"] == [0.0, 0.0, 0.0]
    text = result.summary()
    assert "FBED^1 selected 3 variables of 5" in text
    assert "a graph, no data" in text
    assert "nan" not in text
    assert "inf" not in text
    assert "coefficient" not in text


def test_a_removed_variable_has_p_value_1():
    """t → c, t → m → d: d enters first, and leaves when m is there."""
    graph = DAG([("t", "m"), ("m", "d")], nodes=["d", "m", "t"])
    result = fbed.select(graph, "t", family="oracle")
    (removed,) = [row for row in result.trace if row.action == "remove"]
    assert (removed.variable, removed.p_value, removed.statistic) == ("d", 1.0, 0.0)
    assert result.selected == ("m",)


def test_the_result_survives_json():
    graph = DAG([("t", "m"), ("m", "d"), ("t", "c"), ("s", "c")], nodes=["d", "m", "t", "c", "s"])
    result = fbed.select(graph, "t", family="oracle")
    again = fbed.Result.from_json(result.to_json())
    assert again.trace == result.trace
    assert again.selected == result.selected
    assert again.model is None
    assert again.summary() == result.summary()


def test_ties_go_to_the_first_node_of_the_graph():
    graph = DAG([("a", "t"), ("b", "t"), ("c", "t")])
    assert fbed.select(graph, "t").selected == ("a", "b", "c")
    assert fbed.select(graph.reordered("tcab"), "t").selected == ("c", "a", "b")


def test_a_graph_needs_no_family():
    graph = DAG([("a", "t")])
    assert fbed.select(graph, "t").family == "oracle"


def test_options_of_the_search_hold_for_graphs():
    graph = DAG([("a", "t"), ("t", "c"), ("s", "c")])
    assert fbed.select(graph, "t", include="s").selected == ("s", "a", "c")
    assert set(fbed.select(graph, "t", exclude=["c"]).selected) == {"a"}
    limited = fbed.select(graph, "t", max_features=1)
    assert (limited.selected, limited.status) == (("a",), "max_features")
    assert fbed.select(graph, "t", time_limit=0).status == "time_limit"
    seen = []
    fbed.select(graph, "t", progress=seen.append)
    assert seen[0].variable == "a"


def test_nodes_need_not_be_text():
    graph = DAG.from_adjacency([[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]])
    assert set(fbed.select(graph, 0, family="oracle").selected) == {1, 2, 3}
    assert set(fbed.select(graph, 0, family="oracle", exclude=[3]).selected) == {1, 2}


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (DAG([("age", "t")]), "agee", {}, "Unknown node 'agee' in `y`.*did you mean 'age'"),
        (DAG([("a", "t")]), "t", {"family": "gaussian"}, "X is a graph.*family='gaussian'.*family='oracle'"),
        (np.ones((5, 2)), "t", {"family": "oracle"}, "family='oracle' answers from a graph.*got ndarray"),
        (DAG([("a", "t")]), "t", {"criterion": "ebic"}, "EBIC.*compares likelihoods, and a graph has none"),
        (DAG([("a", "t")]), "t", {"criterion": fbed.LikelihoodRatio(min_gain=1.0)}, "compares likelihoods"),
        (DAG([("a", "t")]), "t", {"sample_weight": [1.0]}, "sample_weight is about data"),
        (DAG([("a", "t")]), "t", {"feature_names": ["a"]}, "feature_names is about data"),
        (DAG([("a", "t")]), "t", {"offset": [1.0]}, "offset is about data"),
        (DAG([("a", "t")]), "t", {"include": "t"}, "include holds the target 't'"),
        (DAG([("a", "t")]), "t", {"exclude": "b"}, "Unknown node 'b' in `exclude`"),
        (DAG([("a", "t")]), "t", {"k": -1}, "k is the number of extra runs"),
    ],
)
def test_what_makes_no_sense_is_refused(X, y, options, message):
    with pytest.raises(fbed.InvalidInput, match=message):
        fbed.select(X, y, **options)


def test_another_order_is_the_same_graph():
    rng = np.random.default_rng(4)
    for graph in dags()[:50] + mags()[:50]:
        order = [graph.nodes[i] for i in rng.permutation(len(graph))]
        other = graph.reordered(order)
        assert isinstance(other, MixedGraph)
        assert other == graph
        assert list(other.nodes) == order
        place = {node: i for i, node in enumerate(other.topological_order())}
        assert all(place[a] < place[b] for a, b in other.directed)
        assert all(other.markov_blanket(t) == graph.markov_blanket(t) for t in order)


@pytest.mark.parametrize("nodes", [["a"], ["a", "b", "a"], ["a", "b", "c"], []])
def test_another_order_must_hold_every_node_once(nodes):
    with pytest.raises(fbed.graphs.GraphError, match=r"each of the 2 nodes once|Unknown node"):
        DAG([("a", "b")]).reordered(nodes)


def test_a_network_of_724_nodes_is_answered_in_seconds():
    """The size of the largest network in use as a benchmark; the limit is generous, the usual time a few seconds."""
    graph = random_dag(724, degree=3.0, seed=5)
    started = time.perf_counter()
    for target in graph.nodes[:20]:
        assert selected(graph, target, **FBED_1) == graph.markov_blanket(target)
    assert time.perf_counter() - started < 20.0
