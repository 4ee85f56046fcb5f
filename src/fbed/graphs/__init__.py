"""Graphs that say what depends on what: separation, Markov blankets, latent projection and simulation.

`DAG` and `MAG` answer questions about conditional independence; `DiscreteNetwork` and `GaussianNetwork` put a
distribution on a DAG and draw data from it, so that a selection can be compared with the true Markov blanket.
"""

from fbed.graphs.dag import DAG
from fbed.graphs.discrete import ConditionalTable, DiscreteNetwork
from fbed.graphs.errors import GraphError
from fbed.graphs.gaussian import GaussianNetwork, LinearEquation
from fbed.graphs.mag import MAG
from fbed.graphs.mixed import MixedGraph, Node, Nodes
from fbed.graphs.picture import draw_blanket
from fbed.graphs.random_graphs import random_dag, random_mag
from fbed.graphs.recovery import Recovery
from fbed.graphs.roles import BLANKET_ROLES, Role
from fbed.graphs.sample import Sample

__all__ = [
    "BLANKET_ROLES",
    "DAG",
    "MAG",
    "ConditionalTable",
    "DiscreteNetwork",
    "GaussianNetwork",
    "GraphError",
    "LinearEquation",
    "MixedGraph",
    "Node",
    "Nodes",
    "Recovery",
    "Role",
    "Sample",
    "draw_blanket",
    "random_dag",
    "random_mag",
]
