"""Edges from matrices and from networkx graphs."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from fbed.graphs.errors import GraphError
from fbed.graphs.validate import Edge


def arrowheads_of_matrix(matrix: Any, nodes: Iterable[Hashable] | None) -> tuple[list[Hashable], list[Edge]]:
    """The nodes, and a pair (a, b) for every arrowhead at b, of a dense or sparse adjacency matrix."""
    heads = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    if heads.ndim != 2 or heads.shape[0] != heads.shape[1]:
        raise GraphError(f"Expected a square adjacency matrix, got shape {heads.shape}. Entry (i, j) stands for i → j.")
    if heads.dtype.kind not in "biuf" or (heads != heads).any():
        raise GraphError(
            f"Expected an adjacency matrix of numbers or booleans without NaN, got dtype {heads.dtype} with "
            f"{np.count_nonzero(heads != heads)} NaN. Mark an absent edge by 0."
        )
    names: list[Hashable] = list(range(len(heads)) if nodes is None else nodes)
    if len(names) != len(heads):
        raise GraphError(f"Expected {len(heads)} nodes, one for each row of the matrix, got {len(names)}.")
    return names, [(names[i], names[j]) for i, j in np.argwhere(heads)]


def arrowheads_of_networkx(graph: Any) -> tuple[list[Hashable], list[Edge]]:
    """The nodes, and a pair (a, b) for every arrowhead at b, of a directed networkx graph."""
    if not hasattr(graph, "is_directed") or not graph.is_directed():
        raise GraphError(
            f"Expected a directed networkx graph (DiGraph), got {type(graph).__name__}. Orient the edges of "
            "an undirected graph first."
        )
    return list(graph.nodes), [(a, b) for a, b, *_ in graph.edges]


def split_by_heads(nodes: list[Hashable], arrowheads: list[Edge]) -> tuple[list[Edge], list[Edge]]:
    """The directed edges, with one arrowhead, and the bidirected ones, with two."""
    heads, place = set(arrowheads), {node: i for i, node in enumerate(nodes)}
    directed = [(a, b) for a, b in arrowheads if a == b or (b, a) not in heads]
    bidirected = [(a, b) for a, b in arrowheads if place[a] < place[b] and (b, a) in heads]
    return directed, bidirected
