"""Walks on mixed graphs: one linear-time search answers separation, blankets and inducing paths.

Nodes are the integers 0 .. n-1 here. A walk enters a node by an arrowhead or by a tail, and whether it may go
on depends on that and on the end of the edge that it leaves by: head and head make the node a collider on the
walk, anything else a non-collider. Every question of this package is such a search, with its own sets of
nodes that may be passed as colliders and as non-colliders:

==================  ===========================  =====================
question            colliders                    non-colliders
==================  ===========================  =====================
m-connection        ancestors of the given set   all but the given set
collider path       all                          none
inducing path       ancestors of the endpoints   the hidden nodes
==================  ===========================  =====================

In all three, cutting a loop out of a walk leaves a walk that is allowed too. Hence a node that a walk can
reach can be reached by a path (no node twice), as the definitions ask, and a shortest walk is such a path.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Neighbours = tuple[tuple[int, ...], ...]
Pairs = Iterable[tuple[int, int]]


@dataclass(frozen=True)
class Links:
    """The edges of a mixed graph as lists of neighbours, and as moves of a walk.

    A walk's state is 2v + 1 when it entered node v by an arrowhead and 2v when by a tail.
    """

    parents: Neighbours
    children: Neighbours
    siblings: Neighbours
    by_head: Neighbours  # the states after leaving a node by an edge with an arrowhead at that node
    by_tail: Neighbours  # the same for a tail

    @classmethod
    def from_pairs(cls, n: int, directed: Pairs, bidirected: Pairs) -> "Links":
        """Links of the directed edges (from, to) and of the bidirected ones."""
        arrows, arcs = list(directed), list(bidirected)
        parents = _neighbours(n, ((b, a) for a, b in arrows))
        children = _neighbours(n, arrows)
        siblings = _neighbours(n, arcs + [(b, a) for a, b in arcs])
        by_head = tuple(
            tuple(2 * v for v in above) + tuple(2 * v + 1 for v in beside)
            for above, beside in zip(parents, siblings, strict=True)
        )
        by_tail = tuple(tuple(2 * v + 1 for v in below) for below in children)
        return cls(parents, children, siblings, by_head, by_tail)

    def renumbered(self, place: Sequence[int]) -> "Links":
        """The links when node v is called place[v]."""
        directed = [(place[a], place[b]) for a, below in enumerate(self.children) for b in below]
        bidirected = [(place[a], place[b]) for a, beside in enumerate(self.siblings) for b in beside if a < b]
        return Links.from_pairs(len(self), directed, bidirected)

    def __len__(self) -> int:
        return len(self.parents)

    def adjacent(self, node: int) -> set[int]:
        """All nodes that share an edge with `node`."""
        return {*self.parents[node], *self.children[node], *self.siblings[node]}


def _neighbours(n: int, pairs: Pairs) -> Neighbours:
    lists: list[list[int]] = [[] for _ in range(n)]
    for a, b in pairs:
        lists[a].append(b)
    return tuple(map(tuple, lists))


def mask(n: int, members: Iterable[int]) -> bytearray:
    """A set of nodes as one byte for each node: the cheapest membership test there is in Python."""
    flags = bytearray(n)
    for node in members:
        flags[node] = 1
    return flags


def closure(neighbours: Neighbours, start: Iterable[int]) -> list[int]:
    """`start` and everything reachable from it: ancestors, descendants or districts, by what is handed in."""
    found = list(dict.fromkeys(start))
    seen = mask(len(neighbours), found)
    for node in found:  # the list grows while it is read
        for following in neighbours[node]:
            if not seen[following]:
                seen[following] = 1
                found.append(following)
    return found


def reach(links: Links, sources: Iterable[int], collider: Sequence[int], noncollider: Sequence[int]) -> dict[int, int]:
    """All states of allowed walks from `sources`, breadth first, each with the state before it.

    A source may be passed freely, because what lies behind it is reached by the walk that starts there.
    """
    queue = [2 * source for source in sources]
    passing = bytearray(noncollider)
    for state in queue:
        passing[state >> 1] = 1
    previous = {state: state for state in queue}
    for state in queue:  # the list grows while it is read
        node = state >> 1
        through_head = collider[node] if state & 1 else passing[node]
        onward = links.by_head[node] if through_head else ()
        onward += links.by_tail[node] if passing[node] else ()
        for following in onward:
            if following not in previous:
                previous[following] = state
                queue.append(following)
    return previous


def m_connected(links: Links, sources: Iterable[int], given: Sequence[int]) -> set[int]:
    """All nodes that a walk from `sources` reaches when the nodes `given` are conditioned on."""
    n = len(links)
    collider = mask(n, closure(links.parents, given))
    noncollider = bytearray(b"\1") * n
    for node in given:
        noncollider[node] = 0
    return {state >> 1 for state in reach(links, sources, collider, noncollider)}


def collider_connected(links: Links, source: int) -> set[int]:
    """`source`, the nodes adjacent to it and all others that a collider path joins to it."""
    n = len(links)
    return {state >> 1 for state in reach(links, [source], bytearray(b"\1") * n, bytearray(n))}


def trace(previous: dict[int, int], step: int) -> list[int]:
    """The way from the start of a search, which is its own predecessor, to `step`."""
    steps = [step]
    while previous[step] != step:
        step = previous[step]
        steps.append(step)
    return steps[::-1]
