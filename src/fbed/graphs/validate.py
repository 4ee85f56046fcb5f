"""What makes a list of edges a graph of the paper, with errors that show the offending edges or path."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from fbed.graphs.acyclic import directed_path, find_cycle, topological_order
from fbed.graphs.errors import GraphError, listing, unknown_node
from fbed.graphs.inducing import ancestry, inducing_pairs, inducing_path
from fbed.graphs.walks import Links

Edge = tuple[Hashable, Hashable]
Names = Sequence[Hashable]


def as_edges(edges: Iterable[object], arrow: str) -> list[Edge]:
    """The edges as pairs of nodes."""
    if isinstance(edges, str | bytes) or not isinstance(edges, Iterable):
        raise GraphError(
            f"Expected a list of {arrow} edges, each a pair (a, b) for a {arrow} b, got {edges!r}. "
            "Pass for example [('a', 'b'), ('b', 'c')]."
        )
    return [_as_edge(edge, arrow) for edge in edges]


def _as_edge(edge: object, arrow: str) -> Edge:
    # Text and sets are iterable too, but 'ab' is most likely a name and a set has no direction.
    if not isinstance(edge, tuple | list | np.ndarray) or len(edge) != 2:
        raise GraphError(
            f"Expected each {arrow} edge as a pair (a, b) for a {arrow} b, got {edge!r}. Pass a list of "
            "pairs, or use from_networkx or from_adjacency for a graph in another form."
        )
    return _as_node(edge[0]), _as_node(edge[1])


def _as_node(node: object) -> Hashable:
    try:
        hash(node)
    except TypeError:
        raise GraphError(
            f"Expected nodes that are hashable, got {node!r} of type {type(node).__name__}. "
            "Name nodes by strings, numbers or tuples."
        ) from None
    return node


def node_order(nodes: Iterable[Hashable] | None, edges: Iterable[Edge]) -> tuple[Hashable, ...]:
    """The nodes as given, or else as first seen in the edges."""
    if nodes is None:
        return tuple(dict.fromkeys(node for edge in edges for node in edge))
    if isinstance(nodes, str | bytes):
        raise GraphError(f"Expected a list of nodes, got the text {nodes!r}. Pass [{nodes!r}] for one node.")
    names = [_as_node(node) for node in nodes]
    if repeated := [node for node, count in Counter(names).items() if count > 1]:
        raise GraphError(f"Expected every node once in `nodes`, but {listing(repeated)} came again. Remove the copies.")
    return tuple(names)


def numbered(edges: Iterable[Edge], index: Mapping[Hashable, int]) -> list[tuple[int, int]]:
    """The edges by number of node."""
    return [(_number(a, (a, b), index), _number(b, (a, b), index)) for a, b in edges]


def _number(node: Hashable, edge: Edge, index: Mapping[Hashable, int]) -> int:
    if node not in index:
        raise unknown_node(node, f"edge {edge!r}", index)
    return index[node]


def check_simple(edges: Iterable[Edge]) -> None:
    """No self-loops, and at most one edge between two nodes."""
    seen: set[frozenset[Hashable]] = set()
    for a, b in edges:
        if a == b:
            raise GraphError(f"The edge from {a!r} to itself is a self-loop, which no DAG or MAG has. Remove it.")
        if (pair := frozenset((a, b))) in seen:
            raise GraphError(
                f"There is more than one edge between {a!r} and {b!r}; two nodes of a DAG or MAG share at "
                "most one, whatever its direction. Keep one of them."
            )
        seen.add(pair)


def check_acyclic(links: Links, names: Names) -> tuple[int, ...]:
    """The topological order of a graph without directed cycles."""
    order = topological_order(links)
    if len(order) < len(links):
        cycle = " → ".join(repr(names[node]) for node in find_cycle(links, order))
        raise GraphError(f"The graph has the directed cycle {cycle}. Remove or reverse one of these edges.")
    return tuple(order)


def check_ancestral(links: Links, names: Names, order: Iterable[int]) -> None:
    """No almost directed cycle: x ↔ y where x is an ancestor of y."""
    ancestors = ancestry(links, order)
    for x, beside in enumerate(links.siblings):
        for y in beside:
            if ancestors[y, x]:
                path = " → ".join(repr(names[node]) for node in directed_path(links.children, x, y))
                raise GraphError(
                    f"The graph has an almost directed cycle: {names[x]!r} ↔ {names[y]!r}, but {path}. In a "
                    "MAG neither end of ↔ is an ancestor of the other: drop the ↔ edge, or break the "
                    "directed path."
                )


def check_maximal(links: Links, names: Names, order: Iterable[int]) -> None:
    """No two non-adjacent nodes with a primitive inducing path between them."""
    if not any(links.siblings):  # a primitive inducing path has ↔ edges inside, so a DAG has none
        return
    ancestors = ancestry(links, order)
    for x, y in inducing_pairs(links, ancestors, ()):
        if y not in links.adjacent(x):
            path = arrows(links, names, inducing_path(links, ancestors, bytes(len(links)), x, y))
            raise GraphError(
                f"The graph is not maximal: {names[x]!r} and {names[y]!r} are not adjacent, but the "
                f"primitive inducing path {path} joins them, so that no set separates them. Add an edge "
                "between them: → when one is an ancestor of the other, else ↔."
            )


def arrows(links: Links, names: Names, path: Sequence[int]) -> str:
    """A path as text, with its arrows."""
    text = repr(names[path[0]])
    for a, b in pairwise(path):
        mark = "→" if b in links.children[a] else "←" if b in links.parents[a] else "↔"
        text += f" {mark} {names[b]!r}"
    return text
