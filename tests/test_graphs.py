"""Graphs: separation, Markov blankets and projection against brute force from the definitions."""

from itertools import chain, combinations, pairwise, permutations
from time import perf_counter

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from fbed.graphs import BLANKET_ROLES, DAG, MAG, GraphError, MixedGraph, random_dag, random_mag

# -- brute force, word by word from the definitions -----------------------------------------------------


def subsets(items):
    items = list(items)
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def all_paths(g, x, y, seen=()):
    """Every sequence of unique vertices from x to y in which neighbours are adjacent."""
    if x == y:
        yield (*seen, y)
        return
    for following in g.adjacent(x) - {*seen, x}:
        yield from all_paths(g, following, y, (*seen, x))


def is_into(g, a, b):
    """Whether the edge between a and b has an arrowhead at b."""
    return (a, b) in g.directed or (a, b) in g.bidirected or (b, a) in g.bidirected


def is_collider(g, a, b, c):
    return is_into(g, a, b) and is_into(g, c, b)


def is_descendant(g, node, of):
    return node == of or any(is_descendant(g, node, child) for child in g.children(of))


def is_blocked(g, path, given):
    for a, b, c in zip(path, path[1:], path[2:], strict=False):
        if is_collider(g, a, b, c):
            if not any(is_descendant(g, node, b) for node in given):
                return True
        elif b in given:
            return True
    return False


def separated_by_definition(g, x, y, given):
    return all(is_blocked(g, path, given) for path in all_paths(g, x, y))


def blanket_by_separation(g, target, separated):
    """The unique minimal set that separates the target from all other nodes."""
    others = set(g.nodes) - {target}
    separating = [set(s) for s in subsets(others) if all(separated(target, rest, s) for rest in others.difference(s))]
    smallest = min(separating, key=len)
    assert all(smallest <= s for s in separating), "the minimal separating set is not unique"
    return smallest


def random_mixed_edges(rng, n, p_directed, p_bidirected):
    """Edges along a random order, so that the order of nodes says nothing about the order of causes."""
    order = rng.permutation(n).tolist()
    directed, bidirected = [], []
    for a, b in combinations(order, 2):
        draw = rng.random()
        if draw < p_directed:
            directed.append((a, b))
        elif draw < p_directed + p_bidirected:
            bidirected.append((b, a))
    return directed, bidirected


