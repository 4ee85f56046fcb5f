"""The oracle: perfect tests, answered by a graph instead of data.

A variable passes when the graph connects it to the target given S (d-connection in a DAG, m-connection in a MAG), as
it would with infinitely many rows of a distribution that is faithful to the graph. The search cannot tell the
difference, so that what the paper proves about it can be run.

One walk from the target answers a whole scan. The nodes that it reaches outside S are those that depend on the target
given S. Those that it reaches inside S are the ones that depend on it given the rest of S: a walk to s in S needs no
collider that only s opens, because from such a collider it can go straight down to s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fbed.clock import check_time
from fbed.errors import InvalidInput
from fbed.graphs import MixedGraph, Node, Nodes
from fbed.graphs.walks import m_connected
from fbed.models.base import Indices
from fbed.rules.criteria import Criterion
from fbed.search.scan import Finding, Scan
from fbed.tables.table import Table

NAME = "oracle"
CRITERION = "perfect tests: connected to the target given the selected"

_RUNNERS_UP = 5  # as many as a scan of data keeps


class Oracle:
    """Answers the search's questions about a target from a graph.

    All variables that depend on the target tie, and the first of them in the order of the graph's nodes is chosen;
    `MixedGraph.reordered` gives another order.

    Parameters
    ----------
    graph : DAG or MAG
        What depends on what.
    target : node
        The outcome. The predictors are the other nodes, numbered from 0 in the order of the graph.

    Attributes
    ----------
    table : Table
        The predictors as a table without rows, so that results are made as those of data are.
    """

    def __init__(self, graph: MixedGraph, target: Node) -> None:
        self.graph = graph
        self._target = graph.positions([target], "y")[0]
        names = graph.nodes[: self._target] + graph.nodes[self._target + 1 :]
        nowhere = np.full(len(names), -1, dtype=np.intp)
        self.table = Table(np.empty((0, 0)), nowhere, {}, cast("tuple[str, ...]", names), 0)
        self._last: tuple[tuple[int, ...], NDArray[np.bool_]] | None = None

    def saturated(self, selected: Sequence[int]) -> bool:
        """Never: faithful distributions leave some noise."""
        return False

    def forward(self, selected: Sequence[int], candidates: Indices, everybody: bool = True) -> Scan:
        """Who is connected to the target given S?"""
        passes = self._reached(selected)[candidates]
        scan = _answer(candidates, passes, chosen_pass=True)
        return scan if everybody else replace(scan, passes=np.ones(len(candidates), dtype=bool))

    def backward(self, selected: Sequence[int], variables: Indices) -> Scan:
        """Who is connected to the target given the rest of S? The first of the others is removed."""
        keeps = self._reached(selected)[variables]
        return _answer(variables, keeps, chosen_pass=False)

    def predictors(self, nodes: Nodes, role: str) -> list[int]:
        """Numbers of predictors given as nodes."""
        numbers = self.graph.positions(nodes, role)
        if self._target in numbers:
            raise InvalidInput(f"{role} holds the target {self.graph.nodes[self._target]!r}: leave it out")
        return [number - (number > self._target) for number in numbers]

    def _reached(self, selected: Sequence[int]) -> NDArray[np.bool_]:
        """Which predictors a walk from the target reaches given S."""
        check_time()
        key = tuple(selected)
        if self._last is None or self._last[0] != key:
            given = [variable + (variable >= self._target) for variable in selected]
            reached = np.zeros(len(self.graph), dtype=bool)
            reached[list(m_connected(self.graph.links, [self._target], given))] = True
            self._last = key, np.delete(reached, self._target)
        return self._last[1]


def _answer(variables: Indices, passes: NDArray[np.bool_], *, chosen_pass: bool) -> Scan:
    """The scan whose chosen variable passes (to be added) or does not (to be removed); all such variables tie."""
    tied = np.sort(variables[passes if chosen_pass else ~passes])[: _RUNNERS_UP + 1].tolist()
    findings = tuple(_finding(variable, chosen_pass) for variable in tied)
    statistic = passes.astype(np.float64)
    return Scan(
        variables,
        passes,
        findings[0] if findings else None,
        findings[1:],
        statistic,
        statistic,
        np.ones(len(variables)),
    )


def _finding(variable: int, dependent: bool) -> Finding:
    """Statistic 1 and p-value 0 for a dependent variable, 0 and 1 for an independent one."""
    statistic = float(dependent)
    return Finding(variable, statistic, 1.0, -np.inf if dependent else 0.0, statistic, statistic)


def is_wanted(X: Any, family: object) -> bool:
    """Whether the arguments of `select` ask for the oracle."""
    return isinstance(X, MixedGraph) or (isinstance(family, str) and family == NAME)


def asked(X: Any, y: Any, family: object, criterion: Criterion, about_data: Mapping[str, Any]) -> Oracle:
    """The oracle that the arguments of `select` ask for; those in `about_data` mean nothing to it and must be None."""
    if not isinstance(X, MixedGraph):
        raise InvalidInput(
            f"family='oracle' answers from a graph: X must be a fbed.graphs.DAG or MAG, got {type(X).__name__}; "
            "DAG.from_networkx, DAG.from_bif and DAG.from_adjacency make one"
        )
    if family not in ("auto", NAME):
        raise InvalidInput(
            f"X is a graph, which has no rows for family={family!r}: use family='oracle', or draw data from a network "
            "(fbed.graphs.DiscreteNetwork, GaussianNetwork) and select on them"
        )
    if criterion.needs_likelihood:
        raise InvalidInput(
            f"{criterion!r} compares likelihoods, and a graph has none: leave the criterion out, the tests are perfect"
        )
    for name, value in about_data.items():
        if value is not None:
            raise InvalidInput(f"{name} is about data and models, and X is a graph: leave it out")
    return Oracle(X, y)
