"""Random graphs."""

import numpy as np

from fbed.graphs.dag import DAG
from fbed.graphs.errors import GraphError
from fbed.graphs.mag import MAG
from fbed.graphs.sample import Seed


def random_dag(n_nodes: int, *, degree: float | None = None, density: float | None = None, seed: Seed = None) -> DAG:
    """A DAG in which every pair of nodes is adjacent with the same probability, along a random order of the
    nodes.

    Parameters
    ----------
    n_nodes : int
        The number of nodes; they are named 'X0', 'X1', ...
    degree : float
        The expected number of neighbours of a node; give this or `density`.
    density : float
        The probability that two nodes are adjacent.
    seed : int or numpy Generator, optional
        The source of randomness.
    """
    rng, probability = np.random.default_rng(seed), _probability(n_nodes, degree, density)
    earlier, later = np.triu_indices(n_nodes, k=1)
    kept = rng.random(len(earlier)) < probability
    order = rng.permutation(n_nodes)
    edges = zip(order[earlier[kept]].tolist(), order[later[kept]].tolist(), strict=True)
    return DAG([(f"X{a}", f"X{b}") for a, b in edges], [f"X{i}" for i in range(n_nodes)])


def random_mag(
    n_nodes: int,
    *,
    degree: float | None = None,
    density: float | None = None,
    n_hidden: int | None = None,
    seed: Seed = None,
) -> MAG:
    """The MAG over `n_nodes` nodes of a random DAG that has `n_hidden` further ones.

    Parameters
    ----------
    n_nodes : int
        The number of nodes of the MAG; they are named 'X0', 'X1', ...
    degree, density : float
        Expected number of neighbours, or probability of an edge, in the DAG; give one. The MAG is denser.
    n_hidden : int, optional
        By default half of `n_nodes`, rounded up.
    seed : int or numpy Generator, optional
        The source of randomness.
    """
    hidden = (n_nodes + 1) // 2 if n_hidden is None else n_hidden
    if hidden < 0:
        raise GraphError(f"Expected n_hidden ≥ 0, got {hidden!r}.")
    dag = random_dag(n_nodes + hidden, degree=degree, density=density, seed=seed)
    return dag.to_mag(dag.nodes[n_nodes:])  # a random subset, because random_dag orders the nodes at random


def _probability(n_nodes: int, degree: float | None, density: float | None) -> float:
    if not isinstance(n_nodes, int | np.integer) or n_nodes < 0:
        raise GraphError(f"Expected a whole number n_nodes ≥ 0, got {n_nodes!r}.")
    if (degree is None) == (density is None):
        raise GraphError(f"Expected either `degree` or `density`, got degree={degree!r} and density={density!r}.")
    probability = density if degree is None else degree / max(n_nodes - 1, 1)
    if probability is None or not 0 <= probability <= 1:
        raise GraphError(
            f"Expected a density between 0 and 1, or a degree between 0 and n_nodes - 1 = {n_nodes - 1}, got "
            f"degree={degree!r} and density={density!r}."
        )
    return float(probability)