def small_graphs(seed, count, n):
    """DAGs, MAGs and acyclic mixed graphs that are neither."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        yield random_dag(n, density=rng.uniform(0.2, 0.7), seed=rng)
        yield random_mag(n, density=rng.uniform(0.2, 0.6), n_hidden=1 + i % 3, seed=rng)
        yield MixedGraph(*random_mixed_edges(rng, n, 0.25, 0.25), nodes=range(n))


# -- separation -----------------------------------------------------------------------------------------


def test_separation_agrees_with_networkx_on_random_dags():
    rng = np.random.default_rng(0)
    answers = []
    for _ in range(400):
        g = random_dag(int(rng.integers(4, 25)), degree=rng.uniform(0.5, 3), seed=rng)
        reference = nx.DiGraph(g.edges)
        reference.add_nodes_from(g.nodes)
        for _ in range(25):
            cuts = np.sort(rng.integers(0, len(g) // 2, size=2))
            mixed = rng.permutation(g.nodes).tolist()
            x, y, given = {mixed[0]}, set(mixed[1 : 2 + cuts[0]]), set(mixed[2 + cuts[0] : 2 + cuts[1]])
            answers.append(g.separated(x, y, given))
            assert answers[-1] == nx.is_d_separator(reference, x, y, given)
    assert 2000 < sum(answers) < len(answers) - 2000  # both answers are common, so that agreement means something


def test_separation_of_larger_sets_agrees_with_networkx():
    rng = np.random.default_rng(1)
    for _ in range(500):
        g = random_dag(12, degree=1.5, seed=rng)
        reference = nx.DiGraph(g.edges)
        reference.add_nodes_from(g.nodes)
        mixed = rng.permutation(g.nodes).tolist()
        x, y, given = set(mixed[:2]), set(mixed[2:4]), set(mixed[4 : 4 + rng.integers(6)])
        assert g.separated(x, y, given) == nx.is_d_separator(reference, x, y, given)


@pytest.mark.parametrize("seed", range(4))
def test_separation_agrees_with_path_enumeration(seed):
    for g in small_graphs(seed, count=40, n=5):
        for x, y in combinations(g.nodes, 2):
            for given in subsets(set(g.nodes) - {x, y}):
                assert g.separated(x, y, given) == separated_by_definition(g, x, y, given), (
                    g._key(),
                    x,
                    y,
                    given,
                )


def test_separation_agrees_with_path_enumeration_on_seven_nodes():
    rng = np.random.default_rng(5)
    for g in small_graphs(6, count=25, n=7):
        for _ in range(40):
            x, y, *rest = [g.nodes[i] for i in rng.permutation(7)]
            given = rest[: rng.integers(6)]
            assert g.separated(x, y, given) == separated_by_definition(g, x, y, given), (
                g._key(),
                x,
                y,
                given,
            )


def test_one_walk_answers_for_all_nodes():
    rng = np.random.default_rng(7)
    for g in small_graphs(8, count=25, n=9):
        target, *rest = [g.nodes[i] for i in rng.permutation(len(g))]
        given = rest[: rng.integers(len(rest))]
        expected = {y for y in rest if y not in given and not g.separated(target, y, given)}
        assert g.connected_to(target, given) == expected


def test_connected_to_several_targets_is_the_union():
    for g in small_graphs(9, count=10, n=7):
        a, b, c, *_ = g.nodes
        expected = (g.connected_to(a, c) | g.connected_to(b, c)) - {a, b}
        assert g.connected_to({a, b}, {c}) == expected


def test_separation_is_symmetric_and_takes_single_nodes_and_any_collection():
    g = DAG([("t", "c"), ("s", "c"), ("c", "d")])
    assert g.separated("t", "s")
    for given in ("d", ["d"], ("d",), {"d"}, frozenset("d"), (node for node in "d"), np.array(["d"])):
        assert not g.separated("s", "t", given)
    assert g.separated({"t"}, [], "c")
    assert g.separated("d", {"t", "s"}, "c")


def test_a_tuple_that_is_a_node_is_that_node():
    g = DAG([((0, 1), "a"), (0, "b"), (1, "b")])
    assert g.separated((0, 1), "b")
    assert not g.separated([0, 1], "b")
    assert g.connected_to((0, 1)) == {"a"}


def test_a_query_on_a_large_network_is_fast():
    g = random_dag(724, degree=4, seed=0)
    times, sizes = [], []
    for target in g.nodes[40:90]:
        start = perf_counter()
        connected = g.connected_to(target, g.nodes[:40])
        times.append(perf_counter() - start)
        sizes.append(len(connected))
    assert np.median(sizes) > 200  # the walks are long
    assert np.median(times) < 0.004  # ten times what it takes, so that a busy machine does not matter


# -- relations ------------------------------------------------------------------------------------------


@pytest.fixture
def example():
    #       p → t → c ↔ d ← q        t ↔ u ↔ v ← r        s → c        d → z
    return MAG(
        [("p", "t"), ("t", "c"), ("q", "d"), ("r", "v"), ("s", "c"), ("d", "z"), ("a", "p")],
        [("c", "d"), ("t", "u"), ("u", "v")],
        nodes=["o", *"apstcdqzuvr"],
    )


def test_relations_on_an_example(example):
    assert example.parents("c") == {"t", "s"}
    assert example.children("t") == {"c"}
    assert example.siblings("u") == {"t", "v"}
    assert example.spouses("t") == {"s"}
    assert example.district("t") == {"t", "u", "v"}
    assert example.adjacent("t") == {"p", "c", "u"}
    assert example.ancestors("c") == {"c", "t", "s", "p", "a"}
    assert example.ancestors({"v", "d"}) == {"v", "r", "d", "q"}
    assert example.descendants("p") == {"p", "t", "c"}
    assert example.descendants(["d", "r"]) == {"d", "z", "r", "v"}


def test_blanket_reaches_the_districts_of_children_and_their_parents(example):
    assert example.markov_blanket("t") == {"p", "c", "s", "d", "q", "u", "v", "r"}
    assert example.markov_blanket("o") == set()


def test_roles_on_the_example(example):
    assert example.roles("t") == {
        "o": "other",
        "a": "ancestor",
        "p": "parent",
        "s": "spouse",
        "t": "target",
        "c": "child",
        "d": "child's district",
        "q": "parent of district",
        "z": "other",
        "u": "district",
        "v": "district",
        "r": "parent of district",
    }
    assert example.role("a", "c") == "descendant"
    assert example.role("c", "a") == "ancestor"


def test_relations_agree_with_networkx():
    for seed in range(20):
        g = random_dag(30, degree=3, seed=seed)
        reference = nx.DiGraph(g.edges)
        reference.add_nodes_from(g.nodes)
        for node in g.nodes:
            assert g.parents(node) == set(reference.predecessors(node))
            assert g.children(node) == set(reference.successors(node))
            assert g.ancestors(node) == nx.ancestors(reference, node) | {node}
            assert g.descendants(node) == nx.descendants(reference, node) | {node}
        place = {node: i for i, node in enumerate(g.topological_order())}
        assert len(place) == 30
        assert all(place[a] < place[b] for a, b in g.edges)


@pytest.mark.parametrize("seed", range(3))
def test_blanket_is_the_unique_minimal_separating_set(seed):
    rng = np.random.default_rng(seed)
    for i in range(25):
        dag = random_dag(6, density=rng.uniform(0.2, 0.7), seed=rng)
        mag = random_mag(6, density=rng.uniform(0.2, 0.6), n_hidden=1 + i % 4, seed=rng)
        for g in (dag, mag):
            for target in g.nodes:
                assert g.markov_blanket(target) == blanket_by_separation(g, target, g.separated)


def test_blanket_agrees_with_path_enumeration_alone():
    for g in (random_mag(5, density=0.4, n_hidden=3, seed=seed) for seed in range(12)):
        for target in g.nodes:
            expected = blanket_by_separation(g, target, lambda *query, g=g: separated_by_definition(g, *query))
            assert g.markov_blanket(target) == expected


def test_blanket_of_a_dag_is_parents_children_and_spouses():
    for seed in range(20):
        g = random_dag(25, degree=3, seed=seed)
        for target in g.nodes:
            parts = g.parents(target) | g.children(target) | g.spouses(target)
            assert g.markov_blanket(target) == parts


def test_blanket_of_a_mag_is_made_of_districts_and_their_parents():
    for seed in range(20):
        g = random_mag(20, degree=3, seed=seed)
        for target in g.nodes:
            districts = g.district(target).union(*map(g.district, g.children(target)))
            expected = districts.union(*map(g.parents, districts)) - {target}
            assert g.markov_blanket(target) == expected


def test_roles_name_exactly_the_blanket():
    seen = set()
    for seed in range(20):
        g = random_mag(20, degree=3, seed=seed)
        for target in g.nodes:
            roles = g.roles(target)
            seen.update(roles.values())
            assert {node for node, role in roles.items() if role in BLANKET_ROLES} == g.markov_blanket(target)
            assert [node for node, role in roles.items() if role == "target"] == [target]
            assert all(g.role(target, node) == role for node, role in roles.items())
    assert len(seen) == 10  # every role there is


# -- projection -----------------------------------------------------------------------------------------


def same_separations(full, part):
    return all(
        full.separated(x, y, given) == part.separated(x, y, given)
        for x, y in combinations(part.nodes, 2)
        for given in subsets(set(part.nodes) - {x, y})
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_mag_has_exactly_the_separations_of_the_dag_among_the_observed(seed):
    rng = np.random.default_rng(seed)
    arcs = 0
    for _ in range(40):
        dag = random_dag(8, density=rng.uniform(0.2, 0.6), seed=rng)
        hidden = set(rng.choice(dag.nodes, size=rng.integers(1, 4), replace=False).tolist())
        mag = dag.to_mag(hidden)
        assert mag.nodes == tuple(node for node in dag.nodes if node not in hidden)
        assert same_separations(dag, mag)
        assert all(a in dag.ancestors(b) for a, b in mag.directed)
        assert not any(a in dag.ancestors(b) or b in dag.ancestors(a) for a, b in mag.bidirected)
        arcs += len(mag.bidirected)
    assert arcs > 5


def test_hiding_in_two_steps_is_hiding_at_once():
    rng = np.random.default_rng(11)
    for _ in range(30):
        dag = random_dag(12, degree=3, seed=rng)
        hidden = rng.permutation(dag.nodes).tolist()[:5]
        assert dag.to_mag(hidden[:2]).to_mag(hidden[2:]) == dag.to_mag(hidden)


def test_hiding_nothing_changes_nothing():
    dag = random_dag(15, degree=3, seed=0)
    assert dag.to_mag() == dag
    mag = random_mag(15, degree=3, seed=0)
    assert mag.bidirected
    assert mag.to_mag() == mag


def test_projection_of_textbook_cases():
    assert DAG([("h", "a"), ("h", "b")]).to_mag("h") == MAG([], [("a", "b")])
    assert DAG([("a", "h"), ("h", "b")]).to_mag("h") == MAG([("a", "b")])
    assert DAG([("a", "h"), ("b", "h")]).to_mag("h") == MAG(nodes=["a", "b"])
    # The inducing path a → b ← h → c runs through the observed b, an ancestor of c.
    assert DAG([("a", "b"), ("b", "c"), ("h", "b"), ("h", "c")]).to_mag("h") == MAG(
        [("a", "b"), ("b", "c"), ("a", "c")]
    )


# -- building -------------------------------------------------------------------------------------------


def test_nodes_keep_the_order_given_or_first_seen():
    edges = [("z", "a"), ("m", "z")]
    assert DAG(edges).nodes == ("z", "a", "m")
    assert DAG(edges, nodes=["q", "m", "a", "z"]).nodes == ("q", "m", "a", "z")
    assert MAG([("z", "a")], [("k", "b")]).nodes == ("z", "a", "k", "b")
    assert DAG(edges).in_order({"m", "z", "a"}) == ["z", "a", "m"]
    assert list(DAG(edges)) == ["z", "a", "m"]
    assert DAG().nodes == ()


def test_graphs_are_equal_by_nodes_and_edges_not_by_order():
    g = MAG([("a", "b")], [("c", "d")])
    same = MAG([("a", "b")], [("d", "c")], nodes=list("dcba"))
    assert g == same
    assert hash(g) == hash(same)
    assert g != MAG([("b", "a")], [("c", "d")])
    assert g != MAG([("a", "b"), ("c", "d")])
    assert g != MAG([("a", "b")], [("c", "d")], nodes=list("abcde"))
    assert g != "a graph"
    assert repr(g) == "MAG(4 nodes, 1 →, 1 ↔)"
    assert repr(DAG([("a", "b")])) == "DAG(2 nodes, 1 →)"


def test_nodes_can_be_any_hashable():
    g = DAG([(None, 2.5), (2.5, ("a", 1)), [("a", 1), frozenset("x")]])
    assert g.separated(None, frozenset("x"), [("a", 1)])
    assert g.markov_blanket(2.5) == {None, ("a", 1)}
    assert [] not in g


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_matrix, np.ndarray.tolist])
def test_adjacency_matrices(container):
    weights = np.array([[0, 0.5, 0], [0, 0, 0], [-2, 0, 0]])
    assert DAG.from_adjacency(container(weights)) == DAG([(0, 1), (2, 0)])
    assert DAG.from_adjacency(container(weights), nodes="abc") == DAG([("a", "b"), ("c", "a")])
    heads = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    assert MAG.from_adjacency(container(heads), nodes="abc") == MAG([("a", "b")], [("a", "c")])


def test_adjacency_and_networkx_round_trips():
    for seed in range(10):
        dag, mag = random_dag(12, degree=3, seed=seed), random_mag(12, degree=3, seed=seed)
        assert DAG.from_adjacency(dag.to_adjacency(), dag.nodes) == dag
        assert MAG.from_adjacency(mag.to_adjacency(), mag.nodes) == mag
        both_ways = nx.DiGraph([*mag.directed, *mag.bidirected, *((b, a) for a, b in mag.bidirected)])
        both_ways.add_nodes_from(mag.nodes)
        assert MAG.from_networkx(both_ways) == mag
        reference = nx.DiGraph(dag.edges)
        reference.add_nodes_from(dag.nodes)
        assert DAG.from_networkx(reference) == dag
        assert DAG.from_networkx(reference).nodes == tuple(reference.nodes)


def test_random_graphs_have_the_density_asked_for_and_repeat():
    dag = random_dag(200, degree=4, seed=3)
    assert dag == random_dag(200, degree=4, seed=3)
    assert dag != random_dag(200, degree=4, seed=4)
    assert 2 * dag.n_edges / 200 == pytest.approx(4, abs=0.6)  # 3 standard deviations
    assert random_dag(5, density=1, seed=0).n_edges == 10
    assert random_dag(1, degree=0).nodes == ("X0",)
    later = sum(int(a[1:]) < int(b[1:]) for a, b in dag.edges) / dag.n_edges
    assert 0.3 < later < 0.7  # the numbers of nodes do not give the causal order away
    mag = random_mag(20, density=0.2, n_hidden=10, seed=1)
    assert mag == random_mag(20, density=0.2, n_hidden=10, seed=1)
    assert mag.nodes == tuple(f"X{i}" for i in range(20))
    assert mag.bidirected
    assert not random_mag(20, density=0.2, n_hidden=0, seed=1).bidirected


# -- errors ---------------------------------------------------------------------------------------------


def check_inducing_path(g, message):
    """The error shows a primitive inducing path, with its arrows, between nodes without an edge."""
    start, *steps = message.split("inducing path ")[1].split(" joins")[0].split(" ")
    path = [int(start), *map(int, steps[1::2])]
    assert len(set(path)) == len(path) > 3
    assert path[0] not in g.adjacent(path[-1])
    arrows = {(True, True): "↔", (True, False): "→", (False, True): "←"}
    for (a, b), arrow in zip(pairwise(path), steps[::2], strict=True):
        assert arrow == arrows[is_into(g, a, b), is_into(g, b, a)]
    for a, b, c in zip(path, path[1:], path[2:], strict=False):
        assert is_collider(g, a, b, c)
        assert is_descendant(g, path[0], b) or is_descendant(g, path[-1], b)


def test_maximality_is_that_every_missing_edge_can_be_separated():
    rng = np.random.default_rng(3)
    outcomes = {"almost directed": 0, "not maximal": 0, "": 0}
    for _ in range(1500):
        edges = random_mixed_edges(rng, 6, 0.15, 0.3)
        g = MixedGraph(*edges, nodes=range(6))
        ancestral = not any(is_descendant(g, a, b) or is_descendant(g, b, a) for a, b in g.bidirected)
        maximal = all(
            any(g.separated(x, y, given) for given in subsets(set(g.nodes) - {x, y}))
            for x, y in combinations(g.nodes, 2)
            if y not in g.adjacent(x)
        )
        expected = "almost directed" if not ancestral else "" if maximal else "not maximal"
        outcomes[expected] += 1
        if expected:
            with pytest.raises(GraphError, match=expected) as caught:
                MAG(*edges, nodes=range(6))
            if ancestral:
                check_inducing_path(g, str(caught.value))
        else:
            assert MAG(*edges, nodes=range(6)) == g
    assert min(outcomes.values()) >= 10


def test_cycles_are_named_from_any_graph():
    rng = np.random.default_rng(4)
    for _ in range(100):
        edges = [(a, b) if rng.random() < 0.5 else (b, a) for a, b in combinations(range(7), 2) if rng.random() < 0.4]
        if nx.is_directed_acyclic_graph(nx.DiGraph(edges)):
            assert set(DAG(edges).edges) == set(edges)
            continue
        with pytest.raises(GraphError, match="directed cycle") as caught:
            DAG(edges)
        cycle = str(caught.value).split("cycle ")[1].split(".")[0].split(" → ")
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1 >= 3
        assert all((int(a), int(b)) in edges for a, b in pairwise(cycle))


BAD_GRAPHS = [
    (lambda: DAG([("a", "b"), ("b", "c"), ("c", "a")]), r"directed cycle 'a' → 'b' → 'c' → 'a'"),
    (
        lambda: DAG([("r", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]),
        r"cycle 'a' → 'b' → 'c' → 'a'\.",
    ),
    (lambda: MAG([("a", "b"), ("b", "c"), ("c", "a")]), "directed cycle 'a' → 'b'"),
    (
        lambda: MAG([("a", "b"), ("b", "c")], [("c", "a")]),
        r"almost directed cycle: 'a' ↔ 'c', but 'a' → 'b' → 'c'",
    ),
    (
        lambda: MAG([("b", "d"), ("c", "a")], [("a", "b"), ("b", "c"), ("c", "d")]),
        "not maximal: 'd' and 'a' are not adjacent.*path 'd' ↔ 'c' ↔ 'b' ↔ 'a' joins",
    ),
    (lambda: DAG([("a", "a")]), "from 'a' to itself is a self-loop"),
    (lambda: MAG([], [("a", "a")]), "self-loop"),
    (lambda: DAG([("a", "b"), ("a", "b")]), "more than one edge between 'a' and 'b'"),
    (lambda: DAG([("a", "b"), ("b", "a")]), "more than one edge between 'b' and 'a'"),
    (lambda: MAG([("a", "b")], [("b", "a")]), "more than one edge between 'b' and 'a'"),
    (lambda: MAG([], [("a", "b"), ("b", "a")]), "more than one edge"),
    (
        lambda: DAG([("a", "bb")], nodes=["a", "b"]),
        r"Unknown node 'bb' in edge \('a', 'bb'\).*did you mean 'b'\?",
    ),
    (
        lambda: MAG([], [("a", "z")], nodes=["a", "b"]),
        r"Unknown node 'z' in edge.*'a', 'b'; check the spelling",
    ),
    (lambda: DAG([], nodes=["a", "b", "a"]), "every node once in `nodes`, but 'a' came again"),
    (lambda: DAG([], nodes="abc"), r"list of nodes, got the text 'abc'. Pass \['abc'\]"),
    (lambda: DAG([("a", "b", "c")]), r"pair \(a, b\) for a → b, got \('a', 'b', 'c'\)"),
    (lambda: DAG(["ab", "bc"]), "got 'ab'.*list of pairs"),
    (lambda: DAG([{"a", "b"}]), "as a pair"),
    (lambda: MAG([], [("a",)]), r"for a ↔ b, got \('a',\)"),
    (lambda: DAG("ab"), "list of → edges.*got 'ab'"),
    (lambda: DAG(7), "list of → edges.*got 7"),
    (lambda: DAG(nx.DiGraph([("a", "b")])), "from_networkx"),
    (lambda: DAG([(["a"], "b")]), r"hashable, got \['a'\] of type list"),
    (lambda: DAG([], nodes=[{}]), "hashable, got {} of type dict"),
    (lambda: DAG.from_adjacency([[0, 1]]), r"square adjacency matrix, got shape \(1, 2\)"),
    (lambda: DAG.from_adjacency([0, 1]), r"square adjacency matrix, got shape \(2,\)"),
    (lambda: DAG.from_adjacency([[0, np.nan], [0, 0]]), "dtype float64 with 1 NaN"),
    (lambda: DAG.from_adjacency([["", "x"], ["", ""]]), "numbers or booleans.*got dtype <U1"),
    (lambda: DAG.from_adjacency([[0, 1], [0, 0]], nodes="abc"), "Expected 2 nodes.*got 3"),
    (lambda: DAG.from_adjacency([[0, 1], [1, 0]]), "more than one edge between 1 and 0"),
    (lambda: MAG.from_adjacency([[1, 1], [0, 0]]), "from 0 to itself"),
    (lambda: DAG.from_networkx(nx.Graph([("a", "b")])), "directed networkx graph.*got Graph"),
    (lambda: DAG.from_networkx([("a", "b")]), "directed networkx graph.*got list"),
    (
        lambda: DAG.from_networkx(nx.MultiDiGraph([("a", "b"), ("a", "b")])),
        "more than one edge between 'a' and 'b'",
    ),
    (
        lambda: MAG.from_networkx(nx.MultiDiGraph([("a", "b"), ("b", "a"), ("a", "b")])),
        "more than one edge between 'a' and 'b'",
    ),
    (lambda: random_dag(5), "either `degree` or `density`, got degree=None and density=None"),
    (lambda: random_dag(5, degree=1, density=0.1), "either `degree` or `density`"),
    (lambda: random_dag(5, degree=5), "between 0 and n_nodes - 1 = 4, got degree=5"),
    (lambda: random_dag(5, density=-0.1), "density between 0 and 1"),
    (lambda: random_dag(2.5, density=0.1), "whole number n_nodes ≥ 0, got 2.5"),
    (lambda: random_mag(5, density=0.1, n_hidden=-1), "n_hidden ≥ 0, got -1"),
]


@pytest.mark.parametrize("build, message", BAD_GRAPHS)
def test_bad_graphs_are_refused_with_their_reason(build, message):
    with pytest.raises(GraphError, match=message):
        build()


BAD_QUESTIONS = [
    (lambda g: g.separated("a", "a"), "`x` and `y` without a common node, but both have 'a'"),
    (lambda g: g.separated("a", "b", {"b", "c"}), "`y` and `given` without a common node, but both have 'b'"),
    (lambda g: g.separated({"a", "b"}, "c", "b"), "`x` and `given`"),
    (lambda g: g.connected_to("a", ["a"]), "`target` and `given`"),
    (lambda g: g.separated("a", "dy", ()), "Unknown node 'dy' in `y`.*expected one of 'a', 'b', 'c', 'dyy'"),
    (lambda g: g.separated("a", "b", ["x"]), "Unknown node 'x' in `given`"),
    (lambda g: g.separated(3, "b"), "Unknown node 3 in `x`"),
    (lambda g: g.parents(["a"]), r"Unknown node \['a'\] in `parents`"),
    (lambda g: g.markov_blanket("dy"), "in `markov_blanket`.*did you mean 'dyy'"),
    (lambda g: g.role("a", "n"), "in `role`"),
    (lambda g: g.ancestors({"a", "n"}), "Unknown node 'n' in `ancestors`"),
    (lambda g: g.to_mag({"n"}), "Unknown node 'n' in `hidden`"),
]


@pytest.mark.parametrize("ask, message", BAD_QUESTIONS)
def test_bad_questions_are_refused_with_their_reason(ask, message):
    with pytest.raises(GraphError, match=message):
        ask(DAG([("a", "b"), ("b", "c"), ("c", "dyy")]))


def test_long_lists_of_names_are_cut():
    g = random_dag(300, degree=1, seed=0)
    with pytest.raises(GraphError, match="'X0', 'X1', 'X2', 'X3', 'X4' and 295 more"):
        g.parents("nobody")


def test_permuting_nodes_changes_no_answer():
    g = MAG([("a", "b"), ("b", "e")], [("b", "c"), ("c", "d")])
    for order in permutations("abcde"):
        same = MAG(g.directed, g.bidirected, nodes=order)
        assert same.markov_blanket("a") == {"b", "c", "d"}
        assert same.connected_to("a", {"e", "c"}) == g.connected_to("a", {"e", "c"})
