"""Graphs with named nodes: the questions that DAGs and MAGs share."""

from collections.abc import Hashable, Iterable, Iterator
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fbed.graphs.errors import GraphError, listing, unknown_node
from fbed.graphs.roles import Role, roles, spouses
from fbed.graphs.validate import Edge, as_edges, check_acyclic, check_simple, node_order, numbered
from fbed.graphs.walks import Links, closure, collider_connected, m_connected

Node = Hashable
Nodes = Hashable | Iterable[Hashable]  # one node, or several


class MixedGraph:
    """An acyclic graph with directed (→) and bidirected (↔) edges; `DAG` and `MAG` are the kinds to use.

    Wherever several nodes can be asked about, a single node may stand for the set of it. A value that is a
    node is taken as that node, even when it is a tuple of other nodes.

    Parameters
    ----------
    directed : iterable of pairs
        ``(a, b)`` for a → b.
    bidirected : iterable of pairs
        ``(a, b)`` for a ↔ b, in either order.
    nodes : iterable of hashables, optional
        All nodes, in the order wanted; by default those of the edges, in order of appearance.
    """

    def __init__(
        self,
        directed: Iterable[Any] = (),
        bidirected: Iterable[Any] = (),
        nodes: Iterable[Node] | None = None,
    ) -> None:
        arrows, arcs = as_edges(directed, "→"), as_edges(bidirected, "↔")
        self._nodes = node_order(nodes, arrows + arcs)
        self._index = {node: i for i, node in enumerate(self._nodes)}
        pairs = numbered(arrows, self._index), numbered(arcs, self._index)
        check_simple(arrows + arcs)
        self._links = Links.from_pairs(len(self._nodes), *pairs)
        self._order = check_acyclic(self._links, self._nodes)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in their stable order."""
        return self._nodes

    @property
    def directed(self) -> tuple[Edge, ...]:
        """The edges a → b as pairs (a, b), by order of a."""
        return tuple((a, self._nodes[j]) for a, below in self._with(self._links.children) for j in below)

    @property
    def bidirected(self) -> tuple[Edge, ...]:
        """The edges a ↔ b as pairs (a, b), each once, a before b in the order of nodes."""
        index = self._index
        return tuple(
            (a, self._nodes[j]) for a, beside in self._with(self._links.siblings) for j in beside if index[a] < j
        )

    def _with(self, neighbours: Iterable[tuple[int, ...]]) -> Iterator[tuple[Node, tuple[int, ...]]]:
        return zip(self._nodes, neighbours, strict=True)

    @property
    def n_edges(self) -> int:
        """The number of edges of both kinds."""
        return len(self.directed) + len(self.bidirected)

    @property
    def links(self) -> Links:
        """The edges by position of their nodes in `nodes`, the form that walks read."""
        return self._links

    def positions(self, nodes: Nodes, where: str = "positions") -> list[int]:
        """The places of nodes in `nodes`; `where` names the argument that they came in, for the error."""
        return self._numbers(nodes, where)

    def reordered(self, nodes: Iterable[Node]) -> Self:
        """The same graph with its nodes in another order, the one by which the oracle breaks ties."""
        order = list(nodes)
        place = {self._number(node, "reordered"): i for i, node in enumerate(order)}
        if not len(place) == len(order) == len(self):
            raise GraphError(f"Expected each of the {len(self)} nodes once in `nodes`, got {listing(order)}.")
        other = copy(self)
        other._nodes = tuple(order)
        other._index = {node: i for i, node in enumerate(order)}
        other._order = tuple(place[number] for number in self._order)
        other._links = self._links.renumbered([place[number] for number in range(len(self))])
        return other

    def topological_order(self) -> tuple[Node, ...]:
        """The nodes with parents before children."""
        return tuple(self._nodes[i] for i in self._order)

    def in_order(self, nodes: Nodes) -> list[Node]:
        """The nodes as a list in the order of the graph: sets of text have another order in every process."""
        return [self._nodes[i] for i in sorted(set(self._numbers(nodes, "in_order")))]

    def to_adjacency(self) -> NDArray[np.int8]:
        """The arrowheads: entry (i, j) is 1 when the edge between node i and node j has one at j."""
        matrix = np.zeros((len(self), len(self)), dtype=np.int8)
        for a, heads in enumerate(zip(self._links.children, self._links.siblings, strict=True)):
            for b in heads[0] + heads[1]:
                matrix[a, b] = 1
        return matrix

    # -- relations -------------------------------------------------------------------------------------------

    def parents(self, node: Node) -> set[Node]:
        """All p with p → node."""
        return self._names(self._links.parents[self._number(node, "parents")])

    def children(self, node: Node) -> set[Node]:
        """All c with node → c."""
        return self._names(self._links.children[self._number(node, "children")])

    def siblings(self, node: Node) -> set[Node]:
        """All s with node ↔ s."""
        return self._names(self._links.siblings[self._number(node, "siblings")])

    def adjacent(self, node: Node) -> set[Node]:
        """All nodes that share an edge with `node`."""
        return self._names(self._links.adjacent(self._number(node, "adjacent")))

    def spouses(self, node: Node) -> set[Node]:
        """All other nodes that have a child in common with `node`."""
        return self._names(spouses(self._links, self._number(node, "spouses")))

    def district(self, node: Node) -> set[Node]:
        """`node` and all nodes reachable from it by ↔ edges."""
        return self._names(closure(self._links.siblings, [self._number(node, "district")]))

    def ancestors(self, nodes: Nodes) -> set[Node]:
        """`nodes` and all with a directed path to one of them: a node is its own ancestor."""
        return self._names(closure(self._links.parents, self._numbers(nodes, "ancestors")))

    def descendants(self, nodes: Nodes) -> set[Node]:
        """`nodes` and all with a directed path from one of them: a node is its own descendant."""
        return self._names(closure(self._links.children, self._numbers(nodes, "descendants")))

    def markov_blanket(self, target: Node) -> set[Node]:
        """All nodes adjacent to `target` or joined to it by a path whose inner nodes are all colliders.

        Given these, the target is separated from every other node; no smaller set does that. In a DAG they
        are the parents, children and spouses; a MAG adds the district of the target, those of its children,
        and the parents of all these districts.
        """
        number = self._number(target, "markov_blanket")
        return self._names(collider_connected(self._links, number) - {number})

    def role(self, target: Node, node: Node) -> Role:
        """What `node` is to `target`: 'parent', 'child', 'spouse', 'district', ...; see `roles`."""
        return roles(self._links, self._number(target, "role"))[self._number(node, "role")]

    def roles(self, target: Node) -> dict[Node, Role]:
        """What every node is to `target`.

        Returns
        -------
        dict
            From node to the first of these that fits: 'target', 'parent', 'child', 'district' (joined by ↔
            edges), 'spouse' (shares a child), "child's district", 'parent of district' (of the target's or of
            a child's); and outside the Markov blanket 'ancestor', 'descendant', 'other'.
        """
        return dict(zip(self._nodes, roles(self._links, self._number(target, "roles")), strict=True))

    # -- separation ------------------------------------------------------------------------------------------

    def separated(self, x: Nodes, y: Nodes, given: Nodes = ()) -> bool:
        """Whether `given` blocks every path between `x` and `y`: d-separation in a DAG, m-separation in a
        MAG.

        A path is blocked by a collider without descendants in `given` (itself included), or by a non-collider
        in `given`. The empty set is separated from everything.

        Raises
        ------
        GraphError
            When the three sets are not disjoint, or a node is not in the graph.
        """
        ends, others, between = self._numbers(x, "x"), self._numbers(y, "y"), self._numbers(given, "given")
        self._check_disjoint("x", ends, "y", others)
        self._check_disjoint("y", others, "given", between)
        self._check_disjoint("x", ends, "given", between)
        return m_connected(self._links, ends, between).isdisjoint(others)

    def connected_to(self, target: Nodes, given: Nodes = ()) -> set[Node]:
        """All nodes outside `target` and `given` that are connected to `target` given `given`, in one walk.

        ``y in g.connected_to(x, z)`` is ``not g.separated(x, y, z)``.
        """
        ends, between = self._numbers(target, "target"), self._numbers(given, "given")
        self._check_disjoint("target", ends, "given", between)
        return self._names(m_connected(self._links, ends, between).difference(ends, between))

    # -- names and numbers -----------------------------------------------------------------------------------

    def _names(self, numbers: Iterable[int]) -> set[Node]:
        return {self._nodes[i] for i in numbers}

    def _number(self, node: object, where: str) -> int:
        if node not in self:
            raise unknown_node(node, f"`{where}`", self._nodes)
        return self._index[node]

    def _numbers(self, nodes: Nodes, where: str) -> list[int]:
        if nodes in self or isinstance(nodes, str | bytes) or not isinstance(nodes, Iterable):
            return [self._number(nodes, where)]
        return [self._number(node, where) for node in nodes]

    def _check_disjoint(self, a: str, one: list[int], b: str, other: list[int]) -> None:
        if shared := set(one).intersection(other):
            raise GraphError(
                f"Expected `{a}` and `{b}` without a common node, but both have "
                f"{listing(self._names(shared))}. Remove it from one of them."
            )

    def __contains__(self, node: object) -> bool:
        try:
            return node in self._index
        except TypeError:  # a list or a set of nodes is no node
            return False

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def _key(self) -> tuple[frozenset[Any], ...]:
        arcs = frozenset(map(frozenset, self.bidirected))
        return frozenset(self._nodes), frozenset(self.directed), arcs

    def __eq__(self, other: object) -> bool:
        """Same nodes and same edges; the order of nodes is how a graph is written, not what it is."""
        return self._key() == other._key() if isinstance(other, MixedGraph) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        kinds = f"{len(self.directed)} →" + (f", {len(self.bidirected)} ↔" if self.bidirected else "")
        return f"{type(self).__name__}({len(self)} nodes, {kinds})"
