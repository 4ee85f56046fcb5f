"""Directed acyclic graphs."""

from collections.abc import Iterable
from os import PathLike
from typing import Any, Self

from fbed.graphs.bif import read_bif
from fbed.graphs.convert import arrowheads_of_matrix, arrowheads_of_networkx
from fbed.graphs.errors import about
from fbed.graphs.mag import MAG, project
from fbed.graphs.mixed import MixedGraph, Node, Nodes
from fbed.graphs.validate import Edge


class DAG(MixedGraph):
    """A directed acyclic graph.

    Parameters
    ----------
    edges : iterable of pairs
        ``(a, b)`` for a → b.
    nodes : iterable of hashables, optional
        All nodes, in the order wanted; by default those of the edges, in order of appearance.

    Raises
    ------
    GraphError
        For a directed cycle, a self-loop, two edges between the same nodes, and edges that are no pairs of
        nodes.

    Examples
    --------
    >>> g = DAG([("t", "c"), ("s", "c")])
    >>> g.separated("t", "s", ()), g.separated("t", "s", "c")
    (True, False)
    """

    def __init__(self, edges: Iterable[Any] = (), nodes: Iterable[Node] | None = None) -> None:
        super().__init__(edges, (), nodes)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges a → b as pairs (a, b), by order of a."""
        return self.directed

    @classmethod
    def from_adjacency(cls, matrix: Any, nodes: Iterable[Node] | None = None) -> Self:
        """The DAG with an edge i → j for every nonzero entry (i, j) of a square matrix.

        Parameters
        ----------
        matrix : array or sparse matrix of shape (n, n)
            Zero where there is no edge; weights are allowed and ignored.
        nodes : iterable of n hashables, optional
            Names of the rows; by default 0 .. n-1.
        """
        names, edges = arrowheads_of_matrix(matrix, nodes)
        return cls(edges, names)

    @classmethod
    def from_networkx(cls, graph: Any) -> Self:
        """The DAG of a networkx DiGraph."""
        names, edges = arrowheads_of_networkx(graph)
        return cls(edges, names)

    @classmethod
    def from_bif(cls, path: str | PathLike[str]) -> Self:
        """The structure of the network in a .bif or .bif.gz file (`DiscreteNetwork` has the tables too)."""
        network = read_bif(path)
        edges = [(parent, node) for node, above in network.parents.items() for parent in above]
        with about(path):
            return cls(edges, network.levels)

    def to_mag(self, hidden: Nodes = ()) -> MAG:
        """The MAG of the nodes outside `hidden`: exactly the separations that the DAG has among them."""
        return project(self, hidden)
