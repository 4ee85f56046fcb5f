"""Bayesian networks of categorical variables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fbed.graphs.bif import read_bif
from fbed.graphs.dag import DAG
from fbed.graphs.errors import GraphError, about, listing
from fbed.graphs.mixed import Node
from fbed.graphs.probability import as_distributions
from fbed.graphs.sample import Sample, Seed, as_sample_size


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class ConditionalTable:
    """P(node | parents).

    Attributes
    ----------
    levels : tuple of str
        The values of the node.
    parents : tuple of nodes
        The parents, in the order of the axes.
    probabilities : array
        An axis for each parent and then one for the node itself, along which they sum to 1.
    """

    levels: tuple[str, ...]
    parents: tuple[Node, ...]
    probabilities: NDArray[np.float64]


class DiscreteNetwork:
    """A DAG with a table of conditional probabilities for every node.

    Parameters
    ----------
    tables : mapping of node to ConditionalTable
        In the order wanted for the nodes.

    Attributes
    ----------
    dag : DAG
        The structure.
    tables : dict
        The tables.
    """

    def __init__(self, tables: Mapping[Node, ConditionalTable]) -> None:
        self.dag = DAG(((parent, node) for node, table in tables.items() for parent in table.parents), tables)
        self.tables = {node: _checked(node, table, tables) for node, table in tables.items()}

    @classmethod
    def from_bif(cls, path: str | PathLike[str]) -> Self:
        """The network in a .bif or .bif.gz file."""
        file = read_bif(path)
        tables: dict[Node, ConditionalTable] = {
            name: ConditionalTable(levels, file.parents[name], file.tables[name])
            for name, levels in file.levels.items()
        }
        with about(path):
            return cls(tables)

    @classmethod
    def random(
        cls, dag: DAG, seed: Seed = None, *, levels: int | Mapping[Node, int] = 2, concentration: float = 1.0
    ) -> Self:
        """A network on a DAG whose distributions are drawn from a symmetric Dirichlet distribution.

        Parameters
        ----------
        dag : DAG
            The structure.
        seed : int or numpy Generator, optional
            The source of randomness.
        levels : int or mapping of node to int
            How many levels a node has; they are named 's0', 's1', ...
        concentration : float
            The parameter of the Dirichlet: 1 is uniform, less makes distributions more extreme and dependence
            stronger.
        """
        if not concentration > 0:
            raise GraphError(f"Expected concentration > 0, got {concentration!r}.")
        rng = np.random.default_rng(seed)
        counts = {node: _n_levels(node, levels) for node in dag.nodes}
        tables = {}
        for node in dag.nodes:
            parents = tuple(dag.in_order(dag.parents(node)))
            alpha = np.full(counts[node], concentration)
            rows = rng.dirichlet(alpha, size=tuple(counts[parent] for parent in parents))
            tables[node] = ConditionalTable(tuple(f"s{i}" for i in range(counts[node])), parents, rows)
        return cls(tables)

    def sample(self, n: int, seed: Seed = None) -> Sample:
        """`n` independent rows.

        Parameters
        ----------
        n : int
            The number of rows.
        seed : int or numpy Generator, optional
            The source of randomness.

        Returns
        -------
        Sample
            A dict from node to an array of `n` labels, with `to_frame`.
        """
        size, rng = as_sample_size(n), np.random.default_rng(seed)
        codes: dict[Node, NDArray[np.intp]] = {}
        for node in self.dag.topological_order():
            table = self.tables[node]
            codes[node] = _draw(table.probabilities, [codes[parent] for parent in table.parents], rng.random(size))
        return Sample({node: np.array(self.tables[node].levels)[codes[node]] for node in self.dag.nodes})

    def __repr__(self) -> str:
        return f"DiscreteNetwork({len(self.dag)} nodes, {self.dag.n_edges} →)"


def _checked(node: Node, table: ConditionalTable, tables: Mapping[Node, ConditionalTable]) -> ConditionalTable:
    levels = tuple(table.levels)
    if not levels or len(set(levels)) < len(levels) or not all(isinstance(level, str) for level in levels):
        raise GraphError(f"Expected one or more different levels of text for node {node!r}, got {listing(levels)}.")
    shape = (*(len(tables[parent].levels) for parent in table.parents), len(levels))
    if np.shape(table.probabilities) != shape:
        raise GraphError(
            f"Expected probabilities of shape {shape} for node {node!r} (an axis for each of its parents "
            f"{listing(table.parents)}, then its own levels), got shape {np.shape(table.probabilities)}."
        )
    probabilities = as_distributions(table.probabilities, f"The table of node {node!r}")
    return ConditionalTable(levels, tuple(table.parents), probabilities)


def _n_levels(node: Node, levels: int | Mapping[Node, int]) -> int:
    count = levels.get(node) if isinstance(levels, Mapping) else levels
    if not isinstance(count, int | np.integer) or count < 1:
        raise GraphError(f"Expected `levels` to give a whole number ≥ 1 for node {node!r}, got {count!r}.")
    return int(count)


def _draw(
    table: NDArray[np.float64], parents: Iterable[NDArray[np.intp]], uniform: NDArray[np.float64]
) -> NDArray[np.intp]:
    """A level for every row, by inverting the distribution function of the row's parents' levels."""
    rows = np.zeros(len(uniform), dtype=np.intp)
    for codes, size in zip(parents, table.shape[:-1], strict=True):
        rows = rows * size + codes
    cumulative = table.reshape(-1, table.shape[-1]).cumsum(axis=1)
    # Exactly 1 from the last possible level on, so that rounding never draws an impossible one.
    cumulative /= cumulative[:, -1:]
    return np.asarray(sum((uniform >= bound[rows] for bound in cumulative.T[:-1]), start=np.zeros_like(rows)))
