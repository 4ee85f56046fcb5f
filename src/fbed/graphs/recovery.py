"""How well a selection recovers a Markov blanket."""

from collections.abc import Iterable

from fbed.graphs.errors import GraphError
from fbed.graphs.mixed import MixedGraph, Node, Nodes
from fbed.graphs.roles import ROLES, Role


class Recovery:
    """A set of nodes compared with the Markov blanket of a target.

    Parameters
    ----------
    graph : DAG or MAG
        The truth.
    target : node
        Whose blanket.
    found : nodes
        What was selected for it.

    Attributes
    ----------
    blanket, found, hit, missed, extra : tuple of nodes
        The blanket, what was found, what is in both, and what is in only one of them; in the order of the graph.
    roles : dict
        What every node is to the target, as `MixedGraph.roles` has it.

    Examples
    --------
    >>> from fbed.graphs import DAG, Recovery
    >>> r = Recovery(DAG([("t", "c"), ("s", "c"), ("c", "d")]), "t", ["c", "d"])
    >>> r.missed, r.extra, r.precision, r.recall
    (('s',), ('d',), 0.5, 0.5)
    """

    def __init__(self, graph: MixedGraph, target: Node, found: Nodes) -> None:
        self.graph = graph
        self.target = target
        self.roles: dict[Node, Role] = graph.roles(target)
        blanket, chosen = graph.markov_blanket(target), set(graph.in_order(found))
        if target in chosen:
            raise GraphError(f"The target {target!r} is among the nodes found for it. Remove it from them.")
        self.blanket = self._sorted(blanket)
        self.found = self._sorted(chosen)
        self.hit = self._sorted(blanket & chosen)
        self.missed = self._sorted(blanket - chosen)
        self.extra = self._sorted(chosen - blanket)

    def _sorted(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        return tuple(self.graph.in_order(nodes))

    @property
    def precision(self) -> float:
        """The part of what was found that is in the blanket; 1 when nothing was found, as nothing is wrong then."""
        return len(self.hit) / len(self.found) if self.found else 1.0

    @property
    def recall(self) -> float:
        """The part of the blanket that was found; 1 when the blanket is empty, as nothing is missing then."""
        return len(self.hit) / len(self.blanket) if self.blanket else 1.0

    @property
    def f1(self) -> float:
        """2·hit / (found + blanket), the harmonic mean of precision and recall; 1 when both sets are empty."""
        size = len(self.found) + len(self.blanket)
        return 2 * len(self.hit) / size if size else 1.0

    @property
    def exact(self) -> bool:
        """Whether the blanket was found, neither more nor less."""
        return not self.missed and not self.extra

    def by_role(self, nodes: Iterable[Node]) -> dict[Role, list[Node]]:
        """The nodes under what they are to the target, in the order of `Role`; roles without a node are left out."""
        grouped: dict[Role, list[Node]] = {}
        for node in nodes:
            grouped.setdefault(self.roles[node], []).append(node)
        return {role: grouped[role] for role in ROLES if role in grouped}

    def role_recall(self, role: Role) -> tuple[int, int]:
        """How many of the nodes with a role were found, and how many there are."""
        members = [node for node in self.blanket if self.roles[node] == role]
        return len(set(members).intersection(self.found)), len(members)
