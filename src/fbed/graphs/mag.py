"""Directed maximal ancestral graphs, and the projection of a graph on its observed nodes."""

from collections.abc import Iterable
from typing import Any, Self

from fbed.graphs.convert import arrowheads_of_matrix, arrowheads_of_networkx, split_by_heads
from fbed.graphs.inducing import ancestry, inducing_pairs
from fbed.graphs.mixed import MixedGraph, Node, Nodes
from fbed.graphs.validate import check_ancestral, check_maximal
from fbed.graphs.walks import mask


class MAG(MixedGraph):
    """A directed maximal ancestral graph: what a DAG says about those of its variables that are observed.

    Edges are a → b (a is an ancestor of b) and a ↔ b (neither is). There are no directed and no almost
    directed cycles, and every two nodes without an edge are separated by some set.

    Parameters
    ----------
    directed : iterable of pairs
        ``(a, b)`` for a → b.
    bidirected : iterable of pairs
        ``(a, b)`` for a ↔ b, in either order.
    nodes : iterable of hashables, optional
        All nodes, in the order wanted; by default those of the edges, in order of appearance.

    Raises
    ------
    GraphError
        For a self-loop, two edges between the same nodes, a directed or almost directed cycle, a pair that is
        not adjacent but joined by a primitive inducing path, and edges that are no pairs of nodes.

    Examples
    --------
    >>> g = MAG([("a", "t"), ("t", "c")], [("c", "d")])
    >>> sorted(g.markov_blanket("t"))
    ['a', 'c', 'd']
    """

    def __init__(
        self,
        directed: Iterable[Any] = (),
        bidirected: Iterable[Any] = (),
        nodes: Iterable[Node] | None = None,
    ) -> None:
        super().__init__(directed, bidirected, nodes)
        check_ancestral(self._links, self._nodes, self._order)
        check_maximal(self._links, self._nodes, self._order)

    @classmethod
    def from_adjacency(cls, matrix: Any, nodes: Iterable[Node] | None = None) -> Self:
        """The MAG whose arrowheads are the nonzero entries of a square matrix.

        Entry (i, j) alone stands for i → j, entries (i, j) and (j, i) together for i ↔ j.

        Parameters
        ----------
        matrix : array or sparse matrix of shape (n, n)
            The arrowheads.
        nodes : iterable of n hashables, optional
            Names of the rows; by default 0 .. n-1.
        """
        names, heads = arrowheads_of_matrix(matrix, nodes)
        return cls(*split_by_heads(names, heads), nodes=names)

    @classmethod
    def from_networkx(cls, graph: Any) -> Self:
        """The MAG of a networkx DiGraph, where edges in both directions stand for ↔."""
        names, heads = arrowheads_of_networkx(graph)
        return cls(*split_by_heads(names, heads), nodes=names)

    def to_mag(self, hidden: Nodes = ()) -> "MAG":
        """The MAG of the nodes outside `hidden`."""
        return project(self, hidden)


def project(graph: MixedGraph, hidden: Nodes) -> MAG:
    """The MAG over the nodes outside `hidden` that has exactly the graph's separations among them.

    Two nodes are adjacent when an inducing path relative to the hidden nodes joins them, that is, when no set
    of observed nodes separates them. The edge is x → y when x is an ancestor of y, and ↔ when neither is one.
    """
    links, names = graph._links, graph._nodes
    concealed = graph._numbers(hidden, "hidden")
    ancestors = ancestry(links, graph._order)
    directed, bidirected = [], []
    for x, y in inducing_pairs(links, ancestors, concealed):
        if ancestors[y, x] or ancestors[x, y]:
            directed.append((names[x], names[y]) if ancestors[y, x] else (names[y], names[x]))
        else:
            bidirected.append((names[x], names[y]))
    flags = mask(len(links), concealed)
    return MAG(directed, bidirected, [name for name, out in zip(names, flags, strict=True) if not out])
